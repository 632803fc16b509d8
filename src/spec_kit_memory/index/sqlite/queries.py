"""What is stored? Memories, text, passages, links, history: always within a scope."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from spec_kit_memory.core.ledger import Unreadable
from spec_kit_memory.core.memory import (
    Filter,
    HistoryEntry,
    LedgerEntry,
    Link,
    Memory,
    Presence,
    Relation,
    Scope,
    Stamp,
    StoredPassage,
    VectorStatus,
    owner_of,
)
from spec_kit_memory.errors import BadParameter, MemoryNotFound
from spec_kit_memory.index.contract import BadFile, Stored
from spec_kit_memory.index.sqlite import conditions, rows
from spec_kit_memory.index.sqlite.connection import Database, fetch

__all__ = [
    "alike",
    "bad_files",
    "by_path",
    "count",
    "find",
    "get",
    "history",
    "ledger_entries",
    "ledger_head",
    "links",
    "newest_change",
    "not_found",
    "passages_of",
    "paths",
    "stored",
    "text",
    "text_of",
    "triggers",
]

_LIVE = "memory.presence = 'live'"
_ORDERS = {
    "created_at": "memory.created_at DESC NULLS LAST, memory.id DESC",
    "updated_at": "memory.updated_at DESC, memory.id DESC",
    "importance_weight": "memory.weight DESC, memory.id DESC",
    "path": "memory.path, memory.id",
}
_LEDGER_PAGE = 2_000  # entries per read, so that no read holds the log for a whole verification


def not_found(memory_id: int | str) -> MemoryNotFound:
    return MemoryNotFound(f"there is no memory {memory_id}", hint="`list()` shows the ids")


def get(database: Database, scope: Scope | None, memory_id: int, *, any_presence: bool = False) -> Memory:
    found = _select(database, scope, "memory.id = ?", [memory_id], live=not any_presence)
    if not found:
        raise not_found(memory_id)
    return found[0]


def by_path(database: Database, scope: Scope | None, path: str, *, any_presence: bool = False) -> Memory | None:
    """By its own path or an alias; where several share it, the live one, then the latest."""
    test = "(memory.path = ? OR memory.id IN (SELECT memory_id FROM alias WHERE path = ?))"
    found = _select(database, scope, test, [rows.clean(path)] * 2, live=not any_presence)
    return max(found, key=lambda memory: (memory.presence is Presence.LIVE, memory.updated_at), default=None)


def _select(
    database: Database, scope: Scope | None, test: str, values: Sequence[Any], *, live: bool = True, tail: str = ""
) -> list[Memory]:
    seen, bound = conditions.visible(scope)
    presence = _LIVE if live else "1"
    sql = f"SELECT {rows.MEMORY} WHERE {test} AND {presence} AND {seen} {tail}"
    with database.reading(own=True) as connection:
        found = [rows.memory_from(row) for row in connection.execute(sql, [*values, *bound])]
    if scope is None or scope.prefixes is None:
        return found
    # A second name may lie where this scope does not reach.
    return [
        replace(memory, aliases=tuple(path for path in memory.aliases if conditions.reaches(scope, path)))
        for memory in found
    ]


def newest_change(database: Database, scope: Scope) -> int:
    """The generation in which something of this scope last changed."""
    seen, bound = conditions.visible(scope)
    with database.reading() as connection:
        return int(connection.execute(f"SELECT coalesce(max(changed), 0) FROM memory WHERE {seen}", bound).get)


def find(
    database: Database,
    scope: Scope | None,
    where: Filter,
    *,
    order: str = "created_at",
    limit: int | None = None,
    offset: int = 0,
    presence: Presence = Presence.LIVE,
) -> list[Memory]:
    if order not in _ORDERS:
        raise BadParameter(f"cannot sort by {order}", hint=f"one of {', '.join(_ORDERS)}")
    test, values = conditions.matching(where)
    tail = f"ORDER BY {_ORDERS[order]} LIMIT {-1 if limit is None else max(0, limit):d} OFFSET {max(0, offset):d}"
    return _select(database, scope, f"{test} AND memory.presence = ?", [*values, str(presence)], live=False, tail=tail)


def count(database: Database, scope: Scope | None, where: Filter, *, presence: Presence = Presence.LIVE) -> int:
    test, values = conditions.matching(where)
    seen, bound = conditions.visible(scope)
    sql = (
        "SELECT count(*) FROM memory LEFT JOIN usage ON usage.memory_id = memory.id"
        f" WHERE {test} AND memory.presence = ? AND {seen}"
    )
    with database.reading() as connection:
        return int(connection.execute(sql, [*values, str(presence), *bound]).get)


def alike(database: Database, scope: Scope | None, fingerprint: str) -> list[Memory]:
    return _select(database, scope, "memory.fingerprint = ?", [fingerprint], tail="ORDER BY memory.id")


def paths(database: Database, scope: Scope | None) -> list[str]:
    seen, bound = conditions.visible(scope)
    with database.reading() as connection:
        return [path for (path,) in connection.execute(f"SELECT path FROM memory WHERE {_LIVE} AND {seen}", bound)]


# --- text and passages


def text(database: Database, scope: Scope | None, memory_id: int) -> str:
    """The whole redacted text, also of one that is gone or forgotten."""
    seen, bound = conditions.visible(scope)
    sql = f"SELECT content.text FROM memory JOIN content ON content.hash = content_hash WHERE memory.id = ? AND {seen}"
    with database.reading() as connection:
        blob = connection.execute(sql, [memory_id, *bound]).get
    if blob is None:
        raise not_found(memory_id)
    return rows.unpack(blob)


def text_of(database: Database, scope: Scope | None, content_hash: str) -> str | None:
    """Any text that a visible memory has or had."""
    seen, bound = conditions.visible(scope)
    owns = (
        f"EXISTS (SELECT 1 FROM memory WHERE content_hash = content.hash AND {seen}) OR EXISTS (SELECT 1 FROM history"
        " JOIN memory ON memory.id = history.memory_id"
        f" WHERE (history.hash_before = content.hash OR history.hash_after = content.hash) AND {seen})"
    )
    with database.reading() as connection:
        blob = connection.execute(
            f"SELECT text FROM content WHERE hash = ? AND ({owns})", [content_hash, *bound, *bound]
        ).get
    return None if blob is None else rows.unpack(blob)


def passages_of(database: Database, scope: Scope | None, memory_id: int) -> list[StoredPassage]:
    return _passages(database, scope, "passage.memory_id = ?", [memory_id])


def _passages(database: Database, scope: Scope | None, test: str, values: Sequence[Any]) -> list[StoredPassage]:
    seen, bound = conditions.visible(scope)
    columns = ", ".join(f"passage.{name.strip()}" for name in rows.PASSAGE.split(","))
    sql = (
        f"SELECT {columns} FROM passage JOIN memory ON memory.id = passage.memory_id"
        f" WHERE {test} AND {seen} ORDER BY passage.memory_id, passage.ordinal"
    )
    with database.reading() as connection:
        return [rows.passage_from(row) for row in connection.execute(sql, [*values, *bound])]


def unembedded(database: Database, scope: Scope | None, passage_ids: Sequence[int]) -> frozenset[int]:
    seen, bound = conditions.visible(scope)
    test, values = conditions.in_ids(passage_ids, "passage.id")
    sql = (
        "SELECT passage.id FROM passage JOIN memory ON memory.id = passage.memory_id"
        f" WHERE {test} AND vector_id IS NULL AND {seen}"
    )
    with database.reading() as connection:
        return frozenset(id_ for (id_,) in fetch(connection, sql, [*values, *bound]))


# --- what sync and triggers need


def stored(database: Database, scope: Scope | None, path: str | None = None) -> dict[str, Stored]:
    """Every known path, aliases included, or that one."""
    return _known(database, scope, *(("1", []) if path is None else ("{name}.path = ?", [path])))


def stored_below(database: Database, scope: Scope | None, places: Sequence[str]) -> dict[str, Stored]:
    # The character after the slash ends what is below a folder. Written so that each half uses the index of paths.
    named = "SELECT value FROM json_each(?)"
    below = (
        "SELECT part.path FROM json_each(?) AS place CROSS JOIN {table} AS part"
        " ON part.path >= place.value || '/' AND part.path < place.value || '0'"
    )
    given = json.dumps(sorted(set(places)))
    return _known(database, scope, f"{{name}}.path IN ({named} UNION {below})", [given, given])


def stored_like(database: Database, scope: Scope | None, key: str) -> dict[str, Stored]:
    # Only an empty body has no fingerprint: the others of one raw hash have one fingerprint, which is indexed.
    test = "{name}.fingerprint IN (?, '') AND ({name}.fingerprint = ? OR {hashed}.raw_hash = ?)"
    return _known(database, scope, test, [key, key, key])


def _known(database: Database, scope: Scope | None, test: str, values: list[Any]) -> dict[str, Stored]:
    """A live memory wins a path over one that is gone."""
    seen, bound = conditions.visible(scope)
    here = test.format(name="memory", table="memory", hashed="document")
    there = test.format(name="alias", table="alias", hashed="alias")
    own = (
        "SELECT memory.path, memory.id, size, mtime_ns, seen_ns, raw_hash, fingerprint, presence, vector_status, 0,"
        f" spec_folder FROM memory LEFT JOIN document ON document.memory_id = memory.id WHERE {here} AND {seen}"
        " ORDER BY presence = 'live', updated_at"
    )
    second = (
        "SELECT alias.path, memory.id, alias.size, alias.mtime_ns, alias.seen_ns, alias.raw_hash, alias.fingerprint,"
        " presence, vector_status, 1, spec_folder FROM alias JOIN memory ON memory.id = alias.memory_id"
        f" LEFT JOIN document ON document.memory_id = memory.id WHERE {there} AND {seen}"
    )
    with database.reading(own=True) as connection:
        found = {row[0]: _stored(row) for row in connection.execute(own, [*values, *bound])}
        for row in connection.execute(second, [*values, *bound]):
            if row[0] not in found or found[row[0]].presence is not Presence.LIVE:
                found[row[0]] = _stored(row)
    return found


def _stored(row: tuple[Any, ...]) -> Stored:
    _, memory_id, size, mtime_ns, seen_ns, raw_hash, fingerprint, presence, status, alias, folder = row
    return Stored(
        memory_id=memory_id,
        stamp=Stamp(size or 0, mtime_ns or 0, seen_ns or 0),
        raw_hash=raw_hash or "",
        fingerprint=fingerprint,
        presence=Presence(presence),
        vector_status=VectorStatus(status or "pending"),
        alias=bool(alias),
        spec_folder=folder,
    )


def triggers(database: Database, scope: Scope | None) -> list[tuple[int, str]]:
    seen, bound = conditions.visible(scope)
    sql = (
        'SELECT memory_id, phrase FROM "trigger" JOIN memory ON memory.id = memory_id'
        f" WHERE {seen} ORDER BY memory_id, phrase"
    )
    with database.reading() as connection:
        return [(memory_id, phrase) for memory_id, phrase in connection.execute(sql, bound)]


# --- links


def links(
    database: Database,
    scope: Scope | None,
    memory_ids: Sequence[int] | None = None,
    *,
    relations: Collection[Relation] | None = None,
) -> list[Link]:
    """Both ends must be live and visible. With ids: links that touch one of them."""
    seen, bound = conditions.visible(scope)
    # By key for each end: as a list of all that is shown, it was made anew for every link.
    shown = f"EXISTS (SELECT 1 FROM memory WHERE memory.id = link.{{}} AND {_LIVE} AND {seen})"
    ends = f"{shown.format('source_id')} AND {shown.format('target_id')}"
    test, values = "1", []
    if memory_ids is not None:
        given = json.dumps(sorted(set(memory_ids)))
        one = "SELECT id FROM link WHERE {} IN (SELECT value FROM json_each(?))"
        test, values = f"link.id IN ({one.format('source_id')} UNION {one.format('target_id')})", [given, given]
    if relations is not None:
        test += f" AND relation IN ({', '.join('?' * len(relations))})"
        values += [str(relation) for relation in relations]
    sql = f"SELECT {rows.LINK} FROM link WHERE {test} AND {ends} ORDER BY link.id"
    with database.reading(own=True) as connection:
        return [rows.link_from(row) for row in connection.execute(sql, [*values, *bound, *bound])]


# --- history, ledger, bad files


def history(
    database: Database,
    scope: Scope | None,
    memory_id: int | None = None,
    *,
    spec_folder: str | None = None,
    ledger: Collection[int] | None = None,
    limit: int | None = None,
) -> list[HistoryEntry]:
    """Newest first."""
    seen, bound = conditions.visible(scope)
    tests: list[str] = ["1"]
    values: list[Any] = []
    if memory_id is not None:
        get(database, scope, memory_id, any_presence=True)
        tests, values = ["history.memory_id = ?"], [memory_id]
    if spec_folder is not None:
        tests.append("history.spec_folder = ?")
        values.append(spec_folder)
    if ledger is not None:
        tests.append("ledger_sequence IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(sorted(ledger)))
    sql = (
        "SELECT sequence, memory_id, event, before, after, actor, at, history.spec_folder, ledger_sequence FROM history"
        f" JOIN memory ON memory.id = history.memory_id WHERE {' AND '.join(tests)} AND {seen}"
        f" ORDER BY at DESC, sequence DESC LIMIT {-1 if limit is None else max(0, limit):d}"
    )
    with database.reading() as connection:
        return [rows.history_from(row) for row in connection.execute(sql, [*values, *bound])]


def ledger_entries(
    database: Database,
    scope: Scope | None,
    *,
    after: int = 0,
    limit: int | None = None,
    operation: str | None = None,
) -> Iterator[LedgerEntry]:
    """In order. The whole chain without a scope; a scope sees only what is about its memories."""
    seen, values = conditions.visible(scope)
    hidden = f"json_each(memory_ids) WHERE value NOT IN (SELECT id FROM memory WHERE {seen})"
    test = "1" if scope is None else f"NOT EXISTS (SELECT 1 FROM {hidden})"
    if operation is not None:
        test, values = f"operation_id = ? AND {test}", [operation, *values]
    left, most = limit, _LEDGER_PAGE
    sql = f"SELECT {{}} FROM ledger WHERE sequence > ? AND {test} ORDER BY sequence LIMIT ?"
    while left is None or left > 0:
        size = most if left is None else min(left, most)
        with database.reading() as connection:
            try:
                page = fetch(connection, sql.format(rows.LEDGER), [after, *values, size])
            except UnicodeDecodeError as error:  # damaged: one by one up to the entry that is
                if size == 1:
                    raise Unreadable(fetch(connection, sql.format("sequence"), [after, *values, 1])[0][0]) from error
                most = 1
                continue
        yield from (rows.ledger_from(row) for row in page)
        if len(page) < size:
            return
        after = page[-1][0]
        left = None if left is None else left - len(page)


def is_committed(database: Database, operation_id: str) -> bool:
    with database.reading() as connection:
        found = connection.execute("SELECT 1 FROM ledger WHERE operation_id = ? LIMIT 1", (operation_id,)).get
    return found is not None


def ledger_head(database: Database) -> LedgerEntry | None:
    with database.reading() as connection:
        found = fetch(connection, f"SELECT {rows.LEDGER} FROM ledger ORDER BY sequence DESC LIMIT 1")
    return rows.ledger_from(found[0]) if found else None


def bad_files(database: Database, scope: Scope | None) -> list[BadFile]:
    with database.reading() as connection:
        found = fetch(connection, "SELECT path, code, message, seen_at FROM bad_file ORDER BY path")
    return [
        BadFile(path, code, message, rows.moment(seen_at))
        for path, code, message, seen_at in found
        if conditions.allows(scope, path=path, owner=owner_of(path), project=None)
    ]
