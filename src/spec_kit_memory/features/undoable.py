"""Which operation is the next to be undone, and what did it do?

The newest come first, without operations that have already been undone and without undo itself. An operation that
affects memories outside the caller's scope cannot be undone by that caller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any

from spec_kit_memory.advice import advise
from spec_kit_memory.core import operation
from spec_kit_memory.core.ledger_operations import operation_of, undone_by
from spec_kit_memory.core.memory import LedgerEntry, Link, Origin, Relation
from spec_kit_memory.core.operation import Operation
from spec_kit_memory.errors import Invalid
from spec_kit_memory.features.runtime import Runtime

_PAGE = 500


@dataclass(frozen=True, slots=True)
class UndoStep:
    """One ledger entry of an operation, with its memory or link before and after."""

    entry: LedgerEntry
    operation: Operation
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def memory_id(self) -> int:
        return self.entry.memory_ids[0]

    @property
    def is_link(self) -> bool:
        return "link" in self.before or "link" in self.after

    @property
    def link_before(self) -> Link | None:
        return _link(self.before.get("link"))

    @property
    def link_after(self) -> Link | None:
        return _link(self.after.get("link"))


@dataclass(frozen=True, slots=True)
class Act:
    """All steps of one operation, oldest first."""

    id: str
    kind: str
    steps: tuple[UndoStep, ...]

    @property
    def first(self) -> UndoStep:
        return self.steps[0]

    @property
    def sequences(self) -> frozenset[int]:
        return frozenset(step.entry.sequence for step in self.steps)

    @property
    def memory_ids(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(step.memory_id for step in self.steps))


def acts(runtime: Runtime, kinds: Collection[str], *, entries: int | None = None) -> Iterator[Act]:
    """The operations of these kinds, newest first; `entries` limits how many ledger entries are read."""
    walk = _Walk(runtime)
    for entry in islice(walk.newest_first(), entries):
        done = operation_of(entry)
        if isinstance(done, operation.Undo):
            walk.undone.add(done.of)
        walk.undone_entries.update(undone_by(entry))
        if isinstance(done, operation.Restore) and not done.id:
            walk.files_of_0_1.append(entry)
        elif done is not None and done.kind in kinds and done.id not in walk.undone | walk.met:
            walk.met.add(done.id)
            act = walk.act(entry, done)
            if act is not None:
                yield act


class _Walk:
    """The state of a walk through the ledger from the newest entry back."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self.undone: set[str] = set()
        self.undone_entries: set[int] = set()  # 0.1 identified undone entries by their sequence
        self.met: set[str] = set()
        self.files_of_0_1: list[LedgerEntry] = []

    def newest_first(self, last: int | None = None) -> Iterator[LedgerEntry]:
        if last is None:
            head = next(self._runtime.whole.record.ledger(last=True), None)
            last = head.sequence if head else 0
        while last > 0:
            after = max(0, last - _PAGE)
            page = [
                entry for entry in self._runtime.whole.record.ledger(after=after, limit=_PAGE) if entry.sequence <= last
            ]
            yield from reversed(page)
            last = after

    def act(self, newest: LedgerEntry, done: Operation) -> Act | None:
        entries = self._of_0_1(newest, done) if newest.version == 1 else self._of(done.id)
        entries = [entry for entry in entries if entry.sequence not in self.undone_entries]
        if not entries or not self._is_ours(entries):
            return None
        rows = {
            row.ledger_sequence: row
            for row in self._runtime.store.record.history(ledger=[ledger_entry.sequence for ledger_entry in entries])
        }
        steps = []
        for entry in entries:
            row = rows.get(entry.sequence)
            if row is None:
                self._runtime.whole.require_valid_values()
                raise Invalid(f"the history of ledger entry {entry.sequence} is missing", hint=advise("health-full"))
            operation_read = operation_of(entry, row.before)
            if operation_read is not None:
                steps.append(UndoStep(entry, replace(operation_read, id=done.id), row.before or {}, row.after or {}))
        return Act(done.id, steps[0].operation.kind, tuple(steps)) if steps else None

    def _of(self, operation_id: str) -> list[LedgerEntry]:
        return list(self._runtime.whole.record.ledger(operation=operation_id))

    def _of_0_1(self, newest: LedgerEntry, done: Operation) -> list[LedgerEntry]:
        """The entries of one call of 0.1. They are close together; those of a folder's delete or a restore name one
        checkpoint."""
        if not isinstance(done, operation.Delete | operation.Restore):
            return [newest]
        entries, strangers = [newest], 0
        for entry in self.newest_first(newest.sequence - 1):
            operation_read = operation_of(entry)
            if operation_read is not None and operation_read.id == done.id:
                entries, strangers = [entry, *entries], 0
            elif (strangers := strangers + 1) == _PAGE:
                break
        if isinstance(done, operation.Restore):
            for entry in reversed(self.files_of_0_1):
                operation_read = operation_of(entry)
                if isinstance(operation_read, operation.Restore) and operation_read.checkpoint == done.checkpoint:
                    entries.append(entry)
            self.files_of_0_1 = [entry for entry in self.files_of_0_1 if entry not in entries]
        return entries

    def _is_ours(self, entries: list[LedgerEntry]) -> bool:
        """Are all of these entries within the caller's scope?"""
        first, last = entries[0].sequence, entries[-1].sequence
        seen = {
            entry.sequence
            for entry in self._runtime.store.record.ledger(after=first - 1, limit=last - first + 1)
            if entry.sequence <= last
        }
        return all(entry.sequence in seen for entry in entries)


def _link(state: Mapping[str, Any] | None) -> Link | None:
    if not state:
        return None
    created_at = state.get("created_at")  # not recorded by 0.1
    return Link(
        id=state["id"],
        source_id=state["source_id"],
        target_id=state["target_id"],
        relation=Relation(state["relation"]),
        strength=state["strength"],
        evidence=state["evidence"],
        origin=Origin(state["origin"]),
        created_at=datetime.fromisoformat(created_at) if created_at else None,
    )
