"""What was computed from an object that never changes, and that many searches meet again?

Found by the object itself: looking it up by its value would hash all of its texts each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Thing = TypeVar("Thing")
Value = TypeVar("Value")


class KeptByIdentity(Generic[Thing, Value]):
    """Values of the latest objects. Each object is kept with its value, so that its id cannot become another's."""

    def __init__(self, compute: Callable[[Thing], Value], *, most: int) -> None:
        self._compute = compute
        self._most = most
        self._kept: dict[int, tuple[Thing, Value]] = {}

    def __call__(self, thing: Thing) -> Value:
        kept = self._kept.get(id(thing))
        if kept is not None and kept[0] is thing:
            return kept[1]
        value = self._compute(thing)
        if len(self._kept) >= self._most:
            self._kept.clear()
        self._kept[id(thing)] = thing, value
        return value
