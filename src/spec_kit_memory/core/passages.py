"""Which runs of lines does search match? A document, or a conversation, cut into passages.

Passages follow anchors and headings, hold 200 to 400 tokens where the text allows it, never
overlap, and are exactly the lines they name. Fences and tables stay whole if they can.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spec_kit_memory.core import tokens
from spec_kit_memory.core.markdown import metadata_fence, normalise
from spec_kit_memory.core.memory import Anchor, Conversation, Document, Heading, Passage, Turn, embedded
from spec_kit_memory.core.structure import Structure, scan

__all__ = ["split", "turns"]

SMALL_TOKENS = 200  # a run below this takes in its neighbour under the same heading
LARGE_TOKENS = 400  # a run above this is cut
FENCE_TOKENS = 800  # a fence above this is cut at line ends
_BYTES = tokens.BYTES_PER_TOKEN

_RULE = re.compile(
    r"[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|<a (?:id|name)=[^<>]{0,200}></a>[ \t]*)$"
)
_ITEM = re.compile(r" {0,1}(?:[-*+]|\d{1,9}[.)])[ \t]")
_NEEDS_OWN_LINE = re.compile(r"(?:`{3,}|~{3,}|#{1,6} |[-*+] |\d{1,9}[.)] |\||>)")


@dataclass(slots=True)
class _Run:
    """Lines first..last (from 1) under one heading path and inside one chain of anchors."""

    first: int
    last: int
    headings: tuple[str, ...]
    anchors: tuple[str, ...]
    bytes: int
    only_heading: bool = False


class _Page:
    """The lines of a text with what cutting needs to know about them."""

    def __init__(self, lines: Sequence[str], found: Structure, *, first_line: int) -> None:
        self.lines = lines
        self.found = found
        self.first_line = first_line
        self.last_line = len(lines)
        ascii_only = all(map(str.isascii, lines))
        size = len if ascii_only else _utf8_length
        # sizes[n] is the number of bytes in the lines before line n + 1.
        self.sizes = [0]
        total = 0
        for line in lines:
            total += size(line) + 1
            self.sizes.append(total)
        self.silent = {number for first, last in found.comments for number in range(first, last + 1)}
        self.fence_ends = dict(found.fences)

    def bytes_of(self, first: int, last: int) -> int:
        return self.sizes[last] - self.sizes[first - 1]

    def says_nothing(self, number: int) -> bool:
        line = self.lines[number - 1]
        return not line.strip() or number in self.silent or bool(_RULE.match(line))

    def trimmed(self, first: int, last: int) -> tuple[int, int]:
        while first <= last and self.says_nothing(first):
            first += 1
        while last >= first and self.says_nothing(last):
            last -= 1
        return first, last


def _utf8_length(line: str) -> int:
    return len(line.encode("utf-8", "surrogatepass"))


def split(document: Document) -> tuple[Passage, ...]:
    """The document's passages in order. Only a file that has nothing else yields its metadata as text."""
    lines = document.text.split("\n")
    found = scan(lines, first_line=document.body_first_line)
    page = _Page(lines, found, first_line=document.body_first_line)
    page.silent |= _metadata_noise(lines, found)
    runs = _cut(page, _merged(page, _sections(page, document)))
    if not runs and document.text.strip():
        page = _Page(lines, Structure(), first_line=1)
        runs = _cut(page, [_Run(1, len(lines), (), (), page.bytes_of(1, len(lines)))])
        if not runs:
            runs = [_everything(lines)]
    return tuple(_passage(page.lines, ordinal, run) for ordinal, run in enumerate(runs))


def _everything(lines: Sequence[str]) -> _Run:
    """A file of nothing but rules and the like: its lines from the first that is not empty to the last."""
    spoken = [number for number, line in enumerate(lines, 1) if line.strip()]
    return _Run(spoken[0], spoken[-1], (), (), 0)


def _metadata_noise(lines: Sequence[str], found: Structure) -> set[int]:
    """The metadata block's YAML, and the heading and remark that only announce it."""
    fence = metadata_fence(lines, found)
    if fence is None:
        return set()
    noise = set(range(fence[0], fence[1] + 1))
    anchor = next(item for item in found.anchors if item.first_line <= fence[0] and fence[1] <= item.last_line)
    number = fence[0] - 1
    while number >= anchor.first_line and _announces(lines[number - 1]):
        noise.add(number)
        number -= 1
    return noise


def _announces(line: str) -> bool:
    text = line.strip()
    return not text or text.startswith((">", "#", "<!--", "<a ", "---"))


def _sections(page: _Page, document: Document) -> list[_Run]:
    """Runs between one heading or anchor tag and the next, without those that say nothing."""
    starts = sorted(_borders(page, document))
    chains = _AnchorChains(document.anchors)
    path = _HeadingPath(document.headings)
    runs = []
    for start, following in zip(starts, [*starts[1:], page.last_line + 1], strict=True):
        headings, is_heading = path.at(start)
        first, last = page.trimmed(start, following - 1)
        if first > last:
            continue
        only_heading = is_heading and first == start and page.trimmed(start + 1, last)[0] > last
        runs.append(_Run(first, last, headings, chains.at(first), page.bytes_of(first, last), only_heading))
    return runs


def _borders(page: _Page, document: Document) -> set[int]:
    borders = {page.first_line}
    borders.update(heading.first_line for heading in document.headings)
    for anchor in document.anchors:
        borders.add(anchor.first_line)
        borders.add(anchor.last_line + 1)
    return {number for number in borders if page.first_line <= number <= page.last_line}


class _HeadingPath:
    """The headings that govern a line, asked for in rising order."""

    def __init__(self, headings: Sequence[Heading]) -> None:
        self._coming = list(reversed(headings))
        self._open: list[Heading] = []

    def at(self, number: int) -> tuple[tuple[str, ...], bool]:
        is_heading = False
        while self._coming and self._coming[-1].first_line <= number:
            heading = self._coming.pop()
            while self._open and self._open[-1].level >= heading.level:
                self._open.pop()
            self._open.append(heading)
            is_heading = heading.first_line == number
        return tuple(heading.text for heading in self._open if heading.text), is_heading


class _AnchorChains:
    """The anchors around a line, outermost first, asked for in rising order."""

    def __init__(self, anchors: Sequence[Anchor]) -> None:
        self._coming = list(reversed(anchors))
        self._open: list[Anchor] = []

    def at(self, number: int) -> tuple[str, ...]:
        while self._coming and self._coming[-1].first_line <= number:
            self._open.append(self._coming.pop())
        self._open = [anchor for anchor in self._open if anchor.last_line >= number]
        return tuple(anchor.id for anchor in self._open)


def _merged(page: _Page, runs: Sequence[_Run]) -> list[_Run]:
    """Short runs joined with what follows under the same heading, a bare heading with its text."""
    merged: list[_Run] = []
    for run in runs:
        joined = _joined(page, merged[-1], run) if merged else None
        if joined is None:
            merged.append(run)
        else:
            merged[-1] = joined
    return merged


def _joined(page: _Page, left: _Run, right: _Run) -> _Run | None:
    """Both runs as one, or None where they do not belong together or are too long."""
    size = page.bytes_of(left.first, right.last)
    if left.only_heading and right.headings[: len(left.headings)] == left.headings:
        # A heading alone says little: it goes with its text, whatever that text's length and anchor.
        deeper = right.anchors if right.anchors[: len(left.anchors)] == left.anchors else left.anchors
        return _Run(left.first, right.last, right.headings, deeper, size, right.only_heading)
    if size > LARGE_TOKENS * _BYTES or min(left.bytes, right.bytes) >= SMALL_TOKENS * _BYTES:
        return None
    if left.bytes >= SMALL_TOKENS * _BYTES and not right.only_heading and right.bytes >= SMALL_TOKENS * _BYTES // 2:
        return None
    headings = _common_parent(left.headings, right.headings)
    anchors = _common_anchors(left.anchors, right.anchors)
    if headings is None or anchors is None:
        return None
    return _Run(left.first, right.last, headings, anchors, size)


def _common_parent(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...] | None:
    """The path that governs both, if one is below the other or they are siblings."""
    if right[: len(left)] == left:
        return left
    if len(left) == len(right) and left[:-1] == right[:-1]:
        return left[:-1]
    return None


def _common_anchors(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...] | None:
    """The anchors around both; None where each has one of its own and none is shared."""
    if left == right:
        return left
    shared = 0
    while shared < min(len(left), len(right)) and left[shared] == right[shared]:
        shared += 1
    return left[:shared] if shared else None


def _cut(page: _Page, runs: Sequence[_Run]) -> list[_Run]:
    """Runs of at most LARGE_TOKENS where the text allows it."""
    return [piece for run in runs for piece in _pieces(page, run)]


def _pieces(page: _Page, run: _Run) -> Iterator[_Run]:
    if run.bytes <= LARGE_TOKENS * _BYTES:
        first, last = page.trimmed(run.first, run.last)
        if first <= last:
            yield _Run(first, last, run.headings, run.anchors, 0)
        return
    limit = LARGE_TOKENS * _BYTES
    count = -(-run.bytes // limit)
    for first, last in _packed(page, list(_blocks(page, run)), target=run.bytes // count, limit=limit):
        first, last = page.trimmed(first, last)
        if first <= last:
            yield _Run(first, last, run.headings, run.anchors, 0)


def _packed(page: _Page, blocks: Sequence[tuple[int, int]], *, target: int, limit: int) -> Iterator[tuple[int, int]]:
    """Blocks put together up to about the target size, never beyond the limit if a block alone is not."""
    current: list[tuple[int, int]] = []
    for index, block in enumerate(blocks):
        if current and page.bytes_of(current[0][0], block[1]) > limit:
            yield from _closed(page, current)
            current = current[len(current) - _introducing(page, current) :]
        current.append(block)
        enough = page.bytes_of(current[0][0], block[1]) >= target
        rest = page.bytes_of(blocks[index + 1][0], blocks[-1][1]) if index + 1 < len(blocks) else 0
        if enough and rest > SMALL_TOKENS * _BYTES // 2 and not _introducing(page, current):
            yield from _closed(page, current)
            current = []
    if current:
        yield current[0][0], current[-1][1]


def _closed(page: _Page, current: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    kept = len(current) - _introducing(page, current)
    if kept:
        yield current[0][0], current[kept - 1][1]


def _introducing(page: _Page, current: Sequence[tuple[int, int]]) -> int:
    """How many blocks at the end (0 or 1) only announce the next one: a heading, or a line with a colon."""
    if len(current) < 2:
        return 0
    first, last = current[-1]
    line = page.lines[last - 1].rstrip(" *_")
    short = page.bytes_of(first, last) < 400
    return int(short and (line.endswith(":") or (first == last and line.lstrip().startswith("#"))))


def _blocks(page: _Page, run: _Run) -> Iterator[tuple[int, int]]:
    """Pieces that should not be cut: fences, tables, paragraphs, list items; large ones by line."""
    number, first = run.first, run.first
    while number <= run.last:
        line = page.lines[number - 1]
        if number in page.fence_ends:
            if number > first:
                yield from _by_size(page, first, number - 1)
            last = min(page.fence_ends[number], run.last)
            yield from _by_size(page, number, last, whole=FENCE_TOKENS)
            number = first = last + 1
            continue
        if not line.strip() or (_ITEM.match(line) and number > first):
            if number > first:
                yield from _by_size(page, first, number - 1)
            first = number + 1 if not line.strip() else number
        number += 1
    if first <= run.last:
        yield from _by_size(page, first, run.last)


def _by_size(page: _Page, first: int, last: int, *, whole: int = LARGE_TOKENS) -> Iterator[tuple[int, int]]:
    """The block as it is, or, if too large, in pieces of equal size that end with a line."""
    size, limit = page.bytes_of(first, last), LARGE_TOKENS * _BYTES
    if size <= whole * _BYTES:
        yield first, last
        return
    target = size // -(-size // limit)
    start = first
    for number in range(first, last + 1):
        if number < last and page.bytes_of(start, number + 1) > target + limit // 8:
            yield start, number
            start = number + 1
    yield start, last


def _passage(lines: Sequence[str], ordinal: int, run: _Run, *, speaker: str = "") -> Passage:
    text = "\n".join(lines[run.first - 1 : run.last])
    read = embedded(run.headings, text)
    return Passage(
        ordinal=ordinal,
        first_line=run.first,
        last_line=run.last,
        text=text,
        hash=hashlib.sha256(read.encode("utf-8", "surrogatepass")).hexdigest(),
        tokens=tokens.count(text),
        anchor=run.anchors[-1] if run.anchors else "",
        headings=run.headings,
        speaker=speaker,
    )


def turns(conversation: Conversation) -> tuple[str, tuple[Passage, ...]]:
    """A chat as text, and its passages: one per turn, or several for a long one."""
    blocks: list[str] = []
    passages: list[Passage] = []
    line = 1
    for turn in conversation.turns:
        block = _spoken(turn)
        if not block:
            continue
        passages.extend(_turn_passages(block, turn, first_line=line, ordinal=len(passages)))
        blocks.append(block)
        line += block.count("\n") + 2
    return "\n\n".join(blocks), tuple(passages)


def _name(turn: Turn) -> str:
    speaker, time = " ".join(turn.speaker.split()), " ".join(turn.time.split())
    return f"[{time}] {speaker}" if time else speaker


def _spoken(turn: Turn) -> str:
    """One turn as it stands in the text. A fence, list or table needs a line of its own to remain one."""
    text = "\n".join(line.rstrip() for line in normalise(turn.text).split("\n")).strip("\n")
    if not text.strip():
        return ""
    between = "\n" if _NEEDS_OWN_LINE.match(text) else " "
    return f"{_name(turn)}:{between}{text}"


def _turn_passages(block: str, turn: Turn, *, first_line: int, ordinal: int) -> Iterator[Passage]:
    lines = block.split("\n")
    page = _Page(lines, scan(lines), first_line=1)
    page.silent.clear()
    pieces = list(_pieces(page, _Run(1, len(lines), (), (), page.bytes_of(1, len(lines)))))
    for index, piece in enumerate(pieces):
        run = _Run(piece.first, piece.last, (_name(turn),) if index else (), (), 0)
        passage = _passage(lines, ordinal + index, run, speaker=turn.speaker)
        yield replace(passage, first_line=piece.first + first_line - 1, last_line=piece.last + first_line - 1)
