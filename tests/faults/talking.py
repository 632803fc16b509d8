"""A server as a real process, spoken to with plain JSON-RPC, for tests that break what it stands on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

ANSWER_SECONDS = 90.0


def environment(root: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPEC_KIT_MEMORY_")}
    return kept | {
        "SPEC_KIT_MEMORY_WORKSPACE": str(root),
        "SPEC_KIT_MEMORY_USER_CONFIG": str(root / "no-such-file"),
        "SPEC_KIT_MEMORY_SEMANTIC_MODEL": "hashing",
        **more,
    }


HOLDER = (
    "import sys, apsw\n"
    "connection = apsw.Connection(sys.argv[1])\n"
    "connection.set_busy_timeout(120_000)\n"
    "connection.execute('BEGIN IMMEDIATE')\n"
    "print('held', flush=True)\n"
    "sys.stdin.read()\n"
)


def skm(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "spec_kit_memory", *arguments],
        cwd=root,
        env=environment(root),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another process in the middle of a write that does not end."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"held\n"
        yield


class Answer:
    """What a tool said: `data` of a success, or `code`, `message` and `hint` of an error."""

    def __init__(self, result: dict[str, Any]) -> None:
        content = result["structuredContent"]
        self.is_error: bool = result["isError"]
        self.data: dict[str, Any] = content.get("data", {})
        self.code: str = content.get("code", "")
        self.message: str = content.get("message", "")
        self.hint: str = content.get("hint", "")
        self.hints: list[str] = content.get("hints", [])
        assert "Traceback" not in json.dumps(content)

    def __repr__(self) -> str:
        return f"{self.code} {self.message} ({self.hint})" if self.is_error else str(self.data)

    @property
    def titles(self) -> list[str]:
        return [row["title"] for row in self.data["results"]]


class Talk:
    """A running `skm serve`. It must outlive every fault: `alive` is checked at the end."""

    def __init__(self, root: Path, *, before: Sequence[str] = (), **environ: str) -> None:
        command = [*before, sys.executable, "-m", "spec_kit_memory", "serve"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, cwd=root.parent, env=environment(root, **environ), **pipes)  # type: ignore[call-overload]
        self._next = 0
        self._early: dict[object, dict[str, Any]] = {}  # answers that came before they were asked about
        self.errors: list[bytes] = []
        self._drain = threading.Thread(target=self._collect, daemon=True)
        self._drain.start()

    def _collect(self) -> None:
        for line in self.process.stderr:
            self.errors.append(line)

    def __enter__(self) -> Talk:
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.request("initialize", about)
        self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        alive = self.process.poll() is None
        try:
            self.process.stdin.close()
            code = self.process.wait(120)
        finally:
            self.process.kill()
            self.process.wait()
            self._drain.join(10)
            self.process.stdout.close()
            self.process.stderr.close()
        if kind is None:
            assert alive, b"".join(self.errors).decode()
            assert code == 0

    def send(self, raw: bytes) -> None:
        self.process.stdin.write(raw)
        self.process.stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The whole response to one request; every line on the way must be the protocol's."""
        return self.response(self.ask(method, params))

    def ask(self, method: str, params: dict[str, Any]) -> int:
        """Send a request and wait for nothing; `response` takes its number."""
        self._next += 1
        asked = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params}
        self.send(json.dumps(asked).encode() + b"\n")
        return self._next

    def answered(self, numbers: Sequence[int]) -> list[int]:
        """Which of these requests were answered before the last one that was waited for."""
        return [number for number in numbers if number in self._early]

    def response(self, number: object) -> dict[str, Any]:
        if number in self._early:
            return self._early.pop(number)
        hang = threading.Timer(ANSWER_SECONDS, self.process.kill)
        hang.start()
        try:
            while True:
                line = self.process.stdout.readline()
                assert line, f"the server ended: {b''.join(self.errors).decode()[-3000:]}"
                data: dict[str, Any] = json.loads(line)
                assert data["jsonrpc"] == "2.0"
                if data.get("id") == number:
                    return data
                if data.get("id") is not None:  # null is no request's answer
                    self._early[data["id"]] = data
        finally:
            hang.cancel()

    def call(self, tool: str, **arguments: Any) -> Answer:
        response = self.request("tools/call", {"name": tool, "arguments": arguments})
        return Answer(response["result"])

    def ready(self, *, memories: int = 1) -> Talk:
        """Wait until everything is indexed and embedded."""
        for _ in range(2000):
            stats = self.call("memory_stats").data
            if stats and stats["vectors"].get("success") == stats["totals"]["memories"] >= memories:
                return self
            threading.Event().wait(0.02)
        raise AssertionError("the server did not finish indexing")

    def search(self, query: str, **more: Any) -> Answer:
        return self.call("memory_search", query=query, **more)
