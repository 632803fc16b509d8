"""Which memories could be removed, and what does a person decide about each?

In a pipe the command only lists them. On a terminal it asks about each: keep, outdated, delete, or stop.
The program decides nothing itself, and `skm undo` reverts every decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from spec_kit_memory.core.memory import State, Tier
from spec_kit_memory.core.wording import counted
from spec_kit_memory.serve.cli import answer_view, terminal
from spec_kit_memory.serve.cli.interactive import every_card
from spec_kit_memory.serve.cli.overview import Candidates, CleanupRow

if TYPE_CHECKING:
    from spec_kit_memory.answers import Card
    from spec_kit_memory.serve.cli.invocation import Invocation
    from spec_kit_memory.workspace import Workspace

# Below this confidence, a memory was judged unhelpful more often than helpful.
DOUBTED = 0.4


def reasons(card: Card, now: datetime, *, older_than: int | None = None) -> str:
    """Why this memory should be reviewed; empty if it need not be."""
    created = card.created_at or card.updated_at
    if older_than is not None and (now - created).total_seconds() < older_than * 86_400:
        return ""
    if card.tier in (Tier.CONSTITUTIONAL, Tier.CRITICAL):
        return ""
    texts = []
    if card.tier is Tier.DEPRECATED:
        texts.append("deprecated")
    if card.tier is Tier.TEMPORARY:
        texts.append("temporary")
    if card.state in (State.ARCHIVED, State.DORMANT):
        texts.append(card.state.value.lower())
    if card.validation_count and card.confidence < DOUBTED:
        texts.append("doubted")
    if card.code and card.code.gone:
        texts.append(f"its code is gone ({', '.join(card.code.gone)})")
    if older_than is not None:
        texts.append(f"older than {counted(older_than, 'day')}")
    return ", ".join(texts)


def walk(session: Invocation, *, older_than: int | None = None) -> None:
    now = datetime.now(UTC)
    with session.open() as workspace:
        candidates = [
            (card, why)
            for card in every_card(workspace)
            # Cleaning up a project leaves out personal memories; with --personal, the vault's own have no `vault`.
            if not card.vault and (why := reasons(card, now, older_than=older_than))
        ]
        answer = Candidates(
            outcome=f"{counted(len(candidates), 'memory')} to look at" if candidates else "Nothing to clean up",
            candidates=tuple(
                CleanupRow(id=card.id, title=card.title, path=card.path, why=why, created=card.created_at)
                for card, why in candidates
            ),
        )
        session.show(answer, blocks=_table(candidates, now, answer.summary))
        if session.interactive and candidates:
            session.say(_tally(_confirm_each(session, workspace, candidates)))


def _table(candidates: list[tuple[Card, str]], now: datetime, summary: str) -> list[answer_view.Block]:
    rows = tuple((str(card.id), card.title, ago(card, now), why) for card, why in candidates)
    return [
        answer_view.Table(("id", "title", "created", "why"), rows, frozenset({0})),
        answer_view.Line(summary, "dim"),
    ]


def ago(card: Card, now: datetime) -> str:
    return answer_view.ago(card.created_at or card.updated_at, now)


def _confirm_each(session: Invocation, workspace: Workspace, candidates: list[tuple[Card, str]]) -> Iterator[str]:
    for card, why in candidates:
        terminal.show(
            [answer_view.Line(f"{card.title}  [{card.id}]  {why}", "title"), answer_view.Line("   " + card.path, "dim")]
        )
        while True:
            choice = click.prompt(
                "(k)eep, (v)iew, (o)utdated, (d)elete, (s)top",
                type=click.Choice(("k", "v", "o", "d", "s")),
                default="k",
                show_choices=False,
            )
            if choice != "v":
                break
            session.show(workspace.load(memory_id=card.id, max_tokens=600))
        if choice == "s":
            return
        if choice == "o":
            workspace.validate(id=card.id, outdated=True)
            yield "marked outdated"
        elif choice == "d":
            workspace.delete(id=card.id)
            yield "deleted"
        else:
            yield "kept"


def _tally(decisions: Iterator[str]) -> str:
    counts = Counter(decisions)
    amounts = ", ".join(f"{number} {what}" for what, number in counts.items()) or "nothing decided"
    return f"{amounts}. `skm undo` takes back the last one."
