"""How did it come to this? Links between memories, and why one of them exists."""

from __future__ import annotations

from collections.abc import Sequence

from spec_kit_memory.answers import LinkAnswer, WhyAnswer
from spec_kit_memory.core import links, operation, redact
from spec_kit_memory.core.memory import Link, Origin, Relation
from spec_kit_memory.errors import OutOfRange, SelfLink
from spec_kit_memory.features.runtime import Runtime


def link(
    runtime: Runtime,
    *,
    source_id: int,
    target_id: int,
    relation: str | Relation,
    strength: float = 1.0,
    evidence: str = "",
) -> LinkAnswer:
    """Link two memories by hand; the same pair and relation again updates strength and evidence."""
    kind = links.read_relation(relation)
    if source_id == target_id:
        raise SelfLink(f"memory {source_id} cannot be linked to itself", hint="give two different ids")
    if not 0.0 <= strength <= 1.0:
        raise OutOfRange(f"strength is {strength}", hint="give a strength from 0 to 1")
    source, target = runtime.store.get(source_id), runtime.store.get(target_id)
    known = any(
        (old.source_id, old.target_id, old.relation) == (source_id, target_id, kind)
        for old in runtime.store.links([source_id])
    )
    wanted = Link(
        id=0,
        source_id=source_id,
        target_id=target_id,
        relation=kind,
        strength=strength,
        evidence=redact.redact(evidence).text,
        origin=Origin.HAND,
        created_at=runtime.now(),
    )
    done = operation.Link(source_id=source_id, target_id=target_id, relation=kind.value)
    made = runtime.store.put_link(wanted, runtime.change("link", done))
    return LinkAnswer(
        summary=f"{source.title} (#{source_id}) {kind.value} {target.title} (#{target_id}), link {made.id}",
        link=made,
        created=not known,
    )


def unlink(runtime: Runtime, *, link_id: int) -> LinkAnswer:
    gone = runtime.store.drop_link(link_id, runtime.change("unlink", operation.Unlink(link_id=link_id)))
    hints: tuple[str, ...] = ()
    if gone.origin is not Origin.HAND:
        hints = ("this link comes from a file; it returns when the file is indexed unless the file changes",)
    return LinkAnswer(
        summary=f"removed link {link_id}: #{gone.source_id} {gone.relation.value} #{gone.target_id}",
        hints=hints,
        link=gone,
    )


def why(
    runtime: Runtime,
    *,
    memory_id: int,
    max_depth: int = 3,
    direction: str = "both",
    relations: Sequence[str] = (),
) -> WhyAnswer:
    """The lineage of a memory: each linked memory once, by its shortest path."""
    start = runtime.store.get(memory_id)
    kinds = [links.read_relation(name) for name in relations] or None
    found = links.traverse(runtime.store.links(), memory_id, depth=max_depth, direction=direction, relations=kinds)
    memories = runtime.store.many(found.memory_ids)
    return WhyAnswer(
        summary=f"{len(found.steps)} memories are linked to {start.title} (#{memory_id}) within {max_depth} steps",
        hints=() if found.steps else ("link memories with memory_causal_link, or causal_links in front matter",),
        memory=runtime.card(start),
        steps=found.steps,
        memories=tuple(runtime.card(memory) for memory in memories),
        cycles=found.cycles,
        truncated=found.truncated,
    )
