"""What do the arrays need of an engine? `Feed` is all of it; nothing here knows how an engine stores its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from spec_kit_memory.core.memory import Memory, StoredPassage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

__all__ = ["Counters", "Feed", "Lookups", "MemoryPlace", "MemoryRow", "PageOfWords", "PassageArrays", "Wanted"]

Lookups = dict[tuple[str, ...], str]  # the words of the index, several for a phrase -> the term that was asked


class Counters(NamedTuple):
    generation: int  # rises with every change to memories
    used: int  # rises with every recorded use
    epoch: int  # rises when arrays must be read anew as a whole


class Wanted(NamedTuple):
    """Words whose passages are to be read."""

    lookup: tuple[str, ...]
    term: str  # as it was asked
    after: int  # the passage id beyond which


class PageOfWords(NamedTuple):
    """Some words in their order, each with its passages by ascending id, and how often each has it."""

    terms: list[str]
    counts: Ints  # how many passages each has
    passages: Ints
    times: Ints


class MemoryRow(NamedTuple):
    """What a filter or a scope may ask of a memory. Times are microseconds since 1970."""

    id: int
    path: str
    source: str
    spec_folder: str | None
    tier: str
    context_type: str
    flagged: bool  # outdated, or in an archived folder
    live: bool
    first: int
    last: int  # its last use, or where it was never used its first indexing
    expires: int | None
    owner: str | None
    project: str | None


class PassageArrays(NamedTuple):
    """Passages of live memories, by ascending id."""

    ids: Ints
    memory_ids: Ints
    lengths: Ints  # in indexed words
    vector_ids: Ints  # 0: none


class MemoryPlace(NamedTuple):
    """What decides who may see a memory."""

    memory_id: int
    path: str
    owner: str | None
    project: str | None


class Feed(Protocol):
    # Where there are more, their rows are not read ahead.
    warm_passages: int
    warm_memories: int
    warms_states: bool  # of tokens, as many as are kept
    """Reads without a scope, for arrays that apply one. Ids of passages and vectors only rise and never change."""

    def moment(self) -> AbstractContextManager[object]:
        """Inside, every read of this thread is of one moment."""
        ...

    def counters(self) -> Counters: ...
    def noted_generation(self, since: float | None = None) -> int | None:
        """That of the last read. `since` a time of the monotonic clock: None if there was none, or a write after it."""
        ...

    def changed(self, since: int) -> set[int]:
        """Memories that changed after this generation, live or not."""
        ...

    def used(self, since: int) -> list[tuple[int, int | None]]:
        """Memories whose use was recorded after this counter, with the time of the last one."""
        ...

    # --- columns
    def memory_rows(self, memory_ids: Collection[int] | None = None) -> list[MemoryRow]:
        """Every live memory, or these in whatever state, by ascending id."""
        ...

    def passage_arrays(self, memory_ids: Collection[int] | None = None) -> PassageArrays: ...

    # --- postings
    def lookups(self, terms: Sequence[str]) -> Lookups: ...
    def postings(self, wanted: Sequence[Wanted]) -> list[tuple[Ints, Ints]]:
        """For each, the passages that have the words, by ascending id, and how often each has them."""
        ...

    def vocabulary(self) -> Iterator[PageOfWords] | None:
        """Every word, in pages. None: this engine reads a word as fast as memory."""
        ...

    def words_after(self, passage_id: int) -> list[tuple[int, str]]:
        """Later passages by ascending id, each with the words that it is found by, a blank between any two."""
        ...

    def texts(self, memory_ids: Sequence[int]) -> list[str]: ...

    # --- nearest
    def dimensions(self) -> int:
        """Of the current model's vectors; 0: there is no model yet."""
        ...

    def vector_count(self, *, after: int = 0) -> int: ...
    def vectors(self, *, after: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        """Pages of ids and float32 vectors, by ascending id."""
        ...

    def vectors_by_id(self, vector_ids: Collection[int]) -> list[tuple[int, bytes]]: ...

    # --- rows that are kept between searches
    def memories(self, memory_ids: Collection[int]) -> dict[int, Memory]:
        """Live ones."""
        ...

    def passages(self, passage_ids: Collection[int]) -> dict[int, StoredPassage]:
        """Of live memories."""
        ...

    def token_states(self, passage_ids: Collection[int]) -> dict[int, tuple[int, bytes | None]]:
        """Passage id -> memory id and token states."""
        ...

    def places(self, memory_ids: Collection[int]) -> list[MemoryPlace]: ...
