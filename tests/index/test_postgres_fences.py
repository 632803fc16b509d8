"""Does a project on PostgreSQL stay to itself, by every verb and by SQL? Statements name it, and rows guard it."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from spec_kit_memory.core.memory import Actor, Change, Filter, Link, Relation, Scope, Session
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.index import postgres
from spec_kit_memory.index.postgres import dialect, schema
from spec_kit_memory.index.postgres.connection import Connection, Database
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.index.sql import conditions
from tests.index.material import BY_USER, NOON, change, embed_all, entry, sha
from tests.postgres_server import Server

SECRET = "zebra crossing at dawn"


@pytest.fixture
def pair(server: Server) -> Iterator[tuple[PostgresIndex, PostgresIndex]]:
    """A project with a secret, and a stranger's with a note of its own."""
    run = uuid4().hex
    own, strange = (PostgresIndex(server.url(), f"{run}-{name}") for name in ("own", "strange"))
    with own.bulk():
        own.documents.put(entry("memory/secret.md", SECRET, triggers=["zebra"], spec_folder="001-a"), BY_USER)
        own.documents.put(entry("memory/b.md", "zebra stripes", spec_folder="001-a"), BY_USER)
    embed_all(own)
    own.record.put_link(Link(0, 1, 2, Relation.CAUSED), BY_USER)
    own.record.change_session("s", lambda _: Session("s", turn=3), NOON)
    own.record.use({1: 2.0}, NOON)
    strange.vectors.use_model("test-model", 3, "weights")
    yield own, strange
    own.close()
    strange.close()


READS: dict[str, Callable[[PostgresIndex], Any]] = {
    "get by path": lambda s: s.documents.get(path="memory/secret.md", any_presence=True),
    "many": lambda s: s.documents.many([1, 2]),
    "alike": lambda s: s.documents.many(fingerprint=sha(SECRET)[:16]),
    "find": lambda s: s.documents.find(),
    "count": lambda s: s.documents.count(),
    "tally": lambda s: s.documents.tally(),
    "text of a hash": lambda s: s.documents.text(content_hash=sha(SECRET)),
    "passages": lambda s: s.documents.passages([1, 2]),
    "passages of a memory": lambda s: s.documents.passages(memory_ids=[1]),
    "stored": lambda s: s.documents.stored(),
    "stored below": lambda s: s.documents.stored(below=["memory"]),
    "stored alike": lambda s: s.documents.stored(alike=sha(SECRET)[:16]),
    "triggers": lambda s: s.documents.triggers(),
    "match": lambda s: s.documents.match(["zebra"], Filter(), 10),
    "match a phrase": lambda s: s.documents.match(["zebra crossing"], Filter(), 10),
    "match a vector": lambda s: s.vectors.match([1.0, 1.0, 1.0], Filter(), 10),
    "token states": lambda s: s.vectors.token_states([1, 2]),
    "vectors": lambda s: list(s.vectors.get([sha(SECRET)])),
    "vector work": lambda s: s.vectors.work(10),
    "links": lambda s: s.record.links(),
    "links of a memory": lambda s: s.record.links([1]),
    "history": lambda s: s.record.history(),
    "ledger": lambda s: list(s.record.ledger()),
    "session": lambda s: s.record.session("s"),
    "bad files": lambda s: s.care.bad_files(),
    "remarks": lambda s: s.care.remarks(),
    "snapshot": lambda s: [row for row in s.care.snapshot() if row["kind"] != "header"],
    "memories counted": lambda s: s.care.stats().memories,
    "size": lambda s: s.care.stats(size=True).size_bytes,
}


@pytest.mark.parametrize("verb", READS)
def test_a_stranger_reads_nothing(pair: tuple[PostgresIndex, PostgresIndex], verb: str) -> None:
    assert not READS[verb](pair[1])


WRITES: dict[str, Callable[[PostgresIndex], Any]] = {
    "get": lambda s: s.documents.get(1),
    "text": lambda s: s.documents.text(1),
    "forget": lambda s: s.documents.forget(1, BY_USER),
    "recall": lambda s: s.documents.recall(1, BY_USER),
    "put as that memory": lambda s: s.documents.put(entry("memory/x.md", "mine"), BY_USER, memory_id=1),
    "amend": lambda s: s.record.amend(1, BY_USER, outdated=True),
    "link": lambda s: s.record.put_link(Link(0, 1, 2, Relation.SUPPORTS), BY_USER),
    "drop link": lambda s: s.record.drop_link(1, BY_USER),
    "history of": lambda s: s.record.history(1),
}


@pytest.mark.parametrize("verb", WRITES)
def test_a_stranger_changes_nothing(pair: tuple[PostgresIndex, PostgresIndex], verb: str) -> None:
    own, strange = pair
    before = list(own.record.ledger()), own.documents.find(), own.record.links()
    with pytest.raises(SpecKitMemoryError):
        WRITES[verb](strange)
    assert (list(own.record.ledger()), own.documents.find(), own.record.links()) == before


def test_what_a_stranger_writes_is_its_own(pair: tuple[PostgresIndex, PostgresIndex]) -> None:
    own, strange = pair
    put = strange.documents.put(entry("memory/secret.md", SECRET), change(minutes=1))
    assert put.memory_id == 1, "ids are a project's own"
    assert put.created, "the same text elsewhere is not a copy of it"
    strange.vectors.failed("no", [sha(SECRET)])
    strange.documents.vanish("memory/secret.md", change(minutes=2))
    strange.care.repair(Change(Actor.USER, NOON))
    strange.record.use({1: 5.0}, NOON)
    assert own.documents.get(1).access_count == 2.0
    assert own.documents.text(1) == SECRET
    assert len(own.documents.match(["zebra"], Filter(), 10)) == 2


OPERATORS = ("lease",)  # no transaction of a project may read it


@pytest.mark.parametrize("pretending", [None, "0", "-1", "", "no number"])
def test_by_sql_too_a_transaction_sees_its_own_project_only(
    pair: tuple[PostgresIndex, PostgresIndex], server: Server, pretending: str | None
) -> None:
    own, strange = pair
    tables = [
        str(row[0])
        for row in server.execute(
            f"SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = '{schema.NAME}'"
            " AND column_name = 'project_id' ORDER BY 1"
        )
    ]
    assert len(tables) == 27
    with psycopg.connect(server.url()) as connection:
        for table in tables:
            with connection.transaction(force_rollback=True):
                connection.execute(f"SET LOCAL ROLE {schema.ROLE}".encode())
                if pretending is not None:
                    connection.execute("SELECT set_config('skm.project', %s, true)", (pretending,))
                counted = f'SELECT count(*) FROM {schema.NAME}."{table}"'.encode()
                if table in OPERATORS:
                    with pytest.raises(psycopg.errors.InsufficientPrivilege):
                        connection.execute(counted)
                    continue
                if pretending == "no number":
                    with pytest.raises(psycopg.Error):
                        connection.execute(counted)
                else:
                    assert connection.execute(counted).fetchall() == [(0,)], table
            with connection.transaction(force_rollback=True):
                connection.execute(f"SET LOCAL ROLE {schema.ROLE}".encode())
                number = strange._database.project
                connection.execute("SELECT set_config('skm.project', %s, true)", (str(number),))
                asked = f'SELECT count(*) FROM {schema.NAME}."{table}" WHERE project_id = {own._database.project}'
                assert connection.execute(asked.encode()).fetchall() == [(0,)], table


# --- the second fence alone: statements that name no project and no person, on the connections that the product uses

FIRST_FENCE = re.compile(r"""(?:(?:\b\w+|"\w+")\.)?\bproject_id = @p\b""")
WAYS: dict[str, Callable[[Database], AbstractContextManager[Connection]]] = {
    "reading": lambda d: d.reading(),
    "apart": lambda d: d.apart(),
    "writing": lambda d: d.writing(),
    "aside": lambda d: d.writing(aside=True),
    "beside": lambda d: d.beside(seconds=5),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_products_own_connections_show_one_project_to_statements_that_name_none(
    pair: tuple[PostgresIndex, PostgresIndex], server: Server, way: str
) -> None:
    own, strange = pair
    guarded = server.execute(
        f"SELECT tablename FROM pg_policies WHERE schemaname = '{schema.NAME}' AND policyname = 'own_project'"
    )
    assert len(guarded) == 26
    filled = 0
    with WAYS[way](strange._database) as connection:
        for (table,) in guarded:
            seen = {row[0] for row in connection.execute(f'SELECT project_id FROM "{table}"')}
            assert seen <= {strange._database.project}, table
    with WAYS[way](own._database) as connection:
        for (table,) in guarded:
            seen = {row[0] for row in connection.execute(f'SELECT project_id FROM "{table}"')}
            assert seen <= {own._database.project}, table
            filled += bool(seen)
    assert filled > 12, "there was something to see"


@pytest.mark.parametrize("verb", READS)
def test_a_stranger_reads_nothing_by_statements_that_name_no_project(
    pair: tuple[PostgresIndex, PostgresIndex], verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    translated, changed = dialect.translated, []

    def without_first_fence(sql: str, project: int, checkout: int, extension: str) -> bytes:
        open_, count = FIRST_FENCE.subn("true", sql)
        changed.append(count)
        return translated(open_, project, checkout, extension)

    monkeypatch.setattr(dialect, "translated", without_first_fence)
    assert not READS[verb](pair[1])
    assert sum(changed), "no statement of this verb was asked without its fence"


@pytest.mark.parametrize("user", [None, "bob", "o'hara\\ 5% %s"])
def test_a_person_reads_nobody_elses_own_by_statements_that_name_no_person(
    pair: tuple[PostgresIndex, PostgresIndex], user: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = pair[0]
    ana = own.within(Scope(user="ana"))
    ana.documents.put(entry("memory/users/ana/a.md", "zebra of ana", owner="ana"), BY_USER)
    ana.record.change_session("hers", lambda _: Session("hers", turn=1), NOON)
    assert ana.documents.count() == 3
    monkeypatch.setattr(conditions, "visible", lambda scope: ("true", []))
    other = own.within(Scope(user=user))
    assert {memory.owner for memory in other.documents.find()} == {None}
    assert other.documents.count() == 2
    assert not [row for row in other.documents.stored() if "users" in row]
    for way in ("reading", "apart"):
        for database in (own._database.within(Scope(user=user)), other._database):
            with WAYS[way](database) as connection:
                assert {row[0] for row in connection.execute("SELECT owner FROM memory")} == {None}
                assert {row[0] for row in connection.execute("SELECT owner FROM session")} <= {""}


def test_a_row_cannot_be_written_into_another_project(
    pair: tuple[PostgresIndex, PostgresIndex], server: Server
) -> None:
    own, strange = pair
    with psycopg.connect(server.url()) as connection:
        connection.execute(f"SET LOCAL ROLE {schema.ROLE}".encode())
        connection.execute("SELECT set_config('skm.project', %s, true)", (str(strange._database.project),))
        moved = f"UPDATE {schema.NAME}.counter SET project_id = {own._database.project}"
        given = f"INSERT INTO {schema.NAME}.bad_file VALUES ({own._database.project}, 'x', 'x', 'x', 0)"
        for sql in (moved, given):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(sql.encode())


def test_a_temporary_table_on_a_shared_connection_hides_none_of_ours(
    pair: tuple[PostgresIndex, PostgresIndex],
) -> None:
    """Another program may leave one on a connection that a pooler gives to many, and anybody may make one."""
    own, strange = pair
    before = own.documents.count()
    seen = set()
    for _ in range(20):  # each connection of the pool gets them
        with strange._database._transaction("BEGIN") as connection:
            seen.add(connection.raw.info.backend_pid)
            for table in ("memory", "counter", "session", "ledger"):
                made = f"CREATE TEMP TABLE IF NOT EXISTS {table} (LIKE {schema.NAME}.{table} INCLUDING ALL)"
                connection.raw.execute(made.encode())
            connection.raw.execute(b"COMMIT")
    assert own.documents.count() == before
    own.documents.put(entry("memory/later.md", "zebra later"), BY_USER)
    with strange._database._transaction("BEGIN") as connection:
        assert connection.raw.info.backend_pid in seen
        assert connection.raw.execute(b"SELECT count(*) FROM pg_temp.memory").fetchone() == (0,)
        for table in ("memory", "counter", "session", "ledger"):
            connection.raw.execute(f"DROP TABLE pg_temp.{table}".encode())
        connection.raw.execute(b"COMMIT")
    assert own.documents.count() == before + 1


REFUSED = (
    f"CREATE TABLE {schema.NAME}.x (a int)",
    "CREATE TABLE public.x (a int)",
    f"CREATE FUNCTION {schema.NAME}.x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE SCHEMA x",
    f"SELECT name FROM {schema.NAME}.project",
    f"SELECT digest FROM {schema.NAME}.token",
    f"SELECT digest FROM {schema.NAME}.visit",
    f"SELECT hook_secret FROM {schema.NAME}.served",
    f"SELECT last_value FROM {schema.NAME}.project_id_seq",
    f"SELECT last_value FROM {schema.NAME}.checkout_id_seq",
    f"ALTER TABLE {schema.NAME}.memory DISABLE ROW LEVEL SECURITY",
    f"DROP POLICY own_project ON {schema.NAME}.memory",
    f"TRUNCATE {schema.NAME}.memory CASCADE",
    f"DELETE FROM {schema.NAME}.ledger",
    f"UPDATE {schema.NAME}.history SET actor = 'x'",
    f"COPY {schema.NAME}.memory TO PROGRAM 'id'",
    f"COPY {schema.NAME}.memory TO '/tmp/x'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT rolpassword FROM pg_authid",
    "SET LOCAL session_replication_role = replica",
)


@pytest.mark.parametrize("sql", REFUSED)
def test_the_role_of_a_transaction_may_do_no_more_than_it_needs(
    pair: tuple[PostgresIndex, PostgresIndex], sql: str
) -> None:
    with (
        pair[1]._database._transaction("BEGIN") as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.raw.execute(sql.encode())


def test_ways_around_a_policy_show_one_project(pair: tuple[PostgresIndex, PostgresIndex], server: Server) -> None:
    """Views, prepared statements, cursors, COPY, statistics, places of rows, and switching the policies off."""
    own, strange = pair
    server.execute("ANALYZE")
    number = own._database.project
    with strange._database._transaction("BEGIN") as connection:
        raw = connection.raw
        raw.execute(f"CREATE TEMP VIEW x AS SELECT * FROM {schema.NAME}.memory".encode())
        raw.execute(f"PREPARE x AS SELECT * FROM {schema.NAME}.memory WHERE project_id = {number}".encode())
        raw.execute(f"DECLARE c CURSOR FOR SELECT * FROM {schema.NAME}.memory WHERE project_id = {number}".encode())
        for sql in (
            f"SELECT * FROM x WHERE project_id = {number}",
            "EXECUTE x",
            "FETCH ALL FROM c",
            f"SELECT * FROM {schema.NAME}.memory WHERE ctid = '(0,1)' AND project_id = {number}",
            f"SELECT most_common_vals FROM pg_stats WHERE schemaname = '{schema.NAME}' AND tablename <> 'version'",
        ):
            assert raw.execute(sql.encode()).fetchall() == [], sql
        with raw.cursor().copy(f"COPY {schema.NAME}.content TO STDOUT".encode()) as copied:
            assert {bytes(row).split(b"\t")[0] for row in copied} <= {str(strange._database.project).encode()}
        raw.execute(b"DEALLOCATE x")
    with strange._database._transaction("BEGIN") as connection:
        connection.raw.execute(b"SET LOCAL row_security = off")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            connection.raw.execute(f"SELECT * FROM {schema.NAME}.memory".encode())


@pytest.mark.parametrize("table", ["history", "ledger"])
def test_what_is_recorded_cannot_be_changed_by_sql(
    pair: tuple[PostgresIndex, PostgresIndex], server: Server, table: str
) -> None:
    for sql in (f"UPDATE {schema.NAME}.{table} SET actor = 'x'", f"DELETE FROM {schema.NAME}.{table}"):
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            server.execute(sql)


STATEMENT = re.compile(r"^\s*(SELECT|INSERT|UPDATE|DELETE)\b")
TABLES = (
    "memory|usage|override|citation|link|history|ledger|session|document|alias|passage|trigger|claim|model|vector|token_state"
    "|failure|bad_file|content|counter|posting|outbox|checkout|identity|served|state_file"
)
NAMES_PROJECT = re.compile(r"@p\b|connection\.project|project_id = opened\.project|conditions\.MEMORY")
NAMED = re.compile(rf'\b(?:FROM|INTO|UPDATE|JOIN) "?(?:{TABLES})\b')


def test_every_statement_names_its_project() -> None:
    """Each literal that reads or writes one of our tables has @p in it, or the number of the opened project itself.

    The parts of a joined literal are read within the whole.
    """
    folder = Path(str(postgres.__file__)).parent
    nameless = []
    for path in sorted(folder.glob("*.py")):
        if path.name == "schema.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
        for node in ast.walk(tree):
            whole = isinstance(node, ast.JoinedStr) or node not in parts
            text = _literal(node) if whole else ""
            if STATEMENT.match(text) and NAMED.search(text) and not NAMES_PROJECT.search(text):
                nameless.append(f"{path.name}:{getattr(node, 'lineno', 0)}: {text[:80]}")
    assert not nameless, "\n".join(nameless)


def _literal(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return ast.unparse(node.value)
    return ""


def test_every_key_begins_with_the_project_and_every_row_is_guarded(
    pair: tuple[PostgresIndex, PostgresIndex], server: Server
) -> None:
    """So that tables can be partitioned or distributed by it, and no table is forgotten."""
    own = (
        f"SELECT c.oid, c.relname, a.attnum FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid"
        f" WHERE c.relnamespace = '{schema.NAME}'::regnamespace AND c.relkind = 'r' AND a.attname = 'project_id'"
    )
    keys = server.execute(
        f"SELECT t.relname, i.indexrelid::regclass::text FROM ({own}) t JOIN pg_index i ON i.indrelid = t.oid"
        " WHERE i.indkey[0] <> t.attnum"
    )
    assert keys == []
    links = server.execute(
        f"SELECT t.relname, k.conname FROM ({own}) t JOIN pg_constraint k ON k.conrelid = t.oid"
        " WHERE k.contype = 'f' AND k.conkey[1] <> t.attnum"
    )
    assert links == []
    unguarded = server.execute(
        f"SELECT t.relname FROM ({own}) t JOIN pg_class c ON c.oid = t.oid WHERE NOT c.relrowsecurity"
        f" AND has_table_privilege('{schema.ROLE}', c.oid, 'SELECT, INSERT, UPDATE, DELETE')"
    )
    assert unguarded == [], "what a transaction may touch is guarded"
    owners = server.execute(
        f"SELECT t.relname FROM ({own}) t JOIN pg_class c ON c.oid = t.oid WHERE NOT c.relforcerowsecurity ORDER BY 1"
    )
    assert owners == [("lease",), ("outbox",), ("served",)], "only the operator's own tables show their owner all rows"
    rights = server.execute(
        f"SELECT rolsuper OR rolbypassrls OR rolcanlogin OR rolcreaterole FROM pg_roles WHERE rolname = '{schema.ROLE}'"
    )
    assert rights == [(False,)]
