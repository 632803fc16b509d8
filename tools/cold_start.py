"""How much processor time does a cold command take? This checkout, and another one, in turns; Markdown rows.

`python -m tools.cold_start [--other DIR]`: DIR is a checkout of another version (the folder that has `src/`). Each
command runs in a new process on a copy of the example workspace that this version has indexed. The least of several
runs counts, and processor time rather than time on the clock, so that other programs disturb the figures little.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNS = 5
PROGRAM = ("-m", "spec_kit_memory")
COMMANDS: dict[str, tuple[str, ...]] = {
    "`python -c pass`": ("-c", "pass"),
    "`import spec_kit_memory`": ("-c", "import spec_kit_memory"),
    "`from spec_kit_memory import Workspace`": ("-c", "from spec_kit_memory import Workspace"),
    "`skm triggers` (what a hook runs on every prompt)": (*PROGRAM, "triggers", "the dock in the harbour is full"),
    "`skm search --mode text`": (*PROGRAM, "search", "why is the dock full", "--mode", "text"),
    "`skm search` with the model": (*PROGRAM, "search", "why is the dock full"),
}


def processor_ms(arguments: Sequence[str], *, source: Path, workspace: Path) -> float:
    """The processor time of a new process, its children included; ends this program if the process fails."""
    home = workspace.parent
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(source / "src")}
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=workspace, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    stderr = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{source}: {' '.join(arguments)} failed: {stderr.decode(errors='replace')[-500:]}")
    return (usage.ru_utime + usage.ru_stime) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--other", type=Path, help="a checkout of another version")
    options = parser.parse_args()
    sources = [*([options.other.resolve()] if options.other else []), ROOT]
    with tempfile.TemporaryDirectory() as folder:
        workspaces = {source: Path(folder) / str(number) / "workspace" for number, source in enumerate(sources)}
        for source, workspace in workspaces.items():
            shutil.copytree(ROOT / "examples" / "harbour-bikes", workspace)
            processor_ms((*PROGRAM, "index"), source=source, workspace=workspace)
        print(f"| | {' | '.join(source.name for source in sources)} |\n|---|{'---|' * len(sources)}")
        for name, arguments in COMMANDS.items():
            times: dict[Path, list[float]] = {source: [] for source in sources}
            for _ in range(RUNS):
                for source, workspace in workspaces.items():
                    times[source].append(processor_ms(arguments, source=source, workspace=workspace))
            print(f"| {name} | {' | '.join(f'{min(times[source]):.0f} ms' for source in sources)} |", flush=True)


if __name__ == "__main__":
    main()
