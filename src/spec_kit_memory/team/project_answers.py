"""How are the answers of several projects combined? By the match of each result, regardless of its project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from spec_kit_memory.advice import Value, finding, outcome
from spec_kit_memory.answers import Explanation, Freshness, HeldBack, Rule, SearchAnswer
from spec_kit_memory.features import personal


def joined_projects(answers: Mapping[str, SearchAnswer], *, limit: int) -> SearchAnswer:
    """Merge by score, which is comparable between projects (the best has 100 · match); ties by name and rank.

    Each project keeps its own order: a memory that supersedes another ranks above it, whatever its score.
    """
    ranked = []
    for name, answer in answers.items():
        reached = float("inf")
        for rank, result in enumerate(answer.results):
            reached = min(reached, result.score)  # never above an earlier result of its own project
            ranked.append((-reached, name, rank, replace(result, project=name)))
    results = tuple(row[3] for row in sorted(ranked, key=lambda row: row[:3])[:limit])
    first = next(iter(answers.values()))
    rules: tuple[Rule, ...] = ()
    for name, answer in answers.items():
        rules = personal.joined_rules(rules, [replace(rule, project=name) for rule in answer.constitutional])
    shares = {name: sum(result.project == name for result in results) for name in answers}
    where = tuple(outcome("in-project", count=count, name=name) for name, count in shares.items() if count)
    advice = dict.fromkeys(hint for answer in answers.values() for hint in answer.advice)
    amounts: dict[str, Value] = {"shown": len(results), "projects": len(answers)}
    return replace(
        first,
        outcome=outcome("found-in-projects-where", **amounts, where=where)
        if where
        else outcome("found-in-projects", **amounts),
        advice=personal.without_complaints(advice) if any(map(personal.answers, answers.values())) else tuple(advice),
        method="hybrid" if any(answer.method == "hybrid" for answer in answers.values()) else first.method,
        results=results,
        constitutional=rules,
        total_found=sum(answer.total_found for answer in answers.values()),
        concepts={},
        held_back=_held_back([answer.held_back for answer in answers.values()]),
        unavailable=tuple(
            dict.fromkeys(
                finding("in-one-project", name=name, reason=reason)
                for name, answer in answers.items()
                for reason in answer.unavailable
            )
        ),
        stats={
            key: sum(answer.stats.get(key, 0) for answer in answers.values())
            for key in dict.fromkeys(key for answer in answers.values() for key in answer.stats)
        },
        freshness=Freshness(),
        tokens_saved=sum(answer.tokens_saved for answer in answers.values()),
        contiguous=(),
        explain=Explanation(),
    )


def _held_back(parts: list[HeldBack]) -> HeldBack:
    """The sums of all counts. Ids are only unique within a project, so no result is named."""
    names = [field.name for field in fields(HeldBack) if field.name != "best"]
    return HeldBack(**{name: sum(getattr(part, name) for part in parts) for name in names})
