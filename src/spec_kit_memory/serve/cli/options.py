"""How do a request's parameters become options, and how do the given options become its values?"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import click

from spec_kit_memory import filesystem
from spec_kit_memory.errors import FileMissing, SpecKitMemoryError
from spec_kit_memory.parameter_values import memory_id
from spec_kit_memory.parameters import Parameter, Request
from spec_kit_memory.serve.cli.invocation import Invocation, command_edge


def common_options() -> list[click.Parameter]:
    """--workspace, --json, --index and --set, before or after the command's name."""

    def workspace(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
        if path is not None:
            ctx.find_object(Invocation).workspace = path  # type: ignore[union-attr]

    def personal(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
        if is_set:
            from spec_kit_memory.settings.own_folders import personal_vault

            if (vault := personal_vault()) is None:  # must not fall back to the project in the current folder
                raise FileMissing("You have no home folder, so there is no personal memory.", hint="Set HOME.")
            ctx.find_object(Invocation).workspace = str(vault)  # type: ignore[union-attr]

    def as_json(ctx: click.Context, _: click.Parameter, is_set: bool) -> None:
        if is_set:
            ctx.find_object(Invocation).json = True  # type: ignore[union-attr]

    def index(ctx: click.Context, _: click.Parameter, url: str | None) -> None:
        if url is not None:
            ctx.find_object(Invocation).flags["index.url"] = url  # type: ignore[union-attr]

    def flags(ctx: click.Context, _: click.Parameter, pairs: tuple[str, ...]) -> None:
        from spec_kit_memory.settings import parse_flag

        for pair in pairs:
            name, value = parse_flag(pair)
            ctx.find_object(Invocation).flags[name] = value  # type: ignore[union-attr]

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
            ["--personal"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=personal,
            help="Your personal memory instead of a project's.",
        ),
        click.Option(
            ["--json"], is_flag=True, expose_value=False, is_eager=True, callback=as_json, help="Print JSON only."
        ),
        click.Option(
            ["--index"],
            metavar="URL",
            expose_value=False,
            callback=index,
            help="Where the index is: sqlite, or postgresql://HOST/DATABASE.",
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


def visible(kind: type[Request]) -> list[Parameter]:
    return command_edge(kind).sees(kind)


def options(kind: type[Request]) -> list[click.Parameter]:
    """An option for every parameter, including those that can be given by position."""
    return [_option(parameter) for parameter in visible(kind)]


def _option(parameter: Parameter) -> click.Option:
    about = parameter.shown_help + (" (repeat the option)" if parameter.kind in ("texts", "paths") else "")
    if parameter.command_default is not None:
        about = f"{about} (by default none: --limit decides)"
    elif parameter.shown_default not in (None, False, ""):
        about = f"{about} (default {_written(parameter.shown_default)})".strip()
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
    return Offered(parameter.choices, case_sensitive=False) if parameter.choices else UncheckedText(parameter.kind)


class UncheckedText(click.ParamType[Any]):
    """Text that is passed on unchanged: `read` validates it, as for every caller. The name is shown in the help."""

    def __init__(self, kind: str) -> None:
        self.name = {"object": "json", "texts": "text", "paths": "path", "reference": "id|path"}.get(kind, kind)


class Offered(click.Choice[str]):
    """Choices for the help and for completion; `read` validates the value, as for every caller."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value


def positionals(kind: type[Request]) -> list[click.Parameter]:
    """Positional arguments: prose takes all words, and an id may also be a spec folder's name."""
    parameters: list[click.Parameter] = []
    for parameter in visible(kind):
        if not parameter.kw_only:
            word = _metavar(kind, parameter)
            parameters.append(
                click.Argument(
                    ["at_" + parameter.argument],
                    nargs=-1 if parameter.is_prose or parameter.kind == "paths" else 1,
                    required=False,
                    metavar=word if parameter.required or parameter.kind == "paths" else f"[{word}]",
                    type=_type(parameter),
                    shell_complete=completer(parameter),
                )
            )
    return parameters


def _metavar(kind: type[Request], parameter: Parameter) -> str:
    if parameter.kind == "paths":
        return "PATH..."
    if parameter.kind == "reference":
        return "ID|PATH"
    word = parameter.flag.removeprefix("--").upper().replace("-", "_")
    return "ID|FOLDER" if _takes_folder(kind, parameter) else word


def _takes_folder(kind: type[Request], parameter: Parameter) -> bool:
    return parameter.kind == "integer" and "spec_folder" in kind.declared


def given_values(kind: type[Request], options: Mapping[str, Any]) -> dict[str, Any]:
    """The given values by argument name; arguments that were not given are left out."""
    values: dict[str, Any] = {}
    for parameter in visible(kind):
        name = parameter.argument
        if (value := options.get(name)) not in (None, ()):
            # A single value may be a whole list as JSON.
            values[name] = (value[0] if len(value) == 1 else list(value)) if isinstance(value, tuple) else value
    for parameter in visible(kind):
        name = parameter.argument
        value = options.get("at_" + name)
        if value in (None, ()):
            continue
        if isinstance(value, tuple):
            value = " ".join(value) if parameter.is_prose else list(value)
        if _takes_folder(kind, parameter) and memory_id(str(value)) is None:
            name = "spec_folder"
        if name in values:
            raise click.UsageError(f"{kind.declared[name].flag} was given twice.", click.get_current_context())
        values[name] = value
    return values


# --- completion in the shell ---------------------------------------------------------------------


def completer(parameter: Parameter) -> Callable[[click.Context, click.Parameter, str], list[Any]] | None:
    """Completion of spec folders and checkpoint names, read from the disk: opening the index would delay each Tab."""
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
    """A checkpoint's name, read from its first line, because the file's name may be shortened."""
    import gzip

    try:
        with os.fdopen(filesystem.open_reading(place), "rb") as raw, gzip.GzipFile(fileobj=raw) as file:
            return str(json.loads(file.readline(1_000_000))["name"])
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return ""  # damaged, or not a checkpoint: not offered
