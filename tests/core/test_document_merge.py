"""Two documents become one: all that either says, each thing once, where it belongs."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import markdown, session_document
from spec_kit_memory.core.document_merge import merge_bodies
from spec_kit_memory.errors import TooLarge


def document(**data: Any) -> str:
    session = session_document.read(data)
    return session_document.render(session, now_local=datetime(2026, 3, 1, 12, 0), spec_folder="001-core").text


def merged(new: str, old: str) -> str:
    text = merge_bodies(new, old, origin="memory 1, Broker")
    assert [warning.message for warning in markdown.parse(text).warnings] == []
    return text


def section(text: str, name: str) -> str:
    parsed = markdown.parse(text)
    result = markdown.find_section(parsed, name)
    assert result is not None, f"{name} is missing in\n{text}"
    return markdown.lines(parsed, result.first_line, result.last_line)


def listed(text: str, name: str) -> list[str]:
    return [line[2:] for line in section(text, name).split("\n") if line.startswith("- ")]


# --- sections and decisions


def test_decisions_with_different_headings_both_stay() -> None:
    new = document(keyDecisions=["Use Mosquitto as the broker", "Renew certificates weekly"])
    old = document(keyDecisions=["Use RabbitMQ as the broker", "Renew certificates weekly"])
    text = merged(new, old)
    headings = [line for line in section(text, "decisions").split("\n") if line.startswith("### ")]
    assert headings == [
        "### Use Mosquitto as the broker",
        "### Renew certificates weekly",
        "### Use RabbitMQ as the broker",
    ]
    assert "- Counts: 3 decisions" in text


def test_decisions_that_share_an_anchor_but_not_a_heading_both_stay() -> None:
    new = document(keyDecisions=["Use Redis cache layer with a TTL of 60 seconds"])
    old = document(keyDecisions=["Use Redis cache layer with a TTL of 300 seconds"])
    text = merged(new, old)
    anchors = [anchor.id for anchor in markdown.parse(text).anchors if anchor.id.startswith("decision-")]
    assert anchors == ["decision-redis-cache-layer-001", "decision-redis-cache-layer-001-2"]
    assert "TTL of 60" in section(text, anchors[0])
    assert "TTL of 300" in section(text, anchors[1])


def test_long_decisions_are_told_apart_by_what_they_say_and_numbered_on() -> None:
    first, second = ("The broker keeps its sessions on disk " * 4 + tail for tail in ("always", "never"))
    text = merged(document(keyDecisions=[first]), document(keyDecisions=[second, first]))
    assert re.findall(r"### (.*)", section(text, "decisions")) == ["Decision 1", "Decision 2"]
    assert text.count(first) == text.count(second) == 1


def test_a_decision_that_both_made_keeps_the_reasons_of_both() -> None:
    new = document(keyDecisions=[{"decision": "Use MQTT", "rationale": "Docks sleep a lot.", "alternatives": ["AMQP"]}])
    old = document(
        keyDecisions=[
            {
                "decision": "Use MQTT",
                "chosen": "Mosquitto",
                "rationale": "Docks sleep a lot. It is cheap to run.",
                "alternatives": ["HTTP", "AMQP"],
            }
        ]
    )
    text = section(merged(new, old), "decisions")
    assert text.count("### Use MQTT") == 1
    assert "**Why:** Docks sleep a lot. It is cheap to run." in text
    assert "**Chosen:** Mosquitto" in text
    assert text.count("**Alternatives:**") == text.count("- AMQP") == text.count("- HTTP") == 1


def test_a_section_that_only_the_other_has_comes_to_its_place() -> None:
    new = document(sessionSummary="The broker was chosen.", nextSteps=["measure the load"])
    old = document(sessionSummary="The broker was chosen.", keyDecisions=["Use MQTT"], blockers=["no test dock"])
    anchors = [anchor.id for anchor in markdown.parse(merged(new, old)).anchors]
    assert anchors == ["summary", "state", "decisions", "decision-mqtt-001", "blockers", "next-steps", "metadata"]


def test_headings_that_several_observations_have_do_not_mix_them() -> None:
    seen = [{"type": "discovery", "narrative": text} for text in ("Docks drift by a second a day.", "Locks jam.")]
    more = [{"type": "discovery", "narrative": "Batteries last nine months."}]
    text = section(merged(document(observations=seen), document(observations=[*more, *seen])), "context")
    assert re.sub(r"\s+", " ", text) == (
        "## Context ### Discovery Docks drift by a second a day. ### Discovery Locks jam."
        " ### Discovery Batteries last nine months."
    )


# --- lists


def test_next_steps_of_both_stand_once_and_the_state_names_the_first() -> None:
    new = document(nextSteps=["ship it", "write the docs"], blockers=["no dock"])
    old = document(nextSteps=["measure the load", "write the docs"])
    text = merged(new, old)
    assert listed(text, "next-steps") == ["ship it", "write the docs", "measure the load"]
    assert "**Next:** ship it (1 of 3)" in section(text, "state")
    assert text.count("measure the load") == 1


def test_the_steps_of_the_other_are_named_where_the_new_one_has_none() -> None:
    text = merged(document(sessionSummary="Done."), document(sessionSummary="Done.", nextSteps=["a step", "b step"]))
    assert "**Next:** a step (1 of 2)" in section(text, "state")
    assert listed(text, "next-steps") == ["a step", "b step"]


def test_a_step_that_was_ticked_off_is_the_same_step() -> None:
    new = "# Plan\n\n## Tasks\n\n- [x] write the parser\n- [ ] test it\n"
    old = "# Plan\n\n## Tasks\n\n- [ ] write the parser\n- [ ] publish it\n"
    text = merged(new, old)
    assert "- [x] write the parser\n- [ ] test it\n- [ ] publish it\n" in text
    assert text.count("write the parser") == 1


def test_numbered_lists_are_numbered_on() -> None:
    new = "# Steps\n\n1. open the lid\n2. turn the key\n"
    old = "# Steps\n\n1. open the lid\n2. press the button\n3. wait\n"
    assert "1. open the lid\n2. turn the key\n3. press the button\n4. wait\n" in merged(new, old)


def test_items_go_below_the_words_they_stood_below() -> None:
    new = "# Choice\n\nFor it:\n\n- small\n\nAgainst it:\n\n- no cluster\n"
    old = "# Choice\n\nFor it:\n\n- cheap\n\nAgainst it:\n\n- no support\n"
    text = merged(new, old)
    assert "For it:\n\n- small\n- cheap\n" in text
    assert "Against it:\n\n- no cluster\n- no support\n" in text


def test_an_item_that_gained_a_sentence_is_one_item_and_steps_that_share_one_are_two() -> None:
    new = document(nextSteps=["Measure the load. Then tune the queue.", "Check dock A. Report to the operators."])
    old = document(nextSteps=["Measure the load.", "Check dock B. Report to the operators."])
    assert listed(merged(new, old), "next-steps") == [
        "Measure the load. Then tune the queue.",
        "Check dock A. Report to the operators.",
        "Check dock B. Report to the operators.",
    ]
    assert listed(merged(old, new), "next-steps")[0] == "Measure the load. Then tune the queue."


def test_files_are_listed_once_with_what_both_say_of_them() -> None:
    new = document(filesModified=["a.py", {"path": "b.py", "description": "new", "lines": 4}])
    old = document(filesModified=["a.py", {"path": "b.py", "description": "new", "lines": 9}, "c.py"])
    text = merged(new, old)
    assert (
        section(text, "artifacts").split("\n\n")[1] == "- `a.py`\n- `b.py`: new\n  - lines: 4\n  - lines: 9\n- `c.py`"
    )
    assert "- Counts: 3 files" in text


def test_rows_of_a_table_are_united() -> None:
    head = "# T\n\n| host | port |\n|---|---|\n| a | 1 |\n"
    text = merged(head + "| b | 2 |\n", head + "| c | 3 |\n")
    assert "| a | 1 |\n| b | 2 |\n| c | 3 |\n" in text
    assert text.count("| a | 1 |") == text.count("| host | port |") == 1


# --- paragraphs and sentences


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ("It is small. It is cheap.", "It is small. It is cheap.", "It is small. It is cheap."),
        ("It is small. It is cheap.", "It is small.", "It is small. It is cheap."),
        ("It is small.", "It is small. It is cheap.", "It is small. It is cheap."),
        ("It is cheap.", "It is small. It is cheap.", "It is small. It is cheap."),
        (
            "It is small. The port is 1883. It is cheap.",
            "It is small. The port is 8883. It is cheap.",
            "It is small. The port is 1883. The port is 8883. It is cheap.",
        ),
        ("We use e.g. Redis here. It is fast now.", "It is fast now.", "We use e.g. Redis here. It is fast now."),
        (
            "端口是1883号。它很便宜也很小。",
            "端口是1883号。它很慢也很大。",
            "端口是1883号。它很便宜也很小。它很慢也很大。",
        ),
        (
            "端口是1883号。它很便宜也很小。",
            "端口是1883号。它“很慢也很大。”它很便宜也很小。",
            "端口是1883号。它“很慢也很大。”它很便宜也很小。",
        ),
        ("It is small. 3 docks remain.", "It is small.", "It is small. 3 docks remain."),
    ],
)
def test_a_paragraph_that_gained_or_changed_a_sentence_is_one_paragraph(new: str, old: str, expected: str) -> None:
    body = section(merged(document(sessionSummary=new), document(sessionSummary=old)), "summary")
    assert body.split("\n\n")[1:] == [expected]


def test_words_before_an_abbreviation_do_not_tie_two_sentences() -> None:
    new = "Use the cache, e.g. Redis. Start it early."
    old = "Use the cache, e.g. Valkey. Start it early."
    text = merged(document(sessionSummary=new), document(sessionSummary=old))
    assert "Use the cache, e.g. Redis." in text
    assert "Use the cache, e.g. Valkey." in text
    assert section(text, "summary").count("Start it early.") == 1


def test_paragraphs_that_share_nothing_are_two_and_the_new_one_leads() -> None:
    body = section(merged(document(sessionSummary="New words."), document(sessionSummary="Old words.")), "summary")
    assert body.split("\n\n")[1:] == ["New words.", "Old words."]


def test_wrapped_lines_make_no_difference() -> None:
    new = "# N\n\nThe broker keeps its sessions\non disk. It is small.\n"
    old = "# N\n\nThe broker keeps its\nsessions on disk. It is\ncheap.\n"
    text = merged(new, old)
    assert text.count("sessions") == 1
    assert "It is\ncheap." in text


def test_lines_of_an_address_are_united_by_line() -> None:
    text = merged("# N\n\nHost: example dock\nPort: 1\n", "# N\n\nHost: example dock\nPort: 2\n")
    assert "Host: example dock\nPort: 1\nPort: 2\n" in text


def test_code_stays_whole_and_counts_as_code() -> None:
    old = document(sessionSummary="Run it:\n\n```sh\n# no heading\nskm index\n\nskm search\n```")
    text = merged(document(sessionSummary="Run it:"), old)
    assert "```sh\n# no heading\nskm index\n\nskm search\n```" in text
    assert merged(text, old).count("```sh") == 1


def test_what_people_said_keeps_its_speaker() -> None:
    new = document(userPrompts=[{"role": "user", "content": "Is it up?"}, {"role": "assistant", "content": "Yes."}])
    old = document(userPrompts=[{"role": "user", "content": "And now?"}, {"role": "assistant", "content": "Yes."}])
    text = section(merged(new, old), "dialogue")
    assert "**user**:\n\nIs it up?" in text
    assert "**user**:\n\nAnd now?" in text


def test_charts_are_drawn_as_one() -> None:
    new = document(keyDecisions=["Use MQTT", "Renew weekly"])
    old = document(keyDecisions=["Use MQTT", "Drop retained commands"])
    text = section(merged(new, old), "flow")
    assert text.count("```mermaid") == text.count('"Use MQTT"') == 1
    assert "s1 --> s2 --> s3" in text


# --- documents that people wrote


def test_a_note_without_sections_is_merged_with_a_summary() -> None:
    note = "# Broker\n\nThe broker is small. It restarts on Sundays.\n"
    saved = document(title="Broker", sessionSummary="The broker is small.")
    text = merged(saved, note)
    assert text.count("The broker is small.") == 1
    assert "The broker is small. It restarts on Sundays." in section(text, "summary")
    other = merged(note, saved)
    assert other.count("The broker is small.") == 1


def test_sections_with_a_heading_and_with_an_anchor_are_the_same() -> None:
    note = "# Broker\n\n## Next steps\n\n- measure\n\n## Background\n\nIt was slow.\n"
    text = merged(document(title="Broker", nextSteps=["ship"]), note)
    assert listed(text, "next-steps") == ["ship", "measure"]
    assert "## Background\n\nIt was slow.\n\n<!-- ANCHOR:metadata -->" in text


def test_equal_paragraphs_below_different_headings_both_stay() -> None:
    new = "# C\n\n## Use Redis\n\nIt is known to the team and fast enough for us.\n"
    old = "# C\n\n## Use Valkey\n\nIt is known to the team and fast enough for us.\n"
    text = merged(new, old)
    assert text.index("## Use Redis") < text.index("## Use Valkey")
    assert text.count("It is known to the team") == 2


def test_the_staying_document_keeps_every_line() -> None:
    new = "---\ntitle: x\n---\n\n# T\n\nA\n---\n\ntext <!-- ANCHOR:open -->\n\n* a\n* b\n\n> quote\n"
    text = merge_bodies(new, "# T\n\n* c\n\n> other\n\n<!-- ANCHOR:z -->\nz\n<!-- /ANCHOR:z -->\n", origin="memory 1")
    kept = iter(text.split("\n"))
    assert all(line in kept for line in new.rstrip().split("\n")), text
    assert "* c" in text
    assert "> other" in text
    assert "<!-- ANCHOR:z -->\nz\n<!-- /ANCHOR:z -->" in text


def test_it_says_what_was_taken_in() -> None:
    assert "- Merged: memory 1, Broker" in section(
        merged(document(sessionSummary="a"), document(sessionSummary="b")), "metadata"
    )
    assert merged("# A\n\nText.\n", "# B\n\nOther.\n").endswith("*Merged: memory 1, Broker*\n")
    twice = merge_bodies(
        merged(document(sessionSummary="a"), document(sessionSummary="b")),
        document(sessionSummary="c"),
        origin="memory 2",
    )
    third = merge_bodies(document(sessionSummary="d"), twice, origin="memory 3")
    assert [line for line in listed(third, "metadata") if line.startswith("Merged")] == [
        "Merged: memory 1, Broker",
        "Merged: memory 2",
        "Merged: memory 3",
    ]


# --- everything that either says, once

WORDS = ("harbour", "token", "broker", "soup", "gateway", "signature", "ferry", "lamp")
sentences = st.lists(st.sampled_from(WORDS), min_size=4, max_size=7).map(lambda words: " ".join(words).title() + ".")
paragraphs = st.lists(sentences, min_size=1, max_size=4, unique=True).map(" ".join)
sessions = st.fixed_dictionaries(
    {},
    optional={
        "sessionSummary": st.lists(paragraphs, min_size=1, max_size=3).map("\n\n".join),
        "keyDecisions": st.lists(
            sentences | st.fixed_dictionaries({"decision": sentences, "rationale": paragraphs}), min_size=1, max_size=3
        ),
        "nextSteps": st.lists(sentences, min_size=1, max_size=4, unique=True),
        "blockers": st.lists(sentences, min_size=1, max_size=2, unique=True),
        "technicalContext": st.dictionaries(st.sampled_from(WORDS), sentences, min_size=1, max_size=3),
        "observations": st.lists(
            st.fixed_dictionaries({"type": st.sampled_from(("discovery", "change")), "narrative": paragraphs}),
            min_size=1,
            max_size=3,
        ),
    },
).filter(bool)


def said_by(data: dict[str, Any]) -> set[str]:
    """Every sentence of a session."""
    if isinstance(data, dict):
        return set().union(*(said_by(value) for key, value in data.items() if key != "type"), set())
    if isinstance(data, list):
        return set().union(*(said_by(value) for value in data), set())
    return {sentence for paragraph in data.split("\n\n") for sentence in re.findall(r"[^.]+\.", paragraph)}


@given(sessions, sessions)
def test_every_sentence_of_both_survives(new: dict[str, Any], old: dict[str, Any]) -> None:
    text = merged(document(title="T", **new), document(title="T", **old))
    for sentence in said_by(new) | said_by(old):
        assert sentence.strip() in " ".join(text.split()), sentence
    steps = listed(text, "next-steps") if "nextSteps" in new or "nextSteps" in old else []
    assert sorted(steps) == sorted({*new.get("nextSteps", ()), *old.get("nextSteps", ())})


@given(sessions)
def test_a_document_merged_with_a_copy_of_itself_says_nothing_twice(data: dict[str, Any]) -> None:
    text = document(title="T", **data)
    noted = "- Merged: memory 1, Broker\n<!-- /ANCHOR:metadata -->"
    assert merged(text, text) == text.replace("<!-- /ANCHOR:metadata -->", noted)


@pytest.mark.parametrize("piece", ["## Heading {n}\n\n", "- item {n}\n", "Words {n}.\n\n", "Said {n}. ", "| {n} |\n"])
def test_documents_of_too_many_parts_are_refused_and_not_worked_on_for_hours(piece: str) -> None:
    def long(count: int) -> str:
        return "# A\n\n" + "".join(piece.format(n=number) for number in range(count))

    with pytest.raises(TooLarge, match="too long to be merged"):
        merge_bodies("# B\n\nshort\n", long(20_000), origin="b")
    with pytest.raises(TooLarge, match="too long to be merged"):
        merge_bodies(long(20_000), "# B\n\nshort\n", origin="b")
    assert "short" in merge_bodies(long(200), "# B\n\nshort\n", origin="b")


def decided(**fields: Any) -> str:
    return document(keyDecisions=[{"decision": "Queue for mail", **fields}])


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ("It keeps mail on disk, and it is cheap", "It keeps mail on disk", "It keeps mail on disk, and it is cheap"),
        ("It keeps mail on disk", "it keeps mail on disk, and it is cheap.", "It keeps mail on disk, and it is cheap."),
        ("It keeps mail on disk", "It keeps mail on disk.", "It keeps mail on disk"),
        ("The team knows it", "Support is cheap", "The team knows it. Support is cheap"),
        ("The team knows it.", "Support is cheap.", "The team knows it. Support is cheap."),
        ("cheap", "cheap and managed", "cheap and managed"),
        ("cheap and managed", "Cheap", "cheap and managed"),
        ("cheap", "cheaper to run", "cheap. cheaper to run"),
        ("cheap (for now)", "known to all", "cheap (for now). known to all"),
        ("within 5 s", "10%", "within 5 s. 10%"),
    ],
)
def test_a_reason_is_given_in_one_line_and_said_once(new: str, old: str, expected: str) -> None:
    text = section(merged(decided(rationale=new), decided(rationale=old)), "decisions")
    assert [line for line in text.split("\n") if line.startswith("**Why:**")] == [f"**Why:** {expected}"]


@pytest.mark.parametrize(("new", "old"), [("within 5 s", "10%"), ("C++", "v1"), ("Is it? No", "日本語")])
def test_a_reason_that_was_taken_in_is_not_taken_in_again(new: str, old: str) -> None:
    once = merged(decided(rationale=new), decided(rationale=old))
    assert section(merged(once, decided(rationale=old)), "decisions") == section(once, "decisions")


def test_a_sentence_is_not_added_to_a_paragraph_that_says_more_elsewhere() -> None:
    new = document(sessionSummary="We began anew. The port is open. It failed twice on Monday, and once on Friday.")
    old = document(sessionSummary="It failed twice on Monday. We began anew. The fan is loud.")
    text = section(merged(new, old), "summary")
    assert text.count("It failed twice on Monday") == 1
    assert "and once on Friday" in text
    assert "The fan is loud." in text


@pytest.mark.parametrize(
    ("new", "old"), [("Java", "JavaScript"), ("50", "5"), ("3", "3.11"), ("a-b", "a"), ("日本", "日本語")]
)
def test_a_choice_whose_letters_only_begin_another_is_another_choice(new: str, old: str) -> None:
    text = section(merged(decided(chosen=new), decided(chosen=old)), "decisions")
    lines = text.split("\n")
    assert [f"**Chosen:** {chosen}" in lines for chosen in (new, old)] == [True, True]


def test_decisions_on_one_question_that_came_out_differently_keep_their_own_reasons() -> None:
    new, old = decided(chosen="RabbitMQ", rationale="It is known."), decided(chosen="Kafka", rationale="It is fast.")
    text = merged(new, old)
    ids = [anchor.id for anchor in markdown.parse(text).anchors if anchor.id.startswith("decision-")]
    assert len(ids) == 2
    for id_, chosen, reason in zip(ids, ("RabbitMQ", "Kafka"), ("It is known.", "It is fast."), strict=True):
        assert f"**Chosen:** {chosen}\n\n**Why:** {reason}" in section(text, id_)


@pytest.mark.parametrize("other", ["rabbitmq", "RabbitMQ 3.12"])
def test_the_same_choice_in_other_letters_is_one_choice(other: str) -> None:
    text = section(merged(decided(chosen="RabbitMQ"), decided(chosen=other)), "decisions")
    assert text.count("**Chosen:**") == 1
    assert other.removeprefix("RabbitMQ").removeprefix("rabbitmq") in text


def test_steps_that_differ_in_a_full_stop_a_first_letter_or_a_clause_are_one_step() -> None:
    new = document(nextSteps=["Load test the queue", "Write the runbook.", "Tell Ana about it"])
    old = document(nextSteps=["load test the queue.", "Write the runbook, with pictures", "tell Ana about it"])
    assert listed(merged(new, old), "next-steps") == [
        "Load test the queue",
        "Write the runbook, with pictures",
        "Tell Ana about it",
    ]


def test_a_step_that_either_document_has_ticked_off_is_done() -> None:
    new = "# Tasks\n\n- [ ] write the guide\n- [x] test\n- [ ] ship [ ] boxes\n  - by sea\n"
    old = "# Tasks\n\n- [X] write the guide\n- [ ] test\n- [x] ship [ ] boxes\n  - by sea\n- [ ] rest\n"
    text = merged(new, old)
    assert "- [x] write the guide\n- [x] test\n- [x] ship [ ] boxes\n  - by sea\n- [ ] rest\n" in text
