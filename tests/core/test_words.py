"""Words for the text index, tried on the real tokenizer of SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spec_kit_memory.core import words

Finds = Callable[[str, str], bool]


@pytest.fixture(scope="module")
def finds() -> Finds:
    """Does a query, as terms, find a text, as indexed?"""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE passage USING fts5(text, tokenize = 'porter unicode61 remove_diacritics 2')")

    def find(query: str, text: str) -> bool:
        database.execute("DELETE FROM passage")
        database.execute("INSERT INTO passage VALUES (?)", (words.for_index(text),))
        terms = words.for_query(query)
        expression = " AND ".join('"' + term.replace('"', '""') + '"' for term in terms)
        return (
            bool(terms)
            and database.execute("SELECT 1 FROM passage WHERE passage MATCH ?", (expression,)).fetchone() is not None
        )

    return find


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Plain English text, with punctuation; and 42 numbers.",
        "Dashes — arrows → and “quotes” are common in notes.",
        "snake_case and kebab-case and file.py need nothing",
        "El niño habló en voz baja über die Größe".replace("ß", "s"),
        "URLs, APIs and PRs are no names with humps",
    ],
)
def test_text_that_needs_nothing_is_returned_as_it_is(text: str) -> None:
    assert words.for_index(text) is text


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("数据库", "我们选择了数据库的迁移方案"),
        ("移", "我们选择了数据库的迁移方案"),
        ("迁移 SQLite", "使用SQLite迁移数据"),
        ("検索", "全文検索エンジンを使う"),
        ("エンジン", "全文検索エンジンを使う"),
        ("ｴﾝｼﾞﾝ", "全文検索エンジンを使う"),
        ("ค้นหา", "ระบบค้นหาความจำ"),
        ("ความจำ", "ระบบค้นหาความจำ"),
        ("데이터", "데이터베이스를 선택했다"),
        ("데이터베이스", "데이터베이스를 선택했다"),
        ("ទិន្នន័យ", "មូលដ្ឋានទិន្នន័យថ្មី"),
        ("𠮷野", "𠮷野家の会議"),
    ],
)
def test_scripts_without_spaces_are_found_by_a_part(finds: Finds, query: str, text: str) -> None:
    assert finds(query, text)


def test_characters_in_another_order_are_not_the_same_word(finds: Finds) -> None:
    assert not finds("京東", "東京都")
    assert not finds("กา", "กิน")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("памяти", "Долгая память агента"),
        ("решение", "Мы приняли решения вчера"),
        ("елка", "Ёлка"),
        ("كتاب", "قرأت الكتاب أمس"),
        ("الكتاب", "هذا كتاب"),
        ("كتب", "كَتَبَ الرسالة"),
        ("decision", "Las decisiones y decision"),
        ("accion", "La acción"),
        ("STRASSE", "Die Straße"),
        ("straße", "STRASSE"),
        ("istanbul", "İstanbul"),
        ("हिन्दी", "यह हिन्दी में है"),
        ("ﬁle", "a file"),
        ("ＡＢＣ", "abc"),
        ("Λόγος", "ΛΌΓΟΣ"),
        ("naive", "na\u0131\u0308ve naïve"),
    ],
)
def test_other_spellings_of_a_word_find_it(finds: Finds, query: str, text: str) -> None:
    assert finds(query, text)


def test_a_hindi_word_is_not_cut_at_its_vowel_signs(finds: Finds) -> None:
    assert not finds("हद", "हिन्दी")
    assert not finds("द", "हिन्दी")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("rerank budget", "set rerankBudget to 50"),
        ("rerankbudget", "set rerankBudget to 50"),
        ("rerankBudget", "the rerank budget"),
        ("http response", "call getHTTPResponse()"),
        ("memory search", "call memory_search now"),
        ("memory_search", "call memory_search now"),
        ("spec-kit-memory", "install spec-kit-memory"),
        ("kit", "install spec-kit-memory"),
        ("ranking.py", "see core/ranking.py"),
        ("ranking", "see core/ranking.py"),
        ("v1.2.3", "since v1.2.3"),
        ("E040", "error E040: nothing to search"),
        ("e040", "error E040: nothing to search"),
        ("#123", "fixed in #123"),
        ("123", "fixed in #123"),
    ],
)
def test_names_are_found_whole_and_by_part(finds: Finds, query: str, text: str) -> None:
    terms = words.for_query(query)
    assert terms
    # A part of a name may be missing elsewhere: any term may find it, as in a search.
    assert any(finds(term, text) for term in terms)


def test_a_version_is_also_looked_up_whole(finds: Finds) -> None:
    assert "v1 2 3" in words.for_query("what changed in v1.2.3?")
    assert not finds("v1.2.3", "v1 came with 3 and 2")


def test_common_words_are_left_out_when_others_remain() -> None:
    assert words.for_query("how does the ranking work") == ("ranking", "work")
    assert words.for_query("почему мы выбрали это") == words.for_query("выбрали")
    assert words.for_query("what is it") == ("what", "is", "it")


def test_words_that_mean_something_to_developers_are_no_common_words() -> None:
    assert words.for_query("ai ci os mit comment bin") == ("ai", "ci", "os", "mit", "comment", "bin")


def test_terms_keep_their_order_and_stand_once() -> None:
    assert words.for_query("zebra apple Zebra APPLE mango") == ("zebra", "apple", "mango")


def test_a_long_query_keeps_its_most_telling_terms() -> None:
    text = " ".join(["ab"] + [f"word{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(200)] + ["E040"])
    terms = words.for_query(text)
    assert len(terms) == words.MOST_TERMS
    assert "e040" in terms
    assert "ab" not in terms


@pytest.mark.parametrize("text", ['"' * 10_000, "aB" * 5_000, "a." * 5_000, "_" * 10_000, "東" * 10_000, "а" * 10_000])
def test_long_and_odd_queries_are_bounded(text: str) -> None:
    assert len(words.for_query(text)) <= words.MOST_TERMS


@pytest.mark.parametrize("text", ["\ud800 lone", "nul \x00 byte", "中\udfff文"])
def test_what_no_database_takes_is_left_out(text: str) -> None:
    assert "\x00" not in words.for_index(text)
    words.for_index(text).encode("utf-8")
    " ".join(words.for_query(text)).encode("utf-8")


ANY_TEXT = st.text(alphabet=st.characters(), max_size=80)


@settings(deadline=None)
@given(ANY_TEXT)
def test_no_query_is_an_error_in_the_index(text: str) -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE passage USING fts5(text, tokenize = 'porter unicode61 remove_diacritics 2')")
    for term in words.for_query(text):
        assert term.strip() == term
        database.execute("SELECT 1 FROM passage WHERE passage MATCH ?", (f'"{term}"',)).fetchall()
    database.close()


UNSPACED = st.text(alphabet="東京都の検索エンジン数据库迁移ค้นหากิน데이터베이스", min_size=2, max_size=12)


@settings(deadline=None)
@given(text=UNSPACED, data=st.data())
def test_every_part_of_a_run_without_spaces_is_found(finds: Finds, text: str, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(text) - 1))
    part = text[first : data.draw(st.integers(first + 1, len(text)))]
    assert finds(part, text)


def test_stems_compare_the_forms_of_a_word() -> None:
    assert words.stem("decisions") == words.stem("decision")
    assert words.stem("policies") == words.stem("policy")
    assert words.stem("class") == "class"


def test_plain_words_have_the_parts_of_names() -> None:
    assert words.plain("The rerankBudget") == ("the", "rerankbudget", "rerank", "budget")


def test_content_words_are_readable() -> None:
    assert words.content("Why did we choose 数据库 over file.py?") == ("choose", "数据库", "file", "py")
