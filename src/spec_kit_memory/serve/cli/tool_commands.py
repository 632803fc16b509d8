"""How do words on a command line become one call of a verb, and its answer text on a terminal?

Commands of a verb are built from its request when they are asked for; the
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
from typing import TYPE_CHECKING, Any

import click

from spec_kit_memory import filesystem, requests
from spec_kit_memory.errors import BadParameter, SpecKitMemoryError
from spec_kit_memory.parameters import Edge, Parameter, Request, read

if TYPE_CHECKING:
    from spec_kit_memory.answers import Answer
    from spec_kit_memory.serve.cli.view import Block
    from spec_kit_memory.settings import Settings
    from spec_kit_memory.workspace import Workspace

__all__ = ["CommandFailed", "Session", "call", "checked", "common_options", "options", "run"]

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

    def show(self, answer: Answer, *, verb: str = "", blocks: Iterable[Block] | None = None, **how: Any) -> None:
        if self.json:
            from spec_kit_memory.serve import messages, render, tools

            tool = next((tool.name for tool in tools.TOOLS if tool.verb == verb), "")
            self.write(render.compact(render.envelope(answer, tool=tool, say=messages.for_person)))
        else:
            from spec_kit_memory.serve.cli import terminal, view

            with _readers_may_leave():
                terminal.show(view.blocks(answer, **how) if blocks is None else blocks)

    def flush(self) -> None:
        """Whoever reads a pipe sees what was shown so far."""
        with _readers_may_leave():
            sys.stdout.flush()

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
    from spec_kit_memory.serve import messages, render

    shown = render.error(failure.error, say=messages.for_person)
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


def call(session: Session, kind: type[Request], given: Mapping[str, Any], **more: Any) -> Any:
    """Check what was given, open the workspace, call the verb. `more` is what no option can say."""
    request = checked(kind, given)
    with session.open() as workspace:
        return getattr(workspace, kind.verb)(request.replace(**more) if more else request)


def checked(kind: type[Request], given: Mapping[str, Any]) -> Request:
    try:
        return read(kind, given, command_edge(kind))
    except SpecKitMemoryError as error:
        raise CommandFailed(error, code=USAGE) from error


def command_edge(kind: type[Request]) -> Edge:
    """A person is told of commands and options."""
    return Edge(
        f"skm {kind.command}",
        lambda parameter: parameter.flag,
        lambda visible: f"`skm {kind.command} --help` shows every option.",
        ("everywhere", "command"),
    )


# --- the group ------------------------------------------------------------------------------

# Groups of commands; the parts come from the requests or from `commands`.
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
        names = [name.removeprefix(prefix) for name in (*requests.BY_COMMAND, *COMMANDS) if name.startswith(prefix)]
        names = names if self.family else [*(name for name in names if " " not in name), *FAMILIES]
        return sorted(set(names) - {"generate-context"})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if not self.family and cmd_name in FAMILIES:
            return Commands(cmd_name)
        name = f"{self.family} {cmd_name}".strip()
        if name in requests.BY_COMMAND and name not in HAND_MADE:
            return request_command(requests.BY_COMMAND[name])
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


# Their parameters are those of their requests, but they have a face of their own on the command line.
HAND_MADE = frozenset({"save", "ledger export"})


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


# --- commands made from requests -------------------------------------------------------------------


def request_command(kind: type[Request]) -> click.Command:
    """The command of a request: its docstring, its parameters as options, its verb."""
    from spec_kit_memory.serve.cli import interactive

    more = interactive.EXTRAS.get(kind.command, interactive.PLAIN)

    def callback(**options: Any) -> None:
        session = click.get_current_context().find_object(Session)
        assert session is not None
        names = kind.declared
        own = {name: value for name, value in options.items() if name not in names and not name.startswith("at_")}
        more.run(session, kind, _given(kind, options), own)

    about = " ".join((kind.__doc__ or "").split())
    return click.Command(
        kind.command.rsplit(" ", 1)[-1],
        params=[*positionals(kind), *options(kind), *more.options(), *common_options()],
        callback=callback,
        help=about,
        short_help=about.split(". ")[0],
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def visible(kind: type[Request]) -> list[Parameter]:
    return command_edge(kind).sees(kind)


def options(kind: type[Request]) -> list[click.Parameter]:
    """An option for every parameter, also for those that can be given by position."""
    return [_option(parameter) for parameter in visible(kind)]


def _option(parameter: Parameter) -> click.Option:
    about = parameter.told_help + (" (repeat the option)" if parameter.kind in ("texts", "paths") else "")
    if parameter.told_default not in (None, False, ""):
        about = f"{about} (default {_written(parameter.told_default)})".strip()
    flags = (parameter.flag, *parameter.flags)
    if parameter.kind == "boolean":
        pairs = [f"{flag}/--no-{flag[2:]}" for flag in flags]
        return click.Option(
            [parameter.argument, *pairs, *([f" /{parameter.off}"] if parameter.off else [])], default=None, help=about
        )
    return click.Option(
        [parameter.argument, *flags],
        type=_type(parameter),
        multiple=parameter.kind in ("texts", "paths"),
        default=None,
        help=about,
        envvar=parameter.environment or None,
        shell_complete=completer(parameter),
    )


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _type(parameter: Parameter) -> click.ParamType[Any]:
    return Offered(parameter.choices, case_sensitive=False) if parameter.choices else AsGiven(parameter.kind)


class AsGiven(click.ParamType[Any]):
    """Text on its way to the check that every caller's values go through, with a name for the help."""

    def __init__(self, kind: str) -> None:
        self.name = {"object": "json", "texts": "text", "paths": "path", "reference": "id|path"}.get(kind, kind)


class Offered(click.Choice[str]):
    """Choices as the help and the shell show them; which of them is meant is for the check to say."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value


def positionals(kind: type[Request]) -> list[click.Parameter]:
    """Words without an option: prose takes all of them, an id may also be a spec folder's name."""
    made: list[click.Parameter] = []
    for parameter in visible(kind):
        if not parameter.kw_only:
            word = _metavar(kind, parameter)
            made.append(
                click.Argument(
                    ["at_" + parameter.argument],
                    nargs=-1 if parameter.is_prose or parameter.kind == "paths" else 1,
                    required=False,
                    metavar=word if parameter.required or parameter.kind == "paths" else f"[{word}]",
                    type=_type(parameter),
                    shell_complete=completer(parameter),
                )
            )
    return made


def _metavar(kind: type[Request], parameter: Parameter) -> str:
    if parameter.kind == "paths":
        return "PATH..."
    if parameter.kind == "reference":
        return "ID|PATH"
    word = parameter.flag.removeprefix("--").upper().replace("-", "_")
    return "ID|FOLDER" if _takes_folder(kind, parameter) else word


def _takes_folder(kind: type[Request], parameter: Parameter) -> bool:
    return parameter.kind == "integer" and "spec_folder" in kind.declared


def _given(kind: type[Request], options: Mapping[str, Any]) -> dict[str, Any]:
    """What was said, by argument; what was not said is left out."""
    given: dict[str, Any] = {}
    for parameter in visible(kind):
        name = parameter.argument
        if (said := options.get(name)) not in (None, ()):
            # One value may be a whole list as JSON.
            given[name] = (said[0] if len(said) == 1 else list(said)) if isinstance(said, tuple) else said
    for parameter in visible(kind):
        name = parameter.argument
        said = options.get("at_" + name)
        if said in (None, ()):
            continue
        if isinstance(said, tuple):
            said = " ".join(said) if parameter.is_prose else list(said)
        if _takes_folder(kind, parameter) and not str(said).isdecimal():
            name = "spec_folder"
        if name in given:
            raise click.UsageError(f"{kind.declared[name].flag} was given twice.", click.get_current_context())
        given[name] = said
    return given


# --- completion in the shell ---------------------------------------------------------------------


def completer(parameter: Parameter) -> Callable[[click.Context, click.Parameter, str], list[Any]] | None:
    """Spec folders and checkpoint names, read from the disk: opening the index would be felt at each Tab."""
    if parameter.completes == "spec folders":
        return lambda ctx, param, incomplete: [name for name in _spec_folders() if name.startswith(incomplete)]
    if parameter.completes == "checkpoints":
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
        folder = filesystem.Place(find_root(), (STATE_FOLDER, "checkpoints"))
        files = [folder / name for name in filesystem.names(folder) if name.endswith(".jsonl.gz")]
    except (SpecKitMemoryError, OSError):
        return []
    return sorted(filter(None, map(_name_in, files)))


def _name_in(place: filesystem.Place) -> str:
    """A checkpoint's name stands in its first line: a file's name may be a shortened form of it."""
    import gzip

    try:
        with os.fdopen(filesystem.open_reading(place), "rb") as raw, gzip.GzipFile(fileobj=raw) as file:
            return str(json.loads(file.readline(1_000_000))["name"])
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return ""  # what is damaged or no checkpoint is not offered
