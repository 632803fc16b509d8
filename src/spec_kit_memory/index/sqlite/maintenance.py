"""Is the index sound, and what can be mended in place?

Repair never invents: text and passages come from what is recorded, vectors are computed again,
and a broken ledger is only reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import apsw

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Change, Event, LedgerEntry, Memory, Mutation
from spec_kit_memory.core.wording import counted
from spec_kit_memory.index import record_check, rows
from spec_kit_memory.index.contract import Index, Rebuilt
from spec_kit_memory.index.sql.dialect import fetch, first
from spec_kit_memory.index.sql.record import Record
from spec_kit_memory.index.sql.recorded import Recorded
from spec_kit_memory.index.sql.recorder import Recorder, load
from spec_kit_memory.index.sql.restore import Checkpoints
from spec_kit_memory.index.sql.statistics import Statistics
from spec_kit_memory.index.sqlite import text_index
from spec_kit_memory.index.sqlite.connection import Connection, Database
from spec_kit_memory.index.sqlite.schema import RECORDED
from spec_kit_memory.index.sqlite.soundness import SECONDS, Watch, integrity, integrity_of
from spec_kit_memory.index.sqlite.view import SqliteShared

__all__ = ["LARGE", "Care"]

LARGE = 100_000_000  # bytes; up to here even a quick check looks at everything, which takes less than a second
_ENTRIES = 500  # of the ledger, likewise
_BULKY = ("passage", "passage_fts", "passage_fts_data", "vector", "token_state")
_SESSION_DAYS = 30  # a session that nobody used for so long is over
_LIVE = "SELECT id FROM memory WHERE presence = 'live'"

# Faults by name: what to count, and how to say it. Passages of live memories are in the text index, others not.
_UNINDEXED = (
    f"SELECT DISTINCT memory_id FROM passage WHERE memory_id IN ({_LIVE}) AND id NOT IN (SELECT rowid FROM passage_fts)"
)
_STRAY_WORDS = f"SELECT rowid FROM passage_fts WHERE rowid NOT IN (SELECT id FROM passage WHERE memory_id IN ({_LIVE}))"
_MISCOUNTED = (
    "SELECT memory_id FROM document WHERE passages <>"
    " (SELECT count(*) FROM passage WHERE passage.memory_id = document.memory_id)"
)
_LOST_VECTORS = "SELECT id FROM passage WHERE vector_id IS NOT NULL AND vector_id NOT IN (SELECT id FROM vector)"
_UNUSED_VECTORS = "SELECT id FROM passage WHERE vector_id IS NULL AND hash IN (SELECT hash FROM vector)"
_BAD_VECTORS = (
    "SELECT id FROM vector WHERE length(vector) <> 4 * (SELECT dimensions FROM model ORDER BY id DESC LIMIT 1)"
)
_STRAY_STATES = "SELECT vector_id FROM token_state WHERE vector_id NOT IN (SELECT id FROM vector)"
_FALSE_SUCCESS = (
    "SELECT memory_id FROM document WHERE vector_status = 'success' AND memory_id IN"
    " (SELECT memory_id FROM passage WHERE vector_id IS NULL)"
)
_NO_DOCUMENT = f"SELECT id FROM memory WHERE id IN ({_LIVE}) AND id NOT IN (SELECT memory_id FROM document)"
_NO_TEXT = "SELECT id FROM memory WHERE content_hash NOT IN (SELECT hash FROM content)"
_ORPHANED_LINKS = (
    "SELECT id FROM link WHERE source_id = target_id OR source_id NOT IN (SELECT id FROM memory)"
    " OR target_id NOT IN (SELECT id FROM memory)"
)
_STRAY_TRIGGERS = f'SELECT memory_id FROM "trigger" WHERE memory_id NOT IN ({_LIVE})'

# A quick check of a large index may not come to the slow ones.
_QUICK_FAULTS: tuple[tuple[str, str, str], ...] = (
    ("links", _ORPHANED_LINKS, "{} links have lost an end"),
    ("documents", _NO_DOCUMENT, "{} memories must be read from their files again"),
    ("documents", _NO_TEXT, "{} memories have lost their text"),
    ("text index", _STRAY_TRIGGERS, "{} trigger phrases belong to memories that are gone"),
    ("text index", _MISCOUNTED, "{} memories have lost or doubled passages"),
    ("text index", _UNINDEXED, "{} memories have passages that are not in the text index"),
    ("text index", _STRAY_WORDS, "{} entries of the text index belong to no passage"),
)
_SLOW_FAULTS: tuple[tuple[str, str, str], ...] = (
    ("vectors", _STRAY_STATES, "{} token states belong to no vector"),
    ("vectors", _FALSE_SUCCESS, "{} memories are marked as embedded and are not"),
    ("vectors", _LOST_VECTORS, "{} passages name a vector that does not exist"),
    ("vectors", _UNUSED_VECTORS, "{} passages have a vector that they do not use"),
    ("vectors", _BAD_VECTORS, "{} vectors have the wrong size"),
)


class Care(Statistics, Checkpoints):
    _shared: SqliteShared
    _database: Database

    def check(self, *, now: datetime | None = None, quick: bool = False) -> dict[str, list[str]]:
        with self._database.reading() as connection:
            large = (
                first(connection, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0] > LARGE
            )
        watch = Watch(SECONDS if quick and large else None)
        found: dict[str, list[str]] = {"integrity": [], "documents": [], "links": [], "text index": [], "vectors": []}
        with self._database.reading() as connection:
            found["sessions"] = _old_sessions(connection, now) if now else []
            _count(connection, watch, found, _QUICK_FAULTS)
        # A connection of its own: one that has searched keeps the text index's outline, and SQLite's check of the
        # whole file trusts that outline even where others have written since, and calls it corruption.
        with self._database.apart() as fresh:
            found["integrity"] += integrity(fresh) if watch.endless else integrity_of(RECORDED, fresh, watch)
        found["ledger"] = self._ledger(watch)
        if not quick:
            with self._database.apart() as fresh:
                found["record"] = record_check.check(Recorded(fresh))
        with self._database.reading() as connection:
            _count(connection, watch, found, _SLOW_FAULTS)
        if not watch.endless:
            with self._database.apart() as fresh:
                found["integrity"] += integrity_of(_made_again(fresh), fresh, watch)
        found = {name: list(dict.fromkeys(said)) for name, said in found.items()}
        if self._scope is not None:
            # Counts would tell a scope about memories that it may not see.
            found = {name: [f"{name}: something is wrong"] if said else [] for name, said in found.items()}
        return found | ({"unfinished": watch.unfinished} if watch.unfinished else {})

    def repair(self, change: Change) -> dict[str, int]:
        """One transaction; the answer counts what was mended."""
        with self._database.writing() as connection:
            recorder = Recorder(connection, change)
            mended = {"text index": _index_again(connection, recorder)}
            for name, table, key, sql in _DELETIONS:
                mended[name] = mended.get(name, 0) + _delete(connection, table, key, sql)
            mended["vectors"] += _mend_vectors(connection)
            connection.execute("DELETE FROM session WHERE seen_at < ?", (_session_limit(change.at),))
            mended["sessions"] = connection.changes()
            mended["retried"] = _retry(connection)
            if any(mended.values()):
                connection.execute("UPDATE memory SET changed = ?", (recorder.generation,))
                connection.execute("UPDATE counter SET epoch = epoch + 1")
            return {name: count for name, count in mended.items() if count}

    def rebuild(self, change: Change, fill: Callable[[Index], object] = lambda index: None) -> Rebuilt:
        from spec_kit_memory.index.sqlite import rebuild

        def complete(path: Path) -> None:
            with closing(self._shared.opened(path)) as fresh:
                fill(fresh)

        return rebuild.rebuild(self._database, change, complete)

    def _ledger(self, watch: Watch) -> list[str]:
        """From the first entry on; what comes after a cut is the end of the chain, and to `verify` it is no gap."""

        def in_time() -> Iterator[LedgerEntry]:
            for number, entry in enumerate(Record(self._shared, None).ledger()):
                if number % _ENTRIES == 0 and watch.is_over():
                    watch.left("ledger")
                    return
                yield entry

        broken = ledger.verify(in_time())
        return [broken.reason] if broken else []


def _count(
    connection: Connection, watch: Watch, found: dict[str, list[str]], faults: Iterable[tuple[str, str, str]]
) -> None:
    for name, sql, said in faults:
        found[name] += watch.look(name, partial(_counted, sql=sql, said=said), connection)


def _counted(connection: Connection, *, sql: str, said: str) -> list[str]:
    try:
        count = first(connection, f"SELECT count(*) FROM ({sql})")[0]
    except apsw.CorruptError as error:
        return [f"cannot be read: {error}"]
    return [said.format(count)] if count else []


def _made_again(connection: Connection) -> list[str]:
    """What could be made again if it were damaged, the largest last."""
    tables = [row[0] for row in fetch(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return sorted(set(tables) - set(RECORDED), key=lambda name: (name in _BULKY, name))


def _old_sessions(connection: Connection, now: datetime) -> list[str]:
    count = first(connection, "SELECT count(*) FROM session WHERE seen_at < ?", (_session_limit(now),))[0]
    return (
        [f"{counted(count, 'session was', 'sessions were')} last used more than {_SESSION_DAYS} days ago"]
        if count
        else []
    )


def _session_limit(now: datetime) -> int | None:
    return rows.micros(now - timedelta(days=_SESSION_DAYS))


# --- repair


_DELETIONS = (
    ("links", "link", "id", _ORPHANED_LINKS),
    ("states", "token_state", "vector_id", _STRAY_STATES),
    ("text index", "passage_fts", "rowid", _STRAY_WORDS),
    ("triggers", '"trigger"', "memory_id", _STRAY_TRIGGERS),
    ("vectors", "vector", "id", _BAD_VECTORS),
)


def _delete(connection: Connection, table: str, key: str, sql: str) -> int:
    found = fetch(connection, sql)
    connection.executemany(f"DELETE FROM {table} WHERE {key} = ?", found)
    return len(found)


def _index_again(connection: Connection, recorder: Recorder) -> int:
    """From the recorded text; a memory without its passages is left for the next scan."""
    ids = [row[0] for row in fetch(connection, f"{_UNINDEXED} UNION {_MISCOUNTED}")]
    for memory_id in ids:
        memory = load(connection, memory_id)
        blob = _blob(connection, memory)
        if memory is None or blob is None:
            continue
        kept = first(connection, "SELECT count(*) FROM passage WHERE memory_id = ?", (memory_id,))[0]
        if kept != memory.passages:
            connection.execute(
                "DELETE FROM passage_fts WHERE rowid IN (SELECT id FROM passage WHERE memory_id = ?)", (memory_id,)
            )
            connection.execute("DELETE FROM passage WHERE memory_id = ?", (memory_id,))
            connection.execute("DELETE FROM document WHERE memory_id = ?", (memory_id,))
        elif memory.presence == "live":
            text_index.show_again(connection, memory_id, memory.title, rows.unpack(blob))
        recorder.entry(Mutation.REINDEX, memory, memory_id, event=Event.UPDATE)
    return len(ids)


def _mend_vectors(connection: Connection) -> int:
    lost = fetch(connection, f"{_LOST_VECTORS} UNION {_UNUSED_VECTORS}")
    connection.executemany(
        "UPDATE passage SET vector_id = (SELECT vector.id FROM vector WHERE vector.hash = passage.hash"
        " AND model = (SELECT max(id) FROM model)) WHERE id = ?",
        lost,
    )
    ids = [row[0] for row in fetch(connection, "SELECT memory_id FROM document")]
    text_index.refresh_status(connection, ids)
    return len(lost)


def _retry(connection: Connection) -> int:
    """Embeddings that were given up get another three tries."""
    ids = [row[0] for row in fetch(connection, "SELECT DISTINCT memory_id FROM passage JOIN failure USING (hash)")]
    connection.execute("DELETE FROM failure")
    text_index.refresh_status(connection, ids)
    return len(ids)


def _blob(connection: Connection, memory: Memory | None) -> bytes | None:
    found = fetch(connection, "SELECT text FROM content WHERE hash = ?", (memory.content_hash,)) if memory else []
    return found[0][0] if found else None
