"""Which passages match words or a vector when no arrays are loaded yet? The server answers from its rows.

Used by short-lived processes: loading the arrays of a large project takes longer than answering a few queries here.
Scores are computed as by the arrays, over the passages that contain any of the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spec_kit_memory.advice import advise
from spec_kit_memory.core.memory import Filter, Scope
from spec_kit_memory.core.raw_hits import RawHits
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.index.arrays.feed import Wanted
from spec_kit_memory.index.postgres.connection import Connection, Database
from spec_kit_memory.index.postgres.feed import PostgresFeed
from spec_kit_memory.index.sql import conditions
from spec_kit_memory.index.sql.dialect import fetch, first

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

_INSIDE = (
    " FROM passage JOIN memory ON memory.project_id = @p AND memory.id = passage.memory_id"
    " LEFT JOIN usage ON usage.project_id = @p AND usage.memory_id = memory.id"
    " WHERE passage.project_id = @p AND memory.presence = 'live'"
)


def match_text(
    database: Database, feed: PostgresFeed, scope: Scope | None, terms: Sequence[str], where: Filter, limit: int
) -> RawHits:
    import numpy as np

    lookups = feed.lookups(terms)
    if not lookups or limit <= 0:
        return RawHits.of(())
    seen, bound = conditions.visible(scope)
    with database.reading() as connection:
        counted = f"SELECT count(*), coalesce(sum(length), 0)::float8 {_INSIDE} AND {seen}"
        total, length = first(connection, counted, bound)
        postings = feed.postings([Wanted(lookup, term, 0) for lookup, term in lookups.items()])
        ids = np.unique(np.concatenate([having for having, _ in postings]))
        if not total or not len(ids):
            return RawHits.of(())
        candidates = _candidates(connection, ids, scope, where)
    if not len(candidates.ids):
        return RawHits.of(())
    from spec_kit_memory.index.arrays.postings import bm25

    within = []
    for having, times in postings:
        places = np.minimum(np.searchsorted(candidates.ids, having), len(candidates.ids) - 1)
        is_there = candidates.ids[places] == having
        within.append((places[is_there], times[is_there].astype(np.float32)))
    scores = bm25(within, candidates.length, total=total, average=length / total or 1.0)
    wanted = np.flatnonzero(candidates.matches & (scores > 0))
    order = np.lexsort((candidates.ids[wanted], candidates.memory_ids[wanted], -scores[wanted]))[:limit]
    chosen = wanted[order]
    columns = candidates.ids[chosen], candidates.memory_ids[chosen], scores[chosen]
    return RawHits(*columns)


class _Candidates:
    """Passages within the scope that contain any of the words, by ascending id."""

    def __init__(self, rows: Sequence[tuple[Any, ...]]) -> None:
        import numpy as np

        ids, memory_ids, length, matches = list(zip(*rows, strict=True)) or [(), (), (), ()]
        self.ids: Ints = np.array(ids, np.int64)
        self.memory_ids: Ints = np.array(memory_ids, np.int64)
        self.length = np.array(length, np.float32)
        self.matches = np.array(matches, np.bool_)


def _candidates(connection: Connection, ids: Ints, scope: Scope | None, where: Filter) -> _Candidates:
    test, values = conditions.matching(where)
    seen, bound = conditions.visible(scope)
    sql = (
        f"SELECT passage.id, memory.id, length, coalesce({test}, false) {_INSIDE}"
        f" AND passage.id = ANY(?::bigint[]) AND {seen} ORDER BY passage.id"
    )
    return _Candidates(fetch(connection, sql, [*values, ids.tolist(), *bound]))


def match_vector(
    database: Database, feed: PostgresFeed, scope: Scope | None, vector: Any, where: Filter, limit: int
) -> RawHits:
    """An exact search: every vector within scope and filter is compared."""
    import numpy as np

    query = np.ascontiguousarray(vector, dtype=np.float32).reshape(-1)
    test, values = conditions.matching(where)
    seen, bound = conditions.visible(scope)
    inside = f"{_INSIDE} AND vector_id IS NOT NULL AND {test} AND {seen}"
    with database.reading() as connection:
        if limit <= 0 or not fetch(connection, f"SELECT 1 {inside} LIMIT 1", [*values, *bound]):
            return RawHits.of(())
        dimensions = feed.dimensions()
        if len(query) != dimensions:
            raise BadParameter(
                f"the query has {len(query)} dimensions, the index {dimensions}", hint=advise("embed-anew")
            )
        joined = inside.replace(
            " FROM passage", " FROM passage JOIN vector ON vector.project_id = @p AND vector.id = vector_id"
        )
        sql = (
            "SELECT passage.id, memory.id, -(vector.vector <#> ?::@vector) AS score"
            f" {joined} ORDER BY score DESC, memory.id, passage.id LIMIT {int(limit)}"
        )
        vector_text = f"[{','.join(map(str, query.tolist()))}]"
        return RawHits.of(fetch(connection, sql, [vector_text, *values, *bound]))
