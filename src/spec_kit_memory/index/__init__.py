"""Where do memories live, and how are they found again? `contract` says what every engine does; this opens one."""

from __future__ import annotations

import os
from pathlib import Path

from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.index.contract import Index

__all__ = ["open_index"]

_SERVERS = ("postgresql://", "postgres://")


def open_index(
    place: str | Path,
    *,
    project: str = "",
    checkout: str = "",
    read_only: bool = False,
    damaged_ok: bool = False,
    first_id: int = 1,
    memory_mb: int | None = None,
) -> Index:
    """The index in this file, or on the server at this `postgresql://` URL, which keeps many projects by name.

    Several checkouts of one project, each with its files as they are, share it on a server: each names itself.

    With `damaged_ok` a damaged file is no error here: every use says so until `rebuild` has mended it. `first_id` is
    the id of the first memory of an index that is new. A project on a server whose arrays would take more than
    `memory_mb` is searched there.
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

    return SqliteIndex(Path(os.path.realpath(place)), read_only=read_only, damaged_ok=damaged_ok, first_id=first_id)
