"""Where does a rebuilt moment of the past stand? In the state folder, which is closed to others like the index.

It holds whole texts, so it goes with the process that made it: by itself, or, if that was killed, when the workspace
is opened next. A lock tells whose maker is still alive.
"""

from __future__ import annotations

import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass, replace

from spec_kit_memory import filesystem
from spec_kit_memory.files import paths
from spec_kit_memory.files.disk import ensure_state_folder
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.files.locks import Lock
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings import STATE_FOLDER, Settings

__all__ = ["PastFolder", "make", "sweep"]

NAME = "past"
_LOCK = "lock"
_OURS = re.compile(r"[0-9a-f]{16}")
_DEEPEST = 4  # folders in folders; ours are not deeper, and a repository may bring any


@dataclass(frozen=True, slots=True)
class PastFolder:
    """A folder of one moment. `settings` are the workspace's, with this folder as their root."""

    settings: Settings
    place: Place
    lock: Lock

    def remove(self) -> None:
        with suppress(OSError):  # what is left behind, the next start removes
            _remove(self.place)
        self.lock.release()


def make(settings: Settings) -> PastFolder:
    """A new folder with a state folder of its own in it."""
    ensure_state_folder(settings)
    name = secrets.token_hex(8)
    lock = Lock(settings, NAME, name, _LOCK)
    try:
        place = paths.state_folder(settings, NAME, name)
        filesystem.make_folders(place / STATE_FOLDER, mode=0o700)
        lock.acquire()
    except OSError as error:
        raise disk_error(error, settings.state_folder / NAME) from error
    return PastFolder(replace(settings, root=place.path), place, lock)


def sweep(settings: Settings) -> None:
    """Remove what processes left behind that were killed."""
    with suppress(OSError):
        folder = paths.state_folder(settings, NAME)
        for name in filter(_OURS.fullmatch, filesystem.names(folder)):
            with suppress(OSError), Lock(settings, NAME, name, _LOCK) as lock:
                if lock.acquire():
                    _remove(folder / name)
        filesystem.remove_folder(folder)  # only if nothing is in it


def _remove(place: Place, *, depth: int = 0) -> None:
    if depth > _DEEPEST or not stat.S_ISDIR(filesystem.look(place).st_mode):
        filesystem.remove(place)  # a folder is not removed by this: what is deeper was not made by us, and stays
        return
    for name in filesystem.names(place):
        _remove(place / name, depth=depth + 1)
    filesystem.remove_folder(place)
