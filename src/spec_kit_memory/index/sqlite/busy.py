"""How long does a statement wait for other processes? For a given time, and Ctrl-C ends the wait.

SQLite's own busy timeout sleeps outside Python, where no signal is handled: a command that waits for the index could
not be interrupted before the timeout.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import apsw

# The same pauses as SQLite's: short at first, because most processes hold the lock only briefly.
_PAUSES = (0.001, 0.002, 0.005, 0.010, 0.015, 0.020, 0.025, 0.025, 0.025, 0.050, 0.050, 0.100)


def wait_at_most(connection: apsw.Connection, seconds: float) -> None:
    """Set how long each statement of the connection waits for locks of other connections."""
    until = 0.0

    def wait(calls: int) -> bool:
        """Called by SQLite repeatedly while the lock is held elsewhere; False gives up."""
        nonlocal until
        now = time.monotonic()
        if calls == 0:
            until = now + seconds
        if now >= until:
            return False
        time.sleep(min(until - now, _PAUSES[min(calls, len(_PAUSES) - 1)]))
        return True

    connection.set_busy_handler(wait)
