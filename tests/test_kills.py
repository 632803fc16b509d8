"""Processes that save are killed at every step and at any moment: nothing acknowledged is lost, nothing half is left.

SKM_TEST_KILLS sets the number of kills; a soak uses thousands.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kill_and_look import POINTS

KILLS = int(os.environ.get("SKM_TEST_KILLS", "220"))


@pytest.fixture
def quick_folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: what survives a killed process needs no disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork there")
@pytest.mark.timeout(max(300, KILLS * 3))
def test_killed_anywhere_nothing_acknowledged_is_lost_and_the_next_start_is_healthy(quick_folder: Path) -> None:
    arguments = [sys.executable, "-m", "tests.kill_and_look", str(quick_folder), str(KILLS), "11"]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["kills"] == KILLS
    assert report["acknowledged"] >= KILLS // 4
    if len(POINTS) * 2 <= KILLS:
        assert set(report["points"]) == {*POINTS, "any moment"}
