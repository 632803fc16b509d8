"""Rules reach a model once: by its session's id, else once for each connection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from starlette.testclient import TestClient

from spec_kit_memory.serve.http.app import application
from spec_kit_memory.serve.mcp.server import build_server
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
from tests.serve.test_http import HEADERS, INITIALIZE

DEADLINE_SECONDS = 60


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveWorkspace]:
    root = tmp_path.resolve()
    for name, text in (
        ("constitutional/house.md", "# House rules\n\nNever commit to main.\n"),
        ("memory/tokens.md", "# Tokens\n\nAccess tokens live fifteen minutes.\n"),
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    workspace = Workspace(Settings(root=root, semantic=Semantic(model="hashing"), watch="off"))
    workspace.index()
    yield LiveWorkspace(lambda: workspace, background=False)
    workspace.close()


async def rules(client: Client, tool: str = "memory_search", **arguments: Any) -> bool:
    """Is the rule in the answer?"""
    given = {"query": "access tokens"} if tool == "memory_search" else {"prompt": "access tokens"}
    answer = await client.call_tool(tool, {**given, **arguments})
    return "Never commit to main" in json.dumps(answer.structured_content)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_connection_without_a_session_is_told_once_and_the_next_one_again(live: LiveWorkspace, mode: str) -> None:
    async def talk() -> None:
        server = build_server(live)
        for _ in range(2):
            async with Client(server, mode=mode) as client:
                assert await rules(client)
                assert not await rules(client)
                assert not await rules(client, limit=3)
                assert not await rules(client, "memory_context")
                assert await rules(client, dedup=False)

    anyio.run(_bounded, talk)


def test_a_session_is_told_once_whatever_connection_and_tool(live: LiveWorkspace) -> None:
    async def talk() -> None:
        async with Client(build_server(live)) as client:
            assert await rules(client, "memory_context", sessionId="s")
            assert not await rules(client, sessionId="s")
            assert await rules(client, sessionId="t")
            assert not await rules(client, "memory_context", sessionId="t")
        async with Client(build_server(live)) as client:
            assert not await rules(client, sessionId="s")
            assert await rules(client)

    anyio.run(_bounded, talk)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_search", {"query": "never commit to main"}),
        ("memory_search", {"query": "never commit to main", "groupBy": "passage"}),
        ("memory_search", {"query": "never commit to main", "includeContent": True}),
        ("memory_load", {"memoryId": 1}),
        ("memory_get", {"path": "constitutional/house.md"}),
    ],
)
def test_a_connection_that_found_or_loaded_a_rule_is_not_told_it_again(
    live: LiveWorkspace, tool: str, arguments: dict[str, Any]
) -> None:
    async def talk() -> None:
        server = build_server(live)
        for _ in range(2):  # the second answer to the question comes from the cache
            async with Client(server) as client:
                answer = await client.call_tool(tool, arguments)
                assert "Never commit to main" in json.dumps(answer.structured_content)
                assert not await rules(client)
                assert not await rules(client, "memory_context")

    anyio.run(_bounded, talk)


def test_a_connection_that_read_a_few_lines_of_a_rule_is_told_it(live: LiveWorkspace) -> None:
    async def talk() -> None:
        async with Client(build_server(live)) as client:
            await client.call_tool("memory_get", {"path": "constitutional/house.md", "lines": "1-2"})
            assert await rules(client)

    anyio.run(_bounded, talk)


def test_over_http_every_session_is_told_and_clients_without_one_each_time(live: LiveWorkspace) -> None:
    def asked(client: TestClient, **headers: str) -> bool:
        call = {"name": "memory_search", "arguments": {"query": "access tokens"}}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        answer = client.post("/mcp", headers={**HEADERS, "host": "127.0.0.1:8765", **headers}, json=body)
        assert answer.status_code == 200, answer.text
        return "Never commit to main" in answer.text

    with TestClient(application(live, host="127.0.0.1", token=None)) as client:
        for _ in range(2):
            begun = client.post("/mcp", headers={**HEADERS, "host": "127.0.0.1:8765"}, json=INITIALIZE)
            session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
            assert asked(client, **session)
            assert not asked(client, **session)


async def _bounded(talk: Any) -> None:
    with anyio.fail_after(DEADLINE_SECONDS):
        await talk()
