"""How is a file's index read and written table by table, for a transfer to or from another engine?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spec_kit_memory.core.memory import Passage
from spec_kit_memory.index.sql import passage_rows
from spec_kit_memory.index.sql.dialect import first
from spec_kit_memory.index.sqlite import text_index
from spec_kit_memory.index.sqlite.connection import Connection
from spec_kit_memory.index.transfer import TransferTable


class SqliteTables:
    """Used within one transaction: a read of one snapshot, or a write."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, table: TransferTable) -> Iterator[tuple[Any, ...]]:
        flags = [name.strip() in table.booleans for name in table.columns.split(",")]
        order = ", ".join(str(at + 1) for at in range(min(3, len(flags))))
        for row in self._connection.execute(f"SELECT {table.columns} FROM {table.name} ORDER BY {order}"):
            yield tuple(
                bool(value) if flag and value is not None else value for value, flag in zip(row, flags, strict=True)
            )

    def counters(self) -> Mapping[str, int]:
        names = ("generation", "used", "epoch")
        return dict(zip(names, first(self._connection, "SELECT generation, used, epoch FROM counter"), strict=True))

    def write(self, table: TransferTable, values: Sequence[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * len(table.columns.split(",")))
        self._connection.executemany(f"INSERT INTO {table.name} ({table.columns}) VALUES ({marks})", values)

    def index(self, memory_id: int, title: str, passages: Sequence[Passage], *, live: bool) -> None:
        passage_rows.index(self._connection, memory_id, title, passages, keep=False)
        if not live:
            text_index.hide(self._connection, memory_id)

    def finish(self, counters: Mapping[str, int]) -> None:
        self._connection.execute(
            "UPDATE counter SET generation = max(generation, :generation) + 1, used = max(used, :used),"
            " epoch = epoch + 1",
            {"generation": counters["generation"], "used": counters["used"]},
        )
