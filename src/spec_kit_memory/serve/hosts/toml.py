"""How is our server added to Codex's config.toml? As one table between two marker comments.

The file is edited as text, so that comments and layout stay; the markers let a later edit find our table again.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from spec_kit_memory.core.text_encoding import split_mark

BEGIN = "# spec-kit-memory begin: written by `skm install`"
END = "# spec-kit-memory end"

_BEGINS, _ENDS = re.compile(r"# spec-kit-memory begin\b"), re.compile(r"# spec-kit-memory end")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# tomllib takes quadratic time in the parts of a dotted key; no real configuration has this many.
MOST_DOTS = 1_000
# Each marker that looks like ours makes us parse the whole text once more.
MOST_MARKS = 20
_HEADER = re.compile(r"^[ \t]*\[")


class MalformedToml(ValueError):  # noqa: N818 - named after what it is
    """The text is not valid TOML, or contains our table in a form that cannot be edited as text."""


def parse(text: str) -> dict[str, Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MOST_DOTS:
            raise MalformedToml(f"line {number} has more than {MOST_DOTS:,} dots")
    try:
        return tomllib.loads(split_mark(text)[1])
    except tomllib.TOMLDecodeError as error:
        raise MalformedToml(str(error)) from error


def find(tree: Mapping[str, Any], path: Sequence[str]) -> Any:
    node: Any = tree
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def put(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    """Append the table at `path`, after removing an older one."""
    without = remove(text, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [BEGIN, f"[{'.'.join(path)}]", *(f"{key} = {_value(item)}" for key, item in value.items()), END, ""]
    gap = "" if not without else newline if without.endswith("\n") else newline * 2
    new_text = without + gap + newline.join(lines)
    _check(without, new_text, path, value)
    return new_text


def remove(text: str, path: Sequence[str]) -> str:
    """The text without the table at `path`, whether or not it is between our markers."""
    if find(parse(text), path) is None:
        return text
    without = _without_block(text, path)
    if find(parse(without), path) is not None:
        without = _without_table(without, path)
    _check(text, without, path, None)
    return without


def change(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    """Set keys of the existing table at `path`; its other keys stay."""
    tree = parse(text)
    lines = _LINE.findall(text)
    ours = _header_of(path, parts=False)
    start = next((number for number, line in enumerate(lines, start=1) if ours.match(line)), 0)
    newline = "\r\n" if "\r\n" in text else "\n"
    new_text = text
    for key, item in value.items() if start else ():
        at, count = _assignment(lines, start, key)
        lines[at : at + count] = [f"{key} = {_value(item)}{newline}"]
        new_text = "".join(lines)
    _check(text, new_text, path, {**find(tree, path), **value})
    return new_text


def _assignment(lines: Sequence[str], start: int, key: str) -> tuple[int, int]:
    """The line that assigns a key, and over how many lines; `start` and 0 if the table does not have the key."""
    assignment = re.compile(rf"[ \t]*(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')[ \t]*=")
    for first in range(start, len(lines)):
        if _HEADER.match(lines[first]):
            break
        if assignment.match(lines[first]):
            for count in range(1, len(lines) - first + 1):
                with suppress(tomllib.TOMLDecodeError):
                    tomllib.loads("".join(lines[first : first + count]))
                    return first, count
    return start, 0


def restored(text: str, path: Sequence[str], original: str) -> str:
    """Append the table at `path` exactly as the original has it; unchanged if the original has none."""
    table_lines = [line for line, ours in _marked(_without_block(original, path), path) if ours]
    value = find(parse(original), path)
    if value is None or not table_lines or find(parse(text), path) is not None:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    new_text = text + gap + "".join(table_lines)
    _check(text, new_text, path, value)
    return new_text


def _without_block(text: str, path: Sequence[str]) -> str:
    """Remove the text between our markers, and the empty line that was written before it.

    A string in the file may contain the same markers, so a removal counts only if it removes our table and nothing
    else.
    """
    lines = _LINE.findall(text)
    parsed = parse(text)
    table, tree = find(parsed, path), _pruned(parsed, path)
    starts = [number for number, line in enumerate(lines) if _BEGINS.match(line)]
    for start in starts[-MOST_MARKS:]:
        end = next((number for number in range(start, len(lines)) if _ENDS.match(lines[number])), None)
        first = start - 1 if start and lines[start - 1] in ("\n", "\r\n") else start
        without = "".join([*lines[:first], *lines[end + 1 :]]) if end is not None else text
        with suppress(MalformedToml):
            after = parse(without)
            if find(after, path) != table and _pruned(after, path) == tree:
                return without
    return text


def _without_table(text: str, path: Sequence[str]) -> str:
    return "".join(line for line, ours in _marked(text, path) if not ours)


def _header_of(path: Sequence[str], *, parts: bool = True) -> re.Pattern[str]:
    name = r"\s*\.\s*".join(rf"(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')" for key in path)
    return re.compile(rf"^[ \t]*\[\s*{name}\s*" + (r"(?:\.[^\]]*)?\]" if parts else r"\]"))


def _marked(text: str, path: Sequence[str]) -> list[tuple[str, bool]]:
    """Each line, and whether it belongs to the table at `path` or one of its subtables.

    A comment right before the next table belongs to that next table.
    """
    header = _header_of(path)
    lines: list[tuple[str, bool]] = []
    inside, trailing = False, 0  # `trailing`: number of trailing comment and blank lines of our table so far
    for line in _LINE.findall(text):
        if _HEADER.match(line):
            was_inside, inside = inside, bool(header.match(line))
            if was_inside and not inside and trailing:
                lines[-trailing:] = [(comment, False) for comment, _ in lines[-trailing:]]
        blank, comment_line = not line.strip(), line.lstrip().startswith("#")
        trailing = trailing + 1 if comment_line or (blank and trailing) else 0
        lines.append((line, inside))
    return lines


def _check(before: str, after: str, path: Sequence[str], value: Mapping[str, Any] | None) -> None:
    """Refuse an edit that changed anything but the value at `path`, and say which form of TOML is in the way."""
    try:
        tree = parse(after)
    except MalformedToml:
        tree = {}
    if _pruned(tree, path) != _pruned(parse(before), path) or find(tree, path) != value:
        raise MalformedToml(_obstacle(before, path))


def _obstacle(text: str, path: Sequence[str]) -> str:
    """What at `path`, or above it, cannot be edited as text, and how to write it so that it can."""
    tree = parse(text)
    for depth in range(1, len(path) + 1):
        name, table = ".".join(path[:depth]), find(tree, path[:depth])
        if table is None:
            break
        advice = f"write it as [{name}]" if depth == len(path) else f"write each entry as a table, [{name}.NAME]"
        if not isinstance(table, dict):
            return f"{name} is not a table: {advice}"
        # No header can add to an inline table, but one can add to a table that dotted keys define.
        unused = "x" * (1 + max(map(len, table), default=0))
        if not _is_valid(f"{text}\n[{name}.{unused}]\n"):
            return (
                f"{name} is an inline table ({{…}}), which cannot be edited: {advice}"
                if table
                else f"{name} is an empty inline table ({{}}), to which nothing can be added: delete that line"
            )
    name = ".".join(path)
    return f"{name} is written in several parts (dotted keys), which cannot be edited: write it as one table, [{name}]"


def _is_valid(text: str) -> bool:
    with suppress(MalformedToml):
        parse(text)
        return True
    return False


def _pruned(tree: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(tree, default=str))
    parents = [copy]
    for key in path[:-1]:
        node = parents[-1].get(key)
        if not isinstance(node, dict):
            return copy
        parents.append(node)
    parents[-1].pop(path[-1], None)
    for key, parent in zip(reversed(path[:-1]), reversed(parents[:-1]), strict=True):
        if not parent[key]:
            del parent[key]
    return copy


def _value(value: Any) -> str:
    # JSON strings, numbers, booleans and arrays of these are valid TOML.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
