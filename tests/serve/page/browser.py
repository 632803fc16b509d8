"""A real Chromium on the page, which fails a test for any console error, foreign request or broken policy."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from tests.serve.page.conftest import NAMES, Page

SECONDS = 120.0  # a deadline, never a measure
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => {
  console.error("policy: " + event.violatedDirective + " " + event.blockedURI);
});
"""


def chromium() -> str:
    """The system's own browser; without it the tests are skipped, and say so."""
    named = os.environ.get("SPEC_KIT_MEMORY_TEST_CHROMIUM")
    result = named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not result:
        pytest.skip("there is no Chromium here (Debian: apt install chromium)")
    return result


@contextmanager
def opened() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    root = hasattr(os, "geteuid") and os.geteuid() == 0
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=[*FLAGS, *(["--no-sandbox"] if root else [])], timeout=SECONDS * 2000
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def served(page: Page) -> Iterator[str]:
    """The page's application behind a real socket; its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    page.access.port = port
    server = uvicorn.Server(uvicorn.Config(page.client.app, lifespan="off", log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        listening.close()


class Visitor:
    """One tab, its complaints, and where it is."""

    def __init__(self, browser: Any, page: Page, address: str, **how: Any) -> None:
        assert "127.0.0.1" in NAMES
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 860}, "reduced_motion": "reduce", **how}
        )
        self.context.set_default_timeout(SECONDS * 1000)
        self.context.add_init_script(REPORT_VIOLATIONS)
        self.tab = self.context.new_page()
        self.tab.on("console", self._heard)
        self.tab.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        self.tab.on("request", self._asked)
        self.tab.goto(f"{address}/?token={page.access.invite()}")

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith(f"{self.address}/"):
            self.complaints.append(f"foreign: {request.url}")

    def go(self, path: str) -> Any:
        """Go there, after the page that a key or a click is still leading to."""
        from playwright.sync_api import Error

        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return self.tab.goto(f"{self.address}{path}")
            except Error as error:
                if "interrupted by another navigation" not in error.message or time.monotonic() > deadline:
                    raise
                self.tab.wait_for_load_state()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tab.wait_for_load_state()  # a page that a key led to listens to the next one when it is there
            self.tab.keyboard.press(key)

    def see(self, text: str) -> None:
        """Wait until it is there to be seen."""
        self.tab.get_by_text(text).first.wait_for(state="visible")

    def until(self, true: Any) -> None:
        deadline = time.monotonic() + SECONDS
        while not true():
            assert time.monotonic() < deadline, f"never came true on {self.tab.url}"
            self.tab.wait_for_timeout(30)

    def close(self) -> None:
        self.context.close()
        assert self.complaints == []
