"""Two memories that say nearly the same: named, joined on request, and never touched by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from spec_kit_memory.core.memory import Presence, Relation, Tier
from spec_kit_memory.serve.messages import advice_for_python
from spec_kit_memory.settings import Isolation
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

SENTENCES = [
    "The message broker is Mosquitto because it is small and every dock can run it.",
    "Commands to a lock are never retained, since a lock that wakes up must not open.",
    "Telemetry is sent every thirty seconds and dropped when the queue is full.",
    "The certificate of a dock is renewed by the gateway a week before it expires.",
    "A dock that was silent for five minutes is shown as offline on the station map.",
    "Load tests with two thousand docks showed no loss below four hundred messages a second.",
    "The broker keeps its sessions on disk, so that a restart loses no subscription.",
    "Operators read the audit log of commands with a tool of their own, once a day.",
    "Each command carries a nonce, and a lock refuses a nonce that it has seen before.",
    "The gateway speaks TLS 1.3 only and pins the certificate of the broker.",
    "Firmware is updated over the same connection, in pieces of four kilobytes.",
    "A failed update is rolled back by the bootloader after three attempts.",
]
OLD: dict[str, Any] = {
    "title": "Broker",
    "sessionSummary": "\n\n".join(SENTENCES),
    "triggerPhrases": ["dock broker"],
    "importanceTier": "critical",
}
NEW: dict[str, Any] = {
    "title": "Broker",
    "sessionSummary": "\n\n".join([*SENTENCES[:-1], "A failed update is rolled back at once."]),
    "triggerPhrases": ["lock commands"],
}
UNLIKE: dict[str, Any] = {"title": "Lunch", "sessionSummary": "The canteen has soup instead of salad on Thursdays."}


@pytest.fixture
def workspace(place: Place) -> Workspace:
    (place.root / "specs/002-dock-link").mkdir(parents=True)
    (place.root / "specs/003-payments").mkdir(parents=True)
    return place.open()


def saved(workspace: Workspace, data: dict[str, Any], **how: Any) -> Any:
    return workspace.save(context=data, **{"spec_folder": "002-dock-link", **how})


def test_a_near_copy_is_saved_and_named(workspace: Workspace) -> None:
    old = saved(workspace, OLD)
    new = saved(workspace, NEW)
    assert new.created
    assert [row["id"] for row in new.similar] == [old.id]
    assert new.similar[0]["score"] >= 0.92
    assert "on_similar='merge'" in new.hints[0]
    assert workspace.list().total == 2


def test_nothing_happens_to_the_other_one_by_itself(workspace: Workspace, place: Place) -> None:
    old = saved(workspace, OLD)
    before = (place.root / old.path).read_bytes()
    for data in (NEW, UNLIKE, NEW | {"sessionSummary": NEW["sessionSummary"] + "\n\nThis replaces and deprecates it."}):
        saved(workspace, data)
    assert (place.root / old.path).read_bytes() == before
    card = workspace.load(old.id).memory
    assert (card.tier, workspace.why(old.id).steps) == (Tier.CRITICAL, ())


def test_what_is_unlike_is_not_named(workspace: Workspace) -> None:
    saved(workspace, OLD)
    assert saved(workspace, UNLIKE).similar == ()


def test_distinct_says_that_both_are_wanted(workspace: Workspace) -> None:
    saved(workspace, OLD)
    new = saved(workspace, NEW, on_similar="distinct")
    assert (new.similar, new.hints) == ((), ())
    assert workspace.list().total == 2


def test_a_merge_leaves_one_file_and_keeps_both_texts(workspace: Workspace, place: Place) -> None:
    old = saved(workspace, OLD)
    place.clock.pass_(minutes=1)
    new = saved(workspace, NEW, on_similar="merge")
    assert f"supersedes memory {old.id}" in new.summary
    files = [path.name for path in (place.root / "specs/002-dock-link/memory").glob("*.md")]
    assert files == [new.path.rpartition("/")[2]]
    text = (place.root / new.path).read_text(encoding="utf-8")
    assert f"- Merged: memory {old.id}, Broker" in text
    assert SENTENCES[-1] in text, "what only the old one said"
    assert text.count(SENTENCES[0]) == 1, "what both said stands once"
    card = workspace.load(new.id).memory
    assert card.tier is Tier.CRITICAL, "the higher of the two"
    assert {"dock broker", "lock commands"} <= set(card.triggers)
    assert workspace.index().indexed == 0
    assert workspace.health().healthy


def test_a_merge_is_linked_recorded_and_can_be_taken_back(workspace: Workspace, place: Place) -> None:
    old = saved(workspace, OLD)
    before = (place.root / old.path).read_bytes()
    place.clock.pass_(minutes=1)
    new = saved(workspace, NEW, on_similar="merge")
    store = workspace._runtime.whole
    assert store.documents.get(old.id, any_presence=True).presence is Presence.FORGOTTEN
    merges = [entry for entry in store.record.ledger() if entry.type == "merge"]
    assert [entry.memory_ids for entry in merges] == [(old.id, new.id)]
    assert SENTENCES[-1] in store.documents.text(old.id)
    workspace.undo()
    assert (place.root / old.path).read_bytes() == before
    assert {card.id for card in workspace.list().memories} == {old.id, new.id}
    assert SENTENCES[-1] not in store.documents.text(new.id), "the new one is as it was saved"
    assert workspace.why(old.id).steps == ()
    assert workspace.health().healthy


def test_a_superseded_memory_says_by_which(workspace: Workspace) -> None:
    old, new = saved(workspace, OLD), saved(workspace, NEW)
    workspace.link(new.id, old.id, Relation.SUPERSEDES)
    results = workspace.search("message broker Mosquitto").results
    assert [result.id for result in results][:2] == [new.id, old.id]
    assert results[1].superseded_by == (new.id,)


def test_a_memory_of_another_folder_is_not_swallowed(workspace: Workspace) -> None:
    old = saved(workspace, OLD, spec_folder="003-payments")
    new = saved(workspace, NEW, on_similar="merge")
    assert [row["id"] for row in new.similar] == [old.id]
    assert any("was not merged: only memories of one folder" in warning for warning in new.warnings)
    assert {card.id for card in workspace.list().memories} == {old.id, new.id}


def test_a_rule_or_a_spec_document_is_not_swallowed(place: Place) -> None:
    body = "# Broker\n\n" + str(OLD["sessionSummary"])
    place.write("specs/002-dock-link/spec.md", body + "\n")
    place.memory("rule", body + "\n\nOne more.", folder="002-dock-link", importance_tier="constitutional")
    workspace = place.open()
    new = saved(workspace, NEW, on_similar="merge")
    assert len(new.similar) == 2
    assert workspace.list().total == 3


def test_a_shared_memory_is_not_swallowed_by_a_users_own(place: Place) -> None:
    place.write("memory/broker.md", "# Broker\n\n" + str(OLD["sessionSummary"]) + "\n")
    workspace = place.open(isolation=Isolation(user_id="ann"))
    workspace.save(context=NEW, on_similar="merge")
    assert workspace.list().total == 2


def test_code_is_merged_whole(workspace: Workspace, place: Place) -> None:
    code = "```sh\n# a comment, no heading\nskm index\n\nskm search\n```"
    old = saved(workspace, OLD | {"sessionSummary": f"{OLD['sessionSummary']}\n\n{code}"})
    place.clock.pass_(minutes=1)
    new = saved(workspace, NEW, on_similar="merge")
    text = (place.root / new.path).read_text(encoding="utf-8")
    assert code in text
    assert workspace._runtime.whole.documents.get(old.id, any_presence=True).presence is Presence.FORGOTTEN
    assert list(map(str, new.warnings)) == [
        f"memory {new.id} is critical now (it was normal), the higher of the two tiers"
    ]


# --- what the form has in common does not count

SHORT: tuple[dict[str, Any], ...] = (
    {"sessionSummary": "Fixed the lamp."},
    {"sessionSummary": "Painted a door."},
    {"sessionSummary": "Sold old bikes.", "filesModified": ["src/main.py", "README.md", "docs/index.md"]},
    {"sessionSummary": "Bought new locks.", "filesModified": ["src/main.py", "README.md", "docs/index.md"]},
    {"keyDecisions": [{"decision": "Close early", "chosen": "Six", "rationale": "It is dark."}]},
    {"keyDecisions": [{"decision": "Open late", "chosen": "Ten", "rationale": "Nobody comes."}]},
    {"nextSteps": ["call Ann"], "blockers": ["no phone"]},
    {"nextSteps": ["write Bob"], "blockers": ["no paper"]},
    {"userPrompts": [{"prompt": "Is it up?"}, {"prompt": "And now?"}]},
    {"userPrompts": [{"prompt": "Was it down?"}, {"prompt": "For long?"}]},
)


@pytest.mark.parametrize("git", [{}, {"branch": "main", "commit": "0123abcd"}])
def test_short_saves_are_not_alike_because_their_form_is(
    workspace: Workspace, git: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spec_kit_memory.files import git as repository

    monkeypatch.setattr(repository, "head", lambda root: git)
    for data in SHORT:
        assert saved(workspace, data).similar == (), data


def test_a_users_own_template_does_not_make_saves_alike(place: Place) -> None:
    form = "This page was made by the team of the harbour, who answer every question about it within a day."
    place.write(
        ".spec-kit-memory/context_template.md",
        f"{{{{front_matter}}}}\n\n# {{{{title}}}}\n\n{form}\n\n{{{{sections}}}}\n\n{form.replace('page', 'text')}\n",
    )
    (place.root / "specs/002-dock-link").mkdir(parents=True)
    workspace = place.open()
    saved(workspace, SHORT[0])
    assert saved(workspace, SHORT[1]).similar == ()


def test_a_short_save_with_a_word_changed_is_still_named(workspace: Workspace) -> None:
    old = saved(workspace, {"sessionSummary": "The staging server restarts every Sunday night at three."})
    new = saved(workspace, {"sessionSummary": "The staging server restarts every Sunday night at four."})
    assert [row["id"] for row in new.similar] == [old.id]


def test_a_save_that_differs_in_one_fact_names_it_and_offers_to_supersede_the_old_one(place: Place) -> None:
    text = (
        "The gateway listens on port {port} behind the load balancer. It was moved there so that health checks reach "
        "it without a tunnel. The firewall allows this port from the internal network only, and the dashboard shows it."
    )
    place.memory("lunch", "# Lunch\n\nThe canteen closes at two.")
    workspace = place.open()
    old = workspace.save(context={"sessionSummary": text.format(port=8080)}, spec_folder="001-core")
    new = workspace.save(context={"sessionSummary": text.format(port=9090)}, spec_folder="001-core")
    assert old.id is not None
    assert new.id is not None
    assert [row.id for row in new.similar] == [old.id]
    assert new.hints[-1] == (
        f"memory {old.id} says the same except for '8080' (here '9090'): if that has changed, "
        f"`link({new.id}, {old.id}, 'supersedes')`; `merge({old.id}, {new.id})` would keep both statements"
    )
    merged = workspace.merge(old.id, new.id)
    both = f"memory {old.id} stated '8080' (here '9090'), and the merged text has both: correct {new.path} if"
    assert any(hint.startswith(both) for hint in merged.hints)
    whole = workspace.load(new.id).text
    assert "8080" in whole
    assert "9090" in whole
    other = workspace.save(
        context={"sessionSummary": text.format(port=9191)}, spec_folder="001-core", on_similar="merge"
    )
    assert other.merged == new.id


def test_a_merge_that_keeps_only_the_fuller_statement_does_not_say_that_it_has_both(place: Place) -> None:
    workspace = place.open()
    old = workspace.save(text="I prefer metric tonnes in reports, always.")
    new = workspace.save(text="I prefer metric tonnes in reports.", on_similar="distinct")
    assert old.id is not None
    assert new.id is not None
    merged = workspace.merge(old.id, new.id)
    assert "I prefer metric tonnes in reports, always.\n" in workspace.load(new.id).text
    assert not any("has both" in hint for hint in merged.hints)


def test_a_save_that_adds_a_sentence_is_offered_a_merge(place: Place) -> None:
    text = " ".join(
        f"The gateway keeps rule {word} for its clients." for word in ["one", "two", "three", "four", "five", "six"]
    )
    place.memory("lunch", "# Lunch\n\nThe canteen closes at two.")
    workspace = place.open()
    old = workspace.save(context={"sessionSummary": text}, spec_folder="001-core")
    new = workspace.save(context={"sessionSummary": f"{text} Its log is kept for a month."}, spec_folder="001-core")
    assert [row.id for row in new.similar] == [old.id]
    assert new.hints[-1].startswith(f"memory {old.id} says nearly the same")


def test_copies_in_other_folders_do_not_hide_the_one_that_a_save_is_merged_with(place: Place) -> None:
    folders = [f"{number:03d}-copy" for number in range(1, 8)]
    for folder in folders:
        (place.root / "specs" / folder).mkdir(parents=True)
    workspace = place.open()
    for folder in folders:
        last = saved(workspace, OLD, spec_folder=folder, on_similar="distinct")
    place.clock.pass_(minutes=2)
    answer = saved(workspace, NEW, spec_folder=folders[-1], on_similar="merge")
    assert answer.merged == last.id
    assert answer.warnings == () or "not merged" not in str(answer.warnings)


def test_the_offer_to_join_two_folders_is_one_that_works(workspace: Workspace) -> None:
    first = saved(workspace, OLD)
    second = saved(workspace, OLD | {"nextSteps": ["Order a spare gateway"]}, spec_folder="003-payments")
    hint = advice_for_python(second.hints[0])
    assert hint == (
        f"memory {first.id} says nearly the same in another folder: "
        f"`merge({first.id}, {second.id})` joins the two, or leave both"
    )
    assert workspace.merge(first.id, second.id).merged == first.id


def test_a_merge_with_a_rule_is_not_offered(place: Place) -> None:
    (place.root / "specs/002-dock-link").mkdir(parents=True)
    place.write("constitutional/broker.md", "# Broker\n\n" + "\n\n".join(SENTENCES) + "\n")
    answer = saved(place.open(), OLD)
    assert [row.title for row in answer.similar] == ["Broker"]
    assert answer.hints == ()


def test_what_is_given_beside_a_text_that_is_stored_already_is_named_with_the_call_that_adds_it(
    workspace: Workspace, place: Place
) -> None:
    first = saved(workspace, OLD)
    text = (place.root / first.path).read_text()
    more = {
        "triggerPhrases": ["dock broker", "broker of docks"],
        "importanceTier": "important",
        "contextType": "research",
        "questions": ["Which broker do docks use?"],
        "links": {"supersedes": ["An older note"]},
    }
    again = saved(workspace, OLD | more)
    assert again.id == first.id
    assert (place.root / first.path).read_text() == text
    assert list(map(advice_for_python, again.warnings)) == [
        f"memory {first.id} does not have 'broker of docks' among its trigger phrases; "
        f"add it with `update({first.id}, add_trigger_phrases=PHRASE)`",
        f"memory {first.id} stays critical; `update({first.id}, importance_tier='important')` makes it important",
        f"memory {first.id} stays general; `update({first.id}, context_type='research')` makes it research",
        f"{first.path} does not have 'Which broker do docks use?' among its questions; "
        "write them into its front matter",
        f"{first.path} does not link to 'An older note'; write that into its causal_links",
    ]


def test_history_says_what_a_merged_memory_was_merged_into(workspace: Workspace) -> None:
    first, second = saved(workspace, OLD), saved(workspace, NEW)
    workspace.merge(first.id, second.id)
    gone, stays = workspace.history(first.id).entries[0], workspace.history(second.id).entries[0]
    assert (gone.event, gone.merged_into, gone.merged) == ("DELETE", second.id, None)
    assert (stays.event, stays.merged_into, stays.merged) == ("UPDATE", None, first.id)
    workspace.undo()
    assert workspace.history(first.id).entries[0].merged_into is None
