"""How is JSON of unknown size read? One element at a time, within limits.

Decoded JSON can take more than twenty times the memory of its text (`[],[],[],…`), and an export of conversations is
one large array. So the array is never decoded as a whole: only a window of the text is kept, which grows until an
element is complete, and the values in it are counted before they are decoded.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from json.decoder import JSONDecodeError

MOST_VALUES = 2_000_000  # each takes about a hundred bytes of memory

_FIRST_WINDOW = 1024 * 1024
_SPACE = re.compile(r"[ \t\n\r]*")
_MARKS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{,\]}]', re.DOTALL)
_decode = json.JSONDecoder().raw_decode


class TooMuchError(ValueError):
    """One element is longer, or contains more values, than is allowed."""


def elements(read: Callable[[int], bytes], *, longest: int, most_values: int) -> Iterator[object]:
    """Each top-level value of a text; of an array, its elements instead.

    `read` returns at most the given number of further bytes, and none at the end. Raises ValueError if it is not JSON.
    """
    window = _Window(read, longest=longest, most_values=most_values)
    while first := window.next_character():
        if first != "[":
            yield window.value()
            continue
        window.skip()
        if window.next_character() == "]":
            window.skip()
            continue
        while True:
            yield window.value()
            after = window.next_character()
            if after not in (",", "]"):
                raise ValueError("there is no comma between two elements of its array")
            window.skip()
            if after == "]":
                break


def read(data: bytes | str) -> object:
    """The value of a whole text. ValueError, also if it has too many values; RecursionError if it is nested deeply."""
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    if has_more_values(text, MOST_VALUES):
        raise TooMuchError(f"it has more than {MOST_VALUES:,} values")
    return json.loads(text)


def has_more_values(text: str, most: int) -> bool:
    """Does the first element have more than `most` values? Each string, opening bracket and comma counts as one."""
    if text.count("[") + text.count("{") + text.count(",") <= most:  # fast; counts those inside strings too
        return False
    depth = values = 0
    for match in _MARKS.finditer(text):
        mark = text[match.start()]
        if mark in "]}":
            depth -= 1
            if depth <= 0:
                return False
            continue
        values += 1
        if values > most:
            return True
        if mark in "[{":
            depth += 1
    return False


class _Window:
    """The part of a text that is held in memory."""

    def __init__(self, read: Callable[[int], bytes], *, longest: int, most_values: int) -> None:
        opening = read(_FIRST_WINDOW)
        decoder = codecs.getincrementaldecoder(json.detect_encoding(opening))
        self._decoder = decoder(errors="surrogatepass")
        self._read = read
        self._longest = longest
        self._most_values = most_values
        self._text = self._decoder.decode(opening)
        self._at = 0
        self._ended = not opening

    def next_character(self) -> str:
        """The next character that is not white space; "" at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._grow():
                return ""

    def skip(self) -> None:
        self._at += 1

    def value(self) -> object:
        self.next_character()
        while True:
            try:
                value, end = _decode(self._text, self._at)
            except JSONDecodeError as error:
                if not self._may_be_cut_off(error) or not self._grow():
                    raise
                continue
            if end + len("e+") >= len(self._text) and self._grow():  # a number may continue in the next chunk
                continue
            self._at = end
            return value

    def _may_be_cut_off(self, error: JSONDecodeError) -> bool:
        return error.msg.startswith("Unterminated string") or error.pos > len(self._text) - 16

    def _grow(self) -> bool:
        """Read as much again as is left in the window; False at the end."""
        if self._ended:
            return False
        unread = self._text[self._at :]
        if len(unread) >= self._longest:
            raise TooMuchError(f"one element of it is longer than {self._longest // 1024**2} MB")
        data = self._read(max(_FIRST_WINDOW, min(len(unread), self._longest - len(unread))))
        self._ended = not data
        self._text, self._at = unread + self._decoder.decode(data, final=self._ended), 0
        if len(self._text) > self._most_values and has_more_values(self._text, self._most_values):
            raise TooMuchError(f"one element of it has more than {self._most_values:,} values")
        return True
