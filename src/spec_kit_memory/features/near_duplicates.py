"""Is there a memory already that says nearly the same?

Candidates come from the text index; the score compares runs of words (`core.similar`), without the form that
our saves have in common. Nothing is merged unless the caller asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spec_kit_memory.core import markdown, saved_document, tokens, words
from spec_kit_memory.core import similar as likeness
from spec_kit_memory.core.memory import Filter, Memory, Source, Tier
from spec_kit_memory.features import merge
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.features.sessions import body
from spec_kit_memory.files import disk

# Near-copies share most words, so they are among the best text matches.
CANDIDATES = 20
SHOWN = 5
# Texts of so different a length cannot share enough to be near-copies: they need not be read.
LEAST_RATIO = 0.2
_SEARCHED = Filter(tiers=frozenset(set(Tier) - {Tier.DEPRECATED}))
_SAID = 4000


def similar(runtime: Runtime, text: str, *, except_id: int | None = None) -> tuple[Mapping[str, Any], ...]:
    """The memories whose score with this text is at the threshold or above, best first."""
    form = _form(runtime)
    own = saved_document.own_words(text, template=form)
    signature, size = likeness.signature(own), max(1, tokens.count(body(text)))
    terms = words.for_query(own[:_SAID])
    hits = runtime.store.match_text(terms, _SEARCHED, CANDIDATES * 10) if terms else []
    ids = [id_ for id_ in dict.fromkeys(hit.memory_id for hit in hits) if id_ != except_id][:CANDIDATES]
    rows: list[dict[str, Any]] = []
    for memory in runtime.store.many(ids):
        if memory.source is Source.CHAT or not LEAST_RATIO < memory.tokens / size < 1 / LEAST_RATIO:
            continue
        theirs = saved_document.own_words(runtime.store.text(memory.id), template=form)
        score = likeness.score(signature, likeness.signature(theirs))
        if score >= likeness.THRESHOLD:
            rows.append({"id": memory.id, "title": memory.title, "path": memory.path, "score": round(score, 3)})
    return tuple(sorted(rows, key=lambda row: (-row["score"], row["id"]))[:SHOWN])


def _form(runtime: Runtime) -> frozenset[str]:
    """The lines that every save has by the user's own template."""
    return frozenset(line.strip() for line in (disk.template(runtime.settings) or "").splitlines())


def similar_to(runtime: Runtime, memory_id: int) -> tuple[Mapping[str, Any], ...]:
    return similar(runtime, runtime.store.text(memory_id), except_id=memory_id)


def same(runtime: Runtime, text: str, *, spec_folder: str | None) -> Memory | None:
    """The memory of that folder with exactly this text, case, spacing and dates apart."""
    fingerprint = markdown.fingerprint(markdown.parse(text))
    if not fingerprint:
        return None
    return next((m for m in runtime.store.alike(fingerprint) if m.spec_folder == spec_folder), None)


def same_words(
    runtime: Runtime, text: str, similar: Sequence[Mapping[str, Any]], *, spec_folder: str | None
) -> Memory | None:
    """The one of the similar memories that was made of the very same words: only what a save notes of itself
    (the commit, the day) differs."""
    own = _folded(saved_document.own_words(text))
    for row in similar:
        memory = runtime.store.get(row["id"])
        theirs = saved_document.own_words(runtime.store.text(memory.id))
        if memory.spec_folder == spec_folder and _folded(theirs) == own:
            return memory
    return None


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def mergeable(runtime: Runtime, similar: Sequence[Mapping[str, Any]], memory: Memory) -> Memory | None:
    """The most similar memory that may give way to this one: another one of the same folder, and never a rule."""
    for row in similar:
        other = runtime.store.get(row["id"])
        at_home = other.id != memory.id and other.spec_folder == memory.spec_folder
        if at_home and not merge.obstacle(other, memory):
            return other
    return None
