"""Does the index still say what the file says? Asked of one file before it is read out."""

from __future__ import annotations

import os

from spec_kit_memory.errors import DatabaseBusy, DatabaseUnusable, SpecKitMemoryError
from spec_kit_memory.vault import files, pending
from spec_kit_memory.vault.entries import CHAT
from spec_kit_memory.verbs.wiring import Wiring


def stored_path(wiring: Wiring, path: str) -> str:
    """The path as the index knows it; outside of what this session may see is an error."""
    if path.startswith(CHAT):
        return path
    return files.stored_form(wiring.settings, files.contained(wiring.settings, path))


def refresh(wiring: Wiring, path: str) -> str:
    """Index the file again if it changed since; says why where the older text must do.

    A file that vanished or went bad is left to the scan, and nobody who reads waits long for others who write.
    """
    if path.startswith(CHAT):
        return ""
    known = wiring.store.stored(path).get(path)
    absolute = files.absolute(wiring.settings, path)
    try:
        facts = os.stat(absolute)
        if known and (facts.st_size, facts.st_mtime_ns) == (known.stamp.size, known.stamp.mtime_ns):
            return ""
        with wiring.whole.hurried():
            wiring.sync.index_file(absolute, wiring.change("changed since it was indexed"))
    except (DatabaseBusy, DatabaseUnusable) as error:
        return f"{path} changed, but the index cannot be written now ({error.code}): this is the text as last indexed"
    except (SpecKitMemoryError, OSError):
        return ""
    return ""


def stale(wiring: Wiring) -> list[str]:
    """Live rows whose file is gone: a scan has not seen it yet."""
    gone = []
    for path, row in wiring.store.stored().items():
        if row.presence == "live" and not path.startswith(CHAT):
            absolute = files.absolute(wiring.settings, path)
            if not absolute.exists() and not pending.pending_of(absolute).exists():
                gone.append(f"{path} is indexed, but its file is gone")
    return gone
