"""Which operation is the next to be undone, what did it do, and how are its files and links restored?

The newest come first, without operations that have already been undone and without undo itself. An operation that
affects memories outside the caller's scope cannot be undone by that caller.

The operation says which bytes a file had before and after, by their hash. A file or link is changed only if it is still
as the operation left it: a later edit is never overwritten. A removed file goes to the trash. Nothing is changed here:
the changes of files are planned as steps of `files.file_changes`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice
from typing import Any

from spec_kit_memory import filesystem
from spec_kit_memory.advice import Advice, Text, Value, advise, finding, outcome
from spec_kit_memory.core import operation
from spec_kit_memory.core.ledger_operations import operation_of, undone_by
from spec_kit_memory.core.memory import Change, LedgerEntry, Link, Origin, Presence, Relation
from spec_kit_memory.core.operation import FileChange, Operation
from spec_kit_memory.errors import Invalid
from spec_kit_memory.features import file_restore
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import discover, disk, file_changes, trash
from spec_kit_memory.files.file_changes import Step

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


@dataclass(frozen=True, slots=True)
class FormerFile:
    """A file that an operation changed, and the texts that its memory had before: its bytes may be one of them."""

    file: FileChange
    texts: tuple[str, ...] = ()


def file_obstacle(runtime: Runtime, former: FormerFile) -> Text:
    """Why the file cannot be restored; "" if it can, or has been restored already."""
    file = former.file
    present = _present_bytes(runtime, file)
    if _is_back(file, present):
        return ""
    if _digest(present) != file.after:
        return finding("changed-since" if file.after is not None else "exists-again", path=file.path)
    if not _was_there(file) or _bytes_before(runtime, former) is not None:
        return ""
    return finding("former-text-lost", path=file.path)


def put_files_back(runtime: Runtime, formers: Sequence[FormerFile]) -> list[Step]:
    """Plan the steps that restore these files. Check `file_obstacle` first."""
    drawer = file_changes.drawer(runtime.now())
    steps = [_put_file_back(runtime, former, drawer) for former in _one_for_each_path(formers)]
    return [step for step in steps if step is not None]


def _one_for_each_path(formers: Sequence[FormerFile]) -> list[FormerFile]:
    """One entry per path: a file that was changed twice goes back to its state before the first change."""
    by_path: dict[str, FormerFile] = {}
    for former in formers:
        first = by_path.setdefault(former.file.path, former)
        by_path[former.file.path] = replace(first, file=replace(first.file, after=former.file.after))
    return list(by_path.values())


def edit_file_back(runtime: Runtime, stored: str, edit: Callable[[str], str]) -> list[Step]:
    """Plan an edit of a file whose former bytes cannot be restored as a whole."""
    step = file_changes.rewrite(runtime.settings, stored, edit, scope=runtime.scope)
    return [step] if step else []


def _put_file_back(runtime: Runtime, former: FormerFile, drawer: str) -> Step | None:
    file, present = former.file, _present_bytes(runtime, former.file)
    if _is_back(file, present):
        return None
    if not _was_there(file):
        # An empty spec folder would still be offered.
        return file_changes.discard(runtime.settings, file.path, scope=runtime.scope, to=drawer, prune=True)
    if present is None and file.trash is not None and is_file_in_trash(runtime, file):
        return file_changes.recall(runtime.settings, file.path, scope=runtime.scope, trash_name=file.trash)
    # The replaced text is the one that the operation wrote, so it is recorded.
    data, takes = _bytes_before(runtime, former) or b"", file.trash if present is None else None
    return file_changes.write(runtime.settings, file.path, data, scope=runtime.scope, takes=takes)


def _present_bytes(runtime: Runtime, file: FileChange) -> bytes | None:
    place = discover.file_to_change(runtime.settings, file.path, scope=runtime.scope)
    return disk.read_bytes(place)[0] if filesystem.exists(place) else None


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _was_there(file: FileChange) -> bool:
    return file.before is not None or file.trash is not None


def _is_back(file: FileChange, present: bytes | None) -> bool:
    return _digest(present) == file.before if file.before is not None else not _was_there(file) and present is None


def is_file_in_trash(runtime: Runtime, file: FileChange) -> bool:
    """Is the former file in the trash as a file, and not as a row?"""
    return file.trash is not None and filesystem.exists(trash.trashed(runtime.settings, file.trash))


def _bytes_before(runtime: Runtime, former: FormerFile) -> bytes | None:
    """The file's former bytes, from the trash or else from recorded text with the same hash; 0.1 recorded no hash.

    If the operation removed the file, recorded text with other line ends is better than none.
    """
    file = former.file
    kept = trash.bytes_of(runtime.settings, runtime.whole, file.trash) if file.trash is not None else None
    contents = [] if kept is None else [kept]
    spelled = [file_restore.as_it_was(text, file.before or "") for text in former.texts]
    exact = next((data for data in chain(contents, spelled) if file.before in (None, _digest(data))), None)
    return exact if exact is not None or file.after is not None else next(iter(spelled), None)


@dataclass(frozen=True, slots=True)
class LinkPlan:
    outcome: Advice
    apply: Callable[[Change], object]
    is_hidden: bool = False  # one of its ends is not live yet


def plan_link(runtime: Runtime, step: UndoStep, *, coming_back: frozenset[int] = frozenset()) -> LinkPlan | None:
    """Plan the change; None if the link is no longer as the step left it, or one of its ends is missing.

    `coming_back` are memories that will be live again when the plan is applied.
    """
    before, after = step.link_before, step.link_after
    link = after or before
    if link is None or not all(end in coming_back or _is_live(runtime, end) for end in link.ends):
        return None
    present = next((other for other in runtime.store.record.links([link.source_id]) if other.key == link.key), None)
    hidden = not all(_is_live(runtime, end) for end in link.ends)  # such a link cannot have been changed meanwhile
    if not hidden and not _is_same_link(present, after):
        return None
    source, target = link.ends
    if before is not None and before.origin is not Origin.FILE:
        again = before
        values: dict[str, Value] = {"source": source, "relation": before.relation.value, "target": target}
        if after is not None and after.strength != before.strength:
            done = outcome("linked-again-strength", **values, strength=f"{before.strength:g}")
        else:
            done = outcome("linked-again", **values)
        return LinkPlan(
            done,
            lambda change: runtime.store.record.put_link(again, change),
            hidden,
        )

    link_id = present.id if present is not None and present.origin is not Origin.FILE else link.id
    return LinkPlan(
        outcome("undid-link", source=source, target=target),
        lambda change: runtime.store.record.drop_link(link_id, change),  # a link that a file declares comes back
        hidden,
    )


def _is_live(runtime: Runtime, memory_id: int) -> bool:
    return runtime.store.documents.get(memory_id, any_presence=True).presence is Presence.LIVE


def _is_same_link(link: Link | None, other: Link | None) -> bool:
    """Are these links equal? One that a file declares comes and goes with the file, so it counts as no link."""
    link, other = (None if link is None or link.origin is Origin.FILE else link for link in (link, other))
    if link is None or other is None:
        return link is other
    return (link.strength, link.evidence, link.origin) == (other.strength, other.evidence, other.origin)
