"""Which files does a restore write back, and which does it leave unchanged?

A file is written only where the text that it replaces is kept elsewhere; it is restored byte for
byte where the stored text allows that. Redacted text is not the file's text and is not written.
If the memory was at another path before the restore, its file there goes to the trash: two
files would be two memories.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from spec_kit_memory import filesystem
from spec_kit_memory.advice import Text, finding
from spec_kit_memory.core.memory import CHAT, Memory, Source
from spec_kit_memory.core.operation import Operation
from spec_kit_memory.core.text_encoding import MARKED_ENCODINGS
from spec_kit_memory.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnusable, SpecKitMemoryError
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import discover, disk, file_changes, paths
from spec_kit_memory.files.file_changes import Changes, FileMove, Step, Write
from spec_kit_memory.files.file_errors import is_failing
from spec_kit_memory.filesystem import Place

# Files of these sources are the user's project; others are only read.
WRITTEN = (Source.MEMORY, Source.CONSTITUTIONAL, Source.SPEC)


@dataclass(slots=True)
class Filed:
    """The paths that were written, those whose file was moved to the trash, and why others were not written."""

    written: list[str] = field(default_factory=list)
    trashed: list[str] = field(default_factory=list)
    refused: dict[str, Text] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _File:
    """The write that the file of one row needs if that row is restored."""

    path: str
    content_hash: str
    write: Write | None = None
    problem: Text = ""  # why the file is left unchanged


@dataclass(frozen=True, slots=True)
class FileRestorePlan:
    """What a restore will do to files, prepared before anything changes."""

    files: tuple[_File, ...] = ()
    # The memories just before the restore, by id, as rows of a snapshot; and the files to be moved away, by path.
    previous: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    moves: Mapping[str, FileMove] = field(default_factory=dict)

    @property
    def steps(self) -> list[Step]:
        return [*(file.write for file in self.files if file.write), *self.moves.values()]


def plan(
    runtime: Runtime, rows: Iterable[Mapping[str, Any]], previous: Mapping[int, Mapping[str, Any]]
) -> FileRestorePlan:
    """Check the file of every row. `previous` are the memories just before the restore, by id."""
    drawer = file_changes.drawer(runtime.now())
    files, moves = [], {}
    for row in rows:
        if row["kind"] != "memory" or row["path"].startswith(CHAT):
            continue
        files.append(_planned(runtime, row, drawer))
        before = previous.get(row["id"])
        move = _former_place(runtime, before, drawer) if before and before["path"] != row["path"] else None
        if move is not None:
            moves[move.path] = move
    return FileRestorePlan(tuple(files), previous, moves)


def _planned(runtime: Runtime, row: Mapping[str, Any], drawer: str) -> _File:
    path, content_hash = row["path"], row["content_hash"]
    try:
        return _File(path, content_hash, *_write_of(runtime, row, drawer))
    except SpecKitMemoryError as error:
        if is_failing(error) or isinstance(error, DatabaseBusy | DatabaseCorrupt | DatabaseUnusable):
            raise
        return _File(path, content_hash, problem=error.message)


def _write_of(runtime: Runtime, row: Mapping[str, Any], drawer: str) -> tuple[Write | None, Text]:
    """The step that writes the file, None if the file has that text already; or why it must not be written."""
    if row["redactions"]:
        return None, finding("text-was-redacted")
    if Source(row["source"]) not in WRITTEN:
        return None, finding("source-only-read", source=row["source"])
    target = discover.file_to_change(runtime.settings, row["path"], scope=runtime.scope)
    data = as_it_was(row["text"], row["raw_hash"])
    present = disk.read_bytes(target)[0] if filesystem.exists(target) else None
    if present == data:
        return None, ""
    problem = _unkept(runtime, target.path) if present is not None else ""
    if problem or not _is_writable(target.parent):
        return None, problem or finding("folder-not-writable")
    # The replaced file is kept in the trash: its memory may be forgotten, and forgotten ones are in no checkpoint.
    mtime_ns = _time_of(row, data) or None
    step = file_changes.write(
        runtime.settings, row["path"], data, scope=runtime.scope, mtime_ns=mtime_ns, keep_in=drawer
    )
    return step, ""


def _is_writable(folder: Place) -> bool:
    """Can a file be created there, together with any missing folders?"""
    while folder.names and not filesystem.exists(folder):
        folder = folder.parent
    return filesystem.is_writable(folder)


def _former_place(runtime: Runtime, previous: Mapping[str, Any], drawer: str) -> FileMove | None:
    """The step that moves away the memory's file at its path before the restore, unless that file was edited."""
    if previous["path"].startswith(CHAT):
        return None
    try:
        move = file_changes.discard(runtime.settings, previous["path"], scope=runtime.scope, to=drawer)
    except SpecKitMemoryError as error:
        if is_failing(error):
            raise
        return None
    return move if move is not None and move.digest == previous["raw_hash"] else None


def write_back(
    runtime: Runtime, planned: FileRestorePlan, changes: Changes, *, operation: Operation, reason: str
) -> Filed:
    """Write and index the files of the memories that were restored; runs in the transaction of the restore."""
    filed = Filed()
    for file in planned.files:
        memory = runtime.store.documents.get(path=file.path)
        # A memory that the restore kept because it is newer keeps its file too.
        if memory is None or memory.path != file.path or memory.content_hash != file.content_hash:
            continue
        if file.problem:
            filed.refused[file.path] = file.problem
            continue
        away = _taken_away(runtime, memory, planned)
        steps: list[Step] = [step for step in (file.write, away) if step is not None]
        if steps:
            changes.make(*steps)
            change = runtime.change(reason, replace(operation, files=tuple(step.change for step in steps)))
            runtime.sync.index_file(paths.absolute(runtime.settings, file.path), change, explicit=True)
            filed.written.append(file.path)
            filed.trashed += [away.path] if away else []
    return filed


def _taken_away(runtime: Runtime, memory: Memory, planned: FileRestorePlan) -> FileMove | None:
    """The step that moves a memory's former file away, unless another memory has that path."""
    previous = planned.previous.get(memory.id)
    if (
        previous is None
        or previous["path"] == memory.path
        or runtime.store.documents.get(path=previous["path"]) is not None
    ):
        return None
    return planned.moves.get(previous["path"])


def _time_of(row: Mapping[str, Any], data: bytes) -> int:
    """The modification time to give the file, since a document without a date of its own takes it from the file."""
    if hashlib.sha256(data).hexdigest() == row["raw_hash"]:
        return int(row["stamp"][1])
    # The index had a different text than the file when the snapshot was taken, so only the memory's date is known.
    created = datetime.fromisoformat(row["created_at"]) if row["created_at"] else None
    return (created - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000 if created else 0


def _unkept(runtime: Runtime, target: Path) -> Text:
    """Why overwriting the file would lose its present text; "" if that text is recorded."""
    present = runtime.sync.preview(target)
    if present.redactions:
        return finding("file-has-secrets")
    if runtime.whole.documents.text(content_hash=present.content_hash) is None:
        return finding("file-has-new-text")
    return ""


def spells(text: str, data: bytes) -> bool:
    """Can these bytes be rebuilt from the recorded text? Not with mixed line ends: text is recorded with one kind."""
    return as_it_was(text, hashlib.sha256(data).hexdigest()) == data


def as_it_was(text: str, raw_hash: str) -> bytes:
    """The bytes with that hash, or plain UTF-8: stored text has lost the byte order mark and the file's line ends."""
    plain = text.encode("utf-8")
    return next((data for data in _spellings(text) if hashlib.sha256(data).hexdigest() == raw_hash), plain)


def _spellings(text: str) -> Iterator[bytes]:
    for lines in (text, text.replace("\n", "\r\n"), text.replace("\n", "\r")):
        yield lines.encode("utf-8")
        yield from (mark + lines.encode(encoding) for mark, encoding in MARKED_ENCODINGS)
