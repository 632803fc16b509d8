"""Which tables does an index have, and how is an older index brought up to date?

Migrations are numbered SQL files; `user_version` says how many were applied. Each process
that opens an index brings it up to date in one transaction; a second process waits for it.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from importlib.resources import files
from typing import Any

import apsw

from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.index import rows
from spec_kit_memory.index.sqlite.failures import damaged

APPLICATION_ID = 0x534B4D31  # "SKM1"; distinguishes our files from other programs' databases

# Links that a person made are recorded, all others are derived: rebuild distinguishes them by their origin.
RECORDED = (
    "counter",
    "content",
    "memory",
    "usage",
    "override",
    "citation",
    "link",
    "history",
    "ledger",
    "session",
)
DERIVED = (
    "document",
    "alias",
    "passage",
    "passage_fts",
    "trigger",
    "claim",
    "model",
    "vector",
    "token_state",
    "failure",
    "bad_file",
)


_MOST_VERSIONS = 999  # a larger number cannot be a version of ours, not even a future one
_OPERATIONS = 2  # the migration that numbers history rows


@cache
def _scripts() -> tuple[str, ...]:
    folder = files("spec_kit_memory.index.sqlite") / "migrations"
    names = sorted(file.name for file in folder.iterdir() if re.fullmatch(r"\d{4}_\w+\.sql", file.name))
    return tuple((folder / name).read_text(encoding="utf-8") for name in names)


VERSION = 4  # how many migrations there are; a constant so that opening a current index reads none of them


# SHA-256 of our triggers, so that opening an index can compare them without creating them; a test checks it.
TRIGGERS = "a817f36291ade1ecf0af5b1a57b78bf85c32bcf1738d712d10b88a41d553d122"


def is_current(connection: apsw.Connection) -> bool:
    return _pragma(connection, "user_version") == VERSION


def refuse_foreign(connection: apsw.Connection, path: str) -> None:
    """Refuse an index of a newer version, or another program's database."""
    with connection:  # one snapshot: another process may be creating the tables and the header right now
        _refuse_foreign(connection, path)


def _refuse_foreign(connection: apsw.Connection, path: str) -> None:
    version = _pragma(connection, "user_version")
    application = _pragma(connection, "application_id")
    if application == APPLICATION_ID and 0 < version <= VERSION:
        _refuse_programs(connection, path)
        return
    objects = frozenset(connection.execute("SELECT type, name, sql FROM sqlite_schema"))
    plausible = application == APPLICATION_ID and 0 <= version <= _MOST_VERSIONS
    if objects and not plausible and _is_ours(objects):
        raise damaged(path, f"its header says version {version} of program {application:#x}, and its tables are ours")
    if application != APPLICATION_ID and (application or version or objects):
        raise DatabaseUnusable(
            f"{path} is a database of another program",
            hint="set semantic.indexPath in .spec-kit-memory/config.jsonc to another file",
        )
    if version > VERSION:
        raise DatabaseUnusable(
            f"{path} has schema version {version}; this program knows versions up to {VERSION}",
            hint="upgrade with `pip install --upgrade spec-kit-memory`",
        )


def _refuse_programs(connection: apsw.Connection, path: str) -> None:
    """Refuse foreign triggers and views: an index may have come with a repository, and they would run on changes."""
    programs = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type IN ('trigger', 'view')").fetchall()
    if digest_of(programs) != TRIGGERS and not set(programs) <= known_triggers():
        raise damaged(path, "it has triggers or views that no version of ours made")


def digest_of(triggers: Sequence[Any]) -> str:
    return hashlib.sha256(repr(sorted(triggers)).encode()).hexdigest()


@cache
def known_triggers() -> frozenset[Any]:
    """The triggers of all versions. An index without them is less protected against changes, but not dangerous."""
    triggers: set[Any] = set()
    with closing(apsw.Connection(":memory:")) as connection:
        for script in _scripts():
            connection.execute(script).fetchall()
            triggers.update(connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"))
    return frozenset(triggers)


def _is_ours(objects: frozenset[Any]) -> bool:
    """Are these exactly the objects of a version that we know?"""
    with closing(apsw.Connection(":memory:")) as connection:
        for script in _scripts():
            connection.execute(script).fetchall()
            if frozenset(connection.execute("SELECT type, name, sql FROM sqlite_schema")) == objects:
                return True
    return False


def refuse_foreign_ids(connection: apsw.Connection, path: str, ids: range | None) -> None:
    """Refuse memories with ids of another vault. An id alone decides whether a change is one of a personal memory, so
    an index that came with a repository could otherwise turn a change of its memory into one of the user's own.
    """
    if ids is None:
        return
    sql = "SELECT (SELECT min(id) FROM memory), (SELECT max(id) FROM memory), (SELECT max(seq) + 1 FROM sqlite_sequence"
    try:
        ids_used = connection.execute(f"{sql} WHERE name = 'memory')").fetchall()[0]
    except apsw.Error:  # damaged: whoever reads the memories will find out
        return
    if any(id_ is not None and not is_one_of(id_, ids) for id_ in ids_used):
        raise damaged(path, "its memories are numbered like those of another vault")


def is_one_of(id_: object, ids: range) -> bool:
    """Is this one of the ids? A range would be searched number by number for anything but an integer."""
    return isinstance(id_, int) and id_ in ids


def migrate(connection: apsw.Connection, path: str, *, upto: int = VERSION, ids: range | None = None) -> None:
    """Apply missing migrations, inside a write transaction of the caller. The first memory gets the first of `ids`."""
    refuse_foreign(connection, path)  # again: another process may have been first
    for number, script in enumerate(_scripts()[:upto], start=1):
        if number > _pragma(connection, "user_version"):
            connection.execute(script).fetchall()
            if number == _OPERATIONS:
                _number_history(connection)
            connection.execute(f"PRAGMA user_version = {number:d}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
    connection.execute(
        "INSERT OR IGNORE INTO counter (id, instance, generation, used, epoch, synced) VALUES (1, ?, 0, 0, 0, 0)",
        (secrets.token_hex(8),),
    )
    if ids is not None and ids.start > 1:
        connection.execute(
            "INSERT INTO sqlite_sequence (name, seq) SELECT 'memory', ?"
            " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'memory')",
            (ids.start - 1,),
        )


def _number_history(connection: apsw.Connection) -> None:
    """Part of a migration: give each history row the sequence of the ledger entry that it was written with."""
    guards = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'history'"
    ).fetchall()
    run: Callable[[Any], object] = connection.execute
    for name, _ in guards:  # only ours: `refuse_foreign` has checked their names and texts
        run(f'DROP TRIGGER "{name}"')
    connection.executemany("UPDATE history SET ledger_sequence = ? WHERE sequence = ?", list(_pairs(connection)))
    for _, sql in guards:
        run(sql)


def _pairs(connection: apsw.Connection) -> Iterator[tuple[int, int]]:
    """Ledger and history sequences that belong together.

    0.1 wrote one of each, at the same time and in the same order. Only memories imported from another system have
    several rows before one entry, with times of their own and no hashes. Rows that match no entry are left out.
    """
    entries = connection.execute(
        "SELECT memory_ids, at, hash_before, hash_after, sequence FROM ledger ORDER BY sequence"
    )
    rows_ = connection.execute("SELECT memory_id, at, hash_before, hash_after, sequence FROM history ORDER BY sequence")
    passed: dict[tuple[object, ...], list[int]] = {}
    adopted: dict[int, list[int]] = {}
    for memory_id, at, hash_before, hash_after, sequence in rows_:
        if hash_before is hash_after is None:
            adopted.setdefault(memory_id, []).append(sequence)
            continue
        wanted = (memory_id, rows.iso(rows.moment(at)), hash_before, hash_after)
        while not passed.get(wanted) and (entry := next(entries, None)):
            yield from _pass(entry, passed, adopted)
        if passed.get(wanted):
            yield passed[wanted].pop(0), sequence
    for entry in entries:
        yield from _pass(entry, passed, adopted)


def _pass(
    entry: tuple[Any, ...], passed: dict[tuple[object, ...], list[int]], adopted: dict[int, list[int]]
) -> Iterator[tuple[int, int]]:
    memory_ids, at, hash_before, hash_after, sequence = entry
    try:
        memory_id = json.loads(memory_ids)[0]
    except (ValueError, LookupError, TypeError):
        return  # damaged: verification reports it
    if hash_before is hash_after is None:
        yield from ((sequence, row) for row in adopted.pop(memory_id, ()))
    else:
        passed.setdefault((memory_id, at, hash_before, hash_after), []).append(sequence)


def _pragma(connection: apsw.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").get)
