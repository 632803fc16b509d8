"""Which links do files declare in their front matter, and which memories do they mean?

Such a declaration (a claim) names its target by id, path or exact title. It becomes a link as soon as the target
exists, and is resolved again when the target's path or title changes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence, Set
from typing import Any

from spec_kit_memory.core.memory import LinkClaim, Memory, Origin, is_text_name
from spec_kit_memory.index import rows
from spec_kit_memory.index.sql.dialect import Connection, fetch, first

# Only memories that readers of the claimant may see; live ones first, then those in the same spec folder.
_TARGET = """
SELECT memory.id FROM memory, memory AS claimant
WHERE memory.project_id = @p AND claimant.project_id = @p AND claimant.id = :claimant AND memory.id <> claimant.id
  AND (memory.owner IS NULL OR memory.owner = claimant.owner)
  AND (memory.project IS NULL OR memory.project = claimant.project)
  AND memory.id IN (
    SELECT id FROM memory WHERE memory.project_id = @p AND id = CAST(:number AS bigint)
    UNION SELECT id FROM memory WHERE memory.project_id = @p AND path IN (:target, :sibling)
    UNION SELECT memory_id FROM alias WHERE alias.project_id = @p AND path IN (:target, :sibling)
    UNION SELECT id FROM memory WHERE memory.project_id = @p AND title = :target)
ORDER BY coalesce(memory.id = CAST(:number AS bigint), false) DESC, memory.path = :target DESC,
  memory.path = :sibling DESC, memory.presence = 'live' DESC,
  memory.spec_folder IS NOT DISTINCT FROM claimant.spec_folder DESC, memory.id LIMIT 1
"""


def replace(connection: Connection, memory_id: int, path: str, claimed: Sequence[LinkClaim]) -> None:
    """Store the claims of a memory in place of its earlier ones, and resolve them."""
    connection.execute("DELETE FROM claim WHERE claim.project_id = @p AND memory_id = ?", (memory_id,))
    connection.executemany(
        "INSERT INTO claim (project_id, memory_id, ordinal, relation, target, sibling, inward, strength)"
        " VALUES (@p, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                memory_id, ordinal, str(claim.relation), target := rows.clean(claim.target.strip()),
                _sibling(path, target), claim.inward, claim.strength,
            )
            for ordinal, claim in enumerate(claimed)
        ],
    )  # fmt: skip
    resolve(connection, memory_id)


def _sibling(path: str, target: str) -> str:
    """A relative path as seen from the declaring file; the target itself may also be a path from the workspace root."""
    looks_like_path = "/" in target or is_text_name(target)
    if not looks_like_path or target.startswith("/") or "://" in target:
        return ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def resolve(connection: Connection, claimant: int) -> None:
    """Update the links of this memory's claims to exactly those that can be resolved now."""
    wanted = dict(_resolved(connection, claimant))
    have = connection.execute(
        "SELECT id, source_id, target_id, relation FROM link WHERE link.project_id = @p AND claimant = ? AND @own_link",
        (claimant,),
    )
    for link_id, *key in have.fetchall():
        if tuple(key) not in wanted:
            connection.drop_link(link_id)
    for key, strength in wanted.items():
        connection.execute(
            "INSERT INTO link (project_id, id, source_id, target_id, relation, strength, evidence, origin, claimant)"
            " VALUES (@p, ?, ?, ?, ?, ?, '', 'file', ?) ON CONFLICT (project_id, source_id, target_id, relation)"
            " DO UPDATE SET strength = excluded.strength WHERE link.origin = 'file'",
            (connection.next_id("link"), *key, strength, claimant),
        )
        connection.link_written(key, Origin.FILE)


def _resolved(connection: Connection, claimant: int) -> Iterable[tuple[tuple[int, int, str], float]]:
    for relation, target, sibling, inward, strength in _claims(connection, claimant):
        other = _target(connection, claimant, target, sibling)
        if other is not None:
            yield (other, claimant, relation) if inward else (claimant, other, relation), strength


def unresolved(connection: Connection, claimant: int) -> list[tuple[str, str]]:
    """The claims of a memory that have no target: the key in the front matter, and the name given there."""
    return [
        (
            f"{relation}_by" if inward else "related_to" if (relation, strength) == ("supports", 0.5) else relation,
            target,
        )
        for relation, target, sibling, inward, strength in _claims(connection, claimant)
        if _target(connection, claimant, target, sibling) is None
    ]


def _claims(connection: Connection, claimant: int) -> list[tuple[Any, ...]]:
    sql = (
        "SELECT relation, target, sibling, inward, strength FROM claim"
        " WHERE claim.project_id = @p AND memory_id = ? ORDER BY ordinal"
    )
    return fetch(connection, sql, (claimant,))


def _target(connection: Connection, claimant: int, target: str, sibling: str) -> int | None:
    # Stored paths are relative to the workspace root: ./specs/x.md and specs/x.md are the same.
    values: dict[str, Any] = {"claimant": claimant, "target": target.removeprefix("./"), "sibling": sibling}
    is_id = target.isdecimal() and not target.startswith("0") and len(target) < 19  # a number like 003 is a folder name
    number = int(target) if is_id else None
    target_id: int | None = connection.execute(_TARGET, values | {"number": number}).get
    return target_id


def resolve_claims_to(connection: Connection, memory_id: int, *, old: Memory | None = None) -> None:
    """After this memory appeared or was renamed, resolve the claims again that name it, or did before."""
    path, title = first(
        connection, "SELECT path, title FROM memory WHERE memory.project_id = @p AND id = ?", (memory_id,)
    )
    names = {str(memory_id), path, title, f"./{path}"}
    if old is not None:
        names |= {old.path, old.title, f"./{old.path}"}
    aliases = connection.execute(
        "SELECT path FROM alias WHERE alias.project_id = @p AND memory_id = ?", (memory_id,)
    ).fetchall()
    names |= {alias for (alias,) in aliases}
    _resolve_claims(connection, memory_id, names)


def resolve_claims_to_paths(connection: Connection, memory_id: int, paths: Set[str]) -> None:
    """After only these paths of a memory came or went, resolve the claims again that name one of them."""
    _resolve_claims(connection, memory_id, {*paths, *(f"./{path}" for path in paths)})


def _resolve_claims(connection: Connection, memory_id: int, names: Set[str]) -> None:
    claimants = fetch(
        connection,
        "SELECT memory_id FROM claim WHERE project_id = @p AND target IN @list(:names)"
        " UNION ALL SELECT memory_id FROM claim WHERE project_id = @p AND sibling IN @list(:names)",
        {"names": sorted(names)},
    )
    for (claimant,) in sorted(set(claimants)):
        if claimant != memory_id:
            resolve(connection, claimant)
