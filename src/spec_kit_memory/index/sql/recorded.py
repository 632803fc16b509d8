"""How is the recorded data of a checkout read for `record_check`, which compares it with the ledger?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from spec_kit_memory.core.memory import Attributes, Link, Memory, Origin
from spec_kit_memory.index import record_check, rows
from spec_kit_memory.index.sql.dialect import Connection, fetch, first
from spec_kit_memory.index.sql.documents import effective
from spec_kit_memory.index.sql.recorder import load

_PAGE = 2_000


class Recorded:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def is_shared(self) -> bool:
        return len(self._connection.checkouts()) > 1

    def ledger(self) -> Iterable[tuple[tuple[Any, ...], bool]]:
        sql = (
            f"SELECT {rows.LEDGER}, @here FROM ledger WHERE project_id = @p AND sequence > ? ORDER BY sequence LIMIT ?"
        )
        for row in self._pages(sql, (0,), lambda row: (row[0],)):
            yield row[:-1], bool(row[-1])

    def history(self, *, numbered: bool) -> Iterable[tuple[Any, ...]]:
        names = ", ".join(record_check.NAMES)
        if numbered:
            sql = (
                f"SELECT {names} FROM history WHERE project_id = @p AND (ledger_sequence, sequence) > (?, ?)"
                " ORDER BY ledger_sequence, sequence LIMIT ?"
            )
            return self._pages(sql, (-1, -1), lambda row: (row[1], row[0]))
        sql = (
            f"SELECT {names} FROM history WHERE project_id = @p AND ledger_sequence IS NULL AND sequence > ?"
            " ORDER BY sequence LIMIT ?"
        )
        return self._pages(sql, (0,), lambda row: (row[0],))

    def texts(self) -> Iterable[tuple[str, bytes]]:
        sql = "SELECT hash, text FROM content WHERE project_id = @p AND hash > ? ORDER BY hash LIMIT ?"
        return ((hash_, text) for hash_, text in self._pages(sql, ("",), lambda row: (row[0],)))

    def _pages(self, sql: str, after: Sequence[Any], key: Any) -> Iterator[tuple[Any, ...]]:
        """Read in pages, because a client receives the whole result of a statement at once."""
        while page := fetch(self._connection, sql, (*after, _PAGE)):
            yield from page
            after = key(page[-1])

    def memories_with(self, content_hash: str) -> list[int]:
        sql = "SELECT id FROM memory WHERE project_id = @p AND content_hash = ? ORDER BY id LIMIT 5"
        return [id_ for (id_,) in fetch(self._connection, sql, (content_hash,))]

    def memory_ids(self) -> list[int]:
        return [id_ for (id_,) in fetch(self._connection, "SELECT id FROM memory WHERE project_id = @p ORDER BY id")]

    def memory(self, memory_id: int) -> Memory | None:
        return load(self._connection, memory_id)

    def states(self, history_sequence: int) -> tuple[str, str | None, str | None]:
        sql = "SELECT event, before, after FROM history WHERE project_id = @p AND sequence = ?"
        event, before, after = first(self._connection, sql, (history_sequence,))
        return event, before, after

    def effective(self, memory_id: int) -> tuple[Attributes, bool] | None:
        sql = "SELECT raw_hash FROM document WHERE project_id = @p AND memory_id = ?"
        return effective(self._connection, memory_id) if self._connection.execute(sql, (memory_id,)).get else None

    def links_by_hand(self) -> Iterable[Link]:
        sql = f"SELECT {rows.LINK} FROM link WHERE project_id = @p AND origin = ?"
        return [rows.link_from(row) for row in fetch(self._connection, sql, (str(Origin.HAND),))]
