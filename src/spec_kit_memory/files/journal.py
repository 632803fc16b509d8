"""Which changes of files was a process making when it died? Records of intent, in `.spec-kit-memory/pending/`.

Each is a small JSON file that is synced before the first file changes, locked while its process lives, and removed
when everything in it is done. A record without a lock is that of a dead process: `dead` returns those to settle.
New memory files (`files.pending`) and changes of files together with the index (`files.file_changes`) both keep one.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from spec_kit_memory import filesystem
from spec_kit_memory.core import json_stream
from spec_kit_memory.files import disk, paths
from spec_kit_memory.filesystem import NotAFile, Place, Redirected
from spec_kit_memory.settings import Settings

FOLDER = "pending"
SUFFIX = ".json"
_MOST_BYTES = 64 << 20
_OURS = re.compile(r"(?:[0-9a-f]{24}|[0-9a-f]{32})\.json")  # a save's and an operation's; other files are not touched


class JournalRecord:
    """A record that this process has locked."""

    def __init__(self, place: Place, descriptor: int) -> None:
        self.place = place
        self._descriptor = descriptor

    def write(self, fields: Mapping[str, Any]) -> None:
        filesystem.write_all(self._descriptor, json.dumps(fields).encode())
        filesystem.flush(self._descriptor)
        filesystem.sync(self.place.parent)

    def read(self) -> dict[str, Any]:
        """Its fields; empty if it is incomplete, because no change had begun then."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        data = bytearray()
        while len(data) < _MOST_BYTES and (piece := os.read(self._descriptor, 1 << 20)):
            data += piece
        try:
            fields = json_stream.read(bytes(data))
        except (ValueError, RecursionError):
            return {}
        return fields if isinstance(fields, dict) else {}

    def remove(self) -> None:
        if sys.platform == "win32":
            self.close()  # Windows cannot remove an open file
        filesystem.remove(self.place)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> JournalRecord:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def folder(settings: Settings) -> Place:
    return paths.state_folder(settings, FOLDER)


def take(settings: Settings, name: str) -> JournalRecord | None:
    """Create a record of that name; None if there is one already, or if a recovery removed it first."""
    disk.ensure_state_folder(settings)
    place = folder(settings)
    filesystem.make_folders(place, mode=0o700)
    record = place / f"{name}{SUFFIX}"
    try:
        descriptor = filesystem.create(record, mode=0o600)
    except FileExistsError:
        return None
    taken = JournalRecord(record, descriptor)
    try:
        if filesystem.try_lock(descriptor) and _is_same(descriptor, record):
            return taken
    except OSError:  # it is unknown whether it is still ours; nothing relies on it yet
        with suppress(OSError):
            taken.remove()
        taken.close()
        raise
    taken.close()  # a recovery mistook it for a dead process's
    return None


def _is_same(descriptor: int, place: Place) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), filesystem.look(place))
    except FileNotFoundError:
        return False


def dead(settings: Settings) -> Iterator[JournalRecord]:
    """The records that no living process has locked, each locked by us while it is processed.

    A repository can contain forged records: the caller validates every path in one, and destroys nothing on its
    authority alone.
    """
    try:
        place = folder(settings)
        names = list(filter(_OURS.fullmatch, filesystem.names(place)))
    except OSError:
        return
    for name in names:
        try:
            descriptor = filesystem.open_lock(place / name, make=False)
        except (FileNotFoundError, Redirected, NotAFile):
            continue
        except OSError:
            continue  # read-only: the next start tries again
        record = JournalRecord(place / name, descriptor)
        with record:
            if filesystem.try_lock(descriptor) and _is_same(descriptor, place / name):
                yield record
        with suppress(OSError):
            record.close()
