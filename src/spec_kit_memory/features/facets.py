"""How many results of a search are there of each kind? Counts for filters, before any filter is chosen."""

from __future__ import annotations

from collections import Counter

from spec_kit_memory.advice import outcome
from spec_kit_memory.features import search
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.page_answers import FacetsAnswer
from spec_kit_memory.requests import FacetsRequest, SearchRequest

MOST_FOLDERS = 12


def facets(runtime: Runtime, request: FacetsRequest) -> FacetsAnswer:
    """Count all results by kind, archived ones included, because a filter by state can show them."""
    ranking = search.rank(runtime, SearchRequest(query=request.query, include_archived=True))
    results = ranking.memories
    folders = Counter(f.memory.spec_folder for f in results if f.memory.spec_folder)
    return FacetsAnswer(
        outcome=outcome("memories-counted", count=len(results)),
        total=len(results),
        tiers=dict(Counter(f.memory.tier.value for f in results).most_common()),
        states=dict(Counter(f.state.value for f in results).most_common()),
        sources=dict(Counter(f.memory.source.value for f in results).most_common()),
        types=dict(Counter(f.memory.attributes.context_type.value for f in results).most_common()),
        folders=dict(folders.most_common(MOST_FOLDERS)),
    )
