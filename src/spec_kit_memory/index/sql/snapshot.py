"""What does a checkpoint hold? Every live memory of a filter, as plain JSON values.

Rows come in this order: one `header`, then `memory`, `vector`, `link` and `session` rows. Times
are ISO 8601, vectors and token states base64. All rows are of one point in time. A link to a memory outside the
filter is included, with the path of that memory.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Generator, Iterator, Mapping
from typing import Any

from spec_kit_memory.core.memory import Filter, Link, Memory, Scope
from spec_kit_memory.core.scope import session_namespace
from spec_kit_memory.index import rows
from spec_kit_memory.index.contract import EVERYTHING
from spec_kit_memory.index.snapshot_check import FORMAT
from spec_kit_memory.index.sql import conditions
from spec_kit_memory.index.sql.dialect import Connection, fetch, first
from spec_kit_memory.index.sql.view import View

_PAGE = 500
_OWN = """
SELECT vouched, raw_hash, size, mtime_ns, seen_ns, said, said_trusted, warnings, text, override.attributes
FROM memory LEFT JOIN document ON document.project_id = @p AND document.memory_id = memory.id
LEFT JOIN content ON content.project_id = @p AND content.hash = content_hash
LEFT JOIN override ON override.project_id = @p AND override.memory_id = memory.id
WHERE memory.project_id = @p AND memory.id = ?
"""


class Snapshots(View):
    def snapshot(self, where: Filter = EVERYTHING) -> Generator[Mapping[str, Any], None, None]:
        with self._database.apart() as connection:
            memories = _memories(connection, self._scope, where)
            yield _header(connection) | {"memories": len(memories)}
            ids: list[int] = []
            hashes: dict[str, None] = {}
            for memory in memories:
                row = memory_row(connection, memory)
                ids.append(memory.id)
                hashes.update((passage["hash"], None) for passage in row["passages"])
                yield row
            yield from _vectors(connection, list(hashes))
            yield from _links(connection, self._scope, ids)
            yield from _sessions(connection, self._scope, set(ids), whole=where == EVERYTHING)


def _header(connection: Connection) -> dict[str, Any]:
    model = fetch(
        connection, "SELECT name, dimensions, weights_hash FROM model WHERE project_id = @p ORDER BY id DESC LIMIT 1"
    )
    return {
        "kind": "header",
        "format": FORMAT,
        "instance": first(connection, "SELECT instance FROM counter WHERE project_id = @p")[0],
        # A memory with later entries has changed since; clocks are not needed to decide that.
        "ledger_sequence": first(connection, "SELECT coalesce(max(sequence), 0) FROM ledger WHERE project_id = @p")[0],
        "model": dict(zip(("name", "dimensions", "weights_hash"), model[0], strict=True)) if model else None,
    }


def _memories(connection: Connection, scope: Scope | None, where: Filter) -> list[Memory]:
    test, values = conditions.matching(where)
    seen, bound = conditions.visible(scope)
    sql = (
        f"SELECT {conditions.MEMORY} WHERE memory.project_id = @p AND memory.presence = 'live' AND {test} AND {seen}"
        " ORDER BY memory.id"
    )
    return [rows.memory_from(row) for row in fetch(connection, sql, [*values, *bound])]


def memory_row(connection: Connection, memory: Memory) -> dict[str, Any]:
    """The row of a memory in a checkpoint."""
    vouched, raw_hash, size, mtime_ns, seen_ns, attributes_text, said_trusted, warnings, text, overrides = first(
        connection, _OWN, (memory.id,)
    )
    return {
        "kind": "memory",
        "id": memory.id,
        **rows.state_of(memory),
        "updated_at": rows.iso(memory.updated_at),
        "text": rows.unpack(text) if text is not None else "",
        "said": json.loads(attributes_text) if attributes_text else None,
        "said_trusted": bool(said_trusted),
        "vouched": None if vouched is None else bool(vouched),
        "overrides": json.loads(overrides) if overrides else {},
        "warnings": json.loads(warnings) if warnings else [],
        "access_count": memory.access_count,
        "last_access": rows.iso(memory.last_access) if memory.last_access else None,
        "raw_hash": raw_hash or "",
        "stamp": [size or 0, mtime_ns or 0, seen_ns or 0],
        "aliases": _aliases(connection, memory.id),
        "claims": _claims(connection, memory.id),
        "cited": [[file.path, file.hash, file.size, file.commit] for file in memory.cited],
        "passages": _passages(connection, memory.id),
    }


def _aliases(connection: Connection, memory_id: int) -> list[dict[str, Any]]:
    columns = "path, fingerprint, triggers, raw_hash, size, mtime_ns, seen_ns"
    sql = f"SELECT {columns} FROM alias WHERE alias.project_id = @p AND memory_id = ? ORDER BY path"
    return [
        {
            "path": path,
            "fingerprint": fingerprint,
            "triggers": json.loads(triggers),
            "raw_hash": raw_hash,
            "stamp": [size, mtime_ns, seen_ns],
        }
        for path, fingerprint, triggers, raw_hash, size, mtime_ns, seen_ns in fetch(connection, sql, (memory_id,))
    ]


def _claims(connection: Connection, memory_id: int) -> list[dict[str, Any]]:
    sql = (
        "SELECT relation, target, inward, strength FROM claim"
        " WHERE claim.project_id = @p AND memory_id = ? ORDER BY ordinal"
    )
    return [
        {"relation": relation, "target": target, "inward": bool(inward), "strength": strength}
        for relation, target, inward, strength in fetch(connection, sql, (memory_id,))
    ]


def _passages(connection: Connection, memory_id: int) -> list[dict[str, Any]]:
    sql = f"SELECT {rows.PASSAGE} FROM passage WHERE passage.project_id = @p AND memory_id = ? ORDER BY ordinal"
    return [rows.passage_row(rows.passage_from(row)) for row in fetch(connection, sql, (memory_id,))]


def _vectors(connection: Connection, hashes: list[str]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(hashes), _PAGE):
        page = hashes[start : start + _PAGE]
        for hash_, vector, states in sorted(connection.vectors(page), key=lambda row: page.index(row[0])):
            yield {"kind": "vector", "hash": hash_, "vector": _text(vector), "states": _text(states)}


def _text(blob: bytes | None) -> str | None:
    return None if blob is None else base64.b64encode(blob).decode("ascii")


def _links(connection: Connection, scope: Scope | None, ids: list[int]) -> Iterator[dict[str, Any]]:
    held = set(ids)
    for link, claimant in links_touching(connection, scope, ids):
        outside = next((end for end in link.ends if end not in held), None)
        path = (
            None
            if outside is None
            else first(connection, "SELECT path FROM memory WHERE memory.project_id = @p AND id = ?", (outside,))[0]
        )
        yield {"kind": "link", **(rows.link_state(link) or {}), "claimant": claimant, "outside": path}


def links_touching(connection: Connection, scope: Scope | None, ids: Collection[int]) -> list[tuple[Link, int | None]]:
    """Links from or to one of these memories, both ends live and within the scope, each with its claimant."""
    seen, bound = conditions.visible(scope)
    live = (
        f"EXISTS (SELECT 1 FROM memory"
        f" WHERE memory.project_id = @p AND memory.id = link.{{}} AND presence = 'live' AND {seen})"
    )
    ends = f"{live.format('source_id')} AND {live.format('target_id')} AND @own_link"
    select = "SELECT id FROM link WHERE link.project_id = @p AND {} IN @list(?)"
    touching = f"link.id IN ({select.format('source_id')} UNION {select.format('target_id')})"
    sql = (
        f"SELECT {rows.LINK}, claimant FROM link WHERE link.project_id = @p AND {touching} AND {ends} ORDER BY link.id"
    )
    values = sorted(ids)
    link_rows = fetch(connection, sql, [values, values, *bound, *bound])
    return [(rows.link_from(tuple(columns)), claimant) for *columns, claimant in link_rows]


def _sessions(connection: Connection, scope: Scope | None, ids: set[int], *, whole: bool) -> Iterator[dict[str, Any]]:
    """All sessions of the scope; if only a part of the memories is saved, only those with attention to them."""
    own = "true" if scope is None else "owner = ? AND project = ?"
    bound = [] if scope is None else list(session_namespace(scope))
    sql = (
        "SELECT id, owner, project, turn, loading, last_save_turn, seen_at, attention, sent FROM session"
        f" WHERE project_id = @p AND {own} ORDER BY id, owner, project"
    )
    for id_, owner, project, turn, loading, last_save_turn, seen_at, attention, sent in fetch(connection, sql, bound):
        attended = [row for row in json.loads(attention) if row[0] in ids]
        if whole or attended:
            yield {
                "kind": "session",
                "id": id_,
                "owner": owner,
                "project": project,
                "turn": turn,
                "loading": loading,
                "last_save_turn": last_save_turn,
                "seen_at": rows.iso(rows.moment(seen_at)) if seen_at is not None else None,
                "attention": attended,
                "sent": json.loads(sent) if whole else [],
            }
