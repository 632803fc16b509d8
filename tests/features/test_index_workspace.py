"""What does a scan tell the person who asked for it?"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from spec_kit_memory.errors import BadSpecFolder, CoolingDown
from spec_kit_memory.settings import Isolation
from tests.features.conftest import Place


def test_an_empty_workspace_is_told_how_to_begin(place: Place) -> None:
    answer = place.open(index=False).index()
    assert answer.summary == "no memories to read"
    assert any("save()" in hint for hint in answer.hints)


def test_a_second_scan_has_nothing_to_do_and_says_so(place: Place) -> None:
    place.memory("tokens", "# Tokens\n\nThey live for an hour.")
    answer = place.open().index()
    assert answer.summary == "nothing to do: 1 file is unchanged"
    assert answer.hints == ()


def test_a_scan_that_only_followed_a_move_does_not_ask_for_a_first_memory(place: Place) -> None:
    old = place.memory("tokens", "# Tokens\n\nThey live for an hour.")
    workspace = place.open()
    old.parent.parent.rename(place.root / "specs" / "011-core")
    answer = workspace.index()
    assert (answer.moved, answer.hints) == (1, ())


def test_a_scan_that_only_made_vectors_says_so(place: Place) -> None:
    place.memory("tokens", "# Tokens\n\nThey live for an hour.")
    workspace = place.open(index=False)
    workspace.index(embed=False)
    assert workspace.index().summary == "1 passage embedded; 1 file is unchanged"
    assert workspace.index().summary == "nothing to do: 1 file is unchanged"


def test_passages_that_are_embedded_again_for_another_model_are_counted(place: Place) -> None:
    place.memory("tokens", "# Tokens\n\nThey live for an hour.")
    place.open().close()
    with closing(sqlite3.connect(place.root / ".spec-kit-memory/index.sqlite")) as index, index:
        index.execute("UPDATE model SET dimensions = 64")  # as if the provider had changed the size of its vectors
    workspace = place.open(index=False)
    assert workspace.index().summary == "1 passage embedded; 1 file is unchanged"
    assert workspace.index().summary == "nothing to do: 1 file is unchanged"


def test_the_report_names_what_is_no_memory_by_reason_and_counts_what_is_archived(place: Place) -> None:
    place.memory("tokens", "# Tokens\n\nThey live for an hour.")
    place.memory("old", "# Old\n\nNobody uses it.", folder="z_archive/002-old")
    for number in range(5):
        place.write(f"specs/001-core/scratch/{number}.md", "# Scratch\n")
    place.write("docs/guide.md", "# Guide\n")
    place.write("memory/list.csv", "a,b\n")
    answer = place.open(index=False).index()
    assert answer.archived == 1
    assert answer.undiscovered == 6
    assert [dict(group) for group in answer.skipped] == [
        {"reason": "in a memory folder, but not markdown", "count": 1, "paths": ("memory/list.csv",)},
        {"reason": "in scratch/", "count": 5, "paths": tuple(f"specs/001-core/scratch/{n}.md" for n in range(3))},
        {"reason": "outside the places of memories", "count": 1, "paths": ("docs/guide.md",)},
    ]


def test_a_session_that_sees_only_a_part_hears_of_no_file_elsewhere(place: Place) -> None:
    place.memory("tokens", "# Tokens\n\nThey live for an hour.")
    place.write("specs/001-core/scratch/mine.md", "# Mine\n")
    place.write("specs/002-other/scratch/theirs.md", "# Theirs\n")
    place.memory("old", "# Old\n\nTheirs.", folder="z_archive/002-old")
    workspace = place.open(index=False, isolation=Isolation(allowed_paths=("specs/001-core",)))
    answer = workspace.index()
    assert [group["paths"] for group in answer.skipped] == [("specs/001-core/scratch/mine.md",)]
    assert (answer.archived, answer.undiscovered) == (0, 0)


# --- one spec folder ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "indexed"),
    [
        ("001", 3),
        ("001-ord", 2),
        ("001-ordering", 2),
        ("001-ordering-v2", 1),
        ("specs/001-ordering-v2", 1),
        ("002-billing/003", 1),
        ("00", 4),
    ],
)
def test_a_spec_folder_is_named_by_how_it_starts(place: Place, start: str, indexed: int) -> None:
    for folder in ("001-ordering", "001-ordering-v2", "001-other", "002-billing/003-tax"):
        place.memory("note", f"# Note of {folder}\n\nIts text.", folder=folder)
    workspace = place.open(index=False)
    assert workspace.index(spec_folder=start).indexed == indexed


def test_a_spec_folder_that_nothing_starts_with_names_the_nearest_and_starts_no_cooldown(place: Place) -> None:
    place.memory("note", "# Note\n\nIts text.", folder="001-ordering")
    workspace = place.open(index=False)
    for wrong in ("001-odering", "ordering", "01-ordering"):
        with pytest.raises(BadSpecFolder) as raised:
            workspace.index(spec_folder=wrong, cooldown=True)
        assert "001-ordering" in raised.value.hint
    assert workspace.index(spec_folder="001", cooldown=True).indexed == 1
    with pytest.raises(CoolingDown):
        workspace.index(cooldown=True)


def test_files_of_other_folders_are_left_alone(place: Place) -> None:
    one = place.memory("note", "# One\n\nIts text.", folder="001-ordering")
    two = place.memory("note", "# Two\n\nIts text.", folder="002-billing")
    workspace = place.open()
    one.unlink()
    two.unlink()
    assert workspace.index(spec_folder="001").deleted == 1
    assert [card.title for card in workspace.list().memories] == ["Two"]
