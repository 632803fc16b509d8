"""The server over standard input: whatever is sent, it answers in the protocol and stays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.parameters import Parameter
from spec_kit_memory.serve.tools import TOOLS, Tool
from tests.faults.talking import Answer, Talk
from tests.fuzz.material import EXAMPLES, broken, data, fuzzed

NOT_TRIED = {"memory_index_scan", "checkpoint_restore"}  # slow, and tried elsewhere


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    root = Path(os.path.realpath(tmp_path_factory.mktemp("protocol"))) / "work"
    memory = root / "specs" / "001-core" / "memory"
    memory.mkdir(parents=True)
    for number in range(5):
        (memory / f"{number}.md").write_text(f"# Note {number}\n\nThe zebra{number} walks.\n", encoding="utf-8")
    with Talk(root) as talk:
        yield talk.ready()


def value(parameter: Parameter) -> st.SearchStrategy[Any]:
    """What its schema allows, what lies just outside, and what has nothing to do with it."""
    likely: dict[str, st.SearchStrategy[Any]] = {
        "text": st.sampled_from(parameter.choices) if parameter.choices else broken,
        "path": broken,
        "integer": st.integers(-2, 2**54),
        "number": st.floats(allow_nan=False, allow_infinity=False),
        "boolean": st.booleans(),
        "texts": st.lists(broken, max_size=7),
        "object": st.dictionaries(
            st.sampled_from(["sessionSummary", "title", "keyDecisions", "nextSteps", "links"]), data, max_size=4
        ),
    }
    return st.one_of(likely[parameter.kind], data, st.just("x" * (parameter.length + 1)))


def call(tool: Tool) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    given_ = st.fixed_dictionaries({}, optional={parameter.name: value(parameter) for parameter in tool.parameters})
    return given_.map(lambda arguments: (tool.name, arguments))


calls = st.one_of([call(tool) for tool in TOOLS if tool.name not in NOT_TRIED])


@fuzzed
@given(calls)
def test_any_arguments_get_an_answer_or_a_code(server: Talk, asked: tuple[str, dict[str, Any]]) -> None:
    name, arguments = asked
    response = server.request("tools/call", {"name": name, "arguments": finite(arguments)})
    if "result" in response:
        content = response["result"]["structuredContent"]
        if response["result"]["isError"]:
            assert content["code"] != "E000", content
            assert content["message"]
    else:
        assert response["error"]["code"] < 0
    assert "Traceback" not in json.dumps(response)


def finite(thing: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(thing, float) and not abs(thing) < 1e309:
        return 0
    if isinstance(thing, dict):
        return {finite(key): finite(each) for key, each in thing.items()}
    return [finite(item) for item in thing] if isinstance(thing, list) else thing


FRAMES = [
    b"\n",
    b"   \n",
    b"not json\n",
    b"{\n",
    b"[]\n",
    b"null\n",
    b"[1, 2, 3]\n",
    b'{"jsonrpc": "2.0"}\n',
    b'{"jsonrpc": "1.0", "id": 5, "method": "tools/list"}\n',
    b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "tools/list"}\n',
    b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}\n',
    b'{"jsonrpc": "2.0", "id": 1e400, "method": "tools/list"}\n',
    b'{"jsonrpc": "2.0", "id": 7, "method": 7}\n',
    b'{"jsonrpc": "2.0", "id": 8, "method": "tools/call"}\n',
    b'{"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": []}\n',
    b'{"jsonrpc": "2.0", "id": 10, "method": "tools/call", "params": {"name": 7}}\n',
    b'{"jsonrpc": "2.0", "id": 11, "method": "tools/call", "params": {"name": "memory_search", "arguments": [1]}}\n',
    b'{"jsonrpc": "2.0", "id": 12, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}\n',
    b'{"jsonrpc": "2.0", "id": 13, "method": "resources/read", "params": {"uri": "memory://../../x"}}\n',
    b'{"jsonrpc": "2.0", "id": 14, "method": "prompts/get", "params": {"name": "nothing"}}\n',
    b'{"jsonrpc": "2.0", "id": 15, "method": "completion/complete", "params": {"ref": {}, "argument": {}}}\n',
    b'{"jsonrpc": "2.0", "id": 16, "method": "initialize", "params": {}}\n',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99999}}\n',
    b'{"jsonrpc": "2.0", "method": "notifications/nonsense"}\n',
    b'{"jsonrpc": "2.0", "id": 3, "result": {}}\n',
    b'{"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "x"}}\n',
    b"\xff\xfe\x00\x01\n",
    b"\x00" * 1000 + b"\n",
    b"[" * 100_000 + b"\n",
    b'{"jsonrpc": "2.0", "id": "' + b"x" * 1_000_000 + b'", "method": "ping"}\n',
    b'{"jsonrpc": "2.0", "id": 20, "method": "tools/call", "params": {"name": "memory_search", "arguments": {"query": "'
    + b"\\ud800" * 100
    + b'"}}}\n',
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: repr(frame[:60]))
def test_a_frame_that_makes_no_sense_is_survived(server: Talk, frame: bytes) -> None:
    server.send(frame)
    assert server.search("zebra3").titles[0] == "Note 3"


ANSWERED = [
    (b"not json\n", None, -32700),
    (b"\xff\xfe\x00\x01\n", None, -32700),
    (b"[" * 100_000 + b"\n", None, -32700),
    (b'{"jsonrpc": "2.0", "id": 901, "method": "tools/list"\n', None, -32700),
    (b"[]\n", None, -32600),
    (b'{"jsonrpc": "2.0", "id": 902, "method": 7}\n', 902, -32600),
    (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": 7}\n', "\ufffd", -32600),
    (b'{"jsonrpc": "1.0", "id": "nine", "method": "tools/list"}\n', "nine", -32600),
]


@pytest.mark.parametrize(("frame", "number", "code"), ANSWERED, ids=lambda said: repr(said)[:50])
def test_a_line_that_is_no_message_is_answered_with_the_protocols_error(
    server: Talk, frame: bytes, number: object, code: int
) -> None:
    server.request("ping", {})  # what was sent before has its answer
    server.send(frame)
    said = server.response(number)
    assert said["error"]["code"] == code
    assert said["error"]["message"]


@pytest.mark.parametrize("frame", [b"\n", b"  \n", b'{"jsonrpc": "2.0", "id": 903, "result": 7, "error": 8}\n'])
def test_an_empty_line_and_a_broken_answer_get_none(server: Talk, frame: bytes) -> None:
    server.send(frame)
    server.request("ping", {})
    assert not server.answered([903])


def test_half_a_surrogate_pair_is_a_question_like_any_other(server: Talk) -> None:
    """A host that cuts a prompt in the middle of an emoji sends it."""
    server.send(
        b'{"jsonrpc": "2.0", "id": 904, "method": "tools/call", "params": {"name": "memory_search", "arguments": '
        b'{"query": "zebra2 \\ud83d"}}}\n'
    )
    assert Answer(server.response(904)["result"]).titles[0] == "Note 2"
    server.send(
        b'{"jsonrpc": "2.0", "id": 905, "method": "tools/call", "params": {"name": "memory_save", "arguments": '
        b'{"specFolder": "001-core", "context": {"title": "Cut \\udc00off", '
        b'"sessionSummary": "An okapi \\ud83d\\ude00."}}}}\n'
    )
    assert not Answer(server.response(905)["result"]).is_error
    answer = server.search("okapi", includeContent=True)
    assert answer.titles[0] == "Cut \ufffdoff"
    assert "\U0001f600" in json.dumps(answer.data, ensure_ascii=False)


@fuzzed
@given(st.binary(max_size=200))
def test_random_bytes_are_survived(server: Talk, raw: bytes) -> None:
    server.send(raw.replace(b"\n", b" ") + b"\n")
    assert "result" in server.request("ping", {})


def test_many_requests_at_once_are_all_answered(server: Talk) -> None:
    count = min(EXAMPLES * 2, 200)
    for number in range(count):
        asked = {"name": "memory_search", "arguments": {"query": f"zebra{number % 5} {number}"}}
        message = {"jsonrpc": "2.0", "id": f"many-{number}", "method": "tools/call", "params": asked}
        server.send(json.dumps(message).encode() + b"\n")
    waiting = {f"many-{number}" for number in range(count)}
    while waiting:
        content = json.loads(server.process.stdout.readline())
        assert "error" not in content
        waiting.discard(content.get("id"))
