"""How is a statement written that every engine understands?

In the SQL that SQLite and PostgreSQL share, with a few words that each engine replaces by its own:

- `project_id = @p` and `checkout_id = @c` keep a statement within this project and checkout. They come first in every
  WHERE, ON, list of columns and key. A file has one project and one checkout: there they are left out.
- `IN @list(?)` takes a list of values, and `@texts(?)` is a list of texts as a table with the column `name`.
- `@ids_in(column)` is a table of the ids in a JSON list, with the column `id`.
- `@aliases` is a memory's other paths as a JSON list.
- `@own_link` holds for a link that this checkout has, and `@here` for another row of it.

Values are `?` or `:name`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from spec_kit_memory.core.memory import Entry, Origin, Passage, Scope
from spec_kit_memory.errors import DatabaseCorrupt
from spec_kit_memory.index import rows

__all__ = ["Connection", "Database", "Elsewhere", "StatementResult", "TextIndex", "Values", "fetch", "first", "upsert"]

Values = Sequence[Any] | Mapping[str, Any]


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
    """What a memory of another checkout of the project brings along."""

    id: int
    first_indexed_at: int
    outdated: bool
    vouched: bool | None  # for this very text


class TextIndex(Protocol):
    """What an engine's module `text_index` does; each function takes the engine's own connection."""

    def index(
        self, connection: Any, memory_id: int, title: str, passages: Sequence[Passage], *, keep: bool
    ) -> None: ...
    def add(self, connection: Any, memory_id: int, title: str, passages: Sequence[Passage]) -> None: ...
    def hide(self, connection: Any, memory_id: int) -> None: ...
    def show_again(self, connection: Any, memory_id: int, title: str, text: str) -> None: ...
    def prune_spare_vectors(self, connection: Any) -> None: ...
    def attach_vectors(self, connection: Any, vectors: Mapping[str, tuple[bytes, bytes | None]]) -> int: ...
    def refresh_status(self, connection: Any, memory_ids: Sequence[int]) -> None: ...


class Connection(Protocol):
    """A connection inside one transaction."""

    last_entry: tuple[int, str] | None  # sequence and hash of what this transaction appended to the ledger last

    @property
    def text_index(self) -> TextIndex: ...
    @property
    def checkout(self) -> int: ...
    def execute(self, sql: str, values: Values = ..., /) -> StatementResult: ...
    def fetch_once(self, sql: str, values: Values = ..., /) -> list[tuple[Any, ...]]:
        """The rows of the only statement that is to be read now: to a server, there and back at once."""
        ...

    def executemany(self, sql: str, values: Iterable[Values], /) -> object: ...
    def settle(self) -> object:
        """Send what waits to be sent: what the engine refuses of it, it refuses now."""
        ...

    def next_id(self, kind: str, count: int = 1) -> int:
        """The first of so many new ids of this table, or of sequences of `history`."""
        ...

    def last_id(self, kind: str) -> int:
        """The last one that was given."""
        ...

    def taken_id(self, kind: str, given: int) -> None:
        """This id came from elsewhere: new ones come after it."""
        ...

    def size(self) -> int:
        """Of all that is stored, in bytes."""
        ...

    def raised(self, counter: str) -> int:
        """The counter of this name, one higher than it was."""
        ...

    def vectors(self, hashes: Sequence[str]) -> list[tuple[str, bytes, bytes | None]]:
        """Those of the current model: hash, float32 little-endian vector, and token states."""
        ...

    # --- checkouts

    def checkouts(self) -> list[int]:
        """All of the project, this one first."""
        ...

    def within(self, *checkouts: int) -> AbstractContextManager[None]:
        """Inside, statements see the rows of these checkouts; of several, the first is the one that @c names."""
        ...

    def having(self, memory_id: int) -> list[int]:
        """The other checkouts that have this memory."""
        ...

    def elsewhere(self, entry: Entry) -> Elsewhere | None:
        """The memory that another checkout has of this document."""
        ...

    def link_written(self, key: tuple[int, int, str], origin: Origin) -> None:
        """The link of that source, target and relation is this checkout's; one made by hand is the project's."""
        ...

    def drop_link(self, link_id: int) -> None:
        """This checkout asks for it no more; while another one does, it stays that one's."""
        ...


class Database(Protocol):
    """The engine's database, as a view of it reads and writes."""

    @property
    def read_only(self) -> bool: ...
    @property
    def refusal(self) -> type[Exception]:
        """What the engine raises where rows do not fit the tables."""
        ...

    def within(self, scope: Scope | None) -> Database: ...
    def reading(self, *, own: bool = False) -> AbstractContextManager[Connection]: ...
    def apart(self) -> AbstractContextManager[Connection]: ...
    def writing(self, *, aside: bool = False) -> AbstractContextManager[Connection]: ...
    def together(self) -> AbstractContextManager[None]: ...
    def hurried(self) -> AbstractContextManager[None]: ...
    def bulk(self) -> AbstractContextManager[None]: ...
    def close(self) -> None: ...


def fetch(connection: Connection, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
    return connection.execute(sql, values).fetchall()


def first(connection: Connection, sql: str, values: Values = ()) -> tuple[Any, ...]:
    """The one row of a query that always has one."""
    row: tuple[Any, ...] | None = connection.execute(sql, values).fetchone()
    if row is None:
        raise DatabaseCorrupt(f"the index is damaged: there is no row for {sql}", hint=rows.REBUILD)
    return row


def upsert(table: str, key: str, columns: str, *, once: str = "") -> str:
    """A statement that writes one row, new or not. The table itself fills in `checkout_id`, where it is in the key.

    Columns named in `once` are written to a new row alone.

    Not REPLACE, which makes SQLite's text index write what it has gathered, as a statement on several rows does.
    """
    names = [name for name in f"{key}, {columns}{once and f', {once}'}".split(", ") if name != "checkout_id"]
    given = ", ".join("?" * len(names))
    changed = ", ".join(f"{name} = excluded.{name}" for name in columns.split(", "))
    return (
        f"INSERT INTO {table} (project_id, {', '.join(names)}) VALUES (@p, {given})"
        f" ON CONFLICT (project_id, {key}) DO UPDATE SET {changed}"
    )
