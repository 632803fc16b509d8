"""Does newer knowledge win over what it replaced, and is a contradiction pointed out?"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.answers import Result
from spec_kit_memory.core.front_edit import edit_front_matter
from spec_kit_memory.settings import Settings
from spec_kit_memory.workspace import Workspace

CHANGED = Path(__file__).parent / "corpus" / "changed"
QUESTIONS = [json.loads(row) for row in (CHANGED / "questions.jsonl").read_text(encoding="utf-8").splitlines()]


def of_kind(category: str) -> pytest.MarkDecorator:
    chosen = [question for question in QUESTIONS if question["category"] == category]
    return pytest.mark.parametrize("question", chosen, ids=[question["id"] for question in chosen])


@pytest.fixture(scope="module", params=["plain", "with questions"])
def workspace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    root = tmp_path_factory.mktemp("changed").resolve()
    shutil.copytree(CHANGED / "workspace", root, dirs_exist_ok=True)
    if request.param == "with questions":
        for row in map(json.loads, (CHANGED / "own_questions.jsonl").read_text(encoding="utf-8").splitlines()):
            file = root / row["path"]
            text = edit_front_matter(file.read_text(encoding="utf-8"), {"questions": row["questions"]})
            file.write_text(text, encoding="utf-8")
    with Workspace(Settings(root=root, watch="off")) as opened:
        opened.index()
        yield opened


def results(workspace: Workspace, question: dict[str, Any], mode: str = "hybrid") -> dict[str, Result]:
    """By path, in the order of the answer."""
    found = workspace.search(question["text"], include_archived=True, mode=mode).results
    return {result.path: result for result in found if isinstance(result, Result)}


@pytest.mark.parametrize("mode", ["text", "hybrid"])
@of_kind("update")
def test_the_newer_memory_wins_and_the_older_names_its_successor(
    workspace: Workspace, question: dict[str, Any], mode: str
) -> None:
    result = results(workspace, question, mode)
    order = list(result)
    assert question["winner"] in order[:3]
    for path in question["superseded"]:
        if path in result:
            assert order.index(question["winner"]) < order.index(path)
            assert result[path].superseded_by
    direct = [path for path in question["superseded"] if path in result]
    assert any(result[question["winner"]].id in result[path].superseded_by for path in direct) or not direct


@of_kind("update")
def test_the_older_text_is_still_found_below(workspace: Workspace, question: dict[str, Any]) -> None:
    assert set(question["superseded"]) & set(results(workspace, question))


@of_kind("contradiction")
def test_both_sides_of_a_contradiction_are_shown_and_point_at_each_other(
    workspace: Workspace, question: dict[str, Any]
) -> None:
    result = results(workspace, question)
    winner = result[question["winner"]]
    for path in question["contradicts"]:
        assert winner.id in result[path].contradicts
        assert result[path].id in winner.contradicts


@of_kind("history")
def test_a_question_about_the_past_finds_what_is_old(workspace: Workspace, question: dict[str, Any]) -> None:
    assert question["winner"] in results(workspace, question)
