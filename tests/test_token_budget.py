"""Does packing get more through a small budget than plain lists do? On the labelled notes, with the bundled model."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from benchmarks.retrieval import Options, Row, Shelf, rows_of
from benchmarks.tokens import BUDGETS, Figures, Library, ask, greedy

NOTES = Path(__file__).parent / "corpus" / "notes"


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    made = Figures("notes")
    documents: dict[str, list[Row]] = defaultdict(list)
    for document in rows_of(NOTES, "corpus"):
        documents[str(document["group"])].append(document)
    options = Options(cache=tmp_path_factory.mktemp("cache"))
    for group, of in documents.items():
        shelf = Shelf(tmp_path_factory.mktemp(group), of, options)
        with shelf.workspace:
            shelf.fill()
            library = Library(shelf)
            for question in rows_of(NOTES, "queries"):
                if question["group"] == group and question["relevant"]:
                    ask(library, question, made)
    return made


@pytest.mark.parametrize("way", ["top passages", "whole files"])
@pytest.mark.parametrize("budget", [250, 1000])
def test_packing_gets_at_least_as_much_through_as_a_plain_list(figures: Figures, budget: int, way: str) -> None:
    at = BUDGETS.index(budget)
    assert figures.mean("packed")[at] >= figures.mean(way)[at] - 1e-9


@pytest.mark.parametrize("place", range(len(BUDGETS)))
def test_no_answer_is_over_its_budget(figures: Figures, place: int) -> None:
    assert max(figures.used[place]) <= BUDGETS[place]


def test_a_plain_list_takes_what_fits_and_passes_over_the_rest() -> None:
    items = [({"text": "x" * size}, ("a", size, size)) for size in (30, 900, 20)]
    assert greedy(items, 40) == [("a", 30, 30), ("a", 20, 20)]
