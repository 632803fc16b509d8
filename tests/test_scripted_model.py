"""Does the model that the tests of real hosts talk to speak all four forms, streamed and whole?"""

from __future__ import annotations

import gzip
import json
import urllib.request
from typing import Any

import pytest

from tools.scripted_model import FINAL, Call, ScriptedModel
from tools.turns import excerpt, transcript

TOOL = "mcp__spec_kit_memory__memory_search"
BODIES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # form -> address, a first request, and the messages that carry a tool's answer
    "anthropic": (
        "/v1/messages",
        {"tools": [{"name": TOOL}], "messages": []},
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"text": "found it"}]}]}]},
    ),
    "chat": (
        "/v1/chat/completions",
        {"tools": [{"type": "function", "function": {"name": TOOL}}], "messages": []},
        {"messages": [{"role": "tool", "content": "found it"}]},
    ),
    "responses": (
        "/v1/responses",
        {"tools": [{"type": "function", "name": TOOL}], "input": []},
        {"input": [{"type": "function_call_output", "output": "found it"}]},
    ),
    "gemini": (
        "/v1beta/models/any:generateContent",
        {"tools": [{"functionDeclarations": [{"name": TOOL}]}], "contents": []},
        {"contents": [{"parts": [{"functionResponse": {"response": {"text": "found it"}}}]}]},
    ),
}


def post(url: str, body: dict[str, Any], *, packed: bool = False) -> str:
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} | ({"Content-Encoding": "gzip"} if packed else {})
    request = urllib.request.Request(url, gzip.compress(data) if packed else data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("form", BODIES)
def test_the_planned_call_comes_first_and_then_a_text(form: str, streamed: bool) -> None:
    path, first, answered = BODIES[form]
    stream = {"stream": True} if streamed else {}
    if streamed and form == "gemini":
        path, stream = path.replace("generateContent", "streamGenerateContent") + "?alt=sse", {}
    with ScriptedModel([Call("memory_search", {"query": "why"})]) as model:
        called = post(model.url + path, first | stream)
        ended = post(model.url + path, first | answered | stream, packed=True)
    assert TOOL in called
    assert "why" in called
    assert FINAL not in called
    assert FINAL in ended
    assert TOOL not in ended
    assert [request.form for request in model.requests] == [form, form]
    assert model.turns[1].results == ("found it",)


def test_a_request_without_the_tool_is_not_one_of_the_agents() -> None:
    with ScriptedModel([Call("memory_search")]) as model:
        title = post(model.url + "/v1/messages", {"messages": [{"role": "user", "content": "a title"}]})
    assert FINAL in title
    assert len(model.requests) == 1
    assert model.turns == []


@pytest.mark.parametrize("form", BODIES)
def test_a_turn_is_told_in_a_few_lines(form: str) -> None:
    path, first, answered = BODIES[form]
    plan = [Call("memory_search", {"query": "why"})]
    with ScriptedModel(plan) as model:
        for body in (first, first, first | answered | {"remembered": "What the hook adds: rules."}):  # one is repeated
            post(model.url + path, body)
    lines = transcript(model.turns, plan, prompt="Why\nso?", hooks=["What the hook adds"], tools=1).splitlines()
    assert lines == [
        "host   offers 1 tools of ours",
        "host   Why so?",
        f'model  {TOOL} {{"query": "why"}}',
        "host   found it (2 tokens)",
        f"model  {FINAL}",
    ]
    assert transcript(model.turns[:1], plan, prompt="Why?", hooks=[], tools=1).splitlines()[1:] == ["host   Why?"]


@pytest.mark.parametrize(
    ("form", "asked"),
    [
        ("anthropic", {"output_config": {"format": {"type": "json_schema", "schema": "S"}}}),
        ("chat", {"response_format": {"type": "json_schema", "json_schema": {"schema": "S"}}}),
        ("responses", {"text": {"format": {"type": "json_schema", "schema": "S"}}}),
        ("gemini", {"generationConfig": {"responseJsonSchema": "S"}}),
    ],
)
def test_a_side_question_that_wants_json_gets_json(form: str, asked: dict[str, Any]) -> None:
    schema = {
        "type": "OBJECT",
        "properties": {"why": {"type": "STRING"}, "score": {"type": "INTEGER"}, "kind": {"enum": ["easy"]}},
    }
    data = json.loads(json.dumps(asked).replace('"S"', json.dumps(schema)))
    with ScriptedModel([Call("memory_search")]) as model:
        response = post(model.url + BODIES[form][0], data)
    assert json.loads(excerpt(json.loads(response), "{")) == {"why": FINAL, "score": 1, "kind": "easy"}
