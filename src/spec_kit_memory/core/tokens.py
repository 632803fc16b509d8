"""How many tokens does a text have? One estimate for the whole product: a quarter of its UTF-8 bytes."""

from __future__ import annotations

import re
from itertools import accumulate
from json.encoder import encode_basestring

BYTES_PER_TOKEN = 4

# In JSON these characters take two bytes, other control characters two or six.
_DOUBLED_IN_JSON = (b"\\", b'"', b"\t")
_LONG_IN_JSON = bytes(range(0x20)).translate(None, b"\t\n")

_SENTENCE_END = re.compile(r"[.!?…][\"')\]]?(?=\s)|[。！？]")


def count(text: str) -> int:
    """Tokens in `text`, rounded up."""
    return -(-_bytes(text) // BYTES_PER_TOKEN)


def quoted(text: str) -> int:
    """Bytes of a text as a JSON string, including its two quotes."""
    return _bytes(encode_basestring(text))


def offsets(text: str) -> list[int]:
    """Bytes of JSON before each line of a text, and in total: a line end takes two bytes, as do a string's quotes."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw.translate(None, _LONG_IN_JSON)) < len(raw):
        return list(accumulate(map(quoted, text.split("\n")), initial=0))
    for character in _DOUBLED_IN_JSON:
        raw = raw.replace(character, b"--")
    return list(accumulate(map((2).__add__, map(len, raw.split(b"\n"))), initial=0))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def clip(text: str, budget_tokens: int) -> str:
    """The beginning of `text` within the budget, cut at the end of a line, else of a sentence, else of a word."""
    if count(text) <= budget_tokens:
        return text
    raw = text.encode("utf-8", "surrogatepass")[: max(0, budget_tokens) * BYTES_PER_TOKEN]
    while raw and raw[-1] & 0xC0 == 0x80:
        raw = raw[:-1]
    if raw and raw[-1] >= 0xC0:
        raw = raw[:-1]
    head = raw.decode("utf-8", "surrogatepass")
    return head[: _last_end(head, following=text[len(head) :][:1])].rstrip()


def _last_end(head: str, *, following: str) -> int:
    """Where to cut. Line and sentence ends in the first half are avoided, since they would waste the budget."""
    half = len(head) // 2
    if following == "\n":
        return len(head)
    line = head.rfind("\n")
    if line >= half:
        return line
    sentence = max((match.end() for match in _SENTENCE_END.finditer(head, half)), default=-1)
    if sentence >= 0:
        return sentence
    if line > 0:
        return line
    word = head.rfind(" ")
    return word if word > 0 else len(head)
