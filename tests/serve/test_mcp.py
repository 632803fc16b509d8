"""The MCP server, spoken to by the official SDK's client in memory, in both protocol eras."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from spec_kit_memory.serve.mcp.server import NAME, build_server
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.serve.tools import TOOLS
from tests.serve.recorder import Recorder

ERAS = ["legacy", "2026-07-28"]
era = pytest.mark.parametrize("mode", ERAS)


def spoken(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test, and never for ever."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            with anyio.fail_after(30):
                await test(*args, **kwargs)

        anyio.run(bounded)

    return run


@asynccontextmanager
async def connected(live: LiveWorkspace, mode: str, *, lean: bool = False, **more: Any) -> AsyncIterator[Client]:
    async with Client(build_server(live, lean=lean), mode=mode, **more) as client:
        yield client


def told(result: types.CallToolResult) -> dict[str, Any]:
    """The answer, which is the same as text and as structured content."""
    assert isinstance(result.content[0], types.TextContent)
    content: dict[str, Any] = json.loads(result.content[0].text)
    assert content == result.structured_content
    return content


@era
@spoken
async def test_tools_are_listed_in_order_with_schemas_and_annotations(live: LiveWorkspace, mode: str) -> None:
    async with connected(live, mode) as client:
        listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == [tool.name for tool in TOOLS]
    for tool in listed:
        assert tool.annotations is not None
        assert tool.annotations.open_world_hint is False
        assert tool.output_schema is not None
        assert tool.description


@era
@spoken
async def test_the_listing_is_small(live: LiveWorkspace, mode: str) -> None:
    for lean, most in ((False, 5000), (True, 1900)):
        async with connected(live, mode, lean=lean) as client:
            listed = await client.list_tools()
        wire = json.dumps(
            listed.model_dump(by_alias=True, mode="json", exclude_none=True), ensure_ascii=False, separators=(",", ":")
        )
        assert len(wire.encode()) / 4 <= most
        assert len(listed.tools) == (6 if lean else len(TOOLS))


@era
@spoken
async def test_a_call_answers_with_the_envelope(live: LiveWorkspace, recorder: Recorder, mode: str) -> None:
    async with connected(live, mode) as client:
        result = await client.call_tool("memory_search", {"query": "auth", "spec_folder": "007-auth", "maxResults": 4})
    answer = told(result)
    assert not result.is_error
    assert set(answer) == {"summary", "data", "hints", "meta"}
    assert answer["meta"]["tool"] == "memory_search"
    verb, given = recorder.calls[0]
    assert (verb, given["query"], given["spec_folder"], given["limit"]) == ("search", "auth", "007-auth", 4)


@spoken
async def test_an_unknown_tool_names_what_was_probably_meant(live: LiveWorkspace) -> None:
    async with connected(live, "legacy") as client:
        for name, meant in (
            ("memory_serch", "Did you mean memory_search"),
            ("search", "Did you mean memory_search"),
            ("memory_find", "Did you mean memory_search"),
            ("memory_query", "Did you mean memory_search"),
            ("retrieve", "Did you mean memory_search"),
            ("get", "Did you mean memory_get?"),
            ("readMemory", "Did you mean memory_load or memory_get?"),
            ("memory_add", "Did you mean memory_save?"),
            ("memory_forget", "Did you mean memory_delete?"),
            ("create_checkpoint", "Did you mean checkpoint_create"),
            ("memorySearch", "Did you mean memory_search?"),
            ("mcp__spec_kit_memory__memory_search", "Did you mean memory_search?"),
            ("memory_undo", "The user can run `skm undo`."),
            ("merge", "The user can run `skm merge`."),
        ):
            with pytest.raises(MCPError) as refused:
                await client.call_tool(name, {})
            assert meant in str(refused.value), (name, str(refused.value))


@spoken
async def test_an_unknown_tool_like_none_is_told_which_there_are(live: LiveWorkspace) -> None:
    async with connected(live, "legacy") as client:
        for name in ("xyzzy", "memory", "", "9" * 5_000, "日本"):
            with pytest.raises(MCPError, match=r"^Unknown tool: .{0,200}\. There are memory_search, "):
                await client.call_tool(name, {})


@era
@spoken
async def test_errors_are_tool_errors_with_code_message_and_hint(live: LiveWorkspace, mode: str) -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("memory_search", {}, "E040"),
        ("memory_search", {"query": {"words": 3}}, "E030"),
        ("memory_search", {"query": "x", "limit": 0}, "E032"),
        ("memory_search", {"query": "x", "color": 1}, "E030"),
        ("memory_get", {}, "E031"),
        ("memory_load", {"memoryId": 404}, "E080"),
        ("memory_search", {"query": "break"}, "E000"),
    ]
    async with connected(live, mode) as client:
        for name, arguments, code in cases:
            result = await client.call_tool(name, arguments)
            assert result.is_error, (name, arguments)
            error = told(result)
            assert error["code"] == code
            assert error["message"]
            assert error["hint"]
            assert "Traceback" not in json.dumps(error)


@era
@spoken
async def test_an_unknown_tool_is_a_protocol_error(live: LiveWorkspace, mode: str) -> None:
    async with connected(live, mode) as client:
        with pytest.raises(MCPError, match="memory_fly"):
            await client.call_tool("memory_fly", {})


@era
@spoken
async def test_a_tool_outside_the_lean_set_is_unknown_there(live: LiveWorkspace, mode: str) -> None:
    async with connected(live, mode, lean=True) as client:
        with pytest.raises(MCPError, match="memory_delete"):
            await client.call_tool("memory_delete", {"id": 1})


@era
@spoken
async def test_text_that_is_no_valid_unicode_still_arrives(live: LiveWorkspace, mode: str) -> None:
    async with connected(live, mode) as client:
        assert told(await client.call_tool("memory_load", {"memoryId": 1}))["data"]["text"] == "# Hé?llo"


# --- life


def test_a_workspace_that_cannot_be_opened_is_tried_again(recorder: Recorder) -> None:
    from spec_kit_memory.errors import DatabaseBusy

    outcomes: list[Any] = [DatabaseBusy("locked", hint="wait"), recorder]

    def opener() -> Any:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @spoken
    async def story() -> None:
        async with connected(LiveWorkspace(opener), "legacy") as client:
            assert told(await client.call_tool("memory_search", {"query": "x"}))["code"] == "E025"
            assert told(await client.call_tool("memory_search", {"query": "x"}))["summary"] == "nothing found"

    story()


@spoken
async def test_listing_tools_opens_nothing_and_background_work_starts_behind_it(
    live: LiveWorkspace, recorder: Recorder
) -> None:
    async with connected(live, "legacy") as client:
        await client.list_tools()
        assert not recorder.started.is_set()
        assert await anyio.to_thread.run_sync(recorder.started.wait, 10)


def test_closing_waits_for_a_call_that_runs(live: LiveWorkspace, recorder: Recorder) -> None:
    import threading

    inside, go_on = threading.Event(), threading.Event()

    def call() -> None:
        with live.use():
            inside.set()
            go_on.wait(10)
            assert not recorder.closed.is_set()

    thread = threading.Thread(target=call)
    thread.start()
    assert inside.wait(10)
    closing = threading.Thread(target=live.close)
    closing.start()
    assert not recorder.closed.is_set()
    go_on.set()
    closing.join(10)
    thread.join(10)
    assert recorder.closed.is_set()


# --- scans


@era
@spoken
async def test_a_scan_reports_progress_that_only_rises(live: LiveWorkspace, recorder: Recorder, mode: str) -> None:
    seen: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total))

    async with connected(live, mode) as client:
        result = await client.call_tool("memory_index_scan", {"force": True}, progress_callback=on_progress)
    assert told(result)["data"]["indexed"] == 3
    numbers = [progress for progress, _ in seen]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 6
    assert recorder.calls == [("index", {"force": True, "cooldown": True, "embed": False})]


@era
@spoken
async def test_a_cancelled_scan_stops(live: LiveWorkspace, recorder: Recorder, mode: str) -> None:
    recorder.hold_scan = True
    async with connected(live, mode) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "memory_index_scan", {})
        assert await anyio.to_thread.run_sync(recorder.scanning.wait, 10)
        group.cancel_scope.cancel()
    with anyio.CancelScope(shield=True):
        assert await anyio.to_thread.run_sync(recorder.scan_stopped.wait, 10)


# --- asking


def answering(action: str, content: dict[str, Any] | None, asked: list[str]) -> Any:
    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action=action, content=content)  # type: ignore[arg-type]

    return answer


SESSION = {"context": {"sessionSummary": "x"}}


@era
@spoken
async def test_an_undecided_folder_is_asked_for(live: LiveWorkspace, recorder: Recorder, mode: str) -> None:
    asked: list[str] = []
    callback = answering("accept", {"spec_folder": "008-api"}, asked)
    async with connected(live, mode, elicitation_callback=callback) as client:
        answer = told(await client.call_tool("memory_save", SESSION))
    assert asked == ["Which folder?"]
    assert answer["data"]["specFolder"] == "008-api"


@era
@spoken
async def test_a_declined_question_is_the_error_with_its_alternatives(live: LiveWorkspace, mode: str) -> None:
    async with connected(live, mode, elicitation_callback=answering("decline", None, [])) as client:
        result = await client.call_tool("memory_save", SESSION)
    assert result.is_error
    assert told(result)["code"] == "E034"


@era
@spoken
async def test_an_answer_that_was_not_offered_is_not_taken(live: LiveWorkspace, mode: str) -> None:
    callback = answering("accept", {"spec_folder": "../../etc"}, [])
    async with connected(live, mode, elicitation_callback=callback) as client:
        assert told(await client.call_tool("memory_save", SESSION))["code"] == "E034"


@era
@spoken
async def test_without_a_way_to_ask_the_alternatives_are_listed(live: LiveWorkspace, mode: str) -> None:
    async with connected(live, mode) as client:
        error = told(await client.call_tool("memory_save", SESSION))
    assert error["code"] == "E034"
    assert [row["name"] for row in error["alternatives"]] == ["007-auth", "008-api"]


@era
@spoken
async def test_only_a_person_makes_a_rule(live: LiveWorkspace, recorder: Recorder, mode: str) -> None:
    rule = {"id": 1, "importanceTier": "constitutional"}
    asked: list[str] = []
    async with connected(live, mode, elicitation_callback=answering("accept", {"confirm": True}, asked)) as client:
        assert not (await client.call_tool("memory_update", rule)).is_error
    assert len(asked) == 1
    assert recorder.calls[-1][1]["confirm"] is True
    async with connected(live, mode, elicitation_callback=answering("accept", {"confirm": False}, asked)) as client:
        assert told(await client.call_tool("memory_update", rule))["code"] == "E090"
    assert len(recorder.calls) == 1


# --- resources, prompts, completion


@era
@spoken
async def test_resources_are_listed_and_read(live: LiveWorkspace, mode: str) -> None:
    async with connected(live, mode) as client:
        listed = [resource.uri for resource in (await client.list_resources()).resources]
        templates = [t.uri_template for t in (await client.list_resource_templates()).resource_templates]
        texts = {}
        for uri in ("memory://7", "memory://folder/007-auth", "memory://constitutional"):
            texts[uri] = [part.text for part in (await client.read_resource(uri)).contents]  # type: ignore[union-attr]
    assert listed == ["memory://constitutional", "memory://folder/007-auth", "memory://folder/008-api/001-child"]
    assert templates == ["memory://{id}", "memory://folder/{name}"]
    assert texts["memory://7"] == ["# Hé?llo"]
    assert "memory://2" in texts["memory://folder/007-auth"][0]
    assert len(texts["memory://constitutional"]) == 2


@era
@pytest.mark.parametrize("uri", ["memory://x", "memory://404", "memory://folder/nowhere", "file:///etc/passwd"])
def test_a_resource_that_is_not_there_is_a_protocol_error(live: LiveWorkspace, mode: str, uri: str) -> None:
    @spoken
    async def story() -> None:
        async with connected(live, mode) as client:
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            assert caught.value.error.data["code"] in ("E030", "E080", "E033")
            assert caught.value.error.data["uri"] == uri

    story()


@era
@spoken
async def test_prompts_take_their_arguments(live: LiveWorkspace, mode: str) -> None:
    async with connected(live, mode) as client:
        names = [prompt.name for prompt in (await client.list_prompts()).prompts]
        result = await client.get_prompt("search", {"query": "why {name} JWT?"})
        resumed = await client.get_prompt("resume", {"specFolder": "007-auth"})
        with pytest.raises(MCPError, match="query"):
            await client.get_prompt("search", {})
        with pytest.raises(MCPError, match="nonsense"):
            await client.get_prompt("nonsense", {})
    assert names == ["save", "search", "checkpoint", "resume"]
    assert "why {name} JWT?" in result.messages[0].content.text  # type: ignore[union-attr]
    assert "what is {remembered}" in resumed.messages[0].content.text  # type: ignore[union-attr]


@era
@spoken
async def test_folders_and_checkpoints_are_completed(live: LiveWorkspace, mode: str) -> None:
    template = types.ResourceTemplateReference(uri="memory://folder/{name}")
    async with connected(live, mode) as client:

        async def completed(ref: Any, name: str, value: str) -> list[str]:
            return (await client.complete(ref, {"name": name, "value": value})).completion.values

        assert await completed(template, "name", "00") == ["007-auth", "008-api/001-child"]
        assert await completed(types.PromptReference(name="save"), "specFolder", "007") == ["007-auth"]
        assert await completed(types.PromptReference(name="checkpoint"), "name", "BEFORE") == ["before-refactor"]
        assert await completed(types.PromptReference(name="search"), "query", "x") == []


@era
@spoken
async def test_the_server_says_who_it_is_and_what_it_can(live: LiveWorkspace, mode: str) -> None:
    async with connected(live, "auto" if mode != "legacy" else mode) as client:
        assert client.server_info is not None
        assert client.server_info.name == NAME
        capabilities = client.server_capabilities
        assert capabilities.tools
        assert capabilities.resources
        assert capabilities.prompts
        assert capabilities.completions
        assert "memory_search" in (client.instructions or "")
