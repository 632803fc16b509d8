"""A replica that can only be read, and what happens when it takes the place of its primary."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter
from spec_kit_memory.errors import DatabaseUnusable, SpecKitMemoryError
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests import postgres_server
from tests.faults.conftest import filled
from tests.faults.talking import Talk
from tests.index.material import BY_USER, entry
from tests.postgres.command import skm
from tests.postgres.proxy import Proxy
from tests.postgres_server import Server

DEADLINE = 60.0


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Server, Server]]:
    primary = postgres_server.started()
    standby = primary.standby()
    yield primary, standby
    standby.stop(mode="immediate")
    postgres_server.ended(primary)


def wait_for(reader: PostgresIndex, count: int) -> None:
    deadline = time.monotonic() + DEADLINE
    while reader.documents.count() != count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def follows(primary: Server, standby: Server) -> None:
    """Until the replica has all that the primary has written so far."""
    (position,) = primary.execute("SELECT pg_current_wal_lsn()::text")[0]
    deadline = time.monotonic() + DEADLINE
    while standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{position}'") != [(True,)]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_replica_is_read_follows_and_refuses_to_write(pair: tuple[Server, Server], tmp_path: Path) -> None:
    primary, standby = pair
    root = filled(tmp_path / "work", count=3)
    skm(root, "index", url=primary.url(), project="commands")
    writer = PostgresIndex(primary.url(), "p")
    writer.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    follows(primary, standby)
    reader = PostgresIndex(standby.url(), "p")
    assert reader.read_only
    assert len(reader.documents.match(["zebra"], Filter(), 9)) == 1
    writer.documents.put(entry("memory/b.md", "zebra too"), BY_USER)
    wait_for(reader, 2)
    assert len(reader.documents.match(["zebra"], Filter(), 9)) == 2
    with pytest.raises(DatabaseUnusable, match="only be read") as raised:
        reader.documents.put(entry("memory/c.md", "x"), BY_USER)
    assert "index.url" in raised.value.hint
    with pytest.raises(DatabaseUnusable, match="no project"):
        PostgresIndex(standby.url(), "another")
    reader.close()
    writer.close()
    result = skm(root, "search", "zebra1", url=standby.url(), project="commands")["data"]["results"]
    assert result[0]["title"] == "Note 1"
    message = skm(root, "validate", "1", "--was-useful", url=standby.url(), project="commands", code=1)["error"]
    assert message["code"] == "E020"
    assert "only be read" in message["message"]
    named = {"SPEC_KIT_MEMORY_INDEX_URL": standby.url(), "SPEC_KIT_MEMORY_INDEX_PROJECT": "commands"}
    with Talk(root, **named) as talk:
        assert talk.search("zebra2").titles[0] == "Note 2"
        refused = talk.call("memory_validate", id=1, wasUseful=True)
        assert refused.code == "E020", refused
        assert "only be read" in refused.message


def test_what_was_acknowledged_survives_a_change_to_the_replica(pair: tuple[Server, Server]) -> None:
    """The last test of this module: the replica becomes the primary. It confirms each commit before that."""
    primary, standby = pair
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.execute("SELECT pg_reload_conf()")
    proxy = Proxy(primary.port)
    store = PostgresIndex(primary.url(port=proxy.port), "moves", busy_seconds=3)
    done = []
    for number in range(5):
        store.documents.put(entry(f"memory/{number}.md", f"zebra {number}"), BY_USER)
        done.append(f"memory/{number}.md")
    proxy.cut()
    primary.stop(mode="immediate")
    standby.promote()
    with pytest.raises(SpecKitMemoryError):
        store.documents.put(entry("memory/lost.md", "nobody"), BY_USER)
    proxy.target = standby.port
    proxy.restore()
    assert sorted(memory.path for memory in store.documents.find()) == done, "the open handle goes on"
    assert len(store.documents.match(["zebra"], Filter(), 9)) == 5
    store.documents.put(entry("memory/5.md", "zebra 5"), BY_USER)
    assert ledger.verify(store.record.ledger()) is None
    assert len(list(store.record.ledger())) == 6
    store.close()
    proxy.close()
