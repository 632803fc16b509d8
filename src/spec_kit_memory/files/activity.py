"""How was the workspace used, day by day? Uses of each memory, and what was sent to sessions, by verb.

All processes append lines to one file per scope. When it has grown long, the lines of each day are summed, one per
key, and old days are dropped. The figures are informational only: losing some of them costs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import EVERYWHERE, Scope
from spec_kit_memory.files import paths
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings import Settings

USE, SENT = "use", "sent"
KEPT_DAYS = 366
_MOST_BYTES = 1_000_000  # then it is compacted; a year of daily use of a few hundred memories stays below
_MOST_ROWS = 10_000
_LARGEST = 1e12  # for any number in a line; no real count comes near it
_FILE = "activity.jsonl"


@dataclass(frozen=True, slots=True)
class DayTally:
    """How often something happened on a day (in UTC), and how many tokens it took."""

    day: date
    kind: str  # USE: `key` is a memory's id; SENT: a verb
    key: str
    count: float
    tokens: int = 0


def add(settings: Settings, tallies: Iterable[DayTally], *, now: datetime, scope: Scope = EVERYWHERE) -> None:
    """Uses are counted for all callers together; what was sent is counted per scope."""
    lines = b"".join(_line(tally) for tally in tallies)
    if not lines:
        return
    try:
        place = _place(settings, scope)
        if filesystem.append(place, lines) > _MOST_BYTES:
            since = now.date() - timedelta(days=KEPT_DAYS)
            summed = [tally for tally in read(settings, scope=scope) if tally.day >= since][-_MOST_ROWS:]
            fresh = place.sibling(f"{place.path.stem}.new")
            filesystem.rewrite(fresh, b"".join(map(_line, summed)))
            filesystem.move(fresh, place)
    except OSError:
        return


def read(settings: Settings, *, scope: Scope = EVERYWHERE) -> list[DayTally]:
    """The sums of each day, oldest first."""
    try:
        lines = filesystem.read(_place(settings, scope), limit=10 * _MOST_BYTES)[0].splitlines()
    except OSError:
        return []
    sums: dict[tuple[date, str, str], tuple[float, int]] = {}
    for tally in filter(None, map(_tally, lines)):
        key = (tally.day, tally.kind, tally.key)
        count, tokens = sums.get(key, (0.0, 0))
        sums[key] = (count + tally.count, tokens + tally.tokens)
    return [DayTally(*key, *both) for key, both in sorted(sums.items())]


def _place(settings: Settings, scope: Scope) -> Place:
    return paths.state(settings, paths.scoped_name(scope, _FILE))


def _line(tally: DayTally) -> bytes:
    row = [tally.day.isoformat(), tally.kind, tally.key, round(tally.count, 3), tally.tokens]
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


def _tally(line: bytes) -> DayTally | None:
    """None for a line that was cut off or that another program wrote."""
    try:
        day, kind, key, count, tokens = json.loads(line)
        tally = DayTally(date.fromisoformat(day), str(kind), str(key), float(count), int(tokens))
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    return tally if abs(tally.count) < _LARGEST and abs(tally.tokens) < _LARGEST else None
