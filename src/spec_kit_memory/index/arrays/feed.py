"""What do the arrays need from an engine? Only `Feed`; nothing here depends on how an engine stores its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from spec_kit_memory.core.memory import Memory, StoredPassage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

Lookups = dict[tuple[str, ...], str]  # indexed words, several for a phrase -> the term of the query


class Counters(NamedTuple):
    generation: int  # rises with every change to memories
    used: int  # rises with every recorded use
    epoch: int  # rises when all arrays must be read again completely


class Wanted(NamedTuple):
    """A request for the passages that have these words."""

    lookup: tuple[str, ...]
    term: str  # of the query
    after: int  # only passages with a higher id


class PageOfWords(NamedTuple):
    """A page of words in order; for each word its passages by ascending id, and how often each contains it."""

    terms: list[str]
    counts: Ints  # number of passages of each word
    passages: Ints
    times: Ints


class MemoryRow(NamedTuple):
    """The values of a memory that filters and scopes test. Times are microseconds since 1970."""

    id: int
    path: str
    source: str
    spec_folder: str | None
    tier: str
    context_type: str
    flagged: bool  # outdated, or in an archived folder
    live: bool
    first: int
    last: int  # last use; if never used, first indexing
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
    """The values of a memory that decide who may see it."""

    memory_id: int
    path: str
    owner: str | None
    project: str | None


class Feed(Protocol):
    # If an index has more than these, its rows are not read ahead.
    warm_passages: int
    warm_memories: int
    warms_states: bool  # read token states ahead too, as many as the cache keeps
    state_bytes: int  # how many bytes of token states are cached
    """Reads without a scope, for arrays that apply one. Ids of passages and vectors only rise and never change."""

    def moment(self) -> AbstractContextManager[object]:
        """In this block, all reads of this thread see one consistent snapshot, or each a later one."""
        ...

    def kept_moment(self) -> AbstractContextManager[object]:
        """A `moment` of exactly one snapshot, which begins at once and lasts as long as the block."""
        ...

    def counters(self) -> Counters: ...
    def noted_generation(self, since: float | None = None) -> int | None:
        """The generation at the last read. `since`, a monotonic time: None if it or a write is later."""
        ...

    def changed(self, since: int) -> set[int]:
        """Memories that changed after this generation, live or not."""
        ...

    def used(self, since: int) -> list[tuple[int, int | None]]:
        """Memories whose use was recorded after this counter, each with the time of its last use."""
        ...

    # --- columns
    def memory_rows(self, memory_ids: Collection[int] | None = None) -> list[MemoryRow]:
        """All live memories, or these in any state, by ascending id."""
        ...

    def passage_arrays(self, memory_ids: Collection[int] | None = None) -> PassageArrays: ...

    # --- postings
    def lookups(self, terms: Sequence[str]) -> Lookups: ...
    def postings(self, wanted: Sequence[Wanted]) -> list[tuple[Ints, Ints]]:
        """For each request, the passages with its words, by ascending id, and how often each contains them."""
        ...

    def vocabulary(self) -> Iterator[PageOfWords] | None:
        """All words, in pages. None: this engine reads single words fast enough to need no copy in memory."""
        ...

    def words_after(self, passage_id: int) -> list[tuple[int, str]]:
        """Passages with a higher id, ascending, each with its indexed words separated by blanks."""
        ...

    def texts(self, memory_ids: Sequence[int]) -> list[str]: ...

    # --- nearest
    def dimensions(self) -> int:
        """Dimensions of the current model's vectors; 0: there is no model yet."""
        ...

    def vector_count(self, *, after: int = 0) -> int: ...
    def vectors(self, *, after: int) -> Iterator[Sequence[tuple[int, bytes]]]:
        """Pages of ids and float32 vectors, by ascending id."""
        ...

    def vectors_by_id(self, vector_ids: Collection[int]) -> list[tuple[int, bytes]]: ...

    # --- rows that are kept between searches
    def memories(self, memory_ids: Collection[int]) -> dict[int, Memory]:
        """Those of these memories that are live."""
        ...

    def passages(self, passage_ids: Collection[int]) -> dict[int, StoredPassage]:
        """Those of these passages whose memories are live."""
        ...

    def token_states(self, passage_ids: Collection[int]) -> dict[int, tuple[int, bytes | None]]:
        """Passage id -> memory id and token states."""
        ...

    def places(self, memory_ids: Collection[int]) -> list[MemoryPlace]: ...
