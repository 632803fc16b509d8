"""Is a memory found by the questions that it says it answers, and do they stay with it?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.answers import FlatResult, Result
from spec_kit_memory.errors import Invalid
from spec_kit_memory.settings import Search
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

ASKED = "Where does the nightly copy go?"
SESSION: dict[str, Any] = {
    "title": "Restic to the second house",
    "sessionSummary": "Backups run with restic at 01:15.",
    "nextSteps": ["Rehearse a restore"],
    "questions": [ASKED, "How long until everything is back after a loss?"],
}
TWO_SECTIONS = (
    "# Storage\n\n<!-- ANCHOR:garage -->\n## Garage\n" + "Garage runs on three unequal machines. " * 40 + "\n"
    "<!-- /ANCHOR:garage -->\n\n<!-- ANCHOR:restic -->\n## Restic\nSnapshots are pruned on Sundays. "
    + "Retention is seven daily ones. " * 40
    + "\n<!-- /ANCHOR:restic -->\n"
)


def front(*questions: str) -> str:
    return "---\nquestions:\n" + "".join(f"  - {json.dumps(question)}\n" for question in questions) + "---\n"


def first(workspace: Workspace, query: str, **how: Any) -> Result:
    result = workspace.search(query, **how).results[0]
    assert isinstance(result, Result)
    return result


def noise(place: Place, count: int = 8) -> None:
    for number in range(count):
        place.memory(
            f"other-{number}", f"# Note {number}\n\nThe lamp {number} is painted green and stands in hall {number}."
        )


@pytest.mark.parametrize("model", ["hashing", "none"])
@pytest.mark.parametrize("fusion", ["best", "rrf"])
def test_a_question_in_front_matter_leads_to_the_memory(place: Place, model: str, fusion: str) -> None:
    noise(place)
    place.write("memory/storage.md", front("Who tidies up old copies?") + TWO_SECTIONS)
    workspace = place.open(model=model, search=Search(fusion=fusion))
    result = first(workspace, "who tidies up old copies")
    assert result.path == "memory/storage.md"
    assert result.question == "Who tidies up old copies?"
    assert "tidies" not in result.text  # what is shown is the memory's own text


def test_a_question_leads_to_the_section_that_has_its_words(place: Place) -> None:
    noise(place)
    place.write("memory/storage.md", front("Who tidies up, and when are snapshots pruned?") + TWO_SECTIONS)
    workspace = place.open(model="none")
    result = first(workspace, "tidies")
    assert "pruned on Sundays" in result.text
    assert result.question is not None
    flat = workspace.search("tidies", group_by="passage").results[0]
    assert isinstance(flat, FlatResult)
    assert "pruned on Sundays" in flat.text
    assert flat.question == result.question


def test_a_section_that_matches_better_by_itself_names_no_question(place: Place) -> None:
    place.write("memory/storage.md", front("Who tidies up old copies?") + TWO_SECTIONS)
    noise(place)
    assert first(place.open(), "Garage runs on three unequal machines").question is None


def test_questions_are_saved_found_and_kept_through_an_index_made_anew(place: Place) -> None:
    noise(place)
    (place.root / "specs/001-core").mkdir(parents=True, exist_ok=True)
    workspace = place.open()
    saved = workspace.save(context=SESSION, spec_folder="001-core")
    text = (place.root / saved.path).read_text(encoding="utf-8")
    assert "questions:\n" in text
    assert ASKED in text
    metadata = json.loads((place.root / saved.path).with_name("metadata.json").read_text(encoding="utf-8"))
    assert metadata["questions"] == SESSION["questions"]
    assert first(workspace, "where does the nightly copy go").question == ASKED
    workspace.index(rebuild=True)
    workspace.index()
    result = first(workspace, "where does the nightly copy go")
    assert (result.id, result.question) == (saved.id, ASKED)


def test_a_template_of_ones_own_keeps_the_questions(place: Place) -> None:
    place.write(".spec-kit-memory/context_template.md", "# {{title}}\n\n{{summary}}\n")
    (place.root / "specs/001-core").mkdir(parents=True)
    saved = place.open().save(context=SESSION, spec_folder="001-core")
    assert ASKED in (place.root / saved.path).read_text(encoding="utf-8")


def test_too_many_and_too_long_questions_are_told_together_with_every_other_problem(place: Place) -> None:
    (place.root / "specs/001-core").mkdir(parents=True)
    workspace = place.open()
    wrong = SESSION | {"questions": [f"Question {n}?" for n in range(8)] + ["why " * 200], "importanceTier": "huge"}
    with pytest.raises(Invalid) as refused:
        workspace.save(context=wrong, spec_folder="001-core")
    message = refused.value.message
    assert "questions has 9 texts; at most 8" in message
    assert "at most 500 are a question" in message
    assert "huge" in message
    assert workspace.list().memories == ()


@pytest.mark.parametrize("given", ["Where is it?", '["Where is it?"]', ["Where is it?", "where is IT?", None, ""]])
def test_questions_come_in_every_shape_that_lists_come_in(place: Place, given: object) -> None:
    (place.root / "specs/001-core").mkdir(parents=True)
    saved = place.open().save(context=SESSION | {"questions": given}, spec_folder="001-core")
    text = (place.root / saved.path).read_text(encoding="utf-8")
    assert text.count("Where is it?") == 1
    assert "where is IT?" not in text


def test_a_secret_in_a_question_is_neither_written_nor_found(place: Place) -> None:
    (place.root / "specs/001-core").mkdir(parents=True)
    workspace = place.open()
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    saved = workspace.save(context=SESSION | {"questions": [f"What is {key} for?"]}, spec_folder="001-core")
    assert key not in (place.root / saved.path).read_text(encoding="utf-8")
    place.write("memory/hand.md", front(f"Who made {key}?") + "# By hand\n\nText.\n")
    workspace.index()
    stored = workspace._runtime.store
    for card in workspace.list().memories:
        assert all(key not in passage.question for passage in stored.documents.passages(memory_ids=[card.id]))


def test_two_memories_that_are_merged_keep_the_questions_of_both(place: Place) -> None:
    (place.root / "specs/001-core").mkdir(parents=True)
    workspace = place.open()
    saved = workspace.save(context=SESSION, spec_folder="001-core")
    other = workspace.save(
        context=SESSION | {"questions": ["Which tool makes copies?", ASKED.lower()], "title": "Copies"},
        spec_folder="001-core",
        force=True,
    )
    assert saved.id is not None
    assert other.id is not None
    workspace.merge(saved.id, other.id)
    text = (place.root / other.path).read_text(encoding="utf-8")
    assert "Which tool makes copies?" in text
    assert SESSION["questions"][1] in text
    assert text.lower().count(ASKED.lower()) == 1
    workspace.undo()
    assert (place.root / saved.path).exists()
    assert "Which tool makes copies?" in (place.root / other.path).read_text(encoding="utf-8")


def test_a_checkpoint_brings_questions_back_and_searches_by_them_at_once(place: Place) -> None:
    (place.root / "specs/001-core").mkdir(parents=True)
    noise(place)
    workspace = place.open()
    saved = workspace.save(context=SESSION, spec_folder="001-core")
    workspace.checkpoint_create("before")
    path = place.root / saved.path
    path.write_text(path.read_text(encoding="utf-8").replace(ASKED, "Something else entirely?"), encoding="utf-8")
    workspace.index()
    assert first(workspace, "where does the nightly copy go").question != ASKED
    workspace.checkpoint_restore("before", restore_files=True, clear_existing=True)
    assert first(workspace, "where does the nightly copy go").question == ASKED


def test_a_question_that_goes_from_front_matter_no_longer_leads_anywhere(place: Place) -> None:
    noise(place)
    path = place.write("memory/storage.md", front("Who tidies up?") + TWO_SECTIONS)
    workspace = place.open(model="none")
    assert workspace.search("tidies").results
    path.write_text(TWO_SECTIONS, encoding="utf-8")
    workspace.index()
    assert not workspace.search("tidies").results


def test_a_forgotten_memory_that_comes_back_is_found_by_its_questions(place: Place) -> None:
    noise(place)
    place.write("memory/storage.md", front("Who tidies up?") + TWO_SECTIONS)
    workspace = place.open(model="none")
    workspace.delete(id=place.id_of(workspace, "storage"))
    assert not workspace.search("tidies").results
    workspace.undo()
    assert first(workspace, "tidies").question == "Who tidies up?"


def test_hand_written_questions_are_read_in_every_form_and_what_is_odd_is_said(place: Place) -> None:
    many = ", ".join(f'"Question number {n}?"' for n in range(30))
    place.write("memory/many.md", f"---\nquestions: [{many}]\n---\n# Many\n\nText about many.\n")
    place.write("memory/one.md", "---\nquestions: What, and why, is one?\n---\n# One\n\nText about one.\n")
    place.write("memory/long.md", f"---\nquestions:\n  - {'very ' * 200}long?\n  - Short?\n---\n# Long\n\nText.\n")
    workspace = place.open(model="none")
    stored = {card.path: card for card in workspace.list().memories}
    asked = {
        path: [
            passage.question
            for passage in workspace._runtime.store.documents.passages(memory_ids=[card.id])
            if passage.question
        ]
        for path, card in stored.items()
    }
    assert asked["memory/one.md"] == ["What, and why, is one?"]
    assert asked["memory/long.md"] == ["Short?"]
    assert len(asked["memory/many.md"]) == 24
    message = json.dumps(workspace.health().problems, default=str)
    assert "30 questions; the first 24 are found" in message
    assert "at most 500 are" in message


def test_text_that_was_sent_is_not_sent_again_because_a_question_led_there(place: Place) -> None:
    noise(place)
    place.write(
        "memory/storage.md", front("Who tidies up old copies?") + "# Restic\n\nSnapshots are pruned on Sundays.\n"
    )
    workspace = place.open()
    shown = first(workspace, "who tidies up old copies", session_id="s")
    assert "pruned on Sundays" in shown.text
    again = first(workspace, "who tidies up old copies", session_id="s")
    assert again.already_sent
    assert again.text == ""


def test_concepts_may_be_matched_by_a_question(place: Place) -> None:
    noise(place)
    place.write("memory/storage.md", front("Who tidies up?") + TWO_SECTIONS)
    workspace = place.open(model="hashing")
    found = workspace.search(concepts=["tidies", "garage"]).results
    assert [result.path for result in found] == ["memory/storage.md"]


def test_the_past_is_asked_by_the_questions_of_its_day(place: Place) -> None:
    noise(place)
    path = place.write("memory/storage.md", front("Who tidies up?") + TWO_SECTIONS)
    workspace = place.open(model="none")
    then = place.clock().isoformat()
    place.clock.pass_(days=2)
    path.write_text(front("Who sweeps?") + TWO_SECTIONS, encoding="utf-8")
    workspace.index()
    assert not workspace.search("tidies").results
    old = workspace.search("tidies", as_of=then).results[0]
    assert isinstance(old, Result)
    assert old.question == "Who tidies up?"


def test_the_file_of_a_save_has_no_questions_where_none_were_given(place: Place) -> None:
    (place.root / "specs/001-core").mkdir(parents=True)
    saved = place.open().save(context={"sessionSummary": "One thing."}, spec_folder="001-core")
    assert "questions" not in Path(place.root / saved.path).read_text(encoding="utf-8")
