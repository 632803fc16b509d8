"""What do all views of one file share? The caches, the soundness check, and the handling of a replaced file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec_kit_memory.core.memory import Filter, Scope
from spec_kit_memory.index.arrays.row_cache import RowCache
from spec_kit_memory.index.sql.dialect import first
from spec_kit_memory.index.sql.view import Shared
from spec_kit_memory.index.sqlite.connection import Database
from spec_kit_memory.index.sqlite.feed import SqliteFeed
from spec_kit_memory.index.sqlite.soundness import Soundness

if TYPE_CHECKING:
    from spec_kit_memory.core.raw_hits import RawHits
    from spec_kit_memory.index.contract import Index


class SqliteShared(Shared):
    database: Database

    def __init__(self, database: Database, *, opened: Callable[[Path], Index]) -> None:
        super().__init__(database, SqliteFeed(database))
        self.opened = opened  # opens another file as a handle of the same kind
        self.soundness = Soundness(database)
        self.when_new: list[Callable[[], None]] = []
        self._generation_offset = 0
        self._last_generation = 0
        database.on_new_file = self._new_file

    def _new_file(self) -> None:
        """Handle a replaced file: it counts generations from the start, but callers must only see them rise."""
        self._generation_offset = self._last_generation + 1
        self.rows_kept = RowCache(self.feed, self.steadiness)
        self.loaded = None
        for callback in self.when_new:
            callback()

    def match_text(self, scope: Scope | None, terms: Sequence[str], where: Filter, limit: int) -> RawHits:
        return self.arrays.match_text(scope, terms, where, limit, confirm_nothing=self.soundness.require)

    def match_vector(self, scope: Scope | None, vector: Any, where: Filter, limit: int) -> RawHits:
        return self.arrays.match_vector(scope, vector, where, limit)

    def _generation(self) -> int:
        with self.database.reading() as connection:
            stored: int = first(connection, "SELECT generation FROM counter")[0]
        return self.monotonic(stored)

    def monotonic(self, stored: int) -> int:
        self._last_generation = max(self._last_generation, stored + self._generation_offset)
        return stored + self._generation_offset
