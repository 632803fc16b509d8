"""What is wrong with the index, and what can be mended?

The server keeps its own pages sound; here is looked at what our tables say together.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Change, Event, Mutation
from spec_kit_memory.core.wording import counted
from spec_kit_memory.index import record_check, rows
from spec_kit_memory.index.contract import Index, Rebuilt, TableReport
from spec_kit_memory.index.postgres import text_index
from spec_kit_memory.index.postgres.connection import Connection, Database
from spec_kit_memory.index.postgres.view import PostgresShared
from spec_kit_memory.index.sql.dialect import fetch, first
from spec_kit_memory.index.sql.record import Record
from spec_kit_memory.index.sql.recorded import Recorded
from spec_kit_memory.index.sql.recorder import Recorder, load
from spec_kit_memory.index.sql.restore import Checkpoints
from spec_kit_memory.index.sql.statistics import Statistics

if TYPE_CHECKING:
    from spec_kit_memory.core.memory import Memory

__all__ = ["Care"]

_RECORDED = ("memory", "content", "usage", "override", "citation", "link", "history", "ledger", "session")
_SESSION_DAYS = 30  # a session that nobody used for so long is over
_LIVE = "SELECT id FROM memory WHERE project_id = @p AND presence = 'live'"

# Faults by name: what to count, and how to say it.
_MISCOUNTED = (
    "SELECT memory_id FROM document WHERE project_id = @p AND passages <> (SELECT count(*) FROM passage"
    " WHERE passage.project_id = @p AND passage.memory_id = document.memory_id)"
)
_LOST_VECTORS = (
    "SELECT id FROM passage WHERE project_id = @p AND vector_id IS NOT NULL AND NOT EXISTS"
    " (SELECT 1 FROM vector WHERE vector.project_id = @p AND vector.id = vector_id)"
)
_UNUSED_VECTORS = (
    "SELECT id FROM passage WHERE project_id = @p AND vector_id IS NULL AND EXISTS"
    " (SELECT 1 FROM vector WHERE vector.project_id = @p AND vector.hash = passage.hash)"
)
_BAD_VECTORS = (
    "SELECT id FROM vector WHERE project_id = @p AND vector_dims(vector) <>"
    " (SELECT dimensions FROM model WHERE project_id = @p ORDER BY id DESC LIMIT 1)"
)
_FALSE_SUCCESS = (
    "SELECT memory_id FROM document WHERE project_id = @p AND vector_status = 'success' AND memory_id IN"
    " (SELECT memory_id FROM passage WHERE project_id = @p AND vector_id IS NULL)"
)
_NO_DOCUMENT = (
    f"SELECT id FROM memory WHERE project_id = @p AND id IN ({_LIVE}) AND NOT EXISTS"
    " (SELECT 1 FROM document WHERE document.project_id = @p AND memory_id = memory.id)"
)
_NO_TEXT = (
    "SELECT id FROM memory WHERE project_id = @p AND NOT EXISTS"
    " (SELECT 1 FROM content WHERE content.project_id = @p AND hash = content_hash)"
)
_LOOPS = "SELECT id FROM link WHERE project_id = @p AND source_id = target_id"
_STRAY_TRIGGERS = f'SELECT memory_id FROM "trigger" WHERE project_id = @p AND memory_id NOT IN ({_LIVE})'

_FAULTS: tuple[tuple[str, str, str], ...] = (
    ("links", _LOOPS, "{} links have lost an end"),
    ("documents", _NO_DOCUMENT, "{} memories must be read from their files again"),
    ("documents", _NO_TEXT, "{} memories have lost their text"),
    ("text index", _STRAY_TRIGGERS, "{} trigger phrases belong to memories that are gone"),
    ("text index", _MISCOUNTED, "{} memories have lost or doubled passages"),
    ("vectors", _FALSE_SUCCESS, "{} memories are marked as embedded and are not"),
    ("vectors", _LOST_VECTORS, "{} passages name a vector that does not exist"),
    ("vectors", _UNUSED_VECTORS, "{} passages have a vector that they do not use"),
    ("vectors", _BAD_VECTORS, "{} vectors have the wrong size"),
)
_DELETIONS = (
    ("links", "link", "id", _LOOPS),
    ("triggers", '"trigger"', "memory_id", _STRAY_TRIGGERS),
    ("vectors", "vector", "id", _BAD_VECTORS),
)


class Care(Statistics, Checkpoints):
    _shared: PostgresShared
    _database: Database

    def check(self, *, now: datetime | None = None, quick: bool = False) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {"integrity": [], "documents": [], "links": [], "text index": [], "vectors": []}
        with self._shared.database.reading() as connection:  # all of it: a scope is told that something is wrong
            found["sessions"] = _old_sessions(connection, now) if now else []
            for name, sql, said in _FAULTS:
                count = first(connection, f"SELECT count(*) FROM ({sql}) AS found")[0]
                found[name] += [said.format(count)] if count else []
        broken = ledger.verify(Record(self._shared, None).ledger())
        found["ledger"] = [broken.reason] if broken else []
        if not quick:
            with self._shared.database.apart() as connection:
                found["record"] = record_check.check(Recorded(connection))
        if self._scope is None:
            return found
        # Counts would tell a scope about memories that it may not see.
        return {name: [f"{name}: something is wrong"] if said else [] for name, said in found.items()}

    def repair(self, change: Change) -> dict[str, int]:
        """One transaction; the answer counts what was mended."""
        with self._database.writing() as connection:
            recorder = Recorder(connection, change)
            mended = {"text index": _index_again(connection, recorder)}
            for name, table, key, sql in _DELETIONS:
                found = [row[0] for row in fetch(connection, sql)]
                test = f"DELETE FROM {table} WHERE project_id = @p AND {key} = ANY(?::bigint[])"
                connection.execute(test, (found,))
                mended[name] = mended.get(name, 0) + len(found)
            mended["vectors"] += _mend_vectors(connection)
            sql = "DELETE FROM session WHERE project_id = @p AND seen_at < ?"
            mended["sessions"] = connection.execute(sql, (_session_limit(change.at),)).changed
            mended["retried"] = _retry(connection)
            if any(mended.values()):
                connection.execute("UPDATE memory SET changed = ? WHERE project_id = @p", (recorder.generation,))
                connection.execute("UPDATE counter SET epoch = epoch + 1 WHERE project_id = @p")
            return {name: count for name, count in mended.items() if count}

    def rebuild(self, change: Change, fill: Callable[[Index], object] = lambda index: None) -> Rebuilt:
        """All in one transaction: others read what was there until it is done, and who would write waits.

        Passages and words are made again from the recorded text, under new ids; then `fill` reads every file anew.
        Vectors stay: they are keyed by the words.
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
            for checkout in every:  # they share the words
                with connection.within(checkout):
                    for (memory_id,) in fetch(connection, f"{_LIVE} ORDER BY id"):
                        _show_again(connection, memory_id)
            fill(self._shared.whole)
            with connection.within(*every):
                connection.execute("UPDATE memory SET changed = ? WHERE project_id = @p", (recorder.generation,))
            connection.execute("UPDATE counter SET epoch = epoch + 1 WHERE project_id = @p")
        return Rebuilt(Path(), tables)


def _old_sessions(connection: Connection, now: datetime) -> list[str]:
    sql = "SELECT count(*) FROM session WHERE project_id = @p AND seen_at < ?"
    count = first(connection, sql, (_session_limit(now),))[0]
    said = f"{counted(count, 'session was', 'sessions were')} last used more than {_SESSION_DAYS} days ago"
    return [said] if count else []


def _session_limit(now: datetime) -> int | None:
    return rows.micros(now - timedelta(days=_SESSION_DAYS))


def _index_again(connection: Connection, recorder: Recorder) -> int:
    """A memory without its passages is left for the next scan."""
    ids = [row[0] for row in fetch(connection, _MISCOUNTED)]
    for memory_id in ids:
        memory: Memory | None = load(connection, memory_id)
        if memory is None:
            continue
        for table in ("passage", "document"):
            connection.execute(f"DELETE FROM {table} WHERE project_id = @p AND memory_id = ?", (memory_id,))
        recorder.entry(Mutation.REINDEX, memory, memory_id, event=Event.UPDATE)
    return len(ids)


def _show_again(connection: Connection, memory_id: int) -> None:
    memory = load(connection, memory_id)
    if memory is not None:
        sql = "SELECT text FROM content WHERE project_id = @p AND hash = ?"
        blob = connection.execute(sql, (memory.content_hash,)).get
        if blob is not None:
            text_index.show_again(connection, memory_id, memory.title, rows.unpack(blob))


def _mend_vectors(connection: Connection) -> int:
    lost = [row[0] for row in fetch(connection, f"{_LOST_VECTORS} UNION {_UNUSED_VECTORS}")]
    connection.execute(
        "UPDATE passage SET vector_id = (SELECT vector.id FROM vector WHERE vector.project_id = @p"
        " AND vector.hash = passage.hash AND model = (SELECT max(id) FROM model WHERE project_id = @p))"
        " WHERE project_id = @p AND id = ANY(?::bigint[])",
        (lost,),
    )
    ids = [row[0] for row in fetch(connection, "SELECT memory_id FROM document WHERE project_id = @p")]
    text_index.refresh_status(connection, ids)
    return len(lost)


def _retry(connection: Connection) -> int:
    """Embeddings that were given up get another three tries."""
    sql = (
        "SELECT DISTINCT memory_id FROM passage JOIN failure ON failure.project_id = @p AND failure.hash = passage.hash"
        " WHERE passage.project_id = @p"
    )
    ids = [row[0] for row in fetch(connection, sql)]
    connection.execute("DELETE FROM failure WHERE project_id = @p")
    text_index.refresh_status(connection, ids)
    return len(ids)
