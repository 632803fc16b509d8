"""How much longer will embedding take? Judged by its pace so far, once enough of the work is done."""

from __future__ import annotations

from spec_kit_memory.advice import Advice, outcome

# After so many passages and seconds, the pace is known well enough for an estimate.
LEAST_STEPS, LEAST_SECONDS = 128, 5.0


class Pace:
    """The course of the work. `at` is in seconds, by any clock that only goes forward."""

    def __init__(self) -> None:
        self._started = 0.0
        self._first = 0  # how much was done when the first step was reported
        self._done = self._total = 0

    def step(self, done: int, total: int, *, at: float) -> None:
        if not self._total:
            self._started, self._first = at, done
        self._done, self._total = done, total

    def to_go(self, *, at: float) -> Advice | None:
        done, seconds = self._done - self._first, at - self._started
        left = self._total - self._done
        if left <= 0 or done < LEAST_STEPS or seconds < LEAST_SECONDS:
            return None
        minutes = left * seconds / done / 60
        time_left = outcome("minutes-left", count=round(minutes)) if minutes >= 1 else outcome("under-a-minute-left")
        return outcome("making-vectors-until", done=f"{self._done:,}", total=self._total, left=time_left)
