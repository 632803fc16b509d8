"""Which files does a restore write back, and which does it leave alone?

A file is written only where what it replaces is kept elsewhere, byte for byte as it was where
its stored text allows that. Text that was redacted is not what the file said, and stays out.
Where a memory was in another place until then, its file there goes to the trash: two files
would be two memories.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import Source
from spec_kit_memory.core.operation import FileChange, Operation
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import discover, disk, trash, write_counters
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.files.index_entry import CHAT
from spec_kit_memory.filesystem import Place

# Files of these sources are the user's project; others are only read.
WRITTEN = (Source.MEMORY, Source.CONSTITUTIONAL, Source.SPEC)


@dataclass(slots=True)
class Filed:
    """Paths that were written, and why others were not."""

    written: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Writing:
    """What all files of one restore have in common."""

    operation: Operation
    reason: str
    previous: Mapping[int, Mapping[str, Any]]  # the memories just before, by id, as rows of a snapshot


def write_back(runtime: Runtime, rows: Iterable[Mapping[str, Any]], writing: Writing) -> Filed:
    """Write the files of restored memories, then index them."""
    filed = Filed()
    for row in rows:
        if row["kind"] != "memory" or row["path"].startswith(CHAT) or not _is_restored(runtime, row):
            continue
        try:
            problem = _write_one(runtime, row, writing)
        except SpecKitMemoryError as error:
            problem = error.message
        if problem is None:
            filed.written.append(row["path"])
        elif problem:
            filed.refused[row["path"]] = problem
    return filed


def _is_restored(runtime: Runtime, row: Mapping[str, Any]) -> bool:
    """A memory that was kept because it is newer keeps its file too."""
    memory = runtime.store.by_path(row["path"])
    return memory is not None and memory.path == row["path"] and memory.content_hash == row["content_hash"]


def _write_one(runtime: Runtime, row: Mapping[str, Any], writing: Writing) -> str | None:
    """Why the file was not written; "" where it says so already, None where it was written."""
    if row["redactions"]:
        return "its stored text was redacted"
    if Source(row["source"]) not in WRITTEN:
        return f"files of source {row['source']} are only read"
    target = discover.file_to_change(runtime.settings, row["path"])
    data = as_it_was(row["text"], row["raw_hash"])
    files: list[FileChange] = []
    present = disk.read_bytes(target)[0] if filesystem.exists(target) else None
    if present != data:
        problem = _unkept(runtime, target.path) if present is not None else ""
        if problem:
            return problem
        files.append(_written(runtime, row, target, data, present))
    files += _taken_away(runtime, row["path"], writing)
    if not files:
        return ""
    change = runtime.change(writing.reason, replace(writing.operation, files=tuple(files)))
    runtime.sync.index_file(target.path, change, explicit=True)
    return None


def _written(runtime: Runtime, row: Mapping[str, Any], target: Place, data: bytes, present: bytes | None) -> FileChange:
    """Write it. What is replaced is kept in the trash: its memory may be forgotten, and is in no checkpoint then."""
    kept, before = None, None
    if present is not None:
        before = hashlib.sha256(present).hexdigest()
        copy = trash.keep(target, settings=runtime.settings, at=runtime.now())
        kept = trash.as_change(row["path"], copy, settings=runtime.settings).trash
    try:
        filesystem.make_folders(target.parent)
        filesystem.replace(target, data)
        if mtime_ns := _time_of(row, data):
            filesystem.set_time(target, mtime_ns)
    except OSError as error:
        raise disk_error(error, target.path) from error
    write_counters.count(runtime.settings, atomic_writes=1)
    return FileChange(row["path"], before=before, after=hashlib.sha256(data).hexdigest(), trash=kept)


def keep_if_unspelled(runtime: Runtime, place: Place, data: bytes, text: str) -> str | None:
    """Where its recorded text does not give the bytes of a file back, put them into the trash before it is rewritten.

    Lines that end in several ways, for one: text is recorded with one.
    """
    if as_it_was(text, hashlib.sha256(data).hexdigest()) == data:
        return None
    copy = trash.keep(place, settings=runtime.settings, at=runtime.now())
    return trash.as_change("", copy, settings=runtime.settings).trash


def _taken_away(runtime: Runtime, stored: str, writing: Writing) -> list[FileChange]:
    """The file that the same memory had in another place until then, unless somebody changed it or it is shared."""
    memory = runtime.store.by_path(stored)
    previous = writing.previous.get(memory.id) if memory else None
    if previous is None or previous["path"] == stored or runtime.store.by_path(previous["path"]) is not None:
        return []
    place = discover.file_to_change(runtime.settings, previous["path"])
    if not filesystem.exists(place) or disk.hash_of(place) != previous["raw_hash"]:
        return []
    moved = trash.discard(place, settings=runtime.settings, at=runtime.now())
    return [trash.as_change(previous["path"], moved, settings=runtime.settings)]


def _time_of(row: Mapping[str, Any], data: bytes) -> int:
    """When the file was written: a document without a date of its own has its file's."""
    if hashlib.sha256(data).hexdigest() == row["raw_hash"]:
        return int(row["stamp"][1])
    # The index held another text than the file when the snapshot was taken; the memory's date is what it knew.
    created = datetime.fromisoformat(row["created_at"]) if row["created_at"] else None
    return (created - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000 if created else 0


def _unkept(runtime: Runtime, target: Path) -> str:
    """Why the text that is there now would be lost; "" where it is recorded."""
    present = runtime.sync.preview(target)
    if present.redactions:
        return "the file holds secrets that are kept nowhere else"
    if runtime.whole.text_of(present.content_hash) is None:
        return "the file holds text that is not indexed"
    return ""


def as_it_was(text: str, raw_hash: str) -> bytes:
    """The bytes with that hash: stored text has neither byte order mark nor the file's line ends."""
    plain = text.encode("utf-8")
    return next((data for data in _spellings(text) if hashlib.sha256(data).hexdigest() == raw_hash), plain)


def _spellings(text: str) -> Iterator[bytes]:
    for lines in (text, text.replace("\n", "\r\n"), text.replace("\n", "\r")):
        data = lines.encode("utf-8")
        yield data
        yield codecs.BOM_UTF8 + data
        yield codecs.BOM_UTF16_LE + lines.encode("utf-16-le")
        yield codecs.BOM_UTF16_BE + lines.encode("utf-16-be")
