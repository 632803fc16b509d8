from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import calibration
from spec_kit_memory.core.calibration import CLEAR, UNCLEAR, MatchCurve
from spec_kit_memory.core.relevance import Candidate
from spec_kit_memory.embed.local import LocalEmbedder

CURVE = calibration.CURVES[LocalEmbedder.name]
UNRELATED = (0.48, 0.04)


def match(
    *,
    late: float = 0.3,
    vector: float | None = 0.5,
    text: float | None = None,
    tokens: int = 64,
    words: int = 3,
    passages: int = 3_000,
) -> float | None:
    candidate = Candidate(1, 1, 0, tokens=tokens, text=text, vector=vector)
    states = np.full((words, 1), late)
    rows = calibration.evidence([candidate], states, unrelated=UNRELATED, last_vector=0.55, passages=passages)
    return calibration.matches(CURVE, rows)[0]


def value(**how: float | None) -> float:
    hits = match(**how)  # type: ignore[arg-type]
    assert hits is not None
    return hits


shares = st.floats(0, 1)


@given(late=shares, vector=shares, text=shares, more=st.floats(0, 0.5))
def test_match_is_a_share_that_rises_with_every_leg(late: float, vector: float, text: float, more: float) -> None:
    here = value(late=late, vector=vector, text=text)
    assert 0 < here < 1
    for better in (
        value(late=late + more, vector=vector, text=text),
        value(late=late, vector=vector + more, text=text),
        value(late=late, vector=vector, text=text + more),
    ):
        assert better >= here


@given(late=shares, vector=shares, text=shares)
def test_match_has_no_steps(late: float, vector: float, text: float) -> None:
    here = value(late=late, vector=vector, text=text)
    near = value(late=late + 1e-6, vector=vector + 1e-6, text=text + 1e-6)
    assert abs(near - here) < 1e-3


def test_what_unrelated_texts_have_is_no_match_and_the_words_of_the_question_are_one() -> None:
    assert value(late=0.3, vector=0.5) < UNCLEAR
    assert value(late=0.55, vector=0.62, text=0.4) > CLEAR


def test_a_low_cosine_says_nothing_against_a_passage_that_has_the_words() -> None:
    assert value(late=0.5, vector=0.2, text=0.4) == value(late=0.5, vector=0.48, text=0.4)


def test_a_cosine_far_beyond_what_unrelated_texts_have_tells_by_itself() -> None:
    assert value(late=0.15, vector=0.48 + 7 * 0.04, text=0.25) > CLEAR
    assert value(late=0.15, vector=0.48 + 3 * 0.04, text=0.25) < UNCLEAR


def test_a_long_passage_has_to_match_better_than_a_short_one() -> None:
    assert value(late=0.4, tokens=512) < value(late=0.4, tokens=64) == value(late=0.4, tokens=10)


def test_the_best_of_many_passages_has_to_match_better_than_the_best_of_few() -> None:
    numbers = [value(late=0.4, passages=passages) for passages in (30, 300, 3_000, 30_000, 300_000)]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == len(numbers)
    assert value(late=0.4, passages=1) == value(late=0.4, passages=30)


def test_a_passage_beyond_the_vector_leg_has_what_the_last_one_in_it_has() -> None:
    assert match(vector=None) == match(vector=0.55)


def test_nothing_is_said_of_a_passage_without_a_vector_or_of_a_query_without_words() -> None:
    assert match(late=float("nan")) is None
    assert match(words=0) is None


def test_half_is_where_the_evidence_weighs_nothing() -> None:
    rows = np.array([[0.0, 2.0, 0.0, 0.0], [1.0, 2.0, 0.0, 0.0], [-1.0, 2.0, 0.0, 0.0]])
    result = calibration.matches(MatchCurve(3.0, 1.0, 1.0, 1.0, -2.0), rows)
    assert result == pytest.approx([0.5, 0.887, 0.113], abs=1e-3)


def test_the_bundled_model_has_a_curve_without_negative_factors() -> None:
    assert min(CURVE.factors) > 0
