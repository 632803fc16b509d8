"""Each call of an install and an uninstall may fail, be interrupted or be the last one.

A sample of the calls; `SKM_TEST_FAULTS=1000 pytest tests/faults/test_install.py` tries all of them.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.filesystem import TEMPORARY
from spec_kit_memory.serve import hosts
from tests.faults import sweep
from tests.faults.calls import KILLED, Calls, Fault, watched

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")

MOST = int(os.environ.get("SKM_TEST_FAULTS", "8"))  # calls of each kind, besides the first and the last
HOST = "claude-code"
THEIRS = {".mcp.json": '{"mcpServers": {"other": {"command": "x"}}}\n', ".claude/settings.json": '{"a": 1}\n'}
Act = Callable[[Path], object]


def install(root: Path) -> object:
    return hosts.install(HOST, root=root, apply=True)


def uninstall(root: Path) -> object:
    return hosts.uninstall(HOST, root=root, apply=True)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = tmp_path / "project"
    for name, text in THEIRS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Without temporary files, which a kill leaves."""
    results = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(TEMPORARY))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in results}


FAULTS: dict[str, Callable[[], Fault]] = {
    "fails once": lambda: Fault.error(errno.EIO),
    "full": lambda: Fault.error(errno.ENOSPC, only=frozenset(("create", "write", "mkdir", "fsync"))),
    "interrupted": Fault.interrupt,
}


@pytest.mark.parametrize("fault", [*FAULTS, "killed"])
@pytest.mark.parametrize("act", [install, uninstall], ids=["install", "uninstall"])
def test_an_install_and_an_uninstall_are_done_or_undone(root: Path, tmp_path: Path, act: Act, fault: str) -> None:
    if act is uninstall:
        install(root)
    kept = shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-kept"), symlinks=True)
    before = files(root)
    counted = Calls(0, FAULTS[fault]() if fault in FAULTS else None)
    counted.armed = True
    with watched(counted):
        act(root)
    after = files(root)
    assert after != before
    assert len(counted.names) > 5
    for at in sweep.some(MOST, seed=f"{act.__name__} {fault}")(len(counted.names)):
        for name in ("project", "home"):
            shutil.rmtree(tmp_path / name, ignore_errors=True)
            if (kept / name).exists():
                shutil.copytree(kept / name, tmp_path / name, symlinks=True)
        if fault == "killed":
            killed(act, root, at)
        else:
            calls = Calls(at, FAULTS[fault]())
            calls.armed = True
            allowed = [after]
            try:
                with watched(calls):
                    act(root)
            except SpecKitMemoryError:
                allowed = [before]
            except KeyboardInterrupt:  # as a whole, but nobody said which
                allowed = [before, after]
            where = f"call {at}: {calls.names[at - 1]}"
            assert calls.names[at - 1] == "unlink" or not list(root.rglob(f"*{TEMPORARY}")), where
            assert files(root) in allowed, where
        act(root)  # what was begun is completed by doing it again
        assert files(root) == after, f"again after call {at}"
        uninstall(root)
        assert files(root) == {name: text.encode() for name, text in THEIRS.items()}, f"undone after call {at}"
    shutil.rmtree(kept)


def killed(act: Act, root: Path, at: int) -> None:
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            calls = Calls(at, Fault.death())
            calls.armed = True
            with watched(calls):
                act(root)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == KILLED
