"""Where does a verb find the files of a project that is only in git? In private copies made from the index.

They belong to this process and can be deleted at any moment: before a verb changes files, they are copied here, and its
changes are accepted only if the originals have not changed in the meantime.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from spec_kit_memory import filesystem
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import CHAT, Filter, Memory, Presence
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import MemoryNotFound, Outdated
from spec_kit_memory.files import discover, paths
from spec_kit_memory.filesystem import Place
from spec_kit_memory.index.contract import Index
from spec_kit_memory.parameters import Request
from spec_kit_memory.requests import (
    CheckpointRestoreRequest,
    DeleteRequest,
    MergeRequest,
    SaveRequest,
    UndoRequest,
    UpdateRequest,
    ValidateRequest,
)
from spec_kit_memory.settings import Settings

_MOST_BYTES = 64 << 20
_TRIES = 5  # attempts, if others keep moving a memory

_PREFIXES = ("mirror-", "scratch-")
_locks: dict[Path, int] = {}  # this process's folders -> descriptors, whose locks end with the process


def private_folder(below: Path, prefix: str) -> Path:
    """A new folder for this process alone.

    Folders that ended processes left are removed, since they may contain users' private notes.
    """
    below.mkdir(parents=True, exist_ok=True, mode=0o700)
    real = Path(os.path.realpath(below))
    for other in real.iterdir():
        if other.name.startswith(_PREFIXES) and other.is_dir() and not other.is_symlink():
            _remove_unless_held(other)
    folder = real / f"{prefix}{secrets.token_hex(8)}"
    descriptor = filesystem.open_lock(_lock_of(folder))
    filesystem.try_lock(descriptor)
    _locks[folder] = descriptor
    folder.mkdir(mode=0o700)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove a private folder and the files next to it that begin with its name."""
    shutil.rmtree(folder, ignore_errors=True)
    descriptor = _locks.pop(folder, None)
    if descriptor is not None:
        os.close(descriptor)
    for companion in folder.parent.glob(f"{folder.name}.*"):
        with suppress(OSError):
            companion.unlink()


def _lock_of(folder: Path) -> Place:
    return Place(folder.parent, (f"{folder.name}.lock",))


def _remove_unless_held(folder: Path) -> None:
    descriptor = filesystem.open_lock(_lock_of(folder))
    try:
        is_left_over = filesystem.try_lock(descriptor)
    finally:
        os.close(descriptor)
    if is_left_over:
        remove_folder(folder)


@dataclass(eq=False, slots=True)
class _Turn:
    paths: frozenset[str] | None  # None: all paths

    def meets(self, other: _Turn) -> bool:
        return self.paths is None or other.paths is None or not self.paths.isdisjoint(other.paths)


class Turns:
    """Locks on sets of paths: one thread at a time has a path, in order of arrival."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: list[_Turn] = []

    @contextmanager
    def taken(self, paths: frozenset[str] | None) -> Iterator[None]:
        """Wait until no earlier verb uses any of these files."""
        mine = _Turn(paths)
        with self._changed:
            self._queue.append(mine)
            self._changed.wait_for(lambda: not any(map(mine.meets, self._queue[: self._queue.index(mine)])))
        try:
            yield
        finally:
            with self._changed:
                self._queue.remove(mine)
                self._changed.notify_all()


class ProjectCopies:
    """`FileCopies` of one project. Verbs that work on different files do not wait for each other."""

    def __init__(self, settings: Settings, index: Index) -> None:
        self._settings = settings
        self._index = index
        self._turns = Turns()

    def concerns(self, request: Request) -> bool:
        match request:
            case SaveRequest():
                return request.on_similar == "merge"
            case ValidateRequest():
                return bool(request.promote)
            case UpdateRequest() | MergeRequest() | DeleteRequest() | UndoRequest() | CheckpointRestoreRequest():
                return True
        return False

    @contextmanager
    def with_local_copies(self, request: Request) -> Iterator[None]:
        match request:
            case UpdateRequest(id=int() as id_) | ValidateRequest(id=int() as id_) | DeleteRequest(id=int() as id_):
                bringing = self._some(id_)
            case MergeRequest():
                bringing = self._some(request.id, request.into)
            case DeleteRequest():
                bringing = self._folder(clean_folder(request.spec_folder or ""))
            case _:
                bringing = self._all()
        with bringing:
            yield

    @contextmanager
    def _some(self, *ids: int) -> Iterator[None]:
        for _ in range(_TRIES):  # a memory may get another path before its turn comes
            paths = frozenset(memory.path for memory in self._memories(*ids))
            with self._turns.taken(paths):
                memories = self._memories(*ids)
                if paths.issuperset(memory.path for memory in memories):
                    self._fetch_copies(memories)
                    yield
                    return
        raise Outdated(f"{counted(len(ids), 'memory')} moved at the same moment", hint="try again")

    @contextmanager
    def _folder(self, folder: str) -> Iterator[None]:
        with self._turns.taken(None):  # folders are removed as well
            self._fetch_copies(self._index.documents.find(Filter(spec_folder=folder)))
            yield

    @contextmanager
    def _all(self) -> Iterator[None]:
        """Copy all live memories and nothing else: a leftover file would be in the way."""
        with self._turns.taken(None):
            live = self._fetch_copies(self._index.documents.find(order="path"))
            for file in discover.discover(self._settings, count=False).files:
                if file.path not in live:
                    filesystem.remove(paths.place(self._settings, file.path))
            yield

    def _memories(self, *ids: int) -> list[Memory]:
        copies = []
        for id_ in ids:
            with suppress(MemoryNotFound):  # the verb itself reports it, to callers who may know
                copies.append(self._index.documents.get(id_))
        return copies

    def _fetch_copies(self, memories: Iterable[Memory]) -> set[str]:
        copied = set()
        for memory in memories:
            if memory.path.startswith(CHAT) or memory.presence is not Presence.LIVE:
                continue
            place = paths.place(self._settings, memory.path)
            text = self._index.documents.text(content_hash=memory.content_hash)
            data = (self._index.documents.text(memory.id) if text is None else text).encode()
            copied.add(memory.path)
            try:
                if filesystem.read(place, limit=_MOST_BYTES)[0] == data:
                    continue
            except FileNotFoundError:
                filesystem.make_folders(place.parent, mode=0o700)
            filesystem.replace(place, data, synced=False)
        return copied
