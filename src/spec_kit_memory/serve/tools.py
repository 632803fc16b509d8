"""Which tools are there, and what do they take?

One table. The MCP schemas, the commands of `skm`, the check of arguments and the
reference pages are all made from it. JSON names are camelCase, Python's snake_case,
the command line's kebab-case. `verb` is the method of Workspace that a tool calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from spec_kit_memory.core.memory import ContextType, Relation, Source, State, Tier

__all__ = ["BY_COMMAND", "BY_NAME", "OUTPUT_SCHEMA", "TOOLS", "Parameter", "Tool", "behaviour", "input_schema"]

QUERY_LENGTH, PATH_LENGTH, NAME_LENGTH, PROSE_LENGTH = 10_000, 500, 200, 2_000
# A saved session is a document: what a file may have at most.
OBJECT_LENGTH = 1_000_000

Kind = Literal["text", "integer", "number", "boolean", "texts", "object"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `default` None means that leaving it out says nothing."""

    name: str
    kind: Kind
    about: str = ""
    default: Any = None
    required: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None  # of a number; of a list its length
    length: int = NAME_LENGTH
    alias: str = ""  # this one is only another name for that one
    flags: tuple[str, ...] = ()  # more names on the command line

    @property
    def argument(self) -> str:
        """Its name as a keyword argument of the verb."""
        name = snake(self.alias or self.name)
        return "from_" if name == "from" else name

    @property
    def flag(self) -> str:
        return "--" + snake(self.name).replace("_", "-")


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    verb: str
    command: str  # "search", or "checkpoint create"
    about: str
    parameters: tuple[Parameter, ...] = ()
    positional: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()  # at least one of these
    lean: bool = False
    reads: bool = False
    destroys: bool = False
    idempotent: bool = True

    def parameter(self, name: str) -> Parameter:
        return next(each for each in self.parameters if each.name == name)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _values(kind: type[Tier | State | ContextType | Source | Relation]) -> tuple[str, ...]:
    return tuple(each.value for each in kind)


# --- parameters that several tools share ---------------------------------------------


def _id(about: str = "Memory id", *, name: str = "id", required: bool = True) -> Parameter:
    return Parameter(name, "integer", about, required=required, minimum=1, maximum=2**53)


def _folder(about: str = "Spec folder, e.g. 007-auth", *, flags: tuple[str, ...] = ("--folder",)) -> Parameter:
    return Parameter("specFolder", "text", about, flags=flags)


def _session(about: str = "Your session") -> Parameter:
    return Parameter("sessionId", "text", about)


def _flag(name: str, about: str = "", *, default: bool = False) -> Parameter:
    return Parameter(name, "boolean", about, default=default)


def _limit(default: int, maximum: int = 100, about: str = "") -> Parameter:
    return Parameter("limit", "integer", about, default=default, minimum=1, maximum=maximum)


_TIER = Parameter("tier", "text", choices=_values(Tier))
_SOURCE = Parameter("source", "text", default="all", choices=("all", *_values(Source)))
_TYPE = Parameter("contextType", "text", choices=_values(ContextType), flags=("--type",))
_NAME = Parameter("name", "text", "Checkpoint name", required=True)


TOOLS: tuple[Tool, ...] = (
    Tool(
        "memory_search",
        "search",
        "search",
        "Recall step: call before answering about prior work, decisions, dates, people or preferences. "
        "Finds memories by text and meaning, with lines to cite. Needs query or concepts.",
        (
            Parameter("query", "text", "In natural language", length=QUERY_LENGTH),
            Parameter("concepts", "texts", "2 to 5 terms that must all match", minimum=2, maximum=5),
            _folder(),
            _TIER,
            _TYPE,
            _SOURCE,
            Parameter("stateFilter", "text", "Only this state", choices=_values(State)),
            Parameter("minState", "text", "This state or fresher", choices=_values(State)),
            _flag("includeArchived"),
            _limit(10),
            Parameter("maxResults", "integer", "Same as limit", minimum=1, maximum=20, alias="limit"),
            Parameter("minScore", "number", default=0.0, minimum=0, maximum=1),
            Parameter("groupBy", "text", default="memory", choices=("memory", "passage")),
            Parameter("maxTokens", "integer", "Budget (4000)", minimum=100, maximum=1_000_000),
            Parameter("anchors", "texts", "Only these sections, e.g. decisions", maximum=50),
            _flag("includeContent", "Whole texts"),
            _flag("includeConstitutional", "Rules on top", default=True),
            _flag("includeContiguity", "Neighbours in time"),
            _flag("useDecay", default=True),
            _session("Texts it was sent before become references"),
            _flag("dedup", default=True),
            Parameter("asOf", "text", "Search the past: ISO date, time or checkpoint", length=200),
            _flag("explain", "Score parts"),
        ),
        positional=("query",),
        one_of=("query", "concepts"),
        lean=True,
        reads=True,
    ),
    Tool(
        "memory_context",
        "context",
        "context",
        "First call when a session starts or resumes: rules, trigger matches, the spec folder's "
        "state, next steps, blockers, decisions.",
        (
            Parameter("prompt", "text", "The user's message", length=QUERY_LENGTH),
            _folder(),
            _session(),
            Parameter("maxTokens", "integer", default=1500, minimum=100, maximum=1_000_000),
        ),
        positional=("prompt",),
        lean=True,
        reads=True,
    ),
    Tool(
        "memory_load",
        "load",
        "load",
        "Read one memory, or one section of it: after a search, or the newest of a spec folder.",
        (
            _folder("Newest memory of this spec folder"),
            _id(name="memoryId", required=False),
            Parameter("anchorId", "text", "Section, e.g. decisions", flags=("--anchor",)),
            Parameter("maxTokens", "integer", default=10_000, minimum=100, maximum=1_000_000),
        ),
        positional=("memoryId",),
        one_of=("specFolder", "memoryId"),
        lean=True,
        reads=True,
    ),
    Tool(
        "memory_get",
        "get",
        "get",
        "Read exact lines of a memory file, as given by memory_search.",
        (
            Parameter("path", "text", "e.g. memory/decisions.md", required=True, length=PATH_LENGTH),
            Parameter("lines", "text", "e.g. 42-56", length=64),
            Parameter("from", "integer", "First line, with count", minimum=1, maximum=2**31),
            Parameter("count", "integer", minimum=1, maximum=2**31),
        ),
        positional=("path", "lines"),
        reads=True,
    ),
    Tool(
        "memory_match_triggers",
        "triggers",
        "triggers",
        "Call on every user message: memories whose trigger phrases occur in it.",
        (
            Parameter("prompt", "text", "The user's message", required=True, length=QUERY_LENGTH),
            _limit(3, 50),
            _session("Adds attention and linked memories"),
            Parameter("turnNumber", "integer", minimum=0, maximum=2**31),
            _flag("includeCognitive", default=True),
        ),
        positional=("prompt",),
        lean=True,
        reads=True,
        idempotent=False,
    ),
    Tool(
        "memory_save",
        "save",
        "save",
        "Save a session as a memory (context), or index a file (filePath). "
        "Call when work ends, after decisions, or when asked to remember.",
        (
            Parameter("filePath", "text", ".md, .txt or chat .jsonl", length=PATH_LENGTH),
            Parameter(
                "context",
                "object",
                "sessionSummary, keyDecisions[], filesModified[], triggerPhrases[], technicalContext{}, nextSteps[], "
                "blockers[], importanceTier, contextType, title, links{}, sessionId; or userPrompts[], observations[], "
                "recentContext[]",
                length=OBJECT_LENGTH,
            ),
            _folder("Where to save; detected if left out"),
            _flag("create", "Make that spec folder if it is new"),
            _flag("force", "Index again though unchanged"),
            _flag("dryRun", "Only show"),
            Parameter("onSimilar", "text", default="warn", choices=("warn", "merge", "distinct")),
        ),
        positional=("filePath",),
        one_of=("filePath", "context"),
        lean=True,
        idempotent=False,
    ),
    Tool(
        "memory_list",
        "list",
        "list",
        "Browse memories, newest first; no query.",
        (
            _folder("Exactly this spec folder"),
            _TIER,
            _SOURCE,
            _limit(20),
            Parameter("offset", "integer", default=0, minimum=0, maximum=2**31),
            Parameter(
                "sortBy", "text", default="created_at", choices=("created_at", "updated_at", "importance_weight")
            ),
        ),
        reads=True,
    ),
    Tool(
        "memory_update",
        "update",
        "update",
        "Correct a memory's metadata; written to its file's front matter.",
        (
            _id(),
            Parameter("title", "text", length=PATH_LENGTH),
            Parameter("triggerPhrases", "texts", "Replaces all", maximum=100, flags=("--trigger",)),
            Parameter("importanceWeight", "number", minimum=0, maximum=1, flags=("--weight",)),
            Parameter("importanceTier", "text", choices=_values(Tier), flags=("--tier",)),
            Parameter("contextType", "text", choices=_values(ContextType), flags=("--type",)),
            _flag("confirm", "A person agreed; needed for constitutional"),
        ),
        positional=("id",),
    ),
    Tool(
        "memory_delete",
        "delete",
        "delete",
        "Forget one memory, or with confirm all of a spec folder (a checkpoint is made first). Files stay.",
        (
            _id(required=False),
            _folder(),
            _flag("confirm", "Needed with specFolder"),
            _flag("deleteFile", "Also move the file to trash"),
        ),
        positional=("id",),
        one_of=("id", "specFolder"),
        destroys=True,
    ),
    Tool(
        "memory_validate",
        "validate",
        "validate",
        "Say whether a memory you used was useful.",
        (
            _id(),
            Parameter("wasUseful", "boolean"),
            Parameter("outdated", "boolean", "No longer true: archive it"),
            Parameter("promote", "boolean", "Make critical, when offered"),
        ),
        positional=("id",),
        one_of=("wasUseful", "outdated", "promote"),
        lean=True,
        idempotent=False,
    ),
    Tool(
        "memory_stats",
        "stats",
        "stats",
        "Numbers: memories per tier, state, source and folder, links, vectors, size.",
        (
            Parameter(
                "folderRanking", "text", default="count", choices=("count", "recency", "importance", "composite")
            ),
            _limit(10),
        ),
        reads=True,
    ),
    Tool(
        "memory_health",
        "health",
        "health",
        "Is the index sound and in step with the files? Repairs on request.",
        (_flag("repair"),),
    ),
    Tool(
        "memory_index_scan",
        "index",
        "index",
        "Index new and changed files now. Rarely needed (files are watched); once a minute at most.",
        (_folder("Spec folders that start so"), _flag("force", "Also unchanged files")),
    ),
    Tool(
        "memory_history",
        "history",
        "history",
        "What changed, when and by whom; without an id also checks the ledger.",
        (_id(required=False), _folder(), _limit(50, 1000)),
        positional=("id",),
        reads=True,
    ),
    Tool(
        "memory_causal_link",
        "link",
        "link",
        "Record how one memory led to, replaces or bears on another.",
        (
            _id("From", name="sourceId"),
            _id("To", name="targetId"),
            Parameter("relation", "text", required=True, choices=_values(Relation)),
            Parameter("strength", "number", default=1.0, minimum=0, maximum=1),
            Parameter("evidence", "text", "Why", length=PROSE_LENGTH),
        ),
        positional=("sourceId", "targetId", "relation"),
    ),
    Tool(
        "memory_causal_unlink",
        "unlink",
        "unlink",
        "Remove a link.",
        (_id("Link id", name="linkId"),),
        positional=("linkId",),
        destroys=True,
    ),
    Tool(
        "memory_drift_why",
        "why",
        "why",
        "Why is it so? The chain of causes and consequences around a memory.",
        (
            _id(name="memoryId"),
            Parameter("maxDepth", "integer", default=3, minimum=1, maximum=10),
            Parameter("direction", "text", default="both", choices=("forward", "backward", "both")),
            Parameter("relations", "texts", "Only these", choices=_values(Relation), maximum=6),
        ),
        positional=("memoryId",),
        reads=True,
    ),
    Tool(
        "checkpoint_create",
        "checkpoint_create",
        "checkpoint create",
        "Snapshot memories before risky changes.",
        (
            _NAME,
            _folder("Only this spec folder"),
            Parameter("description", "text", length=PROSE_LENGTH),
            Parameter("metadata", "object", length=QUERY_LENGTH),
        ),
        positional=("name",),
        idempotent=False,
    ),
    Tool(
        "checkpoint_list",
        "checkpoint_list",
        "checkpoint list",
        "Snapshots, newest first.",
        (_folder(), _limit(50)),
        reads=True,
    ),
    Tool(
        "checkpoint_restore",
        "checkpoint_restore",
        "checkpoint restore",
        "Bring a snapshot back; the present is snapshotted first.",
        (
            _NAME,
            _flag("clearExisting", "Also take back what is newer, and drop what the snapshot lacks"),
            _flag("restoreFiles", "Write files back too"),
        ),
        positional=("name",),
        destroys=True,
    ),
    Tool(
        "checkpoint_delete",
        "checkpoint_delete",
        "checkpoint delete",
        "Delete a snapshot.",
        (_NAME,),
        positional=("name",),
        destroys=True,
    ),
)
BY_NAME: Mapping[str, Tool] = {tool.name: tool for tool in TOOLS}
BY_COMMAND: Mapping[str, Tool] = {tool.command: tool for tool in TOOLS}


def behaviour(tool: Tool) -> dict[str, bool]:
    """The tool's MCP annotations."""
    return {
        "readOnlyHint": tool.reads,
        "destructiveHint": tool.destroys,
        "idempotentHint": tool.idempotent,
        "openWorldHint": False,
    }


# --- schemas ----------------------------------------------------------------------------

# The envelope is the same for every tool, and spelled out once in the reference, not in every conversation.
# No key is required: an error carries {code, message, hint}, and some clients check errors against this too.
OUTPUT_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"summary": {}, "data": {}}}

_JSON_TYPES: Mapping[Kind, str] = {
    "text": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "texts": "array",
    "object": "object",
}


@cache
def input_schema(tool: Tool) -> dict[str, Any]:
    """Flat JSON Schema of a tool's arguments, as small as it can be said."""
    schema: dict[str, Any] = {"type": "object", "properties": {p.name: _property(p) for p in tool.parameters}}
    if required := [p.name for p in tool.parameters if p.required]:
        schema["required"] = required
    return schema


def _property(parameter: Parameter) -> dict[str, Any]:
    shown: dict[str, Any] = {"type": _JSON_TYPES[parameter.kind]}
    if parameter.kind == "texts":
        shown["items"] = (
            {"type": "string", "enum": list(parameter.choices)} if parameter.choices else {"type": "string"}
        )
    elif parameter.choices:
        shown["enum"] = list(parameter.choices)
    if parameter.default is not None and parameter.default is not False:
        shown["default"] = parameter.default
    if parameter.kind in ("integer", "number"):
        # Limits nobody meets by accident are checked but not worth tokens in every conversation.
        if parameter.minimum is not None and parameter.kind == "number":
            shown["minimum"] = parameter.minimum
        if parameter.maximum is not None and parameter.maximum <= 1000:
            shown["maximum"] = parameter.maximum
    if parameter.about:
        shown["description"] = parameter.about
    return shown
