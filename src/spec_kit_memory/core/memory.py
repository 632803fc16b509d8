"""What is a memory made of? The terms of the product as types.

Frozen dataclasses and enums only: no files, no SQL, no clock. All other packages
use these types. Lines are counted from 1 and ranges include both ends.
Similarity is 0 to 1 and score is 0 to 100 everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from spec_kit_memory.advice import Text
from spec_kit_memory.core.citations import CitedFile
from spec_kit_memory.core.lean_dataclass import dataclass

if TYPE_CHECKING:
    from spec_kit_memory.core.operation import Operation


FIRST_PERSONAL_ID = 1_000_000_001  # ids in the user's own vault start here; lower ones belong to projects
PROJECT_IDS, PERSONAL_IDS = range(1, FIRST_PERSONAL_ID), range(FIRST_PERSONAL_ID, 1 << 62)


class Tier(StrEnum):
    CONSTITUTIONAL = "constitutional"
    CRITICAL = "critical"
    IMPORTANT = "important"
    NORMAL = "normal"
    TEMPORARY = "temporary"
    DEPRECATED = "deprecated"


class State(StrEnum):
    HOT = "HOT"
    WARM = "WARM"
    COLD = "COLD"
    DORMANT = "DORMANT"
    ARCHIVED = "ARCHIVED"


class ContextType(StrEnum):
    RESEARCH = "research"
    IMPLEMENTATION = "implementation"
    DECISION = "decision"
    DISCOVERY = "discovery"
    GENERAL = "general"


# Synonyms that people and agents use.
CONTEXT_ALIASES = {
    **dict.fromkeys(("debug", "fix", "refactor", "feature", "test"), ContextType.IMPLEMENTATION),
    **dict.fromkeys(("debugging", "refactoring", "testing"), ContextType.IMPLEMENTATION),
    **dict.fromkeys(("analysis", "review"), ContextType.RESEARCH),
    **dict.fromkeys(("planning", "architecture"), ContextType.DECISION),
    "bugfix": ContextType.IMPLEMENTATION,
    "bug": ContextType.DISCOVERY,
}


# Words for tiers that we do not have: the tier of ours is offered, not taken, since a guess could make a memory vanish.
TIERS_MEANT = {
    **dict.fromkeys(("high", "major"), Tier.IMPORTANT),
    **dict.fromkeys(("medium", "default", "standard", "low", "minor"), Tier.NORMAL),
    **dict.fromkeys(("highest", "urgent", "essential"), Tier.CRITICAL),
}


class Source(StrEnum):
    MEMORY = "memory"
    CONSTITUTIONAL = "constitutional"
    SPEC = "spec"
    CHAT = "chat"
    CUSTOM = "custom"

    @property
    def vouched(self) -> bool:
        """May text from this source define rules without a person's approval?"""
        return self not in (Source.CHAT, Source.CUSTOM)


# The prefix of a conversation's path.
CHAT = "chat://"


class Relation(StrEnum):
    CAUSED = "caused"
    ENABLED = "enabled"
    SUPERSEDES = "supersedes"
    CONTRADICTS = "contradicts"
    DERIVED_FROM = "derived_from"
    SUPPORTS = "supports"


class Origin(StrEnum):
    """Where a link came from. HAND links are stored; the other two are derived from files and spec folders."""

    HAND = "hand"
    FILE = "file"
    SPEC = "spec"


class VectorStatus(StrEnum):
    PENDING = "pending"
    SUCCESS = "success"
    RETRY = "retry"
    FAILED = "failed"
    PARTIAL = "partial"


class Actor(StrEnum):
    USER = "user"
    SYSTEM = "system"
    HOOK = "hook"
    DECAY = "decay"


class Event(StrEnum):
    """Kinds of history entries."""

    ADD = "ADD"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class Mutation(StrEnum):
    """Kinds of ledger entries."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    MERGE = "merge"
    ARCHIVE = "archive"
    RESTORE = "restore"
    REINDEX = "reindex"


class Presence(StrEnum):
    """Does the memory's text exist? GONE: the file vanished. FORGOTTEN: deleted on request."""

    LIVE = "live"
    GONE = "gone"
    FORGOTTEN = "forgotten"


# --- the content of a file ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocumentWarning:
    """A problem in one file that did not prevent it from being indexed."""

    message: Text
    line: int | None = None
    code: str = ""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A named section. The range is the text between the two tags (may be empty: last < first)."""

    id: str
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading and the lines of its section, up to the next heading of its level or above."""

    level: int
    text: str
    slug: str
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class LinkClaim:
    """A link that a file's front matter declares.

    `target` is an id, a path or an exact title. `inward` means target -> this memory.
    """

    relation: Relation
    target: str
    inward: bool = False
    strength: float = 1.0


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What front matter (or the metadata block) sets; None and () mean "not set"."""

    title: str | None = None
    triggers: tuple[str, ...] = ()
    tier: Tier | None = None
    context_type: ContextType | None = None
    weight: float | None = None
    created_at: datetime | None = None
    expires_at: datetime | None = None
    spec_folder: str | None = None
    session_id: str | None = None
    channel: str | None = None
    links: tuple[LinkClaim, ...] = ()
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file. `text` is the whole file, redacted, with "\\n" line ends."""

    text: str
    title: str  # front matter, else first "#" heading, else "" (the caller falls back to the file's name)
    front: FrontMatter
    body_first_line: int  # first line after the front matter
    anchors: tuple[Anchor, ...] = ()
    headings: tuple[Heading, ...] = ()
    warnings: tuple[DocumentWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of lines that search matches. `text` is exactly those lines of the document, or the question."""

    ordinal: int
    first_line: int
    last_line: int
    text: str
    hash: str  # SHA-256 of embedded(headings, text)
    tokens: int
    anchor: str = ""
    headings: tuple[str, ...] = ()
    speaker: str = ""  # set for turns of a conversation
    question: str = ""  # set for a question that the memory answers; the lines are those of the answering section


def embedded(headings: tuple[str, ...], text: str) -> str:
    """The text of a passage for the embedding model and the text index.

    It never includes the title from front matter, so that a new title does not require new vectors.
    """
    return f"{' > '.join(headings)}\n{text}" if headings else text


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    speaker: str
    text: str
    time: str = ""  # as in the transcript


@dataclass(frozen=True, slots=True)
class Conversation:
    """A chat as an importer read it. Its path is chat://<id>."""

    id: str
    title: str
    turns: tuple[Turn, ...]
    started_at: datetime | None = None
    ended_at: datetime | None = None
    origin: str = ""  # claude-code | codex | opencode | chatgpt | claude.ai | jsonl


# --- a memory -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attributes:
    """The metadata of a memory after all rules are applied."""

    title: str
    tier: Tier = Tier.NORMAL
    weight: float = 0.5
    context_type: ContextType = ContextType.GENERAL
    triggers: tuple[str, ...] = ()
    created_at: datetime | None = None  # the document's own date; else `file_time`
    expires_at: datetime | None = None
    session_id: str | None = None
    channel: str | None = None

    @property
    def own_date(self) -> datetime | None:
        """The date in the document itself; None if there is only the file's time, which says nothing about its age."""
        return None if self.created_at and self.created_at.microsecond == _FILE_TIME else self.created_at


# Dates of documents have no fraction of a second. A document without a date gets its file's time, for ordering, marked
# with this many microseconds, so that the two can be distinguished in the index, in history and in checkpoints.
_FILE_TIME = 1


def file_time(modified_at: datetime) -> datetime:
    """A file's modification time, marked as a substitute for the date that its document lacks."""
    return modified_at.replace(microsecond=_FILE_TIME)


@dataclass(frozen=True, slots=True)
class Stamp:
    """Size and mtime of a file when it was read, and the time of reading."""

    size: int
    mtime_ns: int
    seen_ns: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One document to be written to the index."""

    path: str  # relative to the workspace with "/", absolute if outside of it, or chat://id
    source: Source
    spec_folder: str | None
    attributes: Attributes
    document: Document
    passages: tuple[Passage, ...]
    raw_hash: str  # SHA-256 of the file's bytes
    content_hash: str  # SHA-256 of the redacted text
    fingerprint: str  # "" for an empty body: never matches
    stamp: Stamp
    archived_folder: bool = False
    owner: str | None = None  # user namespace
    project: str | None = None
    trusted: bool = True  # False: text from chat or custom sources that no person has approved
    redactions: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """One remembered document as the store returns it, without its text."""

    id: int
    path: str
    source: Source
    spec_folder: str | None
    attributes: Attributes
    presence: Presence
    fingerprint: str
    content_hash: str
    first_indexed_at: datetime
    updated_at: datetime  # when its text or metadata last changed in the index
    vector_status: VectorStatus
    archived_folder: bool = False
    outdated: bool = False
    owner: str | None = None
    project: str | None = None
    trusted: bool = True
    access_count: float = 0.0
    last_access: datetime | None = None
    validation_count: int = 0
    confidence: Decimal = Decimal("0.5")
    aliases: tuple[str, ...] = ()
    passages: int = 0
    tokens: int = 0
    redactions: int = 0
    warnings: tuple[DocumentWarning, ...] = ()
    cited: tuple[CitedFile, ...] = ()  # project files that its text names

    @property
    def title(self) -> str:
        return self.attributes.title

    @property
    def tier(self) -> Tier:
        return self.attributes.tier

    @property
    def elsewhere(self) -> bool:
        """Does it belong to the main checkout of which this workspace is a worktree? Such files are never written."""
        if self.path[:1] not in "/\\" and self.path[1:2] != ":":  # nearly all paths; cheaper than parsing them
            return False
        return self.source not in (Source.CUSTOM, Source.CHAT) and PurePath(self.path).is_absolute()


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage in the index: its id is stable until its memory's text changes."""

    id: int
    memory_id: int
    ordinal: int
    first_line: int
    last_line: int
    hash: str
    tokens: int
    anchor: str = ""
    headings: tuple[str, ...] = ()
    speaker: str = ""
    question: str = ""
    has_vector: bool = False  # of the current model


# --- scopes and filters -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scope:
    """What one caller may see. It is set when the process starts or by an access token, never by a parameter.

    `prefixes` are paths in stored form; None means the whole workspace, () means nothing.
    A memory with an owner is visible to that user only; one with a project to that project only.
    """

    user: str | None = None
    project: str | None = None
    prefixes: tuple[str, ...] | None = None

    def __hash__(self) -> int:  # a search looks up twenty things by its scope
        return hash((self.user, self.project, self.prefixes))


EVERYWHERE = Scope()  # for callers that are not limited to a user, project or path


def is_text_name(name: str) -> bool:
    """Is this the name of a file that may be a memory?"""
    return name.lower().endswith((".md", ".txt"))


def owner_of(path: str) -> str | None:
    """The user whose namespace, memory/users/<user>/, contains a stored path."""
    parts = path.split("/", 3)
    return parts[2] if parts[:2] == ["memory", "users"] and len(parts) == 4 else None


@dataclass(frozen=True, slots=True)
class StateBounds:
    """A state filter in numbers, made by `core.decay.bounds`, the only place that defines the thresholds.

    A memory matches if its id is in `always`; or it is flagged (in an archive folder or marked
    outdated) and `flagged` is true; or it is not flagged, its tier is in `used`, and the later
    of its last access and first indexing, in epoch seconds, is within that half-open interval.
    """

    used: Mapping[Tier, tuple[float, float]]
    flagged: bool = False
    always: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Filter:
    """Which live memories may be returned; all conditions apply before any limit."""

    spec_folder: str | None = None  # exact
    folder_prefix: str | None = None
    unfiled: bool = False  # only memories outside of spec folders
    tiers: frozenset[Tier] | None = None
    context_type: ContextType | None = None
    source: Source | None = None
    ids: frozenset[int] | None = None
    states: StateBounds | None = None
    expired_at: float | None = None  # exclude memories whose expires_at is at or before this epoch second
    without: Filter | None = None  # exclude memories that match this filter
    cites: bool = False  # only memories whose texts name project files; used by `find` only


# --- matches ------------------------------------------------------------------


class RawHit(NamedTuple):
    """A passage found by one search leg, with that leg's score: higher is better.

    A tuple because each query creates hundreds.
    """

    passage_id: int
    memory_id: int
    score: float


@dataclass(frozen=True, slots=True)
class Link:
    id: int
    source_id: int
    target_id: int
    relation: Relation
    strength: float = 1.0
    evidence: str = ""
    origin: Origin = Origin.HAND
    created_at: datetime | None = None

    @property
    def ends(self) -> tuple[int, int]:
        return self.source_id, self.target_id

    @property
    def key(self) -> tuple[int, int, Relation]:
        """The unique key of a link."""
        return self.source_id, self.target_id, self.relation


@dataclass(frozen=True, slots=True)
class Change:
    """Who makes a change, and why: recorded in the ledger with the change."""

    actor: Actor
    at: datetime
    session: str | None = None
    reason: str = ""  # for people; the program itself reads the operation
    operation: Operation | None = None  # None: it cannot be undone
    user: str = ""  # see `Caller.user`


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    id: str
    memory_id: int
    event: Event
    before: Mapping[str, object] | None
    after: Mapping[str, object] | None
    actor: Actor
    at: datetime
    spec_folder: str | None = None
    ledger_sequence: int | None = None  # of the ledger entry written with it; None if an older version recorded none
    user: str = ""  # from the operation of that ledger entry
    merged_into: int | None = None  # of a deletion: the memory that took its text in
    merged: int | None = None  # of an update: the memory whose text was taken in


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One link of the chain. Version 1, from 0.1, has neither operation nor history and protects only the text."""

    sequence: int
    at: str  # ISO 8601, as hashed
    type: Mutation
    memory_ids: tuple[int, ...]
    hash_before: str | None
    hash_after: str | None
    actor: str
    session: str | None
    reason: str
    previous: str
    hash: str
    version: int = 1
    operation: Mapping[str, Any] | None = None  # JSON values; see core.operation
    history: str | None = None  # digest of its history rows
    presence: str | None = None  # of the first memory, after the change


@dataclass(frozen=True, slots=True)
class Attention:
    """A session's attention to a memory: its strength, and the turn at which it was set."""

    memory_id: int
    strength: float
    turn: int
    via: str = "match"  # match | link | listed | loaded | validated


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    turn: int = 0
    loading: str = "ask"  # ask | auto | skip
    last_save_turn: int = 0
    seen_at: datetime | None = None
    attention: tuple[Attention, ...] = ()
    sent: frozenset[str] = field(default_factory=frozenset)  # hashes of passages already sent to this session
