"""Every call of an operation that changes something on disk, by us and by SQLite, in one numbered row.

`Calls` counts them and lets a fault happen at a chosen one; `watched` puts a file system and a SQLite VFS that report
to it in place of the real ones. WAL shared memory is mapped by SQLite itself and is no call here.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

from spec_kit_memory import filesystem
from spec_kit_memory.filesystem import System

__all__ = [
    "BROKEN",
    "FULL",
    "INTERRUPTED",
    "KILLED",
    "NEEDS_SPACE",
    "OURS",
    "READS",
    "Calls",
    "Fault",
    "Recorder",
    "stuttering",
    "watched",
]

KILLED = 99  # how a process ends that was to die at a call
# What a full disk refuses: names can still be changed and removed.
NEEDS_SPACE = frozenset(("create", "write", "mkdir", "link", "fsync", "sqlite write", "sqlite sync", "sqlite create"))
BROKEN, FULL, INTERRUPTED = errno.EIO, errno.ENOSPC, errno.EINTR
READS = frozenset(("look", "open", "read", "list", "sqlite read"))  # counted only by a fault that is about them
OURS = frozenset(
    ("create", "write", "truncate", "fsync", "rename", "link", "unlink", "mkdir", "rmdir", "utime", "chmod")
)


class ShortWriteError(OSError):
    """Only a part was written."""


class Calls:
    """Counts calls while it is armed. At number `at` the fault happens, once or from then on."""

    def __init__(self, at: int = 0, fault: Fault | None = None) -> None:
        self.at, self.fault = at, fault
        self.names: list[str] = []
        self.hits = 0
        self.armed = False

    @property
    def reached(self) -> bool:
        return 0 < self.at <= len(self.names)

    def before(self, call: str, path: str) -> None:
        if not self.armed:
            return
        fault = self.fault
        counted = fault.only if fault is not None and fault.only is not None else None
        if (call in READS) if counted is None else (call not in counted):
            return
        self.names.append(call)
        number = len(self.names)
        if fault is not None and self.at and (number == self.at or (fault.lasting and number > self.at)):
            self.hits += 1
            fault.happen(call, path)


class Fault:
    """What happens at a call. `only`: other calls are not even counted."""

    def __init__(
        self, happen: Callable[[str, str], None], *, lasting: bool = False, only: frozenset[str] | None = None
    ) -> None:
        self.happen, self.lasting, self.only = happen, lasting, only

    @classmethod
    def error(cls, number: int, *, lasting: bool = False, only: frozenset[str] | None = None) -> Fault:
        def happen(call: str, path: str) -> None:
            raise OSError(number, os.strerror(number), path)

        return cls(happen, lasting=lasting, only=only)

    @classmethod
    def short(cls) -> Fault:
        def happen(call: str, path: str) -> None:
            raise ShortWriteError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

        return cls(happen, only=frozenset(("write", "sqlite write")))

    @classmethod
    def interrupt(cls) -> Fault:
        """Ctrl-C in the middle. SQLite's own calls are not interrupted: signals wait for the end of a statement."""

        def happen(call: str, path: str) -> None:
            raise KeyboardInterrupt

        return cls(happen, only=OURS)

    @classmethod
    def death(cls) -> Fault:
        def happen(call: str, path: str) -> None:
            os._exit(KILLED)

        return cls(happen)


class Recorder:
    """Is told what was done, after it was done. Files and folders are named by their inode numbers."""

    def made(self, folder: int, name: str, inode: int, *, is_folder: bool = False) -> None: ...
    def wrote(self, inode: int, offset: int, data: bytes) -> None: ...
    def cut(self, inode: int, size: int) -> None: ...
    def synced(self, inode: int) -> None: ...
    def renamed(self, folder: int, name: str, to_folder: int, to: str) -> None: ...
    def linked(self, folder: int, name: str, inode: int) -> None: ...
    def removed(self, folder: int, name: str) -> None: ...


# --- our own calls ---------------------------------------------------------------------------


class _System(System):
    def __init__(self, calls: Calls, recorder: Recorder) -> None:
        self._calls, self._recorder = calls, recorder

    def before(self, call: str, path: str) -> None:
        self._calls.before(call, path)

    def before_reading(self, call: str, path: str) -> None:
        self._calls.before(call, path)

    def create(self, name: str, flags: int, mode: int, handle: int | None) -> int:
        existed = _inode(name, handle)
        descriptor = super().create(name, flags, mode, handle)
        if not existed:
            folder, last = _folder(name, handle)
            self._recorder.made(folder, last, os.fstat(descriptor).st_ino)
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        try:
            self.before("write", "")
        except ShortWriteError:
            data = data[: max(1, len(data) // 2)]
        facts = os.fstat(descriptor)
        offset = os.lseek(descriptor, 0, os.SEEK_CUR)
        count = os.write(descriptor, data)
        after = os.lseek(descriptor, 0, os.SEEK_CUR)
        self._recorder.wrote(facts.st_ino, max(offset, after - count), bytes(data[:count]))
        return count

    def truncate(self, descriptor: int, size: int = 0) -> None:
        super().truncate(descriptor, size)
        self._recorder.cut(os.fstat(descriptor).st_ino, size)

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        self._recorder.synced(os.fstat(descriptor).st_ino)

    def rename(self, name: str, to: str, handle: int | None, to_handle: int | None) -> None:
        super().rename(name, to, handle, to_handle)
        self._recorder.renamed(*_folder(name, handle), *_folder(to, to_handle))

    def link(self, name: str, to: str, handle: int | None, to_handle: int | None) -> None:
        super().link(name, to, handle, to_handle)
        self._recorder.linked(*_folder(to, to_handle), _inode(to, to_handle))

    def unlink(self, name: str, handle: int | None) -> None:
        super().unlink(name, handle)
        self._recorder.removed(*_folder(name, handle))

    def mkdir(self, name: str, mode: int, handle: int | None) -> None:
        super().mkdir(name, mode, handle)
        self._recorder.made(*_folder(name, handle), _inode(name, handle), is_folder=True)

    def rmdir(self, name: str, handle: int | None) -> None:
        super().rmdir(name, handle)
        self._recorder.removed(*_folder(name, handle))


def _inode(name: str, handle: int | None = None) -> int:
    """0: there is nothing."""
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False).st_ino
    except OSError:
        return 0


def _folder(name: str, handle: int | None) -> tuple[int, str]:
    if handle is not None:
        return os.fstat(handle).st_ino, name
    return os.stat(os.path.dirname(name)).st_ino, os.path.basename(name)


# --- SQLite's calls --------------------------------------------------------------------------------

_KINDS = {
    "sqlite read": apsw.SQLITE_IOERR_READ,
    "sqlite write": apsw.SQLITE_IOERR_WRITE,
    "sqlite sync": apsw.SQLITE_IOERR_FSYNC,
    "sqlite truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "sqlite delete": apsw.SQLITE_IOERR_DELETE,
    "sqlite lock": apsw.SQLITE_IOERR_LOCK,
}
_LOG = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL


class _Vfs(apsw.VFS):
    def __init__(self, calls: Calls, recorder: Recorder) -> None:
        self.calls, self.recorder = calls, recorder
        self.last_errno = 0
        super().__init__("faults", "", makedefault=True)

    def fails(self, call: str, path: str) -> apsw.Error | None:
        """The error that SQLite is to get, if the call is to fail; `ShortWriteError` is for the caller."""
        try:
            self.calls.before(call, path)
        except ShortWriteError:
            raise
        except OSError as error:
            self.last_errno = error.errno or 0
            if call in ("sqlite open", "sqlite create"):
                return apsw.CantOpenError(str(error))
            if error.errno == errno.ENOSPC and call == "sqlite write":
                return apsw.FullError(str(error))
            failure = apsw.IOError(str(error))
            failure.extendedresult = _KINDS[call]  # type: ignore[attr-defined]
            return failure
        return None

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        existed = _inode(path) if path else 1
        if error := self.fails("sqlite open" if existed else "sqlite create", path):
            raise error
        opened = _File(self, name, flags, path)
        if not existed:
            folder, last = _folder(path, None)
            self.recorder.made(folder, last, _inode(path))
            opened.is_new_log = bool(flags[0] & _LOG)
        return opened

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        if error := self.fails("sqlite delete", filename):
            raise error
        super().xDelete(filename, syncdir)
        folder, last = _folder(filename, None)
        self.recorder.removed(folder, last)
        if syncdir:
            self.recorder.synced(folder)

    def xGetLastError(self) -> tuple[int, str]:  # noqa: N802
        return self.last_errno, os.strerror(self.last_errno)


class _File(apsw.VFSFile):
    is_new_log = False

    def __init__(self, vfs: _Vfs, name: str | apsw.URIFilename | None, flags: list[int], path: str) -> None:
        self._vfs, self._path, self._inode_number = vfs, path, 0
        super().__init__("unix", name, flags)
        self._inode_number = _inode(path) if path else 0
        self._read_only = bool(flags[0] & apsw.SQLITE_OPEN_READONLY)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        if self._path and (error := self._vfs.fails("sqlite read", self._path)):
            raise error
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        if not self._path:  # a temporary file of SQLite's own
            super().xWrite(data, offset)
            return
        try:
            if error := self._vfs.fails("sqlite write", self._path):
                raise error
        except ShortWriteError as error:
            half = data[: len(data) // 2]
            super().xWrite(half, offset)
            self._vfs.recorder.wrote(self._inode_number, offset, half)
            self._vfs.last_errno = errno.ENOSPC
            raise apsw.FullError(str(error)) from error
        super().xWrite(data, offset)
        self._vfs.recorder.wrote(self._inode_number, offset, bytes(data))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        if error := self._vfs.fails("sqlite truncate", self._path):
            raise error
        super().xTruncate(newsize)
        self._vfs.recorder.cut(self._inode_number, newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if error := self._vfs.fails("sqlite sync", self._path):
            raise error
        super().xSync(flags)
        self._vfs.recorder.synced(self._inode_number)
        if self.is_new_log:  # SQLite syncs the folder with the first sync of a log that it made
            self._vfs.recorder.synced(_folder(self._path, None)[0])
            self.is_new_log = False

    def xLock(self, level: int) -> None:  # noqa: N802
        if error := self._vfs.fails("sqlite lock", self._path):
            raise error
        try:
            super().xLock(level)
        except apsw.IOError:
            if not self._read_only:  # closing one asks for a lock that it cannot have, and takes no for an answer
                raise


@contextmanager
def watched(calls: Calls, recorder: Recorder | None = None) -> Iterator[None]:
    """Files and databases that are opened inside report their calls. Whatever is opened here is closed here."""
    message = Recorder() if recorder is None else recorder
    vfs = _Vfs(calls, message)
    try:
        with filesystem.using(_System(calls, message)):
            yield
    finally:
        vfs.unregister()


# --- system calls of SQLite ------------------------------------------------------------------------


@contextmanager
def stuttering() -> Iterator[list[int]]:
    """Every call with which SQLite reads or writes is interrupted by a signal first, and then does half of the work.

    A list with the number of both, for whoever wants to know that it happened.
    """
    vfs = apsw.VFS("stuttering", "unix")
    counts = [0, 0]
    replaced: dict[str, object] = {}
    library = ctypes.CDLL(None, use_errno=True)
    try:
        for name in ("pread", "pread64", "read", "pwrite", "pwrite64", "write"):
            if not vfs.xGetSystemCall(name):
                continue
            placed = (ctypes.c_longlong,) if name.startswith("p") else ()
            arguments = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, *placed)
            kind = ctypes.CFUNCTYPE(ctypes.c_ssize_t, *arguments, use_errno=True)
            real = getattr(library, name)
            real.argtypes, real.restype = arguments, ctypes.c_ssize_t
            replaced[name] = call = kind(_stutter(real, counts))
            vfs.xSetSystemCall(name, ctypes.cast(call, ctypes.c_void_p).value or 0)
        yield counts
    finally:
        for name in replaced:
            vfs.xSetSystemCall(name, 0)
        vfs.unregister()


def _stutter(real: Callable[..., int], counts: list[int]) -> Callable[..., int]:
    again = False

    def call(descriptor: int, buffer: int, size: int, *offset: int) -> int:
        nonlocal again
        again = not again
        if again:
            counts[0] += 1
            ctypes.set_errno(errno.EINTR)
            return -1
        counts[1] += size > 1
        return real(descriptor, buffer, max(1, size // 2), *offset)

    return call
