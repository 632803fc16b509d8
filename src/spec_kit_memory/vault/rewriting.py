"""How is a file of the user's changed in one place, and nowhere else?

Encoding, byte order mark and line ends stay as they are. If somebody else writes the file
in the meantime, their text wins and the change is made again on it.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

from spec_kit_memory.errors import AccessDenied
from spec_kit_memory.vault import files

__all__ = ["rewrite"]

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
TRIES = 5


def rewrite(path: Path, edit: Callable[[str], str]) -> bool:
    """Write `edit(text)` back; returns whether anything changed."""
    for _ in range(TRIES):
        before = files.read(path)
        data = path.read_bytes()
        mark, encoding = next(((m, e) for m, e in _MARKS if data.startswith(m)), (b"", "utf-8"))
        changed = mark + edit(before.text).encode(encoding)
        if changed == data:
            return False
        if path.read_bytes() == data:
            files.write_atomic(path, changed)
            return True
    raise AccessDenied(f"{path.as_posix()} is being written by another program", hint="try again in a moment")
