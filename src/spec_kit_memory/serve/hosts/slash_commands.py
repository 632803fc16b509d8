"""What do the slash commands tell the agent? One text for each command; hosts differ only in the file around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    about: str
    arguments: str
    text: str


COMMANDS: tuple[Command, ...] = (
    Command(
        "save",
        "Save this session as a memory",
        "[spec-folder]",
        """\
Save what happened in this session with the tool `memory_save` of the server `spec_kit_memory`.

Spec folder, if given: {arguments}

1. Put into `context`: `sessionSummary` (what was done and why, a few sentences), `keyDecisions` (each with decision, \
chosen, rationale and alternatives), `filesModified`, `nextSteps`, `blockers`, `technicalContext`, \
`triggerPhrases` (5 to 10 phrases I would use when I come back to this), and `questions` (up to 8 that this answers, \
as I would ask when I no longer remember its words).
2. Write only what happened here. Leave a field out when there is nothing to say; never invent a decision.
3. Give `specFolder` only if I named one. If the tool answers that it is undecided, show me its alternatives and ask.
4. If the answer names similar memories, tell me and ask whether to merge (`onSimilar: "merge"`) or to keep both.
5. Tell me the path of the saved file and its trigger phrases.
""",
    ),
    Command(
        "search",
        "Search memories, or show the overview",
        '["query" | cleanup | triggers] [--tier T] [--type T] [--folder F]',
        """\
Recall prior work with the server `spec_kit_memory`. What I typed: {arguments}

- Nothing typed: call `memory_stats` and `memory_list` (limit 5), show the numbers and the newest memories, and \
suggest what to look for.
- `cleanup`: call `memory_list`, go through old, expired and doubtful memories one at a time, and call \
`memory_delete` or `memory_validate` with `outdated: true` only for those I agree to.
- `triggers`: show the trigger phrases of the memories that `memory_list` returns; change them with `memory_update` \
where I ask for it.
- Anything else is a query: call `memory_search`. `--tier` is its `tier`, `--type` its `contextType`, `--folder` its \
`specFolder`. Show the results as [1], [2], [3] with title, path, lines and score, then ask which to load: a number, \
all, or skip. Load with `memory_load` only what I choose.

Cite path and lines for what you take from a memory, and say so when nothing was found.
""",
    ),
    Command(
        "checkpoint",
        "Create, list, restore or delete a checkpoint of memories",
        "create <name> | list | restore <name> | delete <name>",
        """\
Look after checkpoints with the server `spec_kit_memory`. What I typed: {arguments}

- `create <name>`: call `checkpoint_create`, with a `description` of what we are about to do.
- `list` or nothing: call `checkpoint_list` and show name, time, scope and number of memories.
- `restore <name>`: say what the checkpoint holds, ask me, then call `checkpoint_restore`. Tell me the name of the \
checkpoint that was made of the present state.
- `delete <name>`: ask me, then call `checkpoint_delete`.
""",
    ),
)


def body(command: Command, arguments: str) -> str:
    return command.text.replace("{arguments}", arguments)


def _front(values: Mapping[str, str]) -> str:
    return "---\n" + "".join(f"{key}: {value}\n" for key, value in values.items()) + "---\n\n"


def command_file(command: Command, *, arguments: str, hint_key: str = "") -> str:
    """A command as a markdown file: its description, and a hint on its arguments for hosts that show one."""
    front = {"description": command.about}
    if hint_key:
        front[hint_key] = "'" + command.arguments.replace("'", "''") + "'"
    return _front(front) + body(command, arguments)


def toml_file(command: Command) -> str:
    """A command as a TOML file for Gemini CLI; the text must not contain three single quotes in a row."""
    return f"description = \"{command.about}\"\n\nprompt = '''\n{body(command, '{{args}}')}'''\n"


def skill_file(command: Command, *, manual: bool) -> str:
    """A command as a skill. `manual` keeps the agent from starting it unasked, in hosts that support that key."""
    front = {"name": f"memory-{command.name}", "description": f"{command.about}. Use it when asked for by name."}
    if manual:
        front["disable-model-invocation"] = "true"
    return _front(front) + body(command, "(what follows the name of this skill in my message)")
