"""Which passages match words or a vector, within scope and filter? The arrays of one index, kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from spec_kit_memory.core.memory import Filter, RawHit, Scope
from spec_kit_memory.index.arrays.columns import LiveColumns
from spec_kit_memory.index.arrays.feed import Counters, Feed
from spec_kit_memory.index.arrays.nearest import EXACT_BYTES, Vectors
from spec_kit_memory.index.arrays.postings import Postings
from spec_kit_memory.index.arrays.row_cache import RowCache
from spec_kit_memory.index.arrays.steadiness import Steadiness


class Arrays:
    def __init__(self, feed: Feed, steadiness: Steadiness | None = None, *, exact_bytes: int = EXACT_BYTES) -> None:
        self._columns = LiveColumns(feed, steadiness)
        self._postings = Postings(feed)
        self._vectors = Vectors(feed, steadiness, exact_bytes=exact_bytes)

    def refresh(self, counters: Counters) -> None:
        """Call it in a `Feed.moment`, with the counters of that moment."""
        self._columns.follow(counters)

    def match_text(
        self,
        scope: Scope | None,
        terms: Sequence[str],
        where: Filter,
        limit: int,
        *,
        confirm_nothing: Callable[[], None],
    ) -> list[RawHit]:
        now = self._columns.current()
        return self._postings.match(now, scope, terms, where, limit, confirm_nothing=confirm_nothing)

    def match_vector(self, scope: Scope | None, vector: Any, where: Filter, limit: int) -> list[RawHit]:
        return self._vectors.match(self._columns.current(), scope, vector, where, limit)

    def count(self, scope: Scope | None, where: Filter) -> int:
        return int(self._columns.current().mask(scope, where).sum())

    def warm(self, row_cache: RowCache) -> None:
        now = self._columns.current()
        self._postings.warm(now)
        self._vectors.warm(now)
        row_cache.warm(now.ids[now.live].tolist(), now.passage_ids[now.alive].tolist())
