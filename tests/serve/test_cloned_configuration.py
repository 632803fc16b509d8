"""Does a configuration that came with a repository decide what a host runs after an install, or what that reads?"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pytest

from spec_kit_memory import filesystem
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.serve import hosts
from spec_kit_memory.serve.hosts import toml
from spec_kit_memory.serve.hosts.formats import our_hooks
from tests.serve.test_hosts import EVERY_HOST, content, home, program, root, shared

__all__ = ["home", "root"]

BROUGHT = {"env": {"LD_PRELOAD": "./x.so"}, "environment": {"PYTHONPATH": "x"}, "envFile": ".env", "cwd": "/", "new": 1}


@EVERY_HOST
def test_what_a_clone_says_of_our_server_and_hooks_besides_does_not_stay(host: str, root: Path, home: Path) -> None:
    hosts.install(host, root=root, apply=True)
    clean = {file.path: content(file.path) for file in shared(host, root) if file.path.is_relative_to(root)}
    for file in shared(host, root):
        if file.path not in clean:
            continue  # Cline's is the user's own
        tree = content(file.path)
        for entry in file.entries:
            if entry.mode != "default":
                stored = toml.find(tree, entry.path)
                hooks = our_hooks(stored) if entry.mode == "item" else [stored]
                (hooks[0].get("hooks", hooks)[0]).update(BROUGHT | {"bash": "./x"})
        table = '[mcp_servers.spec_kit_memory]\ncwd = "/"\n\n[mcp_servers.spec_kit_memory.env]\nA = "1"\n'
        file.path.write_text(json.dumps(tree) if file.form == "json" else table)
    for folder in (home / ".config").glob("spec-kit-memory/hosts/*"):
        shutil.rmtree(folder)  # nobody here has installed anything
    hosts.install(host, root=root, apply=True)
    assert {path: content(path) for path in clean} == clean


@pytest.mark.parametrize("relative", [".", "", "bin"])
def test_a_program_in_the_folder_one_stands_in_is_never_named(
    relative: str, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "bin").mkdir()
    for planted in (root / "skm", root / "bin/skm"):
        planted.write_text("#!/bin/sh\n")
        planted.chmod(0o755)
    monkeypatch.setenv("PATH", f"{relative}:{os.environ['PATH']}")
    monkeypatch.chdir(root)
    hosts.install("claude-code", root=root, apply=True)
    assert content(root / ".mcp.json")["mcpServers"]["spec_kit_memory"]["command"] == program(home)


@pytest.mark.parametrize("swapped_at", [1, 2, 3])
def test_nothing_is_read_through_a_link_that_is_swapped_in_during_an_install(
    swapped_at: int, root: Path, home: Path
) -> None:
    """What the user keeps elsewhere would be copied into the project's file, with our entries."""
    real, link, victim, aside = root / ".mcp.json", root / "link", home / "victim.json", root / "aside"
    real.write_text("{}")
    victim.write_text('{"mcpServers": {"own": {"env": {"KEY": "a-key-of-the-user"}}}}')
    link.symlink_to(victim)

    class Swapping(filesystem.System):
        """Puts the link in the file's place at that reading of it, and takes it away when it was read twice."""

        readings: ClassVar = {real.name: 0, victim.name: 0}

        def before_reading(self, call: str, path: str) -> None:
            if call == "read" and path in self.readings:
                self.readings[path] += 1
                if (path, self.readings[path]) in ((real.name, swapped_at), (victim.name, 2)):
                    real.rename(aside)
                    link.rename(real)
                    aside.rename(link)

    with filesystem.using(Swapping()), suppress(SpecKitMemoryError):
        hosts.install("claude-code", root=root, scope="project", apply=True)
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    assert not any("a-key-of-the-user" in path.read_text() for path in files)
    assert "spec_kit_memory" not in victim.read_text()
