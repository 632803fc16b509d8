"""How much of a list fits into an answer's token budget? What comes first, and how many are left."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, TypeVar

from spec_kit_memory.answers import RENAMED
from spec_kit_memory.core import tokens

__all__ = ["first_that_fit"]

T = TypeVar("T")

# What an answer says of itself beside its list.
FRAME_TOKENS = 100


def first_that_fit(rows: Sequence[T], *, max_tokens: int, taken: Iterable[Any] = ()) -> Sequence[T]:
    """The first rows within the budget, at least one; `taken` stands in the answer anyway."""
    room = max_tokens - FRAME_TOKENS - sum(map(_tokens, taken))
    for number, row in enumerate(rows):
        room -= _tokens(row)
        if room < 0 and number:
            return rows[:number]
    return rows


def _tokens(row: Any) -> int:
    """As it will stand in the JSON, or a little more: nothing is left out here."""
    return tokens.count(json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=_plain)) + 1


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        # These stand there under their old name, too.
        renamed = [each.name for each in dataclasses.fields(value) if each.metadata.get("names") == RENAMED["names"]]
        return shown | {f"importance_{name}": shown[name] for name in renamed}
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(map(str, value)) if isinstance(value, Set) else str(value)
