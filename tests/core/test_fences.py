"""core/fences.py: one answer to what is code, whoever asks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import spec_kit_memory
from spec_kit_memory.core import fences
from spec_kit_memory.core.phrases import extract
from spec_kit_memory.core.structure import scan

SOURCE = Path(spec_kit_memory.__file__).parent


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a\n```\nb\n```\nc", {1, 2, 3}),
        ("~~~\n```\nb\n~~~\nc", {0, 1, 2, 3}),
        ("````\n```\nb\n````\nc", {0, 1, 2, 3}),
        ("```py\n```py\nb\n```\nc", {0, 1, 2, 3}),
        ("- ```sh\n  b\n  ```\nc", {0, 1, 2}),
        ("> ~~~\n> b\n> ~~~\nc", {0, 1, 2}),
        ("```a``` is a span\nb", set()),
        ("a\n```\nb", {1, 2}),
        ("`` b ``", set()),
    ],
)
def test_code_is_what_stands_between_a_fence_and_its_like(text: str, code: set[int]) -> None:
    assert fences.code_lines(text.split("\n")) == code


@pytest.mark.parametrize("text", ["a\n```\nb\n```\nc", "~~~\n```\nb\n~~~\nc", "- ```sh\n  b\n  ```\nc", "```\n````\nc"])
def test_the_structure_of_a_file_has_the_same_fences(text: str) -> None:
    lines = text.split("\n")
    inside = {line - 1 for first, last in scan(lines).fences for line in range(first, last + 1)}
    assert inside == fences.code_lines(lines)


def test_back_quotes_within_tildes_do_not_turn_prose_into_code_for_phrases() -> None:
    text = "~~~\n```\n~~~\n\nThe quayside turnstile reads a harbour pass. The quayside turnstile is new.\n"
    assert any("turnstile" in phrase for phrase in extract(text, title="Gates"))


@pytest.mark.parametrize("text", ["a", "```", "a ```` b", "~~~", "`" * 12])
def test_a_text_that_is_put_into_a_fence_stays_in_it(text: str) -> None:
    lines = fences.fenced(text, language="text").split("\n")
    assert fences.code_lines(lines) == set(range(len(lines)))
    assert fences.code_lines([*lines, "after"]) == set(range(len(lines)))


def test_no_other_module_has_a_pattern_for_fences() -> None:
    homes = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "`{3,}" in node.value
    }
    # What a spoken turn begins with decides whether it needs a line of its own: a list, a table, a fence …
    assert homes <= {"core/fences.py", "core/passages.py"}
