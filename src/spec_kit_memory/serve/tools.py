"""Which tools are there, and what is each for?

The table has each tool's name, its description for agents, and how it behaves. Its parameters are declared by its
request; the MCP schemas, the validation of arguments and the reference pages are generated from that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from spec_kit_memory import requests
from spec_kit_memory.parameter_values import NAME_LENGTH, nearest, squashed
from spec_kit_memory.parameters import Edge, Kind, Parameter, Request, read


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    request: type[Request]
    about: str
    lean: bool = False
    reads: bool = False
    destroys: bool = False
    idempotent: bool = True

    @property
    def verb(self) -> str:
        return self.request.verb

    @property
    def command(self) -> str:
        return self.request.command

    @property
    def edge(self) -> Edge:
        return Edge(
            self.name,
            lambda parameter: repr(parameter.name),
            self._usage,
            lookups=("memory_search with query {}", "memory_get with path {}"),
            elsewhere=_takers,
        )

    @property
    def parameters(self) -> Sequence[Parameter]:
        return self.edge.sees(self.request)

    def _usage(self, visible: Sequence[Parameter]) -> str:
        return f"{self.name} takes {', '.join(parameter.name for parameter in visible) or 'nothing'}."


TOOLS: tuple[Tool, ...] = (
    Tool(
        "memory_search",
        requests.SearchRequest,
        "Search this project's memory, a knowledge base of notes: what did we decide and why, any past decision or "
        "decisions, prior work, dates, people, preferences. Recall step, to find and remember: call before answering "
        "about any of them. Matches text and meaning, gives lines to cite. Needs query or concepts. "
        "Always add also, in the words the note may use: it finds far more than the query alone.",
        lean=True,
        reads=True,
    ),
    Tool(
        "memory_context",
        requests.ContextRequest,
        "First call when a session starts or resumes: this project's rules, memories that the prompt brings up, "
        "the spec folder's state, next steps, blockers, decisions.",
        lean=True,
        reads=True,
    ),
    Tool(
        "memory_load",
        requests.LoadRequest,
        "Read one memory, or one section of it: after a search, or the newest of a spec folder.",
        lean=True,
        reads=True,
    ),
    Tool(
        "memory_get",
        requests.GetRequest,
        "Read exact lines of a memory file, as given by memory_search.",
        reads=True,
    ),
    Tool(
        "memory_match_triggers",
        requests.TriggersRequest,
        "Call on every user message: memories whose trigger phrases occur in it.",
        lean=True,
        reads=True,
        idempotent=False,
    ),
    Tool(
        "memory_save",
        requests.SaveRequest,
        "Save a session as a memory (context), or index a file (filePath). "
        "Call when work ends, after a decision, or when asked to remember or store something.",
        lean=True,
        idempotent=False,
    ),
    Tool("memory_list", requests.ListRequest, "Browse this project's memories, newest first; no query.", reads=True),
    Tool(
        "memory_update",
        requests.UpdateRequest,
        "Update a memory's metadata (title, tier, triggers); written to its file's front matter.",
    ),
    Tool(
        "memory_delete",
        requests.DeleteRequest,
        "Delete (forget) one memory, or with confirm all of a spec folder (a checkpoint is made first). Files stay.",
        destroys=True,
    ),
    Tool(
        "memory_validate",
        requests.ValidateRequest,
        "Feedback on a memory you used: was it useful, or is it outdated?",
        lean=True,
        idempotent=False,
    ),
    Tool(
        "memory_stats",
        requests.StatsRequest,
        "Statistics: memories per tier, state, source and folder, links, vectors, size.",
        reads=True,
    ),
    Tool(
        "memory_health",
        requests.HealthRequest,
        "Health check: is the index sound and in step with the files? Repairs on request.",
    ),
    Tool(
        "memory_index_scan",
        requests.IndexRequest,
        "Index (reindex) new and changed files now. Rarely needed (files are watched); once a minute at most.",
    ),
    Tool(
        "memory_history",
        requests.HistoryRequest,
        "How memories changed, when and by whom; without an id also checks the ledger.",
        reads=True,
    ),
    Tool(
        "memory_causal_link",
        requests.LinkRequest,
        "Link two memories: how one led to, replaces or bears on the other.",
    ),
    Tool("memory_causal_unlink", requests.UnlinkRequest, "Remove a causal link between two memories.", destroys=True),
    Tool(
        "memory_drift_why",
        requests.WhyRequest,
        "Why was this decided? The chain of causes and consequences around a memory or decision.",
        reads=True,
    ),
    Tool(
        "checkpoint_create",
        requests.CheckpointCreateRequest,
        "Snapshot (backup) of all memories before risky changes.",
        idempotent=False,
    ),
    Tool("checkpoint_list", requests.CheckpointListRequest, "List snapshots of memories, newest first.", reads=True),
    Tool(
        "checkpoint_restore",
        requests.CheckpointRestoreRequest,
        "Restore a snapshot of memories (undo changes, rollback); the present is snapshotted first.",
        destroys=True,
    ),
    Tool("checkpoint_delete", requests.CheckpointDeleteRequest, "Delete a snapshot of memories.", destroys=True),
)
BY_NAME: Mapping[str, Tool] = {tool.name: tool for tool in TOOLS}
BY_COMMAND: Mapping[str, Tool] = {tool.command: tool for tool in TOOLS}


# Words that models use for a tool, beside those of its name and description.
_OTHER_WORDS: Mapping[str, str] = {
    "memory_search": "query retrieve lookup ask",
    "memory_load": "open show fetch view",
    "memory_get": "fetch lines file",
    "memory_save": "write add create put insert note",
    "memory_delete": "remove erase",
    "memory_update": "edit change modify set rename",
    "memory_list": "all ls",
    "memory_match_triggers": "match prompt",
    "memory_stats": "status info count overview",
    "memory_index_scan": "sync refresh rebuild",
    "memory_causal_link": "relate connect",
    "memory_causal_unlink": "disconnect",
    "memory_validate": "rate vote promote",
    "checkpoint_restore": "revert",
}
_COMMON_WORDS = frozenset(("memory", "memories", "tool", "the", "a", "to", "of", "for"))
_MOST_MEANT = 2


def meant(name: str, tools: Sequence[Tool]) -> list[str]:
    """The tools that an unknown name may mean: by its spelling, else by its words, else by likeness."""
    form = squashed(name[-NAME_LENGTH:])
    if whole := [tool.name for tool in tools if form.endswith(squashed(tool.name))]:
        return whole[:1]
    wanted = set(_words(name[:NAME_LENGTH])) - _COMMON_WORDS
    scores = {
        tool.name: sum(
            2 * (word in _words(f"{tool.name} {_OTHER_WORDS.get(tool.name, '')}")) + (word in _words(tool.about))
            for word in wanted
        )
        for tool in tools
    }
    highest = max(scores.values(), default=0)
    best = [tool_name for tool_name, score in scores.items() if score == highest > 0]
    return best[:_MOST_MEANT] or (nearest(name, list(scores)) if wanted else [])


def commands_meant(name: str) -> list[str]:
    """The commands without a tool that an unknown name may mean."""
    return [word for word in _words(name[:NAME_LENGTH]) if word in requests.BY_COMMAND and word not in BY_COMMAND]


def _words(text: str) -> list[str]:
    """The words of a name or a sentence; memoryFind has two."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return re.findall(r"[a-z]+", apart.lower().replace("_", " "))


def _takers(name: str) -> list[str]:
    """The tools that read, and need a parameter of that name."""
    form = squashed(name)
    return [
        tool.name
        for tool in TOOLS
        for parameter in tool.parameters
        if tool.reads
        and (parameter.required or parameter.argument in tool.request.needs)
        and form in map(squashed, (parameter.name, *parameter.aliases))
    ][:_MOST_MEANT]


def behaviour(tool: Tool) -> dict[str, bool]:
    """The tool's MCP annotations."""
    return {
        "readOnlyHint": tool.reads,
        "destructiveHint": tool.destroys,
        "idempotentHint": tool.idempotent,
        "openWorldHint": False,
    }


def read_arguments(tool: Tool, arguments: Mapping[str, Any] | None) -> Request:
    """Validate a client's arguments; an error names every problem."""
    return read(tool.request, arguments, tool.edge)


# --- schemas ----------------------------------------------------------------------------

# The envelope is the same for every tool; the reference describes it in full, so that no conversation pays for it.
# No key is required: an error is {code, message, hint}, and some clients validate errors against this schema too.
OUTPUT_SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"summary": {}, "data": {}}}

_JSON_TYPES: Mapping[Kind, str] = {
    "text": "string",
    "path": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "texts": "array",
    "object": "object",
}


@cache
def input_schema(tool: Tool) -> dict[str, Any]:
    """Flat JSON Schema of a tool's arguments, as small as possible."""
    properties = {parameter.name: _property(parameter) for parameter in tool.parameters}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [parameter.name for parameter in tool.parameters if parameter.required]:
        schema["required"] = required
    return schema


def _property(parameter: Parameter) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": _JSON_TYPES[parameter.kind]}
    if parameter.kind == "texts":
        schema["items"] = (
            {"type": "string", "enum": list(parameter.choices)} if parameter.choices else {"type": "string"}
        )
    elif parameter.choices:
        schema["enum"] = list(parameter.choices)
    if parameter.shown_default is not None and parameter.shown_default is not False:
        schema["default"] = parameter.shown_default
    if parameter.kind in ("integer", "number"):
        # Limits that no caller reaches by accident are enforced, but not worth tokens in every conversation.
        if parameter.minimum is not None and parameter.kind == "number":
            schema["minimum"] = parameter.minimum
        if parameter.maximum is not None and parameter.maximum <= 1000:
            schema["maximum"] = parameter.maximum
    if parameter.about:
        schema["description"] = parameter.about
    return schema
