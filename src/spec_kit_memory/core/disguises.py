"""How does a text read whose characters are escaped, encoded or written with look-alikes?

`\\n` and `\\"` of JSON and code, `\\u003d`, `&#61;` of HTML, full-width and mathematical letters, spaces that do not
break, and characters without width. So a scan of the text as it is read also finds what follows `password&#61;`;
`AsRead` says where its places are in the text as it is written.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from spec_kit_memory.core.patterns import Pattern

_WITHOUT_WIDTH = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff"
_SPACES = "\u00a0\u2000-\u200a\u202f\u205f\u3000"
_LOOK_ALIKES = "\uff02\uff07\uff10-\uff19\uff1d\uff20-\uff3a\uff3f\uff41-\uff5a\U0001d400-\U0001d7ff"
_DISGUISE = Pattern(
    r"\\(?:r\\n|[n\"]|u00[2-7][0-9a-fA-F])"
    r"|&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|amp|lt|gt|quot|apos|nbsp|equals|colon|shy|ZeroWidthSpace);"
    # Between letters of other alphabets, such a character is part of the spelling.
    rf"|(?<=[!-~])[{_WITHOUT_WIDTH}]{{1,20}}|[{_WITHOUT_WIDTH}]{{1,20}}(?=[!-~])"
    rf"|[{_SPACES}]|[{_LOOK_ALIKES}]"
)


@dataclass(frozen=True, slots=True)
class AsRead:
    """The text as it is read, and the places where it differs from what is written."""

    text: str
    # Of each piece that differs: where it starts and ends, in this text (`seen`) and in the one that is written.
    seen_starts: list[int]
    seen_ends: list[int]
    starts: list[int]
    ends: list[int]

    def written(self, first: int, last: int) -> tuple[int, int]:
        """The start and end, in the text as it is written, of what is from `first` to `last` here."""
        at = bisect_right(self.seen_starts, first) - 1
        if at >= 0:
            inside = first < self.seen_ends[at]
            first = self.starts[at] if inside else first - self.seen_ends[at] + self.ends[at]
        at = bisect_left(self.seen_starts, last) - 1
        if at >= 0:
            last = max(last - self.seen_ends[at], 0) + self.ends[at]
        return first, last

    def seen_at(self, position: int) -> int:
        """Where the character at this position of the written text is here."""
        at = bisect_left(self.starts, position) - 1
        return position if at < 0 else self.seen_ends[at] + max(position - self.ends[at], 0)


def as_read(text: str) -> AsRead | None:
    """The text as it is read; None if every character in it stands for itself."""
    parts: list[str] = []
    seen_starts: list[int] = []
    seen_ends: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    position = length = 0
    for match in _DISGUISE.finditer(text):
        plain = _plain(match)
        length += match.start() - position
        parts += (text[position : match.start()], plain)
        seen_starts.append(length)
        length += len(plain)
        seen_ends.append(length)
        starts.append(match.start())
        position = match.end()
        ends.append(position)
    if not starts:
        return None
    return AsRead("".join(parts) + text[position:], seen_starts, seen_ends, starts, ends)


def _plain(match: re.Match[str]) -> str:
    written = match[0]
    if written.startswith("\\u"):
        return chr(int(written[2:], 16))
    if written.startswith("\\"):
        return '"' if written == '\\"' else "\n"
    read = html.unescape(written) if written.startswith("&") else unicodedata.normalize("NFKC", written)
    if len(read) > 1:
        return ""  # several characters without width
    if read.isspace():
        return "\n" if read == "\n" else " "
    return read if "!" <= read <= "~" else "" if unicodedata.category(read) in ("Cf", "Mn") else "?"
