"""What goes on behind the answers? Scan, vectors, watcher, use counts: one thread each.

Nothing here may take a server down: an error is kept for `memory_health` and tried again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.verbs import indexing
from spec_kit_memory.verbs.wiring import Wiring

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0
RETRY_SECONDS = 30.0


class Background:
    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._stopping = threading.Event()
        self._wanted = threading.Event()
        self._threads: list[threading.Thread] = []
        self._new_index = threading.Event()
        self.scanned = threading.Event()
        self.first_reading = not wiring.whole.count()  # then answers lack what was not read yet

    def start(self) -> None:
        from spec_kit_memory.vault.watch import Watcher

        self._wiring.whole.when_new(self._new_index.set)
        watcher = Watcher(self._wiring.sync, self._wiring.settings, on_indexed=self.wake)
        for name, work in (
            ("scan", self._scan),
            ("vectors", self._embed),
            ("use", self._flush),
            ("watch", lambda: watcher.run(self._stopping)),
        ):
            thread = threading.Thread(target=self._guarded, args=(work,), name=f"skm-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def wake(self) -> None:
        """There may be passages without a vector."""
        self._wanted.set()

    def stop(self) -> None:
        self._stopping.set()
        self._wanted.set()
        self._new_index.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def _guarded(self, work: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                work()
                return
            except SpecKitMemoryError as error:
                logger.warning("%s %s", error.code, error.message)
                self._stopping.wait(RETRY_SECONDS)
            except OSError as error:
                logger.warning("%s", error)
                self._stopping.wait(RETRY_SECONDS)

    def _scan(self) -> None:
        """At the start, and whenever the index was deleted or replaced: the files are the truth."""
        while not self._stopping.is_set():
            self._new_index.clear()
            self.first_reading = self.first_reading or not self._wiring.whole.count()
            try:
                self._wiring.sync.scan(cancel=self._stopping.is_set)
            finally:
                self.first_reading = False
                self.scanned.set()
            self.wake()
            self._wiring.store.warm()
            self._new_index.wait()

    def _embed(self) -> None:
        done = True
        while not self._stopping.is_set():
            self._wanted.wait(None if done else RETRY_SECONDS)  # a provider that was down is asked again
            self._wanted.clear()
            if not self._stopping.is_set():
                done = indexing.embed_pending(self._wiring, cancelled=self._stopping.is_set)

    def _flush(self) -> None:
        while not self._stopping.wait(FLUSH_SECONDS):
            self._wiring.flush()
