"""Does connecting a host change what it says, keep what was there, and go away without a trace?"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.core import jsonc
from spec_kit_memory.errors import AccessDenied, BadParameter, Invalid
from spec_kit_memory.serve import hosts
from spec_kit_memory.serve.hosts import edits, toml
from spec_kit_memory.serve.hosts.formats import HOSTS, File, HostPlace, argv, is_ours, named_workspace

EVERY_HOST = pytest.mark.parametrize("host", sorted(HOSTS))
EVERY_SCOPE = pytest.mark.parametrize("scope", ["project", "user"])
VARIABLES = ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "APPDATA", "SPEC_KIT_MEMORY_USER_CONFIG")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder, programs = tmp_path / "home", tmp_path / "programs"
    (folder / ".config").mkdir(parents=True)
    programs.mkdir()
    executable = programs / "skm"
    executable.write_text("#!/bin/sh\n")
    executable.chmod(0o755)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PATH", str(programs))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return folder


def program(home: Path) -> str:
    return str(home.parent / "programs" / "skm")


@pytest.fixture
def root(tmp_path: Path, home: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def everything(*folders: Path) -> dict[str, bytes | None]:
    """Every file with its bytes, every folder with None."""
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for folder in folders
        for path in sorted(folder.rglob("*"))
    }


def files_of(host: str, root: Path, scope: str = "project") -> list[File]:
    place = HostPlace(root, "user" if scope == "user" else "project", os.environ)
    return HOSTS[host].files(place)


def shared(host: str, root: Path, scope: str = "project") -> list[File]:
    return [file for file in files_of(host, root, scope) if file.form != "text"]


FOREIGN_JSON = """\
{
    // my own server, do not touch
    "mcpServers": {
        "other": { "command": "other", "args": ["a", "b",], }, /* with a comma */
    },
    "mcp": {"other": {"type": "local", "command": ["x"]}},
    "servers": {
        "other": {"command": "x"} // last one
    },
    "hooks": {
        "UserPromptSubmit": [
            {"hooks": [{"type": "command", "command": "./mine.sh"}]}
        ],
        "beforeSubmitPrompt": [{"command": "./mine.sh"}],
    },
    "unknown": {"é": [1, 2.50, true, null, "\\u00e9 // no comment"]},
    "last": 1   // trailing comma follows

    ,
}
"""
FOREIGN_TOML = """\
# my settings
model = "gpt-5" # the best

[mcp_servers.other]
command = 'x'
args = [
  "a", # one
]

[profiles.work]
note = \"\"\"
[mcp_servers.spec_kit_memory] is only text here
\"\"\"
"""


def write_foreign(host: str, root: Path, scope: str, *, newline: str = "\n") -> list[Path]:
    paths = []
    for file in shared(host, root, scope):
        file.path.parent.mkdir(parents=True, exist_ok=True)
        text = FOREIGN_TOML if file.form == "toml" else FOREIGN_JSON
        file.path.write_bytes(text.replace("\n", newline).encode())
        paths.append(file.path)
    return paths


def only_inserted(before: str, after: str) -> bool:
    """Every character of the user's is still there, in its order."""
    rest = iter(after)
    return all(character in rest for character in before)


def content(path: Path) -> Any:
    text = path.read_bytes().decode()
    return tomllib.loads(text) if path.suffix == ".toml" else jsonc.read(text)


# --- the round trip ------------------------------------------------------------------------------


@EVERY_HOST
@EVERY_SCOPE
def test_a_plan_shows_diffs_and_changes_nothing(host: str, scope: str, root: Path, home: Path) -> None:
    before = everything(root, home)
    plan = hosts.install(host, root=root, scope=scope, apply=False)
    assert plan.changes
    assert all(change["action"] == "create" and "\n+" in change["diff"] for change in plan.changes)
    assert not plan.applied
    assert everything(root, home) == before


@EVERY_HOST
@EVERY_SCOPE
def test_uninstall_takes_a_fresh_install_back_to_the_last_folder(host: str, scope: str, root: Path, home: Path) -> None:
    before = everything(root, home)
    assert hosts.install(host, root=root, scope=scope, apply=True).applied
    assert len(everything(root, home)) > len(before)
    again = hosts.install(host, root=root, scope=scope, apply=True)
    assert not again.changes
    assert hosts.uninstall(host, root=root, scope=scope, apply=True).applied
    assert everything(root, home) == before
    assert not hosts.uninstall(host, root=root, scope=scope, apply=True).changes


@EVERY_HOST
@EVERY_SCOPE
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_and_foreign_entries_survive_and_come_back_byte_for_byte(
    host: str, scope: str, newline: str, root: Path, home: Path
) -> None:
    paths = write_foreign(host, root, scope, newline=newline)
    before = everything(root, home)
    old = {path: path.read_bytes().decode() for path in paths}
    plan = hosts.install(host, root=root, scope=scope, apply=True)
    assert len(plan.backups) == len(paths)
    for path in paths:
        text = path.read_bytes().decode()
        assert only_inserted(old[path], text)
        assert ("\r\n" in text) == (newline == "\r\n")
        assert newline == "\n" or "\n" not in text.replace("\r\n", "")
    assert not hosts.install(host, root=root, scope=scope, apply=True).changes
    hosts.uninstall(host, root=root, scope=scope, apply=True)
    assert everything(root, home) == before


@EVERY_HOST
@EVERY_SCOPE
def test_what_others_wrote_since_stays_and_only_our_entries_go(host: str, scope: str, root: Path, home: Path) -> None:
    paths = write_foreign(host, root, scope)
    wanted = {}
    for path in paths:
        if path.suffix == ".toml":
            wanted[path] = path.read_text() + "\n[later]\nx = 1\n"
        else:
            wanted[path] = path.read_text().replace('"last": 1', '"last": 2')
    hosts.install(host, root=root, scope=scope, apply=True)
    for path in paths:
        text = path.read_text()
        path.write_text(
            text + "\n[later]\nx = 1\n" if path.suffix == ".toml" else text.replace('"last": 1', '"last": 2')
        )
    hosts.uninstall(host, root=root, scope=scope, apply=True)
    for path in paths:
        assert content(path) == tomllib.loads(wanted[path]) if path.suffix == ".toml" else jsonc.read(wanted[path])
        assert "spec_kit_memory]\ncommand" not in path.read_text()
        assert "skm" not in path.read_text()
        for comment in ("# my settings",) if path.suffix == ".toml" else ("// my own server", "/* with a comma */"):
            assert comment in path.read_text()


@EVERY_HOST
def test_without_the_record_our_entries_still_go(host: str, root: Path, home: Path) -> None:
    paths = write_foreign(host, root, "project")
    before = {path: content(path) for path in paths}
    hosts.install(host, root=root, apply=True)
    for path in (home / ".config" / "spec-kit-memory" / "hosts").rglob("record.json"):
        path.unlink()
    hosts.uninstall(host, root=root, apply=True)
    # A version that Cursor wants stays: nobody remembers whether it was there.
    assert {path: {k: v for k, v in content(path).items() if k != "version"} for path in paths} == before
    assert not [file.path for file in files_of(host, root) if file.form == "text" and file.path.exists()]


@EVERY_HOST
def test_the_installed_entry_is_what_the_host_reads(host: str, root: Path, home: Path) -> None:
    hosts.install(host, root=root, apply=True)
    where = {
        "claude-code": (".mcp.json", ("mcpServers",)),
        "codex": (".codex/config.toml", ("mcp_servers",)),
        "cursor": (".cursor/mcp.json", ("mcpServers",)),
        "opencode": ("opencode.json", ("mcp",)),
        "vscode": (".vscode/mcp.json", ("servers",)),
        "copilot": (".github/mcp.json", ("mcpServers",)),
        "gemini": (".gemini/settings.json", ("mcpServers",)),
        "qwen": (".qwen/settings.json", ("mcpServers",)),
        "cline": (str(home / ".cline/data/settings/cline_mcp_settings.json"), ("mcpServers",)),
    }
    name, keys = where[host]
    entry = toml.find(content(root / name), (*keys, "spec_kit_memory"))
    entry = entry.get("transport", entry)
    argv = entry["command"] if host == "opencode" else [entry["command"], *entry["args"]]
    assert argv[:2] == [program(home), "serve"]
    kinds = {"opencode": "local", "copilot": "local"} | dict.fromkeys(("claude-code", "cline", "vscode"), "stdio")
    assert entry.get("type") == kinds.get(host)
    named = {"codex": str(root), "cline": str(root), "cursor": "${workspaceFolder}", "vscode": "${workspaceFolder}"}
    assert argv[2:] == (["--workspace", named[host]] if host in named else [])


CLAUDE_NAMES = ("UserPromptSubmit", "SessionStart", "PreCompact", "SessionEnd")
HOOK_FILES = {
    "claude-code": (".claude/settings.json", CLAUDE_NAMES),
    "codex": (".codex/hooks.json", CLAUDE_NAMES),
    "cursor": (".cursor/hooks.json", ("beforeSubmitPrompt", "sessionStart", "preCompact", "sessionEnd")),
    "vscode": (".github/hooks/spec-kit-memory.json", CLAUDE_NAMES),
    "copilot": (".github/hooks/spec-kit-memory.json", CLAUDE_NAMES),
    "gemini": (".gemini/settings.json", ("BeforeAgent", "SessionStart", "PreCompress", "SessionEnd")),
    "qwen": (".qwen/settings.json", CLAUDE_NAMES),
}


@pytest.mark.parametrize("host", sorted(HOOK_FILES))
def test_hooks_call_us_for_each_event(host: str, root: Path, home: Path) -> None:
    hosts.install(host, root=root, apply=True)
    name, events = HOOK_FILES[host]
    hooks = content(root / name)["hooks"]
    called = "vscode" if host == "copilot" else host  # the two share a file
    for event, ours in zip(events, ("prompt", "session-start", "pre-compact", "session-end"), strict=True):
        (group,) = hooks[event]
        (hook,) = group.get("hooks", [group])
        assert hook["command"] == f"{shlex.quote(program(home))} hook {ours} --host {called}"
        assert hook["timeout"] == (10_000 if host == "gemini" else 10)
    assert content(root / name)["version"] == 1 if host in ("cursor", "vscode", "copilot") else True


def test_vs_code_and_copilot_share_their_hooks_until_the_last_of_them_goes(root: Path, home: Path) -> None:
    before = everything(root, home)
    for first, last in (("vscode", "copilot"), ("copilot", "vscode")):
        hosts.install(first, root=root, apply=True)
        hosts.install(last, root=root, apply=True)
        hooks = root / ".github/hooks/spec-kit-memory.json"
        assert len(content(hooks)["hooks"]["SessionStart"]) == 1
        hosts.uninstall(first, root=root, apply=True)
        assert len(content(hooks)["hooks"]["SessionStart"]) == 1
        hosts.uninstall(last, root=root, apply=True)
        assert everything(root, home) == before


@EVERY_HOST
def test_three_commands_are_written_in_the_hosts_own_form(host: str, root: Path) -> None:
    hosts.install(host, root=root, apply=True)
    where = {
        "claude-code": ".claude/commands/memory/{}.md",
        "codex": ".agents/skills/memory-{}/SKILL.md",
        "cursor": ".cursor/skills/memory-{}/SKILL.md",
        "opencode": ".opencode/commands/memory-{}.md",
        "vscode": ".github/prompts/memory-{}.prompt.md",
        "copilot": ".github/skills/memory-{}/SKILL.md",
        "qwen": ".qwen/commands/memory/{}.md",
    }
    if host not in where:
        return  # Gemini CLI's are TOML, below; Cline has none
    for name, tool in {"save": "memory_save", "search": "memory_search", "checkpoint": "checkpoint_create"}.items():
        text = (root / where[host].format(name)).read_text(encoding="utf-8")
        front, _, body = text.removeprefix("---\n").partition("\n---\n")
        assert "description: " in front
        assert (f"name: memory-{name}" in front) == ("SKILL.md" in where[host])
        assert tool in body
        assert "{arguments}" not in body


def test_gemini_reads_its_commands_as_toml(root: Path) -> None:
    hosts.install("gemini", root=root, apply=True)
    for name, tool in {"save": "memory_save", "search": "memory_search", "checkpoint": "checkpoint_create"}.items():
        command = tomllib.loads((root / f".gemini/commands/memory/{name}.toml").read_text(encoding="utf-8"))
        assert command["description"]
        assert tool in command["prompt"]
        assert "{{args}}" in command["prompt"]


# --- people's own files -----------------------------------------------------------------------------


@EVERY_HOST
@pytest.mark.parametrize("broken", ['{"a": ', '{"a": 1} x', "[1]", "{a: 1}", '{"a" 1}', '{"a": 1 "b": 2}', "\udcff"])
def test_a_malformed_file_is_named_and_nothing_is_written(host: str, broken: str, root: Path, home: Path) -> None:
    for file in shared(host, root):
        file.path.parent.mkdir(parents=True, exist_ok=True)
        file.path.write_bytes(broken.encode("utf-8", "surrogateescape"))
    if host == "codex":
        (root / ".codex/config.toml").write_text("a = = 1")
    before = everything(root, home)
    with pytest.raises(Invalid) as caught:
        hosts.install(host, root=root, apply=True)
    for file in shared(host, root):
        assert str(file.path) in caught.value.message
    assert everything(root, home) == before


def test_an_empty_file_is_filled_and_emptied_again(root: Path) -> None:
    (root / ".mcp.json").write_text("\n")
    hosts.install("claude-code", root=root, apply=True)
    assert "spec_kit_memory" in content(root / ".mcp.json")["mcpServers"]
    hosts.uninstall("claude-code", root=root, apply=True)
    assert (root / ".mcp.json").read_text() == "\n"


def test_a_command_file_of_the_users_own_is_never_overwritten(root: Path, home: Path) -> None:
    own = root / ".claude/commands/memory/save.md"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    plan = hosts.install("claude-code", root=root, apply=True)
    assert plan.kept == (str(own),)
    hosts.uninstall("claude-code", root=root, apply=True)
    assert own.read_text() == "mine"


def test_a_command_file_that_was_edited_stays(root: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    edited = root / ".claude/commands/memory/save.md"
    edited.write_text(edited.read_text() + "And thank me.\n")
    assert not hosts.install("claude-code", root=root, apply=True).changes
    plan = hosts.uninstall("claude-code", root=root, apply=True)
    assert plan.kept == (str(edited),)
    assert edited.read_text().endswith("And thank me.\n")
    assert not (root / ".claude/commands/memory/search.md").exists()


def test_an_older_text_of_ours_is_brought_up_to_date(root: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything(root, home)
    with monkeypatch.context() as older:
        older.setenv("PATH", "")
        hosts.install("claude-code", root=root, apply=True)
    assert content(root / ".mcp.json")["mcpServers"]["spec_kit_memory"]["command"] == sys.executable
    plan = hosts.install("claude-code", root=root, apply=True)
    assert {Path(change["path"]).name for change in plan.changes} == {".mcp.json", "settings.json"}
    assert content(root / ".mcp.json")["mcpServers"]["spec_kit_memory"]["command"] == program(home)
    assert len(content(root / ".claude/settings.json")["hooks"]["UserPromptSubmit"]) == 1
    hosts.uninstall("claude-code", root=root, apply=True)
    assert everything(root, home) == before


@pytest.mark.parametrize(("scope", "key"), [("user", '"env": {"A": "1"}'), ("project", '"timeout": 9')])
def test_keys_that_a_user_added_to_our_entry_are_kept(scope: str, key: str, root: Path, home: Path) -> None:
    hosts.install("claude-code", root=root, scope=scope, apply=True)
    path = root / ".mcp.json" if scope == "project" else home / ".claude.json"
    path.write_text(path.read_text().replace('"type": "stdio"', f'{key}, "type": "stdio"'))
    assert not hosts.install("claude-code", root=root, scope=scope, apply=True).changes
    path.write_text(path.read_text().replace(f'"{program(home)}"', '"/old/skm"'))
    hosts.install("claude-code", root=root, scope=scope, apply=True)
    entry = content(path)["mcpServers"]["spec_kit_memory"]
    assert entry == jsonc.read(f"{{{key}}}") | {"type": "stdio", "command": program(home), "args": ["serve"]}
    hosts.uninstall("claude-code", root=root, scope=scope, apply=True)
    assert not path.exists()


def test_a_server_entry_that_was_there_before_us_comes_back(root: Path, home: Path) -> None:
    path = root / ".mcp.json"
    path.write_text('{"mcpServers": {"spec_kit_memory": {"command": "mine"}}}')
    hosts.install("claude-code", root=root, apply=True)
    assert content(path)["mcpServers"]["spec_kit_memory"]["command"] == program(home)
    hosts.uninstall("claude-code", root=root, apply=True)
    assert path.read_text() == '{"mcpServers": {"spec_kit_memory": {"command": "mine"}}}'


def test_a_link_of_the_users_own_to_a_file_elsewhere_stays_a_link(root: Path, home: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    link = home / ".claude.json"
    link.symlink_to(real)
    hosts.install("claude-code", root=root, scope="user", apply=True)
    assert link.is_symlink()
    assert "spec_kit_memory" in content(real)["mcpServers"]
    hosts.uninstall("claude-code", root=root, scope="user", apply=True)
    assert link.is_symlink()
    assert real.read_text() == "{}"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_modes_are_kept_and_backups_are_private(root: Path, home: Path) -> None:
    path = home / ".claude.json"
    path.write_text('{"oauth": "secret"}')
    path.chmod(0o600)
    plan = hosts.install("claude-code", root=root, scope="user", apply=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (backup,) = plan.backups
    assert Path(backup).read_text() == '{"oauth": "secret"}'
    assert stat.S_IMODE(Path(backup).stat().st_mode) == 0o600


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_cannot_be_written_leaves_all_others_as_they_were_for_a_plain_user(root: Path) -> None:
    folder = root / ".claude"
    folder.mkdir(mode=0o555)
    before = everything(root)
    with pytest.raises(AccessDenied):
        hosts.install("claude-code", root=root, apply=True)
    assert everything(root) == before


def test_a_file_that_cannot_be_written_leaves_all_others_as_they_were(root: Path) -> None:
    # A folder that is a file cannot be written into, whoever asks.
    (root / ".claude").mkdir()
    (root / ".claude" / "commands").write_text("not a folder")
    before = everything(root)
    with pytest.raises(AccessDenied):
        hosts.install("claude-code", root=root, apply=True)
    assert everything(root) == before


def test_a_file_that_nobody_may_write_is_left_alone(root: Path) -> None:
    path = root / ".mcp.json"
    path.write_text("{}")
    path.chmod(0o444)
    before = everything(root)
    with pytest.raises(AccessDenied) as caught:
        hosts.install("claude-code", root=root, apply=True)
    assert str(path) in caught.value.message
    assert everything(root) == before


@EVERY_HOST
@EVERY_SCOPE
def test_a_byte_order_mark_stays(host: str, scope: str, root: Path, home: Path) -> None:
    for path in (paths := write_foreign(host, root, scope, newline="\r\n")):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    before = everything(root, home)
    hosts.install(host, root=root, scope=scope, apply=True)
    assert all(path.read_bytes().startswith(b"\xef\xbb\xbf") for path in paths)
    assert edits.present(paths[0].read_bytes().decode(), shared(host, root, scope)[0])
    hosts.uninstall(host, root=root, scope=scope, apply=True)
    assert everything(root, home) == before


@EVERY_HOST
@EVERY_SCOPE
def test_odd_characters_in_paths_reach_the_host_as_they_are(
    host: str, scope: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = 'it\'s a "pröject" $HOME `x`; & 日本'
    root, programs = tmp_path / odd, tmp_path / f"programs {odd}"
    root.mkdir()
    programs.mkdir()
    log = tmp_path / "log"
    executable = programs / "skm"
    executable.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    executable.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    before = everything(root, home)
    hosts.install(host, root=root, scope=scope, apply=True)
    for file in shared(host, root, scope):
        for entry in file.entries:
            if entry.path[-1] == "spec_kit_memory":
                subprocess.run(
                    [word.replace("${workspaceFolder}", str(root)) for word in argv(entry.value)], check=True
                )
            elif entry.mode == "item":
                subprocess.run(["/bin/sh", "-c", entry.value.get("hooks", [entry.value])[0]["command"]], check=True)
    lines = log.read_text(encoding="utf-8").splitlines()
    named = host in ("cline", "codex", "vscode", "cursor") and (scope == "project" or host == "cursor")
    assert lines[0] == "serve" + (f" --workspace {root}" if named else "")
    assert all(line.startswith("hook ") for line in lines[1:])
    hosts.uninstall(host, root=root, scope=scope, apply=True)
    assert everything(root, home) == before


def test_a_link_of_the_users_own_that_leads_nowhere_yet_is_filled_and_leads_nowhere_again(
    root: Path, home: Path, tmp_path: Path
) -> None:
    link, target = home / ".claude.json", tmp_path / "dotfiles/claude/servers.json"
    link.symlink_to(target)
    hosts.install("claude-code", root=root, scope="user", apply=True)
    assert "spec_kit_memory" in content(target)["mcpServers"]
    hosts.uninstall("claude-code", root=root, scope="user", apply=True)
    assert link.is_symlink()
    assert not (tmp_path / "dotfiles").exists()


@pytest.mark.parametrize("first", [0, 1], ids=["the first goes first", "the last goes first"])
def test_two_projects_of_one_list_of_servers_do_not_disturb_each_other(
    first: int, root: Path, home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    before = everything(root, home)
    hosts.install("cline", root=root, apply=True)
    hosts.install("cline", root=other, apply=True)
    servers = home / ".cline/data/settings/cline_mcp_settings.json"
    hosts.uninstall("cline", root=(root, other)[first], apply=True)
    left = (other, root)[first]
    assert named_workspace(content(servers)["mcpServers"]["spec_kit_memory"]) == str(left)
    hosts.uninstall("cline", root=left, apply=True)
    assert everything(root, home) == before


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("claude-code", "choose yes"),
        ("cline", "approve"),
        ("codex", "trust"),
        ("copilot", "allow"),
        ("cursor", "enable"),
        ("gemini", "allow"),
        ("opencode", "asks nothing"),
        ("qwen", "allow"),
        ("vscode", "trust"),
    ],
)
def test_an_install_says_what_the_host_will_ask(host: str, asked: str, root: Path) -> None:
    assert any(asked in hint for hint in hosts.install(host, root=root, apply=True).hints)


# --- hosts' own ways -----------------------------------------------------------------------------------


def test_opencode_takes_the_nested_form_where_the_file_has_it(root: Path, home: Path) -> None:
    path = root / "opencode.jsonc"
    path.write_text('{"mcp": {"servers": {"a": {"type": "local", "command": ["a"]}}}}')
    hosts.install("opencode", root=root, apply=True)
    assert content(path)["mcp"]["servers"]["spec_kit_memory"] == {
        "type": "local",
        "command": [program(home), "serve"],
    }
    assert not (root / "opencode.json").exists()
    hosts.uninstall("opencode", root=root, apply=True)
    assert path.read_text() == '{"mcp": {"servers": {"a": {"type": "local", "command": ["a"]}}}}'


def test_a_server_called_servers_is_not_taken_for_the_nested_form(root: Path) -> None:
    (root / "opencode.json").write_text('{"mcp": {"servers": {"type": "local", "command": ["a"]}}}')
    hosts.install("opencode", root=root, apply=True)
    assert set(content(root / "opencode.json")["mcp"]) == {"servers", "spec_kit_memory"}


def test_vs_code_gets_no_second_hooks_beside_those_of_claude_code(root: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    plan = hosts.install("vscode", root=root, apply=True)
    assert not (root / ".github/hooks").exists()
    assert any(".claude/settings.json" in hint for hint in plan.hints)


def test_two_hosts_do_not_disturb_each_other(root: Path, home: Path) -> None:
    before = everything(root, home)
    for host in sorted(HOSTS):
        hosts.install(host, root=root, apply=True)
    for host in sorted(HOSTS):
        assert hosts.uninstall(host, root=root, apply=True).applied
    assert everything(root, home) == before


@pytest.mark.parametrize(
    ("platform", "environ", "expected"),
    [
        ("linux", {"HOME": "/h"}, "/h/.config/Code/User/mcp.json"),
        ("linux", {"HOME": "/h", "XDG_CONFIG_HOME": "/x"}, "/x/Code/User/mcp.json"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Application Support/Code/User/mcp.json"),
        ("win32", {"USERPROFILE": "/h", "APPDATA": "/a"}, "/a/Code/User/mcp.json"),
        ("win32", {"USERPROFILE": "/h"}, "/h/AppData/Roaming/Code/User/mcp.json"),
    ],
)
def test_vs_code_keeps_its_users_file_elsewhere_on_each_system(
    platform: str, environ: dict[str, str], expected: str
) -> None:
    place = HostPlace(Path("/p"), "user", environ, platform=platform)
    assert HOSTS["vscode"].files(place)[0].path == Path(expected)


@pytest.mark.parametrize(
    ("host", "environ", "expected"),
    [
        ("claude-code", {"HOME": "/h"}, "/h/.claude.json"),
        ("claude-code", {"HOME": "/h", "CLAUDE_CONFIG_DIR": "/c"}, "/c/.claude.json"),
        ("codex", {"HOME": "/h"}, "/h/.codex/config.toml"),
        ("codex", {"HOME": "/h", "CODEX_HOME": "/c"}, "/c/config.toml"),
        ("cursor", {"HOME": "/h"}, "/h/.cursor/mcp.json"),
        ("opencode", {"HOME": "/h"}, "/h/.config/opencode/opencode.json"),
    ],
)
def test_a_users_own_configuration_is_found_where_the_host_keeps_it(
    host: str, environ: dict[str, str], expected: str
) -> None:
    assert HOSTS[host].files(HostPlace(Path("/p"), "user", environ))[0].path == Path(expected)


def test_a_users_own_entry_names_the_program_by_its_place(root: Path, home: Path) -> None:
    hosts.install("claude-code", root=root, scope="user", apply=True)
    entry = content(home / ".claude.json")["mcpServers"]["spec_kit_memory"]
    assert entry["command"] == str(home.parent / "programs" / "skm")


def test_without_a_program_on_the_path_the_interpreter_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    hosts.install("claude-code", root=root, apply=True)
    entry = content(root / ".mcp.json")["mcpServers"]["spec_kit_memory"]
    assert [entry["command"], *entry["args"]] == [sys.executable, "-P", "-m", "spec_kit_memory", "serve"]
    (group,) = content(root / ".claude/settings.json")["hooks"]["SessionStart"]
    assert is_ours(group)


@pytest.mark.parametrize("act", [hosts.install, hosts.uninstall])
def test_an_unknown_host_is_answered_with_the_known_ones(act: Callable[..., object], root: Path) -> None:
    with pytest.raises(BadParameter) as caught:
        act("emacs", root=root)
    assert all(name in caught.value.hint for name in HOSTS)


def test_a_plan_is_shown_with_its_diff(root: Path) -> None:
    shown = [getattr(block, "text", "") for block in hosts.blocks(hosts.install("cursor", root=root))]
    assert any(line.startswith("create ") and line.endswith("mcp.json") for line in shown)
    assert any(line.strip() == '+    "spec_kit_memory": {' for line in shown)


def test_a_diff_of_a_long_file_shows_the_place_and_nothing_else(root: Path, home: Path) -> None:
    history = ",\n".join(f'    "line {number}"' for number in range(5000))
    (home / ".claude.json").write_text(
        f'{{\n  "history": [\n{history}\n  ],\n  "mcpServers": {{\n  }},\n  "last": 1\n}}\n'
    )
    plan = hosts.install("claude-code", root=root, scope="user")
    (diff,) = [change["diff"] for change in plan.changes if change["path"].endswith(".claude.json")]
    assert diff.splitlines()[0] == "@@ -5003,4 +5003,11 @@"
    assert len(diff.splitlines()) == 12
    assert '+    "spec_kit_memory": {' in diff.splitlines()


def test_what_a_running_host_wrote_meanwhile_is_not_lost(root: Path, home: Path) -> None:
    path = root / ".mcp.json"
    path.write_text("{}")
    place = HostPlace(root, "project", os.environ)
    change = hosts._installed(HOSTS["claude-code"].files(place)[0], path.read_bytes(), None)
    assert change is not None
    path.write_text('{"written": "by the host"}')
    with pytest.raises(Invalid):
        hosts._apply([change], None)
    assert path.read_text() == '{"written": "by the host"}'


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers.spec_kit_memory]\ncommand = "mine"\nenabled = false\n',
        '[mcp_servers."spec_kit_memory"]\nargs = [\n  "a", # one\n]\n"command" = "mine" # why\n'
        '[mcp_servers.spec_kit_memory.env]\nA = "1"\n\n# about the next\n[other]\ncommand = "x"\n',
        "[a]\nb = 1\n[mcp_servers.spec_kit_memory]\r\nurl = 'x'\n",
    ],
)
def test_codex_keys_of_the_users_own_are_kept(text: str, root: Path, home: Path) -> None:
    path = home / ".codex/config.toml"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    hosts.install("codex", root=root, scope="user", apply=True)
    expected = tomllib.loads(text)
    expected["mcp_servers"]["spec_kit_memory"] |= {
        "command": program(home),
        "args": ["serve"],
    }
    assert content(path) == expected
    assert all(comment in path.read_text() for comment in ("# about the next",) if comment in text)
    hosts.uninstall("codex", root=root, scope="user", apply=True)
    assert path.read_bytes() == text.encode()


# --- as a person runs it --------------------------------------------------------------------------


def skm(*arguments: str, home: Path, root: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spec_kit_memory", *arguments, "--workspace", str(root)],
        env={**os.environ, "HOME": str(home)},
        input=given,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_the_command_shows_first_and_changes_nothing_unasked(root: Path, home: Path) -> None:
    before = everything(root, home)
    done = skm("install", "cursor", root=root, home=home)
    assert done.returncode == 0
    assert '"spec_kit_memory": {' in done.stdout
    assert "--yes" in done.stderr
    assert everything(root, home) == before


def test_the_command_installs_and_uninstalls(root: Path, home: Path) -> None:
    before = everything(root, home)
    done = skm("install", "cursor", "--yes", "--json", root=root, home=home)
    assert json.loads(done.stdout)["data"]["applied"] is True
    assert (root / ".cursor/mcp.json").exists()
    assert "nothing to change" in skm("install", "cursor", "--yes", root=root, home=home).stdout
    assert skm("uninstall", "cursor", "--yes", root=root, home=home).returncode == 0
    assert everything(root, home) == before


@EVERY_HOST
def test_what_is_registered_can_be_run(host: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    place = HostPlace(root, "project", os.environ)
    entry = next(e for file in HOSTS[host].files(place) for e in file.entries if e.path[-1] == "spec_kit_memory")
    launch = entry.value.get("transport", entry.value)
    argv = launch["command"] if host == "opencode" else [launch["command"], *launch["args"]]
    shown = subprocess.run([*argv, "--help"], capture_output=True, text=True, timeout=180, check=True, cwd=root)
    assert "MCP" in shown.stdout


@pytest.mark.skipif(os.name == "nt", reason="written for a POSIX shell")
def test_a_hooks_command_line_can_be_run_by_a_shell(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    command = HostPlace(root, "project", os.environ).hook("pre-compact", "codex")
    done = subprocess.run(
        ["/bin/sh", "-c", command], input=b"{}", capture_output=True, timeout=180, check=False, cwd=root
    )
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"No workspace" in done.stderr or done.stderr == b""


PLUGIN_STORY = """
const [path, directory] = process.argv.slice(2)
const copies = []
for (const copy of ["", "?copy"]) {
  copies.push(await (await import("file://" + encodeURI(path) + copy)).SpecKitMemory({ directory }))
}
const event = async (type, properties) => {
  for (const copy of copies) await copy.event({ event: { type, properties } })
}
const say = async (session, id) => {
  const parts = [{ id: `prt_${id}`.padEnd(30, "a"), type: "text", text: "hello" }]
  for (const copy of copies) await copy["chat.message"]({ sessionID: session }, { message: { id }, parts })
  return parts.slice(1).map((part) => part.text)
}
const seen = {}
await event("session.created", { info: { id: "new" } })
seen.first = await say("new", "m1")
seen.second = await say("new", "m2")
await event("session.compacted", { sessionID: "new" })
seen.compacted = await say("new", "m3")
seen.resumed = await say("old", "m4")
await event("session.created", { info: { id: "sub", parentID: "new" } })
seen.subagent = await say("sub", "m5")
const output = { context: [] }
for (const copy of copies) await copy["experimental.session.compacting"]({ sessionID: "new" }, output)
seen.summary = output.context
await event("session.deleted", { info: { id: "new" } })
console.log(JSON.stringify(seen))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_opencodes_plugin_runs_each_hook_once_though_it_is_installed_twice(
    root: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loaded as OpenCode loads it, with a program that says how it was called."""
    log = tmp_path / "log"
    executable = Path(program(home))
    executable.write_text(f'#!/bin/sh\n[ "$2" = session-end ] || echo "$2"\necho "$@ $(cat)" >> {log}\n')
    hosts.install("opencode", root=root, apply=True)
    story = tmp_path / "story.mjs"
    story.write_text(PLUGIN_STORY)
    node = shutil.which("node", path=os.defpath + ":/usr/local/bin")
    plugin = tmp_path / "plugin.mjs"
    plugin.write_bytes((root / ".opencode/plugins/spec-kit-memory.js").read_bytes())
    monkeypatch.setenv("PATH", os.defpath)
    done = subprocess.run([str(node), str(story), str(plugin), str(root)], capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout or "{}") == {
        "first": ["session-start\n\nprompt"],
        "second": ["prompt"],
        "compacted": ["session-start\n\nprompt"],
        "resumed": ["session-start\n\nprompt"],
        "subagent": [],
        "summary": ["pre-compact"],
    }, done.stderr
    calls = log.read_text().splitlines()
    sources = [json.loads(line.split(" ", 4)[4])["source"] for line in calls if line.startswith("hook session-start")]
    assert sources == ["startup", "compact", "resume"]
    assert sum(line.startswith("hook session-end") for line in calls) == 1


@EVERY_HOST
def test_nothing_is_written_through_the_link_of_a_folder_that_a_repository_brought(
    host: str, root: Path, home: Path
) -> None:
    """`.claude` may lead to the user's own `~/.claude`, so that an install for one project is one for all."""
    plan = hosts.install(host, root=root, scope="project")
    changed = [Path(change["path"]) for change in plan.changes]
    paths = [path.relative_to(root) for path in changed if path.is_relative_to(root)]  # Cline has its own for each user
    victim = home / "victim"
    for name in sorted({path.parts[0] for path in paths if len(path.parts) > 1}):
        victim.mkdir(exist_ok=True)
        (root / name).symlink_to(victim)
        for verb in (hosts.install, hosts.uninstall):
            with pytest.raises(Invalid, match="leads out of the project"):
                verb(host, root=root, scope="project", apply=True)
            assert everything(victim) == {}
        (root / name).unlink()
    assert everything(root) == {}


@EVERY_HOST
@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing yet"])
def test_nothing_is_written_through_the_link_of_a_file_that_a_repository_brought(
    host: str, there: bool, root: Path, home: Path
) -> None:
    """`.mcp.json` may lead to any file that the user keeps, or to one that some program would read once it is there."""
    plan = hosts.install(host, root=root, scope="project")
    changed = [Path(change["path"]) for change in plan.changes]
    for path in (path for path in changed if path.is_relative_to(root)):
        victim = home / f"victim{path.suffix}"
        if there:
            victim.write_text("{}" if path.suffix == ".json" else "")
        before = everything(home)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(victim)
        for verb in (hosts.install, hosts.uninstall):
            with pytest.raises(Invalid, match=r"leads out of the project: .* --scope user"):
                verb(host, root=root, scope="project", apply=True)
            assert everything(home) == before
        path.unlink()


@pytest.mark.parametrize("target", [".git/hooks/post-checkout", ".mcp.json"], ids=["into git's folder", "to itself"])
def test_a_link_within_the_project_that_leads_to_no_place_for_it_is_refused(target: str, root: Path) -> None:
    (root / ".git/hooks").mkdir(parents=True)
    (root / ".mcp.json").symlink_to(target)
    with pytest.raises(Invalid, match="replace"):
        hosts.install("claude-code", root=root, scope="project", apply=True)
    assert (root / ".mcp.json").is_symlink()
    assert not list((root / ".git/hooks").iterdir())


def test_a_link_to_another_file_of_the_project_stays_a_link(root: Path) -> None:
    (root / ".mcp.json").symlink_to("servers.json")
    hosts.install("claude-code", root=root, scope="project", apply=True)
    assert (root / ".mcp.json").is_symlink()
    assert "spec_kit_memory" in content(root / "servers.json")["mcpServers"]
    hosts.uninstall("claude-code", root=root, scope="project", apply=True)
    assert (root / ".mcp.json").is_symlink()
    assert not (root / "servers.json").exists()


@pytest.mark.skipif(os.name == "nt", reason="there are no such pipes")
def test_a_pipe_in_place_of_a_configuration_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / ".mcp.json")
    with pytest.raises(Invalid, match="not a regular file"):
        hosts.install("claude-code", root=root, scope="project", apply=True)


def test_a_link_within_the_project_is_kept_and_what_it_leads_to_is_written(root: Path) -> None:
    (root / ".shared").mkdir()
    (root / ".claude").symlink_to(".shared")
    hosts.install("claude-code", root=root, scope="project", apply=True)
    assert (root / ".claude").is_symlink()
    assert (root / ".shared" / "settings.json").exists()
    hosts.uninstall("claude-code", root=root, scope="project", apply=True)
    assert not list((root / ".shared").rglob("*.json"))
