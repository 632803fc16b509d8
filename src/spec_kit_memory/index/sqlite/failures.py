"""What does an error of SQLite or of the system mean to a caller, and what is the next step?"""

from __future__ import annotations

import errno
import os
import shutil
import zlib
from pathlib import Path

import apsw

from spec_kit_memory import filesystem
from spec_kit_memory.advice import Text, advise
from spec_kit_memory.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnusable, SpecKitMemoryError
from spec_kit_memory.index import rows

# Errors that database code may raise and that are turned into errors of this package.
FOREIGN = (apsw.Error, OSError, UnicodeDecodeError, zlib.error)
# Errors that our code raises for rows that we never wrote: an unknown tier, half a list, a vector of another length.
_INVALID_VALUE_ERRORS = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)
_OF_ARGUMENTS = (UnicodeEncodeError, OverflowError)  # caused by a caller's values that SQLite cannot store
# Sharing a file between processes needs space and rights in its folder; without them it can still be read.
CANNOT_BE_SHARED = (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)


def damaged(where: Path | str, reason: object) -> DatabaseCorrupt:
    return DatabaseCorrupt(f"{where} is damaged: {reason}", hint=rows.REBUILD)


def shows_damage(error: BaseException | None) -> bool:
    """Is this an error that reading a damaged row causes? Only for blocks that do nothing but read."""
    if isinstance(error, _OF_ARGUMENTS) or "binding" in str(error):
        return False
    return isinstance(error, _INVALID_VALUE_ERRORS)


def note_errno(error: BaseException, connection: apsw.Connection) -> None:
    """Attach the system's errno to the error: SQLite has the same message for a full disk and a broken one."""
    if isinstance(error, apsw.Error) and not hasattr(error, "system_errno"):
        error.system_errno = connection.system_errno  # type: ignore[attr-defined]


def as_ours(error: BaseException, path: Path, *, busy_seconds: float) -> SpecKitMemoryError:
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return DatabaseBusy(
                f"another process held {path} for more than {busy_seconds:g} seconds",
                hint=advise("who-holds-locks"),
            )
        case apsw.NotADBError():
            return damaged(path, "it is not a database, or its first page was overwritten")
        case apsw.CorruptError() | UnicodeDecodeError() | zlib.error():
            return damaged(path, error)
        case apsw.SQLError():  # our statements are fixed, so the tables must have changed
            return damaged(path, error)
        case apsw.FullError():
            return _full(path)
        case apsw.ReadOnlyError():
            return DatabaseUnusable(f"{path} can only be read", hint="make the file and its folder writable")
        case apsw.CantOpenError() | apsw.IOError() | apsw.PermissionsError() | OSError():
            return _refused(error, path)
    return DatabaseUnusable(f"{path}: {error}", hint=advise("health"))


def _full(path: Path) -> DatabaseUnusable:
    return DatabaseUnusable(f"the disk with {path} is full; nothing was changed", hint="free some space and try again")


def _refused(error: BaseException, path: Path) -> DatabaseUnusable:
    """The error for a refusal by the operating system: its reason, and a hint."""
    code = _errno_of(error, path)
    if code in (errno.ENOSPC, errno.EDQUOT):
        return _full(path)
    reason = f"{path} cannot be used: {os.strerror(code) if code else error}"
    hint: Text
    match code:
        case errno.EMFILE | errno.ENFILE:
            hint = "close other programs or raise the limit of open files, then try again"
        case errno.EROFS:
            hint = "the disk is read-only: mount it for writing, or set semantic.indexPath to a folder that is writable"
        case errno.EIO:
            hint = advise("rebuild-after-copy")
        case errno.EISDIR:
            hint = advise("move-folder-away")
        case _:
            hint = "check the folder's permissions"
    return DatabaseUnusable(reason, hint=hint)


def _errno_of(error: BaseException, path: Path) -> int:
    """The system's errno; if SQLite did not keep it, a guess from the present state of the disk; 0 if unknown."""
    code = error.errno if isinstance(error, OSError) else getattr(error, "system_errno", 0)
    if code:
        return int(code)
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
        if path.is_dir():
            return errno.EISDIR
        if shutil.disk_usage(path.parent).free < filesystem.LEAST_SPACE:
            return errno.ENOSPC
        if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.R_OK)):
            return errno.EACCES
    except OSError as seen:
        return seen.errno or 0
    return 0
