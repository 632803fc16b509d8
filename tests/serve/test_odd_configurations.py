"""Whatever stood in a host's files: does an install add our entries, and does an uninstall take back just those?"""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.core import jsonc
from spec_kit_memory.errors import AccessDenied, Invalid
from spec_kit_memory.serve import hosts
from spec_kit_memory.serve.hosts import toml
from spec_kit_memory.serve.hosts.formats import HOSTS, argv
from tests.serve.test_hosts import EVERY_HOST, content, everything, home, root, shared

__all__ = ["home", "root"]

# What may stand in a file of servers or hooks before us.
ODD_JSON = {
    "empty": "{}",
    "a mark and nothing": "\ufeff{}",
    "a comment in nothing": "{ /* mine */ }",
    "comments only": "// nothing here yet\n",
    "an empty list": '{"hooks": {"UserPromptSubmit": [], "beforeSubmitPrompt": [], "BeforeAgent": []}}',
    "empty objects": '{\n  "mcpServers": {}, "servers": {}, "mcp": {},\n  "hooks": {}\n}',
    "a comment before a comma": '{"hooks": {"UserPromptSubmit": [{"command": "./mine.sh"} /* keep */, ] } }',
    "hooks that are none": '{"hooks": {"UserPromptSubmit": [{"hooks": 5}, null, {"hooks": {"a": 1}}, {"command": 5}]}}',
    "twice the same": '{"mcpServers": {"o": {"command": "x"}}, "mcpServers": {}, "servers": {}, "servers": {"p": {}}}',
    "no version": '{"version": null}',
    "commas at the end": (
        '{"mcpServers": {"o": {"args": [1,],},}, "servers": {"o": {},}, "mcp": {"o": {},},'
        ' "hooks": {"UserPromptSubmit": [{},], "BeforeAgent": [{},], "beforeSubmitPrompt": [{},],},}'
    ),
    "one line": '{"a": 1} // end',
    "returns": '{\r\n\t"a": [1,\r\n 2]\r\n}',
    "a mark, returns and tabs": '\ufeff{\r\n\t"mcpServers": {\r\n\t\t"o": {}\r\n\t}\r\n}\r\n',
    "old returns": '{\r"a": 1,\r"mcpServers": {\r"o": {}\r}\r}\r',
    "keys in another case": '{"MCPServers": {"o": {}}, "Servers": {}, "Hooks": {"sessionstart": []}}',
    "other scripts": '{"nämé": "日本\\u00e9 😀", "mcpServers": {"sërver": {"command": "ü"}}}\n',
    "an escaped key": '{"mcp\\u0053ervers": {"o": {}}, "a": "\\u0000", "n": 1e400, "m": -0.0}',
    "no end of line": '{\n  "a": 1\n}',
    "three ends of line": '{\n   "a": 1\n}\n\n\n',
    "our server under another name": '{"mcpServers": {"memory": {"command": "skm", "args": ["serve"]}}}',
}
# Values where an object or a list belongs: a person has to say what they are.
WRONG_JSON = (
    "null",
    "[]",
    '"text"',
    '{"mcpServers": [], "servers": [], "mcp": []}',
    '{"mcpServers": null, "servers": null, "mcp": null}',
    '{"hooks": [], "mcpServers": 1, "servers": 1, "mcp": 1}',
    '{"a": 1}\0',
    "# no comment in JSON\n{}",
)
ODD_TOML = {
    "a date and no number": "d = 1979-05-27T07:32:00Z\nx = nan\n",
    "our marks in a text": (
        'n = """\n# spec-kit-memory begin: x\n[mcp_servers.spec_kit_memory]\n# spec-kit-memory end\n"""\n'
    ),
    "lists of tables": "[[x]]\na = 1\n[[x]]\na = 2",
    "dotted": "mcp_servers.other.command = 'x'\r\n[b]\r\nc = 1\r\n",
}


def odd_files(host: str, root: Path, name: str) -> dict[Path, bytes]:
    """Files of that kind, written where the host keeps its own."""
    written = {}
    for file in shared(host, root):
        text = (ODD_TOML if file.form == "toml" else ODD_JSON).get(name)
        if text is not None:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            file.path.write_bytes(text.encode())
            written[file.path] = text.encode()
    return written


@EVERY_HOST
@pytest.mark.parametrize("name", [*ODD_JSON, *ODD_TOML])
def test_odd_files_are_given_our_entries_and_come_back_byte_for_byte(
    name: str, host: str, root: Path, home: Path
) -> None:
    written = odd_files(host, root, name)
    before = everything(root, home)
    hosts.install(host, root=root, apply=True)
    assert all(b"spec_kit_memory" in path.read_bytes() or b" hook " in path.read_bytes() for path in written)
    assert not hosts.install(host, root=root, apply=True).changes
    hosts.uninstall(host, root=root, apply=True)
    assert everything(root, home) == before


def test_a_long_file_is_given_our_entries_and_comes_back(root: Path, home: Path) -> None:
    path = root / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text("{\n" + ",\n".join(f'  "k{n}": "{"x" * 100}"' for n in range(9_000)) + "\n}\n")
    before = everything(root, home)
    hosts.install("gemini", root=root, apply=True)
    assert "spec_kit_memory" in content(path)["mcpServers"]
    hosts.uninstall("gemini", root=root, apply=True)
    assert everything(root, home) == before


@pytest.mark.parametrize("host", sorted(set(HOSTS) - {"codex"}))  # its servers are in a file of TOML
@pytest.mark.parametrize("text", WRONG_JSON)
def test_a_value_that_cannot_take_our_entries_is_named_and_nothing_is_written(
    text: str, host: str, root: Path, home: Path
) -> None:
    paths = [file.path for file in shared(host, root) if file.form == "json"]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = everything(root, home)
    with pytest.raises(Invalid, match="Nothing was changed") as refused:
        hosts.install(host, root=root, apply=True)
    assert any(str(path) in str(refused.value) for path in paths)
    assert refused.value.hint
    assert everything(root, home) == before


OLDER = {
    "one line": "skm serve",
    "a list": ["skm", "serve"],
    "nothing": None,
    "a command with blanks": {"command": "skm serve"},
    "a module": {"command": "python", "args": ["-m", "spec_kit_memory", "serve"], "env": {"A": "b"}, "trust": True},
}


@pytest.mark.parametrize("older", OLDER)
@pytest.mark.parametrize("host", sorted(set(HOSTS) - {"codex"}))
def test_an_older_entry_of_ours_is_replaced_and_comes_back_byte_for_byte(
    host: str, older: str, root: Path, home: Path
) -> None:
    file = next(file for file in shared(host, root) if any(entry.mode == "member" for entry in file.entries))
    entry = next(entry for entry in file.entries if entry.mode == "member")
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_text(jsonc.put("{ /* mine */ }\n", entry.path, OLDER[older]))
    before = everything(root, home)
    hosts.install(host, root=root, apply=True)
    assert argv(toml.find(content(file.path), entry.path)) == argv(entry.value)
    assert not hosts.install(host, root=root, apply=True).changes
    hosts.uninstall(host, root=root, apply=True)
    assert everything(root, home) == before


@EVERY_HOST
@pytest.mark.parametrize(
    "name", [name for name in ODD_JSON if name not in ("comments only", "a comment before a comma")]
)
def test_from_an_odd_file_that_was_edited_since_only_our_entries_go(
    name: str, host: str, root: Path, home: Path
) -> None:
    written = odd_files(host, root, name)
    hosts.install(host, root=root, apply=True)
    for path in written:
        if path.suffix != ".toml":
            path.write_bytes(path.read_bytes() + b"\n// edited since\n")
    hosts.uninstall(host, root=root, apply=True)
    for path, data in written.items():
        assert path.read_bytes() == (data if path.suffix == ".toml" else data + b"\n// edited since\n")


def test_a_comment_between_the_users_entry_and_ours_is_the_users(root: Path, home: Path) -> None:
    path = root / ".claude/settings.json"
    path.parent.mkdir()
    path.write_text(ODD_JSON["a comment before a comma"])
    hosts.install("claude-code", root=root, apply=True)
    path.write_text(path.read_text() + "// edited since\n")
    hosts.uninstall("claude-code", root=root, apply=True)
    assert "/* keep */" in path.read_text()
    assert content(path)["hooks"] == {"UserPromptSubmit": [{"command": "./mine.sh"}]}


@pytest.mark.parametrize("host", sorted(set(HOSTS) - {"codex"}))
def test_the_users_own_server_of_our_name_comes_back_though_the_file_was_edited(
    host: str, root: Path, home: Path
) -> None:
    file = next(
        file for file in shared(host, root) if file.entries[0].path[-1] == "spec_kit_memory" or host == "opencode"
    )
    path = next(entry.path for entry in file.entries if entry.path[-1] == "spec_kit_memory")
    own = {"command": "mine", "args": ["a"], "note": "of our own"}
    text = jsonc.put("{}\n", path, own)
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_text(text)
    hosts.install(host, root=root, apply=True)
    assert toml.find(content(file.path), path) != own
    file.path.write_text(jsonc.put(file.path.read_text(), ("mine since",), True))
    hosts.uninstall(host, root=root, apply=True)
    assert content(file.path) == {**json.loads(text), "mine since": True}


def test_the_users_own_table_of_our_name_comes_back_though_the_file_was_edited(root: Path, home: Path) -> None:
    path = root / ".codex/config.toml"
    path.parent.mkdir()
    text = "[mcp_servers.spec_kit_memory]\ncommand = 'mine' # why\nargs = ['a']\n\n# about b\n[b]\nc = 1\n"
    path.write_text(text)
    hosts.install("codex", root=root, apply=True)
    assert "# about b" in path.read_text()
    path.write_text(path.read_text() + "\n[since]\nd = 1\n")
    hosts.uninstall("codex", root=root, apply=True)
    assert content(path) == {**tomllib.loads(text), "since": {"d": 1}}
    assert "# why" in path.read_text()


def test_a_server_that_stands_there_twice_is_gone_after_an_uninstall(root: Path, home: Path) -> None:
    path = root / ".mcp.json"
    path.write_text(
        '{"mcpServers": {"a": {}, "spec_kit_memory": {"command": "x"}, "spec_kit_memory": {"command": "y"}}}'
    )
    hosts.uninstall("claude-code", root=root, apply=True)
    assert content(path) == {"mcpServers": {"a": {}}}


# Hosts have menus that add a person's hook to the group that is there, which may be ours.
GROUPED = pytest.mark.parametrize("host", ["claude-code", "codex", "gemini", "qwen"])
THEIRS = {"type": "command", "command": "./mine.sh", "timeout": 5}


def with_a_hook_in_our_groups(host: str, root: Path) -> tuple[Path, dict[str, Any]]:
    """Every group of ours has a hook of the user's beside it, as the host's menu would have put it there."""
    hosts.install(host, root=root, apply=True)
    path = next(file.path for file in shared(host, root) if any(entry.mode == "item" for entry in file.entries))
    tree = content(path)
    for groups in tree["hooks"].values():
        groups[0] = {"matcher": "", "hooks": [*groups[0]["hooks"], THEIRS]}
    path.write_text(json.dumps(tree, indent=2))
    return path, tree


@GROUPED
def test_a_hook_that_a_person_added_to_our_group_outlives_ours(host: str, root: Path, home: Path) -> None:
    path, tree = with_a_hook_in_our_groups(host, root)
    assert not hosts.install(host, root=root, apply=True).changes
    hosts.uninstall(host, root=root, apply=True)
    assert content(path)["hooks"] == {event: [{"matcher": "", "hooks": [THEIRS]}] for event in tree["hooks"]}


@GROUPED
def test_a_hook_of_ours_in_a_shared_group_is_renewed_alone(
    host: str, root: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tree = with_a_hook_in_our_groups(host, root)
    moved = home.parent / "moved"
    (home.parent / "programs").rename(moved)
    monkeypatch.setenv("PATH", str(moved))
    hosts.install(host, root=root, apply=True)
    for event, (theirs, ours) in content(path)["hooks"].items():
        assert theirs == {"matcher": "", "hooks": [THEIRS]}, event
        assert [hook["command"].split(" ")[0] for hook in ours["hooks"]] == [str(moved / "skm")]
    hosts.uninstall(host, root=root, apply=True)
    assert content(path)["hooks"] == {event: [{"matcher": "", "hooks": [THEIRS]}] for event in tree["hooks"]}


def test_an_inline_table_is_refused_with_what_to_do_and_then_the_install_works(root: Path, home: Path) -> None:
    path = root / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text('model = "x"\nmcp_servers = {}\n')
    before = everything(root, home)
    with pytest.raises(Invalid, match=r"config\.toml: mcp_servers is an empty inline table .*: delete that line"):
        hosts.install("codex", root=root, apply=True)
    assert everything(root, home) == before
    path.write_text('model = "x"\n')
    hosts.install("codex", root=root, apply=True)
    assert "spec_kit_memory" in content(path)["mcp_servers"]


@pytest.mark.parametrize("order", [("gemini", "qwen"), ("qwen", "gemini")])
def test_a_home_without_a_configuration_folder_has_none_after_the_last_uninstall(
    order: tuple[str, str], root: Path, home: Path
) -> None:
    (home / ".config").rmdir()
    before = everything(root, home)
    hosts.install("gemini", root=root, apply=True)
    hosts.install("qwen", root=root, apply=True)
    for host in order:
        hosts.uninstall(host, root=root, apply=True)
    assert everything(root, home) == before


@EVERY_HOST
@pytest.mark.parametrize("first", ["project", "user"])
def test_a_host_connected_for_a_project_and_for_the_user_leaves_no_folder(
    host: str, first: str, root: Path, home: Path
) -> None:
    (home / ".config").rmdir()
    before = everything(root, home)
    for scope in ("project", "user"):
        hosts.install(host, root=root, scope=scope, apply=True)
    for scope in sorted(("project", "user"), key=first.__ne__):
        hosts.uninstall(host, root=root, scope=scope, apply=True)
    assert everything(root, home) == before


@EVERY_HOST
def test_an_uninstall_says_whether_there_was_anything_to_undo(host: str, root: Path, home: Path) -> None:
    title = HOSTS[host].title
    assert hosts.uninstall(host, root=root).summary == f"{title} is not connected; nothing to change"
    hosts.install(host, root=root, apply=True)
    assert hosts.uninstall(host, root=root, apply=True).summary.startswith(f"{title} is no longer connected: ")


def test_an_install_that_failed_leaves_no_record_and_keeps_an_older_one(root: Path, home: Path) -> None:
    (root / ".claude").write_text("not a folder")
    before = everything(home)
    with pytest.raises(AccessDenied):
        hosts.install("claude-code", root=root, apply=True)
    assert everything(home) == before
    (root / ".claude").unlink()
    (root / ".mcp.json").write_text("{ }\n")
    hosts.install("claude-code", root=root, apply=True)
    connected = everything(home)
    shutil.rmtree(root / ".claude")
    (root / ".claude").write_text("not a folder")
    with pytest.raises(AccessDenied):
        hosts.install("claude-code", root=root, apply=True)
    assert everything(home) == connected
    (root / ".claude").unlink()
    hosts.uninstall("claude-code", root=root, apply=True)
    assert (root / ".mcp.json").read_text() == "{ }\n"
    assert everything(home) == before
