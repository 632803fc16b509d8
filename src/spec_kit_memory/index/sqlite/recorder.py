"""How does a change leave its trace?

`Recorder` belongs to one write transaction. It compares a memory before and after, raises the
generation once, and appends one history and one ledger entry per change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Change, Event, HistoryEntry, LedgerEntry, Memory, Mutation
from spec_kit_memory.index.sqlite import rows
from spec_kit_memory.index.sqlite.connection import first

__all__ = ["Recorder", "load"]


def load(connection: apsw.Connection, memory_id: int) -> Memory | None:
    row = connection.execute(f"SELECT {rows.MEMORY} WHERE memory.id = ?", (memory_id,)).fetchone()
    return rows.memory_from(row) if row else None


class Recorder:
    def __init__(self, connection: apsw.Connection, change: Change | None = None) -> None:
        self._connection = connection
        self._change = change
        self.at = rows.micros(change.at) if change else None
        self._generation: int | None = None

    @property
    def generation(self) -> int:
        """The generation of this transaction, raised when first asked for: what changes nothing raises nothing."""
        if self._generation is None:
            # By its key: a statement that might change several rows makes the text index write what it has gathered.
            self._connection.execute("UPDATE counter SET generation = generation + 1 WHERE id = 1")
            self._generation = int(first(self._connection, "SELECT generation FROM counter")[0])
        return self._generation

    def changed(self, memory_id: int) -> None:
        """In-memory columns of other processes read this memory again."""
        self._connection.execute(
            "UPDATE memory SET changed = ?1 WHERE id = ?2 AND changed <> ?1", (self.generation, memory_id)
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
    ) -> Memory:
        """Append history and ledger for one memory; call it after the rows were changed.

        Without a mutation it is an update if anything differs, else a reindex.
        """
        self.changed(memory_id)
        after = load(self._connection, memory_id)
        if after is None:
            raise LookupError(f"memory {memory_id} was recorded before it was written")
        event = event or (Event.ADD if before is None else Event.UPDATE)
        old = None if before is None else rows.state_of(before) | dict(extra_before or {})
        new = rows.state_of(after) | dict(extra_after or {})
        mutation = mutation or (Mutation.REINDEX if old == new else Mutation.UPDATE)
        gone = event is Event.DELETE
        self._history(event, memory_id, old, None if gone else new, after.spec_folder)
        self._ledger(mutation, (memory_id, *also), old, None if gone else new)
        return after

    def adopt(self, entries: Sequence[HistoryEntry]) -> None:
        """Entries of another system, as they were recorded there."""
        for entry in entries:
            self._connection.execute(
                "INSERT INTO history (memory_id, event, before, after, actor, at, spec_folder)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    entry.memory_id,
                    str(entry.event),
                    rows.plain(dict(entry.before)) if entry.before else None,
                    rows.plain(dict(entry.after)) if entry.after else None,
                    str(entry.actor),
                    rows.micros(entry.at),
                    entry.spec_folder,
                ),
            )
        for memory_id in sorted({entry.memory_id for entry in entries}):
            self._ledger(Mutation.UPDATE, (memory_id,), None, None)

    def _history(
        self, event: Event, memory_id: int, old: dict[str, Any] | None, new: dict[str, Any] | None, folder: str | None
    ) -> None:
        change = self._require_change()
        self._connection.execute(
            "INSERT INTO history (memory_id, event, before, after, hash_before, hash_after, actor, session, at,"
            " spec_folder) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                memory_id,
                str(event),
                rows.plain(old) if old else None,
                rows.plain(new) if new else None,
                old["content_hash"] if old else None,
                new["content_hash"] if new else None,
                str(change.actor),
                change.session,
                rows.micros(change.at),
                folder,
            ),
        )

    def _ledger(
        self, mutation: Mutation, memory_ids: tuple[int, ...], old: dict[str, Any] | None, new: dict[str, Any] | None
    ) -> None:
        change = self._require_change()
        head = self._connection.execute(
            "SELECT sequence, hash FROM ledger ORDER BY sequence DESC LIMIT 1"
        ).fetchone() or (0, ledger.GENESIS)
        entry = ledger.seal(
            LedgerEntry(
                sequence=head[0] + 1,
                at=rows.iso(change.at),
                type=mutation,
                memory_ids=memory_ids,
                hash_before=old["content_hash"] if old else None,
                hash_after=new["content_hash"] if new else None,
                actor=str(change.actor),
                session=None if change.session is None else rows.clean(change.session),
                reason=rows.clean(change.reason),
                previous=head[1],
                hash="",
            )
        )
        self._connection.execute(
            f"INSERT INTO ledger ({rows.LEDGER}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                entry.sequence, entry.at, str(entry.type), rows.plain(list(memory_ids)), entry.hash_before,
                entry.hash_after, entry.actor, entry.session, entry.reason, entry.previous, entry.hash,
            ),
        )  # fmt: skip

    def _require_change(self) -> Change:
        if self._change is None:
            raise LookupError("a recorded change needs to say who made it")
        return self._change
