"""How does work go on beside its caller, without the price of a new thread each time?

Starting a thread takes a question up to a millisecond. Threads that are done wait for the next work: a few,
for the whole process. Not a pool: that would not survive a fork, and is waited for at the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

__all__ = ["start"]

Work = Callable[[], None]

_MOST_IDLE = 4


class _Workers:
    def __init__(self) -> None:
        self._pid = os.getpid()
        self._idle: list[SimpleQueue[Work]] = []

    def start(self, work: Work) -> None:
        if os.getpid() != self._pid:
            self._idle = []
            self._pid = os.getpid()
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
            work()
            del work  # or what it holds would live until the next
            if len(self._idle) >= _MOST_IDLE:
                return
            self._idle.append(waiting)


start = _Workers().start
