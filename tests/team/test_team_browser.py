"""The page of a team server in a real Chromium: signing in, moving between projects, changing, and signing out."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from spec_kit_memory.serve.http.team_app import team_application
from spec_kit_memory.serve.page.team_page import TeamPageAccess, team_page
from tests.serve.page.browser import REPORT_VIOLATIONS, SECONDS, opened
from tests.team.test_team_page import Site, site

__all__ = ["site"]  # a fixture

PAGES = ("search", "search?q=till", "agent?q=till", "memory/1", "memory/1/links", "memory/1/similar", "care", "time")
MORE = ("time/ledger", "numbers", "numbers/health", "folders", "folders/001-shop", "memory/1/versions")


@pytest.fixture
def address(site: Site) -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    access = TeamPageAccess(site.team, names=["127.0.0.1"], port=port)
    app = team_application(site.team, host="127.0.0.1", page=team_page(site.team, access))
    server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(SECONDS)
    listening.close()


def test_a_person_signs_in_looks_at_every_page_changes_something_and_leaves(site: Site, address: str) -> None:
    secret = site.team.tokens.create("carla", projects=["shop", "bank"], role="writer")[1]
    complaints: list[str] = []
    with opened() as browser:
        context = browser.new_context()
        tab: Any = context.new_page()
        tab.set_default_timeout(SECONDS * 1000)
        tab.add_init_script(REPORT_VIOLATIONS)
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on(
            "request", lambda one: complaints.append(one.url) if not one.url.startswith((address, "data:")) else None
        )
        tab.goto(f"{address}/p/shop/search")
        tab.on("console", lambda one: complaints.append(one.text) if one.type == "error" else None)
        tab.fill("#token", secret)
        tab.press("#token", "Enter")
        tab.wait_for_url(f"{address}/p/shop/search")
        for page in (*PAGES, *MORE):
            assert tab.goto(f"{address}/p/shop/{page}").status == 200, page
            outside = tab.eval_on_selector_all(
                "a[href^='/'], form[action^='/'], [hx-get]",
                "all => all.flatMap(one => ['href', 'action', 'hx-get'].map(name => one.getAttribute(name)))"
                ".filter(Boolean)",
            )
            strays = [one for one in outside if not one.startswith(("/p/", "/projects", "/theme", "/sign-", "#", "?"))]
            assert not strays, (page, strays)
        tab.goto(f"{address}/p/shop/memory/1")
        tab.click("button[value=useful], form[action='/p/shop/memory/1/judge'] button")
        tab.wait_for_selector("[role=status], .notice")
        assert tab.url.startswith(f"{address}/p/shop/")
        tab.goto(f"{address}/p/shop/folders")
        tab.keyboard.press("/")
        tab.wait_for_url(f"{address}/p/shop/search")
        tab.keyboard.press("Control+k")
        tab.keyboard.type("notes of the shop")
        tab.get_by_role("option").filter(has_text="#1").first.click()
        tab.wait_for_url(f"{address}/p/shop/memory/*")
        tab.goto(f"{address}/p/shop/search")
        tab.click("nav.switch a:has-text('bank')")
        tab.wait_for_url(f"{address}/p/bank/search")
        assert tab.locator("text=Notes of the bank").count() > 0
        tab.click("nav.switch a:has-text('Projects')")
        tab.wait_for_url(f"{address}/projects")
        tab.click("button:has-text('Sign out')")
        tab.wait_for_url(f"{address}/sign-in")
        complaints_before_refusal = list(complaints)
        assert tab.goto(f"{address}/p/shop/search").status == 401
        context.close()
    # The sign-in page is answered with 401, which a browser writes to its console.
    assert [one for one in complaints_before_refusal if "401" not in one] == []
