"""Bad input and bad moments, met by the server over a real workspace: a code and a hint, never a wrong success."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from spec_kit_memory import settings
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from spec_kit_memory.parameters import Parameter
from spec_kit_memory.serve.mcp.server import build_server
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace, must_exist
from spec_kit_memory.serve.tools import TOOLS, Tool
from spec_kit_memory.workspace import Workspace
from tests.faults.talking import held
from tests.serve.test_mcp import connected, era, spoken, told
from tests.serve.test_stdio import INITIALIZE, INITIALIZED, hear, say, started
from tests.serve.test_tools import enough

CODE = re.compile(r"E\d{3}")


def loaded(root: Path) -> settings.Settings:
    return settings.load(root, environ={}, user_file=root / "nobody", overrides={"semantic.model": "hashing"})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    memory = tmp_path / "work" / "specs" / "007-auth" / "memory"
    memory.mkdir(parents=True)
    for number in range(3):
        text = f"---\ntrigger_phrases: [zebra walk]\n---\n# Zebra {number}\n\nThe zebra walks {number} times.\n"
        (memory / f"z{number}.md").write_text(text, encoding="utf-8")
    return tmp_path / "work"


@pytest.fixture
def real(root: Path) -> Iterator[LiveWorkspace]:
    live = LiveWorkspace(lambda: Workspace(loaded(root)), check=must_exist, background=False)
    with live.use() as workspace:
        workspace.index()
    yield live
    live.close()


def refusal(result: types.CallToolResult) -> dict[str, Any]:
    """The error of a call that failed as a tool should."""
    assert result.is_error, result.content
    content = told(result)
    assert CODE.fullmatch(content["code"])
    assert content["message"]
    assert content["hint"]
    assert "Traceback" not in json.dumps(content)
    assert not for_people(f"{content['message']} {content['hint']}"), content
    return content


def for_people(text: str) -> list[str]:
    """What a model cannot do: options and commands, unless it is told to have the user run them."""
    return re.findall(r"(?<![\w-])--[a-z][\w-]*|(?<!`)\bskm \w+", "" if "user" in text else text)


# --- what is wrong with arguments, on every tool -------------------------------------------------------


def wrong(parameter: Parameter) -> list[Any]:
    """Values that nobody could take for what the parameter wants."""
    other: list[Any] = {
        "text": [True, [["x"], 1], {}],
        "path": [7, ["x", "y"], {}],
        "integer": ["seven", 1.5, True, [7, 8]],
        "number": ["half", [], True],
        "boolean": ["perhaps", 2, -1],
        "texts": [True, {"x": 1}, [{}] * max(1, int(parameter.minimum or 1))],
        "object": ["{", "[]", [], 7],
    }[parameter.kind]
    return [*other, "no such choice"] if parameter.choices and parameter.kind == "text" else other


def oversized(parameter: Parameter) -> list[Any]:
    if parameter.kind in ("integer", "number"):
        return [value for value in (_beyond(parameter.maximum, 1), _beyond(parameter.minimum, -1)) if value is not None]
    if parameter.choices:
        return []
    sizes: dict[str, list[Any]] = {
        "text": ["x" * (parameter.length + 1)],
        "path": ["x" * (parameter.length + 1)],
        "texts": [["x"] * (int(parameter.maximum or 100) + 1)],
        "object": [{"sessionSummary": "x" * (parameter.length + 1)}],
    }
    return sizes.get(parameter.kind, [])


def _beyond(limit: float | None, step: int) -> int | None:
    return None if limit is None else int(limit) + step


def bad_calls(tool: Tool) -> Iterator[tuple[dict[str, Any], set[str]]]:
    """Arguments that must be refused, and the codes that may say so."""
    least = enough(tool)
    if any(parameter.required for parameter in tool.parameters) or tool.request.needs:
        yield {}, {"E031", "E040"}
    yield {**least, "nobodyKnowsThis": 1}, {"E030"}
    for parameter in tool.parameters:
        for value in wrong(parameter):
            yield {**least, parameter.name: value}, {"E030", "E102"}
        for value in oversized(parameter):
            yield {**least, parameter.name: value}, {"E032"}


@era
@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
@spoken
async def test_missing_unknown_ill_typed_and_oversized_arguments_are_refused(
    real: LiveWorkspace, mode: str, tool: Tool
) -> None:
    with real.use() as workspace:
        before = workspace.ledger_head().entries
    async with connected(real, mode) as client:
        for arguments, codes in bad_calls(tool):
            content = refusal(await client.call_tool(tool.name, arguments))
            assert content["code"] in codes, (arguments, content)
    with real.use() as workspace:
        assert workspace.ledger_head().entries == before  # nothing that was refused was done


@spoken
async def test_an_error_says_why_and_what_to_call_next(root: Path, real: LiveWorkspace) -> None:
    (root / "specs/007-auth/memory/latin.md").write_bytes(b"caf\xe9")
    with real.use() as workspace:
        workspace.index(force=True)
        zebra = workspace.get("specs/007-auth/memory/z0.md").id
        workspace.delete(zebra)
        workspace.checkpoint_create("before")
    deleted = ("was deleted", "`skm undo` (for the user to run)")
    asked: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
        ("memory_load", {"memoryId": zebra}, deleted),
        ("memory_validate", {"id": zebra, "wasUseful": True}, deleted),
        ("memory_get", {"path": "specs/007-auth/memory/z0.md"}, deleted),
        ("memory_get", {"path": "z1.md"}, ("did you mean specs/007-auth/memory/z1.md?",)),
        ("memory_get", {"path": r"specs\007-auth\memory\z1.md"}, ("did you mean specs/007-auth/memory/z1.md?",)),
        ("memory_get", {"path": "specs/007-auth/memory/latin.md"}, ("is not indexed", "not UTF-8", "fix the file")),
        ("memory_get", {"path": "specs/007-auth/memory/z1.md", "lines": "9-3"}, ("end before they begin", "lines 1-6")),
        ("memory_get", {"path": "specs/007-auth/memory/z1.md", "lines": "70-80"}, ("not in 1-6", "lines 1-6")),
        ("memory_get", {"path": "specs/007-auth/memory/z1.md", "lines": "abc"}, ("'abc'", '"42-56"')),
        ("memory_save", {"filePath": "new.md"}, ("does not exist", "memory_save with context")),
        ("memory_save", {"session": 1}, ("'session'", "'filePath', a path, or 'context', an object")),
        ("checkpoint_create", {"name": "before"}, ("'before' already", "checkpoint_delete with name before")),
    ]
    async with connected(real, "legacy") as client:
        for tool, arguments, words in asked:
            content = refusal(await client.call_tool(tool, arguments))
            for word in words:
                assert word in f"{content['message']} {content['hint']}", (tool, arguments, content)
        hinted: list[tuple[str, dict[str, Any], str]] = [
            ("memory_list", {"offset": 50}, "offset: 0"),
            ("memory_search", {"query": "zebra", "anchors": ["nowhere"]}, "the best result has zebra-"),
            ("checkpoint_list", {"specFolder": "007-auth"}, "checkpoint_list lists those of all folders"),
        ]
        for tool, arguments, word in hinted:
            assert word in " ".join(told(await client.call_tool(tool, arguments))["hints"]), (tool, arguments)


@spoken
async def test_what_is_not_there_has_its_own_code(real: LiveWorkspace) -> None:
    asked: list[tuple[str, dict[str, Any], str]] = [
        ("memory_load", {"memoryId": 404}, "E080"),
        ("memory_load", {"memoryId": 1, "anchorId": "nowhere"}, "E091"),
        ("memory_update", {"id": 404, "title": "x"}, "E080"),
        ("memory_delete", {"id": 404}, "E080"),
        ("memory_validate", {"id": 404, "wasUseful": True}, "E080"),
        ("memory_history", {"id": 404}, "E080"),
        ("memory_drift_why", {"memoryId": 404}, "E080"),
        ("memory_causal_link", {"sourceId": 1, "targetId": 404, "relation": "caused"}, "E080"),
        ("memory_causal_link", {"sourceId": 1, "targetId": 1, "relation": "caused"}, "E103"),
        ("memory_causal_link", {"sourceId": 1, "targetId": 2, "relation": "hates"}, "E102"),
        ("checkpoint_restore", {"name": "none"}, "E060"),
        ("checkpoint_delete", {"name": "none"}, "E060"),
        ("memory_save", {"filePath": "specs/007-auth/memory/none.md"}, "E010"),
        ("memory_save", {"context": {}}, "E090"),
        ("memory_save", {"context": {"sessionSummary": "x", "importanceTier": "constitutional"}}, "E090"),
        ("memory_delete", {"specFolder": "007-auth"}, "E031"),
        ("memory_update", {"id": 1, "importanceTier": "constitutional"}, "E090"),
        ("memory_search", {"query": "zebra", "asOf": "not a date"}, "E030"),
    ]
    async with connected(real, "legacy") as client:
        codes = [refusal(await client.call_tool(tool, arguments))["code"] for tool, arguments, _ in asked]
    assert list(zip([tool for tool, _, _ in asked], codes, strict=True)) == [(tool, code) for tool, _, code in asked]


@spoken
async def test_a_second_scan_within_a_minute_says_how_long_to_wait(real: LiveWorkspace) -> None:
    async with connected(real, "legacy") as client:
        await client.call_tool("memory_index_scan", {})
        content = refusal(await client.call_tool("memory_index_scan", {"force": True}))
    assert content["code"] == "E429"
    assert re.search(r"\d+", content["message"] + content["hint"])


# --- bad moments ------------------------------------------------------------------------------------------


def test_a_question_before_anything_is_indexed_is_answered_and_says_so(root: Path) -> None:
    live = LiveWorkspace(lambda: Workspace(loaded(root)), background=False)

    @spoken
    async def story() -> None:
        async with connected(live, "legacy") as client:
            result = told(await client.call_tool("memory_search", {"query": "zebra"}))
            assert result["data"]["results"] == []
            assert result["hints"]
            assert (
                told(await client.call_tool("memory_match_triggers", {"prompt": "zebra walk"}))["data"]["matches"] == []
            )
            assert not (await client.call_tool("memory_context", {"prompt": "zebra"})).is_error

    try:
        story()
    finally:
        live.close()


def test_a_question_before_the_vectors_are_there_is_answered_by_text_and_says_so(root: Path) -> None:
    live = LiveWorkspace(lambda: Workspace(loaded(root)), background=False)
    with live.use() as workspace:
        workspace.index(embed=False)

    @spoken
    async def story() -> None:
        async with connected(live, "legacy") as client:
            result = told(await client.call_tool("memory_search", {"query": "zebra walks"}))["data"]
            assert len(result["results"]) == 3
            assert result["method"] == "text"
            assert "not embedded yet" in json.dumps(result["unavailable"])

    try:
        story()
    finally:
        live.close()


WRITING: dict[str, dict[str, Any]] = {
    "memory_save": {"context": {"title": "T", "sessionSummary": "S"}, "specFolder": "007-auth"},
    "memory_validate": {"id": 1, "wasUseful": True},
    "memory_delete": {"id": 3},
    "memory_causal_link": {"sourceId": 1, "targetId": 2, "relation": "caused"},
}
READING: dict[str, dict[str, Any]] = {
    "memory_search": {"query": "zebra", "sessionId": "s"},
    "memory_context": {"prompt": "zebra walk", "sessionId": "s"},
    "memory_load": {"memoryId": 1},
    "memory_get": {"path": "specs/007-auth/memory/z0.md"},
    "memory_match_triggers": {"prompt": "zebra walk", "sessionId": "s"},
    "memory_list": {},
    "memory_stats": {},
    "memory_history": {},
    "memory_drift_why": {"memoryId": 1},
    "checkpoint_list": {},
}


def test_while_another_process_holds_the_index_reads_answer_and_writes_say_busy(root: Path) -> None:
    Workspace(loaded(root)).index()
    index = loaded(root).index_path
    # It gives up after a moment instead of half a minute.
    live = LiveWorkspace(lambda: Workspace(loaded(root), store=SqliteIndex(index, busy_seconds=0.2)), background=False)

    @spoken
    async def story() -> None:
        async with connected(live, "legacy") as client:
            with held(index):
                for tool, arguments in READING.items():
                    assert not (await client.call_tool(tool, arguments)).is_error, tool
                for tool, arguments in WRITING.items():
                    assert refusal(await client.call_tool(tool, arguments))["code"] == "E025", tool
            for tool, arguments in WRITING.items():
                assert not (await client.call_tool(tool, arguments)).is_error, tool

    try:
        story()
    finally:
        live.close()


@era
@spoken
async def test_two_clients_at_once_get_their_own_answers(real: LiveWorkspace, mode: str) -> None:
    server = build_server(real)
    async with Client(server, mode=mode) as one, Client(server, mode=mode) as two:
        answers: dict[tuple[int, int], str] = {}

        async def ask(who: int, client: Client, number: int) -> None:
            result = await client.call_tool("memory_load", {"memoryId": 1 + (who + number) % 3})
            answers[who, number] = told(result)["data"]["memory"]["title"]

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(ask, 0, one, number)
                tasks.start_soon(ask, 1, two, number)
        titles = {card.id: card.title for card in _cards(real)}
    assert answers == {(who, number): titles[1 + (who + number) % 3] for who in (0, 1) for number in range(12)}


def _cards(live: LiveWorkspace) -> list[Any]:
    with live.use() as workspace:
        return list(workspace.list(limit=100).memories)


def call(number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def test_a_client_that_vanishes_in_the_middle_of_calls_leaves_no_process_and_a_sound_index(root: Path) -> None:
    process = started(root)
    say(process, INITIALIZE)
    hear(process.stdout)
    context = {"title": "Left behind", "sessionSummary": "The client was gone before the answer."}
    say(
        process,
        INITIALIZED,
        call(2, "memory_index_scan"),
        call(3, "memory_save", context=context, specFolder="007-auth"),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()  # nobody reads what it says any more
    process.stdin.close()
    assert process.wait(120) == 0
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    with Workspace(loaded(root)) as workspace:
        workspace.index()
        assert workspace.health().healthy
        saved = [card for card in workspace.list(limit=100).memories if card.title == "Left behind"]
        files = list((root / "specs").rglob("*left-behind*.md"))
        assert len(saved) == len(files) <= 1


def test_a_wrong_key_of_a_provider_keeps_neither_the_server_nor_a_search_from_answering(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Workspace(loaded(root)).index()
    settings_ = ["semantic.model=openai", "semantic.baseUrl=http://127.0.0.1:9/v1"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    process = started(root, *(word for pair in settings_ for word in ("--set", pair)))
    say(process, INITIALIZE)
    assert hear(process.stdout)["result"]["serverInfo"]["name"] == "spec_kit_memory"
    say(process, INITIALIZED, call(2, "memory_search", query="zebra walks"))
    result = hear(process.stdout)["result"]
    assert not result["isError"]
    assert len(result["structuredContent"]["data"]["results"]) == 3
    process.communicate(timeout=120)
    assert process.returncode == 0


def test_a_client_killed_over_http_does_not_disturb_another(root: Path) -> None:
    words = [sys.executable, "-m", "spec_kit_memory", "serve", "--http", "--port", "0", "--workspace", str(root)]
    words += ["--set", "semantic.model=hashing", "--no-token"]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as server:
        try:
            assert server.stderr is not None
            match = re.search(r"http://[\d.]+:(\d+)/mcp", server.stderr.readline().decode())
            assert match is not None

            async def story() -> None:
                with anyio.fail_after(60):
                    for _ in range(3):
                        await _vanish(int(match[1]))
                    async with Client(match[0]) as client:
                        assert not (await client.call_tool("memory_list", {})).is_error

            anyio.run(story)
        finally:
            server.terminate()
            server.wait(20)


async def _vanish(port: int) -> None:
    """A request whose sender is gone before the answer."""
    body = json.dumps(INITIALIZE).encode()
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(head.encode() + body)
