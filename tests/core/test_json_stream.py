"""Does reading JSON element by element give what reading it at once gives, wherever the text is cut?"""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spec_kit_memory.core import json_stream
from spec_kit_memory.core.json_stream import TooMuchError, elements, has_more_values


def read(data: bytes, *, window: int = 1, longest: int = 10_000_000, most_values: int = 1_000_000) -> list[object]:
    file = io.BytesIO(data)
    first = json_stream._FIRST_WINDOW
    json_stream._FIRST_WINDOW = window
    try:
        return list(elements(file.read, longest=longest, most_values=most_values))
    finally:
        json_stream._FIRST_WINDOW = first


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(JSON, max_size=6), st.integers(4, 40), st.sampled_from([None, 1]), st.booleans())
@example([-0.0, 1e300, 1.5e-300], 4, None, False)
@example([12345, -1.5e300, True, None, "\U0001f600", '\\"[{,'], 4, None, False)
def test_elements_are_those_of_the_whole(values: list[Any], window: int, indent: int | None, ascii_only: bool) -> None:
    data = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert read(data, window=window) == values


@given(st.text(alphabet='[]{},:"\\ a1\n', max_size=60), st.integers(4, 20))
def test_what_is_no_json_is_refused_as_it_is_at_once(text: str, window: int) -> None:
    """A text may hold several values; of one, the answer is the same."""
    try:
        whole = json.loads(text)
    except ValueError:
        return
    assert read(text.encode(), window=window) == (whole if isinstance(whole, list) else [whole])


@pytest.mark.parametrize(
    "text", ["[1 2]", "[1,]", "[,]", "[1", '["a', "]", "[1]]", '{"a":1', "[tru]", '["\\x"]', "[1,,2]"]
)
def test_broken_texts_are_refused(text: str) -> None:
    for window in (4, 1000):
        with pytest.raises(ValueError, match=r"."):
            read(text.encode(), window=window)


def test_several_values_stand_one_after_the_other() -> None:
    assert read(b' {"a": 1}\n[2, [3]]\n\n[] "x" ') == [{"a": 1}, 2, [3], "x"]
    assert read(b"") == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"])
def test_encodings_are_told_apart(encoding: str) -> None:
    assert read('["ä", "\U0001f600"]'.encode(encoding), window=8) == ["ä", "\U0001f600"]


def test_one_element_has_an_end_and_many_have_none() -> None:
    many = b"[" + b",".join([b'"' + b"a" * 50 + b'"'] * 1000) + b"]"
    assert len(read(many, window=16, longest=64)) == 1000
    with pytest.raises(TooMuchError):
        read(b'["' + b"a" * 2000 + b'"]', window=16, longest=64)


def test_values_are_counted_in_one_element_and_not_in_its_texts() -> None:
    assert has_more_values("[" + "[]," * 50 + "[]]", 60)
    assert not has_more_values('["' + "[],{" * 50 + '\\"[[["]', 10)
    assert not has_more_values("[]" + "[]" * 50, 10)  # those after it are not its own
    inner = b"[" + b",".join([b"{}"] * 40) + b"]"
    assert len(read(b"[" + b",".join([inner] * 20) + b"]", window=16, most_values=90)) == 20
    with pytest.raises(TooMuchError):
        read(b"[" + inner + b"]", window=16, most_values=70)
