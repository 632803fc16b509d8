"""Two texts beside each other: is every word marked that only one of them has, and nothing else?"""

from __future__ import annotations

import re

import pytest

from spec_kit_memory.features import examine
from spec_kit_memory.serve.page import document
from spec_kit_memory.serve.page.side_by_side import html_of_both
from tests.serve.page.conftest import Page, written


def marked(html: str) -> list[str]:
    return re.findall(r"<mark>(.*?)</mark>", html)


@pytest.mark.parametrize(
    ("one", "other", "only_one", "only_other"),
    [
        ("Swap at 15 %.", "Swap at 20 %.", ["15"], ["20"]),
        ("Swap at **15** %.", "Swap at **20** %.", ["15"], ["20"]),
        ("# A title\n\nsame", "# The title\n\nsame", ["A"], ["The"]),
        ("- a\n- b", "- a\n- b\n- never", [], ["never"]),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |\n|---|---|\n| 1 | 3 |", ["2"], ["3"]),
        ("```\nport = 80\n```", "```\nport = 81\n```", ["80"], ["81"]),
        ("Same words.\n\nOther order.", "Other order.\n\nSame words.", ["Other", "order"], ["Other", "order"]),
        ("", "all new", [], ["all", "new"]),
        ("The Same", "the same", [], []),
    ],
)
def test_words_of_one_side_are_marked(one: str, other: str, only_one: list[str], only_other: list[str]) -> None:
    first, second = html_of_both(one, other)
    assert (marked(first), marked(second)) in ((only_one, only_other), (only_other, only_one))


@pytest.mark.parametrize(
    "text",
    [
        "[a link](https://example.org/other/way 'title')",
        "[a link](../other/way.md)",
        "<https://example.org/other>",
        "![picture](https://example.org/other.png)",
        "<script>alert('other')</script>",
        "<b title=other>other</b>",
        "&lt;script&gt; &amp;other; &#x6f;",
        "\ue000<script>\ue001 \ue001\ue000",
        "```other\n<x>\n```",
        "other " * 3_000,
        "other\n" * 5_000,
        "<" * 100_000,
        "](" * 50_000,
        "a" * 200_000,
    ],
)
def test_marks_change_no_address_and_let_nothing_through(text: str) -> None:
    for first, second in ((text, "what was"), ("what was", text)):
        for html in html_of_both(first, second):
            assert not re.search("[\ue000\ue001]|%EE%80%8[01]", html)
            assert html.count("<mark>") == html.count("</mark>")
            assert "<script" not in html
            plain = [
                document.html_of(side.replace("\ue000", "\ufffd").replace("\ue001", "\ufffd"))
                for side in (first, second)
            ]
            assert re.sub("</?mark>", "", html) in plain


def test_long_texts_of_the_same_few_lines_are_compared_in_little_work() -> None:
    """Aligning every empty line of a text with every other one took minutes here."""
    one = "\n".join(f"line {number} of one\n" for number in range(950))
    other = "\n".join(f"row {number} of another\n" for number in range(950))
    assert "another" in marked(html_of_both(one, other)[1])
    assert [line.kind for line in examine._diff("x\ny\n" * 2_400, "y\nx\nz\n" * 1_600)].count("added") >= 1_600
    kept = "\n".join(f"line {number}\n" for number in range(2_000))
    changed = [
        line for line in examine._diff(kept, kept.replace("line 7\n", "line seven\n")) if line.old_line != line.new_line
    ]
    assert [(line.kind, line.text) for line in changed if line.text.startswith("line")] == [
        ("removed", "line 7"),
        ("added", "line seven"),
    ]


def test_two_memories_are_compared_word_by_word(page: Page) -> None:
    written(page.root, "memory/low.md", "# Low\n\nSwap the battery below fifteen percent.\n")
    written(page.root, "memory/lower.md", "# Low\n\nSwap the battery below twenty percent.\n")
    written(page.root, "memory/again.md", "# Low\n\nSwap the battery below **twenty** percent.\n")
    page.workspace.index()
    low, lower, again = (
        next(card.id for card in page.workspace.list(limit=50).memories if card.path.endswith(name))
        for name in ("/low.md", "/lower.md", "/again.md")
    )
    assert marked(page.text(f"/memory/{low}/similar?with={lower}")) == ["marked", "fifteen", "twenty"]
    assert "The words of both are the same" in page.text(f"/memory/{lower}/similar?with={again}")
    replaced = page.post(f"/memory/{lower}/link", after="/search", relation="supersedes", target=str(low))
    assert "supersedes" in replaced.text
    assert page.workspace.why(lower).steps
