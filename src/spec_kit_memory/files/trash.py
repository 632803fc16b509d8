"""Where does a deleted file go? Under the path that it had, in a drawer of the trash; `files.file_changes` moves it."""

from __future__ import annotations

import errno
import secrets

from spec_kit_memory import filesystem
from spec_kit_memory.errors import BadPath
from spec_kit_memory.files import paths
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings import Settings

FOLDER = "trash"


def name_for(settings: Settings, source: Place, *, drawer: str) -> str:
    """The path below the state folder that a file gets in the trash: its drawer, then its former path."""
    outside = source.base.parts[1:] if source.base != settings.root else ()
    return "/".join((FOLDER, drawer, *(name.replace(":", "") for name in (*outside, *source.names))))


def trashed(settings: Settings, stored: str) -> Place:
    """The place in the trash that a record names; a forged record cannot lead out of the trash."""
    folder, *names = stored.split("/")
    if folder != FOLDER or not names:
        raise BadPath(f"{stored} is not in the trash", hint="look for the file in .spec-kit-memory/trash")
    try:
        return paths.state_folder(settings, FOLDER).joined(*names)
    except (OSError, ValueError) as error:
        raise disk_error(error, stored) from error


def move(source: Place, target: Place) -> None:
    """Move a file to the trash or back, never replacing another file."""
    try:
        filesystem.move_new(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        filesystem.copy(source, target)  # on another disk: copy, sync, then remove
        filesystem.remove(source)


def put_aside(settings: Settings, place: Place) -> None:
    """Trash a file that a recovery record calls unwanted, instead of deleting it: the record may be forged."""
    target = trashed(settings, name_for(settings, place, drawer=f"recovered-{secrets.token_hex(3)}"))
    filesystem.make_folders(target.parent, mode=0o700)
    move(place, target)
