from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.features.conftest import clock, place

__all__ = ["clock", "place"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with twenty memories, none of them indexed yet."""
    return filled(Path(os.path.realpath(tmp_path)) / "work")


def filled(root: Path, *, count: int = 20) -> Path:
    memory = root / "specs" / "001-core" / "memory"
    memory.mkdir(parents=True)
    for number in range(count):
        text = f"# Note {number}\n\nThe zebra{number} walks alone.\n\n" + f"Word{number} follows. " * 40
        (memory / f"note-{number}.md").write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def texts() -> Callable[[Path], dict[str, str]]:
    """What the workspace's files say: whatever happens to the index, these stay."""

    def read(root: Path) -> dict[str, str]:
        return {path.name: path.read_text(encoding="utf-8") for path in (root / "specs").rglob("*.md")}

    return read
