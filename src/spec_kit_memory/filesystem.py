"""The only module that opens and changes files through the operating system.

A `Place` is a file or folder: a base folder, which it cannot leave, and the names below that. Every call opens the
base and then each name relative to the handle of its parent folder, without following links. Code that wants to follow
a link resolves the path first and decides where it may lead (`files.paths`); a link that is swapped in after that
decision is refused here as `Redirected`, before anything behind it is opened, read or changed. The base itself is the
user's own choice: links in its path are followed.

On systems without calls relative to a handle (Windows), every name in the path is checked just before the call, and
links are refused; a link swapped in between that check and the call is not detected there.

All failures are `OSError`s. All calls that change something go through one `System`, which is also notified before
anything is read. For tests, `using` replaces it by one that fails, shortens or delays the n-th call, or exits there.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

TEMPORARY = ".skm.tmp"  # suffix of our own temporary files
LEAST_SPACE = 256 * 1024  # bytes; a disk with less counts as full, because a log and its index need more

_BINARY = getattr(os, "O_BINARY", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOSED_ON_EXEC = getattr(os, "O_CLOEXEC", 0)
# A pipe or terminal in place of a file must neither block the process nor become its controlling terminal.
_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
# A handle only for opening what is below it: this needs permission to traverse a folder, not to list it.
_PASSING = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _CLOSED_ON_EXEC
_HANDLES = bool(_NOFOLLOW) and {os.open, os.stat, os.mkdir, os.rmdir, os.unlink, os.rename, os.link, os.utime} <= (
    os.supports_dir_fd
)


class Redirected(OSError):  # noqa: N818
    """There is a link where none is allowed, since it could lead anywhere."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(errno.ELOOP, "a link leads away from here", str(path))


class NotAFile(OSError):  # noqa: N818
    """There is a folder, pipe, device or socket where a regular file was expected."""

    def __init__(self, path: Path | str, mode: int) -> None:
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        super().__init__(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, kind, str(path))
        self.kind = kind


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder below a base. Names such as `..` are refused, so that a place is always below its base."""

    base: Path
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.names:
            if name in ("", ".", "..") or "/" in name or "\0" in name or (os.name == "nt" and set(name) & set("\\:")):
                raise ValueError(f"{name!r} is not the name of a file or folder")

    @classmethod
    def of(cls, path: Path) -> Place:
        """A file whose folder is the user's own choice, so that links in the folder's path are followed."""
        return cls(path.parent, (path.name,))

    @property
    def path(self) -> Path:
        return self.base.joinpath(*self.names)

    @property
    def name(self) -> str:
        return self.names[-1] if self.names else ""

    @property
    def parent(self) -> Place:
        return Place(self.base, self.names[:-1])

    def __truediv__(self, name: str) -> Place:
        return Place(self.base, (*self.names, name))

    def joined(self, *names: str) -> Place:
        return Place(self.base, (*self.names, *names))

    def sibling(self, name: str) -> Place:
        return Place(self.base, (*self.names[:-1], name))

    def __str__(self) -> str:
        return str(self.path)


# --- the calls ----------------------------------------------------------------------


class System:
    """The calls of the operating system that change something, one method each."""

    def before(self, call: str, path: str) -> None:
        """Called before every call that changes something, with the call's name and the file name, if any."""

    def before_reading(self, call: str, path: str) -> None:
        """Called before a file or folder is inspected, opened, read or listed."""

    def create(self, name: str, flags: int, mode: int, handle: int | None) -> int:
        self.before("create", name)
        return os.open(name, flags, mode, dir_fd=handle)

    def write(self, descriptor: int, data: memoryview) -> int:
        self.before("write", "")
        return os.write(descriptor, data)

    def truncate(self, descriptor: int, size: int = 0) -> None:
        self.before("truncate", "")
        os.ftruncate(descriptor, size)

    def fsync(self, descriptor: int) -> None:
        self.before("fsync", "")
        os.fsync(descriptor)

    def rename(self, name: str, to: str, handle: int | None, to_handle: int | None) -> None:
        self.before("rename", name)
        # On Windows only `replace` overwrites an existing file; elsewhere the two are equivalent.
        (os.rename if _HANDLES else os.replace)(name, to, src_dir_fd=handle, dst_dir_fd=to_handle)

    def rename_new(self, name: str, to: str) -> None:
        """Rename without overwriting an existing file; used on Windows only."""
        self.before("rename", name)
        os.rename(name, to)

    def link(self, name: str, to: str, handle: int | None, to_handle: int | None) -> None:
        self.before("link", name)
        os.link(name, to, src_dir_fd=handle, dst_dir_fd=to_handle, follow_symlinks=False)

    def unlink(self, name: str, handle: int | None) -> None:
        self.before("unlink", name)
        os.unlink(name, dir_fd=handle)

    def mkdir(self, name: str, mode: int, handle: int | None) -> None:
        self.before("mkdir", name)
        os.mkdir(name, mode, dir_fd=handle)

    def rmdir(self, name: str, handle: int | None) -> None:
        self.before("rmdir", name)
        os.rmdir(name, dir_fd=handle)

    def utime(self, descriptor: int | str, ns: tuple[int, int]) -> None:
        self.before("utime", "")
        os.utime(descriptor, ns=ns)

    def chmod(self, descriptor: int, mode: int) -> None:
        self.before("chmod", "")
        os.fchmod(descriptor, mode)


_system = System()


@contextmanager
def using(system: System) -> Iterator[None]:
    """For tests: route all calls, in every thread, through this system until the block ends."""
    global _system
    before, _system = _system, system
    try:
        yield
    finally:
        _system = before


# --- opening the folder of a place ------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place in its open parent folder; on systems without handles, `handle` is None and names are whole paths."""

    place: Place
    handle: int | None

    @property
    def name(self) -> str:
        return self.named(self.place.name or ".")

    def named(self, name: str) -> str:
        return name if self.handle is not None else str(self.place.path.parent / name)

    def look(self) -> os.stat_result:
        _system.before_reading("look", self.name)
        return os.stat(self.name, dir_fd=self.handle, follow_symlinks=False)

    def refuse_link(self) -> None:
        """Raise Redirected if the file or folder itself is a link. A missing file is allowed."""
        with suppress(FileNotFoundError):
            if stat.S_ISLNK(self.look().st_mode):
                raise Redirected(self.place.path)

    def open(self, flags: int) -> int:
        _system.before_reading("open", self.name)
        try:
            return os.open(self.name, flags | _NOFOLLOW | _NEVER_WAIT | _CLOSED_ON_EXEC | _BINARY, dir_fd=self.handle)
        except OSError:
            self.refuse_link()
            raise


@contextmanager
def _spot(place: Place) -> Iterator[_Spot]:
    """Open the parent folder of a place, name by name, starting at the base."""
    if not _HANDLES:
        _refuse_links_on_the_way(place)
        yield _Spot(place, None)
        return
    handle = os.open(place.base, _PASSING)
    try:
        for depth, name in enumerate(place.names[:-1], start=1):
            inner = _enter(handle, name, place.base.joinpath(*place.names[:depth]))
            os.close(handle)
            handle = inner
        yield _Spot(place, handle)
    finally:
        os.close(handle)


def _enter(handle: int, name: str, path: Path) -> int:
    try:
        return os.open(name, _PASSING | _NOFOLLOW, dir_fd=handle)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, handle):
            raise Redirected(path) from error
        error.filename = str(path)
        raise


def _is_link(name: str, handle: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _refuse_links_on_the_way(place: Place) -> None:
    for depth in range(1, len(place.names)):
        path = place.base.joinpath(*place.names[:depth])
        junction = getattr(os.path, "isjunction", lambda _: False)
        if os.path.islink(path) or junction(path):
            raise Redirected(path)


@contextmanager
def _folder(place: Place) -> Iterator[int | str]:
    """Open a folder for listing and syncing; yields its descriptor, or its path on systems without handles."""
    with _spot(place) as spot:
        if spot.handle is None:
            spot.refuse_link()
            yield str(place.path)
            return
        descriptor = spot.open(os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# --- inspecting and reading ---------------------------------------------------------------


def look(place: Place) -> os.stat_result:
    """The status of the file, folder or link at this place; links are not followed."""
    with _spot(place) as spot:
        return spot.look()


def exists(place: Place) -> bool:
    """Does anything accessible exist at this place? False also if a link is in its path.

    Other errors are raised: if the disk cannot be read, the answer is unknown.
    """
    try:
        look(place)
    except OSError as error:
        if error.errno in _NOTHING_THERE:
            return False
        raise
    return True


_NOTHING_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EINVAL)


def is_writable(place: Place) -> bool:
    """May this user write the file?"""
    with _spot(place) as spot:
        return os.access(spot.name, os.W_OK, dir_fd=spot.handle)


def refusal(folder: Path) -> int:
    """The errno with which the disk of this folder refuses every write; 0 if it does not, as far as is known."""
    if not hasattr(os, "statvfs"):
        return 0 if shutil.disk_usage(folder).free >= LEAST_SPACE else errno.ENOSPC
    facts = os.statvfs(folder)
    if facts.f_flag & os.ST_RDONLY:
        return errno.EROFS
    has_room = facts.f_bavail * facts.f_frsize >= LEAST_SPACE and (facts.f_favail or not facts.f_files)
    return 0 if has_room else errno.ENOSPC


def open_reading(place: Place) -> int:
    """Open a regular file; returns its descriptor. It is checked before, since opening a device may have effects."""
    with _spot(place) as spot:
        _require_regular(place, spot.look())
        descriptor = spot.open(os.O_RDONLY)
    return _checked(place, descriptor)


def _checked(place: Place, descriptor: int, *, written: bool = False) -> int:
    """The descriptor, if it is a regular file; otherwise it is closed and an error raised.

    A file to be `written` in place must have no other hard link, through which another file would change too.
    """
    try:
        facts = os.fstat(descriptor)
        _require_regular(place, facts)
        if written and facts.st_nlink > 1:
            raise Redirected(place.path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_regular(place: Place, facts: os.stat_result) -> None:
    if stat.S_ISLNK(facts.st_mode):
        raise Redirected(place.path)
    if not stat.S_ISREG(facts.st_mode):
        raise NotAFile(place.path, facts.st_mode)


def read(place: Place, *, limit: int) -> tuple[bytes, os.stat_result]:
    """At most `limit` bytes of a regular file, and its status after reading."""
    descriptor = open_reading(place)
    with os.fdopen(descriptor, "rb") as file:
        _system.before_reading("read", place.name)
        return file.read(limit), os.fstat(descriptor)


def names(folder: Place) -> list[str]:
    """The names in a folder, sorted."""
    with _folder(folder) as opened:
        _system.before_reading("list", folder.name)
        return sorted(os.listdir(opened))


@contextmanager
def listed(folder: Place) -> Iterator[Iterator[os.DirEntry[str]]]:
    """The entries of a folder, in any order. They are valid only inside the block, while the folder is open.

    Their `path` must not be used, since it is not a path.
    """
    with _folder(folder) as opened:
        _system.before_reading("list", folder.name)
        with os.scandir(opened) as entries:
            yield entries


# --- changing ------------------------------------------------------------------------------


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[_system.write(descriptor, view) :]


def overwrite(descriptor: int, data: bytes) -> None:
    """Replace the content of an open file."""
    _system.truncate(descriptor)
    os.lseek(descriptor, 0, os.SEEK_SET)
    write_all(descriptor, data)


def flush(descriptor: int) -> None:
    """Sync an open file, so that its content survives a power cut."""
    _system.fsync(descriptor)


def create(place: Place, *, mode: int = 0o666) -> int:
    """Create a new file; returns its descriptor. Fails if anything exists there, even a link."""
    with _spot(place) as spot:
        return _create(spot, spot.place.name, mode)


def _create(spot: _Spot, name: str, mode: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _CLOSED_ON_EXEC | _BINARY
    return _system.create(spot.named(name), flags, mode, spot.handle)


def open_lock(place: Place, *, make: bool = True) -> int:
    """Open one of our small files for locking or rewriting, creating it if it is missing; returns its descriptor."""
    flags = os.O_RDWR | _NOFOLLOW | _NEVER_WAIT | _CLOSED_ON_EXEC | _BINARY
    with _spot(place) as spot:
        try:
            descriptor = spot.open(os.O_RDWR)
        except FileNotFoundError:
            if not make:
                raise
            descriptor = _system.create(spot.name, flags | os.O_CREAT, 0o600, spot.handle)
    return _checked(place, descriptor, written=True)


def rewrite(place: Place, data: bytes) -> None:
    """Replace the content of one of our small, expendable files; neither atomic nor synced."""
    descriptor = open_lock(place)
    try:
        overwrite(descriptor, data)
    finally:
        os.close(descriptor)


def append(place: Place, data: bytes, *, synced: bool = False) -> int:
    """Append to a file, creating it if it is missing; returns its new size. `synced`: it survives a power cut."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NOFOLLOW | _NEVER_WAIT | _CLOSED_ON_EXEC | _BINARY
    with _spot(place) as spot:
        spot.refuse_link()
        descriptor = _checked(place, _system.create(spot.name, flags, 0o600, spot.handle), written=True)
    before = os.fstat(descriptor).st_size
    try:
        write_all(descriptor, data)
        if synced:
            _system.fsync(descriptor)
            sync(place.parent)
        return os.fstat(descriptor).st_size
    except OSError:
        if os.fstat(descriptor).st_size <= before + len(data):  # nobody else has appended something
            with suppress(OSError):
                _system.truncate(descriptor, before)
        raise
    finally:
        os.close(descriptor)


class Staged:
    """A temporary file with new content, next to the file that it will replace; locked while its writer runs."""

    def __init__(self, target: Place, temporary: Place, spot: _Spot, descriptor: int) -> None:
        self.target = target
        self.temporary = temporary
        self.installed = False
        self._spot = spot
        self._descriptor = descriptor
        self._facts = os.fstat(descriptor)

    @property
    def facts(self) -> os.stat_result:
        """The status of the temporary file, which the installed file will keep."""
        return self._facts

    def write(self, data: bytes) -> None:
        write_all(self._descriptor, data)

    def file(self) -> io.RawIOBase:
        """A file object for writing in pieces; closing it does not close the temporary file."""
        return _Raw(self._descriptor)

    def finish(self, *, synced: bool = True) -> None:
        """Sync the complete content, so that it survives a power cut."""
        if synced:
            _system.fsync(self._descriptor)
        self._facts = os.fstat(self._descriptor)

    def set_time(self, mtime_ns: int) -> None:
        _system.utime(self._descriptor if os.utime in os.supports_fd else str(self.temporary), (mtime_ns, mtime_ns))
        self._facts = os.fstat(self._descriptor)

    def install(self) -> None:
        """Rename it to its target, in the folder that was opened when it was staged."""
        if sys.platform == "win32":  # where an open file cannot be renamed
            self.close()
        self._spot.refuse_link()
        handle = self._spot.handle
        _system.rename(self._spot.named(self.temporary.name), self._spot.name, handle, handle)
        self.installed = True

    def move_to(self, target: Place) -> None:
        """Give it this name instead, in another folder of the same disk."""
        if sys.platform == "win32":
            self.close()
        move(self.temporary, target)
        self.installed = True

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _Raw(io.RawIOBase):
    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        return _system.write(self._descriptor, memoryview(data))


@contextmanager
def staging(target: Place, *, mode: int | None = None) -> Iterator[Staged]:
    """A temporary file, which is deleted at the end of the block unless it was installed.

    It gets the mode and, if permitted, the owner of the file that it replaces; `mode` applies if there is none.
    """
    with _spot(target) as spot:
        spot.refuse_link()
        temporary = target.sibling(_temporary_name(target.name))
        staged = Staged(target, temporary, spot, _create(spot, temporary.name, 0o666 if mode is None else mode))
        try:
            try_lock(staged._descriptor)
            _keep_facts(spot, staged._descriptor)
            yield staged
        finally:
            staged.close()
            if not staged.installed:
                with suppress(OSError):  # a scan removes leftover temporary files
                    _system.unlink(spot.named(temporary.name), spot.handle)


@contextmanager
def stage(target: Place, data: bytes, *, mode: int | None = None) -> Iterator[Staged]:
    """A temporary file with this content, written and synced, which only has to be installed."""
    with staging(target, mode=mode) as staged:
        staged.write(data)
        staged.finish()
        yield staged


def _temporary_name(name: str) -> str:
    """A unique hidden name, not longer than file systems allow."""
    while len(os.fsencode(name)) > 200:
        name = name[:-1]
    return f".{name}.{os.urandom(4).hex()}{TEMPORARY}"


def _keep_facts(spot: _Spot, descriptor: int) -> None:
    if sys.platform == "win32":
        return
    try:
        facts = spot.look()
    except FileNotFoundError:
        return
    _require_regular(spot.place, facts)
    _system.chmod(descriptor, stat.S_IMODE(facts.st_mode))
    if (facts.st_uid, facts.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(PermissionError):  # only root may give files away
            os.fchown(descriptor, facts.st_uid, facts.st_gid)


def replace(
    target: Place, data: bytes, *, mode: int | None = None, synced: bool = True, tries: int = 3
) -> os.stat_result:
    """Write a file atomically: readers see either the old or the new content, and if it is synced even after a power
    cut. Copies that nobody needs after one are not synced."""
    try:
        with staging(target, mode=mode) as staged:
            staged.write(data)
            staged.finish(synced=synced)
            staged.install()
            if synced:
                sync(target.parent)
            return staged.facts
    except FileNotFoundError:
        # Before the temporary file was locked, another process may have removed it as a leftover.
        if tries < 2 or not exists(target.parent):
            raise
        return replace(target, data, mode=mode, synced=synced, tries=tries - 1)


def move(source: Place, target: Place) -> None:
    """Move a file, overwriting the target."""
    with _spot(source) as old, _spot(target) as new:
        _require_regular(source, old.look())
        new.refuse_link()
        _system.rename(old.name, new.name, old.handle, new.handle)


def move_new(source: Place, target: Place) -> None:
    """Move a file; fails if the target exists."""
    with _spot(source) as old, _spot(target) as new:
        _require_regular(source, old.look())
        if old.handle is None:
            _system.rename_new(old.name, new.name)
            return
        try:
            _system.link(old.name, new.name, old.handle, new.handle)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with suppress(FileNotFoundError):
                new.look()
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
            _system.rename(old.name, new.name, old.handle, new.handle)
            return
        try:
            if source.parent != target.parent:
                sync(target.parent)  # so that after a power cut the file is in at least one of the two folders
            _system.unlink(old.name, old.handle)
        except BaseException:
            with suppress(OSError):
                old.look()  # if an interrupt came after the old name was removed, the new one must be kept
                _system.unlink(new.name, new.handle)
            raise


def copy(source: Place, target: Place) -> None:
    """Copy a file, with its modification time, possibly to another disk; fails if the target exists."""
    descriptor = open_reading(source)
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        copied = create(target, mode=stat.S_IMODE(facts.st_mode))
        try:
            while piece := file.read(_PIECE):
                write_all(copied, piece)
            _system.fsync(copied)
        except BaseException:
            with suppress(OSError):
                remove(target)
            raise
        finally:
            os.close(copied)
    set_time(target, facts.st_mtime_ns)


def link_or_copy(source: Place, target: Place) -> None:
    """Hard-link a file, or copy it if that is not supported; fails if the target exists."""
    with _spot(source) as old, _spot(target) as new:
        _require_regular(source, old.look())
        if old.handle is not None:
            try:
                _system.link(old.name, new.name, old.handle, new.handle)
                return
            except OSError as error:
                if error.errno not in (*_NO_LINKS, errno.EXDEV):
                    raise
    copy(source, target)


_PIECE = 1 << 20
# Errors of a file system without hard links, and of a disk so full that not even a link fits.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.ENOSPC, errno.EDQUOT)


def remove(place: Place) -> None:
    """Remove a file, or a link itself; does nothing if it is missing."""
    with suppress(FileNotFoundError), _spot(place) as spot:
        _system.unlink(spot.name, spot.handle)


def remove_folder(place: Place) -> None:
    """Remove an empty folder."""
    with _spot(place) as spot:
        _system.rmdir(spot.name, spot.handle)


def make_folders(place: Place, *, mode: int = 0o777) -> tuple[Place, ...]:
    """Create a folder and its missing parents; returns the created ones, outermost first."""
    created = []
    for depth in range(1, len(place.names) + 1):
        folder = Place(place.base, place.names[:depth])
        with _spot(folder) as spot:
            if _is_folder(spot):
                continue
            with suppress(FileExistsError):  # another process created it at the same time
                _system.mkdir(spot.name, mode, spot.handle)
                created.append(folder)
    for folder in created:  # otherwise synced files in a new folder could be lost together with the folder
        sync(folder.parent)
    return tuple(created)


def _is_folder(spot: _Spot) -> bool:
    try:
        mode = spot.look().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISLNK(mode):
        raise Redirected(spot.place.path)
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(spot.place))
    return True


def set_time(place: Place, mtime_ns: int) -> None:
    descriptor = open_reading(place)
    try:
        _system.utime(descriptor if os.utime in os.supports_fd else str(place.path), (mtime_ns, mtime_ns))
    finally:
        os.close(descriptor)


def private(place: Place) -> None:
    """Remove all permissions of other users on a folder that this user owns."""
    if sys.platform == "win32":
        return
    with _folder(place) as descriptor:
        assert isinstance(descriptor, int)
        facts = os.fstat(descriptor)
        if facts.st_mode & 0o077 and facts.st_uid == os.geteuid():
            _system.chmod(descriptor, 0o700)


def sync(folder: Place) -> None:
    """Sync a folder, so that new names in it survive a power cut, if the system supports that."""
    if sys.platform == "win32":
        return
    with _folder(folder) as descriptor:
        assert isinstance(descriptor, int)
        try:
            _system.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not supported by some network file systems
                raise


# --- locks ---------------------------------------------------------------------------------

if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int) -> bool:
        """Lock an open file for its holder alone; False if another one has it."""
        try:
            os.lseek(descriptor, 0x7FFF_0000, os.SEEK_SET)  # far after any content, so that it stays readable
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Lock an open file for its holder alone; False if another one has it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
