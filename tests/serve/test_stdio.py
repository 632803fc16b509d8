"""The server as a real process: what it writes, how it starts, and how it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    memory = tmp_path / "project" / "specs" / "007-auth" / "memory"
    memory.mkdir(parents=True)
    (memory / "decision.md").write_text("# Token decision\n\nWe chose JWT with refresh tokens.\n", encoding="utf-8")
    return tmp_path / "project"


def environment(root: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPEC_KIT_MEMORY_")}
    return kept | {
        "SPEC_KIT_MEMORY_WORKSPACE": str(root),
        "SPEC_KIT_MEMORY_USER_CONFIG": str(root / "no-such-file"),
        "SPEC_KIT_MEMORY_SEMANTIC_MODEL": "hashing",
    }


def started(root: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "spec_kit_memory", "serve", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(root),
        cwd=root,
    )


def say(process: subprocess.Popen[bytes], *messages: dict[str, Any]) -> None:
    assert process.stdin is not None
    for message in messages:
        process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def hear(stream: IO[bytes] | None) -> dict[str, Any]:
    assert stream is not None
    heard: dict[str, Any] = json.loads(stream.readline())
    return heard


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_story_over_standard_input_and_output(root: Path, mode: str) -> None:
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "spec_kit_memory", "serve"], env=environment(root), cwd=root
    )

    async def story() -> None:
        with anyio.fail_after(60):
            async with Client(parameters, mode=mode) as client:
                assert len((await client.list_tools()).tools) > 20
                await client.call_tool("memory_index_scan", {})
                result = await client.call_tool("memory_search", {"query": "JWT refresh"})
                assert not result.is_error, result
                assert result.structured_content["data"]["results"][0]["title"] == "Token decision"
                missing = await client.call_tool("memory_load", {"memoryId": 999})
                assert missing.is_error
                assert missing.structured_content["code"] == "E080"

    anyio.run(story)


def test_standard_output_carries_the_protocol_only_and_the_end_of_input_ends_the_process(root: Path) -> None:
    process = started(root)
    say(process, INITIALIZE, INITIALIZED, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
    answers = [hear(process.stdout), hear(process.stdout)]
    assert [answer["id"] for answer in answers] == [1, 2]
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(20) == 0
    assert process.stdout is not None
    rest = process.stdout.read()
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send")
def test_a_request_to_end_is_followed_though_input_stays_open(root: Path) -> None:
    process = started(root)
    say(process, INITIALIZE)
    hear(process.stdout)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    process.communicate()


@pytest.mark.skipif(sys.platform == "win32", reason="the death of a parent is seen by its process id")
def test_a_server_whose_parent_died_ends(root: Path, tmp_path: Path) -> None:
    # The parent starts a server whose input stays open in a third process, prints the server's id, and dies.
    reader, writer = os.pipe()
    code = (
        "import subprocess, sys\n"
        f"p = subprocess.Popen([sys.executable, '-m', 'spec_kit_memory', 'serve'], stdin={reader}, "
        "stdout=subprocess.PIPE)\n"
        "p.stdout.readline()\n"
        "print(p.pid, flush=True)\n"
    )
    os.write(writer, json.dumps(INITIALIZE).encode() + b"\n")
    parent = subprocess.run(
        [sys.executable, "-c", code],
        pass_fds=(reader,),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(root),
        check=True,
        timeout=180,
    )
    server = int(parent.stdout)
    os.close(reader)

    async def gone() -> None:
        with anyio.fail_after(30):
            while _lives(server):
                await anyio.sleep(0.05)

    try:
        anyio.run(gone)
    finally:
        os.close(writer)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # An orphan that ended stays listed until somebody collects it.
    state = Path(f"/proc/{pid}/stat")
    return not (state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z")


async def embedded(client: Client) -> bool:
    """Has the work behind the answers come to rest?"""
    stats = (await client.call_tool("memory_stats", {})).structured_content
    return bool(stats["data"]["vectors"].get("success") == stats["data"]["totals"]["memories"] > 0)


def test_a_workspace_that_is_deleted_under_the_server_is_missed_and_welcomed_back(root: Path) -> None:
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "spec_kit_memory", "serve"], env=environment(root), cwd=root.parent
    )

    async def story() -> None:
        with anyio.fail_after(60):
            async with Client(parameters) as client:
                while not await embedded(client):
                    await anyio.sleep(0.05)
                shutil.rmtree(root)
                for name in ("memory_stats", "memory_index_scan", "memory_health"):
                    gone = await client.call_tool(name, {})
                    assert gone.is_error, name
                    assert gone.structured_content["code"] == "E010"
                (root / "memory").mkdir(parents=True)
                (root / "memory" / "back.md").write_text("# Back again\n")
                assert not (await client.call_tool("memory_index_scan", {})).is_error
                listed = await client.call_tool("memory_list", {})
                assert [row["title"] for row in listed.structured_content["data"]["memories"]] == ["Back again"]

    anyio.run(story)


def test_a_broken_configuration_is_told_in_answers_and_not_by_silence(root: Path) -> None:
    (root / ".spec-kit-memory").mkdir()
    (root / ".spec-kit-memory" / "config.jsonc").write_text('{"semantic": {"modle": 1}}')
    process = started(root)
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "memory_stats", "arguments": {}}}
    say(process, INITIALIZE, INITIALIZED, call)
    hear(process.stdout)
    result = hear(process.stdout)["result"]
    assert result["isError"]
    assert result["structuredContent"]["code"] == "E030"
    assert "semantic.modle" in result["structuredContent"]["message"]
    process.communicate(timeout=120)


def test_nothing_heavy_stands_before_the_first_answer(root: Path) -> None:
    code = (
        "import sys, mcp.server.stdio\n"
        "bare = set(sys.modules)\n"
        "import spec_kit_memory.serve.mcp.server, spec_kit_memory.serve.cli.commands\n"
        "heavy = {'numpy', 'onnxruntime', 'tokenizers', 'apsw', 'rich', 'watchfiles', 'yaml'}\n"
        "print(sorted(heavy & (set(sys.modules) - bare)), 'spec_kit_memory.workspace' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]
