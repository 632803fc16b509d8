"""What happened, what is wrong, and what is the next step? Codes with values; `serve.messages` has the words.

A model is referred to tools, a person to commands, Python to methods, so code below the edges cannot word it. A text
that names none of these ("free some space and try again") needs no code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar

import spec_kit_memory

__all__ = ["Advice", "Text", "Value", "about_personal", "advise", "finding", "joined", "outcome"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Advice:
    """`str()` gives the words for Python, which is the edge of whoever calls a workspace's methods."""

    code: str
    fields: tuple[tuple[str, Value], ...] = ()
    personal: bool = False  # the next step is one in the user's personal vault

    def __str__(self) -> str:
        return spec_kit_memory.advice_for_python(self)  # the package itself is the edge for Python

    def __repr__(self) -> str:
        return repr(str(self))  # in a list that is printed

    def __contains__(self, part: str) -> bool:
        """As of the text that stood here in 0.1."""
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
    """The same with every advice in it about the personal vault, whose commands need a word more."""
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
