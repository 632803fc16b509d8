"""One story from first save to the end, told by a client to a real workspace, in both protocol eras."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from spec_kit_memory import settings
from spec_kit_memory.serve.live import LiveWorkspace
from spec_kit_memory.serve.mcp import build_server
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
    (memory / "old.md").write_text("# Sessions in Redis\n\nSessions are kept in Redis.\n", encoding="utf-8")
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
    assert (await call("memory_health"))["healthy"]
    assert (await call("memory_stats"))["totals"]["memories"] == 2
