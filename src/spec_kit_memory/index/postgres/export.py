"""How is a project's index read and written table by table, for a transfer to or from another engine?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spec_kit_memory.core.memory import Passage
from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.index.postgres import text_index
from spec_kit_memory.index.postgres.connection import Connection
from spec_kit_memory.index.sql import passage_rows
from spec_kit_memory.index.sql.dialect import first
from spec_kit_memory.index.transfer import TransferTable

_NUMBERED = {"memory": "id", "link": "id", "history": "sequence", "vector": "id", "model": "id"}


class PostgresTables:
    """Used within one transaction: a read of one snapshot, or a write."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        used = "SELECT count(DISTINCT checkout_id) FROM ledger WHERE project_id = @p"
        if first(connection, used)[0] > 1:
            raise DatabaseUnusable(
                "several checkouts share this project, and a copy holds one",
                hint="copy the whole database with pg_dump, or index a checkout into a project of its own",
            )

    def rows(self, table: TransferTable) -> Iterator[tuple[Any, ...]]:
        columns = [name.strip() for name in table.columns.split(",")]
        order = ", ".join(str(at + 1) for at in range(min(3, len(columns))))
        is_vector = table.name == "vector"
        shown = ", ".join("vector_send(vector)" if is_vector and name == "vector" else name for name in columns)
        for row in self._connection.binary(f"SELECT {shown} FROM {table.name} WHERE project_id = @p ORDER BY {order}"):
            yield (*row[:-1], text_index.vector_from(row[-1])) if is_vector else row

    def counters(self) -> Mapping[str, int]:
        sql = "SELECT generation, used, epoch FROM counter WHERE project_id = @p"
        return dict(zip(("generation", "used", "epoch"), first(self._connection, sql), strict=True))

    def write(self, table: TransferTable, values: Sequence[tuple[Any, ...]]) -> None:
        marks = ["?"] * len(table.columns.split(","))
        if table.name == "vector":
            marks[-1] = "?::@vector"
            values = [(*row[:-1], text_index.vector_text(row[-1])) for row in values]
        sql = f"INSERT INTO {table.name} (project_id, {table.columns}) VALUES (@p, {', '.join(marks)})"
        self._connection.executemany(sql, values)

    def index(self, memory_id: int, title: str, passages: Sequence[Passage], *, live: bool) -> None:
        passage_rows.index(self._connection, memory_id, title, passages, keep=False)
        if not live:
            text_index.hide(self._connection, memory_id)

    def finish(self, counters: Mapping[str, int]) -> None:
        last = ", ".join(
            f"last_{kind} = greatest(last_{kind}, (SELECT coalesce(max({key}), 0) FROM {kind} WHERE project_id = @p))"
            for kind, key in _NUMBERED.items()
        )
        self._connection.execute(
            "UPDATE counter SET generation = greatest(generation, :generation) + 1, used = greatest(used, :used),"
            f" epoch = epoch + 1, {last} WHERE project_id = @p",
            {"generation": counters["generation"], "used": counters["used"]},
        )
