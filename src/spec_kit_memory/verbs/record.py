"""What happened, and can it be proved? History and ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from spec_kit_memory.answers import HistoryAnswer, LedgerAnswer
from spec_kit_memory.core import ledger as chain
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import LedgerEntry
from spec_kit_memory.verbs.wiring import Wiring


def history(
    wiring: Wiring, *, memory_id: int | None = None, spec_folder: str | None = None, limit: int = 50
) -> HistoryAnswer:
    """Changes, newest first; without an id the ledger is verified too."""
    folder = clean_folder(spec_folder) if spec_folder else None
    entries = wiring.store.history(memory_id, spec_folder=folder)
    counts = Counter(entry.event.value for entry in entries)
    totals = {"total": len(entries), "adds": counts["ADD"], "updates": counts["UPDATE"], "deletes": counts["DELETE"]}
    whose = f"memory {memory_id}" if memory_id is not None else f"spec folder {folder}" if folder else "the workspace"
    return HistoryAnswer(
        summary=f"{len(entries)} changes of {whose}",
        hints=() if entries else ("nothing is recorded; check the id with skm list",),
        entries=tuple(entries[:limit]),
        counts=totals,
        ledger=_verified(wiring) if memory_id is None else {},
    )


def _verified(wiring: Wiring) -> dict[str, Any]:
    answer = ledger_verify(wiring)
    return {"ok": answer.ok, "entries": answer.entries, "head": answer.head, "brokenAt": answer.broken_at}


def ledger_verify(wiring: Wiring) -> LedgerAnswer:
    seen = _Tally()
    if wiring.isolated:
        return _own_part(wiring)
    broken = chain.verify(seen.through(wiring.whole.ledger()))
    said = f"the chain breaks at entry {broken.sequence}: {broken.reason}" if broken else "every link holds"
    return LedgerAnswer(
        summary=f"{seen.entries} entries, {said}",
        ok=broken is None,
        entries=seen.entries,
        head=seen.head,
        broken_at=broken.sequence if broken else None,
    )


def _own_part(wiring: Wiring) -> LedgerAnswer:
    """A chain is checked as a whole, but an isolated session hears of its own entries only."""
    broken = chain.verify(wiring.whole.ledger())
    own = _Tally()
    for _ in own.through(wiring.store.ledger()):
        pass
    said = "the chain is broken" if broken else "every link holds"
    return LedgerAnswer(summary=f"{own.entries} entries, {said}", ok=not broken, entries=own.entries, head=own.head)


class _Tally:
    """Counts entries on their way, so that the ledger is read once and never held as a whole."""

    def __init__(self) -> None:
        self.entries = 0
        self.head = chain.GENESIS

    def through(self, entries: Iterable[LedgerEntry]) -> Iterator[LedgerEntry]:
        for entry in entries:
            self.entries, self.head = self.entries + 1, entry.hash
            yield entry


def ledger_head(wiring: Wiring) -> LedgerAnswer:
    """One line to keep in git: how many entries there are, and the last one's hash."""
    if wiring.isolated:
        own = _own_part(wiring)
        return LedgerAnswer(summary=f"{own.entries} {own.head}", ok=own.ok, entries=own.entries, head=own.head)
    last = wiring.whole.ledger_head()
    sequence, hash_ = (last.sequence, last.hash) if last else (0, chain.GENESIS)
    return LedgerAnswer(summary=f"{sequence} {hash_}", ok=True, entries=sequence, head=hash_)


def ledger_export(wiring: Wiring) -> Iterator[str]:
    """Each entry as a line of JSON that another program can verify."""
    entries = wiring.store if wiring.isolated else wiring.whole
    for entry in entries.ledger():
        yield chain.canonical(chain.fields_of(entry))
