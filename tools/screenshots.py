"""How does the page look? Screenshots of the example workspace for the README and the guide, light and dark.

    python -m tools.screenshots [FOLDER]

Needs Chromium (Debian: apt install chromium). A copy of the example gets a near-duplicate, two months of made-up use
and one change, and is served by `skm ui`; nothing is written outside the folder of the screenshots (docs/images).
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from spec_kit_memory import open_workspace
from spec_kit_memory.files import activity

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "harbour-bikes"
PICTURES = ROOT / "docs" / "images"
WINDOW = {"width": 1000, "height": 600}
# Without subpixel anti-aliasing, screenshots are smaller.
FLAGS = (
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-lcd-text",
    "--font-render-hinting=none",
)
NEWEST = "specs/002-dock-link/memory/14-10-25_14-05__mqtt-instead-of-polling.md"
DAYS = 55


def prepare(root: Path) -> dict[str, str]:
    """Copy the example and add data to show; returns the address of each screenshot's page."""
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns(".spec-kit-memory"))
    (root / ".spec-kit-memory").mkdir()
    text = (root / NEWEST).read_text(encoding="utf-8")
    copy = text.replace("Docks keep an MQTT connection", "Docks hold an MQTT connection open")
    (root / NEWEST).with_name("mqtt-again.md").write_text(copy + "\nSeen again at the yard.\n", encoding="utf-8")
    with open_workspace(root) as workspace:
        workspace.index()
        cards = {card.title: card.id for card in workspace.list(limit=100, max_tokens=100_000).memories}
        chance, now = random.Random(7), datetime.now(UTC)
        rows = []
        for day in (now.date() - timedelta(days=back) for back in range(DAYS)):
            busy = 1 if day.weekday() >= 5 else 4
            used_ids = chance.choices(list(cards.values()), k=busy * 2)
            rows += [activity.DayTally(day, activity.USE, str(id_), chance.randint(1, 3)) for id_ in used_ids]
            for verb, tokens in (("search", 1_900), ("context", 1_100), ("hook prompt", 350), ("load", 700)):
                count = chance.randint(1, 4) * busy
                rows.append(
                    activity.DayTally(day, activity.SENT, verb, count, count * chance.randint(tokens // 2, tokens))
                )
        activity.add(workspace.settings, rows, now=now)
        for _ in range(40):
            workspace.triggers("why is the dock battery low again")
        workspace.update(cards["Docks keep an MQTT connection"], add_trigger_phrases=["dock broker"])
        memory = cards["Docks keep an MQTT connection"]
    return {
        "search": "/search?q=how+do+docks+talk+to+the+server",
        "memory": f"/memory/{memory}",
        "care": "/care",
        "numbers": "/numbers",
    }


@contextmanager
def served(root: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "spec_kit_memory", "ui", "--no-browser", "--workspace", str(root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(30)


def main(folder: Path) -> int:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        print("There is no Chromium here (Debian: apt install chromium).")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with tempfile.TemporaryDirectory(prefix="skm-pictures-") as place, sync_playwright() as playwright:
        pages = prepare(Path(place) / "harbour-bikes")
        flags = [*FLAGS, *(["--no-sandbox"] if root else [])]
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        with served(Path(place) / "harbour-bikes") as address:
            tab = browser.new_context(viewport=WINDOW).new_page()  # type: ignore[arg-type]
            tab.goto(address)
            for name, path in pages.items():
                for scheme in ("light", "dark"):
                    tab.emulate_media(color_scheme=scheme)
                    tab.goto(address.split("/?")[0] + path)
                    tab.wait_for_load_state("networkidle")
                    picture = folder / f"page-{name}-{scheme}.png"
                    tab.screenshot(path=picture)
                    print(f"{picture.name}: {picture.stat().st_size:,} bytes")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES))
