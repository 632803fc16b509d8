"""What does each verb of a workspace answer?

Frozen dataclasses. `serve.render` turns any of them into the envelope
{summary, data, hints, meta}: the fields of the subclass become `data`, in camelCase,
with None and empty optional fields left out, and those named in `omitted`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from datetime import datetime
from typing import Any, cast

from spec_kit_memory.advice import Advice, Text
from spec_kit_memory.core.citations import Code
from spec_kit_memory.core.lean_dataclass import dataclass
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
from spec_kit_memory.core.wording import camel

# Metadata of fields. RENAMED: the field is sent under the name that parameters have, such as importanceTier, and for
# one version also under its old name. OF_ATTRIBUTES: attribute names inside the value are replaced by public names.
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
    outcome: Text  # what was done or found, as a code with values
    advice: tuple[Text, ...] = ()  # the next steps, as codes with values
    meta: Meta = field(default_factory=Meta)

    @property
    def summary(self) -> str:
        """The outcome in words; `serve.messages` has them."""
        return str(self.outcome)

    @property
    def hints(self) -> tuple[str, ...]:
        """The advice worded for Python callers; `serve.messages` words it for models and people."""
        return tuple(map(str, self.advice))


class Row(Mapping[str, Any]):
    """A row of an answer. In 0.1 rows were mappings with JSON names as keys; they can still be read that way."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        return self._as_json()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._as_json())

    def _as_json(self) -> dict[str, Any]:
        every = fields(cast(Any, self))
        return {
            camel(declared.name): str(content) if isinstance(content, Advice) else content
            for declared in every
            if (content := getattr(self, declared.name)) is not declared.default
        }

    def __len__(self) -> int:
        return len(self._as_json())


@dataclass(frozen=True, slots=True, kw_only=True)
class GitStatus:
    """On a team server: how far the last change of a memory has come on its way into git."""

    stage: str = ""  # accepted, in git, or failed
    branch: str | None = None
    commit: str | None = None
    reason: str | None = None  # why it is not in git


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A memory as a list shows it. `tokens` are those of its text alone: reading it also costs its front matter and the
    frame of the answer."""

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
    checkout: str | None = None  # "main": in a worktree, a memory of the main checkout
    vault: str | None = None  # "personal": from the user's own vault and no project
    code: Code | None = None  # in list: files that it names and that have changed since
    git: GitStatus | None = None  # in list and load, on a team server, for a memory that was changed there
    problems: tuple[Text, ...] = ()  # in list and load: why search leaves it out, dangling links, missing vectors


# --- search -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreParts(Row):
    """What the score of a result is made of, in points; empty unless `explain` was asked for."""

    relevance: float | None = None
    tier: float | None = None
    recency: float | None = None
    keywords: float | None = None
    usage: float | None = None
    limit: float | None = None  # points lost to the maximum of 100
    score: float | None = None
    stages: Mapping[str, float] | None = None  # of relevance: by text, by vector
    texts: tuple[float, ...] | None = None  # relevance to each text of the question: the query first, then `also`


NO_SCORE_PARTS = ScoreParts()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Explanation(Row):
    """How a search was computed; empty unless `explain` was asked for."""

    fusion: str | None = None
    scale: float | None = None  # the factor applied to the formula's score
    candidates: Mapping[str, int] | None = None
    weights: Mapping[str, float] | None = None
    terms: tuple[str, ...] | None = None
    keywords: tuple[str, ...] | None = None


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
    title: str  # without a bracketed end that only repeats the path
    path: str
    lines: str  # of the best passage
    text: str  # of the best passage; "" if it was already sent or did not fit
    score: float  # 0 to 100; for the best result it is 100 · match
    match: float | None = None  # 0 to 1: how well it answers, regardless of other results; None if unknown
    source: Source
    spec_folder: str | None
    tier: Tier
    state: State
    context_type: ContextType
    created_at: datetime | None
    checkout: str | None = None  # "main": in a worktree, a memory of the main checkout; its path says where
    vault: str | None = None  # "personal": from the user's own vault and no project
    project: str | None = None  # on a team server, in a search over several projects
    code: Code | None = None  # files that it names and that were changed, removed or moved since it was written
    question: str | None = None  # the memory's own question, if that matched best; the lines shown answer it
    passages: tuple[ShownPassage, ...] = ()
    sections: Mapping[str, str] = field(default_factory=dict)  # anchor id -> text, with `anchors`
    missing_anchors: tuple[str, ...] = ()
    content: str | None = None  # with includeContent
    already_sent: bool = False  # everything that matched was already sent to this session
    sent_before: tuple[str, ...] = ()  # matching lines already sent to this session; the lines shown are new to it
    trusted: bool = True
    superseded_by: tuple[int, ...] = ()
    supersedes: tuple[int, ...] = ()  # other results, above which it is therefore listed, whatever its score
    contradicts: tuple[int, ...] = ()
    concepts: Mapping[str, int] = field(default_factory=dict)  # how often each occurs in it; 0: matched by meaning
    before: int | None = None  # with includeContiguity: the memories saved just before and just after
    after: int | None = None
    explain: ScoreParts = field(default_factory=lambda: NO_SCORE_PARTS)
    omitted: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatResult:
    """One passage that a search found (groupBy "passage")."""

    path: str
    lines: str
    text: str
    score: float  # 0 to 1; no other score has this scale
    match: float | None = None
    source: Source
    id: int
    title: str
    superseded_by: tuple[int, ...] = ()
    supersedes: tuple[int, ...] = ()
    checkout: str | None = None
    vault: str | None = None
    project: str | None = None
    code: Code | None = None
    question: str | None = None
    already_sent: bool | None = None  # true: its text was already sent to this session
    before: int | None = None
    after: int | None = None
    explain: ScoreParts = field(default_factory=lambda: NO_SCORE_PARTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A constitutional memory above the results; `text` is "" where only its title was offered."""

    id: int
    title: str
    path: str
    text: str
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldMatch(Row):
    id: int
    title: str
    reason: str  # archived | dormant | expired | minScore
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """Matches that a filter kept out, and the best three of them."""

    archived: int = 0
    dormant: int = 0
    expired: int = 0
    min_score: int = 0
    stale: int = 0  # with fresh: code that they name was changed or removed
    best: tuple[HeldMatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NamedMemory(Row):
    id: int
    title: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConceptMatches(Row):
    """How many memories match one of several concepts, and the best of them; None where there is no room for those."""

    memories: int
    best: tuple[NamedMemory, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Freshness(Row):
    """How far the index is; empty in an answer about several projects."""

    last_indexed: datetime | None = None
    pending_vectors: int | None = None


@dataclass(frozen=True, kw_only=True)
class SearchAnswer(Answer):
    """What a search found. Below a maxTokens of 2,000 all but `results` comes after the texts, if there is room."""

    query: str
    method: str  # hybrid | text | vector
    results: tuple[Result | FlatResult, ...]
    constitutional: tuple[Rule, ...] = ()
    total_found: int = 0
    concepts: Mapping[str, ConceptMatches] = field(default_factory=dict)  # by concept, if no memory has all of them
    held_back: HeldBack = field(default_factory=HeldBack)
    unavailable: tuple[Text, ...] = ()  # what could not be used, and why
    stats: Mapping[str, int] = field(default_factory=dict)  # totalFiles, totalChunks
    freshness: Freshness = field(default_factory=Freshness)
    tokens_saved: int = 0
    contiguous: tuple[Card, ...] = ()
    explain: Explanation = field(default_factory=Explanation)
    omitted: frozenset[str] = frozenset()


# --- reading ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LoadAnswer(Answer):
    memory: Card
    text: str
    lines: str
    anchor_id: str | None = None
    tokens_saved: int = 0
    next_line: int | None = None  # where to continue reading
    code: Code | None = None  # files that it names and that were changed, removed or moved since it was written


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnreadFile(Row):
    path: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileWarning(Row):
    path: str
    line: int | None
    message: Text


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SkippedFiles(Row):
    reason: Text
    count: int
    paths: tuple[str, ...]  # the first three


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RebuiltTable(Row):
    """What a rebuild took over of one table that cannot be made from files."""

    table: str
    read: int
    restored: int  # recreated from other records
    lost: int  # known to be missing
    complete: bool  # false: more rows may be missing


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RebuiltIndex(Row):
    """What came of a rebuild; empty where there was none."""

    kept: str | None = None  # where the old index is kept
    tables: tuple[RebuiltTable, ...] | None = None


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
    bad: tuple[UnreadFile, ...] = ()
    warnings: tuple[FileWarning, ...] = ()
    undiscovered: int = 0  # markdown files that no discovery rule covers
    skipped: tuple[SkippedFiles, ...] = ()
    archived: int = 0  # files in archive folders: indexed, but held back from search
    vectors: Mapping[str, int] = field(default_factory=dict)  # per status
    vector_failures: Mapping[str, int] = field(default_factory=dict)  # reason -> passages
    vector_problem: Text = ""  # why nothing can be embedded now
    rebuilt: RebuiltIndex = field(default_factory=RebuiltIndex)
    copied: Mapping[str, int] = field(default_factory=dict)  # after a copy: rows per table
    seconds_text: float = 0.0
    seconds_vectors: float = 0.0


@dataclass(frozen=True, kw_only=True)
class WatchAnswer(Answer):
    """One thing that happened while the files are watched."""

    kind: str  # watching | waiting | files | vectors | problem
    at: datetime
    indexed: int = 0  # files
    deleted: int = 0
    bad: tuple[UnreadFile, ...] = ()
    embedded: int = 0  # passages
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FolderStats(Row):
    name: str
    count: int
    newest: datetime
    recency: float
    importance: float
    composite: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkStats(Row):
    total: int
    relations: Mapping[str, int]
    linked: int  # memories with a link
    coverage: float  # the share of all memories that these are, 0 to 1
    average_strength: float
    orphans: int  # links of which one memory no longer exists


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmbeddingStats(Row):
    provider: str
    model: str | None
    dimensions: int | None
    problem: Text | None  # why nothing can be embedded now
    failures: Mapping[str, int]  # reason -> passages


@dataclass(frozen=True, kw_only=True)
class StatsAnswer(Answer):
    totals: Mapping[str, int]
    tiers: Mapping[str, int]
    states: Mapping[str, int]
    sources: Mapping[str, int]
    vectors: Mapping[str, int]
    folders: tuple[FolderStats, ...]
    links: LinkStats
    embedding: EmbeddingStats
    transactions: Mapping[str, int] = field(metadata=OF_ATTRIBUTES)
    size_bytes: int
    last_indexed: datetime | None
    git: Mapping[str, int] = field(default_factory=dict)  # on a team server: changes by their stage on the way into git


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem(Row):
    check: str
    message: Text
    hint: Text
    notice: bool = False  # worth knowing, and not counted as a problem


@dataclass(frozen=True, kw_only=True)
class HealthAnswer(Answer):
    healthy: bool
    problems: tuple[Problem, ...]
    checks: Mapping[str, Text]  # name -> "ok" or what is wrong
    repaired: Mapping[str, int] = field(default_factory=dict)


# --- changing -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimilarMemory(Row):
    id: int
    title: str
    path: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FolderScore(Row):
    """How well a spec folder fits what was saved, 0 to 100."""

    name: str
    score: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FolderAlignment(Row):
    """Which spec folder was chosen for a save, and what else came into question."""

    folder: str | None
    score: float
    alternatives: tuple[FolderScore, ...]


@dataclass(frozen=True, kw_only=True)
class SaveAnswer(Answer):
    id: int | None
    path: str
    title: str
    spec_folder: str | None
    created: bool
    duplicate_of: int | None = None
    similar: tuple[SimilarMemory, ...] = ()
    merged: int | None = None  # the memory that was merged into it
    redacted: Mapping[str, int] = field(default_factory=dict)  # kind -> count
    triggers: tuple[str, ...] = field(default=(), metadata=RENAMED)
    tier: Tier | None = field(default=None, metadata=RENAMED)
    context_type: ContextType | None = None
    alignment: FolderAlignment | None = None  # if the folder was chosen by its score
    warnings: tuple[Text, ...] = ()
    dry_run: bool = False
    text: str | None = None  # with dryRun: what would be written
    vector_status: VectorStatus | None = None


@dataclass(frozen=True, kw_only=True)
class MergeAnswer(Answer):
    id: int  # the memory that was kept
    merged: int  # the memory that was merged into it
    memory: Card
    trashed: str | None = None  # where the merged memory's file is, below the state folder


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImportedChat(Row):
    id: int
    title: str
    path: str
    turns: int
    created: bool


@dataclass(frozen=True, kw_only=True)
class ChatAnswer(Answer):
    imported: tuple[ImportedChat, ...]
    unchanged: int = 0
    bad_lines: int = 0


@dataclass(frozen=True, kw_only=True)
class ImportAnswer(Answer):
    matched: int
    unmatched: tuple[str, ...] = ()  # paths in the original database for which there is no memory here
    links: int = 0
    history: int = 0


@dataclass(frozen=True, kw_only=True)
class UpdateAnswer(Answer):
    memory: Card
    changed: tuple[str, ...] = field(metadata=OF_ATTRIBUTES)
    written_to: str  # "file", "index", or "nothing" if nothing changed


@dataclass(frozen=True, kw_only=True)
class DeleteAnswer(Answer):
    deleted: tuple[int, ...]
    files: tuple[str, ...] = ()  # where deleted files were moved to
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """An operation that `undo` can take back."""

    operation: str
    kind: str
    memory_ids: tuple[int, ...]
    title: str
    at: datetime
    actor: str
    user: str = ""  # who it was, where callers sign in


@dataclass(frozen=True, kw_only=True)
class ChangesAnswer(Answer):
    changes: tuple[ChangeRow, ...]


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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LedgerState(Row):
    """What a check of the whole ledger found; empty where it was not checked."""

    ok: bool | None = None
    entries: int | None = None
    head: str | None = None
    broken_at: int | None = None


@dataclass(frozen=True, kw_only=True)
class HistoryAnswer(Answer):
    entries: tuple[HistoryEntry, ...] = field(metadata=OF_ATTRIBUTES)
    counts: Mapping[str, int]
    ledger: LedgerState = field(default_factory=LedgerState)
    titles: Mapping[int, str] = field(default_factory=dict)  # current titles by memory id, if requested


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
    files_trashed: tuple[str, ...] = ()  # where restored memories were before: those files are in the trash
    files_refused: tuple[str, ...] = ()
    safety: str | None = None  # the checkpoint made before a restore


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointRow(Row):
    name: str
    spec_folder: str | None
    memories: int
    size_bytes: int
    created_at: str | datetime
    description: str
    automatic: bool
    git_branch: str | None
    metadata: Mapping[str, Any]  # as passed when it was created
    problem: str | None = None  # why it cannot be restored


@dataclass(frozen=True, kw_only=True)
class CheckpointListAnswer(Answer):
    checkpoints: tuple[CheckpointRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MemoryDifference(Row):
    id: int
    title: str
    path: str
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkDifference(Row):
    source_id: int
    target_id: int
    relation: str
    strength: float
    evidence: str
    changed: tuple[str, ...] = ()  # strength, evidence, origin


@dataclass(frozen=True, kw_only=True)
class CheckpointDiffAnswer(Answer):
    name: str
    added: tuple[MemoryDifference, ...]
    removed: tuple[MemoryDifference, ...]
    changed: tuple[MemoryDifference, ...]
    links_added: tuple[LinkDifference, ...] = ()
    links_removed: tuple[LinkDifference, ...] = ()
    links_changed: tuple[LinkDifference, ...] = ()
    used: int = 0  # memories whose access counts differ


@dataclass(frozen=True, kw_only=True)
class LedgerAnswer(Answer):
    ok: bool
    entries: int
    head: str
    broken_at: int | None = None


# --- triggers and sessions -------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TriggeredMemory(Row):
    id: int
    title: str
    path: str
    spec_folder: str | None
    tier: Tier
    phrases: tuple[str, ...] = ()
    confidence: float | None = None
    vault: str | None = None  # "personal"
    via: str | None = None  # no phrase of its own occurs: "link" to a match, or a document of the same "folder"
    # In a session: its state by attention and, depending on that, its text or summary unless already sent.
    state: State | None = None
    content: str | None = None
    summary: str | None = None
    already_sent: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Suggestion(Row):
    kind: str  # save | search | checkpoint
    phrase: Text  # the phrase in the prompt, or another reason for the suggestion


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttendedMemory(Row):
    id: int
    title: str
    attention: float  # 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SessionTurn(Row):
    """A session after this prompt; empty where the call names none."""

    id: str | None = None
    turn: int | None = None
    loading: str | None = None
    working_memory: tuple[AttendedMemory, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class TriggerAnswer(Answer):
    matches: tuple[TriggeredMemory, ...]
    suggestions: tuple[Suggestion, ...] = ()
    loading: str | None = None
    session: SessionTurn = field(default_factory=SessionTurn)


@dataclass(frozen=True, kw_only=True)
class SessionAnswer(Answer):
    turn: int
    working_memory: tuple[Card, ...] = ()  # the memories with most attention, strongest first
    first: bool = True  # no other call for the same event was made a moment ago


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContextPart(Row):
    kind: str
    id: int
    title: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Offer(Row):
    """A memory of a spec folder to choose, all of them, or none."""

    choice: str  # [1] [2] [3] [all] [skip]
    id: int | None = None
    title: str | None = None
    path: str | None = None
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ContextAnswer(Answer):
    text: str
    parts: tuple[ContextPart, ...]
    loading: str = "ask"
    offers: tuple[Offer, ...] = ()
