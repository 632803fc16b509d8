"""How do a memory's passages get into the text index and out of it, and when do they keep their ids?

Passage ids only rise, and the words of an id never change: a passage whose words or title change gets a new id.
Caches of other processes rely on it. Each engine's `text_index` writes the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from spec_kit_memory.core import long_lines
from spec_kit_memory.core.memory import Passage, StoredPassage
from spec_kit_memory.index import rows
from spec_kit_memory.index.sql.dialect import Connection, first

TOKENIZER = ("porter", ["unicode61", "remove_diacritics", "2"])  # of FTS5, as in the schema of SQLite
MOST_TRIES = 3  # after this many failures a passage counts as failed; `skm index` with `force` starts again
# Unused vectors to keep: this number plus this share of the passages. A text that comes back is not embedded again.
SPARE_VECTORS = 1_000
SPARE_SHARE = 0.5


def _stored_for(connection: Connection, memory_id: int) -> list[StoredPassage]:
    """The stored passages of a memory, in order."""
    sql = f"SELECT {rows.PASSAGE} FROM passage WHERE passage.project_id = @p AND memory_id = ? ORDER BY ordinal"
    return [rows.passage_from(row) for row in connection.execute(sql, (memory_id,))]


def index(connection: Connection, memory_id: int, title: str, passages: Sequence[Passage], *, keep: bool) -> None:
    """Make these the memory's passages. `keep`: the title is the same, so unchanged words may keep their ids."""
    old = _stored_for(connection, memory_id)
    if keep and has_same_words(old, passages):
        _update_places(connection, old, passages)
    else:
        if old:
            connection.text_index.remove(connection, memory_id)
        connection.text_index.insert(connection, memory_id, title, passages)
        _prune_failures(connection, {passage.hash for passage in old})
    connection.text_index.refresh_status(connection, [memory_id])


def add(connection: Connection, memory_id: int, title: str, passages: Sequence[Passage]) -> None:
    """Index the passages of a new memory."""
    connection.text_index.insert(connection, memory_id, title, passages)
    connection.text_index.refresh_status(connection, [memory_id])


def reindex_passages(connection: Connection, memory_id: int, title: str, text: str) -> None:
    """Index the stored passages again under new ids: the memory returned, or its title changed."""
    passages = long_lines.with_texts(_stored_for(connection, memory_id), text.split("\n"))
    connection.text_index.remove(connection, memory_id)
    add(connection, memory_id, title, passages)


def prune_spare_vectors(connection: Connection) -> None:
    """Delete the oldest unused vectors. The newest stay, so that switching branches back needs no new embedding."""
    with connection.within(*connection.checkouts()):
        vectors = first(connection, "SELECT count(*) FROM vector WHERE project_id = @p")[0]
        passages = first(connection, "SELECT count(*) FROM passage WHERE project_id = @p")[0]
        most = int(passages * (1 + SPARE_SHARE)) + SPARE_VECTORS
        if vectors > most:
            connection.execute(
                "DELETE FROM vector WHERE project_id = @p AND id IN (SELECT id FROM vector WHERE project_id = @p"
                " AND NOT EXISTS (SELECT 1 FROM passage WHERE passage.project_id = @p AND passage.hash = vector.hash)"
                " ORDER BY id LIMIT ?)",
                (vectors - most,),
            )


def _prune_failures(connection: Connection, hashes: set[str]) -> None:
    """Delete embedding failures of texts that no passage has any more."""
    if not hashes:
        return
    with connection.within(*connection.checkouts()):
        connection.execute(
            "DELETE FROM failure WHERE project_id = @p AND hash IN @list(?)"
            " AND NOT EXISTS (SELECT 1 FROM passage WHERE passage.project_id = @p AND passage.hash = failure.hash)",
            (sorted(hashes),),
        )


def has_same_words(old: Sequence[StoredPassage], new: Sequence[Passage]) -> bool:
    """Do both have the same words in the same order? Then only their positions in the file may differ."""
    return [(passage.hash, passage.question) for passage in old] == [
        (passage.hash, passage.question) for passage in new
    ]


def _update_places(connection: Connection, old: Sequence[StoredPassage], new: Sequence[Passage]) -> None:
    """Update passages whose lines moved, because front matter grew for example, while their words stayed."""
    connection.executemany(
        "UPDATE passage SET first_line = ?, last_line = ?, tokens = ?, anchor = ?, headings = ?, speaker = ?"
        " WHERE project_id = @p AND id = ?",
        [
            (
                passage.first_line, passage.last_line, passage.tokens, rows.clean(passage.anchor),
                headings(passage), rows.clean(passage.speaker), before.id,
            )
            for before, passage in zip(old, new, strict=True)
            if not _is_same_place(before, passage)
        ],
    )  # fmt: skip


def _is_same_place(old: StoredPassage, new: Passage) -> bool:
    names = ("first_line", "last_line", "tokens", "anchor", "headings", "speaker")
    return all(getattr(old, name) == getattr(new, name) for name in names)


def headings(passage: Passage) -> str:
    """The headings of a passage as its row stores them."""
    return rows.clean(rows.plain(list(passage.headings))) if passage.headings else "[]"
