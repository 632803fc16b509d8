"""What does a scan know and remember while it runs? What is stored, what was found, and what remains to be done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from spec_kit_memory.core.memory import CHAT, Change, Entry, Presence, Stamp
from spec_kit_memory.files.discover import MemoryFile
from spec_kit_memory.files.index_entry import Parsed
from spec_kit_memory.files.scan_decision import ScanDecision
from spec_kit_memory.files.scan_report import ScanReport
from spec_kit_memory.index.contract import PutResult, Stored


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
