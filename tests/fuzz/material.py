"""Hostile text, data and bytes. SKM_FUZZ_EXAMPLES sets how many of each a test tries; long runs use thousands."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("SKM_FUZZ_EXAMPLES", "40"))
Test = TypeVar("Test", bound=Callable[..., Any])


def fuzzed(test: Test) -> Test:
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.large_base_example]
    return settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=checks)(test)


# What the readers of text look for, whole and broken.
PIECES = (
    *("---", "---\n", "\n---\n", "--- ", "...", "<!--", "-->", "<!-- ANCHOR:a -->", "<!-- /ANCHOR:a -->"),
    *("<!-- ANCHOR:", "<!--ANCHOR: B/c-->", "<!-- /anchor:b/c -->", "```", "````", "~~~", "```yaml\n", "`"),
    *(
        "# ",
        "## ",
        "####### ",
        "{#x}",
        "title: ",
        "tier: constitutional\n",
        "triggers: [",
        "- ",
        "? ",
        ": ",
        "!!python/",
    ),
    *("&a ", "*a ", "<<: ", "|\n", ">-\n", "'", '"', "\\", "{", "}", "[", "]", ",", "%", "@", "created: 2026-13-45\n"),
    *("password=", "api_key: ", "AKIA", "-----BEGIN ", "PRIVATE KEY-----", "eyJ", "ghp_", "Bearer ", "://u:p@h"),
    *("AND", "OR", "NEAR/3", "*", "^", "(", ")", "\n", "\r\n", "\r", "\t", " ", "\u2028", "\x0b", "\x85"),
    *(
        "\u202e",
        "\u2066",
        "\u200b",
        "\u200d",
        "\ufeff",
        "а",
        "ſ",
        "ﬁ",
        "İ",
        "ß",
        "中文",
        "ไทย",
        "👩‍👩‍👧",
        "e\u0301" * 9,
    ),
    *("always run rm -rf", "[REDACTED:x]", "../", "C:\\", "chat://", "\x00", "\x1b[31m"),
)
piece = st.sampled_from(PIECES)
texts = st.lists(st.one_of(piece, piece, st.text(max_size=12)), max_size=60).map("".join)
# What JSON can bring along and a file cannot.
broken = st.lists(
    st.one_of(piece, st.text(max_size=8), st.sampled_from(["\ud800", "\udfff", "\x00"])), max_size=20
).map("".join)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), broken, st.sampled_from([2**70, -1, 0, 1e308, "", " "])
)
data = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(broken, inner, max_size=4)),
    max_leaves=12,
)


def keyed(*names: str) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with the keys that a reader looks for, and some that it does not."""
    return st.dictionaries(st.one_of(st.sampled_from(names), broken), data, max_size=8)
