"""Which conversations does a transcript hold?"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.memory import Turn
from spec_kit_memory.errors import BadEncoding, FileMissing, Invalid
from spec_kit_memory.files.chat_transcripts import read_conversations, read_transcript, transcripts_in


def written(folder: Path, lines: list[Any], *, name: str = "chat.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def claude(kind: str, content: Any, number: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "sessionId": "11111111-aaaa",
        "uuid": f"u{number}",
        "timestamp": f"2026-01-20T11:5{number}:00.000Z",
        "isSidechain": False,
        "message": {"role": kind, "content": content},
        **more,
    }


CLAUDE = [
    {"type": "summary", "summary": "Somebody else's work", "leafUuid": "elsewhere"},
    {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
    claude("user", "Where is the cache?\n<system-reminder>be nice</system-reminder>", 1),
    claude("assistant", [{"type": "thinking", "thinking": "hmm"}, {"type": "text", "text": "In src/cache.py."}], 2),
    claude("assistant", [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}], 3),
    claude("user", [{"type": "tool_result", "tool_use_id": "t", "content": "secret file text"}], 4),
    claude("user", "<command-name>/clear</command-name>", 5, isMeta=True),
    claude("user", "sub question", 6, isSidechain=True),
    claude("user", "This session is being continued", 7, isCompactSummary=True),
    claude("user", [{"type": "text", "text": "Thanks"}, {"type": "image", "source": {"data": "AAAA"}}], 8),
    {"type": "summary", "summary": "Finding the cache", "leafUuid": "u8"},
]


def test_a_claude_code_transcript_keeps_what_was_said_and_nothing_else(tmp_path: Path) -> None:
    (conversation,) = read_conversations(written(tmp_path, CLAUDE))
    assert conversation.turns == (
        Turn("user", "Where is the cache?", "2026-01-20T11:51:00.000Z"),
        Turn("assistant", "In src/cache.py.", "2026-01-20T11:52:00.000Z"),
        Turn("user", "Thanks", "2026-01-20T11:58:00.000Z"),
    )
    assert conversation.id == "11111111-aaaa"
    assert conversation.title == "Finding the cache"
    assert conversation.origin == "claude-code"
    assert conversation.started_at == datetime(2026, 1, 20, 11, 51, tzinfo=UTC)
    assert conversation.ended_at == datetime(2026, 1, 20, 11, 58, tzinfo=UTC)


def test_the_name_a_user_gave_wins_and_repeated_lines_count_once(tmp_path: Path) -> None:
    named = {"type": "custom-title", "customTitle": "Cache hunt", "sessionId": "11111111-aaaa"}
    (conversation,) = read_conversations(written(tmp_path, [*CLAUDE, CLAUDE[2], named]))
    assert conversation.title == "Cache hunt"
    assert len(conversation.turns) == 3


def test_pieces_of_one_streamed_message_are_one_turn(tmp_path: Path) -> None:
    lines = [claude("assistant", [{"type": "text", "text": text}], number) for number, text in enumerate("ab", 1)]
    for line in lines:
        line["message"]["id"] = "msg_1"
    (conversation,) = read_conversations(written(tmp_path, lines))
    assert [turn.text for turn in conversation.turns] == ["a\n\nb"]


def test_two_sessions_in_one_file_are_two_conversations(tmp_path: Path) -> None:
    lines = [claude("user", "one", 1), {**claude("user", "two", 2), "sessionId": "22222222-bbbb"}]
    assert [conversation.id for conversation in read_conversations(written(tmp_path, lines))] == [
        "11111111-aaaa",
        "22222222-bbbb",
    ]


def codex(kind: str, payload: dict[str, Any], second: int = 0) -> dict[str, Any]:
    return {"timestamp": f"2026-02-01T10:00:{second:02}.000Z", "type": kind, "payload": payload}


def said(role: str, text: str) -> dict[str, Any]:
    return {
        "type": "message",
        "role": role,
        "content": [{"type": "output_text" if role == "assistant" else "input_text", "text": text}],
    }


CODEX = [
    codex("session_meta", {"id": "019c-codex", "cwd": "/x", "cli_version": "0.65.0"}),
    codex("response_item", said("developer", "rules")),
    codex("response_item", said("user", "# AGENTS.md instructions for /x\n\nalways")),
    codex("response_item", said("user", "<environment_context>\n<cwd>/x</cwd>\n</environment_context>")),
    codex("response_item", said("user", "Fix the parser"), 1),
    codex("event_msg", {"type": "user_message", "message": "Fix the parser"}, 1),
    codex("turn_context", {"model": "m"}),
    codex("response_item", {"type": "reasoning", "summary": []}),
    codex("response_item", {"type": "function_call", "name": "shell", "arguments": "{}"}),
    codex("response_item", {"type": "function_call_output", "output": "noise"}),
    codex("event_msg", {"type": "agent_message", "message": "Done."}, 2),
    codex("response_item", said("assistant", "Done."), 2),
    codex("event_msg", {"type": "token_count", "info": None}),
]


def test_a_codex_rollout_says_everything_once(tmp_path: Path) -> None:
    (conversation,) = read_conversations(written(tmp_path, CODEX))
    assert [(turn.speaker, turn.text) for turn in conversation.turns] == [
        ("user", "Fix the parser"),
        ("assistant", "Done."),
    ]
    assert (conversation.id, conversation.origin, conversation.title) == ("019c-codex", "codex", "Fix the parser")


def test_a_codex_rollout_with_events_only_and_an_old_one_are_read_too(tmp_path: Path) -> None:
    events = [line for line in CODEX if line["type"] != "response_item"]
    (conversation,) = read_conversations(written(tmp_path, events))
    assert [turn.text for turn in conversation.turns] == ["Fix the parser", "Done."]
    old = [
        {"id": "old-1", "timestamp": "2025-05-07T17:24:21.123Z", "instructions": None},
        said("user", "hello"),
        {"type": "reasoning", "summary": []},
        {"record_type": "state"},
        said("assistant", "hi"),
    ]
    transcript = read_transcript(written(tmp_path, old))
    assert [(found.id, found.origin, len(found.turns)) for found in transcript.conversations] == [("old-1", "codex", 2)]
    assert transcript.bad_lines == ()


OPENCODE = {
    "info": {"id": "ses_1", "title": "Parser work", "version": "1.1.36", "time": {"created": 1767693600000}},
    "messages": [
        {
            "info": {"id": "msg_1", "role": "user", "time": {"created": 1767693600000}},
            "parts": [
                {"type": "text", "text": "Look at the parser"},
                {"type": "text", "text": "Called the Read tool with ...", "synthetic": True},
                {"type": "file", "url": "file:///x"},
            ],
        },
        {
            "info": {"id": "msg_2", "role": "assistant", "time": {"created": 1767693660000}},
            "parts": [
                {"type": "step-start"},
                {"type": "reasoning", "text": "thinking"},
                {"type": "tool", "tool": "read", "state": {"output": "noise"}},
                {"type": "text", "text": "It is fine."},
            ],
        },
    ],
}


@pytest.mark.parametrize("indent", [None, 2])
def test_an_opencode_export_is_read_in_one_line_or_many(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(OPENCODE, indent=indent), encoding="utf-8")
    (conversation,) = read_conversations(path)
    assert [(turn.speaker, turn.text) for turn in conversation.turns] == [
        ("user", "Look at the parser"),
        ("assistant", "It is fine."),
    ]
    assert (conversation.id, conversation.title, conversation.origin) == ("ses_1", "Parser work", "opencode")
    assert conversation.started_at == datetime(2026, 1, 6, 10, tzinfo=UTC)


def test_plain_lines_are_read_in_every_spelling(tmp_path: Path) -> None:
    lines = [
        {"role": "user", "content": "hello", "timestamp": "2026-01-01T00:00:00Z"},
        {"speaker": "Anna", "text": "hi", "time": 1767225660},
        {"role": "tool", "content": "noise"},
        {"role": "system", "content": "rules"},
        {"role": "assistant", "content": [{"type": "text", "text": "welcome"}], "timestamp": None},
    ]
    (conversation,) = read_conversations(written(tmp_path, lines))
    assert conversation.turns == (
        Turn("user", "hello", "2026-01-01T00:00:00Z"),
        Turn("Anna", "hi", "2026-01-01T00:01:00+00:00"),
        Turn("assistant", "welcome", ""),
    )
    assert conversation.origin == "jsonl"


def test_a_json_array_of_messages_is_a_conversation(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text('[\n{"role": "user", "content": "a"},\n{"role": "assistant", "content": "b"}\n]', encoding="utf-8")
    (conversation,) = read_conversations(path)
    assert [turn.text for turn in conversation.turns] == ["a", "b"]


@pytest.mark.parametrize("field", ["conversation", "session", "session_id", "thread"])
def test_ids_split_a_file_into_conversations(tmp_path: Path, field: str) -> None:
    lines = [{"role": "user", "content": f"m{number}", field: f"c {number % 2}"} for number in range(4)]
    result = read_conversations(written(tmp_path, lines))
    assert [[turn.text for turn in conversation.turns] for conversation in result] == [["m0", "m2"], ["m1", "m3"]]
    assert all(" " not in conversation.id and "/" not in conversation.id for conversation in result)


def test_a_conversation_that_grew_keeps_its_id(tmp_path: Path) -> None:
    plain = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "second"}]
    for lines in (CLAUDE, CODEX, plain):
        (before,) = read_conversations(written(tmp_path, lines[:6]))
        (after,) = read_conversations(written(tmp_path, [*lines, lines[-1]]))
        assert before.id == after.id
    other = read_conversations(written(tmp_path, [{"role": "user", "content": "another"}]))
    assert other[0].id != read_conversations(written(tmp_path, plain))[0].id


def test_bad_lines_are_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    good = json.dumps({"role": "user", "content": "kept"})
    path.write_text(
        f'{good}\n{{"role": "us\n\n[1, 2]\n"text"\n{{"other": 1}}\n{"[" * 100_000}\n{good}\n', encoding="utf-8"
    )
    transcript = read_transcript(path)
    assert [turn.text for turn in next(iter(transcript.conversations)).turns] == ["kept", "kept"]
    assert transcript.bad_lines == (2, 4, 5, 6, 7)


def test_a_broken_first_line_does_not_hide_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    path.write_text('{"role": "user", "con\n{"role": "user", "content": "kept"}\n', encoding="utf-8")
    transcript = read_transcript(path)
    assert transcript.bad_lines == (1,)
    assert next(iter(transcript.conversations)).turns[0].text == "kept"


def test_what_is_no_transcript_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text("\n\n# Notes\n", encoding="utf-8")
    with pytest.raises(Invalid, match="line 3"):
        read_conversations(path)
    path.write_text("", encoding="utf-8")
    with pytest.raises(Invalid, match="empty"):
        read_conversations(path)
    path.write_bytes(b"SQLite format 3\x00" + bytes(100))
    with pytest.raises(BadEncoding):
        read_conversations(path)
    with pytest.raises(FileMissing):
        read_conversations(tmp_path / "missing.jsonl")


def test_a_transcript_of_side_agents_only_holds_no_conversation(tmp_path: Path) -> None:
    assert read_conversations(written(tmp_path, [claude("user", "x", 1, isSidechain=True)])) == []


def test_byte_order_marks_and_bad_bytes_do_not_stop_the_reading(tmp_path: Path) -> None:
    line = json.dumps({"role": "user", "content": "größe"}, ensure_ascii=False)
    path = tmp_path / "chat.jsonl"
    for data in (b"\xef\xbb\xbf" + line.encode(), line.encode("utf-16")):
        path.write_bytes(data)
        assert read_conversations(path)[0].turns[0].text == "größe"
    path.write_bytes(b'{"role": "user", "content": "a\xffb"}')
    assert read_conversations(path)[0].turns[0].text == "a\ufffdb"


def test_a_folder_gives_its_transcripts_in_order(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("b.jsonl", "deep/a.json", "notes.md", "x.jsonc"):
        (tmp_path / name).touch()
    assert [path.name for path in transcripts_in(tmp_path)] == ["b.jsonl", "a.json"]
    assert transcripts_in(tmp_path / "b.jsonl") == [tmp_path / "b.jsonl"]


def test_a_link_in_a_folder_leads_to_no_transcript_outside_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    (folder / "deep").mkdir(parents=True)
    for path in (folder / "own.jsonl", tmp_path / "private.jsonl"):
        path.touch()
    (folder / "deep/link.jsonl").symlink_to("../../private.jsonl")
    (folder / "deep/inner.jsonl").symlink_to("../own.jsonl")
    (folder / "folder").symlink_to(tmp_path)
    assert [path.name for path in transcripts_in(folder)] == ["inner.jsonl", "own.jsonl"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda children: (
        st.lists(children, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "role",
                    "content",
                    "message",
                    "text",
                    "payload",
                    "messages",
                    "info",
                    "parts",
                    "sessionId",
                    "time",
                    "id",
                ]
            )
            | st.text(max_size=5),
            children | st.sampled_from(["user", "assistant", "summary", "session_meta", "response_item", "text"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=5))
def test_any_json_is_read_or_refused_but_never_a_crash(
    tmp_path_factory: pytest.TempPathFactory, lines: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("any") / "x.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    try:
        result = read_conversations(path)
    except Invalid:
        return
    for conversation in result:
        assert conversation.id
        assert conversation.turns
        assert all(turn.text and turn.speaker for turn in conversation.turns)
