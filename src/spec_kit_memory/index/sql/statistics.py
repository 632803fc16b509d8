"""How much is stored, and with which problems? Counts, mistakes in files, links without target, missing vectors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spec_kit_memory.advice import finding
from spec_kit_memory.core.memory import Scope, owner_of
from spec_kit_memory.core.scope import allows
from spec_kit_memory.index import rows
from spec_kit_memory.index.contract import BadFile, IndexTotals, Remark, StoredModel
from spec_kit_memory.index.sql import conditions, declared_links, vectors
from spec_kit_memory.index.sql.dialect import Connection, fetch, first
from spec_kit_memory.index.sql.view import View


class Statistics(View):
    def stats(self, *, size: bool = False) -> IndexTotals:
        generation = self._shared.generation()
        cached = self._shared.totals.get(self._scope)
        if cached is None or cached[0] != generation:
            cached = generation, self._collect()
            self._shared.totals[self._scope] = cached
        return replace(cached[1], size_bytes=self._size()) if size else cached[1]

    def _collect(self) -> IndexTotals:
        seen, bound = conditions.visible(self._scope)
        live = f"memory.presence = 'live' AND {seen}"
        with self._database.reading() as connection:
            return IndexTotals(
                **_counts(connection, seen, bound),
                **_single_values(connection, seen, bound),
                failures=_failures(connection, live, bound),
            )

    def _size(self) -> int:
        """The size of the index; for a scope that sees only a part, of its documents, so as not to reveal the rest."""
        with self._database.reading() as connection:
            if self._scope is None or self._scope == Scope():
                return connection.size()
            seen, bound = conditions.visible(self._scope)
            sql = (
                f"SELECT coalesce(sum(size), 0) FROM memory JOIN document ON document.project_id = @p"
                f" AND memory_id = memory.id WHERE memory.project_id = @p AND {seen}"
            )
            return int(first(connection, sql, bound)[0])

    def remarks(
        self, memory_ids: Sequence[int] | None = None, *, kind: str | None = None, limit: int | None = None
    ) -> list[Remark]:
        seen, bound = conditions.visible(self._scope)
        where = f"memory.presence = 'live' AND {seen}"
        if memory_ids is not None:
            where += " AND memory.id IN @list(?)"
            bound = [*bound, list(memory_ids)]
        with self._database.reading(own=True) as connection:
            queries = {"file": _document_warnings, "link": _loose_links, "vector": _failed_passages}
            readers = (query for name, query in queries.items() if kind in (None, name))
            remarks = [remark for query in readers for remark in query(connection, where, bound)]
        return sorted(remarks, key=lambda remark: (remark.path, remark.kind, remark.line or 0))[:limit]

    def bad_files(self) -> list[BadFile]:
        with self._database.reading() as connection:
            bad_rows = fetch(
                connection, "SELECT path, code, message, seen_at FROM bad_file WHERE project_id = @p ORDER BY path"
            )
        return [
            BadFile(path, code, message, rows.moment(seen_at))
            for path, code, message, seen_at in bad_rows
            if allows(self._scope, path=path, owner=owner_of(path), project=None)
        ]


_TOTALS = ("passages", "tokens", "pending_passages", "pending_tokens", "failed_passages", "outdated")


def _counts(connection: Connection, seen: str, bound: list[Any]) -> dict[str, Any]:
    """All counts that one pass over the memories gives."""
    rows = fetch(
        connection,
        "SELECT presence, tier, source, context_type, coalesce(vector_status, 'pending'), count(*),"
        " CAST(coalesce(sum(passages), 0) AS bigint), CAST(coalesce(sum(tokens), 0) AS bigint),"
        " CAST(coalesce(sum(passages - embedded), 0) AS bigint), sum(CASE WHEN outdated THEN 1 ELSE 0 END),"
        " CAST(coalesce(sum(tokens * (passages - embedded) / nullif(passages, 0)), 0) AS bigint)"
        " FROM memory LEFT JOIN document ON document.project_id = @p AND document.memory_id = memory.id"
        f" WHERE memory.project_id = @p AND {seen} GROUP BY 1, 2, 3, 4, 5",
        bound,
    )
    totals: Counter[str] = Counter()
    groups: dict[str, Counter[str]] = {
        name: Counter() for name in ("tiers", "sources", "context_types", "vectors", "presence")
    }
    for presence, tier, source, context, status, count, passages, tokens, without, outdated, tokens_without in rows:
        groups["presence"][presence] += count
        if presence == "live":
            totals.update(passages=passages, tokens=tokens, outdated=outdated)
            if status in ("pending", "retry"):
                totals.update(pending_passages=without, pending_tokens=tokens_without)
            else:
                totals.update(failed_passages=without)
            for name, value in (("tiers", tier), ("sources", source), ("context_types", context), ("vectors", status)):
                groups[name][value] += count
    present = groups.pop("presence")
    return {
        "memories": present["live"],
        "gone": present["gone"],
        "forgotten": present["forgotten"],
        **{name: totals[name] for name in _TOTALS},
        **{name: dict(sorted(group.items())) for name, group in groups.items()},
    }


def _single_values(connection: Connection, seen: str, bound: list[Any]) -> dict[str, Any]:
    """Read by one statement: each takes a round trip to a server, and these values are read after every change."""
    count = (
        "(SELECT count(*) FROM {} AS part JOIN memory ON memory.project_id = @p AND memory.id = part.memory_id"
        f" WHERE part.project_id = @p AND memory.presence = 'live' AND {seen})"
    )
    quoted, model = '"trigger"', "(SELECT {} FROM model WHERE project_id = @p ORDER BY id DESC LIMIT 1)"
    sql = (
        f"SELECT {count.format(quoted)}, {count.format('alias')}, {model.format('name')},"
        f" {model.format('dimensions')}, {model.format('weights_hash')}, ({vectors.PROVIDER_FAILURE}),"
        f" (SELECT max(updated_at) FROM memory WHERE memory.project_id = @p AND {seen})"
    )
    triggers, aliases, name, dimensions, weights_hash, provider_failure, last_indexed = first(
        connection, sql, bound * 3
    )
    return {
        "triggers": triggers,
        "aliases": aliases,
        "model": None if name is None else StoredModel(name, dimensions, weights_hash),
        "provider_failure": provider_failure,
        "last_indexed": rows.when(last_indexed),
    }


def _failures(connection: Connection, live: str, bound: list[Any]) -> dict[str, int]:
    """The reasons why embeddings failed, with the number of passages."""
    sql = (
        "SELECT reason, count(DISTINCT failure.hash) FROM failure JOIN passage ON passage.project_id = @p"
        " AND passage.hash = failure.hash"
        f" JOIN memory ON memory.project_id = @p AND memory.id = memory_id"
        f" WHERE failure.project_id = @p AND {live} GROUP BY reason ORDER BY 2 DESC"
    )
    return dict(fetch(connection, sql, bound))


# --- remarks


def _document_warnings(connection: Connection, where: str, bound: list[Any]) -> list[Remark]:
    sql = (
        "SELECT memory.id, memory.path, warnings FROM document JOIN memory ON memory.project_id = @p"
        " AND memory.id = document.memory_id"
        f" WHERE document.project_id = @p AND warnings <> '[]' AND {where}"
    )
    return [
        Remark(memory_id, path, "file", message, line)
        for memory_id, path, warnings in fetch(connection, sql, bound)
        for message, line, _ in json.loads(warnings)
    ]


def _loose_links(connection: Connection, where: str, bound: list[Any]) -> list[Remark]:
    sql = (
        "SELECT DISTINCT memory.id, memory.path, memory.title"
        " FROM claim JOIN memory ON memory.project_id = @p AND memory.id = claim.memory_id"
        f" WHERE claim.project_id = @p AND {where}"
    )
    claimants = {memory_id: (path, title) for memory_id, path, title in fetch(connection, sql, bound)}
    return [
        Remark(
            memory_id,
            claimants[memory_id][0],
            "link",
            finding("link-to-itself", name=name, target=target)
            if target in (str(memory_id), *claimants[memory_id])
            else finding("link-to-nothing", name=name, target=target),
        )
        for memory_id, name, target in declared_links.unresolved(connection, claimants)
    ]


def _failed_passages(connection: Connection, where: str, bound: list[Any]) -> list[Remark]:
    sql = (
        "SELECT memory.id, memory.path, reason, count(DISTINCT passage.hash)"
        " FROM failure JOIN passage ON passage.project_id = @p AND passage.hash = failure.hash"
        f" JOIN memory ON memory.project_id = @p AND memory.id = memory_id"
        f" WHERE failure.project_id = @p AND vector_id IS NULL AND {where} GROUP BY 1, 2, 3"
    )
    return [
        Remark(memory_id, path, "vector", finding("passages-without-vector", count=count, cause=why))
        for memory_id, path, why, count in fetch(connection, sql, bound)
    ]
