"""Is a search answered while more writers wait than a process has connections? And does each writer get its turn?"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pytest

from spec_kit_memory.core.memory import Filter
from spec_kit_memory.errors import DatabaseBusy, DatabaseUnusable
from spec_kit_memory.index.postgres import connection, schema, writer_turns
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests.index.material import BY_USER, entry
from tests.postgres_server import Server

WRITERS = 2 * connection._MOST_CONNECTIONS


@contextmanager
def held(server: Server, *stores: PostgresIndex) -> Iterator[psycopg.Connection]:
    """Somebody else's process is in the middle of a write to these projects."""
    with psycopg.connect(server.url()) as other:
        for store in stores:
            other.execute(
                f"SELECT 1 FROM {schema.NAME}.counter WHERE project_id = {store._database.project} FOR UPDATE".encode()
            )
        yield other


def waiting_in_database(server: Server, stores: list[PostgresIndex]) -> int:
    """How many wait there for a row of one of these projects."""
    projects = {f"'skm.project', '{store._database.project:d}'" for store in stores}
    sql = "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return sum(any(project in str(query) for project in projects) for (query,) in server.execute(sql))


def until_they_wait(writers: int, started: list[int], server: Server, stores: list[PostgresIndex]) -> None:
    deadline = time.monotonic() + 60
    while len(started) < writers or not waiting_in_database(server, stores):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.5)  # whoever does not wait for a turn is at the database by now


def writes(store: PostgresIndex, number: int, started: list[int]) -> bool:
    started.append(number)
    return store.documents.put(entry(f"memory/n{number}.md", f"zebra {number}"), BY_USER).created


def test_searches_are_answered_while_many_writers_of_a_project_wait(server: Server) -> None:
    store, started = PostgresIndex(server.url(), uuid4().hex), list[int]()
    store.documents.put(entry("memory/first.md", "zebra"), BY_USER)
    with ThreadPoolExecutor(WRITERS) as threads:
        with held(server, store):
            done = [threads.submit(writes, store, number, started) for number in range(WRITERS)]
            until_they_wait(WRITERS, started, server, [store])
            assert waiting_in_database(server, [store]) == 1
            assert len(store.documents.match(["zebra"], Filter(), 9)) == 1
            assert not any(one.done() for one in done)
        assert all(one.result(60) for one in done)
    assert store.documents.count() == WRITERS + 1
    store.close()


def test_writers_of_many_projects_leave_connections_to_readers(server: Server) -> None:
    stores = [PostgresIndex(server.url(), uuid4().hex) for _ in range(connection._MOST_CONNECTIONS + 2)]
    started = list[int]()
    with ThreadPoolExecutor(len(stores)) as threads:
        with held(server, *stores):
            done = [threads.submit(writes, store, number, started) for number, store in enumerate(stores)]
            until_they_wait(len(stores), started, server, stores)
            assert waiting_in_database(server, stores) == writer_turns.MOST_WRITING < connection._MOST_CONNECTIONS
            assert all(store.documents.count() == 0 for store in stores)
        assert all(one.result(60) for one in done)
    for store in stores:
        store.close()


def test_a_turn_that_does_not_come_is_said_after_the_busy_time_and_taken_by_nobody(server: Server) -> None:
    project = uuid4().hex
    store, patient = PostgresIndex(server.url(), project, busy_seconds=0.3), PostgresIndex(server.url(), project)
    started = list[int]()
    with ThreadPoolExecutor(1) as threads:
        with held(server, store):
            first = threads.submit(writes, patient, 0, started)
            until_they_wait(1, started, server, [store])
            before = time.monotonic()
            with pytest.raises(DatabaseBusy, match="another process writes"):
                writes(store, 1, started)
            assert time.monotonic() - before >= 0.3
        assert first.result(60)
    assert writes(store, 2, started)
    store.close()
    patient.close()


def test_a_write_that_fails_gives_its_turn_on(server: Server) -> None:
    project = uuid4().hex
    store, other = (PostgresIndex(server.url(), project, busy_seconds=5) for _ in range(2))

    def fail(fault: type[BaseException]) -> None:
        with store.together():
            writes(store, 1, [])
            raise fault

    for fault in (ValueError, KeyboardInterrupt):
        with pytest.raises(fault):
            fail(fault)
    store.close()
    with pytest.raises(DatabaseUnusable, match="was closed"):
        writes(store, 1, [])
    assert writes(other, 1, [])
    other.close()


def test_turns_are_given_in_the_order_of_coming() -> None:
    url, order, threads = uuid4().hex, list[int](), list[threading.Thread]()
    queue = writer_turns._places(url, 1, 1)._queue

    def work(number: int) -> None:
        with writer_turns.turn_to_write(url, 1, 60) as left:
            assert left is not None
            order.append(number)

    with writer_turns.turn_to_write(url, 1, 60):
        for number in range(8):
            threads.append(threading.Thread(target=work, args=(number,)))
            threads[-1].start()
            while len(queue) <= number:
                time.sleep(0.001)
        with writer_turns.turn_to_write(url, 1, 0.01) as left:
            assert left is None, "whoever gives up leaves the queue"
        assert len(queue) == 8
        with writer_turns.turn_to_write(url, 2, 0.01) as left:
            assert left is not None, "another project has turns of its own"
        assert order == []
    for thread in threads:
        thread.join(60)
    assert order == list(range(8))
