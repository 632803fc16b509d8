"""Does `skm doctor` see what a host would see, and say how to mend it?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.serve import hosts
from spec_kit_memory.serve.hosts import HOSTS, approval, doctor
from spec_kit_memory.serve.hosts.doctor import Diagnosis
from spec_kit_memory.serve.hosts.formats import SERVER, HostPlace, argv

PYTHON_M = ["python3", "-m", "spec_kit_memory", "serve"]
MEMORY = "# Token decision\n\nWe chose signed tokens.\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "memory").mkdir(parents=True)
    (folder / "memory/tokens.md").write_text(MEMORY)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "CLINE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    subprocess.run(
        [sys.executable, "-m", "spec_kit_memory", "--workspace", str(folder), "index", "--text-only"],
        check=True,
        capture_output=True,
        env=os.environ | {"SPEC_KIT_MEMORY_SEMANTIC_MODEL": "none"},
    )
    return folder


def bad(diagnosis: Diagnosis) -> list[str]:
    return [finding.about for finding in diagnosis.findings if not finding.ok]


@pytest.mark.parametrize("host", sorted(set(HOSTS) - {"cursor"}))
@pytest.mark.parametrize("scope", ["project", "user"])
def test_a_host_that_is_connected_is_in_order(host: str, scope: str, root: Path) -> None:
    hosts.install(host, root=root, scope=scope, apply=True)
    result = doctor.diagnose(HOSTS[host], root=root)
    assert bad(result) == [], result.findings
    assert result.scope == scope or host == "cline"  # which has one file for both
    looked_at = {each.about for each in result.findings}
    assert {"configuration", "program", "handshake", "tools", "first call", "PATH"} <= looked_at


def test_a_host_that_is_not_connected_is_told_how(root: Path) -> None:
    result = doctor.diagnose(HOSTS["codex"], root=root)
    assert bad(result) == ["configuration"]
    assert result.hints == ("Run `skm install codex`.",)


@pytest.mark.parametrize("words", [["/opt/bin/skm", "serve"], ["uvx", "spec-kit-memory", "serve"], PYTHON_M])
def test_the_same_server_under_another_name_is_found(words: list[str], root: Path) -> None:
    servers = {"memory": {"command": words[0], "args": words[1:]}, "other": {"command": "other", "args": ["serve"]}}
    elsewhere = {"command": "skm", "args": ["serve", "--workspace", "/elsewhere"]}
    path = root / ".gemini/settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": {**servers, "another project": elsewhere}}))
    hosts.install("gemini", root=root, apply=True)
    found = doctor.diagnose(HOSTS["gemini"], root=root)
    assert bad(found) == ["other entry"]
    assert only(found, "other entry")[1] == "Take memory out of that file."


def test_a_program_that_went_away_is_named(root: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    path = root / ".mcp.json"
    content = json.loads(path.read_text())
    content["mcpServers"]["spec_kit_memory"] |= {"command": "/gone/skm", "args": ["serve"]}
    path.write_text(json.dumps(content))
    result = doctor.diagnose(HOSTS["claude-code"], root=root)
    assert bad(result)[0] == "program"
    assert "/gone/skm" in next(each.detail for each in result.findings if each.about == "program")


def test_another_program_under_our_name_is_not_us(root: Path, tmp_path: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    other = tmp_path / "skm"
    other.write_text("#!/bin/sh\necho something else 1.0\n")
    other.chmod(0o755)
    path = root / ".mcp.json"
    content = json.loads(path.read_text())
    content["mcpServers"]["spec_kit_memory"] |= {"command": str(other), "args": ["serve"]}
    path.write_text(json.dumps(content))
    assert "program" in bad(doctor.diagnose(HOSTS["claude-code"], root=root))


def test_a_server_that_dies_says_its_last_words(root: Path, tmp_path: Path) -> None:
    hosts.install("claude-code", root=root, scope="user", apply=True)
    dying = tmp_path / "skm"
    dying.write_text('#!/bin/sh\n[ "$1" = --version ] && echo spec-kit-memory 9 && exit\necho no disk >&2\nexit 1\n')
    dying.chmod(0o755)
    path = root.parent / "home/.claude.json"
    content = json.loads(path.read_text())
    content["mcpServers"]["spec_kit_memory"] |= {"command": str(dying), "args": ["serve"]}
    path.write_text(json.dumps(content))
    result = doctor.diagnose(HOSTS["claude-code"], root=root)
    assert "no disk" in next(each.detail for each in result.findings if each.about == "handshake")


def test_a_hook_that_was_taken_out_or_fails_is_found(root: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    path = root / ".claude/settings.json"
    content = json.loads(path.read_text())
    del content["hooks"]["SessionStart"]
    content["hooks"]["PreCompact"][0]["hooks"][0]["command"] = "/gone/skm hook pre-compact --host claude-code"
    path.write_text(json.dumps(content))
    assert bad(doctor.diagnose(HOSTS["claude-code"], root=root)) == ["hook SessionStart", "hook PreCompact"]


def test_a_server_that_ends_after_its_first_answers_is_found(root: Path) -> None:
    hosts.install("claude-code", root=root, scope="user", apply=True)
    change(
        root.parent / "home/.claude.json",
        args=[*argv(entry_of(root.parent / "home/.claude.json"))[1:], "--tols", "lean"],
    )
    found = doctor.diagnose(HOSTS["claude-code"], root=root)
    assert bad(found) == ["first call"]
    assert "--tols" in only(found, "first call")[0]


def test_an_index_that_cannot_be_read_is_told_with_its_remedy(root: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    index = root / ".spec-kit-memory/index.sqlite"
    index.write_bytes(b"\x17" * 40_960 + index.read_bytes()[40_960:])
    for name in ("index.sqlite-wal", "index.sqlite-shm"):
        (index.parent / name).unlink(missing_ok=True)
    detail, mend = only(doctor.diagnose(HOSTS["claude-code"], root=root), "first call")
    assert detail.startswith("E024: ")
    assert mend.startswith("Run `skm index --rebuild`")


def test_a_remedy_is_worded_for_the_person_who_reads_it_and_not_for_a_model(root: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    for path in (root / ".spec-kit-memory").glob("index.sqlite*"):
        path.unlink()
    (root / ".spec-kit-memory/index.sqlite").mkdir()
    detail, mend = only(doctor.diagnose(HOSTS["claude-code"], root=root), "first call")
    assert detail.startswith("E020: ")
    assert mend == "A folder is in the index's place: move it away and run `skm index`"
    hosts.install("codex", root=root, apply=True)  # whose entry names the project
    assert only(doctor.diagnose(HOSTS["codex"], root=root), "first call") == (detail, mend)


def test_the_server_is_started_in_the_environment_that_the_entry_gives(root: Path, tmp_path: Path) -> None:
    hosts.install("claude-code", root=root, scope="user", apply=True)
    change(root.parent / "home/.claude.json", env={"SPEC_KIT_MEMORY_WORKSPACE": str(tmp_path / "gone")})
    detail, _ = only(doctor.diagnose(HOSTS["claude-code"], root=root), "first call")
    assert str(tmp_path / "gone") in detail


def test_a_program_whose_interpreter_is_gone_is_told_apart(root: Path, tmp_path: Path) -> None:
    hosts.install("claude-code", root=root, scope="user", apply=True)
    program = tmp_path / "skm"
    program.write_text("#!/gone/python\n")
    program.chmod(0o755)
    change(root.parent / "home/.claude.json", command=str(program), args=["serve"])
    assert "interpreter" in only(doctor.diagnose(HOSTS["claude-code"], root=root), "program")[0]


def entry_of(path: Path) -> object:
    return json.loads(path.read_text())["mcpServers"]["spec_kit_memory"]


def test_a_hook_of_somebody_elses_is_not_run(root: Path, tmp_path: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    path = root / ".claude/settings.json"
    content = json.loads(path.read_text())
    theirs = {"type": "command", "command": f"touch {tmp_path}/was-run; lint hook run"}
    content["hooks"]["SessionStart"][0]["hooks"].insert(0, theirs)
    content["hooks"]["PreCompact"] = [{"hooks": [theirs]}]
    path.write_text(json.dumps(content))
    assert bad(doctor.diagnose(HOSTS["claude-code"], root=root)) == ["hook PreCompact"]
    assert not (tmp_path / "was-run;").exists()
    assert not (tmp_path / "was-run").exists()


def change(path: Path, **values: object) -> None:
    """Change our server's entry in a JSON file of a host."""
    content = json.loads(path.read_text())
    servers = content.get("mcpServers") or content["mcp"]
    servers["spec_kit_memory"] |= values
    path.write_text(json.dumps(content))


def only(diagnosis: Diagnosis, about: str) -> tuple[str, str]:
    (finding,) = [each for each in diagnosis.findings if each.about == about]
    return finding.detail, finding.mend


@pytest.mark.parametrize("broken", ["{", "[1]", '{"mcpServers": 1} x'])
def test_a_configuration_that_cannot_be_read_is_to_be_corrected_first(broken: str, root: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    (root / ".mcp.json").write_text(broken)
    detail, mend = only(doctor.diagnose(HOSTS["claude-code"], root=root), "configuration")
    assert "not valid JSON" in detail
    assert mend == "Correct the file, then run `skm install claude-code`."


@pytest.mark.parametrize(
    "entry", ["skm", {"command": 1}, {"command": []}, {"args": ["serve"]}, {"command": "", "args": 2}]
)
def test_an_entry_that_names_no_program_is_said_to(entry: object, root: Path) -> None:
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": {"spec_kit_memory": entry}}))
    result = doctor.diagnose(HOSTS["claude-code"], root=root)
    assert bad(result) == ["configuration"]
    assert result.hints == ("Run `skm install claude-code`.",)


@pytest.mark.parametrize(
    ("host", "name", "off"),
    [
        ("opencode", "opencode.json", {"enabled": False}),
        ("claude-code", ".mcp.json", {"disabled": True}),
    ],
)
def test_a_server_that_is_switched_off_is_said_to_be(host: str, name: str, off: dict[str, bool], root: Path) -> None:
    hosts.install(host, root=root, apply=True)
    change(root / name, **off)
    assert "switched off" in only(doctor.diagnose(HOSTS[host], root=root), "configuration")[0]


DECIDED = {
    "a server that was declined": (
        "claude-code",
        "project/.claude/settings.local.json",
        '{"disabledMcpjsonServers": %s}',
    ),
    "one that was declined for the project": (
        "claude-code",
        "home/.claude.json",
        '{"projects": {"PROJECT": {"disabledMcpServers": %s}}}',
    ),
    "hooks that are switched off": ("claude-code", "home/.claude/settings.json", '{"disableAllHooks": true}'),
    "a folder that is not trusted": (
        "codex",
        "home/.codex/config.toml",
        '[projects."PROJECT"]\ntrust_level = "untrusted"',
    ),
    "one above that is not trusted": ("gemini", "home/.gemini/trustedFolders.json", '{"ABOVE": "DO_NOT_TRUST"}'),
    "a server that is excluded": ("qwen", "home/.qwen/settings.json", '{"mcp": {"excluded": %s}}'),
}


@pytest.mark.parametrize("case", DECIDED)
def test_what_a_person_decided_in_the_host_is_seen(case: str, root: Path, tmp_path: Path) -> None:
    host, name, text = DECIDED[case]
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("PROJECT", str(root)).replace("ABOVE", str(tmp_path)).replace("%s", f'["{SERVER}"]'))
    place = HostPlace(root, "project", os.environ)
    against = [decision for decision in approval.decisions(host, place) if decision.mend]
    assert [str(path) in decision.detail for decision in against] == [True]
    path.write_text("")
    assert not [decision for decision in approval.decisions(host, place) if decision.mend]


@pytest.mark.parametrize(
    ("host", "name", "text"),
    [
        ("claude-code", ".claude.json", '{"projects": {"PROJECT": {"enabledMcpjsonServers": ["spec_kit_memory"]}}}'),
        ("codex", ".codex/config.toml", '[projects."PROJECT"]\ntrust_level = "trusted"'),
        ("copilot", ".copilot/config.json", '// settings\n{"trusted_folders": ["PROJECT"]}'),
        ("gemini", ".gemini/trustedFolders.json", '{"PROJECT": "TRUST_FOLDER"}'),
    ],
)
def test_what_a_host_is_still_to_ask_is_told_until_it_was_answered(
    host: str, name: str, text: str, root: Path, tmp_path: Path
) -> None:
    place = HostPlace(root, "project", os.environ)
    assert [decision.mend for decision in approval.decisions(host, place)] == [""]
    path = tmp_path / "home" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace("PROJECT", str(root)))
    assert not list(approval.decisions(host, place))


def test_an_entry_for_another_project_is_found(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "copy"
    hosts.install("cline", root=root, apply=True)
    other.mkdir()
    detail, mend = only(doctor.diagnose(HOSTS["cline"], root=other), "workspace")
    assert str(root) in detail
    assert mend == "Run `skm install cline` here."


def test_a_project_without_an_index_is_told_to_make_one(root: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    hosts.install("claude-code", root=empty, apply=True)
    assert only(doctor.diagnose(HOSTS["claude-code"], root=empty), "workspace")[1] == "Run `skm index` there."


def test_a_server_that_never_answers_is_given_up(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tmp_path / "skm"
    silent.write_text('#!/bin/sh\n[ "$1" = --version ] && echo spec-kit-memory 9 && exit\nexec sleep 600\n')
    silent.chmod(0o755)
    hosts.install("claude-code", root=root, scope="user", apply=True)
    change(root.parent / "home/.claude.json", command=str(silent), args=["serve"])
    monkeypatch.setattr(doctor, "ANSWER_SECONDS", 1.0)
    detail, _ = only(doctor.diagnose(HOSTS["claude-code"], root=root), "handshake")
    assert "nothing within 1 s" in detail


def test_a_hook_whose_command_line_cannot_be_read_is_found(root: Path) -> None:
    hosts.install("claude-code", root=root, apply=True)
    path = root / ".claude/settings.json"
    content = json.loads(path.read_text())
    content["hooks"]["PreCompact"][0]["hooks"][0]["command"] = "'/x/skm hook pre-compact --host claude-code"
    path.write_text(json.dumps(content))
    assert bad(doctor.diagnose(HOSTS["claude-code"], root=root)) == ["hook PreCompact"]


def test_a_plugin_that_is_missing_or_of_another_program_is_found(root: Path) -> None:
    hosts.install("opencode", root=root, apply=True)
    plugin = root / ".opencode/plugins/spec-kit-memory.js"
    plugin.write_text(plugin.read_text().replace("const PROGRAM = [", 'const PROGRAM = ["/gone", '))
    assert bad(doctor.diagnose(HOSTS["opencode"], root=root)) == ["hook plugin"]
    plugin.unlink()
    result = doctor.diagnose(HOSTS["opencode"], root=root)
    assert (bad(result), result.hints) == (["hook plugin"], ("Run `skm install opencode`.",))


SPY = 'touch "$1"; echo spec-kit-memory 9'


@pytest.mark.parametrize(
    "launch",
    [
        {"command": "sh", "args": ["-c", SPY, "serve", "{mark}"]},
        {"command": "{program}", "args": ["serve", "{mark}"]},
        {"command": "./skm", "args": ["serve", "{mark}"]},
        {"command": "{ours}", "args": ["--workspace", "{other}", "index", "serve"]},
        {"command": "{ours}", "args": ["serve", "--set", "semantic.model=remote"]},
        {"command": "{ours}", "args": ["serve"], "env": {"PYTHONPATH": "{other}"}},
    ],
    ids=[
        "shell",
        "program in the project",
        "relative",
        "ours with another command",
        "ours with a setting",
        "ours with a variable",
    ],
)
def test_a_program_that_a_clone_names_is_not_run(
    launch: dict[str, Any], root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, other = tmp_path / "mark", tmp_path / "other"
    (other / "memory").mkdir(parents=True)
    ours = tmp_path / "bin" / "skm"
    ours.parent.mkdir()
    for program in (root / "skm", ours):
        program.write_text(f"#!/bin/sh\ntouch {mark}\necho spec-kit-memory 9\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ours.parent}:/usr/bin:/bin")
    monkeypatch.chdir(root)
    words = {"mark": mark, "program": root / "skm", "ours": ours, "other": other}
    named = json.dumps(launch)
    for name, value in words.items():
        named = named.replace(f"{{{name}}}", str(value))
    (root / ".mcp.json").write_text(f'{{"mcpServers": {{"spec_kit_memory": {named}}}}}')
    detail, mend = only(doctor.diagnose(HOSTS["claude-code"], root=root), "program")
    assert "is not run" in detail
    assert "skm install claude-code" in mend
    assert not mark.exists()


@pytest.mark.parametrize(
    "command",
    ["sh -c 'touch {mark}' hook skm", "{ours} delete 1 --yes hook x", "{ours} hook --workspace {mark} --host x"],
)
def test_a_hook_that_a_clone_names_is_not_run(
    command: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, ours = tmp_path / "mark", tmp_path / "bin" / "skm"
    ours.parent.mkdir()
    ours.write_text(
        f'#!/bin/sh\n[ "$1" = serve ] && exec {sys.executable} -m spec_kit_memory "$@"\n'
        f'[ "$1" = --version ] && echo spec-kit-memory 9 && exit\n[ "$3" = --host ] || touch {mark}\n'
    )
    ours.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ours.parent}:/usr/bin:/bin")
    hosts.install("claude-code", root=root, apply=True)
    path = root / ".claude/settings.json"
    content = json.loads(path.read_text())
    content["hooks"]["PreCompact"][0]["hooks"][0]["command"] = command.format(mark=mark, ours=ours)
    path.write_text(json.dumps(content))
    assert bad(doctor.diagnose(HOSTS["claude-code"], root=root)) == ["hook PreCompact"]
    assert not mark.exists()


def test_variables_that_a_clone_gave_our_server_do_not_outlive_install(root: Path, tmp_path: Path) -> None:
    """A module path would run code at the start of every server: doctor's, and the host's."""
    (root / "evil").mkdir()
    (root / "evil/sitecustomize.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    entry = {"command": "skm", "args": ["serve"], "env": {"PYTHONPATH": str(root / "evil")}}
    (root / ".mcp.json").write_text(json.dumps({"mcpServers": {SERVER: entry}}))
    hosts.install("claude-code", root=root, apply=True)
    assert bad(doctor.diagnose(HOSTS["claude-code"], root=root)) == []
    assert not (tmp_path / "mark").exists()


def test_a_module_of_the_project_is_not_taken_for_one_of_ours(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    for module in ("click.py", "spec_kit_memory/__init__.py"):
        (root / module).parent.mkdir(exist_ok=True)
        (root / module).write_text("open('mark', 'w')\n")
    hosts.install("claude-code", root=root, apply=True)
    found = doctor.diagnose(HOSTS["claude-code"], root=root)
    assert "program" not in bad(found)
    entry = json.loads((root / ".mcp.json").read_text())["mcpServers"]["spec_kit_memory"]
    subprocess.run([entry["command"], *entry["args"]], cwd=root, stdin=subprocess.DEVNULL, check=True, timeout=60)
    assert not (root / "mark").exists()


@pytest.mark.parametrize("host", ["claude-code", "codex", "opencode", "vscode"])
def test_a_pipe_in_place_of_a_configuration_is_not_waited_for(host: str, root: Path) -> None:
    for file in {file.path for file in hosts.HOSTS[host].files(HostPlace(root, "project", os.environ))}:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(file)
    found = doctor.diagnose(HOSTS[host], root=root)
    assert "configuration" in bad(found)


def test_a_pipe_in_place_of_what_a_person_decided_is_not_waited_for(root: Path) -> None:
    (root / ".claude").mkdir()
    os.mkfifo(root / ".claude/settings.local.json")
    list(approval.decisions("claude-code", HostPlace(root, "project", os.environ)))


def test_another_skm_on_the_path_is_named(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "skm"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m spec_kit_memory "$@"\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'one'}:/usr/bin:/bin")
    hosts.install("claude-code", root=root, apply=True)
    monkeypatch.setenv("PATH", f"{tmp_path / 'two'}:/usr/bin:/bin")
    detail, mend = only(doctor.diagnose(HOSTS["claude-code"], root=root), "PATH")
    assert str(tmp_path / "two" / "skm") in detail
    assert "skm install" in mend


def test_the_command_ends_with_1_where_something_is_wrong(root: Path) -> None:
    command = [sys.executable, "-m", "spec_kit_memory", "--workspace", str(root), "doctor", "codex"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "skm install codex" in done.stdout
