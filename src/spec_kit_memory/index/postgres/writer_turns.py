"""In which order do the writers of this process write? One per project; the others wait here, without a connection.

Otherwise writers that wait for one row in the database would hold every connection of the process, and searches would
get none. Writers of all projects together leave some connections to readers, too.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

MOST_WRITING = 12  # the most connections to one server that writers of a process hold at once


class _Places:
    """A first-come, first-served semaphore."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._lock = threading.Lock()
        self._queue: deque[threading.Event] = deque()

    @contextmanager
    def taken(self, deadline: float) -> Iterator[bool]:
        """Yields False if no place became free before the deadline."""
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
        """The final decision: a caller that timed out leaves the queue and cannot be granted a place later."""
        with self._lock:
            if not granted.is_set():
                self._queue.remove(granted)
            return granted.is_set()

    def _release(self, granted: threading.Event) -> None:
        with self._lock:
            if granted in self._queue:  # interrupted while waiting
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
    """The semaphore of a project, or (None) of the server; a forked process gets its own."""
    with _all_lock:
        return _all.setdefault((os.getpid(), url, project), _Places(count))


@contextmanager
def turn_to_write(url: str, project: int, seconds: float) -> Iterator[float | None]:
    """Hold the project's turn to write during the block. Yields the seconds left, or None if the wait timed out."""
    deadline = time.monotonic() + seconds
    with _places(url, project, 1).taken(deadline) as is_next:
        if not is_next:
            yield None
            return
        with _places(url, None, MOST_WRITING).taken(deadline) as has_place:
            yield max(0.0, deadline - time.monotonic()) if has_place else None
