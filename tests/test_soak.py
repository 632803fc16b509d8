"""Two short soaks: servers, commands, a watcher and an editor on one workspace, killed at random.

SKM_TEST_SOAK_SECONDS sets how long; `python -m benchmarks.soak --minutes 10` is the long one.
"""

from __future__ import annotations

import os

import pytest

from benchmarks.soak import soak

SECONDS = float(os.environ.get("SKM_TEST_SOAK_SECONDS", "60"))
# On a machine with much other work one run may be too short for a read of what another process wrote.
SEEDS = (7, 8, 9)
ON_POSTGRESQL_SECONDS = min(SECONDS, 12.0)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL there")
@pytest.mark.timeout(len(SEEDS) * (SECONDS + 600))
def test_nothing_acknowledged_is_lost_while_processes_are_killed() -> None:
    reads_across_processes = 0
    for seed in SEEDS:
        report = soak(seconds=SECONDS, seed=seed)
        assert report["faults"] == []
        assert report["kills"]["all"] > 0
        assert report["writes acknowledged"] > 0
        reads_across_processes = report["history"]["reads of what another process wrote"]
        if reads_across_processes:
            break
    assert reads_across_processes > 0


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL there")
@pytest.mark.timeout(ON_POSTGRESQL_SECONDS + 600)
def test_nothing_acknowledged_is_lost_while_postgresql_is_killed_too() -> None:
    report = soak(seconds=ON_POSTGRESQL_SECONDS, seed=5, engine="postgresql", server_kills_per_minute=20)
    assert report["faults"] == []
    assert any("postgresql" in kind for kind in report["kills"])
    assert report["writes acknowledged"] > 0
