"""How does a text read that is escaped or written with look-alikes, and where does each place of it stand?"""

from __future__ import annotations

import pytest

from spec_kit_memory.core.disguises import as_read
from spec_kit_memory.core.redact import redact


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("a&#61;b&#x3D;c&equals;d", "a=b=c=d"),
        ("&lt;p&gt; &amp; &quot;q&quot;", '<p> & "q"'),
        (r"{\"a\":\"b\"}\r\nc\nd", '{"a":"b"}\nc\nd'),
        (r"x\u003dy\u0026z", "x=y&z"),
        ("ｐａｓｓ＝１", "pass=1"),
        ("𝐩𝐚𝐬𝐬", "pass"),
        ("pa\u200b\u00adss\ufeff:", "pass:"),
        ("a\u00a0b\u3000c", "a b c"),
    ],
)
def test_a_text_in_disguise_is_read_as_it_is_meant(written: str, read: str) -> None:
    plain = as_read(written)
    assert plain is not None
    assert plain.text == read


@pytest.mark.parametrize(
    "text", ["", "plain words", "Ünïcödé — “quotes”", "می\u200cخواهم", "R&D &unknown; \\x", "C:\\x"]
)
def test_a_text_without_disguise_needs_no_second_reading(text: str) -> None:
    assert as_read(text) is None


def test_every_place_that_is_read_is_found_where_it_is_written() -> None:
    written = "one &#61; t\u200bw\u200bo ｔhree \\n \u200bfour"
    plain = as_read(written)
    assert plain is not None
    assert plain.text == "one = two three \n four"
    for word, place in {
        "one": "one",
        "=": "&#61;",
        "two": "t\u200bw\u200bo",
        "three": "ｔhree",
        "four": "four",
    }.items():
        at = plain.text.index(word)
        first, last = plain.written(at, at + len(word))
        assert written[first:last] == place
        assert plain.seen_at(first) == at
    assert plain.written(0, len(plain.text)) == (0, len(written))
    assert [plain.seen_at(at) for at in range(len(written) + 1)] == sorted(
        plain.seen_at(at) for at in range(len(written) + 1)
    )


def test_a_secret_in_disguise_is_replaced_where_it_stands() -> None:
    text = "before &#61; x\npass\u200bword&#58; T1de-P00l!x\nafter &#61; y"
    assert redact(text).text == "before &#61; x\npass\u200bword&#58; [REDACTED:password]\nafter &#61; y"
