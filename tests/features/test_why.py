from __future__ import annotations

import re
from datetime import timedelta

import pytest

from spec_kit_memory.answers import Result, SearchAnswer
from spec_kit_memory.core.memory import Link, Origin, Relation
from spec_kit_memory.errors import BadParameter, MemoryNotFound, OutOfRange, SelfLink, UnknownRelation
from spec_kit_memory.serve.cli import answer_view
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place


def ids(answer: SearchAnswer) -> list[int]:
    return [result.id for result in answer.results]


@pytest.fixture
def workspace(place: Place) -> Workspace:
    for number in range(1, 6):
        place.memory(f"n{number}", f"# Note {number}\n\nThe gateway number {number} has a limit of calls.")
    return place.open()


# --- by hand ------------------------------------------------------------------------------


def test_a_link_is_made_once_and_changed_after(workspace: Workspace) -> None:
    first = workspace.link(1, 2, "caused", strength=0.5, evidence="seen in the log")
    again = workspace.link(1, 2, "caused", strength=0.9)
    assert (first.created, again.created) == (True, False)
    assert first.link.id == again.link.id
    assert [step.link.strength for step in workspace.why(1).steps] == [0.9]
    workspace.link(1, 2, "supports")
    assert workspace.stats().links["relations"]["supports"] == 1


@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        ((1, 1, "caused"), SelfLink, "E103"),
        ((1, 2, "loves"), UnknownRelation, "E102"),
        ((1, 99, "caused"), MemoryNotFound, "E080"),
        ((99, 1, "caused"), MemoryNotFound, "E080"),
    ],
)
def test_bad_links_are_refused_and_leave_nothing(
    workspace: Workspace, arguments: tuple[int, int, str], error: type[Exception], code: str
) -> None:
    before = workspace.ledger_head().head
    with pytest.raises(error) as raised:
        workspace.link(*arguments)
    assert raised.value.code == code  # type: ignore[attr-defined]
    assert workspace.ledger_head().head == before


def test_linking_again_changes_only_what_is_given_and_says_so(workspace: Workspace) -> None:
    workspace.link(1, 2, "supports", strength=0.5, evidence="seen in the log")
    again = workspace.link(1, 2, "supports")
    assert (again.link.strength, again.link.evidence, again.created) == (0.5, "seen in the log", False)
    assert again.summary.endswith("it was there and keeps its strength of 0.5")
    stronger = workspace.link(1, 2, "supports", strength=0.9)
    assert (stronger.link.strength, stronger.link.evidence) == (0.9, "seen in the log")
    assert "strength was 0.5 and is 0.9" in stronger.summary
    message = workspace.link(1, 2, "supports", evidence="read in a mail")
    assert (message.link.strength, message.link.evidence) == (0.9, "read in a mail")
    assert "its evidence was 'seen in the log'" in message.summary
    workspace.undo()
    assert workspace.why(1).steps[0].link.evidence == "seen in the log"
    assert workspace.link(2, 1, "supports").link.strength == 1.0, "a new one"
    assert workspace.link(1, 2, "supports", strength=0).link.strength == 0.0


@pytest.mark.parametrize("name", ["other.md", "OTHER.MD", "Other.Md", "other.TXT"])
def test_a_link_in_front_matter_may_name_a_file_beside_it_as_it_is_written(place: Place, name: str) -> None:
    place.write(f"specs/001-core/memory/{name}", "# Another title\n\nText of the other.\n")
    place.write(
        "specs/001-core/memory/one.md", f"---\ncausal_links: {{related_to: [{name}]}}\n---\n# One\n\nText of one.\n"
    )
    workspace = place.open()
    one = place.id_of(workspace, "one.md")
    assert [workspace.load(step.to_id).memory.title for step in workspace.why(one).steps] == ["Another title"]


def test_a_link_of_a_file_that_is_made_by_hand_keeps_its_strength_and_says_whose_it_is(place: Place) -> None:
    place.memory("one", "# One\n\nText of one.", folder="001-core")
    place.write("specs/001-core/memory/two.md", "---\ncausal_links:\n  related_to: [One]\n---\n# Two\n\nText of two.\n")
    workspace = place.open()
    one, two = place.id_of(workspace, "one.md"), place.id_of(workspace, "two.md")
    answer = workspace.link(two, one, "supports")
    assert answer.link.strength == 0.5
    assert "came from a file" in answer.hints[0]


@pytest.mark.parametrize(("strength", "error"), [(-0.1, OutOfRange), (1.1, OutOfRange), (float("nan"), BadParameter)])
def test_a_strength_outside_its_range_is_refused(workspace: Workspace, strength: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        workspace.link(1, 2, "caused", strength=strength)


def test_unlinking_what_is_not_there_is_an_error(workspace: Workspace) -> None:
    with pytest.raises(BadParameter):
        workspace.unlink(99)


# --- from files -----------------------------------------------------------------------------


def test_front_matter_links_by_id_path_and_title_in_their_direction(place: Place) -> None:
    place.memory("old", "# Old way\n\nWe used to poll.")
    place.memory("cause", "# Outage\n\nThe poller went down.")
    place.memory(
        "new",
        "---\ncausal_links:\n  supersedes: [Old way]\n  caused_by: [specs/001-core/memory/cause.md]\n"
        "  related_to: [cause.md]\n---\n# New way\n\nWe push now.",
    )
    workspace = place.open()
    old, cause, new = (place.id_of(workspace, name) for name in ("old", "cause", "new"))
    results = {
        (step.link.source_id, step.link.relation.value, step.link.target_id, step.link.strength)
        for step in workspace.why(new, max_depth=1).steps
    }
    links = {
        (link.source_id, link.relation.value, link.target_id, link.strength)
        for link in workspace._runtime.store.record.links([new])
    }
    assert results <= links
    assert links == {(new, "supersedes", old, 1.0), (cause, "caused", new, 1.0), (new, "supports", cause, 0.5)}


def test_a_link_that_a_file_asks_for_goes_with_the_claim(place: Place) -> None:
    place.memory("a", "# A\n\nFirst.")
    path = place.memory("b", "# B\n\nSecond.", causal_links="{derived_from: [A]}")
    workspace = place.open()
    assert workspace.stats().links["total"] == 1
    path.write_text("# B\n\nSecond, alone.\n", encoding="utf-8")
    workspace.index()
    assert workspace.stats().links["total"] == 0


def test_spec_documents_of_a_folder_are_linked_and_rebuilt(place: Place) -> None:
    names = ("spec", "plan", "tasks", "implementation-summary", "checklist", "decision-record", "research")
    for name in names:
        place.write(f"specs/007-auth/{name}.md", f"# {name} of auth\n\nThe {name} says something of its own.\n")
    workspace = place.open()
    known = {card.id: card.path.rsplit("/", 1)[1] for card in workspace.list().memories}
    assert {
        (known[link.source_id], link.relation.value, known[link.target_id], link.strength)
        for link in workspace._runtime.store.record.links()
    } == {
        ("spec.md", "caused", "plan.md", 0.9),
        ("plan.md", "caused", "tasks.md", 0.9),
        ("tasks.md", "caused", "implementation-summary.md", 0.8),
        ("checklist.md", "supports", "spec.md", 0.7),
        ("decision-record.md", "supports", "plan.md", 0.8),
        ("research.md", "supports", "spec.md", 0.7),
    }
    (place.root / "specs/007-auth/plan.md").unlink()
    workspace.index()
    assert workspace.stats().links["total"] == 3
    place.write("specs/007-auth/plan.md", "# plan of auth\n\nThe plan says something of its own.\n")
    workspace.index()
    assert workspace.stats().links["total"] == 6
    workspace.index(rebuild=True)
    assert workspace.stats().links["total"] == 6


# --- in answers -----------------------------------------------------------------------------


def test_a_superseded_memory_ranks_below_its_successor_and_says_by_which(workspace: Workspace) -> None:
    before = ids(workspace.search("the gateway number 1 has a limit of calls"))
    assert before[0] == 1
    workspace.link(4, 1, "supersedes")
    answer = workspace.search("the gateway number 1 has a limit of calls")
    order = ids(answer)
    assert order.index(1) == order.index(4) + 1
    superseded = next(result for result in answer.results if result.id == 1)
    assert isinstance(superseded, Result)
    assert superseded.superseded_by == (4,)


def test_contradictions_are_pointed_out_on_both_sides(workspace: Workspace) -> None:
    workspace.link(2, 3, "contradicts")
    answer = workspace.search("gateway limit of calls")
    messages = {result.id: result.contradicts for result in answer.results if isinstance(result, Result)}
    assert messages[2] == (3,)
    assert messages[3] == (2,)
    assert messages[1] == ()


def test_links_to_a_deleted_memory_are_gone_and_come_back_with_it(workspace: Workspace) -> None:
    workspace.link(1, 2, "caused")
    workspace.delete(2)
    assert workspace.why(1).steps == ()
    assert workspace.stats().links["total"] == 0
    workspace.undo()
    assert [step.to_id for step in workspace.why(1).steps] == [2]


def test_statistics_say_how_much_is_linked(workspace: Workspace) -> None:
    workspace.link(1, 2, "caused", strength=0.4)
    workspace.link(2, 3, "enabled", strength=0.8)
    assert workspace.stats().links == {
        "total": 2,
        "relations": {
            "caused": 1,
            "enabled": 1,
            "supersedes": 0,
            "contradicts": 0,
            "derived_from": 0,
            "supports": 0,
        },
        "linked": 3,
        "coverage": 0.6,
        "averageStrength": 0.6,
        "orphans": 0,
    }


# --- why --------------------------------------------------------------------------------------


def test_a_lineage_has_each_memory_once_by_its_shortest_path(workspace: Workspace) -> None:
    for source, target in ((1, 2), (2, 3), (1, 3), (3, 4), (4, 5)):
        workspace.link(source, target, "caused")
    answer = workspace.why(1)
    assert {(step.to_id, step.depth) for step in answer.steps} == {(2, 1), (3, 1), (4, 2), (5, 3)}
    assert [step.to_id for step in workspace.why(1, max_depth=1).steps] == [2, 3]
    assert workspace.why(1, max_depth=1).truncated
    assert [step.to_id for step in workspace.why(5, direction="backward", max_depth=1).steps] == [4]
    assert workspace.why(5, direction="forward").steps == ()
    assert workspace.why(1, relations=["supports"]).steps == ()


@pytest.mark.parametrize("arguments", [{"max_depth": 0}, {"max_depth": 11}, {"direction": "sideways"}])
def test_questions_that_make_no_sense_are_refused(workspace: Workspace, arguments: dict[str, object]) -> None:
    with pytest.raises((OutOfRange, BadParameter)):
        workspace.why(1, **arguments)  # type: ignore[arg-type]


def test_a_cycle_is_reported_once(workspace: Workspace) -> None:
    for source, target in ((1, 2), (2, 3), (3, 1)):
        workspace.link(source, target, "caused")
    assert workspace.why(1).cycles == ((1, 2, 3),)


def test_ten_thousand_links_in_a_cycle_are_walked_without_harm(place: Place) -> None:
    from spec_kit_memory.core import links

    count = 10_000
    ring = [Link(n, n, n % count + 1, Relation.CAUSED, origin=Origin.HAND) for n in range(1, count + 1)]
    result = links.traverse(ring, 1, depth=10, direction="both")
    assert len(result.steps) == 20
    assert result.truncated
    dense = [Link(n, n % 15 + 1, (n + 1) % 15 + 1, Relation.CAUSED) for n in range(count)]
    assert len(links.traverse(dense, 1, depth=10).steps) == 14


def test_the_drawings_name_every_memory_and_survive_odd_titles(place: Place) -> None:
    place.memory("one", "# x\n\nFirst.", title="'A \"quoted\" [odd] | <b>#1</b>'")
    place.memory("two", "# Plain\n\nSecond.")
    workspace = place.open()
    workspace.link(1, 2, "caused")
    answer = workspace.why(place.id_of(workspace, "one"))
    tree = answer_view.draw_links(answer, "tree")
    assert "caused" in tree
    assert "Plain" in tree
    mermaid = answer_view.draw_links(answer, "mermaid")
    assert mermaid.startswith("flowchart")
    assert len(re.findall(r'^\s+m\d+\["[^"\[\]|<>]*"\]$', mermaid, re.MULTILINE)) == 2
    assert re.search(r"m1 -->\|caused 1\| m2", mermaid)
    dot = answer_view.draw_links(answer, "dot")
    assert dot.count("{") == dot.count("}") == 1
    assert '\\"quoted\\"' in dot
    assert "m1 -> m2" in dot


def test_a_link_between_spec_documents_that_somebody_removed_stays_away(place: Place) -> None:
    for name in ("spec", "plan", "tasks"):
        place.write(f"specs/001-core/{name}.md", f"# {name}\n\nAbout the {name}.\n")
    workspace = place.open()
    spec = next(card.id for card in workspace.list().memories if card.path.endswith("spec.md"))
    (step,) = workspace.why(spec, max_depth=1).steps
    assert "returns" not in " ".join(workspace.unlink(step.link.id).hints)
    for change in ("changed", "changed again"):
        place.clock.at += timedelta(minutes=5)
        place.write("specs/001-core/plan.md", f"# plan\n\nThe plan was {change}.\n")
        workspace.index()
        assert workspace.why(spec, max_depth=1).steps == ()
    workspace.undo()
    assert len(workspace.why(spec, max_depth=1).steps) == 1
    place.write("specs/001-core/plan.md", "# plan\n\nOnce more.\n")
    place.clock.at += timedelta(minutes=5)
    workspace.index()
    assert len(workspace.why(spec, max_depth=1).steps) == 1


def test_a_link_that_went_with_its_document_comes_back_with_it(place: Place) -> None:
    for name in ("spec", "plan"):
        place.write(f"specs/001-core/{name}.md", f"# {name}\n\nAbout the {name}.\n")
    workspace = place.open()
    spec = next(card.id for card in workspace.list().memories if card.path.endswith("spec.md"))
    (place.root / "specs/001-core/plan.md").unlink()
    workspace.index()
    assert workspace.why(spec, max_depth=1).steps == ()
    place.write("specs/001-core/plan.md", "# plan\n\nAnother plan.\n")
    workspace.index()
    assert len(workspace.why(spec, max_depth=1).steps) == 1
