"""How English counts, and that nobody counts by hand."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from spec_kit_memory.core.wording import counted, title_beside_path

SOURCE = Path(__file__).parents[2] / "src" / "spec_kit_memory"


@pytest.mark.parametrize(
    ("count", "words", "told"),
    [
        (0, ("memory",), "0 memories"),
        (1, ("memory",), "1 memory"),
        (2, ("memory",), "2 memories"),
        (1, ("more rule",), "1 more rule"),
        (3, ("match is", "matches are"), "3 matches are"),
        (1, ("match is", "matches are"), "1 match is"),
        (2, ("match",), "2 matches"),
        (2, ("day",), "2 days"),
        (12_345, ("file",), "12,345 files"),
    ],
)
def test_a_number_has_its_noun(count: int, words: tuple[str, ...], told: str) -> None:
    assert counted(count, *words) == told


# Nouns that are counted for people; units of limits (characters, bytes, dimensions) are never one in practice.
NOUNS = """memories|files|links|entries|changes|passages|matches|sections|rules|tokens|validations|steps|checkpoints|
conversations|lines|problems|phrases|seconds|days|messages|turns|items|secrets|vectors|folders|warnings|settings|
concepts|sessions|rows|texts|events""".replace("\n", "")
PLURAL = re.compile(rf"^ (?:[a-z]+ ){{0,2}}?(?:{NOUNS})\b")


def test_nobody_counts_by_hand() -> None:
    """`{count} memories` is wrong for one of them: `counted` knows better."""
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                wrong += [f"{path.relative_to(SOURCE)}:{node.lineno}: {text}" for text in counted_by_hand(node)]
    assert not wrong, "\n".join(wrong)


def counted_by_hand(text: ast.JoinedStr) -> Iterator[str]:
    for value, after in itertools.pairwise(text.values):
        if isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant):
            said, rest = ast.unparse(value.value), str(after.value)
            counts = re.search(r"count|len\(|total|number|left|hidden|waiting|missing|lost", said)
            if counts and not said.startswith("counted(") and PLURAL.match(rest):
                yield f"{{{said}}}{rest}"


@pytest.mark.parametrize(
    ("title", "told"),
    [
        ("Plan of the gateway [007-auth/plan]", "Plan of the gateway"),
        ("Plan [plan]", "Plan"),
        ("Plan [draft]", "Plan [draft]"),
        ("Plan [007-auth]", "Plan [007-auth]"),
        ("Plan [008-pay/plan]", "Plan [008-pay/plan]"),
        ("[007-auth/plan]", "[007-auth/plan]"),
        ("Plan]", "Plan]"),
        ("", ""),
    ],
)
def test_a_title_next_to_its_path_does_not_repeat_it(title: str, told: str) -> None:
    assert title_beside_path(title, "specs/007-auth/memory/plan.md") == told
