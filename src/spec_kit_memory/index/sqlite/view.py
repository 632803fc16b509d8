"""What do all views of one handle share, and what does a view add? A database with its caches, and a scope."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.index.arrays.row_cache import RowCache
from spec_kit_memory.index.arrays.steadiness import Steadiness
from spec_kit_memory.index.sqlite.connection import Database, first
from spec_kit_memory.index.sqlite.feed import SqliteFeed
from spec_kit_memory.index.sqlite.soundness import Soundness

if TYPE_CHECKING:
    from spec_kit_memory.index.arrays.matching import Arrays
    from spec_kit_memory.index.contract import Index

__all__ = ["Model", "Shared", "View"]

Model = tuple[str, int, str]  # name, dimensions, hash of the weights


class Shared:
    def __init__(self, database: Database, *, opened: Callable[[Path], Index]) -> None:
        self.database = database
        self.opened = opened  # another file, as a handle of the same kind
        self.soundness = Soundness(database)
        self.feed = SqliteFeed(database)
        self.steadiness = Steadiness()
        self.model: Model | None = None  # what this process embeds with
        self.stats: dict[Scope | None, tuple[int, dict[str, Any]]] = {}
        self.when_new: list[Callable[[], None]] = []
        self.row_cache = RowCache(self.feed, self.steadiness)
        self.loaded: Arrays | None = None
        self._generation_offset = 0
        self._last_generation = 0
        database.on_new_file = self._new_file

    def _new_file(self) -> None:
        """Another file counts its generations anew; to our callers they must still only rise."""
        self._generation_offset = self._last_generation + 1
        self.row_cache = RowCache(self.feed, self.steadiness)
        self.loaded = None
        for told in self.when_new:
            told()

    @property
    def arrays(self) -> Arrays:
        """Made at the first match: a process that only reads or writes never loads numpy."""
        loaded = self.loaded
        if loaded is None:
            from spec_kit_memory.index.arrays.matching import Arrays

            loaded = self.loaded = Arrays(self.feed, self.steadiness)
        return loaded

    def steady(self) -> AbstractContextManager[None]:
        return self.steadiness.hold(self._refresh)

    def _refresh(self) -> None:
        with self.feed.moment():
            self.row_cache.refresh()
            if self.loaded is not None:
                self.loaded.refresh()

    def generation(self) -> int:
        if self.steadiness.generation is None:
            found = self._generation()
            if not self.steadiness.held:
                return found
            self.steadiness.generation = found
        return self.steadiness.generation

    def _generation(self) -> int:
        with self.database.reading() as connection:
            stored: int = first(connection, "SELECT generation FROM counter")[0]
        self._last_generation = self.rising(stored)
        return self._last_generation

    def rising(self, stored: int) -> int:
        """A generation of this file as one that is higher than any of the files before it."""
        return stored + self._generation_offset


class View:
    """A part of the contract, bound to a database and a scope."""

    def __init__(self, shared: Shared, scope: Scope | None) -> None:
        self._shared = shared
        self._database = shared.database
        self._scope = scope
