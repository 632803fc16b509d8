"""Which sections and blocks does a document consist of?

Anchors and headings delimit sections; each section contains paragraphs, lists, tables and code.
Merging and comparing documents need these units; splitting into passages needs only lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from spec_kit_memory.core.structure import ANCHOR_TAG, Structure, scan, too_deep

_MARKER = re.compile(r"( {0,3})((?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$))")
_BULLET = re.compile(r" {0,3}(?:[-*+]|1[.)])[ \t]+\S")
_RULE = re.compile(r"[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_BOX = re.compile(r"\[[ xX]\][ \t]+")
# `**Alternatives:**`, `**user** (10:15):`: a line that introduces what follows it.
_LABEL = re.compile(r"\*\*[^*\n]+:\*\*|\*\*[^*\n]+\*\*(?: \([^()\n]*\))?:")


class Kind(StrEnum):
    PROSE = "prose"
    LIST = "list"
    TABLE = "table"
    CODE = "code"
    QUOTE = "quote"
    COMMENT = "comment"
    RULE = "rule"


@dataclass(frozen=True, slots=True)
class Item:
    """One list item, with everything indented below it."""

    first_line: int
    last_line: int
    marker: str  # as written, with the space after it
    indent: int


@dataclass(frozen=True, slots=True)
class Block:
    kind: Kind
    first_line: int
    last_line: int
    items: tuple[Item, ...] = ()


@dataclass(slots=True)
class BlockSection:
    """The content of an anchor or a heading. `blocks` come before its first subsection; subsections are `parts`."""

    anchor: str = ""
    heading: str = ""
    level: int = 0
    first_line: int = 1  # its opening tag or its heading
    opened_line: int = 0  # the last line of its opening: tag, heading or underline
    last_line: int = 0  # includes its closing tag
    blocks: list[Block] = field(default_factory=list)
    parts: list[BlockSection] = field(default_factory=list)

    @property
    def own_last_line(self) -> int:
        """The last line of its own blocks, before its first part."""
        return self.blocks[-1].last_line if self.blocks else self.opened_line

    def walk(self) -> Iterator[BlockSection]:
        """This section and all its subsections, in document order."""
        waiting = [self]
        while waiting:
            section = waiting.pop()
            yield section
            waiting += reversed(section.parts)


def divide(lines: Sequence[str], *, first_line: int = 1) -> BlockSection:
    """The sections of the text from `first_line` on. A first heading of level 1 belongs to the root, not to a part."""
    return _Divider(lines, first_line).divide()


def is_label(line: str) -> bool:
    """Is this line only a label for what follows it?"""
    return bool(_LABEL.fullmatch(line.strip()))


def without_tags(line: str) -> str:
    """The line without anchor tags, which must not be copied to another place."""
    return ANCHOR_TAG.sub("", line) if "<!--" in line else line


def is_ticked(lines: Sequence[str], item: Item) -> bool:
    """Does the item begin with a ticked checkbox?"""
    return bool(_BOX.match(_words_of(lines, item))) and not is_open(lines, item)


def is_open(lines: Sequence[str], item: Item) -> bool:
    """Does the item begin with an empty checkbox?"""
    return _words_of(lines, item).startswith("[ ]")


def _words_of(lines: Sequence[str], item: Item) -> str:
    """The first line of an item without its marker."""
    return lines[item.first_line - 1][item.indent + len(item.marker) :]


def item_text(lines: Sequence[str], item: Item) -> str:
    """The text of an item without its marker, its checkbox and the indentation of its further lines."""
    first = _words_of(lines, item)
    width = item.indent + len(item.marker)
    rest = [_dedented(line, width) for line in lines[item.first_line : item.last_line]]
    return "\n".join([_BOX.sub("", first, count=1) if _BOX.match(first) else first, *rest]).strip()


def _dedented(line: str, width: int) -> str:
    indent = len(line) - len(line.lstrip(" "))
    return line[min(indent, width) :]


class _Divider:
    """One pass over the lines, with the open sections on a stack."""

    def __init__(self, lines: Sequence[str], first_line: int) -> None:
        self.lines = lines
        self.first_line = first_line
        structure = scan(lines, first_line=first_line)
        self.tags = _paired_tags(lines, structure)
        self.headings = {heading.first_line: heading for heading in structure.headings}
        self.fences = dict(structure.fences)
        self.comments = {first: last for first, last in structure.comments if first not in self.tags}
        self.root = BlockSection(first_line=first_line, opened_line=first_line - 1, last_line=len(lines))
        self.open = [self.root]

    def divide(self) -> BlockSection:
        number = self.first_line
        while number <= len(self.lines):
            if number in self.tags:
                name, closing = self.tags[number]
                (self._close_anchor if closing else self._open_anchor)(name, number)
                number += 1
            elif number in self.headings:
                number = self._read_heading(number)
            elif self.lines[number - 1].strip():
                block = self._read_block(number)
                self.open[-1].blocks.append(block)
                number = block.last_line + 1
            else:
                number += 1
        self._close_until(0, len(self.lines))
        self.root.last_line = self._last_with_text(len(self.lines), self.root.opened_line)
        return self.root

    # --- sections

    def _open_anchor(self, name: str, number: int) -> None:
        following = number + 1
        while following <= len(self.lines) and not self.lines[following - 1].strip():
            following += 1
        heading = self.headings.get(following)
        if heading is not None:
            self._close_headings(heading.level, number - 1)
        section = BlockSection(anchor=name, first_line=number, opened_line=number)
        self.open[-1].parts.append(section)
        self.open.append(section)

    def _close_anchor(self, name: str, number: int) -> None:
        depth = next((at for at in range(len(self.open) - 1, 0, -1) if self.open[at].anchor.casefold() == name), None)
        if depth is not None:  # otherwise the anchors overlap, and the other one's end has closed this one already
            self._close_until(depth + 1, number - 1)
            self.open.pop().last_line = number

    def _read_heading(self, number: int) -> int:
        heading = self.headings[number]
        underlined = not self.lines[number - 1].lstrip(" ").startswith(("#", "<"))
        opened = number + underlined
        top = self.open[-1]
        if top.anchor and not top.heading and not top.blocks and not top.parts:
            top.heading, top.level, top.opened_line = heading.text, heading.level, opened
            return opened + 1
        self._close_headings(heading.level, number - 1)
        top = self.open[-1]
        if heading.level == 1 and top is self.root and not self.root.heading and not self.root.parts:
            self.root.heading, self.root.level, self.root.opened_line = heading.text, 1, opened
            return opened + 1
        section = BlockSection(heading=heading.text, level=heading.level, first_line=number, opened_line=opened)
        top.parts.append(section)
        self.open.append(section)
        return opened + 1

    def _close_headings(self, level: int, last_line: int) -> None:
        while len(self.open) > 1 and not self.open[-1].anchor and self.open[-1].level >= level:
            self._close_top(last_line)

    def _close_until(self, depth: int, last_line: int) -> None:
        while len(self.open) > max(depth, 1):
            self._close_top(last_line)

    def _close_top(self, last_line: int) -> None:
        section = self.open.pop()
        section.last_line = self._last_with_text(last_line, section.opened_line)

    def _last_with_text(self, last: int, at_least: int) -> int:
        while last > at_least and not self.lines[last - 1].strip():
            last -= 1
        return last

    # --- blocks

    def _starts_other_block(self, number: int) -> bool:
        """Does something begin on this line that ends a paragraph or a list?"""
        return number in self.tags or number in self.headings or number in self.fences or number in self.comments

    def _read_block(self, number: int) -> Block:
        line = self.lines[number - 1]
        if number in self.fences:
            return Block(Kind.CODE, number, self.fences[number])
        if number in self.comments:
            return Block(Kind.COMMENT, number, self.comments[number])
        if _RULE.match(line):
            return Block(Kind.RULE, number, number)
        if _MARKER.match(line):
            return self._read_list(number)
        mark = line.lstrip()[0]
        if mark in "|>":
            last = self._while(number, lambda text: text.lstrip().startswith(mark))
            return Block(Kind.TABLE if mark == "|" else Kind.QUOTE, number, last)
        last = self._while(number, lambda text: bool(text.strip()) and not _BULLET.match(text))
        return Block(Kind.PROSE, number, last)

    def _while(self, number: int, belongs: Callable[[str], bool]) -> int:
        last = number
        while last < len(self.lines) and not self._starts_other_block(last + 1) and belongs(self.lines[last]):
            last += 1
        return last

    def _read_list(self, number: int) -> Block:
        items: list[Item] = []
        following: int | None = number
        while following is not None and (marker := _MARKER.match(self.lines[following - 1])):
            items.append(Item(following, self._item_end(following), marker[2], len(marker[1])))
            following = self._next_item(items[-1].last_line)
        return Block(Kind.LIST, number, items[-1].last_line, tuple(items))

    def _item_end(self, number: int) -> int:
        """The last line of the item that begins here."""
        last = number
        while True:
            following = last + 1
            while following <= len(self.lines) and not self.lines[following - 1].strip():
                following += 1
            if following > len(self.lines):
                return last
            line = self.lines[following - 1]
            indented = line.startswith(("  ", "\t"))
            if following in self.fences and (indented or self._is_label_only(number, last)):
                last = self.fences[following]
            elif self._starts_other_block(following):
                return last
            elif indented or (following == last + 1 and not _MARKER.match(line)):
                last = following
            else:
                return last

    def _is_label_only(self, number: int, last: int) -> bool:
        """Is the item so far only a label, or empty? Then the code block below it belongs to it."""
        marker = _MARKER.match(self.lines[number - 1])
        text = self.lines[number - 1][marker.end() if marker else 0 :].strip()
        return number == last and (not text or is_label(text))

    def _next_item(self, last: int) -> int | None:
        following = last + 1
        while following <= len(self.lines) and not self.lines[following - 1].strip():
            following += 1
        if following > len(self.lines) or self._starts_other_block(following):
            return None
        line = self.lines[following - 1]
        return following if _MARKER.match(line) and not _RULE.match(line) else None


def _paired_tags(lines: Sequence[str], structure: Structure) -> Mapping[int, tuple[str, bool]]:
    """The anchor tags to use: line -> (name, is it closing?).

    A tag must be alone on its line, have a matching tag, and not be nested too deep.
    """
    opened: dict[str, list[int]] = {}
    tags: dict[int, tuple[str, bool]] = {}
    closing_lines: dict[int, int] = {}
    for number in dict.fromkeys(structure.tag_lines):
        tag = ANCHOR_TAG.fullmatch(lines[number - 1].strip())
        if tag is None:
            continue
        name = tag[2].casefold()
        if not tag[1]:
            opened.setdefault(name, []).append(number)
        elif opened.get(name):
            first = opened[name].pop()
            tags[first], tags[number] = (tag[2], False), (tag[2], True)
            closing_lines[first] = number
    ranges = sorted(closing_lines.items())
    for at in too_deep(ranges):
        del tags[ranges[at][0]], tags[ranges[at][1]]
    return {number: (name.casefold() if closing else name, closing) for number, (name, closing) in tags.items()}
