"""What led to what, drawn: as a tree of text, as Mermaid, or as Graphviz DOT."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from spec_kit_memory.answers import Card, WhyAnswer

__all__ = ["FORMS", "draw"]

FORMS = ("tree", "mermaid", "dot")


def draw(answer: WhyAnswer, form: str = "tree") -> str:
    names = {card.id: card for card in (answer.memory, *answer.memories)}
    lines = {"tree": _tree, "mermaid": _mermaid, "dot": _dot}[form](answer, names)
    return "\n".join(lines)


def _title(names: Mapping[int, Card], memory_id: int) -> str:
    return names[memory_id].title if memory_id in names else f"memory {memory_id}"


def _tree(answer: WhyAnswer, names: Mapping[int, Card]) -> Iterator[str]:
    """Each memory once, below the one that led the walk to it."""
    yield f"{answer.memory.title} [{answer.memory.id}]"
    below: dict[int, list[tuple[int, str]]] = {}
    placed = {answer.memory.id}
    for step in answer.steps:
        if step.to_id not in placed:
            placed.add(step.to_id)
            relation = step.link.relation.value
            label = f"{relation} →" if step.forward else f"← {relation}"
            below.setdefault(step.from_id, []).append((step.to_id, label))
    yield from _branch(answer.memory.id, below, names, "")


def _branch(at: int, below: Mapping[int, list[tuple[int, str]]], names: Mapping[int, Card], lead: str) -> Iterator[str]:
    rows = below.get(at, [])
    for number, (memory_id, label) in enumerate(rows, 1):
        last = number == len(rows)
        yield f"{lead}{'└─' if last else '├─'} {label} {_title(names, memory_id)} [{memory_id}]"
        yield from _branch(memory_id, below, names, lead + ("   " if last else "│  "))


def _mermaid(answer: WhyAnswer, names: Mapping[int, Card]) -> Iterator[str]:
    yield "flowchart TD"
    for memory_id in sorted(_nodes(answer)):
        # Mermaid reads quotes, brackets and hashes inside a label as its own.
        label = re.sub(r'["\[\]{}()<>#|`]', " ", _title(names, memory_id))
        yield f'  m{memory_id}["{memory_id}: {" ".join(label.split())}"]'
    for step in answer.steps:
        yield f"  m{step.link.source_id} -->|{step.link.relation.value}| m{step.link.target_id}"


def _dot(answer: WhyAnswer, names: Mapping[int, Card]) -> Iterator[str]:
    yield "digraph why {"
    for memory_id in sorted(_nodes(answer)):
        label = _title(names, memory_id).replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        yield f'  m{memory_id} [label="{memory_id}: {label}"];'
    for step in answer.steps:
        link = step.link
        yield f'  m{link.source_id} -> m{link.target_id} [label="{link.relation.value}"];'
    yield "}"


def _nodes(answer: WhyAnswer) -> set[int]:
    return {answer.memory.id}.union(*({step.link.source_id, step.link.target_id} for step in answer.steps))
