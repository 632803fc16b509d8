"""How are memories connected?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import links
from spec_kit_memory.core.memory import Link, Origin, Relation
from spec_kit_memory.errors import BadParameter, OutOfRange, UnknownRelation


def link(source: int, target: int, relation: Relation = Relation.CAUSED, strength: float = 1.0) -> Link:
    return Link(source * 100_000 + target, source, target, relation, strength)


def test_documents_of_a_spec_folder_are_linked_by_the_table() -> None:
    built = links.spec_document_links({"spec.md": 1, "plan.md": 2, "checklist.md": 3, "notes.md": 4})
    assert [(item.source_id, item.target_id, item.relation, item.strength) for item in built] == [
        (1, 2, Relation.CAUSED, 0.9),
        (3, 1, Relation.SUPPORTS, 0.7),
    ]
    assert {item.origin for item in built} == {Origin.SPEC}


def test_every_link_of_the_table_is_built_when_all_documents_are_there() -> None:
    names = ["spec", "plan", "tasks", "implementation-summary", "checklist", "decision-record", "research"]
    assert len(links.spec_document_links({f"{name}.md": number for number, name in enumerate(names)})) == 6


def test_each_memory_is_reached_once_and_by_its_shortest_path() -> None:
    walked = links.traverse([link(1, 2), link(2, 3), link(1, 3), link(3, 4)], 1, direction="forward")
    assert [(step.from_id, step.to_id, step.depth) for step in walked.steps] == [(1, 2, 1), (1, 3, 1), (3, 4, 2)]


def test_direction_and_relations_choose_the_links() -> None:
    given_links = [link(1, 2), link(3, 1, Relation.SUPPORTS), link(1, 4, Relation.SUPERSEDES)]
    assert links.traverse(given_links, 1, direction="forward").memory_ids == (1, 2, 4)
    assert links.traverse(given_links, 1, direction="backward").memory_ids == (1, 3)
    assert set(links.traverse(given_links, 1).memory_ids) == {1, 2, 3, 4}
    assert links.traverse(given_links, 1, relations={Relation.SUPPORTS}).memory_ids == (1, 3)


def test_a_walk_that_stops_before_the_end_says_so() -> None:
    chain = [link(number, number + 1) for number in range(1, 6)]
    assert links.traverse(chain, 1, depth=3).truncated
    assert not links.traverse(chain, 1, depth=5).truncated


def test_cycles_are_reported_in_order_from_the_nearest() -> None:
    walked = links.traverse([link(1, 2), link(2, 3), link(3, 2), link(3, 4)], 1)
    assert walked.cycles == ((2, 3),)
    assert links.traverse([link(1, 2), link(2, 1)], 2).cycles == ((2, 1),)
    assert links.traverse([link(1, 2), link(3, 2), link(1, 3)], 1).cycles == ()


def test_ten_thousand_links_in_a_cycle_are_walked_without_recursion() -> None:
    ring = [link(number, number % 10_000 + 1) for number in range(1, 10_001)]
    walked = links.traverse(ring, 1, depth=10)
    assert len(walked.steps) == 20
    assert walked.truncated
    star = [link(1, number) for number in range(2, 5_002)] + [link(number, 1) for number in range(2, 5_002)]
    assert len(links.traverse(star, 1).cycles) == 1


def test_a_long_ring_that_is_wholly_inside_is_one_cycle() -> None:
    spokes = [link(0, number) for number in range(1, 3_001)]
    ring = [link(number, number % 3_000 + 1) for number in range(1, 3_001)]
    (cycle,) = links.traverse([*spokes, *ring], 0, direction="forward").cycles
    assert len(cycle) == 3_000


def test_a_hundred_thousand_links_are_walked() -> None:
    many = [link(number // 3 + 1, number + 2) for number in range(100_000)]
    assert len(links.traverse(many, 1, depth=10).memory_ids) > 50_000


def test_bad_depth_direction_and_relation_are_named() -> None:
    with pytest.raises(OutOfRange, match="11"):
        links.traverse([], 1, depth=11)
    with pytest.raises(BadParameter, match="sideways"):
        links.traverse([], 1, direction="sideways")
    with pytest.raises(UnknownRelation, match="blocks"):
        links.read_relation("blocks")
    assert links.read_relation("Derived-From") is Relation.DERIVED_FROM


def test_the_tree_shows_who_led_to_what() -> None:
    walked = links.traverse([link(1, 2, strength=0.9), link(2, 3), link(4, 1, Relation.SUPERSEDES)], 1)
    assert links.tree(walked, {1: "Plan", 2: "Tasks", 3: "Summary", 4: "New\nplan"}) == (
        "#1 Plan\n├─ superseded by: #4 New plan\n└─ caused 0.9: #2 Tasks\n   └─ caused: #3 Summary"
    )


def test_titles_cannot_break_out_of_a_drawing() -> None:
    walked = links.traverse([link(1, 2)], 1)
    titles = {1: 'a "b"] --> end\n%%{init}%%', 2: 'x\\" ]; evil [label="'}
    chart = links.mermaid(walked, titles)
    assert chart.count('"') == 4
    assert chart.count("\n") == 3
    assert "%%" not in chart
    graph = links.dot(walked, titles)
    assert 'm2 [label="#2 x\\\\\\" ]; evil [label=\\""];' in graph
    assert graph.splitlines()[-1] == "}"


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=40), st.sampled_from(links.DIRECTIONS))
def test_a_walk_reaches_exactly_what_is_within_its_depth(pairs: list[tuple[int, int]], direction: str) -> None:
    walked = links.traverse([link(a, b) for a, b in pairs], 1, depth=4, direction=direction)
    near = {1}
    for _ in range(4):
        near |= {b for a, b in pairs if a in near and direction != "backward"} | {
            a for a, b in pairs if b in near and direction != "forward"
        }
    assert set(walked.memory_ids) == near
    assert len(walked.memory_ids) == len(near)
    for cycle in walked.cycles:
        assert all((a, b) in pairs for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
