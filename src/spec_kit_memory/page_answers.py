"""What do the verbs that only the web page uses answer? One memory in full, open decisions, and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import date, datetime

from spec_kit_memory.advice import Text
from spec_kit_memory.answers import Answer, Card, Row, SimilarMemory
from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import Link, State, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a text that has a name: an anchor, or a heading without one."""

    id: str
    title: str
    level: int  # 1 to 6
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UseDay:
    """How often a memory was used on a day, and its state at the end of it."""

    day: date
    uses: int
    state: State | None = None  # None if the row counts all memories together


@dataclass(frozen=True, kw_only=True)
class ExamineAnswer(Answer):
    """One memory with all that is known of it. Looking at it counts as no use."""

    memory: Card
    text: str
    outline: tuple[Section, ...] = ()
    first_indexed_at: datetime
    last_access: datetime | None = None
    expires_at: datetime | None = None
    outdated: bool = False
    recency: float = 1.0  # 0 to 1, after decay
    redactions: int = 0
    body_line: int = 1  # the first line after front matter
    use: tuple[UseDay, ...] = ()  # oldest first
    similar: tuple[SimilarMemory, ...] = ()
    mergeable: tuple[int, ...] = ()  # ids of similar memories that may be merged with it


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A memory after one change. `text` says whether the change was of its text."""

    number: int  # 1 is the first
    at: datetime
    actor: str
    event: str
    user: str = ""  # who made it, if callers sign in
    changed: tuple[str, ...] = ()
    text: bool = False
    hash: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    kind: str  # same | added | removed | skipped
    text: str
    old_line: int | None = None
    new_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ValueDifference(Row):
    """One value of a memory that differs between two of its versions."""

    name: str
    before: object
    after: object


@dataclass(frozen=True, kw_only=True)
class VersionsAnswer(Answer):
    """How a memory came to be what it is, newest first, and two of its versions compared."""

    memory_id: int
    versions: tuple[Version, ...]
    older: int | None = None
    newer: int | None = None
    diff: tuple[DiffLine, ...] = ()
    values: tuple[ValueDifference, ...] = ()  # other values that differ between the two


@dataclass(frozen=True, slots=True, kw_only=True)
class CareItem:
    """Something that needs a decision. `key` names it until the texts that it is about change."""

    key: str
    kind: str  # duplicates | unvouched | stale | trigger | expired | unused | vectors | file | health
    message: Text
    hint: Text = ""
    memories: tuple[Card, ...] = ()
    score: float | None = None  # similarity of duplicates, 0 to 1
    mergeable: bool = False
    phrase: str = ""
    set_aside: bool = False


@dataclass(frozen=True, kw_only=True)
class CareAnswer(Answer):
    items: tuple[CareItem, ...]
    counts: Mapping[str, int]
    compared: int = 0  # memories that have been compared with all others
    to_compare: int = 0


@dataclass(frozen=True, kw_only=True)
class KeepAnswer(Answer):
    key: str
    kept: bool


@dataclass(frozen=True, kw_only=True)
class FacetsAnswer(Answer):
    """How many of all that a search finds have which value."""

    total: int
    tiers: Mapping[str, int] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, int] = field(default_factory=dict)
    folders: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderRow:
    name: str
    count: int
    newest: datetime
    about: str = ""


@dataclass(frozen=True, kw_only=True)
class FoldersAnswer(Answer):
    """Every spec folder; and of the one that was asked for its documents, its sessions in order and their links."""

    folders: tuple[FolderRow, ...]
    total: int = 0
    name: str | None = None
    about: str = ""
    documents: tuple[Card, ...] = ()
    sessions: tuple[Card, ...] = ()
    links: tuple[Link, ...] = ()
    neighbours: tuple[Card, ...] = ()  # memories of other folders that those links lead to


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    name: str
    memories: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """How a tier fades with the days since it was used, and how many memories stand where on it today."""

    tier: Tier
    days: tuple[int, ...]
    left: tuple[float, ...]  # 0 to 1
    memories: tuple[int, ...]  # how many are between this entry of `days` and the next


@dataclass(frozen=True, slots=True, kw_only=True)
class SentDay:
    """What was sent to sessions on a day, by verb."""

    day: date
    verb: str
    answers: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class NumbersAnswer(Answer):
    tiers: tuple[Amount, ...]
    states: tuple[Amount, ...]
    sources: tuple[Amount, ...]
    folders: tuple[Amount, ...]
    model: str
    curves: tuple[Curve, ...]
    use: tuple[UseDay, ...] = ()  # of all memories together
    sent: tuple[SentDay, ...] = ()
