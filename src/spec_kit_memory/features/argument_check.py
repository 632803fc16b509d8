"""Are a verb's arguments what its signature says? A Python caller's mistake is told like anybody else's.

The annotations of `Workspace` are the table; they are read at a verb's first call. Unknown names and
a wrong number of arguments are Python's own to refuse.
"""

from __future__ import annotations

import functools
import inspect
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from numbers import Integral, Real
from typing import Any, TypeVar

from spec_kit_memory.errors import BadParameter, MissingParameter, OutOfRange

__all__ = ["accepting", "checked"]

# What JSON and the database can both hold.
LARGEST = 2**53
# No number of a verb is below zero, and of these none is zero.
FROM_ONE = frozenset({"limit", "max_tokens", "max_depth", "from_", "count"})
_SHOWN_CHARACTERS = 60

_Class = TypeVar("_Class", bound=type)
_Called = TypeVar("_Called", bound=Callable[..., Any])
_Fits = Callable[[object], bool]


@dataclass(frozen=True, slots=True)
class _Accepted:
    """What one parameter takes."""

    name: str
    words: str  # what it takes, said to a person
    fits: _Fits
    optional: bool  # None is a value of it
    required: bool
    whole: bool  # a whole number


def accepting(kind: _Class) -> _Class:
    """Every public verb of a class refuses what its annotations do not allow, with an error of ours."""
    for name, verb in list(vars(kind).items()):
        if inspect.isfunction(verb) and not name.startswith("_"):
            setattr(kind, name, checked(verb))
    return kind


def checked(verb: _Called) -> _Called:
    """The same for one verb, or a function."""

    @functools.cache
    def accepted() -> tuple[_Accepted, ...]:
        return _read(verb)

    @functools.wraps(verb)
    def call(*values: Any, **named: Any) -> Any:
        _check(verb.__name__, accepted(), values, named)
        return verb(*values, **named)

    return typing.cast("_Called", call)


def _check(verb: str, accepted: Sequence[_Accepted], values: Sequence[object], named: dict[str, object]) -> None:
    given = dict(zip((each.name for each in accepted), values, strict=False)) | named
    for each in accepted:
        if each.name not in given:
            continue
        value = given[each.name]
        if value is None and each.required and not each.optional:
            raise MissingParameter(f"{verb} needs {each.name}", hint=_usage(verb, accepted), parameter=each.name)
        if not (value is None and each.optional) and not each.fits(value):
            raise BadParameter(
                f"{verb}: {each.name} must be {each.words}, not {_short(value)}",
                hint=_usage(verb, accepted),
                parameter=each.name,
            )
        least = int(each.name in FROM_ONE)
        if each.whole and isinstance(value, Integral) and not least <= int(value) <= LARGEST:
            raise OutOfRange(
                f"{verb}: {each.name} is {_short(value)}", hint=f"give {least} to {LARGEST:,}", parameter=each.name
            )


def _usage(verb: str, accepted: Sequence[_Accepted]) -> str:
    return f"{verb} takes {', '.join(each.name for each in accepted if each.name != 'self')}"


def _short(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


# --- annotations ------------------------------------------------------------------------


def _read(verb: Callable[..., Any]) -> tuple[_Accepted, ...]:
    hints = typing.get_type_hints(verb)
    parameters = inspect.signature(verb).parameters.values()
    return tuple(_accepted(each.name, hints.get(each.name, Any), each.default is each.empty) for each in parameters)


def _accepted(name: str, hint: Any, required: bool) -> _Accepted:
    kinds = [each for each in _members(hint) if each is not types.NoneType]
    # An enumeration's values are texts too, and what is none of them the verb refuses by name.
    texts = [each for each in kinds if isinstance(each, type) and issubclass(each, StrEnum)]
    told = [_told(each) for each in kinds if each not in texts]
    if "path" in name:  # a file may have a name that is no Unicode, and what looks for it says so
        told = [(words, _is_string if fits is _is_text else fits) for words, fits in told]
    words = " or ".join(dict.fromkeys(words for words, _ in told))
    return _Accepted(
        name,
        words,
        lambda value: any(fits(value) for _, fits in told),
        optional=len(kinds) < len(_members(hint)) or Any in kinds,
        required=required,
        whole=int in kinds,
    )


def _members(hint: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    return typing.get_args(hint) if is_union else (hint,)


def _told(hint: Any) -> tuple[str, _Fits]:
    """What a member of an annotation takes; of a protocol nothing can be said before it is used."""
    kind = typing.get_origin(hint) or hint
    if kind in _KINDS:
        return _KINDS[kind](hint)
    if kind is Any or getattr(kind, "_is_protocol", False):
        return "anything", lambda _: True
    return f"a {kind.__name__}", lambda value: isinstance(value, kind)


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_text(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a pair cannot be stored, sent or found
        return False
    return True


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _list_of(hint: Any) -> tuple[str, _Fits]:
    (inner,) = typing.get_args(hint)
    item = _accepted("", inner, False)

    def fits(value: object) -> bool:
        if not isinstance(value, Sequence | Set) or isinstance(value, str | bytes):
            return False
        return all(map(item.fits, value))

    return f"a list, each of it {item.words}", fits


_KINDS: Mapping[Any, Callable[[Any], tuple[str, _Fits]]] = {
    str: lambda _: ("a text", _is_text),
    bool: lambda _: ("True or False", lambda value: isinstance(value, bool)),
    int: lambda _: ("an integer", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    float: lambda _: ("a number", _is_number),
    Sequence: _list_of,
    Mapping: lambda _: ("a mapping", lambda value: isinstance(value, Mapping)),
    os.PathLike: lambda _: ("a path", lambda value: isinstance(value, os.PathLike)),
    Callable: lambda _: ("a function", callable),
}
