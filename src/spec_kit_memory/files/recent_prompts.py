"""Which phrases did the last prompts bring up? A short list per scope, for all its processes.

A line for each prompt, added at the end: every prompt pays for it. It only serves to find phrases
that match too much, so losing some of it costs nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from spec_kit_memory.files import disk
from spec_kit_memory.settings import Settings

__all__ = ["add", "read"]

PROMPTS = 100
_MOST_BYTES = 65_536  # then only the last prompts are kept
_FILE = "recent-prompts.jsonl"


def read(settings: Settings) -> list[list[str]]:
    """The matched phrases of each recent prompt, oldest first."""
    return [phrases for line in _lines(_path(settings)) if (phrases := _phrases(line)) is not None]


def _path(settings: Settings) -> Path:
    return settings.state_folder / disk.scoped_name(settings, _FILE)


def _lines(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().splitlines()[-PROMPTS:]
    except OSError:
        return []


def _phrases(line: bytes) -> list[str] | None:
    """None: a line that was cut off, or that somebody else wrote."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return [phrase for phrase in found if isinstance(phrase, str)] if isinstance(found, list) else None


def add(settings: Settings, phrases: Sequence[str]) -> None:
    path = _path(settings)
    try:
        with path.open("ab") as file:
            file.write(json.dumps(list(phrases)).encode() + b"\n")
            full = file.tell() > _MOST_BYTES
        if full:
            fresh = path.with_suffix(".new")
            fresh.write_bytes(b"".join(line + b"\n" for line in _lines(path)))
            os.replace(fresh, path)
    except OSError:
        return
