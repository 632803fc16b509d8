"""Agents of a team server for `benchmarks.team`: they call its replicas over HTTP, as MCP, each with a person's token.

What was acknowledged is written down, one line each, before the next call. An agent of the newer protocol asks any
replica; one of the older protocol has a session at one replica, and begins another when that is gone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2

OLDER, NEWER = "2025-11-25", "2026-07-28"
CALL_SECONDS = 60.0  # after that a call counts as not answered


class Log:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, **fields: Any) -> None:
        os.write(self._descriptor, json.dumps(fields).encode() + b"\n")


class RefusedError(Exception):
    """The server said no, or nothing at all; `code` says which."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message)
        self.code, self.message = code, message


@dataclass
class Agent:
    """`addresses` are those of the replicas; `people` are users with their tokens and the projects they may use."""

    addresses: Sequence[str]
    people: dict[str, dict[str, Any]]
    choose: random.Random
    era: str
    _http: httpx2.Client = field(default_factory=lambda: httpx2.Client(timeout=CALL_SECONDS, trust_env=False))
    _sessions: dict[str, tuple[str, str]] = field(default_factory=dict)  # user -> address, session

    def call(self, user: str, tool: str, **arguments: Any) -> dict[str, Any]:
        """The data of the answer. Raises `RefusedError`."""
        params = {"name": tool, "arguments": arguments}
        try:
            if self.era == NEWER:
                return self._data(self._newer(user, tool, params))
            return self._data(self._older(user, params))
        except httpx2.TransportError as error:
            self._sessions.pop(user, None)
            raise RefusedError("no answer", type(error).__name__) from error

    def _newer(self, user: str, tool: str, params: dict[str, Any]) -> httpx2.Response:
        meta = {
            "io.modelcontextprotocol/protocolVersion": NEWER,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
        }
        more = {"mcp-method": "tools/call", "mcp-name": tool}
        return self._post(self.choose.choice(self.addresses), user, "tools/call", {**params, "_meta": meta}, more)

    def _older(self, user: str, params: dict[str, Any]) -> httpx2.Response:
        if user not in self._sessions:
            address = self.choose.choice(self.addresses)
            client = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
            begun = self._post(address, user, "initialize", client, {})
            self._sessions[user] = address, begun.headers.get("mcp-session-id", "")
            self._post(address, user, "notifications/initialized", None, self._session(user))
        answer = self._post(self._sessions[user][0], user, "tools/call", params, self._session(user))
        if answer.status_code == 404:  # the replica was started again, and knows no sessions of the one before
            del self._sessions[user]
        return answer

    def _session(self, user: str) -> dict[str, str]:
        session = self._sessions[user][1]
        return {"mcp-session-id": session} if session else {}

    def _post(
        self, address: str, user: str, method: str, params: dict[str, Any] | None, more: dict[str, str]
    ) -> httpx2.Response:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        message |= {} if params is None else {"params": params, "id": self.choose.randrange(1, 1 << 30)}
        headers = {
            "authorization": f"Bearer {self.people[user]['token']}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": self.era,
            **more,
        }
        return self._http.post(address, json=message, headers=headers)

    def _data(self, answer: httpx2.Response) -> dict[str, Any]:
        if answer.status_code != 200:
            raise RefusedError(f"HTTP {answer.status_code}", answer.text[:200])
        body = json.loads(answer.text[answer.text.index("{") :])
        value = body.get("result", {}).get("structuredContent")
        if value is None:
            raise RefusedError("protocol", answer.text[:200])
        if "data" not in value:
            raise RefusedError(str(value.get("code")), str(value.get("message"))[:200])
        return dict(value["data"])

    def close(self) -> None:
        self._http.close()


def work(agent: Agent, projects: Sequence[str], log: Log, stopping: threading.Event) -> None:
    own: list[tuple[str, int, str]] = []  # project, id, word
    choose = agent.choose
    while not stopping.is_set():
        name, user = choose.choice(projects), choose.choice(sorted(agent.people))
        word = f"{name}w{uuid4().hex[:12]}"
        kind = choose.choices(("save", "search", "update", "delete", "personal"), (45, 35, 12, 5, 3))[0]
        target = choose.choice(own) if own else None
        if kind in ("update", "delete"):
            if target is None:
                continue
            name, id_, word = target
            meant = {"update": "meant", "delete": "deleting"}[kind]
        started = time.perf_counter()
        try:
            fields: dict[str, Any] = {"word": word}
            match kind:
                case "save" | "personal":
                    context = {"title": f"Note {word}", "sessionSummary": f"Note {word} of {user}"}
                    vault = "personal" if kind == "personal" else "project"
                    given = {"context": context, "onSimilar": "distinct", "vault": vault, "project": name}
                    saved = agent.call(user, "memory_save", **given)
                    fields |= {"id": saved["id"]}
                    if kind == "save":
                        own.append((name, saved["id"], word))
                case "search":
                    known = target[2] if target and target[0] == name else word
                    results = agent.call(user, "memory_search", query=known, limit=3, project=name)["results"]
                    fields |= {"seen": [result["text"] for result in results]}
                case "update":
                    log.write(kind=meant, project=name, word=word, user=user)
                    agent.call(user, "memory_update", id=id_, title=f"Title {word}", project=name)
                case "delete":
                    # Whether it was deleted is not known without an answer, unless the caller may not even ask.
                    if name in agent.people[user]["projects"]:
                        own.remove((name, id_, word))
                        log.write(kind=meant, project=name, word=word, user=user)
                    agent.call(user, "memory_delete", id=id_, deleteFile=True, project=name)
        except RefusedError as error:
            fenced = name not in agent.people[user]["projects"] and error.code == "E030"
            log.write(
                kind="fenced" if fenced else "refused", of=kind, project=name, code=error.code, message=error.message
            )
            if not fenced:
                stopping.wait(0.2)
            continue
        milliseconds = (time.perf_counter() - started) * 1000
        is_theirs = name in agent.people[user]["projects"]
        log.write(
            kind=kind if is_theirs else "crossed",
            project=name,
            user=user,
            at=time.time(),
            ms=round(milliseconds, 3),
            **fields,
        )
    agent.close()


def main() -> None:
    """The first line of standard input has the addresses, the people and the projects; its end is the end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--agents", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    arguments = parser.parse_args()
    data = json.loads(sys.stdin.readline())
    stopping, log = threading.Event(), Log(Path(arguments.log))
    threads = []
    for number in range(arguments.agents):
        agent = Agent(
            data["addresses"],
            data["people"],
            random.Random(arguments.seed * 1000 + number),
            NEWER if number % 2 else OLDER,
        )
        threads.append(threading.Thread(target=work, args=(agent, data["projects"], log, stopping)))
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stopping.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
