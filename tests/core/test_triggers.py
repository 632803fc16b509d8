"""Which memories does a prompt bring up?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.triggers import (
    RECENT_PROMPTS_NEEDED,
    Matcher,
    PhraseSuggestion,
    _occurs,
    fold,
    loading,
    suggestions,
    too_general,
    usable,
)


def found(phrase: str, prompt: str) -> bool:
    return bool(Matcher([(1, phrase)]).match(prompt))


@pytest.mark.parametrize(
    ("phrase", "prompt"),
    [
        ("oauth callback", "the OAuth   Callback\nis broken"),
        ("OAUTH", "oauth"),
        ("straße", "in der STRASSE"),
        ("ﬁle cache", "the file cache"),
        ("café", "cafe\u0301 au lait"),
        ("spec-kit", "use spec-kit, please"),
        ("foo.py", "look at `foo.py`."),
        ("数据库", "我们的数据库迁移"),
        ("迁移", "数据库迁移完成"),
        ("データベース", "このデータベースを使う"),
        ("redis缓存", "使用redis缓存吗"),
        ("ฐานข้อมูล", "ใช้ฐานข้อมูลใหม่"),
        ("데이터베이스", "데이터베이스를 고쳐"),
        ("миграция базы", "нужна Миграция Базы данных"),
        ("हिन्दी खोज", "कृपया हिन्दी खोज करें"),
        ("C++", "rewrite the C++ part"),
        ("save context", "(save context)"),
        # Dotted and dotless i alike.
        ("İstanbul şubesi", "istanbul şubesi kapandı"),
        ("istanbul şubesi", "İSTANBUL ŞUBESİ"),
        ("İstanbul", "ISTANBUL"),
        ("fırın ısısı", "FIRIN ISISI"),
        ("FIRIN ISISI", "fırın ısısı düşük"),
        ("ışık", "IŞIK"),
        ("I\u0307stanbul", "istanbul"),
        # Emoji count as letters of a script without case.
        ("🚀🔥", "ship it 🚀🔥 now"),
        ("🚀🔥", "🚀🔥"),
        ("🚀 🔥", "deploy 🚀 🔥!"),
        ("🚀launch", "the 🚀launch"),
        ("👩‍💻", "ask the 👩‍💻 about it"),
        ("❤️‍🔥", "we ❤‍🔥 it"),
        ("🇹🇷", "in 🇹🇷 only"),
        ("👍🏽👍🏽", "👍👍"),
        ("☎️ hotline", "the ☎ hotline"),
        # Signs belong to names.
        ("c++", "is C++20 or c++ meant"),
        ("C#", "port it to C#, please"),
        (".NET", "the .NET runtime"),
        ("node.js", "Node.js 22 and npm"),
        ("a/b", "an A/B test"),
        ("$PATH", "echo $PATH"),
        ("--flag", "run it with --flag=1"),
        # What is written in several ways.
        ("ｆｕｌｌ width", "FULL WIDTH"),
        ("don't panic", "please don’t panic"),
        ("l’atelier du port", "à l'atelier du port"),
        ("spec-kit", "use spec\u2011kit, please"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("Ångström", "A\u030angstro\u0308m"),
        ("محمد", "مُحَمَّد"),
        ("كتاب", "كـتـاب"),
        ("שלום", "שָׁלוֹם"),
        ("می\u200cخواهم", "میخواهم"),
        ("soft\u00adware", "software"),
        ("naïve bayes", "nai\u0308ve  Bayes"),
        ("№ 5", "no 5"),
        ("½ cup", "1⁄2 cup"),
    ],
)
def test_a_phrase_is_found_as_whole_words_in_any_script(phrase: str, prompt: str) -> None:
    assert found(phrase, prompt)


@pytest.mark.parametrize(
    ("phrase", "prompt"),
    [
        ("old", "the threshold of scaffolding"),
        ("auth", "oauth authority"),
        ("мир", "всемирный"),
        ("user", "user_id"),
        ("हिन", "हिन्दी"),
        ("회의", "회의록"),
        ("save context", "save the context"),
        ("naïve", "naïveté"),
        ("caf", "café"),
        ("c++", "libc++ and g++"),
        ("node.js", "node.jsx"),
        ("$PATH", "$PATHS"),
        ("--flag", "--flags"),
        ("ısı", "ısıtma"),
        ("🚀🔥", "🚀 and 🔥"),
        ("Fırın", "Fırıncı"),
    ],
)
def test_a_part_of_a_word_is_not_a_match(phrase: str, prompt: str) -> None:
    assert not found(phrase, prompt)


def test_short_phrases_trigger_only_in_scripts_without_case() -> None:
    assert not usable("ab")
    assert not usable("  a b"[:3])
    assert not usable("яя")
    assert not usable("42")
    assert not usable("---")
    assert usable("abc")
    assert usable("缓存")
    assert not usable("缓")
    assert usable("🚀🔥")
    assert not usable("🚀")
    assert not usable("👍🏽")  # one letter, however it is drawn
    assert usable("C#")
    assert not usable("#1")
    assert not usable("ı́")


def test_overlapping_and_nested_phrases_are_all_found() -> None:
    matcher = Matcher([(1, "hybrid search"), (1, "search index"), (1, "search"), (2, "hybrid search index")])
    by_id = {match.memory_id: match.phrases for match in matcher.match("The hybrid search index")}
    assert by_id == {1: ("hybrid search", "search index", "search"), 2: ("hybrid search index",)}


def test_more_phrases_rank_before_longer_ones_before_heavier_memories() -> None:
    matcher = Matcher([(1, "alpha"), (2, "alphabet soup"), (3, "alpha"), (3, "beta"), (4, "alpha")])
    ranked = matcher.match("alpha beta alphabet soup", weights={1: 0.2, 4: 0.9})
    assert [match.memory_id for match in ranked] == [3, 2, 4, 1]
    assert [match.memory_id for match in matcher.match("alpha beta alphabet soup", limit=2)] == [3, 2]


def test_the_same_phrase_twice_counts_once() -> None:
    matcher = Matcher([(1, "Auth Flow"), (1, "auth  flow"), (2, "auth flow"), (2, "flow")])
    assert [match.memory_id for match in matcher.match("auth flow")] == [2, 1]
    assert matcher.match("auth flow")[1].phrases == ("Auth Flow",)


def test_confidence_grows_with_what_was_matched_and_stays_below_one_and_a_bit() -> None:
    short = Matcher([(1, "log")]).match("log")[0].confidence
    longer = Matcher([(1, "save context")]).match("save context")[0].confidence
    both = Matcher([(1, "save context"), (1, "checkpoint")]).match("save context checkpoint")[0].confidence
    nested = Matcher([(1, "save context"), (1, "context")]).match("save context")[0].confidence
    assert short == 0.41
    assert longer == 0.85
    assert nested == longer
    assert short < longer < both <= 1


@given(st.text(max_size=60), st.text(max_size=200))
def test_any_phrase_and_prompt_are_safe(phrase: str, prompt: str) -> None:
    for match in Matcher([(7, phrase)]).match(prompt):
        assert 0 < match.confidence <= 1
        assert fold(phrase) in fold(prompt)


@given(st.text(min_size=1, max_size=40))
def test_a_usable_phrase_is_found_in_itself_and_between_spaces(phrase: str) -> None:
    if usable(phrase):
        assert found(phrase, phrase)
        assert found(phrase, f"before {phrase} after")


MIXED = st.text(alphabet="中国数据 ab\u0301한국\u0e01\u0e31é#", max_size=12)


@given(phrases=st.lists(MIXED, max_size=6), prompt=st.text(alphabet="中国数据 ab\u0301한국\u0e01\u0e31é#", max_size=40))
def test_what_one_pass_finds_is_what_looking_for_each_phrase_finds(phrases: list[str], prompt: str) -> None:
    text = fold(prompt)
    folded = {fold(phrase) for phrase in phrases if usable(phrase)}
    expected = sorted(phrase for phrase in folded if _occurs(phrase, text))
    matcher = Matcher(enumerate(phrases))
    assert matcher.found(prompt) == expected
    assert matcher.found(prompt) == expected  # a prompt that was just read is remembered


@pytest.mark.parametrize(
    ("phrase", "prompt", "is_found"),
    [
        ("数据库", "备份数据库吧", True),
        ("数据库", "备份数 据库吧", False),
        ("数 据", "数 据", True),
        ("数 据", "数据", False),
    ],
)
def test_a_space_between_letters_that_need_none_counts(phrase: str, prompt: str, is_found: bool) -> None:
    assert bool(Matcher([(1, phrase)]).match(prompt)) is is_found


def test_product_phrases_suggest_and_the_users_own_phrases_suggest_saving() -> None:
    assert suggestions("Please save context now") == [PhraseSuggestion("save", "save context")]
    assert suggestions("What did we decide? Make a snapshot first.") == [
        PhraseSuggestion("checkpoint", "snapshot"),
        PhraseSuggestion("search", "what did we"),
    ]
    assert suggestions("schreib das auf") == []
    assert suggestions("schreib das auf", save_phrases=("schreib das auf",)) == [
        PhraseSuggestion("save", "schreib das auf")
    ]


def test_the_last_loading_preference_counts() -> None:
    assert loading("auto-load memories please") == "auto"
    assert loading("Fresh start!") == "skip"
    assert loading("skip memory, no: ask about memories") == "ask"
    assert loading("a refresh started") is None


def test_a_phrase_in_more_than_a_quarter_of_the_prompts_is_too_general() -> None:
    counts = {"fix": 9, "add": 6, "hybrid search": 5}
    assert too_general(counts, 20) == ["fix", "add"]
    assert too_general(counts, RECENT_PROMPTS_NEEDED - 1) == []
