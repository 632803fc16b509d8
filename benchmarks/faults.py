"""What is left after any call of an operation failed, was cut short, or was the last before a kill or a power cut?

    python -m benchmarks.faults                 every call of every operation
    python -m benchmarks.faults --every 10      every tenth
    python -m benchmarks.faults --operation save --kind killed

It prints a table of fault points for each operation, and every point after which something was wrong.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.faults import sweep
from tests.faults.operations import OPERATIONS
from tests.faults.sweep import KINDS, Tried


def table(rows: dict[str, dict[str, Tried]], kinds: list[str]) -> str:
    lines = [f"| operation | calls | {' | '.join(kinds)} | all | wrong |", f"|---{'|---' * (len(kinds) + 3)}|"]
    total, wrong = dict.fromkeys(kinds, 0), 0
    for name, tried in rows.items():
        points = [tried[kind].points for kind in kinds]
        problems = sum(len(value.problems) for value in tried.values())
        wrong += problems
        for kind in kinds:
            total[kind] += tried[kind].points
        calls = max(value.calls for value in tried.values())
        cells = " | ".join(f"{count:,}" for count in points)
        lines.append(f"| {name} | {calls} | {cells} | {sum(points):,} | {problems} |")
    cells = " | ".join(f"{total[kind]:,}" for kind in kinds)
    lines.append(f"| all {len(rows)} | | {cells} | {sum(total.values()):,} | {wrong} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="only every n-th call")
    parser.add_argument("--operation", action="append", choices=list(OPERATIONS), help="only this one; may be repeated")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind; may be repeated")
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the workspaces are made; a disk in memory is fast"
    )
    arguments = parser.parse_args()
    kinds, names = arguments.kind or list(KINDS), arguments.operation or list(OPERATIONS)
    place = Path(tempfile.mkdtemp(prefix="skm-faults-", dir=arguments.folder)).resolve()
    rows: dict[str, dict[str, Tried]] = {}
    started = time.monotonic()
    try:
        for number, name in enumerate(names):
            ready = sweep.prepare(name, place / f"operation-{number}")
            rows[name] = {}
            for kind in kinds:
                tried = sweep.sweep(ready, kind, sweep.every(arguments.every), place / "tried")
                rows[name][kind] = tried
                for problem in tried.problems:
                    print(problem, flush=True)
            points = sum(value.points for value in rows[name].values())
            print(f"{name}: {points:,} faults, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    finally:
        sweep.close_looker()
        shutil.rmtree(place)
    print(table(rows, kinds))
    sys.exit(1 if any(value.problems for tried in rows.values() for value in tried.values()) else 0)


if __name__ == "__main__":
    main()
