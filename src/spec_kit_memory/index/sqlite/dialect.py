"""How is a statement of `sql` translated for SQLite, where a file has only one project and one checkout?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from spec_kit_memory.index.sql.dialect import MOST_ALIASES, Values

_FENCE = r'(?:[\w"]+\.)?(?:project_id = @p|checkout_id = @c)'
_REPLACED = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (rf"{_FENCE}\s+AND ", ""),
        (rf"\s+WHERE {_FENCE}", ""),
        (r"\b(?:project_id|checkout_id), |@p, ", ""),
        (r"@own_link\b|@here\b", "true"),
        (r"@list\(([?:\w]+)\)", r"(SELECT value FROM json_each(\1))"),
        (r"@texts\(([?:\w]+)\)", r"(SELECT value AS name FROM json_each(\1))"),
        (r"@ids_in\((\w+)\)", r"(SELECT value AS id FROM json_each(\1))"),
        (
            r"@aliases\b",
            "(SELECT json_group_array(path) FROM"
            f" (SELECT path FROM alias WHERE memory_id = memory.id ORDER BY path LIMIT {MOST_ALIASES}))",
        ),
    )
)


@lru_cache(maxsize=1_024)
def translated(sql: str) -> tuple[str, bool]:
    """The statement for SQLite, and whether it takes lists as values."""
    text = sql
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    return text, "@list(" in sql or "@texts(" in sql


def bound(values: Values) -> Values:
    """The values with each list as JSON."""
    if isinstance(values, Mapping):
        return {name: _bound(value) for name, value in values.items()}
    return [_bound(value) for value in values]


def _bound(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value
