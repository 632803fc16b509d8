"""Which of these names was probably meant? For hints after a typing mistake."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["close_names"]

LONGEST = 80  # characters; difflib takes the square of them, and no name of ours is longer


def close_names(word: str, names: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """The nearest first; `cutoff` is how alike they have to be, 0 to 1."""
    from difflib import get_close_matches

    return get_close_matches(word[:LONGEST], list(names), n=most, cutoff=cutoff)
