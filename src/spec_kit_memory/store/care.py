"""Is the index sound, and what can be mended? Checks, repair, and a new start for what is derived.

Repair never invents: text and passages come from what is recorded, vectors are computed again,
and a broken ledger is only reported.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import apsw

from spec_kit_memory.core.memory import Change, Event, Memory, Mutation, Scope
from spec_kit_memory.store import passages, reading, rows
from spec_kit_memory.store.database import Database, fetch, first
from spec_kit_memory.store.record import Recorder, load
from spec_kit_memory.store.writing import set_attributes

__all__ = ["check", "rebuild", "repair"]

_SESSION_DAYS = 30  # a session that nobody used for so long is over
_LIVE = "SELECT id FROM memory WHERE presence = 'live'"
_CHAT = "SELECT id FROM memory WHERE path GLOB 'chat://*'"

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

_FAULTS: dict[str, tuple[tuple[str, str], ...]] = {
    "text index": (
        (_UNINDEXED, "{} memories have passages that are not in the text index"),
        (_STRAY_WORDS, "{} entries of the text index belong to no passage"),
        (_MISCOUNTED, "{} memories have lost or doubled passages"),
        (_STRAY_TRIGGERS, "{} trigger phrases belong to memories that are gone"),
    ),
    "vectors": (
        (_LOST_VECTORS, "{} passages name a vector that does not exist"),
        (_UNUSED_VECTORS, "{} passages have a vector that they do not use"),
        (_STRAY_VECTORS, "{} vectors belong to no passage"),
        (_BAD_VECTORS, "{} vectors have the wrong size"),
        (_STRAY_STATES, "{} token states belong to no vector"),
        (_FALSE_SUCCESS, "{} memories are marked as embedded and are not"),
    ),
    "documents": (
        (_NO_DOCUMENT, "{} memories must be read from their files again: run `skm index`"),
        (_NO_TEXT, "{} memories have lost their text: run `skm index --force`"),
    ),
    "links": ((_ORPHANED_LINKS, "{} links have lost an end"),),
}


def check(database: Database, scope: Scope | None, *, now: datetime | None = None) -> dict[str, list[str]]:
    # A connection of its own: one that has searched keeps the text index's outline, and SQLite's check of the
    # whole file trusts that outline even where others have written since, and calls it corruption.
    with database.apart() as fresh:
        found = {"integrity": _integrity(fresh)}
    with database.reading() as connection:
        for name, faults in _FAULTS.items():
            found[name] = _counted(connection, faults)
        found["sessions"] = _old_sessions(connection, now) if now else []
    broken = reading.verify_ledger(database)
    found["ledger"] = [broken.reason] if broken else []
    if scope is None:
        return found
    # Counts would tell a scope about memories that it may not see.
    return {name: [f"{name}: something is wrong; run `skm health`"] if said else [] for name, said in found.items()}


def _counted(connection: apsw.Connection, faults: tuple[tuple[str, str], ...]) -> list[str]:
    try:
        counted = [(first(connection, f"SELECT count(*) FROM ({sql})")[0], said) for sql, said in faults]
    except apsw.CorruptError as error:
        return [f"cannot be read: {error}; run `skm index --rebuild`"]
    return [said.format(count) for count, said in counted if count]


def _integrity(connection: apsw.Connection) -> list[str]:
    said = [row[0] for row in fetch(connection, "PRAGMA integrity_check(20)") if row[0] != "ok"]
    loose = fetch(connection, "PRAGMA foreign_key_check")
    return said + [
        f"row {rowid} of {table} points to a missing row of {parent}" for table, rowid, parent, _ in loose[:20]
    ]


def _old_sessions(connection: apsw.Connection, now: datetime) -> list[str]:
    count = first(connection, "SELECT count(*) FROM session WHERE seen_at < ?", (_session_limit(now),))[0]
    return [f"{count} sessions were last used more than {_SESSION_DAYS} days ago"] if count else []


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
            passages.show_again(connection, memory_id, memory.title, rows.unpack(blob))
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
    passages.refresh_status(connection, ids)
    return len(lost)


def _retry(connection: apsw.Connection) -> int:
    """Embeddings that were given up get another three tries."""
    ids = [row[0] for row in fetch(connection, "SELECT DISTINCT memory_id FROM passage JOIN failure USING (hash)")]
    connection.execute("DELETE FROM failure")
    passages.refresh_status(connection, ids)
    return len(ids)


# --- rebuild


def rebuild(database: Database) -> None:
    """Empty what is derived. Conversations are in no file: theirs is indexed again from the recorded text."""
    with database.writing() as connection:
        connection.execute("UPDATE counter SET generation = generation + 1")
        _renew_text_index(connection)
        for table in ("token_state", "failure", "bad_file", "alias", "claim"):
            connection.execute(f"DELETE FROM {table}")
        connection.execute("UPDATE passage SET vector_id = NULL")
        connection.execute("DELETE FROM vector")
        connection.execute("DELETE FROM link WHERE origin <> 'hand'")
        for table in ("passage", "document", '"trigger"'):
            connection.execute(f"DELETE FROM {table} WHERE memory_id NOT IN ({_CHAT})")
        for (memory_id,) in fetch(connection, f"SELECT id FROM memory WHERE presence = 'live' AND id IN ({_CHAT})"):
            _index_chat(connection, memory_id)
        connection.execute("UPDATE counter SET epoch = epoch + 1")


def _renew_text_index(connection: apsw.Connection) -> None:
    """Made anew and not only emptied: its own tables may be what is damaged."""
    names = ("passage_terms", "passage_fts")
    made: dict[str, Any] = {
        name: first(connection, "SELECT sql FROM sqlite_schema WHERE name = ?", (name,))[0] for name in names
    }
    run: Callable[[str], Any] = connection.execute
    for name in names:
        run(f"DROP TABLE {name}")
    for name in reversed(names):
        run(made[name])


def _index_chat(connection: apsw.Connection, memory_id: int) -> None:
    memory = load(connection, memory_id)
    blob = _blob(connection, memory)
    if memory and blob is not None:
        set_attributes(connection, memory_id)
        passages.show_again(connection, memory_id, memory.title, rows.unpack(blob))


def _blob(connection: apsw.Connection, memory: Memory | None) -> bytes | None:
    found = fetch(connection, "SELECT text FROM content WHERE hash = ?", (memory.content_hash,)) if memory else []
    return found[0][0] if found else None
