"""How is a file of a workspace read and written so that nothing is half done?

Functions take a `Place` (see `files.paths`) and turn errors of the system into ours, which name the next step.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import Stamp
from spec_kit_memory.core.text_encoding import mark_and_encoding
from spec_kit_memory.errors import AccessDenied, BadEncoding, SpecKitMemoryError, TooLarge
from spec_kit_memory.files import paths
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.filesystem import Place, Redirected
from spec_kit_memory.settings import Settings

MAX_BYTES = 1024 * 1024
_LAST_NS = 2**63 - 1
TEMPLATE = "context_template.md"
_READ = frozenset({"config.jsonc", TEMPLATE})  # in the state folder; only read by us
_IGNORE = "# Only what people write is kept in git.\n*\n!.gitignore\n!config.jsonc\n!context_template.md\n"


@dataclass(frozen=True, slots=True)
class FileText:
    """A file as it was read: its text, the SHA-256 of its bytes, its time and size."""

    text: str
    raw_hash: str
    stamp: Stamp


# --- reading ------------------------------------------------------------------


def read(place: Place, *, seen_ns: int | None = None) -> FileText:
    """The text of a regular file of at most 1 MB in UTF-8, or UTF-16 with a byte order mark."""
    data, facts = read_bytes(place)
    return text_of(data, facts, name=place.path.as_posix(), seen_ns=seen_ns)


def text_of(data: bytes, facts: os.stat_result, *, name: str, seen_ns: int | None = None) -> FileText:
    """The `FileText` of bytes that were read or are about to be written."""
    stamp = stamp_of(facts, seen_ns=seen_ns)
    return FileText(decode(data, name=name), hashlib.sha256(data).hexdigest(), stamp)


def read_bytes(place: Place) -> tuple[bytes, os.stat_result]:
    """Read a file; all checks are made on the open file, so that it cannot be exchanged in between."""
    try:
        data, facts = filesystem.read(place, limit=MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise disk_error(error, place.path) from error
    if len(data) > MAX_BYTES:
        raise _too_large(place, max(len(data), facts.st_size))
    return data, facts


def stamp_of(facts: os.stat_result, *, seen_ns: int | None = None) -> Stamp:
    return Stamp(facts.st_size, mtime_ns(facts), time.time_ns() if seen_ns is None else seen_ns)


def mtime_ns(facts: os.stat_result) -> int:
    """A file's modification time as the index stores it, limited to 64 bits.

    It is never 0 or less, which in the index means that the file is to be read again.
    """
    return min(max(1, facts.st_mtime_ns), _LAST_NS)


def _too_large(place: Place, size: int) -> TooLarge:
    return TooLarge(
        f"{place.path.as_posix()} has {size:,} bytes; at most {MAX_BYTES:,} are read",
        hint="split the file, or leave it out with `exclude` in .spec-kit-memory/config.jsonc",
        path=str(place.path),
    )


def decode(data: bytes, *, name: str) -> str:
    """Bytes to text, without its byte order mark."""
    mark, encoding = mark_and_encoding(data)
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise BadEncoding(
            f"{name} is not {encoding.upper()}: byte {error.start + len(mark)} cannot be read",
            hint="save the file as UTF-8",
            path=name,
        ) from error
    if "\0" in text:
        raise BadEncoding(
            f"{name} has a NUL character at {text.index(chr(0))}: it is not a text file",
            hint="save the file as UTF-8 text, or leave it out with `exclude` in .spec-kit-memory/config.jsonc",
            path=name,
        )
    return text


# --- writing ------------------------------------------------------------------


def write_atomic(place: Place, content: str | bytes) -> Stamp:
    """Create or replace a file atomically: readers see the old text or the new, also after a power cut.

    A link in its place is refused, the mode of an existing file is kept, and its owner where allowed.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        return stamp_of(filesystem.replace(place, data))
    except (OSError, ValueError) as error:
        raise disk_error(error, place.path) from error


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """Write a file at any path that the user named; it appears only when it is complete."""
    count = 0
    try:
        real = Path(os.path.realpath(path))
        with filesystem.staging(Place.of(real)) as staged:
            with io.BufferedWriter(staged.file()) as file:
                for line in lines:
                    file.write(line.encode() + b"\n")
                    count += 1
            staged.finish()
            staged.install()
        with suppress(OSError):  # it is complete: only if the power fails now may its name be lost
            filesystem.sync(Place.of(real).parent)
    except (OSError, ValueError) as error:
        raise disk_error(error, path) from error
    return count


def hash_of(place: Place) -> str | None:
    """The SHA-256 of a file's bytes; None if there is no readable file."""
    try:
        return hashlib.sha256(read_bytes(place)[0]).hexdigest()
    except SpecKitMemoryError:
        return None


def remove_if_dead(temporary: Place) -> bool:
    """Remove one of our temporary files if its writer died; a living writer holds its lock."""
    try:
        descriptor = filesystem.open_lock(temporary, make=False)
    except OSError:
        return False
    try:
        if not filesystem.try_lock(descriptor):
            return False
        filesystem.remove(temporary)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


# --- the state folder -----------------------------------------------------------


def refuse_links(settings: Settings) -> None:
    """Refuse links and special files in the state folder, so that writes stay in it.

    A repository may contain links to files of its user, and pipes without a writer. The state folder
    itself may be a link where the user's own configuration allows that.
    """
    try:
        place = paths.state_folder(settings)
        facts_by_name = {name: filesystem.look(place / name) for name in filesystem.names(place)}
    except Redirected as error:
        target = os.path.realpath(error.filename)
        raise AccessDenied(
            f"{error.filename} is a link to {target}, outside the workspace",
            hint="remove the link; what belongs there is made again",
        ) from error
    except OSError:
        return  # it does not exist yet, or its first use raises the error
    for name, facts in facts_by_name.items():
        if name not in _READ:
            _refuse(settings, name, facts.st_mode)


def _refuse(settings: Settings, name: str, mode: int) -> None:
    path = settings.state_folder / name
    if stat.S_ISLNK(mode):
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(settings.root) or paths.is_in_git(settings, real):
            raise AccessDenied(
                f"{path} is a link to {real}, outside the workspace",
                hint="remove the link; what belongs there is made again",
            )
        if real.is_dir():  # files in our folders are removed, so none may be another folder
            raise AccessDenied(f"{path} is a link to {real}", hint="remove the link; the folder is made again")
    elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise AccessDenied(f"{path} is neither a file nor a folder", hint="remove it; it is made again where needed")


def template(settings: Settings) -> str | None:
    """The user's own template for saved memories, if any. It may be a link, see `paths.state_text`."""
    if not os.path.lexists(settings.state_folder / TEMPLATE):
        return None
    return read(paths.state_text(settings, TEMPLATE)).text


def make_workspace(settings: Settings, *, config: str) -> tuple[str, ...]:
    """Create the state folder with a configuration to fill in; returns the names of the created files."""
    files = {".gitignore": _IGNORE, "config.jsonc": config}
    try:
        filesystem.make_folders(paths.state_folder(settings), mode=0o700)
        return tuple(name for name, text in files.items() if _make(paths.state(settings, name), text.encode()))
    except OSError as error:
        raise disk_error(error, settings.state_folder) from error


def _make(place: Place, data: bytes) -> bool:
    if filesystem.exists(place):
        return False
    filesystem.replace(place, data)
    return True


def keep_private(settings: Settings) -> None:
    """Close the state folder to other users: git creates it open to all when a repository brings a configuration."""
    with suppress(OSError):  # it does not exist yet, or the disk is read-only
        filesystem.private(paths.state_folder(settings))


def clear_dead(settings: Settings) -> None:
    """Remove temporary files in the state folder whose writers were killed."""
    for names in ((), ("checkpoints",)):
        with suppress(OSError):
            clear_dead_in(paths.state_folder(settings, *names))


def clear_dead_in(folder: Place, *, of: str = "") -> None:
    """Remove our temporary files whose writers died; with `of`, only those meant to replace that file."""
    for name in filesystem.names(folder):
        if name.startswith(f".{of}") and name.endswith(filesystem.TEMPORARY):
            remove_if_dead(folder / name)


def ensure_state_folder(settings: Settings) -> Path:
    """The state folder, for its owner only, with a .gitignore that keeps the index out of git."""
    try:
        filesystem.make_folders(paths.state_folder(settings), mode=0o700)
        _make(paths.state(settings, ".gitignore"), _IGNORE.encode())
    except OSError as error:
        raise disk_error(error, settings.state_folder) from error
    return settings.state_folder


def edited(place: Place, edit: Callable[[str], str]) -> tuple[bytes, bytes]:
    """The bytes of a file that may be written, and what they would be after the edit."""
    data = _read_writable(place)
    mark, encoding = mark_and_encoding(data)
    return data, mark + edit(decode(data, name=place.path.as_posix())).encode(encoding)


def _read_writable(place: Place) -> bytes:
    """The bytes of a file that may be written: replacing a read-only file would ignore its owner's intent."""
    data, facts = read_bytes(place)
    if not facts.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not filesystem.is_writable(place):
        name = place.path.as_posix()
        refusal = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        raise AccessDenied(f"{name} is read-only", hint=f"make it writable: chmod u+w {name}") from refusal
    return data
