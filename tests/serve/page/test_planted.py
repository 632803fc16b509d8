"""A person with ten minutes: five planted problems are found and repaired with the page alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.core.memory import Tier
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.serve.page.access import PageAccess
from spec_kit_memory.serve.page.routes import page_app
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
from tests.serve.page.browser import Visitor, opened, served
from tests.serve.page.conftest import NAMES, Page, written
from tests.serve.page.test_browser import LONG

LEAKED = "my landlord wants the deposit back by Friday"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with opened() as found:
        yield found


@pytest.fixture
def planted(root: Path, tmp_path: Path) -> Iterator[Page]:
    """Written 60 days ago, and hardly used since."""
    now = [datetime.now(UTC) - timedelta(days=60)]
    written(root, "specs/001-docks/memory/steps.md", f"# Steps of the dock\n\n{LONG}\n")
    written(root, "specs/001-docks/memory/steps-again.md", f"# Steps of a dock\n\n{LONG}\nAnd wait.\n")
    written(root, "specs/001-docks/memory/poll.md", "# Docks poll every five seconds\n\nThe old way, until October.\n")
    front = f"importance_tier: temporary\ncreated_at: {now[0]:%Y-%m-%d}"
    deploy = f"---\n{front}\n---\n# Never deploy on a Friday\n\nThe workshop is empty on weekends.\n"
    written(root, "memory/deploy.md", deploy)
    chat = tmp_path / "chat.jsonl"
    turns = [{"role": "user", "content": LEAKED}, {"role": "assistant", "content": "I remember that."}]
    chat.write_text("".join(json.dumps(turn) + "\n" for turn in turns), encoding="utf-8")
    workspace = Workspace(Settings(root=root, semantic=Semantic(model="hashing")), now=lambda: now[0])
    workspace.index()
    workspace.chat_import([chat])
    cards = {card.title: card.id for card in workspace.list(limit=50).memories}
    workspace.link(cards["The van"], cards["Docks keep an MQTT connection"], "contradicts")
    now[0] = datetime.now(UTC)
    live = LiveWorkspace(lambda: workspace.for_caller(workspace.caller), background=False)
    access = PageAccess(names=NAMES)
    from starlette.testclient import TestClient

    yield Page(root, workspace, access, TestClient(page_app(live, access), base_url="http://127.0.0.1:8765"))
    workspace.close()


def test_five_planted_problems_are_found_and_repaired_with_the_page_alone(browser: Any, planted: Page) -> None:
    with served(planted) as address:
        tab = Visitor(browser, planted, address)
        tab.go("/care")

        # A duplicate pair: found in the inbox, joined there.
        pair = tab.tab.locator("[data-item]", has_text="say nearly the same")
        pair.get_by_role("button", name="Join into").click()
        tab.see("takes in and supersedes")

        # A chat that leaked into the memories: found in the inbox, read, forgotten.
        leak = tab.tab.locator("[data-item]", has_text="nobody vouched for this conversation")
        leak.get_by_role("link").first.click()
        tab.see(LEAKED)
        tab.tab.get_by_role("button", name="Forget").click()
        tab.see("not there any more")

        # A stale memory: nobody used it, and it no longer holds.
        tab.go("/care?kind=unused")
        stale = tab.tab.locator("[data-item]", has_text="Docks poll every five seconds")
        stale.get_by_role("button", name="Outdated").click()
        tab.see("marked outdated")

        # A wrong tier: a rule of the team that expired as a temporary note.
        tab.go("/care?kind=expired")
        tab.tab.get_by_role("link", name="Never deploy on a Friday").click()
        tab.tab.get_by_label("Tier", exact=True).select_option("critical")
        tab.tab.get_by_role("button", name="Save").click()
        tab.see("changed tier")

        # A wrong link: the van contradicts nothing.
        tab.go("/search?q=van+charges+bicycles")
        tab.tab.get_by_role("link", name="The van").first.click()
        tab.tab.get_by_role("link", name="Links").click()
        tab.tab.locator("tr", has_text="contradicts").get_by_role("button", name="Remove").click()
        tab.see("It stands alone.")
        tab.close()

    cards = {card.title: card for card in planted.workspace.list(limit=50).memories}
    assert ("Steps of the dock" in cards) != ("Steps of a dock" in cards)
    assert planted.workspace.chat_list().memories == ()
    assert planted.workspace.examine(cards["Docks poll every five seconds"].id).outdated
    assert cards["Never deploy on a Friday"].tier is Tier.CRITICAL
    assert not planted.workspace.why(cards["The van"].id).steps
    left = {item.kind for item in planted.workspace.care(health=False).items}
    assert not left & {"duplicates", "unvouched", "expired"}
