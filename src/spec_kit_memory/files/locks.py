"""Which process of a workspace does a job that only one may do at a time?

Locks are the operating system's own, so that they die with their holder, however it dies.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from types import TracebackType

from spec_kit_memory import filesystem
from spec_kit_memory.files import paths
from spec_kit_memory.filesystem import try_lock
from spec_kit_memory.settings import Settings


class Lock:
    """A lock file in the state folder. The file stays on disk; its lock is acquired and released."""

    def __init__(self, settings: Settings, *names: str) -> None:
        self._settings = settings
        self._names = names
        self._descriptor: int | None = None
        self._guard = threading.Lock()

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self) -> bool:
        """Take the lock if it is free; False also if this object holds it already."""
        with self._guard:
            if self._descriptor is not None:
                return False
            descriptor = filesystem.open_lock(paths.state(self._settings, *self._names))
            try:
                if try_lock(descriptor):
                    _write_holder(descriptor)
                    self._descriptor = descriptor
            finally:
                # A leaked descriptor would keep the lock until the process ends.
                if self._descriptor is None:
                    os.close(descriptor)
            return self._descriptor is not None

    def wait(self, *, seconds: float) -> bool:
        """Take the lock, waiting for it at most that long."""
        deadline = time.monotonic() + seconds
        while not self.acquire():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def release(self) -> None:
        with self._guard:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def __enter__(self) -> Lock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _write_holder(descriptor: int) -> None:
    """Note which process has the lock, for `health` only: on a full disk this fails, and the lock still holds."""
    with suppress(OSError):
        filesystem.overwrite(descriptor, str(os.getpid()).encode())


def holder(settings: Settings, *names: str) -> int | None:
    """The process that holds a lock file now, for `health`; None if no process does."""
    try:
        descriptor = filesystem.open_lock(paths.state(settings, *names), make=False)
    except OSError:
        return None
    try:
        if try_lock(descriptor):
            return None
        text = os.read(descriptor, 20).decode("ascii", "replace")
        return int(text) if text.isdigit() else None
    finally:
        os.close(descriptor)
