"""Several real processes on one workspace: what one of them wrote, the others see; one watches, another takes over."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

SECONDS = 120.0


def environment(root: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPEC_KIT_MEMORY_")}
    return kept | {
        "SPEC_KIT_MEMORY_WORKSPACE": str(root),
        "SPEC_KIT_MEMORY_USER_CONFIG": str(root / "no-such-file"),
        "SPEC_KIT_MEMORY_SEMANTIC_MODEL": "none",
        **more,
    }


class Server:
    """A server on standard input and output, asked one thing after the other."""

    def __init__(self, root: Path, **more: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "spec_kit_memory", "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(root, **more),
            cwd=root,
        )
        self._number = 0
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self._ask("initialize", client)
        self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    @property
    def pid(self) -> int:
        return self._process.pid

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._say({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            data: dict[str, Any] = json.loads(self._process.stdout.readline())
            if data.get("id") == self._number:
                return data

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self._ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        content: dict[str, Any] = result["structuredContent"]
        assert not result.get("isError"), content
        data: dict[str, Any] = content["data"]
        return data

    def found(self, query: str) -> list[str]:
        return [result["path"] for result in self.call("memory_search", query=query, limit=50)["results"]]

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self.wait()

    def end(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(SECONDS)
        self.wait()

    def wait(self) -> None:
        self._process.wait(SECONDS)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    memory = folder / "specs/007-auth/memory"
    memory.mkdir(parents=True)
    (memory / "first.md").write_text("# Tokens\n\nWe chose refresh tokens.\n", encoding="utf-8")
    return Path(os.path.realpath(folder))


@pytest.fixture
def serve(root: Path) -> Iterator[Callable[..., Server]]:
    running: list[Server] = []

    def start(**more: str) -> Server:
        running.append(Server(root, **more))
        return running[-1]

    yield start
    for server in running:
        server.end()


def eventually(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    pause = threading.Event()
    while not true():
        assert time.monotonic() < deadline, what
        pause.wait(0.1)


def replace_by_rename(path: Path, text: str) -> None:
    """As careful editors write: another file first, then its name."""
    fresh = path.with_name(f".{path.name}.swp")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, path)


@pytest.mark.timeout(240)
def test_what_one_server_saved_another_finds_at_once(serve: Callable[..., Server]) -> None:
    one, two = serve(), serve()
    for number in range(5):
        word = f"quokka{number}"
        saved = one.call("memory_save", context={"sessionSummary": f"A {word} was seen."}, specFolder="007-auth")
        assert two.found(word) == [saved["path"]]
        two.call("memory_update", id=saved["id"], title=f"Numbat {number}")
        assert one.call("memory_load", memoryId=saved["id"])["memory"]["title"] == f"Numbat {number}"
        one.call("memory_delete", id=saved["id"])
        assert two.found(word) == []


@pytest.mark.timeout(300)
def test_the_index_follows_the_files_and_another_server_takes_over(root: Path, serve: Callable[..., Server]) -> None:
    one, two = serve(), serve()
    eventually(lambda: one.found("refresh tokens") != [], "the first scan")
    memory = root / "specs/007-auth/memory"

    replace_by_rename(memory / "first.md", "# Tokens\n\nWe chose wombats instead.\n")
    eventually(lambda: two.found("wombats") == ["specs/007-auth/memory/first.md"], "an editor's replacement")
    assert two.found("refresh") == []

    other = root / "specs/008-billing/memory"
    other.mkdir(parents=True)
    (other / "new.md").write_text("# Billing\n\nThe bilby pays.\n", encoding="utf-8")
    eventually(lambda: one.found("bilby") != [], "a new folder")
    os.rename(root / "specs/008-billing", root / "specs/009-invoices")
    eventually(lambda: one.found("bilby") == ["specs/009-invoices/memory/new.md"], "a renamed folder")
    shutil.rmtree(root / "specs/009-invoices")
    eventually(lambda: two.found("bilby") == [], "a removed folder")

    # Whichever of the two watches, one of these deaths is the watcher's.
    for dying, left in ((one, two),):
        watching = int(watcher_of(root) or 0)
        if watching == left.pid:
            dying, left = left, dying
        dying.kill()
        (memory / "after.md").write_text("# After\n\nThe dibbler survived.\n", encoding="utf-8")
        eventually(lambda left=left: left.found("dibbler") != [], "another server takes over")  # type: ignore[misc]


def watcher_of(root: Path) -> int | None:
    from spec_kit_memory.files import locks
    from spec_kit_memory.settings import Settings

    return locks.holder(Settings(root=root), "watch.lock")


@pytest.mark.timeout(300)
def test_a_checkout_that_touches_a_thousand_files_is_followed(root: Path, serve: Callable[..., Server]) -> None:
    server = serve()
    eventually(lambda: server.found("refresh tokens") != [], "the first scan")
    memory = root / "specs/007-auth/memory"
    for number in range(1000):
        (memory / f"n{number}.md").write_text(f"# Note {number}\n\nA potoroo, number {number}.\n", encoding="utf-8")
    eventually(lambda: server.call("memory_stats")["totals"]["memories"] == 1001, "a thousand new files")
    for number in range(1000):
        path = memory / f"n{number}.md"
        path.write_text(f"# Note {number}\n\nA bandicoot, number {number}.\n", encoding="utf-8")
    eventually(lambda: server.call("memory_search", query="potoroo")["totalFound"] == 0, "a thousand edits")
    for number in range(1000):
        (memory / f"n{number}.md").unlink()
    eventually(lambda: server.call("memory_stats")["totals"]["memories"] == 1, "a thousand deletions")
    health = server.call("memory_health")
    assert health["healthy"], health["problems"]


@pytest.mark.timeout(240)
def test_where_there_are_no_events_it_looks(root: Path, serve: Callable[..., Server]) -> None:
    server = serve(SPEC_KIT_MEMORY_WATCH="poll")
    eventually(lambda: server.found("refresh tokens") != [], "the first scan")
    replace_by_rename(root / "specs/007-auth/memory/first.md", "# Tokens\n\nWe chose numbats.\n")
    eventually(lambda: server.found("numbats") != [], "polling")


SAVER = """
import sys
from pathlib import Path
from datetime import UTC, datetime
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
root, who = Path(sys.argv[1]), sys.argv[2]
minute = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
with Workspace(Settings(root=root, semantic=Semantic(model="none")), now=lambda: minute) as workspace:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(15):
        answer = workspace.save(context={"title": "Same", "sessionSummary": f"Words of {who} number {number}."})
        print(answer.path, flush=True)
"""


@pytest.mark.timeout(240)
def test_saves_of_several_processes_in_one_minute_never_share_a_name(tmp_path: Path) -> None:
    root = Path(os.path.realpath(tmp_path / "plain"))
    root.mkdir()
    savers = [
        subprocess.Popen(
            [sys.executable, "-c", SAVER, str(root), f"process {number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for saver in savers:
        assert saver.stdout is not None
        assert saver.stdout.readline() == "ready\n"
    paths = []
    for saver in savers:
        assert saver.stdin is not None
        saver.stdin.write("go\n")
        saver.stdin.flush()
    for saver in savers:
        paths += saver.communicate(timeout=SECONDS)[0].split()
        assert saver.returncode == 0
    assert len(set(paths)) == len(paths) == 60
    texts = {(root / path).read_text(encoding="utf-8") for path in paths}
    assert len(texts) == 60, "nothing was overwritten"
    json.loads((root / "memory/metadata.json").read_bytes())
    with Workspace(Settings(root=root, semantic=Semantic(model="none"))) as workspace:
        assert workspace.list(limit=1).total == 60
        assert workspace.health().healthy
        assert workspace.stats().transactions["atomic_writes"] == 60
