"""How is an earlier state restored? Named snapshots: create, list, compare, restore, delete.

A session creates, sees and restores only what its scope covers. A restore reads and validates
the whole file before anything is written, and first saves the present state in another checkpoint.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from spec_kit_memory.advice import Advice, Text, advise, finding, outcome
from spec_kit_memory.answers import (
    CheckpointAnswer,
    CheckpointDiffAnswer,
    CheckpointListAnswer,
    CheckpointRow,
    LinkDifference,
    MemoryDifference,
)
from spec_kit_memory.core import operation, redact
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import Filter, Origin, Scope
from spec_kit_memory.core.wording import change_name, counted
from spec_kit_memory.errors import (
    AccessDenied,
    BadParameter,
    BadSpecFolder,
    CheckpointExists,
    CheckpointNotFound,
    DatabaseBusy,
    DatabaseUnusable,
    OutOfRange,
    RestoreFailed,
    SpecKitMemoryError,
)
from spec_kit_memory.features import file_restore, freshness
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import checkpoint_file as shelf
from spec_kit_memory.files import file_changes, git
from spec_kit_memory.files.checkpoint_file import Checkpoint, OpenedCheckpoint
from spec_kit_memory.files.checkpoint_shelf import CheckpointShelf, shelf_of
from spec_kit_memory.index.contract import EVERYTHING, Index
from spec_kit_memory.requests import (
    CheckpointCreateRequest,
    CheckpointDeleteRequest,
    CheckpointDiffRequest,
    CheckpointListRequest,
    CheckpointRestoreRequest,
)

MOST_CHECKPOINTS = 10
LONGEST_NAME = 200
# Fields that a diff ignores: the form of the file on disk, and use counts.
_NOT_COMPARED = frozenset(
    ("kind", "text", "said", "raw_hash", "stamp", "last_access", "updated_at", "passages", "warnings")
)


def _shelf(runtime: Runtime) -> CheckpointShelf:
    return shelf_of(runtime.settings, runtime.whole)


# --- make -----------------------------------------------------------------------


def create(runtime: Runtime, request: CheckpointCreateRequest) -> CheckpointAnswer:
    """Create a snapshot under a new name."""
    folder = clean_folder(request.spec_folder) if request.spec_folder else None
    if folder is not None and not runtime.store.documents.count(Filter(spec_folder=folder)):
        raise BadSpecFolder(f"spec folder {folder} has no memories", hint=runtime.folder_suggestions(folder))
    checkpoint = _make(
        runtime,
        _checked(request.name),
        spec_folder=folder,
        description=redact.redact(request.description or "").text,
        metadata=request.metadata or {},
    )
    pruned: tuple[str, ...] = ()
    with suppress(SpecKitMemoryError):  # this checkpoint exists; the next one removes the surplus
        pruned = _prune(runtime, keep={checkpoint.name})
    if folder:
        created = outcome("checkpoint-made-of", name=checkpoint.name, count=checkpoint.memories, folder=folder)
    else:
        created = outcome("checkpoint-made", name=checkpoint.name, count=checkpoint.memories)
    return CheckpointAnswer(
        outcome=outcome("checkpoints-pruned", outcome=created, names=pruned) if pruned else created,
        advice=(advise("compare-later", name=checkpoint.name),),
        name=checkpoint.name,
        memories=checkpoint.memories,
        size_bytes=checkpoint.size_bytes,
        pruned=pruned,
    )


@contextmanager
def safety(runtime: Runtime, prefix: str, *, spec_folder: str | None = None) -> Iterator[str]:
    """An automatic checkpoint before a destructive change; removed again if the change is refused."""
    checkpoint = _make_automatic(runtime, prefix, spec_folder=spec_folder)
    try:
        yield checkpoint.name
    except Exception:  # not on an interrupt: the change may already be done then
        with suppress(SpecKitMemoryError):  # the original error is the one to report
            checkpoint.place.remove()
        raise
    with suppress(SpecKitMemoryError):  # the change is done; the next checkpoint removes the surplus
        _prune(runtime, keep={checkpoint.name})


def _make_automatic(
    runtime: Runtime, prefix: str, *, spec_folder: str | None, also: Collection[int] = ()
) -> Checkpoint:
    """Create an automatic checkpoint; `also` are memories outside the folder that the following change affects."""
    name = f"{prefix}-{runtime.now():%Y%m%d-%H%M%S}"
    where = _where(spec_folder)
    if also:
        where = Filter(ids=frozenset({*also, *(memory.id for memory in runtime.store.documents.find(where))}))
    return _make(runtime, name, spec_folder=spec_folder, description="made by itself", automatic=True, where=where)


def _elsewhere(runtime: Runtime, opened: OpenedCheckpoint) -> list[int]:
    """The memories of a folder's checkpoint that are in another folder now."""
    folder = opened.header.spec_folder
    if folder is None:
        return []
    rows = opened.rows()
    if next(rows)["instance"] != _instance(runtime):
        return []
    present = runtime.store.documents.many([row["id"] for row in _memories(rows)])
    return [memory.id for memory in present if memory.spec_folder != folder]


def header_now(index: Index) -> Mapping[str, Any]:
    """The header row of a snapshot made now."""
    with closing(index.care.snapshot(Filter(ids=frozenset()))) as rows:
        return next(rows)


def instance(index: Index) -> str:
    """The id of the index itself, which its checkpoints have."""
    return str(header_now(index)["instance"])


def _instance(runtime: Runtime) -> str:
    return instance(runtime.store)


def _make(
    runtime: Runtime,
    name: str,
    *,
    spec_folder: str | None,
    description: str,
    metadata: Mapping[str, Any] | None = None,
    automatic: bool = False,
    where: Filter | None = None,
) -> Checkpoint:
    runtime.flush()  # counts that are not written yet belong to the snapshot too
    scope = runtime.scope
    with _shelf(runtime).alone():
        existing, _ = shelf.headers(_shelf(runtime), scope)
        used_names = {checkpoint.name for checkpoint in existing}
        name = _free(name, used_names) if automatic else name
        # A file that cannot be read may be from a newer version, so it is not overwritten.
        if name in used_names or shelf.place_of(_shelf(runtime), name, scope).exists():
            raise CheckpointExists(
                f"there is a checkpoint {name!r} already", hint=advise("free-checkpoint-name", name=name)
            )
        planned = Checkpoint(
            name=name,
            created=runtime.now(),
            sequence=shelf.next_sequence(_made_here(runtime, existing)),
            description=description,
            metadata=_plain(metadata or {}),
            spec_folder=spec_folder,
            git=redact.redact_data(git.head(runtime.settings.root), Counter()),
            automatic=automatic,
            scope=scope,
        )
        with closing(runtime.store.care.snapshot(where or _where(spec_folder))) as rows:
            return shelf.write(_shelf(runtime), planned, rows)


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    try:
        clean = redact.redact_data(dict(metadata), Counter())
        plain: dict[str, Any] = json.loads(json.dumps(clean, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadParameter(f"metadata cannot be kept: {error}", hint="give an object of JSON values") from error
    return plain


def _free(name: str, used_names: set[str]) -> str:
    tries = (name if number == 1 else f"{name}-{number}" for number in range(1, len(used_names) + 2))
    return next(candidate for candidate in tries if candidate not in used_names)


def _checked(name: str) -> str:
    name = unicodedata.normalize("NFC", name.strip())
    if not name:
        raise BadParameter("the checkpoint's name is empty", hint="give a name, e.g. before-the-migration")
    if len(name) > LONGEST_NAME:
        raise OutOfRange(f"the name has {len(name)} characters", hint=f"use at most {LONGEST_NAME}")
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        raise BadParameter(f"the name {name!r} has characters that cannot be shown", hint="use letters and digits")
    if secrets := redact.redact(name).counts:
        raise BadParameter(
            f"the checkpoint's name holds what looks like a secret ({', '.join(secrets)})", hint="choose another name"
        )
    return name


def _prune(runtime: Runtime, *, keep: set[str]) -> tuple[str, ...]:
    """Delete surplus checkpoints: the oldest automatic ones first, then the oldest of the others.

    Checkpoints made elsewhere are neither deleted nor counted: a repository could contain ten that claim to be the
    newest.
    """
    dropped: list[str] = []
    with _shelf(runtime).alone():
        existing = _made_here(runtime, shelf.headers(_shelf(runtime), runtime.scope)[0])
        for checkpoint in sorted(existing, key=lambda checkpoint: (not checkpoint.automatic, checkpoint.age)):
            if len(existing) - len(dropped) > MOST_CHECKPOINTS and checkpoint.name not in keep:
                checkpoint.place.remove()
                dropped.append(checkpoint.name)
    return tuple(dropped)


def _made_here(runtime: Runtime, existing: Iterable[Checkpoint]) -> list[Checkpoint]:
    """The checkpoints made from this index; the dates that others claim cannot be trusted."""
    here = _instance(runtime)
    return [checkpoint for checkpoint in existing if checkpoint.instance == here]


def _where(spec_folder: str | None) -> Filter:
    return Filter(spec_folder=spec_folder) if spec_folder is not None else EVERYTHING


# --- list, find, delete -----------------------------------------------------------


def list_(runtime: Runtime, request: CheckpointListRequest) -> CheckpointListAnswer:
    existing, bad = shelf.headers(_shelf(runtime), runtime.scope)
    own = _made_here(runtime, existing)  # a forged date must not hide them
    existing = [*own, *(checkpoint for checkpoint in existing if checkpoint not in own)]
    folder = clean_folder(request.spec_folder) if request.spec_folder else None
    chosen = [checkpoint for checkpoint in existing if folder is None or checkpoint.spec_folder == folder]
    shown = chosen[: request.limit]
    damage, _ = shelf.damage(shown)
    return CheckpointListAnswer(
        outcome=outcome("checkpoints-counted-of", count=len(chosen), folder=folder)
        if folder
        else outcome("checkpoints-counted", count=len(chosen)),
        advice=(
            # A file's name would reveal another part of the workspace to an isolated caller.
            *(error.message for error in bad if runtime.scope == Scope()),
            *([] if chosen else [advise("all-checkpoints") if existing else advise("make-checkpoint")]),
        ),
        checkpoints=tuple(_row(checkpoint, damage.get(str(checkpoint.place))) for checkpoint in shown),
    )


def _row(checkpoint: Checkpoint, damage: SpecKitMemoryError | None) -> CheckpointRow:
    return CheckpointRow(
        name=checkpoint.name,
        spec_folder=checkpoint.spec_folder,
        memories=checkpoint.memories,
        size_bytes=checkpoint.size_bytes,
        created_at=checkpoint.created,
        description=checkpoint.description,
        automatic=checkpoint.automatic,
        git_branch=checkpoint.git.get("branch"),
        metadata=dict(checkpoint.metadata),
        problem=damage.message if damage else None,
    )


def find(runtime: Runtime, name: str) -> OpenedCheckpoint:
    """The checkpoint with that name; of two in different scopes, the one of this session's scope."""
    spelled, scope = _spelled(name), runtime.scope
    existing, bad = shelf.headers(_shelf(runtime), scope)
    matching = sorted(
        (checkpoint for checkpoint in existing if checkpoint.name == spelled),
        key=lambda checkpoint: checkpoint.scope != scope,
    )
    if matching:
        return shelf.read(matching[0].place)
    for error in bad:
        # The header cannot be read, but the file has the path that belongs to this name.
        if error.details.get("path") == str(shelf.place_of(_shelf(runtime), spelled, scope)):
            raise error
    names = ", ".join(checkpoint.name for checkpoint in existing[:5])
    raise CheckpointNotFound(
        f"there is no checkpoint {name!r}", hint=f"there are: {names}" if names else advise("make-checkpoint")
    )


def delete(runtime: Runtime, request: CheckpointDeleteRequest) -> CheckpointAnswer:
    with _shelf(runtime).alone():
        try:
            gone = find(runtime, request.name).header
        except (RestoreFailed, AccessDenied):  # it cannot be restored, but its file is there under that name
            name = _spelled(request.name)
            shelf.place_of(_shelf(runtime), name, runtime.scope).remove()
            return CheckpointAnswer(outcome=outcome("broken-checkpoint-deleted", name=name), name=name)
        gone.place.remove()
    return CheckpointAnswer(
        outcome=outcome("checkpoint-deleted", name=gone.name),
        name=gone.name,
        memories=gone.memories,
        size_bytes=gone.size_bytes,
    )


def _spelled(name: str) -> str:
    return unicodedata.normalize("NFC", name.strip())


# --- compare ----------------------------------------------------------------------


def diff(runtime: Runtime, request: CheckpointDiffRequest) -> CheckpointDiffAnswer:
    """What a restore with `clear_existing` would revert: memories and links added, removed or changed since."""
    opened = find(runtime, request.name)
    opened.verify()
    with closing(runtime.store.care.snapshot(_where(opened.header.spec_folder))) as now_rows:
        old_rows, new_rows = _Compared.read(opened.rows()), _Compared.read(now_rows)
    # Ids mean the same memory only within one database.
    key = "id" if old_rows.instance == new_rows.instance else "path"
    before, after = old_rows.by(key), new_rows.by(key)
    both = [(before[memory_id], after[memory_id]) for memory_id in before if memory_id in after]
    added = [after[memory_id] for memory_id in after if memory_id not in before]
    removed = [before[memory_id] for memory_id in before if memory_id not in after]
    changed = [replace(_named(new), changed=tuple(names)) for old, new in both if (names := _differences(old, new))]
    used = sum(old["access_count"] != new["access_count"] for old, new in both)
    links = _compare_links(old_rows.links(key), new_rows.links(key))
    return CheckpointDiffAnswer(
        outcome=_diff_outcome(opened.header, added=len(added), removed=len(removed), changed=len(changed), links=links),
        advice=tuple(_diff_hints(opened.header, used)),
        name=opened.header.name,
        added=tuple(map(_named, added)),
        removed=tuple(map(_named, removed)),
        changed=tuple(changed),
        links_added=links["added"],
        links_removed=links["removed"],
        links_changed=links["changed"],
        used=used,
    )


def _diff_outcome(header: Checkpoint, *, added: int, removed: int, changed: int, links: Mapping[str, Any]) -> Advice:
    memories = outcome("checkpoint-diff", name=header.name, added=added, removed=removed, changed=changed)
    counts = tuple(outcome("counted-as", count=len(rows), what=what) for what, rows in links.items() if rows)
    return outcome("checkpoint-diff-links", outcome=memories, links=counts) if counts else memories


def _diff_hints(header: Checkpoint, used: int) -> Iterable[Text]:
    if header.spec_folder:
        yield finding("checkpoint-of-folder", folder=header.spec_folder)
    if used:
        yield finding("used-since-checkpoint", count=used)


@dataclass(slots=True)
class _Compared:
    """The parts of a snapshot that a diff compares: its memories and links."""

    instance: str
    memories: list[dict[str, Any]]
    link_rows: list[Mapping[str, Any]]

    @classmethod
    def read(cls, rows: Iterator[Mapping[str, Any]]) -> _Compared:
        compared = cls(next(rows)["instance"], [], [])
        for row in rows:
            if row["kind"] == "memory":
                compared.memories.append(_compared_fields(row))
            elif row["kind"] == "link" and row["origin"] != Origin.FILE:  # links of files are derived from their text
                compared.link_rows.append(row)
        return compared

    def by(self, key: str) -> dict[Any, dict[str, Any]]:
        return {row[key]: row for row in self.memories}

    def links(self, key: str) -> dict[tuple[Any, ...], Mapping[str, Any]]:
        """Links by their ends and relation; an end outside of the snapshot is identified by the path in the link."""
        names = {row["id"]: row[key] for row in self.memories}

        def end(row: Mapping[str, Any], name: str) -> Any:
            return names.get(row[name], row[name] if key == "id" else row.get("outside"))

        return {(end(row, "source_id"), end(row, "target_id"), row["relation"]): row for row in self.link_rows}


_LINK_VALUES = ("strength", "evidence", "origin")


def _compare_links(
    then: Mapping[tuple[Any, ...], Mapping[str, Any]], now: Mapping[tuple[Any, ...], Mapping[str, Any]]
) -> dict[str, tuple[LinkDifference, ...]]:
    def difference(row: Mapping[str, Any]) -> LinkDifference:
        return LinkDifference(
            source_id=row["source_id"],
            target_id=row["target_id"],
            relation=row["relation"],
            strength=row["strength"],
            evidence=row["evidence"],
        )

    changed = [
        replace(difference(now[key]), changed=tuple(names))
        for key in then
        if key in now and (names := [name for name in _LINK_VALUES if then[key][name] != now[key][name]])
    ]
    return {
        "added": tuple(difference(now[key]) for key in now if key not in then),
        "removed": tuple(difference(then[key]) for key in then if key not in now),
        "changed": tuple(changed),
    }


def _memories(rows: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """The memory rows of a snapshot; they come first, and the rows after them are not read."""
    for row in rows:
        if row["kind"] != "memory":
            return
        yield row


def _after_header(opened: OpenedCheckpoint) -> Iterator[Mapping[str, Any]]:
    rows = opened.rows()
    next(rows)
    return rows


def _compared_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    essence = {name: value for name, value in row.items() if name not in _NOT_COMPARED}
    return essence | {"aliases": [alias["path"] for alias in row["aliases"]]}


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    compared = (name for name in now if name not in ("id", "access_count"))
    return sorted({change_name(name) for name in compared if now[name] != then.get(name)})


def _named(row: Mapping[str, Any]) -> MemoryDifference:
    return MemoryDifference(id=row["id"], title=row["title"], path=row["path"])


# --- restore ----------------------------------------------------------------------


def restore(runtime: Runtime, request: CheckpointRestoreRequest) -> CheckpointAnswer:
    """Restore a checkpoint within its scope, all or nothing, after a checkpoint of the present state."""
    clear_existing, restore_files = request.clear_existing, request.restore_files
    opened = find(runtime, request.name)
    opened.verify()
    header = opened.header
    if restore_files:
        # What is on disk now must be in the safety checkpoint, or it would be lost. The whole workspace is scanned: a
        # folder may have been moved to a path that the checkpoint does not know.
        runtime.sync.scan(count=False)
    else:
        _refuse_renamed(runtime, opened)
    where = _where(header.spec_folder)
    safety = _make_automatic(
        runtime, "before-restore", spec_folder=header.spec_folder, also=_elsewhere(runtime, opened)
    )
    reason = f"restore checkpoint {header.name}; before it {safety.name}"
    restored = operation.Restore(
        checkpoint=header.name,
        safety=safety.name,
        clear=clear_existing,
        spec_folder=header.spec_folder,
        restore_files=restore_files,
    )
    try:
        files = file_restore.FileRestorePlan()
        if restore_files:
            previous = {row["id"]: row for row in _memories(_after_header(shelf.read(safety.place)))}
            files = file_restore.plan(runtime, opened.rows(), previous)
        with file_changes.applied(
            runtime.settings,
            runtime.store,
            restored.id,
            files.steps,
            scope=runtime.scope,
            author=runtime.caller.user,
            at_once=False,
        ) as changes:
            change = runtime.change(reason, restored)
            done = runtime.store.care.restore(opened.rows(), change, clear=clear_existing, where=where)
            file_reason = f"file of checkpoint {header.name}"
            filed = file_restore.write_back(runtime, files, changes, operation=restored, reason=file_reason)
    except Exception:
        with suppress(SpecKitMemoryError):
            safety.place.remove()  # nothing changed, so there is nothing to go back to
        raise
    pruned: tuple[str, ...] = ()
    with suppress(SpecKitMemoryError):  # the restore is done; the next checkpoint removes the surplus
        pruned = _prune(runtime, keep={safety.name, header.name})
    runtime.embed_soon()
    hints: tuple[Text, ...] = (runtime.take_back,)
    with suppress(DatabaseBusy, DatabaseUnusable):  # the restore is done, even if its details cannot be read
        hints = tuple(_hints(runtime, filed, done, restored))
    return CheckpointAnswer(
        outcome=_restored(header, done),
        advice=hints,
        name=header.name,
        memories=header.memories,
        size_bytes=header.size_bytes,
        pruned=pruned,
        restored=done["restored"],
        skipped=done["unchanged"],
        kept_newer=done["kept_newer"],
        removed=done["removed"],
        links_restored=done["links"],
        links_removed=done["links_removed"],
        files_written=tuple(filed.written),
        files_trashed=tuple(filed.trashed),
        files_refused=tuple(filed.refused),
        safety=safety.name,
    )


def _refuse_renamed(runtime: Runtime, opened: OpenedCheckpoint) -> None:
    """Refuse to restore a folder that was renamed: its files are missing, so the next scan would undo the restore."""
    folder = opened.header.spec_folder
    if folder is None or runtime.store.documents.count(Filter(spec_folder=folder)):
        return
    rows = opened.rows()
    if next(rows)["instance"] != _instance(runtime):
        return
    moved = runtime.store.documents.many([row["id"] for row in _memories(rows)])
    if moved:
        now = ", ".join(sorted({memory.spec_folder or "none" for memory in moved}))
        raise RestoreFailed(
            f"spec folder {folder} was renamed: {counted(len(moved), 'memory')} of it in {now}",
            hint=advise("restore-renamed"),
        )


def _restored(header: Checkpoint, done: Mapping[str, int]) -> Advice:
    memories = outcome("restored", count=done["restored"], total=header.memories, name=header.name)
    codes = {
        "unchanged": "restore-unchanged",
        "kept_newer": "restore-kept-newer",
        "removed": "restore-forgotten",
        "links": "restore-links",
        "links_removed": "restore-links-removed",
        "links_kept": "restore-links-kept",
    }
    parts = tuple(outcome(code, count=done[what]) for what, code in codes.items() if done[what])
    return outcome("restored-with", outcome=memories, parts=parts) if parts else memories


def _hints(
    runtime: Runtime, filed: file_restore.Filed, done: Mapping[str, int], restored: operation.Restore
) -> Iterable[Text]:
    if done["kept_newer"] or done["links_kept"]:
        yield advise("clear-newer", name=restored.checkpoint)
    if done["restored"] and not restored.restore_files:
        yield advise("restore-files")
    if runtime.store.record.is_committed(restored.id):
        yield runtime.take_back
    else:
        yield finding("same-as-checkpoint")
    yield from (finding("file-not-written", path=path, reason=reason) for path, reason in filed.refused.items())
    missing = len(freshness.stale(runtime))
    if missing:
        yield advise("files-missing", count=missing)
