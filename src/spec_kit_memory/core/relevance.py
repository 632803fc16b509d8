"""How well does each passage match the query, all legs taken together?

In come passages with the numbers that the legs gave them: text (BM25), vector (cosine) and
late (mean best match of the query's words); out comes one relevance, 0 to 1, and its parts.
A leg that is missing everywhere leaves its weight to the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Candidate", "Relevance", "fuse"]

RRF_K = 60
WEIGHTS = {"late": 0.5, "text": 0.35, "vector": 0.15}
# Without late interaction the two other legs are about equally good.
WEIGHTS_WITHOUT_LATE = {"text": 0.5, "vector": 0.5}
NEIGHBOUR_WEIGHT = 0.1
SESSION_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that at least one leg found. None: that leg did not give it a number."""

    passage_id: int
    memory_id: int
    ordinal: int
    speaker: str = ""  # not empty: a turn of a conversation
    tokens: int = 0
    text: float | None = None
    vector: float | None = None
    late: float | None = None


@dataclass(frozen=True, slots=True)
class Relevance:
    value: float  # 0 to 1
    parts: Mapping[str, float] = field(default_factory=dict)  # what it is made of, for explanations


def fuse(
    candidates: Sequence[Candidate], *, method: str = "best", role_prior: Mapping[str, float] | None = None
) -> dict[int, Relevance]:
    """The relevance of every candidate by its passage id.

    "rrf" is plain reciprocal rank over text and vector, divided by the best possible. `role_prior`
    adds to the relevance of a speaker's turns; only "best" knows it.
    """
    if not candidates:
        return {}
    if method == "rrf":
        return _reciprocal_rank(candidates)
    if method != "best":
        raise ValueError(f"fusion must be 'best' or 'rrf', not {method!r}")
    parts = _legs(candidates)
    totals = {passage_id: sum(of.values()) for passage_id, of in parts.items()}
    for name, amounts in (
        ("conversation", _conversation(candidates, totals)),
        ("role", _roles(candidates, role_prior or {})),
    ):
        for passage_id, amount in amounts.items():
            parts[passage_id][name] = amount
    return _scaled(parts)


def _reciprocal_rank(candidates: Sequence[Candidate]) -> dict[int, Relevance]:
    parts: dict[int, dict[str, float]] = {each.passage_id: {} for each in candidates}
    legs = 0
    for name, number in (("text", _text), ("vector", _vector)):
        found = sorted(_numbered(candidates, number), key=lambda pair: (-pair[1], pair[0].passage_id))
        legs += bool(found)
        for rank, (each, _) in enumerate(found, 1):
            parts[each.passage_id][name] = 1.0 / (RRF_K + rank)
    best = max(legs, 1) / (RRF_K + 1)
    return {
        passage_id: Relevance(sum(of.values()) / best, {name: amount / best for name, amount in of.items()})
        for passage_id, of in parts.items()
    }


def _legs(candidates: Sequence[Candidate]) -> dict[int, dict[str, float]]:
    """Each leg min-max over the candidates, times its weight."""
    available = {name: number for name, number in _NUMBERS.items() if any(_numbered(candidates, number))}
    table = WEIGHTS if "late" in available else WEIGHTS_WITHOUT_LATE
    weights = {name: table[name] for name in available}
    whole = sum(weights.values()) or 1.0
    parts: dict[int, dict[str, float]] = {each.passage_id: {} for each in candidates}
    for name, number in available.items():
        found = list(_numbered(candidates, number))
        low = min(value for _, value in found)
        span = max(value for _, value in found) - low
        for each, value in found:
            share = (value - low) / span if span > 0 else 1.0
            parts[each.passage_id][name] = share * weights[name] / whole
    return parts


def _conversation(candidates: Sequence[Candidate], totals: Mapping[int, float]) -> dict[int, float]:
    """What a turn gains from the turns around it: an answer stands beside its question, a topic fills a session."""
    by_memory: dict[int, dict[int, float]] = defaultdict(dict)
    turns = [each for each in candidates if each.speaker]
    for each in turns:
        by_memory[each.memory_id][each.ordinal] = totals[each.passage_id]
    best_two = {memory: sum(sorted(of.values())[-2:]) / 2 for memory, of in by_memory.items()}
    return {
        each.passage_id: NEIGHBOUR_WEIGHT
        * sum(by_memory[each.memory_id].get(each.ordinal + step, 0.0) for step in (-1, 1))
        + SESSION_WEIGHT * best_two[each.memory_id]
        for each in turns
    }


def _roles(candidates: Sequence[Candidate], prior: Mapping[str, float]) -> dict[int, float]:
    return {each.passage_id: prior[each.speaker] for each in candidates if prior.get(each.speaker)}


def _scaled(parts: Mapping[int, Mapping[str, float]]) -> dict[int, Relevance]:
    """Over the best candidate, so that the best has 1 and the parts still add up."""
    totals = {passage_id: sum(of.values()) for passage_id, of in parts.items()}
    best = max(totals.values())
    if best <= 0:
        return {passage_id: Relevance(0.0, dict(of)) for passage_id, of in parts.items()}
    return {
        passage_id: Relevance(max(0.0, totals[passage_id] / best), {name: amount / best for name, amount in of.items()})
        for passage_id, of in parts.items()
    }


def _text(each: Candidate) -> float | None:
    return each.text


def _vector(each: Candidate) -> float | None:
    return each.vector


def _late(each: Candidate) -> float | None:
    return each.late


_NUMBERS: dict[str, Callable[[Candidate], float | None]] = {"text": _text, "vector": _vector, "late": _late}


def _numbered(
    candidates: Iterable[Candidate], number: Callable[[Candidate], float | None]
) -> Iterable[tuple[Candidate, float]]:
    for each in candidates:
        value = number(each)
        if value is not None:
            yield each, value
