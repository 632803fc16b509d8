"""How well does each passage match the query, by text and by meaning together?

The input is passages with the scores of the search legs: text (BM25), vector (cosine) and late
interaction (how well each word of the query matches its best counterpart). The output is one
relevance from 0 to 1, and its parts. docs/explain/ranking.md has the formula and the measured
effect of each part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    Floats = npt.NDArray[np.float64]

RRF_K = 60

# Weights of the legs: cosines are used unscaled, text is the share of a full match.
VECTOR_WEIGHT = 0.5
TEXT_WEIGHT = 0.4
# Added to the standard deviation of a word's matches before dividing by it, so that with few passages, or a word that
# matches all of them equally, no word gets an extreme weight.
EVEN = 0.1
# Longer messages match any query better by chance. Passages of documents all have about the same size.
LENGTH_DISCOUNT = 0.06  # per e-fold of tokens
USUAL_TOKENS, MOST_TOKENS = 64, 512  # a typical message; the model's window
# The score of a passage with nothing in common with the query, which is mapped to relevance 0. With few candidates
# even the worst may be good, and must not become 0.
UNRELATED = 0.45

# Relevance is raised to this power: half as good counts a quarter, so that importance and age, which are applied
# later, reorder only results of nearly equal relevance.
STEEPNESS = 2

# Without late interaction, text and vector count equally; a vector by its position between the worst and the best,
# since models differ in their scale.
TEXT_SHARE = 0.5
LEAST_VECTOR_SPAN = 0.2

# Turns gain from their neighbours and their session: an answer follows its question, and a session has a topic.
WORD_NEIGHBOUR_WEIGHT = 0.5
NEIGHBOUR_WEIGHT = 0.15  # without late interaction
SESSION_WEIGHT = 0.5


class Candidate(NamedTuple):
    """A passage that at least one leg found. None: that leg has no score for it."""

    passage_id: int
    memory_id: int
    ordinal: int
    speaker: str = ""  # not empty: a turn of a conversation
    tokens: int = 0
    text: float | None = None  # BM25 as the share of a full match
    vector: float | None = None
    pending: bool = False  # it has no vector yet; needed only without late interaction


class Relevance(NamedTuple):
    value: float  # 0 to 1; the best candidate has 1
    parts: Mapping[str, float]  # these add up to `value`
    texts: tuple[float, ...] = ()  # with several texts, the share of each; these add up to `value` too


class Fused(dict[int, Relevance]):
    """The relevance of every candidate by its passage id.

    `steepness`: the power to which relevance was raised.
    """

    steepness: int = 1


Parts = dict[str, "Floats"]
Amount = TypeVar("Amount", float, npt.NDArray[np.float64])  # of one passage, or of several


def estimate(text: Amount, vector: Amount) -> Amount:
    """A quick estimate, by which candidates for late interaction are selected."""
    return vector + TEXT_WEIGHT * text


def fuse(
    candidates: Sequence[Candidate],
    *,
    words: Floats | None = None,
    method: str = "best",
    role_prior: Mapping[str, float] | None = None,
) -> Fused:
    """The relevance of every candidate.

    `words` has a row for each word of the query and a column for each candidate: the cosine of the
    word's best match in the candidate, nan if unknown. "rrf" is plain reciprocal rank fusion of text
    and vector, divided by the highest possible value. `role_prior` is added to the relevance of a
    speaker's turns, by the method "best" only.
    """
    if method not in ("best", "rrf"):
        raise ValueError(f"fusion must be 'best' or 'rrf', not {method!r}")
    if not candidates:
        return Fused()
    rows = _Columns(*zip(*candidates, strict=True))
    parts = _reciprocal_rank(rows) if method == "rrf" else _best(rows, words, role_prior or {})
    names = list(parts)
    amounts = zip(*(part.tolist() for part in parts.values()), strict=True)
    total = _total(parts)
    values = np.where(total > 0.0, total, 0.0).tolist()
    named_amounts = [dict(zip(names, of, strict=True)) for of in amounts]
    fused = Fused(zip(rows.passage_id, map(Relevance, values, named_amounts), strict=True))
    fused.steepness = STEEPNESS if method == "best" else 1
    return fused


def average(texts: Sequence[Fused]) -> Fused:
    """The mean relevance of the same candidates to several texts with the same meaning, scaled to a best of 1."""
    if len(texts) == 1 or not texts[0]:
        return texts[0]
    shares: dict[int, tuple[float, ...]] = {id_: tuple(ranking[id_].value for ranking in texts) for id_ in texts[0]}
    best = max(map(sum, shares.values())) or 1.0
    fused = Fused()
    for id_, of in shares.items():
        parts: dict[str, float] = {}
        for ranking in texts:
            for name, part in ranking[id_].parts.items():
                parts[name] = parts.get(name, 0.0) + part / best
        fused[id_] = Relevance(sum(of) / best, parts, tuple(share / best for share in of))
    fused.steepness = texts[0].steepness
    return fused


class _Columns(NamedTuple):
    """The candidates by field, in the order of `Candidate`."""

    passage_id: Sequence[int]
    memory_id: Sequence[int]
    ordinal: Sequence[int]
    speaker: Sequence[str]
    tokens: Sequence[int]
    text: Sequence[float | None]
    vector: Sequence[float | None]
    pending: Sequence[bool]


def _reciprocal_rank(rows: _Columns) -> Parts:
    parts: Parts = {}
    count = len(rows.passage_id)
    for name, leg in (("text", rows.text), ("vector", rows.vector)):
        values = _numbers(leg)
        with_value = np.flatnonzero(~np.isnan(values))
        if len(with_value):
            ids = np.array(rows.passage_id)[with_value]
            parts[name] = np.zeros(count)
            ranked = with_value[np.lexsort((ids, -values[with_value]))]
            parts[name][ranked] = (RRF_K + 1) / (RRF_K + 1 + np.arange(len(ranked)))
    return {name: part / len(parts) for name, part in parts.items()} or {"text": np.zeros(count)}


def _best(rows: _Columns, words: Floats | None, role_prior: Mapping[str, float]) -> Parts:
    conversation = _Conversation(rows) if any(rows.speaker) else None
    late = None if words is None else _late(rows, words, conversation)
    if late is None or np.isnan(late).all():
        parts, least, neighbour_weight = _by_text_and_vector(rows), 0.0, NEIGHBOUR_WEIGHT
    else:
        parts, least, neighbour_weight = _by_late_interaction(rows, late), UNRELATED, 0.0
    lowest = min(float(_total(parts).min()), least)
    if conversation is not None:
        parts = _within_conversation(parts, lowest, conversation, neighbour_weight)
    parts["lowest"] = np.full(len(rows.passage_id), -lowest)
    if role_prior and conversation is not None:
        priors = np.array([role_prior.get(speaker, 0.0) if speaker else 0.0 for speaker in rows.speaker])
        parts = {**_over_the_best(parts), "role": priors} if priors.any() else parts
    parts = _over_the_best(parts)
    total = np.maximum(_total(parts), 0.0) ** (STEEPNESS - 1)
    return {name: part * total for name, part in parts.items()}


def _total(parts: Parts) -> Floats:
    return reduce(np.add, parts.values())


def _over_the_best(parts: Parts) -> Parts:
    total = _total(parts)
    best = float(total.max())
    if best <= 0.0:  # the candidates cannot be distinguished
        return {**parts, "lowest": parts["lowest"] + 1.0 - total}
    return {name: part / best for name, part in parts.items()}


def _numbers(leg: Sequence[float | None]) -> Floats:
    """The scores of a leg as an array; None becomes nan."""
    return np.array(leg, np.float64)


# --- one passage --------------------------------------------------------------


def _late(rows: _Columns, words: Floats, conversation: _Conversation | None) -> Floats:
    """The weighted mean of the words' best matches, minus a discount for the length of a message.

    A word counts less the more its best matches differ between the passages. Otherwise the presence
    of a name would outweigh what is asked about it.
    """
    if conversation is not None:
        words = conversation.raise_words(words)
    has_words = ~np.isnan(words).any(axis=0) if len(words) else np.zeros(words.shape[1], np.bool_)
    late = np.full(words.shape[1], np.nan)
    if has_words.any():
        known = words[:, has_words]
        weights = 1.0 / (known.std(axis=1) + EVEN)
        late[has_words] = weights @ known / weights.sum()
    if conversation is None:
        return late
    tokens = np.array(rows.tokens, np.float64)
    discount = LENGTH_DISCOUNT * np.log(np.clip(tokens, USUAL_TOKENS, MOST_TOKENS) / USUAL_TOKENS)
    discounted: Floats = late - np.where(conversation.turns, discount, 0.0)
    return discounted


def _by_late_interaction(rows: _Columns, late: Floats) -> Parts:
    """Parts of relevance with late interaction: unscaled cosines, independent of the other candidates."""
    text, vector = _numbers(rows.text), _numbers(rows.vector)
    text[np.isnan(text)] = 0.0
    # A vector that the vector leg did not return is at most as good as the last one that it did.
    unknown = np.isnan(late)
    absent = np.isnan(vector)
    vector[absent & ~unknown] = np.fmin.reduce(vector) if not absent.all() else 0.0
    if unknown.any():
        _estimate(late, vector, text, unknown)
    return {"text": TEXT_WEIGHT * text, "vector": VECTOR_WEIGHT * vector, "late": late}


def _estimate(late: Floats, vector: Floats, text: Floats, unknown: npt.NDArray[np.bool_]) -> None:
    """Fill in `late` for passages without token states, and `vector` for pending ones, from their other scores."""
    wordless = unknown & ~np.isnan(vector)
    pending = unknown & np.isnan(vector)
    by_vector = _between(vector, np.nanmin(vector), np.nanmax(vector)) if not np.isnan(vector).all() else text
    by_text = text / text.max() if text.max() > 0 else text
    share = np.where(wordless, by_vector, by_text)
    late[unknown] = (np.nanmin(late) + share * (np.nanmax(late) - np.nanmin(late)))[unknown]
    if pending.any():
        low, high = (np.nanmin(vector), np.nanmax(vector)) if not np.isnan(vector).all() else (0.0, 0.0)
        vector[pending] = (low + by_text * (high - low))[pending]


def _between(numbers: Floats, low: float, high: float) -> Floats:
    share: Floats = (numbers - low) / (high - low) if high > low else np.ones(len(numbers))
    return share


def _by_text_and_vector(rows: _Columns) -> Parts:
    text, vector = _numbers(rows.text), _numbers(rows.vector)
    by_text = np.nan_to_num(text / np.nanmax(text)) if np.nanmax(text, initial=0.0) > 0 else np.nan_to_num(text * 0 + 1)
    if np.isnan(vector).all():
        return {"text": by_text}
    high = float(np.nanmax(vector))
    by_vector = np.nan_to_num(_between(vector, min(float(np.nanmin(vector)), high - LEAST_VECTOR_SPAN), high))
    if np.isnan(text).all():
        return {"vector": by_vector}
    # As in `_estimate`: a pending vector counts as much as the text score, not as the worst vector.
    by_vector = np.where(rows.pending, by_text, by_vector)
    return {"text": TEXT_SHARE * by_text, "vector": (1.0 - TEXT_SHARE) * by_vector}


# --- conversations --------------------------------------------------------------


class _Conversation:
    """Which candidates are turns, and the positions of their neighbouring turns by another speaker. At least one is.

    A long message consists of several passages; those of the same speaker are not used as
    neighbours. -1: there is no such neighbour among the candidates.
    """

    def __init__(self, rows: _Columns) -> None:
        self.turns = np.array([bool(speaker) for speaker in rows.speaker])
        keys = zip(rows.memory_id, rows.ordinal, strict=True)
        at = {key: place for place, key in enumerate(keys) if rows.speaker[place]}
        self.neighbours = np.full((2, len(self.turns)), -1)
        for (memory, ordinal), place in at.items():
            for side, step in enumerate((-1, 1)):
                other = at.get((memory, ordinal + step))
                if other is not None and rows.speaker[other] != rows.speaker[place]:
                    self.neighbours[side, place] = other
        self.session = np.unique(rows.memory_id, return_inverse=True)[1]

    def raise_words(self, words: Floats) -> Floats:
        """Raise a word's match partly towards that in a neighbouring turn: an answer does not repeat its question."""
        if not len(words):
            return words
        edged = np.concatenate([words, np.full((len(words), 1), -np.inf)], axis=1)
        best = np.fmax(edged[:, self.neighbours[0]], edged[:, self.neighbours[1]])
        raised: Floats = words + WORD_NEIGHBOUR_WEIGHT * np.maximum(np.fmax(best, words) - words, 0.0)
        return raised


def _within_conversation(parts: Parts, lowest: float, conversation: _Conversation, neighbour_weight: float) -> Parts:
    """Add to each turn a share of its neighbours and of the best turn in its session, counted from the lowest score.

    A turn that has no neighbours and is the best of its session keeps its score, so that chats and documents
    remain comparable.
    """
    above = _total(parts) - lowest
    best = np.zeros(conversation.session.max() + 1)
    np.maximum.at(best, conversation.session, above)
    scale = np.where(conversation.turns, 1.0 / (1.0 + SESSION_WEIGHT), 1.0)
    spoken = np.where(conversation.turns, scale, 0.0)
    scaled_parts = {name: part * scale for name, part in parts.items()}
    if neighbour_weight:
        edged = np.append(above, 0.0)
        scaled_parts["neighbours"] = (
            neighbour_weight * spoken * (edged[conversation.neighbours[0]] + edged[conversation.neighbours[1]])
        )
    # Scaling also reduced the lowest score; this is added back, so that it is the same for turns and documents.
    scaled_parts["session"] = SESSION_WEIGHT * spoken * best[conversation.session] + (1.0 - scale) * lowest
    return scaled_parts
