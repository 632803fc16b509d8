"""The index on SQLite: a handle on one file, bound to a scope.

Views made by `within` share the database and the arrays in memory; only their scope differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.index.sqlite import conditions
from spec_kit_memory.index.sqlite.connection import BUSY_SECONDS, Database, first
from spec_kit_memory.index.sqlite.documents import Documents
from spec_kit_memory.index.sqlite.export import SqliteTables
from spec_kit_memory.index.sqlite.maintenance import Care
from spec_kit_memory.index.sqlite.record import Record
from spec_kit_memory.index.sqlite.vectors import Vectors
from spec_kit_memory.index.sqlite.view import Shared

__all__ = ["SqliteIndex"]


class SqliteIndex:
    state_files = None  # they lie beside it

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        damaged_ok: bool = False,
        busy_seconds: float = BUSY_SECONDS,
        first_id: int = 1,
    ) -> None:
        database = Database(
            path, read_only=read_only, damaged_ok=damaged_ok, busy_seconds=busy_seconds, first_id=first_id
        )
        another = partial(SqliteIndex, busy_seconds=busy_seconds, first_id=first_id)
        self._bind(Shared(database, opened=another), None)

    def _bind(self, shared: Shared, scope: Scope | None) -> None:
        self._shared, self._database, self._scope = shared, shared.database, scope
        self.documents = Documents(shared, scope)
        self.record = Record(shared, scope)
        self.vectors = Vectors(shared, scope)
        self.care = Care(shared, scope)
        self._changes: tuple[int, int] = (-1, 0)  # a generation, and the one in which this scope last changed

    @property
    def read_only(self) -> bool:
        return self._database.read_only

    @property
    def outbox(self) -> None:
        """Whoever uses a file writes the memories' files, too."""
        return None

    def within(self, scope: Scope) -> SqliteIndex:
        view = object.__new__(SqliteIndex)
        view._bind(self._shared, scope)
        return view

    def close(self) -> None:
        self._database.close()
        self._shared.loaded = None

    def when_new(self, told: Callable[[], None]) -> None:
        self._shared.when_new.append(told)

    def generation(self) -> int:
        """What others change in their own part is not told to a scope, not even that it happened."""
        whole = self._shared.generation()
        if self._scope is None or self._scope == Scope():
            return whole
        if self._changes[0] != whole:
            seen, bound = conditions.visible(self._scope)
            with self._database.reading() as connection:
                newest = first(connection, f"SELECT coalesce(max(changed), 0) FROM memory WHERE {seen}", bound)[0]
            self._changes = whole, self._shared.rising(newest)
        return self._changes[1]

    @contextmanager
    def exported(self) -> Iterator[SqliteTables]:
        with self._database.apart() as connection:
            yield SqliteTables(connection)

    @contextmanager
    def imported(self) -> Iterator[SqliteTables]:
        with self._database.writing() as connection:
            yield SqliteTables(connection)

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
        self._shared.soundness.require(quick=quick)
