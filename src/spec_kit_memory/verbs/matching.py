"""Which passages match, and how well? Both legs, fused; no importance, no decay, no budget.

Each stage is left out cleanly when it cannot be used, and the pool says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spec_kit_memory.core import relevance
from spec_kit_memory.core.memory import Filter, RawHit, StoredPassage
from spec_kit_memory.core.query import Query
from spec_kit_memory.core.relevance import Relevance
from spec_kit_memory.embed import QueryEmbedding, states
from spec_kit_memory.verbs.wiring import Wiring

if TYPE_CHECKING:
    import numpy as np

# Candidates of each leg, and how many of them are worth looking at word by word.
DEPTH = 300
POOL = 160


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates of one question: passage id -> how relevant it is, and by what."""

    relevance: Mapping[int, Relevance]
    passages: Mapping[int, StoredPassage]
    text_ids: frozenset[int]
    memory_ids: frozenset[int]  # of all that matched, those left out of the pool included
    method: str  # hybrid | text | vector
    unavailable: tuple[str, ...] = ()
    legs: Mapping[str, int] = field(default_factory=dict)

    def by_memory(self) -> dict[int, list[StoredPassage]]:
        """Each memory's candidate passages, best first."""
        found: dict[int, list[StoredPassage]] = {}
        for passage in sorted(self.passages.values(), key=lambda p: (-self.relevance[p.id].value, p.id)):
            found.setdefault(passage.memory_id, []).append(passage)
        return found


@dataclass(frozen=True, slots=True)
class Question:
    """A query as both legs need it; embedded once, asked of several filters."""

    query: Query
    embedding: QueryEmbedding | None
    unavailable: tuple[str, ...]
    text: bool = True


def ask(wiring: Wiring, query: Query, *, mode: str = "hybrid") -> Question:
    embedding, unavailable = None, []
    if mode != "text":
        embedding = wiring.meaning.query(query.text)
        if embedding is None:
            unavailable.append(f"meaning: {wiring.meaning.problem}")
    return Question(query, embedding, tuple(unavailable), text=mode != "vector" or embedding is None)


def match(
    wiring: Wiring, question: Question, where: Filter, *, memories: int = 1, late: bool = True, depth: int = DEPTH
) -> Pool:
    """The best passages within `where`, by text and by meaning, of at least so many memories if as many match.

    Without `late`, words are not looked at one by one: cheaper, and good enough to name what was held back.
    """
    by_text = wiring.store.match_text(question.query.terms, where, depth) if question.text else []
    embedding = question.embedding
    by_vector = wiring.store.match_vector(embedding.vector, where, depth) if embedding else []
    search = wiring.settings.search
    ids = _promising(by_text, by_vector, memories=memories, most=None if search.fusion == "rrf" else POOL)
    passages = {passage.id: passage for passage in wiring.store.passages(ids)}
    words = _words(wiring, embedding, list(passages)) if late and search.fusion != "rrf" else None
    candidates = _candidates(passages, by_text, by_vector)
    return Pool(
        relevance=relevance.fuse(candidates, words=words, method=search.fusion, role_prior=search.role_prior),
        passages=passages,
        text_ids=frozenset(hit.passage_id for hit in by_text),
        memory_ids=frozenset(hit.memory_id for hit in (*by_text, *by_vector)),
        method=_method(by_text, by_vector, question),
        unavailable=question.unavailable,
        legs={"text": len(by_text), "vector": len(by_vector)},
    )


def _promising(by_text: Sequence[RawHit], by_vector: Sequence[RawHit], *, memories: int, most: int | None) -> list[int]:
    """The passages of both legs; of many, the best by what the legs say, unless they are of too few memories."""
    memory_of = {hit.passage_id: hit.memory_id for hit in (*by_text, *by_vector)}
    if most is None or len(memory_of) <= most:
        return list(memory_of)
    # A vector below the depth of that leg is at most as good as the last one in it.
    last = by_vector[-1].score if by_vector else 0.0
    promised = {hit.passage_id: relevance.promise(0.0, hit.score) for hit in by_vector}
    for hit in by_text:
        promised[hit.passage_id] = promised.get(hit.passage_id, last) + relevance.promise(hit.score, 0.0)
    best = [id_ for _, id_ in sorted((-number, id_) for id_, number in promised.items())[:most]]
    enough = min(memories, len(set(memory_of.values())))
    return best if len({memory_of[id_] for id_ in best}) >= enough else list(memory_of)


def _method(by_text: Sequence[RawHit], by_vector: Sequence[RawHit], question: Question) -> str:
    if by_text and by_vector:
        return "hybrid"
    if by_vector:
        return "vector"
    return "text" if by_text or question.embedding is None else "hybrid"


def _words(wiring: Wiring, embedding: QueryEmbedding | None, ids: list[int]) -> np.ndarray | None:
    """Late interaction between the query's words and each candidate's, where both are known."""
    if embedding is None or embedding.states is None:
        return None
    kept = wiring.store.token_states(ids)
    return states.interact(embedding.states, [kept.get(id_) for id_ in ids])


def _candidates(
    passages: Mapping[int, StoredPassage], by_text: Sequence[RawHit], by_vector: Sequence[RawHit]
) -> list[relevance.Candidate]:
    text = {hit.passage_id: hit.score for hit in by_text}
    vector = {hit.passage_id: hit.score for hit in by_vector}
    return [
        relevance.Candidate(
            each.id, each.memory_id, each.ordinal, each.speaker, each.tokens, text.get(each.id), vector.get(each.id)
        )
        for each in passages.values()
    ]
