"""Which tables are there, and how does an older index become a current one?

Migrations are numbered SQL files; `user_version` says how many were applied. Each process
that opens an index brings it up to date in one transaction; of two at once, one waits.
"""

from __future__ import annotations

import re
import secrets
from functools import cache
from importlib.resources import files

import apsw

from spec_kit_memory.errors import DatabaseUnusable

__all__ = ["APPLICATION_ID", "DERIVED", "RECORDED", "VERSION", "is_current", "migrate", "refuse_foreign"]

APPLICATION_ID = 0x534B4D31  # "SKM1"; tells our files from other programs' databases

# Links are recorded where a person made them and derived otherwise: rebuild looks at their origin.
RECORDED = (
    "counter",
    "content",
    "memory",
    "usage",
    "override",
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


@cache
def _scripts() -> tuple[str, ...]:
    folder = files("spec_kit_memory.index.sqlite") / "migrations"
    names = sorted(file.name for file in folder.iterdir() if re.fullmatch(r"\d{4}_\w+\.sql", file.name))
    return tuple((folder / name).read_text(encoding="utf-8") for name in names)


VERSION = 1  # how many migrations there are; a constant so that opening a current index reads none of them


def is_current(connection: apsw.Connection) -> bool:
    return _pragma(connection, "user_version") == VERSION


def refuse_foreign(connection: apsw.Connection, path: str) -> None:
    """An index of a newer version, or another program's database, is left alone."""
    version = _pragma(connection, "user_version")
    application = _pragma(connection, "application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and (application or version or tables):
        raise DatabaseUnusable(
            f"{path} is a database of another program",
            hint="set semantic.indexPath in .spec-kit-memory/config.jsonc to another file",
        )
    if version > VERSION:
        raise DatabaseUnusable(
            f"{path} has schema version {version}; this program knows versions up to {VERSION}",
            hint="upgrade with `pip install --upgrade spec-kit-memory`",
        )


def migrate(connection: apsw.Connection, path: str) -> None:
    """Inside a write transaction of the caller: apply what is missing."""
    refuse_foreign(connection, path)  # again: another process may have been first
    for number, script in enumerate(_scripts(), start=1):
        if number > _pragma(connection, "user_version"):
            connection.execute(script).fetchall()
            connection.execute(f"PRAGMA user_version = {number:d}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
    connection.execute(
        "INSERT OR IGNORE INTO counter (id, instance, generation, used, epoch, synced) VALUES (1, ?, 0, 0, 0, 0)",
        (secrets.token_hex(8),),
    )


def _pragma(connection: apsw.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").get)
