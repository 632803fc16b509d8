"""Metadata, anchors and headings are what a careful reader would say, whatever the file looks like."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.markdown import edit_front_matter, find_section, fingerprint, lines, normalise, outline, parse
from spec_kit_memory.core.memory import Anchor, ContextType, Document, LinkClaim, Relation, Tier


def front(yaml: str) -> Document:
    return parse(f"---\n{yaml}\n---\n# Heading\n")


# --- front matter -----------------------------------------------------------------------


@pytest.mark.parametrize("key", ["triggers", "trigger_phrases", "triggerPhrases", "trigger-phrases"])
def test_triggers_are_read_in_every_spelling(key: str) -> None:
    assert front(f"{key}:\n  - one two\n  - three").front.triggers == ("one two", "three")


@pytest.mark.parametrize("key", ["importance_tier", "importanceTier", "tier"])
def test_the_tier_is_read_in_every_spelling(key: str) -> None:
    assert front(f"{key}: Critical").front.tier is Tier.CRITICAL


@pytest.mark.parametrize("key", ["context_type", "contextType"])
def test_the_context_type_is_read_in_every_spelling(key: str) -> None:
    assert front(f'{key}: "research"').front.context_type is ContextType.RESEARCH


@pytest.mark.parametrize("key", ["created", "created_at", "createdAt", "date"])
def test_the_date_is_read_in_every_spelling(key: str) -> None:
    assert front(f"{key}: 2026-01-31").front.created_at == datetime(2026, 1, 31, tzinfo=UTC)


def test_the_other_keys_are_read_in_both_spellings() -> None:
    snake = front("importance_weight: 0.7\nspec_folder: 007-auth\nsession_id: s1\nchannel: main\nexpires: 2026-02-01")
    camel = front("importanceWeight: 0.7\nspecFolder: 007-auth\nsessionId: s1\nchannel: main\nexpires: 2026-02-01")
    assert snake.front == camel.front
    assert snake.front.weight == 0.7
    assert snake.front.spec_folder == "007-auth"
    assert snake.front.session_id == "s1"
    assert snake.front.channel == "main"
    assert snake.front.expires_at == datetime(2026, 2, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("alias", "meant"),
    [
        *((word, ContextType.IMPLEMENTATION) for word in ("debug", "fix", "refactor", "feature", "test")),
        *((word, ContextType.RESEARCH) for word in ("analysis", "review")),
        *((word, ContextType.DECISION) for word in ("planning", "architecture")),
        ("bug", ContextType.DISCOVERY),
    ],
)
def test_context_type_aliases_mean_one_of_the_five(alias: str, meant: ContextType) -> None:
    document = front(f"contextType: {alias}")
    assert document.front.context_type is meant
    assert document.warnings == ()


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ('"2026-01-31"', datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T14:05:06Z", datetime(2026, 1, 31, 14, 5, 6, tzinfo=UTC)),
        ("2026-01-31 14:05:06.5+02:00", datetime(2026, 1, 31, 12, 5, 6, 500_000, tzinfo=UTC)),
        ("2026-01-31 14:05 UTC", datetime(2026, 1, 31, 14, 5, tzinfo=UTC)),
        ("31-01-26", datetime(2026, 1, 31, tzinfo=UTC)),
        ("31-01-26_14-05", datetime(2026, 1, 31, 14, 5, tzinfo=UTC)),
        ("31.01.2026", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026/1/31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("1/31/2026", datetime(2026, 1, 31, tzinfo=UTC)),
        ("January 31, 2026", datetime(2026, 1, 31, tzinfo=UTC)),
        ("31st Jan 2026", datetime(2026, 1, 31, tzinfo=UTC)),
        ("Sat, 31 Jan 2026 14:05:06 +0000", datetime(2026, 1, 31, 14, 5, 6, tzinfo=UTC)),
        ("1769868306", datetime(2026, 1, 31, 14, 5, 6, tzinfo=UTC)),
        ("1769868306000", datetime(2026, 1, 31, 14, 5, 6, tzinfo=UTC)),
        ("20260131", datetime(2026, 1, 31, tzinfo=UTC)),
    ],
)
def test_dates_in_the_usual_forms_are_moments_in_utc(written: str, moment: datetime) -> None:
    assert front(f"created_at: {written}").front.created_at == moment


@pytest.mark.parametrize("written", ["2026-13-45", "soon", "0001-01-01T00:00:00+23:00", "9" * 20])
def test_what_is_no_date_is_a_warning_that_names_it(written: str) -> None:
    document = front(f"title: x\ncreated_at: {written}")
    assert document.front.created_at is None
    assert document.front.title == "x"
    assert [(warning.line, written in warning.message) for warning in document.warnings] == [(3, True)]


def test_an_unknown_tier_is_a_warning_that_names_it_and_nothing_else_is_lost() -> None:
    document = front("title: T\nimportance_tier: HIGH\ncontextType: gossip")
    assert document.front.tier is None
    assert document.front.context_type is None
    assert document.title == "T"
    first, second = document.warnings
    assert (first.line, str(first.message)) == (3, "unknown tier 'HIGH'; did you mean important?")
    assert (second.line, str(second.message).split(";")[0]) == (4, "unknown context type 'gossip'")


@pytest.mark.parametrize("weight", ["1.5", "-0.1", "heavy", "nan"])
def test_a_weight_outside_zero_to_one_is_a_warning(weight: str) -> None:
    document = front(f"importance_weight: {weight}")
    assert document.front.weight is None
    assert weight in document.warnings[0].message


@pytest.mark.parametrize(
    ("yaml", "line", "said"),
    [
        ("supersedes: Old plan", 2, "'supersedes' stands outside causal_links"),
        ("title: x\ncausedBy: [Old plan]", 3, "'causedBy' stands outside causal_links"),
        ("related_to: x", 2, "outside causal_links"),
        ("blocks: x", 2, "outside causal_links"),
        ("triger_phrases: [a b c]", 2, "did you mean trigger_phrases?"),
        ("improtance_tier: critical", 2, "did you mean importance_tier?"),
        ("importance: critical", 2, "did you mean importance_tier?"),
        ("weight: 0.9", 2, "did you mean importance_weight?"),
        ("titel: x", 2, "did you mean title?"),
        ("causal_link: {supports: [x]}", 2, "did you mean causal_links?"),
        ("memory:\n  tier: critical\n  title: x", 2, "'tier', 'title' below 'memory' are not read"),
        ("title: a\ntier: normal\ntitle: b", 4, "the key 'title' is given twice; the last one counts"),
        ("causal_links:\n  supports: [a]\n  supports: [b]", 4, "the key 'supports' is given twice"),
        ("tier: normal\nimportance_tier: critical", 3, "says something else than a key of the same meaning above"),
        ("tier: imporant", 2, "did you mean important?"),
        ("context_type: decission", 2, "did you mean decision?"),
        ("causal_links:\n  superseeds: [x]", 2, "did you mean supersedes?"),
    ],
)
def test_a_key_in_the_wrong_place_or_with_a_slip_in_it_is_told(yaml: str, line: int, said: str) -> None:
    (warning,) = parse(f"---\n{yaml}\n---\n# Title\n").warnings
    assert said in warning.message
    assert warning.line == line


@pytest.mark.parametrize(
    "yaml",
    [
        "tags: [a, b]\nauthor: Ann\nstatus: draft\nversion: 1.2\ntype: note\nupdated: 2026-01-01",
        "data: {a: 1}\nowner: me\nlayout: page\nlang: en\naliases: [x]\ncategory: c\nslug: s",
        "tier: normal\nimportance_tier: normal",
        "questions: [why]",
    ],
)
def test_keys_of_ones_own_are_nobodys_business(yaml: str) -> None:
    assert parse(f"---\n{yaml}\n---\n# Title\n").warnings == ()


def test_a_file_with_a_key_twice_can_still_be_changed() -> None:
    text = "---\ntitle: a\ntier: normal\ntitle: b\n---\n# T\n"
    changed = edit_front_matter(text, {"title": "c"})
    assert changed.count("title:") == 1
    assert parse(changed).title == "c"


def test_a_weight_of_zero_is_a_weight() -> None:
    text = "---\nimportance_weight: 0\n---\n<!-- ANCHOR:metadata -->\n```yaml\nimportance_weight: 0.9\n```\n"
    assert parse(text + "<!-- /ANCHOR:metadata -->").front.weight == 0.0


def test_comments_before_the_front_matter_and_inside_lists_are_fine() -> None:
    comments = "<!-- generated -->\n\n<!-- over\ntwo\n---\nlines -->\n"
    document = parse(f"{comments}---\ntriggers:\n  # first\n  - one\n\n  # then\n  - two # why\n---\nbody")
    assert document.front.triggers == ("one", "two")
    assert document.body_first_line == 15
    assert lines(document, document.body_first_line, 99) == "body"


def test_triggers_may_be_a_line_with_commas_and_are_not_doubled() -> None:
    assert front("triggers: one, Two, two , ,three").front.triggers == ("one", "Two", "three")


def test_a_trigger_with_a_colon_is_read_as_it_was_meant() -> None:
    assert front("triggers:\n  - error: disk full\n  - 42\n  - null").front.triggers == ("error: disk full", "42")


def test_yaml_does_not_turn_a_title_into_something_else() -> None:
    assert front("title: yes").title == "yes"
    assert front("title: 2026-01-31").title == "2026-01-31"
    assert front("title: 007").title == "007"
    assert front("title: null").title == "Heading"
    assert front('title: "null"').title == "null"


def test_links_point_the_way_their_key_says() -> None:
    document = front(
        "causal_links:\n  caused_by: [12]\n  enabled_by:\n    - a/b.md\n  supersedes: Old title\n"
        "  contradicts: [c]\n  derived_from: [d]\n  supports: [e]\n  related_to: [f]\n"
    )
    assert document.front.links == (
        LinkClaim(Relation.CAUSED, "12", inward=True),
        LinkClaim(Relation.ENABLED, "a/b.md", inward=True),
        LinkClaim(Relation.SUPERSEDES, "Old title"),
        LinkClaim(Relation.CONTRADICTS, "c"),
        LinkClaim(Relation.DERIVED_FROM, "d"),
        LinkClaim(Relation.SUPPORTS, "e"),
        LinkClaim(Relation.SUPPORTS, "f", strength=0.5),
    )
    assert document.warnings == ()


def test_blocks_makes_no_link_and_warns_only_when_it_says_something() -> None:
    assert front("causalLinks:\n  blocks: []").warnings == ()
    document = front("causalLinks:\n  blocks: [x]\n  inspired_by: [y]")
    assert document.front.links == ()
    assert ["blocks" in document.warnings[0].message, "inspired_by" in document.warnings[1].message] == [True, True]


def test_broken_yaml_is_a_warning_with_its_line_and_the_text_is_still_read() -> None:
    document = parse('---\ntitle: ok\ntier: "open\nx: [1\n---\n# From the heading\n\ntext')
    assert document.title == "From the heading"
    assert document.front.tier is None
    assert document.warnings[0].code == "yaml"
    assert document.warnings[0].line in (3, 4, 5)
    assert document.body_first_line == 6


@pytest.mark.parametrize(
    ("yaml", "reason"),
    [
        ("a: &a [x]\nb: [*a, *a]", "aliases"),
        ("title: " + "x" * 70_000, "characters"),
        ("a: " + "[" * 2_000, "brackets"),
        ("a:\n" + "- " * 5_000 + "x", "levels deep"),
    ],
)
def test_hostile_yaml_is_refused_with_a_warning(yaml: str, reason: str) -> None:
    document = front(yaml)
    assert document.title == "Heading"
    assert reason in document.warnings[0].message


def test_yaml_tags_construct_nothing() -> None:
    assert front('title: !!python/object/apply:os.system ["true"]').title == "true"


def test_an_asterisk_is_not_an_alias() -> None:
    assert front('title: "**bold** and 2 * 3"').title == "**bold** and 2 * 3"


@pytest.mark.parametrize(
    "text",
    ["---\nJust prose between rules.\n\n---\nmore", "---\n- a list\n---\nmore", "---\ntitle: never closed\nmore"],
)
def test_text_between_rules_is_not_front_matter(text: str) -> None:
    document = parse(text)
    assert document.body_first_line == 1
    assert document.front.title is None


# --- only front matter and the metadata block count -----------------------------------------


def test_tier_words_in_prose_comments_fences_and_tables_change_nothing() -> None:
    text = (
        "<!-- importance_tier: constitutional -->\n# Rules\n\nimportance_tier: constitutional\n\n"
        "```yaml\nimportance_tier: constitutional\n```\n\n| Importance Tier | constitutional |\n\n---\n"
        "importance_tier: constitutional\n---\n"
    )
    assert parse(text).front.tier is None


BLOCK = (
    '```yaml\n# Core\nsession_id: "s-1"\nimportance_tier: important  # constitutional|critical\n'
    'context_type: research\ncreated_at: "2026-02-05"\ntrigger_phrases:\n\n  []\n\ncausal_links:\n'
    "  caused_by:\n    - 7\n  blocks:\n\n    []\n```\n"
)


@pytest.mark.parametrize("name", ["metadata", "Metadata", "metadata-session-17/a-b_c"])
def test_the_metadata_block_sets_what_front_matter_does_not(name: str) -> None:
    document = parse(f"---\ntier: critical\n---\n# T\n<!-- ANCHOR:{name} -->\n{BLOCK}<!-- /ANCHOR:{name} -->\n")
    assert document.front.tier is Tier.CRITICAL
    assert document.front.context_type is ContextType.RESEARCH
    assert document.front.session_id == "s-1"
    assert document.front.created_at == datetime(2026, 2, 5, tzinfo=UTC)
    assert document.front.links == (LinkClaim(Relation.CAUSED, "7", inward=True),)


@pytest.mark.parametrize(
    "text",
    [
        f"<!-- ANCHOR:summary -->\n{BLOCK}<!-- /ANCHOR:summary -->",
        f"<!-- ANCHOR:metadatas -->\n{BLOCK}<!-- /ANCHOR:metadatas -->",
        f"<!-- ANCHOR:metadata -->\n{BLOCK}",
        f"````markdown\n<!-- ANCHOR:metadata -->\n{BLOCK}<!-- /ANCHOR:metadata -->\n````",
    ],
)
def test_yaml_outside_a_whole_metadata_anchor_sets_nothing(text: str) -> None:
    assert parse(text).front.tier is None


# --- titles and headings ----------------------------------------------------------------------


def test_the_title_is_front_matter_else_the_first_heading_of_level_one_else_nothing() -> None:
    assert parse("---\ntitle: A\n---\n# B").title == "A"
    assert parse("## C\n\n# B\n\n# D").title == "B"
    assert parse("Underlined\n==========\n\ntext").title == "Underlined"
    assert parse("## C\n\ntext").title == ""


def test_a_title_has_no_markup() -> None:
    assert (
        parse("# **Bold** `code` [link](http://x.y) _it_ snake_case_name #\n").title
        == "Bold code link it snake_case_name"
    )


def test_headings_have_level_slug_and_range() -> None:
    document = parse("# One\ntext\n## Two & Three!\n\nmore\n## Two & Three!\nx\n# Four {#quatre}\n")
    assert [(h.level, h.text, h.slug, h.first_line, h.last_line) for h in document.headings] == [
        (1, "One", "one", 1, 7),
        (2, "Two & Three!", "two--three", 3, 5),
        (2, "Two & Three!", "two--three-1", 6, 7),
        (1, "Four", "quatre", 8, 8),
    ]


def test_underlined_headings_count_and_rules_do_not() -> None:
    document = parse("One\n===\n\nTwo\n---\n\n- item\n---\n\n| a |\n---\n\n---\n\ntext\nmore\n---\n")
    assert [(heading.level, heading.text) for heading in document.headings] == [(1, "One"), (2, "Two")]


def test_what_stands_in_fences_and_comments_is_no_heading_and_no_anchor() -> None:
    text = (
        "```\n# no\n<!-- ANCHOR:a -->\n```\n~~~md\n# no\n~~~\n<!--\n# no\n-->\n- ```sh\n  # no\n  ```\n"
        "`<!-- ANCHOR:b -->` is how it looks\n# yes\n"
    )
    document = parse(text)
    assert [heading.text for heading in document.headings] == ["yes"]
    assert document.anchors == ()
    assert document.warnings == ()


def test_a_fence_inside_fenced_markdown_does_not_end_it() -> None:
    document = parse("```markdown\n```js\nx\n```\n# no\n```\n# yes\n")
    assert [heading.text for heading in document.headings] == ["yes"]


def test_a_fence_that_nothing_closes_is_a_warning_and_hides_nothing() -> None:
    document = parse("# one\n```js\ncode\n\n# two\n")
    assert [heading.text for heading in document.headings] == ["one", "two"]
    assert [(warning.line, warning.code) for warning in document.warnings] == [(2, "fence")]


# --- anchors ------------------------------------------------------------------------------------


def test_anchors_have_the_lines_between_their_tags() -> None:
    document = parse(
        "<!-- ANCHOR:a -->\none\ntwo\n<!-- /ANCHOR:a -->\n<!--anchor: B/1_x-y-->\n<!-- /Anchor:b/1_X-y -->"
    )
    assert document.anchors == (Anchor("a", 2, 3), Anchor("B/1_x-y", 6, 5))
    assert document.warnings == ()


def test_anchors_may_nest_and_share_a_line_with_text() -> None:
    document = parse("## H <!-- ANCHOR:out -->\n<!-- ANCHOR:in -->text<!-- /ANCHOR:in -->\nmore <!-- /ANCHOR:out -->\n")
    assert document.anchors == (Anchor("out", 2, 3), Anchor("in", 2, 2))
    assert document.headings[0].text == "H"


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("x\n<!-- ANCHOR:a -->\ntext", 2, "never closed"),
        ("x\n\n<!-- /ANCHOR:a -->", 3, "never opened"),
        ("<!-- ANCHOR:a -->\n<!-- /ANCHOR:a -->\n<!-- ANCHOR:A -->\n<!-- /ANCHOR:A -->", 3, "repeated"),
        ("<!-- ANCHOR:a b -->", 1, "no valid id"),
    ],
)
def test_an_anchor_that_is_not_whole_is_a_warning_with_its_line(text: str, line: int, word: str) -> None:
    warnings = parse(text).warnings
    assert [(warning.line, warning.code) for warning in warnings] == [(line, "anchor")]
    assert word in warnings[0].message


SECTIONS = (
    "<!-- ANCHOR:decisions-long-name -->\n1\n<!-- /ANCHOR:decisions-long-name -->\n<!-- ANCHOR:decisions-x -->\n2\n"
    "<!-- /ANCHOR:decisions-x -->\n<!-- ANCHOR:Summary -->\n3\n<!-- /ANCHOR:Summary -->\n"
    "# Next Steps\n4\n# Last {#end}\n5"
)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ("decisions-long-name", "1"),
        ("decisions", "2"),
        ("SUMMARY", "3"),
        ("next-steps", "# Next Steps\n4"),
        ("end", "# Last {#end}\n5"),
        ("last", "# Last {#end}\n5"),
    ],
)
def test_a_section_is_found_by_id_by_beginning_or_by_heading(wanted: str, text: str) -> None:
    document = parse(SECTIONS)
    section = find_section(document, wanted)
    assert section is not None
    assert lines(document, section.first_line, section.last_line) == text


@pytest.mark.parametrize("wanted", ["decision", "sum", "", "nothing"])
def test_a_section_that_is_not_there_is_not_found(wanted: str) -> None:
    assert find_section(parse(SECTIONS), wanted) is None


# --- lines, fingerprint ---------------------------------------------------------------------------


def test_line_ends_become_one_kind_and_lines_stay_true() -> None:
    document = parse("---\r\ntitle: x\r\n---\r\na\rb\n# c\r\n")
    assert document.text == "---\ntitle: x\n---\na\nb\n# c\n"
    assert document.headings[0].first_line == 6


def test_a_fingerprint_ignores_case_space_dates_and_front_matter() -> None:
    one = parse("---\ntitle: a\n---\nDone on  2026-01-31.\n\nText")
    two = parse("done ON 2025-12-01.\ntext\n\n")
    assert fingerprint(one) == fingerprint(two)
    assert len(fingerprint(one)) == 16
    assert fingerprint(one) != fingerprint(parse("done on 2026-01-31. other"))


@pytest.mark.parametrize("text", ["", " \n\t\n", "---\ntitle: only\n---\n", "---\ntitle: only\n---"])
def test_an_empty_body_has_no_fingerprint(text: str) -> None:
    assert fingerprint(parse(text)) == ""


def test_a_long_text_is_a_warning() -> None:
    assert [warning.code for warning in parse("word " * 20_001).warnings] == ["long"]


PIECES = st.sampled_from(
    [
        *("---\n", "title: a\n", "tier: x\n", "# h\n", "h\n===\n", "```\n", "```md\n", "~~~~\n", "|a|b|\n", "- x\n"),
        *("<!-- ANCHOR:a -->", "<!-- /ANCHOR:a -->\n", "<!--", "-->", "\n", "\r\n", "\r", "`", "é", "\x85"),
        *("&a", "*a", "[", "{", ": "),
    ]
)
MARKDOWN = st.lists(st.one_of(PIECES, st.text(max_size=8)), max_size=25).map("".join)


@given(MARKDOWN)
def test_any_text_is_a_document_with_lines_that_exist(text: str) -> None:
    document = parse(text)
    total = document.text.count("\n") + 1
    assert document.text == normalise(text)
    assert 1 <= document.body_first_line <= total + 1
    anchors = [(anchor.first_line, anchor.last_line) for anchor in document.anchors]
    headings = [(heading.first_line, heading.last_line) for heading in document.headings]
    assert all(document.body_first_line <= first and last <= total for first, last in anchors + headings)
    assert all(warning.line is None or 1 <= warning.line <= total for warning in document.warnings)


HOSTILE = ["<!-- ANCHOR:a -->", "<!--", "```md\n```a\n```\n", "# " + " " * 50, "_a", "*", "[", "```\n", "<!-- -->`"]


@pytest.mark.parametrize("piece", [*HOSTILE, "- " * 9, "a\n--\n", "---\n", "```a\n"])
def test_hostile_repetition_is_parsed_all_the_same(piece: str) -> None:
    text = "# " + piece * (200_000 // len(piece))
    assert parse(text).text == text


@pytest.mark.parametrize(
    "text", ["", "# One\n\ntext", "---\ntitle: x\n---\n# One\n<!-- ANCHOR:a -->\ny\n<!-- /ANCHOR:a -->\n## Two"]
)
def test_an_outline_has_the_structure_of_the_parsed_document(text: str) -> None:
    whole, only = parse(text), outline(text)
    assert (only.text, only.body_first_line) == (whole.text, whole.body_first_line)
    assert (only.anchors, only.headings) == (whole.anchors, whole.headings)


def test_an_outline_never_moves_the_lines_of_what_was_indexed() -> None:
    assert outline("said\rtwice\n# Title").headings[0].first_line == 2


@pytest.mark.parametrize("piece", ["- ", "? ", "- ? ", ": "])
def test_deep_nesting_in_one_line_of_yaml_ends_no_process(piece: str) -> None:
    """The YAML builder recurses in C: without a bound, sixty kilobytes overflow the stack."""
    program = (
        "from spec_kit_memory.core import markdown\n"
        f"document = markdown.parse('---\\ntitle: T\\ntriggers:\\n  - ' + {piece!r} * 14000 + 'x\\n---\\nBody.\\n')\n"
        "print(len(document.warnings))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr[-500:]
    assert int(ran.stdout) >= 1
