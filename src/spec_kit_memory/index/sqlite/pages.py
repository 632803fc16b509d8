"""Which rows are in the pages of a database file, even if SQLite cannot read it?

SQLite stops at the first damaged page. This module reads each page by itself, according to SQLite's file format
(sqlite.org/fileformat2.html): it finds leaves that are no longer reachable, and those parts of a damaged page that
still make sense. Nothing is trusted: numbers are checked against the page and the file before they are used.
"""

from __future__ import annotations

import os
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from spec_kit_memory import filesystem
from spec_kit_memory.filesystem import Place
from spec_kit_memory.index.sqlite import companions

Value = None | int | float | str | bytes

TABLE_LEAF, TABLE_INTERIOR, INDEX_LEAF, INDEX_INTERIOR = 13, 5, 10, 2
_KIND_BYTES = frozenset(bytes((kind,)) for kind in (TABLE_LEAF, TABLE_INTERIOR, INDEX_LEAF, INDEX_INTERIOR))
_FILE_HEADER = 100  # bytes; on the first page, before the page's own header
_DEFAULT_SIZE = 4096
_SIZES = frozenset(1 << power for power in range(9, 17))
_CACHED = 256  # pages
_NEARLY = 0.7
_SAMPLE = 200  # pages that are looked at to determine the page size
_LONGEST = 256 << 20  # bytes; no row of ours is nearly as long
_WIDTHS = (0, 1, 2, 3, 4, 6, 8)  # bytes of an integer, by its type


class PageError(ValueError):
    """The content of a page is invalid."""


@dataclass(frozen=True, slots=True)
class StoredRow:
    key: int  # the rowid; 0 for an entry of an index
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class _Cell:
    row: StoredRow
    end: int  # offset in its page


@dataclass(slots=True)
class Tree:
    """The pages of one table or index that are reachable from its root."""

    leaves: list[int] = field(default_factory=list)
    interior: list[int] = field(default_factory=list)
    damaged: set[int] = field(default_factory=set)  # pages that are referred to but are not valid pages of it

    @property
    def pages(self) -> set[int]:
        return {*self.leaves, *self.interior}

    @property
    def is_damaged(self) -> bool:
        return bool(self.damaged)


class Pages:
    """The pages of a file that no process writes to; pages in its log take precedence.

    `read` takes an offset and a length, and returns fewer bytes at the end of the file.
    """

    def __init__(self, read: Callable[[int, int], bytes], length: int, log_content: bytes = b"") -> None:
        self._raw = read
        self._bytes = length
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._log = log_content
        self._in_log: dict[int, int] = {}
        committed = 0
        for frame in companions.log_frames(log_content):
            self._in_log[frame.page] = frame.offset
            committed = frame.commit or committed
        self.size = page_size(read, length, log_content)
        self.count = max(-(-self._bytes // self.size), committed)

    @classmethod
    @contextmanager
    def of_file(cls, path: Path, *, with_log: bool = True) -> Iterator[Pages]:
        """Open a file that this process does not have open in SQLite: closing it here would release SQLite's locks."""
        with os.fdopen(filesystem.open_reading(Place.of(path)), "rb", buffering=0) as file:

            def read(offset: int, length: int) -> bytes:
                try:
                    file.seek(offset)
                    return file.read(length) or b""
                except OSError:  # the disk fails there: these bytes are lost
                    return b""

            yield cls(read, os.fstat(file.fileno()).st_size, companions.log_content(path) if with_log else b"")

    # --- single pages

    def read(self, number: int) -> bytes:
        """One page, filled up with zeros if the file is too short."""
        cached = self._cache.get(number)
        if cached is not None:
            return cached
        if not 1 <= number <= self.count:
            raise PageError(f"there is no page {number}")
        at = self._in_log.get(number)
        page = self._raw((number - 1) * self.size, self.size) if at is None else self._log[at : at + self.size]
        page = page.ljust(self.size, b"\0")
        self._cache[number] = page
        if len(self._cache) > _CACHED:
            self._cache.popitem(last=False)
        return page

    def kind(self, number: int) -> int:
        page = self.read(number)
        return page[_FILE_HEADER if number == 1 else 0]

    def header(self) -> bytes:
        return self.read(1)[:_FILE_HEADER] if self.count else b"\0" * _FILE_HEADER

    # --- trees

    def tree(self, root: int, *, of_table: bool) -> Tree:
        """The pages that are reachable from a root. A page of an unexpected kind counts as a damaged leaf."""
        tree = Tree()
        seen: set[int] = set()
        waiting = [root]
        leaf, interior = (TABLE_LEAF, TABLE_INTERIOR) if of_table else (INDEX_LEAF, INDEX_INTERIOR)
        while waiting:
            number = waiting.pop()
            if number in seen or not 1 <= number <= self.count:
                tree.damaged.add(number)
                continue
            seen.add(number)
            kind = self.kind(number)
            if kind == interior:
                tree.interior.append(number)
                waiting += reversed(self._children(number))
            else:
                tree.leaves.append(number)
            if kind not in (leaf, interior) or not self._is_tight(number):
                tree.damaged.add(number)  # some of its rows may still be readable
        return tree

    def _children(self, number: int) -> list[int]:
        page, start = self.read(number), _FILE_HEADER if number == 1 else 0
        cells = [page[pointer : pointer + 4] for pointer in self._pointers(number, head=12)]
        return [int.from_bytes(cell, "big") for cell in (*cells, page[start + 8 : start + 12])]

    def _is_tight(self, number: int) -> bool:
        """Is every byte of the cell area in a cell or in a gap that the page records, as in every valid page?"""
        page, start = self.read(number), _FILE_HEADER if number == 1 else 0
        kind = page[start]
        head = 12 if kind in (TABLE_INTERIOR, INDEX_INTERIOR) else 8
        pointers = self._pointers(number, head=head)
        content = int.from_bytes(page[start + 5 : start + 7], "big") or 65_536
        if (
            content < start + head + 2 * len(pointers)
            or content > self.size
            or min(pointers, default=content) < content
        ):
            return False
        spans = [(pointer, self._cell_end(page, pointer, kind)) for pointer in pointers] + list(self._gaps(number))
        return sum(end - begin for begin, end in spans) + page[start + 7] == self.size - content

    def _cell_end(self, page: bytes, at: int, kind: int) -> int:
        """Where a cell ends in its page; where it begins, if it is invalid."""
        begin = at
        try:
            if kind in (TABLE_INTERIOR, INDEX_INTERIOR):
                at += 4
            if kind == TABLE_INTERIOR:
                return _varint(page, at)[1]
            length, at = _varint(page, at)
            if kind == TABLE_LEAF:
                at = _varint(page, at)[1]
            local = self._local(length, of_table=kind == TABLE_LEAF)
            return max(begin + 4, at + local + (4 if local < length else 0))  # a cell takes at least four bytes
        except IndexError:
            return begin

    def _pointers(self, number: int, *, head: int) -> list[int]:
        """Where the cells of a page begin. Offsets outside the page are included; reading them fails."""
        page, start = self.read(number), _FILE_HEADER if number == 1 else 0
        count = int.from_bytes(page[start + 3 : start + 5], "big")
        most = (self.size - start - head) // 2
        first = start + head
        return list(struct.unpack(f">{min(count, most)}H", page[first : first + 2 * min(count, most)]))

    # --- rows

    def rows(self, number: int) -> Iterator[StoredRow | None]:
        """The rows of a leaf page of a table; None for each row that cannot be read."""
        for pointer in self._pointers(number, head=8):
            cell = self._cell(number, pointer, of_table=True)
            yield cell.row if cell else None

    def entries(self, number: int) -> Iterator[StoredRow | None]:
        """The entries of an index page, or the rows of a table without rowid; interior pages contain some too."""
        interior = self.kind(number) == INDEX_INTERIOR
        for pointer in self._pointers(number, head=12 if interior else 8):
            cell = self._cell(number, pointer + 4 if interior else pointer, of_table=False)
            yield cell.row if cell else None

    def carved(self, number: int) -> Iterator[StoredRow]:
        """Everything in a table page that could be a row, at any offset: the header and the cell list may be wrong."""
        at = 8
        while at < self.size - 3:
            cell = self._cell(number, at, of_table=True)
            if cell is not None:
                yield cell.row
            at += 1  # a valid row may begin inside an invalid one

    def _gaps(self, number: int) -> Iterator[tuple[int, int]]:
        """The free blocks between cells, which deleted rows left."""
        page, start = self.read(number), _FILE_HEADER if number == 1 else 0
        at, before = int.from_bytes(page[start + 1 : start + 3], "big"), 0
        while before < at <= self.size - 4:
            before = at
            yield at, min(self.size, at + int.from_bytes(page[at + 2 : at + 4], "big"))
            at = int.from_bytes(page[at : at + 2], "big")

    def _cell(self, number: int, at: int, *, of_table: bool) -> _Cell | None:
        """The cell at this offset; None if there is no valid one."""
        page = self.read(number)
        try:
            length, behind = _varint(page, at)
            key, behind = _varint(page, behind) if of_table else (0, behind)
            local = self._local(length, of_table=of_table)
            values = self._record(page, behind, length, local)
        except (ValueError, IndexError, struct.error):
            return None
        return _Cell(StoredRow(_signed(key), values), behind + local + (4 if local < length else 0))

    def _local(self, length: int, *, of_table: bool) -> int:
        """How many bytes of a payload are stored in the page itself; the others are in overflow pages."""
        usable = self.size
        least = (usable - 12) * 32 // 255 - 23
        most = usable - 35 if of_table else (usable - 12) * 64 // 255 - 23
        if length <= most:
            return length
        wanted = least + (length - least) % (usable - 4)
        return wanted if wanted <= most else least

    def _record(self, page: bytes, at: int, length: int, local: int) -> tuple[Value, ...]:
        if length > _LONGEST or at + local > self.size:
            raise PageError("a row is longer than its page")
        payload = page[at : at + local]
        if local < length:
            follows = int.from_bytes(page[at + local : at + local + 4], "big")
            payload += self._overflow(follows, length - local)
        return _values(payload)

    def _overflow(self, number: int, length: int) -> bytes:
        parts: list[bytes] = []
        seen: set[int] = set()
        while length > 0:
            if number in seen:
                raise PageError("the pages of a long row follow each other in a circle")
            seen.add(number)
            page = self.read(number)
            part = page[4 : 4 + min(length, self.size - 4)]
            parts.append(part)
            length -= len(part)
            number = int.from_bytes(page[:4], "big")
        return b"".join(parts)

    def overflow_pages(self, leaf: int, *, of_table: bool) -> set[int]:
        """The overflow pages of the long rows of a page, so that they are not mistaken for leaves."""
        page, pages = self.read(leaf), set()
        interior = self.kind(leaf) == INDEX_INTERIOR
        for pointer in self._pointers(leaf, head=12 if interior else 8):
            try:
                length, at = _varint(page, pointer + 4 if interior else pointer)
                at = _varint(page, at)[1] if of_table else at
                local = self._local(length, of_table=of_table)
                if local >= length or length > _LONGEST or at + local + 4 > self.size:
                    continue
                number = int.from_bytes(page[at + local : at + local + 4], "big")
                while number and number not in pages and 1 <= number <= self.count:
                    pages.add(number)
                    number = int.from_bytes(self.read(number)[:4], "big")
            except (ValueError, IndexError):
                continue
        return pages

    def free_pages(self) -> set[int]:
        """The pages on the free list: their rows were deleted."""
        number, pages = int.from_bytes(self.header()[32:36], "big"), set[int]()
        while number and number not in pages and 1 <= number <= self.count:
            pages.add(number)
            page = self.read(number)
            count = min(int.from_bytes(page[4:8], "big"), self.size // 4 - 2)
            pages.update(struct.unpack(f">{count}I", page[8 : 8 + 4 * count]))
            number = int.from_bytes(page[:4], "big")
        return pages


def page_size(read: Callable[[int, int], bytes], length: int, log_content: bytes = b"") -> int:
    """The page size in the log or the header, unless the pages contradict it: the header may be damaged."""
    if companions.log_page_size(log_content) in _SIZES:
        return companions.log_page_size(log_content)
    head = read(0, _FILE_HEADER)
    named = int.from_bytes(head[16:18], "big") if len(head) == _FILE_HEADER else 0
    named = 65_536 if named == 1 else named
    if named not in _SIZES or named == _DEFAULT_SIZE:
        return _DEFAULT_SIZE

    def share_of_pages(size: int) -> float:
        total = min(_SAMPLE, length // size - 1)
        kinds = [read(number * size, 1) in _KIND_BYTES for number in range(1, total + 1)]
        return sum(kinds) / total if total > 0 else 0.0

    # If the smaller size is right, pages begin at multiples of the larger one too, so both shares are high.
    small, large = sorted((named, _DEFAULT_SIZE))
    return small if share_of_pages(small) > _NEARLY * share_of_pages(large) else large


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned integer of variable length, in SQLite's format, and the offset after it."""
    number = 0
    for offset in range(8):
        byte = data[at + offset]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at + offset + 1
    return number << 8 | data[at + 8], at + 9


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number


def _values(payload: bytes) -> tuple[Value, ...]:
    head, at = _varint(payload, 0)
    if head > len(payload):
        raise PageError("a row's header is longer than the row")
    values: list[Value] = []
    content = head
    while at < head:
        kind, at = _varint(payload, at)
        value, content = _value(payload, content, kind)
        values.append(value)
    if at != head or content != len(payload):
        raise PageError("a row does not fill its payload")
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, at
    if kind in (8, 9):
        return kind - 8, at
    if kind in (10, 11):
        raise PageError("no value has this type")
    width = 8 if kind == 7 else _WIDTHS[kind] if kind < 7 else (kind - 12) // 2
    part = payload[at : at + width]
    if len(part) < width:
        raise PageError("a value ends behind its row")
    if kind == 7:
        return struct.unpack(">d", part)[0], at + width
    if kind < 7:
        return int.from_bytes(part, "big", signed=True), at + width
    return (part.decode("utf-8") if kind % 2 else part), at + width
