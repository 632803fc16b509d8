"""How is advice said to whom? Below this room advice names methods and arguments, as Python callers use them.

"`load(memory_id=5)` reads it" is "memory_load with memoryId 5 reads it" to a model and "`skm load 5` reads it" to a
person. Only what stands in backticks and is a verb of the workspace, or an argument of one, is put into other words;
the names come from the requests and the table of tools, so none is written twice. What has no method stands here by
its code, once for models and once for people.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

from spec_kit_memory import requests
from spec_kit_memory.parameters import Parameter, Request
from spec_kit_memory.serve.tools import TOOLS

__all__ = ["Say", "for_model", "for_person"]


class Say(Protocol):
    """A text of ours in the words of one kind of caller; `advice` is a code of `ADVICE`."""

    def __call__(self, text: str, *, advice: str = "") -> str: ...


_QUOTED = re.compile(r"`([^`\n]+)`")

# Advice about what is no verb of a workspace, by its code: for models, for people.
ADVICE: Mapping[str, tuple[str, str]] = {
    "show-settings": (
        "The user can correct them; `skm config show` tells every key and what is wrong.",
        "`skm config show` tells every key and what is wrong.",
    ),
    "make-workspace": (
        "The user can make one: `skm init` in the project's root, or --workspace.",
        "Run `skm init` in your project's root, or name it with --workspace.",
    ),
}


def for_model(text: str, *, advice: str = "") -> str:
    return _said(text, _as_tool, _as_parameter, ADVICE.get(advice, ("", ""))[0])


def for_person(text: str, *, advice: str = "") -> str:
    return _said(text, _as_command, _as_option, ADVICE.get(advice, ("", ""))[1])


def _said(
    text: str,
    call: Callable[[type[Request], dict[str, Any]], str],
    argument: Callable[[Parameter, Any], str],
    more: str,
) -> str:
    def replace(quoted: re.Match[str]) -> str:
        found = _read(quoted[1])
        if found is None:
            return quoted[0]
        kind, given = found
        if isinstance(kind, Parameter):
            return argument(kind, given.get(kind.argument))
        return call(kind, given)

    return " ".join(filter(None, (_QUOTED.sub(replace, text) if "`" in text else text, more)))


@cache
def _verbs() -> Mapping[str, type[Request]]:
    return {kind.verb: kind for kind in requests.BY_COMMAND.values()}


@cache
def _parameters() -> Mapping[str, Parameter]:
    # Where two verbs have a parameter of one name, it is spelled alike.
    return {name: each for kind in requests.BY_COMMAND.values() for name, each in kind.declared.items()}


def _read(words: str) -> tuple[type[Request] | Parameter, dict[str, Any]] | None:
    """A call of a verb with its arguments, or one argument; None where it is neither."""
    if re.fullmatch(r"[a-z_]+", words):
        named = _parameters().get(words)
        return (named, {}) if named is not None and "_" in words else None
    try:
        tree = ast.parse(words if words.endswith(")") else f"_({words})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        return None
    given = {each.arg: _value(each.value) for each in tree.keywords if each.arg}
    if tree.func.id == "_":
        named = _parameters().get(next(iter(given), ""))
        return (named, given) if named is not None and len(given) == 1 and not tree.args else None
    kind = _verbs().get(tree.func.id)
    if kind is None:
        return None
    places = [name for name, each in kind.declared.items() if not each.kw_only]
    given = dict(zip(places, map(_value, tree.args), strict=False)) | given
    return (kind, given) if given.keys() <= kind.declared.keys() else None


def _value(node: ast.expr) -> Any:
    """A literal; a name stands for what the caller has to put there."""
    if isinstance(node, ast.Name):
        return node.id
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


# --- to a model ---------------------------------------------------------------------------


def _as_tool(kind: type[Request], given: dict[str, Any]) -> str:
    tool = next((tool for tool in TOOLS if tool.request is kind), None)
    if tool is None or any(kind.declared[name].reach != "everywhere" for name in given):
        return f"{_as_command(kind, given)} (for the user to run)"
    said = [f"{kind.declared[name].name} {_json(value)}" for name, value in given.items()]
    return f"{tool.name} with {' and '.join(said)}" if said else tool.name


def _as_parameter(parameter: Parameter, value: Any) -> str:
    return parameter.name if value is None else f"{parameter.name}: {_json(value)}"


def _json(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- to a person --------------------------------------------------------------------------


def _as_command(kind: type[Request], given: dict[str, Any]) -> str:
    words = ["skm", *kind.command.split()]
    for name, value in given.items():
        parameter = kind.declared[name]
        if not parameter.kw_only and not isinstance(value, bool):
            words.append(shlex.quote(str(value)))
        else:
            words += _as_option(parameter, value).split(" ", 1)
    return f"`{' '.join(words)}`"


def _as_option(parameter: Parameter, value: Any) -> str:
    if value is None or value is True:
        return parameter.flag
    if value is False:
        return parameter.off or f"--no-{parameter.flag[2:]}"
    return f"{parameter.flag} {shlex.quote(str(value))}"
