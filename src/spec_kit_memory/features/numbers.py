"""How many memories are there of each kind, how do they fade, and how were they used?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from spec_kit_memory.advice import outcome
from spec_kit_memory.core import decay
from spec_kit_memory.core.memory import Memory, State, Tier
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import activity
from spec_kit_memory.page_answers import Amount, Curve, NumbersAnswer, SentDay, UseDay
from spec_kit_memory.requests import NumbersRequest

MOST_FOLDERS = 20
MOST_DAYS = 3_660  # ten years: of more, each day would still be a row
CACHE_SECONDS = 60
# Denser where memories change most; the last day includes all older memories.
CURVE_DAYS = (0, 1, 2, 3, 5, 7, 10, 14, 21, 30, 45, 60, 75, 90, 120, 150, 180, 240, 300, 365)


def numbers(runtime: Runtime, request: NumbersRequest) -> NumbersAnswer:
    """The figures, cached for a minute or until a memory changes, because every memory is read for them."""
    request = request.replace(days=min(request.days, MOST_DAYS))
    key = (runtime.store.generation(), int(runtime.now().timestamp() // CACHE_SECONDS), request.days)
    cached = runtime.view.numbers
    if cached is None or cached[0] != key:
        cached = runtime.view.numbers = (key, _numbers(runtime, request))
    sent = activity.read(runtime.settings, scope=runtime.scope)
    since = runtime.now().date() - timedelta(days=request.days)
    return replace(
        cached[1],
        sent=tuple(
            SentDay(day=t.day, verb=t.key, answers=round(t.count), tokens=t.tokens)
            for t in sent
            if t.kind == activity.SENT and t.day > since
        ),
    )


def _numbers(runtime: Runtime, request: NumbersRequest) -> NumbersAnswer:
    now = runtime.now()
    memories = runtime.store.documents.find(order="path")
    visible = {str(memory.id) for memory in memories}
    uses = [tally for tally in activity.read(runtime.settings) if tally.key in visible]
    folders = sorted(_amounts(memories, lambda m: m.spec_folder or ""), key=lambda amount: -amount.memories)
    return NumbersAnswer(
        outcome=outcome("memories-counted", count=len(memories)),
        tiers=_ordered(_amounts(memories, lambda m: m.tier.value), [tier.value for tier in Tier]),
        states=_ordered(_amounts(memories, lambda m: runtime.state(m).value), [state.value for state in State]),
        sources=tuple(_amounts(memories, lambda m: m.source.value)),
        folders=tuple(folders[:MOST_FOLDERS]),
        model=runtime.settings.decay.model,
        curves=tuple(_curves(runtime, memories, now)),
        use=tuple(_use(uses, now, request.days)),
    )


def _amounts(memories: Iterable[Memory], name_of: Callable[[Memory], str]) -> list[Amount]:
    sums: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for memory in memories:
        name = name_of(memory)
        count, tokens = sums[name]
        sums[name] = (count + 1, tokens + memory.tokens)
    return [Amount(name=name, memories=count, tokens=tokens) for name, (count, tokens) in sorted(sums.items())]


def _ordered(amounts: Iterable[Amount], names: list[str]) -> tuple[Amount, ...]:
    return tuple(sorted(amounts, key=lambda amount: names.index(amount.name)))


def _curves(runtime: Runtime, memories: Iterable[Memory], now: datetime) -> Iterator[Curve]:
    """Decay by days since use, for any model: a model of states uses the state that such a memory would be in."""
    settings = runtime.settings.decay
    counts: dict[Tier, list[int]] = defaultdict(lambda: [0] * len(CURVE_DAYS))
    for memory in memories:
        days = decay.days_since(memory.last_access, memory.attributes.own_date, now)
        counts[memory.tier][sum(days >= day for day in CURVE_DAYS) - 1] += 1
    for tier in Tier:
        if tier in counts:
            states = [
                decay.state(tier=tier, last_access=None, first_indexed_at=now - timedelta(days=day), now=now)
                for day in CURVE_DAYS
            ]
            left = [
                decay.factor(tier, model=settings.model, days=day, state=state, settings=settings)
                for day, state in zip(CURVE_DAYS, states, strict=True)
            ]
            yield Curve(tier=tier, days=CURVE_DAYS, left=tuple(left), memories=tuple(counts[tier]))


def _use(tallies: Iterable[activity.DayTally], now: datetime, days: int) -> Iterator[UseDay]:
    uses: dict[object, float] = defaultdict(float)
    for tally in tallies:
        if tally.kind == activity.USE:
            uses[tally.day] += tally.count
    for offset in reversed(range(days)):
        day = now.date() - timedelta(days=offset)
        yield UseDay(day=day, uses=round(uses[day]))
