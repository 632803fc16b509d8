"""Which passages have these words, and how well do they fit? BM25 over the text index.

FTS5 keeps the words in step with everything else; scoring happens here. The passages of a word
are read from it once, kept as arrays, and extended when passages are added. Ids only rise and
never change their words, so nothing kept ever becomes wrong; what was deleted is masked.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt

from spec_kit_memory.core import words
from spec_kit_memory.core.memory import Filter, RawHit, Scope
from spec_kit_memory.index.arrays.columns import Columns
from spec_kit_memory.index.sqlite import conditions, rows
from spec_kit_memory.index.sqlite.connection import Database, fetch
from spec_kit_memory.index.sqlite.text_index import TOKENIZER

__all__ = ["Postings", "best"]

K1 = 1.2
B = 0.75
# A passage full of so many of the rarest words asked for is a full match: no passage has all of a long question.
FULL_WORDS = 6
_KEEP_BYTES = 48_000_000
_WARM_WORDS = 300
_SAMPLED = 16  # one passage of so many
_SAMPLE = 200  # memories that tell which words are common
_MOST_DELTA = 4_000  # passages added since a word was read; more are read faster as a whole


_Asked = tuple[Columns, Scope | None, tuple[tuple[str, ...], ...]]


@dataclass(frozen=True, slots=True)
class _Posting:
    """Slots of the passages that have a word, ascending, and how often."""

    slots: npt.NDArray[np.int32]
    times: npt.NDArray[np.float32]
    upto: int  # passage id up to which it is complete

    def within(self, columns: Columns) -> _Posting:
        """Another thread may have read further than these columns reach."""
        if self.upto <= columns.last_passage:
            return self
        end = int(np.searchsorted(self.slots, len(columns.passage_ids)))
        return _Posting(self.slots[:end], self.times[:end], columns.last_passage)

    @property
    def size(self) -> int:
        return self.slots.nbytes + self.times.nbytes + 200


class Postings:
    """Words that were asked for, with their passages: the most recent ones are kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], _Posting] = OrderedDict()
        self._bytes = 0
        self._build = -1
        self._last: tuple[_Asked | None, npt.NDArray[np.float32]] = (None, np.zeros(0, np.float32))

    def match(
        self,
        database: Database,
        columns: Columns,
        scope: Scope | None,
        terms: Sequence[str],
        where: Filter,
        limit: int,
        *,
        confirm_nothing: Callable[[], None] = lambda: None,
    ) -> list[RawHit]:
        """`confirm_nothing` is called before it is believed that no passage has any of the words."""
        with database.reading() as connection:
            lookups = self._lookups(connection, terms)
        if not lookups or limit <= 0:
            return []
        scores = self._scores(database, columns, scope, lookups)
        if not scores.any():
            confirm_nothing()
            return []
        wanted = columns.passages(columns.mask(scope, where))
        return best(columns, scores, wanted & (scores > 0), limit)

    def _scores(
        self, database: Database, columns: Columns, scope: Scope | None, lookups: dict[tuple[str, ...], str]
    ) -> npt.NDArray[np.float32]:
        """Of every passage. The last ones are kept: a question is asked again of what its filter held back."""
        asked = (columns, scope, tuple(lookups))
        with self._lock:
            known, scores = self._last
            if known is not None and known[0] is columns and known[1:] == asked[1:]:
                return scores
            postings = [self._posting(database, columns, lookup, term) for lookup, term in lookups.items()]
        scores = _bm25(columns, columns.passages(columns.seen(scope)), postings)
        with self._lock:
            self._last = asked, scores
        return scores

    def warm(self, database: Database, columns: Columns) -> None:
        """Read the commonest words, which take longest, before somebody asks for them."""
        if not len(columns.passage_ids):
            return
        common = _common(database, columns)
        with database.reading() as connection:
            lookups = self._lookups(connection, common)
        for lookup, term in lookups.items():
            with self._lock:  # word by word: a search waits for one of them at most
                self._posting(database, columns, lookup, term)

    def _lookups(self, connection: apsw.Connection, terms: Sequence[str]) -> dict[tuple[str, ...], str]:
        """Each term as the words of the index; several make a phrase."""
        tokenizer = connection.fts5_tokenizer(*TOKENIZER)
        found: dict[tuple[str, ...], str] = {}
        for term in terms:
            asked = rows.clean(term).replace("\x00", " ")
            tokens: Any = tokenizer(
                asked.encode(), apsw.FTS5_TOKENIZE_QUERY, None, include_offsets=False, include_colocated=False
            )
            if tokens:
                found.setdefault(tuple(tokens), asked)
        return found

    def _posting(self, database: Database, columns: Columns, lookup: tuple[str, ...], term: str) -> _Posting:
        if self._build != columns.build:
            self._kept.clear()
            self._bytes, self._build = 0, columns.build
        known = self._kept.pop(lookup, None)
        if known is not None:
            self._bytes -= known.size
        if known is None or known.upto < columns.last_passage:
            known = _read(database, columns, lookup, term, known)
        self._kept[lookup] = known
        self._bytes += known.size
        while self._bytes > _KEEP_BYTES and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1].size
        return known.within(columns)


def _common(database: Database, columns: Columns) -> list[str]:
    """The words that most memories have, judged by a sample of them."""
    live = columns.ids[columns.live]
    sample = live[:: max(1, len(live) // _SAMPLE)].tolist()
    test, values = conditions.in_ids(sample, "memory.id")
    sql = f"SELECT text FROM memory JOIN content ON content.hash = content_hash WHERE {test}"
    with database.reading() as connection:
        texts = [rows.unpack(blob) for (blob,) in fetch(connection, sql, values)]
    counted = Counter(word for text in texts for word in words.content(text))
    return [word for word, _ in counted.most_common(_WARM_WORDS)]


def _read(database: Database, columns: Columns, lookup: tuple[str, ...], term: str, known: _Posting | None) -> _Posting:
    """From the text index, from the beginning or since the last reading."""
    after = known.upto if known else 0
    added = len(columns.passage_ids) - int(np.searchsorted(columns.passage_ids, after, side="right"))
    if known is not None and added > _MOST_DELTA and len(lookup) == 1:
        known, after = None, 0
    with database.reading() as connection:
        if known is None and len(lookup) == 1:
            docs, times = _whole(connection, lookup[0])
        else:
            docs, times = _since(connection, term, after)
    keep = docs <= columns.last_passage  # a newer generation than our columns may already be there
    docs, times = docs[keep], times[keep]
    slots = columns.slots(docs)
    slots, times = slots[slots >= 0], times[slots >= 0]
    if known is not None:
        slots, times = np.concatenate([known.slots, slots]), np.concatenate([known.times, times])
    return _Posting(slots, times, columns.last_passage)


def _whole(connection: apsw.Connection, word: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """All occurrences, joined to one text by SQLite: ten times faster than rows."""
    text = connection.execute("SELECT group_concat(doc) FROM passage_terms WHERE term = ?", (word,)).get
    docs = np.fromstring(text or "", dtype=np.int64, sep=",")
    first = np.flatnonzero(np.diff(docs, prepend=-1))
    times = np.diff(np.append(first, len(docs)))
    return docs[first], times.astype(np.float32)


def _since(connection: apsw.Connection, term: str, after: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Only later passages, or a phrase: counted by a function of ours inside the query.

    The term goes in as it was asked, since stemming a stem may give another one.
    """
    phrase = '"' + term.replace('"', '""') + '"'
    sql = "SELECT rowid, skm_times(passage_fts) FROM passage_fts WHERE passage_fts MATCH ? AND rowid > ? ORDER BY rowid"
    found = fetch(connection, sql, (phrase, after))
    return (
        np.array([doc for doc, _ in found], np.int64),
        np.array([times for _, times in found], np.float32),
    )


def _bm25(columns: Columns, inside: npt.NDArray[np.bool_], postings: Sequence[_Posting]) -> npt.NDArray[np.float32]:
    """As a share of what a passage would have that is full of the rarest words asked for.

    Statistics count what the scope can see, nothing else.
    """
    scores = np.zeros(len(columns.passage_ids), np.float32)
    weights = []
    total = int(inside.sum())
    if not total:
        return scores
    average = float(columns.length.sum(where=inside, dtype=np.float64)) / total or 1.0
    norm = K1 * (1 - B + B * columns.length / np.float32(average))
    for posting in postings:
        having = int(np.count_nonzero(inside[posting.slots]))
        if having:
            weight = np.float32(np.log(1 + (total - having + 0.5) / (having + 0.5)))
            scores[posting.slots] += weight * posting.times / (posting.times + norm[posting.slots])
        else:
            weight = np.float32(np.log(1 + (total + 0.5) / 0.5))
        weights.append(weight)
    full = sum(sorted(weights, reverse=True)[:FULL_WORDS])
    return scores / np.float32(full)


def _bounds(values: npt.NDArray[np.float32], limit: int) -> Iterator[np.float32]:
    """What the best ones reach: guessed from a sample, which is a fifth of the work, and if that is too high, known."""
    if len(values) <= limit:
        return
    if len(values) > 64 * limit:
        sample = values[::_SAMPLED]
        most = min(len(sample), 2 * limit // _SAMPLED + _SAMPLED)
        yield np.partition(sample, len(sample) - most)[len(sample) - most]
    yield np.partition(values, len(values) - limit)[len(values) - limit]


def best(columns: Columns, scores: npt.NDArray[np.float32], wanted: npt.NDArray[np.bool_], limit: int) -> list[RawHit]:
    """The highest scores among the wanted passages; of equal ones the older memory first, then the earlier passage."""
    every = bool(wanted.all())
    slots = np.arange(len(scores)) if every else np.flatnonzero(wanted)
    values = scores if every else scores[slots]
    for bound in _bounds(values, limit):
        high = np.flatnonzero(values >= bound)
        if len(high) >= limit:
            slots, values = slots[high], values[high]
            break
    memories = columns.ids[columns.memory_slot[slots]]
    order = np.lexsort((slots, memories, -values))[:limit]
    ids = columns.passage_ids[slots[order]].tolist()
    return list(map(RawHit._make, zip(ids, memories[order].tolist(), values[order].tolist(), strict=True)))
