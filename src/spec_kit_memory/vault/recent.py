"""Which phrases did the last prompts bring up? A short list per scope, for all its processes.

It only serves to find phrases that match too much, so losing it costs nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from spec_kit_memory.settings import Settings
from spec_kit_memory.vault import files
from spec_kit_memory.vault.locks import Lock

__all__ = ["add", "read"]

PROMPTS = 100
_FILE = "recent-prompts.json"


def read(settings: Settings) -> list[list[str]]:
    """The matched phrases of each recent prompt, oldest first."""
    try:
        found = json.loads(_path(settings).read_bytes())
    except (OSError, ValueError):
        return []
    if not isinstance(found, list):
        return []
    return [[phrase for phrase in prompt if isinstance(phrase, str)] for prompt in found if isinstance(prompt, list)]


def _path(settings: Settings) -> Path:
    return settings.state_folder / files.scoped_name(settings, _FILE)


def add(settings: Settings, phrases: Sequence[str]) -> None:
    path = _path(settings)
    try:
        with Lock(path.with_suffix(".lock")) as lock:
            if not lock.wait(seconds=0.2):
                return
            fresh = path.with_suffix(".new")
            fresh.write_text(json.dumps([*read(settings), list(phrases)][-PROMPTS:]), encoding="utf-8")
            os.replace(fresh, path)
    except OSError:
        return
