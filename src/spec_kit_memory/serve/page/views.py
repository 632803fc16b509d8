"""What does each page show? From what was asked to the workspace's answers and the template that shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from spec_kit_memory.answers import Answer, Result
from spec_kit_memory.core.memory import ContextType, Relation, Source, Tier
from spec_kit_memory.errors import BadParameter, MemoryNotFound
from spec_kit_memory.requests import SearchRequest
from spec_kit_memory.serve.page import document

if TYPE_CHECKING:
    from spec_kit_memory.answers import Card
    from spec_kit_memory.core.memory import Link
    from spec_kit_memory.workspace import Workspace

__all__ = ["PAGES", "Asked", "View"]

WHOLE = 10**9  # tokens: a page cuts by what it renders, never by a budget
RESULTS = 20
NEWEST = 20
PAGE_ROWS = 100
# Of each request to /care: so long near-duplicates are searched for, then the page asks again.
COMPARING_SECONDS = 0.03
COMPARING_ON_SECONDS = 1.0
PARTS = ("relevance", "tier", "recency", "keywords", "usage")
# The filters of a search, each with the name of its counts.
FILTERS = {"tier": "tiers", "state": "states", "source": "sources", "type": "types", "folder": "folders"}


@dataclass(frozen=True, slots=True)
class Asked:
    """The address: what stands in its path and in its query."""

    path: Mapping[str, Any]
    query: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.query.get(name, "").strip()

    def flag(self, name: str) -> bool:
        return self.text(name) in ("1", "true", "on", "yes")

    def number(self, name: str) -> int | None:
        text = self.text(name)
        if text and not text.lstrip("-").isdigit():
            raise BadParameter(f"{name} is {text!r}, and must be a whole number.", hint="Correct the address.")
        return int(text) if text else None


@dataclass(frozen=True, slots=True)
class View:
    template: str
    title: str
    section: str = ""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""  # the template of the part that a script asks for


# --- search -----------------------------------------------------------------------------


def search(workspace: Workspace, asked: Asked) -> View:
    query = asked.text("q")
    chosen = {name: asked.text(name) for name in FILTERS if asked.text(name)}
    kept = {name: asked.text(name) for name in ("q", *FILTERS, "archived", "as_of", "also") if asked.text(name)}
    can_also = "also" in SearchRequest.declared
    also = [line.strip() for line in asked.text("also").splitlines() if line.strip()] if can_also else []
    values: dict[str, Any] = {
        "query": query,
        "kept": kept,
        "chosen": chosen,
        "can_also": can_also,
        "also": "\n".join(also),
        "as_of": asked.text("as_of"),
        "archived": asked.flag("archived"),
        "chips": [],
        "parts": PARTS,
    }
    if not query:
        newest = workspace.list(limit=NEWEST, max_tokens=WHOLE)
        stats = workspace.stats(limit=1)
        answers: dict[str, Answer] = {"list": newest, "stats": stats}
        return View("search.html", "Search", "search", answers, values, part="results.html")
    given: dict[str, Any] = {
        "tier": chosen.get("tier"),
        "state_filter": chosen.get("state"),
        "source": chosen.get("source"),
        "context_type": chosen.get("type"),
        "spec_folder": chosen.get("folder"),
        "include_archived": asked.flag("archived"),
        "as_of": asked.text("as_of") or None,
        "limit": RESULTS,
        "explain": True,
        **({"also": also} if also else {}),
    }
    found = workspace.search(query, **{name: value for name, value in given.items() if value})
    facets = workspace.facets(query)
    values["chips"] = [
        (name, [(value, count, chosen.get(name) == value) for value, count in getattr(facets, of).items()])
        for name, of in FILTERS.items()
    ]
    values["bars"] = {row.id: _bar(row) for row in found.results if isinstance(row, Result)}
    return View("search.html", query, "search", {"search": found, "facets": facets}, values, part="results.html")


def _bar(result: Result) -> list[tuple[str, float, float, float]]:
    """The parts of a score: name, points, and where each begins and how long it is, of 100."""
    parts, start = [], 0.0
    for name in PARTS:
        points = float(result.explain.get(name) or 0.0)
        parts.append((name, round(points, 1), round(start, 2), round(max(points, 0.0), 2)))
        start += max(points, 0.0)
    return parts


def agent(workspace: Workspace, asked: Asked) -> View:
    """What an agent would be given for a prompt: the context of a start, and what the prompt brings up."""
    prompt, folder = asked.text("q"), asked.text("folder")
    answers: dict[str, Answer] = {}
    if prompt or folder:
        answers["context"] = workspace.context(prompt or None, spec_folder=folder or None)
    if prompt:
        answers["triggers"] = workspace.triggers(prompt)
    answers["folders"] = workspace.folders(limit=1000)
    return View("agent.html", "What would the agent see?", "search", answers, {"query": prompt, "folder": folder})


# --- one memory ---------------------------------------------------------------------------


def memory(workspace: Workspace, asked: Asked) -> View:
    try:
        shown = workspace.examine(asked.path["id"])
    except MemoryNotFound:
        return _gone(workspace, asked.path["id"])
    body = "\n".join(shown.text.split("\n")[shown.body_line - 1 :])
    plain = asked.flag("plain") or shown.memory.source is Source.CHAT
    values = {
        "tab": "text",
        "plain": plain,
        "body": body,
        "cut": not plain and len(body) > document.LONGEST,
        # Clean by `document`, which is what makes this safe.
        "rendered": Markup("" if plain else document.html_of(body, sections=shown.outline, first_line=shown.body_line)),
    }
    return _of_memory(workspace, shown, "memory.html", values, {})


def _gone(workspace: Workspace, memory_id: int) -> View:
    """One that was forgotten or joined with another can be brought back from where it was."""
    made = workspace.changes(memory_id, limit=1)
    if not made.changes:
        raise MemoryNotFound(f"there is no memory {memory_id}", hint="Search for it by its words.")
    latest = made.changes[0]
    return View("gone.html", latest.title, "search", {"changes": made}, {"change": latest, "id": memory_id})


def memory_links(workspace: Workspace, asked: Asked) -> View:
    shown = workspace.examine(asked.path["id"])
    why = workspace.why(shown.memory.id, max_depth=2, max_tokens=WHOLE)
    cards = {card.id: card for card in (why.memory, *why.memories)}
    links = [step.link for step in why.steps]
    values = {
        "tab": "links",
        "cards": cards,
        "graph": _graph(shown.memory.id, cards, links),
        "relations": list(Relation),
    }
    return _of_memory(workspace, shown, "memory_links.html", values, {"why": why})


def _graph(centre: int, cards: Mapping[int, Card], links: Sequence[Link]) -> dict[str, Any]:
    return {
        "centre": centre,
        "nodes": [{"id": card.id, "title": card.title, "tier": card.tier} for card in cards.values()],
        "links": [
            {"source": link.source_id, "target": link.target_id, "relation": link.relation}
            for link in links
            if link.source_id in cards and link.target_id in cards
        ],
    }


def memory_similar(workspace: Workspace, asked: Asked) -> View:
    shown = workspace.examine(asked.path["id"], similar=True)
    wanted = asked.number("with") or (shown.similar[0]["id"] if shown.similar else None)
    answers: dict[str, Answer] = {}
    values: dict[str, Any] = {"tab": "similar", "other": None, "wanted": wanted}
    if wanted is not None and wanted != shown.memory.id:
        other = workspace.examine(wanted)
        answers["other"] = other
        values |= {"other": other, "sides": [(one, _side(one)) for one in (shown, other)]}
    return _of_memory(workspace, shown, "memory_similar.html", values, answers)


def _side(shown: Any) -> Markup:
    body = "\n".join(shown.text.split("\n")[shown.body_line - 1 :])
    return Markup(document.html_of(body))


def memory_versions(workspace: Workspace, asked: Asked) -> View:
    shown = workspace.examine(asked.path["id"])
    versions = workspace.versions(shown.memory.id, older=asked.number("older"), newer=asked.number("newer"))
    return _of_memory(workspace, shown, "memory_versions.html", {"tab": "versions"}, {"versions": versions})


def _of_memory(
    workspace: Workspace, shown: Any, template: str, values: dict[str, Any], more: Mapping[str, Answer]
) -> View:
    values |= {
        "shown": shown,
        "card": shown.memory,
        "tiers": list(Tier),
        "types": list(ContextType),
        "changes": workspace.changes(shown.memory.id, limit=5).changes,
        "most_uses": max((day.uses for day in shown.use), default=0),
    }
    return View(template, shown.memory.title, "search", {"memory": shown, **more}, values)


# --- care -----------------------------------------------------------------------------------


def care(workspace: Workspace, asked: Asked) -> View:
    on = asked.flag("on")  # the page asks for more by itself
    found = workspace.care(
        kind=asked.text("kind") or None,
        set_aside=asked.flag("aside"),
        seconds=COMPARING_ON_SECONDS if on else COMPARING_SECONDS,
        health=asked.flag("check"),
        limit=PAGE_ROWS,
    )
    kept = {name: asked.text(name) for name in ("kind", "aside", "check") if asked.text(name)}
    values = {"kept": kept, "kind": asked.text("kind"), "aside": asked.flag("aside"), "check": asked.flag("check")}
    return View("care.html", "Care", "care", {"care": found}, values, part="care_items.html")


# --- time -----------------------------------------------------------------------------------


def time(workspace: Workspace, asked: Asked) -> View:
    folder = asked.text("folder") or None
    history = workspace.history(spec_folder=folder, limit=PAGE_ROWS, max_tokens=WHOLE, titles=True, latest=True)
    answers: dict[str, Answer] = {
        "history": history,
        "changes": workspace.changes(limit=20),
        "checkpoints": workspace.checkpoint_list(),
    }
    return View("time.html", "Time", "time", answers, {"titles": history.titles, "folder": folder or ""})


def checkpoint(workspace: Workspace, asked: Asked) -> View:
    diff = workspace.checkpoint_diff(asked.path["name"])
    return View("checkpoint.html", asked.path["name"], "time", {"diff": diff}, {"name": asked.path["name"]})


def ledger(workspace: Workspace, asked: Asked) -> View:
    verified = workspace.ledger_verify(head=asked.text("head") or None)
    values = {"head": asked.text("head")}
    return View("ledger.html", "Ledger", "time", {"ledger": verified}, values, part="ledger_part.html")


# --- numbers and folders ------------------------------------------------------------------------


def numbers(workspace: Workspace, asked: Asked) -> View:
    found = workspace.numbers(days=asked.number("days") or 60)
    stats = workspace.stats(limit=1)
    sent: dict[str, tuple[int, int]] = {}
    for day in found.sent:
        count, tokens = sent.get(day.verb, (0, 0))
        sent[day.verb] = (count + day.answers, tokens + day.tokens)
    rows = sorted(((verb, *sums) for verb, sums in sent.items()), key=lambda row: -row[2])
    values = {"sent": rows, "use_chart": _use_chart(found), "curve_chart": _curves(found)}
    return View("numbers.html", "Numbers", "numbers", {"numbers": found, "stats": stats}, values)


def _use_chart(found: Any) -> dict[str, Any]:
    days = [day.day for day in found.use]
    tokens = dict.fromkeys(days, 0)
    for row in found.sent:
        if row.day in tokens:
            tokens[row.day] += row.tokens
    return {"days": days, "uses": [day.uses for day in found.use], "tokens": list(tokens.values())}


def _curves(found: Any) -> dict[str, Any]:
    return {
        "days": found.curves[0].days if found.curves else (),
        "curves": [
            {"tier": c.tier, "left": [round(x, 4) for x in c.left], "memories": c.memories} for c in found.curves
        ],
    }


def health(workspace: Workspace, asked: Asked) -> View:
    answer = workspace.health(full=asked.flag("full"))
    return View("health.html", "Index health", "numbers", {"health": answer}, {}, part="health_part.html")


def folders(workspace: Workspace, asked: Asked) -> View:
    return View("folders.html", "Folders", "folders", {"folders": workspace.folders(limit=1000)}, {})


def folder(workspace: Workspace, asked: Asked) -> View:
    found = workspace.folders(name=asked.path["name"], limit=1000)
    cards = {card.id: card for card in (*found.documents, *found.sessions, *found.neighbours)}
    values = {"cards": cards, "graph": _graph(0, cards, found.links) if found.links else None}
    return View("folder.html", asked.path["name"], "folders", {"folder": found}, values)


PAGES: Mapping[str, Callable[[Workspace, Asked], View]] = {
    "/search": search,
    "/agent": agent,
    "/memory/{id:int}": memory,
    "/memory/{id:int}/links": memory_links,
    "/memory/{id:int}/similar": memory_similar,
    "/memory/{id:int}/versions": memory_versions,
    "/care": care,
    "/time": time,
    "/time/ledger": ledger,
    "/time/checkpoint/{name}": checkpoint,
    "/numbers": numbers,
    "/numbers/health": health,
    "/folders": folders,
    "/folders/{name:path}": folder,
}
