"""Is a memory found that another process changes in the middle of a search?"""

from __future__ import annotations

import itertools
import threading
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


def first_times(times: int, act: Callable[[], object], then: Callable[..., Any]) -> Callable[..., Any]:
    """`then`, with `act` before its first calls."""
    left = [act] * times

    def call(*values: Any, **keywords: Any) -> Any:
        if left:
            left.pop()()
        return then(*values, **keywords)

    return call


MOMENTS = pytest.mark.parametrize(
    ("owner", "name"),
    [(SqliteFeed, "postings"), (retrieve, "_promising"), (retrieve, "_read")],
    ids=["before the words are read", "before the passages are read", "before they are compared"],
)


@MOMENTS
def test_a_memory_that_changes_in_the_middle_of_a_search_is_found(
    root: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    with opened(root) as reader, opened(root) as writer:
        reader.search(query="queue parser", limit=5)
        expected = next(card.id for card in reader.list(limit=100).memories if card.path.endswith("note5.md"))
        change = first_times(1, lambda: writer.update(expected, title="Changed meanwhile"), getattr(owner, name))
        monkeypatch.setattr(owner, name, change)
        result = reader.search(query="numbat5", limit=5).results
        assert result[0].id == expected
        assert result[0].title == "Changed meanwhile"


@MOMENTS
def test_a_memory_that_changes_in_the_middle_of_every_attempt_is_found(
    root: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    with opened(root) as reader, opened(root) as writer:
        reader.search(query="queue parser", limit=5)
        expected = next(card.id for card in reader.list(limit=100).memories if card.path.endswith("note5.md"))
        titles = (f"Changed for the {number}th time" for number in itertools.count(1))
        change = first_times(100, lambda: writer.update(expected, title=next(titles)), getattr(owner, name))
        monkeypatch.setattr(owner, name, change)
        assert [result.id for result in reader.search(query="numbat5", limit=5).results][:1] == [expected]
        monkeypatch.undo()
        found = reader.search(query="numbat5", limit=5).results[0]
        newest = next(card for card in writer.list(limit=100).memories if card.id == expected)
        assert found.title == newest.title, "nothing of an earlier state was kept"


def test_a_search_whose_moment_is_past_takes_nothing_from_the_searches_beside_it(root: Path) -> None:
    with opened(root) as reader, opened(root) as writer:
        reader.search(query="queue parser", limit=5)
        shared = reader._runtime.whole._shared  # type: ignore[attr-defined]
        columns = shared.loaded._columns
        expected = next(card.id for card in reader.list(limit=100).memories if card.path.endswith("note5.md"))
        before = columns.known
        with shared.feed.moment():
            counters = shared.feed.counters()
            writer.update(expected, title="Acknowledged")
            on_another_thread(columns.current)
            newest = columns.known
            columns.follow(counters, before=before)
            assert columns.known is newest


def test_an_index_that_went_back_is_read_again(root: Path) -> None:
    with opened(root) as reader, opened(root) as writer:
        reader.search(query="queue parser", limit=5)
        shared = reader._runtime.whole._shared  # type: ignore[attr-defined]
        columns = shared.loaded._columns
        with shared.feed.moment():
            earlier = shared.feed.counters()
        writer.update(reader.list(limit=1).memories[0].id, title="Lost with the server")
        columns.current()
        with shared.feed.moment():
            columns.follow(earlier, before=columns.known)
        assert columns.known.generation == earlier.generation


def on_another_thread(act: Callable[[], object]) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
