"""Is the file sound? SQLite does not report some kinds of damage, and rows or words are then silently missing.

SQLite accepts any value in any column, so a damaged file, another program or an index that came with a repository can
hold values that we never write: text in place of a number, invalid JSON, a time outside any year. They are looked for
when something failed for no other reason, and in the full health check.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import apsw

from spec_kit_memory.advice import Advice, Text, finding
from spec_kit_memory.index.sql.dialect import fetch
from spec_kit_memory.index.sqlite.connection import Connection, Database
from spec_kit_memory.index.sqlite.failures import damaged

SECONDS = 2.0  # the time limit of a quick check of a large index
_STEPS = 20_000  # of SQLite's virtual machine between two looks at the clock
_BELIEVED_SECONDS = 60.0  # how long the result of a check is trusted
_BLINK_SECONDS = 0.05
_LISTED = ("memory", "history")
# The tables that answers are read from, the smallest first.
_LOOKED_AT = (
    "counter",
    "alias",
    "usage",
    "memory",
    "document",
    "content",
    "history",
    "passage",
    "passage_fts_idx",
    "passage_fts_data",
    "passage_fts_docsize",
    "passage_fts",
    "hidden rows",  # not a table: the check for rows that exist but are not visible
)
_TABLES = (
    *("counter", "content", "memory", "usage", "override", "citation", "link", "history", "ledger", "session"),
    *("document", "alias", "passage", "trigger", "claim", "model", "vector", "token_state", "failure", "bad_file"),
)
_JSON = {
    ("memory", "triggers"): "array",
    ("override", "attributes"): "object",
    ("citation", "files"): "array",
    ("history", "before"): "object",
    ("history", "after"): "object",
    ("ledger", "memory_ids"): "array",
    ("ledger", "operation"): "object",
    ("session", "attention"): "array",
    ("session", "sent"): "array",
    ("document", "said"): "object",
    ("document", "warnings"): "array",
    ("alias", "triggers"): "array",
}
_KINDS = {"INTEGER": "'integer'", "REAL": "'real', 'integer'", "TEXT": "'text'", "BLOB": "'blob'"}
_LAST_MOMENT = 253_402_300_799_999_999  # the end of the year 9999 in microseconds; counts and ids are far below
_LAST_NS = 9_000_000_000_000_000_000
_LARGEST_REAL = 1e300
# Faults that hide rows from all users, or from their owner.
_INVISIBLE = {
    finding("texts-not-recorded"): "memory WHERE presence = 'live' AND content_hash NOT IN (SELECT hash FROM content)",
}
_UNREADABLE_LEDGER = {finding("times-of-ledger-unreadable"): "ledger WHERE julianday(at) IS NULL"}


class Soundness:
    """Can an empty result be trusted? Checks the tables that it was read from, each at most once a minute."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._checked_at: dict[str, float] = {}

    def require(self, *, quick: bool = False) -> None:
        """`quick` checks only the tables behind lists and counts, for at most a twentieth of a second."""
        before = time.monotonic() - _BELIEVED_SECONDS
        tables = [name for name in (_LISTED if quick else _LOOKED_AT) if self._checked_at.get(name, before) <= before]
        if not tables:
            return
        watch = Watch(_BLINK_SECONDS if quick else SECONDS)
        with self._database.apart() as fresh:
            for table in tables:
                look = find_invisible if table == "hidden rows" else partial(_sound, table=table)
                faults = watch.look("integrity", look, fresh)
                if faults:
                    raise damaged(self._database.path, str(faults[0]))
                self._checked_at[table] = time.monotonic()

    def require_valid_values(self) -> None:
        with self._database.apart() as connection:
            if messages := find_invalid_values(connection):
                raise damaged(self._database.path, str(messages[0]))


class Watch:
    """Stops checks that take too long and records which were not finished. Without seconds there is no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._until = None if seconds is None else time.monotonic() + seconds
        self.unfinished: list[str] = []

    @property
    def endless(self) -> bool:
        return self._until is None

    def is_over(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def look(self, name: str, at: Callable[[Connection], list[Text]], connection: Connection) -> list[Text]:
        if self.endless:
            return at(connection)
        if not self.is_over():
            connection.set_progress_handler(self.is_over, _STEPS)
            try:
                return at(connection)
            except apsw.InterruptError:
                pass
            finally:
                connection.set_progress_handler(None)
                if connection.steps is not None:
                    connection.steps.watch(connection)
        self.left(name)
        return []

    def left(self, name: str) -> None:
        if name not in self.unfinished:
            self.unfinished.append(name)


def integrity(connection: Connection) -> list[Text]:
    messages = [row[0] for row in fetch(connection, "PRAGMA integrity_check(20)") if row[0] != "ok"]
    return messages + _loose(connection)


def integrity_of(tables: Iterable[str], connection: Connection, watch: Watch) -> list[Text]:
    """Check table by table. Pages that belong to no table are found only by the check of the whole file."""
    messages: list[Text] = []
    for table in tables:
        for part in (_sound, _loose):
            messages += watch.look("integrity", partial(part, table=table), connection)
    return messages


def _sound(connection: Connection, *, table: str) -> list[Text]:
    return [row[0] for row in fetch(connection, f"PRAGMA integrity_check('{table}')") if row[0] != "ok"][:20]


def _loose(connection: Connection, *, table: str = "") -> list[Text]:
    sql = f"PRAGMA foreign_key_check('{table}')" if table else "PRAGMA foreign_key_check"
    return [
        finding("row-without-parent", row=rowid, table=child, parent=parent)
        if rowid is not None
        else finding("some-row-without-parent", table=child, parent=parent)
        for child, rowid, parent, _ in fetch(connection, sql)[:20]
    ]


def _largest(column: str) -> int:
    """The largest integer that we write to a column."""
    return _LAST_NS if column.endswith("_ns") else _LAST_MOMENT


def is_too_large(column: str, value: object) -> bool:
    """Is it a number larger than any that we write, or not a number (NaN)?"""
    if isinstance(value, int):
        return abs(value) > _largest(column)
    return isinstance(value, float) and not abs(value) <= _LARGEST_REAL


def find_invalid_values(connection: Connection) -> list[Text]:
    """One finding for each column that contains such a value."""
    messages = [message for table in _TABLES for message in _check_table(connection, table)]
    return messages or [*find_invisible(connection), *_present(connection, _UNREADABLE_LEDGER)]


def find_invisible(connection: Connection) -> list[Text]:
    """Reasons why stored memories may be invisible."""
    return _present(connection, _INVISIBLE)


def _present(connection: Connection, faults: Mapping[Advice, str]) -> list[Text]:
    return [message for message, rows in faults.items() if fetch(connection, f"SELECT 1 FROM {rows} LIMIT 1")]


def _check_table(connection: Connection, table: str) -> Iterator[Text]:
    for _, name, kind, required, _, key in fetch(connection, f'PRAGMA table_info("{table}")'):
        if kind not in _KINDS:
            continue
        wrong = _wrong_type(table, str(name), str(kind))
        empty = f'"{name}" IS NULL OR ' if required or key else ""
        sql = f'SELECT 1 FROM "{table}" WHERE {empty}("{name}" IS NOT NULL AND ({wrong})) LIMIT 1'
        if fetch(connection, sql):
            yield finding("column-unfit", table=table, column=str(name))


def _wrong_type(table: str, name: str, kind: str) -> str:
    wrong = f'typeof("{name}") NOT IN ({_KINDS[kind]})'
    if kind == "INTEGER":
        return f'{wrong} OR "{name}" NOT BETWEEN -{_largest(name)} AND {_largest(name)}'
    if kind == "REAL":
        return f'{wrong} OR abs("{name}") > {_LARGEST_REAL}'
    if shape := _JSON.get((table, name)):
        return f'{wrong} OR CASE WHEN json_valid("{name}") THEN json_type("{name}") <> \'{shape}\' ELSE 1 END'
    return wrong
