"""How is the index file protected from concurrent threads and processes, and from crashes?

One write connection under a lock, one reader per thread, write-ahead log, every acknowledged
write synced. After a fork, or if the file was replaced on disk, it is opened again. If there is no
room for the files that sharing needs (log and shared memory), it can still be read.

The file is opened only through SQLite: closing any other handle on it would release all locks
that this process holds on it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from enum import Enum
from pathlib import Path
from typing import Any
from weakref import WeakSet

import apsw

from spec_kit_memory import filesystem
from spec_kit_memory.advice import advise
from spec_kit_memory.core.memory import Entry, Origin, Scope
from spec_kit_memory.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnusable, SpecKitMemoryError
from spec_kit_memory.filesystem import Place
from spec_kit_memory.index.sql import declared_links
from spec_kit_memory.index.sql.dialect import LEDGER_HEAD, TextIndex, Values, first
from spec_kit_memory.index.sqlite import companions, dialect, failures, schema, text_index
from spec_kit_memory.index.sqlite.busy import wait_at_most
from spec_kit_memory.index.sqlite.reads import Read, ReadBlock, Reads
from spec_kit_memory.index.statement_steps import TOO_MANY_ROWS, StepLimit

BUSY_SECONDS = 30.0
_READ_SECONDS = 5.0  # how long reopening waits for reads of the old file to end
_DELETING_SECONDS = 0.25  # how long it then waits for the old file's log to be deleted
ASIDE_SECONDS = 0.5  # how long a read waits to record its use
_CACHE_KIB = 4_096  # per connection, and a server has one for each of its worker threads
_WRITER_CACHE_KIB = 16_384
_LOG_BYTES = 64_000_000  # a log that grew in one long write is cut back to this
_WAL_PAGES = 4_000  # a checkpoint every 16 MB: scans spend less time copying pages
_REFUSED_SECONDS = 5.0  # pause before a read tries again to record its use on a full disk
_LEAST_BYTES = 100  # the header: SQLite treats a smaller file as a new one
_LOCKING_BYTE = 0x40000000  # SQLite leaves out the page that contains this byte
_abandoned: list[object] = []  # connections of a parent process: closing them here would harm the parent's log


_PRAGMAS = (
    "foreign_keys = ON",
    "trusted_schema = OFF",  # an index may have come with a repository
    "cell_size_check = ON",  # damage is noticed when a page is read, not when its rows make no sense
    "fullfsync = ON",  # macOS: without it a sync may stay in the drive's cache
    "temp_store = MEMORY",
    f"cache_size = -{_CACHE_KIB}",
)


class _Access(Enum):
    """How the file is read."""

    SHARED = "beside other processes, with the log and its index"
    FROZEN = "as it is: there is no log"
    ALONE = "with the log's index in our own memory, and without locks"


class Connection(apsw.Connection):
    """A connection that also understands the statements of `sql`."""

    text_index: TextIndex = text_index
    checkout = 0  # a file has only one checkout
    last_entry: tuple[int, str] | None = None
    steps: StepLimit | None = None  # of a file that may have come with a repository

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.link_changes: dict[int, Any] = {}

    def execute(self, sql: str, values: Values = (), /) -> apsw.Cursor:  # type: ignore[override]
        if "@" in sql:
            sql, has_lists = dialect.translated(sql)
            values = dialect.bound(values) if has_lists else values
        if self.steps is not None:
            self.steps.begin()
        return _execute(self, sql, values)

    def fetch_once(self, sql: str, values: Values = (), /) -> list[tuple[Any, ...]]:
        return self.execute(sql, values).fetchall()

    def executemany(self, sql: str, values: Iterable[Values], /) -> apsw.Cursor:  # type: ignore[override]
        each = values if self.steps is None else self.steps.each(values)
        return super().executemany(dialect.translated(sql)[0], each)

    def settle(self) -> None:
        """Nothing to do: statements are never deferred."""

    def next_id(self, kind: str, count: int = 1) -> int:
        """The next id of a table, higher than every id that it has or ever had."""
        had = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"
        has = f"SELECT coalesce(max(rowid), 0) FROM {kind}"
        return int(self.execute(f"SELECT max(({had}), ({has})) + 1", (kind,)).get)

    def last_id(self, kind: str) -> int:
        return self.next_id(kind) - 1

    def taken_id(self, kind: str, given: int) -> None:
        """Nothing to do: the table keeps count."""

    def ledger_head(self) -> tuple[int, str] | None:
        row = self.execute(LEDGER_HEAD).fetchone()
        return (row[0], row[1]) if row else None

    def size(self) -> int:
        return int(first(self, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0])

    def raised(self, counter: str) -> int:
        # By its key: the text index writes out what it has collected before a statement that may change several rows.
        self.execute(f"UPDATE counter SET {counter} = {counter} + 1 WHERE id = 1")
        return int(first(self, f"SELECT {counter} FROM counter")[0])

    def vectors(self, hashes: Sequence[str]) -> list[tuple[str, bytes, bytes | None]]:
        sql = (
            "SELECT hash, vector, states FROM vector LEFT JOIN token_state ON vector_id = vector.id"
            " WHERE hash IN @list(?) AND model = (SELECT max(id) FROM model)"
        )
        vectors: list[Any] = self.execute(sql, (list(hashes),)).fetchall()
        return vectors

    def checkouts(self) -> list[int]:
        return [self.checkout]

    def within(self, *checkouts: int) -> AbstractContextManager[None]:
        return nullcontext()

    def having(self, memory_id: int) -> list[int]:
        return []

    def elsewhere(self, entry: Entry) -> None:
        """There is no other checkout."""

    def links_written(self, keys: Sequence[tuple[int, int, str]], origin: Origin) -> None:
        """There is no other checkout."""

    def drop_links(self, link_ids: Sequence[int]) -> None:
        # One by one: the text index writes out what it has collected before a statement that may change several rows.
        self.executemany("DELETE FROM link WHERE id = ?", [(link_id,) for link_id in link_ids])


_execute = apsw.Connection.execute  # looked up once


class Database:
    """A file and the connections to it. `on_new_file` is called when another file has replaced it."""

    refusal = apsw.ConstraintError

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        damaged_ok: bool = False,
        busy_seconds: float = BUSY_SECONDS,
        ids: range | None = None,
    ) -> None:
        self.path = path
        self.ids = ids
        self._name_on_disk = str(path)
        self._asked_to_read = read_only
        self.busy_seconds = busy_seconds
        self.on_new_file: Callable[[], None] = lambda: None
        self._closed = False
        self._was_open = False
        self._bulks = threading.local()  # the file that each thread's `bulk` block began on
        self._reads = Reads()
        self._reset()
        try:
            self._open()
        except DatabaseCorrupt:
            if not damaged_ok:  # else each use opens it and reports the damage until it is rebuilt
                raise

    def _reset(self) -> None:
        """Initialise the state that belongs to one process and one file."""
        self._pid = os.getpid()
        self._identity: tuple[int, int] | None = None
        self._size = 0  # the largest size of this file so far
        self._measuring = threading.Lock()
        self._lock = threading.RLock()
        self._registering = threading.Lock()  # not `_lock`: a writer may hold that while it waits
        self._threads = threading.local()
        self._readers: WeakSet[Connection] = WeakSet()
        self._writer: Connection | None = None
        self._sync = "FULL"  # of the write connection
        self._beside: dict[str, int] = {}  # inodes of its companion files (log, shared memory), by path
        self._access = _Access.SHARED
        self._stamps: tuple[object, ...] | None = None  # of the files, to notice changes where SQLite does not
        self._refusal: SpecKitMemoryError | None = None  # why it cannot be written, though it should be
        self._refused_at = 0.0

    @property
    def read_only(self) -> bool:
        return self._writer is None

    def within(self, scope: Scope | None) -> Database:
        """The same object: a process that can open the file can read all of it."""
        return self

    # --- opening

    def _open(self) -> None:
        with self.translated():
            making = self._prepare_file()
            try:
                if self._asked_to_read or not self._may_write():
                    self._register(self._connect_for_reading())
                else:
                    self._open_for_writing()
                self._require_all_pages(self._writer or self._reader())
            except BaseException:
                self._close_all()
                raise
            self._identity = self._on_disk()
            self._size = max(self._size, self._size_on_disk())
            if not self.read_only:
                self._beside = {name: inode for name in self._names_beside() if (inode := _inode(name))}
            if making:
                filesystem.remove(Place.of(self._making))
            self._was_open = True

    def _prepare_file(self) -> bool:
        """Create an empty file if there is none, which SQLite then fills; True while it is being filled.

        An empty file that is not being filled was truncated, and SQLite would discard its log.
        """
        if not self.path.exists():
            if self._asked_to_read:
                raise DatabaseUnusable(f"there is no index at {self.path}", hint=advise("index"))
            folder = self.path.absolute().parent
            if not folder.exists():
                # If the index was open before, the workspace has been deleted: a late write must not create it again.
                base = folder.parent if self._was_open else Path(folder.anchor)
                filesystem.make_folders(Place(base, folder.relative_to(base).parts), mode=0o700)
            with suppress(FileExistsError):
                os.close(filesystem.open_lock(Place.of(self._making)))
                os.close(filesystem.create(Place.of(self.path), mode=0o600))
            return True
        if self.path.stat().st_size >= _LEAST_BYTES:
            return False
        if not self._making.exists() and self.path.stat().st_size < _LEAST_BYTES:
            raise self._cut_off()
        return True

    @property
    def _making(self) -> Path:
        """The mark of a file that is being created: an empty file without it was truncated."""
        return Path(f"{self.path}-making")

    def _may_write(self) -> bool:
        return os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)

    def _open_for_writing(self) -> None:
        try:
            connection = self._connect(apsw.SQLITE_OPEN_READWRITE)
            try:
                schema.refuse_foreign(connection, str(self.path))
                self._bring_up_to_date(connection)
                schema.refuse_foreign_ids(connection, str(self.path), self.ids)
            except BaseException as error:
                failures.note_errno(error, connection)
                connection.close()
                raise
            self._writer = connection
        except failures.CANNOT_BE_SHARED as error:
            self._refusal, self._refused_at = self._as_ours(error), time.monotonic()
            try:
                self._register(self._connect_for_reading())
            except (*failures.CANNOT_BE_SHARED, SpecKitMemoryError):
                raise self._refusal from error

    def _connect_for_reading(self) -> Connection:
        """Open for reading; without sharing if a read-only or full disk has no room for the log's index."""
        try:
            connection = self._connect(apsw.SQLITE_OPEN_READONLY)
        except failures.CANNOT_BE_SHARED:
            self._stamps = self._stamps_on_disk()
            self._access = _Access.ALONE if companions.has_log_frames(self.path) else _Access.FROZEN
            connection = self._connect(apsw.SQLITE_OPEN_READONLY)
        try:
            schema.refuse_foreign(connection, str(self.path))
            if not schema.is_current(connection):
                raise DatabaseUnusable(
                    f"{self.path} has an older schema and cannot be written, so it cannot be brought up to date",
                    hint=advise("make-writable"),
                )
            schema.refuse_foreign_ids(connection, str(self.path), self.ids)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self, flags: int) -> Connection:
        companions.refuse_foreign(self.path)
        # The path was resolved before: a link in it was put there since, and may lead anywhere.
        flags |= apsw.SQLITE_OPEN_URI | apsw.SQLITE_OPEN_NOFOLLOW
        return self._configured(Connection(self._name(), flags=flags))

    def _name(self) -> str:
        uri = self.path.absolute().as_uri()
        match self._access:
            case _Access.FROZEN:
                return f"{uri}?immutable=1"
            case _Access.ALONE:
                return f"{uri}?vfs={'win32-none' if os.name == 'nt' else 'unix-none'}"
        return uri

    def _configured(self, connection: Connection) -> Connection:
        try:
            connection.steps = StepLimit(self.path, lambda: failures.damaged(self.path, TOO_MANY_ROWS))
            connection.steps.watch(connection)
            wait_at_most(connection, self.busy_seconds)
            if self._access is _Access.ALONE:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}").fetchall()
            # Otherwise a join is planned again for every bound value, which takes longer than most joins run.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            # Code in a forged file must not reach another file or change its own schema.
            connection.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
            connection.register_fts5_function("skm_times", _times)
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # reads the header: errors surface here
        except BaseException as error:
            failures.note_errno(error, connection)
            connection.close()
            raise
        return connection

    def _bring_up_to_date(self, connection: Connection) -> None:
        deadline = time.monotonic() + self.busy_seconds
        while True:  # switching the journal mode does not wait for locks by itself
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
                break
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        for pragma in (
            "synchronous = FULL",
            f"wal_autocheckpoint = {_WAL_PAGES}",
            f"journal_size_limit = {_LOG_BYTES}",
            f"cache_size = -{_WRITER_CACHE_KIB}",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        if schema.is_current(connection):
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            schema.migrate(connection, str(self.path), ids=self.ids)
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise

    # --- noticing forks, and replaced or truncated files

    def _on_disk(self) -> tuple[int, int] | None:
        try:
            facts = os.stat(self._name_on_disk)
        except OSError:
            return None
        identity = facts.st_dev, facts.st_ino
        if identity == self._identity and facts.st_size != self._size:
            if facts.st_size > self._size:
                self._size = facts.st_size
            else:
                self._measure_again()
        return identity

    def _measure_again(self) -> None:
        """Find out why the file looks smaller: another thread saw it grow meanwhile, it was compacted or truncated.

        A file that was truncated while open must neither be read further nor opened again.
        """
        with self._measuring, self.translated():
            size = self._size_on_disk()
            if size >= self._size:
                return
            if size < _LEAST_BYTES and self.path.exists():  # SQLite would discard its log
                raise self._cut_off()
            connection = self._connect_again()  # a new one, which has not begun to read
            try:
                self._require_all_pages(connection)
            finally:
                connection.close()
            self._size = self._size_on_disk()

    def _size_on_disk(self) -> int:
        try:
            return os.stat(self._name_on_disk).st_size
        except OSError:  # deleted: the next use creates it again
            return 0

    def _require_all_pages(self, connection: Connection) -> None:
        """Raise if there are pages that are neither in the file nor in the log.

        Both change during the check, as other processes write and copy the log into the file, so missing pages count
        only if the file did not grow meanwhile.
        """
        while True:
            size = self._size_on_disk()
            if self._has_all_pages(connection, size):
                return
            if size == self._size_on_disk():
                raise self._cut_off()

    def _has_all_pages(self, connection: Connection, size: int) -> bool:
        count, page_size, free = first(
            connection,
            "SELECT page_count, page_size, freelist_count"
            " FROM pragma_page_count, pragma_page_size, pragma_freelist_count",
        )
        inside = size // page_size
        if count <= inside:
            return True
        # A page that was allocated and freed in one transaction is counted but never written.
        locking = _LOCKING_BYTE // page_size + 1
        lacking = set(range(inside + 1, count + 1)) - companions.logged_pages(self.path) - {locking}
        return len(lacking) <= int(free)

    def _cut_off(self) -> DatabaseCorrupt:
        return failures.damaged(self.path, "it was cut off by another program")

    def _stamps_on_disk(self) -> tuple[object, ...]:
        return tuple(_stamp(name) for name in (self._name_on_disk, str(companions.log_path(self.path))))

    def _ensure_current(self) -> None:
        if self._closed:
            raise DatabaseUnusable(f"the index {self.path} was closed", hint="open the workspace again")
        if os.getpid() != self._pid:
            _abandoned.append((self._writer, list(self._readers), self._threads))
            self._reads = Reads()
            self._reset()
            self._open()
            self.on_new_file()  # drop caches: a thread that does not exist in this process may hold their locks
        elif not self._is_ours():
            with self._lock:
                if not self._is_ours():
                    self._reopen()

    def _is_ours(self) -> bool:
        """Is the file at our path the open one? False if there is none, or while a thread reopens it."""
        identity = self._on_disk()
        if identity is None or identity != self._identity:
            return False
        return self._stamps is None or self._stamps == self._stamps_on_disk()

    def _reopen(self) -> None:
        """Open again: another file is at our path, or none, so no cached state of the old one is valid.

        The same file is also reopened if it changed while it was read-only, or if it may be writable again.
        """
        if self._writer is not None and self._writer.in_transaction:
            raise DatabaseUnusable(f"{self.path} was replaced while it was written", hint="try again")
        if os.path.realpath(self.path) != os.fspath(self.path):  # a link: leave the log alone
            raise DatabaseUnusable(f"a link stands in the place of {self.path}", hint="remove the link")
        self._reads.wait_for_others(_READ_SECONDS)
        is_same = self._identity is not None and self._identity == self._on_disk()
        leftovers = [] if is_same else self._leftovers()
        lock = self._lock
        self._close_all()
        self._reset()
        self._lock = lock  # which this thread holds
        for name in leftovers:
            with suppress(OSError):
                filesystem.remove(Place.of(Path(name)))
        self._open()
        if not is_same:
            self.on_new_file()

    def _leftovers(self) -> list[str]:
        """The old file's log, if it still exists: SQLite would apply it to the new file.

        A process that deletes the folder deletes the log a moment later; it must not delete a new file's log.
        """
        deadline = time.monotonic() + (0 if self._asked_to_read else _DELETING_SECONDS)
        while not self.path.exists() and any(map(_inode, self._names_beside())) and time.monotonic() < deadline:
            time.sleep(0.005)
        return [name for name, inode in self._beside.items() if _inode(name) == inode]

    def _names_beside(self) -> tuple[str, str]:
        return f"{self.path}-wal", f"{self.path}-shm"

    def _undisturbed(self, connect: Callable[[], Connection]) -> tuple[Read, Connection]:
        """Begin a read on a connection that no other thread closes until it has ended."""
        while True:
            read = self._reads.begin()
            try:
                if not self._closed and os.getpid() == self._pid and self._is_ours():
                    return read, connect()
            except BaseException as error:
                read.end()
                if not isinstance(error, apsw.Error) or self._is_ours():
                    raise
            else:
                read.end()
            self._ensure_current()

    # --- using

    def _reader(self) -> Connection:
        """This thread's connection for reading."""
        connection: Connection | None = getattr(self._threads, "reader", None)
        return connection or self._register(self._connect_again())

    def _connect_again(self) -> Connection:
        """A further connection, opened like the first one."""
        return self._connect(apsw.SQLITE_OPEN_READONLY if self.read_only else apsw.SQLITE_OPEN_READWRITE)

    def _register(self, connection: Connection) -> Connection:
        self._threads.reader = connection
        with self._registering:
            self._readers.add(connection)
        return connection

    def reading(self, *, own: bool = False) -> AbstractContextManager[Connection]:
        """Several reads of one snapshot. `own` includes what this thread wrote in an open `together`.

        Anything that is cached must be read without `own`, because that transaction may be rolled back.
        """
        return self._reading_own() if own and self._joined else ReadBlock(self._begin_read, self._as_ours, self.path)

    def _begin_read(self) -> tuple[Read, Connection]:
        return self._undisturbed(self._reader)

    @contextmanager
    def _reading_own(self) -> Iterator[Connection]:
        assert self._joined
        with self.translated():
            yield self._joined

    @contextmanager
    def apart(self) -> Iterator[Connection]:
        """A separate connection with one snapshot, for long reads that are fetched in parts.

        No other thread closes it, so no thread waits for the read to end.
        """
        with self.translated():
            read, connection = self._undisturbed(self._connect_again)
            read.end()
            try:
                connection.execute("BEGIN")
                yield connection
            except Exception as error:
                if failures.shows_damage(error) and not isinstance(error, failures.FOREIGN):
                    raise failures.damaged(self.path, repr(error)) from error
                raise
            finally:
                connection.close()

    @contextmanager
    def writing(self, *, aside: bool = False) -> Iterator[Connection]:
        """One transaction: all of the block or nothing, on disk when it returns.

        `aside` is for what a read records (use, sessions): it waits only a moment for other writers
        and is not synced, because it was not acknowledged to a caller.
        """
        joined = self._joined
        if joined is not None:
            with self._joining(joined):
                yield joined
            return
        self._ensure_current()
        seconds = min(self.busy_seconds, ASIDE_SECONDS) if aside or self._hurried else self.busy_seconds
        deadline = time.monotonic() + seconds
        with self._alone(seconds), self.translated(waited_seconds=seconds):
            connection = self._begun(deadline, aside=aside)
            try:
                yield connection
                declared_links.follow_changes(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                failures.note_errno(error, connection)
                _roll_back(connection)
                raise

    def _begun(self, deadline: float, *, aside: bool) -> Connection:
        """Begin a transaction on the write connection, on the file that is now at our path."""
        while True:
            self._ensure_current()  # it may have been replaced while we waited for a lock
            if getattr(self._bulks, "about", self._threads) not in (None, self._threads):
                raise DatabaseUnusable(f"{self.path} was replaced while it was written", hint=advise("index-again"))
            connection = self._writable(aside=aside)
            if connection.in_transaction:
                raise DatabaseUnusable("a write was started inside another write", hint=advise("report-fault"))
            self._set_sync(connection, "NORMAL" if self.in_bulk or aside else "FULL")
            self._begin(connection, max(0.0, deadline - time.monotonic()))
            try:
                if self._is_ours():
                    return connection
            except BaseException:
                _roll_back(connection)
                raise
            _roll_back(connection)

    def _writable(self, *, aside: bool) -> Connection:
        """The write connection; if the disk had no room for it, try again."""
        if self._refusal is not None and (not aside or time.monotonic() > self._refused_at + _REFUSED_SECONDS):
            self._reopen()
        if self._refusal is not None:
            raise self._refusal
        if self._writer is None:
            raise DatabaseUnusable(
                f"{self.path} can only be read: the file or its folder is not writable",
                hint="make it writable, or set semantic.indexPath to a folder that is",
            )
        return self._writer

    @contextmanager
    def together(self) -> Iterator[None]:
        """This thread's writes in the block are one transaction: all of them or none."""
        outer = self._joined
        with self.writing() as connection:
            self._threads.joined = connection
            try:
                yield
                _require_whole(connection)
            finally:
                self._threads.joined = outer

    @property
    def _joined(self) -> Connection | None:
        """The open transaction of this thread's `together`."""
        return getattr(self._threads, "joined", None)

    @contextmanager
    def _joining(self, connection: Connection) -> Iterator[None]:
        """A write inside `together`: if it fails it may be half done, so the whole block is undone at once."""
        _require_whole(connection)
        try:
            with self.translated():
                yield
        except BaseException:
            _roll_back(connection)
            raise

    @contextmanager
    def _alone(self, seconds: float) -> Iterator[None]:
        """Hold the write lock of this process."""
        lock = self._lock
        if not lock.acquire(timeout=seconds):
            raise DatabaseBusy(
                f"another call held {self.path} for more than {seconds:g} seconds",
                hint=advise("who-holds-locks"),
            )
        try:
            yield
        finally:
            lock.release()

    @property
    def _hurried(self) -> bool:
        return getattr(self._threads, "hurried", 0) > 0

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Inside, this thread's writes wait only a moment for other writers, because a reader waits for them."""
        self._threads.hurried = getattr(self._threads, "hurried", 0) + 1
        try:
            yield
        finally:
            self._threads.hurried = max(0, getattr(self._threads, "hurried", 0) - 1)

    def _begin(self, connection: Connection, seconds: float) -> None:
        wait_at_most(connection, seconds)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.last_entry = None  # others may have appended to the ledger since
            connection.link_changes = {}
        finally:
            wait_at_most(connection, self.busy_seconds)

    def _set_sync(self, connection: Connection, level: str) -> None:
        if self._sync != level:
            connection.execute(f"PRAGMA synchronous = {level}")
            self._sync = level

    @property
    def in_bulk(self) -> bool:
        return getattr(self._threads, "bulk", 0) > 0

    @contextmanager
    def bulk(self) -> Iterator[None]:
        """This thread's commits are not synced one by one; leaving the block syncs them all.

        It holds for one thread only: what another thread acknowledges meanwhile is synced.
        """
        self._ensure_current()
        threads = self._threads
        threads.bulk = getattr(threads, "bulk", 0) + 1
        # If another file replaced the index meanwhile, ids that were read before mean other memories.
        outer, self._bulks.about = getattr(self._bulks, "about", None), threads
        try:
            yield
        finally:
            threads.bulk -= 1
            self._bulks.about = outer
            if threads is self._threads and not self.in_bulk and not self._closed and not self.read_only:
                with self.writing() as connection:
                    connection.execute("UPDATE counter SET synced = synced + 1")

    def content_replaced(self) -> None:
        """Drop what was cached, because the whole content was replaced."""
        self.on_new_file()

    def close(self) -> None:
        if self._closed:
            return
        with self._lock:
            self._closed = True
            if os.getpid() == self._pid:
                self._close_all()

    def _close_all(self) -> None:
        with self._registering:
            opened = [*self._readers, self._writer]
        for connection in opened:
            if connection is not None:
                with suppress(apsw.Error):
                    connection.close()
        self._writer = None

    # --- errors

    @contextmanager
    def translated(self, *, waited_seconds: float | None = None) -> Iterator[None]:
        try:
            yield
        except failures.FOREIGN as error:
            raise self._as_ours(error, waited_seconds=waited_seconds) from error

    def _as_ours(self, error: BaseException, *, waited_seconds: float | None = None) -> SpecKitMemoryError:
        waited = self.busy_seconds if waited_seconds is None else waited_seconds
        return failures.as_ours(error, self.path, busy_seconds=waited)


def _inode(name: str) -> int:
    """The inode of a file; 0 if there is none."""
    try:
        return os.stat(name).st_ino
    except OSError:
        return 0


def _stamp(name: str) -> tuple[int, int] | None:
    try:
        facts = os.stat(name)
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns


def _roll_back(connection: Connection) -> None:
    """Roll back the transaction unless SQLite has done so itself, as it does when the disk is full."""
    with suppress(apsw.Error):  # the original error is more useful
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _require_whole(connection: Connection) -> None:
    if not connection.in_transaction:
        raise DatabaseUnusable(
            "one of several writes that belong together failed, and all of them were undone", hint="try again"
        )


def _times(api: apsw.FTS5ExtensionApi, *_: apsw.SQLiteValue) -> int:
    """How often a passage contains the word or phrase of the query; called by SQLite."""
    return api.inst_count
