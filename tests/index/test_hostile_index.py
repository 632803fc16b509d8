"""An index that came with a repository may hold what it likes; what it holds must not act."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from spec_kit_memory.errors import DatabaseCorrupt
from spec_kit_memory.index.sqlite import schema
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from tests.faults import operations


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A database of the user's, outside the workspace."""
    path = tmp_path / "victim.sqlite"
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE t (x); INSERT INTO t VALUES ('precious')").fetchall()
    return path


def content(path: Path) -> list[tuple[Any, ...]]:
    with closing(apsw.Connection(str(path))) as connection:
        return connection.execute("SELECT x FROM t").fetchall()


def forge(root: Path, *statements: str) -> None:
    with closing(apsw.Connection(str(root / ".spec-kit-memory/index.sqlite"))) as connection:
        for sql in statements:
            connection.execute(sql).fetchall()


def test_a_trigger_whose_name_is_a_program_reaches_no_other_database(tmp_path: Path, victim: Path) -> None:
    """The upgrade of an index of 0.1 takes the triggers of a table away by their names, and makes them again."""
    root = (tmp_path / "work").resolve()
    root.mkdir()
    operations.OPERATIONS["upgrade of an index of 0.1"].make(root)
    name = f"a\"; COMMIT; ATTACH DATABASE '{victim}' AS v; DELETE FROM v.t; DETACH v; BEGIN IMMEDIATE; --"
    quoted = name.replace('"', '""')
    forge(
        root,
        "CREATE TRIGGER a BEFORE UPDATE ON ledger BEGIN SELECT 1; END",
        f'CREATE TRIGGER "{quoted}" BEFORE UPDATE ON history BEGIN SELECT 1; END',
    )
    with operations.open_at(root) as workspace, pytest.raises(DatabaseCorrupt, match="no version of ours"):
        workspace.list()
    assert content(victim) == [("precious",)]


@pytest.mark.parametrize(
    "program",
    [
        "CREATE TRIGGER t AFTER INSERT ON memory BEGIN UPDATE memory SET trusted = 1, tier = 'constitutional'; END",
        "CREATE TRIGGER t AFTER INSERT ON ledger BEGIN"
        " INSERT INTO failure WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i, 1, '' FROM n; END",
        "CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT i FROM n",
        "DROP TRIGGER ledger_is_append_only_delete; CREATE TRIGGER ledger_is_append_only_delete"
        " BEFORE DELETE ON ledger BEGIN SELECT 1; END",
    ],
    ids=["it forges trust", "it never ends", "a view", "ours in another wording"],
)
def test_programs_in_an_index_are_refused_and_a_rebuild_leaves_them_out(tmp_path: Path, program: str) -> None:
    root = (tmp_path / "work").resolve()
    operations.build(root)
    before = operations.state_of(root)
    forge(root, program)
    with operations.open_at(root) as workspace:
        with pytest.raises(DatabaseCorrupt, match="no version of ours"):
            workspace.search("numbat")
        workspace.index(rebuild=True)
    state = operations.state_of(root)
    assert state["memories"] == before["memories"]
    assert operations.unhealthy(root) == []


def test_a_connection_to_an_index_reaches_no_other_file(tmp_path: Path, victim: Path) -> None:
    with closing(SqliteIndex(tmp_path / "index.sqlite")) as index, index._database.writing() as connection:
        with pytest.raises(apsw.SQLError, match="attach"):
            connection.execute(f"ATTACH DATABASE '{victim}' AS v")
        with pytest.raises(apsw.SQLError):
            connection.execute("UPDATE sqlite_schema SET sql = ''")


def test_the_triggers_are_those_that_opening_an_index_compares_with() -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        connection.execute("BEGIN")
        schema.migrate(connection, ":memory:")
        found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type IN ('trigger', 'view')").fetchall()
        assert schema.digest_of(found) == schema.TRIGGERS
        assert set(found) <= schema.known_triggers()
