"""How is the length of an answer bounded?

A hostile file can have a hundred thousand mistakes, and a workspace ten thousand such files. Long lists and texts in
answers are truncated: the first items, the beginning of the text, and how much is missing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

# Tried in this order until everything fits: (most entries of each list, most characters of each text).
_STEPS = ((500, 40_000), (200, 10_000), (100, 2_000), (50, 500), (20, 200), (5, 100), (1, 50))


def short(text: str, most: int) -> str:
    """The text, cut to `most` characters with an ellipsis at the end if it is longer."""
    return text if len(text) <= most else text[: most - 1] + "…"


def fitted(data: Any, *, characters: int) -> tuple[Any, Mapping[str, int]]:
    """JSON data cut to fit in `characters`, and how many list entries and text characters were left out, by name."""
    if _length(data) <= characters:
        return data, {}
    for entries, length in _STEPS:
        left_out: Counter[str] = Counter()
        cut = _cut(data, "", entries, length, left_out)
        if _length(cut) <= characters:
            return cut, left_out
    return None, {"everything": 1}


def _length(data: Any) -> int:
    return len(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def _cut(data: Any, name: str, entries: int, length: int, left_out: Counter[str]) -> Any:
    if isinstance(data, str):
        if len(data) > length:
            left_out[f"characters of {name}"] += len(data) - length + 1
        return short(data, length)
    if isinstance(data, Mapping):
        first_entries = list(data.items())[:entries]
        if len(data) > entries:
            left_out[name or "fields"] += len(data) - entries
        return {short(key, length): _cut(value, key, entries, length, left_out) for key, value in first_entries}
    if isinstance(data, list):
        if len(data) > entries:
            left_out[name] += len(data) - entries
        return [_cut(item, name, entries, length, left_out) for item in data[:entries]]
    return data
