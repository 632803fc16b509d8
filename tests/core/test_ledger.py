"""Does the chain hold, and does every change to it show?"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import ledger, operation
from spec_kit_memory.core.memory import LedgerEntry, Mutation

_text = st.text(max_size=12)
_bodies = st.lists(
    st.tuples(st.sampled_from(Mutation), st.lists(st.integers(1, 99), max_size=3), _text, st.none() | _text),
    min_size=1,
    max_size=8,
)


def entry_from(line: dict[str, Any]) -> LedgerEntry:
    return LedgerEntry(**{**line, "type": Mutation(line["type"]), "memory_ids": tuple(line["memory_ids"])})


def chain(bodies: list[tuple[Mutation, list[int], str, str | None]]) -> list[LedgerEntry]:
    """Every other entry is one of version 1, as in an index that came from there and is written by both."""
    entries: list[LedgerEntry] = []
    for number, (kind, ids, reason, session) in enumerate(bodies, start=1):
        previous = entries[-1].hash if entries else ledger.GENESIS
        entry = LedgerEntry(
            number, "2026-03-01T12:00:00Z", kind, tuple(ids), None, "h", "user", session, reason, previous, ""
        )
        if number % 2 == 0:
            rows = [{"memory_id": 1, "before": None, "after": '{"a":1.0}'}]
            done = operation.Delete(path=reason).plain()
            digest = ledger.history_digest(rows)
            entry = replace(entry, version=2, operation=done, history=digest, presence="live")
        entries.append(ledger.seal(entry))
    return entries


@given(_bodies)
def test_a_chain_as_it_was_written_holds(bodies: list[tuple[Mutation, list[int], str, str | None]]) -> None:
    entries = chain(bodies)
    assert ledger.verify(entries) is None
    assert ledger.verify(entries[1:], after=entries[0]) is None


@given(_bodies, st.data())
def test_one_changed_field_is_found_where_it_is(
    bodies: list[tuple[Mutation, list[int], str, str | None]], data: st.DataObject
) -> None:
    entries = chain(bodies)
    at = data.draw(st.integers(0, len(entries) - 1))
    field, value = data.draw(
        st.sampled_from(
            [("reason", "x" * 20), ("at", "2020"), ("hash_after", "z"), ("actor", "decay"), ("memory_ids", (1000,)),
             ("session", "s" * 20), ("hash_before", "q"), ("previous", "1" * 64), ("hash", "2" * 64)]
            + [("operation", {}), ("history", "h"), ("presence", "gone"), ("version", 1), ("version", 3)] * (at % 2)
        )
    )  # fmt: skip
    altered: dict[str, Any] = {field: value}
    entries[at] = replace(entries[at], **altered)
    broken = ledger.verify(entries)
    assert broken is not None
    assert broken.sequence == at + 1


@given(_bodies, st.data())
def test_a_flipped_bit_in_an_export_is_found(
    bodies: list[tuple[Mutation, list[int], str, str | None]], data: st.DataObject
) -> None:
    lines = [ledger.canonical(ledger.fields_of(entry)).encode() for entry in chain(bodies)]
    at = data.draw(st.integers(0, len(lines) - 1))
    byte = data.draw(st.integers(0, len(lines[at]) - 1))
    damaged = bytearray(lines[at])
    damaged[byte] ^= 1 << data.draw(st.integers(0, 6))
    try:
        entries = [entry_from(json.loads(bytes(line))) for line in [*lines[:at], damaged, *lines[at + 1 :]]]
        broken = ledger.verify(entries)
        same = [ledger.fields_of(entry) for entry in entries] == [json.loads(line) for line in lines]
    except (ValueError, TypeError, KeyError):
        return  # no longer an entry at all: found as well
    assert same or broken is not None


def test_missing_swapped_and_inserted_entries_are_found() -> None:
    entries = chain([(Mutation.CREATE, [n], "r", None) for n in range(1, 6)])
    missing = ledger.verify([*entries[:2], *entries[3:]])
    assert missing is not None
    assert missing.sequence == 3
    assert "missing" in missing.reason
    swapped = ledger.verify([entries[1], entries[0], *entries[2:]])
    assert swapped is not None
    assert swapped.sequence == 1
    twice = ledger.verify([entries[0], *entries])
    assert twice is not None
    assert twice.sequence == 2


def test_another_program_can_check_a_line_with_what_the_documentation_says() -> None:
    entry = chain([(Mutation.CREATE, [1, 2], "größer 数", "s")])[0]
    fields = json.loads(ledger.canonical(ledger.fields_of(entry)))
    own = fields.pop("hash")
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(text.encode()).hexdigest() == own
    assert entry_from(ledger.fields_of(entry)) == entry
