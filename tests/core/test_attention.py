"""What is a session attending to?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import attention
from spec_kit_memory.core.memory import Link, Relation, Session, State, Tier

TIERS = {1: Tier.NORMAL, 2: Tier.CRITICAL, 3: Tier.TEMPORARY}


def link(source: int, target: int) -> Link:
    return Link(0, source, target, Relation.CAUSED)


def test_a_turn_is_one_more_or_the_given_one_and_never_runs_backwards() -> None:
    session = attention.next_turn(Session("s"))
    assert session.turn == 1
    assert attention.next_turn(session, turn_number=9).turn == 9
    assert attention.next_turn(session, turn_number=0).turn == 1


def test_attention_fades_by_the_tiers_rate_per_turn() -> None:
    session = attention.attend(Session("s", turn=1), {1: 1.0, 2: 1.0, 3: 1.0}, tiers=TIERS)
    later = attention.next_turn(session, turn_number=6)
    left = attention.strengths(later, tiers=TIERS)
    assert left[1] == pytest.approx(0.33, abs=0.005)
    assert left[2] == 1.0
    assert left[3] == pytest.approx(0.6**5)


def test_a_new_match_renews_attention_and_a_weaker_sign_does_not_lower_it() -> None:
    session = attention.attend(Session("s", turn=1), {1: 1.0}, tiers=TIERS)
    session = attention.attend(attention.next_turn(session), {1: 0.5}, tiers=TIERS, via="link")
    assert attention.strengths(session, tiers=TIERS)[1] == pytest.approx(0.8)
    session = attention.attend(session, {1: 1.0}, tiers=TIERS)
    assert attention.strengths(session, tiers=TIERS)[1] == 1.0


def test_working_memory_keeps_the_seven_most_attended() -> None:
    session = attention.attend(Session("s"), {number: number / 20 for number in range(1, 13)}, tiers={})
    assert [memory_id for memory_id, _ in attention.working_memory(session, tiers={})] == [12, 11, 10, 9, 8, 7, 6]


def test_what_faded_away_leaves_the_session() -> None:
    session = attention.attend(Session("s", turn=1), {3: 1.0}, tiers=TIERS)
    session = attention.attend(attention.next_turn(session, turn_number=40), {2: 1.0}, tiers=TIERS)
    assert [entry.memory_id for entry in session.attention] == [2]
    assert attention.forget(session, [2]).attention == ()


def test_linked_memories_are_co_activated_at_half_strength_for_two_hops() -> None:
    near = attention.co_activate({1: 1.0}, links=[link(1, 2), link(3, 2), link(3, 4)], folders={})
    assert [(entry.memory_id, entry.strength, entry.hops) for entry in near] == [(2, 0.5, 1), (3, 0.25, 2)]
    assert all(entry.from_id == 1 for entry in near)


def test_documents_of_the_same_spec_folder_are_one_hop_away() -> None:
    near = attention.co_activate(
        {1: 1.0}, links=[link(8, 9)], folders={1: "007-auth", 5: "007-auth", 8: "007-auth", 6: "other"}
    )
    assert [(entry.memory_id, entry.strength) for entry in near] == [(5, 0.5), (8, 0.5), (9, 0.25)]


def test_the_strongest_match_counts_and_matches_are_not_co_activated() -> None:
    near = attention.co_activate({1: 0.4, 2: 1.0}, links=[link(1, 2), link(1, 3), link(2, 3)], folders={})
    assert [(entry.memory_id, entry.strength, entry.from_id) for entry in near] == [(3, 0.5, 2)]
    near = attention.co_activate({1: 0.4, 2: 1.0}, links=[], folders={1: "f", 2: "f", 3: "f"})
    assert [(entry.memory_id, entry.strength) for entry in near] == [(3, 0.5)]


def test_the_level_decides_how_much_is_shown() -> None:
    assert attention.level(1.0) is State.HOT
    assert attention.level(0.5) is State.WARM
    assert attention.level(0.25) is State.COLD
    assert [attention.shown(state) for state in State] == ["content", "summary", "title", "title", "title"]


def test_saving_is_suggested_every_interval_without_a_save() -> None:
    session = Session("s", turn=20)
    assert attention.save_due(session, interval=20)
    assert not attention.save_due(Session("s", turn=21), interval=20)
    assert attention.save_due(Session("s", turn=40), interval=20)
    saved = attention.saved(session)
    assert not attention.save_due(saved, interval=20)
    assert attention.save_due(attention.next_turn(saved, turn_number=40), interval=20)
    assert not attention.save_due(Session("s", turn=20), interval=0)


@given(st.lists(st.tuples(st.integers(1, 30), st.floats(0.1, 1)), max_size=30), st.integers(0, 50))
def test_attention_never_grows_with_turns(given_strengths: list[tuple[int, float]], turns: int) -> None:
    session = attention.attend(Session("s"), dict(given_strengths), tiers={})
    before = attention.strengths(session, tiers={})
    after = attention.strengths(attention.next_turn(session, turn_number=turns), tiers={})
    assert all(after[memory_id] <= before[memory_id] for memory_id in after)
