"""Which files of the project does a text name? Paths in prose, links and code, with or without a line.

This module finds names only; whether such a file exists is checked elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_FILES = 50  # a note that names more is an inventory, and only its first ones are recorded
MOST_NAMES = 400
LONGEST_PATH = 300
# Names of letters, digits and a few signs, with slashes between: the parts cannot overlap, so matching takes linear
# time. The lookbehind rules out the middle of a longer word, a URL, and an absolute path.
_PATH = re.compile(r"(?<![\w/.:@~+$%-])(?:\.{1,2}/){0,8}[\w.@+-]{1,100}(?:/[\w.@+-]{1,100}){1,30}(?![\w/:@])")
_CODE = re.compile(r"`([^`\n]{1,320})`")
_LINK = re.compile(r"\]\(<?([^()<>\s]{1,320})>?(?:[ \t][^()\n]{0,200})?\)")
_PLACE = re.compile(
    r"((?:\.{1,2}/){0,8}[\w.@+-]{1,100}(?:/[\w.@+ -]{1,100}){0,30})"
    r"(?::\d{1,7}(?:[-:,]\d{1,7})?|#L\d{1,7}(?:-L?\d{1,7})?)?"
)
_LINE = re.compile(r"(?<=\w):\d{1,7}(?:[-:]\d{1,7})?(?!\w)")
_NAME = re.compile(r"[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,9}")


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
        if len(name) <= LONGEST_PATH and not _is_number(name):
            file_names.setdefault(name)
            if len(file_names) >= MOST_NAMES:
                break
    return tuple(file_names)


def _candidates(text: str) -> Sequence[str]:
    names: list[tuple[int, str]] = []

    def take(match: re.Match[str]) -> str:
        """Record the path and blank it out, so that the search for paths in prose does not find it again."""
        place = _PLACE.fullmatch(match[1].strip())
        if place is None or not ("/" in place[1] or _NAME.fullmatch(place[1])):
            return match[0]
        names.append((match.start(1), place[1].rstrip()))
        return " " * len(match[0])

    plain = _LINE.sub(lambda match: " " * len(match[0]), _LINK.sub(take, _CODE.sub(take, text)))
    names += [(match.start(), match[0].rstrip(".")) for match in _PATH.finditer(plain) if match[0]]
    return [name for _, name in sorted(names, key=lambda pair: pair[0])]


def _is_number(name: str) -> bool:
    """1/2 and 2026/01/31 are not files."""
    return not any(character.isalpha() for character in name)
