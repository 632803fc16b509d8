"""What is the format of a checkpoint, and how is damage to one detected?

Gzip-compressed JSON lines: a header, the rows of a snapshot, and a trailer with their number and
the SHA-256 of everything before it. docs/reference/checkpoint-format.md describes the format for
programs that read it without us. Files are written and read row by row, never as a whole.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import unicodedata
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import IO, Any

from spec_kit_memory.advice import advise
from spec_kit_memory.core import json_stream
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.core.scope import below
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import (
    AccessDenied,
    BadPath,
    FileMissing,
    OutsideScope,
    RestoreFailed,
    SpecKitMemoryError,
    TooLarge,
)
from spec_kit_memory.files.checkpoint_shelf import SUFFIX, CheckpointShelf, FileSlot, FolderShelf, Slot
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings import Settings

FORMAT = "spec-kit-memory checkpoint"
VERSION = 1  # raised when an older program could not read the lines
QUICK_BYTES = 16_000_000  # compressed; verifying more takes too long for a quick check
HINT = advise("other-checkpoints")

# Most of a file is vectors, which hardly compress: a higher level gains two percent.
_LEVEL = 3
_LONGEST_LINE = 64 << 20
_LONGEST_HEADER = 4 << 20  # the header of every file is read for each listing
_LAST_SEQUENCE = 2**53
# A file with a higher ratio was not written by us. Real ones compress to between a third and a twentieth.
_MOST_RATIO = 100
_MOST_SLACK = 256 << 20
_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
# Damaged, of another program, not permitted, or not a regular file (a link, a pipe).
UNREADABLE = (RestoreFailed, AccessDenied, BadPath, OutsideScope)
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The fields of a header, and the place of the file."""

    name: str
    created: datetime
    sequence: int = 0  # one more than any earlier one; 0 in files of 0.1. Unlike a clock, it cannot be set back
    description: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    spec_folder: str | None = None
    git: Mapping[str, str] = field(default_factory=dict)
    automatic: bool = False
    scope: Scope = field(default_factory=Scope)
    memories: int = 0
    place: Slot = field(default_factory=lambda: FileSlot(Place(Path())))
    size_bytes: int = 0
    instance: str = ""  # id of the index that it was made from; a repository cannot know it

    @property
    def age(self) -> tuple[int, datetime, str]:
        """The sort key by age: the older of two has the smaller one."""
        return self.sequence, self.created, self.name


def folder(settings: Settings) -> Place:
    return FolderShelf(settings).folder


# --- names and scopes -----------------------------------------------------------


def place_of(shelf: CheckpointShelf, name: str, scope: Scope) -> Slot:
    """The slot of a name, valid on every file system. Names that differ in case or scope never share one."""
    plain = _PLAIN_NAME.fullmatch(name) and not _DEVICE.fullmatch(name) and not name.endswith(".")
    if plain and scope == Scope():
        return shelf.slot(f"{name}{SUFFIX}")
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_only).strip("-")[:60] or "checkpoint"
    mark = hashlib.sha256(json.dumps([name, _plain_scope(scope)]).encode()).hexdigest()[:16]
    return shelf.slot(f"{slug}~{mark}{SUFFIX}")


def covers(scope: Scope, other: Scope) -> bool:
    """Does a session of `scope` see everything that one of `other` sees?"""
    if other.user not in (None, scope.user) or other.project not in (None, scope.project):
        return False
    if scope.prefixes is None:
        return True
    if other.prefixes is None:
        return False
    return all(any(below(inner, outer) for outer in scope.prefixes) for inner in other.prefixes)


def _plain_scope(scope: Scope) -> dict[str, Any]:
    prefixes = None if scope.prefixes is None else list(scope.prefixes)
    return {"user": scope.user, "project": scope.project, "prefixes": prefixes}


# --- writing --------------------------------------------------------------------


def write(shelf: CheckpointShelf, checkpoint: Checkpoint, rows: Iterable[Mapping[str, Any]]) -> Checkpoint:
    """Write the whole file or nothing. The first row gives the number of memories."""
    if isinstance(shelf, FolderShelf):
        shelf.make()
    target = place_of(shelf, checkpoint.name, checkpoint.scope)
    with target.writing() as raw:
        _write_lines(raw, checkpoint, rows)
    try:
        return read(target).header
    except SpecKitMemoryError:  # a checkpoint that was refused must not remain
        with suppress(SpecKitMemoryError):
            target.remove()
        raise


def _write_lines(raw: IO[bytes], checkpoint: Checkpoint, rows: Iterable[Mapping[str, Any]]) -> None:
    digest = hashlib.sha256()
    counts: dict[str, int] = {}
    remaining = iter(rows)
    first = next(remaining)
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=_LEVEL, mtime=0) as packed:

        def put(value: Mapping[str, Any]) -> None:
            line = _line(value)
            digest.update(line)
            packed.write(line)

        put(_header(checkpoint, memories=int(first["memories"])))
        for row in chain((first,), remaining):
            counts[row["kind"]] = counts.get(row["kind"], 0) + 1
            put(row)
        trailer = {"kind": "trailer", "rows": sum(counts.values()), "counts": counts, "sha256": digest.hexdigest()}
        packed.write(_line(trailer))


def _line(value: Mapping[str, Any]) -> bytes:
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
    if len(line) >= _LONGEST_LINE:
        raise TooLarge(
            f"{value.get('path', value['kind'])} has {len(line):,} bytes, more than a checkpoint's line holds",
            hint="forget that memory, or make checkpoints of single spec folders",
        )
    return line + b"\n"


def _header(checkpoint: Checkpoint, *, memories: int) -> dict[str, Any]:
    return {
        "kind": "checkpoint",
        "format": FORMAT,
        "version": VERSION,
        "name": checkpoint.name,
        "description": checkpoint.description,
        "metadata": dict(checkpoint.metadata),
        "sequence": checkpoint.sequence,
        "created": checkpoint.created.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "spec_folder": checkpoint.spec_folder,
        "git": dict(checkpoint.git),
        "automatic": checkpoint.automatic,
        "scope": _plain_scope(checkpoint.scope),
        "memories": memories,
    }


# --- reading --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenedCheckpoint:
    """A file whose header was read. The rest is not trusted until it is verified."""

    header: Checkpoint

    def verify(self) -> None:
        """Read everything once and compare it with the trailer; nothing is kept in memory."""
        for _ in self._lines():
            pass

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the snapshot; damage raises before the last row is yielded."""
        for number, line in enumerate(self._lines(), start=2):
            yield _parsed(line, self.header.place, number)

    def _lines(self) -> Iterator[bytes]:
        """The lines between header and trailer, each yielded only after the next line was read."""
        place = self.header.place
        digest = hashlib.sha256()
        previous: bytes | None = None
        count = 0
        for number, line in enumerate(_unpacked(place)):
            if previous is not None:
                digest.update(previous)
                if number > 1:
                    count += 1
                    yield previous
            previous = line
        if previous is None or not count:
            raise _bad(place, "it ends after its header")
        trailer = _parsed(previous, place, count + 2)
        if trailer.get("kind") != "trailer":
            raise _bad(place, "its end is missing: the file was cut off")
        if trailer.get("rows") != count:
            raise _bad(place, f"it has {counted(count, 'row')}, and its last line says {trailer.get('rows')}")
        if trailer.get("sha256") != digest.hexdigest():
            raise _bad(place, "it was changed after it was written: its hash does not fit its content")


def read(place: Slot | Place) -> OpenedCheckpoint:
    """Open a checkpoint and read its header only."""
    place = FileSlot(place) if isinstance(place, Place) else place
    lines = _unpacked(place, longest=_LONGEST_HEADER)
    first, instance = next(lines, None), ""
    with suppress(RestoreFailed):  # the rest is checked when it is restored
        instance = str(_parsed(next(lines, b"{}"), place, 2).get("instance", ""))
    lines.close()
    if first is None:
        raise _bad(place, "it is empty")
    header = _parsed(first, place, 1)
    if header.get("kind") != "checkpoint" or header.get("format") != FORMAT:
        raise _bad(place, "it is not a checkpoint of Spec Kit Memory")
    version = header.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise RestoreFailed(
            f"{place.name} has format version {version}; this program reads versions up to {VERSION}",
            hint="upgrade spec-kit-memory; nothing was changed",
            path=str(place),
        )
    try:
        return OpenedCheckpoint(replace(_checkpoint(header, place), instance=instance))
    except OSError as error:
        raise disk_error(error, str(place)) from error
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise _bad(place, f"its header is damaged: {error!r}") from error


def _checkpoint(header: Mapping[str, Any], place: Slot) -> Checkpoint:
    scope = header["scope"]
    prefixes = scope["prefixes"]
    texts = [header["name"], header["description"], *(prefixes or ())]
    texts += [value for value in (header["spec_folder"], scope["user"], scope["project"]) if value is not None]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a text is not a text")
    created = datetime.fromisoformat(header["created"])
    return Checkpoint(
        name=header["name"],
        created=created if created.tzinfo else created.replace(tzinfo=UTC),
        sequence=_sequence(header.get("sequence")),
        description=header["description"],
        metadata=dict(header["metadata"]),
        spec_folder=header["spec_folder"],
        git={str(key): str(value) for key, value in header["git"].items()},
        automatic=bool(header["automatic"]),
        scope=Scope(scope["user"], scope["project"], None if prefixes is None else tuple(prefixes)),
        memories=int(header["memories"]),
        place=place,
        size_bytes=place.size(),
    )


def _sequence(value: object) -> int:
    """The sequence number; a forged one that would remain the newest for ever counts as 0."""
    return value if type(value) is int and 0 <= value <= _LAST_SEQUENCE else 0


def next_sequence(checkpoints: Iterable[Checkpoint]) -> int:
    return min(_LAST_SEQUENCE, 1 + max((checkpoint.sequence for checkpoint in checkpoints), default=0))


def _unpacked(place: Slot, *, longest: int = _LONGEST_LINE) -> Generator[bytes, None, None]:
    """The lines of an untrusted file: it may be truncated, foreign, or designed to exhaust memory."""
    try:
        total = 0
        with place.reading() as (raw, size), gzip.GzipFile(fileobj=raw, mode="rb") as packed:
            most = size * _MOST_RATIO + _MOST_SLACK
            while line := packed.readline(longest + 1):
                total += len(line)
                if len(line) > longest or total > most:
                    raise _bad(place, f"it unpacks to more than {total:,} bytes, which no checkpoint does")
                if not line.endswith(b"\n"):
                    raise _bad(place, "its last line is cut off")
                yield line
    except (EOFError, zlib.error) as error:
        raise _bad(place, "it is cut off or damaged") from error
    except gzip.BadGzipFile as error:
        raise _bad(place, "it is not a gzip file, or is damaged") from error
    except OSError as error:
        raise disk_error(error, str(place)) from error


def _parsed(line: bytes, place: Slot, number: int) -> dict[str, Any]:
    try:
        value = json_stream.read(line)
    except (ValueError, RecursionError) as error:
        raise _bad(place, f"line {number} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _bad(place, f"line {number} is not an object")
    return value


def _bad(place: Slot, reason: str) -> RestoreFailed:
    return RestoreFailed(f"{place.name} cannot be used: {reason}", hint=HINT, path=str(place))


# --- all of them ----------------------------------------------------------------


def carry(
    source: CheckpointShelf, target: CheckpointShelf, *, instances: tuple[str, str], if_it_fails: ExitStack
) -> int:
    """Copy the checkpoints that can be read to the shelf of a copied index; returns how many.

    `instances`: of the index and its copy. Both have the same ids, so what was made from the one belongs to the other.
    `if_it_fails` gets what removes the files again that were made; rows belong to the transaction.
    """
    count = 0
    for slot in source.slots():
        try:
            opened = read(slot)
            opened.verify()
        except (FileMissing, *UNREADABLE):  # removed meanwhile, or of no use; the source still has it
            continue
        new = place_of(target, opened.header.name, opened.header.scope)
        is_file_made = isinstance(target, FolderShelf) and not new.exists()
        write(target, opened.header, _belonging(opened, instances))
        if is_file_made:
            if_it_fails.callback(_remove_slot, new)
        count += 1
    return count


def _remove_slot(slot: Slot) -> None:
    with suppress(SpecKitMemoryError):
        slot.remove()


def _belonging(opened: OpenedCheckpoint, instances: tuple[str, str]) -> Iterator[Mapping[str, Any]]:
    for row in opened.rows():
        yield {**row, "instance": instances[1]} if row.get("instance") == instances[0] else row


def headers(shelf: CheckpointShelf, scope: Scope) -> tuple[list[Checkpoint], list[SpecKitMemoryError]]:
    """The checkpoints that a session of that scope may see, newest first, and errors of unreadable ones."""
    checkpoints: list[Checkpoint] = []
    bad: list[SpecKitMemoryError] = []
    for place in shelf.slots():
        try:
            header = read(place).header
        except FileMissing:  # deleted in the meantime
            continue
        except UNREADABLE as error:  # one of them must not hide the others
            bad.append(error)
            continue
        if covers(scope, header.scope):
            checkpoints.append(header)
    checkpoints.sort(key=lambda checkpoint: checkpoint.age, reverse=True)
    return checkpoints, bad


def damage(
    checkpoints: Iterable[Checkpoint], *, most_bytes: int | None = QUICK_BYTES
) -> tuple[dict[str, SpecKitMemoryError], bool]:
    """The errors of damaged checkpoints by place, and whether all of them were verified.

    They are read in the given order until `most_bytes` would be exceeded.
    """
    errors: dict[str, SpecKitMemoryError] = {}
    left = most_bytes
    for checkpoint in checkpoints:
        if left is not None:
            left -= checkpoint.size_bytes
            if left < 0:
                return errors, False
        try:
            OpenedCheckpoint(checkpoint).verify()
        except SpecKitMemoryError as error:
            errors[str(checkpoint.place)] = error
    return errors, True
