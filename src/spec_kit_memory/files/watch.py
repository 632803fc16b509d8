"""How does the index follow changes of files by itself?

One process per workspace watches; another takes over when it dies. Changes are reported by the operating system for
the places where memories can be, and found by polling where it sends no events. An error is kept in `problem` and the
work tried again: a watcher never takes its server down.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.files import discover, discovery_rules, paths
from spec_kit_memory.files.locks import Lock
from spec_kit_memory.files.scan import Sync
from spec_kit_memory.files.scan_state import ScanReport
from spec_kit_memory.settings import Settings

logger = logging.getLogger(__name__)

DEBOUNCE_SECONDS = 2.0
LONGEST_SECONDS = 10.0  # files that change constantly are indexed at least this often
POLL_SECONDS = 5.0
TAKE_OVER_SECONDS = 2.0
RETRY_SECONDS = 5.0
RESCAN_SECONDS = 600.0  # the system drops events when too many come at once
MANY = 500  # changed paths beyond which one walk is cheaper
TICK_MS = 250

Signature = tuple[Path, int, int]


class WatchState(StrEnum):
    """Does this process watch?"""

    WATCHING = "watching"
    WAITING = "waiting"  # another process watches; this one takes over when that ends


# What a watcher reports: applied changes, errors (the work is tried again), and whether it watches.
Happened = ScanReport | Exception | WatchState


class Watcher:
    """Feeds changes to `sync`. `run` blocks until `stop` is set; give it a thread."""

    def __init__(
        self,
        sync: Sync,
        settings: Settings,
        *,
        on_indexed: Callable[[], None] = lambda: None,
        on_event: Callable[[Happened], None] = lambda event: None,
        debounce_seconds: float = DEBOUNCE_SECONDS,
        poll_seconds: float = POLL_SECONDS,
        take_over_seconds: float = TAKE_OVER_SECONDS,
        retry_seconds: float = RETRY_SECONDS,
        polling: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sync = sync
        self._settings = settings
        self._on_indexed = on_indexed
        self._on_event = on_event
        self._state: WatchState | None = None
        self._debounce = debounce_seconds
        self._poll = poll_seconds
        self._take_over = take_over_seconds
        self._retry = retry_seconds
        self._polling = settings.watch == "poll" if polling is None else polling
        self._clock = clock
        self._changed: set[Path] = set()
        self._first = self._last = self._retry_at = 0.0
        self._applied = threading.Condition()
        self.problem = ""
        self.ready = threading.Event()  # this process is watching and has caught up

    # --- for callers

    def run(self, stop: threading.Event) -> None:
        if self._settings.watch == "off":
            return
        lock = Lock(self._settings, "watch.lock")
        while not stop.is_set():
            try:
                if not lock.acquire():
                    self._set_state(WatchState.WAITING)
                    stop.wait(self._take_over)
                    continue
                self._watch(stop)
            except (SpecKitMemoryError, OSError, RuntimeError) as error:
                self._failed(error)
                stop.wait(self._retry)
            finally:
                self.ready.clear()
                lock.release()

    def wait_for(self, true: Callable[[], bool], *, seconds: float) -> bool:
        """Wait until a condition holds, checked again after each applied change."""
        deadline = time.monotonic() + seconds
        with self._applied:
            while not true():
                if not self._applied.wait(min(0.5, max(0.0, deadline - time.monotonic()))) and (
                    time.monotonic() >= deadline
                ):
                    return true()
        return True

    def settle(self, *, seconds: float) -> bool:
        """Wait until no change is waiting to be applied."""
        return self.wait_for(lambda: not self._changed and self.ready.is_set(), seconds=seconds)

    # --- watching

    def _watch(self, stop: threading.Event) -> None:
        """Watch by events; where the system provides none, by polling."""
        polling = self._polling
        while not stop.is_set() and not polling:
            try:
                self._wait_for_events(stop)
            except FileNotFoundError:
                stop.wait(TICK_MS / 1000)  # a watched folder was removed: list the folders again
            except (OSError, RuntimeError) as error:
                logger.warning("no file events (%s): looking every %s seconds instead", error, self._poll)
                polling = True
        while not stop.is_set():
            if self._apply(None, stop):
                self._is_ready()
            stop.wait(self._poll)

    def _wait_for_events(self, stop: threading.Event) -> None:
        """Follow events until there are other folders to watch; the caller then starts again."""
        folders = discover.areas(self._settings)
        linked = discover.discover(self._settings, count=False).linked
        loose = self._loose()
        looked_at: float | None = None  # not 0: the monotonic clock may start with the machine, just now
        # Each item is a set of changes, empty at every tick; the first one means that events are being received.
        for changes in self._events({*folders, *linked}, stop):
            before, loose = loose, self._loose()
            self._collect(Path(path) for _, path in changes)
            self._collect(path for path, *_ in set(before).symmetric_difference(loose))
            due = looked_at is None or self._clock() - looked_at > RESCAN_SECONDS
            if due and self._apply(None, stop):
                looked_at = self._clock()
                self._is_ready()
            elif self._changed and self._is_quiet():
                self._apply(self._changed, stop)
            if discover.areas(self._settings) != folders:
                return

    def _events(self, folders: Collection[Path], stop: threading.Event) -> Iterator[set[tuple[Any, str]]]:
        if not folders:
            while not stop.wait(TICK_MS / 1000):
                yield set()
            return
        from watchfiles import watch

        yield from watch(
            *folders,
            watch_filter=None,
            debounce=200,
            step=50,
            rust_timeout=TICK_MS,
            yield_on_timeout=True,
            stop_event=stop,
            debug=False,  # it would print to standard output, which belongs to the protocol
            force_polling=False,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )

    def _loose(self) -> tuple[Signature, ...]:
        """Single files outside the watched folders: replacing one, as editors do, would end its events."""
        single = [self._settings.root / "MEMORY.md", *paths.extra_bases(self._settings)]
        return tuple(signature for path in single if (signature := _signature(path)))

    def _collect(self, paths: Iterable[Path]) -> None:
        relevant = {path for path in paths if not self._is_noise(path)}
        if relevant:
            self._last = self._clock()
            self._first = self._first if self._changed else self._last
            self._changed |= relevant

    def _is_noise(self, path: Path) -> bool:
        if not path.is_relative_to(self._settings.root):
            return discovery_rules.is_passing(path.name)
        segments = path.relative_to(self._settings.root).parts
        hidden = any(discovery_rules.skips(segment) for segment in segments)
        return hidden or (
            discovery_rules.is_passing(path.name) and path.name not in discovery_rules.WALKED_HIDDEN_FOLDERS
        )

    def _is_quiet(self) -> bool:
        now = self._clock()
        return now - self._last >= self._debounce or now - self._first >= LONGEST_SECONDS

    def _apply(self, paths: set[Path] | None, stop: threading.Event) -> bool:
        """Bring these paths into step, or everything; on failure they are tried again later."""
        only = None if paths is None or len(paths) > MANY else sorted(paths)
        if self._clock() < self._retry_at:
            return False
        try:
            report = self._sync.scan(only=only, count=False, cancel=stop.is_set)
        except (SpecKitMemoryError, OSError) as error:
            self._failed(error)
            return False
        with self._applied:
            self._changed.clear()
            self.problem = ""
            self._applied.notify_all()
        if report.changed or (report.bad and only is not None):
            self._on_event(report)
        if report.changed:
            self._on_indexed()
        return True

    def _is_ready(self) -> None:
        self._set_state(WatchState.WATCHING)
        self.ready.set()

    def _set_state(self, state: WatchState) -> None:
        if state is not self._state:
            self._state = state
            self._on_event(state)

    def _failed(self, error: Exception) -> None:
        problem = f"{error.code} {error.message}" if isinstance(error, SpecKitMemoryError) else str(error)
        if problem != self.problem:
            logger.warning("the watcher will try again: %s", problem)
            self._on_event(error)
        self.problem = problem
        self._retry_at = self._clock() + self._retry


def _signature(path: Path) -> Signature | None:
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return None if stat.S_ISDIR(facts.st_mode) else (path, facts.st_size, facts.st_mtime_ns)
