"""How does the team server access its tables? As the operator who owns them, through the pool that all indexes share.

Memories of a project are accessed through its index instead, where row-level security applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from spec_kit_memory.errors import DatabaseUnusable, SpecKitMemoryError
from spec_kit_memory.index.postgres import failures, schema
from spec_kit_memory.index.postgres.connection import Raw, taken
from spec_kit_memory.settings.database_url import usable_url

Row = tuple[Any, ...]
_SHOWN = "the server's database"


class DatabaseSession:
    """One transaction with the operator's rights."""

    def __init__(self, raw: Raw, where: str) -> None:
        self._raw = raw
        self._where = where

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._raw.execute(sql.encode(), values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> Row | None:
        return self._raw.execute(sql.encode(), values).fetchone()

    def execute(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement; returns the number of changed rows."""
        return self._raw.execute(sql.encode(), values).rowcount

    def project(self, name: str) -> int:
        """The id of the project of this name, which is created if missing."""
        return schema.add_project(self._raw, name, self._where)


class TeamDatabase:
    """A PostgreSQL server. No connection is held between transactions."""

    def __init__(self, url: str) -> None:
        self.url = usable_url(url)
        self.where = failures.masked(url)
        with self._translated(), psycopg.connect(url, autocommit=True, connect_timeout=10) as raw:
            schema.prepare(raw, self.where)

    @contextmanager
    def transaction(self) -> Iterator[DatabaseSession]:
        with self._translated():
            raw = self._begun()
            try:
                yield DatabaseSession(raw[1], self.where)
                raw[1].execute("COMMIT")
            finally:
                _return_to_pool(*raw)

    def _begun(self) -> tuple[Any, Raw]:
        """A connection in a new transaction; one that broke while idle is replaced."""
        for left in (2, 1, 0):
            pool, raw = taken(self.url)
            try:
                raw.execute(f"BEGIN; SET LOCAL search_path = {schema.NAME}, pg_temp".encode())
                return pool, raw
            except psycopg.OperationalError:
                pool.putconn(raw)
                if not left or not raw.closed:
                    raise
                pool.check()
        raise AssertionError("unreachable")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except failures.FOREIGN as error:
            raise failures.as_ours(error, self.where) from error


def conceal(error: SpecKitMemoryError, where: str) -> None:
    """Remove from an error of the database what is its operator's: the address, and what the database server said."""
    message = error.message.replace(where, _SHOWN) if where else error.message
    if isinstance(error, DatabaseUnusable):
        message = message.partition(": ")[0]
        error.advice = ("try again later: the server's log tells its operator the cause",)
    error.message = f"{_SHOWN} failed" if message == _SHOWN else message


def _return_to_pool(pool: Any, raw: Raw) -> None:
    if raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        with suppress(psycopg.Error):
            raw.execute("ROLLBACK")
    pool.putconn(raw)
