"""What does an agent need to know that starts or resumes? One text within a token budget.

Rules first, then what the prompt brings up, then where the spec folder stands and which
decisions bear on it. Whole memories are offered, not loaded, unless auto-load was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from spec_kit_memory.answers import ContextAnswer
from spec_kit_memory.core import markdown, packing, tokens
from spec_kit_memory.core import triggers as phrases
from spec_kit_memory.core.memory import ContextType, Filter, Memory, Source, Tier
from spec_kit_memory.errors import MissingParameter
from spec_kit_memory.verbs import search as searching
from spec_kit_memory.verbs import sessions
from spec_kit_memory.verbs.folders import clean_folder
from spec_kit_memory.verbs.wiring import Wiring

SECTIONS = ("state", "next-steps", "blockers", "summary")
TRIGGERED = 3
DECISIONS = 3
OFFERS = 3
# The share of the budget that a part may take, so that no part crowds out the next.
SHARES = {"triggers": 0.3, "folder": 0.5}


@dataclass
class _Page:
    """The text as it grows, and what is left of the budget."""

    budget: int
    text: list[str] = field(default_factory=list)
    parts: list[dict[str, Any]] = field(default_factory=list)
    shown: set[int] = field(default_factory=set)

    def heading(self, words: str) -> None:
        self.budget -= tokens.count(words) + 1
        self.text.append(words)

    def add(self, kind: str, memory: Memory, said: str, *, most: int | None = None) -> bool:
        """Put a piece in if it fits, clipped to `most` tokens."""
        room = min(self.budget, most) if most is not None else self.budget
        head = f"**{memory.title}** (#{memory.id}, {memory.path})"
        cost = tokens.count(head) + 2
        clipped = tokens.clip(said, room - cost) if room > cost else ""
        if not clipped:
            return False
        block = f"{head}\n{clipped}"
        self.budget -= tokens.count(block) + 1
        self.text.append(block)
        self.parts.append({"kind": kind, "id": memory.id, "title": memory.title, "tokens": tokens.count(block)})
        self.shown.add(memory.id)
        return True


def context(
    wiring: Wiring,
    *,
    prompt: str | None = None,
    spec_folder: str | None = None,
    session_id: str | None = None,
    max_tokens: int = 1500,
) -> ContextAnswer:
    if max_tokens < 1:
        raise MissingParameter(f"maxTokens is {max_tokens}", hint="give a budget of at least 100 tokens")
    page = _Page(budget=max_tokens)
    loading = _loading(wiring, prompt, session_id)
    folder = clean_folder(spec_folder) if spec_folder else None
    _rules(wiring, page, prompt or "", max_tokens)
    if prompt:
        _triggered(wiring, page, prompt, int(max_tokens * SHARES["triggers"]))
    offers: list[dict[str, Any]] = []
    if folder and loading != "skip":
        offers = _folder(wiring, page, folder, loading, int(max_tokens * SHARES["folder"]))
    if loading != "skip" and (prompt or folder):
        _decisions(wiring, page, prompt, folder)
    wiring.used(page.shown)
    if session_id and page.shown:
        sessions.remember_shown(wiring, session_id, sorted(page.shown), ())
    return ContextAnswer(
        summary=_summary(page, folder, loading),
        hints=tuple(_hints(offers, loading, page)),
        text="\n\n".join(page.text),
        parts=tuple(page.parts),
        loading=loading,
        offers=tuple(offers),
    )


def _loading(wiring: Wiring, prompt: str | None, session_id: str | None) -> str:
    said = phrases.loading(prompt) if prompt else None
    if session_id is None:
        return said or "ask"
    session = sessions.open_session(wiring, session_id)
    if said and said != session.loading:
        sessions.keep_session(wiring, replace(session, loading=said))
    return said or session.loading


def _rules(wiring: Wiring, page: _Page, prompt: str, budget: int) -> None:
    rules = {m.id: m for m in wiring.store.find(Filter(tiers=frozenset({Tier.CONSTITUTIONAL})))}
    triggered = {match.memory_id for match in wiring.matcher().match(prompt)} if prompt else set()
    texts = [
        packing.Rule(
            id=m.id,
            title=m.title,
            text=sessions.body(wiring.store.text(m.id)),
            weight=m.attributes.weight,
            triggered=m.id in triggered,
        )
        for m in rules.values()
    ]
    if not texts:
        return
    page.heading("## Rules")
    ruled = packing.rules(texts, count=tokens.count, budget_tokens=packing.rules_budget(budget), header_tokens=16)
    for id_, text in ruled.shown:
        page.add("rule", rules[id_], text)
    if ruled.named:
        page.heading("Also: " + ", ".join(f"{rules[id_].title} (#{id_})" for id_ in ruled.named))


def _triggered(wiring: Wiring, page: _Page, prompt: str, budget: int) -> None:
    matches, memories = sessions.matching(wiring, prompt)
    wanted = [memories[m.memory_id] for m in matches if m.memory_id not in page.shown][:TRIGGERED]
    if wanted:
        page.heading("## Brought up by the prompt")
    for memory in wanted:
        page.add("trigger", memory, sessions.summary(wiring.store.text(memory.id)), most=budget // len(wanted))


def _folder(wiring: Wiring, page: _Page, folder: str, loading: str, budget: int) -> list[dict[str, Any]]:
    """Where the folder stands by its newest memory, and its memories as [1] [2] [3]."""
    newest = wiring.store.find(Filter(spec_folder=folder, source=Source.MEMORY), limit=OFFERS)
    if not newest:
        newest = wiring.store.find(Filter(spec_folder=folder), limit=OFFERS)
    if not newest:
        return []
    page.heading(f"## {folder}")
    text = wiring.store.text(newest[0].id)
    said = sessions.body(text) if loading == "auto" else _standing(text)
    page.add("folder", newest[0], said or sessions.summary(text), most=budget)
    return [
        {"choice": f"[{number}]", "id": memory.id, "title": memory.title, "path": memory.path}
        for number, memory in enumerate(newest, 1)
    ]


def _standing(text: str) -> str:
    document = markdown.parse(text)
    said = []
    for name in SECTIONS:
        section = markdown.find_section(document, name)
        if section is not None:
            words = sessions.without_tags(markdown.lines(document, section.first_line, section.last_line))
            if words:
                said.append(f"{name}: {words}")
    return "\n".join(said)


def _decisions(wiring: Wiring, page: _Page, prompt: str | None, folder: str | None) -> None:
    """Decisions that bear on the prompt, or on the folder's topic."""
    topic = prompt or (folder or "").replace("-", " ").replace("/", " ")
    if not topic.strip():
        return
    found = []
    for kind in (ContextType.DECISION, None):
        request = searching.Request(query=topic, spec_folder=folder, context_type=kind, include_constitutional=False)
        found = [f for f in searching.rank(wiring, request).found if f.memory.id not in page.shown][:DECISIONS]
        if found:
            break
    if found:
        page.heading("## Decisions that bear on it")
    for f in found:
        passage = f.passages[0][0]
        lines = wiring.store.text(f.memory.id).split("\n")[passage.first_line - 1 : passage.last_line]
        page.add("decision", f.memory, "\n".join(lines).strip())


def _summary(page: _Page, folder: str | None, loading: str) -> str:
    kinds = {part["kind"] for part in page.parts}
    if not kinds:
        return "nothing is known yet" if not folder else f"nothing is known of {folder} yet"
    skipped = "; memories are left out because a fresh start was asked for" if loading == "skip" else ""
    return f"{len(page.parts)} pieces: {', '.join(sorted(kinds))}{skipped}"


def _hints(offers: list[dict[str, Any]], loading: str, page: _Page) -> list[str]:
    hints = []
    if offers and loading == "ask":
        choices = " ".join(offer["choice"] for offer in offers)
        hints.append(f"ask which memories to load: {choices} [all] [skip]; skipping never blocks")
    if not page.parts:
        hints.append("run skm index, or save a first memory with memory_save")
    return hints
