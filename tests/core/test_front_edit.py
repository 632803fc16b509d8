"""A change to front matter touches what it names and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import front_matter
from spec_kit_memory.core.front_edit import unite_front_matter
from spec_kit_memory.core.markdown import edit_front_matter, parse
from spec_kit_memory.core.memory import ContextType, LinkClaim, Relation, Tier
from spec_kit_memory.errors import BadParameter, Invalid, TooLarge

FILE = (
    '\ufeff<!-- made by hand -->\r\n---\r\ntitle: "Old"   # keep me\r\n\r\n# a remark\r\n'
    "importanceTier:   # none yet\r\n"
    "triggerPhrases:\r\n  - one\r\n  # inside\r\n  - two # why\r\n\r\n# tail\r\nother: |\r\n  a\r\n\r\n  b\r\n"
    "list: [1,\r\n  2]\r\n---\r\n\r\n# Body\r\n"
)


def test_one_value_changes_and_every_other_byte_stays() -> None:
    assert edit_front_matter(FILE, {"title": 'New: "x"'}) == FILE.replace('"Old"', '"New: \\"x\\""')


def test_an_empty_value_is_filled_before_its_comment() -> None:
    edited = edit_front_matter(FILE, {"tier": Tier.CRITICAL})
    assert edited == FILE.replace("importanceTier:   # none yet", "importanceTier: critical   # none yet")


def test_a_list_is_replaced_in_the_spelling_of_the_file() -> None:
    edited = edit_front_matter(FILE, {"triggers": ["three"]})
    assert edited == FILE.replace("  - one\r\n  # inside\r\n  - two # why\r\n", '  - "three"\r\n')


def test_none_removes_a_key_and_leaves_the_comments_around_it() -> None:
    edited = edit_front_matter(FILE, {"triggers": None, "title": None})
    assert "# a remark\r\n" in edited
    assert "# tail\r\n" in edited
    assert parse(edited[1:]).front.triggers == ()
    assert parse(edited[1:]).title == "Body"


def test_a_new_key_goes_to_the_end_of_the_front_matter() -> None:
    edited = edit_front_matter(FILE, {"context_type": ContextType.DECISION})
    assert edited == FILE.replace("  2]\r\n---", "  2]\r\ncontext_type: decision\r\n---")


def test_a_file_without_front_matter_gets_one() -> None:
    assert edit_front_matter("# Body\n", {"title": "T", "tier": None}) == "---\ntitle: T\n---\n# Body\n"
    assert (
        edit_front_matter("\ufeff# B\r\n", {"tier": "normal"})
        == "\ufeff---\r\nimportance_tier: normal\r\n---\r\n# B\r\n"
    )
    assert edit_front_matter("---\n\nrule above\n", {"title": "T"}).startswith("---\ntitle: T\n---\n---\n\nrule")


def test_removing_what_is_not_there_changes_nothing() -> None:
    assert edit_front_matter("# Body\n", {"title": None}) == "# Body\n"
    assert edit_front_matter(FILE, {"channel": None}) == FILE


def test_a_second_spelling_of_the_same_key_cannot_outlive_a_change() -> None:
    edited = edit_front_matter("---\ntier: normal\nimportance_tier: critical\n---\n", {"tier": "important"})
    assert edited == "---\ntier: important\n---\n"


def test_front_matter_in_braces_is_written_as_lines() -> None:
    edited = edit_front_matter("---\n{title: a, count: 3}\n---\nx", {"title": "b"})
    assert edited == "---\ncount: 3\ntitle: b\n---\nx"


def test_indented_keys_stay_indented() -> None:
    edited = edit_front_matter("---\n  title: a\n---\n", {"tier": "normal", "title": "b"})
    assert edited == "---\n  title: b\n  importance_tier: normal\n---\n"


def test_a_removal_also_reaches_the_metadata_block() -> None:
    text = (
        "---\nchannel: a\n---\n# T\n<!-- ANCHOR:metadata -->\n```yaml\nchannel: b\nsession_id: s\n```\n"
        "<!-- /ANCHOR:metadata -->\n"
    )
    edited = edit_front_matter(text, {"channel": None})
    assert edited == text.replace("channel: a\n", "").replace("channel: b\n", "")


def test_links_are_written_by_their_keys_and_read_back() -> None:
    claims = (
        LinkClaim(Relation.CAUSED, "12", inward=True),
        LinkClaim(Relation.SUPPORTS, "x: y.md", strength=0.5),
        LinkClaim(Relation.SUPERSEDES, "A title", strength=0.8),
    )
    assert parse(edit_front_matter("text", {"causal_links": claims})).front.links == claims
    by_key = {"enabled_by": ["a"], "contradicts": "b"}
    assert parse(edit_front_matter("text", {"causal_links": by_key})).front.links == (
        LinkClaim(Relation.ENABLED, "a", inward=True),
        LinkClaim(Relation.CONTRADICTS, "b"),
    )


def test_broken_front_matter_is_not_touched() -> None:
    with pytest.raises(Invalid, match="line 3") as raised:
        edit_front_matter("---\ntitle: [\n---\n", {"title": "x"})
    assert "---" in raised.value.hint


@pytest.mark.parametrize(
    "changes",
    [
        {"colour": "red"},
        {"title": 3},
        {"triggers": 3},
        {"causal_links": "x"},
        {"causal_links": [LinkClaim(Relation.CAUSED, "x")]},
    ],
)
def test_what_front_matter_cannot_say_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BadParameter):
        edit_front_matter("x", changes)


WORDS = st.text(st.characters(codec="utf-8"), max_size=30)
MOMENTS = st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2200, 1, 1), timezones=st.just(UTC))
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "title": st.one_of(st.none(), WORDS),
        "triggers": st.one_of(st.none(), st.lists(WORDS, max_size=4)),
        "tier": st.one_of(st.none(), st.sampled_from(Tier)),
        "context_type": st.one_of(st.none(), st.sampled_from(ContextType)),
        "weight": st.one_of(st.none(), st.floats(min_value=0, max_value=1)),
        "created_at": st.one_of(st.none(), MOMENTS),
        "expires_at": st.one_of(st.none(), MOMENTS),
        "spec_folder": st.one_of(st.none(), WORDS),
        "session_id": st.one_of(st.none(), WORDS),
        "channel": st.one_of(st.none(), WORDS),
    },
)
FILES = st.sampled_from(
    [
        "",
        "# Body\n",
        FILE,
        "---\n---\nx",
        "---\ntitle: a\ntier: normal\ntriggers: [a, b]\ncreated: 2026-01-01\n---\ntext\n",
        "---\ntitle: >-\n  folded\n  title\n\ntriggers:\n- x\n- y\nkeep: {a: 1}\nchannel: 'q'\n---\ntext\n",
        "---\n{title: a, keep: [1, 2]}\n---\ntext\n",
        "---\n? title\n: odd\nkeep: 1\n---\ntext\n",
        "---\ntitle: 'multi\n  line'\nspec_folder: 007-x # c\nsessionId: s\nkeep: |\n  # not a comment\n---\ntext\n",
    ]
)


def folded(value: object) -> object:
    return " ".join(value.split()) or None if isinstance(value, str) else value


@given(FILES, CHANGES)
def test_what_was_written_is_read_back_and_the_rest_is_as_it_was(text: str, changes: dict[str, object]) -> None:
    before = parse(text.removeprefix("\ufeff"))
    after = parse(edit_front_matter(text, changes).removeprefix("\ufeff"))
    for name in ("title", "tier", "context_type", "weight", "created_at", "expires_at", "spec_folder", "session_id"):
        expected = folded(changes[name]) if name in changes else getattr(before.front, name)
        assert getattr(after.front, name) == expected, name
    if "triggers" in changes:
        phrases = [folded(item) for item in (changes["triggers"] or ())]  # type: ignore[attr-defined]
        unique = {str(phrase).casefold(): phrase for phrase in reversed(phrases) if phrase}
        assert sorted(map(str, after.front.triggers)) == sorted(map(str, unique.values()))
    else:
        assert after.front.triggers == before.front.triggers
    body = before.text.split("\n")[before.body_first_line - 1 :]
    assert after.text.split("\n")[after.body_first_line - 1 :] == body


@given(FILES, CHANGES)
def test_the_same_change_twice_is_the_same_as_once(text: str, changes: dict[str, object]) -> None:
    once = edit_front_matter(text, changes)
    assert edit_front_matter(once, changes) == once


@pytest.mark.parametrize(
    "text",
    ["# Body\n", "---\ntitle: T\ntier: critical\n---\n# Body\n", "---\n{title: T, tier: critical}\n---\n# Body\n"],
    ids=["without front matter", "by line", "on one line"],
)
@pytest.mark.parametrize("phrase", ["x" * front_matter.MAX_CHARACTERS, "[" * (front_matter.MAX_BRACKETS + 1)])
def test_front_matter_that_would_not_be_read_is_not_written(text: str, phrase: str) -> None:
    """Not even the tier and the title would be read from it."""
    with pytest.raises(TooLarge, match="front matter would be too long"):
        edit_front_matter(text, {"triggers": [phrase]})


def test_nor_is_it_when_keys_of_another_text_are_added() -> None:
    other = f"---\nmine: {'x' * (front_matter.MAX_CHARACTERS - 10)}\n---\n# Body\n"
    with pytest.raises(TooLarge, match="front matter would be too long"):
        unite_front_matter("---\ntier: critical\n---\n# Body\n", other)
