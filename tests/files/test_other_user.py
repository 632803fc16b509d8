"""The command line and a server as a user who is not root, with an open umask, and without a home of their own."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there are neither user ids nor a umask there")

NOBODY = 65534


def as_nobody() -> list[str]:
    """What goes before a command so that it runs as nobody; the interpreter may lie where only root can read it."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0:
        return []
    if setpriv is None:
        pytest.skip("root, and without setpriv there is no other user to become")
    read = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    return [setpriv, f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *read]


def asked(before: list[str], root: Path, environment: dict[str, str]) -> str:
    """What a server answers to one search."""
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: tuple[dict[str, object], ...] = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "memory_search", "arguments": {"query": "potoroo"}},
        },
    )
    command = [*before, sys.executable, "-m", "spec_kit_memory", "serve"]
    with subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        umask=0,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        limit = threading.Timer(120, server.kill)
        limit.start()
        try:
            server.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
            server.stdin.flush()
            return next((line for line in server.stdout if json.loads(line).get("id") == 2), "")
        finally:
            limit.cancel()
            server.stdin.close()


@pytest.mark.parametrize("home", ["unset", "missing", "unwritable", "a file"])
def test_everything_works_for_a_user_without_rights_or_a_home(open_root: Path, home: str) -> None:
    before = as_nobody()
    root = open_root / "project"
    root.mkdir()
    if before:
        os.chown(root, NOBODY, NOBODY)
    place = open_root / "home"
    if home == "unwritable":
        place.mkdir()
        place.chmod(0o555)
    elif home == "a file":
        place.write_text("")
    environment = {"PATH": os.environ.get("PATH", ""), "SPEC_KIT_MEMORY_SEMANTIC_MODEL": "none"}
    if home != "unset":
        environment["HOME"] = str(place / "none" if home == "missing" else place)

    def run(*arguments: str) -> str:
        command = [*before, sys.executable, "-m", "spec_kit_memory", *arguments]
        done = subprocess.run(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            umask=0,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout

    run("init")
    (root / "memory").mkdir(exist_ok=True)
    (root / "memory/plan.md").write_text("# Plan\n\nThe numbat digs.\n", encoding="utf-8")
    if before:
        os.chown(root / "memory", NOBODY, NOBODY)
    run("index")
    run("save", "--text", "The potoroo is small.")
    assert "numbat" in run("search", "numbat")
    assert "The potoroo is small" in asked(before, root, environment)
    state = root / ".spec-kit-memory"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700, "closed to others, whatever the umask"
    assert stat.S_IMODE((state / "index.sqlite").stat().st_mode) == 0o600
    if before:
        assert {path.stat().st_uid for path in state.rglob("*")} == {NOBODY}
