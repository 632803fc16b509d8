"""Advice is said to whom it is for: tools to a model, commands to a person, methods to Python."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from spec_kit_memory import requests
from spec_kit_memory.serve import messages
from spec_kit_memory.serve.tools import BY_NAME

SOURCE = Path(__file__).parents[2] / "src" / "spec_kit_memory"
# Programs of their own, whose tables and files have such names.
NOT_OURS = {"files/original_db.py"}


SAID = """
take it back with `undo()` | take it back with `skm undo` (for the user to run) | take it back with `skm undo`
`load(5, anchor_id='a')` | memory_load with memoryId 5 and anchorId a | `skm load 5 --anchor-id a`
`list(tier='normal')` names it | memory_list with tier normal names it | `skm list --tier normal` names it
run `index()` | run memory_index_scan | run `skm index`
run `index(rebuild=True)` | run `skm index --rebuild` (for the user to run) | run `skm index --rebuild`
`get('a b.md', '3-5')` | memory_get with path a b.md and lines 3-5 | `skm get 'a b.md' 3-5`
`trust(ID)` | `skm trust ID` (for the user to run) | `skm trust ID`
say `clear_existing=True` | say clearExisting: true | say --clear-existing
name one with `spec_folder` | name one with specFolder | name one with --spec-folder
`health(repair=True)` | memory_health with repair true | `skm health --repair`
`a.jsonc`, `foo(1)`, `x = [` stay | `a.jsonc`, `foo(1)`, `x = [` stay | `a.jsonc`, `foo(1)`, `x = [` stay
undo() without quotes | undo() without quotes | undo() without quotes
"""


@pytest.mark.parametrize(("text", "model", "person"), [line.split(" | ") for line in SAID.strip().splitlines()])
def test_a_call_is_spelled_as_its_reader_makes_it(text: str, model: str, person: str) -> None:
    assert messages.for_model(text) == model
    assert messages.for_person(text) == person


def test_what_is_no_verb_has_words_for_both() -> None:
    for code, (model, person) in messages.ADVICE.items():
        assert messages.for_model("Why.", advice=code) == f"Why. {model}"
        assert messages.for_person("Why.", advice=code) == f"Why. {person}"


def texts_below() -> list[tuple[str, str]]:
    """Every text of the rooms below this one, with its place."""
    found: list[tuple[str, str]] = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith("serve/") and place not in NOT_OURS:
            found += [
                (f"{place}:{node.lineno}", node.value)
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            ]
    return found


def test_nothing_below_the_edges_names_a_tool_or_a_command() -> None:
    verbs = {f"checkpoint_{verb}" for verb in ("create", "list", "restore", "delete", "diff")}
    tools = "|".join(sorted(set(BY_NAME) - verbs))
    commands = "|".join(sorted({words.split()[0] for words in requests.BY_COMMAND} | {"init", "config", "serve"}))
    named = re.compile(rf"\b(?:{tools})\b|\bskm (?:{commands})\b")
    wrong = [f"{place}: {text[:80]!r}" for place, text in texts_below() if named.search(text)]
    assert not wrong, "\n".join(wrong)
