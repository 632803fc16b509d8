"""What becomes of vectors: work, tries, statuses, another model?"""

from __future__ import annotations

import struct

import pytest

from spec_kit_memory.core.citations import Citations
from spec_kit_memory.core.memory import Filter, LinkClaim, Relation, Scope, VectorStatus
from spec_kit_memory.errors import BadParameter, DatabaseUnusable
from spec_kit_memory.index.contract import Index
from tests.index.conftest import Factory
from tests.index.material import BY_USER, embed_all, entry, sha, vector


def status(store: Index, memory_id: int = 1) -> VectorStatus:
    return store.documents.get(memory_id).vector_status


def test_work_is_given_until_there_is_none(store: Index) -> None:
    store.documents.put(entry(text="one\ntwo"), BY_USER)
    store.vectors.use_model("m", 2, "w")
    assert status(store) is VectorStatus.PENDING
    work = store.vectors.work(10)
    assert [(one.memory_id, one.passage_hash, one.embedded) for one in work] == [
        (1, sha("one"), "one"),
        (1, sha("two"), "two"),
    ]
    assert len(store.vectors.work(1)) == 1
    store.vectors.put({sha("one"): (vector(1, 0), b"bits")})
    assert [one.embedded for one in store.vectors.work(10)] == ["two"]
    assert store.care.stats().pending_passages == 1
    store.vectors.put({sha("two"): (vector(0, 1), None)})
    assert store.vectors.work(10) == []
    assert status(store) is VectorStatus.SUCCESS


def test_the_length_of_what_waits_is_known(store: Index) -> None:
    def waiting() -> tuple[int, int]:
        stats = store.care.stats()
        return stats.pending_passages, stats.pending_tokens

    assert waiting() == (0, 0)
    store.documents.put(entry("memory/a.md", "one\ntwo"), BY_USER)
    store.documents.put(entry("memory/b.md", "two\nthree"), BY_USER)
    store.vectors.use_model("m", 2, "w")
    whole = store.care.stats().tokens
    assert waiting() == (4, whole)
    store.vectors.put({sha("two"): (vector(1, 0), None)})
    passages, tokens = waiting()
    assert passages == 2
    assert tokens == pytest.approx(whole / 2, abs=1)
    store.vectors.put({sha("one"): (vector(1, 0), None), sha("three"): (vector(0, 1), None)})
    assert waiting() == (0, 0)


def test_passages_without_a_vector_are_known(store: Index) -> None:
    store.documents.put(entry(text="one\ntwo\nthree"), BY_USER)

    def waiting() -> set[str]:
        ids = [passage.id for passage in store.documents.passages(memory_ids=[1])]
        return {passage.hash for passage in store.documents.passages(ids) if not passage.has_vector}

    assert waiting() == {sha("one"), sha("two"), sha("three")}
    store.vectors.use_model("m", 2, "w")
    store.vectors.put({sha("one"): (vector(1, 0), None)})
    assert waiting() == {sha("two"), sha("three")}
    assert [p.has_vector for p in store.documents.passages(memory_ids=[1])] == [True, False, False]
    store.vectors.use_model("another", 2, "w")
    assert waiting() == {sha("one"), sha("two"), sha("three")}


def test_token_states_are_read_in_bulk(store: Index) -> None:
    store.documents.put(entry(text="one\ntwo\nthree"), BY_USER)
    store.vectors.use_model("m", 2, "w")
    store.vectors.put(
        {sha("one"): (vector(1, 0), b"1"), sha("two"): (vector(0, 1), b"2"), sha("three"): (vector(1, 1), None)}
    )
    ids = {passage.hash: passage.id for passage in store.documents.passages(memory_ids=[1])}
    assert store.vectors.token_states([*ids.values(), 999]) == {ids[sha("one")]: b"1", ids[sha("two")]: b"2"}


def test_retries_come_before_pending_and_end_after_three(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "first"), BY_USER)
    store.documents.put(entry("memory/b.md", "second\nthird"), BY_USER)
    store.vectors.use_model("m", 2, "w")
    store.vectors.failed("too long", [sha("third")])
    assert status(store, 2) is VectorStatus.RETRY
    assert [one.embedded for one in store.vectors.work(10)] == ["third", "second", "first"]
    store.vectors.failed("too long", [sha("third")])
    store.vectors.failed("still too long", [sha("third")])
    assert status(store, 2) is VectorStatus.PENDING
    store.vectors.put({sha("second"): (vector(1, 0), None)})
    assert status(store, 2) is VectorStatus.PARTIAL
    assert [one.embedded for one in store.vectors.work(10)] == ["first"]
    assert store.care.stats().failures == {"still too long": 1}
    for _ in range(3):
        store.vectors.failed("no", [sha("first")])
    assert status(store, 1) is VectorStatus.FAILED
    assert len(store.documents.match(["first"], Filter(), 5)) == 1, "text is found all the same"
    store.care.repair(BY_USER)
    assert [one.embedded for one in store.vectors.work(10)] == ["third", "first"]  # the newest first


def test_another_model_starts_all_over(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    embed_all(store, dimensions=3)
    assert len(store.vectors.match([1.0, 0, 0], Filter(), 9)) == 2
    store.vectors.use_model("other", 2, "w")
    assert status(store) is VectorStatus.PENDING
    assert store.vectors.match([1.0, 0], Filter(), 9) == []
    assert len(store.vectors.work(9)) == 2
    with pytest.raises(BadParameter, match="3 dimensions"):
        store.vectors.put({store.vectors.work(1)[0].passage_hash: (vector(1, 2, 3), None)})


def test_the_same_model_again_changes_nothing(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    embed_all(store)
    generation = store.generation()
    store.vectors.use_model("test-model", 3, "weights")
    assert (store.generation(), status(store)) == (generation, VectorStatus.SUCCESS)


def test_other_weights_are_another_model(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    embed_all(store)
    store.vectors.use_model("test-model", 3, "other weights")
    assert status(store) is VectorStatus.PENDING


def test_vectors_of_a_model_that_was_replaced_meanwhile_are_refused(factory: Factory) -> None:
    one, two = factory("index"), factory("index")
    one.documents.put(entry(text="words"), BY_USER)
    one.vectors.use_model("first", 2, "w")
    two.vectors.use_model("second", 2, "w")
    with pytest.raises(DatabaseUnusable, match="second"):
        one.vectors.put({sha("words"): (vector(1, 0), None)})
    assert one.vectors.work(5) != []


def test_vectors_of_words_that_are_gone_wait_for_them_to_come_back(store: Index) -> None:
    store.documents.put(entry(text="one\ntwo"), BY_USER)
    embed_all(store)
    store.documents.put(entry(text="one\nthree"), BY_USER)
    assert [one.embedded for one in store.vectors.work(9)] == ["three"]
    assert store.care.check()["vectors"] == []
    store.documents.put(entry(text="one\ntwo"), BY_USER)  # the branch is switched back
    assert store.vectors.work(9) == []
    assert status(store) is VectorStatus.SUCCESS


def test_an_empty_document_needs_no_vector(store: Index) -> None:
    store.documents.put(entry(text="", fingerprint=""), BY_USER)
    assert status(store) is VectorStatus.SUCCESS


def test_a_vector_for_words_that_are_gone_by_now_leaves_nothing_behind(store: Index) -> None:
    """Its file changed while it was embedded, perhaps by another process."""
    store.vectors.use_model("test-model", 3, "weights")
    store.documents.put(entry("memory/a.md", "first words"), BY_USER)
    (work,) = store.vectors.work(10)
    store.documents.put(entry("memory/a.md", "other words altogether"), BY_USER)
    store.vectors.put({work.passage_hash: (struct.pack("<3f", 1, 1, 1), None)})
    assert all(found == [] for found in store.care.check().values())
    assert [one.passage_hash for one in store.vectors.work(10)] != [work.passage_hash]


# --- what is said about memories


def test_why_nothing_can_be_embedded_is_known_to_every_handle(factory: Factory) -> None:
    one, two = factory("same"), factory("same")
    one.documents.put(entry(), BY_USER)
    assert two.care.stats().provider_failure is None
    one.vectors.failed("E004 refused")
    assert two.care.stats().provider_failure == "E004 refused"
    generation = two.generation()
    one.vectors.failed("E004 refused")
    assert two.generation() == generation, "what did not change is not written"
    one.vectors.failed(None)
    assert two.care.stats().provider_failure is None
    assert two.care.stats().failures == {}


def test_remarks_tell_of_slips_loose_links_and_failed_passages(store: Index) -> None:
    store.vectors.use_model("m", 3, "w")
    store.documents.put(entry("memory/a.md", links=[LinkClaim(Relation.CAUSED, "Nobody", True)]), BY_USER)
    store.documents.put(entry("memory/b.md", "other words"), BY_USER)
    assert [(one.memory_id, one.kind) for one in store.care.remarks()] == [(1, "link")]
    assert "caused_by 'Nobody'" in store.care.remarks()[0].message
    work = [one for one in store.vectors.work(9) if one.memory_id == 2]
    store.vectors.failed("E001 odd", [one.passage_hash for one in work])
    assert [one.kind for one in store.care.remarks([2])] == ["vector"]
    assert "E001 odd" in store.care.remarks([2])[0].message
    assert store.care.remarks([1, 2], limit=1) == store.care.remarks([1])
    hidden = store.within(Scope(prefixes=("memory/b.md",)))
    assert [one.memory_id for one in hidden.care.remarks()] == [2]
    store.documents.put(entry("memory/n.md", "more words", title="Nobody"), BY_USER)
    assert store.care.remarks([1]) == []


def test_vectors_of_the_same_name_say_what_differs(factory: Factory) -> None:
    one, two = factory("same"), factory("same")
    one.documents.put(entry(), BY_USER)
    for model, said in (
        (("m", 4, "w"), "vectors of m with 4 dimensions, not with 3"),
        (("m", 3, "other"), "vectors of m from another address or with other weights"),
        (("n", 3, "w"), "vectors of n, not of m"),
    ):
        one.vectors.use_model("m", 3, "w")
        two.vectors.use_model(*model)
        with pytest.raises(DatabaseUnusable, match=said):
            one.vectors.put({"x": (b"\0" * 12, None)})


def test_vectors_that_nothing_needs_do_not_grow_without_end(store: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spec_kit_memory.index.sql.passage_rows.SPARE_VECTORS", 3)
    for number in range(20):
        result = store.documents.put(entry(text=f"words number {number}"), BY_USER)
        embed_all(store)
    store.documents.scanned(cited={result.memory_id: Citations("body")})
    texts = ["words number 19", *(f"words number {number}" for number in range(18, -1, -1))]
    kept = []
    for text in texts:
        store.documents.put(entry(text=text), BY_USER)
        kept.append(not store.vectors.work(9))
    assert kept == [True] * 4 + [False] * 16  # the newest ones, and those in use
