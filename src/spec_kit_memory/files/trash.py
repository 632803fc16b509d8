"""Where does a deleted file go? Under the path that it had, in a drawer of the trash; `files.file_changes` moves it.

If the index is on a server, the trash is rows there: the file is in the folder only until the operation is committed.
A file with secrets stays in the folder, because no secret leaves this machine.
"""

from __future__ import annotations

import errno
import secrets
from contextlib import ExitStack, suppress

from spec_kit_memory import filesystem
from spec_kit_memory.core import redact
from spec_kit_memory.errors import BadPath, SpecKitMemoryError
from spec_kit_memory.files import disk, paths
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.filesystem import Place
from spec_kit_memory.index.contract import Index, StateFiles
from spec_kit_memory.settings import Settings

FOLDER = "trash"  # below the state folder; also the kind of the rows


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


def bytes_of(settings: Settings, index: Index, stored: str) -> bytes | None:
    """What is in the trash under that name, as a file or as a row; None if nothing is."""
    place = trashed(settings, stored)
    return disk.read_bytes(place)[0] if filesystem.exists(place) else row_of(index, stored)


def row_of(index: Index, stored: str) -> bytes | None:
    rows = index.state_files
    parts = list(rows.parts(FOLDER, stored)) if rows else []
    return b"".join(parts) if parts else None


def put_row(rows: StateFiles, stored: str, place: Place) -> bool:
    """Copy a file of the trash into a row; False if it has to stay a file."""
    try:
        data, _ = disk.read_bytes(place)
        text = disk.decode(data, name=stored)
        if redact.redact(text).counts:
            return False
    except SpecKitMemoryError:  # it is no text that could be searched for secrets
        return False
    with rows.writing(FOLDER, stored) as write:
        write(data)
    return True


def carry(settings: Settings, source: Index, target: Index, *, if_it_fails: ExitStack) -> int:
    """Copy what is in the trash as rows, to rows or files; returns how many. Files stay where they are.

    `if_it_fails` gets what removes the files again that were made.
    """
    count = 0
    for stored in source.state_files.sizes(FOLDER) if source.state_files is not None else ():
        data = row_of(source, stored)
        if data is None:
            continue
        if target.state_files is None:
            _make_file(settings, stored, data, if_it_fails)
        else:
            with target.state_files.writing(FOLDER, stored) as write:
                write(data)
        count += 1
    return count


def _make_file(settings: Settings, stored: str, data: bytes, if_it_fails: ExitStack) -> None:
    place = trashed(settings, stored)
    try:
        if filesystem.exists(place):  # of an earlier copy that was killed
            return
        filesystem.make_folders(place.parent, mode=0o700)
        # Made in the state folder, where the next scan removes what a killed process leaves.
        with filesystem.stage(paths.state_folder(settings).joined(place.name), data, mode=0o600) as staged:
            staged.move_to(place)
            if_it_fails.callback(_remove_file, place)
    except OSError as error:
        raise disk_error(error, place.path) from error


def _remove_file(place: Place) -> None:
    with suppress(OSError):
        filesystem.remove(place)


def put_aside(settings: Settings, place: Place) -> None:
    """Trash a file that a recovery record calls unwanted, instead of deleting it: the record may be forged."""
    target = trashed(settings, name_for(settings, place, drawer=f"recovered-{secrets.token_hex(3)}"))
    filesystem.make_folders(target.parent, mode=0o700)
    move(place, target)
