"""Does a server say what it cannot know yet?"""

from __future__ import annotations

from spec_kit_memory.vault.locks import Lock
from spec_kit_memory.workspace import Workspace
from tests.verbs.conftest import Place

TOKENS = "# Login tokens\n\nAccess tokens live for one hour."


def unread(workspace: Workspace) -> bool:
    hints = [*workspace.search("access tokens").hints, *workspace.context("access tokens").hints]
    return any("first time" in hint for hint in hints)


def test_answers_during_the_first_reading_say_that_they_are_not_complete(place: Place) -> None:
    """A first session was told that nothing was known, while the files were still being read."""
    place.memory("tokens", TOKENS)
    workspace = place.open(index=False, watch="off")
    lock = Lock(workspace.settings.state_folder / "scan.lock")
    assert lock.acquire()
    workspace.start_background()
    assert unread(workspace)
    lock.release()
    assert workspace._background is not None
    assert workspace._background.scanned.wait(30)
    assert not unread(workspace)
    assert len(workspace.search("access tokens").results) == 1


def test_a_server_that_knows_the_files_says_nothing_of_the_kind(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open(watch="off")
    lock = Lock(workspace.settings.state_folder / "scan.lock")
    assert lock.acquire()
    workspace.start_background()
    assert not unread(workspace)
    lock.release()
