"""Where are a workspace's state files stored if its index is on a server? In rows of one megabyte each."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from spec_kit_memory.errors import DatabaseBusy
from spec_kit_memory.index import rows
from spec_kit_memory.index.postgres.connection import Connection, Database
from spec_kit_memory.index.sql.dialect import fetch

_PART = 1 << 20
_LOCK_SECONDS = 120.0
_PAUSE_SECONDS = 0.1


class _Held(threading.local):
    connection: Connection | None = None


class StateFiles:
    """State files of one checkout; each is either complete or absent."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held = _Held()  # the transaction of the thread that is inside `alone`

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        if self._held.connection is not None:
            with self._database.translated():
                yield self._held.connection
            return
        with self._database.reading() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        if self._held.connection is not None:
            with self._database.translated():
                yield self._held.connection
            return
        if self._database.is_joined:  # inside `together`: part of its transaction
            with self._database.writing() as connection:
                yield connection
            return
        with self._database.beside(seconds=_LOCK_SECONDS) as connection:
            yield connection

    @contextmanager
    def within(self, connection: Connection) -> Iterator[None]:
        """In the block, what this thread reads and writes here is part of this transaction."""
        self._held.connection = connection
        try:
            yield
        finally:
            self._held.connection = None

    def sizes(self, kind: str) -> dict[str, int]:
        sql = (
            "SELECT name, sum(length(data))::bigint FROM state_file WHERE project_id = @p AND kind = ?"
            " GROUP BY name ORDER BY name"
        )
        with self._reading() as connection:
            return dict(fetch(connection, sql, (kind,)))

    def parts(self, kind: str, name: str) -> Iterator[bytes]:
        """The parts in order, each read in its own transaction, so that no snapshot is held for a whole file."""
        sql = "SELECT data FROM state_file WHERE project_id = @p AND kind = ? AND name = ? AND part = ?"
        part = 0
        while True:
            with self._reading() as connection:
                row = connection.binary(sql, (kind, name, part)).fetchone()
            if row is None:
                return
            yield row[0]
            part += 1

    @contextmanager
    def writing(self, kind: str, name: str) -> Iterator[Callable[[bytes], None]]:
        """Write a file: all of the block or nothing. Writers of memories do not wait for it."""
        with self._writing() as connection:
            connection.execute("DELETE FROM state_file WHERE project_id = @p AND kind = ? AND name = ?", (kind, name))
            buffer = bytearray()
            count = 0
            sql = "INSERT INTO state_file (project_id, kind, name, part, data) VALUES (@p, ?, ?, ?, ?)"

            def put(part: bytes) -> None:
                nonlocal count
                connection.binary(sql, (kind, name, count, part))
                count += 1

            def write(data: bytes) -> None:
                buffer.extend(data)
                while len(buffer) >= _PART:
                    put(bytes(buffer[:_PART]))
                    del buffer[:_PART]

            yield write
            put(bytes(buffer))

    def remove(self, kind: str, name: str) -> bool:
        with self._writing() as connection:
            sql = "DELETE FROM state_file WHERE project_id = @p AND kind = ? AND name = ?"
            return connection.execute(sql, (kind, name)).changed > 0

    @contextmanager
    def alone(self, kind: str) -> Iterator[None]:
        """Lock out other processes of the checkout; the lock ends with its transaction, even after a crash.

        State files that this thread writes meanwhile are part of that transaction, so they need no second connection.
        A process that waits for the lock holds no connection between attempts.
        """
        key = zlib.crc32(f"{self._database.project}/{self._database.checkout}/{kind}".encode())
        locked = "SELECT pg_try_advisory_xact_lock(?, ?)"
        deadline = time.monotonic() + _LOCK_SECONDS
        while True:
            with self._database.beside(seconds=_LOCK_SECONDS) as connection:
                if connection.execute(locked, (self._database.project % 2**31, key - 2**31)).get:
                    with self.within(connection):
                        yield
                    return
            if time.monotonic() >= deadline:
                raise DatabaseBusy("another process is making a checkpoint", hint="try again in a moment")
            time.sleep(_PAUSE_SECONDS)

    def seconds_left(self, name: str, at: datetime, *, pause_seconds: int) -> float:
        """Seconds until `name` may run again. 0: it may run now and the pause starts; of several callers one gets 0."""
        now = rows.micros(at) or 0
        sql = (
            "INSERT INTO state_file (project_id, kind, name, part, data, at) VALUES (@p, 'rest', :name, 0, '', :now)"
            " ON CONFLICT (project_id, checkout_id, kind, name, part) DO UPDATE SET at = excluded.at"
            " WHERE state_file.at <= :now - :pause OR state_file.at > :now RETURNING 1"
        )
        with self._database.beside(seconds=_LOCK_SECONDS) as connection:
            pause = pause_seconds * 1_000_000
            if connection.execute(sql, {"name": name, "now": now, "pause": pause}).get:
                return 0.0
            last = "SELECT at FROM state_file WHERE project_id = @p AND kind = 'rest' AND name = ?"
            return float(connection.execute(last, (name,)).get + pause - now) / 1e6
