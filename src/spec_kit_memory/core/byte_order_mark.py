"""How is a text file encoded, by its first bytes? UTF-8 unless a byte order mark says otherwise."""

from __future__ import annotations

import codecs

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
