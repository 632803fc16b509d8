"""All words of an index with their passages, for an engine that needs a round trip for every word not in memory.

The whole vocabulary is read once. Later passages are added from their own words, for all words at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from spec_kit_memory.index.arrays.columns import Columns
    from spec_kit_memory.index.arrays.feed import Feed, PageOfWords

MOST_BYTES = 64_000_000  # about 250,000 passages of 60 words; in larger indexes, words are read when needed
_MOST_LATER = 20_000  # passages; with more, reading the whole vocabulary again is faster
_MOST_TIMES = 65_535

Slots = npt.NDArray[np.int32]
Times = npt.NDArray[np.uint16]
_NONE: tuple[Slots, Times] = np.zeros(0, np.int32), np.zeros(0, np.uint16)


class Vocabulary:
    def __init__(self, columns: Columns) -> None:
        self.epoch = columns.epoch
        self.build = columns.build
        self.upto = columns.last_passage
        self._passage_ids = columns.passage_ids
        self._pages: list[tuple[Slots, Times]] = []
        self._places: dict[str, tuple[int, int, int]] = {}  # page, start, end
        self._later: dict[str, tuple[list[int], list[int]]] = {}
        self._later_passages = 0

    @classmethod
    def read(cls, columns: Columns, feed: Feed) -> Vocabulary | None:
        """None: there are too many words, or the engine reads single words fast enough."""
        pages = feed.vocabulary()
        if pages is None:
            return None
        created = cls(columns)
        size = 0
        for page in pages:
            size += created._add(columns, page)
            if size > MOST_BYTES:
                return None
        return created

    def _add(self, columns: Columns, words: PageOfWords) -> int:
        in_columns = words.passages <= columns.last_passage  # the engine may already be at a newer generation
        slots = (
            columns.slots(np.where(in_columns, words.passages, 0)) if columns.last_passage else np.zeros(0, np.int32)
        )
        has_slot = in_columns & (slots >= 0)
        ends = np.concatenate([[0], np.cumsum(has_slot)])[np.cumsum(words.counts)].tolist()
        page, start = len(self._pages), 0
        for term, end in zip(words.terms, ends, strict=True):
            if end > start:
                self._places[term] = page, start, end
            start = end
        self._pages.append((slots[has_slot], words.times[has_slot].astype(np.uint16)))
        return sum(array.nbytes for array in self._pages[-1]) + 200 * len(words.terms)

    def follow(self, columns: Columns, feed: Feed) -> bool:
        """Bring the vocabulary up to these columns. False: it must be read again."""
        if columns.epoch != self.epoch:
            return False
        if columns.build != self.build:
            self._move(columns)
        if columns.last_passage > self.upto:
            self._later_passages += len(columns.passage_ids) - int(
                np.searchsorted(columns.passage_ids, self.upto, side="right")
            )
            if self._later_passages > _MOST_LATER:
                return False
            self._append(columns, feed.words_after(self.upto))
            self.upto, self._passage_ids = columns.last_passage, columns.passage_ids
        return True

    def _append(self, columns: Columns, passages: Sequence[tuple[int, str]]) -> None:
        values = [(passage_id, words) for passage_id, words in passages if passage_id <= columns.last_passage]
        slots = columns.slots(np.array([passage_id for passage_id, _ in values], np.int64)).tolist()
        for slot, (_, words) in zip(slots, values, strict=True):
            for term, times in Counter(words.split(" ")).items() if slot >= 0 else ():
                postings = self._later.setdefault(term, ([], []))
                postings[0].append(slot)
                postings[1].append(min(times, _MOST_TIMES))

    def _move(self, columns: Columns) -> None:
        """Convert slots to those of a new build of the columns; drop passages that it does not have."""
        ids = self._passage_ids[: int(np.searchsorted(self._passage_ids, self.upto, side="right"))]
        in_columns = ids <= columns.last_passage
        moved = np.full(len(ids), -1, np.int32)
        moved[in_columns] = columns.slots(ids[in_columns]) if columns.last_passage else -1
        has_slot = [moved[slots] >= 0 for slots, _ in self._pages]
        before = [np.concatenate([[0], np.cumsum(stay)]) for stay in has_slot]
        self._pages = [
            (moved[slots][stay], times[stay]) for (slots, times), stay in zip(self._pages, has_slot, strict=True)
        ]
        self._places = {
            term: (page, int(before[page][start]), int(before[page][end]))
            for term, (page, start, end) in self._places.items()
        }
        self._later = {
            term: (
                [int(moved[slot]) for slot in slots if moved[slot] >= 0],
                [count for slot, count in zip(slots, counts, strict=True) if moved[slot] >= 0],
            )
            for term, (slots, counts) in self._later.items()
        }
        self.build, self._passage_ids = columns.build, columns.passage_ids

    def get(self, term: str) -> tuple[Slots, Times]:
        """Slots of the passages that have a word, ascending, and how often each has it."""
        place, later = self._places.get(term), self._later.get(term)
        slots, times = _NONE
        if place is not None:
            page, start, end = place
            slots, times = self._pages[page][0][start:end], self._pages[page][1][start:end]
        if later is not None:
            slots = np.concatenate([slots, np.array(later[0], np.int32)])
            times = np.concatenate([times, np.array(later[1], np.uint16)])
        return slots, times
