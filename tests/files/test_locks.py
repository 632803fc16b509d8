from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spec_kit_memory.files import locks
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


def test_a_lock_is_taken_where_its_holder_cannot_be_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the lock itself holds; the number of its holder is only for people."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    first, second = Lock(tmp_path / "a.lock"), Lock(tmp_path / "a.lock")
    monkeypatch.setattr(os, "write", full)
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release()


@pytest.mark.parametrize("error", [OSError(errno.ENOLCK, "no locks"), KeyboardInterrupt()], ids=["refused", "Ctrl-C"])
def test_an_acquire_that_fails_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    lock = Lock(tmp_path / "a.lock")
    take = locks.try_lock

    def taken_then_failed(descriptor: int) -> bool:
        take(descriptor)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(locks, "try_lock", taken_then_failed)
        with pytest.raises(type(error)):
            lock.acquire()
    assert not lock.held
    assert Lock(tmp_path / "a.lock").acquire()
