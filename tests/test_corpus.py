"""Are the labelled corpora well formed? Floors on them mean nothing otherwise."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

CORPUS = Path(__file__).parent / "corpus"
EXAMPLE = Path(__file__).parents[1] / "examples" / "harbour-bikes"
SETS = ("notes", "languages")

# Words that say nothing about a subject; two texts may share them and still be about different things.
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a after all also an and any are as at be because been before both but by can did do does each for from get "
        "got had has have how i if in into is it its made make many much no not of on one only or our out over so some "
        "still than that the their them there these they this to until was we were what when where which who whose why "
        "will with would you your",
    )
)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def stem(word: str) -> str:
    for ending in ("ingly", "edly", "ing", "ed", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


def content_words(text: str) -> set[str]:
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {stem(word) for word in words if len(word) > 2 and word not in STOP_WORDS}


@pytest.mark.parametrize("name", SETS)
def test_every_line_has_exactly_the_documented_fields(name: str) -> None:
    for document in rows(CORPUS / name / "corpus.jsonl"):
        assert list(document) == ["group", "id", "session", "time", "speaker", "text"]
        assert document["text"].strip(), document["id"]
    for question in rows(CORPUS / name / "queries.jsonl"):
        assert list(question) == ["group", "id", "category", "text", "relevant"]
        assert question["text"].strip(), question["id"]


@pytest.mark.parametrize("name", SETS)
def test_ids_are_unique_and_answers_exist_in_the_question_s_group(name: str) -> None:
    documents = rows(CORPUS / name / "corpus.jsonl")
    questions = rows(CORPUS / name / "queries.jsonl")
    group_of = {document["id"]: document["group"] for document in documents}
    assert len(group_of) == len(documents)
    assert len({question["id"] for question in questions}) == len(questions)
    for question in questions:
        assert all(group_of[answer] == question["group"] for answer in question["relevant"]), question["id"]
        assert len(set(question["relevant"])) == len(question["relevant"]), question["id"]


def test_the_notes_are_large_and_varied_enough_for_floors() -> None:
    documents = rows(CORPUS / "notes" / "corpus.jsonl")
    kinds = Counter(question["category"] for question in rows(CORPUS / "notes" / "queries.jsonl"))
    assert len(documents) >= 150
    assert kinds.total() >= 100
    assert set(kinds) == {"exact", "paraphrase", "decision", "date", "multi", "negative"}
    assert min(kinds.values()) >= 10
    assert len({document["text"] for document in documents}) == len(documents)
    assert any(document["speaker"] for document in documents)


def test_notes_have_the_length_of_real_ones() -> None:
    for document in rows(CORPUS / "notes" / "corpus.jsonl"):
        if not document["speaker"]:
            assert 60 <= len(document["text"].split()) <= 200, document["id"]


def test_turns_of_a_conversation_are_in_order() -> None:
    turns: dict[str, list[str]] = {}
    for document in rows(CORPUS / "notes" / "corpus.jsonl"):
        if document["speaker"]:
            turns.setdefault(document["session"], []).append(document["time"])
    assert len(turns) == 5
    assert all(times == sorted(times) for times in turns.values())


def test_only_negative_questions_have_no_answer_and_only_multi_ones_need_several() -> None:
    for question in rows(CORPUS / "notes" / "queries.jsonl"):
        assert (question["category"] == "negative") == (not question["relevant"]), question["id"]
        if question["category"] == "multi":
            assert len(question["relevant"]) >= 2, question["id"]


def test_paraphrases_share_no_content_word_with_their_answer() -> None:
    text_of = {document["id"]: document["text"] for document in rows(CORPUS / "notes" / "corpus.jsonl")}
    for question in rows(CORPUS / "notes" / "queries.jsonl"):
        if question["category"] == "paraphrase":
            for answer in question["relevant"]:
                shared = content_words(question["text"]) & content_words(text_of[answer])
                assert not shared, (question["id"], shared)


def test_five_languages_have_documents_and_questions_each() -> None:
    documents = Counter(document["id"][:2] for document in rows(CORPUS / "languages" / "corpus.jsonl"))
    questions = Counter(question["category"] for question in rows(CORPUS / "languages" / "queries.jsonl"))
    assert set(documents) == set(questions) == {"zh", "ja", "ru", "ar", "es"}
    assert min(documents.values()) >= 8
    assert min(questions.values()) >= 4


def test_changed_knowledge_names_files_that_say_so_themselves() -> None:
    workspace = CORPUS / "changed" / "workspace"
    kinds = Counter[str]()
    for question in rows(CORPUS / "changed" / "questions.jsonl"):
        assert list(question) == ["id", "category", "text", "winner", "superseded", "contradicts"]
        kinds[question["category"]] += 1
        older, opposed = question["superseded"], question["contradicts"]
        assert bool(older) == (question["category"] == "update"), question["id"]
        assert bool(opposed) == (question["category"] == "contradiction"), question["id"]
        for path in (question["winner"], *older, *opposed):
            assert (workspace / path).is_file(), path
        if older:
            assert "  supersedes:\n" in (workspace / question["winner"]).read_text(encoding="utf-8")
        for path in opposed:
            assert "  contradicts:\n" in (workspace / path).read_text(encoding="utf-8")
    assert kinds["update"] >= 10
    assert kinds["contradiction"] >= 3
    assert kinds["history"] >= 3


def test_a_superseding_memory_is_dated_after_what_it_supersedes() -> None:
    workspace = CORPUS / "changed" / "workspace"

    def created(path: str) -> str:
        match = re.search(r"^created: (\S+)$", (workspace / path).read_text(encoding="utf-8"), re.MULTILINE)
        assert match is not None, path
        return match[1]

    for question in rows(CORPUS / "changed" / "questions.jsonl"):
        assert all(created(path) < created(question["winner"]) for path in question["superseded"]), question["id"]


def test_questions_on_the_example_name_files_of_the_example() -> None:
    questions = rows(CORPUS / "example" / "questions.jsonl")
    assert len(questions) >= 20
    for question in questions:
        assert list(question) == ["id", "category", "text", "relevant"]
        assert all((EXAMPLE / path).is_file() for path in question["relevant"]), question["id"]


def test_the_table_of_the_corpora_gives_their_true_sizes() -> None:
    readme = (CORPUS / "README.md").read_text(encoding="utf-8")
    for name in SETS:
        sizes = [len(rows(CORPUS / name / file)) for file in ("corpus.jsonl", "queries.jsonl")]
        assert re.search(rf"`{name}/`.*\| {sizes[0]} \| {sizes[1]} \|", readme), (name, sizes)
    files = len(list((CORPUS / "changed" / "workspace").rglob("*.md")))
    count = len(rows(CORPUS / "changed" / "questions.jsonl"))
    assert re.search(rf"`changed/`.*\| {files} \| {count} \|", readme), (files, count)
