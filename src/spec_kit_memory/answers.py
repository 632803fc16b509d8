"""What does each verb of a workspace answer?

Frozen dataclasses. `serve.render` turns any of them into the envelope
{summary, data, hints, meta}: the fields of the subclass become `data`, in camelCase,
with None and empty optional fields left out, and those named in `unsaid`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from spec_kit_memory.core.links import Step
from spec_kit_memory.core.memory import (
    ContextType,
    HistoryEntry,
    Link,
    Source,
    State,
    Tier,
    VectorStatus,
)

# An attribute that a caller gives as importanceTier is answered under that name; its old one stands beside it for a
# version. Names of attributes inside a value are written as JSON has them.
RENAMED: Mapping[str, str] = {"names": "renamed"}
OF_ATTRIBUTES: Mapping[str, str] = {"names": "inside"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    tool: str = ""
    latency_ms: float = 0.0
    tokens: int = 0
    cache_hit: bool = False
    index_generation: int = 0


@dataclass(frozen=True, kw_only=True)
class Answer:
    summary: str
    hints: tuple[str, ...] = ()
    meta: Meta = field(default_factory=Meta)


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A memory as a list shows it."""

    id: int
    title: str
    path: str
    spec_folder: str | None
    tier: Tier = field(metadata=RENAMED)
    state: State
    context_type: ContextType
    source: Source
    weight: float = field(metadata=RENAMED)
    created_at: datetime | None
    updated_at: datetime
    triggers: tuple[str, ...] = field(default=(), metadata=RENAMED)
    access_count: int = 0
    confidence: float = 0.5
    validation_count: int = 0
    vector_status: VectorStatus = VectorStatus.PENDING
    aliases: tuple[str, ...] = ()
    trusted: bool = True
    tokens: int = 0
    problems: tuple[str, ...] = ()  # in list and load: why search leaves it out, loose links, missing vectors


# --- search -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPassage:
    lines: str  # "42-56"
    text: str
    score: float  # 0 to 100
    anchor: str = ""
    headings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One memory that a search found.

    In JSON, what goes without saying is left out: tier normal, state WARM, contextType general, alreadySent false,
    trusted where it is as its source has it (not so for chat and custom, else so). Below a maxTokens of 2,000, id,
    title, specFolder and createdAt come after the texts, if there is room; a conversation's title always does, and
    match below 150 tokens for each result.
    """

    id: int
    title: str
    path: str
    lines: str  # of the best passage
    text: str  # of the best passage; "" where it was already sent or did not fit
    score: float  # 0 to 100; of the best result 100 · match
    match: float | None = None  # 0 to 1: how well it answers by itself; None where that cannot be told
    source: Source
    spec_folder: str | None
    tier: Tier
    state: State
    context_type: ContextType
    created_at: datetime | None
    passages: tuple[ShownPassage, ...] = ()
    sections: Mapping[str, str] = field(default_factory=dict)  # anchor id -> text, with `anchors`
    missing_anchors: tuple[str, ...] = ()
    content: str | None = None  # with includeContent
    already_sent: bool = False  # this session has all of what matched
    sent_before: tuple[str, ...] = ()  # lines that matched and that this session has; what is shown is new to it
    trusted: bool = True
    superseded_by: tuple[int, ...] = ()
    supersedes: tuple[int, ...] = ()  # other results: it stands above them for that, whatever its score
    contradicts: tuple[int, ...] = ()
    concepts: Mapping[str, int] = field(default_factory=dict)  # how often each stands in it; 0: matched by meaning
    before: int | None = None  # with includeContiguity: the memory saved just before, and after
    after: int | None = None
    explain: Mapping[str, Any] = field(default_factory=dict)
    unsaid: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatResult:
    """One passage that a search found (groupBy "passage")."""

    path: str
    lines: str
    text: str
    score: float  # 0 to 1: the only place with this scale
    match: float | None = None
    source: Source
    id: int
    title: str
    superseded_by: tuple[int, ...] = ()
    supersedes: tuple[int, ...] = ()
    already_sent: bool | None = None  # true: this session has its text
    before: int | None = None
    after: int | None = None
    explain: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A constitutional memory above the results; `text` is "" where only its title was offered."""

    id: int
    title: str
    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """Matches that a filter kept out, and the best three of them."""

    archived: int = 0
    dormant: int = 0
    expired: int = 0
    min_score: int = 0
    best: tuple[Mapping[str, Any], ...] = ()  # id, title, reason, score


@dataclass(frozen=True, kw_only=True)
class SearchAnswer(Answer):
    """What a search found. Below a maxTokens of 2,000 all but `results` comes after the texts, if there is room."""

    query: str
    method: str  # hybrid | text | vector
    results: tuple[Result | FlatResult, ...]
    constitutional: tuple[Rule, ...] = ()
    total_found: int = 0
    concepts: Mapping[str, Any] = field(default_factory=dict)  # if none has all of them: of each, memories and best
    held_back: HeldBack = field(default_factory=HeldBack)
    unavailable: tuple[str, ...] = ()  # what could not be used, and why
    stats: Mapping[str, int] = field(default_factory=dict)  # totalFiles, totalChunks
    freshness: Mapping[str, Any] = field(default_factory=dict)  # lastIndexed, pendingVectors
    tokens_saved: int = 0
    contiguous: tuple[Card, ...] = ()
    explain: Mapping[str, Any] = field(default_factory=dict)
    unsaid: frozenset[str] = frozenset()


# --- reading ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LoadAnswer(Answer):
    memory: Card
    text: str
    lines: str
    anchor_id: str | None = None
    tokens_saved: int = 0
    next_line: int | None = None  # where a continuation starts


@dataclass(frozen=True, kw_only=True)
class GetAnswer(Answer):
    path: str
    lines: str
    text: str
    total_lines: int
    id: int


@dataclass(frozen=True, kw_only=True)
class ListAnswer(Answer):
    memories: tuple[Card, ...]
    total: int
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class IndexAnswer(Answer):
    indexed: int = 0
    new: int = 0
    modified: int = 0
    reindexed: int = 0
    moved: int = 0
    aliases: int = 0
    unchanged: int = 0
    deleted: int = 0
    bad: tuple[Mapping[str, str], ...] = ()  # path, code, message
    warnings: tuple[Mapping[str, Any], ...] = ()  # path, line, message
    undiscovered: int = 0  # markdown files that no rule discovers
    skipped: tuple[Mapping[str, Any], ...] = ()  # reason, count, paths (the first three)
    archived: int = 0  # files in archive folders: indexed, and held back from search
    vectors: Mapping[str, int] = field(default_factory=dict)  # per status
    vector_failures: Mapping[str, int] = field(default_factory=dict)  # reason -> passages
    vector_problem: str = ""  # why nothing can be embedded now
    # After a rebuild: where the index as it was is kept, and per recorded table what was read, made again and lost.
    rebuilt: Mapping[str, Any] = field(default_factory=dict)
    seconds_text: float = 0.0
    seconds_vectors: float = 0.0


@dataclass(frozen=True, kw_only=True)
class WatchAnswer(Answer):
    """One thing that happened while the files are watched."""

    kind: str  # watching | waiting | files | vectors | problem
    at: datetime
    indexed: int = 0  # files
    deleted: int = 0
    bad: tuple[Mapping[str, str], ...] = ()  # path, code, message
    embedded: int = 0  # passages
    failed: int = 0


@dataclass(frozen=True, kw_only=True)
class StatsAnswer(Answer):
    totals: Mapping[str, int]
    tiers: Mapping[str, int]
    states: Mapping[str, int]
    sources: Mapping[str, int]
    vectors: Mapping[str, int]
    folders: tuple[Mapping[str, Any], ...]
    links: Mapping[str, Any]
    embedding: Mapping[str, Any]
    transactions: Mapping[str, int] = field(metadata=OF_ATTRIBUTES)
    size_bytes: int
    last_indexed: datetime | None


@dataclass(frozen=True, kw_only=True)
class HealthAnswer(Answer):
    healthy: bool
    problems: tuple[Mapping[str, Any], ...]  # check, message, hint
    checks: Mapping[str, str]  # name -> "ok" or what is wrong
    repaired: Mapping[str, int] = field(default_factory=dict)


# --- changing -----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class SaveAnswer(Answer):
    id: int | None
    path: str
    title: str
    spec_folder: str | None
    created: bool
    duplicate_of: int | None = None
    similar: tuple[Mapping[str, Any], ...] = ()  # id, title, path, score
    merged: int | None = None  # the memory that it took in
    redacted: Mapping[str, int] = field(default_factory=dict)  # kind -> count
    triggers: tuple[str, ...] = field(default=(), metadata=RENAMED)
    tier: Tier | None = field(default=None, metadata=RENAMED)
    context_type: ContextType | None = None
    alignment: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    dry_run: bool = False
    text: str | None = None  # with dryRun: what would be written
    vector_status: VectorStatus | None = None


@dataclass(frozen=True, kw_only=True)
class MergeAnswer(Answer):
    id: int  # the memory that stayed
    merged: int  # the one that it took in
    memory: Card
    trashed: str | None = None  # where the other one's file is, below the state folder


@dataclass(frozen=True, kw_only=True)
class ChatAnswer(Answer):
    imported: tuple[Mapping[str, Any], ...]  # id, title, path, turns, created
    unchanged: int = 0
    bad_lines: int = 0


@dataclass(frozen=True, kw_only=True)
class ImportAnswer(Answer):
    matched: int
    unmatched: tuple[str, ...] = ()  # paths of the original that are no memories here
    links: int = 0
    history: int = 0


@dataclass(frozen=True, kw_only=True)
class UpdateAnswer(Answer):
    memory: Card
    changed: tuple[str, ...] = field(metadata=OF_ATTRIBUTES)
    written_to: str  # "file" or "index"


@dataclass(frozen=True, kw_only=True)
class DeleteAnswer(Answer):
    deleted: tuple[int, ...]
    files: tuple[str, ...] = ()  # where deleted files went
    checkpoint: str | None = None


@dataclass(frozen=True, kw_only=True)
class ValidateAnswer(Answer):
    id: int
    confidence: float
    validation_count: int
    promotion_offered: bool = False
    promoted: bool = False
    outdated: bool = False
    state: State = State.WARM


@dataclass(frozen=True, kw_only=True)
class UndoAnswer(Answer):
    undone: str
    memory_ids: tuple[int, ...] = ()


# --- links, history, checkpoints ---------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LinkAnswer(Answer):
    link: Link
    created: bool = False


@dataclass(frozen=True, kw_only=True)
class WhyAnswer(Answer):
    memory: Card
    steps: tuple[Step, ...]
    memories: tuple[Card, ...]
    cycles: tuple[tuple[int, ...], ...] = ()
    truncated: bool = False


@dataclass(frozen=True, kw_only=True)
class HistoryAnswer(Answer):
    entries: tuple[HistoryEntry, ...] = field(metadata=OF_ATTRIBUTES)
    counts: Mapping[str, int]
    ledger: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CheckpointAnswer(Answer):
    name: str
    memories: int = 0
    size_bytes: int = 0
    pruned: tuple[str, ...] = ()
    restored: int = 0
    skipped: int = 0
    kept_newer: int = 0
    removed: int = 0
    links_restored: int = 0
    links_removed: int = 0
    files_written: tuple[str, ...] = ()
    files_refused: tuple[str, ...] = ()
    safety: str | None = None  # the checkpoint made before a restore


@dataclass(frozen=True, kw_only=True)
class CheckpointListAnswer(Answer):
    checkpoints: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class CheckpointDiffAnswer(Answer):
    name: str
    added: tuple[Mapping[str, Any], ...]
    removed: tuple[Mapping[str, Any], ...]
    changed: tuple[Mapping[str, Any], ...]
    links_added: tuple[Mapping[str, Any], ...] = ()  # sourceId, targetId, relation, strength, evidence
    links_removed: tuple[Mapping[str, Any], ...] = ()
    links_changed: tuple[Mapping[str, Any], ...] = ()  # with changed: strength, evidence, origin
    used: int = 0  # memories whose counts of use differ


@dataclass(frozen=True, kw_only=True)
class LedgerAnswer(Answer):
    ok: bool
    entries: int
    head: str
    broken_at: int | None = None


# --- triggers and sessions -------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TriggerAnswer(Answer):
    matches: tuple[Mapping[str, Any], ...]  # id, title, path, phrases, confidence, state, content?, via
    suggestions: tuple[Mapping[str, Any], ...] = ()  # kind (save|search|checkpoint), phrase
    loading: str | None = None
    session: Mapping[str, Any] = field(default_factory=dict)  # turn, workingMemory


@dataclass(frozen=True, kw_only=True)
class SessionAnswer(Answer):
    turn: int
    working_memory: tuple[Card, ...] = ()  # what it attends to most, strongest first


@dataclass(frozen=True, kw_only=True)
class ContextAnswer(Answer):
    text: str
    parts: tuple[Mapping[str, Any], ...]  # kind, id, title, lines, tokens
    loading: str = "ask"
    offers: tuple[Mapping[str, Any], ...] = ()  # [1] [2] [3] of a spec folder
