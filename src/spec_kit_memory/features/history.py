"""What happened, and can it be proved? History and ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from spec_kit_memory.answers import HistoryAnswer, LedgerAnswer
from spec_kit_memory.core import ledger as chain
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import LedgerEntry
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.requests import HistoryRequest


def history(runtime: Runtime, request: HistoryRequest) -> HistoryAnswer:
    """Changes, newest first; without an id the ledger is verified too."""
    memory_id = request.id
    folder = clean_folder(request.spec_folder) if request.spec_folder else None
    entries = runtime.store.history(memory_id, spec_folder=folder)
    counts = Counter(entry.event.value for entry in entries)
    totals = {"total": len(entries), "adds": counts["ADD"], "updates": counts["UPDATE"], "deletes": counts["DELETE"]}
    whose = f"memory {memory_id}" if memory_id is not None else f"spec folder {folder}" if folder else "the workspace"
    return HistoryAnswer(
        summary=f"{len(entries)} changes of {whose}",
        hints=() if entries else ("nothing is recorded; check the id with skm list",),
        entries=tuple(entries[: request.limit]),
        counts=totals,
        ledger=_verified(runtime) if memory_id is None else {},
    )


def _verified(runtime: Runtime) -> dict[str, Any]:
    answer = ledger_verify(runtime)
    return {"ok": answer.ok, "entries": answer.entries, "head": answer.head, "brokenAt": answer.broken_at}


def ledger_verify(runtime: Runtime) -> LedgerAnswer:
    seen = _Tally()
    if runtime.isolated:
        return _own_part(runtime)
    broken = chain.verify(seen.through(runtime.whole.ledger()))
    said = f"the chain breaks at entry {broken.sequence}: {broken.reason}" if broken else "every link holds"
    return LedgerAnswer(
        summary=f"{seen.entries} entries, {said}",
        ok=broken is None,
        entries=seen.entries,
        head=seen.head,
        broken_at=broken.sequence if broken else None,
    )


def _own_part(runtime: Runtime) -> LedgerAnswer:
    """A chain is checked as a whole, but an isolated session hears of its own entries only."""
    broken = chain.verify(runtime.whole.ledger())
    own = _Tally()
    for _ in own.through(runtime.store.ledger()):
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


def ledger_head(runtime: Runtime) -> LedgerAnswer:
    """One line to keep in git: how many entries there are, and the last one's hash."""
    if runtime.isolated:
        own = _own_part(runtime)
        return LedgerAnswer(summary=f"{own.entries} {own.head}", ok=own.ok, entries=own.entries, head=own.head)
    last = runtime.whole.ledger_head()
    sequence, hash_ = (last.sequence, last.hash) if last else (0, chain.GENESIS)
    return LedgerAnswer(summary=f"{sequence} {hash_}", ok=True, entries=sequence, head=hash_)


def ledger_export(runtime: Runtime) -> Iterator[str]:
    """Each entry as a line of JSON that another program can verify."""
    entries = runtime.store if runtime.isolated else runtime.whole
    for entry in entries.ledger():
        yield chain.canonical(chain.fields_of(entry))
