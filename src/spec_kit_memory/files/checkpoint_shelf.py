"""Where are checkpoints stored? In a folder of the workspace or, if its index is on a server, in rows there."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Protocol

from spec_kit_memory import filesystem
from spec_kit_memory.errors import DatabaseBusy
from spec_kit_memory.files import disk, locks, paths
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.filesystem import Place
from spec_kit_memory.index.contract import Index, StateFiles
from spec_kit_memory.settings import Settings

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

SUFFIX = ".jsonl.gz"
FOLDER = "checkpoints"
_BUFFER = 1 << 20
_LOCK_SECONDS = 120.0
_MOST_FILES = 1_000  # far more than are ever kept; a repository may contain any number


class Slot(Protocol):
    """The place of one checkpoint. Failures raise a `SpecKitMemoryError`."""

    @property
    def name(self) -> str: ...
    def exists(self) -> bool: ...
    def size(self) -> int: ...
    def reading(self) -> AbstractContextManager[tuple[IO[bytes], int]]:
        """Its bytes as a file, and their number."""
        ...

    def writing(self) -> AbstractContextManager[IO[bytes]]:
        """Write it: the checkpoint appears whole when the block ends, or not at all."""
        ...

    def remove(self) -> None: ...


class CheckpointShelf(Protocol):
    def slot(self, name: str) -> Slot: ...
    def slots(self) -> list[Slot]: ...
    def alone(self) -> AbstractContextManager[None]:
        """Only one process at a time makes and prunes checkpoints, so that names stay unique."""
        ...


def shelf_of(settings: Settings, index: Index) -> CheckpointShelf:
    rows = index.state_files
    return FolderShelf(settings) if rows is None else RowShelf(rows)


# --- files


@dataclass(frozen=True, slots=True)
class FileSlot:
    place: Place

    def __str__(self) -> str:
        return str(self.place)

    @property
    def name(self) -> str:
        return self.place.name

    def exists(self) -> bool:
        return filesystem.exists(self.place)

    def size(self) -> int:
        return filesystem.look(self.place).st_size

    @contextmanager
    def reading(self) -> Iterator[tuple[IO[bytes], int]]:
        with os.fdopen(filesystem.open_reading(self.place), "rb") as raw:
            yield raw, os.fstat(raw.fileno()).st_size

    @contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        try:
            with filesystem.staging(self.place, mode=0o600) as staged:
                with io.BufferedWriter(staged.file(), buffer_size=_BUFFER) as raw:
                    yield raw
                staged.finish()
                staged.install()
            try:
                filesystem.sync(self.place.parent)
            except OSError:
                filesystem.remove(self.place)  # a checkpoint that was refused must not remain
                raise
        except OSError as error:
            raise disk_error(error, self.place.path) from error

    def remove(self) -> None:
        try:
            filesystem.remove(self.place)
            with suppress(OSError):  # it is removed; only a power cut could bring it back
                filesystem.sync(self.place.parent)
        except OSError as error:
            raise disk_error(error, self.place.path) from error


@dataclass(frozen=True, slots=True)
class FolderShelf:
    settings: Settings

    @property
    def folder(self) -> Place:
        """Resolved at each use: a repository may put a link in its place."""
        try:
            return paths.state_folder(self.settings, FOLDER)
        except OSError as error:
            raise disk_error(error, self.settings.state_folder / FOLDER) from error

    def make(self) -> Place:
        disk.ensure_state_folder(self.settings)
        place = self.folder
        try:
            filesystem.make_folders(place, mode=0o700)
        except OSError as error:
            raise disk_error(error, place.path) from error
        return place

    def slot(self, name: str) -> FileSlot:
        return FileSlot(self.folder / name)

    def slots(self) -> list[Slot]:
        place = self.folder
        try:
            names = [name for name in filesystem.names(place) if name.endswith(SUFFIX) and not name.startswith(".")]
            return [FileSlot(place / name) for name in names[:_MOST_FILES]]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise disk_error(error, place.path) from error

    @contextmanager
    def alone(self) -> Iterator[None]:
        place = self.make()
        with locks.Lock(self.settings, FOLDER, ".lock") as lock:
            try:
                is_locked = lock.wait(seconds=_LOCK_SECONDS)
            except OSError as error:
                raise disk_error(error, (place / ".lock").path) from error
            if not is_locked:
                raise DatabaseBusy("another process is making a checkpoint", hint="try again in a moment")
            with suppress(OSError):  # remains of a dead writer can wait
                for name in filesystem.names(place):
                    if name.endswith(filesystem.TEMPORARY):
                        disk.remove_if_dead(place / name)
            yield


# --- rows


@dataclass(frozen=True, slots=True)
class RowSlot:
    rows: StateFiles
    name: str

    def __str__(self) -> str:
        return self.name

    def exists(self) -> bool:
        return self.name in self.rows.sizes(FOLDER)

    def size(self) -> int:
        return self.rows.sizes(FOLDER).get(self.name, 0)

    @contextmanager
    def reading(self) -> Iterator[tuple[IO[bytes], int]]:
        yield io.BufferedReader(_Parts(self.rows.parts(FOLDER, self.name))), self.size()

    @contextmanager
    def writing(self) -> Iterator[IO[bytes]]:
        with self.rows.writing(FOLDER, self.name) as write, io.BufferedWriter(_Writes(write), _BUFFER) as raw:
            yield raw

    def remove(self) -> None:
        self.rows.remove(FOLDER, self.name)


@dataclass(frozen=True, slots=True)
class RowShelf:
    rows: StateFiles

    def slot(self, name: str) -> RowSlot:
        return RowSlot(self.rows, name)

    def slots(self) -> list[Slot]:
        return [RowSlot(self.rows, name) for name in self.rows.sizes(FOLDER)]

    def alone(self) -> AbstractContextManager[None]:
        return self.rows.alone(FOLDER)


class _Parts(io.RawIOBase):
    """Chunks of bytes as a readable file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        room = memoryview(buffer)
        while not self._left:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._left = memoryview(part)
        count = min(len(room), len(self._left))
        room[:count], self._left = self._left[:count], self._left[count:]
        return count


class _Writes(io.RawIOBase):
    """A writable file that passes its bytes to a callback."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        result = bytes(data)
        self._write(result)
        return len(result)
