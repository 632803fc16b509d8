"""Does an SQLite statement run longer than the rows of its file can take?

In a forged file, a table can enter the same pages many times: two hundred kilobytes then have more rows than anyone
can wait for. SQLite calls back every so many steps of a statement; this also lets Ctrl-C end it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import apsw

_Values = TypeVar("_Values")

TOO_MANY_ROWS = "its tables have more rows than fit into the file"
_BETWEEN = 1_000_000  # steps between two calls, some 20 ms
_ALWAYS = 5_000_000
_PER_BYTE = 50  # a row takes some ten bytes or more, and a join or check some hundred steps for each


class StepLimit:
    """Counts the steps of a connection's statements. `begin` starts the count of another statement."""

    __slots__ = ("_calls", "_path", "_refusal")

    def __init__(self, path: Path, refusal: Callable[[], Exception]) -> None:
        self._path = path
        self._refusal = refusal
        self._calls = 0

    def watch(self, connection: apsw.Connection) -> None:
        """Also takes the place of another handler, which would be called at the same times."""
        connection.set_progress_handler(self._called, _BETWEEN)

    def begin(self) -> None:
        self._calls = 0

    def each(self, values: Iterable[_Values]) -> Iterator[_Values]:
        """The values of a statement that is run once for each of them."""
        for value in values:
            self._calls = 0
            yield value

    def _called(self) -> bool:
        self._calls += 1
        if self._calls * _BETWEEN > _ALWAYS + _PER_BYTE * bytes_of(self._path):
            raise self._refusal()
        return False


def bytes_of(path: Path) -> int:
    """The size of a database and its log."""
    size = 0
    for name in (os.fspath(path), f"{os.fspath(path)}-wal"):
        try:
            size += os.stat(name).st_size
        except OSError:  # deleted meanwhile, or there is no log
            continue
    return size
