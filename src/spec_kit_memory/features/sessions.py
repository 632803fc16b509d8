"""What does an agent's session know already, and what should come up next?

Triggers never need vectors. Attention, turns and marks of sent text are kept per session, so
that two agents on one workspace do not disturb each other.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from spec_kit_memory.advice import Advice, advise, finding, outcome
from spec_kit_memory.answers import (
    AttendedMemory,
    SessionAnswer,
    SessionTurn,
    Suggestion,
    TriggerAnswer,
    TriggeredMemory,
)
from spec_kit_memory.core import attention, decay, tokens
from spec_kit_memory.core import triggers as phrases
from spec_kit_memory.core.memory import Filter, Link, Memory, Session, Source, State, Tier
from spec_kit_memory.core.triggers import TriggerMatch
from spec_kit_memory.errors import DatabaseBusy, DatabaseUnusable
from spec_kit_memory.features.runtime import OpenedText, Runtime
from spec_kit_memory.files import recent_prompts
from spec_kit_memory.requests import SessionRequest, TriggersRequest

logger = logging.getLogger(__name__)

# Enough for a long conversation; beyond it only the newest answer's passages are remembered.
MOST_SENT = 5000
MOST_CONNECTIONS = 1000
# A try waits half a second for another writer. If the end of a context is not noted, what the model has lost would
# never be sent again; so it is tried for as long as hosts wait for a hook.
ANEW_TRIES = 10
# A prompt must not be answered with a whole file: `load` gives the rest.
NAMED_IDS = 3
CONTENT_TOKENS = 800
SUMMARY_TOKENS = 200
_PLAIN_ID = re.compile(r"[0-9a-fA-F-]{1,64}")


def kept_id(session_id: str | None) -> str | None:
    """The session's id as it is stored, free of secrets. Hosts' ids are plain, so a hook need not load the scanner."""
    if session_id is None or _PLAIN_ID.fullmatch(session_id):
        return session_id
    from spec_kit_memory.core import redact

    return redact.kept_id(session_id)


def open_session(runtime: Runtime, session_id: str) -> Session:
    return runtime.store.record.session(session_id) or Session(id=session_id)


def remember_shown(runtime: Runtime, session_id: str, memory_ids: Sequence[int], hashes: Iterable[str]) -> None:
    """Make the listed memories HOT for this session, and mark the sent passages so that they are not sent again."""
    tiers = {memory.id: memory.tier for memory in runtime.store.documents.many(list(memory_ids))}
    listed, sent = dict.fromkeys(memory_ids, attention.HOT_FROM), frozenset(hashes)

    def shown(session: Session) -> Session:
        return with_sent(attention.attend(session, listed, tiers=tiers, via="listed"), sent)

    change_session(runtime, session_id, shown)


def sent_to(runtime: Runtime, session_id: str | None) -> frozenset[str]:
    session = runtime.store.record.session(session_id) if session_id else None
    return session.sent if session else frozenset()


def range_mark(memory: Memory, first: int, last: int) -> str:
    """The mark for sent lines that are not a whole passage; it is valid for this text only."""
    return f"lines:{memory.content_hash[:16]}:{first}-{last}"


def ranges_of(memory: Memory, sent: Iterable[str]) -> list[tuple[int, int]]:
    prefix = range_mark(memory, 0, 0).rpartition(":")[0] + ":"
    marks = [mark.removeprefix(prefix).split("-") for mark in sent if mark.startswith(prefix)]
    return [(int(first), int(last)) for first, last in marks]


# --- each rule is sent once -----------------------------------------------------


def rules_sent_to(runtime: Runtime, session_id: str | None) -> frozenset[str]:
    """The rules that were sent to this session, or, where it has no id, over this connection."""
    if session_id:
        return sent_to(runtime, session_id)
    return runtime.view.rules_sent.get(runtime.caller.connection, frozenset())


def rule_mark(rule: Memory, *, text: bool) -> str:
    """The mark for a rule that was sent. It contains the text's hash, so a changed rule is sent again."""
    return f"rule:{rule.content_hash[:16]}:{'text' if text else 'name'}"


def marks_of_whole_rule(runtime: Runtime, rule: Memory, shown: str) -> list[str]:
    """The marks for its lines if the whole text was sent, so that a search in this session does not send it again."""
    text = runtime.store.documents.text(rule.id)
    return _mark_of_beginning(rule, text, shown) if shown == body(text) else []


def is_due(runtime: Runtime, rule: Memory, sent_rules: Set[str], *, triggered: bool) -> bool:
    """Must a rule be sent now? If its title alone was sent before, only if the prompt triggers it."""
    if was_sent(runtime, rule, sent_rules):
        return False
    return triggered or rule_mark(rule, text=False) not in sent_rules


def was_sent(runtime: Runtime, memory: Memory, sent: Set[str]) -> bool:
    """Was its whole text sent: as a rule, as content of a match, or passage by passage?"""
    if not sent or rule_mark(memory, text=True) in sent or f"{memory.content_hash}:content" in sent:
        return bool(sent)
    passages = runtime.store.documents.passages(memory_ids=[memory.id])
    return bool(passages) and all(passage.hash in sent for passage in passages)


def marks_of_rules_among(runtime: Runtime, shown: Iterable[tuple[int, str, str]]) -> list[str]:
    """The marks for the rules whose whole text is in an answer, in whatever part of it: (id, lines, text) of each."""
    rules = {rule.id: rule for rule in runtime.rules()}
    parts = [part for part in shown if part[0] in rules and part[2]]
    return [
        rule_mark(rules[id_], text=True)
        for id_ in dict.fromkeys(id_ for id_, _, _ in parts)
        if _is_whole(runtime.opened(rules[id_]), [(lines, text) for other, lines, text in parts if other == id_])
    ]


def _is_whole(opened: OpenedText, shown: Iterable[tuple[str, str]]) -> bool:
    """Are all lines with words among those that are shown, and none of them shortened?"""
    missing = {n for n, line in enumerate(opened.lines, 1) if without_tags(line)}
    missing -= set(range(1, opened.outline.body_first_line))
    for lines, text in shown:
        first, last = map(int, lines.split("-"))
        if text.strip() == "\n".join(opened.lines[first - 1 : last]).strip():
            missing -= set(range(first, last + 1))
    return not missing


def remember_rules(runtime: Runtime, marks: Iterable[str]) -> None:
    """Remember rules that were sent over a connection without a session; commands and Python callers have none."""
    connection, new = runtime.caller.connection, frozenset(marks)
    if connection and new:
        runtime.view.rules_sent[connection] = runtime.view.rules_sent.pop(connection, frozenset()) | new
        while len(runtime.view.rules_sent) > MOST_CONNECTIONS:
            del runtime.view.rules_sent[next(iter(runtime.view.rules_sent))]


def with_sent(session: Session, hashes: Iterable[str]) -> Session:
    new = frozenset(hashes)
    sent = session.sent | new
    return replace(session, sent=sent if len(sent) <= MOST_SENT else new)


def change_session(runtime: Runtime, session_id: str, change: Callable[[Session], Session], *, tries: int = 1) -> None:
    """Change the stored session, which another process may have changed since it was read here; a failure is logged,
    and the answer is given nevertheless. What was sent is then sent again, which is better than to wait."""
    for left in reversed(range(tries)):
        try:
            return runtime.store.record.change_session(session_id, change, runtime.now())
        except (DatabaseBusy, DatabaseUnusable) as error:
            if left and isinstance(error, DatabaseBusy):
                logger.info("session %s waits for another writer", session_id)
                continue
            return logger.warning("session %s was not kept: %s %s", session_id, error.code, error.message)


def choose_loading(runtime: Runtime, session_id: str, loading: str) -> None:
    """Remember whether the session wants memories to be loaded."""
    change_session(runtime, session_id, lambda session: replace(session, loading=loading))


def session(runtime: Runtime, request: SessionRequest) -> SessionAnswer:
    """The working memory of a session. With `anew`, nothing counts as sent, because the model has lost its context."""
    first = request.event is None or _is_first(runtime, request.session_id, request.event, apart=request.apart)
    current = open_session(runtime, request.session_id)
    if request.anew and current.sent:
        own = _event_prefix(request.event) if request.event else " "

        def begun_anew(session: Session) -> Session:
            return replace(session, sent=frozenset(mark for mark in session.sent if mark.startswith(own)))

        change_session(runtime, request.session_id, begun_anew, tries=ANEW_TRIES)
    memories = {
        memory.id: memory
        for memory in runtime.store.documents.many([activation.memory_id for activation in current.attention])
    }
    attended = attention.working_memory(current, tiers={memory.id: memory.tier for memory in memories.values()})
    cards = tuple(runtime.card(memories[memory_id]) for memory_id, _ in attended if memory_id in memories)
    return SessionAnswer(
        outcome=outcome("session-turn", turn=current.turn, count=len(cards)),
        turn=current.turn,
        working_memory=cards,
        first=first,
    )


def _event_prefix(event: str) -> str:
    return f"event:{hashlib.sha256(event.encode()).hexdigest()[:16]}:"


def _is_first(runtime: Runtime, session_id: str, event: str, *, apart: int) -> bool:
    """Is this the first hook for an event of a host? A host with our hooks in both the project's and the user's
    configuration runs both, at the same time or one after the other."""
    prefix, now = _event_prefix(event), int(runtime.now().timestamp())
    try:
        with runtime.store.hurried(), runtime.store.together():
            current = open_session(runtime, session_id)
            earlier = [int(mark.removeprefix(prefix)) for mark in current.sent if mark.startswith(prefix)]
            if any(0 <= now - second < apart for second in earlier):
                return False
            others = frozenset(mark for mark in current.sent if not mark.startswith(prefix))
            noted = with_sent(replace(current, sent=others), [f"{prefix}{now}"])
            runtime.store.record.change_session(session_id, lambda _: noted, runtime.now())
    except (DatabaseBusy, DatabaseUnusable) as error:
        logger.warning("session %s was not kept: %s %s", session_id, error.code, error.message)
    return True


# --- triggers -----------------------------------------------------------------


def triggers(runtime: Runtime, request: TriggersRequest) -> TriggerAnswer:
    """Memories whose phrases occur in the prompt, suggestions, and within a session also linked memories."""
    prompt, limit, session_id = request.prompt, request.limit, kept_id(request.session_id)
    matches, memories = matching(runtime, prompt)
    first_matches = matches[:limit]
    suggested = [
        Suggestion(kind=s.kind, phrase=s.phrase)
        for s in phrases.suggestions(prompt, save_phrases=runtime.settings.triggers.phrases)
    ]
    loading = phrases.loading(prompt)
    rows = [_row(match, memories[match.memory_id]) for match in first_matches]
    session = SessionTurn()
    if session_id and request.include_cognitive:
        turn = _Turn(runtime, session_id, request.turn_number, loading)
        rows = turn.attend(first_matches, memories, limit=limit)
        session = turn.summary()
        if turn.save_due and not any(s.kind == "save" for s in suggested):
            suggested.append(Suggestion(kind="save", phrase=finding("turns-without-save", count=turn.unsaved_turns)))
    elif session_id and loading:
        choose_loading(runtime, session_id, loading)
    hidden = len(matches) - len(first_matches)
    hints = [advise("raise-limit", count=hidden)] if hidden else []
    held_back = sorted(memories.keys() - {match.memory_id for match in matches})
    if held_back:
        hints.append(advise("triggers-held-back", count=len(held_back), ids=_ids(held_back)))
    none = outcome("triggers-matched", count=0) if held_back else outcome("no-trigger-matched")
    return TriggerAnswer(
        outcome=outcome("triggers-matched", count=len(matches)) if matches else none,
        advice=tuple(hints),
        matches=tuple(rows),
        suggestions=tuple(suggested),
        loading=loading,
        session=session,
    )


def _ids(memory_ids: Sequence[int]) -> tuple[str, ...] | Advice:
    names, more = tuple(f"#{memory_id}" for memory_id in memory_ids[:NAMED_IDS]), len(memory_ids) - NAMED_IDS
    return finding("and-more", names=names, more=more) if more > 0 else names


def matching(runtime: Runtime, prompt: str) -> tuple[list[TriggerMatch], dict[int, Memory]]:
    """The matches that may be shown, best first, and the memories of all matches, held back ones included."""
    matcher = runtime.matcher()
    matches = matcher.match(prompt)
    _note_prompt(runtime, matches)
    memories = {memory.id: memory for memory in runtime.store.documents.many([match.memory_id for match in matches])}
    weights = {memory.id: memory.attributes.weight for memory in memories.values()}
    ranked = matcher.match(prompt, weights=weights) if len(matches) > 1 else matches
    return [m for m in ranked if m.memory_id in memories and may_surface(runtime, memories[m.memory_id])], memories


def may_surface(runtime: Runtime, memory: Memory) -> bool:
    return (
        memory.tier is not Tier.DEPRECATED
        and runtime.state(memory) is not State.ARCHIVED
        and not decay.expired(memory.attributes.expires_at, runtime.now())
    )


def _row(match: TriggerMatch | None, memory: Memory, via: str | None = None) -> TriggeredMemory:
    """A row of the answer; without a match, the memory is near one that matched: by a link or in the same folder."""
    return TriggeredMemory(
        id=memory.id,
        title=memory.title,
        path=memory.path,
        spec_folder=memory.spec_folder,
        tier=memory.tier,
        phrases=match.phrases if match else (),
        confidence=match.confidence if match else None,
        via=via,
    )


class _Turn:
    """One turn of a session: updates its attention and selects what is shown."""

    def __init__(self, runtime: Runtime, session_id: str, turn_number: int | None, loading: str | None) -> None:
        self._runtime = runtime
        self._turn_number = turn_number
        self._loading = loading
        self._before = open_session(runtime, session_id)
        self.session = self._begun(self._before)
        self.save_due = attention.save_due(self.session, interval=runtime.settings.triggers.auto_save_interval)
        self._tiers: dict[int, Tier] = {}
        self._titles: dict[int, str] = {}

    def _begun(self, session: Session) -> Session:
        session = attention.next_turn(session, turn_number=self._turn_number)
        return replace(session, loading=self._loading or session.loading)

    @property
    def unsaved_turns(self) -> int:
        return self.session.turn - self.session.last_save_turn

    def attend(
        self, shown_matches: Sequence[TriggerMatch], memories: Mapping[int, Memory], *, limit: int
    ) -> list[TriggeredMemory]:
        near = self._near({match.memory_id: 1.0 for match in shown_matches}, limit)
        memories_by_id = {**memories, **{memory.id: memory for memory, _ in near}}
        attended = [entry.memory_id for entry in self.session.attention]
        memories_by_id |= {
            memory.id: memory
            for memory in self._runtime.store.documents.many([i for i in attended if i not in memories_by_id])
        }
        # Deleted memories are removed from working memory.
        deleted_ids = [i for i in attended if i not in memories_by_id]
        self._tiers = {memory.id: memory.tier for memory in memories_by_id.values()}
        self._titles = {memory.id: memory.title for memory in memories_by_id.values()}

        def attentive(session: Session) -> Session:
            session = attention.forget(session, deleted_ids)
            session = attention.attend(session, {match.memory_id: 1.0 for match in shown_matches}, tiers=self._tiers)
            return attention.attend(
                session, {memory.id: by.strength for memory, by in near}, tiers=self._tiers, via="link"
            )

        self.session = attentive(self.session)
        left = attention.strengths(self.session, tiers=self._tiers)
        brought_up = [
            *(
                (memories_by_id[match.memory_id], _row(match, memories_by_id[match.memory_id]))
                for match in shown_matches
            ),
            *((memory, _row(None, memory, by.via)) for memory, by in near),
        ]
        rows = [self._with_content(row, memory, left) for memory, row in brought_up]
        sent = self.session.sent - self._before.sent
        change_session(self._runtime, self.session.id, lambda stored: with_sent(attentive(self._begun(stored)), sent))
        return rows

    def summary(self) -> SessionTurn:
        return SessionTurn(
            id=self.session.id,
            turn=self.session.turn,
            loading=self.session.loading,
            working_memory=tuple(
                AttendedMemory(id=memory_id, title=self._titles[memory_id], attention=round(power, 3))
                for memory_id, power in attention.working_memory(self.session, tiers=self._tiers)
            ),
        )

    def _near(self, matched: Mapping[int, float], limit: int) -> list[tuple[Memory, attention.CoActivation]]:
        """Memories that are linked to a match, and documents of the same spec folder."""
        if not matched:
            return []
        store = self._runtime.store
        folders = {
            other.id: folder
            for folder in {memory.spec_folder for memory in store.documents.many(list(matched)) if memory.spec_folder}
            for other in store.documents.find(Filter(spec_folder=folder, source=Source.SPEC))
        }
        own = {memory.id: memory.spec_folder for memory in store.documents.many(list(matched)) if memory.spec_folder}
        activated = attention.co_activate(matched, links=self._links(matched, folders), folders={**folders, **own})
        by_id = {entry.memory_id: entry for entry in activated}
        memories = [m for m in store.documents.many(list(by_id)) if may_surface(self._runtime, m)]
        memories.sort(key=lambda memory: (-by_id[memory.id].strength, -memory.attributes.weight, memory.id))
        return [(memory, by_id[memory.id]) for memory in memories[:limit]]

    def _links(self, matched: Iterable[int], folders: Iterable[int]) -> list[Link]:
        """The links of the matches and of the memories that those link to."""
        links = self._runtime.store.record.links(list(matched))
        ends = {end for link in links for end in (link.source_id, link.target_id)} | set(folders)
        return list({link.id: link for link in (*links, *self._runtime.store.record.links(sorted(ends)))}.values())

    def _with_content(self, row: TriggeredMemory, memory: Memory, left: Mapping[int, float]) -> TriggeredMemory:
        """HOT memories get their content, WARM ones a summary, others only a title; nothing is sent twice."""
        level = attention.level(left.get(memory.id, 0.0))
        how_much = attention.shown(level)
        row = replace(row, state=level)
        if how_much == "title":
            return row
        key = f"{memory.content_hash}:{how_much}"
        if key in self.session.sent or was_sent(self._runtime, memory, self.session.sent):
            return replace(row, already_sent=True)
        self.session = with_sent(self.session, [key])
        text = self._runtime.store.documents.text(memory.id)
        if how_much == "content":
            self._runtime.used([memory.id])
            content = tokens.clip(body(text), CONTENT_TOKENS)
            marks = _mark_of_beginning(memory, text, content)
            if memory.tier is Tier.CONSTITUTIONAL and content == body(text):
                marks.append(rule_mark(memory, text=True))
            self.session = with_sent(self.session, marks)
            return replace(row, content=content)
        return replace(row, summary=summary(text))


def _mark_of_beginning(memory: Memory, text: str, content: str) -> list[str]:
    """The mark for the sent beginning of a text, by its whole lines."""
    whole = body(text)
    lines = content.count("\n") + (1 if content == whole else 0)
    first = text[: text.rindex(whole)].count("\n") + 1
    return [range_mark(memory, first, first + lines - 1)] if lines else []


# --- parts of a memory ------------------------------------------------------------


def body(text: str) -> str:
    """A memory's text without its front matter."""
    from spec_kit_memory.core import markdown

    document = markdown.outline(text)
    return "\n".join(document.text.split("\n")[document.body_first_line - 1 :]).strip()


def summary(text: str) -> str:
    """A memory's summary section, else its first paragraph; never front matter."""
    from spec_kit_memory.core import markdown

    document = markdown.outline(text)
    section = markdown.find_section(document, "summary")
    if section is not None:
        section_text = without_tags(markdown.lines(document, section.first_line, section.last_line))
        if section_text:
            return tokens.clip(section_text, SUMMARY_TOKENS)
    last = document.text.count("\n") + 1
    for paragraph in markdown.lines(document, document.body_first_line, last).split("\n\n"):
        plain = without_tags(paragraph)
        if plain:
            return tokens.clip(plain, SUMMARY_TOKENS)
    return ""


def without_tags(text: str) -> str:
    """The lines with text: no headings, comments or horizontal rules."""
    lines = [line for line in text.split("\n") if not line.lstrip().startswith(("#", "<!--", "---", "<a "))]
    return "\n".join(lines).strip()


# --- phrases that match too much ----------------------------------------------------


def _note_prompt(runtime: Runtime, matches: Sequence[TriggerMatch]) -> None:
    """Record which phrases matched the last prompts, for the health check of general triggers."""
    if runtime.caller.observer:
        return
    matched = sorted({phrases.fold(phrase) for match in matches for phrase in match.phrases})
    recent_prompts.add(runtime.settings, matched, scope=runtime.scope)


def too_general(runtime: Runtime) -> list[str]:
    prompts = recent_prompts.read(runtime.settings, scope=runtime.scope)
    counts = Counter(phrase for prompt in prompts for phrase in prompt)
    return phrases.too_general(counts, len(prompts))
