"""Which spec folder does a conversation belong to?"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.alignment import (
    Alignment,
    Profile,
    align,
    decide,
    profile,
    resolve_name,
    talk,
    valid_name,
)
from spec_kit_memory.core.folders import clean_folder
from spec_kit_memory.errors import BadSpecFolder

NOW = datetime(2026, 3, 1, tzinfo=UTC)
AUTH = "OAuth login callback with JWT tokens, refresh tokens and session cookies. See src/auth/token_store.py."
SEARCH = "Hybrid search fuses BM25 ranking with vector embeddings. Reranking happens in src/search/fusion.py."
BILLING = "Invoices, payment webhooks and currency rounding. The ledger is in src/billing/invoice.py."


def folders(*, touched: dict[str, datetime] | None = None) -> list[Profile]:
    texts = {"007-auth": AUTH, "008-search": SEARCH, "009-billing": BILLING}
    return [profile(name, {"spec.md": text}, touched_at=(touched or {}).get(name)) for name, text in texts.items()]


def test_the_folder_that_shares_words_and_files_is_used() -> None:
    message = talk(
        "We changed the JWT refresh tokens: the callback now rotates session cookies.", files=["a/token_store.py"]
    )
    result = align(message, folders(), now=NOW)
    assert result[0].folder == "007-auth"
    assert result[0].score >= 70
    assert result[0].parts["files"] == 1.0
    decision = decide(result)
    assert (decision.outcome, decision.folder) == ("used", "007-auth")
    assert [entry.folder for entry in decision.alternatives] == [entry.folder for entry in result[1:3]]


def test_a_greeting_fits_no_folder() -> None:
    touched = dict.fromkeys(("007-auth", "008-search", "009-billing"), NOW)
    assert [entry.score for entry in align(talk("Hello"), folders(touched=touched), now=NOW)] == [0.0, 0.0, 0.0]


def test_the_newest_folder_does_not_win_by_being_new() -> None:
    touched = {"009-billing": NOW, "007-auth": NOW - timedelta(days=300), "008-search": NOW - timedelta(days=300)}
    message = talk("JWT tokens and session cookies of the OAuth login callback")
    assert align(message, folders(touched=touched), now=NOW)[0].folder == "007-auth"


def test_recency_halves_every_seven_days() -> None:
    touched = {"007-auth": NOW, "008-search": NOW - timedelta(days=7), "009-billing": NOW - timedelta(days=14)}
    results = {entry.folder: entry.parts["recency"] for entry in align(talk("x"), folders(touched=touched), now=NOW)}
    assert results == {"007-auth": 1.0, "008-search": 0.5, "009-billing": 0.25}


def test_between_equal_folders_the_newer_one_is_first_but_nothing_is_decided() -> None:
    twins = [
        profile("001-a", {"spec.md": AUTH}, touched_at=NOW - timedelta(days=30)),
        profile("002-b", {"spec.md": AUTH}, touched_at=NOW),
        profile("003-c", {"spec.md": SEARCH}, touched_at=NOW - timedelta(days=30)),
    ]
    result = align(talk("refresh tokens and session cookies"), twins, now=NOW)
    assert [entry.folder for entry in result][:2] == ["002-b", "001-a"]
    assert decide(result).outcome != "used"


def test_a_conversation_about_something_else_is_undecided_with_alternatives() -> None:
    decision = decide(align(talk("Tomorrow's weather in Lisbon looks rainy"), folders(), now=NOW))
    assert decision.outcome == "undecided"
    assert decision.folder is None
    assert len(decision.alternatives) == 3


def test_no_folders_at_all_are_undecided() -> None:
    decision = decide(align(talk("anything"), [], now=NOW))
    assert (decision.outcome, decision.folder, decision.alternatives) == ("undecided", None, ())


@pytest.mark.parametrize(
    ("words", "most"),
    [("OAuth", 49.0), ("OAuth cookies", 69.0), ("OAuth cookies of the login callback", 100.0)],
)
def test_so_few_words_in_common_have_at_most_that_score(words: str, most: float) -> None:
    fresh = dict.fromkeys(("007-auth", "008-search", "009-billing"), NOW)
    best = align(talk(words), folders(touched=fresh), now=NOW)[0]
    assert best.folder == "007-auth"
    assert best.score <= most
    assert best.score >= most - 20
    assert best.words == len(talk(words).words)


def test_words_that_most_folders_have_tell_of_none() -> None:
    common = "The harbour, the station, the dock and the people there."
    known = [profile(f"00{n}-x", {"spec.md": f"{common} About subject{n}."}) for n in range(1, 6)]
    best = align(talk("People at the station of the harbour near the dock"), known, now=NOW)[0]
    assert (best.words, best.score < 50) == (0, True)


def test_words_of_any_project_tell_of_none_however_few_folders_there_are() -> None:
    plan = "Plan: the code of the login has a bug, its tests and a feature need documentation."
    known = [profile("001-login", {"plan.md": plan}, touched_at=NOW), *folders()]
    message = talk(
        "Fixed a bug in the code and wrote tests for the new feature; the plan and the documentation are done"
    )
    best = align(message, known, now=NOW)[0]
    assert (best.words, best.score < 50) == (0, True)
    named = align(talk("The login test is done"), [*known, profile("002-test-login", {"plan.md": plan})], now=NOW)
    assert named[0].words == 2, "the words of its own name tell of a folder"


def test_a_long_conversation_about_something_else_fits_nothing() -> None:
    strange = " ".join(f"strange{n} words{n}" for n in range(60))
    best = align(talk(f"{strange} OAuth login callback cookies"), folders(touched={"007-auth": NOW}), now=NOW)[0]
    assert best.words >= 3
    assert best.score < 50


@pytest.mark.parametrize(
    ("score", "outcome"), [(70.0, "used"), (69.9, "warned"), (50.0, "warned"), (49.9, "undecided")]
)
def test_the_thresholds_are_seventy_and_fifty(score: float, outcome: str) -> None:
    assert decide([Alignment("001-a", score), Alignment("002-b", 10.0)]).outcome == outcome


def test_a_named_folder_that_fits_badly_is_used_with_a_warning() -> None:
    results = [Alignment("001-a", 80.0), Alignment("002-b", 10.0)]
    decision = decide(results, chosen_folder="002-b")
    assert (decision.outcome, decision.folder) == ("warned", "002-b")
    assert decision.alternatives == (results[0],)
    assert decide(results, chosen_folder="001-a").outcome == "used"
    assert decide([Alignment("001-a", 20.0)], chosen_folder="003-new").outcome == "used"


def test_the_phase_is_told_from_documents_and_words() -> None:
    done = profile("001-a", {"spec.md": "", "tasks.md": "", "implementation-summary.md": ""})
    started = profile("002-b", {"spec.md": "", "plan.md": ""})
    assert (done.phase, started.phase, profile("003-c", {"notes.md": ""}).phase) == ("review", "planning", None)
    assert talk("We reviewed and verified the checklist; audited twice.").phase == "review"
    assert talk("Nothing in particular").phase is None


def test_chinese_conversations_find_their_folder() -> None:
    known = [profile("001-a", {"spec.md": "数据库迁移和缓存策略"}), profile("002-b", {"spec.md": "登录和会话管理"})]
    assert align(talk("今天讨论了数据库迁移"), known, now=NOW)[0].folder == "001-a"


@given(st.text(max_size=200), st.lists(st.text(max_size=60), max_size=4))
def test_scores_are_between_0_and_100_for_any_text(text: str, documents: list[str]) -> None:
    known = [profile(f"00{number}-x", {"spec.md": body}) for number, body in enumerate(documents)]
    result = align(talk(text), known, now=NOW)
    assert len(result) == len(known)
    assert all(0 <= entry.score <= 100 for entry in result)


@pytest.mark.parametrize("name", ["007-auth", "003-parent/004-child", "001-a.b-C9", "123-x/456-y/789-z"])
def test_names_of_three_digits_a_hyphen_and_more_are_valid(name: str) -> None:
    assert valid_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "auth",
        "07-auth",
        "007_auth",
        "007-",
        "007-a b",
        "007-a/..",
        "../007-a",
        "007-a..b",
        "007-a/",
        "/007-a",
        "007-ä",
    ],
)
def test_other_names_are_not(name: str) -> None:
    assert not valid_name(name)


EXISTING = ["007-auth", "003-parent/004-child", "005-other/004-child", "003-parent/006-only", "archive/old-notes"]


@pytest.mark.parametrize(
    ("given_name", "folder"),
    [
        ("007-auth", "007-auth"),
        ("specs/007-auth", "007-auth"),
        (".opencode/specs/007-auth/", "007-auth"),
        ("./specs/003-parent/004-child", "003-parent/004-child"),
        ("006-only", "003-parent/006-only"),
        ("archive/old-notes", "archive/old-notes"),
    ],
)
def test_a_name_is_resolved_however_it_is_written(given_name: str, folder: str) -> None:
    assert resolve_name(given_name, EXISTING) == folder


def test_an_ambiguous_child_is_refused_with_the_list() -> None:
    with pytest.raises(BadSpecFolder) as caught:
        resolve_name("004-child", EXISTING)
    assert caught.value.details["alternatives"] == ["003-parent/004-child", "005-other/004-child"]
    assert "003-parent/004-child, 005-other/004-child" in caught.value.message


def test_a_missing_folder_is_refused_unless_it_may_be_created() -> None:
    with pytest.raises(BadSpecFolder, match="no spec folder '008-auth'") as caught:
        resolve_name("008-auth", EXISTING)
    assert "007-auth" in caught.value.hint
    assert resolve_name("specs/010-new", EXISTING, create=True) == "010-new"
    with pytest.raises(BadSpecFolder, match="not a spec folder's name"):
        resolve_name("../evil", EXISTING, create=True)


def test_only_a_leading_prefix_is_taken_off() -> None:
    assert clean_folder("specs/specs/007-a") == "specs/007-a"
    assert clean_folder("007-specs/008-a") == "007-specs/008-a"


@pytest.mark.skipif(os.sep == "\\", reason="on Windows every backslash separates folders")
def test_a_backslash_separates_folders_unless_it_can_only_be_part_of_a_name() -> None:
    assert clean_folder(".opencode\\specs\\007-a\\008-b") == "007-a/008-b"
    assert clean_folder("specs\\z_archive\\000-x") == "z_archive/000-x"
    assert clean_folder("002-back\\slash") == "002-back\\slash"


def test_words_that_no_folder_knows_fit_no_folder_however_fresh_it_is() -> None:
    fresh = [
        profile("007-auth", {"spec.md": "tokens and keys"}, touched_at=NOW),
        profile("008-map", {"spec.md": "tiles and roads"}, touched_at=NOW),
    ]
    decision = decide(align(talk("painting the garden fence"), fresh, now=NOW))
    assert decision.outcome == "undecided"
