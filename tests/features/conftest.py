from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

Write = Callable[..., Path]


@dataclass
class Clock:
    """The time that a workspace is told."""

    at: datetime = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at

    def pass_(self, **how_long: float) -> None:
        self.at += timedelta(**how_long)


@dataclass
class Place:
    """A folder that becomes a workspace, and the workspaces opened on it."""

    root: Path
    clock: Clock
    opened: list[Workspace] = field(default_factory=list)

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        # Old enough that its stamp can be trusted.
        old = self.clock().timestamp() - 60
        os.utime(target, (old, old))
        return target

    def memory(self, name: str, body: str, *, folder: str = "001-core", **front: object) -> Path:
        keys = "".join(f"{key}: {value}\n" for key, value in front.items())
        head = f"---\n{keys}---\n" if keys else ""
        return self.write(f"specs/{folder}/memory/{name}.md", f"{head}{body}\n")

    def open(self, *, model: str = "hashing", index: bool = True, **changed: object) -> Workspace:
        settings = Settings(root=self.root, semantic=Semantic(model=model), **changed)  # type: ignore[arg-type]
        workspace = Workspace(settings, now=self.clock)
        self.opened.append(workspace)
        if index:
            workspace.index()
        return workspace

    def id_of(self, workspace: Workspace, name: str) -> int:
        return next(card.id for card in workspace.list(limit=100).memories if name in card.path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def place(tmp_path: Path, clock: Clock) -> Iterator[Place]:
    root = Path(os.path.realpath(tmp_path / "work"))
    root.mkdir()
    result = Place(root, clock)
    yield result
    for workspace in result.opened:
        workspace.close()
