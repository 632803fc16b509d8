"""Is the index sound, and what can be mended in place?

Repair never invents: text and passages come from what is recorded, vectors are computed again,
and a broken ledger is only reported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial

import apsw

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Change, Event, LedgerEntry, Memory, Mutation, Scope
from spec_kit_memory.core.wording import counted
from spec_kit_memory.index.sqlite import queries, record_check, rows, text_index
from spec_kit_memory.index.sqlite.connection import Database, fetch, first
from spec_kit_memory.index.sqlite.failures import damaged
from spec_kit_memory.index.sqlite.recorder import Recorder, load
from spec_kit_memory.index.sqlite.schema import RECORDED

__all__ = ["LARGE", "SECONDS", "Soundness", "check", "repair"]

LARGE = 100_000_000  # bytes; up to here even a quick check looks at everything, which takes less than a second
SECONDS = 2.0  # what a quick check gives to a larger one
_STEPS = 20_000  # of SQLite's machine, between two looks at the clock
_ENTRIES = 500  # of the ledger, likewise
_BULKY = ("passage", "passage_fts", "passage_fts_data", "vector", "token_state")
_SESSION_DAYS = 30  # a session that nobody used for so long is over
_LIVE = "SELECT id FROM memory WHERE presence = 'live'"
_BELIEVED_SECONDS = 60.0
_BLINK_SECONDS = 0.05
_LISTED = ("memory", "history")
# What answers are looked up in, the smallest first.
_LOOKED_AT = (
    "counter",
    "alias",
    "usage",
    "memory",
    "document",
    "content",
    "history",
    "passage",
    "passage_fts_idx",
    "passage_fts_data",
    "passage_fts_docsize",
    "passage_fts",
)

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
_STRAY_VECTORS = "SELECT id FROM vector WHERE hash NOT IN (SELECT hash FROM passage)"
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
    ("documents", _NO_DOCUMENT, "{} memories must be read from their files again: run `index()`"),
    ("documents", _NO_TEXT, "{} memories have lost their text: run `index(force=True)`"),
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
    ("vectors", _STRAY_VECTORS, "{} vectors belong to no passage"),
    ("vectors", _BAD_VECTORS, "{} vectors have the wrong size"),
)


def check(
    database: Database, scope: Scope | None, *, now: datetime | None = None, quick: bool = False
) -> dict[str, list[str]]:
    with database.reading() as connection:
        large = first(connection, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0] > LARGE
    watch = _Watch(SECONDS if quick and large else None)
    found: dict[str, list[str]] = {"integrity": [], "documents": [], "links": [], "text index": [], "vectors": []}
    with database.reading() as connection:
        found["sessions"] = _old_sessions(connection, now) if now else []
        _count(connection, watch, found, _QUICK_FAULTS)
    # A connection of its own: one that has searched keeps the text index's outline, and SQLite's check of the
    # whole file trusts that outline even where others have written since, and calls it corruption.
    with database.apart() as fresh:
        found["integrity"] += _integrity(fresh) if watch.endless else _integrity_of(RECORDED, fresh, watch)
    found["ledger"] = _ledger(database, watch)
    if not quick:
        found["record"] = record_check.check(database)
    with database.reading() as connection:
        _count(connection, watch, found, _SLOW_FAULTS)
    if not watch.endless:
        with database.apart() as fresh:
            found["integrity"] += _integrity_of(_made_again(fresh), fresh, watch)
    found = {name: list(dict.fromkeys(said)) for name, said in found.items()}
    if scope is not None:
        # Counts would tell a scope about memories that it may not see.
        found = {name: [f"{name}: something is wrong; run `health()`"] if said else [] for name, said in found.items()}
    return found | ({"unfinished": watch.unfinished} if watch.unfinished else {})


class Soundness:
    """Is "there is nothing" to be believed? What was looked at for it is checked, once a minute at most.

    SQLite reads over some damage without a word, and then rows or words are just not there.
    """

    def __init__(self) -> None:
        self._checked_at: dict[str, float] = {}

    def require(self, database: Database, *, quick: bool) -> None:
        """`quick`: what lists and numbers are made of, and only for the blink of an eye."""
        before = time.monotonic() - _BELIEVED_SECONDS
        tables = [name for name in (_LISTED if quick else _LOOKED_AT) if self._checked_at.get(name, before) <= before]
        if not tables:
            return
        watch = _Watch(_BLINK_SECONDS if quick else SECONDS)
        with database.apart() as fresh:
            for table in tables:
                faults = watch.look("integrity", partial(_sound, table=table), fresh)
                if faults:
                    raise damaged(database.path, faults[0])
                self._checked_at[table] = time.monotonic()


class _Watch:
    """Ends what takes too long, and remembers what was not looked at to the end. Without seconds it never does."""

    def __init__(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds
        self.unfinished: list[str] = []

    @property
    def endless(self) -> bool:
        return self._until is None

    def is_over(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def look(self, name: str, at: Callable[[apsw.Connection], list[str]], connection: apsw.Connection) -> list[str]:
        if self.endless:
            return at(connection)
        if not self.is_over():
            connection.set_progress_handler(self.is_over, _STEPS)
            try:
                return at(connection)
            except apsw.InterruptError:
                pass
            finally:
                connection.set_progress_handler(None)
        self.left(name)
        return []

    def left(self, name: str) -> None:
        if name not in self.unfinished:
            self.unfinished.append(name)


def _count(
    connection: apsw.Connection, watch: _Watch, found: dict[str, list[str]], faults: Iterable[tuple[str, str, str]]
) -> None:
    for name, sql, said in faults:
        found[name] += watch.look(name, partial(_counted, sql=sql, said=said), connection)


def _counted(connection: apsw.Connection, *, sql: str, said: str) -> list[str]:
    try:
        count = first(connection, f"SELECT count(*) FROM ({sql})")[0]
    except apsw.CorruptError as error:
        return [f"cannot be read: {error}; run `index(rebuild=True)`"]
    return [said.format(count)] if count else []


def _ledger(database: Database, watch: _Watch) -> list[str]:
    """From the first entry on; what comes after a cut is the end of the chain, and to `verify` it is no gap."""

    def in_time() -> Iterator[LedgerEntry]:
        for number, entry in enumerate(queries.ledger_entries(database, None)):
            if number % _ENTRIES == 0 and watch.is_over():
                watch.left("ledger")
                return
            yield entry

    broken = ledger.verify(in_time())
    return [broken.reason] if broken else []


def _integrity(connection: apsw.Connection) -> list[str]:
    said = [row[0] for row in fetch(connection, "PRAGMA integrity_check(20)") if row[0] != "ok"]
    return said + _loose(connection)


def _integrity_of(tables: Iterable[str], connection: apsw.Connection, watch: _Watch) -> list[str]:
    """Table by table. Pages that belong to no table are left to the whole check."""
    said: list[str] = []
    for table in tables:
        for part in (_sound, _loose):
            said += watch.look("integrity", partial(part, table=table), connection)
    return said


def _made_again(connection: apsw.Connection) -> list[str]:
    """What could be made again if it were damaged, the largest last."""
    tables = [row[0] for row in fetch(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return sorted(set(tables) - set(RECORDED), key=lambda name: (name in _BULKY, name))


def _sound(connection: apsw.Connection, *, table: str) -> list[str]:
    return [row[0] for row in fetch(connection, f"PRAGMA integrity_check('{table}')") if row[0] != "ok"][:20]


def _loose(connection: apsw.Connection, *, table: str = "") -> list[str]:
    sql = f"PRAGMA foreign_key_check('{table}')" if table else "PRAGMA foreign_key_check"
    return [
        f"row {rowid} of {child} points to a missing row of {parent}"
        for child, rowid, parent, _ in fetch(connection, sql)[:20]
    ]


def _old_sessions(connection: apsw.Connection, now: datetime) -> list[str]:
    count = first(connection, "SELECT count(*) FROM session WHERE seen_at < ?", (_session_limit(now),))[0]
    return (
        [f"{counted(count, 'session was', 'sessions were')} last used more than {_SESSION_DAYS} days ago"]
        if count
        else []
    )


def _session_limit(now: datetime) -> int | None:
    return rows.micros(now - timedelta(days=_SESSION_DAYS))


# --- repair


def repair(database: Database, change: Change) -> dict[str, int]:
    """One transaction; the answer counts what was mended."""
    with database.writing() as connection:
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


_DELETIONS = (
    ("links", "link", "id", _ORPHANED_LINKS),
    ("states", "token_state", "vector_id", _STRAY_STATES),
    ("text index", "passage_fts", "rowid", _STRAY_WORDS),
    ("triggers", '"trigger"', "memory_id", _STRAY_TRIGGERS),
    ("vectors", "vector", "id", f"{_STRAY_VECTORS} UNION {_BAD_VECTORS}"),
)


def _delete(connection: apsw.Connection, table: str, key: str, sql: str) -> int:
    found = fetch(connection, sql)
    connection.executemany(f"DELETE FROM {table} WHERE {key} = ?", found)
    return len(found)


def _index_again(connection: apsw.Connection, recorder: Recorder) -> int:
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


def _mend_vectors(connection: apsw.Connection) -> int:
    lost = fetch(connection, f"{_LOST_VECTORS} UNION {_UNUSED_VECTORS}")
    connection.executemany(
        "UPDATE passage SET vector_id = (SELECT vector.id FROM vector WHERE vector.hash = passage.hash"
        " AND model = (SELECT max(id) FROM model)) WHERE id = ?",
        lost,
    )
    ids = [row[0] for row in fetch(connection, "SELECT memory_id FROM document")]
    text_index.refresh_status(connection, ids)
    return len(lost)


def _retry(connection: apsw.Connection) -> int:
    """Embeddings that were given up get another three tries."""
    ids = [row[0] for row in fetch(connection, "SELECT DISTINCT memory_id FROM passage JOIN failure USING (hash)")]
    connection.execute("DELETE FROM failure")
    text_index.refresh_status(connection, ids)
    return len(ids)


def _blob(connection: apsw.Connection, memory: Memory | None) -> bytes | None:
    found = fetch(connection, "SELECT text FROM content WHERE hash = ?", (memory.content_hash,)) if memory else []
    return found[0][0] if found else None
