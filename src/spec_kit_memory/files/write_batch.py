"""How much does a scan write at once?

Many files in one transaction take two thirds of the time and a quarter of the writing that a
transaction for each takes, but whoever else writes waits meanwhile. So a batch is small, and it is
left when a moment has passed: what remains of it goes into the next transaction.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TypeVar

__all__ = ["BYTES", "FILES", "HOLD_SECONDS", "for_a_moment"]

FILES = 100  # more of them in one transaction are hardly faster
BYTES = 1_000_000  # of text that is read and waits to be written
HOLD_SECONDS = 0.05  # longer ones were felt by searches, which note what they found

Item = TypeVar("Item")


def for_a_moment(queue: deque[Item]) -> Iterator[Item]:
    """Take items from the queue, one at least, for as long as others may be kept waiting."""
    until = time.monotonic() + HOLD_SECONDS
    while queue:
        yield queue.popleft()
        if time.monotonic() >= until:
            return
