from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spec_kit_memory import filesystem
from spec_kit_memory.files import disk, locks
from spec_kit_memory.files.locks import Lock, holder
from spec_kit_memory.settings import Settings

HOLD = (
    "import sys\n"
    "from pathlib import Path\n"
    "from spec_kit_memory.files.locks import Lock\n"
    "from spec_kit_memory.settings import Settings\n"
    "lock = Lock(Settings(root=Path(sys.argv[1])), 'a.lock')\n"
    "print(lock.acquire(), flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(root=tmp_path)
    disk.ensure_state_folder(settings)
    return settings


def test_a_lock_is_held_by_one_and_given_back(settings: Settings) -> None:
    first, second = Lock(settings, "a.lock"), Lock(settings, "a.lock")
    assert first.acquire()
    assert not second.acquire()
    assert not first.acquire()
    assert not second.wait(seconds=0.05)
    assert holder(settings, "a.lock") == os.getpid()
    first.release()
    first.release()
    assert holder(settings, "a.lock") is None
    with second:
        assert second.acquire()
    assert not second.held


def test_a_lock_dies_with_its_holder(settings: Settings) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(settings.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "True"
        mine = Lock(settings, "a.lock")
        assert not mine.acquire()
        assert holder(settings, "a.lock") == other.pid
        other.kill()
        other.wait()
    assert mine.wait(seconds=10)
    mine.release()


def test_nobody_holds_a_lock_that_is_not_there(settings: Settings) -> None:
    assert holder(settings, "none.lock") is None


def test_a_lock_is_taken_where_its_holder_cannot_be_noted(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the lock itself holds; the number of its holder is only for people."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    first, second = Lock(settings, "a.lock"), Lock(settings, "a.lock")
    monkeypatch.setattr(os, "write", full)
    assert first.acquire()
    assert not second.acquire()
    first.release()
    assert second.acquire()
    second.release()


@pytest.mark.parametrize("error", [OSError(errno.ENOLCK, "no locks"), KeyboardInterrupt()], ids=["refused", "Ctrl-C"])
def test_an_acquire_that_fails_holds_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    lock = Lock(settings, "a.lock")
    take = filesystem.try_lock

    def taken_then_failed(descriptor: int) -> bool:
        take(descriptor)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(locks, "try_lock", taken_then_failed)
        with pytest.raises(type(error)):
            lock.acquire()
    assert not lock.held
    assert Lock(settings, "a.lock").acquire()
