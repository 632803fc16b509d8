"""A workspace and a home folder on a disk from which nothing may be started, as many servers have them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.talking import Talk, environment, skm


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = Path(os.path.realpath(tmp_path)) / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "noexec,size=64m", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a disk without programs needs Linux and its root")
    for name in ("home", "work", "tmp"):
        (place / name).mkdir()
    monkeypatch.setenv("HOME", str(place / "home"))
    monkeypatch.setenv("TMPDIR", str(place / "tmp"))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    yield place / "work"
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_everything_works_where_nothing_may_be_started(root: Path) -> None:
    script = root / "script"
    script.write_text("#!/bin/sh\n", encoding="utf-8")
    script.chmod(0o755)
    with pytest.raises(PermissionError):
        subprocess.run([script], check=False)
    saved = skm(root, "save", "--text", "The numbat eats termites.")
    assert saved.returncode == 0, saved.stderr
    result = skm(root, "search", "numbat")
    assert "termites" in result.stdout, result.stderr
    installed = skm(root, "install", "claude-code", "--yes")
    assert installed.returncode == 0, installed.stderr
    assert sys.executable in (root / ".mcp.json").read_text(encoding="utf-8")
    hooks = json.loads((root / ".claude/settings.json").read_text(encoding="utf-8"))["hooks"]
    hook = subprocess.run(
        ["/bin/sh", "-c", hooks["UserPromptSubmit"][0]["hooks"][0]["command"]],
        input=json.dumps({"session_id": "s", "cwd": str(root), "prompt": "where do numbat eats termites?"}),
        cwd=root, env=environment(root), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (hook.returncode, hook.stderr) == (0, "")
    assert "numbat" in hook.stdout
    with Talk(root) as server:
        assert server.ready().search("numbat").titles == ["The numbat eats termites"]
        assert not server.call("checkpoint_create", name="then").is_error
    removed = skm(root, "uninstall", "claude-code", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert not (root / ".mcp.json").exists()
