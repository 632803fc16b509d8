"""Does the index still agree with a file? Checked for one file before its text is returned."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spec_kit_memory import filesystem
from spec_kit_memory.advice import Advice, Text, advise, finding
from spec_kit_memory.core.memory import CHAT, Presence
from spec_kit_memory.errors import DatabaseBusy, DatabaseUnusable, FileMissing, OutsideScope, SpecKitMemoryError
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import disk, paths, pending


def stored_path(runtime: Runtime, path: str) -> str:
    """The stored form of a path; an error where it is outside of the caller's scope."""
    if path.startswith(CHAT):
        return path
    return paths.stored_form(runtime.settings, paths.contained(runtime.settings, path, scope=runtime.scope))


def refresh(runtime: Runtime, path: str) -> Text:
    """Index the file again if it changed; returns a remark where only the older text can be shown.

    A missing or unreadable file is left to the next scan, and a reader does not wait long for a process that writes.
    """
    if path.startswith(CHAT) or not runtime.has_file(path):
        return ""
    stored = runtime.store.documents.stored(path).get(path)
    try:
        place = paths.place(runtime.settings, path)
        facts = filesystem.look(place)
        if stored and (facts.st_size, disk.mtime_ns(facts)) == (stored.stamp.size, stored.stamp.mtime_ns):
            return ""
        with runtime.whole.hurried():
            runtime.sync.index_file(place.path, runtime.change("changed since it was indexed"))
    except (DatabaseBusy, DatabaseUnusable) as error:
        return finding("text-as-last-indexed", path=path, error=error.code)
    except (SpecKitMemoryError, OSError):
        return ""
    return ""


@contextmanager
def file_expected() -> Iterator[None]:
    """A context in which the file of a memory is changed. If it is gone or was moved, the next scan finds that out."""
    try:
        yield
    except FileMissing as error:
        raise FileMissing(error.message, hint=advise("index-in-step"), **error.details) from error


def stale(runtime: Runtime) -> list[Advice]:
    """Remarks on live rows whose file is gone, which no scan has noticed yet."""
    if runtime.accepts:
        return []
    listed = _Listed(runtime.settings.root)
    gone = []
    for path, stored in runtime.store.documents.stored().items():
        if stored.presence is not Presence.LIVE or stored.alias or path.startswith(CHAT) or path in listed:
            continue
        if not runtime.has_file(path):
            continue
        absolute = paths.absolute(runtime.settings, path)
        if not stands(runtime, absolute) and not stands(runtime, pending.pending_of(absolute)):
            gone.append(finding("indexed-file-gone", path=path))
    return gone


def stands(runtime: Runtime, path: Path | str) -> bool:
    """Does the file at a stored path exist? A link counts if it leads to a file in the workspace."""
    try:
        return filesystem.exists(paths.resolved(runtime.settings, path))
    except OutsideScope:
        return False


class _Listed:
    """The stored paths that are certainly files. Each folder is listed once: checking each file takes much longer.

    A path that a listing does not show (a link, another spelling of a name) has to be checked by itself.
    """

    def __init__(self, root: Path) -> None:
        self._root = os.fspath(root)
        self._folders: dict[str, frozenset[str]] = {}

    def __contains__(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = self._files(os.path.join(self._root, folder))
        return name in self._folders[folder]

    def _files(self, folder: str) -> frozenset[str]:
        try:
            with os.scandir(folder) as listed:
                return frozenset(entry.name for entry in listed if entry.is_file(follow_symlinks=False))
        except OSError:
            return frozenset()
