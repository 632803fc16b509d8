"""One estimate of tokens, and cuts that end where a reader would stop."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.tokens import clip, count, offsets, quoted


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("ää", 1), ("日本語", 3)])
def test_four_bytes_are_one_token_rounded_up(text: str, tokens: int) -> None:
    assert count(text) == tokens


def test_a_text_within_its_budget_is_left_alone() -> None:
    assert clip("one\ntwo\n", 2) == "one\ntwo\n"


def test_a_cut_ends_with_a_line() -> None:
    assert clip("first line\nsecond line\nthird line", 7) == "first line\nsecond line"


def test_a_cut_inside_a_long_line_ends_with_a_sentence() -> None:
    assert clip("One sentence is here. Another follows it. And more", 12) == "One sentence is here. Another follows it."


def test_a_cut_without_lines_or_sentences_ends_with_a_word() -> None:
    assert clip("alpha beta gamma delta", 4) == "alpha beta"


def test_a_word_longer_than_the_budget_is_cut_inside() -> None:
    assert clip("x" * 100, 2) == "x" * 8


@given(st.text(), st.integers(min_value=-3, max_value=40))
def test_a_cut_is_a_beginning_within_the_budget(text: str, budget: int) -> None:
    cut = clip(text, budget)
    assert text.startswith(cut)
    assert count(cut) <= max(0, budget)


@given(st.text(alphabet="日ä. \n", min_size=20), st.integers(min_value=2, max_value=8))
def test_a_cut_never_leaves_half_a_character(text: str, budget: int) -> None:
    assert "\ufffd" not in clip(text, budget)


@given(st.text(st.sampled_from('ab"\\n\n\r\t\x00é日\ud800'), max_size=30))
def test_lines_are_measured_as_they_stand_in_json(text: str) -> None:
    sizes = [quoted(line) for line in text.split("\n")]
    assert offsets(text) == [sum(sizes[:number]) for number in range(len(sizes) + 1)]
