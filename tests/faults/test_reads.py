"""A read that fails, ours or SQLite's: the answer is an error or the right one, and the next answer is right."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory import answer_json
from spec_kit_memory.errors import SpecKitMemoryError
from tests.faults import operations
from tests.faults.calls import BROKEN, READS, Calls, Fault, watched
from tests.faults.operations import QUESTIONS

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="its VFS stands on the one of Unix")

# Asking counts as use, which scores and their sentence follow. Tallies of written files are no part of what is known.
_PASSING = frozenset(
    ("meta", "accessCount", "uses", "lastAccess", "lastAccessed", "sessionId", "score", "outcome", "transactions")
)
EVERY = int(os.environ.get("SKM_TEST_READS", "5"))  # every so many calls of each question
REFUSALS = frozenset(("E010", "E011", "E014", "E020", "E025"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    operations.build(tmp_path)
    with operations.open_at(tmp_path) as workspace:
        workspace.checkpoint_create("then")
        workspace.update(operations.id_of(workspace, "plan.md"), trigger_phrases=["numbat food"])
    return tmp_path


def _told(answer: Any) -> str:
    """What an answer says, without what differs each time it is asked for."""
    return json.dumps(_lasting(answer_json.value(answer)), sort_keys=True, default=str)


def _lasting(said: Any) -> Any:
    if isinstance(said, dict):
        return {name: _lasting(value) for name, value in said.items() if name not in _PASSING}
    return [_lasting(value) for value in said] if isinstance(said, list) else said


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_is_right_or_an_error_whatever_cannot_be_read(root: Path, name: str) -> None:
    ask = QUESTIONS[name]
    counting = Calls(0, Fault.error(BROKEN, only=READS))
    with watched(counting), operations.open_at(root) as workspace:
        counting.armed = True
        expected = _told(ask(workspace))
        counting.armed = False
    assert counting.names
    for at in range(1, len(counting.names) + 1, EVERY):
        calls = Calls(at, Fault.error(BROKEN, only=READS))
        with watched(calls), operations.open_at(root) as workspace:
            calls.armed = True
            try:
                message = _told(ask(workspace))
            except SpecKitMemoryError as error:
                message = expected if error.code in REFUSALS else f"{error.code} {error}"
            # A list goes on without what it could not read, and gives the reason.
            assert message == expected or os.strerror(BROKEN) in message, (at, calls.names[at - 1 : at])
            calls.armed = False
            assert _told(ask(workspace)) == expected, f"after call {at} failed once"


@pytest.mark.parametrize("name", QUESTIONS)
def test_asking_changes_nothing_that_is_recorded(root: Path, name: str) -> None:
    before = operations.state_of(root)
    with operations.open_at(root) as workspace:
        QUESTIONS[name](workspace)
    assert operations.state_of(root) == before
