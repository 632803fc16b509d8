"""What does an agent's host send to its model? A server in place of the model, with scripted answers.

It answers every request that offers tools with the next planned tool call, and with a text when the plan is done;
a request without tools (a title, a summary) gets a text. Each request is recorded, to see what reached the model.
It implements Anthropic's messages, OpenAI's chat completions and responses, and Gemini's generateContent, streamed or
not.

    with ScriptedModel([Call("memory_search", {"query": "why MQTT"})]) as model:
        run_the_host(base_url=model.url)
    model.requests[0].tools
"""

from __future__ import annotations

import gzip
import json
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import TracebackType
from typing import Any

__all__ = ["Call", "Request", "ScriptedModel"]

FINAL = "The plan is done."
MODEL = "scripted"
LONGEST_BODY = 64 * 1024 * 1024


@dataclass(frozen=True)
class Call:
    """A tool to call. Hosts prefix the names of tools, so a tool is found by the end of its name.

    An argument that is a pattern is replaced by its first group in the request's text, as a model would copy it.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def filled(self, request: Request) -> dict[str, Any]:
        return _filled(self.arguments, request.text)


def _filled(arguments: Mapping[str, Any], text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            values[name] = _filled(value, text)
        elif not isinstance(value, re.Pattern):
            values[name] = value
        elif match := value.search(text):
            values[name] = match[1]
    return values


@dataclass(frozen=True)
class Request:
    """A request of a host to its model, with the fields that all four APIs have in common."""

    form: str
    path: str
    body: Mapping[str, Any]
    tools: tuple[str, ...]  # names, with the host's prefixes
    results: tuple[str, ...]  # tool results so far, as text

    @property
    def text(self) -> str:
        """The whole body as JSON, to search in."""
        return json.dumps(self.body, ensure_ascii=False)

    def find_tool(self, name: str) -> str | None:
        return next((tool for tool in self.tools if tool == name or tool.endswith(name)), None)


# --- the four APIs -------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """How one provider's requests are parsed and its responses written."""

    name: str
    read: Callable[[Mapping[str, Any]], tuple[list[str], list[str]]]  # names of tools, texts of results
    whole: Callable[[str | None, Mapping[str, Any], str], dict[str, Any]]  # tool, arguments, text
    events: Callable[[str | None, Mapping[str, Any], str], Iterable[tuple[str | None, dict[str, Any] | str]]]


_numbers = count(1)


def _id(kind: str) -> str:
    """A new id. Hosts merge items with equal ids, and never finish a call whose id they have seen before."""
    return f"{kind}_{next(_numbers)}"


def _texts(content: Any) -> str:
    """The text of content blocks, at any depth."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return str(content["text"]) if isinstance(content.get("text"), str) else json.dumps(content, ensure_ascii=False)
    return "\n".join(_texts(part) for part in content) if isinstance(content, Sequence) else ""


def _anthropic_read(body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    results = [
        _texts(block.get("content", ""))
        for message in body.get("messages", ())
        if isinstance(message.get("content"), list)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]
    return [tool["name"] for tool in body.get("tools") or () if "name" in tool], results


def _anthropic_whole(tool: str | None, arguments: Mapping[str, Any], text: str) -> dict[str, Any]:
    block = (
        {"type": "tool_use", "id": _id("toolu"), "name": tool, "input": dict(arguments)}
        if tool
        else {"type": "text", "text": text}
    )
    return {
        "id": _id("msg"),
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [block],
        "stop_reason": "tool_use" if tool else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _anthropic_events(
    tool: str | None, arguments: Mapping[str, Any], text: str
) -> Iterator[tuple[str | None, dict[str, Any] | str]]:
    message = _anthropic_whole(tool, arguments, text)
    block = message.pop("content")[0]
    reason = message.pop("stop_reason")
    empty: dict[str, Any] = {**block, "input": {}} if tool else {**block, "text": ""}
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        if tool
        else {"type": "text_delta", "text": text}
    )
    started = message | {"content": [], "stop_reason": None}
    for event in (
        {"type": "message_start", "message": started},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ):
        yield str(event["type"]), event


def _chat_read(body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    tools = [tool["function"]["name"] for tool in body.get("tools") or () if "function" in tool]
    results = [
        _texts(message.get("content") or "") for message in body.get("messages", ()) if message["role"] == "tool"
    ]
    return tools, results


def _chat_message(tool: str | None, arguments: Mapping[str, Any], text: str) -> tuple[dict[str, Any], str]:
    if not tool:
        return {"role": "assistant", "content": text}, "stop"
    call = {
        "index": 0,
        "id": _id("call"),
        "type": "function",
        "function": {"name": tool, "arguments": json.dumps(arguments)},
    }
    return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"


def _chat(message: dict[str, Any], *, place: str, kind: str, reason: str | None) -> dict[str, Any]:
    choice = {"index": 0, place: message, "finish_reason": reason}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": "chat_1", "object": kind, "created": 1, "model": MODEL, "choices": [choice], "usage": usage}


def _chat_whole(tool: str | None, arguments: Mapping[str, Any], text: str) -> dict[str, Any]:
    message, reason = _chat_message(tool, arguments, text)
    return _chat(message, place="message", kind="chat.completion", reason=reason)


def _chat_events(
    tool: str | None, arguments: Mapping[str, Any], text: str
) -> Iterator[tuple[str | None, dict[str, Any] | str]]:
    message, reason = _chat_message(tool, arguments, text)
    yield None, _chat(message, place="delta", kind="chat.completion.chunk", reason=None)
    yield None, _chat({}, place="delta", kind="chat.completion.chunk", reason=reason)
    yield None, "[DONE]"


def _responses_read(body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    tools = []
    for tool in body.get("tools") or ():
        if tool.get("type") == "namespace":  # Codex groups the tools of a server
            tools += [f"{tool['name']}/{inner['name']}" for inner in tool.get("tools", ())]
        elif "name" in tool:
            tools.append(tool["name"])
    items = body.get("input") or ()
    results = [
        _texts(item.get("output", ""))
        for item in (items if isinstance(items, list) else ())
        if item.get("type") in ("function_call_output", "custom_tool_call_output")
    ]
    return tools, results


def _response(output: list[dict[str, Any]], *, status: str) -> dict[str, Any]:
    usage = {
        "input_tokens": 1,
        "output_tokens": 1,
        "total_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": MODEL,
        "status": status,
        "output": output,
        "usage": usage,
    }


def _responses_item(tool: str | None, arguments: Mapping[str, Any], text: str) -> dict[str, Any]:
    if tool:
        space, _, name = tool.rpartition("/")
        return {
            "id": _id("fc"),
            "type": "function_call",
            "status": "completed",
            "call_id": _id("call"),
            "name": name,
            "arguments": json.dumps(arguments),
        } | ({"namespace": space} if space else {})
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": _id("msg"), "type": "message", "status": "completed", "role": "assistant", "content": content}


def _responses_whole(tool: str | None, arguments: Mapping[str, Any], text: str) -> dict[str, Any]:
    return _response([_responses_item(tool, arguments, text)], status="completed")


def _responses_events(
    tool: str | None, arguments: Mapping[str, Any], text: str
) -> Iterator[tuple[str | None, dict[str, Any] | str]]:
    item = _responses_item(tool, arguments, text)
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _response([], status="in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": item | {"status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": _response([item], status="completed")},
    ]
    for place, event in enumerate(events):
        yield str(event["type"]), event | {"sequence_number": place}


def _gemini_read(body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    tools = [
        declared["name"]
        for group in body.get("tools") or ()
        for declared in group.get("functionDeclarations") or group.get("function_declarations") or ()
    ]
    results = [
        _texts(part["functionResponse"].get("response", ""))
        for content in body.get("contents", ())
        for part in content.get("parts", ())
        if "functionResponse" in part
    ]
    return tools, results


def _gemini_whole(tool: str | None, arguments: Mapping[str, Any], text: str) -> dict[str, Any]:
    part = {"functionCall": {"name": tool, "args": dict(arguments)}} if tool else {"text": text}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL}


def _gemini_events(
    tool: str | None, arguments: Mapping[str, Any], text: str
) -> Iterator[tuple[str | None, dict[str, Any] | str]]:
    yield None, _gemini_whole(tool, arguments, text)


ANTHROPIC = Form("anthropic", _anthropic_read, _anthropic_whole, _anthropic_events)
CHAT = Form("chat", _chat_read, _chat_whole, _chat_events)
RESPONSES = Form("responses", _responses_read, _responses_whole, _responses_events)
GEMINI = Form("gemini", _gemini_read, _gemini_whole, _gemini_events)


def form_of(path: str) -> Form | None:
    """The API that this address belongs to; None for none of the four."""
    plain = path.partition("?")[0].rstrip("/")
    if plain.endswith("/messages"):
        return ANTHROPIC
    if plain.endswith("/chat/completions"):
        return CHAT
    if plain.endswith("/responses"):
        return RESPONSES
    return GEMINI if plain.endswith(("generateContent", "GenerateContent")) else None


# --- the server ------------------------------------------------------------------------


class ScriptedModel:
    """A local server in place of a model. `requests` are those that it received, in order."""

    def __init__(self, plan: Sequence[Call], *, final: str = FINAL) -> None:
        self.plan = tuple(plan)
        self.final = final
        self.requests: list[Request] = []
        self.unknown: list[str] = []  # requested addresses that belong to no API
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> ScriptedModel:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def turns(self) -> list[Request]:
        """The requests that offered one of the planned tools, which those for titles and summaries do not."""
        return [request for request in self.requests if any(request.find_tool(call.tool) for call in self.plan)]

    def answer(self, form: Form, path: str, body: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any], str]:
        tools, results = form.read(body)
        request = Request(form.name, path, body, tuple(tools), tuple(results))
        with self._lock:
            self.requests.append(request)
        for call in self.plan[len(results) :]:
            tool = request.find_tool(call.tool)
            if tool is not None:
                return tool, call.filled(request), ""
            break
        schema = _wanted_schema(body)
        return None, {}, self.final if schema is None else json.dumps(_example(schema))


# Where the four APIs name the JSON schema of the text that a host wants.
_SCHEMA_PLACES = (
    ("output_config", "format", "schema"),
    ("response_format", "json_schema", "schema"),
    ("text", "format", "schema"),
    ("generationConfig", "responseJsonSchema"),
    ("generationConfig", "responseSchema"),
)


def _wanted_schema(body: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The schema of the text that is wanted. Without it, Gemini CLI asks for minutes how hard the task is."""
    for place in _SCHEMA_PLACES:
        found: Any = body
        for name in place:
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping):
            return found
    return None


def _example(schema: Mapping[str, Any]) -> Any:
    """A small value of that schema."""
    if schema.get("enum"):
        return schema["enum"][0]
    kind = str(schema.get("type", "string")).lower()
    if kind == "object":
        return {name: _example(part) for name, part in schema.get("properties", {}).items()}
    values = {"string": FINAL, "integer": 1, "number": 1, "boolean": False, "array": []}
    return values.get(kind)


def _handler(model: ScriptedModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode())

        def do_HEAD(self) -> None:
            self._send(b"")

        def do_POST(self) -> None:
            body = json.loads(_decoded(self._body(), self.headers.get("Content-Encoding", "")) or b"{}")
            form = form_of(self.path)
            if self.path.partition("?")[0].endswith("/count_tokens"):
                self._send(b'{"input_tokens":1}')
            elif form is None:
                model.unknown.append(self.path)
                self._send(b"{}", status=404)
            else:
                tool, arguments, text = model.answer(form, self.path, body)
                streamed = bool(body.get("stream")) or "streamGenerateContent" in self.path
                if streamed:
                    lines = "".join(_event(*event) for event in form.events(tool, arguments, text))
                    self._send(lines.encode(), kind="text/event-stream")
                else:
                    self._send(json.dumps(form.whole(tool, arguments, text)).encode())

        def _body(self) -> bytes:
            if "chunked" in self.headers.get("Transfer-Encoding", ""):
                parts = []
                while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)
            return self.rfile.read(min(int(self.headers.get("Content-Length") or 0), LONGEST_BODY))

        def _send(self, data: bytes, *, kind: str = "application/json", status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Does nothing: requests are recorded, not printed."""

    return Handler


def _event(name: str | None, data: dict[str, Any] | str) -> str:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "") + f"data: {text}\n\n"


def _decoded(data: bytes, encoding: str) -> bytes:
    """Decompress a body; zstd needs the package `zstandard`."""
    if encoding == "gzip":
        return gzip.decompress(data)
    if encoding == "deflate":
        return zlib.decompress(data)
    if encoding == "zstd":
        import zstandard

        return bytes(zstandard.ZstdDecompressor().stream_reader(data).read())
    return data
