"""Which of these names was probably meant? For hints after a typing mistake."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 80  # characters; difflib's time grows with their square, and none of our names is longer


def close_names(word: str, names: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """The closest names, best first; `cutoff` is the least similarity, 0 to 1."""
    from difflib import get_close_matches

    return get_close_matches(word[:LONGEST], list(names), n=most, cutoff=cutoff)
