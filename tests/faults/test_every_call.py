"""Each call that changes something on disk or reads it, ours or SQLite's, may fail, be late, be cut short, or be the
last one.

A sample of the calls of every operation, with each kind of fault; `python -m benchmarks.faults` tries all of them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from spec_kit_memory import requests
from spec_kit_memory.answers import UndoAnswer
from spec_kit_memory.errors import DatabaseBusy, DatabaseUnusable
from spec_kit_memory.features import undo
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from spec_kit_memory.parameters import Request
from spec_kit_memory.workspace import Workspace
from tests.faults import operations, sweep
from tests.faults.calls import READS, Calls, Fault, watched
from tests.faults.operations import OPERATIONS, QUESTIONS
from tests.faults.power_cut import EVERYTHING, Disk
from tests.faults.sweep import CUT, KILL, KINDS, LATE, READING, Ready

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks, and its VFS stands on the one of Unix")

MOST = int(os.environ.get("SKM_TEST_FAULTS", "4"))  # calls of each operation and kind, besides the first and the last
RARER = (CUT, LATE, *READING, "EINTR")  # tried in four ways each, or cheap to break and many
# They write a file and nothing into the index, so they do not wait for whoever writes to it.
WITHOUT_INDEX = ("set a finding aside", "export of the ledger")
# Refused as a whole while somebody else writes. Others read first, come in several steps, or only touch files.
AT_ONCE = [
    name
    for name, operation in OPERATIONS.items()
    if not operation.resumes and not operation.keeps_text and "checkpoint" not in name and name not in WITHOUT_INDEX
]


@pytest.fixture(scope="module")
def quick_disk() -> Iterator[Path]:
    """In memory where that can be: thousands of syncs are waited for otherwise."""
    memory = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(prefix="skm-test-", dir=memory if os.access(memory, os.W_OK) else None)).resolve()
    yield place
    shutil.rmtree(place)


@pytest.fixture
def tmp_path(quick_disk: Path) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(dir=quick_disk))
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def ready(quick_disk: Path) -> Iterator[dict[str, Ready]]:
    yield {name: sweep.prepare(name, quick_disk / f"operation-{number}") for number, name in enumerate(OPERATIONS)}
    sweep.close_looker()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_whatever_a_call_does_the_operation_is_done_or_undone(
    ready: dict[str, Ready], tmp_path: Path, name: str, kind: str
) -> None:
    most = MOST // 2 if kind in RARER else MOST
    tried = sweep.sweep(ready[name], kind, sweep.some(most, seed=f"{name} {kind}"), tmp_path / "tried")
    assert tried.problems == []
    # Linking, say, changes no file of ours: there is nothing to interrupt then.
    assert tried.points >= min(tried.calls, 2)
    assert tried.points or kind in ("interrupted", "EINTR", LATE)


@pytest.mark.timeout(600)
def test_a_rebuild_that_is_killed_at_any_step_leaves_the_old_index_or_a_whole_new_one(
    ready: dict[str, Ready], tmp_path: Path
) -> None:
    tried = sweep.sweep(ready["rebuild"], KILL, sweep.some(40, seed="rebuild"), tmp_path / "tried")
    assert tried.problems == []
    assert tried.points > 30


@pytest.mark.timeout(600)
@pytest.mark.parametrize("reading", [True, False], ids=["reads", "changes"])
def test_what_another_process_saves_during_a_scan_is_never_missing(
    ready: dict[str, Ready], tmp_path: Path, reading: bool
) -> None:
    """The scan is late at one of its calls, and a save comes in between; nobody has to scan again."""

    def scanned(at: int) -> tuple[Calls, list[object]]:
        root, said = shutil.copytree(ready["scan"].folder / "ready", tmp_path / f"{at}"), []
        late = Fault(lambda call, path: said.append(sweep.looker().save(root)), only=READS if reading else None)
        calls = Calls(at, late)
        with watched(calls), operations.open_at(root) as workspace:
            calls.armed = True
            OPERATIONS["scan"].act(workspace)
            calls.armed = False
        with operations.open_at(root) as workspace:
            if said and isinstance(said[0], int):
                assert [memory.id for memory in workspace.list(limit=100).memories if memory.id == said[0]], (
                    at,
                    calls.names,
                )
                assert workspace.search("potoroo truffles", limit=1).results[0].id in said
            problems = [problem for problem in workspace.health(full=True).problems if problem["check"] != "held back"]
            assert problems == [] or "E025" in str(said), (at, said)
        shutil.rmtree(root)
        return calls, said

    count = len(scanned(0)[0].names)
    saved = [scanned(at)[1] for at in sweep.some(5 * MOST, seed=f"{reading}")(count)]
    assert any(isinstance(said[0], int) for said in saved)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["save that merges", "merge", "delete without its file"])
def test_what_is_done_is_not_refused_though_nothing_can_be_read_any_more(
    ready: dict[str, Ready], tmp_path: Path, name: str
) -> None:
    """What an answer adds to a change that is done, such as where its file is, is read after it."""
    kind = "reads fail from then on"
    tried = sweep.sweep(ready[name], kind, sweep.every(3), tmp_path / "tried")
    assert tried.problems == []
    assert tried.points > 20


def test_the_model_of_a_disk_that_loses_nothing_is_the_disk(ready: dict[str, Ready], tmp_path: Path) -> None:
    """What power cuts are tried with knows all that happened: with nothing lost it is what stands there."""
    for name in ("save", "delete a folder", "restore with its files"):
        root = shutil.copytree(ready[name].folder / "ready", tmp_path / name / "it", symlinks=True)
        calls, disk = Calls(), Disk(root)
        with watched(calls, disk), operations.open_at(root) as workspace:
            OPERATIONS[name].act(workspace)
        left = disk.left_after(len(disk), EVERYTHING, tmp_path / name / "left")
        assert _files(left) == _files(root), name


def _files(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")  # mapped by SQLite, and made anew by whoever comes first
    }


@pytest.mark.parametrize("name", AT_ONCE)
def test_while_another_process_holds_the_index_nothing_changes(
    ready: dict[str, Ready], tmp_path: Path, name: str
) -> None:
    root = shutil.copytree(ready[name].folder / "ready", tmp_path / "work", symlinks=True)
    before = ready[name].before
    with (
        operations.open_at(root, busy_seconds=0.05) as workspace,
        closing(apsw.Connection(str(workspace.settings.index_path))) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusy):
            OPERATIONS[name].act(workspace)
        assert operations.is_undone(operations.look(workspace), before)
        other.execute("ROLLBACK")
        OPERATIONS[name].act(workspace)
    assert operations.is_done(operations.state_of(root), ready[name].after)
    assert operations.unhealthy(root) == []


@pytest.mark.parametrize("name", AT_ONCE)
def test_an_index_that_cannot_be_written_any_more_takes_the_files_back(
    ready: dict[str, Ready], tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the transaction is committed: the last moment at which an operation can fail."""
    root = shutil.copytree(ready[name].folder / "ready", tmp_path / "work", symlinks=True)
    with operations.open_at(root) as workspace:
        together = type(workspace._runtime.whole).together

        @contextmanager
        def full(index: SqliteIndex) -> Iterator[None]:
            with together(index):
                yield
                raise DatabaseUnusable("the disk is full; nothing was changed", hint="free some space and try again")

        with monkeypatch.context() as patch:
            patch.setattr(SqliteIndex, "together", full)
            try:
                OPERATIONS[name].act(workspace)
            except DatabaseUnusable:
                assert operations.is_undone(operations.look(workspace), ready[name].before)
            else:  # a single write, which SQLite itself does or undoes
                assert operations.is_done(operations.look(workspace), ready[name].after)
                return
    assert operations.is_undone(operations.state_of(root), ready[name].before)
    assert operations.unhealthy(root) == []


def test_every_verb_is_tried_with_faults(
    ready: dict[str, Ready], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new verb belongs among the operations if it changes something, else among the questions."""
    kinds = [kind for kind in vars(requests).values() if isinstance(kind, type) and issubclass(kind, Request)]
    verbs = {kind.verb for kind in kinds if kind.verb}
    called: set[str] = set()
    for verb in verbs:
        monkeypatch.setattr(Workspace, verb, _noting(verb, getattr(Workspace, verb), called))
    for name, operation in OPERATIONS.items():
        root = shutil.copytree(ready[name].folder / "ready", tmp_path / name, symlinks=True)
        with operations.open_at(root) as workspace:
            operation.act(workspace)
    with operations.open_at(tmp_path / "checkpoint") as workspace:
        for ask in QUESTIONS.values():
            ask(workspace)
    assert called == verbs


def _noting(verb: str, method: Callable[..., object], called: set[str]) -> Callable[..., object]:
    def call(workspace: Workspace, *values: object, **keywords: object) -> object:
        called.add(verb)
        return method(workspace, *values, **keywords)

    return call


def test_every_kind_of_undo_is_tried_with_faults(ready: dict[str, Ready], tmp_path: Path) -> None:
    undone: set[str] = set()
    for name, operation in OPERATIONS.items():
        if name.startswith("undo of"):
            root = shutil.copytree(ready[name].folder / "ready", tmp_path / name, symlinks=True)
            with operations.open_at(root) as workspace:
                answer = operation.act(workspace)
            assert isinstance(answer, UndoAnswer)
            undone.add(answer.undone)
    assert undone == {undo._CALLED.get(kind, kind) for kind in undo._WAYS}
