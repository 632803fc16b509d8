"""What a query asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import query
from spec_kit_memory.errors import NothingToSearch, OutOfRange


def test_a_question_becomes_terms_and_keywords() -> None:
    read = query.read("How does rerankBudget work?")
    assert read.text == "How does rerankBudget work?"
    assert read.terms == ("rerankbudget", "rerank", "budget", "work")
    assert read.keywords == ("rerankbudget", "work")
    assert not read.historical


@pytest.mark.parametrize(
    "text",
    [
        "the original design",
        "how was it Originally built",
        "INITIAL schema",
        "historical choices",
        "history  of the index",
        "what did it do previously?",
        "why did we drop it",
        "Why did\nwe drop it",
    ],
)
def test_questions_about_the_past_are_noticed(text: str) -> None:
    assert query.read(text).historical


@pytest.mark.parametrize(
    "text",
    [
        "initialize the store",
        "originality",
        "prehistorical",
        "history tab",
        "why did it fail",
        "initial_value",
        "initials",
    ],
)
def test_words_that_only_contain_a_marker_are_not_about_the_past(text: str) -> None:
    assert not query.read(text).historical


def test_unusable_characters_are_left_out() -> None:
    read = query.read("\x00find\ud800 me\x00")
    assert read.text == "find  me"
    assert read.terms == ("find",)


@given(st.text(alphabet=st.characters(), max_size=200))
def test_any_text_is_a_query(text: str) -> None:
    read = query.read(text)
    read.text.encode("utf-8")
    assert len(read.terms) == len(set(read.terms)) <= 64
    assert len(read.keywords) <= 32


def test_text_without_words_has_no_terms() -> None:
    assert query.read("!!! 🎉 ???") == query.Query(text="!!! 🎉 ???", terms=(), keywords=())


def test_a_search_needs_a_query_or_concepts() -> None:
    query.check("anything")
    query.check(None, ["one", "two"])
    for text, concepts in ((None, ()), ("", ()), (" \x00 ", ()), (None, ("one", " "))):
        with pytest.raises(NothingToSearch):
            query.check(text, concepts)


@pytest.mark.parametrize("count", [1, 6])
def test_the_number_of_concepts_is_limited(count: int) -> None:
    with pytest.raises(OutOfRange, match=str(count)):
        query.check(None, ["word"] * count)
