"""The page in a real Chromium: every page and every change, by mouse and by keyboard alone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from spec_kit_memory.files import activity
from tests.serve.page.browser import SECONDS, Visitor, served
from tests.serve.page.conftest import Page, written
from tests.serve.page.test_pages import HOSTILE, id_of

Open = Callable[..., Visitor]
LONG = "\n".join(
    f"Step {n}: the dock controller asks the broker before it opens lock number {n}." for n in range(1, 12)
)
EVERY_PAGE = (
    "/search",
    "/search?q=docks",
    "/agent?q=mqtt+broker",
    "/memory/{id}",
    "/memory/{id}/links",
    "/memory/{id}/similar?with={other}",
    "/memory/{id}/versions",
    "/care?check=1",
    "/time",
    "/time/ledger",
    "/time/checkpoint/before",
    "/numbers",
    "/folders",
    "/folders/001-docks",
)


# What reaches out of its column, and names of a graph that stand on each other.
STRAYS = """
[...document.querySelectorAll("main, .columns > *, .panel")].flatMap((column) => {
  const right = column.getBoundingClientRect().right + 1;
  return [...column.querySelectorAll("a, p, td, th, li, h1, h2, h3, bdi, input, button, svg")]
    .filter((one) => !one.closest("svg svg, .hidden, .wide, pre, thead, [aria-label=Filters]") && one.checkVisibility())
    .filter((one) => one.getBoundingClientRect().right > right && !one.closest(".chip"))
    .map((one) => one.outerHTML.slice(0, 90));
})
"""
ON_EACH_OTHER = """
(() => {
  const names = [...document.querySelectorAll(".graph text")].map((one) => one.getBoundingClientRect());
  return names.some((one, at) => names.slice(at + 1).some((other) =>
    Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1
    && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 3));
})()
"""


@pytest.fixture
def visit(browser: Any, page: Page) -> Iterator[Open]:
    """Opens tabs that are looked through for complaints when the test is over."""
    tabs: list[Visitor] = []
    with served(page) as address:

        def open_(**how: Any) -> Visitor:
            tabs.append(Visitor(browser, page, address, **how))
            return tabs[-1]

        yield open_
        for tab in tabs:
            tab.close()


@pytest.fixture
def tab(visit: Open) -> Visitor:
    return visit()


def addresses(page: Page) -> list[str]:
    page.workspace.checkpoint_create("before")
    ids = {"id": id_of(page, "Docks keep an MQTT connection"), "other": id_of(page, "The van")}
    page.workspace.update(ids["id"], add_trigger_phrases=["dock link"])
    page.workspace.link(ids["id"], ids["other"], "enabled")
    return [path.format(**ids) for path in EVERY_PAGE]


def duplicates(page: Page) -> None:
    written(page.root, "specs/001-docks/memory/steps.md", f"# Steps of the dock\n\n{LONG}\n")
    written(page.root, "specs/001-docks/memory/steps-again.md", f"# Steps of a dock\n\n{LONG}\nAnd wait.\n")
    page.workspace.index()


# --- looking


def test_every_page_is_shown_without_a_complaint_in_light_and_dark_and_on_a_phone(visit: Open, page: Page) -> None:
    every = addresses(page)
    now = datetime.now(UTC)
    activity.add(page.workspace.settings, [activity.DayTally(now.date(), activity.SENT, "search", 3, 900)], now=now)
    for how in ({}, {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}}):
        tab = visit(**how)
        for path in every:
            assert tab.go(path).status == 200, path
            tab.tab.locator("h1").first.wait_for(state="attached")
            wide = tab.tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, f"{path} is wider than the window by {wide}"
        tab.go("/numbers")
        tab.until(lambda tab=tab: tab.tab.locator(".chart canvas").count() == 2)
        tab.see("healthy")


def test_long_and_turned_titles_stay_in_their_places_at_every_width(visit: Open, page: Page) -> None:
    long = "Implementation Plan: riders reserve a bicycle for fifteen minutes at any station of the inner harbour " * 2
    titles = [
        long,
        long.replace("Plan", "Spec"),
        "x" * 150,
        "קישור הרציף: כיצד הבקר שומר על חיבור MQTT פתוח",
        "src/a.py::b",
    ]
    folder = (
        "002-a-folder-whose-name-was-written-by-a-careful-person-and-goes-on-for-a-while/archive/001-and-further-down"
    )
    for number, title in enumerate(titles):
        written(page.root, f"specs/{folder}/memory/{number}.md", f"# {title}\n\n{LONG}\n")
    page.workspace.index()
    ids = [id_of(page, title.strip()) for title in titles]
    for other in ids[1:]:
        page.workspace.link(ids[0], other, "supports", evidence="because it was seen so")
    ends = ("", "/links", f"/similar?with={ids[1]}", "/versions")
    paths = [f"/memory/{ids[0]}{end}" for end in ends] + [f"/memory/{ids[2]}/links", f"/folders/{folder}"]
    for width in (1280, 1000, 360, 320):
        tab = visit(viewport={"width": width, "height": 800})
        for path in (
            *paths,
            "/search",
            "/search?q=bicycle+harbour",
            "/agent?q=bicycle+harbour",
            "/care",
            "/time",
            "/numbers",
            "/folders",
        ):
            tab.go(path)
            strays = tab.tab.evaluate(STRAYS)
            assert not strays, (width, path, strays)
            assert not tab.tab.evaluate(ON_EACH_OTHER), (width, path)


def test_no_serious_barrier_stands_on_any_page(visit: Open, page: Page) -> None:
    from tools.packages import BUILD, Absent, install_from_npm

    try:
        modules = install_from_npm(BUILD / "axe", ["axe-core@4.14.0"])
    except Absent as reason:
        pytest.skip(f"axe-core cannot be had: {reason}")
    axe = (modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    every = addresses(page)
    duplicates(page)
    found: list[str] = []

    def judge(tab: Visitor, where: str) -> None:
        tab.tab.evaluate(axe)
        result = tab.tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found.extend(
            f"{where}: {one['id']} ({one['impact']}): {[node['html'][:120] for node in one['nodes'][:3]]}"
            for one in result["violations"]
            if one["impact"] in ("serious", "critical")
        )

    for scheme in ("light", "dark"):
        tab = visit(bypass_csp=True, color_scheme=scheme)
        for path in every:
            tab.go(path)
            judge(tab, f"{scheme} {path}")
        # What opens, and what a change leaves behind.
        tab.go("/search?q=docks")
        tab.tab.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        judge(tab, f"{scheme} with everything opened")
        tab.press("Escape", "?")
        tab.tab.locator("#keys[open]").wait_for()
        judge(tab, f"{scheme} keys")
        tab.press("Escape", "Control+k")
        tab.tab.locator("#palette [role=option]").first.wait_for()
        judge(tab, f"{scheme} palette")
        tab.tab.keyboard.type("docks")
        tab.tab.locator("#palette [role=option]", has_text="#").first.wait_for()
        judge(tab, f"{scheme} palette with memories")
        tab.go("/care?kind=duplicates")
        tab.press("j", "x")
        tab.see("1 of 1 chosen")
        judge(tab, f"{scheme} several chosen")
        tab.press("s")
        tab.tab.locator("[data-done]").wait_for()
        judge(tab, f"{scheme} what was done")
        tab.press("z")
        tab.see("say nearly the same")
        judge(tab, f"{scheme} what was taken back")
    assert not found, "\n".join(found)


def test_results_come_as_one_types_and_the_address_can_be_shared(tab: Visitor) -> None:
    tab.go("/search")
    tab.tab.locator("#q").press_sequentially("mqtt conn")
    tab.see("Docks keep an MQTT connection")
    tab.until(lambda: "q=mqtt" in tab.tab.url)
    shared = tab.tab.url
    tab.tab.goto(shared)
    assert tab.tab.locator("#q").input_value() == "mqtt conn"
    tab.tab.get_by_text("why ").first.click()
    tab.see("recency")


def test_a_filter_is_chosen_and_taken_away(tab: Visitor) -> None:
    tab.go("/search?q=docks")
    tab.tab.locator(".chip", has_text="important").first.click()
    tab.until(lambda: "tier=important" in tab.tab.url)
    tab.tab.locator(".chip.on").first.click()
    tab.until(lambda: "tier=" not in tab.tab.url)


def test_the_theme_is_toggled_and_stays(tab: Visitor) -> None:
    tab.go("/folders")
    for wanted in ("dark", "light", "system"):
        tab.tab.locator("[data-theme-toggle]").click()
        tab.tab.locator(f'html[data-theme="{wanted}"]').wait_for(state="attached")
        assert tab.tab.url.endswith("/folders")


def test_reading_and_searching_work_without_scripts(visit: Open, page: Page) -> None:
    tab = visit(java_script_enabled=False)
    tab.go("/search")
    tab.tab.locator("#q").fill("mqtt connection")
    tab.tab.get_by_role("button", name="Search").click()
    tab.tab.get_by_role("link", name="Docks keep an MQTT connection").first.click()
    tab.see("Polling ate the data plan.")
    tab.tab.get_by_role("button", name="Outdated").click()
    tab.see("marked outdated")
    tab.tab.locator(".notice .undo").click()
    assert not page.workspace.examine(id_of(page, "Docks keep an MQTT connection")).outdated


@pytest.mark.parametrize("chunk", range(4))
def test_hostile_memories_do_nothing(tab: Visitor, page: Page, chunk: int) -> None:
    """All in one file each: whatever acts is a complaint of the tab, or a dialog."""
    acted: list[str] = []

    def asked(dialog: Any) -> None:
        acted.append(dialog.message)
        dialog.dismiss()

    tab.tab.on("dialog", asked)
    body = "\n\n".join(HOSTILE[chunk::4])
    title = "<img src=x onerror=alert(1)>"
    written(
        page.root, f"memory/hostile{chunk}.md", f"---\ntitle: '{title}'\ntriggers: ['{title}']\n---\n# x\n\n{body}\n"
    )
    page.workspace.index()
    card = next(card for card in page.workspace.list(limit=50).memories if "hostile" in card.path)
    for path in (
        f"/memory/{card.id}",
        f"/memory/{card.id}/links",
        f"/memory/{card.id}/versions",
        "/search?q=alert",
        "/time",
    ):
        tab.go(path)
        tab.tab.locator("h1").first.wait_for(state="attached")
    assert acted == []
    assert tab.tab.locator("main").bounding_box() is not None


# --- changing, with the mouse


def test_a_memory_is_changed_by_its_form_and_the_change_is_taken_back(tab: Visitor, page: Page) -> None:
    id_ = id_of(page, "The van")
    tab.go(f"/memory/{id_}")
    tab.tab.get_by_label("Title").fill("The lorry")
    tab.tab.get_by_label("Tier", exact=True).select_option("critical")
    tab.tab.get_by_label("Trigger phrases, one per line").fill("charge bicycles")
    tab.tab.get_by_role("button", name="Save").click()
    tab.see("The lorry")
    assert "The lorry" in (page.root / "memory/van.md").read_text(encoding="utf-8")
    tab.tab.locator(".notice .undo").click()
    tab.until(lambda: tab.tab.locator(".head h1").inner_text() == "The van")
    assert "The lorry" not in (page.root / "memory/van.md").read_text(encoding="utf-8")


def test_two_memories_are_compared_and_joined(tab: Visitor, page: Page) -> None:
    duplicates(page)
    first = id_of(page, "Steps of the dock")
    tab.go(f"/memory/{first}/similar")
    assert tab.tab.locator(".sides section").count() == 2
    tab.tab.get_by_role("button", name="Keep this one").first.click()
    tab.see("takes in and supersedes")
    assert "And wait." in page.workspace.examine(first).text
    tab.tab.locator(".notice .undo").click()
    tab.until(lambda: "And wait." not in page.workspace.examine(first).text)


def test_links_are_drawn_made_and_removed(tab: Visitor, page: Page) -> None:
    van, docks = id_of(page, "The van"), id_of(page, "Docks keep an MQTT connection")
    tab.go(f"/memory/{van}/links")
    tab.see("It stands alone.")
    tab.tab.get_by_label("This memory", exact=True).select_option("supports")
    tab.tab.get_by_label("memory number").fill(f"#{docks}")
    tab.tab.get_by_role("button", name="Link", exact=True).click()
    tab.until(lambda: tab.tab.locator(".graph circle").count() == 2)
    tab.tab.get_by_role("button", name="Remove").click()
    tab.see("It stands alone.")
    tab.tab.locator(".notice .undo").click()
    tab.until(lambda: tab.tab.locator(".graph circle").count() == 2)


def test_versions_are_chosen_and_compared(tab: Visitor, page: Page) -> None:
    id_ = id_of(page, "The van")
    for count in ("fifty", "sixty"):
        written(page.root, "memory/van.md", f"# The van\n\nThe van charges {count} bicycles at night.\n")
        page.workspace.index(force=True)
    tab.go(f"/memory/{id_}/versions")
    tab.tab.get_by_label("from version 1", exact=True).check()
    tab.tab.get_by_label("to version 3", exact=True).check()
    tab.tab.get_by_role("button", name="Compare").click()
    tab.until(lambda: "older=1" in tab.tab.url)
    assert "sixty" in tab.tab.locator("tr.added").inner_text()
    assert "forty" in tab.tab.locator("tr.removed").inner_text()


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_days_of_a_plot_are_those_of_its_table_wherever_the_browser_is(visit: Open, page: Page, zone: str) -> None:
    today = datetime.now(UTC)
    rows = [activity.DayTally(today.date() - timedelta(days=back), activity.USE, "1", 1) for back in range(5)]
    activity.add(page.workspace.settings, rows, now=today)
    tab = visit(timezone_id=zone)
    tab.go("/numbers")
    said = tab.tab.locator("[data-chart=use] .u-legend .u-series").first

    def is_said() -> bool:
        """Point at the last day, again if the plot was drawn anew in the meantime, because its panel grew."""
        tab.tab.locator("[data-chart=use]").scroll_into_view_if_needed()
        box = tab.tab.locator("[data-chart=use] .u-over").bounding_box()
        for beside in (2, 1) if box else ():
            tab.tab.mouse.move(box["x"] + box["width"] - beside, box["y"] + box["height"] / 2)
        return rows[0].day.isoformat() in said.inner_text()

    tab.until(is_said)


def test_a_checkpoint_is_made_and_restored(tab: Visitor, page: Page) -> None:
    id_ = id_of(page, "The van")
    tab.go("/time")
    tab.tab.get_by_label("New checkpoint").fill("before")
    tab.tab.get_by_role("button", name="Create").click()
    tab.see("before")
    page.workspace.update(id_, title="The lorry")
    tab.go("/time/checkpoint/before")
    tab.see("The lorry")
    tab.tab.get_by_label("also take back what is newer").check()
    tab.tab.get_by_label("write files back, too").check()
    tab.tab.get_by_label("yes, restore it").check()
    tab.tab.get_by_role("button", name="Restore").click()
    tab.until(lambda: page.workspace.examine(id_).memory.title == "The van")
    tab.see("Everything is as it was then.")


# --- changing, by keyboard alone


def test_an_inbox_is_worked_through_by_keyboard(tab: Visitor, page: Page) -> None:
    duplicates(page)
    first = id_of(page, "Steps of the dock")
    tab.go("/care?kind=duplicates")
    tab.see("say nearly the same")
    tab.press("j", "m")
    tab.see("takes in and supersedes")
    assert "And wait." in page.workspace.examine(min(first, id_of_any(page, "Steps of a dock", first))).text
    tab.press("z")
    tab.until(lambda: len([c for c in page.workspace.list(limit=50).memories if c.title.startswith("Steps")]) == 2)
    tab.go("/care?kind=duplicates")
    tab.see("say nearly the same")
    tab.press("j", "s")
    tab.see("Left as it is")
    tab.go("/care?kind=duplicates&aside=1")
    tab.press("j", "Enter")
    tab.until(lambda: "/memory/" in tab.tab.url)


def id_of_any(page: Page, title: str, otherwise: int) -> int:
    return next((card.id for card in page.workspace.list(limit=50).memories if card.title == title), otherwise)


def test_a_result_is_reached_judged_and_the_judgement_taken_back_by_keyboard(tab: Visitor, page: Page) -> None:
    tab.go("/folders")
    tab.press("/")
    tab.tab.locator("#q:focus").wait_for()
    tab.tab.wait_for_load_state()
    tab.tab.keyboard.type("mqtt connection")
    tab.until(lambda: "q=mqtt+connection" in tab.tab.url or "q=mqtt%20connection" in tab.tab.url)
    tab.tab.locator(".results .row", has_text="Docks keep an MQTT connection").first.wait_for()
    tab.press("Escape")
    assert tab.tab.locator("#q").input_value() == "mqtt connection"
    tab.press("j", "Enter")
    tab.until(lambda: "/memory/" in tab.tab.url)
    tab.press("o")
    tab.see("marked outdated")
    id_ = int(tab.tab.url.rsplit("/", 1)[1])
    assert page.workspace.examine(id_).outdated
    tab.press("z")
    tab.see("is no longer outdated")
    assert not page.workspace.examine(id_).outdated
    tab.press("f")
    tab.see("not there any more")
    tab.press("z")
    tab.see("Polling ate the data plan.")


def test_pages_are_reached_and_keys_are_shown_by_keyboard(tab: Visitor) -> None:
    for key, page_ in (("c", "care"), ("t", "time"), ("n", "numbers"), ("f", "folders"), ("s", "search")):
        tab.go("/folders" if key != "f" else "/care")
        tab.press("g", key)
        tab.until(lambda page_=page_: tab.tab.url.endswith(f"/{page_}"))
    tab.go("/care")
    tab.press("?")
    assert tab.tab.locator("#keys[open]").count() == 1
    tab.press("Escape")
    assert tab.tab.locator("#keys[open]").count() == 0


def test_the_form_of_a_memory_is_filled_in_by_keyboard(tab: Visitor, page: Page) -> None:
    id_ = id_of(page, "The van")
    tab.go(f"/memory/{id_}")
    tab.tab.get_by_label("Title").focus()
    tab.press("End")
    tab.tab.keyboard.type(" of the workshop")
    tab.press("Enter")
    tab.until(lambda: page.workspace.examine(id_).memory.title == "The van of the workshop")


# --- the command


@pytest.fixture
def started(root: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "spec_kit_memory", "ui", "--no-browser", "--workspace", str(root)]
    process = subprocess.Popen(
        [*command, "--set", "semantic.model=none"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    yield process.stdout.readline().strip(), process
    process.kill()
    process.communicate(timeout=SECONDS)


def test_the_command_prints_the_address_first_and_stops_when_told(
    browser: Any, started: tuple[str, subprocess.Popen[str]]
) -> None:
    address, process = started
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", address)
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(address)
    assert tab.url.endswith("/search")
    assert "token" not in tab.url
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert cookie["name"] == f"skm_{address.split(':')[2].split('/')[0]}"
    stranger = browser.new_context().new_page()
    stranger.goto(address)
    assert "used already" in stranger.content()
    context.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0


@pytest.mark.skipif(sys.platform == "win32", reason="BROWSER names a program only on Unix")
def test_the_address_is_opened_without_its_token_in_the_list_of_processes(
    browser: Any, root: Path, tmp_path: Path
) -> None:
    program, arguments = tmp_path / "a-browser", tmp_path / "arguments"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {arguments}.new && mv {arguments}.new {arguments}\n')
    program.chmod(0o755)
    command = [sys.executable, "-m", "spec_kit_memory", "ui", "--workspace", str(root), "--set", "semantic.model=none"]
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "DISPLAY": ":0"}
    environment |= {"BROWSER": str(program)}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, umask=0
    )
    try:
        assert process.stdout
        token = process.stdout.readline().strip().partition("token=")[2]
        deadline = time.monotonic() + SECONDS
        while not arguments.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        argument = arguments.read_text(encoding="utf-8").strip()
        assert token
        assert token not in argument
        file = Path(unquote(urlsplit(argument).path))
        assert token in file.read_text(encoding="utf-8")
        assert file.stat().st_mode & 0o077 == 0
        assert file.parent.stat().st_mode & 0o077 == 0
        tab = browser.new_context().new_page()
        tab.goto(argument)
        tab.wait_for_url("**/search")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        assert not file.exists()
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)
