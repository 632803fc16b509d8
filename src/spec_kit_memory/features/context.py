"""What does an agent need to know when it starts or resumes? One text within a token budget.

Rules first, then the memories that the prompt triggers, then the state of the spec folder and the
decisions that concern it. Whole memories are offered, not loaded, unless auto-load was asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from spec_kit_memory import answer_json
from spec_kit_memory.advice import Advice, Text, advise, finding, outcome
from spec_kit_memory.answers import ContextAnswer, ContextPart, Offer
from spec_kit_memory.core import long_lines, markdown, packing, tokens
from spec_kit_memory.core import triggers as phrases
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.core.memory import ContextType, Filter, Memory, Source, StoredPassage
from spec_kit_memory.features import search as searching
from spec_kit_memory.features import sessions
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.requests import ContextRequest, SearchRequest

SECTIONS = ("state", "next-steps", "blockers", "summary")
MOST_TRIGGERED = 3
DECISIONS = 3
MOST_DECISIONS = 6  # more than are shown, as some belong to memories that are shown already
OFFERS = 3
NEAREST, NEAREST_TOKENS = 2, 250
NEWEST = 5
# The share of the budget that a part may take, so that no part crowds out the next.
SHARES = {"triggers": 0.3, "folder": 0.5}


# Tokens of the answer around its text: keys and the loading preference.
FRAME_TOKENS = 16
# Tokens of a rule besides its title and text.
RULE_TOKENS = 16


def _count(thing: Any) -> int:
    return -(-answer_json.size(thing) // tokens.BYTES_PER_TOKEN)


def _without_announcements(clipped: str) -> str:
    """A clipped text without the headings and tags at its end, as the text that follows them was cut off."""
    lines = clipped.rstrip().split("\n")
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith(("#", "<!--"))):
        lines.pop()
    return "\n".join(lines)


@dataclass
class _Page:
    """Assembles the text of the context; the answer never exceeds the token budget."""

    budget: int
    frame_tokens: int = 0  # tokens of the answer besides its text and parts
    text: list[str] = field(default_factory=list)
    parts: list[ContextPart] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)  # hashes of the passages that it contains whole
    told: Set[int] = frozenset()  # rules that were sent before: they are named, not told again
    _heading: str = ""

    def heading(self, words: str) -> None:
        """Set the heading of the next piece; it is left out if no piece follows."""
        self._heading = words

    def add(
        self, kind: str, memory: Memory, text: str, *, most: int | None = None, passage: StoredPassage | None = None
    ) -> bool:
        """Add a piece if it fits, clipped to `most` tokens. `passage`: the passage with this text, which counts as sent
        if it is not clipped."""
        head = f"**{memory.title}** (#{memory.id}, {memory.path})\n"
        part = ContextPart(kind=kind, id=memory.id, title=memory.title, tokens=self.budget)
        room = self.budget - self._with(head, part)
        clipped = tokens.clip(text, room if most is None else min(room, most - tokens.count(head)))
        while clipped and (over := self._with(head + clipped, part) - self.budget) > 0:
            clipped = tokens.clip(clipped, tokens.count(clipped) - over)
        if clipped == text and passage is not None:
            self.sent.append(passage.hash)
        clipped = _without_announcements(clipped) if clipped != text else clipped
        if not clipped:
            return False
        self._put(head + clipped)
        self.parts.append(replace(part, tokens=tokens.count(head + clipped)))
        self.shown.add(memory.id)
        return True

    def name(self, words: str, memories: Sequence[Memory]) -> Sequence[Memory]:
        """List as many of these memories by title as fit; returns those."""
        names = [f"{memory.title} (#{memory.id})" for memory in memories]
        while names and self._with(words + ", ".join(names)) > self.budget:
            names.pop()
        if names:
            self._put(words + ", ".join(names))
        return memories[: len(names)]

    def _with(self, more: str, *parts: ContextPart) -> int:
        """Tokens of the answer's JSON with one more piece."""
        text = "\n\n".join([*self.text, *filter(None, [self._heading]), more])
        return self.frame_tokens + _count([text, *self.parts, *parts])

    def _put(self, block: str) -> None:
        self.text += [*filter(None, [self._heading]), block]
        self._heading = ""


def context(runtime: Runtime, request: ContextRequest) -> ContextAnswer:
    prompt, session_id, max_tokens = request.prompt, sessions.kept_id(request.session_id), request.max_tokens
    loading = _loading(runtime, prompt, session_id)
    folder = clean_folder(request.spec_folder) if request.spec_folder else None
    newest = _newest(runtime, folder) if folder and loading != "skip" else []
    offers = _offers(newest, most=max_tokens // 4)
    page = _Page(budget=max_tokens, frame_tokens=FRAME_TOKENS + _count(offers))
    already_sent = sessions.rules_sent_to(runtime, session_id)
    page.told = {rule.id for rule in runtime.rules() if sessions.was_sent(runtime, rule, already_sent)}
    sent_rules = _rules(runtime, page, prompt or "", max_tokens, already_sent)
    brought = False
    decided = _decided_on(runtime, request, folder) if loading != "skip" and (prompt or folder) else {}
    if prompt:
        budget = int(max_tokens * SHARES["triggers"])
        brought = _triggered(runtime, page, prompt, budget, decided, without={memory.id for memory in newest[:1]})
    if folder and newest:
        _folder(runtime, page, folder, newest[0], loading, int(max_tokens * SHARES["folder"]), decided)
    _decisions(page, decided)
    if loading != "skip" and prompt and not (brought or any(decision.answers for decision in decided.values())):
        _nearest(runtime, page, request, folder)
    newest_named = _name_newest(runtime, page) if loading != "skip" and not page.shown else 0
    runtime.used(page.shown)
    if session_id and (page.shown or sent_rules):
        sessions.remember_shown(runtime, session_id, sorted(page.shown), [*sent_rules, *page.sent])
    else:
        sessions.remember_rules(runtime, sent_rules)
    return ContextAnswer(
        outcome=_outcome(page, folder, loading, named=newest_named, prompt=bool(prompt)),
        advice=(*_no_folder(runtime, folder), *_hints(runtime, offers, loading, page)),
        text="\n\n".join(page.text),
        parts=tuple(page.parts),
        loading=loading,
        offers=tuple(offers),
    )


def _name_newest(runtime: Runtime, page: _Page) -> int:
    """List the memories that were saved last and are still valid; returns how many."""
    page.heading("## Saved last")
    newest = runtime.store.documents.find(limit=5 * NEWEST)
    holding = [
        memory
        for memory in newest
        if memory.trusted and memory.id not in page.told and sessions.may_surface(runtime, memory)
    ]
    return len(page.name("", holding[:NEWEST]))


def _loading(runtime: Runtime, prompt: str | None, session_id: str | None) -> str:
    choice = phrases.loading(prompt) if prompt else None
    if session_id is None:
        return choice or "ask"
    session = sessions.open_session(runtime, session_id)
    if choice and choice != session.loading:
        sessions.choose_loading(runtime, session_id, choice)
    return choice or session.loading


def _rules(runtime: Runtime, page: _Page, prompt: str, budget: int, already_sent: Set[str]) -> list[str]:
    """Add the rules that this session was not sent yet; returns their marks, so that they are sent once."""
    triggered = {match.memory_id for match in runtime.matcher().match(prompt)} if prompt else set()
    rules = {m.id: m for m in runtime.rules() if sessions.is_due(runtime, m, already_sent, triggered=m.id in triggered)}
    if not rules:
        return []
    texts = [
        packing.RuleText(
            id=m.id,
            name_size=tokens.count(m.title) + RULE_TOKENS,
            text=sessions.body(runtime.store.documents.text(m.id)),
            weight=m.attributes.weight,
            triggered=m.id in triggered,
        )
        for m in rules.values()
    ]
    page.heading("## Rules")
    ruled = packing.rules(texts, budget=packing.rules_budget(budget), measure=tokens.count)
    shown_ids = [id_ for id_, text in ruled.shown if page.add("rule", rules[id_], text)]
    # Memories that the prompt triggers have their own part below.
    named_ids = page.name("Also: ", [rules[id_] for id_ in ruled.named if id_ not in triggered])
    marks = [sessions.rule_mark(rules[id_], text=True) for id_ in shown_ids]
    for id_, text in ruled.shown:
        marks += sessions.marks_of_whole_rule(runtime, rules[id_], text) if id_ in shown_ids else []
    return marks + [sessions.rule_mark(memory, text=False) for memory in named_ids]


def _triggered(
    runtime: Runtime, page: _Page, prompt: str, budget: int, decided: dict[int, _Decided], *, without: Set[int]
) -> bool:
    """Add the memories that the prompt triggers, except those that follow anyway (`without`). Was there any?"""
    matches, memories = sessions.matching(runtime, prompt)
    left_out = page.shown | without
    chosen = [memories[m.memory_id] for m in matches if m.memory_id not in left_out][:MOST_TRIGGERED]
    if chosen:
        page.heading("## Brought up by the prompt")
    page.name("Told before: ", [memory for memory in chosen if memory.id in page.told])
    for memory in chosen:
        if memory.id in page.told:
            continue
        text = _with_decision(sessions.summary(runtime.store.documents.text(memory.id)), decided.get(memory.id))
        page.add("trigger", memory, text, most=budget // len(chosen))
    return bool(matches)


def _folder(
    runtime: Runtime,
    page: _Page,
    folder: str,
    newest: Memory,
    loading: str,
    budget: int,
    decided: dict[int, _Decided],
) -> None:
    """Add the state of the spec folder, according to its newest memory."""
    page.heading(f"## {folder}")
    text = runtime.store.documents.text(newest.id)
    summary = sessions.body(text) if loading == "auto" else _status_sections(text)
    page.add("folder", newest, _with_decision(summary or sessions.summary(text), decided.get(newest.id)), most=budget)


def _newest(runtime: Runtime, folder: str) -> list[Memory]:
    """The memories saved last in the folder that are still valid; its spec documents if there are none."""
    for source in (Source.MEMORY, None):
        memories = runtime.store.documents.find(Filter(spec_folder=folder, source=source))
        if newest := [memory for memory in memories if sessions.may_surface(runtime, memory)][:OFFERS]:
            return newest
    return []


def _offers(newest: Sequence[Memory], *, most: int) -> list[Offer]:
    """The choices to offer a person, as nothing is loaded without consent; only ids if there is little room."""
    if not newest:
        return []
    offers = [
        Offer(choice=f"[{number}]", id=memory.id, title=memory.title, path=memory.path)
        for number, memory in enumerate(newest, 1)
    ]
    if _count(offers) > most:
        offers = [Offer(choice=offer.choice, id=offer.id) for offer in offers]
    return [*offers, Offer(choice="[all]", ids=tuple(memory.id for memory in newest)), Offer(choice="[skip]")]


def _status_sections(text: str) -> str:
    document = markdown.parse(text)
    lines = []
    for name in SECTIONS:
        section = markdown.find_section(document, name)
        if section is not None:
            words = sessions.without_tags(markdown.lines(document, section.first_line, section.last_line))
            if words:
                lines.append(f"{name}: {words}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Decided:
    """A decision in a memory that concerns the prompt."""

    memory: Memory
    passage: StoredPassage
    text: str
    section: bool  # True: a section of decisions; False: the whole memory is a decision
    answers: bool  # whether it matches the prompt clearly by itself


def _decided_on(runtime: Runtime, request: ContextRequest, folder: str | None) -> dict[int, _Decided]:
    """Decisions that concern the prompt or the topic of the folder: sections of decisions, and decision memories."""
    topic = request.prompt or (folder or "").replace("-", " ").replace("/", " ")
    search_request = SearchRequest(query=topic, also=request.also, spec_folder=folder, include_constitutional=False)
    decided: dict[int, _Decided] = {}
    for kind in (ContextType.DECISION, None):
        ranking = searching.rank(runtime, search_request.replace(context_type=kind))
        for result in ranking.memories if ranking.close or not request.prompt else ():
            if len(decided) == MOST_DECISIONS:
                break
            passage, section = _decision_of(result) if result.memory.trusted else (None, False)
            if passage is not None and result.memory.id not in decided:
                words = long_lines.text_of(runtime.store.documents.text(result.memory.id).split("\n"), passage)
                answers = result.match is None or ranking.answers(result)
                if text := sessions.without_tags(words):  # a heading alone is no decision
                    decided[result.memory.id] = _Decided(
                        result.memory, passage, _replaced(result) + text, section=section, answers=answers
                    )
    return decided


def _decisions(page: _Page, decided: Mapping[int, _Decided]) -> None:
    """Add the decisions of memories that are not shown yet: each memory is shown in one place."""
    page.heading("## Decisions that bear on it")
    left = (decision for decision in decided.values() if decision.memory.id not in page.shown | page.told)
    for decision in islice(left, DECISIONS):
        page.add("decision", decision.memory, decision.text, passage=decision.passage)


def _with_decision(text: str, decided: _Decided | None) -> str:
    """The text of a memory followed by its decision, unless the text contains it already."""
    if decided is None or not decided.section or decided.text in text:
        return text
    return f"{text}\ndecision: {decided.text}" if text else decided.text


def _nearest(runtime: Runtime, page: _Page, request: ContextRequest, folder: str | None) -> None:
    """Add the best match for the prompt, if there is a clear one that is not shown yet."""
    search_request = SearchRequest(
        query=request.prompt, also=request.also, spec_folder=folder, include_constitutional=False
    )
    ranking = searching.rank(runtime, search_request)
    if not ranking.close:
        return
    page.heading("## Nearest to the prompt")
    # The user did not ask for this text, so unvouched memories are left out; a search returns them, marked.
    known = page.shown | page.told
    fitting = [result for result in ranking.memories if result.memory.trusted and result.memory.id not in known]
    with_words = (
        (result, words_of) for result in fitting if not result.superseded_by and (words_of := _words(runtime, result))
    )
    for result, (passage, words) in islice(with_words, NEAREST):
        page.add("nearest", result.memory, words, most=NEAREST_TOKENS, passage=passage)


def _words(runtime: Runtime, result: searching.RankedMemory) -> tuple[StoredPassage, str] | None:
    """The text of the best passage that has more than a heading."""
    lines = runtime.opened(result.memory).lines
    passages = ((p, sessions.without_tags(long_lines.text_of(lines, p))) for p in result.matched)
    return next(((passage, words) for passage, words in passages if words.strip()), None)


def _replaced(result: searching.RankedMemory) -> str:
    """The note that a decision was superseded: an agent must not act on it."""
    by = ", ".join(f"#{id_}" for id_ in result.superseded_by)
    return f"Superseded by {by}: " if by else ""


def _decision_of(result: searching.RankedMemory) -> tuple[StoredPassage | None, bool]:
    """The passage of a match that holds a decision, and whether it is a section of decisions."""
    sections = [passage for passage in result.matched if (passage.anchor or "").startswith("decision")]
    if sections:
        return sections[0], True
    whole = result.memory.attributes.context_type is ContextType.DECISION
    return (result.matched[0] if whole and result.matched else None), False


def _outcome(page: _Page, folder: str | None, loading: str, *, named: int, prompt: bool) -> Advice:
    kinds = {part.kind for part in page.parts}
    if not kinds and page.text:
        last = outcome("context-saved-last", count=named) if named else outcome("context-names-only")
        return outcome("context-nothing-close", outcome=last) if prompt else last
    if not kinds:
        return outcome("context-folder-empty", folder=folder) if folder else outcome("context-empty")
    code = "context-fresh-start" if loading == "skip" else "context-pieces"
    return outcome(code, count=len(page.parts), kinds=tuple(sorted(kinds)))


def _no_folder(runtime: Runtime, folder: str | None) -> tuple[Text, ...]:
    if folder is None or runtime.store.documents.count(Filter(spec_folder=folder)):
        return ()
    return (finding("folder-empty", folder=folder), runtime.folder_suggestions(folder))


def _hints(runtime: Runtime, offers: Sequence[Offer], loading: str, page: _Page) -> list[Text]:
    hints: list[Text] = []
    if offers and loading == "ask":
        hints.append(advise("ask-which-to-load", choices=" ".join(offer.choice for offer in offers)))
    if not page.parts:
        known = page.text or runtime.store.documents.count()
        hints.append(advise("search-or-load") if known else runtime.nothing_yet())
    return hints
