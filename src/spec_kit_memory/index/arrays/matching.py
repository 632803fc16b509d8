"""Which passages match words or a vector, within scope and filter? The arrays of one index, kept up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

from spec_kit_memory.core.memory import Filter, Scope
from spec_kit_memory.core.raw_hits import RawHits
from spec_kit_memory.index.arrays.columns import Columns, LiveColumns
from spec_kit_memory.index.arrays.feed import Counters, Feed
from spec_kit_memory.index.arrays.nearest import EXACT_BYTES, Vectors
from spec_kit_memory.index.arrays.postings import Postings
from spec_kit_memory.index.arrays.row_cache import RowCache
from spec_kit_memory.index.arrays.steadiness import Steadiness


class Arrays:
    def __init__(self, feed: Feed, steadiness: Steadiness | None = None, *, exact_bytes: int = EXACT_BYTES) -> None:
        self._feed = feed
        self._columns = LiveColumns(feed, steadiness)
        self._current = self._columns.current
        self._postings = Postings(feed)
        self._vectors = Vectors(feed, steadiness, exact_bytes=exact_bytes)

    @property
    def known(self) -> Columns | None:
        return self._columns.known

    def refresh(self, counters: Counters, *, before: Columns | None) -> None:
        """Call it in a `Feed.moment`, with the counters of that moment and what was `known` before it began."""
        self._columns.follow(counters, before=before)

    @contextmanager
    def frozen(self) -> Iterator[Arrays]:
        """The arrays of one moment, for a thread that also reads everything else in the block in that moment.

        Words are read again: passages that were deleted since may be missing where another thread has read them.
        """
        with self._columns.frozen() as columns:
            arrays = copy(self)
            arrays._current = lambda: columns
            arrays._postings = Postings(self._feed)
            yield arrays

    def match_text(
        self,
        scope: Scope | None,
        terms: Sequence[str],
        where: Filter,
        limit: int,
        *,
        confirm_nothing: Callable[[], None],
    ) -> RawHits:
        now = self._current()
        return self._postings.match(now, scope, terms, where, limit, confirm_nothing=confirm_nothing)

    def match_vector(self, scope: Scope | None, vector: Any, where: Filter, limit: int) -> RawHits:
        return self._vectors.match(self._current(), scope, vector, where, limit)

    def count(self, scope: Scope | None, where: Filter) -> int:
        return int(self._current().mask(scope, where).sum())

    def warm(self, row_cache: RowCache) -> None:
        now = self._current()
        self._postings.warm(now)
        self._vectors.warm(now)
        row_cache.warm(now.ids[now.live].tolist(), now.passage_ids[now.alive].tolist())
