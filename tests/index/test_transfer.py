"""Does an index arrive whole at another engine, and back? Ids, ledger, history, use, links, vectors, what is gone."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter, Link, Presence, Relation, Session
from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from spec_kit_memory.index.transfer import copy
from tests.index.material import BY_USER, NOON, change, embed_all, entry
from tests.postgres_server import Server


def filled(path: Path) -> SqliteIndex:
    store = SqliteIndex(path)
    for number in range(6):
        store.documents.put(
            entry(f"memory/{number}.md", f"zebra {number}\nstripes of {number}", triggers=[f"t{number}"]),
            change(minutes=number),
        )
    store.documents.put(entry("memory/copy.md", "zebra 0\nstripes of 0"), change(minutes=8))
    embed_all(store)
    store.record.amend(1, change(minutes=9), overrides={"title": "Another"}, outdated=True, vouched=True)
    store.record.put_link(Link(0, 1, 2, Relation.CAUSED), change(minutes=10))
    store.record.use({1: 3.0}, NOON)
    store.record.put_session(Session(id="s", turn=2), NOON)
    store.documents.vanish("memory/4.md", change(minutes=11))
    store.documents.forget(6, change(minutes=12))
    return store


def told(store: SqliteIndex | PostgresIndex) -> dict[str, object]:
    return {
        "memories": [store.documents.find(presence=presence, order="path") for presence in Presence],
        "texts": [store.documents.text(number) for number in range(1, 7)],
        "ledger": list(store.record.ledger()),
        "history": store.record.history(),
        "links": store.record.links(),
        "session": store.record.session("s"),
        "stored": store.documents.stored(),
        "triggers": store.documents.triggers(),
        "words": [
            (hit.memory_id, round(hit.score, 5)) for hit in store.documents.match(["zebra", "stripes of"], Filter(), 20)
        ],
        "meaning": [(hit.memory_id, round(hit.score, 5)) for hit in store.vectors.match([0.6, 0.6, 0.5], Filter(), 20)],
    }


def test_an_index_goes_to_a_server_and_back(tmp_path: Path, server: Server) -> None:
    first = filled(tmp_path / "first.sqlite")
    there = PostgresIndex(server.url(), uuid4().hex)
    counts = copy(first, there)
    assert counts["memory"] == 6
    assert counts["ledger"] == len(list(first.record.ledger()))
    assert told(there) == told(first)
    back = SqliteIndex(tmp_path / "back.sqlite")
    copy(there, back)
    assert told(back) == told(first)
    for store in (there, back):
        assert all(not said for said in store.care.check().values())
        new = store.documents.put(entry("memory/new.md", "zebra anew"), BY_USER)
        assert new.memory_id == 7, "ids go on after the last"
        assert ledger.verify(store.record.ledger()) is None
        store.documents.recall(6, change(minutes=20))
        assert len(store.documents.match(["zebra"], Filter(), 20)) == 6
        store.close()
    first.close()


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_target_that_holds_something_is_refused_and_left_alone(tmp_path: Path, server: Server, engine: str) -> None:
    first = filled(tmp_path / "first.sqlite")
    target: SqliteIndex | PostgresIndex = (
        SqliteIndex(tmp_path / "other.sqlite") if engine == "sqlite" else PostgresIndex(server.url(), uuid4().hex)
    )
    target.documents.put(entry("memory/mine.md", "mine"), BY_USER)
    with pytest.raises(DatabaseUnusable, match="not empty"):
        copy(first, target)
    assert [memory.path for memory in target.documents.find()] == ["memory/mine.md"]
    first.close()
    target.close()


def test_a_zero_in_a_text_hinders_no_copy(tmp_path: Path, server: Server) -> None:
    """PostgreSQL cannot store one: neither engine keeps it, so that the ledger's hashes stay true on both."""
    first = SqliteIndex(tmp_path / "first.sqlite")
    for number in range(2):
        first.documents.put(entry(f"memory/{number}.md", f"zebra {number}", title="a\x00b"), change(reason="why\x00"))
    first.record.put_link(Link(0, 1, 2, Relation.CAUSED, evidence="be\x00cause"), change(reason="why\x00"))
    there = PostgresIndex(server.url(), uuid4().hex)
    copy(first, there)
    assert ledger.verify(there.record.ledger()) is None
    assert there.record.links() == first.record.links()
    assert [one.title for one in there.documents.find()] == ["a\ufffdb", "a\ufffdb"]
