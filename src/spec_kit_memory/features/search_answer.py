"""How is a ranking told within a token budget? The second half of a search.

Rules on top, then the results packed, references for what this session already has, and
plain words on what was done, what was missing and what was held back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from spec_kit_memory.answers import Card, FlatResult, HeldBack, Meta, Result, Rule, SearchAnswer, ShownPassage
from spec_kit_memory.core import long_lines, markdown, packing, tokens, triggers, words
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.long_lines import Layout
from spec_kit_memory.core.memory import ContextType, Document, Filter, Memory, Source, State, StoredPassage, Tier
from spec_kit_memory.core.packing import Block, Packed, Piece, Prices, Shown
from spec_kit_memory.core.ranking import Scored
from spec_kit_memory.core.wording import counted
from spec_kit_memory.features import search as searching
from spec_kit_memory.features import sessions
from spec_kit_memory.features.runtime import Opened, Runtime
from spec_kit_memory.features.search import Found, Ranking
from spec_kit_memory.files import index_entry
from spec_kit_memory.requests import SearchRequest as Request

# An answer of this many tokens says everything about itself first; a smaller one shows the hits first.
AMPLE_TOKENS = 2000
# An answer whose size nobody asked for ends about here, though it may have more.
ENOUGH_TOKENS = 1500
# With so many for each result, every one of them says all that it has to say.
ROOMY_TOKENS = 150
# What every result has beside its path and source; and the comma after it.
HEADER_BYTES = len('{"lines":"-","text":,"score":12.34},')
# What a further line range of a result takes beside its numbers and its text, and once the list of them.
RANGE_BYTES = len('{"lines":"-","text":,"score":12.34},')
LIST_BYTES = len('"passages":[],')
SECTIONS_BYTES = len('"""sections":{},"missingAnchors":,')
MATCH_BYTES = len('"match":0.12,')
TIME_BYTES = len('"createdAt":"2026-01-02T03:04:05Z",')
# What was held back is named within this share of the answer, else only counted.
HELD_SHARE = 8
# What a rule's keys, id and path cost beside its words.
RULE_TOKENS = 24
# What a neighbour's card costs beside its words.
CARD_TOKENS = 120
# A question may be long; the answer repeats as much of it as tells which one it was.
ECHO_CHARACTERS = 300
CACHE_SECONDS = 60
BYTES = tokens.BYTES_PER_TOKEN

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str).encode


class Cache(Protocol):
    def get(self, key: Any, generation: int) -> SearchAnswer | None: ...
    def put(self, key: Any, generation: int, answer: SearchAnswer) -> None: ...


def search(runtime: Runtime, request: Request, cache: Cache) -> SearchAnswer:
    if request.as_of:
        from spec_kit_memory.features import past

        return past.search(runtime, request)
    if (session_id := sessions.kept_id(request.session_id)) != request.session_id:
        request = request.replace(session_id=session_id)
    generation = runtime.whole.generation()
    # What a session was sent changes with each answer, so only questions without one repeat.
    # Memories expire and change their state without a write, so an answer is good for a minute.
    # A connection is told the rules once: the answers before and after are different ones.
    told = sessions.told_to(runtime, None)
    key = (request, int(runtime.now().timestamp() // CACHE_SECONDS), told)
    known = cache.get(key, generation) if request.session_id is None else None
    if known is not None:
        sessions.remember_told(runtime, _told(runtime, known.constitutional))
        if request.include_content:
            runtime.used([result.id for result in known.results])
        return replace(known, meta=replace(known.meta, cache_hit=True))
    answer = answer_from(runtime, request)
    if request.session_id is None and not any(said.startswith("meaning:") for said in answer.unavailable):
        cache.put(key, generation, answer)
    return answer


def answer_from(runtime: Runtime, request: Request) -> SearchAnswer:
    ranking = searching.rank(runtime, request)
    budget = request.max_tokens or runtime.settings.search.max_tokens
    found = _answering(request, ranking)
    ruled = _rules(runtime, request, budget, without={f.memory.id for f in found[: request.limit]})
    stats = runtime.store.stats()
    total = len(found) + ranking.total - len(ranking.found)  # those that were not looked at closely included
    room = (budget - ruled.tokens) * BYTES
    frame = _Frame(runtime, request, ranking, stats, total=total, budget=budget, room=room)
    room = max(0, room - frame.bytes)
    desk = _Desk(runtime, request, frame, ranking.query.keywords)
    by_passage = request.group_by == "passage"
    results = desk.passages(found, room) if by_passage else desk.results(found[: request.limit], room)
    desk.remember(list(dict.fromkeys(result.id for result in results)), _told(runtime, ruled.rules))
    contiguous = desk.contiguity(results)
    hints = _hints(request, ranking, results, stats["memories"], found=len(found))
    if request.spec_folder and not found and (unknown := _unknown_folder(runtime, request.spec_folder)):
        hints.insert(0, unknown)
    if ruled.unnamed:
        hints.append(f"{counted(ruled.unnamed, 'more rule')}: `list(tier='constitutional')` names them")
    if desk.unfit:
        hints.append(
            f"{counted(desk.unfit, 'section')} did not fit the token budget; `load(ID, anchor_id=SECTION)` reads one"
        )
    return SearchAnswer(
        summary=_summary(request, ranking, found, len(results), total),
        hints=tuple(hints),
        meta=Meta(),
        query=_echo(request),
        method=ranking.method,
        results=tuple(contiguous[1]),
        constitutional=ruled.rules,
        total_found=total,
        concepts=frame.concepts,
        held_back=frame.held_back,
        unavailable=ranking.unavailable,
        stats=frame.stats,
        freshness=frame.freshness,
        tokens_saved=desk.saved,
        contiguous=tuple(contiguous[0]),
        explain=frame.explain,
        unsaid=frozenset(frame.waiting) | ({"tokens_saved"} if not request.anchors else set()),
    )


def _size(thing: Any) -> int:
    """Bytes of a value as it will stand in the answer's JSON."""
    if isinstance(thing, str):
        return tokens.quoted(thing)
    text = _encode(thing)
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _entry(name: str, thing: Any) -> int:
    """Bytes of a key with its value and a comma."""
    return len(name) + len('"":,') + _size(thing)


def _count(thing: Any) -> int:
    """Tokens of a text, or of what is made of texts, as it will stand in the answer's JSON."""
    return -(-_size(thing) // BYTES)


def _echo(request: Request) -> str:
    return request.text if len(request.text) <= ECHO_CHARACTERS else f"{request.text[:ECHO_CHARACTERS]}…"


class _Frame:
    """What an answer says about itself beside its results: what it must, and what waits for room."""

    def __init__(
        self,
        runtime: Runtime,
        request: Request,
        ranking: Ranking,
        stats: Mapping[str, Any],
        *,
        total: int,
        budget: int,
        room: int,
    ) -> None:
        self.ample = budget >= AMPLE_TOKENS or bool(request.anchors) or request.group_by == "passage"
        self.roomy = budget >= ROOMY_TOKENS * min(request.limit, max(total, 1))
        self.held_back = _within(ranking.held_back, budget * BYTES // HELD_SHARE)
        self.stats = {"totalFiles": stats["memories"], "totalChunks": stats["passages"]}
        self.freshness = {"lastIndexed": stats["last_indexed"], "pendingVectors": stats["pending_passages"]}
        self.bytes = len('{"results":[]}')
        self.concepts = ranking.concepts
        if self.concepts and _entry("concepts", self.concepts) > room // 2:
            self.concepts = {concept: {"memories": found["memories"]} for concept, found in self.concepts.items()}
        if self.concepts:
            self.bytes += _entry("concepts", self.concepts)
        if ranking.unavailable:
            self.bytes += _entry("unavailable", ranking.unavailable)
        if self.held_back != HeldBack():
            self.bytes += _entry("heldBack", _held(self.held_back))
        if request.anchors:
            self.bytes += _entry("tokensSaved", 10**9)
        self.explain = _explain(runtime, ranking) if request.explain else {}
        if self.explain and self.bytes + _entry("explain", self.explain) > room:
            self.explain = {}
        if self.explain:
            self.bytes += _entry("explain", self.explain)
        # By field, in the order in which they are worth saying.
        self.waiting = {
            "method": _entry("method", ranking.method),
            "total_found": _entry("totalFound", total),
            "stats": _entry("stats", self.stats),
            "freshness": _entry("freshness", self.freshness),
            "query": _entry("query", _echo(request)),
        }
        if self.ample:
            self.bytes += self.say(room - self.bytes)

    def say(self, room: int) -> int:
        """As much of what waits as there is room for; returns what it took."""
        start = room
        for name, size in list(self.waiting.items()):
            if size <= room:
                room -= self.waiting.pop(name)
        return start - room


def _held(held: HeldBack) -> dict[str, Any]:
    counts = {"archived": held.archived, "dormant": held.dormant, "expired": held.expired, "minScore": held.min_score}
    return {**counts, "best": [dict(each) for each in held.best]}


def _within(held: HeldBack, most_bytes: int) -> HeldBack:
    """As many of the best that were held back as may be named."""
    while held.best and _size(_held(held)) > most_bytes:
        held = replace(held, best=held.best[:-1])
    return held


def _answering(request: Request, ranking: Ranking) -> list[Found]:
    """All that was found but rules that do not answer: those stand above the results, whatever is asked.

    A rule that answers is a result like others, with its score; unless the limit cuts it off.
    """
    if _rules_asked_for(request):
        return list(ranking.found)
    rules = [f.memory.tier is Tier.CONSTITUTIONAL for f in ranking.found]
    kept = [f for f, is_rule in zip(ranking.found, rules, strict=True) if not is_rule or ranking.answers(f)]
    within, beyond = kept[: request.limit], kept[request.limit :]
    return [*within, *(f for f in beyond if f.memory.tier is not Tier.CONSTITUTIONAL)]


def _rules_asked_for(request: Request) -> bool:
    """Then they are what is searched, and nothing to be reminded of."""
    return request.tier is not None or request.only_source is Source.CONSTITUTIONAL


# --- rules on top ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ruled:
    """The constitutional memories to show, and what they cost."""

    rules: tuple[Rule, ...] = ()
    tokens: int = 0
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
        told = sessions.told_to(runtime, request.session_id)
        memories = {id_: m for id_, m in memories.items() if sessions.is_due(m, told, triggered=id_ in triggered)}
    bodies = {id_: _body(runtime.opened(memory).outline) for id_, memory in memories.items()}
    candidates = [
        packing.Rule(
            id=m.id,
            title=f"{m.title} {m.path}",  # both are said of each
            text=bodies[m.id],
            weight=m.attributes.weight,
            triggered=m.id in triggered,
        )
        for m in memories.values()
    ]
    ruled = packing.rules(
        candidates, count=_count, budget_tokens=packing.rules_budget(budget), header_tokens=RULE_TOKENS
    )
    shown = [Rule(id=id_, title=memories[id_].title, path=memories[id_].path, text=text) for id_, text in ruled.shown]
    named = [Rule(id=id_, title=memories[id_].title, path=memories[id_].path, text="") for id_ in ruled.named]
    return _Ruled((*shown, *named), ruled.tokens, ruled.unnamed)


def _told(runtime: Runtime, rules: Sequence[Rule]) -> list[str]:
    """What is remembered of rules that an answer tells, so that they are told once."""
    memories = {memory.id: memory for memory in runtime.rules()} if rules else {}
    return [sessions.told_mark(memories[rule.id], text=bool(rule.text)) for rule in rules if rule.id in memories]


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
        self._opened: dict[int, Opened] = {}
        self._had_of: dict[int, list[tuple[int, int]]] = {}
        self._shown_hashes: set[str] = set()
        self._near: dict[int, tuple[Memory | None, Memory | None]] = {}
        self._waiting: dict[int, dict[str, int]] = {}  # of each result, what is said of it if there is room
        self.saved = 0  # tokens, by sending sections only
        self.unfit = 0  # sections for which there was no room

    def results(self, found: Sequence[Found], room: int) -> list[Result]:
        self._opened = {f.memory.id: self.runtime.opened(f.memory) for f in found}
        if self.request.anchors:
            return self._sections(found, room)
        digits = max((len(str(len(opened.lines))) for opened in self._opened.values()), default=1)
        fitted = packing.fit(
            [self._block(f) for f in found],
            budget=room,
            prices=Prices(range=RANGE_BYTES + 2 * digits, list=LIST_BYTES, empty=len('""')),
            weigh=_weigher(self.keywords),
            beside=self._beside,
            clip=_clip,
            breadth=self.frame.roomy and not all(f.memory.source is Source.CHAT for f in found),
            enough=ENOUGH_TOKENS * BYTES if self.request.max_tokens is None else None,
        )
        packed = {block.id: _in_lines(block, self._opened[block.id].layout) for block in fitted.blocks}
        return [self._result(f, packed[f.memory.id]) for f in found if f.memory.id in packed]

    def remember(self, shown_ids: Sequence[int], rules: Iterable[str]) -> None:
        """What was listed is HOT for this session; what came with its content counts as used."""
        if self.request.include_content:
            self.runtime.used(shown_ids)
        sent = self._shown_hashes.union(rules)
        if self.request.session_id and (shown_ids or sent):
            sessions.remember_shown(self.runtime, self.request.session_id, shown_ids, sent)
        else:
            sessions.remember_told(self.runtime, rules)

    def _block(self, f: Found) -> Block:
        opened = self._opened[f.memory.id]
        fresh = [(p, s) for p, s in f.passages if not (self._sent and self._has(f, p))]
        wholes = self._unsent(f) if self.request.include_content else ()
        return Block(
            id=f.memory.id,
            lines=opened.layout.lines,
            offsets=opened.offsets,
            pieces=[Piece(*opened.layout.place(p), s.score) for p, s in fresh],
            apart=f.memory.source is Source.CHAT,
            wholes=[Piece(*opened.layout.laid(first, last), f.scored.score + 1) for first, last in wholes],
            sections=tuple if wholes else partial(_ranges, opened, self._had(f)),
            header=self._header_bytes(f) + 2 * len(str(len(opened.lines))),
            score=f.scored.score,
        )

    def _had(self, f: Found) -> list[tuple[int, int]]:
        """The lines of a memory that this session was sent, in order."""
        if not self._sent:
            return []
        if f.memory.id not in self._had_of:
            passages = self.runtime.store.passages_of(f.memory.id)
            ranges = [(p.first_line, p.last_line) for p in passages if p.hash in self._sent]
            self._had_of[f.memory.id] = _joined([*ranges, *sessions.ranges_of(f.memory, self._sent)])
        return self._had_of[f.memory.id]

    def _has(self, f: Found, passage: StoredPassage) -> bool:
        """Does this session have all that a passage says?"""
        return passage.hash in self._sent or self._was_sent(f, passage.first_line, passage.last_line)

    def _unsent(self, f: Found) -> list[tuple[int, int]]:
        """The lines of a memory's text that this session does not have: all, where nothing was sent."""
        opened = self._opened[f.memory.id]
        first, last = opened.outline.body_first_line, len(opened.lines)
        left: list[tuple[int, int]] = []
        for start, end in [*self._had(f), (last + 1, last + 1)]:
            if first < start:
                left.append((first, start - 1))
            first = max(first, end + 1)
        said = [(start, end) for start, end in left if any(map(_says, opened.lines[start - 1 : end]))]
        return said if self._sent else left

    def _header_bytes(self, f: Found) -> int:
        """What naming a result costs, with its neighbours where they were asked for."""
        waiting = _about(f)
        if self.frame.ample:
            waiting.pop("id")
        if self.frame.roomy:
            waiting.pop("match", None)
        if self.frame.roomy and f.memory.source is not Source.CHAT:
            waiting.pop("title")
        if self.frame.ample and f.memory.source is not Source.CHAT and f.memory.title not in f.memory.path:
            waiting.pop("title", None)
        if self.request.anchors:
            waiting.clear()
        self._waiting[f.memory.id] = waiting
        said = sum(_about(f).values()) - sum(waiting.values())
        more = len('"content":"",') if self.request.include_content else 0
        layout = self.runtime.opened(f.memory).layout
        if layout.last_line != len(layout.lines):  # parts of long lines are shown with a sign at each end
            more += 2 * len("…".encode()) * len(f.passages)
        more += _entry("sentBefore", self._sent_before(f)) + len('"alreadySent":true,') if self._sent else 0
        if self.request.include_content:
            more += sum(_size(f"{_sent_line(first, last)}\n") for first, last in self._had(f))
        return _header_bytes(f, self.request.explain) + said + more + self._near_tokens(f.memory) * BYTES

    def _beside(self, named: Sequence[int], room: int) -> int:
        """What the hits leave room for: ids, the answer about itself, then titles, then where and when."""
        start = room
        room -= self._say(named, room, "id")
        room -= self._say(named, room, "match")
        room -= self.frame.say(room)
        room -= self._say(named, room, "title")
        room -= self._say(named, room, "spec_folder", "created_at")
        return start - room

    def _say(self, named: Sequence[int], room: int, *names: str) -> int:
        start = room
        for id_ in named:
            waiting = self._waiting[id_]
            for name in names:
                if waiting.get(name, room + 1) <= room:
                    room -= waiting.pop(name)
        return start - room

    def _near_tokens(self, memory: Memory) -> int:
        if not self.request.include_contiguity:
            return 0
        if memory.id not in self._near:
            self._near[memory.id] = _neighbours(self.runtime, memory)
        return sum(_card_tokens(each) for each in self._near[memory.id] if each is not None)

    def _result(self, f: Found, packed: Packed) -> Result:
        self._mark_sent(f, [(s.first_line, s.last_line) for s in packed.shown if not s.clipped])
        wholes = [s for s in packed.shown if self.request.include_content and not s.cut and s.score > f.scored.score]
        texts = [s for s in packed.shown if s not in wholes]
        best = max(texts, key=lambda shown: shown.score, default=None)
        first, last = (best.first_line, best.last_line) if best else _lines_of(f)
        if wholes:
            first, last = wholes[0].first_line, wholes[-1].last_line
        others = [
            ShownPassage(lines=f"{s.first_line}-{s.last_line}", text=s.text, score=round(s.score, 2))
            for s in texts
            if s is not best or wholes
        ]
        plain = _plain(f, explain=self.request.explain)
        sent_before = self._sent_before(f)
        already = bool(sent_before) and not packed.shown
        return replace(
            plain,
            lines=f"{first}-{last}",
            text=best.text if best and not wholes else "",
            content=self._content(f, wholes) if wholes else None,
            passages=tuple(others),
            already_sent=already,
            sent_before=() if already else tuple(sent_before),
            unsaid=plain.unsaid.union(self._waiting[f.memory.id]) - ({"already_sent"} if already else set()),
        )

    def _content(self, f: Found, wholes: Sequence[Shown]) -> str:
        """The text, with a line in the place of what this session has."""
        parts = [(shown.first_line, shown.text) for shown in wholes]
        parts += [(first, _sent_line(first, last)) for first, last in self._had(f)]
        return "\n".join(text for _, text in sorted(parts))

    def _sent_before(self, f: Found) -> list[str]:
        if not self._sent:
            return []
        had = _joined([(p.first_line, p.last_line) for p in f.matched if self._has(f, p)])
        return [f"{first}-{last}" for first, last in had]

    def _mark_sent(self, f: Found, ranges: Sequence[tuple[int, int]]) -> None:
        """Only what was shown whole: the rest of a passage that was cut must still come."""
        if not self.request.session_id or not ranges:
            return
        lines = self.runtime.opened(f.memory).lines
        for passage in self.runtime.store.passages_of(f.memory.id):
            if passage.last_line > len(lines):  # the file was shortened since
                continue
            said = (n for n in range(passage.first_line, passage.last_line + 1) if lines[n - 1].strip())
            if all(any(first <= n <= last for first, last in ranges) for n in said):
                self._shown_hashes.add(passage.hash)
        self._shown_hashes.update(sessions.range_mark(f.memory, first, last) for first, last in ranges)

    def _sections(self, found: Sequence[Found], room: int) -> list[Result]:
        """Only the asked sections of each result, while there is room to name one."""
        results = []
        for f in found:
            document = self._opened[f.memory.id].outline
            asked = {wanted: markdown.find_section(document, wanted) for wanted in self.request.anchors}
            missing = tuple(wanted for wanted, anchor in asked.items() if anchor is None)
            room -= self._header_bytes(f) + 2 * len(str(len(document.text))) + SECTIONS_BYTES + _size(missing)
            if room < 0:
                break
            sections: dict[str, str] = {}
            for wanted, anchor in asked.items():
                if anchor is None:
                    continue
                text = markdown.lines(document, anchor.first_line, anchor.last_line).strip("\n")
                if self._was_sent(f, anchor.first_line, anchor.last_line):
                    text = _sent_line(anchor.first_line, anchor.last_line)
                if _entry(wanted, text) <= room:
                    room -= _entry(wanted, text)
                    sections[wanted] = text
                    self._mark_sent(f, [(anchor.first_line, anchor.last_line)])
                else:
                    self.unfit += 1
            self.saved += max(0, tokens.count(document.text) - sum(tokens.count(text) for text in sections.values()))
            results.append(replace(_plain(f, explain=self.request.explain), sections=sections, missing_anchors=missing))
        return results

    def _was_sent(self, f: Found, first: int, last: int) -> bool:
        """Has this session all that these lines say?"""
        lines, had = self.runtime.opened(f.memory).lines, self._had(f)
        said = [n for n in range(first, min(last, len(lines)) + 1) if _says(lines[n - 1])]
        return bool(said) and all(any(start <= n <= end for start, end in had) for n in said)

    # --- a flat list of passages

    def passages(self, found: Sequence[Found], room: int) -> list[FlatResult]:
        """The best passages of all memories. One too long for the room that is left is named without its text."""
        least = self.request.min_score * 100
        best = {f.memory.id: f.scored.score for f in found}
        ordered = [(_place(f, s.score, best), f, p, s) for f in found for p, s in f.passages if s.score >= least]
        ordered.sort(key=lambda row: (*row[0], row[2].id))
        results: list[FlatResult] = []
        for _, f, passage, scored in ordered[: self.request.limit]:
            sent = bool(self._sent) and self._has(f, passage)
            lines = self.runtime.opened(f.memory).lines
            text = "" if sent else _passage_text(lines, passage)
            known = any(result.id == f.memory.id for result in results)
            room -= _flat_bytes(f, passage, scored, self.request.explain, sent)
            room -= 0 if known else self._near_tokens(f.memory) * BYTES
            if room < 0:
                break
            if tokens.quoted(text) <= room:
                room -= tokens.quoted(text)
                self._shown_hashes.add(passage.hash)
            else:
                text = ""
            results.append(_flat(f, passage, scored, text, explain=self.request.explain, sent=sent))
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


def _says(line: str) -> bool:
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


def _ranges(opened: Opened, had: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The sections of a text that have nothing of what was sent before."""
    document = opened.outline
    ranges = [(a.first_line, a.last_line) for a in document.anchors]
    ranges += [(h.first_line, h.last_line) for h in document.headings if h.level > 1]
    ranges.append((document.body_first_line, len(opened.lines)))
    fresh = [(first, last) for first, last in ranges if not any(a <= last and first <= b for a, b in had)]
    return [opened.layout.laid(first, last) for first, last in fresh]


def _in_lines(packed: Packed, layout: Layout) -> Packed:
    """What is shown by the numbers of real lines; a part of one says so in its text, and counts as clipped."""
    return replace(packed, shown=tuple(_in_real_lines(shown, layout) for shown in packed.shown))


def _in_real_lines(shown: Shown, layout: Layout) -> Shown:
    first, last = layout.real(shown.first_line, shown.last_line)
    whole = layout.is_whole(shown.first_line, shown.last_line)
    text = shown.text if shown.clipped else layout.text(shown.first_line, shown.last_line)
    return replace(shown, first_line=first, last_line=last, text=text, clipped=shown.clipped or not whole)


def _passage_text(lines: Sequence[str], passage: StoredPassage) -> str:
    """A passage by itself; a part of a line says that it is one."""
    text = long_lines.text_of(lines, passage)
    line = lines[passage.first_line - 1] if passage.first_line <= len(lines) else ""
    if passage.first_line != passage.last_line or len(text) == len(line.strip()) or not long_lines.is_long(line):
        return text
    before = "" if line.lstrip().startswith(text) else "…"
    return f"{before}{text}{'' if line.rstrip().endswith(text) else '…'}"


def _place(f: Found, score: float, best: Mapping[int, float]) -> tuple[float, bool]:
    """Where a passage stands in a flat list: no passage of a superseded memory above what supersedes it."""
    ahead = [best[id_] for id_ in f.superseded_by if id_ in best]
    return -min([score, *ahead]), bool(ahead)


def _lines_of(f: Found) -> tuple[int, int]:
    passage = f.passages[0][0]
    return passage.first_line, passage.last_line


def _plain(f: Found, *, explain: bool) -> Result:
    first, last = _lines_of(f)
    memory = f.memory
    return Result(
        id=memory.id,
        title=memory.title,
        path=memory.path,
        lines=f"{first}-{last}",
        text="",
        score=round(f.scored.score, 2),
        match=None if f.match is None else round(f.match, 2),
        source=memory.source,
        spec_folder=memory.spec_folder,
        tier=memory.tier,
        state=f.state,
        context_type=memory.attributes.context_type,
        created_at=memory.attributes.created_at,
        trusted=memory.trusted,
        superseded_by=f.superseded_by,
        supersedes=f.supersedes,
        contradicts=f.contradicts,
        concepts=f.concepts,
        explain=f.scored.explain() if explain else {},
        unsaid=_obvious(memory, f.state),
    )


def _obvious(memory: Memory, state: State) -> frozenset[str]:
    """What goes without saying."""
    at_default = {
        "tier": memory.tier is Tier.NORMAL,
        "state": state is State.WARM,
        "context_type": memory.attributes.context_type is ContextType.GENERAL,
        "trusted": memory.trusted == index_entry.vouched(memory.source),
        "already_sent": True,
    }
    return frozenset(name for name, is_so in at_default.items() if is_so)


def _about(f: Found) -> dict[str, int]:
    """What a result says of itself if there is room, and what that takes."""
    folder, created = f.memory.spec_folder, f.memory.attributes.created_at
    about = {"id": _entry("id", f.memory.id), "title": _entry("title", f.memory.title)}
    if f.match is not None:
        about["match"] = MATCH_BYTES
    if folder is not None:
        about["spec_folder"] = _entry("specFolder", folder)
    if created is not None:
        about["created_at"] = TIME_BYTES
    return about


def _header_bytes(f: Found, explain: bool) -> int:
    """What a result takes beside its lines, its text and what it says if there is room."""
    memory = f.memory
    told = {
        "tier": ("tier", memory.tier),
        "state": ("state", f.state),
        "context_type": ("contextType", memory.attributes.context_type),
        "trusted": ("trusted", memory.trusted),
    }
    linked = {
        "supersededBy": f.superseded_by,
        "supersedes": f.supersedes,
        "contradicts": f.contradicts,
        "concepts": dict(f.concepts),
    }
    said: list[tuple[str, Any]] = [("path", memory.path), ("source", memory.source)]
    said += [told[name] for name in told.keys() - _obvious(memory, f.state)]
    said += [(name, several) for name, several in linked.items() if several]
    if explain:
        said.append(("explain", f.scored.explain()))
    return HEADER_BYTES + sum(_entry(name, thing) for name, thing in said)


def _clip(line: str, room: int) -> tuple[str, int]:
    """The beginning of a line within so many bytes of the answer's JSON, and what it takes."""
    short = tokens.clip(line, (room - len('"…"'.encode())) // BYTES)
    while short and tokens.quoted(f"{short}…") > room:  # it has what JSON writes with more
        short = short[: len(short) * 3 // 4].rstrip()
    return (f"{short}…", tokens.quoted(f"{short}…")) if short else ("", 0)


def _weigher(keywords: Sequence[str]) -> Callable[[str], float]:
    """How many of the question's words a line has."""
    stems = {words.stem(word) for word in keywords}
    return lambda line: sum(stem in folded for stem in stems) if (folded := line.casefold()) else 0


def _flat(f: Found, passage: StoredPassage, scored: Scored, text: str, *, explain: bool, sent: bool) -> FlatResult:
    return FlatResult(
        path=f.memory.path,
        lines=f"{passage.first_line}-{passage.last_line}",
        text=text,
        score=round(scored.score / 100, 4),
        match=None if (match := f.matches.get(passage.id)) is None else round(match, 2),
        source=f.memory.source,
        id=f.memory.id,
        title=f.memory.title,
        superseded_by=f.superseded_by,
        supersedes=f.supersedes,
        already_sent=sent or None,
        explain=scored.explain() if explain else {},
    )


def _flat_bytes(f: Found, passage: StoredPassage, scored: Scored, explain: bool, sent: bool) -> int:
    """What one of a flat list takes beside its text."""
    memory = f.memory
    lines = f"{passage.first_line}-{passage.last_line}"
    shown = {"path": memory.path, "lines": lines, "text": 0, "score": 0.1234, "source": memory.source, "id": memory.id}
    shown |= {"title": memory.title, **({"alreadySent": True} if sent else {})}
    shown |= {"match": 0.12} if f.matches.get(passage.id) is not None else {}
    shown |= {"supersededBy": f.superseded_by} if f.superseded_by else {}
    shown |= {"supersedes": f.supersedes} if f.supersedes else {}
    return _size(shown | ({"explain": scored.explain()} if explain else {})) + 1


def _card_tokens(memory: Memory) -> int:
    attributes = memory.attributes
    return CARD_TOKENS + _count(
        [memory.path, memory.spec_folder, attributes.title, attributes.triggers, memory.aliases]
    )


# --- neighbours in time ------------------------------------------------------------


def _neighbours(runtime: Runtime, memory: Memory) -> tuple[Memory | None, Memory | None]:
    session = memory.attributes.session_id
    if memory.spec_folder is None and session is None:
        return None, None
    near = runtime.store.find(Filter(spec_folder=memory.spec_folder)) if memory.spec_folder else runtime.store.find()
    if memory.spec_folder is None:
        near = [other for other in near if other.attributes.session_id == session]
    near.sort(key=lambda other: (other.attributes.created_at or other.first_indexed_at, other.id))
    at = next((i for i, other in enumerate(near) if other.id == memory.id), None)
    if at is None:
        return None, None
    return near[at - 1] if at else None, near[at + 1] if at + 1 < len(near) else None


# --- in words --------------------------------------------------------------------


def _summary(request: Request, ranking: Ranking, found: Sequence[Found], shown: int, total: int) -> str:
    if not found:
        beside = " beside the rules" if ranking.found else ""
        return f"nothing found for {request.text[:80]!r}{beside}"
    if not shown:
        return f"{counted(total, 'memory')} found, but the token budget has no room for one"
    what = f"{counted(shown, 'passage')} of" if request.group_by == "passage" else f"{shown} of"
    best = found[0]
    return f"{what} {counted(total, 'memory')}, best: {best.memory.title} ({best.scored.score:.0f}), {ranking.method}"


def _what_brings(request: Request, held: HeldBack) -> str:
    """The way to each kind that was held back, and none that was taken already."""
    if request.state_filter or request.min_state:
        return "`state_filter` or `min_state` left them out"
    ways = []
    if (held.archived or held.expired) and not request.include_archived:
        ways.append("`include_archived=True` brings archived and expired ones")
    if held.dormant:
        ways.append("`min_state='DORMANT'` brings dormant ones")
    return ", ".join(ways)


def _hints(request: Request, ranking: Ranking, results: Sequence[Any], memories: int, *, found: int) -> list[str]:
    hints = []
    if ranking.historical and request.use_decay:
        hints.append("the question asks about the past, so decay was left out")
    if results and ranking.unclear:
        hints.append("nothing matches closely: these are only the nearest")
    held = ranking.held_back
    if held.archived or held.dormant or held.expired:
        hints.append(f"older matches were held back; {_what_brings(request, held)}")
    left_out = min(request.limit, found) - len(results) if request.group_by == "memory" else 0
    if left_out > 0 or (found and not results):
        hints.append(
            f"{max(left_out, 1)} more did not fit the token budget; a larger `max_tokens` or a narrower question helps"
        )
    if held.min_score:
        hints.append(f"{counted(held.min_score, 'match is', 'matches are')} below `min_score` {request.min_score}")
    if not results and not found:
        hints += _when_empty(request, ranking, memories)
    return hints


def _unknown_folder(runtime: Runtime, asked: str) -> str:
    """What to ask for instead of a folder that nothing is in; "" if there is something."""
    name = clean_folder(asked)
    known = {tally.spec_folder for tally in runtime.store.tally() if tally.spec_folder}
    if name in known:
        return ""
    from difflib import get_close_matches

    within = sorted(each for each in known if each.endswith(f"/{name}") or f"/{name}/" in f"/{each}")
    near = (within or get_close_matches(name, sorted(known), n=3))[:3]
    return f"no memory is in the spec folder {name}" + (f"; there is {', '.join(near)}" if near else "")


def _concepts_found(concepts: Mapping[str, Any]) -> str:
    """Which concept is where, if no memory has all of them."""
    told = []
    for concept, found in concepts.items():
        best = ", ".join(f"{each['title']} (#{each['id']})" for each in found["best"])
        more = found["memories"] - len(found["best"])
        told.append(
            f"{concept!r} is in {best}{f' and {more} more' if more > 0 else ''}" if best else f"{concept!r} in none"
        )
    return f"no memory matches all concepts: {'; '.join(told)}"


def _when_empty(request: Request, ranking: Ranking, memories: int) -> list[str]:
    if not memories:
        return ["nothing is indexed yet: run `index()`"]
    tried = [
        name
        for name, value in (
            ("`spec_folder`", request.spec_folder),
            ("tier", request.tier),
            ("`context_type`", request.context_type),
            ("source", request.only_source),
            ("`state_filter`", request.state_filter),
            ("`min_state`", request.min_state),
        )
        if value
    ]
    hints = [f"search again without {', '.join(tried)}"] if tried else []
    if ranking.concepts:
        return [_concepts_found(ranking.concepts), *hints, "use fewer concepts, or query instead"]
    return [*hints, "try other words for the same thing, or `list()` to browse"]


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
