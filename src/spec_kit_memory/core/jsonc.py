"""How is hand-written JSON parsed, and how is one entry added or removed without touching the rest?

Our own configuration may use all of JSON5: names without quotes, single quotes, hexadecimal numbers. Other programs'
files are parsed as those programs do: JSON with comments and trailing commas. Parsing takes linear time for any text,
since a configuration may come from an untrusted repository.

For edits, the text is parsed into nodes with their positions, and an edit is a cut or an insertion at a position:
comments, order of keys, trailing commas and spacing are preserved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import field
from functools import lru_cache
from typing import Any

from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.patterns import Pattern
from spec_kit_memory.core.text_encoding import MARK

Path = Sequence[str]


@dataclass(frozen=True, slots=True)
class _Grammar:
    """Patterns for blanks and comments, strings, names without quotes (None: not allowed), numbers and constants."""

    space: Pattern
    string: Pattern
    name: Pattern | None
    word: Pattern


# Possessive repetitions (`*+`, `++`) never backtrack, so that hostile text cannot make a pattern slow.
_JSONC = _Grammar(
    space=Pattern(r"(?:[ \t\r\n\ufeff]++|//[^\n]*+|/\*(?>.*?\*/))*+", re.DOTALL),
    string=Pattern(r'"(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*+"'),
    name=None,
    word=Pattern(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null"),
)
_JSON5 = _Grammar(
    space=Pattern(r"(?:[\s\ufeff]++|//[^\n\r\u2028\u2029]*+|/\*(?>.*?\*/))*+", re.DOTALL),
    string=Pattern(
        r"'(?:[^'\\\n\r]++|\\(?:\r\n|.))*+'|" r'"(?:[^"\\\n\r]++|\\(?:\r\n|.))*+"',
        re.DOTALL,
    ),
    name=Pattern(r"(?:[^\W\d]|\$|\\u[0-9a-fA-F]{4})(?:[\w$\u200c\u200d]|\\u[0-9a-fA-F]{4})*+"),
    word=Pattern(
        r"(?:[+-]?(?:0[xX][0-9a-fA-F]++|(?:(?:0|[1-9][0-9]*+)(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?"
        r"|Infinity|NaN)|true|false|null)(?![\w$.])"
    ),
)
_ESCAPE = Pattern(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|0(?![0-9])|[^ux0-9]))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"} | dict.fromkeys(
    ("\r\n", "\n", "\r", "\u2028", "\u2029"), ""
)
_CONSTANTS = {"true": True, "false": False, "null": None}
_DEEPEST = 200


class Malformed(ValueError):  # noqa: N818 - named after what it is
    """The text is not JSON with comments. The message says where."""


@dataclass(frozen=True, slots=True)
class Member:
    key: str
    start: int  # of the key; for an item of an array, of its value
    node: Node


@dataclass(frozen=True, slots=True)
class Node:
    kind: str  # "object", "array" or "value"
    start: int
    end: int
    value: Any
    members: tuple[Member, ...] = field(default=())

    def member(self, key: str) -> Member | None:
        # Of two equal keys, JSON parsers use the last.
        return next((member for member in reversed(self.members) if member.key == key), None)


# --- reading ---------------------------------------------------------------------------------


def read(text: str) -> Any:
    """The value of the text, which may be JSON5. Raises Malformed with line and column."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # not plain JSON, or nested too deep: our own parser decides
        return _root(text, _JSON5).value


# A host's file may have megabytes, and one edit parses the same text several times.
@lru_cache(maxsize=4)
def parse(text: str) -> Node:
    """The root node of another program's file, for edits. Raises Malformed with line and column."""
    return _root(text, _JSONC)


def is_blank(text: str) -> bool:
    """Is the text empty but for white space and comments?"""
    return _skip(text, 0) == len(text)


def _root(text: str, grammar: _Grammar) -> Node:
    node = _value(text, _skip(text, 0, grammar), 0, grammar)
    end = _skip(text, node.end, grammar)
    if end != len(text):
        raise _malformed(text, end, "text after the end")
    return node


def _malformed(text: str, at: int, what: str) -> Malformed:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    return Malformed(f"{what} at line {line}, column {column}")


def _skip(text: str, at: int, grammar: _Grammar = _JSONC) -> int:
    match = grammar.space.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int, depth: int, grammar: _Grammar) -> Node:
    if depth > _DEEPEST:
        raise _malformed(text, at, "nesting too deep")
    opening = text[at : at + 1]
    if opening == "{":
        return _container(text, at, depth, grammar, closing="}")
    if opening == "[":
        return _container(text, at, depth, grammar, closing="]")
    if string := grammar.string.match(text, at):
        return Node("value", at, string.end(), _unquoted(text, string))
    word = grammar.word.match(text, at)
    if word is None:
        raise _malformed(text, at, "a string without its end" if opening in ('"', "'") else "a value is missing")
    return Node("value", at, word.end(), _scalar(text, word))


def _unquoted(text: str, match: re.Match[str]) -> str:
    """The text of a string or a name, with its escapes resolved."""
    inner = match.group()
    inner = inner[1:-1] if inner[0] in "\"'" else inner
    if "\\" not in inner:
        return inner
    parts: list[str] = []
    at = 0
    while (slash := inner.find("\\", at)) >= 0:
        escape = _ESCAPE.match(inner, slash)
        if escape is None:
            raise _malformed(text, match.start() + slash + 1, "a bad escape")
        code, sign = escape[1] or escape[2], escape[3]
        parts += (inner[at:slash], chr(int(code, 16)) if code else _ESCAPED.get(sign, sign))
        at = escape.end()
    resolved = "".join((*parts, inner[at:]))
    # Two escapes that form a surrogate pair become one character, as in JSON.
    return resolved.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _scalar(text: str, match: re.Match[str]) -> Any:
    word = match.group()
    if word in _CONSTANTS:
        return _CONSTANTS[word]
    sign, digits = (-1 if word[0] == "-" else 1), word.lstrip("+-")
    try:
        if digits[:2] in ("0x", "0X"):
            return sign * int(digits, 16)
        return sign * (int(digits) if digits.isdecimal() else float(digits))
    except ValueError as error:  # more digits than int() accepts
        raise _malformed(text, match.start(), "a bad number") from error


def _container(text: str, start: int, depth: int, grammar: _Grammar, *, closing: str) -> Node:
    kind = "object" if closing == "}" else "array"
    members: list[Member] = []
    at = _skip(text, start + 1, grammar)
    while text[at : at + 1] != closing:
        begin, key = at, ""
        if kind == "object":
            name = grammar.string.match(text, at) or (grammar.name.match(text, at) if grammar.name else None)
            if name is None:
                raise _malformed(text, at, "a key is missing")
            key = _unquoted(text, name)
            at = _skip(text, name.end(), grammar)
            if text[at : at + 1] != ":":
                raise _malformed(text, at, "a colon is missing")
            at = _skip(text, at + 1, grammar)
        node = _value(text, at, depth + 1, grammar)
        members.append(Member(key, begin, node))
        at = _skip(text, node.end, grammar)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1, grammar)
        elif text[at : at + 1] != closing:
            raise _malformed(text, at, f"a comma or {closing} is missing")
    value: Any = (
        {member.key: member.node.value for member in members}
        if kind == "object"
        else [member.node.value for member in members]
    )
    return Node(kind, start, at + 1, value, tuple(members))


def find(root: Node, path: Sequence[str | int]) -> Node | None:
    """The node at a path of keys and array indexes, or None."""
    node: Node | None = root
    for key in path:
        node = _inner(node, key) if node is not None else None
    return node


def _inner(node: Node, key: str | int) -> Node | None:
    if isinstance(key, int):
        return node.members[key].node if node.kind == "array" and key < len(node.members) else None
    member = node.member(key) if node.kind == "object" else None
    return member.node if member else None


# --- writing ---------------------------------------------------------------------------------


def put(text: str, path: Path, value: Any) -> str:
    """Set the member at `path`; missing objects on the way are created."""
    root = parse(text)
    for depth in range(len(path), 0, -1):
        parent = find(root, path[: depth - 1])
        if parent is None:
            value = {path[depth - 1]: value}
            continue
        if parent.kind != "object":
            raise Malformed(f"{'.'.join(path[: depth - 1]) or 'the file'} is not an object")
        member = parent.member(path[depth - 1])
        if member is None:
            return _insert(text, parent, f"{_dumps(path[depth - 1])}: ", value)
        new_text = _pretty(value, _unit(text), _indent_at(text, member.start), _newline(text))
        return text[: member.node.start] + new_text + text[member.node.end :]
    raise Malformed("the file is not an object")


def append(text: str, path: Path, value: Any) -> str:
    """Append an item to the array at `path`, which is created if it is missing."""
    array = find(parse(text), path)
    if array is None:
        return put(text, path, [value])
    if array.kind != "array":
        raise Malformed(f"{'.'.join(path)} is not an array")
    return _insert(text, array, "", value)


def remove(text: str, path: Path) -> str:
    """Remove the member at `path`, including duplicates; without such a member the text is unchanged."""
    while True:
        parent = find(parse(text), path[:-1])
        member = parent.member(path[-1]) if parent is not None and parent.kind == "object" else None
        if parent is None or member is None:
            return text
        text = _cut(text, parent, member)


def remove_item(text: str, path: Sequence[str | int], index: int) -> str:
    array = find(parse(text), path)
    assert array is not None
    return _cut(text, array, array.members[index])


def _insert(text: str, parent: Node, label: str, value: Any) -> str:
    newline, unit = _newline(text), _unit(text)
    if not parent.members:
        outer = _indent_at(text, parent.start)
        line = outer + unit + label + _pretty(value, unit, outer + unit, newline)
        closing = parent.end - 1
        line_start = text.rfind("\n", 0, closing) + 1
        if line_start > parent.start and not text[line_start:closing].strip():
            return text[:line_start] + line + newline + text[line_start:]
        return text[:closing] + newline + line + newline + outer + text[closing:]
    first, last = parent.members[0], parent.members[-1]
    after = _skip(text, last.node.end)
    comma = text[after : after + 1] == ","
    if "\n" not in text[parent.start : first.start]:
        # The container is written on one line, so the new entry is added to that line.
        at = after + 1 if comma else last.node.end
        entry = " " + label + _dumps(value)
        return text[:at] + (entry + "," if comma else "," + entry) + text[at:]
    indent = _indent_at(text, first.start)
    line = newline + indent + label + _pretty(value, unit, indent, newline)
    end = _line_end(text, after + 1 if comma else last.node.end, parent.end - 1)
    if comma:
        return text[:end] + line + "," + text[end:]
    return text[: last.node.end] + "," + text[last.node.end : end] + line + text[end:]


def _line_end(text: str, at: int, limit: int) -> int:
    """The position after a comment that follows on the same line; `at` if there is none."""
    match = re.compile(r"[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)?").match(text, at)
    end = match.end() if match else at
    rest = text[at:end]
    return end if end <= limit and rest.strip() else at


def _cut(text: str, parent: Node, member: Member) -> str:
    index = next(i for i, other in enumerate(parent.members) if other is member)
    after = _skip(text, member.node.end)
    comma = text[after : after + 1] == ","
    end = after + 1 if comma else member.node.end
    start = member.start
    line_start = text.rfind("\n", 0, start) + 1
    rest = re.compile(r"[ \t]*(\r?\n)").match(text, end)
    if line_start > parent.start and not text[line_start:start].strip() and rest:
        start, end = line_start, rest.end()
    elif index == 0:
        blanks = re.compile(r"[ \t]*").match(text, end)
        end = blanks.end() if blanks and comma else end
    else:
        start -= len(text[:start]) - len(text[:start].rstrip(" \t"))
    text_without = text[:start] + text[end:]
    if comma or index == 0:
        return text_without
    # It was the last member: remove the comma before it too, but keep comments between the two.
    at = _skip(text, parent.members[index - 1].node.end)
    return text_without[:at] + text_without[at + 1 :]


def _pretty(value: Any, unit: str, indent: str, newline: str) -> str:
    lines = json.dumps(value, indent=unit, ensure_ascii=False).split("\n")
    return (newline + indent).join(lines)


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, at: int) -> str:
    """The indentation of the line at this position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))].lstrip(MARK)


def _unit(text: str) -> str:
    """One level of the file's indentation."""
    match = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return "  " if match is None else "\t" if match[1].startswith("\t") else match[1][:8]
