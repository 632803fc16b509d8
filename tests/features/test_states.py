"""Which states does a search show, and what does it say of those that it holds back?"""

from __future__ import annotations

import pytest

from spec_kit_memory.core import relevance
from spec_kit_memory.core.memory import State, Tier
from tests.features.conftest import Clock, Place
from tests.features.test_search import BROKER, LUNCH, TOKENS, titles


def test_unused_memories_are_held_back_and_named(place: Place, clock: Clock) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    clock.pass_(days=120)
    answer = workspace.search("access tokens")
    assert titles(answer) == []
    assert answer.held_back.archived == 1
    assert answer.held_back.best[0]["title"] == "Login tokens"
    assert any("include_archived" in hint for hint in answer.hints)
    assert titles(workspace.search("access tokens", include_archived=True)) == ["Login tokens"]
    assert titles(workspace.search("access tokens", state_filter="ARCHIVED")) == ["Login tokens"]


def test_archive_folders_are_archived_and_words_that_contain_old_are_not(place: Place) -> None:
    place.memory("tokens", TOKENS, folder="z_archive/001-core")
    place.memory("limits", "# Threshold\n\nAccess tokens have a threshold.", folder="002-threshold-scaffolding")
    answer = place.open().search("access tokens")
    assert titles(answer) == ["Threshold"]
    assert answer.held_back.archived == 1


def test_a_first_index_archives_nothing_however_old_the_files_are(place: Place) -> None:
    place.memory("tokens", TOKENS, created="2019-01-01")
    assert titles(place.open().search("access tokens")) == ["Login tokens"]


def test_important_memories_never_sink_below_their_floor(place: Place, clock: Clock) -> None:
    place.memory("a", TOKENS, importance_tier="critical")
    place.memory("b", BROKER, importance_tier="important")
    workspace = place.open()
    clock.pass_(days=4000)
    states = {card.tier: card.state for card in workspace.list().memories}
    assert states == {Tier.CRITICAL: State.WARM, Tier.IMPORTANT: State.COLD}
    assert titles(workspace.search("access tokens"))[0] == "Login tokens"


def test_dormant_memories_come_up_when_they_are_relevant(place: Place, clock: Clock) -> None:
    place.memory("tokens", TOKENS)
    place.memory("lunch", LUNCH)
    workspace = place.open()
    clock.pass_(days=60)
    answer = workspace.search("access tokens live fifteen minutes")
    assert titles(answer) == ["Login tokens"]
    assert answer.held_back.dormant == 1
    assert answer.hints[-1] == "older matches were held back; `min_state='DORMANT'` brings dormant ones"
    assert len(workspace.search("access tokens live fifteen minutes", min_state="DORMANT").results) == 2


def test_half_way_to_the_best_match_is_relevant_enough_for_dormant_memories(place: Place, clock: Clock) -> None:
    words = ("rotation", "signing", "gateway", "retention", "ledger", "parser")
    for number in range(1, len(words) + 1):
        place.memory(f"n{number}", f"# Note {number}\n\nAbout {' and '.join(words[:number])}, as agreed in May.")
    workspace = place.open()
    clock.pass_(days=60)
    question = " ".join(words)
    every = workspace.search(question, mode="text", state_filter="DORMANT", explain=True).results
    share = {result.title: (result.explain["relevance"] / 40) ** (1 / relevance.STEEPNESS) for result in every}
    shown = set(titles(workspace.search(question, mode="text")))
    assert shown == {title for title, value in share.items() if value >= 0.5}
    assert 0.5 < min(share[title] for title in shown) < 0.7
    assert len(shown) < len(share) == len(words)


def test_the_best_that_were_held_back_are_the_best_by_the_score_of_results(place: Place, clock: Clock) -> None:
    words = ("rotation", "signing", "gateway", "retention", "ledger", "parser", "quota", "lease")
    for number in range(1, 9):
        message = f"About {' and '.join(words[:number])}, as agreed in May."
        # Long texts promise as much by their vector; what decides is the score.
        place.memory(f"old{number}", f"# Old {number}\n\n{message}", folder="001-core/archive")
        place.memory(f"new{number}", f"# New {number}\n\n{message} It still holds.")
    workspace = place.open()
    question = " ".join(words)
    every = workspace.search(question, include_archived=True, limit=50, max_tokens=50_000).results
    expected = [result.title for result in every if result.title.startswith("Old")][:3]
    held = workspace.search(question, limit=3).held_back
    assert [row["title"] for row in held.best] == expected
    assert [row["score"] for row in held.best] == sorted((row["score"] for row in held.best), reverse=True)
    assert held.archived == 8


def test_each_of_the_best_that_were_held_back_has_the_score_that_it_would_be_shown_with(place: Place) -> None:
    place.memory("new", "# New\n\nThe gateway limit is ten requests, signed by a lease.")
    place.memory("lunch", LUNCH)
    place.memory("old", "# Old\n\nThe gateway limit is ten requests.", folder="001-core/archive")
    place.memory("gone", "# Gone\n\nThe gateway was limited once.", expires="2026-01-01")
    workspace = place.open(model="local")
    question = "what is the gateway limit for requests signed by a lease"
    shown = {r.title: r.score for r in workspace.search(question, include_archived=True).results}
    held = workspace.search(question).held_back
    assert [(row["title"], row["reason"]) for row in held.best] == [("Old", "archived"), ("Gone", "expired")]
    for row in held.best:
        assert abs(row["score"] - shown[row["title"]]) < 1.5


def test_what_is_below_the_least_score_is_held_back_by_its_score(place: Place) -> None:
    for number, text in enumerate((TOKENS, BROKER, LUNCH)):
        place.memory(f"n{number}", text)
    workspace = place.open()
    every = workspace.search("access tokens of the broker live")
    held = workspace.search("access tokens of the broker live", min_score=0.99).held_back
    low = [(r.title, r.score) for r in every.results if r.score < 99]
    assert [(row["title"], row["score"]) for row in held.best] == low[:3]
    assert held.min_score == len(low)


def test_dormant_memories_need_a_clear_match_and_not_only_to_come_first(place: Place, clock: Clock) -> None:
    place.memory("tokens", TOKENS)
    place.memory("lunch", LUNCH)
    workspace = place.open(model="local")
    clock.pass_(days=60)
    answer = workspace.search("how long do access tokens live")
    assert titles(answer) == ["Login tokens"]
    assert answer.results[0].match is not None
    assert answer.results[0].match >= 0.5
    nothing = workspace.search("which striker scored in the cup final")
    assert titles(nothing) == []
    assert titles(workspace.search("which striker scored in the cup final", min_state="DORMANT"))


@pytest.mark.parametrize("model", ["none", "local"])
def test_what_is_found_and_what_is_below_the_least_score_add_up_whatever_the_limit(place: Place, model: str) -> None:
    place.write("constitutional/rule.md", "# Rule on tokens\n\nAccess tokens are never written to a log.\n")
    place.write("constitutional/meals.md", "# Rule on meals\n\nNobody eats beside the oven.\n")
    for number in range(60):
        place.memory(f"note{number}", f"# Note {number}\n\n{'The access tokens live. ' * (number % 7)}Case {number}.")
    workspace = place.open(model=model)
    below = 0
    for limit in (1, 10, 50, 100):
        everything = workspace.search("how long do access tokens live", limit=limit).total_found
        for score in (0.1, 0.5, 0.9, 1.0):
            answer = workspace.search("how long do access tokens live", limit=limit, min_score=score)
            assert answer.total_found + answer.held_back.min_score == everything, (limit, score)
            below += answer.held_back.min_score
    assert below


@pytest.mark.parametrize("model", ["none", "local"])
def test_no_count_of_an_answer_depends_on_how_many_results_were_asked_for(
    place: Place, clock: Clock, model: str
) -> None:
    for number in range(6):
        place.write(f"constitutional/rule{number}.md", f"# Rule {number}\n\nAccess tokens live in vault {number}.\n")

    def notes(kind: str, count: int, folder: str = "001-core", **front: object) -> None:
        for number in range(count):
            text = f"{'The access tokens live. ' * (number % 7)}Case {number} of the mill."
            long = "\n\n".join(f"## Part {part}\n\n{text} {'Grain and water. ' * 5}" for part in range(4))
            place.memory(f"{kind}{number}", f"# {kind} {number}\n\n{long}", folder=folder, **front)

    notes("faded", 30)
    notes("gone", 5, expires="2026-03-20")
    notes("old", 8, folder="001-core/archive")
    workspace = place.open(model=model)
    clock.pass_(days=60)
    notes("new", 30)
    workspace.index()
    question = "how long do access tokens live in a vault"
    for options in ({}, {"min_score": 0.3}, {"min_score": 0.9}, {"fresh": True}, {"group_by": "passage"}):
        counts = {}
        for limit in (1, 2, 5, 10, 20, 50, 100):
            answer = workspace.search(question, limit=limit, max_tokens=50_000, **options)
            held = answer.held_back
            counts[limit] = (
                answer.total_found,
                *(held.archived, held.dormant, held.expired, held.min_score, held.stale),
                [row["title"] for row in held.best],
            )
        assert all(count == counts[1] for count in counts.values()), (options, counts)
        assert held.dormant
        assert held.archived
        assert held.expired
    few, many = (workspace.search(question, limit=limit, max_tokens=100_000).results for limit in (5, 100))
    assert [result.id for result in few] == [result.id for result in many][:5]
    assert len(many) > 20


def test_what_was_held_back_has_the_score_that_it_would_have_as_a_result(place: Place) -> None:
    place.memory("sms", "# Unlock by text message\n\nRiders unlocked with a text message.", folder="z_archive/001-sms")
    place.memory("why", "# Why text messages went\n\nUnlocking by text message was slow.", folder="z_archive/001-sms")
    place.memory("dock", "# Docks\n\nA dock gets a message when a rider comes.")
    place.memory("tyre", "# Tyres\n\nTyres last two winters.")
    workspace = place.open(model="local")
    held = workspace.search("unlock by text message").held_back.best
    brought = {r.id: r.score for r in workspace.search("unlock by text message", include_archived=True).results}
    assert len(held) == 2
    assert {match.id: match.score for match in held} == {match.id: brought[match.id] for match in held}
