"""What do commands do on a terminal in addition to calling their tool's verb?

They show progress and a dashboard, ask for confirmation before something is destroyed, and draw graphs.
Each entry of `EXTRAS` can add options, and runs in place of the plain call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from spec_kit_memory.core.links import DRAWINGS
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import MissingParameter
from spec_kit_memory.parameters import Request
from spec_kit_memory.serve.cli.invocation import Invocation, call, checked

if TYPE_CHECKING:
    from spec_kit_memory.answers import Card
    from spec_kit_memory.workspace import Workspace

Values = dict[str, Any]


def _plain(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    session.show(call(session, kind, values), verb=kind.verb)


@dataclass(frozen=True, slots=True)
class Extra:
    run: Callable[[Invocation, type[Request], Values, Values], None] = _plain
    options: Callable[[], list[click.Parameter]] = list


PLAIN = Extra()


def _flag(name: str, about: str) -> click.Option:
    return click.Option([name], is_flag=True, help=about)


# --- search -----------------------------------------------------------------------------------


def _search(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    if values:
        _plain(session, kind, values, extra_options)
    else:
        dashboard(session)


def dashboard(session: Invocation) -> None:
    """`skm search` without arguments: statistics, the newest memories, and suggestions."""
    from spec_kit_memory.serve.cli import answer_view
    from spec_kit_memory.serve.cli.overview import Overview

    with session.open() as workspace:
        stats = workspace.stats(limit=5)
        newest = workspace.list(limit=5)
    answer = Overview.of(stats, newest, personal=session.personal)
    now = datetime.now(UTC)
    lines: list[answer_view.Block] = [*answer_view.blocks(stats, now=now)]
    if newest.memories:
        lines += [answer_view.Line("Newest", "title"), answer_view.cards(newest.memories, now)]
    lines += [answer_view.Line(f"Try: {suggestion}", "hint") for suggestion in answer.suggestions]
    session.show(answer, blocks=lines)


# --- index --------------------------------------------------------------------------------------


def _index(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    from spec_kit_memory.serve.cli.terminal import progress

    with progress("Indexing", quiet=session.json) as step:
        answer = call(session, kind, values, progress=step)
    session.show(answer, verb=kind.verb)


# --- reading ---------------------------------------------------------------------------------------


def _get(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    # The form in which search prints a place: path:42-56.
    match = re.fullmatch(r"(?P<path>.+):(?P<lines>\d+(?:-\d+)?)", str(values.get("path", "")))
    if match and "lines" not in values:
        values |= match.groupdict()
    _plain(session, kind, values, extra_options)


def _why(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    session.show(call(session, kind, values), verb=kind.verb, form=extra_options["form"])


def _why_options() -> list[click.Parameter]:
    return [
        click.Option(["form", "--format"], type=click.Choice(tuple(DRAWINGS)), default="tree", help="How to draw it.")
    ]


# --- triggers --------------------------------------------------------------------------------------


def _triggers(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    if extra_options["memory"] is not None:
        _edit_phrases(session, extra_options["memory"], added=extra_options["add"], removed=extra_options["remove"])
    elif extra_options["add"] or extra_options["remove"]:
        raise click.UsageError("--add and --remove need --id.", click.get_current_context())
    elif values.get("prompt"):
        _plain(session, kind, values, extra_options)
    else:
        _list_phrases(session)


def _triggers_options() -> list[click.Parameter]:
    return [
        click.Option(["memory", "--id"], type=int, help="Edit this memory's phrases."),
        click.Option(["--add"], multiple=True, metavar="PHRASE", help="Add a phrase (with --id)."),
        click.Option(["--remove"], multiple=True, metavar="PHRASE", help="Remove a phrase (with --id)."),
    ]


def _edit_phrases(session: Invocation, memory_id: int, *, added: tuple[str, ...], removed: tuple[str, ...]) -> None:
    with session.open() as workspace:
        phrases = workspace.load(memory_id=memory_id, max_tokens=100).memory.triggers
        if not added and not removed:
            session.write("\n".join(phrases))
            return
        changed = workspace.update(memory_id, add_trigger_phrases=added, remove_trigger_phrases=removed)
        session.show(changed, verb="update")


def _list_phrases(session: Invocation) -> None:
    from spec_kit_memory.serve.cli import answer_view
    from spec_kit_memory.serve.cli.overview import PhraseRow, Phrases

    with session.open() as workspace:
        rows = [(phrase, card) for card in every_card(workspace) for phrase in card.triggers]
    rows.sort(key=lambda row: (row[0].casefold(), row[1].id))
    answer = Phrases(
        outcome=counted(len(rows), "trigger phrase"),
        advice=('`skm triggers --id ID --add "…"` adds one, --remove takes one away.',) if session.interactive else (),
        phrases=tuple(PhraseRow(phrase=phrase, id=card.id, title=card.title) for phrase, card in rows),
    )
    table = answer_view.Table(
        ("phrase", "id", "title"), tuple((p, str(c.id), c.title) for p, c in rows), frozenset({1})
    )
    session.show(
        answer,
        blocks=[table, answer_view.Line(answer.summary, "dim"), *(answer_view.Line(h, "hint") for h in answer.hints)],
    )


def every_card(workspace: Workspace) -> Iterator[Card]:
    offset = 0
    while True:
        page = workspace.list(limit=100, offset=offset)
        yield from page.memories
        offset += len(page.memories)
        if not page.memories or offset >= page.total:
            return


# --- destructive commands -------------------------------------------------------------------------------


def _delete(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    if "spec_folder" in values and "id" not in values and not values.get("confirm"):
        with session.open() as workspace:
            total = workspace.list(spec_folder=values["spec_folder"], limit=1).total
        if total:  # otherwise the verb says that there is nothing, and which folder was probably meant
            what = f"Forget every memory of {values['spec_folder']} ({total})"
            _confirm(session, extra_options, what, then="A checkpoint is made first.")
        values["confirm"] = True
    _plain(session, kind, values, extra_options)


def _restore(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    checked(kind, values)
    if not extra_options["yes"] and _may_be_checkpoint(session, values["name"]):
        what = f"Restore {values['name']!r} over what is there"
        _confirm(session, extra_options, what, then="A checkpoint is made first.")
    _plain(session, kind, values, extra_options)


def _delete_checkpoint(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    checked(kind, values)
    if not extra_options["yes"] and _may_be_checkpoint(session, values["name"]):
        _confirm(session, extra_options, f"Delete the checkpoint {values['name']!r}", then="Nothing brings it back.")
    _plain(session, kind, values, extra_options)


def _may_be_checkpoint(session: Invocation, name: str) -> bool:
    """Is there such a checkpoint, or one that cannot be read? If not, the verb says so, and there is nothing to ask."""
    with session.open() as workspace:
        answer = workspace.checkpoint_list(limit=100)
    return any(row.name == name for row in answer.checkpoints) or any(name in hint for hint in answer.hints)


def _confirm(session: Invocation, extra_options: Values, what: str, *, then: str) -> None:
    """Ask for confirmation; without a terminal, require --yes."""
    if extra_options["yes"]:
        return
    if not session.interactive:
        raise MissingParameter(f"{what}? Nobody can be asked here", hint="say --yes to go ahead; nothing was changed")
    click.confirm(f"{what}? {then}", abort=True)


def _health(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    answer = call(session, kind, values)
    session.show(answer, verb=kind.verb)
    # Scripts check the exit code.
    session.exit_code = 0 if answer.healthy else 1


# --- ledger and chat ------------------------------------------------------------------------------------


def _ledger_verify(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    answer = call(session, kind, values)
    session.show(answer)
    session.exit_code = 0 if answer.ok else 1


def _ledger_head(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    answer = call(session, kind, values)
    if session.json:
        session.show(answer)
    else:
        session.write(answer.summary)


def _chat_import(session: Invocation, kind: type[Request], values: Values, extra_options: Values) -> None:
    if not values:
        raise click.UsageError("Missing argument 'PATH...'.", click.get_current_context())
    _plain(session, kind, values, extra_options)


EXTRAS: Mapping[str, Extra] = {
    "search": Extra(_search),
    "index": Extra(_index),
    "get": Extra(_get),
    "why": Extra(_why, _why_options),
    "triggers": Extra(_triggers, _triggers_options),
    "delete": Extra(_delete, lambda: [_flag("--yes", "Do not ask.")]),
    "checkpoint restore": Extra(_restore, lambda: [_flag("--yes", "Do not ask.")]),
    "checkpoint delete": Extra(_delete_checkpoint, lambda: [_flag("--yes", "Do not ask.")]),
    "health": Extra(_health),
    "ledger verify": Extra(_ledger_verify),
    "ledger head": Extra(_ledger_head),
    "chat import": Extra(_chat_import),
}
