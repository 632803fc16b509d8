"""Which search results and rules fit into a token budget, so that as much as possible of the useful text is shown?

The best passage is added first, the others by expected usefulness per token, so neither the rest of the first result
nor a long passage displaces them; a passage next to lines that are already shown costs little. The remaining budget is
used to name more results and to extend fragments to whole sections. Lines are shown whole or not at all, unless not
even one line of the best result fits. The budget is never exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

Measure = Callable[[str], int]

# Chosen by measured recall: the usefulness of a passage grows with its score and, at the same score, with its rank.
_SCORE_POWER = 2.5
_PLACE_POWER = 1 / 3
# Added to each price, so that no passage wins only by being very short.
_BASE_PRICE = 200
# Passages compete in rounds of this size, best first; later rounds get only the room that earlier ones leave.
_ROUND = 64
# If the best passage is too long for the answer, an excerpt of it gets one part in this many of the room.
_EXCERPT_SHARE = 5
# A shorter excerpt of a passage is not worth showing.
_LEAST_CUT = 96
# The room reserved for each result's passage while better ones are shown whole.
_FEW_WORDS = 120
# The least room left for texts, even if the names take much.
_LEAST_TEXT = 3600
# A result with at least this share of the best score is about as useful, and is shown whole. If the best result is not
# a clear match, the lower share applies, since any of several results may have the answer.
_NEAR, _NEAR_UNCLEAR = 0.9, 0.7
# Results with less than this share of the best score were hardly ever useful: they are named, not quoted.
_FAR = 0.15
_PAID = -(10**9)

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
class MemoryBlock:
    """One result to be packed. All sizes are in a unit chosen by the caller, usually bytes."""

    id: int
    lines: Sequence[str] = ()  # the memory's whole text
    offsets: Sequence[int] = (0,)  # the size of all lines before each line, and the total size
    pieces: Sequence[Piece] = ()
    apart: bool = False  # its passages have different topics, such as the turns of a conversation
    wholes: Sequence[Piece] = ()  # explicitly requested texts: shown before all passages, if all of them fit
    sections: Callable[[], Sequence[tuple[int, int]]] = tuple  # line ranges of anchors, headings and the body; lazy
    header: int = 0  # the size of the result's name and fields
    score: float = 0.0  # of a result without text, such as a reference to text that was already sent


@dataclass(frozen=True, slots=True)
class Prices:
    """Extra sizes: of each line range after the first, of the list of them (once per result), and of a missing text."""

    range: int = 0
    list: int = 0
    empty: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """Lines that are shown in the answer. `cut`: they are part of a passage that is too long."""

    first_line: int
    last_line: int
    text: str
    score: float
    cut: bool = False
    clipped: bool = False  # not even one line fitted, so this is the beginning of one


@dataclass(frozen=True, slots=True)
class Packed:
    id: int
    shown: tuple[Shown, ...]  # by line number
    size: int


@dataclass(frozen=True, slots=True)
class PackedResults:
    blocks: tuple[Packed, ...]  # in the given order
    size: int
    left_out: tuple[int, ...] = ()  # results whose header did not fit


UseRemaining = Callable[[Sequence[int], int], int]
Clip = Callable[[str, int], tuple[str, int]]
Weigh = Callable[[str], float]


def pack(
    blocks: Sequence[MemoryBlock],
    *,
    budget: int,
    prices: Prices = Prices(),
    weigh: Weigh = len,
    use_remaining: UseRemaining = lambda listed, room: 0,
    clip: Clip = lambda line, room: ("", 0),
    breadth: bool = False,
    enough: int | None = None,
    match: float | None = None,
) -> PackedResults:
    """Pack results, best first, under a budget.

    `breadth`: every result gets its best passage, shortened if necessary, before any gets a second one. `enough`: only
    names, and passages nearly as good as the best, may use more than this. `match`: how well the best result answers,
    0 to 1; the better it does, the closer another must come to it to count as nearly as good.

    `weigh` returns how relevant a line is to the question, for passages that must be cut. `use_remaining` gets
    the named results and the room left, after the passages and again at the end; it returns the room that it used.
    `clip` returns the part of a line that fits into the room, and its size, so that the best result always has text.
    """
    drafts = [_ResultDraft(block, prices) for block in blocks]
    room = budget - _add_requested_texts(drafts, budget)
    spare = 0 if enough is None else min(room, max(0, budget - enough))
    quoted = drafts if enough is None else _near_the_best(drafts)
    if breadth:
        took = _first_of_each(drafts, quoted, room, room - spare, weigh, clip, near=near_share(match))
        room, spare = _paid(took, room - spare, spare)
    else:
        room -= spare
    room -= _hits(quoted, room, weigh)
    if not any(draft.named for draft in drafts):
        room -= _rest(drafts[:1], room, weigh)
    for draft in drafts[:1]:
        room -= draft.show_beginning(room, weigh, clip)
    room -= use_remaining([draft.block.id for draft in drafts if draft.named], room)
    room -= _rest(drafts, room, weigh, quoted=quoted)
    room -= use_remaining([draft.block.id for draft in drafts if draft.named], room)
    room -= _widen(drafts, room)
    return PackedResults(
        blocks=tuple(draft.packed() for draft in drafts if draft.named),
        size=budget - room - spare,
        left_out=tuple(draft.block.id for draft in drafts if not draft.named),
    )


def _add_requested_texts(drafts: Sequence[_ResultDraft], room: int) -> int:
    """Add explicitly requested texts, best result first; returns the room used."""
    start = room
    for draft in drafts:
        before, room_before = draft.state, room
        for piece in draft.block.wholes:
            took = draft.show(piece, room)
            if took is None:
                draft.state, room = before, room_before
                break
            room -= took
    return start - room


def _paid(took: int, room: int, spare: int) -> tuple[int, int]:
    """Subtract what was used from `room`, and any excess from `spare`."""
    return room - min(took, room), spare - (took - min(took, room))


def near_share(match: float | None) -> float:
    """The share of the best score at which a result counts as nearly as good, depending on the best one's match."""
    return _NEAR if match is None else min(_NEAR, max(_NEAR_UNCLEAR, match))


def _near_the_best(drafts: Sequence[_ResultDraft]) -> list[_ResultDraft]:
    """The results to quote; those far below the best are only named."""
    best = max((draft.best.score for draft in drafts), default=0.0)
    return [draft for draft in drafts if draft.best.score >= _FAR * best]


def _first_of_each(
    drafts: Sequence[_ResultDraft],
    quoted: Sequence[_ResultDraft],
    room: int,
    enough: int,
    weigh: Weigh,
    clip: Clip,
    *,
    near: float,
) -> int:
    """Name every result and show its best passage; returns the room used.

    Results nearly as good as the best are shown whole while there is room. The others compete for the room up to
    `enough`, with a few words reserved for each. Passages that do not fit are cut; better ones get more room.
    """
    start = room
    for draft in drafts:
        if not draft.named and draft.bare <= room:
            draft.named = True
            room -= draft.bare
    beyond = max(0, min(start - enough, room - _LEAST_TEXT))
    unplaced = [(draft, draft.best) for draft in quoted if draft.named and not draft.ranges and draft.block.pieces]
    least = {id(draft): min(_FEW_WORDS, max(0, draft.price(piece))) for draft, piece in unplaced}
    kept_back = sum(least.values())
    near *= max((piece.score for _, piece in unplaced), default=0.0)
    estimates = {id(draft): _estimate(piece, place) for place, (draft, piece) in enumerate(unplaced, 1)}
    bargains = sorted(unplaced, key=lambda pair: -_worth(estimates[id(pair[0])], pair[0].price(pair[1])))
    for draft, piece in sorted(bargains, key=lambda pair: pair[1].score < near):
        others = kept_back - least[id(draft)]
        took = draft.show(piece, room - others - (0 if piece.score >= near else beyond))
        if took is not None:
            room -= took
            kept_back = others
    cut = [(draft, piece) for draft, piece in unplaced if not draft.ranges]
    for number, (draft, piece) in enumerate(cut):
        share = piece.score / (sum(other.score for _, other in cut[number:]) or 1)
        allowed = min(room // (len(cut) - number), max(least[id(draft)], int((room - beyond) * share)))
        took = draft.show_excerpt(piece, allowed, weigh)
        room -= took if took is not None else draft.show_beginning(allowed, weigh, clip)
    return start - room


def _hits(drafts: Sequence[_ResultDraft], room: int, weigh: Weigh) -> int:
    """Show the best passage of all, then those with the highest estimate per price; returns the room used."""
    start = room
    pieces = [(draft, piece) for draft in drafts for piece in draft.matched()]
    pieces.sort(key=lambda pair: -pair[1].score)
    seen: dict[int, int] = {}
    for at in range(0, len(pieces), _ROUND):
        if at and room < _LEAST_CUT:
            break
        unplaced = []
        for place, (draft, piece) in enumerate(pieces[at : at + _ROUND], start=at + 1):
            # Further passages of one document add less new information.
            nth = seen[draft.block.id] = 1 if draft.block.apart else seen.get(draft.block.id, 0) + 1
            if cut := draft.trimmed(piece):
                unplaced.append((draft, cut, _estimate(piece, place) / nth))
        if not at and unplaced:
            draft, best, _ = unplaced.pop(0)
            took = draft.show(best, room)
            if took is None:
                took = draft.show_excerpt(best, room // _EXCERPT_SHARE, weigh)
            room -= took or 0
        room -= _choose_passages(unplaced, room)
    return start - room


_Unplaced = Sequence[tuple["_ResultDraft", Piece, float]]  # with the estimate of each


def _choose_passages(unplaced: _Unplaced, room: int) -> int:
    """Fill by estimate per price, or by estimate only if that adds up to more; returns the room used.

    If only a few passages fit, cheap ones could otherwise waste the room of a better one.
    """
    prices = [draft.price(piece) for draft, piece, _ in unplaced]
    if all(price > room for price in prices):
        return 0
    by_estimate = _best_one_by_one(unplaced, prices, room)
    before = [(draft, draft.state) for draft, _, _ in unplaced]
    took, estimated = _fill(unplaced, prices, room)
    if sum(unplaced[place][2] for place in by_estimate) <= estimated:
        return took
    for draft, state in before:
        draft.state = state
    start = room
    for place in by_estimate:
        draft, piece, _ = unplaced[place]
        room -= draft.show(piece, room) or 0
    return start - room


def _best_one_by_one(unplaced: _Unplaced, prices: Sequence[int], room: int) -> list[int]:
    """The positions of the passages with the highest estimates that fit, by their prices when shown alone."""
    chosen = []
    estimates = [estimate for _, _, estimate in unplaced]
    for place in sorted(range(len(unplaced)), key=estimates.__getitem__, reverse=True):
        if prices[place] <= room:
            room -= prices[place]
            chosen.append(place)
    return chosen


def _fill(unplaced: _Unplaced, prices: list[int], room: int) -> tuple[int, float]:
    """Fill by estimate per price; returns the room used and the sum of the estimates."""
    start, estimated = room, 0.0
    of_draft: dict[int, list[int]] = {}
    for place, (draft, _, _) in enumerate(unplaced):
        of_draft.setdefault(id(draft), []).append(place)
    heap = [(-_worth(unplaced[place][2], price), place, price) for place, price in enumerate(prices)]
    heapify(heap)
    while heap:
        _, place, price = heappop(heap)
        if price != prices[place] or price > room:
            continue
        draft, piece, estimate = unplaced[place]
        few = len(draft.ranges) < 2
        room -= draft.show(piece, room) or 0
        estimated += estimate
        prices[place] = _PAID
        # The header is counted only once and adjacent passages need no line numbers, so other passages cost less now.
        for other in of_draft[id(draft)]:
            neighbour = unplaced[other][1]
            if prices[other] != _PAID and (few or draft.touches(piece, neighbour)):
                prices[other] = draft.price(neighbour)
                heappush(heap, (-_worth(unplaced[other][2], prices[other]), other, prices[other]))
    return start - room, estimated


def _estimate(piece: Piece, place: int) -> float:
    """How useful a passage probably is, as a relative value."""
    return float(max(piece.score, 0.0) ** _SCORE_POWER / place**_PLACE_POWER)


def _worth(estimate: float, price: int) -> float:
    return estimate / (max(price, 0) + _BASE_PRICE)


def _rest(
    drafts: Sequence[_ResultDraft], room: int, weigh: Weigh, *, quoted: Sequence[_ResultDraft] | None = None
) -> int:
    """Show excerpts of passages that are too long, then the names of other results; returns the room used."""
    start = room
    for draft in drafts if quoted is None else quoted:
        if draft.block.pieces and all(shown_range.cut for shown_range in draft.ranges):
            room -= draft.show_excerpt(draft.best, room, weigh) or 0
    for draft in drafts:
        if not draft.named and draft.bare <= room:
            draft.named = True
            room -= draft.bare
    return start - room


def _widen(drafts: Sequence[_ResultDraft], room: int) -> int:
    """Extend shown ranges to whole sections, best first; returns the room used."""
    start = room
    shown_ranges = [
        (-shown_range.score, place, shown_range) for place, draft in enumerate(drafts) for shown_range in draft.ranges
    ]
    for _, place, shown_range in sorted(shown_ranges, key=lambda entry: (entry[0], entry[1], entry[2].first_line)):
        room -= drafts[place].widen(shown_range, room)
    return start - room


@dataclass(frozen=True, slots=True)
class _Range:
    first_line: int
    last_line: int
    score: float
    cut: bool = False
    text: str = ""  # shown instead of the lines, if not empty
    size: int = 0  # of `text`


class _ResultDraft:
    """One result while it is being packed. The ranges shown so far are in order and do not touch."""

    def __init__(self, block: MemoryBlock, prices: Prices) -> None:
        self.block = block
        self.best = max(self.matched(), key=lambda piece: piece.score)  # an empty reference if it has no passages
        self.named = False
        self.ranges: list[_Range] = []
        self._prices = prices
        self._sections: Sequence[tuple[int, int]] | None = None

    @property
    def state(self) -> tuple[bool, list[_Range]]:
        """What is shown so far. Assigning an earlier state undoes later additions."""
        return self.named, self.ranges

    @state.setter
    def state(self, state: tuple[bool, list[_Range]]) -> None:
        self.named, self.ranges = state

    @property
    def bare(self) -> int:
        """The size of the result without any text."""
        return self.block.header + self._prices.empty

    def matched(self) -> Sequence[Piece]:
        """Its passages; an empty reference if it has none."""
        return self.block.pieces or (Piece(1, 0, self.block.score),)

    def trimmed(self, piece: Piece) -> Piece | None:
        """The piece limited to the text and without blank lines at both ends; None if nothing is left."""
        trimmed = self._trim(piece.first_line, piece.last_line)
        if trimmed is None:
            return None if self.block.pieces else piece
        return Piece(*trimmed, piece.score)

    def touches(self, piece: Piece, other: Piece) -> bool:
        """Would `other` be merged into the range that contains `piece`?"""
        around = next(
            (
                shown_range
                for shown_range in self.ranges
                if shown_range.first_line <= piece.first_line <= shown_range.last_line
            ),
            None,
        )
        return around is not None and self._touch(around, other.first_line, other.last_line)

    def price(self, piece: Piece) -> int:
        """The room that showing the piece would take now."""
        return self._with(piece.first_line, piece.last_line)[0] if piece.last_line else self.bare

    def show(self, piece: Piece, room: int, *, cut: bool = False) -> int | None:
        """Show lines if they fit; returns the room used, or None if they do not fit."""
        trimmed = self._trim(piece.first_line, piece.last_line)
        price, swallowed = self._with(*trimmed) if trimmed else (0 if self.named else self.bare, ())
        if price > room:
            return None
        self.named = True
        if trimmed:
            merged = _Range(
                min([trimmed[0], *(shown_range.first_line for shown_range in swallowed)]),
                max([trimmed[1], *(shown_range.last_line for shown_range in swallowed)]),
                max([piece.score, *(shown_range.score for shown_range in swallowed)]),
                cut,
            )
            untouched = [shown_range for shown_range in self.ranges if shown_range not in swallowed]
            self.ranges = sorted([*untouched, merged], key=lambda shown_range: shown_range.first_line)
        return price

    def show_excerpt(self, piece: Piece, room: int, weigh: Weigh) -> int | None:
        """Show whole lines of a passage around its most relevant one, unless too few fit; returns the room used."""
        # An excerpt that is already shown may grow.
        freed = -sum(map(self._taken, self.ranges))
        allowed = room - (freed if self.named else self.block.header)
        trimmed = self._trim(piece.first_line, piece.last_line) if allowed > 0 else None
        if trimmed is None:
            return None
        weights = [weigh(line) for line in self.block.lines[trimmed[0] - 1 : trimmed[1]]]
        window = self._window(trimmed, weights, allowed)
        if window is None or self._size(*window) < min(_LEAST_CUT, self._size(*trimmed)):
            return None
        return self.show(Piece(*window, piece.score), room, cut=window != trimmed)

    def show_beginning(self, room: int, weigh: Weigh, clip: Clip) -> int:
        """If nothing is shown yet, show the beginning of the most relevant line; returns the room used."""
        allowed = room - (-self._prices.empty if self.named else self.block.header)
        if self.ranges or not self.block.pieces or allowed < _LEAST_CUT:
            return 0
        piece = self.best
        trimmed = self._trim(piece.first_line, piece.last_line)
        if trimmed is None:
            return 0
        lines = self.block.lines
        number = max(range(trimmed[0], trimmed[1] + 1), key=lambda n: (weigh(lines[n - 1]), -n))
        text, size = clip(lines[number - 1], allowed)
        if not text or size > allowed:
            return 0
        self.named = True
        self.ranges = [_Range(number, number, piece.score, True, text, size)]
        return room - allowed + size

    def _window(self, around: tuple[int, int], weights: Sequence[float], allowed: int) -> tuple[int, int] | None:
        """Lines around the most relevant one that fits, extended to the more relevant side first while they fit."""
        fitting = [n for n in range(around[0], around[1] + 1) if 0 < self._size(n, n) <= allowed]
        if not fitting:
            return None
        first = last = max(fitting, key=lambda n: (weights[n - around[0]], -n))
        while True:
            sides = [(first - 1, last)] if first > around[0] else []
            sides += [(first, last + 1)] if last < around[1] else []
            sides = [side for side in sides if self._size(*side) <= allowed]
            if not sides:
                return self._trim(first, last)
            first, last = max(sides, key=lambda side: weights[(side[0] if side[0] < first else side[1]) - around[0]])

    def widen(self, shown_range: _Range, room: int) -> int:
        """Extend a range to the smallest section around it, if that fits; returns the room used."""
        if room < _LEAST_CUT or shown_range not in self.ranges or self._is_section(shown_range):
            return 0
        if self._sections is None:
            self._sections = self.block.sections()
        around = [
            (last - first, first, last)
            for first, last in self._sections
            if first <= shown_range.first_line
            and shown_range.last_line <= last
            and last - first > shown_range.last_line - shown_range.first_line
        ]
        if not around:
            return 0
        _, first, last = min(around)
        return self.show(Piece(first, last, shown_range.score), room) or 0

    def _is_section(self, shown_range: _Range) -> bool:
        """Does the range begin with a heading or a tag, and end before one or at the end of the text?"""
        lines = self.block.lines
        below = next((line for line in lines[shown_range.last_line :] if line.strip()), "#")
        return all(line.lstrip().startswith(("#", "<!--")) for line in (lines[shown_range.first_line - 1], below))

    def packed(self) -> Packed:
        packed_ranges = tuple(
            Shown(
                shown_range.first_line,
                shown_range.last_line,
                shown_range.text or self._text(shown_range.first_line, shown_range.last_line),
                shown_range.score,
                shown_range.cut,
                clipped=bool(shown_range.text),
            )
            for shown_range in self.ranges
        )
        size = self.block.header + sum(map(self._taken, self.ranges))
        size += self._naming(len(self.ranges)) if self.ranges else self._prices.empty
        return Packed(self.block.id, packed_ranges, size)

    def _naming(self, ranges: int) -> int:
        """The size of the line numbers of ranges after the first, which is part of the header."""
        return self._prices.list + self._prices.range * (ranges - 1) if ranges > 1 else 0

    def _with(self, first: int, last: int) -> tuple[int, Sequence[_Range]]:
        """The additional room that these lines would take, and the shown ranges with which they would be merged."""
        if not self.ranges:
            return (-self._prices.empty if self.named else self.block.header) + self._size(first, last), ()
        swallowed = []
        gone = 0
        for shown_range in self.ranges:
            if self._touch(shown_range, first, last):
                first, last = min(first, shown_range.first_line), max(last, shown_range.last_line)
                gone += self._taken(shown_range)
                swallowed.append(shown_range)
        after = len(self.ranges) - len(swallowed) + 1
        naming = self._naming(after) - self._naming(len(self.ranges))
        return self._size(first, last) - gone + naming, swallowed

    def _touch(self, shown_range: _Range, first: int, last: int) -> bool:
        """Are there only blank lines, or none, between the range and these lines?"""
        upper, lower = (
            (shown_range.last_line, first) if shown_range.first_line <= first else (last, shown_range.first_line)
        )
        lines = self.block.lines
        return not any(lines[number].strip() for number in range(upper, lower - 1))

    def _trim(self, first: int, last: int) -> tuple[int, int] | None:
        """The range limited to the text and without blank lines at both ends; None if nothing is left."""
        first, last = max(1, first), min(last, len(self.block.lines))
        while first <= last and not self.block.lines[first - 1].strip():
            first += 1
        while last >= first and not self.block.lines[last - 1].strip():
            last -= 1
        return (first, last) if first <= last else None

    def _size(self, first: int, last: int) -> int:
        return self.block.offsets[last] - self.block.offsets[first - 1] if last >= first else 0

    def _taken(self, shown_range: _Range) -> int:
        return shown_range.size if shown_range.text else self._size(shown_range.first_line, shown_range.last_line)

    def _text(self, first: int, last: int) -> str:
        return "\n".join(self.block.lines[first - 1 : last])


# --- constitutional memories ----------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """A constitutional memory that may be shown above the results."""

    id: int
    name_size: int  # the size of its name and fields
    text: str
    weight: float = 1.0
    triggered: bool = False


@dataclass(frozen=True, slots=True)
class Ruled:
    shown: tuple[tuple[int, str], ...]  # id and text, or headings only if the text is too long
    named: tuple[int, ...]  # shown by title only
    size: int
    unnamed: int = 0  # rules whose title did not fit


def rules_budget(budget_tokens: int) -> int:
    """Rules take at most a quarter of an answer, so that there is room for results."""
    return min(_RULES_TOKENS, budget_tokens // _RULES_SHARE)


def rules(candidates: Sequence[RuleText], *, budget: int, measure: Measure) -> Ruled:
    """At most three texts, rules with matching triggers first, then by weight; the others by title.

    All sizes are in a unit chosen by the caller; `measure` returns the size of a text, without the rule's name.
    """
    ordered = sorted(candidates, key=lambda rule: (not rule.triggered, -rule.weight, rule.id))
    names: dict[int, int] = {}
    for rule in ordered:
        if sum(names.values()) + rule.name_size > budget // _NAMES_SHARE:
            break
        names[rule.id] = rule.name_size
    room = budget - sum(names.values())
    lines: list[tuple[int, str]] = []
    for rule in ordered:
        if len(lines) == _RULES_MOST:
            break
        allowed = room + names.get(rule.id, 0) - rule.name_size
        text = _whole_or_headings(rule.text, allowed, measure)
        if text:
            room = allowed - measure(text)
            names.pop(rule.id, None)
            lines.append((rule.id, text))
    # The remaining room is used to name further rules.
    for rule in ordered:
        if rule.id not in names and rule.id not in dict(lines) and rule.name_size <= room:
            names[rule.id] = rule.name_size
            room -= rule.name_size
    unnamed = len(candidates) - len(lines) - len(names)
    return Ruled(tuple(lines), tuple(names), budget - room, unnamed=unnamed)


def _whole_or_headings(text: str, room: int, measure: Measure) -> str:
    if measure(text) <= room:
        return text.strip()
    headings = [line for line in text.splitlines() if line.startswith("#")]
    while headings and measure("\n".join(headings)) > room:
        headings.pop()
    return "\n".join(headings)
