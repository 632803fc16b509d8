"""Which phrases did the last prompts bring up? A short list per scope, for all its processes.

A line for each prompt, added at the end: every prompt pays for it. It only serves to find phrases
that match too much, so losing some of it costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.files import paths
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings import Settings

__all__ = ["add", "read"]

PROMPTS = 100
_MOST_BYTES = 65_536  # then only the last prompts are kept
_FILE = "recent-prompts.jsonl"


def read(settings: Settings, *, scope: Scope) -> list[list[str]]:
    """The matched phrases of each recent prompt, oldest first."""
    return [phrases for line in _lines(settings, scope) if (phrases := _phrases(line)) is not None]


def _place(settings: Settings, scope: Scope) -> Place:
    return paths.state(settings, paths.scoped_name(scope, _FILE))


def _lines(settings: Settings, scope: Scope) -> list[bytes]:
    try:
        # One line may go beyond the limit before the others are dropped.
        return filesystem.read(_place(settings, scope), limit=10 * _MOST_BYTES)[0].splitlines()[-PROMPTS:]
    except OSError:
        return []


def _phrases(line: bytes) -> list[str] | None:
    """None: a line that was cut off, or that somebody else wrote."""
    try:
        phrases = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return [phrase for phrase in phrases if isinstance(phrase, str)] if isinstance(phrases, list) else None


def add(settings: Settings, phrases: Sequence[str], *, scope: Scope) -> None:
    try:
        place = _place(settings, scope)
        if filesystem.append(place, json.dumps(list(phrases)).encode() + b"\n") > _MOST_BYTES:
            fresh = place.beside(f"{place.path.stem}.new")
            filesystem.rewrite(fresh, b"".join(line + b"\n" for line in _lines(settings, scope)))
            filesystem.move(fresh, place)
    except OSError:
        return
