"""Does a `.gitignore` list match this path? With git's semantics, and without exponential backtracking.

A list may come from an untrusted repository, so matching `*a*a*a*a*ab` must not backtrack. The text between two
stars is matched at the first place where it fits. That is sufficient because a star matches anything: if the rest of
the pattern does not fit after the first place, it does not fit after a later one either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_FOLDERS_KEPT = 4096
_ANY = "[^/]"


class _NeverMatches(ValueError):  # noqa: N818 - named after what it means
    """A pattern that git treats as invalid: it matches nothing."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    negated: bool
    folders_only: bool
    by_name: bool  # matched against the last segment only


class Ignore:
    """A list of patterns. Paths are relative, with `/` between segments, and those of folders end with `/`."""

    def __init__(self, lines: Iterable[str]) -> None:
        # The last matching rule decides, so an earlier duplicate has no effect.
        rules = dict.fromkeys(reversed(list(lines)))
        self._rules = tuple(rule for line in rules if (rule := _rule(line)))
        self._folders: dict[str, bool] = {}  # cached, since all files of a folder check the same parent folders

    def __call__(self, path: str) -> bool:
        folder = path.endswith("/")
        above, _, name = path.rstrip("/").rpartition("/")
        if folder:
            return self._folder_is_named(path.rstrip("/"))
        return (above != "" and self._folder_is_named(above)) or self._fits(path, name, folder=False)

    def _folder_is_named(self, path: str) -> bool:
        """Is this folder, or one above it, ignored? Patterns cannot re-include anything below an ignored folder."""
        unknown = []
        while path and path not in self._folders:
            unknown.append(path)
            path = path.rpartition("/")[0]
        is_named = self._folders.get(path, False)
        if len(self._folders) > _FOLDERS_KEPT:
            self._folders.clear()
        for folder in reversed(unknown):
            is_named = is_named or self._fits(folder, folder.rpartition("/")[2], folder=True)
            self._folders[folder] = is_named
        return is_named

    def _fits(self, path: str, name: str, *, folder: bool) -> bool:
        for rule in self._rules:
            if (folder or not rule.folders_only) and rule.pattern.fullmatch(name if rule.by_name else path):
                return not rule.negated
        return False


def _rule(line: str) -> _Rule | None:
    text = _without_trailing_blanks(line.rstrip("\r\n"))
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[1:] if negated else text
    folders_only = text.endswith("/")
    text = text[:-1] if folders_only else text
    by_name = "/" not in text
    try:
        segments = list(_segments(text.removeprefix("/")))
    except _NeverMatches:
        return None
    expression = _segment(segments[0]) if by_name else _path(segments)
    return _Rule(re.compile(expression, re.DOTALL), negated, folders_only, by_name)


def _without_trailing_blanks(text: str) -> str:
    stripped = text.rstrip(" ")
    slashes = len(stripped) - len(stripped.rstrip("\\"))
    # An escaped blank stays.
    return stripped + " " if slashes % 2 and len(stripped) < len(text) else stripped


def _segments(text: str) -> Iterator[list[str]]:
    """The signs of each segment. A slash inside brackets or after a backslash is part of a sign, not a divider."""
    segment: list[str] = []
    for sign in (*_signs(text), "/"):
        if sign != "/":
            segment.append(sign)
        elif segment:
            yield segment
            segment = []
        else:
            raise _NeverMatches


def _path(segments: list[list[str]]) -> str:
    """A path with `**`: each run of segments between them matches at the first folder possible, the last at the end."""
    runs: list[list[str]] = [[]]
    for segment in segments:
        if segment == ["*", "*"]:
            runs.append([])
        else:
            runs[-1].append(_segment(segment))
    first, *others = ("/".join(run) for run in runs)
    if not others:
        return first
    last = others.pop()
    middle = "".join(f"(?>(?:[^/]*/)*?{run}/)" for run in others if run)
    start = f"{first}/" if first else ""
    return start + middle + (f"(?:[^/]*/)*?{last}" if last else ".+")


def _segment(signs: list[str]) -> str:
    """One name with wildcards, which never match a slash."""
    pieces: list[list[str]] = [[]]
    for sign in signs:
        if sign == "*":
            pieces.append([])
        else:
            pieces[-1].append(sign)
    first, *others = ("".join(piece) for piece in pieces)
    if not others:
        return first
    last = others.pop()
    return first + "".join(f"(?>{_ANY}*?{piece})" for piece in others if piece) + f"(?>{_ANY}*{last}(?![^/]))"


def _signs(text: str) -> Iterator[str]:
    """Each sign of the pattern as a regular expression; stars and slashes stay as they are."""
    at = 0
    while at < len(text):
        sign = text[at]
        at += 1
        if sign in "*/":
            yield sign
        elif sign == "?":
            yield _ANY
        elif sign == "[":
            expression, at = _bracket(text, at)
            yield expression
        elif sign == "\\":
            if at == len(text):
                raise _NeverMatches
            yield re.escape(text[at])
            at += 1
        else:
            yield re.escape(sign)


def _bracket(text: str, at: int) -> tuple[str, int]:
    """A bracket expression as a regular expression, and the position after it."""
    negated = text[at : at + 1] in ("!", "^")
    at += negated
    parts: list[str] = []
    start = at
    while text[at : at + 1] != "]" or at == start:
        if name := re.compile(r"\[:([^\]:]*):\]").match(text, at):
            if name[1] not in _CLASSES:
                raise _NeverMatches
            parts.append(_CLASSES[name[1]])
            at = name.end()
            continue
        low, at = _literal(text, at)
        if text[at : at + 1] == "-" and text[at + 1 : at + 2] not in ("", "]"):
            high, at = _literal(text, at + 1)
            if low <= high:
                parts.append(f"{re.escape(low)}-{re.escape(high)}")
        parts.append(re.escape(low))  # also if the range is reversed
    return f"(?!/)[{'^' if negated else ''}{''.join(parts)}]", at + 1


def _literal(text: str, at: int) -> tuple[str, int]:
    at += text[at : at + 1] == "\\"
    if at >= len(text):
        raise _NeverMatches
    return text[at], at + 1
