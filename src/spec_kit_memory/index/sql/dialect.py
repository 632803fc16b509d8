"""How are statements written so that every engine understands them?

In the SQL that SQLite and PostgreSQL share, plus a few placeholders that each engine replaces by its own SQL:

- `project_id = @p` and `checkout_id = @c` limit a statement to this project and checkout. They come first in every
  WHERE, ON, list of columns and key. An index file has one project and one checkout, so SQLite omits them.
- `IN @list(?)` takes a list of values, and `@texts(?)` is a list of texts as a table with the column `name`.
- `@ids_in(column)` is a table of the ids in a JSON list, with the column `id`.
- `@aliases` is a memory's other paths as a JSON list, the first `MOST_ALIASES` of them.
- `@own_link` is true for a link that this checkout has, and `@here` for any other row that belongs to it.

Values are `?` or `:name`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import Entry, Origin, Passage, Scope
from spec_kit_memory.errors import DatabaseCorrupt
from spec_kit_memory.index import rows

Values = Sequence[Any] | Mapping[str, Any]

MOST_ALIASES = 50  # of a memory; further copies of its file are only known to scans

LEDGER_HEAD = "SELECT sequence, hash FROM ledger WHERE project_id = @p ORDER BY sequence DESC LIMIT 1"


class StatementResult(Protocol):
    """The rows of one statement."""

    def __iter__(self) -> Iterator[Any]: ...
    def fetchall(self) -> list[Any]: ...
    def fetchone(self) -> Any: ...
    @property
    def get(self) -> Any:
        """The first value of the first row; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Values that a memory takes over from another checkout of the project."""

    id: int
    first_indexed_at: int
    outdated: bool
    vouched: bool | None  # for exactly this text


class TextIndex(Protocol):
    """The functions of an engine's module `text_index`; each takes the engine's own connection."""

    def insert(self, connection: Any, memory_id: int, title: str, passages: Sequence[Passage]) -> None:
        """Index these passages of a memory under new ids."""
        ...

    def remove(self, connection: Any, memory_id: int) -> None:
        """Delete the passages of a memory."""
        ...

    def hide(self, connection: Any, memory_id: int) -> None:
        """Remove a memory from search but keep its passages, so that it can return without its file."""
        ...

    def attach_vectors(self, connection: Any, vectors: Mapping[str, tuple[bytes, bytes | None]]) -> int:
        """Store vectors by hash and assign them to all passages with these words; returns how many were new."""
        ...

    def refresh_status(self, connection: Any, memory_ids: Sequence[int]) -> None:
        """Derive the vector status of these memories from their passages."""
        ...


class Connection(Protocol):
    """A connection inside one transaction."""

    last_entry: tuple[int, str] | None  # sequence and hash of the last ledger entry of this transaction
    link_changes: dict[int, Any]  # of this transaction, by checkout: what `declared_links` follows before the commit

    @property
    def text_index(self) -> TextIndex: ...
    @property
    def checkout(self) -> int: ...
    def execute(self, sql: str, values: Values = ..., /) -> StatementResult: ...
    def fetch_once(self, sql: str, values: Values = ..., /) -> list[tuple[Any, ...]]:
        """All rows of a single read. On a server, this takes one round trip."""
        ...

    def executemany(self, sql: str, values: Iterable[Values], /) -> object: ...
    def settle(self) -> object:
        """Send queued statements, so that the engine raises its errors about them now."""
        ...

    def next_id(self, kind: str, count: int = 1) -> int:
        """Reserve `count` new ids of this table (of `history`: sequence numbers) and return the first."""
        ...

    def last_id(self, kind: str) -> int:
        """The last id that was assigned."""
        ...

    def taken_id(self, kind: str, given: int) -> None:
        """Record that this id was not assigned here, so that new ids come after it."""
        ...

    def ledger_head(self) -> tuple[int, str] | None:
        """Sequence and hash of the last ledger entry when this write began; None if there is none."""
        ...

    def size(self) -> int:
        """The size of all stored data, in bytes."""
        ...

    def raised(self, counter: str) -> int:
        """Raise this counter by one and return its new value."""
        ...

    def vectors(self, hashes: Sequence[str]) -> list[tuple[str, bytes, bytes | None]]:
        """Vectors of the current model: hash, float32 little-endian vector, and token states."""
        ...

    # --- checkouts

    def checkouts(self) -> list[int]:
        """The ids of all checkouts of the project, this one first."""
        ...

    def within(self, *checkouts: int) -> AbstractContextManager[None]:
        """In this block, statements see the rows of these checkouts; @c is the first of them."""
        ...

    def having(self, memory_id: int) -> list[int]:
        """The ids of the other checkouts that have this memory."""
        ...

    def elsewhere(self, entry: Entry) -> Elsewhere | None:
        """The memory of this document in another checkout, if there is one."""
        ...

    def links_written(self, keys: Sequence[tuple[int, int, str]], origin: Origin) -> None:
        """Record that this checkout has the links with these keys; those made by hand belong to the whole project."""
        ...

    def drop_links(self, link_ids: Sequence[int]) -> None:
        """Remove the links from this checkout. They stay for other checkouts whose files declare them."""
        ...


class Database(Protocol):
    """The engine's database, as views read and write it."""

    @property
    def read_only(self) -> bool: ...
    @property
    def refusal(self) -> type[Exception]:
        """The error that the engine raises for rows that do not fit the tables."""
        ...

    def within(self, scope: Scope | None) -> Database: ...
    def reading(self, *, own: bool = False) -> AbstractContextManager[Connection]:
        """Several reads of one snapshot. `own` includes what this thread wrote in an open `together`.

        Values to be cached must be read without `own`, because that transaction may be rolled back.
        """
        ...

    def apart(self) -> AbstractContextManager[Connection]:
        """A separate read transaction with one snapshot, for long reads that are fetched in parts."""
        ...

    def writing(self, *, aside: bool = False) -> AbstractContextManager[Connection]:
        """One transaction: the whole block or nothing, on disk when it returns.

        `aside` is for what a read records (use, sessions): it waits only a moment for other writers and is not synced.
        """
        ...

    def together(self) -> AbstractContextManager[None]: ...
    def hurried(self) -> AbstractContextManager[None]: ...
    def bulk(self) -> AbstractContextManager[None]: ...
    def close(self) -> None: ...


def fetch(connection: Connection, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
    return connection.execute(sql, values).fetchall()


def first(connection: Connection, sql: str, values: Values = ()) -> tuple[Any, ...]:
    """The first row of a query that always has one."""
    row: tuple[Any, ...] | None = connection.execute(sql, values).fetchone()
    if row is None:
        raise DatabaseCorrupt(f"the index is damaged: there is no row for {sql}", hint=rows.REBUILD)
    return row


def upsert(table: str, key: str, columns: str, *, once: str = "") -> str:
    """A statement that inserts or updates one row. If `checkout_id` is in the key, the table itself fills it in.

    Columns named in `once` are written only to a new row.

    REPLACE is not used: like a statement on several rows, it makes SQLite's text index write its pending words.
    """
    names = [name for name in f"{key}, {columns}{once and f', {once}'}".split(", ") if name != "checkout_id"]
    placeholders = ", ".join("?" * len(names))
    changed = ", ".join(f"{name} = excluded.{name}" for name in columns.split(", "))
    return (
        f"INSERT INTO {table} (project_id, {', '.join(names)}) VALUES (@p, {placeholders})"
        f" ON CONFLICT (project_id, {key}) DO UPDATE SET {changed}"
    )
