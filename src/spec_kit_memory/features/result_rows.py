"""Which lines and fields of each result, and which fields beside them, fit into the token budget of an answer?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

from spec_kit_memory import answer_json
from spec_kit_memory.answers import (
    NO_SCORE_PARTS,
    Card,
    Explanation,
    FlatResult,
    Result,
    ScoreParts,
    SearchAnswer,
    ShownPassage,
)
from spec_kit_memory.core import long_lines, markdown, packing, tokens, words
from spec_kit_memory.core.kept_by_identity import KeptByIdentity
from spec_kit_memory.core.long_lines import LineLayout
from spec_kit_memory.core.memory import ContextType, Filter, Memory, Source, State, StoredPassage, Tier
from spec_kit_memory.core.packing import MemoryBlock, Packed, Piece, Prices, Shown
from spec_kit_memory.core.ranking import Scored
from spec_kit_memory.core.wording import title_beside_path
from spec_kit_memory.features import sessions
from spec_kit_memory.features.runtime import MAIN_CHECKOUT, OpenedText, Runtime
from spec_kit_memory.features.search import RankedMemory
from spec_kit_memory.requests import SearchRequest

# The fields of a result that are left out where there is no room, the most useful first.
OPTIONAL_FIELDS = ("id", "match", "title", "spec_folder", "created_at")
# If the caller sets no budget, an answer ends at about this many tokens, even if more was found.
ENOUGH_TOKENS = 1500
_MOST_NAMES = 10  # of sections, in a hint
# An answer with this many tokens has all fields about itself; in a smaller one the results come first.
AMPLE_TOKENS = 2000
# With this many tokens per result, each result has all its fields.
ROOMY_TOKENS = 150
# Fields about the answer itself that are left out where there is no room, the most useful first.
OPTIONAL_ANSWER_FIELDS = ("method", "total_found", "stats", "freshness", "query")
# The matches that were held back may take this fraction (one eighth) of the answer; beyond it they are only counted.
HELD_SHARE = 8
# Fields that are measured elsewhere, or are sent outside of the data.
UNMEASURED = frozenset(("outcome", "hints", "meta", "results"))


class AnswerFrame:
    """The fields of an answer besides its results: the required ones, and the optional ones that fit."""

    def __init__(self, answer: SearchAnswer, request: SearchRequest, *, budget: int) -> None:
        self.ample = budget >= AMPLE_TOKENS or bool(request.anchors) or request.group_by == "passage"
        self.roomy = budget >= ROOMY_TOKENS * min(request.limit, max(answer.total_found, 1))
        self.answer, sizes = _without_crowding(answer, budget * tokens.BYTES_PER_TOKEN)
        self.optional = {name: sizes.pop(name) for name in OPTIONAL_ANSWER_FIELDS if name in sizes}
        self.room = budget * tokens.BYTES_PER_TOKEN - len('{"results":[]}') - sum(sizes.values())
        if self.ample:
            self.room -= self.include(self.room)
        self.room = max(0, self.room)

    def include(self, room: int) -> int:
        """Add the optional fields that fit; returns the bytes that they take."""
        start = room
        for name, size in list(self.optional.items()):
            if size <= room:
                room -= self.optional.pop(name)
        return start - room


def _without_crowding(answer: SearchAnswer, room: int) -> tuple[SearchAnswer, dict[str, int]]:
    """The answer without details that would crowd out the results, and the sizes of its fields."""
    held_back, concepts = answer.held_back, answer.concepts
    while held_back.best and answer_json.size(held_back) > room // HELD_SHARE:
        held_back = replace(held_back, best=held_back.best[:-1])
    if concepts and answer_json.size(concepts) > room // 2:
        concepts = {concept: replace(matches, best=None) for concept, matches in concepts.items()}
    if held_back is not answer.held_back or concepts is not answer.concepts:
        answer = replace(answer, held_back=held_back, concepts=concepts)
    sizes = answer_json.field_sizes(answer, without=UNMEASURED)
    if sum(sizes.values()) - sum(sizes.get(name, 0) for name in OPTIONAL_ANSWER_FIELDS) > room:
        answer = replace(answer, explain=Explanation())
        sizes.pop("explain", None)
    return answer, sizes


@dataclass
class ResultBuilder:
    """Builds the results of one answer; text that this session was sent before is not sent again."""

    runtime: Runtime
    request: SearchRequest
    frame: AnswerFrame
    keywords: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._sent_marks = (
            sessions.sent_to(self.runtime, self.request.session_id) if self.request.dedup else frozenset()
        )
        self._opened: dict[int, OpenedText] = {}
        self._all_passages_by_id: dict[int, list[StoredPassage]] = {}
        self._passages_by_id: dict[int, Sequence[tuple[StoredPassage, Scored]]] = {}  # the passages of each result
        self._sent_ranges_by_id: dict[int, list[tuple[int, int]]] = {}
        self._shown_hashes: set[str] = set()
        self._neighbours_by_id: dict[int, tuple[Memory | None, Memory | None]] = {}
        self._fields_by_id: dict[int, dict[str, Any]] = {}  # of each result
        self._optional: dict[int, dict[str, int]] = {}  # for each result, the sizes of the fields added if they fit
        self.tokens_saved = 0  # tokens saved by sending sections only
        self.sections_left_out = 0  # sections that did not fit
        self.other_sections: Sequence[str] = ()  # those of the best result, if no result has a requested one

    def results(self, candidates: Sequence[RankedMemory], room: int) -> list[Result]:
        self._opened = self.runtime.opened_together([ranked.memory for ranked in candidates])
        if self.request.anchors:
            return self._sections(candidates, room)
        longest = max((len(opened.lines) for opened in self._opened.values()), default=1)
        further = ShownPassage(lines=f"{longest}-{longest}", text="", score=12.34)
        # The quotes of a text are counted with its lines.
        quotes = answer_json.size("")
        best_match = max((ranked.match for ranked in candidates if ranked.match is not None), default=None)
        fitted = packing.pack(
            [self._block(ranked) for ranked in candidates],
            budget=room,
            prices=Prices(
                range=answer_json.size(further) + len(",") - quotes, list=len('"passages":[],'), empty=quotes
            ),
            weigh=_weigher(self.keywords),
            use_remaining=self._use_remaining,
            clip=_clipper(self.keywords),
            breadth=self.frame.roomy and not all(ranked.memory.source is Source.CHAT for ranked in candidates),
            enough=ENOUGH_TOKENS * tokens.BYTES_PER_TOKEN if self.request.max_tokens is None else None,
            match=best_match if self.request.max_tokens is None else None,
        )
        for block in fitted.blocks:
            self._mark_parts(block)
        packed = {block.id: _in_lines(block, self._opened[block.id].layout) for block in fitted.blocks}
        return [self._result(ranked, packed[ranked.memory.id]) for ranked in candidates if ranked.memory.id in packed]

    def remember(self, shown_ids: Sequence[int], rules: Iterable[str]) -> None:
        """Record what was shown: for this session it is HOT now, and a memory whose content was sent counts as used."""
        if self.request.include_content:
            self.runtime.used(shown_ids)
        sent = self._shown_hashes.union(rules)
        if self.request.session_id and (shown_ids or sent):
            sessions.remember_shown(self.runtime, self.request.session_id, shown_ids, sent)
        else:
            sessions.remember_rules(self.runtime, rules)

    def _block(self, ranked: RankedMemory) -> MemoryBlock:
        opened = self._opened[ranked.memory.id]
        scored = self._passages_by_id[ranked.memory.id] = ranked.passages
        fresh = [(p, s) for p, s in scored if not (self._sent_marks and self._passage_was_sent(ranked, p))]
        wholes = self._unsent(ranked) if self.request.include_content else ()
        return MemoryBlock(
            id=ranked.memory.id,
            lines=opened.layout.lines,
            offsets=opened.offsets,
            # Room is divided by relevance alone: importance and age are no reason to show more of a text.
            pieces=[Piece(*opened.layout.place(p), s.by_relevance) for p, s in fresh],
            apart=ranked.memory.source is Source.CHAT,
            wholes=[Piece(*opened.layout.laid(first, last), ranked.scored.by_relevance + 1) for first, last in wholes],
            sections=tuple if wholes else partial(_ranges, opened, self._sent_ranges(ranked)),
            header=self._header_bytes(ranked) - answer_json.size(""),
            score=ranked.scored.by_relevance,
        )

    def _passages_of(self, memory_id: int) -> Sequence[StoredPassage]:
        """All passages of a result. Those of all results are read with one query, as a session needs them all."""
        if memory_id not in self._all_passages_by_id:
            wanted = {memory_id, *self._opened}.difference(self._all_passages_by_id)
            self._all_passages_by_id |= {id_: [] for id_ in wanted}
            for passage in self.runtime.store.documents.passages(memory_ids=sorted(wanted)):
                self._all_passages_by_id[passage.memory_id].append(passage)
        return self._all_passages_by_id[memory_id]

    def _sent_ranges(self, ranked: RankedMemory) -> list[tuple[int, int]]:
        """The lines of a memory that this session was sent, in order."""
        if not self._sent_marks:
            return []
        if ranked.memory.id not in self._sent_ranges_by_id:
            passages = self._passages_of(ranked.memory.id)
            layout = self.runtime.opened(ranked.memory).layout
            ranges = layout.whole_lines(layout.place(p) for p in passages if p.hash in self._sent_marks)
            self._sent_ranges_by_id[ranked.memory.id] = _joined(
                [*ranges, *sessions.ranges_of(ranked.memory, self._sent_marks)]
            )
        return self._sent_ranges_by_id[ranked.memory.id]

    def _passage_was_sent(self, ranked: RankedMemory, passage: StoredPassage) -> bool:
        """Was the whole passage sent to this session before?"""
        return passage.hash in self._sent_marks or self._lines_were_sent(ranked, passage.first_line, passage.last_line)

    def _unsent(self, ranked: RankedMemory) -> list[tuple[int, int]]:
        """The lines of a memory's text that this session was not sent yet."""
        opened = self._opened[ranked.memory.id]
        first, last = opened.outline.body_first_line, len(opened.lines)
        left: list[tuple[int, int]] = []
        for start, end in [*self._sent_ranges(ranked), (last + 1, last + 1)]:
            if first < start:
                left.append((first, start - 1))
            first = max(first, end + 1)
        with_text = [(start, end) for start, end in left if any(map(_has_text, opened.lines[start - 1 : end]))]
        return with_text if self._sent_marks else left

    def _header_bytes(self, ranked: RankedMemory) -> int:
        """Bytes of a result without its texts, with its neighbours if they were requested."""
        own, found = _own_row(ranked.memory), _found_fields(ranked, explain=self.request.explain)
        self._fields_by_id[ranked.memory.id] = own.fields | found
        omitted = found["omitted"] - {"already_sent"} if self._sent_marks else found["omitted"]
        sizes = {name: size for name, size in own.sizes.items() if name not in omitted}
        sizes |= answer_json.value_sizes(Result, found | self._widest(ranked), without=omitted | {"omitted"})
        optional = {name: sizes[name] for name in OPTIONAL_FIELDS if name in sizes}
        is_file = ranked.memory.source is not Source.CHAT  # a conversation's title is only its beginning
        if self.frame.ample:
            optional.pop("id")
        if self.frame.roomy:
            optional.pop("match", None)
        if is_file and (self.frame.roomy or (self.frame.ample and ranked.memory.title not in ranked.memory.path)):
            optional.pop("title")
        if self.request.anchors:
            optional.clear()
        self._optional[ranked.memory.id] = optional
        parts = len(ranked.matched) if self._opened[ranked.memory.id].layout.has_parts else 0
        signs = parts * 2 * len("…".encode())  # parts of long lines are shown with "…" at both ends
        return len("{}") + sum(sizes.values()) - sum(optional.values()) + signs + self._neighbours_bytes(ranked.memory)

    def _widest(self, ranked: RankedMemory) -> dict[str, Any]:
        """The fields that depend on what is shown, with the longest values that they can have, without texts."""
        last = len(self._opened[ranked.memory.id].lines)
        near = self._neighbours_of(ranked.memory)
        sent_ranges = [_sent_line(*lines) for lines in self._sent_ranges(ranked)]
        return {
            "lines": f"{last}-{last}",
            "text": "",
            "content": "\n".join([*sent_ranges, ""]) or " " if self.request.include_content else None,
            "already_sent": bool(self._sent_marks),
            "sent_before": tuple(self._sent_before(ranked)),
            "before": near[0].id if near[0] else None,
            "after": near[1].id if near[1] else None,
        }

    def _use_remaining(self, listed: Sequence[int], room: int) -> int:
        """Spend the room that the texts left: on ids, the fields of the answer itself, titles, then folder and date."""
        start = room
        room -= self._include(listed, room, "id")
        room -= self._include(listed, room, "match")
        room -= self.frame.include(room)
        room -= self._include(listed, room, "title")
        room -= self._include(listed, room, "spec_folder", "created_at")
        return start - room

    def _include(self, listed: Sequence[int], room: int, *names: str) -> int:
        start = room
        for id_ in listed:
            optional = self._optional[id_]
            for name in names:
                if optional.get(name, room + 1) <= room:
                    room -= optional.pop(name)
        return start - room

    def _neighbours_of(self, memory: Memory) -> tuple[Memory | None, Memory | None]:
        if not self.request.include_contiguity:
            return None, None
        if memory.id not in self._neighbours_by_id:
            self._neighbours_by_id[memory.id] = _neighbours(self.runtime, memory)
        return self._neighbours_by_id[memory.id]

    def _neighbours_bytes(self, memory: Memory) -> int:
        if not self.request.include_contiguity:
            return 0
        cards = [self.runtime.card(near) for near in self._neighbours_of(memory) if near is not None]
        return sum(answer_json.size(card) + len(",") for card in cards)

    def _result(self, ranked: RankedMemory, packed: Packed) -> Result:
        self._mark_sent(ranked, [(s.first_line, s.last_line) for s in packed.shown if not s.clipped])
        relevance = ranked.scored.by_relevance
        wholes = [s for s in packed.shown if self.request.include_content and not s.cut and s.score > relevance]
        texts = [s for s in packed.shown if s not in wholes]
        best = max(texts, key=lambda part: part.score, default=None)
        first, last = (best.first_line, best.last_line) if best else _lines_of(ranked)
        if wholes:
            first, last = wholes[0].first_line, wholes[-1].last_line
        scores = {scored.by_relevance: scored.score for _, scored in self._passages_by_id[ranked.memory.id]}
        others = [
            ShownPassage(
                lines=f"{s.first_line}-{s.last_line}",
                text=s.text,
                score=round(scores.get(s.score, ranked.scored.score), 2),
            )
            for s in texts
            if s is not best or wholes
        ]
        sent_before = self._sent_before(ranked)
        already = bool(sent_before) and not packed.shown
        fields = self._fields_by_id[ranked.memory.id]
        omitted = fields["omitted"].union(self._optional[ranked.memory.id])
        return Result(
            **fields
            | {
                "lines": f"{first}-{last}",
                "text": best.text if best and not wholes else "",
                "content": self._content(ranked, wholes) if wholes else None,
                "passages": tuple(others),
                "already_sent": already,
                "sent_before": () if already else tuple(sent_before),
                "omitted": omitted - {"already_sent"} if already else omitted,
            }
        )

    def _content(self, ranked: RankedMemory, wholes: Sequence[Shown]) -> str:
        """The text, with a placeholder line for each range that this session was sent before."""
        parts = [(part.first_line, part.text) for part in wholes]
        parts += [(first, _sent_line(first, last)) for first, last in self._sent_ranges(ranked)]
        return "\n".join(text for _, text in sorted(parts))

    def _sent_before(self, ranked: RankedMemory) -> list[str]:
        if not self._sent_marks:
            return []
        sent_ranges = _joined(
            [(p.first_line, p.last_line) for p in ranked.matched if self._passage_was_sent(ranked, p)]
        )
        return [f"{first}-{last}" for first, last in sent_ranges]

    def _mark_sent(self, ranked: RankedMemory, ranges: Sequence[tuple[int, int]]) -> None:
        """Mark passages that were shown whole as sent; one that was cut is sent again."""
        if not self.request.session_id or not ranges:
            return
        lines = self.runtime.opened(ranked.memory).lines
        for passage in self._passages_of(ranked.memory.id):
            if passage.last_line > len(lines):  # the file was shortened since
                continue
            numbers = (n for n in range(passage.first_line, passage.last_line + 1) if lines[n - 1].strip())
            if all(any(first <= n <= last for first, last in ranges) for n in numbers):
                self._shown_hashes.add(passage.hash)
        self._shown_hashes.update(sessions.range_mark(ranked.memory, first, last) for first, last in ranges)

    def _mark_parts(self, packed: Packed) -> None:
        """Mark passages that are parts of a long line as sent; `_mark_sent` marks the others by their lines."""
        layout = self._opened[packed.id].layout
        if not self.request.session_id or not layout.has_parts:
            return
        ranges = [(s.first_line, s.last_line) for s in packed.shown if not s.clipped]
        for passage in self._passages_of(packed.id):
            first, last = layout.place(passage)
            if any(start <= first and last <= end for start, end in ranges):
                self._shown_hashes.add(passage.hash)

    def _sections(self, candidates: Sequence[RankedMemory], room: int) -> list[Result]:
        """The requested sections of each result, while there is room for the next result."""
        results = []
        for ranked in candidates:
            document = self._opened[ranked.memory.id].outline
            anchors = {
                anchor_name: markdown.find_section(document, anchor_name) for anchor_name in self.request.anchors
            }
            missing = tuple(anchor_name for anchor_name, anchor in anchors.items() if anchor is None)
            room -= self._header_bytes(ranked) + answer_json.size(missing) + len('"missingAnchors":,"sections":{},')
            if room < 0:
                break
            sections: dict[str, str] = {}
            for anchor_name, anchor in anchors.items():
                if anchor is None:
                    continue
                text = markdown.lines(document, anchor.first_line, anchor.last_line).strip("\n")
                if self._lines_were_sent(ranked, anchor.first_line, anchor.last_line):
                    text = _sent_line(anchor.first_line, anchor.last_line)
                if (size := answer_json.size({anchor_name: text})) <= room:
                    room -= size
                    sections[anchor_name] = text
                    self._mark_sent(ranked, [(anchor.first_line, anchor.last_line)])
                else:
                    self.sections_left_out += 1
            self.tokens_saved += max(
                0, tokens.count(document.text) - sum(tokens.count(text) for text in sections.values())
            )
            first, last = _lines_of(ranked)
            plain_row = self._fields_by_id[ranked.memory.id] | {"lines": f"{first}-{last}", "text": ""}
            results.append(Result(**plain_row, missing_anchors=missing, sections=sections))
        if results and all(len(result.missing_anchors) == len(self.request.anchors) for result in results):
            self.other_sections = markdown.section_names(self._opened[results[0].id].outline)[:_MOST_NAMES]
        return results

    def _lines_were_sent(self, ranked: RankedMemory, first: int, last: int) -> bool:
        """Were all of these lines with text sent to this session before?"""
        lines, sent_ranges = self.runtime.opened(ranked.memory).lines, self._sent_ranges(ranked)
        numbers = [n for n in range(first, min(last, len(lines)) + 1) if _has_text(lines[n - 1])]
        return bool(numbers) and all(any(start <= n <= end for start, end in sent_ranges) for n in numbers)

    # --- a flat list of passages

    def passages(self, candidates: Sequence[RankedMemory], room: int) -> list[FlatResult]:
        """The best passages of all memories; one that is too long for the remaining room is listed without its text."""
        least = self.request.min_score * 100
        best = {ranked.memory.id: ranked.scored.score for ranked in candidates}
        ordered = [
            (_flat_order(ranked, scored.score, best), ranked, passage, scored)
            for ranked in candidates
            for passage, scored in ranked.passages
            if scored.score >= least
        ]
        ordered.sort(key=lambda row: (*row[0], row[2].id))
        results: list[FlatResult] = []
        for _, ranked, passage, scored in ordered[: self.request.limit]:
            sent = bool(self._sent_marks) and self._passage_was_sent(ranked, passage)
            row = _flat_result_of(ranked, passage, scored, explain=self.request.explain, sent=sent)
            is_listed = any(result.id == ranked.memory.id for result in results)
            room -= answer_json.size(row) + len(",") + (0 if is_listed else self._neighbours_bytes(ranked.memory))
            if room < 0:
                break
            text = "" if sent else _passage_text(self.runtime.opened(ranked.memory).lines, passage)
            if (size := tokens.quoted(text) - len('""')) <= room:
                room -= size
                self._shown_hashes.add(passage.hash)
                row = replace(row, text=text)
            results.append(row)
        return results

    # --- neighbours in time

    def contiguity(self, results: Sequence[Result | FlatResult]) -> tuple[list[Card], Sequence[Result | FlatResult]]:
        """The memories saved just before and after each hit, in its spec folder or session."""
        if not self.request.include_contiguity:
            return [], results
        cards: dict[int, Card] = {}
        marked: list[Result | FlatResult] = []
        for result in results:
            before, after = self._neighbours_by_id[result.id]
            for memory in (before, after):
                if memory is not None:
                    cards[memory.id] = self.runtime.card(memory)
            marked.append(replace(result, before=before.id if before else None, after=after.id if after else None))
        return list(cards.values()), marked


def _has_text(line: str) -> bool:
    """Does a line have text, other than a heading or a tag?"""
    return bool(line.strip()) and not line.lstrip().startswith(("#", "<!--"))


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Line ranges in order; overlapping and adjacent ones are joined."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def _sent_line(first: int, last: int) -> str:
    """The placeholder for text that was sent before."""
    return f"[lines {first}-{last}: sent before]"


def _ranges(opened: OpenedText, sent_ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The sections of a text of which nothing was sent before."""
    document = opened.outline
    ranges = [(a.first_line, a.last_line) for a in document.anchors]
    ranges += [(h.first_line, h.last_line) for h in document.headings if h.level > 1]
    ranges.append((document.body_first_line, len(opened.lines)))
    fresh = [(first, last) for first, last in ranges if not any(a <= last and first <= b for a, b in sent_ranges)]
    return [opened.layout.laid(first, last) for first, last in fresh]


def _in_lines(packed: Packed, layout: LineLayout) -> Packed:
    """The shown text with the line numbers of the file; a part of a line counts as clipped."""
    if not layout.has_parts:
        return packed
    return replace(packed, shown=tuple(_in_real_lines(part, layout) for part in packed.shown))


def _in_real_lines(part: Shown, layout: LineLayout) -> Shown:
    first, last = layout.real(part.first_line, part.last_line)
    whole = layout.is_whole(part.first_line, part.last_line)
    text = part.text if part.clipped else layout.text(part.first_line, part.last_line)
    return replace(part, first_line=first, last_line=last, text=text, clipped=part.clipped or not whole)


def _passage_text(lines: Sequence[str], passage: StoredPassage) -> str:
    """The text of a passage; where it is a part of a long line, … marks the cut."""
    text = long_lines.text_of(lines, passage)
    line = lines[passage.first_line - 1] if passage.first_line <= len(lines) else ""
    if passage.first_line != passage.last_line or len(text) == len(line.strip()) or not long_lines.is_long(line):
        return text
    before = "" if line.lstrip().startswith(text) else "…"
    return f"{before}{text}{'' if line.rstrip().endswith(text) else '…'}"


def _flat_order(ranked: RankedMemory, score: float, best: Mapping[int, float]) -> tuple[float, bool]:
    """Sort key of a passage in a flat list: never above the memory that supersedes its own."""
    ahead = [best[id_] for id_ in ranked.superseded_by if id_ in best]
    return -min([score, *ahead]), bool(ahead)


def _lines_of(ranked: RankedMemory) -> tuple[int, int]:
    passage = ranked.matched[0]
    return passage.first_line, passage.last_line


class _OwnRow(NamedTuple):
    """The fields of a result that only depend on its memory, and their sizes."""

    fields: dict[str, Any]
    sizes: dict[str, int]


def _row_of(memory: Memory) -> _OwnRow:
    fields = {
        "id": memory.id,
        "title": title_beside_path(memory.title, memory.path),
        "path": memory.path,
        "source": memory.source,
        "spec_folder": memory.spec_folder,
        "tier": memory.tier,
        "context_type": memory.attributes.context_type,
        "created_at": memory.attributes.created_at,
        "trusted": memory.trusted,
        "checkout": _checkout(memory),
    }
    return _OwnRow(fields, answer_json.value_sizes(Result, fields, without=frozenset()))


_own_row = KeptByIdentity[Memory, _OwnRow](_row_of, most=2_000)


def _found_fields(ranked: RankedMemory, *, explain: bool) -> dict[str, Any]:
    """The fields of a result that depend on the question, and not on which of its texts are shown."""
    match = ranked.match
    fields: dict[str, Any] = {
        "score": round(ranked.scored.score, 2),
        "match": None if match is None else round(match, 2),
        "state": (state := ranked.state),
        "question": ranked.question or None,
        "concepts": ranked.concepts,
        "omitted": _omitted_fields(ranked.memory, state),
    }
    if ranked.superseded_by or ranked.supersedes or ranked.contradicts:
        fields |= {
            "superseded_by": ranked.superseded_by,
            "supersedes": ranked.supersedes,
            "contradicts": ranked.contradicts,
        }
    if explain:
        fields["explain"] = _score_parts(ranked.scored)
    return fields


def _flat_result_of(
    ranked: RankedMemory, passage: StoredPassage, scored: Scored, *, explain: bool, sent: bool
) -> FlatResult:
    return FlatResult(
        path=ranked.memory.path,
        lines=f"{passage.first_line}-{passage.last_line}",
        text="",
        score=round(scored.score / 100, 4),
        match=None if (match := ranked.matches.get(passage.id)) is None else round(match, 2),
        source=ranked.memory.source,
        id=ranked.memory.id,
        title=title_beside_path(ranked.memory.title, ranked.memory.path),
        superseded_by=ranked.superseded_by,
        supersedes=ranked.supersedes,
        checkout=_checkout(ranked.memory),
        question=ranked.questions.get(passage.id),
        already_sent=sent or None,
        explain=_score_parts(scored) if explain else NO_SCORE_PARTS,
    )


def _score_parts(scored: Scored) -> ScoreParts:
    return ScoreParts(
        relevance=scored.by_relevance,
        tier=scored.by_tier,
        recency=scored.by_recency,
        keywords=scored.by_keywords,
        usage=scored.by_usage,
        limit=scored.by_limit or None,
        score=scored.score,
        stages=scored.stages,
        texts=scored.texts or None,
    )


def _checkout(memory: Memory) -> str | None:
    return MAIN_CHECKOUT if memory.elsewhere else None


def _omitted_fields(memory: Memory, state: State) -> frozenset[str]:
    """The fields that are left out, because they have the value that a reader assumes."""
    attributes = memory.attributes
    return _fields_with_defaults(
        attributes.tier, state, attributes.context_type, memory.trusted == memory.source.vouched
    )


@cache
def _fields_with_defaults(tier: Tier, state: State, context_type: ContextType, as_its_source: bool) -> frozenset[str]:
    at_default = {
        "tier": tier is Tier.NORMAL,
        "state": state is State.WARM,
        "context_type": context_type is ContextType.GENERAL,
        "trusted": as_its_source,
        "already_sent": True,
    }
    return frozenset(name for name, is_so in at_default.items() if is_so)


def _clipper(keywords: Sequence[str]) -> packing.Clip:
    """Returns a function that cuts a line around the words of the query, to a number of bytes in JSON."""
    stems = [words.stem(word) for word in keywords]

    def clip(line: str, room: int) -> tuple[str, int]:
        folded = line.lower()
        positions = [at for stem in stems if (at := folded.find(stem)) >= 0]
        for start in (_clip_start(line, positions, room // 2), 0):
            before = "…" if start else ""
            short = tokens.clip(line[start:], (room - len('""') - len(f"{before}…".encode())) // tokens.BYTES_PER_TOKEN)
            while short and tokens.quoted(f"{before}{short}…") > room:  # JSON escapes some characters
                short = short[: len(short) * 3 // 4].rstrip()
            if short:
                return f"{before}{short}…", tokens.quoted(f"{before}{short}…")
        return "", 0

    return clip


def _clip_start(line: str, positions: Sequence[int], width: int) -> int:
    """Start of the stretch with the most of these positions; 0 if the beginning of the line has as many."""
    best = max(positions, key=lambda at: (sum(at <= other < at + width for other in positions), -at), default=0)
    if best < width:
        return 0
    return line.rfind(" ", 0, max(0, best - width // 4)) + 1 or best


def _weigher(keywords: Sequence[str]) -> Callable[[str], float]:
    """Returns a function that counts the words of the query in a line; headings and tags count less."""
    stems = {words.stem(word) for word in keywords}

    @cache
    def weight(line: str) -> float:
        folded = line.casefold()
        present = float(sum([stem in folded for stem in stems]))
        return present if _has_text(line) else present * 0.4 - 0.1

    return weight


def _neighbours(runtime: Runtime, memory: Memory) -> tuple[Memory | None, Memory | None]:
    session = memory.attributes.session_id
    if memory.spec_folder is None and session is None:
        return None, None
    near = (
        runtime.store.documents.find(Filter(spec_folder=memory.spec_folder))
        if memory.spec_folder
        else runtime.store.documents.find()
    )
    if memory.spec_folder is None:
        near = [other for other in near if other.attributes.session_id == session]
    near.sort(key=lambda other: (other.attributes.created_at or other.first_indexed_at, other.id))
    at = next((i for i, other in enumerate(near) if other.id == memory.id), None)
    if at is None:
        return None, None
    return near[at - 1] if at else None, near[at + 1] if at + 1 < len(near) else None
