"""What does the server offer besides tools? Resources, prompts and completion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from spec_kit_memory.core.tokens import count
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import BadParameter, BadSpecFolder, MissingParameter

if TYPE_CHECKING:
    from spec_kit_memory.workspace import Workspace

RULES = "memory://constitutional"
# Enough of a memory for any reader of a resource; longer ones are read in parts with memory_load.
RESOURCE_TOKENS = 100_000
LEAST_TOKENS = 100
LISTED_FOLDERS = 50
# With this cursor the list contains only what every workspace has: `tools.first_answers` prepares the answer for a host
# that asks before the workspace is open.
BEGINNING = "beginning"

TEMPLATES: tuple[tuple[str, str, str], ...] = (
    ("memory://{id}", "memory", "One memory's text"),
    ("memory://folder/{name}", "folder", "The memories of a spec folder"),
)


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    about: str
    arguments: tuple[tuple[str, str, bool], ...]  # name, description, required
    text: str  # with {name} for each argument


PROMPTS: tuple[Prompt, ...] = (
    Prompt(
        "save",
        "Save this session as a memory",
        (("specFolder", "Spec folder; detected if left out", False),),
        "Save what we did in this session with memory_save. Put into context: a sessionSummary, keyDecisions with "
        "their rationale and alternatives, filesModified, nextSteps, blockers, triggerPhrases I would use to "
        "find it again, and up to 8 questions that it answers, in words of their own. "
        "Only what happened in this session; leave out what there is nothing to say about."
        "{specFolder}",
    ),
    Prompt(
        "search",
        "Recall prior work",
        (("query", "What to look for", True), ("specFolder", "Only in this spec folder", False)),
        "Search memory with memory_search for: {query}{specFolder}\nRead what you need in full with memory_load. "
        "Answer from what you found and cite path and lines; say so if nothing was found.",
    ),
    Prompt(
        "checkpoint",
        "Snapshot memories, or go back to a snapshot",
        (("name", "Name of the checkpoint", True),),
        "If checkpoint_list shows a checkpoint named {name}, ask me whether to restore it, and if I agree, call "
        "checkpoint_restore. Otherwise make it with checkpoint_create.",
    ),
    Prompt(
        "resume",
        "Pick up where the last session stopped",
        (("specFolder", "Spec folder to resume", False),),
        "Resume prior work{specFolder}. This is what is remembered; ask memory_search for more before you rely on "
        "anything that is not in it.\n\n{context}",
    ),
)


def prompt_text(name: str, arguments: Mapping[str, str], workspace: Workspace) -> str:
    prompt = next((candidate for candidate in PROMPTS if candidate.name == name), None)
    if prompt is None:
        raise BadParameter(
            f"There is no prompt {name[:200]!r}.",
            hint="Use " + ", ".join(candidate.name for candidate in PROMPTS) + ".",
        )
    for argument, _, required in prompt.arguments:
        if required and not arguments.get(argument):
            raise MissingParameter(f"The prompt {name!r} needs {argument!r}.", hint="Give it as an argument.")
    folder = arguments.get("specFolder")
    values = {
        "query": arguments.get("query", ""),
        "name": repr(arguments.get("name", "")),
        "specFolder": f" (spec folder {folder})" if folder else "",
        "context": workspace.context(spec_folder=folder).text if "{context}" in prompt.text else "",
    }
    # Not str.format: the user's text may contain braces.
    return re.sub(r"\{(\w+)\}", lambda match: values[match.group(1)], prompt.text)


# --- resources ------------------------------------------------------------------------------


ALWAYS_LISTED: tuple[tuple[str, str, str], ...] = ((RULES, "constitutional", "The rules that always hold"),)


def listed(workspace: Workspace) -> list[tuple[str, str, str]]:
    """URI, name and description of the rules and folders; single memories are reached by template."""
    folders = workspace.stats(folder_ranking="recency", limit=LISTED_FOLDERS).folders
    return [*ALWAYS_LISTED] + [
        (f"memory://folder/{quote(folder.name)}", folder.name, counted(folder.count, "memory")) for folder in folders
    ]


def read(uri: str, workspace: Workspace) -> list[tuple[str, str]]:
    """The resource as (uri, markdown) pairs."""
    match = re.fullmatch(r"memory://(?:folder/(?P<folder>.+)|(?P<id>\d{1,15})|(?P<rules>constitutional))/?", uri)
    if match is None:
        raise BadParameter(
            f"There is no resource {uri[:200]!r}.", hint="Use memory://ID, memory://folder/NAME or " + RULES + "."
        )
    if match["rules"]:
        rules = workspace.list(tier="constitutional", limit=100).memories
        return list(_within(RESOURCE_TOKENS, (rule.id for rule in rules), workspace)) or [(RULES, "")]
    if match["folder"]:
        return [(uri, _folder(unquote(match["folder"]), workspace))]
    return [_memory(int(match["id"]), workspace)]


def _memory(memory_id: int, workspace: Workspace, *, tokens: int = RESOURCE_TOKENS) -> tuple[str, str]:
    return f"memory://{memory_id}", workspace.load(memory_id=memory_id, max_tokens=tokens).text


def _within(tokens: int, ids: Iterable[int], workspace: Workspace) -> Iterator[tuple[str, str]]:
    """As many memories as fit into `tokens` in total."""
    for memory_id in ids:
        if tokens < LEAST_TOKENS:
            return
        uri, text = _memory(memory_id, workspace, tokens=tokens)
        tokens -= count(text)
        yield uri, text


def _folder(name: str, workspace: Workspace) -> str:
    answer = workspace.list(spec_folder=name, limit=100)
    if not answer.memories:
        raise BadSpecFolder(f"No memory is in the spec folder {name!r}.", hint="resources/list names the folders.")
    rows = [f"- [{card.title}](memory://{card.id}) {card.tier.value}, {card.path}" for card in answer.memories]
    more = [f"\n{answer.total - len(rows)} more: use memory_list"] if answer.total > len(rows) else []
    return "\n".join([f"# {name}", "", *rows, *more])


# --- completion -------------------------------------------------------------------------------


def complete(argument: str, begun: str, workspace: Workspace, *, of_template: bool) -> list[str]:
    """Spec folders or checkpoint names that start with the typed text."""
    if argument == "specFolder" or (of_template and argument == "name"):
        names = [row.name for row in workspace.stats(folder_ranking="recency", limit=10_000).folders]
    elif argument == "name":
        names = [row.name for row in workspace.checkpoint_list(limit=100).checkpoints]
    else:
        names = []
    return [name for name in names if name.casefold().startswith(begun.casefold())]
