"""How does each reader write a call? Templates contain calls in Python syntax, in backticks.

The names come from the requests and the table of tools, so none is defined twice. Text in backticks that is neither a
verb of the workspace nor an argument of one is left unchanged. `{field}` in a call is a placeholder for a value.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from spec_kit_memory import requests
from spec_kit_memory.parameters import Parameter, Request
from spec_kit_memory.serve.tools import TOOLS

Edge = Literal["model", "person", "python"]

_QUOTED = re.compile(r"`([^`\n]+)`")
_COMMAND = re.compile(r"`(skm [^`\n]+)`")
_PERSONAL = "--personal"
_SLOT = re.compile(r"\{(\w+)\}")
_MARK = "slot_"


class _Slot(str):
    """The name of a placeholder, whose value is filled in later."""

    __slots__ = ()


def spelled(template: str, *, edge: Edge, personal: bool = False) -> str:
    """The template with its calls in this reader's syntax, with placeholders that quote their values accordingly.

    `personal`: the calls are about the personal vault, which commands must name; tools recognise it by the ids.
    """

    def replace(quoted: re.Match[str]) -> str:
        call = _read(_SLOT.sub(rf"{_MARK}\1", quoted[1]))
        if edge == "python":
            own = personal and call is not None and not isinstance(call[0], Parameter)
            return _SLOT.sub(r"{\1!r}", quoted[0].replace("`", "`personal.", 1) if own else quoted[0])
        if call is None:
            return quoted[0]
        kind, arguments = call
        if isinstance(kind, Parameter):
            return _argument(kind, arguments.get(kind.argument), edge=edge)
        return _as_tool(kind, arguments) if edge == "model" else _as_command(kind, arguments)

    spelled_calls = _QUOTED.sub(replace, template)
    return _COMMAND.sub(_of_vault, spelled_calls) if personal else spelled_calls


def _of_vault(quoted: re.Match[str]) -> str:
    return quoted[0] if _PERSONAL in quoted[1].split() else f"`{quoted[1]} {_PERSONAL}`"


def parameter(name: str, *, edge: Edge) -> str:
    return f"`{name}`" if edge == "python" else _argument(_parameters()[name], None, edge=edge)


def _argument(declared: Parameter, value: Any, *, edge: Edge) -> str:
    if edge == "person":
        return _as_option(declared, value)
    return declared.name if value is None else f"{declared.name}: {_json(value)}"


@cache
def _verbs() -> Mapping[str, type[Request]]:
    return {kind.verb: kind for kind in requests.BY_COMMAND.values()}


@cache
def _parameters() -> Mapping[str, Parameter]:
    # If two verbs have a parameter of the same name, it is spelled alike in both.
    return {name: declared for kind in requests.BY_COMMAND.values() for name, declared in kind.declared.items()}


def _read(words: str) -> tuple[type[Request] | Parameter, dict[str, Any]] | None:
    """Parse a call of a verb with its arguments, or a single argument; None if it is neither."""
    if re.fullmatch(r"[a-z_]+", words):
        parameter_ = _parameters().get(words)
        return (parameter_, {}) if parameter_ is not None else None
    try:
        tree = ast.parse(words if words.endswith(")") else f"_({words})", mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        return None
    arguments = {keyword.arg: _value(keyword.value) for keyword in tree.keywords if keyword.arg}
    if tree.func.id == "_":
        parameter_ = _parameters().get(next(iter(arguments), ""))
        return (parameter_, arguments) if parameter_ is not None and len(arguments) == 1 and not tree.args else None
    kind = _verbs().get(tree.func.id)
    if kind is None:
        return None
    places = [name for name, declared in kind.declared.items() if not declared.kw_only]
    arguments = dict(zip(places, map(_value, tree.args), strict=False)) | arguments
    return (kind, arguments) if arguments.keys() <= kind.declared.keys() else None


def _value(node: ast.expr) -> Any:
    """A literal; a bare name is a placeholder, or a word that the reader replaces by a value."""
    if isinstance(node, ast.Name):
        return _Slot(node.id.removeprefix(_MARK)) if node.id.startswith(_MARK) else node.id
    return ast.literal_eval(node)


# --- for a model --------------------------------------------------------------------------


def _as_tool(kind: type[Request], arguments: Mapping[str, Any]) -> str:
    tool = next((tool for tool in TOOLS if tool.request is kind), None)
    if tool is None or any(kind.declared[name].reach != "everywhere" for name in arguments):
        return f"{_as_command(kind, arguments)} (for the user to run)"
    parts = [f"{kind.declared[name].name} {_json(value)}" for name, value in arguments.items()]
    return f"{tool.name} with {' and '.join(parts)}" if parts else tool.name


def _json(value: Any) -> str:
    if isinstance(value, _Slot):
        return f"{{{value}}}"
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- for a person -------------------------------------------------------------------------


def _as_command(kind: type[Request], arguments: Mapping[str, Any]) -> str:
    words = ["skm", *kind.command.split()]
    for name, value in arguments.items():
        declared = kind.declared[name]
        words.append(
            _typed(value) if not declared.kw_only and not isinstance(value, bool) else _as_option(declared, value)
        )
    return f"`{' '.join(words)}`"


def _as_option(declared: Parameter, value: Any) -> str:
    if value is None or value is True:
        return declared.flag
    if value is False:
        return declared.off or f"--no-{declared.flag[2:]}"
    return f"{declared.flag} {_typed(value)}"


def _typed(value: Any) -> str:
    return f"{{{value}!q}}" if isinstance(value, _Slot) else shlex.quote(str(value))
