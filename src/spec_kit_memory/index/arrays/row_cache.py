"""Which rows were read before? Memories, passages and token states, cached as objects between searches.

A search reads about a hundred memories and shows ten; creating them from rows each time took longer than the search.
Rows that any process has changed are read again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Generic, TypeVar, cast

from spec_kit_memory.core.memory import Memory, Scope, StoredPassage
from spec_kit_memory.core.scope import allows
from spec_kit_memory.index.arrays.feed import Counters, Feed
from spec_kit_memory.index.arrays.steadiness import Steadiness

_MOST_MEMORIES = 20_000  # about 30 MB, in workspaces with this many
_MOST_PASSAGES = 120_000  # about 60 MB, in workspaces with this many
_AT_ONCE = 500

_UNCHANGED = nullcontext()

Value = TypeVar("Value")


class RowCache:
    """Live memories and their passages by id. Cached without a scope; the methods apply the scope."""

    def __init__(self, feed: Feed, steadiness: Steadiness | None = None) -> None:
        self._feed = feed
        self._steadiness = steadiness or Steadiness()
        self._lock = threading.Lock()
        self._memories = _Shelf[Memory](_MOST_MEMORIES)
        self._passages = _Shelf[StoredPassage](_MOST_PASSAGES)
        # Each with the id of its memory.
        self._states = _Shelf[tuple[int, bytes | None]](feed.state_bytes, weigh=lambda row: len(row[1] or b""))
        self._seen: dict[Scope | None, dict[int, bool]] = {}
        self._state = (-1, -1, -1)  # epoch, generation, used

    def memories(self, scope: Scope | None, ids: Sequence[int]) -> list[Memory]:
        """The live memories with these ids, in this order; unknown ids are left out."""
        if not ids:
            return []
        with self._lock, self._moment():
            rows = self._memories.get(ids, self._feed.memories)
            seen = self._within(scope, rows)
        return [rows[id_] for id_ in ids if id_ in seen]

    def passages(self, scope: Scope | None, ids: Sequence[int]) -> list[StoredPassage]:
        """The passages of live memories with these ids, in this order; unknown ids are left out."""
        if not ids:
            return []
        with self._lock, self._moment():
            rows = self._passages.get(ids, self._feed.passages)
            memory_ids = {row.memory_id for row in rows.values()}
            seen = self._within(scope, memory_ids)
        results = [rows[id_] for id_ in ids if id_ in rows]
        return results if len(seen) == len(memory_ids) else [row for row in results if row.memory_id in seen]

    def token_states(self, scope: Scope | None, ids: Sequence[int]) -> dict[int, bytes]:
        """Token states by passage id; passages without any are left out."""
        with self._lock, self._moment():
            rows = self._states.get(ids, self._feed.token_states)
            seen = self._within(scope, {memory_id for memory_id, _ in rows.values()})
        return {id_: states for id_, (memory_id, states) in rows.items() if states is not None and memory_id in seen}

    def refresh(self, counters: Counters) -> None:
        """Call it in a `Feed.moment`, with the counters of that moment."""
        with self._lock:
            self._refresh(counters)

    def _moment(self) -> AbstractContextManager[None]:
        """In this block the cache is up to date; in a `steady` block of this thread it stays as it is."""
        return _UNCHANGED if self._steadiness.held else self._refreshed()

    @contextmanager
    def _refreshed(self) -> Iterator[None]:
        with self._feed.moment():
            self._refresh(self._feed.counters())
            yield

    def warm(self, memory_ids: Sequence[int], passage_ids: Sequence[int]) -> None:
        """Read these ahead unless they are too many; in batches, so that a search waits for one batch at most."""
        if len(memory_ids) <= self._feed.warm_memories:
            for at in range(0, len(memory_ids), _AT_ONCE):
                self.memories(None, memory_ids[at : at + _AT_ONCE])
        if len(passage_ids) <= self._feed.warm_passages:
            for at in range(0, len(passage_ids), _AT_ONCE):
                self.passages(None, passage_ids[at : at + _AT_ONCE])
            states = passage_ids if self._feed.warms_states else ()
            for at in range(0, len(states), _AT_ONCE):
                if self._states.is_full or not self.token_states(None, states[at : at + _AT_ONCE]):
                    break  # full, or the model has no token states

    def _within(self, scope: Scope | None, ids: Collection[int]) -> set[int]:
        """Those of these memories that are within the scope; a new set, because other threads change the cache."""
        if scope is None:
            return set(ids)
        seen = self._seen.setdefault(scope, {})
        if all(map(seen.get, ids)):
            return set(ids)
        unknown = [id_ for id_ in ids if id_ not in seen]
        rows = {id_: row for id_ in unknown if (row := self._memories.values.get(id_))}
        for id_, row in rows.items():
            seen[id_] = allows(scope, path=row.path, owner=row.owner, project=row.project)
        if len(rows) < len(unknown):
            for place in self._feed.places([id_ for id_ in unknown if id_ not in rows]):
                seen[place.memory_id] = allows(scope, path=place.path, owner=place.owner, project=place.project)
        return {id_ for id_ in ids if seen.get(id_)}

    def _refresh(self, counters: Counters) -> None:
        generation, used, epoch = counters
        state = (epoch, generation, used)
        if state == self._state:
            return
        known_epoch, known_generation, known_used = self._state
        self._state = state
        if epoch != known_epoch or generation < known_generation or used < known_used:
            self._forget_all()
            return
        changed = self._feed.changed(known_generation) if generation != known_generation else set()
        counted = {memory_id for memory_id, _ in self._feed.used(known_used)} if used != known_used else set()
        self._memories.drop(changed | counted)
        if changed:
            self._passages.drop([id_ for id_, row in self._passages.values.items() if row.memory_id in changed])
            self._states.drop([id_ for id_, (memory_id, _) in self._states.values.items() if memory_id in changed])
            for seen in self._seen.values():
                for id_ in changed:
                    seen.pop(id_, None)

    def _forget_all(self) -> None:
        self._memories.clear()
        self._passages.clear()
        self._states.clear()
        self._seen.clear()


class _Shelf(Generic[Value]):
    """Values by id, up to a total weight; the oldest are removed to make room."""

    def __init__(self, most: int, *, weigh: Callable[[Value], int] = lambda value: 1) -> None:
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self.values: dict[int, Value] = {}

    def get(self, ids: Sequence[int], read: Callable[[Sequence[int]], dict[int, Value]]) -> dict[int, Value]:
        values = self.values
        rows = list(map(values.get, ids))
        if all(rows):  # nearly always; no row is false
            return cast("dict[int, Value]", dict(zip(ids, rows, strict=True)))
        cached = {id_: values[id_] for id_ in ids if id_ in values}
        if missing := [id_ for id_ in dict.fromkeys(ids) if id_ not in cached]:
            fresh = read(missing)
            cached |= fresh
            values |= fresh
            self._weight += sum(map(self._weigh, fresh.values()))
            self._make_room()
        return cached

    @property
    def is_full(self) -> bool:
        """Is it nearly full, so that further values might remove others?"""
        return 10 * self._weight > 9 * self._most

    def _make_room(self) -> None:
        over = self._weight - self._most
        gone = []
        for id_, value in self.values.items():
            if over <= 0:
                break
            over -= self._weigh(value)
            gone.append(id_)
        self.drop(gone)

    def drop(self, ids: Iterable[int]) -> None:
        for id_ in ids:
            gone = self.values.pop(id_, None)
            self._weight -= 0 if gone is None else self._weigh(gone)

    def clear(self) -> None:
        self.values.clear()
        self._weight = 0
