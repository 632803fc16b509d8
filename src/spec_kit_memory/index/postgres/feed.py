"""How are the arrays loaded from PostgreSQL? Columns of numbers and packed postings come as bytes, never as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from spec_kit_memory.core.memory import Memory, StoredPassage
from spec_kit_memory.index import rows
from spec_kit_memory.index.arrays.feed import (
    Counters,
    Lookups,
    MemoryPlace,
    MemoryRow,
    PageOfWords,
    PassageArrays,
    Wanted,
)
from spec_kit_memory.index.postgres.connection import Connection, Database
from spec_kit_memory.index.postgres.text_index import BUCKET, tokens
from spec_kit_memory.index.sql import conditions
from spec_kit_memory.index.sql.dialect import fetch, first

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_MEMORY = """
SELECT memory.id, path, source, spec_folder, tier, context_type, archived_folder OR outdated, presence = 'live',
  first_indexed_at, greatest(first_indexed_at, last_access), expires_at, owner, project
FROM memory LEFT JOIN usage ON usage.project_id = @p AND usage.memory_id = memory.id WHERE memory.project_id = @p
"""
_PASSAGE = ", ".join(f"passage.{name.strip()}" for name in rows.PASSAGE.split(","))
_PAGE = 4_096  # vectors
_PAGE_OF_WORDS = 8_192


class PostgresFeed:
    # As many as the caches hold: each missing row costs a round trip to the server.
    warm_passages = 120_000
    warm_memories = 20_000
    warms_states = True
    state_bytes = 40_000_000  # of each project that a process has loaded

    def __init__(self, database: Database) -> None:
        self._database = database
        self._dimensions = (-1, 0)  # an epoch, and the dimensions of its model

    def moment(self) -> AbstractContextManager[object]:
        return self._database.reading()

    @contextmanager
    def kept_moment(self) -> Iterator[object]:
        with self._database.reading() as connection:
            connection.execute("SELECT 1")  # begins the transaction; a single statement would be one of its own
            yield connection

    def counters(self) -> Counters:
        return self._database.counters()

    def noted_generation(self, since: float | None = None) -> int | None:
        return self._database.noted_generation(since)

    def changed(self, since: int) -> set[int]:
        sql = "SELECT id FROM memory WHERE project_id = @p AND changed > ?"
        with self._database.reading() as connection:
            return {id_ for (id_,) in fetch(connection, sql, (since,))}

    def used(self, since: int) -> list[tuple[int, int | None]]:
        sql = "SELECT memory_id, last_access FROM usage WHERE project_id = @p AND used > ?"
        with self._database.reading() as connection:
            return [(memory_id, at) for memory_id, at in fetch(connection, sql, (since,))]

    def amounts(self) -> tuple[int, int, int, int]:
        """Memories, passages, vectors and their dimensions."""
        counts = ", ".join(
            f"(SELECT count(*) FROM {table} WHERE project_id = @p)" for table in ("memory", "passage", "vector")
        )
        model = "coalesce((SELECT dimensions FROM model WHERE project_id = @p ORDER BY id DESC LIMIT 1), 0)"
        with self._database.reading() as connection:
            memories, passages, vectors, dimensions = connection.fetch_once(f"SELECT {counts}, {model}")[0]
        return memories, passages, vectors, dimensions

    # --- columns

    def memory_rows(self, memory_ids: Collection[int] | None = None) -> list[MemoryRow]:
        test, values = ("presence = 'live'", []) if memory_ids is None else conditions.in_ids(memory_ids, "memory.id")
        with self._database.reading() as connection:
            rows_read = fetch(connection, f"{_MEMORY} AND {test} ORDER BY memory.id", values)
        return [MemoryRow._make(row) for row in rows_read]

    def passage_arrays(self, memory_ids: Collection[int] | None = None) -> PassageArrays:
        test, values = ("true", []) if memory_ids is None else conditions.in_ids(memory_ids, "memory_id")
        sql = (
            "SELECT passage.id, memory_id, length::bigint AS length, coalesce(vector_id, 0) AS vector_id FROM passage"
            " JOIN memory ON memory.project_id = @p AND memory.id = memory_id"
            f" WHERE passage.project_id = @p AND presence = 'live' AND {test} ORDER BY passage.id"
        )
        with self._database.reading() as connection:
            return PassageArrays._make(_numbers(connection, ("id", "memory_id", "length", "vector_id"), sql, values))

    # --- postings

    def lookups(self, terms: Sequence[str]) -> Lookups:
        result: Lookups = {}
        for term in terms:
            cleaned = rows.clean(term.replace("\x00", " "))
            if words := tokens(cleaned, query=True):
                result.setdefault(words, cleaned)
        return result

    def postings(self, wanted: Sequence[Wanted]) -> list[tuple[Ints, Ints]]:
        words = sorted({(word, item.after) for item in wanted for word in item.lookup})
        with self._database.reading() as connection:
            postings = _postings(connection, words)
            return [
                postings[item.lookup[0], item.after] if len(item.lookup) == 1 else _phrase(connection, item, postings)
                for item in wanted
            ]

    def vocabulary(self) -> Iterator[PageOfWords]:
        import numpy as np

        sql = (
            "SELECT term, string_agg(passages, '' ORDER BY bucket), string_agg(times, '' ORDER BY bucket) FROM posting"
            f" WHERE project_id = @p AND term > ? GROUP BY term ORDER BY term LIMIT {_PAGE_OF_WORDS}"
        )
        after = ""
        with self._database.reading() as connection:
            while page := connection.binary(sql, (after,)).fetchall():
                terms, passages, times = zip(*page, strict=True)
                yield PageOfWords(
                    list(terms),
                    np.array([len(passage) // 8 for passage in passages], np.int64),
                    np.frombuffer(b"".join(passages), "<i8").astype(np.int64, copy=False),
                    np.frombuffer(b"".join(times), "<u2").astype(np.int64),
                )
                after = terms[-1]

    def words_after(self, passage_id: int) -> list[tuple[int, str]]:
        sql = "SELECT id, words FROM passage WHERE project_id = @p AND id > ? ORDER BY id"
        with self._database.reading() as connection:
            rows_after = connection.binary(sql, (passage_id,)).fetchall()
        return [
            (id_, " ".join(word for word in words.split(" ") if word not in ("", "\n"))) for id_, words in rows_after
        ]

    def texts(self, memory_ids: Sequence[int]) -> list[str]:
        test, values = conditions.in_ids(memory_ids, "memory.id")
        sql = (
            "SELECT text FROM memory JOIN content ON content.project_id = @p AND content.hash = content_hash"
            f" WHERE memory.project_id = @p AND {test}"
        )
        with self._database.reading() as connection:
            return [rows.unpack(blob) for (blob,) in fetch(connection, sql, values)]

    # --- nearest

    def dimensions(self) -> int:
        epoch = self.counters().epoch  # a change of model raises the epoch
        if self._dimensions[0] != epoch:
            sql = "SELECT dimensions FROM model WHERE project_id = @p ORDER BY id DESC LIMIT 1"
            with self._database.reading() as connection:
                self._dimensions = epoch, connection.execute(sql).get or 0
        return self._dimensions[1]

    def vector_count(self, *, after: int = 0) -> int:
        with self._database.reading() as connection:
            sql = "SELECT count(*) FROM vector WHERE project_id = @p AND id > ?"
            return int(first(connection, sql, (after,))[0])

    def vectors(self, *, after: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        sql = f"SELECT id, vector_send(vector) FROM vector WHERE project_id = @p AND id > ? ORDER BY id LIMIT {_PAGE}"
        with self._database.reading() as connection:
            while page := connection.binary(sql, (after,)).fetchall():
                yield _as_stored(page)
                after = page[-1][0]

    def vectors_by_id(self, vector_ids: Collection[int]) -> list[tuple[int, bytes]]:
        sql = "SELECT id, vector_send(vector) FROM vector WHERE project_id = @p AND id = ANY(?::bigint[]) ORDER BY id"
        with self._database.reading() as connection:
            return _as_stored(connection.binary(sql, (list(vector_ids),)).fetchall())

    # --- rows

    def memories(self, memory_ids: Collection[int]) -> dict[int, Memory]:
        test, values = conditions.in_ids(set(memory_ids), "memory.id")
        sql = f"SELECT {conditions.MEMORY} WHERE memory.project_id = @p AND {test} AND memory.presence = 'live'"
        with self._database.reading() as connection:
            return {row[0]: rows.memory_from(row) for row in connection.fetch_once(sql, values)}

    def passages(self, passage_ids: Collection[int]) -> dict[int, StoredPassage]:
        test, values = conditions.in_ids(set(passage_ids), "passage.id")
        sql = (
            f"SELECT {_PASSAGE} FROM passage JOIN memory ON memory.project_id = @p AND memory.id = memory_id"
            f" WHERE passage.project_id = @p AND {test} AND presence = 'live'"
        )
        with self._database.reading() as connection:
            return {row[0]: rows.passage_from(row) for row in connection.fetch_once(sql, values)}

    def token_states(self, passage_ids: Collection[int]) -> dict[int, tuple[int, bytes | None]]:
        sql = (
            "SELECT passage.id, memory_id, states FROM passage LEFT JOIN token_state"
            " ON token_state.project_id = @p AND token_state.vector_id = passage.vector_id"
            " WHERE passage.project_id = @p AND passage.id = ANY(?::bigint[])"
        )
        with self._database.reading() as connection:
            result = connection.fetch_once(sql, (list(passage_ids),))
        return {passage_id: (memory_id, states) for passage_id, memory_id, states in result}

    def places(self, memory_ids: Collection[int]) -> list[MemoryPlace]:
        test, values = conditions.in_ids(memory_ids, "id")
        sql = f"SELECT id, path, owner, project FROM memory WHERE project_id = @p AND {test}"
        with self._database.reading() as connection:
            return [MemoryPlace._make(row) for row in connection.fetch_once(sql, values)]


def _numbers(connection: Connection, names: Sequence[str], sql: str, values: Sequence[Any]) -> list[Ints]:
    """Columns of 64-bit integers as arrays; the server sends each column as one value."""
    import numpy as np

    joined = ", ".join(f"string_agg(int8send({name}), '' ORDER BY id)" for name in names)
    row = connection.binary(f"SELECT {joined} FROM ({sql}) AS found", values).fetchone()
    return [np.frombuffer(column or b"", ">i8").astype(np.int64) for column in row or ()]


_Word = tuple[str, int]  # a word, and the passage id after which its postings are read


def _postings(connection: Connection, words: Sequence[_Word]) -> dict[_Word, tuple[Ints, Ints]]:
    """The postings of all words of a query, in one statement."""
    import numpy as np

    sql = (
        "SELECT word, after, string_agg(passages, '' ORDER BY bucket), string_agg(times, '' ORDER BY bucket)"
        " FROM unnest(?::text[], ?::bigint[]) AS asked (word, after) JOIN posting ON posting.project_id = @p"
        f' AND term = word COLLATE "C" AND bucket >= after / {BUCKET} GROUP BY word, after'
    )
    postings = {word: (np.zeros(0, np.int64), np.zeros(0, np.int64)) for word in words}
    values = [word for word, _ in words], [after for _, after in words]
    for word, after, passages, counts in connection.fetch_once(sql, values):
        ids, times = np.frombuffer(passages, "<i8"), np.frombuffer(counts, "<u2")
        later = ids > after
        postings[word, after] = ids[later].astype(np.int64), times[later].astype(np.int64)
    return postings


def _phrase(connection: Connection, phrase: Wanted, postings: Mapping[_Word, tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """The passages that contain the phrase, and how often."""
    import numpy as np

    ids = None
    for word in set(phrase.lookup):
        having, _ = postings[word, phrase.after]
        ids = having if ids is None else np.intersect1d(ids, having, assume_unique=True)
    wanted = f" {' '.join(phrase.lookup)} "
    sql = "SELECT id, words FROM passage WHERE project_id = @p AND id = ANY(?::bigint[]) ORDER BY id"
    values = [] if ids is None else ids.tolist()
    counted = [(id_, _times(words, wanted)) for id_, words in connection.binary(sql, (values,))] if values else []
    hits = [(id_, times) for id_, times in counted if times]
    return np.array([id_ for id_, _ in hits], np.int64), np.array([times for _, times in hits], np.int64)


def _times(words: str, wanted: str) -> int:
    """Count occurrences; two of them may overlap in a blank or in a word."""
    count = at = 0
    while (at := words.find(wanted, at)) >= 0:
        count += 1
        at += 1
    return count


def _as_stored(page: Sequence[tuple[Any, ...]]) -> list[tuple[int, bytes]]:
    """Vectors in pgvector's format (two 16-bit integers, then big-endian float32) as little-endian float32."""
    import numpy as np

    if not page:
        return []
    block = np.frombuffer(b"".join(sent[4:] for _, sent in page), ">f4").astype("<f4").reshape(len(page), -1)
    return [(row[0], vector.tobytes()) for row, vector in zip(page, block, strict=True)]
