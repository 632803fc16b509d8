"""The command line: parity with the tools, exit codes, JSON, and what a terminal shows."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from spec_kit_memory import __version__, answers
from spec_kit_memory.advice import Text, advise
from spec_kit_memory.core.links import Step
from spec_kit_memory.core.memory import Actor, Event, HistoryEntry, Link, Relation
from spec_kit_memory.serve.cli import answer_view, terminal
from spec_kit_memory.serve.cli.commands import COMMANDS
from spec_kit_memory.serve.cli.invocation import Invocation
from spec_kit_memory.serve.cli.program import Commands, run
from spec_kit_memory.serve.tools import TOOLS, Tool
from tests.serve.recorder import NOW, card

WORDS = """serve init index watch save search context load get list update delete validate stats health history link
unlink why triggers cleanup undo trust import|checkpoint create|checkpoint list|checkpoint diff|checkpoint restore|
checkpoint delete|ledger verify|ledger head|ledger export|chat import|chat list|chat forget|config show|install|
uninstall|merge|generate-context|completion|hook|doctor|ui|team add|team remove|team list|team sync|team token create|
team token list|team token revoke"""


def commands() -> list[str]:
    single, *rest = WORDS.replace("\n", " ").split("|")
    return single.split() + [each.strip() for each in rest]


def found(words: str) -> click.Command:
    command: click.Command | None = Commands()
    context = click.Context(command, obj=Invocation())  # type: ignore[arg-type]
    for word in words.split():
        assert isinstance(command, Commands)
        command = command.get_command(context, word)
    assert command is not None, words
    return command


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty workspace, and nobody's own settings."""
    for name in [name for name in os.environ if name.startswith("SPEC_KIT_MEMORY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPEC_KIT_MEMORY_USER_CONFIG", str(tmp_path / "nobody"))
    monkeypatch.setenv("SPEC_KIT_MEMORY_SEMANTIC_MODEL", "hashing")
    root = tmp_path / "project"
    (root / "specs").mkdir(parents=True)
    monkeypatch.chdir(root)
    return root


# --- names


@pytest.mark.parametrize("words", commands())
def test_every_promised_command_is_there_and_explains_itself(words: str) -> None:
    command = found(words)
    with click.Context(command, obj=Invocation()) as context:
        assert command.get_help(context)
        assert command.get_short_help_str()


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_parameter_of_a_tool_is_an_option_of_its_command(tool: Tool) -> None:
    flags = {flag for param in found(tool.command).params for flag in (*param.opts, *param.secondary_opts)}
    assert {parameter.flag for parameter in tool.parameters} <= flags
    assert {"--workspace", "--json"} <= flags


def test_help_lists_every_command_once() -> None:
    group = Commands()
    with click.Context(group, obj=Invocation()) as context:
        names = group.list_commands(context)
    assert len(names) == len(set(names))
    assert {words.split()[0] for words in commands()} - {"generate-context"} == set(names)
    assert "generate-context" in COMMANDS


def test_filters_have_short_names() -> None:
    flags = {flag for param in found("search").params for flag in param.opts}
    assert {"--tier", "--type", "--folder"} <= flags


def test_health_takes_its_time_on_request(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["index", "--text-only", "--json"]) == 0
    capsys.readouterr()
    assert run(["health", "--full", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["checks"]["integrity"] == "ok"


# --- what destroys asks, and where nobody can answer it needs --yes


@pytest.fixture
def snapshot(here: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    memory = here / "specs" / "007-auth" / "memory"
    memory.mkdir(parents=True)
    (memory / "a.md").write_text("# As it was\n\nText.\n", encoding="utf-8")
    for arguments in (["index"], ["checkpoint", "create", "before"], ["update", "1", "--title", "Renamed"]):
        assert run(arguments) == 0
    capsys.readouterr()
    return here


@pytest.mark.parametrize("more", [[], ["--clear-existing"], ["--restore-files"], ["--clear-existing", "--json"]])
def test_a_restore_in_a_script_needs_yes(snapshot: Path, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    head = (run(["ledger", "head"]), capsys.readouterr().out)
    assert run(["checkpoint", "restore", "before", *more]) == 1
    printed = capsys.readouterr()
    assert "E031" in printed.out + printed.err
    assert "--yes" in printed.out + printed.err
    assert (run(["ledger", "head"]), capsys.readouterr().out) == head
    assert run(["checkpoint", "restore", "before", "--yes", *more]) == 0


@pytest.mark.parametrize("verb", ["restore", "delete"])
@pytest.mark.parametrize(
    ("named", "said"), [([], "--name is missing"), (["nosuch"], "there is no checkpoint 'nosuch'")]
)
def test_nobody_is_asked_about_a_checkpoint_that_is_not_there(
    snapshot: Path, capsys: pytest.CaptureFixture[str], verb: str, named: list[str], said: str
) -> None:
    assert run(["checkpoint", "create", "kept"]) == 0
    capsys.readouterr()
    assert run(["checkpoint", verb, *named]) != 0
    shown = capsys.readouterr().err
    assert said in shown
    assert "--yes" not in shown


def test_deleting_a_checkpoint_in_a_script_needs_yes_as_nothing_brings_it_back(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["checkpoint", "create", "kept"]) == 0
    assert run(["checkpoint", "delete", "kept"]) == 1
    printed = capsys.readouterr()
    assert "--yes" in printed.out + printed.err
    assert run(["checkpoint", "delete", "kept", "--yes"]) == 0
    assert run(["checkpoint", "delete", "kept", "--yes"]) == 1


def test_deleting_a_folder_in_a_script_needs_yes_too(snapshot: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["delete", "--spec-folder", "007-auth"]) == 1
    assert run(["delete", "--spec-folder", "007-auth", "--yes"]) == 0


@pytest.mark.parametrize(
    "command", [["delete"], ["load"], ["update", "--title", "X"], ["validate", "--outdated"], ["trust"]]
)
def test_a_number_that_begins_with_0_is_no_memory(
    snapshot: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    head = (run(["ledger", "head"]), capsys.readouterr().out)
    assert run([*command, "001"]) != 0
    assert "Renamed" not in capsys.readouterr().out
    assert (run(["ledger", "head"]), capsys.readouterr().out) == head
    assert run(["load", "#1"]) == 0
    assert "Renamed" in capsys.readouterr().out


def test_phrases_are_added_and_removed_without_touching_the_others(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["update", "1", "--trigger", "signed tokens", "--trigger", "key rotation"]) == 0
    assert run(["update", "1", "--add-trigger", "refresh", "--remove-trigger", "Signed Tokens", "--json"]) == 0
    phrases = json.loads(capsys.readouterr().out.splitlines()[-1])["data"]["memory"]["triggers"]
    assert phrases == ["key rotation", "refresh"]
    assert run(["update", "1", "--remove-trigger", "nobody said it"]) == 1
    assert "key rotation, refresh" in capsys.readouterr().err


# --- what goes wrong


def test_a_misspelled_command_names_close_ones(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serach"]) == 2
    assert "search" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "x", "--limit", "many"],
        ["search", "x", "--limit", "0"],
        ["search", "x", "--tier", "vital"],
        ["search", "x", "--concepts", "one"],
        ["get"],
        ["load"],
        ["load", "--no-such-option"],
        ["why", "abc"],
        ["link", "1", "2", "likes"],
        ["search", "x", "--query", "y"],
        ["checkpoint", "create"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_wrong_usage_ends_with_2_and_json_says_why(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(arguments) == 2
    plain = capsys.readouterr()
    assert plain.out == ""
    assert plain.err
    assert run([*arguments, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"].startswith("E")
    assert error["message"]


@pytest.mark.parametrize("arguments", [["link", "1", "2", "likes"], ["why", "1", "--relations", "likes"]], ids=" ".join)
def test_an_unknown_relation_has_the_code_that_tools_give_it(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run([*arguments, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "E102"
    assert "supersedes" in error["hint"]


def test_no_workspace_is_an_error_with_a_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SPEC_KIT_MEMORY_WORKSPACE", raising=False)
    assert run(["stats", "--workspace", str(tmp_path / "nowhere"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "E010"


@pytest.mark.parametrize("command", ["save --text tabs", "list", "search tabs"])
def test_personal_memory_that_was_never_made_says_how_to_make_it(
    command: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spec_kit_memory.settings.own_folders.personal_vault", lambda: here / "nowhere" / "personal")
    assert run(["--personal", *command.split()]) == 1
    printed = capsys.readouterr().err
    assert "skm init --personal" in printed
    assert "--workspace" not in printed


def test_personal_memory_without_a_home_is_not_the_project_that_one_stands_in(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["init"]) == 0
    monkeypatch.setattr("spec_kit_memory.settings.own_folders.personal_vault", lambda: None)
    assert run(["--personal", "save", "--text", "I prefer tabs in every file"]) == 1
    assert "no home folder" in capsys.readouterr().err
    assert not list(here.glob("memory/*"))


@pytest.mark.parametrize(
    ("count", "whose"),
    [(1, "memory 1: "), (2, "each of 1 and 2: "), (12, "each of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more: ")],
)
def test_a_list_says_in_a_sentence_which_memories_a_remark_is_about(count: int, whose: str) -> None:
    cards = [card(number, problems=("it has no vectors yet",)) for number in range(1, count + 1)]
    assert f"{whose}it has no vectors yet\n" in drawn(
        answers.ListAnswer(outcome="", memories=tuple(cards), total=count)
    )


def test_a_list_counts_the_remarks_that_it_does_not_show() -> None:
    cards = tuple(card(number, problems=(f"remark {number}",)) for number in range(1, 8))
    message = drawn(answers.ListAnswer(outcome="", memories=cards, total=7))
    assert "remark 5\n" in message
    assert "2 more remarks; --json has them all" in message


def test_a_broken_setting_is_an_error_and_no_traceback(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stats", "--set", "semantic.model=gpt"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("E030: ")
    assert "Traceback" not in shown.err
    assert run(["stats", "--set", "nonsense", "--json"]) == 1
    assert "KEY=VALUE" in json.loads(capsys.readouterr().out)["error"]["message"]


def test_a_reader_that_had_enough_is_no_error(here: Path) -> None:
    script = f"{sys.executable} -m spec_kit_memory config show | head -1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {script}"], capture_output=True, text=True, cwd=here)
    assert (done.returncode, done.stderr) == (0, "")


# --- starting


def test_init_makes_a_workspace_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)["data"]["paths"]
    assert made == [".spec-kit-memory/.gitignore", ".spec-kit-memory/config.jsonc"]
    state = here / ".spec-kit-memory"
    (state / "config.jsonc").write_text("{}")
    assert run(["init"]) == 0
    assert "already" in capsys.readouterr().out
    assert (state / "config.jsonc").read_text() == "{}"


def test_git_sees_the_configuration_and_not_the_index(here: Path) -> None:
    git = ["git", "-C", str(here)]
    if subprocess.run([*git, "init", "-q"], capture_output=True).returncode:
        pytest.skip("git is not here")
    assert run(["init"]) == 0
    for name in ("index.sqlite", "context_template.md", "trash/x.md"):
        file = here / ".spec-kit-memory" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("x")
    shown = subprocess.run([*git, "status", "--porcelain", "-uall"], capture_output=True, text=True, check=True)
    assert {line[3:] for line in shown.stdout.splitlines()} == {
        ".spec-kit-memory/.gitignore",
        ".spec-kit-memory/config.jsonc",
        ".spec-kit-memory/context_template.md",
    }


def test_init_of_a_folder_that_is_not_there_is_an_error(here: Path) -> None:
    assert run(["init", str(here / "nowhere")]) == 1


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ('{"semantic": {"modell": "none"}}', "'semantic.modell'"),
        ('{"search": {"maxTokens": "lots"}}', "'search.maxTokens'"),
        ('{"semantic": {"remoteModel": "x"}}', "allow.network"),
        ('{"memory": {"extraPaths": ["/etc"]}}', "allow.outsidePaths"),
        ('{"semantic": ', "is not JSON"),
        ("[]", "must hold an object"),
    ],
)
def test_a_bad_configuration_advises_what_works(
    here: Path, capsys: pytest.CaptureFixture[str], config: str, told: str
) -> None:
    (here / ".spec-kit-memory").mkdir()
    (here / ".spec-kit-memory" / "config.jsonc").write_text(config, encoding="utf-8")
    assert run(["list"]) == 1
    printed = capsys.readouterr().err
    assert told in printed
    assert "`skm config show`" in printed
    assert run(["config", "show"]) == 0
    shown = capsys.readouterr().out
    assert told in shown
    assert "search.fusion" in shown
    assert run(["config", "show", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["data"]
    assert told in " ".join(data["problems"])
    assert {row["source"] for row in data["settings"]} <= {"default", "environment"}  # nothing refused is shown as set


def test_config_show_says_where_values_come_from(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show", "--json", "--set", "search.maxTokens=900"]) == 0
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)["data"]["settings"]}
    assert (rows["search.maxTokens"]["value"], rows["search.maxTokens"]["source"]) == (900, "flag")
    assert rows["semantic.model"]["source"] == "environment"
    assert rows["memory.decay.model"]["source"] == "default"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(here: Path, capsys: pytest.CaptureFixture[str], shell: str) -> None:
    assert run(["completion", shell]) == 0
    assert "_SKM_COMPLETE" in capsys.readouterr().out


def test_the_shell_completes_commands_and_spec_folders(here: Path) -> None:
    (here / "specs" / "007-auth").mkdir()
    (here / "specs" / "notes").mkdir()
    context = click.Context(found("search"), obj=Invocation())
    option = next(param for param in found("search").params if "--spec-folder" in param.opts)
    assert [item.value for item in option.shell_complete(context, "0")] == ["007-auth"]
    assert [item.value for item in option.shell_complete(context, "x")] == []


# --- saving from elsewhere


@pytest.mark.parametrize(
    "command",
    [["-m", "spec_kit_memory", "save"], ["-c", "from spec_kit_memory.serve.cli.main import *; generate_context()"]],
)
def test_a_session_is_saved_from_standard_input_into_the_named_folder(here: Path, command: list[str]) -> None:
    (here / "specs" / "007-auth").mkdir()
    session = json.dumps({"sessionSummary": "We chose tokens.", "title": "Tokens"})
    done = subprocess.run(
        [sys.executable, *command, "-", "007-auth", "--json"], input=session, capture_output=True, text=True, cwd=here
    )
    assert done.returncode == 0, done.stderr
    saved = json.loads(done.stdout)["data"]
    assert (saved["specFolder"], saved["title"]) == ("007-auth", "Tokens")
    assert (here / saved["path"]).read_text(encoding="utf-8").count("We chose tokens.")


# --- start


def test_the_version_is_printed_with_almost_nothing_imported() -> None:
    code = (
        "import sys; from spec_kit_memory.serve.cli.main import main; main(['--version'])\n"
        "print({'click', 'json', 'dataclasses', 'spec_kit_memory.settings'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=_paths())
    assert done.stdout == f"spec-kit-memory {__version__}\nset()\n", done.stderr


def _paths() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def test_matching_triggers_loads_neither_what_indexes_nor_what_draws(here: Path) -> None:
    memory = here / "specs" / "007-auth" / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    (memory / "a.md").write_text("---\ntrigger_phrases: [signed tokens]\n---\n# Tokens\n\nText.\n", encoding="utf-8")
    assert run(["index", "--text-only", "--json"]) == 0
    heavy = "numpy onnxruntime tokenizers mcp rich yaml watchfiles httpx2 asyncio ahocorasick_rs"
    ours = "files.scan files.discover core.markdown core.redact core.words core.passages features.search features.save"
    names = [*heavy.split(), *(f"spec_kit_memory.{name}" for name in ours.split())]
    code = (
        "import sys; from spec_kit_memory.serve.cli.program import run\n"
        "code = run(['triggers', 'where are signed tokens checked?', '--json'])\n"
        f"sys.stderr.write(repr((code, [name for name in {names!r} if name in sys.modules])))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=here, check=True)
    assert json.loads(done.stdout)["data"]["matches"][0]["title"] == "Tokens"
    assert done.stderr == "(0, [])"


def test_what_was_forgotten_is_listed_and_nothing_else(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = here / "specs" / "007-auth" / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    for name in ("keep", "drop"):
        (memory / f"{name}.md").write_text(f"# {name.title()}\n\nText of {name}.\n", encoding="utf-8")
    assert run(["index", "--text-only"]) == 0
    capsys.readouterr()
    assert run(["list", "--json"]) == 0
    ids = {row["title"]: row["id"] for row in json.loads(capsys.readouterr().out)["data"]["memories"]}
    assert run(["delete", str(ids["Drop"])]) == 0
    assert run(["index", "--text-only"]) == 0  # the file is still there, and stays forgotten
    capsys.readouterr()
    for words, titles in ((["list"], ["Keep"]), (["list", "--forgotten"], ["Drop"])):
        assert run([*words, "--json"]) == 0
        assert [row["title"] for row in json.loads(capsys.readouterr().out)["data"]["memories"]] == titles


def test_two_memories_are_merged_by_their_ids(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = here / "specs" / "007-auth" / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    for name in ("one", "two"):
        (memory / f"{name}.md").write_text(f"# {name.title()}\n\nText of {name}.\n", encoding="utf-8")
    assert run(["index", "--text-only"]) == 0
    capsys.readouterr()
    assert run(["list", "--json"]) == 0
    ids = {row["title"]: str(row["id"]) for row in json.loads(capsys.readouterr().out)["data"]["memories"]}
    assert run(["merge", ids["One"], ids["Two"], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["merged"] == int(ids["One"])
    assert "Text of one." in (memory / "two.md").read_text(encoding="utf-8")
    assert not (memory / "one.md").exists()
    assert run(["merge", ids["Two"], ids["Two"]]) == 1
    assert "with itself" in capsys.readouterr().err
    assert run(["undo"]) == 0
    assert (memory / "one.md").read_text(encoding="utf-8") == "# One\n\nText of one.\n"


def test_the_module_can_be_run() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spec_kit_memory", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"spec-kit-memory {__version__}\n"


# --- what is shown


def drawn(answer: answers.Answer, *, tty: bool = False, **how: Any) -> str:
    out = io.StringIO()
    out.isatty = lambda: tty  # type: ignore[method-assign]
    terminal.show(answer_view.blocks(answer, now=NOW, **how), out=out)
    return out.getvalue()


def result(**more: Any) -> answers.Result:
    shown = card()
    known: dict[str, Any] = {
        "id": 1,
        "title": shown.title,
        "path": shown.path,
        "lines": "3-5",
        "text": "We chose tokens.\x1b]0;gotcha\x07",
        "score": 87.4,
        "source": shown.source,
        "spec_folder": shown.spec_folder,
        "tier": shown.tier,
        "state": shown.state,
        "context_type": shown.context_type,
        "created_at": NOW,
    }
    return answers.Result(**(known | more))


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, "… and 1 more"), (400, "… and 395 more")])
def test_a_scan_shows_five_warnings_and_counts_the_rest(count: int, more: str) -> None:
    warnings = tuple(answers.FileWarning(path=f"{n}.md", line=3, message="unknown tier") for n in range(count))
    message = drawn(answers.IndexAnswer(outcome="done", warnings=warnings)).splitlines()
    assert sum("unknown tier" in line for line in message) == 5
    assert message[-1].startswith(more)
    assert any(line.startswith("…") for line in message) is bool(more)


def test_text_of_a_memory_cannot_steer_the_terminal() -> None:
    answer = answers.SearchAnswer(outcome="one", query="tokens", method="text", results=(result(),), total_found=1)
    for tty in (False, True):
        assert "\x1b]" not in drawn(answer, tty=tty)
        assert "\\x1b]0;gotcha\\x07" in drawn(answer, tty=tty)


def test_text_of_a_memory_cannot_turn_the_direction_of_a_line() -> None:
    turned = result(title="tokens\u202esnekot\u2066")
    answer = answers.SearchAnswer(outcome="one", query="tokens", method="text", results=(turned,), total_found=1)
    for tty in (False, True):
        assert "\\u202esnekot\\u2066" in drawn(answer, tty=tty)


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_names_of_files_cannot_steer_the_terminal_while_they_are_indexed(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with terminal.progress("Indexing") as step:
        step("specs/[/x]/memory/[red]a\x1b]0;gotcha\x07.md", 1, 2)
    Invocation().say("Into specs/\x1b]0;gotcha\x07?")
    assert "[/x]/memory/[red]a\\x1b]0;gotcha\\x07.md" in screen.getvalue()
    assert "\x1b]" not in screen.getvalue()


def test_a_long_index_run_says_in_a_pipe_how_far_it_is_and_how_long_it_will_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe, now = io.StringIO(), 0.0
    monkeypatch.setattr(sys, "stderr", pipe)
    with terminal.progress("Indexing", clock=lambda: now) as step:
        step("specs/001-a/memory/one.md", 1, 2)
        for second in range(100):
            now = float(second)
            step("vectors", 100 * second, 14_200)
    assert pipe.getvalue().splitlines() == [
        "vectors are being made: 2,000 of 14,200 passages, about 2 minutes to go",
        "vectors are being made: 4,000 of 14,200 passages, about 2 minutes to go",
        "vectors are being made: 6,000 of 14,200 passages, about 1 minute to go",
        "vectors are being made: 8,000 of 14,200 passages, about 1 minute to go",
    ]
    with terminal.progress("Indexing", quiet=True, clock=lambda: now) as step:
        now += 1_000.0
        step("vectors", 9_000, 14_200)
    assert len(pipe.getvalue().splitlines()) == 4


def test_a_search_shows_place_score_and_what_was_held_back() -> None:
    held = answers.HeldBack(archived=2, best=(answers.HeldMatch(id=9, title="Old one", reason="archived", score=0),))
    answer = answers.SearchAnswer(
        outcome="one",
        query="tokens",
        method="text",
        results=(result(superseded_by=(4,), explain={"relevance": 0.5}),),
        total_found=3,
        held_back=held,
        unavailable=("vectors are coming",),
        advice=("try more",),
    )
    shown = drawn(answer)
    for part in ("specs/007-auth/memory/1.md:3-5", "87/100", "superseded by 4", "archived 2", "Old one [9]"):
        assert part in shown
    for part in ("1 of 3 found by text", "vectors are coming", "try more", "relevance 0.5"):
        assert part in shown


@pytest.mark.parametrize(
    ("hint", "typed"),
    [
        (advise("next-page", count=12, offset=5), "12 more: --offset 5"),
        (advise("bring-archived"), "--include-archived brings archived and expired ones"),
        (advise("drop-filters", parameters=("spec_folder",)), "search again without --spec-folder"),
        (advise("other-words"), "try other words for the same thing, or `skm list` to browse"),
        (advise("name-folder"), "name one with --spec-folder; with --create a new one"),
        ("the source, maxTokens and the limits: true words", "the source, maxTokens and the limits: true words"),
    ],
)
def test_hints_speak_of_commands_and_options(hint: Text, typed: str) -> None:
    assert drawn(answers.Answer(outcome="none", advice=(hint,))).splitlines()[-1] == typed


def test_passages_are_explained_too() -> None:
    passage = answers.FlatResult(
        path="a.md",
        lines="1-2",
        text="t",
        score=0.5,
        source=card().source,
        id=1,
        title="A",
        explain=answers.ScoreParts(relevance=0.5),
    )
    answer = answers.SearchAnswer(outcome="one", query="t", method="text", results=(passage,), total_found=1)
    assert "relevance 0.5" in drawn(answer)


LINK = {"source_id": 1, "target_id": 2, "relation": "supports", "strength": 1.0, "evidence": ""}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            {"content_hash": "a", "fingerprint": "b", "validation_count": 0, "tier": "normal"},
            {"content_hash": "c", "fingerprint": "d", "validation_count": 1, "tier": "normal"},
            "file, validation count 0 → 1",
        ),
        ({"confidence": "0.5", "tier": "normal"}, {"confidence": "0.6", "tier": "normal"}, "confidence 0.5 → 0.6"),
        ({}, {"validation_count": 1}, "validation count 0 → 1"),
        ({}, {"outdated": True}, "outdated: yes"),
        ({"outdated": True}, {}, "outdated: no"),
        ({"title": "A" * 60}, {"title": "B"}, "title"),
        ({"triggers": ["a", "c"]}, {"triggers": ["c", "b d"]}, 'trigger phrases +"b d" -"a"'),
        ({}, {"triggers": ("a" * 70,)}, "trigger phrases"),
        ({"triggers": ["a", "b"]}, {"triggers": ["b", "a"]}, "trigger phrases"),
        ({"presence": "forgotten", "title": "Kiln"}, {"presence": "live", "title": "Kiln"}, "Kiln"),
        ({"presence": "forgotten"}, {"presence": "live"}, "is there again"),
        ({}, {}, "indexed again, nothing changed"),
        ({}, {"link": LINK}, "link: #1 supports #2 added"),
        ({"link": LINK}, {}, "link: #1 supports #2 removed"),
        ({"link": LINK}, {"link": LINK | {"strength": 0.2}}, "link: #1 supports #2, strength changed"),
    ],
)
def test_history_names_what_changed_in_words(before: dict[str, object], after: dict[str, object], said: str) -> None:
    entry = HistoryEntry(id="1", memory_id=7, event=Event.UPDATE, before=before, after=after, actor=Actor.USER, at=NOW)
    shown = drawn(answers.HistoryAnswer(outcome="1 change", entries=(entry,), counts={})).splitlines()
    assert shown[1].split("user", 1)[1].strip() == said


def test_a_few_warnings_are_all_shown_though_they_are_of_one_file() -> None:
    warnings = tuple(answers.FileWarning(path="a.md", line=n, message="odd") for n in (1, 2, 3, 4))
    shown = drawn(answers.IndexAnswer(outcome="done", warnings=warnings))
    assert [f"a.md:{n}: odd" in shown for n in (1, 2, 3, 4)] == [True] * 4
    assert "more" not in shown


def test_one_file_full_of_warnings_does_not_hide_the_others() -> None:
    places = [
        ("a.md", 1),
        ("a.md", 2),
        ("a.md", 3),
        *((f"b{n}.md", None) for n in range(answer_view.MOST_WARNINGS + 2)),
    ]
    warnings = [answers.FileWarning(path=path, line=line, message="odd") for path, line in places]
    skipped = (answers.SkippedFiles(reason="in scratch/", count=9, paths=("x.md", "y.md")),)
    answer = answers.IndexAnswer(outcome="done", warnings=tuple(warnings), undiscovered=4, skipped=skipped, archived=2)
    shown = drawn(answer)
    assert "not read, in scratch/: 9 (x.md, y.md, …)" in shown
    assert "2 files are in archive folders; search finds what is there with --include-archived" in shown
    assert "a.md:1: odd" in shown
    assert "a.md: 2 more warnings; --json lists all" in shown
    assert "a.md:2" not in shown
    assert "b0.md: odd" in shown
    assert "… and 3 more files with warnings" in shown
    assert "4 markdown files are no memories" in shown


def test_words_of_the_question_are_highlighted_on_a_terminal() -> None:
    answer = answers.SearchAnswer(outcome="one", query="token", method="text", results=(result(),))
    assert "\x1b[1;33mtokens\x1b[0m" in drawn(answer, tty=True)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (5, "just now"),
        (60, "1 minute ago"),
        (7200, "2 hours ago"),
        (90_000, "yesterday"),
        (86_400 * 60, "2 months ago"),
        (86_400 * 65, "2 months ago"),
        (86_400 * 45, "1 month ago"),
        (86_400 * 360, "12 months ago"),
        (86_400 * 366, "1 year ago"),
    ],
)
def test_dates_are_said_the_way_people_do(seconds: int, said: str) -> None:
    from datetime import timedelta

    assert answer_view.ago(NOW - timedelta(seconds=seconds), NOW) == said


def test_columns_line_up_in_any_script() -> None:
    answer = answers.ListAnswer(outcome="two", memories=(card(1, title="日本語"), card(22, title="abc")), total=2)
    lines = drawn(answer).splitlines()
    assert lines[1].index("007-auth") + 3 == lines[2].index("007-auth"), "wide characters take two cells"
    assert lines[1].startswith(" 1")


def test_why_is_drawn_in_three_ways() -> None:
    steps = (
        Step(Link(1, 1, 2, Relation.CAUSED), 1, 2, 1, True),
        Step(Link(2, 3, 1, Relation.SUPERSEDES), 1, 3, 1, False),
        Step(Link(3, 2, 4, Relation.SUPPORTS), 2, 4, 2, True),
    )
    memories = (card(2), card(3, title='A "quoted" [x]'), card(4))
    answer = answers.WhyAnswer(outcome="3 links", memory=card(1), steps=steps, memories=memories)
    assert answer_view.draw_links(answer).splitlines() == [
        "#1 Memory 1",
        "├─ caused: #2 Memory 2",
        "│  └─ supports: #4 Memory 4",
        '└─ superseded by: #3 A "quoted" [x]',
    ]
    assert drawn(answer).splitlines()[-1] == (
        "links, for `skm unlink`: 1 (#1 caused #2), 2 (#3 supersedes #1), 3 (#2 supports #4)"
    )
    assert "m3 -->|supersedes 1| m1" in answer_view.draw_links(answer, "mermaid")
    assert 'm3["#35;3 A #34;quoted#34; #91;x#93;"]' in answer_view.draw_links(answer, "mermaid")
    assert 'm3 [label="#3 A \\"quoted\\" [x]"];' in answer_view.draw_links(answer, "dot")


def test_every_answer_has_a_view_that_shows_its_summary_or_content() -> None:
    simple = answers.UndoAnswer(outcome="took back the delete", undone="delete")
    assert "took back the delete" in drawn(simple)
