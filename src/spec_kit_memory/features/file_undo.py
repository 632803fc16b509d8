"""How is a file restored to its state before an operation?

The operation says which bytes were there before and after, by their hash. A file is changed only if it is still as
the operation left it: a later edit is never overwritten. A removed file goes to the trash. Nothing is changed here: the
changes are planned as steps of `files.file_changes`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from spec_kit_memory import filesystem
from spec_kit_memory.advice import Text, finding
from spec_kit_memory.core.operation import FileChange
from spec_kit_memory.features import file_restore
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import discover, disk, file_changes, trash
from spec_kit_memory.files.file_changes import Step


@dataclass(frozen=True, slots=True)
class Former:
    """A file that an operation changed, and the texts that its memory had before: its bytes may be one of them."""

    file: FileChange
    texts: tuple[str, ...] = ()


def obstacle(runtime: Runtime, former: Former) -> Text:
    """Why the file cannot be restored; "" if it can, or has been restored already."""
    file = former.file
    present = _present(runtime, file)
    if _is_back(file, present):
        return ""
    if _digest(present) != file.after:
        return finding("changed-since" if file.after is not None else "exists-again", path=file.path)
    if not _was_there(file) or _bytes_before(runtime, former) is not None:
        return ""
    return finding("former-text-lost", path=file.path)


def put_back(runtime: Runtime, formers: Sequence[Former]) -> list[Step]:
    """Plan the steps that restore these files. Check `obstacle` first."""
    drawer = file_changes.drawer(runtime.now())
    steps = [_put_one_back(runtime, former, drawer) for former in _one_for_each_path(formers)]
    return [step for step in steps if step is not None]


def _one_for_each_path(formers: Sequence[Former]) -> list[Former]:
    """One entry per path: a file that was changed twice goes back to its state before the first change."""
    by_path: dict[str, Former] = {}
    for former in formers:
        first = by_path.setdefault(former.file.path, former)
        by_path[former.file.path] = replace(first, file=replace(first.file, after=former.file.after))
    return list(by_path.values())


def edit_back(runtime: Runtime, stored: str, edit: Callable[[str], str]) -> list[Step]:
    """Plan an edit of a file whose former bytes cannot be restored as a whole."""
    step = file_changes.rewrite(runtime.settings, stored, edit, scope=runtime.scope)
    return [step] if step else []


def _put_one_back(runtime: Runtime, former: Former, drawer: str) -> Step | None:
    file, present = former.file, _present(runtime, former.file)
    if _is_back(file, present):
        return None
    if not _was_there(file):
        # An empty spec folder would still be offered.
        return file_changes.discard(runtime.settings, file.path, scope=runtime.scope, to=drawer, prune=True)
    if present is None and file.trash is not None and is_file_in_trash(runtime, file):
        return file_changes.recall(runtime.settings, file.path, scope=runtime.scope, trash_name=file.trash)
    # The replaced text is the one that the operation wrote, so it is recorded.
    data, takes = _bytes_before(runtime, former) or b"", file.trash if present is None else None
    return file_changes.write(runtime.settings, file.path, data, scope=runtime.scope, takes=takes)


def _present(runtime: Runtime, file: FileChange) -> bytes | None:
    place = discover.file_to_change(runtime.settings, file.path, scope=runtime.scope)
    return disk.read_bytes(place)[0] if filesystem.exists(place) else None


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


def _was_there(file: FileChange) -> bool:
    return file.before is not None or file.trash is not None


def _is_back(file: FileChange, present: bytes | None) -> bool:
    return _digest(present) == file.before if file.before is not None else not _was_there(file) and present is None


def is_file_in_trash(runtime: Runtime, file: FileChange) -> bool:
    """Is the former file in the trash as a file, and not as a row?"""
    return file.trash is not None and filesystem.exists(trash.trashed(runtime.settings, file.trash))


def _bytes_before(runtime: Runtime, former: Former) -> bytes | None:
    """The file's former bytes, from the trash or else from recorded text with the same hash; 0.1 recorded no hash.

    If the operation removed the file, recorded text with other line ends is better than none.
    """
    file = former.file
    kept = trash.bytes_of(runtime.settings, runtime.whole, file.trash) if file.trash is not None else None
    contents = [] if kept is None else [kept]
    spelled = [file_restore.as_it_was(text, file.before or "") for text in former.texts]
    exact = next((data for data in chain(contents, spelled) if file.before in (None, _digest(data))), None)
    return exact if exact is not None or file.after is not None else next(iter(spelled), None)
