"""Access counts, their boost, and validation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import usage

NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("count", "hours", "expected"),
    [
        (0, 0, 0.0),
        (3, 48, 0.06),
        (10, 48, 0.2),
        (500, 48, 0.2),
        (10, 1, 0.4),
        (10, 1.01, 0.3),
        (10, 24, 0.3),
        (10, 24.01, 0.2),
        (1, 0, 0.04),
    ],
)
def test_use_adds_two_percent_each_and_more_when_it_is_fresh(count: float, hours: float, expected: float) -> None:
    assert usage.boost(count, NOW - timedelta(hours=hours), NOW) == pytest.approx(expected)


def test_use_without_a_known_time_is_not_fresh() -> None:
    assert usage.boost(10, None, NOW) == pytest.approx(0.2)


@given(count=st.floats(0, 1e6), more=st.floats(0, 1e6), hours=st.floats(0, 1e4))
def test_more_use_never_counts_for_less(count: float, more: float, hours: float) -> None:
    last = NOW - timedelta(hours=hours)
    assert 0.0 <= usage.boost(count, last, NOW) <= usage.boost(count + more, last, NOW) <= 0.4


def test_confidence_moves_in_exact_decimal_steps() -> None:
    confidence = Decimal("0.5")
    for _ in range(4):
        confidence = usage.validated(confidence, useful=True)
    assert confidence == Decimal("0.9")
    assert usage.validated(confidence, useful=False) == Decimal("0.85")


def test_confidence_stays_between_zero_and_one() -> None:
    assert usage.validated(Decimal("0.95"), useful=True) == Decimal(1)
    assert usage.validated(Decimal("0.02"), useful=False) == Decimal(0)


@pytest.mark.parametrize(
    ("count", "confidence", "expected"), [(5, "0.9", True), (4, "0.9", False), (5, "0.89", False), (9, "1", True)]
)
def test_promotion_needs_five_opinions_and_nine_tenths(count: int, confidence: str, expected: bool) -> None:
    assert usage.promotable(count, Decimal(confidence)) is expected


def test_five_accesses_are_written_as_five() -> None:
    tally = usage.Accumulator()
    assert [tally.add(7, at=NOW) for _ in range(5)] == [{}, {}, {}, {}, {7: 5.0}]
    assert tally.drain() == {}


def test_a_memory_that_is_due_does_not_take_the_others_along() -> None:
    tally = usage.Accumulator()
    tally.add(1, at=NOW)
    assert tally.add(2, at=NOW, count=5) == {2: 5.0}
    assert tally.pending(1) == 1


def test_everything_is_written_when_the_oldest_has_waited_long_enough() -> None:
    tally = usage.Accumulator(wait=timedelta(seconds=5))
    tally.add(1, at=NOW)
    assert tally.due(NOW + timedelta(seconds=4)) == {}
    assert tally.add(2, at=NOW + timedelta(seconds=5)) == {1: 1.0, 2: 1.0}
    tally.add(3, at=NOW + timedelta(seconds=6))
    assert tally.due(NOW + timedelta(seconds=11)) == {3: 1.0}


def test_what_is_left_is_handed_over_at_the_end() -> None:
    tally = usage.Accumulator()
    tally.add(1, at=NOW)
    tally.add(1, at=NOW)
    assert tally.drain() == {1: 2.0}
    assert tally.drain() == {}


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), max_size=60))
def test_no_access_is_lost_or_counted_twice(accesses: list[tuple[int, int]]) -> None:
    tally = usage.Accumulator()
    written: dict[int, float] = {}
    at = NOW
    for memory_id, seconds in accesses:
        at += timedelta(seconds=seconds)
        for each, count in tally.add(memory_id, at=at).items():
            written[each] = written.get(each, 0) + count
    for each, count in tally.drain().items():
        written[each] = written.get(each, 0) + count
    assert written == {each: [id_ for id_, _ in accesses].count(each) for each, _ in accesses}


def test_threads_share_a_tally_without_losing_counts() -> None:
    tally = usage.Accumulator(due_tenths=10**9)
    threads = [Thread(target=lambda: [tally.add(1, at=NOW) for _ in range(2000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tally.drain() == {1: 8000.0}
