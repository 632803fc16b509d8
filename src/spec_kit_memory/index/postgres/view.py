"""What do all views of one project share? Beside the caches, whether the server still answers matches itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spec_kit_memory.core.memory import Filter, RawHit, Scope
from spec_kit_memory.index.postgres.connection import Database
from spec_kit_memory.index.postgres.feed import PostgresFeed
from spec_kit_memory.index.sql.view import Shared

if TYPE_CHECKING:
    from spec_kit_memory.index.contract import Index

__all__ = ["PostgresShared"]

COLD_MATCHES = 16  # what a command asks at most: several texts, by words and by vector


class PostgresShared(Shared):
    database: Database
    feed: PostgresFeed
    whole: Index  # the handle without a scope

    def __init__(self, database: Database, *, accepts: bool) -> None:
        super().__init__(database, PostgresFeed(database))
        self.cold_matches = 0
        self.accepts = accepts  # changes of files go to the outbox

    def match_text(self, scope: Scope | None, terms: Sequence[str], where: Filter, limit: int) -> list[RawHit]:
        if self._is_cold():
            from spec_kit_memory.index.postgres import cold_search

            return cold_search.match_text(self.database.within(scope), self.feed, scope, terms, where, limit)
        return self.arrays.match_text(scope, terms, where, limit, confirm_nothing=lambda: None)

    def match_vector(self, scope: Scope | None, vector: Any, where: Filter, limit: int) -> list[RawHit]:
        if self._is_cold():
            from spec_kit_memory.index.postgres import cold_search

            return cold_search.match_vector(self.database.within(scope), self.feed, scope, vector, where, limit)
        return self.arrays.match_vector(scope, vector, where, limit)

    def _is_cold(self) -> bool:
        """Shall the server answer this match? A process that goes on asking loads the arrays."""
        if self.loaded is not None or self.cold_matches >= COLD_MATCHES:
            return False
        self.cold_matches += 1
        return True
