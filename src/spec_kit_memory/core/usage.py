"""How does use raise a memory's score?

Access counts and their boost, the accumulator that batches them, and the arithmetic of
validation. Confidence is decimal, so that 0.5 + 4 × 0.1 is exactly 0.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from threading import Lock

_USEFUL = Decimal("0.1")
_NOT_USEFUL = Decimal("0.05")
_PROMOTE_CONFIDENCE = Decimal("0.9")
_PROMOTE_COUNT = 5

_PER_ACCESS = 0.02
_MOST = 0.2
_FRESH = ((timedelta(hours=1), 2.0), (timedelta(days=1), 1.5))


def boost(count: float, last_access: datetime | None, now: datetime) -> float:
    """The share of a score that use adds to it: at most 0.2, or 0.4 within an hour of the last use."""
    plain = min(_MOST, _PER_ACCESS * max(0.0, count))
    if last_access is None:
        return plain
    return plain * next((times for within, times in _FRESH if now - last_access <= within), 1.0)


def validated(confidence: Decimal, useful: bool) -> Decimal:
    """The confidence after one more validation, limited to 0 to 1."""
    moved = confidence + _USEFUL if useful else confidence - _NOT_USEFUL
    return min(Decimal(1), max(Decimal(0), moved))


def promotable(count: int, confidence: Decimal) -> bool:
    """May this memory be offered the tier critical?"""
    return count >= _PROMOTE_COUNT and confidence >= _PROMOTE_CONFIDENCE


class Accumulator:
    """Counts accesses until they are written to the index.

    A memory is due after `due_tenths` accesses, everything is due when the oldest count has waited
    `wait`, and `drain` returns the rest at the end. Safe to share between threads.
    """

    def __init__(self, *, due_tenths: int = 5, wait: timedelta = timedelta(seconds=5)) -> None:
        self._due_tenths = due_tenths
        self._wait = wait
        self._counts: dict[int, int] = {}
        self._since: datetime | None = None
        self._lock = Lock()

    def add(self, memory_id: int, *, at: datetime, count: int = 1) -> dict[int, float]:
        """Count an access; returns the counts per memory that are due to be written now."""
        with self._lock:
            self._since = self._since or at
            self._counts[memory_id] = self._counts.get(memory_id, 0) + count
            if at - self._since >= self._wait:
                return self._take()
            if self._counts[memory_id] < self._due_tenths:
                return {}
            due = {memory_id: float(self._counts.pop(memory_id))}
            self._since = self._since if self._counts else None
            return due

    def put_back(self, counts: Mapping[int, float], *, at: datetime) -> None:
        """Return counts that were due but could not be written; they are due again later."""
        with self._lock:
            self._since = self._since or at
            for memory_id, count in counts.items():
                self._counts[memory_id] = self._counts.get(memory_id, 0) + round(count)

    def due(self, at: datetime) -> dict[int, float]:
        """The counts that have waited long enough, for periodic calls."""
        with self._lock:
            return self._take() if self._since is not None and at - self._since >= self._wait else {}

    def drain(self) -> dict[int, float]:
        """All remaining counts, to be written when the process ends."""
        with self._lock:
            return self._take()

    def pending(self, memory_id: int) -> int:
        return self._counts.get(memory_id, 0)

    def _take(self) -> dict[int, float]:
        counts = {memory_id: float(count) for memory_id, count in self._counts.items()}
        self._counts.clear()
        self._since = None
        return counts
