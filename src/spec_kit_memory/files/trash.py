"""Where does a deleted file go, and how does it come back?"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from datetime import datetime
from pathlib import Path, PurePosixPath

from spec_kit_memory.core.operation import FileChange
from spec_kit_memory.errors import BadPath
from spec_kit_memory.files import disk, write_counters
from spec_kit_memory.settings import Settings

__all__ = ["as_change", "discard", "keep", "recall"]


def discard(path: Path, *, settings: Settings, at: datetime) -> Path:
    """Move a file to the trash, under the path it had; returns where it is now."""
    target = _drawer_for(path, settings=settings, at=at)
    try:
        target.parent.mkdir(mode=0o700, parents=True)
        _move(path, target)
    except OSError as error:
        write_counters.count(settings, errors=1)
        raise disk.disk_error(error, path) from error
    write_counters.count(settings, deletes=1)
    return target


def keep(path: Path, *, settings: Settings, at: datetime) -> Path:
    """Put a copy of a file that is about to be rewritten into the trash; returns where it is."""
    target = _drawer_for(path, settings=settings, at=at)
    try:
        target.parent.mkdir(mode=0o700, parents=True)
        disk.write_atomic(target, path.read_bytes())
        shutil.copystat(path, target)
    except OSError as error:
        write_counters.count(settings, errors=1)
        raise disk.disk_error(error, path) from error
    return target


def _drawer_for(path: Path, *, settings: Settings, at: datetime) -> Path:
    stored = disk.stored_form(settings, path)
    parts = [part for part in PurePosixPath(stored).parts if part != "/"]
    drawer = disk.ensure_state_folder(settings) / "trash" / f"{at:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
    return drawer.joinpath(*(part.replace(":", "") for part in parts))


def as_change(stored: str, trashed: Path, *, settings: Settings) -> FileChange:
    """What the record says of a file that `discard` moved."""
    digest = hashlib.sha256(trashed.read_bytes()).hexdigest()
    return FileChange(stored, before=digest, trash=trashed.relative_to(settings.state_folder).as_posix())


def recall(trashed: Path, *, settings: Settings, to: Path) -> None:
    """Bring a file back from the trash; a file that took its place meanwhile is never replaced."""
    if os.path.lexists(to):
        raise BadPath(f"{to.as_posix()} exists", hint=f"move it away; the deleted file is {trashed.as_posix()}")
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        _move(trashed, to)
    except OSError as error:
        write_counters.count(settings, errors=1)
        raise disk.disk_error(error, trashed) from error


def _move(source: Path, target: Path) -> None:
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        disk.write_atomic(target, source.read_bytes())  # on another disk: copy, sync, then remove
        shutil.copystat(source, target)
        source.unlink()
    disk.sync_folder(target.parent)
    disk.sync_folder(source.parent)
