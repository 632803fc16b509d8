"""Several writes as one: who sees them when, and what is left when one of them fails?"""

from __future__ import annotations

import threading

import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter, Link, Relation
from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.index.contract import Index
from tests.index.conftest import Factory
from tests.index.material import BY_USER, NOON, entry

BAD = entry("memory/bad.md", "half of it", attributes={"weight": object()})


def found(store: Index, *terms: str) -> list[int]:
    return list(dict.fromkeys(hit.memory_id for hit in store.documents.match(terms, Filter(), 20)))


def test_others_see_the_writes_when_the_block_is_left_and_the_writer_at_once(store: Index, factory: Factory) -> None:
    other = factory("index")
    elsewhere: list[int] = []
    with store.together():
        first = store.documents.put(entry("memory/a.md", "alpha"), BY_USER)
        second = store.documents.put(entry("memory/b.md", "beta"), BY_USER)
        assert store.documents.get(second.memory_id).path == "memory/b.md"
        response = store.documents.get(path="memory/a.md")
        assert response is not None
        assert response.id == first.memory_id
        assert [memory.path for memory in store.documents.find(order="path")] == ["memory/a.md", "memory/b.md"]
        thread = threading.Thread(target=lambda: elsewhere.append(len(store.documents.find())))
        thread.start()
        thread.join()
        assert elsewhere == [0]
        assert other.documents.find() == []
        assert found(other, "alpha") == []
    assert found(store, "beta") == found(other, "beta") == [second.memory_id]


def test_each_write_keeps_its_own_history_and_ledger_entry(store: Index, factory: Factory) -> None:
    apart = factory("apart")
    texts = [("memory/a.md", "alpha"), ("memory/b.md", "beta"), ("memory/a.md", "gamma"), ("memory/c.md", "beta")]
    with store.together():
        for path, text in texts:
            store.documents.put(entry(path, text), BY_USER)
        store.documents.vanish("memory/a.md", BY_USER)
    for path, text in texts:
        apart.documents.put(entry(path, text), BY_USER)
    apart.documents.vanish("memory/a.md", BY_USER)
    assert list(store.record.ledger()) == list(apart.record.ledger())
    assert ledger.verify(store.record.ledger()) is None
    assert store.record.history() == apart.record.history()
    assert store.generation() == apart.generation()


def test_one_that_fails_undoes_all_of_them(store: Index) -> None:
    store.documents.put(entry("memory/first.md", "first"), BY_USER)
    before = (store.generation(), len(list(store.record.ledger())), store.care.stats())

    def several() -> None:
        with store.together():
            store.documents.put(entry("memory/a.md", "alpha"), BY_USER)
            store.documents.put(BAD, BY_USER)

    with pytest.raises(TypeError):
        several()
    assert (store.generation(), len(list(store.record.ledger())), store.care.stats()) == before
    assert found(store, "alpha") == []
    assert store.documents.put(entry("memory/a.md", "alpha"), BY_USER).memory_id == 2
    assert all(problems == [] for problems in store.care.check(now=NOON).values())


def test_a_failure_that_is_caught_does_not_let_the_rest_through(store: Index) -> None:

    def several(*, more: bool) -> None:
        with store.together():
            store.documents.put(entry("memory/a.md", "alpha"), BY_USER)
            with pytest.raises(TypeError):
                store.documents.put(BAD, BY_USER)
            if more:
                store.documents.put(entry("memory/b.md", "beta"), BY_USER)

    for more in (True, False):
        with pytest.raises(DatabaseUnusable, match="undone"):
            several(more=more)
        assert store.documents.find() == []
    store.documents.put(entry("memory/c.md", "gamma"), BY_USER)
    assert [memory.path for memory in store.documents.find()] == ["memory/c.md"]


def test_blocks_inside_a_block_belong_to_it(store: Index) -> None:

    def several() -> None:
        with store.together():
            with store.together():
                store.documents.put(entry("memory/a.md", "alpha"), BY_USER)
            store.documents.put(entry("memory/b.md", "beta"), BY_USER)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        several()
    assert store.documents.find() == []


def test_nothing_undone_stays_in_what_is_kept_between_searches(store: Index) -> None:
    """The next change has the generation of the one that was undone: whoever kept that one would never look again."""
    one = store.documents.put(entry("memory/one.md", "one"), BY_USER).memory_id
    store.warm()
    undone = one + 1

    def several() -> None:
        with store.together():
            assert store.documents.put(entry("memory/undone.md", "undone"), BY_USER).memory_id == undone
            store.documents.put(entry("memory/one.md", "changed"), BY_USER)
            store.record.put_link(Link(0, one, undone, Relation.CAUSED), BY_USER)
            assert found(store, "undone") == found(store, "changed") == []
            assert found(store, "one") == [one]
            assert [memory.id for memory in store.documents.many([one, undone])] == [one]
            assert store.care.stats().memories == store.documents.count() == 1
            assert store.generation() == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        several()
    two = store.documents.put(entry("memory/two.md", "two"), BY_USER).memory_id
    assert two == undone
    assert found(store, "one") == [one]
    assert found(store, "two") == [two]
    assert found(store, "undone") == found(store, "changed") == []
    assert [memory.path for memory in store.documents.many([one, two])] == ["memory/one.md", "memory/two.md"]
    assert store.care.stats().memories == store.documents.count() == 2
    assert store.record.links() == []
