"""Are a database and the files next to it of the kind that SQLite creates, and what does its write-ahead log contain?

A hostile repository may contain anything under these names: a pipe would block its reader, a write to a file with a
second hard link changes that other file, and a rollback journal may name another file, which versions of SQLite
before 3.54 delete after they have rolled the journal back.

The log is read without SQLite, which may refuse or delete it. Its format is SQLite's own and does not change: a header
of 32 bytes, then frames of 24 bytes and one page.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from spec_kit_memory import filesystem
from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.filesystem import Place

ENDINGS = ("-wal", "-shm", "-journal")
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")  # at its start, and also at its end if it names another file
_HEADER, _FRAME_HEADER = 32, 24
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}  # the byte order of its checksums


def refuse_foreign(path: Path) -> None:
    for ending in ("", *ENDINGS):
        name = f"{path}{ending}"
        try:
            facts = os.lstat(name)
        except OSError:
            continue
        regular = stat.S_ISREG(facts.st_mode)
        if ending and not regular:
            raise _refused(name, "is a link" if stat.S_ISLNK(facts.st_mode) else "is not a regular file")
        if regular and facts.st_nlink > 1:
            raise _refused(name, "has a second name, and what stands there would be changed with it")
        if ending == "-journal" and _names_another_file(name):
            raise _refused(name, "names another file to be deleted, which none of ours does")


def _names_another_file(journal: str) -> bool:
    try:
        descriptor = filesystem.open_reading(Place.of(Path(journal)))
    except FileNotFoundError:
        return False
    try:
        os.lseek(descriptor, max(0, os.fstat(descriptor).st_size - len(_JOURNAL_MAGIC)), os.SEEK_SET)
        return os.read(descriptor, len(_JOURNAL_MAGIC)) == _JOURNAL_MAGIC
    finally:
        os.close(descriptor)


def _refused(name: str, reason: str) -> DatabaseUnusable:
    return DatabaseUnusable(f"{name} {reason}", hint="move it away; what is in it is not used")


@dataclass(frozen=True, slots=True)
class Frame:
    page: int
    commit: int  # the database's size in pages, if a transaction ends here; else 0
    offset: int  # where the page's content begins in the log


def log_path(database: Path | str) -> Path:
    return Path(f"{database}-wal")


def has_log_frames(database: Path | str) -> bool:
    try:
        return log_path(database).stat().st_size > _HEADER
    except OSError:
        return False


def log_header(database: Path | str) -> bytes:
    """The header of the log; empty if there is no log."""
    with suppress(OSError), log_path(database).open("rb") as file:
        return file.read(_HEADER)
    return b""


def log_content(database: Path | str) -> bytes:
    """The whole log; empty if there is none."""
    with suppress(OSError), log_path(database).open("rb") as file:
        return file.read()
    return b""


def logged_pages(database: Path | str) -> set[int]:
    """The pages of which the log may hold a newer version; frames left over from before its last reset do not count."""
    pages: set[int] = set()
    with suppress(OSError), log_path(database).open("rb", buffering=0) as file:
        header = file.read(_HEADER)
        if len(header) < _HEADER:
            return pages
        step = _FRAME_HEADER + (log_page_size(header) or 4096)
        for offset in range(_HEADER, os.fstat(file.fileno()).st_size - step + 1, step):
            file.seek(offset)
            head = file.read(16)
            if head[8:16] == header[16:24]:
                pages.add(int.from_bytes(head[:4], "big"))
    return pages


def log_page_size(log: bytes) -> int:
    """The page size in a log's header; 0 if it is not a valid header."""
    if len(log) < _HEADER or int.from_bytes(log[:4], "big") not in _MAGIC:
        return 0
    return int.from_bytes(log[8:12], "big")


def log_frames(log: bytes) -> Iterator[Frame]:
    """The frames of all committed transactions, in order; the log ends at the first frame with a wrong checksum."""
    if len(log) < _HEADER:
        return
    size = log_page_size(log)
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
