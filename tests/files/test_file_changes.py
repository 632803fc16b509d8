from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spec_kit_memory import filesystem
from spec_kit_memory.core.memory import Actor, Change
from spec_kit_memory.core.operation import Delete, Operation, new_id
from spec_kit_memory.errors import BadPath, DatabaseBusy, OutsideScope
from spec_kit_memory.files import file_changes, journal, pending, write_counters
from spec_kit_memory.files.scan import Sync
from spec_kit_memory.filesystem import System
from spec_kit_memory.index.contract import Index
from spec_kit_memory.settings import Settings

Write = Callable[..., Path]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TEXT = "# Plan\n\nThe numbat digs.\n"


class Bench:
    """A workspace with one memory, and operations that forget it while its file changes."""

    def __init__(self, store: Index, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self.sync = Sync(store, settings, now=lambda: NOW)
        self.sync.scan()
        [self.memory] = store.documents.find()

    @contextmanager
    def applied(self, *steps: file_changes.Step | None, operation: Operation | None = None) -> Iterator[None]:
        done = operation or Delete()
        planned = [step for step in steps if step is not None]
        with file_changes.applied(self.settings, self.store, done.id, planned, scope=self.settings.scope):
            self.store.documents.forget(self.memory.id, Change(Actor.USER, NOW, operation=done))
            yield

    @property
    def is_forgotten(self) -> bool:
        return self.store.documents.find() == []


@pytest.fixture
def bench(store: Index, settings: Settings, write: Write) -> Bench:
    write("memory/plan.md", TEXT)
    return Bench(store, settings)


def left(settings: Settings) -> list[str]:
    folder = settings.state_folder / "pending"
    return os.listdir(folder) if folder.exists() else []


def test_a_file_that_was_discarded_can_be_recalled(bench: Bench, settings: Settings, root: Path) -> None:
    step = file_changes.discard(settings, "memory/plan.md", to="drawer", scope=settings.scope)
    assert step is not None
    with bench.applied(step):
        assert not (root / "memory/plan.md").exists(), "inside, the files are as they will be"
    assert step.change.trash == "trash/drawer/memory/plan.md"
    assert (settings.state_folder / step.change.trash).read_text() == TEXT
    assert bench.is_forgotten
    assert write_counters.read(settings, scope=settings.scope).deletes == 1
    (root / "memory").rmdir()
    back = file_changes.recall(settings, "memory/plan.md", trash_name=step.change.trash, scope=settings.scope)
    with file_changes.applied(settings, bench.store, new_id(), [back], scope=settings.scope):
        bench.store.documents.recall(bench.memory.id, Change(Actor.USER, NOW))
    assert (root / "memory/plan.md").read_text() == TEXT
    assert list((settings.state_folder / "trash").iterdir()) == [], "an emptied drawer goes"
    assert left(settings) == []


def test_recalling_never_replaces_a_file(bench: Bench, settings: Settings, root: Path, write: Write) -> None:
    step = file_changes.discard(settings, "memory/plan.md", to="drawer", scope=settings.scope)
    with bench.applied(step):
        pass
    back = file_changes.recall(
        settings, "memory/plan.md", trash_name="trash/drawer/memory/plan.md", scope=settings.scope
    )
    file = write("memory/plan.md", "new")
    with (
        pytest.raises(BadPath, match="exists"),
        file_changes.applied(settings, bench.store, new_id(), [back], scope=settings.scope),
    ):
        pytest.fail("it may not come so far")
    assert file.read_text() == "new"
    assert (settings.state_folder / "trash/drawer/memory/plan.md").read_text() == TEXT
    assert left(settings) == []


def test_there_is_nothing_to_discard_where_there_is_no_file(settings: Settings) -> None:
    assert file_changes.discard(settings, "memory/none.md", to="drawer", scope=settings.scope) is None


@pytest.mark.parametrize("path", ["../out.md", ".git/config", "src/main.py", "/etc/passwd", "memory/.hidden.md"])
def test_only_files_of_memories_are_changed(settings: Settings, path: str) -> None:
    for plan in (
        lambda: file_changes.discard(settings, path, to="drawer", scope=settings.scope),
        lambda: file_changes.write(settings, path, b"x", scope=settings.scope),
        lambda: file_changes.rewrite(settings, path, str.upper, scope=settings.scope),
        lambda: file_changes.recall(settings, path, trash_name="trash/drawer/x.md", scope=settings.scope),
    ):
        with pytest.raises(OutsideScope):
            plan()


def test_what_a_write_replaces_stays_in_the_trash_where_it_is_to_be_kept(
    bench: Bench, settings: Settings, root: Path
) -> None:
    step = file_changes.rewrite(settings, "memory/plan.md", str.upper, keep_in="drawer", scope=settings.scope)
    with bench.applied(step):
        pass
    assert (root / "memory/plan.md").read_text() == TEXT.upper()
    assert (settings.state_folder / "trash/drawer/memory/plan.md").read_text() == TEXT
    assert left(settings) == []


def test_whatever_fails_in_the_block_files_and_index_are_as_they_were(
    bench: Bench, settings: Settings, root: Path
) -> None:
    before = (root / "memory/plan.md").stat()
    steps = (
        file_changes.rewrite(settings, "memory/plan.md", str.upper, keep_in="drawer", scope=settings.scope),
        file_changes.write(settings, "specs/001-new/memory/a.md", b"new", scope=settings.scope),
    )
    for error in (DatabaseBusy("busy"), KeyboardInterrupt(), ZeroDivisionError()):
        with pytest.raises(type(error)), bench.applied(*steps):  # noqa: PT012  the block is what fails
            assert (root / "specs/001-new/memory/a.md").exists()
            raise error
        after = (root / "memory/plan.md").stat()
        assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)
        assert not (root / "specs").exists(), "folders that were made for it go, too"
        assert not list((settings.state_folder / "trash").rglob("*.md"))
        assert not bench.is_forgotten
        assert left(settings) == []


def test_an_edit_since_the_plan_is_not_overwritten(bench: Bench, settings: Settings, write: Write) -> None:
    step = file_changes.rewrite(settings, "memory/plan.md", str.upper, scope=settings.scope)
    file = write("memory/plan.md", "somebody's own words")
    with pytest.raises(file_changes.Changed), bench.applied(step):
        pytest.fail("it may not come so far")
    assert file.read_text() == "somebody's own words"
    assert not bench.is_forgotten


def test_where_the_disk_has_no_second_names_a_copy_is_kept(bench: Bench, settings: Settings, root: Path) -> None:
    class Without(System):
        def link(self, name: str, to: str, handle: int | None, to_handle: int | None) -> None:
            raise OSError(errno.EPERM, "no links here")

    step = file_changes.rewrite(settings, "memory/plan.md", str.upper, scope=settings.scope)
    with filesystem.using(Without()), pytest.raises(ZeroDivisionError), bench.applied(step):
        raise ZeroDivisionError
    assert (root / "memory/plan.md").read_text() == TEXT
    with filesystem.using(Without()), bench.applied(step):
        pass
    assert (root / "memory/plan.md").read_text() == TEXT.upper()


def test_a_trash_on_another_disk_gets_a_copy(bench: Bench, settings: Settings, root: Path) -> None:
    class Apart(System):
        def link(self, name: str, to: str, handle: int | None, to_handle: int | None) -> None:
            raise OSError(errno.EXDEV, "another disk")

    os.utime(root / "memory/plan.md", ns=(10**18, 10**18))
    step = file_changes.discard(settings, "memory/plan.md", to="drawer", scope=settings.scope)
    with filesystem.using(Apart()), pytest.raises(ZeroDivisionError), bench.applied(step):
        raise ZeroDivisionError
    assert (root / "memory/plan.md").read_text() == TEXT
    assert (root / "memory/plan.md").stat().st_mtime_ns == 10**18
    with filesystem.using(Apart()), bench.applied(step):
        pass
    assert not (root / "memory/plan.md").exists()
    assert (settings.state_folder / "trash/drawer/memory/plan.md").read_text() == TEXT


# --- records of dead processes ----------------------------------------------------------


def record(settings: Settings, fields: object) -> None:
    folder = settings.state_folder / "pending"
    folder.mkdir(exist_ok=True)
    (folder / f"{'e' * 32}.json").write_text(json.dumps(fields))


def test_a_living_operation_is_left_alone_by_recovery(bench: Bench, settings: Settings) -> None:
    with bench.applied(file_changes.discard(settings, "memory/plan.md", to="drawer", scope=settings.scope)):
        assert file_changes.settle_dead(settings, bench.store) == 0
        assert len(left(settings)) == 1
    assert left(settings) == []


@pytest.mark.parametrize(
    "steps",
    [
        [{"path": "../victim.md", "trash": "trash/d/a.md", "digest": "{digest}", "discards": False}],
        [{"path": ".git/config", "trash": "trash/d/a.md", "digest": "{digest}", "discards": True}],
        [{"path": "memory/plan.md", "trash": "../../victim.md", "digest": "{digest}", "discards": True}],
        [{"path": "memory/plan.md", "trash": "trash/../../../victim.md", "digest": "{digest}", "discards": False}],
        [{"path": "src/main.py", "before": None, "after": "{digest}", "keep": None}],
        [{"path": "/etc/passwd", "before": None, "after": "{digest}", "keep": None}],
        [{"path": "memory/plan.md", "before": "x", "after": "{digest}", "keep": "trash/../../victim.md"}],
        [{"path": 1}],
        "steps",
        None,
    ],
)
def test_a_forged_record_touches_nothing(bench: Bench, root: Path, write: Write, steps: object) -> None:
    for path in (write("src/main.py"), write(".git/config"), write("memory/plan.md"), root.parent / "victim.md"):
        path.write_text(TEXT)
    before = texts(root.parent)
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    fields = json.dumps({"operation": "f" * 32, "steps": steps}).replace("{digest}", digest)
    record(bench.settings, json.loads(fields))
    file_changes.settle_dead(bench.settings, bench.store)
    assert texts(root.parent) == before


def texts(folder: Path) -> dict[Path, bytes]:
    results = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "pending")
    return {path: path.read_bytes() for path in results if "sqlite" not in path.name}


@pytest.mark.parametrize(
    "fields", [{}, {"operation": "x"}, {"operation": 1, "steps": []}, {"operation": "x", "steps": 1}]
)
def test_a_record_without_anything_to_do_is_removed(bench: Bench, settings: Settings, fields: object) -> None:
    record(settings, fields)
    bench.sync.recover()
    assert left(settings) == []


def test_an_edit_after_a_crash_is_not_taken_back(bench: Bench, settings: Settings, root: Path) -> None:
    step = file_changes.rewrite(settings, "memory/plan.md", str.upper, scope=settings.scope)
    assert step is not None
    record(settings, {"operation": "f" * 32, "steps": [step.plain()]})
    (root / "memory/plan.md").write_text("written since")
    assert file_changes.settle_dead(settings, bench.store) == 1
    assert (root / "memory/plan.md").read_text() == "written since"


def test_a_file_that_came_back_after_a_committed_delete_stays(bench: Bench, settings: Settings, root: Path) -> None:
    """Its process died before it removed its record; a checkout brought the file back since."""
    step = file_changes.discard(settings, "memory/plan.md", to="drawer", scope=settings.scope)
    assert step is not None
    done = Delete()
    with bench.applied(step, operation=done):
        pass
    (root / "memory/plan.md").write_text(TEXT)
    record(settings, {"operation": done.id, "steps": [step.plain()]})
    assert file_changes.settle_dead(settings, bench.store) == 1
    assert (root / "memory/plan.md").read_text() == TEXT
    assert (settings.state_folder / "trash/drawer/memory/plan.md").exists()


def test_a_forged_record_empties_no_drawer_of_the_trash(bench: Bench, settings: Settings) -> None:
    kept = settings.state_folder / "trash/drawer/memory/plan.md"
    kept.parent.mkdir(parents=True)
    kept.write_text("deleted by a person, who may want it back")
    forged = {"path": "memory/plan.md", "before": "0" * 64, "after": "1" * 64, "keep": "trash/drawer/memory/plan.md"}
    record(settings, {"operation": "f" * 32, "steps": [forged]})
    assert file_changes.settle_dead(settings, bench.store) == 1
    assert kept.read_text() == "deleted by a person, who may want it back"


def test_a_path_that_leads_away_now_keeps_its_record_for_later(bench: Bench, settings: Settings, root: Path) -> None:
    step = file_changes.discard(settings, "memory/plan.md", to="drawer", scope=settings.scope)
    assert step is not None
    record(settings, {"operation": "f" * 32, "steps": [step.plain()]})
    trashed = settings.state_folder / "trash/drawer/memory/plan.md"
    trashed.parent.mkdir(parents=True)
    (root / "memory/plan.md").rename(trashed)
    (root / "memory").rmdir()
    (root / "memory").symlink_to(root.parent)
    assert file_changes.settle_dead(settings, bench.store) == 0
    assert left(settings) == [f"{'e' * 32}.json"]
    (root / "memory").unlink()
    assert file_changes.settle_dead(settings, bench.store) == 1
    assert (root / "memory/plan.md").read_text() == TEXT
    assert left(settings) == []


def test_the_journal_gives_a_name_once(settings: Settings) -> None:
    held = journal.take(settings, "a")
    assert held is not None
    with held:
        assert journal.take(settings, "a") is None
        assert list(journal.dead(settings)) == []
        held.remove()
    assert left(settings) == []


def test_damaged_counters_start_again(settings: Settings) -> None:
    settings.state_folder.mkdir()
    write_counters.count(settings, atomic_writes=2, errors=1, scope=settings.scope)
    write_counters.count(settings, atomic_writes=1, scope=settings.scope)
    assert write_counters.read(settings, scope=settings.scope) == write_counters.WriteCounters(
        atomic_writes=3, errors=1
    )
    (settings.state_folder / "transactions.json").write_text("[")
    assert write_counters.read(settings, scope=settings.scope) == write_counters.WriteCounters()


class Hasty(System):
    """A recovery of another process that looks in the moment between a record's making and its locking."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.robbed = settings, 0

    def create(self, name: str, flags: int, mode: int, handle: int | None) -> int:
        descriptor = super().create(name, flags, mode, handle)
        if name.endswith(".json") and not self.robbed:
            self.robbed += 1
            pending.recover(self.settings)
        return descriptor


def test_a_recovery_that_removes_a_record_too_early_does_not_refuse_the_operation(
    bench: Bench, settings: Settings, root: Path
) -> None:
    hasty = Hasty(settings)
    step = file_changes.discard(settings, "memory/plan.md", to="drawer", scope=settings.scope)
    with filesystem.using(hasty), bench.applied(step):
        pass
    assert hasty.robbed == 1
    assert bench.is_forgotten
    assert not (root / "memory/plan.md").exists()
    assert left(settings) == []
