"""Where is a rebuilt past state kept? In the state folder, which like the index is closed to other users.

It holds whole texts, so it is removed with the process that made it or, if that was killed, when the workspace is next
opened. A lock shows whether its process is still alive.
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

NAME = "past"
_LOCK = "lock"
_OURS = re.compile(r"[0-9a-f]{16}")
_DEEPEST = 4  # nested folders; ours are not deeper, those of a repository may be


@dataclass(frozen=True, slots=True)
class PastFolder:
    """The folder of one past state. `settings` are the workspace's, with this folder as their root."""

    settings: Settings
    place: Place
    lock: Lock

    def remove(self) -> None:
        with suppress(OSError):  # the next start removes what remains
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
    """Remove the folders of processes that were killed."""
    with suppress(OSError):
        folder = paths.state_folder(settings, NAME)
        for name in filter(_OURS.fullmatch, filesystem.names(folder)):
            with suppress(OSError), Lock(settings, NAME, name, _LOCK) as lock:
                if lock.acquire():
                    _remove(folder / name)
        filesystem.remove_folder(folder)  # only if it is empty


def _remove(place: Place, *, depth: int = 0) -> None:
    if depth > _DEEPEST or not stat.S_ISDIR(filesystem.look(place).st_mode):
        filesystem.remove(place)  # this does not remove folders: deeper ones were not made by us, and stay
        return
    for name in filesystem.names(place):
        _remove(place / name, depth=depth + 1)
    filesystem.remove_folder(place)
