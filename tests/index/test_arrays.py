"""Do the values that a process keeps stay within their room, and are the best of many passages found?"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.memory import Filter, Scope, Tier
from spec_kit_memory.index.arrays import nearest
from spec_kit_memory.index.arrays.columns import Columns
from spec_kit_memory.index.arrays.feed import Feed
from spec_kit_memory.index.arrays.nearest import Vectors
from spec_kit_memory.index.arrays.postings import best
from spec_kit_memory.index.arrays.row_cache import _Shelf
from spec_kit_memory.index.contract import Index
from tests.index.material import BY_USER, entry

NO_FEED = cast("Feed", None)  # for what is reckoned without reading


def columns(passage_ids: list[int]) -> Columns:
    nothing = np.zeros(1, np.int32)
    return Columns(
        generation=1, used=0, epoch=0, build=1, slot_of={7: 0}, ids=np.array([7]), paths=("a.md",),
        tier=nothing.astype(np.int8), source=nothing.astype(np.int8), context=nothing.astype(np.int8),
        folder=nothing, owner=nothing, project=nothing, flagged=nothing > 0, live=nothing == 0,
        first=np.zeros(1), last=np.zeros(1), expires=np.full(1, np.inf), names={None: 0},
        passage_ids=np.array(passage_ids, np.int64), memory_slot=np.zeros(len(passage_ids), np.int32),
        length=np.ones(len(passage_ids), np.float32), vector_id=np.zeros(len(passage_ids), np.int64),
        alive=np.ones(len(passage_ids), np.bool_),
    )  # fmt: skip


@given(st.sets(st.integers(1, 300), min_size=1), st.data())
def test_passages_are_found_by_id_whether_ids_lie_close_or_far(ids: set[int], data: st.DataObject) -> None:
    names = sorted(ids)
    asked = data.draw(st.lists(st.integers(1, names[-1])))
    expected = [names.index(each) if each in ids else -1 for each in asked]
    far = 10_000_000
    close = columns(names).slots(np.array(asked, np.int64))
    spread = columns([each * far for each in names]).slots(np.array(asked, np.int64) * far)
    assert close.tolist() == expected
    assert spread.tolist() == expected


def test_ids_that_lie_far_apart_make_no_large_table() -> None:
    result = columns([5, 4_000_000_000])
    assert result.slots(np.array([5, 6, 4_000_000_000])).tolist() == [0, -1, 1]
    assert not result.slot_by_id


def test_a_mask_is_kept_for_the_filter_that_it_was_made_for() -> None:
    result = columns([1])
    every, none = Filter(tiers=frozenset(Tier)), Filter(tiers=frozenset())
    assert result.mask(None, every).tolist() == [True]
    assert result.mask(None, none).tolist() == [False]
    assert result.mask(None, every).tolist() == [True]
    assert result.mask(None, every) is result.mask(None, every)


@given(st.lists(st.sets(st.integers(0, 40), min_size=1), max_size=12), st.integers(1, 60))
def test_a_shelf_gives_all_that_was_asked_for_and_keeps_what_fits(asked: list[set[int]], most: int) -> None:
    shelf = _Shelf[int](most, weigh=lambda value: value % 7)
    for ids in asked:
        assert shelf.get(sorted(ids), lambda missing: {each: each * 10 for each in missing}) == {
            each: each * 10 for each in ids
        }
        assert sum(value % 7 for value in shelf.values.values()) <= most
    shelf.drop(list(shelf.values))
    assert shelf._weight == 0


def test_the_last_read_stay_longest() -> None:
    shelf = _Shelf[str](3)
    for each in range(5):
        shelf.get([each], lambda missing: dict.fromkeys(missing, "x"))
    assert list(shelf.values) == [2, 3, 4]


def test_what_one_thread_found_within_its_scope_is_not_taken_back_by_another(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "text"), BY_USER)
    kept = store._shared.row_cache  # type: ignore[attr-defined]
    seen = kept._within(Scope(), [1, 99])
    for known in kept._seen.values():  # a change of that memory, seen by another thread
        known.pop(1)
    assert seen == {1}


# --- the best of many


@pytest.mark.parametrize("where_the_best_are", ["anywhere", "in the sample", "beside the sample", "at the end", "tied"])
def test_the_best_of_many_are_those_of_a_full_sort(where_the_best_are: str) -> None:
    many, limit = 2_000, 10
    scores = np.random.default_rng(3).random(many).astype(np.float32)
    match where_the_best_are:
        case "in the sample":
            scores[::16] += 1
        case "beside the sample":
            scores[1::16] += 1
        case "at the end":
            scores[-5:] += 1
        case "tied":
            scores[:] = np.round(scores, 2)
    wanted = np.arange(many) % 7 > 0
    result = best(columns(list(range(1, many + 1))), scores, wanted, limit)
    order = sorted(np.flatnonzero(wanted).tolist(), key=lambda slot: (-scores[slot], slot))
    assert [hit.passage_id - 1 for hit in result] == order[:limit]


@pytest.mark.parametrize("rows", [0, 1, 99, 100, 101, 250, 1_000])
def test_a_matrix_that_two_threads_read_gives_what_one_would(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "_SHARED_ROWS", 100)
    monkeypatch.setattr(nearest, "_STRETCH", 30)
    matrix = np.random.default_rng(4).random((rows, 8)).astype(np.float32)
    asked = matrix[-1] if rows else np.ones(8, np.float32)
    vectors = Vectors(NO_FEED)
    with ThreadPoolExecutor(3) as threads:
        listed = list(threads.map(lambda _: vectors._dots(matrix, asked), range(6)))
    for each in listed:
        np.testing.assert_array_equal(each, np.vecdot(matrix, asked))


def test_a_matrix_is_still_compared_when_the_interpreter_is_on_its_way_out() -> None:
    script = """
import threading, time
import numpy as np
from spec_kit_memory.index.arrays.nearest import _SHARED_ROWS, Vectors

def late() -> None:
    threading.main_thread().join()
    time.sleep(0.2)
    matrix = np.ones((_SHARED_ROWS, 8), np.float32)
    print(int(Vectors(None)._dots(matrix, matrix[0]).sum()) // 8)

threading.Thread(target=late).start()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == str(nearest._SHARED_ROWS), done.stderr
