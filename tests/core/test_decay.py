"""Decay models, states and their filter in numbers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import decay
from spec_kit_memory.core.memory import State, StateBounds, Tier
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.settings import Decay

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TIERS = st.sampled_from(Tier)
MODELS = st.sampled_from(decay.MODELS)
AGES = st.one_of(
    st.sampled_from([0.0, 7.0, 30.0, 90.0]),
    st.floats(min_value=-5, max_value=4000, allow_nan=False),
)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


@pytest.mark.parametrize(("days", "left"), [(0, 1.00), (30, 0.79), (90, 0.50), (180, 0.25)])
def test_half_of_a_normal_memory_is_left_after_ninety_days(days: float, left: float) -> None:
    assert decay.factor(Tier.NORMAL, days=days) == pytest.approx(left, abs=0.005)


@pytest.mark.parametrize("tier", ["constitutional", "critical", "important", "deprecated"])
def test_the_half_life_spares_the_higher_tiers(tier: str) -> None:
    assert decay.factor(Tier(tier), days=5000) == 1.0


@pytest.mark.parametrize(("turns", "left"), [(0, 1.00), (5, 0.33), (10, 0.11), (15, 0.04)])
def test_a_normal_memory_keeps_four_fifths_with_each_turn(turns: int, left: float) -> None:
    assert decay.factor(Tier.NORMAL, model="turns", turns=turns) == pytest.approx(left, abs=0.005)


def test_a_temporary_memory_keeps_three_fifths_with_each_turn() -> None:
    assert decay.factor(Tier.TEMPORARY, model="turns", turns=2) == pytest.approx(0.36)


@pytest.mark.parametrize(
    ("tier", "days", "left"),
    [
        ("constitutional", 9999, 1.0),
        ("critical", 100, 0.9),
        ("critical", 9999, 0.5),
        ("important", 100, 0.5),
        ("important", 9999, 0.3),
        ("normal", 50, 0.5),
        ("normal", 9999, 0.1),
        ("temporary", 10, 0.5),
        ("temporary", 9999, 0.1),
        ("deprecated", 5, 0.5),
        ("deprecated", 9999, 0.05),
    ],
)
def test_linear_decay_has_a_rate_and_a_floor_for_each_tier(tier: str, days: float, left: float) -> None:
    assert decay.factor(Tier(tier), model="linear", days=days) == pytest.approx(left)


@pytest.mark.parametrize(
    ("state", "left"), [("HOT", 1.0), ("WARM", 0.95), ("COLD", 0.8), ("DORMANT", 0.6), ("ARCHIVED", 0)]
)
def test_the_states_model_reads_the_state(state: str, left: float) -> None:
    assert decay.factor(Tier.NORMAL, model="states", state=State(state)) == left


def test_settings_change_rates_floor_and_exempt_tiers() -> None:
    settings = Decay(half_life_days=10, rates={Tier.NORMAL: 0.5}, min_floor=0.2, exempt_tiers=(Tier.TEMPORARY,))
    assert decay.factor(Tier.NORMAL, days=10, settings=settings) == pytest.approx(0.5)
    assert decay.factor(Tier.NORMAL, model="linear", days=1, settings=settings) == pytest.approx(0.5)
    assert decay.factor(Tier.NORMAL, model="linear", days=9, settings=settings) == pytest.approx(0.2)
    assert decay.factor(Tier.TEMPORARY, model="turns", turns=50, settings=settings) == 1.0
    # A tier that the settings do not name keeps its own rate.
    assert decay.factor(Tier.IMPORTANT, model="linear", days=10, settings=settings) == pytest.approx(0.95)


def test_critical_memories_are_exempt_by_default_settings() -> None:
    assert decay.factor(Tier.CRITICAL, model="linear", days=9999, settings=Decay()) == 1.0


def test_an_unknown_model_is_named_in_the_error() -> None:
    with pytest.raises(BadParameter, match="'weekly'") as caught:
        decay.factor(Tier.NORMAL, model="weekly")
    assert "half_life" in caught.value.hint


@given(
    tier=TIERS,
    model=MODELS,
    days=AGES,
    more=st.floats(0, 1000),
    turns=st.integers(0, 500),
    more_turns=st.integers(0, 50),
)
def test_what_is_older_never_counts_for_more(
    tier: Tier, model: str, days: float, more: float, turns: int, more_turns: int
) -> None:
    young = decay.factor(tier, model=model, days=days, turns=turns, state=State.WARM)
    old = decay.factor(tier, model=model, days=days + more, turns=turns + more_turns, state=State.COLD)
    assert 0.0 <= old <= young <= 1.0


def test_days_count_from_the_later_of_access_and_own_date() -> None:
    assert decay.days_since(ago(3), ago(40), NOW) == pytest.approx(3)
    assert decay.days_since(ago(40), ago(3), NOW) == pytest.approx(3)
    assert decay.days_since(None, ago(3), NOW) == pytest.approx(3)
    assert decay.days_since(None, None, NOW) == 0.0
    assert decay.days_since(ago(40), None, NOW) == 0.0, "one that is used is not older than one that is not"
    assert decay.days_since(None, ago(-9), NOW) == 0.0


def test_a_temporary_memory_expires_seven_days_after_its_own_date() -> None:
    due = decay.expiry(Tier.TEMPORARY, ago(7))
    assert due == NOW
    assert decay.expired(due, NOW)
    assert not decay.expired(due, NOW - timedelta(seconds=1))


@pytest.mark.parametrize("tier", [tier for tier in Tier if tier is not Tier.TEMPORARY])
def test_other_tiers_never_expire_by_themselves(tier: Tier) -> None:
    assert decay.expiry(tier, ago(5000)) is None
    assert not decay.expired(None, NOW)


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (0, State.WARM),
        (7, State.WARM),
        (7.01, State.COLD),
        (30, State.COLD),
        (30.01, State.DORMANT),
        (90, State.DORMANT),
        (90.01, State.ARCHIVED),
    ],
)
def test_a_state_follows_from_the_days_since_use(days: float, expected: State) -> None:
    assert decay.state(tier=Tier.NORMAL, last_access=ago(days), first_indexed_at=ago(500), now=NOW) is expected


def test_a_workspace_indexed_today_is_not_archived_as_a_whole() -> None:
    assert decay.state(tier=Tier.NORMAL, last_access=None, first_indexed_at=ago(0), now=NOW) is State.WARM


def test_high_tiers_have_a_lowest_state() -> None:
    lowest = {tier: decay.state(tier=tier, last_access=None, first_indexed_at=ago(4000), now=NOW) for tier in Tier}
    assert lowest[Tier.CONSTITUTIONAL] is State.WARM
    assert lowest[Tier.CRITICAL] is State.WARM
    assert lowest[Tier.IMPORTANT] is State.COLD
    assert lowest[Tier.NORMAL] is State.ARCHIVED


def test_archive_folders_and_outdated_memories_are_archived_whatever_else() -> None:
    state = decay.state(tier=Tier.CRITICAL, last_access=NOW, first_indexed_at=NOW, now=NOW, flagged=True, hot=True)
    assert state is State.ARCHIVED


def passes(bounds: StateBounds, *, memory_id: int, tier: Tier, used: datetime, flagged: bool) -> bool:
    """What a store does with the bounds, word for word from their description."""
    if memory_id in bounds.always:
        return True
    if flagged:
        return bounds.flagged
    since, until = bounds.used.get(tier, (0.0, 0.0))
    return tier in bounds.used and since <= used.timestamp() < until


@st.composite
def neighbours(draw: st.DrawFn) -> frozenset[State]:
    first = draw(st.integers(0, 4))
    return frozenset(decay.STATES[first : draw(st.integers(first + 1, 5))])


@given(
    states=neighbours(), tier=TIERS, accessed=st.none() | AGES, indexed=AGES, flagged=st.booleans(), hot=st.booleans()
)
def test_a_memory_passes_the_filter_exactly_when_its_state_is_asked_for(
    states: frozenset[State], tier: Tier, accessed: float | None, indexed: float, flagged: bool, hot: bool
) -> None:
    # The filter knows hot memories as a list of ids; one that is hot and not asked for is left to the caller.
    hot = hot and not flagged and State.HOT in states
    last_access = None if accessed is None else ago(accessed)
    first = ago(indexed)
    state = decay.state(tier=tier, last_access=last_access, first_indexed_at=first, now=NOW, flagged=flagged, hot=hot)
    bounds = decay.bounds(states, now=NOW, always=frozenset({1}) if hot else frozenset())
    used = max(first, last_access) if last_access else first
    assert passes(bounds, memory_id=1, tier=tier, used=used, flagged=flagged) == (state in states)


def test_hot_ids_pass_only_when_hot_is_asked_for() -> None:
    hot = frozenset({4})
    assert decay.bounds({State.HOT}, now=NOW, always=hot) == StateBounds(used={}, always=hot)
    assert decay.bounds({State.ARCHIVED}, now=NOW, always=hot).always == frozenset()


def test_states_with_a_gap_between_them_are_refused() -> None:
    with pytest.raises(BadParameter, match="not neighbours"):
        decay.bounds({State.WARM, State.DORMANT}, now=NOW)


def test_a_search_asks_for_all_but_archived_states_unless_told() -> None:
    every = frozenset(State)
    assert decay.chosen() == every - {State.ARCHIVED}
    assert decay.chosen(include_archived=True) == every
    assert decay.chosen(state_filter=State.ARCHIVED) == {State.ARCHIVED}
    assert decay.chosen(min_state=State.COLD, include_archived=True) == {State.HOT, State.WARM, State.COLD}
    assert decay.chosen(min_state=State.ARCHIVED) == every
