"""The index on PostgreSQL: a handle on one checkout of a project, bound to a scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.index.postgres.connection import BUSY_SECONDS, Database
from spec_kit_memory.index.postgres.export import PostgresTables
from spec_kit_memory.index.postgres.maintenance import Care
from spec_kit_memory.index.postgres.outbox import Outbox
from spec_kit_memory.index.postgres.state_files import StateFiles
from spec_kit_memory.index.postgres.view import PostgresShared
from spec_kit_memory.index.sql.engine import TableIndex


class PostgresIndex(TableIndex):
    _shared: PostgresShared
    _database: Database

    def __init__(
        self,
        url: str,
        project: str,
        *,
        checkout: str = "",
        read_only: bool = False,
        busy_seconds: float = BUSY_SECONDS,
        accepts: bool = False,
        memory_mb: int | None = None,
    ) -> None:
        """`accepts` is set on a team server, where file changes are accepted into the outbox.

        A project whose arrays would need more than `memory_mb` is searched by the database server.
        """
        database = Database(url, project, checkout=checkout, read_only=read_only, busy_seconds=busy_seconds)
        shared = PostgresShared(database, accepts=accepts, memory_mb=memory_mb)
        shared.whole = self
        self._bind(shared, None)

    def _bind(self, shared: PostgresShared, scope: Scope | None) -> None:  # type: ignore[override]
        super()._bind(shared, scope)
        self.care = Care(shared, scope)
        self.state_files = StateFiles(shared.database)

    @property
    def outbox(self) -> Outbox | None:
        return Outbox(self._shared, self._scope) if self._shared.accepts else None

    def warm(self) -> None:
        if self._shared.fits():
            super().warm()

    def when_new(self, callback: Callable[[], None]) -> None:
        """The callback is never called: a project's index is not replaced by another one."""

    @contextmanager
    def exported(self) -> Iterator[PostgresTables]:
        with self._database.apart() as connection:
            yield PostgresTables(connection)

    @contextmanager
    def imported(self) -> Iterator[PostgresTables]:
        with self._database.writing() as connection, self.state_files.within(connection):
            yield PostgresTables(connection)

    def require_sound(self, *, quick: bool = False) -> None:
        """Nothing to do: the server checks its own pages and reports a damaged one when it reads it."""

    def require_valid_values(self) -> None:
        """Nothing to do: the server rejects values that do not fit their column."""
