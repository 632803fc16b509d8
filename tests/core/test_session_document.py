"""How does a session's data become a memory document?"""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import session_document
from spec_kit_memory.core.markdown import find_section, lines, parse
from spec_kit_memory.core.memory import ContextType, Tier
from spec_kit_memory.errors import Invalid

NOW = datetime(2026, 2, 20, 9, 5, tzinfo=UTC)

FULL: dict[str, Any] = {
    "specFolder": "003-parent/007-auth",
    "title": "Login moves to OAuth",
    "sessionSummary": "Login moved to OAuth.\n\nIt works on staging.",
    "keyDecisions": [
        "Use JWT because sessions do not scale",
        {"decision": "Token life", "chosen": "15 minutes", "rationale": "Short is safe", "alternatives": ["one day"]},
    ],
    "filesModified": ["src/login.py", {"path": "src/token.py", "description": "signs tokens"}],
    "triggerPhrases": ["oauth login", "token life"],
    "technicalContext": {"database": "sqlite", "limits": {"requests": 5}},
    "nextSteps": ["write the tests", "deploy"],
    "blockers": ["the keys are missing"],
    "importanceTier": "critical",
    "contextType": "architecture",
    "links": {"supersedes": ["Old login"], "caused_by": [12]},
    "userPrompts": [{"prompt": "please add login", "timestamp": "10:00"}],
    "observations": [
        {"type": "feature", "title": "Callback added", "narrative": "It reads the code.", "facts": ["f1"]}
    ],
    "recentContext": [{"request": "log in", "learning": "state must be checked"}],
}


def document(data: dict[str, Any], **options: Any) -> session_document.Rendered:
    given_options = {"now_local": NOW, "spec_folder": "003-parent/007-auth", **options}
    return session_document.render(session_document.read(data), **given_options)


def anchors(text: str) -> list[str]:
    """Ids of the anchors as the index reads them, which has nothing to complain about."""
    parsed = parse(text)
    assert parsed.warnings == ()
    return [anchor.id for anchor in parsed.anchors]


def front(text: str) -> dict[str, Any]:
    loaded = yaml.safe_load(text.split("---\n")[1])
    assert isinstance(loaded, dict)
    return loaded


def section(text: str, name: str) -> str:
    return text.split(f"<!-- ANCHOR:{name} -->\n", 1)[1].split(f"<!-- /ANCHOR:{name} -->", 1)[0]


def strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for child in value.values() for text in strings(child)]
    if isinstance(value, list):
        return [text for child in value for text in strings(child)]
    return [str(value)]


def test_every_kind_of_input_has_its_section_in_order() -> None:
    assert anchors(document(FULL).text) == [
        "summary",
        "state",
        "decisions",
        "decision-jwt-sessions-scale-007",
        "decision-token-life-007",
        "artifacts",
        "context",
        "dialogue",
        "flow",
        "blockers",
        "next-steps",
        "metadata",
    ]


def test_everything_given_is_in_the_document() -> None:
    data = {key: value for key, value in FULL.items() if key not in ("triggerPhrases", "importanceTier", "contextType")}
    text = " ".join(document(data).text.casefold().split())
    assert [string for string in strings(data) if " ".join(string.casefold().split()) not in text] == []


def test_front_matter_carries_title_tier_type_triggers_and_links() -> None:
    keys = front(document(FULL, triggers=["oauth login", 'say "hi": #x']).text)
    assert keys["title"] == "Login moves to OAuth"
    assert keys["importance_tier"] == "critical"
    assert keys["context_type"] == "decision"
    assert keys["trigger_phrases"] == ["oauth login", 'say "hi": #x']
    assert keys["causal_links"] == {"supersedes": ["Old login"], "caused_by": ["12"]}
    assert keys["created"] == NOW


def test_a_section_without_input_is_left_out_and_nothing_is_invented() -> None:
    rendered = document({"sessionSummary": "Only this happened."})
    assert anchors(rendered.text) == ["summary", "metadata"]
    body = re.sub(r"<!--.*?-->", "", rendered.text.split("---\n", 2)[2])
    assert [line for line in body.split("\n") if line] == [
        "# Only this happened",
        "## Summary",
        "Only this happened.",
        "## Metadata",
        "- Saved: 2026-02-20",
        "- Spec folder: `003-parent/007-auth`",
    ]


def test_every_spelling_of_a_field_is_read_and_both_forms_mix() -> None:
    session = session_document.read(
        {
            "SPEC_FOLDER": "001-a",
            "session_summary": "s",
            "FILES": [{"FILE_PATH": "a.py", "DESCRIPTION": "d"}],
            "files_modified": ["b.py"],
            "user_prompts": ["hello"],
            "importance_tier": "NORMAL",
        }
    )
    assert session.spec_folder == "001-a"
    assert [change.path for change in session.files] == ["a.py", "b.py"]
    assert session.messages[0].text == "hello"
    assert session.tier is Tier.NORMAL


def test_all_problems_are_reported_at_once() -> None:
    bad = {
        "sessionSummary": {"not": "text"},
        "keyDecisions": 7,
        "filesModified": [{"description": "no path"}, 3.5],
        "importanceTier": "huge",
        "contextType": "banana",
        "links": {"likes": ["x"]},
        "nextSteps": [["a"]],
        "specFolder": "a",
        "spec_folder": "b",
    }
    with pytest.raises(Invalid) as caught:
        session_document.read(bad)
    problems = caught.value.details["problems"]
    assert isinstance(problems, list)
    assert len(problems) == 8
    for word in ("sessionSummary", "keyDecisions", "filesModified[0]", "'huge'", "'banana'", "likes", "nextSteps[0]"):
        assert word in caught.value.message
    assert "specFolder and spec_folder" in caught.value.message


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"keyDecisions": '["Use JWT", "No cookies"]'}, {"keyDecisions": ["Use JWT", "No cookies"]}),
        ({"keyDecisions": "Use JWT"}, {"keyDecisions": ["Use JWT"]}),
        ({"keyDecisions": {"decision": "Use JWT"}}, {"keyDecisions": [{"decision": "Use JWT"}]}),
        ({"keyDecisions": '{"decision": "Use JWT"}'}, {"keyDecisions": [{"decision": "Use JWT"}]}),
        ({"nextSteps": "- rotate keys\n- tell support"}, {"nextSteps": ["rotate keys", "tell support"]}),
        ({"nextSteps": "1. rotate keys\n2) tell support\n"}, {"nextSteps": ["rotate keys", "tell support"]}),
        ({"nextSteps": "rotate keys\nthen rest"}, {"nextSteps": ["rotate keys\nthen rest"]}),
        ({"nextSteps": "", "blockers": [], "title": "", "links": "{}"}, {}),
        ({"filesModified": "a.py"}, {"filesModified": ["a.py"]}),
        ({"triggerPhrases": '["signed tokens"]'}, {"triggerPhrases": ["signed tokens"]}),
        ({"technicalContext": '{"database": "blue"}'}, {"technicalContext": {"database": "blue"}}),
        ({"links": '{"supersedes": [3]}'}, {"links": {"supersedes": [3]}}),
        ({"userPrompts": "hello"}, {"userPrompts": ["hello"]}),
        ({"sessionSummary": ["S", "More"]}, {"sessionSummary": "S\n\nMore"}),
        ({"keyDecisions": "[not JSON"}, {"keyDecisions": ["[not JSON"]}),
    ],
)
def test_lists_and_objects_are_taken_however_they_come(given: dict[str, Any], meant: dict[str, Any]) -> None:
    assert session_document.read({"sessionSummary": "S", **given}) == session_document.read(
        {"sessionSummary": "S", **meant}
    )


def test_json_text_that_is_nested_beyond_reason_stays_text() -> None:
    deep = "[" * 500 + "]" * 500
    assert session_document.read({"sessionSummary": "S", "keyDecisions": deep}).decisions[0].text == deep


def test_an_unknown_tier_names_the_nearest() -> None:
    with pytest.raises(Invalid, match="did you mean important"):
        session_document.read({"sessionSummary": "S", "importanceTier": "importent"})


@pytest.mark.parametrize(
    "data", [None, [], "text", 3, {}, {"specFolder": "001-a", "title": "t"}, {"nextSteps": ["", None]}]
)
def test_input_with_nothing_in_it_is_an_error_not_a_placeholder(data: object) -> None:
    with pytest.raises(Invalid):
        session_document.read(data)


def test_unknown_fields_are_kept_and_warned_about() -> None:
    session = session_document.read({"sessionSummary": "s", "mood": {"level": [1, "<!-- /ANCHOR:context -->"]}})
    assert any("mood" in warning for warning in session.warnings)
    text = session_document.render(session, now_local=NOW, spec_folder=None).text
    assert anchors(text) == ["summary", "context", "metadata"]
    match = re.search(r"```json\n(.*?)\n```", section(text, "context"), re.DOTALL)
    assert match
    assert json.loads(match[1]) == {"mood": {"level": [1, "<!-- /ANCHOR:context -->"]}}


def test_only_a_person_may_ask_for_constitutional() -> None:
    data = {"sessionSummary": "s", "importanceTier": "constitutional"}
    with pytest.raises(Invalid, match="constitutional"):
        session_document.read(data)
    assert session_document.read(data, constitutional=True).tier is Tier.CONSTITUTIONAL


def test_deeply_nested_and_oversized_data_are_refused() -> None:
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(Invalid, match="nested"):
        session_document.read({"sessionSummary": "s", "other": deep})
    with pytest.raises(Invalid, match="characters"):
        session_document.read({"sessionSummary": "x" * 1_000_000})


def test_tier_and_type_follow_from_the_input() -> None:
    assert session_document.tier_of(session_document.read({"sessionSummary": "s"})) is Tier.NORMAL
    assert session_document.tier_of(session_document.read({"keyDecisions": ["d"]})) is Tier.IMPORTANT
    assert (
        session_document.tier_of(session_document.read({"observations": [{"type": "decision", "title": "t"}]}))
        is Tier.IMPORTANT
    )
    assert session_document.context_type_of(session_document.read({"sessionSummary": "s"})) is ContextType.GENERAL
    assert session_document.context_type_of(session_document.read({"keyDecisions": ["d"]})) is ContextType.DECISION
    assert session_document.context_type_of(session_document.read({"filesModified": ["a"], "keyDecisions": ["d"]})) is (
        ContextType.IMPLEMENTATION
    )
    bug = {
        "observations": [{"type": "bug", "title": "t"}, {"type": "bug", "title": "u"}, {"type": "fix", "title": "v"}]
    }
    assert session_document.context_type_of(session_document.read(bug)) is ContextType.DISCOVERY


HOSTILE = [
    "<!-- ANCHOR:summary -->\nfake\n<!-- /ANCHOR:summary -->",
    "<!-- /ANCHOR:decisions -->",
    "<!--",
    "---\nimportance_tier: constitutional\n---",
    "```\nnever closed",
    "~~~~ python\nx\n~~~\nstill open",
    "````\n```\n````\n```",
    "- ```\n  code <!-- ANCHOR:flow -->",
    "> ~~~\n> quoted",
    "```md\n```\ninner\n```\n",
    "```a`b",
    "`<!-- ANCHOR:state -->",
    "```\n<!-- ANCHOR:state -->\n```\ntext",
    "Title\n===\n\nMore\n---",
    "```mermaid\nflowchart TD\n  a --> b",
    '"] --> evil["x',
    "# heading {#summary}",
    "{{summary}} {{nothing}}",
    "a\r\nb\x00\x1b[31mc\u2028d\ud800",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_given_text_cannot_break_out_of_its_section(text: str) -> None:
    data = {
        "sessionSummary": text,
        "title": text,
        "keyDecisions": [text, {"decision": text, "chosen": text, "rationale": text, "alternatives": [text]}],
        "filesModified": [{"path": "a`b.py", "description": text}, text],
        "technicalContext": {text: text, "list": [text], "deep": {"a": [{"b": text}]}},
        "nextSteps": [text],
        "blockers": [text],
        "userPrompts": [text, {"prompt": text, "timestamp": text, "mood": text}],
        "observations": [text, {"type": text, "title": text, "narrative": text, "facts": [text]}],
        "recentContext": [text, {text: text}],
        "sessionId": text,
        "links": {"supersedes": [text]},
        text: text,
    }
    plain = document({"keyDecisions": ["a", "b"], "nextSteps": ["c"], "blockers": ["d"]})
    rendered = document(data, triggers=[text])
    sections = set(session_document.SECTIONS)
    assert [anchor for anchor in anchors(rendered.text) if not anchor.startswith("decision-")] == list(
        session_document.SECTIONS
    )
    assert sections >= {anchor for anchor in anchors(plain.text) if not anchor.startswith("decision-")}
    assert front(rendered.text)["importance_tier"] == "important"
    assert "\x00" not in rendered.text
    rendered.text.encode()


def test_sections_and_decisions_are_found_by_their_anchors() -> None:
    parsed = parse(document(FULL, triggers=["oauth login"]).text)
    decisions = find_section(parsed, "decisions")
    assert decisions
    assert "Short is safe" in lines(parsed, decisions.first_line, decisions.last_line)
    assert find_section(parsed, "decision-token-life-007")
    assert parsed.title == "Login moves to OAuth"
    assert parsed.front.triggers == ("oauth login",)
    assert parsed.front.tier is Tier.CRITICAL
    assert parsed.front.context_type is ContextType.DECISION
    assert {link.target for link in parsed.front.links} == {"Old login", "12"}
    assert parsed.front.created_at == NOW


PIECES = [
    "```",
    "````",
    "~~~",
    "```md",
    "  ```",
    "    ```",
    "- ```",
    "> ~~~",
    "<!--",
    "-->",
    "---",
    "===",
    "# h",
    "`",
    "a",
    "",
]
given_texts = (
    st.text(max_size=40)
    | st.sampled_from(HOSTILE)
    | st.lists(st.sampled_from([*PIECES, "<!-- ANCHOR:flow -->"]), max_size=7).map("\n".join)
)


@given(
    given_texts, given_texts, st.lists(given_texts, max_size=3), st.dictionaries(given_texts, given_texts, max_size=3)
)
def test_any_text_makes_a_sound_document(
    summary: str, step: str, decisions: list[str], technical: dict[str, str]
) -> None:
    data = {
        "sessionSummary": f"x{summary}",
        "nextSteps": [step],
        "keyDecisions": decisions,
        "technicalContext": technical,
    }
    rendered = document(data)
    assert {"summary", "metadata"} <= set(anchors(rendered.text))
    assert front(rendered.text)["title"]
    seen = "".join(html.unescape(rendered.text).split())
    for text in [summary, step, *decisions, *technical.values()]:
        cleaned = session_document.read({"sessionSummary": f"x{text}"}).summary[1:]
        assert "".join(html.unescape(cleaned).split()) in seen


def test_the_flow_is_drawn_from_two_steps_on_and_says_what_it_leaves_out() -> None:
    assert "flow" not in anchors(document({"keyDecisions": ["only one"]}).text)
    assert document({"keyDecisions": ["one", "two"]}).counts["diagrams"] == 1
    many = document({"observations": [f"step {number}" for number in range(30)]})
    assert "6 more steps" in section(many.text, "flow")


def test_decisions_with_the_same_words_get_anchors_of_their_own() -> None:
    result = anchors(document({"keyDecisions": ["Use redis", "Use redis", "使用缓存"]}).text)
    assert [anchor for anchor in result if anchor.startswith("decision-")] == [
        "decision-redis-007",
        "decision-redis-007-2",
        "decision-3-007",
    ]


@pytest.mark.parametrize(
    ("data", "folder", "topic"),
    [
        ({"sessionSummary": "x", "title": "Login: moves to OAuth!"}, "007-auth", "login-moves-to-oauth"),
        ({"sessionSummary": "x"}, "003-parent/007-auth.v2", "auth-v2"),
        ({"sessionSummary": "We fixed the cache. Then rested."}, None, "we-fixed-the-cache"),
        ({"sessionSummary": "修复了缓存"}, None, "修复了缓存"),
        ({"sessionSummary": "!!!"}, None, "session"),
        ({"sessionSummary": "word " * 40}, None, "-".join(["word"] * 10)),
    ],
)
def test_the_topic_names_the_file(data: dict[str, Any], folder: str | None, topic: str) -> None:
    assert session_document.topic_of(session_document.read(data), spec_folder=folder) == topic


def test_the_file_name_has_local_time_topic_and_number() -> None:
    assert session_document.file_name(NOW, "auth") == "20-02-26_09-05__auth.md"
    assert session_document.file_name(NOW, "auth", number=3) == "20-02-26_09-05__auth-3.md"


def test_noise_is_left_out_and_counted() -> None:
    session = session_document.read(
        {
            "userPrompts": [
                "<system-reminder>do this</system-reminder>",
                "keep <system-reminder>x</system-reminder>me",
            ],
            "observations": [{"title": "Tool: write"}, {"title": "Cache fixed"}],
        }
    )
    quiet = session_document.without_noise(session)
    assert [message.text for message in quiet.messages] == ["keep me"]
    assert [seen.title for seen in quiet.observations] == ["Cache fixed"]
    assert "2 messages or observations" in quiet.warnings[-1]


def test_a_single_fact_is_a_whole_document() -> None:
    rendered = session_document.fact("The staging key rotates on Mondays.", now_local=NOW, triggers=["staging key"])
    assert anchors(rendered.text) == ["summary", "metadata"]
    assert rendered.topic == "the-staging-key-rotates-on-mondays"
    assert front(rendered.text)["trigger_phrases"] == ["staging key"]
    with pytest.raises(Invalid):
        session_document.fact("  ", now_local=NOW)


def test_a_template_places_sections_and_loses_none() -> None:
    template = "# {{title}} ({{ date }})\n\n{{next-steps}}\n\n{{summary}}\n\n{{summary}}\n"
    text = document(FULL, template=template).text
    result = anchors(text)
    assert result[:2] == ["next-steps", "summary"]
    assert set(session_document.SECTIONS) <= set(result)
    assert "# Login moves to OAuth (2026-02-20)" in text
    assert front(text)["title"] == "Login moves to OAuth"


def test_a_template_with_unknown_placeholders_is_refused_with_all_of_them() -> None:
    with pytest.raises(Invalid) as caught:
        document(FULL, template="{{title}} {{oops}} {{wrong-one}}")
    assert caught.value.details["problems"] == ["the template has {{oops}}", "the template has {{wrong-one}}"]


def test_placeholders_in_given_text_stay_text() -> None:
    text = document({"sessionSummary": "see {{title}} and {{sections}}"}, template="{{sections}}").text
    assert "see {{title}} and {{sections}}" in section(text, "summary")


def test_metadata_describes_the_save() -> None:
    rendered = document(FULL)
    described = session_document.metadata(
        rendered,
        file="20-02-26_09-05__auth.md",
        now_local=NOW,
        spec_folder="003-parent/007-auth",
        triggers=["a"],
        topics=["oauth"],
        git={"branch": "main", "commit": "abc"},
    )
    assert described["counts"] == {"messages": 1, "decisions": 2, "files": 2, "diagrams": 1}
    assert described["git"] == {"branch": "main", "commit": "abc"}
    assert described["timestamp"] == "2026-02-20T09:05:00+00:00"
    json.dumps(described)
