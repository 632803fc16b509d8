"""What do all views of one handle share, and what does a view add? A project with its caches, and a scope."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.index.arrays.row_cache import RowCache
from spec_kit_memory.index.arrays.steadiness import Steadiness
from spec_kit_memory.index.postgres.connection import Database
from spec_kit_memory.index.postgres.feed import PostgresFeed

if TYPE_CHECKING:
    from spec_kit_memory.index.arrays.matching import Arrays
    from spec_kit_memory.index.contract import Index

__all__ = ["Model", "Shared", "View"]

COLD_MATCHES = 16  # what a command asks at most: several texts, by words and by vector
Model = tuple[str, int, str]  # name, dimensions, hash of the weights


class Shared:
    whole: Index  # the handle without a scope

    def __init__(self, database: Database) -> None:
        self.database = database
        self.feed = PostgresFeed(database)
        self.steadiness = Steadiness()
        self.model: Model | None = None  # what this process embeds with
        self.stats: dict[Scope | None, tuple[int, dict[str, Any]]] = {}
        self.row_cache = RowCache(self.feed, self.steadiness)
        self.loaded: Arrays | None = None
        self.cold_matches = 0
        self.accepts = False  # changes of files go to the outbox

    @property
    def arrays(self) -> Arrays:
        """Made at the first match: a process that only reads or writes never loads numpy."""
        loaded = self.loaded
        if loaded is None:
            from spec_kit_memory.index.arrays.matching import Arrays

            loaded = self.loaded = Arrays(self.feed, self.steadiness)
        return loaded

    def is_cold(self) -> bool:
        """Shall the server answer this match? A process that goes on asking loads the arrays."""
        if self.loaded is not None or self.cold_matches >= COLD_MATCHES:
            return False
        self.cold_matches += 1
        return True

    def steady(self) -> AbstractContextManager[None]:
        return self.steadiness.hold(self._refresh)

    def _refresh(self) -> None:
        with self.feed.moment():
            self.row_cache.refresh()
            if self.loaded is not None:
                self.loaded.refresh()

    def generation(self) -> int:
        if self.steadiness.generation is None:
            found = self.feed.counters().generation
            if not self.steadiness.held:
                return found
            self.steadiness.generation = found
        return self.steadiness.generation


class View:
    """A part of the contract, bound to a project and a scope."""

    def __init__(self, shared: Shared, scope: Scope | None) -> None:
        self._shared = shared
        self._database = shared.database.within(scope)
        self._scope = scope
