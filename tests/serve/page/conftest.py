"""A workspace with something to look at, and the page over it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.serve.page.access import PageAccess
from spec_kit_memory.serve.page.routes import page_app
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace, utc_now

if TYPE_CHECKING:
    from tests.serve.page.browser import Visitor

NAMES = ("127.0.0.1", "localhost", "[::1]")
CSRF = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass
class Page:
    """A workspace and a browser without scripts that was let in."""

    root: Path
    workspace: Workspace
    access: PageAccess
    client: TestClient
    written: list[str] = field(default_factory=list)

    def get(self, address: str, **more: Any) -> Any:
        return self.client.get(address, **more)

    def text(self, address: str) -> str:
        answer = self.get(address)
        assert answer.status_code == 200, f"{address}: {answer.status_code} {answer.text[:500]}"
        return str(answer.text)

    def csrf(self) -> str:
        match = CSRF.search(self.text("/folders"))
        assert match
        return match[1]

    def post(self, address: str, *, after: str = "/search", **form: str) -> Any:
        """A form that is sent, and the page that it leads to."""
        return self.client.post(address, data={"csrf": self.csrf(), "next": after, **form})


def written(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    old = target.stat().st_mtime - 60
    os.utime(target, (old, old))


def made(root: Path, *, scope: Scope | None = None, now: Callable[[], datetime] = utc_now) -> Iterator[Page]:
    workspace = Workspace(Settings(root=root, semantic=Semantic(model="hashing")), now=now)
    workspace.index()
    caller = workspace.caller if scope is None else replace(workspace.caller, scope=scope)
    live = LiveWorkspace(lambda: workspace.for_caller(caller), background=False)
    access = PageAccess(names=NAMES, port=8765)
    client = TestClient(page_app(live, access), base_url="http://127.0.0.1:8765")
    client.get(f"/?token={access.invite()}")
    yield Page(root, workspace, access, client)
    client.close()
    workspace.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = Path(os.path.realpath(tmp_path / "harbour"))
    (place / ".spec-kit-memory").mkdir(parents=True)
    written(place, "specs/001-docks/spec.md", "# Docks\n\nDocks open when told.\n")
    written(place, "specs/001-docks/plan.md", "# Plan for the docks\n\nFirst the broker, then the locks.\n")
    written(
        place,
        "specs/001-docks/memory/mqtt.md",
        "---\ntitle: Docks keep an MQTT connection\ntriggers: [mqtt, broker]\nimportance_tier: important\n---\n"
        "# Docks keep an MQTT connection\n\n<!-- ANCHOR:summary -->\nControllers hold one connection.\n"
        "<!-- /ANCHOR:summary -->\n\n## Why\n\nPolling ate the data plan.\n",
    )
    written(place, "memory/van.md", "# The van\n\nThe van charges forty bicycles at night.\n")
    written(place, "constitutional/rule.md", "# Never strand a rider\n\nThe rider gets the benefit of the doubt.\n")
    return place


@pytest.fixture
def page(root: Path) -> Iterator[Page]:
    yield from made(root)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from tests.serve.page.browser import opened  # which needs `Page`

    with opened() as browser:
        yield browser


@pytest.fixture
def tab(browser: Any, page: Page) -> Iterator[Visitor]:
    from tests.serve.page.browser import Visitor, served

    with served(page) as address:
        visitor = Visitor(browser, page, address)
        yield visitor
        visitor.close()
