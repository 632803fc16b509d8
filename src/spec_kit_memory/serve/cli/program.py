"""Which command does a command line name, and with which exit code does it end?

Commands with a request are built from it when needed; the others are defined in `commands` and `team_commands`.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from spec_kit_memory import __version__, requests
from spec_kit_memory.core.wording import close_names
from spec_kit_memory.errors import BadParameter, SpecKitMemoryError
from spec_kit_memory.parameters import Request
from spec_kit_memory.serve.cli.invocation import INTERRUPTED, OK, USAGE, CommandFailed, Invocation, OutputClosed
from spec_kit_memory.serve.cli.options import common_options, given_values, options, positionals


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    name = os.path.basename(sys.argv[0]) if sys.argv else "skm"
    session = Invocation(json="--json" in arguments)
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
    except (OutputClosed, BrokenPipeError):
        # Nothing more can be written, so Python's flush at exit must not try.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:  # noqa: BLE001 - the edge: a person gets a code and a next step, not a traceback
        if os.environ.get("SPEC_KIT_MEMORY_DEBUG"):
            traceback.print_exc()
        return _report(session, CommandFailed(error))


def _report(session: Invocation, failure: CommandFailed) -> int:
    from spec_kit_memory.serve import messages, render

    rendered = render.error(failure.error, say=messages.for_person)
    if session.json:
        session.write(render.compact({"error": rendered}))
    else:
        from spec_kit_memory.serve.cli import terminal

        terminal.show_error(rendered)
    return failure.code


def _report_usage(session: Invocation, error: click.UsageError) -> int:
    if session.json:
        path = error.ctx.command_path if error.ctx else "skm"
        return _report(session, CommandFailed(BadParameter(error.format_message(), hint=f"{path} --help"), code=USAGE))
    error.show()
    return USAGE


# Command groups; their subcommands come from the requests or from the modules of commands.
FAMILIES: Mapping[str, str] = {
    "checkpoint": "Named snapshots of memories.",
    "ledger": "The record of every change, and whether it holds.",
    "chat": "Conversations as memories.",
    "config": "Settings and where they come from.",
    "team": "The team server: whom it lets in, and what it serves.",
    "team token": "Static tokens: who may do what in which project.",
}


class Commands(click.Group):
    """Finds a command by name and builds only that one."""

    def __init__(self, family: str = "", **more: Any) -> None:
        about = FAMILIES[family] if family else "A local-first memory for AI coding agents."
        super().__init__(
            family.rsplit(" ", 1)[-1] or "skm",
            help=about,
            params=common_options() + ([] if family else [_version_option()]),
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
            **more,
        )
        self.family = family

    def list_commands(self, ctx: click.Context) -> list[str]:
        prefix = self.family + " " if self.family else ""
        every = (*requests.BY_COMMAND, *_hand_made(), *FAMILIES)
        names = [name.removeprefix(prefix) for name in every if name.startswith(prefix)]
        return sorted({name for name in names if " " not in name} - {"generate-context"})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = f"{self.family} {cmd_name}".strip()
        if name in FAMILIES:
            return Commands(name)
        if name in requests.BY_COMMAND and name not in HAND_MADE:
            return request_command(requests.BY_COMMAND[name])
        commands = _hand_made()
        return commands[name]() if name in commands else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = close_names(args[0], self.list_commands(ctx))
            if not close:
                raise
            raise click.UsageError(f"{error.message} Did you mean {' or '.join(close)}?", ctx) from None


def _hand_made() -> Mapping[str, Callable[[], click.Command]]:
    """The commands that are not built from a request, by name."""
    from spec_kit_memory.serve.cli import commands, team_commands

    return {**commands.COMMANDS, **team_commands.COMMANDS}


# Commands that have a request but are defined by hand, because their command line differs from it.
HAND_MADE = frozenset({"save", "ledger export"})


def _version_option() -> click.Option:
    def show(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
        if is_set:
            click.echo(f"spec-kit-memory {__version__}")
            ctx.exit()

    return click.Option(
        ["-V", "--version"], is_flag=True, expose_value=False, is_eager=True, callback=show, help="Show the version."
    )


def request_command(kind: type[Request]) -> click.Command:
    """Build the command of a request: its docstring is the help, its parameters are options, its verb is called."""
    from spec_kit_memory.serve.cli import interactive

    extra = interactive.EXTRAS.get(kind.command, interactive.PLAIN)

    def callback(**options: Any) -> None:
        session = click.get_current_context().find_object(Invocation)
        assert session is not None
        names = kind.declared
        extra_options = {
            name: value for name, value in options.items() if name not in names and not name.startswith("at_")
        }
        extra.run(session, kind, given_values(kind, options), extra_options)

    about = " ".join((kind.__doc__ or "").split())
    return click.Command(
        kind.command.rsplit(" ", 1)[-1],
        params=[*positionals(kind), *options(kind), *extra.options(), *common_options()],
        callback=callback,
        help=about,
        short_help=about.split(". ")[0],
        context_settings={"help_option_names": ["-h", "--help"]},
    )
