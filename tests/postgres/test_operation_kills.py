"""Operations of many steps are cut short, and the server under them: each is done or undone as a whole.

SKM_TEST_OPERATION_KILLS sets how often the process of each operation is killed; more of them find more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres.kill_operations import OPERATIONS

KILLS = int(os.environ.get("SKM_TEST_OPERATION_KILLS", "2"))
RESTARTS = max(1, KILLS // 3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork there")
@pytest.mark.timeout(600 + KILLS * 200)
def test_an_operation_cut_short_is_done_or_undone_as_a_whole_and_the_next_start_is_healthy(tmp_path: Path) -> None:
    arguments = [str(tmp_path), str(KILLS), str(RESTARTS), "17"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.postgres.kill_operations", *arguments],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert set(report) == set(OPERATIONS)
    assert all(one["kills"] == KILLS + RESTARTS and one["steps"] > 5 for one in report.values()), report
