"""Which words does only one of two texts have? Both are rendered, with these words marked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from spec_kit_memory.serve.page import document

# Of both texts together; longer ones are shown without marks, because comparing takes seconds.
MOST_LINES, MOST_CHARACTERS = 4_000, 66_000
MOST_MARKED = document.LONGEST // 3  # characters of each text: marks around every letter triple it, and nothing is cut
MOST_WORDS = 2_000  # of lines that differ; of more, every word is marked
_BEGIN, _END = "\ue000", "\ue001"  # around a marked word until the text is HTML: of no meaning to markdown or HTML
_WORD = re.compile(r"(?<![&#\w])[^\W_]+")  # but no character reference
# Where a mark would change what markdown reads: addresses, tags, definitions of links, and the first lines of fences.
_ADDRESS = re.compile(
    r"\]\([^\s)]*|<(?!!--)[^<>\n]*>|(?<![a-z])[a-z]++://\S+|^ {0,3}\[[^\]\n]*\]:.*$|^ {0,3}(?:```|~~~).*$",
    re.MULTILINE | re.IGNORECASE,
)
_PIECES = re.compile(r"(<[^<>]*>)")


def html_of_both(one: str, other: str) -> tuple[str, str]:
    one, other = (re.sub(f"[{_BEGIN}{_END}]", "\ufffd", text) for text in (one, other))
    if not is_long(one, other):
        one, other = ("\n".join(lines) for lines in _marked_lines(one.split("\n"), other.split("\n")))
    return _rendered(one), _rendered(other)


def is_long(one: str, other: str) -> bool:
    """Are these too long to be compared?"""
    return (
        max(len(one), len(other)) > MOST_MARKED
        or len(one) + len(other) > MOST_CHARACTERS
        or one.count("\n") + other.count("\n") > MOST_LINES
    )


def _marked_lines(first: list[str], second: list[str]) -> tuple[list[str], list[str]]:
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, first, second).get_opcodes():
        if kind != "equal":
            first[i1:i2], second[j1:j2] = _marked(first[i1:i2], second[j1:j2])
    return first, second


def _marked(first: Sequence[str], second: Sequence[str]) -> tuple[list[str], list[str]]:
    """The same lines with marks around words that the others do not have at this place."""
    texts = "\n".join(first), "\n".join(second)
    places = [list(_WORD.finditer(text)) for text in texts]
    words = [[word[0].casefold() for word in row] for row in places]
    only: tuple[set[int], set[int]] = set(range(len(words[0]))), set(range(len(words[1])))
    if len(words[0]) + len(words[1]) <= MOST_WORDS:
        for i, j, size in SequenceMatcher(None, words[0], words[1]).get_matching_blocks():
            only[0].difference_update(range(i, i + size))
            only[1].difference_update(range(j, j + size))
    marked = ("".join(_pieces(text, row, own)) for text, row, own in zip(texts, places, only, strict=True))
    one, other = (text.split("\n") for text in marked)
    return one if first else [], other if second else []


def _pieces(text: str, places: Sequence[re.Match[str]], only: set[int]) -> Iterator[str]:
    end = 0
    inside = {at for address in _ADDRESS.finditer(text) for at in range(*address.span())}
    for number, place in enumerate(places):
        if number in only and place.start() not in inside:
            yield f"{text[end : place.start()]}{_BEGIN}{place[0]}{_END}"
            end = place.end()
    yield text[end:]


def _rendered(text: str) -> str:
    """Its HTML, with marks in text and none in tags, where an address has them percent-encoded."""
    pieces = _PIECES.split(document.html_of(text))
    for at, piece in enumerate(pieces):
        if piece.startswith("<"):
            pieces[at] = re.sub("%EE%80%8[01]|[\ue000\ue001]", "", piece)
        else:
            pieces[at] = piece.replace(_BEGIN, "<mark>").replace(_END, "</mark>")
    return "".join(pieces)
