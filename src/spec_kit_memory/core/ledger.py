"""Is the record of changes intact? Canonical form, chain hash and verification, as pure functions.

An entry's hash is the SHA-256 of the canonical JSON of all its other fields, one of which is the
hash of the previous entry. Changing, dropping, inserting or swapping an entry therefore breaks
the chain at that point.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from spec_kit_memory.advice import Advice, advise, finding
from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.memory import LedgerEntry
from spec_kit_memory.errors import DatabaseCorrupt

GENESIS = "0" * 64  # the first entry's "previous" hash
VERSION = 2  # of new entries; version 1 has fewer fields
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
_SINCE_2 = ("version", "operation", "history", "presence")


@dataclass(frozen=True, slots=True)
class Broken:
    """The first entry that breaks the chain, and why."""

    sequence: int
    reason: Advice


class Unreadable(DatabaseCorrupt):
    """An entry so damaged that its fields cannot be read."""

    def __init__(self, sequence: int) -> None:
        super().__init__(
            f"entry {sequence} of the ledger cannot be read",
            hint=advise("ledger-damaged"),
        )
        self.sequence = sequence


def canonical(value: Mapping[str, Any] | list[Mapping[str, Any]]) -> str:
    """The one canonical JSON text of a value: sorted keys, no white space, no ASCII escapes."""
    return _CANONICAL.encode(value)


def fields_of(entry: LedgerEntry) -> dict[str, Any]:
    """The entry as plain JSON values, including its own hash: one line of an export."""
    plain: dict[str, Any] = {field.name: getattr(entry, field.name) for field in fields(entry)}
    if entry.version == 1:
        for name in _SINCE_2:
            del plain[name]
    return plain | {"type": str(entry.type), "memory_ids": list(entry.memory_ids)}


def chain_hash(entry: LedgerEntry) -> str:
    rest = fields_of(entry)
    del rest["hash"]
    return hashlib.sha256(canonical(rest).encode("utf-8", "surrogatepass")).hexdigest()


def history_digest(rows: Iterable[Mapping[str, Any]]) -> str:
    """The digest of an entry's history rows: SHA-256 of the canonical JSON of the list of rows, in order.

    A row's `before` and `after` are the JSON texts as stored, not parsed values: two programs may write the same
    number differently.
    """
    return hashlib.sha256(canonical(list(rows)).encode("utf-8", "surrogatepass")).hexdigest()


def seal(entry: LedgerEntry) -> LedgerEntry:
    """The same entry with its hash filled in."""
    return replace(entry, hash=chain_hash(entry))


def verify(entries: Iterable[LedgerEntry], *, after: LedgerEntry | None = None) -> Broken | None:
    """The first entry that is missing, moved or altered; None if the chain is intact.

    `after` is the entry before the first one given; without it the chain must start at 1.
    """
    expected = after.sequence + 1 if after else 1
    previous = after.hash if after else GENESIS
    try:
        for entry in entries:
            if entry.sequence != expected:
                return Broken(expected, finding("entry-missing", sequence=expected, other=entry.sequence))
            if entry.previous != previous:
                return Broken(expected, finding("entry-does-not-follow", sequence=expected, previous=expected - 1))
            if entry.version > VERSION:
                return Broken(expected, finding("entry-of-newer-version", sequence=expected, version=entry.version))
            if chain_hash(entry) != entry.hash:
                return Broken(expected, finding("entry-altered", sequence=expected))
            expected, previous = expected + 1, entry.hash
    except Unreadable as error:
        return Broken(error.sequence, finding("entry-unreadable", sequence=error.sequence))
    return None
