"""What each page shows, without any script: reading and changing work by links and forms alone."""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.files import activity, set_aside
from spec_kit_memory.page_answers import Section
from spec_kit_memory.serve.page import document, jinja, views
from tests.serve.page.conftest import Page, made, written

STATIC = Path(views.__file__).parent / "static"
# What was taken from npm, as it is there: package, version, file in it.
VENDORED = {
    "htmx.min.js": ("htmx.org 2.0.11", "dist/htmx.min.js"),
    "uPlot.iife.min.js": ("uplot 1.6.32", "dist/uPlot.iife.min.js"),
    "uPlot.min.css": ("uplot 1.6.32", "dist/uPlot.min.css"),
    "d3-dispatch.min.js": ("d3-dispatch 3.0.2", "dist/d3-dispatch.min.js"),
    "d3-quadtree.min.js": ("d3-quadtree 3.0.2", "dist/d3-quadtree.min.js"),
    "d3-timer.min.js": ("d3-timer 3.0.2", "dist/d3-timer.min.js"),
    "d3-force.min.js": ("d3-force 3.0.1", "dist/d3-force.min.js"),
}
SHA_256 = {
    "d3-dispatch.min.js": "5afe071dad74c14cd580f540c9ec85b0755eed78b7f9ed3e9f63b989fc41aa4b",
    "d3-force.min.js": "ed05b52ecfe280d753ebab954e4e1f24097952480a9d277be55b6ba297bf4a9b",
    "d3-quadtree.min.js": "6bd9974b3efdf9c22942a6fb9a5a027ee39f81a6c27b09a3444c9e911796f439",
    "d3-timer.min.js": "f6b80ed73b21d01658db60d1c04adb88adc70f885346ae07d59ed69ba0348849",
    "htmx.min.js": "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


# --- files


def test_vendored_files_are_what_their_authors_published() -> None:
    vendored = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (STATIC / "vendor").iterdir()}
    licences = vendored.pop("LICENSES.txt")
    assert licences
    assert vendored == SHA_256
    assert vendored.keys() == VENDORED.keys()


def test_every_vendored_package_has_its_licence_beside_it() -> None:
    text = (STATIC / "vendor" / "LICENSES.txt").read_text(encoding="utf-8")
    for package, _ in VENDORED.values():
        assert package in text, package


def test_static_files_are_small() -> None:
    files = [file.read_bytes() for file in STATIC.rglob("*") if file.is_file()]
    assert sum(map(len, files)) < 250_000
    assert sum(len(gzip.compress(data, 9)) for data in files) < 80_000


def test_nothing_of_the_page_is_loaded_by_a_server_that_nobody_looks_at() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, spec_kit_memory.serve.http.app, spec_kit_memory.serve.cli.main, spec_kit_memory.serve.hooks;"
            "print([name for name in ('jinja2', 'markdown_it', 'nh3', 'starlette') if name in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == "[]"


# --- pages


@pytest.mark.parametrize(
    "path", ["/search", "/search?q=docks", "/agent", "/agent?q=mqtt", "/care", "/time", "/numbers", "/folders"]
)
def test_every_page_has_its_json_beside_it(page: Page, path: str) -> None:
    assert "<h1" in page.text(path)
    bare, _, query = path.partition("?")
    link = f"{bare}.json?{query}".rstrip("?")
    assert f'href="{link}">This page as JSON' in page.text(path)
    answer = page.get(link)
    assert answer.headers["content-type"] == "application/json"
    for envelope in json.loads(answer.text).values():
        assert envelope.keys() >= {"summary", "data", "hints", "meta"}


def test_search_shows_match_score_parts_and_filters_with_counts(page: Page) -> None:
    shown = page.text("/search?q=mqtt+connection")
    assert "Docks keep an MQTT connection" in shown
    assert "match " in shown
    for part in views.PARTS:
        assert part in shown
    assert "tier=important" in shown
    narrowed = page.text("/search?q=mqtt+connection&tier=critical")
    assert "/memory/" not in narrowed.split('id="results"')[1].split("<aside")[0].replace("constitutional", "")


def test_a_chosen_filter_has_the_count_of_what_is_shown_and_narrows_the_others(page: Page) -> None:
    for number in range(30):
        tier = "critical" if number % 5 else "important"
        folder = "001-docks" if number % 2 else "002-locks"
        front = f"---\nimportance_tier: {tier}\n---\n"
        written(
            page.root, f"specs/{folder}/memory/m{number}.md", f"{front}# Lock {number}\n\nA lock, number {number}.\n"
        )
    page.workspace.index()

    def chips(address: str) -> dict[str, int]:
        rail = page.text(address).split('aria-label="Filters"')[1]
        rows = re.findall(r'<a class="chip[^>]*title="([^"]+)".*?<span class="num">(\d+)</span>', rail)
        return {value: int(count) for value, count in rows}

    found = page.get("/search.json?q=a+lock&tier=critical").json()["search"]["data"]
    alone, narrowed = chips("/search?q=a+lock"), chips("/search?q=a+lock&tier=critical")
    assert narrowed["critical"] == found["totalFound"]
    assert narrowed["important"] == alone["important"]
    assert narrowed["001-docks"] + narrowed["002-locks"] == found["totalFound"]
    assert chips("/search?q=a+lock&tier=temporary")["temporary"] == 0  # what finds nothing can be taken away


def test_memories_of_a_tier_and_a_source_are_listed_from_the_numbers_without_a_question(page: Page) -> None:
    numbers = page.text("/numbers")
    for address in ("/search?tier=important", "/search?source=constitutional"):
        assert f'href="{address}"' in numbers
    shown = page.get("/search.json?tier=important").json()["list"]["data"]["memories"]
    assert {one["tier"] for one in shown} == {"important"}
    assert "Docks keep an MQTT connection" in {one["title"] for one in shown}
    assert "The van" not in page.text("/search?tier=important")
    assert "There is none." in page.text("/search?tier=deprecated")
    assert "Never strand a rider" in page.text("/search?source=constitutional")


def test_what_was_held_back_is_one_click_away(page: Page) -> None:
    id_ = page.workspace.search("mqtt connection").results[0].id
    page.workspace.validate(id_, outdated=True)
    held = page.text("/search?q=mqtt+connection")
    assert "Held back" in held
    assert f'href="/memory/{id_}"' in held
    assert "archived=1" in held
    assert "Docks keep an MQTT connection" in page.text("/search?q=mqtt+connection&archived=1")


def test_an_answer_of_an_earlier_moment_can_be_asked_for(page: Page) -> None:
    page.workspace.checkpoint_create("before")
    page.workspace.update(page.workspace.search("van").results[0].id, title="The lorry")
    shown = page.text("/search?q=van+charges+bicycles&as_of=before")
    assert "The van" in shown
    assert "as of <bdi>before</bdi>" in shown


def test_what_an_agent_would_see_has_rules_triggers_and_tokens_and_leaves_no_trace(page: Page) -> None:
    shown = page.text("/agent?q=the+mqtt+broker+is+down")
    assert "Never strand a rider" in shown
    assert "phrase “broker”" in shown or "phrase “mqtt”" in shown
    assert "together" in shown
    assert all(card.access_count == 0 for card in page.workspace.list(limit=50).memories)


def test_who_started_the_page_by_skm_ui_is_offered_no_form_for_a_token_that_there_is_not(page: Page) -> None:
    page.client.cookies.clear()
    shown = page.get("/search").text
    assert "skm ui" in shown
    assert "<form" not in shown


def test_a_page_that_is_not_there_says_so(page: Page) -> None:
    for path in ("/memory/404", "/memory/404/versions", "/folders/404-none", "/time/checkpoint/none", "/nothing"):
        answer = page.get(path)
        assert answer.status_code in (400, 404), path
        assert "<h1>" in answer.text


@pytest.mark.parametrize("query", ["older=x", "older=9&newer=1", "older=" + "9" * 40])
def test_an_address_that_makes_no_sense_is_answered_in_words(page: Page, query: str) -> None:
    answer = page.get(f"/memory/1/versions?{query}")
    assert answer.status_code == 400
    assert "Traceback" not in answer.text


def test_an_empty_workspace_says_what_to_do(tmp_path: Path) -> None:
    from tests.serve.page.conftest import made

    root = tmp_path / "empty"
    (root / ".spec-kit-memory").mkdir(parents=True)
    for page in made(root):
        assert "Nothing is remembered yet." in page.text("/search")
        assert "Nothing needs a decision." in page.text("/care")
        assert "no spec folders yet" in page.text("/folders")
        assert "Nothing answers that." in page.text("/search?q=anything")
        page.text("/numbers")
        page.text("/time")


def test_of_a_long_path_the_end_is_shown() -> None:
    assert [jinja._tail(path, 12) for path in ("a", "a/bb", "aaaaaaa/bbbbbb/ccc", "x/aaaaaaaaaaaaaaaa", "")] == [
        "a",
        "a/bb",
        "…/bbbbbb/ccc",
        "…/aaaaaaaaaaaaaaaa",
        "",
    ]


@pytest.mark.parametrize(
    ("passage", "shown"),
    [
        ("# Title\n\nThe **retained** messages are `off`.", "The retained messages are off."),
        ("| kind | delay |\n|---|---|\n| polling | 5 s |", "kind · delay\npolling · 5 s"),
        ("- [x] one\n- two * 3 ** 4", "one\ntwo * 3 ** 4"),
        (
            "A *false start*, *one*-off, 2*3*4, a *lone one, **bold** and ***both***.",
            "A false start, one-off, 2*3*4, a *lone one, bold and both.",
        ),
        ("# Title…", ""),
        ("## Another heading", "Another heading"),
        ("<!-- ANCHOR:a -->\nsaid\n---", "said"),
        ("", ""),
    ],
)
def test_an_excerpt_is_words_without_markup(passage: str, shown: str) -> None:
    assert jinja._excerpt(passage, "Title") == shown


def test_a_heading_that_repeats_the_title_is_heard_and_not_seen(page: Page) -> None:
    assert 'class="prose titled"' in page.text(f"/memory/{id_of(page, 'The van')}")
    written(page.root, "memory/other.md", "---\ntitle: Its title\n---\n# Its heading\n\nText.\n")
    page.workspace.index()
    assert 'class="prose"' in page.text(f"/memory/{id_of(page, 'Its title')}")


def test_searches_and_uses_by_day_are_told(page: Page) -> None:
    now = datetime.now(UTC)
    rows = [activity.DayTally(now.date(), activity.SENT, verb, 3, 900) for verb in ("search", "load")]
    activity.add(page.workspace.settings, rows, now=now)
    shown = page.text("/numbers")
    assert 'data-chart="use"' in shown
    assert re.search(
        rf"{now:%Y-%m-%d}</td><td class=\"num\">0</td><td class=\"num\">3</td><td class=\"num\">1,800<", shown
    )


def test_every_count_of_memories_leads_to_just_these_memories(page: Page) -> None:
    written(page.root, "specs/002-van/memory/old.md", "---\nimportance_tier: deprecated\n---\n# The old van\n\nSold.\n")
    page.workspace.index()
    page.workspace.validate(id_of(page, "The van"), outdated=True)
    shown = page.text("/numbers")
    rows = re.findall(r'<td class="num"><a href="([^"]+)" aria-label="[^"]+">([0-9,]+)</a></td>', shown)
    tables = re.findall(r"<h2>By (\w+)</h2>.*?</tbody>", shown, re.DOTALL)
    assert tables == ["tier", "state", "source", "folder"]
    assert len(rows) == sum(table.count("<tr>") for table in re.findall(r"<h2>By .*?</tbody>", shown, re.DOTALL)) - 4
    kinds = set()
    for link, count in rows:
        address = html.unescape(link)
        listed = page.get(address.replace("/search?", "/search.json?")).json()["list"]["data"]
        assert (listed["total"], len(listed["memories"])) == (int(count), int(count)), address
        assert len(re.findall(r'<li class="row" data-item="\d+"', page.text(address))) == int(count), address
        kinds.add(address.split("?")[1].split("=")[0])
    assert kinds == {"tier", "state", "source", "folder", "unfiled"}
    assert "The van" in page.text("/search?state=ARCHIVED")
    assert 'href="/search">' in shown.split("<dt>memories</dt>")[1][:60]


def test_more_results_and_more_history_are_one_click_away(page: Page) -> None:
    for number in range(120):
        written(page.root, f"memory/quay-{number}.md", f"# Quay {number}\n\nBoats moor at quay number {number}.\n")
    page.workspace.index()
    assert page.text("/search?q=boats+moor").count('<li class="row"') == 20
    assert "the best 20 are shown" in page.text("/search?q=boats+moor")
    assert page.text("/search?q=boats+moor&more=1").count('<li class="row"') == 100
    assert page.text("/time").count("<tr data-item") == 100
    assert page.text("/time?more=1").count("<tr data-item") > 120


def test_findings_that_do_not_fit_are_counted_and_one_click_away(page: Page) -> None:
    for number in range(104):
        front = "---\nimportance_tier: temporary\nexpires_at: 2020-01-01\n---\n"
        written(page.root, f"memory/note-{number}.md", f"{front}# Note {number}\n\nBoat number {number} left.\n")
    page.workspace.index()
    first = page.text("/care?kind=expired")
    assert first.count('<li class="row"') == views.FINDINGS
    assert 'of <span class="num">104</span>' in first
    assert "Show more now" in first
    assert page.text("/care?kind=expired&more=1").count('<li class="row"') == 104


def test_folders_are_found_by_name_and_by_what_they_are_about(page: Page) -> None:
    written(page.root, "specs/002-quays/001-cranes/spec.md", "# Cranes\n\nThey lift what is heavy.\n")
    page.workspace.index()
    for words in ("cranes", "heavy", "quays cranes"):
        shown = page.text(f"/folders?q={words.replace(' ', '+')}")
        assert "/folders/002-quays/001-cranes" in shown
        assert "/folders/001-docks" not in shown
    assert "No folder is called that" in page.text("/folders?q=nothing+such")


def test_a_long_list_is_turned_page_by_page(page: Page) -> None:
    for number in range(130):
        written(page.root, f"memory/note-{number}.md", f"# Note {number}\n\nThe {number}th van.\n")
    page.workspace.index()
    address, seen, visited = "/search?source=memory", set(), 0
    while address:
        shown = page.text(address)
        seen |= set(re.findall(r'href="/memory/([0-9]+)"', shown))
        visited += 1
        older = re.search(r'rel="next" href="([^"]+)"', shown)
        address = html.unescape(older[1]) if older else ""
    total = page.workspace.list(source="memory", limit=1).total
    assert (visited, len(seen)) == (2, total)
    assert f"101–{total} of {total}" in shown
    assert 'rel="prev" href="/search?source=memory"' in shown
    assert 'rel="prev"' in page.text("/search?from=20")
    assert page.get("/search?from=-1").status_code == 400
    assert page.get("/search?state=WARMISH").status_code == 400


# --- changes by forms alone


def id_of(page: Page, title: str) -> int:
    return next(card.id for card in page.workspace.list(limit=50).memories if card.title == title)


def test_the_form_of_a_memory_writes_to_its_file_and_undo_stands_where_it_was_changed(page: Page) -> None:
    id_ = id_of(page, "Docks keep an MQTT connection")
    form = {"title": "Docks hold MQTT", "tier": "critical", "type": "decision", "phrases": "mqtt\ndock link"}
    shown = page.post(f"/memory/{id_}/update", after=f"/memory/{id_}", **form).text
    text = (page.root / "specs/001-docks/memory/mqtt.md").read_text(encoding="utf-8")
    assert "Docks hold MQTT" in text
    assert "dock link" in text
    assert "<h1><bdi>Docks hold MQTT</bdi></h1>" in shown
    operation = shown.split('name="operation" value="')[1].split('"')[0]
    page.post("/undo", operation=operation)
    assert "Docks keep an MQTT connection" in (page.root / "specs/001-docks/memory/mqtt.md").read_text(encoding="utf-8")


def test_a_form_that_changes_nothing_writes_nothing(page: Page) -> None:
    id_ = id_of(page, "Docks keep an MQTT connection")
    before = page.workspace.ledger_head().summary
    form = {"title": "Docks keep an MQTT connection", "tier": "important", "type": "general", "phrases": "mqtt\nbroker"}
    assert "Nothing was changed" in page.post(f"/memory/{id_}/update", after=f"/memory/{id_}", **form).text
    assert page.workspace.ledger_head().summary == before


def test_what_a_form_does_not_send_stays_as_it_is(page: Page) -> None:
    id_ = id_of(page, "Docks keep an MQTT connection")
    page.post(f"/memory/{id_}/update", tier="critical")
    card = page.workspace.examine(id_).memory
    assert (card.title, card.tier, list(card.triggers)) == (
        "Docks keep an MQTT connection",
        "critical",
        ["mqtt", "broker"],
    )
    assert "Title is missing" in page.post(f"/memory/{id_}/update", after=f"/memory/{id_}", title=" ").text


def take_back(page: Page, shown: str) -> None:
    """Send the form of the notice, as its button would."""
    form = re.search(
        r'<form method="post" action="([^"]+)" class="inline">((?:<input[^>]*>)+)<button class="undo"', shown
    )
    assert form, re.findall(r"<div class=.notice[^§]*?</div>", shown)
    fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form[2]))
    assert page.client.post(form[1], data=fields).status_code == 200


def test_every_change_can_be_taken_back_where_it_was_made(page: Page, tmp_path: Path) -> None:
    """Of each kind one: the page that follows has the button, and with it all is as it was."""
    van, docks = id_of(page, "The van"), id_of(page, "Docks keep an MQTT connection")
    written(page.root, "memory/van-again.md", "# The van again\n\nThe van charges forty bicycles at night.\n")
    page.workspace.index()
    again = id_of(page, "The van again")
    chat = tmp_path / "chat.jsonl"
    turns = [{"role": "user", "content": "Which lock?"}, {"role": "assistant", "content": "The third."}]
    chat.write_text("".join(json.dumps(turn) + "\n" for turn in turns), encoding="utf-8")
    page.workspace.chat_import([chat])
    (imported,) = [card.id for card in page.workspace.chat_list().memories]
    page.workspace.checkpoint_create("earlier")
    page.workspace.update(again, title="The van once more")
    link = page.workspace.link(docks, again, "enabled").link.id

    def state() -> object:
        cards = sorted(
            (c.id, c.title, c.tier, c.triggers, c.confidence, c.trusted) for c in page.workspace.list(limit=50).memories
        )
        links = sorted((step.link.source_id, step.link.relation) for step in page.workspace.why(docks).steps)
        named = [row["name"] for row in page.workspace.checkpoint_list().checkpoints]
        checkpoints = [name for name in named if not name.startswith("before-restore-")]  # those stay
        aside = sorted(set_aside.read(page.workspace.settings, scope=Scope()))
        return cards, links, checkpoints, aside, page.workspace.examine(van).outdated

    before = state()
    for address, form in {
        f"/memory/{van}/update": {"title": "The lorry", "tier": "critical", "type": "decision", "phrases": "van"},
        f"/memory/{van}/judge": {"verdict": "outdated"},
        f"/memory/{docks}/judge": {"verdict": "useful"},
        f"/memory/{again}/forget": {},
        f"/memory/{again}/merge": {"into": str(van)},
        f"/memory/{docks}/link": {"target": str(van), "relation": "supports"},
        f"/link/{link}/remove": {},
        f"/memory/{docks}/phrase/remove": {"phrase": "mqtt"},
        "/care/keep": {"key": "unused:1.12345678"},
        "/time/checkpoint": {"name": "before"},
        f"/memory/{imported}/trust": {"trusted": "1"},
        f"/memory/{imported}/forget": {},
        "/time/checkpoint/earlier/restore": {"clear": "1", "files": "1", "confirm": "1"},
    }.items():
        shown = page.post(address, after="/folders", **form).text
        assert 'class="notice"' in shown, address
        take_back(page, shown)
        after = state()
        assert after == before, address


def test_no_undo_is_offered_where_nothing_was_changed(page: Page) -> None:
    """It would take back what was done before."""
    van, docks = id_of(page, "The van"), id_of(page, "Docks keep an MQTT connection")
    page.workspace.update(van, title="The lorry")
    page.workspace.link(van, docks, "supports")
    page.workspace.checkpoint_create("now")
    for address, form in {
        f"/memory/{van}/link": {"target": str(docks), "relation": "supports"},
        f"/memory/{van}/trust": {"trusted": "1"},
        f"/memory/{van}/judge": {"verdict": "holds"},
        f"/memory/{docks}/phrase/remove": {"phrase": "not there"},
        f"/memory/{van}/update": {"title": "The lorry"},
        "/index": {},
        "/repair": {},
    }.items():
        head = page.workspace.changes(limit=1).changes[0].operation
        shown = page.post(address, after="/folders", **form).text
        assert 'class="notice' in shown, address
        assert page.workspace.changes(limit=1).changes[0].operation == head, address
        assert 'class="undo"' not in shown, address


def test_a_rule_is_made_only_with_the_tick(page: Page) -> None:
    id_ = id_of(page, "The van")
    form = {"title": "The van", "tier": "constitutional", "type": "general", "phrases": ""}
    assert "must confirm" in page.post(f"/memory/{id_}/update", after=f"/memory/{id_}", **form).text
    page.post(f"/memory/{id_}/update", confirm="1", **form)
    assert page.workspace.examine(id_).memory.tier == "constitutional"


@pytest.mark.parametrize(
    ("verdict", "said"),
    [("useful", "confidence 0.6"), ("not-useful", "confidence 0.45"), ("outdated", "marked outdated")],
)
def test_a_memory_is_judged_and_the_judgement_taken_back(page: Page, verdict: str, said: str) -> None:
    id_ = id_of(page, "The van")
    before = page.workspace.examine(id_)
    shown = page.post(f"/memory/{id_}/judge", after=f"/memory/{id_}", verdict=verdict).text
    assert said in shown
    page.post("/undo", operation=shown.split('name="operation" value="')[1].split('"')[0])
    after = page.workspace.examine(id_)
    assert (after.memory.confidence, after.outdated) == (before.memory.confidence, before.outdated)


def test_a_memory_that_was_forgotten_comes_back_from_where_it_was(page: Page) -> None:
    id_ = id_of(page, "The van")
    shown = page.post(f"/memory/{id_}/forget", after=f"/memory/{id_}")
    assert "not there any more" in shown.text
    assert "Bring it back" in page.text(f"/memory/{id_}")
    page.post("/undo", operation=shown.text.split('name="operation" value="')[1].split('"')[0])
    assert "<h1><bdi>The van</bdi></h1>" in page.text(f"/memory/{id_}")


def test_a_link_is_made_and_removed(page: Page) -> None:
    van, docks = id_of(page, "The van"), id_of(page, "Docks keep an MQTT connection")
    page.post(f"/memory/{van}/link", target=f"#{docks}", relation="supports", evidence="it brings them")
    shown = page.text(f"/memory/{van}/links")
    assert "it brings them" in shown
    link = shown.split('action="/link/')[1].split("/")[0]
    page.post(f"/link/{link}/remove")
    assert "It stands alone." in page.text(f"/memory/{van}/links")


def test_a_link_can_be_made_from_the_other_memory_to_this_one(page: Page) -> None:
    van, docks = id_of(page, "The van"), id_of(page, "Docks keep an MQTT connection")
    assert 'name="inward"' in page.text(f"/memory/{van}/links")
    page.post(f"/memory/{van}/link", target=f"#{docks}", relation="caused", inward="1")
    (step,) = page.workspace.why(van).steps
    assert (step.link.source_id, step.link.target_id) == (docks, van)


def test_a_checkpoint_is_made_compared_restored_and_deleted(page: Page) -> None:
    id_ = id_of(page, "The van")
    page.post("/time/checkpoint", name="before", description="try")
    page.workspace.update(id_, title="The lorry")
    assert "The lorry" in page.text("/time/checkpoint/before")
    assert "not confirmed" in page.post("/time/checkpoint/before/restore", after="/time").text
    page.post("/time/checkpoint/before/restore", confirm="1", clear="1", files="1")
    assert page.workspace.examine(id_).memory.title == "The van"
    page.post("/time/checkpoint/before/delete", confirm="1")
    assert "before" not in [row["name"] for row in page.workspace.checkpoint_list().checkpoints]


def test_a_notice_names_what_is_on_the_page_and_no_command(page: Page) -> None:
    van, docks = id_of(page, "The van"), id_of(page, "Docks keep an MQTT connection")
    page.post("/time/checkpoint", name="c")
    page.post(f"/memory/{van}/update", title="The other van")
    shown = [
        page.post("/time/checkpoint/c/restore", confirm="1").text,
        page.post("/time/checkpoint/c/restore", confirm="1", clear="1").text,
        page.post("/time/checkpoint", name="c").text,
        page.post("/link/999/remove").text,
        page.post(f"/memory/{van}/forget").text,
        page.post(f"/memory/{van}/update", title="Gone").text,
        page.post(f"/memory/{docks}/merge", into=str(van)).text,
    ]
    notices = [
        html.unescape(re.sub(r"<[^>]+>", " ", text.split('class="notice')[1].split("<main")[0])) for text in shown
    ]
    assert "Tick “also take back what is newer”" in notices[0]
    assert "tick “write files back, too”" in notices[1]
    for notice in notices:
        assert not re.search(r"\bskm\b|(?<![\w-])--[a-z]|`", notice), notice


def test_a_link_that_a_file_declares_has_no_button_that_would_be_refused(page: Page) -> None:
    written(
        page.root,
        "memory/a.md",
        "---\ntitle: A\ncausal_links: {supports: [memory/b.md]}\n---\nAbout a.\n",
    )
    written(page.root, "memory/b.md", "# B\n\nAbout b.\n")
    page.workspace.index()
    shown = page.text(f"/memory/{id_of(page, 'A')}/links")
    assert "its file" in shown
    assert 'action="/link/' not in shown


def test_of_very_many_links_the_nearest_memories_are_drawn_and_all_are_listed(page: Page) -> None:
    names = [f"specs/001-hub/memory/n{number:02}.md" for number in range(60)]
    for name in names:
        written(page.root, name, f"# Spoke {name[-5:-3]}\n\nAbout {name}.\n")
    written(
        page.root,
        "memory/hub.md",
        f"---\ntitle: Hub\ncausal_links: {{supports: [{', '.join(names)}]}}\n---\nThe hub.\n",
    )
    page.workspace.index()
    hub = next(card.id for card in page.workspace.list(limit=100, max_tokens=50_000).memories if card.title == "Hub")
    for address in (f"/memory/{hub}/links", "/folders/001-hub"):
        shown = page.text(address)
        graph = json.loads(html.unescape(shown.split('data-graph="')[1].split('"')[0]))
        assert len(graph["nodes"]) == views.MOST_DRAWN
        assert hub in {node["id"] for node in graph["nodes"]}
        assert len(graph["links"]) == views.MOST_DRAWN - 1
        assert 'of <span class="num">61</span> memories are drawn' in shown
        assert all(f"<bdi>Spoke {number:02}</bdi>" in shown for number in range(60))


def test_a_folder_with_a_backslash_in_its_name_has_a_page(page: Page) -> None:
    if os.sep == "\\":
        pytest.skip("this system has no such names")
    written(
        page.root,
        "specs/002-back\\slash/memory/b.md",
        "# Between\n\nIn a folder with a backslash.\n",
    )
    page.workspace.index()
    assert "/folders/002-back%5Cslash" in page.text("/folders")
    assert "Between" in page.text("/folders/002-back%5Cslash")
    assert page.workspace.list(spec_folder="002-back\\slash").memories[0].title == "Between"


def test_many_trigger_phrases_leave_room_for_the_rest_of_the_form(page: Page) -> None:
    phrases = "".join(f"  - phrase {number}\n" for number in range(500))
    written(page.root, "memory/many.md", f"---\ntitle: Many\ntrigger_phrases:\n{phrases}---\nHas many.\n")
    page.workspace.index()
    assert 'name="phrases" rows="12"' in page.text(f"/memory/{id_of(page, 'Many')}")


def test_a_repair_is_offered_where_it_mends_something_and_paths_are_spelled_as_they_are(page: Page) -> None:
    for number in range(8):
        written(page.root, f"memory/lines{number}.md", f"# Lines {number}\n\n<!-- ANCHOR:a -->\nAbout {number}.\n")
    (page.root / "memory" / "nul.md").write_bytes(b"a\0b")
    page.workspace.index()
    shown = page.text("/numbers/health")
    assert "memory/lines7.md:" in shown
    assert "Memory/lines" not in shown
    assert 'action="/repair"' not in shown, "nothing of it can be mended by a repair"
    part = page.client.get("/numbers/health", headers={"hx-request": "true"}).text
    assert part.count("<li>") == 6
    assert 'href="/numbers/health">All 9<' in part
    written(page.root, "memory/late.md", "# A late note\n\nThe crane is red.\n")
    assert 'action="/repair"' in page.text("/numbers/health")


def test_a_memory_that_came_back_was_not_seen_for_the_first_time_then(page: Page) -> None:
    van = id_of(page, "The van")
    page.workspace.delete(van)
    page.workspace.undo()
    shown = page.text(f"/memory/{van}/versions")
    assert shown.count("first seen") == 1
    assert shown.count("there again") == 1


def test_the_only_version_is_not_offered_to_be_compared(page: Page) -> None:
    shown = page.text(f"/memory/{id_of(page, 'The van')}/versions")
    assert "1 version" in shown
    assert 'type="radio"' not in shown


def test_a_checkpoint_of_any_name_is_seen_and_deleted(page: Page) -> None:
    for name in ("release/1.2", "before 10 % off?", "été#1", "a.b"):
        shown = page.post("/time/checkpoint", after="/time", name=name).text
        link = next(found for found in re.findall(r'href="(/time/checkpoint/[^"]+)"', shown))
        assert "Everything is as it was then." in page.text(link)
        assert page.get(f"{link}.json").json()["diff"]["data"]["name"]
        page.post(f"{link}/delete", confirm="1")
        assert page.workspace.checkpoint_list().checkpoints == ()


def test_two_versions_of_a_memory_are_shown_as_a_diff(page: Page) -> None:
    id_ = id_of(page, "The van")
    written(page.root, "memory/van.md", "# The van\n\nThe van charges fifty bicycles at night.\n")
    page.workspace.index()
    shown = page.text(f"/memory/{id_}/versions")
    assert "fifty" in shown.split('class="added"')[1]
    assert "forty" in shown.split('class="removed"')[1]


def test_a_head_that_was_kept_is_compared_with_the_ledger(page: Page) -> None:
    assert "every link holds" in page.text("/time/ledger")
    assert 'href="/time/ledger"' in page.text("/time")
    head = page.workspace.ledger_head().summary
    assert "is in it" in page.text(f"/time/ledger?head={head}")
    assert "rewritten" in page.text(f"/time/ledger?head={head.split()[0]}+{'0' * 64}")


# --- hostile texts

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "<style>body{display:none}</style>",
    "<a href='javascript:alert(1)'>x</a>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "![x](https://evil.example/p.png)",
    "![x](javascript:alert(1))",
    "<iframe src=https://evil.example></iframe>",
    "<form action=/undo method=post><button>x</button></form>",
    "<div style='position:fixed;inset:0'>x</div>",
    "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
    "<!--><script>alert(1)</script>-->",
    "<!-- --><script>alert(1)</script>",
    "```\n</code></pre><script>alert(1)</script>\n```",
    "<x onclick=alert(1) data-key=f data-item>x</x>",
    "[x]: javascript:alert(1)\n\n[x]",
    "<javascript:alert(1)>",
    "# <b id=keys>x</b>",
    "| a |\n|---|\n| <script>alert(1)</script> |",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_acts_comes_out_of_a_hostile_text(text: str) -> None:
    shown = document.html_of(text)
    opened = re.findall(r"<[a-zA-Z][^>]*>", shown)
    tags = {name.lower() for name in re.findall(r"<\s*/?\s*([a-zA-Z][\w-]*)", shown)}
    assert tags <= document._TAGS
    attributes = {name.lower() for tag in opened for name in re.findall(r"\s([\w-]+)=", tag)}
    assert attributes <= {"href", "rel", "class", "tabindex", "start", "id"}
    assert not re.search(r'href="(?!https?:|mailto:)', shown)


def test_signs_that_turn_a_line_are_shown_and_not_obeyed(page: Page) -> None:
    written(page.root, "memory/turned.md", "# safe\u202egpj.exe\n\nbefore\u2066after\u2069\n")
    page.workspace.index()
    card = next(card for card in page.workspace.list(limit=50).memories if "turned" in card.path)
    for address in (f"/memory/{card.id}", f"/memory/{card.id}?plain=1", "/search?q=safe", "/search"):
        shown = page.text(address)
        assert "\u202e" not in shown
        assert "\u2066" not in shown
    assert "[U+202E]" in page.text(f"/memory/{card.id}")


def test_what_only_an_agent_would_read_is_shown_to_people(page: Page) -> None:
    order = "".join(chr(0xE0000 + ord(letter)) for letter in "obey me")
    title, phrase = f"Pay\u200bment{order}", "dock\u2060 bro\u00adker"
    flag = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
    meant = f"{flag} \U0001f468\u200d\U0001f469\u200d\U0001f467 \u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
    front = f'---\ntitle: "{title}"\ntriggers: ["{phrase}"]\n---\n'
    written(page.root, "memory/unseen.md", f"{front}# x\n\n{meant}\n\nlong\ufe0f\ufe01\ufe02 \x1b[2J\n")
    page.workspace.index()
    card = next(card for card in page.workspace.list(limit=50).memories if "unseen" in card.path)
    shown = page.text(f"/memory/{card.id}")
    assert "Pay[U+200B]ment[hidden: obey me]" in shown
    assert "dock[U+2060] bro[U+00AD]ker" in shown
    assert "long[U+FE0F × 3] [U+001B][2J" in shown
    assert meant in shown
    # Nothing of it is written by a form that changes something else.
    form = {"title": html.unescape(re.search(r'name="title" value="([^"]*)"', shown)[1])}  # type: ignore[index]
    form["phrases"] = html.unescape(re.search(r'name="phrases"[^>]*>([^<]*)<', shown)[1])  # type: ignore[index]
    page.post(f"/memory/{card.id}/update", tier="critical", type=card.context_type.value, **form)
    changed = page.workspace.examine(card.id).memory
    assert (changed.tier.value, changed.title, changed.triggers) == ("critical", card.title, card.triggers)


def test_hostile_titles_phrases_paths_and_folders_are_only_text(page: Page) -> None:
    bad = "<script>alert(1)</script>"
    title = f'"{bad}"'
    written(
        page.root,
        "specs/002-x/memory/bad.md",
        f"---\ntitle: {title}\ntriggers: [{title}]\n---\n# {bad}\n\nwords {bad}\n",
    )
    page.workspace.index()
    card = next(card for card in page.workspace.list(limit=50).memories if "bad" in card.path)
    addresses = [f"/memory/{card.id}{end}" for end in ("", "?plain=1", "/links", "/similar?with=1", "/versions")]
    for address in (
        *addresses,
        "/search?q=words+alert",
        "/search",
        f"/search?q={bad}",
        "/agent?q=alert+script",
        "/time",
        "/care",
        "/folders/002-x",
    ):
        shown = page.text(address)
        assert bad not in shown, address


def test_a_very_long_text_and_a_huge_table_are_shown_without_end_of_patience(page: Page) -> None:
    rows = "\n".join(f"| {n} | {'x' * 20} |" for n in range(20_000))
    written(page.root, "memory/huge.md", f"# Huge\n\n| a | b |\n|---|---|\n{rows}\n")
    written(page.root, "memory/deep.md", "# Deep\n\n" + ">" * 5_000 + " x\n\n" + "[" * 5_000 + "\n\n" + "*a " * 5_000)
    page.workspace.index()
    for card in page.workspace.list(limit=50).memories:
        if card.title in ("Huge", "Deep"):
            page.text(f"/memory/{card.id}")


def test_what_was_held_back_comes_with_one_click(root: Path) -> None:
    """Archived, expired and dormant memories alike, and the filters count them."""
    now = [datetime.now(UTC) - timedelta(days=60)]
    written(root, "memory/soup.md", "# Soup\n\nOn Tuesdays there is soup in the harbour.\n")
    written(root, "memory/gone.md", "---\nexpires: 2020-01-02\n---\n# Gone\n\nThe harbour was closed.\n")
    for page in made(root, now=lambda: now[0]):
        now[0] += timedelta(days=60)
        asked = "?q=controllers+hold+one+connection"
        held = page.get(f"/search.json{asked}").json()["search"]["data"]["heldBack"]
        assert held["dormant"]
        assert held["expired"]
        (bring,) = re.findall(r'href="([^"]+)">Bring them', page.text(f"/search{asked}"))
        brought = page.get(html.unescape(bring).replace("?", ".json?", 1)).json()
        still = brought["search"]["data"].get("heldBack", {})
        assert not any(still.get(why) for why in ("archived", "dormant", "expired"))
        states = brought["facets"]["data"]["states"]
        assert brought["search"]["data"]["totalFound"] == sum(states.values())
        assert states["DORMANT"] >= held["dormant"]


def test_what_is_not_there_leads_to_what_is(page: Page) -> None:
    for address, to in (("/memory/999", "/search"), ("/time/checkpoint/none", "/time"), ("/folders/none", "/folders")):
        answer = page.get(address)
        assert (answer.status_code, f'class="button" href="{to}"' in answer.text) == (404, True), address
        assert "<code>" not in answer.text.partition("<main")[2].partition("</main")[0]


def test_the_files_of_a_workspace_that_was_never_indexed_are_read_from_its_page(root: Path) -> None:
    for page in made(root):
        assert "Read the files now" not in page.text("/search")
    shutil.rmtree(root)
    (root / ".spec-kit-memory").mkdir(parents=True)
    for page in made(root):
        assert "Read the files now" in page.text("/search")
        written(root, "memory/van.md", "# The van\n\nThe van charges forty bicycles at night.\n")
        answer = page.post("/index")
        assert "1 file indexed" in answer.text
        assert "The van" in answer.text


class SectionThatCounts:
    """A section of an outline that counts how often its place is asked for."""

    asked = 0

    def __init__(self, number: int) -> None:
        self.id, self.number = f"part-{number}", number

    @property
    def first_line(self) -> int:
        SectionThatCounts.asked += 1
        return 4 * self.number + 1

    @property
    def last_line(self) -> int:
        return self.first_line + 3


def test_thousands_of_headings_are_named_in_few_steps_and_each_by_its_own_name() -> None:
    """Otherwise whoever writes a memory decides for how long the page has no time for anybody else."""
    count = 7_000
    text = "".join(f"# {n}\n\n{n}\n\n" for n in range(count))
    assert len(text) < document.LONGEST
    shown = document.html_of(text, sections=[SectionThatCounts(n) for n in range(count)])  # type: ignore[misc]
    assert shown.count('<h1 id="section-part-') == count
    assert '<h1 id="section-part-6999">6999</h1>' in shown
    assert SectionThatCounts.asked <= 10 * count


def test_sections_that_begin_at_the_same_line_are_named_by_the_blocks_that_follow() -> None:
    text = "# One\n\nFirst.\n\nSecond.\n"
    sections = [
        Section(id=name, title=name, level=1, first_line=first, last_line=last)
        for name, first, last in (("a", 1, 5), ("b", 1, 5), ("c", 3, 3))
    ]
    shown = document.html_of(text, sections=sections)
    assert re.findall(r'<(\w+) id="section-(\w)">', shown) == [("h1", "a"), ("p", "b")]
