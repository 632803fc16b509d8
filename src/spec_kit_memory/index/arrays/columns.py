"""Which passages may a search return? The index as arrays in memory, and masks over them.

Built at the first match of a process and updated by generation: after a change, only the memories that it touched are
read. A `Columns` value never changes, so that a running match keeps its view while another thread moves to a newer one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spec_kit_memory.core.memory import ContextType, Filter, Scope, Source, StateBounds, Tier
from spec_kit_memory.core.scope import below, folder_below
from spec_kit_memory.index.arrays.feed import Counters, Feed, MemoryRow
from spec_kit_memory.index.arrays.steadiness import Steadiness

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_TIER = {str(tier): code for code, tier in enumerate(Tier)}
_SOURCE = {str(source): code for code, source in enumerate(Source)}
_CONTEXT = {str(context): code for code, context in enumerate(ContextType)}
_FEW_CHANGES = 200
_INCREMENTAL_SHARE = 0.2  # with a larger share of changed memories, reading everything again is faster
_SPREAD = 8  # ids up to this multiple of the number of passages use a lookup table: saves 40 ns each
_MOST_MASKS = 16  # of four searches at the same time
_DEAD_SHARE = 0.5  # with a larger share of dead passages, the arrays are built again


@dataclass(frozen=True, slots=True)
class Columns:
    """Memories by slot and passages by slot. Passage ids ascend; dead passages stay until the next full read."""

    generation: int
    used: int
    epoch: int
    build: int  # rises with every full read; slots are only valid within one build
    # memories
    slot_of: dict[int, int]
    ids: Ints
    paths: tuple[str, ...]
    tier: npt.NDArray[np.int8]
    source: npt.NDArray[np.int8]
    context: npt.NDArray[np.int8]
    folder: npt.NDArray[np.int32]
    owner: npt.NDArray[np.int32]
    project: npt.NDArray[np.int32]
    flagged: Bools
    live: Bools
    first: Floats  # epoch seconds
    last: Floats
    expires: Floats
    names: dict[str | None, int]  # folders, owners and projects share one numbering; None is 0
    # passages
    passage_ids: Ints
    memory_slot: npt.NDArray[np.int32]
    length: npt.NDArray[np.float32]
    vector_id: Ints  # 0: none
    alive: Bools
    scopes: dict[Scope | None, Bools] = field(default_factory=dict)
    # Computed at first use.
    masks: dict[tuple[Scope | None, int], tuple[Filter, Bools]] = field(default_factory=dict)  # only the latest
    slot_by_id: list[npt.NDArray[np.int32]] = field(default_factory=list)  # one table, unless ids are sparse

    @property
    def last_passage(self) -> int:
        return int(self.passage_ids[-1]) if len(self.passage_ids) else 0

    def slots(self, passage_ids: Ints) -> npt.NDArray[np.int32]:
        """The slots of these passages; -1 for unknown ones. No id may exceed `last_passage`."""
        if self.last_passage > _SPREAD * len(self.passage_ids) + 1_000_000:
            places = np.searchsorted(self.passage_ids, passage_ids).astype(np.int32)
            return np.where(self.passage_ids[places] == passage_ids, places, np.int32(-1))
        if not self.slot_by_id:
            table = np.full(self.last_passage + 1, -1, np.int32)
            table[self.passage_ids] = np.arange(len(self.passage_ids), dtype=np.int32)
            self.slot_by_id.append(table)
        return self.slot_by_id[0][passage_ids]

    # --- masks

    def seen(self, scope: Scope | None) -> Bools:
        """Live memories within the scope."""
        if scope is None:
            return self.live
        mask = self.scopes.get(scope)
        if mask is None:
            mask = self.live & self._only(self.owner, scope.user) & self._only(self.project, scope.project)
            if scope.prefixes is not None:
                mask &= np.fromiter((_below(path, scope.prefixes) for path in self.paths), np.bool_, len(self.paths))
            self.scopes[scope] = mask
        return mask

    def _only(self, column: npt.NDArray[np.int32], name: str | None) -> Bools:
        public: Bools = column == 0
        if name is None:
            return public
        is_owner: Bools = column == self.names.get(name, -1)
        return public | is_owner

    def mask(self, scope: Scope | None, where: Filter) -> Bools:
        """Memories that pass the filter, within the scope. Cached: a search uses the same filters several times."""
        key = scope, id(where)
        cached = self.masks.get(key)
        if cached is not None and cached[0] is where:
            return cached[1]
        mask = self._mask(scope, where)
        while len(self.masks) >= _MOST_MASKS:
            self.masks.pop(next(iter(self.masks.copy()), key), None)
        self.masks[key] = where, mask
        return mask

    def _mask(self, scope: Scope | None, where: Filter) -> Bools:
        mask = self.seen(scope).copy()
        if where.unfiled:
            mask &= self.folder == self.names.get(None, -1)
        if where.spec_folder is not None:
            mask &= self.folder == self.names.get(where.spec_folder, -1)
        if where.folder_prefix is not None:
            prefix = where.folder_prefix
            codes = [code for name, code in self.names.items() if folder_below(name, prefix)]
            mask &= np.isin(self.folder, codes)
        if where.tiers is not None:
            allowed = np.zeros(len(_TIER), np.bool_)
            allowed[[_TIER[str(tier)] for tier in where.tiers]] = True
            mask &= allowed[self.tier]
        if where.context_type is not None:
            mask &= self.context == _CONTEXT[str(where.context_type)]
        if where.source is not None:
            mask &= self.source == _SOURCE[str(where.source)]
        if where.ids is not None:
            mask &= self._in(where.ids)
        if where.states is not None:
            mask &= self._in_states(where.states)
        if where.expired_at is not None:
            mask &= self.expires > where.expired_at
        assert not where.cites, "the arrays do not know which files a text names"
        if where.without is not None:
            mask &= ~self.mask(scope, where.without)
        return mask

    def _in(self, ids: frozenset[int]) -> Bools:
        mask = np.zeros(len(self.ids), np.bool_)
        mask[[self.slot_of[memory_id] for memory_id in ids if memory_id in self.slot_of]] = True
        return mask

    def _in_states(self, bounds: StateBounds) -> Bools:
        starts, ends = np.full(len(_TIER), np.inf), np.full(len(_TIER), -np.inf)
        for tier, (start, end) in bounds.used.items():
            starts[_TIER[str(tier)]], ends[_TIER[str(tier)]] = start, end
        mask: Bools = (self.last >= starts[self.tier]) & (self.last < ends[self.tier]) & ~self.flagged
        if bounds.flagged:
            mask |= self.flagged
        return mask | self._in(bounds.always)

    def passages(self, memories: Bools) -> Bools:
        """The live passages of these memories."""
        return self.alive & memories[self.memory_slot]


def _below(path: str, prefixes: Sequence[str]) -> bool:
    return any(below(path, prefix) for prefix in prefixes)


class LiveColumns:
    """The newest `Columns` of a process, shared by its threads. They never get older while a search relies on them."""

    def __init__(self, feed: Feed, steadiness: Steadiness | None = None) -> None:
        self._feed = feed
        self._steadiness = steadiness or Steadiness()
        self._lock = threading.Lock()
        self._columns: Columns | None = None
        self._builds = 0

    def current(self) -> Columns:
        columns = self._columns
        if columns is not None and self._steadiness.held:
            return columns
        with self._feed.moment():
            return self.follow(self._feed.counters(), before=columns)

    @property
    def known(self) -> Columns | None:
        """The columns as they are, without a check for changes."""
        return self._columns

    @contextmanager
    def frozen(self) -> Iterator[Columns]:
        """The columns of one moment, in which this thread also reads everything else in the block."""
        before = self._columns
        with self._feed.kept_moment():
            counters = self._feed.counters()
            columns = self.follow(counters, before=before)
            yield self._read_all(counters) if _is_ahead(columns, counters) else columns

    def follow(self, counters: Counters, *, before: Columns | None) -> Columns:
        """The columns, updated to these counters. Call it in the `Feed.moment` that the counters are of.

        `before`: the columns before that moment began. If another thread has gone further since, its columns are
        returned. If they were ahead already, the index has gone back, and is read again.
        """
        with self._lock:
            columns = self._columns
            if columns is not None and columns is not before and _is_ahead(columns, counters):
                return columns
            if columns is None or columns.epoch != counters.epoch or columns.generation > counters.generation:
                columns = self._read_all(counters)
            elif columns.generation != counters.generation:
                columns = self._read_changes(columns, counters)
            if columns.used != counters.used:
                columns = self._read_use(columns, counters.used)
            self._columns = columns
            return columns

    def _read_all(self, counters: Counters) -> Columns:
        self._builds += 1
        names: dict[str | None, int] = {None: 0}
        memories = _memory_arrays(self._feed.memory_rows(), names)
        passages = self._feed.passage_arrays()
        return Columns(
            generation=counters.generation,
            used=counters.used,
            epoch=counters.epoch,
            build=self._builds,
            slot_of={int(memory_id): slot for slot, memory_id in enumerate(memories["ids"])},
            names=names,
            passage_ids=passages.ids,
            memory_slot=np.searchsorted(memories["ids"], passages.memory_ids).astype(np.int32),
            length=passages.lengths.astype(np.float32),
            vector_id=passages.vector_ids,
            alive=np.ones(len(passages.ids), np.bool_),
            **memories,
        )

    def _read_changes(self, columns: Columns, counters: Counters) -> Columns:
        changed = self._feed.changed(columns.generation)
        dead = len(columns.alive) - int(columns.alive.sum())
        if len(changed) > max(_FEW_CHANGES, _INCREMENTAL_SHARE * len(columns.ids)) or dead > max(
            5_000, _DEAD_SHARE * len(columns.alive)
        ):
            return self._read_all(counters)
        rows = self._feed.memory_rows(changed)
        return self._with_passages(_with_memories(columns, rows, counters.generation), changed)

    def _with_passages(self, columns: Columns, memory_ids: set[int]) -> Columns:
        """Read the passages of these memories again: new ids are appended, missing ones are marked dead."""
        if not memory_ids:
            return columns
        ids, owners, length, vector = self._feed.passage_arrays(memory_ids)
        slots = np.fromiter((columns.slot_of[memory_id] for memory_id in memory_ids), np.int64)
        alive = columns.alive & ~np.isin(columns.memory_slot, slots)
        old = ids <= columns.last_passage
        places = np.searchsorted(columns.passage_ids, ids[old])
        alive[places] = True
        vectors = columns.vector_id.copy()
        vectors[places] = vector[old]
        owner_slots = np.fromiter((columns.slot_of[int(owner)] for owner in owners[~old]), np.int32)
        return replace(
            columns,
            passage_ids=np.concatenate([columns.passage_ids, ids[~old]]),
            memory_slot=np.concatenate([columns.memory_slot, owner_slots]),
            length=np.concatenate([columns.length, length[~old].astype(np.float32)]),
            vector_id=np.concatenate([vectors, vector[~old]]),
            alive=np.concatenate([alive, np.ones(int((~old).sum()), np.bool_)]),
            masks={},
            slot_by_id=[],
        )

    def _read_use(self, columns: Columns, used: int) -> Columns:
        last = columns.last.copy()
        for memory_id, at in self._feed.used(columns.used):
            slot = columns.slot_of.get(memory_id)
            if slot is not None and at is not None:
                last[slot] = max(columns.first[slot], at / 1e6)
        return replace(columns, used=used, last=last, masks={})


def _is_ahead(columns: Columns, counters: Counters) -> bool:
    return (columns.epoch, columns.generation) > (counters.epoch, counters.generation)


def _memory_arrays(rows: Sequence[MemoryRow], names: dict[str | None, int]) -> dict[str, Any]:
    def code(name: str | None) -> int:
        return names.setdefault(name, len(names))

    columns = list(zip(*rows, strict=True)) or [()] * 13
    ids, paths, source, folder, tier, context, flagged, live, first, last, expires, owner, project = columns
    seconds = 1e6
    return {
        "ids": np.array(ids, np.int64),
        "paths": tuple(paths),
        "source": np.array([_SOURCE[name] for name in source], np.int8),
        "folder": np.array([code(name) for name in folder], np.int32),
        "tier": np.array([_TIER[name] for name in tier], np.int8),
        "context": np.array([_CONTEXT[name] for name in context], np.int8),
        "flagged": np.array(flagged, np.bool_),
        "live": np.array(live, np.bool_),
        "first": np.array(first, np.float64) / seconds,
        "last": np.array(last, np.float64) / seconds,
        "expires": np.array([np.inf if value is None else value / seconds for value in expires], np.float64),
        "owner": np.array([code(name) for name in owner], np.int32),
        "project": np.array([code(name) for name in project], np.int32),
    }


_ARRAYS = (
    "ids",
    "source",
    "folder",
    "tier",
    "context",
    "flagged",
    "live",
    "first",
    "last",
    "expires",
    "owner",
    "project",
)


def _with_memories(columns: Columns, rows: Sequence[MemoryRow], generation: int) -> Columns:
    """Write changed rows to their slots, in copies of the arrays; append new ones."""
    names = dict(columns.names)
    slot_of = dict(columns.slot_of)
    fresh = _memory_arrays(rows, names)
    slots = np.array([slot_of.setdefault(row.id, len(slot_of)) for row in rows], np.int64)
    grown = len(slot_of)
    values: dict[str, Any] = {}
    for name in _ARRAYS:
        column = np.resize(getattr(columns, name), grown) if len(columns.ids) else np.zeros(grown, fresh[name].dtype)
        column[slots] = fresh[name]
        values[name] = column
    paths = list(columns.paths) + [""] * (grown - len(columns.paths))
    for slot, row in zip(slots, rows, strict=True):
        paths[slot] = row.path
    return replace(
        columns, generation=generation, slot_of=slot_of, names=names, paths=tuple(paths), scopes={}, masks={}, **values
    )
