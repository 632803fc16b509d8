"""What happened, what is wrong, and what is the next step? Codes with values; `serve.messages` has the words.

Messages refer models to tools, people to commands and Python callers to methods, so code below the edges cannot word
them. A text that refers to none of these ("free some space and try again") is passed as it is, without a code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar

import spec_kit_memory

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Advice:
    """A message as a code with values. `str()` gives its words for Python callers."""

    code: str
    fields: tuple[tuple[str, Value], ...] = ()
    personal: bool = False  # the next step applies to the user's personal vault

    def __str__(self) -> str:
        return spec_kit_memory.advice_for_python(self)  # by way of the package, since this module must not import serve

    def __repr__(self) -> str:
        return repr(str(self))  # readable when a list of advice is printed

    def __contains__(self, part: str) -> bool:
        """Substring test, for compatibility with 0.1, where advice was plain text."""
        return part in str(self)


Text = str | Advice
Value = str | int | float | Advice | tuple[str, ...] | tuple[Advice, ...]


def advise(code: str, **fields: Value) -> Advice:
    return Advice(code, tuple(fields.items()))


def outcome(code: str, **fields: Value) -> Advice:
    """What was done or found: the first line of an answer."""
    return Advice(code, tuple(fields.items()))


def finding(code: str, **fields: Value) -> Advice:
    """What is wrong, or worth knowing: a problem, a warning, a remark."""
    return Advice(code, tuple(fields.items()))


def about_personal(value: T) -> T:
    """The value with `personal` set on all advice in it: commands for the personal vault need an extra option."""
    if isinstance(value, Advice):
        nested = tuple((name, about_personal(part)) for name, part in value.fields)
        return replace(value, fields=nested, personal=True)
    if isinstance(value, tuple):
        parts = tuple(map(about_personal, value))
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts  # type: ignore[return-value]
    if is_dataclass(value) and not isinstance(value, type):
        changed = {
            declared.name: new
            for declared in fields(value)
            if declared.init and (new := about_personal(old := getattr(value, declared.name))) is not old
        }
        return replace(value, **changed) if changed else value
    return value


def joined(texts: Iterable[str]) -> str:
    """Several steps as one text, whether or not they are whole sentences."""
    sentence = ""
    for text in filter(None, texts):
        sentence += (" " if sentence.endswith((".", ":")) else "; " if sentence else "") + text
    return sentence
