"""How is a link restored to its state before a change?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spec_kit_memory.advice import Advice, Value, outcome
from spec_kit_memory.core.memory import Change, Link, Origin, Presence
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.features.undoable import UndoStep


@dataclass(frozen=True, slots=True)
class LinkPlan:
    outcome: Advice
    apply: Callable[[Change], object]
    is_hidden: bool = False  # one of its ends is not live yet


def plan(runtime: Runtime, step: UndoStep, *, coming_back: frozenset[int] = frozenset()) -> LinkPlan | None:
    """Plan the change; None if the link is no longer as the step left it, or one of its ends is missing.

    `coming_back` are memories that will be live again when the plan is applied.
    """
    before, after = step.link_before, step.link_after
    link = after or before
    if link is None or not all(end in coming_back or _is_live(runtime, end) for end in link.ends):
        return None
    present = next((other for other in runtime.store.record.links([link.source_id]) if other.key == link.key), None)
    hidden = not all(_is_live(runtime, end) for end in link.ends)  # such a link cannot have been changed meanwhile
    if not hidden and not _same(present, after):
        return None
    source, target = link.ends
    if before is not None and before.origin is not Origin.FILE:
        again = before
        values: dict[str, Value] = {"source": source, "relation": before.relation.value, "target": target}
        if after is not None and after.strength != before.strength:
            done = outcome("linked-again-strength", **values, strength=f"{before.strength:g}")
        else:
            done = outcome("linked-again", **values)
        return LinkPlan(
            done,
            lambda change: runtime.store.record.put_link(again, change),
            hidden,
        )

    link_id = present.id if present is not None and present.origin is not Origin.FILE else link.id
    return LinkPlan(
        outcome("undid-link", source=source, target=target),
        lambda change: runtime.store.record.drop_link(link_id, change),  # a link that a file declares comes back
        hidden,
    )


def _is_live(runtime: Runtime, memory_id: int) -> bool:
    return runtime.store.documents.get(memory_id, any_presence=True).presence is Presence.LIVE


def _same(link: Link | None, other: Link | None) -> bool:
    """Are these links equal? One that a file declares comes and goes with the file, so it counts as no link."""
    link, other = (None if link is None or link.origin is Origin.FILE else link for link in (link, other))
    if link is None or other is None:
        return link is other
    return (link.strength, link.evidence, link.origin) == (other.strength, other.evidence, other.origin)
