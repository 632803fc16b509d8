"""How is a causal graph drawn? As a text tree, as Mermaid, or as Graphviz DOT."""

from __future__ import annotations

from spec_kit_memory.answers import WhyAnswer
from spec_kit_memory.core import links

FORMS = ("tree", "mermaid", "dot")


def draw(answer: WhyAnswer, form: str = "tree") -> str:
    walked = links.Traversal(answer.memory.id, answer.steps, answer.cycles, answer.truncated)
    titles = {card.id: card.title for card in (answer.memory, *answer.memories)}
    return {"tree": links.tree, "mermaid": links.mermaid, "dot": links.dot}[form](walked, titles)
