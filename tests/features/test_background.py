"""Does a server say what it cannot know yet?"""

from __future__ import annotations

import pytest

from spec_kit_memory.errors import MemoryNotFound
from spec_kit_memory.files.locks import Lock
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

TOKENS = "# Login tokens\n\nAccess tokens live for one hour."


def unread(workspace: Workspace) -> bool:
    hints = [*workspace.search("access tokens").hints, *workspace.context("access tokens").hints]
    return any("first time" in hint for hint in hints)


def test_answers_during_the_first_reading_say_that_they_are_not_complete(place: Place) -> None:
    """A first session was told that nothing was known, while the files were still being read."""
    place.memory("tokens", TOKENS)
    workspace = place.open(index=False, watch="off")
    lock = Lock(workspace.settings, "scan.lock")
    assert lock.acquire()
    workspace.start_background()
    assert unread(workspace)
    lock.release()
    assert workspace._background is not None
    assert workspace._background.scanned.wait(120)
    assert not unread(workspace)
    assert len(workspace.search("access tokens").results) == 1


def test_health_during_the_first_reading_is_indexing_and_no_problem(place: Place) -> None:
    for number in range(3):
        place.memory(f"tokens-{number}", TOKENS)
    workspace = place.open(index=False, watch="off")
    workspace.index(embed=False)
    embedding = Lock(workspace.settings, "embed.lock")
    assert embedding.acquire()  # as another process that makes vectors
    scanning = Lock(workspace.settings, "scan.lock")
    assert scanning.acquire()
    workspace.start_background()
    workspace._runtime.embed_soon()
    health = workspace.health()
    assert health.healthy
    assert "indexing" in health.summary
    assert str(health.checks["pending vectors"]).startswith("indexing: ")
    assert [problem for problem in health.problems if problem["check"] == "pending vectors"] == []
    scanning.release()
    embedding.release()


def test_an_index_deleted_under_a_server_is_never_silently_empty(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open(watch="off")
    workspace.start_background()
    background = workspace._background
    assert background is not None
    assert background.scanned.wait(120)
    lock = Lock(workspace.settings, "scan.lock")
    assert lock.wait(seconds=30)  # the files cannot be read again for now
    for file in workspace.settings.state_folder.glob("index.sqlite*"):
        file.unlink()
    answer = workspace.search("access tokens")
    assert answer.results == ()
    assert "read again" in answer.hints[0]
    with pytest.raises(MemoryNotFound) as missing:
        workspace.load(1)
    assert "read again" in missing.value.hint
    lock.release()
    assert background.scanned.wait(120)
    again = workspace.search("access tokens")
    assert len(again.results) == 1
    assert not any("read again" in hint for hint in again.hints)


def test_the_first_answer_after_an_index_was_deleted_waits_for_the_files(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open(watch="off")
    workspace.start_background()
    assert workspace._background is not None
    assert workspace._background.scanned.wait(120)
    for _ in range(3):
        for file in workspace.settings.state_folder.glob("index.sqlite*"):
            file.unlink()
        answer = workspace.search("access tokens")
        assert len(answer.results) == 1 or "read again" in answer.hints[0]


def test_a_server_that_knows_the_files_says_nothing_of_the_kind(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open(watch="off")
    lock = Lock(workspace.settings, "scan.lock")
    assert lock.acquire()
    workspace.start_background()
    assert not unread(workspace)
    lock.release()
