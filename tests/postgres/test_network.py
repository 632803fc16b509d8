"""The way to the server breaks, in the middle of a commit too: acknowledged or not, never twice, and it comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter
from spec_kit_memory.errors import DatabaseBusy, DatabaseUnusable
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests.faults.conftest import filled
from tests.faults.talking import Talk
from tests.index.material import BY_USER, entry
from tests.postgres.command import skm
from tests.postgres.proxy import Loss, Proxy
from tests.postgres_server import Server


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    made = Proxy(server.port)
    yield made
    made.close()


@pytest.fixture
def store(server: Server, proxy: Proxy) -> Iterator[PostgresIndex]:
    opened = PostgresIndex(server.url(port=proxy.port), uuid4().hex, busy_seconds=5)
    yield opened
    opened.close()


def test_a_network_that_is_cut_is_said_and_comes_back(store: PostgresIndex, proxy: Proxy) -> None:
    store.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    proxy.cut()
    with pytest.raises((DatabaseUnusable, DatabaseBusy)) as raised:
        store.documents.put(entry("memory/b.md", "lost"), BY_USER)
    assert str(proxy.port) in raised.value.message
    assert raised.value.hint
    proxy.restore()
    assert [memory.path for memory in store.documents.find()] == ["memory/a.md"]
    assert len(store.documents.match(["zebra"], Filter(), 9)) == 1
    assert store.documents.put(entry("memory/b.md", "zebra too"), BY_USER).created


def test_a_commit_whose_answer_is_lost_is_acknowledged_all_the_same(store: PostgresIndex, proxy: Proxy) -> None:
    proxy.loses, proxy.stays_cut = Loss.ANSWER, False
    put = store.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    assert proxy.lost == 1
    assert put.created
    assert [memory.id for memory in store.documents.find()] == [put.memory_id]
    proxy.loses = Loss.ANSWER
    with store.together():
        store.record.amend(put.memory_id, BY_USER, outdated=True)
        store.documents.put(entry("memory/b.md", "zebra too"), BY_USER)
    assert proxy.lost == 2
    assert store.documents.count() == 2
    assert store.documents.get(put.memory_id).outdated
    assert [one.sequence for one in store.record.ledger()] == [1, 2, 3]
    assert ledger.verify(store.record.ledger()) is None


def test_a_commit_that_never_arrives_is_refused_and_has_changed_nothing(store: PostgresIndex, proxy: Proxy) -> None:
    proxy.loses, proxy.stays_cut = Loss.REQUEST, False
    with pytest.raises(DatabaseUnusable, match="cannot be reached"):
        store.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    assert proxy.lost == 1
    assert store.documents.count() == 0
    assert list(store.record.ledger()) == []
    assert store.documents.put(entry("memory/a.md", "zebra"), BY_USER).created


@pytest.mark.parametrize("loss", Loss)
def test_a_commit_behind_which_the_network_stays_away_is_said_to_be_unknown(
    store: PostgresIndex, proxy: Proxy, loss: Loss
) -> None:
    proxy.loses = loss
    with pytest.raises(DatabaseUnusable, match="not known") as raised:
        store.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    assert "look whether" in raised.value.hint
    proxy.restore()
    assert store.documents.count() == (1 if loss is Loss.ANSWER else 0), "all of it or nothing"
    store.documents.put(entry("memory/a.md", "zebra"), BY_USER)
    assert store.documents.count() == 1
    added = [one for one in store.record.history() if one.event == "ADD"]
    assert len(added) == 1, "made again it is not there twice"
    assert ledger.verify(store.record.ledger()) is None


def test_connections_notice_a_network_that_swallows_everything(store: PostgresIndex) -> None:
    with store._database.reading() as connection:
        parameters = connection.raw.info.get_parameters()
    assert int(parameters["tcp_user_timeout"]) <= 60_000
    assert int(parameters["keepalives_idle"]) <= 60


def test_a_writer_whose_machine_is_gone_does_not_keep_the_others_out_for_ever(store: PostgresIndex) -> None:
    with store._database.writing() as connection:
        assert connection.execute("SHOW idle_in_transaction_session_timeout").get == "5min"
    with store._database.reading() as connection:
        assert connection.execute("SHOW idle_in_transaction_session_timeout").get == "0", "it ends with its transaction"


def test_over_mcp_every_acknowledged_call_counts_once_while_commits_are_lost(
    server: Server, proxy: Proxy, tmp_path: Path
) -> None:
    root = filled(tmp_path / "work", count=4)
    url, project = server.url(port=proxy.port), uuid4().hex
    proxy.stays_cut = False
    done = 0
    with Talk(root, SPEC_KIT_MEMORY_INDEX_URL=url, SPEC_KIT_MEMORY_INDEX_PROJECT=project) as talk:
        talk.ready(memories=4)
        for number in range(8):
            proxy.loses = (Loss.ANSWER, Loss.REQUEST)[number % 2]
            answer = talk.call("memory_validate", id=1, wasUseful=True)
            if answer.is_error:
                assert answer.code == "E020", answer
                assert "cannot be reached" in answer.message
                assert answer.hint
            else:
                done += 1
                assert answer.data["validationCount"] == done
        assert proxy.lost >= 8
        assert done > 0
        assert talk.search("zebra2").titles[0] == "Note 2"
        deleted = 0
        for number, memory_id in enumerate((2, 3)):
            proxy.loses = (Loss.ANSWER, Loss.REQUEST)[number]
            deleted += not talk.call("memory_delete", id=memory_id, deleteFile=True).is_error
        proxy.loses = None
        assert talk.call("memory_stats").data["totals"]["memories"] == 4 - deleted
        assert talk.call("memory_health").data["healthy"]
    files = list((root / "specs").rglob("*.md"))
    assert len(files) == 4 - deleted, "files and index agree"


def test_by_command_a_save_whose_commit_is_lost_is_there_once(server: Server, proxy: Proxy, tmp_path: Path) -> None:
    root = filled(tmp_path / "work", count=2)
    direct, project = server.url(), uuid4().hex
    through = server.url(port=proxy.port)
    skm(root, "index", url=direct, project=project)
    proxy.stays_cut = False
    for number, loss in enumerate(Loss):
        text = f"The gate number {number} opens at nine in the morning"
        proxy.loses = loss
        first = skm(root, "save", "--text", text, url=through, project=project, code=None)
        assert proxy.lost == number + 1
        if loss is Loss.ANSWER:
            assert first["data"]["created"]
        else:
            assert first["error"]["code"] == "E020"
            assert "The text is kept in" in first["error"]["message"]
        skm(root, "index", url=direct, project=project)
        again = skm(root, "save", "--text", text, url=direct, project=project)["data"]
        assert not again["created"], "it is known already"
        listed = skm(root, "list", url=direct, project=project)["data"]["memories"]
        assert len(listed) == 3 + number
    assert skm(root, "ledger", "verify", url=direct, project=project)["data"]["ok"]
