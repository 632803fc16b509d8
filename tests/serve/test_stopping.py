"""Does the process end when it is told to, whatever it is doing?"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals to send")

SECONDS = 120.0  # a deadline, never a measure: what did not end, did not end at all
STOPS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
SEARCH = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "memory_search", "arguments": {"query": "x"}},
}
HANG = {
    "a thread that waits": "time.sleep(10_000)",
    "a thread that computes": "[None for _ in iter(int, 1)]",
    "a thread that reads a pipe": "open(marker + '.pipe').read()",
}
# The commands of this package with one verb that never ends; a file says when it was reached.
PROGRAM = """
import os, sys, time
from spec_kit_memory.workspace import Workspace
marker = sys.argv[1]
def never(self, *_, **__):
    open(marker, "w").close()
    {hang}
Workspace.{verb} = never
from spec_kit_memory.serve.cli.main import main
main(sys.argv[2:])
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work" / "memory").mkdir(parents=True)
    (tmp_path / "work" / "memory" / "a.md").write_text("# A\n\nText.\n")
    os.mkfifo(tmp_path / "reached.pipe")
    return tmp_path / "work"


@contextmanager
def running(root: Path, *words: str, hang: str = "", verb: str = "search") -> Iterator[subprocess.Popen[bytes]]:
    program = (
        PROGRAM.format(hang=hang, verb=verb) if hang else "from spec_kit_memory.serve.cli.main import main; main()"
    )
    arguments = [str(root.parent / "reached")] if hang else []
    words = (*words, "--workspace", str(root), "--set", "semantic.model=hashing")
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "XDG_STATE_HOME": str(root.parent / "state")},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def say(process: subprocess.Popen[bytes], *messages: object) -> None:
    assert process.stdin is not None
    process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
    process.stdin.flush()


@STOPS
def test_a_server_that_waits_for_its_host_ends(root: Path, number: int) -> None:
    with running(root, "serve") as process:
        say(process, INITIALIZE)
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(SECONDS) == 0


@STOPS
@pytest.mark.parametrize("hang", HANG)
def test_a_server_ends_in_the_middle_of_a_call_that_does_not(root: Path, number: int, hang: str) -> None:
    with running(root, "serve", hang=HANG[hang]) as process:
        say(process, INITIALIZE, INITIALIZED, SEARCH)
        until((root.parent / "reached").exists)
        process.send_signal(number)
        assert process.wait(SECONDS) == 0


@STOPS
@pytest.mark.parametrize("hang", HANG)
def test_a_server_over_http_ends_in_the_middle_of_a_call_that_does_not(root: Path, number: int, hang: str) -> None:
    with running(root, "serve", "--http", "--port", "0", "--no-token", hang=HANG[hang]) as process:
        assert process.stderr is not None
        match = re.search(rb"http://\S+", process.stderr.readline())
        assert match
        threading.Thread(target=_search, args=(match[0].decode(),), daemon=True).start()
        until((root.parent / "reached").exists)
        process.send_signal(number)
        assert process.wait(SECONDS) == 0


def _search(address: str) -> None:
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

    def post(message: object) -> Any:
        return urllib.request.urlopen(urllib.request.Request(address, json.dumps(message).encode(), headers))

    try:
        with post(INITIALIZE) as answer:
            headers |= {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        post(INITIALIZED).close()
        post(SEARCH).close()
    except OSError:
        return  # the server has ended under us


@STOPS
@pytest.mark.parametrize("hang", HANG)
def test_a_command_ends_in_the_middle_of_its_work(root: Path, number: int, hang: str) -> None:
    with running(root, "search", "x", hang=HANG[hang]) as process:
        until((root.parent / "reached").exists)
        process.send_signal(number)
        assert process.wait(SECONDS) in (130, -number)


@STOPS
@pytest.mark.parametrize("hang", HANG)
def test_a_watch_ends_before_there_is_anything_to_watch(root: Path, number: int, hang: str) -> None:
    with running(root, "watch", hang=HANG[hang], verb="index") as process:
        until((root.parent / "reached").exists)
        process.send_signal(number)
        assert process.wait(SECONDS) == 130


@STOPS
def test_a_watch_ends(root: Path, number: int) -> None:
    with running(root, "watch") as process:
        assert process.stderr is not None
        until(lambda: b"Watching" in process.stderr.readline())  # type: ignore[union-attr]
        process.send_signal(number)
        assert process.wait(SECONDS) == 0


@STOPS
def test_a_command_ends_while_another_process_holds_the_index(root: Path, number: int) -> None:
    subprocess.run([sys.executable, "-m", "spec_kit_memory", "index", "--workspace", str(root)], check=True)
    import apsw

    held = apsw.Connection(str(root / ".spec-kit-memory" / "index.sqlite"))
    held.execute("BEGIN EXCLUSIVE")
    try:
        with running(root, "update", "1", "--title", "Other") as process:
            time.sleep(2)  # it waits for the index now, or is about to
            process.send_signal(number)
            # Not 1: that would be the index's own deadline, which it must not need.
            assert process.wait(SECONDS) in (130, -number)
    finally:
        held.execute("ROLLBACK")
        held.close()


@STOPS
def test_an_index_that_is_stopped_in_the_middle_is_sound_and_goes_on(root: Path, number: int) -> None:
    import apsw

    notes = 400
    for note in range(notes):
        (root / "memory" / f"n{note}.md").write_text(f"# Note {note}\n\n" + f"Word{note} of the wombat.\n\n" * 40)
    (root / "MEMORY.md").write_text("# Memory\n\nWombats.\n")
    index = root / ".spec-kit-memory" / "index.sqlite"

    def has_rows() -> bool:
        if not index.exists():
            return False
        try:
            connection = apsw.Connection(str(index), flags=apsw.SQLITE_OPEN_READONLY)
            try:
                return bool(connection.execute("SELECT EXISTS (SELECT 1 FROM memory)").get)
            finally:
                connection.close()
        except apsw.Error:
            return False  # it is only being made

    with running(root, "index") as process:
        until(lambda: has_rows() or process.poll() is not None)
        process.send_signal(number)
        # 0: a machine that was busy elsewhere may have let it finish first.
        assert process.wait(SECONDS) in (0, 130, -number)
    words = ("--workspace", str(root), "--set", "semantic.model=hashing", "--json")
    for command in ("index", "health"):
        answer = subprocess.run([sys.executable, "-m", "spec_kit_memory", command, *words], capture_output=True)
        assert answer.returncode == 0, answer.stdout
    listed = subprocess.run([sys.executable, "-m", "spec_kit_memory", "list", *words], capture_output=True, check=True)
    assert json.loads(listed.stdout)["data"]["total"] > notes
    assert not [path for path in root.rglob("*") if ".tmp" in path.name]
