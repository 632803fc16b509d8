"""Which passages have these words, and how well do they fit? BM25 over the text index.

A word counts the same in title and body; the bonus for a match in the title is added in `core.ranking`.

The engine keeps its text index consistent with the other tables; scoring happens here. The passages of a word are read
from the engine once, kept as arrays, and extended when passages are added. Passage ids only rise, and the words of a
passage never change, so cached arrays never become wrong; deleted passages are masked.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spec_kit_memory.core import words
from spec_kit_memory.core.memory import Filter, Scope
from spec_kit_memory.core.raw_hits import NO_HITS, RawHits
from spec_kit_memory.index.arrays.columns import Columns
from spec_kit_memory.index.arrays.feed import Feed, Lookups, Wanted
from spec_kit_memory.index.arrays.vocabulary import Vocabulary

K1 = 1.2
B = 0.75
# A passage full of this many of the rarest query words scores 1: no passage has all words of a long question.
FULL_WORDS = 6
_KEEP_BYTES = 48_000_000
_WARM_WORDS = 300
_SAMPLED = 16  # step of the sample of scores
_SAMPLE = 200  # memories in the sample for the most common words
_MOST_DELTA = 4_000  # passages added since a word was read; with more, reading the whole word again is faster


RECENT = 7  # query texts to cache: a question may have several, matched again to find what its filter held back

Ints = npt.NDArray[np.int64]
_Asked = tuple[Scope | None, tuple[tuple[str, ...], ...]]


@dataclass(frozen=True, slots=True)
class _Posting:
    """Slots of the passages that have a word, ascending, and how often each has it."""

    slots: npt.NDArray[np.int32]
    times: npt.NDArray[np.float32]
    upto: int  # complete up to this passage id

    def within(self, columns: Columns) -> _Posting:
        """Limited to these columns: another thread may have read newer passages."""
        if self.upto <= columns.last_passage:
            return self
        end = int(np.searchsorted(self.slots, len(columns.passage_ids)))
        return _Posting(self.slots[:end], self.times[:end], columns.last_passage)

    @property
    def size(self) -> int:
        return self.slots.nbytes + self.times.nbytes + 200


class Postings:
    """The passages of queried words; those of the most recent words are cached."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._lock = threading.Lock()
        self._cached: OrderedDict[tuple[str, ...], _Posting] = OrderedDict()
        self._bytes = 0
        self._build = -1
        self._recent: dict[_Asked, tuple[Columns, npt.NDArray[np.float32]]] = {}
        self._vocabulary: Vocabulary | None = None

    def match(
        self,
        columns: Columns,
        scope: Scope | None,
        terms: Sequence[str],
        where: Filter,
        limit: int,
        *,
        confirm_nothing: Callable[[], None] = lambda: None,
    ) -> RawHits:
        """`confirm_nothing` is called before the answer that no passage has any of the words."""
        lookups = self._feed.lookups(terms)
        if not lookups or limit <= 0:
            return NO_HITS
        scores = self._scores(columns, scope, lookups)
        if not scores.any():
            confirm_nothing()
            return NO_HITS
        allowed = columns.passages(columns.mask(scope, where))
        return best(columns, scores, allowed & (scores > 0), limit)

    def _scores(self, columns: Columns, scope: Scope | None, lookups: Lookups) -> npt.NDArray[np.float32]:
        """The score of every passage. Scores of the latest query texts are cached."""
        key = (scope, tuple(lookups))
        with self._lock:
            cached = self._recent.get(key)
            if cached is not None and cached[0] is columns:
                return cached[1]
            with self._feed.moment():  # one snapshot for all words
                postings = self._postings(columns, lookups)
        scores = _bm25(columns, columns.passages(columns.seen(scope)), postings)
        with self._lock:
            self._recent.pop(key, None)
            self._recent[key] = columns, scores
            while len(self._recent) > RECENT:
                self._recent.pop(next(iter(self._recent)))
        return scores

    def warm(self, columns: Columns) -> None:
        """Read all words ahead; if there are too many, only the most common, which take longest to read."""
        if not len(columns.passage_ids):
            return
        vocabulary = Vocabulary.read(columns, self._feed)
        with self._lock:
            self._vocabulary = vocabulary
        if vocabulary is not None:
            return
        for lookup, term in self._feed.lookups(self._common(columns)).items():
            with self._lock:  # one word at a time, so that a search waits for one at most
                self._postings(columns, {lookup: term})

    def _postings(self, columns: Columns, lookups: Lookups) -> list[_Posting]:
        """The postings of these words; missing and outdated ones are read together."""
        if self._build != columns.build:
            self._cached.clear()
            self._bytes, self._build = 0, columns.build
        at_hand = self._at_hand(columns, lookups)
        to_read = [lookup for lookup in lookups if lookup not in at_hand]
        ready: dict[tuple[str, ...], _Posting | None] = {lookup: self._cached.pop(lookup, None) for lookup in to_read}
        self._bytes -= sum(posting.size for posting in ready.values() if posting is not None)
        missing = {
            lookup: posting
            for lookup, posting in ready.items()
            if posting is None or posting.upto < columns.last_passage
        }
        try:
            ready |= self._read(columns, lookups, missing)
        finally:
            nonempty = {lookup: posting for lookup, posting in ready.items() if posting is not None}
            self._cached |= nonempty
            self._bytes += sum(posting.size for posting in nonempty.values())
        while self._bytes > _KEEP_BYTES and len(self._cached) > 1:
            self._bytes -= self._cached.popitem(last=False)[1].size
        nonempty |= at_hand
        return [nonempty[lookup].within(columns) for lookup in lookups]

    def _at_hand(self, columns: Columns, lookups: Lookups) -> dict[tuple[str, ...], _Posting]:
        """Postings from the vocabulary. It can answer a phrase only if no passage has all of its words."""
        vocabulary = self._vocabulary
        if vocabulary is None or columns.build < vocabulary.build:
            return {}
        if not vocabulary.follow(columns, self._feed):
            vocabulary = self._vocabulary = Vocabulary.read(columns, self._feed)
            if vocabulary is None:
                return {}
        at_hand: dict[tuple[str, ...], _Posting] = {}
        for lookup in lookups:
            of_words = [vocabulary.get(word) for word in lookup]
            slots, times = of_words[0]
            for others, _ in of_words[1:]:
                slots = np.intersect1d(slots, others, assume_unique=True)
            if len(lookup) == 1 or not len(slots):
                at_hand[lookup] = _Posting(slots, times[: len(slots)].astype(np.float32), vocabulary.upto)
        return at_hand

    def _common(self, columns: Columns) -> list[str]:
        """The most frequent words in a sample of the memories."""
        live = columns.ids[columns.live]
        texts = self._feed.texts(live[:: max(1, len(live) // _SAMPLE)].tolist())
        counted = Counter(word for text in texts for word in words.content(text))
        return [word for word, _ in counted.most_common(_WARM_WORDS)]

    def _read(
        self, columns: Columns, lookups: Lookups, missing: Mapping[tuple[str, ...], _Posting | None]
    ) -> dict[tuple[str, ...], _Posting]:
        """Read postings from the engine, completely or only those of passages added since the last read."""
        if not missing:
            return {}
        requests: list[Wanted] = []
        for lookup, earlier in missing.items():
            after = earlier.upto if earlier else 0
            added = len(columns.passage_ids) - int(np.searchsorted(columns.passage_ids, after, side="right"))
            whole = added > _MOST_DELTA and len(lookup) == 1
            requests.append(Wanted(lookup, lookups[lookup], 0 if whole else after))
        return {
            request.lookup: _extended(columns, missing[request.lookup] if request.after else None, docs, times)
            for request, (docs, times) in zip(requests, self._feed.postings(requests), strict=True)
        }


def _extended(columns: Columns, earlier: _Posting | None, docs: Ints, times: Ints) -> _Posting:
    keep = docs <= columns.last_passage  # the engine may already be at a newer generation than the columns
    docs, times = docs[keep], times[keep]
    slots = columns.slots(docs)
    slots, counts = slots[slots >= 0], times[slots >= 0].astype(np.float32)
    if earlier is not None:
        slots, counts = np.concatenate([earlier.slots, slots]), np.concatenate([earlier.times, counts])
    return _Posting(slots, counts, columns.last_passage)


def _bm25(columns: Columns, inside: npt.NDArray[np.bool_], postings: Sequence[_Posting]) -> npt.NDArray[np.float32]:
    """Scores whose statistics count only passages that the scope can see."""
    total = int(inside.sum())
    if not total:
        return np.zeros(len(columns.passage_ids), np.float32)
    average = float(columns.length.sum(where=inside, dtype=np.float64)) / total or 1.0
    values = [(posting.slots, posting.times) for posting in postings]
    return bm25(values, columns.length, total=total, average=average, inside=inside)


def bm25(
    postings: Sequence[tuple[npt.NDArray[Any], npt.NDArray[np.float32]]],
    length: npt.NDArray[np.float32],
    *,
    total: int,
    average: float,
    inside: npt.NDArray[np.bool_] | None = None,
) -> npt.NDArray[np.float32]:
    """BM25 scores, as a share of the score of a passage full of the `FULL_WORDS` rarest words.

    `postings`: for each word, indexes into `length`, and how often each passage has the word. `inside`: the passages
    that count for the rarity of a word, by default all. `total` and `average`: number and average length of all
    passages, with or without the words.
    """
    scores = np.zeros(len(length), np.float32)
    weights = []
    norm = K1 * (1 - B + B * length / np.float32(average))
    for slots, times in postings:
        having = len(slots) if inside is None else int(np.count_nonzero(inside[slots]))
        if having:
            weight = np.float32(np.log(1 + (total - having + 0.5) / (having + 0.5)))
            scores[slots] += weight * times / (times + norm[slots])
        else:
            weight = np.float32(np.log(1 + (total + 0.5) / 0.5))
        weights.append(weight)
    full = sum(sorted(weights, reverse=True)[:FULL_WORDS])
    return scores / np.float32(full)


def _bounds(values: npt.NDArray[np.float32], limit: int) -> Iterator[np.float32]:
    """Lower bounds for the best scores: first an estimate from a sample, at a fifth of the cost, then the exact one."""
    if len(values) <= limit:
        return
    if len(values) > 64 * limit:
        sample = values[::_SAMPLED]
        most = min(len(sample), 2 * limit // _SAMPLED + _SAMPLED)
        yield np.partition(sample, len(sample) - most)[len(sample) - most]
    yield np.partition(values, len(values) - limit)[len(values) - limit]


def best(columns: Columns, scores: npt.NDArray[np.float32], allowed: npt.NDArray[np.bool_], limit: int) -> RawHits:
    """The highest scores among the allowed passages; ties go to the older memory, then to the earlier passage."""
    slots = np.flatnonzero(allowed)
    values = scores if len(slots) == len(scores) else scores[slots]
    for bound in _bounds(values, limit):
        high = np.flatnonzero(values >= bound)
        if len(high) >= limit:
            slots, values = slots[high], values[high]
            break
    memories = columns.ids[columns.memory_slot[slots]]
    order = np.lexsort((slots, memories, -values))[:limit]
    return RawHits(columns.passage_ids[slots[order]], memories[order], values[order])
