"""Is text in other languages found by its own words? Text leg only: the bundled model reads English."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.retrieval import Options, Row, Shelf, rows_of

LANGUAGES = Path(__file__).parent / "corpus" / "languages"
QUESTIONS = rows_of(LANGUAGES, "queries")


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """All languages in one workspace, so that none is found only because there is nothing else."""
    made = Shelf(tmp_path_factory.mktemp("languages"), rows_of(LANGUAGES, "corpus"), Options(mode="text"))
    made.fill()
    yield made
    made.workspace.close()


def found(shelf: Shelf, question: Row) -> list[str]:
    answer = shelf.workspace.search(str(question["text"]), group_by="passage", limit=10)
    return shelf.documents_of(answer.results)


@pytest.mark.parametrize("question", QUESTIONS, ids=[f"{item['category']}-{item['id']}" for item in QUESTIONS])
def test_a_question_finds_its_document_among_the_first_three(shelf: Shelf, question: Row) -> None:
    assert set(question["relevant"]) <= set(found(shelf, question)[:3])


@pytest.mark.parametrize("language", sorted({str(question["category"]) for question in QUESTIONS}))
def test_the_first_answer_is_nearly_always_the_right_one(shelf: Shelf, language: str) -> None:
    asked = [question for question in QUESTIONS if question["category"] == language]
    right = sum(found(shelf, item)[:1] == item["relevant"][:1] for item in asked)
    assert right >= len(asked) - 1
