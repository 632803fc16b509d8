"""Where do memories live, and how are they found again? `contract` defines what every engine does; this opens one."""

from __future__ import annotations

import os
from pathlib import Path

from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.index.contract import Index

_SERVERS = ("postgresql://", "postgres://")


def open_index(
    place: str | Path,
    *,
    project: str = "",
    checkout: str = "",
    read_only: bool = False,
    damaged_ok: bool = False,
    ids: range | None = None,
    memory_mb: int | None = None,
) -> Index:
    """Open the index in this file, or on the server at this `postgresql://` URL, which holds many projects by name.

    On a server, several checkouts of one project share its index, each with its own state of the files; `checkout`
    names this one.

    With `damaged_ok`, opening a damaged file is no error; every use raises one until `rebuild` has repaired it.
    `ids` are those that the memories of a file may have: a new one begins with the first, and a file with others is
    called damaged. If a server project's arrays would take more than `memory_mb`, the server searches instead.
    """
    if isinstance(place, str) and place.startswith(_SERVERS):
        try:
            from spec_kit_memory.index.postgres.engine import PostgresIndex
        except ModuleNotFoundError as error:
            if error.name not in ("psycopg", "psycopg_pool"):
                raise
            raise DatabaseUnusable(
                "an index on PostgreSQL needs the extra `team`, which is not installed",
                hint="`pip install 'spec-kit-memory[team]'`, or leave index.url unset: the index is then a file",
            ) from error
        return PostgresIndex(place, project, checkout=checkout, read_only=read_only, memory_mb=memory_mb)
    from spec_kit_memory.index.sqlite.engine import SqliteIndex

    return SqliteIndex(Path(os.path.realpath(place)), read_only=read_only, damaged_ok=damaged_ok, ids=ids)
