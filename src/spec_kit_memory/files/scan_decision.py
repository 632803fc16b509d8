"""What does one file need: nothing, to be read, or to be taken out of the index?

Decided from its place, its stamp and what is stored, without opening it.
"""

from __future__ import annotations

from enum import StrEnum

from spec_kit_memory.core.memory import Presence, Stamp
from spec_kit_memory.files.discover import MemoryFile
from spec_kit_memory.index.contract import Stored

SAME_MTIME_NS = 1_000_000_000
RACY_NS = 2_000_000_000  # a file this fresh when it was read may have changed again in the same tick of its clock


class ScanDecision(StrEnum):
    SKIP = "skip"
    NEW = "new"
    MODIFIED = "modified"
    REINDEX = "reindex"
    DELETED = "deleted"
    UNKNOWN = "unknown"  # it could not be read


def decide(file: MemoryFile | None, stored: Stored | None, *, force: bool = False) -> ScanDecision:
    """What one path needs, from its place, its stamp and what is stored; MODIFIED leaves it to the hash."""
    if file is None:
        return ScanDecision.DELETED if stored and stored.presence is Presence.LIVE else ScanDecision.SKIP
    if stored is None:
        return ScanDecision.NEW
    if stored.presence is Presence.GONE:
        return ScanDecision.REINDEX
    if stored.presence is Presence.FORGOTTEN:
        return ScanDecision.SKIP if _same_stamp(file, stored.stamp) else ScanDecision.MODIFIED
    if force or stored.stamp.mtime_ns <= 0 or (not stored.alias and _is_misplaced(file, stored)):
        return ScanDecision.REINDEX
    return ScanDecision.SKIP if _same_stamp(file, stored.stamp) else ScanDecision.MODIFIED


def _is_misplaced(file: MemoryFile, stored: Stored) -> bool:
    """Is it stored under another folder or owner than its path says? Then some who may see it do not, or others do."""
    moved_folder = file.spec_folder is not None and file.spec_folder != stored.spec_folder
    return moved_folder or file.owner != stored.owner or stored.project is not None  # a file belongs to no project


def _same_stamp(file: MemoryFile, stamp: Stamp) -> bool:
    return (
        file.size == stamp.size
        and abs(file.mtime_ns - stamp.mtime_ns) <= SAME_MTIME_NS
        and stamp.seen_ns - stamp.mtime_ns >= RACY_NS
    )
