"""A short soak of a team server; `python -m benchmarks.team --minutes 5` is the long one."""

from __future__ import annotations

import os

import pytest

from benchmarks.team import soak


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL there")
@pytest.mark.timeout(900)
def test_nothing_acknowledged_is_lost_doubled_or_crossed_while_replicas_and_postgresql_are_killed() -> None:
    report = soak(seconds=5, seed=3, replicas=2, agents=2)
    assert report["faults"] == []
    assert sum(report["kills"].values()) > 0
    assert report["acknowledged"]["save"] > 0
    assert report["operations in git"] > 0
