"""Is the file sound? SQLite does not report some kinds of damage, and rows or words are then silently missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

import apsw

from spec_kit_memory.advice import Text, finding
from spec_kit_memory.index.sql.dialect import fetch
from spec_kit_memory.index.sqlite.connection import Connection, Database
from spec_kit_memory.index.sqlite.failures import damaged
from spec_kit_memory.index.sqlite.invalid_values import find_invalid_values, find_invisible

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
