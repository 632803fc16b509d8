"""What a checkpoint says about itself, its number and its time, hides and removes none that was made here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from spec_kit_memory.features.checkpoints import MOST_CHECKPOINTS
from tests.faults import operations

CLAIMS: dict[str, dict[str, object]] = {
    "a huge number": {"sequence": 2**53, "automatic": False},
    "a time to come": {"created": "9999-12-31T23:59:59Z", "automatic": False},
    "both": {"sequence": 2**53, "created": "9999-12-31T23:59:59Z", "automatic": False},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    place.mkdir()
    operations.build(place)
    return place


def forge(root: Path, claims: dict[str, object], *, number: int) -> None:
    """A checkpoint of another workspace, as a repository brings it."""
    elsewhere = root.parent / f"elsewhere-{number}"
    elsewhere.mkdir()
    operations.build(elsewhere)
    with operations.open_at(elsewhere) as workspace:
        workspace.checkpoint_create(f"forged-{number}")
    made = elsewhere / f".spec-kit-memory/checkpoints/forged-{number}.jsonl.gz"
    header, *rest = gzip.decompress(made.read_bytes()).splitlines(keepends=True)
    message = json.dumps({**json.loads(header), **claims}).encode() + b"\n"
    place = root / ".spec-kit-memory/checkpoints"
    place.mkdir(exist_ok=True)
    (place / made.name).write_bytes(gzip.compress(message + b"".join(rest)))


@pytest.mark.parametrize("claims", CLAIMS)
def test_checkpoints_that_came_with_a_repository_crowd_out_none_of_ours(root: Path, claims: str) -> None:
    first = MOST_CHECKPOINTS // 2
    with operations.open_at(root) as workspace:
        for number in range(first):
            workspace.checkpoint_create(f"own-{number}")
    for number in range(MOST_CHECKPOINTS):
        forge(root, CLAIMS[claims], number=number)
    with operations.open_at(root) as workspace:
        for number in range(first, MOST_CHECKPOINTS + 2):
            workspace.checkpoint_create(f"own-{number}")
        names = [row["name"] for row in workspace.checkpoint_list(limit=MOST_CHECKPOINTS).checkpoints]
        everything = [row["name"] for row in workspace.checkpoint_list(limit=100).checkpoints]
    assert names == [f"own-{number}" for number in range(MOST_CHECKPOINTS + 1, 1, -1)]
    assert len(everything) == 2 * MOST_CHECKPOINTS
    assert {f"forged-{number}" for number in range(MOST_CHECKPOINTS)} < set(everything)
