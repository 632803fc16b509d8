"""Does a hook say what its host expects, and never stand in its way? Run as the host runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory import settings
from spec_kit_memory.serve.hooks import EVENTS, HOOKED, SUMMARISED, TEXT_LENGTH
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

CONSTITUTION = (
    "---\ntitle: Ask before a deploy\ntriggers: [deploy]\n---\n# Ask before a deploy\n\nSomebody must agree.\n"
)
DECISION = (
    "---\ntitle: Tokens live fifteen minutes\ntriggers: [token lifetime, oauth refresh]\n---\n"
    "# Tokens live fifteen minutes\n\nLonger ones could not be revoked.\n"
)
LONG = "---\ntitle: Everything about caching\ntriggers: [cache policy]\n---\n# Caching\n\n" + "A line of text.\n" * 400


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hooks") / "project"
    files = {
        "constitutional/deploy.md": CONSTITUTION,
        "specs/007-auth/memory/tokens.md": DECISION,
        "specs/007-auth/memory/cache.md": LONG,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    with Workspace(settings.load(folder, environ={})) as workspace:
        workspace.index(embed=False)
    return folder


def run(*arguments: str, given: object, **environ: str) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.endswith("_PROJECT_DIR")}
    return subprocess.run(
        [sys.executable, "-m", "spec_kit_memory", "hook", *arguments],
        input=given if isinstance(given, bytes) else json.dumps(given).encode(),
        capture_output=True,
        timeout=180,
        check=False,
        env={**kept, **environ},
    )


def answered(*arguments: str, given: object, **environ: str) -> dict[str, Any]:
    done = run(*arguments, given=given, **environ)
    assert done.returncode == 0
    assert done.stdout, done.stderr.decode()
    if "opencode" in arguments:  # whose plugin passes plain text on
        assert not done.stdout.startswith(b"{")
        return {"additionalContext": done.stdout.decode()}
    content = json.loads(done.stdout)
    assert isinstance(content, dict)
    return content


def said(answer: dict[str, Any]) -> str:
    inner = answer.get("hookSpecificOutput", answer)
    return str(inner.get("additionalContext") or inner.get("additional_context"))


def prompt_for(host: str, root: Path, prompt: str) -> dict[str, Any]:
    if host == "cursor":
        return {"conversation_id": "c1", "workspace_roots": [str(root)], "prompt": prompt, "attachments": []}
    if host == "vscode":
        return {"sessionId": "v1", "hookEventName": "UserPromptSubmit", "cwd": str(root), "prompt": prompt}
    return {"session_id": host, "cwd": str(root), "hook_event_name": "UserPromptSubmit", "prompt": prompt}


@pytest.mark.parametrize("host", HOOKED)
def test_a_prompt_brings_up_what_it_triggers(host: str, root: Path) -> None:
    given = prompt_for(host, root, "What was our token lifetime again?")
    answer = answered("prompt", "--host", host, given=given)
    if host == "cursor":
        assert answer.pop("continue") is True
        assert list(answer) == ["additional_context"]
    elif host != "opencode":
        inner = answer["hookSpecificOutput"]
        assert inner["hookEventName"] == ("BeforeAgent" if host == "gemini" else "UserPromptSubmit")
        # VS Code's hooks are Copilot CLI's as well, which reads the text at the top.
        assert answer.get("additionalContext") == (inner["additionalContext"] if host == "vscode" else None)
    assert "Tokens live fifteen minutes" in said(answer)
    assert "specs/007-auth/memory/tokens.md" in said(answer)
    assert "could not be revoked" in said(answer)
    assert "trigger" not in said(answer).split("Tokens live", 1)[1].split("could not")[0]


@pytest.mark.parametrize("host", HOOKED)
def test_a_prompt_that_triggers_nothing_adds_nothing(host: str, root: Path) -> None:
    done = run("prompt", "--host", host, given=prompt_for(host, root, "rename this variable"))
    assert (done.returncode, done.stdout) == (0, b"")


def test_what_a_hook_added_before_does_not_trigger_itself(root: Path) -> None:
    added = "<hook_context>Remembered: ask before a deploy.</hook_context>\n\n"
    given = {"session_id": "9e31", "cwd": str(root), "prompt": added + "What was our token lifetime again?"}
    message = said(answered("prompt", "--host", "gemini", given=given))
    assert "Tokens live fifteen minutes" in message
    assert "Ask before a deploy" not in message


def test_a_wish_to_save_is_passed_on(root: Path) -> None:
    answer = answered("prompt", given=prompt_for("claude-code", root, "please save context now"))
    assert "memory_save" in said(answer)


def test_the_turns_of_a_session_are_counted(root: Path) -> None:
    given = {**prompt_for("claude-code", root, "deploy it"), "session_id": "counted"}
    for number in range(3):
        run("prompt", given={**given, "prompt": f"deploy it, {number}"})
    with Workspace(settings.load(root, environ={})) as workspace:
        turn = workspace.triggers("hello", session_id="counted").session["turn"]
    assert turn == 4


def test_a_long_memory_is_cut_and_says_how_to_get_the_rest(root: Path) -> None:
    text = said(answered("prompt", given=prompt_for("claude-code", root, "our cache policy")))
    assert "memory_load" in text
    assert len(text) <= TEXT_LENGTH + 1000


@pytest.mark.parametrize("host", HOOKED)
def test_a_session_starts_with_rules(host: str, root: Path) -> None:
    given = {"session_id": f"s2-{host}", "cwd": str(root), "workspace_roots": [str(root)], "source": "startup"}
    answer = answered("session-start", "--host", host, given=given)
    assert "Ask before a deploy" in said(answer)
    if host not in ("cursor", "opencode"):
        assert answer["hookSpecificOutput"]["hookEventName"] == "SessionStart"


def test_a_rule_that_the_session_started_with_is_not_told_again_by_a_prompt(root: Path) -> None:
    start = {"session_id": "5e55", "cwd": str(root), "source": "startup"}
    assert "Somebody must agree." in said(answered("session-start", given=start))
    message = said(answered("prompt", given={**start, "prompt": "May I deploy this?"}))
    assert "Ask before a deploy" in message
    assert "Somebody must agree." not in message


def test_a_rule_that_a_prompt_brought_up_is_not_told_again_at_a_start(root: Path) -> None:
    given = {"session_id": "5e56", "cwd": str(root)}
    assert "Somebody must agree." in said(answered("prompt", given={**given, "prompt": "May I deploy this?"}))
    start = run("session-start", given={**given, "source": "startup"})
    assert b"Somebody must agree." not in start.stdout


def test_a_rule_that_a_search_found_is_not_told_again_by_a_hook(root: Path) -> None:
    with Workspace(Settings(root=root, semantic=Semantic(model="none"), watch="off")) as workspace:
        found = workspace.search("ask before a deploy somebody must agree", session_id="5e57").results
    assert any("Somebody must agree." in result.text for result in found)
    given = {"session_id": "5e57", "cwd": str(root)}
    assert b"Somebody must agree." not in run("prompt", given={**given, "prompt": "May I deploy this?"}).stdout
    assert b"Somebody must agree." not in run("session-start", given={**given, "source": "startup"}).stdout
    assert b"Somebody must agree." in run("session-start", given={**given, "source": "compact"}).stdout


@pytest.mark.parametrize("host", SUMMARISED)
def test_a_summary_keeps_decisions_and_the_memories_in_use(host: str, root: Path) -> None:
    session = f"long-{host}"
    given = {**prompt_for(host, root, "our token lifetime"), "session_id": session}
    assert "could not be revoked" in said(answered("prompt", "--host", host, given=given))
    again = {**given, "prompt": "our token lifetime once more"}
    assert "could not be revoked" not in said(answered("prompt", "--host", host, given=again))
    compacted = {"cwd": str(root), "session_id": session, "trigger": "auto"}
    kept = run("pre-compact", "--host", host, given=compacted).stdout.decode()
    assert "decision" in kept
    assert "Tokens live fifteen minutes (id " in kept
    assert f'"{session}"' in kept
    assert not kept.startswith("{")
    # The model has forgotten it by then, so it is told again.
    assert "could not be revoked" in said(answered("prompt", "--host", host, given=given))


@pytest.mark.parametrize("how", ["clear", "compact", "resume"])
def test_a_session_that_starts_anew_is_told_again(how: str, root: Path) -> None:
    given = {**prompt_for("claude-code", root, "our token lifetime"), "session_id": how}
    assert "could not be revoked" in said(answered("prompt", given=given))
    start = answered("session-start", given={"session_id": how, "cwd": str(root), "source": how})
    assert f'"{how}"' in said(start)
    assert "could not be revoked" in said(answered("prompt", given=given))


def test_the_end_of_a_session_says_nothing_and_lets_it_be_told_again(root: Path) -> None:
    given = {**prompt_for("claude-code", root, "our token lifetime"), "session_id": "over"}
    assert "could not be revoked" in said(answered("prompt", given=given))
    done = run("session-end", given={"session_id": "over", "cwd": str(root), "reason": "exit"})
    assert (done.returncode, done.stdout) == (0, b"")
    assert "could not be revoked" in said(answered("prompt", given=given))


@pytest.mark.parametrize("host", [host for host in HOOKED if host not in SUMMARISED])
def test_before_compaction_saving_is_suggested(host: str, root: Path) -> None:
    answer = answered("pre-compact", "--host", host, given={"cwd": str(root), "trigger": "auto"})
    assert list(answer) == ["user_message" if host == "cursor" else "systemMessage"]
    assert "memory_save" in next(iter(answer.values()))


def test_the_project_is_found_from_a_folder_below_or_from_the_hosts_variable(root: Path, tmp_path: Path) -> None:
    given = {**prompt_for("claude-code", root / "specs" / "007-auth", "token lifetime"), "session_id": "below"}
    assert "fifteen" in said(answered("prompt", given=given))
    elsewhere = {**given, "cwd": str(tmp_path), "session_id": "elsewhere"}
    assert "fifteen" in said(answered("prompt", given=elsewhere, CLAUDE_PROJECT_DIR=str(root)))
    named = {**elsewhere, "session_id": "named"}
    assert "fifteen" in said(answered("prompt", "--workspace", str(root), given=named))


def test_a_project_without_an_index_gets_none(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for event in ("prompt", "session-start", "pre-compact"):
        done = run(event, given={"session_id": "s", "cwd": str(tmp_path), "prompt": "token lifetime"})
        assert (done.returncode, done.stdout) == (0, b"")
    assert [path.name for path in tmp_path.iterdir()] == [".git"]


def test_outside_of_projects_a_hook_says_nothing_at_all(tmp_path: Path) -> None:
    for event in EVENTS:
        done = run(event, given={"session_id": "s", "cwd": str(tmp_path), "prompt": "x"}, CLAUDE_PROJECT_DIR="/")
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    named = run("prompt", "--workspace", str(tmp_path / "gone"), given={"prompt": "x"})
    assert (named.returncode, named.stdout) == (0, b"")
    assert b"gone" in named.stderr


def test_a_prompt_that_was_cut_within_an_emoji_brings_up_what_it_triggers(root: Path) -> None:
    cut = {"session_id": "cut \ud83d", "cwd": str(root), "prompt": "our token lifetime \ud83d"}
    assert "fifteen" in said(answered("prompt", given=cut))


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        (("prompt",), b""),
        (("prompt",), b"{bad"),
        (("prompt",), b"[1]"),
        (("prompt",), b"\xff\xfe\x00"),
        (("prompt",), b'{"cwd": 5, "prompt": ["x"], "session_id": {}, "workspace_roots": "x"}'),
        (("no-such-event",), b"{}"),
        (("prompt", "--host", "emacs"), b"{}"),
        (("prompt", "--host"), b"{}"),
        ((), b"{}"),
    ],
)
def test_whatever_comes_a_hook_ends_well_and_silently(arguments: tuple[str, ...], given: bytes, root: Path) -> None:
    done = run(*arguments, "--workspace", str(root), given=given)
    assert done.returncode == 0
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr


def test_a_broken_index_does_not_fail_the_host(tmp_path: Path) -> None:
    state = tmp_path / ".spec-kit-memory"
    state.mkdir()
    (state / "index.sqlite").write_bytes(b"this is no database" * 100)
    done = run("prompt", given={"cwd": str(tmp_path), "prompt": "token lifetime"})
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr.startswith(b"spec-kit-memory hook: ")


def test_a_hook_loads_none_of_the_heavy_libraries(root: Path) -> None:
    code = (
        "import sys; from spec_kit_memory.serve.cli.main import main; main(['hook', 'prompt']); "
        "sys.stderr.write(' '.join(m for m in ('numpy', 'onnxruntime', 'mcp', 'rich', 'click', 'tokenizers') "
        "if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(prompt_for("claude-code", root, "token lifetime")).encode(),
        capture_output=True,
        timeout=180,
        check=False,
    )
    assert b"fifteen" in done.stdout
    assert done.stderr == b""


def test_help_is_shown_like_that_of_any_command() -> None:
    done = run("--help", given=b"")
    assert done.returncode == 0
    assert b"pre-compact" in done.stdout
