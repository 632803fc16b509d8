"""How does an index move to another engine? Recorded data keeps its ids, vectors are copied, words are indexed anew.

The copy is one transaction into an empty target, and is compared with the source before it is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from spec_kit_memory.core import long_lines
from spec_kit_memory.core.memory import Passage
from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.index import rows
from spec_kit_memory.index.contract import Index


class TransferTable(NamedTuple):
    name: str
    columns: str
    booleans: tuple[str, ...] = ()


# Ordered so that rows come after those they refer to. The target builds its own text index and passage ids.
TABLES = (
    TransferTable("content", "hash, text"),
    TransferTable(
        "memory",
        "id, path, source, spec_folder, title, tier, weight, context_type, triggers, created_at, expires_at,"
        " session_id, channel, presence, fingerprint, content_hash, first_indexed_at, updated_at, archived_folder,"
        " outdated, owner, project, trusted, vouched, forgotten_fingerprint, changed",
        ("archived_folder", "outdated", "trusted", "vouched"),
    ),
    TransferTable("usage", "memory_id, access_count, last_access, validation_count, confidence, used"),
    TransferTable("override", "memory_id, attributes"),
    TransferTable("citation", "memory_id, body, files"),
    TransferTable("link", "id, source_id, target_id, relation, strength, evidence, origin, claimant, created_at"),
    TransferTable(
        "history",
        "sequence, memory_id, event, before, after, hash_before, hash_after, actor, session, at, spec_folder,"
        " ledger_sequence",
    ),
    TransferTable("ledger", rows.LEDGER),
    TransferTable("session", "id, owner, project, turn, loading, last_save_turn, seen_at, attention, sent"),
    TransferTable(
        "document",
        "memory_id, said, said_trusted, raw_hash, size, mtime_ns, seen_ns, warnings, redactions, passages, embedded,"
        " tokens, vector_status",
        ("said_trusted",),
    ),
    TransferTable("alias", "path, memory_id, fingerprint, triggers, raw_hash, size, mtime_ns, seen_ns"),
    TransferTable('"trigger"', "memory_id, phrase"),
    TransferTable("claim", "memory_id, ordinal, relation, target, sibling, inward, strength", ("inward",)),
    TransferTable("model", "id, name, dimensions, weights_hash"),
    TransferTable("vector", "id, model, hash, vector"),
    TransferTable("token_state", "vector_id, states"),
    TransferTable("failure", "hash, tries, reason"),
    TransferTable("bad_file", "path, code, message, seen_at"),
)


class TransferSource(Protocol):
    """A consistent snapshot of an index, table by table."""

    def rows(self, table: TransferTable) -> Iterator[tuple[Any, ...]]: ...
    def counters(self) -> Mapping[str, int]:
        """The counters generation, used and epoch."""
        ...


class Target(Protocol):
    """An index inside a write transaction."""

    def rows(self, table: TransferTable) -> Iterator[tuple[Any, ...]]: ...
    def write(self, table: TransferTable, values: Sequence[tuple[Any, ...]]) -> None: ...
    def index(self, memory_id: int, title: str, passages: Sequence[Passage], *, live: bool) -> None: ...
    def finish(self, counters: Mapping[str, int]) -> None: ...


_PAGE = 500


def copy(source: Index, target: Index, *, state_files: Callable[[], Mapping[str, int]] = dict) -> dict[str, int]:
    """Copy all tables into an empty target and compare before the commit; returns the number of rows by table.

    `state_files` copies what is not in tables; on a server it is part of the transaction.
    """
    with source.exported() as old, target.imported() as new:
        if next(new.rows(TABLES[1]), None) is not None or next(new.rows(TABLES[7]), None) is not None:
            raise DatabaseUnusable(
                "the target is not empty",
                hint="on a server name another project (index.project) or another database; a file, move away",
            )
        counts = {}
        for table in TABLES:
            page: list[tuple[Any, ...]] = []
            counts[table.name.strip('"')] = 0
            for row in old.rows(table):
                page.append(row)
                counts[table.name.strip('"')] += 1
                if len(page) == _PAGE:
                    new.write(table, page)
                    page = []
            new.write(table, page)
        _index(source, old, new)
        _compare(old, new)
        counts |= state_files()
        new.finish(old.counters())
    return counts


def _index(source: Index, old: TransferSource, new: Target) -> None:
    texts: dict[str, bytes] = dict(old.rows(TABLES[0]))
    for row in old.rows(TABLES[1]):
        memory = dict(zip((name.strip() for name in TABLES[1].columns.split(",")), row, strict=True))
        stored = source.documents.passages(memory_ids=[memory["id"]])
        lines = rows.unpack(texts[memory["content_hash"]]).split("\n") if memory["content_hash"] in texts else []
        new.index(
            memory["id"], memory["title"], long_lines.with_texts(stored, lines), live=memory["presence"] == "live"
        )


def _compare(old: TransferSource, new: Target) -> None:
    """Raise unless the recorded rows are the same in both indexes."""
    for table in TABLES:
        if table.name in ('"trigger"', "document"):  # the target's text index writes these itself
            continue
        for before, after in zip(old.rows(table), new.rows(table), strict=True):
            if tuple(before) != tuple(after):
                raise DatabaseUnusable(f"{table.name} differs after copying", hint="nothing was copied; try again")
