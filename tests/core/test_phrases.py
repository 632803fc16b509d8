"""Which phrases would a person choose?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.phrases import (
    MOST_PHRASES,
    extract,
    folder_phrase,
    in_most_prompts,
    is_too_common,
    phrase_warnings,
)
from spec_kit_memory.core.triggers import Matcher, usable

TEXT = """
# Session deduplication

We built session deduplication for the hybrid search pipeline. The hybrid search pipeline now skips
passages that were sent before; `SentPassages` in `src/dedup_cache.py` remembers them.

## Circular evaluation bias

The benchmark had a circular evaluation bias: ground truth came from trigger phrases. Ground truth is
now labelled by hand. `SentPassages` is covered by tests. Then we added more, and fixed and changed things.
"""


def lowered(phrases: list[str]) -> list[str]:
    return [phrase.casefold() for phrase in phrases]


def test_recurring_phrases_names_files_and_the_folder_are_found() -> None:
    result = lowered(extract(TEXT, spec_folder="003-parent/012-result-dedup"))
    assert result[0] == "result dedup"
    for phrase in (
        "session deduplication",
        "circular evaluation bias",
        "ground truth",
        "sentpassages",
        "dedup_cache.py",
    ):
        assert phrase in result
    assert any("hybrid search" in phrase for phrase in result)


def test_all_given_phrases_are_kept_first_and_topped_up() -> None:
    given_phrases = ["My own phrase", "fix", "my own phrase"]
    phrases = extract(TEXT, own_phrases=given_phrases)
    assert phrases[:3] == given_phrases
    assert 3 < len(phrases) <= MOST_PHRASES
    many = [f"phrase {number}" for number in range(40)]
    assert extract(TEXT, own_phrases=many) == many


def test_no_phrase_is_found_twice_in_other_words() -> None:
    result = lowered(extract("Cache keys. cache key, CACHE KEYS and cache-key. Cache keys!"))
    assert result == ["cache keys"]


def test_over_general_phrases_are_never_chosen() -> None:
    text = "fix add update. Fix the test. Add a new file. Update the file. next steps next steps key decisions"
    assert extract(f"{text}\n" * 20, title="Fix and add things") == []


@pytest.mark.parametrize(
    "phrase", ["fix", "add", "the", "next steps", "key decisions", "a", "10", "file", "it is", "code"]
)
def test_plain_phrases_are_known_as_such(phrase: str) -> None:
    assert is_too_common(phrase)


@pytest.mark.parametrize("phrase", ["oauth callback", "SentPassages", "cache.py", "hybrid search", "数据库迁移", "JWT"])
def test_telling_phrases_are_known_as_such(phrase: str) -> None:
    assert not is_too_common(phrase)


@pytest.mark.parametrize(
    ("folder", "phrase"),
    [
        ("003-parent/007-auth-flow", "auth flow"),
        ("012_x/013-oauth_login", "oauth login"),
        ("001-fix", ""),
        (None, ""),
        ("003-system-update", ""),
    ],
)
def test_the_folders_name_is_a_phrase_unless_it_says_nothing(folder: str | None, phrase: str) -> None:
    assert folder_phrase(folder) == phrase


def test_modified_files_are_phrases_but_not_those_every_folder_has() -> None:
    phrases = extract("Nothing else.", files=["src/app/token_store.ts", "specs/007/spec.md", "README.md"])
    assert phrases == ["token_store.ts"]


def test_code_comments_and_markup_do_not_become_phrases() -> None:
    text = "<!-- secret note secret note -->\n```\nforbidden phrase\nforbidden phrase\n```\nSee [the guide](http://long.example/path)."
    assert not any("forbidden" in phrase or "secret" in phrase for phrase in extract(text))


def test_chinese_and_japanese_words_that_recur_are_found() -> None:
    phrases = extract(
        "我们修复了数据库迁移的问题。数据库迁移需要缓存策略，缓存策略很重要。データベースを直す。データベース。"
    )
    assert "数据库迁移" in phrases
    assert "データベース" in phrases


@given(st.text(max_size=400), st.lists(st.text(max_size=20), max_size=4))
def test_any_text_gives_usable_phrases_and_keeps_the_given_ones(text: str, given_phrases: list[str]) -> None:
    phrases = extract(text, own_phrases=given_phrases, title=text[:50])
    kept = [" ".join(phrase.split()) for phrase in given_phrases if phrase.strip()]
    assert phrases[: len(set(kept))] == list(dict.fromkeys(kept))
    assert all(usable(phrase) for phrase in phrases[len(set(kept)) :])
    assert len(phrases) <= max(MOST_PHRASES, len(kept))


@pytest.mark.parametrize(
    "piece", ["[", "[a](", "`", "**a", "<!--", "a/", "x_", "# ", "a.b-", "数据库迁移", "a'", "\u0e01"]
)
def test_no_repetition_is_slow(piece: str) -> None:
    extract(piece * (100_000 // len(piece)))


@pytest.mark.parametrize("phrase", ["and", "The", "of the", "fix", "with", "und", "working", " and  the "])
def test_words_of_any_prompt_are_known_as_such(phrase: str) -> None:
    assert in_most_prompts(phrase)


@pytest.mark.parametrize(
    "phrase", ["jwt", "fix tokens", "how it works", "what can it do", "認証", "a", "", "--", "RFC 9"]
)
def test_phrases_that_tell_something_or_never_match_are_not(phrase: str) -> None:
    assert not in_most_prompts(phrase)


@pytest.mark.parametrize(
    "phrase", ["c++", "C#", "F#", ".NET", "node.js", "a/b", "$PATH", "--flag", "🚀🔥", "@me", "a&b", "go!="]
)
def test_a_name_with_signs_is_not_too_general(phrase: str) -> None:
    assert not in_most_prompts(phrase)
    assert phrase_warnings([phrase]) == []


@pytest.mark.parametrize("phrase", ["the", "of the", "why?", "(what)", "'how'", "The", "it is"])
def test_a_word_of_any_prompt_is_too_general_whatever_stands_around_it(phrase: str) -> None:
    assert list(map(str, phrase_warnings([phrase]))) == [
        f"trigger phrase {phrase!r} will match most prompts; give longer ones"
    ]


@pytest.mark.parametrize("phrase", ["ab", "x", "---", "缓", "🚀", "!?", "42", "\u200b\u200b\u200b", "…"])
def test_a_phrase_that_can_never_match_is_told(phrase: str) -> None:
    (told,) = phrase_warnings([phrase])
    assert "can never match" in told
    assert not Matcher([(1, phrase)]).match(f"a {phrase} b")


def test_doubts_name_all_phrases_of_a_kind_at_once() -> None:
    message = list(map(str, phrase_warnings(["ab", "the", "harbour lamp", "!!!", "x", "of the", "-- --"])))
    assert message == [
        "trigger phrases '!!!', '-- --' can never match: a phrase needs letters, digits or emoji",
        "trigger phrases 'ab', 'x' can never match: give three characters or more, two in a script without case",
        "trigger phrases 'the', 'of the' will match most prompts; give longer ones",
    ]
