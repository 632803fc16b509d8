"""Which spec folder is meant? Names as callers write them."""

from __future__ import annotations

_PREFIXES = (".opencode/specs/", "specs/")


def clean_folder(name: str) -> str:
    """The name below specs/: a leading specs/ or .opencode/specs/ is accepted everywhere."""
    cleaned = name.replace("\\", "/").strip().removeprefix("./").strip("/")
    for prefix in _PREFIXES:
        if cleaned.startswith(prefix):
            return cleaned[len(prefix) :]
    return cleaned
