"""What stands deep in a very long line is found, shown as a part, and survives what happens to its memory."""

from __future__ import annotations

import pytest

from spec_kit_memory.answers import Result
from tests.features.conftest import Place


def long_line(fact: str, *, words: int = 700) -> str:
    around = " ".join(f"Sentence {number} tells of ropes, tides and gulls." for number in range(words // 8))
    return f"{around} {fact} {around}"


@pytest.mark.parametrize("words", [700, 6_000])
def test_a_fact_deep_in_a_long_line_is_found_and_shown_as_a_part(place: Place, words: int) -> None:
    fact = "The zeppelin hangar opens at half past four."
    place.memory("long", f"# Log\n\n{long_line(fact, words=words)}\n\nThe end.")
    place.memory("other", "# Other\n\nNothing of the kind.")
    workspace = place.open()
    answer = workspace.search("zeppelin hangar opens", limit=1, max_tokens=1_500)
    (result,) = answer.results
    assert result.lines == "3-3"
    assert fact in result.text
    assert result.text.startswith("…")
    assert result.text.endswith("…")
    assert answer.meta.tokens <= 1_500
    flat = workspace.search("zeppelin hangar opens", group_by="passage", limit=1).results[0]
    assert fact in flat.text
    assert flat.text.startswith("…")
    assert flat.lines == "3-3"


def test_a_long_line_comes_whole_where_the_budget_allows_it(place: Place) -> None:
    line = long_line("The zeppelin hangar opens at half past four.", words=600)
    place.memory("long", f"# Log\n\n{line}")
    workspace = place.open()
    (result,) = workspace.search("zeppelin hangar", limit=1, include_content=True, max_tokens=20_000).results
    assert isinstance(result, Result)
    shown = result.content or result.text
    assert line in shown
    assert "…" not in shown


def test_a_long_line_survives_checkpoint_restore_and_a_title_change(place: Place) -> None:
    fact = "The zeppelin hangar opens at half past four."
    place.memory("long", f"# Log\n\n{long_line(fact, words=3_000)}")
    workspace = place.open()
    workspace.checkpoint_create("kept")
    id_ = place.id_of(workspace, "long")
    workspace.update(id_, title="The log of the mole")
    assert fact in workspace.search("zeppelin hangar", limit=1).results[0].text
    workspace.checkpoint_restore("kept", clear_existing=True)
    assert fact in workspace.search("zeppelin hangar", limit=1).results[0].text
    assert not [problem for problem in workspace.health().problems if problem["check"] != "disk"]


def test_a_part_of_a_long_line_is_not_sent_twice_and_another_part_still_comes(place: Place) -> None:
    deep, deeper = "The zeppelin hangar opens at half past four.", "The submarine dock is painted in vermilion."
    place.memory("long", f"# Log\n\n{long_line(deep, words=1_500)} {long_line(deeper, words=1_500)}")
    workspace = place.open()
    (sent,) = workspace.search("zeppelin hangar opens", limit=1, session_id="s", max_tokens=900).results
    assert deep in sent.text
    (again,) = workspace.search("zeppelin hangar opens", limit=1, session_id="s", max_tokens=900).results
    assert isinstance(again, Result)
    assert deep not in again.text
    assert again.already_sent or again.sent_before
    (other,) = workspace.search("submarine dock vermilion", limit=1, session_id="s", max_tokens=900).results
    assert deeper in other.text


def test_a_name_deep_in_a_dense_line_is_a_close_match(place: Place) -> None:
    """Such a part has three times the tokens of the model's window."""
    dense = "".join(f"a{number}=b{number};" for number in range(300))
    place.memory("dense", f"# Minified\n\n{dense}zanzibarToken=1;{dense}")
    place.memory("other", "# Other\n\nNothing of the kind.")
    answer = place.open(model="local").search("zanzibarToken")
    assert answer.results[0].title == "Minified"
    assert answer.results[0].match is not None
    assert answer.results[0].match >= 0.5
    assert "nothing matches closely: these are only the nearest" not in answer.hints


@pytest.mark.parametrize(
    ("record", "fact", "question"),
    [
        ("a{0}=b{0};", "zanzibarToken=1;", "zanzibarToken"),
        ("{0},{0}.5,ok;", "301,99.9,sensor Quokka failed;", "which sensor failed"),
        ("| {0} ", "| the compressor was replaced ", "when was the compressor replaced"),
        ("{0},", "zanzibarToken,", "zanzibarToken"),
    ],
)
def test_no_name_and_no_record_of_a_dense_line_is_cut_in_two(
    place: Place, record: str, fact: str, question: str
) -> None:
    for before in range(400, 500, 7):
        around = "".join(record.format(number) for number in range(before))
        place.memory(f"dense{before}", f"# Dense {before}\n\n{around}{fact}{around}")
    workspace = place.open(model="none")
    answer = workspace.search(question, mode="text", limit=50, max_tokens=50_000, group_by="passage")
    assert len({result.id for result in answer.results if fact.strip(" ;,|") in result.text}) == 15
