from __future__ import annotations

import pytest

from spec_kit_memory.errors import AnchorNotFound, BadParameter, MemoryNotFound, MissingParameter, OutOfRange
from tests.features.conftest import Place

SECTIONS = """# Plan

<!-- ANCHOR:nothing -->
<!-- /ANCHOR:nothing -->
<!-- ANCHOR:decisions-about-storage-001 -->
We keep SQLite.
<!-- /ANCHOR:decisions-about-storage-001 -->
<!-- ANCHOR:decisions-002 -->
We keep Python.
<!-- /ANCHOR:decisions-002 -->

## Next steps {#next}

Measure it."""


@pytest.mark.parametrize(
    ("asked", "text", "lines"),
    [
        ("decisions-about-storage-001", "We keep SQLite.", "6-6"),
        ("Decisions", "We keep Python.", "9-9"),
        ("next", "## Next steps {#next}\n\nMeasure it.", "12-14"),
        ("next-steps", "## Next steps {#next}\n\nMeasure it.", "12-14"),
        ("nothing", "", ""),
    ],
)
def test_a_section_is_found_by_its_id_its_beginning_or_its_heading(
    place: Place, asked: str, text: str, lines: str
) -> None:
    place.memory("plan", SECTIONS)
    answer = place.open().load(1, anchor_id=asked)
    assert (answer.text.rstrip("\n"), answer.lines) == (text, lines)
    assert answer.tokens_saved > 0
    assert answer.next_line is None


def test_a_section_that_is_not_there_is_an_error_that_names_those_that_are(place: Place) -> None:
    place.memory("plan", SECTIONS)
    with pytest.raises(AnchorNotFound) as failure:
        place.open().load(1, anchor_id="decis")
    assert "decisions-002" in failure.value.hint


def test_a_long_text_is_continued_where_it_was_cut(place: Place) -> None:
    place.memory("long", "\n".join(f"Line {number} of a long memory." for number in range(200)))
    workspace = place.open()
    begun = workspace.load(1, max_tokens=100)
    assert begun.next_line is not None
    rest = workspace.get(begun.memory.path, lines=f"{begun.next_line}-").text
    assert f"{begun.text}\n{rest}" == workspace.load(1).text


def test_loading_needs_to_know_what(place: Place) -> None:
    with pytest.raises(MissingParameter):
        place.open().load()


@pytest.mark.parametrize(
    ("text", "total"), [("one\ntwo\nthree", 3), ("one\ntwo\nthree\n", 3), ("one\n\n\n", 3), ("", 1)]
)
def test_a_file_has_as_many_lines_as_an_editor_counts(place: Place, text: str, total: int) -> None:
    place.write("memory/lines.md", text)
    workspace = place.open()
    read = workspace.get("memory/lines.md")
    assert (read.total_lines, read.lines) == (total, f"1-{total}")
    assert read.text == text
    assert read.summary.endswith(f"of {total}")
    loaded = workspace.load(1)
    assert (loaded.lines, loaded.text, loaded.next_line) == (f"1-{total}", text, None)
    assert workspace.get("memory/lines.md", lines=f"1-{total}").text == text.removesuffix("\n")
    with pytest.raises(OutOfRange, match=f"not in 1-{total}"):
        workspace.get("memory/lines.md", lines=f"{total + 1}-{total + 1}")


@pytest.mark.parametrize("anchor", ["end", "last-part"])
def test_a_section_at_the_end_of_a_file_ends_with_its_last_line(place: Place, anchor: str) -> None:
    place.write("memory/end.md", "# Top\n\n## Last part\n\n<!-- ANCHOR:end -->\nDone.\n<!-- /ANCHOR:end -->\n")
    workspace = place.open()
    loaded = workspace.load(1, anchor_id=anchor)
    first, last = map(int, loaded.lines.split("-"))
    assert last <= 7
    assert loaded.next_line is None
    assert workspace.get("memory/end.md", lines=f"{first}-{last}").text == loaded.text


def test_a_folder_and_an_anchor_find_the_newest_memory_that_has_it(place: Place) -> None:
    def anchored(name: str, text: str) -> str:
        return f"# {text}\n\n<!-- ANCHOR:{name} -->\n{text} of {name}.\n<!-- /ANCHOR:{name} -->"

    place.write("specs/001-core/plan.md", anchored("risks", "Plan") + "\n")
    place.memory("a", anchored("decisions-old", "First"), created="2026-01-01")
    place.memory("b", anchored("decisions", "Second"), created="2026-01-02")
    place.memory("c", anchored("summary", "Third"), created="2026-01-03")
    workspace = place.open()
    assert workspace.load(spec_folder="001-core").memory.title == "Third"
    assert workspace.load(spec_folder="001-core", anchor_id="summary").memory.title == "Third"
    assert workspace.load(spec_folder="001-core", anchor_id="decisions").memory.title == "Second"
    assert "Second of decisions." in workspace.load(spec_folder="001-core", anchor_id="decisions").text
    assert workspace.load(spec_folder="001-core", anchor_id="risks").memory.title == "Plan"
    assert workspace.load(spec_folder="001-core", anchor_id="#risks").memory.title == "Plan"
    with pytest.raises(AnchorNotFound, match="no memory of 001-core has an anchor nothing") as raised:
        workspace.load(spec_folder="001-core", anchor_id="nothing")
    for name in ("decisions", "decisions-old", "risks", "summary"):
        assert name in raised.value.hint


def test_a_line_that_is_too_long_for_what_is_left_is_shown_as_far_as_it_goes(place: Place) -> None:
    line = " ".join(f"Entry {number}: ropes were checked." for number in range(2_000))
    place.memory("long", f"# Big\n\n{line}\n\nThe end.")
    workspace = place.open()
    loaded = workspace.load(place.id_of(workspace, "long"), max_tokens=300)
    assert loaded.text.startswith("# Big\n\nEntry 0: ropes were checked.")
    assert loaded.text.endswith("…")
    assert loaded.lines == "1-3"
    assert any("line 3 is shown up to character" in hint for hint in loaded.hints)
    assert any("get('specs/001-core/memory/long.md', '3-5')" in hint for hint in map(str, loaded.hints)), loaded.hints
    assert len(loaded.text.encode()) <= 1_200
    alone = workspace.get("specs/001-core/memory/long.md", lines="3-3")
    assert line.startswith(alone.text.rstrip("…"))
    assert len(alone.text) > 10 * len(loaded.text)


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("memory/a.md", "L2-L3"),
        ("memory/a.md", "2:3"),
        ("memory/a.md", "2, 3"),
        ("memory/a.md", "2 to 3"),
        ("memory/a.md:2-3", None),
        ("memory/a.md#L2-L3", None),
        ("memory://1", "2-3"),
        ("#1", "2-3"),
    ],
)
def test_lines_and_paths_are_understood_as_editors_and_links_write_them(
    place: Place, path: str, lines: str | None
) -> None:
    place.write("memory/a.md", "# A\n\nSecond and third.\nFourth.\n")
    workspace = place.open()
    answer = workspace.get(path, lines)
    assert (answer.path, answer.lines, answer.text) == ("memory/a.md", "2-3", "\nSecond and third.")


def test_a_text_of_which_a_part_is_shown_is_not_called_whole(place: Place) -> None:
    place.memory("long", "# Big\n\n" + "\n".join(f"Entry {number}: ropes were checked." for number in range(900)))
    place.memory("wide", "# Wide\n\n" + "Every rope of the ship was checked by the mate. " * 900)
    workspace = place.open()
    for name in ("long", "wide"):
        loaded = workspace.load(place.id_of(workspace, name), max_tokens=300)
        assert ", its beginning, lines 1-" in loaded.summary
        assert "whole" not in loaded.summary
        assert any("continue with" in hint for hint in loaded.hints)
        assert ", whole text, lines 1-" in workspace.load(place.id_of(workspace, name), max_tokens=20_000).summary


def test_load_takes_the_path_that_other_answers_show_in_place_of_a_folder(place: Place) -> None:
    place.memory("tokens", "# Tokens\n\nThey live for an hour.")
    place.write("memory/broker.md", "# Broker\n\nIt is Mosquitto.\n")
    workspace = place.open()
    assert workspace.load(spec_folder="memory/broker.md").memory.title == "Broker"
    path = next(card.path for card in workspace.list().memories if card.title == "Tokens")
    assert workspace.load(spec_folder=path).memory.title == "Tokens"
    with pytest.raises(MemoryNotFound):
        workspace.load(spec_folder="memory/nothing.md")


def test_a_number_of_lines_beside_the_first_is_a_count_and_a_range_beside_it_is_refused(place: Place) -> None:
    path = "specs/001-core/memory/long.md"
    place.write(path, "\n".join(f"Line {number} of the log." for number in range(1, 21)))
    workspace = place.open()
    for name in (path, str(place.id_of(workspace, "long.md"))):
        answer = workspace.get(name, lines="4", from_=3)
        assert (answer.lines, answer.text.split("\n")[-1]) == ("3-6", "Line 6 of the log.")
    for lines, first, count in (("5-9", 3, None), ("0", 3, None), ("5", None, 2), ("5", 3, 2)):
        with pytest.raises(BadParameter, match="ambiguous"):
            workspace.get(path, lines=lines, from_=first, count=count)


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("memory/token.md", "did you mean specs/001-core/memory/tokens.md?"),
        ("tokens", "did you mean specs/001-core/memory/tokens.md?"),
        ("TOKENS.MD", "did you mean specs/001-core/memory/tokens.md?"),
        ("docs/weather-report.md", "`search('weather report')` gives ids and paths of memories"),
    ],
)
def test_a_path_that_is_no_memorys_is_answered_with_a_near_one_or_a_search(place: Place, path: str, hint: str) -> None:
    place.memory("tokens", "# Tokens\n\nThey live fifteen minutes.")
    with pytest.raises(MemoryNotFound) as refused:
        place.open().get(path)
    assert refused.value.hint == hint


@pytest.mark.parametrize(
    ("folder", "hint"),
    [
        ("001-cor", "did you mean 001-core?"),
        ("the token lifetime", "`search('the token lifetime')` gives ids and paths of memories"),
        ("memory/token.md", "did you mean specs/001-core/memory/tokens.md?"),
    ],
)
def test_a_title_or_a_path_in_place_of_a_folder_is_answered_with_what_finds_it(
    place: Place, folder: str, hint: str
) -> None:
    place.memory("tokens", "# Tokens\n\nThey live fifteen minutes.")
    with pytest.raises(MemoryNotFound) as refused:
        place.open().load(spec_folder=folder)
    assert refused.value.hint == hint
