"""Is the index sound, and what can be repaired in place?

Repair never invents: text and passages come from what is recorded, vectors are computed again,
and a broken ledger is only reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path

import apsw

from spec_kit_memory.advice import Text, finding
from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Change, Event, LedgerEntry, Memory, Mutation
from spec_kit_memory.index import record_check, rows
from spec_kit_memory.index.contract import Index, Rebuilt
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
from spec_kit_memory.index.sqlite.connection import Connection, Database
from spec_kit_memory.index.sqlite.schema import RECORDED
from spec_kit_memory.index.sqlite.soundness import SECONDS, Watch, find_invalid_values, integrity, integrity_of
from spec_kit_memory.index.sqlite.view import SqliteShared

LARGE = 100_000_000  # bytes; up to this size even a quick check is complete, which takes less than a second
_ENTRIES = 500  # of the ledger, checked between two looks at the clock
_BULKY = ("passage", "passage_fts", "passage_fts_data", "vector", "token_state")
# Passages of live memories must be in the text index, and no others.
_UNINDEXED = (
    f"SELECT DISTINCT memory_id FROM passage WHERE memory_id IN ({LIVE}) AND id NOT IN (SELECT rowid FROM passage_fts)"
)
_STRAY_WORDS = f"SELECT rowid FROM passage_fts WHERE rowid NOT IN (SELECT id FROM passage WHERE memory_id IN ({LIVE}))"
_BAD_VECTORS = (
    "SELECT id FROM vector WHERE length(vector) <> 4 * (SELECT dimensions FROM model ORDER BY id DESC LIMIT 1)"
)
_STRAY_STATES = "SELECT vector_id FROM token_state WHERE vector_id NOT IN (SELECT id FROM vector)"
# The triggers that prompts are matched with must be those of the memories.
_FALSE_TRIGGERS = (
    "SELECT memory_id FROM \"trigger\" AS shown JOIN memory ON memory.id = memory_id WHERE presence = 'live'"
    " AND json_valid(triggers) AND phrase NOT IN (SELECT value FROM json_each(memory.triggers))"
    " UNION SELECT memory.id FROM memory WHERE presence = 'live' AND json_valid(triggers) AND EXISTS"
    " (SELECT 1 FROM json_each(memory.triggers) AS named WHERE NOT EXISTS"
    ' (SELECT 1 FROM "trigger" WHERE memory_id = memory.id AND phrase = named.value))'
)
_ORPHANED_LINKS = (
    "SELECT id FROM link WHERE source_id = target_id OR source_id NOT IN (SELECT id FROM memory)"
    " OR target_id NOT IN (SELECT id FROM memory)"
)
# A quick check of a large index may run out of time before the slow ones.
_QUICK_FAULTS: tuple[Fault, ...] = (
    ("links", _ORPHANED_LINKS, "links-without-end"),
    *DOCUMENT_FAULTS,
    ("text index", _UNINDEXED, "passages-unindexed"),
    ("text index", _STRAY_WORDS, "stray-words"),
)
_SLOW_FAULTS: tuple[Fault, ...] = (
    ("text index", _FALSE_TRIGGERS, "triggers-of-others"),
    ("vectors", _STRAY_STATES, "stray-token-states"),
    *VECTOR_FAULTS,
    ("vectors", _BAD_VECTORS, "vectors-of-wrong-size"),
)


_DELETIONS = (
    ("links", "link", "id", _ORPHANED_LINKS),
    ("states", "token_state", "vector_id", _STRAY_STATES),
    ("text index", "passage_fts", "rowid", _STRAY_WORDS),
    ("triggers", '"trigger"', "memory_id", STRAY_TRIGGERS),
    ("vectors", "vector", "id", _BAD_VECTORS),
)


class Care(Repairs):
    _shared: SqliteShared
    _database: Database
    _deletions = _DELETIONS

    def check(self, *, now: datetime | None = None, quick: bool = False) -> dict[str, list[Text]]:
        with self._database.reading() as connection:
            large = (
                first(connection, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0] > LARGE
            )
        watch = Watch(SECONDS if quick and large else None)
        faults: dict[str, list[Text]] = {"integrity": [], "documents": [], "links": [], "text index": [], "vectors": []}
        with self._database.reading() as connection:
            faults["sessions"] = [*old_sessions(connection, now)] if now else []
            _count(connection, watch, faults, _QUICK_FAULTS)
        # A separate connection: one that has searched caches the structure of the text index. SQLite's check of the
        # whole file relies on that cache even if another process has written since, and then reports corruption.
        with self._database.apart() as fresh:
            faults["integrity"] += integrity(fresh) if watch.endless else integrity_of(RECORDED, fresh, watch)
        faults["ledger"] = self._ledger(watch)
        if not quick:
            with self._database.apart() as fresh:
                faults["integrity"] += find_invalid_values(fresh)
                faults["record"] = [] if faults["integrity"] else [*record_check.check(Recorded(fresh))]
        with self._database.reading() as connection:
            _count(connection, watch, faults, _SLOW_FAULTS)
            faults["links"] += [] if quick or faults["integrity"] else links_out_of_step(connection)
        if not watch.endless:
            with self._database.apart() as fresh:
                faults["integrity"] += integrity_of(_made_again(fresh), fresh, watch)
        faults = {name: list(dict.fromkeys(messages)) for name, messages in faults.items()}
        if self._scope is not None:
            # Counts would tell a scope about memories that it may not see.
            faults = {
                name: [finding("check-failed", check=name)] if results else [] for name, results in faults.items()
            }
        return faults | ({"unfinished": [*watch.unfinished]} if watch.unfinished else {})

    def _index_again(self, connection: dialect.Connection, recorder: Recorder) -> int:
        """Index again from the recorded text; a memory without its passages is left for the next scan."""
        ids = [row[0] for row in fetch(connection, f"{_UNINDEXED} UNION {MISCOUNTED}")]
        for memory_id in ids:
            memory = load(connection, memory_id)
            blob = _blob(connection, memory)
            if memory is None or blob is None:
                continue
            passages = first(connection, "SELECT count(*) FROM passage WHERE memory_id = ?", (memory_id,))[0]
            if passages != memory.passages:
                connection.execute(
                    "DELETE FROM passage_fts WHERE rowid IN (SELECT id FROM passage WHERE memory_id = ?)", (memory_id,)
                )
                connection.execute("DELETE FROM passage WHERE memory_id = ?", (memory_id,))
                connection.execute("DELETE FROM document WHERE memory_id = ?", (memory_id,))
            elif memory.presence == "live":
                passage_rows.reindex_passages(connection, memory_id, memory.title, rows.unpack(blob))
            recorder.entry(Mutation.REINDEX, memory, memory_id, event=Event.UPDATE)
        false = [row[0] for row in fetch(connection, _FALSE_TRIGGERS)]
        connection.execute('DELETE FROM "trigger" WHERE memory_id IN @list(?)', (false,))
        connection.execute(
            'INSERT OR IGNORE INTO "trigger" (memory_id, phrase)'
            " SELECT memory.id, value FROM memory, json_each(triggers) WHERE memory.id IN @list(?)",
            (false,),
        )
        return len({*ids, *false})

    def rebuild(self, change: Change, fill: Callable[[Index], object] = lambda index: None) -> Rebuilt:
        from spec_kit_memory.index.sqlite import rebuild

        def complete(path: Path) -> None:
            with closing(self._shared.opened(path)) as fresh:
                fill(fresh)

        return rebuild.rebuild(self._database, change, complete)

    def _ledger(self, watch: Watch) -> list[Text]:
        """Verify the ledger from its first entry until time is up, and its end."""

        def in_time() -> Iterator[LedgerEntry]:
            for number, entry in enumerate(Record(self._shared, None).ledger()):
                if number % _ENTRIES == 0 and watch.is_over():
                    watch.left("ledger")
                    return
                yield entry

        broken = ledger.verify(in_time())
        if broken:
            return [broken.reason]
        with self._database.reading() as connection:
            return ledger_end(connection)


def _count(
    connection: Connection, watch: Watch, faults_by_check: dict[str, list[Text]], faults: Iterable[Fault]
) -> None:
    for name, sql, code in faults:
        faults_by_check[name] += watch.look(name, partial(_counted, sql=sql, code=code), connection)


def _counted(connection: Connection, *, sql: str, code: str) -> list[Text]:
    try:
        count = first(connection, f"SELECT count(*) FROM ({sql})")[0]
    except apsw.CorruptError as error:
        return [finding("table-unreadable", problem=str(error))]
    return [finding(code, count=count)] if count else []


def _made_again(connection: Connection) -> list[str]:
    """The tables that could be rebuilt if they were damaged, the largest last."""
    tables = [row[0] for row in fetch(connection, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    return sorted(set(tables) - set(RECORDED), key=lambda name: (name in _BULKY, name))


def _blob(connection: dialect.Connection, memory: Memory | None) -> bytes | None:
    rows = fetch(connection, "SELECT text FROM content WHERE hash = ?", (memory.content_hash,)) if memory else []
    return rows[0][0] if rows else None
