"""Are the questions over real spec folders well formed, and do they keep their own rules?"""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath

import pytest

from benchmarks.questions import wording
from benchmarks.questions.__main__ import HERE, SETS, Outcome, Question, read_questions
from benchmarks.retrieval import help_for

QUESTIONS = {name: read_questions(name) for name in SETS}
PHRASINGS = HERE.parent / "phrasings"
ALL = [question for item in QUESTIONS.values() for question in item]


def named(question: Question) -> str:
    return question.text[:50]


def test_there_are_fifty_questions_and_at_least_thirty_held_out() -> None:
    assert len(QUESTIONS["fifty"]) == 50
    assert len(QUESTIONS["held-out"]) >= 30


def test_no_question_is_asked_twice_in_either_set() -> None:
    assert len({question.text.casefold() for question in ALL}) == len(ALL)


@pytest.mark.parametrize("question", ALL, ids=named)
def test_a_question_reads_as_one_and_says_how_it_was_judged(question: Question) -> None:
    assert question.text.endswith("?")
    assert question.text[0].isupper()
    assert 6 <= len(question.text.split()) <= 30
    assert question.note.strip()
    assert question.judgement.strip()


@pytest.mark.parametrize("question", ALL, ids=named)
def test_answers_are_distinct_memories_within_the_workspace(question: Question) -> None:
    assert question.paths
    assert list(question.paths) == sorted(set(question.paths))
    for path in map(PurePosixPath, question.paths):
        assert path.parts[0] == "specs"
        assert path.suffix == ".md"
        assert not {"..", "."} & set(path.parts)
        assert str(path) in question.paths, "written as it is compared"


@pytest.mark.parametrize("question", ALL, ids=named)
def test_a_question_does_not_name_the_folder_or_file_that_answers(question: Question) -> None:
    assert wording.names_used(question.text, question.paths) == set()


@pytest.mark.parametrize("question", ALL, ids=named)
def test_a_question_has_no_digits_paths_or_code(question: Question) -> None:
    assert not re.search(r"[0-9`_/\\<>{}]", question.text)


def test_shared_telling_words_are_the_rare_ones_of_the_nearest_answer() -> None:
    texts = {f"specs/{n}.md": "The memory index is common." for n in range(60)}
    texts["specs/1.md"] += " Herons were counting marmalades."
    texts["specs/2.md"] += " A heron."
    result = wording.shared([("Which memory counted a heron?", ["specs/1.md", "specs/2.md"])], texts)
    assert result == [wording.Shared("Which memory counted a heron?", ("count", "heron"))]


def test_a_question_without_an_indexed_answer_shares_nothing() -> None:
    assert wording.shared([("Which heron?", ["specs/gone.md"])], {"specs/a.md": "heron"})[0].words == ()


def test_names_are_found_in_folders_and_files_but_everyday_nouns_are_free() -> None:
    paths = ["specs/003-system/014-anchor-enforcement/memory/16-12-25__warning.md"]
    assert wording.names_used("Which memory has the anchor warning of enforcement?", paths) == {
        "warning",
        "enforcement",
    }


def test_a_question_counts_as_found_by_its_best_answer_within_the_first_five() -> None:
    question = Question("fifty-1", "Which?", ("specs/b.md", "specs/f.md"), "b", "both")
    assert question.place_in(["specs/a.md", "specs/b.md", "specs/f.md"]) == 2
    assert question.place_in(["specs/a.md"]) is None
    outcome = Outcome("fifty", "hybrid", True, places=[1, 5, 6, None])
    assert outcome.share(1) == 0.25
    assert outcome.share(5) == 0.5
    low, high = outcome.interval()
    assert 0 <= low < 0.5 < high <= 1


def test_texts_that_help_are_found_by_the_id_of_a_question_and_by_its_text() -> None:
    question = QUESTIONS["held-out"][3]
    assert question.id == "held-out-4"
    assert help_for({"held-out-4": ["by id"]}, question.id, question.text) == ["by id"]
    assert help_for({question.text: ["by text"]}, question.id, question.text) == ["by text"]
    assert help_for({"held-out-5": ["another"]}, question.id, question.text) == ()


@pytest.mark.parametrize("path", sorted(PHRASINGS.glob("*.json")), ids=lambda path: path.stem)
def test_phrasings_are_a_few_keywords_and_a_sentence_for_each_question(path: Path) -> None:
    texts = json.loads(path.read_text(encoding="utf-8"))
    assert len(texts) >= 25
    for keywords, sentence in texts.values():
        assert 2 <= len(keywords.split()) <= 16, keywords
        assert len(sentence.split()) >= 4, sentence
        assert sentence[-1] in ".!?", sentence


def test_every_question_about_spec_folders_has_phrasings_that_are_not_its_own_words() -> None:
    texts = json.loads((PHRASINGS / "spec_folders.json").read_text(encoding="utf-8"))
    assert texts.keys() == {question.id for question in ALL}
    assert not {question.text for question in ALL} & {text for pair in texts.values() for text in pair}
