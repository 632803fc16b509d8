"""How many results of a search are there of each kind? Counts for filters, each as if it alone were not chosen yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spec_kit_memory.advice import outcome
from spec_kit_memory.core import decay
from spec_kit_memory.core.memory import Memory, State
from spec_kit_memory.features import search
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.page_answers import FacetsAnswer
from spec_kit_memory.requests import FacetsRequest, SearchRequest

MOST_FOLDERS = 12


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


def facets(runtime: Runtime, request: FacetsRequest) -> FacetsAnswer:
    """Count the matches by each facet. A facet's own filter does not apply to its counts, since another value may be
    chosen instead; and archived memories count by state only, because choosing that state shows them."""
    names = [facet.filter for facet in FACETS.values()]
    chosen = {name: value for name in names if (value := getattr(request, name)) not in (None, "all")}
    matches: dict[frozenset[str], Sequence[tuple[Memory, State]]] = {}
    counts: dict[str, dict[str, int]] = {}
    for name, facet in FACETS.items():
        filters = {other: value for other, value in chosen.items() if other != facet.filter}
        if (key := frozenset(filters)) not in matches:
            matches[key] = _matches(runtime, request, filters)
        is_shown = request.include_archived or "state_filter" in filters or name == "states"
        rows = [row for row in matches[key] if is_shown or not _is_held_back(runtime, *row)]
        values = Counter(value for row in rows if (value := facet.value(*row)))
        counts[name] = dict(values.most_common(MOST_FOLDERS if name == "folders" else None))
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


def _matches(runtime: Runtime, request: FacetsRequest, filters: Mapping[str, Any]) -> list[tuple[Memory, State]]:
    """Every match with its state, those included that a search counts and does not compare."""
    search_request = SearchRequest(query=request.query, also=request.also, include_archived=True, **filters)
    ranking = search.rank(runtime, search_request)
    unseen = [(memory, runtime.state(memory)) for memory in runtime.store.documents.many(sorted(ranking.unseen))]
    return [*((row.memory, row.state) for row in ranking.memories), *unseen]


def _is_held_back(runtime: Runtime, memory: Memory, state: State) -> bool:
    return state is State.ARCHIVED or decay.expired(memory.attributes.expires_at, runtime.now())
