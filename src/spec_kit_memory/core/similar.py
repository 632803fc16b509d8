"""Is one text a near-duplicate of another?

Similar vectors mean that two files are about the same topics, not that one is a copy. Therefore
runs of three words are compared: the share of runs that both texts have in common.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nsmallest
from itertools import combinations
from unicodedata import normalize
from zlib import crc32

# Two texts with at least this score are reported as similar.
THRESHOLD = 0.92

# A few edited sentences change about this many runs: much of a short text and little of a long one. The
# bounds prevent false matches: of short texts by chance, and of long ones by a common template.
# Measured with `benchmarks/similar.py`.
_EDITED_RUNS = 85
_LEAST_SHARE, _MOST_SHARE = 0.50, 0.70
# Runs kept for a long text. With 512 the error of the share is about 0.02; for shorter texts it is exact.
_MOST = 512

# A sketch is this many of a text's smallest hashes: texts that share most of their runs share some of these.
SKETCH = 16
# A run that more texts have comes from a template, and is ignored.
_COMMONPLACE = 30
# Hashes that two sketches must share. Texts with half of their runs in common share about eight, others one or two.
_IN_COMMON = 4

# Texts that differ in at most so many places, by at most so many words each, differ in what they state.
_MOST_PLACES, _MOST_CHANGED = 3, 4
_MOST_COMPARED = 1_500  # words; comparing takes time with the square of their number
# Two sentences of at least so many words, so many of which they share, say the same of the same thing or contradict.
_LEAST_WORDS, _SAME_SENTENCE = 5, 0.7
_MOST_SENTENCES = 40  # that only one of two texts has; each is compared with each

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
# In scripts without spaces, each character counts as a word.
_WORD = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]|[^\\W_]+")
# Arbitrary odd constants that spread the bits of three words over one number.
_MIX = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Signature:
    """The smallest hashes of a text's runs of three words, ascending, and how many different runs there are."""

    runs: int
    hashes: tuple[int, ...]

    def to_bytes(self) -> bytes:
        return _little(array("I", (self.runs, *self.hashes))).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> Signature:
        numbers = array("I")
        numbers.frombytes(data)
        runs, *hashes = _little(numbers)
        return cls(runs, tuple(hashes))


def count_words(text: str) -> int:
    """How many words a text has, in any script."""
    return len(_WORD.findall(text))


def signature(text: str) -> Signature:
    """The signature of a body: case, white space, punctuation and dates do not matter."""
    smallest: dict[str, int] = {}
    numbers = []
    for word in _WORD.findall(_DATE.sub("DATE", normalize("NFKC", text)).casefold()):
        number = smallest.get(word)
        if number is None:
            number = smallest[word] = crc32(word.encode("utf-8", "replace"))
        numbers.append(number)
    if not numbers:
        return Signature(0, ())
    first, second, third, last = _MIX
    while len(numbers) < 3:
        numbers.append(0)
    runs = {
        ((a * first + b * second + c * third & _MASK) * last & _MASK) >> 32
        for a, b, c in zip(numbers, numbers[1:], numbers[2:], strict=False)
    }
    return Signature(len(runs), tuple(sorted(runs) if len(runs) <= _MOST else nsmallest(_MOST, runs)))


def score(a: Signature, b: Signature) -> float:
    """0 to 1: 1 for the same words, 0 for no run in common, THRESHOLD where a few sentences differ."""
    share, at_threshold = _common_share(a, b), _share_at_threshold(min(a.runs, b.runs))
    if share < at_threshold:
        return THRESHOLD * share / at_threshold
    return THRESHOLD + (1.0 - THRESHOLD) * (share - at_threshold) / (1.0 - at_threshold)


def candidates(sketches: Sequence[bytes]) -> list[tuple[int, int]]:
    """Pairs of texts, by ascending position, whose sketches have enough in common for the texts to be similar."""
    import numpy as np  # imported here because a hook that saves compares only two texts, without numpy

    lengths = np.array([len(sketch) // 4 for sketch in sketches], dtype=np.int64)
    runs = np.frombuffer(b"".join(sketches), dtype=np.uint32)
    owners = np.repeat(np.arange(len(sketches)), lengths)
    order = np.argsort(runs, kind="stable")  # keeps the owners of a run in ascending order
    runs, owners = runs[order], owners[order]
    starts = np.flatnonzero(np.diff(runs, prepend=runs[:1] + 1))
    owner_counts = np.diff(starts, append=len(runs))
    shared: Counter[tuple[int, int]] = Counter()
    compared_runs = (owner_counts > 1) & (owner_counts <= _COMMONPLACE)
    for start, count in zip(starts[compared_runs].tolist(), owner_counts[compared_runs].tolist(), strict=True):
        shared.update(combinations(owners[start : start + count].tolist(), 2))
    return [pair for pair, count in shared.items() if count >= _needed(int(lengths[list(pair)].min()))]


def _needed(shorter: int) -> int:
    """How many hashes two sketches must share; fewer if the shorter sketch has few."""
    return max(1, min(_IN_COMMON, shorter // 3))


def _share_at_threshold(runs: int) -> float:
    """The share of common runs at which a text with `runs` runs scores THRESHOLD: that of a few edited sentences."""
    left = (runs - _EDITED_RUNS) / (runs + _EDITED_RUNS)
    return min(_MOST_SHARE, max(_LEAST_SHARE, left))


def _common_share(a: Signature, b: Signature) -> float:
    """Runs in both over runs in either (Jaccard), estimated from the smallest hashes of both together."""
    if not a.runs or not b.runs:
        return 0.0
    union = sorted({*a.hashes, *b.hashes})
    if max(a.runs, b.runs) > _MOST:
        union = union[:_MOST]
    common = {*a.hashes} & {*b.hashes}
    return sum(1 for shingle in union if shingle in common) / len(union)


def _little(numbers: array[int]) -> array[int]:
    """The numbers in little-endian byte order, so that the bytes are the same on every machine."""
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def differences(old: str, new: str) -> tuple[tuple[str, str], ...]:
    """What two texts state differently, old and new words, if that is all that differs between them; else nothing."""
    old_words, new_words = old.split(), new.split()
    if max(len(old_words), len(new_words)) > _MOST_COMPARED:
        return ()
    old_keys, new_keys = (list(map(_bare, of)) for of in (old_words, new_words))
    counts = Counter(old_keys), Counter(new_keys)
    if any((item - other).total() > _MOST_PLACES * _MOST_CHANGED for item, other in (counts, counts[::-1])):
        return ()  # more than that differs, and finding out where would take seconds
    places: dict[tuple[str, str], tuple[str, str]] = {}
    for kind, first, last, start, end in SequenceMatcher(None, old_keys, new_keys, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        if max(last - first, end - start) > _MOST_CHANGED:
            return ()
        if first == last or start == end:  # words were added or left out: say between which ones
            first, last = max(0, first - 1), last + 1
            start, end = max(0, start - 1), end + 1
        pair = _phrase(old_words[first:last]), _phrase(new_words[start:end])
        places.setdefault((_bare(pair[0]), _bare(pair[1])), pair)
    return tuple(places.values()) if len(places) <= _MOST_PLACES else ()


def restated(old: str, new: str) -> tuple[tuple[str, str], ...]:
    """What sentences of two texts state differently, old and new words, though the texts differ in more than that."""
    old_sentences, new_sentences = _sentences(old), _sentences(new)
    old_only = {key: sentence for key, sentence in old_sentences.items() if key not in new_sentences}
    new_only = {key: sentence for key, sentence in new_sentences.items() if key not in old_sentences}
    if not old_only or max(len(old_only), len(new_only)) > _MOST_SENTENCES:
        return ()
    pairs: list[tuple[str, str]] = []
    for key, sentence in new_only.items():
        nearest = max(old_only, key=lambda other: _shared_words(other, key))
        if _shared_words(nearest, key) >= _SAME_SENTENCE:
            pairs += differences(old_only[nearest], sentence)
    return tuple(dict.fromkeys(pairs))[:_MOST_PLACES]


def _sentences(text: str) -> dict[tuple[str, ...], str]:
    """The sentences and lines of a text that have enough words to be compared, by their bare words."""
    pieces = {tuple(filter(None, map(_bare, piece.split()))): piece for piece in _SENTENCE_END.split(text)}
    return {key: piece for key, piece in pieces.items() if len(key) >= _LEAST_WORDS}


def _shared_words(a: Sequence[str], b: Sequence[str]) -> float:
    return (Counter(a) & Counter(b)).total() / max(len(a), len(b))


def are_both_stated(difference: tuple[str, str], text: str) -> bool:
    """Does a text state both of two different phrases? One that only continues the other has to be there beside it."""
    words, *phrases = ([key for key in map(_bare, of.split()) if key] for of in (text, *difference))
    shorter, longer = sorted(phrases, key=len)
    inside = _count(shorter, longer)
    return _count(longer, words) > 0 and _count(shorter, words) > inside * _count(longer, words)


def _count(run: Sequence[str], words: Sequence[str]) -> int:
    """How often one word after the other of a run is among the words."""
    return f" {'  '.join(words)} ".count(f" {'  '.join(run)} ") if run else 0


def _bare(word: str) -> str:
    return word.strip("#*_`~.,;:!?()[]{}\"'“”‘’«»、。，").casefold()


def _phrase(phrase: Sequence[str]) -> str:
    return " ".join(phrase).strip("#*_`~.,;:!?()[]{}\"'“”‘’«»、。， ")
