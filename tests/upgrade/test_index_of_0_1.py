"""Is an index of 0.1.0 taken along? A workspace that 0.1.0 made is opened, verified, searched and undone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from spec_kit_memory.core import ledger, operation
from spec_kit_memory.core.ledger_operations import operation_of, undone_by
from spec_kit_memory.core.memory import LedgerEntry, Mutation
from spec_kit_memory.errors import Invalid
from spec_kit_memory.index import open_index
from spec_kit_memory.index.sqlite import schema
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
from tests.upgrade.make_workspace import HOSTILE, STEPS

ARCHIVE = Path(__file__).parent / "workspace-0.1.0.tar.gz"
LATER = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
ENTRIES = 34


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "work"
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def space(root: Path) -> Iterator[Workspace]:
    ticks = iter(range(100_000))
    settings = Settings(root=root, semantic=Semantic(model="hashing"))
    with Workspace(settings, now=lambda: LATER + timedelta(seconds=next(ticks))) as opened:
        yield opened


def index_of(root: Path) -> Path:
    return root / ".spec-kit-memory" / "index.sqlite"


def version_of(root: Path) -> int:
    connection = apsw.Connection(str(index_of(root)))
    try:
        return int(connection.execute("PRAGMA user_version").get)
    finally:
        connection.close()


def test_it_is_an_index_of_the_first_version(root: Path) -> None:
    assert version_of(root) == 1


def test_it_opens_verifies_and_answers(space: Workspace) -> None:
    assert space.ledger_verify().ok
    assert space.ledger_head().entries == ENTRIES
    answer = space.search("which broker do messages go through")
    assert answer.results[0].title == "Broker"
    chat = space.search("nearest rack to the pier", source="chat").results[0]
    assert chat.path.startswith("chat://")
    assert space.index().new == 0
    health = space.health(full=True)
    assert health.healthy, health.problems
    assert space.checkpoint_diff("early").name == "early"


def test_every_history_row_gets_the_entry_that_it_was_written_with(root: Path) -> None:
    store = open_index(index_of(root))
    entries = {entry.sequence: entry for entry in store.record.ledger()}
    rows = store.record.history()
    store.close()
    assert {entry.version for entry in entries.values()} == {1}
    assert {row.ledger_sequence for row in rows} == set(entries)
    for row in rows:
        entry = entries[row.ledger_sequence or 0]
        assert entry.memory_ids[0] == row.memory_id
        if "history" not in entry.reason:
            assert (row.before or {}).get("content_hash") == entry.hash_before
            assert (row.after or {}).get("content_hash") == entry.hash_after
    adopted = [row for row in rows if "history" in entries[row.ledger_sequence or 0].reason]
    assert [row.at.month for row in adopted] == [1, 1]


def test_new_entries_follow_the_old_ones_in_one_chain(space: Workspace) -> None:
    space.update(space.list().memories[0].id, title="After the upgrade")
    head = space.ledger_head()
    assert head.entries > ENTRIES
    assert space.ledger_verify().ok
    versions = [entry.version for entry in space._runtime.whole.record.ledger()]
    assert versions == sorted(versions)
    assert set(versions) == {1, 2}


def test_all_that_0_1_did_is_taken_back_step_by_step(root: Path, space: Workspace) -> None:
    undone = []
    while True:
        try:
            undone.append(space.undo())
        except Invalid:
            break
        assert space.ledger_verify().ok
    assert tuple(answer.undone for answer in undone) == STEPS
    for path in ("001-core/memory/parking.md", "002-gone/memory/trashed.md"):
        assert (root / "specs" / path).is_file()
    for name in ("odd", "even"):
        assert (root / "specs" / HOSTILE / "y" / "memory" / f"{name}.md").is_file()
    space.index()
    cards = {card.title: card for card in space.list(limit=50).memories}
    assert {"Login tokens", "Broker", "Parking", "Trashed", "Odd", "Even", "Plan", "Core"} <= set(cards)
    assert cards["Login tokens"].tier.value == "normal"
    assert (cards["Broker"].confidence, cards["Broker"].validation_count) == (0.7, 2)  # as it was taken over
    assert space.why(cards["Login tokens"].id).steps == ()
    assert space.health().healthy, space.health().problems


def test_what_was_taken_over_from_the_original_system_is_not_taken_over_twice(space: Workspace) -> None:
    taken = [operation_of(entry) for entry in space._runtime.whole.record.ledger()]
    imports = [item for item in taken if isinstance(item, operation.Import)]
    assert [(item.part, len(item.source)) for item in imports] == [("use", 16), ("history", 16)]


KILL = """
import os, signal, sys
import apsw
from pathlib import Path
from spec_kit_memory.index.sqlite import schema
real = schema._number_history
def killed(connection):
    if sys.argv[2] == "after":
        real(connection)
    os.kill(os.getpid(), signal.SIGKILL)
schema._number_history = killed
from spec_kit_memory.index import open_index
open_index(Path(sys.argv[1]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill a process at once")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_in_the_middle_the_index_is_as_it_was_and_the_next_start_finishes(root: Path, moment: str) -> None:
    run = [sys.executable, "-c", KILL, str(index_of(root)), moment]
    done = subprocess.run(run, capture_output=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert version_of(root) == 1
    store = open_index(index_of(root))
    assert len(store.record.history(ledger=range(1, ENTRIES + 1))) == len(store.record.history())
    assert ledger.verify(store.record.ledger()) is None
    store.close()
    assert version_of(root) == schema.VERSION


def test_the_guards_of_history_stand_again(root: Path) -> None:
    open_index(index_of(root)).close()
    connection = apsw.Connection(str(index_of(root)))
    for statement in ("UPDATE history SET actor = 'x'", "DELETE FROM history", "UPDATE ledger SET actor = 'x'"):
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            connection.execute(statement)
    connection.close()


def entry(reason: str, *, kind: Mutation = Mutation.DELETE, ids: tuple[int, ...] = (7,)) -> LedgerEntry:
    return LedgerEntry(12, "2026-03-01T12:00:00.000000Z", kind, ids, "a", None, "user", None, reason, "", "")


DRAWER = "trash/20260301T120055-fc7097"


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("specs/001-x/memory/a.md", None),
        ("specs/001-x; file in trash/y/memory/a.md", "001-x; file in trash/y"),
        (f"specs/001-x; file in {DRAWER}/y/memory/a.md", f"001-x; file in {DRAWER}/y"),
        ("specs/001-x; checkpoint before-delete-20260301-120052/memory/a.md", None),
        ("specs/001\nx/memory/a.md", "001\nx"),
    ],
)
def test_a_trash_place_is_found_in_a_reason_whatever_the_folder_is_called(path: str, folder: str | None) -> None:
    what = f"delete specFolder {folder}; checkpoint before-delete-20260301-120052" if folder else "delete"
    result = operation_of(entry(f"{what}; file in {DRAWER}/{path}"), {"path": path})
    assert isinstance(result, operation.Delete)
    assert [file.trash for file in result.files] == [f"{DRAWER}/{path}"]
    assert result.spec_folder == folder


@pytest.mark.parametrize("name", ["x", "a; before it b", "before it before-restore-20260101-000000", "x\ny", '"}'])
def test_the_two_checkpoints_of_a_restore_are_told_apart(name: str) -> None:
    reason = f"restore checkpoint {name}; before it before-restore-20260301-120204-2"
    result = operation_of(entry(reason, kind=Mutation.RESTORE))
    assert isinstance(result, operation.Restore)
    assert (result.checkpoint, result.safety) == (name, "before-restore-20260301-120204-2")


def test_reasons_that_only_look_alike_and_those_of_new_entries_are_not_read() -> None:
    for reason in ("scan", "deleted", "updates", "merge into", "undo of x", "validated as useful; no", "linked"):
        assert operation_of(entry(reason)) is None
    assert list(undone_by(entry("undo of 3-5"))) == [3, 4, 5]
    newer = LedgerEntry(12, "", Mutation.DELETE, (7,), None, None, "user", None, "delete", "", "", version=2)
    assert operation_of(newer) is None
    assert list(undone_by(newer)) == []
