"""How are the passages of a memory compared with, and read from, their rows? The part shared by both text indexes."""

from __future__ import annotations

from collections.abc import Sequence

from spec_kit_memory.core import long_lines
from spec_kit_memory.core.memory import Passage, StoredPassage
from spec_kit_memory.index import rows
from spec_kit_memory.index.sql.dialect import Connection

TOKENIZER = ("porter", ["unicode61", "remove_diacritics", "2"])  # of FTS5, as in the schema of SQLite


def stored_for(connection: Connection, memory_id: int) -> list[StoredPassage]:
    """The stored passages of a memory, in order."""
    sql = f"SELECT {rows.PASSAGE} FROM passage WHERE passage.project_id = @p AND memory_id = ? ORDER BY ordinal"
    return [rows.passage_from(row) for row in connection.execute(sql, (memory_id,))]


def has_same_words(old: Sequence[StoredPassage], new: Sequence[Passage]) -> bool:
    """Do both have the same words in the same order? Then only their positions in the file may differ."""
    return [(passage.hash, passage.question) for passage in old] == [
        (passage.hash, passage.question) for passage in new
    ]


def update_places(connection: Connection, old: Sequence[StoredPassage], new: Sequence[Passage]) -> None:
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


def with_texts(connection: Connection, memory_id: int, text: str) -> list[Passage]:
    """The stored passages of a memory with their texts, cut from the stored text of the memory."""
    lines = text.split("\n")
    return [
        Passage(
            ordinal=passage.ordinal,
            first_line=passage.first_line,
            last_line=passage.last_line,
            text=cut(lines, passage),
            hash=passage.hash,
            tokens=passage.tokens,
            anchor=passage.anchor,
            headings=passage.headings,
            speaker=passage.speaker,
            question=passage.question,
        )
        for passage in stored_for(connection, memory_id)
    ]


def cut(lines: Sequence[str], passage: StoredPassage) -> str:
    """The text of a stored passage, cut from the lines of its memory."""
    return long_lines.text_of(lines, passage)
