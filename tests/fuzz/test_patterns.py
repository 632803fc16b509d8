"""Does every regular expression of the package take time that grows with the text, and not with its square?

The source is read for patterns and for how each is used; for every repetition in a pattern a text is made that goes
into it again and again and then does not fit. Four thousand characters take a linear pattern well under a
millisecond, and one that grows with the square a hundred times that.
"""

from __future__ import annotations

import ast
import importlib
import re
import re._constants as constants  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import spec_kit_memory

SOURCE = Path(spec_kit_memory.__file__).parent
# Each length only if the one before was quick: some patterns double their time with every character.
LENGTHS = (16, 22, 28, 34, 40, 48, 60, 250, 1_000, 4_000)
MOST_SECONDS = 0.010
AT_A_PLACE = {"match", "fullmatch"}
ANYWHERE = {"search", "sub", "subn", "finditer", "findall", "split"}
# Made of parts that cannot be read from the source; each is tried by what uses it (see test_growth).
MADE_BY_CODE = {
    "core/ignore.py": "patterns of `exclude`: tests/core/test_ignore.py tries hostile ones",
    "core/ledger_operations.py": "sentences of our own ledger of version 1",
    "core/secret_formats.py": "one for each kind of secret: tried as redaction",
    "core/triggers.py": "classes of characters: tried as prompt",
    "core/words.py": "classes of characters: tried as index words and query",
    "serve/hosts/toml.py": "one key of a line: tried as host toml",
}
# Grow with the square, on texts that have an end.
SHORT_TEXTS = {
    "features/read.py _RANGE": "the parameter lines, of 64 characters",
    "serve/cli/interactive.py": "one argument of a command line",
}


@dataclass(frozen=True)
class Used:
    """A pattern, where it stands, and how it is used."""

    where: str
    pattern: str
    flags: int
    methods: frozenset[str]


@cache
def trees() -> dict[str, ast.Module]:
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "__main__.py"
    }


@cache
def methods() -> dict[tuple[str, str], set[str]]:
    """(module, name) -> what is called on that name, there or through the module."""
    found: dict[tuple[str, str], set[str]] = {}
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in AT_A_PLACE | ANYWHERE:
                on = node.value
                if isinstance(on, ast.Name):
                    found.setdefault((module, on.id), set()).add(node.attr)
                elif isinstance(on, ast.Attribute):
                    found.setdefault(("", on.attr), set()).add(node.attr)
    return found


def used_patterns() -> Iterator[Used]:
    for module, tree in trees().items():
        names, chained = _names(tree), _chained(tree)
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args):
                continue
            method = ast.unparse(node.func)[3:]
            if method not in AT_A_PLACE | ANYWHERE | {"compile"}:
                continue
            read = _evaluated(module, node)
            if read is None:
                assert module in MADE_BY_CODE, f"{module}:{node.lineno} makes a pattern that cannot be read from source"
                continue
            name = names.get(id(node), "")
            called = {chained[id(node)]} if id(node) in chained else set()
            called |= methods().get((module, name), set()) | methods().get(("", name), set())
            how = {method} if method != "compile" else called or AT_A_PLACE | ANYWHERE
            yield Used(f"{module} {name}" if name else f"{module}:{node.lineno}", *read, frozenset(how))


def _names(tree: ast.Module) -> dict[int, str]:
    """What a value is called: a variable, or an argument that becomes an attribute."""
    named = {
        id(node.value): target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return named | {id(node.value): node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg}


def _chained(tree: ast.Module) -> dict[int, str]:
    """What is called on a value right where it is made."""
    return {
        id(node.value): node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in AT_A_PLACE | ANYWHERE
    }


def _evaluated(module: str, node: ast.Call) -> tuple[str, int] | None:
    """The pattern and its flags, as the module has them."""
    dotted = ".".join(("spec_kit_memory", *Path(module).with_suffix("").parts)).removesuffix(".__init__")
    known = vars(importlib.import_module(dotted))
    compiled = node.func.attr == "compile"  # type: ignore[attr-defined]
    flags = [*(node.args[1:] if compiled else []), *(each.value for each in node.keywords if each.arg == "flags")]
    try:
        pattern = eval(compile(ast.Expression(node.args[0]), module, "eval"), known)
        number = sum(int(eval(compile(ast.Expression(each), module, "eval"), known)) for each in flags)
    except (NameError, AttributeError):
        return None
    return (pattern, number) if isinstance(pattern, str) else None


# --- texts that a pattern does not like ---------------------------------------------------------------

CATEGORIES = {"SPACE": " ", "DIGIT": "0", "WORD": "a", "NOT_SPACE": "a", "NOT_DIGIT": "a", "NOT_WORD": "-"}


def hostile(used: Used) -> Iterator[tuple[str, str, str]]:
    """How a text begins, what is repeated, and how it ends."""
    tree = parser.parse(used.pattern, used.flags)
    for before, bodies in repetitions(tree, ""):
        for body in bodies:
            # What may be anything may also be what the pattern begins with.
            again = body.replace("a", example(tree)[:1] or "a")
            for unit in dict.fromkeys((body, again, before + body)):
                for start in dict.fromkeys(("", before)):
                    for end in ("", "\0", "!", "\n", "a"):
                        yield start, unit, end


def repetitions(tree: Any, before: str) -> Iterator[tuple[str, list[str]]]:
    """What leads to each long repetition, and texts that it can repeat."""
    for operation, argument in tree:
        kind = str(operation)
        if kind.endswith("_REPEAT"):
            _, most, inner = argument
            if most is constants.MAXREPEAT or most > 200:
                yield before, alternatives(inner)
            yield from repetitions(inner, before)
        elif kind == "SUBPATTERN":
            yield from repetitions(argument[3], before)
        elif kind == "ATOMIC_GROUP":
            yield from repetitions(argument, before)
        elif kind == "BRANCH":
            for branch in argument[1]:
                yield from repetitions(branch, before)
        elif kind.startswith("ASSERT"):
            yield from repetitions(argument[1], before)
        before += example([(operation, argument)])


def alternatives(tree: Any) -> list[str]:
    found = [example(tree)]
    for operation, argument in tree:
        if str(operation) == "BRANCH":
            found += [example(branch) for branch in argument[1]]
        elif str(operation) == "IN" and str(argument[0][0]) != "NEGATE":
            found += [one_of([item]) for item in argument]
    return [text for text in dict.fromkeys(found) if text]


def example(tree: Any) -> str:
    """A text that fits, roughly: looking around and back is passed over."""
    parts = []
    for operation, argument in tree:
        kind = str(operation)
        if kind == "LITERAL":
            parts.append(chr(argument))
        elif kind == "NOT_LITERAL":
            parts.append("a" if argument != ord("a") else "b")
        elif kind == "ANY":
            parts.append("a")
        elif kind == "IN":
            parts.append(one_of(argument))
        elif kind.endswith("_REPEAT"):
            least, most, inner = argument
            parts.append(example(inner) * (least or min(most, 1)))
        elif kind == "SUBPATTERN":
            parts.append(example(argument[3]))
        elif kind == "ATOMIC_GROUP":
            parts.append(example(argument))
        elif kind == "BRANCH":
            parts.append(example(argument[1][0]))
    return "".join(parts)


def one_of(items: Any) -> str:
    if str(items[0][0]) == "NEGATE":
        return next(sign for sign in "ab0-_ .\n\"'/#é" if not any(fits(sign, item) for item in items[1:]))
    kind, argument = str(items[0][0]), items[0][1]
    if kind == "LITERAL":
        return chr(argument)
    return chr(argument[0]) if kind == "RANGE" else CATEGORIES[str(argument).removeprefix("CATEGORY_")]


def fits(sign: str, item: Any) -> bool:
    kind, argument = str(item[0]), item[1]
    if kind == "LITERAL":
        return ord(sign) == int(argument)
    if kind == "RANGE":
        return int(argument[0]) <= ord(sign) <= int(argument[1])
    name = str(argument).removeprefix("CATEGORY_")
    inside = {"SPACE": sign.isspace(), "DIGIT": sign.isdigit(), "WORD": sign.isalnum() or sign == "_"}
    return not inside[name.removeprefix("NOT_")] if name.startswith("NOT_") else inside[name]


# --- the measurement -----------------------------------------------------------------------------------


def seconds(work: Callable[[str], object], text: str) -> float:
    started = time.process_time()
    work(text)
    return time.process_time() - started


def slowest(used: Used) -> str:
    pattern = re.compile(used.pattern, used.flags)

    def work(text: str) -> None:
        for method in used.methods & AT_A_PLACE:
            getattr(pattern, method)(text)
        if used.methods & ANYWHERE:
            for _ in pattern.finditer(text):
                pass

    for start, unit, end in hostile(used):
        for length in LENGTHS:
            text = (start + unit * (length // len(unit) + 1))[:length] + end
            # Looked at again before it is believed: another program may have been in the way.
            if seconds(work, text) > MOST_SECONDS and min(seconds(work, text) for _ in range(3)) > MOST_SECONDS:
                return f"{text[:40]!r} … {text[-10:]!r}, {length} characters"
    return ""


def test_no_pattern_takes_time_with_the_square_of_a_text() -> None:
    patterns = list(used_patterns())
    assert len(patterns) > 150
    slow = {used.where: text for used in patterns if (text := slowest(used))}
    known = {where for where in slow if any(where.startswith(short) for short in SHORT_TEXTS)}
    assert {where: slow[where] for where in slow.keys() - known} == {}


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"<!--[ \t]*(/?)[ \t]*ANCHOR:", "match"),
        (r"(a+)+b", "match"),
        (r"\s*(?:x|y)$", "search"),
        (r"^\s*worktree\s*=\s*(.+?)\s*$", "match"),
        (r"(?:a|ab|b)*c", "match"),
        (r'"(?:[^"\\]|\\.)*"', "sub"),
        (r"[A-Za-z]\w*(?:[._-]\w+)*", "fullmatch"),
    ],
)
def test_the_search_for_slow_patterns_finds_them(pattern: str, method: str) -> None:
    assert slowest(Used("here", pattern, 0, frozenset({method}))) != ""


@pytest.mark.parametrize(
    "pattern", [r"<!--[ \t]*+(/?)[ \t]*+ANCHOR:", r"a+b", r"\d{1,9}-\d{1,9}", r"(?>.*?a)(?>.*?b)c"]
)
def test_and_leaves_others_alone(pattern: str) -> None:
    assert slowest(Used("here", pattern, 0, frozenset(AT_A_PLACE))) == ""
