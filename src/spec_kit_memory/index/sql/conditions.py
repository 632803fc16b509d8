"""Which memories may be seen, and which were asked for? Scope and Filter as conditions in SQL.

`arrays/columns.py` applies the same conditions to the arrays of word and vector search; a test compares both with a
plain implementation of the definitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from spec_kit_memory.core.memory import Filter, Scope, StateBounds

Condition = tuple[str, list[Any]]  # SQL over memory (and usage), with its values

# Citations that were recorded for an earlier text do not count. An empty body has no fingerprint.
CITED = (
    "LEFT JOIN citation ON citation.project_id = @p AND citation.memory_id = memory.id"
    " AND citation.body = coalesce(nullif(memory.fingerprint, ''), memory.content_hash)"
)
MEMORY = f"""
  memory.id, memory.path, memory.source, memory.spec_folder, memory.title, memory.tier, memory.weight,
  memory.context_type, memory.triggers, memory.created_at, memory.expires_at, memory.session_id, memory.channel,
  memory.presence, memory.fingerprint, memory.content_hash, memory.first_indexed_at, memory.updated_at,
  memory.archived_folder, memory.outdated, memory.owner, memory.project, memory.trusted,
  usage.access_count, usage.last_access, usage.validation_count, usage.confidence,
  document.vector_status, document.passages, document.tokens, document.redactions, document.warnings,
  @aliases, citation.files
  FROM memory LEFT JOIN usage ON usage.project_id = @p AND usage.memory_id = memory.id
  LEFT JOIN document ON document.project_id = @p AND document.memory_id = memory.id
  {CITED}
"""
_SECONDS = "CAST(1e6 AS double precision)"  # converts microseconds to seconds
_NUMBER = "CAST(? AS double precision)"
_LAST_USED = (
    "CASE WHEN usage.last_access > memory.first_indexed_at THEN usage.last_access ELSE memory.first_indexed_at END"
    f" / {_SECONDS}"
)


def visible(scope: Scope | None) -> Condition:
    """The memories that a scope may see; None: all."""
    if scope is None:
        return "true", []
    parts: list[Condition] = [_only(scope.user, "memory.owner"), _only(scope.project, "memory.project")]
    if scope.prefixes is not None:
        parts.append(_any(_path_below(prefix) for prefix in scope.prefixes))
    return _all(parts)


def _only(value: str | None, column: str) -> Condition:
    return (f"{column} IS NULL", []) if value is None else (f"({column} IS NULL OR {column} = ?)", [value])


def _path_below(prefix: str) -> Condition:
    folder = prefix.rstrip("/")
    if folder in ("", "."):
        if prefix.startswith("/"):
            return "memory.path LIKE '/%'", []
        return "(memory.path NOT LIKE '/%' AND memory.path NOT LIKE '%://%')", []
    return "(memory.path = ? OR substr(memory.path, 1, ?) = ?)", [folder, len(folder) + 1, f"{folder}/"]


def matching(where: Filter) -> Condition:
    """All conditions of a Filter; presence is not one of them."""
    parts: list[Condition] = []
    if where.unfiled:
        parts.append(("memory.spec_folder IS NULL", []))
    if where.spec_folder is not None:
        parts.append(("memory.spec_folder = ?", [where.spec_folder]))
    if where.folder_prefix is not None:
        prefix = where.folder_prefix
        test = "(memory.spec_folder = ? OR substr(memory.spec_folder, 1, ?) = ?)"
        parts.append((test, [prefix, len(prefix) + 1, f"{prefix}/"]))
    if where.tiers is not None:
        parts.append(_any(("memory.tier = ?", [str(tier)]) for tier in sorted(where.tiers)))
    if where.context_type is not None:
        parts.append(("memory.context_type = ?", [str(where.context_type)]))
    if where.source is not None:
        parts.append(("memory.source = ?", [str(where.source)]))
    if where.ids is not None:
        parts.append(in_ids(where.ids, "memory.id"))
    if where.states is not None:
        parts.append(_in_states(where.states))
    if where.expired_at is not None:
        parts.append((f"(memory.expires_at IS NULL OR memory.expires_at / {_SECONDS} > {_NUMBER})", [where.expired_at]))
    if where.cites:
        named = "SELECT citation.memory_id FROM citation WHERE citation.project_id = @p AND citation.files <> '[]'"
        parts.append((f"memory.id IN ({named})", []))
    if where.without is not None:
        test, values = matching(where.without)
        parts.append((f"NOT coalesce({test}, false)", values))
    return _all(parts)


def in_ids(ids: Iterable[int], column: str) -> Condition:
    return f"{column} IN @list(?)", [sorted(map(int, ids))]


def _in_states(bounds: StateBounds) -> Condition:
    flagged = "(memory.archived_folder OR memory.outdated)"
    used = _any(
        (f"(memory.tier = ? AND {_LAST_USED} >= {_NUMBER} AND {_LAST_USED} < {_NUMBER})", [str(tier), first, last])
        for tier, (first, last) in bounds.used.items()
    )
    ways: list[Condition] = [in_ids(bounds.always, "memory.id"), (f"(NOT {flagged} AND {used[0]})", used[1])]
    if bounds.flagged:
        ways.append((flagged, []))
    return _any(ways)


def _all(parts: Iterable[Condition]) -> Condition:
    return _joined(parts, " AND ", "true")


def _any(parts: Iterable[Condition]) -> Condition:
    return _joined(parts, " OR ", "false")


def _joined(parts: Iterable[Condition], word: str, nothing: str) -> Condition:
    tests, values = [], []
    for test, bound in parts:
        tests.append(test)
        values += bound
    return (f"({word.join(tests)})" if tests else nothing), values
