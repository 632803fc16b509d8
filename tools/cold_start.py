"""How much processor time does a cold command take? This checkout, and another one, in turns; Markdown rows.

`python -m tools.cold_start [--other DIR --python FILE]`: DIR is a checkout of another version (the folder that has
`src/`), FILE the Python of an environment with its dependencies. Each command runs in a new process on a copy of the
example workspace that its version has indexed. The least of several runs counts, and processor time rather than time on
the clock, so that other programs disturb the figures little.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUNS = 9
PROGRAM = ("-m", "spec_kit_memory")
COMMANDS: dict[str, tuple[str, ...]] = {
    "`python -c pass`": ("-c", "pass"),
    "`import spec_kit_memory`": ("-c", "import spec_kit_memory"),
    "`from spec_kit_memory import Workspace`": ("-c", "from spec_kit_memory import Workspace"),
    "`skm triggers`, nothing matches (what a hook runs on most prompts)": (*PROGRAM, "triggers", "rename the variable"),
    "`skm triggers`, a phrase matches": (*PROGRAM, "triggers", "why is dock polling gone"),
    "`skm search --mode text`": (*PROGRAM, "search", "why is the dock full", "--mode", "text"),
    "`skm search` with the model": (*PROGRAM, "search", "why is the dock full"),
}


@dataclass(frozen=True)
class Version:
    source: Path
    python: str
    workspace: Path

    def processor_ms(self, arguments: Sequence[str]) -> float:
        """The processor time of a new process, its children included; ends this program if the process fails."""
        process = subprocess.Popen(
            [self.python, *arguments],
            cwd=self.workspace,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.workspace.parent),
                "PYTHONPATH": str(self.source / "src"),
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        stderr = process.stderr.read() if process.stderr else b""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"{self.source}: {' '.join(arguments)} failed: {stderr.decode(errors='replace')[-500:]}")
        return (usage.ru_utime + usage.ru_stime) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--other", type=Path, help="a checkout of another version")
    parser.add_argument("--python", default=sys.executable, help="the Python that the other version runs with")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        versions = [Version(ROOT, sys.executable, Path(folder) / "this" / "workspace")]
        if options.other:
            other = Version(options.other.resolve(), options.python, Path(folder) / "other" / "workspace")
            versions.insert(0, other)
        for version in versions:
            shutil.copytree(ROOT / "examples" / "harbour-bikes", version.workspace)
            version.processor_ms((*PROGRAM, "index"))
        print(f"| | {'other | ' if options.other else ''}this |\n|---|{'---|' * len(versions)}")
        for name, arguments in COMMANDS.items():
            rounds = [[version.processor_ms(arguments) for version in versions] for _ in range(RUNS)]
            least = [min(times) for times in zip(*rounds, strict=True)]
            print(f"| {name} | {' | '.join(f'{ms:.0f} ms' for ms in least)} |", flush=True)


if __name__ == "__main__":
    main()
