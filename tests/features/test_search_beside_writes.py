"""Is a memory found that another process changes in the middle of a search?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.features import retrieve
from spec_kit_memory.index.sqlite.feed import SqliteFeed
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

NOTES = 8


def opened(root: Path) -> Workspace:
    return Workspace(Settings(root=root, semantic=Semantic(model="hashing"), watch="off"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "specs/001-core/memory"
    folder.mkdir(parents=True)
    for number in range(NOTES):
        (folder / f"note{number}.md").write_text(f"# Note\n\nDecided numbat{number} about the queue and the parser.\n")
    with opened(tmp_path) as workspace:
        workspace.index()
    return tmp_path


def once(act: Callable[[], object], then: Callable[..., Any]) -> Callable[..., Any]:
    """`then`, with `act` before its first call."""
    left = [act]

    def call(*values: Any, **keywords: Any) -> Any:
        if left:
            left.pop()()
        return then(*values, **keywords)

    return call


@pytest.mark.parametrize(
    ("owner", "name"),
    [(SqliteFeed, "postings"), (retrieve, "_promising"), (retrieve, "_read")],
    ids=["before the words are read", "before the passages are read", "before they are compared"],
)
def test_a_memory_that_changes_in_the_middle_of_a_search_is_found(
    root: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    with opened(root) as reader, opened(root) as writer:
        reader.search(query="queue parser", limit=5)
        wanted = next(card.id for card in reader.list(limit=100).memories if card.path.endswith("note5.md"))
        change = once(lambda: writer.update(wanted, title="Changed meanwhile"), getattr(owner, name))
        monkeypatch.setattr(owner, name, change)
        result = reader.search(query="numbat5", limit=5).results
        assert result[0].id == wanted
        assert result[0].title == "Changed meanwhile"
