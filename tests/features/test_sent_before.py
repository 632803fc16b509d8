"""What a session was sent is not sent again, and nothing else is left out."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from spec_kit_memory.answers import Answer, FlatResult
from spec_kit_memory.serve import render
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place
from tests.features.test_search import TOKENS, first

LONG = "\n\n".join(
    [
        "# Handbook",
        *(
            f"## Part {n}\n\n" + " ".join(f"The {word} of part {n} is kept in drawer {n}." for word in words)
            for n, words in enumerate((("anchor", "rope"), ("compass", "chart"), ("lantern", "wick")), start=1)
        ),
    ]
)


def test_content_brings_the_rest_of_a_memory_and_a_line_for_what_was_sent(place: Place) -> None:
    text = LONG.replace(".", ".\n" + "Filler words stand here to make a passage of its own. " * 40)
    lines = [f"{line.strip()} {n}." if line.strip() else "" for n, line in enumerate(text.split("\n"))]
    place.memory("handbook", "\n".join(lines))
    workspace = place.open()
    asked = "the compass of part 2"
    sent = first(workspace.search(asked, session_id="s", max_tokens=900))
    whole = first(workspace.search(asked, session_id="s", include_content=True, max_tokens=20_000))
    assert sent.text
    assert whole.content is not None
    assert not whole.already_sent
    assert f"[lines {sent.lines}: sent before]" in whole.content
    told = [*sent.text.split("\n"), *(part for passage in sent.passages for part in passage.text.split("\n"))]
    told += whole.content.split("\n")
    for line in filter(None, lines):
        assert told.count(line) == 1, line
    everything = first(workspace.search(asked, session_id="s", include_content=True, max_tokens=20_000))
    assert (everything.content, everything.text, everything.already_sent) == (None, "", True)
    assert first(workspace.search("the lantern of part 3", session_id="s")).already_sent, "it came as content"
    fresh = first(workspace.search(asked, session_id="s", include_content=True, dedup=False, max_tokens=20_000))
    assert fresh.content == "\n".join(lines)


def test_content_after_a_short_memory_was_sent_is_a_reference_and_says_so(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    workspace.search("access tokens", session_id="s")
    answer = workspace.search("access tokens", session_id="s", include_content=True)
    again = first(answer)
    assert (again.text, again.content, again.already_sent, again.lines) == ("", None, True, "1-3")
    assert answer.hints == ("what this session was sent before is only referred to; `dedup=False` sends it again",)


def test_a_passage_that_was_sent_is_named_beside_one_that_is_new(place: Place) -> None:
    filler = "Filler words stand here to make a passage of its own. " * 33
    place.memory(
        "handbook",
        f"# Handbook\n\n## One\n\nThe compass is blue. {filler}\n\n## Two\n\nThe compass needs oil. {filler}",
    )
    workspace = place.open()
    sent = first(workspace.search("compass blue", session_id="s", max_tokens=900))
    more = first(workspace.search("compass oil", session_id="s", max_tokens=3000))
    assert "blue" in sent.text
    assert "oil" in more.text
    assert "blue" not in more.text
    assert "3-5" in more.sent_before
    assert all(int(item.split("-")[1]) <= int(sent.lines.split("-")[1]) for item in more.sent_before)
    assert not more.already_sent


def test_a_section_that_was_sent_becomes_a_line(place: Place) -> None:
    place.memory("s", "# S\n\n<!-- ANCHOR:summary -->\nThe gateway is fast.\n<!-- /ANCHOR:summary -->\n\nMore.")
    workspace = place.open()
    once = first(workspace.search("gateway", anchors=["summary"], session_id="s"))
    again = first(workspace.search("gateway", anchors=["summary"], session_id="s"))
    assert once.sections == {"summary": "The gateway is fast."}
    assert again.sections == {"summary": "[lines 4-4: sent before]"}


@pytest.mark.parametrize("budget", [200, 500, 1200, 4000])
def test_an_answer_that_leaves_out_what_was_sent_stays_within_its_budget(place: Place, budget: int) -> None:
    filler = "Filler words stand here to make a passage of its own. " * 20
    for number in range(6):
        parts = "\n\n".join(f"## Part {n}\n\nThe gateway of part {n}. {filler}" for n in range(4))
        place.memory(f"n{number}", f"# Note {number}\n\n{parts}")
    workspace = place.open()
    for how in ({}, {"include_content": True}, {"include_content": True}, {"group_by": "passage"}, {}):
        answer = workspace.search("gateway of part 2", session_id="s", max_tokens=budget, **how)
        assert render.envelope(answer)["meta"]["tokens"] <= budget


def test_the_same_question_twice_in_a_session_sends_references_not_nothing(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    once = first(workspace.search("access tokens", session_id="s"))
    again = first(workspace.search("access tokens", session_id="s"))
    assert once.text
    assert (again.id, again.text, again.already_sent) == (once.id, "", True)
    assert first(workspace.search("access tokens", session_id="s", dedup=False)).text
    assert first(workspace.search("access tokens", session_id="other")).text


def test_a_flat_list_is_remembered_by_its_session_too(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    once = workspace.search("access tokens", group_by="passage", session_id="s").results[0]
    again = workspace.search("access tokens", group_by="passage", session_id="s").results[0]
    assert isinstance(once, FlatResult)
    assert isinstance(again, FlatResult)
    assert once.text
    assert (again.text, again.already_sent, again.lines) == ("", True, once.lines)


def test_the_rest_of_a_passage_that_was_cut_still_comes(place: Place) -> None:
    place.memory("long", "# Long\n\n" + "\n".join(f"oauth matter number {n} is of this kind" for n in range(30)))
    workspace = place.open()
    cut = first(workspace.search("oauth", session_id="s", max_tokens=200))
    assert cut.text
    assert "number 29" not in cut.text
    assert "number 29" in first(workspace.search("oauth", session_id="s")).text


def test_what_a_trigger_or_the_context_sent_is_not_sent_again_by_a_search(place: Place) -> None:
    place.memory("tokens", TOKENS, triggers="[signed key]")
    place.memory("choice", "# Choice\n\nThe broker is Mosquitto.", context_type="decision")
    workspace = place.open(model="local")
    (row,) = workspace.triggers("about the signed key", session_id="s").matches
    assert "fifteen minutes" in row["content"]
    assert first(workspace.search("how long do access tokens live", session_id="s")).already_sent
    assert "Mosquitto" in workspace.context("which broker is it", session_id="t").text
    assert first(workspace.search("which broker is it", session_id="t")).already_sent
    assert not first(workspace.search("which broker is it", session_id="u")).already_sent


def test_a_text_that_a_trigger_sent_in_part_is_sent_by_a_search(place: Place) -> None:
    long = "# Long\n\n" + "\n".join(f"Matter {n} of the signed key is kept in drawer {n}." for n in range(300))
    place.memory("long", long, triggers="[signed key]")
    workspace = place.open()
    (row,) = workspace.triggers("about the signed key", session_id="s").matches
    assert "Matter 299" not in row["content"]
    result = first(workspace.search("matter 299 of the signed key drawer 299", session_id="s"))
    assert "Matter 299" in "".join([result.text, *(passage.text for passage in result.passages)])


def test_a_rule_that_the_session_was_told_is_named_where_a_search_finds_it(place: Place) -> None:
    place.write("constitutional/house.md", "# House rules\n\nNever commit to main.\n")
    place.memory("tokens", TOKENS)
    workspace = place.open()
    assert "Never commit to main." in workspace.context(session_id="s").text
    found = first(workspace.search("commit to main", session_id="s"))
    assert (found.title, found.text, found.already_sent) == ("House rules", "", True)
    assert "Never commit to main." in first(workspace.search("commit to main", session_id="s", dedup=False)).text
    assert "Never commit to main." in first(workspace.search("commit to main", session_id="another")).text


def test_a_rule_of_which_only_headings_were_told_is_quoted_where_a_search_finds_it(place: Place) -> None:
    parts = "\n\n".join(f"## Part {n}\n\n" + f"The rule of part {n} says a lot. " * 30 for n in range(12))
    place.write("constitutional/house.md", f"# House rules\n\n{parts}\n")
    place.memory("tokens", TOKENS)
    workspace = place.open()
    assert "says a lot" not in workspace.context(session_id="s").text
    assert "says a lot" in first(workspace.search("the rule of part 7", session_id="s")).text


def test_a_rule_that_a_search_put_above_its_results_is_named_where_another_finds_it(place: Place) -> None:
    place.write("constitutional/house.md", "# House rules\n\nNever commit to main.\n")
    place.memory("tokens", TOKENS)
    workspace = place.open()
    (rule,) = workspace.search("access tokens", session_id="s", limit=1).constitutional
    assert rule.text
    assert first(workspace.search("commit to main", session_id="s")).already_sent


TELLING = "Never commit to main"
# Each way in which a rule reaches a session.
WAYS: dict[str, Callable[[Workspace], Answer]] = {
    "a result": lambda workspace: workspace.search("never commit to main", session_id="s"),
    "a result with content": lambda workspace: workspace.search("commit to main", session_id="s", include_content=True),
    "a flat result": lambda workspace: workspace.search("never commit to main", session_id="s", group_by="passage"),
    "above the results": lambda workspace: workspace.search("access tokens", session_id="s", limit=1),
    "a start": lambda workspace: workspace.context(session_id="s"),
    "a start with a prompt": lambda workspace: workspace.context("may I commit to main?", session_id="s"),
    "a trigger": lambda workspace: workspace.triggers("may I commit to main?", session_id="s"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("before", WAYS)
def test_a_rule_is_told_once_in_a_session_whichever_way_comes_first(place: Place, before: str, way: str) -> None:
    rule = f"---\ntriggers: [commit to main]\n---\n# House rules\n\n{TELLING}.\n\n## Decisions\n\n- No exceptions.\n"
    place.write("constitutional/house.md", rule)
    place.memory("tokens", TOKENS)
    workspace = place.open()
    assert TELLING in json.dumps(render.envelope(WAYS[before](workspace)))
    assert TELLING not in json.dumps(render.envelope(WAYS[way](workspace)))
    workspace.session("s", anew=True)
    assert TELLING in json.dumps(render.envelope(WAYS[way](workspace))), "what was told is forgotten"


def test_a_rule_that_was_told_is_named_where_a_prompt_brings_it_up_again(place: Place) -> None:
    place.write("constitutional/house.md", f"---\ntriggers: [commit to main]\n---\n# House rules\n\n{TELLING}.\n")
    workspace = place.open()
    workspace.context(session_id="s")
    again = workspace.context("may I commit to main?", session_id="s").text
    assert again == "## Brought up by the prompt\n\nTold before: House rules (#1)"


def test_a_rule_that_was_shown_in_part_is_told_whole(place: Place) -> None:
    text = "\n\n".join(f"## Part {n}\n\n" + f"The compass of part {n} is kept dry. " * 6 for n in range(4))
    place.write("constitutional/house.md", f"# House rules\n\n{text}\n")
    place.memory("tokens", TOKENS)
    workspace = place.open()
    assert "compass of part 2" in first(workspace.search("compass of part 2", session_id="s", max_tokens=250)).text
    assert "compass of part 0" in workspace.context(session_id="s").text
