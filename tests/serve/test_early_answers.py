"""Whatever a host opens a connection with: what it is told early is what the SDK would have told it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError

from spec_kit_memory.serve.mcp.handshake import FirstAnswers
from spec_kit_memory.serve.mcp.request_shapes import RESERVED
from spec_kit_memory.serve.mcp.server import build_server
from spec_kit_memory.serve.mcp.stdio import Answered
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.workspace import Workspace
from tests.serve.test_handshake import DISCOVER, ENVELOPE, LIST, MODERN_LIST, PROMPTS, TEMPLATES, line
from tests.serve.test_stdio import INITIALIZE, INITIALIZED

Message = dict[str, Any]

STEPS = 40  # of the event loop, more than the SDK needs for an answer to any of these messages

PING = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
ODD: tuple[Any, ...] = (None, True, 0, 5, "", "x", [], {}, {"a": 1}, {"a": {}})
PARTS: tuple[Any, ...] = (
    {"listChanged": True},
    {"listChanged": 1},
    {"form": {}, "url": None},
    {"form": 5},
    {"context": 1},
    {"requests": {"sampling": {"createMessage": {}}}},
    {"requests": {"sampling": {"createMessage": 5}}},
)
ICONS: tuple[Any, ...] = (
    {"src": "a"},
    {"src": "a", "sizes": ["4x4"], "theme": "dark"},
    {"src": "a", "theme": "red"},
    {},
    5,
)


def opened(**params: Any) -> Message:
    """An `initialize` with these params in place of the usual ones."""
    return {**INITIALIZE, "params": {**INITIALIZE["params"], **params}}  # type: ignore[dict-item]


def enveloped(request: Message, **meta: Any) -> Message:
    """A request of the newer era; each of `meta` replaces a member of its envelope."""
    return {**request, "params": {"_meta": ENVELOPE | {f"{RESERVED}{name}": value for name, value in meta.items()}}}


def raw(message: Message, old: str, new: str) -> bytes:
    text = json.dumps(message)
    assert old in text
    return text.replace(old, new).encode() + b"\n"


def capabilities() -> Iterator[list[Message]]:
    for name in ("experimental", "extensions", "sampling", "elicitation", "roots", "tasks", "unknown"):
        for value in (*ODD, *PARTS):
            yield from ([opened(capabilities={name: value}, protocolVersion=v)] for v in HANDSHAKE_PROTOCOL_VERSIONS)
            yield [enveloped(MODERN_LIST, clientCapabilities={name: value})]
            yield [enveloped(DISCOVER, clientCapabilities={name: value})]


def clients() -> Iterator[list[Message]]:
    named = {"name": "n", "version": "1"}
    described = [{**named, part: odd} for part in ("title", "description", "websiteUrl", "icons") for odd in ODD]
    for client in (*ODD, *described, {"name": "n"}, {**named, "name": 5}, *({**named, "icons": [i]} for i in ICONS)):
        yield [opened(clientInfo=client), INITIALIZED, LIST]
        yield [enveloped(MODERN_LIST, clientInfo=client)]
        yield [enveloped(DISCOVER, clientInfo=client)]


def params() -> Iterator[list[Message]]:
    for odd in ODD:
        requests: tuple[Message, ...] = (LIST, PROMPTS, TEMPLATES, PING)
        for request in requests:
            for given in (odd, {"_meta": odd}, {"cursor": odd}, {"_meta": {"progressToken": odd}}):
                yield [INITIALIZE, INITIALIZED, {**request, "params": given}]
            yield [INITIALIZE, INITIALIZED, {**request, "params": {"_meta": {f"{RESERVED}protocolVersion": odd}}}]
        yield [opened(protocolVersion=odd), INITIALIZED, LIST]
        yield [opened(_meta={"progressToken": odd}), INITIALIZED, LIST]
        for request in (MODERN_LIST, DISCOVER):
            yield [{**request, "params": odd}]
            yield [{**request, "params": {"_meta": odd}}]
            yield [{**request, "params": {"_meta": {**ENVELOPE, "progressToken": odd}}}]
            yield from ([enveloped(request, **{name: odd})] for name in ("protocolVersion", "logLevel", "unknown"))
            yield from ([without(request, name)] for name in ENVELOPE)
    for alone in ("2099-01-01", "2025-11-25"):
        yield [{**DISCOVER, "params": {"_meta": {f"{RESERVED}protocolVersion": alone}}}]
        yield [enveloped(DISCOVER, protocolVersion=alone, clientCapabilities=5)]


def without(request: Message, name: str) -> Message:
    return {**request, "params": {"_meta": {key: value for key, value in ENVELOPE.items() if key != name}}}


def ids() -> Iterator[list[Message]]:
    odd = (0, -1, 2**53, 2**64, 10**30, "", "1", "é\u2028", "\ud800", 1.0, 1.5, "x" * 10_000)
    for value in (*ODD, *odd):
        yield [{**INITIALIZE, "id": value}, INITIALIZED, {**LIST, "id": value}]
        yield [{**MODERN_LIST, "id": value}]
        yield [{**DISCOVER, "id": value}]
        yield [{**enveloped(DISCOVER, protocolVersion="2099-01-01"), "id": value}]


def orders() -> Iterator[list[Message]]:
    cancelled: Message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}}
    again: Message = {**PROMPTS, "id": 2}
    yield [PING, INITIALIZE, INITIALIZED, LIST]
    yield [LIST, INITIALIZE, INITIALIZED, again]
    yield [INITIALIZE, LIST, INITIALIZED, PROMPTS]
    yield [INITIALIZED, INITIALIZE, LIST]
    yield [INITIALIZE, INITIALIZE, INITIALIZED, LIST]
    yield [INITIALIZE, INITIALIZED, {**INITIALIZE, "id": 5}, LIST]
    for first in HANDSHAKE_PROTOCOL_VERSIONS:
        for second in HANDSHAKE_PROTOCOL_VERSIONS:
            yield [opened(protocolVersion=first), opened(protocolVersion=second), INITIALIZED, LIST, PROMPTS]
    yield [INITIALIZE, INITIALIZED, LIST, again, {**LIST, "id": 1}]
    yield [INITIALIZE, INITIALIZED, LIST, cancelled, again]
    yield [INITIALIZE, INITIALIZED, MODERN_LIST, DISCOVER]
    yield [opened(capabilities=None), INITIALIZE, INITIALIZED, LIST]
    yield [MODERN_LIST, INITIALIZE, INITIALIZED, again]
    yield [MODERN_LIST, PING, {**LIST, "id": 4}, {**MODERN_LIST, "id": 5}]
    yield [{"jsonrpc": "2.0", "id": 9, "method": "no/such"}, INITIALIZE, INITIALIZED, LIST]
    yield [{"jsonrpc": "2.0", "id": 9, "result": {}}, INITIALIZE, INITIALIZED, LIST]
    yield [{**INITIALIZE, "error": {"code": 1, "message": "x"}}, INITIALIZED, LIST]
    yield [{**INITIALIZE, "result": {}}, INITIALIZED, {**LIST, "more": 1}]
    yield [{key: value for key, value in INITIALIZE.items() if key != "id"}, INITIALIZE, INITIALIZED, LIST]


def lines() -> Iterator[list[bytes]]:
    rest = [line(INITIALIZED), line(LIST)]
    deep = '{"a":' * 300 + "1" + "}" * 300
    for odd in (
        b"hello\n",
        b"\n",
        b"\x00\n",
        b"5\n",
        b"null\n",
        line([INITIALIZE, LIST]),
        b'{"jsonrpc":"2.0","id":1\n',
    ):
        yield [odd, line(INITIALIZE), *rest]
    yield [json.dumps(INITIALIZE).encode("utf-16-be") + b"\x00\n", line(INITIALIZE), *rest]
    yield [b"\xef\xbb\xbf" + line(INITIALIZE), *rest]
    yield [b" \t" + each.strip() + b" \r\n" for each in (line(INITIALIZE), *rest)]
    yield [b"\x0b" + line(INITIALIZE), *rest]
    yield [line(INITIALIZE).replace(b'"test"', b'"te\xffst"'), *rest]
    for old, new in (
        ('"test"', '"te\\ud83d"'),
        ('"test"', '"te", "\\ud83d": 1'),
        ('"id": 1', '"id": 7, "id": 1'),
        ('"id": 1', '"method": "ping", "id": 1'),
        ('"id": 1', '"id": 1' + "0" * 5_000),
        ('"capabilities": {}', '"capabilities": {"unknown": NaN}'),
        ('"capabilities": {}', '"capabilities": {"unknown": 1e999}'),
        ('"capabilities": {}', f'"capabilities": {{"experimental": {{"x": {deep}}}}}'),
    ):
        yield [raw(INITIALIZE, old, new), *rest]


@pytest.mark.parametrize(
    "conversations", [capabilities, clients, params, ids, orders, lines], ids=lambda kind: kind.__name__
)
def test_an_early_answer_is_the_one_that_the_sdk_would_give(conversations: Any) -> None:
    async def compare() -> None:
        for given in conversations():
            sent = [message if isinstance(message, bytes) else line(message) for message in given]
            answers = FirstAnswers(lean=False)
            early = [answer for answer in (answers.answer(each)[0] for each in sent) if answer is not None]
            theirs = await sdk_answers(sent)
            for answer in early:
                assert answer.decode() in theirs, sent

    anyio.run(compare)


async def sdk_answers(sent: list[bytes]) -> list[str]:
    """The lines that the server sends without the front, by the time that it has nothing left to do."""

    def never() -> Workspace:
        raise RuntimeError("no request here opens a workspace")

    server = build_server(LiveWorkspace(never, background=False))
    to_server, incoming = create_context_streams[SessionMessage | Exception](len(sent))
    outgoing, from_server = create_context_streams[SessionMessage](2 * len(sent))
    heard: list[str] = []

    async def hear() -> None:
        async for sent_back in from_server:
            text = sent_back.message.model_dump_json(by_alias=True, exclude_unset=True)
            heard.append(f"{text}\n")

    async with from_server, anyio.create_task_group() as group:
        group.start_soon(hear)
        group.start_soon(server.run, Answered(incoming, outgoing), outgoing, server.create_initialization_options())
        for each in sent:
            item: SessionMessage | Exception
            try:
                message = types.jsonrpc_message_adapter.validate_json(each.decode("utf-8", "replace"), by_name=False)
                item = SessionMessage(message)
            except ValidationError as error:
                item = error
            await to_server.send(item)
            for _ in range(STEPS):
                await anyio.lowlevel.checkpoint()
        await to_server.aclose()
        group.cancel_scope.cancel()
    return heard
