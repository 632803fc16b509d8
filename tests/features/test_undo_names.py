"""Does undo take back what was done whatever things are called? Names are data; no sentence is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_kit_memory.caller import Caller
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

NAMES = [
    "001-x; file in trash/y",
    "001-x; file in trash/20260301T120000-abcdef/specs/y",
    "001-x; checkpoint before-delete-20260301-120000",
    "undo of 1-99",
    "001-x; before it before-restore-20260301-120000",
    "001-two\nlines",
    '001-"}, {"kind": "undo", "of": "x',
    "001-größer 数 🚲",
    "001-it's; DROP TABLE ledger",
    "001-%20 $HOME `id` *",
    "restore checkpoint a; before it b",
]


def files(root: Path) -> dict[str, bytes]:
    results = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in results.items() if not name.startswith(".spec-kit-memory")}


def titles(workspace: Workspace) -> dict[int, tuple[str, str]]:
    return {card.id: (card.title, card.path) for card in workspace.list(limit=50).memories}


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_delete_comes_back_from_any_folder(place: Place, name: str) -> None:
    """The original stayed in the trash: a part of the folder's name was taken for the place in it."""
    place.memory("a", "# A\n\nThe first.", folder=name)
    place.memory("b", "# B\n\nThe second.", folder=name)
    workspace = place.open()
    before, on_disk = titles(workspace), files(place.root)
    assert len(before) == 2
    for delete_one in (True, False):
        if delete_one:
            workspace.delete(min(before), delete_file=True)
        else:
            workspace.delete(spec_folder=name, confirm=True, delete_file=True)
        place.clock.pass_(seconds=1)
        assert workspace.undo().undone == "delete"
        assert titles(workspace) == before
        assert files(place.root) == on_disk
    assert list((place.root / ".spec-kit-memory" / "trash").rglob("*.md")) == []
    assert workspace.index().new == 0
    assert workspace.ledger_verify().ok


def test_an_update_comes_back_with_any_title(place: Place, name: str) -> None:
    place.memory("a", "# A\n\nThe first.", folder="001-core")
    workspace = place.open()
    before, on_disk = titles(workspace), files(place.root)
    workspace.update(1, title=name, trigger_phrases=[name, "delete; file in trash/x"])
    assert workspace.undo().undone == "update"
    assert (titles(workspace), files(place.root)) == (before, on_disk)


def test_a_link_comes_back_with_any_evidence(place: Place, name: str) -> None:
    place.memory("a", "# A\n\nThe first.")
    place.memory("b", "# B\n\nThe second.")
    workspace = place.open()
    made = workspace.link(1, 2, "supports", strength=0.25, evidence=name)
    workspace.unlink(made.link.id)
    assert workspace.undo().undone == "link"
    (step,) = workspace.why(1).steps
    assert step.link == made.link
    assert workspace.undo().undone == "link"
    assert workspace.why(1).steps == ()


@pytest.mark.parametrize("name", [name for name in NAMES if "\n" not in name])
def test_a_restore_comes_back_with_any_name(place: Place, name: str) -> None:
    path = place.memory("a", "# A\n\nThe first.", folder="001-core")
    workspace = place.open()
    workspace.checkpoint_create(name)
    workspace.update(1, title="Later")
    before, on_disk = titles(workspace), files(place.root)
    place.clock.pass_(minutes=1)
    workspace.checkpoint_restore(name, clear_existing=True, restore_files=True)
    assert "Later" not in path.read_text(encoding="utf-8")
    assert workspace.undo().undone == "restore"
    assert (titles(workspace), files(place.root)) == (before, on_disk)


def test_a_session_that_says_anything_is_only_a_session(place: Place, name: str) -> None:
    place.memory("a", "# A\n\nThe first.")
    workspace = place.open()
    workspace = workspace.for_caller(Caller(session=name))
    workspace.update(1, title="One")
    workspace.update(1, title="Two")
    for title in ("One", "A"):
        workspace.undo()
        assert titles(workspace)[1][0] == title
