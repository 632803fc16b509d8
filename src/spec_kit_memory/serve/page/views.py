"""What does each page show? A view calls verbs of the workspace and chooses a template for their answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from spec_kit_memory.answers import Answer, ListAnswer, Result
from spec_kit_memory.core.memory import ContextType, Relation, Source, State, Tier, owner_of
from spec_kit_memory.errors import BadParameter, MemoryNotFound
from spec_kit_memory.serve.page import document, side_by_side

if TYPE_CHECKING:
    from spec_kit_memory.answers import Card
    from spec_kit_memory.core.memory import Link
    from spec_kit_memory.workspace import Workspace

WHOLE = 10**9  # tokens: a page limits the rows that it renders, and needs no token budget
RESULTS, TOKENS = 20, 20_000
MORE_RESULTS, MORE_TOKENS = 100, 100_000
NEWEST = 20
MOST_DRAWN = 24
PAGE_ROWS = 100
MORE_ROWS = 1000
FINDINGS = 40
MORE_FINDINGS = 400
# How long a request to /care may search for near-duplicates; the page then asks again, with more time.
COMPARING_SECONDS = 0.03
COMPARING_ON_SECONDS = 1.0
PARTS = ("relevance", "tier", "recency", "keywords", "usage")
# The filters of a search, each with the field of the facets that counts its values.
FILTERS = {"tier": "tiers", "state": "states", "source": "sources", "type": "types", "folder": "folders"}
# The parameters of filters that have another name in an address.
PARAMETERS = {"state": "state_filter", "type": "context_type", "folder": "spec_folder"}


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The parameters in an address: from its path and from its query."""

    path: Mapping[str, Any]
    query: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.query.get(name, "").strip()

    def flag(self, name: str) -> bool:
        return self.text(name) in ("1", "true", "on", "yes")

    def number(self, name: str) -> int | None:
        text = self.text(name).removeprefix("#")
        if text and not re.fullmatch(r"-?[0-9]{1,15}", text):
            raise BadParameter(f"{name} is {text!r}, and must be a whole number.", hint="Correct the address.")
        return int(text) if text else None


@dataclass(frozen=True, slots=True)
class PageView:
    template: str
    title: str
    section: str = ""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""  # the template of the part that htmx requests


# --- search -----------------------------------------------------------------------------


def search(workspace: Workspace, request: PageRequest) -> PageView:
    query = request.text("q")
    chosen = {name: request.text(name) for name in FILTERS if request.text(name)}
    filters = {name: request.text(name) for name in ("q", *FILTERS, "archived", "as_of", "also") if request.text(name)}
    also = [line.strip() for line in request.text("also").splitlines() if line.strip()]
    values: dict[str, Any] = {
        "query": query,
        "kept": filters,
        "chosen": chosen,
        "also": "\n".join(also),
        "as_of": request.text("as_of"),
        "archived": request.flag("archived"),
        "more": request.flag("more"),
        "chips": [],
        "parts": PARTS,
    }
    if not query:
        answers: dict[str, Answer] = {"list": _listed(workspace, request, values), "stats": workspace.stats(limit=1)}
        return PageView("search.html", "Search", "search", answers, values, part="results.html")
    arguments: dict[str, Any] = {PARAMETERS.get(name, name): value for name, value in chosen.items()}
    arguments |= {"also": also, "include_archived": request.flag("archived")}
    if request.flag("archived") and "state" not in chosen:
        arguments["min_state"] = State.ARCHIVED  # without it, dormant ones that match unclearly stay held back
    answer = workspace.search(
        query,
        limit=MORE_RESULTS if request.flag("more") else RESULTS,
        max_tokens=MORE_TOKENS if request.flag("more") else TOKENS,
        explain=True,
        as_of=request.text("as_of") or None,
        **arguments,
    )
    answers = {"search": answer}
    if not request.text("as_of"):  # what there is now is not what there was
        answers["facets"] = workspace.facets(query, **arguments)
    values["chips"] = [
        (name, _chips(getattr(answers.get("facets"), of, {}), chosen.get(name, ""), answer.total_found))
        for name, of in FILTERS.items()
    ]
    values["bars"] = {row.id: _bar(row) for row in answer.results if isinstance(row, Result)}
    return PageView("search.html", query, "search", answers, values, part="results.html")


def _chips(counts: Mapping[str, int], chosen: str, found: int) -> list[tuple[str, int, bool]]:
    """The values of a filter with their counts; the chosen one has as many as are found with it."""
    rows = [(value, found if value == chosen else count, value == chosen) for value, count in counts.items()]
    return rows if not chosen or chosen in counts else [(chosen, found, True), *rows]


def _listed(workspace: Workspace, request: PageRequest, values: dict[str, Any]) -> ListAnswer:
    """The list of memories for a search without a query, filtered and paged."""
    only = {name: request.text(name) for name in ("tier", "state", "source", "folder") if request.text(name)}
    if request.flag("unfiled"):
        only["unfiled"] = "1"
    offset = request.number("from") or 0
    rows = PAGE_ROWS if only or offset else NEWEST
    listed = workspace.list(
        tier=only.get("tier"),
        state_filter=only.get("state"),
        source=only.get("source", "all"),
        spec_folder=only.get("folder"),
        unfiled="unfiled" in only,
        limit=rows,
        offset=offset,
        max_tokens=WHOLE,
    )
    last = offset + len(listed.memories)
    values |= {
        "only": only,
        "first": offset + 1,
        "last": last,
        "later": str(last) if last < listed.total else None,
        "earlier": str(max(offset - PAGE_ROWS, 0)) if offset else None,
    }
    return listed


def _bar(result: Result) -> list[tuple[str, float, float, float]]:
    """The parts of a score for a bar of length 100: name, points, start and length of each."""
    parts, start = [], 0.0
    for name in PARTS:
        points = float(result.explain.get(name) or 0.0)
        parts.append((name, round(points, 1), round(start, 2), round(max(points, 0.0), 2)))
        start += max(points, 0.0)
    return parts


def agent(workspace: Workspace, request: PageRequest) -> PageView:
    """What an agent would get for a prompt: the context of a session's start, and the triggered memories."""
    prompt, folder = request.text("q"), request.text("folder")
    answers: dict[str, Answer] = {}
    if prompt or folder:
        answers["context"] = workspace.context(prompt or None, spec_folder=folder or None)
    if prompt:
        answers["triggers"] = workspace.triggers(prompt)
    answers["folders"] = workspace.folders(limit=1000)
    return PageView("agent.html", "What would the agent see?", "search", answers, {"query": prompt, "folder": folder})


# --- one memory ---------------------------------------------------------------------------


def memory(workspace: Workspace, request: PageRequest) -> PageView:
    try:
        answer = workspace.examine(request.path["id"])
    except MemoryNotFound:
        return _deleted_memory(workspace, request.path["id"])
    body = "\n".join(answer.text.split("\n")[answer.body_line - 1 :])
    plain = request.flag("plain") or answer.memory.source is Source.CHAT
    # Beside other memories in a list, it has no ids that its outline could lead to.
    sections = () if request.flag("peek") else answer.outline
    rendered = "" if plain else document.html_of(body, sections=sections, first_line=answer.body_line)
    values = {
        "tab": "text",
        "titled": body.lstrip().startswith(f"# {answer.memory.title}\n"),  # the text begins with the title
        "plain": plain,
        "body": body,
        "cut": not plain and len(body) > document.LONGEST,
        "rendered": Markup(rendered),  # safe, because `document` sanitises it
        "left_out": [] if plain else document.left_out(body, rendered),
    }
    return replace(_of_memory(workspace, answer, "memory.html", values, {}), part="memory_peek.html")


def _deleted_memory(workspace: Workspace, memory_id: int) -> PageView:
    """The page of a memory that was deleted or merged, from which it can be restored."""
    changes = workspace.changes(memory_id, limit=1)
    if not changes.changes:
        raise MemoryNotFound(f"there is no memory {memory_id}", hint="Search lists those that there are.")
    latest = changes.changes[0]
    return PageView("gone.html", latest.title, "search", {"changes": changes}, {"change": latest, "id": memory_id})


def memory_links(workspace: Workspace, request: PageRequest) -> PageView:
    answer = workspace.examine(request.path["id"])
    why = workspace.why(answer.memory.id, max_depth=2, max_tokens=WHOLE)
    cards = {card.id: card for card in (why.memory, *why.memories)}
    links = [step.link for step in why.steps]
    values = {
        "tab": "links",
        "cards": cards,
        "graph": _graph(answer.memory.id, cards, links),
        "relations": list(Relation),
    }
    return _of_memory(workspace, answer, "memory_links.html", values, {"why": why})


def _graph(centre: int, cards: Mapping[int, Card], links: Sequence[Link]) -> dict[str, Any]:
    """What is drawn: the linked memories, and the links between them. More than so many could not be told apart.

    `cards` has those nearest to the centre first; without a centre, those with most links are drawn.
    """
    degrees = Counter(end for link in links for end in link.ends)
    linked = [id_ for id_ in cards if id_ in degrees]
    if not centre:
        linked.sort(key=lambda id_: -degrees[id_])
    drawn = {id_: cards[id_] for id_ in linked[:MOST_DRAWN]}
    return {
        "centre": centre,
        "linked": len(linked),
        "nodes": [{"id": card.id, "title": card.title, "tier": card.tier} for card in drawn.values()],
        "links": [
            {"source": link.source_id, "target": link.target_id, "relation": link.relation}
            for link in links
            if link.source_id in drawn and link.target_id in drawn
        ],
    }


def memory_similar(workspace: Workspace, request: PageRequest) -> PageView:
    answer = workspace.examine(request.path["id"], similar=True)
    other_id = request.number("with") or (answer.similar[0]["id"] if answer.similar else None)
    answers: dict[str, Answer] = {}
    values: dict[str, Any] = {"tab": "similar", "other": None, "wanted": other_id}
    if other_id is not None and other_id != answer.memory.id:
        other = workspace.examine(other_id)
        answers["other"] = other
        bodies = ["\n".join(side.text.split("\n")[side.body_line - 1 :]) for side in (answer, other)]
        # Safe, because `document` sanitises it.
        shown = [Markup(text) for text in side_by_side.html_of_both(*bodies)]
        marked = any("<mark>" in text for text in shown)
        values |= {
            "other": other,
            "sides": list(zip((answer, other), shown, (len(body) > document.LONGEST for body in bodies), strict=True)),
            "differ": "in words" if marked else "too much" if side_by_side.is_long(*bodies) else "",
            "mergeable": other_id in answer.mergeable or other_id not in {row["id"] for row in answer.similar},
        }
    return _of_memory(workspace, answer, "memory_similar.html", values, answers)


def memory_versions(workspace: Workspace, request: PageRequest) -> PageView:
    answer = workspace.examine(request.path["id"])
    versions = workspace.versions(answer.memory.id, older=request.number("older"), newer=request.number("newer"))
    return _of_memory(workspace, answer, "memory_versions.html", {"tab": "versions"}, {"versions": versions})


def _of_memory(
    workspace: Workspace, answer: Any, template: str, values: dict[str, Any], more: Mapping[str, Answer]
) -> PageView:
    values |= {
        "shown": answer,
        "card": answer.memory,
        "tiers": list(Tier),
        "owned": owner_of(answer.memory.path) is not None,  # such a rule concerns its owner alone
        "types": list(ContextType),
        "changes": workspace.changes(answer.memory.id, limit=5).changes,
        "most_uses": max((day.uses for day in answer.use), default=0),
    }
    return PageView(template, answer.memory.title, "search", {"memory": answer, **more}, values)


# --- care -----------------------------------------------------------------------------------


def care(workspace: Workspace, request: PageRequest) -> PageView:
    on = request.flag("on")  # the page's own further requests
    answer = workspace.care(
        kind=request.text("kind") or None,
        set_aside=request.flag("aside"),
        seconds=COMPARING_ON_SECONDS if on else COMPARING_SECONDS,
        health=request.flag("check"),
        limit=MORE_FINDINGS if request.flag("more") else FINDINGS,
    )
    filters = {name: request.text(name) for name in ("kind", "aside", "check", "more") if request.text(name)}
    open_ = answer.counts.get(request.text("kind"), 0) if request.text("kind") else sum(answer.counts.values())
    values = {
        "kept": filters,
        "kind": request.text("kind"),
        "open": open_,
        "aside": request.flag("aside"),
        "check": request.flag("check"),
        "outgoing": (),  # on a team server: saves that are not in git yet
    }
    return PageView("care.html", "Care", "care", {"care": answer}, values, part="care_items.html")


# --- time -----------------------------------------------------------------------------------


def time(workspace: Workspace, request: PageRequest) -> PageView:
    folder = request.text("folder") or None
    rows = MORE_ROWS if request.flag("more") else PAGE_ROWS
    history = workspace.history(spec_folder=folder, limit=rows, max_tokens=WHOLE, titles=True, latest=True)
    answers: dict[str, Answer] = {
        "history": history,
        "changes": workspace.changes(limit=20),
        "checkpoints": workspace.checkpoint_list(),
    }
    return PageView(
        "time.html",
        "Time",
        "time",
        answers,
        {"titles": history.titles, "folder": folder or "", "more": len(history.entries) == PAGE_ROWS},
    )


def checkpoint(workspace: Workspace, request: PageRequest) -> PageView:
    diff = workspace.checkpoint_diff(request.path["name"])
    return PageView("checkpoint.html", request.path["name"], "time", {"diff": diff}, {"name": request.path["name"]})


def ledger(workspace: Workspace, request: PageRequest) -> PageView:
    verified = workspace.ledger_verify(head=request.text("head") or None)
    values = {"head": request.text("head")}
    return PageView("ledger.html", "Ledger", "time", {"ledger": verified}, values, part="ledger_part.html")


# --- numbers and folders ------------------------------------------------------------------------


def numbers(workspace: Workspace, request: PageRequest) -> PageView:
    answer = workspace.numbers(days=request.number("days") or 60)
    stats = workspace.stats(limit=1)
    sent: dict[str, tuple[int, int]] = {}
    for day in answer.sent:
        count, tokens = sent.get(day.verb, (0, 0))
        sent[day.verb] = (count + day.answers, tokens + day.tokens)
    rows = sorted(((verb, *sums) for verb, sums in sent.items()), key=lambda row: -row[2])
    values = {"sent": rows, "use_chart": _use_chart(answer), "curve_chart": _curves(answer)}
    return PageView("numbers.html", "Numbers", "numbers", {"numbers": answer, "stats": stats}, values)


def _use_chart(answer: Any) -> dict[str, Any]:
    days = [day.day for day in answer.use]
    tokens, searches = dict.fromkeys(days, 0), dict.fromkeys(days, 0)
    for row in answer.sent:
        if row.day in tokens:
            tokens[row.day] += row.tokens
            searches[row.day] += row.answers if row.verb == "search" else 0
    return {
        "days": days,
        "uses": [day.uses for day in answer.use],
        "searches": [searches[day] for day in days],
        "tokens": list(tokens.values()),
    }


def _curves(answer: Any) -> dict[str, Any]:
    return {
        "days": answer.curves[0].days if answer.curves else (),
        "curves": [
            {"tier": c.tier, "left": [round(x, 4) for x in c.left], "memories": c.memories} for c in answer.curves
        ],
    }


def health(workspace: Workspace, request: PageRequest) -> PageView:
    answer = workspace.health(full=request.flag("full"))
    return PageView("health.html", "Index health", "numbers", {"health": answer}, {}, part="health_part.html")


def folders(workspace: Workspace, request: PageRequest) -> PageView:
    answer, query = workspace.folders(limit=MORE_ROWS), request.text("q")
    words = query.lower().split()
    rows = [row for row in answer.folders if all(word in f"{row.name} {row.about}".lower() for word in words)]
    return PageView("folders.html", "Folders", "folders", {"folders": answer}, {"query": query, "rows": rows})


def folder(workspace: Workspace, request: PageRequest) -> PageView:
    answer = workspace.folders(name=request.path["name"], limit=1000)
    cards = {card.id: card for card in (*answer.documents, *answer.sessions, *answer.neighbours)}
    values = {"cards": cards, "graph": _graph(0, cards, answer.links) if answer.links else None}
    return PageView("folder.html", request.path["name"], "folders", {"folder": answer}, values)


PAGES: Mapping[str, Callable[[Workspace, PageRequest], PageView]] = {
    "/search": search,
    "/agent": agent,
    "/memory/{id:int}": memory,
    "/memory/{id:int}/links": memory_links,
    "/memory/{id:int}/similar": memory_similar,
    "/memory/{id:int}/versions": memory_versions,
    "/care": care,
    "/time": time,
    "/time/ledger": ledger,
    "/time/checkpoint/{name:path}": checkpoint,
    "/numbers": numbers,
    "/numbers/health": health,
    "/folders": folders,
    "/folders/{name:path}": folder,
}
