"""`skm watch` says what it does, as it does it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spec_kit_memory.files.locks import Lock
from spec_kit_memory.serve.cli.program import run
from spec_kit_memory.settings import load

DEADLINE_SECONDS = 60


class Watching:
    """A running command, and the lines that it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))

    def until(self, words: str) -> str:
        """The first line with these words."""
        seen, deadline = [], time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < deadline:
            try:
                seen.append(self._lines.get(timeout=0.5))
            except queue.Empty:
                continue
            if words in seen[-1]:
                return seen[-1]
        pytest.fail(f"never said {words!r}: {seen}")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    memory = tmp_path / "project" / "specs" / "001-core" / "memory"
    memory.mkdir(parents=True)
    (memory / "first.md").write_text("# First\n\nThe zebra walks.\n", encoding="utf-8")
    return tmp_path / "project"


@contextmanager
def watching(root: Path, *more: str) -> Iterator[Watching]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SPEC_KIT_MEMORY_")}
    environ |= {"SPEC_KIT_MEMORY_SEMANTIC_MODEL": "hashing", "SPEC_KIT_MEMORY_USER_CONFIG": str(root / "nobody")}
    command = [sys.executable, "-m", "spec_kit_memory", "watch", "--workspace", str(root), *more]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        started = Watching(process)
        try:
            yield started
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_SECONDS) == 0
            started.reader.join(DEADLINE_SECONDS)


def test_files_vectors_and_errors_are_told_as_they_come(root: Path) -> None:
    memory = root / "specs" / "001-core" / "memory"
    with watching(root) as command:
        command.until("1 file indexed (1 new, 0 modified), 0 unchanged")
        command.until("watching the files")
        (memory / "second.md").write_text("# Second\n\nThe heron stands.\n", encoding="utf-8")
        command.until("1 file indexed")
        command.until("1 passage embedded")
        (memory / "third.md").write_bytes(b"\xff\xfe\x00bad\x81")
        command.until("1 file could not be read")
        command.until("E012 specs/001-core/memory/third.md")
        (memory / "second.md").unlink()
        command.until("1 file gone")


def test_with_json_each_event_is_an_envelope_in_a_line(root: Path) -> None:
    with watching(root, "--json") as command:
        assert json.loads(command.until('"indexed":1'))["meta"]["tool"] == "memory_index_scan"
        assert json.loads(command.until("watching"))["data"]["kind"] == "watching"
        (root / "specs" / "001-core" / "memory" / "second.md").write_text("# Second\n\nHerons.\n", encoding="utf-8")
        assert json.loads(command.until('"files"'))["data"]["indexed"] == 1
        assert json.loads(command.until('"vectors"'))["data"]["embedded"] == 1


def test_who_waits_for_another_watcher_says_so(root: Path) -> None:
    (root / ".spec-kit-memory").mkdir()
    lock = Lock(load(root, environ={}, user_file=root / "nobody"), "watch.lock")
    assert lock.acquire()
    with watching(root) as command:
        command.until("another process watches this workspace")
        lock.release()
        command.until("watching the files")


def test_watching_that_is_turned_off_is_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPEC_KIT_MEMORY_USER_CONFIG", str(root / "nobody"))
    assert run(["watch", "--workspace", str(root), "--set", "watch=off"]) == 1
    assert "--set watch=auto" in capsys.readouterr().err
