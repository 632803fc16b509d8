"""What was changed, and can it be verified? History and ledger."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from spec_kit_memory import answer_json
from spec_kit_memory.advice import Text, advise, finding, outcome
from spec_kit_memory.answers import HistoryAnswer, LedgerAnswer, LedgerState
from spec_kit_memory.core import ledger as chain
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import HistoryEntry, LedgerEntry
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.requests import HistoryRequest, LedgerVerifyRequest

_FOR_UNDO = "kept"  # what only the undo of a restore needs, as the index stores it
_HEAD = re.compile(r"(\d{1,18})\s+([0-9a-fA-F]{64})")


def history(runtime: Runtime, request: HistoryRequest) -> HistoryAnswer:
    """Changes, newest first; without an id the ledger is verified too."""
    memory_id = request.id
    folder = clean_folder(request.spec_folder) if request.spec_folder else None
    entries = runtime.store.record.history(
        memory_id, spec_folder=folder, limit=request.limit if request.latest else None
    )
    counts = Counter(entry.event.value for entry in entries)
    totals = {"total": len(entries), "adds": counts["ADD"], "updates": counts["UPDATE"], "deletes": counts["DELETE"]}
    differences = [_difference(entry) for entry in entries[: request.limit]]
    fitting = answer_json.first_that_fit(differences, max_tokens=request.max_tokens)
    left = len(differences) - len(fitting)
    cut = (advise("older-changes", count=left),) if left else ()
    if memory_id is not None:
        changes = outcome("changes-of-memory", count=len(entries), id=memory_id)
    elif folder:
        changes = outcome("changes-of-folder", count=len(entries), folder=folder)
    else:
        changes = outcome("changes-of-workspace", count=len(entries))
    return HistoryAnswer(
        outcome=outcome("the-last", outcome=changes) if request.latest else changes,
        advice=cut if entries else _when_nothing(runtime, memory_id, folder),
        entries=tuple(fitting),
        counts=totals,
        ledger=_verified(runtime) if memory_id is None and not request.latest else LedgerState(),
        titles={
            memory.id: memory.title for memory in runtime.store.documents.many(list({row.memory_id for row in fitting}))
        }
        if request.titles
        else {},
    )


def _when_nothing(runtime: Runtime, memory_id: int | None, folder: str | None) -> tuple[Text, ...]:
    if memory_id is not None:
        return (advise("nothing-recorded"),)
    return (runtime.folder_suggestions(folder),) if folder else ()


def _difference(entry: HistoryEntry) -> HistoryEntry:
    """The entry with only the fields that changed; a created or deleted memory keeps all non-empty fields."""
    before, after = entry.before, entry.after
    if before is not None and after is not None:
        changed = [name for name in {**before, **after} if before.get(name) != after.get(name) and name != _FOR_UNDO]
        before = {name: before[name] for name in changed if name in before}
        after = {name: after[name] for name in changed if name in after}
    return replace(entry, before=_without_empty_fields(before), after=_without_empty_fields(after))


def _without_empty_fields(state: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """The state without empty fields."""
    if state is None:
        return None
    return {name: value for name, value in state.items() if value not in (None, "", (), [], {}, False)}


def _verified(runtime: Runtime) -> LedgerState:
    answer = ledger_verify(runtime, LedgerVerifyRequest())
    return LedgerState(ok=answer.ok, entries=answer.entries, head=answer.head, broken_at=answer.broken_at)


def ledger_verify(runtime: Runtime, request: LedgerVerifyRequest) -> LedgerAnswer:
    """Verify the whole chain for any caller: sequences and hashes reveal nothing about the entries."""
    heads = _heads(request.head) if request.head else {}
    tally = _Tally(heads)
    newest = runtime.whole.record.history(limit=1)  # before the ledger: another process may add to both meanwhile
    broken = chain.verify(tally.through(runtime.whole.record.ledger())) or tally.compare(heads) or tally.reaches(newest)
    if broken:
        verdict = outcome("ledger-broken", sequence=broken.sequence, reason=broken.reason)
    else:
        code = "ledger-holds" if not heads else "ledger-holds-head" if len(heads) == 1 else "ledger-holds-heads"
        verdict = outcome(code, count=tally.entries)
    return LedgerAnswer(
        outcome=verdict,
        ok=broken is None,
        entries=tally.entries,
        head=tally.head,
        broken_at=broken.sequence if broken else None,
    )


def _heads(text: str) -> dict[int, str]:
    """Parse lines printed by `ledger head`: hashes by sequence."""
    heads: dict[int, str] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        words = _HEAD.fullmatch(line)
        if words is None:
            raise BadParameter(
                f"{line[:80]!r} is no head of a ledger",
                hint=advise("ledger-head"),
            )
        heads[int(words[1])] = words[2].lower()
    return heads


class _Tally:
    """Counts entries as they stream past, so that the ledger is read once and never held in memory as a whole."""

    def __init__(self, heads: Mapping[int, str]) -> None:
        self.entries = 0
        self.head = chain.GENESIS
        self._cached = {0: chain.GENESIS}
        self._wanted = heads

    def through(self, entries: Iterable[LedgerEntry]) -> Iterator[LedgerEntry]:
        for entry in entries:
            self.entries, self.head = self.entries + 1, entry.hash
            if entry.sequence in self._wanted:
                self._cached[entry.sequence] = entry.hash
            yield entry

    def compare(self, heads: Mapping[int, str]) -> chain.Broken | None:
        """Compare with heads kept elsewhere: a chain that was truncated or rewritten is consistent in itself."""
        for sequence, hash_ in sorted(heads.items()):
            if sequence > self.entries:
                return chain.Broken(self.entries + 1, finding("ledger-cut-off", sequence=sequence))
            if self._cached[sequence] != hash_:
                return chain.Broken(sequence, finding("ledger-rewritten", sequence=sequence))
        return None

    def reaches(self, rows: Iterable[HistoryEntry]) -> chain.Broken | None:
        """Does the chain have the entries that these rows of history belong to?"""
        last = max((row.ledger_sequence or 0 for row in rows), default=0)
        return (
            chain.Broken(self.entries + 1, finding("ledger-ends-early", sequence=last)) if last > self.entries else None
        )


def ledger_head(runtime: Runtime) -> LedgerAnswer:
    """One line to keep in git: the number of entries and the last one's hash."""
    last = next(runtime.whole.record.ledger(last=True), None)
    sequence, hash_ = (last.sequence, last.hash) if last else (0, chain.GENESIS)
    return LedgerAnswer(
        outcome=outcome("ledger-head-line", sequence=sequence, hash=hash_), ok=True, entries=sequence, head=hash_
    )


def ledger_export(runtime: Runtime) -> Iterator[str]:
    """Each entry as a line of JSON that another program can verify.

    An entry that this session may not see has only its sequence and hashes, so that the chain stays complete.
    """
    own = runtime.store.record.ledger()
    seen = next(own, None)
    for entry in runtime.whole.record.ledger():
        if seen is not None and seen.sequence == entry.sequence:
            yield chain.canonical(chain.fields_of(entry))
            seen = next(own, None)
        else:
            yield chain.canonical({"sequence": entry.sequence, "previous": entry.previous, "hash": entry.hash})
