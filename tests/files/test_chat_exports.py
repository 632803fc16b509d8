"""Are data exports of ChatGPT and Claude.ai read, and can one of them do harm?"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import uuid
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.errors import BadPath, Invalid, SpecKitMemoryError, TooLarge
from spec_kit_memory.files import chat_exports
from spec_kit_memory.files.chat_transcripts import read_conversations, read_transcript, transcripts_in
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace


def node(id_: str, parent: str | None, role: str, *parts: object, at: float = 1.0, **more: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": list(parts)}
    message = {"id": id_, "author": {"role": role}, "content": content, "create_time": 1_700_000_000 + at, **more}
    return {"id": id_, "parent": parent, "children": [], "message": message}


def chatgpt(*nodes: dict[str, Any], current: str | None, **more: Any) -> dict[str, Any]:
    mapping: dict[str, Any] = {"root": {"id": "root", "parent": None, "children": [], "message": None}}
    mapping |= {one["id"]: one for one in nodes}
    return {"title": "Caching", "conversation_id": "c-1", "mapping": mapping, "current_node": current, **more}


TREE = chatgpt(
    node("system", "root", "system", "You are helpful."),
    node("q", "system", "user", "Where is the cache?", at=2),
    node("a1", "q", "assistant", "The first answer, thrown away.", at=3),
    node("a2", "q", "assistant", "In Redis.", at=4),
    node("q2-old", "a2", "user", "A question that was edited.", at=5),
    node("q2", "a2", "user", "And the sessions?", {"content_type": "image_asset_pointer"}, at=6),
    node("tool", "q2", "assistant", "search('x')", at=7, recipient="browser"),
    node("result", "tool", "tool", "found", at=8),
    node("hidden", "result", "user", "context", at=8, metadata={"is_visually_hidden_from_conversation": True}),
    node("a3", "hidden", "assistant", "In PostgreSQL.", at=9),
    current="a3",
)
CLAUDE = {
    "uuid": "u-1",
    "name": "Sessions",
    "created_at": "2026-01-20T10:00:00Z",
    "chat_messages": [
        {"sender": "human", "text": "Which database?", "content": [], "created_at": "2026-01-20T10:00:01Z"},
        {
            "sender": "assistant",
            "text": "ignored where there are blocks",
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "PostgreSQL."}],
            "created_at": "2026-01-20T10:00:02Z",
        },
    ],
}


def zipped(folder: Path, files: dict[str, object], *, name: str = "export.zip") -> Path:
    path = folder / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, value in files.items():
            archive.writestr(member, value if isinstance(value, bytes) else json.dumps(value))
    return path


def said(path: Path) -> list[list[tuple[str, str]]]:
    return [[(turn.speaker, turn.text) for turn in one.turns] for one in read_conversations(path)]


SPOKEN = [
    ("user", "Where is the cache?"),
    ("assistant", "In Redis."),
    ("user", "And the sessions?"),
    ("assistant", "In PostgreSQL."),
]


def test_chatgpt_tells_the_branch_that_was_last_shown(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([TREE]), encoding="utf-8")
    (conversation,) = read_conversations(path)
    assert [(turn.speaker, turn.text) for turn in conversation.turns] == SPOKEN
    assert (conversation.id, conversation.title, conversation.origin) == ("c-1", "Caching", "chatgpt")
    assert conversation.started_at is not None
    assert conversation.started_at.year == 2023


def test_without_a_current_node_the_newest_end_counts(tmp_path: Path) -> None:
    for current in (None, "nowhere", 7):
        path = tmp_path / "conversations.json"
        path.write_text(json.dumps([TREE | {"current_node": current}]), encoding="utf-8")
        assert said(path) == [SPOKEN]


def test_claude_ai_is_read_with_its_text_blocks(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([CLAUDE]), encoding="utf-8")
    (conversation,) = read_conversations(path)
    assert [(turn.speaker, turn.text) for turn in conversation.turns] == [
        ("user", "Which database?"),
        ("assistant", "PostgreSQL."),
    ]
    assert (conversation.id, conversation.title, conversation.origin) == ("u-1", "Sessions", "claude.ai")


def claude_tree(*links: tuple[str, str], leaf: str | None = None) -> dict[str, Any]:
    messages = [
        {
            "uuid": id_,
            "parent_message_uuid": parent,
            "sender": ("human", "assistant")[number % 2],
            "text": f"Said in {id_}.",
            "created_at": f"2026-01-02T03:{number:02d}:00Z",
        }
        for number, (id_, parent) in enumerate(links)
    ]
    tree = {"uuid": "c1", "name": "Otters", "chat_messages": messages}
    return tree if leaf is None else {**tree, "current_leaf_message_uuid": leaf}


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (claude_tree(("a", "root"), ("b", "a"), ("c", "root"), ("d", "c")), ["c", "d"]),
        (claude_tree(("a", "root"), ("b", "a"), ("c", "root"), ("d", "c"), leaf="b"), ["a", "b"]),
        (claude_tree(("a", "root"), ("b", "a"), ("c", "b"), ("d", "a"), ("e", "d")), ["a", "d", "e"]),
        (claude_tree(("a", "root"), ("b", "a"), leaf="of another one"), ["a", "b"]),
        (claude_tree(("a", "b"), ("b", "a")), ["a", "b"]),  # a circle
        (claude_tree(("a", "root"), ("b", "root")), ["a", "b"]),  # nobody follows anybody
    ],
)
def test_claude_ai_tells_the_branch_that_was_last_shown(tmp_path: Path, tree: dict[str, Any], said: list[str]) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([tree]), encoding="utf-8")
    (conversation,) = read_conversations(path)
    assert [turn.text for turn in conversation.turns] == [f"Said in {id_}." for id_ in said]


def test_a_zip_is_read_as_it_was_downloaded_in_one_part_or_several(tmp_path: Path) -> None:
    one = zipped(tmp_path, {"conversations.json": [TREE], "user.json": {"id": "x"}, "chat.html": b"<html>"})
    assert said(one) == [SPOKEN]
    second = TREE | {"conversation_id": "c-2"}
    several = zipped(
        tmp_path, {"data/conversations-000.json": [TREE], "data/conversations-001.json": [second]}, name="more.zip"
    )
    assert said(several) == [SPOKEN, SPOKEN]


def test_of_a_folder_with_an_export_only_the_conversations_are_taken(tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    for name, value in {"conversations.json": [CLAUDE], "users.json": [{"uuid": "x"}], "memories.json": []}.items():
        (tmp_path / "export" / name).write_text(json.dumps(value), encoding="utf-8")
    (tmp_path / "other.jsonl").write_text('{"role": "user", "content": "hello"}\n', encoding="utf-8")
    assert [path.name for path in transcripts_in(tmp_path)] == ["conversations.json", "other.jsonl"]


def test_of_a_folder_with_zip_files_those_with_conversations_are_taken(tmp_path: Path) -> None:
    downloads = tmp_path / "downloads"
    (downloads / "claude").mkdir(parents=True)
    one = zipped(downloads, {"conversations-000.json": [TREE]}, name="chatgpt.ZIP")
    other = zipped(downloads / "claude", {"conversations.json": [CLAUDE]}, name="conversations-000.zip")
    zipped(downloads, {"projects/p.json": {"name": "Boat"}}, name="projects-000.zip")
    assert transcripts_in(downloads) == [one, other]
    damaged = downloads / "damaged.zip"
    damaged.write_bytes(other.read_bytes()[:-30])
    assert damaged in transcripts_in(downloads)  # to be told, not passed over
    extracted = downloads / "claude" / "conversations.json"
    extracted.write_text(json.dumps([CLAUDE]), encoding="utf-8")
    (downloads / "claude" / "users.json").write_text("[]", encoding="utf-8")
    assert transcripts_in(downloads / "claude") == [other, extracted]


def test_what_was_spoken_to_chatgpt_is_a_message(tmp_path: Path) -> None:
    def spoken(id_: str, parent: str, role: str, text: object) -> dict[str, Any]:
        sound = {"content_type": "real_time_user_audio_video_asset_pointer", "audio_asset_pointer": {"size_bytes": 9}}
        return node(id_, parent, role, {"content_type": "audio_transcription", "text": text, "direction": "in"}, sound)

    path = tmp_path / "conversations.json"
    talk = chatgpt(
        spoken("q", "root", "user", "When do the tides turn?"),
        spoken("a", "q", "assistant", "At noon."),
        spoken("odd", "a", "user", None),
        current="odd",
    )
    for one in talk["mapping"].values():
        if one["message"]:
            one["message"]["content"]["content_type"] = "multimodal_text"
    path.write_text(json.dumps([talk]), encoding="utf-8")
    assert said(path) == [[("user", "When do the tides turn?"), ("assistant", "At noon.")]]


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("Visit Belem. \ue200cite\ue202turn0search1\ue202turn0search8\ue201", "Visit Belem."),
        ('Eat at \ue200entity\ue202["restaurant","Belcanto","Lisbon"]\ue201 once.', "Eat at Belcanto once."),
        ("See \ue200url\ue202The tram map\ue202turn0search2\ue201.", "See The tram map."),
        ("\ue203Trams are slow.\ue204 \ue200filecite\ue202turn0file1\ue201", "Trams are slow."),
        ("A \ue200entity\ue202[broken\ue201 one", "A  one"),
        ("A \ue200entity\ue201\ue200\ue201 one", "A  one"),
        ("Never \ue200closed", "Never closed"),
    ],
)
def test_marks_of_sources_and_names_are_read_as_they_are_shown(tmp_path: Path, written: str, read: str) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt(node("a", "root", "assistant", written), current="a")]), encoding="utf-8")
    assert said(path) == [[("assistant", read)]]


def test_a_workspace_imports_an_export_once_and_takes_in_what_grew(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    with Workspace(Settings(root=root, semantic=Semantic(model="none"), watch="off")) as workspace:
        path = zipped(tmp_path, {"conversations.json": [TREE, CLAUDE]})
        assert len(workspace.chat_import([path]).imported) == 2
        assert workspace.chat_import([path]).unchanged == 2
        grown = json.loads(json.dumps(TREE))
        grown["mapping"]["q3"] = node("q3", "a3", "user", "Since when?", at=20)
        grown["current_node"] = "q3"
        assert len(workspace.chat_import([zipped(tmp_path, {"conversations.json": [grown]})]).imported) == 1
        result = workspace.search("since when", source="chat").results[0]
        assert "Since when?" in result.text
        assert not list(root.rglob("*.json"))


# --- exports that mean harm --------------------------------------------------------------


def test_a_bomb_is_refused_before_it_bursts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_exports, "ALWAYS_EXPANDED", 1_000_000)
    bomb = zipped(tmp_path, {"conversations.json": b"[" + b" " * 50_000_000 + b"]"})
    assert bomb.stat().st_size < 100_000
    with pytest.raises(TooLarge, match="far larger"):
        read_transcript(bomb)


def test_many_members_that_are_small_enough_each_are_a_bomb_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_exports, "ALWAYS_EXPANDED", 1_000_000)
    part = b"[" + b" " * 900_000 + b"]"
    one = zipped(tmp_path, {"conversations.json": part[:1] + json.dumps(TREE).encode() + part[1:]}, name="one.zip")
    assert said(one) == [SPOKEN]
    many = zipped(tmp_path, {f"conversations-{number}.json": part for number in range(100)})
    with pytest.raises(TooLarge, match="far larger"):
        read_transcript(many)


WITHIN = """
import resource, sys
from pathlib import Path
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.files.chat_transcripts import read_transcript
resource.setrlimit(resource.RLIMIT_AS, (512 * 1024**2, 512 * 1024**2))
try:
    print(sum(1 for _ in read_transcript(Path(sys.argv[1])).conversations))
except SpecKitMemoryError as error:
    print(error.code, error.message)
"""
MB = 1_000_000


def claude_bytes(number: int, text: str) -> bytes:
    messages = [{"sender": "human", "text": text}]
    return json.dumps({"uuid": f"c-{number}", "name": "n", "chat_messages": messages}, ensure_ascii=False).encode()


def read_within_half_a_gigabyte(path: Path) -> str:
    """What a process says of an export that may not have more memory than that."""
    done = subprocess.run([sys.executable, "-c", WITHIN, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def padded(folder: Path, conversations: bytes) -> Path:
    """An export within the limit on what it becomes: something that cannot be made smaller comes with it."""
    pad = random.Random(7).randbytes(len(conversations) // 12)
    return zipped(folder, {"pad.bin": pad, "conversations.json": conversations})


@pytest.mark.skipif(os.name == "nt", reason="there is no such limit")
@pytest.mark.parametrize(
    ("element", "values"),
    [
        (b"[],", "more than 2,000,000 values"),
        (b'{"mapping":{}},', "more than 2,000,000 values"),
        (b'"ab",', "more than 2,000,000 values"),
        (b" ", "no transcript"),
    ],
)
def test_one_conversation_of_millions_of_values_needs_no_gigabytes(tmp_path: Path, element: bytes, values: str) -> None:
    path = padded(tmp_path, b'[{"chat_messages":[' + element * (120 * MB // len(element)) + b"0]}]")
    said_of_it = read_within_half_a_gigabyte(path)
    assert values in said_of_it or "longer than 32 MB" in said_of_it
    assert "needs more memory" not in said_of_it
    plain = tmp_path / "conversations.json"
    plain.write_bytes(b'[{"chat_messages":[' + element * (60 * MB // len(element)) + b"0]}]")
    assert "needs more memory" not in read_within_half_a_gigabyte(plain)


@pytest.mark.skipif(os.name == "nt", reason="there is no such limit")
def test_conversations_are_handed_on_one_by_one(tmp_path: Path) -> None:
    """Together they are larger than the memory that there is, decoded or not."""
    parts = [claude_bytes(number, "A long answer. " * (10 * MB // 15)) for number in range(20)]
    whole = b"[" + b",\n".join(parts) + b"]"
    assert read_within_half_a_gigabyte(padded(tmp_path, whole)) == "20"
    (tmp_path / "conversations.json").write_bytes(whole)
    assert read_within_half_a_gigabyte(tmp_path / "conversations.json") == "20"


@pytest.mark.skipif(os.name == "nt", reason="there is no such limit")
def test_one_wide_character_makes_no_gigabyte_of_a_text(tmp_path: Path) -> None:
    wide = claude_bytes(0, "a" * (20 * MB) + "\U0001f600")
    assert read_within_half_a_gigabyte(padded(tmp_path, b"[" + wide + b"]")) == "1"
    longer = claude_bytes(0, "a" * (60 * MB) + "\U0001f600")
    assert "longer than 32 MB" in read_within_half_a_gigabyte(padded(tmp_path, b"[" + longer + b"]"))


@pytest.mark.skipif(os.name == "nt", reason="there is no such limit")
def test_the_listing_of_a_zip_has_an_end(tmp_path: Path) -> None:
    """Each of its entries becomes an object before they can be counted."""
    path = zipped(tmp_path, {"conversations.json": [TREE]})
    data = path.read_bytes()
    at = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    listing = data[at:end] * 1_000_000
    tail = bytearray(data[end:])
    tail[12:16] = len(listing).to_bytes(4, "little")
    path.write_bytes(data[:at] + listing + tail)
    assert "listing is longer than 8 MB" in read_within_half_a_gigabyte(path)


def test_more_conversations_than_anybody_had_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([CLAUDE | {"uuid": f"u-{number}"} for number in range(30)]), encoding="utf-8")
    assert len(read_conversations(path)) == 30
    for name in ("chat_exports.MOST_CONVERSATIONS", "chat_transcripts.MOST_TURNS", "chat_exports.MOST_ELEMENTS"):
        with monkeypatch.context() as patch:
            patch.setattr(f"spec_kit_memory.files.{name}", 29 if name != "chat_transcripts.MOST_TURNS" else 1)
            with pytest.raises(TooLarge, match="more than"):
                read_transcript(path)


def test_what_is_broken_at_its_end_is_refused_before_anything_is_kept(tmp_path: Path) -> None:
    root = tmp_path / "work"
    root.mkdir()
    whole = json.dumps([TREE, CLAUDE]).encode()
    with Workspace(Settings(root=root, semantic=Semantic(model="none"), watch="off")) as workspace:
        for broken in (whole[:-1], whole + b"x", whole[:-2], whole[:-1] + b",]", whole.replace(b"Sessions", b"\xff")):
            with pytest.raises(Invalid):
                workspace.chat_import([zipped(tmp_path, {"conversations.json": broken})])
        assert not workspace.chat_list().memories


def test_what_a_zip_holds_is_bounded_by_its_size_so_that_its_time_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each byte and each message takes its time: what was made small with no trouble must not cost minutes."""
    said_often = CLAUDE | {"chat_messages": [{"sender": "human", "text": "ab"}] * 300}
    conversations = [said_often | {"uuid": f"u-{number}"} for number in range(10)]
    small = zipped(tmp_path, {"conversations.json": conversations}, name="small.zip")
    assert len(said(small)) == 10
    monkeypatch.setattr(chat_exports, "ALWAYS_MESSAGES", 1_000)
    with pytest.raises(TooLarge, match="more messages"):
        read_transcript(small)
    plain = tmp_path / "conversations.json"
    plain.write_text(json.dumps(conversations), encoding="utf-8")
    assert len(said(plain)) == 10, "of a plain file the size is what it is"
    monkeypatch.setattr(chat_exports, "ALWAYS_MESSAGES", 50_000)
    monkeypatch.setattr(chat_exports, "ALWAYS_CONVERSATIONS", 9)
    assert small.stat().st_size < 9 * chat_exports.SMALLEST_CONVERSATION
    with pytest.raises(TooLarge, match="more than 9 conversations"):
        read_transcript(small)
    assert len(said(plain)) == 10
    monkeypatch.setattr(chat_exports, "ALWAYS_EXPANDED", 1_000)
    with pytest.raises(TooLarge, match="far larger"):
        read_transcript(small)


def test_of_real_length_and_variety_an_export_is_far_from_those_bounds(tmp_path: Path) -> None:
    chance = random.Random(3)
    words = Path(__file__).read_text(encoding="utf-8").split()
    conversations = [
        chatgpt(
            *(
                node(
                    f"{chance.getrandbits(128):032x}",
                    "root",
                    "user",
                    " ".join(chance.choices(words, k=chance.randrange(1, 60))),
                    at=1.7e9 + chance.random() * 1e7,
                )
                for _ in range(20)
            ),
            current=None,
        )
        for _ in range(100)
    ]
    data = json.dumps(conversations).encode()
    path = zipped(tmp_path, {"conversations.json": data})
    assert len(data) < path.stat().st_size * chat_exports.MOST_EXPANDED / 2
    assert path.stat().st_size / 2_000 > 2 * chat_exports.SMALLEST_MESSAGE, "bytes of a message"
    short = [
        CLAUDE
        | {
            "uuid": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            "name": " ".join(chance.choices(words, k=3)),
            "created_at": f"2026-0{chance.randrange(1, 9)}-11T0{chance.randrange(9)}:{chance.randrange(10, 60)}:31Z",
            "chat_messages": [
                {
                    "uuid": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
                    "sender": sender,
                    "text": " ".join(chance.choices(words, k=chance.randrange(4, 40))),
                    "created_at": f"2026-01-11T09:{chance.randrange(10, 60)}:{chance.random() * 60:09.6f}Z",
                }
                for sender in ("human", "assistant")
            ],
        }
        for _ in range(300)
    ]
    path = zipped(tmp_path, {"conversations.json": short}, name="short.zip")
    assert path.stat().st_size > 300 * chat_exports.SMALLEST_CONVERSATION, "one question and one answer in each"


def test_a_member_that_lies_about_its_size_is_not_believed(tmp_path: Path) -> None:
    path = zipped(tmp_path, {"conversations.json": [TREE]})
    data = bytearray(path.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 24 : at + 28] = (1).to_bytes(4, "little")  # the uncompressed size in the listing
    path.write_bytes(bytes(data))
    with pytest.raises(Invalid):
        read_transcript(path)


@pytest.mark.parametrize(
    "name",
    ["../conversations.json", "/etc/conversations.json", "..\\conversations.json", "a/b/c/d/e/conversations.json"],
)
def test_no_member_leads_anywhere_because_nothing_is_written(tmp_path: Path, name: str) -> None:
    before = sorted(tmp_path.rglob("*"))
    path = zipped(tmp_path, {name: [TREE]})
    with suppress(Invalid):
        read_transcript(path)
    assert sorted(tmp_path.rglob("*")) == sorted([*before, path])


def test_a_link_in_a_zip_is_only_text(tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps([TREE]), encoding="utf-8")
    path = tmp_path / "export.zip"
    info = zipfile.ZipInfo("conversations.json")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, str(secret))
    with pytest.raises(Invalid):
        read_transcript(path)


@pytest.mark.parametrize(
    "data", [b"", b"PK", b"PK\x03\x04" + b"\x00" * 100, b"PK\x05\x06" + b"\x00" * 18, b"\x00" * 5000, b"not a zip"]
)
def test_what_is_no_zip_says_so(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "export.zip"
    path.write_bytes(data)
    with pytest.raises(SpecKitMemoryError):
        read_transcript(path)


def test_a_zip_without_conversations_or_with_a_password_says_so(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"no conversations\.json"):
        read_transcript(zipped(tmp_path, {"user.json": {}}))
    path = zipped(tmp_path, {"conversations.json": [TREE]}, name="locked.zip")
    data = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(mark) + offset] |= 1  # encrypted
    path.write_bytes(bytes(data))
    with pytest.raises(Invalid, match="cannot be read"):
        read_transcript(path)


def test_a_tree_that_runs_in_a_circle_or_hangs_in_the_air_ends(tmp_path: Path) -> None:
    circle = chatgpt(node("a", "b", "user", "one"), node("b", "a", "assistant", "two"), current="a")
    loose = chatgpt(node("x", "nowhere", "user", "alone"), current="x", conversation_id="c-2")
    itself = chatgpt(node("y", "y", "user", "self"), current="y", conversation_id="c-3")
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([circle, loose, itself]), encoding="utf-8")
    assert [len(turns) for turns in said(path)] == [2, 1, 1]


def test_a_very_long_thread_is_read_in_time_that_grows_with_it(tmp_path: Path) -> None:
    nodes = [
        node(f"n{n}", f"n{n - 1}" if n else "root", "user" if n % 2 else "assistant", f"m{n}") for n in range(20_000)
    ]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt(*nodes, current="n19999")]), encoding="utf-8")
    assert len(read_conversations(path)[0].turns) == 20_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {"mapping": st.dictionaries(st.text(max_size=2), JSON, max_size=4)},
        optional={"current_node": JSON, "title": JSON},
    )
    | st.fixed_dictionaries({"chat_messages": st.lists(JSON, max_size=4)}, optional={"uuid": JSON, "name": JSON})
)
def test_whatever_an_export_holds_it_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, entry: Any) -> None:
    path = tmp_path_factory.mktemp("x") / "conversations.json"
    path.write_text(json.dumps([entry]), encoding="utf-8")
    with suppress(SpecKitMemoryError):
        read_transcript(path)


def test_an_export_on_one_very_long_line_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spec_kit_memory.files.chat_transcripts.LONGEST_LINE", 100)
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([TREE]), encoding="utf-8")
    assert said(path) == [SPOKEN]


HUGE = 10**400  # more than a float can be


def test_times_that_are_no_times_are_left_out(tmp_path: Path) -> None:
    spoken = {**CLAUDE, "chat_messages": [{"sender": "human", "text": "Which database?", "created_at": HUGE}]}
    lost = chatgpt(node("q", "root", "user", "Where is the cache?"), node("r", "root", "user", "There."), current=None)
    lost["mapping"]["q"]["message"]["create_time"] = HUGE
    file = tmp_path / "conversations.json"
    file.write_text(json.dumps([spoken, lost]), encoding="utf-8")
    turns = [turn for one in read_conversations(file) for turn in one.turns]
    assert [(turn.text, turn.time) for turn in turns] == [("Which database?", ""), ("Where is the cache?", "")]


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_only_the_compression_of_real_exports_is_read(tmp_path: Path, method: int) -> None:
    """The dictionary that LZMA asks for can be as large as the memory."""
    with zipfile.ZipFile(tmp_path / "export.zip", "w", method) as archive:
        archive.writestr("conversations.json", json.dumps([CLAUDE]))
    with pytest.raises(Invalid, match="compressed"):
        read_transcript(tmp_path / "export.zip")


@pytest.mark.skipif(os.name == "nt", reason="there are no such pipes")
@pytest.mark.parametrize("name", ["export.zip", "chat.jsonl"])
def test_a_pipe_in_place_of_a_transcript_is_refused_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(BadPath, match="regular file"):
        read_transcript(tmp_path / name)
