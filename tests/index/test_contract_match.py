"""Are the right passages found, within every filter, whatever the query?"""

from __future__ import annotations

import itertools
import math
import threading
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_kit_memory.core import words
from spec_kit_memory.core.memory import (
    ContextType,
    Filter,
    Memory,
    Presence,
    Scope,
    Source,
    StateBounds,
    Tier,
)
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index
from tests.index.conftest import Factory
from tests.index.material import BY_USER, NOON, change, embed_all, entry, sha, vector

# --- text


def test_rarer_words_weigh_more_and_more_occurrences_too(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "cache cache cache"), BY_USER)
    store.documents.put(entry("memory/b.md", "cache other words"), BY_USER)
    store.documents.put(entry("memory/c.md", "cache rare words"), BY_USER)
    hits = store.documents.match(["cache", "rare"], Filter(), 10)
    assert [hit.memory_id for hit in hits] == [3, 1, 2]
    assert hits[0].score > hits[1].score > hits[2].score > 0


def test_scores_are_those_of_bm25_as_a_share_of_a_full_match(store: Index) -> None:
    texts = ["red green blue", "red red yellow purple orange pink", "green"]
    for number, text in enumerate(texts):
        store.documents.put(entry(f"memory/{number}.md", text, title="x"), BY_USER)
    lengths = [len(text.split()) + 1 for text in texts]
    average = sum(lengths) / 3
    expected = [
        times / (times + 1.2 * (0.25 + 0.75 * length / average))
        for times, length in zip((1, 2), lengths[:2], strict=True)
    ]
    results = {hit.memory_id: hit.score for hit in store.documents.match(["red"], Filter(), 5)}
    assert results == pytest.approx({1: expected[0], 2: expected[1]}, rel=1e-5)


def test_a_word_that_nothing_has_makes_every_match_a_smaller_share(store: Index) -> None:
    store.documents.put(entry("memory/0.md", "red green", title="x"), BY_USER)
    [alone] = store.documents.match(["red"], Filter(), 5)
    [beside] = store.documents.match(["red", "violet"], Filter(), 5)
    assert 0 < beside.score < alone.score < 1


def test_no_passage_needs_to_have_all_of_a_long_question(store: Index) -> None:
    for number, word in enumerate(["red", "green", "blue", "pink", "grey", "cyan", "lime", "navy", "teal", "rust"]):
        store.documents.put(entry(f"memory/{number}.md", word, title="x"), BY_USER)
    six = [f"unknown{number}" for number in range(6)]
    [few] = store.documents.match(["red", *six[:5]], Filter(), 5)
    [many] = store.documents.match(["red", *six, "unknown6", "unknown7"], Filter(), 5)
    [full] = store.documents.match(["red", *six], Filter(), 5)
    assert many.score == full.score
    assert few.score >= full.score


def test_a_term_with_spaces_is_a_phrase(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "the snake case of python"), BY_USER)
    store.documents.put(entry("memory/b.md", "a case of one snake"), BY_USER)
    assert [hit.memory_id for hit in store.documents.match(["snake case"], Filter(), 5)] == [1]


def test_chinese_is_found_by_a_part_of_it(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "数据库迁移失败"), BY_USER)
    assert [hit.memory_id for hit in store.documents.match(words.for_query("迁移"), Filter(), 5)] == [1]


def test_the_first_of_equals_is_the_older_one_at_any_limit(store: Index) -> None:
    for number in range(6):
        store.documents.put(entry(f"memory/{number}/x.md", "same words", title="t"), BY_USER)
    assert [hit.memory_id for hit in store.documents.match(["same"], Filter(), 4)] == [1, 2, 3, 4]


def test_a_search_sees_every_change_at_once(store: Index) -> None:
    store.documents.put(entry("memory/a.md", "first words"), BY_USER)
    assert len(store.documents.match(["words"], Filter(), 9)) == 1
    store.documents.put(entry("memory/b.md", "second words"), BY_USER)
    assert len(store.documents.match(["words"], Filter(), 9)) == 2
    store.documents.put(entry("memory/a.md", "first replaced"), BY_USER)
    assert [hit.memory_id for hit in store.documents.match(["words"], Filter(), 9)] == [2]
    store.documents.vanish("memory/b.md", BY_USER)
    assert store.documents.match(["words"], Filter(), 9) == []


def test_another_handle_sees_what_the_first_wrote(factory: Factory) -> None:
    one, two = factory("index"), factory("index")
    assert two.documents.match(["words"], Filter(), 9) == []
    generation = two.generation()
    one.documents.put(entry(text="some words"), BY_USER)
    assert two.generation() > generation
    assert len(two.documents.match(["words"], Filter(), 9)) == 1


def test_scores_do_not_depend_on_how_the_index_grew(factory: Factory) -> None:
    """Kept posting lists are extended word by word; a fresh process reads them whole."""
    grown = factory("index")
    for number in range(30):
        grown.documents.put(
            entry(f"memory/{number}/x.md", f"common word{number % 3} extra " * (number % 4 + 1)), BY_USER
        )
        grown.documents.match(["common", "word1", "word1 extra"], Filter(), 5)
    grown.documents.vanish("memory/7/x.md", BY_USER)
    asked = ["common", "word1", "word1 extra"]
    assert grown.documents.match(asked, Filter(), 50) == factory("index").documents.match(asked, Filter(), 50)


NASTY = [
    '"', "'", '"""', "AND", "NOT x", "a OR", "NEAR/3", "NEAR(a b, 3)", "col:x", "title:x", "*", "x*", "^x", "-x", "(",
    ")", "{a b}", "a + b", ";", "--", "%", "\\", "\x00", "a\x00b", "\ud800", "🙂", "🙂🙂 x", "\u202e", "ﷺ", "e\u0301",
    "İ", " ", "", "\n", "x" * 10_000, '"' * 10_000, "' OR 1=1 --", "数据", "ไทย",
    "𝔘𝔫𝔦", "\ufffe",
]  # fmt: skip


@pytest.mark.parametrize("text", NASTY)
def test_no_query_is_an_error(store: Index, text: str) -> None:
    store.documents.put(entry(text="plain words"), BY_USER)
    store.documents.match([text], Filter(), 5)
    store.documents.match([*words.for_query(text), "plain"], Filter(), 5)


_ONE: list[Index] = []


def _shared() -> Index:
    if not _ONE:
        folder = TemporaryDirectory()
        store = open_index(Path(folder.name) / "index.sqlite")
        _ONE.append(store)
        _keep.append(folder)
        store.documents.put(entry("memory/a.md", "plain words 数据库 and more"), BY_USER)
    return _ONE[0]


_keep: list[TemporaryDirectory[str]] = []


@given(st.lists(st.text(st.characters()), max_size=5))
def test_any_terms_are_safe(terms: list[str]) -> None:
    _shared().documents.match(terms, Filter(), 5)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_text_can_be_stored_read_and_asked_for(text: str) -> None:
    store = _shared()
    result = store.documents.put(entry("memory/b.md", text, fingerprint=""), BY_USER)
    assert store.documents.text(result.memory_id) == text
    store.documents.match(words.for_query(text), Filter(), 5)


# --- vectors


def test_nearest_vectors_come_first(store: Index) -> None:
    store.vectors.use_model("m", 2, "w")
    for name, numbers in {"a": (1, 0), "b": (0, 1), "c": (0.6, 0.8)}.items():
        store.documents.put(entry(f"memory/{name}.md", name), BY_USER)
        store.vectors.put({sha(name): (vector(*numbers), None)})
    hits = store.vectors.match([1.0, 0.0], Filter(), 9)
    assert [(hit.memory_id, round(hit.score, 4)) for hit in hits] == [(1, 1.0), (3, 0.6), (2, 0.0)]
    assert [hit.memory_id for hit in store.vectors.match(np.array([0.0, 1.0]), Filter(), 1)] == [2]


def test_passages_with_the_same_words_share_a_vector(store: Index) -> None:
    store.documents.put(entry("memory/a/x.md", "same line\nother"), BY_USER)
    store.documents.put(entry("memory/b/x.md", "same line\nmore"), BY_USER)
    store.vectors.use_model("m", 2, "w")
    work = store.vectors.work(10)
    assert len(work) == 3
    store.vectors.put({sha("same line"): (vector(1, 0), b"st")})
    assert {hit.memory_id for hit in store.vectors.match([1.0, 0.0], Filter(), 9)} == {1, 2}
    store.documents.put(entry("memory/a/x.md", "gone"), BY_USER)
    assert {hit.memory_id for hit in store.vectors.match([1.0, 0.0], Filter(), 9)} == {2}


def test_a_passage_without_a_vector_is_not_matched_by_meaning(store: Index) -> None:
    assert store.vectors.match([1.0], Filter(), 5) == []
    store.documents.put(entry(), BY_USER)
    store.vectors.use_model("m", 2, "w")
    assert store.vectors.match([1.0, 0.0], Filter(), 5) == []


def test_a_query_of_another_model_is_refused(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    embed_all(store, dimensions=3)
    with pytest.raises(BadParameter, match="4 dimensions"):
        store.vectors.match([1.0, 0, 0, 0], Filter(), 5)


# --- filters, in both legs and in lists


def passes(memory: Memory, where: Filter, *, scope: Scope | None = None) -> bool:
    """A plain reading of what Filter and Scope say."""
    flagged = memory.archived_folder or memory.outdated
    used = max(memory.first_indexed_at, memory.last_access or memory.first_indexed_at).timestamp()
    folder = memory.spec_folder or ""
    states = where.states
    return all(
        (
            memory.presence is Presence.LIVE,
            where.spec_folder is None or memory.spec_folder == where.spec_folder,
            not where.unfiled or memory.spec_folder is None,
            where.folder_prefix is None
            or folder == where.folder_prefix
            or folder.startswith(f"{where.folder_prefix}/"),
            where.tiers is None or memory.tier in where.tiers,
            where.context_type is None or memory.attributes.context_type is where.context_type,
            where.source is None or memory.source is where.source,
            where.ids is None or memory.id in where.ids,
            states is None
            or memory.id in states.always
            or (flagged and states.flagged)
            or (
                not flagged
                and memory.tier in states.used
                and states.used[memory.tier][0] <= used < states.used[memory.tier][1]
            ),
            where.expired_at is None
            or memory.attributes.expires_at is None
            or memory.attributes.expires_at.timestamp() > where.expired_at,
            scope is None
            or (
                memory.owner in (None, scope.user)
                and memory.project in (None, scope.project)
                and (
                    scope.prefixes is None
                    or any(memory.path == p or memory.path.startswith(f"{p}/") for p in scope.prefixes)
                )
            ),
        )
    )


def population(store: Index) -> None:
    """Memories that differ in everything a filter looks at."""
    folders = [None, "001-a", "001-a/002-b", "001-ab"]
    owners = [None, "ann"]
    kinds = itertools.product(folders, [Tier.NORMAL, Tier.CRITICAL, Tier.TEMPORARY], owners, range(2))
    for number, (folder, tier, owner, odd) in enumerate(kinds):
        base = f"specs/{folder}/memory" if folder else "memory/a" if odd else "memory/ab"
        store.documents.put(
            entry(
                f"{base}/{number}.md",
                f"common unique{number}",
                spec_folder=folder,
                tier=tier,
                source=Source.SPEC if odd else Source.MEMORY,
                owner=owner,
                project="p" if number % 5 == 0 else None,
                archived_folder=number % 7 == 0,
                attributes={
                    "context_type": ContextType.DECISION if number % 3 == 0 else ContextType.GENERAL,
                    "expires_at": NOON + timedelta(days=number % 4) if number % 2 else None,
                },
            ),
            change(minutes=60 * 24 * (number % 6)),
        )
    store.record.amend(2, BY_USER, outdated=True)
    store.record.use({3: 1.0, 9: 1.0, 14: 1.0}, NOON + timedelta(days=4))
    store.documents.vanish("memory/a/1.md", BY_USER)
    embed_all(store)


_seconds = st.integers(-2, 8).map(lambda days: (NOON + timedelta(days=days)).timestamp())
_bounds = st.builds(
    StateBounds,
    used=st.dictionaries(st.sampled_from(Tier), st.tuples(_seconds, _seconds | st.just(math.inf)), max_size=4),
    flagged=st.booleans(),
    always=st.frozensets(st.integers(1, 50), max_size=3),
)
_filters = st.builds(
    Filter,
    spec_folder=st.none() | st.sampled_from(["001-a", "001-a/002-b", "nowhere"]),
    folder_prefix=st.none() | st.sampled_from(["001-a", "001", "nowhere"]),
    unfiled=st.booleans(),
    tiers=st.none() | st.frozensets(st.sampled_from(Tier)),
    context_type=st.none() | st.sampled_from(ContextType),
    source=st.none() | st.sampled_from(Source),
    ids=st.none() | st.frozensets(st.integers(1, 50), max_size=12),
    states=st.none() | _bounds,
    expired_at=st.none() | _seconds,
)
_scopes = st.none() | st.builds(
    Scope,
    user=st.sampled_from([None, "ann", "bob"]),
    project=st.sampled_from([None, "p"]),
    prefixes=st.none()
    | st.lists(st.sampled_from(["memory/a", "specs", "specs/001-a", "memory"]), max_size=2).map(tuple),
)


@pytest.fixture
def populated(factory: Factory) -> Index:
    store = factory("index")
    population(store)
    return store


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(where=_filters, scope=_scopes)
def test_every_filter_and_scope_means_the_same_everywhere(populated: Index, where: Filter, scope: Scope | None) -> None:
    everything = [populated.documents.get(memory_id, any_presence=True) for memory_id in range(1, 49)]
    expected = {memory.id for memory in everything if passes(memory, where, scope=scope)}
    view = populated if scope is None else populated.within(scope)
    assert {memory.id for memory in view.documents.find(where)} == expected
    assert view.documents.count(where) == len(expected)
    assert {hit.memory_id for hit in view.documents.match(["common"], where, 1000)} == expected
    assert {hit.memory_id for hit in view.vectors.match([1.0, 1.0, 1.0], where, 1000)} == expected


def test_filters_hold_before_the_limit(store: Index) -> None:
    for number in range(60):
        folder = "002-rare" if number == 59 else "001-common"
        store.documents.put(
            entry(f"specs/{folder}/memory/{number}.md", f"topic {'topic ' * (60 - number)}", spec_folder=folder),
            BY_USER,
        )
    embed_all(store)
    where = Filter(spec_folder="002-rare")
    assert [hit.memory_id for hit in store.documents.match(["topic"], where, 1)] == [60]
    assert [hit.memory_id for hit in store.vectors.match([1.0, 0, 0], where, 1)] == [60]


def test_use_reaches_the_state_filter_without_a_new_generation(store: Index) -> None:
    store.documents.put(entry(), BY_USER)
    recent = Filter(states=StateBounds(used={Tier.NORMAL: ((NOON + timedelta(days=1)).timestamp(), math.inf)}))
    assert store.documents.match(["fox"], recent, 5) == []
    generation = store.generation()
    store.record.use({1: 1.0}, NOON + timedelta(days=2))
    assert len(store.documents.match(["fox"], recent, 5)) == 1
    assert store.generation() == generation


# --- lists


def test_lists_are_ordered_and_paged(store: Index) -> None:
    for number, days in enumerate([3, 1, 2]):
        given_at = NOON + timedelta(days=days)
        store.documents.put(
            entry(f"memory/{number}.md", f"text {number}", created_at=given_at, attributes={"weight": days / 10}),
            change(minutes=number),
        )
    store.documents.put(entry("memory/9.md", "no date", created_at=None), change(minutes=9))
    assert [m.id for m in store.documents.find()] == [1, 3, 2, 4]
    assert [m.id for m in store.documents.find(order="updated_at")] == [4, 3, 2, 1]
    assert [m.id for m in store.documents.find(order="importance_weight")] == [4, 1, 3, 2]
    assert [m.id for m in store.documents.find(order="path", limit=2, offset=1)] == [2, 3]
    with pytest.raises(BadParameter, match="size"):
        store.documents.find(order="size")


def test_many_keeps_the_order_and_leaves_out_what_is_not_there(store: Index) -> None:
    for name in "abc":
        store.documents.put(entry(f"memory/{name}.md", name), BY_USER)
    assert [memory.id for memory in store.documents.many([3, 99, 1])] == [3, 1]
    ids = [hit.passage_id for hit in store.documents.match(["c"], Filter(), 5)]
    assert [passage.memory_id for passage in store.documents.passages([*ids, 999])] == [3]


def test_a_warmed_store_answers_as_a_cold_one(factory: Factory) -> None:
    store = factory("index")
    store.warm()
    population(store)
    cold, warm = factory("index"), factory("index")
    warm.warm()
    for terms in (["common"], ["unique3", "common"]):
        assert warm.documents.match(terms, Filter(), 50) == cold.documents.match(terms, Filter(), 50)
    assert warm.vectors.match([1.0, 0, 0], Filter(), 50) == cold.vectors.match([1.0, 0, 0], Filter(), 50)


def test_one_scope_is_not_rated_by_what_another_one_holds(store: Index) -> None:
    """The same question, first by somebody who sees more: how rare a word is depends on who asks."""
    for number in range(6):
        store.documents.put(entry(f"memory/{number}.md", "red apple"), BY_USER)
    store.documents.put(entry("other/9.md", "red pear green"), BY_USER)
    inside = Scope(prefixes=("other",))
    alone = [hit.score for hit in store.within(inside).documents.match(["red", "pear"], Filter(), 5)]
    store.documents.match(["red", "pear"], Filter(), 5)
    again = [hit.score for hit in store.within(inside).documents.match(["red", "pear"], Filter(), 5)]
    everybody = [hit.score for hit in store.documents.match(["red", "pear"], Filter(), 5) if hit.memory_id == 7]
    assert again == alone
    assert everybody != alone


def test_in_a_frozen_block_matches_and_the_rows_that_they_lead_to_are_of_one_state(store: Index) -> None:
    memory_id = store.documents.put(entry(text="alpha"), BY_USER).memory_id
    store.warm()
    with store.steady(), store.frozen():
        writer = threading.Thread(target=lambda: store.documents.put(entry(text="omega"), change(minutes=1)))
        writer.start()
        writer.join()
        hits = store.documents.match(["alpha"], Filter(), 20)
        assert [passage.memory_id for passage in store.documents.passages([hit.passage_id for hit in hits])] == [
            memory_id
        ]
        assert store.documents.match(["omega"], Filter(), 20) == []
    assert store.documents.match(["alpha"], Filter(), 20) == []
    assert [hit.memory_id for hit in store.documents.match(["omega"], Filter(), 20)] == [memory_id]
