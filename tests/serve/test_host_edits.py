"""Does an edit of a host's file change our entries and nothing else, whatever the file looks like?"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core import jsonc
from spec_kit_memory.serve.hosts import edits, toml
from spec_kit_memory.serve.hosts.formats import ConfigEntry, File, is_ours
from tests.serve.test_hosts import FOREIGN_TOML

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)


def sprinkled(draw: st.DrawFn, text: str) -> str:
    """The same JSON with comments, blanks and trailing commas where they may stand."""
    made, inside, escaped = [], False, False
    for character in text:
        if inside:
            made.append(character)
            inside, escaped = character != '"' or escaped, character == "\\" and not escaped
            continue
        if character in "}]" and made[-1] not in "{[" and draw(st.booleans()):
            made.append(draw(st.sampled_from([",", ", ", ", // x\n"])))
        noise = draw(st.sampled_from(["", "", "", " ", "\n", "\n  ", "\t", "/* c, } */", "// d ]\n"]))
        if character in "{}[],:" and noise:
            made.append(noise)
        made.append(character)
        inside, escaped = character == '"', False
    return "".join(made)


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    value = draw(OBJECTS)
    text = json.dumps(value, ensure_ascii=False, indent=draw(st.sampled_from([None, 2, "\t"])))
    return sprinkled(draw, text), value


@given(documents())
def test_any_json_with_comments_is_read_as_it_is_meant(document: tuple[str, dict[str, Any]]) -> None:
    text, value = document
    assert jsonc.parse(text).value == value


@given(documents(), st.text(min_size=1, max_size=4), VALUES)
def test_an_entry_put_into_any_file_changes_nothing_else(
    document: tuple[str, dict[str, Any]], key: str, value: Any
) -> None:
    text, before = document
    key = "new " + key
    put = jsonc.put(text, ("our servers", key), value)
    assert jsonc.parse(put).value == {**before, "our servers": {key: value}}
    assert jsonc.parse(jsonc.remove(put, ("our servers",))).value == before


@given(documents(), st.data())
def test_any_member_can_be_taken_out_of_any_file(document: tuple[str, dict[str, Any]], data: st.DataObject) -> None:
    text, before = document
    if not before:
        assert jsonc.remove(text, ("absent",)) == text
        return
    key = data.draw(st.sampled_from(sorted(before)))
    after = jsonc.remove(text, (key,))
    assert jsonc.parse(after).value == {name: value for name, value in before.items() if name != key}


@given(documents(), VALUES)
def test_an_item_appended_to_a_list_can_be_taken_out_again(document: tuple[str, dict[str, Any]], value: Any) -> None:
    text, before = document
    one = jsonc.append(text, ("our list",), "first")
    two = jsonc.append(one, ("our list",), value)
    assert jsonc.parse(two).value["our list"] == ["first", value]
    assert jsonc.parse(jsonc.remove_item(two, ("our list",), 0)).value == {**before, "our list": [value]}


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "{,}", '{"a":1,,}', "nul", '"a', '{"a":"\\x"}', "[" * 300])
def test_what_is_not_json_says_where(text: str) -> None:
    with pytest.raises(jsonc.Malformed, match=r"line 1, column \d+"):
        jsonc.parse(text)


SERVER = {"command": "C:\\Program Files\\skm.exe", "args": ["serve", 'é "quoted"']}


@pytest.mark.parametrize("before", ["", "a = 1", "a = 1\n", FOREIGN_TOML, FOREIGN_TOML.replace("\n", "\r\n")])
def test_a_table_is_written_and_removed_as_text(before: str) -> None:
    path = ("mcp_servers", "spec_kit_memory")
    text = toml.put(before, path, SERVER)
    assert toml.find(toml.parse(text), path) == SERVER
    assert text.startswith(before)
    assert toml.remove(text, path).rstrip("\r\n") == before.rstrip("\r\n")


def test_a_table_written_by_hand_is_found_with_its_parts() -> None:
    text = (
        '[mcp_servers."spec_kit_memory"]\ncommand = "x"\n[mcp_servers.spec_kit_memory.env]\nA = "1"\n[other]\nb = 2\n'
    )
    assert toml.remove(text, ("mcp_servers", "spec_kit_memory")) == "[other]\nb = 2\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mcp_servers = {}\n", "mcp_servers is an empty inline table ({}), to which nothing can be added: delete"),
        (
            'mcp_servers = { other = { command = "x" } }\n',
            "mcp_servers is an inline table ({…}), which cannot be edited: write each entry as a table,"
            " [mcp_servers.NAME]",
        ),
        ('mcp_servers = { spec_kit_memory = { command = "x" } }\n', "mcp_servers is an inline table"),
        (
            '[mcp_servers]\nspec_kit_memory = { command = "x" }\n',
            "mcp_servers.spec_kit_memory is an inline table ({…}), which cannot be edited: write it as"
            " [mcp_servers.spec_kit_memory]",
        ),
        ('[mcp_servers]\nspec_kit_memory.command = "x"\n', "mcp_servers.spec_kit_memory is written in several parts"),
        ('mcp_servers.spec_kit_memory.command = "x"\n', "mcp_servers.spec_kit_memory is written in several parts"),
        ("[[mcp_servers]]\na = 1\n", "mcp_servers is not a table"),
        ("mcp_servers = 3\n", "mcp_servers is not a table"),
    ],
)
def test_a_refused_edit_names_the_form_that_is_in_the_way(text: str, reason: str) -> None:
    with pytest.raises(toml.MalformedToml, match=re.escape(reason)):
        toml.put(text, ("mcp_servers", "spec_kit_memory"), SERVER)


@pytest.mark.parametrize(
    ("command", "ours"),
    [
        ("skm hook prompt --host codex", True),
        ("/usr/bin/spec-kit-memory hook prompt", True),
        ('"C:\\Python\\python.exe" -m spec_kit_memory hook prompt --host cursor', True),
        ("./mine.sh hook prompt", False),
        ("skm triggers", False),
        ("other-skm hook prompt", False),
    ],
)
def test_our_hooks_are_told_from_others(command: str, ours: bool) -> None:
    assert is_ours({"command": command}) is ours
    assert is_ours({"hooks": [{"type": "command", "command": command}]}) is ours


def test_an_edit_that_would_change_more_is_refused() -> None:
    file = File(Path("x.json"), "json", (ConfigEntry(("a", "b"), {"command": "x"}),))
    with pytest.raises(jsonc.Malformed):
        edits.with_entries('{"a": [1]}', file)
