"""How many files were written, deleted or recovered, and how often did that fail?

Kept in the state folder, for all processes of a scope together. A failure to count never stops the counted work.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.files import paths
from spec_kit_memory.files.locks import Lock
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings import Settings

_FILE = "transactions.json"
_MOST_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class WriteCounters:
    atomic_writes: int = 0
    deletes: int = 0
    recoveries: int = 0
    errors: int = 0


def read(settings: Settings, *, scope: Scope) -> WriteCounters:
    try:
        return _stored(_place(settings, scope))
    except OSError:
        return WriteCounters()


def _stored(place: Place) -> WriteCounters:
    try:
        fields = json.loads(filesystem.read(place, limit=_MOST_BYTES)[0])
        return WriteCounters(**{name: int(fields.get(name, 0)) for name in asdict(WriteCounters())})
    except (FileNotFoundError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return WriteCounters()


def _place(settings: Settings, scope: Scope) -> Place:
    return paths.state(settings, paths.scoped_name(scope, _FILE))


def count(settings: Settings, *, scope: Scope, **added: int) -> None:
    """Add to the counters; `added` are names of `Counters`."""
    try:
        place = _place(settings, scope)
        with Lock(settings, f"{place.path.stem}.lock") as lock:
            if not lock.wait(seconds=1.0):
                return
            now = asdict(_stored(place))  # if they cannot be read, they are kept as they are
            for name, number in added.items():
                now[name] += number
            fresh = place.sibling(f"{place.path.stem}.new")
            filesystem.rewrite(fresh, json.dumps(now).encode())
            filesystem.move(fresh, place)
    except OSError:
        return
