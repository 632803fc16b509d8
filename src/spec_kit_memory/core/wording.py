"""How many of what? The one place that knows how English counts."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 memory, 2 memories; with a verb, say both: ("file is", "files are")."""
    return f"{count:,} {one if count == 1 else many or _plural(one)}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
