"""What a person at a terminal meets: colours, questions, a bar; spoken to through a real pseudo-terminal."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.serve.test_stdio import environment

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals here")

DEADLINE_SECONDS = 60


class Terminal:
    """A command that believes it talks to a person."""

    def __init__(self, root: Path, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.seen = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spec_kit_memory", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=root,
            env=environment(root) | {"TERM": "xterm-256color", "COLUMNS": "100"},
            close_fds=True,
        )
        os.close(slave)

    def until(self, text: str) -> str:
        """Read until it appears, and return what came before and with it."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        start = len(self.seen)
        while text not in self.seen[start:]:
            assert time.monotonic() < deadline, self.seen
            if not self._read():
                raise AssertionError(f"{text!r} never came:\n{self.seen}")
        return self.seen[start:]

    def answer(self, text: str) -> None:
        os.write(self.master, text.encode() + b"\n")

    def end(self) -> int:
        while self._read():
            pass
        return self.process.wait(DEADLINE_SECONDS)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def _read(self) -> bool:
        ready, _, _ = select.select([self.master], [], [], DEADLINE_SECONDS)
        try:
            data = os.read(self.master, 65536) if ready else b""
        except OSError:
            return False  # how Linux says that the other side is closed
        self.seen += data.decode(errors="replace")
        return bool(data)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "specs/007-auth/memory/jwt.md": "# JWT decision\n\nWe chose JWT with refresh tokens.\n",
        "specs/008-api/spec.md": "# API\n\nPublic endpoints.\n",
        "memory/draft.md": "---\ntier: temporary\n---\n# A draft\n\nMaybe sessions.\n",
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        if name.startswith("specs/"):
            # Long ago, so that no folder is chosen for being fresh.
            os.utime(file, (1_600_000_000, 1_600_000_000))
    return tmp_path


@pytest.fixture
def start(root: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts commands in the workspace, and ends what a failed test left running."""
    started: list[Terminal] = []

    def begin(*arguments: str) -> Terminal:
        started.append(Terminal(root, *arguments))
        return started[-1]

    yield begin
    for terminal in started:
        terminal.close()


@pytest.fixture
def run(start: Callable[..., Terminal]) -> Callable[..., str]:
    """Runs a command to its end and returns what was seen."""

    def finish(*arguments: str) -> str:
        terminal = start(*arguments)
        assert terminal.end() == 0, terminal.seen
        return terminal.seen

    return finish


Start = Callable[..., Terminal]
Run = Callable[..., str]


def test_tables_and_highlights_are_coloured(run: Run) -> None:
    run("index")
    assert "\x1b[" in run("list")
    shown = run("search", "refresh", "--mode", "text")
    assert "\x1b[1;33mrefresh\x1b[0m" in shown


def test_a_scan_shows_a_bar(run: Run) -> None:
    assert "━" in run("index")


def test_cleanup_asks_about_each_and_does_what_is_said(start: Start, run: Run) -> None:
    run("index")
    terminal = start("cleanup")
    terminal.until("(s)top")
    terminal.answer("v")
    assert "Maybe sessions." in terminal.until("(s)top")
    terminal.answer("d")
    terminal.until("1 deleted")
    assert terminal.end() == 0
    assert "A draft" not in run("list")


def test_deleting_a_folder_asks_first(start: Start, run: Run) -> None:
    run("index")
    terminal = start("delete", "--spec-folder", "007-auth")
    terminal.until("[y/N]")
    terminal.answer("n")
    assert terminal.end() != 0
    assert "JWT decision" in run("list")


def test_a_restore_asks_first(start: Start, run: Run) -> None:
    run("index")
    run("checkpoint", "create", "c")
    for answer, done in (("n", False), ("y", True)):
        terminal = start("checkpoint", "restore", "c")
        terminal.until("[y/N]")
        terminal.answer(answer)
        assert (terminal.end() == 0) is done


def test_an_undecided_folder_is_chosen_from_a_list(root: Path, start: Start, run: Run) -> None:
    (root / "session.json").write_text('{"sessionSummary": "We painted the fence green and fed the cat."}')
    run("index")
    terminal = start("save", "session.json")
    shown = terminal.until("Spec folder")
    offered = re.search(r"\[(\d)\] 008-api", shown)
    assert offered, shown
    terminal.answer(offered[1])
    assert terminal.end() == 0, terminal.seen
    assert list((root / "specs" / "008-api" / "memory").glob("*.md"))


def test_watch_indexes_what_appears_and_stops_when_told(root: Path, start: Start, run: Run) -> None:
    terminal = start("watch")
    terminal.until("Watching")
    (root / "specs" / "007-auth" / "memory" / "new.md").write_text("# Brand new\n\nJust written.\n")
    deadline = time.monotonic() + DEADLINE_SECONDS
    while "Brand new" not in run("list"):
        assert time.monotonic() < deadline
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 0
    assert "Stopped" in terminal.seen
