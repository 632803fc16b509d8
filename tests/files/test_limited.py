"""A scan of a few paths, as the watcher makes it for an event: the same end, for the price of those paths."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as property_settings
from hypothesis import strategies as st

from spec_kit_memory.core.memory import Actor, Change, Presence
from spec_kit_memory.files import discover, disk
from spec_kit_memory.files.scan import Sync
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index, Stored
from spec_kit_memory.settings import Settings

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PLACES = [
    "specs/001-a/spec.md",
    "specs/001-a/plan.md",
    "specs/001-a/memory/x.md",
    "specs/002-b/spec.md",
    "specs/002-b/tasks.md",
    "specs/002-b/memory/x.md",
    "memory/y.md",
]
TEXTS = ["# One\n\nThe fox.\n", "# Two\n\nThe whale.\n", "# Three\n\nThe crane.\n", ""]


class Sparing:
    """A store that refuses to read every path there is."""

    def __init__(self, store: Index) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def within(self, scope: Any) -> Sparing:
        return Sparing(self._store.within(scope))

    def stored(self, path: str | None = None) -> Mapping[str, Stored]:
        assert path is not None, "an event must not read the whole index"
        return self._store.documents.stored(path)


@dataclass
class Side:
    """One copy of a workspace with its index."""

    root: Path
    store: Index
    whole: Sync
    limited: Sync

    def text(self, path: str) -> str | None:
        file = self.root / path
        return file.read_text(encoding="utf-8") if file.exists() else None

    def write(self, path: str, text: str | None) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(text, encoding="utf-8")

    def known(self) -> object:
        rows = self.store.documents.stored()
        links = {(link.source_id, link.target_id, link.relation) for link in self.store.record.links()}
        return {path: (row.memory_id, row.presence, row.alias, row.fingerprint) for path, row in rows.items()}, links


@contextmanager
def side() -> Iterator[Side]:
    root = Path(os.path.realpath(mkdtemp(prefix="skm-limited-")))
    settings = Settings(root=root)
    disk.ensure_state_folder(settings)
    store = open_index(settings.index_path)
    sparing: Any = Sparing(store)
    try:
        yield Side(root, store, Sync(store, settings, now=lambda: NOW), Sync(sparing, settings, now=lambda: NOW))
    finally:
        store.close()
        shutil.rmtree(root)


@pytest.fixture
def here() -> Iterator[Side]:
    with side() as made:
        yield made


STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "delete", "move", "forget"]), st.sampled_from(PLACES), st.sampled_from(PLACES)),
    max_size=8,
)


@property_settings(max_examples=25, deadline=None)
@given(steps=STEPS, data=st.data())
def test_events_one_by_one_lead_where_whole_scans_do(steps: list[tuple[str, str, str]], data: st.DataObject) -> None:
    with side() as one, side() as other:
        for kind, path, second in steps:
            text = data.draw(st.sampled_from(TEXTS))
            changed = _step(one, kind, path, second, text)
            assert _step(other, kind, path, second, text) == changed
            one.whole.scan(count=False)
            other.limited.scan(only=[other.root / name for name in changed], count=False)
            assert other.known() == one.known()


def _step(side: Side, kind: str, path: str, second: str, text: str) -> list[str]:
    """Change the files, or the index; which paths does the system report?"""
    if kind == "forget":
        row = side.store.documents.stored(path).get(path)
        if row and row.presence is Presence.LIVE and not row.alias:
            side.store.documents.forget(row.memory_id, Change(Actor.USER, NOW))
        return [path]
    if kind == "move":
        kept = side.text(path)
        if kept is None or path == second:
            return []
        side.write(path, None)
        side.write(second, kept)
        return [path, second]
    side.write(path, text if kind == "write" else None)
    return [path]


def test_a_folder_that_went_takes_its_memories_along_and_no_others(here: Side) -> None:
    for path in ("specs/001-a/memory/x.md", "specs/001-a/spec.md", "specs/001-ab/memory/x.md"):
        here.write(path, f"# {path}\n\nText of {path}.\n")
    here.whole.scan()
    shutil.rmtree(here.root / "specs/001-a")
    assert here.limited.scan(only=[here.root / "specs/001-a"], count=False).deleted == 2
    live = [path for path, row in here.store.documents.stored().items() if row.presence is Presence.LIVE]
    assert live == ["specs/001-ab/memory/x.md"]


def test_the_file_behind_a_link_is_followed_without_a_walk_of_everything(
    here: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.write("specs/001-a/scratch/real.md", "# Real\n\nFirst.\n")
    here.write("specs/001-a/scratch/other.md", "# Other\n\nNo link leads here.\n")
    (here.root / "specs/001-a/memory").mkdir()
    (here.root / "specs/001-a/memory/link.md").symlink_to(here.root / "specs/001-a/scratch/real.md")
    here.limited._store = here.store  # the first scan is of everything
    assert here.limited.scan().new == 1
    walked = _walks(monkeypatch)
    here.write("specs/001-a/scratch/other.md", "# Other\n\nChanged.\n")
    assert not here.limited.scan(only=[here.root / "specs/001-a/scratch/other.md"], count=False).changed
    assert walked == []
    here.write("specs/001-a/scratch/real.md", "# Real\n\nSecond, and longer.\n")
    assert here.limited.scan(only=[here.root / "specs/001-a/scratch/real.md"], count=False).modified == 1


def test_a_link_that_came_since_is_known_from_its_own_event(here: Side) -> None:
    here.write("specs/001-a/scratch/real.md", "# Real\n\nFirst.\n")
    (here.root / "specs/001-a/memory").mkdir()
    here.limited._store = here.store
    here.limited.scan()
    link = here.root / "specs/001-a/memory/link.md"
    link.symlink_to(here.root / "specs/001-a/scratch/real.md")
    assert here.limited.scan(only=[link], count=False).new == 1
    here.write("specs/001-a/scratch/real.md", "# Real\n\nSecond, and longer.\n")
    assert here.limited.scan(only=[here.root / "specs/001-a/scratch/real.md"], count=False).modified == 1


def _walks(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that are walked from now on because they may hold anything."""
    walked: list[Path] = []
    plain: Callable[..., None] = discover._folder

    def noted(walk: Any, top: Any, real: Path) -> None:
        walked.append(real)
        plain(walk, top, real)

    monkeypatch.setattr(discover, "_folder", noted)
    return walked
