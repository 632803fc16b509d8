"""The score and the order of results."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import ranking
from spec_kit_memory.core.memory import Attributes, Memory, Presence, Source, Tier, VectorStatus
from spec_kit_memory.core.ranking import MemoryFactors, Scored
from spec_kit_memory.settings import Weights

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WEIGHTS = Weights()
UNIT = st.floats(0, 1)
USE = st.floats(0, 0.4)
TIERS = st.sampled_from(Tier)


@st.composite
def shared(draw: st.DrawFn, best: float = 1.0) -> MemoryFactors:
    return MemoryFactors(
        tier=draw(TIERS),
        recency=draw(UNIT),
        keywords=draw(UNIT),
        usage=draw(USE),
        best_relevance=best,
        closeness=draw(st.sampled_from((1, ranking.CLOSENESS))),
    )


def memory(id: int, *, created_at: datetime | None = NOW) -> Memory:
    return Memory(
        id=id,
        path=f"memory/{id}.md",
        source=Source.MEMORY,
        spec_folder=None,
        attributes=Attributes(title=f"Memory {id}", created_at=created_at),
        presence=Presence.LIVE,
        fingerprint="",
        content_hash="",
        first_indexed_at=NOW,
        updated_at=NOW,
        vector_status=VectorStatus.SUCCESS,
    )


def test_the_score_is_the_documented_formula() -> None:
    scored = ranking.score(0.8, MemoryFactors(tier=Tier.CRITICAL, recency=0.5, keywords=0.5), WEIGHTS)
    assert scored.score == pytest.approx((0.8 * 0.40 + 0.8 * (2 / 3 * 0.25 + 0.5 * 0.20 + 0.5 * 0.15)) * 100)


def test_the_best_candidate_gets_its_importance_in_full() -> None:
    scored = ranking.score(0.5, MemoryFactors(tier=Tier.CONSTITUTIONAL, keywords=1.0, best_relevance=0.5), WEIGHTS)
    assert scored.score == pytest.approx(20 + 25 + 20 + 15)


def test_use_adds_a_share_of_the_score() -> None:
    plain = ranking.score(0.5, MemoryFactors(tier=Tier.NORMAL), WEIGHTS)
    used = ranking.score(0.5, MemoryFactors(tier=Tier.NORMAL, usage=0.2), WEIGHTS)
    assert used.score == pytest.approx(plain.score * 1.2)


def test_use_cannot_lift_a_score_over_a_hundred() -> None:
    scored = ranking.score(1.0, MemoryFactors(tier=Tier.CONSTITUTIONAL, keywords=1.0, usage=0.4), WEIGHTS)
    assert scored.score == 100.0
    assert scored.by_limit == pytest.approx(-40)


def test_nothing_relevant_scores_nothing() -> None:
    shared = MemoryFactors(tier=Tier.CONSTITUTIONAL, keywords=1.0, usage=0.4)
    assert ranking.score(0.0, shared, WEIGHTS).score == 0.0
    assert ranking.score(0.0, shared._replace(best_relevance=0.0), WEIGHTS).score == 0.0


@given(relevance=UNIT, shared=shared())
def test_the_parts_of_a_score_add_up_to_it(relevance: float, shared: MemoryFactors) -> None:
    scored = ranking.score(relevance, shared, WEIGHTS, parts={"text": relevance})
    parts = (scored.by_relevance, scored.by_tier, scored.by_recency, scored.by_keywords, scored.by_usage)
    assert scored.stages == {"text": relevance}
    assert sum(parts) + scored.by_limit == pytest.approx(scored.score, abs=1e-9)
    assert 0.0 <= scored.score <= 100.0


@given(relevance=UNIT, shared=shared(), more=UNIT)
def test_more_of_any_part_never_lowers_the_score(relevance: float, shared: MemoryFactors, more: float) -> None:
    score = ranking.score(relevance, shared, WEIGHTS).score
    assert ranking.score(min(1.0, relevance + more), shared, WEIGHTS).score >= score
    for better in (
        shared._replace(tier=Tier.CONSTITUTIONAL),
        shared._replace(recency=max(shared.recency, more)),
        shared._replace(keywords=max(shared.keywords, more)),
        shared._replace(usage=max(shared.usage, 0.4 * more)),
    ):
        assert ranking.score(relevance, better, WEIGHTS).score >= score


@given(relevance=UNIT, other=UNIT, humble=shared(), grand=shared())
def test_importance_never_lifts_what_is_not_relevant(
    relevance: float, other: float, humble: MemoryFactors, grand: MemoryFactors
) -> None:
    # All a memory can get from importance and use is 1.4 times its relevance; relevance alone is worth 0.4.
    low, high = sorted((relevance, other))
    if low * 1.4 < high * 0.4:
        assert ranking.score(low, grand, WEIGHTS).score < ranking.score(high, humble, WEIGHTS).score


@pytest.mark.parametrize("best", [0.1, 0.5, 1.0])
def test_importance_and_age_break_ties_and_no_more(best: float) -> None:
    old, new = MemoryFactors(tier=Tier.NORMAL, recency=0.1), MemoryFactors(tier=Tier.CRITICAL)

    def scored(share: float, shared: MemoryFactors) -> float:
        shared = shared._replace(best_relevance=best, closeness=ranking.CLOSENESS)
        return ranking.score(share * best, shared, WEIGHTS).score

    assert scored(0.8, new) < scored(1.0, old) < scored(1.0, new)
    assert scored(0.4, new) < scored(0.5, old) < scored(0.5, new)


def test_of_equal_scores_the_newer_document_comes_first_then_the_smaller_id() -> None:
    old, new, other = memory(1, created_at=NOW - timedelta(days=9)), memory(3), memory(2)
    undated = memory(4, created_at=None)
    equal, better = Scored(50.0, 0.5), Scored(51.0, 0.1)
    entries = [(equal, old), (equal, new), (equal, other), (equal, undated), (better, old)]
    ordered = sorted(entries, key=lambda entry: ranking.sort_key(entry[0].score, entry[1]))
    assert [(scored.score, each.id) for scored, each in ordered] == [
        (51.0, 1),
        (50.0, 2),
        (50.0, 3),
        (50.0, 4),
        (50.0, 1),
    ]


def place(ids: list[int], successors: dict[int, list[int]]) -> list[int]:
    return ranking.below_successors(ids, lambda item: item, lambda item: successors.get(item, []))


def test_a_successor_takes_the_place_of_what_it_supersedes() -> None:
    assert place([1, 2, 3, 4], {1: [3]}) == [3, 1, 2, 4]


def test_what_already_stands_below_stays_where_it_is() -> None:
    assert place([1, 2, 3, 4], {4: [1]}) == [1, 2, 3, 4]


def test_a_chain_of_successors_stands_newest_first() -> None:
    assert place([1, 2, 3], {1: [2], 2: [3]}) == [3, 2, 1]


def test_a_successor_that_was_not_found_changes_nothing() -> None:
    assert place([1, 2], {1: [99]}) == [1, 2]


def test_two_memories_that_supersede_each_other_both_stand_once() -> None:
    assert sorted(place([1, 2, 3], {1: [2], 2: [1], 3: [3]})) == [1, 2, 3]


def test_a_very_long_chain_is_no_problem() -> None:
    ids = list(range(3000))
    assert place(ids, {item: [item + 1] for item in ids}) == ids[::-1]


@given(
    ids=st.lists(st.integers(0, 20), unique=True, max_size=15),
    pairs=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=20),
)
def test_no_result_is_lost_and_none_stands_above_its_successor(ids: list[int], pairs: list[tuple[int, int]]) -> None:
    # Newer ones have greater ids, so that there are no circles.
    successors: dict[int, list[int]] = {}
    for one, other in pairs:
        if one != other:
            successors.setdefault(min(one, other), []).append(max(one, other))
    placed = place(ids, successors)
    assert sorted(placed) == sorted(ids)
    for old, newer in successors.items():
        for item in newer:
            if old in placed and item in placed:
                assert placed.index(item) < placed.index(old)


def test_keywords_are_looked_for_in_title_phrases_and_anchors() -> None:
    attributes = Attributes(title="OAuth callback flow", triggers=("token refresh", "session policies"))
    keywords = ("oauth", "tokens", "policy", "decisions", "banana")
    assert ranking.KeywordShare(keywords).of(attributes, ["decision-oauth-007"]) == pytest.approx(4 / 5)
    assert ranking.KeywordShare(keywords).of(attributes) == pytest.approx(3 / 5)


def test_anchors_count_together_and_each_once() -> None:
    titled = Attributes(title="Rollback")
    assert ranking.KeywordShare(("rollback", "deploy", "night")).of(titled, ["deploy", "night", "deploy"]) == 1.0
    assert ranking.KeywordShare(("rollback", "deploy")).of(titled, ["other"]) == pytest.approx(1 / 2)


def test_a_keyword_is_a_whole_word() -> None:
    assert ranking.KeywordShare(("old",)).of(Attributes(title="Threshold and scaffolding")) == 0.0


def test_a_keyword_without_spaces_is_found_inside_a_title() -> None:
    assert ranking.KeywordShare(("数据库",)).of(Attributes(title="选择数据库的理由")) == 1.0


def test_parts_of_names_count_as_keywords() -> None:
    assert ranking.KeywordShare(("budget",)).of(Attributes(title="rerankBudget and rerank_depth")) == 1.0


def test_no_keywords_are_no_share() -> None:
    assert ranking.KeywordShare(()).of(Attributes(title="anything")) == 0.0
