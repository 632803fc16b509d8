"""How many memories are there of each kind, how do they fade, how were they used, and how many would a filter leave?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from spec_kit_memory.advice import outcome
from spec_kit_memory.core import decay
from spec_kit_memory.core.memory import Memory, Source, State, Tier
from spec_kit_memory.features import search
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import activity
from spec_kit_memory.page_answers import Amount, Curve, FacetsAnswer, NumbersAnswer, SentDay, UseDay
from spec_kit_memory.requests import FacetsRequest, NumbersRequest, SearchRequest

MOST_FOLDERS = 20
MOST_DAYS = 3_660  # ten years: of more, each day would still be a row
CACHE_SECONDS = 60
# Denser where memories change most; the last day includes all older memories.
CURVE_DAYS = (0, 1, 2, 3, 5, 7, 10, 14, 21, 30, 45, 60, 75, 90, 120, 150, 180, 240, 300, 365)
MOST_FOLDER_FILTERS = 12


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


@dataclass(frozen=True, slots=True)
class Facet:
    filter: str  # the parameter that chooses a value of it
    value: Callable[[Memory, State], str | None]


# By the field of the answer that has their counts.
FACETS: Mapping[str, Facet] = {
    "tiers": Facet("tier", lambda memory, _: memory.tier.value),
    "states": Facet("state_filter", lambda _, state: state.value),
    "sources": Facet("source", lambda memory, _: memory.source.value),
    "types": Facet("context_type", lambda memory, _: memory.attributes.context_type.value),
    "folders": Facet("spec_folder", lambda memory, _: memory.spec_folder),
}


class _Match(NamedTuple):
    """One memory that matches, and what a search does with it unless a filter asks for it."""

    memory: Memory
    state: State
    is_clear: bool  # if not, it is found only where its state is asked for
    is_rule: bool  # shown above the results, unless rules are asked for


def facets(runtime: Runtime, request: FacetsRequest) -> FacetsAnswer:
    """Count the matches by each facet. A facet's own filter does not apply to its counts, since another value may be
    chosen instead; each count is what a search with that value finds. Only where more match than a search compares
    closely can choosing a value find more, because others are compared then."""
    names = [facet.filter for facet in FACETS.values()]
    chosen = {name: value for name in names if (value := getattr(request, name)) not in (None, "all")}
    matches: dict[frozenset[str], Sequence[_Match]] = {}
    counts: dict[str, dict[str, int]] = {}
    for name, facet in FACETS.items():
        filters = {other: value for other, value in chosen.items() if other != facet.filter}
        if (key := frozenset(filters)) not in matches:
            matches[key] = _matches(runtime, request, filters)
        found = [match for match in matches[key] if _is_found(match, name, filters, request)]
        values = Counter(value for match in found if (value := facet.value(match.memory, match.state)))
        counts[name] = dict(values.most_common(MOST_FOLDER_FILTERS if name == "folders" else None))
    total = sum(counts["tiers"].values())
    return FacetsAnswer(
        outcome=outcome("memories-counted", count=total),
        total=total,
        tiers=counts["tiers"],
        states=counts["states"],
        sources=counts["sources"],
        types=counts["types"],
        folders=counts["folders"],
    )


def _matches(runtime: Runtime, request: FacetsRequest, filters: Mapping[str, Any]) -> list[_Match]:
    """Every match, those included that a search counts and does not compare; expired ones only if they are wanted."""
    asked = SearchRequest(
        query=request.query, also=request.also, include_archived=True, min_state=request.min_state, **filters
    )
    ranking = search.rank(runtime, asked)
    has_state = request.min_state is not None or "state_filter" in filters
    matches = [
        *(_Match(row.memory, row.state, True, row.memory.id in ranking.above) for row in ranking.memories),
        *(_Match(row.memory, row.state, False, False) for row in ranking.dormant),
    ]
    for memory in runtime.store.documents.many(sorted(ranking.unseen)):
        state, is_rule = runtime.state(memory), memory.tier is Tier.CONSTITUTIONAL and not asked.asks_for_rules
        matches.append(_Match(memory, state, has_state or state is not State.DORMANT, is_rule))
    if request.include_archived:
        return matches
    return [match for match in matches if not decay.expired(match.memory.attributes.expires_at, runtime.now())]


def _is_found(match: _Match, facet: str, filters: Mapping[str, Any], request: FacetsRequest) -> bool:
    """Is it a result of the search in which its value of this facet is chosen too?"""
    if match.is_rule:
        return facet == "tiers" or (facet == "sources" and match.memory.source is Source.CONSTITUTIONAL)
    if facet == "states" or "state_filter" in filters or request.min_state:
        return True
    return match.is_clear and (request.include_archived or match.state is not State.ARCHIVED)
