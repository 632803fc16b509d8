"""How do metadata, use, trust, links and sessions change?

Each function is one transaction. What changes a memory leaves history and ledger; what only
counts (use, sessions, bad files) does not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import apsw

from spec_kit_memory.core.memory import (
    Attention,
    Attributes,
    Change,
    ContextType,
    Link,
    Memory,
    Mutation,
    Origin,
    Presence,
    Scope,
    Session,
    Tier,
)
from spec_kit_memory.errors import BadParameter, OutOfRange, SelfLink
from spec_kit_memory.index.contract import BadFile
from spec_kit_memory.index.sqlite import conditions, declared_links, rows, text_index
from spec_kit_memory.index.sqlite.connection import Database
from spec_kit_memory.index.sqlite.documents import require, set_attributes
from spec_kit_memory.index.sqlite.recorder import Recorder

__all__ = [
    "drop_link",
    "link_of",
    "mark_outdated",
    "override",
    "put_link",
    "put_session",
    "record_use",
    "report_bad",
    "session",
    "trust",
    "validate",
]


# --- metadata


def override(
    database: Database, scope: Scope | None, memory_id: int, attributes: Mapping[str, Any], change: Change
) -> Memory:
    with database.writing() as connection:
        before = require(connection, scope, memory_id)
        recorder = Recorder(connection, change)
        stored = connection.execute("SELECT attributes FROM override WHERE memory_id = ?", (memory_id,)).get
        known = json.loads(stored or "{}")
        wanted = known | _as_json(before.attributes, attributes)
        kept = {name: value for name, value in wanted.items() if value is not None}
        connection.execute(
            "INSERT OR REPLACE INTO override (memory_id, attributes) VALUES (?, ?)", (memory_id, rows.plain(kept))
        )
        _apply(connection, recorder, before)
        # What was overridden before cannot be told from what the document says: undo needs both.
        return recorder.entry(
            None, before, memory_id, extra_before={"overrides": known}, extra_after={"overrides": kept}
        )


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
    said = {name: value for name, value in given.items() if value is not None}
    values = {name: _KINDS[name](value) if name in _KINDS else value for name, value in said.items()}
    plain = rows.attributes_json(replace(current, **values))
    return {name: plain[name] if name in said else None for name in given}


def _apply(connection: apsw.Connection, recorder: Recorder, before: Memory) -> None:
    """Attributes may follow from something that changed; the text index holds the title."""
    after = set_attributes(connection, before.id)
    if after != before.attributes:
        connection.execute("UPDATE memory SET updated_at = ? WHERE id = ?", (recorder.at, before.id))
    if after.title != before.title and before.presence is Presence.LIVE:
        blob = connection.execute("SELECT text FROM content WHERE hash = ?", (before.content_hash,)).get
        text_index.show_again(connection, before.id, after.title, rows.unpack(blob))
        declared_links.others_resolved(connection, before.id, old=before)


def mark_outdated(database: Database, scope: Scope | None, memory_id: int, outdated: bool, change: Change) -> None:
    with database.writing() as connection:
        before = require(connection, scope, memory_id)
        recorder = Recorder(connection, change)
        connection.execute("UPDATE memory SET outdated = ? WHERE id = ?", (outdated, memory_id))
        recorder.entry(Mutation.ARCHIVE if outdated else Mutation.UPDATE, before, memory_id)


def trust(database: Database, scope: Scope | None, memory_id: int, trusted: bool | None, change: Change) -> None:
    with database.writing() as connection:
        before = require(connection, scope, memory_id)
        recorder = Recorder(connection, change)
        vouched = connection.execute("SELECT vouched FROM memory WHERE id = ?", (memory_id,)).get
        connection.execute("UPDATE memory SET vouched = ? WHERE id = ?", (trusted, memory_id))
        _apply(connection, recorder, before)
        # That nobody has said anything is not the same as that somebody has said no: undo needs it.
        recorder.entry(
            Mutation.UPDATE,
            before,
            memory_id,
            extra_before={"vouched": None if vouched is None else bool(vouched)},
            extra_after={"vouched": trusted},
        )


def validate(
    database: Database, scope: Scope | None, memory_id: int, confidence: Decimal, count: int, change: Change
) -> None:
    if not 0 <= confidence <= 1:
        raise OutOfRange(f"confidence {confidence} is not between 0 and 1")
    with database.writing() as connection:
        before = require(connection, scope, memory_id)
        recorder = Recorder(connection, change)
        connection.execute(
            "INSERT INTO usage (memory_id, validation_count, confidence) VALUES (:id, :count, :confidence)"
            " ON CONFLICT (memory_id) DO UPDATE SET validation_count = :count, confidence = :confidence",
            {"id": memory_id, "count": count, "confidence": str(confidence)},
        )
        recorder.entry(Mutation.UPDATE, before, memory_id)


def record_use(database: Database, scope: Scope | None, counts: Mapping[int, float], at: datetime) -> None:
    """Ids that are unknown or out of scope are left out: use is counted after the fact."""
    seen, bound = conditions.visible(scope)
    with database.writing(aside=True) as connection:
        connection.execute("UPDATE counter SET used = used + 1")
        used = connection.execute("SELECT used FROM counter").get
        for memory_id, count in counts.items():
            if connection.execute(f"SELECT 1 FROM memory WHERE id = ? AND {seen}", [memory_id, *bound]).get:
                connection.execute(
                    "INSERT INTO usage (memory_id, access_count, last_access, used) VALUES (:id, :count, :at, :used)"
                    " ON CONFLICT (memory_id) DO UPDATE SET access_count = access_count + :count, used = :used,"
                    " last_access = max(coalesce(last_access, :at), :at)",
                    {"id": memory_id, "count": count, "at": rows.micros(at), "used": used},
                )


# --- links


def put_link(database: Database, scope: Scope | None, link: Link, change: Change) -> Link:
    if link.source_id == link.target_id:
        raise SelfLink(f"memory {link.source_id} cannot be linked to itself", hint="name two different memories")
    if not 0 <= link.strength <= 1:
        raise OutOfRange(f"strength {link.strength} is not between 0 and 1")
    with database.writing() as connection:
        before = require(connection, scope, link.source_id)
        require(connection, scope, link.target_id)
        key = (link.source_id, link.target_id, str(link.relation))
        old = link_of(connection, key)
        recorder = Recorder(connection, change)
        taken = connection.execute("SELECT 1 FROM link WHERE id = ?", (link.id,)).get
        undoing = change.operation is not None and change.operation.kind == "undo"
        created_at = "excluded.created_at" if undoing else "coalesce(link.created_at, excluded.created_at)"
        connection.execute(
            "INSERT INTO link (id, source_id, target_id, relation, strength, evidence, origin, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (source_id, target_id, relation) DO UPDATE SET"
            " strength = excluded.strength, evidence = excluded.evidence, origin = excluded.origin, claimant = NULL,"
            f" created_at = {created_at} WHERE link.origin <> 'hand' OR excluded.origin = 'hand' OR {undoing}",
            (
                link.id if link.id > 0 and not taken else None,
                *key,
                link.strength,
                rows.clean(link.evidence),
                str(link.origin),
                rows.micros(link.created_at or change.at),
            ),
        )
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


def drop_link(database: Database, scope: Scope | None, link_id: int, change: Change) -> Link:
    with database.writing() as connection:
        row = connection.execute(f"SELECT {rows.LINK} FROM link WHERE id = ?", (link_id,)).fetchone()
        link = rows.link_from(row) if row else None
        if link is None or not _seen(connection, scope, link):
            raise BadParameter(f"there is no link {link_id}", hint="`why(ID)` shows the links of a memory")
        if link.origin is Origin.FILE:
            raise BadParameter(
                f"link {link_id} comes from the front matter of a file",
                hint="take it out of causal_links there: it would come back with the next scan",
            )
        before = require(connection, scope, link.source_id, live=False)
        recorder = Recorder(connection, change)
        connection.execute("DELETE FROM link WHERE id = ?", (link_id,))
        if change.operation is not None and change.operation.kind == "undo":
            # A link by hand had taken the place of one that a file asks for.
            for memory_id in (link.source_id, link.target_id):
                declared_links.resolve(connection, memory_id)
        recorder.entry(
            Mutation.UPDATE,
            before,
            link.source_id,
            extra_before={"link": rows.link_state(link)},
            extra_after={"link": rows.link_state(link_of(connection, (*link.ends, str(link.relation))))},
            also=(link.target_id,),
        )
        return link


def link_of(connection: apsw.Connection, key: tuple[int, int, str]) -> Link | None:
    """The link of that source, target and relation."""
    sql = f"SELECT {rows.LINK} FROM link WHERE source_id = ? AND target_id = ? AND relation = ?"
    row = connection.execute(sql, key).fetchone()
    return rows.link_from(row) if row else None


def _seen(connection: apsw.Connection, scope: Scope | None, link: Link) -> bool:
    seen, bound = conditions.visible(scope)
    sql = f"SELECT count(*) FROM memory WHERE id IN (?, ?) AND {seen}"
    return bool(connection.execute(sql, [link.source_id, link.target_id, *bound]).get == 2)


# --- sessions


def put_session(database: Database, scope: Scope | None, given: Session, at: datetime) -> None:
    attention = [(one.memory_id, one.strength, one.turn, one.via) for one in given.attention]
    with database.writing(aside=True) as connection:
        connection.execute(
            "INSERT OR REPLACE INTO session (id, owner, project, turn, loading, last_save_turn, seen_at, attention,"
            " sent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                rows.clean(given.id), *_namespace(scope), given.turn, given.loading,
                given.last_save_turn, rows.micros(at), rows.plain(attention), rows.plain(sorted(given.sent)),
            ),
        )  # fmt: skip


def session(database: Database, scope: Scope | None, session_id: str) -> Session | None:
    with database.reading() as connection:
        row = connection.execute(
            "SELECT id, turn, loading, last_save_turn, seen_at, attention, sent FROM session"
            " WHERE id = ? AND owner = ? AND project = ?",
            (rows.clean(session_id), *_namespace(scope)),
        ).fetchone()
    return session_from(row) if row else None


def _namespace(scope: Scope | None) -> tuple[str, str]:
    """Sessions of one user are not another's."""
    return (scope.user or "", scope.project or "") if scope else ("", "")


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


# --- operational facts


def report_bad(database: Database, bad: Sequence[BadFile], *, cleared: Sequence[str] = ()) -> None:
    with database.writing() as connection:
        connection.executemany("DELETE FROM bad_file WHERE path = ?", [(rows.clean(path),) for path in cleared])
        connection.executemany(
            "INSERT OR REPLACE INTO bad_file (path, code, message, seen_at) VALUES (?, ?, ?, ?)",
            [(rows.clean(one.path), one.code, rows.clean(one.message), rows.micros(one.seen_at)) for one in bad],
        )
