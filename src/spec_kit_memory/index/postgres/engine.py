"""The index on PostgreSQL: a handle on one checkout of a project, bound to a scope.

Views made by `within` share the connections and the arrays in memory; only their scope differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.index.postgres import conditions
from spec_kit_memory.index.postgres.connection import BUSY_SECONDS, Database, first
from spec_kit_memory.index.postgres.documents import Documents
from spec_kit_memory.index.postgres.export import PostgresTables
from spec_kit_memory.index.postgres.maintenance import Care
from spec_kit_memory.index.postgres.outbox import Outbox
from spec_kit_memory.index.postgres.record import Record
from spec_kit_memory.index.postgres.state_files import StateFiles
from spec_kit_memory.index.postgres.vectors import Vectors
from spec_kit_memory.index.postgres.view import Shared

__all__ = ["PostgresIndex"]


class PostgresIndex:
    def __init__(
        self,
        url: str,
        project: str,
        *,
        checkout: str = "",
        read_only: bool = False,
        busy_seconds: float = BUSY_SECONDS,
        accepts: bool = False,
    ) -> None:
        """`accepts`: on a team server, where changes of files are accepted in the outbox."""
        database = Database(url, project, checkout=checkout, read_only=read_only, busy_seconds=busy_seconds)
        shared = Shared(database)
        shared.whole, shared.accepts = self, accepts
        self._bind(shared, None)

    def _bind(self, shared: Shared, scope: Scope | None) -> None:
        self._shared, self._database, self._scope = shared, shared.database, scope
        self.documents = Documents(shared, scope)
        self.record = Record(shared, scope)
        self.vectors = Vectors(shared, scope)
        self.care = Care(shared, scope)
        self.state_files = StateFiles(shared.database)
        self._changes: tuple[int, int] = (-1, 0)  # a generation, and the one in which this scope last changed

    @property
    def read_only(self) -> bool:
        return self._database.read_only

    @property
    def outbox(self) -> Outbox | None:
        return Outbox(self._shared, self._scope) if self._shared.accepts else None

    def within(self, scope: Scope) -> PostgresIndex:
        view = object.__new__(PostgresIndex)
        view._bind(self._shared, scope)
        return view

    def close(self) -> None:
        self._database.close()
        self._shared.loaded = None

    def when_new(self, told: Callable[[], None]) -> None:
        """No other index takes a project's place."""

    def generation(self) -> int:
        """What others change in their own part is not told to a scope, not even that it happened."""
        whole = self._shared.generation()
        if self._scope is None or self._scope == Scope():
            return whole
        if self._changes[0] != whole:
            seen, bound = conditions.visible(self._scope)
            sql = f"SELECT coalesce(max(changed), 0) FROM memory WHERE memory.project_id = @p AND {seen}"
            with self._database.reading() as connection:
                self._changes = whole, first(connection, sql, bound)[0]
        return self._changes[1]

    @contextmanager
    def exported(self) -> Iterator[PostgresTables]:
        with self._database.apart() as connection:
            yield PostgresTables(connection)

    @contextmanager
    def imported(self) -> Iterator[PostgresTables]:
        with self._database.writing() as connection:
            yield PostgresTables(connection)

    def bulk(self) -> AbstractContextManager[None]:
        return self._database.bulk()

    def together(self) -> AbstractContextManager[None]:
        return self._database.together()

    def hurried(self) -> AbstractContextManager[None]:
        return self._database.hurried()

    def steady(self) -> AbstractContextManager[None]:
        return self._shared.steady()

    def warm(self) -> None:
        self._shared.arrays.warm(self._shared.row_cache)

    def require_sound(self, *, quick: bool = False) -> None:
        """The server checks its own pages, and says so where it reads a damaged one."""
