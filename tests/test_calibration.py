"""Does match tell answers from what is only near? With the bundled model, on the labelled notes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.calibration import Asked, Corpus, ask, fit, tenths
from benchmarks.retrieval import Options, Shelf, rows_of
from spec_kit_memory.core import calibration
from spec_kit_memory.core.calibration import CLEAR, UNCLEAR
from spec_kit_memory.embed.local import LocalEmbedder

CORPUS = Path(__file__).parent / "corpus"
CURVE = calibration.CURVES[LocalEmbedder.name]

# Exchanges that the notes have nothing about.
ELSEWHERE = (
    "Which striker scored twice in the cup final?",
    "How many eggs go into a lemon tart for eight people?",
    "What did the treaty say about fishing rights in the fjord?",
    "Does magnesium lower the blood pressure of pregnant women?",
    "Which moon of Saturn has geysers?",
    "Who painted the ceiling of the opera house?",
    "When does the ferry to the island leave on Sundays?",
    "How do I prune an old apple tree in winter?",
    "What is the tax on inherited farmland?",
    "Who wrote the novel about the lighthouse keeper?",
    "Which wine goes with grilled octopus?",
    "How long do tortoises sleep underground?",
)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    documents = [item for item in rows_of(CORPUS / "notes", "corpus") if item["group"] == "notes"]
    made = Shelf(tmp_path_factory.mktemp("notes"), documents, Options(cache=tmp_path_factory.mktemp("cache")))
    with made.workspace:
        made.fill()
        yield made


@pytest.fixture(scope="module")
def corpus(shelf: Shelf) -> Corpus:
    made = Corpus("notes")
    for question in rows_of(CORPUS / "notes", "queries"):
        if question["group"] == "notes" and question["relevant"]:
            asked = ask(shelf.workspace, str(question["text"]), question["relevant"], shelf._places)
            made.own += [asked] if asked else []
    for text in ELSEWHERE:
        asked = ask(shelf.workspace, text, (), shelf._places)
        made.wrong += [asked] if asked else []
    return made


def matches(asked: Asked) -> list[float]:
    return [match for match in calibration.matches(CURVE, asked.rows) if match is not None]


def test_first_results_that_answer_have_half_or_more_though_some_share_no_word_with_their_question(
    corpus: Corpus,
) -> None:
    first = [matches(item)[0] for item in corpus.answered]
    assert len(first) > 90
    assert np.mean([match >= CLEAR for match in first]) >= 0.85
    assert np.median(first) > 0.9


def test_questions_that_the_notes_have_nothing_about_get_no_match(corpus: Corpus) -> None:
    best = [max(matches(item)) for item in corpus.wrong]
    assert len(best) == len(ELSEWHERE)
    assert sum(match <= UNCLEAR for match in best) >= 10


def test_the_better_the_match_the_more_often_a_result_is_right(corpus: Corpus) -> None:
    counts = tenths([corpus], CURVE)
    low, high = ([sum(item) for item in zip(*part, strict=True)] for part in (counts[:5], counts[5:]))
    assert high[1] / high[0] > 5 * low[1] / low[0]


def test_a_curve_can_be_fitted_on_any_labelled_set(corpus: Corpus) -> None:
    assert min(fit(corpus)[:3]) > 0


def test_an_answer_about_something_else_scores_low_whatever_is_used_or_important(shelf: Shelf) -> None:
    workspace = shelf.workspace
    question = ELSEWHERE[0]
    before = workspace.search(question)
    assert before.results[0].score <= 100 * UNCLEAR
    assert any("matches closely" in hint for hint in before.hints)
    for _ in range(30):
        workspace.load(before.results[0].id)
    workspace._runtime.flush()
    used = workspace.search(question, limit=9)
    assert used.results[0].score <= 100 * UNCLEAR
    assert not workspace.search(question, min_score=0.4).results


def test_the_first_result_scores_its_match_and_the_others_less(shelf: Shelf) -> None:
    question = next(item for item in rows_of(CORPUS / "notes", "queries") if item["category"] == "exact")
    answer = shelf.workspace.search(str(question["text"]), explain=True)
    first = answer.results[0]
    assert first.match is not None
    assert first.score == pytest.approx(100 * first.match, abs=0.6)
    assert [result.score for result in answer.results] == sorted(
        (result.score for result in answer.results), reverse=True
    )
    parts = {name: part for name, part in first.explain.items() if name not in ("score", "stages")}
    assert sum(parts.values()) == pytest.approx(first.explain["score"])


@pytest.mark.parametrize("how", [{"mode": "text"}, {"mode": "vector"}], ids=str)
def test_without_vectors_there_is_no_match(shelf: Shelf, how: dict[str, str]) -> None:
    answer = shelf.workspace.search("which decision was made about backups", **how)  # type: ignore[arg-type]
    assert [result.match is None for result in answer.results] == [how["mode"] == "text"] * len(answer.results)
