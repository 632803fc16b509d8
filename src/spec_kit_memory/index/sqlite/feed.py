"""How are the arrays loaded from SQLite? Each column of numbers comes as one text: no row becomes an object."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import apsw

from spec_kit_memory.core.memory import Memory, StoredPassage
from spec_kit_memory.index import rows
from spec_kit_memory.index.arrays.feed import Counters, Lookups, MemoryPlace, MemoryRow, PassageArrays, Wanted
from spec_kit_memory.index.sql import conditions
from spec_kit_memory.index.sql.dialect import fetch, first
from spec_kit_memory.index.sql.passage_rows import TOKENIZER
from spec_kit_memory.index.sqlite.connection import Connection, Database

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_MEMORY = """
SELECT memory.id, path, source, spec_folder, tier, context_type, archived_folder OR outdated, presence = 'live',
  first_indexed_at, max(first_indexed_at, coalesce(last_access, first_indexed_at)), expires_at, owner, project
FROM memory LEFT JOIN usage ON usage.memory_id = memory.id
"""
_PASSAGE = ", ".join(f"passage.{name.strip()}" for name in rows.PASSAGE.split(","))
_PAGE = 4_096  # vectors


class SqliteFeed:
    warm_passages = 20_000
    warm_memories = 10_000
    warms_states = False
    state_bytes = 80_000_000  # of about 12,000 passages

    def __init__(self, database: Database) -> None:
        self._database = database

    def moment(self) -> AbstractContextManager[object]:
        return self._database.reading()

    def kept_moment(self) -> AbstractContextManager[object]:
        return self._database.reading()

    def counters(self) -> Counters:
        with self._database.reading() as connection:
            return Counters._make(first(connection, "SELECT generation, used, epoch FROM counter"))

    def noted_generation(self, since: float | None = None) -> int:
        return self.counters().generation

    def changed(self, since: int) -> set[int]:
        with self._database.reading() as connection:
            return {id_ for (id_,) in fetch(connection, "SELECT id FROM memory WHERE changed > ?", (since,))}

    def used(self, since: int) -> list[tuple[int, int | None]]:
        with self._database.reading() as connection:
            rows_read = fetch(connection, "SELECT memory_id, last_access FROM usage WHERE used > ?", (since,))
        return [(memory_id, at) for memory_id, at in rows_read]

    # --- columns

    def memory_rows(self, memory_ids: Collection[int] | None = None) -> list[MemoryRow]:
        test, values = _live_or(memory_ids, "memory.id")
        with self._database.reading() as connection:
            rows_read = fetch(connection, f"{_MEMORY} WHERE {test} ORDER BY memory.id", values)
        return [MemoryRow._make(row) for row in rows_read]

    def passage_arrays(self, memory_ids: Collection[int] | None = None) -> PassageArrays:
        test, values = ("1", []) if memory_ids is None else conditions.in_ids(memory_ids, "memory_id")
        with self._database.reading() as connection:
            numbers = _numbers(
                connection,
                ["id", "memory_id", "length", "coalesce(vector_id, 0)"],
                f"FROM (SELECT passage.id, memory_id, length, vector_id FROM passage JOIN memory"
                f" ON memory.id = memory_id WHERE presence = 'live' AND {test} ORDER BY passage.id)",
                values,
            )
        return PassageArrays._make(numbers)

    # --- postings

    def lookups(self, terms: Sequence[str]) -> Lookups:
        with self._database.reading() as connection:
            tokenizer = connection.fts5_tokenizer(*TOKENIZER)
            result: Lookups = {}
            for term in terms:
                cleaned = rows.clean(term.replace("\x00", " "))
                tokens: Any = tokenizer(
                    cleaned.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False
                )
                if tokens:
                    result.setdefault(tuple(tokens), cleaned)
        return result

    def postings(self, wanted: Sequence[Wanted]) -> list[tuple[Ints, Ints]]:
        with self._database.reading() as connection:
            return [
                _whole(connection, item.lookup[0])
                if not item.after and len(item.lookup) == 1
                else _since(connection, item.term, item.after)
                for item in wanted
            ]

    def vocabulary(self) -> None:
        """Not kept: reading a word's postings from the file is faster than keeping a vocabulary."""

    def words_after(self, passage_id: int) -> list[tuple[int, str]]:
        raise NotImplementedError("no vocabulary of this engine is kept")

    def texts(self, memory_ids: Sequence[int]) -> list[str]:
        test, values = conditions.in_ids(memory_ids, "memory.id")
        sql = f"SELECT text FROM memory JOIN content ON content.hash = content_hash WHERE {test}"
        with self._database.reading() as connection:
            return [rows.unpack(blob) for (blob,) in fetch(connection, sql, values)]

    # --- nearest

    def dimensions(self) -> int:
        with self._database.reading() as connection:
            return connection.execute("SELECT dimensions FROM model ORDER BY id DESC LIMIT 1").get or 0

    def vector_count(self, *, after: int = 0) -> int:
        with self._database.reading() as connection:
            return int(first(connection, "SELECT count(*) FROM vector WHERE id > ?", (after,))[0])

    def vectors(self, *, after: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        with self._database.reading() as connection:
            cursor = connection.execute("SELECT id, vector FROM vector WHERE id > ? ORDER BY id", (after,))
            while page := [row for _, row in zip(range(_PAGE), cursor, strict=False)]:
                yield page

    def vectors_by_id(self, vector_ids: Collection[int]) -> list[tuple[int, bytes]]:
        test, values = conditions.in_ids(vector_ids, "id")
        with self._database.reading() as connection:
            rows_read = fetch(connection, f"SELECT id, vector FROM vector WHERE {test} ORDER BY id", values)
        return [(vector_id, vector) for vector_id, vector in rows_read]

    # --- rows

    def memories(self, memory_ids: Collection[int]) -> dict[int, Memory]:
        test, values = conditions.in_ids(set(memory_ids), "memory.id")
        sql = f"SELECT {conditions.MEMORY} WHERE {test} AND memory.presence = 'live'"
        with self._database.reading() as connection:
            return {row[0]: rows.memory_from(row) for row in connection.execute(sql, values)}

    def passages(self, passage_ids: Collection[int]) -> dict[int, StoredPassage]:
        test, values = conditions.in_ids(set(passage_ids), "passage.id")
        sql = f"SELECT {_PASSAGE} FROM passage JOIN memory ON memory.id = memory_id WHERE {test} AND presence = 'live'"
        with self._database.reading() as connection:
            return {row[0]: rows.passage_from(row) for row in connection.execute(sql, values)}

    def token_states(self, passage_ids: Collection[int]) -> dict[int, tuple[int, bytes | None]]:
        test, values = conditions.in_ids(set(passage_ids), "passage.id")
        sql = f"SELECT passage.id, memory_id, states FROM passage LEFT JOIN token_state USING (vector_id) WHERE {test}"
        with self._database.reading() as connection:
            return {passage_id: (memory_id, states) for passage_id, memory_id, states in fetch(connection, sql, values)}

    def places(self, memory_ids: Collection[int]) -> list[MemoryPlace]:
        test, values = conditions.in_ids(memory_ids, "id")
        with self._database.reading() as connection:
            rows_read = fetch(connection, f"SELECT id, path, owner, project FROM memory WHERE {test}", values)
        return [MemoryPlace._make(row) for row in rows_read]


def _live_or(memory_ids: Collection[int] | None, column: str) -> conditions.Condition:
    return ("presence = 'live'", []) if memory_ids is None else conditions.in_ids(memory_ids, column)


def _numbers(connection: Connection, columns: Sequence[str], tail: str, values: Sequence[Any] = ()) -> list[Ints]:
    """Integer columns of a query as arrays."""
    import numpy as np

    joined = ", ".join(f"group_concat({column})" for column in columns)
    row = first(connection, f"SELECT {joined} {tail}", values)
    return [np.fromstring(text or "", dtype=np.int64, sep=",") for text in row]


def _whole(connection: Connection, word: str) -> tuple[Ints, Ints]:
    """All occurrences of a word. SQLite joins them into one text, which is ten times faster than rows."""
    import numpy as np

    text = connection.execute("SELECT group_concat(doc) FROM passage_terms WHERE term = ?", (word,)).get
    docs = np.fromstring(text or "", dtype=np.int64, sep=",")
    starts = np.flatnonzero(np.diff(docs, prepend=-1))
    return docs[starts], np.diff(np.append(starts, len(docs)))


def _since(connection: Connection, term: str, after: int) -> tuple[Ints, Ints]:
    """Occurrences of a word or phrase in passages after this id, counted by our SQL function `skm_times`.

    The term is passed unstemmed, because stemming a stem may give another one.
    """
    import numpy as np

    phrase = '"' + term.replace('"', '""') + '"'
    sql = "SELECT rowid, skm_times(passage_fts) FROM passage_fts WHERE passage_fts MATCH ? AND rowid > ? ORDER BY rowid"
    rows_read = fetch(connection, sql, (phrase, after))
    return np.array([doc for doc, _ in rows_read], np.int64), np.array([times for _, times in rows_read], np.int64)
