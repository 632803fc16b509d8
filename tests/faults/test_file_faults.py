"""Each change of a file may fail, or be the last thing that a process does: an operation is done or undone, whole.

A disk that stays full or broken is tried at every third call; SKM_TEST_FAULTS=all tries it at every one.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from spec_kit_memory import filesystem
from spec_kit_memory.errors import DatabaseBusy, DatabaseUnusable, SpecKitMemoryError
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from tests.faults import failing
from tests.faults.failing import NEEDS_SPACE, OPERATIONS, Failing

MOST_CALLS = 500
EACH = 1 if os.environ.get("SKM_TEST_FAULTS") == "all" else 3


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each operation a workspace that is ready for it, and one in which it was done."""
    made = {}
    for name, operation in OPERATIONS.items():
        folder = tmp_path_factory.mktemp("operation")
        failing.build(folder / "ready")
        with failing.open_at(folder / "ready") as workspace:
            operation.prepare(workspace)
        shutil.copytree(folder / "ready", folder / "done", symlinks=True)
        with failing.open_at(folder / "done") as workspace:
            operation.act(workspace)
        made[name] = folder
    return made


def fresh(templates: dict[str, Path], name: str, to: Path) -> Path:
    shutil.copytree(templates[name] / "ready", to, symlinks=True)
    return to


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(
    ("number", "lasting", "only"),
    [(errno.EIO, False, None), (errno.ENOSPC, True, NEEDS_SPACE), (errno.EIO, True, None)],
    ids=["one call fails", "the disk is full from then on", "the disk is broken from then on"],
)
def test_a_call_that_fails_leaves_the_operation_done_or_undone(
    templates: dict[str, Path], tmp_path: Path, name: str, number: int, lasting: bool, only: frozenset[str] | None
) -> None:
    before, after = (failing.state_of(templates[name] / which) for which in ("ready", "done"))
    assert failing.essence(before) != failing.essence(after)
    refused = 0
    for at in range(1, MOST_CALLS, EACH if lasting else 1):
        root = fresh(templates, name, tmp_path / str(at))
        system = Failing(at, number, lasting=lasting, only=only)
        with failing.open_at(root) as workspace:
            error: SpecKitMemoryError | None = None
            with filesystem.using(system):
                try:
                    OPERATIONS[name].act(workspace)
                except SpecKitMemoryError as caught:
                    error = caught
            where = f"{name}, call {at} ({system.calls[min(at, len(system.calls)) - 1]})"
            if error is not None:
                refused += 1
                assert error.code in ("E011", "E014", "E020", "E110"), where
            if error is not None and not (lasting and number == errno.EIO):
                assert failing.look(workspace) == before, where  # here and now, not only after a start
        state = failing.state_of(root)
        if error is not None:
            assert failing.is_undone(state, before), where
            assert state["head"] == before["head"], where
        else:
            assert failing.essence(state) == failing.essence(after), where
        assert failing.unhealthy(root) == [], where
        shutil.rmtree(root)
        if not system.reached:
            assert refused
            return
    pytest.fail("the operation never got through")


@pytest.mark.parametrize("name", OPERATIONS)
def test_while_another_process_holds_the_index_nothing_changes(
    templates: dict[str, Path], tmp_path: Path, name: str
) -> None:
    root = fresh(templates, name, tmp_path / "work")
    before = failing.state_of(root)
    with (
        failing.open_at(root, busy_seconds=0.05) as workspace,
        closing(apsw.Connection(str(workspace.settings.index_path))) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusy):
            OPERATIONS[name].act(workspace)
        assert failing.look(workspace) == before
        other.execute("ROLLBACK")
        OPERATIONS[name].act(workspace)
    assert failing.essence(failing.state_of(root)) == failing.essence(failing.state_of(templates[name] / "done"))
    assert failing.unhealthy(root) == []


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_index_that_cannot_be_written_any_more_takes_the_files_back(
    templates: dict[str, Path], tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the transaction is committed: the last moment at which an operation can fail."""
    root = fresh(templates, name, tmp_path / "work")
    before = failing.state_of(root)
    with failing.open_at(root) as workspace:
        together = type(workspace._runtime.whole).together

        @contextmanager
        def full(index: SqliteIndex) -> Iterator[None]:
            with together(index):
                yield
                raise DatabaseUnusable("the disk is full; nothing was changed", hint="free some space and try again")

        with monkeypatch.context() as patch:
            patch.setattr(SqliteIndex, "together", full)
            with pytest.raises(DatabaseUnusable):
                OPERATIONS[name].act(workspace)
        assert failing.look(workspace) == before
    assert failing.state_of(root) == before
    assert failing.unhealthy(root) == []


@pytest.mark.timeout(600)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_process_that_dies_before_any_call_leaves_the_operation_done_or_undone(
    templates: dict[str, Path], tmp_path: Path, name: str
) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.faults.die_at_each_call",
        str(templates[name] / "ready"),
        str(tmp_path),
        name,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert ended.returncode == 0, ended.stderr
    before, after = (failing.state_of(templates[name] / which) for which in ("ready", "done"))
    outcomes = []
    for place in json.loads(ended.stdout):
        root = Path(place)
        state = failing.state_of(root)
        done = failing.essence(state) == failing.essence(after)
        assert done or failing.is_undone(state, before), f"{name}, killed before call {root.name}"
        assert failing.unhealthy(root) == [], f"{name}, killed before call {root.name}"
        outcomes.append(done)
    assert outcomes == sorted(outcomes), "undone up to some call, and done from there on"
    assert {False, True} <= set(outcomes)
