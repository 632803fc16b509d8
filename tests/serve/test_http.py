"""The server over HTTP: who is let in, and that it speaks the same protocol."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from starlette.testclient import TestClient

from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.serve.http.app import _names, application, is_loopback, read_token
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace

TOKEN = "correct-horse-battery-staple"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def posted(live: LiveWorkspace, *, token: str | None = None, name: str = "127.0.0.1:8765", **headers: str) -> Any:
    app = application(live, host="127.0.0.1", token=token)
    with TestClient(app) as client:
        sent = {**HEADERS, "host": name, **headers}
        return client.post("/mcp", headers=sent, content=json.dumps(INITIALIZE))


def test_loopback_without_a_token_is_served(live: LiveWorkspace) -> None:
    answer = posted(live)
    assert answer.status_code == 200
    assert "spec_kit_memory" in answer.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8765", "localhost.evil.example"])
def test_another_host_name_is_refused(live: LiveWorkspace, host: str) -> None:
    assert posted(live, name=host).status_code == 421


@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost.evil.example", "null"])
def test_another_origin_is_refused(live: LiveWorkspace, origin: str) -> None:
    assert posted(live, origin=origin).status_code == 403


def test_a_page_of_this_machine_is_let_in(live: LiveWorkspace) -> None:
    assert posted(live, origin="http://localhost:3000").status_code == 200


@pytest.mark.parametrize(
    "authorization", [None, "Bearer wrong", "Bearer ", "Basic " + TOKEN, TOKEN, f"Bearer {TOKEN}x"]
)
def test_without_the_token_nobody_is_let_in(live: LiveWorkspace, authorization: str | None) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    answer = posted(live, token=TOKEN, **headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text


def test_with_the_token_one_is_let_in(live: LiveWorkspace) -> None:
    assert posted(live, token=TOKEN, authorization=f"Bearer {TOKEN}").status_code == 200


def test_beyond_loopback_a_token_is_needed(tmp_path: Path) -> None:
    with pytest.raises(SpecKitMemoryError, match="bearer token") as caught:
        read_token("0.0.0.0", token_file=None, environ={})  # noqa: S104
    assert caught.value.code == "E031"
    assert read_token("127.0.0.1", token_file=None, environ={}) is None
    assert read_token("::1", token_file=None, environ={"SPEC_KIT_MEMORY_TOKEN": TOKEN}) == TOKEN
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    assert read_token("10.0.0.1", token_file=str(file), environ={}) == TOKEN


@pytest.mark.parametrize("token", ["short", "with space in the middle", "ümlaut-ümlaut-ümlaut"])
def test_a_weak_token_is_refused(token: str) -> None:
    with pytest.raises(SpecKitMemoryError) as caught:
        read_token("127.0.0.1", token_file=None, environ={"SPEC_KIT_MEMORY_TOKEN": token})
    assert caught.value.code == "E030"


def test_an_empty_or_missing_token_file_is_refused_even_on_loopback(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name, code in (("empty", "E031"), ("missing", "E010")):
        with pytest.raises(SpecKitMemoryError) as caught:
            read_token("127.0.0.1", token_file=str(tmp_path / name), environ={})
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],  # noqa: S104
)
def test_what_loopback_is(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
    assert is_loopback("localhost.example") is False


def test_a_server_that_others_reach_answers_to_its_own_names() -> None:
    assert "192.0.2.7" in _names("192.0.2.7", [])
    assert "[2001:db8::1]" in _names("2001:db8::1", [])
    assert "memory.example" in _names("0.0.0.0", ["memory.example"])  # noqa: S104


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "habits.md").write_text("# Habits\n\nWe deploy on Tuesdays.\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPEC_KIT_MEMORY_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "spec_kit_memory", "serve", "--http", "--port", "0", "--workspace", str(tmp_path)],
        stderr=subprocess.PIPE,
        env=kept
        | {
            "SPEC_KIT_MEMORY_USER_CONFIG": str(tmp_path / "none"),
            "SPEC_KIT_MEMORY_SEMANTIC_MODEL": "hashing",
        },
    )
    assert process.stderr is not None
    found = re.search(rb"http://\S+", process.stderr.readline())
    assert found
    yield found.group().decode(), process
    process.kill()
    process.communicate()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_story_over_http_with_two_clients_and_a_clean_end(
    served: tuple[str, subprocess.Popen[bytes]], mode: str
) -> None:
    address, process = served

    async def story() -> None:
        with anyio.fail_after(60):
            async with Client(address, mode=mode) as one, Client(address, mode=mode) as two:
                await one.call_tool("memory_index_scan", {})
                found = await two.call_tool("memory_search", {"query": "deploy Tuesdays"})
                assert found.structured_content["data"]["results"][0]["title"] == "Habits"

    anyio.run(story)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) in (0, -signal.SIGTERM)
