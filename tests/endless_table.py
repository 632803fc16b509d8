"""A forged database: a few pages that a table enters again and again, so that it has more rows than anyone can read."""

from __future__ import annotations

import struct
from pathlib import Path

import apsw

_PAGE = 4096
_ENTRIES = 500
_LEVELS = 4


def make_endless(path: Path, table: str) -> None:
    """Give the table, whose rows must fit on one page, five hundred to the power of three times as many."""
    connection = apsw.Connection(str(path))
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
    connection.execute("CREATE TABLE room(content)")
    connection.executemany("INSERT INTO room VALUES (zeroblob(?))", [(3_000,)] * (3 * _LEVELS))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    pages = connection.execute("PRAGMA page_count").get
    connection.close()
    content = bytearray(path.read_bytes())
    assert isinstance(root, int)
    assert isinstance(pages, int)
    leaf = content[(root - 1) * _PAGE : root * _PAGE]
    assert leaf[0] == 13, "its rows are on more than one page"
    for number, page in enumerate(range(pages - _LEVELS + 1, pages + 1)):
        content[(page - 1) * _PAGE : page * _PAGE] = leaf if number == 0 else _entering(page - 1)
    content[(root - 1) * _PAGE : root * _PAGE] = _entering(pages)
    path.write_bytes(content)


def _entering(page: int) -> bytes:
    """An interior page all of whose entries lead to the same page."""
    cell = struct.pack(">IB", page, 1)
    start = _PAGE - _ENTRIES * len(cell)
    head = struct.pack(">BHHHBI", 5, 0, _ENTRIES, start, 0, page)
    pointers = struct.pack(f">{_ENTRIES}H", *(start + number * len(cell) for number in range(_ENTRIES)))
    return (head + pointers).ljust(start, b"\0") + cell * _ENTRIES
