"""Which rows of an index's tables can still be read, and which are known to be lost?

A table that SQLite finds sound is read through SQLite. Other tables are read page by page: first the pages that are
reachable from the table's root; if some are damaged, then all that look like this table's and belong to no other.
The keys in the table's indexes show which rows are lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import apsw

from spec_kit_memory.errors import DatabaseCorrupt
from spec_kit_memory.index.sqlite import schema
from spec_kit_memory.index.sqlite.pages import (
    INDEX_INTERIOR,
    INDEX_LEAF,
    TABLE_INTERIOR,
    TABLE_LEAF,
    Pages,
    Tree,
    Value,
)
from spec_kit_memory.index.sqlite.soundness import is_too_large

Record = dict[str, Any]
Check = Callable[[Record], object]  # raises if this cannot be a row of its table

_KINDS: Mapping[str, tuple[type, ...]] = {
    "INTEGER": (int,),
    "REAL": (int, float),  # SQLite stores a whole number as an integer
    "TEXT": (str,),
    "BLOB": (bytes,),
}
# The errors that reading a damaged row causes.
UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError, DatabaseCorrupt)
_INDEXES = "SELECT name, rootpage FROM sqlite_schema WHERE type = 'index' AND tbl_name = ?"
_SCHEMA_COLUMNS = 5  # type, name, table, root page, SQL


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    kinds: tuple[type, ...]
    required: bool
    default: Value


@dataclass(frozen=True, slots=True)
class Layout:
    """What a table looks like in one version of the schema."""

    name: str
    columns: tuple[Column, ...]
    key: str | None  # the column that is the rowid
    primary: tuple[str, ...]  # of a table without rowid
    root: int
    indexes: Mapping[str, int]  # name -> root page
    partial: frozenset[str]  # the indexes that do not cover all rows

    @property
    def has_rowid(self) -> bool:
        return not self.primary

    def record(self, key: int, values: tuple[Value, ...]) -> Record:
        """A stored row. Columns that were added later have their default."""
        if len(values) > len(self.columns) or not values:
            raise ValueError(f"a row of {self.name} has {len(values)} values")
        record: Record = {}
        for number, column in enumerate(self.columns):
            value = values[number] if number < len(values) else column.default
            if column.name == self.key:
                value = key
            if value is None and column.required:
                raise ValueError(f"{self.name}.{column.name} is empty")
            if value is not None and not isinstance(value, column.kinds):
                raise ValueError(f"{self.name}.{column.name} is {type(value).__name__}")
            if is_too_large(column.name, value):
                raise ValueError(f"{self.name}.{column.name} is beyond all numbers")
            record[column.name] = value
        return record

    def key_of(self, key: int, record: Record) -> Hashable:
        return key if self.has_rowid else tuple(record[name] for name in self.primary)


def layouts(version: int) -> dict[str, Layout]:
    """The tables of that version, as a new index has them: root pages included, which never move."""
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute("BEGIN")
        schema.migrate(connection, ":memory:", upto=version)
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {str(name): _layout(connection, str(name)) for name in names}


def _layout(connection: apsw.Connection, name: str) -> Layout:
    columns: list[tuple[Any, ...]] = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
    without_rowid = connection.execute("SELECT wr FROM pragma_table_list WHERE name = ?", (name,)).get
    primary = tuple(str(row[1]) for row in sorted(columns, key=lambda row: row[5]) if row[5])
    kinds = {row[1]: str(row[2]) for row in columns}
    return Layout(
        name=name,
        columns=tuple(_column(connection, row) for row in columns),
        key=primary[0] if len(primary) == 1 and kinds[primary[0]] == "INTEGER" and not without_rowid else None,
        primary=primary if without_rowid else (),
        root=connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).get,
        indexes=dict(connection.execute(_INDEXES, (name,))),
        partial=frozenset(row[1] for row in connection.execute(f'PRAGMA index_list("{name}")') if row[4]),
    )


def _column(connection: apsw.Connection, column: tuple[Any, ...]) -> Column:
    _, name, kind, required, default, primary = column
    value = None if default is None else connection.execute(f"SELECT {default}").get
    return Column(name, _KINDS.get(kind, (int, float, str, bytes)), bool(required) and not primary, value)


@dataclass(slots=True)
class Found:
    """The rows of one table by their keys, and what is known to be missing."""

    rows: dict[Hashable, Record] = field(default_factory=dict)
    whole: bool = True  # no page of it is damaged
    complete: bool = True  # every missing row is known: a lost page does not tell which rows it had
    lost: set[Hashable] = field(default_factory=set)
    unreadable: int = 0  # rows that exist but make no sense

    @property
    def lost_count(self) -> int:
        return len(self.lost) if self.complete else max(len(self.lost), self.unreadable)


class OldIndex:
    """An index file, sound or damaged, that no process writes to."""

    def __init__(self, path: Path, checks: Mapping[str, Check], *, with_log: bool = True) -> None:
        self._checks = checks
        self._closing = ExitStack()
        self._pages = self._closing.enter_context(Pages.of_file(path, with_log=with_log))
        self._connection = _opened(path, with_log=with_log)
        if self._connection is not None:
            self._closing.callback(self._connection.close)
        self._roots = self._known_roots()
        self.version, self.layouts = self._matching_layouts()

    def __enter__(self) -> OldIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    @property
    def page_size(self) -> int:
        return self._pages.size

    # --- the schema

    def _known_roots(self) -> dict[str, int]:
        """Root pages by name, from `sqlite_schema` as far as it can be read."""
        roots: dict[str, int] = {}
        self._knows_all = False
        if self._pages.count:
            tree = self._pages.tree(1, of_table=True)
            self._knows_all = not tree.is_damaged
            for row in (row for leaf in tree.leaves for row in self._pages.rows(leaf)):
                if row and len(row.values) == _SCHEMA_COLUMNS:
                    _, name, _, root, _ = row.values
                    if isinstance(name, str) and isinstance(root, int) and root > 0:
                        roots[name] = root
        return roots

    def _matching_layouts(self) -> tuple[int, dict[str, Layout]]:
        """The layouts of the version whose tables and indexes match; of the newest version if some names are lost."""
        for version in range(schema.VERSION, 0, -1):
            tables = layouts(version)
            names = {name for table in tables.values() if table.root for name in (table.name, *table.indexes)}
            if self._knows_all and names == set(self._roots):
                return version, tables
        return schema.VERSION, layouts(schema.VERSION)

    def _root(self, name: str, expected: int) -> int:
        return self._roots.get(name, expected)

    # --- rows

    def read(self, name: str) -> Found:
        """All rows of a table that can be read, each once."""
        return self._by_sqlite(name) or self._by_pages(name)

    def _by_sqlite(self, name: str) -> Found | None:
        """All rows through SQLite; None if it does not find the table sound, or does not know it."""
        layout, result = self.layouts[name], Found()
        if self._connection is None:
            return None
        try:
            verdict = self._connection.execute(f"PRAGMA integrity_check('{name}')").fetchall()
            if verdict != [("ok",)]:
                return None
            key = "rowid" if layout.has_rowid else "0"
            columns = ", ".join(f'"{column.name}"' for column in layout.columns)
            for rowid, *values in self._connection.execute(f'SELECT {key}, {columns} FROM "{name}"'):
                self._take(result, layout, int(rowid), tuple(values))
        except (apsw.Error, UnicodeDecodeError):
            return None
        result.lost = {("row", number) for number in range(result.unreadable)}
        result.complete = True
        return result

    def _take(self, result: Found, layout: Layout, key: int, values: tuple[Value, ...]) -> None:
        try:
            record = layout.record(key, values)
            self._checks.get(layout.name, _nothing)(record)
        except UNREADABLE:
            result.unreadable += 1
            result.whole = False
        else:
            result.rows.setdefault(layout.key_of(key, record), record)

    def _by_pages(self, name: str) -> Found:
        layout, result = self.layouts[name], Found()
        tree = self._pages.tree(self._root(name, layout.root), of_table=layout.has_rowid)
        for number in sorted(tree.pages - tree.damaged):
            for key, values in self._on_page(number, layout):
                if values is None:
                    result.unreadable += 1
                else:
                    self._take(result, layout, key, values)
        result.whole = result.complete = not tree.is_damaged and not result.unreadable
        if not result.whole:
            self._look_elsewhere(result, layout, tree)
            keys, knows_all = self._indexed_keys(layout)
            result.lost = keys - set(result.rows)
            result.complete = knows_all
        return result

    def _look_elsewhere(self, result: Found, layout: Layout, tree: Tree) -> None:
        """Add rows from unreachable pages, then anything in damaged pages that looks like a row.

        Unused space in a page may contain older versions of a row; the newest version is kept.
        """
        doubtful: dict[Hashable, Record] = {}
        for number in sorted(self._stray - tree.pages):
            rows = list(self._on_page(number, layout))
            records = list(self._as_records(layout, rows))
            if len(records) * 2 > len(rows):  # by chance a row or two fit; in the table's own pages most do
                _keep_newest(doubtful, layout, records)
        for key, record in doubtful.items():
            result.rows.setdefault(key, record)
        doubtful = {}
        for number in sorted(tree.damaged & tree.pages):
            rows = list(self._on_page(number, layout))
            if layout.has_rowid:
                rows += [(row.key, row.values) for row in self._pages.carved(number)]
            _keep_newest(doubtful, layout, self._as_records(layout, rows))
        for key, record in doubtful.items():
            result.rows.setdefault(key, record)

    def _on_page(self, number: int, layout: Layout) -> Iterator[tuple[int, tuple[Value, ...] | None]]:
        kind = self._pages.kind(number)
        if layout.has_rowid and kind not in (TABLE_INTERIOR, INDEX_LEAF, INDEX_INTERIOR):
            yield from ((row.key, row.values) if row else (0, None) for row in self._pages.rows(number))
        elif not layout.has_rowid:
            yield from ((0, row.values) if row else (0, None) for row in self._pages.entries(number))

    def _as_records(
        self, layout: Layout, rows: Iterable[tuple[int, tuple[Value, ...] | None]]
    ) -> Iterator[tuple[int, Record]]:
        for key, values in rows:
            with suppress(*UNREADABLE):
                if values is not None:
                    record = layout.record(key, values)
                    self._checks.get(layout.name, _nothing)(record)
                    yield key, record

    @cached_property
    def _stray(self) -> set[int]:
        """Leaves that are neither free nor reachable from the root of a known table."""
        taken = self._pages.free_pages()
        for name, layout in self.layouts.items():
            if name in self._roots:
                tree = self._pages.tree(self._roots[name], of_table=layout.has_rowid)
                taken |= tree.pages
                for leaf in tree.pages:
                    taken |= self._pages.overflow_pages(leaf, of_table=layout.has_rowid)
        leaves = (TABLE_LEAF, INDEX_LEAF, INDEX_INTERIOR)
        return {
            number
            for number in range(1, self._pages.count + 1)
            if number not in taken and self._pages.kind(number) in leaves
        }

    # --- the entries of indexes

    def entries(self, table: str, index: str) -> tuple[set[tuple[Value, ...]], bool]:
        """The entries of an index that can be read, and whether these are all."""
        root = self._root(index, self.layouts[table].indexes[index])
        tree = self._pages.tree(root, of_table=False)
        entries: set[tuple[Value, ...]] = set()
        sound = not tree.is_damaged
        for number in tree.pages:
            if self._pages.kind(number) in (INDEX_LEAF, INDEX_INTERIOR):
                for row in self._pages.entries(number):
                    sound = sound and row is not None
                    if row is not None:
                        entries.add(row.values)
        return entries, sound

    def _indexed_keys(self, layout: Layout) -> tuple[set[Hashable], bool]:
        """The keys in the table's indexes, and whether one of the indexes contains all keys.

        An entry ends with its row's key: the rowid, or the columns of the primary key.
        """
        keys: set[Hashable] = set()
        knows_all = False
        width = len(layout.primary) or 1
        for name in layout.indexes:
            entries, sound = self.entries(layout.name, name)
            tails = {entry[-width:] for entry in entries if len(entry) > width}
            if layout.has_rowid:
                keys.update(tail[0] for tail in tails if isinstance(tail[0], int) and tail[0] > 0)
            else:
                keys.update(tails)
            knows_all = knows_all or (sound and name not in layout.partial)
        return keys, knows_all


def _keep_newest(newest: dict[Hashable, Record], layout: Layout, records: Iterable[tuple[int, Record]]) -> None:
    for key, record in records:
        other = newest.setdefault(layout.key_of(key, record), record)
        if _age(record) > _age(other):
            newest[layout.key_of(key, record)] = record


def _age(record: Record) -> tuple[int, ...]:
    """Values that rise with every change of a row, if it has any: they tell which version is newer."""
    return tuple(record.get(name) or 0 for name in ("changed", "updated_at", "used", "seen_at", "turn"))


def _nothing(record: Record) -> None:
    """The check of tables that have no rule of their own: the types of their columns suffice."""


def _opened(path: Path, *, with_log: bool) -> apsw.Connection | None:
    """Open the file through SQLite without locks and without changing it; None if SQLite cannot read it."""
    connection = None
    if not path.stat().st_size:  # SQLite would discard its log
        return None
    try:
        how = f"vfs={'win32-none' if os.name == 'nt' else 'unix-none'}" if with_log else "immutable=1"
        name = f"{path.absolute().as_uri()}?{how}"
        connection = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)  # a view instead of a table might never end
        for pragma in ("locking_mode = EXCLUSIVE", "trusted_schema = OFF", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.Error:
        if connection is not None:
            connection.close()
        return None
    return connection
