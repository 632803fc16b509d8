"""What do the checkouts of one project share? Memories, and the links that their files declare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spec_kit_memory.core.memory import Entry, Origin
from spec_kit_memory.index.sql.dialect import Elsewhere, fetch

if TYPE_CHECKING:
    from spec_kit_memory.index.postgres.connection import Connection


def elsewhere(connection: Connection, entry: Entry) -> Elsewhere | None:
    """The memory that another checkout has at this path, else one with the same text in the same folder.

    Memories of another owner are left out, and those that this checkout already has a row for, at any path or deleted.
    """
    every = connection.checkouts()
    if len(every) == 1:
        return None
    folder = entry.path[: entry.path.rfind("/") + 1]
    with connection.within(*every):
        rows = fetch(
            connection,
            "SELECT id, min(first_indexed_at), bool_or(outdated),"
            " bool_or(vouched) FILTER (WHERE content_hash = :content AND trusted = :trusted) FROM memory AS other"
            " WHERE project_id = @p AND owner IS NOT DISTINCT FROM :owner AND project IS NOT DISTINCT FROM :project"
            " AND (path = :path OR fingerprint = :fingerprint AND fingerprint <> ''"
            " AND spec_folder IS NOT DISTINCT FROM :spec_folder"
            " AND (spec_folder IS NOT NULL OR starts_with(path, :folder)"
            " AND strpos(substr(path, length(:folder) + 1), '/') = 0))"
            " AND NOT EXISTS (SELECT 1 FROM memory WHERE project_id = @p AND checkout_id = @c AND id = other.id)"
            " GROUP BY id ORDER BY bool_or(path = :path AND presence = 'live') DESC, bool_or(presence = 'live') DESC,"
            " bool_or(path = :path) DESC, id LIMIT 1",
            {
                "content": entry.content_hash, "trusted": entry.trusted, "owner": entry.owner,
                "project": entry.project, "path": entry.path, "fingerprint": entry.fingerprint,
                "spec_folder": entry.spec_folder, "folder": folder,
            },
        )  # fmt: skip
    return Elsewhere(*rows[0]) if rows else None


def claim_links(connection: Connection, keys: Sequence[tuple[int, int, str]], origin: Origin) -> None:
    """Record that this checkout declares the links; links that a person made belong to no checkout."""
    ours = "'{}'" if origin is Origin.HAND else "array_append(array_remove(checkouts, @c), @c)"
    sources, targets, relations = ([*column] for column in zip(*keys, strict=True))
    connection.execute(
        f"UPDATE link SET checkouts = {ours}"
        " FROM unnest(?::bigint[], ?::bigint[], ?::text[]) AS written (source, target, name)"
        " WHERE project_id = @p AND source_id = source AND target_id = target AND relation = name AND origin = ?",
        (sources, targets, relations, str(origin)),
    )


def drop_links(connection: Connection, link_ids: Sequence[int]) -> None:
    ids = list(link_ids)
    connection.execute(
        "UPDATE link SET checkouts = array_remove(checkouts, @c) WHERE project_id = @p AND id IN @list(?)", (ids,)
    )
    connection.execute("DELETE FROM link WHERE project_id = @p AND id IN @list(?) AND checkouts = '{}'", (ids,))
