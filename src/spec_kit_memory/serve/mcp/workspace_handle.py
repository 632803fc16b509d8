"""When is a server's workspace opened and closed? Opened after the first answer, closed when the server ends.

Opening may fail (an invalid setting, a locked index) and the server still answers: every call
reports the problem and tries again, so no restart is needed once the cause is fixed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from spec_kit_memory.errors import FileMissing

if TYPE_CHECKING:
    from spec_kit_memory.workspace import Workspace

# Lets the first answer and the client's next requests finish before imports compete with them.
WAKE_AFTER_SECONDS = 0.3
# How long running calls may take to finish: when the client has gone, and after a signal to stop.
CLOSING_SECONDS = 5.0
SIGNAL_GRACE_SECONDS = 2.0
PARENT_CHECK_SECONDS = 2.0
STOPPING = tuple(name for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name))


def open_at(workspace: str | None, flags: Mapping[str, object], *, personal: bool = False) -> Workspace:
    """Open the workspace. `personal` includes the user's own vault: only for servers for the user of this machine."""
    from spec_kit_memory import settings
    from spec_kit_memory.workspace import Workspace

    return Workspace(settings.load(settings.find_root(workspace=workspace), overrides=flags), personal=personal)


def must_exist(workspace: Workspace) -> None:
    """Raise if the workspace's folder is gone: answers from the deleted index would be wrong."""
    root = workspace.settings.root
    if not root.is_dir():
        raise FileMissing(f"The workspace {str(root)!r} is gone.", hint="Bring it back, or stop this server.")


class LiveWorkspace:
    """One workspace for all calls of a server; `use` is safe from any thread.

    `check` runs before each call; if it raises, the workspace is closed, and opened again by the next call.
    """

    def __init__(
        self,
        opener: Callable[[], Workspace],
        *,
        check: Callable[[Workspace], None] = lambda workspace: None,
        background: bool = True,
    ) -> None:
        self._open = opener
        self._check = check
        self._background = background
        self._workspace: Workspace | None = None
        self._opening = threading.Lock()
        self._idle = threading.Condition()
        self._calls = 0
        self._woken = False
        self._closed = False

    @contextmanager
    def use(self) -> Iterator[Workspace]:
        """The workspace, opened if necessary, and not closed while in use."""
        with self._idle:
            self._calls += 1
        try:
            yield self._get()
        finally:
            with self._idle:
                self._calls -= 1
                self._idle.notify_all()

    def _get(self) -> Workspace:
        with self._opening:
            if self._workspace is None:
                workspace = self._open()
                if self._background:
                    workspace.start_background()
                self._workspace = workspace
            else:
                self._check_open(self._workspace)
            return self._workspace

    def _check_open(self, workspace: Workspace) -> None:
        try:
            self._check(workspace)
        except Exception:
            # Its watcher and embedder would go on writing, and create a deleted folder again.
            self._workspace = None
            workspace.close()
            raise

    def wake_soon(self) -> None:
        """Open in the background, once, after a short delay."""
        if not self._woken:
            self._woken = True
            timer = threading.Timer(WAKE_AFTER_SECONDS, self._wake)
            timer.daemon = True
            timer.start()

    def _wake(self) -> None:
        try:
            with self.use():
                pass
        except Exception as error:  # noqa: BLE001 - the edge: the next call fails again and reports it to the client
            sys.stderr.write(f"spec-kit-memory: not open yet: {error}\n")

    def close(self, *, seconds: float = CLOSING_SECONDS) -> bool:
        """Wait a little for running calls, then close the workspace. True if all calls finished in time."""
        deadline = time.monotonic() + seconds
        with self._idle:
            if self._closed:
                return True
            self._closed = True
            while self._calls and (left := deadline - time.monotonic()) > 0:
                self._idle.wait(left)
            done = not self._calls
        if self._opening.acquire(timeout=max(0.1, deadline - time.monotonic())):
            try:
                if self._workspace is not None:
                    self._workspace.close()
            finally:
                self._opening.release()
        return done


def exit_on_signal(live: LiveWorkspace, *, parent: int | None = None) -> Callable[[], None]:
    """End the process on SIGTERM or Ctrl-C, or when the parent exits; returns a function that ends it too.

    The thread that reads standard input is in a blocking read that cannot be interrupted,
    so the process ends without joining it, after the workspace was closed.
    """
    exiting = threading.Lock()

    def shut_down(seconds: float = CLOSING_SECONDS) -> None:
        if not exiting.acquire(blocking=False):
            return
        closing = threading.Thread(target=live.close, kwargs={"seconds": seconds}, daemon=True)
        closing.start()
        closing.join(seconds + 1)
        os._exit(0)

    def stop(*_: object) -> None:
        if exiting.locked():
            os._exit(0)  # second signal: exit immediately
        # Not in the handler itself, which runs on the main thread: that may hold a lock that closing needs.
        threading.Thread(target=shut_down, args=(SIGNAL_GRACE_SECONDS,), daemon=True).start()

    for name in STOPPING:
        signal.signal(getattr(signal, name), stop)
    if sys.platform != "win32":
        threading.Thread(target=_watch_parent, args=(parent or os.getppid(), shut_down), daemon=True).start()
    return shut_down


def _watch_parent(parent: int, shut_down: Callable[[], None]) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    shut_down()
