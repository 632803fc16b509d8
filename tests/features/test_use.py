"""Use as a workspace counts it: exact, batched, and never at the price of the text index."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from spec_kit_memory.core.memory import State
from spec_kit_memory.settings import Decay
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

TOKENS = "# Login tokens\n\nAccess tokens live fifteen minutes."
BROKER = "# Broker\n\nThe message broker is Mosquitto, which keeps tokens of sessions."


@pytest.fixture
def workspace(place: Place) -> Workspace:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    return place.open()


def rows_of(place: Place, sql: str) -> list[tuple[Any, ...]]:
    # The same library as the product's: two of them in one process would undo each other's locks.
    connection = apsw.Connection(str(place.root / ".spec-kit-memory/index.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)
    result = connection.execute(sql).fetchall()
    connection.close()
    return result


def counts(place: Place) -> dict[int, float]:
    return dict(rows_of(place, "SELECT memory_id, access_count FROM usage WHERE access_count > 0"))


def test_every_access_counts_one_and_all_are_written_when_the_process_ends(workspace: Workspace, place: Place) -> None:
    tokens, broker = place.id_of(workspace, "tokens"), place.id_of(workspace, "broker")
    for _ in range(7):
        workspace.load(tokens)
    workspace.load(broker)
    written = counts(place)
    assert written == {tokens: 5.0}
    workspace.close()
    assert counts(place) == {tokens: 7.0, broker: 1.0}


def test_what_has_waited_is_written_with_the_next_access(workspace: Workspace, place: Place) -> None:
    tokens, broker = place.id_of(workspace, "tokens"), place.id_of(workspace, "broker")
    workspace.load(broker)
    place.clock.pass_(seconds=10)
    workspace.load(tokens)
    assert counts(place) == {tokens: 1.0, broker: 1.0}


def test_listing_is_no_access_and_content_is(workspace: Workspace, place: Place) -> None:
    workspace.search("access tokens")
    workspace.close()
    assert counts(place) == {}
    again = place.open(index=False)
    again.search("access tokens", include_content=True, limit=1)
    again.close()
    assert list(counts(place).values()) == [1.0]


def test_a_read_rewrites_neither_text_index_nor_history(workspace: Workspace, place: Place) -> None:
    def derived() -> list[object]:
        tables = ("passage_fts_data", "passage_fts_idx", "passage", "history", "ledger")
        results: list[object] = [rows_of(place, f"SELECT * FROM {table}") for table in tables]
        return [*results, rows_of(place, "SELECT instance, generation FROM counter")]

    before = derived()
    for _ in range(12):
        workspace.load(1)
    workspace._runtime.flush()
    assert counts(place)[1] == 12.0
    assert derived() == before
    assert workspace.search("access tokens").meta.cache_hit is False
    workspace.load(1)
    assert workspace.search("access tokens").meta.cache_hit is True


PROGRAM = """
import os, signal, sys
from pathlib import Path
from typing import Any
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace
workspace = Workspace(Settings(root=Path(sys.argv[1]), semantic=Semantic(model="none")))
for _ in range(int(sys.argv[2])):
    workspace.load(1)
if sys.argv[3] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill is of POSIX systems")
@pytest.mark.parametrize("reads", [4, 5, 13])
def test_after_a_crash_fewer_than_five_reads_of_a_memory_are_lost(place: Place, reads: int) -> None:
    """Five reads are one unit of the tally's half: below one count is what may be lost."""
    place.memory("tokens", TOKENS)
    place.open().close()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(place.root), str(reads), "kill"], check=False, timeout=180
    )
    assert done.returncode == -signal.SIGKILL
    response = counts(place).get(1, 0.0)
    assert response == reads - reads % 5


def test_a_process_that_ends_without_closing_loses_nothing(place: Place) -> None:
    place.memory("tokens", TOKENS)
    place.open().close()
    subprocess.run([sys.executable, "-c", PROGRAM, str(place.root), "13", "end"], check=True, timeout=180)
    assert counts(place) == {1: 13.0}


def test_use_lifts_a_memory_above_its_equal(place: Place) -> None:
    for name in ("one", "two"):
        place.memory(name, f"# Gateway {name}\n\nThe gateway has a rate limit of ten calls.")
    workspace = place.open()
    one, two = place.id_of(workspace, "one"), place.id_of(workspace, "two")
    first = workspace.search("gateway rate limit").results[0].id
    other = two if first == one else one
    for _ in range(10):
        workspace.load(other)
    workspace._runtime.flush()
    place.memory("three", "# Other\n\nSomething else.")
    workspace.index()
    assert workspace.search("gateway rate limit").results[0].id == other


# --- states and decay in daily use ----------------------------------------------------------


@pytest.mark.parametrize(
    ("days", "state"),
    [(0, State.WARM), (7, State.WARM), (8, State.COLD), (30, State.COLD), (31, State.DORMANT), (91, State.ARCHIVED)],
)
def test_time_demotes_and_nothing_is_rewritten(place: Place, days: int, state: State) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    head = workspace.ledger_head().head
    place.clock.pass_(days=days)
    assert workspace.list().memories[0].state is state
    assert workspace.ledger_head().head == head


@pytest.mark.parametrize(
    ("tier", "lowest"), [("constitutional", State.WARM), ("critical", State.WARM), ("important", State.COLD)]
)
def test_important_memories_do_not_sink_far(place: Place, tier: str, lowest: State) -> None:
    place.memory("tokens", TOKENS, importance_tier=tier)
    workspace = place.open()
    place.clock.pass_(days=1000)
    assert workspace.list().memories[0].state is lowest


def test_an_access_promotes_for_everybody_and_a_listing_for_its_session_only(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    place.clock.pass_(days=40)
    workspace.search("access tokens", session_id="mine", min_state="DORMANT")
    again = workspace.search("access tokens", session_id="mine", dedup=False)
    assert [result.state for result in again.results] == [State.HOT]  # type: ignore[union-attr]
    assert workspace.list().memories[0].state is State.DORMANT
    workspace.load(1)
    workspace._runtime.flush()
    assert workspace.list().memories[0].state is State.WARM


def test_a_workspace_indexed_for_the_first_time_is_never_archived_as_a_whole(place: Place) -> None:
    for number in range(5):
        place.memory(f"n{number}", f"# Old {number}\n\nAn old note.", created="2019-01-01")
    workspace = place.open()
    assert {card.state for card in workspace.list().memories} == {State.WARM}


@pytest.mark.parametrize(
    ("model", "days", "expected"),
    [("half_life", 30, 0.79), ("half_life", 90, 0.5), ("half_life", 180, 0.25), ("states", 20, 0.80)],
)
def test_the_decay_model_of_the_settings_is_the_one_that_scores(
    place: Place, model: str, days: int, expected: float
) -> None:
    created = f"{place.clock():%Y-%m-%dT%H:%M:%SZ}"
    place.memory("tokens", TOKENS, created=created)
    workspace = place.open(decay=Decay(model=model))
    place.clock.pass_(days=days)
    answer = workspace.search("access tokens", explain=True, min_state="ARCHIVED")
    assert answer.results[0].explain["recency"] / 20 == pytest.approx(expected, abs=0.005)
    plain = workspace.search("access tokens", explain=True, min_state="ARCHIVED", use_decay=False)
    assert plain.results[0].explain["recency"] / 20 == 1.0


def test_an_expired_memory_is_held_back_and_named(place: Place) -> None:
    created = f"{place.clock():%Y-%m-%dT%H:%M:%SZ}"
    place.memory("tokens", TOKENS, importance_tier="temporary", created=created)
    workspace = place.open()
    assert workspace.search("access tokens").results
    place.clock.pass_(days=8)
    answer = workspace.search("access tokens")
    assert answer.results == ()
    assert answer.held_back.expired == 1
    assert answer.held_back.best[0]["title"] == "Login tokens"
    assert Path(place.root / "specs/001-core/memory/tokens.md").exists()
