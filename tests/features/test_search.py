from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_kit_memory.answers import FlatResult, Result, SearchAnswer
from spec_kit_memory.core.memory import Relation, State, Tier
from spec_kit_memory.embed import Embedding, QueryEmbedding
from spec_kit_memory.embed.hashing import HashingEmbedder
from spec_kit_memory.errors import NothingToSearch, OutOfRange, SpecKitMemoryError
from spec_kit_memory.settings import Decay, Search, Settings
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Clock, Place

TOKENS = "# Login tokens\n\nAccess tokens live fifteen minutes and are signed with an Ed25519 key."
BROKER = "# Broker\n\nThe message broker is Mosquitto, and commands are never retained."
LUNCH = "# Lunch\n\nThe canteen has soup on Thursdays."


def titles(answer: SearchAnswer) -> list[str]:
    return [result.title for result in answer.results]


def first(answer: SearchAnswer) -> Result:
    result = answer.results[0]
    assert isinstance(result, Result)
    return result


def test_a_question_finds_the_memory_that_answers_it(place: Place) -> None:
    for name, text in (("tokens", TOKENS), ("broker", BROKER), ("lunch", LUNCH)):
        place.memory(name, text)
    answer = place.open().search("how long do access tokens live")
    assert titles(answer)[0] == "Login tokens"
    assert answer.method == "hybrid"
    assert answer.stats == {"totalFiles": 3, "totalChunks": 3}
    assert "fifteen minutes" in first(answer).text


def test_the_shown_lines_are_the_lines_of_the_file(place: Place) -> None:
    place.memory("tokens", "# Title\n\nIntroduction.\n\n## Tokens\n\nTokens live fifteen minutes.", title="Front")
    workspace = place.open()
    result = first(workspace.search("tokens live fifteen minutes"))
    read = workspace.get(result.path, lines=result.lines)
    assert read.text == result.text
    file = (place.root / result.path).read_text(encoding="utf-8").split("\n")
    start, end = map(int, result.lines.split("-"))
    assert "\n".join(file[start - 1 : end]) == result.text


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": "  "}, {"concepts": []}])
def test_a_search_for_nothing_says_what_it_needs(place: Place, arguments: dict[str, object]) -> None:
    with pytest.raises(NothingToSearch) as raised:
        place.open().search(**arguments)  # type: ignore[arg-type]
    assert raised.value.code == "E040"


def test_one_concept_is_refused_with_the_right_number(place: Place) -> None:
    with pytest.raises(OutOfRange):
        place.open().search(concepts=["one"])


# --- filters hold before any limit ------------------------------------------------


def test_a_folder_filter_finds_its_only_match_behind_many_better_ones(place: Place) -> None:
    for number in range(60):
        place.memory(f"n{number}", f"# Rate limit {number}\n\nThe rate limit of the gateway is number {number}.")
    place.memory("far", "# Elsewhere\n\nA gateway is mentioned once.", folder="002-other")
    answer = place.open().search("rate limit of the gateway", spec_folder="002-other", limit=5)
    assert titles(answer) == ["Elsewhere"]


def test_a_tier_filter_finds_its_only_match_behind_many_better_ones(place: Place) -> None:
    for number in range(60):
        place.memory(f"n{number}", f"# Rate limit {number}\n\nThe rate limit of the gateway is number {number}.")
    place.memory("far", "# Rare\n\nA gateway is mentioned once.", importance_tier="critical")
    answer = place.open().search("rate limit of the gateway", tier="critical")
    assert titles(answer) == ["Rare"]


@pytest.mark.parametrize("mode", ["text", "vector", "hybrid"])
def test_deprecated_and_expired_memories_leak_through_no_leg(place: Place, mode: str) -> None:
    place.memory("old", TOKENS.replace("Login", "Old"), importance_tier="deprecated")
    place.memory("gone", TOKENS.replace("Login", "Gone"), expires="2026-01-01")
    place.memory("new", TOKENS)
    workspace = place.open()
    answer = workspace.search("access tokens live fifteen minutes", mode=mode)
    assert titles(answer) == ["Login tokens"]
    assert answer.held_back.expired == 1
    assert [row["title"] for row in answer.held_back.best] == ["Gone tokens"]


def test_deprecated_memories_come_when_asked_for_and_can_be_loaded(place: Place) -> None:
    place.memory("old", TOKENS, importance_tier="deprecated")
    workspace = place.open()
    answer = workspace.search("tokens", tier="deprecated")
    assert titles(answer) == ["Login tokens"]
    assert "Ed25519" in workspace.load(first(answer).id).text


# --- query text is data --------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "'",
        "a AND",
        "NEAR/3",
        "tok* OR -x",
        "(",
        ":::",
        "🙂",
        "tokens\0live",
        "a" * 10_000,
        '"' * 10_000,
        "^$",
        "{}",
    ],
)
def test_no_query_text_is_a_syntax_error(place: Place, query: str) -> None:
    place.memory("tokens", TOKENS)
    place.open().search(query)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(min_size=1, max_size=200).filter(lambda text: text.replace("\x00", " ").strip()))
def test_any_text_is_a_safe_query(place: Place, query: str) -> None:
    if not place.opened:
        place.memory("tokens", TOKENS)
        place.open()
    assert place.opened[0].search(query).query == query


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("数据库的连接池大小是二十", "连接池"),
        ("データベースの接続プールは二十です", "接続プール"),
        ("ขนาดของกลุ่มการเชื่อมต่อคือยี่สิบ", "การเชื่อมต่อ"),
        ("Размер пула соединений равен двадцати", "пула соединений"),
        ("حجم تجمع الاتصالات عشرون", "تجمع الاتصالات"),
    ],
)
def test_text_in_other_scripts_is_found_by_its_own_words(place: Place, text: str, query: str) -> None:
    place.memory("other", f"# X\n\n{text}")
    place.memory("tokens", TOKENS)
    assert titles(place.open(model="none").search(query)) == ["X"]


# --- without meaning --------------------------------------------------------------------


def test_without_a_model_text_triggers_and_rules_still_work(place: Place) -> None:
    place.memory("tokens", TOKENS, triggers="[login tokens]")
    place.write("constitutional/rule.md", "# Be kind\n\nAlways.\n")
    workspace = place.open(model="none")
    answer = workspace.search("access tokens")
    assert answer.method == "text"
    assert titles(answer) == ["Login tokens"]
    assert [rule.title for rule in answer.constitutional] == ["Be kind"]
    assert any("switched off" in reason for reason in answer.unavailable)
    assert workspace.triggers("please look at the login tokens").matches[0]["title"] == "Login tokens"


def test_vectors_that_are_still_coming_are_said_and_text_answers(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open(index=False)
    workspace.index(embed=False)
    answer = workspace.search("access tokens")
    assert titles(answer) == ["Login tokens"]
    assert any("not embedded yet" in reason for reason in answer.unavailable)
    workspace.index()
    assert not workspace.search("access tokens").unavailable


class Stateless(HashingEmbedder):
    """As a remote model: a vector for each text, and nothing of its words."""

    def embed_query(self, text: str) -> QueryEmbedding:
        return QueryEmbedding(super().embed_query(text).vector)

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        return [Embedding(document.vector) for document in super().embed_documents(texts)]


def test_with_a_remote_model_a_memory_that_waits_for_its_vector_is_rated_by_its_text(place: Place) -> None:
    for number in range(3):
        place.memory(f"other{number}", f"# Other {number}\n\nThe harbour has {number} cranes.")
    with Workspace(Settings(root=place.root), embedder=Stateless(), now=place.clock) as workspace:
        workspace.index()
        place.memory("tokens", TOKENS)
        workspace.index(embed=False)
        answer = workspace.search("access tokens Ed25519 key", explain=True)
        assert titles(answer)[0] == "Login tokens"
        stages = answer.results[0].explain["stages"]
        assert stages["vector"] == stages["text"] > 0
        workspace.index()
        assert titles(workspace.search("access tokens Ed25519 key"))[0] == "Login tokens"


class Broken(HashingEmbedder):
    """As somebody else's embedder may be: it fails with what its runtime raises, for some texts or in all."""

    def __init__(self, fails_at: str = "") -> None:
        super().__init__()
        self._fails_at = fails_at

    def embed_query(self, text: str) -> QueryEmbedding:
        raise RuntimeError("no device")

    def embed_documents(self, texts: Sequence[str]) -> list[Embedding]:
        if any(self._fails_at in text for text in texts):
            raise RuntimeError("no device")
        return super().embed_documents(texts)


def test_an_embedder_that_fails_in_its_own_way_leaves_search_by_text_and_the_scan_to_its_end(place: Place) -> None:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    with Workspace(Settings(root=place.root), embedder=Broken("Ed25519"), now=place.clock) as workspace:
        assert workspace.index().vectors == {"success": 1, "retry": 1}
        answer = workspace.search("access tokens")
        assert titles(answer)[0] == "Login tokens"
        assert answer.method == "text"
        assert any("E004" in reason and "no device" in reason for reason in answer.unavailable)
        place.clock.pass_(minutes=1)  # it is asked again
        saved = workspace.save(text="Saved all the same with Ed25519", spec_folder="001-core")
        assert saved.vector_status == "retry"


def test_an_embedder_that_cannot_say_which_model_it_is_leaves_search_by_text(place: Place) -> None:
    class Nameless(HashingEmbedder):
        @property
        def weights_hash(self) -> str:  # type: ignore[override]
            raise KeyError("weights")

    place.memory("tokens", TOKENS)
    place.open().close()
    with Workspace(Settings(root=place.root), embedder=Nameless(), now=place.clock) as workspace:
        assert workspace.index().unchanged == 1
        answer = workspace.search("access tokens")
        assert (titles(answer), answer.method) == (["Login tokens"], "text")
        assert any("E004" in reason for reason in answer.unavailable)


def test_a_lone_text_match_is_never_lost_to_a_threshold(place: Place) -> None:
    place.memory("tokens", TOKENS)
    answer = place.open(model="none").search("Ed25519")
    assert titles(answer) == ["Login tokens"]


# --- score ------------------------------------------------------------------------------


def test_a_better_text_match_scores_higher(place: Place) -> None:
    place.memory("strong", "# One\n\nThe scheduler retries. The scheduler retries thrice. Scheduler retries.")
    place.memory("weak", "# Two\n\nA long note about many things, among them cats, dogs, weather and a scheduler.")
    answer = place.open(model="none").search("scheduler retries")
    assert titles(answer) == ["One", "Two"]
    assert answer.results[0].score > answer.results[1].score


def test_the_parts_of_an_explained_score_add_up(place: Place) -> None:
    place.memory("tokens", TOKENS, importance_tier="critical")
    place.memory("broker", BROKER)
    answer = place.open().search("login tokens", explain=True)
    for result in answer.results:
        parts = {k: v for k, v in result.explain.items() if k not in ("score", "stages")}
        assert sum(parts.values()) == pytest.approx(result.explain["score"], abs=1e-6)
        assert 0 <= result.score <= 100
    assert answer.explain["weights"]["relevance"] == 0.4


def test_importance_reorders_what_is_relevant_and_lifts_nothing_else(place: Place) -> None:
    place.memory("hit", "# Cache\n\nThe cache key has the tenant, the locale and the version of the schema.")
    place.memory("boss", LUNCH, importance_tier="critical")
    answer = place.open().search("what is in the cache key")
    assert titles(answer)[0] == "Cache"


def test_old_memories_fade_and_historical_questions_do_not(place: Place, clock: Clock) -> None:
    place.memory("old", "# Old\n\nThe gateway limit is ten requests.", created="2024-01-01")
    place.memory("new", "# New\n\nThe gateway limit is ten requests now.", created="2026-02-27")
    workspace = place.open()
    asked = workspace.search("gateway limit requests", explain=True)
    assert titles(asked)[0] == "New"
    faded = {result.title: result.explain["recency"] for result in asked.results}
    assert faded["Old"] < 1 < faded["New"]
    for answer in (
        workspace.search("what was originally the gateway limit", explain=True),
        workspace.search("gateway limit requests", use_decay=False, explain=True),
    ):
        parts = {result.title: result.explain["recency"] / result.explain["tier"] for result in answer.results}
        assert parts["Old"] == pytest.approx(parts["New"])
    assert any("decay was left out" in hint for hint in workspace.search("history of the gateway limit").hints)


def test_plain_reciprocal_rank_is_kept_for_those_who_want_it(place: Place) -> None:
    place.memory("tokens", TOKENS)
    place.memory("broker", BROKER)
    workspace = place.open(search=Search(fusion="rrf"))
    result = first(workspace.search("access tokens", explain=True))
    assert result.explain["stages"] == {"text": pytest.approx(0.5), "vector": pytest.approx(0.5)}


# --- superseded, contradicted ------------------------------------------------------------------


def test_a_superseded_memory_stands_below_its_successor_and_says_so(place: Place) -> None:
    place.memory("old", "# Old hold\n\nWe hold fifty euros before a ride. The hold is fifty euros.")
    place.memory("new", "# New hold\n\nThe hold is twenty.")
    workspace = place.open()
    old, new = place.id_of(workspace, "old"), place.id_of(workspace, "new")
    workspace.link(new, old, Relation.SUPERSEDES)
    answer = workspace.search("how many euros do we hold before a ride")
    assert titles(answer) == ["New hold", "Old hold"]
    second = answer.results[1]
    assert isinstance(second, Result)
    assert second.superseded_by == (new,)


def test_a_successor_that_was_moved_up_says_why(place: Place) -> None:
    place.memory("old", "# Old hold\n\nWe hold fifty euros before a ride. The hold is fifty euros.")
    place.memory("new", "# New hold\n\nIt is twenty.")
    place.memory("other", LUNCH)
    workspace = place.open()
    old, new = place.id_of(workspace, "old"), place.id_of(workspace, "new")
    workspace.link(new, old, Relation.SUPERSEDES)
    for how in ({}, {"group_by": "passage"}):
        successor, superseded, *_ = workspace.search("how many euros do we hold before a ride", **how).results  # type: ignore[arg-type]
        assert (successor.id, superseded.id) == (new, old)
        assert successor.score < superseded.score
        assert (successor.supersedes, superseded.superseded_by) == ((old,), (new,))
        assert (successor.superseded_by, superseded.supersedes) == ((), ())


def test_a_successor_says_nothing_of_what_was_not_found(place: Place) -> None:
    place.memory("old", "# Old hold\n\nWe hold fifty euros.", folder="001-core/archive")
    place.memory("new", "# New hold\n\nWe hold twenty euros.")
    workspace = place.open()
    old, new = place.id_of(workspace, "old"), place.id_of(workspace, "new")
    workspace.link(new, old, Relation.SUPERSEDES)
    assert first(workspace.search("how many euros do we hold")).supersedes == ()


def test_contradictions_between_results_are_pointed_out(place: Place) -> None:
    place.memory("a", "# A\n\nRetries are safe for payments.")
    place.memory("b", "# B\n\nRetries are not safe for payments.")
    workspace = place.open()
    a, b = place.id_of(workspace, "a.md"), place.id_of(workspace, "b.md")
    workspace.link(a, b, "contradicts")
    results = {
        r.id: r.contradicts for r in workspace.search("are retries safe for payments").results if isinstance(r, Result)
    }
    assert results == {a: (b,), b: (a,)}


def test_results_that_do_not_fit_the_budget_are_said_to_be_missing(place: Place) -> None:
    for n in range(12):
        place.memory(f"n{n}", f"# Note {n}\n\n" + f"Access tokens of service {n} expire after an hour. " * 20)
    workspace = place.open()
    answer = workspace.search("access tokens", max_tokens=600, session_id="s")
    shown = len(answer.results)
    assert 0 < shown < 10
    assert any(hint.startswith(f"{10 - shown} more did not fit") for hint in answer.hints)
    assert not any("did not fit" in hint for hint in workspace.search("access tokens", limit=shown).hints)


# --- rules on top ------------------------------------------------------------------------------


def test_rules_come_first_whatever_the_folder_and_beside_the_limit(place: Place) -> None:
    place.write("constitutional/kind.md", "# Be kind\n\nAlways be kind.\n")
    place.memory("tokens", TOKENS)
    workspace = place.open()
    answer = workspace.search("access tokens", spec_folder="001-core", limit=1)
    assert [rule.title for rule in answer.constitutional] == ["Be kind"]
    assert titles(answer) == ["Login tokens"]
    without = workspace.search("be kind", include_constitutional=False)
    assert not without.constitutional
    assert "Be kind" not in titles(without)


def test_at_most_three_rules_are_shown_and_triggered_ones_first(place: Place) -> None:
    names = ("Alder", "Birch", "Cedar", "Dogwood", "Elm", "Fir")
    for number, name in enumerate(names):
        place.write(
            f"constitutional/r{number}.md", f"---\ntriggers: [topic {number}]\n---\n# {name}\n\nWater the {name}.\n"
        )
    place.memory("topics", "# Topics\n\nAll about topic 5 is said here.")
    answer = place.open().search("about topic 5")
    shown = [rule for rule in answer.constitutional if rule.text]
    assert len(shown) == 3
    assert shown[0].title == "Fir"
    assert {rule.title for rule in answer.constitutional} == set(names)
    assert titles(answer) == ["Topics"]


def test_rules_never_crowd_out_the_hits(place: Place) -> None:
    place.write("constitutional/long.md", "# Long\n\n" + "Always think of the children and of the long run. " * 300)
    place.memory("tokens", TOKENS)
    answer = place.open().search("access tokens", max_tokens=600)
    assert "fifteen minutes" in first(answer).text


def test_what_goes_without_saying_is_left_out_of_the_json_only(place: Place) -> None:
    from spec_kit_memory.serve import render

    place.memory("tokens", TOKENS)
    place.memory("rule", "---\ntier: critical\n---\n# Keys\n\nAccess keys are rotated monthly.\n")
    answer = place.open().search("access tokens")
    messages = {item["title"]: item for item in render.envelope(answer)["data"]["results"]}
    assert messages["Login tokens"].keys() == {
        *("id", "title", "path", "lines", "text", "score", "source", "specFolder", "createdAt")
    }
    assert first(answer).tier is Tier.NORMAL
    assert messages["Keys"]["tier"] == "critical"


def test_a_small_answer_shows_its_hits_before_it_speaks_of_itself(place: Place) -> None:
    from spec_kit_memory.serve import render

    place.memory("tokens", TOKENS)
    workspace = place.open()
    large = render.envelope(workspace.search("access tokens"))["data"]
    assert {"method", "totalFound", "stats", "freshness", "query"} <= large.keys()
    silent = []
    for budget in range(40, 200, 5):
        small = render.envelope(workspace.search("access tokens", max_tokens=budget))
        assert small["meta"]["tokens"] <= budget
        assert small["data"]["results"], "a hit is named before anything else is said"
        shown = small["data"]["results"][0]["text"] == large["results"][0]["text"]
        silent.append(shown and "stats" not in small["data"])
    assert any(silent)


# --- budget, sessions, cache ---------------------------------------------------------------------


def test_an_answer_stays_within_its_budget_and_keeps_later_hits(place: Place) -> None:
    from spec_kit_memory.serve import render

    for number in range(12):
        place.memory(
            f"n{number}", f"# Note {number}\n\n" + f"The gateway limit number {number} is discussed here. " * 30
        )
    workspace = place.open()
    for budget in (300, 600, 1500, 4000):
        answer = workspace.search("gateway limit", max_tokens=budget)
        assert render.envelope(answer)["meta"]["tokens"] <= budget
    assert len([result for result in answer.results if result.text]) > 3


def test_being_listed_makes_hot_for_that_session_only(place: Place, clock: Clock) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    clock.pass_(days=20)
    workspace.search("access tokens", session_id="s")
    assert first(workspace.search("access tokens", session_id="s")).state is State.HOT
    assert first(workspace.search("access tokens", session_id="t")).state is State.COLD
    assert workspace.list().memories[0].access_count == 0


def test_a_repeated_search_comes_from_the_cache_until_anything_changes(place: Place) -> None:
    path = place.memory("tokens", TOKENS)
    workspace, other = place.open(), place.open(index=False)
    assert not workspace.search("access tokens").meta.cache_hit
    assert workspace.search("access tokens").meta.cache_hit
    assert not workspace.search("access tokens", limit=3).meta.cache_hit
    path.write_text("# Changed\n\nAccess tokens live an hour.\n", encoding="utf-8")
    other.index()
    changed = workspace.search("access tokens")
    assert not changed.meta.cache_hit
    assert titles(changed) == ["Changed"]


def test_access_counts_do_not_make_the_cache_stale(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    workspace.search("access tokens")
    for _ in range(10):
        workspace.load(1)
    assert workspace.search("access tokens").meta.cache_hit


# --- shapes ----------------------------------------------------------------------------------------


def test_concepts_must_all_match_and_are_counted(place: Place) -> None:
    place.memory("both", "# Both\n\nOAuth errors: an OAuth callback may fail with errors. Errors happen.")
    place.memory("one", "# One\n\nOAuth only.")
    answer = place.open(model="none").search(concepts=["oauth", "errors"])
    assert titles(answer) == ["Both"]
    assert first(answer).concepts == {"oauth": 2, "errors": 3}


def test_only_the_asked_anchors_are_returned_and_missing_ones_named(place: Place) -> None:
    place.memory(
        "s",
        "# S\n\n<!-- ANCHOR:summary -->\nThe gateway is fast.\n<!-- /ANCHOR:summary -->\n\n"
        "<!-- ANCHOR:decisions-049 -->\nWe chose nginx for the gateway.\n<!-- /ANCHOR:decisions-049 -->\n\n"
        + "Filler about the gateway. "
        * 100,
    )
    answer = place.open().search("gateway", anchors=["summary", "decisions", "blockers"])
    result = first(answer)
    assert result.sections == {"summary": "The gateway is fast.", "decisions": "We chose nginx for the gateway."}
    assert result.missing_anchors == ("blockers",)
    assert answer.tokens_saved > 500


def test_a_flat_list_has_the_other_shape_and_scale(place: Place) -> None:
    place.memory("tokens", TOKENS)
    answer = place.open().search("access tokens", group_by="passage")
    result = answer.results[0]
    assert isinstance(result, FlatResult)
    assert 0 < result.score <= 1
    assert result.lines == "1-3"
    assert result.source == "memory"


def test_min_score_holds_back_and_counts(place: Place) -> None:
    place.memory("tokens", TOKENS)
    place.memory("lunch", LUNCH)
    answer = place.open().search("access tokens live", min_score=0.6)
    assert titles(answer) == ["Login tokens"]
    assert answer.held_back.min_score == 1


def test_the_whole_content_comes_when_asked_for_and_counts_as_use(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    result = first(workspace.search("access tokens", include_content=True))
    assert result.content == TOKENS
    workspace.close()
    assert place.open(index=False).list().memories[0].access_count == 1


def test_neighbours_in_time_are_named(place: Place) -> None:
    place.memory("a", LUNCH, created="2026-01-01")
    place.memory("b", TOKENS, created="2026-01-02")
    place.memory("c", BROKER, created="2026-01-03")
    workspace = place.open()
    answer = workspace.search("access tokens", include_contiguity=True, limit=1)
    result = first(answer)
    assert (result.before, result.after) == (place.id_of(workspace, "a.md"), place.id_of(workspace, "c.md"))
    assert {card.title for card in answer.contiguous} == {"Lunch", "Broker"}


def test_an_empty_answer_says_what_to_try(place: Place) -> None:
    workspace = place.open()
    assert any("index()" in hint for hint in workspace.search("anything").hints)
    place.memory("tokens", TOKENS)
    workspace.index()
    hints = workspace.search("tokens", spec_folder="009-none", tier="critical").hints
    assert any("`spec_folder`, `tier`" in hint for hint in hints)


def test_a_leading_specs_in_a_folder_name_is_accepted(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    for name in ("001-core", "specs/001-core", ".opencode/specs/001-core", "specs/001-core/"):
        assert titles(workspace.search("tokens", spec_folder=name)) == ["Login tokens"]


def test_a_secret_is_redacted_alike_in_search_and_in_reading(place: Place) -> None:
    secret = "ghp_" + "a1B2" * 9
    place.memory("keys", f"# Keys\n\nThe deploy token is {secret} for the pipeline.")
    workspace = place.open()
    result = first(workspace.search("deploy token of the pipeline"))
    assert secret not in result.text
    assert "[REDACTED:" in result.text
    assert workspace.get(result.path, lines=result.lines).text == result.text
    assert secret not in workspace.load(result.id).text


def test_searching_never_changes_what_the_next_search_finds(place: Place) -> None:
    for number in range(20):
        place.memory(f"n{number}", f"# Note {number}\n\nThe gateway limit number {number}.")
    workspace = place.open()
    before = workspace.search("gateway limit", limit=20)
    for number in range(20):
        workspace.search(f"gateway limit number {number}")
    after = workspace.search("gateway limit", limit=20, explain=False)
    assert replace(before, meta=after.meta) == after


def test_a_concept_of_two_words_needs_both_and_counts_whole_words(place: Place) -> None:
    place.memory("both", "# Both\n\nError handling of the OAuth start page is state of the art.")
    place.memory("one", "# One\n\nHandling of OAuth art.")
    workspace = place.open(model="none")
    answer = workspace.search(concepts=["errors handling", "oauth"])
    assert titles(answer) == ["Both"]
    assert first(answer).concepts == {"errors handling": 1, "oauth": 1}
    assert first(workspace.search(concepts=["art", "start"])).concepts == {"art": 1, "start": 1}


def test_an_empty_concept_among_others_does_not_count(place: Place) -> None:
    place.memory("tokens", TOKENS)
    with pytest.raises(OutOfRange, match="concepts has 1 item; it takes 2 to 5"):
        place.open(model="none").search(concepts=["tokens", "  "])


@pytest.mark.parametrize("model", ["none", "hashing"])
def test_concepts_say_what_was_held_back(place: Place, model: str) -> None:
    place.memory("live", "# Live\n\nOAuth errors here.")
    place.memory("old", "# Old\n\nOAuth errors there.", folder="001-core/archive")
    answer = place.open(model=model).search(concepts=["oauth", "errors"])
    assert titles(answer) == ["Live"]
    assert (answer.held_back.archived, answer.held_back.best[0]["title"]) == (1, "Old")


def test_every_match_that_was_held_back_is_counted_whatever_the_limit(place: Place) -> None:
    for number in range(7):
        place.memory(f"old{number}", f"# Old {number}\n\nAccess tokens of {number}.", folder="001-core/archive")
    place.memory("tokens", TOKENS)
    assert place.open().search("access tokens", limit=2).held_back.archived == 7


def test_what_is_archived_stays_so_after_a_session_saw_it(place: Place) -> None:
    place.memory("old", TOKENS, folder="001-core/archive")
    workspace = place.open()
    assert workspace.search("access tokens", session_id="s", include_archived=True).results
    assert not workspace.search("access tokens", session_id="s").results
    assert not workspace.search("access tokens", session_id="s", state_filter="HOT").results


def test_expired_memories_come_with_the_archived_ones(place: Place) -> None:
    place.memory("tokens", TOKENS, expires="2026-01-01")
    workspace = place.open()
    assert workspace.search("access tokens").held_back.expired == 1
    answer = workspace.search("access tokens", include_archived=True)
    assert titles(answer) == ["Login tokens"]
    assert answer.held_back.expired == 0


@pytest.mark.parametrize(
    "how",
    [
        {"group_by": "passage"},
        {"group_by": "passage", "explain": True, "include_contiguity": True},
        {"anchors": ["summary"]},
        {"include_contiguity": True},
        {"include_content": True, "explain": True},
    ],
    ids=str,
)
def test_every_shape_of_an_answer_stays_within_its_budget(place: Place, how: dict[str, object]) -> None:
    from spec_kit_memory.serve import render

    text = "The gateway limit is discussed here. " * 30
    for number in range(30):
        place.memory(
            f"n{number}", f"# Note {number}\n\n<!-- ANCHOR:summary -->\n{text}{number}\n<!-- /ANCHOR:summary -->"
        )
    workspace = place.open(model="none")
    for budget in (700, 1500, None):
        answer = workspace.search("gateway limit", limit=30, max_tokens=budget, **how)  # type: ignore[arg-type]
        assert answer.results
        assert render.envelope(answer)["meta"]["tokens"] <= (budget or 4000)


def test_a_long_question_does_not_use_up_the_budget(place: Place) -> None:
    from spec_kit_memory.serve import render

    place.memory("tokens", TOKENS)
    answer = place.open().search("access tokens " + "x" * 9000, max_tokens=400)
    assert titles(answer) == ["Login tokens"]
    assert render.envelope(answer)["meta"]["tokens"] <= 400


@pytest.mark.parametrize("how", [{"group_by": "passage"}, {"anchors": ["summary"]}, {"explain": True}], ids=str)
def test_what_an_answer_says_about_itself_stays_within_the_least_budget(place: Place, how: dict[str, object]) -> None:
    from spec_kit_memory.serve import render

    place.memory("tokens", TOKENS)
    words = " ".join(f"gateway{number}" for number in range(40))
    answer = place.open(model="none").search(f"access tokens {words}", max_tokens=100, **how)  # type: ignore[arg-type]
    assert render.envelope(answer)["meta"]["tokens"] <= 100


def test_a_budget_without_room_is_not_told_as_nothing_found(place: Place) -> None:
    place.memory("tokens", TOKENS)
    answer = place.open().search("access tokens", max_tokens=20)
    assert not answer.results
    assert answer.summary.startswith("1 memory found")
    assert any("max_tokens" in hint for hint in answer.hints)


def test_sections_without_room_are_counted_not_dropped_silently(place: Place) -> None:
    place.memory("s", "# S\n\n<!-- ANCHOR:long -->\n" + "The gateway is fast. " * 400 + "\n<!-- /ANCHOR:long -->")
    answer = place.open().search("gateway", anchors=["long"], max_tokens=600)
    assert first(answer).sections == {}
    assert any(hint.startswith("1 section did not fit") for hint in answer.hints)


def test_min_score_holds_for_each_passage_of_a_flat_list(place: Place) -> None:
    sections = [f"## Part {n}\n\nzebra " + " ".join(f"word{n}x{m}" for m in range(250)) for n in range(4)]
    place.memory("long", "# Long\n\nzebra migration savanna zebra migration savanna\n\n" + "\n\n".join(sections))
    workspace = place.open(model="none")
    assert len(workspace.search("zebra migration savanna", group_by="passage").results) > 1
    found = workspace.search("zebra migration savanna", group_by="passage", min_score=0.5).results
    assert found
    assert all(result.score >= 0.5 for result in found)


def test_content_from_the_cache_counts_as_use_too(place: Place) -> None:
    place.memory("tokens", TOKENS)
    workspace = place.open()
    for _ in range(10):
        answer = workspace.search("access tokens", include_content=True)
    assert answer.meta.cache_hit
    assert workspace.list().memories[0].access_count == 10


def test_rules_that_answer_are_results_within_the_limit_and_others_stand_above(place: Place) -> None:
    rule = "Access tokens must be kept short by everyone in the team at all times."
    place.write("constitutional/short.md", f"# Short tokens\n\n{rule}\n")
    place.write("constitutional/kind.md", "# Be kind\n\nGreet people at the door.\n")
    place.memory("tokens", TOKENS)
    workspace = place.open()
    answer = workspace.search("access tokens kept short", limit=1)
    assert titles(answer) == ["Short tokens"]
    assert rule in first(answer).text
    assert first(answer).tier is Tier.CONSTITUTIONAL
    assert [item.title for item in answer.constitutional] == ["Be kind"]
    flat = workspace.search("access tokens kept short", limit=2, group_by="passage")
    assert len(flat.results) <= 2
    assert titles(flat)[0] == "Short tokens"


@pytest.mark.parametrize("how", [{"source": "constitutional"}, {"tier": "constitutional"}], ids=str)
def test_asked_for_rules_only_the_best_is_the_first_result(place: Place, how: dict[str, str]) -> None:
    place.write("constitutional/kind.md", "# Be kind\n\nGreet people at the door.\n")
    place.write("constitutional/short.md", "# Short tokens\n\nAccess tokens live five minutes.\n")
    place.memory("tokens", TOKENS)
    answer = place.open().search("access tokens live", **how)  # type: ignore[arg-type]
    assert titles(answer) == ["Short tokens", "Be kind"]
    assert "five minutes" in first(answer).text
    assert not answer.constitutional


def test_rules_that_are_not_even_named_are_counted(place: Place) -> None:
    for number in range(40):
        place.write(f"constitutional/r{number}.md", f"# Rule {number} {'of a long name ' * 10}\n\nText {number}.\n")
    answer = place.open().search("anything at all")
    named = len(answer.constitutional)
    assert named < 40
    assert any(hint.startswith(f"{40 - named} more rules") for hint in answer.hints)


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"tier": "huge"}, "E030"),
        ({"context_type": "mood"}, "E030"),
        ({"source": "rumour"}, "E030"),
        ({"state_filter": "LUKEWARM"}, "E030"),
        ({"min_state": "LUKEWARM"}, "E030"),
        ({"group_by": "day"}, "E030"),
        ({"mode": "guess"}, "E030"),
        ({"limit": 0}, "E032"),
        ({"limit": -1}, "E032"),
        ({"min_score": 1.5}, "E032"),
        ({"max_tokens": 0}, "E032"),
    ],
    ids=str,
)
def test_python_callers_get_a_code_and_a_hint_for_a_value_that_is_none(
    place: Place, how: dict[str, object], code: str
) -> None:
    place.memory("tokens", TOKENS)
    with pytest.raises(SpecKitMemoryError) as failure:
        place.open(model="none").search("tokens", **how)  # type: ignore[arg-type]
    assert failure.value.code == code
    assert failure.value.hint
    assert str(next(iter(how.values()))) in failure.value.message


def test_by_turns_a_memory_fades_with_the_session_that_leaves_it(place: Place) -> None:
    place.memory("tokens", TOKENS, trigger_phrases='["signed tokens"]')
    workspace = place.open(model="none", decay=Decay(model="turns"))

    def recency(**how: str) -> object:
        return first(workspace.search("access tokens", explain=True, **how)).explain["recency"]  # type: ignore[arg-type]

    workspace.triggers("signed tokens", session_id="s")
    for _ in range(5):
        workspace.triggers("something else", session_id="s")
    assert recency(session_id="s") == pytest.approx(20 * 0.8**5)
    assert recency() == pytest.approx(20)


def test_a_long_memory_does_not_keep_others_out_of_the_answer(place: Place) -> None:
    """Every one of its passages matches better than the short ones do."""
    message = "\n\n".join(
        f"## Part {n}\n\nTokens tokens tokens live. " + "The tokens of part. " * 90 for n in range(60)
    )
    place.memory("long", f"# Long\n\n{message}")
    for number in range(8):
        place.memory(f"short-{number}", f"# Short {number}\n\nAbout tokens, number {number}, and the weather there.")
    workspace = place.open()
    answer = workspace.search("tokens", limit=9, max_tokens=100_000)
    assert len(answer.results) == 9
    assert answer.total_found == 9


def test_a_flat_list_has_as_many_passages_as_were_asked_for(place: Place) -> None:
    message = "\n\n".join(f"## Part {n}\n\nTokens live here. " + f"The tokens of part {n}. " * 90 for n in range(120))
    place.memory("long", f"# Long\n\n{message}")
    answer = place.open().search("tokens", group_by="passage", limit=100, max_tokens=200_000)
    assert len(answer.results) == 100


def test_a_flat_list_keeps_what_supersedes_above_what_it_replaced_and_says_so(place: Place) -> None:
    place.memory("old", "# Export time\n\nThe nightly export starts at half past two, every night.", date="2026-01-01")
    place.memory("new", "# Export hour\n\nIt starts at one now.", date="2026-02-01")
    workspace = place.open()
    old, new = place.id_of(workspace, "old"), place.id_of(workspace, "new")
    workspace.link(new, old, "supersedes")
    found = workspace.search("when does the nightly export starts", group_by="passage").results
    assert [result.id for result in found] == [new, old]
    assert [result.superseded_by for result in found] == [(), (new,)]


def test_all_that_matched_is_counted_and_so_is_all_that_was_held_back(place: Place) -> None:
    for number in range(330):
        place.memory(f"live-{number}", f"# Live {number}\n\nThe zebra of case {number}.")
    for number in range(3):
        place.write(
            f"specs/z_archive/001-old/memory/{number}.md", f"# Old {number}\n\nThe zebra, a long time ago, {number}."
        )
    answer = place.open(model="none").search("zebra")
    assert answer.total_found == 300
    assert answer.held_back.archived == 3


def test_vectors_of_another_model_are_not_compared_with_the_query(place: Place) -> None:
    place.memory("tokens", TOKENS)
    place.open(model="hashing").close()
    with Workspace(Settings(root=place.root), embedder=HashingEmbedder(dimensions=64), now=place.clock) as other:
        answer = other.search("access tokens live")
        assert titles(answer) == ["Login tokens"]
        assert answer.method == "text"
        assert any("another" in said or "vectors of" in said for said in answer.unavailable), answer.unavailable


def test_the_summary_counts_all_that_matched(place: Place) -> None:
    for number in range(200):
        place.memory(f"live-{number}", f"# Live {number}\n\nThe zebra of case {number}.")
    answer = place.open(model="none").search("zebra")
    assert answer.total_found == 200
    assert answer.summary.startswith(f"{len(answer.results)} of 200 memories")


@pytest.mark.parametrize("model", ["half_life", "linear"])
def test_a_document_without_a_date_of_its_own_has_no_age(place: Place, clock: Clock, model: str) -> None:
    long_ago = (clock() - timedelta(days=400)).timestamp()
    undated = place.memory("undated", "# The undated harbour\n\nThe harbour crane is undated.")
    os.utime(undated, (long_ago, long_ago))
    dated = (clock() - timedelta(days=400)).date()
    place.memory("dated", "# The dated harbour\n\nThe harbour crane is dated.", created=dated)
    workspace = place.open(decay=Decay(model=model))

    def recency() -> dict[str, float]:
        found = workspace.search("harbour crane", explain=True).results
        parts = {result.title: result.explain for result in found if isinstance(result, Result)}
        return {title.split()[1]: part["recency"] / max(part["tier"], 1e-9) for title, part in parts.items()}

    first = recency()
    assert first["undated"] > first["dated"]
    cards = {card.title: card for card in workspace.list().memories}
    assert cards["The undated harbour"].created_at is not None, "lists still know when its file was written"
    workspace.load(memory_id=cards["The undated harbour"].id)
    workspace.close()
    clock.pass_(days=50)
    workspace = place.open(decay=Decay(model=model))
    assert recency()["undated"] == pytest.approx(first["undated"]), "use does not give it an age"
    workspace.index(force=True)
    place.memory("undated", "# The undated harbour\n\nThe harbour crane is undated, and was painted.")
    workspace.index()
    assert recency()["undated"] == pytest.approx(first["undated"]), "nor does an edit"


def test_a_date_with_a_fraction_of_a_second_is_a_date(place: Place, clock: Clock) -> None:
    place.memory("fine", "# Fine\n\nThe harbour crane.", created="2025-01-01T10:00:00.000001Z")
    result = place.open().search("harbour crane", explain=True).results[0]
    assert isinstance(result, Result)
    assert result.explain["recency"] < result.explain["tier"], "it is older than a year"
