"""Every tool that can answer at length keeps to a budget, and says what it left out."""

from __future__ import annotations

import pytest

from spec_kit_memory.core.memory import Event
from spec_kit_memory.serve import render
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place


@pytest.fixture
def large(place: Place) -> Workspace:
    phrases = ", ".join(f"phrase number {n} of some length" for n in range(8))
    for number in range(39):
        place.memory(
            f"n{number}",
            f"# Note {number}\n\nThe gateway of note {number} is discussed.",
            triggers=f"[{phrases}]",
            created="2026-01-02",
        )
    return place.open(model="none")


def test_the_history_of_a_workspace_fits_its_budget_and_counts_what_it_left_out(large: Workspace) -> None:
    for budget in (500, 1500, 4000):
        answer = large.history(max_tokens=budget)
        assert render.envelope(answer)["meta"]["tokens"] <= budget
        assert answer.counts["total"] == 39
        left = 39 - len(answer.entries)
        assert left > 0
        assert answer.hints == (f"{left} older changes did not fit the token budget; a larger `max_tokens` shows more",)
    assert render.envelope(large.history())["meta"]["tokens"] <= 4000
    assert len(large.history(max_tokens=100_000).entries) == 39
    assert large.history(max_tokens=100_000).hints == ()


def test_history_tells_what_changed_and_not_two_whole_states(large: Workspace) -> None:
    large.update(1, title="Another title")
    newest = large.history(1).entries[0]
    assert newest.event is Event.UPDATE
    assert newest.before is not None
    assert newest.after is not None
    assert newest.after["title"] == "Another title"
    assert set(newest.after) == set(newest.before)
    assert "trigger_phrases" not in newest.after
    assert "triggers" not in newest.after
    oldest = large.history(1).entries[-1]
    assert oldest.before is None
    assert oldest.after is not None
    assert None not in oldest.after.values()


def test_a_list_ends_where_its_budget_does_and_goes_on_from_there(large: Workspace) -> None:
    titles: list[str] = []
    while len(titles) < 39:
        answer = large.list(limit=100, offset=len(titles), max_tokens=1500)
        assert render.envelope(answer)["meta"]["tokens"] <= 1500
        assert answer.memories
        titles += [card.title for card in answer.memories]
        if len(titles) < 39:
            assert answer.hints[0] == f"{39 - len(titles)} more: `offset={len(titles)}`"
    assert len(set(titles)) == 39


def test_a_lineage_shows_the_nearest_within_its_budget(large: Workspace) -> None:
    for number in range(1, 39):
        large.link(number, number + 1, "caused", evidence="Because of what was said in the meeting about it.")
    answer = large.why(1, max_depth=10, max_tokens=1500)
    assert render.envelope(answer)["meta"]["tokens"] <= 1500
    assert 0 < len(answer.steps) < 10
    assert [step.depth for step in answer.steps] == list(range(1, len(answer.steps) + 1))
    assert answer.truncated
    assert f"{10 - len(answer.steps)} memories farther away did not fit" in answer.hints[0]
    ends = {end for step in answer.steps for end in (step.from_id, step.to_id)}
    assert {card.id for card in answer.memories} == ends
    assert len(large.why(1, max_depth=10, max_tokens=50_000).steps) == 10
