"""What opens and closes a code fence in markdown, which lines are code, and how is a text enclosed in a fence?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_MARKER = re.compile(r"([ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?)(`{3,}|~{3,})(.*)")
_INDENT = re.compile(r" {0,3}")
_YAML = re.compile(r"ya?ml\b", re.IGNORECASE)
_MARKDOWN = frozenset({"md", "markdown", "mdx"})


class Marker(NamedTuple):
    """A line that opens or closes a fence."""

    before: str  # indentation, quote and list marks
    run: str  # three or more back quotes or tildes
    info: str  # what follows them: the language of an opening marker, nothing on a closing one

    @property
    def can_open(self) -> bool:
        """False for back quotes with more back quotes after them: that is inline code."""
        return self.run[0] == "~" or "`" not in self.info

    @property
    def holds_markdown(self) -> bool:
        return self.info.split(" ")[0].lower() in _MARKDOWN

    def is_closed_by(self, other: Marker) -> bool:
        return other.run.startswith(self.run) and not other.info


def may_hold(text: str) -> bool:
    """Can the text contain a fence? A quick check before its lines are read one by one."""
    return "```" in text or "~~~" in text


def marker(line: str) -> Marker | None:
    match = _MARKER.match(line) if may_hold(line) else None
    return Marker(match[1], match[2], match[3].strip()) if match else None


def is_yaml(line: str) -> bool:
    """Does this line open a YAML fence outside of lists and quotes?"""
    mark = marker(line)
    return mark is not None and not mark.before.strip() and _YAML.match(mark.info) is not None


def code_lines(lines: Sequence[str]) -> set[int]:
    """Positions of the lines inside fences and of the fence markers; an unclosed fence extends to the end."""
    code: set[int] = set()
    opened: Marker | None = None
    for at, line in enumerate(lines):
        mark = marker(line)
        if opened or (mark and mark.can_open):
            code.add(at)
        if opened is None:
            opened = mark if mark and mark.can_open else None
        elif mark and opened.is_closed_by(mark):
            opened = None
    return code


def longest_closers(lines: Sequence[str], *, first_line: int) -> dict[int, dict[str, int]]:
    """For each line with a marker, the longest closing run of each kind below it.

    This identifies an opening marker that is never closed, which would otherwise swallow the rest of the text.
    """
    longest = {"`": 0, "~": 0}
    below: dict[int, dict[str, int]] = {}
    for number in range(len(lines), first_line - 1, -1):
        mark = marker(lines[number - 1])
        if mark is None:
            continue
        below[number] = dict(longest)
        if not mark.info:
            longest[mark.run[0]] = max(longest[mark.run[0]], len(mark.run))
    return below


def closing_line(lines: Sequence[str], opened: int, *, opener: Marker, nests: bool) -> tuple[int, bool]:
    """The line that closes the fence opened on line `opened`, and whether all fences inside it are closed too.

    With `nests`, the fence shows markdown, which may contain complete fences.
    """
    first_closer, depth = 0, 1
    for number in range(opened + 1, len(lines) + 1):
        line = lines[number - 1]
        mark = marker(line) if opener.run in line else None
        if mark is None or not mark.run.startswith(opener.run):
            continue
        if mark.info:
            depth += nests and opener.run[0] not in mark.info
            continue
        first_closer = first_closer or number
        depth -= 1
        if depth == 0:
            return number, True
    return first_closer, False


def settle(lines: Sequence[str]) -> tuple[set[int], str] | None:
    """Which lines are code, and the run still open at the end; None if markdown parsers could disagree on that."""
    code: set[int] = set()
    run = ""
    for at, line in enumerate(lines):
        mark = marker(line)
        if mark and not _INDENT.fullmatch(mark.before):
            return None
        if run or mark:
            code.add(at)
        if mark is None:
            continue
        if run:
            if mark.run != run or mark.info:
                return None
            run = ""
        elif "`" in mark.info or mark.info.casefold().startswith(("md", "markdown")):
            return None
        else:
            run = mark.run
    return code, run


def fenced(text: str, *, language: str) -> str:
    """The text as a code block, whose fence is longer than any run of back quotes in the text."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
