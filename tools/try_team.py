"""Does a team server work from scratch? PostgreSQL, two projects in git, two people, two replicas, saves and searches.

python -m tools.try_team        uses a temporary folder, which is removed at the end
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2

from tests import postgres_server

DEADLINE_SECONDS = 240.0
_ADDRESS = re.compile(r"http://[^ ]+/mcp")
_ERA = "2026-07-28"


def skm(url: str, *words: str) -> Any:
    """Run one of our commands with --json; returns its data."""
    done = subprocess.run(
        [sys.executable, "-m", "spec_kit_memory", *words, "--index", url, "--json"],
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    answer = json.loads(done.stdout)
    if done.returncode:
        raise SystemExit(f"skm {' '.join(words)}: {answer}")
    return answer["data"]


def git(*words: str, folder: Path) -> str:
    identity = ["-c", "user.name=Try", "-c", "user.email=try@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", *identity, *words], cwd=folder, stdout=subprocess.PIPE, check=True, text=True)
    return done.stdout


def repository(folder: Path, name: str, note: str) -> Path:
    """Create a bare repository with one note."""
    work, bare = folder / f"{name}-work", folder / f"{name}.git"
    (work / "specs" / f"001-{name}" / "memory").mkdir(parents=True)
    (work / "specs" / f"001-{name}" / "memory" / "first.md").write_text(f"# Notes of the {name}\n\n{note}\n")
    git("init", "-q", folder=work)
    git("add", ".", folder=work)
    git("commit", "-qm", "First note", folder=work)
    git("clone", "-q", "--bare", str(work), str(bare), folder=folder)
    return bare


def replica(url: str, data: Path) -> tuple[subprocess.Popen[str], str]:
    words = ("serve", "--http", "--team", "--port", "0", "--data", str(data), "--index", url)
    process = subprocess.Popen([sys.executable, "-m", "spec_kit_memory", *words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if match := _ADDRESS.search(line):
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, match[0]
        sys.stderr.write(line)
    raise SystemExit("a replica did not start")


def call(address: str, token: str, tool: str, **arguments: Any) -> Any:
    meta = {
        "io.modelcontextprotocol/protocolVersion": _ERA,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "try-team", "version": "1"},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    answer = httpx2.post(
        address,
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params},
        headers={
            "authorization": f"Bearer {token}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": _ERA,
            "mcp-method": "tools/call",
            "mcp-name": tool,
        },
        timeout=60,
    )
    return json.loads(answer.text[answer.text.index("{") :])["result"]["structuredContent"]


def until(what: str, condition: Any) -> Any:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise SystemExit(f"waited in vain: {what}")
        time.sleep(0.3)
    return value


def main() -> None:
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:5.1f} s  {text}", flush=True)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skm-team-")))
        server = postgres_server.started()
        stack.callback(postgres_server.ended, server)
        server.execute("CREATE DATABASE memory")
        url = server.url("memory")
        say("PostgreSQL runs")
        for name, note in (("shop", "The till takes cards and cash."), ("bank", "The vault opens at nine.")):
            skm(url, "team", "add", name, "--repo", str(repository(folder, name, note)))
        people = {
            name: skm(url, "team", "token", "create", "--user", name, "--role", "writer", *given)["token"]
            for name, given in (
                ("ana", ("--project", "shop")),
                ("ben", ("--project", "shop", "--project", "bank")),
            )
        }
        say("two projects are served, two people have tokens")
        addresses = []
        for number in (1, 2):
            process, address = replica(url, folder / f"replica-{number}")
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
            addresses.append(address)
        say(f"two replicas answer: {' '.join(addresses)}")
        until("the repositories are read", lambda: len(_rows(addresses[1], people["ben"], "till vault", "all")) == 2)
        say("both repositories are indexed")
        saved = call(
            addresses[0],
            people["ana"],
            "memory_save",
            context={"sessionSummary": "We decided that refunds above 50 need two people, because of the March fraud."},
            specFolder="001-shop",
        )
        if "data" not in saved:
            raise SystemExit(f"the save was refused: {saved}")
        say(f"ana saved through the first replica: {saved['summary']}")
        question = "who must agree to a refund"
        results = until("ben finds it", lambda: _rows(addresses[1], people["ben"], question, "shop"))
        say(f"ben asks the second replica {question!r}: {results[0]['project']}: {results[0]['text'].strip()[:100]!r}")
        refused = call(addresses[0], people["ana"], "memory_search", query="vault", project="bank")
        say(f"ana asks about the bank: {refused['code']} {refused['message']}")
        bare = folder / "shop.git"
        log = until("it is in git", lambda: git("log", "--format=%an: %s", "main", folder=bare).splitlines()[:-1])
        say(f"and in git: {log[0]}")
    say("everything is stopped and removed")


def _rows(address: str, token: str, query: str, *projects: str) -> list[Any]:
    given = list(projects) if projects == ("all",) else [*projects, "bank"]
    data = call(address, token, "memory_search", query=query, projects=given).get("data", {})
    rows = list(data.get("results", []))
    return rows if projects == ("all",) else [row for row in rows[:1] if "refund" in row["text"]]


if __name__ == "__main__":
    main()
