"""What can be wrong with the tables of any engine, and how is it repaired in place?

Repair never invents data: text and passages come from recorded data, vectors are computed again, and a broken ledger
is only reported.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from spec_kit_memory.advice import Advice, Text, finding
from spec_kit_memory.core.memory import Attributes, Change, Link, Memory, Origin
from spec_kit_memory.index import record_check, rows
from spec_kit_memory.index.sql import declared_links
from spec_kit_memory.index.sql.dialect import Connection, fetch, first
from spec_kit_memory.index.sql.documents import effective
from spec_kit_memory.index.sql.recorder import Recorder, load
from spec_kit_memory.index.sql.restore import Checkpoints
from spec_kit_memory.index.sql.statistics import Statistics

_SESSION_DAYS = 30  # a session that was not used for this long is deleted
Fault = tuple[str, str, str]  # the name of the check, what to count, and the code of the finding

LIVE = "SELECT id FROM memory WHERE project_id = @p AND presence = 'live'"
MISCOUNTED = (
    "SELECT memory_id FROM document WHERE project_id = @p AND passages <> (SELECT count(*) FROM passage"
    " WHERE passage.project_id = @p AND passage.memory_id = document.memory_id)"
)
STRAY_TRIGGERS = f'SELECT memory_id FROM "trigger" WHERE project_id = @p AND memory_id NOT IN ({LIVE})'
_LOST_VECTORS = (
    "SELECT id FROM passage WHERE project_id = @p AND vector_id IS NOT NULL AND NOT EXISTS"
    " (SELECT 1 FROM vector WHERE vector.project_id = @p AND vector.id = vector_id)"
)
_UNUSED_VECTORS = (
    "SELECT id FROM passage WHERE project_id = @p AND vector_id IS NULL AND EXISTS"
    " (SELECT 1 FROM vector WHERE vector.project_id = @p AND vector.hash = passage.hash)"
)
_FALSE_SUCCESS = (
    "SELECT memory_id FROM document WHERE project_id = @p AND vector_status = 'success' AND memory_id IN"
    " (SELECT memory_id FROM passage WHERE project_id = @p AND vector_id IS NULL)"
)
_NO_DOCUMENT = (
    "SELECT id FROM memory WHERE project_id = @p AND presence = 'live' AND NOT EXISTS"
    " (SELECT 1 FROM document WHERE document.project_id = @p AND memory_id = memory.id)"
)
_NO_TEXT = (
    "SELECT id FROM memory WHERE project_id = @p AND NOT EXISTS"
    " (SELECT 1 FROM content WHERE content.project_id = @p AND hash = content_hash)"
)
DOCUMENT_FAULTS: tuple[Fault, ...] = (
    ("documents", _NO_DOCUMENT, "memories-without-document"),
    ("documents", _NO_TEXT, "memories-without-text"),
    ("text index", STRAY_TRIGGERS, "stray-triggers"),
    ("text index", MISCOUNTED, "passages-miscounted"),
)
VECTOR_FAULTS: tuple[Fault, ...] = (
    ("vectors", _FALSE_SUCCESS, "memories-falsely-embedded"),
    ("vectors", _LOST_VECTORS, "vectors-lost"),
    ("vectors", _UNUSED_VECTORS, "vectors-unused"),
)


class Repairs(Statistics, Checkpoints):
    _deletions: ClassVar[Sequence[tuple[str, str, str, str]]]  # check, table, key column, keys to delete

    @abstractmethod
    def _index_again(self, connection: Connection, recorder: Recorder) -> int: ...
    def repair(self, change: Change) -> dict[str, int]:
        """In one transaction; returns counts of what was repaired."""
        with self._database.writing() as connection:
            recorder = Recorder(connection, change)
            mended = {"text index": self._index_again(connection, recorder)}
            for name, table, key, sql in self._deletions:
                mended[name] = mended.get(name, 0) + _delete(connection, table, key, sql)
            mended["links"] += declared_links.put_in_step(connection)
            mended["vectors"] += _mend_vectors(connection)
            mended["sessions"] = _count_old_sessions(connection, change.at)
            connection.execute("DELETE FROM session WHERE project_id = @p AND seen_at < ?", (_limit(change.at),))
            mended["retried"] = _retry(connection)
            if any(mended.values()):
                connection.execute("UPDATE memory SET changed = ? WHERE project_id = @p", (recorder.generation,))
                connection.raised("epoch")
            return {name: count for name, count in mended.items() if count}


def links_out_of_step(connection: Connection) -> list[Text]:
    """Are the links of front matter those that the files declare?"""
    lacking, wrong = declared_links.out_of_step(connection)
    return [
        finding(code, count=count)
        for code, count in (("declared-links-missing", len(lacking)), ("links-undeclared", len(wrong)))
        if count
    ]


def old_sessions(connection: Connection, now: datetime) -> list[Advice]:
    count = _count_old_sessions(connection, now)
    return [finding("sessions-old", count=count, days=_SESSION_DAYS)] if count else []


def _count_old_sessions(connection: Connection, now: datetime) -> int:
    sql = "SELECT count(*) FROM session WHERE project_id = @p AND seen_at < ?"
    return int(first(connection, sql, (_limit(now),))[0])


def _limit(now: datetime) -> int | None:
    return rows.micros(now - timedelta(days=_SESSION_DAYS))


def ledger_end(connection: Connection) -> list[Text]:
    """Says if the newest entries of the ledger are missing: a chain that was cut off is consistent in itself."""
    last, newest = first(
        connection,
        "SELECT (SELECT max(sequence) FROM ledger WHERE project_id = @p),"
        " (SELECT max(ledger_sequence) FROM history WHERE project_id = @p)",
    )
    return [finding("ledger-ends-early", sequence=newest)] if (newest or 0) > (last or 0) else []


def _delete(connection: Connection, table: str, key: str, sql: str) -> int:
    ids = [row[0] for row in fetch(connection, sql)]
    connection.execute(f"DELETE FROM {table} WHERE project_id = @p AND {key} IN @list(?)", (ids,))
    return len(ids)


def _mend_vectors(connection: Connection) -> int:
    lost = [row[0] for row in fetch(connection, f"{_LOST_VECTORS} UNION {_UNUSED_VECTORS}")]
    connection.execute(
        "UPDATE passage SET vector_id = (SELECT vector.id FROM vector WHERE vector.project_id = @p"
        " AND vector.hash = passage.hash AND model = (SELECT max(id) FROM model WHERE project_id = @p))"
        " WHERE project_id = @p AND id IN @list(?)",
        (lost,),
    )
    ids = [row[0] for row in fetch(connection, "SELECT memory_id FROM document WHERE project_id = @p")]
    connection.text_index.refresh_status(connection, ids)
    return len(lost)


def _retry(connection: Connection) -> int:
    """Delete recorded failures, so that each passage gets `MOST_TRIES` new tries."""
    sql = (
        "SELECT DISTINCT memory_id FROM passage JOIN failure ON failure.project_id = @p AND failure.hash = passage.hash"
        " WHERE passage.project_id = @p"
    )
    ids = [row[0] for row in fetch(connection, sql)]
    connection.execute("DELETE FROM failure WHERE project_id = @p")
    connection.text_index.refresh_status(connection, ids)
    return len(ids)


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
