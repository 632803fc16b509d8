"""What does a scan decide about each file, what does it remember while it runs, and what does it report?

`decide` says what one file needs without opening it: nothing, to be read, or to be taken out of the index.

Many files in one transaction take two thirds of the time and a quarter of the disk writes of a transaction for each,
but other writers wait meanwhile. So a batch is small and ends after a moment; the rest of it goes into the next
transaction.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from itertools import islice
from pathlib import PurePosixPath
from typing import TypeVar

from spec_kit_memory.answers import FileWarning
from spec_kit_memory.core.memory import CHAT, Change, Entry, Presence, Stamp, owner_of
from spec_kit_memory.files.discover import MemoryFile
from spec_kit_memory.files.index_entry import Parsed
from spec_kit_memory.index.contract import BadFile, PutResult, Stored

SAME_MTIME_NS = 1_000_000_000
RACY_NS = 2_000_000_000  # a file this fresh when it was read may have changed again in the same tick of its clock
BATCH_FILES = 100  # more of them in one transaction are hardly faster
BATCH_BYTES = 1_000_000  # of text that is read and waits to be written
# How many memories with one text are considered as the origin of a moved file. Thousands of equal files that were all
# renamed would otherwise be compared each with each.
MOST_ORIGINS = 100
HOLD_SECONDS = 0.05  # longer ones noticeably delayed searches, which record their results
Item = TypeVar("Item")


@dataclass(slots=True)
class ScanReport:
    """What a scan did. `bad` are files that could not be indexed; the others were."""

    new: int = 0
    modified: int = 0
    reindexed: int = 0
    moved: int = 0
    aliases: int = 0
    unchanged: int = 0
    deleted: int = 0
    unknown: int = 0
    forgotten: int = 0
    undiscovered: int = 0
    archived: int = 0  # of the files that were found
    recovered: int = 0
    seconds: float = 0.0
    cancelled: bool = False
    bad: list[BadFile] = field(default_factory=list)
    warnings: list[FileWarning] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)  # path and why it is no memory
    elsewhere: bool = False  # something changed outside the session's scope

    @property
    def changed(self) -> bool:
        return bool(
            self.elsewhere or self.new or self.modified or self.reindexed or self.moved or self.aliases or self.deleted
        )


@dataclass(slots=True)
class Differences:
    """The present differences between files and index, as stored paths."""

    unindexed: list[str] = field(default_factory=list)  # memory files that the index does not have
    changed: list[str] = field(default_factory=list)  # files whose text differs from the index
    lost: list[str] = field(default_factory=list)  # indexed, but no rule finds the file any more


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


@dataclass(frozen=True, slots=True)
class ReadyFile:
    """A file that was read and parsed, ready to be indexed."""

    file: MemoryFile
    decision: ScanDecision
    parsed: Parsed


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """A file that was indexed; without a result it stays forgotten."""

    ready: ReadyFile
    entry: Entry
    result: PutResult | None = None
    origin: str | None = None  # the path that it was moved from

    @property
    def released(self) -> tuple[str, ...]:
        return self.result.released if self.result else ()


class ForgottenTexts:
    """Where one text was deleted on request, by owner."""

    def __init__(self, folders: Mapping[str, str | None]) -> None:
        self.folders = {(owner_of(path), folder) for path, folder in folders.items()}
        self.by_name: dict[tuple[str | None, str], list[str]] = {}
        for path in folders:
            self.by_name.setdefault((owner_of(path), PurePosixPath(path).name), []).append(path)


@dataclass
class ScanState:
    """The state of one scan: what is stored, what was found, and what remains to be done."""

    stored: dict[str, Stored]  # of all paths, or of those that a limited scan covers
    files: dict[str, MemoryFile]
    unreadable: tuple[str, ...]
    change: Change
    force: bool
    report: ScanReport
    is_seen: Callable[[str], bool] = lambda path: True
    hidden: ScanReport = field(default_factory=ScanReport)
    ids: dict[str, int] = field(default_factory=dict)  # live paths
    missing: list[str] = field(default_factory=list)  # paths of live rows whose file is missing
    places: frozenset[str] | None = None  # the stored paths that the scan is limited to
    touched: dict[str, Stamp] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)  # old paths of moved files
    spec_places: set[str] = field(default_factory=set)  # folders whose spec documents changed
    # Finds rows outside a limited scan; None: `stored` is complete.
    lookup: Callable[[str], Mapping[str, Stored]] | None = None
    looked_up: dict[str, list[str]] = field(default_factory=dict)
    origins: dict[str, dict[str, None]] = field(default_factory=dict)  # by text, in order
    inherited: dict[int, bool] = field(default_factory=dict)  # by memory: does another file have its text?
    forgotten_texts: dict[str, ForgottenTexts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ids = {path: row.memory_id for path, row in self.stored.items() if row.presence is Presence.LIVE}

    def of(self, path: str) -> ScanReport:
        """The report that counts this path: paths outside the scope of the caller are not in theirs."""
        return self.report if self.is_seen(path) else self.hidden

    def is_about(self, path: str) -> bool:
        return self.places is None or is_covered(path, self.places)

    def alike(self, key: str) -> Sequence[str]:
        """The stored paths whose text has this raw hash or fingerprint; looked up only for new files."""
        if self.lookup is None:
            return self._by_text.get(key, ())
        if key not in self.looked_up:
            rows = {path: row for path, row in self.lookup(key).items() if not path.startswith(CHAT)}
            self.looked_up[key] = list(rows)
            self.stored = rows | self.stored
        return self.looked_up[key]

    def movable(self, key: str) -> Sequence[str]:
        """The stored paths with that text which a moved file may come from: of memories whose file was not found."""
        if key not in self.origins:
            self.origins[key] = {
                path: None
                for path in self.alike(key)
                if not self.stored[path].alias
                and self.stored[path].presence is not Presence.FORGOTTEN
                and path not in self.files
            }
        paths = self.origins[key]
        for path in [path for path in islice(paths, MOST_ORIGINS) if path in self.moved]:
            del paths[path]
        return list(islice(paths, MOST_ORIGINS))

    def take_back_moves(self, origins: Collection[str | None]) -> None:
        self.moved.difference_update(origin for origin in origins if origin)
        self.origins.clear()

    def forgotten(self, key: str) -> ForgottenTexts:
        if key not in self.forgotten_texts:
            rows = {path: self.stored[path] for path in self.alike(key)}
            self.forgotten_texts[key] = ForgottenTexts(
                {path: row.spec_folder for path, row in rows.items() if row.presence is Presence.FORGOTTEN}
            )
        return self.forgotten_texts[key]

    @cached_property
    def _by_text(self) -> dict[str, list[str]]:
        paths: dict[str, list[str]] = {}
        for path, row in self.stored.items():
            for key in {row.raw_hash, row.fingerprint}:
                if key:
                    paths.setdefault(key, []).append(path)
        return paths


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def is_covered(path: str, places: Collection[str]) -> bool:
    """Is the path one of these, or below one of them?"""
    while path and path not in places:
        path = folder_of(path)
    return bool(path)


def for_a_moment(queue: deque[Item]) -> Iterator[Item]:
    """Take items from the queue, at least one, for as long as other writers may wait."""
    until = time.monotonic() + HOLD_SECONDS
    while queue:
        yield queue.popleft()
        if time.monotonic() >= until:
            return
