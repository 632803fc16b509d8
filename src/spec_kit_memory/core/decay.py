"""How much has a memory faded, and in which state is it?

Four models of decay as one function, and the five states with their floors. The
thresholds are defined once: `state` and `bounds` are two views of the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Protocol

from spec_kit_memory.advice import advise
from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import Memory, State, StateBounds, Tier
from spec_kit_memory.core.tiers import TABLE
from spec_kit_memory.errors import BadParameter

MODELS = ("half_life", "linear", "turns", "states")

# From the most to the least recently used.
STATES = (State.HOT, State.WARM, State.COLD, State.DORMANT, State.ARCHIVED)

# A dormant memory is shown by default when it is at least this relevant.
DORMANT_RELEVANCE = 0.5

_DAY = 86_400.0
_STATE_FACTORS = {State.HOT: 1.0, State.WARM: 0.95, State.COLD: 0.80, State.DORMANT: 0.60, State.ARCHIVED: 0.0}
_LAST_DAY = {State.WARM: 7, State.COLD: 30, State.DORMANT: 90}
_NOT_DORMANT = timedelta(days=_LAST_DAY[State.COLD] - 1)  # a day less: seconds are rounded elsewhere
_FLOORS = {Tier.CONSTITUTIONAL: State.WARM, Tier.CRITICAL: State.WARM, Tier.IMPORTANT: State.COLD}


class Rates(Protocol):
    """What may be configured about decay; `settings.Decay` is one."""

    @property
    def half_life_days(self) -> float: ...
    @property
    def rates(self) -> Mapping[Tier, float]: ...  # linear model, per day; a missing tier uses the table's rate
    @property
    def min_floor(self) -> float | None: ...  # linear model; None: the table's floor for the tier
    @property
    def exempt_tiers(self) -> Collection[Tier]: ...  # never decay, whatever the model


@dataclass(frozen=True, slots=True)
class Plain:
    """The defaults: the formulas with nothing configured."""

    half_life_days: float = 90.0
    rates: Mapping[Tier, float] = field(default_factory=dict)
    min_floor: float | None = None
    exempt_tiers: Collection[Tier] = ()


PLAIN = Plain()


def factor(
    tier: Tier,
    *,
    model: str = "half_life",
    days: float = 0.0,
    turns: int = 0,
    state: State | None = None,
    settings: Rates = PLAIN,
) -> float:
    """What is left of a memory's recency, 0 to 1. Each model uses one of `days`, `turns` and `state`."""
    if model not in MODELS:
        raise BadParameter(f"decay model '{model}' is unknown", hint=f"set memory.decay.model to {' or '.join(MODELS)}")
    if tier in settings.exempt_tiers:
        return 1.0
    row = TABLE[tier]
    days = max(0.0, days)
    if model == "linear":
        floor = row.linear_floor if settings.min_floor is None else settings.min_floor
        return min(1.0, max(floor, 1.0 - days * settings.rates.get(tier, row.linear_rate)))
    if model == "turns":
        return row.turn_rate ** max(0, turns)
    if model == "states":
        return 1.0 if state is None else _STATE_FACTORS[state]
    return halved(days, settings) if row.decays else 1.0


def halved(days: float, settings: Rates = PLAIN) -> float:
    """The factor of the model "half_life" for a tier that decays."""
    return float(0.5 ** (days / settings.half_life_days))


def days_since(last_access: datetime | None, own_date: datetime | None, now: datetime) -> float:
    """Days since the later of last access and the document's own date; a future date counts as now.

    A document without its own date has no age: counting from its last use would make it older than one never used.
    """
    if own_date is None:
        return 0.0
    latest = own_date if last_access is None or own_date > last_access else last_access
    return max(0.0, (now - latest).total_seconds() / _DAY)


def expiry(tier: Tier, created_at: datetime) -> datetime | None:
    """When a memory of this tier expires automatically. Deprecated memories need no date: search excludes the tier."""
    days = TABLE[tier].expires_days
    return created_at.replace(microsecond=0) + timedelta(days=days) if days else None


def expired(expires_at: datetime | None, now: datetime) -> bool:
    return expires_at is not None and expires_at <= now


def state(
    *,
    tier: Tier,
    last_access: datetime | None,
    first_indexed_at: datetime,
    now: datetime,
    flagged: bool = False,
    hot: bool = False,
) -> State:
    """`flagged`: in an archive folder or marked outdated. `hot`: used in this session or turn."""
    if flagged:
        return State.ARCHIVED
    if hot:
        return State.HOT
    last_use = last_access if last_access is not None and last_access > first_indexed_at else first_indexed_at
    used = last_use.timestamp()
    for candidate, (since, until) in _intervals(tier, now.timestamp()).items():
        if since <= used < until:
            return candidate
    raise AssertionError("the intervals of a tier cover all times")


def state_of(memory: Memory, *, hot: Collection[int], now: datetime) -> State:
    """The state of a stored memory; `hot` are the ids that are in use in this session."""
    return state(
        tier=memory.tier,
        last_access=memory.last_access,
        first_indexed_at=memory.first_indexed_at,
        flagged=memory.archived_folder or memory.outdated,
        hot=memory.id in hot,
        now=now,
    )


def used_recently(last: datetime, now: datetime) -> bool:
    """Can a memory with this use, or one yet later, not be dormant? Told without looking at its tier."""
    return now - last < _NOT_DORMANT


def bounds(states: Collection[State], *, now: datetime, always: frozenset[int] = frozenset()) -> StateBounds:
    """The filter that matches exactly the memories whose `state` is one of `states`.

    `always` are the ids that are hot in this session and not flagged; they match if HOT is among
    the states. The states must be adjacent, since a store compares with one interval.
    """
    requested = [member for member in STATES if member in states and member is not State.HOT]
    if requested and len(requested) != STATES.index(requested[-1]) - STATES.index(requested[0]) + 1:
        raise BadParameter(f"the states {', '.join(requested)} are not neighbours", hint=advise("neighbouring-states"))
    used: dict[Tier, tuple[float, float]] = {}
    for tier in Tier:
        intervals = _intervals(tier, now.timestamp())
        parts = [intervals[member] for member in requested if member in intervals]
        if parts:
            used[tier] = (parts[-1][0], parts[0][1])
    return StateBounds(
        used=used,
        flagged=State.ARCHIVED in states,
        always=always if State.HOT in states else frozenset(),
    )


def chosen(
    *, state_filter: State | None = None, min_state: State | None = None, include_archived: bool = False
) -> frozenset[State]:
    """The states that a search covers. DORMANT memories must reach DORMANT_RELEVANCE unless requested by name."""
    if state_filter is not None:
        return frozenset({state_filter})
    if min_state is not None:
        return frozenset(STATES[: STATES.index(min_state) + 1])
    return frozenset(STATES) if include_archived else frozenset(STATES[:-1])


@lru_cache(maxsize=64)
def _intervals(tier: Tier, now: float) -> Mapping[State, tuple[float, float]]:
    """Half-open intervals of last use, in epoch seconds, from the newest to the oldest state of a tier."""
    floor = _FLOORS.get(tier, State.ARCHIVED)
    intervals: dict[State, tuple[float, float]] = {}
    until = math.inf
    for member in STATES[1:]:
        since = -math.inf if member is floor else now - _LAST_DAY[member] * _DAY
        intervals[member] = (since, until)
        if member is floor:
            break
        until = since
    return intervals
