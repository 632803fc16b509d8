"""How is the last change taken back? Delete, update, merge, restore, and opinions and links too.

The ledger says what was done last and what an undo has taken back already; history, trash and
checkpoints say how it was before. An undo is a change like any other: it is recorded, and its
reason names the entries that it takes back, so that the next one goes one further.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from spec_kit_memory import filesystem
from spec_kit_memory.answers import UndoAnswer
from spec_kit_memory.core import front_edit, markdown
from spec_kit_memory.core.memory import (
    Change,
    Filter,
    FrontMatter,
    HistoryEntry,
    LedgerEntry,
    Link,
    Memory,
    Mutation,
    Origin,
    Presence,
    Relation,
)
from spec_kit_memory.errors import CheckpointNotFound, Invalid
from spec_kit_memory.features import checkpoints, file_restore, freshness
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import discover, disk, rewrite, trash
from spec_kit_memory.filesystem import Place

_PAGE = 500
_UNDONE = re.compile(r"undo of (\d+)(?:-(\d+))?")
_IN_TRASH = re.compile(r"; file in (trash/.+)$")
_RESTORED = re.compile(r"restore checkpoint (.+); before it (.+?)$")
_MERGED = re.compile(r"merge into (\d+)")
# What the words in a ledger entry's reason mean; anything else was not asked for by a person or agent.
_KINDS: tuple[tuple[str, str], ...] = (
    (r"delete\b", "delete"),
    (r"update ", "update"),
    (r"merge into ", "merge"),
    (r"restore checkpoint ", "restore"),
    (r"validated as ", "validation"),
    (r"(?:not )?outdated$", "outdated"),
    (r"(?:un)?link$", "link"),
    (r"trust(?: revoked)?$", "trust"),
)


@dataclass(frozen=True, slots=True)
class _Operation:
    """What one call did: its entries, in their order."""

    kind: str
    entries: tuple[LedgerEntry, ...]

    @property
    def first(self) -> LedgerEntry:
        return self.entries[0]

    @property
    def reason(self) -> str:
        return self.first.reason

    @property
    def whole(self) -> str:
        """The reason of an undo that takes all of it back at once."""
        last = self.entries[-1].sequence
        return f"undo of {self.first.sequence}" + (f"-{last}" if last != self.first.sequence else "")


@dataclass(slots=True)
class _Done:
    """What an undo did, in words."""

    said: str
    ids: Sequence[int]
    hints: list[str] = field(default_factory=list)


def undo(runtime: Runtime) -> UndoAnswer:
    """Take back the newest change that was not taken back yet."""
    runtime.flush()
    for operation in _operations(runtime):
        done = _WAYS[operation.kind](runtime, operation)
        if done is not None:
            return UndoAnswer(
                summary=done.said,
                hints=(*done.hints, "say it again for the change before"),
                undone=operation.kind,
                memory_ids=tuple(dict.fromkeys(done.ids)),
            )
    raise Invalid(
        "there is nothing to undo",
        hint="undo takes back deletes, updates, merges, restores, opinions and links; skm history shows what happened",
    )


# --- what was done last -----------------------------------------------------------


def _operations(runtime: Runtime) -> Iterator[_Operation]:
    """Newest first, without what was undone."""
    undone: set[int] = set()
    held: list[LedgerEntry] = []
    for entry in _newest_first(runtime):
        taken = _UNDONE.fullmatch(entry.reason)
        if taken:
            undone.update(range(int(taken[1]), int(taken[2] or taken[1]) + 1))
        if held and not _together(held[-1], entry):
            yield from _operation(held)
            held = []
        if entry.sequence not in undone:
            held.append(entry)
    yield from _operation(held)


def _newest_first(runtime: Runtime) -> Iterator[LedgerEntry]:
    head = runtime.whole.ledger_head()
    last = head.sequence if head else 0
    while last > 0:
        after = max(0, last - _PAGE)
        page = [entry for entry in runtime.store.ledger(after=after, limit=_PAGE) if entry.sequence <= last]
        yield from reversed(page)
        last = after


def _together(newer: LedgerEntry, older: LedgerEntry) -> bool:
    """Entries of one call. A folder's delete and a restore name a checkpoint that no other call names."""
    words, before = (_IN_TRASH.sub("", entry.reason) for entry in (newer, older))
    if words != before:
        return False
    if words.startswith(("delete specFolder ", "restore checkpoint ")):
        return True
    follows = len(newer.memory_ids) > 1 or newer.type not in (Mutation.UPDATE, Mutation.REINDEX)
    return words.startswith("update ") and newer.at == older.at and follows


def _operation(held: list[LedgerEntry]) -> Iterator[_Operation]:
    if held:
        kind = next((kind for words, kind in _KINDS if re.match(words, held[0].reason)), None)
        if kind:
            yield _Operation(kind, tuple(reversed(held)))


def _before(runtime: Runtime, entry: LedgerEntry) -> HistoryEntry:
    """The history of that ledger entry: both are written together, one for one."""
    memory_id = entry.memory_ids[0]
    at = datetime.fromisoformat(entry.at)
    same = [one for one in runtime.store.history(memory_id) if one.at == at]
    later = [
        other
        for other in runtime.store.ledger(after=entry.sequence)
        if other.memory_ids[0] == memory_id and other.at == entry.at
    ]
    if len(later) >= len(same):
        raise Invalid(f"the history of ledger entry {entry.sequence} is missing", hint="run skm health")
    return same[len(later)]


# --- delete and merge --------------------------------------------------------------


def _undelete(runtime: Runtime, operation: _Operation) -> _Done | None:
    gone = [(entry, _gone(runtime, entry.memory_ids[0])) for entry in operation.entries]
    left = [(entry, memory) for entry, memory in gone if memory is not None]
    if not left:
        return None  # it came back by itself: its file was changed or named
    for entry, memory in left:
        _check_way_back(runtime, entry, memory)
    hints = [hint for entry, memory in left for hint in _bring_back(runtime, entry, memory)]
    names = ", ".join(f"{memory.title} (#{memory.id})" for _, memory in left[:3])
    what = names if len(left) <= 3 else f"{len(left)} memories"
    return _Done(f"took back the delete of {what}", [memory.id for _, memory in left], hints)


def _gone(runtime: Runtime, memory_id: int) -> Memory | None:
    memory = runtime.store.get(memory_id, any_presence=True)
    return memory if memory.presence is Presence.FORGOTTEN else None


def _trashed(runtime: Runtime, entry: LedgerEntry) -> Place | None:
    found = _IN_TRASH.search(entry.reason)
    return trash.trashed(runtime.settings, found[1]) if found else None


def _check_way_back(runtime: Runtime, entry: LedgerEntry, memory: Memory) -> None:
    """Everything that could stop an undo half-way is looked at before it starts."""
    trashed = _trashed(runtime, entry)
    if trashed is None:
        return
    if filesystem.exists(discover.file_to_change(runtime.settings, memory.path)):
        raise Invalid(
            f"{memory.path} exists again, so the deleted file cannot go back there",
            hint=f"move it away, or take what you need from {trashed.path.as_posix()}",
        )
    if not filesystem.exists(trashed) and memory.redactions:
        raise Invalid(
            f"{trashed.path.as_posix()} is gone, and the stored text of {memory.path} was redacted",
            hint="bring the file back from a backup, then run skm save with its path",
        )


def _bring_back(runtime: Runtime, entry: LedgerEntry, memory: Memory) -> list[str]:
    trashed = _trashed(runtime, entry)
    if trashed is not None:
        place = discover.file_to_change(runtime.settings, memory.path)
        if filesystem.exists(trashed):
            trash.recall(trashed, settings=runtime.settings, to=place)
        else:
            disk.write_new(place, runtime.store.text(memory.id))
    runtime.store.recall(memory.id, runtime.change(f"undo of {entry.sequence}"))
    if memory.source in file_restore.WRITTEN and not freshness.stands(runtime, memory.path):
        return [f"{memory.path} has no file; the next scan takes it out again unless you save it"]
    freshness.refresh(runtime, memory.path)
    return []


def _unmerge(runtime: Runtime, operation: _Operation) -> _Done | None:
    """The old memory comes back and is no longer superseded; the new one keeps what it took in."""
    done = _undelete(runtime, operation)
    found = _MERGED.match(operation.reason)
    if done is None or found is None:
        return done
    successor, old = int(found[1]), operation.first.memory_ids[0]
    for link in runtime.store.links([old]):
        if (link.source_id, link.target_id, link.relation) == (successor, old, Relation.SUPERSEDES):
            runtime.store.drop_link(link.id, runtime.change(f"undo of {operation.first.sequence}"))
    done.said = f"took back the merge of #{old} into #{successor}"
    done.hints.append(f"memory {successor} keeps the text that it took over")
    return done


# --- update -------------------------------------------------------------------------


def _unupdate(runtime: Runtime, operation: _Operation) -> _Done | None:
    entry = operation.first
    memory = _live(runtime, entry.memory_ids[0])
    if memory is None:
        return None
    keys = [key.strip() for key in entry.reason.removeprefix("update ").split(",")]
    history = _before(runtime, entry)
    before, after = history.before or {}, history.after or {}
    change = runtime.change(operation.whole)
    if "overrides" in after:
        old: Any = before.get("overrides") or {}
        runtime.store.override(memory.id, {key: _typed(key, old.get(key)) for key in keys}, change)
        place = "the index"
    else:
        place = memory.path
        _edit_back(runtime, memory, keys, str(before["content_hash"]), str(after["content_hash"]), change)
    return _Done(f"took back the update of {', '.join(keys)} of {memory.title} (#{memory.id}) in {place}", [memory.id])


def _typed(key: str, value: Any) -> Any:
    return tuple(value) if key == "triggers" and value is not None else value


def _live(runtime: Runtime, memory_id: int) -> Memory | None:
    memory = runtime.store.get(memory_id, any_presence=True)
    return memory if memory.presence is Presence.LIVE else None


def _edit_back(
    runtime: Runtime, memory: Memory, keys: Sequence[str], hash_before: str, hash_after: str, change: Change
) -> None:
    """The whole text where nothing else changed since, else only the keys that the update set."""
    was, became = runtime.store.text_of(hash_before), runtime.store.text_of(hash_after)
    if was is None:
        raise Invalid(f"the text of {memory.path} before the update is not recorded", hint="skm history shows it")
    said = markdown.parse(was).front
    values = {key: _said(said, key) for key in keys}
    place = discover.file_to_change(runtime.settings, memory.path)

    def edit(text: str) -> str:
        ends = "\r\n" if "\r\n" in text else "\n"
        if text == (became or "").replace("\n", ends) and not memory.redactions:
            return was.replace("\n", ends)
        return front_edit.edit_front_matter(text, values)

    rewrite.rewrite(place, edit)
    runtime.sync.index_file(place.path, change)


def _said(front: FrontMatter, key: str) -> Any:
    """What front matter said; None where it said nothing, which removes the key."""
    value = getattr(front, key)
    if isinstance(value, tuple):
        return list(value) or None
    return str(value) if isinstance(value, str) else value


# --- restore ------------------------------------------------------------------------


def _unrestore(runtime: Runtime, operation: _Operation) -> _Done | None:
    """From the checkpoint that was made before it; what changed since the restore stays as it is."""
    found = _RESTORED.fullmatch(operation.reason)
    if found is None:
        return None
    try:
        opened = checkpoints.find(runtime, found[2])
    except CheckpointNotFound as error:
        raise Invalid(
            f"checkpoint {found[2]}, made before the restore of {found[1]}, is gone, so it cannot be undone",
            hint="skm checkpoint list shows what is there; skm history shows single memories",
        ) from error
    opened.verify()
    untouched = {entry.memory_ids[0] for entry in operation.entries if _as_left(runtime, entry)}
    if not untouched:
        return None
    rows = [row for row in opened.rows() if _concerns(row, untouched)]
    where = Filter(ids=frozenset(untouched))
    written = _filed(runtime, operation, found[1])
    new = written & untouched - {row["id"] for row in rows if row["kind"] == "memory"}
    hints = [_taken_away(runtime, operation, memory_id) for memory_id in sorted(new)]
    runtime.store.restore(_without_loose(rows), runtime.change(operation.whole), clear=True, where=where)
    filed = file_restore.write_back(runtime, rows, reason=operation.whole) if written else file_restore.Filed()
    runtime.embed_soon()
    hints += [f"not written: {path} ({reason})" for path, reason in filed.refused.items()]
    kept = len({entry.memory_ids[0] for entry in operation.entries}) - len(untouched)
    if kept:
        hints.append(f"{kept} memories changed since and were left as they are")
    return _Done(f"took back the restore of {found[1]}: {len(untouched)} memories", sorted(untouched), hints)


def _as_left(runtime: Runtime, entry: LedgerEntry) -> bool:
    memory = runtime.store.get(entry.memory_ids[0], any_presence=True)
    if entry.hash_after is None:
        return memory.presence is not Presence.LIVE
    return memory.presence is Presence.LIVE and memory.content_hash == entry.hash_after


def _concerns(row: dict[str, Any], ids: set[int]) -> bool:
    match row["kind"]:
        case "memory":
            return row["id"] in ids
        case "link":
            return row["source_id"] in ids and row["target_id"] in ids
        case "session":
            return False
    return True


def _without_loose(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Links whose other end was not in the checkpoint would be refused."""
    held = {row["id"] for row in rows if row["kind"] == "memory"}
    for row in rows:
        if row["kind"] != "link" or (row["source_id"] in held and row["target_id"] in held):
            yield row


def _filed(runtime: Runtime, operation: _Operation, name: str) -> set[int]:
    """The memories whose files the restore wrote."""
    following = runtime.store.ledger(after=operation.entries[-1].sequence)
    return {entry.memory_ids[0] for entry in following if entry.reason == f"file of checkpoint {name}"}


def _taken_away(runtime: Runtime, operation: _Operation, memory_id: int) -> str:
    """Where there was no file before the restore there is none after its undo; a scan would not know why there is."""
    memory = runtime.store.get(memory_id)
    place = discover.file_to_change(runtime.settings, memory.path)
    stored = runtime.store.stored(memory.path).get(memory.path)
    if stored is None or disk.hash_of(place) != stored.raw_hash:
        return f"{memory.path} was changed since the restore and stays; the next scan reads it"
    moved = trash.discard(place, settings=runtime.settings, at=runtime.now())
    entry = next(entry for entry in operation.entries if entry.memory_ids[0] == memory_id)
    if not _was_forgotten(runtime, entry):
        runtime.store.vanish(memory.path, runtime.change(operation.whole))  # gone, as it was: it may come back
    return f"{memory.path}, which the restore had written, is in {moved.path.as_posix()}"


def _was_forgotten(runtime: Runtime, restored: LedgerEntry) -> bool:
    earlier = [
        entry
        for entry in runtime.store.ledger()
        if entry.sequence < restored.sequence and entry.memory_ids[0] == restored.memory_ids[0]
    ]
    return bool(earlier) and _IN_TRASH.sub("", earlier[-1].reason).startswith(("delete", "merge into "))


# --- opinions, links, trust ------------------------------------------------------------


def _unvalidate(runtime: Runtime, operation: _Operation) -> _Done | None:
    memory = _live(runtime, operation.first.memory_ids[0])
    if memory is None:
        return None
    before = _before(runtime, operation.first).before or {}
    confidence, count = Decimal(str(before["confidence"])), int(str(before["validation_count"]))
    runtime.store.validate(memory.id, confidence, count, runtime.change(operation.whole))
    return _Done(f"took back the opinion on {memory.title} (#{memory.id})", [memory.id])


def _unmark(runtime: Runtime, operation: _Operation) -> _Done | None:
    memory = _live(runtime, operation.first.memory_ids[0])
    if memory is None:
        return None
    was = operation.reason != "outdated"
    runtime.store.mark_outdated(memory.id, was, runtime.change(operation.whole))
    return _Done(f"{memory.title} (#{memory.id}) is {'outdated' if was else 'not outdated'} again", [memory.id])


def _unlink(runtime: Runtime, operation: _Operation) -> _Done | None:
    history = _before(runtime, operation.first)
    before, after = _link(history.before), _link(history.after)
    ends = operation.first.memory_ids
    if any(_live(runtime, memory_id) is None for memory_id in ends):
        return None
    change = runtime.change(operation.whole)
    if before is not None:
        runtime.store.put_link(before, change)
        return _Done(f"#{ends[0]} {before.relation.value} #{ends[1]} again", ends)
    for link in runtime.store.links([ends[0]]):
        if after and (link.source_id, link.target_id, link.relation) == (
            after.source_id,
            after.target_id,
            after.relation,
        ):
            runtime.store.drop_link(link.id, change)
            return _Done(f"took back the link from #{ends[0]} to #{ends[1]}", ends)
    return None


def _link(state: Any) -> Link | None:
    said = (state or {}).get("link")
    if not said:
        return None
    return Link(
        id=0,
        source_id=said["source_id"],
        target_id=said["target_id"],
        relation=Relation(said["relation"]),
        strength=said["strength"],
        evidence=said["evidence"],
        origin=Origin(said["origin"]),
    )


def _untrust(runtime: Runtime, operation: _Operation) -> _Done | None:
    memory = _live(runtime, operation.first.memory_ids[0])
    if memory is None:
        return None
    trusted = operation.reason != "trust"
    runtime.store.trust(memory.id, trusted, runtime.change(operation.whole))
    return _Done(f"{memory.title} (#{memory.id}) is {'trusted' if trusted else 'not trusted'} again", [memory.id])


_WAYS: dict[str, Callable[[Runtime, _Operation], _Done | None]] = {
    "delete": _undelete,
    "update": _unupdate,
    "merge": _unmerge,
    "restore": _unrestore,
    "validation": _unvalidate,
    "outdated": _unmark,
    "link": _unlink,
    "trust": _untrust,
}
