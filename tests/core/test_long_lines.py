"""A line longer than a passage is read in parts that together are the line, and each part is known again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import long_lines
from spec_kit_memory.core.long_lines import LONGEST_LINE_BYTES, LineLayout, is_long, parts, text_of
from spec_kit_memory.core.markdown import parse
from spec_kit_memory.core.memory import Conversation, Turn
from spec_kit_memory.core.passages import split, turns

SENTENCES = " ".join(f"Sentence {number} tells of ropes and tides in the harbour." for number in range(200))
WORDS = " ".join(f"word{number}" for number in range(2_000))
LINES = {
    "sentences": SENTENCES,
    "words": WORDS,
    "no spaces": "aB3x" * 3_000,
    "Chinese": "数据库迁移完成之后服务器需要重新启动。" * 300,
    "Thai": "ฐานข้อมูลใหม่" * 400,
    "emoji": "👩‍💻🚀" * 900,
    "marks": "e\u0301" * 3_000,
}


@pytest.mark.parametrize("name", LINES)
def test_parts_are_the_line_and_none_is_longer_than_a_passage(name: str) -> None:
    line = LINES[name]
    result = parts(line)
    assert len(result) > 2
    assert "".join(result) == line
    assert all(0 < len(part.encode()) <= LONGEST_LINE_BYTES for part in result)
    assert min(len(part.encode()) for part in result[:-1]) > LONGEST_LINE_BYTES // 3


def test_parts_end_with_sentences_else_words_and_never_inside_a_letter() -> None:
    assert all(part.rstrip().endswith(".") for part in parts(SENTENCES))
    assert all(part.strip().startswith("word") for part in parts(WORDS))
    assert all(part.endswith("。") for part in parts(LINES["Chinese"]))
    assert not any(part.startswith("\u0301") for part in parts(LINES["marks"]))


@given(st.text(max_size=400), st.integers(min_value=1, max_value=60))
def test_any_line_is_the_sum_of_its_parts(text: str, times: int) -> None:
    line = text.replace("\n", " ") * times
    assert "".join(parts(line)) == line
    assert (len(parts(line)) == 1) == (not is_long(line))


@pytest.mark.parametrize("name", LINES)
def test_a_long_line_becomes_passages_with_its_number_and_each_is_found_again(name: str) -> None:
    text = f"# Top\n\nBefore.\n\n{LINES[name]}\n\nAfter.\n"
    document = parse(text)
    passages = split(document)
    lines = document.text.split("\n")
    own = [passage for passage in passages if passage.first_line == passage.last_line == 5]
    assert len(own) == len([part for part in parts(LINES[name]) if part.strip()])
    assert [passage.ordinal for passage in passages] == list(range(len(passages)))
    for passage in passages:
        assert text_of(lines, passage) == passage.text
        assert len(passage.text.encode()) <= LONGEST_LINE_BYTES
    assert any("Before." in passage.text for passage in passages)
    assert any("After." in passage.text for passage in passages)


def test_a_line_of_a_conversation_is_split_alike() -> None:
    text, passages = turns(Conversation("c", "t", (Turn("user", "Short."), Turn("bot", SENTENCES))))
    assert len(passages) > 3
    assert all(passage.text in text and passage.tokens < 500 for passage in passages)
    assert {passage.first_line for passage in passages} == {1, 3}


def test_ordinary_lines_are_left_as_they_are() -> None:
    line = "x " * (LONGEST_LINE_BYTES // 2)
    assert parts(line) == (line,)
    layout = LineLayout(["a", line, ""])
    assert layout.lines == ["a", line, ""]
    assert layout.real(2, 3) == (2, 3)
    assert layout.text(1, 2) == f"a\n{line}"


def test_a_layout_shows_parts_with_a_sign_where_the_line_goes_on() -> None:
    layout = LineLayout(["# Top", SENTENCES, "End."])
    count = len(parts(SENTENCES))
    assert layout.laid(2, 2) == (2, count + 1)
    assert layout.laid(3, 3) == (count + 2, count + 2)
    assert layout.text(3, 3) == f"…{parts(SENTENCES)[1].rstrip()}…"
    assert layout.text(1, 2) == f"# Top\n{parts(SENTENCES)[0].rstrip()}…"
    assert layout.text(1, len(layout.lines)) == f"# Top\n{SENTENCES}\nEnd."
    assert layout.real(3, 4) == (2, 2)
    assert layout.is_whole(2, count + 1)
    assert not layout.is_whole(2, 3)


def test_two_equal_parts_of_a_line_are_one_passage_s_text() -> None:
    line = "aB3x" * 3_000
    document = parse(line)
    for passage in split(document):
        assert text_of([line], passage) == passage.text
    assert long_lines.passage_hash((), "a") != long_lines.passage_hash(("H",), "a")
