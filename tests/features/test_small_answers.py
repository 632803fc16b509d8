"""What does a search say when there is little room, or little to say?"""

from __future__ import annotations

from tests.features.conftest import Place
from tests.features.test_search import TOKENS, first


def test_a_folder_that_nothing_is_in_is_named_with_what_there_is(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open(model="none")
    [folder] = {memory.spec_folder for memory in workspace._runtime.store.documents.find()}
    assert folder
    answer = workspace.search("tokens", spec_folder=folder[:-1])
    assert not answer.results
    assert answer.hints[0] == f"no memory is in the spec folder {folder[:-1]}; there is {folder}"
    assert "no memory" not in "".join(workspace.search("zebra", spec_folder=folder).hints)


def test_the_best_hit_is_never_without_a_word(place: Place) -> None:
    """One line, longer than the answer: its beginning is shown, and it does not count as sent."""
    place.memory("tokens", "Access tokens live ten minutes and are signed by the gateway. " * 40)
    workspace = place.open(model="none")
    answer = workspace.search("access tokens", max_tokens=150, session_id="s")
    assert first(answer).text.startswith("Access tokens live ten minutes")
    assert first(answer).text.endswith("…")
    again = workspace.search("access tokens", max_tokens=4000, session_id="s")
    assert not first(again).already_sent
    assert first(again).text.count("gateway") == 40
