"""How is a statement of `sql` translated for PostgreSQL?

`@vector`, the type of pgvector, is a placeholder of this engine alone.
"""

from __future__ import annotations

import re
from functools import lru_cache

from spec_kit_memory.index.sql.dialect import MOST_ALIASES

_WORDS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"@here\b", "checkout_id = @c"),
        (r"@own_link\b", "(link.origin = 'hand' OR @c = ANY(link.checkouts))"),
        (r"IN @list\(([?:\w]+)\)", r"= ANY(\1)"),
        (r"@texts\(([?:\w]+)\)", r'(SELECT unnest(\1::text[]) COLLATE "C" AS name)'),
        (r"@ids_in\((\w+)\)", r"(SELECT value::bigint AS id FROM jsonb_array_elements_text(\1::jsonb) AS value)"),
        (
            r"@aliases\b",
            "(SELECT coalesce(json_agg(path ORDER BY path), '[]')::text FROM (SELECT path FROM alias"
            " WHERE alias.project_id = @p AND alias.checkout_id = memory.checkout_id AND memory_id = memory.id"
            f" ORDER BY path LIMIT {MOST_ALIASES}) AS named)",
        ),
    )
)
_PLACEHOLDER = re.compile(r"\?|(?<!:):([a-z_]+)\b|@p\b|@c\b|@vector\b|%")


@lru_cache(maxsize=4_096)
def translated(sql: str, project: int, checkout: int, extension: str) -> bytes:
    """Project and checkout ids are inserted as literals; `extension` is the schema that contains pgvector."""

    def one(found: re.Match[str]) -> str:
        match found[0]:
            case "?":
                return "%s"
            case "@p":
                return str(project)
            case "@c":
                return str(checkout)
            case "@vector":
                return f'"{extension}".vector'
            case "%":
                return "%%"
        return f"%({found[1]})s"

    for pattern, text in _WORDS:
        sql = pattern.sub(text, sql)
    return _PLACEHOLDER.sub(one, sql).encode()
