"""Which passages match, and how well? Both legs, fused; no importance, no decay, no budget.

A stage that is unavailable is skipped, and the pool records this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spec_kit_memory.advice import Advice, Text, advise, finding
from spec_kit_memory.core import calibration, relevance
from spec_kit_memory.core.memory import Filter, StoredPassage
from spec_kit_memory.core.query import Query
from spec_kit_memory.core.raw_hits import NO_HITS, RawHits
from spec_kit_memory.core.relevance import Candidate, Fused, Relevance
from spec_kit_memory.embed import QueryEmbedding, token_states
from spec_kit_memory.errors import ProviderUnavailable
from spec_kit_memory.features import remarks
from spec_kit_memory.features.runtime import Runtime

LEAST_PASSAGES = 40
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class CandidateLimits(NamedTuple):
    """How many candidates a question considers; docs/explain/ranking.md has the measurements."""

    depth: int  # candidates of each leg
    # The number of candidates that are compared word by word.
    passages: int
    tokens: int
    outside: int  # candidates among the passages that a state or an expiry excludes


ONE_QUESTION = CandidateLimits(depth=300, passages=160, tokens=24_000, outside=40)
# Fewer with several texts: their best candidates are mostly the same, and each text costs as much as the query.
WITH_PARAPHRASES = CandidateLimits(depth=100, passages=60, tokens=12_000, outside=20)


class TextHits:
    """What both legs found for one text, by the places of passages in `Hits.ids`; nan: not found by that leg."""

    def __init__(self, ids: Ints, by_text: RawHits, by_vector: RawHits) -> None:
        self.text, self.vector = _scores(ids, by_text), _scores(ids, by_vector)
        # A passage that the vector leg did not return is at most as near as the last one that it returned.
        self.last_vector = float(by_vector.scores[-1]) if by_vector else 0.0

    def estimates(self) -> Floats:
        """An estimate of each passage's relevance."""
        vector = np.where(np.isnan(self.vector), self.last_vector, self.vector)
        return relevance.estimate(np.where(np.isnan(self.text), 0.0, self.text), vector)


def _scores(ids: Ints, hits: RawHits) -> Floats:
    scores = np.full(len(ids), np.nan)
    scores[np.searchsorted(ids, hits.passage_ids)] = hits.scores
    return scores


class Hits:
    """What both legs found for each text of a question, the query first; nothing is compared word by word yet."""

    def __init__(self, legs: Sequence[tuple[RawHits, RawHits]]) -> None:
        """`legs`: by text and by vector, for each text."""
        found = [leg for both in legs for leg in both]
        # The passages by ascending id, and the memory of each.
        self.ids, first = np.unique(np.concatenate([leg.passage_ids for leg in found]), return_index=True)
        self.memory_ids: Ints = np.concatenate([leg.memory_ids for leg in found])[first]
        self.texts = [TextHits(self.ids, *both) for both in legs]
        self._with_words = legs[0][0].memory_ids
        # The estimate of each passage's relevance, averaged over the texts.
        self.estimates: Floats = np.add.reduce([text.estimates() for text in self.texts]) / len(self.texts)

    def by_estimate(self) -> Ints:
        """The places of the passages by estimate, highest first; ties go to the smaller id."""
        return np.argsort(-self.estimates, kind="stable")

    def memories(self) -> dict[int, float]:
        """Memory ids with the highest estimate among their passages."""
        worst_first = self.by_estimate()[::-1]
        return dict(zip(self.memory_ids[worst_first].tolist(), self.estimates[worst_first].tolist(), strict=True))

    def with_words(self) -> set[int]:
        """The memories that have words of the query."""
        return set(self._with_words.tolist())

    def legs(self) -> dict[str, int]:
        """How many passages each leg found."""
        return {
            leg: int(np.count_nonzero(~np.isnan([getattr(text, leg) for text in self.texts]).all(axis=0)))
            for leg in ("text", "vector")
        }


class Reading(NamedTuple):
    """The candidates as ranked for one text of a question."""

    candidates: Sequence[Candidate]
    words: np.ndarray | None  # as `relevance.fuse` takes them, a column for each candidate

    def combined(self, other: Reading) -> Reading:
        """This reading together with the candidates of another."""
        candidates = [*self.candidates, *other.candidates]
        if self.words is None or other.words is None:
            return Reading(candidates, None)
        return Reading(candidates, np.concatenate([self.words, other.words], axis=1))


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates of one question, with their relevance and its parts."""

    relevance: Fused
    passages: Mapping[int, StoredPassage]
    hits: Hits  # including those that are not candidates
    match: Mapping[int, float | None]  # passage id -> match; empty where the model has no curve
    readings: Sequence[Reading]  # one for each text
    method: str  # hybrid | text | vector
    unavailable: tuple[Text, ...] = ()
    # Passage id -> the question that led to it; the candidates alone, as they were before questions became sections.
    questions: Mapping[int, str] = field(default_factory=dict)
    candidates: Mapping[int, StoredPassage] | None = None
    legs: Mapping[str, int] = field(default_factory=dict)
    # The passages that only a high limit added; they are no candidates, and nothing is counted by them.
    added: frozenset[int] = frozenset()

    @property
    def candidate_passages(self) -> Mapping[int, StoredPassage]:
        """The passages of the candidates."""
        return self.passages if self.candidates is None else self.candidates

    def by_memory(self) -> dict[int, list[StoredPassage]]:
        """Each memory's passages, best first."""
        passages: dict[int, list[StoredPassage]] = {}
        relevance, added = self.relevance, self.added
        values = {id_: (id_ not in added, relevance[id_].value) for id_ in sorted(self.passages)}
        for id_ in sorted(values, key=values.__getitem__, reverse=True):
            passage = self.passages[id_]
            passages.setdefault(passage.memory_id, []).append(passage)
        return passages

    def compared(self) -> set[int]:
        """The memories of the candidates; the same whatever the limit."""
        return {passage.memory_id for id_, passage in self.passages.items() if id_ not in self.added}


class Question:
    """A query and its paraphrases, prepared for both legs, and used with several filters.

    All texts are embedded once and in one call, while the text leg searches.
    """

    def __init__(self, runtime: Runtime, texts: Sequence[Query], *, mode: str) -> None:
        self.query = texts[0]
        self.texts = texts
        self.limits = ONE_QUESTION if len(texts) == 1 else WITH_PARAPHRASES
        self._mode = mode
        self._runtime = runtime
        self._started = None if mode == "text" else runtime.meaning.begin([text.text for text in texts])
        self._embeddings: Sequence[QueryEmbedding] = ()

    @property
    def embeddings(self) -> Sequence[QueryEmbedding]:
        """One embedding for each text, or none. The first access waits for them.

        Not a cached property: before Python 3.12 those of all instances share one lock.
        """
        if self._started is not None:
            self._embeddings, self._started = self._runtime.meaning.end(self._started), None
            try:
                why = (
                    remarks.foreign_vectors(self._runtime, len(self._embeddings[0].vector)) if self._embeddings else ""
                )
            except ProviderUnavailable as error:  # the provider does not name its model
                self._runtime.meaning.failed(error)
                self._embeddings = ()
            else:
                if why:
                    self._runtime.meaning.problem, self._runtime.meaning.advice = why, advise("embed-anew")
                    self._embeddings = ()
        return self._embeddings

    @property
    def unavailable(self) -> tuple[Text, ...]:
        if self._mode == "text" or self.embeddings:
            return ()
        problem, next_step = self._runtime.meaning.problem, self._runtime.meaning.advice
        if isinstance(next_step, Advice):
            return (advise("no-meaning", problem=problem, next=next_step),)
        return (finding("meaning-unavailable", problem=problem),)

    @property
    def text(self) -> bool:
        return self._mode != "vector" or not self.embeddings


def prepare(runtime: Runtime, query: Query, *, also: Sequence[Query] = (), mode: str = "hybrid") -> Question:
    """Start embedding the query and `also`, the same question in other words."""
    return Question(runtime, (query, *also), mode=mode)


def look(runtime: Runtime, question: Question, where: Filter) -> Hits:
    """The hits of both legs within `where`."""
    store, depth = runtime.store, question.limits.depth
    # Text search runs while the texts are being embedded.
    by_text = [store.documents.match(text.terms, where, depth) if question.text else NO_HITS for text in question.texts]
    vectors = [embedding.vector for embedding in question.embeddings]
    by_vector = [store.vectors.match(vector, where, depth) for vector in vectors] or [NO_HITS for _ in by_text]
    return Hits(list(zip(by_text, by_vector, strict=True)))


def match(runtime: Runtime, question: Question, where: Filter) -> Pool:
    """The best passages within `where`, by text and by meaning."""
    hits = look(runtime, question, where)
    plain = runtime.settings.search.fusion == "rrf"
    passages = _every(runtime, hits) if plain else _promising(runtime, hits, question.limits)
    return with_sections_for_questions(
        _pool(runtime, question, hits, passages),
        lambda memory_id: runtime.store.documents.passages(memory_ids=[memory_id]),
    )


def extended(runtime: Runtime, question: Question, pool: Pool, *, results: int) -> Pool:
    """The pool with enough passages for `results`, if as many match.

    The values of the candidates do not change, and none of the others is more relevant than the worst of them, so
    that a higher limit appends results and changes no count.
    """
    passages = _further(runtime, pool, results)
    if not passages:
        return pool
    beyond = _pool(runtime, question, pool.hits, passages)
    readings = [inside.combined(other) for inside, other in zip(pool.readings, beyond.readings, strict=True)]
    beyond = with_sections_for_questions(
        replace(beyond, relevance=_fuse(runtime, readings)),
        lambda memory_id: runtime.store.documents.passages(memory_ids=[memory_id]),
    )
    lowest = min((relevance.value for relevance in pool.relevance.values()), default=1.0)
    values = Fused(pool.relevance)
    values.steepness = pool.relevance.steepness
    values |= {id_: _at_most(lowest, beyond.relevance[id_]) for id_ in beyond.passages if id_ not in pool.passages}
    return replace(
        pool,
        relevance=values,
        passages={**beyond.passages, **pool.passages},
        match={**beyond.match, **pool.match},
        questions={**beyond.questions, **pool.questions},
        candidates=pool.candidate_passages,
        added=frozenset(beyond.passages.keys() - pool.passages.keys()),
    )


def _at_most(value: float, own: Relevance) -> Relevance:
    """A relevance, scaled down where it is above that value."""
    if own.value <= value:
        return own
    share = value / own.value
    parts = {name: part * share for name, part in own.parts.items()}
    return Relevance(value, parts, tuple(text * share for text in own.texts))


def with_sections_for_questions(pool: Pool, passages_of: Callable[[int], Sequence[StoredPassage]]) -> Pool:
    """The pool with each matched question replaced by a section: the best candidate of the same memory.

    The section gets the relevance of the better of the two. If no section of the memory is a candidate, the section
    that the question belongs to is added.
    """
    question_passages = [passage for passage in pool.passages.values() if passage.question]
    if not question_passages:
        return pool
    values, match = Fused(pool.relevance), dict(pool.match)
    values.steepness = pool.relevance.steepness
    passages = {id_: passage for id_, passage in pool.passages.items() if not passage.question}
    best: dict[int, StoredPassage] = {}
    for passage in passages.values():
        previous = best.get(passage.memory_id)
        if previous is None or values[passage.id].value > values[previous.id].value:
            best[passage.memory_id] = passage
    questions: dict[int, str] = {}
    for passage in sorted(question_passages, key=lambda question: -values[question.id].value):
        section = best.get(passage.memory_id) or _section(passage, passages_of(passage.memory_id))
        own = match.pop(passage.id, None)
        if section is None:
            continue
        best[passage.memory_id] = passages[section.id] = section
        if section.id not in values or values[passage.id].value > values[section.id].value:
            values[section.id] = values[passage.id]
            questions[section.id] = passage.question
        if own is not None:
            match[section.id] = max(own, match.get(section.id) or 0.0)
    return replace(
        pool, relevance=values, passages=passages, match=match, questions=questions, candidates=pool.candidate_passages
    )


def _section(question: StoredPassage, passages: Sequence[StoredPassage]) -> StoredPassage | None:
    """The section that the question belongs to; None if the file has just changed."""
    sections = [passage for passage in passages if not passage.question]
    question_lines = (question.first_line, question.last_line)
    return next(
        (passage for passage in sections if (passage.first_line, passage.last_line) == question_lines),
        next(iter(sections), None),
    )


def match_outside(runtime: Runtime, question: Question, pool: Pool, outside: Hits) -> Pool:
    """The pool together with what a filter excluded, so that both are scored alike and can be compared."""
    most = outside.ids[outside.by_estimate()[: question.limits.outside]].tolist()
    passages = {passage.id: passage for passage in runtime.store.documents.passages(most)}
    beyond = _pool(runtime, question, outside, passages)
    readings = [inside.combined(other) for inside, other in zip(pool.readings, beyond.readings, strict=True)]
    joined = replace(
        beyond,
        relevance=_fuse(runtime, readings),
        passages={**pool.candidate_passages, **passages},
        match={**pool.match, **beyond.match},
        readings=readings,
    )
    return with_sections_for_questions(
        joined, lambda memory_id: runtime.store.documents.passages(memory_ids=[memory_id])
    )


def _pool(runtime: Runtime, question: Question, hits: Hits, passages: Mapping[int, StoredPassage]) -> Pool:
    readings, legs = _read(runtime, question, hits, passages), hits.legs()
    return Pool(
        relevance=_fuse(runtime, readings),
        passages=passages,
        hits=hits,
        match=_match(runtime, question, hits, readings),
        readings=readings,
        method=_method(legs, question),
        unavailable=question.unavailable,
        legs=legs,
    )


def _read(runtime: Runtime, question: Question, hits: Hits, passages: Mapping[int, StoredPassage]) -> Sequence[Reading]:
    words: Sequence[np.ndarray | None] = [None] * len(question.texts)
    if runtime.settings.search.fusion != "rrf":
        words = _words(runtime, question.embeddings, list(passages)) or words
    pending = _pending(question, hits, passages)
    places = np.searchsorted(hits.ids, list(passages))
    return [
        Reading(_candidates(passages, text, places, pending=pending), of)
        for text, of in zip(hits.texts, words, strict=True)
    ]


def _fuse(runtime: Runtime, readings: Sequence[Reading]) -> Fused:
    search = runtime.settings.search
    return relevance.average(
        [
            relevance.fuse(candidates, words=words, method=search.fusion, role_prior=search.role_prior)
            for candidates, words in readings
        ]
    )


def _match(runtime: Runtime, question: Question, hits: Hits, readings: Sequence[Reading]) -> dict[int, float | None]:
    """The match of each candidate with the text that it answers best; empty if the model has no calibration curve."""
    embedder = runtime.meaning.embedder() if question.embeddings else None
    curve = calibration.CURVES.get(embedder.name) if embedder else None
    passages = runtime.store.care.stats().passages if curve else 0
    matches: dict[int, float | None] = {}
    for embedding, of, (candidates, words) in zip(question.embeddings, hits.texts, readings, strict=False):
        if curve is None or words is None or embedding.unrelated is None or not candidates:
            return {}
        rows = calibration.evidence(
            candidates, words, unrelated=embedding.unrelated, last_vector=of.last_vector, passages=passages
        )
        for candidate, value in zip(candidates, calibration.matches(curve, rows), strict=True):
            previous = matches.get(candidate.passage_id)
            matches[candidate.passage_id] = (
                value if previous is None or (value is not None and value > previous) else previous
            )
    return matches


def _every(runtime: Runtime, hits: Hits) -> dict[int, StoredPassage]:
    return {passage.id: passage for passage in runtime.store.documents.passages(hits.ids.tolist())}


def _promising(runtime: Runtime, hits: Hits, reach: CandidateLimits) -> dict[int, StoredPassage]:
    """The candidates to compare closely, most promising first, up to a number of passages and of tokens."""
    room = reach.tokens
    chosen: dict[int, StoredPassage] = {}
    for passage in _in_turn(runtime, hits.ids[hits.by_estimate()[: reach.passages]].tolist()):
        room -= passage.tokens
        if room < 0 and len(chosen) >= LEAST_PASSAGES:
            break
        chosen[passage.id] = passage
    return chosen


def _further(runtime: Runtime, pool: Pool, results: int) -> dict[int, StoredPassage]:
    """The most promising passages that are no candidates, until there are as many memories as `results`; where too few
    match, further passages of the candidates' memories."""
    memories, count = pool.compared(), len(pool.passages)
    if len(memories) >= results:
        return {}
    ids: list[int] = []
    others: list[int] = []
    places = pool.hits.by_estimate()
    for id_, memory_id in zip(pool.hits.ids[places].tolist(), pool.hits.memory_ids[places].tolist(), strict=True):
        if id_ in pool.candidate_passages:
            continue
        if memory_id in memories:
            others.append(id_)
        elif len(memories) < results:
            memories.add(memory_id)
            ids.append(id_)
    ids += others[: max(0, results - count - len(ids))]
    passages = runtime.store.documents.passages(ids)
    # A question stands for a section of its memory; that of a candidate's memory was compared already.
    compared = pool.compared()
    return {passage.id: passage for passage in passages if not (passage.question and passage.memory_id in compared)}


def _in_turn(runtime: Runtime, ids: Sequence[int]) -> Iterator[StoredPassage]:
    """Read most of the passages at once, the others a few at a time, because usually not all of them are needed."""
    first = 2 * LEAST_PASSAGES
    yield from runtime.store.documents.passages(ids[:first])
    for at in range(first, len(ids), LEAST_PASSAGES):
        yield from runtime.store.documents.passages(ids[at : at + LEAST_PASSAGES])


def _method(legs: Mapping[str, int], question: Question) -> str:
    by_text, by_vector = legs["text"] > 0, legs["vector"] > 0
    if by_text and by_vector:
        return "hybrid"
    if by_vector:
        return "vector"
    return "text" if by_text or not question.embeddings else "hybrid"


def _words(runtime: Runtime, embeddings: Sequence[QueryEmbedding], ids: list[int]) -> list[np.ndarray] | None:
    """Late interaction between the words of each text and of each candidate, where both have token states."""
    states = [embedding.states for embedding in embeddings if embedding.states is not None]
    if not states or len(states) < len(embeddings):
        return None
    states_by_id = runtime.store.vectors.token_states(ids)
    return token_states.interact_all(states, [states_by_id.get(id_) for id_ in ids])


def _pending(question: Question, hits: Hits, passages: Mapping[int, StoredPassage]) -> frozenset[int]:
    """Passages that have no vector yet; known from token states where the model has them."""
    if not question.embeddings or question.embeddings[0].states is not None:
        return frozenset()
    with_vector = set(hits.ids[~np.isnan([text.vector for text in hits.texts]).all(axis=0)].tolist())
    return frozenset(id_ for id_, passage in passages.items() if id_ not in with_vector and not passage.has_vector)


def _candidates(
    passages: Mapping[int, StoredPassage], hits: TextHits, places: Ints, *, pending: frozenset[int]
) -> list[Candidate]:
    scores = zip(_values(hits.text[places]), _values(hits.vector[places]), strict=True)
    return [
        Candidate(id_, passage.memory_id, passage.ordinal, passage.speaker, passage.tokens, *both, id_ in pending)
        for (id_, passage), both in zip(passages.items(), scores, strict=True)
    ]


def _values(scores: Floats) -> list[float | None]:
    return [None if score != score else score for score in scores.tolist()]
