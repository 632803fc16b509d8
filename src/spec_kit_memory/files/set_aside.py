"""Which findings did a person review and decide to ignore? Their keys, in one file per scope.

A key contains the hash of the texts concerned, so a finding is shown again once they change.
"""

from __future__ import annotations

import json

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.files import paths
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings import Settings

_FILE = "set-aside.jsonl"
_MOST_BYTES = 1_000_000
_MOST_KEYS = 5_000


def read(settings: Settings, *, scope: Scope) -> frozenset[str]:
    try:
        lines = filesystem.read(_place(settings, scope), limit=10 * _MOST_BYTES)[0].splitlines()
    except OSError:
        return frozenset()
    keys: dict[str, None] = {}
    for line in lines:
        try:
            key, aside = json.loads(line)
        except (ValueError, TypeError, RecursionError):
            continue  # cut off, or written by another program
        if aside:
            keys[str(key)] = None
        else:
            keys.pop(str(key), None)
    return frozenset(keys)


def put(settings: Settings, key: str, *, aside: bool, scope: Scope) -> None:
    place = _place(settings, scope)
    if filesystem.append(place, _line(key, aside), synced=True) > _MOST_BYTES:
        fresh = place.sibling(f"{place.path.stem}.new")
        filesystem.rewrite(
            fresh, b"".join(_line(key, True) for key in sorted(read(settings, scope=scope))[-_MOST_KEYS:])
        )
        filesystem.move(fresh, place)


def _line(key: str, aside: bool) -> bytes:
    return json.dumps([key, aside]).encode() + b"\n"


def _place(settings: Settings, scope: Scope) -> Place:
    return paths.state(settings, paths.scoped_name(scope, _FILE))
