"""Which files of the project does a text name? Paths in prose, links and code, with or without a line.

This module finds names only; whether such a file exists is checked elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import field

from spec_kit_memory.core.lean_dataclass import dataclass

MOST_FILES = 50  # a note that names more is an inventory, and only its first ones are recorded
MOST_NAMES = 400
LONGEST_PATH = 300
# Names of letters, digits and a few signs, with slashes between: the parts cannot overlap, so matching takes linear
# time. The lookbehind rules out the middle of a longer word, a URL, and an absolute path; the lookahead, a part of a
# longer name. What follows a colon is a line, a symbol or a remark ("a/b.py::test_c", "a/b.py: new").
_PATH = re.compile(r"(?<![\w/.:@~+$%\\-])(?:\.{1,2}/){0,8}[\w.@+-]{1,100}(?:/[\w.@+-]{1,100}){1,30}(?![\w.@+/-])")
# The same with the separators of Windows, in which no dot is followed by a backslash but at the beginning.
_WINDOWS_PATH = re.compile(
    r"(?<![\w/.:@~+$%\\-])(?:\.{1,2}\\){0,8}[\w.@+-]{1,100}(?:\\[\w.@+-]{1,100}){1,30}(?![\w.@+/\\-])"
)
_CODE = re.compile(r"`([^`\n]{1,320})`")
_LINK = re.compile(r"\]\((?:<([^<>\n]{1,320})>|/?([^()<>\s]{1,320}))(?:[ \t][^()\n]{0,200})?\)")
_PLACE = re.compile(
    r"((?:\.{1,2}/){0,8}[\w.@+-]{1,100}(?:/[\w.@+ -]{1,100}){0,30})"
    r"(?::\d{1,7}(?:[-:,]\d{1,7})?|#L\d{1,7}(?:-L?\d{1,7})?)?"
)
# Paths whose names have the signs of routers, as in app/(shop)/[id]/page.tsx; only where all of a code span is one.
_ROUTE = re.compile(
    r"((?:\.{1,2}/){0,8}[\w.@+()\[\]$~=,-]{1,100}(?:/[\w.@+()\[\]$~=,-]{1,100}){0,30}\.[A-Za-z]\w{0,9})(?::[\w:,-]{1,80})?"
)
_LINE = re.compile(r"(?<=\w):\d{1,7}(?:[-:]\d{1,7})?(?!\w)")
# A name without a folder: with an ending, of a hidden file, or like Makefile and Dockerfile.
_NAME = re.compile(r"[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,9}|\.[A-Za-z][\w.@+-]*|[A-Z][a-z]{1,20}file")


@dataclass(frozen=True, slots=True)
class CitedFile:
    """A file that a memory names, as it was when the memory was written."""

    path: str  # below the workspace's root, with "/"
    hash: str  # as git names the content: of "blob <size>\0" and the bytes
    size: int
    commit: str = ""  # the one that last changed the memory; "": the file was recorded at first indexing


@dataclass(frozen=True, slots=True)
class Citations:
    """The cited files recorded for one text of a memory. If the text changes, they are recorded again."""

    body: str  # fingerprint of that text
    files: tuple[CitedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Code:
    """How the files that a memory names have changed since; all empty if they have not."""

    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    moved: tuple[str, ...] = field(default=())  # "old -> new"

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone or self.moved)


def named_files(text: str) -> tuple[str, ...]:
    """Everything in the text that looks like a file path, in order, without line numbers or duplicates."""
    file_names: dict[str, None] = {}
    for name in _candidates(text):
        # Agents name a file to each other as @src/app.py; a folder may have such a name, too.
        for spelling in (name, name.lstrip("@")) if name.startswith("@") else (name,):
            if len(spelling) <= LONGEST_PATH and not _is_number(spelling) and len(file_names) < MOST_NAMES:
                file_names.setdefault(spelling)
        if len(file_names) >= MOST_NAMES:
            break
    return tuple(file_names)


def _candidates(text: str) -> Sequence[str]:
    names: list[tuple[int, str]] = []

    def take(match: re.Match[str]) -> str:
        """Record the path and blank it out, so that the search for paths in prose does not find it again."""
        content = match[match.lastindex or 1].strip()
        place = _PLACE.fullmatch(content)
        if place is None or not ("/" in place[1] or _NAME.fullmatch(place[1])):
            route = _ROUTE.fullmatch(content)
            if route is not None and "/" in route[1]:
                names.append((match.start(), route[1]))
            return match[0]
        names.append((match.start(), place[1].rstrip()))
        return " " * len(match[0])

    plain = _LINE.sub(lambda match: " " * len(match[0]), _LINK.sub(take, _CODE.sub(take, text)))
    names += [(match.start(), match[0].rstrip(".")) for match in _PATH.finditer(plain) if match[0]]
    windows = _WINDOWS_PATH.finditer(plain) if "\\" in plain else ()
    names += [(match.start(), match[0].rstrip(".").replace("\\", "/")) for match in windows]
    return [name for _, name in sorted(names, key=lambda pair: pair[0])]


def _is_number(name: str) -> bool:
    """1/2 and 2026/01/31 are not files."""
    return not any(character.isalpha() for character in name)
