"""The handle that both engines share: an index stored in SQL tables, bound to a scope.

Handles made by `within` share the database and the arrays in memory; only their scope differs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Self

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.index.contract import Care
from spec_kit_memory.index.sql import conditions
from spec_kit_memory.index.sql.dialect import Database
from spec_kit_memory.index.sql.documents import Documents
from spec_kit_memory.index.sql.record import Record
from spec_kit_memory.index.sql.vectors import Vectors
from spec_kit_memory.index.sql.view import Shared


class TableIndex:
    """The common part of an index handle. An engine adds how it is opened, `care`, and its own features."""

    _shared: Shared
    _database: Database
    care: Care

    def _bind(self, shared: Shared, scope: Scope | None) -> None:
        self._shared, self._database, self._scope = shared, shared.database.within(scope), scope
        self.documents = Documents(shared, scope)
        self.record = Record(shared, scope)
        self.vectors = Vectors(shared, scope)
        self._changes: tuple[int, int] = (-1, 0)  # generation of the index, and of this scope

    @property
    def read_only(self) -> bool:
        return self._database.read_only

    def within(self, scope: Scope) -> Self:
        view = object.__new__(type(self))
        view._bind(self._shared, scope)
        return view

    def close(self) -> None:
        self._database.close()
        self._shared.loaded = None

    def generation(self, *, since: float | None = None) -> int:
        """A scope gets the generation of its own memories: it must not even learn that others changed theirs."""
        whole = self._shared.generation(since)
        if self._scope is None or self._scope == Scope():
            return whole
        if self._changes[0] != whole:
            seen, bound = conditions.visible(self._scope)
            sql = f"SELECT coalesce(max(changed), 0) FROM memory WHERE memory.project_id = @p AND {seen}"
            with self._database.reading() as connection:
                self._changes = whole, self._shared.monotonic(connection.fetch_once(sql, bound)[0][0])
        return self._changes[1]

    def bulk(self) -> AbstractContextManager[None]:
        return self._database.bulk()

    def together(self) -> AbstractContextManager[None]:
        return self._database.together()

    def hurried(self) -> AbstractContextManager[None]:
        return self._database.hurried()

    def steady(self) -> AbstractContextManager[None]:
        return self._shared.steady()

    def unmoved(self) -> bool:
        return self._shared.unmoved()

    def frozen(self) -> AbstractContextManager[None]:
        return self._shared.frozen()

    def warm(self) -> None:
        self._shared.arrays.warm(self._shared.row_cache)
