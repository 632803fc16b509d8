"""Which links do files ask for, and which memories do they mean?

A claim names its target by id, path or exact title. It becomes a link when the target exists,
now or later, and follows the target's path and title.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from spec_kit_memory.core.memory import LinkClaim, Memory
from spec_kit_memory.index import rows
from spec_kit_memory.index.sqlite.connection import fetch, first

__all__ = ["others_resolved", "replace", "resolve", "unresolved"]

# A name is found among memories that the claimant's own reader may see, live ones first, then the nearest.
_TARGET = """
SELECT memory.id FROM memory, memory AS claimant
WHERE claimant.id = :claimant AND memory.id <> claimant.id
  AND (memory.owner IS NULL OR memory.owner = claimant.owner)
  AND (memory.project IS NULL OR memory.project = claimant.project)
  AND memory.id IN (
    SELECT id FROM memory WHERE id = :number
    UNION SELECT id FROM memory WHERE path IN (:target, :sibling)
    UNION SELECT memory_id FROM alias WHERE path IN (:target, :sibling)
    UNION SELECT id FROM memory WHERE title = :target)
ORDER BY memory.id = :number DESC, memory.path = :target DESC, memory.path = :sibling DESC,
  memory.presence = 'live' DESC, memory.spec_folder IS claimant.spec_folder DESC, memory.id LIMIT 1
"""


def replace(connection: apsw.Connection, memory_id: int, path: str, claimed: Sequence[LinkClaim]) -> None:
    connection.execute("DELETE FROM claim WHERE memory_id = ?", (memory_id,))
    connection.executemany(
        "INSERT INTO claim (memory_id, ordinal, relation, target, sibling, inward, strength)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
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
    """`../x.md` and `x.md` are meant from the file that says them; a target with ./ may mean the root too."""
    looks_like_path = "/" in target or target.endswith((".md", ".txt"))
    if not looks_like_path or target.startswith("/") or "://" in target:
        return ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def resolve(connection: apsw.Connection, claimant: int) -> None:
    """Make the links of this file's claims be exactly those that can be resolved now."""
    wanted = dict(_resolved(connection, claimant))
    have = connection.execute("SELECT id, source_id, target_id, relation FROM link WHERE claimant = ?", (claimant,))
    for link_id, *key in have.fetchall():
        if tuple(key) not in wanted:
            connection.execute("DELETE FROM link WHERE id = ?", (link_id,))
    for (source, target, relation), strength in wanted.items():
        connection.execute(
            "INSERT INTO link (source_id, target_id, relation, strength, evidence, origin, claimant)"
            " VALUES (?, ?, ?, ?, '', 'file', ?) ON CONFLICT (source_id, target_id, relation)"
            " DO UPDATE SET strength = excluded.strength WHERE origin = 'file'",
            (source, target, relation, strength, claimant),
        )


def _resolved(connection: apsw.Connection, claimant: int) -> Iterable[tuple[tuple[int, int, str], float]]:
    for relation, target, sibling, inward, strength in _claims(connection, claimant):
        other = _target(connection, claimant, target, sibling)
        if other is not None:
            yield (other, claimant, relation) if inward else (claimant, other, relation), strength


def unresolved(connection: apsw.Connection, claimant: int) -> list[tuple[str, str]]:
    """The claims of a memory that mean nobody: the key of front matter, and what it names."""
    return [
        (
            f"{relation}_by" if inward else "related_to" if (relation, strength) == ("supports", 0.5) else relation,
            target,
        )
        for relation, target, sibling, inward, strength in _claims(connection, claimant)
        if _target(connection, claimant, target, sibling) is None
    ]


def _claims(connection: apsw.Connection, claimant: int) -> list[tuple[str, str, str, bool, float]]:
    sql = "SELECT relation, target, sibling, inward, strength FROM claim WHERE memory_id = ? ORDER BY ordinal"
    return fetch(connection, sql, (claimant,))


def _target(connection: apsw.Connection, claimant: int, target: str, sibling: str) -> int | None:
    # Stored paths begin at the workspace, so that ./specs/x.md and specs/x.md are one.
    values: dict[str, Any] = {"claimant": claimant, "target": target.removeprefix("./"), "sibling": sibling}
    number = int(target) if target.isdecimal() and len(target) < 19 else None
    found: int | None = connection.execute(_TARGET, values | {"number": number}).get
    return found


def others_resolved(connection: apsw.Connection, memory_id: int, *, old: Memory | None = None) -> None:
    """This memory appeared or got another name: claims that mean it, or meant it, are read again."""
    path, title = first(connection, "SELECT path, title FROM memory WHERE id = ?", (memory_id,))
    names = {str(memory_id), path, title, f"./{path}"}
    if old is not None:
        names |= {old.path, old.title, f"./{old.path}"}
    aliases = connection.execute("SELECT path FROM alias WHERE memory_id = ?", (memory_id,)).fetchall()
    names |= {alias for (alias,) in aliases}
    given = rows.plain(sorted(names))
    claimants = fetch(
        connection,
        "SELECT memory_id FROM json_each(:names) CROSS JOIN claim ON target = value"
        " UNION ALL SELECT memory_id FROM json_each(:names) CROSS JOIN claim ON sibling = value",
        {"names": given},
    )
    for (claimant,) in sorted(set(claimants)):
        if claimant != memory_id:
            resolve(connection, claimant)
