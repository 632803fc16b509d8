"""Which reads are in progress, and how does each begin and end? No connection is closed while a read uses it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import apsw

from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.index.sqlite import failures

ReadConnection = TypeVar("ReadConnection", bound=apsw.Connection)


class ReadBlock(Generic[ReadConnection]):
    """The context manager of `Database.reading`; a class, because each search enters it about twenty times."""

    __slots__ = ("_as_ours", "_begin", "_connection", "_inner", "_path", "_read")

    def __init__(
        self,
        begin: Callable[[], tuple[Read, ReadConnection]],
        as_ours: Callable[[BaseException], SpecKitMemoryError],
        path: Path,
    ) -> None:
        self._begin = begin
        self._as_ours = as_ours
        self._path = path

    def __enter__(self) -> ReadConnection:
        try:
            self._read, connection = self._begin()
            try:
                self._connection, self._inner = connection, connection.in_transaction
                if not self._inner:
                    connection.execute("BEGIN")
            except BaseException:
                self._read.end()
                raise
        except failures.FOREIGN as error:
            raise self._as_ours(error) from error
        return connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            failures.note_errno(error, self._connection)
        try:
            if not self._inner and self._connection.in_transaction:  # a failed read may have ended the transaction
                self._connection.execute("ROLLBACK")
        except apsw.Error as also:
            raise self._as_ours(also) from error or also
        finally:
            self._read.end()
        if isinstance(error, failures.FOREIGN):
            raise self._as_ours(error) from error
        if failures.shows_damage(error):
            raise failures.damaged(self._path, repr(error)) from error


class Read:
    """A read in progress; any thread may end it."""

    __slots__ = ("_in_progress", "thread")

    def __init__(self, in_progress: set[Read]) -> None:
        self.thread = threading.get_ident()
        self._in_progress = in_progress
        in_progress.add(self)

    def end(self) -> None:
        self._in_progress.discard(self)


class Reads:
    """The reads in progress, so that no connection is closed while it is read."""

    def __init__(self) -> None:
        self._in_progress: set[Read] = set()

    def begin(self) -> Read:
        return Read(self._in_progress)

    def wait_for_others(self, seconds: float) -> None:
        own, deadline = threading.get_ident(), time.monotonic() + seconds
        while any(read.thread != own for read in self._in_progress.copy()) and time.monotonic() < deadline:
            time.sleep(0.002)
