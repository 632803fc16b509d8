"""Does one statement say the same to both engines, and does each keep within its project?"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import spec_kit_memory.index.sql
from spec_kit_memory.index.postgres import dialect as postgres
from spec_kit_memory.index.sql.dialect import upsert
from spec_kit_memory.index.sqlite import dialect as sqlite

TABLES = (
    "memory|document|content|usage|override|citation|link|history|ledger|session|alias|trigger|claim|model|vector"
    "|token_state|failure|bad_file|passage|counter"
)
USED = re.compile(rf'\b(?:FROM|JOIN|INTO|UPDATE) "?(?:{TABLES})"?(?![\w.])')

TRANSLATED = {
    "SELECT id FROM memory WHERE project_id = @p AND path = ?": (
        "SELECT id FROM memory WHERE path = ?",
        "SELECT id FROM memory WHERE project_id = 7 AND path = %s",
    ),
    "SELECT epoch FROM counter WHERE project_id = @p ORDER BY 1": (
        "SELECT epoch FROM counter ORDER BY 1",
        "SELECT epoch FROM counter WHERE project_id = 7 ORDER BY 1",
    ),
    "SELECT 1 FROM history WHERE history.project_id = @p AND history.checkout_id = @c": (
        "SELECT 1 FROM history",
        "SELECT 1 FROM history WHERE history.project_id = 7 AND history.checkout_id = 3",
    ),
    'DELETE FROM "trigger" WHERE "trigger".project_id = @p AND memory_id IN @list(:ids)': (
        'DELETE FROM "trigger" WHERE memory_id IN (SELECT value FROM json_each(:ids))',
        'DELETE FROM "trigger" WHERE "trigger".project_id = 7 AND memory_id = ANY(%(ids)s)',
    ),
    "SELECT 1 FROM ledger WHERE project_id = @p AND operation LIKE '%user%' AND @here": (
        "SELECT 1 FROM ledger WHERE operation LIKE '%user%' AND true",
        "SELECT 1 FROM ledger WHERE project_id = 7 AND operation LIKE '%%user%%' AND checkout_id = 3",
    ),
    upsert("alias", "checkout_id, path", "memory_id", once="size"): (
        "INSERT INTO alias (path, memory_id, size) VALUES (?, ?, ?)"
        " ON CONFLICT (path) DO UPDATE SET memory_id = excluded.memory_id",
        "INSERT INTO alias (project_id, path, memory_id, size) VALUES (7, %s, %s, %s)"
        " ON CONFLICT (project_id, checkout_id, path) DO UPDATE SET memory_id = excluded.memory_id",
    ),
}


@pytest.mark.parametrize("statement", TRANSLATED)
def test_each_engine_reads_a_statement_in_its_own_words(statement: str) -> None:
    in_file, on_server = TRANSLATED[statement]
    assert sqlite.translated(statement)[0] == in_file
    assert postgres.translated(statement, 7, 3, "public").decode() == on_server


def texts(node: ast.AST) -> str:
    """What is fixed of a string, with a mark where something is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(texts(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else "{}"


def statements(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    results = [texts(n) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr | ast.Constant) and id(n) not in parts]
    return [text for text in results if USED.search(text)]


def test_every_shared_statement_names_its_project_once_for_each_table() -> None:
    folder = Path(spec_kit_memory.index.sql.__file__).parent
    results = [(path.name, text) for path in sorted(folder.glob("*.py")) for text in statements(path)]
    assert len(results) > 80
    for name, text in results:
        fences = text.count("project_id = @p") + text.count("(@p, ") + text.count("SELECT @p, ")
        fences += name == "conditions.py"  # the columns of a memory, before a WHERE that begins with it
        assert fences >= len(USED.findall(text)), f"{name}: {text}"
