"""Passages are runs of lines that belong together, exact, in order, and none is lost."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import tokens
from spec_kit_memory.core.markdown import lines, parse
from spec_kit_memory.core.memory import Conversation, Document, Passage, Turn, embedded
from spec_kit_memory.core.passages import FENCE_TOKENS, LARGE_TOKENS, split, turns


def words(count: int, word: str = "word") -> str:
    """A paragraph of about `count` tokens on lines of eight words."""
    many = [f"{word}{number:03d}" for number in range(count * 4 // (len(word) + 4))]
    return "\n".join(" ".join(many[start : start + 8]) for start in range(0, len(many), 8))


def shown(text: str) -> list[str]:
    return [passage.text for passage in split(parse(text))]


def check(document: Document, passages: tuple[Passage, ...]) -> None:
    last = 0
    for ordinal, passage in enumerate(passages):
        assert passage.ordinal == ordinal
        assert last < passage.first_line <= passage.last_line
        assert passage.text == lines(document, passage.first_line, passage.last_line)
        assert passage.text.strip()
        assert passage.tokens == tokens.count(passage.text)
        read = embedded(passage.headings, passage.text)
        assert passage.hash == hashlib.sha256(read.encode("utf-8", "surrogatepass")).hexdigest()
        last = passage.last_line


def test_sections_of_fair_size_are_passages_with_their_path_and_lines() -> None:
    first, second = words(220, "a"), words(220, "b")
    document = parse(f"---\ntitle: t\n---\n# Top\n\n## One\n\n{first}\n\n## Two\n\n{second}\n")
    one, two = split(document)
    check(document, (one, two))
    assert one.text == f"# Top\n\n## One\n\n{first}"
    assert one.headings == ("Top", "One")
    assert (one.first_line, two.headings) == (4, ("Top", "Two"))


def test_short_sections_under_one_heading_are_put_together() -> None:
    (passage,) = split(parse("# Top\n\nIntro.\n\n## One\n\nshort\n\n## Two\n\nalso short\n"))
    assert passage.headings == ("Top",)
    assert passage.text.startswith("# Top")
    assert passage.text.endswith("also short")


def test_a_short_section_is_not_put_together_with_another_chapters() -> None:
    text = (
        f"# Top\n\n## One\n\n{words(150)}\n\n### Deep\n\n{words(300)}\n\n### Deeper\n\nshort\n\n## Two\n\nshort too\n"
    )
    assert shown(text)[-1] == "## Two\n\nshort too"


def test_a_bare_heading_goes_with_the_text_below_it_and_never_ends_a_passage() -> None:
    passages = shown(f"# Top\n\n{words(150)}\n\n## Chapter\n\n### Part\n\n{words(300)}\n")
    assert len(passages) == 2
    assert passages[1].startswith("## Chapter\n\n### Part\n\nword000")


def test_a_long_section_is_cut_into_equal_parts_at_paragraphs() -> None:
    text = "# Top\n\n" + "\n\n".join(words(90, chr(97 + number) * 3) for number in range(9))
    passages = split(parse(text))
    assert all(150 <= passage.tokens <= LARGE_TOKENS for passage in passages)
    assert {passage.headings for passage in passages} == {("Top",)}
    assert "\n\n".join(passage.text for passage in passages) == text


def test_a_fence_is_not_cut_if_it_can_be_helped() -> None:
    fence = f"```py\n{words(500)}\n```"
    passages = shown(f"# Top\n\n{words(300, 'x')}\n\n{fence}\n\n{words(300, 'y')}\n")
    assert any(fence in passage for passage in passages)


def test_a_very_long_fence_is_cut_at_line_ends() -> None:
    fence = f"```py\n{words(FENCE_TOKENS * 2)}\n```"
    passages = split(parse(fence))
    assert len(passages) > 2
    assert "\n".join(passage.text for passage in passages) == fence
    assert all(passage.tokens <= LARGE_TOKENS * 1.2 for passage in passages)


def test_table_rows_stay_whole_and_a_table_that_fits_stays_together() -> None:
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| row {number} | {'cell ' * 10}|" for number in range(20))
    passages = shown(f"{words(300)}\n\n{table}\n\n{words(300, 'y')}")
    assert any(table in passage for passage in passages)


def test_a_line_that_announces_a_list_is_not_left_behind() -> None:
    text = f"{words(250)}\n\nThe reasons are these:\n\n" + "\n".join(f"- {'reason ' * 14}{n}" for n in range(12))
    passages = shown(text)
    assert len(passages) == 2
    assert passages[1].startswith("The reasons are these:")


def test_passages_stay_inside_their_anchors() -> None:
    text = (
        "# Top\n<!-- ANCHOR:summary -->\n## Summary\nshort\n<!-- /ANCHOR:summary -->\n---\n"
        "<!-- ANCHOR:state -->\n## State\nshort\n<!-- /ANCHOR:state -->\n\nafter\n"
    )
    assert [(passage.anchor, passage.text.split("\n")[-1]) for passage in split(parse(text))] == [
        ("summary", "short"),
        ("state", "short"),
        ("", "after"),
    ]


def test_short_anchors_inside_one_anchor_are_put_together_under_it() -> None:
    text = (
        "<!-- ANCHOR:decisions -->\n## Decisions\n<!-- ANCHOR:d-1 -->\n### One\na\n<!-- /ANCHOR:d-1 -->\n"
        "<!-- ANCHOR:d-2 -->\n### Two\nb\n<!-- /ANCHOR:d-2 -->\n<!-- /ANCHOR:decisions -->\n"
    )
    (passage,) = split(parse(text))
    assert passage.anchor == "decisions"
    assert passage.headings == ("Decisions",)


def test_a_heading_above_its_anchor_goes_with_the_anchors_text() -> None:
    (passage,) = split(parse("## Structure\n<!-- ANCHOR:structure -->\n\ntext\n<!-- /ANCHOR:structure -->\n"))
    assert passage.anchor == "structure"
    assert passage.text.startswith("## Structure")
    assert passage.text.endswith("text")


METADATA = (
    "## Memory metadata\n\n<!-- ANCHOR:metadata -->\n\n> Machine-readable.\n\n```yaml\ntier: normal\n```\n\n"
    "<!-- /ANCHOR:metadata -->\n\n---\n\n*Generated by a skill v1*\n"
)


def test_front_matter_comments_and_the_metadata_block_are_not_passages() -> None:
    assert shown(f"---\ntitle: t\n---\n<!-- template\n\nnotes -->\n\n# Top\n\ntext\n\n---\n\n{METADATA}") == [
        "# Top\n\ntext"
    ]


def test_when_and_where_a_save_was_made_is_no_passage() -> None:
    facts = "## Metadata\n\n- Saved: 2026-11-16\n- Spec folder: `001-exports`"
    text = f"# Export\n\nIt begins at two.\n\n<!-- ANCHOR:metadata -->\n{facts}\n<!-- /ANCHOR:metadata -->\n"
    assert shown(text) == ["# Export\n\nIt begins at two."]
    assert "- We met in: `001-exports`" in shown(text.replace("- Spec folder", "- We met in"))[-1]


def test_a_metadata_anchor_without_yaml_is_ordinary_text() -> None:
    text = "<!-- ANCHOR:metadata -->\n| Level | 2 |\n<!-- /ANCHOR:metadata -->\n"
    assert shown(text) == ["| Level | 2 |"]


@pytest.mark.parametrize("text", ["---\ntitle: only this\n---\n", METADATA, "<!-- only a comment -->", "---"])
def test_a_file_of_nothing_else_is_still_found(text: str) -> None:
    document = parse(text)
    passages = split(document)
    check(document, passages)
    assert passages


@pytest.mark.parametrize("text", ["", "\n \n\t\n"])
def test_an_empty_file_has_no_passages(text: str) -> None:
    assert split(parse(text)) == ()


PIECES = st.sampled_from(
    [
        *(
            "# h\n",
            "## i\n",
            "### j\n",
            "```\n",
            "```md\n",
            "| a | b |\n",
            "- x\n",
            "---\n",
            "title: a\n",
            "text\n",
            "\n",
        ),
        *(
            "<!-- ANCHOR:a -->\n",
            "<!-- /ANCHOR:a -->\n",
            "<!-- ANCHOR:b -->\n",
            "<!-- /ANCHOR:b -->\n",
            "<!-- c\n",
            "-->\n",
        ),
        *("x" * 900 + "\n", "línea ñ " * 60 + "\n", "\r\n", "<a id='x'></a>\n", METADATA, "[x]: #x\n"),
    ]
)
MARKDOWN = st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=30).map("".join)


@given(MARKDOWN)
def test_passages_are_exact_ordered_and_apart(text: str) -> None:
    document = parse(text)
    check(document, split(document))


@given(st.lists(st.sampled_from(["# h", "## i", "text", "```", "| a |", "- x", "", "y" * 700, "c: d"]), max_size=60))
def test_every_line_that_says_something_is_in_a_passage(parts: list[str]) -> None:
    document = parse("start\n" + "\n".join(parts))
    covered = {number for passage in split(document) for number in range(passage.first_line, passage.last_line + 1)}
    spoken = {number for number, line in enumerate(document.text.split("\n"), 1) if line.strip()}
    assert spoken <= covered


# --- conversations ---------------------------------------------------------------------------


def chat(*spoken: Turn) -> Conversation:
    return Conversation("c1", "Title", spoken)


def test_a_chat_is_one_passage_per_turn_with_time_and_speaker() -> None:
    text, passages = turns(chat(Turn("user", "How?\nTell me.", "2026-01-31 14:05"), Turn("assistant", "So.")))
    assert text == "[2026-01-31 14:05] user: How?\nTell me.\n\nassistant: So."
    assert [(p.first_line, p.last_line, p.speaker, p.headings) for p in passages] == [
        (1, 2, "user", ()),
        (4, 4, "assistant", ()),
    ]


def test_the_later_parts_of_a_long_turn_say_who_spoke() -> None:
    long = "\n\n".join(words(150, chr(97 + number)) for number in range(8))
    text, passages = turns(chat(Turn("user", "short", "t1"), Turn("bot", long, "t2"), Turn("user", "end", "t3")))
    parts = [passage for passage in passages if passage.speaker == "bot"]
    assert len(parts) >= 3
    assert all(part.tokens <= LARGE_TOKENS * 1.2 for part in parts)
    assert [part.headings for part in parts] == [(), *[("[t2] bot",)] * (len(parts) - 1)]
    check(parse(text), passages)


def test_a_fence_list_or_table_in_a_turn_stays_one() -> None:
    text, _ = turns(chat(Turn("bot", "```py\nx\n```"), Turn("bot", "| a |\n|---|"), Turn("bot", "- x\r\n- y")))
    assert text == "bot:\n```py\nx\n```\n\nbot:\n| a |\n|---|\n\nbot:\n- x\n- y"


def test_empty_turns_are_left_out() -> None:
    assert turns(chat(Turn("user", " \n"), Turn("bot", ""))) == ("", ())


@given(
    st.lists(st.builds(Turn, st.sampled_from(["user", "bot\n2"]), MARKDOWN, st.sampled_from(["", "12:00"])), max_size=5)
)
def test_passages_of_any_chat_are_exact_lines_of_its_text(spoken: list[Turn]) -> None:
    text, passages = turns(chat(*spoken))
    every = text.split("\n")
    last = 0
    for ordinal, passage in enumerate(passages):
        assert passage.ordinal == ordinal
        assert last < passage.first_line
        assert passage.text == "\n".join(every[passage.first_line - 1 : passage.last_line])
        assert passage.speaker in ("user", "bot\n2")
        last = passage.last_line


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_file_of_nothing_but_front_matter_has_a_passage(end: str) -> None:
    """Without a last line end it could not be cut, and so not be indexed at all."""
    (only,) = split(parse(f"---\ntitle: Harbour\n---{end}"))
    assert only.text == "title: Harbour"
