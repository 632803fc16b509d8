"""Is what a handle remembers of memories and passages always what a fresh handle reads?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from threading import Thread

import pytest

from spec_kit_memory.core.memory import Filter, Scope, Tier
from spec_kit_memory.index.contract import Index
from tests.index.conftest import Factory
from tests.index.material import BY_USER, NOON, change, embed_all, entry, vector

ALL = range(1, 30)


def same_as_fresh(store: Index, factory: Factory, scope: Scope | None = None) -> bool:
    fresh = factory("index")
    old, new = (each.within(scope) if scope else each for each in (store, fresh))
    return (
        old.documents.many(ALL) == new.documents.many(ALL)
        and old.documents.passages(ALL) == new.documents.passages(ALL)
        and old.vectors.token_states(ALL) == new.vectors.token_states(ALL)
    )


@pytest.fixture
def filled(store: Index) -> Index:
    store.vectors.use_model("test", 3, "weights")
    for name in "abc":
        store.documents.put(
            entry(f"memory/{name}.md", f"first of {name}\nsecond of {name}", triggers=[f"phrase {name}"]), BY_USER
        )
    store.documents.many(ALL), store.documents.passages(ALL), store.vectors.token_states(ALL)
    return store


CHANGES: dict[str, Callable[[Index], object]] = {
    "put": lambda store: store.documents.put(entry("memory/a.md", "other words"), change(minutes=1)),
    "lines that moved": lambda store: store.documents.put(
        entry("memory/a.md", "\n\nfirst of a\nsecond of a"), change(minutes=1)
    ),
    "new": lambda store: store.documents.put(entry("memory/d.md", "new"), BY_USER),
    "alias": lambda store: store.documents.put(
        entry("memory/e.md", "first of b\nsecond of b", triggers=["more"]), BY_USER
    ),
    "vanish": lambda store: store.documents.vanish("memory/b.md", BY_USER),
    "forget": lambda store: store.documents.forget(2, BY_USER),
    "merge": lambda store: store.documents.forget(2, BY_USER, into=1),
    "override": lambda store: store.record.amend(3, BY_USER, overrides={"tier": str(Tier.CRITICAL)}),
    "outdated": lambda store: store.record.amend(1, BY_USER, outdated=True),
    "trust": lambda store: store.record.amend(1, BY_USER, vouched=False),
    "validate": lambda store: store.record.amend(1, BY_USER, validation=(Decimal("0.7"), 2)),
    "use": lambda store: store.record.use({1: 2.0, 3: 1.0}, NOON),
    "vectors": lambda store: embed_all(store),
    "failed vectors": lambda store: store.vectors.failed("because", [store.documents.passages(memory_ids=[1])[0].hash]),
    "another model": lambda store: store.vectors.use_model("other", 3, "weights"),
    "rebuild": lambda store: store.care.rebuild(BY_USER),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "by another handle"])
def test_every_change_is_seen(filled: Index, factory: Factory, name: str, elsewhere: bool) -> None:
    before = filled.documents.many(ALL), filled.documents.passages(ALL)
    assert all(before)
    handle = filled
    if elsewhere:
        handle = factory("index")
        handle.vectors.use_model("test", 3, "weights")
    CHANGES[name](handle)
    assert same_as_fresh(filled, factory)
    if name not in ("another model",):
        assert (filled.documents.many(ALL), filled.documents.passages(ALL)) != before


def test_a_branch_switched_away_and_back_is_seen_both_times(filled: Index, factory: Factory) -> None:
    filled.documents.vanish("memory/a.md", BY_USER)
    assert 1 not in [memory.id for memory in filled.documents.many(ALL)]
    filled.documents.put(entry("memory/a.md", "first of a\nsecond of a"), change(minutes=2))
    assert 1 in [memory.id for memory in filled.documents.many(ALL)]
    assert same_as_fresh(filled, factory)


def test_what_one_scope_read_is_not_shown_to_another(filled: Index, factory: Factory) -> None:
    filled.documents.put(replace(entry("memory/users/ann/x.md", "secret of ann"), owner="ann"), BY_USER)
    ann, bob = (filled.within(Scope(user=user)) for user in ("ann", "bob"))
    secret = next(memory.id for memory in ann.documents.many(ALL) if memory.owner == "ann")
    assert secret not in [memory.id for memory in bob.documents.many(ALL)]
    assert secret not in [passage.memory_id for passage in bob.documents.passages(ALL)]
    assert secret in [passage.memory_id for passage in ann.documents.passages(ALL)]
    assert same_as_fresh(filled, factory, Scope(user="bob"))


def test_more_memories_than_are_kept_are_all_found(filled: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    from spec_kit_memory.index.arrays import row_cache

    few = row_cache.RowCache(filled._shared.feed)  # type: ignore[attr-defined]
    monkeypatch.setattr(few._memories, "_most", 2)
    assert [memory.id for memory in few.memories(None, [3, 1, 2, 99])] == [3, 1, 2]
    assert [memory.id for memory in few.memories(None, [1, 2, 3])] == [1, 2, 3]
    assert len(few._memories.values) == 2


def test_token_states_come_and_go_with_their_passages(filled: Index, factory: Factory) -> None:
    assert filled.vectors.token_states(ALL) == {}
    other = factory("index")
    hashes = [passage.hash for passage in other.documents.passages(memory_ids=[1])]
    other.vectors.use_model("test", 3, "weights")
    other.vectors.put({each: (vector(1, 0, 0), b"states") for each in hashes})
    assert set(filled.vectors.token_states(ALL).values()) == {b"states"}
    other.documents.put(entry("memory/a.md", "all other words"), change(minutes=1))
    assert filled.vectors.token_states(ALL) == {}


def test_token_states_of_another_user_are_not_shown(filled: Index) -> None:
    filled.documents.put(replace(entry("memory/users/ann/x.md", "secret of ann"), owner="ann"), BY_USER)
    ann, bob = (filled.within(Scope(user=user)) for user in ("ann", "bob"))
    hashes = [passage.hash for passage in ann.documents.passages(ALL)]
    filled.vectors.put({each: (vector(1, 0, 0), b"states") for each in hashes})
    assert len(ann.vectors.token_states(ALL)) == len(bob.vectors.token_states(ALL)) + 1


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_during_a_steady_search_is_seen_right_after_it(filled: Index, factory: Factory, name: str) -> None:
    other = factory("index")
    other.vectors.use_model("test", 3, "weights")
    with filled.steady():
        before = filled.generation()
        CHANGES[name](other)
        # Rows that were not kept yet are read meanwhile, newer than what is kept of the others.
        filled.documents.many(ALL), filled.documents.passages(ALL), filled.vectors.token_states(ALL)
        assert filled.generation() == before
    assert same_as_fresh(filled, factory)
    assert filled.generation() == factory("index").generation()


def test_what_was_read_across_a_change_is_told_and_the_steady_search_begins_anew(
    filled: Index, factory: Factory
) -> None:
    with filled.steady():
        assert filled.documents.passages(memory_ids=[1])
        assert filled.unmoved()
        before = filled.generation()
        factory("index").documents.put(entry("memory/a.md", "other words"), change(minutes=1))
        filled.documents.passages(memory_ids=[1])
        assert not filled.unmoved()
        assert filled.generation() > before
        assert [hit.memory_id for hit in filled.documents.match(["other"], Filter(), 5)] == [1]
        assert filled.unmoved()


def test_a_generation_that_was_read_since_is_believed_until_this_process_writes(
    filled: Index, factory: Factory
) -> None:
    since = time.monotonic()
    filled.documents.count()
    before = filled.generation(since=since)
    filled.documents.put(entry("memory/a.md", "other words"), change(minutes=1))
    assert filled.generation(since=since) > before
    factory("index").documents.put(entry("memory/b.md", "further words"), change(minutes=2))
    assert filled.generation(since=time.monotonic()) == factory("index").generation()


def test_other_threads_see_changes_while_one_is_steady(filled: Index, factory: Factory) -> None:
    seen: list[bool] = []
    with filled.steady():
        factory("index").documents.put(entry("memory/a.md", "other words"), change(minutes=1))
        thread = Thread(target=lambda: seen.append(same_as_fresh(filled, factory)))
        thread.start()
        thread.join()
    assert seen == [True]


def test_a_search_within_a_steady_search_ends_with_the_outer_one(filled: Index, factory: Factory) -> None:
    with filled.steady():
        with filled.steady():
            before = filled.generation()
        factory("index").documents.put(entry("memory/a.md", "other words"), change(minutes=1))
        assert filled.generation() == before
    assert filled.generation() > before
