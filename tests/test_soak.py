"""Two short soaks: servers, commands, a watcher and an editor on one workspace, killed at random.

SKM_TEST_SOAK_SECONDS sets how long; `python -m benchmarks.soak --minutes 10` is the long one.
"""

from __future__ import annotations

import os

import pytest

from benchmarks.soak import soak

SECONDS = float(os.environ.get("SKM_TEST_SOAK_SECONDS", "60"))
ON_POSTGRESQL_SECONDS = min(SECONDS, 12.0)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL there")
@pytest.mark.timeout(SECONDS + 600)
def test_nothing_acknowledged_is_lost_while_processes_are_killed() -> None:
    report = soak(seconds=SECONDS, seed=7)
    assert report["faults"] == []
    assert report["kills"]["all"] > 0
    assert report["writes acknowledged"] > 0
    assert report["history"]["reads of what another process wrote"] > 0


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL there")
@pytest.mark.timeout(ON_POSTGRESQL_SECONDS + 600)
def test_nothing_acknowledged_is_lost_while_postgresql_is_killed_too() -> None:
    report = soak(seconds=ON_POSTGRESQL_SECONDS, seed=5, engine="postgresql", server_kills_per_minute=20)
    assert report["faults"] == []
    assert any("postgresql" in kind for kind in report["kills"])
    assert report["writes acknowledged"] > 0
