"""Links that a repository brings into the state folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_kit_memory.errors import AccessDenied
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace


def workspace(root: Path) -> Workspace:
    return Workspace(Settings(root=root, semantic=Semantic(model="none"), watch="off"))


@pytest.mark.parametrize(
    "name", ["scan.lock", "recent-prompts.jsonl", "recent-prompts.new", ".gitignore", "index.sqlite", "checkpoints"]
)
def test_a_link_to_something_outside_is_refused_and_what_it_points_to_stays(tmp_path: Path, name: str) -> None:
    root, mine = tmp_path / "work", tmp_path / "mine"
    (root / ".spec-kit-memory").mkdir(parents=True)
    mine.write_text("precious", encoding="utf-8")
    (root / ".spec-kit-memory" / name).symlink_to(mine)
    with pytest.raises(AccessDenied, match="link"):
        workspace(root)
    assert mine.read_text(encoding="utf-8") == "precious"


def test_a_state_folder_that_is_a_link_to_another_place_is_refused(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / ".spec-kit-memory").symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(AccessDenied, match="outside"):
        workspace(root)
    assert list(elsewhere.iterdir()) == []


def test_folders_of_the_state_folder_are_no_links_within_the_workspace_either(tmp_path: Path) -> None:
    """A repository may bring them: what we clear away there would be cleared away elsewhere in it."""
    root = tmp_path / "work"
    (root / ".spec-kit-memory").mkdir(parents=True)
    (root / "trash").mkdir()
    (root / "trash" / "own.md").write_text("# Mine\n", encoding="utf-8")
    (root / ".spec-kit-memory" / "trash").symlink_to(root / "trash", target_is_directory=True)
    with pytest.raises(AccessDenied, match="is a link to"):
        workspace(root)
    assert (root / "trash" / "own.md").read_text(encoding="utf-8") == "# Mine\n"
