"""What is wrong with the index, and what can be repaired?

The server keeps its own pages sound; this module checks that our tables agree with each other.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from spec_kit_memory.advice import Text, finding
from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Change, Event, Mutation
from spec_kit_memory.index import record_check, rows
from spec_kit_memory.index.contract import Index, Rebuilt, TableReport
from spec_kit_memory.index.postgres.connection import Connection, Database
from spec_kit_memory.index.postgres.view import PostgresShared
from spec_kit_memory.index.sql import dialect, passage_rows
from spec_kit_memory.index.sql.dialect import fetch, first
from spec_kit_memory.index.sql.record import Record
from spec_kit_memory.index.sql.recorder import Recorder, load
from spec_kit_memory.index.sql.repair import (
    DOCUMENT_FAULTS,
    LIVE,
    MISCOUNTED,
    STRAY_TRIGGERS,
    VECTOR_FAULTS,
    Fault,
    Recorded,
    Repairs,
    ledger_end,
    links_out_of_step,
    old_sessions,
)

if TYPE_CHECKING:
    from spec_kit_memory.core.memory import Memory

_RECORDED = ("memory", "content", "usage", "override", "citation", "link", "history", "ledger", "session")
_BAD_VECTORS = (
    "SELECT id FROM vector WHERE project_id = @p AND vector_dims(vector) <>"
    " (SELECT dimensions FROM model WHERE project_id = @p ORDER BY id DESC LIMIT 1)"
)
_LOOPS = "SELECT id FROM link WHERE project_id = @p AND source_id = target_id"
_FAULTS: tuple[Fault, ...] = (
    ("links", _LOOPS, "links-without-end"),
    *DOCUMENT_FAULTS,
    *VECTOR_FAULTS,
    ("vectors", _BAD_VECTORS, "vectors-of-wrong-size"),
)
_DELETIONS = (
    ("links", "link", "id", _LOOPS),
    ("triggers", '"trigger"', "memory_id", STRAY_TRIGGERS),
    ("vectors", "vector", "id", _BAD_VECTORS),
)


class Care(Repairs):
    _shared: PostgresShared
    _database: Database
    _deletions = _DELETIONS

    def check(self, *, now: datetime | None = None, quick: bool = False) -> dict[str, list[Text]]:
        faults: dict[str, list[Text]] = {"integrity": [], "documents": [], "links": [], "text index": [], "vectors": []}
        with self._shared.database.reading() as connection:  # unscoped: a scoped caller learns only that a check failed
            faults["sessions"] = [*old_sessions(connection, now)] if now else []
            for name, sql, code in _FAULTS:
                count = first(connection, f"SELECT count(*) FROM ({sql}) AS found")[0]
                faults[name] += [finding(code, count=count)] if count else []
        broken = ledger.verify(Record(self._shared, None).ledger())
        with self._shared.database.reading() as connection:
            faults["ledger"] = [broken.reason] if broken else ledger_end(connection)
        if not quick:
            with self._shared.database.apart() as connection:
                faults["record"] = [*record_check.check(Recorded(connection))]
                faults["links"] += links_out_of_step(connection)
        if self._scope is None:
            return faults
        # Counts would tell a scope about memories that it may not see.
        return {name: [finding("check-failed", check=name)] if message else [] for name, message in faults.items()}

    def _index_again(self, connection: dialect.Connection, recorder: Recorder) -> int:
        """A memory without its passages is left for the next scan."""
        ids = [row[0] for row in fetch(connection, MISCOUNTED)]
        for memory_id in ids:
            memory: Memory | None = load(connection, memory_id)
            if memory is None:
                continue
            for table in ("passage", "document"):
                connection.execute(f"DELETE FROM {table} WHERE project_id = @p AND memory_id = ?", (memory_id,))
            recorder.entry(Mutation.REINDEX, memory, memory_id, event=Event.UPDATE)
        return len(ids)

    def rebuild(self, change: Change, fill: Callable[[Index], object] = lambda index: None) -> Rebuilt:
        """Rebuild in one transaction: until it commits, others read the old state and writers wait.

        Passages and postings are rebuilt from the recorded text, under new ids; then `fill` reads every file anew.
        Vectors are kept, because they are keyed by the hash of the text.
        """
        with self._database.together(), self._database.writing() as connection:
            tables = {
                name: TableReport(first(connection, f"SELECT count(*) FROM {name} WHERE project_id = @p")[0])
                for name in _RECORDED
            }
            recorder = Recorder(connection, change)
            connection.execute("DELETE FROM posting WHERE project_id = @p")
            connection.execute(
                "UPDATE document SET raw_hash = '', size = 0, mtime_ns = 0, seen_ns = 0 WHERE project_id = @p"
            )
            every = connection.checkouts()
            for checkout in every:  # all checkouts share the postings
                with connection.within(checkout):
                    for (memory_id,) in fetch(connection, f"{LIVE} ORDER BY id"):
                        _show_again(connection, memory_id)
            fill(self._shared.whole)
            with connection.within(*every):
                connection.execute("UPDATE memory SET changed = ? WHERE project_id = @p", (recorder.generation,))
            connection.raised("epoch")
        return Rebuilt(Path(), tables)


def _show_again(connection: Connection, memory_id: int) -> None:
    memory = load(connection, memory_id)
    if memory is not None:
        sql = "SELECT text FROM content WHERE project_id = @p AND hash = ?"
        blob = connection.execute(sql, (memory.content_hash,)).get
        if blob is not None:
            passage_rows.reindex_passages(connection, memory_id, memory.title, rows.unpack(blob))
