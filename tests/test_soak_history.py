"""The checker of a soak's history finds what it looks for: each history here has one thing wrong, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.soak_history import ABSENT, DONE, REFUSED, UNKNOWN, History, Mark, Read, Write, check

SAVED = Write("a", "m", 0, 1, DONE, ("create", "Title"), "Title")
CHANGED = Write("a", "m", 4, 6, DONE, ("update", "New"), "New")
LEDGER: dict[Mark, Sequence[int]] = {("create", "Title"): (1,), ("update", "New"): (2,)}


def read(began: float, ended: float, title: str) -> Read:
    return Read("b", "m", began, ended, title)


@pytest.mark.parametrize(
    "reads",
    [
        [read(2, 3, "Title"), read(7, 8, "New")],
        [read(0.5, 2, ABSENT)],  # it began before the save was acknowledged
        [read(3, 7, "Title")],  # beside the update: the old one and the new one are both right
        [read(3, 7, "New")],
        [read(3, 5, "New"), read(4, 9, "New")],
    ],
)
def test_reads_beside_or_after_a_write_are_right(reads: list[Read]) -> None:
    assert check(History([SAVED, CHANGED], reads), LEDGER) == []


@pytest.mark.parametrize(
    ("reads", "fault"),
    [
        ([read(2, 3, ABSENT)], "after 'Title' had been acknowledged"),
        ([read(7, 8, "Title")], "after 'New' had been acknowledged"),
        ([read(2, 3, "New")], "before that was written"),
        ([read(2, 3, "Invented")], "never written"),
        ([read(3, 4.5, "New"), read(5, 5.5, "Title")], "after another read had seen 'New'"),
    ],
)
def test_a_stale_or_impossible_read_is_a_fault(reads: list[Read], fault: str) -> None:
    (found,) = check(History([SAVED, CHANGED], reads), LEDGER)
    assert fault in found


def test_a_deleted_memory_that_is_still_found_is_a_fault() -> None:
    gone = Write("a", "m", 10, 11, DONE, ("delete", 1), ABSENT)
    history = History([SAVED, CHANGED, gone], [read(12, 13, "New")])
    (found,) = check(history, LEDGER | {("delete", 1): (3,)})
    assert "'its delete' had been acknowledged" in found


def test_a_write_that_was_cut_off_may_have_happened_or_not_but_not_twice() -> None:
    cut = Write("a", "m", 4, 6, UNKNOWN, ("update", "New"), "New")
    for title in ("Title", "New"):
        assert check(History([SAVED, cut], [read(7, 8, title)]), LEDGER) == []
    back = History([SAVED, cut], [read(7, 8, "New"), read(9, 10, "Title")])
    assert any("after another read had seen" in fault for fault in check(back, LEDGER))
    (found,) = check(History([SAVED, cut]), LEDGER | {("update", "New"): (2, 3)})
    assert "2 times" in found


def test_a_refused_write_that_shows_or_is_recorded_is_a_fault() -> None:
    refused = Write("a", "m", 4, 6, REFUSED, ("update", "New"), "New")
    assert check(History([SAVED, refused], [read(7, 8, "Title")]), {("create", "Title"): (1,)}) == []
    (found,) = check(History([SAVED, refused], [read(7, 8, "New")]), {("create", "Title"): (1,)})
    assert "refused" in found
    (found,) = check(History([SAVED, refused]), LEDGER)
    assert "1 times" in found


def test_an_acknowledged_write_that_the_ledger_lacks_is_a_fault() -> None:
    (found,) = check(History([SAVED, CHANGED]), {("create", "Title"): (1,)})
    assert "0 times" in found


def test_a_ledger_in_another_order_than_the_clock_is_a_fault() -> None:
    other = Write("b", "n", 7, 8, DONE, ("create", "Other"), "Other")
    assert check(History([SAVED, CHANGED, other]), LEDGER | {("create", "Other"): (3,)}) == []
    swapped: dict[Mark, Sequence[int]] = {("create", "Title"): (1,), ("update", "New"): (3,), ("create", "Other"): (2,)}
    (found,) = check(History([SAVED, CHANGED, other]), swapped)
    assert "but is entry 3, after 2" in found
