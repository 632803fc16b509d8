"""How is a text file encoded, by its first bytes? UTF-8 unless a byte order mark says otherwise."""

from __future__ import annotations

import codecs

__all__ = ["MARKED_ENCODINGS", "mark_and_encoding"]

MARKED_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def mark_and_encoding(data: bytes) -> tuple[bytes, str]:
    """The byte order mark at the start (empty if there is none), and the encoding of the text after it."""
    return next(((mark, name) for mark, name in MARKED_ENCODINGS if data.startswith(mark)), (b"", "utf-8"))
