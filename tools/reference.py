"""Are the reference pages current? They are generated from the tables in the code.

python -m tools.reference            writes docs/reference/{tools,commands,answers,settings,errors}.md
python -m tools.reference --check    exits with 1 and names the pages that are not current
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_type_hints

import click

from spec_kit_memory import answers, errors, page_answers, settings
from spec_kit_memory.core.wording import camel, json_name
from spec_kit_memory.parameters import Parameter
from spec_kit_memory.serve import tools
from spec_kit_memory.serve.cli.invocation import Invocation
from spec_kit_memory.serve.cli.program import Commands
from spec_kit_memory.settings.trust import MOST_CHARACTERS, MOST_OF_A_REPOSITORY

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
NOTICE = "<!-- Made from the code by `python -m tools.reference`. Change the code, then run it. -->"


def cell(text: object) -> str:
    return str(text).replace("\n", " ").replace("|", "\\|").strip()


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell(item) for item in row) + " |"


def code(value: object) -> str:
    return f"`{value}`"


# --- tools -----------------------------------------------------------------------------------

TOOLS_HEAD = """\
# Tools

What an agent can call over MCP. Each answer is one envelope, as structured content and as the same JSON in text:

```json
{"summary": "one sentence", "data": {}, "hints": ["what to do next"],
 "meta": {"tool": "", "latencyMs": 0.0, "tokens": 0, "cacheHit": false, "indexGeneration": 0}}
```

The fields of `data` are on the page [Answers](answers.md). An error is an MCP tool error with
`{code, message, hint}`; the codes are on the page [Errors](errors.md). `skm serve --tools lean` serves only the
tools marked *lean*.

Arguments are read leniently: names in snake_case or kebab-case (`spec_folder`), numbers and `true` as text, any case
of a choice, the other names of context types (`bug` is `discovery`), an object or list as JSON text, one text where a
list is wanted. What is empty or null counts as left out. An error names every problem of a call and the nearest names.

Beyond the budget of a tool that has one, the data of an answer has at most 100,000 characters: what a workspace makes
longer is cut, lists and texts alike, and a hint says what was left out.
"""


def kind_of(parameter: Parameter) -> str:
    words = {"texts": "list of texts", "path": "text"}.get(parameter.kind, parameter.kind)
    if parameter.choices:
        words = ("some of " if parameter.kind == "texts" else "") + ", ".join(map(code, parameter.choices))
    return words


def limits_of(parameter: Parameter) -> str:
    parts = []
    if parameter.kind in ("integer", "number", "texts"):
        unit = " of them" if parameter.kind == "texts" else ""
        low = None if parameter.minimum is None else f"{parameter.minimum:g}"
        high = None if parameter.maximum is None or parameter.maximum >= 2**31 else f"{parameter.maximum:,.10g}"
        if low and high:
            parts.append(f"{low} to {high}{unit}")
        elif low or high:
            parts.append(f"{low} or more{unit}" if low else f"at most {high}{unit}")
    if parameter.kind in ("text", "path", "object") and not parameter.choices:
        parts.append(f"at most {parameter.length:,} characters")
    return ", ".join(parts)


def about_of(parameter: Parameter) -> str:
    description = parameter.about or parameter.help
    parts = ["Required." if parameter.required else "", description and description.rstrip(".") + "."]
    other = ", ".join(map(code, parameter.aliases))
    return " ".join(filter(None, [*parts, f"Also {other}." if other else ""]))


def default_of(parameter: Parameter) -> str:
    return "" if parameter.shown_default is None else code(json.dumps(parameter.shown_default))


def tool_section(tool: tools.Tool) -> Iterator[str]:
    marks = [
        *(["lean"] if tool.lean else []),
        "reads only" if tool.reads else "destroys" if tool.destroys else "changes",
        *(["repeating it changes nothing more"] if tool.idempotent and not tool.reads else []),
    ]
    yield f"## {tool.name}\n\n{tool.about}\n"
    yield f"*{', '.join(marks)}.* On the command line: `skm {tool.command}`.\n"
    if needed := [code(p.name) for p in tool.parameters if p.argument in tool.request.needs]:
        yield f"Needs at least one of {', '.join(needed)}.\n"
    yield from table(
        ("parameter", "kind", "default", "limits", "meaning"),
        ((code(p.name), kind_of(p), default_of(p), limits_of(p), about_of(p)) for p in tool.parameters),
    )
    yield ""


def tools_page() -> str:
    lines = [TOOLS_HEAD]
    for tool in tools.TOOLS:
        lines += tool_section(tool)
    return "\n".join(lines)


# --- commands -----------------------------------------------------------------------------------

COMMANDS_HEAD = """\
# Commands

`skm` and `spec-kit-memory` are the same program. A command that has a tool of the same meaning takes the tool's
parameters as options, in kebab-case, and reads them as leniently. Exit codes: 0, 1 (error), 2 (usage).

Every command also takes:

"""


def leaves(group: click.Group, ctx: click.Context, words: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None, name
        if isinstance(command, click.Group):
            yield from leaves(command, ctx, (*words, name))
        else:
            yield " ".join((*words, name)), command


def option_rows(command: click.Command, *, common: bool) -> Iterator[tuple[str, str]]:
    shared = {"--workspace", "--json", "--set"}
    for option in command.params:
        if isinstance(option, click.Option) and bool(shared & set(option.opts)) == common:
            names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
            choices = getattr(option.type, "choices", ())
            about = (option.help or "").rstrip(".")
            one_of = f"One of {', '.join(map(str, choices))}" if choices else ""
            repeated = "May be repeated" if option.multiple and "repeat" not in about else ""
            yield names, ". ".join(filter(None, (about, one_of, repeated)))


def usage(words: str, command: click.Command, ctx: click.Context) -> str:
    pieces = command.collect_usage_pieces(click.Context(command, info_name=words, parent=ctx))
    return " ".join(["skm", words, *pieces])


def commands_page() -> str:
    group = Commands()
    ctx = click.Context(group, info_name="skm", obj=Invocation())
    lines = [COMMANDS_HEAD.rstrip("\n"), "", *table(("option", "meaning"), option_rows(group, common=True)), ""]
    for words, command in leaves(group, ctx, ()):
        lines += [f"## skm {words}\n", f"{(command.help or '').strip()}\n", f"    {usage(words, command, ctx)}\n"]
        if rows := list(option_rows(command, common=False)):
            lines += [*table(("option", "meaning"), rows), ""]
    lines.append("`generate-context` is another name for `skm save`.\n")
    return "\n".join(lines)


# --- answers ---------------------------------------------------------------------------------------

ANSWERS_HEAD = """\
# Answers

The fields of `data` in each envelope. Fields that are empty or unset are left out. Times are ISO 8601 in UTC.
`score` is 0 to 100 everywhere but in a flat list of passages, where it is 0 to 1.
"""


def field_name(field: dataclasses.Field[Any]) -> str:
    """A field's name in JSON, with the old name if it was renamed."""
    if field.metadata.get("names") == answers.RENAMED["names"]:
        return f"{code(json_name(field.name))} (in this version also {code(camel(field.name))})"
    return code(camel(field.name))


def type_name(hint: Any) -> str:
    text = hint.__name__ if isinstance(hint, type) and not getattr(hint, "__args__", None) else str(hint)
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text).replace("collections.abc.", "")
    text = text.replace("str | Advice", "str")  # in JSON advice is worded
    for python, plain in (("str", "text"), ("int", "integer"), ("float", "number"), ("bool", "boolean")):
        text = re.sub(rf"\b{python}\b", plain, text)
    text = re.sub(r"Mapping\[text, (.+?)\]", r"object of \1", text).replace("object of Any", "object")
    text = re.sub(r"tuple\[(.+), \.\.\.\]", r"list of \1", text)
    return text.replace("datetime.datetime", "time").replace("datetime", "time").replace(" | None", " or nothing")


def answer_section(shape: type) -> Iterator[str]:
    inherited = {field.name for field in dataclasses.fields(answers.Answer)}
    hints = get_type_hints(shape)
    fields = [
        field
        for field in dataclasses.fields(shape)
        if field.name != "omitted" and not (issubclass(shape, answers.Answer) and field.name in inherited)
    ]
    yield f"## {shape.__name__}\n"
    if shape.__doc__:
        yield inspect.cleandoc(shape.__doc__) + "\n"
    yield from table(("field", "kind"), ((field_name(field), type_name(hints[field.name])) for field in fields))
    yield ""


def answers_page() -> str:
    shapes = [
        member
        for module in (answers, page_answers)
        for member in vars(module).values()
        if inspect.isclass(member) and dataclasses.is_dataclass(member) and member.__module__ == module.__name__
    ]
    lines = [ANSWERS_HEAD]
    for shape in shapes:
        if shape not in (answers.Answer, answers.Meta):
            lines += answer_section(shape)
    return "\n".join(lines)


# --- settings ----------------------------------------------------------------------------------------

SETTINGS_HEAD = """\
# Settings

In `.spec-kit-memory/config.jsonc` of the workspace, in your own `config.jsonc` in the platform's configuration
folder, in the environment, or for one run with `--set KEY=VALUE`. A later one wins:

    default < the workspace's file < your own file < environment < flags

`skm config show` prints every value and where it came from. An unknown or ill-typed key is an error that names it.
Keys are nested objects in the file: `"semantic": {"model": "none"}`. Comments and trailing commas are allowed.

A configuration that came with a repository can be written by a stranger. It names no address, no key and no person,
and may choose remote embedding or touch anything outside the workspace only if your own configuration says so
(`allow.network`, `allow.outsidePaths`). The column *a repository may* tells it for every key: what it may not is
refused there with E030, and so is a file that is a link out of the workspace or no regular file.
"""


def setting_kind(key: settings.Key) -> str:
    words = {"texts": "list of texts", "choices": "list of", "numbers": "object of numbers"}.get(key.kind, key.kind)
    if key.choices:
        joined = ", ".join(map(code, key.choices))
        words = joined if key.kind == "choice" else f"{words} {'for' if key.kind == 'numbers' else ''} {joined}"
    low, high = key.minimum, key.maximum
    bounds = f", {low:g} to {high:,.10g}" if low is not None and high is not None else ""
    return re.sub(r"\s+", " ", words) + bounds


def setting_default(key: settings.Key) -> str:
    value = key.default
    if value is None:
        return "unset"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, tuple):
        value = [str(item) for item in value]
    if isinstance(value, Path):
        value = value.as_posix()
    return code(json.dumps(value, ensure_ascii=False, default=str))


def settings_page() -> str:
    rows = (
        (
            code(key.name),
            setting_kind(key),
            setting_default(key),
            settings.TRUST[key.name].value,
            code(key.variable) if "environment" in key.places else "",
            key.about,
        )
        for key in settings.KEYS
    )
    head = ("key", "value", "default", "a repository may", "environment", "meaning")
    reserved = ", ".join(map(code, sorted(settings.RESERVED_VARIABLES)))
    tail = f"These variables are read too and are no settings: {reserved}."
    limits = ", ".join(f"{code(name)} {most:,} {unit}" for name, (most, unit) in sorted(MOST_OF_A_REPOSITORY.items()))
    bounds = (
        f"In a repository's own file these have an end: {limits}; lists have {MOST_CHARACTERS:,} characters together."
    )
    return "\n".join([SETTINGS_HEAD, *table(head, rows), "", bounds, "", tail, ""])


# --- errors --------------------------------------------------------------------------------------------

ERRORS_HEAD = """\
# Errors

Every error has a code, a message that names the value, and a hint that names the next step. Over MCP it is a tool
error with `{code, message, hint}`; on the command line it goes to standard error and the exit code is 1; in Python
it is a subclass of `spec_kit_memory.errors.SpecKitMemoryError`. What to do about each:
[Troubleshoot by error code](../how-to/troubleshoot.md).
"""


def errors_page() -> str:
    rows = ((error.code, code(error.__name__), error.means) for error in errors.all_errors())
    return "\n".join([ERRORS_HEAD, *table(("code", "class", "meaning"), rows), ""])


# --- writing and checking ---------------------------------------------------------------------------------

PAGES: dict[str, Callable[[], str]] = {
    "tools.md": tools_page,
    "commands.md": commands_page,
    "answers.md": answers_page,
    "settings.md": settings_page,
    "errors.md": errors_page,
}


def made(name: str) -> str:
    title, rest = PAGES[name]().split("\n", 1)
    return f"{title}\n\n{NOTICE}\n{rest}".rstrip("\n") + "\n"


def stale() -> list[str]:
    """Pages that are not current."""
    paths = {name: FOLDER / name for name in PAGES}
    return [
        name for name, path in paths.items() if not path.is_file() or path.read_text(encoding="utf-8") != made(name)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a page is not current")
    old = stale()
    if parser.parse_args(arguments).check:
        for name in old:
            print(f"docs/reference/{name} is not current: run python -m tools.reference", file=sys.stderr)
        return 1 if old else 0
    for name in old:
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(made(name), encoding="utf-8", newline="\n")
        print(f"wrote docs/reference/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
