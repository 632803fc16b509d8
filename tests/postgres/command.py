"""One `skm` as a process of its own, on an index at a URL."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.faults.talking import environment


def skm(
    root: Path, *arguments: str, url: str, project: str | None = None, code: int | None = 0, **environ: str
) -> dict[str, Any]:
    """What it printed as JSON; `code=None`: whatever it ended with."""
    named = {} if project is None else {"SPEC_KIT_MEMORY_INDEX_PROJECT": project}
    done = subprocess.run(
        [sys.executable, "-m", "spec_kit_memory", *arguments, "--workspace", str(root), "--json"],
        capture_output=True,
        text=True,
        env=environment(root, SPEC_KIT_MEMORY_INDEX_URL=url, **named, **environ),
        check=False,
        timeout=120,
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
