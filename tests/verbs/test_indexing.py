"""What does a scan tell the person who asked for it?"""

from __future__ import annotations

from tests.verbs.conftest import Place


def test_an_empty_workspace_is_told_how_to_begin(place: Place) -> None:
    answer = place.open(index=False).index()
    assert answer.summary == "no memories to read"
    assert any("memory_save" in hint for hint in answer.hints)


def test_a_second_scan_has_nothing_to_do_and_says_so(place: Place) -> None:
    place.memory("tokens", "# Tokens\n\nThey live for an hour.")
    answer = place.open().index()
    assert answer.summary == "nothing to do: 1 files are unchanged"
    assert answer.hints == ()
