"""What does an error of SQLite or of the system mean to a caller, and what is the next step?"""

from __future__ import annotations

import errno
import os
import shutil
import zlib
from pathlib import Path

import apsw

from spec_kit_memory.advice import Text, advise
from spec_kit_memory.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnusable, SpecKitMemoryError
from spec_kit_memory.index import rows

__all__ = ["CANNOT_BE_SHARED", "FOREIGN", "as_ours", "damaged", "note_errno", "shows_damage"]

# What is not of this package when it comes out of the database: turned into an error of ours.
FOREIGN = (apsw.Error, OSError, UnicodeDecodeError, zlib.error)
# What rows make of our code that are not as we wrote them: an unknown tier, half a list, a vector of another length.
_SENSELESS = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)
_OF_ARGUMENTS = (UnicodeEncodeError, OverflowError)  # the caller's, which SQLite cannot take
# Opening a file for several processes needs room and rights beside it; without them it can still be read.
CANNOT_BE_SHARED = (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)
_LITTLE = 256 * 1024  # bytes free on a disk that counts as full: a log and its index need more


def damaged(where: Path | str, reason: object) -> DatabaseCorrupt:
    return DatabaseCorrupt(f"{where} is damaged: {reason}", hint=rows.REBUILD)


def shows_damage(error: BaseException | None) -> bool:
    """Is this what reading a damaged row ends in? For blocks that do nothing but read."""
    if isinstance(error, _OF_ARGUMENTS) or "binding" in str(error):
        return False
    return isinstance(error, _SENSELESS)


def note_errno(error: BaseException, connection: apsw.Connection) -> None:
    """Keep with the error what the system said: SQLite has one sentence for a full disk and a broken one."""
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
        case apsw.SQLError():  # what we ask for is fixed: the tables are not what they were
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
    """The system said no: why, and what helps."""
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
    """What the system said, or where SQLite did not keep it what can be seen now; 0: unknown."""
    code = error.errno if isinstance(error, OSError) else getattr(error, "system_errno", 0)
    if code:
        return int(code)
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
        if path.is_dir():
            return errno.EISDIR
        if shutil.disk_usage(path.parent).free < _LITTLE:
            return errno.ENOSPC
        if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.R_OK)):
            return errno.EACCES
    except OSError as seen:
        return seen.errno or 0
    return 0
