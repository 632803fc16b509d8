"""What does a database's write-ahead log contain? Read without SQLite, which may refuse or delete it.

The log's format is SQLite's own and does not change: a header of 32 bytes, then frames of 24 bytes and one page.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_HEADER, _FRAME_HEADER = 32, 24
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}  # the byte order of its checksums


@dataclass(frozen=True, slots=True)
class Frame:
    page: int
    commit: int  # the database's size in pages, if a transaction ends here; else 0
    offset: int  # where the page's content begins in the log


def path_of(database: Path | str) -> Path:
    return Path(f"{database}-wal")


def has_frames(database: Path | str) -> bool:
    try:
        return path_of(database).stat().st_size > _HEADER
    except OSError:
        return False


def head(database: Path | str) -> bytes:
    """The header of the log; empty if there is no log."""
    with suppress(OSError), path_of(database).open("rb") as file:
        return file.read(_HEADER)
    return b""


def content(database: Path | str) -> bytes:
    """The whole log; empty if there is none."""
    with suppress(OSError), path_of(database).open("rb") as file:
        return file.read()
    return b""


def present_pages(database: Path | str) -> set[int]:
    """The pages of which the log may hold a newer version; frames left over from before its last reset do not count."""
    pages: set[int] = set()
    with suppress(OSError), path_of(database).open("rb", buffering=0) as file:
        header = file.read(_HEADER)
        if len(header) < _HEADER:
            return pages
        step = _FRAME_HEADER + (page_size(header) or 4096)
        for offset in range(_HEADER, os.fstat(file.fileno()).st_size - step + 1, step):
            file.seek(offset)
            head = file.read(16)
            if head[8:16] == header[16:24]:
                pages.add(int.from_bytes(head[:4], "big"))
    return pages


def page_size(log: bytes) -> int:
    """The page size in a log's header; 0 if it is not a valid header."""
    if len(log) < _HEADER or int.from_bytes(log[:4], "big") not in _MAGIC:
        return 0
    return int.from_bytes(log[8:12], "big")


def frames(log: bytes) -> Iterator[Frame]:
    """The frames of all committed transactions, in order; the log ends at the first frame with a wrong checksum."""
    if len(log) < _HEADER:
        return
    size = page_size(log)
    if size < 512 or size > 65_536 or size & (size - 1):
        return
    order, salt = _MAGIC[int.from_bytes(log[:4], "big")], log[16:24]
    total = _checksum(log[:24], (0, 0), order)
    if total != struct.unpack(">2I", log[24:32]):
        return
    waiting: list[Frame] = []
    for start in range(_HEADER, len(log) - _FRAME_HEADER - size + 1, _FRAME_HEADER + size):
        head, content = log[start : start + _FRAME_HEADER], start + _FRAME_HEADER
        total = _checksum(log[content : content + size], _checksum(head[:8], total, order), order)
        if head[8:16] != salt or total != struct.unpack(">2I", head[16:24]):
            return
        page, commit = struct.unpack(">2I", head[:8])
        waiting.append(Frame(page, commit, content))
        if commit:
            yield from waiting
            waiting = []


def _checksum(data: bytes, start: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = start
    numbers = struct.unpack(f"{order}{len(data) // 4}I", data)
    for at in range(0, len(numbers), 2):
        first = (first + numbers[at] + second) & 0xFFFFFFFF
        second = (second + numbers[at + 1] + first) & 0xFFFFFFFF
    return first, second
