"""How are stored documents read? Memories, text, passages and the data of scans, always within a scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, overload

from spec_kit_memory.advice import advise
from spec_kit_memory.core.memory import (
    Filter,
    Memory,
    Presence,
    Stamp,
    StoredPassage,
    Tier,
    VectorStatus,
)
from spec_kit_memory.core.scope import reaches
from spec_kit_memory.errors import BadParameter, MemoryNotFound
from spec_kit_memory.index import rows
from spec_kit_memory.index.contract import EVERYTHING, Stored, Tally
from spec_kit_memory.index.sql import conditions
from spec_kit_memory.index.sql.view import View

if TYPE_CHECKING:
    from spec_kit_memory.core.raw_hits import RawHits

_LIVE = "memory.presence = 'live'"
_MOST = 10**15
_ORDERS = {
    "created_at": "memory.created_at DESC NULLS LAST, memory.id DESC",
    "updated_at": "memory.updated_at DESC, memory.id DESC",
    "importance_weight": "memory.weight DESC, memory.id DESC",
    "path": "memory.path, memory.id",
}


def not_found(memory_id: int | str) -> MemoryNotFound:
    """The error for a memory that does not exist or that the scope must not see."""
    return MemoryNotFound(f"there is no memory {memory_id}", hint=advise("list-ids"), memoryId=memory_id)


class Queries(View):
    @overload
    def get(self, memory_id: int, *, any_presence: bool = False) -> Memory: ...
    @overload
    def get(self, *, path: str, any_presence: bool = False) -> Memory | None: ...
    def get(
        self, memory_id: int | None = None, *, path: str | None = None, any_presence: bool = False
    ) -> Memory | None:
        """By id, or by path or alias: if several memories share a path, the live one, else the latest."""
        if path is not None:
            test = (
                "(memory.path = ? OR memory.id IN (SELECT memory_id FROM alias"
                " WHERE alias.project_id = @p AND path = ?))"
            )
            sharing = self._select(test, [rows.clean(path)] * 2, live=not any_presence)
            return max(sharing, key=lambda memory: (memory.presence is Presence.LIVE, memory.updated_at), default=None)
        memories = self._select("memory.id = ?", [memory_id], live=not any_presence)
        if not memories:
            raise not_found(memory_id or 0)
        return memories[0]

    def many(self, memory_ids: Sequence[int] = (), *, fingerprint: str | None = None) -> list[Memory]:
        if fingerprint is not None:
            return self._select("memory.fingerprint = ?", [fingerprint], tail="ORDER BY memory.id")
        return self._shared.row_cache.memories(self._scope, memory_ids)

    def find(
        self,
        where: Filter = EVERYTHING,
        *,
        order: str = "created_at",
        limit: int | None = None,
        offset: int = 0,
        presence: Presence = Presence.LIVE,
    ) -> list[Memory]:
        if order not in _ORDERS:
            raise BadParameter(f"cannot sort by {order}", hint=f"one of {', '.join(_ORDERS)}")
        test, values = conditions.matching(where)
        tail = (
            f"ORDER BY {_ORDERS[order]} LIMIT {_MOST if limit is None else max(0, limit):d} OFFSET {max(0, offset):d}"
        )
        return self._select(f"{test} AND memory.presence = ?", [*values, str(presence)], live=False, tail=tail)

    def count(self, where: Filter = EVERYTHING, *, presence: Presence = Presence.LIVE) -> int:
        if self._shared.loaded is not None and presence is Presence.LIVE:  # every search counts what it held back
            return self._shared.arrays.count(self._scope, where)
        test, values = conditions.matching(where)
        seen, bound = conditions.visible(self._scope)
        sql = (
            "SELECT count(*) FROM memory LEFT JOIN usage ON usage.project_id = @p AND usage.memory_id = memory.id"
            f" WHERE memory.project_id = @p AND {test} AND memory.presence = ? AND {seen}"
        )
        with self._database.reading() as connection:
            return int(connection.fetch_once(sql, [*values, str(presence), *bound])[0][0])

    def tally(self) -> list[Tally]:
        seen, bound = conditions.visible(self._scope)
        sql = (
            "SELECT spec_folder, archived_folder, tier, count(*), max(coalesce(created_at, updated_at)),"
            " max(updated_at), max(changed) FROM memory"
            f" WHERE memory.project_id = @p AND memory.presence = 'live' AND {seen} GROUP BY 1, 2, 3"
        )
        with self._database.reading() as connection:
            return [
                Tally(folder, bool(archived), Tier(tier), count, rows.moment(newest), rows.moment(updated), changed)
                for folder, archived, tier, count, newest, updated, changed in connection.fetch_once(sql, bound)
            ]

    def _select(self, test: str, values: Sequence[Any], *, live: bool = True, tail: str = "") -> list[Memory]:
        seen, bound = conditions.visible(self._scope)
        presence = _LIVE if live else "true"
        sql = f"SELECT {conditions.MEMORY} WHERE memory.project_id = @p AND {test} AND {presence} AND {seen} {tail}"
        with self._database.reading(own=True) as connection:
            memories = [rows.memory_from(row) for row in connection.fetch_once(sql, [*values, *bound])]
        if self._scope is None or self._scope.prefixes is None:
            return memories
        # An alias may be outside this scope.
        return [
            replace(memory, aliases=tuple(path for path in memory.aliases if reaches(self._scope, path)))
            for memory in memories
        ]

    @overload
    def text(self, memory_id: int) -> str: ...
    @overload
    def text(self, *, content_hash: str) -> str | None: ...
    @overload
    def text(self, *, content_hashes: Sequence[str]) -> dict[str, str]: ...
    def text(
        self,
        memory_id: int | None = None,
        *,
        content_hash: str | None = None,
        content_hashes: Sequence[str] | None = None,
    ) -> str | dict[str, str] | None:
        """The redacted text of a memory, even if gone or forgotten; or texts by hash that a visible one has or had."""
        if content_hashes is not None:
            return self._texts(content_hashes)
        if content_hash is not None:
            return self._texts([content_hash]).get(content_hash)
        seen, bound = conditions.visible(self._scope)
        sql = (
            "SELECT content.text FROM memory JOIN content ON content.project_id = @p AND content.hash = content_hash"
            f" WHERE memory.project_id = @p AND memory.id = ? AND {seen}"
        )
        with self._database.reading() as connection:
            text_rows = connection.fetch_once(sql, [memory_id, *bound])
        if not text_rows:
            raise not_found(memory_id or 0)
        return rows.unpack(text_rows[0][0])

    def _texts(self, content_hashes: Sequence[str]) -> dict[str, str]:
        seen, bound = conditions.visible(self._scope)
        owns = (
            f"EXISTS (SELECT 1 FROM memory"
            f" WHERE memory.project_id = @p AND content_hash = content.hash AND {seen}) OR EXISTS (SELECT 1"
            " FROM history JOIN memory ON memory.project_id = @p AND memory.id = history.memory_id"
            f" WHERE history.project_id = @p"
            f" AND (history.hash_before = content.hash OR history.hash_after = content.hash) AND {seen})"
        )
        sql = f"SELECT hash, text FROM content WHERE content.project_id = @p AND hash IN @list(?) AND ({owns})"
        with self._database.reading() as connection:
            text_rows = connection.fetch_once(sql, [list(content_hashes), *bound, *bound])
        return {hash_: rows.unpack(blob) for hash_, blob in text_rows}

    def passages(
        self, passage_ids: Sequence[int] = (), *, memory_ids: Sequence[int] | None = None
    ) -> list[StoredPassage]:
        if memory_ids is None:
            return self._shared.row_cache.passages(self._scope, passage_ids)
        seen, bound = conditions.visible(self._scope)
        columns = ", ".join(f"passage.{name.strip()}" for name in rows.PASSAGE.split(","))
        sql = (
            f"SELECT {columns} FROM passage JOIN memory ON memory.project_id = @p AND memory.id = passage.memory_id"
            f" WHERE passage.project_id = @p AND passage.memory_id IN @list(?) AND {seen}"
            " ORDER BY passage.memory_id, passage.ordinal"
        )
        with self._database.reading() as connection:
            return [rows.passage_from(row) for row in connection.fetch_once(sql, [list(memory_ids), *bound])]

    def stored(
        self, path: str | None = None, *, below: Sequence[str] | None = None, alike: str | None = None
    ) -> dict[str, Stored]:
        if path is not None:
            return self._stored("{name}.path = ?", [path])
        if below is not None:
            # Paths below a folder sort between "/" and "0", its next character. Each half uses the index of paths.
            inside = (
                "SELECT part.path FROM @texts(?) AS place CROSS JOIN {table} AS part WHERE part.project_id = @p"
                " AND part.path >= place.name || '/' AND part.path < place.name || '0'"
            )
            values = sorted(set(below))
            return self._stored(f"{{name}}.path IN (SELECT name FROM @texts(?) AS named UNION {inside})", [values] * 2)
        if alike is not None:
            # Only an empty body has no fingerprint. Others with one raw hash share a fingerprint, which is indexed.
            test = "{name}.fingerprint IN (?, '') AND ({name}.fingerprint = ? OR {hashed}.raw_hash = ?)"
            return self._stored(test, [alike, alike, alike])
        return self._stored("true", [])

    def _stored(self, test: str, values: list[Any]) -> dict[str, Stored]:
        """If several memories have a path, the live one takes precedence, then the one that was changed last."""
        seen, bound = conditions.visible(self._scope)
        here = test.format(name="memory", table="memory", hashed="document")
        there = test.format(name="alias", table="alias", hashed="alias")
        sql = (
            "SELECT memory.path, memory.id, size, mtime_ns, seen_ns, raw_hash, fingerprint, presence, vector_status,"
            " false AS is_alias, spec_folder, owner, project, citation.body IS NOT NULL, presence = 'live' AS is_live,"
            " updated_at FROM memory"
            " LEFT JOIN document ON document.project_id = @p AND document.memory_id = memory.id"
            f" {conditions.CITED} WHERE memory.project_id = @p AND {here} AND {seen}"
            " UNION ALL SELECT alias.path, memory.id, alias.size, alias.mtime_ns, alias.seen_ns, alias.raw_hash,"
            " alias.fingerprint, presence, vector_status, true, spec_folder, owner, project, true, true, 0"
            " FROM alias JOIN memory ON memory.project_id = @p AND memory.id = alias.memory_id"
            " LEFT JOIN document ON document.project_id = @p AND document.memory_id = memory.id"
            f" WHERE alias.project_id = @p AND {there} AND {seen}"
            " ORDER BY is_alias, is_live, updated_at"
        )
        stored: dict[str, Stored] = {}
        with self._database.reading(own=True) as connection:
            for path, *facts, _, _ in connection.execute(sql, [*values, *bound] * 2):
                item = _stored_from(*facts)
                if not item.alias or path not in stored or stored[path].presence is not Presence.LIVE:
                    stored[path] = item
        return stored

    def triggers(self) -> list[tuple[int, str]]:
        seen, bound = conditions.visible(self._scope)
        sql = (
            'SELECT memory_id, phrase FROM "trigger" JOIN memory ON memory.project_id = @p AND memory.id = memory_id'
            f' WHERE "trigger".project_id = @p AND {seen} ORDER BY memory_id, phrase'
        )
        with self._database.reading() as connection:
            return [(memory_id, phrase) for memory_id, phrase in connection.fetch_once(sql, bound)]

    def match(self, terms: Sequence[str], where: Filter, limit: int) -> RawHits:
        return self._shared.match_text(self._scope, terms, where, limit)


def _stored_from(
    memory_id: int,
    size: int | None,
    mtime_ns: int | None,
    seen_ns: int | None,
    raw_hash: str | None,
    fingerprint: str,
    presence: str,
    status: str | None,
    alias: bool,
    folder: str | None,
    owner: str | None,
    project: str | None,
    cited: bool,
) -> Stored:
    return Stored(
        memory_id=memory_id,
        stamp=Stamp(size or 0, mtime_ns or 0, seen_ns or 0),
        raw_hash=raw_hash or "",
        fingerprint=fingerprint,
        presence=Presence(presence),
        vector_status=VectorStatus(status or "pending"),
        alias=bool(alias),
        spec_folder=folder,
        owner=owner,
        project=project,
        cited=bool(cited),
    )
