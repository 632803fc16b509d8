"""Fusing the legs of a search into one relevance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.relevance import Candidate, Fused, estimate, fuse

Found = tuple[Candidate, float | None]  # with the best match of a query of one word


def found_(
    passage_id: int,
    memory_id: int,
    ordinal: int,
    speaker: str = "",
    tokens: int = 0,
    text: float | None = None,
    vector: float | None = None,
    late: float | None = None,
) -> Found:
    return Candidate(passage_id, memory_id, ordinal, speaker, tokens, text, vector), late


def fused(rows: Sequence[Found], **how: object) -> Fused:
    late = [np.nan if number is None else number for _, number in rows]
    words = None if np.isnan(late).all() else np.array([late])
    return fuse([candidate for candidate, _ in rows], words=words, **how)  # type: ignore[arg-type]


def ranked(rows: Sequence[Found], **how: object) -> list[int]:
    values = fused(rows, **how)
    return sorted(values, key=lambda passage_id: -values[passage_id].value)


def document(number: int, legs: dict[str, float]) -> Found:
    return found_(number, number, 0, text=legs.get("text"), vector=legs.get("vector"), late=legs.get("late"))


def test_no_candidates_have_no_relevance() -> None:
    assert fused([]) == {}
    assert fused([], method="rrf") == {}


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ValueError, match="median"):
        fused([found_(1, 1, 0, text=1.0)], method="median")


@pytest.mark.parametrize("method", ["best", "rrf"])
def test_a_lone_match_of_one_leg_is_never_zero(method: str) -> None:
    assert fused([found_(1, 1, 0, text=0.3)], method=method)[1].value == pytest.approx(1.0)
    assert fused([found_(1, 1, 0, vector=0.3)], method=method)[1].value == pytest.approx(1.0)


def test_reciprocal_rank_is_the_plain_formula_over_the_best_possible() -> None:
    result = fused(
        [
            found_(1, 1, 0, text=9.0, vector=0.5),
            found_(2, 1, 1, text=4.0, vector=0.9),
            found_(3, 2, 0, vector=0.7),
        ],
        method="rrf",
    )
    assert result[1].value == pytest.approx((1 / 61 + 1 / 63) / (2 / 61))
    assert result[2].value == pytest.approx((1 / 62 + 1 / 61) / (2 / 61))
    assert result[3].value == pytest.approx((1 / 62) / (2 / 61))


def test_reciprocal_rank_ignores_late_interaction_and_speakers() -> None:
    plain = [found_(1, 1, 0, text=2.0), found_(2, 1, 1, text=1.0)]
    spoken = [found_(1, 1, 0, "Ann", text=2.0, late=0.1), found_(2, 1, 1, "Bob", text=1.0, late=0.9)]
    assert fused(plain, method="rrf") == fused(spoken, method="rrf", role_prior={"Bob": 5.0})


@pytest.mark.parametrize("leg", ["text", "vector", "late"])
def test_a_better_number_in_any_leg_is_a_better_match(leg: str) -> None:
    same = {"text": 3.0, "vector": 0.5, "late": 0.5}
    low = document(1, same)
    high = document(2, {**same, leg: same[leg] + 0.3})
    assert ranked([low, high]) == [2, 1]


@pytest.mark.parametrize("leg", ["text", "vector", "late"])
def test_a_leg_that_is_missing_everywhere_leaves_the_others_their_order(leg: str) -> None:
    rows = [{"text": 9.0, "vector": 0.9, "late": 0.9}, {"text": 5.0, "vector": 0.6, "late": 0.6}, {"text": 1.0}]
    candidates = [
        document(number, {name: value for name, value in row.items() if name != leg}) for number, row in enumerate(rows)
    ]
    result = fused(candidates)
    assert result[0].value == pytest.approx(1.0)
    assert result[0].value > result[1].value >= result[2].value


def test_found_by_both_legs_beats_found_by_one() -> None:
    both = found_(1, 1, 0, text=5.0, vector=0.7, late=0.5)
    text_only = found_(2, 2, 0, text=5.0, vector=0.3, late=0.2)
    vector_only = found_(3, 3, 0, vector=0.7, late=0.4)
    assert ranked([text_only, vector_only, both])[0] == 1


def test_a_turn_gains_from_the_turn_beside_it() -> None:
    hit = found_(1, 1, 10, "Ann", text=9.0, vector=0.9)
    beside = found_(2, 1, 11, "Bob", text=2.0, vector=0.5)
    away = found_(3, 1, 40, "Bob", text=2.0, vector=0.5)
    low = found_(4, 2, 0, "Ann", text=0.5, vector=0.2)
    result = fused([hit, beside, away, low])
    assert result[2].value > result[3].value


def test_a_turn_gains_from_a_session_that_is_about_the_query() -> None:
    about = [found_(number, 1, number * 5, "Ann", text=8.0, vector=0.8) for number in (1, 2)]
    inside = found_(3, 1, 50, "Bob", text=3.0, vector=0.5)
    outside = found_(4, 2, 50, "Bob", text=3.0, vector=0.5)
    low = found_(5, 3, 0, "Ann", text=0.5, vector=0.2)
    result = fused([*about, inside, outside, low])
    assert result[3].value > result[4].value


def test_passages_of_a_document_gain_nothing_from_each_other() -> None:
    hit = found_(1, 1, 10, text=9.0, vector=0.9)
    beside = found_(2, 1, 11, text=2.0, vector=0.5)
    elsewhere = found_(3, 2, 0, text=2.0, vector=0.5)
    result = fused([hit, beside, elsewhere, found_(4, 3, 0, text=0.5, vector=0.2)])
    assert result[2].value == result[3].value


def test_a_role_prior_lifts_that_speakers_turns_only() -> None:
    messages = [found_(1, 1, 0, "user", text=4.0), found_(2, 2, 0, "assistant", text=5.0)]
    messages.append(found_(3, 3, 0, "user", text=1.0))
    assert ranked(messages) == [2, 1, 3]
    assert ranked(messages, role_prior={"user": 0.5}) == [1, 2, 3]


def test_the_parts_add_up_to_the_value() -> None:
    result = fused(
        [found_(1, 1, 0, "Ann", text=3.0, vector=0.4, late=0.6), found_(2, 1, 1, "Bob", vector=0.8, late=0.5)],
        role_prior={"Ann": 0.2},
    )
    for relevance in result.values():
        assert sum(relevance.parts.values()) == pytest.approx(relevance.value)
    assert {"text", "vector", "late", "role"} <= set(result[1].parts)


numbers = st.one_of(st.none(), st.floats(-1, 50, allow_nan=False))
some = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 9), st.sampled_from(["", "Ann", "user"]), numbers, numbers, numbers),
    max_size=12,
)


@given(some, st.sampled_from(["best", "rrf"]))
def test_every_candidate_gets_a_relevance_between_zero_and_one(
    rows: list[tuple[int, int, str, float | None, float | None, float | None]], method: str
) -> None:
    candidates = [
        found_(number, memory, ordinal, speaker, 10, text, vector, late)
        for number, (memory, ordinal, speaker, text, vector, late) in enumerate(rows)
    ]
    result = fused(candidates, method=method, role_prior={"user": 0.3})
    assert set(result) == set(range(len(rows)))
    assert all(0.0 <= relevance.value <= 1.0 + 1e-9 for relevance in result.values())


@given(some)
def test_the_order_in_which_candidates_come_makes_no_difference(
    rows: list[tuple[int, int, str, float | None, float | None, float | None]],
) -> None:
    unique = {(row[0], row[1]): row for row in rows}
    candidates = [
        found_(number, memory, ordinal, speaker, 10, text, vector, late)
        for number, (memory, ordinal, speaker, text, vector, late) in enumerate(unique.values())
    ]
    forward, backward = fused(candidates), fused(candidates[::-1])
    for passage_id, relevance in forward.items():
        assert backward[passage_id].value == pytest.approx(relevance.value)


def test_a_long_message_needs_a_better_late_match_than_a_short_one() -> None:
    short = found_(1, 1, 0, "Ann", tokens=30, vector=0.6, late=0.40)
    long = found_(2, 2, 0, "Ann", tokens=400, vector=0.6, late=0.44)
    much_better = found_(3, 3, 0, "Ann", tokens=400, vector=0.6, late=0.60)
    assert ranked([long, short, much_better]) == [3, 1, 2]


def test_the_length_of_a_document_s_passages_makes_no_difference() -> None:
    short = found_(1, 1, 0, tokens=30, vector=0.6, late=0.40)
    long = found_(2, 2, 0, tokens=400, vector=0.6, late=0.40)
    result = fused([short, long])
    assert result[1].value == result[2].value


def test_a_turn_gains_where_the_other_speaker_has_the_missing_word() -> None:
    """The question has the one word, the answer the other."""
    asked = Candidate(1, 1, 10, "Ann", 20, vector=0.6)
    answered = Candidate(2, 1, 11, "Bob", 20, vector=0.6)
    alone = Candidate(3, 2, 40, "Bob", 20, vector=0.6)
    result = fuse([asked, answered, alone], words=np.array([[0.9, 0.2, 0.2], [0.2, 0.7, 0.7]]))
    assert result[2].value > result[3].value


def test_a_word_that_half_of_the_passages_have_does_not_drown_the_others() -> None:
    name, nearly = [0.95] * 5 + [0.2] * 6, [0.2] * 10 + [0.8]
    rows = [Candidate(number, number, 0, vector=0.6) for number in range(11)]
    result = fuse(rows, words=np.array([name, nearly]))
    assert result[10].value > result[0].value


def test_what_is_half_as_good_is_worth_a_quarter() -> None:
    result = fused([found_(1, 1, 0, text=0.8), found_(2, 2, 0, text=0.4)])
    assert [result[1].value, result[2].value] == pytest.approx([1.0, 0.25])
    assert result[2].value == pytest.approx(0.5**result.steepness)


def test_text_that_matches_little_of_the_question_counts_for_little() -> None:
    """The best of bad text matches must not stand above a good match by meaning."""
    meant = found_(1, 1, 0, vector=0.75, late=0.5)
    worded = found_(2, 2, 0, text=0.1, vector=0.65, late=0.45)
    assert ranked([meant, worded]) == [1, 2]
    assert estimate(0.1, 0.65) < estimate(0.0, 0.75)


def test_the_next_piece_of_the_same_message_is_no_neighbour() -> None:
    hit = found_(1, 1, 10, "Ann", text=9.0, vector=0.9)
    same_message = found_(2, 1, 11, "Ann", text=2.0, vector=0.5)
    far = found_(3, 1, 40, "Ann", text=2.0, vector=0.5)
    result = fused([hit, same_message, far, found_(4, 1, 60, "Bob", text=0.5, vector=0.2)])
    assert result[2].value == result[3].value


def test_a_passage_whose_vectors_are_still_to_come_is_ranked_by_its_text() -> None:
    done = [
        found_(number, number, 0, text=text, vector=vector, late=late)
        for number, text, vector, late in ((1, 8.0, 0.75, 0.5), (2, 3.0, 0.6, 0.3), (3, 1.0, 0.5, 0.1))
    ]
    pending = [found_(4, 4, 0, text=9.0), found_(5, 5, 0, text=0.5)]
    order = ranked([*done, *pending])
    assert order[0] in (1, 4)
    assert order.index(4) < order.index(2)
    assert order.index(5) > order.index(2)


def test_without_late_interaction_too_a_passage_whose_vector_is_still_to_come_is_ranked_by_its_text() -> None:
    done = [Candidate(1, 1, 0, text=8.0, vector=0.75), Candidate(2, 2, 0, text=6.0, vector=0.5)]
    beyond = Candidate(3, 3, 0, text=9.0)  # it has one, below the depth of that leg
    result = fuse([*done, beyond, beyond._replace(passage_id=4, memory_id=4, pending=True)])
    assert sorted(result, key=lambda passage_id: -result[passage_id].value) == [4, 1, 3, 2]
    only_by_text = fuse([done[0]._replace(vector=None, pending=True), done[1]._replace(vector=None, pending=True)])
    assert only_by_text[1].value == pytest.approx(1.0)


def test_a_passage_without_words_that_count_is_ranked_by_its_vector() -> None:
    done = [found_(1, 1, 0, vector=0.8, late=0.5), found_(2, 2, 0, vector=0.6, late=0.3)]
    wordless = [found_(3, 3, 0, vector=0.79), found_(4, 4, 0, vector=0.55)]
    assert ranked([*done, *wordless]) == [1, 3, 2, 4]


def test_below_the_vector_legs_depth_is_at_most_as_near_as_its_last() -> None:
    last = found_(1, 1, 0, text=2.0, vector=0.6, late=0.3)
    beyond = found_(2, 2, 0, text=2.0, late=0.3)
    result = fused([found_(3, 3, 0, vector=0.8, late=0.5), last, beyond])
    assert result[2].value == pytest.approx(result[1].value)
    assert result[2].value > 0


def test_the_second_of_two_good_matches_is_not_called_worthless() -> None:
    for late in (0.45, None):
        result = fused(
            [found_(1, 1, 0, text=5.0, vector=0.75, late=late), found_(2, 2, 0, text=4.8, vector=0.74, late=late)]
        )
        assert result[2].value > 0.8


def test_a_lone_turn_and_a_document_with_the_same_numbers_are_about_as_relevant() -> None:
    numbers = {"text": 5.0, "vector": 0.75, "late": 0.5}
    turn = found_(2, 2, 5, "Ann", 50, **numbers)
    others = [found_(3, 2, 6, "Bob", 50, vector=0.6, late=0.25), found_(4, 3, 0, "", 50, vector=0.55, late=0.2)]
    result = fused([found_(1, 1, 0, "", 50, **numbers), turn, *others])
    assert result[2].value == pytest.approx(result[1].value, rel=0.1)


def test_a_negative_role_prior_lowers_that_speakers_turns_and_lifts_none() -> None:
    messages = [
        found_(1, 1, 0, "user", text=0.9),
        found_(2, 2, 0, "user", text=0.1),
        found_(3, 3, 0, "other", text=0.5),
    ]
    result = fused(messages, role_prior={"user": -1.0})
    assert result[3].value == 1.0
    assert result[1].value == result[2].value == 0.0
