"""Checkpoints, undo and the ledger on the command line, in a copy of the example workspace."""

from __future__ import annotations

import io
import json
import os
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.serve.cli.program import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "harbour-bikes"


@pytest.fixture
def bikes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("SPEC_KIT_MEMORY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPEC_KIT_MEMORY_USER_CONFIG", str(tmp_path / "nobody"))
    monkeypatch.setenv("SPEC_KIT_MEMORY_SEMANTIC_MODEL", "hashing")
    root = tmp_path / "bikes"
    shutil.copytree(EXAMPLE, root, ignore=shutil.ignore_patterns(".spec-kit-memory"))
    monkeypatch.chdir(root)
    skm("init")
    skm("index")
    return root


def skm(*arguments: str, code: int = 0) -> str:
    """What a command prints; nobody sits in front of it."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        ended = run(list(arguments))
    assert ended == code, out.getvalue()
    return out.getvalue()


def data(*arguments: str) -> Any:
    return json.loads(skm(*arguments, "--json"))["data"]


def cards() -> dict[int, dict[str, Any]]:
    return {card["id"]: card for card in data("list", "--limit", "100", "--max-tokens", "100000")["memories"]}


def files(root: Path) -> dict[str, bytes]:
    results = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in results.items() if not name.startswith(".spec-kit-memory")}


def link_keys(memory_id: int) -> list[tuple[int, int, str]]:
    links = [step["link"] for step in data("why", str(memory_id), "--max-depth", "1")["steps"]]
    return sorted((link["sourceId"], link["targetId"], link["relation"]) for link in links)


def test_the_undo_that_a_restore_offers_takes_back_that_restore(bikes: Path) -> None:
    skm("validate", "14", "--was-useful")
    skm("checkpoint", "create", "c")
    before = link_keys(1)
    skm("link", "1", "2", "supports")
    assert link_keys(1) != before
    assert "+ link #1 supports #2" in skm("checkpoint", "diff", "c")
    offered = skm("checkpoint", "restore", "c", "--clear-existing", "--yes")
    assert "skm undo" in offered
    assert link_keys(1) == before
    assert "restore" in skm("undo")
    assert (1, 2, "supports") in link_keys(1)
    assert cards()[14]["validationCount"] == 1
    assert "link" in skm("undo")
    assert link_keys(1) == before
    assert "opinion" in skm("undo")
    assert cards()[14]["validationCount"] == 0
    assert "every link holds" in skm("ledger", "verify")


def test_a_folder_moved_between_checkpoint_and_restore_leaves_no_duplicates(bikes: Path) -> None:
    skm("checkpoint", "create", "c")
    count = len(cards())
    (bikes / "specs/004-station-map").rename(bikes / "specs/014-station-map")
    moved = files(bikes)
    skm("checkpoint", "restore", "c", "--restore-files", "--clear-existing", "--yes")
    skm("index")
    assert len(cards()) == count
    skm("undo")
    assert files(bikes) == moved
    skm("index")
    assert len(cards()) == count
    paths = [card["path"] for card in cards().values()]
    assert not [path for path in paths if "004-station-map" in path]
    assert [path for path in paths if "014-station-map" in path]


@pytest.mark.parametrize(
    "command", [("checkpoint", "restore", "c"), ("delete", "--spec-folder", "004-station-map")], ids=lambda one: one[0]
)
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_where_nobody_can_answer_restore_and_delete_want_a_yes(
    bikes: Path, command: tuple[str, ...], form: tuple[str, ...]
) -> None:
    skm("checkpoint", "create", "c")
    skm("delete", "1")
    before, head = cards(), skm("ledger", "head")
    refused = skm(*command, *form, code=1)
    assert "--yes" in refused
    assert (cards(), skm("ledger", "head")) == (before, head)
    skm(*command, *form, "--yes")
    assert skm("ledger", "head") != head
