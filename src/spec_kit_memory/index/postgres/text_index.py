"""How do a memory's passages get into the text index and out of it?

All engines use FTS5's tokenizer, so that they find and rank alike. The passages that contain a word are stored packed
(table `posting`) and written once per transaction. Passage ids only rise, and the words of an id never change: a
passage whose words or title change gets a new id. Caches of other processes rely on it.
"""

from __future__ import annotations

import struct
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import apsw

from spec_kit_memory.core.memory import Passage, embedded
from spec_kit_memory.index import rows
from spec_kit_memory.index.postgres import real_array
from spec_kit_memory.index.sql import passage_rows
from spec_kit_memory.index.sql.passage_rows import TOKENIZER, headings

if TYPE_CHECKING:
    from spec_kit_memory.index.postgres.connection import Connection

BUCKET = 128  # passages packed in one row: with more, appending would write kilobytes of each common word anew
_MOST_TIMES = 65_535
_COLUMNS = tuple(name.strip() for name in rows.PASSAGE_COLUMNS.split(","))


class _Tokenizers(threading.local):
    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")
        self.words = self._connection.fts5_tokenizer(*TOKENIZER)


_tokenizers = _Tokenizers()


def tokens(text: str, *, query: bool = False) -> tuple[str, ...]:
    """The words of a text as the index stores them."""
    reason = apsw.FTS5_TOKENIZE_QUERY if query else apsw.FTS5_TOKENIZE_DOCUMENT
    words: Any = _tokenizers.words(text.encode(), reason, None, include_offsets=False, include_colocated=False)
    return tuple(words)


def insert(connection: Connection, memory_id: int, title: str, passages: Sequence[Passage]) -> None:
    from spec_kit_memory.core import words

    if not passages:
        return
    title_words = tokens(rows.clean(words.for_index(title)))
    new_rows: list[tuple[Any, ...]] = []
    indexed: list[tuple[int, tuple[str, ...]]] = []
    for number, passage in enumerate(passages, start=connection.next_id("passage", len(passages))):
        # A conversation's title mostly repeats its first words; indexed with every turn, it would blur the ranking.
        named = title_words if not passage.speaker or passage.ordinal == 0 else ()
        body = tokens(rows.clean(words.for_index(embedded(passage.headings, passage.text))))
        indexed.append((number, (*named, *body)))
        new_rows.append((
            number, memory_id, passage.ordinal, passage.first_line, passage.last_line, passage.hash, passage.tokens,
            rows.clean(passage.anchor), headings(passage), rows.clean(passage.speaker), rows.clean(passage.question),
            len(named) + len(body), _packed_words(named, body),
        ))  # fmt: skip
    kinds = ["bigint", "bigint", "int", "int", "int", "text", "int", "text", "text", "text", "text", "int", "text"]
    names = (*_COLUMNS, "length", "words")
    placeholders = ", ".join(f"?::{kind}[]" for kind in kinds)
    connection.execute(
        f"INSERT INTO passage (project_id, {', '.join(names)}, vector_id)"
        f" SELECT @p, {', '.join(f'new.{name}' for name in names)}, vector.id"
        f" FROM unnest({placeholders}) AS new ({', '.join(names)})"
        " LEFT JOIN vector ON vector.project_id = @p AND vector.hash = new.hash"
        " AND vector.model = (SELECT max(id) FROM model WHERE project_id = @p)",
        [list(column) for column in zip(*new_rows, strict=True)],
    )
    index_words(connection, indexed)


def _packed_words(title: Sequence[str], body: Sequence[str]) -> str:
    """The text that phrases are searched in. No word contains white space, and no phrase spans title and body."""
    return " ".join(("", *title, "\n", *body, ""))


def index_words(connection: Connection, passages: Iterable[tuple[int, tuple[str, ...]]]) -> None:
    """Collect postings until the transaction ends, because many documents share words."""
    if not connection.postings:
        connection.before_commit.append(lambda: _write_postings(connection))
    for number, terms in passages:
        for term, times in Counter(terms).items():
            ids, counts = connection.postings.setdefault((term, number // BUCKET), ([], []))
            ids.append(number)
            counts.append(min(times, _MOST_TIMES))


def _write_postings(connection: Connection) -> None:
    ordered = sorted(connection.postings.items())
    connection.postings.clear()
    connection.execute(
        "INSERT INTO posting (project_id, term, bucket, passages, times) SELECT @p, *"
        " FROM unnest(?::text[], ?::bigint[], ?::bytea[], ?::bytea[]) ON CONFLICT (project_id, term, bucket)"
        " DO UPDATE SET passages = posting.passages || excluded.passages, times = posting.times || excluded.times",
        (
            [term for (term, _), _ in ordered],
            [bucket for (_, bucket), _ in ordered],
            [struct.pack(f"<{len(ids)}q", *ids) for _, (ids, _) in ordered],
            [struct.pack(f"<{len(counts)}H", *counts) for _, (_, counts) in ordered],
        ),
    )


def remove(connection: Connection, memory_id: int) -> None:
    connection.execute("DELETE FROM passage WHERE project_id = @p AND memory_id = ?", (memory_id,))


def hide(connection: Connection, memory_id: int) -> None:
    connection.execute('DELETE FROM "trigger" WHERE project_id = @p AND memory_id = ?', (memory_id,))


# --- vectors


def attach_vectors(connection: Connection, vectors: Mapping[str, tuple[bytes, bytes | None]]) -> int:
    """Store vectors by text hash and attach them to every passage with that hash; returns how many are new."""
    if not vectors:
        return 0
    hashes = list(vectors)
    model = "(SELECT max(id) FROM model WHERE project_id = @p)"
    start = connection.next_id("vector", len(hashes))
    size, numbers = real_array.joined([vector for vector, _ in vectors.values()])
    added = connection.binary(
        "INSERT INTO vector (project_id, id, model, hash, vector)"
        f" SELECT @p, ?::bigint + place - 1, {model}, hash,"
        " numbers[((place - 1) * size + 1)::int : (place * size)::int]::@vector"
        " FROM unnest(?::text[]) WITH ORDINALITY AS new (hash, place), (SELECT ? AS numbers, ?::int AS size) AS sent"
        " ON CONFLICT DO NOTHING",
        (start, hashes, numbers, size),
    ).rowcount
    states = {hash_: states for hash_, (_, states) in vectors.items() if states is not None}
    if states:
        connection.execute(
            "INSERT INTO token_state (project_id, vector_id, states) SELECT @p, vector.id, new.states"
            " FROM unnest(?::text[], ?::bytea[]) AS new (hash, states)"
            f" JOIN vector ON vector.project_id = @p AND vector.hash = new.hash AND vector.model = {model}"
            " ON CONFLICT DO NOTHING",
            (list(states), list(states.values())),
        )
    connection.execute(
        "UPDATE passage SET vector_id = vector.id FROM vector WHERE passage.project_id = @p AND vector.project_id = @p"
        f" AND vector.hash = passage.hash AND vector.model = {model} AND passage.hash = ANY(?::text[])"
        " AND passage.vector_id IS DISTINCT FROM vector.id",
        (hashes,),
    )
    connection.execute("DELETE FROM failure WHERE project_id = @p AND hash = ANY(?::text[])", (hashes,))
    return added


def vector_text(vector: bytes) -> str:
    """A vector as text for pgvector; the numbers convert back to the same float32 values."""
    import numpy as np

    return f"[{','.join(map(str, np.frombuffer(vector, '<f4').tolist()))}]"


def vector_from(sent: bytes) -> bytes:
    """A vector in pgvector's format (two 16-bit integers, then big-endian float32) as little-endian float32."""
    import numpy as np

    return np.frombuffer(sent, ">f4", offset=4).astype("<f4").tobytes()


def refresh_status(connection: Connection, memory_ids: Sequence[int]) -> None:
    """Derive the vector status of these memories from their passages."""
    connection.execute(
        "UPDATE document SET vector_status = counted.status, embedded = counted.done FROM ("
        " SELECT one.checkout_id, one.memory_id, count(passage.vector_id) AS done, CASE"
        " WHEN count(passage.vector_id) = count(passage.id) THEN 'success'"
        " WHEN count(*) FILTER (WHERE vector_id IS NULL AND tries < :most) > 0 THEN 'retry'"
        " WHEN count(passage.vector_id) + count(*) FILTER (WHERE vector_id IS NULL AND tries >= :most)"
        " < count(passage.id) THEN 'pending'"
        " WHEN count(passage.vector_id) > 0 THEN 'partial' ELSE 'failed' END AS status"
        " FROM document AS one LEFT JOIN passage ON passage.project_id = @p"
        " AND passage.checkout_id = one.checkout_id AND passage.memory_id = one.memory_id"
        " AND passage.memory_id = ANY(:ids::bigint[])"  # repeated for the planner: a new table has no statistics
        " LEFT JOIN failure ON failure.project_id = @p AND failure.hash = passage.hash"
        " WHERE one.project_id = @p AND one.memory_id = ANY(:ids::bigint[]) GROUP BY 1, 2) AS counted"
        " WHERE document.project_id = @p AND document.checkout_id = counted.checkout_id"
        " AND document.memory_id = counted.memory_id AND document.memory_id = ANY(:ids::bigint[])"
        " AND (document.vector_status <> counted.status OR document.embedded <> counted.done)",
        {"most": passage_rows.MOST_TRIES, "ids": list(memory_ids)},
    )
