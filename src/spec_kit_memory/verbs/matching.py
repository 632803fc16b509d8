"""Which passages match, and how well? Both legs, fused; no importance, no decay, no budget.

Each stage is left out cleanly when it cannot be used, and the pool says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spec_kit_memory.core import relevance
from spec_kit_memory.core.memory import Filter, RawHit, StoredPassage
from spec_kit_memory.core.query import Query
from spec_kit_memory.core.relevance import Relevance
from spec_kit_memory.embed import QueryEmbedding
from spec_kit_memory.verbs.wiring import Wiring

# Candidates of each leg. The relevance formula was measured with this depth.
DEPTH = 300


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates of one question: passage id -> how relevant it is, and by what."""

    relevance: Mapping[int, Relevance]
    passages: Mapping[int, StoredPassage]
    text_ids: frozenset[int]
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


def match(wiring: Wiring, question: Question, where: Filter, *, depth: int = DEPTH) -> Pool:
    """The best passages within `where`, by text and by meaning."""
    by_text = wiring.store.match_text(question.query.terms, where, depth) if question.text else []
    embedding = question.embedding
    by_vector = wiring.store.match_vector(embedding.vector, where, depth) if embedding else []
    ids = list(dict.fromkeys(hit.passage_id for hit in (*by_text, *by_vector)))
    passages = {passage.id: passage for passage in wiring.store.passages(ids)}
    candidates = _candidates(passages, by_text, by_vector, _late(wiring, embedding, list(passages)))
    search = wiring.settings.search
    return Pool(
        relevance=relevance.fuse(candidates, method=search.fusion, role_prior=search.role_prior),
        passages=passages,
        text_ids=frozenset(hit.passage_id for hit in by_text),
        method=_method(by_text, by_vector, question),
        unavailable=question.unavailable,
        legs={"text": len(by_text), "vector": len(by_vector)},
    )


def _method(by_text: Sequence[RawHit], by_vector: Sequence[RawHit], question: Question) -> str:
    if by_text and by_vector:
        return "hybrid"
    if by_vector:
        return "vector"
    return "text" if by_text or question.embedding is None else "hybrid"


def _late(wiring: Wiring, embedding: QueryEmbedding | None, ids: list[int]) -> dict[int, float | None]:
    """MaxSim between the query's token states and each candidate's, where both exist."""
    embedder = wiring.meaning.embedder() if embedding and embedding.states is not None else None
    if not embedder or not embedding or wiring.settings.search.fusion == "rrf":
        return {}
    states = wiring.store.token_states(ids)
    return dict(zip(ids, embedder.interact(embedding, [states.get(id_) for id_ in ids]), strict=True))


def _candidates(
    passages: Mapping[int, StoredPassage],
    by_text: Sequence[RawHit],
    by_vector: Sequence[RawHit],
    late: Mapping[int, float | None],
) -> list[relevance.Candidate]:
    text = {hit.passage_id: hit.score for hit in by_text}
    vector = {hit.passage_id: hit.score for hit in by_vector}
    return [
        relevance.Candidate(
            passage_id=passage.id,
            memory_id=passage.memory_id,
            ordinal=passage.ordinal,
            speaker=passage.speaker,
            tokens=passage.tokens,
            text=text.get(passage.id),
            vector=vector.get(passage.id),
            late=late.get(passage.id),
        )
        for passage in passages.values()
    ]
