"""What did a scan do, and where do files and index disagree?"""

from __future__ import annotations

from dataclasses import dataclass, field

from spec_kit_memory.answers import FileWarning
from spec_kit_memory.index.contract import BadFile


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
