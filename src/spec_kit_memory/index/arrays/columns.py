"""Which passages may a search return? The index as arrays in memory, and masks over them.

Built at the first match of a process and brought up to date by generation: a change reads only
the memories it touched. A `Columns` value never changes once made, so that a running match keeps
its view while another thread moves on.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spec_kit_memory.core.memory import ContextType, Filter, Scope, Source, StateBounds, Tier
from spec_kit_memory.core.scope import below, folder_below
from spec_kit_memory.index.arrays.feed import Counters, Feed, MemoryRow

__all__ = ["Columns", "LiveColumns"]

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_TIER = {str(tier): code for code, tier in enumerate(Tier)}
_SOURCE = {str(source): code for code, source in enumerate(Source)}
_CONTEXT = {str(context): code for code, context in enumerate(ContextType)}
_INCREMENTAL_SHARE = 0.2  # more changed memories than this are read faster as a whole
_SPREAD = 8  # ids up to so many times the number of passages are looked up in a table: 40 ns less for each
_DEAD_SHARE = 0.5  # more dead passages than this and the arrays are made anew


@dataclass(frozen=True, slots=True)
class Columns:
    """Memories by slot and passages by slot. Passage ids ascend; dead passages stay until the next full read."""

    generation: int
    used: int
    epoch: int
    build: int  # rises with every full read: slots of another build mean nothing
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
    # Made when first asked for.
    masks: dict[Scope | None, tuple[Filter, Bools]] = field(default_factory=dict)  # the last one of each scope
    slot_by_id: list[npt.NDArray[np.int32]] = field(default_factory=list)  # one, if ids lie close

    @property
    def last_passage(self) -> int:
        return int(self.passage_ids[-1]) if len(self.passage_ids) else 0

    def slots(self, passage_ids: Ints) -> npt.NDArray[np.int32]:
        """Where these passages are, by ids up to the last; -1 for those that are not here."""
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
        known = self.scopes.get(scope)
        if known is None:
            known = self.live & self._only(self.owner, scope.user) & self._only(self.project, scope.project)
            if scope.prefixes is not None:
                known &= np.fromiter((_below(path, scope.prefixes) for path in self.paths), np.bool_, len(self.paths))
            self.scopes[scope] = known
        return known

    def _only(self, column: npt.NDArray[np.int32], name: str | None) -> Bools:
        public: Bools = column == 0
        if name is None:
            return public
        mine: Bools = column == self.names.get(name, -1)
        return public | mine

    def mask(self, scope: Scope | None, where: Filter) -> Bools:
        """Memories that a filter lets through, within the scope. A search asks several times with the same filter."""
        known = self.masks.get(scope)
        if known is not None and known[0] is where:
            return known[1]
        found = self._mask(scope, where)
        self.masks[scope] = where, found
        return found

    def _mask(self, scope: Scope | None, where: Filter) -> Bools:
        found = self.seen(scope).copy()
        if where.spec_folder is not None:
            found &= self.folder == self.names.get(where.spec_folder, -1)
        if where.folder_prefix is not None:
            prefix = where.folder_prefix
            codes = [code for name, code in self.names.items() if folder_below(name, prefix)]
            found &= np.isin(self.folder, codes)
        if where.tiers is not None:
            allowed = np.zeros(len(_TIER), np.bool_)
            allowed[[_TIER[str(tier)] for tier in where.tiers]] = True
            found &= allowed[self.tier]
        if where.context_type is not None:
            found &= self.context == _CONTEXT[str(where.context_type)]
        if where.source is not None:
            found &= self.source == _SOURCE[str(where.source)]
        if where.ids is not None:
            found &= self._in(where.ids)
        if where.states is not None:
            found &= self._in_states(where.states)
        if where.expired_at is not None:
            found &= self.expires > where.expired_at
        if where.without is not None:
            found &= ~self.mask(scope, where.without)
        return found

    def _in(self, ids: frozenset[int]) -> Bools:
        found = np.zeros(len(self.ids), np.bool_)
        found[[self.slot_of[memory_id] for memory_id in ids if memory_id in self.slot_of]] = True
        return found

    def _in_states(self, bounds: StateBounds) -> Bools:
        starts, ends = np.full(len(_TIER), np.inf), np.full(len(_TIER), -np.inf)
        for tier, (start, end) in bounds.used.items():
            starts[_TIER[str(tier)]], ends[_TIER[str(tier)]] = start, end
        found: Bools = (self.last >= starts[self.tier]) & (self.last < ends[self.tier]) & ~self.flagged
        if bounds.flagged:
            found |= self.flagged
        return found | self._in(bounds.always)

    def passages(self, memories: Bools) -> Bools:
        """The living passages of these memories."""
        return self.alive & memories[self.memory_slot]


def _below(path: str, prefixes: Sequence[str]) -> bool:
    return any(below(path, prefix) for prefix in prefixes)


class LiveColumns:
    """The newest `Columns` of a process, shared by its threads."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self._lock = threading.Lock()
        self._columns: Columns | None = None
        self._builds = 0

    def current(self) -> Columns:
        with self._lock, self._feed.moment():
            counters = self._feed.counters()
            known = self._columns
            if known is None or known.epoch != counters.epoch or known.generation > counters.generation:
                known = self._read_all(counters)
            elif known.generation != counters.generation:
                known = self._read_changes(known, counters)
            if known.used != counters.used:
                known = self._read_use(known, counters.used)
            self._columns = known
            return known

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

    def _read_changes(self, known: Columns, counters: Counters) -> Columns:
        changed = self._feed.changed(known.generation)
        dead = len(known.alive) - int(known.alive.sum())
        if len(changed) > max(200, _INCREMENTAL_SHARE * len(known.ids)) or dead > max(
            5_000, _DEAD_SHARE * len(known.alive)
        ):
            return self._read_all(counters)
        rows = self._feed.memory_rows(changed)
        return self._with_passages(_with_memories(known, rows, counters.generation), changed)

    def _with_passages(self, known: Columns, memory_ids: set[int]) -> Columns:
        """Passages of these memories read again: new ids follow at the end, missing ones are dead."""
        if not memory_ids:
            return known
        ids, owners, length, vector = self._feed.passage_arrays(memory_ids)
        slots = np.fromiter((known.slot_of[memory_id] for memory_id in memory_ids), np.int64)
        alive = known.alive & ~np.isin(known.memory_slot, slots)
        old = ids <= known.last_passage
        places = np.searchsorted(known.passage_ids, ids[old])
        alive[places] = True
        vectors = known.vector_id.copy()
        vectors[places] = vector[old]
        owner_slots = np.fromiter((known.slot_of[int(owner)] for owner in owners[~old]), np.int32)
        return replace(
            known,
            passage_ids=np.concatenate([known.passage_ids, ids[~old]]),
            memory_slot=np.concatenate([known.memory_slot, owner_slots]),
            length=np.concatenate([known.length, length[~old].astype(np.float32)]),
            vector_id=np.concatenate([vectors, vector[~old]]),
            alive=np.concatenate([alive, np.ones(int((~old).sum()), np.bool_)]),
            masks={},
            slot_by_id=[],
        )

    def _read_use(self, known: Columns, used: int) -> Columns:
        last = known.last.copy()
        for memory_id, at in self._feed.used(known.used):
            slot = known.slot_of.get(memory_id)
            if slot is not None and at is not None:
                last[slot] = max(known.first[slot], at / 1e6)
        return replace(known, used=used, last=last, masks={})


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


def _with_memories(known: Columns, rows: Sequence[MemoryRow], generation: int) -> Columns:
    """Changed rows overwrite their slots in copies; new ones follow at the end."""
    names = dict(known.names)
    slot_of = dict(known.slot_of)
    fresh = _memory_arrays(rows, names)
    slots = np.array([slot_of.setdefault(row.id, len(slot_of)) for row in rows], np.int64)
    grown = len(slot_of)
    values: dict[str, Any] = {}
    for name in _ARRAYS:
        column = np.resize(getattr(known, name), grown) if len(known.ids) else np.zeros(grown, fresh[name].dtype)
        column[slots] = fresh[name]
        values[name] = column
    paths = list(known.paths) + [""] * (grown - len(known.paths))
    for slot, row in zip(slots, rows, strict=True):
        paths[slot] = row.path
    return replace(
        known, generation=generation, slot_of=slot_of, names=names, paths=tuple(paths), scopes={}, masks={}, **values
    )
