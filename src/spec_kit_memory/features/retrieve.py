"""Which passages match, and how well? Both legs, fused; no importance, no decay, no budget.

Each stage is left out cleanly when it cannot be used, and the pool says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING

from spec_kit_memory.core import calibration, relevance
from spec_kit_memory.core.memory import Filter, RawHit, StoredPassage
from spec_kit_memory.core.query import Query
from spec_kit_memory.core.relevance import Candidate, Fused
from spec_kit_memory.embed import QueryEmbedding, token_states
from spec_kit_memory.errors import ProviderUnavailable
from spec_kit_memory.features.runtime import Runtime

if TYPE_CHECKING:
    import numpy as np

# Candidates of each leg, and how many of them are worth looking at word by word: measured in docs/explain/ranking.md.
DEPTH = 300
MOST_PASSAGES, LEAST_PASSAGES = 160, 40
MOST_TOKENS = 24_000
# Of what a state or an expiry keeps out only the best are told: so many passages are looked at word by word.
MOST_OUTSIDE = 40


class Hits:
    """What both legs found, before anything is looked at closely."""

    def __init__(self, by_text: Sequence[RawHit], by_vector: Sequence[RawHit]) -> None:
        self.by_text, self.by_vector = by_text, by_vector
        # By passage id.
        self.memory_of = {passage_id: memory_id for leg in (by_text, by_vector) for passage_id, memory_id, _ in leg}
        self.text = {passage_id: score for passage_id, _, score in by_text}
        self.vector = {passage_id: score for passage_id, _, score in by_vector}
        self.promises = self._promise()

    def _promise(self) -> dict[int, float]:
        """How much each passage promises. A vector below the depth of its leg is at most as good as the last in it."""
        last = self.by_vector[-1].score if self.by_vector else 0.0
        vector = self.vector
        texted = {id_: relevance.promise(score, vector.get(id_, last)) for id_, score in self.text.items()}
        return vector | texted

    def memories(self) -> dict[int, float]:
        """The memories and what the best passage of each promises."""
        worst_first = sorted(self.promises.items(), key=itemgetter(1))
        return {self.memory_of[passage_id]: number for passage_id, number in worst_first}


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates of one question: passage id -> how relevant it is, and by what."""

    relevance: Fused
    passages: Mapping[int, StoredPassage]
    hits: Hits  # those left out of the pool included
    match: Mapping[int, float | None]  # how well each answers by itself; empty where the model has no curve
    candidates: Sequence[Candidate]
    words: np.ndarray | None  # as `relevance.fuse` takes them, a column for each candidate
    method: str  # hybrid | text | vector
    unavailable: tuple[str, ...] = ()
    legs: Mapping[str, int] = field(default_factory=dict)

    def by_memory(self) -> dict[int, list[StoredPassage]]:
        """Each memory's candidate passages, best first."""
        found: dict[int, list[StoredPassage]] = {}
        for passage in sorted(self.passages.values(), key=lambda p: (-self.relevance[p.id].value, p.id)):
            found.setdefault(passage.memory_id, []).append(passage)
        return found


class Question:
    """A query as both legs need it, asked of several filters. It is embedded once, beside what the text leg does."""

    def __init__(self, runtime: Runtime, query: Query, *, mode: str) -> None:
        self.query = query
        self._mode = mode
        self._runtime = runtime
        self._started = None if mode == "text" else runtime.meaning.begin(query.text)
        self._made: QueryEmbedding | None = None

    @property
    def embedding(self) -> QueryEmbedding | None:
        """Waits for it once. Not a cached property: before Python 3.12 all of these wait for one another."""
        if self._started is not None:
            self._made, self._started = self._runtime.meaning.end(self._started), None
            try:
                why = "" if self._made is None else _foreign(self._runtime, len(self._made.vector))
            except ProviderUnavailable as error:  # it does not even say which model it is
                self._runtime.meaning.failed(error)
                self._made = None
            else:
                if why:
                    self._runtime.meaning.problem, self._made = why, None
        return self._made

    @property
    def unavailable(self) -> tuple[str, ...]:
        return () if self._mode == "text" or self.embedding else (f"meaning: {self._runtime.meaning.problem}",)

    @property
    def text(self) -> bool:
        return self._mode != "vector" or self.embedding is None


def _foreign(runtime: Runtime, dimensions: int) -> str:
    """Why the vectors of the index say nothing to the query's; "" if they are of one model."""
    stored, embedder = runtime.store.stats(), runtime.meaning.embedder()
    known = (stored["weights_hash"], stored["dimensions"])
    if embedder is None or not known[0] or known == (embedder.weights_hash, dimensions):
        return ""
    return f"the index has vectors of {stored['model']}, not of {embedder.name}; `index()` makes them anew"


def ask(runtime: Runtime, query: Query, *, mode: str = "hybrid") -> Question:
    return Question(runtime, query, mode=mode)


def look(runtime: Runtime, question: Question, where: Filter) -> Hits:
    """What each leg finds within `where`."""
    store = runtime.store
    by_text = store.match_text(question.query.terms, where, DEPTH) if question.text else []
    embedding = question.embedding
    return Hits(by_text, store.match_vector(embedding.vector, where, DEPTH) if embedding else [])


def match(runtime: Runtime, question: Question, where: Filter, *, results: int = 1) -> Pool:
    """The best passages within `where`, by text and by meaning; enough for so many results, if as many match."""
    hits = look(runtime, question, where)
    plain = runtime.settings.search.fusion == "rrf"
    passages = _every(runtime, hits) if plain else _promising(runtime, hits, results=results)
    return _pool(runtime, question, hits, passages)


def match_outside(runtime: Runtime, question: Question, pool: Pool, outside: Hits) -> Pool:
    """The pool with what a filter kept out of it: all of them are measured alike, so that they can be compared."""
    ordered = [id_ for _, id_ in sorted((-number, id_) for id_, number in outside.promises.items())]
    passages = {passage.id: passage for passage in runtime.store.passages(ordered[:MOST_OUTSIDE])}
    beside = _pool(runtime, question, outside, passages)
    candidates = [*pool.candidates, *beside.candidates]
    return replace(
        beside,
        relevance=_fuse(runtime, candidates, _side_by_side(pool.words, beside.words)),
        passages={**pool.passages, **passages},
        match={**pool.match, **beside.match},
        candidates=candidates,
    )


def _side_by_side(left: np.ndarray | None, right: np.ndarray | None) -> np.ndarray | None:
    if left is None or right is None:
        return None
    import numpy as np

    return np.concatenate([left, right], axis=1)


def _pool(runtime: Runtime, question: Question, hits: Hits, passages: Mapping[int, StoredPassage]) -> Pool:
    words = None if runtime.settings.search.fusion == "rrf" else _words(runtime, question.embedding, list(passages))
    candidates = _candidates(passages, hits, pending=_pending(runtime, question, hits, passages))
    return Pool(
        relevance=_fuse(runtime, candidates, words),
        passages=passages,
        hits=hits,
        match=_match(runtime, question.embedding, hits, candidates, words),
        candidates=candidates,
        words=words,
        method=_method(hits, question),
        unavailable=question.unavailable,
        legs={"text": len(hits.by_text), "vector": len(hits.by_vector)},
    )


def _fuse(runtime: Runtime, candidates: Sequence[Candidate], words: np.ndarray | None) -> Fused:
    search = runtime.settings.search
    return relevance.fuse(candidates, words=words, method=search.fusion, role_prior=search.role_prior)


def _match(
    runtime: Runtime,
    embedding: QueryEmbedding | None,
    hits: Hits,
    candidates: Sequence[Candidate],
    words: np.ndarray | None,
) -> dict[int, float | None]:
    """How well each candidate answers by itself, where the model has a curve that says so."""
    embedder = runtime.meaning.embedder() if words is not None else None
    curve = calibration.CURVES.get(embedder.name) if embedder else None
    if curve is None or words is None or embedding is None or embedding.unrelated is None or not candidates:
        return {}
    last = hits.by_vector[-1].score if hits.by_vector else 0.0
    rows = calibration.evidence(candidates, words, unrelated=embedding.unrelated, last_vector=last)
    found = calibration.matches(curve, rows)
    return {each.passage_id: value for each, value in zip(candidates, found, strict=True)}


def _every(runtime: Runtime, hits: Hits) -> dict[int, StoredPassage]:
    return {passage.id: passage for passage in runtime.store.passages(list(hits.memory_of))}


def _promising(runtime: Runtime, hits: Hits, *, results: int) -> dict[int, StoredPassage]:
    """The candidates worth a close look, most promising first: so many passages, so many tokens of them.

    At least as many passages as results were asked for; and of each further memory its best passage,
    until there are as many memories.
    """
    ordered = [id_ for _, id_ in sorted((-number, id_) for id_, number in hits.promises.items())]
    least, room = max(LEAST_PASSAGES, results), MOST_TOKENS
    chosen: dict[int, StoredPassage] = {}
    for passage in _in_turn(runtime, ordered[:MOST_PASSAGES]):
        room -= passage.tokens
        if room < 0 and len(chosen) >= least:
            break
        chosen[passage.id] = passage
    seen = {passage.memory_id for passage in chosen.values()}
    further: list[int] = []
    for id_ in ordered:
        if len(seen) >= results:
            break
        if hits.memory_of[id_] not in seen:
            seen.add(hits.memory_of[id_])
            further.append(id_)
    return chosen | {passage.id: passage for passage in runtime.store.passages(further)}


def _in_turn(runtime: Runtime, ids: Sequence[int]) -> Iterator[StoredPassage]:
    """A few at a time: the room is mostly taken before the last."""
    for at in range(0, len(ids), LEAST_PASSAGES):
        yield from runtime.store.passages(ids[at : at + LEAST_PASSAGES])


def _method(hits: Hits, question: Question) -> str:
    if hits.by_text and hits.by_vector:
        return "hybrid"
    if hits.by_vector:
        return "vector"
    return "text" if hits.by_text or question.embedding is None else "hybrid"


def _words(runtime: Runtime, embedding: QueryEmbedding | None, ids: list[int]) -> np.ndarray | None:
    """Late interaction between the query's words and each candidate's, where both are known."""
    if embedding is None or embedding.states is None:
        return None
    kept = runtime.store.token_states(ids)
    return token_states.interact(embedding.states, [kept.get(id_) for id_ in ids])


def _pending(runtime: Runtime, question: Question, hits: Hits, passages: Mapping[int, StoredPassage]) -> frozenset[int]:
    """Passages without a vector yet. Where the model gives token states, those tell it."""
    if question.embedding is None or question.embedding.states is not None:
        return frozenset()
    beyond = passages.keys() - hits.vector.keys()
    return runtime.store.unembedded(sorted(beyond)) if beyond else frozenset()


def _candidates(passages: Mapping[int, StoredPassage], hits: Hits, *, pending: frozenset[int]) -> list[Candidate]:
    return [
        Candidate(
            each.id,
            each.memory_id,
            each.ordinal,
            each.speaker,
            each.tokens,
            hits.text.get(each.id),
            hits.vector.get(each.id),
            each.id in pending,
        )
        for each in passages.values()
    ]
