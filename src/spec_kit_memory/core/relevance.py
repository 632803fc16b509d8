"""How well does each passage match the query, all legs taken together?

In come passages with the numbers that the legs gave them: text (BM25), vector (cosine) and
late (mean best match of the query's words); out comes one relevance, 0 to 1, and its parts.
The formula and what each piece of it is worth stand in docs/explain/ranking.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log

__all__ = ["Candidate", "Relevance", "fuse"]

RRF_K = 60

# What late interaction and vectors are worth beside each other, as cosines; text, as share of the best text match.
LATE_WEIGHT = 1.0
VECTOR_WEIGHT = 0.5
TEXT_WEIGHT = 0.12
# The more words a passage has, the better the best of them matches anything.
LENGTH_DISCOUNT = 0.04  # per e-fold of tokens
SHORTEST_TOKENS, LONGEST_TOKENS = 32, 512  # a bare title gains nothing; the model reads no more than the latter
# What passages score that have nothing to do with the query. Where few passages are candidates,
# the worst of them may be good: it should not be called worthless.
UNRELATED_LATE = 0.05
UNRELATED_VECTOR = 0.50

# Without late interaction, text and vector count alike; a vector's worth is its place between the
# best and the worst, as models differ in their scale.
TEXT_SHARE = 0.5
LEAST_VECTOR_SPAN = 0.2

# An answer stands beside its question, and a session has a topic.
NEIGHBOUR_WEIGHT = 0.15
SESSION_WEIGHT = 0.5
# A turn with usual neighbours, the best of its session, comes out as it went in: chats and documents mix fairly.
TURN_SCALE = 1.0 / (1.0 + NEIGHBOUR_WEIGHT + SESSION_WEIGHT)

Parts = dict[str, float]


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
    value: float  # 0 to 1; the best candidate has 1
    parts: Mapping[str, float] = field(default_factory=dict)  # what it is made of; they add up to it


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
    with_late = any(each.late is not None for each in candidates)
    parts = _by_late_interaction(candidates) if with_late else _by_text_and_vector(candidates)
    _talk(candidates, parts)
    found = _over_the_best(parts)
    priors = {name: prior for name, prior in (role_prior or {}).items() if prior and name}
    if any(each.speaker in priors for each in candidates):
        for each, of in zip(candidates, found, strict=True):
            if each.speaker in priors:
                of["role"] = priors[each.speaker]
        found = _over_the_best(found)
    return {
        each.passage_id: Relevance(max(0.0, sum(of.values())), of) for each, of in zip(candidates, found, strict=True)
    }


def _reciprocal_rank(candidates: Sequence[Candidate]) -> dict[int, Relevance]:
    parts: dict[int, Parts] = {each.passage_id: {} for each in candidates}
    legs = 0
    for name, number in (("text", _text), ("vector", _vector)):
        found = [(value, each.passage_id) for each in candidates if (value := number(each)) is not None]
        found.sort(key=lambda pair: (-pair[0], pair[1]))
        legs += bool(found)
        for rank, (_, passage_id) in enumerate(found, 1):
            parts[passage_id][name] = 1.0 / (RRF_K + rank)
    best = max(legs, 1) / (RRF_K + 1)
    return {
        passage_id: Relevance(sum(of.values()) / best, {name: amount / best for name, amount in of.items()})
        for passage_id, of in parts.items()
    }


def _text(each: Candidate) -> float | None:
    return each.text


def _vector(each: Candidate) -> float | None:
    return each.vector


def _late(each: Candidate) -> float | None:
    if each.late is None:
        return None
    return each.late - LENGTH_DISCOUNT * log(min(max(each.tokens, SHORTEST_TOKENS), LONGEST_TOKENS))


def _by_late_interaction(candidates: Sequence[Candidate]) -> list[Parts]:
    """Cosines as they are: nothing but the floor and the best text match depends on who else is a candidate."""
    text = _text_shares(candidates)
    vector = _Scale(candidates, _vector, floor=UNRELATED_VECTOR)
    late = _Scale(candidates, _late, floor=UNRELATED_LATE)
    parts = []
    for each, share in zip(candidates, text, strict=True):
        above, interaction = vector.of(each), late.of(each)
        if interaction is None:
            # Its vectors are still to come, or it has no word that counts: as good as what is known of it.
            interaction = late.span * (share if above is None else vector.share(above))
            above = vector.span * share if above is None else above
        # A vector below the depth of that leg is at most as good as the last one in it.
        near = vector.lowest if above is None else above
        parts.append({"text": TEXT_WEIGHT * share, "vector": VECTOR_WEIGHT * near, "late": LATE_WEIGHT * interaction})
    return parts


def _by_text_and_vector(candidates: Sequence[Candidate]) -> list[Parts]:
    text = _text_shares(candidates)
    values = [each.vector for each in candidates if each.vector is not None]
    if not values:
        return [{"text": share} for share in text]
    vector = _Scale(candidates, _vector, floor=max(values) - LEAST_VECTOR_SPAN)
    shares = [vector.share(vector.of(each) or 0.0) for each in candidates]
    if all(each.text is None for each in candidates):
        return [{"vector": share} for share in shares]
    return [
        {"text": TEXT_SHARE * by_text, "vector": (1.0 - TEXT_SHARE) * by_vector}
        for by_text, by_vector in zip(text, shares, strict=True)
    ]


class _Scale:
    """A leg's numbers counted from its floor: a fixed one, or the lowest number if that is below."""

    def __init__(
        self, candidates: Sequence[Candidate], number: Callable[[Candidate], float | None], *, floor: float
    ) -> None:
        values = [value for each in candidates if (value := number(each)) is not None]
        self._number = number
        self._floor = min(values, default=floor)
        self.lowest = max(0.0, self._floor - floor)
        self._floor = min(self._floor, floor)
        self.span = max(values, default=self._floor) - self._floor

    def of(self, each: Candidate) -> float | None:
        value = self._number(each)
        return None if value is None else value - self._floor

    def share(self, above: float) -> float:
        return above / self.span if self.span > 0 else 1.0


def _text_shares(candidates: Sequence[Candidate]) -> list[float]:
    """Each text match over the best one; 0 where the text did not match."""
    values = [each.text for each in candidates if each.text is not None]
    low = min(0.0, *values) if values else 0.0
    span = max(values, default=0.0) - low
    return [0.0 if each.text is None else (each.text - low) / span if span > 0 else 1.0 for each in candidates]


def _talk(candidates: Sequence[Candidate], parts: Sequence[Parts]) -> None:
    """Add what a turn gains from the turns beside it and from its session.

    Only what another speaker said counts as beside: a long message is several passages, and
    those say little about each other that the message does not say itself. The worst candidate
    counts as much as one that is no candidate.
    """
    turns = [(each, of, sum(of.values())) for each, of in zip(candidates, parts, strict=True) if each.speaker]
    at = {(each.memory_id, each.ordinal): (each.speaker, total) for each, _, total in turns}
    least = min((total for _, _, total in turns), default=0.0)
    best: dict[int, float] = {}
    for each, _, total in turns:
        best[each.memory_id] = max(total, best.get(each.memory_id, 0.0))
    for each, of, _ in turns:
        beside = 0.0
        for ordinal in (each.ordinal - 1, each.ordinal + 1):
            speaker, total = at.get((each.memory_id, ordinal), (each.speaker, 0.0))
            if speaker != each.speaker:
                beside += total - least
        for name in of:
            of[name] *= TURN_SCALE
        of["neighbours"] = NEIGHBOUR_WEIGHT * TURN_SCALE * beside
        of["session"] = SESSION_WEIGHT * TURN_SCALE * best[each.memory_id]


def _over_the_best(parts: Sequence[Parts]) -> list[Parts]:
    best = max(sum(of.values()) for of in parts)
    if best <= 0:
        return [dict(of) for of in parts]
    return [{name: amount / best for name, amount in of.items()} for of in parts]
