"""Near-copies and what only looks like one."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.similar import THRESHOLD, Signature, score, signature

SUBJECTS = ["the scanner", "a session", "every checkpoint", "the ledger", "our parser", "the watcher", "one passage"]
VERBS = ["writes", "reads", "skips", "compares", "keeps", "drops", "renames", "verifies", "splits", "merges"]
OBJECTS = [
    "stale rows",
    "two files",
    "its own hash",
    "the front matter",
    "pending vectors",
    "the newest link",
    "old paths",
]
ENDS = [
    "after a crash",
    "before every save",
    "in one transaction",
    "without the network",
    "when asked twice",
    "at night",
]


def sentences(count: int, *, seed: int) -> list[str]:
    chance = random.Random(seed)
    parts = (SUBJECTS, VERBS, OBJECTS, ENDS)
    return [" ".join(chance.choice(part) for part in parts) + f" {chance.randrange(10**6)}." for _ in range(count)]


def of(text: list[str]) -> Signature:
    return signature("\n".join(text))


def test_the_same_text_scores_one() -> None:
    text = of(sentences(30, seed=1))
    assert score(text, text) == 1.0


def test_case_white_space_punctuation_and_dates_make_no_difference() -> None:
    one = signature("Decided on 2026-01-02:\n\nuse  SQLite, not files.")
    other = signature("decided ON 2025-12-31 use sqlite not files")
    assert score(one, other) == 1.0


def test_nothing_is_similar_to_an_empty_text() -> None:
    empty = signature("  \n--- ")
    assert score(empty, empty) == 0.0
    assert score(empty, signature("some words here")) == 0.0


@pytest.mark.parametrize("length", [12, 40, 400])
@pytest.mark.parametrize("edits", [1, 2])
def test_a_copy_with_a_few_edited_sentences_is_similar(length: int, edits: int) -> None:
    original = sentences(length, seed=length)
    copy = original.copy()
    for place, sentence in zip((3, 8), sentences(edits, seed=99), strict=False):
        copy[place] = sentence
    assert score(of(original), of(copy)) >= THRESHOLD


def test_texts_about_the_same_things_in_other_sentences_are_not_similar() -> None:
    assert score(of(sentences(60, seed=1)), of(sentences(60, seed=2))) < 0.5


def test_a_common_template_alone_does_not_make_texts_similar() -> None:
    template = sentences(20, seed=5)
    one, other = template + sentences(40, seed=6), template + sentences(40, seed=7)
    assert score(of(one), of(other)) < THRESHOLD


def test_text_without_spaces_is_compared_by_its_characters() -> None:
    text = "我们决定使用数据库来保存所有的记忆因为它在一个事务中完成所有的写入并且不需要网络"
    assert score(signature(text), signature(text + "好")) >= THRESHOLD
    assert score(signature(text), signature("今天的会议讨论了完全不同的事情例如界面的颜色和字体的大小")) < 0.2


def test_a_signature_survives_storage() -> None:
    for count in (0, 1, 30, 600):
        kept = of(sentences(count, seed=count))
        assert Signature.from_bytes(kept.to_bytes()) == kept


def test_a_signature_stays_small() -> None:
    assert len(of(sentences(5000, seed=1)).to_bytes()) <= 4096


@given(st.text(max_size=200), st.text(max_size=200))
def test_the_score_is_the_same_both_ways_and_between_zero_and_one(a: str, b: str) -> None:
    one, other = signature(a), signature(b)
    assert 0.0 <= score(one, other) <= 1.0
    assert score(one, other) == score(other, one)
    if one.runs:
        assert score(one, one) == 1.0


@given(st.integers(50, 120), st.integers(0, 40), st.integers(0, 40))
def test_more_edits_never_raise_the_score(length: int, edits: int, more: int) -> None:
    original, other = sentences(length, seed=1), sentences(length, seed=2)

    def edited(count: int) -> Signature:
        return of(other[:count] + original[count:])

    # A sample of the runs is compared, and the sample may err by a little.
    assert score(of(original), edited(min(length, edits + more))) <= score(of(original), edited(edits)) + 0.06
