"""How is a restore undone, in the index and in files?

Live memories come back from the checkpoint that was made before the restore, others from history; links and files come
back from the records of the restore. A memory, link or file that was changed since is kept and named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from spec_kit_memory.advice import Advice, advise, finding, outcome
from spec_kit_memory.core import operation
from spec_kit_memory.core.memory import Attention, Change, Filter, Presence, Session
from spec_kit_memory.core.operation import FileChange
from spec_kit_memory.errors import CheckpointNotFound, Invalid
from spec_kit_memory.features import checkpoints, past_rows, undo_steps
from spec_kit_memory.features.past_rows import PastState
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.features.undo_steps import Act, FormerFile, UndoStep


@dataclass(slots=True)
class Prepared:
    """Everything that an undo of a restore will do, planned before it starts."""

    checkpoint: str
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    memory_ids: set[int] = field(default_factory=set)
    presence: dict[int, Presence] = field(default_factory=dict)
    links: list[undo_steps.LinkPlan] = field(default_factory=list)
    formers: list[FormerFile] = field(default_factory=list)
    sessions: list[tuple[Session, datetime]] = field(default_factory=list)
    hints: list[Advice] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.memory_ids or self.links or self.formers)

    @property
    def outcome(self) -> Advice:
        counts = {
            "memories-counted": len(self.memory_ids),
            "links-counted": len(self.links),
            "files-counted": len(self.formers),
        }
        parts = tuple(outcome(code, count=count) for code, count in counts.items() if count)
        return outcome("undid-restore", checkpoint=self.checkpoint, parts=parts)


def prepare(runtime: Runtime, act: Act) -> Prepared:
    restored = act.first.operation
    assert isinstance(restored, operation.Restore)
    saved = _saved(runtime, restored)
    work = Prepared(restored.checkpoint)
    steps = _first_steps(act)
    changed = [memory_id for memory_id in steps if _changed_since(runtime, memory_id, act)]
    going_back = steps.keys() - set(changed)
    occupied = [memory_id for memory_id in sorted(going_back) if _is_taken(runtime, steps[memory_id], going_back)]
    for memory_id, step in steps.items():
        if memory_id not in changed and memory_id not in occupied:
            _plan_memory(runtime, work, step, saved)
    left = len(changed) + len(occupied)
    if left:
        work.hints.append(finding("memories-changed-since", count=left))
    _plan_links(runtime, work, act)
    _plan_files(runtime, work, act, saved, {*changed, *occupied})
    _plan_sessions(runtime, work, act, saved)
    work.rows = [saved.header, *work.rows, *_vectors(work.rows, saved)]
    return work


def apply(runtime: Runtime, work: Prepared, change: Change) -> None:
    """Apply the plan, within a transaction of the caller. Each link is changed while both its ends are live."""
    for link in work.links:
        if not link.is_hidden:
            link.apply(change)
    if work.memory_ids:
        where = Filter(ids=frozenset(work.memory_ids))
        runtime.store.care.restore(work.rows, change, clear=True, where=where, links=False, presence=work.presence)
    for link in work.links:
        if link.is_hidden:
            link.apply(change)
    for session, seen_at in work.sessions:
        runtime.store.record.change_session(session.id, partial(_former, session), seen_at)


def _former(session: Session, _present: Session) -> Session:
    return session


# --- the checkpoint before the restore ------------------------------------------------


@dataclass(slots=True)
class _SavedRows:
    """The rows of the checkpoint that was made before the restore."""

    header: Mapping[str, Any]
    whole: bool  # False: of one spec folder only
    memories: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    vectors: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    sessions: list[Mapping[str, Any]] = field(default_factory=list)


def _saved(runtime: Runtime, restored: operation.Restore) -> _SavedRows:
    try:
        opened = checkpoints.find(runtime, restored.safety)
    except CheckpointNotFound as error:
        raise Invalid(
            f"checkpoint {restored.safety}, made before the restore of {restored.checkpoint}, is gone, "
            "so it cannot be undone",
            hint=advise("checkpoints-and-history"),
        ) from error
    opened.verify()
    rows = opened.rows()
    saved = _SavedRows(next(rows), whole=opened.header.spec_folder is None)
    for row in rows:
        match row["kind"]:
            case "memory":
                saved.memories[row["id"]] = row
            case "vector":
                saved.vectors[row["hash"]] = row
            case "session":
                saved.sessions.append(row)
    return saved


def _vectors(rows: Iterable[Mapping[str, Any]], saved: _SavedRows) -> list[Mapping[str, Any]]:
    hashes = dict.fromkeys(passage["hash"] for row in rows for passage in row["passages"])
    return [saved.vectors[hash_] for hash_ in hashes if hash_ in saved.vectors]


# --- memories -------------------------------------------------------------------------


def _first_steps(act: Act) -> dict[int, UndoStep]:
    """The first step of each memory that the restore changed; it has the memory's former state."""
    steps: dict[int, UndoStep] = {}
    for step in act.steps:
        if not step.is_link and (step.before != step.after or step.entry.type == "restore"):
            steps.setdefault(step.memory_id, step)
    return steps


def _changed_since(runtime: Runtime, memory_id: int, act: Act) -> bool:
    """Was this memory changed after the restore? Links are checked separately."""
    own = (
        row
        for row in runtime.store.record.history(memory_id)
        if "link" not in {**(row.before or {}), **(row.after or {})}
    )
    last = next(own, None)
    left = [step for step in act.steps if step.memory_id == memory_id and not step.is_link][-1]
    return last is None or (last.ledger_sequence not in act.sequences and _state(last.after) != _state(left.after))


def _state(values: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (values or {}).items() if name not in past_rows.EXTRAS}


def _is_taken(runtime: Runtime, step: UndoStep, going_back: Collection[int]) -> bool:
    """Is the memory's former path in use by another that is not restored too? One with the same text does not count."""
    if step.before.get("presence") != Presence.LIVE:
        return False
    other = runtime.store.documents.get(path=str(step.before["path"]))
    if other is None or other.path != step.before["path"] or other.id in going_back:
        return False
    return other.fingerprint == "" or other.fingerprint != step.before["fingerprint"]


def _plan_memory(runtime: Runtime, work: Prepared, step: UndoStep, saved: _SavedRows) -> None:
    memory_id, before = step.memory_id, step.before
    if before.get("presence") == Presence.LIVE:
        if memory_id not in saved.memories:
            work.hints.append(finding("not-in-checkpoint", id=memory_id))
            return
        work.rows.append(saved.memories[memory_id])
    elif before:
        work.presence[memory_id] = Presence(before["presence"])
        row = _from_history(runtime, step)
        work.rows += [row] if row else []
    else:
        work.presence[memory_id] = Presence.GONE  # it did not exist before; ids are never reused
    work.memory_ids.add(memory_id)


def _from_history(runtime: Runtime, step: UndoStep) -> Mapping[str, Any] | None:
    """The former row of a memory that was not live, and so is in no checkpoint; None if only its presence changed, or
    if its text or its path is not available."""
    memory = runtime.store.documents.get(step.memory_id, any_presence=True)
    text = runtime.store.documents.text(content_hash=str(step.before["content_hash"]))
    occupant = runtime.store.documents.get(path=str(step.before["path"]))
    free = occupant is None or occupant.id == memory.id
    same = _state(step.before) | {"presence": ""} == _state(step.after) | {"presence": ""}
    if same or text is None or not free:
        return None
    at = datetime.fromisoformat(step.entry.at)
    state = PastState(memory.id, step.before, at)
    row = past_rows.snapshot_row(runtime, state, text, memory=None, last_access=memory.last_access or at)
    return {**row, "access_count": memory.access_count, **step.before.get("kept", {})}


def put_memory_back(runtime: Runtime, step: UndoStep, change: Change) -> None:
    """Restore a memory to its state before a step, from history, regardless of its file."""
    row = _from_history(runtime, step)
    if row is not None:
        rows = [checkpoints.header_now(runtime.store), row]
        runtime.store.care.restore(rows, change, clear=True, where=Filter(ids=frozenset({step.memory_id})), links=False)


# --- links, files, sessions --------------------------------------------------------------


def _plan_links(runtime: Runtime, work: Prepared, act: Act) -> None:
    live = frozenset(work.memory_ids - work.presence.keys())
    for step in reversed(act.steps):
        if step.is_link:
            plan = undo_steps.plan_link(runtime, step, coming_back=live)
            if plan is not None:
                work.links.append(plan)
            else:
                source, target = step.entry.memory_ids
                work.hints.append(finding("link-changed-since", source_id=source, target_id=target))


def _plan_files(runtime: Runtime, work: Prepared, act: Act, saved: _SavedRows, left: set[int]) -> None:
    for step in act.steps:
        for file in step.operation.files:
            file = file if step.entry.version > 1 else _change_recorded_by_0_1(runtime, step, saved)
            if step.memory_id in left:
                work.hints.append(finding("file-stays-since", path=file.path))
                continue
            former = FormerFile(file, tuple(_texts(runtime, step, saved)))
            problem = undo_steps.file_obstacle(runtime, former)
            if problem:
                work.hints.append(finding("file-stays-why", problem=problem))
            else:
                work.formers.append(former)


def _change_recorded_by_0_1(runtime: Runtime, step: UndoStep, saved: _SavedRows) -> FileChange:
    """0.1 recorded only which file it wrote: the index has the new hash, the checkpoint before it the old one."""
    path = str(step.before.get("path", ""))
    stored = runtime.store.documents.stored(path).get(path)
    before = saved.memories.get(step.memory_id)
    return FileChange(path, before=before["raw_hash"] if before else None, after=stored.raw_hash if stored else None)


def _texts(runtime: Runtime, step: UndoStep, saved: _SavedRows) -> Iterable[str]:
    """Possible former texts of the file: the memory's text in the checkpoint before the restore, and in history."""
    row = saved.memories.get(step.memory_id)
    if row is not None and not row["redactions"]:
        yield row["text"]
    if not step.before.get("redactions"):
        text = runtime.store.documents.text(content_hash=str(step.before.get("content_hash")))
        if text is not None:
            yield text


def _plan_sessions(runtime: Runtime, work: Prepared, act: Act, saved: _SavedRows) -> None:
    """Plan the restore of working memory, except for sessions that went on, or if the checkpoint is of one folder."""
    restored_at = datetime.fromisoformat(act.first.entry.at)
    for row in saved.sessions if saved.whole else ():
        now = runtime.store.record.session(row["id"])
        if row["seen_at"] is None or (now is not None and now.seen_at is not None and now.seen_at > restored_at):
            continue
        work.sessions.append((_session(row), datetime.fromisoformat(row["seen_at"])))


def _session(row: Mapping[str, Any]) -> Session:
    attention: Sequence[Sequence[Any]] = row["attention"]
    return Session(
        id=row["id"],
        turn=row["turn"],
        loading=row["loading"],
        last_save_turn=row["last_save_turn"],
        attention=tuple(Attention(*parts) for parts in attention),
        sent=frozenset(row["sent"]),
    )
