"""Does the table of speed measure the workspace that it names, and does its picture show what it says?"""

from __future__ import annotations

from pathlib import Path

from benchmarks import material
from benchmarks.speed import Row, drawn
from spec_kit_memory.embed.hashing import HashingEmbedder
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace


def test_every_kind_of_search_becomes_a_line_and_nothing_else_does() -> None:
    rows = [
        Row(f"search, {mode}, {size} passages", "", f"p50 {p50} (9.9), p95 {p95} (9.9) ms")
        for mode in ("hybrid", "text", "vector")
        for size, p50, p95 in (("1,049", 2.5, 3.5), ("10,487", 4.5, 6.5))
    ]
    rows += [
        Row("search, cached, 10,487 passages", "p95 < 1 ms", "p50 0.05 (0.05), p95 0.07 (0.07) ms"),
        Row("text indexing", ">= 300 files/s", "839 files/s (853), 10,000 files of 3 passages"),
    ]
    picture = drawn(rows)
    assert [name for name in ("hybrid p50", "hybrid p95", "text p50", "vector p50") if name not in picture] == []
    assert "text p95" not in picture
    assert "cached" not in picture
    assert drawn(rows[:-2]) == picture
    assert drawn([*rows[1:]]) != picture


def test_a_server_that_looks_for_changes_leaves_the_measured_workspace_as_it_was_built(tmp_path: Path) -> None:
    shelf = material.build(tmp_path / "shelf", material.sentences(), 40, HashingEmbedder())
    with Workspace(Settings(root=shelf.root, watch="off", semantic=Semantic(model="none"))) as workspace:
        scanned = workspace.index(embed=False)
        totals = workspace.stats().totals
    assert (scanned.unchanged, scanned.deleted, scanned.new, scanned.modified) == (shelf.memories, 0, 0, 0)
    assert (totals["memories"], totals["passages"]) == (shelf.memories, shelf.passages)
