"""How is a value of an answer rendered as JSON, and how many bytes does it take?

The only place that turns typed rows into JSON to be sent: camelCase names, without empty optional fields. Budgets
measure its output, so a new field of a row is counted automatically.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import cache
from json.encoder import encode_basestring
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from spec_kit_memory.advice import Advice, Text
from spec_kit_memory.answers import OF_ATTRIBUTES, RENAMED
from spec_kit_memory.core.tokens import BYTES_PER_TOKEN
from spec_kit_memory.core.wording import camel, json_name

SMALLEST_PLAIN = 1e-4
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_PLAIN = frozenset((str, bool, int))
_CONTAINERS = frozenset((tuple, list, dict, set, frozenset))
_SIMPLE = _PLAIN | _CONTAINERS | {float}  # a value of these types is not empty if it is truthy
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
T = TypeVar("T")
# The fields of an answer besides its list.
FRAME_TOKENS = 100


def size(thing: Any) -> int:
    """Bytes of a value as it is sent."""
    return _bytes(value(thing))


def field_sizes(row: Any, *, without: frozenset[str] = frozenset()) -> dict[str, int]:
    """Bytes of each field of a row as it is sent, including its name and a comma; fields left out are missing."""
    kind: Any = type(row)
    values = zip(_measures(kind), _contents(kind)(row), strict=True)
    changed = {name: content for (name, measure), content in values if content is not measure.usual}
    return value_sizes(kind, changed, without=without.union(getattr(row, "omitted", ())))


def value_sizes(kind: Any, values: Mapping[str, Any], *, without: Set[str]) -> dict[str, int]:
    """As `field_sizes`, of a row that does not exist yet; `without` names fields to leave out.

    A search measures every result that it lists, so nothing is made here that is only thrown away.
    """
    measures = _measures_by_name(kind)
    sizes: dict[str, int] = {}
    for name, content in values.items():
        if content is None or name in without:
            continue
        measure = measures[name]
        if content is measure.usual:
            continue
        if measure.optional and (not content or type(content) not in _SIMPLE) and _is_empty(content):
            continue
        if type(content) is not str:
            content = value(content)
            content = _with_names(content) if measure.of_attributes else content
        sizes[name] = measure.names_size + measure.times * _bytes(content)
    return sizes


class _Measure(NamedTuple):
    """How a field is measured."""

    optional: bool
    names_size: int  # of all its names, with quotes, colons and commas
    times: int  # under how many names it is sent
    of_attributes: bool
    usual: Any  # the default, where that is left out; told without looking into it


@cache
def _measures(kind: Any) -> tuple[tuple[str, _Measure], ...]:
    """By field, in the order of `_form`."""
    return tuple(
        (name, _Measure(optional, sum(len(name) + len('"":,') for name in names), len(names), of_attributes, usual))
        for (name, optional, names, of_attributes), usual in zip(_form(kind), _left_out(kind), strict=True)
    )


@cache
def _measures_by_name(kind: Any) -> dict[str, _Measure]:
    return dict(_measures(kind))


def _bytes(data: Any) -> int:
    kind = type(data)
    if kind is int or kind is float:
        return len(repr(data))
    text = encode_basestring(data) if kind is str else _encode(data)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def value(thing: Any, say: Callable[[Text], str] = str) -> Any:
    """A value of an answer as plain JSON data; `say` words the advice in it for the reader."""
    kind = type(thing)
    if thing is None or kind in _PLAIN:
        return thing
    if kind is float:
        return plain_number(thing)
    if isinstance(thing, Enum):
        return thing.value
    if isinstance(thing, str | bool | int):
        return thing
    if isinstance(thing, float | Decimal):
        return plain_number(float(thing))
    if isinstance(thing, datetime):
        return thing.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(thing, date):
        return thing.isoformat()
    if isinstance(thing, Path):
        return thing.as_posix()
    if isinstance(thing, Advice):
        return say(thing)
    if dataclasses.is_dataclass(thing):
        return fields(thing, say)
    if isinstance(thing, Mapping):
        return _ordered({_key(name): value(item, say) for name, item in thing.items()})
    if isinstance(thing, Set):
        return sorted((value(item, say) for item in thing), key=str)
    if isinstance(thing, bytes | bytearray):
        return thing.hex()
    if isinstance(thing, Sequence):
        return [value(item, say) for item in thing]
    return str(thing)


def plain_number(number: float) -> float | int | None:
    """A number whose JSON text does not change when JavaScript parses and rewrites it.

    Hosts compare the text of an answer with its structured content, and pass only one of them on if they are equal.
    """
    if number != number or abs(number) == float("inf"):
        return None
    rounded = round(number, 6)
    if abs(rounded) < SMALLEST_PLAIN:
        rounded = round(number, 4)  # Python and JavaScript format smaller numbers differently, with exponents
    return int(rounded) if rounded == int(rounded) else rounded


def _ordered(mapping: dict[str, Any]) -> dict[str, Any]:
    """Keys that are integers first, in ascending order, as in JavaScript."""
    numbers = sorted((name for name in mapping if _ARRAY_INDEX.fullmatch(name)), key=int)
    return {name: mapping[name] for name in (*numbers, *mapping)} if numbers else mapping


def compact(data: Any) -> str:
    """JSON text as it is sent: compact, not escaped to ASCII, and always valid UTF-8."""
    return _encode(data).encode("utf-8", "replace").decode("utf-8")


def fields(thing: Any, say: Callable[[Text], str] = str, *, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A dataclass's fields as JSON data, without empty optional fields, None, and fields named in `omitted`."""
    rendered: dict[str, Any] = {}
    for _, content in _entries(thing, say, without=without):
        rendered |= content
    return rendered


def _entries(
    thing: Any, say: Callable[[Text], str], *, without: frozenset[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name of each field that is not left out, and its JSON: one entry for each of its names."""
    without = without | getattr(thing, "omitted", frozenset())
    kind: Any = type(thing)
    for name, optional, names, of_attributes in _form(kind):
        content = getattr(thing, name)
        if content is None or name in without or (optional and _is_empty(content)):
            continue
        rendered = value(content, say)
        rendered = _with_names(rendered) if of_attributes else rendered
        yield name, dict.fromkeys(names, rendered)


@cache
def _form(kind: Any) -> tuple[tuple[str, bool, tuple[str, ...], bool], ...]:
    """For each field: its name, whether it may be left out, its names in JSON, and whether it names attributes."""
    entries = []
    for field in dataclasses.fields(kind):
        renamed = (json_name(field.name),) if field.metadata.get("names") == RENAMED["names"] else ()
        of_attributes = field.metadata.get("names") == OF_ATTRIBUTES["names"]
        entries.append((field.name, _is_optional(field), (*renamed, camel(field.name)), of_attributes))
    return tuple(form for form in entries if form[0] != "omitted")


@cache
def _contents(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gets the values of all fields of a row, in the order of `_form`."""
    names = [name for name, *_ in _form(kind)]
    return attrgetter(*names) if len(names) > 1 else lambda row: tuple(getattr(row, name) for name in names)


@cache
def _left_out(kind: Any) -> tuple[Any, ...]:
    """Of each field, in the order of its form: the default, where that is left out; told without looking into it."""
    defaults = [_default(field) for field in dataclasses.fields(kind) if field.name != "omitted"]
    return tuple(default if _is_empty(default) else None for default in defaults)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None if field.default is dataclasses.MISSING else field.default


def _with_names(rendered: Any) -> Any:
    """Replace attribute names by their public names: keys at any depth, or the items of a list."""
    if isinstance(rendered, dict):
        return {
            json_name(name): _with_names(part) if isinstance(part, dict) else part for name, part in rendered.items()
        }
    return [_with_names(part) if isinstance(part, dict) else json_name(part) for part in rendered]


def _is_optional(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _is_empty(content: Any) -> bool:
    if type(content) in _PLAIN:
        return bool(content == "")
    if type(content) in _CONTAINERS:
        return not content
    if isinstance(content, bool | int | float | Decimal):
        return False
    if dataclasses.is_dataclass(content) and not isinstance(content, type):
        # A row equal to its default, such as "nothing was held back", is left out as a whole.
        return _may_be_empty(type(content)) and bool(content == type(content)())
    return isinstance(content, str | Sequence | Mapping | Set) and not content


@cache
def _may_be_empty(kind: Any) -> bool:
    return all(map(_is_optional, dataclasses.fields(kind)))


def _key(name: Any) -> str:
    """The key of a mapping, not renamed: many are users' own words (anchors, concepts, folders)."""
    return str(name.value if isinstance(name, Enum) else name)


def first_that_fit(rows: Sequence[T], *, max_tokens: int, already: Iterable[Any] = ()) -> Sequence[T]:
    """The first rows within the budget, at least one; `already` is what the answer contains in any case."""
    room = (max_tokens - FRAME_TOKENS) * BYTES_PER_TOKEN - sum(map(size, already))
    for number, row in enumerate(rows):
        room -= size(row) + len(",")
        if room < 0 and number:
            return rows[:number]
    return rows
