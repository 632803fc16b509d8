"""A program for `sweep`: another process, which looks at a workspace, saves in it or brings its index in step.

It reads `look`, `save` or `scan` and the root of a workspace from each line of its input and prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from spec_kit_memory.errors import SpecKitMemoryError
from tests.faults import operations


def answer(what: str, root: Path) -> object:
    try:
        with operations.open_at(root, busy_seconds=0.05) as workspace:
            if what == "scan":
                workspace.index()
                return "scanned"
            if what == "save":
                return workspace.save(text=operations.FACT, spec_folder="001-core").id
            memories = workspace.list(limit=100, max_tokens=50_000).memories
            return [[card.id, card.path, card.title] for card in sorted(memories, key=lambda card: card.id)]
    except SpecKitMemoryError as error:
        return f"{error.code} {error}"


if __name__ == "__main__":
    for line in sys.stdin:
        verb, _, place = line.rstrip("\n").partition(" ")
        sys.stdout.write(json.dumps(answer(verb, Path(place))) + "\n")
        sys.stdout.flush()
