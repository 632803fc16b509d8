"""How is a file of the user's changed in one place, and nowhere else?

Encoding, byte order mark and line ends stay as they are. If somebody else writes the file
in the meantime, their text wins and the change is made again on it.
"""

from __future__ import annotations

import codecs
import hashlib
import stat
from collections.abc import Callable

from spec_kit_memory import filesystem
from spec_kit_memory.errors import AccessDenied
from spec_kit_memory.files import disk
from spec_kit_memory.filesystem import Place

__all__ = ["rewrite"]

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
TRIES = 5


def rewrite(place: Place, edit: Callable[[str], str]) -> tuple[str, str] | None:
    """Write `edit(text)` back; returns the SHA-256 of the bytes before and after, None where nothing changed."""
    name = place.path.as_posix()
    for _ in range(TRIES):
        data = _read(place)
        mark, encoding = next(((m, e) for m, e in _MARKS if data.startswith(m)), (b"", "utf-8"))
        text = disk.decode(data, name=name)
        changed = mark + edit(text).encode(encoding)
        if changed == data:
            return None
        if _read(place) == data:
            disk.write_atomic(place, changed)
            return hashlib.sha256(data).hexdigest(), hashlib.sha256(changed).hexdigest()
    raise AccessDenied(f"{name} is being written by another program", hint="try again in a moment")


def _read(place: Place) -> bytes:
    """The bytes of a file that may be written: replacing one that is read-only would ignore what its owner said."""
    data, facts = disk.read_bytes(place)
    if not facts.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not filesystem.is_writable(place):
        name = place.path.as_posix()
        raise AccessDenied(f"{name} is read-only", hint=f"make it writable: chmod u+w {name}")
    return data
