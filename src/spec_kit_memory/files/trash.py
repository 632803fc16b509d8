"""Where does a deleted file go, and how does it come back?"""

from __future__ import annotations

import errno
import hashlib
import secrets
from datetime import datetime

from spec_kit_memory import filesystem
from spec_kit_memory.core.operation import FileChange
from spec_kit_memory.errors import BadPath
from spec_kit_memory.files import disk, paths, write_counters
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings import Settings

__all__ = ["as_change", "discard", "drawer_for", "keep", "recall", "trashed"]

FOLDER = "trash"


def drawer_for(settings: Settings, source: Place, *, at: datetime) -> Place:
    """Where a file would go: under the path it had, in a drawer that nothing else is in."""
    outside = source.base.parts[1:] if source.base != settings.root else ()
    names = [name.replace(":", "") for name in (*outside, *source.names)]
    return paths.state_folder(settings, FOLDER).joined(f"{at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}", *names)


def trashed(settings: Settings, stored: str) -> Place:
    """The place of a file in the trash, by what the record says; a forged one leads nowhere else."""
    folder, *names = stored.split("/")
    if folder != FOLDER or not names:
        raise BadPath(f"{stored} is not in the trash", hint="look for the file in .spec-kit-memory/trash")
    try:
        return paths.state_folder(settings, FOLDER).joined(*names)
    except (OSError, ValueError) as error:
        raise disk_error(error, stored) from error


def discard(source: Place, *, settings: Settings, at: datetime) -> Place:
    """Move a file to the trash, under the path it had; returns where it is now."""
    disk.ensure_state_folder(settings)
    try:
        target = drawer_for(settings, source, at=at)
        filesystem.make_folders(target.parent, mode=0o700)
        _move(source, target)
    except OSError as error:
        write_counters.count(settings, errors=1)
        raise disk_error(error, source.path) from error
    write_counters.count(settings, deletes=1)
    return target


def keep(source: Place, *, settings: Settings, at: datetime) -> Place:
    """Put a copy of a file that is about to be rewritten into the trash; returns where it is."""
    disk.ensure_state_folder(settings)
    try:
        target = drawer_for(settings, source, at=at)
        filesystem.make_folders(target.parent, mode=0o700)
        filesystem.copy(source, target)
    except OSError as error:
        write_counters.count(settings, errors=1)
        raise disk_error(error, source.path) from error
    return target


def as_change(stored: str, trashed: Place, *, settings: Settings) -> FileChange:
    """What the record says of a file that `discard` moved."""
    data, _ = disk.read_bytes(trashed)
    below = trashed.path.relative_to(paths.state_folder(settings, FOLDER).path)
    return FileChange(stored, before=hashlib.sha256(data).hexdigest(), trash=f"{FOLDER}/{below.as_posix()}")


def recall(trashed: Place, *, settings: Settings, to: Place) -> None:
    """Bring a file back from the trash; a file that took its place meanwhile is never replaced."""
    if filesystem.exists(to):
        raise _taken(trashed, to)
    try:
        filesystem.make_folders(to.parent)
        _move(trashed, to)
    except FileExistsError as error:
        raise _taken(trashed, to) from error
    except OSError as error:
        write_counters.count(settings, errors=1)
        raise disk_error(error, trashed.path) from error


def _taken(trashed: Place, to: Place) -> BadPath:
    return BadPath(f"{to.path.as_posix()} exists", hint=f"move it away; the deleted file is {trashed.path.as_posix()}")


def _move(source: Place, target: Place) -> None:
    try:
        filesystem.move_new(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        filesystem.copy(source, target)  # on another disk: copy, sync, then remove
        filesystem.remove(source)
    filesystem.sync(target.parent)
    filesystem.sync(source.parent)
