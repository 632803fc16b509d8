"""What is cut when an answer gets too long, and that it always fits."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.wording import fitted, short

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=60) | st.dictionaries(st.text(max_size=100), inner, max_size=60),
    max_leaves=200,
)


@given(VALUES, st.integers(10, 5_000))
def test_whatever_it_is_it_fits(value: Any, characters: int) -> None:
    cut, left_out = fitted(value, characters=characters)
    assert len(json.dumps(cut, ensure_ascii=False, separators=(",", ":"))) <= characters
    assert (cut == value) == (not left_out)


def test_what_fits_stays_as_it_is_and_the_rest_keeps_its_beginning() -> None:
    data = {"warnings": [{"message": f"m{number}"} for number in range(10_000)], "text": "a" * 100_000, "count": 7}
    cut, left_out = fitted(data, characters=50_000)
    assert cut["warnings"] == data["warnings"][: len(cut["warnings"])]  # type: ignore[index]
    assert cut["count"] == 7
    assert cut["text"].startswith("aaa")
    assert cut["text"].endswith("…")
    assert left_out["warnings"] == 10_000 - len(cut["warnings"])
    assert left_out["characters of text"] == 100_000 - len(cut["text"]) + 1
    assert fitted(data, characters=1_000_000) == (data, {})


def test_a_text_that_is_short_enough_is_not_touched() -> None:
    assert (short("abc", 3), short("abcd", 3)) == ("abc", "ab…")
