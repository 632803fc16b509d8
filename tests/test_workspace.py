"""What opening a workspace does, and what it leaves for later."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path

import pytest

from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

TEXT = "# Left behind\n\nIts process died before the name was given.\n"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    root = Path(os.path.realpath(tmp_path)) / "work"
    (root / "specs" / "001-core" / "memory").mkdir(parents=True)
    return Settings(root=root, semantic=Semantic(model="none"))


def died(settings: Settings) -> Path:
    """A save that was killed after its text was on the disk; returns the file it would have made."""
    final = settings.root / "specs" / "001-core" / "memory" / "01-03-26_12-00__left.md"
    final.with_name("01-03-26_12-00__left_pending.md").write_text(TEXT, encoding="utf-8")
    records = settings.state_folder / "pending"
    records.mkdir(parents=True)
    stored = final.relative_to(settings.root).as_posix()
    message = {"final": stored, "sha256": hashlib.sha256(TEXT.encode()).hexdigest()}
    (records / (hashlib.sha256(stored.encode()).hexdigest()[:24] + ".json")).write_text(json.dumps(message))
    return final


def test_a_save_that_died_is_completed_by_the_next_opening(settings: Settings) -> None:
    final = died(settings)
    with Workspace(settings) as workspace:
        assert final.read_text(encoding="utf-8") == TEXT
        assert [card.title for card in workspace.list().memories] == ["Left behind"]
    assert list((settings.state_folder / "pending").iterdir()) == []


def test_with_nothing_left_behind_opening_makes_nothing_that_indexes(settings: Settings) -> None:
    with Workspace(settings) as workspace:
        assert workspace._runtime.shared._sync is None
        workspace.triggers("anything")
        assert workspace._runtime.shared._sync is None
        workspace.index()
        assert workspace._runtime.shared._sync is not None


def test_threads_that_need_it_at_once_share_what_indexes(settings: Settings) -> None:
    with Workspace(settings) as workspace:
        made: list[object] = []
        start = threading.Barrier(8)

        def need() -> None:
            start.wait()
            made.append(workspace._runtime.sync)

        threads = [threading.Thread(target=need) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(item) for item in made}) == 1
