"""What do commands do on a terminal beyond calling their tool's verb?

Progress of a scan, the dashboard, a question before something is destroyed, drawings.
Each entry adds options and runs in place of the plain call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from spec_kit_memory.errors import BadParameter
from spec_kit_memory.serve.cli.tool_commands import Session, call
from spec_kit_memory.serve.tools import Tool

if TYPE_CHECKING:
    from spec_kit_memory.answers import Card
    from spec_kit_memory.workspace import Workspace

__all__ = ["EXTRAS", "Extra", "every_card"]

Given = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Extra:
    run: Callable[[Session, Tool, Given, Given], None] = lambda session, tool, given, own: session.show(
        call(session, tool, given), tool=tool.name
    )
    options: Callable[[], list[click.Parameter]] = list
    about: str = ""


def _flag(name: str, about: str) -> click.Option:
    return click.Option([name], is_flag=True, help=about)


# --- search -----------------------------------------------------------------------------------


def _search(session: Session, tool: Tool, given: Given, own: Given) -> None:
    if given or own["mode"]:
        session.show(call(session, tool, given, **_said(own)), tool=tool.name)
    else:
        dashboard(session)


def _said(own: Mapping[str, Any]) -> Given:
    return {name: value for name, value in own.items() if value not in (None, False, ())}


def dashboard(session: Session) -> None:
    """`skm search` alone: numbers, the newest, and what to try."""
    from spec_kit_memory.serve.cli import view
    from spec_kit_memory.serve.cli.overview import Overview

    with session.open() as workspace:
        stats = workspace.stats(limit=5)
        newest = workspace.list(limit=5)
    answer = Overview.of(stats, newest)
    now = datetime.now(UTC)
    lines: list[view.Block] = [*view.blocks(stats, now=now)]
    if newest.memories:
        lines += [view.Line("Newest", "title"), view.cards(newest.memories, now)]
    lines += [view.Line(f"Try: {suggestion}", "hint") for suggestion in answer.suggestions]
    session.show(answer, blocks=lines)


# --- index --------------------------------------------------------------------------------------


def _index(session: Session, tool: Tool, given: Given, own: Given) -> None:
    from spec_kit_memory.serve.cli.terminal import progress

    with progress("Indexing", quiet=session.json) as step:
        answer = call(
            session, tool, given, rebuild=own["rebuild"], embed=not own["text_only"], progress=step, cooldown=False
        )
    session.show(answer, tool=tool.name)


def _index_options() -> list[click.Parameter]:
    return [
        _flag("--rebuild", "Drop what is derived from files and make it again; keep what is recorded."),
        _flag("--text-only", "Leave the vectors to a later run or a server."),
    ]


# --- reading ---------------------------------------------------------------------------------------


def _get(session: Session, tool: Tool, given: Given, own: Given) -> None:
    # The way search prints a place: path:42-56.
    found = re.fullmatch(r"(?P<path>.+):(?P<lines>\d+(?:-\d+)?)", str(given.get("path", "")))
    if found and "lines" not in given:
        given |= found.groupdict()
    session.show(call(session, tool, given), tool=tool.name)


def _list(session: Session, tool: Tool, given: Given, own: Given) -> None:
    session.show(call(session, tool, given, **_said(own)), tool=tool.name)


def _why(session: Session, tool: Tool, given: Given, own: Given) -> None:
    session.show(call(session, tool, given), tool=tool.name, form=own["form"])


def _why_options() -> list[click.Parameter]:
    from spec_kit_memory.serve.cli.graph import FORMS

    return [click.Option(["form", "--format"], type=click.Choice(FORMS), default="tree", help="How to draw it.")]


# --- triggers --------------------------------------------------------------------------------------


def _triggers(session: Session, tool: Tool, given: Given, own: Given) -> None:
    if own["memory"] is not None:
        _edit_phrases(session, own["memory"], added=own["add"], removed=own["remove"])
    elif own["add"] or own["remove"]:
        raise click.UsageError("--add and --remove need --id.", click.get_current_context())
    elif given.get("prompt"):
        session.show(call(session, tool, given), tool=tool.name)
    else:
        _list_phrases(session)


def _triggers_options() -> list[click.Parameter]:
    return [
        click.Option(["memory", "--id"], type=int, help="Edit this memory's phrases."),
        click.Option(["--add"], multiple=True, metavar="PHRASE", help="Add a phrase (with --id)."),
        click.Option(["--remove"], multiple=True, metavar="PHRASE", help="Remove a phrase (with --id)."),
    ]


def _edit_phrases(session: Session, memory_id: int, *, added: tuple[str, ...], removed: tuple[str, ...]) -> None:
    with session.open() as workspace:
        phrases = workspace.load(memory_id=memory_id, max_tokens=100).memory.triggers
        if not added and not removed:
            session.write("\n".join(phrases))
            return
        gone = {phrase.casefold() for phrase in removed}
        if unknown := gone - {phrase.casefold() for phrase in phrases}:
            raise BadParameter(
                f"Memory {memory_id} has no trigger phrase {', '.join(map(repr, sorted(unknown)))}.",
                hint=f"`skm triggers --id {memory_id}` lists them.",
            )
        kept = [phrase for phrase in phrases if phrase.casefold() not in gone]
        kept += [phrase for phrase in added if phrase.casefold() not in {each.casefold() for each in kept}]
        session.show(workspace.update(id=memory_id, trigger_phrases=kept), tool="memory_update")


def _list_phrases(session: Session) -> None:
    from spec_kit_memory.serve.cli import view
    from spec_kit_memory.serve.cli.overview import Phrases

    with session.open() as workspace:
        rows = [(phrase, card) for card in every_card(workspace) for phrase in card.triggers]
    rows.sort(key=lambda row: (row[0].casefold(), row[1].id))
    answer = Phrases(
        summary=f"{len(rows)} trigger phrases",
        hints=('`skm triggers --id ID --add "…"` adds one, --remove takes one away.',) if session.interactive else (),
        phrases=tuple({"phrase": phrase, "id": card.id, "title": card.title} for phrase, card in rows),
    )
    table = view.Table(("phrase", "id", "title"), tuple((p, str(c.id), c.title) for p, c in rows), frozenset({1}))
    session.show(
        answer, blocks=[table, view.Line(answer.summary, "dim"), *(view.Line(h, "hint") for h in answer.hints)]
    )


def every_card(workspace: Workspace) -> Iterator[Card]:
    offset = 0
    while True:
        page = workspace.list(limit=100, offset=offset)
        yield from page.memories
        offset += len(page.memories)
        if not page.memories or offset >= page.total:
            return


# --- what destroys ------------------------------------------------------------------------------------


def _delete(session: Session, tool: Tool, given: Given, own: Given) -> None:
    if "specFolder" in given and not given.get("confirm") and session.interactive:
        click.confirm(f"Forget every memory of {given['specFolder']}? A checkpoint is made first.", abort=True)
        given["confirm"] = True
    session.show(call(session, tool, given), tool=tool.name)


def _restore(session: Session, tool: Tool, given: Given, own: Given) -> None:
    if session.interactive and not own["yes"] and (given.get("clearExisting") or given.get("restoreFiles")):
        click.confirm(f"Restore {given.get('name')!r} over what is there? A checkpoint is made first.", abort=True)
    session.show(call(session, tool, given), tool=tool.name)


def _health(session: Session, tool: Tool, given: Given, own: Given) -> None:
    answer = call(session, tool, given, **_said(own))
    session.show(answer, tool=tool.name)
    # A script that asks for health wants to know by the exit code, too.
    session.exit_code = 0 if getattr(answer, "healthy", True) else 1


EXTRAS: Mapping[str, Extra] = {
    "search": Extra(
        _search,
        lambda: [
            click.Option(["--mode"], type=click.Choice(("hybrid", "text", "vector")), help="By what to search."),
        ],
        about="Find memories by text and meaning, best first. Without arguments: an overview.",
    ),
    "index": Extra(_index, _index_options, about="Index new and changed files."),
    "get": Extra(_get, about="Print exact lines of a memory: PATH 42-56, or PATH:42-56."),
    "context": Extra(about="What an agent should know when it starts: rules, matches, state and next steps."),
    "load": Extra(about="Print one memory, or one section of it; of a spec folder the newest."),
    "stats": Extra(about="Numbers per tier, state, source and folder."),
    "validate": Extra(about="Say whether a memory was useful, is outdated, or deserves to be critical."),
    "list": Extra(
        _list,
        lambda: [_flag("--forgotten", "Those that were deleted on request.")],
        about="Browse memories, newest first.",
    ),
    "why": Extra(_why, _why_options),
    "triggers": Extra(
        _triggers,
        _triggers_options,
        about="Memories whose trigger phrases occur in a prompt. Without a prompt: all phrases.",
    ),
    "delete": Extra(_delete, about="Forget one memory, or all of a spec folder. Files stay."),
    "checkpoint restore": Extra(_restore, lambda: [_flag("--yes", "Do not ask.")]),
    "health": Extra(
        _health,
        lambda: [_flag("--full", "Look at all of a large index, however long that takes.")],
    ),
}
