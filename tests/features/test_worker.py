"""Work beside its caller: in threads that wait for it, whatever becomes of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from spec_kit_memory.features.worker import _MOST_IDLE, _Workers


class Done:
    """Says in which thread it ran, once it may go on."""

    def __init__(self) -> None:
        self.go_on, self.ran = threading.Event(), threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self) -> None:
        assert self.go_on.wait(120)
        self.thread = threading.current_thread()
        self.ran.set()

    def result(self) -> threading.Thread:
        self.go_on.set()
        assert self.ran.wait(120)
        assert self.thread
        return self.thread


def idle(workers: _Workers, number: int) -> bool:
    deadline = threading.Event()
    for _ in range(3000):
        if len(workers._idle) == number:
            return True
        deadline.wait(0.01)
    return False


def test_a_thread_that_is_done_takes_the_next_work() -> None:
    workers = _Workers()
    threads = set()
    for _ in range(3):
        work = Done()
        workers.start(work)
        threads.add(work.result())
        assert idle(workers, 1)
    assert len(threads) == 1
    assert threads.pop().daemon


def test_works_that_come_together_do_not_wait_for_each_other_and_few_threads_stay() -> None:
    workers = _Workers()
    works = [Done() for _ in range(_MOST_IDLE + 3)]
    for work in works:
        workers.start(work)
    assert len({work.result() for work in reversed(works)}) == len(works)
    assert idle(workers, _MOST_IDLE)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_work_that_fails_is_told_and_takes_nothing_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    failed = threading.Event()

    def hear(arguments: threading.ExceptHookArgs) -> None:
        told.append(arguments.exc_value)
        failed.set()

    def fail() -> None:
        raise ValueError("no")

    monkeypatch.setattr(threading, "excepthook", hear)
    workers = _Workers()
    workers.start(fail)
    assert failed.wait(120)
    assert [str(item) for item in told] == ["no"]
    work = Done()
    workers.start(work)
    assert work.result()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork there")
def test_a_child_process_has_threads_of_its_own() -> None:
    script = """
import os, threading
from spec_kit_memory.features import worker

def ran() -> bool:
    done = threading.Event()
    worker.start(done.set)
    return done.wait(120)

assert ran() and ran()
child = os.fork()
if child == 0:
    os._exit(0 if ran() and ran() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=Path(__file__).parents[2], timeout=120)


BEGIN = """
import sys, threading
from spec_kit_memory.embed.local import LocalEmbedder
from spec_kit_memory.features import worker

began = threading.Event()

def work() -> None:
    model = LocalEmbedder()
    for number in range(300):
        model.embed_query(f"question {number}")
        began.set()

def run(words: list[str]) -> int:
    worker.start(work)
    assert began.wait(120)
    return 1
"""
COMMAND = """
from spec_kit_memory.serve.cli import main, program

program.run = run
main.main()
"""


@pytest.mark.parametrize("end", [COMMAND, "sys.exit(run([]))"], ids=["command", "script"])
def test_a_process_that_ends_while_the_model_is_at_work_ends_with_its_own_code(end: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BEGIN + end],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        timeout=300,
    )
    assert (ended.returncode, ended.stderr) == (1, "")


def test_who_waits_for_work_to_settle_waits_as_long_as_allowed_and_no_longer() -> None:
    workers = _Workers()
    work = Done()
    workers.start(work)
    assert not workers.settle(0.05)
    work.go_on.set()
    assert workers.settle(120)
