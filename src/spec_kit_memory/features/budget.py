"""How many rows of a list fit into an answer's token budget?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from spec_kit_memory import answer_json
from spec_kit_memory.core.tokens import BYTES_PER_TOKEN

T = TypeVar("T")

# The fields of an answer besides its list.
FRAME_TOKENS = 100


def first_that_fit(rows: Sequence[T], *, max_tokens: int, already: Iterable[Any] = ()) -> Sequence[T]:
    """The first rows within the budget, at least one; `already` is what the answer contains in any case."""
    room = (max_tokens - FRAME_TOKENS) * BYTES_PER_TOKEN - sum(map(answer_json.size, already))
    for number, row in enumerate(rows):
        room -= answer_json.size(row) + len(",")
        if room < 0 and number:
            return rows[:number]
    return rows
