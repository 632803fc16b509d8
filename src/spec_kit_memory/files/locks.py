"""Who does a job that only one process of a workspace may do at a time?

Locks are the operating system's own, so that they die with their holder, however it dies.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

__all__ = ["Lock", "holder", "try_lock"]

if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int) -> bool:
        """Lock an open file for its holder alone; False if another one has it."""
        try:
            os.lseek(descriptor, 0x7FFF_0000, os.SEEK_SET)  # far behind any content, which stays readable
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Lock an open file for its holder alone; False if another one has it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Lock:
    """A lock file. It stays on disk; only its lock is taken and given back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._guard = threading.Lock()

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def acquire(self) -> bool:
        """Take the lock if nobody has it; holding it already counts as not taken."""
        with self._guard:
            if self._descriptor is not None:
                return False
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if try_lock(descriptor):
                    _write_holder(descriptor)
                    self._descriptor = descriptor
            finally:
                # An open descriptor that nobody knows of would keep the lock until the process ends.
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
    """Note who has the lock. It is only for `health`, and a lock holds on a full disk too, where this fails."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())


def holder(path: Path) -> int | None:
    """The process that holds a lock file now, for `health`; None if nobody does."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        if try_lock(descriptor):
            return None
        text = os.read(descriptor, 20).decode("ascii", "replace")
        return int(text) if text.isdigit() else None
    finally:
        os.close(descriptor)
