"""How does work run in parallel with its caller, without the cost of a new thread each time?

Starting a thread delays a search by up to a millisecond, so a few idle threads per process wait for the next work.
Not a pool of the standard library: it would not survive a fork, and the process would wait for it without limit.

When the process ends, it waits a limited time for running work: if a thread returns from a model after Python has shut
down, the whole process aborts, although everything was answered.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Condition, Thread

Work = Callable[[], None]

_MOST_IDLE = 4
# As long as a search takes on a busy machine, including loading the model.
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
        """Run work until enough threads are idle. An exception ends the thread and goes to `threading.excepthook`."""
        while True:
            work = waiting.get()
            try:
                work()
            finally:
                with self._changed:
                    self._under_way -= 1
                    self._changed.notify_all()
            del work  # otherwise its objects would live until the next work
            if len(self._idle) >= _MOST_IDLE:
                return
            self._idle.append(waiting)

    def settle(self, seconds: float = _SETTLE_SECONDS) -> bool:
        """Wait until no work is running; False if that takes longer."""
        if os.getpid() != self._pid:
            return True  # a fork has none of these threads
        with self._changed:
            return self._changed.wait_for(lambda: not self._under_way, timeout=seconds)


_workers = _Workers()
start = _workers.start
atexit.register(_workers.settle)
