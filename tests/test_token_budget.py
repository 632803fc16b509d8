"""Does packing get more through a small budget than plain lists do? On the labelled notes, with the bundled model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.retrieval import Options, Row, Shelf, rows_of
from benchmarks.tokens import AMPLE, BUDGETS, Figures, Library, ask, greedy, headers_of, passages_of

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
            library = Library(shelf.workspace, shelf._places)
            for question in rows_of(NOTES, "queries"):
                if question["group"] == group and question["relevant"]:
                    ask(library, question, made)
    return made


@pytest.mark.parametrize("way", ["top passages", "whole files"])
@pytest.mark.parametrize("budget", BUDGETS)
def test_packing_gets_at_least_as_much_through_as_a_plain_list(figures: Figures, budget: int, way: str) -> None:
    at = BUDGETS.index(budget)
    assert figures.mean("packed")[at] >= figures.mean(way)[at] - 1e-9


@pytest.mark.parametrize("place", range(len(BUDGETS)))
def test_no_answer_is_over_its_budget(figures: Figures, place: int) -> None:
    assert max(figures.used[place]) <= BUDGETS[place]


def test_a_plain_list_takes_what_fits_and_passes_over_the_rest() -> None:
    items = [({"text": "x" * size}, ("a", size, size)) for size in (30, 900, 20)]
    assert greedy(items, 40) == [("a", 30, 30), ("a", 20, 20)]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    texts = {
        "plain": "The relay opens after four minutes.",
        "grave": "---\nimportance_tier: critical\n---\nThe relay must never be bridged.",
    }
    documents = [{"group": "one", "id": name, "text": text} for name, text in texts.items()]
    shelf = Shelf(tmp_path, documents, Options(mode="text"))
    with shelf.workspace:
        shelf.fill()
        yield Library(shelf.workspace, shelf._places)


def test_measuring_counts_as_no_use_of_what_it_reads(library: Library) -> None:
    ask(library, {"text": "relay", "relevant": ["plain"]}, Figures("one"))
    library.workspace._runtime.flush()
    assert [card.access_count for card in library.workspace.list().memories] == [0, 0]


def test_a_plain_list_says_what_is_out_of_the_ordinary_as_packing_does(library: Library) -> None:
    flat = library.search("relay", max_tokens=AMPLE, group_by="passage")
    items = [item for item, _ in passages_of(flat, headers_of(library.search("relay", max_tokens=AMPLE)))]
    ordinary = {"path", "lines", "text", "score", "source"}
    assert sorted((set(item) - ordinary for item in items), key=len) == [set(), {"tier"}]


def test_where_any_answer_will_do_one_is_enough(library: Library) -> None:
    figures = Figures("one", budgets=(250,))
    for any_will_do in (True, False):
        ask(library, {"text": "relay", "relevant": ["plain", "nowhere"], "any": any_will_do}, figures)
    assert figures.recall["packed"] == [[1.0, 0.5]]
