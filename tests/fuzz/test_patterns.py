"""Does every regular expression of the package take time that grows with the text, and not with its square?

The source is read for patterns and for how each is used; for every repetition in a pattern a text is made that goes
into it again and again and then does not fit. Four times the text takes a linear pattern four times as long, and one
that grows with the square sixteen times: it is the ratio that decides, not the speed of the machine. A busy machine can
spoil one measurement, so a pattern is called slow only when every one of several says so.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import re
import re._constants as constants  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import spec_kit_memory
from spec_kit_memory.core.patterns import Pattern

SOURCE = Path(spec_kit_memory.__file__).parent
# Each length only if the one before was quick: some patterns double their time with every character.
LENGTHS = (16, 22, 28, 34, 40, 48, 60, 250, 1_000, 4_000)
HOPELESS_SECONDS = 0.5
# The square of four thousand steps takes every machine longer than this; what takes less need not be compared.
LONG_TEXT, WORTH_COMPARING_SECONDS = 16_000, 0.001
LINEAR_GROWTH, SQUARE_GROWTH = LONG_TEXT / LENGTHS[-1], (LONG_TEXT / LENGTHS[-1]) ** 2
MOST_GROWTH = (LINEAR_GROWTH * SQUARE_GROWTH) ** 0.5
MEASUREMENTS = 8
AT_A_PLACE = {"match", "fullmatch"}
ANYWHERE = {"search", "sub", "subn", "finditer", "findall", "split"}
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
            method = _made_by(node)
            if not isinstance(node, ast.Call) or method is None:
                continue
            read = _evaluated(module, node)
            if read is None:
                continue  # made of parts by a function: looked for among what modules keep
            name = names.get(id(node), "")
            called = {chained[id(node)]} if id(node) in chained else set()
            called |= methods().get((module, name), set()) | methods().get(("", name), set())
            # One in a table is taken out of it before it is used; tables of ours are for places in a text.
            how = {method} if method != "compile" else called or AT_A_PLACE
            yield Used(f"{module} {name}" if name else f"{module}:{node.lineno}", *read, frozenset(how))


def kept_patterns() -> Iterator[Used]:
    """Those that functions made when their module was loaded, wherever they are kept."""
    for module in trees():
        for value in list(vars(_loaded(module)).values()):
            for pattern in _patterns_in(value, depth=4):
                yield Used(f"{module} {pattern[0][:60]}", *pattern, frozenset({"match"}))


def _patterns_in(value: object, *, depth: int) -> Iterator[tuple[str, int]]:
    if isinstance(value, re.Pattern):
        if isinstance(value.pattern, str):
            yield value.pattern, value.flags & ~re.UNICODE
    elif isinstance(value, Pattern):
        yield value.source, int(value.flags)
    elif depth and isinstance(value, list | tuple | set | frozenset | Mapping):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _patterns_in(item, depth=depth - 1)
    elif depth and dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _patterns_in(getattr(value, field.name, None), depth=depth - 1)


def _loaded(module: str) -> ModuleType:
    return importlib.import_module(
        ".".join(("spec_kit_memory", *Path(module).with_suffix("").parts)).removesuffix(".__init__")
    )


def _made_by(node: ast.AST) -> str | None:
    """How a pattern is made here: the function of `re`, or "compile" where it is kept; None for what is none."""
    if not (isinstance(node, ast.Call) and node.args):
        return None
    function = ast.unparse(node.func)
    if function == "Pattern":  # of ours, compiled when it is first used
        return "compile"
    method = function.removeprefix("re.")
    return method if function != method and method in AT_A_PLACE | ANYWHERE | {"compile"} else None


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
    known = vars(_loaded(module))
    compiled = _made_by(node) == "compile"
    flags = [
        *(node.args[1:] if compiled else []),
        *(keyword.value for keyword in node.keywords if keyword.arg == "flags"),
    ]
    try:
        pattern = eval(compile(ast.Expression(node.args[0]), module, "eval"), known)
        number = sum(int(eval(compile(ast.Expression(flag), module, "eval"), known)) for flag in flags)
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


def repeated(start: str, unit: str, end: str, length: int) -> str:
    return (start + unit * (length // len(unit) + 1))[:length] + end


def slowest(used: Used) -> str:
    pattern = re.compile(used.pattern, used.flags)

    def work(text: str) -> None:
        for method in used.methods & AT_A_PLACE:
            getattr(pattern, method)(text)
        if used.methods & ANYWHERE:
            for _ in pattern.finditer(text):
                pass

    def growth(shorter: str, longer: str) -> float:
        """The least growth that was measured, at most `MEASUREMENTS` times: one that is small enough settles it."""
        least = SQUARE_GROWTH
        for _ in range(MEASUREMENTS):
            least = min(least, min(seconds(work, longer) for _ in range(2)) / max(seconds(work, shorter), 1e-9))
            if least <= MOST_GROWTH:
                break
        return least

    for start, unit, end in hostile(used):
        for length in LENGTHS:
            text = repeated(start, unit, end, length)
            took = seconds(work, text)
            if took > HOPELESS_SECONDS and min(seconds(work, text) for _ in range(2)) > HOPELESS_SECONDS:
                return f"{text[:40]!r} … {text[-10:]!r}, {length} characters"
        longer = repeated(start, unit, end, LONG_TEXT)
        if took > WORTH_COMPARING_SECONDS and (times := growth(text, longer)) > MOST_GROWTH:
            return f"{text[:40]!r} … {text[-10:]!r}, four times as long: {times:.0f} times"
    return ""


def test_no_pattern_takes_time_with_the_square_of_a_text() -> None:
    read = list(used_patterns())
    known_texts = {used.pattern for used in read}
    kept = {used.pattern: used for used in kept_patterns() if used.pattern not in known_texts}
    patterns = [*read, *kept.values()]
    assert len(read) > 150
    assert len(kept) > 10
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
