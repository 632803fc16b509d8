"""Do many processes share one project on PostgreSQL without losing, doubling or waiting in a circle?"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter
from spec_kit_memory.errors import DatabaseBusy
from spec_kit_memory.index import postgres
from spec_kit_memory.index.postgres import schema
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests.index.material import BY_USER, entry
from tests.postgres_server import Server

ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from spec_kit_memory.core.memory import Link, Relation
from spec_kit_memory.errors import DatabaseBusy
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests.index.material import BY_USER, entry, embed_all
url, project, name, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
store = PostgresIndex(url, project)
for number in range(count):
    put = store.documents.put(entry(f"memory/{name}/{number}.md", f"words of {name} {number}"), BY_USER)
    if number % 3 == 0:
        with store.together():
            store.record.amend(put.memory_id, BY_USER, outdated=True)
            if put.memory_id != 1:
                store.record.put_link(Link(0, put.memory_id, 1, Relation.CAUSED), BY_USER)
    while True:
        try:
            store.record.use({put.memory_id: 1.0, 1: 1.0}, BY_USER.at)
            break
        except DatabaseBusy:  # use waits for others only a moment
            continue
print("done", flush=True)
"""


def run_at_once(script: str, arguments: Sequence[Sequence[str]]) -> None:
    """A process for each; all of them must end well."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for given in arguments
    ]
    try:
        for process in processes:
            told, errors = process.communicate(timeout=300)
            assert told == "done\n", errors
    finally:
        for process in processes:
            process.kill()


def write_from_processes(url: str, project: str, *, processes: int, each: int) -> None:
    run_at_once(WRITER, [(url, project, f"w{number}", str(each)) for number in range(processes)])


def deadlocks(server: Server) -> int:
    return int(str(server.execute("SELECT sum(deadlocks) FROM pg_stat_database")[0][0]))


def test_sixteen_writers_keep_one_chain(server: Server) -> None:
    project, each = uuid4().hex, 6
    before = deadlocks(server)
    write_from_processes(server.url(), project, processes=16, each=each)
    assert deadlocks(server) == before, "nobody waited in a circle"
    store = PostgresIndex(server.url(), project)
    assert store.documents.count() == 16 * each
    assert len({memory.id for memory in store.documents.find()}) == 16 * each
    assert ledger.verify(store.record.ledger()) is None
    entries = list(store.record.ledger())
    assert [one.sequence for one in entries] == list(range(1, len(entries) + 1))
    assert all(not said for said in store.care.check().values())
    assert store.documents.get(1).access_count >= 16 * each, "every use was counted"
    store.close()


OPENER = """
import sys
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests.index.material import BY_USER, entry
url, project, name = sys.argv[1:]
sys.stdin.close()
store = PostgresIndex(url, project)
store.documents.put(entry(f"memory/{name}.md", f"zebra {name}"), BY_USER)
store.close()
print("done", flush=True)
"""


def test_eight_processes_migrate_a_new_database_once(server: Server) -> None:
    name = f"raced_{uuid4().hex}"
    server.execute(f"CREATE DATABASE {name}")
    run_at_once(OPENER, [(server.url(name), f"p{number % 2}", f"n{number}") for number in range(8)])
    rows = server.execute(f"SELECT number FROM {schema.NAME}.version ORDER BY number", database=name)
    assert rows == [(number,) for number in range(1, schema.VERSION + 1)]
    for project in ("p0", "p1"):
        store = PostgresIndex(server.url(name), project)
        assert store.documents.count() == 4
        assert ledger.verify(store.record.ledger()) is None
        store.close()


@pytest.mark.parametrize("older", range(1, schema.VERSION))
def test_eight_processes_bring_a_database_of_an_older_version_up_to_date_once(server: Server, older: int) -> None:
    """As the older version left it: its tables, and a project."""
    name = f"older_{uuid4().hex}"
    server.execute(f"CREATE DATABASE {name}")
    folder = Path(str(postgres.__file__)).parent / "migrations"
    PostgresIndex(server.url(), uuid4().hex).close()  # the role is the whole server's
    server.execute("CREATE EXTENSION vector", database=name)
    for number, script in enumerate(sorted(folder.glob("*.sql"))[:older], start=1):
        sql = script.read_text(encoding="utf-8").replace("@role", schema.ROLE)
        server.execute(f"BEGIN; {sql}; INSERT INTO {schema.NAME}.version VALUES ({number}); COMMIT", database=name)
    run_at_once(OPENER, [(server.url(name), f"p{number % 2}", f"n{number}") for number in range(8)])
    rows = server.execute(f"SELECT number FROM {schema.NAME}.version ORDER BY number", database=name)
    assert rows == [(number,) for number in range(1, schema.VERSION + 1)]


def test_processes_that_open_a_new_database_at_once_make_it_once(server: Server) -> None:
    name = f"fresh_{uuid4().hex}"
    server.execute(f"CREATE DATABASE {name}")
    with ThreadPoolExecutor(8) as threads:
        stores = list(threads.map(lambda number: PostgresIndex(server.url(name), f"p{number % 2}"), range(8)))
    made = server.execute(f"SELECT number FROM {schema.NAME}.version ORDER BY 1", database=name)
    assert made == [(number,) for number in range(1, schema.VERSION + 1)]
    assert len({store._database.project for store in stores}) == 2
    for store in stores:
        store.close()


def test_another_process_sees_a_change_at_its_next_question(server: Server) -> None:
    project = uuid4().hex
    one, other = (PostgresIndex(server.url(), project) for _ in range(2))
    one.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    assert len(other.documents.match(["zebra"], Filter(), 9)) == 1
    before = other.generation()
    one.documents.put(entry("memory/b.md", "zebra too"), BY_USER)
    assert other.generation() > before
    assert len(other.documents.match(["zebra"], Filter(), 9)) == 2
    one.documents.vanish("memory/a.md", BY_USER)
    assert len(other.documents.match(["zebra"], Filter(), 9)) == 1
    one.close()
    other.close()


def test_nothing_of_a_transaction_stays_on_its_connection(server: Server) -> None:
    """Poolers hand out connections per transaction: whoever gets it next must find it as new."""
    store = PostgresIndex(server.url(), uuid4().hex)
    store.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    store.documents.match(["zebra"], Filter(), 9)
    with store._database.reading() as connection:
        raw = connection.raw
    result = raw.execute(
        "SELECT current_user, session_user, current_setting('skm.project', true),"
        " (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()),"
        " (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')"
    ).fetchone()
    assert result is not None
    user, session, project, prepared, listening, locks = result
    assert user == session
    assert project in (None, "")
    assert (prepared, listening, locks) == (0, 0, 0)
    store.close()


def test_a_busy_project_is_said_and_others_write_on(server: Server) -> None:
    project = uuid4().hex
    store, other = PostgresIndex(server.url(), project, busy_seconds=0.3), PostgresIndex(server.url(), uuid4().hex)
    with psycopg.connect(server.url()) as holding:
        holding.execute(
            f"SELECT 1 FROM {schema.NAME}.counter WHERE project_id = {store._database.project} FOR UPDATE".encode()
        )
        with pytest.raises(DatabaseBusy):
            store.documents.put(entry("memory/a.md", "x"), BY_USER)
        assert other.documents.put(entry("memory/a.md", "x"), BY_USER).created
        assert store.documents.count() == 0, "reading waits for nobody"
    assert store.documents.put(entry("memory/a.md", "x"), BY_USER).created
    store.close()
    other.close()
