"""How does work go on beside its caller, without the price of a new thread each time?

Starting a thread takes a question up to a millisecond. Threads that are done wait for the next work: a few,
for the whole process. Not a pool: that would not survive a fork, and is waited for at the end however long it takes.

The end of the process waits for work under way, but not forever: Python ends a thread that returns from a model
after that in a way that aborts the whole process, although everything was answered.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Condition, Thread

__all__ = ["start"]

Work = Callable[[], None]

_MOST_IDLE = 4
# As long as a question on a machine with much other work takes, loading the model included.
_SETTLE_SECONDS = 10.0


class _Workers:
    def __init__(self) -> None:
        self._pid = os.getpid()
        self._idle: list[SimpleQueue[Work]] = []
        self._under_way = 0
        self._changed = Condition()

    def start(self, work: Work) -> None:
        if os.getpid() != self._pid:
            self._idle = []
            self._under_way = 0
            self._changed = Condition()
            self._pid = os.getpid()
        with self._changed:
            self._under_way += 1
        try:
            waiting = self._idle.pop()
        except IndexError:
            waiting = SimpleQueue()
            Thread(target=self._serve, args=(waiting,), name="skm-beside", daemon=True).start()
        waiting.put(work)

    def _serve(self, waiting: SimpleQueue[Work]) -> None:
        """What work raises ends its thread, which tells it to `threading.excepthook`."""
        while True:
            work = waiting.get()
            try:
                work()
            finally:
                with self._changed:
                    self._under_way -= 1
                    self._changed.notify_all()
            del work  # or what it holds would live until the next
            if len(self._idle) >= _MOST_IDLE:
                return
            self._idle.append(waiting)

    def settle(self, seconds: float = _SETTLE_SECONDS) -> bool:
        """Wait until nothing is under way; False if that takes longer."""
        if os.getpid() != self._pid:
            return True  # a fork has none of these threads
        with self._changed:
            return self._changed.wait_for(lambda: not self._under_way, timeout=seconds)


_workers = _Workers()
start = _workers.start
atexit.register(_workers.settle)
