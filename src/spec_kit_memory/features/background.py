"""What runs in the background? Scan, vectors, watcher, use counts: one thread each.

Nothing here may take a server down: an error is recorded for `health`, and the work is retried.
"""

from __future__ import annotations

import gc
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING

from spec_kit_memory.advice import Advice, Text, advise, outcome
from spec_kit_memory.answers import WatchAnswer
from spec_kit_memory.core import ranking
from spec_kit_memory.core.pace import Pace
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.features import index_workspace
from spec_kit_memory.features.runtime import Runtime

if TYPE_CHECKING:
    from spec_kit_memory.files.vector_queue import Embedded
    from spec_kit_memory.files.watch import Happened

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0
RETRY_SECONDS = 30.0
STOP_SECONDS = 10.0  # for all of them together
# How long a call waits for the files to be read again after the index was deleted or replaced.
SETTLE_SECONDS = 2.0
_READ_AHEAD, _AT_ONCE = 10_000, 500  # memories to preload, in total and per query
# Objects after which garbage is collected. A search makes two thousand and nearly no cycles; by default it would be
# interrupted three times, which takes a tenth of its time.
_COLLECT_AFTER = 20_000

_FIRST = advise("first-reading")
_AGAIN = advise("reading-again")
_STANDING = {"watching": outcome("watching"), "waiting": outcome("waiting-to-watch")}


def _problem(error: Exception) -> str:
    return f"{error.code} {error.message}" if isinstance(error, SpecKitMemoryError) else str(error)


def warm(runtime: Runtime) -> None:
    """Preload what searches need, and exclude it from garbage collection: each pass over it took 60 ms."""
    runtime.store.warm()
    for at in range(0, _READ_AHEAD, _AT_ONCE):
        memories = runtime.store.documents.find(order="path", limit=_AT_ONCE, offset=at)
        for memory in memories:
            ranking.read_ahead(memory.attributes)
        if len(memories) < _AT_ONCE:
            break
    runtime.matcher()
    gc.collect()
    gc.freeze()
    youngest, *older = gc.get_threshold()
    if 0 < youngest < _COLLECT_AFTER:  # 0: it is switched off
        gc.set_threshold(_COLLECT_AFTER, *older)


class Background:
    """The background threads of a server. They call `report` with what they did, from several threads."""

    def __init__(self, runtime: Runtime, *, report: Callable[[WatchAnswer], None] | None = None) -> None:
        self._runtime = runtime
        self._report = report
        self._reported_failure = ""
        self._pid = os.getpid()
        self._stopping = threading.Event()
        self._work_waiting = threading.Event()
        self._threads: list[threading.Thread] = []
        self._new_index = threading.Event()
        self._embedding = False
        self._pace = Pace()
        self.scanned = threading.Event()
        self.unread: Text = ""  # why answers may lack something
        with suppress(SpecKitMemoryError):  # each call reports the same error
            self.unread = "" if runtime.whole.documents.count() else _FIRST

    def start(self) -> None:
        from spec_kit_memory.files.watch import Watcher

        self._runtime.whole.when_new(self._renewed)
        sync, settings = self._runtime.sync, self._runtime.settings
        watcher = Watcher(sync, settings, on_indexed=self.wake, on_event=self._happened)
        jobs: list[tuple[str, Callable[[], None]]] = [("vectors", self._embed), ("use", self._flush)]
        if self._runtime.accepts:  # a separate worker reads the repository; this process only uses the index
            self.unread = ""
            self.scanned.set()
            jobs.append(("warm", self._warm))
        else:
            jobs += [("scan", self._scan), ("watch", lambda: watcher.run(self._stopping))]
        for name, work in jobs:
            thread = threading.Thread(target=self._guarded, args=(work,), name=f"skm-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def wake(self) -> None:
        """Wake the thread that embeds: there may be passages without a vector."""
        self._work_waiting.set()

    def settle(self) -> None:
        """Before a call: if the index was replaced, wait a moment for its files to be read."""
        with suppress(SpecKitMemoryError):  # the call itself raises the same error
            self._runtime.whole.generation()
        if self.unread == _AGAIN:
            self.scanned.wait(SETTLE_SECONDS)

    def doing(self) -> Advice | None:
        """The work in progress, if any."""
        if self.unread:
            return outcome("reading-files")
        if not (self._embedding or self._work_waiting.is_set()):
            return None
        return (self._pace.to_go(at=time.monotonic()) if self._embedding else None) or outcome("making-vectors")

    def _step(self, stage: str, done: int, total: int) -> None:
        self._pace.step(done, total, at=time.monotonic())

    def _renewed(self) -> None:
        """Called when a new index is noticed: until its files are read, answers must say what is missing."""
        if os.getpid() != self._pid:
            return  # a fork has none of these threads
        self.unread = _AGAIN
        self.scanned.clear()
        self._new_index.set()

    def stop(self) -> None:
        self._stopping.set()
        self._work_waiting.set()
        self._new_index.set()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, deadline - time.monotonic()))

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
        """Scan the files at the start and whenever the index was deleted or replaced."""
        while not self._stopping.is_set():
            self._new_index.clear()
            if not self._runtime.whole.documents.count():
                self.unread = self.unread or _FIRST
            try:
                self._runtime.sync.scan(cancel=self._stopping.is_set)
            except (SpecKitMemoryError, OSError):
                self.scanned.set()  # no call waits for the retry; until then answers say what is missing
                raise
            if not self._new_index.is_set():  # otherwise this scan was for an index that is gone
                self.unread = ""
                self.scanned.set()
            self.wake()
            with suppress(SpecKitMemoryError):  # for example the index is being replaced: the next search loads it then
                warm(self._runtime)
            if not self._stopping.is_set():  # `stop` sets `_new_index` too, but it may have been cleared above
                self._new_index.wait()

    def _warm(self) -> None:
        """Preload, and embed what other replicas accepted and did not embed."""
        with suppress(SpecKitMemoryError):
            warm(self._runtime)
        while not self._stopping.is_set():
            self.wake()
            self._stopping.wait(RETRY_SECONDS)

    def _embed(self) -> None:
        done = True
        while not self._stopping.is_set():
            self._work_waiting.wait(None if done else RETRY_SECONDS)  # retry a provider that was down
            self._embedding = not self._stopping.is_set()
            self._work_waiting.clear()
            if self._embedding:
                try:
                    self._pace = Pace()
                    done = index_workspace.embed_pending(
                        self._runtime,
                        progress=self._step,
                        cancelled=self._stopping.is_set,
                        report=self._embedded,
                    )
                finally:
                    self._embedding = False

    # --- reports

    def _happened(self, event: Happened) -> None:
        if self._report is None:
            return
        at = self._runtime.now()
        if isinstance(event, Exception):
            self._report(WatchAnswer(outcome=_problem(event), kind="problem", at=at))
        elif isinstance(event, StrEnum):
            self._report(WatchAnswer(outcome=_STANDING[event.value], kind=event.value, at=at))
        else:
            indexed = event.new + event.modified + event.reindexed
            self._report(
                WatchAnswer(
                    outcome=index_workspace.changes(event),
                    kind="files",
                    at=at,
                    indexed=indexed,
                    deleted=event.deleted,
                    bad=index_workspace.bad_files(event),
                )
            )

    def _embedded(self, done: Embedded) -> None:
        if self._report is None:
            return
        failure = _problem(done.failure) if done.failure else ""
        if done.embedded or done.failed or (failure and failure != self._reported_failure):
            created = outcome("vectors-made", count=done.embedded)
            if done.failed:
                created = outcome("vectors-made-and-failed", count=done.embedded, failed=f"{done.failed:,}")
            if failure:
                created = outcome("vectors-made-with-problem", outcome=created, problem=failure)
            kind = "problem" if failure else "vectors"
            now = self._runtime.now()
            self._report(WatchAnswer(outcome=created, kind=kind, at=now, embedded=done.embedded, failed=done.failed))
        self._reported_failure = failure

    def _flush(self) -> None:
        while not self._stopping.wait(FLUSH_SECONDS):
            self._runtime.flush()
