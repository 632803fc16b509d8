"""An index that came with a repository may hold what it likes; what it holds must not act."""

from __future__ import annotations

import gzip
import os
import re
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from spec_kit_memory.core.memory import FIRST_PERSONAL_ID
from spec_kit_memory.errors import AccessDenied, DatabaseCorrupt, DatabaseUnusable, RestoreFailed
from spec_kit_memory.index import rows
from spec_kit_memory.index.sqlite import companions, schema
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from spec_kit_memory.settings import Isolation, Settings
from spec_kit_memory.workspace import Workspace
from tests.endless_table import make_endless
from tests.faults import operations, rich


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


@pytest.mark.parametrize(
    "statements",
    [
        [
            "CREATE TEMP TABLE forged AS SELECT * FROM memory WHERE id = 1",
            "UPDATE forged SET id = 1000000001, path = 'memory/forged.md'",
            "INSERT INTO memory SELECT * FROM forged",
        ],
        ["UPDATE sqlite_sequence SET seq = 1000000000 WHERE name = 'memory'"],
        ["UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = 'memory'"],
    ],
    ids=["a memory", "the next one", "no next one"],
)
def test_no_memory_of_a_repository_has_the_id_of_a_personal_one(tmp_path: Path, statements: list[str]) -> None:
    """A change of it would be made to the user's own memory of that id."""
    root = (tmp_path / "work").resolve()
    operations.build(root)
    forge(root, *statements)
    with operations.open_at(root) as workspace:
        with pytest.raises(DatabaseCorrupt, match="another vault"):
            workspace.list()
        workspace.index(rebuild=True)
        saved = workspace.save(text=operations.FACT, spec_folder="001-core")
        ids = [card.id for card in workspace.list(limit=100).memories]
        assert saved.id in ids
        assert len(ids) == len(operations.NOTES) + 1
        assert max(ids) < FIRST_PERSONAL_ID
    assert operations.unhealthy(root) == []


def test_no_checkpoint_brings_the_id_of_a_personal_memory(tmp_path: Path) -> None:
    root = (tmp_path / "work").resolve()
    operations.build(root)
    shelf = root / ".spec-kit-memory/checkpoints/then.jsonl.gz"
    with operations.open_at(root) as workspace:
        workspace.checkpoint_create("then")
        memory_id = operations.id_of(workspace, "plan.md")
        text = gzip.decompress(shelf.read_bytes()).decode()
        workspace.delete(memory_id, delete_file=True)
        forged = re.sub(rf'"id": ?{memory_id},', '"id":1000000001,', text)
        assert forged != text
        shelf.write_bytes(gzip.compress(forged.encode()))
        try:
            workspace.checkpoint_restore("then", restore_files=True)
        except RestoreFailed:
            return
        assert max(card.id for card in workspace.list(limit=100).memories) < FIRST_PERSONAL_ID


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
        result = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type IN ('trigger', 'view')").fetchall()
        assert schema.digest_of(result) == schema.TRIGGERS
        assert set(result) <= schema.known_triggers()


# --- files beside the index ------------------------------------------------------------------


def _hard_link(place: Path, victim: Path) -> None:
    os.link(victim, place)


def _link(place: Path, victim: Path) -> None:
    place.symlink_to(victim)


def _pipe(place: Path, victim: Path) -> None:
    os.mkfifo(place)


def _folder(place: Path, victim: Path) -> None:
    place.mkdir()


def _journal(place: Path, victim: Path) -> None:
    """A journal that is played back, and that names a file which old versions of SQLite delete after that."""
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(victim).encode()
    head = magic + struct.pack(">IIIII", 0, 0, 1, 512, 4096)
    end = struct.pack(">I", 0x40000000 // 4096 + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    place.write_bytes(head.ljust(512, b"\0") + end)


STRANGERS = [
    *((ending, make) for ending in companions.ENDINGS for make in (_hard_link, _link, _pipe, _folder)),
    ("", _hard_link),
    ("-journal", _journal),
]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes among files here")
@pytest.mark.parametrize(("ending", "make"), STRANGERS, ids=lambda value: getattr(value, "__name__", value))
def test_what_stands_in_place_of_a_file_of_sqlite_is_neither_waited_for_nor_written(
    tmp_path: Path, ending: str, make: Callable[[Path, Path], None]
) -> None:
    root, victim = (tmp_path / "work").resolve(), tmp_path / "victim.txt"
    root.mkdir()
    operations.build(root)
    victim.write_bytes(b"precious")
    place = root / f".spec-kit-memory/index.sqlite{ending}"
    place.unlink(missing_ok=True)
    make(place, victim)
    for act in (
        lambda: operations.open_at(root).list(),
        lambda: operations.open_at(root).index(rebuild=True),
        lambda: operations.open_at(root).save(text="The potoroo eats truffles."),
    ):
        with pytest.raises((AccessDenied, DatabaseCorrupt, DatabaseUnusable), match=r"index\.sqlite"):
            act()
        assert victim.read_bytes() == b"precious"
    place.rmdir() if place.is_dir() else place.unlink()
    with operations.open_at(root) as workspace:
        workspace.index()
        assert workspace.search("numbat termites").results


def test_an_index_that_is_a_link_to_another_file_of_the_workspace_is_not_rebuilt_over_it(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / ".spec-kit-memory").mkdir()
    (root / "package.json").write_text("{}", encoding="utf-8")
    (root / ".spec-kit-memory/index.sqlite").symlink_to("../package.json")
    with pytest.raises(AccessDenied, match="which is no index"):
        operations.open_at(root)
    assert (root / "package.json").read_text(encoding="utf-8") == "{}"


SENSELESS = {
    "text in place of a number": ("UPDATE passage SET tokens = 'x', first_line = '{}'", "search"),
    "a number in place of a list": ("UPDATE session SET sent = 7", "search in a session"),
    "no list": ("UPDATE session SET attention = '../../etc/passwd'", "search in a session"),
    "a list without end": ("UPDATE alias SET triggers = '%s'" % ("[" * 100_000), "checkpoint"),
    "a count without end": ("UPDATE counter SET generation = 9e999", "update"),
    "use without end": ("UPDATE counter SET used = 9e999", "validate"),
    "a time in no year": ("UPDATE session SET seen_at = 9223372036854775807", "checkpoint"),
    "a weight that is no number": ("UPDATE memory SET weight = 9e999", "checkpoint"),
    "a time of a file that is none": ("UPDATE document SET mtime_ns = 'x'", "scan"),
    "a text that nobody recorded": ("UPDATE memory SET content_hash = 'x'", "load"),
    "an entry of no time": ("DROP TRIGGER ledger_is_append_only_update; UPDATE ledger SET at = 'x'", "changes"),
}
ASKED: dict[str, Callable[[Workspace], object]] = {
    "search": lambda workspace: workspace.search("zebra5"),
    "search in a session": lambda workspace: workspace.search("zebra3", session_id="session 1"),
    "health": lambda workspace: workspace.health(full=True),
    "update": lambda workspace: workspace.update(workspace.search("zebra5").results[0].id, title="New"),
    "validate": lambda workspace: workspace.validate(1, was_useful=True),
    "checkpoint": lambda workspace: workspace.checkpoint_create("then"),
    "scan": lambda workspace: workspace.index(),
    "undo": lambda workspace: workspace.undo(),
    "changes": lambda workspace: workspace.changes(),
    "load": lambda workspace: workspace.load(6),
}


@pytest.fixture(scope="module")
def rich_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rich.make(tmp_path_factory.mktemp("rich"))


@pytest.mark.parametrize("what", SENSELESS)
def test_values_that_we_never_write_are_called_damage_and_a_rebuild_is_rid_of_them(
    rich_root: Path, tmp_path: Path, what: str
) -> None:
    """No column refuses them, and what they led to was an error of Python without a next step."""
    root = rich.copied(rich_root, tmp_path / "work")
    statement, verb = SENSELESS[what]
    forge(root, statement)
    rich.settle(rich.index_of(root))
    with rich.opened(root) as workspace:
        with pytest.raises(DatabaseCorrupt) as refused:
            ASKED[verb](workspace)
        assert "index(rebuild=True)" in refused.value.hint
        assert damage_in(workspace)
        workspace.index(rebuild=True)
        assert set(rich.read_all(workspace).values()) == {"right"}
        for ask in ASKED.values():
            ask(workspace)


@pytest.mark.parametrize("mend", ["index", "rebuild"])
@pytest.mark.parametrize("column", ["owner", "project"])
@pytest.mark.parametrize("user", ["eve", None])
def test_a_file_belongs_to_whom_its_path_says_whatever_the_index_claims(
    tmp_path: Path, user: str | None, column: str, mend: str
) -> None:
    """Such a row hid the file from those who may see it, and no scan read the file again, as it had not changed."""
    root = tmp_path.resolve()
    own = root / "memory/users/eve"
    own.mkdir(parents=True)
    (own / "plan.md").write_text("# The numbat eats termites\n", encoding="utf-8")
    (root / "memory/shared.md").write_text("# The quokka eats leaves\n", encoding="utf-8")
    settings = Settings(root=root, isolation=Isolation(user_id=user))
    with Workspace(settings) as workspace:
        workspace.index()
        before = {memory.path: memory.id for memory in workspace.list().memories}
        forge(root, f"UPDATE memory SET {column} = 'mallory'")
    with Workspace(settings) as workspace:
        problems = "; ".join(str(one["message"]) for one in workspace.health().problems)
        assert all(path in problems for path in before)
        workspace.index(rebuild=mend == "rebuild")
        assert {memory.path: memory.id for memory in workspace.list().memories} == before
        assert workspace.search("quokka leaves", mode="text").results[0].path == "memory/shared.md"
        assert not workspace.health(full=True).problems
        assert workspace.index().unchanged == len(before), "it is read again once"


def damage_in(workspace: Workspace) -> str:
    """What health says of the file, in a list or because it cannot go on."""
    try:
        return "; ".join(str(one["message"]) for one in workspace.health(full=True).problems)
    except DatabaseCorrupt as error:
        return error.message


def test_a_text_that_is_a_bomb_is_not_unpacked(
    rich_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four megabytes of a row could become four gigabytes of memory in every process that read them."""
    monkeypatch.setattr(rows, "LONGEST_TEXT", 1_000_000)
    root = rich.copied(rich_root, tmp_path / "work")
    bomb = zlib.compress(bytes(50_000_000), 9)
    with closing(apsw.Connection(str(rich.index_of(root)))) as connection:
        connection.execute("UPDATE content SET text = ?", (bomb,))
    rich.settle(rich.index_of(root))
    tracemalloc.start()
    try:
        with rich.opened(root) as workspace:
            with pytest.raises(DatabaseCorrupt, match="longer than a text can be"):
                workspace.update(1, title="New")
            assert workspace.health(full=True).problems
            workspace.index(rebuild=True)
            assert workspace.search("zebra5", mode="text").results[0].title == "Note 5"
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("table", ["memory", "usage", "link", "sqlite_sequence"])
def test_a_table_that_enters_its_pages_again_and_again_is_named_as_damage_and_rebuilt(
    tmp_path: Path, table: str
) -> None:
    root = (tmp_path / "work").resolve()
    operations.build(root)
    make_endless(root / ".spec-kit-memory/index.sqlite", table)
    with operations.open_at(root) as workspace, pytest.raises(DatabaseCorrupt, match="is damaged: "):
        workspace.stats()
    with operations.open_at(root) as workspace:
        workspace.index(rebuild=True)
        assert workspace.list().memories
        assert workspace.health(full=True).healthy
