"""What becomes of vectors: work, tries, statuses, another model?"""

from __future__ import annotations

import struct

import pytest

from spec_kit_memory.core.memory import Filter, LinkClaim, Relation, Scope, VectorStatus
from spec_kit_memory.errors import BadParameter, DatabaseUnusable
from spec_kit_memory.index.contract import Index
from tests.index.conftest import Factory
from tests.index.material import BY_USER, embed_all, entry, sha, vector


def status(store: Index, memory_id: int = 1) -> VectorStatus:
    return store.get(memory_id).vector_status


def test_work_is_given_until_there_is_none(store: Index) -> None:
    store.put(entry(text="one\ntwo"), BY_USER)
    store.use_model("m", 2, "w")
    assert status(store) is VectorStatus.PENDING
    work = store.vector_work(10)
    assert [(one.memory_id, one.passage_hash, one.embedded) for one in work] == [
        (1, sha("one"), "one"),
        (1, sha("two"), "two"),
    ]
    assert len(store.vector_work(1)) == 1
    store.put_vectors({sha("one"): (vector(1, 0), b"bits")})
    assert [one.embedded for one in store.vector_work(10)] == ["two"]
    assert store.stats()["pending_passages"] == 1
    store.put_vectors({sha("two"): (vector(0, 1), None)})
    assert store.vector_work(10) == []
    assert status(store) is VectorStatus.SUCCESS


def test_passages_without_a_vector_are_known(store: Index) -> None:
    store.put(entry(text="one\ntwo\nthree"), BY_USER)
    ids = {passage.hash: passage.id for passage in store.passages_of(1)}
    assert store.unembedded([*ids.values(), 999]) == frozenset(ids.values())
    store.use_model("m", 2, "w")
    store.put_vectors({sha("one"): (vector(1, 0), None)})
    assert store.unembedded([*ids.values(), 999]) == {ids[sha("two")], ids[sha("three")]}
    assert store.unembedded([ids[sha("one")]]) == frozenset()
    assert store.unembedded([]) == frozenset()
    assert store.within(Scope(prefixes=())).unembedded([*ids.values()]) == frozenset()


def test_token_states_are_read_in_bulk(store: Index) -> None:
    store.put(entry(text="one\ntwo\nthree"), BY_USER)
    store.use_model("m", 2, "w")
    store.put_vectors(
        {sha("one"): (vector(1, 0), b"1"), sha("two"): (vector(0, 1), b"2"), sha("three"): (vector(1, 1), None)}
    )
    ids = {passage.hash: passage.id for passage in store.passages_of(1)}
    assert store.token_states([*ids.values(), 999]) == {ids[sha("one")]: b"1", ids[sha("two")]: b"2"}


def test_retries_come_before_pending_and_end_after_three(store: Index) -> None:
    store.put(entry("memory/a.md", "first"), BY_USER)
    store.put(entry("memory/b.md", "second\nthird"), BY_USER)
    store.use_model("m", 2, "w")
    store.vectors_failed([sha("third")], "too long")
    assert status(store, 2) is VectorStatus.RETRY
    assert [one.embedded for one in store.vector_work(10)] == ["third", "second", "first"]
    store.vectors_failed([sha("third")], "too long")
    store.vectors_failed([sha("third")], "still too long")
    assert status(store, 2) is VectorStatus.PENDING
    store.put_vectors({sha("second"): (vector(1, 0), None)})
    assert status(store, 2) is VectorStatus.PARTIAL
    assert [one.embedded for one in store.vector_work(10)] == ["first"]
    assert store.stats()["failures"] == {"still too long": 1}
    for _ in range(3):
        store.vectors_failed([sha("first")], "no")
    assert status(store, 1) is VectorStatus.FAILED
    assert len(store.match_text(["first"], Filter(), 5)) == 1, "text is found all the same"
    store.repair(BY_USER)
    assert [one.embedded for one in store.vector_work(10)] == ["first", "third"]


def test_another_model_starts_all_over(store: Index) -> None:
    store.put(entry(), BY_USER)
    embed_all(store, dimensions=3)
    assert len(store.match_vector([1.0, 0, 0], Filter(), 9)) == 2
    store.use_model("other", 2, "w")
    assert status(store) is VectorStatus.PENDING
    assert store.match_vector([1.0, 0], Filter(), 9) == []
    assert len(store.vector_work(9)) == 2
    with pytest.raises(BadParameter, match="3 dimensions"):
        store.put_vectors({store.vector_work(1)[0].passage_hash: (vector(1, 2, 3), None)})


def test_the_same_model_again_changes_nothing(store: Index) -> None:
    store.put(entry(), BY_USER)
    embed_all(store)
    generation = store.generation()
    store.use_model("test-model", 3, "weights")
    assert (store.generation(), status(store)) == (generation, VectorStatus.SUCCESS)


def test_other_weights_are_another_model(store: Index) -> None:
    store.put(entry(), BY_USER)
    embed_all(store)
    store.use_model("test-model", 3, "other weights")
    assert status(store) is VectorStatus.PENDING


def test_vectors_of_a_model_that_was_replaced_meanwhile_are_refused(factory: Factory) -> None:
    one, two = factory("index"), factory("index")
    one.put(entry(text="words"), BY_USER)
    one.use_model("first", 2, "w")
    two.use_model("second", 2, "w")
    with pytest.raises(DatabaseUnusable, match="second"):
        one.put_vectors({sha("words"): (vector(1, 0), None)})
    assert one.vector_work(5) != []


def test_vectors_of_words_that_are_gone_go_too(store: Index) -> None:
    store.put(entry(text="one\ntwo"), BY_USER)
    embed_all(store)
    store.put(entry(text="one\nthree"), BY_USER)
    assert [one.embedded for one in store.vector_work(9)] == ["three"]
    assert store.check()["vectors"] == []


def test_an_empty_document_needs_no_vector(store: Index) -> None:
    store.put(entry(text="", fingerprint=""), BY_USER)
    assert status(store) is VectorStatus.SUCCESS


def test_a_vector_for_words_that_are_gone_by_now_leaves_nothing_behind(store: Index) -> None:
    """Its file changed while it was embedded, perhaps by another process."""
    store.use_model("test-model", 3, "weights")
    store.put(entry("memory/a.md", "first words"), BY_USER)
    (work,) = store.vector_work(10)
    store.put(entry("memory/a.md", "other words altogether"), BY_USER)
    store.put_vectors({work.passage_hash: (struct.pack("<3f", 1, 1, 1), None)})
    assert all(found == [] for found in store.check().values())
    assert [one.passage_hash for one in store.vector_work(10)] != [work.passage_hash]


# --- what is said about memories


def test_why_nothing_can_be_embedded_is_known_to_every_handle(factory: Factory) -> None:
    one, two = factory("same"), factory("same")
    one.put(entry(), BY_USER)
    assert two.stats()["provider_failure"] is None
    one.provider_failed("E004 refused")
    assert two.stats()["provider_failure"] == "E004 refused"
    generation = two.generation()
    one.provider_failed("E004 refused")
    assert two.generation() == generation, "what did not change is not written"
    one.provider_failed(None)
    assert two.stats()["provider_failure"] is None
    assert two.stats()["failures"] == {}


def test_remarks_tell_of_slips_loose_links_and_failed_passages(store: Index) -> None:
    store.use_model("m", 3, "w")
    store.put(entry("memory/a.md", links=[LinkClaim(Relation.CAUSED, "Nobody", True)]), BY_USER)
    store.put(entry("memory/b.md", "other words"), BY_USER)
    assert [(one.memory_id, one.kind) for one in store.remarks()] == [(1, "link")]
    assert "caused_by 'Nobody'" in store.remarks()[0].message
    work = [one for one in store.vector_work(9) if one.memory_id == 2]
    store.vectors_failed([one.passage_hash for one in work], "E001 odd")
    assert [one.kind for one in store.remarks([2])] == ["vector"]
    assert "E001 odd" in store.remarks([2])[0].message
    assert store.remarks([1, 2], limit=1) == store.remarks([1])
    hidden = store.within(Scope(prefixes=("memory/b.md",)))
    assert [one.memory_id for one in hidden.remarks()] == [2]
    store.put(entry("memory/n.md", "more words", title="Nobody"), BY_USER)
    assert store.remarks([1]) == []


def test_vectors_of_the_same_name_say_what_differs(factory: Factory) -> None:
    one, two = factory("same"), factory("same")
    one.put(entry(), BY_USER)
    for model, said in (
        (("m", 4, "w"), "vectors of m with 4 dimensions, not with 3"),
        (("m", 3, "other"), "vectors of m from another address or with other weights"),
        (("n", 3, "w"), "vectors of n, not of m"),
    ):
        one.use_model("m", 3, "w")
        two.use_model(*model)
        with pytest.raises(DatabaseUnusable, match=said):
            one.put_vectors({"x": (b"\0" * 12, None)})
