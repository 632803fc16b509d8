"""Fusing the legs of a search into one relevance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.relevance import Candidate, fuse


def ranked(candidates: list[Candidate], **how: object) -> list[int]:
    found = fuse(candidates, **how)  # type: ignore[arg-type]
    return sorted(found, key=lambda passage_id: -found[passage_id].value)


def document(number: int, legs: dict[str, float]) -> Candidate:
    return Candidate(number, number, 0, text=legs.get("text"), vector=legs.get("vector"), late=legs.get("late"))


def test_no_candidates_have_no_relevance() -> None:
    assert fuse([]) == {}
    assert fuse([], method="rrf") == {}


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ValueError, match="median"):
        fuse([Candidate(1, 1, 0, text=1.0)], method="median")


@pytest.mark.parametrize("method", ["best", "rrf"])
def test_a_lone_match_of_one_leg_is_never_zero(method: str) -> None:
    assert fuse([Candidate(1, 1, 0, text=0.3)], method=method)[1].value == pytest.approx(1.0)
    assert fuse([Candidate(1, 1, 0, vector=0.3)], method=method)[1].value == pytest.approx(1.0)


def test_reciprocal_rank_is_the_plain_formula_over_the_best_possible() -> None:
    found = fuse(
        [
            Candidate(1, 1, 0, text=9.0, vector=0.5),
            Candidate(2, 1, 1, text=4.0, vector=0.9),
            Candidate(3, 2, 0, vector=0.7),
        ],
        method="rrf",
    )
    assert found[1].value == pytest.approx((1 / 61 + 1 / 63) / (2 / 61))
    assert found[2].value == pytest.approx((1 / 62 + 1 / 61) / (2 / 61))
    assert found[3].value == pytest.approx((1 / 62) / (2 / 61))


def test_reciprocal_rank_ignores_late_interaction_and_speakers() -> None:
    plain = [Candidate(1, 1, 0, text=2.0), Candidate(2, 1, 1, text=1.0)]
    spoken = [Candidate(1, 1, 0, "Ann", text=2.0, late=0.1), Candidate(2, 1, 1, "Bob", text=1.0, late=0.9)]
    assert fuse(plain, method="rrf") == fuse(spoken, method="rrf", role_prior={"Bob": 5.0})


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
    found = fuse(candidates)
    assert found[0].value == pytest.approx(1.0)
    assert found[0].value > found[1].value >= found[2].value


def test_found_by_both_legs_beats_found_by_one() -> None:
    both = Candidate(1, 1, 0, text=5.0, vector=0.7, late=0.5)
    text_only = Candidate(2, 2, 0, text=5.0, vector=0.3, late=0.2)
    vector_only = Candidate(3, 3, 0, vector=0.7, late=0.4)
    assert ranked([text_only, vector_only, both])[0] == 1


def test_a_turn_gains_from_the_turn_beside_it() -> None:
    hit = Candidate(1, 1, 10, "Ann", text=9.0, vector=0.9)
    beside = Candidate(2, 1, 11, "Bob", text=2.0, vector=0.5)
    away = Candidate(3, 1, 40, "Bob", text=2.0, vector=0.5)
    low = Candidate(4, 2, 0, "Ann", text=0.5, vector=0.2)
    found = fuse([hit, beside, away, low])
    assert found[2].value > found[3].value


def test_a_turn_gains_from_a_session_that_is_about_the_query() -> None:
    about = [Candidate(number, 1, number * 5, "Ann", text=8.0, vector=0.8) for number in (1, 2)]
    inside = Candidate(3, 1, 50, "Bob", text=3.0, vector=0.5)
    outside = Candidate(4, 2, 50, "Bob", text=3.0, vector=0.5)
    low = Candidate(5, 3, 0, "Ann", text=0.5, vector=0.2)
    found = fuse([*about, inside, outside, low])
    assert found[3].value > found[4].value


def test_passages_of_a_document_gain_nothing_from_each_other() -> None:
    hit = Candidate(1, 1, 10, text=9.0, vector=0.9)
    beside = Candidate(2, 1, 11, text=2.0, vector=0.5)
    elsewhere = Candidate(3, 2, 0, text=2.0, vector=0.5)
    found = fuse([hit, beside, elsewhere, Candidate(4, 3, 0, text=0.5, vector=0.2)])
    assert found[2].value == found[3].value


def test_a_role_prior_lifts_that_speakers_turns_only() -> None:
    said = [Candidate(1, 1, 0, "user", text=4.0), Candidate(2, 2, 0, "assistant", text=5.0)]
    said.append(Candidate(3, 3, 0, "user", text=1.0))
    assert ranked(said) == [2, 1, 3]
    assert ranked(said, role_prior={"user": 0.5}) == [1, 2, 3]


def test_the_parts_add_up_to_the_value() -> None:
    found = fuse(
        [Candidate(1, 1, 0, "Ann", text=3.0, vector=0.4, late=0.6), Candidate(2, 1, 1, "Bob", vector=0.8, late=0.5)],
        role_prior={"Ann": 0.2},
    )
    for relevance in found.values():
        assert sum(relevance.parts.values()) == pytest.approx(relevance.value)
    assert {"text", "vector", "late", "role"} <= set(found[1].parts)


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
        Candidate(number, memory, ordinal, speaker, 10, text, vector, late)
        for number, (memory, ordinal, speaker, text, vector, late) in enumerate(rows)
    ]
    found = fuse(candidates, method=method, role_prior={"user": 0.3})
    assert set(found) == set(range(len(rows)))
    assert all(0.0 <= relevance.value <= 1.0 + 1e-9 for relevance in found.values())


@given(some)
def test_the_order_in_which_candidates_come_makes_no_difference(
    rows: list[tuple[int, int, str, float | None, float | None, float | None]],
) -> None:
    unique = {(row[0], row[1]): row for row in rows}
    candidates = [
        Candidate(number, memory, ordinal, speaker, 10, text, vector, late)
        for number, (memory, ordinal, speaker, text, vector, late) in enumerate(unique.values())
    ]
    forward, backward = fuse(candidates), fuse(candidates[::-1])
    for passage_id, relevance in forward.items():
        assert backward[passage_id].value == pytest.approx(relevance.value)


def test_a_long_passage_needs_a_better_late_match_than_a_short_one() -> None:
    short = Candidate(1, 1, 0, tokens=30, vector=0.6, late=0.40)
    long = Candidate(2, 2, 0, tokens=400, vector=0.6, late=0.44)
    much_better = Candidate(3, 3, 0, tokens=400, vector=0.6, late=0.60)
    assert ranked([long, short, much_better]) == [3, 1, 2]


def test_the_next_piece_of_the_same_message_is_no_neighbour() -> None:
    hit = Candidate(1, 1, 10, "Ann", text=9.0, vector=0.9)
    same_message = Candidate(2, 1, 11, "Ann", text=2.0, vector=0.5)
    far = Candidate(3, 1, 40, "Ann", text=2.0, vector=0.5)
    found = fuse([hit, same_message, far, Candidate(4, 1, 60, "Bob", text=0.5, vector=0.2)])
    assert found[2].value == found[3].value


def test_a_passage_whose_vectors_are_still_to_come_is_ranked_by_its_text() -> None:
    done = [
        Candidate(number, number, 0, text=text, vector=vector, late=late)
        for number, text, vector, late in ((1, 8.0, 0.75, 0.5), (2, 3.0, 0.6, 0.3), (3, 1.0, 0.5, 0.1))
    ]
    pending = [Candidate(4, 4, 0, text=9.0), Candidate(5, 5, 0, text=0.5)]
    order = ranked([*done, *pending])
    assert order[0] in (1, 4)
    assert order.index(4) < order.index(2)
    assert order.index(5) > order.index(2)


def test_a_passage_without_words_that_count_is_ranked_by_its_vector() -> None:
    done = [Candidate(1, 1, 0, vector=0.8, late=0.5), Candidate(2, 2, 0, vector=0.6, late=0.3)]
    wordless = [Candidate(3, 3, 0, vector=0.79), Candidate(4, 4, 0, vector=0.55)]
    assert ranked([*done, *wordless]) == [1, 3, 2, 4]


def test_below_the_vector_legs_depth_is_at_most_as_near_as_its_last() -> None:
    last = Candidate(1, 1, 0, text=2.0, vector=0.6, late=0.3)
    beyond = Candidate(2, 2, 0, text=2.0, late=0.3)
    found = fuse([Candidate(3, 3, 0, vector=0.8, late=0.5), last, beyond])
    assert found[2].value == pytest.approx(found[1].value)
    assert found[2].value > 0


def test_the_second_of_two_good_matches_is_not_called_worthless() -> None:
    for late in (0.45, None):
        found = fuse(
            [Candidate(1, 1, 0, text=5.0, vector=0.75, late=late), Candidate(2, 2, 0, text=4.8, vector=0.74, late=late)]
        )
        assert found[2].value > 0.8


def test_a_lone_turn_and_a_document_with_the_same_numbers_are_about_as_relevant() -> None:
    numbers = {"text": 5.0, "vector": 0.75, "late": 0.5}
    turn = Candidate(2, 2, 5, "Ann", 50, **numbers)
    others = [Candidate(3, 2, 6, "Bob", 50, vector=0.6, late=0.25), Candidate(4, 3, 0, "", 50, vector=0.55, late=0.2)]
    found = fuse([Candidate(1, 1, 0, "", 50, **numbers), turn, *others])
    assert found[2].value == pytest.approx(found[1].value, rel=0.1)


def test_text_alone_keeps_the_proportions_of_its_numbers() -> None:
    found = fuse([Candidate(1, 1, 0, text=8.0), Candidate(2, 2, 0, text=4.0)])
    assert (found[1].value, found[2].value) == (1.0, 0.5)
