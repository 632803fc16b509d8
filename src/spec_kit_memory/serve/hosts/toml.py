"""How does our server stand in Codex's config.toml? As one table between two marks, which text edits find again."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["MalformedToml", "find", "parse", "put", "remove"]

BEGIN = "# spec-kit-memory begin: written by `skm install`"
END = "# spec-kit-memory end"

_BEGINS, _ENDS = re.compile(r"# spec-kit-memory begin\b"), re.compile(r"# spec-kit-memory end")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
# The standard library's reader takes the square of the parts of a dotted key, and no configuration has so many.
MOST_DOTS = 1_000
_HEADER = re.compile(r"^[ \t]*\[")


class MalformedToml(ValueError):  # noqa: N818 - named after what it is
    """The text is not TOML, or has our table in a form that a text edit cannot change."""


def parse(text: str) -> dict[str, Any]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > MOST_DOTS:
            raise MalformedToml(f"line {number} has more than {MOST_DOTS:,} dots")
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise MalformedToml(str(error)) from error


def find(tree: Mapping[str, Any], path: Sequence[str]) -> Any:
    node: Any = tree
    for key in path:
        node = node.get(key) if isinstance(node, dict) else None
    return node


def put(text: str, path: Sequence[str], value: Mapping[str, Any]) -> str:
    """Write the table at `path`, in the place of an older one or at the end."""
    without = remove(text, path)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = [BEGIN, f"[{'.'.join(path)}]", *(f"{key} = {_value(item)}" for key, item in value.items()), END, ""]
    gap = "" if not without else newline if without.endswith("\n") else newline * 2
    new_text = without + gap + newline.join(lines)
    _check(new_text, path, {**parse(without)}, value)
    return new_text


def remove(text: str, path: Sequence[str]) -> str:
    """The text without the table at `path`, whether it stands between our marks or not."""
    tree = parse(text)
    if find(tree, path) is None:
        return text
    without = _without_block(text)
    if find(parse(without), path) is not None:
        without = _without_table(without, path)
    _check(without, path, tree, None)
    return without


def _without_block(text: str) -> str:
    """What stands between our marks is taken out, with the empty line that was written before it."""
    lines_left: list[str] = []
    block_lines: list[str] = []
    for line in _LINE.findall(text):
        if not block_lines and not _BEGINS.match(line):
            lines_left.append(line)
            continue
        block_lines.append(line)
        if _ENDS.match(line):
            block_lines = []
            if lines_left and lines_left[-1] in ("\n", "\r\n"):
                lines_left.pop()
    return "".join([*lines_left, *block_lines])


def _without_table(text: str, path: Sequence[str]) -> str:
    name = r"\s*\.\s*".join(rf"(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')" for key in path)
    ours = re.compile(rf"^[ \t]*\[\s*{name}\s*(?:\.[^\]]*)?\]")
    lines_left, inside = [], False
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            inside = bool(ours.match(line))
        if not inside:
            lines_left.append(line)
    return "".join(lines_left)


def _check(text: str, path: Sequence[str], tree: Mapping[str, Any], value: Mapping[str, Any] | None) -> None:
    """An edit of text may only have changed what it was meant to change."""
    try:
        after = parse(text)
    except MalformedToml:
        after = {}
    if _pruned(after, path) != _pruned(tree, path) or find(after, path) != value:
        raise MalformedToml(f"{'.'.join(path)} stands there in a form that cannot be edited as text")


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
    # JSON's strings, numbers, booleans and arrays of these are TOML as well.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
