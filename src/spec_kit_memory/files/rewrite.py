"""How is one part of a user's file edited and the rest left as it is, with its encoding and byte order mark?"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from spec_kit_memory import filesystem
from spec_kit_memory.core.byte_order_mark import mark_and_encoding
from spec_kit_memory.errors import AccessDenied
from spec_kit_memory.files import disk
from spec_kit_memory.filesystem import Place


def edited(place: Place, edit: Callable[[str], str]) -> tuple[bytes, bytes]:
    """The bytes of a file that may be written, and what they would be after the edit."""
    data = _read(place)
    mark, encoding = mark_and_encoding(data)
    return data, mark + edit(disk.decode(data, name=place.path.as_posix())).encode(encoding)


def _read(place: Place) -> bytes:
    """The bytes of a file that may be written: replacing a read-only file would ignore its owner's intent."""
    data, facts = disk.read_bytes(place)
    if not facts.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not filesystem.is_writable(place):
        name = place.path.as_posix()
        refusal = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        raise AccessDenied(f"{name} is read-only", hint=f"make it writable: chmod u+w {name}") from refusal
    return data
