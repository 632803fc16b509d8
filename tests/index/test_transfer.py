"""Does an index arrive whole at another engine, and back? Ids, ledger, history, use, links, vectors, what is gone."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter, Link, Presence, Relation, Session
from spec_kit_memory.errors import DatabaseUnusable, SpecKitMemoryError
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from spec_kit_memory.index.transfer import copy
from tests.faults.calls import BROKEN, FULL, KILLED, READS, Calls, Fault, watched
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
    store.record.change_session("s", lambda _: Session("s", turn=2), NOON)
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


MOMENTS = 6  # at which a copy is broken off, in each way
WAYS: dict[str, Callable[[], Fault]] = {
    "a read fails": lambda: Fault.error(BROKEN, only=READS),
    "a call fails": lambda: Fault.error(BROKEN),
    "the disk is full": lambda: Fault.error(FULL, lasting=True),
    "killed": Fault.death,
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks, and its VFS stands on the one of Unix")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_copy_that_is_broken_off_at_any_moment_is_whole_or_not_there(
    tmp_path: Path, server: Server, engine: str, way: str
) -> None:
    with closing(filled(tmp_path / "first.sqlite")) as first:
        wanted = told(first)
    only = READS if engine == "postgres" else None  # of a server only what is read of the source can fail here

    def target(name: str) -> SqliteIndex | PostgresIndex:
        return SqliteIndex(tmp_path / f"{name}.sqlite") if engine == "sqlite" else PostgresIndex(server.url(), name)

    def attempt(name: str, calls: Calls) -> None:
        with watched(calls), closing(SqliteIndex(tmp_path / "first.sqlite")) as first, closing(target(name)) as second:
            calls.armed = True
            copy(first, second)
            calls.armed = False

    def fault() -> Fault:
        made = WAYS[way]()
        made.only = only or made.only
        return made

    names = [uuid4().hex for _ in range(MOMENTS + 1)]
    counting = Calls(0, fault())
    attempt(names.pop(), counting)
    assert len(counting.names) > MOMENTS
    broken_off = 0
    for number, name in enumerate(names):
        at = 1 + number * (len(counting.names) - 1) // (MOMENTS - 1)
        if way == "killed":
            child = os.fork()
            if child == 0:
                with suppress(BaseException):
                    attempt(name, Calls(at, fault()))
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
            broken_off += 1
        else:
            with suppress(SpecKitMemoryError, OSError):
                attempt(name, Calls(at, fault()))
                broken_off -= 1
            broken_off += 1
        with closing(SqliteIndex(tmp_path / "first.sqlite")) as first, closing(target(name)) as second:
            assert told(first) == wanted
            if not second.documents.find():
                copy(first, second)
            assert told(second) == wanted, f"{way} at call {at}"
    assert broken_off > 2
