"""Do the answers of a soak fit one order of events that agrees with the clock?

Every call is noted with the moments at which it began and was answered, all of one clock. Only its owner changes a
memory, one call after the other; everybody reads it. Then, in every process:

- a read that began after a write was acknowledged sees that write or a later one, never an earlier state,
- a read never goes back behind what an earlier read has seen, and never shows what was refused,
- each acknowledged write is in the ledger exactly once, one that was cut off at most once, a refused one not at all,
- of two acknowledged writes, one of which began after the other had been answered, the ledger has the same order.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

__all__ = [
    "ABSENT",
    "DONE",
    "REFUSED",
    "UNKNOWN",
    "History",
    "Mark",
    "Read",
    "Write",
    "check",
    "ledger_marks",
    "mark_of",
]

Mark = tuple[str | int, ...]  # by which a write is known in the ledger, unique in a soak
ABSENT = ""  # the title of a memory that is not found
DONE, REFUSED, UNKNOWN = "done", "refused", "unknown"


@dataclass(frozen=True, slots=True)
class Write:
    """One call that changes something; `title` is what a read of that memory shows from then on, None: the same."""

    actor: str
    memory: str
    began: float
    ended: float
    outcome: str
    mark: Mark | None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """What a process was told about a memory: its title, or that it is not there."""

    actor: str
    memory: str
    began: float
    ended: float
    title: str


@dataclass
class History:
    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, call: Write | Read) -> None:
        with self._guard:
            self.writes.append(call) if isinstance(call, Write) else self.reads.append(call)

    def summary(self) -> dict[str, int]:
        outcomes = Counter(write.outcome for write in self.writes)
        owners = {write.memory: write.actor for write in self.writes}
        return {
            "writes acknowledged": outcomes[DONE],
            "writes refused": outcomes[REFUSED],
            "writes cut off": outcomes[UNKNOWN],
            "reads": len(self.reads),
            "reads of what another process wrote": sum(owners.get(read.memory) != read.actor for read in self.reads),
            "pairs of writes ordered by the clock": sum(_earlier_writes(self.writes)),
        }


def check(history: History, marks: Mapping[Mark, Sequence[int]]) -> list[str]:
    """Everything that fits no such order, in words. `marks`: where in the ledger each write stands."""
    return [*_recency(history), *_once(history.writes, marks), *_ledger_order(history.writes, marks)]


# --- reads against writes ------------------------------------------------------------------


def _recency(history: History) -> Iterator[str]:
    writes: dict[str, list[Write]] = {}
    reads: dict[str, list[Read]] = {}
    for write in history.writes:
        if write.title is not None:
            writes.setdefault(write.memory, []).append(write)
    for read in history.reads:
        reads.setdefault(read.memory, []).append(read)
    for memory, of_memory in reads.items():
        yield from _of_one(memory, sorted(writes.get(memory, ()), key=lambda write: write.began), of_memory)


def _of_one(memory: str, writes: Sequence[Write], reads: Sequence[Read]) -> Iterator[str]:
    """A register with one writer: which of its values may each read show?"""
    taking = [write for write in writes if write.outcome != REFUSED]
    numbers = {write.title: number for number, write in enumerate(taking)}
    acknowledged = [(write.ended, number) for number, write in enumerate(taking) if write.outcome == DONE]
    seen: list[tuple[float, int]] = []  # when a read had ended, and what it saw
    for read in sorted(reads, key=lambda read: read.ended):
        number = -1 if read.title == ABSENT and ABSENT not in numbers else numbers.get(read.title)
        text = f"{read.actor} read {memory} as {read.title or 'not there'!r}"
        if number is None:
            yield f"{text}, which was refused or never written"
            continue
        if number >= 0 and taking[number].began > read.ended:
            yield f"{text} before that was written"
        newest = max((at for ended, at in acknowledged if ended < read.began), default=-1)
        if newest > number:
            yield f"{text} after {taking[newest].title or 'its delete'!r} had been acknowledged"
        furthest = max((at for ended, at in seen if ended < read.began), default=-1)
        if furthest > number:
            yield f"{text} after another read had seen {taking[furthest].title or 'its delete'!r}"
        seen.append((read.ended, number))


# --- writes against the ledger ------------------------------------------------------------------


def _once(writes: Sequence[Write], marks: Mapping[Mark, Sequence[int]]) -> Iterator[str]:
    for write in writes:
        if write.mark is None:
            continue
        count = len(marks.get(write.mark, ()))
        # A refused save keeps its text, and the next scan takes that in.
        most = 0 if write.outcome == REFUSED and write.mark[0] != "create" else 1
        least = 1 if write.outcome == DONE else 0
        if not least <= count <= most:
            yield f"{write.mark} was {write.outcome} and is in the ledger {count} times"


def _ledger_order(writes: Sequence[Write], marks: Mapping[Mark, Sequence[int]]) -> Iterator[str]:
    placed = [
        (write, marks[write.mark][0])
        for write in writes
        if write.outcome == DONE and write.mark is not None and marks.get(write.mark)
    ]
    by_end = sorted(placed, key=lambda one: one[0].ended)
    ends = [write.ended for write, _ in by_end]
    furthest: list[tuple[Write, int]] = []
    for item in by_end:
        furthest.append(item if not furthest or item[1] > furthest[-1][1] else furthest[-1])
    for write, sequence in placed:
        before = bisect_left(ends, write.began)
        if before and furthest[before - 1][1] > sequence:
            earlier, larger = furthest[before - 1]
            yield f"{earlier.mark} was acknowledged before {write.mark} began, but is entry {larger}, after {sequence}"


def _earlier_writes(writes: Sequence[Write]) -> Iterator[int]:
    """For each acknowledged write how many others were acknowledged before it began."""
    done = [write for write in writes if write.outcome == DONE and write.mark is not None]
    ends = sorted(write.ended for write in done)
    return (bisect_left(ends, write.began) for write in done)


def ledger_marks(connection: apsw.Connection) -> dict[Mark, list[int]]:
    """Where each change stands in the ledger, by what makes it unique."""
    marks: dict[Mark, list[int]] = {}
    sql = (
        "SELECT l.sequence, l.memory_ids, l.operation, h.after FROM ledger l"
        " LEFT JOIN history h ON h.ledger_sequence = l.sequence ORDER BY l.sequence"
    )
    for sequence, ids, operation, after in connection.execute(sql):
        mark = mark_of(json.loads(ids), json.loads(operation or "{}"), json.loads(after or "{}"))
        if mark is not None:
            marks.setdefault(mark, []).append(sequence)
    return marks


def mark_of(memory_ids: Sequence[int], did: Mapping[str, Any], state: Mapping[str, Any]) -> Mark | None:
    """By what a change is known: its operation, and the memory's state after it."""
    match did.get("kind"):
        case "create":
            return ("create", state.get("title", ""))
        case "update":
            return ("update", did.get("values", {}).get("title", ""))
        case "validate":
            return ("validate", memory_ids[0], state.get("validation_count", 0))
        case "delete":
            return ("delete", memory_ids[0])
        case "link":
            return ("link", did["source_id"], did["target_id"])
    return None
