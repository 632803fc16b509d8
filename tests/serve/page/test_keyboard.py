"""Every page and every change by keyboard alone: nothing here touches the mouse."""

from __future__ import annotations

import pytest

from tests.serve.page.browser import Visitor
from tests.serve.page.conftest import Page, written
from tests.serve.page.test_pages import id_of

MOST_STOPS = 80


def tab_to(tab: Visitor, name: str) -> None:
    """Press Tab until what has this name has the focus, and see that the focus is shown."""
    for _ in range(MOST_STOPS):
        tab.press("Tab")
        message = tab.tab.evaluate(
            "(() => { const one = document.activeElement; return [one.getAttribute('aria-label') ?? '',"
            " one.labels?.[0]?.innerText ?? '', one.innerText ?? '', getComputedStyle(one).outlineStyle] })()"
        )
        if any(" ".join(text.split()).startswith(name) for text in message[:3]):
            assert message[3] != "none", f"the focus on {name} is not shown"
            return
    raise AssertionError(f"{name} is not reached by Tab on {tab.tab.url}")


def test_a_link_is_made_and_removed_by_keyboard(tab: Visitor, page: Page) -> None:
    van, docks = id_of(page, "The van"), id_of(page, "Docks keep an MQTT connection")
    tab.go(f"/memory/{van}/links")
    tab_to(tab, "memory number")
    tab.tab.keyboard.type(str(docks))
    tab_to(tab, "because")
    tab.tab.keyboard.type("it brings them")
    tab.press("Enter")
    tab.until(lambda: len(page.workspace.why(van).steps) == 1)
    tab.see("it brings them")
    tab.go(f"/memory/{van}/links")
    tab_to(tab, "Remove")
    tab.press("Enter")
    tab.see("It stands alone.")
    tab.press("z")
    tab.until(lambda: len(page.workspace.why(van).steps) == 1)


def test_versions_are_compared_by_keyboard(tab: Visitor, page: Page) -> None:
    id_ = id_of(page, "The van")
    for count in ("fifty", "sixty"):
        written(page.root, "memory/van.md", f"# The van\n\nThe van charges {count} bicycles at night.\n")
        page.workspace.index(force=True)
    tab.go(f"/memory/{id_}/versions")
    tab_to(tab, "from version")
    tab.press("ArrowDown")
    tab.press("c")
    tab.until(lambda: "older=1" in tab.tab.url)
    assert "forty" in tab.tab.locator("tr.removed").inner_text()


def test_a_checkpoint_is_made_taken_back_made_again_and_restored_by_keyboard(tab: Visitor, page: Page) -> None:
    id_ = id_of(page, "The van")

    def names() -> list[str]:
        return [row["name"] for row in page.workspace.checkpoint_list().checkpoints]

    for again in (False, True):
        tab.go("/time")
        tab_to(tab, "New checkpoint")
        tab.tab.keyboard.type("before")
        tab.press("Enter")
        tab.until(lambda: "before" in names())
        tab.see("checkpoint before:")
        if not again:
            tab.press("z")
            tab.until(lambda: "before" not in names())
    page.workspace.update(id_, title="The lorry")
    tab.go("/time")
    tab_to(tab, "before")
    tab.press("Enter")
    tab.see("The lorry")
    for box in ("also take back", "write files back", "yes, restore it"):
        tab_to(tab, box)
        tab.press("Space")
    tab_to(tab, "Restore")
    tab.press("Enter")
    tab.until(lambda: page.workspace.examine(id_).memory.title == "The van")


def test_history_is_walked_and_an_earlier_day_is_asked_by_keyboard(tab: Visitor, page: Page) -> None:
    page.workspace.checkpoint_create("before")
    page.workspace.update(id_of(page, "The van"), title="The lorry")
    tab.go("/time")
    tab.press("j", "j", "k", "Enter")
    tab.until(lambda: tab.tab.url.endswith("/versions"))
    tab.go("/time")
    tab_to(tab, "Ask as of an earlier day")
    tab.tab.keyboard.type("van charges bicycles")
    tab_to(tab, "day or checkpoint")
    tab.tab.keyboard.type("before")
    tab.press("Enter")
    tab.until(lambda: "as_of=before" in tab.tab.url)
    tab.see("The van")


def test_two_memories_are_joined_and_parted_by_keyboard(tab: Visitor, page: Page) -> None:
    van, docks = id_of(page, "The van"), id_of(page, "Docks keep an MQTT connection")
    tab.go(f"/memory/{van}/similar?with={docks}")
    tab_to(tab, "Keep this one")
    tab.press("Enter")
    tab.see("takes in and supersedes")
    assert len(page.workspace.list(limit=50).memories) == 4
    tab.press("z")
    tab.until(lambda: len(page.workspace.list(limit=50).memories) == 5)


@pytest.mark.parametrize("key", ["u", "n", "o", "f"])
def test_every_judgement_is_made_and_taken_back_by_its_key(tab: Visitor, page: Page, key: str) -> None:
    id_ = id_of(page, "The van")

    def state() -> tuple[object, ...]:
        if id_ not in [card.id for card in page.workspace.list(limit=50).memories]:
            return ()
        shown = page.workspace.examine(id_)
        return shown.memory.confidence, shown.outdated

    before = state()
    tab.go(f"/memory/{id_}")
    tab.press(key)
    tab.until(lambda: state() != before)
    tab.tab.locator(".notice .undo, .undo").first.wait_for()
    tab.press("z")
    tab.until(lambda: state() == before)


def test_an_agents_view_and_a_filter_are_reached_by_keyboard(tab: Visitor) -> None:
    tab.go("/agent")
    tab.tab.locator("#q:focus").wait_for()
    tab.tab.keyboard.type("the mqtt broker is down")
    tab.press("Enter")
    tab.see("Brought up by this prompt")
    tab.go("/search?q=docks")
    tab_to(tab, "● important")
    tab.press("Enter")
    tab.until(lambda: "tier=important" in tab.tab.url)


def test_a_checkpoint_is_deleted_by_keyboard_only_with_the_tick(tab: Visitor, page: Page) -> None:
    page.workspace.checkpoint_create("before")
    for ticked in (False, True):
        tab.go("/time/checkpoint/before")
        if ticked:
            tab_to(tab, "yes, delete this checkpoint")
            tab.press("Space")
        tab_to(tab, "Delete")
        tab.press("Enter")
        tab.tab.locator(".notice").wait_for()
        assert bool(page.workspace.checkpoint_list().checkpoints) != ticked
    assert tab.tab.url.endswith("/time")


def test_the_index_is_repaired_by_keyboard(tab: Visitor, page: Page) -> None:
    written(page.root, "memory/late.md", "# A late note\n\nThe crane is red.\n")
    tab.go("/numbers/health")
    assert not page.workspace.health().healthy
    tab_to(tab, "Repair")
    tab.press("Enter")
    tab.tab.locator(".notice").wait_for()
    assert page.workspace.health().healthy
    assert id_of(page, "A late note")


def test_a_phrase_is_taken_and_given_back_by_keyboard(tab: Visitor, page: Page) -> None:
    id_ = id_of(page, "Docks keep an MQTT connection")
    for _ in range(40):
        page.workspace.triggers("is the mqtt broker there")
    tab.go("/care?kind=trigger")
    tab.press("j", "p")
    tab.tab.locator("[data-done]").wait_for()
    (left,) = page.workspace.examine(id_).memory.triggers
    assert left in ("mqtt", "broker")
    tab.press("z")
    tab.until(lambda: sorted(page.workspace.examine(id_).memory.triggers) == ["broker", "mqtt"])
