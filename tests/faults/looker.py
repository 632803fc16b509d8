"""A program for `sweep`: which memories does another process see right now?

It reads the root of a workspace from each line of its input and prints one line of JSON for it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from spec_kit_memory.errors import SpecKitMemoryError
from tests.faults import operations


def cards(root: Path) -> object:
    try:
        with operations.open_at(root, busy_seconds=0.05) as workspace:
            found = workspace.list(limit=100, max_tokens=50_000).memories
            return [[card.id, card.path, card.title] for card in sorted(found, key=lambda card: card.id)]
    except SpecKitMemoryError as error:
        return f"{error.code} {error}"


if __name__ == "__main__":
    for line in sys.stdin:
        sys.stdout.write(json.dumps(cards(Path(line.rstrip("\n")))) + "\n")
        sys.stdout.flush()
