"""Who of this process waits in the database for a project's row? One writer; others wait here, without a connection.

Otherwise writers that wait for one row hold every connection of the process, and its searches get none. Writers of
many projects together leave some connections to readers, too.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["MOST_WRITING", "turn_to_write"]

MOST_WRITING = 12  # connections of one process to one server that writers have at once


class _Places:
    """A number of places, given in the order of coming."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._queue: deque[threading.Event] = deque()

    @contextmanager
    def taken(self, deadline: float) -> Iterator[bool]:
        """False inside: there was none until then."""
        granted = threading.Event()
        self._enqueue(granted)
        try:
            granted.wait(max(0.0, deadline - time.monotonic()))
            yield self._was_granted(granted)
        finally:
            self._release(granted)

    def _enqueue(self, granted: threading.Event) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                granted.set()
            else:
                self._queue.append(granted)

    def _was_granted(self, granted: threading.Event) -> bool:
        """Decided once: whoever was too late gets no place afterwards."""
        with self._lock:
            if not granted.is_set():
                self._queue.remove(granted)
            return granted.is_set()

    def _release(self, granted: threading.Event) -> None:
        with self._lock:
            if granted in self._queue:  # interrupted while it waited
                self._queue.remove(granted)
            elif granted.is_set():
                self._grant_next()

    def _grant_next(self) -> None:
        if self._queue:
            self._queue.popleft().set()
        else:
            self._free += 1


_all: dict[tuple[int, str, int | None], _Places] = {}
_all_lock = threading.Lock()


def _places(url: str, project: int | None, count: int) -> _Places:
    """Those of a project, or of the server; a fork gets its own."""
    with _all_lock:
        return _all.setdefault((os.getpid(), url, project), _Places(count))


@contextmanager
def turn_to_write(url: str, project: int, seconds: float) -> Iterator[float | None]:
    """The turn of a project while the block lasts: how many of the seconds are left, or None if it never came."""
    deadline = time.monotonic() + seconds
    with _places(url, project, 1).taken(deadline) as is_next:
        if not is_next:
            yield None
            return
        with _places(url, None, MOST_WRITING).taken(deadline) as has_place:
            yield max(0.0, deadline - time.monotonic()) if has_place else None
