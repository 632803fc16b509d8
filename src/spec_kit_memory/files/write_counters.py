"""How many files were written, deleted, recovered, and how often did that fail?

Kept in the state folder, for all processes of a scope together. Counting never stops the work that is counted.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from spec_kit_memory.files import disk
from spec_kit_memory.files.locks import Lock
from spec_kit_memory.settings import Settings

__all__ = ["Counters", "count", "read"]

_FILE = "transactions.json"


@dataclass(frozen=True, slots=True)
class Counters:
    atomic_writes: int = 0
    deletes: int = 0
    recoveries: int = 0
    errors: int = 0


def read(settings: Settings) -> Counters:
    try:
        fields = json.loads(_path(settings).read_bytes())
        return Counters(**{name: int(fields.get(name, 0)) for name in asdict(Counters())})
    except (OSError, ValueError, TypeError, AttributeError):
        return Counters()


def _path(settings: Settings) -> Path:
    return settings.state_folder / disk.scoped_name(settings, _FILE)


def count(settings: Settings, **added: int) -> None:
    """Add to the counters; `added` are names of `Counters`."""
    path = _path(settings)
    try:
        with Lock(path.with_suffix(".lock")) as lock:
            if not lock.wait(seconds=1.0):
                return
            now = asdict(read(settings))
            for name, number in added.items():
                now[name] += number
            fresh = path.with_suffix(".new")
            fresh.write_text(json.dumps(now), encoding="utf-8")
            os.replace(fresh, path)
    except OSError:
        return
