"""How much is stored, of what kind? Numbers within a scope."""

from __future__ import annotations

from typing import Any

import apsw

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.store import filters, rows
from spec_kit_memory.store.database import Database, fetch, first

__all__ = ["collect"]


def collect(database: Database, scope: Scope) -> dict[str, Any]:
    seen, bound = filters.visible(scope)
    live = f"memory.presence = 'live' AND {seen}"
    with database.reading() as connection:
        return {
            "totals": _totals(connection, seen, live, bound),
            "tiers": _per(connection, "tier", "memory", live, bound),
            "sources": _per(connection, "source", "memory", live, bound),
            "context_types": _per(connection, "context_type", "memory", live, bound),
            "vectors": _per(
                connection,
                "coalesce(vector_status, 'pending')",
                "memory LEFT JOIN document ON document.memory_id = memory.id",
                live,
                bound,
            ),
            "folders": _folders(connection, live, bound),
            "links": _links(connection, live, bound),
            "embedding": _model(connection),
            "failures": _failures(connection, live, bound),
            "transactions": dict(fetch(connection, "SELECT name, count FROM tally ORDER BY name")),
            "size_bytes": first(connection, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[
                0
            ],
            "last_indexed": rows.when(first(connection, f"SELECT max(updated_at) FROM memory WHERE {seen}", bound)[0]),
        }


def _totals(connection: apsw.Connection, seen: str, live: str, bound: list[Any]) -> dict[str, int]:
    passages, tokens = first(
        connection,
        "SELECT coalesce(sum(passages), 0), coalesce(sum(tokens), 0)"
        f" FROM memory JOIN document ON document.memory_id = memory.id WHERE {live}",
        bound,
    )
    presence = _per(connection, "presence", "memory", seen, bound)
    triggers = f'SELECT count(*) FROM "trigger" JOIN memory ON memory.id = memory_id WHERE {live}'
    aliases = f"SELECT count(*) FROM alias JOIN memory ON memory.id = memory_id WHERE {live}"
    return {
        "memories": presence.get("live", 0),
        "gone": presence.get("gone", 0),
        "forgotten": presence.get("forgotten", 0),
        "passages": passages,
        "tokens": tokens,
        "triggers": first(connection, triggers, bound)[0],
        "aliases": first(connection, aliases, bound)[0],
    }


def _per(connection: apsw.Connection, column: str, table: str, test: str, bound: list[Any]) -> dict[str, int]:
    return dict(fetch(connection, f"SELECT {column}, count(*) FROM {table} WHERE {test} GROUP BY 1 ORDER BY 1", bound))


def _folders(connection: apsw.Connection, live: str, bound: list[Any]) -> list[dict[str, Any]]:
    found = fetch(
        connection,
        "SELECT spec_folder, count(*), max(updated_at), avg(weight), max(weight) FROM memory"
        f" WHERE spec_folder IS NOT NULL AND {live} GROUP BY spec_folder ORDER BY spec_folder",
        bound,
    )
    return [
        {"folder": folder, "memories": count, "updated_at": rows.when(at), "weight": mean, "top_weight": top}
        for folder, count, at, mean, top in found
    ]


def _links(connection: apsw.Connection, live: str, bound: list[Any]) -> dict[str, Any]:
    """Coverage: the share of live memories that have a link."""
    shown = f"IN (SELECT id FROM memory WHERE {live})"
    test = f"source_id {shown} AND target_id {shown}"
    both = [*bound, *bound]
    linked = f"SELECT source_id FROM link WHERE {test} UNION SELECT target_id FROM link WHERE {test}"
    count, strength = first(connection, f"SELECT count(*), avg(strength) FROM link WHERE {test}", both)
    covered = first(connection, f"SELECT count(*) FROM ({linked})", [*both, *both])[0]
    memories = first(connection, f"SELECT count(*) FROM memory WHERE {live}", bound)[0]
    return {
        "total": count,
        "relations": _per(connection, "relation", "link", test, both),
        "average_strength": strength or 0.0,
        "linked_memories": covered,
        "coverage": covered / memories if memories else 0.0,
    }


def _model(connection: apsw.Connection) -> dict[str, Any]:
    found = fetch(connection, "SELECT name, dimensions, weights_hash FROM model ORDER BY id DESC LIMIT 1")
    return dict(zip(("model", "dimensions", "weights_hash"), found[0], strict=True)) if found else {}


def _failures(connection: apsw.Connection, live: str, bound: list[Any]) -> dict[str, int]:
    """Why embeddings failed, with the number of passages."""
    sql = (
        "SELECT reason, count(DISTINCT failure.hash) FROM failure JOIN passage USING (hash)"
        f" JOIN memory ON memory.id = memory_id WHERE {live} GROUP BY reason ORDER BY 2 DESC"
    )
    return dict(fetch(connection, sql, bound))
