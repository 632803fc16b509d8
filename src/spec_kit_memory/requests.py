"""What can be asked of a workspace? One request per verb, one line per parameter.

The schemas of the tools, the options of the commands, the signatures of `Workspace`, the check of what is given and
the reference pages are made from these lines; nothing about a parameter is repeated elsewhere. `about` goes into every
conversation and is short; `help` is for people. Docstrings are the commands' help.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spec_kit_memory.core.memory import ContextType, Relation, Source, State, Tier
from spec_kit_memory.errors import NothingToSearch
from spec_kit_memory.parameters import (
    Request,
    also_parameter,
    budget_parameter,
    folder_parameter,
    id_parameter,
    limit_parameter,
    parameter,
    rows_budget_parameter,
    session_parameter,
)

QUERY_LENGTH, PATH_LENGTH, PROSE_LENGTH = 10_000, 500, 2_000
# A saved session becomes a document, so it may be as long as a file.
OBJECT_LENGTH = 1_000_000
LARGEST_COUNT = 2**31


def _is_session_field(name: str) -> bool:
    from spec_kit_memory.core.session_data import is_field  # imported here because only this tool needs it

    return is_field(name)


# --- find and read ----------------------------------------------------------------------


class SearchRequest(Request, verb="search", needs=("query", "concepts"), without=NothingToSearch):
    """Find memories by text and meaning, best first. Without arguments: an overview."""

    query: str | None = parameter(
        "text",
        default=None,
        kw_only=False,
        about="In natural language",
        length=QUERY_LENGTH,
        aliases=("prompt",),
    )
    concepts: Sequence[str] = parameter(
        "texts", default=(), about="2 to 5 terms that must all match", least=2, most=5, alone="query"
    )
    also: Sequence[str] = also_parameter()
    spec_folder: str | None = folder_parameter(default=None)
    tier: Tier | str | None = parameter(
        "text", default=None, choices=Tier, help="Only this importance", aliases=("importanceTier",), filters=True
    )
    context_type: ContextType | str | None = parameter(
        "text", default=None, choices=ContextType, help="Only this kind of content", aliases=("type",), filters=True
    )
    source: Source | str | None = parameter(
        "text", default="all", choices=Source, also=("all",), help="Only what came from there"
    )
    state_filter: State | str | None = parameter(
        "text", default=None, choices=State, about="Only this state", aliases=("state",), filters=True
    )
    min_state: State | str | None = parameter(
        "text", default=None, choices=State, about="This state or fresher", filters=True
    )
    include_archived: bool = parameter("boolean", default=False, help="Include memories in state ARCHIVED")
    limit: int = limit_parameter(default=10)
    max_results: int | None = parameter(
        "integer", default=None, least=1, most=20, about="Same as limit", same_as="limit"
    )
    min_score: float = parameter(
        "number", default=0.0, least=0, most=1, help="Leave out results with a lower score, as a share of the maximum"
    )
    group_by: str = parameter(
        "text",
        default="memory",
        choices=("memory", "passage"),
        help="Answer memories with their best passages, or a flat list of passages",
    )
    max_tokens: int | None = budget_parameter("Budget (4000)", default=None)
    anchors: Sequence[str] = parameter(
        "texts",
        default=(),
        about="Only these sections, e.g. decisions",
        most=50,
        aliases=("anchor", "anchorId"),
        divided=True,
    )
    include_content: bool = parameter("boolean", default=False, about="Whole texts")
    include_constitutional: bool = parameter("boolean", default=True, about="Rules on top")
    include_contiguity: bool = parameter("boolean", default=False, about="Neighbours in time")
    use_decay: bool = parameter("boolean", default=True, help="Let old memories rank lower")
    session_id: str | None = session_parameter("Texts it was sent before become references", default=None)
    dedup: bool = parameter("boolean", default=True, help="With a session: do not send the same text twice")
    fresh: bool = parameter("boolean", default=False, about="Only where the code it names is unchanged")
    as_of: str | None = parameter("text", default=None, about="Search the past: ISO date, time or checkpoint")
    explain: bool = parameter("boolean", default=False, about="Score parts")
    mode: str = parameter(
        "text", default="hybrid", choices=("hybrid", "text", "vector"), help="What to search by", reach="command"
    )

    @property
    def text(self) -> str:
        return self.query if self.query is not None else " ".join(self.concepts)

    @property
    def only_source(self) -> Source | None:
        return None if self.source in (None, "all") else Source(self.source)

    @property
    def asks_for_rules(self) -> bool:
        """Does the search itself ask for rules? Then they are results, and are not shown above."""
        return self.tier is not None or self.only_source is Source.CONSTITUTIONAL


class ContextRequest(Request, verb="context"):
    """What an agent should know when it starts: rules, matches, state and next steps."""

    prompt: str | None = parameter(
        "text",
        default=None,
        kw_only=False,
        about="The user's message",
        length=QUERY_LENGTH,
        aliases=("query", "message"),
    )
    also: Sequence[str] = also_parameter()
    spec_folder: str | None = folder_parameter(default=None)
    session_id: str | None = session_parameter(default=None)
    max_tokens: int = budget_parameter(default=1500)


class LoadRequest(Request, verb="load", needs=("spec_folder", "memory_id")):
    """Print one memory, or one section of it; of a spec folder the newest."""

    memory_id: int | None = id_parameter(default=None, kw_only=False, aliases=("id",))
    spec_folder: str | None = folder_parameter("Newest memory of this spec folder", default=None)
    anchor_id: str | None = parameter("text", default=None, about="Section, e.g. decisions", aliases=("anchor",))
    max_tokens: int = budget_parameter(default=10_000)


class GetRequest(Request, verb="get"):
    """Print exact lines of a memory: PATH 42-56, or PATH:42-56."""

    path: str = parameter(
        "path", kw_only=False, about="e.g. memory/decisions.md", length=PATH_LENGTH, aliases=("filePath",)
    )
    lines: str | None = parameter("text", default=None, kw_only=False, about="e.g. 42-56", length=64, joined="-")
    from_: int | None = parameter("integer", default=None, about="First line, with count", least=1, most=LARGEST_COUNT)
    count: int | None = parameter("integer", default=None, help="How many lines", least=1, most=LARGEST_COUNT)


class ListRequest(Request, verb="list"):
    """Browse memories, newest first."""

    spec_folder: str | None = folder_parameter("Exactly this spec folder", default=None)
    tier: Tier | str | None = parameter(
        "text", default=None, choices=Tier, help="Only this importance", aliases=("importanceTier",), filters=True
    )
    source: Source | str | None = parameter(
        "text", default="all", choices=Source, also=("all",), help="Only what came from there"
    )
    state_filter: State | str | None = parameter(
        "text", default=None, choices=State, about="Only this state", aliases=("state",), filters=True, reach="command"
    )
    unfiled: bool = parameter("boolean", default=False, about="Only what is outside of spec folders", reach="command")
    limit: int = limit_parameter(default=20)
    offset: int = parameter("integer", default=0, least=0, most=LARGEST_COUNT, help="How many to skip")
    sort_by: str = parameter(
        "text",
        default="created_at",
        choices=("created_at", "updated_at", "importance_weight"),
        help="Order, descending",
    )
    max_tokens: int = rows_budget_parameter()
    forgotten: bool = parameter(
        "boolean", default=False, help="Show memories that were deleted on request", reach="command"
    )

    @property
    def only_source(self) -> Source | None:
        return None if self.source in (None, "all") else Source(self.source)


# --- sessions ---------------------------------------------------------------------------


class TriggersRequest(Request, verb="triggers"):
    """Memories whose trigger phrases occur in a prompt. Without a prompt: all phrases."""

    prompt: str = parameter(
        "text",
        kw_only=False,
        about="The user's message",
        length=QUERY_LENGTH,
        blank=True,
        aliases=("query", "message"),
    )
    limit: int = limit_parameter(default=3, most=50)
    session_id: str | None = session_parameter("Adds attention and linked memories", default=None)
    turn_number: int | None = parameter(
        "integer",
        default=None,
        least=0,
        most=LARGEST_COUNT,
        help="The turn of the session; counted automatically if omitted",
        aliases=("turn",),
    )
    include_cognitive: bool = parameter(
        "boolean", default=True, help="With a session: attention, linked memories, content of the most attended"
    )


# --- keep and change ----------------------------------------------------------------------


class SaveRequest(Request, verb="save", needs=("file_path", "context", "text")):
    """Save a session from a JSON file or standard input (-), one fact (--text), or index a file that exists."""

    file_path: str | None = parameter(
        "path", default=None, about=".md, .txt or chat .jsonl", length=PATH_LENGTH, aliases=("path",)
    )
    context: Mapping[str, Any] | None = parameter(
        "object",
        default=None,
        about="sessionSummary, keyDecisions[], questions[] (up to 8 that this answers, as one would ask who forgot its "
        "words), filesModified[], triggerPhrases[], technicalContext{}, nextSteps[], blockers[], importanceTier, "
        "contextType, title, links{}, sessionId; or userPrompts[], observations[], recentContext[]",
        length=OBJECT_LENGTH,
        plain="sessionSummary",
        fields=_is_session_field,
    )
    text: str | None = parameter(
        "text", default=None, help="Remember this one fact", length=OBJECT_LENGTH, reach="command"
    )
    spec_folder: str | None = folder_parameter("Where to save; detected if left out", default=None)
    create: bool = parameter("boolean", default=False, about="Make that spec folder if it is new")
    force: bool = parameter("boolean", default=False, about="Index again though unchanged")
    dry_run: bool = parameter("boolean", default=False, about="Only show")
    vault: str = parameter(
        "text",
        default="project",
        choices=("project", "personal"),
        about="personal: about the person (preferences, habits), for every project",
    )
    on_similar: str = parameter(
        "text",
        default="warn",
        choices=("warn", "merge", "distinct"),
        help="What to do when a near-duplicate exists: warn, merge into it, or keep both without a warning",
    )
    by_person: bool = parameter("boolean", default=False, help="A person asks, not an agent", reach="python")


class UpdateRequest(
    Request,
    verb="update",
    needs=(
        "title",
        "trigger_phrases",
        "add_trigger_phrases",
        "remove_trigger_phrases",
        "importance_weight",
        "importance_tier",
        "context_type",
    ),
):
    """Correct a memory's metadata; written to its file's front matter."""

    id: int = id_parameter(kw_only=False, aliases=("memoryId",))
    title: str | None = parameter("text", default=None, help="The new title", length=PATH_LENGTH)
    trigger_phrases: Sequence[str] | None = parameter(
        "texts",
        default=None,
        about="Replaces all",
        help="The new phrases, which replace all existing ones",
        most=100,
        aliases=("triggers", "trigger"),
        divided=True,
    )
    add_trigger_phrases: Sequence[str] | None = parameter(
        "texts",
        default=None,
        help="Phrases to add",
        most=100,
        aliases=("addTriggers", "addTrigger"),
        divided=True,
    )
    remove_trigger_phrases: Sequence[str] | None = parameter(
        "texts",
        default=None,
        help="Phrases to remove",
        most=100,
        aliases=("removeTriggers", "removeTrigger"),
        divided=True,
    )
    importance_weight: float | None = parameter(
        "number", default=None, least=0, most=1, help="The new weight", aliases=("weight",)
    )
    importance_tier: Tier | str | None = parameter(
        "text", default=None, choices=Tier, help="The new tier", aliases=("tier",)
    )
    context_type: ContextType | str | None = parameter(
        "text", default=None, choices=ContextType, help="The new kind of content", aliases=("type",)
    )
    confirm: bool = parameter("boolean", default=False, about="A person agreed; needed for constitutional")


class MergeRequest(Request, verb="merge"):
    """Join two memories: INTO stays and takes in what only ID says."""

    id: int = id_parameter("Memory id", kw_only=False, aliases=("memoryId",), reach="command")
    into: int = id_parameter("The memory that stays", kw_only=False, reach="command")


class DeleteRequest(Request, verb="delete", needs=("id", "spec_folder")):
    """Forget one memory, or all of a spec folder. Files stay."""

    id: int | None = id_parameter(default=None, kw_only=False, aliases=("memoryId",))
    spec_folder: str | None = folder_parameter(default=None)
    confirm: bool = parameter("boolean", default=False, about="Needed with specFolder")
    delete_file: bool = parameter("boolean", default=False, about="Also move the file to trash")


class ValidateRequest(Request, verb="validate", needs=("was_useful", "outdated", "promote")):
    """Say whether a memory was useful, is outdated, or deserves to be critical."""

    id: int = id_parameter(kw_only=False, aliases=("memoryId",))
    was_useful: bool | None = parameter("boolean", default=None, help="It helped, or it did not", aliases=("useful",))
    outdated: bool | None = parameter("boolean", default=None, about="No longer true: archive it")
    promote: bool | None = parameter("boolean", default=None, about="Make critical, when offered")


class TrustRequest(Request, verb="trust"):
    """Vouch for a memory from chat or outside, so that it may carry triggers and rules."""

    target: int | str = parameter("reference", kw_only=False, help="The memory's id or path", reach="command")
    trusted: bool = parameter("boolean", default=True, help="Vouch for it", reach="command", off="--revoke")


class SessionRequest(Request, verb="session", command=""):
    """What a session attends to most. `anew`: nothing counts as sent to its model yet."""

    session_id: str = parameter("text", kw_only=False, about="Your session")
    anew: bool = parameter("boolean", default=False, help="Send again what was sent before")
    event: str | None = parameter(
        "text", default=None, help="What happened in the host: of several hooks that run at it, the first is to speak"
    )
    apart: int = parameter("integer", default=60, least=1, help="Seconds within which the same event counts as one")


class UndoRequest(Request, verb="undo"):
    """Take back the last delete, update, merge or restore."""

    operation: str | None = parameter(
        "text", default=None, help="Undo exactly this change, unless a later one builds on it", reach="python"
    )


# --- links ----------------------------------------------------------------------------------


class LinkRequest(Request, verb="link"):
    """Record how one memory led to, replaces or bears on another."""

    source_id: int = id_parameter("From", kw_only=False, aliases=("source", "from"))
    target_id: int = id_parameter("To", kw_only=False, aliases=("target", "to"))
    relation: Relation | str = parameter("text", kw_only=False, choices=Relation, help="How the two are related")
    strength: float | None = parameter(
        "number", default=None, least=0, most=1, help="How strongly: 1 for a new link, else as it is"
    )
    evidence: str | None = parameter("text", default=None, about="Why", length=PROSE_LENGTH)


class UnlinkRequest(Request, verb="unlink"):
    """Remove a link."""

    link_id: int = id_parameter("Link id", kw_only=False, aliases=("id",))


class WhyRequest(Request, verb="why"):
    """Why is it so? The chain of causes and consequences around a memory."""

    memory_id: int = id_parameter(kw_only=False, aliases=("id",))
    max_depth: int = parameter("integer", default=3, least=1, most=10, help="How many links away", aliases=("depth",))
    direction: str = parameter(
        "text",
        default="both",
        choices=("forward", "backward", "both"),
        help="Towards consequences, towards causes, or both",
    )
    relations: Sequence[Relation | str] | None = parameter(
        "texts", default=None, about="Only these", choices=Relation, most=6, aliases=("relation",)
    )
    max_tokens: int = rows_budget_parameter()


# --- checkpoints ----------------------------------------------------------------------------


class CheckpointCreateRequest(Request, verb="checkpoint_create"):
    """Snapshot memories before risky changes."""

    name: str = parameter("text", kw_only=False, about="Checkpoint name", completes="checkpoints")
    spec_folder: str | None = folder_parameter("Only this spec folder", default=None)
    description: str | None = parameter("text", default=None, help="What the snapshot is for", length=PROSE_LENGTH)
    metadata: Mapping[str, Any] | None = parameter(
        "object", default=None, help="Anything to keep with it", length=QUERY_LENGTH, plain="note"
    )


class CheckpointListRequest(Request, verb="checkpoint_list"):
    """Snapshots, newest first."""

    spec_folder: str | None = folder_parameter(default=None)
    limit: int = limit_parameter(default=50)


class CheckpointDiffRequest(Request, verb="checkpoint_diff"):
    """What changed since a checkpoint."""

    name: str = parameter("text", kw_only=False, help="Checkpoint name", completes="checkpoints", reach="command")


class CheckpointRestoreRequest(Request, verb="checkpoint_restore"):
    """Bring a snapshot back; the present is snapshotted first."""

    name: str = parameter("text", kw_only=False, about="Checkpoint name", completes="checkpoints")
    clear_existing: bool = parameter(
        "boolean", default=False, about="Also take back what is newer, and drop what the snapshot lacks"
    )
    restore_files: bool = parameter("boolean", default=False, about="Write files back too")


class CheckpointDeleteRequest(Request, verb="checkpoint_delete"):
    """Delete a snapshot."""

    name: str = parameter("text", kw_only=False, about="Checkpoint name", completes="checkpoints")


# --- record ---------------------------------------------------------------------------------


class HistoryRequest(Request, verb="history"):
    """What changed, when and by whom; without an id also checks the ledger."""

    id: int | None = id_parameter(default=None, kw_only=False, aliases=("memoryId",))
    spec_folder: str | None = folder_parameter(default=None)
    limit: int = limit_parameter(default=50, most=1000)
    max_tokens: int = rows_budget_parameter()
    titles: bool = parameter("boolean", default=False, help="Also how each memory is called now", reach="python")
    latest: bool = parameter(
        "boolean", default=False, help="Only the last ones: nothing is counted or verified", reach="python"
    )


class LedgerVerifyRequest(Request, verb="ledger_verify"):
    """Check every link of the chain and name the first broken one."""

    head: str | None = parameter(
        "text", default=None, help="A line of the ledger head: finds a cut or rewritten ledger", reach="command"
    )


class LedgerHeadRequest(Request, verb="ledger_head"):
    """Print one line to keep in git."""


class LedgerExportRequest(Request, verb="ledger_export"):
    """Write the ledger as JSON lines that another program can verify."""


# --- chat and import ------------------------------------------------------------------------


class ChatImportRequest(Request, verb="chat_import"):
    """Remember conversations from transcripts."""

    paths: Sequence[str | os.PathLike[str]] = parameter(
        "paths", default=(), kw_only=False, help="Files or folders", reach="command"
    )


class ChatListRequest(Request, verb="chat_list"):
    """Conversations that are remembered."""


class ChatForgetRequest(Request, verb="chat_forget"):
    """Forget one conversation."""

    conversation: str = parameter(
        "text", kw_only=False, help="The conversation's id", length=PATH_LENGTH, aliases=("id",), reach="command"
    )


class ImportOriginalRequest(Request, verb="import_original", command="import"):
    """Take validations, counts, links and history over from the original system's database."""

    path: str | os.PathLike[str] = parameter(
        "path", kw_only=False, help="The original's database", length=10 * PATH_LENGTH, reach="command"
    )


# --- look after -----------------------------------------------------------------------------


class StatsRequest(Request, verb="stats"):
    """Numbers per tier, state, source and folder."""

    folder_ranking: str = parameter(
        "text",
        default="count",
        choices=("count", "recency", "importance", "composite"),
        help="How spec folders are ordered",
    )
    limit: int = limit_parameter(default=10)


class HealthRequest(Request, verb="health"):
    """Is the index sound and in step with the files? Repairs on request."""

    repair: bool = parameter("boolean", default=False, help="Repair what can be repaired from the files")
    full: bool = parameter(
        "boolean", default=False, help="Check all of a large index, however long that takes", reach="command"
    )


class IndexRequest(Request, verb="index"):
    """Index new and changed files."""

    spec_folder: str | None = folder_parameter("Spec folders that start so", default=None)
    force: bool = parameter("boolean", default=False, about="Also unchanged files")
    rebuild: bool = parameter(
        "boolean",
        default=False,
        help="Make a new index of what is recorded and of all files; keep the old one aside",
        reach="command",
    )
    copy_to: str | None = parameter(
        "text",
        default=None,
        help="Copy the index, once it is up to date, to this empty target: postgresql://HOST/DATABASE, or sqlite",
        reach="command",
    )
    embed: bool = parameter(
        "boolean",
        default=True,
        help="Compute the vectors now; otherwise a later run or a server does",
        reach="command",
        off="--text-only",
    )
    cooldown: bool = parameter("boolean", default=False, help="At most once a minute", reach="python")
    progress: Callable[[str, int, int], None] | None = parameter("function", default=None, reach="python")
    cancelled: Callable[[], bool] | None = parameter("function", default=None, reach="python")


# --- for a person who judges ---------------------------------------------------------------


class ExamineRequest(Request, verb="examine", command=""):
    """One memory with all that is known of it, for a person who judges it."""

    id: int = id_parameter(kw_only=False, aliases=("memoryId",))
    similar: bool = parameter("boolean", default=False, help="Also those that say nearly the same")


class VersionsRequest(Request, verb="versions", command=""):
    """The versions of a memory, and two of them compared; the last two texts where none is named."""

    id: int = id_parameter(kw_only=False, aliases=("memoryId",))
    older: int | None = parameter("integer", default=None, least=0, most=LARGEST_COUNT, help="Compare from this one")
    newer: int | None = parameter("integer", default=None, least=1, most=LARGEST_COUNT, help="Compare up to this one")


class CareRequest(Request, verb="care", command=""):
    """What needs a decision: near-duplicates, what nobody used, what nobody vouched for, what failed."""

    kind: str | None = parameter(
        "text",
        default=None,
        choices=("duplicates", "unvouched", "stale", "trigger", "expired", "unused", "vectors", "file", "health"),
        help="Only this kind",
    )
    set_aside: bool = parameter("boolean", default=False, help="Those that a person decided to leave as they are")
    seconds: float | None = parameter(
        "number", default=None, least=0, most=600, help="Seconds to compare; a later call continues from there"
    )
    health: bool = parameter("boolean", default=True, help="Also check the index, which takes a while")
    limit: int = limit_parameter(default=100, most=1000)


class KeepRequest(Request, verb="keep", command=""):
    """Set aside a finding of `care`; it is listed again when its text changes."""

    key: str = parameter("text", kw_only=False, length=PATH_LENGTH, help="The key that `care` returned")
    kept: bool = parameter("boolean", default=True, help="False: list it again")


class ChangesRequest(Request, verb="changes", command=""):
    """The changes that `undo` can take back, newest first."""

    memory_id: int | None = id_parameter(default=None, kw_only=False, aliases=("id",))
    limit: int = limit_parameter(default=20)


class FacetsRequest(Request, verb="facets", command=""):
    """Count what a search finds by tier, state, source, type and folder, for filters to choose from."""

    query: str = parameter("text", kw_only=False, length=QUERY_LENGTH, help="As for a search")
    also: Sequence[str] = also_parameter()
    spec_folder: str | None = folder_parameter(default=None)
    tier: Tier | str | None = parameter("text", default=None, choices=Tier, help="Only this importance")
    context_type: ContextType | str | None = parameter(
        "text", default=None, choices=ContextType, help="Only this kind of content"
    )
    source: Source | str | None = parameter(
        "text", default="all", choices=Source, also=("all",), help="Only what came from there"
    )
    state_filter: State | str | None = parameter("text", default=None, choices=State, help="Only this state")
    min_state: State | str | None = parameter("text", default=None, choices=State, help="As for a search")
    include_archived: bool = parameter("boolean", default=False, help="Include memories in state ARCHIVED")


class RecordSentRequest(Request, verb="record_sent", command=""):
    """Count an answer that was sent to a session, for statistics of token use."""

    answered: str = parameter("text", kw_only=False, help="The verb that was answered")
    tokens: int = parameter("integer", kw_only=False, least=0, most=LARGEST_COUNT, help="How long the answer was")


class FoldersRequest(Request, verb="folders", command=""):
    """Spec folders, and what is in one of them."""

    name: str | None = folder_parameter("This one in detail", default=None)
    limit: int = limit_parameter(default=100, most=1000)


class NumbersRequest(Request, verb="numbers", command=""):
    """Memories and tokens by what they are, how they fade, and how they were used day by day."""

    days: int = parameter("integer", default=60, least=1, most=366, help="How many days back")


BY_COMMAND: Mapping[str, type[Request]] = {kind.command: kind for kind in Request.__subclasses__() if kind.command}
