"""Documents for tests of a store: made by hand, so that no parser stands between a test and the store."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from spec_kit_memory.core.memory import (
    Actor,
    Attributes,
    Change,
    Document,
    Entry,
    FrontMatter,
    LinkClaim,
    Passage,
    Source,
    Stamp,
    Tier,
    embedded,
)
from spec_kit_memory.index.contract import Index

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BY_USER = Change(Actor.USER, NOON, reason="test")


def change(*, minutes: float = 0, reason: str = "test") -> Change:
    return Change(Actor.USER, NOON + timedelta(minutes=minutes), reason=reason)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def entry(
    path: str = "memory/a.md",
    text: str = "the quick brown fox\njumps over the lazy dog",
    *,
    spec_folder: str | None = None,
    title: str | None = None,
    triggers: Sequence[str] = (),
    tier: Tier = Tier.NORMAL,
    source: Source = Source.MEMORY,
    links: Sequence[LinkClaim] = (),
    fingerprint: str | None = None,
    created_at: datetime | None = NOON,
    attributes: dict[str, Any] | None = None,
    **rest: Any,
) -> Entry:
    """One passage for each line of text that is not empty."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line]
    message = {
        "title": path if title is None else title,
        "triggers": tuple(triggers),
        "tier": tier,
        "created_at": created_at,
    }
    return Entry(
        path=path,
        source=source,
        spec_folder=spec_folder,
        attributes=Attributes(**(message | (attributes or {}))),
        document=Document(text=text, title=title or "", front=FrontMatter(links=tuple(links)), body_first_line=1),
        passages=tuple(
            Passage(ordinal, number, number, line, sha(embedded((), line)), len(line.split()))
            for ordinal, (number, line) in enumerate(lines)
        ),
        raw_hash=sha(text),
        content_hash=sha(text),
        fingerprint=sha(text.lower())[:16] if fingerprint is None else fingerprint,
        stamp=Stamp(len(text), 1_000, 2_000),
        **rest,
    )


def vector(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def embed_all(store: Index, *, dimensions: int = 3, states: bool = True) -> None:
    """A vector for every passage that waits for one; the same words get the same vector."""
    store.vectors.use_model("test-model", dimensions, "weights")
    while work := store.vectors.work(100):
        store.vectors.put(
            {one.passage_hash: (_vector_of(one.passage_hash, dimensions), b"s" if states else None) for one in work}
        )


def _vector_of(hash_: str, dimensions: int) -> bytes:
    numbers = [int(hash_[2 * at : 2 * at + 2], 16) / 255 + 0.01 for at in range(dimensions)]
    length = sum(number * number for number in numbers) ** 0.5
    return vector(*(number / length for number in numbers))
