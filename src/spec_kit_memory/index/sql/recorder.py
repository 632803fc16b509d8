"""How is a change recorded?

`Recorder` belongs to one write transaction. It compares a memory before and after the change, raises the generation
once, and appends one history row and one ledger entry per change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Change, Event, HistoryEntry, LedgerEntry, Memory, Mutation
from spec_kit_memory.core.operation import signed
from spec_kit_memory.index import rows
from spec_kit_memory.index.sql import conditions
from spec_kit_memory.index.sql.dialect import Connection

if TYPE_CHECKING:
    from spec_kit_memory.core.operation import Operation


_LOAD = f"SELECT {conditions.MEMORY} WHERE memory.project_id = @p AND memory.id = ?"


def load(connection: Connection, memory_id: int) -> Memory | None:
    """The memory with this id in any state, regardless of scope."""
    row = connection.execute(_LOAD, (memory_id,)).fetchone()
    return rows.memory_from(row) if row else None


class Recorder:
    def __init__(self, connection: Connection, change: Change | None = None) -> None:
        self._connection = connection
        self._change = change
        self.at = rows.micros(change.at) if change else None
        self._generation: int | None = None

    @property
    def generation(self) -> int:
        """The generation of this transaction, raised at first use: a transaction without changes does not raise it."""
        if self._generation is None:
            self._generation = self._connection.raised("generation")
        return self._generation

    def changed(self, memory_id: int) -> None:
        """Mark a memory as changed, so that all processes read it again into their arrays and caches."""
        self._connection.execute(
            "UPDATE memory SET changed = :generation WHERE project_id = @p AND id = :id AND changed <> :generation",
            {"generation": self.generation, "id": memory_id},
        )

    def entry(
        self,
        mutation: Mutation | None,
        before: Memory | None,
        memory_id: int,
        *,
        extra_before: Mapping[str, Any] | None = None,
        extra_after: Mapping[str, Any] | None = None,
        also: tuple[int, ...] = (),
        event: Event | None = None,
        after: Memory | None = None,
    ) -> Memory:
        """Append the history row and ledger entry of one memory; call it after its rows were changed.

        If `mutation` is None, it is an update if anything differs, else a reindex. `after` is the memory as it is now,
        from a caller that has just written its row with the current generation; without it, the row is read.
        """
        if after is None:
            self.changed(memory_id)
            after = load(self._connection, memory_id)
        if after is None:
            raise LookupError(f"memory {memory_id} was recorded before it was written")
        event = event or (Event.ADD if before is None else Event.UPDATE)
        old = None if before is None else rows.state_of(before) | dict(extra_before or {})
        new = rows.state_of(after) | dict(extra_after or {})
        mutation = mutation or (Mutation.REINDEX if old == new else Mutation.UPDATE)
        gone = event is Event.DELETE
        change = self._require_change()
        head = self._head()
        history = self._history(
            head[0] + 1,
            memory_id=memory_id,
            event=str(event),
            before=rows.plain(old) if old else None,
            after=rows.plain(new) if not gone else None,
            hash_before=old["content_hash"] if old else None,
            hash_after=new["content_hash"] if not gone else None,
            actor=str(change.actor),
            session=change.session,
            at=rows.micros(change.at),
            spec_folder=after.spec_folder,
        )
        self._ledger(
            head,
            mutation,
            (memory_id, *also),
            [history],
            hash_before=history["hash_before"],
            hash_after=history["hash_after"],
            operation=change.operation.seen(before, after) if change.operation else None,
            presence=str(after.presence),
        )
        return after

    def adopt(self, entries: Sequence[HistoryEntry]) -> None:
        """Import history of another system unchanged, with one ledger entry per memory."""
        change = self._require_change()
        for memory_id in sorted({entry.memory_id for entry in entries}):
            head = self._head()
            adopted = [
                self._history(
                    head[0] + 1,
                    memory_id=memory_id,
                    event=str(entry.event),
                    before=rows.plain(dict(entry.before)) if entry.before else None,
                    after=rows.plain(dict(entry.after)) if entry.after else None,
                    hash_before=None,
                    hash_after=None,
                    actor=str(entry.actor),
                    session=None,
                    at=rows.micros(entry.at),
                    spec_folder=entry.spec_folder,
                )
                for entry in entries
                if entry.memory_id == memory_id
            ]
            self._ledger(head, Mutation.UPDATE, (memory_id,), adopted, operation=change.operation)

    def _head(self) -> tuple[int, str]:
        """Sequence and hash of the last ledger entry."""
        if self._connection.last_entry is not None:
            return self._connection.last_entry
        return self._connection.ledger_head() or (0, ledger.GENESIS)

    def _history(self, ledger_sequence: int, **row: Any) -> dict[str, Any]:
        """Append one history row for this ledger entry; returns the values that the entry's digest covers."""
        row["session"] = None if row["session"] is None else rows.clean(row["session"])
        names = ", ".join(f":{name}" for name in row)
        self._connection.execute(
            f"INSERT INTO history (project_id, sequence, {', '.join(row)}, ledger_sequence)"
            f" VALUES (@p, :sequence, {names}, :ledger_sequence)",
            row | {"sequence": self._connection.next_id("history"), "ledger_sequence": ledger_sequence},
        )
        return row

    def _ledger(
        self,
        head: tuple[int, str],
        mutation: Mutation,
        memory_ids: tuple[int, ...],
        history: Sequence[Mapping[str, Any]],
        *,
        operation: Operation | None,
        hash_before: str | None = None,
        hash_after: str | None = None,
        presence: str | None = None,
    ) -> None:
        change = self._require_change()
        plain, operation_text = _as_stored(signed(operation, change.user))
        entry = LedgerEntry(
            sequence=head[0] + 1,
            at=rows.iso(change.at),
            type=mutation,
            memory_ids=memory_ids,
            hash_before=hash_before,
            hash_after=hash_after,
            actor=str(change.actor),
            session=None if change.session is None else rows.clean(change.session),
            reason=rows.clean(change.reason),
            previous=head[1],
            hash="",
            version=ledger.VERSION,
            operation=plain,
            history=ledger.history_digest(history),
            presence=presence,
        )
        hash_ = ledger.chain_hash(entry)
        self._connection.last_entry = entry.sequence, hash_
        self._connection.execute(
            f"INSERT INTO ledger (project_id, {rows.LEDGER}) VALUES (@p, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
            f" ?, ?, ?)",
            (
                entry.sequence, entry.at, str(entry.type), rows.plain(list(memory_ids)), entry.hash_before,
                entry.hash_after, entry.actor, entry.session, entry.reason, entry.previous, hash_,
                entry.version, operation_text, None if plain is None else plain["id"], entry.history, entry.presence,
            ),
        )  # fmt: skip

    def _require_change(self) -> Change:
        if self._change is None:
            raise LookupError("a recorded change needs to say who made it")
        return self._change


def _as_stored(operation: Operation | None) -> tuple[dict[str, Any] | None, str | None]:
    """The operation as the ledger stores it. Lone surrogates cannot be stored; they are replaced before hashing."""
    if operation is None:
        return None, None
    plain = operation.plain()
    text = ledger.canonical(plain)
    if not text.isascii():
        text = rows.clean(text)
        plain = json.loads(text)
    return plain, text
