"""Shortcuts for who looks after many memories: several decided at once, and a palette that goes anywhere by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.serve.page import views
from tests.serve.page.browser import Visitor
from tests.serve.page.conftest import Page, written
from tests.serve.page.test_browser import duplicates


def import_chats(page: Page, folder: Path, count: int) -> None:
    for number in range(count):
        chat = folder / f"chat-{number}.jsonl"
        asked = {"role": "user", "content": f"topic {number} of the landlord"}
        turns = [asked, {"role": "assistant", "content": "Yes."}]
        chat.write_text("".join(json.dumps(turn) + "\n" for turn in turns), encoding="utf-8")
        page.workspace.chat_import([chat])


def chats(page: Page) -> int:
    return len(page.workspace.chat_list().memories)


def test_several_findings_are_decided_at_once_and_each_keeps_its_own_undo(
    tab: Visitor, page: Page, tmp_path: Path
) -> None:
    import_chats(page, tmp_path, 4)
    tab.go("/care?kind=unvouched")
    tab.press("j", "x", "j", "x")
    tab.see("2 of 4 chosen")
    tab.press("f")
    tab.until(lambda: chats(page) == 2)
    tab.until(lambda: tab.tab.locator("[data-done]").count() == 2)
    tab.see("Choose all 2")
    tab.tab.locator("[data-done]").first.get_by_role("button", name="Undo").click()
    tab.until(lambda: chats(page) == 3)


def test_all_findings_are_chosen_and_vouched_for_by_mouse(tab: Visitor, page: Page, tmp_path: Path) -> None:
    import_chats(page, tmp_path, 3)
    tab.go("/care?kind=unvouched")
    tab.tab.get_by_label("Choose all 3").check()
    tab.tab.locator("[data-together]").get_by_role("button", name="Vouch for it").click()
    tab.until(lambda: all(card.trusted for card in page.workspace.chat_list().memories))
    assert chats(page) == 3


def test_memories_are_read_judged_and_taken_back_where_they_are_listed(tab: Visitor, page: Page) -> None:
    tab.go("/search?q=mqtt+connection")
    tab.press("Escape", "j", "Space")
    tab.tab.locator(".current .peek article", has_text="Polling ate the data plan.").wait_for()
    first, second = (int(row.get_attribute("data-item")) for row in tab.tab.locator("[data-item]").all()[:2])
    tab.press("x", "j", "x")
    tab.see("2 of ")
    tab.press("o")
    tab.until(lambda: page.workspace.examine(first).outdated and page.workspace.examine(second).outdated)
    tab.until(lambda: tab.tab.locator("[data-done]").count() == 2)
    assert page.workspace.examine(first).memory.access_count == 0  # who looks does not use
    tab.press("z")
    tab.until(lambda: page.workspace.examine(first).outdated != page.workspace.examine(second).outdated)


def test_a_row_of_a_list_is_judged_by_mouse_and_offers_its_undo(tab: Visitor, page: Page) -> None:
    tab.go("/search")
    row = tab.tab.locator("[data-item]", has_text="The van")
    id_ = int(row.get_attribute("data-item"))
    row.get_by_label("Choose The van").check()
    row.get_by_role("button", name="Forget").click()
    tab.tab.locator("[data-done]").get_by_role("button", name="Undo").click()
    tab.until(lambda: any(card.id == id_ for card in page.workspace.list(limit=50).memories))


def test_a_memory_is_named_by_words_where_its_number_is_asked_for(tab: Visitor, page: Page) -> None:
    van = next(card.id for card in page.workspace.list(limit=50).memories if card.title == "The van")
    tab.go(f"/memory/{van}/links")
    tab.tab.get_by_label("memory number").fill("mqtt connection")
    tab.tab.locator("datalist option", has_text="Docks keep an MQTT connection").wait_for(state="attached")
    docks = tab.tab.locator("datalist option", has_text="Docks keep an MQTT").get_attribute("value")
    tab.go(f"/memory/{van}/similar")
    tab.tab.get_by_label("memory number").fill(docks)
    tab.tab.get_by_role("button", name="Compare").click()
    tab.see("What only one of the two says is")


def test_what_not_all_of_the_chosen_can_do_is_not_offered(tab: Visitor, page: Page, tmp_path: Path) -> None:
    import_chats(page, tmp_path, 1)
    written(page.root, "memory/broken.md", "# Broken\n\n<!-- ANCHOR:a -->\nnever closed\n")
    (page.root / "memory" / "latin.md").write_bytes(b"# Caf\xe9 \xff\xfe\x00\x01\n")
    page.workspace.index()
    tab.go("/care")
    assert tab.tab.locator("[data-item]", has_text="Could not read").count() == 1
    tab.tab.locator("[data-tick-all]").check()
    offered = tab.tab.locator("[data-together] span button")
    assert [text.split()[0] for text in offered.all_inner_texts()] == ["Leave"]


def test_what_is_found_meanwhile_is_counted_and_takes_no_undo_away(
    tab: Visitor, page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inbox goes on comparing in the background while one decides about what it has."""
    monkeypatch.setattr(views, "COMPARING_SECONDS", 0.0)
    duplicates(page)
    import_chats(page, tmp_path, 3)
    waiting: list[Any] = []
    tab.tab.route("**/care?*on=1*", lambda route: waiting.append(route), times=1)
    tab.go("/care")
    assert tab.tab.locator("#kind-all .num").inner_text() == "3"
    tab.until(lambda: waiting)
    tab.press("j", "f")
    tab.until(lambda: tab.tab.locator("[data-done]").count() == 1)
    tab.press("j", "x")
    tab.see("1 of 2 chosen")
    waiting[0].continue_()
    tab.see("say nearly the same")
    assert tab.tab.locator("#kind-all .num").inner_text() == "3"
    assert tab.tab.locator("#kind-duplicates .num").inner_text() == "1"
    tab.see("1 of 3 chosen")
    assert "landlord" in tab.tab.locator("[data-item].current").inner_text()
    assert tab.tab.locator("[data-done]").count() == 1
    tab.tab.locator("[data-done]").get_by_role("button", name="Undo").click()
    tab.until(lambda: chats(page) == 3)


def test_the_palette_leads_to_pages_and_memories(tab: Visitor, page: Page) -> None:
    tab.go("/time")
    tab.press("Control+k")
    tab.tab.keyboard.type("numb")
    tab.press("Enter")
    tab.until(lambda: tab.tab.url.endswith("/numbers"))
    tab.press("Control+k")
    tab.tab.keyboard.type("van charges bicycles")
    tab.tab.get_by_role("option", name="The van").wait_for()
    assert tab.tab.get_by_role("option").first.get_attribute("aria-selected") == "true"
    tab.tab.get_by_role("option", name="The van").click()
    tab.until(lambda: "/memory/" in tab.tab.url)
    tab.press("Control+k")
    tab.tab.keyboard.type("outdated")
    tab.press("Enter")
    tab.see("marked outdated")


def test_the_palette_shows_titles_as_text_only(tab: Visitor, page: Page) -> None:
    written(page.root, "memory/evil.md", "# <img src=x onerror=alert(1)> zebra\n\nzebra zebra\n")
    page.workspace.index()
    tab.go("/care")
    tab.press("Control+k")
    tab.tab.keyboard.type("zebra")
    tab.tab.get_by_role("option", name="<img src=x onerror=alert(1)> zebra").wait_for()
    assert tab.tab.locator("#palette img").count() == 0
    tab.press("Escape")
    assert tab.tab.locator("#palette[open]").count() == 0
