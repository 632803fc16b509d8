"""How much is stored, of what kind? Counts within a scope."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apsw

from spec_kit_memory.core.memory import Scope, Tier
from spec_kit_memory.index.contract import Tally
from spec_kit_memory.index.sqlite import conditions, rows, vectors
from spec_kit_memory.index.sqlite.connection import Database, fetch, first

__all__ = ["collect", "tally"]


def collect(database: Database, scope: Scope | None) -> dict[str, Any]:
    seen, bound = conditions.visible(scope)
    live = f"memory.presence = 'live' AND {seen}"
    with database.reading() as connection:
        return {
            **_counts(connection, seen, bound),
            "triggers": _count(connection, '"trigger"', live, bound),
            "aliases": _count(connection, "alias", live, bound),
            **_model(connection),
            "failures": _failures(connection, live, bound),
            "provider_failure": vectors.provider_failure(connection),
            "size_bytes": _size(connection, scope),
            "last_indexed": rows.when(first(connection, f"SELECT max(updated_at) FROM memory WHERE {seen}", bound)[0]),
        }


def tally(database: Database, scope: Scope | None) -> list[Tally]:
    seen, bound = conditions.visible(scope)
    sql = (
        "SELECT spec_folder, archived_folder, tier, count(*), max(coalesce(created_at, updated_at)), max(updated_at),"
        f" max(changed) FROM memory WHERE memory.presence = 'live' AND {seen} GROUP BY 1, 2, 3"
    )
    with database.reading() as connection:
        return [
            Tally(folder, bool(archived), Tier(tier), count, rows.moment(newest), rows.moment(updated), changed)
            for folder, archived, tier, count, newest, updated, changed in connection.execute(sql, bound)
        ]


def _size(connection: apsw.Connection, scope: Scope | None) -> int:
    """The index; for a scope that sees a part of it, its documents, since the rest is not to be told."""
    if scope is None or scope == Scope():
        sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        return int(first(connection, sql)[0])
    seen, bound = conditions.visible(scope)
    sql = f"SELECT coalesce(sum(size), 0) FROM memory JOIN document ON memory_id = memory.id WHERE {seen}"
    return int(first(connection, sql, bound)[0])


def _counts(connection: apsw.Connection, seen: str, bound: list[Any]) -> dict[str, Any]:
    """All that can be had from one pass over the memories."""
    found = fetch(
        connection,
        "SELECT presence, tier, source, context_type, coalesce(vector_status, 'pending'), count(*),"
        " coalesce(sum(passages), 0), coalesce(sum(tokens), 0), coalesce(sum(passages - embedded), 0), sum(outdated)"
        " FROM memory LEFT JOIN document ON document.memory_id = memory.id"
        f" WHERE {seen} GROUP BY 1, 2, 3, 4, 5",
        bound,
    )
    totals: Counter[str] = Counter()
    groups: dict[str, Counter[str]] = {
        name: Counter() for name in ("tiers", "sources", "context_types", "vectors", "presence")
    }
    for presence, tier, source, context, status, count, passages, tokens, without, outdated in found:
        groups["presence"][presence] += count
        if presence == "live":
            totals.update(passages=passages, tokens=tokens, outdated=outdated)
            totals.update({"pending_passages" if status in ("pending", "retry") else "failed_passages": without})
            for name, value in (("tiers", tier), ("sources", source), ("context_types", context), ("vectors", status)):
                groups[name][value] += count
    present = groups.pop("presence")
    return {
        "memories": present["live"],
        "gone": present["gone"],
        "forgotten": present["forgotten"],
        **{name: totals[name] for name in ("passages", "tokens", "pending_passages", "failed_passages", "outdated")},
        **{name: dict(sorted(group.items())) for name, group in groups.items()},
    }


def _count(connection: apsw.Connection, table: str, live: str, bound: list[Any]) -> int:
    sql = f"SELECT count(*) FROM {table} AS part JOIN memory ON memory.id = part.memory_id WHERE {live}"
    return int(first(connection, sql, bound)[0])


def _model(connection: apsw.Connection) -> dict[str, Any]:
    found = fetch(connection, "SELECT name, dimensions, weights_hash FROM model ORDER BY id DESC LIMIT 1")
    return dict(zip(("model", "dimensions", "weights_hash"), found[0] if found else (None, None, None), strict=True))


def _failures(connection: apsw.Connection, live: str, bound: list[Any]) -> dict[str, int]:
    """Why embeddings failed, with the number of passages."""
    sql = (
        "SELECT reason, count(DISTINCT failure.hash) FROM failure JOIN passage USING (hash)"
        f" JOIN memory ON memory.id = memory_id WHERE {live} GROUP BY reason ORDER BY 2 DESC"
    )
    return dict(fetch(connection, sql, bound))
