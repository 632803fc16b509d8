"""A server that cannot serve as an index: commands and MCP say what is wrong, with which value, and the way out.

No password is in any of it, and what a save was given is not lost.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from spec_kit_memory.core.memory import Filter
from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.index.postgres import schema
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests import postgres_server
from tests.faults.conftest import filled
from tests.faults.talking import Answer, Talk
from tests.index.material import BY_USER, embed_all, entry
from tests.postgres.command import skm
from tests.postgres.proxy import Proxy
from tests.postgres_server import Server

DEADLINE = 60.0
PASSWORD = "Tr0ub4dor-wrong"
TEXT = "The gate opens at nine in the morning"
SESSION = {"title": "Gate", "sessionSummary": TEXT, "specFolder": "001-core"}


@dataclass(frozen=True)
class Refusal:
    message: str
    hint: str
    database: str = "postgres"
    user: str = "postgres"
    version: int | None = None  # what a proxy on the way says
    environ: dict[str, str] = field(default_factory=dict)


REFUSALS = {
    "wrong password": Refusal(
        "refused the sign-in: .*ana", "PGPASSWORD", user="ana", environ={"PGPASSWORD": PASSWORD}, database="notes"
    ),
    "no password": Refusal("refused the sign-in", "PGPASSWORD", user="ana", database="notes"),
    "no such user": Refusal("refused the sign-in: .*nemo", "check the user", user="nemo"),
    "may not sign in": Refusal("refused the sign-in: .*not permitted to log in", "check the user", user="nologin"),
    "may not connect": Refusal(
        "permission denied for database", "GRANT CONNECT, CREATE ON DATABASE", user="guest", database="closed"
    ),
    "may not create": Refusal(
        "permission denied for database", "GRANT CONNECT, CREATE ON DATABASE", user="member", database="foreign"
    ),
    "no such parameter": Refusal(
        "invalid URI query parameter", "postgresql://HOST/DATABASE", database="notes?nosuch=1"
    ),
    "no such database": Refusal('"nowhere" does not exist', "createdb", database="nowhere"),
    "too old": Refusal("is PostgreSQL 15", "16 and later", version=15),
    "no pgvector": Refusal("no extension pgvector", "install pgvector", database="bare"),
    "pgvector taken away": Refusal("no extension pgvector", "install pgvector", database="dropped"),
    "newer schema": Refusal("schema version 99; .* up to", "upgrade", database="newer"),
    "somebody else's schema": Refusal(
        "schema spec_kit_memory that is not ours", "another database", database="strange"
    ),
    "another encoding": Refusal("is a database in LATIN1", "ENCODING 'UTF8'", database="latin"),
    "no encoding": Refusal("is a database in SQL_ASCII", "ENCODING 'UTF8'", database="ascii"),
    "no time": Refusal("no statement to take as long|ended a statement before", "statement_timeout", database="hasty"),
    "no rights": Refusal("permission denied", "GRANT spec_kit_memory_app TO", user="guest", database="guarded"),
}


@pytest.fixture(scope="module")
def spoilt() -> Iterator[Server]:
    """A server with a database for each of them."""
    made = postgres_server.started()
    for name in ("notes", "bare", "dropped", "newer", "strange", "guarded"):
        made.execute(f"CREATE DATABASE {name}")
    for name, encoding in (("latin", "LATIN1"), ("ascii", "SQL_ASCII")):
        made.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
    made.execute("CREATE DATABASE hasty")
    made.execute("ALTER DATABASE hasty SET statement_timeout = '1ms'")
    made.execute("CREATE ROLE ana LOGIN PASSWORD 'right'")
    made.execute("CREATE ROLE guest LOGIN")
    made.execute("CREATE ROLE nologin NOLOGIN")
    made.execute("CREATE DATABASE closed")
    made.execute("REVOKE CONNECT ON DATABASE closed FROM PUBLIC")
    made.execute('CREATE DATABASE "foreign"')
    made.execute("CREATE EXTENSION vector", database="foreign")
    made.execute("ALTER DATABASE bare SET extension_control_path = '/nowhere'")
    PostgresIndex(made.url("dropped"), "p").close()
    made.execute(f"CREATE ROLE member LOGIN IN ROLE {schema.ROLE}")
    made.execute("DROP EXTENSION vector CASCADE", database="dropped")
    PostgresIndex(made.url("newer"), "p").close()
    made.execute(f"INSERT INTO {schema.NAME}.version (number) VALUES (99)", database="newer")
    made.execute(f"CREATE SCHEMA {schema.NAME}", database="strange")
    rules = made.data / "pg_hba.conf"
    rules.write_text("host all ana 127.0.0.1/32 scram-sha-256\n" + rules.read_text(encoding="utf-8"), encoding="utf-8")
    made.execute("SELECT pg_reload_conf()")
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            psycopg.connect(made.url(user="ana")).close()
        except psycopg.OperationalError:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield made
    postgres_server.ended(made)


def require(answer: Answer, refusal: Refusal, port: int, *, code: str = "E020") -> None:
    assert answer.is_error, answer
    assert answer.code == code, answer
    with pytest.raises(AssertionError, match=refusal.message):
        raise AssertionError(answer.message)
    assert str(port) in answer.message, "the message names the server"
    assert refusal.hint in answer.hint
    assert PASSWORD not in repr(answer)


@pytest.mark.parametrize("name", REFUSALS)
def test_commands_and_mcp_say_what_is_wrong_and_what_helps(spoilt: Server, tmp_path: Path, name: str) -> None:
    refusal = REFUSALS[name]
    root = filled(tmp_path / "work", count=2)
    with ExitStack() as stack:
        port = spoilt.port
        if refusal.version:
            proxy = Proxy(port, pretended_version=refusal.version)
            stack.callback(proxy.close)
            port = proxy.port
        url = spoilt.url(refusal.database, port=port, user=refusal.user)
        before = spoilt.execute("SELECT count(*) FROM pg_namespace", database=refusal.database) if name in LEFT else []
        message = skm(root, "save", "--text", TEXT, url=url, code=1, **refusal.environ)
        require(Answer({"isError": True, "structuredContent": message["error"]}), refusal, port)
        with Talk(root, SPEC_KIT_MEMORY_INDEX_URL=url, **refusal.environ) as talk:
            require(talk.search("zebra1"), refusal, port)
            require(talk.call("memory_save", context=SESSION), refusal, port)
        assert PASSWORD.encode() not in b"".join(talk.errors)
        if before:
            assert spoilt.execute("SELECT count(*) FROM pg_namespace", database=refusal.database) == before
    # Nothing was half done: with an index that works everything is there, once.
    assert skm(root, "index", url="sqlite")["data"]["new"] == 2


def test_whoever_lacks_a_right_is_told_what_the_administrator_types_until_it_works(tmp_path: Path) -> None:
    """On a server that nobody used before, by an owner of a database who may do nothing else."""
    fresh = postgres_server.started()
    try:
        fresh.execute("CREATE ROLE ana LOGIN CREATEDB")
        fresh.execute("CREATE DATABASE notes OWNER ana")
        root = filled(tmp_path / "work", count=1)
        for sql, database in (
            ("CREATE ROLE spec_kit_memory_app NOLOGIN", "postgres"),
            ("GRANT spec_kit_memory_app TO ana", "postgres"),
            ("CREATE EXTENSION vector", "notes"),
        ):
            message = skm(root, "index", url=fresh.url("notes", user="ana"), code=1)["error"]
            assert message["code"] == "E020"
            assert sql.replace("ana", "USER") in message["hint"], message
            fresh.execute(sql, database=database)
        assert skm(root, "index", url=fresh.url("notes", user="ana"))["data"]["new"] == 1
    finally:
        postgres_server.ended(fresh)


def test_pgvector_may_be_in_a_schema_of_its_own(tmp_path: Path) -> None:
    """As managed services have it: first one that nobody else may use, then one that its users were given."""
    fresh = postgres_server.started()
    try:
        fresh.execute("CREATE ROLE ana LOGIN CREATEROLE")
        for database in ("closed", "granted", "own"):
            fresh.execute(f"CREATE DATABASE {database} OWNER ana")
            fresh.execute("CREATE SCHEMA extensions", database=database)
        for database in ("closed", "granted"):
            fresh.execute("CREATE EXTENSION vector SCHEMA extensions", database=database)
        fresh.execute("GRANT USAGE ON SCHEMA extensions TO ana WITH GRANT OPTION", database="granted")
        fresh.execute("DROP SCHEMA extensions; CREATE SCHEMA extensions AUTHORIZATION ana", database="own")
        fresh.execute("CREATE EXTENSION vector SCHEMA extensions", database="own")
        for database in ("granted", "own"):
            store = PostgresIndex(fresh.url(database, user="ana"), "p")
            store.documents.put(entry("memory/a.md", "zebra"), BY_USER)
            embed_all(store)
            assert store.vectors.match([1.0, 0.0, 0.0], Filter(), 5), "on the server"
            store.close()
        root, url = filled(tmp_path / "work", count=1), fresh.url("closed", user="ana")
        message = skm(root, "index", url=url, code=1)["error"]
        assert message["code"] == "E020"
        assert "permission denied for schema extensions" in message["message"]
        fresh.execute(message["hint"].split("`")[1], database="closed")
        assert skm(root, "index", url=url)["data"]["new"] == 1
        fresh.execute(f"REVOKE USAGE ON SCHEMA extensions FROM {schema.ROLE}", database="closed")
        taken = skm(root, "search", "zebra", url=url, code=1)["error"]
        assert taken["hint"] == message["hint"], "said of an index that was made before, too"
    finally:
        postgres_server.ended(fresh)


LEFT = ("too old", "no pgvector", "newer schema", "somebody else's schema")  # such a database is left as it is


def test_a_server_that_is_really_too_old_is_refused(tmp_path: Path) -> None:
    if not (postgres_server.binaries(15) / "postgres").exists():
        pytest.skip("PostgreSQL 15 is not installed (package postgresql-15); a proxy pretends it in another test")
    old = postgres_server.started(version=15)
    try:
        message = skm(filled(tmp_path / "work", count=1), "index", url=old.url(), code=1)["error"]
    finally:
        postgres_server.ended(old)
    assert message["code"] == "E020"
    assert "is PostgreSQL 15" in message["message"]
    assert "16 and later" in message["hint"]


def test_the_oldest_supported_server_serves(tmp_path: Path) -> None:
    oldest = postgres_server.started(version=postgres_server.OLDEST)
    try:
        root = filled(tmp_path / "work", count=3)
        assert str(oldest.execute("SHOW server_version")[0][0]).startswith("16")
        assert skm(root, "index", url=oldest.url())["data"]["new"] == 3
        assert skm(root, "search", "zebra2", url=oldest.url())["data"]["results"][0]["title"] == "Note 2"
        assert skm(root, "health", "--full", url=oldest.url())["data"]["healthy"]
    finally:
        postgres_server.ended(oldest)


def test_a_server_that_comes_later_than_the_first_question_is_used_without_a_restart(
    spoilt: Server, tmp_path: Path
) -> None:
    root = filled(tmp_path / "work", count=3)
    with Talk(root, SPEC_KIT_MEMORY_INDEX_URL=spoilt.url("later")) as talk:
        assert talk.search("zebra1").code == "E020"
        spoilt.execute("CREATE DATABASE later")
        talk.ready(memories=3)
        assert talk.search("zebra1").titles[0] == "Note 1"


def test_without_free_connections_commands_and_mcp_are_told_to_try_again(tmp_path: Path) -> None:
    refusal = Refusal("takes no more connections", "max_connections")
    server = postgres_server.started()
    try:
        root = filled(tmp_path / "work", count=3)
        server.stop()
        server.settings = ("max_connections=20", "superuser_reserved_connections=0", "reserved_connections=0")
        server.start()
        with Talk(root, SPEC_KIT_MEMORY_INDEX_URL=server.url()) as talk:
            talk.ready(memories=3)
            with server.without_free_connections():
                message = skm(root, "save", "--text", TEXT, url=server.url(), code=1)["error"]
                require(Answer({"isError": True, "structuredContent": message}), refusal, server.port, code="E025")
                require(talk.search("zebra1"), refusal, server.port, code="E025")
                require(talk.call("memory_save", context=SESSION), refusal, server.port, code="E025")
            assert talk.search("zebra1").titles[0] == "Note 1"
            saved = talk.call("memory_save", context=SESSION)
            assert not saved.is_error, saved
            assert talk.call("memory_stats").data["totals"]["memories"] == 4
    finally:
        postgres_server.ended(server)


def test_an_address_that_says_a_password_is_refused_by_commands_and_mcp_without_repeating_it(
    tmp_path: Path, spoilt: Server
) -> None:
    root = filled(tmp_path / "work", count=1)
    url = spoilt.url(user=f"ana:{PASSWORD}")
    message = skm(root, "search", "zebra", url=url, code=None)
    assert PASSWORD not in repr(message)
    assert "password" in message["error"]["message"] + message["error"]["hint"]


def test_passwords_come_by_the_means_of_postgresql(spoilt: Server, tmp_path: Path) -> None:
    """A variable, a password file, a service file: as the how-to page says."""
    spoilt.execute("ALTER DATABASE notes OWNER TO ana")
    spoilt.execute("CREATE EXTENSION IF NOT EXISTS vector", database="notes")
    PostgresIndex(spoilt.url(), "p").close()  # the role of transactions is the whole server's
    spoilt.execute("GRANT spec_kit_memory_app TO ana")
    root = filled(tmp_path / "work", count=2)
    url = spoilt.url("notes", user="ana")
    passwords, services = tmp_path / "pgpass", tmp_path / "services"
    passwords.write_text(f"127.0.0.1:{spoilt.port}:notes:ana:right\n", encoding="utf-8")
    passwords.chmod(0o600)
    services.write_text(
        f"[memory]\nhost=127.0.0.1\nport={spoilt.port}\ndbname=notes\nuser=ana\npassword=right\n", encoding="utf-8"
    )
    assert skm(root, "index", url=url, PGPASSWORD="right")["data"]["new"] == 2
    assert skm(root, "index", url=url, PGPASSFILE=str(passwords))["data"]["unchanged"] == 2
    named = skm(root, "index", url="postgresql://?service=memory", PGSERVICEFILE=str(services))["data"]
    assert named["unchanged"] == 2


def test_an_older_program_stops_writing_once_the_schema_is_newer(server: Server, tmp_path: Path) -> None:
    """Two versions side by side: the newer one migrates while the older one has its handle open."""
    name = f"upgraded_{os.getpid()}"
    server.execute(f"CREATE DATABASE {name}")
    older = PostgresIndex(server.url(name), "p")
    older.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    root = filled(tmp_path / "work", count=2)
    with Talk(root, SPEC_KIT_MEMORY_INDEX_URL=server.url(name)) as talk:
        talk.ready(memories=2)
        server.execute(f"INSERT INTO {schema.NAME}.version (number) VALUES (99)", database=name)
        refused = talk.call("memory_validate", id=1, wasUseful=True)
        assert refused.code == "E020", refused
        assert "schema version 99" in refused.message
        assert "upgrade" in refused.hint
    with pytest.raises(Exception, match="schema version 99"):
        older.documents.put(entry("memory/b.md", "zebra"), BY_USER)
    assert older.documents.count() == 1
    older.close()


STRANGE = {
    "search_path": "nowhere",
    "standard_conforming_strings": "off",
    "bytea_output": "escape",
    "default_transaction_isolation": "serializable",
    "idle_in_transaction_session_timeout": "2s",
    "DateStyle": "SQL, DMY",
    "extra_float_digits": "-5",
    "TimeZone": "Asia/Kathmandu",
}


def test_a_database_that_is_set_otherwise_serves(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    server.execute('CREATE DATABASE "Strangely Set"')
    for name, value in STRANGE.items():
        server.execute(f"ALTER DATABASE \"Strangely Set\" SET {name} = '{value}'")
    store = PostgresIndex(server.url("Strangely%20Set"), 'Проект "X"; --')
    store.documents.put(
        entry("memory/a.md", "a zebra\\'s Ärger\x00 ⟨here⟩\nand more", title="Ein 'Titel' \\ x"), BY_USER
    )
    embed_all(store)
    store.warm()
    for words in ("zebra", "ärger", "titel"):
        assert store.documents.match([words], Filter(), 5)
    assert store.vectors.match([1.0, 0.0, 0.0], Filter(), 5)
    store.care.rebuild(BY_USER)
    assert store.documents.text(1) == "a zebra\\'s Ärger\x00 ⟨here⟩\nand more"
    assert not any(store.care.check().values())
    store.close()


def test_a_read_may_pause_on_a_server_that_drops_idle_transactions_early(server: Server) -> None:
    """A checkpoint or a copy works between the rows that it reads."""
    server.execute("CREATE DATABASE impatient")
    store = PostgresIndex(server.url("impatient"), "p")
    server.execute("ALTER DATABASE impatient SET idle_in_transaction_session_timeout = '10ms'")
    store.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    database = store._database
    for way in (database.reading, database.apart, database.writing, lambda: database.beside(seconds=5)):
        with way() as connection:
            assert connection.execute("SELECT count(*) FROM memory WHERE project_id = @p").get == 1
            time.sleep(0.1)
            assert connection.execute("SELECT count(*) FROM memory WHERE project_id = @p").get == 1
    store.close()


@pytest.mark.parametrize("setting", ["transaction_timeout", "statement_timeout"])
def test_a_server_that_ends_what_takes_long_is_named_with_the_setting_to_raise(server: Server, setting: str) -> None:
    store = PostgresIndex(server.url(), "slow")

    def read_long() -> None:
        with store._database.reading() as connection:
            connection.execute(f"SELECT set_config('{setting}', '50ms', true)")
            connection.execute("SELECT pg_sleep(60) FROM counter WHERE project_id = @p")

    with pytest.raises(DatabaseUnusable, match="to take as long as this one") as raised:
        read_long()
    assert f"raise {setting}" in raised.value.hint
    assert store.documents.count() == 0, "it goes on"
    store.close()
