"""One story from first save to the end, told by a client to a real workspace, in both protocol eras."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from spec_kit_memory import settings
from spec_kit_memory.serve.mcp.server import build_server
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.workspace import Workspace
from tests.serve.test_mcp import told

SESSION: dict[str, Any] = {
    "sessionSummary": "Replaced server sessions by signed tokens.",
    "title": "Tokens instead of sessions",
    "keyDecisions": [{"decision": "Use JWT", "rationale": "No shared session store", "alternatives": ["Redis"]}],
    "nextSteps": ["Rotate the signing key"],
    "triggerPhrases": ["signed tokens"],
}


@pytest.fixture
def real(tmp_path: Path) -> Iterator[LiveWorkspace]:
    memory = tmp_path / "specs" / "007-auth" / "memory"
    memory.mkdir(parents=True)
    old = memory / "old.md"
    old.write_text("# Sessions in Redis\n\nSessions are kept in Redis.\n", encoding="utf-8")
    # Not of the second in which the next one is saved: then neither would be the newest.
    os.utime(old, (1_700_000_000, 1_700_000_000))
    loaded = settings.load(tmp_path, environ={}, user_file=tmp_path / "nobody", overrides={"semantic.model": "hashing"})
    live = LiveWorkspace(lambda: Workspace(loaded), background=False)
    yield live
    live.close()


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_save_find_judge_link_forget_and_restore(real: LiveWorkspace, mode: str) -> None:
    async def story() -> None:
        with anyio.fail_after(60):
            async with Client(build_server(real), mode=mode) as client:
                await tell(client)

    anyio.run(story)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_folder_that_cannot_be_decided_is_asked_for_and_the_answer_is_where_it_is_saved(
    real: LiveWorkspace, tmp_path: Path, mode: str
) -> None:
    for name in ("008-billing", "009-search"):
        (tmp_path / "specs" / name).mkdir(parents=True)
    asked: list[list[str]] = []

    async def choose(context: Any, params: Any) -> types.ElicitResult:
        names = params.requested_schema["properties"]["spec_folder"]["enum"]
        asked.append(names)
        return types.ElicitResult(action="accept", content={"spec_folder": "009-search"})

    async def story() -> None:
        with anyio.fail_after(60):
            async with Client(build_server(real), mode=mode, elicitation_callback=choose) as client:
                data = {"sessionSummary": "Planted tulips along the fence.", "title": "Tulips"}
                answer = told(await client.call_tool("memory_save", {"context": data}))
                assert "data" in answer, answer
                saved = answer["data"]
                assert saved["specFolder"] == "009-search"
                assert (tmp_path / saved["path"]).is_relative_to(tmp_path / "specs" / "009-search" / "memory")
            async with Client(build_server(real), mode=mode) as silent:
                refused = await silent.call_tool("memory_save", {"context": {"sessionSummary": "Mended a bicycle."}})
                assert refused.is_error
                assert told(refused)["code"] == "E034"
                assert told(refused)["alternatives"]

    anyio.run(story)
    assert len(asked) == 1
    assert "009-search" in asked[0]


def test_a_save_ends_the_turns_without_one(real: LiveWorkspace) -> None:
    async def story() -> None:
        with anyio.fail_after(60):
            async with Client(build_server(real)) as client:

                async def due(turn: int) -> bool:
                    asked = {"prompt": "go on", "sessionId": "s", "turnNumber": turn}
                    answer = told(await client.call_tool("memory_match_triggers", asked))["data"]
                    return "save" in [each["kind"] for each in answer.get("suggestions", [])]

                assert await due(20)
                await client.call_tool(
                    "memory_save", {"context": SESSION | {"sessionId": "s"}, "specFolder": "007-auth"}
                )
                assert not await due(39)
                assert await due(40)

    anyio.run(story)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_new_spec_folder_is_made_when_asked_for_and_the_hint_says_how(
    real: LiveWorkspace, tmp_path: Path, mode: str
) -> None:
    async def story() -> None:
        with anyio.fail_after(60):
            async with Client(build_server(real), mode=mode) as client:
                asked = {"context": SESSION, "specFolder": "010-tokens"}
                refused = told(await client.call_tool("memory_save", asked))
                assert refused["code"] == "E033"
                assert "create: true" in refused["hint"]
                assert "--" not in refused["hint"]
                saved = told(await client.call_tool("memory_save", {**asked, "create": True}))["data"]
                assert saved["specFolder"] == "010-tokens"
                assert (tmp_path / saved["path"]).is_relative_to(tmp_path / "specs" / "010-tokens" / "memory")
                undecided = told(await client.call_tool("memory_save", {"context": {"sessionSummary": "Ate a pear."}}))
                assert undecided["code"] == "E034"
                assert "create: true" in undecided["hint"]
                assert "--" not in undecided["hint"]

    anyio.run(story)


async def tell(client: Client) -> None:
    async def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, (tool, result.content)
        data: dict[str, Any] = told(result)["data"]
        return data

    assert (await call("memory_index_scan"))["new"] == 1
    saved = await call("memory_save", context=SESSION, specFolder="007-auth")
    new, old = saved["id"], (await call("memory_list", limit=100))["memories"]
    old = next(row["id"] for row in old if row["id"] != new)

    found = await call("memory_search", query="why signed tokens", sessionId="s1")
    assert found["results"][0]["id"] == new
    place = found["results"][0]
    lines = await call("memory_get", path=place["path"], lines=place["lines"])
    assert lines["text"].strip() == place["text"].strip()

    matched = await call("memory_match_triggers", prompt="Where do we check signed tokens?")
    assert matched["matches"][0]["id"] == new
    loaded = await call("memory_load", memoryId=new, anchorId="next-steps")
    assert "Rotate the signing key" in loaded["text"]
    context = await call("memory_context", specFolder="007-auth", prompt="go on with tokens")
    assert "Rotate the signing key" in context["text"]

    assert (await call("memory_validate", id=new, wasUseful=True))["confidence"] == 0.6
    link = await call("memory_causal_link", sourceId=new, targetId=old, relation="supersedes", evidence="decided")
    why = await call("memory_drift_why", memoryId=new)
    assert old in [row["id"] for row in why["memories"]]
    await call("memory_causal_unlink", linkId=link["link"]["id"])

    await call("checkpoint_create", name="before", description="all is well")
    assert [row["name"] for row in (await call("checkpoint_list"))["checkpoints"]] == ["before"]
    changed = await call("memory_update", id=old, title="Sessions in Redis, once", importanceTier="temporary")
    assert changed["memory"]["title"] == "Sessions in Redis, once"
    assert (await call("memory_delete", id=old))["deleted"] == [old]
    assert (await call("memory_list"))["total"] == 1
    history = await call("memory_history", id=old)
    assert history["entries"][0]["event"] == "DELETE"
    restored = await call("checkpoint_restore", name="before")
    assert restored["restored"] == 1
    assert (await call("memory_list"))["total"] == 2
    await call("checkpoint_delete", name="before")
    assert (await call("memory_history"))["ledger"]["ok"]
    health = await call("memory_health")  # nobody embeds in the background
    assert [problem["check"] for problem in health["problems"]] == ["pending vectors"], (
        "nobody embeds in the background"
    )
    assert (await call("memory_stats"))["totals"]["memories"] == 2
