"""Do the stored texts, metadata, history and links made by hand agree with the ledger?

The hash chain proves that ledger entries are unaltered; this module compares the rest of the database with them, and
so detects a tier, text or history row that another program has edited. An entry of version 2 covers its history row,
and with it metadata and links; one of version 1 covers the text only. Use, sessions and `updated_at` (by which lists
are ordered) are not on the ledger.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

from spec_kit_memory.advice import Advice, finding
from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Attributes, Event, LedgerEntry, Link, Memory, Origin, Presence, Relation
from spec_kit_memory.core.wording import change_name
from spec_kit_memory.index import rows

MOST = 20  # findings that are listed one by one
# Fields of a memory's state that a rebuild clears and a scan sets again, each time with a new ledger entry.
_DERIVED = ("aliases", "redactions")
# Values that several checkouts of a project share; each checkout may change them.
_SHARED = ("validation_count", "confidence")
NAMES = ("sequence", "ledger_sequence", *rows.HISTORY.split(", "))

_Row = dict[str, Any]
_Key = tuple[int, int, str]  # of a link: source, target, relation


class Recorded(Protocol):
    """The recorded data of an engine, as of one point in time."""

    @property
    def is_shared(self) -> bool:
        """Does the project have other checkouts, which may have the same memories?"""
        ...

    def ledger(self) -> Iterable[tuple[tuple[Any, ...], bool]]:
        """Every entry in order (`rows.LEDGER`), and whether this checkout made it."""
        ...

    def history(self, *, numbered: bool) -> Iterable[tuple[Any, ...]]:
        """`NAMES` of the rows that refer to a ledger entry, ordered by it; if not `numbered`, of the others."""
        ...

    def texts(self) -> Iterable[tuple[str, bytes]]: ...
    def memories_with(self, content_hash: str) -> list[int]:
        """The ids of some memories with this text."""
        ...

    def memory_ids(self) -> list[int]: ...
    def memory(self, memory_id: int) -> Memory | None: ...
    def states(self, history_sequence: int) -> tuple[str, str | None, str | None]:
        """The event, and the states before and after it, of this history row."""
        ...

    def effective(self, memory_id: int) -> tuple[Attributes, bool] | None:
        """Attributes and trust as document and overrides give them; None if the file must be read again anyway."""
        ...

    def links_by_hand(self) -> Iterable[Link]: ...


def check(recorded: Recorded) -> list[Advice]:
    """All disagreements: the first `MOST` one by one, the rest as a number."""
    look = _Look(recorded)
    try:
        look.at_history()
        look.at_texts()
        look.at_memories()
        look.at_links()
    except (ledger.Unreadable, UnicodeDecodeError):
        return []  # the check of the chain reports an entry that cannot be read
    faults = list(dict.fromkeys(look.faults))
    more = len(faults) - MOST
    return [*faults[:MOST], finding("more-problems", count=more)] if more > 0 else faults


@dataclass(frozen=True, slots=True)
class _Last:
    """The last ledger entry of a memory, and its history row."""

    entry: LedgerEntry
    row: int | None


@dataclass(slots=True)
class _Look:
    recorded: Recorded
    faults: list[Advice] = field(default_factory=list)
    last: dict[int, _Last] = field(default_factory=dict)
    last_link: dict[_Key, _Row | None] = field(default_factory=dict)
    is_mixed: bool = False  # there are entries of version 1, which do not cover links

    # --- history

    def at_history(self) -> None:
        """Compare every ledger entry with the history rows that were written with it."""
        numbered, unnumbered = self._numbered(), self._unnumbered()
        group = next(numbered, None)
        for row, is_own in self.recorded.ledger():
            entry = rows.ledger_from(row)
            while group and group[0] < entry.sequence:
                group = self._stray(group[0], numbered)
            own: list[_Row] = []
            if group and group[0] == entry.sequence:
                own, group = group[1], next(numbered, None)
            elif entry.version == 1:  # a process of version 0.1 may still have been writing
                own = unnumbered.pop(_moment_of(entry), [])
            self._compare_history(entry, own)
            self._remember(entry, own, is_own=is_own)
        while group:
            group = self._stray(group[0], numbered)
        for left in unnumbered.values():
            self.faults += [finding("history-without-entry", row=row["sequence"]) for row in left]

    def _numbered(self) -> Iterator[tuple[int, list[_Row]]]:
        before = 0
        for sequence, group in groupby(
            (dict(zip(NAMES, row, strict=True)) for row in self.recorded.history(numbered=True)),
            lambda row: row["ledger_sequence"],
        ):
            written = list(group)
            if written[0]["sequence"] < before:
                self.faults.append(finding("history-moved", sequence=sequence))
            before = written[-1]["sequence"]
            yield sequence, written

    def _unnumbered(self) -> dict[tuple[Any, ...], list[_Row]]:
        groups: dict[tuple[Any, ...], list[_Row]] = {}
        for row in self.recorded.history(numbered=False):
            named = dict(zip(NAMES, row, strict=True))
            at = rows.iso(rows.moment(named["at"]))
            groups.setdefault((named["memory_id"], at, named["hash_before"], named["hash_after"]), []).append(named)
        return groups

    def _stray(self, sequence: int, numbered: Iterator[tuple[int, list[_Row]]]) -> tuple[int, list[_Row]] | None:
        self.faults.append(finding("history-of-no-entry", sequence=sequence))
        return next(numbered, None)

    def _compare_history(self, entry: LedgerEntry, own: list[_Row]) -> None:
        history = [{name: row[name] for name in rows.HISTORY.split(", ")} for row in own]
        if entry.version > 1 and ledger.history_digest(history) == entry.history:
            return  # a rebuild after damage writes an entry that has none
        if not own:
            self.faults.append(finding("history-missing", sequence=entry.sequence))
        elif entry.version > 1:
            self.faults.append(finding("history-altered", sequence=entry.sequence))
        elif entry.version == 1 and not all(_fits(entry, row) for row in own):
            self.faults.append(finding("history-of-another-text", sequence=entry.sequence))

    def _remember(self, entry: LedgerEntry, own: list[_Row], *, is_own: bool) -> None:
        self.is_mixed = self.is_mixed or entry.version == 1
        if entry.hash_before is entry.hash_after is None:
            return  # imported history of another system: nothing changed here
        if is_own:
            self.last[entry.memory_ids[0]] = _Last(entry, own[-1]["sequence"] if own else None)
        if entry.version == 1:
            return
        if entry.operation and entry.operation.get("kind") == "merge" and entry.presence != Presence.LIVE:
            merged, into = entry.operation.get("merged"), entry.operation.get("into")
            if isinstance(merged, int) and isinstance(into, int):
                key = (into, merged, str(Relation.SUPERSEDES))
                self.last_link[key] = self.last_link[key] if _by_hand(self.last_link.get(key)) else _MERGED
        for row in own:
            before, after = ((_values(row[name]) or {}).get("link") for name in ("before", "after"))
            for link in (before, after):
                if link:
                    self.last_link[link["source_id"], link["target_id"], link["relation"]] = after

    # --- texts, metadata, links

    def at_texts(self) -> None:
        for hash_, blob in self.recorded.texts():
            try:
                good = hashlib.sha256(rows.unpacked(blob)).hexdigest() == hash_
            except ValueError:
                good = False
            if not good:
                ids = tuple(map(str, self.recorded.memories_with(hash_)))
                self.faults.append(finding("text-altered", ids=ids) if ids else finding("earlier-text-altered"))

    def at_memories(self) -> None:
        ids = self.recorded.memory_ids()
        for id_ in ids:
            memory = self.recorded.memory(id_)
            if memory and id_ not in self.last:
                self.faults.append(finding("memory-not-on-ledger", id=id_))
            elif memory:
                self._compare_memory(memory, self.last[id_])
        for id_ in sorted(self.last.keys() - set(ids)):
            self.faults.append(finding("memory-not-in-index", id=id_))

    def _compare_memory(self, memory: Memory, last: _Last) -> None:
        entry = last.entry
        text = entry.hash_after or entry.hash_before
        if memory.content_hash != text:
            self.faults.append(finding("memory-has-another-text", id=memory.id, sequence=entry.sequence))
        if entry.version == 1 or last.row is None:
            return
        if memory.presence != entry.presence:
            fault = finding(
                "memory-has-another-presence",
                id=memory.id,
                sequence=entry.sequence,
                presence=str(memory.presence),
                recorded=str(entry.presence),
            )
            self.faults.append(fault)
        event, before, after = self.recorded.states(last.row)
        expected = _values(before if event == Event.DELETE else after) or {}
        now = rows.state_of(memory)
        passed_over = (*_DERIVED, "presence", "content_hash", *(_SHARED if self.recorded.is_shared else ()))
        compared = (name for name in now if name in expected and name not in passed_over)
        differing = [name for name in compared if now[name] != expected[name]]
        if memory.presence is Presence.LIVE and not differing:
            differing = self._overridden(memory)
        if differing:
            names = tuple(dict.fromkeys(map(change_name, differing)))
            self.faults.append(finding("memory-changed-without-entry", id=memory.id, names=names))

    def _overridden(self, memory: Memory) -> list[str]:
        """Attributes that differ from what document and overrides result in; none if the file must be read again."""
        holding = self.recorded.effective(memory.id)
        if holding is None:
            return []
        attributes, trusted = holding
        declared, holds = rows.attributes_json(attributes), rows.attributes_json(memory.attributes)
        return [name for name in declared if declared[name] != holds[name]] + ["trust"] * (trusted != memory.trusted)

    def at_links(self) -> None:
        """Compare links made by hand; all others are derived from files."""
        present = {
            (*link.ends, str(link.relation)): rows.link_state(link) or {} for link in self.recorded.links_by_hand()
        }
        for key, recorded in self.last_link.items():
            now = present.get(key)
            if recorded is _MERGED:  # a merge keeps an existing link of this relation, even one that a file declares
                continue
            same = _by_hand(recorded) is (now is not None)
            if not same or (recorded and now and any(recorded[name] != now[name] for name in ("strength", "evidence"))):
                self.faults.append(_about_link("link-changed-without-entry", key))
        for key in present:
            if key not in self.last_link and not self.is_mixed:
                self.faults.append(_about_link("link-not-on-ledger", key))


_MERGED: _Row = {"origin": str(Origin.HAND), "strength": 1.0, "evidence": "merged"}


def _about_link(code: str, key: _Key) -> Advice:
    return finding(code, source=key[0], target=key[1], relation=key[2])


def _by_hand(link: _Row | None) -> bool:
    return link is not None and link["origin"] == Origin.HAND


def _values(text: str | None) -> dict[str, Any] | None:
    try:
        values = json.loads(text) if text else None
    except ValueError:
        return None  # the digest check reports it
    return values if isinstance(values, dict) else None


def _fits(entry: LedgerEntry, row: _Row) -> bool:
    """An entry of version 1 covers the hashes of both texts; imported history of another system has none."""
    if row["hash_before"] is row["hash_after"] is None:
        return True
    hashes = [(_values(row[name]) or {}).get("content_hash") for name in ("before", "after")]
    return hashes == [row["hash_before"], row["hash_after"]] == [entry.hash_before, entry.hash_after]


def _moment_of(entry: LedgerEntry) -> tuple[Any, ...]:
    return entry.memory_ids[0], entry.at, entry.hash_before, entry.hash_after
