"""Which phrases did the last prompts match? A short list per scope, shared by all its processes.

One line is appended per prompt, because every prompt pays for the write. It only serves to find phrases that match too
often, so losing some of it costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.files import paths
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings import Settings

PROMPTS = 100
_MOST_BYTES = 65_536  # beyond this, only the last prompts are kept
_FILE = "recent-prompts.jsonl"


def read(settings: Settings, *, scope: Scope) -> list[list[str]]:
    """The matched phrases of each recent prompt, oldest first."""
    return [phrases for line in _lines(settings, scope) if (phrases := _phrases(line)) is not None]


def _place(settings: Settings, scope: Scope) -> Place:
    return paths.state(settings, paths.scoped_name(scope, _FILE))


def _lines(settings: Settings, scope: Scope) -> list[bytes]:
    try:
        # The last line may exceed the limit before the file is cut.
        return filesystem.read(_place(settings, scope), limit=10 * _MOST_BYTES)[0].splitlines()[-PROMPTS:]
    except OSError:
        return []


def _phrases(line: bytes) -> list[str] | None:
    """None for a line that was cut off or that another program wrote."""
    try:
        phrases = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return [phrase for phrase in phrases if isinstance(phrase, str)] if isinstance(phrases, list) else None


def add(settings: Settings, phrases: Sequence[str], *, scope: Scope) -> None:
    try:
        place = _place(settings, scope)
        if filesystem.append(place, json.dumps(list(phrases)).encode() + b"\n") > _MOST_BYTES:
            fresh = place.sibling(f"{place.path.stem}.new")
            filesystem.rewrite(fresh, b"".join(line + b"\n" for line in _lines(settings, scope)))
            filesystem.move(fresh, place)
    except OSError:
        return
