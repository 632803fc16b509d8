"""What happens when the server or the way to it fails? Clear errors, nothing acknowledged lost, nothing twice."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter
from spec_kit_memory.errors import DatabaseBusy, DatabaseUnusable, SpecKitMemoryError
from spec_kit_memory.index.postgres import failures, schema
from spec_kit_memory.index.postgres.connection import taken
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests import postgres_server
from tests.faults.conftest import filled
from tests.faults.talking import Answer, Talk
from tests.index.material import BY_USER, entry
from tests.postgres.command import skm
from tests.postgres_server import Server

DEADLINE = 60.0


@pytest.fixture
def own_server() -> Iterator[Server]:
    """One that a test may kill."""
    made = postgres_server.started()
    yield made
    postgres_server.ended(made)


def until_written(store: PostgresIndex, number: int) -> None:
    """Try until it works: what failed must have left nothing, or all of it."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            store.documents.put(entry(f"memory/{number}.md", f"zebra {number}"), BY_USER)
            return
        except SpecKitMemoryError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize("mode", ["killed", "fast"])
def test_a_server_that_is_killed_or_restarted_loses_nothing_and_reads_come_back(own_server: Server, mode: str) -> None:
    store = PostgresIndex(own_server.url(), "p", busy_seconds=2)
    for number in range(3):
        store.documents.put(entry(f"memory/{number}.md", f"zebra {number}"), BY_USER)
    assert len(store.documents.match(["zebra"], Filter(), 9)) == 3
    if mode == "killed":
        own_server.kill()
    else:
        own_server.stop(mode=mode)
    with pytest.raises((DatabaseUnusable, DatabaseBusy)):
        store.documents.find()
    with pytest.raises((DatabaseUnusable, DatabaseBusy)):
        store.documents.put(entry("memory/never.md", "zebra never"), BY_USER)
    own_server.start()
    assert len(store.documents.find()) == 3, "the handle that was open goes on"
    assert len(store.documents.match(["zebra"], Filter(), 9)) == 3
    assert store.documents.get(path="memory/never.md") is None
    store.documents.put(entry("memory/3.md", "zebra 3"), BY_USER)
    assert ledger.verify(store.record.ledger()) is None
    assert len(list(store.record.ledger())) == 4
    store.close()


def test_backends_that_are_killed_in_the_middle_leave_whole_writes(own_server: Server) -> None:
    store = PostgresIndex(own_server.url(), "p", busy_seconds=5)
    store.documents.put(entry("memory/0.md", "zebra 0"), BY_USER)
    stopping = threading.Event()

    def kill() -> None:
        with psycopg.connect(own_server.url(), autocommit=True) as connection:
            while not stopping.is_set():
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'spec-kit-memory'"
                )
                stopping.wait(0.4)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for number in range(1, 30):
            until_written(store, number)
    finally:
        stopping.set()
        killer.join()
    assert store.documents.count() == 30
    assert ledger.verify(store.record.ledger()) is None
    added = [one for one in store.record.history() if one.event == "ADD"]
    assert len(added) == 30, "nothing is there twice"
    assert all(not said for said in store.care.check().values())
    store.close()


def test_a_backend_that_is_killed_outright_takes_no_acknowledged_write_along(own_server: Server) -> None:
    """SIGKILL: the server then ends every connection and recovers as after a crash."""
    store = PostgresIndex(own_server.url(), "p", busy_seconds=5)
    for number in range(4):
        until_written(store, number)
        rows = own_server.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'spec-kit-memory'")
        assert rows
        os.kill(int(str(rows[0][0])), signal.SIGKILL)
    until_written(store, 4)
    assert sorted(memory.path for memory in store.documents.find()) == [f"memory/{number}.md" for number in range(5)]
    assert len(list(store.record.ledger())) == 5
    assert ledger.verify(store.record.ledger()) is None
    store.close()


def test_commands_and_mcp_say_that_a_server_is_gone_and_go_on_when_it_is_back(
    own_server: Server, tmp_path: Path
) -> None:
    root = filled(tmp_path / "work", count=3)
    url = own_server.url()
    session = {"title": "Gate", "sessionSummary": "The gate opens at nine in the morning"}
    with Talk(root, SPEC_KIT_MEMORY_INDEX_URL=url) as talk:
        talk.ready(memories=3)
        assert not talk.call("memory_validate", id=1, wasUseful=True).is_error
        own_server.kill()
        message = skm(root, "search", "zebra1", url=url, code=1)["error"]
        refused = [
            talk.search("zebra1"),
            talk.call("memory_save", specFolder="001-core", context=session),
            Answer({"isError": True, "structuredContent": message}),
        ]
        for answer in refused:
            assert answer.code == "E020", answer
            assert "cannot be reached" in answer.message
            assert str(own_server.port) in answer.message
            assert "running" in answer.hint
        own_server.start()
        assert talk.search("zebra1").titles[0] == "Note 1", "without a restart"
        assert talk.call("memory_validate", id=1, wasUseful=True).data["validationCount"] == 2
        saved = talk.call("memory_save", specFolder="001-core", context=session)
        assert not saved.is_error, saved
        talk.call("memory_index_scan")
        assert [title for title in talk.search("gate opens").titles if title == "Gate"] == ["Gate"], "once"
        assert talk.call("memory_stats").data["totals"]["memories"] == 4
        assert talk.call("memory_health").data["healthy"]


def test_a_server_that_is_away_is_an_error_and_not_a_log_full_of_tries(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("psycopg.pool")
    before, log.level = log.level, logging.NOTSET
    with socket.socket() as nobody:  # bound and not listening: every try is refused
        nobody.bind(("127.0.0.1", 0))
        try:
            with pytest.raises(psycopg.OperationalError, match="refused"):
                taken(f"postgresql://127.0.0.1:{nobody.getsockname()[1]}/memory")
        finally:
            log.setLevel(before)
    assert [record.getMessage() for record in caplog.records if record.name == "psycopg.pool"] == []


def test_a_server_without_free_connections_is_busy(own_server: Server) -> None:
    own_server.stop()
    own_server.settings = ("max_connections=5", "superuser_reserved_connections=0", "reserved_connections=0")
    own_server.start()
    store = PostgresIndex(own_server.url(), "p")
    with own_server.without_free_connections(), pytest.raises(DatabaseBusy, match="connections"):
        PostgresIndex(own_server.url(), "p")
    assert store.documents.count() == 0
    store.close()


def test_a_server_that_can_only_be_read_is_read(own_server: Server) -> None:
    store = PostgresIndex(own_server.url(), "p")
    store.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    store.close()
    own_server.stop()
    own_server.settings = ("default_transaction_read_only=on",)
    own_server.start()
    reader = PostgresIndex(own_server.url(), "p")
    assert reader.read_only
    assert len(reader.documents.match(["zebra"], Filter(), 9)) == 1
    with pytest.raises(DatabaseUnusable, match="only be read"):
        reader.documents.put(entry("memory/b.md", "x"), BY_USER)
    with pytest.raises(DatabaseUnusable, match="no project"):
        PostgresIndex(own_server.url(), "another")
    reader.close()


def test_a_wrong_password_and_a_missing_database_are_said(own_server: Server) -> None:
    own_server.execute("CREATE ROLE ana LOGIN PASSWORD 'right'")
    rules = own_server.data / "pg_hba.conf"
    rules.write_text("host all ana 127.0.0.1/32 scram-sha-256\n" + rules.read_text(encoding="utf-8"), encoding="utf-8")
    own_server.execute("SELECT pg_reload_conf()")
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            psycopg.connect(own_server.url(user="ana")).close()
        except psycopg.OperationalError:
            break
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(DatabaseUnusable, match="sign-in") as raised:
        PostgresIndex(own_server.url(user="ana:wrong-secret"), "p")
    assert "wrong-secret" not in f"{raised.value.message}{raised.value.hint}"
    assert "PGPASSWORD" in raised.value.hint
    with pytest.raises(DatabaseUnusable, match="does not exist"):
        PostgresIndex(own_server.url("nowhere"), "p")


def test_a_newer_schema_and_a_strange_one_are_left_alone(server: Server) -> None:
    newer, strange = f"newer_{uuid4().hex}", f"strange_{uuid4().hex}"
    for name in (newer, strange):
        server.execute(f"CREATE DATABASE {name}")
    PostgresIndex(server.url(newer), "p").close()
    server.execute(f"INSERT INTO {schema.NAME}.version (number) VALUES (99)", database=newer)
    with pytest.raises(DatabaseUnusable, match="schema version 99") as raised:
        PostgresIndex(server.url(newer), "p")
    assert "upgrade" in raised.value.hint
    server.execute(f"CREATE SCHEMA {schema.NAME}", database=strange)
    with pytest.raises(DatabaseUnusable, match="not ours"):
        PostgresIndex(server.url(strange), "p")


def test_a_server_without_pgvector_is_refused(own_server: Server, tmp_path: Path) -> None:
    name = "bare"
    own_server.execute(f"CREATE DATABASE {name}")
    PostgresIndex(own_server.url(name), "p").close()
    own_server.execute("DROP EXTENSION vector CASCADE", database=name)
    with pytest.raises(DatabaseUnusable, match="pgvector") as raised:
        PostgresIndex(own_server.url(name), "p")
    assert "install" in raised.value.hint


def test_an_owner_who_is_no_superuser_has_all_it_needs(own_server: Server) -> None:
    """As the how-to page sets it up."""
    own_server.execute("CREATE ROLE memory LOGIN CREATEROLE")
    own_server.execute("CREATE DATABASE notes OWNER memory")
    own_server.execute("CREATE EXTENSION vector", database="notes")
    store = PostgresIndex(own_server.url("notes", user="memory"), "p")
    other = PostgresIndex(own_server.url("notes", user="memory"), "q")
    store.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    assert len(store.documents.match(["zebra"], Filter(), 9)) == 1
    assert other.documents.find() == []
    store.close()
    other.close()


def test_a_statement_that_the_server_ends_is_not_said_to_wait_for_another_process() -> None:
    for text in ("canceling statement due to user request", "canceling statement due to statement timeout"):
        error = failures.as_ours(psycopg.errors.QueryCanceled(text), "db")
        assert isinstance(error, DatabaseUnusable), error
        assert "statement_timeout" in error.hint
    waited = failures.as_ours(psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"), "db")
    assert isinstance(waited, DatabaseBusy)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ana:geheim@db/x",
        "host=db password=geheim user=ana",
        "postgresql://db/x?password=geheim&sslmode=require",
        "password = 'geheim' host=db",
    ],
)
def test_no_message_repeats_a_password(text: str) -> None:
    assert "geheim" not in failures.masked(f"connection to {text} failed")
