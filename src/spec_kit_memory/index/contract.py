"""Where do memories live, and how are they found again?

`Index` is a handle on one workspace's index; its operations are grouped into `Documents`, `Record`, `Vectors` and
`Care`. Every engine implements this contract; `tests/index/test_contract_*` check it. An index returns raw hits
within scope and filters. It does not apply weights, decay or importance limits, so all engines rank alike. It does
not compute embeddings and does not read files.

Every method that changes a memory takes a `Change` and writes history and ledger in the same transaction; use, file
stamps, citations and vectors are written without. Reads use the scope that is bound to the handle: `within(scope)`.
A memory outside the scope does not exist for the caller: asking for it raises MemoryNotFound, and counts leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from spec_kit_memory.advice import Text
from spec_kit_memory.core.citations import Citations
from spec_kit_memory.core.delivery import Backlog, Delivery, FileOperation
from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import (
    Change,
    Entry,
    Filter,
    HistoryEntry,
    LedgerEntry,
    Link,
    Memory,
    Presence,
    Relation,
    Scope,
    Session,
    Stamp,
    StoredPassage,
    Tier,
    VectorStatus,
)

if TYPE_CHECKING:
    from spec_kit_memory.core.raw_hits import RawHits
    from spec_kit_memory.index.transfer import Target, TransferSource


@dataclass(frozen=True, slots=True)
class Stored:
    """What is stored about a path, so that a scan can decide whether to read its file again."""

    memory_id: int
    stamp: Stamp
    raw_hash: str
    fingerprint: str
    presence: Presence
    vector_status: VectorStatus
    alias: bool = False  # the path is an additional path of that memory
    spec_folder: str | None = None
    owner: str | None = None
    project: str | None = None
    cited: bool = True  # the files that its current text cites are recorded


@dataclass(frozen=True, slots=True)
class PutResult:
    """What `Documents.put` did."""

    memory_id: int
    created: bool
    changed: bool  # the text changed
    alias: bool = False  # a copy with the same fingerprint in the same spec folder: nothing new was indexed
    released: tuple[str, ...] = ()  # paths that were aliases of the old text and must be indexed again
    forgotten: bool = False  # a memory with exactly this text was deleted on request, and stays deleted


@dataclass(frozen=True, slots=True)
class VectorWork:
    """A passage that has no vector of the current model yet."""

    memory_id: int
    passage_hash: str
    embedded: str


@dataclass(frozen=True, slots=True)
class Tally:
    """A count of the live memories in one spec folder (None: in no folder) and tier."""

    spec_folder: str | None
    archived_folder: bool
    tier: Tier
    count: int
    newest: datetime  # by creation date, or by last change for those without one
    updated_at: datetime
    changed: int  # the latest generation in which one of them changed


@dataclass(frozen=True, slots=True)
class StoredModel:
    """The embedding model that the stored vectors are of."""

    name: str
    dimensions: int
    weights_hash: str


@dataclass(frozen=True, slots=True)
class IndexTotals:
    """How much an index stores, as far as the scope sees it."""

    memories: int  # present; all counts below are of these
    gone: int
    forgotten: int
    outdated: int
    passages: int
    pending_passages: int
    failed_passages: int
    tokens: int
    pending_tokens: int  # about: of the passages that wait for a vector
    triggers: int
    aliases: int
    tiers: Mapping[str, int]
    sources: Mapping[str, int]
    context_types: Mapping[str, int]
    vectors: Mapping[str, int]  # per status
    failures: Mapping[str, int]  # reason -> passages
    provider_failure: str | None
    model: StoredModel | None  # None: nothing was ever embedded
    last_indexed: datetime | None
    size_bytes: int = 0  # with `size`: of all stored data; for a scope that sees only a part, of its documents


@dataclass(frozen=True, slots=True)
class BadFile:
    """A file that could not be read, and why."""

    path: str
    code: str
    message: str
    seen_at: datetime


@dataclass(frozen=True, slots=True)
class Remark:
    """A problem to show with a memory: a mistake in its file, a link without a target, missing vectors."""

    memory_id: int
    path: str
    kind: str  # file | link | vector
    message: Text
    line: int | None = None


@dataclass(frozen=True, slots=True)
class TableReport:
    """How many rows of one recorded table a rebuild could recover."""

    read: int
    restored: int = 0  # reconstructed from other records
    lost: int = 0  # known to be missing
    complete: bool = True  # False: more rows may be missing than are counted


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of `Care.rebuild`."""

    kept: Path  # the previous index file; Path() if the index is not a file
    tables: Mapping[str, TableReport]


EVERYTHING = Filter()  # no condition
NO_PRESENCES: Mapping[int, Presence] = {}
NO_STAMPS: Mapping[str, Stamp] = {}
NO_CITATIONS: Mapping[int, Citations] = {}


class _Unchanged(Enum):
    UNCHANGED = "unchanged"


UNCHANGED: Literal[_Unchanged.UNCHANGED] = _Unchanged.UNCHANGED  # the default of arguments for which None is a value
Unchanged = Literal[_Unchanged.UNCHANGED]


class Index(Protocol):
    """A handle on one index: its scope, its transactions, and its groups of operations."""

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
        """On a team server: accepted file changes that are not committed to git yet. None elsewhere."""
        ...

    @property
    def state_files(self) -> StateFiles | None:
        """The shared store of checkpoints, trash and pauses. None: they are files in the workspace's state folder."""
        ...

    @property
    def read_only(self) -> bool:
        """True if the index cannot be written: reads work, writes raise DatabaseUnusable."""
        ...

    def within(self, scope: Scope) -> Index:
        """A handle limited to what this scope may see. A handle as opened has no scope and sees the whole workspace."""
        ...

    def close(self) -> None: ...
    def when_new(self, callback: Callable[[], None]) -> None:
        """Register a callback that runs after another index, empty or not, has replaced this one."""
        ...

    def generation(self, *, since: float | None = None) -> int:
        """A number that rises with every change to memories by any process; recorded use does not raise it.

        `since` is a time of the monotonic clock: a value that was read after it is returned without reading it again.
        """
        ...

    def exported(self) -> AbstractContextManager[TransferSource]:
        """A consistent snapshot of all tables, regardless of scope, for copying the index to another engine."""
        ...

    def imported(self) -> AbstractContextManager[Target]:
        """One transaction that receives such a copy."""
        ...

    def bulk(self) -> AbstractContextManager[None]:
        """In this block, transactions are not synced to disk one by one; leaving it syncs them all. For scans."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """In this block, this thread's writes are one transaction: all of them take effect or, if one fails, none.

        Others see the changes, and can write, only after the block is left, so keep it short. In this thread, `get`,
        `many` with a fingerprint, `find`, `links` and `stored` see the changes at once.
        """
        ...

    def steady(self) -> AbstractContextManager[None]:
        """In this block, this thread's reads may return the state at its beginning: changes are checked for only once.

        For an operation that reads often and does not need the very latest state.
        """
        ...

    def unmoved(self) -> bool:
        """In a `steady` block: have all reads seen the same generation? If not, the block starts again from now."""
        ...

    def frozen(self) -> AbstractContextManager[None]:
        """In this block of a `steady` one, this thread's matches and the rows that they lead to are of one state.

        Slower, because nothing is used that was read for another state. A server that matches itself may differ.
        """
        ...

    def hurried(self) -> AbstractContextManager[None]:
        """In this block, this thread's writes fail after a moment instead of waiting for another writer."""
        ...

    def warm(self) -> None:
        """Load what matching needs, so that the first searches do not wait for it. For a background thread."""
        ...

    def require_sound(self, *, quick: bool = False) -> None:
        """Raise DatabaseCorrupt if the tables that searches read are damaged: call it before an empty answer.

        Checks at most once a minute, and only briefly. `quick` is for complete lists and counts: it checks the tables
        that these are made of, as far as a twentieth of a second allows.
        """
        ...

    def require_valid_values(self) -> None:
        """Raise DatabaseCorrupt if a row holds a value that this program never writes: call it after an unexpected
        failure."""
        ...


class Outbox(Protocol):
    """File changes that the index has accepted and that a worker commits to git."""

    def require_base(self, bases: Mapping[str, str | None]) -> dict[str, int]:
        """Raise `Outdated` unless each path now has this content hash (None: no live memory). In `together`.

        Returns the number of secrets by path, of files whose secrets the index leaves out: it cannot rewrite them.
        """
        ...

    def keep_redactions(self, counts: Mapping[str, int]) -> None:
        """Record that these files still have this many secrets, although the indexed copies do not. In `together`."""
        ...

    def add(self, operations: Sequence[FileOperation], *, author: str | None) -> None:
        """Accept these operations in the same transaction as the other writes. In `together`."""
        ...

    def deliveries(self, paths: Collection[str]) -> dict[str, Delivery]:
        """The delivery state of the last change of each path; paths without changes are left out."""
        ...

    def backlog(self) -> Backlog:
        """The pending changes of the whole project, and what blocks them."""
        ...


class StateFiles(Protocol):
    """State files of a workspace (checkpoints, trash, pauses), shared by all processes.

    What is written or removed inside `together` is part of its transaction.
    """

    def sizes(self, kind: str) -> dict[str, int]:
        """The names of all state files of a kind, with their sizes in bytes."""
        ...

    def parts(self, kind: str, name: str) -> Iterator[bytes]:
        """The contents of a state file, in pieces."""
        ...

    def writing(self, kind: str, name: str) -> AbstractContextManager[Callable[[bytes], None]]:
        """Write a state file in pieces. It appears when the block is left; if the block fails, not at all."""
        ...

    def remove(self, kind: str, name: str) -> bool:
        """Delete a state file; False if there was none."""
        ...

    def alone(self, kind: str) -> AbstractContextManager[None]:
        """A lock: only one process of the checkout at a time can hold it for the same kind of files."""
        ...

    def seconds_left(self, name: str, at: datetime, *, pause_seconds: int) -> float:
        """Seconds until this task may run again. 0: run it now; a pause has begun, and no other caller gets 0."""
        ...


class Documents(Protocol):
    """Memories, their text and passages. Each write is one transaction, except in `together`."""

    def put(self, entry: Entry, change: Change, *, memory_id: int | None = None, explicit: bool = False) -> PutResult:
        """Index one document: text, passages, full text, triggers, and the links of its front matter.

        The identity is `memory_id` if given (a move), else the live or vanished row of that path, else a vanished
        row with the same fingerprint and folder, else an alias of a live one with the same
        fingerprint and folder, else a new row. Overrides recorded for the memory take precedence over `attributes`.
        Vectors that exist for a passage's hash are reused. A forgotten memory stays forgotten
        unless `explicit` is true (a person named the file). A different text at its path becomes a separate
        memory with a new id; its first history entry names the forgotten one as `previous_id`.
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
        """Record what a scan saw of files that it does not `put`: new stamps, unreadable files, files readable again.

        `cited`: the files of the project that the current texts of memories name; recorded without history.
        """
        ...

    def vanish(self, path: str, change: Change) -> str | None:
        """Record that the file is gone: search no longer finds the memory; id, use, links and history stay.

        If an alias takes its place, returns the alias's path: put that file again.
        """
        ...

    def forget(self, memory_id: int, change: Change, *, into: int | None = None) -> None:
        """Delete on request: like `vanish`, but no scan brings this fingerprint back. It may have vanished already.

        `into` is the memory that its text was merged into, and that supersedes it.
        """
        ...

    def recall(self, memory_id: int, change: Change) -> Memory:
        """Make a gone or forgotten memory live again from stored data: undoes `forget` and `vanish`."""
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
        """Texts by hash, limited to those that a visible memory has or had."""
        ...

    def passages(
        self, passage_ids: Sequence[int] = (), *, memory_ids: Sequence[int] | None = None
    ) -> list[StoredPassage]:
        """These passages, in the same order, as far as their memories are live; or all passages of these memories."""
        ...

    def stored(
        self, path: str | None = None, *, below: Sequence[str] | None = None, alike: str | None = None
    ) -> dict[str, Stored]:
        """What sync needs to know about every path, or about some of them.

        `path`: only this one. `below`: these paths and those below them; the cost grows with the number of results.
        `alike`: paths whose text has this fingerprint or, for an empty body, this raw hash.
        """
        ...

    def triggers(self) -> list[tuple[int, str]]:
        """Memory id and trigger phrase, for every phrase of the visible live memories."""
        ...

    def match(self, terms: Sequence[str], where: Filter, limit: int) -> RawHits:
        """Passages with any of the terms, which come from `core.words.for_query`; a term with spaces is a phrase.

        Scores are BM25, as a share of the score of a passage full of the six rarest terms."""
        ...


class Record(Protocol):
    """Data that cannot be read from files: amendments, use, links, history, ledger and sessions."""

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
        """Change what is recorded about a live memory; each given argument writes an entry of its own.

        `overrides`: metadata kept in the index because the source has no file that we may write. Keys are those of
        `Attributes`; they are added to earlier overrides, and None removes one. `vouched`: whether a person vouches
        for the text; None withdraws the statement. `validation`: confidence and count. `history`: entries of another
        system, with their own times; the memory may then be gone.
        """
        ...

    def use(self, counts: Mapping[int, float], at: datetime) -> None:
        """Add to access counts. No history, no ledger, no generation, no full-text write."""
        ...

    def put_link(self, link: Link, change: Change) -> Link:
        """Create or change the link with this source, target and relation; a link made by hand stays one.

        A new link gets the given id if that is free.

        Links declared in front matter are made by `put`: at once if the target exists, else when it appears.
        """
        ...

    def drop_link(self, link_id: int, change: Change) -> Link:
        """Delete a link and return it. One that front matter declares is refused."""
        ...

    def links(
        self, memory_ids: Sequence[int] | None = None, *, relations: Collection[Relation] | None = None
    ) -> list[Link]:
        """Links whose ends are both live and visible. With ids: those that start or end at one of them."""
        ...

    def history(
        self,
        memory_id: int | None = None,
        *,
        spec_folder: str | None = None,
        ledger: Collection[int] | None = None,
        limit: int | None = None,
    ) -> list[HistoryEntry]:
        """Newest first. `ledger` selects the rows that were written with these ledger entries."""
        ...

    def ledger(
        self, *, after: int = 0, limit: int | None = None, operation: str | None = None, last: bool = False
    ) -> Iterator[LedgerEntry]:
        """In order. `operation` selects the entries of one operation, `last` the last entry only."""
        ...

    def is_committed(self, operation_id: str) -> bool:
        """Does the ledger have an entry of this operation, in any scope? Used by recovery after a crash."""
        ...

    def session(self, session_id: str) -> Session | None: ...

    def change_session(self, session_id: str, change: Callable[[Session], Session], at: datetime) -> None:
        """Store what `change` makes of a session (a new one, if there is none), in one transaction: a host's hooks and
        its server work on one session at the same time."""
        ...


class Vectors(Protocol):
    """Vectors of passages by the hash of their words; always of one model."""

    def use_model(self, name: str, dimensions: int, weights_hash: str) -> None:
        """Set the model. If it differs from the stored one, every passage becomes pending; models are never mixed."""
        ...

    def work(self, limit: int) -> list[VectorWork]:
        """Passages without a vector, identical ones once: retries before pending ones, then the most used memories,
        then the newest by their own date."""
        ...

    def put(self, vectors: Mapping[str, tuple[bytes, bytes | None]], *, if_current: bool = False) -> None:
        """Store vectors: passage hash -> (float32 little-endian vector, token states or None).

        If another process has set another model since `use_model`, this raises; with `if_current` nothing is stored.
        """
        ...

    def get(self, hashes: Sequence[str]) -> Iterator[tuple[str, bytes, bytes | None]]:
        """The stored vectors of the current model for these hashes, in the form that `put` takes."""
        ...

    def failed(self, reason: str | None, hashes: Iterable[str] | None = None) -> None:
        """Record why these passages have no vector; without hashes, why none can be made at all (None: they can)."""
        ...

    def match(self, vector: Any, where: Filter, limit: int) -> RawHits:
        """The passages whose vectors are nearest to this one."""
        ...

    def token_states(self, passage_ids: Sequence[int]) -> dict[int, bytes]:
        """Token states by passage id; passages without any are left out."""
        ...


class Care(Protocol):
    """Statistics, faults, checkpoints and repair."""

    def stats(self, *, size: bool = False) -> IndexTotals:
        """What is stored. Cheap while nothing changed, except with `size`, which may read everything."""
        ...

    def remarks(
        self, memory_ids: Sequence[int] | None = None, *, kind: str | None = None, limit: int | None = None
    ) -> list[Remark]:
        """Remarks on all live memories, or on these, ordered by path; of all kinds, or of one."""
        ...

    def bad_files(self) -> list[BadFile]:
        """The files that the last scans could not read, ordered by path."""
        ...

    def snapshot(self, where: Filter = EVERYTHING) -> Generator[Mapping[str, Any], None, None]:
        """A consistent snapshot, row by row. Close it: until then the write-ahead log cannot shrink."""
        ...

    def restore(
        self,
        rows: Iterable[Mapping[str, Any]],
        change: Change,
        *,
        clear: bool,
        where: Filter,
        links: bool = True,
        presence: Mapping[int, Presence] = NO_PRESENCES,
    ) -> dict[str, int]:
        """Restore the rows of a snapshot; returns counts of what was done.

        `clear` also reverts newer changes and forgets memories that the rows lack, within `where`. `links=False` leaves
        links alone. `presence` names memories that must be gone or forgotten afterwards, whether the rows include
        them or not.
        """
        ...

    def check(self, *, now: datetime | None = None, quick: bool = False) -> dict[str, list[Text]]:
        """Name of each check -> its findings. Sessions are checked only if `now` is given.

        `quick`: checks only as much of a large index as takes a moment; "unfinished" then names the checks that were
        not completed.
        """
        ...

    def repair(self, change: Change) -> dict[str, int]:
        """Repair what can be repaired (never the ledger); returns counts by kind of repair."""
        ...

    def rebuild(self, change: Change, fill: Callable[[Index], object] = lambda index: None) -> Rebuilt:
        """Build a new index from the recorded data, as far as it is readable, and replace this one with it.

        Derived data is not copied: `fill` gets the new index, before any other caller sees it, to read the files
        into it. If `fill` raises, nothing is changed. Meanwhile other callers can read, and writers wait.
        """
        ...
