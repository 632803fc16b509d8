"""How is a file read and written so that nothing is half done, and which files may a caller name?

Containment is decided on real paths, segment by segment. Paths are stored relative to the
workspace with "/", or absolute where the file lies outside it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from spec_kit_memory.core.memory import Scope, Stamp
from spec_kit_memory.errors import (
    AccessDenied,
    BadEncoding,
    BadPath,
    FileMissing,
    OutsideScope,
    SpecKitMemoryError,
    TooLarge,
)
from spec_kit_memory.files import locks
from spec_kit_memory.settings import Settings

__all__ = [
    "MAX_BYTES",
    "FileText",
    "absolute",
    "canonical",
    "contained",
    "decode",
    "disk_error",
    "ensure_state_folder",
    "extra_bases",
    "keep_private",
    "read",
    "refuse_links",
    "remove_if_dead",
    "scope_of",
    "scoped_name",
    "stored_form",
    "sync_folder",
    "write_atomic",
]

MAX_BYTES = 1024 * 1024
TEMPORARY = ".skm.tmp"  # how our own temporary files end
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_READ = frozenset({"config.jsonc", "context_template.md"})  # of the state folder, never written by us
_IGNORE = "# Only what people write is kept in git.\n*\n!.gitignore\n!config.jsonc\n!context_template.md\n"
_MAGIC = frozenset("*?[")
_DEVICES = frozenset(("CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(1, 10))))


@dataclass(frozen=True, slots=True)
class FileText:
    """A file as it was read: its text, the SHA-256 of its bytes, and when and how large it was."""

    text: str
    raw_hash: str
    stamp: Stamp


# --- reading ------------------------------------------------------------------


def read(path: Path, *, seen_ns: int | None = None) -> FileText:
    """The text of a regular file of at most 1 MB in UTF-8, or UTF-16 with a byte order mark."""
    data, facts = _bytes_of(path)
    text = decode(data, name=path.as_posix())
    stamp = Stamp(facts.st_size, facts.st_mtime_ns, time.time_ns() if seen_ns is None else seen_ns)
    return FileText(text, hashlib.sha256(data).hexdigest(), stamp)


def _bytes_of(path: Path) -> tuple[bytes, os.stat_result]:
    """All checks are made on the open file, so that nothing can be exchanged in between."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe must not block us
    try:
        facts = os.stat(path)
        _check_kind(path, facts)
        descriptor = os.open(path, flags)
        try:
            facts = os.fstat(descriptor)
            _check_kind(path, facts)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise disk_error(error, path) from error
    if len(data) > MAX_BYTES:
        raise _too_large(path, len(data))
    return data, facts


def _check_kind(path: Path, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        kind = "a folder" if stat.S_ISDIR(facts.st_mode) else "not a regular file"
        raise BadPath(f"{path.as_posix()} is {kind}", hint="name a regular file; rename what is there", path=str(path))
    if facts.st_size > MAX_BYTES:
        raise _too_large(path, facts.st_size)


def _too_large(path: Path, size: int) -> TooLarge:
    return TooLarge(
        f"{path.as_posix()} has {size:,} bytes; at most {MAX_BYTES:,} are read",
        hint="split the file, or leave it out with `exclude` in .spec-kit-memory/config.jsonc",
        path=str(path),
    )


def decode(data: bytes, *, name: str) -> str:
    """Bytes to text, without its byte order mark."""
    mark, encoding = next(((m, e) for m, e in _BOMS if data.startswith(m)), (b"", "utf-8"))
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


def disk_error(error: OSError | ValueError, path: Path | str) -> SpecKitMemoryError:
    """What the operating system refused, as an error that names the path and the next step."""
    name = _printable(path)
    if isinstance(error, ValueError):
        return BadPath(f"{name!r} is not a path: {error}", hint="remove the characters that no file name can have")
    if isinstance(error, FileNotFoundError):
        return FileMissing(f"{name} does not exist", hint="check the path; `skm list` shows what is indexed", path=name)
    if error.errno in (errno.ENOTDIR, errno.ENAMETOOLONG, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO):
        reason = os.strerror(error.errno)
        return BadPath(f"{name} cannot be used: {reason}", hint="check the path for loops and names", path=name)
    hint = f"give yourself access to {name}, then run the command again"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some disk space, then run the command again"
    elif error.errno == errno.EROFS:
        hint = "the disk is read-only: mount it for writing, or use a workspace elsewhere"
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        hint = "close other programs or raise the limit of open files, then run the command again"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return AccessDenied(f"{name}: {reason}", hint=hint, path=name)


def _printable(path: Path | str) -> str:
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


# --- writing ------------------------------------------------------------------


def write_atomic(path: Path, content: str | bytes) -> Stamp:
    """Replace a file in one step: readers see the old text or the new, also after a power cut.

    A link is written through, the mode of an existing file is kept, and its owner where allowed.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    target = Path(os.path.realpath(path))
    try:
        _replace(target, data)
        sync_folder(target.parent)
        facts = os.stat(target)
    except (OSError, ValueError) as error:
        raise disk_error(error, path) from error
    return Stamp(facts.st_size, facts.st_mtime_ns, time.time_ns())


def _replace(target: Path, data: bytes, *, tries: int = 3) -> None:
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        with _new_file(temporary, data, like=target):
            os.replace(temporary, target)
    except FileNotFoundError:
        # In the moment before it was locked, another process may have taken it for a dead writer's.
        if tries < 2 or not target.parent.is_dir():
            raise
        _replace(target, data, tries=tries - 1)


@contextmanager
def _new_file(path: Path, data: bytes, *, like: Path) -> Iterator[None]:
    """A new file, synced; gone if the block fails, and locked until its end: so others tell a dead writer's."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    closed = False
    try:
        locks.try_lock(descriptor)
        _keep_mode(descriptor, like)
        write_all(descriptor, data)
        os.fsync(descriptor)
        if sys.platform == "win32":  # where an open file keeps its name
            os.close(descriptor)
            closed = True
        yield
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        if not closed:
            os.close(descriptor)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _keep_mode(descriptor: int, like: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        facts = os.stat(like)
    except FileNotFoundError:
        return
    os.fchmod(descriptor, stat.S_IMODE(facts.st_mode))
    if (facts.st_uid, facts.st_gid) != (os.geteuid(), os.getegid()):
        try:
            os.fchown(descriptor, facts.st_uid, facts.st_gid)
        except PermissionError:
            return  # only root may give files away


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut, where the system can."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot
            raise
    finally:
        os.close(descriptor)


def remove_if_dead(temporary: Path) -> bool:
    """Remove a temporary file of ours whose writer died; a living writer holds its lock."""
    try:
        descriptor = os.open(temporary, os.O_RDWR)
    except OSError:
        return False
    try:
        if not locks.try_lock(descriptor):
            return False
        temporary.unlink(missing_ok=True)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def refuse_links(settings: Settings) -> None:
    """What is written in the state folder stays there. A repository may bring links in it, to files of its reader."""
    folder = settings.state_folder
    try:
        suspects = [Path(entry.path) for entry in os.scandir(folder) if entry.is_symlink() and entry.name not in _READ]
    except FileNotFoundError:
        suspects = []
    except OSError:
        return  # whoever needs it says why it cannot be read
    if folder.is_symlink():
        suspects.append(folder)
    for link in suspects:
        target = link.resolve()
        if not target.is_relative_to(settings.root.resolve()):
            raise AccessDenied(
                f"{link} is a link to {target}, outside the workspace", hint="remove the link; the index is made again"
            )


def keep_private(settings: Settings) -> None:
    """Close the state folder to others: git makes it open to all where a configuration came with a repository."""
    folder = settings.state_folder
    try:
        facts = os.stat(folder)
        if sys.platform != "win32" and facts.st_mode & 0o077 and facts.st_uid == os.geteuid():
            os.chmod(folder, 0o700)
    except OSError:
        return  # not there yet, or on a disk that cannot be written


def ensure_state_folder(settings: Settings) -> Path:
    """The state folder, for its owner only, with a .gitignore that keeps the index out of git."""
    folder = settings.state_folder
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        ignore = folder / ".gitignore"
        if not ignore.exists():
            write_atomic(ignore, _IGNORE)
    except OSError as error:
        raise disk_error(error, folder) from error
    return folder


# --- paths --------------------------------------------------------------------


def stored_form(settings: Settings, path: Path) -> str:
    """A canonical path as the index keeps it."""
    try:
        return path.relative_to(settings.root).as_posix()
    except ValueError:
        return path.as_posix()


def canonical(path: Path) -> Path:
    """The real folder with the path's own last name, which may be a link's or no longer there."""
    return Path(os.path.realpath(path.parent)) / path.name


def absolute(settings: Settings, stored: str) -> Path:
    """Where the file of a stored path is."""
    return settings.root / stored


def scope_of(settings: Settings) -> Scope:
    """What a session with these settings may see."""
    return settings.scope


def scoped_name(settings: Settings, name: str) -> str:
    """A file of the state folder that each scope has for itself: counts of one must not tell of another."""
    scope = settings.scope
    if scope == Scope():
        return name
    mark = hashlib.sha256(repr(scope).encode("utf-8", "backslashreplace")).hexdigest()[:16]
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}-{mark}{dot}{suffix}"


def extra_bases(settings: Settings) -> tuple[Path, ...]:
    """The real folders and files that `extraPaths` opens; of a glob, the part before its first wildcard."""
    return tuple(Path(os.path.realpath(split_glob(settings, extra)[0])) for extra in settings.extra_paths)


def split_glob(settings: Settings, extra: str) -> tuple[Path, tuple[str, ...]]:
    """An extra path as the folder or file that is certain and the segments with wildcards below it."""
    parts = (settings.root / Path(extra).expanduser()).parts
    magic = next((i for i, part in enumerate(parts) if _MAGIC.intersection(part)), len(parts))
    return Path(*parts[:magic]), parts[magic:]


def contained(settings: Settings, path: str | Path) -> Path:
    """The real path of a file or folder that a caller named, if this session may touch it."""
    name = str(path)
    _check_name(name)
    try:
        real = Path(os.path.realpath(settings.root / name))
    except (OSError, ValueError) as error:
        raise disk_error(error, name) from error
    inside = any(real == allowed or allowed in real.parents for allowed in _allowed(settings))
    if not inside or _is_anothers(settings, real):
        raise OutsideScope(
            f"{_printable(name)} is outside what this session may use",
            hint="name a path inside the workspace, or start the server with other `isolation.allowedPaths`",
        )
    _check_special(real, name)
    return real


def _allowed(settings: Settings) -> tuple[Path, ...]:
    allowed = settings.isolation.allowed_paths
    if allowed is None:
        return (Path(os.path.realpath(settings.root)), *extra_bases(settings))
    return tuple(Path(os.path.realpath(settings.root / one)) for one in allowed)


def _is_anothers(settings: Settings, real: Path) -> bool:
    """Does the path lie in the namespace of a user other than this session's?"""
    users = settings.root / "memory" / "users"
    return users in real.parents and real.relative_to(users).parts[0] != settings.isolation.user_id


def _check_name(name: str) -> None:
    if not name.strip():
        raise BadPath("the path is empty", hint="name a file")
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise BadPath(f"{_printable(name)!r} is not a path", hint="remove the characters that no file name can have")
    last = re.split(r"[/\\]", name)[-1].split(".")[0].upper()
    if name.startswith(("\\\\.\\", "\\\\?\\")) or (sys.platform == "win32" and last in _DEVICES):
        raise BadPath(f"{name!r} is a device, not a file", hint="name a regular file")


def _check_special(real: Path, name: str) -> None:
    try:
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise disk_error(error, name) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise BadPath(f"{name} is not a regular file", hint="name a regular file; devices and pipes are not read")
