"""How is a text encoded? UTF-8 unless a byte order mark says otherwise; half a surrogate pair becomes U+FFFD.

Hosts send half a pair when they cut a text in the middle of an emoji. It can be neither stored nor sent as UTF-8.
"""

from __future__ import annotations

import codecs
from typing import Any

MARK = "\ufeff"  # as decoded text still has it where the decoder did not know of it

MARKED_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def mark_and_encoding(data: bytes) -> tuple[bytes, str]:
    """The byte order mark at the start (empty if there is none), and the encoding of the text after it."""
    return next(((mark, name) for mark, name in MARKED_ENCODINGS if data.startswith(mark)), (b"", "utf-8"))


def split_mark(text: str) -> tuple[str, str]:
    """The mark that a decoded text begins with (none: empty), and the rest."""
    return (MARK, text[1:]) if text.startswith(MARK) else ("", text)


def without_lone_surrogates(value: Any) -> Any:
    """The same data, with U+FFFD for each half of a pair in its texts and keys."""
    whole = [value]
    containers: list[Any] = [whole]
    while containers:  # not recursive: data may be nested deeper than Python can call
        container = containers.pop()
        for place, item in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if isinstance(item, str):
                container[place] = _whole_text(item)
            elif isinstance(item, dict | list):
                copied = {_whole_text(key): each for key, each in item.items()} if isinstance(item, dict) else [*item]
                container[place] = copied
                containers.append(copied)
    return whole[0]


def _whole_text(text: Any) -> Any:
    """A key may be something else than a text."""
    if not isinstance(text, str) or text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
