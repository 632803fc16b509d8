"""What a prompt brings up, and what a session remembers of it."""

from __future__ import annotations

import logging
from typing import Any

import apsw
import pytest

from spec_kit_memory.core.memory import State
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.features import sessions
from spec_kit_memory.settings import Triggers
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place
from tests.features.test_search import TOKENS, first

PLAIN = "This is the first paragraph."


def phrases(*given: str) -> str:
    return "[" + ", ".join(f'"{phrase}"' for phrase in given) + "]"


def ids(rows: Any) -> list[int]:
    return [row["id"] for row in rows]


def names(workspace: Workspace, prompt: str, **more: Any) -> list[str]:
    return [row["path"].rsplit("/", 1)[1].removesuffix(".md") for row in workspace.triggers(prompt, **more).matches]


# --- matching -----------------------------------------------------------------------


def test_whole_words_in_any_case_width_and_spacing_and_never_by_vectors(place: Place) -> None:
    place.memory("rate", f"# Rate\n\n{PLAIN}", trigger_phrases=phrases("Rate Limit"))
    place.memory("street", f"# Street\n\n{PLAIN}", trigger_phrases=phrases("Straße"))
    place.memory("han", f"# Han\n\n{PLAIN}", trigger_phrases=phrases("認証"))
    workspace = place.open(model="none")
    assert names(workspace, "raise the RATE \n limit, please") == ["rate"]
    assert names(workspace, "ｒａｔｅ　ｌｉｍｉｔ") == ["rate"]
    assert names(workspace, "separate limits") == []
    assert names(workspace, "In welcher STRASSE?") == ["street"]
    assert names(workspace, "新しい認証の方法") == ["han"]


def test_more_phrases_come_before_longer_ones_before_weight(place: Place) -> None:
    place.memory("two", f"# Two\n\n{PLAIN}", trigger_phrases=phrases("alpha", "beta"))
    place.memory("long", f"# Long\n\n{PLAIN}", trigger_phrases=phrases("alpha and beta"))
    place.memory("light", f"# Light\n\n{PLAIN} Light.", trigger_phrases=phrases("alpha"), importance_weight=0.2)
    place.memory("heavy", f"# Heavy\n\n{PLAIN} Heavy.", trigger_phrases=phrases("alpha"), importance_weight=0.9)
    workspace = place.open()
    answer = workspace.triggers("alpha and beta", limit=50)
    assert [row["title"] for row in answer.matches] == ["Two", "Long", "Heavy", "Light"]
    assert all(0 < row["confidence"] <= 1 for row in answer.matches)
    assert answer.matches[0]["phrases"] == ("alpha", "beta")


def test_the_limit_holds_and_says_how_many_more_there_are(place: Place) -> None:
    for number in range(5):
        place.memory(f"m{number}", f"# M{number}\n\n{PLAIN} {number}", trigger_phrases=phrases("alpha"))
    workspace = place.open()
    answer = workspace.triggers("alpha")
    assert len(answer.matches) == 3
    assert "2 more match" in answer.hints[0]
    assert len(workspace.triggers("alpha", limit=5).matches) == 5


def test_deprecated_archived_expired_and_outdated_ones_stay_away(place: Place) -> None:
    place.memory("good", f"# Good\n\n{PLAIN}", trigger_phrases=phrases("alpha"))
    place.memory("gone", f"# Gone\n\n{PLAIN} 1", trigger_phrases=phrases("alpha"), importance_tier="deprecated")
    place.memory("late", f"# Late\n\n{PLAIN} 2", trigger_phrases=phrases("alpha"), expires="2026-02-01")
    place.memory("wrong", f"# Wrong\n\n{PLAIN} 3", trigger_phrases=phrases("alpha"))
    place.memory("old", f"# Old\n\n{PLAIN} 4", folder="z_archive/002-old", trigger_phrases=phrases("alpha"))
    workspace = place.open()
    workspace.validate(place.id_of(workspace, "wrong"), outdated=True)
    assert names(workspace, "alpha", limit=50) == ["good"]


def test_a_phrase_of_almost_every_prompt_is_named_by_health(place: Place) -> None:
    place.memory("fix", f"# Fix\n\n{PLAIN}", trigger_phrases=phrases("fix", "signed tokens"))
    workspace = place.open()
    for number in range(12):
        workspace.triggers("please fix the tests" if number % 3 == 0 else f"prompt {number}")
    assert workspace.health().checks["general triggers"] != "ok"
    problem = next(p for p in workspace.health().problems if p["check"] == "general triggers")
    assert "fix" in str(problem)
    assert "signed tokens" not in str(problem)


def test_a_phrase_that_is_only_a_common_word_matches_and_is_reported_by_the_scan_and_by_health(place: Place) -> None:
    place.memory("plain", f"# Plain\n\n{PLAIN}", trigger_phrases=phrases("and", "signed tokens", "the"))
    place.memory("good", f"# Good\n\n{PLAIN} 1", trigger_phrases=phrases("signed tokens"))
    workspace = place.open(index=False)
    [warning] = workspace.index().warnings
    assert warning["path"] == "specs/001-core/memory/plain.md"
    assert "'and', 'the' will match most prompts" in warning["message"]
    for number in range(12):
        assert names(workspace, f"build number {number} and run it") == ["plain"]
    problems = [problem for problem in workspace.health().problems if problem["check"] == "general triggers"]
    assert [problem["message"] for problem in problems] == [
        "the phrase “and” matched more than a quarter of recent prompts"
    ]


def test_a_phrase_of_few_prompts_is_not_too_general(place: Place) -> None:
    place.memory("fix", f"# Fix\n\n{PLAIN}", trigger_phrases=phrases("fix"))
    workspace = place.open()
    for number in range(12):
        workspace.triggers("fix it" if number % 6 == 0 else f"prompt {number}")
    assert workspace.health().checks["general triggers"] == "ok"


# --- what the product itself offers ----------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ("please save context now", "save"),
        ("Save conversation", "save"),
        ("save session", "save"),
        ("document this", "save"),
        ("preserve context", "save"),
        ("Remember this: no tabs", "save"),
        ("make a checkpoint", "checkpoint"),
        ("take a snapshot", "checkpoint"),
        ("restore yesterday", "checkpoint"),
        ("what did we decide?", "search"),
        ("is there prior work", "search"),
        ("search memory for it", "search"),
        ("write a function", None),
    ],
)
def test_phrases_of_the_product_become_suggestions(place: Place, prompt: str, kind: str | None) -> None:
    messages = [suggestion["kind"] for suggestion in place.open().triggers(prompt).suggestions]
    assert messages == ([kind] if kind else [])


@pytest.mark.parametrize("cognitive", [True, False])
def test_a_loading_preference_is_kept_for_its_session_only(place: Place, cognitive: bool) -> None:
    workspace = place.open()
    answer = workspace.triggers("Auto-load memories, please", session_id="a", include_cognitive=cognitive)
    assert answer.loading == "auto"
    assert workspace.triggers("go on", session_id="a").session["loading"] == "auto"
    assert workspace.triggers("go on", session_id="b").session["loading"] == "ask"
    assert workspace.triggers("a fresh start", session_id="a").session["loading"] == "skip"
    assert workspace.triggers("skip memory", session_id="a").session["loading"] == "skip"
    again = place.open(index=False)
    assert again.triggers("hm", session_id="a").session["loading"] == "skip"
    assert again.triggers("ask about memories", session_id="a").session["loading"] == "ask"


# --- turns and attention ----------------------------------------------------------------


def test_turns_count_up_or_are_given_and_never_run_back(place: Place) -> None:
    workspace = place.open()
    assert workspace.triggers("x", session_id="s").session["turn"] == 1
    assert workspace.triggers("x", session_id="s").session["turn"] == 2
    assert workspace.triggers("x", session_id="s", turn_number=9).session["turn"] == 9
    assert workspace.triggers("x", session_id="s", turn_number=4).session["turn"] == 9
    assert workspace.triggers("x", session_id="s").session["turn"] == 10
    assert workspace.triggers("x").session == {}
    assert workspace.triggers("x", session_id="s", include_cognitive=False).session == {}


def test_attention_starts_at_one_and_fades_by_tier_and_turn(place: Place) -> None:
    place.memory("n", f"# N\n\n{PLAIN} n", trigger_phrases=phrases("alpha"))
    place.memory(
        "t", f"# T\n\n{PLAIN} t", trigger_phrases=phrases("alpha"), importance_tier="temporary", date="2026-03-01"
    )
    place.memory("c", f"# C\n\n{PLAIN} c", trigger_phrases=phrases("alpha"), importance_tier="critical")
    workspace = place.open()
    message = workspace.triggers("alpha", session_id="s").session["workingMemory"]
    assert {row["title"]: row["attention"] for row in message} == {"N": 1.0, "T": 1.0, "C": 1.0}
    message = workspace.triggers("nothing", session_id="s", turn_number=3).session["workingMemory"]
    assert {row["title"]: row["attention"] for row in message} == {"C": 1.0, "N": 0.64, "T": 0.36}


def test_a_match_comes_with_its_content_once_and_by_reference_after(place: Place) -> None:
    place.memory("n", f"# N\n\n{PLAIN}", trigger_phrases=phrases("alpha"))
    workspace = place.open()
    first = workspace.triggers("alpha", session_id="s").matches[0]
    assert first["state"] is State.HOT
    assert PLAIN in first["content"]
    assert "trigger_phrases" not in first["content"]
    again = workspace.triggers("alpha", session_id="s").matches[0]
    assert again["alreadySent"]
    assert again["title"] == "N"
    assert "content" in workspace.triggers("alpha", session_id="other").matches[0]


def test_a_match_that_changed_since_is_sent_again(place: Place) -> None:
    place.memory("n", f"# N\n\n{PLAIN}", trigger_phrases=phrases("alpha"))
    workspace = place.open()
    workspace.triggers("alpha", session_id="s")
    place.memory("n", "# N\n\nNew words.", trigger_phrases=phrases("alpha"))
    workspace.index(force=True)
    assert "New words." in workspace.triggers("alpha", session_id="s").matches[0]["content"]


def linked(place: Place) -> Workspace:
    """a -> b -> c -> d, and only a has a phrase."""
    place.memory("a", f"# A\n\n{PLAIN}", folder="001-a", trigger_phrases=phrases("alpha"))
    place.memory(
        "b",
        "# B\n\nNot this.\n\n<!-- ANCHOR:summary -->\n## Summary\nThe gist of B.\n<!-- /ANCHOR:summary -->",
        folder="002-b",
        title="B",
    )
    place.memory("c", "# C\n\nWords of C.", folder="003-c")
    place.memory("d", "# D\n\nWords of D.", folder="004-d")
    workspace = place.open()
    a, b, c, d = (place.id_of(workspace, f"/{name}.md") for name in "abcd")
    workspace.link(a, b, "caused")
    workspace.link(c, b, "supports")
    workspace.link(c, d, "caused")
    return workspace


def test_what_is_linked_comes_up_at_half_strength_per_hop_and_is_marked(place: Place) -> None:
    workspace = linked(place)
    answer = workspace.triggers("alpha", session_id="s", limit=10)
    assert [(row["title"], row.get("via", "match")) for row in answer.matches] == [
        ("A", "match"),
        ("B", "link"),
        ("C", "link"),
    ]
    powers = {row["title"]: row["attention"] for row in answer.session["workingMemory"]}
    assert powers == {"A": 1.0, "B": 0.5, "C": 0.25}


def test_warm_comes_with_its_summary_and_cold_as_a_title(place: Place) -> None:
    workspace = linked(place)
    _, warm, cold = workspace.triggers("alpha", session_id="s", limit=10).matches
    assert (warm["state"], warm["summary"]) == (State.WARM, "The gist of B.")
    assert cold["state"] is State.COLD
    assert not {"content", "summary"} & set(cold)


def test_without_a_summary_the_first_paragraph_stands_for_it_and_never_front_matter(place: Place) -> None:
    place.memory("a", f"# A\n\n{PLAIN}", trigger_phrases=phrases("alpha"))
    place.memory("b", f"# B\n\n{PLAIN}\n\nThe second one.", folder="002-b", title="B", tags="[x]")
    workspace = place.open()
    workspace.link(place.id_of(workspace, "/a.md"), place.id_of(workspace, "/b.md"), "caused")
    assert workspace.triggers("alpha", session_id="s").matches[1]["summary"] == PLAIN


def test_documents_of_the_same_spec_folder_are_near(place: Place) -> None:
    place.memory("a", f"# A\n\n{PLAIN}", folder="001-a", trigger_phrases=phrases("alpha"))
    place.write("specs/001-a/research.md", "# Research\n\nWhat we read.\n")
    place.write("specs/002-b/research.md", "# Elsewhere\n\nWhat others read.\n")
    workspace = place.open()
    rows = workspace.triggers("alpha", session_id="s").matches
    assert [(row["title"], row.get("via")) for row in rows] == [("A", None), ("Research", "folder")]


def test_what_is_near_but_deprecated_stays_away(place: Place) -> None:
    place.memory("a", f"# A\n\n{PLAIN}", trigger_phrases=phrases("alpha"))
    place.memory("b", "# B\n\nOld words.", folder="002-b", importance_tier="deprecated")
    workspace = place.open()
    workspace.link(place.id_of(workspace, "/a.md"), place.id_of(workspace, "/b.md"), "caused")
    assert [row["title"] for row in workspace.triggers("alpha", session_id="s").matches] == ["A"]


def test_working_memory_keeps_the_seven_most_attended_and_none_that_is_deleted(place: Place) -> None:
    for number in range(9):
        place.memory(f"m{number}", f"# M{number}\n\n{PLAIN} {number}", trigger_phrases=phrases(f"word{number}"))
    workspace = place.open()
    for number in range(9):
        message = workspace.triggers(f"word{number}", session_id="s").session["workingMemory"]
    assert [row["title"] for row in message] == [f"M{number}" for number in range(8, 1, -1)]
    workspace.delete(place.id_of(workspace, "m8"))
    message = workspace.triggers("nothing", session_id="s").session["workingMemory"]
    assert [row["title"] for row in message] == [f"M{number}" for number in range(7, 0, -1)]


# --- suggesting to save --------------------------------------------------------------------


def suggested(workspace: Workspace, turns: int, session: str = "s") -> list[int]:
    results = []
    for _ in range(turns):
        answer = workspace.triggers("go on", session_id=session)
        if [suggestion["kind"] for suggestion in answer.suggestions] == ["save"]:
            results.append(answer.session["turn"])
    return results


def test_saving_is_suggested_every_so_many_turns_and_a_save_starts_anew(place: Place) -> None:
    (place.root / "specs" / "001-core").mkdir(parents=True)
    workspace = place.open(triggers=Triggers(auto_save_interval=4))
    assert suggested(workspace, 9) == [4, 8]
    workspace.save(context={"sessionSummary": "All of it.", "sessionId": "s"}, spec_folder="001-core")
    assert suggested(workspace, 5) == [13]
    assert suggested(workspace, 4, session="other") == [4]


def test_twenty_turns_by_default_and_none_when_switched_off(place: Place) -> None:
    assert suggested(place.open(), 21) == [20]
    assert suggested(place.open(triggers=Triggers(auto_save_interval=0), index=False), 25, session="t") == []


# --- two agents, and trouble -------------------------------------------------------------------


def test_what_one_session_saw_is_hot_for_it_alone(place: Place) -> None:
    place.memory("n", f"# N\n\n{PLAIN}", trigger_phrases=phrases("alpha"))
    workspace = place.open()
    place.clock.pass_(days=20)
    workspace.search("paragraph", session_id="a")
    states = {name: workspace.search("paragraph", session_id=name).results[0] for name in "ab"}
    assert {name: getattr(found, "state", None) for name, found in states.items()} == {"a": State.HOT, "b": State.COLD}


def test_the_same_question_twice_in_a_session_still_names_what_was_found(place: Place) -> None:
    place.memory("n", f"# N\n\n{PLAIN}")
    workspace = place.open()
    first = workspace.search("first paragraph", session_id="a")
    second = workspace.search("first paragraph", session_id="a")
    assert ids([{"id": r.id} for r in first.results]) == ids([{"id": r.id} for r in second.results])
    assert PLAIN in first.results[0].text
    assert PLAIN not in second.results[0].text
    assert PLAIN in workspace.search("first paragraph", session_id="a", dedup=False).results[0].text


@pytest.mark.parametrize("prompt", ["", " ", "\x00", "'\"; DROP TABLE memory; --", "a" * 10_000, "\U0001f600" * 50])
def test_any_prompt_is_answered(place: Place, prompt: str) -> None:
    place.memory("n", f"# N\n\n{PLAIN}", trigger_phrases=phrases("alpha"))
    try:
        assert place.open().triggers(prompt, session_id="s").matches == ()
    except SpecKitMemoryError as error:
        pytest.fail(f"{error.code} {error.message}")


def test_a_session_begins_anew_though_another_process_is_writing(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    assert first(workspace.search("access tokens", session_id="s")).text
    assert first(workspace.search("access tokens", session_id="s")).already_sent
    other = apsw.Connection(str(place.root / ".spec-kit-memory/index.sqlite"))
    other.execute("BEGIN IMMEDIATE")

    class UntilWaitedFor(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "waits for another writer" in record.getMessage() and other.in_transaction:
                other.execute("ROLLBACK")

    handler = UntilWaitedFor()
    caplog.set_level(logging.INFO, logger="spec_kit_memory.features.sessions")
    logging.getLogger("spec_kit_memory.features.sessions").addHandler(handler)
    try:
        workspace.search("oauth", session_id="t")
        assert "for more than 0.5 seconds" in caplog.text, "it says how long it has waited"
        workspace.session("s", anew=True)
    finally:
        logging.getLogger("spec_kit_memory.features.sessions").removeHandler(handler)
        other.close()
    assert first(workspace.search("access tokens", session_id="s")).text


def test_two_processes_in_one_session_do_not_forget_what_the_other_sent(place: Place) -> None:
    """A host may run its hooks for the start and for the first prompt at the same time."""
    place.write("constitutional/house.md", "# House rules\n\nNever commit to main.\n")
    place.memory("rate", f"# Rate\n\n{PLAIN}", trigger_phrases=phrases("rate limit"))
    prompt_hook, start_hook = place.open(model="none"), place.open(model="none")
    turn = sessions._Turn(prompt_hook._runtime, "s", None, None)
    assert "Never commit to main." in start_hook.context(session_id="s").text
    turn.attend([], {}, limit=3)
    assert prompt_hook.search("paragraph", session_id="s").constitutional == ()
    assert prompt_hook.search("paragraph", session_id="another").constitutional != ()
    assert prompt_hook.session("s").turn == 1


def test_a_save_in_a_session_keeps_the_turns_of_another_process(place: Place) -> None:
    place.memory("rate", f"# Rate\n\n{PLAIN}", trigger_phrases=phrases("rate limit"))
    workspace, other = place.open(model="none"), place.open(model="none")
    turn = sessions._Turn(workspace._runtime, "s", None, None)
    for _ in range(3):
        other.triggers("the rate limit", session_id="s")
    turn.attend([], {}, limit=3)
    assert workspace.session("s").turn == 4
