"""The store on SQLite: one handle, bound to a scope, over the rooms beside it.

Views made by `within` share the database and the arrays in memory; only their scope differs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec_kit_memory.core.memory import (
    Change,
    Entry,
    Filter,
    HistoryEntry,
    LedgerEntry,
    Link,
    Memory,
    Presence,
    RawHit,
    Relation,
    Scope,
    Session,
    Stamp,
    StoredPassage,
)
from spec_kit_memory.index.arrays.row_cache import Kept
from spec_kit_memory.index.contract import (
    EVERYTHING,
    NOBODY,
    BadFile,
    Index,
    PutResult,
    Rebuilt,
    Remark,
    Stored,
    Tally,
    VectorWork,
)
from spec_kit_memory.index.sqlite import (
    documents,
    maintenance,
    metadata,
    queries,
    remarks,
    restore,
    snapshot,
    statistics,
    vectors,
)
from spec_kit_memory.index.sqlite.connection import BUSY_SECONDS, Database, first

if TYPE_CHECKING:
    from spec_kit_memory.index.arrays.columns import LiveColumns
    from spec_kit_memory.index.arrays.nearest import Vectors
    from spec_kit_memory.index.arrays.postings import Postings

__all__ = ["SqliteIndex"]


class _Shared:
    """What all views of one handle have in common."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.model: vectors.Model | None = None
        self.generation_offset = 0
        self.last_generation = 0
        self.stats: dict[Scope | None, tuple[int, dict[str, Any]]] = {}
        self.when_new: list[Callable[[], None]] = []
        self.generations: dict[Scope, tuple[int, int]] = {}
        self.soundness = maintenance.Soundness()
        self.kept = Kept()
        self.forget_arrays()
        database.on_new_file = self._new_file

    def forget_arrays(self) -> None:
        self.columns: LiveColumns | None = None
        self.postings: Postings | None = None
        self.vectors: Vectors | None = None

    def _new_file(self) -> None:
        """Another file counts its generations anew; to our callers they must still only rise."""
        self.generation_offset = self.last_generation + 1
        self.kept = Kept()
        self.forget_arrays()
        for told in self.when_new:
            told()

    def arrays(self) -> tuple[LiveColumns, Postings, Vectors]:
        """Made at the first match: a process that only reads or writes never loads numpy."""
        columns, postings, nearest = self.columns, self.postings, self.vectors
        if columns is None or postings is None or nearest is None:
            from spec_kit_memory.index.arrays.columns import LiveColumns
            from spec_kit_memory.index.arrays.nearest import Vectors
            from spec_kit_memory.index.arrays.postings import Postings

            columns, postings, nearest = LiveColumns(), Postings(), Vectors()
            self.columns, self.postings, self.vectors = columns, postings, nearest
        return columns, postings, nearest


class SqliteIndex:
    def __init__(
        self, path: Path, *, read_only: bool = False, damaged_ok: bool = False, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        self._database = Database(path, read_only=read_only, damaged_ok=damaged_ok, busy_seconds=busy_seconds)
        self._shared = _Shared(self._database)
        self._scope: Scope | None = None

    # --- handle

    def within(self, scope: Scope) -> SqliteIndex:
        view = object.__new__(SqliteIndex)
        view._database, view._shared, view._scope = self._database, self._shared, scope
        return view

    def close(self) -> None:
        self._database.close()
        self._shared.forget_arrays()

    def when_new(self, told: Callable[[], None]) -> None:
        self._shared.when_new.append(told)

    @property
    def read_only(self) -> bool:
        return self._database.read_only

    def generation(self) -> int:
        return self._seen_generation(self._generation())

    def _generation(self) -> int:
        with self._database.reading() as connection:
            found: int = first(connection, "SELECT generation FROM counter")[0]
        self._shared.last_generation = found + self._shared.generation_offset
        return self._shared.last_generation

    def _seen_generation(self, whole: int) -> int:
        """What others change in their own part is not told to a scope, not even that it happened."""
        if self._scope is None or self._scope == Scope():
            return whole
        known = self._shared.generations.get(self._scope)
        if known is None or known[0] != whole:
            newest = queries.newest_change(self._database, self._scope) + self._shared.generation_offset
            known = whole, newest
            self._shared.generations[self._scope] = known
        return known[1]

    def bulk(self) -> AbstractContextManager[None]:
        return self._database.bulk()

    def together(self) -> AbstractContextManager[None]:
        return self._database.together()

    def hurried(self) -> AbstractContextManager[None]:
        return self._database.hurried()

    # --- write

    def put(self, entry: Entry, change: Change, *, memory_id: int | None = None, explicit: bool = False) -> PutResult:
        return documents.put(self._database, self._scope, entry, change, memory_id=memory_id, explicit=explicit)

    def touch(self, stamps: Mapping[str, Stamp]) -> None:
        documents.touch(self._database, self._scope, stamps)

    def vanish(self, path: str, change: Change) -> str | None:
        return documents.vanish(self._database, self._scope, path, change)

    def forget(self, memory_id: int, change: Change) -> None:
        documents.forget(self._database, self._scope, memory_id, change)

    def merge(self, memory_id: int, into: int, change: Change) -> None:
        documents.merge(self._database, self._scope, memory_id, into, change)

    def adopt_history(self, entries: Sequence[HistoryEntry], change: Change) -> None:
        documents.adopt_history(self._database, self._scope, entries, change)

    def recall(self, memory_id: int, change: Change) -> Memory:
        return documents.recall(self._database, self._scope, memory_id, change)

    def override(self, memory_id: int, attributes: Mapping[str, Any], change: Change) -> Memory:
        return metadata.override(self._database, self._scope, memory_id, attributes, change)

    def mark_outdated(self, memory_id: int, outdated: bool, change: Change) -> None:
        metadata.mark_outdated(self._database, self._scope, memory_id, outdated, change)

    def trust(self, memory_id: int, trusted: bool | None, change: Change) -> None:
        metadata.trust(self._database, self._scope, memory_id, trusted, change)

    def validate(self, memory_id: int, confidence: Decimal, count: int, change: Change) -> None:
        metadata.validate(self._database, self._scope, memory_id, confidence, count, change)

    def record_use(self, counts: Mapping[int, float], at: datetime) -> None:
        metadata.record_use(self._database, self._scope, counts, at)

    def put_link(self, link: Link, change: Change) -> Link:
        return metadata.put_link(self._database, self._scope, link, change)

    def drop_link(self, link_id: int, change: Change) -> Link:
        return metadata.drop_link(self._database, self._scope, link_id, change)

    def put_session(self, session: Session, at: datetime) -> None:
        metadata.put_session(self._database, self._scope, session, at)

    def report_bad(self, bad: Sequence[BadFile], *, cleared: Sequence[str] = ()) -> None:
        metadata.report_bad(self._database, bad, cleared=cleared)

    # --- vectors

    def use_model(self, name: str, dimensions: int, weights_hash: str) -> None:
        self._shared.model = (name, dimensions, weights_hash)
        vectors.use_model(self._database, self._shared.model)

    def vector_work(self, limit: int) -> list[VectorWork]:
        return vectors.vector_work(self._database, self._scope, limit)

    def put_vectors(self, given: Mapping[str, tuple[bytes, bytes | None]]) -> None:
        vectors.put_vectors(self._database, given, model=self._shared.model)

    def vectors_of(self, hashes: Sequence[str]) -> Iterator[tuple[str, bytes, bytes | None]]:
        return vectors.vectors_of(self._database, hashes)

    def vectors_failed(self, hashes: Iterable[str], reason: str) -> None:
        vectors.vectors_failed(self._database, hashes, reason)

    def provider_failed(self, reason: str | None) -> None:
        vectors.provider_failed(self._database, reason)

    # --- read

    def get(self, memory_id: int, *, any_presence: bool = False) -> Memory:
        return queries.get(self._database, self._scope, memory_id, any_presence=any_presence)

    def by_path(self, path: str, *, any_presence: bool = False) -> Memory | None:
        return queries.by_path(self._database, self._scope, path, any_presence=any_presence)

    def many(self, memory_ids: Sequence[int]) -> list[Memory]:
        return self._shared.kept.memories(self._database, self._scope, memory_ids)

    def find(
        self,
        where: Filter = EVERYTHING,
        *,
        order: str = "created_at",
        limit: int | None = None,
        offset: int = 0,
        presence: Presence = Presence.LIVE,
    ) -> list[Memory]:
        return queries.find(
            self._database, self._scope, where, order=order, limit=limit, offset=offset, presence=presence
        )

    def count(self, where: Filter = EVERYTHING, *, presence: Presence = Presence.LIVE) -> int:
        columns = self._shared.columns
        if columns is not None and presence is Presence.LIVE:  # every search counts what it held back
            return int(columns.current(self._database).mask(self._scope, where).sum())
        return queries.count(self._database, self._scope, where, presence=presence)

    def alike(self, fingerprint: str) -> list[Memory]:
        return queries.alike(self._database, self._scope, fingerprint)

    def tally(self) -> list[Tally]:
        return statistics.tally(self._database, self._scope)

    def paths(self) -> list[str]:
        return queries.paths(self._database, self._scope)

    def text(self, memory_id: int) -> str:
        return queries.text(self._database, self._scope, memory_id)

    def text_of(self, content_hash: str) -> str | None:
        return queries.text_of(self._database, self._scope, content_hash)

    def passages(self, passage_ids: Sequence[int]) -> list[StoredPassage]:
        return self._shared.kept.passages(self._database, self._scope, passage_ids)

    def passages_of(self, memory_id: int) -> list[StoredPassage]:
        return queries.passages_of(self._database, self._scope, memory_id)

    def unembedded(self, passage_ids: Sequence[int]) -> frozenset[int]:
        return queries.unembedded(self._database, self._scope, passage_ids)

    def stored(self, path: str | None = None) -> dict[str, Stored]:
        return queries.stored(self._database, self._scope, path)

    def stored_below(self, places: Sequence[str]) -> dict[str, Stored]:
        return queries.stored_below(self._database, self._scope, places)

    def stored_like(self, key: str) -> dict[str, Stored]:
        return queries.stored_like(self._database, self._scope, key)

    def triggers(self) -> list[tuple[int, str]]:
        return queries.triggers(self._database, self._scope)

    def links(
        self, memory_ids: Sequence[int] | None = None, *, relations: Collection[Relation] | None = None
    ) -> list[Link]:
        return queries.links(self._database, self._scope, memory_ids, relations=relations)

    def history(
        self,
        memory_id: int | None = None,
        *,
        spec_folder: str | None = None,
        ledger: Collection[int] | None = None,
        limit: int | None = None,
    ) -> list[HistoryEntry]:
        return queries.history(
            self._database, self._scope, memory_id, spec_folder=spec_folder, ledger=ledger, limit=limit
        )

    def is_committed(self, operation_id: str) -> bool:
        return queries.is_committed(self._database, operation_id)

    def ledger(
        self, *, after: int = 0, limit: int | None = None, operation: str | None = None
    ) -> Iterator[LedgerEntry]:
        return queries.ledger_entries(self._database, self._scope, after=after, limit=limit, operation=operation)

    def ledger_head(self) -> LedgerEntry | None:
        return queries.ledger_head(self._database)

    def session(self, session_id: str) -> Session | None:
        return metadata.session(self._database, self._scope, session_id)

    def bad_files(self) -> list[BadFile]:
        return queries.bad_files(self._database, self._scope)

    def remarks(self, memory_ids: Sequence[int] | None = None, *, limit: int | None = None) -> list[Remark]:
        return remarks.collect(self._database, self._scope, memory_ids, limit=limit)

    def stats(self) -> dict[str, Any]:
        generation = self._generation()
        known = self._shared.stats.get(self._scope)
        if known is None or known[0] != generation:
            known = generation, statistics.collect(self._database, self._scope)
            self._shared.stats[self._scope] = known
        return dict(known[1])

    # --- match

    def match_text(self, terms: Sequence[str], where: Filter, limit: int) -> list[RawHit]:
        columns, postings, _ = self._shared.arrays()
        now = columns.current(self._database)
        return postings.match(self._database, now, self._scope, terms, where, limit, confirm_nothing=self.require_sound)

    def match_vector(self, vector: Any, where: Filter, limit: int) -> list[RawHit]:
        columns, _, nearest = self._shared.arrays()
        now = columns.current(self._database)
        return nearest.match(self._database, now, self._scope, vector, where, limit)

    def warm(self) -> None:
        columns, postings, nearest = self._shared.arrays()
        now = columns.current(self._database)
        postings.warm(self._database, now)
        nearest.warm(self._database, now)
        self._shared.kept.warm(self._database, now.ids[now.live].tolist(), now.passage_ids[now.alive].tolist())

    def token_states(self, passage_ids: Sequence[int]) -> dict[int, bytes]:
        return self._shared.kept.token_states(self._database, self._scope, passage_ids)

    # --- checkpoints and care

    def snapshot(self, where: Filter = EVERYTHING) -> Generator[Mapping[str, Any], None, None]:
        return snapshot.snapshot(self._database, self._scope, where)

    def restore(
        self,
        rows: Iterable[Mapping[str, Any]],
        change: Change,
        *,
        clear: bool,
        where: Filter,
        links: bool = True,
        presence: Mapping[int, Presence] = NOBODY,
    ) -> dict[str, int]:
        wanted = restore.Wanted(clear=clear, where=where, links=links, presence=presence)
        return restore.restore(self._database, self._scope, rows, change, wanted)

    def require_sound(self, *, quick: bool = False) -> None:
        self._shared.soundness.require(self._database, quick=quick)

    def check(self, *, now: datetime | None = None, quick: bool = False) -> dict[str, list[str]]:
        return maintenance.check(self._database, self._scope, now=now, quick=quick)

    def repair(self, change: Change) -> dict[str, int]:
        return maintenance.repair(self._database, change)

    def rebuild(self, change: Change, fill: Callable[[Index], object] = lambda index: None) -> Rebuilt:
        def complete(path: Path) -> None:
            with closing(SqliteIndex(path, busy_seconds=self._database.busy_seconds)) as fresh:
                fill(fresh)

        from spec_kit_memory.index.sqlite import rebuild

        return rebuild.rebuild(self._database, change, complete)
