"""Are a tool's arguments what its table entry says?

Unknown or ill-typed is E030, missing E031, out of range or too long E032. The message
names the parameter and what it takes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from spec_kit_memory.core.memory import Relation
from spec_kit_memory.errors import (
    BadParameter,
    MissingParameter,
    NothingToSearch,
    OutOfRange,
    SpecKitMemoryError,
    UnknownRelation,
)
from spec_kit_memory.serve.tools import NAME_LENGTH, Parameter, Tool, snake

__all__ = ["read_arguments"]

RELATIONS = tuple(relation.value for relation in Relation)


def read_arguments(tool: Tool, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Keyword arguments for the tool's verb, defaults filled in. Null says nothing."""
    spellings = _spellings(tool)
    read: dict[str, Any] = {}
    for name, value in (arguments or {}).items():
        parameter = spellings.get(name)
        if parameter is None:
            raise _unknown(tool, name)
        if value is None:
            continue
        if parameter.argument in read:
            raise BadParameter(
                f"{tool.name}: {name!r} was given twice, under two spellings.", hint="Give one of them.", parameter=name
            )
        read[parameter.argument] = _checked(tool, parameter, value)
    for parameter in tool.parameters:
        if parameter.required and parameter.argument not in read:
            raise MissingParameter(
                f"{tool.name} needs {parameter.name!r}.", hint=_usage(tool), parameter=parameter.name
            )
        if parameter.default is not None and not parameter.alias:
            read.setdefault(parameter.argument, parameter.default)
    _require_one(tool, read)
    return read


def _require_one(tool: Tool, read: Mapping[str, Any]) -> None:
    if tool.one_of and not any(tool.parameter(name).argument in read for name in tool.one_of):
        kind: type[SpecKitMemoryError] = NothingToSearch if tool.verb == "search" else MissingParameter
        raise kind(f"{tool.name} needs {' or '.join(map(repr, tool.one_of))}.", hint=_usage(tool))


@cache
def _spellings(tool: Tool) -> Mapping[str, Parameter]:
    return {name: p for p in tool.parameters for name in (p.name, snake(p.name))}


def _usage(tool: Tool) -> str:
    return f"{tool.name} takes {', '.join(p.name for p in tool.parameters) or 'nothing'}."


def _unknown(tool: Tool, name: str) -> BadParameter:
    from difflib import get_close_matches

    found = get_close_matches(name, [p.name for p in tool.parameters], n=2)
    close = f"Did you mean {' or '.join(found)}? " if found else ""
    return BadParameter(
        f"{tool.name} has no parameter {_short(name)}.", hint=close + _usage(tool), parameter=name[:NAME_LENGTH]
    )


def _checked(tool: Tool, parameter: Parameter, value: object) -> Any:
    name = parameter.name
    if parameter.kind == "text":
        return _text(tool, parameter, value)
    if parameter.kind == "texts":
        return _texts(tool, parameter, value)
    if parameter.kind == "boolean":
        if not isinstance(value, bool):
            raise _wrong(tool, name, "true or false", value)
        return value
    if parameter.kind == "object":
        return _object(tool, parameter, value)
    return _number(tool, parameter, value)


def _text(tool: Tool, parameter: Parameter, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(tool, parameter.name, "a text", value)
    if parameter.choices:
        if value not in parameter.choices:
            if parameter.choices == RELATIONS:
                raise UnknownRelation(f"There is no relation {_short(value)}.", hint=f"Use {' or '.join(RELATIONS)}.")
            raise _wrong(tool, parameter.name, " or ".join(parameter.choices), value)
        return value
    if len(value) > parameter.length:
        raise OutOfRange(
            f"{tool.name}: {parameter.name!r} has {len(value):,} characters; at most {parameter.length:,} are allowed.",
            hint="Shorten it.",
            parameter=parameter.name,
        )
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise _wrong(tool, parameter.name, "Unicode text without lone surrogates", value)
    return value


def _texts(tool: Tool, parameter: Parameter, value: object) -> list[str]:
    if not isinstance(value, list | tuple):
        raise _wrong(tool, parameter.name, "a list of texts", value)
    least, most = int(parameter.minimum or 0), int(parameter.maximum or 100)
    if not least <= len(value) <= most:
        raise OutOfRange(
            f"{tool.name}: {parameter.name!r} has {len(value)} items; it takes {least} to {most}.",
            hint=_usage(tool),
            parameter=parameter.name,
        )
    return [_text(tool, parameter, each) for each in value]


def _object(tool: Tool, parameter: Parameter, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(tool, parameter.name, "an object", value)
    size = len(json.dumps(value, ensure_ascii=False, default=str))
    if size > parameter.length:
        raise OutOfRange(
            f"{tool.name}: {parameter.name!r} has {size:,} characters; at most {parameter.length:,} are allowed.",
            hint="Save it in parts.",
            parameter=parameter.name,
        )
    return dict(value)


def _number(tool: Tool, parameter: Parameter, value: object) -> int | float:
    wanted = "an integer" if parameter.kind == "integer" else "a number"
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or abs(value) == float("inf"):
        raise _wrong(tool, parameter.name, wanted, value)
    if parameter.kind == "integer" and value != int(value):
        raise _wrong(tool, parameter.name, wanted, value)
    least, most = parameter.minimum, parameter.maximum
    if (least is not None and value < least) or (most is not None and value > most):
        raise OutOfRange(
            f"{tool.name}: {parameter.name!r} is {_short(value)}; it must be from {least:,} to {most:,}.",
            hint="Choose a value in that range.",
            parameter=parameter.name,
            minimum=least,
            maximum=most,
        )
    return int(value) if parameter.kind == "integer" else float(value)


def _wrong(tool: Tool, name: str, wanted: str, value: object) -> BadParameter:
    return BadParameter(
        f"{tool.name}: {name!r} must be {wanted}, not {_short(value)}.", hint=_usage(tool), parameter=name
    )


def _short(value: object) -> str:
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
