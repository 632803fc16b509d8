"""JSON as people write it. Edits are tested with the hosts whose files they are made in."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import jsonc

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "http://x/*y*/", // gone\n "b": ["1,]", /* , */ ], }', {"a": "http://x/*y*/", "b": ["1,]"]}),
        ("{a: {b: 'none'}, $a_1: 1, é: 2, \\u0061b: 3}", {"a": {"b": "none"}, "$a_1": 1, "é": 2, "ab": 3}),
        ("[+1, -1, .5, 5., 0x1F, -0xa, 1e3, 0, -.5e-1]", [1, -1, 0.5, 5.0, 31, -10, 1000.0, 0, -0.05]),
        ("[Infinity, -Infinity]", [math.inf, -math.inf]),
        (r"""['it\'s', "\x41\u0042\v\0\q", "\ud83d\ude00", '"']""", ["it's", "AB\v\0q", "😀", '"']),
        ('"one \\\nline, \\\r\ntwo"', "one line, two"),
        ('"a\tb"', "a\tb"),
        ("\ufeff[\u00a01\u2028,\x0c2 // end", None),
        ("//only\n//comments\r// and a value\n7", 7),
    ],
)  # fmt: skip
def test_what_people_write_is_read(text: str, value: Any) -> None:
    if value is None:
        with pytest.raises(jsonc.Malformed):
            jsonc.read(text)
    else:
        assert jsonc.read(text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a value is missing at line 1, column 1"),
        ('{"a": "x\n"}', "a string without its end at line 1, column 7"),
        ("{\n  'a' 1}", "a colon is missing at line 2, column 7"),
        ("[1 2]", "a comma or ] is missing at line 1, column 4"),
        ("{,}", "a key is missing at line 1, column 2"),
        ("[1]]", "text after the end at line 1, column 4"),
        (r"'\x4'", "a bad escape at line 1, column 2"),
        (r"'\1'", "a bad escape at line 1, column 2"),
        ("010", "a value is missing at line 1, column 1"),
        ("truely", "a value is missing at line 1, column 1"),
        ("[" * 1_000_000, "nesting too deep at line 1, column 202"),
        ("1" * 100_000, "a bad number at line 1, column 1"),
        ("/* no end", "a value is missing at line 1, column 1"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(jsonc.Malformed) as caught:
        jsonc.read(text)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    "text", ["{a: 1}", "{'a': 1}", "[+1]", "[.5]", "[0x1]", "[NaN]", r'["\x41"]', '["a\tb"]', "[01]"]
)
def test_other_programs_files_are_held_to_what_those_read(text: str) -> None:
    with pytest.raises(jsonc.Malformed):
        jsonc.parse(text)


@given(VALUES)
def test_plain_json_is_read_alike_by_both_ways(value: Any) -> None:
    text = json.dumps(value)
    assert jsonc.read(text) == jsonc.parse(text).value == value
    assert jsonc.read(f"/* first */ {text} // last") == value
