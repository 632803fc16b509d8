"""The index on SQLite: a handle on one file, bound to a scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.index.sql.engine import TableIndex
from spec_kit_memory.index.sqlite.connection import BUSY_SECONDS, Database
from spec_kit_memory.index.sqlite.export import SqliteTables
from spec_kit_memory.index.sqlite.maintenance import Care
from spec_kit_memory.index.sqlite.view import SqliteShared


class SqliteIndex(TableIndex):
    _shared: SqliteShared
    _database: Database
    outbox = None  # not needed: users of a local index write the memories' files directly
    state_files = None  # not needed: they are stored next to the index

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        damaged_ok: bool = False,
        busy_seconds: float = BUSY_SECONDS,
        ids: range | None = None,
    ) -> None:
        database = Database(path, read_only=read_only, damaged_ok=damaged_ok, busy_seconds=busy_seconds, ids=ids)
        another = partial(SqliteIndex, busy_seconds=busy_seconds, ids=ids)
        self._bind(SqliteShared(database, opened=another), None)

    def _bind(self, shared: SqliteShared, scope: Scope | None) -> None:  # type: ignore[override]
        super()._bind(shared, scope)
        self.care = Care(shared, scope)

    def when_new(self, callback: Callable[[], None]) -> None:
        self._shared.when_new.append(callback)

    @contextmanager
    def exported(self) -> Iterator[SqliteTables]:
        with self._database.apart() as connection:
            yield SqliteTables(connection)

    @contextmanager
    def imported(self) -> Iterator[SqliteTables]:
        with self._database.writing() as connection:
            yield SqliteTables(connection)

    def require_sound(self, *, quick: bool = False) -> None:
        self._shared.soundness.require(quick=quick)

    def require_valid_values(self) -> None:
        self._shared.soundness.require_valid_values()
