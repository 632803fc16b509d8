"""File systems that fail at a chosen call, and workspaces to try operations on.

`Failing` raises at the n-th change, once or from then on; `Dying` ends the process there, as a kill does. An operation
is tried for n = 1, 2, … until it gets through without reaching n: then every call of it has failed once.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from spec_kit_memory.filesystem import System
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

FOLDER = "specs/001-core/memory"
# What a full disk refuses: names can still be changed and removed.
NEEDS_SPACE = frozenset(("create", "write", "mkdir", "link", "fsync"))


class Failing(System):
    def __init__(
        self, at: int, number: int = errno.EIO, *, lasting: bool = False, only: frozenset[str] | None = None
    ) -> None:
        self.left, self.number, self.lasting, self.only = at, number, lasting, only
        self.calls: list[str] = []

    def before(self, call: str, path: str) -> None:
        if self.only is not None and call not in self.only:
            return
        self.calls.append(call)
        self.left -= 1
        if self.left == 0 or (self.lasting and self.left < 0):
            raise OSError(self.number, os.strerror(self.number), path)

    @property
    def reached(self) -> bool:
        return self.left <= 0


class Dying(System):
    def __init__(self, at: int) -> None:
        self.left = at

    def before(self, call: str, path: str) -> None:
        self.left -= 1
        if self.left == 0:
            os._exit(99)


# --- operations -------------------------------------------------------------------------


def open_at(root: Path, *, busy_seconds: float | None = None) -> Workspace:
    settings = Settings(root=root, semantic=Semantic(model="none"), watch="off")
    store = None if busy_seconds is None else SqliteIndex(settings.index_path, busy_seconds=busy_seconds)
    return Workspace(settings, now=lambda: datetime(2026, 3, 2, 12, 0, tzinfo=UTC), store=store)


def build(root: Path) -> None:
    """Three notes of one folder, two of them alike, and a rule elsewhere."""
    notes = {
        f"{FOLDER}/plan.md": "---\ntitle: Plan\n---\n\n# Plan\n\nThe numbat digs for termites.\n",
        f"{FOLDER}/other.md": "---\ntitle: Other\n---\n\n# Other\n\nThe bilby has long ears.\n",
        f"{FOLDER}/third.md": "# Third\n\nA text without front matter.\n",
        "memory/rule.md": "# Elsewhere\n\nThe quoll hunts at night.\n",
    }
    for path, text in notes.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        os.utime(root / path, (1_700_000_000, 1_700_000_000))
    with open_at(root) as workspace:
        workspace.index()


def id_of(workspace: Workspace, name: str) -> int:
    return next(card.id for card in workspace.list(limit=100).memories if card.path.endswith(name))


@dataclass(frozen=True)
class Operation:
    """What is done before, and the call that is tried."""

    act: Callable[[Workspace], object]
    prepare: Callable[[Workspace], object] = lambda workspace: None


def _delete(workspace: Workspace) -> object:
    return workspace.delete(id_of(workspace, "plan.md"), delete_file=True)


def _delete_folder(workspace: Workspace) -> object:
    return workspace.delete(spec_folder="001-core", confirm=True, delete_file=True)


def _update(workspace: Workspace) -> object:
    return workspace.update(id_of(workspace, "plan.md"), title="Changed", trigger_phrases=["numbat food"])


def _merge(workspace: Workspace) -> object:
    return workspace.merge(id_of(workspace, "other.md"), id_of(workspace, "plan.md"))


def _undo(workspace: Workspace) -> object:
    return workspace.undo()


def _checkpoint(workspace: Workspace) -> None:
    """A checkpoint, after which one file is changed, one deleted and one moved to another folder."""
    root = workspace.settings.root
    workspace.checkpoint_create("then")
    _update(workspace)
    workspace.delete(id_of(workspace, "other.md"), delete_file=True)
    (root / "specs/002-next/memory").mkdir(parents=True)
    (root / FOLDER / "third.md").rename(root / "specs/002-next/memory/third.md")
    workspace.index()


def _forgotten_since(workspace: Workspace) -> None:
    """A checkpoint, after which the index forgets one memory, and its file stays."""
    workspace.checkpoint_create("then")
    workspace.delete(id_of(workspace, "other.md"))


def _restore(workspace: Workspace) -> object:
    return workspace.checkpoint_restore("then", clear_existing=True)


def _restore_files(workspace: Workspace) -> object:
    return workspace.checkpoint_restore("then", clear_existing=True, restore_files=True)


def _restored(workspace: Workspace) -> None:
    _checkpoint(workspace)
    _restore_files(workspace)


OPERATIONS: Mapping[str, Operation] = {
    "delete": Operation(_delete),
    "delete a folder": Operation(_delete_folder),
    "update": Operation(_update),
    "merge": Operation(_merge),
    "undo of a delete": Operation(_undo, _delete),
    "undo of a folder's delete": Operation(_undo, _delete_folder),
    "undo of an update": Operation(_undo, _update),
    "undo of a merge": Operation(_undo, _merge),
    "restore": Operation(_restore, _forgotten_since),
    "restore with its files": Operation(_restore_files, _checkpoint),
    "undo of a restore": Operation(_undo, _restored),
}


# --- looking ----------------------------------------------------------------------------


def state_of(root: Path) -> dict[str, Any]:
    """Files and index as somebody finds them who opens the workspace again."""
    with open_at(root) as workspace:
        return look(workspace)


def look(workspace: Workspace) -> dict[str, Any]:
    root = workspace.settings.root
    words = ("numbat termites", "bilby ears", "text without front matter", "quoll night")
    return {
        "files": dict(_files(root)),
        "trash": sorted(text for path, text in _files(root / ".spec-kit-memory/trash", all_=True)),
        "memories": [(card.id, card.path, card.title, card.triggers) for card in workspace.list(limit=100).memories],
        "found": [[result.path for result in workspace.search(query).results] for query in words],
        "head": workspace.ledger_head().head,
    }


def _files(folder: Path, *, all_: bool = False) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder).as_posix()
        if path.is_file() and (all_ or not below.startswith(".spec-kit-memory/")):
            yield below, hashlib.sha256(path.read_bytes()).hexdigest()


def unhealthy(root: Path) -> list[str]:
    """What is wrong after an ordinary start: problems of health, and files of ours that nobody needs."""
    with open_at(root) as workspace:
        scanned = workspace.index()
        problems = [f"{one['check']}: {one['message']}" for one in workspace.health(full=True).problems]
    problems += [f"indexed again: {scanned.summary}"] if scanned.indexed or scanned.deleted else []
    pending = root / ".spec-kit-memory/pending"
    problems += [f"left in pending: {path.name}" for path in sorted(pending.glob("*"))]
    problems += [f"left: {path}" for path in sorted(root.rglob("*.skm.tmp"))]
    return problems


def essence(state: Mapping[str, Any]) -> dict[str, Any]:
    """Without what has random parts in it: the ids of operations make every ledger another one."""
    return {name: value for name, value in state.items() if name != "head"}


def is_undone(state: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """As before; what a dead process had written anew may be in the trash besides."""
    kept = not Counter(before["trash"]) - Counter(state["trash"])
    return kept and all(state[name] == before[name] for name in before if name not in ("trash", "head"))
