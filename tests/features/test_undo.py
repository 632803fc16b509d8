from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

import apsw
import pytest

from spec_kit_memory.errors import Invalid
from spec_kit_memory.features import undo
from spec_kit_memory.settings import Isolation
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Clock, Place

TOKENS = "# Login tokens\n\nAccess tokens live fifteen minutes."
BROKER = "# Broker\n\nThe message broker is Mosquitto."


def ledger_verifies(workspace: Workspace) -> bool:
    return workspace.ledger_verify().ok


def found(workspace: Workspace, query: str) -> list[str]:
    return [result.title for result in workspace.search(query).results]


def test_a_new_workspace_has_nothing_to_undo(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    with pytest.raises(Invalid, match="nothing to undo"):
        workspace.undo()


def test_a_delete_is_taken_back_and_search_finds_it_again(place: Place) -> None:
    path = place.memory("tokens", TOKENS)
    workspace = place.open()
    id_ = place.id_of(workspace, "tokens")
    workspace.delete(id_)
    assert found(workspace, "access tokens") == []
    answer = workspace.undo()
    assert (answer.undone, answer.memory_ids) == ("delete", (id_,))
    assert found(workspace, "access tokens") == ["Login tokens"]
    assert path.exists()
    assert ledger_verifies(workspace)


def test_a_deleted_file_comes_back_from_the_trash_as_it_was(place: Place) -> None:
    path = place.memory("tokens", TOKENS, title="Front")
    before = path.read_bytes()
    workspace = place.open()
    workspace.delete(place.id_of(workspace, "tokens"), delete_file=True)
    assert not path.exists()
    workspace.undo()
    assert path.read_bytes() == before
    assert workspace.index().deleted == 0
    assert found(workspace, "access tokens") == ["Front"]


def test_a_file_in_the_way_stops_the_undo_before_it_starts(place: Place) -> None:
    path = place.memory("tokens", TOKENS)
    workspace = place.open()
    id_ = place.id_of(workspace, "tokens")
    workspace.delete(id_, delete_file=True)
    path.write_text("something else", encoding="utf-8")
    with pytest.raises(Invalid, match="exists again"):
        workspace.undo()
    assert path.read_text(encoding="utf-8") == "something else"
    path.unlink()
    assert workspace.undo().memory_ids == (id_,)


def test_an_emptied_trash_is_made_up_from_the_stored_text(place: Place) -> None:
    path = place.memory("tokens", TOKENS)
    workspace = place.open()
    answer = workspace.delete(place.id_of(workspace, "tokens"), delete_file=True)
    (place.root / answer.files[0]).unlink()
    workspace.undo()
    assert path.read_text(encoding="utf-8") == TOKENS + "\n"


def test_a_whole_folder_comes_back_with_one_undo(place: Place) -> None:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    place.memory("other", "# Other\n\nElsewhere.", folder="002-other")
    workspace = place.open()
    ids = {place.id_of(workspace, "tokens"), place.id_of(workspace, "broker")}
    answer = workspace.delete(spec_folder="001-core", confirm=True, delete_file=True)
    place.clock.pass_(seconds=1)
    assert answer.checkpoint
    assert workspace.list().total == 1
    undone = workspace.undo()
    assert set(undone.memory_ids) == ids
    assert workspace.list().total == 3
    assert len(list((place.root / "specs/001-core/memory").iterdir())) == 2
    with pytest.raises(Invalid):
        workspace.undo()


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_an_update_is_taken_back_to_the_byte(place: Place, ends: str) -> None:
    path = place.memory("tokens", TOKENS)
    path.write_bytes((TOKENS + "\n").replace("\n", ends).encode())
    before = path.read_bytes()
    workspace = place.open()
    id_ = place.id_of(workspace, "tokens")
    workspace.update(id_, title="Renamed", trigger_phrases=["hello world"], importance_tier="critical")
    assert path.read_bytes() != before
    answer = workspace.undo()
    assert answer.undone == "update"
    assert path.read_bytes() == before
    card = workspace.list().memories[0]
    assert (card.title, card.tier.value, card.triggers) == ("Login tokens", "normal", ())


def test_an_undone_update_leaves_later_edits_of_the_file_alone(place: Place) -> None:
    path = place.memory("tokens", TOKENS, title="First", importance_tier="important")
    workspace = place.open()
    id_ = place.id_of(workspace, "tokens")
    workspace.update(id_, title="Second", importance_weight=0.9)
    path.write_text(path.read_text(encoding="utf-8") + "\nA new line.\n", encoding="utf-8")
    workspace.index()
    workspace.undo()
    text = path.read_text(encoding="utf-8")
    assert "A new line." in text
    assert "title: First" in text
    assert "weight" not in text
    assert "important" in text


def test_undo_goes_one_further_each_time_and_never_undoes_itself(place: Place) -> None:
    place.memory("tokens", TOKENS, title="One")
    place.memory("broker", BROKER)
    workspace = place.open()
    tokens, broker = place.id_of(workspace, "tokens"), place.id_of(workspace, "broker")
    workspace.update(tokens, title="Two")
    workspace.update(tokens, title="Three")
    workspace.delete(broker)
    kinds, titles = [], []
    for _ in range(3):
        kinds.append(workspace.undo().undone)
        titles.append(next(card.title for card in workspace.list().memories if card.id == tokens))
    assert kinds == ["delete", "update", "update"]
    assert titles == ["Three", "Two", "One"]
    with pytest.raises(Invalid):
        workspace.undo()
    assert ledger_verifies(workspace)


def test_updates_of_two_memories_in_one_moment_are_two_changes(place: Place) -> None:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    workspace = place.open()
    tokens, broker = place.id_of(workspace, "tokens"), place.id_of(workspace, "broker")
    workspace.update(tokens, title="A")
    workspace.update(broker, title="B")
    assert workspace.undo().memory_ids == (broker,)
    assert workspace.undo().memory_ids == (tokens,)


def test_a_list_of_changes_says_that_a_scan_of_many_files_stands_before_older_ones(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "LATEST_ENTRIES", 3)
    place.memory("tokens", TOKENS)
    workspace = place.open()
    workspace.update(1, title="A")
    assert workspace.changes().summary == "1 change can be taken back"
    for number in range(3):
        place.memory(f"note-{number}", f"Note {number} is about the {number}th tree.")
    workspace.index()
    changes = workspace.changes()
    assert changes.changes == ()
    assert (
        changes.summary
        == "0 changes of the latest 3 entries of the ledger can be taken back; undo finds older ones too"
    )
    assert workspace.undo().memory_ids == (1,)


def test_an_update_that_is_kept_in_the_index_goes_back_to_what_was_overridden(place: Place) -> None:
    outside = place.root.parent / "notes"
    outside.mkdir()
    (outside / "note.md").write_text("# Note\n\nText from elsewhere.\n", encoding="utf-8")
    workspace = place.open(extra_paths=(str(outside),))
    id_ = place.id_of(workspace, "note")
    workspace.update(id_, title="One")
    workspace.update(id_, title="Two")
    titles = []
    for _ in range(2):
        workspace.undo()
        titles.append(workspace.list().memories[0].title)
    assert titles == ["One", "Note"]
    (outside / "note.md").write_text("# Changed\n\nText from elsewhere.\n", encoding="utf-8")
    workspace.index(force=True)
    assert workspace.list().memories[0].title == "Changed"


def test_a_delete_that_came_back_by_itself_is_not_undone_again(place: Place) -> None:
    path = place.memory("tokens", TOKENS, title="One")
    workspace = place.open()
    id_ = place.id_of(workspace, "tokens")
    workspace.update(id_, title="Two")
    workspace.delete(id_)
    workspace.save(file_path=str(path))
    assert workspace.undo().undone == "update"


@pytest.mark.parametrize("files", [False, True])
def test_a_restore_is_taken_back(place: Place, files: bool) -> None:
    path = place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    workspace = place.open()
    workspace.checkpoint_create("before")
    id_ = place.id_of(workspace, "tokens")
    workspace.update(id_, title="Later")
    late = place.memory("late", "# Late\n\nWritten after the checkpoint.")
    workspace.index()
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("before", clear_existing=True, restore_files=files)
    assert {card.title for card in workspace.list().memories} == {"Login tokens", "Broker"}
    place.clock.pass_(minutes=1)
    answer = workspace.undo()
    assert answer.undone == "restore"
    assert {card.title for card in workspace.list().memories} == {"Later", "Broker", "Late"}
    assert late.exists()
    assert "Later" in path.read_text(encoding="utf-8")
    assert workspace.undo().undone == "update"
    assert ledger_verifies(workspace)


def test_undoing_a_restore_takes_the_files_away_that_it_had_made(place: Place) -> None:
    vanished = place.memory("vanished", "# Vanished\n\nIts file was removed by hand.")
    deleted = place.memory("deleted", "# Deleted\n\nIt was deleted on request.")
    edited = place.memory("edited", "# Edited\n\nChanged after it was restored.")
    stays = place.memory("stays", TOKENS)
    workspace = place.open()
    workspace.checkpoint_create("before")
    text = vanished.read_text(encoding="utf-8")
    vanished.unlink()
    edited.unlink()
    workspace.index()
    workspace.delete(place.id_of(workspace, "deleted"), delete_file=True)
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("before", restore_files=True)
    assert all(path.exists() for path in (vanished, deleted, edited))
    edited.write_text("# Edited\n\nSomebody goes on writing here.\n", encoding="utf-8")
    place.clock.pass_(minutes=1)
    answer = workspace.undo()
    assert (vanished.exists(), deleted.exists(), edited.exists(), stays.exists()) == (False, False, True, True)
    assert any("vanished.md" in hint and "trash" in hint for hint in answer.hints)
    assert any("edited.md" in hint and "stays" in hint for hint in answer.hints)
    assert [path.name for path in (place.root / ".spec-kit-memory" / "trash").rglob("vanished.md")] == ["vanished.md"]
    assert {card.title for card in workspace.list().memories} == {"Login tokens"}
    assert {card.title for card in workspace.list(forgotten=True).memories} == {"Deleted"}  # the others were gone
    workspace.index()
    assert {card.title for card in workspace.list().memories} == {"Login tokens", "Edited"}  # its text is a new one
    place.write("specs/001-core/memory/vanished.md", text)
    workspace.index()
    assert "Vanished" in {card.title for card in workspace.list().memories}  # it was gone, not forgotten
    assert ledger_verifies(workspace)


def test_undoing_a_restore_leaves_what_was_made_after_it(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    workspace.checkpoint_create("before")
    workspace.update(place.id_of(workspace, "tokens"), title="Later")
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("before", clear_existing=True)
    place.memory("fresh", "# Fresh\n\nMade after the restore.")
    workspace.index()
    workspace.undo()
    assert {card.title for card in workspace.list().memories} == {"Later", "Fresh"}


def test_a_restore_whose_checkpoint_is_gone_says_so(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    workspace.checkpoint_create("before")
    workspace.update(place.id_of(workspace, "tokens"), title="Later")
    place.clock.pass_(minutes=1)
    answer = workspace.checkpoint_restore("before", clear_existing=True)
    assert answer.safety
    workspace.checkpoint_delete(answer.safety)
    with pytest.raises(Invalid, match="is gone"):
        workspace.undo()


def test_opinions_marks_and_links_are_taken_back(place: Place) -> None:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    workspace = place.open()
    one, two = place.id_of(workspace, "tokens"), place.id_of(workspace, "broker")
    workspace.validate(one, was_useful=True)
    workspace.validate(one, outdated=True)
    workspace.link(one, two, "supports", strength=0.4)
    workspace.link(one, two, "supports", strength=0.9)
    link = workspace.why(one).steps[0].link
    workspace.unlink(link.id)
    workspace.undo()
    assert workspace.why(one).steps[0].link.strength == 0.9
    workspace.undo()
    assert workspace.why(one).steps[0].link.strength == 0.4
    workspace.undo()
    assert workspace.why(one).steps == ()
    workspace.undo()
    card = next(card for card in workspace.list().memories if card.id == one)
    assert card.state.value == "WARM"
    assert card.confidence == 0.6
    workspace.undo()
    card = next(card for card in workspace.list().memories if card.id == one)
    assert (card.confidence, card.validation_count) == (0.5, 0)
    assert ledger_verifies(workspace)


class Ticking(Clock):
    """A clock that goes on between two looks at it, as a real one does."""

    def __call__(self) -> datetime:
        self.pass_(milliseconds=1)
        return self.at


def test_a_merge_is_taken_apart_again(place: Place) -> None:
    message = " ".join(f"Sentence number {n} of the long text about the harbour and its bicycles." for n in range(30))
    place.memory("old", f"# Harbour\n\n{message}\n\nOnly the old one says this.")
    workspace = place.open()
    old = place.id_of(workspace, "old")
    answer = workspace.save(text=message + " And one more.", spec_folder="001-core", on_similar="merge")
    assert "supersedes" in answer.summary
    assert answer.id is not None
    undone = workspace.undo()
    assert undone.undone == "merge"
    assert (place.root / "specs/001-core/memory/old.md").exists()
    assert workspace.why(old).steps == ()
    assert {card.id for card in workspace.list().memories} == {old, answer.id}


def test_a_merge_that_took_some_time_is_taken_apart_with_its_link(place: Place) -> None:
    place.memory("stays", "# Kiln\n\nThe kiln fires at 1240 degrees.")
    place.memory("goes", "# Lid\n\nThe lid may be opened after nine hours.")
    workspace = replace(place, clock=Ticking()).open()
    stays, goes = place.id_of(workspace, "stays"), place.id_of(workspace, "goes")
    workspace.merge(goes, stays)
    workspace.undo()
    assert workspace.why(stays).steps == ()
    assert workspace.why(goes).steps == ()


def test_a_link_that_is_made_again_as_it_is_takes_one_undo(place: Place) -> None:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    workspace = place.open()
    one, two = place.id_of(workspace, "tokens"), place.id_of(workspace, "broker")
    workspace.link(one, two, "supports", strength=0.3)
    assert "keeps its strength of 0.3" in workspace.link(one, two, "supports").summary
    workspace.undo()
    assert workspace.why(one).steps == ()


def test_a_link_that_was_there_before_a_merge_outlives_its_undo(place: Place) -> None:
    place.memory("stays", "# Kiln\n\nThe kiln fires at 1240 degrees.")
    place.memory("goes", "# Lid\n\nThe lid may be opened after nine hours.")
    workspace = replace(place, clock=Ticking()).open()
    stays, goes = place.id_of(workspace, "stays"), place.id_of(workspace, "goes")
    workspace.link(stays, goes, "supersedes")
    workspace.merge(goes, stays)
    workspace.undo()
    assert [step.link.target_id for step in workspace.why(stays).steps] == [goes]


# --- restores and their files


def on_disk(place: Place) -> dict[str, bytes]:
    """Every file of the workspace, without our own state."""
    results = {path.relative_to(place.root).as_posix(): path for path in place.root.rglob("*") if path.is_file()}
    return {
        name: path.read_bytes() for name, path in sorted(results.items()) if not name.startswith(".spec-kit-memory")
    }


def all_paths(workspace: Workspace) -> list[str]:
    return sorted(card.path for card in workspace.list(limit=100).memories)


@pytest.mark.parametrize("spec_folder", [None, "004-map"])
def test_a_folder_that_was_moved_since_the_checkpoint_comes_back_and_goes_again(
    place: Place, spec_folder: str | None
) -> None:
    place.memory("one", TOKENS, folder="004-map")
    place.memory("two", BROKER, folder="004-map")
    place.write("specs/004-map/spec.md", "# Map\n\nWhere stations are.\n")
    place.memory("other", "# Other\n\nElsewhere.", folder="001-core")
    workspace = place.open()
    workspace.checkpoint_create("before", spec_folder=spec_folder)
    (place.root / "specs/004-map").rename(place.root / "specs/014-map")
    moved, ids = on_disk(place), None
    place.clock.pass_(minutes=1)
    answer = workspace.checkpoint_restore("before", clear_existing=True, restore_files=True)
    assert len(answer.files_written) == 3
    assert not any("014-map" in path for path in on_disk(place))
    assert workspace.index().new == 0
    assert len(all_paths(workspace)) == 4
    place.clock.pass_(minutes=1)
    undone = workspace.undo()
    assert undone.undone == "restore"
    assert on_disk(place) == moved
    assert not (place.root / "specs/004-map").exists()
    ids = all_paths(workspace)
    assert workspace.index().new == 0
    assert all_paths(workspace) == ids
    assert {path for path in ids if "map" in path} == {path for path in moved if "map" in path}
    assert ledger_verifies(workspace)


@pytest.mark.parametrize("data", [b"# Mixed\r\n\nOne end\r\nand another\n", "\ufeff# Mark\n\nAt the start.\n".encode()])
def test_a_replaced_file_comes_back_to_the_byte(place: Place, data: bytes) -> None:
    path = place.memory("tokens", TOKENS)
    workspace = place.open()
    workspace.checkpoint_create("before")
    path.write_bytes(data)
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("before", clear_existing=True, restore_files=True)
    assert path.read_text(encoding="utf-8") == TOKENS + "\n"
    workspace.undo()
    assert path.read_bytes() == data


def test_what_was_gone_before_a_restore_may_come_back_after_its_undo(place: Place) -> None:
    """It was forgotten instead, and its file was passed over for good when a branch brought it back."""
    path = place.memory("tokens", TOKENS)
    text = path.read_text(encoding="utf-8")
    workspace = place.open()
    workspace.checkpoint_create("before")
    path.unlink()
    workspace.index()
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("before")
    workspace.undo()
    assert workspace.list(forgotten=True).total == 0
    place.write("specs/001-core/memory/tokens.md", text)
    workspace.index()
    assert found(workspace, "access tokens") == ["Login tokens"]


def test_what_was_forgotten_with_another_text_stays_forgotten_after_the_undo(place: Place) -> None:
    path = place.memory("tokens", TOKENS)
    workspace = place.open()
    workspace.checkpoint_create("before")
    path.write_text("# Login tokens\n\nNow they live for an hour.\n", encoding="utf-8")
    place.clock.pass_(minutes=1)
    workspace.index()
    workspace.delete(place.id_of(workspace, "tokens"))
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("before", clear_existing=True)
    assert workspace.list().total == 1
    workspace.undo()
    place.clock.pass_(minutes=1)
    workspace.index(force=True)
    assert workspace.list().total == 0


def test_an_undone_restore_leaves_memories_alone_that_were_judged_or_linked_since(place: Place) -> None:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    workspace = place.open()
    tokens, broker = place.id_of(workspace, "tokens"), place.id_of(workspace, "broker")
    workspace.checkpoint_create("before")
    workspace.validate(tokens, was_useful=True)
    workspace.update(broker, title="Later")
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("before", clear_existing=True)
    workspace.validate(tokens, was_useful=False)
    workspace.link(broker, tokens, "supports")
    workspace.undo()  # the link
    workspace.undo()  # the opinion
    workspace.link(broker, tokens, "contradicts")
    workspace.link(tokens, broker, "supports")
    for _ in range(2):
        workspace.undo()
    answer = workspace.undo()
    assert answer.undone == "restore"
    cards = {card.id: card for card in workspace.list().memories}
    assert (cards[tokens].validation_count, cards[broker].title) == (1, "Later")


def test_undoing_a_restore_says_which_memory_it_left(place: Place) -> None:
    place.memory("tokens", TOKENS)
    path = place.memory("broker", BROKER)
    workspace = place.open()
    broker = place.id_of(workspace, "broker")
    workspace.checkpoint_create("before")
    workspace.update(broker, title="Later")
    workspace.update(place.id_of(workspace, "tokens"), title="Later too")
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("before", clear_existing=True, restore_files=True)
    path.write_text(path.read_text(encoding="utf-8") + "\nEdited by hand.\n", encoding="utf-8")
    workspace.index()
    answer = workspace.undo()
    assert any("changed since" in hint for hint in answer.hints)
    assert "Edited by hand." in path.read_text(encoding="utf-8")
    assert {card.title for card in workspace.list().memories} == {"Broker", "Later too"}


# --- edits by hand, other processes, failures, scope


def test_a_key_that_was_edited_by_hand_since_stays(place: Place) -> None:
    path = place.memory("tokens", TOKENS, title="First", importance_tier="important")
    workspace = place.open()
    id_ = place.id_of(workspace, "tokens")
    workspace.update(id_, title="Second", importance_tier="critical")
    path.write_text(path.read_text(encoding="utf-8").replace("Second", "By hand"), encoding="utf-8")
    answer = workspace.undo()
    text = path.read_text(encoding="utf-8")
    assert "title: By hand" in text
    assert "important" in text
    assert any("title was changed since" in hint for hint in answer.hints)


def test_an_update_whose_every_key_was_edited_since_is_passed_over_and_named(place: Place) -> None:
    path = place.memory("tokens", TOKENS, title="First")
    place.memory("broker", BROKER)
    workspace = place.open()
    tokens, broker = place.id_of(workspace, "tokens"), place.id_of(workspace, "broker")
    workspace.update(broker, title="Other")
    workspace.update(tokens, title="Second")
    path.write_text(path.read_text(encoding="utf-8").replace("Second", "By hand"), encoding="utf-8")
    answer = workspace.undo()
    assert answer.memory_ids == (broker,)
    assert any("cannot be taken back" in hint and "changed since" in hint for hint in answer.hints)
    assert "By hand" in path.read_text(encoding="utf-8")


def test_an_update_of_a_file_that_is_gone_is_passed_over_and_named(place: Place) -> None:
    path = place.memory("tokens", TOKENS)
    workspace = place.open()
    workspace.update(1, title="Second")
    path.unlink()
    with pytest.raises(Invalid, match="gone"):
        workspace.undo()


def test_what_one_call_did_is_taken_back_as_one(place: Place) -> None:
    path = place.memory("tokens", TOKENS)
    workspace = place.open()
    before = path.read_bytes()
    for _ in range(4):
        workspace.validate(1, was_useful=True)
    workspace.validate(1, outdated=True)
    workspace.validate(1, was_useful=True, promote=True)  # not outdated any more, judged, and critical
    card = workspace.list().memories[0]
    assert (card.tier.value, card.validation_count) == ("critical", 5)
    assert workspace.undo().undone == "validation"
    memory = workspace._runtime.store.documents.get(1)
    assert (memory.tier.value, memory.validation_count, memory.outdated) == ("normal", 4, True)
    assert path.read_bytes() == before


def test_nobody_having_said_anything_about_trust_comes_back_as_that(place: Place) -> None:
    chat = place.root.parent / "chat.jsonl"
    chat.write_text('{"role": "user", "content": "Where are the racks?"}\n', encoding="utf-8")
    workspace = place.open()
    id_ = workspace.chat_import([chat]).imported[0]["id"]
    workspace.trust(id_)
    workspace.undo()
    row = next(row for row in workspace._runtime.whole.care.snapshot() if row.get("id") == id_)
    assert (row["vouched"], row["trusted"]) == (None, False)


def test_two_workspaces_take_back_what_either_did(place: Place) -> None:
    place.memory("tokens", TOKENS)
    one, two = place.open(), place.open()
    one.update(1, title="By one")
    two.update(1, title="By two")
    assert one.undo().undone == "update"
    assert two.list().memories[0].title == "By one"
    assert two.undo().undone == "update"
    assert one.list().memories[0].title == "Login tokens"
    with pytest.raises(Invalid):
        one.undo()


def test_many_at_once_take_back_one_each(place: Place) -> None:
    place.memory("tokens", TOKENS)
    spaces = [place.open() for _ in range(4)]
    for number in range(8):
        spaces[0].update(1, title=f"Title {number}")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda space: [space.undo() for _ in range(2)], spaces))
    assert len([item for answer in answers for item in answer]) == 8
    assert spaces[0].list().memories[0].title == "Login tokens"
    with pytest.raises(Invalid):
        spaces[1].undo()
    assert ledger_verifies(spaces[0])


STOP = "CREATE TRIGGER stop BEFORE INSERT ON ledger BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"


@pytest.mark.parametrize("way", ["delete", "delete folder", "update", "restore", "merge"])
def test_an_undo_that_cannot_be_written_leaves_every_file_where_it_was(place: Place, way: str) -> None:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    workspace = place.open()
    workspace.checkpoint_create("c")
    at_first = on_disk(place)
    place.clock.pass_(minutes=1)
    match way:
        case "delete":
            workspace.delete(1, delete_file=True)
        case "delete folder":
            workspace.delete(spec_folder="001-core", confirm=True, delete_file=True)
        case "update":
            workspace.update(1, title="Other")
        case "merge":
            workspace.merge(1, 2)
        case "restore":
            workspace.update(1, title="Other")
            at_first = on_disk(place)
            (place.root / "specs/001-core/memory/broker.md").unlink()
            at_first.pop("specs/001-core/memory/broker.md")
            place.clock.pass_(minutes=1)
            workspace.checkpoint_restore("c", clear_existing=True, restore_files=True)
    before = on_disk(place), all_paths(workspace)
    connection = apsw.Connection(str(workspace.settings.index_path))
    connection.execute(STOP)
    place.clock.pass_(minutes=1)
    with pytest.raises(Exception, match="disk is full"):
        workspace.undo()
    assert (on_disk(place), all_paths(workspace)) == before
    connection.execute("DROP TRIGGER stop")
    connection.close()
    workspace.undo()
    assert on_disk(place) == at_first
    assert ledger_verifies(workspace)


KILLED = """
import os, signal, sys
from datetime import datetime, UTC
from pathlib import Path
from spec_kit_memory.files.file_changes import Changes
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
real = Changes.make
def make(changes, *steps):
    real(changes, *steps)
    os.kill(os.getpid(), signal.SIGKILL)
Changes.make = make
space = Workspace(Settings(root=Path(sys.argv[1]), semantic=Semantic(model="none")))
space.undo()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process at once")
@pytest.mark.parametrize("way", ["delete", "update"])
def test_an_undo_that_was_killed_half_way_is_finished_by_the_next_one(place: Place, way: str) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    before = on_disk(place)
    if way == "delete":
        workspace.delete(1, delete_file=True)
    else:
        workspace.update(1, title="Other")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(place.root)], capture_output=True, timeout=120, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert on_disk(place) == before
    assert workspace.undo().undone == way
    assert on_disk(place) == before
    assert workspace.list().memories[0].title == "Login tokens"
    with pytest.raises(Invalid):
        workspace.undo()


def test_a_session_takes_back_only_what_lies_in_its_own_part(place: Place) -> None:
    place.memory("ours", "# Ours\n\nIn our folder.", folder="001-ours")
    place.memory("theirs", "# Theirs\n\nIn another folder.", folder="002-theirs")
    everybody = place.open()
    ours = place.open(index=False, isolation=Isolation(allowed_paths=("specs/001-ours",)))
    mine, other = place.id_of(everybody, "ours"), place.id_of(everybody, "theirs")
    ours.update(mine, title="By us")
    everybody.update(other, title="By them")
    everybody.link(mine, other, "supports")
    everybody.checkpoint_create("c")
    everybody.update(mine, title="Ours, changed by all")
    everybody.update(other, title="Theirs, changed by all")
    place.clock.pass_(minutes=1)
    everybody.checkpoint_restore("c", clear_existing=True)
    answer = ours.undo()  # the restore and the link reach beyond us, the update of our own memory does not
    assert (answer.undone, answer.memory_ids) == ("update", (mine,))
    assert not any("heirs" in hint or f"#{other}" in hint for hint in answer.hints)
    assert everybody.list().total == 2


def test_a_restore_that_brought_a_merged_memory_back_is_undone_with_its_link(place: Place) -> None:
    """The link of the merge could not be made again: one of its ends was forgotten first."""
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    workspace = place.open()
    workspace.checkpoint_create("c")
    workspace.merge(1, 2)
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("c", clear_existing=True)
    assert workspace.undo().undone == "restore"
    assert workspace.undo().undone == "merge"
    assert workspace.list().total == 2
    assert workspace.why(1).steps == ()
    assert ledger_verifies(workspace)


def test_a_memory_that_was_deleted_before_a_restore_keeps_its_opinions_through_its_undo(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    workspace.checkpoint_create("c")
    workspace.validate(1, was_useful=True)
    workspace.delete(1)
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("c")
    workspace.undo()  # the restore
    workspace.undo()  # the delete
    card = workspace.list().memories[0]
    assert (card.validation_count, card.confidence) == (1, 0.6)


def test_spec_documents_that_a_restore_brought_back_go_again_with_their_links(place: Place) -> None:
    place.write("specs/001-core/spec.md", "# Core\n\nWhat it must do.\n")
    place.write("specs/001-core/plan.md", "# Plan\n\nHow it is built.\n")
    workspace = place.open()
    workspace.checkpoint_create("c")
    spec, plan = place.id_of(workspace, "spec.md"), place.id_of(workspace, "plan.md")
    workspace.delete(spec, delete_file=True)
    workspace.update(plan, title="Other")
    before = on_disk(place)
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("c", clear_existing=True, restore_files=True)
    workspace.undo()
    assert on_disk(place) == before
    assert [card.title for card in workspace.list().memories] == ["Other"]
    for _ in range(2):
        workspace.undo()
    assert {card.title for card in workspace.list().memories} == {"Core", "Plan"}


def test_a_merge_is_undone_although_a_scan_took_out_what_a_restore_had_brought_back(place: Place) -> None:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    workspace = place.open()
    at_first = on_disk(place)
    workspace.checkpoint_create("c")
    workspace.merge(1, 2)
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("c")
    place.clock.pass_(minutes=1)
    workspace.index()  # the restored memory has no file
    answer = workspace.undo()
    assert answer.undone == "merge"
    assert any("restore" in hint and "cannot be taken back" in hint for hint in answer.hints)
    assert on_disk(place) == at_first


def test_an_update_of_a_memory_whose_file_a_restore_had_left_alone_goes_back_to_both(place: Place) -> None:
    path = place.memory("tokens", TOKENS)
    workspace = place.open()
    workspace.checkpoint_create("c")
    workspace.update(1, title="Later", importance_tier="critical")
    in_file = path.read_bytes()
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("c", clear_existing=True)
    workspace.update(1, title="Once more")
    place.clock.pass_(minutes=1)
    workspace.undo()
    card = workspace.list().memories[0]
    assert (card.title, card.tier.value) == ("Login tokens", "normal")  # as the restore had left it
    assert path.read_bytes() == in_file
    workspace.index()
    assert workspace.list().memories[0].title == "Login tokens"
    workspace.undo()
    assert workspace.list().memories[0].title == "Later"


def test_what_was_overridden_before_a_delete_is_known_after_the_undo_of_a_restore(place: Place) -> None:
    chat = place.root.parent / "chat.jsonl"
    chat.write_text('{"role": "user", "content": "Where are the racks?"}\n', encoding="utf-8")
    workspace = place.open()
    id_ = workspace.chat_import([chat]).imported[0]["id"]
    workspace.trust(id_)
    workspace.checkpoint_create("c")
    workspace.update(id_, title="Racks", trigger_phrases=["rack size"])
    workspace.trust(id_, trusted=False)
    workspace.delete(id_)
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("c", clear_existing=True)
    for kind in ("restore", "delete", "trust", "update", "trust"):
        assert workspace.undo().undone == kind
    card = workspace.list().memories[0]
    assert (card.title, card.triggers, card.trusted) == ("Where are the racks?", (), False)


def test_the_file_of_a_forgotten_memory_that_a_restore_replaced_comes_back(place: Place) -> None:
    path = place.memory("tokens", TOKENS)
    workspace = place.open()
    workspace.checkpoint_create("c")
    workspace.update(1, title="Later")
    workspace.delete(1)
    before = path.read_bytes()
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore("c", restore_files=True)
    assert path.read_bytes() != before
    workspace.undo()
    assert path.read_bytes() == before


def test_a_forgotten_memory_stays_forgotten_though_the_undo_of_a_restore_writes_its_file(place: Place) -> None:
    path = place.root / "specs/001-core/memory/mixed.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"# Mixed\r\n\nBoth ends\r\nof lines.\n")  # a restore writes it with one kind of line ends
    workspace = place.open()
    (card,) = workspace.list().memories
    workspace.checkpoint_create("before")
    workspace.delete(card.id)
    workspace.checkpoint_restore("before", restore_files=True)
    workspace.undo()
    assert path.read_bytes() == b"# Mixed\r\n\nBoth ends\r\nof lines.\n"
    assert workspace.list().memories == ()
    workspace.index()
    assert workspace.list().memories == ()
    workspace.undo()
    assert [memory.id for memory in workspace.list().memories] == [card.id]


def test_undo_names_as_the_next_change_only_one_that_can_be_taken_back(place: Place) -> None:
    path = place.memory("note", "# Note\n\nThe ferry leaves at six.", title="Note")
    other = place.memory("other", "# Other\n\nThe canteen closes at two.", title="Other")
    workspace = place.open()
    note, beside = place.id_of(workspace, "note"), place.id_of(workspace, "other")
    workspace.update(beside, title="Canteen")
    workspace.update(note, title="Ferry")
    workspace.update(note, importance_tier="important")
    path.write_text(path.read_text(encoding="utf-8").replace("Ferry", "Ferry by hand"), encoding="utf-8")
    assert workspace.undo().hints[-1] == f"undo again takes back the change before: update of #{beside}"
    taken_back = workspace.undo()
    assert any("title" in hint and "changed since" in hint for hint in taken_back.hints)
    assert taken_back.hints[-1] == "nothing else is left to undo"
    assert "Canteen" not in other.read_text(encoding="utf-8")


@pytest.mark.parametrize("way", ["delete", "merge", "restore"])
def test_undo_does_not_name_what_was_put_back_by_hand(place: Place, way: str) -> None:
    path = place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    workspace = place.open()
    tokens, broker = place.id_of(workspace, "tokens"), place.id_of(workspace, "broker")
    if way == "delete":
        workspace.delete(tokens)
    elif way == "merge":
        workspace.merge(tokens, broker)
        path.write_text(TOKENS, encoding="utf-8")
    else:
        workspace.checkpoint_create("c")
        path.write_text(TOKENS + " They rotate.", encoding="utf-8")
        workspace.index()
        place.clock.pass_(minutes=1)
        workspace.checkpoint_restore("c", clear_existing=True)
        path.write_text(TOKENS + " They rotate daily.", encoding="utf-8")
        workspace.index()
    workspace.save(file_path=str(path))
    workspace.link(broker, tokens, "supports")
    undone = workspace.undo()
    assert (undone.undone, undone.hints[-1]) == ("link", "nothing else is left to undo")
