"""What do all views of one index share, and what does a view add? They share database and caches; each has a scope."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from spec_kit_memory.core.memory import Filter, Scope
from spec_kit_memory.index.arrays.feed import Feed
from spec_kit_memory.index.arrays.row_cache import RowCache
from spec_kit_memory.index.arrays.steadiness import Steadiness
from spec_kit_memory.index.sql.dialect import Database

if TYPE_CHECKING:
    from spec_kit_memory.core.raw_hits import RawHits
    from spec_kit_memory.index.arrays.matching import Arrays
    from spec_kit_memory.index.contract import IndexTotals

Model = tuple[str, int, str]  # name, dimensions, hash of the weights


class Shared(ABC):
    def __init__(self, database: Database, feed: Feed) -> None:
        self.database = database
        self.feed = feed
        self.steadiness = Steadiness()
        self.model: Model | None = None  # the model with which this process embeds
        self.totals: dict[Scope | None, tuple[int, IndexTotals]] = {}
        self.rows_kept = RowCache(self.feed, self.steadiness)
        self.loaded: Arrays | None = None

    @property
    def row_cache(self) -> RowCache:
        frozen = self.steadiness.frozen
        return self.rows_kept if frozen is None else frozen[1]

    @property
    def arrays(self) -> Arrays:
        """Created at the first match, so that a process that only reads or writes never loads numpy."""
        frozen = self.steadiness.frozen
        loaded = self.loaded if frozen is None else frozen[0]
        if loaded is None:
            from spec_kit_memory.index.arrays.matching import Arrays

            loaded = self.loaded = Arrays(self.feed, self.steadiness)
        return loaded

    @abstractmethod
    def match_text(self, scope: Scope | None, terms: Sequence[str], where: Filter, limit: int) -> RawHits: ...
    @abstractmethod
    def match_vector(self, scope: Scope | None, vector: Any, where: Filter, limit: int) -> RawHits: ...
    def steady(self) -> AbstractContextManager[None]:
        return self.steadiness.hold(self._refresh)

    def _refresh(self) -> int:
        arrays = self.loaded
        before = None if arrays is None else arrays.known
        with self.feed.moment():
            counters = self.feed.counters()
            self.row_cache.refresh(counters)
            if arrays is not None:
                arrays.refresh(counters, before=before)
            return self.monotonic(counters.generation)

    def unmoved(self) -> bool:
        if self.steadiness.generation in (None, self.feed.noted_generation()):
            return True
        self.steadiness.hold_anew(self._refresh)
        return False

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """In this block of a `steady` one, this thread's matches and the rows that they lead to are of one state."""
        if self.loaded is None:  # the server matches
            yield
            return
        with self.loaded.frozen() as arrays:
            generation = self.monotonic(self.feed.counters().generation)
            with self.steadiness.freeze(generation, arrays, RowCache(self.feed, self.steadiness)):
                yield

    def generation(self, since: float | None = None) -> int:
        begun_with = self.steadiness.generation
        if begun_with is None and since is not None:
            begun_with = self.feed.noted_generation(since)
        return self._generation() if begun_with is None else begun_with

    def _generation(self) -> int:
        return self.feed.counters().generation

    def monotonic(self, stored: int) -> int:
        """Convert a stored generation to one that never falls; an engine overrides this if the stored one may fall."""
        return stored


class View:
    """A part of the contract, bound to a database and a scope."""

    _shared: Shared
    _database: Database

    def __init__(self, shared: Shared, scope: Scope | None) -> None:
        self._shared = shared
        self._database = shared.database.within(scope)
        self._scope = scope
