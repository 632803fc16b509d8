"""Which links do files declare in their front matter, and which memories do they mean?

Such a declaration (a claim) names its target by id, path or exact title. It becomes a link as soon as the target
exists, and is resolved again when the target's path or title changes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from spec_kit_memory.core.memory import LinkClaim, Memory, Origin, Presence, is_text_name
from spec_kit_memory.index import rows
from spec_kit_memory.index.sql.dialect import Connection, fetch, first

# Only memories that readers of the claimant may see; live ones first, then those in the same spec folder.
_TARGET = """
SELECT memory.id FROM memory, memory AS claimant
WHERE memory.project_id = @p AND claimant.project_id = @p AND claimant.id = :claimant AND memory.id <> claimant.id
  AND memory.id <> :without
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
    _write(connection, claimant, wanted)


def _write(connection: Connection, claimant: int, wanted: Mapping[tuple[int, int, str], float]) -> None:
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
            yield _key(claimant, other, relation, inward), strength


def _key(claimant: int, other: int, relation: str, inward: bool) -> tuple[int, int, str]:
    return (other, claimant, relation) if inward else (claimant, other, relation)


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


def _target(
    connection: Connection, claimant: int, target: str, sibling: str, *, without: int | None = None
) -> int | None:
    # Stored paths are relative to the workspace root: ./specs/x.md and specs/x.md are the same.
    values: dict[str, Any] = {
        "claimant": claimant, "target": target.removeprefix("./"), "sibling": sibling, "without": without or claimant,
    }  # fmt: skip
    is_id = target.isdecimal() and not target.startswith("0") and len(target) < 19  # a number like 003 is a folder name
    number = int(target) if is_id else None
    target_id: int | None = connection.execute(_TARGET, values | {"number": number}).get
    return target_id


def resolve_claims_to(connection: Connection, memory_id: int, *, old: Memory | None = None) -> None:
    """After this memory appeared or was renamed, resolve the claims again that name it, or did before."""
    aliases = fetch(connection, "SELECT path FROM alias WHERE alias.project_id = @p AND memory_id = ?", (memory_id,))
    names = {alias for (alias,) in aliases}
    place = _place(connection, memory_id)
    was_live = old is not None and old.presence is Presence.LIVE
    if old is not None and was_live and place == (old.path, old.title, old.spec_folder, old.owner, old.project):
        if names:
            _resolve_claims(connection, memory_id, names, by_title={}, is_new=False)
        return  # whoever means this memory meant it before
    path, title, *_ = place
    names |= {str(memory_id), path, f"./{path}"}
    titles = {title}
    if old is not None:
        names |= {old.path, f"./{old.path}"}
        titles.add(old.title)
    by_title = {name: _can_mean_by_title(connection, memory_id, name, place) for name in titles - names}
    _resolve_claims(connection, memory_id, names, by_title=by_title, is_new=old is None)


def _place(connection: Connection, memory_id: int) -> tuple[Any, ...]:
    sql = "SELECT path, title, spec_folder, owner, project FROM memory WHERE memory.project_id = @p AND id = ?"
    return first(connection, sql, (memory_id,))


def _can_mean_by_title(connection: Connection, memory_id: int, title: str, place: tuple[Any, ...]) -> set[int]:
    """The memories that name this title and whose claims this memory can have gained or lost.

    Of many memories with one title only the first is meant. Resolving the claims of all that name it whenever one
    more appears would take time with the third power of their number.
    """
    _, _, spec_folder, owner, project = place
    values = {"id": memory_id, "title": title, "folder": spec_folder, "owner": owner, "project": project}
    # Earlier ones that everybody may see who sees this one. A memory never means itself, so one is not enough.
    earlier = (
        "SELECT id FROM memory WHERE memory.project_id = @p AND title = :title AND presence = 'live' AND id < :id"
        " AND (owner IS NULL OR owner = :owner) AND (project IS NULL OR project = :project)"
    )
    claimants = "SELECT memory_id FROM claim WHERE claim.project_id = @p AND target = :title"
    found = fetch(
        connection,
        f"{claimants} AND memory_id IN (SELECT source_id FROM link WHERE link.project_id = @p AND target_id = :id"
        " UNION SELECT target_id FROM link WHERE link.project_id = @p AND source_id = :id)",
        values,
    )
    in_folder = "spec_folder IS NOT DISTINCT FROM :folder"
    if len(fetch(connection, f"{earlier} LIMIT 2", values)) < 2:
        found += fetch(connection, claimants, values)
    elif len(fetch(connection, f"{earlier} AND {in_folder} LIMIT 2", values)) < 2:
        here = f"SELECT id FROM memory WHERE memory.project_id = @p AND {in_folder}"
        found += fetch(connection, f"{claimants} AND memory_id IN ({here})", values)
    return {claimant for (claimant,) in found}


def resolve_claims_to_paths(connection: Connection, memory_id: int, paths: Set[str]) -> None:
    """After only these paths of a memory came or went, resolve the claims again that name one of them."""
    names = {*paths, *(f"./{path}" for path in paths)}
    _resolve_claims(connection, memory_id, names, by_title={}, is_new=False)


def _resolve_claims(
    connection: Connection, memory_id: int, names: Set[str], *, by_title: Mapping[str, Set[int]], is_new: bool
) -> None:
    """Resolve the claims that name one of these paths or ids, or one of these titles if they are of such a memory."""
    columns = "memory_id, ordinal, relation, target, sibling, inward, strength"
    claims = fetch(
        connection,
        f"SELECT {columns} FROM claim WHERE project_id = @p AND target IN @list(:names)"
        f" UNION SELECT {columns} FROM claim WHERE project_id = @p AND sibling IN @list(:names)",
        {"names": sorted(names)},
    )
    for title, claimants in by_title.items():
        if claimants:
            sql = f"SELECT {columns} FROM claim WHERE claim.project_id = @p AND target = ?"
            claims += [claim for claim in fetch(connection, sql, (title,)) if claim[0] in claimants]
    by_claimant: dict[int, list[tuple[Any, ...]]] = {}
    for claimant, *claim in sorted(set(claims)):
        by_claimant.setdefault(claimant, []).append(tuple(claim))
    for claimant, own in by_claimant.items():
        if claimant == memory_id:
            continue
        if is_new:
            _gain(connection, claimant, memory_id, own)
        else:
            resolve(connection, claimant)


def _gain(connection: Connection, claimant: int, memory_id: int, claims: Sequence[tuple[Any, ...]]) -> None:
    """Add the links of those claims that mean a new memory; the memory's other claims stay as they are."""
    gained = {}
    for _, relation, target, sibling, inward, strength in claims:
        if _target(connection, claimant, target, sibling) != memory_id:
            continue
        if _target(connection, claimant, target, sibling, without=memory_id) is not None:
            resolve(connection, claimant)  # that one is no longer meant
            return
        gained[_key(claimant, memory_id, relation, inward)] = strength
    _write(connection, claimant, gained)
