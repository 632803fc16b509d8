"""How is a damaged index rebuilt? A new file is built next to it and replaces its content as a whole.

The new file contains what can be read of the old one and what the caller reads from the files. It replaces the old
content in one SQLite transaction: other processes see either the old or the new content and keep their connections,
and a kill leaves the old content. No other process can write meanwhile. A copy of the old file is kept.

The old file is accessed only through SQLite's own file handles: closing any other would release this process's locks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import apsw

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import Change
from spec_kit_memory.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnusable
from spec_kit_memory.filesystem import Place
from spec_kit_memory.index.contract import Rebuilt, TableReport
from spec_kit_memory.index.sql.dialect import fetch
from spec_kit_memory.index.sqlite import companions, schema
from spec_kit_memory.index.sqlite.connection import Connection, Database
from spec_kit_memory.index.sqlite.pages import page_size
from spec_kit_memory.index.sqlite.salvage import index_remaining, salvage

_TRIES = 3  # others may write in the moment between the release of our lock and the exchange
_CHUNK = 1 << 20
_SETTLE_MS = 2_000  # to wait for truncating the log afterwards; if that fails, later writes do it
_HEADER = 100
_VERSIONS = (b"\1\1", b"\2\2")  # in the header: without a log, where a file system cannot have one, and with one


def rebuild(database: Database, change: Change, fill: Callable[[Path], None]) -> Rebuilt:
    """Rebuild the index. `fill` completes the new file at the given path; if it raises, nothing is changed."""
    path = database.path
    with database.translated():
        for _ in range(_TRIES):
            with _Old(path, database.busy_seconds) as old, _work_files(path) as (copy, new):
                old.copy_to(copy)
                salvaged = salvage(copy, new, change, ids=database.ids)
                fill(new)
                index_remaining(new)
                _require_sound(new)
                result = _result(path, salvaged.report(new), change, mended=old.was_mended)
                _rename(copy, result.kept)
                if old.replace_by(new):
                    _drop_earlier(path, result)
                    database.content_replaced()
                    return result
                _remove(result.kept)
    raise DatabaseBusy(
        f"other processes kept writing to {path} while it was rebuilt", hint="stop them, or try again in a moment"
    )


def _result(path: Path, tables: Mapping[str, TableReport], change: Change, *, mended: bool) -> Rebuilt:
    damaged = mended or any(table.restored or table.lost or not table.complete for table in tables.values())
    return Rebuilt(_kept_name(path, change, damaged=damaged), tables)


@contextmanager
def _work_files(path: Path) -> Iterator[tuple[Path, Path]]:
    """Paths for the copy and the new file; leftovers of a killed rebuild are removed."""
    places = path.with_name(f"{path.name}-keeping"), path.with_name(f"{path.name}-rebuilding")
    for place in places:
        _remove(place)
    try:
        yield places
    finally:
        for place in places:
            _remove(place)


def _remove(file: Path) -> None:
    for name in (str(file), f"{file}-wal", f"{file}-shm", f"{file}-journal"):
        filesystem.remove(Place.of(Path(name)))


def _rename(copy: Path, target: Path) -> None:
    if companions.log_path(copy).exists():
        filesystem.move(Place.of(companions.log_path(copy)), Place.of(companions.log_path(target)))
    filesystem.move(Place.of(copy), Place.of(target))
    filesystem.sync(Place(target.parent))


def _kept_name(path: Path, change: Change, *, damaged: bool) -> Path:
    """A free file name with the date, and `damaged` or `old`."""
    stem = f"{path.stem}-{'damaged' if damaged else 'old'}-{change.at:%Y%m%d-%H%M%S}"
    names = (f"{stem}{number}{path.suffix}" for number in ("", *(f"-{number}" for number in range(2, 1000))))
    return next(path.with_name(name) for name in names if not path.with_name(name).exists())


def _drop_earlier(path: Path, result: Rebuilt) -> None:
    """Delete older copies from which everything was taken over; damaged ones stay."""
    for earlier in path.parent.glob(f"{path.stem}-old-*{path.suffix}"):
        if earlier != result.kept:
            _remove(earlier)


def _require_sound(new: Path) -> None:
    with closing(Connection(str(new))) as connection:
        faults = [str(row[0]) for row in fetch(connection, "PRAGMA integrity_check(5)") if row[0] != "ok"]
        loose = fetch(connection, "PRAGMA foreign_key_check")
        faults += [f"{child} points to a missing {parent}" for child, _, parent, _ in loose[:5]]
    if faults:
        raise DatabaseUnusable(
            f"the new index is not sound, and nothing was changed: {'; '.join(faults)}",
            hint="look at the disk: what was just written to it reads otherwise",
        )


class _Old:
    """The file to replace, locked against other writers."""

    def __init__(self, path: Path, busy_seconds: float) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self._closing = ExitStack()
        self._before: tuple[bytes, int] | None = None  # header and length before the header was repaired

    @property
    def was_mended(self) -> bool:
        return self._before is not None

    def __enter__(self) -> _Old:
        companions.refuse_foreign(self._path)
        try:
            try:
                self._begin()
            except (apsw.NotADBError, apsw.CorruptError):
                self._closing.close()
                self._mend_header()
                self._begin()
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _begin(self) -> None:
        with _raw(self._path) as file:
            size, head = _page_size(file, self._path), file.xRead(_HEADER, 0)
        if len(head) < _HEADER or head[16:18] != _named(size) or head[18:20] not in _VERSIONS or head[20]:
            raise apsw.NotADBError("the header cannot be one of ours")  # SQLite might accept it, or use the log
        self._holding = self._connect()
        self._holding.execute("BEGIN IMMEDIATE")
        with suppress(apsw.CorruptError, DatabaseCorrupt):  # damage is expected; another program's file is refused
            schema.refuse_foreign(self._holding, str(self._path))

    def _connect(self) -> apsw.Connection:
        uri = self._path.absolute().as_uri()
        connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
        self._closing.callback(connection.close)
        connection.set_busy_timeout(round(self._busy_seconds * 1000))
        return connection

    def _mend_header(self) -> None:
        """Write a valid header, because SQLite cannot even lock the file without one. The copy keeps the old header."""
        with _raw(self._path) as file:
            length, size = self._path.stat().st_size, _page_size(file, self._path)
            self._before = file.xRead(_HEADER, 0)[:length], length
            file.xWrite(_new_header(size, pages=max(1, -(-length // size))), 0)
            if length < size:
                file.xWrite(b"\0", size - 1)
            file.xSync(apsw.SQLITE_SYNC_FULL)

    def copy_to(self, copy: Path) -> None:
        """Copy file and log as they are.

        Nothing is appended to the log now, and a page that is copied from it into the file meanwhile is in both.
        """
        descriptor = filesystem.create(Place.of(copy), mode=0o600)
        try:
            with _raw(self._path) as file:
                for piece in self._content(file):
                    filesystem.write_all(descriptor, piece)
            filesystem.flush(descriptor)
        finally:
            os.close(descriptor)
        if companions.has_log_frames(self._path):
            filesystem.copy(Place.of(companions.log_path(self._path)), Place.of(companions.log_path(copy)))

    def _content(self, file: apsw.VFSFile) -> Iterator[bytes]:
        """The file in chunks, as it was before its header was repaired."""
        head, length = self._before or (b"", self._path.stat().st_size)  # SQLite treats a file of one byte as empty
        for offset in range(0, length, _CHUNK):
            piece = _read(file, offset, min(_CHUNK, length - offset))
            yield head + piece[len(head) :] if offset == 0 else piece

    def replace_by(self, new: Path) -> bool:
        """Replace the content; False, with nothing changed, if another process wrote just before the exchange."""
        writer, watcher = self._connect(), self._connect()
        seen = watcher.execute("PRAGMA data_version").get
        source = apsw.Connection(str(new), flags=apsw.SQLITE_OPEN_READONLY)
        with closing(source), writer.backup("main", source, "main") as exchange:
            self._holding.execute("ROLLBACK")
            exchange.step(1)  # from now on no other process can write until the exchange is complete or undone
            if watcher.execute("PRAGMA data_version").get != seen:
                return False
            exchange.step(-1)
        with suppress(apsw.BusyError):  # others still read the old content
            writer.set_busy_timeout(_SETTLE_MS)
            writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return True


@contextmanager
def _raw(path: Path) -> Iterator[apsw.VFSFile]:
    """Access to the file's bytes through a file handle of SQLite."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    file = apsw.VFSFile("", str(path.absolute()), flags)
    try:
        yield file
    finally:
        file.xClose()


def _read(file: apsw.VFSFile, offset: int, length: int) -> bytes:
    """Read bytes; pages that the disk can no longer read become zeros, so that only these are lost."""
    try:
        return file.xRead(length, offset)
    except apsw.IOError:
        step = 4096
        if length <= step:
            return bytes(length)
        return b"".join(_read(file, offset + at, min(step, length - at)) for at in range(0, length, step))


def _page_size(file: apsw.VFSFile, path: Path) -> int:
    length = path.stat().st_size
    return page_size(lambda offset, count: _read(file, offset, count), length, companions.log_header(path))


def _named(size: int) -> bytes:
    """A page size as the header stores it."""
    return (1 if size == 65_536 else size).to_bytes(2, "big")


def _new_header(page_size: int, *, pages: int) -> bytes:
    """The header of an index with a log and this number of pages."""
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute(f"PRAGMA page_size = {page_size}").fetchall()
        connection.execute("BEGIN")
        schema.migrate(connection, ":memory:")
        connection.execute("COMMIT")
        head = bytearray(connection.serialize("main")[:_HEADER])
    head[18:20] = _VERSIONS[1]
    head[28:32] = pages.to_bytes(4, "big")
    head[32:40] = bytes(8)  # no free list: the free pages are not known
    head[92:96] = head[24:28]  # marks the number of pages as valid
    return bytes(head)
