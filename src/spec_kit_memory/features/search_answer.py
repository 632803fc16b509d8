"""How does a ranking become an answer within a token budget? The second half of a search.

Rules on top, then the results packed, references for what this session already has, and
codes for what was done, what was missing and what was held back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from spec_kit_memory import answer_json
from spec_kit_memory.advice import Advice, Text, advise, outcome
from spec_kit_memory.answers import Card, FlatResult, HeldBack, Result, Rule, SearchAnswer, ShownPassage
from spec_kit_memory.core import long_lines, markdown, packing, tokens, triggers, words
from spec_kit_memory.core.folders import clean_folder, near_folders
from spec_kit_memory.core.long_lines import LineLayout
from spec_kit_memory.core.memory import ContextType, Document, Filter, Memory, Source, State, StoredPassage, Tier
from spec_kit_memory.core.packing import MemoryBlock, Packed, Piece, Prices, Shown
from spec_kit_memory.core.ranking import Scored
from spec_kit_memory.features import code_state, sessions
from spec_kit_memory.features import search as searching
from spec_kit_memory.features.runtime import MAIN_CHECKOUT, OpenedText, Runtime
from spec_kit_memory.features.search import RankedMemory, Ranking
from spec_kit_memory.requests import SearchRequest as Request

# An answer of this many tokens says everything about itself first; a smaller one shows the hits first.
AMPLE_TOKENS = 2000
# An answer whose size nobody asked for ends about here, though it may have more.
ENOUGH_TOKENS = 1500
# With so many for each result, every one of them says all that it has to say.
ROOMY_TOKENS = 150
# What a result and an answer say of themselves if there is room, in the order in which that is worth saying.
RESULT_EXTRAS = ("id", "match", "title", "spec_folder", "created_at")
FRAME_EXTRAS = ("method", "total_found", "stats", "freshness", "query")
# What was held back is named within this share of the answer, else only counted.
HELD_SHARE = 8
# A question may be long; the answer repeats as much of it as tells which one it was.
ECHO_CHARACTERS = 300
# What is measured otherwise, or stands in the envelope around the data.
UNMEASURED = frozenset(("outcome", "hints", "meta", "results"))
CACHE_SECONDS = 60
BYTES = tokens.BYTES_PER_TOKEN


def search(runtime: Runtime, request: Request) -> SearchAnswer:
    if (session_id := sessions.kept_id(request.session_id)) != request.session_id:
        request = request.replace(session_id=session_id)
    generation = runtime.whole.generation()
    # What a session was sent changes with each answer, so only questions without one repeat.
    # Memories expire and change their state without a write, so an answer is good for a minute.
    # A connection is told the rules once: the answers before and after are different ones.
    sent_rules, cache = sessions.rules_sent_to(runtime, None), runtime.view.answers
    key = (request, int(runtime.now().timestamp() // CACHE_SECONDS), sent_rules)
    cached = cache.get(key, generation) if request.session_id is None else None
    if cached is not None:
        sessions.remember_rules(runtime, _rule_marks(runtime, cached.constitutional))
        if request.include_content:
            runtime.used([result.id for result in cached.results])
        return _with_code(runtime, request, replace(cached, meta=replace(cached.meta, cache_hit=True)))
    answer = answer_from(runtime, request)
    if (
        request.session_id is None
        and not request.fresh
        and not any(str(notice).startswith("meaning:") for notice in answer.unavailable)
    ):
        cache.put(key, generation, answer)
    return _with_code(runtime, request, answer)


def _with_code(runtime: Runtime, request: Request, answer: SearchAnswer) -> SearchAnswer:
    return code_state.with_code(runtime, answer, max_tokens=request.max_tokens or runtime.settings.search.max_tokens)


def answer_from(runtime: Runtime, request: Request) -> SearchAnswer:
    ranking = searching.rank(runtime, request)
    with runtime.whole.steady():
        return _packed(runtime, request, ranking)


def _packed(runtime: Runtime, request: Request, ranking: Ranking) -> SearchAnswer:
    budget = request.max_tokens or runtime.settings.search.max_tokens
    candidates = _answering(request, ranking)
    ruled = _rules(runtime, request, budget, without={f.memory.id for f in candidates[: request.limit]})
    stats = runtime.store.care.stats()
    total = len(candidates) + ranking.total - len(ranking.found)  # those that were not looked at closely included
    frame = _Frame(_about_itself(runtime, request, ranking, ruled, stats, total=total), request, budget=budget)
    desk = _Desk(runtime, request, frame, ranking.query.keywords)
    by_passage = request.group_by == "passage"
    results: Sequence[Result | FlatResult] = (
        desk.passages(candidates, frame.room) if by_passage else desk.results(candidates[: request.limit], frame.room)
    )
    desk.remember(list(dict.fromkeys(result.id for result in results)), _rule_marks(runtime, ruled.rules))
    cards, results = desk.contiguity(results)
    hints = _hints(request, ranking, results, stats["memories"], found_count=len(candidates))
    if request.spec_folder and not candidates and (unknown := _unknown_folder(runtime, request.spec_folder)):
        hints.insert(0, unknown)
    if ruled.unnamed:
        hints.append(advise("name-rules", count=ruled.unnamed))
    if desk.unfit:
        hints.append(advise("read-section", count=desk.unfit))
    return replace(
        frame.answer,
        outcome=_outcome(request, ranking, candidates, len(results), total),
        advice=tuple(hints),
        results=tuple(results),
        tokens_saved=desk.saved,
        contiguous=tuple(cards),
        unsaid=frame.answer.unsaid.union(frame.waiting),
    )


def _about_itself(
    runtime: Runtime, request: Request, ranking: Ranking, ruled: _Ruled, stats: Mapping[str, Any], *, total: int
) -> SearchAnswer:
    """An answer without its results."""
    return SearchAnswer(
        outcome="",
        query=_echo(request),
        method=ranking.method,
        results=(),
        constitutional=ruled.rules,
        total_found=total,
        concepts=ranking.concepts,
        held_back=ranking.held_back,
        unavailable=ranking.unavailable,
        stats={"totalFiles": stats["memories"], "totalChunks": stats["passages"]},
        freshness={"lastIndexed": stats["last_indexed"], "pendingVectors": stats["pending_passages"]},
        tokens_saved=10**9,  # as much as it may be
        explain=_explain(runtime, ranking) if request.explain else {},
        unsaid=frozenset() if request.anchors else frozenset(("tokens_saved",)),
    )


def _echo(request: Request) -> str:
    return request.text if len(request.text) <= ECHO_CHARACTERS else f"{request.text[:ECHO_CHARACTERS]}…"


class _Frame:
    """What an answer says about itself beside its results: what it must, and what waits for room."""

    def __init__(self, answer: SearchAnswer, request: Request, *, budget: int) -> None:
        self.ample = budget >= AMPLE_TOKENS or bool(request.anchors) or request.group_by == "passage"
        self.roomy = budget >= ROOMY_TOKENS * min(request.limit, max(answer.total_found, 1))
        self.answer = _within(answer, budget * BYTES)
        sizes = answer_json.field_sizes(replace(self.answer, unsaid=self.answer.unsaid | UNMEASURED))
        self.waiting = {name: sizes.pop(name) for name in FRAME_EXTRAS if name in sizes}
        self.room = budget * BYTES - len('{"results":[]}') - sum(sizes.values())
        if self.ample:
            self.room -= self.say(self.room)
        self.room = max(0, self.room)

    def say(self, room: int) -> int:
        """As much of what waits as there is room for; returns what it took."""
        start = room
        for name, size in list(self.waiting.items()):
            if size <= room:
                room -= self.waiting.pop(name)
        return start - room


def _within(answer: SearchAnswer, room: int) -> SearchAnswer:
    """Without what would crowd out the results."""
    held_back, concepts = answer.held_back, answer.concepts
    while held_back.best and answer_json.size(held_back) > room // HELD_SHARE:
        held_back = replace(held_back, best=held_back.best[:-1])
    if concepts and answer_json.size(concepts) > room // 2:
        concepts = {concept: {"memories": counts["memories"]} for concept, counts in concepts.items()}
    answer = replace(answer, held_back=held_back, concepts=concepts)
    sizes = answer_json.field_sizes(replace(answer, unsaid=answer.unsaid.union(UNMEASURED, FRAME_EXTRAS)))
    return replace(answer, explain={}) if sum(sizes.values()) > room else answer


def _answering(request: Request, ranking: Ranking) -> list[RankedMemory]:
    """All that was found but rules that do not answer: those stand above the results, whatever is asked.

    A rule that answers is a result like others, with its score; unless the limit cuts it off.
    """
    if _rules_asked_for(request):
        return list(ranking.found)
    rules = [f.memory.tier is Tier.CONSTITUTIONAL for f in ranking.found]
    if not any(rules):
        return list(ranking.found)
    results = [f for f, is_rule in zip(ranking.found, rules, strict=True) if not is_rule or ranking.answers(f)]
    within, beyond = results[: request.limit], results[request.limit :]
    return [*within, *(f for f in beyond if f.memory.tier is not Tier.CONSTITUTIONAL)]


def _rules_asked_for(request: Request) -> bool:
    """Then they are what is searched, and nothing to be reminded of."""
    return request.tier is not None or request.only_source is Source.CONSTITUTIONAL


# --- rules on top ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ruled:
    """The constitutional memories to show, and how many were left out."""

    rules: tuple[Rule, ...] = ()
    unnamed: int = 0


def _rules(runtime: Runtime, request: Request, budget: int, *, without: Set[int]) -> _Ruled:
    if not request.include_constitutional or _rules_asked_for(request):
        return _Ruled()
    memories = {m.id: m for m in runtime.rules() if m.id not in without}
    if not memories:
        return _Ruled()
    phrases = [(m.id, phrase) for m in memories.values() for phrase in m.attributes.triggers]
    triggered = {match.memory_id for match in triggers.Matcher(phrases).match(request.text)}
    if request.dedup:
        sent_rules = sessions.rules_sent_to(runtime, request.session_id)
        memories = {id_: m for id_, m in memories.items() if sessions.is_due(m, sent_rules, triggered=id_ in triggered)}
    bodies = {id_: _body(runtime.opened(memory).outline) for id_, memory in memories.items()}
    named_rules = {m.id: Rule(id=m.id, title=m.title, path=m.path, text="") for m in memories.values()}
    candidates = [
        packing.RuleText(
            id=m.id,
            name_size=answer_json.size(named_rules[m.id]) + len(","),
            text=bodies[m.id],
            weight=m.attributes.weight,
            triggered=m.id in triggered,
        )
        for m in memories.values()
    ]
    ruled = packing.rules(candidates, budget=packing.rules_budget(budget) * BYTES, measure=tokens.quoted)
    shown_rules = [replace(named_rules[id_], text=text) for id_, text in ruled.shown]
    return _Ruled((*shown_rules, *(named_rules[id_] for id_ in ruled.named)), ruled.unnamed)


def _rule_marks(runtime: Runtime, rules: Sequence[Rule]) -> list[str]:
    """What is remembered of rules that an answer tells, so that they are told once."""
    memories = {memory.id: memory for memory in runtime.rules()} if rules else {}
    return [sessions.rule_mark(memories[rule.id], text=bool(rule.text)) for rule in rules if rule.id in memories]


def _body(document: Document) -> str:
    return "\n".join(document.text.split("\n")[document.body_first_line - 1 :]).strip()


# --- results, one per memory ---------------------------------------------------------


@dataclass
class _Desk:
    """Results on their way into one answer, and what the session has had already."""

    runtime: Runtime
    request: Request
    frame: _Frame
    keywords: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._sent = sessions.sent_to(self.runtime, self.request.session_id) if self.request.dedup else frozenset()
        self._opened: dict[int, OpenedText] = {}
        self._scored: dict[int, Sequence[tuple[StoredPassage, Scored]]] = {}  # the passages of each result
        self._had_of: dict[int, list[tuple[int, int]]] = {}
        self._shown_hashes: set[str] = set()
        self._near: dict[int, tuple[Memory | None, Memory | None]] = {}
        self._waiting: dict[int, dict[str, int]] = {}  # of each result, what is said of it if there is room
        self.saved = 0  # tokens, by sending sections only
        self.unfit = 0  # sections for which there was no room

    def results(self, candidates: Sequence[RankedMemory], room: int) -> list[Result]:
        self._opened = self.runtime.opened_together([f.memory for f in candidates])
        if self.request.anchors:
            return self._sections(candidates, room)
        longest = max((len(opened.lines) for opened in self._opened.values()), default=1)
        further = ShownPassage(lines=f"{longest}-{longest}", text="", score=12.34)
        # The quotes of a text are counted with its lines.
        quotes = answer_json.size("")
        best_match = max((f.match for f in candidates if f.match is not None), default=None)
        fitted = packing.fit(
            [self._block(f) for f in candidates],
            budget=room,
            prices=Prices(
                range=answer_json.size(further) + len(",") - quotes, list=len('"passages":[],'), empty=quotes
            ),
            weigh=_weigher(self.keywords),
            beside=self._beside,
            clip=_clipper(self.keywords),
            breadth=self.frame.roomy and not all(f.memory.source is Source.CHAT for f in candidates),
            enough=ENOUGH_TOKENS * BYTES if self.request.max_tokens is None else None,
            match=best_match if self.request.max_tokens is None else None,
        )
        for block in fitted.blocks:
            self._mark_parts(block)
        packed = {block.id: _in_lines(block, self._opened[block.id].layout) for block in fitted.blocks}
        return [self._result(f, packed[f.memory.id]) for f in candidates if f.memory.id in packed]

    def remember(self, shown_ids: Sequence[int], rules: Iterable[str]) -> None:
        """What was listed is HOT for this session; what came with its content counts as used."""
        if self.request.include_content:
            self.runtime.used(shown_ids)
        sent = self._shown_hashes.union(rules)
        if self.request.session_id and (shown_ids or sent):
            sessions.remember_shown(self.runtime, self.request.session_id, shown_ids, sent)
        else:
            sessions.remember_rules(self.runtime, rules)

    def _block(self, f: RankedMemory) -> MemoryBlock:
        opened = self._opened[f.memory.id]
        scored = self._scored[f.memory.id] = f.passages
        fresh = [(p, s) for p, s in scored if not (self._sent and self._has(f, p))]
        wholes = self._unsent(f) if self.request.include_content else ()
        return MemoryBlock(
            id=f.memory.id,
            lines=opened.layout.lines,
            offsets=opened.offsets,
            # Room goes to what is relevant; importance and age, which break ties, are no reason to say more of it.
            pieces=[Piece(*opened.layout.place(p), s.by_relevance) for p, s in fresh],
            apart=f.memory.source is Source.CHAT,
            wholes=[Piece(*opened.layout.laid(first, last), f.scored.by_relevance + 1) for first, last in wholes],
            sections=tuple if wholes else partial(_ranges, opened, self._had(f)),
            header=self._header_bytes(f) - answer_json.size(""),
            score=f.scored.by_relevance,
        )

    def _had(self, f: RankedMemory) -> list[tuple[int, int]]:
        """The lines of a memory that this session was sent, in order."""
        if not self._sent:
            return []
        if f.memory.id not in self._had_of:
            passages = self.runtime.store.documents.passages(memory_id=f.memory.id)
            layout = self.runtime.opened(f.memory).layout
            ranges = layout.whole_lines(layout.place(p) for p in passages if p.hash in self._sent)
            self._had_of[f.memory.id] = _joined([*ranges, *sessions.ranges_of(f.memory, self._sent)])
        return self._had_of[f.memory.id]

    def _has(self, f: RankedMemory, passage: StoredPassage) -> bool:
        """Does this session have all that a passage says?"""
        return passage.hash in self._sent or self._was_sent(f, passage.first_line, passage.last_line)

    def _unsent(self, f: RankedMemory) -> list[tuple[int, int]]:
        """The lines of a memory's text that this session does not have: all, where nothing was sent."""
        opened = self._opened[f.memory.id]
        first, last = opened.outline.body_first_line, len(opened.lines)
        left: list[tuple[int, int]] = []
        for start, end in [*self._had(f), (last + 1, last + 1)]:
            if first < start:
                left.append((first, start - 1))
            first = max(first, end + 1)
        with_text = [(start, end) for start, end in left if any(map(_has_text, opened.lines[start - 1 : end]))]
        return with_text if self._sent else left

    def _header_bytes(self, f: RankedMemory) -> int:
        """What naming a result costs without a text, with its neighbours where they were asked for."""
        sizes = answer_json.field_sizes(self._widest(f))
        waiting = {name: sizes[name] for name in RESULT_EXTRAS if name in sizes}
        is_file = f.memory.source is not Source.CHAT  # a conversation's title is only how it began
        if self.frame.ample:
            waiting.pop("id")
        if self.frame.roomy:
            waiting.pop("match", None)
        if is_file and (self.frame.roomy or (self.frame.ample and f.memory.title not in f.memory.path)):
            waiting.pop("title")
        if self.request.anchors:
            waiting.clear()
        self._waiting[f.memory.id] = waiting
        layout = self.runtime.opened(f.memory).layout
        parts = len(f.matched) if layout.last_line != len(layout.lines) else 0
        signs = parts * 2 * len("…".encode())  # parts of long lines are shown with a sign at each end
        return len("{}") + sum(sizes.values()) - sum(waiting.values()) + signs + self._near_bytes(f.memory)

    def _widest(self, f: RankedMemory) -> Result:
        """A result as long as it may become, but for its texts."""
        last = len(self.runtime.opened(f.memory).lines)
        near = self._near_of(f.memory)
        had = [_sent_line(*lines) for lines in self._had(f)]
        return _plain(
            f,
            explain=self.request.explain,
            lines=f"{last}-{last}",
            content="\n".join([*had, ""]) or " " if self.request.include_content else None,
            already_sent=bool(self._sent),
            sent_before=tuple(self._sent_before(f)),
            before=near[0].id if near[0] else None,
            after=near[1].id if near[1] else None,
            unsaid=_obvious(f.memory, f.state) - ({"already_sent"} if self._sent else set()),
        )

    def _beside(self, listed: Sequence[int], room: int) -> int:
        """What the hits leave room for: ids, the answer about itself, then titles, then where and when."""
        start = room
        room -= self._say(listed, room, "id")
        room -= self._say(listed, room, "match")
        room -= self.frame.say(room)
        room -= self._say(listed, room, "title")
        room -= self._say(listed, room, "spec_folder", "created_at")
        return start - room

    def _say(self, listed: Sequence[int], room: int, *names: str) -> int:
        start = room
        for id_ in listed:
            waiting = self._waiting[id_]
            for name in names:
                if waiting.get(name, room + 1) <= room:
                    room -= waiting.pop(name)
        return start - room

    def _near_of(self, memory: Memory) -> tuple[Memory | None, Memory | None]:
        if not self.request.include_contiguity:
            return None, None
        if memory.id not in self._near:
            self._near[memory.id] = _neighbours(self.runtime, memory)
        return self._near[memory.id]

    def _near_bytes(self, memory: Memory) -> int:
        cards = [self.runtime.card(near) for near in self._near_of(memory) if near is not None]
        return sum(answer_json.size(card) + len(",") for card in cards)

    def _result(self, f: RankedMemory, packed: Packed) -> Result:
        self._mark_sent(f, [(s.first_line, s.last_line) for s in packed.shown if not s.clipped])
        relevance = f.scored.by_relevance
        wholes = [s for s in packed.shown if self.request.include_content and not s.cut and s.score > relevance]
        texts = [s for s in packed.shown if s not in wholes]
        best = max(texts, key=lambda part: part.score, default=None)
        first, last = (best.first_line, best.last_line) if best else _lines_of(f)
        if wholes:
            first, last = wholes[0].first_line, wholes[-1].last_line
        scores = {scored.by_relevance: scored.score for _, scored in self._scored[f.memory.id]}
        others = [
            ShownPassage(
                lines=f"{s.first_line}-{s.last_line}",
                text=s.text,
                score=round(scores.get(s.score, f.scored.score), 2),
            )
            for s in texts
            if s is not best or wholes
        ]
        sent_before = self._sent_before(f)
        already = bool(sent_before) and not packed.shown
        obvious = _obvious(f.memory, f.state)
        return _plain(
            f,
            explain=self.request.explain,
            lines=f"{first}-{last}",
            text=best.text if best and not wholes else "",
            content=self._content(f, wholes) if wholes else None,
            passages=tuple(others),
            already_sent=already,
            sent_before=() if already else tuple(sent_before),
            unsaid=obvious.union(self._waiting[f.memory.id]) - ({"already_sent"} if already else set()),
        )

    def _content(self, f: RankedMemory, wholes: Sequence[Shown]) -> str:
        """The text, with a line in the place of what this session has."""
        parts = [(part.first_line, part.text) for part in wholes]
        parts += [(first, _sent_line(first, last)) for first, last in self._had(f)]
        return "\n".join(text for _, text in sorted(parts))

    def _sent_before(self, f: RankedMemory) -> list[str]:
        if not self._sent:
            return []
        had = _joined([(p.first_line, p.last_line) for p in f.matched if self._has(f, p)])
        return [f"{first}-{last}" for first, last in had]

    def _mark_sent(self, f: RankedMemory, ranges: Sequence[tuple[int, int]]) -> None:
        """Only what was shown whole: the rest of a passage that was cut must still come."""
        if not self.request.session_id or not ranges:
            return
        lines = self.runtime.opened(f.memory).lines
        for passage in self.runtime.store.documents.passages(memory_id=f.memory.id):
            if passage.last_line > len(lines):  # the file was shortened since
                continue
            numbers = (n for n in range(passage.first_line, passage.last_line + 1) if lines[n - 1].strip())
            if all(any(first <= n <= last for first, last in ranges) for n in numbers):
                self._shown_hashes.add(passage.hash)
        self._shown_hashes.update(sessions.range_mark(f.memory, first, last) for first, last in ranges)

    def _mark_parts(self, packed: Packed) -> None:
        """Passages that are parts of a line: the others are known by their lines."""
        layout = self._opened[packed.id].layout
        if not self.request.session_id or layout.last_line == len(layout.lines):
            return
        ranges = [(s.first_line, s.last_line) for s in packed.shown if not s.clipped]
        for passage in self.runtime.store.documents.passages(memory_id=packed.id):
            first, last = layout.place(passage)
            if any(start <= first and last <= end for start, end in ranges):
                self._shown_hashes.add(passage.hash)

    def _sections(self, candidates: Sequence[RankedMemory], room: int) -> list[Result]:
        """Only the asked sections of each result, while there is room to name one."""
        results = []
        for f in candidates:
            document = self._opened[f.memory.id].outline
            anchors = {
                anchor_name: markdown.find_section(document, anchor_name) for anchor_name in self.request.anchors
            }
            missing = tuple(anchor_name for anchor_name, anchor in anchors.items() if anchor is None)
            plain_row = replace(_plain(f, explain=self.request.explain), missing_anchors=missing)
            room -= self._header_bytes(f) + answer_json.size(missing) + len('"missingAnchors":,"sections":{},')
            if room < 0:
                break
            sections: dict[str, str] = {}
            for anchor_name, anchor in anchors.items():
                if anchor is None:
                    continue
                text = markdown.lines(document, anchor.first_line, anchor.last_line).strip("\n")
                if self._was_sent(f, anchor.first_line, anchor.last_line):
                    text = _sent_line(anchor.first_line, anchor.last_line)
                if (size := answer_json.size({anchor_name: text})) <= room:
                    room -= size
                    sections[anchor_name] = text
                    self._mark_sent(f, [(anchor.first_line, anchor.last_line)])
                else:
                    self.unfit += 1
            self.saved += max(0, tokens.count(document.text) - sum(tokens.count(text) for text in sections.values()))
            results.append(replace(plain_row, sections=sections))
        return results

    def _was_sent(self, f: RankedMemory, first: int, last: int) -> bool:
        """Has this session all that these lines say?"""
        lines, had = self.runtime.opened(f.memory).lines, self._had(f)
        numbers = [n for n in range(first, min(last, len(lines)) + 1) if _has_text(lines[n - 1])]
        return bool(numbers) and all(any(start <= n <= end for start, end in had) for n in numbers)

    # --- a flat list of passages

    def passages(self, candidates: Sequence[RankedMemory], room: int) -> list[FlatResult]:
        """The best passages of all memories. One too long for the room that is left is named without its text."""
        least = self.request.min_score * 100
        best = {f.memory.id: f.scored.score for f in candidates}
        ordered = [(_place(f, s.score, best), f, p, s) for f in candidates for p, s in f.passages if s.score >= least]
        ordered.sort(key=lambda row: (*row[0], row[2].id))
        results: list[FlatResult] = []
        for _, f, passage, scored in ordered[: self.request.limit]:
            sent = bool(self._sent) and self._has(f, passage)
            row = _flat(f, passage, scored, explain=self.request.explain, sent=sent)
            is_listed = any(result.id == f.memory.id for result in results)
            room -= answer_json.size(row) + len(",") + (0 if is_listed else self._near_bytes(f.memory))
            if room < 0:
                break
            text = "" if sent else _passage_text(self.runtime.opened(f.memory).lines, passage)
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
            before, after = self._near[result.id]
            for memory in (before, after):
                if memory is not None:
                    cards[memory.id] = self.runtime.card(memory)
            marked.append(replace(result, before=before.id if before else None, after=after.id if after else None))
        return list(cards.values()), marked


def _has_text(line: str) -> bool:
    """Does a line say something, more than a heading or a tag?"""
    return bool(line.strip()) and not line.lstrip().startswith(("#", "<!--"))


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Line ranges in order, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def _sent_line(first: int, last: int) -> str:
    """What stands in the place of text that a session has."""
    return f"[lines {first}-{last}: sent before]"


def _ranges(opened: OpenedText, had: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The sections of a text that have nothing of what was sent before."""
    document = opened.outline
    ranges = [(a.first_line, a.last_line) for a in document.anchors]
    ranges += [(h.first_line, h.last_line) for h in document.headings if h.level > 1]
    ranges.append((document.body_first_line, len(opened.lines)))
    fresh = [(first, last) for first, last in ranges if not any(a <= last and first <= b for a, b in had)]
    return [opened.layout.laid(first, last) for first, last in fresh]


def _in_lines(packed: Packed, layout: LineLayout) -> Packed:
    """What is shown by the numbers of real lines; a part of one says so in its text, and counts as clipped."""
    return replace(packed, shown=tuple(_in_real_lines(part, layout) for part in packed.shown))


def _in_real_lines(part: Shown, layout: LineLayout) -> Shown:
    first, last = layout.real(part.first_line, part.last_line)
    whole = layout.is_whole(part.first_line, part.last_line)
    text = part.text if part.clipped else layout.text(part.first_line, part.last_line)
    return replace(part, first_line=first, last_line=last, text=text, clipped=part.clipped or not whole)


def _passage_text(lines: Sequence[str], passage: StoredPassage) -> str:
    """A passage by itself; a part of a line says that it is one."""
    text = long_lines.text_of(lines, passage)
    line = lines[passage.first_line - 1] if passage.first_line <= len(lines) else ""
    if passage.first_line != passage.last_line or len(text) == len(line.strip()) or not long_lines.is_long(line):
        return text
    before = "" if line.lstrip().startswith(text) else "…"
    return f"{before}{text}{'' if line.rstrip().endswith(text) else '…'}"


def _place(f: RankedMemory, score: float, best: Mapping[int, float]) -> tuple[float, bool]:
    """Where a passage stands in a flat list: no passage of a superseded memory above what supersedes it."""
    ahead = [best[id_] for id_ in f.superseded_by if id_ in best]
    return -min([score, *ahead]), bool(ahead)


def _lines_of(f: RankedMemory) -> tuple[int, int]:
    passage = f.matched[0]
    return passage.first_line, passage.last_line


def _plain(f: RankedMemory, *, explain: bool, **changes: Any) -> Result:
    """A result without a text, but for `changes`. One object instead of two: a search makes twenty."""
    first, last = _lines_of(f)
    memory = f.memory
    fields: dict[str, Any] = {
        "id": memory.id,
        "title": memory.title,
        "path": memory.path,
        "lines": f"{first}-{last}",
        "text": "",
        "score": round(f.scored.score, 2),
        "match": None if f.match is None else round(f.match, 2),
        "source": memory.source,
        "spec_folder": memory.spec_folder,
        "tier": memory.tier,
        "state": f.state,
        "context_type": memory.attributes.context_type,
        "created_at": memory.attributes.created_at,
        "trusted": memory.trusted,
        "superseded_by": f.superseded_by,
        "supersedes": f.supersedes,
        "contradicts": f.contradicts,
        "checkout": _checkout(memory),
        "question": f.question or None,
        "concepts": f.concepts,
        "explain": f.scored.explain() if explain else {},
    }
    fields |= changes
    return Result(**fields) if "unsaid" in fields else Result(**fields, unsaid=_obvious(memory, f.state))


def _checkout(memory: Memory) -> str | None:
    return MAIN_CHECKOUT if memory.elsewhere else None


def _obvious(memory: Memory, state: State) -> frozenset[str]:
    """What goes without saying."""
    attributes = memory.attributes
    return _obvious_of(attributes.tier, state, attributes.context_type, memory.trusted == memory.source.vouched)


@cache
def _obvious_of(tier: Tier, state: State, context_type: ContextType, as_its_source: bool) -> frozenset[str]:
    at_default = {
        "tier": tier is Tier.NORMAL,
        "state": state is State.WARM,
        "context_type": context_type is ContextType.GENERAL,
        "trusted": as_its_source,
        "already_sent": True,
    }
    return frozenset(name for name, is_so in at_default.items() if is_so)


def _clipper(keywords: Sequence[str]) -> packing.Clip:
    """The part of a line about the question's words within so many bytes of the answer's JSON, and what it takes."""
    stems = [words.stem(word) for word in keywords]

    def clip(line: str, room: int) -> tuple[str, int]:
        folded = line.lower()
        positions = [at for stem in stems if (at := folded.find(stem)) >= 0]
        for start in (_start(line, positions, room // 2), 0):
            before = "…" if start else ""
            short = tokens.clip(line[start:], (room - len('""') - len(f"{before}…".encode())) // BYTES)
            while short and tokens.quoted(f"{before}{short}…") > room:  # it has what JSON writes with more
                short = short[: len(short) * 3 // 4].rstrip()
            if short:
                return f"{before}{short}…", tokens.quoted(f"{before}{short}…")
        return "", 0

    return clip


def _start(line: str, positions: Sequence[int], width: int) -> int:
    """Where the stretch begins that has most of these places; the beginning of the line where that has as many."""
    best = max(positions, key=lambda at: (sum(at <= other < at + width for other in positions), -at), default=0)
    if best < width:
        return 0
    return line.rfind(" ", 0, max(0, best - width // 4)) + 1 or best


def _weigher(keywords: Sequence[str]) -> Callable[[str], float]:
    """How many of the question's words a line has; a heading or a tag says less than what stands below it."""
    stems = {words.stem(word) for word in keywords}

    @cache
    def weight(line: str) -> float:
        folded = line.casefold()
        present = float(sum([stem in folded for stem in stems]))
        return present if _has_text(line) else present * 0.4 - 0.1

    return weight


def _flat(f: RankedMemory, passage: StoredPassage, scored: Scored, *, explain: bool, sent: bool) -> FlatResult:
    return FlatResult(
        path=f.memory.path,
        lines=f"{passage.first_line}-{passage.last_line}",
        text="",
        score=round(scored.score / 100, 4),
        match=None if (match := f.matches.get(passage.id)) is None else round(match, 2),
        source=f.memory.source,
        id=f.memory.id,
        title=f.memory.title,
        superseded_by=f.superseded_by,
        supersedes=f.supersedes,
        checkout=_checkout(f.memory),
        question=f.questions.get(passage.id),
        already_sent=sent or None,
        explain=scored.explain() if explain else {},
    )


# --- neighbours in time ------------------------------------------------------------


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


# --- in words --------------------------------------------------------------------


def _outcome(
    request: Request, ranking: Ranking, results: Sequence[RankedMemory], shown_count: int, total: int
) -> Advice:
    if not results:
        return outcome("only-rules-matched" if ranking.found else "nothing-matched", text=repr(request.text[:80]))
    if not shown_count:
        return outcome("no-room", total=total)
    best = results[0]
    return outcome(
        "passages-found" if request.group_by == "passage" else "memories-found",
        shown=shown_count,
        total=total,
        title=best.memory.title,
        score=f"{best.scored.score:.0f}",
        method=ranking.method,
    )


def _what_brings(request: Request, held_back: HeldBack) -> tuple[Advice, ...]:
    """The way to each kind that was held back, and none that was taken already."""
    if request.state_filter or request.min_state:
        return (advise("held-back-by-state"),)
    ways = []
    if (held_back.archived or held_back.expired) and not request.include_archived:
        ways.append(advise("bring-archived"))
    if held_back.dormant:
        ways.append(advise("bring-dormant"))
    return tuple(ways)


def _hints(
    request: Request, ranking: Ranking, results: Sequence[Any], memories: int, *, found_count: int
) -> list[Text]:
    hints: list[Text] = []
    if ranking.historical and request.use_decay:
        hints.append("the question asks about the past, so decay was left out")
    if results and ranking.unclear:
        hints.append("nothing matches closely: these are only the nearest")
    held_back = ranking.held_back
    if held_back.archived or held_back.dormant or held_back.expired:
        hints.append(advise("held-back", ways=_what_brings(request, held_back)))
    left_out = min(request.limit, found_count) - len(results) if request.group_by == "memory" else 0
    if left_out > 0 or (found_count and not results):
        hints.append(advise("raise-budget", count=max(left_out, 1)))
    if held_back.min_score:
        hints.append(advise("below-score", count=held_back.min_score, score=request.min_score or 0.0))
    if not results and not found_count:
        hints += _when_empty(request, ranking, memories)
    return hints


def _unknown_folder(runtime: Runtime, folder: str) -> str:
    """What to ask for instead of a folder that nothing is in; "" if there is something."""
    name = clean_folder(folder)
    folders = {tally.spec_folder for tally in runtime.store.documents.tally() if tally.spec_folder}
    if name in folders:
        return ""
    near = near_folders(name, folders)
    return f"no memory is in the spec folder {name}" + (f"; there is {', '.join(near)}" if near else "")


def _concepts_found(concepts: Mapping[str, Any]) -> str:
    """Which concept is where, if no memory has all of them."""
    parts = []
    for concept, counts in concepts.items():
        best = ", ".join(f"{memory['title']} (#{memory['id']})" for memory in counts["best"])
        more = counts["memories"] - len(counts["best"])
        parts.append(
            f"{concept!r} is in {best}{f' and {more} more' if more > 0 else ''}" if best else f"{concept!r} in none"
        )
    return f"no memory matches all concepts: {'; '.join(parts)}"


def _when_empty(request: Request, ranking: Ranking, memories: int) -> list[Text]:
    if not memories:
        return [advise("index-first")]
    tried = [
        name
        for name, value in (
            ("spec_folder", request.spec_folder),
            ("tier", request.tier),
            ("context_type", request.context_type),
            ("source", request.only_source),
            ("state_filter", request.state_filter),
            ("min_state", request.min_state),
        )
        if value
    ]
    hints: list[Text] = [advise("drop-filters", parameters=tuple(tried))] if tried else []
    if ranking.concepts:
        return [_concepts_found(ranking.concepts), *hints, "use fewer concepts, or query instead"]
    return [*hints, advise("other-words")]


def _explain(runtime: Runtime, ranking: Ranking) -> dict[str, Any]:
    weights = runtime.settings.search.weights
    return {
        "fusion": runtime.settings.search.fusion,
        **({"scale": ranking.scale} if ranking.scale is not None else {}),
        "candidates": dict(ranking.legs),
        "weights": {
            "relevance": weights.relevance,
            "tier": weights.tier,
            "recency": weights.recency,
            "keywords": weights.keywords,
        },
        "terms": list(ranking.query.terms),
        "keywords": list(ranking.query.keywords),
    }
