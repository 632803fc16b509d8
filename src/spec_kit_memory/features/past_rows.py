"""How is a memory that only history has turned into a row of a snapshot?

History has each memory's metadata and text after every change. It does not have use, the values of front matter
before overrides, or the stamp of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from spec_kit_memory.core import long_lines, markdown, passages
from spec_kit_memory.core.memory import Document, Memory, Source
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.index import rows

EXTRAS = ("kept", "link", "overrides", "previous_id", "vouched")  # fields of a history row besides the memory's state


@dataclass(frozen=True, slots=True)
class PastState:
    """A memory after a change, as its history row has it."""

    id: int
    values: Mapping[str, Any]
    at: datetime


def snapshot_row(
    runtime: Runtime, state: PastState, text: str, *, memory: Memory | None, last_access: datetime
) -> dict[str, Any]:
    """The row of a past state. `memory` is the present memory, if there is one: where the text is the same, so are its
    passages."""
    values = state.values
    document = markdown.parse(text)
    nothing = {"raw_hash": "", "stamp": [0, 0, 0]}
    return {
        **{name: value for name, value in values.items() if name not in EXTRAS},
        "kind": "memory",
        "id": state.id,
        "updated_at": _precise(state.at),
        "text": text,
        "said": None,
        "said_trusted": values["trusted"],
        "vouched": None,
        "overrides": {},
        "warnings": [],
        "access_count": 0,
        "last_access": _precise(last_access),
        **nothing,
        "aliases": [
            {"path": path, "fingerprint": values["fingerprint"], "triggers": [], **nothing}
            for path in values["aliases"]
        ],
        "claims": _claims(document) if values["source"] != Source.CHAT else [],
        "passages": _passages(runtime, values, document, memory),
    }


def _precise(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _claims(document: Document) -> list[dict[str, Any]]:
    return [
        {"relation": str(claim.relation), "target": claim.target, "inward": claim.inward, "strength": claim.strength}
        for claim in document.front.links
    ]


def _passages(
    runtime: Runtime, values: Mapping[str, Any], document: Document, memory: Memory | None
) -> list[dict[str, Any]]:
    """The present passages if the text is the same; of a conversation, which only grows, those that are unchanged."""
    lines = document.text.split("\n")
    stored: Iterable[Any] = ()
    if memory and memory.content_hash == values["content_hash"]:
        stored = runtime.store.documents.passages(memory_ids=[memory.id])
    elif memory and values["source"] == Source.CHAT:
        stored = [
            passage
            for passage in runtime.store.documents.passages(memory_ids=[memory.id])
            if _has_same_text(passage, lines)
        ]
    return [rows.passage_row(passage) for passage in stored or passages.split(document)]


def _has_same_text(passage: Any, lines: list[str]) -> bool:
    if passage.last_line > len(lines):
        return False
    return bool(long_lines.passage_hash(passage.headings, long_lines.text_of(lines, passage)) == passage.hash)
