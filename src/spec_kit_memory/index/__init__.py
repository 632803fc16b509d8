"""Where do memories live, and how are they found again? `contract` says what every engine does; this opens one."""

from __future__ import annotations

import os
from pathlib import Path

from spec_kit_memory.index.contract import Index

__all__ = ["open_index"]


def open_index(path: Path, *, read_only: bool = False, damaged_ok: bool = False) -> Index:
    """With `damaged_ok` a damaged index is no error here: every use says so until `rebuild` has mended it."""
    from spec_kit_memory.index.sqlite.engine import SqliteIndex

    return SqliteIndex(Path(os.path.realpath(path)), read_only=read_only, damaged_ok=damaged_ok)
