from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from spec_kit_memory.files.locks import Lock, holder

HOLD = (
    "import sys\n"
    "from pathlib import Path\n"
    "from spec_kit_memory.files.locks import Lock\n"
    "lock = Lock(Path(sys.argv[1]))\n"
    "print(lock.acquire(), flush=True)\n"
    "sys.stdin.read()\n"
)


def test_a_lock_is_held_by_one_and_given_back(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "a.lock"), Lock(tmp_path / "a.lock")
    assert first.acquire()
    assert not second.acquire()
    assert not first.acquire()
    assert not second.wait(seconds=0.05)
    assert holder(tmp_path / "a.lock") == os.getpid()
    first.release()
    first.release()
    assert holder(tmp_path / "a.lock") is None
    with second:
        assert second.acquire()
    assert not second.held


def test_a_lock_dies_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "True"
        mine = Lock(path)
        assert not mine.acquire()
        assert holder(path) == other.pid
        other.kill()
        other.wait()
    assert mine.wait(seconds=10)
    mine.release()


def test_nobody_holds_a_lock_that_is_not_there(tmp_path: Path) -> None:
    assert holder(tmp_path / "none.lock") is None
