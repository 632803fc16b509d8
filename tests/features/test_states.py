"""Which states does a search show, and what does it say of those that it holds back?"""

from __future__ import annotations

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
    assert any("includeArchived" in hint for hint in answer.hints)
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
    assert answer.hints[-1] == "older matches were held back; minState=DORMANT brings dormant ones"
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
