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


def ran(before: list[str], root: Path, environment: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    """A command with an open umask: how it ended, and what it printed."""
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
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def made_project(root: Path, before: list[str]) -> Path:
    (root / "memory").mkdir(parents=True)
    (root / "memory/plan.md").write_text("# Plan\n\nThe numbat digs.\n", encoding="utf-8")
    if before:
        os.chown(root, NOBODY, NOBODY)
        os.chown(root / "memory", NOBODY, NOBODY)
        os.chown(root / "memory/plan.md", NOBODY, NOBODY)
    return root


@pytest.mark.parametrize("home", ["unset", "empty", "missing", "unwritable", "a file"])
def test_everything_works_for_a_user_without_rights_or_a_home(open_root: Path, home: str) -> None:
    before = as_nobody()
    root = made_project(open_root / "project", before)
    place = open_root / "home"
    if home == "unwritable":
        place.mkdir()
        place.chmod(0o555)
    elif home == "a file":
        place.write_text("")
    environment = {"PATH": os.environ.get("PATH", ""), "SPEC_KIT_MEMORY_SEMANTIC_MODEL": "none"}
    if home != "unset":
        environment["HOME"] = "" if home == "empty" else str(place / "none" if home == "missing" else place)

    def run(*arguments: str) -> str:
        code, printed, problem = ran(before, root, environment, *arguments)
        assert code == 0, (arguments, printed, problem)
        return printed

    run("init")
    run("index")
    run("save", "--text", "The potoroo is small.")
    assert "numbat" in run("search", "numbat")
    assert "The potoroo is small" in asked(before, root, environment)
    state = root / ".spec-kit-memory"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700, "closed to others, whatever the umask"
    assert stat.S_IMODE((state / "index.sqlite").stat().st_mode) == 0o600
    if before:
        assert {path.stat().st_uid for path in state.rglob("*")} == {NOBODY}
    if home in ("unwritable", "a file"):
        code, _, problem = ran(before, root, environment, "init", "--personal")
        assert code == 1
        assert problem.startswith(("E010", "E011")), problem


@pytest.mark.skipif(sys.platform != "linux", reason="it mounts a disk")
def test_everything_works_on_a_disk_from_which_nothing_may_be_run(open_root: Path) -> None:
    before = as_nobody()
    place = open_root / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "noexec,nosuid,nodev,size=100m", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a disk needs root")
    try:
        place.chmod(0o777)
        for name in ("home", "tmp"):
            (place / name).mkdir()
            os.chown(place / name, NOBODY, NOBODY)
        root = made_project(place / "project", before)
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(place / "home"), "TMPDIR": str(place / "tmp")}

        def run(*arguments: str) -> str:
            code, printed, problem = ran(before, root, environment, *arguments)
            assert code == 0, (arguments, printed, problem)
            return printed

        run("init")
        run("index")  # with the bundled model, whose libraries are on another disk
        run("update", "1", "--title", "Termites")
        run("delete", "1", "--delete-file")
        run("undo")
        assert "Termites" in run("search", "what does the numbat eat?")
        run("init", "--personal")
        run("save", "--personal", "--text", "I like small commits.")
        run("health")
        run("install", "claude-code", "--yes")
        run("doctor", "claude-code")
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
