"""How many results of a search are there of each kind? Counts for filters, each as if it alone were not chosen yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spec_kit_memory.advice import outcome
from spec_kit_memory.core import decay
from spec_kit_memory.core.memory import Memory, State
from spec_kit_memory.features import search
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.page_answers import FacetsAnswer
from spec_kit_memory.requests import FacetsRequest, SearchRequest

MOST_FOLDERS = 12
# What the values of each filter are.
KINDS: Mapping[str, Callable[[Memory, State], str | None]] = {
    "tier": lambda memory, _: memory.tier.value,
    "state_filter": lambda _, state: state.value,
    "source": lambda memory, _: memory.source.value,
    "context_type": lambda memory, _: memory.attributes.context_type.value,
    "spec_folder": lambda memory, _: memory.spec_folder,
}


def facets(runtime: Runtime, request: FacetsRequest) -> FacetsAnswer:
    """Count what is found by kind. A kind's own filter does not apply to its counts, since another value may be chosen
    instead; and archived memories count by state only, because choosing that state shows them."""
    chosen = {name: value for name in KINDS if (value := getattr(request, name)) not in (None, "all")}
    searched: dict[frozenset[str], Sequence[tuple[Memory, State]]] = {}
    counts: dict[str, dict[str, int]] = {}
    for name, kind in KINDS.items():
        filters = {other: value for other, value in chosen.items() if other != name}
        if (key := frozenset(filters)) not in searched:
            searched[key] = _found(runtime, request, filters)
        is_shown = request.include_archived or "state_filter" in filters or name == "state_filter"
        rows = [row for row in searched[key] if is_shown or not _is_held_back(runtime, *row)]
        values = Counter(value for row in rows if (value := kind(*row)))
        counts[name] = dict(values.most_common(MOST_FOLDERS if name == "spec_folder" else None))
    total = sum(counts["tier"].values())
    return FacetsAnswer(
        outcome=outcome("memories-counted", count=total),
        total=total,
        tiers=counts["tier"],
        states=counts["state_filter"],
        sources=counts["source"],
        types=counts["context_type"],
        folders=counts["spec_folder"],
    )


def _found(runtime: Runtime, request: FacetsRequest, filters: Mapping[str, Any]) -> list[tuple[Memory, State]]:
    """Every match with its state, those included that a search counts and does not compare."""
    asked = SearchRequest(query=request.query, also=request.also, include_archived=True, **filters)
    ranking = search.rank(runtime, asked)
    unseen = [(memory, runtime.state(memory)) for memory in runtime.store.documents.many(sorted(ranking.unseen))]
    return [*((found.memory, found.state) for found in ranking.memories), *unseen]


def _is_held_back(runtime: Runtime, memory: Memory, state: State) -> bool:
    return state is State.ARCHIVED or decay.expired(memory.attributes.expires_at, runtime.now())
