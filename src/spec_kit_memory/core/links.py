"""How are memories connected, and how is a lineage found and drawn?

Links between the documents of a spec folder, traversal by shortest path, and three drawings of a
traversal: a text tree, Mermaid and DOT.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import Link, Origin, Relation
from spec_kit_memory.errors import BadParameter, OutOfRange, UnknownRelation

MAX_DEPTH = 10
DIRECTIONS = ("forward", "backward", "both")

# From a document to a document of the same spec folder.
SPEC_DOCUMENT_LINKS = (
    ("spec.md", "plan.md", Relation.CAUSED, 0.9),
    ("plan.md", "tasks.md", Relation.CAUSED, 0.9),
    ("tasks.md", "implementation-summary.md", Relation.CAUSED, 0.8),
    ("checklist.md", "spec.md", Relation.SUPPORTS, 0.7),
    ("decision-record.md", "plan.md", Relation.SUPPORTS, 0.8),
    ("research.md", "spec.md", Relation.SUPPORTS, 0.7),
)

# How a link reads from its source, and from its target.
_READS = {
    Relation.CAUSED: ("caused", "caused by"),
    Relation.ENABLED: ("enabled", "enabled by"),
    Relation.SUPERSEDES: ("supersedes", "superseded by"),
    Relation.CONTRADICTS: ("contradicts", "contradicted by"),
    Relation.DERIVED_FROM: ("derived from", "source of"),
    Relation.SUPPORTS: ("supports", "supported by"),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One link of a traversal. `forward` means from its source to its target."""

    link: Link
    from_id: int
    to_id: int
    depth: int
    forward: bool


@dataclass(frozen=True, slots=True)
class Traversal:
    """The memories reached from `start`: each once, by a shortest path, nearest first.

    `cycles` are closed directed paths among the memories reached, one per strongly connected component;
    `truncated` means that links lead further than the depth allowed.
    """

    start: int
    steps: tuple[Step, ...]
    cycles: tuple[tuple[int, ...], ...] = ()
    truncated: bool = False

    @property
    def memory_ids(self) -> tuple[int, ...]:
        return (self.start, *(step.to_id for step in self.steps))


def read_relation(name: str) -> Relation:
    """The relation of that name; case, spaces and hyphens do not matter."""
    try:
        return Relation(name.strip().lower().replace("-", "_").replace(" ", "_"))
    except ValueError:
        names = ", ".join(Relation)
        raise UnknownRelation(f"There is no relation {name!r}.", hint=f"Use one of: {names}.") from None


def spec_document_links(documents: Mapping[str, int]) -> list[Link]:
    """The links between the documents of one spec folder (file name -> memory id)."""
    return [
        Link(0, documents[source], documents[target], relation, strength, f"{source} -> {target}", Origin.SPEC)
        for source, target, relation, strength in SPEC_DOCUMENT_LINKS
        if source in documents and target in documents and documents[source] != documents[target]
    ]


def traverse(
    links: Iterable[Link],
    start: int,
    *,
    depth: int = 3,
    direction: str = "both",
    relations: Collection[Relation] | None = None,
) -> Traversal:
    """Everything within `depth` links of `start`. Time is linear in the number of links."""
    if not 1 <= depth <= MAX_DEPTH:
        raise OutOfRange(f"The depth is {depth}.", hint=f"Use a depth from 1 to {MAX_DEPTH}.")
    if direction not in DIRECTIONS:
        raise BadParameter(f"direction is {direction!r}.", hint=f"Use one of: {', '.join(DIRECTIONS)}.")
    chosen = [link for link in links if relations is None or link.relation in relations]
    links_by_memory = _links_to_follow(chosen, direction)
    seen = {start}
    steps: list[Step] = []
    front = [start]
    for level in range(1, depth + 1):
        reached: list[int] = []
        for memory_id in front:
            for link in sorted(links_by_memory.get(memory_id, ()), key=_by_strength):
                forward = link.source_id == memory_id
                other = link.target_id if forward else link.source_id
                if other not in seen:
                    seen.add(other)
                    reached.append(other)
                    steps.append(Step(link, memory_id, other, level, forward))
        front = reached
    beyond = (link for memory_id in front for link in links_by_memory.get(memory_id, ()))
    truncated = any(link.source_id not in seen or link.target_id not in seen for link in beyond)
    inside = [link for link in chosen if link.source_id in seen and link.target_id in seen]
    order = {memory_id: at for at, memory_id in enumerate((start, *(step.to_id for step in steps)))}
    return Traversal(start, tuple(steps), _cycles(inside, order), truncated)


def _links_to_follow(links: list[Link], direction: str) -> dict[int, list[Link]]:
    """The links to follow from each memory."""
    links_by_memory: dict[int, list[Link]] = {}
    for link in links:
        if direction != "backward":
            links_by_memory.setdefault(link.source_id, []).append(link)
        if direction != "forward":
            links_by_memory.setdefault(link.target_id, []).append(link)
    return links_by_memory


def _by_strength(link: Link) -> tuple[float, int, int, int]:
    """Sort key: if several links lead to a memory, the path uses the strongest."""
    return (-link.strength, link.source_id, link.target_id, link.id)


def _cycles(links: list[Link], order: Mapping[int, int]) -> tuple[tuple[int, ...], ...]:
    """A shortest closed path through the nearest memory of each knot (strongly connected component)."""
    targets: dict[int, list[int]] = {}
    for link in links:
        if link.source_id != link.target_id:
            targets.setdefault(link.source_id, []).append(link.target_id)
    cycles = []
    for component in _strongly_connected(targets):
        nearest = min(component, key=lambda memory_id: order[memory_id])
        cycles.append(_closed_path(targets, nearest, component))
    return tuple(sorted(cycles, key=lambda cycle: order[cycle[0]]))


def _closed_path(targets: Mapping[int, list[int]], start: int, component: frozenset[int]) -> tuple[int, ...]:
    came_from = {start: start}
    front = [start]
    while front:
        reached = []
        for memory_id in front:
            for other in targets[memory_id]:
                if other == start:
                    path = [memory_id]
                    while path[-1] != start:
                        path.append(came_from[path[-1]])
                    return tuple(reversed(path))
                if other in component and other not in came_from:
                    came_from[other] = memory_id
                    reached.append(other)
        front = reached
    raise AssertionError("a knot has a closed path through each of its members")


def _strongly_connected(targets: Mapping[int, list[int]]) -> list[frozenset[int]]:
    """Strongly connected components of at least two memories, by Tarjan's algorithm without recursion."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    components: list[frozenset[int]] = []
    for root in targets:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(targets.get(root, ())))]
        while work:
            memory_id, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(targets.get(other, ()))))
                    break
                if other in on_stack:
                    low[memory_id] = min(low[memory_id], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[memory_id])
                if low[memory_id] == index[memory_id]:
                    components.append(_pop_component(stack, on_stack, memory_id))
    return [component for component in components if len(component) > 1]


def _pop_component(stack: list[int], on_stack: set[int], down_to: int) -> frozenset[int]:
    members = [stack.pop()]
    while members[-1] != down_to:
        members.append(stack.pop())
    on_stack.difference_update(members)
    return frozenset(members)


def reads(step: Step) -> str:
    """The relation in words, from the memory where the step starts: "caused", "superseded by", ..."""
    return _READS[step.link.relation][0 if step.forward else 1]


def tree(traversal: Traversal, titles: Mapping[int, str]) -> str:
    """The traversal as an indented tree of lines."""
    children: dict[int, list[Step]] = {}
    for step in traversal.steps:
        children.setdefault(step.from_id, []).append(step)
    lines = [_label(traversal.start, titles)]
    work = [(step, "", at == 0) for at, step in enumerate(reversed(children.get(traversal.start, [])))]
    while work:
        step, indent, last = work.pop()
        strength = "" if step.link.strength == 1 else f" {step.link.strength:g}"
        branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
        lines.append(f"{indent}{branch}{reads(step)}{strength}: {_label(step.to_id, titles)}")
        more = children.get(step.to_id, [])
        work += [(child, indent + below, at == 0) for at, child in enumerate(reversed(more))]
    lines += [f"cycle: {' -> '.join(f'#{memory_id}' for memory_id in (*c, c[0]))}" for c in traversal.cycles]
    if traversal.truncated:
        lines.append("(links lead further than this depth)")
    return "\n".join(lines)


def _label(memory_id: int, titles: Mapping[int, str]) -> str:
    return f"#{memory_id} {_one_line(titles.get(memory_id, ''))}".rstrip()


def _one_line(text: str) -> str:
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())


def mermaid(traversal: Traversal, titles: Mapping[int, str]) -> str:
    """The traversal as a Mermaid flow chart. Arrows run from a link's source to its target."""
    lines = ["flowchart TD"]
    lines += [f'    m{memory_id}["{mermaid_text(_label(memory_id, titles))}"]' for memory_id in traversal.memory_ids]
    lines += [
        f"    m{step.link.source_id} -->|{step.link.relation.replace('_', ' ')} {step.link.strength:g}|"
        f" m{step.link.target_id}"
        for step in traversal.steps
    ]
    return "\n".join(lines)


def mermaid_text(text: str) -> str:
    """Text for a quoted Mermaid label: characters that Mermaid might interpret become character codes."""
    return "".join(
        character if character.isalnum() or character in " .,:/-_()+" else f"#{ord(character)};"
        for character in _one_line(text)
    )


def dot(traversal: Traversal, titles: Mapping[int, str]) -> str:
    """The traversal in the DOT language of Graphviz."""
    lines = ["digraph lineage {", "    rankdir=LR;", "    node [shape=box];"]
    lines += [
        f'    m{memory_id} [label="{_dot_text(_label(memory_id, titles))}"];' for memory_id in traversal.memory_ids
    ]
    lines += [
        f"    m{step.link.source_id} -> m{step.link.target_id}"
        f' [label="{step.link.relation.replace("_", " ")} {step.link.strength:g}"];'
        for step in traversal.steps
    ]
    return "\n".join([*lines, "}"])


def _dot_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# By the name that a person gives.
DRAWINGS = {"tree": tree, "mermaid": mermaid, "dot": dot}
