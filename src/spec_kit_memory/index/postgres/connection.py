"""How do threads and processes share the server? One pool per process and server, short transactions, no session state.

Every transaction switches to a role with minimal rights and sets its project: row-level security then shows only
that project's rows. Writers of one project take turns by locking its row of `counter`; it is always the first row
that they lock, so that they cannot deadlock. No state outlives a transaction on a connection, so that poolers which
assign connections per transaction work.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from copy import copy
from typing import Any

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from spec_kit_memory.advice import advise
from spec_kit_memory.core.memory import Entry, Origin, Scope
from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.index import rows
from spec_kit_memory.index.arrays.feed import Counters
from spec_kit_memory.index.postgres import (
    dialect,
    failures,
    other_checkouts,
    real_array,
    schema,
    text_index,
    writer_turns,
)
from spec_kit_memory.index.sql import declared_links
from spec_kit_memory.index.sql.dialect import LEDGER_HEAD, Elsewhere, TextIndex, Values, first

BUSY_SECONDS = 30.0
ASIDE_SECONDS = 0.5  # how long a read waits to record its use
_LEAST_WAIT_MS = 100  # the least lock timeout, for a writer whose turn came just before its deadline
_MOST_CONNECTIONS = 16  # per process and server
_POOL_SECONDS = 3.0
_BELIEVED_SECONDS = 0.01  # how long counters that were read are taken as current
_TRIES = 3  # a connection that broke while idle is noticed only at its next use
_OUTCOME_SECONDS = 15.0  # how long to look for the outcome of a commit whose answer was lost
_OUTCOME_PAUSE_SECONDS = 0.2
_IDLE = "idle_in_transaction_session_timeout"
_ABANDONED = "300s"  # after this the server drops a writer whose machine is gone
# A network that drops all packets is noticed within a minute instead of never.
_NETWORK: Mapping[str, Any] = {
    "client_encoding": "UTF8",  # regardless of PGCLIENTENCODING
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 45_000,
}
_MOST_WAITING = 1_000_000  # characters of deferred statements
# Columns of `counter`: the last number that the project assigned, of each kind.
_NUMBERED = ("generation", *(f"last_{kind}" for kind in ("memory", "link", "history", "passage", "vector", "model")))
_EVERYONE = "set_config('skm.everyone', 'on', true)"

Raw = psycopg.Connection[tuple[Any, ...]]
Pool = ConnectionPool[Raw]
_First = Callable[[Raw, bytes], object]  # sends BEGIN and the settings, perhaps followed by a statement
_CHECKOUTS = "SELECT id FROM checkout WHERE project_id = @p ORDER BY id"
_COUNTERS_PLACE = 2  # index of their result when a transaction begins: after BEGIN and the settings


def _literal(text: str) -> str:
    quoted = rows.clean(text).replace("'", "''").replace("\\", "\\\\")
    return f"E'{quoted}'"


def _storable(values: Values) -> Values:
    if isinstance(values, Mapping):
        return {name: _plain(value) for name, value in values.items()}
    return [_plain(value) for value in values]


def _plain(value: Any) -> Any:
    return value.replace("\x00", "\ufffd") if isinstance(value, str) and "\x00" in value else value


def _answers_nothing(sql: str) -> bool:
    """Is it a write that returns no rows, only a count?"""
    return sql.lstrip()[:6].upper() in ("INSERT", "UPDATE", "DELETE") and "RETURNING" not in sql


def _unmarked(begin: bytes) -> bytes:
    """Escape percent signs: the statements that begin a transaction may contain a user's name."""
    return begin.replace(b"%", b"%%")


class StatementResult:
    """The rows of one statement, or how many it changed."""

    def __init__(self, cursor: psycopg.Cursor[tuple[Any, ...]]) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._cursor)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._cursor.fetchall()

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._cursor.fetchone()

    @property
    def get(self) -> Any:
        """The first value of the first row; None if there is none."""
        row = self._cursor.fetchone()
        return None if row is None else row[0]

    @property
    def changed(self) -> int:
        return self._cursor.rowcount


class _Waiting(StatementResult):
    """The result of a deferred write; reading `changed` sends it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def changed(self) -> int:
        return self._connection.settle()


class Connection:
    """A connection inside one transaction of one project, which begins with its first statement."""

    text_index: TextIndex = text_index

    def __init__(
        self,
        begin: Callable[[_First], tuple[Pool, Raw]],
        project: int,
        checkout: int,
        extension: str,
        *,
        where: str,
        instance: str,
        note: Callable[[Counters, float], None] | None = None,
    ) -> None:
        """`note` is called with the counters at the start of the transaction, and when they were requested."""
        self._begin = begin
        self._note = note
        self._begun: tuple[Pool, Raw] | None = None
        self.project = project
        self.checkout = checkout
        self._looked_at: tuple[int, ...] = (checkout,)
        self._checkouts: list[int] = []
        self._ledger_head: tuple[int, str] | None = None  # when the project was locked
        self._extension = extension  # the schema of pgvector
        self._where = where
        self._instance = instance
        self.postings: dict[tuple[str, int], tuple[list[int], list[int]]] = {}  # written before the commit
        self.before_commit: list[Callable[[], None]] = []
        self.last_entry: tuple[int, str] | None = None  # sequence and hash of its last ledger entry
        self.link_changes: dict[int, Any] = {}
        self.broken = False
        self.counters: Counters | None = None  # as of the snapshot
        self._waiting: list[str] = []  # deferred writes, sent with the next read or before the commit
        self._waiting_size = 0
        self._numbers: dict[str, int] = {}  # the last numbers assigned, once the row of `counter` is locked
        self._given: set[str] = set()

    @property
    def raw(self) -> Raw:
        """The connection of psycopg, after deferred writes were sent."""
        if self._begun is None:
            self._started()
            assert self._begun is not None
        self.settle()
        return self._begun[1]

    def _started(self, statement: bytes = b"", values: Values = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        """Begin the transaction with this statement in one round trip. The cursor is before the statement's results."""
        cursors: list[tuple[float, psycopg.Cursor[tuple[Any, ...]]]] = []

        def send(raw: Raw, begin: bytes) -> None:
            asked_at, cursor = time.monotonic(), psycopg.ClientCursor(raw)
            cursors.append((asked_at, cursor.execute(b"%b; %b" % (_unmarked(begin), statement), values or {})))

        self._begun = self._begin(send)
        asked_at, cursor = cursors[-1]
        if self._note is not None:
            for _ in range(_COUNTERS_PLACE):
                cursor.nextset()
            row = cursor.fetchone()
            if row is None:
                raise _replaced(self._where)
            self.counters = Counters._make(row)
            self._note(self.counters, asked_at)
        return cursor

    def _give_back(self) -> None:
        """Return the connection to the pool: the statement that began the transaction also ended it."""
        if self._begun is not None:
            pool, raw = self._begun
            self._begun = None
            pool.putconn(raw)

    def settle(self) -> int:
        """Send deferred writes in order, in one round trip; returns how many rows the last one changed."""
        if self._begun is None or not self._waiting:
            return 0
        cursor = self._sent(self._begun[1], None)
        return cursor.rowcount

    def _sent(self, raw: Raw, statement: str | None) -> psycopg.Cursor[tuple[Any, ...]]:
        """Send deferred writes and then this statement in one round trip. The cursor is at the last result."""
        whole = "; ".join([*self._waiting, statement] if statement is not None else self._waiting)
        self._forget_waiting()
        cursor = raw.cursor()
        cursor.execute(whole.encode())
        while cursor.nextset():
            pass
        return cursor

    def _forget_waiting(self) -> None:
        self._waiting, self._waiting_size = [], 0

    def undo(self) -> None:
        """Roll back the transaction, in any state of its connection."""
        self._forget_waiting()
        if self._begun is not None:
            with suppress(psycopg.Error):
                self._begun[1].execute("ROLLBACK")

    @property
    def has_begun(self) -> bool:
        return self._begun is not None

    def end(self) -> None:
        """Roll back what is not committed, and return the connection to the pool."""
        if self._begun is None:
            return
        pool, raw = self._begun
        if raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.undo()
        pool.putconn(raw)

    def execute(self, sql: str, values: Values = ()) -> StatementResult:
        """Run a statement. The first one of a transaction is sent together with BEGIN.

        Later writes that return no rows are deferred, and sent together with the next statement that does.
        """
        statement, arguments = self._statement(sql), _storable(values) or {}
        if self._begun is not None:
            raw = self._begun[1]
            whole = psycopg.ClientCursor(raw).mogrify(statement, arguments)
            if _answers_nothing(sql):
                self._wait(whole)
                return _Waiting(self)
            return StatementResult(self._sent(raw, whole))
        cursor = self._started(statement, arguments)
        while cursor.nextset():
            pass
        return StatementResult(cursor)

    def _wait(self, statement: str) -> None:
        self._waiting.append(statement)
        self._waiting_size += len(statement)
        if self._waiting_size > _MOST_WAITING:
            self.settle()

    def fetch_once(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """Run one statement as a transaction in one round trip; if a transaction has begun, run it within that."""
        if self._begun is not None:
            return self.execute(sql, values).fetchall()
        try:
            cursor = self._started(b"%b; ROLLBACK" % self._statement(sql), _storable(values))
            rows = [cursor.fetchall() if cursor.description else []]
            while cursor.nextset():
                rows.append(cursor.fetchall() if cursor.description else [])
        finally:
            self._give_back()
        return rows[-2]

    def ask_for_counters(self) -> Counters:
        """The counters of the snapshot; anything read after this is as new or newer."""
        if self.counters is None:
            self._started(b"ROLLBACK")
            self._give_back()
        assert self.counters is not None
        return self.counters

    def _statement(self, sql: str) -> bytes:
        return dialect.translated(sql, self.project, self.checkout, self._extension)

    def executemany(self, sql: str, values: Iterable[Values]) -> None:
        for value in values:
            self.execute(sql, value)

    def binary(self, sql: str, values: Values = ()) -> psycopg.Cursor[tuple[Any, ...]]:
        """Run a statement with binary results, for large values."""
        cursor = self.raw.cursor(binary=True)
        real_array.register(cursor.adapters)
        return cursor.execute(self._statement(sql), values)

    @contextmanager
    def within(self, *checkouts: int) -> Iterator[None]:
        """Inside, statements see the rows of these checkouts; @c is the first of them."""
        before = self._looked_at
        self._look_at(checkouts)
        try:
            yield
        except BaseException:
            self.checkout, self._looked_at = before[0], before  # the transaction is rolled back
            raise
        self._look_at(before)

    def _look_at(self, checkouts: tuple[int, ...]) -> None:
        if checkouts != self._looked_at:
            self.execute("SELECT set_config('skm.checkout', ?, true)", (",".join(map(str, checkouts)),))
            self.checkout, self._looked_at = checkouts[0], checkouts

    def checkouts(self) -> list[int]:
        """The ids of all checkouts of the project, this one first, as of the beginning of the transaction."""
        if not self._checkouts:
            self._checkouts = [row[0] for row in self.execute(_CHECKOUTS)]
        return sorted(self._checkouts, key=lambda checkout: checkout != self.checkout)

    def having(self, memory_id: int) -> list[int]:
        """The other checkouts that contain this memory."""
        every = self.checkouts()
        if len(every) == 1:
            return []
        with self.within(*every):
            sql = "SELECT checkout_id FROM memory WHERE project_id = @p AND id = ? ORDER BY 1"
            ids = [row[0] for row in self.execute(sql, (memory_id,))]
        return [item for item in ids if item != self.checkout]

    def elsewhere(self, entry: Entry) -> Elsewhere | None:
        return other_checkouts.elsewhere(self, entry)

    def links_written(self, keys: Sequence[tuple[int, int, str]], origin: Origin) -> None:
        other_checkouts.claim_links(self, keys, origin)

    def drop_links(self, link_ids: Sequence[int]) -> None:
        other_checkouts.drop_links(self, link_ids)

    def vectors(self, hashes: Sequence[str]) -> list[tuple[str, bytes, bytes | None]]:
        sql = (
            "SELECT hash, vector_send(vector), states"
            " FROM vector LEFT JOIN token_state ON token_state.project_id = @p AND vector_id = vector.id"
            " WHERE vector.project_id = @p AND hash IN @list(?)"
            " AND model = (SELECT max(id) FROM model WHERE project_id = @p)"
        )
        result = self.binary(sql, (list(hashes),))
        return [(hash_, text_index.vector_from(vector), states) for hash_, vector, states in result]

    def size(self) -> int:
        sql = (
            "SELECT coalesce((SELECT sum(length(text)) FROM content WHERE project_id = @p), 0)"
            " + coalesce((SELECT sum(length(words)) FROM passage WHERE project_id = @p), 0)"
            " + coalesce((SELECT sum(length(passages) + length(times)) FROM posting WHERE project_id = @p), 0)"
            " + (SELECT count(*) FROM vector WHERE project_id = @p) * coalesce((SELECT 4 * max(dimensions) FROM model"
            " WHERE project_id = @p), 0) + coalesce((SELECT sum(length(states)) FROM token_state"
            " WHERE project_id = @p), 0)"
        )
        return int(first(self, sql)[0])

    def lock_project(self) -> int:
        """Lock out other writers until the transaction ends; returns the version of the schema.

        From then on numbers are counted in memory and written before the commit: no other transaction can assign any.
        What nearly every write needs to know is read in the same round trip, by statements that run once the lock is
        granted and so see what the writers before this one committed.
        """
        last = ", ".join(_NUMBERED)
        sql = (
            f"SELECT (SELECT max(number) FROM version), {last} FROM counter WHERE project_id = @p AND instance = ?"
            f" FOR UPDATE; {_CHECKOUTS}; {LEDGER_HEAD}"
        )
        cursor = self._started(self._statement(sql), (self._instance,))
        results = [cursor.fetchall() if cursor.description else []]
        while cursor.nextset():
            results.append(cursor.fetchall() if cursor.description else [])
        locked, checkouts, head = results[-3:]
        if not locked:
            raise _replaced(self._where)
        version, *numbers = locked[0]
        self._numbers = dict(zip(_NUMBERED, numbers, strict=True))
        self._checkouts = [row[0] for row in checkouts]
        self._ledger_head = (head[0][0], head[0][1]) if head else None
        return int(version)

    def ledger_head(self) -> tuple[int, str] | None:
        return self._ledger_head

    def raised(self, counter: str) -> int:
        if counter in self._numbers:
            return self._next(counter)
        sql = f"UPDATE counter SET {counter} = {counter} + 1 WHERE project_id = @p RETURNING {counter}"
        return int(first(self, sql)[0])

    def next_id(self, kind: str, count: int = 1) -> int:
        """Reserve `count` ids of a kind (memory, link, history, passage, vector, model); returns the first."""
        return self._next(f"last_{kind}", count) - count + 1

    def last_id(self, kind: str) -> int:
        return self._numbers[f"last_{kind}"]

    def taken_id(self, kind: str, given: int) -> None:
        """Record an id that was imported, so that new ids are higher."""
        self._next(f"last_{kind}", max(0, given - self.last_id(kind)))

    def _next(self, column: str, count: int = 1) -> int:
        self._given.add(column)
        self._numbers[column] += count
        return self._numbers[column]

    def finish(self) -> None:
        declared_links.follow_changes(self)
        for write in self.before_commit:
            write()
        self.before_commit.clear()
        if self._given:
            changed = ", ".join(f"{column} = {self._numbers[column]:d}" for column in sorted(self._given))
            self.execute(f"UPDATE counter SET {changed} WHERE project_id = @p")
            self._given.clear()

    def commit(self) -> str | None:
        """Send deferred writes and COMMIT in one round trip; returns the server's status of the COMMIT."""
        assert self._begun is not None
        return self._sent(self._begun[1], "COMMIT").statusmessage


class _Threads(threading.local):
    reading: Connection | None = None
    reads_as = ""
    joined: Connection | None = None
    writing = False
    bulk = 0
    hurried = 0


_noted: dict[tuple[str, int], tuple[float, Counters]] = {}  # each project's newest, and when requested
_noted_lock = threading.Lock()
_written: dict[tuple[str, int], float] = {}  # when this process last wrote to each project
_pools: dict[tuple[int, str], Pool] = {}
_pools_lock = threading.Lock()


def _pool(url: str) -> Pool:
    """The pool of connections to a server, shared by all handles of this process; a forked process gets its own."""
    _quiet_log()
    with _pools_lock:
        key = os.getpid(), url
        pool = _pools.get(key)
        if pool is None or pool.closed:
            pool = _pools[key] = ConnectionPool(
                url,
                min_size=0,
                max_size=_MOST_CONNECTIONS,
                timeout=_POOL_SECONDS,
                max_idle=60.0,
                num_workers=1,
                configure=_with_standard_strings,
                kwargs=dict(_NETWORK)
                | {"autocommit": True, "prepare_threshold": None, "application_name": "spec-kit-memory"},
                open=True,
            )
        return pool


def _with_standard_strings(raw: Raw) -> None:
    """Otherwise psycopg writes lists of bytes wrongly. Poolers keep this setting for a client, like its encoding."""
    if raw.info.parameter_status("standard_conforming_strings") == "off":
        raw.execute(b"SET standard_conforming_strings = on")


def _quiet_log() -> None:
    """Silence the pool's warning for each failed attempt to connect: the caller gets the error itself."""
    log = logging.getLogger("psycopg.pool")
    if log.level == logging.NOTSET:  # unless the program configured that log itself
        log.setLevel(logging.ERROR)


def taken(url: str) -> tuple[Pool, Raw]:
    """Take a connection from this process's pool; the caller puts it back."""
    pool = _pool(url)
    try:
        return pool, pool.getconn()
    except PoolTimeout:
        # The pool does not say why it has no connection, so connect directly to get the server's error. If the server
        # is back, the pool may still be waiting for its next attempt; a new pool connects at once.
        psycopg.connect(url, connect_timeout=5).close()
        if pool.get_stats().get("pool_size", 0) >= _MOST_CONNECTIONS:
            raise
        pool.close(0)
        pool = _pool(url)
        return pool, pool.getconn()


class Database:
    """One checkout of one project on a server."""

    refusal = psycopg.IntegrityError

    def __init__(
        self,
        url: str,
        project: str,
        *,
        checkout: str = "",
        read_only: bool = False,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self.url = url
        self.where = failures.masked(url)
        self.busy_seconds = busy_seconds
        self._threads = _Threads()
        self._open = threading.Event()  # shared with the views
        self._open.set()
        self._user = _EVERYONE
        with self.translated(), psycopg.connect(url, autocommit=True, connect_timeout=10, **_NETWORK) as raw:
            opened = schema.open_project(raw, project, self.where, checkout=checkout, read_only=read_only)
        self.project = opened.project
        self._instance = opened.instance
        self.checkout = opened.checkout
        self._extension = opened.extension
        self.read_only = opened.read_only or read_only
        self._counters = (
            f"SELECT generation, used, epoch FROM counter WHERE project_id = {opened.project:d}"
            f" AND instance = {_literal(opened.instance)}"
        )
        # Temporary tables last, or one that another program left on a pooler's connection would hide ours.
        self._begin = (
            f"SELECT set_config('search_path', '{schema.NAME}, \"{opened.extension}\", pg_temp', true),"
            f" set_config('role', '{schema.ROLE}', true), set_config('skm.project', '{opened.project:d}', true),"
            f" set_config('skm.checkout', '{opened.checkout:d}', true),"
            # Where the server drops idle transactions, a long read may pause between its rows all the same.
            f" set_config('{_IDLE}', CASE current_setting('{_IDLE}') WHEN '0' THEN '0' ELSE '{_ABANDONED}' END, true)"
        )

    def within(self, scope: Scope | None) -> Database:
        """The same database for a scope: the server hides rows that belong to other users from its reads."""
        view = copy(self)
        view._user = _EVERYONE if scope is None else f"set_config('skm.user', {_literal(scope.user or '')}, true)"
        return view

    # --- connections

    @contextmanager
    def _transaction(self, begin: str, *, user: str | None = None, reads: bool = False) -> Iterator[Connection]:
        whole = f"{begin}; {self._begin}, {user or self._user}"
        if reads:
            whole += f"; {self._counters}"
        connection = Connection(
            lambda first: self._begun(first, whole.encode()),
            self.project,
            self.checkout,
            self._extension,
            where=self.where,
            instance=self._instance,
            note=self._note if reads else None,
        )
        try:
            yield connection
        finally:
            connection.end()

    def _begun(self, first: _First, begin: bytes) -> tuple[Pool, Raw]:
        """A connection in a new transaction. A broken connection is replaced, because nothing was done on it yet."""
        for left in reversed(range(_TRIES)):
            pool, raw = self._taken()
            try:
                first(raw, begin)
                return pool, raw
            except psycopg.OperationalError:
                pool.putconn(raw)
                if not left or not raw.closed:
                    raise
                pool.check()
            except BaseException:
                pool.putconn(raw)
                raise
        raise AssertionError("unreachable")

    def _taken(self) -> tuple[Pool, Raw]:
        if not self._open.is_set():
            raise DatabaseUnusable(f"the index {self.where} was closed", hint="open the workspace again")
        return taken(self.url)

    # --- reading

    def counters(self) -> Counters:
        """Generation, use and epoch. They come with the first statement of every read and are cached for a moment.

        What this process writes is seen at once.
        """
        key = self.url, self.project
        with self.reading() as connection:
            asked_at, counters = _noted.get(key, (0.0, None))
            is_recent = asked_at > max(time.monotonic() - _BELIEVED_SECONDS, _written.get(key, 0.0))
            # A transaction that has begun uses the counters of its own snapshot, even if newer ones are known.
            return counters if counters and is_recent and not connection.counters else connection.ask_for_counters()

    def noted_generation(self, since: float | None) -> int | None:
        """The generation at the last read of this process, in any thread.

        With `since`: None if no read was made after that moment and after this process's last write.
        """
        key = self.url, self.project
        asked_at, counters = _noted.get(key, (0.0, None))
        if counters is None or (since is not None and asked_at <= max(since, _written.get(key, 0.0))):
            return None
        return counters.generation

    def _note(self, counters: Counters, asked_at: float) -> None:
        key = self.url, self.project
        with _noted_lock:
            if asked_at > _noted.get(key, (0.0,))[0]:
                _noted[key] = asked_at, counters

    def reading(self, *, own: bool = False) -> AbstractContextManager[Connection]:
        """Several reads of one snapshot. `own` includes what this thread wrote in an open `together`."""
        return self._reading(own=own)

    @contextmanager
    def _reading(self, *, own: bool) -> Iterator[Connection]:
        mine = self._threads.reading if self._threads.reads_as == self._user else None
        joined = self._threads.joined if own and self._threads.joined else mine
        if joined is not None:
            with self.translated():
                yield joined
            return
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self.translated(), self._transaction(begin, reads=True) as connection:
            before = self._threads.reading, self._threads.reads_as
            self._threads.reading, self._threads.reads_as = connection, self._user
            try:
                yield connection
            finally:
                self._threads.reading, self._threads.reads_as = before

    @contextmanager
    def apart(self) -> Iterator[Connection]:
        """A separate read transaction with one snapshot, for long reads that are fetched in parts."""
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self.translated(), self._transaction(begin, reads=True) as connection:
            yield connection

    # --- writing

    @contextmanager
    def writing(self, *, aside: bool = False) -> Iterator[Connection]:
        """One transaction: all of the block or nothing, on the server's disk when it returns.

        `aside` is for what a read records (use, sessions): it waits only a moment for other writers
        and is not synced, because it was not acknowledged to a caller.
        """
        joined = self._threads.joined
        if joined is not None:
            with self._joining(joined):
                yield joined
            return
        if self.read_only:
            raise DatabaseUnusable(
                f"{self.where} can only be read", hint="set index.url to a server that can be written"
            )
        if self._threads.writing:
            raise DatabaseUnusable("a write was started inside another write", hint=advise("report-fault"))
        hurry = aside or self._threads.hurried
        seconds = min(self.busy_seconds, ASIDE_SECONDS) if hurry else self.busy_seconds
        sync = "; SET LOCAL synchronous_commit = off" if aside or self._threads.bulk else ""
        self._threads.writing = True
        try:
            with writer_turns.turn_to_write(self.url, self.project, seconds) as left:
                if left is None:
                    raise failures.busy(self.where)
                begin = (
                    f"BEGIN; SET LOCAL lock_timeout = {max(_LEAST_WAIT_MS, int(left * 1000))};"
                    f" SET LOCAL {_IDLE} = '{_ABANDONED}'{sync}"
                )
                # A change may affect other users' links and copies: rights are checked beforehand, memory by memory.
                with self.translated(), self._transaction(begin, user=_EVERYONE) as connection:
                    schema.require_known(connection.lock_project(), self.where)
                    yield connection
                    connection.finish()
                    self._commit(connection)
        finally:
            _written[self.url, self.project] = time.monotonic()
            self._threads.writing = False

    @property
    def is_joined(self) -> bool:
        """Is this thread inside `together`?"""
        return self._threads.joined is not None

    @contextmanager
    def beside(self, *, seconds: float) -> Iterator[Connection]:
        """A write that changes no memory: it and the writers of memories do not wait for each other."""
        if self.read_only:
            raise DatabaseUnusable(
                f"{self.where} can only be read", hint="set index.url to a server that can be written"
            )
        settings = f"{self._user}, set_config('lock_timeout', '{int(seconds * 1000)}', true)"
        with self.translated(), self._transaction("BEGIN", user=settings, reads=True) as connection:
            yield connection
            if connection.has_begun:
                connection.raw.execute("COMMIT")

    def _commit(self, connection: Connection) -> None:
        """Commit. If the server's answer is lost, look in the ledger whether the commit took effect.

        Changes without a ledger entry (use, vectors, what a scan saw) can be repeated without harm.
        """
        try:
            status = connection.commit()
        except psycopg.OperationalError:
            if not connection.raw.closed or connection.last_entry is None or not self._has(connection.last_entry):
                raise
        else:
            if status != "COMMIT":  # the server answers ROLLBACK where an earlier statement failed
                raise DatabaseUnusable(f"a write to {self.where} failed, and all of it was undone", hint="try again")

    def _has(self, entry: tuple[int, str]) -> bool:
        seconds = min(self.busy_seconds, _OUTCOME_SECONDS)
        deadline = time.monotonic() + seconds
        while True:
            try:
                with self._transaction(f"BEGIN; SET LOCAL lock_timeout = {max(1, int(seconds * 1000))}") as connection:
                    # The lost transaction may still hold this row: once we have the lock, its outcome is final.
                    first(connection, "SELECT project_id FROM counter WHERE project_id = @p FOR UPDATE")
                    sql = "SELECT count(*) FROM ledger WHERE project_id = @p AND sequence = ? AND hash = ?"
                    return bool(first(connection, sql, entry)[0])
            except failures.FOREIGN as error:
                if time.monotonic() >= deadline:
                    raise DatabaseUnusable(
                        f"{self.where} was lost in the middle of a commit: whether the change was made is not known",
                        hint="once the server is back, look whether the change is there before making it again",
                    ) from error
                time.sleep(_OUTCOME_PAUSE_SECONDS)

    @contextmanager
    def _joining(self, connection: Connection) -> Iterator[None]:
        """A write inside `together`: if it fails it may be half done, so the whole block is undone."""
        _require_whole(connection)
        try:
            with self.translated():
                yield
        except BaseException:
            connection.broken = True
            connection.undo()
            raise

    @contextmanager
    def together(self) -> Iterator[None]:
        outer = self._threads.joined
        with self.writing() as connection:
            self._threads.joined = connection
            try:
                yield
                _require_whole(connection)
            finally:
                self._threads.joined = outer

    @contextmanager
    def hurried(self) -> Iterator[None]:
        self._threads.hurried += 1
        try:
            yield
        finally:
            self._threads.hurried -= 1

    @contextmanager
    def bulk(self) -> Iterator[None]:
        """This thread's commits are not synced one by one; leaving the block syncs them all."""
        self._threads.bulk += 1
        try:
            yield
        finally:
            self._threads.bulk -= 1
            if not self._threads.bulk and self._open.is_set() and not self.read_only and not self._threads.joined:
                with self.writing() as connection:
                    connection.execute("UPDATE counter SET synced = synced + 1 WHERE project_id = @p")

    def close(self) -> None:
        self._open.clear()

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except failures.FOREIGN as error:
            raise failures.as_ours(error, self.where) from error


def _replaced(where: str) -> DatabaseUnusable:
    return DatabaseUnusable(
        f"{where} no longer has the index that was opened: it was made anew", hint="open it again: restart this program"
    )


def _require_whole(connection: Connection) -> None:
    if connection.broken:
        raise DatabaseUnusable(
            "one of several writes that belong together failed, and all of them were undone", hint="try again"
        )
