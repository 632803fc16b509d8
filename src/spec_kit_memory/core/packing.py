"""Which search results and rules fit into a token budget, so that as much as possible of what was found is shown?

The best passage is added first, the others by expected usefulness per token, so neither the tail of the first hit nor
a long passage displaces them; a passage next to lines that are already shown costs little. The remaining budget is
used to name more results and to extend fragments to whole sections. Lines are shown whole or not at all, unless not
even one line of the best result fits. The budget is never exceeded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

__all__ = [
    "Fitted",
    "MemoryBlock",
    "Packed",
    "Piece",
    "Prices",
    "RuleText",
    "Ruled",
    "Shown",
    "fit",
    "rules",
    "rules_budget",
]

Measure = Callable[[str], int]

# Chosen by recall. A passage was wanted the more often, the higher its score and, at the same score, its place.
_SCORE_POWER = 2.5
_PLACE_POWER = 1 / 3
# Added to each price, so that no passage wins by being very short.
_BASE_PRICE = 200
# So many of the best passages compete with each other; the next ones only for what they leave.
_ROUND = 64
# A best hit too long for the answer shows its best lines in this share of it.
_EXCERPT_SHARE = 5
# A piece of a passage for less than this is not worth showing.
_LEAST_CUT = 96
# What each result keeps for its passage while better ones are shown whole.
_FEW_WORDS = 120
# Where names are long, so much is left for texts all the same.
_LEAST_TEXT = 3600
# With this share of the best one's score a result was wanted nearly as often: it is shown whole. Where the best is no
# clear match, many are as good, and the answer may be any of them.
_NEAR, _NEAR_UNCLEAR = 0.9, 0.7
# Results with less than this share of the best one's score were hardly ever wanted: they are named, not quoted.
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
    """One result on its way into the answer. Sizes are in one unit of the caller's choice, mostly bytes."""

    id: int
    lines: Sequence[str] = ()  # the memory's whole text
    offsets: Sequence[int] = (0,)  # the size of all lines before each, and of all of them
    pieces: Sequence[Piece] = ()
    apart: bool = False  # its passages are about different things, as the turns of a conversation are
    wholes: Sequence[Piece] = ()  # asked for: before all passages, if all of them fit
    sections: Callable[[], Sequence[tuple[int, int]]] = tuple  # line ranges of anchors, headings, the body; if needed
    header: int = 0  # what naming the result costs
    score: float = 0.0  # of a result that has nothing to show, such as a reference to what was sent already


@dataclass(frozen=True, slots=True)
class Prices:
    """What naming a line range beside the first costs, once for each result with such ranges, and having no text."""

    range: int = 0
    list: int = 0
    empty: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """Lines that go into the answer. `cut`: they are a part of a passage that is too long."""

    first_line: int
    last_line: int
    text: str
    score: float
    cut: bool = False
    clipped: bool = False  # not even one line of it fitted: the beginning of one


@dataclass(frozen=True, slots=True)
class Packed:
    id: int
    shown: tuple[Shown, ...]  # in the order of their lines
    size: int


@dataclass(frozen=True, slots=True)
class Fitted:
    blocks: tuple[Packed, ...]  # in the order given
    size: int
    left_out: tuple[int, ...] = ()  # results of which not even the header fitted


Beside = Callable[[Sequence[int], int], int]
Clip = Callable[[str, int], tuple[str, int]]
Weigh = Callable[[str], float]


def fit(
    blocks: Sequence[MemoryBlock],
    *,
    budget: int,
    prices: Prices = Prices(),
    weigh: Weigh = len,
    beside: Beside = lambda listed, room: 0,
    clip: Clip = lambda line, room: ("", 0),
    breadth: bool = False,
    enough: int | None = None,
    match: float | None = None,
) -> Fitted:
    """Pack results, best first, under a budget.

    `breadth`: every result has its best passage, shortened if need be, before anybody's second; there must be room.
    `enough`: only names, and passages nearly as good as the best, go beyond that. `match`: how well the best answers,
    0 to 1; the surer it is, the closer another must come to that.

    `weigh` says how much a line has to do with the question, for passages that must be cut. `beside` is told which
    results are named and what room is left once the hits are in, and again at the end; it returns what it took.
    `clip` gives the part of a line that fits some room, and its size: the best result is never without a word.
    """
    trays = [_Tray(block, prices) for block in blocks]
    room = budget - _wholes(trays, budget)
    spare = 0 if enough is None else min(room, max(0, budget - enough))
    quoted = trays if enough is None else _near_the_best(trays)
    if breadth:
        took = _first_of_each(trays, quoted, room, room - spare, weigh, clip, near=near_share(match))
        room, spare = _paid(took, room - spare, spare)
    else:
        room -= spare
    room -= _hits(quoted, room, weigh)
    if not any(tray.named for tray in trays):
        room -= _rest(trays[:1], room, weigh)
    for tray in trays[:1]:
        room -= tray.show_beginning(room, weigh, clip)
    room -= beside([tray.block.id for tray in trays if tray.named], room)
    room -= _rest(trays, room, weigh, quoted=quoted)
    room -= beside([tray.block.id for tray in trays if tray.named], room)
    room -= _widen(trays, room)
    return Fitted(
        blocks=tuple(tray.packed() for tray in trays if tray.named),
        size=budget - room - spare,
        left_out=tuple(tray.block.id for tray in trays if not tray.named),
    )


def _wholes(trays: Sequence[_Tray], room: int) -> int:
    """Texts that were asked for as a whole, best result first."""
    start = room
    for tray in trays:
        before, room_before = tray.state, room
        for piece in tray.block.wholes:
            took = tray.show(piece, room)
            if took is None:
                tray.state, room = before, room_before
                break
            room -= took
    return start - room


def _paid(took: int, room: int, spare: int) -> tuple[int, int]:
    """What was taken comes from what is to be filled, then from what is to be spared."""
    return room - min(took, room), spare - (took - min(took, room))


def near_share(match: float | None) -> float:
    """Which share of the best one's score is nearly as good, by how well the best answers."""
    return _NEAR if match is None else min(_NEAR, max(_NEAR_UNCLEAR, match))


def _near_the_best(trays: Sequence[_Tray]) -> list[_Tray]:
    """What is far below the best is named only."""
    best = max((tray.best.score for tray in trays), default=0.0)
    return [tray for tray in trays if tray.best.score >= _FAR * best]


def _first_of_each(
    trays: Sequence[_Tray],
    quoted: Sequence[_Tray],
    room: int,
    enough: int,
    weigh: Weigh,
    clip: Clip,
    *,
    near: float,
) -> int:
    """Name every result and show its best passage.

    What is nearly as good as the best is shown whole while there is room. The others compete for what is enough, each
    with a few words kept for it; what does not fit as a whole is shown in part, the more of it the better it is.
    """
    start = room
    for tray in trays:
        if not tray.named and tray.bare <= room:
            tray.named = True
            room -= tray.bare
    beyond = max(0, min(start - enough, room - _LEAST_TEXT))
    waiting = [(tray, tray.best) for tray in quoted if tray.named and not tray.ranges and tray.block.pieces]
    least = {id(tray): min(_FEW_WORDS, max(0, tray.price(piece))) for tray, piece in waiting}
    kept_back = sum(least.values())
    near *= max((piece.score for _, piece in waiting), default=0.0)
    estimates = {id(tray): _estimate(piece, place) for place, (tray, piece) in enumerate(waiting, 1)}
    bargains = sorted(waiting, key=lambda pair: -_worth(estimates[id(pair[0])], pair[0].price(pair[1])))
    for tray, piece in sorted(bargains, key=lambda pair: pair[1].score < near):
        others = kept_back - least[id(tray)]
        took = tray.show(piece, room - others - (0 if piece.score >= near else beyond))
        if took is not None:
            room -= took
            kept_back = others
    cut = [(tray, piece) for tray, piece in waiting if not tray.ranges]
    for number, (tray, piece) in enumerate(cut):
        share = piece.score / (sum(other.score for _, other in cut[number:]) or 1)
        allowed = min(room // (len(cut) - number), max(least[id(tray)], int((room - beyond) * share)))
        took = tray.show_excerpt(piece, allowed, weigh)
        room -= took if took is not None else tray.show_beginning(allowed, weigh, clip)
    return start - room


def _hits(trays: Sequence[_Tray], room: int, weigh: Weigh) -> int:
    """The best passage of all, then those with the highest estimate for their price."""
    start = room
    pieces = [(tray, piece) for tray in trays for piece in tray.matched()]
    pieces.sort(key=lambda pair: -pair[1].score)
    seen: dict[int, int] = {}
    for at in range(0, len(pieces), _ROUND):
        if at and room < _LEAST_CUT:
            break
        waiting = []
        for place, (tray, piece) in enumerate(pieces[at : at + _ROUND], start=at + 1):
            # A further passage of one document tells less that is new.
            nth = seen[tray.block.id] = 1 if tray.block.apart else seen.get(tray.block.id, 0) + 1
            if cut := tray.trimmed(piece):
                waiting.append((tray, cut, _estimate(piece, place) / nth))
        if not at and waiting:
            tray, best, _ = waiting.pop(0)
            took = tray.show(best, room)
            if took is None:
                took = tray.show_excerpt(best, room // _EXCERPT_SHARE, weigh)
            room -= took or 0
        room -= _compete(waiting, room)
    return start - room


_Waiting = Sequence[tuple["_Tray", Piece, float]]  # with how likely each is wanted, up to a factor


def _compete(waiting: _Waiting, room: int) -> int:
    """Fill by the estimate for the price, or by the estimate alone if that adds up to more; returns what it took.

    Where only a few fit, cheap ones may leave a gap in the place of a better one.
    """
    prices = [tray.price(piece) for tray, piece, _ in waiting]
    if all(price > room for price in prices):
        return 0
    by_estimate = _best_alone(waiting, prices, room)
    before = [(tray, tray.state) for tray, _, _ in waiting]
    took, estimated = _fill(waiting, prices, room)
    if sum(waiting[place][2] for place in by_estimate) <= estimated:
        return took
    for tray, state in before:
        tray.state = state
    start = room
    for place in by_estimate:
        tray, piece, _ = waiting[place]
        room -= tray.show(piece, room) or 0
    return start - room


def _best_alone(waiting: _Waiting, prices: Sequence[int], room: int) -> list[int]:
    """The most promising that fit, each at the price that it has by itself."""
    chosen = []
    estimates = [estimate for _, _, estimate in waiting]
    for place in sorted(range(len(waiting)), key=estimates.__getitem__, reverse=True):
        if prices[place] <= room:
            room -= prices[place]
            chosen.append(place)
    return chosen


def _fill(waiting: _Waiting, prices: list[int], room: int) -> tuple[int, float]:
    """By the estimate for the price; what it took, and the sum of their estimates."""
    start, estimated = room, 0.0
    of_tray: dict[int, list[int]] = {}
    for place, (tray, _, _) in enumerate(waiting):
        of_tray.setdefault(id(tray), []).append(place)
    heap = [(-_worth(waiting[place][2], price), place, price) for place, price in enumerate(prices)]
    heapify(heap)
    while heap:
        _, place, price = heappop(heap)
        if price != prices[place] or price > room:
            continue
        tray, piece, estimate = waiting[place]
        few = len(tray.ranges) < 2
        room -= tray.show(piece, room) or 0
        estimated += estimate
        prices[place] = _PAID
        # A header is paid once, and a neighbour needs no line numbers of its own: the others cost less now.
        for other in of_tray[id(tray)]:
            beside = waiting[other][1]
            if prices[other] != _PAID and (few or tray.touches(piece, beside)):
                prices[other] = tray.price(beside)
                heappush(heap, (-_worth(waiting[other][2], prices[other]), other, prices[other]))
    return start - room, estimated


def _estimate(piece: Piece, place: int) -> float:
    """How likely a passage is wanted, up to a factor."""
    return float(max(piece.score, 0.0) ** _SCORE_POWER / place**_PLACE_POWER)


def _worth(estimate: float, price: int) -> float:
    return estimate / (max(price, 0) + _BASE_PRICE)


def _rest(trays: Sequence[_Tray], room: int, weigh: Weigh, *, quoted: Sequence[_Tray] | None = None) -> int:
    """The best lines of hits that are too long, then the names of the others."""
    start = room
    for tray in trays if quoted is None else quoted:
        if tray.block.pieces and all(shown_range.cut for shown_range in tray.ranges):
            room -= tray.show_excerpt(tray.best, room, weigh) or 0
    for tray in trays:
        if not tray.named and tray.bare <= room:
            tray.named = True
            room -= tray.bare
    return start - room


def _widen(trays: Sequence[_Tray], room: int) -> int:
    """Whole sections instead of fragments, the best first."""
    start = room
    shown_ranges = [
        (-shown_range.score, place, shown_range) for place, tray in enumerate(trays) for shown_range in tray.ranges
    ]
    for _, place, shown_range in sorted(shown_ranges, key=lambda entry: (entry[0], entry[1], entry[2].first_line)):
        room -= trays[place].widen(shown_range, room)
    return start - room


@dataclass(frozen=True, slots=True)
class _Range:
    first_line: int
    last_line: int
    score: float
    cut: bool = False
    text: str = ""  # instead of the lines, and what it takes
    size: int = 0


class _Tray:
    """One result while it is being filled: the ranges shown so far are apart and in order."""

    def __init__(self, block: MemoryBlock, prices: Prices) -> None:
        self.block = block
        self.named = False
        self.ranges: list[_Range] = []
        self._prices = prices
        self._sections: Sequence[tuple[int, int]] | None = None

    @property
    def state(self) -> tuple[bool, list[_Range]]:
        """What is shown so far; to set it again takes back what came after."""
        return self.named, self.ranges

    @state.setter
    def state(self, state: tuple[bool, list[_Range]]) -> None:
        self.named, self.ranges = state

    @property
    def bare(self) -> int:
        """What it costs to name the result without a text."""
        return self.block.header + self._prices.empty

    @property
    def best(self) -> Piece:
        """Its best passage; a bare reference where there is none."""
        return max(self.matched(), key=lambda piece: piece.score)

    def matched(self) -> Sequence[Piece]:
        """Its passages; a bare reference where there are none."""
        return self.block.pieces or (Piece(1, 0, self.block.score),)

    def trimmed(self, piece: Piece) -> Piece | None:
        """Within the text, without blank lines at both ends."""
        trimmed = self._trim(piece.first_line, piece.last_line)
        if trimmed is None:
            return None if self.block.pieces else piece
        return Piece(*trimmed, piece.score)

    def touches(self, piece: Piece, other: Piece) -> bool:
        """Would the other be one range with what was just shown?"""
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
        """What showing it would cost now."""
        return self._with(piece.first_line, piece.last_line)[0] if piece.last_line else self.bare

    def show(self, piece: Piece, room: int, *, cut: bool = False) -> int | None:
        """Put lines in if they fit; returns what they took, or None."""
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
        """The whole lines of a passage around the one that has most to do with the question, if worth it."""
        # An excerpt that is shown already may grow.
        beside = -sum(map(self._taken, self.ranges))
        allowed = room - (beside if self.named else self.block.header)
        trimmed = self._trim(piece.first_line, piece.last_line) if allowed > 0 else None
        if trimmed is None:
            return None
        weights = [weigh(line) for line in self.block.lines[trimmed[0] - 1 : trimmed[1]]]
        window = self._window(trimmed, weights, allowed)
        if window is None or self._size(*window) < min(_LEAST_CUT, self._size(*trimmed)):
            return None
        return self.show(Piece(*window, piece.score), room, cut=window != trimmed)

    def show_beginning(self, room: int, weigh: Weigh, clip: Clip) -> int:
        """If nothing is shown yet: the line that has most to do with the question, as far as it goes."""
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
        """From the weightiest line that fits, as far as it goes, to the weightier side first."""
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
        """Show the smallest section around a range instead of the range, if that fits."""
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
        """Does it begin with a heading or a tag, and end before one or with the text?"""
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
        """The header names the first range; every further one names itself."""
        return self._prices.list + self._prices.range * (ranges - 1) if ranges > 1 else 0

    def _with(self, first: int, last: int) -> tuple[int, Sequence[_Range]]:
        """What these lines would cost beside those shown, and which ranges they swallow by touching them."""
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
        """Blank lines between two do not part them."""
        upper, lower = (
            (shown_range.last_line, first) if shown_range.first_line <= first else (last, shown_range.first_line)
        )
        lines = self.block.lines
        return not any(lines[number].strip() for number in range(upper, lower - 1))

    def _trim(self, first: int, last: int) -> tuple[int, int] | None:
        """Without blank lines at both ends, and within the text."""
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
    name_size: int  # what naming it costs
    text: str
    weight: float = 1.0
    triggered: bool = False


@dataclass(frozen=True, slots=True)
class Ruled:
    shown: tuple[tuple[int, str], ...]  # id and text, or its headings where the text is too long
    named: tuple[int, ...]  # by title only
    size: int
    unnamed: int = 0  # even the title did not fit


def rules_budget(budget_tokens: int) -> int:
    """Rules never take more than a quarter of an answer, so that the hits stay in."""
    return min(_RULES_TOKENS, budget_tokens // _RULES_SHARE)


def rules(candidates: Sequence[RuleText], *, budget: int, measure: Measure) -> Ruled:
    """At most three texts, those whose triggers match first, then by weight; the others by title.

    Sizes are in one unit of the caller's choice; `measure` says what a text takes beside the name.
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
    # What the texts left over names those that are not named yet.
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
