"""What is a memory made of? The words of the product as values.

Frozen dataclasses and enums only: no files, no SQL, no clock. All other packages
use these types. Lines are counted from 1 and ranges include both ends.
Similarity is 0 to 1 and score is 0 to 100 everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from spec_kit_memory.core.citations import CitedFile

if TYPE_CHECKING:
    from spec_kit_memory.core.operation import Operation


FIRST_PERSONAL_ID = 1_000_000_001  # of the user's own vault: below are the ids of projects


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


# What people and agents also call them.
CONTEXT_ALIASES = {
    **dict.fromkeys(("debug", "fix", "refactor", "feature", "test"), ContextType.IMPLEMENTATION),
    **dict.fromkeys(("debugging", "refactoring", "testing"), ContextType.IMPLEMENTATION),
    **dict.fromkeys(("analysis", "review"), ContextType.RESEARCH),
    **dict.fromkeys(("planning", "architecture"), ContextType.DECISION),
    "bugfix": ContextType.IMPLEMENTATION,
    "bug": ContextType.DISCOVERY,
}


class Source(StrEnum):
    MEMORY = "memory"
    CONSTITUTIONAL = "constitutional"
    SPEC = "spec"
    CHAT = "chat"
    CUSTOM = "custom"

    @property
    def vouched(self) -> bool:
        """May text of that source make rules without a person saying so?"""
        return self not in (Source.CHAT, Source.CUSTOM)


# How the path of a conversation begins.
CHAT = "chat://"


class Relation(StrEnum):
    CAUSED = "caused"
    ENABLED = "enabled"
    SUPERSEDES = "supersedes"
    CONTRADICTS = "contradicts"
    DERIVED_FROM = "derived_from"
    SUPPORTS = "supports"


class Origin(StrEnum):
    """Where a link came from. HAND is recorded; the other two are derived."""

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
    """Is the memory's text there? GONE: the file vanished. FORGOTTEN: deleted on request."""

    LIVE = "live"
    GONE = "gone"
    FORGOTTEN = "forgotten"


# --- what a file says ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Warning_:
    """Something odd in one file that did not stop it from being indexed."""

    message: str
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
    """A heading and the lines it governs, up to the next heading of its level or above."""

    level: int
    text: str
    slug: str
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class LinkClaim:
    """A link that a file's front matter asks for.

    `target` is an id, a path or an exact title. `inward` means target -> this memory.
    """

    relation: Relation
    target: str
    inward: bool = False
    strength: float = 1.0


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What front matter (or the metadata block) sets; None and () mean "not said"."""

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
    warnings: tuple[Warning_, ...] = ()


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
    question: str = ""  # set for a question that the memory answers; the lines are those of the section it leads to


def embedded(headings: tuple[str, ...], text: str) -> str:
    """What the model reads of a passage, and the text index too.

    Never the title from front matter, so that a title change embeds nothing again.
    """
    return f"{' > '.join(headings)}\n{text}" if headings else text


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    speaker: str
    text: str
    time: str = ""  # as the transcript has it


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
    """The metadata that holds for a memory after every rule was applied."""

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
        """What the document says of itself; None where only its file has a time, which says nothing of its age."""
        return None if self.created_at and self.created_at.microsecond == _FILE_TIME else self.created_at


# Dates of documents are to the second. A file's time, which stands in for one, orders lists and is told apart by this
# fraction, wherever it is kept: in the index, in history, in checkpoints, on either engine.
_FILE_TIME = 1


def file_time(modified_at: datetime) -> datetime:
    """When a file was written, in the place of a date that its document does not have."""
    return modified_at.replace(microsecond=_FILE_TIME)


@dataclass(frozen=True, slots=True)
class Stamp:
    """Size and mtime of a file when it was read, and when that was."""

    size: int
    mtime_ns: int
    seen_ns: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One document on its way into the index."""

    path: str  # workspace-relative with "/", absolute when outside, or chat://id
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
    trusted: bool = True  # False: text from chat or custom sources nobody vouched for
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
    warnings: tuple[Warning_, ...] = ()
    cited: tuple[CitedFile, ...] = ()  # files of the project that it names

    @property
    def title(self) -> str:
        return self.attributes.title

    @property
    def tier(self) -> Tier:
        return self.attributes.tier

    @property
    def elsewhere(self) -> bool:
        """Is it a memory of the main checkout that this workspace is a worktree of? Such files are only read."""
        if self.path[:1] not in "/\\" and self.path[1:2] != ":":  # nearly every path, told without taking it apart
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


# --- who may see what, and which ones ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Scope:
    """What one caller may see. It comes from how the process was started or from a token, never from a parameter.

    `prefixes` are paths in stored form; None means the whole workspace, () means nothing.
    A memory with an owner is seen by that user only; one with a project by that project only.
    """

    user: str | None = None
    project: str | None = None
    prefixes: tuple[str, ...] | None = None


EVERYWHERE = Scope()  # of callers that are limited to no user, project or path


def owner_of(path: str) -> str | None:
    """The user in whose namespace, memory/users/<user>/, a stored path lies."""
    parts = path.split("/", 3)
    return parts[2] if parts[:2] == ["memory", "users"] and len(parts) == 4 else None


@dataclass(frozen=True, slots=True)
class StateBounds:
    """A state filter in numbers, made by `core.decay.bounds` so that the thresholds stand once.

    A memory passes if its id is in `always`; or it is flagged (in an archive folder or marked
    outdated) and `flagged` is true; or it is not flagged, its tier is in `used`, and the later
    of its last access and first indexing, in epoch seconds, lies in that half-open interval.
    """

    used: Mapping[Tier, tuple[float, float]]
    flagged: bool = False
    always: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Filter:
    """Which live memories may be returned; every condition holds before any limit."""

    spec_folder: str | None = None  # exact
    folder_prefix: str | None = None
    unfiled: bool = False  # only those outside of spec folders
    tiers: frozenset[Tier] | None = None
    context_type: ContextType | None = None
    source: Source | None = None
    ids: frozenset[int] | None = None
    states: StateBounds | None = None
    expired_at: float | None = None  # drop those whose expires_at is at or before this epoch second
    without: Filter | None = None  # drop those that this one lets through
    cites: bool = False  # only those whose texts name files of the project; for `find` alone


# --- matches ------------------------------------------------------------------


class RawHit(NamedTuple):
    """A passage found by one leg, with that leg's own number: higher is better. A tuple: each query makes hundreds."""

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
        """What there is one link of."""
        return self.source_id, self.target_id, self.relation


@dataclass(frozen=True, slots=True)
class Change:
    """Who changes something, and why: written to the ledger with the change."""

    actor: Actor
    at: datetime
    session: str | None = None
    reason: str = ""  # for people; what the program reads later is the operation
    operation: Operation | None = None  # None: nobody will take it back
    user: str = ""  # as `Caller.user` has it


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
    ledger_sequence: int | None = None  # of the entry it was written with; None where an older version left none
    user: str = ""  # as the operation of that entry has it


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One link of the chain. Version 1, of 0.1, has neither operation nor history and vouches for text only."""

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
    operation: Mapping[str, Any] | None = None  # as JSON values: see core.operation
    history: str | None = None  # digest of its history rows
    presence: str | None = None  # of the first memory, after the change


@dataclass(frozen=True, slots=True)
class Attention:
    """How much a session attends to a memory, and since which turn."""

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
    sent: frozenset[str] = field(default_factory=frozenset)  # passage hashes already given to this session
