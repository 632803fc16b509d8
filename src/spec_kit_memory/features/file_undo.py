"""How does a file come back to what it was before an operation?

The operation says which bytes were there before and after, by their hash. A file is touched only while it is what
the operation left: an edit since is never overwritten. What is taken away goes to the trash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from spec_kit_memory import filesystem
from spec_kit_memory.core.operation import FileChange
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.features import file_restore
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import discover, disk, rewrite, trash
from spec_kit_memory.filesystem import Place

__all__ = ["Former", "PutBack", "edit_back", "obstacle", "put_back", "revert"]


@dataclass(frozen=True, slots=True)
class Former:
    """A file that an operation changed, and the texts that its memory had before: its bytes may be one of them."""

    file: FileChange
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PutBack:
    """What putting one file back changed, and the bytes that were there until then."""

    file: FileChange
    present: bytes | None
    recalled: str | None = None  # the place in the trash that it came from


def obstacle(runtime: Runtime, former: Former) -> str:
    """Why the file cannot be put back; "" where it can, or is back already."""
    file = former.file
    present = _present(runtime, file)
    if _is_back(file, present):
        return ""
    if _digest(present) != file.after:
        return f"{file.path} was changed since" if file.after is not None else f"{file.path} exists again"
    if not _was_there(file) or _bytes_before(runtime, former) is not None:
        return ""
    return f"the former text of {file.path} is kept nowhere"


def put_back(runtime: Runtime, formers: Sequence[Former]) -> list[PutBack]:
    """Make all of them what they were, the last change first, or none. Ask `obstacle` before."""
    done: list[PutBack] = []
    try:
        for former in reversed(formers):
            done += _put_one_back(runtime, former)
    except BaseException:
        revert(runtime, done)
        raise
    return done


def edit_back(runtime: Runtime, stored: str, edit: Callable[[str], str]) -> list[PutBack]:
    """Change a file in place, where its former bytes cannot be put back as a whole."""
    place = discover.file_to_change(runtime.settings, stored)
    present, _ = disk.read_bytes(place)
    written = rewrite.rewrite(place, edit)
    return [PutBack(FileChange(stored, *written), present)] if written else []


def revert(runtime: Runtime, done: Sequence[PutBack]) -> None:
    """The rest of an undo failed: files go back to where they were before it."""
    for one in reversed(done):
        with suppress(SpecKitMemoryError, OSError):  # the error that led here is the one to tell
            place = discover.file_to_change(runtime.settings, one.file.path)
            if one.recalled is not None:
                trash.recall(place, settings=runtime.settings, to=trash.trashed(runtime.settings, one.recalled))
            elif one.file.trash is not None:
                trash.recall(trash.trashed(runtime.settings, one.file.trash), settings=runtime.settings, to=place)
            elif one.present is not None:
                disk.write_atomic(place, one.present)
            else:
                filesystem.remove(place)


def _put_one_back(runtime: Runtime, former: Former) -> list[PutBack]:
    file, present = former.file, _present(runtime, former.file)
    if _is_back(file, present):
        return []  # an undo that was cut off came so far
    place = discover.file_to_change(runtime.settings, file.path)
    if not _was_there(file):
        moved = trash.discard(place, settings=runtime.settings, at=runtime.now())
        _remove_emptied(place.parent)
        return [PutBack(trash.as_change(file.path, moved, settings=runtime.settings), present)]
    data = _bytes_before(runtime, former) or b""
    done = FileChange(file.path, before=_digest(present), after=_digest(data))
    trashed = _trashed(runtime, file)
    if present is None and trashed is not None and filesystem.exists(trashed):
        trash.recall(trashed, settings=runtime.settings, to=place)
        return [PutBack(done, None, recalled=file.trash)]
    disk.write_new(place, data)  # what is replaced is recorded: it is what the operation wrote
    return [PutBack(done, present)]


def _present(runtime: Runtime, file: FileChange) -> bytes | None:
    place = discover.file_to_change(runtime.settings, file.path)
    return disk.read_bytes(place)[0] if filesystem.exists(place) else None


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _was_there(file: FileChange) -> bool:
    return file.before is not None or file.trash is not None


def _is_back(file: FileChange, present: bytes | None) -> bool:
    return _digest(present) == file.before if file.before is not None else not _was_there(file) and present is None


def _trashed(runtime: Runtime, file: FileChange) -> Place | None:
    return None if file.trash is None else trash.trashed(runtime.settings, file.trash)


def _bytes_before(runtime: Runtime, former: Former) -> bytes | None:
    """From the trash, else from recorded text that has those bytes. 0.1 did not note which bytes they were.

    Where there is no file at all, recorded text with other line ends is better than none.
    """
    file, trashed = former.file, _trashed(runtime, former.file)
    kept = [disk.read_bytes(trashed)[0]] if trashed is not None and filesystem.exists(trashed) else []
    spelled = [file_restore.as_it_was(text, file.before or "") for text in former.texts]
    exact = next((data for data in chain(kept, spelled) if file.before in (None, _digest(data))), None)
    return exact if exact is not None or file.after is not None else next(iter(spelled), None)


def _remove_emptied(folder: Place) -> None:
    """Folders that held nothing else: an empty spec folder would still be offered."""
    while folder.names:
        try:
            filesystem.remove_folder(folder)
        except OSError:
            return
        folder = folder.parent
