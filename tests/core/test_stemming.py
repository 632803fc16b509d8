from __future__ import annotations

import re
from pathlib import Path

import apsw
import pytest

from spec_kit_memory.core.stemming import stem
from spec_kit_memory.index.sql.passage_rows import TOKENIZER


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("retries", "retri"),
        ("authentication", "authent"),
        ("hoping", "hope"),
        ("hopping", "hop"),
        ("falling", "fall"),
        ("agreed", "agre"),
        ("sky", "sky"),
        ("relational", "relat"),
        ("is", "is"),
        ("naïve", "naïve"),
        ("x" * 64 + "ing", "x" * 64 + "ing"),
    ],
)
def test_a_word_loses_its_endings(word: str, expected: str) -> None:
    assert stem(word) == expected


def test_every_word_of_our_pages_and_notes_has_the_stem_that_the_index_gives_it() -> None:
    tokenizer = apsw.Connection(":memory:").fts5_tokenizer(*TOKENIZER)
    root = Path(__file__).parents[2]
    files = [*root.glob("docs/**/*.md"), root / "tests/corpus/notes/corpus.jsonl"]
    known = {word for file in files for word in re.findall(r"[a-z]+", file.read_text(encoding="utf-8").lower())}
    assert len(known) > 3000
    for word in known:
        result = tokenizer(
            word.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
        )
        assert [stem(word)] == list(result), word
