"""How much does a scan write at once?

Many files in one transaction take two thirds of the time and a quarter of the disk writes of a transaction for each,
but other writers wait meanwhile. So a batch is small and ends after a moment; the rest of it goes into the next
transaction.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TypeVar

FILES = 100  # more of them in one transaction are hardly faster
BYTES = 1_000_000  # of text that is read and waits to be written
HOLD_SECONDS = 0.05  # longer ones noticeably delayed searches, which record their results

Item = TypeVar("Item")


def for_a_moment(queue: deque[Item]) -> Iterator[Item]:
    """Take items from the queue, at least one, for as long as other writers may wait."""
    until = time.monotonic() + HOLD_SECONDS
    while queue:
        yield queue.popleft()
        if time.monotonic() >= until:
            return
