"""An operation, tried with a fault at each of its calls: which are there, and what became of it?

After each fault the workspace is opened as anybody would open it. The operation must be done or undone as a whole, done
if it was acknowledged, undone if it was refused; health is clean, the ledger verifies, nothing of ours is left over.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.workspace import Workspace
from tests.faults import operations
from tests.faults.calls import (
    BROKEN,
    FULL,
    INTERRUPTED,
    KILLED,
    NEEDS_SPACE,
    OURS,
    READS,
    Calls,
    Fault,
    stuttering,
    watched,
)
from tests.faults.operations import OPERATIONS, Operation
from tests.faults.power_cut import POLICIES, Disk

__all__ = ["FAULTS", "KINDS", "Ready", "Tried", "looker", "prepare", "sweep"]

Pick = Callable[[int], Iterable[int]]  # which numbers of how many are tried
REFUSALS = frozenset(("E010", "E011", "E014", "E020", "E025", "E090", "E110"))
FAULTS: Mapping[str, Callable[[], Fault]] = {
    "fails once": lambda: Fault.error(BROKEN),
    "full from then on": lambda: Fault.error(FULL, lasting=True, only=NEEDS_SPACE),
    "broken from then on": lambda: Fault.error(BROKEN, lasting=True),
    "shortened": Fault.short,
    "interrupted": Fault.interrupt,
    "EINTR": lambda: Fault.error(INTERRUPTED, only=OURS),
    "a read fails": lambda: Fault.error(BROKEN, only=READS),
    "reads fail from then on": lambda: Fault.error(BROKEN, lasting=True, only=READS),
}
# SystemError: apsw cannot say what a VFS in Python raised while a backup ended.
_ENDINGS = (SpecKitMemoryError, KeyboardInterrupt, SystemError)
KILL, CUT, SEEN, LATE = "killed", "power cut", "seen by another process", "late, and another process scans"
READING = ("a read fails", "reads fail from then on")
STUTTER = "EINTR and half a read or write in SQLite"
KINDS = (*FAULTS, KILL, CUT, SEEN, LATE, STUTTER)


@dataclass(frozen=True)
class Ready:
    """A workspace before an operation and one after it, and how they look."""

    name: str
    operation: Operation
    folder: Path
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    between: Mapping[str, Any] | None = None  # after the first of two things


@dataclass
class Tried:
    """How many calls there are, how many faults were tried, and what was wrong after them."""

    calls: int = 0
    points: int = 0
    problems: list[str] = field(default_factory=list)


def prepare(name: str, folder: Path) -> Ready:
    operation = OPERATIONS[name]
    ready, done = folder / "ready", folder / "done"
    ready.mkdir(parents=True)
    operation.make(ready)
    if not operation.opens:
        with operations.open_at(ready) as workspace:
            operation.prepare(workspace)
    after = _state_after(ready, done, operation, operation.act)
    between = operation.first and _state_after(ready, folder / "between", operation, operation.first)
    looked = folder / "looked"
    shutil.copytree(ready, looked, symlinks=True)
    return Ready(name, operation, folder, operations.state_of(looked), after, between)


def _state_after(
    ready: Path, place: Path, operation: Operation, act: Callable[[Workspace], object]
) -> Mapping[str, Any]:
    shutil.copytree(ready, place, symlinks=True)
    with _opened(place, operation, Calls()) as workspace:
        act(workspace)
    return operations.state_of(place)


@contextmanager
def _opened(root: Path, operation: Operation, calls: Calls) -> Iterator[Workspace]:
    """The workspace, with faults in it from the moment on at which the operation begins, to its closing."""
    calls.armed = operation.opens
    with operations.open_at(root) as workspace:
        calls.armed = True
        yield workspace


def _fresh(ready: Ready, place: Path) -> Path:
    shutil.copytree(ready.folder / "ready", place, symlinks=True)
    return place


def _count(ready: Ready, place: Path, fault: Fault | None) -> int:
    root, calls = _fresh(ready, place), Calls(0, fault)
    with watched(calls), _opened(root, ready.operation, calls) as workspace:
        ready.operation.act(workspace)
    shutil.rmtree(root)
    return len(calls.names)


def sweep(ready: Ready, kind: str, pick: Pick, place: Path) -> Tried:
    """Try one kind of fault at the calls that `pick` chooses."""
    place.mkdir(parents=True, exist_ok=True)
    if kind == CUT:
        return _power_cuts(ready, pick, place)
    if kind == STUTTER:
        return _stuttering(ready, place)
    if kind == LATE and (ready.operation.resumes or "restore" in ready.name):
        return Tried()  # the other scan would wait for this one, or long for the files of a restore
    tried = Tried(_count(ready, place / "count", FAULTS[kind]() if kind in FAULTS else None))
    for at in pick(tried.calls):
        root = _fresh(ready, place / str(at))
        match kind:
            case "killed":
                problem = _killed(ready, root, at)
                while problem == ENDED and at > 1:  # fewer calls this time: what is remembered depends on the clock
                    at, root = at * 9 // 10, _fresh(ready, place / f"{at} again")
                    problem = _killed(ready, root, at)
            case "seen by another process":
                problem = _seen(ready, root, at)
            case "late, and another process scans":
                problem = _late(ready, root, at)
            case _:
                problem = _failed(ready, root, at, kind)
        tried.points += 1
        if problem:
            tried.problems.append(f"{ready.name}, {kind} at call {at} of {tried.calls}: {problem}")
        shutil.rmtree(root, ignore_errors=True)
    return tried


# --- kinds ----------------------------------------------------------------------------------


def _failed(ready: Ready, root: Path, at: int, kind: str) -> str:
    fault = FAULTS[kind]()
    calls = Calls(at, fault)
    error: BaseException | None = None
    now = ""
    with watched(calls):
        try:
            with _opened(root, ready.operation, calls) as workspace:
                try:
                    ready.operation.act(workspace)
                except _ENDINGS as caught:
                    error = caught
                    calls.armed = fault.lasting
                if error and not fault.lasting and not ready.operation.resumes:
                    calls.armed = False
                    now = _at_once(ready, workspace, error)
        except _ENDINGS as caught:  # of opening
            error = error or caught
        except OSError as caught:  # nobody is told the next step by that
            where = traceback.extract_tb(caught.__traceback__)
            ours = [f"{item.name}:{item.lineno}" for item in where if "spec_kit_memory" in item.filename]
            now = f"a bare {caught!r} at {ours[-5:]}"
    call = calls.names[at - 1] if calls.reached else "not reached"
    if isinstance(error, SpecKitMemoryError) and error.code not in REFUSALS:
        return f"({call}) {error.code} {error}"
    # Where nothing can be written any more, a commit that was not synced cannot be taken back either.
    message = None if fault.lasting and fault.only is None else error
    problem = now or _verdict(ready, root, acknowledged=error is None, error=message)
    return f"({call}) {problem}" if problem else ""


def _at_once(ready: Ready, workspace: Workspace, error: BaseException) -> str:
    """A refused operation has changed nothing: here and now, not only after a start."""
    if _kept_text(ready, error):
        return ""
    state = operations.look(workspace)
    if operations.is_undone(state, ready.before) or not isinstance(error, SpecKitMemoryError):
        return ""
    return f"refused ({error}), but at once: {operations.difference(state, ready.before)}"


ENDED = "it ended by itself before that call"


def _killed(ready: Ready, root: Path, at: int) -> str:
    """In a forked process, which dies before that call: a death costs milliseconds, not a start of Python."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            calls = Calls(at, Fault.death())
            with watched(calls), _opened(root, ready.operation, calls) as workspace:
                ready.operation.act(workspace)
                calls.before("the end", "")
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    if status == 0:
        return ENDED
    if os.waitstatus_to_exitcode(status) != KILLED:
        return f"it ended with {os.waitstatus_to_exitcode(status)} instead of dying"
    return _verdict(ready, root, acknowledged=None, error=None)


def _power_cuts(ready: Ready, pick: Pick, place: Path) -> Tried:
    root, calls = _fresh(ready, place / "recorded"), Calls()
    disk = Disk(root)
    with watched(calls, disk), _opened(root, ready.operation, calls) as workspace:
        ready.operation.act(workspace)
        acknowledged = len(disk)
    tried = Tried(len(disk))
    for at in pick(tried.calls):
        for name, policy in POLICIES.items():
            left = disk.left_after(at, policy, place / f"{at}")
            tried.points += 1
            problem = _verdict(ready, left, acknowledged=True if at >= acknowledged else None, error=None)
            if problem:
                tried.problems.append(f"{ready.name}, power cut after event {at} of {tried.calls} ({name}): {problem}")
            shutil.rmtree(left)
    shutil.rmtree(root)
    return tried


def _seen(ready: Ready, root: Path, at: int) -> str:
    """The call is late, and meanwhile another process looks."""
    seen: list[Any] = []

    def happen(call: str, path: str) -> None:
        seen.append(looker().look(root))

    calls = Calls(at, Fault(happen))
    with watched(calls), _opened(root, ready.operation, calls) as workspace:
        ready.operation.act(workspace)
    states = [state for state in (ready.before, ready.between, ready.after) if state is not None]
    expected = [json.loads(json.dumps(_cards(state))) for state in states]
    # The last one to close the index has it for itself for a moment: others wait.
    waits = bool(seen) and str(seen[0]).startswith("E025")
    if not ready.operation.resumes and seen and not waits and seen[0] not in expected:
        return f"({calls.names[at - 1]}) another process saw {seen[0]}"
    return _verdict(ready, root, acknowledged=True, error=None)


def _late(ready: Ready, root: Path, at: int) -> str:
    """The call is late, and meanwhile another process brings the index in step with the files."""
    seen: list[Any] = []

    def happen(call: str, path: str) -> None:
        seen.append(looker().scan(root))

    calls = Calls(at, Fault(happen))
    try:
        with watched(calls), _opened(root, ready.operation, calls) as workspace:
            ready.operation.act(workspace)
    except SpecKitMemoryError as error:
        return f"({calls.names[at - 1 : at]}) it was only late, and was refused: {error.code} {error}; {seen}"
    if seen and not (seen[0] == "scanned" or str(seen[0]).startswith("E025")):
        return f"({calls.names[at - 1 : at]}) the other process: {seen}"
    return _verdict(ready, root, acknowledged=True, error=None)


def _stuttering(ready: Ready, place: Path) -> Tried:
    """Each read and write of SQLite is interrupted and then cut short: it goes on, and nobody notices."""
    root = _fresh(ready, place / "stuttering")
    with stuttering() as counts, _opened(root, ready.operation, Calls()) as workspace:
        ready.operation.act(workspace)
    tried = Tried(counts[0], counts[0])
    if problem := _verdict(ready, root, acknowledged=True, error=None):
        tried.problems.append(f"{ready.name}, {STUTTER}: {problem}")
    shutil.rmtree(root)
    return tried


def _cards(state: Mapping[str, Any]) -> list[Any]:
    """Of each memory that is there its id, path and title."""
    return [[row[0], row[1], row[4]] for row in state["memories"] if row[9] == "live"]


# --- the verdict -----------------------------------------------------------------------------


def _verdict(ready: Ready, root: Path, *, acknowledged: bool | None, error: BaseException | None) -> str:
    """What is wrong after an ordinary start; nothing if all is well. `acknowledged` None: nobody knows."""
    operation = ready.operation
    try:
        state = operations.state_of(root)
        undone = operations.is_undone(state, ready.before)
        done = operations.is_done(state, ready.after, operation.optional)
        if operation.resumes or (_kept_text(ready, error) and not undone and not (done and ready.between)):
            return _completed(ready, root)
        if ready.between is not None:
            done = done or operations.is_done(state, ready.between, operation.optional)
        if not done and not undone:
            differs = operations.difference(state, ready.before)
            return f"neither done ({operations.difference(state, ready.after)}) nor undone ({differs})"
        if acknowledged and not done:
            return "acknowledged, and not done"
        if isinstance(error, SpecKitMemoryError) and not undone:
            return f"refused ({error.code} {error}), and done"
        return "; ".join(operations.unhealthy(root))
    except SpecKitMemoryError as raised:
        return f"a start afterwards: {raised.code} {raised}"


def _kept_text(ready: Ready, error: BaseException | None) -> bool:
    """Did a save that could not be indexed keep its text, and say where?"""
    if isinstance(error, KeyboardInterrupt):
        return ready.operation.keeps_text
    return ready.operation.keeps_text and isinstance(error, SpecKitMemoryError) and "is kept in" in error.message


def _completed(ready: Ready, root: Path) -> str:
    """What was begun is completed by doing it again; a save that kept its text is completed by a scan."""
    with operations.open_at(root) as workspace:
        if ready.operation.resumes:
            ready.operation.act(workspace)
        else:
            workspace.index()
    state = operations.state_of(root)
    names = ("files", "memories", "links", "validations", "overrides", "set aside", "found")
    expected = ready.after if ready.operation.resumes or ready.between is None else ready.between
    wrong = [name for name in names if _plain(state, name, ready) != _plain(expected, name, ready)]
    if wrong:
        return f"doing it again left {operations.difference(state, expected)}"
    return "; ".join(operations.unhealthy(root))


def _plain(state: Mapping[str, Any], name: str, ready: Ready) -> Any:
    if name == "memories":  # a file that could not be read the first time is numbered after the others
        return sorted(str(row[1:]) for row in state[name])
    if name != "files":
        return state[name]
    return {path: found for path, found in state[name].items() if Path(path).name not in ready.operation.optional}


# --- another process -------------------------------------------------------------------------


class _Looker:
    """A process that opens a workspace and says which memories it sees, as often as it is asked."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.looker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def look(self, root: Path) -> Any:
        return self._asked("look", root)

    def scan(self, root: Path) -> Any:
        return self._asked("scan", root)

    def save(self, root: Path) -> Any:
        """The new memory's id, or the error."""
        return self._asked("save", root)

    def _asked(self, what: str, root: Path) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{what} {root}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


_lookers: list[_Looker] = []


def looker() -> _Looker:
    if not _lookers:
        _lookers.append(_Looker())
    return _lookers[0]


def close_looker() -> None:
    while _lookers:
        _lookers.pop().close()


# --- choosing ----------------------------------------------------------------------------------


def every(step: int = 1) -> Pick:
    return lambda count: range(1, count + 1, step)


def some(most: int, *, seed: str) -> Pick:
    """A sample, with the first and the last call in it."""

    def pick(count: int) -> list[int]:
        chance = random.Random(f"{seed} {count}")
        inner = chance.sample(range(2, count), min(most, count - 2)) if count > 2 else []
        return sorted({1, count, *inner} & set(range(1, count + 1)))

    return pick
