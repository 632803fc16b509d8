"""Why does a memory exist? Links between memories, and the lineage of one of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spec_kit_memory import answer_json
from spec_kit_memory.advice import Advice, Text, advise, finding, outcome
from spec_kit_memory.answers import LinkAnswer, WhyAnswer
from spec_kit_memory.core import links, operation, redact
from spec_kit_memory.core.memory import Link, Origin, Relation
from spec_kit_memory.errors import SelfLink
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.requests import LinkRequest, UnlinkRequest, WhyRequest


def link(runtime: Runtime, request: LinkRequest) -> LinkAnswer:
    """Link two memories by hand. In an existing link, only the given values change."""
    source_id, target_id, kind = request.source_id, request.target_id, Relation(request.relation)
    if source_id == target_id:
        raise SelfLink(f"memory {source_id} cannot be linked to itself", hint="give two different ids")
    source, target = runtime.store.documents.get(source_id), runtime.store.documents.get(target_id)
    existing = next(
        (old for old in runtime.store.record.links([source_id]) if old.key == (source_id, target_id, kind)), None
    )
    evidence = None if request.evidence is None else redact.redact(request.evidence).text
    planned = Link(
        id=0,
        source_id=source_id,
        target_id=target_id,
        relation=kind,
        strength=_first_given(request.strength, existing.strength if existing else None, 1.0),
        evidence=_first_given(evidence, existing.evidence if existing else None, ""),
        origin=Origin.HAND,
        created_at=runtime.now(),
    )
    done = operation.Link(source_id=source_id, target_id=target_id, relation=kind.value)
    if existing is not None and replace(planned, id=existing.id, created_at=existing.created_at) == existing:
        written = existing  # nothing changes, so there is nothing to undo either
    else:
        written = runtime.store.record.put_link(planned, runtime.change("link", done))
    linked = outcome(
        "linked",
        source=source.title,
        source_id=source_id,
        relation=kind.value,
        target=target.title,
        target_id=target_id,
        link=written.id,
    )
    return LinkAnswer(
        outcome=linked if existing is None else _linked_before(linked, existing, written),
        advice=_from_file(existing),
        link=written,
        created=existing is None,
    )


def _first_given(*values: Any) -> Any:
    return next(value for value in values if value is not None)


def _linked_before(linked: Advice, old: Link, new: Link) -> Advice:
    """The outcome for a link that existed already."""
    changes: list[Advice] = []
    if old.strength != new.strength:
        changes.append(outcome("strength-changed", old=f"{old.strength:g}", new=f"{new.strength:g}"))
    if old.evidence != new.evidence and old.evidence:
        changes.append(outcome("evidence-changed", old=repr(old.evidence)))
    elif old.evidence != new.evidence:
        changes.append(outcome("evidence-added"))
    if changes:
        return outcome("link-changed", outcome=linked, changes=tuple(changes))
    return outcome("linked-already", outcome=linked, strength=f"{new.strength:g}")


def _from_file(existing: Link | None) -> tuple[Text, ...]:
    if existing is None or existing.origin is Origin.HAND:
        return ()
    return (finding("link-is-yours-now"),)


def unlink(runtime: Runtime, request: UnlinkRequest) -> LinkAnswer:
    link_id = request.link_id
    gone = runtime.store.record.drop_link(link_id, runtime.change("unlink", operation.Unlink(link_id=link_id)))
    hints: tuple[Text, ...] = ()
    if gone.origin is Origin.FILE:
        hints = (finding("link-returns"),)
    return LinkAnswer(
        outcome=outcome(
            "unlinked",
            link=link_id,
            source_id=gone.source_id,
            relation=gone.relation.value,
            target_id=gone.target_id,
        ),
        advice=hints,
        link=gone,
    )


def why(runtime: Runtime, request: WhyRequest) -> WhyAnswer:
    """The lineage of a memory: each linked memory once, by its shortest path."""
    memory_id, max_depth = request.memory_id, request.max_depth
    start = runtime.store.documents.get(memory_id)
    kinds = [Relation(name) for name in request.relations or ()] or None
    every = runtime.store.record.links()
    steps = links.traverse(every, memory_id, depth=max_depth, direction=request.direction, relations=kinds)
    cards = {memory.id: runtime.card(memory) for memory in runtime.store.documents.many(steps.memory_ids)}
    # Nearest first, each step with the memory that it leads to; the memory in question occurs in the answer twice.
    rows = [(step, cards.get(step.to_id if step.to_id != memory_id else step.from_id)) for step in steps.steps]
    fitting = answer_json.first_that_fit(rows, max_tokens=request.max_tokens, already=[runtime.card(start)] * 2)
    left = len(rows) - len(fitting)
    hints = () if steps.steps else (advise("link-memories"),)
    if left:
        hints = (advise("farther-links", count=left),)
    shown_ids = {end for step, _ in fitting for end in (step.from_id, step.to_id)}
    return WhyAnswer(
        outcome=outcome("links-found", count=len(steps.steps), title=start.title, id=memory_id, steps=max_depth),
        advice=hints,
        memory=runtime.card(start),
        steps=tuple(step for step, _ in fitting),
        memories=tuple(card for id_, card in cards.items() if id_ in shown_ids),
        cycles=steps.cycles,
        truncated=steps.truncated or bool(left),
    )
