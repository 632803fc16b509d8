"""How does what was accepted get into git, each once? As commits on the tip of the save branch, then one push.

Every operation's id is a trailer of its commit, and is looked for on the tip before anything is committed; the push
goes through only if that tip is still the branch. So a worker that dies anywhere, or two that believe they are the
only one, leave every operation in git once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spec_kit_memory.core import front_edit
from spec_kit_memory.core.byte_order_mark import mark_and_encoding
from spec_kit_memory.core.delivery import FileOperation, OperationKind
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.files import disk, index_entry, outgoing, pending
from spec_kit_memory.index.postgres.outbox import Waiting
from spec_kit_memory.team.repository import OccupiedError, Repository

__all__ = ["TRAILER", "Conflict", "PushPlan", "commit", "plan"]

TRAILER = "Spec-Kit-Memory-Operation"
_MOST_PATHS = 50  # of one commit


class Conflict(Exception):  # noqa: N818
    """What is in git was changed by somebody else: a person has to decide."""


@dataclass(slots=True)
class PushPlan:
    """What the next push does with some operations."""

    parent: str | None  # the tip that all of it was looked up on
    written: list[tuple[Waiting, bytes | None]] = field(default_factory=list)  # new content; None: no file
    done: dict[int, str] = field(default_factory=dict)  # sequence -> commit: it is in git already
    failed: dict[int, str] = field(default_factory=dict)  # sequence -> why
    renamed: list[tuple[Waiting, bytes]] = field(default_factory=list)  # their name is taken


def plan(repository: Repository, parent: str | None, waiting: Sequence[Waiting]) -> PushPlan:
    """What each operation comes to on this tip."""
    made = PushPlan(parent)
    if not waiting:
        return made
    present = repository.trailers(parent, TRAILER) if parent else {}
    texts: dict[str, bytes | None] = {}
    held_up: set[str] = set()
    for one in waiting:
        path = one.operation.path
        if path in held_up:
            continue
        holder = present.get(one.operation.id)
        if holder and repository.touches(holder, path):  # anybody can write a trailer into a commit about nothing
            made.done[one.sequence] = holder
            continue
        try:
            if path not in texts:
                texts[path] = _text_at(repository, parent, one.operation)
            result = _result(one.operation, texts[path])
        except Conflict as conflict:
            made.failed[one.sequence] = f"conflict: {conflict}"
            held_up.add(path)
        except _NameTakenError:
            made.renamed.append((one, one.operation.data or b""))
            held_up.add(path)
        else:
            if result == texts[path] and parent:
                made.done[one.sequence] = parent
            else:
                made.written.append((one, result))
                texts[path] = result
    return made


class _NameTakenError(Exception):
    """Another text is there under this name."""


def _text_at(repository: Repository, parent: str | None, operation: FileOperation) -> bytes | None:
    """What git has at the operation's path. Whatever else is there stays: it is not the memory's to replace."""
    try:
        return repository.blob_at(parent, operation.path) if parent else None
    except OccupiedError as error:
        is_new = operation.kind is OperationKind.WRITE and operation.base is None
        if is_new and error.path == operation.path:
            raise _NameTakenError from error
        raise Conflict(error.message) from error


def _result(operation: FileOperation, present: bytes | None) -> bytes | None:
    """The content of the file after the operation, on whatever is there now."""
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
                return operation.data  # of a removal: there is none, and none is there
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
    """As the index would have it: without secrets and byte order mark."""
    try:
        file = disk.text_of(data, outgoing.unwritten_facts(size=len(data), mtime_ns=0), name=path, seen_ns=0)
    except SpecKitMemoryError as error:
        raise Conflict(error.message) from error
    return index_entry.parse(file).content_hash


def commit(repository: Repository, made: PushPlan, index_file: Path) -> tuple[str | None, dict[int, str]]:
    """The commits of a plan, one upon the other; returns the last one, and which operation is in which."""
    tip = made.parent
    if tip:
        repository.require_listable(tip)
    commits: dict[int, str] = {}
    for group in _groups(made.written):
        files = {one.operation.path: data for one, data in group}
        tree = repository.with_files(tip, files, index_file)
        first = group[0][0]
        tip = repository.commit_tree(
            tree, tip, _message(group), author=first.author, at=first.accepted_at.isoformat(timespec="seconds")
        )
        commits |= {one.sequence: tip for one, _ in group}
    return tip, commits


def _groups(written: Sequence[tuple[Waiting, bytes | None]]) -> Iterator[list[tuple[Waiting, bytes | None]]]:
    """Neighbours of one author, as long as no path comes twice."""
    group: list[tuple[Waiting, bytes | None]] = []
    for one, data in written:
        same = group and group[0][0].author == one.author and len(group) < _MOST_PATHS
        if not same or any(other.operation.path == one.operation.path for other, _ in group):
            if group:
                yield group
            group = []
        group.append((one, data))
    if group:
        yield group


_VERBS = {OperationKind.WRITE: "Write", OperationKind.EDIT: "Update", OperationKind.REMOVE: "Remove"}


def _message(group: Sequence[tuple[Waiting, bytes | None]]) -> str:
    first = group[0][0].operation
    named = first.path.rsplit("/", 1)[-1]
    title = f"{_VERBS[first.kind]} {named}" if len(group) == 1 else f"Write {counted(len(group), 'memory')}"
    trailers = "\n".join(f"{TRAILER}: {one.operation.id}" for one, _ in group)
    return f"{title}\n\n{trailers}\n"


def free_name(repository: Repository, parent: str | None, path: str, *, taken: set[str]) -> Iterator[str]:
    """Names beside this one that git does not have."""
    folder, _, name = path.rpartition("/")
    for other in pending.names(Path(folder), name.removesuffix(".md")):
        candidate = other.as_posix()
        if candidate not in taken and (parent is None or not repository.has(parent, candidate)):
            yield candidate
