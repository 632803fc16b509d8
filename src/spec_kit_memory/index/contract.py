"""Where do memories live, and how are they found again?

`Index` is a handle on one workspace's index; `Documents`, `Record`, `Vectors` and `Care` are what can be
done with it. Every engine keeps this contract; `tests/index/test_contract_*` check it. An index
returns raw hits within scope and filters. It never weighs, decays or cuts by importance, so every
engine ranks alike. It does not embed and does not read files.

Every verb that changes something takes a `Change` and writes history and ledger in the
same transaction. Reads go through a scope that is bound to the handle: `within(scope)`.
What is outside the scope does not exist: it raises MemoryNotFound and is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from spec_kit_memory.advice import Text
from spec_kit_memory.core.citations import Citations
from spec_kit_memory.core.delivery import Backlog, Delivery, FileOperation
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
    Tier,
    VectorStatus,
)

if TYPE_CHECKING:
    from spec_kit_memory.index.transfer import Target, TransferSource

__all__ = [
    "EVERYTHING",
    "UNCHANGED",
    "BadFile",
    "Care",
    "Documents",
    "Index",
    "Outbox",
    "PutResult",
    "Rebuilt",
    "Record",
    "Remark",
    "StateFiles",
    "Stored",
    "TableReport",
    "Tally",
    "VectorWork",
    "Vectors",
]


@dataclass(frozen=True, slots=True)
class Stored:
    """What a scan must know about a path to decide what its file needs."""

    memory_id: int
    stamp: Stamp
    raw_hash: str
    fingerprint: str
    presence: Presence
    vector_status: VectorStatus
    alias: bool = False  # the path is a second name of that memory
    spec_folder: str | None = None
    owner: str | None = None
    project: str | None = None
    cited: bool = True  # the files that its text cites are recorded


@dataclass(frozen=True, slots=True)
class PutResult:
    memory_id: int
    created: bool
    changed: bool  # the text changed
    alias: bool = False  # same fingerprint in the same spec folder: nothing new was indexed
    released: tuple[str, ...] = ()  # paths that were aliases of the old text and must be indexed again
    forgotten: bool = False  # the memory was deleted with exactly this text, and stays deleted


@dataclass(frozen=True, slots=True)
class VectorWork:
    """A passage that has no vector of the current model yet."""

    memory_id: int
    passage_hash: str
    embedded: str


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of the live memories of one spec folder (None: of no folder) and tier."""

    spec_folder: str | None
    archived_folder: bool
    tier: Tier
    count: int
    newest: datetime  # by creation date, or by the last change where there is none
    updated_at: datetime
    changed: int  # the generation in which one of them last changed


@dataclass(frozen=True, slots=True)
class BadFile:
    path: str
    code: str
    message: str
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to show beside a memory: a mistake in its file, a link with one end, missing vectors."""

    memory_id: int
    path: str
    kind: str  # file | link | vector
    message: Text
    line: int | None = None


@dataclass(frozen=True, slots=True)
class TableReport:
    """How much of one recorded table a rebuild could take over."""

    read: int
    restored: int = 0  # made again from other records
    lost: int = 0  # known to be missing
    complete: bool = True  # False: more may be missing than is counted


@dataclass(frozen=True, slots=True)
class Rebuilt:
    kept: Path  # the index as it was; Path() where it is no file
    tables: Mapping[str, TableReport]


EVERYTHING = Filter()  # no condition
NOBODY: Mapping[int, Presence] = {}
NO_STAMPS: Mapping[str, Stamp] = {}
NO_CITATIONS: Mapping[int, Citations] = {}


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED: Literal[_Unchanged.UNCHANGED] = _Unchanged.UNCHANGED  # a default where None has a meaning of its own
Unchanged = Literal[_Unchanged.UNCHANGED]


class Index(Protocol):
    """A handle on one index: its scope, its transactions, and the parts that hold its verbs."""

    @property
    def documents(self) -> Documents: ...
    @property
    def record(self) -> Record: ...
    @property
    def vectors(self) -> Vectors: ...
    @property
    def care(self) -> Care: ...
    @property
    def outbox(self) -> Outbox | None:
        """On a team server: the changes of files that wait to be committed to git. None elsewhere."""
        ...

    @property
    def state_files(self) -> StateFiles | None:
        """Where checkpoints and pauses are kept; None: in the workspace's state folder."""
        ...

    @property
    def read_only(self) -> bool:
        """True where the index cannot be written: reads work, writes raise DatabaseUnusable."""
        ...

    def within(self, scope: Scope) -> Index:
        """A view of what this scope may see. A handle as opened has no scope: it serves the whole workspace."""
        ...

    def close(self) -> None: ...
    def when_new(self, callback: Callable[[], None]) -> None:
        """Register a callback for when another index, empty or not, has replaced this one."""
        ...

    def generation(self, *, since: float | None = None) -> int:
        """A number that rises with every change to memories by any process; uses do not raise it.

        `since` a time of the monotonic clock: what was read after it is new enough, and is not asked for again.
        """
        ...

    def exported(self) -> AbstractContextManager[TransferSource]:
        """A consistent snapshot of all tables, without a scope, to copy the index to another engine."""
        ...

    def imported(self) -> AbstractContextManager[Target]:
        """One transaction that receives such a copy."""
        ...

    def bulk(self) -> AbstractContextManager[None]:
        """Inside, transactions are not synced to disk one by one; leaving the block syncs them all. For scans."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Inside, this thread's writes are one transaction: all of them or, if one fails, none.

        Others see them, and who waits to write may, when the block is left: stay for a moment only. To this
        thread `get`, `many` of a fingerprint, `find`, `links` and `stored` tell of them at once.
        """
        ...

    def steady(self) -> AbstractContextManager[None]:
        """Inside, this thread's reads may answer by what was there when it began: what changed is asked for once.

        For one verb that reads often, and decides nothing that must be true of the very moment.
        """
        ...

    def unmoved(self) -> bool:
        """Inside `steady`: is all that was read since it began of one moment? If not, it has begun anew."""
        ...

    def hurried(self) -> AbstractContextManager[None]:
        """Inside, this thread's writes give up after a moment instead of waiting for whoever else writes."""
        ...

    def warm(self) -> None:
        """Load what matching needs, so that the first searches need not wait. For a background thread."""
        ...

    def require_sound(self, *, quick: bool = False) -> None:
        """Raise DatabaseCorrupt if what answers are looked up in is damaged: to be asked before "there is nothing".

        It is looked at once a minute at most, and for a moment only. `quick` is for "that is all": what lists and
        numbers are made of, as far as a twentieth of a second goes.
        """
        ...

    def require_sense(self) -> None:
        """Raise DatabaseCorrupt if a row holds a value that is never written: called after a failure that
        nobody can explain."""
        ...


class Outbox(Protocol):
    """Changes of files that were accepted in the index and are committed to git by a worker."""

    def require_base(self, bases: Mapping[str, str | None]) -> None:
        """Raise `Outdated` unless each path has this content hash now, or with None no live memory. In `together`."""
        ...

    def redacted(self, paths: Collection[str]) -> dict[str, int]:
        """Those whose file has secrets that the index leaves out, and how many: it cannot be written anew from here."""
        ...

    def keep_redactions(self, counts: Mapping[str, int]) -> None:
        """Their files still have so many secrets, which the copies that were indexed did not have. In `together`."""
        ...

    def add(self, operations: Sequence[FileOperation], *, author: str | None) -> None:
        """Accept these, together with what else the transaction writes. In `together`."""
        ...

    def deliveries(self, paths: Collection[str]) -> dict[str, Delivery]:
        """How far the last change of each path has come on its way into git; unchanged paths are left out."""
        ...

    def backlog(self) -> Backlog: ...


class StateFiles(Protocol):
    """State files of a workspace (checkpoints, pauses) that all processes and machines share."""

    def sizes(self, kind: str) -> dict[str, int]:
        """The names of all state files of a kind, with their sizes in bytes."""
        ...

    def parts(self, kind: str, name: str) -> Iterator[bytes]: ...
    def writing(self, kind: str, name: str) -> AbstractContextManager[Callable[[bytes], None]]:
        """Write a state file piece by piece; it exists as a whole when the block is left, or not at all."""
        ...

    def remove(self, kind: str, name: str) -> bool: ...
    def alone(self, kind: str) -> AbstractContextManager[None]: ...
    def seconds_left(self, name: str, at: datetime, *, pause_seconds: int) -> float:
        """Seconds until this may run again; 0: it may run now, and the next pause begins. One caller gets 0."""
        ...


class Documents(Protocol):
    """Memories, their text and passages. Each write is one transaction, except in `together`."""

    def put(self, entry: Entry, change: Change, *, memory_id: int | None = None, explicit: bool = False) -> PutResult:
        """Index one document: text, passages, full text, triggers, front matter's links.

        The identity is `memory_id` if given (a move), else the live or vanished row of that path, else a vanished
        row with the same fingerprint and folder, else an alias of a live one with the same
        fingerprint and folder, else a new row. Overrides kept for the memory win over `attributes`.
        Vectors that exist for a passage's hash are used again. A forgotten memory stays forgotten
        until `explicit` is true (a person named the file). Another text at its path is a memory of
        its own, with a new id; its first history entry names the forgotten one as `previous_id`.
        """
        ...

    def scanned(
        self,
        stamps: Mapping[str, Stamp] = NO_STAMPS,
        *,
        bad: Sequence[BadFile] = (),
        cleared: Sequence[str] = (),
        cited: Mapping[int, Citations] = NO_CITATIONS,
    ) -> None:
        """What a scan saw of files whose text is not put: only the stamp changed, unreadable, readable again.

        `cited`: which files of the project the present texts of memories name. It is recorded, without history.
        """
        ...

    def vanish(self, path: str, change: Change) -> str | None:
        """The file is gone: out of search at once; id, use, links and history stay.

        Where an alias takes over, its path is returned: put that file again.
        """
        ...

    def forget(self, memory_id: int, change: Change, *, into: int | None = None) -> None:
        """Deleted on request: like vanish, and no scan brings this fingerprint back. It may have vanished already.

        `into` is a memory that has taken its text in: that one supersedes it.
        """
        ...

    def recall(self, memory_id: int, change: Change) -> Memory:
        """Back from gone or forgotten, from what is stored: undoes `forget` and `vanish`."""
        ...

    @overload
    def get(self, memory_id: int, *, any_presence: bool = False) -> Memory: ...
    @overload
    def get(self, *, path: str, any_presence: bool = False) -> Memory | None: ...
    def many(self, memory_ids: Sequence[int] = (), *, fingerprint: str | None = None) -> list[Memory]:
        """The live memories with these ids, in the same order; or with this fingerprint, oldest first."""
        ...

    def find(
        self,
        where: Filter = EVERYTHING,
        *,
        order: str = "created_at",
        limit: int | None = None,
        offset: int = 0,
        presence: Presence = Presence.LIVE,
    ) -> list[Memory]:
        """`order` is created_at, updated_at, importance_weight or path; dates and weight descend."""
        ...

    def count(self, where: Filter = EVERYTHING, *, presence: Presence = Presence.LIVE) -> int: ...
    def tally(self) -> list[Tally]:
        """Counts per spec folder and tier, without reading each memory."""
        ...

    @overload
    def text(self, memory_id: int) -> str: ...
    @overload
    def text(self, *, content_hash: str) -> str | None: ...
    @overload
    def text(self, *, content_hashes: Sequence[str]) -> dict[str, str]:
        """Texts by their hash, if a visible memory has or had them."""
        ...

    def passages(
        self, passage_ids: Sequence[int] = (), *, memory_ids: Sequence[int] | None = None
    ) -> list[StoredPassage]:
        """The passages with these ids that belong to live memories, in the same order; or all of these memories."""
        ...

    def stored(
        self, path: str | None = None, *, below: Sequence[str] | None = None, alike: str | None = None
    ) -> dict[str, Stored]:
        """What sync needs to know of every path, or of some of them.

        `path`: of that one. `below`: of those that are one of these or below one; it costs what it finds. `alike`:
        of those whose text has this fingerprint, or, where a body is empty, this raw hash.
        """
        ...

    def triggers(self) -> list[tuple[int, str]]: ...
    def match(self, terms: Sequence[str], where: Filter, limit: int) -> list[RawHit]:
        """Passages with any of the terms, as `core.words.for_query` gives them; one with spaces is a phrase.

        Scores are BM25 as the share of what a passage full of the six rarest of them would have."""
        ...


class Record(Protocol):
    """What cannot be read from files: amendments, use, links, history, ledger and sessions."""

    def amend(
        self,
        memory_id: int,
        change: Change,
        *,
        overrides: Mapping[str, Any] | None = None,
        outdated: bool | None = None,
        vouched: bool | Unchanged | None = UNCHANGED,
        validation: tuple[Decimal, int] | None = None,
        history: Sequence[HistoryEntry] = (),
    ) -> Memory:
        """Change what is recorded about a live memory; each thing that is given leaves an entry of its own.

        `overrides`: metadata kept here for sources that have no file of ours to write. Keys are those of
        `Attributes`; they are added to earlier overrides, and None takes one back. `vouched`: what a person says
        about a text; None: nobody says anything any more. `validation`: confidence and count. `history`: what another
        system recorded of it, with its own times; the memory may be gone.
        """
        ...

    def use(self, counts: Mapping[int, float], at: datetime) -> None:
        """Add to access counts. No history, no ledger, no generation, no full-text write."""
        ...

    def put_link(self, link: Link, change: Change) -> Link:
        """Make or change the link of that source, target and relation; one made by hand stays so.

        A new one gets the id that is given, where that is free.

        Links that front matter asks for are made by `put`, and again when their target appears.
        """
        ...

    def drop_link(self, link_id: int, change: Change) -> Link: ...
    def links(
        self, memory_ids: Sequence[int] | None = None, *, relations: Collection[Relation] | None = None
    ) -> list[Link]: ...
    def history(
        self,
        memory_id: int | None = None,
        *,
        spec_folder: str | None = None,
        ledger: Collection[int] | None = None,
        limit: int | None = None,
    ) -> list[HistoryEntry]:
        """Newest first. `ledger` selects the rows written with these ledger entries."""
        ...

    def ledger(
        self, *, after: int = 0, limit: int | None = None, operation: str | None = None, last: bool = False
    ) -> Iterator[LedgerEntry]:
        """In order. `operation` selects the entries of one operation, `last` the last entry only."""
        ...

    def is_committed(self, operation_id: str) -> bool:
        """Does the ledger have an entry of this operation? Used by recovery after a crash, in any scope."""
        ...

    def session(self, session_id: str) -> Session | None: ...
    def put_session(self, session: Session, at: datetime) -> None: ...


class Vectors(Protocol):
    """Vectors of passages, keyed by the hash of their words; of one model at a time."""

    def use_model(self, name: str, dimensions: int, weights_hash: str) -> None:
        """Another model than the stored one marks every vector pending; vectors are never mixed."""
        ...

    def work(self, limit: int) -> list[VectorWork]:
        """Passages without a vector, words that several have once: retry before pending, then what was used most, then
        the newest by its own date."""
        ...

    def put(self, vectors: Mapping[str, tuple[bytes, bytes | None]]) -> None:
        """passage hash -> (float32 little-endian vector, token states or None)."""
        ...

    def get(self, hashes: Sequence[str]) -> Iterator[tuple[str, bytes, bytes | None]]:
        """The stored vectors of the current model for these hashes, in the form that `put` takes."""
        ...

    def failed(self, reason: str | None, hashes: Iterable[str] | None = None) -> None:
        """Record why these passages have no vector; without passages, why none can be made (None: they can)."""
        ...

    def match(self, vector: Any, where: Filter, limit: int) -> list[RawHit]: ...
    def token_states(self, passage_ids: Sequence[int]) -> dict[int, bytes]: ...


class Care(Protocol):
    """Numbers, faults, checkpoints and repair."""

    def stats(self, *, size: bool = False) -> dict[str, Any]:
        """Counts: memories, gone, forgotten, passages, tokens, triggers, aliases, outdated, pending_passages,
        pending_tokens (about), failed_passages;
        per tiers, sources, context_types, vectors (by status); model, dimensions, weights_hash; failures (reason ->
        passages), provider_failure (a reason or None); last_indexed. Cheap while nothing changed.

        `size`: with size_bytes of all that is stored, or, for a scope that sees a part of it, of its documents. That
        may read everything.
        """
        ...

    def remarks(
        self, memory_ids: Sequence[int] | None = None, *, kind: str | None = None, limit: int | None = None
    ) -> list[Remark]:
        """Remarks on live memories, or on these, ordered by path; of all kinds, or of one."""
        ...

    def bad_files(self) -> list[BadFile]: ...
    def snapshot(self, where: Filter = EVERYTHING) -> Generator[Mapping[str, Any], None, None]:
        """A consistent snapshot, row by row. Close it, because the write-ahead log cannot shrink before that."""
        ...

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
        """Bring the rows of a snapshot back; the answer counts what was done.

        `clear` also takes back what is newer and forgets what the rows lack, within `where`. `links=False` leaves
        links alone. `presence` names memories that are not live afterwards, gone or forgotten, with their row or
        without.
        """
        ...

    def check(self, *, now: datetime | None = None, quick: bool = False) -> dict[str, list[Text]]:
        """Name of each check -> what is wrong. Sessions are looked at only with `now`.

        `quick`: of a large index, what can be looked at in a moment; "unfinished" then names the checks that were not
        done to the end.
        """
        ...

    def repair(self, change: Change) -> dict[str, int]:
        """Repair what can be repaired (never the ledger); returns counts by kind of repair."""
        ...

    def rebuild(self, change: Change, fill: Callable[[Index], object] = lambda index: None) -> Rebuilt:
        """Make a new index of what is recorded here, as far as it can be read, and put it in this one's place.

        What is derived is not taken over: `fill` gets the new index before anybody else sees it, to read the files
        into it. If it raises, nothing has happened. Others read meanwhile, and who would write waits.
        """
        ...
