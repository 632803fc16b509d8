"""What a host hears before the SDK is imported: the SDK's own answers, each once, whatever comes after."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.serve import render
from spec_kit_memory.serve.mcp.handshake import FirstAnswers, wants_stdio
from tests.serve.test_stdio import INITIALIZE, INITIALIZED, environment, hear, root, say, started
from tools import first_answers

__all__ = ["root"]

ENVELOPE = first_answers.ENVELOPE
DISCOVER = {"jsonrpc": "2.0", "id": "probe", "method": "server/discover", "params": {"_meta": ENVELOPE}}
FUTURE = {**ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}
DISCOVER_FUTURE = {**DISCOVER, "params": {"_meta": FUTURE}}
DISCOVER_MORE = {**DISCOVER, "params": {"_meta": ENVELOPE, "more": 1}}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
MODERN_LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": ENVELOPE}}
PROMPTS = {"jsonrpc": "2.0", "id": 21, "method": "prompts/list"}
TEMPLATES = {"jsonrpc": "2.0", "id": 22, "method": "resources/templates/list"}
MODERN_PROMPTS = {**PROMPTS, "params": {"_meta": ENVELOPE}}
RESOURCES = {"jsonrpc": "2.0", "id": 23, "method": "resources/list"}
MODERN_RESOURCES = {**RESOURCES, "params": {"_meta": ENVELOPE}}
MODERN_READ = {
    "jsonrpc": "2.0",
    "id": 24,
    "method": "resources/read",
    "params": {"uri": "memory://constitutional", "_meta": ENVELOPE},
}
SEARCH = {"name": "memory_search", "arguments": {"query": "token"}}
CALL = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": SEARCH}
MODERN_CALL = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {**SEARCH, "_meta": ENVELOPE}}


def line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def ended(process: subprocess.Popen[bytes], *, answers: int = 0) -> list[dict[str, Any]]:
    """That many answers, and everything that a server still says after its input was closed then."""
    heard = [hear(process.stdout) for _ in range(answers)]
    out, _ = process.communicate(timeout=120)
    return heard + [json.loads(each) for each in out.splitlines()]


def test_the_answers_that_are_kept_are_the_sdks_own() -> None:
    assert first_answers.FILE.read_text(encoding="utf-8") == first_answers.made(), "run python -m tools.first_answers"


@pytest.mark.parametrize(
    "messages",
    [
        [INITIALIZE, INITIALIZED, PROMPTS, TEMPLATES, RESOURCES, LIST],
        [DISCOVER, MODERN_LIST],
        # What the front does not know must not keep it from answering what comes after.
        [DISCOVER, MODERN_READ, MODERN_RESOURCES, MODERN_PROMPTS, MODERN_LIST],
    ],
    ids=["older", "newer", "newer, tools last"],
)
def test_hosts_are_answered_though_the_sdk_is_not_there_yet(
    root: Path, tmp_path: Path, messages: list[dict[str, Any]]
) -> None:
    # A package that is found before the real one and never done importing.
    stuck = tmp_path / "stuck"
    stuck.mkdir()
    (stuck / "anyio.py").write_text("import time\ntime.sleep(600)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "spec_kit_memory", "serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(root) | {"PYTHONPATH": str(stuck)},
        cwd=root,
    )
    try:
        say(process, *messages)
        wanted = [message["id"] for message in messages if "id" in message and message is not MODERN_READ]
        answers = [hear(process.stdout) for _ in wanted]
        assert [answer["id"] for answer in answers] == wanted
        assert len(answers[-1]["result"]["tools"]) == 21
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("pause", [False, True], ids=["at once", "one by one"])
@pytest.mark.parametrize(
    "messages",
    [
        [INITIALIZE, INITIALIZED, LIST, CALL],
        [DISCOVER, INITIALIZE, INITIALIZED, LIST, CALL],
        [DISCOVER_FUTURE, INITIALIZE, INITIALIZED, LIST, CALL],
        [DISCOVER_FUTURE, DISCOVER_MORE, INITIALIZE, INITIALIZED, LIST, CALL],
        [DISCOVER, {**DISCOVER, "id": "again"}, MODERN_LIST, MODERN_CALL],
        [INITIALIZE, INITIALIZED, LIST, LIST, CALL],
        [MODERN_RESOURCES, MODERN_PROMPTS, MODERN_LIST, MODERN_CALL],
        [MODERN_CALL],
    ],
    ids=[
        "older",
        "older after a question",
        "older after a question in a version of the future",
        "older after two questions",
        "newer",
        "older, an id used twice",
        "newer, tools last",
        "newer without a question",
    ],
)
def test_every_request_is_answered_exactly_once(root: Path, messages: list[dict[str, Any]], pause: bool) -> None:
    process = started(root)
    heard = []
    if pause:
        for message in messages:
            say(process, message)
            if "id" in message:
                heard.append(hear(process.stdout))
    else:
        say(process, *messages)
    heard += ended(process, answers=0 if pause else sum("id" in message for message in messages))
    assert sorted(str(answer["id"]) for answer in heard) == sorted(str(each["id"]) for each in messages if "id" in each)
    result = next(answer for answer in heard if answer["id"] == 3)
    assert "Token decision" in result["result"]["content"][0]["text"]


def test_resources_are_heard_of_at_once_and_the_folders_when_a_host_asks_again(root: Path) -> None:
    """Claude Code does not offer our tools to its model before it has heard of the resources."""
    (root / "specs/001-first").mkdir(parents=True)
    (root / "specs/001-first/spec.md").write_text("# First\n\nSomething.\n")
    process = started(root)
    say(process, INITIALIZE, INITIALIZED, RESOURCES)
    assert hear(process.stdout)["id"] == 1
    assert [each["uri"] for each in hear(process.stdout)["result"]["resources"]] == ["memory://constitutional"]
    say(process, CALL)
    assert hear(process.stdout)["id"] == 3
    say(process, {**RESOURCES, "id": 25})
    (again,) = ended(process)
    assert "memory://folder/001-first" in [each["uri"] for each in again["result"]["resources"]]


def test_a_version_that_nobody_speaks_is_refused_as_the_sdk_refuses_it(root: Path) -> None:
    process = started(root)
    say(process, DISCOVER_FUTURE)
    (ours,) = ended(process)
    process = started(root)
    # A connection that has begun is the SDK's, and so is its answer.
    say(process, MODERN_LIST, DISCOVER_FUTURE)
    theirs = next(answer for answer in ended(process, answers=2) if answer["id"] == "probe")
    assert ours == theirs


def test_requests_that_are_piped_in_are_answered_though_the_pipe_is_closed(root: Path) -> None:
    messages = b"".join(map(line, (INITIALIZE, INITIALIZED, CALL, {**CALL, "id": 4})))
    done = subprocess.run(
        [sys.executable, "-m", "spec_kit_memory", "serve"],
        input=messages,
        capture_output=True,
        env=environment(root),
        cwd=root,
        timeout=120,
        check=True,
    )
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert sorted(answers) == [1, 3, 4]
    assert all("Token decision" in answers[number]["result"]["content"][0]["text"] for number in (3, 4))


def test_a_question_that_comes_late_does_not_decide_the_era(root: Path) -> None:
    """The SDK reads by then, and would take the question for the choice of the newer protocol."""
    process = started(root)
    say(process, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}})
    state = root / ".spec-kit-memory"
    deadline = time.monotonic() + 2
    while not state.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    say(process, DISCOVER)
    assert hear(process.stdout)["id"] == "probe"
    say(process, INITIALIZE, INITIALIZED, CALL)
    assert [answer["id"] for answer in ended(process, answers=2)] == [1, 3]


def test_a_message_that_comes_in_pieces_is_one_message(root: Path) -> None:
    process = started(root)
    assert process.stdin is not None
    data = line(INITIALIZE) + line(INITIALIZED) + line(CALL)
    for start in range(0, len(data), 37):
        process.stdin.write(data[start : start + 37])
        process.stdin.flush()
    assert [answer["id"] for answer in ended(process, answers=2)] == [1, 3]


def test_the_last_line_needs_no_end(root: Path) -> None:
    process = started(root)
    assert process.stdin is not None
    process.stdin.write(line(INITIALIZE) + line(INITIALIZED) + line(LIST).rstrip())
    assert [answer["id"] for answer in ended(process)] == [1, 2]


@pytest.mark.parametrize(
    "odd",
    [
        b"not json\n",
        b"[]\n",
        line({"jsonrpc": "2.0", "id": True, "method": "initialize", "params": INITIALIZE["params"]}),
        line({"jsonrpc": "2.0", "id": None, "method": "tools/list"}),
        line({"jsonrpc": "1.0", "id": 1, "method": "ping"}),
        line({"jsonrpc": "2.0", "id": 1, "method": "initialize"}),
        line({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 7}}),
        line({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        line({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"cursor": "x"}}),
        line({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}),
        line({"jsonrpc": "2.0", "id": 1, "method": ["initialize"]}),
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":' + b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_not_of_the_common_form_is_left_to_the_sdk(odd: bytes) -> None:
    assert FirstAnswers(lean=False).answer(odd) == (None, True)


def test_a_host_that_wants_progress_is_answered_at_once() -> None:
    """Codex asks so, and does not wait for the rest of the server to be imported."""
    answers = FirstAnswers(lean=False)
    assert answers.answer(line(INITIALIZE))[0] is not None
    wanting = {**LIST, "params": {"_meta": {"progressToken": 0}}}
    assert answers.answer(line(wanting)) == answers.answer(line(LIST))
    assert answers.answer(line(MODERN_LIST)) == (None, True)


def test_a_second_handshake_is_left_to_the_sdk() -> None:
    answers = FirstAnswers(lean=False)
    assert answers.answer(line(INITIALIZE))[0] is not None
    assert answers.answer(line(INITIALIZE)) == (None, True)
    assert answers.answer(line(DISCOVER)) == (None, True)


def test_two_requests_with_one_id_both_get_their_own_answer(root: Path) -> None:
    """The first is left to the SDK. Were the second answered early, the wrong one of two answers would be dropped."""
    process = started(root)
    say(process, {**INITIALIZE, "jsonrpc": "1.0"}, INITIALIZE, INITIALIZED, LIST)
    heard = [hear(process.stdout) for _ in range(3)]
    assert sorted(("error" in answer, answer["id"]) for answer in heard) == [(False, 1), (False, 2), (True, 1)]
    assert ended(process) == []


def test_an_unknown_version_is_answered_with_the_newest_there_is() -> None:
    params = {**INITIALIZE["params"], "protocolVersion": "2099-01-01"}  # type: ignore[dict-item]
    answer, _ = FirstAnswers(lean=False).answer(line({**INITIALIZE, "params": params}))
    assert answer is not None
    assert json.loads(answer)["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["serve"], True),
        (["--workspace", "there", "serve", "--tools", "lean"], True),
        (["serve", "--workspace", "there"], True),
        (["serve", "--http"], False),
        (["serve", "--help"], False),
        (["search", "serve"], False),
        (["save", "--text", "serve"], False),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="pipes cannot be waited for there")
def test_only_a_server_on_standard_input_has_a_front(arguments: list[str], expected: bool) -> None:
    assert wants_stdio(arguments) is expected


def test_the_lean_list_is_the_lean_one(root: Path) -> None:
    process = started(root, "--tools", "lean")
    say(process, INITIALIZE, INITIALIZED, LIST)
    listed = next(answer for answer in ended(process) if answer["id"] == 2)["result"]["tools"]
    assert len(listed) == 6


def test_a_wrong_option_still_ends_with_a_usage_error(root: Path) -> None:
    process = started(root, "--no-such-option")
    _, told = process.communicate(timeout=120)
    assert process.returncode == 2
    assert b"--no-such-option" in told


@pytest.mark.parametrize(
    ("version", "structured"), [("2024-11-05", False), ("2025-03-26", False), ("2025-06-18", True)]
)
def test_nothing_structured_is_sent_to_clients_that_do_not_know_it(root: Path, version: str, structured: bool) -> None:
    hello = {**INITIALIZE, "params": {**INITIALIZE["params"], "protocolVersion": version}}  # type: ignore[dict-item]
    process = started(root)
    wrong = {**CALL, "id": 4, "params": {"name": "memory_search", "arguments": {}}}
    say(process, hello, INITIALIZED, LIST, CALL, wrong)
    heard = {answer["id"]: answer["result"] for answer in ended(process, answers=4)}
    assert all(("outputSchema" in tool) is structured for tool in heard[2]["tools"])
    assert ("structuredContent" in heard[3]) is structured
    assert ("structuredContent" in heard[4]) is structured
    assert heard[4]["isError"]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed: nothing here speaks JavaScript")
def test_text_and_structured_content_are_the_same_bytes_to_a_host_in_javascript(root: Path) -> None:
    (root / "memory").mkdir()
    (root / "memory/years.md").write_text("# Years\n\n## 2024\n\nToken.\n\n## 7\n\nToken \u2028 \x7f \x1f token.\n")
    process = started(root)
    calls = [
        ("memory_search", {"query": "token", "explain": True, "includeContent": True}),
        ("memory_context", {"prompt": "token"}),
        ("memory_stats", {}),
        ("memory_health", {}),
        ("memory_list", {}),
        ("memory_load", {"memoryId": 1}),
        ("memory_history", {}),
        ("memory_search", {}),
    ]
    requests = [
        {"jsonrpc": "2.0", "id": 10 + place, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        for place, (name, arguments) in enumerate(calls)
    ]
    say(process, INITIALIZE, INITIALIZED, *requests)
    results = [answer["result"] for answer in ended(process, answers=1 + len(calls)) if answer["id"] != 1]
    program = (
        "const results = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "console.log(JSON.stringify(results.map(r => JSON.stringify(r.structuredContent) === r.content[0].text)))"
    )
    sent = json.dumps(results, ensure_ascii=False).encode()
    compared = subprocess.run(["node", "-e", program], input=sent, capture_output=True, check=True, timeout=180)
    assert json.loads(compared.stdout) == [True] * len(calls)


@pytest.mark.parametrize(
    ("number", "written"),
    [(12.0, "12"), (0.5, "0.5"), (0.000001, "0"), (0.00012, "0.00012"), (1e18, "1000000000000000000"), (-0.0, "0")],
)
def test_numbers_are_written_as_javascript_writes_them(number: float, written: str) -> None:
    assert render.compact(render.value(number)) == written
