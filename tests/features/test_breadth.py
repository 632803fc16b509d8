"""A default answer has every result that was asked for, and ends when enough is said."""

from __future__ import annotations

import pytest

from spec_kit_memory.answers import Result
from spec_kit_memory.serve import render
from tests.features.conftest import Place


@pytest.mark.parametrize("shape", ["paragraphs", "lines", "one line"])
def test_every_result_of_long_documents_comes_with_title_path_lines_and_text(place: Place, shape: str) -> None:
    between = {"paragraphs": "\n\n", "lines": "\n", "one line": " "}[shape]
    for number in range(14):
        message = between.join(
            f"The gateway limit of service {number} in region {n} is set by hand." for n in range(150)
        )
        place.memory(f"service{number}", f"# Service {number}\n\n{message}")
    answer = place.open().search("gateway limit of a service")
    assert len(answer.results) == 10
    shown = render.envelope(answer)
    for row in shown["data"]["results"]:
        assert row["title"].startswith("Service ")
        assert row["path"]
        assert row["lines"]
        assert "gateway" in row["text"]
    assert shown["meta"]["tokens"] <= 4000
    assert not any("did not fit" in hint for hint in answer.hints)


@pytest.mark.parametrize("group_by", ["memory", "passage"])
def test_a_title_that_ends_with_its_path_is_shown_without_it_and_stays_whole_elsewhere(
    place: Place, group_by: str
) -> None:
    place.memory("limits", "# Limits [memory/limits]\n\nThe gateway limit is ten requests.")
    workspace = place.open()
    answer = workspace.search("gateway limit", group_by=group_by)
    assert [result.title for result in answer.results] == ["Limits"]
    assert answer.results[0].path.endswith("memory/limits.md")
    assert "best: Limits (" in answer.summary
    assert workspace.load(answer.results[0].id).memory.title == "Limits [memory/limits]"


@pytest.mark.parametrize("budget", [1500, 2500, 4000])
def test_with_room_for_all_nobody_has_a_second_passage_before_everybody_has_a_first(place: Place, budget: int) -> None:
    for number in range(10):
        parts = "\n\n".join(f"## Part {n}\n\n" + f"The gateway limit, number {n}. " * 60 for n in range(6))
        place.memory(f"n{number}", f"# Note {number}\n\n{parts}")
    answer = place.open().search("gateway limit", max_tokens=budget)
    assert render.envelope(answer)["meta"]["tokens"] <= budget
    assert len(answer.results) == 10
    assert all(isinstance(result, Result) and result.text for result in answer.results)


def test_what_is_far_below_the_best_is_named_and_not_quoted(place: Place) -> None:
    place.memory("hit", "# Gateway\n\nThe gateway limit of the northern region is ten requests a second.")
    for number in range(6):
        place.memory(
            f"far{number}", f"# Far {number}\n\n" + f"Soup and bread on day {number}, with a gateway to it. " * 9
        )
    answer = place.open(model="none").search("gateway limit of the northern region, ten requests a second")
    best, *others = answer.results
    assert isinstance(best, Result)
    assert "ten requests" in best.text
    far = [other for other in others if other.score < 0.15 * best.score]
    assert far
    assert all(other.text == "" and other.title for other in far)


def test_without_a_budget_of_its_own_an_answer_is_not_filled_only_because_there_is_room(place: Place) -> None:
    for number in range(10):
        parts = "\n\n".join(f"## Part {n}\n\n" + f"The gateway limit, number {n}. " * 30 for n in range(20))
        place.memory(f"n{number}", f"# Note {number}\n\nThe gateway limit of note {number}.\n\n{parts}")
    workspace = place.open()
    plain, filled = (
        workspace.search("gateway limit", limit=3),
        workspace.search("gateway limit", limit=3, max_tokens=4000),
    )
    sizes = [render.envelope(answer)["meta"]["tokens"] for answer in (plain, filled)]
    assert sizes[0] <= 1800
    assert sizes[1] > 3000
    assert [result.id for result in plain.results] == [result.id for result in filled.results]
