"""How do a memory's passages get into the text index and out of it?

Passage ids only rise, and the words of an id never change: a passage whose words or title change
gets a new id. Caches of other processes rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import apsw

from spec_kit_memory.core.memory import Passage, VectorStatus, embedded
from spec_kit_memory.index import rows
from spec_kit_memory.index.sql import passage_rows
from spec_kit_memory.index.sql.dialect import first
from spec_kit_memory.index.sql.passage_rows import TOKENIZER, headings

if TYPE_CHECKING:
    from spec_kit_memory.index.sqlite.connection import Connection

_UNINDEX = "DELETE FROM passage_fts WHERE rowid IN (SELECT id FROM passage WHERE memory_id = ?)"


def insert(connection: Connection, memory_id: int, title: str, passages: Sequence[Passage]) -> None:
    from spec_kit_memory.core import words

    tokenizer = connection.fts5_tokenizer(*TOKENIZER)
    prepared_title = rows.clean(words.for_index(title))
    title_length = _length(tokenizer, prepared_title)
    indexed, new_rows = [], []
    for number, passage in enumerate(passages, start=connection.next_id("passage")):
        body = rows.clean(words.for_index(embedded(passage.headings, passage.text)))
        # A conversation's title mostly repeats its first words; indexed with every turn, it would blur the ranking.
        named = not passage.speaker or passage.ordinal == 0
        indexed.append((number, prepared_title if named else "", body))
        new_rows.append((
            number, memory_id, passage.ordinal, passage.first_line, passage.last_line, passage.hash, passage.tokens,
            rows.clean(passage.anchor), headings(passage), rows.clean(passage.speaker), rows.clean(passage.question),
            (title_length if named else 0) + _length(tokenizer, body), passage.hash,
        ))  # fmt: skip
    connection.executemany(
        f"INSERT INTO passage ({rows.PASSAGE_COLUMNS}, length, vector_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " (SELECT id FROM vector WHERE hash = ? AND model = (SELECT max(id) FROM model)))",
        new_rows,
    )
    connection.executemany("INSERT INTO passage_fts (rowid, title, body) VALUES (?, ?, ?)", indexed)


def remove(connection: Connection, memory_id: int) -> None:
    connection.execute(_UNINDEX, (memory_id,))
    connection.execute("DELETE FROM passage WHERE memory_id = ?", (memory_id,))


def hide(connection: Connection, memory_id: int) -> None:
    connection.execute(_UNINDEX, (memory_id,))
    connection.execute('DELETE FROM "trigger" WHERE memory_id = ?', (memory_id,))


def _length(tokenizer: apsw.FTS5Tokenizer, text: str) -> int:
    tokens: Any = tokenizer(
        text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )
    return len(tokens)


def attach_vectors(connection: Connection, vectors: Mapping[str, tuple[bytes, bytes | None]]) -> int:
    """Store vectors by text hash and attach them to every passage with that hash; returns how many are new."""
    return sum(_attach(connection, hash_, vector, states) for hash_, (vector, states) in vectors.items())


def _attach(connection: Connection, hash_: str, vector: bytes, states: bytes | None) -> bool:
    model = "SELECT max(id) FROM model"
    connection.execute(
        f"INSERT INTO vector (model, hash, vector) VALUES (({model}), ?, ?) ON CONFLICT DO NOTHING", (hash_, vector)
    )
    added = connection.changes() > 0
    vector_id = first(connection, f"SELECT id FROM vector WHERE hash = ? AND model = ({model})", (hash_,))[0]
    if states is not None:
        connection.execute("INSERT OR IGNORE INTO token_state (vector_id, states) VALUES (?, ?)", (vector_id, states))
    connection.execute(
        "UPDATE passage SET vector_id = ? WHERE hash = ? AND vector_id IS NOT ?", (vector_id, hash_, vector_id)
    )
    connection.execute("DELETE FROM failure WHERE hash = ?", (hash_,))
    return added


def refresh_status(connection: Connection, memory_ids: Sequence[int]) -> None:
    """Derive the vector status of these memories from their passages."""
    for memory_id in memory_ids:
        total, done, failed, retry = first(
            connection,
            "SELECT count(*), count(vector_id), coalesce(sum(vector_id IS NULL AND tries >= ?), 0),"
            " coalesce(sum(vector_id IS NULL AND tries < ?), 0)"
            " FROM passage LEFT JOIN failure USING (hash) WHERE memory_id = ?",
            (passage_rows.MOST_TRIES, passage_rows.MOST_TRIES, memory_id),
        )
        connection.execute(
            "UPDATE document SET vector_status = :status, embedded = :done"
            " WHERE memory_id = :id AND (vector_status <> :status OR embedded <> :done)",
            {"status": str(_status(total, done, failed, retry)), "done": done, "id": memory_id},
        )


def _status(total: int, done: int, failed: int, retry: int) -> VectorStatus:
    if done == total:
        return VectorStatus.SUCCESS
    if retry:
        return VectorStatus.RETRY
    if done + failed < total:
        return VectorStatus.PENDING
    return VectorStatus.PARTIAL if done else VectorStatus.FAILED
