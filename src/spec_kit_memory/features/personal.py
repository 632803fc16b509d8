"""How are the answers of a project and of the user's personal vault combined?

The vault is a workspace of its own, with its own index, ids, ledger and checkpoints; only answers are combined here, on
this machine, and nothing from one is ever written to the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spec_kit_memory.advice import Advice, Text, outcome
from spec_kit_memory.answers import ContextAnswer, FlatResult, Result, Rule, SearchAnswer, TriggerAnswer
from spec_kit_memory.core import calibration, tokens
from spec_kit_memory.core.memory import FIRST_PERSONAL_ID
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.parameters import Request
from spec_kit_memory.requests import SearchRequest

PERSONAL = "personal"
# The vault gets one part in so many of an answer's budget, if it has an answer.
SHARE_DIVISOR = 4
RULES_MOST, RULES_TOKENS = 3, 500
_FOUND_NOTHING = frozenset(("nothing-close", "other-words"))
_IDS = ("id", "memory_id", "source_id", "target_id", "into")


def is_personal(memory_id: int) -> bool:
    return memory_id >= FIRST_PERSONAL_ID


def names_personal(request: Request) -> bool:
    """Is a request about memories of the vault? One that names memories of both is refused."""
    ids = [value for name in _IDS if isinstance(value := getattr(request, name, None), int)]
    vaults = {is_personal(value) for value in ids}
    if vaults == {True, False}:
        raise BadParameter(
            f"{' and '.join(map(str, ids))} are memories of two vaults: personal memory is never linked or merged "
            "with a project's",
            hint="link and merge within a project, or within personal memory",
        )
    return True in vaults or getattr(request, "vault", None) == PERSONAL


def share(request: SearchRequest, max_tokens: int) -> SearchRequest:
    """The request to the vault: the same, with the vault's share of the budget."""
    return request.replace(max_tokens=max(100, max_tokens // SHARE_DIVISOR))


def answers(answer: SearchAnswer) -> bool:
    """Does the vault's answer contain a real match, rather than merely the nearest memories?"""
    return any(result.match is None or result.match > calibration.UNCLEAR for result in answer.results)


def joined_search(project: SearchAnswer, own: SearchAnswer, *, limit: int) -> SearchAnswer:
    """Merge the results by score, each side in its own order; the project's rules come first, under one limit."""
    marked = [replace(result, vault=PERSONAL) for result in own.results if _is_answer(result)]
    results = _by_score(list(project.results), marked)[:limit]
    personal_count = sum(result.vault == PERSONAL for result in results)
    if not personal_count:
        said = project.outcome
    elif results[0].vault == PERSONAL:
        said = _personal_first(project, results[0], personal_count)
    else:
        said = _with_personal(project, personal_count)
    return replace(
        project,
        outcome=said,
        advice=without_complaints(project.advice) if personal_count else project.advice,
        results=tuple(results),
        constitutional=joined_rules(project.constitutional, own.constitutional),
        total_found=project.total_found + (own.total_found if marked else 0),
    )


def _is_answer(result: Result | FlatResult) -> bool:
    return result.match is None or result.match > calibration.UNCLEAR


def _by_score(left: list[Result | FlatResult], right: Sequence[Result | FlatResult]) -> list[Result | FlatResult]:
    merged: list[Result | FlatResult] = []
    rest = list(right)
    for result in left:
        while rest and rest[0].score > result.score:
            merged.append(rest.pop(0))
        merged.append(result)
    return [*merged, *rest]


def joined_rules(project: Sequence[Rule], own: Sequence[Rule]) -> tuple[Rule, ...]:
    rules = list(project)
    texts = sum(bool(rule.text) for rule in rules)
    room = RULES_TOKENS - sum(tokens.count(f"{rule.title}{rule.text}") for rule in rules)
    for rule in own:
        size = tokens.count(f"{rule.title}{rule.text}")
        if rule.text and texts < RULES_MOST and size <= room:
            rules.append(rule)
            texts, room = texts + 1, room - size
        elif tokens.count(rule.title) <= room:
            rules.append(replace(rule, text=""))
            room -= tokens.count(rule.title)
    return tuple(rules)


def joined_triggers(project: TriggerAnswer, own: TriggerAnswer, *, limit: int) -> TriggerAnswer:
    if not own.matches:
        return project
    matches = sorted(
        [*project.matches, *(replace(match, vault=PERSONAL) for match in own.matches)],
        key=lambda match: (match.via is not None, -len(match.phrases), -max(map(len, match.phrases), default=0)),
    )
    return replace(project, outcome=_with_personal(project, len(own.matches)), matches=tuple(matches[:limit]))


def _with_personal(project: SearchAnswer | TriggerAnswer, count: int) -> Advice:
    return outcome("with-personal", outcome=project.outcome, count=count)


def _personal_first(project: SearchAnswer, best: Result | FlatResult, count: int) -> Advice:
    score = best.score * 100 if isinstance(best, FlatResult) else best.score
    return outcome("personal-first", count=count, title=best.title, score=f"{score:.0f}", outcome=project.outcome)


def without_complaints(advice: Iterable[Text]) -> tuple[Text, ...]:
    """Without what one of several answers says about finding nothing, because another one has an answer."""
    return tuple(one for one in advice if not (isinstance(one, Advice) and one.code in _FOUND_NOTHING))


def joined_context(project: ContextAnswer, own: ContextAnswer, *, max_tokens: int) -> ContextAnswer:
    """The project's context, followed by that of personal memory if there is room."""
    if not own.parts:
        return project
    text = f"{project.text}\n\n# Personal memory\n\n{own.text}" if project.text else own.text
    if tokens.count(text) > max_tokens:
        return project
    return replace(project, text=text, parts=(*project.parts, *own.parts))
