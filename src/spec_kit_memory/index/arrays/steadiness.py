"""May a thread use its arrays as they are, or must it ask the engine for changes? Once per search is enough.

A search reads the arrays and cached rows some twenty times, and checking for changes took as long as the search itself.
In a `hold` block, this thread's reads return the state at its beginning or a later one. This never makes cached data
older, because anything that is read meanwhile is newer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spec_kit_memory.index.arrays.matching import Arrays
    from spec_kit_memory.index.arrays.row_cache import RowCache


class Steadiness(threading.local):
    def __init__(self) -> None:
        self.held = False
        self.generation: int | None = None  # of the index when the block began
        self.frozen: tuple[Arrays, RowCache] | None = None  # of one snapshot, for this thread alone

    @contextmanager
    def hold(self, bring_up_to_date: Callable[[], int]) -> Iterator[None]:
        """`bring_up_to_date` refreshes arrays and caches and returns their generation."""
        if self.held:
            yield
            return
        self.held, self.generation = True, bring_up_to_date()
        try:
            yield
        finally:
            self.held, self.generation = False, None

    def hold_anew(self, bring_up_to_date: Callable[[], int]) -> None:
        self.held = False
        try:
            self.generation = bring_up_to_date()
        finally:
            self.held = True

    @contextmanager
    def freeze(self, generation: int, arrays: Arrays, row_cache: RowCache) -> Iterator[None]:
        """In this block of a `hold`, this thread reads these, which are of the snapshot in which it reads the rest."""
        before = self.generation
        self.generation, self.frozen = generation, (arrays, row_cache)
        try:
            yield
        finally:
            self.generation, self.frozen = before, None
