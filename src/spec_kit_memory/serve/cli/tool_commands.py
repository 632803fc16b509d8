"""How do words on a command line become one call of a verb, and its answer text on a terminal?

Commands that have a tool are built from the table of tools when they are asked for; the
others stand in `commands`. Everything on standard output is the answer; `--json` makes it
the tool's own envelope and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spec_kit_memory.errors import BadParameter, SpecKitMemoryError, UnknownRelation
from spec_kit_memory.serve.tools import BY_COMMAND, Parameter, Tool

if TYPE_CHECKING:
    from spec_kit_memory.answers import Answer
    from spec_kit_memory.serve.cli.view import Block
    from spec_kit_memory.settings import Settings
    from spec_kit_memory.workspace import Workspace

__all__ = ["CommandFailed", "Session", "call", "common_options", "run"]

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


class CommandFailed(Exception):  # noqa: N818 - it reads as what happened
    """The command ends with this error shown; `code` is the exit code."""

    def __init__(self, error: BaseException, *, code: int = FAILED) -> None:
        super().__init__(str(error))
        self.error = error
        self.code = code


@dataclass
class Session:
    """What the options that every command takes have said."""

    workspace: str | None = None
    json: bool = False
    flags: dict[str, object] = field(default_factory=dict)
    exit_code: int = OK

    def settings(self) -> Settings:
        from spec_kit_memory import settings

        return settings.load(settings.find_root(workspace=self.workspace), overrides=self.flags)

    def open(self) -> Workspace:
        from spec_kit_memory.workspace import Workspace

        return Workspace(self.settings())

    @property
    def interactive(self) -> bool:
        return not self.json and sys.stdin.isatty() and sys.stdout.isatty()

    def show(self, answer: Answer, *, tool: str = "", blocks: Iterable[Block] | None = None, **how: Any) -> None:
        if self.json:
            from spec_kit_memory.serve import render

            self.write(render.compact(render.envelope(answer, tool=tool)))
        else:
            from spec_kit_memory.serve.cli import terminal, view

            with _readers_may_leave():
                terminal.show(view.blocks(answer, **how) if blocks is None else blocks)

    def write(self, text: str) -> None:
        with _readers_may_leave():
            sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def say(self, text: str) -> None:
        """To the person, never to a program that reads the answer."""
        if not self.json:
            sys.stderr.write(text + "\n")


@contextmanager
def _readers_may_leave() -> Iterator[None]:
    """A reader that had enough (`| head`) is no error; click would make it one."""
    try:
        yield
    except BrokenPipeError:
        raise _ReaderLeft from None


class _ReaderLeft(Exception):  # noqa: N818 - no error
    pass


# --- running ------------------------------------------------------------------------------


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Errors go where the answer would have gone."""
    name = os.path.basename(sys.argv[0]) if sys.argv else "skm"
    session = Session(json="--json" in arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    try:
        group = Commands()
        group.main(
            list(arguments),
            prog_name="skm" if "python" in name or "__main__" in name else name,
            obj=session,
            standalone_mode=False,
        )
        sys.stdout.flush()
        return session.exit_code
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.UsageError as error:
        return _report_usage(session, error)
    except click.ClickException as error:
        return _report(session, CommandFailed(SpecKitMemoryError(error.format_message())))
    except CommandFailed as failure:
        return _report(session, failure)
    except SpecKitMemoryError as error:
        return _report(session, CommandFailed(error))
    except (KeyboardInterrupt, click.Abort):
        session.say("Stopped.")
        return INTERRUPTED
    except (_ReaderLeft, BrokenPipeError):
        # Nothing more can be written, not even what Python would flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:  # noqa: BLE001 - the edge: a person gets a code and a next step, not a traceback
        if os.environ.get("SPEC_KIT_MEMORY_DEBUG"):
            import traceback

            traceback.print_exc()
        return _report(session, CommandFailed(error))


def _report(session: Session, failure: CommandFailed) -> int:
    from spec_kit_memory.serve import render

    shown = render.error(failure.error)
    if session.json:
        session.write(render.compact({"error": shown}))
    else:
        from spec_kit_memory.serve.cli import terminal

        terminal.show_error(shown)
    return failure.code


def _report_usage(session: Session, error: click.UsageError) -> int:
    if session.json:
        path = error.ctx.command_path if error.ctx else "skm"
        return _report(session, CommandFailed(BadParameter(error.format_message(), hint=f"{path} --help"), code=USAGE))
    error.show()
    return USAGE


def call(session: Session, tool: Tool, given: Mapping[str, Any], **extra: Any) -> Answer:
    """Check the arguments, open the workspace, call the tool's verb."""
    from spec_kit_memory.serve.arguments import read_arguments

    try:
        arguments = read_arguments(tool, given)
    except SpecKitMemoryError as error:
        raise CommandFailed(_in_our_words(tool, error), code=USAGE) from error
    with session.open() as workspace:
        answer: Answer = getattr(workspace, tool.verb)(**arguments, **extra)
        return answer


def _in_our_words(tool: Tool, error: SpecKitMemoryError) -> SpecKitMemoryError:
    """The same error, speaking of commands and options instead of tools and parameters."""
    message = error.message.replace(tool.name, f"skm {tool.command}")
    for parameter in tool.parameters:
        message = message.replace(repr(parameter.name), parameter.flag)
    hint = f"`skm {tool.command} --help` shows every option."
    if isinstance(error, UnknownRelation):
        hint = error.hint  # it lists them
    return type(error)(message, hint=hint, **error.details)


# --- the group ------------------------------------------------------------------------------

# Groups of commands; the parts come from the table or from `commands`.
FAMILIES: Mapping[str, str] = {
    "checkpoint": "Named snapshots of memories.",
    "ledger": "The record of every change, and whether it holds.",
    "chat": "Conversations as memories.",
    "config": "Settings and where they come from.",
}


class Commands(click.Group):
    """Finds a command by name and builds only that one."""

    def __init__(self, family: str = "", **more: Any) -> None:
        about = FAMILIES[family] if family else "A local-first memory for AI coding agents."
        super().__init__(
            family or "skm",
            help=about,
            params=common_options() + ([] if family else [_version_option()]),
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
            **more,
        )
        self.family = family

    def list_commands(self, ctx: click.Context) -> list[str]:
        from spec_kit_memory.serve.cli.commands import COMMANDS

        prefix = self.family + " " if self.family else ""
        names = [name.removeprefix(prefix) for name in (*BY_COMMAND, *COMMANDS) if name.startswith(prefix)]
        names = names if self.family else [*(name for name in names if " " not in name), *FAMILIES]
        return sorted(set(names) - {"generate-context"})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if not self.family and cmd_name in FAMILIES:
            return Commands(cmd_name)
        name = f"{self.family} {cmd_name}".strip()
        if name in BY_COMMAND and name not in HAND_MADE:
            return table_command(BY_COMMAND[name])
        from spec_kit_memory.serve.cli.commands import COMMANDS

        return COMMANDS[name]() if name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            found = get_close_matches(args[0], self.list_commands(ctx), n=3)
            if not found:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(found)}?", ctx) from None


# In the table for its parameters, but with a face of their own on the command line.
HAND_MADE = frozenset({"save"})


def _version_option() -> click.Option:
    from spec_kit_memory import __version__

    def show(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            click.echo(f"spec-kit-memory {__version__}")
            ctx.exit()

    return click.Option(
        ["-V", "--version"], is_flag=True, expose_value=False, is_eager=True, callback=show, help="Show the version."
    )


def common_options() -> list[click.Parameter]:
    """--workspace, --json and --set, before or after the command's name."""

    def workspace(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
        if path is not None:
            ctx.find_object(Session).workspace = path  # type: ignore[union-attr]

    def as_json(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted:
            ctx.find_object(Session).json = True  # type: ignore[union-attr]

    def flags(ctx: click.Context, _: click.Parameter, pairs: tuple[str, ...]) -> None:
        from spec_kit_memory.settings import parse_flag

        for pair in pairs:
            name, value = parse_flag(pair)
            ctx.find_object(Session).flags[name] = value  # type: ignore[union-attr]

    return [
        click.Option(
            ["--workspace"],
            metavar="DIR",
            expose_value=False,
            is_eager=True,
            callback=workspace,
            help="The project's root folder.",
        ),
        click.Option(
            ["--json"], is_flag=True, expose_value=False, is_eager=True, callback=as_json, help="Print JSON only."
        ),
        click.Option(
            ["--set"],
            multiple=True,
            metavar="KEY=VALUE",
            expose_value=False,
            callback=flags,
            help="Change a setting for this run.",
        ),
    ]


# --- commands made from the table --------------------------------------------------------------


def table_command(tool: Tool) -> click.Command:
    from spec_kit_memory.serve.cli import interactive

    more = interactive.EXTRAS.get(tool.command)
    about = (more and more.about) or tool.about
    names = {_key(parameter): parameter.name for parameter in tool.parameters}

    def callback(**options: Any) -> None:
        session = click.get_current_context().find_object(Session)
        assert session is not None
        given = _given(tool, options, names)
        own = {name: value for name, value in options.items() if name not in names and not name.startswith("at_")}
        if more:
            more.run(session, tool, given, own)
        else:
            session.show(call(session, tool, given), tool=tool.name)

    return click.Command(
        tool.command.rsplit(" ", 1)[-1],
        params=[*positionals(tool), *options(tool), *(more.options() if more else ()), *common_options()],
        callback=callback,
        help=about,
        short_help=about.split(". ")[0],
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _key(parameter: Parameter) -> str:
    return parameter.flag.removeprefix("--").replace("-", "_") + "_"


def options(tool: Tool) -> list[click.Parameter]:
    """An option for every parameter, also for those that can be given by position."""
    return [_option(parameter) for parameter in tool.parameters]


def _option(parameter: Parameter) -> click.Option:
    names = [_key(parameter), *parameter.flags, parameter.flag]
    about = parameter.about + (" (repeat the option)" if parameter.kind == "texts" else "")
    if parameter.default not in (None, False, ""):
        about = f"{about} (default {parameter.default})".strip()
    if parameter.kind == "boolean":
        flags = " ".join(f"{flag}/--no-{flag[2:]}" for flag in (*parameter.flags, parameter.flag))
        return click.Option([_key(parameter), flags], default=None, help=about)
    return click.Option(
        names,
        type=_type(parameter),
        multiple=parameter.kind == "texts",
        default=None,
        help=about,
        envvar="SPEC_KIT_MEMORY_SESSION_ID" if parameter.name == "sessionId" else None,
        shell_complete=completer(parameter),
    )


def _type(parameter: Parameter) -> click.ParamType[Any]:
    if parameter.choices:
        kind = Relations if parameter.name in ("relation", "relations") else click.Choice
        return kind(parameter.choices, case_sensitive=False)
    if parameter.kind == "object":
        return JsonObject()
    if parameter.kind == "integer":
        return click.INT
    return click.FLOAT if parameter.kind == "number" else click.STRING


class Relations(click.Choice[str]):
    """An unknown one has a code of its own, which the table's reader gives it, here as over MCP."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            return value


class JsonObject(click.ParamType[Any]):
    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        import json

        try:
            return json.loads(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(f"is not JSON: {error}", param, ctx)


def positionals(tool: Tool) -> list[click.Parameter]:
    """Words without an option: prose takes all of them, an id may also be a spec folder's name."""
    made: list[click.Parameter] = []
    for name in tool.positional:
        parameter = tool.parameter(name)
        prose = name in ("query", "prompt")
        made.append(
            click.Argument(
                ["at_" + _key(parameter)],
                nargs=-1 if prose else 1,
                required=False,
                metavar=f"[{_metavar(tool, parameter)}]" if not parameter.required else _metavar(tool, parameter),
                type=_type(parameter) if parameter.choices else click.STRING,
                shell_complete=completer(parameter),
            )
        )
    return made


def _metavar(tool: Tool, parameter: Parameter) -> str:
    word = parameter.flag.removeprefix("--").upper().replace("-", "_")
    return "ID|FOLDER" if _takes_folder(tool, parameter) else word


def _takes_folder(tool: Tool, parameter: Parameter) -> bool:
    return parameter.kind == "integer" and any(each.name == "specFolder" for each in tool.parameters)


def _given(tool: Tool, options: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The tool's arguments by their JSON names; what was not said is left out."""
    given = {names[key]: value for key, value in options.items() if key in names and value not in (None, ())}
    for name in tool.positional:
        parameter = tool.parameter(name)
        said = options.get("at_" + _key(parameter))
        if said in (None, ()):
            continue
        if isinstance(said, tuple):
            said = " ".join(said)
        if parameter.kind == "integer":
            if said.isdecimal():
                said = int(said)
            elif _takes_folder(tool, parameter):
                name = "specFolder"
            else:
                raise click.UsageError(f"{said!r} is not a number.", click.get_current_context())
        if name in given:
            raise click.UsageError(f"{parameter.flag} was given twice.", click.get_current_context())
        given[name] = list(said) if isinstance(said, tuple) else said
    return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}


# --- completion in the shell ---------------------------------------------------------------------


def completer(parameter: Parameter) -> Callable[[click.Context, click.Parameter, str], list[Any]] | None:
    """Spec folders and checkpoint names, read from the disk: opening the index would be felt at each Tab."""
    if parameter.name == "specFolder":
        return lambda ctx, param, incomplete: [name for name in _spec_folders() if name.startswith(incomplete)]
    if parameter.name == "name":
        return lambda ctx, param, incomplete: [name for name in _checkpoints() if name.startswith(incomplete)]
    return None


def _spec_folders() -> list[str]:
    from spec_kit_memory.settings import find_root

    try:
        specs = find_root() / "specs"
        return sorted(path.name for path in specs.iterdir() if path.is_dir() and path.name[:3].isdecimal())
    except (SpecKitMemoryError, OSError):
        return []


def _checkpoints() -> list[str]:
    from spec_kit_memory.settings import STATE_FOLDER, find_root

    try:
        folder = find_root() / STATE_FOLDER / "checkpoints"
        return sorted(_name_in(path) for path in folder.glob("*.jsonl.gz"))
    except (SpecKitMemoryError, OSError, EOFError, ValueError, KeyError):
        return []


def _name_in(path: Path) -> str:
    """A checkpoint's name stands in its first line: a file's name may be a shortened form of it."""
    import gzip

    with gzip.open(path) as file:
        return str(json.loads(file.readline(1_000_000))["name"])
