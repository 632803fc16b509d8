"""What fits into a token budget, so that most of what was found gets through?

Passages go in by score over all results, so a later hit is not crowded out by the tail of the
first one. Neighbouring lines become one range, what is left over widens fragments to whole
sections. Lines are shown whole or not at all, and the budget is never exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Block", "Fitted", "Packed", "Piece", "Rule", "Ruled", "Shown", "fit", "rules", "rules_budget"]

Count = Callable[[str], int]

# Headers of all results may take this share before any text is in. A quarter cost recall at 250 tokens.
_HEADER_SHARE = 0.1
# So many passages in a row that did not fit, and the rest is not tried: a full answer costs no time.
_MOST_MISSES = 64
# Fewer tokens than this of a passage that does not fit are not worth showing.
_LEAST_CUT = 24

_RULES_TOKENS = 500
_RULES_MOST = 3
_RULES_SHARE = 4
_NAMES_SHARE = 5


@dataclass(frozen=True, slots=True)
class Piece:
    """A matched passage, by its lines."""

    first_line: int
    last_line: int
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One result on its way into the answer."""

    id: int
    lines: Sequence[str] = ()  # the memory's whole text
    pieces: Sequence[Piece] = ()
    sections: Callable[[], Sequence[tuple[int, int]]] = tuple  # line ranges of anchors, headings, the body; if needed
    header_tokens: int = 0  # what naming the result costs


@dataclass(frozen=True, slots=True)
class Shown:
    """Lines that go into the answer. `cut`: the passage goes on below the last of them."""

    first_line: int
    last_line: int
    text: str
    score: float
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Packed:
    id: int
    shown: tuple[Shown, ...]  # in the order of their lines
    tokens: int
    left_out: int = 0  # passages that did not fit


@dataclass(frozen=True, slots=True)
class Fitted:
    blocks: tuple[Packed, ...]  # in the order given
    tokens: int
    left_out: tuple[int, ...] = ()  # results of which not even the header fitted

    @property
    def passages_left_out(self) -> int:
        return sum(block.left_out for block in self.blocks)


def fit(blocks: Sequence[Block], *, budget_tokens: int, count: Count, range_tokens: int = 0) -> Fitted:
    """Pack results, best first, under a budget. `range_tokens` is what naming one further line range costs."""
    trays = [_Tray(block, count=count, range_tokens=range_tokens) for block in blocks]
    room = budget_tokens - _reserve_headers(trays, int(budget_tokens * _HEADER_SHARE), budget_tokens)
    # By score alone: counting further passages of one memory for less was measured, and lost recall.
    pieces = [(tray, piece) for tray in trays for piece in tray.block.pieces]
    pieces.sort(key=lambda pair: -pair[1].score)
    too_long: list[tuple[_Tray, Piece]] = []
    misses = 0
    for tray, piece in pieces:
        spent = tray.show(piece, room) if misses < _MOST_MISSES else None
        misses = misses + 1 if spent is None else 0
        if spent is None and piece is pieces[0][1]:
            spent = tray.show_beginning(piece, room)
        if spent is None:
            too_long.append((tray, piece))
        room -= spent or 0
    room -= _fill(trays, too_long, room)
    named = [tray for tray in trays if tray.named]
    return Fitted(
        blocks=tuple(tray.packed() for tray in named),
        tokens=budget_tokens - room,
        left_out=tuple(tray.block.id for tray in trays if not tray.named),
    )


def _reserve_headers(trays: Sequence[_Tray], share: int, budget: int) -> int:
    """Name the results in order while the headers stay within their share; the first one in any case."""
    spent = 0
    for place, tray in enumerate(trays):
        if spent + tray.block.header_tokens > (budget if place == 0 else share):
            break
        tray.named = True
        spent += tray.block.header_tokens
    return spent


def _fill(trays: Sequence[_Tray], too_long: Sequence[tuple[_Tray, Piece]], room: int) -> int:
    """Use what is left: beginnings of hits that show nothing yet, other headers, then whole sections."""
    start = room
    for tray, piece in too_long:
        if not tray.ranges:
            room -= tray.show_beginning(piece, room) or 0
    for tray in trays:
        if not tray.named and tray.block.header_tokens <= room:
            tray.named = True
            room -= tray.block.header_tokens
    shown = [(-each.score, place, each) for place, tray in enumerate(trays) for each in tray.ranges]
    for _, place, each in sorted(shown, key=lambda entry: (entry[0], entry[1], entry[2].first_line)):
        room -= trays[place].widen(each, room)
    return start - room


@dataclass(frozen=True, slots=True)
class _Range:
    first_line: int
    last_line: int
    score: float
    tokens: int
    cut: bool = False


class _Tray:
    """One result while it is being filled: the ranges shown so far are apart and in order."""

    def __init__(self, block: Block, *, count: Count, range_tokens: int) -> None:
        self.block = block
        self.named = False
        self.ranges: list[_Range] = []
        self._count = count
        self._range_tokens = range_tokens

    def show(self, piece: Piece, room: int, *, cut: bool = False) -> int | None:
        """Put a passage in if it fits; returns the tokens it took, or None."""
        trimmed = self._trim(piece.first_line, piece.last_line)
        if trimmed is None:
            return 0
        ranges = self._with(*trimmed, piece.score, cut)
        header = 0 if self.named else self.block.header_tokens
        extra = self._cost(ranges) - self._cost(self.ranges) + header
        if extra > room:
            return None
        self.named = True
        self.ranges = ranges
        return extra

    def show_beginning(self, piece: Piece, room: int) -> int | None:
        """As many whole lines of a passage as fit, if they are worth it."""
        header = 0 if self.named else self.block.header_tokens
        room_for_text = room - header - (self._range_tokens if self.ranges else 0)
        fitting, too_many = piece.first_line - 1, piece.last_line
        while too_many - fitting > 1:
            middle = (fitting + too_many) // 2
            if self._count(self._text(piece.first_line, middle)) <= room_for_text:
                fitting = middle
            else:
                too_many = middle
        if fitting < piece.first_line or self._count(self._text(piece.first_line, fitting)) < _LEAST_CUT:
            return None
        return self.show(Piece(piece.first_line, fitting, piece.score), room, cut=True)

    def widen(self, shown: _Range, room: int) -> int:
        """Show the smallest section around a range instead of the range, if that fits."""
        if shown not in self.ranges or room < _LEAST_CUT:
            return 0
        around = [
            (last - first, first, last)
            for first, last in self.block.sections()
            if first <= shown.first_line
            and shown.last_line <= last
            and last - first > shown.last_line - shown.first_line
        ]
        if not around:
            return 0
        _, first, last = min(around)
        return self.show(Piece(first, last, shown.score), room) or 0

    def packed(self) -> Packed:
        shown = tuple(
            Shown(each.first_line, each.last_line, self._text(each.first_line, each.last_line), each.score, each.cut)
            for each in self.ranges
        )
        tokens = self.block.header_tokens + self._cost(self.ranges)
        return Packed(self.block.id, shown, tokens, left_out=sum(not self._covers(each) for each in self.block.pieces))

    def _cost(self, ranges: Sequence[_Range]) -> int:
        """The header names the first range; every further one names itself."""
        return sum(each.tokens for each in ranges) + self._range_tokens * max(0, len(ranges) - 1)

    def _with(self, first: int, last: int, score: float, cut: bool) -> list[_Range]:
        """The ranges with one more, which swallows those it touches. Blank lines between two do not part them."""
        apart: list[_Range] = []
        for each in self.ranges:
            if self._touch(each, first, last):
                cut = (cut and last > each.last_line) or (each.cut and each.last_line > last)
                first, last, score = min(first, each.first_line), max(last, each.last_line), max(score, each.score)
            else:
                apart.append(each)
        merged = _Range(first, last, score, self._count(self._text(first, last)), cut)
        return sorted([*apart, merged], key=lambda each: each.first_line)

    def _touch(self, each: _Range, first: int, last: int) -> bool:
        upper, lower = (each.last_line, first) if each.first_line <= first else (last, each.first_line)
        return not any(line.strip() for line in self.block.lines[upper : lower - 1])

    def _covers(self, piece: Piece) -> bool:
        trimmed = self._trim(piece.first_line, piece.last_line)
        return trimmed is None or any(
            each.first_line <= trimmed[0] and trimmed[1] <= each.last_line for each in self.ranges
        )

    def _trim(self, first: int, last: int) -> tuple[int, int] | None:
        """Without blank lines at both ends, and within the text."""
        first, last = max(1, first), min(last, len(self.block.lines))
        while first <= last and not self.block.lines[first - 1].strip():
            first += 1
        while last >= first and not self.block.lines[last - 1].strip():
            last -= 1
        return (first, last) if first <= last else None

    def _text(self, first: int, last: int) -> str:
        return "\n".join(self.block.lines[first - 1 : last])


# --- constitutional memories ----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A constitutional memory that may be shown above the results."""

    id: int
    title: str
    text: str
    weight: float = 1.0
    triggered: bool = False


@dataclass(frozen=True, slots=True)
class Ruled:
    shown: tuple[tuple[int, str], ...]  # id and text, or its headings where the text is too long
    named: tuple[int, ...]  # by title only
    tokens: int
    unnamed: int = 0  # even the title did not fit


def rules_budget(budget_tokens: int) -> int:
    """Rules never take more than a quarter of an answer, so that the hits stay in."""
    return min(_RULES_TOKENS, budget_tokens // _RULES_SHARE)


def rules(
    candidates: Sequence[Rule], *, count: Count, budget_tokens: int = _RULES_TOKENS, header_tokens: int = 0
) -> Ruled:
    """At most three texts, those whose triggers match first, then by weight; the others by title."""
    ordered = sorted(candidates, key=lambda rule: (not rule.triggered, -rule.weight, rule.id))
    names: dict[int, int] = {}
    for rule in ordered:
        cost = count(rule.title) + header_tokens
        if sum(names.values()) + cost > budget_tokens // _NAMES_SHARE:
            break
        names[rule.id] = cost
    room = budget_tokens - sum(names.values())
    shown: list[tuple[int, str]] = []
    for rule in ordered:
        if len(shown) == _RULES_MOST:
            break
        allowed = room + names.get(rule.id, 0) - count(rule.title) - header_tokens
        text = _whole_or_headings(rule.text, allowed, count)
        if text:
            room = allowed - count(text)
            names.pop(rule.id, None)
            shown.append((rule.id, text))
    room -= _name_the_rest(ordered, {id_ for id_, _ in shown}, names, room=room, count=count, header=header_tokens)
    tokens = budget_tokens - room
    return Ruled(tuple(shown), tuple(names), tokens, unnamed=len(candidates) - len(shown) - len(names))


def _name_the_rest(
    ordered: Sequence[Rule], shown: set[int], names: dict[int, int], *, room: int, count: Count, header: int
) -> int:
    """What the texts left over names those that are not named yet; returns what that took."""
    start = room
    for rule in ordered:
        cost = count(rule.title) + header
        if rule.id not in shown and rule.id not in names and cost <= room:
            names[rule.id] = cost
            room -= cost
    return start - room


def _whole_or_headings(text: str, room: int, count: Count) -> str:
    if count(text) <= room:
        return text.strip()
    headings = [line for line in text.splitlines() if line.startswith("#")]
    while headings and count("\n".join(headings)) > room:
        headings.pop()
    return "\n".join(headings)
