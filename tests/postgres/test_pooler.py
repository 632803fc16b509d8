"""pgbouncer in transaction mode, as many operators have it: every transaction may run on another connection."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter, Link, Relation, Session
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests import postgres_server
from tests.faults.conftest import filled
from tests.faults.talking import Talk
from tests.index.material import BY_USER, NOON, embed_all, entry
from tests.postgres.command import skm
from tests.postgres.test_many_processes import write_from_processes
from tests.postgres_server import Server

DEADLINE = 60.0
PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


class Pooler:
    """Two connections to the server for however many clients: they cannot help sharing them.

    A checkpoint needs both at once: the moment that it reads, and its own rows with their lock.
    """

    def __init__(self, folder: Path, server: Server) -> None:
        assert PROGRAM is not None
        self.port = postgres_server.free_port()
        self.folder = folder
        (folder / "users.txt").write_text('"postgres" ""\n', encoding="utf-8")
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port}\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\nauth_type = trust\n"
            f"auth_file = {folder}/users.txt\npool_mode = transaction\ndefault_pool_size = 2\nmax_client_conn = 200\n"
            "server_login_retry = 0.2\nquery_wait_timeout = 20\nlogfile =\n",
            encoding="utf-8",
        )
        who = pwd.getpwnam("nobody") if os.geteuid() == 0 else None  # it refuses to run as root
        if who is not None:
            for path in (folder, *folder.iterdir()):
                os.chown(path, who.pw_uid, who.pw_gid)
        self.process = subprocess.Popen(
            [PROGRAM, str(folder / "pgbouncer.ini")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            user=None if who is None else who.pw_uid,
            group=None if who is None else who.pw_gid,
            extra_groups=None if who is None else [],
        )
        deadline = time.monotonic() + DEADLINE
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() >= deadline:
                    self.close()
                    raise
                time.sleep(0.02)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def pooler(server: Server) -> Iterator[Pooler]:
    if PROGRAM is None:
        pytest.skip("pgbouncer is not installed (package pgbouncer)")
    folder = server.folder.parent / f"pooler-{uuid4().hex}"
    folder.mkdir()
    made = Pooler(folder, server)
    yield made
    made.close()


def test_the_verbs_work_through_it(pooler: Pooler) -> None:
    project = uuid4().hex
    store, other = PostgresIndex(pooler.url(), project), PostgresIndex(pooler.url(), f"{project}-other")
    with store.bulk(), store.together():
        for number in range(4):
            store.documents.put(entry(f"memory/{number}.md", f"zebra crossing {number}"), BY_USER)
    embed_all(store)
    assert len(store.documents.match(["zebra crossing"], Filter(), 9)) == 4
    assert len(store.vectors.match([1.0, 1.0, 1.0], Filter(), 9)) == 4
    store.record.put_link(Link(0, 1, 2, Relation.CAUSED), BY_USER)
    store.record.amend(1, BY_USER, outdated=True)
    store.record.use({1: 1.0}, NOON)
    store.record.change_session("s", lambda _: Session("s", turn=3), NOON)
    snapshot = list(store.care.snapshot())
    store.documents.forget(2, BY_USER)
    store.documents.vanish("memory/3.md", BY_USER)
    assert store.documents.count() == 2
    restored = store.care.restore(snapshot, BY_USER, clear=True, where=Filter())
    assert restored
    assert store.documents.count() == 4
    store.care.rebuild(BY_USER)
    assert all(not told for told in store.care.check().values())
    assert ledger.verify(store.record.ledger()) is None
    assert other.documents.count() == 0
    assert other.record.session("s") is None
    store.close()
    other.close()


def test_what_a_transaction_sets_is_not_there_for_the_next_client(pooler: Pooler) -> None:
    store = PostgresIndex(pooler.url(), uuid4().hex)
    store.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    store.documents.match(["zebra"], Filter(), 9)
    with psycopg.connect(pooler.url(), prepare_threshold=None) as stranger:
        for _ in range(4):
            row = stranger.execute(
                "SELECT current_user = session_user, coalesce(current_setting('skm.project', true), ''),"
                " current_setting('search_path'), (SELECT count(*) FROM pg_prepared_statements)"
            ).fetchone()
            assert row == (True, "", '"$user", public', 0)
            stranger.commit()
    store.close()


def test_writers_in_several_processes_keep_one_chain_through_it(pooler: Pooler) -> None:
    project = uuid4().hex
    write_from_processes(pooler.url(), project, processes=4, each=6)
    store = PostgresIndex(pooler.url(), project)
    assert store.documents.count() == 24
    entries = list(store.record.ledger())
    assert [one.sequence for one in entries] == list(range(1, len(entries) + 1))
    assert ledger.verify(entries) is None
    assert all(not told for told in store.care.check().values())
    store.close()


def test_a_server_and_commands_share_a_workspace_through_it(pooler: Pooler, tmp_path: Path) -> None:
    root, project = filled(tmp_path / "work", count=5), uuid4().hex
    named = {"SPEC_KIT_MEMORY_INDEX_URL": pooler.url(), "SPEC_KIT_MEMORY_INDEX_PROJECT": project}
    with Talk(root, **named) as talk:
        talk.ready(memories=5)
        saved = skm(root, "save", "--text", "The gate opens at nine", url=pooler.url(), project=project)["data"]
        answer = talk.search("when does the gate open")
        assert answer.data["results"][0]["id"] == saved["id"]
        assert not talk.call("checkpoint_create", name="one").is_error
        assert not talk.call("memory_delete", id=saved["id"]).is_error
        restored = talk.call("checkpoint_restore", name="one")
        assert not restored.is_error, restored
        assert skm(root, "list", url=pooler.url(), project=project)["data"]["memories"]
        assert skm(root, "ledger", "verify", url=pooler.url(), project=project)["data"]["ok"]
        assert talk.call("memory_health").data["healthy"]


def test_connections_that_it_loses_come_back(pooler: Pooler, server: Server) -> None:
    store = PostgresIndex(pooler.url(), uuid4().hex, busy_seconds=5)
    deadline = time.monotonic() + DEADLINE
    for number in range(10):
        with suppress(psycopg.Error):
            server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
        while True:
            try:
                store.documents.put(entry(f"memory/{number}.md", f"zebra {number}"), BY_USER)
                break
            except SpecKitMemoryError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
    assert store.documents.count() == 10
    assert len([one for one in store.record.history() if one.event == "ADD"]) == 10
    assert ledger.verify(store.record.ledger()) is None
    store.close()
