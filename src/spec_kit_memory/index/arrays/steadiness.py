"""May a thread go on with what it has, or must it ask the engine what changed? Once for each search is enough.

A search looks at the arrays and the kept rows some twenty times, and asking took as long as finding. Inside `hold`,
this thread's reads answer by what was there when it began, or later; nothing that is kept becomes older by it, as what
is read meanwhile is only newer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Steadiness"]


class Steadiness(threading.local):
    def __init__(self) -> None:
        self.held = False
        self.generation: int | None = None  # of the index when it began

    @contextmanager
    def hold(self, bring_up_to_date: Callable[[], int]) -> Iterator[None]:
        """`bring_up_to_date` returns the generation."""
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
