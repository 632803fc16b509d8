"""What should a reader know of a memory besides its text? Slips in its file, loose links, missing vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import apsw

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.core.wording import counted
from spec_kit_memory.index.contract import Remark
from spec_kit_memory.index.sqlite import conditions, declared_links
from spec_kit_memory.index.sqlite.connection import Database, fetch

__all__ = ["collect"]


def collect(
    database: Database, scope: Scope | None, memory_ids: Sequence[int] | None = None, *, limit: int | None = None
) -> list[Remark]:
    seen, bound = conditions.visible(scope)
    where = f"memory.presence = 'live' AND {seen}"
    if memory_ids is not None:
        where += " AND memory.id IN (SELECT value FROM json_each(?))"
        bound = [*bound, json.dumps(list(memory_ids))]
    with database.reading(own=True) as connection:
        found = [
            *_slips(connection, where, bound),
            *_loose_links(connection, where, bound),
            *_failures(connection, where, bound),
        ]
    return sorted(found, key=lambda one: (one.path, one.kind, one.line or 0))[:limit]


def _slips(connection: apsw.Connection, where: str, bound: list[Any]) -> list[Remark]:
    sql = (
        "SELECT memory.id, memory.path, warnings FROM document JOIN memory ON memory.id = document.memory_id"
        f" WHERE warnings <> '[]' AND {where}"
    )
    return [
        Remark(memory_id, path, "file", message, line)
        for memory_id, path, warnings in fetch(connection, sql, bound)
        for message, line, _ in json.loads(warnings)
    ]


def _loose_links(connection: apsw.Connection, where: str, bound: list[Any]) -> list[Remark]:
    sql = (
        "SELECT DISTINCT memory.id, memory.path, memory.title FROM claim JOIN memory ON memory.id = claim.memory_id"
        f" WHERE {where}"
    )
    nobody = "no memory has this id, path or title; the link is made when one does"
    return [
        Remark(
            memory_id,
            path,
            "link",
            f"{name} {target!r}: {'that is this memory itself' if target in (str(memory_id), path, title) else nobody}",
        )
        for memory_id, path, title in fetch(connection, sql, bound)
        for name, target in declared_links.unresolved(connection, memory_id)
    ]


def _failures(connection: apsw.Connection, where: str, bound: list[Any]) -> list[Remark]:
    sql = (
        "SELECT memory.id, memory.path, reason, count(DISTINCT passage.hash) FROM failure JOIN passage USING (hash)"
        f" JOIN memory ON memory.id = memory_id WHERE vector_id IS NULL AND {where} GROUP BY 1, 2, 3"
    )
    return [
        Remark(memory_id, path, "vector", f"{counted(count, 'passage has', 'passages have')} no vector: {why}")
        for memory_id, path, why, count in fetch(connection, sql, bound)
    ]
