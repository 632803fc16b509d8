"""Which remarks are shown with a memory? Why search holds it back, and which problems it has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from spec_kit_memory.advice import Advice, Text, advise, finding
from spec_kit_memory.answers import Card
from spec_kit_memory.core import decay
from spec_kit_memory.core.memory import Memory, Tier, VectorStatus
from spec_kit_memory.features.runtime import Runtime

_WAITING = (VectorStatus.PENDING, VectorStatus.RETRY)


def held_back(runtime: Runtime, memory: Memory) -> Advice | None:
    """Why search leaves this memory out, and how to find it; None if search shows it."""
    expires_at = memory.attributes.expires_at
    if memory.tier is Tier.DEPRECATED:
        return advise("only-by-tier")
    if decay.expired(expires_at, runtime.now()) and expires_at is not None:
        return advise("expired", date=f"{expires_at:%Y-%m-%d}")
    if memory.outdated:
        return advise("outdated")
    if memory.archived_folder:
        return advise("in-archive")
    return None


def vector_cause(runtime: Runtime) -> Text:
    """Why nothing can be embedded now, as far as any process knows; "" if there is no problem."""
    if not runtime.meaning.wanted:
        return ""
    return runtime.meaning.problem or str(runtime.store.care.stats().provider_failure or "")


def foreign_vectors(runtime: Runtime, dimensions: int | None = None) -> Text:
    """Why the vectors of the index cannot be compared with new ones; "" if they are of the same model.

    Without `dimensions` only the model is compared: finding out the dimensions takes a request to some providers.
    """
    stored, embedder = runtime.store.care.stats().model, runtime.meaning.embedder()
    if embedder is None or stored is None or not stored.weights_hash:
        return ""
    same_size = dimensions in (None, stored.dimensions)
    if same_size and stored.weights_hash == embedder.weights_hash:
        return ""
    if stored.name != embedder.name:
        return finding("vectors-of-another-model", stored=stored.name, used=embedder.name)
    if same_size:
        return finding("vectors-from-elsewhere", used=embedder.name)
    return finding("vectors-of-other-size", used=embedder.name, stored=stored.dimensions, now=dimensions or 0)


def of(runtime: Runtime, memories: Sequence[Memory], *, slips: bool = False) -> dict[int, tuple[Text, ...]]:
    """Each memory's problems; with `slips` also the errors in its file."""
    remarks: dict[int, list[Text]] = {memory.id: [] for memory in memories}
    for memory in memories:
        reason = held_back(runtime, memory)
        remarks[memory.id] += [reason] if reason else []
    explained: set[int] = set()  # memories whose missing vectors have a cause of their own
    for remark in runtime.store.care.remarks(list(remarks)):
        if remark.kind == "vector" and not runtime.meaning.wanted:
            continue
        if remark.kind != "file" or slips:
            on_line = finding("on-line", problem=remark.message, line=remark.line) if remark.line else None
            remarks[remark.memory_id].append(on_line or remark.message)
            explained |= {remark.memory_id} if remark.kind == "vector" else set()
    for memory in memories:
        cause = vector_cause(runtime) if memory.vector_status in _WAITING else ""
        if cause and memory.id not in explained:
            remarks[memory.id].append(finding("no-vectors-yet", cause=cause))
    return {memory_id: tuple(texts) for memory_id, texts in remarks.items()}


def with_problems(cards: Iterable[Card], problems: dict[int, tuple[Text, ...]]) -> tuple[Card, ...]:
    return tuple(replace(card, problems=problems.get(card.id, ())) for card in cards)
