"""A person with ten minutes: five planted problems are found and repaired with the page alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from spec_kit_memory.core.memory import Tier
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.serve.page.access import PageAccess
from spec_kit_memory.serve.page.routes import page_app
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
from tests.features.test_code_state import commit, git, needs_git
from tests.serve.page.browser import Visitor, served
from tests.serve.page.conftest import NAMES, Page, written
from tests.serve.page.test_browser import LONG

EXAMPLE = Path(__file__).parents[3] / "examples" / "harbour-bikes"
MQTT = "specs/002-dock-link/memory/14-10-25_14-05__mqtt-instead-of-polling.md"
LEAKED = "my landlord wants the deposit back by Friday"


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
    yield Page(root, workspace, access, TestClient(page_app(live, access), base_url="http://127.0.0.1:8765"))
    workspace.close()


def test_five_planted_problems_are_found_and_repaired_with_the_page_alone(browser: Any, planted: Page) -> None:
    with served(planted) as address:
        tab = Visitor(browser, planted, address)

        def care(kind: str) -> None:
            tab.tab.get_by_role("link", name="Care").click()
            tab.tab.locator("#items .chip", has_text=kind).click()

        tab.tab.get_by_role("link", name="Care").click()

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
        care("never used")
        stale = tab.tab.locator("[data-item]", has_text="Docks poll every five seconds")
        stale.get_by_role("button", name="Outdated").click()
        tab.see("marked outdated")

        # A wrong tier: a rule of the team that expired as a temporary note.
        care("expired")
        tab.tab.get_by_role("link", name="Never deploy on a Friday").click()
        tab.tab.get_by_label("Tier", exact=True).select_option("critical")
        tab.tab.get_by_role("button", name="Save").click()
        tab.see("changed importance tier")

        # A wrong link: the van contradicts nothing.
        tab.tab.get_by_role("link", name="Search", exact=True).click()
        tab.tab.locator("#q").fill("van charges bicycles")
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


@pytest.fixture
def harbour(tmp_path: Path) -> Iterator[Page]:
    """The example in a git repository, with other kinds of the same five problems."""
    root = tmp_path / "harbour-bikes"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns(".spec-kit-memory"))
    (root / ".spec-kit-memory").mkdir()
    text = (root / MQTT).read_text(encoding="utf-8")
    edited = (
        text.replace("Docks keep an MQTT connection", "Why docks talk over MQTT")
        .replace("We left polling.", "Polling is gone.")
        .replace("Controllers now hold one connection", "Each controller keeps one connection")
    )
    written(root, str(Path(MQTT).with_name("why-mqtt.md")), edited)
    lunch = "---\nimportance_tier: critical\n---\n# Lunch\n\nOn Tuesdays there is soup.\n"
    written(root, "memory/lunch.md", lunch)
    written(root, "service/refunds.py", "WINDOW = 30\n")
    written(root, "memory/window.md", "# The refund window\n\nIt is set in `service/refunds.py`.\n")
    git(root, "init", "-q")
    commit(root)
    workspace = Workspace(Settings(root=root, semantic=Semantic(model="hashing")))
    workspace.index()
    written(root, "service/refunds.py", "WINDOW = 90\n")
    commit(root, "Refund for longer")
    chat = tmp_path / "chat.jsonl"
    turns = [{"role": "user", "content": LEAKED}, {"role": "assistant", "content": "I remember that."}]
    chat.write_text("".join(json.dumps(turn) + "\n" for turn in turns), encoding="utf-8")
    workspace.chat_import([chat])
    cards = {card.title: card.id for card in workspace.list(limit=100, max_tokens=100_000).memories}
    workspace.link(cards["Winter mode"], cards["Docks keep an MQTT connection"], "supersedes", evidence="a guess")
    live = LiveWorkspace(lambda: workspace.for_caller(workspace.caller), background=False)
    access = PageAccess(names=NAMES)
    yield Page(root, workspace, access, TestClient(page_app(live, access), base_url="http://127.0.0.1:8765"))
    workspace.close()


@needs_git
def test_other_kinds_of_the_five_problems_are_found_by_who_sees_only_the_page(browser: Any, harbour: Page) -> None:
    with served(harbour) as address:
        tab = Visitor(browser, harbour, address)
        tab.tab.get_by_role("link", name="Care").click()

        # Edited sentences do not hide that two say the same; they are compared, and the first one is kept.
        pair = tab.tab.locator("[data-item]", has_text="Why docks talk over MQTT")
        pair.get_by_role("link", name="Compare").click()
        kept = tab.tab.get_by_role("region", name="Docks keep an MQTT connection")
        kept.get_by_role("button", name="Keep this one").click()
        tab.see("takes in and supersedes")

        # Code that is not what it was: named in the inbox, the memory says which file, and is marked.
        tab.tab.get_by_role("link", name="Care").click()
        tab.tab.get_by_role("link", name="stale against code").click()
        tab.tab.get_by_role("link", name="The refund window").click()
        tab.see("service/refunds.py")
        tab.tab.get_by_role("button", name="Outdated").click()
        tab.see("marked outdated")

        # A chat that nobody meant to keep.
        tab.tab.get_by_role("link", name="Care").click()
        tab.tab.get_by_role("link", name="unvouched").click()
        tab.tab.get_by_role("button", name="Forget").click()
        tab.tab.locator("[data-done]").get_by_role("button", name="Undo").wait_for()

        # A tier too high: the numbers have what is critical.
        tab.tab.get_by_role("link", name="Numbers").click()
        tab.tab.get_by_role("link", name="critical").click()
        tab.tab.get_by_role("link", name="Lunch").click()
        tab.tab.get_by_label("Tier", exact=True).select_option("temporary")
        tab.tab.get_by_role("button", name="Save").click()
        tab.see("changed importance tier")

        # A link that is a guess: a search says that the decision was superseded, and by what.
        tab.tab.get_by_role("link", name="Search", exact=True).click()
        tab.tab.locator("#q").fill("docks keep an mqtt connection")
        tab.see("superseded by")
        tab.tab.get_by_role("link", name="Docks keep an MQTT connection").first.click()
        tab.tab.get_by_role("link", name="Links").click()
        tab.tab.locator("tr", has_text="a guess").get_by_role("button", name="Remove").click()
        tab.see("Removed link")
        tab.close()

    cards = {card.title: card for card in harbour.workspace.list(limit=100, max_tokens=100_000).memories}
    assert ("Docks keep an MQTT connection" in cards, "Why docks talk over MQTT" in cards) == (True, False)
    assert harbour.workspace.examine(cards["The refund window"].id).outdated
    assert harbour.workspace.chat_list().memories == ()
    assert cards["Lunch"].tier is Tier.TEMPORARY
    assert all(step.link.evidence != "a guess" for step in harbour.workspace.why(cards["Winter mode"].id).steps)
