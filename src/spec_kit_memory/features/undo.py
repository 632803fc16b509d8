"""How is the last change undone? Delete, update, merge and restore; votes, links and trust too.

The operation lists the files it changed, and its history rows the former state of every memory and link. An undo is a
change like any other: it is recorded in one transaction and names the operation that it undoes, so that the next undo
goes one step further back. Other changes made since are kept, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import count, islice
from typing import Any

from spec_kit_memory import filesystem
from spec_kit_memory.advice import Advice, Text, Value, advise, finding, outcome
from spec_kit_memory.answers import ChangeRow, ChangesAnswer, UndoAnswer
from spec_kit_memory.core import front_edit, markdown, operation
from spec_kit_memory.core.ledger_operations import operation_of
from spec_kit_memory.core.memory import (
    Change,
    Filter,
    FrontMatter,
    Link,
    Memory,
    Mutation,
    Origin,
    Presence,
    Relation,
    Source,
    VectorStatus,
)
from spec_kit_memory.core.wording import spoken_name
from spec_kit_memory.errors import Invalid, SpecKitMemoryError
from spec_kit_memory.features import file_restore, freshness, index_workspace, undo_restore, undo_steps
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.features.undo_steps import Act, FormerFile, UndoStep, acts
from spec_kit_memory.files import discover, disk, file_changes, locks, paths
from spec_kit_memory.requests import ChangesRequest, UndoRequest

_LOCK_SECONDS = 30.0
_WAITING = (VectorStatus.PENDING, VectorStatus.RETRY)
EMBEDDED_NOW = 5
LATEST_ROWS = 20
LATEST_ENTRIES = 2_000  # a scan of a large project writes thousands, and a list for people need not read them all
_CALLED = {"validate": "validation", "unlink": "link"}  # in answers


class _CannotUndo(Exception):  # noqa: N818  a reason, not an error
    """The operation cannot be undone any more, for this reason; an earlier one may be."""

    def __init__(self, *reasons: Advice) -> None:
        super().__init__(*reasons)
        self.reason = finding("several-reasons", reasons=reasons)


@dataclass(frozen=True, slots=True)
class _Done:
    """The result of an undo."""

    outcome: Advice
    memory_ids: Sequence[int]
    hints: Sequence[Text] = ()


def undo(runtime: Runtime, request: UndoRequest) -> UndoAnswer:
    """Undo the newest operation that was not undone yet, or the named one."""
    runtime.flush()
    with locks.Lock(runtime.settings, "undo.lock") as lock:  # two processes would undo the same operation
        with suppress(OSError):  # where no lock can be created, nothing can be written either
            lock.wait(seconds=_LOCK_SECONDS)
        file_changes.settle_dead(runtime.settings, runtime.whole)
        return _undo(runtime, _named(runtime, request.operation) if request.operation else acts(runtime, _WAYS))


def _named(runtime: Runtime, operation_id: str) -> Iterator[Act]:
    """The named operation, unless a later one builds on it."""
    later: dict[int, Act] = {}
    for act in acts(runtime, _WAYS):
        if act.id == operation_id:
            if since := next((later[id_] for id_ in act.memory_ids if id_ in later), None):
                raise Invalid(
                    f"{_name(act)} cannot be taken back: {_name(since)} came after it",
                    hint="take back the later change first",
                )
            yield act
            return
        later |= dict.fromkeys(act.memory_ids, act)
    raise Invalid("that change was taken back already, or never made", hint="the list of changes has those that can be")


def changes(runtime: Runtime, request: ChangesRequest) -> ChangesAnswer:
    """The operations that `undo` can revert, newest first, among the latest entries of the ledger."""
    memory_id = request.memory_id
    if memory_id is not None and not _was_changed(runtime, memory_id):
        return ChangesAnswer(outcome=outcome("nothing-to-undo"), changes=())
    head = next(runtime.whole.record.ledger(last=True), None)
    key = (memory_id, request.limit, head.hash if head else "")  # an undo adds an entry too
    cached = runtime.view.changes
    if cached is None or cached[0] != key:
        is_all_read = head is None or head.sequence <= LATEST_ENTRIES
        cached = runtime.view.changes = (key, _changes(runtime, request, is_all_read=is_all_read))
    return cached[1]


def _changes(runtime: Runtime, request: ChangesRequest, *, is_all_read: bool) -> ChangesAnswer:
    memory_id = request.memory_id
    fitting = (act for act in acts(runtime, _WAYS, entries=LATEST_ENTRIES) if memory_id in (None, *act.memory_ids))
    rows = [_change_row(act) for act in islice(fitting, request.limit)]
    if is_all_read or len(rows) == request.limit:
        return ChangesAnswer(outcome=outcome("changes-to-undo", count=len(rows)), changes=tuple(rows))
    said = outcome("changes-to-undo-among", count=len(rows), entries=f"{LATEST_ENTRIES:,}")
    return ChangesAnswer(outcome=said, changes=tuple(rows))


def _was_changed(runtime: Runtime, memory_id: int) -> bool:
    """May this memory have changes to undo? Most were only indexed; for those the ledger need not be read."""
    for row in runtime.store.record.history(memory_id, limit=LATEST_ROWS):
        if row.ledger_sequence is None:
            return True  # written by 0.1: only the ledger shows it
        entry = next(runtime.whole.record.ledger(after=row.ledger_sequence - 1, limit=1), None)
        done = operation_of(entry, row.before) if entry else None
        if done is not None and done.kind in _WAYS:
            return True
    return False


def _change_row(act: Act) -> ChangeRow:
    step = act.first
    return ChangeRow(
        operation=act.id,
        kind=_CALLED.get(act.kind, act.kind),
        memory_ids=act.memory_ids,
        title=str(step.after.get("title") or step.before.get("title") or ""),
        at=datetime.fromisoformat(step.entry.at),
        actor=step.entry.actor,
        user=step.operation.user,
    )


def _undo(runtime: Runtime, walk: Iterator[Act]) -> UndoAnswer:
    passed: list[Advice] = []  # operations that cannot be undone any more
    for act in walk:
        taken_back = operation.Undo(of=act.id, undone=act.kind)
        change = runtime.change(f"undo of {_name(act)}", taken_back)
        states = [state for step in act.steps for state in (step.before, step.after)]
        runtime.require_right_to_rule((state.get("tier"), str(state.get("path") or "")) for state in states)
        try:
            done = _WAYS[act.kind](runtime, act, change)
        except _CannotUndo as impossible:
            passed.append(finding("cannot-take-back", change=_name(act), reason=impossible.reason))
            continue
        before = None
        with suppress(SpecKitMemoryError):  # the undo is done; the rest is optional
            _embed(runtime, done.memory_ids)
            before = next((earlier for earlier in walk if _is_possible(runtime, earlier)), None)
        again = finding("undo-again", change=_name(before)) if before else finding("nothing-left-to-undo")
        return UndoAnswer(
            outcome=done.outcome,
            advice=(*done.hints, *passed, again),
            undone=_CALLED.get(act.kind, act.kind),
            memory_ids=tuple(dict.fromkeys(done.memory_ids)),
        )
    runtime.whole.require_sound()
    raise Invalid(
        "; ".join(["there is nothing to undo", *map(str, passed)]),
        hint=advise("what-undo-does"),
    )


def _embed(runtime: Runtime, memory_ids: Sequence[int]) -> None:
    """Embed restored texts without vectors: a few now, many in the background."""
    back = [memory.id for memory in runtime.store.documents.many(list(memory_ids)) if memory.vector_status in _WAITING]
    for memory_id in back[:EMBEDDED_NOW]:
        index_workspace.embed_memory(runtime, memory_id)
    if len(back) > EMBEDDED_NOW:
        runtime.embed_soon()


def _name(act: Act) -> Advice:
    ids, kind = act.memory_ids, _CALLED.get(act.kind, act.kind)
    if len(ids) == 1:
        return finding("change-of", kind=kind, id=ids[0])
    return finding("change-of-many", kind=kind, count=len(ids))


@contextmanager
def _applied(runtime: Runtime, change: Change, files: Sequence[file_changes.Step]) -> Iterator[None]:
    """A context in which the files are restored and index changes are one transaction; a failure reverts everything."""
    assert change.operation is not None
    with file_changes.applied(
        runtime.settings, runtime.store, change.operation.id, files, scope=runtime.scope, author=runtime.caller.user
    ):
        yield


def _with_files(change: Change, files: Sequence[file_changes.Step]) -> Change:
    operation_ = change.operation
    return (
        replace(change, operation=replace(operation_, files=tuple(step.change for step in files)))
        if operation_
        else change
    )


def _refuse(runtime: Runtime, formers: Sequence[FormerFile]) -> None:
    """Refuse an undo that could not be completed, before it starts."""
    for former in formers:
        problem = undo_steps.file_obstacle(runtime, former)
        if problem:
            hint = finding("move-away")
            if former.file.trash and undo_steps.is_file_in_trash(runtime, former.file):
                trashed = runtime.settings.state_folder / former.file.trash
                hint = finding("move-away-or-take", trashed=trashed.as_posix())
            raise Invalid(f"{problem}, so it cannot be put back", hint=hint)


# --- delete and merge --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Deleted:
    """Which memories of a delete can come back: at their paths, or in files of their own; and why others cannot."""

    left: list[tuple[UndoStep, Memory]]
    copied: list[Memory]
    hints: list[Advice]


def _deleted(runtime: Runtime, act: Act) -> _Deleted:
    left, copied, hints = [], [], []
    for step in act.steps:
        memory = runtime.store.documents.get(step.memory_id, any_presence=True)
        other = runtime.store.documents.get(path=memory.path)
        if memory.presence is Presence.LIVE:
            hints.append(finding("came-back-by-itself", title=memory.title, id=memory.id))
        elif other is None or other.id == memory.id:
            left.append((step, memory))
        elif memory.source in file_restore.WRITTEN and not memory.redactions:
            copied.append(memory)
        else:
            hints.append(finding("stays-forgotten", path=memory.path, other=other.id, id=memory.id))
    if not left and not copied:
        raise _CannotUndo(*hints)
    return _Deleted(left, copied, hints)


def _undelete(runtime: Runtime, act: Act, change: Change) -> _Done:
    deleted = _deleted(runtime, act)
    left, copied, hints = deleted.left, deleted.copied, deleted.hints
    formers = [former for step, memory in left for former in _formers(runtime, step, memory)]
    _refuse(runtime, formers)
    files = undo_steps.put_files_back(runtime, formers)
    copies = [_copy_at_free_path(runtime, memory) for memory in copied]
    with _applied(runtime, change, [*files, *copies]):
        # The first of many equal titles is the one that links by title mean: each one before it would move them again.
        for memory in sorted((memory for _, memory in left), key=lambda memory: memory.id):
            own = [step for step in files if step.path == memory.path]
            runtime.store.documents.recall(memory.id, _with_files(change, own))
        for copy in copies:
            runtime.sync.index_file(copy.place.path, _with_files(change, [copy]), explicit=True)
    for _, memory in left:
        hints += _read_again(runtime, memory)
    for memory, copy in zip(copied, copies, strict=True):
        hints.append(finding("in-a-file-of-its-own", path=memory.path, copy=copy.path))
    back = [*(memory for _, memory in left), *copied]
    names = tuple(outcome("named", title=memory.title, id=memory.id) for memory in back[:3])
    what = names if len(back) <= 3 else outcome("memories-counted", count=len(back))
    return _Done(outcome("undid-delete", what=what), [memory.id for memory in back], hints)


def _copy_at_free_path(runtime: Runtime, memory: Memory) -> file_changes.Write:
    """A new file for a deleted text whose path now belongs to another memory."""
    stem, dot, suffix = memory.path.rpartition(".")
    for number in count(2):
        stored = f"{stem}-{number}{dot}{suffix}"
        place = discover.file_to_change(runtime.settings, stored, scope=runtime.scope)
        if not filesystem.exists(place) and not runtime.store.documents.stored(stored):
            break
    return file_changes.write(
        runtime.settings, stored, runtime.store.documents.text(memory.id).encode(), scope=runtime.scope
    )


def _formers(runtime: Runtime, step: UndoStep, memory: Memory) -> list[FormerFile]:
    """The files of a step, with the former text of their memory unless it was redacted."""
    hashes = [step.before.get("content_hash")] if not memory.redactions else []
    texts = tuple(
        text for hash_ in hashes if hash_ and (text := runtime.store.documents.text(content_hash=hash_)) is not None
    )
    return [FormerFile(file, texts) for file in step.operation.files]


def _read_again(runtime: Runtime, memory: Memory) -> list[Advice]:
    """Index the file again, as it may have changed; warn where it is missing."""
    with suppress(SpecKitMemoryError, OSError):  # the undo is done; the next read or scan tries again
        if memory.source in file_restore.WRITTEN and not freshness.stands(runtime, memory.path):
            return [finding("file-is-missing", path=memory.path)]
        freshness.refresh(runtime, memory.path)
    return []


def _merged(runtime: Runtime, act: Act) -> tuple[operation.Merge, Memory]:
    """The merge and the memory that it ended, if that can come back."""
    merge = act.first.operation
    assert isinstance(merge, operation.Merge)
    old = runtime.store.documents.get(merge.merged, any_presence=True)
    other = runtime.store.documents.get(path=old.path)
    if old.presence is Presence.LIVE:
        raise _CannotUndo(finding("came-back-by-itself", title=old.title, id=old.id))
    if other is not None and other.id != old.id:
        raise _CannotUndo(finding("path-is-taken", path=old.path, id=other.id))
    return merge, old


def _unmerge(runtime: Runtime, act: Act, change: Change) -> _Done:
    """Restore the merged memory, no longer superseded, and the other one's former text."""
    merge, old = _merged(runtime, act)
    formers, hints = [], []
    for step in act.steps:
        memory = runtime.store.documents.get(step.memory_id, any_presence=True)
        for former in _formers(runtime, step, memory):
            if former.file.path == old.path:
                _refuse(runtime, [former])
                formers.append(former)
            elif problem := undo_steps.file_obstacle(runtime, former):
                hints.append(finding("keeps-merged-text-why", id=merge.into, problem=problem))
            else:
                formers.append(former)
    files = undo_steps.put_files_back(runtime, formers)
    with _applied(runtime, change, files):
        runtime.store.documents.recall(old.id, _with_files(change, [step for step in files if step.path == old.path]))
        for link in runtime.store.record.links([old.id]):
            if link.key == (merge.into, old.id, Relation.SUPERSEDES) and _made_by(link, act):
                runtime.store.record.drop_link(link.id, change)
        taken_over = {step.link_after for step in act.steps if step.is_link and not step.link_before}
        for link in runtime.store.record.links([merge.into]):
            if link in taken_over and link.origin is Origin.HAND:  # unchanged since the merge
                runtime.store.record.drop_link(link.id, change)
        for file in files:
            if file.path != old.path:
                runtime.sync.index_file(file.place.path, _with_files(change, [file]))
    hints += _read_again(runtime, old)
    if not any(former.file.path != old.path for former in formers) and not hints:
        hints.append(finding("keeps-merged-text", id=merge.into))
    return _Done(outcome("undid-merge", id=old.id, into=merge.into), [old.id, merge.into], hints)


def _made_by(link: Link, act: Act) -> bool:
    """Was this link made by the merge? One that existed before has a different time, and stays."""
    return link.created_at in {datetime.fromisoformat(step.entry.at) for step in act.steps}


# --- update, opinions, links, trust -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one step is undone: its file first, then its rows."""

    outcome: Advice
    memory_ids: tuple[int, ...]
    apply: Callable[[Change], object]
    files: Callable[[], list[file_changes.Step]] = list
    hints: tuple[Advice, ...] = ()


def _step_by_step(runtime: Runtime, act: Act, change: Change) -> _Done:
    """Revert all steps of one call together, the last one first."""
    plans, hints = _plans(runtime, act)

    def attempt() -> None:
        with _applied(runtime, change, [step for plan in plans for step in plan.files()]):
            for plan in plans:
                plan.apply(change)

    file_changes.retried(attempt)
    ids = [memory_id for plan in plans for memory_id in plan.memory_ids]
    return _Done(plans[-1].outcome, ids, [*(hint for plan in plans for hint in plan.hints), *hints])


def _is_possible(runtime: Runtime, act: Act) -> bool:
    """Is anything left that an undo of this would revert? Of whole files this is found out when it is undone."""
    try:
        _PLANS.get(act.kind, _plans)(runtime, act)
    except _CannotUndo:
        return False
    return True


def _plans(runtime: Runtime, act: Act) -> tuple[list[_Plan], list[Advice]]:
    """How each step is reverted, the last one first, and why some are not; nothing is changed yet."""
    plans: list[_Plan] = []
    hints: list[Advice] = []
    for step in reversed(act.steps):
        try:
            plan = _STEPS[step.operation.kind](runtime, step)
        except _CannotUndo as impossible:
            hints.append(impossible.reason)
            continue
        plans += [plan] if plan else []
    if not plans:
        raise _CannotUndo(*(hints or [finding("nothing-of-it-is-left")]))
    return plans, hints


def _live(runtime: Runtime, memory_id: int) -> Memory:
    memory = runtime.store.documents.get(memory_id, any_presence=True)
    if memory.presence is not Presence.LIVE:
        raise _CannotUndo(
            finding("memory-is-not-live", title=memory.title, id=memory.id, presence=memory.presence.value)
        )
    return memory


def _unupdate(runtime: Runtime, step: UndoStep) -> _Plan | None:
    update = step.operation
    assert isinstance(update, operation.Update)
    if step.is_link or step.entry.type not in (Mutation.UPDATE, Mutation.REINDEX):
        return None  # changes derived from the file are derived again when it is indexed
    memory = _live(runtime, step.memory_id)
    about: dict[str, Value] = {"keys": tuple(map(spoken_name, update.keys)), "title": memory.title, "id": memory.id}
    if update.place == "index":
        old = step.before.get("overrides") or {}
        values = {key: _typed(key, old.get(key)) for key in update.keys}
        return _Plan(
            outcome("undid-update-in-index", **about),
            (memory.id,),
            lambda change: runtime.store.record.amend(memory.id, change, overrides=values),
        )
    former = next(iter(_formers(runtime, step, memory)), None)
    place = discover.file_to_change(runtime.settings, memory.path, scope=runtime.scope)
    changed_since: list[str] = []
    whole = former is not None and not undo_steps.file_obstacle(runtime, former)

    def write() -> list[file_changes.Step]:
        if former is not None and whole:
            return undo_steps.put_files_back(runtime, [former])
        return undo_steps.edit_file_back(runtime, memory.path, _edit_of(runtime, step, memory, changed_since))

    def index(change: Change) -> None:
        runtime.sync.index_file(place.path, change)
        indexed = runtime.store.documents.get(memory.id)
        if whole and indexed.content_hash != step.before["content_hash"]:
            undo_restore.put_memory_back(runtime, step, change)  # a restore had not changed the file

    if not filesystem.exists(place):
        raise _CannotUndo(finding("file-gone", name=memory.path))
    _edit_of(runtime, step, memory, changed_since)(disk.read(place).text)
    if set(changed_since) == set(update.keys):
        raise _CannotUndo(
            finding("all-values-changed-since", names=tuple(map(spoken_name, changed_since)), path=memory.path)
        )
    names = tuple(map(spoken_name, changed_since))
    hints = (finding("values-changed-since", names=names, path=memory.path),) if names else ()
    return _Plan(
        outcome("undid-update", **about, path=memory.path),
        (memory.id,),
        index,
        write,
        hints,
    )


def _edit_of(runtime: Runtime, step: UndoStep, memory: Memory, changed_since: list[str]) -> Callable[[str], str]:
    """Returns an edit that reverts the keys of the update, except those that were changed since."""
    update = step.operation
    assert isinstance(update, operation.Update)
    was = runtime.store.documents.text(content_hash=str(step.before.get("content_hash")))
    became = runtime.store.documents.text(content_hash=str(step.after.get("content_hash")))
    previous, values = dict(update.previous), dict(update.values)
    if not values:  # 0.1 recorded only the texts
        if was is None or became is None:
            raise _CannotUndo(finding("text-before-not-recorded", path=memory.path))
        previous, values = (_front(markdown.parse(text).front, update.keys) for text in (was, became))

    def edit(text: str) -> str:
        ends = "\r\n" if "\r\n" in text else "\n"
        changed_since.clear()
        if was is not None and became is not None and text == became.replace("\n", ends) and not memory.redactions:
            return was.replace("\n", ends)
        present = _front(markdown.parse(text).front, update.keys)
        changed_since.extend(key for key in update.keys if present[key] not in (values.get(key), previous.get(key)))
        previous_values = {key: _typed(key, previous.get(key)) for key in update.keys if key not in changed_since}
        return front_edit.edit_front_matter(
            text, {k: list(v) if isinstance(v, tuple) else v for k, v in previous_values.items()}
        )

    return edit


def _front(front: FrontMatter, keys: Sequence[str]) -> dict[str, Any]:
    """Values of front matter as an operation stores them; None for a missing key, which removes it."""
    values = {key: getattr(front, key) for key in keys}
    return {
        key: list(value) or None if isinstance(value, tuple) else None if value is None else str(value)
        for key, value in values.items()
    }


def _typed(key: str, value: Any) -> Any:
    if value is None:
        return None
    return tuple(value) if key == "triggers" else float(value) if key == "weight" else value


def _unvalidate(runtime: Runtime, step: UndoStep) -> _Plan:
    memory = _live(runtime, step.memory_id)
    now = {"confidence": str(memory.confidence), "validation_count": memory.validation_count}
    if any(step.after[name] != value for name, value in now.items()):
        raise _CannotUndo(finding("votes-since", title=memory.title, id=memory.id))
    confidence, count = Decimal(str(step.before["confidence"])), int(step.before["validation_count"])
    validation = step.operation
    counted_as_use = isinstance(validation, operation.Validate) and validation.useful and memory.access_count >= 1

    def apply(change: Change) -> None:
        runtime.store.record.amend(memory.id, change, validation=(confidence, count))
        if counted_as_use and memory.last_access is not None:
            runtime.store.record.use({memory.id: -1.0}, memory.last_access)

    return _Plan(
        outcome("undid-opinion", title=memory.title, id=memory.id),
        (memory.id,),
        apply,
    )


def _unmark(runtime: Runtime, step: UndoStep) -> _Plan:
    memory, was = _live(runtime, step.memory_id), bool(step.before["outdated"])
    return _Plan(
        outcome("outdated-again" if was else "not-outdated-again", title=memory.title, id=memory.id),
        (memory.id,),
        lambda change: runtime.store.record.amend(memory.id, change, outdated=was),
    )


def _unlink(runtime: Runtime, step: UndoStep) -> _Plan:
    back = undo_steps.plan_link(runtime, step)
    if back is None:
        source, target = step.entry.memory_ids
        raise _CannotUndo(finding("link-changed-or-gone", source_id=source, target_id=target))
    return _Plan(back.outcome, step.entry.memory_ids, back.apply)


def _untrust(runtime: Runtime, step: UndoStep) -> _Plan | None:
    trust = step.operation
    assert isinstance(trust, operation.Trust)
    if step.entry.version > 1 and "vouched" not in step.before:
        return None  # the step that indexed the file again; `apply` below does the same
    memory = _live(runtime, step.memory_id)
    vouched = step.before.get("vouched", None if trust.trusted else True)

    def apply(change: Change) -> None:
        runtime.store.record.amend(memory.id, change, vouched=vouched)
        if memory.source is Source.CUSTOM:
            runtime.sync.index_file(paths.absolute(runtime.settings, memory.path), change)

    return _Plan(
        outcome("trusted-again" if vouched else "not-trusted-again", title=memory.title, id=memory.id),
        (memory.id,),
        apply,
    )


_STEPS: dict[str, Callable[[Runtime, UndoStep], _Plan | None]] = {
    "update": _unupdate,
    "validate": _unvalidate,
    "outdated": _unmark,
    "link": _unlink,
    "unlink": _unlink,
    "trust": _untrust,
}


# --- restore ------------------------------------------------------------------------


def _restored(runtime: Runtime, act: Act) -> undo_restore.Prepared:
    prepared = undo_restore.prepare(runtime, act)
    if prepared.is_empty:
        raise _CannotUndo(*(prepared.hints or [finding("all-changed-since")]))
    return prepared


def _unrestore(runtime: Runtime, act: Act, change: Change) -> _Done:
    prepared = _restored(runtime, act)
    files = undo_steps.put_files_back(runtime, prepared.formers)
    with _applied(runtime, change, files):
        undo_restore.apply(runtime, prepared, change)
        written = [step for step in files if step.change.after is not None]
        otherwise = [step for step in written if _differs(runtime, step)]
        for step in written:
            if step not in otherwise:
                explicit = not _is_forgotten(runtime, step)
                runtime.sync.index_file(step.place.path, _with_files(change, [step]), explicit=explicit)
    for step in otherwise:
        _note_file(runtime, step, change)
    runtime.embed_soon()
    hints = [
        finding("restored-file-removed", path=step.path)
        if runtime.accepts
        else finding("restored-file-in-trash", path=step.path, trash=step.change.trash or "")
        for step in files
        if step.change.after is None
    ]
    return _Done(prepared.outcome, sorted(prepared.memory_ids), [*hints, *prepared.hints])


def _is_forgotten(runtime: Runtime, step: file_changes.Step) -> bool:
    """Was the memory of this file forgotten before the restore? Then the file comes back, and the memory does not."""
    memory = runtime.store.documents.get(path=step.path, any_presence=True)
    return memory is not None and memory.presence is Presence.FORGOTTEN


def _differs(runtime: Runtime, step: file_changes.Step) -> bool:
    """Did the text of the memory differ from its file before the restore?"""
    memory = runtime.store.documents.get(path=step.path)
    return memory is not None and memory.content_hash != runtime.sync.preview(step.place.path).content_hash


def _note_file(runtime: Runtime, step: file_changes.Step, change: Change) -> None:
    """Index a file whose memory had a different text before the restore, and keep the memory's text.

    Called after the transaction of the undo, because the snapshot that it reads does not include uncommitted changes.
    """
    memory = runtime.store.documents.get(path=step.path)
    where = Filter(ids=frozenset({memory.id} if memory is not None else ()))
    rows = [row for row in runtime.store.care.snapshot(where) if row["kind"] != "link"]
    with runtime.store.together():
        runtime.sync.index_file(step.place.path, _with_files(change, [step]), explicit=True)
        runtime.store.care.restore(rows, change, clear=True, where=where, links=False)


_WAYS: dict[str, Callable[[Runtime, Act, Change], _Done]] = {
    "delete": _undelete,
    "merge": _unmerge,
    "restore": _unrestore,
    **dict.fromkeys(_STEPS, _step_by_step),
}

# What each would do, found out without doing it.
_PLANS: dict[str, Callable[[Runtime, Act], object]] = {"delete": _deleted, "merge": _merged, "restore": _restored}
