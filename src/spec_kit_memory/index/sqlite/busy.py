"""How long does a statement wait for other processes? So many seconds, and Ctrl-C ends the wait.

SQLite's own busy timeout sleeps where Python cannot hear a signal: a command that waited for the index could not be
stopped before the wait was over.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import apsw

__all__ = ["wait_at_most"]

# As SQLite's own: short at first, because most others hold the index for a moment only.
_PAUSES = (0.001, 0.002, 0.005, 0.010, 0.015, 0.020, 0.025, 0.025, 0.025, 0.050, 0.050, 0.100)


def wait_at_most(connection: apsw.Connection, seconds: float) -> None:
    """Let every statement of the connection wait so long for others from now on."""
    until = 0.0

    def wait(calls: int) -> bool:
        """Asked by SQLite again and again while another one holds the lock; False gives up."""
        nonlocal until
        now = time.monotonic()
        if calls == 0:
            until = now + seconds
        if now >= until:
            return False
        time.sleep(min(until - now, _PAUSES[min(calls, len(_PAUSES) - 1)]))
        return True

    connection.set_busy_handler(wait)
