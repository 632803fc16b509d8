"""How is a line that is longer than a passage split? At sentences, else at records, words, signs or characters.

The parts depend only on the line. A passage that is such a part has the line's number, and its hash identifies the
part, so nothing more has to be stored with it.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol
from unicodedata import category

from spec_kit_memory.core import tokens
from spec_kit_memory.core.memory import Passage, StoredPassage, embedded

PART_BYTES = 400 * tokens.BYTES_PER_TOKEN  # the longest passage
LONGEST_LINE_BYTES = 480 * tokens.BYTES_PER_TOKEN  # a slightly longer line stays whole, as other passages do
MOST_SIGNS = 32  # code points of one character with its combining marks
_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]]*\s+|[。！？]+[」』”）]*")
# What separates statements of minified code, records of data and cells of a table.
_RECORD_END = re.compile(r"[;|\t]\s*")
_SPACE = re.compile(r"\s+")
_SIGN = re.compile(r"[!-/:-@\[-^`{-~、，；：…—–]")


class _Placed(Protocol):
    @property
    def first_line(self) -> int: ...
    @property
    def last_line(self) -> int: ...
    @property
    def hash(self) -> str: ...
    @property
    def headings(self) -> tuple[str, ...]: ...
    @property
    def question(self) -> str: ...


def passage_hash(headings: tuple[str, ...], text: str) -> str:
    return hashlib.sha256(embedded(headings, text).encode("utf-8", "surrogatepass")).hexdigest()


def is_long(line: str) -> bool:
    """Is the line too long for one passage? For most lines the number of characters decides, without encoding."""
    if len(line) * 4 <= LONGEST_LINE_BYTES:
        return False
    return len(line) > LONGEST_LINE_BYTES or _size(line) > LONGEST_LINE_BYTES


@lru_cache(maxsize=32)
def parts(line: str) -> tuple[str, ...]:
    """The line in parts of about equal size; joined, they are the line."""
    if not is_long(line):
        return (line,)
    size = _size(line)
    count = -(-size // PART_BYTES)
    width = max(1, len(line) * (size // count) // size)  # characters per part, if all have the same size in bytes
    ends = []
    start = 0
    while start < len(line):
        rest = line[start : start + LONGEST_LINE_BYTES + 1]
        end = _cut(line, start, width) if _size(rest) > LONGEST_LINE_BYTES else len(line)
        ends.append(line[start:end])
        start = end
    return tuple(ends)


def _cut(line: str, start: int, width: int) -> int:
    """Where the part that starts here ends: after a sentence in its last third, else a record, a word or a sign there,
    so that no name is cut in two; else after any word, else after a character."""
    most = start + width
    while _size(line[start:most]) > PART_BYTES and most > start + 1:
        most -= max(1, (most - start) // 8)  # the characters of this part take more bytes than the average
    least = start + (most - start) * 2 // 3
    for pattern, first in (
        (_SENTENCE_END, least),
        (_RECORD_END, least),
        (_SPACE, least),
        (_SIGN, least),
        (_SPACE, start + 1),
    ):
        ends = [match.end() for match in pattern.finditer(line, first, most) if match.end() <= most]
        if ends:
            return ends[-1]
    # Do not cut a character from its combining marks, unless it has more of them than any script uses.
    for end in range(most, max(start, most - MOST_SIGNS), -1):
        if end >= len(line) or not (category(line[end])[0] == "M" or line[end] == "\u200d"):
            return end
    return most


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def text_of(lines: Sequence[str], passage: _Placed) -> str:
    """A passage's text: its question if it has one, else its lines, or its part of a long line."""
    if passage.question:
        return passage.question
    text = "\n".join(lines[passage.first_line - 1 : passage.last_line])
    if passage.first_line != passage.last_line or not is_long(text):
        return text
    stripped = map(str.strip, parts(text))
    return next((part for part in stripped if passage_hash(passage.headings, part) == passage.hash), text)


def with_texts(stored: Iterable[StoredPassage], lines: Sequence[str]) -> list[Passage]:
    """Stored passages with their texts, cut from the lines of their memory."""
    return [
        Passage(
            ordinal=passage.ordinal,
            first_line=passage.first_line,
            last_line=passage.last_line,
            text=text_of(lines, passage),
            hash=passage.hash,
            tokens=passage.tokens,
            anchor=passage.anchor,
            headings=passage.headings,
            speaker=passage.speaker,
            question=passage.question,
        )
        for passage in stored
    ]


class LineLayout:
    """A text's lines with each part of a long line as a line of its own, so that an answer can show single parts.

    Real lines and layout lines are both counted from 1.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._real: Sequence[int] = range(1, len(lines) + 1)  # for each layout line, the number of its real line
        if not any(is_long(line) for line in lines if len(line) * 4 > LONGEST_LINE_BYTES):  # true of nearly every text
            return
        pieces = [(number, piece) for number, line in enumerate(lines, 1) for piece in parts(line)]
        self._real, self.lines = [number for number, _ in pieces], [piece for _, piece in pieces]

    @property
    def last_line(self) -> int:
        """The number of real lines."""
        return self._real[-1] if self._real else 0

    @property
    def has_parts(self) -> bool:
        """Is any line shown in parts? Otherwise both numberings are the same."""
        return self.last_line != len(self.lines)

    def laid(self, first_line: int, last_line: int) -> tuple[int, int]:
        """The layout lines of these real lines."""
        return bisect_left(self._real, first_line) + 1, bisect_left(self._real, last_line + 1)

    def place(self, passage: _Placed) -> tuple[int, int]:
        first, last = self.laid(passage.first_line, passage.last_line)
        if passage.first_line == passage.last_line and last > first:
            for at in range(first, last + 1):
                if passage_hash(passage.headings, self.lines[at - 1].strip()) == passage.hash:
                    return at, at
        return first, last

    def whole_lines(self, places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """The real lines that these layout lines cover completely."""
        line_places = list(places)
        if not self.has_parts:
            return line_places
        covered = {at for first, last in line_places for at in range(first, last + 1)}
        parts: dict[int, list[int]] = {}
        for at, number in enumerate(self._real, 1):
            parts.setdefault(number, []).append(at)
        return [(number, number) for number, layout_lines in parts.items() if covered.issuperset(layout_lines)]

    def real(self, first: int, last: int) -> tuple[int, int]:
        """The real lines of these layout lines."""
        return self._real[first - 1], self._real[last - 1]

    def text(self, first: int, last: int) -> str:
        """The text as shown: parts of one line are joined, and an ellipsis marks where a line is cut."""
        out_lines = [self.lines[first - 1]]
        for at in range(first, last):
            out_lines.append("" if self._real[at] == self._real[at - 1] else "\n")
            out_lines.append(self.lines[at])
        before = "…" if first > 1 and self._real[first - 2] == self._real[first - 1] else ""
        behind = "…" if last < len(self._real) and self._real[last] == self._real[last - 1] else ""
        text = "".join(out_lines)
        return f"{before}{text.rstrip() if behind else text}{behind}"

    def is_whole(self, first: int, last: int) -> bool:
        """Do these layout lines consist of whole real lines?"""
        return self.laid(*self.real(first, last)) == (first, last)
