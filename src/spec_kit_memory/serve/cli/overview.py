"""What do commands without a tool of their own return? Small answer classes, which `--json` prints as well."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from spec_kit_memory.answers import Answer, Card, ListAnswer, StatsAnswer
from spec_kit_memory.core.lean_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class Overview(Answer):
    """The dashboard."""

    totals: Mapping[str, int]
    tiers: Mapping[str, int]
    states: Mapping[str, int]
    vectors: Mapping[str, int]
    newest: tuple[Card, ...] = ()
    suggestions: tuple[str, ...] = ()

    @classmethod
    def of(cls, stats: StatsAnswer, newest: ListAnswer, *, personal: bool = False) -> Overview:
        vault = " --personal" if personal else ""
        return cls(
            outcome=stats.outcome,
            totals=stats.totals,
            tiers=stats.tiers,
            states=stats.states,
            vectors=stats.vectors,
            newest=newest.memories,
            suggestions=tuple(_suggestions(stats, newest, vault)),
            meta=stats.meta,
        )


def _suggestions(stats: StatsAnswer, newest: ListAnswer, vault: str) -> list[str]:
    if not newest.memories:
        return [f"skm index{vault}", f'skm save{vault} --text "what to remember"']
    commands = [f'skm search{vault} "what did we decide about …"', f"skm load {newest.memories[0].id}{vault}"]
    if stats.vectors.get("pending") or stats.vectors.get("retry"):
        commands.append(f"skm index{vault} (some vectors are pending)")
    if stats.vectors.get("failed"):
        commands.append(f"skm health{vault} (some vectors failed)")
    if stats.states.get("DORMANT", 0) + stats.states.get("ARCHIVED", 0):
        commands.append(f"skm cleanup{vault} (some memories are old)")
    return commands


@dataclass(frozen=True, kw_only=True)
class PhraseRow:
    phrase: str
    id: int
    title: str


@dataclass(frozen=True, kw_only=True)
class Phrases(Answer):
    phrases: tuple[PhraseRow, ...]


@dataclass(frozen=True, kw_only=True)
class CleanupRow:
    id: int
    title: str
    path: str
    why: str
    created: datetime | None


@dataclass(frozen=True, kw_only=True)
class Candidates(Answer):
    """Memories that a person may want to clean up, with reasons."""

    candidates: tuple[CleanupRow, ...]


@dataclass(frozen=True, kw_only=True)
class Values(Answer):
    """Settings with their sources."""

    root: str
    user_file: str
    settings: tuple[Mapping[str, Any], ...]  # not rows of their own: a value that is unset is shown as null
    problems: tuple[str, ...] = ()  # errors in the configuration; refused values are not in `settings`


@dataclass(frozen=True, kw_only=True)
class CommandAnswer(Answer):
    """A result that is little more than a list of created paths."""

    paths: tuple[str, ...] = ()
