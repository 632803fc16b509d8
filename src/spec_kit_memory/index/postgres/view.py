"""What do all views of one project share? The caches, and the choice between arrays and searches on the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spec_kit_memory.core.memory import Filter, Scope
from spec_kit_memory.index.postgres.connection import Database
from spec_kit_memory.index.postgres.feed import PostgresFeed
from spec_kit_memory.index.sql.view import Shared

if TYPE_CHECKING:
    from spec_kit_memory.core.raw_hits import RawHits
    from spec_kit_memory.index.contract import Index

_PASSAGE_BYTES, _MEMORY_BYTES, _WORDS_BYTES = 120, 800, 250  # estimates: columns, and the words of a passage
_LOOK_AGAIN = 1_000  # matches until the size is checked again: the project may have become smaller
COLD_MATCHES = 16  # the most that one command needs: several texts, by words and by vector


class PostgresShared(Shared):
    database: Database
    feed: PostgresFeed
    whole: Index  # the handle without a scope

    def __init__(self, database: Database, *, accepts: bool, memory_mb: int | None = None) -> None:
        super().__init__(database, PostgresFeed(database))
        self.cold_matches = 0
        self._most_bytes = None if memory_mb is None else memory_mb * 1_000_000
        self.accepts = accepts  # file changes go to the outbox

    def match_text(self, scope: Scope | None, terms: Sequence[str], where: Filter, limit: int) -> RawHits:
        if self._is_cold():
            from spec_kit_memory.index.postgres import cold_search

            return cold_search.match_text(self.database.within(scope), self.feed, scope, terms, where, limit)
        return self.arrays.match_text(scope, terms, where, limit, confirm_nothing=lambda: None)

    def match_vector(self, scope: Scope | None, vector: Any, where: Filter, limit: int) -> RawHits:
        if self._is_cold():
            from spec_kit_memory.index.postgres import cold_search

            return cold_search.match_vector(self.database.within(scope), self.feed, scope, vector, where, limit)
        return self.arrays.match_vector(scope, vector, where, limit)

    def _is_cold(self) -> bool:
        """Should the server answer this match? A process that keeps searching loads the arrays if they fit."""
        if self.loaded is not None:
            return False
        if self.cold_matches >= COLD_MATCHES:
            if self.fits():
                return False
            self.cold_matches -= _LOOK_AGAIN
        self.cold_matches += 1
        return True

    def fits(self) -> bool:
        """Do the arrays of this project fit into the memory limit?"""
        if self._most_bytes is None:
            return True
        from spec_kit_memory.index.arrays.nearest import EXACT_BYTES
        from spec_kit_memory.index.arrays.vocabulary import MOST_BYTES

        memories, passages, vectors, dimensions = self.feed.amounts()
        matrix = vectors * 4 * dimensions
        coarse = vectors * dimensions // 8  # above EXACT_BYTES only one bit of each number is kept
        needed = (
            (matrix if matrix <= EXACT_BYTES else coarse)
            + min(passages * _WORDS_BYTES, MOST_BYTES)
            + passages * _PASSAGE_BYTES
            + memories * _MEMORY_BYTES
        )
        return needed <= self._most_bytes
