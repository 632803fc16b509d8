"""What does the file have on record, for the check against its ledger?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apsw

from spec_kit_memory.core.memory import Attributes, Link, Memory, Origin
from spec_kit_memory.index import record_check, rows
from spec_kit_memory.index.sqlite.connection import fetch
from spec_kit_memory.index.sqlite.documents import effective
from spec_kit_memory.index.sqlite.recorder import load

__all__ = ["Recorded"]


class Recorded:
    is_shared = False

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def ledger(self) -> Iterable[tuple[tuple[Any, ...], bool]]:
        for row in self._connection.execute(f"SELECT {rows.LEDGER} FROM ledger ORDER BY sequence"):
            yield row, True

    def history(self, *, numbered: bool) -> Iterable[tuple[Any, ...]]:
        test = "IS NOT NULL ORDER BY ledger_sequence, sequence" if numbered else "IS NULL ORDER BY sequence"
        names = ", ".join(record_check.NAMES)
        return self._connection.execute(f"SELECT {names} FROM history WHERE ledger_sequence {test}")

    def texts(self) -> Iterable[tuple[str, bytes]]:
        yield from self._connection.execute("SELECT hash, text FROM content")

    def memories_with(self, content_hash: str) -> list[int]:
        sql = "SELECT id FROM memory WHERE content_hash = ? LIMIT 5"
        return [id_ for (id_,) in fetch(self._connection, sql, (content_hash,))]

    def memory_ids(self) -> list[int]:
        return [id_ for (id_,) in fetch(self._connection, "SELECT id FROM memory ORDER BY id")]

    def memory(self, memory_id: int) -> Memory | None:
        return load(self._connection, memory_id)

    def states(self, history_sequence: int) -> tuple[str, str | None, str | None]:
        sql = "SELECT event, before, after FROM history WHERE sequence = ?"
        event, before, after = fetch(self._connection, sql, (history_sequence,))[0]
        return event, before, after

    def effective(self, memory_id: int) -> tuple[Attributes, bool] | None:
        read = fetch(self._connection, "SELECT raw_hash FROM document WHERE memory_id = ?", (memory_id,))
        return effective(self._connection, memory_id) if read and read[0][0] else None

    def links_by_hand(self) -> Iterable[Link]:
        sql = f"SELECT {rows.LINK} FROM link WHERE origin = ?"
        return [rows.link_from(row) for row in fetch(self._connection, sql, (str(Origin.HAND),))]
