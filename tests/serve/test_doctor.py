"""Does `skm doctor` see what a host would see, and say how to mend it?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spec_kit_memory.serve import hosts
from spec_kit_memory.serve.hosts import HOSTS, doctor
from spec_kit_memory.serve.hosts.doctor import Diagnosis

MEMORY = "# Token decision\n\nWe chose signed tokens.\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "memory").mkdir(parents=True)
    (folder / "memory/tokens.md").write_text(MEMORY)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLINE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    subprocess.run(
        [sys.executable, "-m", "spec_kit_memory", "--workspace", str(folder), "index", "--text-only"],
        check=True,
        capture_output=True,
        env=os.environ | {"SPEC_KIT_MEMORY_SEMANTIC_MODEL": "none"},
    )
    return folder


def bad(diagnosis: Diagnosis) -> list[str]:
    return [finding.about for finding in diagnosis.findings if not finding.ok]


@pytest.mark.parametrize("host", sorted(set(HOSTS) - {"cursor"}))
@pytest.mark.parametrize("scope", ["project", "user"])
def test_a_host_that_is_connected_is_in_order(host: str, scope: str, root: Path) -> None:
    hosts.install(host, root=root, scope=scope, apply=True)
    found = doctor.diagnose(HOSTS[host], root=root)
    assert bad(found) == [], found.findings
    assert found.scope == scope or host == "cline"  # which has one file for both
    assert {"configuration", "program", "handshake", "tools", "PATH"} <= {each.about for each in found.findings}


def test_a_host_that_is_not_connected_is_told_how(root: Path) -> None:
    found = doctor.diagnose(HOSTS["codex"], root=root)
    assert bad(found) == ["configuration"]
    assert found.hints == ("Run `skm install codex`.",)


def test_a_program_that_went_away_is_named(root: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    path = root / ".mcp.json"
    content = json.loads(path.read_text())
    content["mcpServers"]["spec_kit_memory"] |= {"command": "/gone/skm", "args": ["serve"]}
    path.write_text(json.dumps(content))
    found = doctor.diagnose(HOSTS["claude-code"], root=root)
    assert bad(found)[0] == "program"
    assert "/gone/skm" in next(each.detail for each in found.findings if each.about == "program")


def test_another_program_under_our_name_is_not_us(root: Path, tmp_path: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    other = tmp_path / "skm"
    other.write_text("#!/bin/sh\necho something else 1.0\n")
    other.chmod(0o755)
    path = root / ".mcp.json"
    content = json.loads(path.read_text())
    content["mcpServers"]["spec_kit_memory"] |= {"command": str(other), "args": ["serve"]}
    path.write_text(json.dumps(content))
    assert "program" in bad(doctor.diagnose(HOSTS["claude-code"], root=root))


def test_a_server_that_dies_says_its_last_words(root: Path, tmp_path: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    dying = tmp_path / "skm"
    dying.write_text('#!/bin/sh\n[ "$1" = --version ] && echo spec-kit-memory 9 && exit\necho no disk >&2\nexit 1\n')
    dying.chmod(0o755)
    path = root / ".mcp.json"
    content = json.loads(path.read_text())
    content["mcpServers"]["spec_kit_memory"] |= {"command": str(dying), "args": ["serve"]}
    path.write_text(json.dumps(content))
    found = doctor.diagnose(HOSTS["claude-code"], root=root)
    assert "no disk" in next(each.detail for each in found.findings if each.about == "handshake")


def test_a_hook_that_was_taken_out_or_fails_is_found(root: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    path = root / ".claude/settings.json"
    content = json.loads(path.read_text())
    del content["hooks"]["SessionStart"]
    content["hooks"]["PreCompact"][0]["hooks"][0]["command"] = "/gone/skm hook pre-compact --host claude-code"
    path.write_text(json.dumps(content))
    assert bad(doctor.diagnose(HOSTS["claude-code"], root=root)) == ["hook SessionStart", "hook PreCompact"]


def test_the_command_ends_with_1_where_something_is_wrong(root: Path) -> None:
    command = [sys.executable, "-m", "spec_kit_memory", "--workspace", str(root), "doctor", "codex"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "skm install codex" in done.stdout
