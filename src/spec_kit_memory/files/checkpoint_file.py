"""What is a checkpoint on disk, and is the one that is read the one that was written?

Gzip-compressed JSON lines: a header, the rows of a snapshot, and a trailer with their number and
the SHA-256 of everything before it. docs/reference/checkpoint-format.md describes the format for
programs that read it without us. Files are written and read row by row, never as a whole.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import secrets
import unicodedata
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import IO, Any

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.errors import DatabaseBusy, RestoreFailed, TooLarge
from spec_kit_memory.files import disk, locks
from spec_kit_memory.index.sqlite.conditions import below
from spec_kit_memory.settings import Settings

__all__ = [
    "FORMAT",
    "VERSION",
    "Checkpoint",
    "Opened",
    "alone",
    "covers",
    "folder",
    "headers",
    "path_of",
    "read",
    "remove",
    "write",
]

FORMAT = "spec-kit-memory checkpoint"
VERSION = 1  # raised when an older program could not read the lines
SUFFIX = ".jsonl.gz"
HINT = "nothing was changed; `skm checkpoint list` shows the others"

# Most of a file is vectors, which hardly shrink: more effort gains two percent.
_LEVEL = 3
_BUFFER = 1 << 20
_LONGEST_LINE = 64 << 20
# A file that unpacks to more than this was not written by us. Real ones shrink to a third or a twentieth.
_MOST_RATIO = 100
_MOST_SLACK = 256 << 20
_LOCK_SECONDS = 120.0
_PLAIN_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a header says, and where the file is."""

    name: str
    created: datetime
    description: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    spec_folder: str | None = None
    git: Mapping[str, str] = field(default_factory=dict)
    automatic: bool = False
    scope: Scope = field(default_factory=Scope)
    memories: int = 0
    path: Path = Path()
    size_bytes: int = 0


def folder(settings: Settings) -> Path:
    return settings.state_folder / "checkpoints"


@contextmanager
def alone(settings: Settings) -> Iterator[None]:
    """One process at a time makes and prunes checkpoints, so that a name is given once."""
    place = _made(settings)
    with locks.Lock(place / ".lock") as lock:
        try:
            taken = lock.wait(seconds=_LOCK_SECONDS)
        except OSError as error:
            raise disk.disk_error(error, lock.path) from error
        if not taken:
            raise DatabaseBusy("another process is making a checkpoint", hint="try again in a moment")
        for left in place.glob(f".*{disk.TEMPORARY}"):
            disk.remove_if_dead(left)
        yield


def _made(settings: Settings) -> Path:
    disk.ensure_state_folder(settings)
    place = folder(settings)
    try:
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise disk.disk_error(error, place) from error
    return place


# --- names and scopes -----------------------------------------------------------


def path_of(settings: Settings, name: str, scope: Scope) -> Path:
    """A file name that every system can have. Names of another case or scope never share a file."""
    plain = _PLAIN_NAME.fullmatch(name) and not _DEVICE.fullmatch(name) and not name.endswith(".")
    if plain and scope == Scope():
        return folder(settings) / f"{name}{SUFFIX}"
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_only).strip("-")[:60] or "checkpoint"
    mark = hashlib.sha256(json.dumps([name, _plain_scope(scope)]).encode()).hexdigest()[:16]
    return folder(settings) / f"{slug}~{mark}{SUFFIX}"


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


def write(settings: Settings, checkpoint: Checkpoint, rows: Iterable[Mapping[str, Any]]) -> Checkpoint:
    """Write all of it or nothing. The first row says how many memories follow."""
    target = path_of(settings, checkpoint.name, checkpoint.scope)
    temporary = _made(settings) / f".{target.name[:150]}.{secrets.token_hex(4)}{disk.TEMPORARY}"
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            locks.try_lock(descriptor)
            with os.fdopen(descriptor, "wb", buffering=_BUFFER, closefd=False) as raw:
                _write_lines(raw, checkpoint, rows)
            os.fsync(descriptor)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
        disk.sync_folder(target.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise disk.disk_error(error, target) from error
    return read(target).header


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
        "created": checkpoint.created.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "spec_folder": checkpoint.spec_folder,
        "git": dict(checkpoint.git),
        "automatic": checkpoint.automatic,
        "scope": _plain_scope(checkpoint.scope),
        "memories": memories,
    }


# --- reading --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Opened:
    """A file whose header was read. Nothing else of it is trusted before it was verified."""

    header: Checkpoint

    def verify(self) -> None:
        """Read everything once and hold it against the trailer; nothing is kept in memory."""
        for _ in self._lines():
            pass

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the snapshot; damage found on the way raises before the last one is given."""
        for number, line in enumerate(self._lines(), start=2):
            yield _parsed(line, self.header.path, number)

    def _lines(self) -> Iterator[bytes]:
        """Lines between header and trailer, each one given only when a further line was read."""
        path = self.header.path
        digest = hashlib.sha256()
        held: bytes | None = None
        count = 0
        for number, line in enumerate(_unpacked(path)):
            if held is not None:
                digest.update(held)
                if number > 1:
                    count += 1
                    yield held
            held = line
        if held is None or not count:
            raise _bad(path, "it ends after its header")
        trailer = _parsed(held, path, count + 2)
        if trailer.get("kind") != "trailer":
            raise _bad(path, "its end is missing: the file was cut off")
        if trailer.get("rows") != count:
            raise _bad(path, f"it has {count} rows, and its last line says {trailer.get('rows')}")
        if trailer.get("sha256") != digest.hexdigest():
            raise _bad(path, "it was changed after it was written: its hash does not fit its content")


def read(path: Path) -> Opened:
    """Open a checkpoint and read its header only."""
    lines = _unpacked(path)
    first = next(lines, None)
    lines.close()
    if first is None:
        raise _bad(path, "it is empty")
    said = _parsed(first, path, 1)
    if said.get("kind") != "checkpoint" or said.get("format") != FORMAT:
        raise _bad(path, "it is not a checkpoint of Spec Kit Memory")
    version = said.get("version")
    if not isinstance(version, int) or not 1 <= version <= VERSION:
        raise RestoreFailed(
            f"{path.name} has format version {version}; this program reads versions up to {VERSION}",
            hint="upgrade spec-kit-memory; nothing was changed",
            path=str(path),
        )
    try:
        return Opened(_checkpoint(said, path))
    except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise _bad(path, f"its header is damaged: {error!r}") from error


def _checkpoint(said: Mapping[str, Any], path: Path) -> Checkpoint:
    scope = said["scope"]
    prefixes = scope["prefixes"]
    texts = [said["name"], said["description"], *(prefixes or ())]
    texts += [value for value in (said["spec_folder"], scope["user"], scope["project"]) if value is not None]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a text is not a text")
    created = datetime.fromisoformat(said["created"])
    return Checkpoint(
        name=said["name"],
        created=created if created.tzinfo else created.replace(tzinfo=UTC),
        description=said["description"],
        metadata=dict(said["metadata"]),
        spec_folder=said["spec_folder"],
        git={str(key): str(value) for key, value in said["git"].items()},
        automatic=bool(said["automatic"]),
        scope=Scope(scope["user"], scope["project"], None if prefixes is None else tuple(prefixes)),
        memories=int(said["memories"]),
        path=path,
        size_bytes=path.stat().st_size,
    )


def _unpacked(path: Path) -> Generator[bytes, None, None]:
    """Lines of a file that may be anything: cut off, foreign, or made to fill the memory."""
    try:
        most = path.stat().st_size * _MOST_RATIO + _MOST_SLACK
        total = 0
        with path.open("rb") as raw, gzip.GzipFile(fileobj=raw, mode="rb") as packed:
            while line := packed.readline(_LONGEST_LINE + 1):
                total += len(line)
                if len(line) > _LONGEST_LINE or total > most:
                    raise _bad(path, f"it unpacks to more than {total:,} bytes, which no checkpoint does")
                if not line.endswith(b"\n"):
                    raise _bad(path, "its last line is cut off")
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _bad(path, f"it is cut off or not gzip: {error}") from error
    except OSError as error:
        raise disk.disk_error(error, path) from error


def _parsed(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _bad(path, f"line {number} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _bad(path, f"line {number} is not an object")
    return value


def _bad(path: Path, reason: str) -> RestoreFailed:
    return RestoreFailed(f"{path.name} cannot be used: {reason}", hint=HINT, path=str(path))


# --- all of them ----------------------------------------------------------------


def headers(settings: Settings, scope: Scope) -> tuple[list[Checkpoint], list[RestoreFailed]]:
    """What a session of that scope may see, newest first, and files that cannot be read."""
    found, bad = [], []
    for path in sorted(folder(settings).glob(f"*{SUFFIX}")):
        try:
            header = read(path).header
        except RestoreFailed as error:
            bad.append(error)
            continue
        if covers(scope, header.scope):
            found.append(header)
    found.sort(key=lambda one: (one.created, one.name), reverse=True)
    return found, bad


def remove(checkpoint: Checkpoint) -> None:
    try:
        checkpoint.path.unlink(missing_ok=True)
    except OSError as error:
        raise disk.disk_error(error, checkpoint.path) from error
