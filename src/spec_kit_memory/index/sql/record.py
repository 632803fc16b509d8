"""How is data read and written that is not in any file? Amendments, use, links, history, ledger and sessions.

Each write is one transaction. Changes of a memory write history and ledger entries; use counts and sessions do not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from spec_kit_memory.advice import advise
from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.ledger import Unreadable
from spec_kit_memory.core.memory import (
    Attention,
    Attributes,
    Change,
    ContextType,
    HistoryEntry,
    LedgerEntry,
    Link,
    Memory,
    Mutation,
    Origin,
    Presence,
    Relation,
    Scope,
    Session,
    Tier,
)
from spec_kit_memory.core.scope import session_namespace
from spec_kit_memory.errors import BadParameter, OutOfRange, SelfLink
from spec_kit_memory.index import rows
from spec_kit_memory.index.contract import UNCHANGED, Unchanged
from spec_kit_memory.index.sql import conditions, declared_links, passage_rows
from spec_kit_memory.index.sql.dialect import Connection, fetch, upsert
from spec_kit_memory.index.sql.documents import require, set_attributes
from spec_kit_memory.index.sql.recorder import Recorder, load
from spec_kit_memory.index.sql.view import View

_LEDGER_PAGE = 2_000  # entries per read, so that no read holds the log for a whole verification


_LIVE = "memory.presence = 'live'"
PUT_SESSION = upsert("session", "id, owner, project", "turn, loading, last_save_turn, seen_at, attention, sent")


class Record(View):
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
        if validation is not None and not 0 <= validation[0] <= 1:
            raise OutOfRange(f"confidence {validation[0]} is not between 0 and 1", hint="give a number from 0 to 1")
        amendment = _Amendment(overrides, outdated, vouched, validation)
        with self._database.writing() as connection:
            memory = require(connection, self._scope, memory_id, live=not history)
            recorder = Recorder(connection, change)
            text = memory.content_hash
            memory = _amend(connection, recorder, memory, amendment)
            for checkout in connection.having(memory_id):
                with connection.within(checkout):
                    counterpart = load(connection, memory_id)
                    if counterpart and counterpart.presence is Presence.LIVE:
                        same_text = (
                            counterpart.content_hash == text
                        )  # a person vouches only for the text that they have read
                        applied = amendment if same_text else replace(amendment, vouched=UNCHANGED)
                        _amend(connection, recorder, counterpart, applied)
            if history:
                recorder.adopt([entry for entry in history if entry.memory_id == memory_id])
        return memory

    def use(self, counts: Mapping[int, float], at: datetime) -> None:
        """Ignores ids that are unknown or outside the scope, because use is recorded after the answer was given."""
        seen, bound = conditions.visible(self._scope)
        with self._database.writing(aside=True) as connection:
            used = connection.raised("used")
            for memory_id, count in counts.items():
                if connection.execute(
                    f"SELECT 1 FROM memory WHERE memory.project_id = @p AND id = ? AND {seen}", [memory_id, *bound]
                ).get:
                    connection.execute(
                        "INSERT INTO usage (project_id, memory_id, access_count, last_access, used)"
                        " VALUES (@p, :id, :count, :at, :used) ON CONFLICT (project_id, memory_id) DO UPDATE SET"
                        " access_count = usage.access_count + :count, used = :used,"
                        " last_access = CASE WHEN usage.last_access > :at THEN usage.last_access ELSE :at END",
                        {"id": memory_id, "count": count, "at": rows.micros(at), "used": used},
                    )

    def put_link(self, link: Link, change: Change) -> Link:
        if link.source_id == link.target_id:
            raise SelfLink(f"memory {link.source_id} cannot be linked to itself", hint="name two different memories")
        if not 0 <= link.strength <= 1:
            raise OutOfRange(f"strength {link.strength} is not between 0 and 1", hint="give a number from 0 to 1")
        with self._database.writing() as connection:
            declared_links.follow_changes(connection)
            before = require(connection, self._scope, link.source_id)
            require(connection, self._scope, link.target_id)
            key = (link.source_id, link.target_id, str(link.relation))
            old = link_of(connection, key)
            recorder = Recorder(connection, change)
            taken = connection.execute("SELECT 1 FROM link WHERE link.project_id = @p AND id = ?", (link.id,)).get
            undoing = change.operation is not None and change.operation.kind == "undo"
            created_at = "excluded.created_at" if undoing else "coalesce(link.created_at, excluded.created_at)"
            connection.execute(
                "INSERT INTO link (project_id, id, source_id, target_id, relation, strength, evidence, origin,"
                " created_at) VALUES (@p, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (project_id, source_id, target_id, relation) DO UPDATE SET"
                " strength = excluded.strength, evidence = excluded.evidence, origin = excluded.origin,"
                " claimant = NULL,"
                f" created_at = {created_at} WHERE link.origin <> 'hand' OR excluded.origin = 'hand' OR {undoing}",
                (
                    _link_id(connection, link.id if link.id > 0 and not taken else None),
                    *key,
                    link.strength,
                    rows.clean(link.evidence),
                    str(link.origin),
                    rows.micros(link.created_at or change.at),
                ),
            )
            connection.links_written([key], link.origin)
            stored = link_of(connection, key)
            recorder.entry(
                Mutation.UPDATE,
                before,
                link.source_id,
                extra_before={"link": rows.link_state(old)},
                extra_after={"link": rows.link_state(stored)},
                also=(link.target_id,),
            )
            if stored is None:
                raise LookupError("a link vanished inside its own transaction")
            return stored

    def drop_link(self, link_id: int, change: Change) -> Link:
        with self._database.writing() as connection:
            declared_links.follow_changes(connection)
            row = connection.execute(
                f"SELECT {rows.LINK} FROM link WHERE link.project_id = @p AND id = ? AND @own_link",
                (link_id,),
            ).fetchone()
            link = rows.link_from(row) if row else None
            if link is None or not _seen(connection, self._scope, link):
                raise BadParameter(f"there is no link {link_id}", hint=advise("find-links"))
            if link.origin is Origin.FILE:
                raise BadParameter(
                    f"link {link_id} comes from the front matter of a file",
                    hint="take it out of causal_links there: it would come back with the next scan",
                )
            before = require(connection, self._scope, link.source_id, live=False)
            recorder = Recorder(connection, change)
            connection.drop_links([link_id])
            if change.operation is not None and change.operation.kind == "undo":
                # The link made by hand may have replaced one that a file declares: restore that one.
                for memory_id in (link.source_id, link.target_id):
                    for checkout in (connection.checkout, *connection.having(memory_id)):
                        with connection.within(checkout):
                            declared_links.claims_changed(connection, memory_id)
                declared_links.follow_changes(connection)
            recorder.entry(
                Mutation.UPDATE,
                before,
                link.source_id,
                extra_before={"link": rows.link_state(link)},
                extra_after={"link": rows.link_state(link_of(connection, (*link.ends, str(link.relation))))},
                also=(link.target_id,),
            )
            return link

    def links(
        self,
        memory_ids: Sequence[int] | None = None,
        *,
        relations: Collection[Relation] | None = None,
    ) -> list[Link]:
        """Links whose ends are both live and visible. With ids: those that start or end at one of them."""
        seen, bound = conditions.visible(self._scope)
        # EXISTS looks up each end by key; IN with a list of visible memories was computed again for every link.
        shown = (
            f"EXISTS (SELECT 1 FROM memory"
            f" WHERE memory.project_id = @p AND memory.id = link.{{}} AND {_LIVE} AND {seen})"
        )
        ends = f"{shown.format('source_id')} AND {shown.format('target_id')} AND @own_link"
        test: str = "true"
        values: list[Any] = []
        if memory_ids is not None:
            arguments = sorted(set(memory_ids))
            select = "SELECT id FROM link WHERE link.project_id = @p AND {} IN @list(?)"
            test, values = (
                f"link.id IN ({select.format('source_id')} UNION {select.format('target_id')})",
                [arguments, arguments],
            )
        if relations is not None:
            test += f" AND relation IN ({', '.join('?' * len(relations))})"
            values += [str(relation) for relation in relations]
        sql = f"SELECT {rows.LINK} FROM link WHERE link.project_id = @p AND {test} AND {ends} ORDER BY link.id"
        with self._database.reading(own=True) as connection:
            if connection.link_changes:  # of an open `together`
                with self._database.writing() as joined:
                    declared_links.follow_changes(joined)
            return [rows.link_from(row) for row in connection.fetch_once(sql, [*values, *bound, *bound])]

    def history(
        self,
        memory_id: int | None = None,
        *,
        spec_folder: str | None = None,
        ledger: Collection[int] | None = None,
        limit: int | None = None,
    ) -> list[HistoryEntry]:
        """Newest first."""
        seen, bound = conditions.visible(self._scope)
        tests: list[str] = ["true"]
        values: list[Any] = []
        if memory_id is not None:
            with self._database.reading() as connection:
                require(connection, self._scope, memory_id, live=False)
            tests, values = ["history.memory_id = ?"], [memory_id]
        if spec_folder is not None:
            tests.append("history.spec_folder = ?")
            values.append(spec_folder)
        if ledger is not None:
            tests.append("ledger_sequence IN @list(?)")
            values.append(sorted(ledger))
        # Select the newest by time and sequence only, so that no complete rows are sorted.
        most = "" if limit is None else f"ORDER BY at DESC, history.sequence DESC LIMIT {max(0, limit):d}"
        wanted = (
            "SELECT history.sequence FROM history"
            " JOIN memory ON memory.project_id = @p AND memory.id = history.memory_id"
            f" WHERE history.project_id = @p AND history.checkout_id = @c AND {' AND '.join(tests)} AND {seen} {most}"
        )
        sql = (
            "SELECT sequence, memory_id, event, before, after, actor, at, history.spec_folder, ledger_sequence,"
            " (SELECT operation FROM ledger WHERE ledger.project_id = @p AND ledger.sequence = ledger_sequence"
            ' AND (operation LIKE \'%"user":%\' OR operation LIKE \'%"kind":"merge"%\'))'
            " FROM history WHERE history.project_id = @p AND history.checkout_id = @c"
            f" AND history.sequence IN ({wanted}) ORDER BY at DESC, history.sequence DESC"
        )
        with self._database.reading() as connection:
            return [rows.history_from(row) for row in connection.execute(sql, [*values, *bound])]

    def ledger(
        self,
        *,
        after: int = 0,
        limit: int | None = None,
        operation: str | None = None,
        last: bool = False,
    ) -> Iterator[LedgerEntry]:
        """In order. Without a scope: the whole chain; a scope sees only its checkout's entries about its memories."""
        seen, values = conditions.visible(self._scope)
        hidden = (
            "@ids_in(memory_ids) AS named WHERE NOT EXISTS"
            f" (SELECT 1 FROM memory WHERE memory.project_id = @p AND memory.id = named.id AND {seen})"
        )
        test = "true" if self._scope is None else f"ledger.checkout_id = @c AND NOT EXISTS (SELECT 1 FROM {hidden})"
        if operation is not None:
            test, values = f"operation_id = ? AND {test}", [operation, *values]
        if last:
            with self._database.reading() as connection:
                sql = (
                    f"SELECT {rows.LEDGER} FROM ledger"
                    f" WHERE ledger.project_id = @p AND {test} ORDER BY sequence DESC LIMIT 1"
                )
                yield from map(rows.ledger_from, fetch(connection, sql, values))
            return
        left, most = limit, _LEDGER_PAGE
        sql = (
            f"SELECT {{}} FROM ledger"
            f" WHERE ledger.project_id = @p AND sequence > ? AND {test} ORDER BY sequence LIMIT ?"
        )
        while left is None or left > 0:
            size = most if left is None else min(left, most)
            with self._database.reading() as connection:
                try:
                    page = fetch(connection, sql.format(rows.LEDGER), [after, *values, size])
                except UnicodeDecodeError as error:  # damaged: read one by one to find the entry
                    if size == 1:
                        unreadable = fetch(connection, sql.format("sequence"), [after, *values, 1])[0][0]
                        raise Unreadable(unreadable) from error
                    most = 1
                    continue
            yield from (rows.ledger_from(row) for row in page)
            if len(page) < size:
                return
            after = page[-1][0]
            left = None if left is None else left - len(page)

    def is_committed(self, operation_id: str) -> bool:
        with self._database.reading() as connection:
            matching = connection.fetch_once(
                "SELECT 1 FROM ledger WHERE ledger.project_id = @p AND operation_id = ? LIMIT 1", (operation_id,)
            )
        return bool(matching)

    def session(self, session_id: str) -> Session | None:
        with self._database.reading() as connection:
            return self._session_in(connection, session_id)

    def change_session(self, session_id: str, change: Callable[[Session], Session], at: datetime) -> None:
        with self._database.writing(aside=True) as connection:
            changed = change(self._session_in(connection, session_id) or Session(session_id))
            attention = [(item.memory_id, item.strength, item.turn, item.via) for item in changed.attention]
            connection.execute(
                PUT_SESSION,
                (
                    rows.clean(changed.id), *session_namespace(self._scope), changed.turn, changed.loading,
                    changed.last_save_turn, rows.micros(at), rows.plain(attention), rows.plain(sorted(changed.sent)),
                ),
            )  # fmt: skip

    def _session_in(self, connection: Connection, session_id: str) -> Session | None:
        matching = connection.fetch_once(
            "SELECT id, turn, loading, last_save_turn, seen_at, attention, sent FROM session"
            " WHERE project_id = @p AND id = ? AND owner = ? AND project = ?",
            (rows.clean(session_id), *session_namespace(self._scope)),
        )
        return session_from(matching[0]) if matching else None


# --- amendments


@dataclass(frozen=True, slots=True)
class _Amendment:
    overrides: Mapping[str, Any] | None
    outdated: bool | None
    vouched: bool | Unchanged | None
    validation: tuple[Decimal, int] | None


def _amend(connection: Connection, recorder: Recorder, memory: Memory, given: _Amendment) -> Memory:
    """Apply an amendment in the current checkout. The caller does so in each, as amendments hold for all checkouts."""
    if given.overrides is not None:
        memory = _override(connection, recorder, memory, given.overrides)
    if given.outdated is not None:
        sql = "UPDATE memory SET outdated = ? WHERE project_id = @p AND id = ?"
        connection.execute(sql, (given.outdated, memory.id))
        memory = recorder.entry(Mutation.ARCHIVE if given.outdated else Mutation.UPDATE, memory, memory.id)
    if given.vouched is not UNCHANGED:
        memory = _vouch(connection, recorder, memory, given.vouched)
    if given.validation is not None:
        memory = _validate(connection, recorder, memory, *given.validation)
    return memory


def _override(connection: Connection, recorder: Recorder, before: Memory, attributes: Mapping[str, Any]) -> Memory:
    stored = connection.execute(
        "SELECT attributes FROM override WHERE override.project_id = @p AND memory_id = ?", (before.id,)
    ).get
    overrides = json.loads(stored or "{}")
    wanted = overrides | _as_json(before.attributes, attributes)
    remaining = {name: value for name, value in wanted.items() if value is not None}
    connection.execute(upsert("override", "memory_id", "attributes"), (before.id, rows.plain(remaining)))
    _apply(connection, recorder, before)
    # The attributes do not show which of them were overridden, but undo needs to know.
    return recorder.entry(
        None, before, before.id, extra_before={"overrides": overrides}, extra_after={"overrides": remaining}
    )


def _vouch(connection: Connection, recorder: Recorder, before: Memory, vouched: bool | None) -> Memory:
    stored = connection.execute("SELECT vouched FROM memory WHERE memory.project_id = @p AND id = ?", (before.id,)).get
    connection.execute("UPDATE memory SET vouched = ? WHERE project_id = @p AND id = ?", (vouched, before.id))
    _apply(connection, recorder, before)
    # None (no statement) is not the same as False (a person denied it): undo needs the difference.
    return recorder.entry(
        Mutation.UPDATE,
        before,
        before.id,
        extra_before={"vouched": None if stored is None else bool(stored)},
        extra_after={"vouched": vouched},
    )


def _validate(connection: Connection, recorder: Recorder, before: Memory, confidence: Decimal, count: int) -> Memory:
    connection.execute(
        "INSERT INTO usage (project_id, memory_id, validation_count, confidence) VALUES (@p, :id, :count, :confidence)"
        " ON CONFLICT (project_id, memory_id) DO UPDATE SET validation_count = :count, confidence = :confidence",
        {"id": before.id, "count": count, "confidence": str(confidence)},
    )
    return recorder.entry(Mutation.UPDATE, before, before.id)


_KINDS: dict[str, Callable[[Any], Any]] = {
    "tier": Tier,
    "context_type": ContextType,
    "triggers": tuple,
    "weight": float,
}


def _as_json(current: Attributes, given: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(given) - set(rows.ATTRIBUTES))
    if unknown:
        raise BadParameter(f"{unknown[0]} is no attribute of a memory", hint=f"one of {', '.join(rows.ATTRIBUTES)}")
    present = {name: value for name, value in given.items() if value is not None}
    values = {name: _KINDS[name](value) if name in _KINDS else value for name, value in present.items()}
    plain = rows.attributes_json(replace(current, **values))
    return {name: plain[name] if name in present else None for name in given}


def _apply(connection: Connection, recorder: Recorder, before: Memory) -> None:
    """Recompute the attributes after a change, and update the text index if the title changed."""
    after = set_attributes(connection, before.id)
    if after != before.attributes:
        connection.execute(
            "UPDATE memory SET updated_at = ? WHERE project_id = @p AND id = ?", (recorder.at, before.id)
        )
    if after.title != before.title and before.presence is Presence.LIVE:
        blob = connection.execute(
            "SELECT text FROM content WHERE content.project_id = @p AND hash = ?", (before.content_hash,)
        ).get
        passage_rows.reindex_passages(connection, before.id, after.title, rows.unpack(blob))
    if after.title != before.title:
        declared_links.changed(connection, before.id, before)


# --- links


def link_of(connection: Connection, key: tuple[int, int, str]) -> Link | None:
    """The link with this source, target and relation."""
    sql = (
        f"SELECT {rows.LINK} FROM link WHERE link.project_id = @p AND source_id = ? AND target_id = ? AND relation = ?"
        f" AND @own_link"
    )
    row = connection.execute(sql, key).fetchone()
    return rows.link_from(row) if row else None


def _link_id(connection: Connection, wanted: int | None) -> int:
    if wanted is None:
        return connection.next_id("link")
    connection.taken_id("link", wanted)
    return wanted


def _seen(connection: Connection, scope: Scope | None, link: Link) -> bool:
    seen, bound = conditions.visible(scope)
    sql = f"SELECT count(*) FROM memory WHERE memory.project_id = @p AND id IN (?, ?) AND {seen}"
    return bool(connection.execute(sql, [link.source_id, link.target_id, *bound]).get == 2)


# --- sessions


def session_from(row: tuple[Any, ...]) -> Session:
    id_, turn, loading, last_save_turn, seen_at, attention, sent = row
    return Session(
        id=id_,
        turn=turn,
        loading=loading,
        last_save_turn=last_save_turn,
        seen_at=rows.when(seen_at),
        attention=tuple(Attention(*parts) for parts in json.loads(attention)),
        sent=frozenset(json.loads(sent)),
    )
