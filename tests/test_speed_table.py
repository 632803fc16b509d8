"""Does the picture of search against size show what the table says?"""

from __future__ import annotations

from benchmarks.speed import Row, drawn


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
