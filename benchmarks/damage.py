"""How much of a damaged index is said, and how much of it comes back? Every object, page by page, in several ways.

    python -m benchmarks.damage [--kinds zeroed,rows flipped] [--pages 3] [--only memory]

Each case: a copy of a workspace that has something in every table, one damaged page, everything read (right, or E024
with the advice), `index --rebuild`, everything read again. Prints a table for docs/explain/reliability.md, and each
case that was not as it must be.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from spec_kit_memory.errors import SpecKitMemoryError
from tests.faults import rich

RECORDED = frozenset(("counter", "content", "memory", "usage", "override", "link", "history", "ledger", "session"))


@dataclass(frozen=True)
class Outcome:
    """What became of one damaged page."""

    name: str
    page: int
    kind: str
    before: Counter[str]
    after: Counter[str]
    lost: int
    failed: str = ""

    @property
    def is_right(self) -> bool:
        return not self.failed and set(self.after) == {"right"} and not self.lost_silently

    @property
    def lost_silently(self) -> bool:
        return bool(self.lost) and self.name not in RECORDED and self.name != "sqlite_schema"


def run(whole: Path, place: Path, name: str, page: int, kind: str) -> Outcome:
    root = rich.copied(whole, place / "case")
    try:
        rich.damage(rich.index_of(root), page, kind)
        with rich.opened(root) as workspace:
            before = Counter(rich.read_all(workspace).values())
        with rich.opened(root) as workspace:
            rows = workspace.index(rebuild=True, embed=False).rebuilt["tables"]
        with rich.opened(root) as workspace:
            after = Counter(rich.read_all(workspace).values())
        lost = sum(row["lost"] for row in rows if row["table"] != "counter")
        return Outcome(name, page, kind, before, after, lost)
    except (SpecKitMemoryError, ValueError, TypeError, LookupError, AssertionError) as error:
        return Outcome(name, page, kind, Counter(), Counter(), 0, failed=repr(error))
    finally:
        shutil.rmtree(root)


def table(outcomes: list[Outcome], kinds: list[str]) -> str:
    lines = [
        "| damage | pages | reads right | said (E024) | wrong | rebuilt | all found again | recorded rows lost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in [*kinds, "all"]:
        some = [outcome for outcome in outcomes if kind in (outcome.kind, "all")]
        reads: Counter[str] = sum((item.before for item in some), Counter())
        cells: list[str | int] = [
            kind, len(some), reads["right"], reads["damaged"], reads["wrong"] + reads["without advice"],
            sum(not item.failed for item in some), sum(set(item.after) == {"right"} for item in some),
            sum(item.lost for item in some),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else str(cell) for cell in cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", default=",".join(rich.DAMAGE), help="comma-separated")
    parser.add_argument("--pages", type=int, default=3, help="of each object, at most")
    parser.add_argument("--only", help="one table or index")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as place:
        whole = rich.make(Path(place).resolve() / "work")
        for name, pages in rich.pages_of(rich.index_of(whole)).items():
            if arguments.only in (None, name):
                chosen = rich.chosen_pages(pages)
                for page in dict.fromkeys((chosen[0], chosen[-1], *chosen[1 : arguments.pages - 1])):
                    outcomes += [run(whole, Path(place), name, page, kind) for kind in kinds]
    for outcome in outcomes:
        if not outcome.is_right or outcome.before["wrong"]:
            print(
                f"{outcome.name} page {outcome.page} {outcome.kind}:"
                f" {dict(outcome.before)} {dict(outcome.after)} {outcome.failed}"
            )
    print(table(outcomes, kinds))
    return 0 if all(item.is_right for item in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
