"""Which phrases did the last prompts bring up? A short list for all processes of a workspace.

It only serves to find phrases that match too much, so losing it costs nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from spec_kit_memory.settings import Settings
from spec_kit_memory.vault.locks import Lock

__all__ = ["add", "read"]

PROMPTS = 100
_FILE = "recent-prompts.json"


def read(settings: Settings) -> list[list[str]]:
    """The matched phrases of each recent prompt, oldest first."""
    try:
        found = json.loads((settings.state_folder / _FILE).read_bytes())
    except (OSError, ValueError):
        return []
    if not isinstance(found, list):
        return []
    return [[phrase for phrase in prompt if isinstance(phrase, str)] for prompt in found if isinstance(prompt, list)]


def add(settings: Settings, phrases: Sequence[str]) -> None:
    path = settings.state_folder / _FILE
    try:
        with Lock(path.with_suffix(".lock")) as lock:
            if not lock.wait(seconds=0.2):
                return
            fresh = path.with_suffix(".new")
            fresh.write_text(json.dumps([*read(settings), list(phrases)][-PROMPTS:]), encoding="utf-8")
            os.replace(fresh, path)
    except OSError:
        return
