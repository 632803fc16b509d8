from __future__ import annotations

from spec_kit_memory.core.memory import RawHit
from spec_kit_memory.core.raw_hits import NO_HITS, RawHits

HITS = [RawHit(5, 1, 0.5), RawHit(2, 1, 0.25), RawHit(9, 3, 0.125)]


def test_hits_in_columns_read_like_a_list_of_them() -> None:
    hits = RawHits.of(HITS)
    assert hits == HITS
    assert hits == RawHits.of(HITS)
    assert hits != HITS[:2]
    assert list(hits) == HITS
    assert (hits[0], hits[-1], hits[1:]) == (HITS[0], HITS[-1], HITS[1:])
    assert len(hits) == 3
    assert all(type(hit.passage_id) is int and type(hit.score) is float for hit in hits), (
        "plain numbers, as JSON has them"
    )


def test_no_hits_are_an_empty_list() -> None:
    assert NO_HITS == []
    assert not NO_HITS
