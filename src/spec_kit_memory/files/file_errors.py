"""What did the operating system refuse, and what is the next step?"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from spec_kit_memory.advice import advise, joined
from spec_kit_memory.errors import AccessDenied, BadPath, FileMissing, OutsideScope, SpecKitMemoryError
from spec_kit_memory.filesystem import NotAFile, Redirected

_NO_FILE = (errno.ENOTDIR, errno.ENAMETOOLONG, errno.EISDIR, errno.ELOOP, errno.EINVAL, errno.ENXIO)


def disk_error(error: OSError | ValueError, path: Path | str) -> SpecKitMemoryError:
    """The `SpecKitMemoryError` for it, with the path and the next step."""
    name = printable(path)
    if isinstance(error, ValueError):
        return BadPath(f"{name!r} is not a path: {error}", hint="remove the characters that no file name can have")
    if isinstance(error, Redirected):
        return OutsideScope(
            f"{name} goes through a link to another place and is not followed",
            hint="replace the link by what it should lead to; nothing was changed",
            path=name,
        )
    if isinstance(error, NotAFile):
        return BadPath(f"{name} is {error.kind}", hint="name a regular file; rename what is there", path=name)
    if isinstance(error, FileNotFoundError):
        return FileMissing(f"{name} does not exist", hint=advise("check-path"), path=name)
    if error.errno in _NO_FILE:
        reason = os.strerror(error.errno)
        return BadPath(f"{name} cannot be used: {reason}", hint="check the path for loops and names", path=name)
    hint = f"give yourself access to {name}, then run the command again"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some disk space, then run the command again"
    elif error.errno == errno.EROFS:
        hint = "the disk is read-only: mount it for writing, or use a workspace elsewhere"
    elif error.errno in (errno.EMFILE, errno.ENFILE):
        hint = "close other programs or raise the limit of open files, then run the command again"
    elif error.errno == errno.EFBIG:
        hint = "raise the limit of file sizes (`ulimit -f`), then run the command again"
    elif error.errno == errno.EIO:
        hint = "the disk does not work: look at the system's log, keep a copy of the workspace, then run it again"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return AccessDenied(f"{name}: {reason}", hint=hint, path=name)


def is_read_only(error: SpecKitMemoryError) -> bool:
    """May this user not write there, as opposed to a write that failed?"""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def is_failing(error: SpecKitMemoryError) -> bool:
    """Did the disk fail, so that nothing is known about the file? A refusal does tell something about it."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno == errno.EIO


def in_file(error: SpecKitMemoryError) -> str:
    """The text stored for an error about a file: its message, and the next step if it is the same for every reader."""
    return joined((error.message, *(part for part in error.advice if isinstance(part, str))))


def printable(path: Path | str) -> str:
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")
