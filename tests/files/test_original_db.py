"""What does a database of the original system know?"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import apsw
import pytest

from spec_kit_memory.core.memory import Actor, ContextType, Event, Relation, Tier
from spec_kit_memory.errors import DatabaseCorrupt, FileMissing, Invalid
from spec_kit_memory.files import original_db
from spec_kit_memory.files.original_db import OriginalMemory, read_original
from tests.endless_table import make_endless

MEMORY_INDEX = """
CREATE TABLE memory_index (
  id INTEGER PRIMARY KEY,
  spec_folder TEXT NOT NULL,
  file_path TEXT NOT NULL,
  title TEXT,
  anchor_id TEXT,
  content TEXT,
  embedding BLOB,
  created_at TEXT DEFAULT (datetime('now')),
  created_at_epoch INTEGER,
  updated_at TEXT,
  importance_weight REAL DEFAULT 0.5,
  importance_tier TEXT DEFAULT 'normal',
  context_type TEXT DEFAULT 'general',
  channel TEXT,
  session_id TEXT,
  access_count INTEGER DEFAULT 0,
  last_accessed TEXT,
  validation_count INTEGER DEFAULT 0,
  confidence_score REAL DEFAULT 0.5,
  trigger_phrases TEXT DEFAULT '[]'
);
CREATE VIRTUAL TABLE memory_fts USING fts5(title, content, content='memory_index', content_rowid='id');
"""
CAUSAL_EDGES = """
CREATE TABLE causal_edges (
  id INTEGER PRIMARY KEY, source_id TEXT NOT NULL, target_id TEXT NOT NULL, relation TEXT NOT NULL,
  strength REAL DEFAULT 1.0, evidence TEXT
);
"""
HISTORY_BY_FIELD = """
CREATE TABLE memory_history (
  id INTEGER PRIMARY KEY, memory_id INTEGER NOT NULL, field_changed TEXT NOT NULL, old_value TEXT, new_value TEXT,
  changed_at TEXT DEFAULT (datetime('now'))
);
"""
HISTORY_BY_EVENT = """
CREATE TABLE memory_history (
  id TEXT PRIMARY KEY, memory_id INTEGER NOT NULL, event TEXT NOT NULL, prev_value TEXT, new_value TEXT,
  actor TEXT DEFAULT 'system', timestamp TEXT
);
"""
CHECKPOINTS = """
CREATE TABLE checkpoints (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, description TEXT, created_at TEXT, memory_count INTEGER,
  snapshot_path TEXT, metadata TEXT
);
"""


def database(folder: Path, *statements: str, name: str = "context-index.sqlite") -> Path:
    path = folder / name
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()
    return path


def test_use_validations_and_metadata_are_read(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        MEMORY_INDEX,
        """INSERT INTO memory_index (id, spec_folder, file_path, title, content, created_at, importance_weight,
             importance_tier, context_type, access_count, last_accessed, validation_count, confidence_score,
             trigger_phrases, embedding)
           VALUES (41, '007-auth', '/Users/a/project/.opencode/specs/007-auth/memory/x.md', 'OAuth', 'text',
             '2025-11-28 14:30:00', 0.8, 'important', 'decision', 12, '2025-12-01T10:00:00Z', 3, 0.7999999,
             '["oauth", "callback", "oauth", 5]', x'00ff')""",
    )
    (memory,) = read_original(path).memories
    assert memory.ids == ("41",)
    assert memory.below_specs == "specs/007-auth/memory/x.md"
    assert memory.spec_folder == "007-auth"
    assert memory.tier is Tier.IMPORTANT
    assert memory.context_type is ContextType.DECISION
    assert memory.triggers == ("oauth", "callback")
    assert memory.access_count == 12
    assert memory.last_access == datetime(2025, 12, 1, 10, tzinfo=UTC)
    assert memory.created_at == datetime(2025, 11, 28, 14, 30, tzinfo=UTC)
    assert memory.validation_count == 3
    assert memory.confidence == Decimal("0.80")
    assert memory.content == "text"


def test_thousands_of_rows_of_one_file_are_joined_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = []

    def counted(memory: OriginalMemory, **changes: object) -> OriginalMemory:
        joined.append(memory.path)
        return replace(memory, **changes)  # type: ignore[arg-type]

    monkeypatch.setattr(original_db, "replace", counted)
    path = database(
        tmp_path,
        MEMORY_INDEX,
        """WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 2000)
           INSERT INTO memory_index (id, spec_folder, file_path, access_count, validation_count, trigger_phrases)
           SELECT n, 'a', 'specs/001-a/memory/x.md', 1, n % 7, '["phrase ' || n || '"]' FROM number""",
    )
    (memory,) = read_original(path).memories
    assert memory.ids == tuple(str(n) for n in range(1, 2001))
    assert memory.triggers == tuple(f"phrase {n}" for n in range(1, 2001))
    assert (memory.access_count, memory.validation_count) == (2000, 6)
    assert len(joined) == 1


def test_rows_of_one_file_become_one_memory(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        MEMORY_INDEX,
        """INSERT INTO memory_index (id, spec_folder, file_path, anchor_id, access_count, validation_count,
             confidence_score, last_accessed, trigger_phrases) VALUES
           (1, 'a', 'specs/001-a/memory/x.md', 'summary', 2, 0, 0.5, '1764583200000', '["one"]'),
           (2, 'a', 'specs/001-a/memory/x.md', 'decisions', 3, 4, 0.9, NULL, 'two, one')""",
    )
    data = read_original(path)
    (memory,) = data.memories
    assert memory.ids == ("1", "2")
    assert memory.access_count == 5
    assert (memory.validation_count, memory.confidence) == (4, Decimal("0.90"))
    assert memory.triggers == ("one", "two")
    assert memory.last_access == datetime(2025, 12, 1, 10, tzinfo=UTC)
    assert set(data.by_id()) == {"1", "2"}


def test_links_are_read_and_senseless_ones_reported(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        MEMORY_INDEX,
        CAUSAL_EDGES,
        """INSERT INTO causal_edges (source_id, target_id, relation, strength, evidence) VALUES
           ('1', '2', 'caused', 0.9, 'A led to B'), (2, 3, 'derived_from', NULL, NULL), ('4', '4', 'supports', 1, ''),
           ('5', '6', 'likes', 1, ''), ('7', '8', 'SUPERSEDES', 7, 'x')""",
    )
    data = read_original(path)
    assert [(link.source_id, link.target_id, link.relation, link.strength, link.evidence) for link in data.links] == [
        ("1", "2", Relation.CAUSED, 0.9, "A led to B"),
        ("2", "3", Relation.DERIVED_FROM, 1.0, ""),
        ("7", "8", Relation.SUPERSEDES, 1.0, "x"),
    ]
    assert len(data.warnings) == 2


def test_history_is_read_in_both_shapes(tmp_path: Path) -> None:
    by_field = database(
        tmp_path,
        MEMORY_INDEX,
        HISTORY_BY_FIELD,
        "INSERT INTO memory_history VALUES (1, 41, 'importance_tier', 'normal', 'critical', '2025-12-01 10:00:00')",
        name="one.sqlite",
    )
    (event,) = read_original(by_field).history
    assert (event.memory_id, event.event, event.actor) == ("41", Event.UPDATE, Actor.USER)
    assert (event.before, event.after) == ({"importance_tier": "normal"}, {"importance_tier": "critical"})
    assert event.at == datetime(2025, 12, 1, 10, tzinfo=UTC)
    by_event = database(
        tmp_path,
        MEMORY_INDEX,
        HISTORY_BY_EVENT,
        """INSERT INTO memory_history VALUES ('a', 41, 'ADD', NULL, '{"title": "x"}', 'hook', '2025-12-01T10:00:00Z'),
           ('b', 41, 'DELETE', 'text', NULL, 'martian', 1764583200), ('c', 41, 'EXPLODE', NULL, NULL, 'user', NULL)""",
        name="two.sqlite",
    )
    data = read_original(by_event)
    assert [(event.event, event.before, event.after, event.actor) for event in data.history] == [
        (Event.ADD, None, {"title": "x"}, Actor.HOOK),
        (Event.DELETE, {"value": "text"}, None, Actor.SYSTEM),
    ]
    assert data.history[0].at == data.history[1].at
    assert len(data.warnings) == 1


def test_checkpoints_are_named(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        MEMORY_INDEX,
        CHECKPOINTS,
        "INSERT INTO checkpoints VALUES (1, 'pre-refactor', 'before', '2025-12-01 10:00:00', 7, 'x.gz', '{}')",
    )
    (checkpoint,) = read_original(path).checkpoints
    assert (checkpoint.name, checkpoint.description, checkpoint.memories) == ("pre-refactor", "before", 7)


def test_missing_tables_and_columns_are_no_problem(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        "CREATE TABLE memory_index (id INTEGER PRIMARY KEY, file_path TEXT)",
        "INSERT INTO memory_index VALUES (1, 'notes.md'), (2, NULL)",
    )
    data = read_original(path)
    assert [(memory.path, memory.below_specs, memory.access_count) for memory in data.memories] == [
        ("notes.md", "notes.md", 0)
    ]
    assert (data.links, data.history, data.checkpoints) == ((), (), ())
    assert len(data.warnings) == 1


def test_the_database_is_never_written_to(tmp_path: Path) -> None:
    path = database(tmp_path, "PRAGMA journal_mode = WAL", MEMORY_INDEX)
    before = path.read_bytes()
    read_original(path)
    assert path.read_bytes() == before


def test_what_is_not_of_the_original_is_refused_clearly(tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        read_original(tmp_path / "missing.sqlite")
    foreign = database(tmp_path, "CREATE TABLE notes (id)", name="foreign.sqlite")
    with pytest.raises(Invalid, match="tables: notes"):
        read_original(foreign)
    text = tmp_path / "text.sqlite"
    text.write_text("hello " * 1000, encoding="utf-8")
    with pytest.raises(Invalid, match="not an SQLite database"):
        read_original(text)
    empty = tmp_path / "empty.sqlite"
    empty.touch()
    with pytest.raises(Invalid, match="tables: none"):
        read_original(empty)


def test_a_damaged_database_is_named_as_such(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        MEMORY_INDEX,
        "INSERT INTO memory_index (spec_folder, file_path, content) VALUES ('a', 'b', randomblob(50000))",
    )
    data = bytearray(path.read_bytes())
    data[4096 : 4096 * 8] = b"\xff" * (4096 * 7)
    path.write_bytes(data)
    with pytest.raises(DatabaseCorrupt, match="damaged"):
        read_original(path)


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("trigger_phrases", f"'{DEEP}'"),
        ("confidence_score", "'NaN'"),
        ("created_at", "'0001-01-01T00:00:00+23:59'"),
        ("last_accessed", "'9999-12-31T23:59:59-23:59'"),
        ("last_accessed", "1e308"),
        ("title", "CAST(x'ff6161' AS TEXT)"),
        ("title", "CAST(x'eda080' AS TEXT)"),
        ("content", "x'00ff'"),
    ],
)
def test_a_value_that_can_be_anything_is_taken_for_nothing(tmp_path: Path, column: str, value: str) -> None:
    path = database(
        tmp_path,
        MEMORY_INDEX,
        f"INSERT INTO memory_index (id, spec_folder, file_path, {column})"
        f" VALUES (1, '001', 'specs/001/memory/a.md', {value})",
    )
    (memory,) = read_original(path).memories
    assert memory.path == "specs/001/memory/a.md"
    assert 0 <= memory.confidence <= 1


def test_a_history_value_that_nests_without_end_is_kept_as_text(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        MEMORY_INDEX,
        HISTORY_BY_EVENT,
        f"INSERT INTO memory_history (id, memory_id, event, prev_value) VALUES ('1', 1, 'UPDATE', '{DEEP}')",
    )
    (event,) = read_original(path).history
    assert event.before == {"value": DEEP}


def test_a_table_without_row_numbers_is_read(tmp_path: Path) -> None:
    path = database(
        tmp_path,
        "CREATE TABLE memory_index (id INTEGER PRIMARY KEY, file_path TEXT) WITHOUT ROWID",
        "INSERT INTO memory_index VALUES (2, 'specs/001/memory/b.md'), (1, 'specs/001/memory/a.md')",
    )
    assert [memory.path for memory in read_original(path).memories] == [
        "specs/001/memory/a.md",
        "specs/001/memory/b.md",
    ]


def test_a_virtual_table_is_none_of_the_original(tmp_path: Path) -> None:
    path = database(tmp_path, "CREATE VIRTUAL TABLE memory_index USING fts5(file_path)")
    with pytest.raises(Invalid, match="no table memory_index"):
        read_original(path)


def test_a_forged_table_without_end_is_refused(tmp_path: Path) -> None:
    path = database(tmp_path, MEMORY_INDEX, "INSERT INTO memory_index (spec_folder, file_path) VALUES ('a', 'b.md')")
    make_endless(path, "memory_index")
    with pytest.raises(DatabaseCorrupt, match="more rows than fit"):
        read_original(path)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ('{"a": NaN, "b": -Infinity, "c": 1e999, "d": 1.5}', {"a": "NaN", "b": "-Infinity", "c": "1e999", "d": 1.5}),
        (r'{"cut \ud83d": "caf\udce9 off"}', {"cut \ufffd": "caf\ufffd off"}),
    ],
)
def test_a_history_value_that_cannot_be_stored_is_written_out(tmp_path: Path, value: str, kept: object) -> None:
    path = database(tmp_path, MEMORY_INDEX, HISTORY_BY_EVENT)
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("INSERT INTO memory_history VALUES ('h', 1, 'UPDATE', ?, NULL, 'user', NULL)", (value,))
    (event,) = read_original(path).history
    assert event.before == kept


def test_an_infinite_number_of_a_field_is_written_out(tmp_path: Path) -> None:
    path = database(
        tmp_path, MEMORY_INDEX, HISTORY_BY_FIELD.replace("old_value TEXT, new_value TEXT", "old_value, new_value")
    )
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("INSERT INTO memory_history VALUES (1, 1, 'weight', 9e999, 0.5, NULL)")
    (event,) = read_original(path).history
    assert event.before == {"weight": "inf"}
    assert event.after == {"weight": 0.5}
