"""Which commands have no tool of their own? Those for people: setup, serving, saving from files, maintenance.

`COMMANDS` maps a command's name to a function that builds it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import BadParameter, FileMissing, SpecKitMemoryError, UndecidedSpecFolder
from spec_kit_memory.requests import SaveRequest
from spec_kit_memory.serve.cli.invocation import Invocation, call
from spec_kit_memory.serve.cli.options import common_options, options

if TYPE_CHECKING:
    from spec_kit_memory.answers import SaveAnswer, WatchAnswer

Run = Callable[..., None]
COMMANDS: dict[str, Callable[[], click.Command]] = {}


def command(words: str, about: str, *params: click.Parameter) -> Callable[[Run], Run]:
    """Register a function of (session, **options) as the command named `words`."""

    def register(run: Run) -> Run:
        def build() -> click.Command:
            return click.Command(
                words.rsplit(" ", 1)[-1],
                params=[*params, *common_options()],
                callback=lambda **options: run(click.get_current_context().find_object(Invocation), **options),
                help=about,
                context_settings={"help_option_names": ["-h", "--help"]},
            )

        COMMANDS[words] = build
        return run

    return register


def argument(name: str, *, required: bool = True, many: bool = False, **more: Any) -> click.Argument:
    return click.Argument([name], required=required, nargs=-1 if many else 1, **more)


def flag(name: str, about: str, *names: str) -> click.Option:
    return click.Option([name, *names], is_flag=True, help=about)


# --- starting ---------------------------------------------------------------------------------------


@command(
    "init",
    "Make this folder a workspace.",
    argument("folder", required=False),
    click.Option(["--project"], metavar="NAME", help="Join that project of a shared index; kept in your own settings."),
)
def init(session: Invocation, folder: str | None, project: str | None) -> None:
    from spec_kit_memory.serve.cli.overview import CommandAnswer
    from spec_kit_memory.serve.hosts import HOSTS
    from spec_kit_memory.settings import STATE_FOLDER
    from spec_kit_memory.workspace import join_project, joined_elsewhere, make_personal_vault, make_workspace

    if session.personal:
        if project:
            raise BadParameter(
                "Personal memory joins no project: it never leaves this machine.",
                hint="Leave out --personal or --project.",
            )
        vault, is_new = make_personal_vault()
        summary = f"personal memory is {'ready' if is_new else 'already there'} in {vault}"
        hints = (
            'skm save --personal --text "I prefer small commits": write the first one',
            "it is found from every project of yours on this machine, and never leaves it",
        )
        session.show(CommandAnswer(outcome=summary, paths=is_new, advice=hints))
        return
    root = Path(folder or session.workspace or ".").expanduser().resolve()
    if not root.is_dir():
        raise BadParameter(f"{str(root)!r} is not a folder.", hint="Make it first, then run `skm init` there.")
    joined = join_project(root, project) if project else None
    is_new = make_workspace(root)
    summary = f"{STATE_FOLDER}/ is ready in {root}" if is_new else f"{STATE_FOLDER}/ was already there in {root}"
    other = None if project else joined_elsewhere(root)
    if joined:
        summary += f"; it is a checkout of the project {project}, as {joined} says"
    session.show(
        CommandAnswer(
            outcome=summary,
            paths=tuple(f"{STATE_FOLDER}/{name}" for name in is_new),
            advice=(
                *(
                    (f"skm init --project {other[1]}: join the project of {other[0]}, another checkout of it",)
                    if other
                    else ()
                ),
                "skm index: read the memories that are there",
                'skm save --text "what to remember": write the first one',
                f"skm install {' | '.join(HOSTS)}: connect an agent",
            ),
        )
    )


@command(
    "serve",
    "Serve the workspace to agents over MCP: on standard input and output, or over HTTP.",
    flag("--http", "Streamable HTTP instead of standard input and output."),
    click.Option(["--host"], default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.Option(
        ["--port"], default=8765, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."
    ),
    click.Option(["--token-file"], type=click.Path(dir_okay=False), help="File with the bearer token."),
    flag("--no-token", "Ask for no token on loopback: every user of this machine is let in."),
    click.Option(["--issuer"], metavar="URL", help="Authorization server whose access tokens are taken."),
    click.Option(["--audience"], metavar="URL", help="This server's own address, for which tokens must be made."),
    flag("--team", "Serve many people and projects, with their index on PostgreSQL (--index)."),
    click.Option(["--data"], type=click.Path(file_okay=False), help="Of a team server: its own folder."),
    click.Option(["--rights"], type=click.Path(dir_okay=False), help="Of a team server: which claims give which role."),
    click.Option(["--allow-host"], multiple=True, metavar="HOST", help="More names this server is reached by."),
    click.Option(
        ["--tools"],
        type=click.Choice(("all", "lean")),
        default="all",
        envvar="SPEC_KIT_MEMORY_TOOLS",
        help="All tools, or the six an agent needs daily.",
    ),
    click.Option(["--user-id"], help="Whose namespace this server sees."),
    click.Option(["--project-id"], help="Which project's shared memory it sees."),
    click.Option(["--allowed-path"], multiple=True, help="The only paths it sees."),
)
def serve(
    session: Invocation,
    http: bool,
    host: str,
    port: int,
    token_file: str | None,
    no_token: bool,
    issuer: str | None,
    audience: str | None,
    team: bool,
    data: str | None,
    rights: str | None,
    allow_host: tuple[str, ...],
    tools: str,
    user_id: str | None,
    project_id: str | None,
    allowed_path: tuple[str, ...],
) -> None:
    isolation = {
        "isolation.userId": user_id,
        "isolation.projectId": project_id,
        "isolation.allowedPaths": list(allowed_path) or None,
    }
    if (issuer or audience) and not http:
        raise BadParameter("--issuer and --audience are for a server over HTTP.", hint="Add --http.")
    if (data or rights) and not team:
        raise BadParameter("--data and --rights are for a team server.", hint="Add --team.")
    if team:
        _require_team(session, http, isolation | {"--token-file": token_file, "--no-token": no_token or None})
        from spec_kit_memory.serve.http.team_app import serve_team

        serve_team(
            flags=session.flags,
            host=host,
            port=port,
            data=data,
            lean=tools == "lean",
            allowed_hosts=allow_host,
            issuer=issuer,
            audience=audience,
            rights=rights,
        )
        return
    flags = session.flags | {name: value for name, value in isolation.items() if value is not None}
    if http:
        from spec_kit_memory.serve.http.app import serve_http

        serve_http(
            workspace=session.workspace,
            flags=flags,
            lean=tools == "lean",
            host=host,
            port=port,
            token_file=token_file,
            no_token=no_token,
            allowed_hosts=allow_host,
            issuer=issuer,
            audience=audience,
        )
    else:
        from spec_kit_memory.serve.mcp.server import serve_stdio

        serve_stdio(workspace=session.workspace, flags=flags, lean=tools == "lean")


def _require_team(session: Invocation, http: bool, others: Mapping[str, object]) -> None:
    """Refuse options that contradict --team: on a team server, each token identifies the caller and what they see."""
    if not http:
        raise BadParameter("A team is served over HTTP.", hint="Add --http.")
    contradictory = [name for name, value in others.items() if value is not None]
    if contradictory:
        raise BadParameter(
            f"{', '.join(contradictory)} contradicts --team: each token says who asks.", hint="Leave it out."
        )
    if session.workspace:
        raise BadParameter("--workspace contradicts --team, which serves many.", hint="Add it with `skm team add`.")


@command(
    "ui",
    "Open the page: see what the agents know, judge it, put it right.",
    click.Option(["--port"], default=0, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."),
    flag("--no-browser", "Only print the address."),
)
def ui(session: Invocation, port: int, no_browser: bool) -> None:
    from spec_kit_memory.serve.http.app import serve_page

    serve_page(workspace=session.workspace, flags=session.flags, port=port, browser=not no_browser)


@command("watch", "Index, then keep the index in step with the files until stopped.")
def watch(session: Invocation) -> None:
    from spec_kit_memory.serve.cli.terminal import progress

    # Handle SIGTERM like Ctrl-C, which also interrupts the first indexing.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with session.open() as workspace:
        if workspace.settings.watch == "off":
            raise BadParameter(
                "Watching is turned off in the configuration.",
                hint="`skm watch --set watch=auto` watches all the same.",
            )
        with progress("Indexing", quiet=session.json) as step:
            answer = workspace.index(progress=step)
        session.show(answer, verb="index")
        session.flush()
        events: queue.SimpleQueue[WatchAnswer] = queue.SimpleQueue()
        workspace.start_background(events.put)
        try:
            session.say("Watching; Ctrl-C stops.")  # inside `try`, because Ctrl-C may follow at once
            while True:
                with suppress(queue.Empty):  # a short timeout, because on Windows a wait cannot be interrupted
                    session.show(events.get(timeout=0.5))
                    session.flush()
        except KeyboardInterrupt:
            session.say("Stopped.")


# --- saving ----------------------------------------------------------------------------------------


@command(
    "save",
    SaveRequest.__doc__ or "",
    argument("data", required=False),
    argument("folder_argument", required=False, metavar="[SPEC_FOLDER]"),
    *options(SaveRequest),
)
def save(session: Invocation, data: str | None, folder_argument: str | None, **more: Any) -> None:
    values = {name: value for name, value in more.items() if value is not None}
    if folder_argument:
        values.setdefault("spec_folder", folder_argument)
    if data and "text" in values:
        values.setdefault("spec_folder", data)  # with --text there is no file, so the argument is the spec folder
    elif data:
        values |= _input(data)
    session.show(_saved(session, values), verb=SaveRequest.verb)


def _input(data: str) -> dict[str, Any]:
    """Arguments of a save: a session as JSON from a file or standard input, or any other file to index."""
    if data != "-" and Path(data).suffix.lower() != ".json":
        return {"file_path": data}
    try:
        raw = sys.stdin.buffer.read() if data == "-" else Path(data).read_bytes()
        content = json.loads(raw.decode("utf-8-sig"))
    except OSError as error:
        raise FileMissing(
            f"{data!r} cannot be read: {error.strerror}.", hint="Name a JSON file, or - for standard input."
        ) from error
    except (ValueError, RecursionError) as error:
        raise BadParameter(
            f"{data!r} is not JSON: {error}.", hint="Give an object with sessionSummary and the rest."
        ) from error
    if not isinstance(content, dict):
        raise BadParameter(f"{data!r} must hold an object.", hint='For example {"sessionSummary": "…"}.')
    return {"context": content}


def _saved(session: Invocation, values: dict[str, Any]) -> SaveAnswer:
    # A person on the command line may save a rule; an agent's tool may not.
    person = {"by_person": True}
    try:
        answer: SaveAnswer = call(session, SaveRequest, values, **person)
    except UndecidedSpecFolder as error:
        names = _alternatives(error)
        if not (session.interactive and names):
            raise
        session.say(error.message)
        for number, name in enumerate(names, 1):
            session.say(f"  [{number}] {name}")
        chosen = click.prompt("Spec folder", type=click.IntRange(1, len(names)), err=True)
        answer = call(session, SaveRequest, {**values, "spec_folder": names[chosen - 1]}, **person)
    return answer


def _alternatives(error: SpecKitMemoryError) -> list[str]:
    alternatives = error.details.get("alternatives")
    rows = alternatives if isinstance(alternatives, list | tuple) else ()
    return [str(row.get("name") or row.get("specFolder")) if isinstance(row, dict) else str(row) for row in rows]


# --- ledger ---------------------------------------------------------------------------------------------


@command(
    "ledger export",
    "Write the ledger as JSON lines that another program can verify.",
    click.Option(["--output", "-o"], type=click.Path(dir_okay=False), help="A file instead of standard output."),
)
def ledger_export(session: Invocation, output: str | None) -> None:
    from spec_kit_memory.workspace import write_lines

    with session.open() as workspace:
        if output is None:
            for line in workspace.ledger_export():
                session.write(line)
            return
        count = write_lines(Path(output), workspace.ledger_export())
    session.say(f"{counted(count, 'entry')} in {output}")


# --- settings and hosts --------------------------------------------------------------------------------


@command("config show", "Every setting, its value, and where that came from.")
def config_show(session: Invocation) -> None:
    from spec_kit_memory import settings
    from spec_kit_memory.serve.cli import answer_view
    from spec_kit_memory.serve.cli.overview import Values

    # Shows an invalid configuration too: that is when the command is needed most.
    root = settings.find_root(workspace=session.workspace)
    loaded, problems = settings.load_with_problems(root, overrides=session.flags)
    rows = settings.describe(loaded)
    changed = sum(row.source != "default" for row in rows)
    refused = f"; {counted(len(problems), 'problem')}: nothing works until it is corrected" if problems else ""
    answer = Values(
        outcome=f"{changed} of {counted(len(rows), 'setting')} differ from the default{refused}",
        problems=tuple(problems),
        root=str(loaded.root),
        user_file=str(settings.user_config_file(os.environ) or "none: this user has no home folder"),
        settings=tuple(map(asdict, rows)),
    )
    cells = tuple((row.key, json.dumps(row.value, ensure_ascii=False), row.source) for row in rows)
    session.show(
        answer,
        blocks=[
            answer_view.Table(("key", "value", "from"), cells),
            *(answer_view.Line(problem, "bad") for problem in problems),
            answer_view.Line(answer.summary, "bad" if problems else "dim"),
            answer_view.Line(f"workspace {answer.root}", "dim"),
            answer_view.Line(f"your own configuration {answer.user_file}", "dim"),
        ],
    )


def _host(
    session: Invocation, host: str, *, remove: bool, yes: bool, scope: str | None, url: str | None = None
) -> None:
    from spec_kit_memory import settings
    from spec_kit_memory.serve import hosts

    root = settings.find_root(workspace=session.workspace)
    run = hosts.uninstall if remove else partial(hosts.install, url=url)
    plan = run(host, root=root, scope=scope, apply=False)
    if not plan.changes or (session.json and not yes):
        session.show(plan, blocks=hosts.blocks(plan))
        return
    if not yes:
        session.show(plan, blocks=hosts.blocks(plan))
        if not session.interactive:
            session.say("Nothing was changed; --yes does it.")
            return
        click.confirm("Make these changes?", abort=True)
    applied = run(host, root=root, scope=scope, apply=True)
    session.show(applied, blocks=hosts.blocks(applied))


_HOST_OPTIONS: tuple[click.Parameter, ...] = (
    argument("host"),
    flag("--yes", "Do it without asking.", "-y"),
    click.Option(["--scope"], type=click.Choice(("project", "user")), help="For this project or for all of yours."),
)


@command(
    "install",
    "Connect an agent's host, such as claude-code, codex, copilot or gemini.",
    *_HOST_OPTIONS,
    click.Option(["--remote"], metavar="URL", help="Connect the team server there; the local one may stay beside it."),
)
def install(session: Invocation, host: str, yes: bool, scope: str | None, remote: str | None) -> None:
    _host(session, host, remove=False, yes=yes, scope=scope, url=remote)


@command("uninstall", "Undo exactly what install did.", *_HOST_OPTIONS)
def uninstall(session: Invocation, host: str, yes: bool, scope: str | None) -> None:
    _host(session, host, remove=True, yes=yes, scope=scope)


@command(
    "doctor",
    "Show what an agent's host would see of us, and how to mend what is wrong.",
    argument("host"),
    click.Option(["--scope"], type=click.Choice(("project", "user")), help="Whose configuration; else where we are."),
)
def doctor(session: Invocation, host: str, scope: str | None) -> None:
    from spec_kit_memory.serve import hosts
    from spec_kit_memory.serve.hosts import doctor

    diagnosis = doctor.diagnose(hosts.named(host), root=session.settings().root, scope=scope)
    session.show(diagnosis, blocks=doctor.blocks(diagnosis))
    session.exit_code = 0 if diagnosis.ok else 1


@command(
    "hook",
    "What a host runs by itself: reads the host's JSON from standard input and prints what that host expects.",
    argument("event", type=click.Choice(("prompt", "session-start", "pre-compact", "session-end"))),
    click.Option(["--host"], default="claude-code", show_default=True, help="Whose form to speak."),
)
def hook(session: Invocation, event: str, host: str) -> None:
    from spec_kit_memory.serve.hooks import run

    run(event, host=host, workspace=session.workspace)


@command(
    "completion",
    "Print the completion script of a shell.",
    argument("shell", type=click.Choice(("bash", "zsh", "fish"))),
)
def completion(session: Invocation, shell: str) -> None:
    from click.shell_completion import get_completion_class

    completion_class = get_completion_class(shell)
    assert completion_class is not None, shell
    session.write(completion_class(click.Command("skm"), {}, "skm", "_SKM_COMPLETE").source())


@command(
    "cleanup",
    "Walk through memories that are old, expired or doubted, and decide about each.",
    click.Option(["--older-than"], type=click.IntRange(1), metavar="DAYS", help="Only those older than this."),
)
def cleanup(session: Invocation, older_than: int | None) -> None:
    from spec_kit_memory.serve.cli.cleanup import walk

    walk(session, older_than=older_than)


COMMANDS["generate-context"] = COMMANDS["save"]
