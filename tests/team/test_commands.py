"""Does an operator have what is served, and how it is doing, by command?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spec_kit_memory.serve.cli.team_commands import ProjectRow, _state
from spec_kit_memory.settings.keys import Semantic, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.project_workspace import open_project
from spec_kit_memory.team.projects import Projects
from tests.team.git_remotes import Remote


def skm(folder: Path, url: str, *arguments: str, code: int = 0) -> dict[str, Any]:
    environment = {
        **os.environ,
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "SPEC_KIT_MEMORY_SEMANTIC_MODEL": "hashing",
    }
    done = subprocess.run(
        [sys.executable, "-m", "spec_kit_memory", "team", *arguments, "--index", url, "--json"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
        timeout=120,
    )
    assert done.returncode == code, done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_project_is_served_from_nothing_by_commands(database: TeamDatabase, tmp_path: Path) -> None:
    url, remote = database.url, Remote.made(tmp_path / "remote.git")
    added = skm(tmp_path, url, "add", "shop", "--repo", str(remote.folder))["data"]
    assert added["hookSecret"] == Projects(database).hook_secret("shop")
    synced = skm(tmp_path, url, "sync", "shop")["data"]["rounds"][0]
    assert (synced["changed"], synced.get("problem")) == (1, None)
    settings = Settings(root=tmp_path / "server", semantic=Semantic(model="hashing"))
    with open_project(database, Projects(database).get("shop"), settings=settings) as workspace:
        saved = workspace.save(text="The gate opens at nine")
    assert skm(tmp_path, url, "list")["data"]["projects"][0]["accepted"] == 1
    assert skm(tmp_path, url, "sync")["data"]["rounds"][0]["delivered"] == 1
    assert remote.text(saved.path)
    listed = skm(tmp_path, url, "list")["data"]["projects"][0]
    assert (listed["name"], listed["accepted"], listed["commit"]) == ("shop", 0, remote.tip())
    assert skm(tmp_path, url, "sync", "--later")["data"]["rounds"][0]["delivered"] == 0
    skm(tmp_path, url, "remove", "shop")
    assert skm(tmp_path, url, "list")["data"]["projects"] == []
    refused = skm(tmp_path, url, "add", "shop", "--repo", "ext::sh -c x", code=1)
    assert "neither" in refused["error"]["message"]


def test_a_name_that_was_served_before_is_told_with_what_it_still_has(database: TeamDatabase, tmp_path: Path) -> None:
    url, remote = database.url, Remote.made(tmp_path / "remote.git")
    outcome = skm(tmp_path, url, "add", "shop", "--repo", str(remote.folder))["summary"]
    assert outcome == f"shop is served from {remote.folder}"
    settings = Settings(root=tmp_path / "server", semantic=Semantic(model="hashing"))
    with open_project(database, Projects(database).get("shop"), settings=settings) as workspace:
        workspace.save(text="The gate opens at nine")
    removed = skm(tmp_path, url, "remove", "shop")
    assert removed["summary"] == "shop is not served any more, with 1 change that is not in git yet"
    other = Remote.made(tmp_path / "other.git")
    added = skm(tmp_path, url, "add", "shop", "--repo", str(other.folder))
    assert "its index from before is there, with 1 change that is not in git yet, to be put" in added["summary"]
    assert any("another name" in step for step in added["hints"])
    both = skm(tmp_path, url, "sync", "shop", "--retry", "--discard", code=1)
    assert "exclude each other" in both["error"]["message"]


def test_a_project_that_no_server_has_read_is_not_called_in_step() -> None:
    row = ProjectRow(name="shop", repository="/git/shop.git", is_git=True, branch="main", save_branch="main")
    assert _state(row) == "waits for a server to read it"
    assert _state(replace(row, synced_at=datetime.now(UTC))) == "in step"
    assert _state(replace(row, is_git=False)) == "in step", "a folder is read when it is asked about"
