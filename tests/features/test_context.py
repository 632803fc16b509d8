"""What an agent is told that starts or resumes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_kit_memory.core import tokens
from spec_kit_memory.errors import OutOfRange
from spec_kit_memory.serve import render
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

RULE = "---\ntitle: House rules\n---\n# House rules\n\nNever commit to main.\n"
NEWEST = """# Tokens

Opening words.

<!-- ANCHOR:summary -->
## Summary
Sessions became signed tokens.
<!-- /ANCHOR:summary -->

<!-- ANCHOR:state -->
## State
Half of the routes are moved.
<!-- /ANCHOR:state -->

<!-- ANCHOR:decisions -->
## Decisions
We chose signed tokens over Redis.
<!-- /ANCHOR:decisions -->

<!-- ANCHOR:blockers -->
## Blockers
The key server is down.
<!-- /ANCHOR:blockers -->

<!-- ANCHOR:next-steps -->
## Next steps
Rotate the signing key.
<!-- /ANCHOR:next-steps -->

## Notes
A long tail that only a whole load brings.
"""


@pytest.fixture
def workspace(place: Place) -> Workspace:
    place.write("constitutional/house.md", RULE)
    place.memory(
        "new", NEWEST, folder="007-auth", title="Tokens", date="2026-02-20", trigger_phrases='["signed tokens"]'
    )
    place.memory("older", "# Sessions\n\nSessions lived in Redis.", folder="007-auth", date="2026-02-10")
    place.memory("oldest", "# Cookies\n\nCookies came first.", folder="007-auth", date="2026-02-01")
    place.memory("fourth", "# Zero\n\nNothing yet.", folder="007-auth", date="2026-01-01")
    place.memory(
        "choice",
        "# Which key store\n\nSigned tokens are signed with a key in the vault.",
        folder="008-api",
        context_type="decision",
        date="2026-02-15",
    )
    return place.open()


def test_rules_the_folders_standing_and_decisions_come_in_one_text(workspace: Workspace) -> None:
    answer = workspace.context(spec_folder="007-auth")
    assert "Never commit to main." in answer.text
    for text in (
        "Half of the routes are moved.",
        "Rotate the signing key.",
        "The key server is down.",
        "Sessions became signed tokens.",
        "We chose signed tokens over Redis.",
    ):
        assert answer.text.count(text) == 1, text
    assert "A long tail" not in answer.text
    assert "date:" not in answer.text
    assert "ANCHOR" not in answer.text
    assert [part["kind"] for part in answer.parts] == ["rule", "folder"]


def test_the_prompt_brings_up_what_it_triggers_and_decisions_that_bear_on_it(workspace: Workspace) -> None:
    answer = workspace.context("how are signed tokens checked?")
    kinds = {part["title"]: part["kind"] for part in answer.parts}
    assert kinds["Tokens"] in ("trigger", "decision")
    assert kinds["Which key store"] == "decision"
    assert "trigger" in [part["kind"] for part in answer.parts]
    assert "Sessions became signed tokens." in answer.text


@pytest.mark.parametrize(
    "prompt", [None, "how are signed tokens checked?", "signed tokens over Redis", "signed tokens"]
)
@pytest.mark.parametrize("folder", [None, "007-auth", "008-api"])
def test_a_memory_stands_in_one_place(workspace: Workspace, prompt: str | None, folder: str | None) -> None:
    answer = workspace.context(prompt, spec_folder=folder)
    ids = [part["id"] for part in answer.parts]
    assert len(ids) == len(set(ids)), answer.text
    for title in ("Tokens", "Which key store", "House rules", "Sessions"):
        assert answer.text.count(f"**{title}**") <= 1
    for text in (
        "We chose signed tokens over Redis.",
        "Sessions became signed tokens.",
        "signed with a key in the vault",
    ):
        assert answer.text.count(text) <= 1, text


def test_the_folders_newest_tells_its_decision_beside_where_it_stands(workspace: Workspace) -> None:
    answer = workspace.context("how are signed tokens checked, over Redis?", spec_folder="007-auth")
    below = answer.text.split("## 007-auth")[1]
    assert "decision: We chose signed tokens over Redis." in below
    assert "Half of the routes are moved." in below


def test_a_rule_that_the_prompt_brings_up_is_told_once(place: Place) -> None:
    for number in range(5):
        place.write(
            f"constitutional/r{number}.md", f"---\ntriggers: [deploy]\n---\n# Rule {number}\n\nText {number}.\n"
        )
    answer = place.open().context("deploy now")
    for number in range(5):
        assert answer.text.count(f"**Rule {number}**") == 1


def test_rules_are_told_once_in_a_session_by_context_or_search(workspace: Workspace) -> None:
    assert "Never commit to main." in workspace.context(session_id="s").text
    assert "Never commit to main." not in workspace.context("signed tokens", session_id="s").text
    assert workspace.search("signed tokens", session_id="s").constitutional == ()
    assert workspace.search("signed tokens", session_id="t").constitutional
    assert workspace.search("signed tokens", session_id="t").constitutional == ()
    assert "Never commit to main." not in workspace.context(session_id="t").text
    assert workspace.search("signed tokens", session_id="t", dedup=False).constitutional
    for _ in range(2):
        assert workspace.search("signed tokens").constitutional


def test_after_a_compaction_rules_are_told_again(workspace: Workspace) -> None:
    workspace.context(session_id="s")
    workspace.session("s", anew=True)
    assert workspace.search("signed tokens", session_id="s").constitutional


def test_a_rule_that_changed_is_told_again(workspace: Workspace, place: Place) -> None:
    workspace.context(session_id="s")
    place.write("constitutional/house.md", RULE.replace("main", "release"))
    workspace.index()
    (rule,) = workspace.search("signed tokens", session_id="s").constitutional
    assert "Never commit to release." in rule.text


def test_a_rule_that_was_only_named_is_told_when_the_question_brings_it_up(place: Place) -> None:
    for tree in ("alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple"):
        place.write(f"constitutional/{tree}.md", f"---\ntriggers: [the {tree}wood]\n---\n# {tree}\n\nObey always.\n")
    place.memory("note", "# Harbour\n\nCranes lift boxes.")
    workspace = place.open()
    named = [rule.title for rule in workspace.search("cranes", session_id="s").constitutional if not rule.text]
    assert named
    question = f"cranes and the {named[0]}wood"
    again = workspace.search(question, session_id="s")
    assert [(rule.title, bool(rule.text)) for rule in again.constitutional] == [(named[0], True)]
    assert workspace.search(question, session_id="s").constitutional == ()


def test_what_is_no_decision_is_not_called_one(workspace: Workspace) -> None:
    answer = workspace.context("where did cookies come first?")
    assert "Cookies" not in [part["title"] for part in answer.parts if part["kind"] == "decision"]


def test_a_folders_memories_are_offered_and_not_loaded(workspace: Workspace) -> None:
    answer = workspace.context(spec_folder="007-auth", session_id="s")
    assert answer.loading == "ask"
    assert [offer["choice"] for offer in answer.offers] == ["[1]", "[2]", "[3]", "[all]", "[skip]"]
    assert [offer["title"] for offer in answer.offers[:3]] == ["Tokens", "Sessions", "Cookies"]
    assert answer.offers[3]["ids"] == tuple(offer["id"] for offer in answer.offers[:3])
    assert any("[1] [2] [3] [all] [skip]" in hint for hint in answer.hints)


def test_auto_loading_brings_the_whole_memory_and_lasts_for_the_session(workspace: Workspace) -> None:
    workspace.context("auto-load memories", session_id="s")
    answer = workspace.context(spec_folder="007-auth", session_id="s")
    assert answer.loading == "auto"
    assert "A long tail" in answer.text
    assert not any("[skip]" in hint for hint in answer.hints)
    assert workspace.context(spec_folder="007-auth", session_id="t").loading == "ask"


def test_a_fresh_start_leaves_memories_out_but_never_rules_and_never_blocks(workspace: Workspace) -> None:
    answer = workspace.context("a fresh start, please", spec_folder="007-auth", session_id="s")
    assert answer.loading == "skip"
    assert "Never commit to main." in answer.text
    assert "Half of the routes" not in answer.text
    assert answer.offers == ()
    assert "fresh start" in answer.summary
    again = workspace.context(spec_folder="007-auth", session_id="s")
    assert "Half of the routes" not in again.text


def test_a_preference_said_to_triggers_holds_for_the_context(workspace: Workspace) -> None:
    workspace.triggers("fresh start", session_id="s")
    assert workspace.context(spec_folder="007-auth", session_id="s").loading == "skip"


def test_the_newest_that_still_holds_speaks_for_the_folder(workspace: Workspace, place: Place) -> None:
    workspace.validate(place.id_of(workspace, "new.md"), outdated=True)
    answer = workspace.context(spec_folder="007-auth")
    assert [offer["title"] for offer in answer.offers if "title" in offer] == ["Sessions", "Cookies", "Zero"]
    assert "Sessions lived in Redis." in answer.text


def test_a_folder_with_documents_only_is_told_by_them(place: Place) -> None:
    place.write("specs/009-docs/spec.md", "# Search\n\nIt shall find things.\n")
    answer = place.open().context(spec_folder="specs/009-docs")
    assert "It shall find things." in answer.text


def test_nothing_known_says_so_and_what_to_do(place: Place) -> None:
    answer = place.open().context(spec_folder="404-none")
    assert answer.text == ""
    assert "404-none" in answer.summary
    assert answer.hints


def test_it_works_without_any_vectors(place: Place) -> None:
    place.write("constitutional/house.md", RULE)
    place.memory("new", NEWEST, folder="007-auth", title="Tokens")
    answer = place.open(model="none").context("signed tokens", spec_folder="007-auth")
    assert "Never commit to main." in answer.text
    assert "Rotate the signing key." in answer.text


def test_long_rules_do_not_crowd_out_where_the_folder_stands(place: Place) -> None:
    for number in range(12):
        place.write(f"constitutional/r{number}.md", f"# Rule {number}\n\n" + "Always do it properly. " * 60 + "\n")
    place.memory("new", NEWEST, folder="007-auth", title="Tokens")
    workspace = place.open()
    for budget in (300, 600, 1500):
        answer = workspace.context(spec_folder="007-auth", max_tokens=budget)
        assert "Half of the routes are moved." in answer.text, budget


@pytest.fixture
def crowded(place: Place) -> Workspace:
    for number in range(5):
        text = f"# Règle {number} 規則\n\n" + "Immer ordentlich arbeiten. 規則を守る。" * number * 9 + "\n"
        place.write(f"constitutional/r{number}.md", text)
    place.memory("new", NEWEST + "語" * 900, folder="007-auth", title="A title that is long " * 8)
    for number in range(4):
        place.memory(f"m{number}", f"# M{number}\n\n" + "Signed tokens. " * 80 * number, trigger_phrases='["tokens"]')
    return place.open(model="none")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    budget=st.integers(1, 3000),
    prompt=st.sampled_from([None, "tokens", "auto-load memories about tokens"]),
    folder=st.sampled_from([None, "007-auth", "001-core"]),
)
def test_no_budget_is_ever_exceeded(crowded: Workspace, budget: int, prompt: str | None, folder: str | None) -> None:
    answer = crowded.context(prompt, spec_folder=folder, max_tokens=budget)
    assert tokens.count(answer.text) <= budget
    assert sum(part["tokens"] for part in answer.parts) <= budget + len(answer.parts)
    if budget >= 100:
        assert render.envelope(answer)["meta"]["tokens"] <= budget
    assert not answer.text.rstrip().split("\n")[-1].startswith("## ")


def test_a_text_that_is_cut_does_not_end_with_a_heading(crowded: Workspace) -> None:
    for budget in range(100, 700, 7):
        text = crowded.context("auto-load memories about tokens", spec_folder="007-auth", max_tokens=budget).text
        assert not text.rstrip().split("\n")[-1].startswith(("## ", "<!--")), budget


@pytest.mark.parametrize("budget", [0, -5])
def test_no_budget_at_all_is_out_of_range(workspace: Workspace, budget: int) -> None:
    with pytest.raises(OutOfRange):
        workspace.context(max_tokens=budget)


def test_what_was_shown_is_hot_for_the_session_and_counts_as_used(workspace: Workspace, place: Place) -> None:
    id_ = place.id_of(workspace, "new.md")
    workspace.context(spec_folder="007-auth", session_id="s")
    attended = workspace.triggers("go on", session_id="s").session["workingMemory"]
    assert id_ in [row["id"] for row in attended]
    workspace.close()
    again = place.open(index=False)
    assert next(card for card in again.list(limit=50).memories if card.id == id_).access_count == 1


def test_a_decision_that_was_replaced_says_by_which(place: Place) -> None:
    place.memory("old", "# Docks poll\n\nDocks poll the service every five seconds.", context_type="decision")
    place.memory("new", "# Docks listen\n\nDocks listen on a socket to the service.", context_type="decision")
    workspace = place.open()
    old, new = place.id_of(workspace, "old.md"), place.id_of(workspace, "new.md")
    workspace.link(new, old, "supersedes")
    text = workspace.context("how do docks talk to the service").text
    assert f"Superseded by #{new}: Docks poll" in text
    assert text.count("Superseded by") == 1


def test_a_prompt_that_no_phrase_and_no_decision_meets_brings_what_is_nearest(place: Place) -> None:
    place.memory("prices", "# Prices\n\nPrices are stored in cents; the API never sends floats.")
    answer = place.open().context("do we store prices as floats")
    assert "never sends floats" in answer.text
    assert [part["kind"] for part in answer.parts] == ["nearest"]


@pytest.mark.parametrize("decision", ["Retry firing at cone 6", "Fire twice: the second firing is at cone 6"])
def test_a_decision_that_does_not_answer_does_not_stand_in_for_what_does(place: Place, decision: str) -> None:
    workspace = place.open(model="local")
    workspace.save(text="The kiln fires at 1240 degrees because the glaze melts at 1230")
    session = {"title": "Glaze recipe", "sessionSummary": "We took a tin glaze.", "keyDecisions": ["Tin", decision]}
    workspace.save(context=session, spec_folder="001-glaze", create=True)
    answer = workspace.context("how hot does the kiln get")
    assert "1240 degrees" in answer.text
    assert "nearest" in [part["kind"] for part in answer.parts]


def test_a_prompt_that_nothing_bears_on_names_what_was_saved_last_and_shows_none_of_it(place: Place) -> None:
    place.memory("prices", "# Prices\n\nPrices are stored in cents; the API never sends floats.")
    workspace = place.open()
    for prompt in ("zzz qqq", None):
        answer = workspace.context(prompt)
        assert "Prices (#" in answer.text
        assert "floats" not in answer.text
        assert "first memory" not in " ".join(answer.hints)
        assert (
            answer.summary == ("no memory is close to the prompt; " if prompt else "") + "1 memory saved last is named"
        )


def test_what_was_saved_last_is_counted_and_still_holds(place: Place) -> None:
    for number in range(3):
        place.memory(f"fact-{number}", f"# Fact {number}\n\nThe number {number} is drawn on gate {number}.")
    place.write("specs/z_archive/000-old/memory/old.md", "# Old gate\n\nIt was torn down.\n")
    place.memory("short", "# Short\n\nIt held for a day.", expires="2026-01-01")
    place.memory("gone", "# Gone\n\nNobody does that any more.", importance_tier="deprecated")
    answer = place.open().context()
    assert answer.summary == "3 memories saved last are named"
    assert not [title for title in ("Old gate", "Short", "Gone") if title in answer.text]
