"""Is what a handle remembers of memories and passages always what a fresh handle reads?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from spec_kit_memory.core.memory import Scope, Tier
from spec_kit_memory.index.contract import Index
from tests.index.conftest import Factory
from tests.index.material import BY_USER, NOON, change, embed_all, entry, vector

ALL = range(1, 30)


def same_as_fresh(store: Index, factory: Factory, scope: Scope | None = None) -> bool:
    fresh = factory("index")
    old, new = (each.within(scope) if scope else each for each in (store, fresh))
    return (
        old.many(ALL) == new.many(ALL)
        and old.passages(ALL) == new.passages(ALL)
        and old.token_states(ALL) == new.token_states(ALL)
    )


@pytest.fixture
def filled(store: Index) -> Index:
    store.use_model("test", 3, "weights")
    for name in "abc":
        store.put(
            entry(f"memory/{name}.md", f"first of {name}\nsecond of {name}", triggers=[f"phrase {name}"]), BY_USER
        )
    store.many(ALL), store.passages(ALL), store.token_states(ALL)
    return store


CHANGES: dict[str, Callable[[Index], object]] = {
    "put": lambda store: store.put(entry("memory/a.md", "other words"), change(minutes=1)),
    "lines that moved": lambda store: store.put(entry("memory/a.md", "\n\nfirst of a\nsecond of a"), change(minutes=1)),
    "new": lambda store: store.put(entry("memory/d.md", "new"), BY_USER),
    "alias": lambda store: store.put(entry("memory/e.md", "first of b\nsecond of b", triggers=["more"]), BY_USER),
    "vanish": lambda store: store.vanish("memory/b.md", BY_USER),
    "forget": lambda store: store.forget(2, BY_USER),
    "merge": lambda store: store.merge(2, 1, BY_USER),
    "override": lambda store: store.override(3, {"tier": str(Tier.CRITICAL)}, BY_USER),
    "outdated": lambda store: store.mark_outdated(1, True, BY_USER),
    "trust": lambda store: store.trust(1, False, BY_USER),
    "validate": lambda store: store.validate(1, Decimal("0.7"), 2, BY_USER),
    "use": lambda store: store.record_use({1: 2.0, 3: 1.0}, NOON),
    "vectors": lambda store: embed_all(store),
    "failed vectors": lambda store: store.vectors_failed([store.passages_of(1)[0].hash], "because"),
    "another model": lambda store: store.use_model("other", 3, "weights"),
    "rebuild": lambda store: store.rebuild(BY_USER),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "by another handle"])
def test_every_change_is_seen(filled: Index, factory: Factory, name: str, elsewhere: bool) -> None:
    before = filled.many(ALL), filled.passages(ALL)
    assert all(before)
    handle = filled
    if elsewhere:
        handle = factory("index")
        handle.use_model("test", 3, "weights")
    CHANGES[name](handle)
    assert same_as_fresh(filled, factory)
    if name not in ("another model",):
        assert (filled.many(ALL), filled.passages(ALL)) != before


def test_a_branch_switched_away_and_back_is_seen_both_times(filled: Index, factory: Factory) -> None:
    filled.vanish("memory/a.md", BY_USER)
    assert 1 not in [memory.id for memory in filled.many(ALL)]
    filled.put(entry("memory/a.md", "first of a\nsecond of a"), change(minutes=2))
    assert 1 in [memory.id for memory in filled.many(ALL)]
    assert same_as_fresh(filled, factory)


def test_what_one_scope_read_is_not_shown_to_another(filled: Index, factory: Factory) -> None:
    filled.put(replace(entry("memory/users/ann/x.md", "secret of ann"), owner="ann"), BY_USER)
    ann, bob = (filled.within(Scope(user=user)) for user in ("ann", "bob"))
    secret = next(memory.id for memory in ann.many(ALL) if memory.owner == "ann")
    assert secret not in [memory.id for memory in bob.many(ALL)]
    assert secret not in [passage.memory_id for passage in bob.passages(ALL)]
    assert secret in [passage.memory_id for passage in ann.passages(ALL)]
    assert same_as_fresh(filled, factory, Scope(user="bob"))


def test_more_memories_than_are_kept_are_all_found(filled: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    from spec_kit_memory.index.arrays import row_cache

    few = row_cache.Kept()
    monkeypatch.setattr(few._memories, "_most", 2)
    database = filled._database  # type: ignore[attr-defined]
    assert [memory.id for memory in few.memories(database, None, [3, 1, 2, 99])] == [3, 1, 2]
    assert [memory.id for memory in few.memories(database, None, [1, 2, 3])] == [1, 2, 3]
    assert len(few._memories.values) == 2


def test_token_states_come_and_go_with_their_passages(filled: Index, factory: Factory) -> None:
    assert filled.token_states(ALL) == {}
    other = factory("index")
    hashes = [passage.hash for passage in other.passages_of(1)]
    other.use_model("test", 3, "weights")
    other.put_vectors({each: (vector(1, 0, 0), b"states") for each in hashes})
    assert set(filled.token_states(ALL).values()) == {b"states"}
    other.put(entry("memory/a.md", "all other words"), change(minutes=1))
    assert filled.token_states(ALL) == {}


def test_token_states_of_another_user_are_not_shown(filled: Index) -> None:
    filled.put(replace(entry("memory/users/ann/x.md", "secret of ann"), owner="ann"), BY_USER)
    ann, bob = (filled.within(Scope(user=user)) for user in ("ann", "bob"))
    hashes = [passage.hash for passage in ann.passages(ALL)]
    filled.put_vectors({each: (vector(1, 0, 0), b"states") for each in hashes})
    assert len(ann.token_states(ALL)) == len(bob.token_states(ALL)) + 1
