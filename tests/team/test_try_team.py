"""Does the tour of a team server go through: real processes, a real database, real git?"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def test_two_people_find_each_others_notes_through_two_replicas_and_in_git() -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git here")
    done = subprocess.run(
        [sys.executable, "-m", "tools.try_team"],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("ben asks the second replica", "ana asks about the bank: E030", "and in git: ana"):
        assert words in done.stdout
