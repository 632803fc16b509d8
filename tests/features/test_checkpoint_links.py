"""Are links made by hand part of a checkpoint like everything else? Restored, in the diff, on the ledger, undone."""

from __future__ import annotations

from typing import Any

import pytest

from spec_kit_memory.core import ledger_operations, operation
from spec_kit_memory.core.memory import Link
from spec_kit_memory.serve.messages import advice_for_python
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place


@pytest.fixture
def workspace(place: Place) -> Workspace:
    place.memory("one", "# One\n\nThe first of them.")
    place.memory("two", "# Two\n\nThe second of them.")
    place.memory("three", "# Three\n\nThe third of them.", folder="002-other")
    return place.open()


def ids(place: Place, workspace: Workspace) -> tuple[int, int, int]:
    one, two, three = (place.id_of(workspace, name) for name in ("one", "two", "three"))
    return one, two, three


def links(workspace: Workspace) -> list[Link]:
    return sorted(workspace._runtime.store.record.links(), key=lambda link: link.key)


def entries(workspace: Workspace, after: int) -> list[Any]:
    return list(workspace._runtime.whole.record.ledger(after=after))


def head(workspace: Workspace) -> int:
    return workspace.ledger_head().entries


def restore(place: Place, workspace: Workspace, name: str = "c", *, clear: bool = True) -> Any:
    place.clock.pass_(minutes=1)
    answer = workspace.checkpoint_restore(name, clear_existing=clear)
    place.clock.pass_(minutes=1)
    return answer


def test_a_link_made_since_goes_is_on_the_ledger_and_is_brought_back_by_undo(
    place: Place, workspace: Workspace
) -> None:
    one, two, _ = ids(place, workspace)
    workspace.validate(two, was_useful=True)
    workspace.checkpoint_create("c")
    workspace.link(one, two, "supports", strength=0.5, evidence="seen")
    made, before = links(workspace), head(workspace)
    diff = workspace.checkpoint_diff("c")
    assert [(row["sourceId"], row["targetId"], row["relation"]) for row in diff.links_added] == [(one, two, "supports")]
    assert "links: 1 added" in diff.summary
    answer = restore(place, workspace)
    assert links(workspace) == []
    assert answer.links_removed == 1
    (entry,) = entries(workspace, before)
    assert (str(entry.type), entry.memory_ids) == ("restore", (one, two))
    assert isinstance(ledger_operations.operation_of(entry), operation.Restore)
    row = workspace._runtime.store.record.history(one)[0]
    assert (row.before or {})["link"] is not None
    assert (row.after or {})["link"] is None
    undone = workspace.undo()
    assert undone.undone == "restore"
    assert links(workspace) == made
    card = next(card for card in workspace.list().memories if card.id == two)
    assert card.validation_count == 1  # the opinion before the checkpoint is not what was offered
    assert workspace.undo().undone == "link"
    assert workspace.undo().undone == "validation"
    assert workspace.ledger_verify().ok


@pytest.mark.parametrize("clear", [True, False])
def test_a_link_removed_since_comes_back_with_its_id(place: Place, workspace: Workspace, clear: bool) -> None:
    one, two, _ = ids(place, workspace)
    workspace.link(one, two, "supports", strength=0.5, evidence="seen")
    made = links(workspace)
    workspace.checkpoint_create("c")
    workspace.unlink(made[0].id)
    assert len(workspace.checkpoint_diff("c").links_removed) == 1
    before = head(workspace)
    answer = restore(place, workspace, clear=clear)
    assert links(workspace) == made
    assert answer.links_restored == 1
    assert [entry.memory_ids for entry in entries(workspace, before)] == [(one, two)]
    assert workspace.undo().undone == "restore"
    assert links(workspace) == []


def test_a_link_changed_since_goes_back_only_when_clearing(place: Place, workspace: Workspace) -> None:
    one, two, _ = ids(place, workspace)
    workspace.link(one, two, "supports", strength=0.5, evidence="old")
    made = links(workspace)
    workspace.checkpoint_create("c")
    workspace.link(one, two, "supports", strength=0.9, evidence="new")
    changed = links(workspace)
    (row,) = workspace.checkpoint_diff("c").links_changed
    assert row["changed"] == ("strength", "evidence")
    restore(place, workspace, clear=False)
    assert links(workspace) == changed
    restore(place, workspace)
    assert links(workspace) == made
    workspace.undo()
    assert links(workspace) == changed


def test_a_link_that_leads_out_of_the_checkpoints_folder_is_part_of_it_too(place: Place, workspace: Workspace) -> None:
    one, two, three = ids(place, workspace)
    workspace.link(one, three, "supports", strength=0.5)
    workspace.link(three, two, "caused", strength=0.7)
    made = links(workspace)
    workspace.checkpoint_create("c", spec_folder="001-core")
    for link in made:
        workspace.unlink(link.id)
    workspace.link(two, three, "contradicts")
    since = links(workspace)
    diff = workspace.checkpoint_diff("c")
    assert (len(diff.links_added), len(diff.links_removed)) == (1, 2)
    restore(place, workspace)
    assert links(workspace) == made
    workspace.undo()
    assert links(workspace) == since


def test_a_link_whose_other_end_is_gone_is_left_out(place: Place, workspace: Workspace) -> None:
    one, _, three = ids(place, workspace)
    workspace.link(one, three, "supports", strength=0.5)
    workspace.checkpoint_create("c", spec_folder="001-core")
    workspace.delete(three)
    workspace.update(one, title="Changed")
    answer = restore(place, workspace)
    assert (answer.restored, answer.links_restored) == (1, 0)
    assert workspace.undo().undone == "restore"
    assert workspace.undo().undone == "update"
    assert workspace.undo().undone == "delete"
    assert len(links(workspace)) == 1


def test_a_link_that_a_file_asks_for_follows_the_file(place: Place) -> None:
    place.memory("one", "# One\n\nFirst.", causal_links="{supports: [Two]}")
    place.memory("two", "# Two\n\nSecond.")
    workspace = place.open()
    one, two = place.id_of(workspace, "one"), place.id_of(workspace, "two")
    asked = links(workspace)
    assert [str(link.origin) for link in asked] == ["file"]
    workspace.checkpoint_create("c")
    workspace.link(one, two, "supports", strength=0.3, evidence="by hand")
    by_hand = links(workspace)
    assert [str(link.origin) for link in by_hand] == ["hand"]
    restore(place, workspace)
    assert links(workspace) == asked
    workspace.undo()
    assert [(link.strength, str(link.origin)) for link in links(workspace)] == [(0.3, "hand")]
    workspace.undo()  # the link by hand
    assert [(link.strength, str(link.origin)) for link in links(workspace)] == [(1.0, "file")]


def test_links_come_back_with_memories_that_were_forgotten(place: Place, workspace: Workspace) -> None:
    one, two, three = ids(place, workspace)
    workspace.link(one, two, "supports")
    workspace.link(two, three, "caused")
    made = links(workspace)
    workspace.checkpoint_create("c")
    workspace.delete(two, delete_file=True)
    assert links(workspace) == []
    restore(place, workspace)
    assert links(workspace) == made
    workspace.undo()
    assert links(workspace) == []
    workspace.undo()
    assert links(workspace) == made


def test_validations_and_counts_made_since_stay_without_clearing_and_go_with_it(
    place: Place, workspace: Workspace
) -> None:
    one, _, _ = ids(place, workspace)
    workspace.validate(one, was_useful=True)
    workspace.checkpoint_create("c")
    for _ in range(2):
        workspace.validate(one, was_useful=True)
    place.clock.pass_(minutes=1)
    for _ in range(20):
        workspace.load(one)
    workspace._runtime.flush()
    now = workspace._runtime.store.documents.get(one)
    diff = workspace.checkpoint_diff("c")
    assert [row["changed"] for row in diff.changed] == [("validations",)]
    assert diff.used == 1
    kept = restore(place, workspace, clear=False)
    assert kept.kept_newer == 1
    assert workspace._runtime.store.documents.get(one) == now
    assert not any("undo()" in hint for hint in kept.hints)
    restore(place, workspace)
    then = workspace._runtime.store.documents.get(one)
    assert (then.validation_count, then.access_count < now.access_count) == (1, True)
    assert workspace.undo().undone == "restore"
    again = workspace._runtime.store.documents.get(one)
    assert (again.validation_count, again.confidence, again.access_count) == (
        now.validation_count,
        now.confidence,
        now.access_count,
    )


def test_a_restore_that_changes_nothing_offers_no_undo(place: Place, workspace: Workspace) -> None:
    one, _, _ = ids(place, workspace)
    workspace.update(one, title="Changed")
    workspace.checkpoint_create("c")
    before = head(workspace)
    answer = restore(place, workspace)
    assert head(workspace) == before
    assert any("nothing was changed" in hint for hint in answer.hints)
    assert not any("undo()" in hint for hint in answer.hints)


def test_a_checkpoint_of_0_1_without_links_to_the_outside_is_read(place: Place, workspace: Workspace) -> None:
    one, two, _ = ids(place, workspace)
    workspace.link(one, two, "supports", strength=0.5)
    made = links(workspace)
    rows = []
    for row in workspace._runtime.store.care.snapshot():
        old = {name: value for name, value in row.items() if name not in ("outside", "ledger_sequence")}
        rows.append({**old, "format": 1} if row["kind"] == "header" else old)
    workspace.unlink(made[0].id)
    change = workspace._runtime.change("restore", operation.Restore(checkpoint="old"))
    from spec_kit_memory.core.memory import Filter

    done = workspace._runtime.store.care.restore(rows, change, clear=True, where=Filter())
    assert (done["links"], links(workspace)) == (1, made)


def test_a_restore_counts_the_links_that_the_comparison_named(place: Place, workspace: Workspace) -> None:
    one, two, three = ids(place, workspace)
    workspace.checkpoint_create("c")
    workspace.link(one, two, "supports")
    workspace.merge(two, three)  # its own link, and the one to what it took in, are seen by nobody
    place.memory("four", "# Four\n\nIt came later.")
    workspace.index()
    workspace.link(one, place.id_of(workspace, "four"), "supports")
    results = workspace.checkpoint_diff("c")
    assert [(row.source_id, row.target_id) for row in results.links_added] == [
        (one, three),
        (one, place.id_of(workspace, "four")),
    ]
    answer = restore(place, workspace)
    assert (answer.links_removed, answer.links_restored) == (2, 0)
    assert links(workspace) == []
    workspace.undo()
    assert {(link.source_id, link.target_id) for link in links(workspace)} >= {
        (row.source_id, row.target_id) for row in results.links_added
    }


def test_a_restore_counts_the_links_that_it_brings_back_and_changes(place: Place, workspace: Workspace) -> None:
    one, two, three = ids(place, workspace)
    workspace.link(one, two, "supports", strength=0.5)
    workspace.link(one, three, "supports")
    workspace.checkpoint_create("c")
    workspace.link(one, two, "supports", strength=0.9)
    workspace.unlink(next(link.id for link in links(workspace) if link.target_id == three))
    results = workspace.checkpoint_diff("c")
    assert (len(results.links_changed), len(results.links_removed), len(results.links_added)) == (1, 1, 0)
    answer = restore(place, workspace)
    assert (answer.links_restored, answer.links_removed) == (2, 0)


def test_a_link_that_was_changed_since_is_kept_without_clearing_and_the_answer_says_so(
    place: Place, workspace: Workspace
) -> None:
    one, two, _ = ids(place, workspace)
    workspace.link(one, two, "supports", strength=0.9)
    workspace.checkpoint_create("c")
    workspace.link(one, two, "supports", strength=0.2)
    answer = restore(place, workspace, clear=False)
    assert [link.strength for link in links(workspace)] == [0.2]
    assert "1 link kept as it is now" in answer.summary
    assert any("clear_existing" in hint for hint in map(advice_for_python, answer.hints))
    answer = restore(place, workspace)
    assert [link.strength for link in links(workspace)] == [0.9]
    assert "kept" not in answer.summary
