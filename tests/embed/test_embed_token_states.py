"""Late interaction over packed sign bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_kit_memory.embed import token_states

DIMENSIONS = 384


def unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    result: np.ndarray = (rows / length).astype(np.float32)
    return result


def random_states(count: int, *, seed: int, dimensions: int = DIMENSIONS) -> np.ndarray:
    return unit(np.random.default_rng(seed).standard_normal((count, dimensions)))


def exact(query: np.ndarray, passages: list[np.ndarray]) -> np.ndarray:
    """The same numbers without any rounding of the query."""
    signs = [np.where(passage > 0, 1.0, -1.0) / np.sqrt(passage.shape[1]) for passage in passages]
    return np.array([(query @ rows.T).max(axis=1) for rows in signs]).T


def test_a_state_takes_one_bit_per_dimension_after_a_header_of_four_bytes() -> None:
    packed = token_states.pack(random_states(7, seed=1))
    assert packed[:4] == bytes([1, 48, 7, 0])
    assert len(packed) == 4 + 7 * 48


def test_the_first_dimension_is_the_most_significant_bit() -> None:
    row = -np.ones((1, 16), dtype=np.float32)
    row[0, 0] = row[0, 15] = 1.0
    assert token_states.pack(row)[4:] == bytes([0b10000000, 0b00000001])


@pytest.mark.parametrize("dimensions", [8, 64, 72, 384, 1000])
def test_interaction_is_close_to_the_unrounded_matches(dimensions: int) -> None:
    query = random_states(5, seed=2, dimensions=dimensions)
    passages = [random_states(count, seed=count, dimensions=dimensions) for count in (1, 3, 40, 2)]
    result = token_states.interact(query, [token_states.pack(passage) for passage in passages])
    assert result == pytest.approx(exact(query, passages), abs=0.15)
    assert result.mean(axis=0) == pytest.approx(exact(query, passages).mean(axis=0), abs=0.08)


def test_a_passage_that_contains_the_query_beats_one_that_does_not() -> None:
    query = random_states(4, seed=3)
    same = token_states.pack(np.concatenate([random_states(30, seed=4), query]))
    other = token_states.pack(random_states(34, seed=5))
    high, low = token_states.interact(query, [same, other]).mean(axis=0)
    assert high > 0.7 > 0.3 > low


def test_the_order_of_passages_does_not_change_their_scores() -> None:
    query = random_states(6, seed=6)
    packed = [token_states.pack(random_states(count, seed=count)) for count in range(1, 30)]
    forward = token_states.interact(query, packed)
    assert token_states.interact(query, packed[::-1]) == pytest.approx(forward[:, ::-1])


def test_absent_empty_and_foreign_states_give_nan_and_leave_the_rest_alone() -> None:
    query = random_states(3, seed=7)
    good = token_states.pack(random_states(9, seed=8))
    truncated, later_version = good[:-1], bytes([9]) + good[1:]
    other_width = token_states.pack(random_states(4, seed=9, dimensions=64))
    empty = token_states.pack(np.zeros((0, DIMENSIONS), dtype=np.float32))
    odd = [None, b"", b"\x01", truncated, later_version, other_width, empty]
    result = token_states.interact(query, [*odd, good])
    assert np.isnan(result[:, :-1]).all()
    assert result[:, -1:] == pytest.approx(token_states.interact(query, [good]))


def test_a_query_without_states_matches_nothing() -> None:
    nothing = np.zeros((0, DIMENSIONS), dtype=np.float32)
    assert token_states.interact(nothing, [token_states.pack(random_states(2, seed=1))]).shape == (0, 1)
    assert token_states.interact(random_states(2, seed=1), []).shape == (2, 0)


@settings(max_examples=40, deadline=None)
@given(counts=st.lists(st.integers(0, 20), max_size=12), tokens=st.integers(1, 6))
def test_every_score_is_a_cosine(counts: list[int], tokens: int) -> None:
    packed = [
        token_states.pack(random_states(count, seed=count) if count else np.zeros((0, DIMENSIONS))) for count in counts
    ]
    result = token_states.interact(random_states(tokens, seed=50), packed)
    known = [count > 0 for count in counts]
    assert (~np.isnan(result)).tolist() == [known] * tokens
    assert (np.abs(result[:, known]) <= 1.0).all()
