"""Are a database and the files next to it of the kind that SQLite creates?

A hostile repository may contain anything under these names: a pipe would block its reader, a write to a file with a
second hard link changes that other file, and a rollback journal may name another file, which versions of SQLite
before 3.54 delete after they have rolled the journal back.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from spec_kit_memory import filesystem
from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.filesystem import Place

ENDINGS = ("-wal", "-shm", "-journal")
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")  # at its start, and also at its end if it names another file


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
