"""How does each accepted operation get into git exactly once? As commits on the tip of the save branch, then one push.

The id of each operation is a trailer of its commit, and the history of the tip is searched for it before anything is
committed; the push succeeds only if the branch is still at that tip. So even if a worker dies at any point, or two
work at once, every operation is in git once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spec_kit_memory.core import front_edit
from spec_kit_memory.core.delivery import FileOperation, OperationKind
from spec_kit_memory.core.text_encoding import mark_and_encoding
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.files import disk, index_entry, outgoing, pending
from spec_kit_memory.index.postgres.outbox import Waiting
from spec_kit_memory.team.repository import OccupiedError, Repository

TRAILER = "Spec-Kit-Memory-Operation"
_MOST_PATHS = 50  # in one commit


class Conflict(Exception):  # noqa: N818
    """The file was changed in git by someone else: a person has to decide."""


@dataclass(slots=True)
class PushPlan:
    """How the next push treats the waiting operations."""

    parent: str | None  # the tip that the plan was made for
    written: list[tuple[Waiting, bytes | None]] = field(default_factory=list)  # new content; None: no file
    done: dict[int, str] = field(default_factory=dict)  # sequence -> the commit that has it already
    failed: dict[int, str] = field(default_factory=dict)  # sequence -> the reason
    renamed: list[tuple[Waiting, bytes]] = field(default_factory=list)  # new files whose name is taken


def plan(repository: Repository, parent: str | None, waiting: Sequence[Waiting]) -> PushPlan:
    """Determine what each operation does on this tip."""
    plan = PushPlan(parent)
    if not waiting:
        return plan
    present = repository.trailers(parent, TRAILER) if parent else {}
    texts: dict[str, bytes | None] = {}
    held_up: set[str] = set()
    for entry in waiting:
        path = entry.operation.path
        if path in held_up:
            continue
        holder = present.get(entry.operation.id)
        if holder and repository.touches(holder, path):  # anyone can put a trailer into an unrelated commit
            plan.done[entry.sequence] = holder
            continue
        try:
            if path not in texts:
                texts[path] = _text_at(repository, parent, entry.operation)
            result = _result(entry.operation, texts[path])
        except Conflict as conflict:
            plan.failed[entry.sequence] = f"conflict: {conflict}"
            held_up.add(path)
        except _NameTakenError:
            plan.renamed.append((entry, entry.operation.data or b""))
            held_up.add(path)
        else:
            if result == texts[path] and parent:
                plan.done[entry.sequence] = parent
            else:
                plan.written.append((entry, result))
                texts[path] = result
    return plan


class _NameTakenError(Exception):
    """Git has another text under this name."""


def _text_at(repository: Repository, parent: str | None, operation: FileOperation) -> bytes | None:
    """The file at the operation's path in git. Raises if there is something else, which must not be replaced."""
    try:
        return repository.blob_at(parent, operation.path) if parent else None
    except OccupiedError as error:
        is_new = operation.kind is OperationKind.WRITE and operation.base is None
        if is_new and error.path == operation.path:
            raise _NameTakenError from error
        raise Conflict(error.message) from error


def _result(operation: FileOperation, present: bytes | None) -> bytes | None:
    """The content of the file after applying the operation to its present content."""
    match operation.kind:
        case OperationKind.WRITE if operation.base is None:
            if present not in (None, operation.data):
                raise _NameTakenError
            return operation.data
        case OperationKind.EDIT:
            if present is None:
                raise Conflict("the file was removed in git")
            return _edited(present, operation)
        case _:
            if present == operation.data:
                return operation.data  # already as intended; for a removal, both are None
            if present is None:
                raise Conflict("the file was removed in git")
            if content_hash(present, operation.path) != operation.base:
                raise Conflict("the text was changed in git")
            return operation.data


def _edited(present: bytes, operation: FileOperation) -> bytes:
    mark, encoding = mark_and_encoding(present)
    try:
        text = front_edit.edit_front_matter(disk.decode(present, name=operation.path), dict(operation.keys or {}))
    except SpecKitMemoryError as error:
        raise Conflict(error.message) from error
    return mark + text.encode(encoding)


def content_hash(data: bytes, path: str) -> str:
    """The content hash as the index computes it: without secrets and byte order mark."""
    try:
        file = disk.text_of(data, outgoing.unwritten_facts(size=len(data), mtime_ns=0), name=path, seen_ns=0)
    except SpecKitMemoryError as error:
        raise Conflict(error.message) from error
    return index_entry.parse(file).content_hash


def commit(repository: Repository, made: PushPlan, index_file: Path) -> tuple[str | None, dict[int, str]]:
    """Create the commits of a plan as a chain; returns the last one, and the commit of each operation."""
    tip = made.parent
    if tip:
        repository.require_listable(tip)
    commits: dict[int, str] = {}
    for group in _groups(made.written):
        files = {entry.operation.path: data for entry, data in group}
        tree = repository.with_files(tip, files, index_file)
        first = group[0][0]
        tip = repository.commit_tree(
            tree, tip, _message(group), author=first.author, at=first.accepted_at.isoformat(timespec="seconds")
        )
        commits |= {entry.sequence: tip for entry, _ in group}
    return tip, commits


def _groups(written: Sequence[tuple[Waiting, bytes | None]]) -> Iterator[list[tuple[Waiting, bytes | None]]]:
    """Groups of consecutive changes by one author, without a path occurring twice."""
    group: list[tuple[Waiting, bytes | None]] = []
    for entry, data in written:
        same = group and group[0][0].author == entry.author and len(group) < _MOST_PATHS
        if not same or any(other.operation.path == entry.operation.path for other, _ in group):
            if group:
                yield group
            group = []
        group.append((entry, data))
    if group:
        yield group


_VERBS = {OperationKind.WRITE: "Write", OperationKind.EDIT: "Update", OperationKind.REMOVE: "Remove"}


def _message(group: Sequence[tuple[Waiting, bytes | None]]) -> str:
    first = group[0][0].operation
    named = first.path.rsplit("/", 1)[-1]
    title = f"{_VERBS[first.kind]} {named}" if len(group) == 1 else f"Write {counted(len(group), 'memory')}"
    trailers = "\n".join(f"{TRAILER}: {entry.operation.id}" for entry, _ in group)
    return f"{title}\n\n{trailers}\n"


def free_name(repository: Repository, parent: str | None, path: str, *, taken: set[str]) -> Iterator[str]:
    """Names similar to this one that git does not have."""
    folder, _, name = path.rpartition("/")
    for other in pending.names(Path(folder), name.removesuffix(".md")):
        candidate = other.as_posix()
        if candidate not in taken and (parent is None or not repository.has(parent, candidate)):
            yield candidate
