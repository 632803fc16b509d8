"""Is there already a memory with nearly the same text?

Candidates come from the text index; the score compares runs of words (`core.similar`), without the template text
that our saves share. Nothing is merged unless the caller requested it.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from spec_kit_memory.answers import SimilarMemory
from spec_kit_memory.core import markdown, saved_document, tokens, words
from spec_kit_memory.core import similar as likeness
from spec_kit_memory.core.memory import Filter, Memory, Source, Tier
from spec_kit_memory.features import merge
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.features.sessions import body
from spec_kit_memory.files import disk

# Near-copies share most words, so they are among the best text matches.
CANDIDATES = 20
MOST_SHOWN = 5
# Texts whose lengths differ by more than this cannot be near-copies, so they are not read.
LEAST_RATIO = 0.2
_IN_USE = frozenset(set(Tier) - {Tier.DEPRECATED})
_SEARCHED = Filter(tiers=_IN_USE)
_COMPARED = Filter(source=Source.MEMORY, tiers=_IN_USE)
_QUERY_CHARACTERS = 4000


def similar(
    runtime: Runtime, text: str, *, spec_folder: str | None, except_id: int | None = None
) -> tuple[SimilarMemory, ...]:
    """The memories whose similarity to this text is at the threshold or above, best first.

    Those of its own folder come before all others: only with one of them can a save be merged at once.
    """
    form = _form(runtime)
    own = saved_document.own_words(text, template=form)
    signature, size = likeness.signature(own), max(1, tokens.count(body(text)))
    terms = words.for_query(own[:_QUERY_CHARACTERS])
    hits = runtime.store.documents.match(terms, _SEARCHED, CANDIDATES * 10) if terms else []
    ids = [id_ for id_ in dict.fromkeys(hit.memory_id for hit in hits) if id_ != except_id][:CANDIDATES]
    found: list[tuple[bool, float, SimilarMemory]] = []
    for memory in runtime.store.documents.many(ids):
        if memory.source is Source.CHAT or not LEAST_RATIO < memory.tokens / size < 1 / LEAST_RATIO:
            continue
        own_words = saved_document.own_words(runtime.store.documents.text(memory.id), template=form)
        score = likeness.score(signature, likeness.signature(own_words))
        if score >= likeness.THRESHOLD:
            row = SimilarMemory(id=memory.id, title=memory.title, path=memory.path, score=round(score, 3))
            found.append((memory.spec_folder != spec_folder, -row.score, row))
    found.sort(key=lambda entry: (*entry[:2], entry[2].id))
    return tuple(row for _, _, row in found[:MOST_SHOWN])


def _form(runtime: Runtime) -> frozenset[str]:
    """The lines that the user's own template adds to every save."""
    return frozenset(line.strip() for line in (disk.template(runtime.settings) or "").splitlines())


def similar_to(runtime: Runtime, memory: Memory) -> tuple[SimilarMemory, ...]:
    text = runtime.store.documents.text(memory.id)
    return similar(runtime, text, spec_folder=memory.spec_folder, except_id=memory.id)


class ComparedText(NamedTuple):
    """The fields of a memory that a comparison needs. A tuple because many of them are kept."""

    memory_id: int
    content_hash: str
    tokens: int


class Comparison:
    """Near-duplicates among all memory files, found a little at a time. Results are cached by the texts' hashes."""

    def __init__(self) -> None:
        self._sketches: dict[str, bytes] = {}  # by content hash; the smallest hashes of its runs
        self._scores: dict[tuple[str, str], float] = {}
        self._texts: tuple[int, list[ComparedText]] | None = None  # with their generation, until all are compared
        self._last_pairs: tuple[int, list[tuple[Memory, Memory, float]]] | None = None  # with their generation

    def advance(self, runtime: Runtime, *, seconds: float | None) -> tuple[list[tuple[Memory, Memory, float]], int]:
        """The pairs at the threshold or above, most similar first, and how many texts and pairs are still to be
        compared."""
        generation = runtime.store.generation()
        if self._last_pairs and self._last_pairs[0] == generation:
            return self._last_pairs[1], 0
        deadline = None if seconds is None else time.monotonic() + seconds
        texts = self._compared_texts(runtime, generation)
        form = _form(runtime)
        left = [text for text in texts if text.content_hash not in self._sketches]
        while left and seconds != 0:  # at least one, however little time there is
            text = left.pop()
            smallest = self._signature(runtime, text, form).hashes[: likeness.SKETCH]
            self._sketches[text.content_hash] = array("I", smallest).tobytes()
            if deadline is not None and time.monotonic() >= deadline:
                break
        candidates = self._candidates(texts)
        alike: list[tuple[int, int, float]] = []
        while candidates:
            item, other = candidates.pop()
            score = self._score(runtime, item, other, form)
            if score >= likeness.THRESHOLD:
                alike.append((item.memory_id, other.memory_id, score))
            if deadline is not None and time.monotonic() >= deadline + (seconds or 0.0):
                break
        pairs = _as_memories(runtime, alike)
        if not left and not candidates:
            self._last_pairs, self._texts = (generation, pairs), None
        return pairs, len(left) + len(candidates)

    def _compared_texts(self, runtime: Runtime, generation: int) -> list[ComparedText]:
        """Cached for the calls that continue the comparison: loading ten thousand memories takes 150 ms."""
        if self._texts is None or self._texts[0] != generation:
            texts = [
                ComparedText(memory.id, memory.content_hash, memory.tokens)
                for memory in runtime.store.documents.find(_COMPARED, order="path")
                if memory.tokens and not memory.outdated
            ]
            self._texts = (generation, texts)
        return self._texts[1]

    def _candidates(self, texts: Sequence[ComparedText]) -> list[tuple[ComparedText, ComparedText]]:
        sketched = [text for text in texts if text.content_hash in self._sketches]
        pairs = likeness.candidates([self._sketches[text.content_hash] for text in sketched])
        return [
            (sketched[item], sketched[other])
            for item, other in pairs
            if LEAST_RATIO < sketched[item].tokens / sketched[other].tokens < 1 / LEAST_RATIO
        ]

    def _score(self, runtime: Runtime, one: ComparedText, other: ComparedText, form: frozenset[str]) -> float:
        key = (one.content_hash, other.content_hash)
        if key not in self._scores:
            self._scores[key] = likeness.score(*(self._signature(runtime, text, form) for text in (one, other)))
        return self._scores[key]

    def _signature(self, runtime: Runtime, text: ComparedText, form: frozenset[str]) -> likeness.Signature:
        whole = runtime.store.documents.text(text.memory_id)
        return likeness.signature(saved_document.own_words(whole, template=form))


def _as_memories(runtime: Runtime, alike: Sequence[tuple[int, int, float]]) -> list[tuple[Memory, Memory, float]]:
    """The pairs as memories, most similar first; without memories that were deleted since the comparison."""
    ids = list(dict.fromkeys(memory_id for item, other, _ in alike for memory_id in (item, other)))
    memories = {memory.id: memory for memory in runtime.store.documents.many(ids)}
    pairs = [
        (memories[item], memories[other], score)
        for item, other, score in alike
        if item in memories and other in memories
    ]
    return sorted(pairs, key=lambda pair: (-pair[2], pair[0].id))


def comparison(runtime: Runtime) -> Comparison:
    """The comparison of this scope, which continues where the last call stopped."""
    if not isinstance(runtime.view.comparison, Comparison):
        runtime.view.comparison = Comparison()
    return runtime.view.comparison


def same(runtime: Runtime, text: str, *, spec_folder: str | None, owner: str | None) -> Memory | None:
    """The memory of that folder and owner with exactly this text, ignoring case, spacing and dates."""
    fingerprint = markdown.fingerprint(markdown.parse(text))
    if not fingerprint:
        return None
    memories = runtime.store.documents.many(fingerprint=fingerprint)
    return next((memory for memory in memories if (memory.spec_folder, memory.owner) == (spec_folder, owner)), None)


def same_words(
    runtime: Runtime, text: str, similar: Sequence[SimilarMemory], *, spec_folder: str | None, owner: str | None
) -> Memory | None:
    """The similar memory that was saved with exactly the same words; only details that a save adds (the commit, the
    day) differ."""
    own = _folded(saved_document.own_words(text))
    for memory in runtime.store.documents.many([row.id for row in similar]):
        own_words = saved_document.own_words(runtime.store.documents.text(memory.id))
        if (memory.spec_folder, memory.owner) == (spec_folder, owner) and _folded(own_words) == own:
            return memory
    return None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def mergeable(runtime: Runtime, similar: Sequence[SimilarMemory], memory: Memory) -> Memory | None:
    """The most similar memory that may be merged into this one: another of the same folder, without an obstacle."""
    for other in runtime.store.documents.many([row.id for row in similar]):
        at_home = other.id != memory.id and other.spec_folder == memory.spec_folder
        if at_home and not merge.obstacle(other, memory):
            return other
    return None
