from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spec_kit_memory.errors import BadPath, FileMissing
from spec_kit_memory.files import paths, trash, write_counters
from spec_kit_memory.filesystem import Place
from spec_kit_memory.settings import Settings

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def test_a_discarded_file_can_be_recalled(settings: Settings, write: Callable[..., Path]) -> None:
    file = write("specs/001-a/memory/a.md", "text")
    gone = trash.discard(paths.place(settings, file), settings=settings, at=NOW)
    assert not file.exists()
    assert gone.path.is_relative_to(settings.state_folder / "trash")
    assert gone.path.as_posix().endswith("specs/001-a/memory/a.md")
    assert write_counters.read(settings).deletes == 1
    file.parent.rmdir()
    trash.recall(gone, settings=settings, to=paths.place(settings, file))
    assert file.read_text() == "text"
    assert not gone.path.exists()


def test_two_files_of_one_name_do_not_meet_in_the_trash(settings: Settings, write: Callable[..., Path]) -> None:
    first = trash.discard(paths.place(settings, write("memory/a.md", "one")), settings=settings, at=NOW)
    second = trash.discard(paths.place(settings, write("memory/a.md", "two")), settings=settings, at=NOW)
    assert (first.path.read_text(), second.path.read_text()) == ("one", "two")


def test_recalling_never_replaces_a_file(settings: Settings, write: Callable[..., Path]) -> None:
    gone = trash.discard(paths.place(settings, write("memory/a.md", "old")), settings=settings, at=NOW)
    file = write("memory/a.md", "new")
    with pytest.raises(BadPath, match="exists"):
        trash.recall(gone, settings=settings, to=paths.place(settings, file))
    assert (file.read_text(), gone.path.read_text()) == ("new", "old")


def test_a_missing_file_cannot_be_discarded(settings: Settings, root: Path) -> None:
    with pytest.raises(FileMissing):
        trash.discard(Place.of(root / "memory/none.md"), settings=settings, at=NOW)
    assert write_counters.read(settings).errors == 1


def test_a_file_outside_the_workspace_goes_to_the_trash_under_its_whole_path(
    settings: Settings, tmp_path: Path
) -> None:
    outside = tmp_path / "extra.md"
    outside.write_text("text")
    gone = trash.discard(Place.of(outside), settings=settings, at=NOW)
    assert gone.path.is_relative_to(settings.state_folder / "trash")
    assert gone.path.read_text() == "text"


def test_damaged_counters_start_again(settings: Settings) -> None:
    settings.state_folder.mkdir()
    write_counters.count(settings, atomic_writes=2, errors=1)
    write_counters.count(settings, atomic_writes=1)
    assert write_counters.read(settings) == write_counters.Counters(atomic_writes=3, errors=1)
    (settings.state_folder / "transactions.json").write_text("[")
    assert write_counters.read(settings) == write_counters.Counters()
