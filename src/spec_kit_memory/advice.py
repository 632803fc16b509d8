"""What is the next step? A code with its values; the words stand in `serve.messages`, once for each kind of reader.

A model hears of tools, a person of commands, Python of methods, so nothing below the edges can word it. A text that
names nothing of an edge ("free some space and try again") needs no code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import spec_kit_memory

__all__ = ["Advice", "Text", "Value", "advise", "joined"]


@dataclass(frozen=True, slots=True)
class Advice:
    """`str()` gives the words for Python, which is the edge of whoever calls a workspace's methods."""

    code: str
    fields: tuple[tuple[str, Value], ...] = ()

    def __str__(self) -> str:
        return spec_kit_memory.advice_for_python(self)  # the package itself is the edge for Python

    def __contains__(self, part: str) -> bool:
        """As of the text that stood here in 0.1."""
        return part in str(self)


Text = str | Advice
Value = str | int | float | Advice | tuple[str, ...] | tuple[Advice, ...]


def advise(code: str, **fields: Value) -> Advice:
    return Advice(code, tuple(fields.items()))


def joined(texts: Iterable[str]) -> str:
    """Several steps as one text, whether or not they are whole sentences."""
    sentence = ""
    for text in filter(None, texts):
        sentence += (" " if sentence.endswith((".", ":")) else "; " if sentence else "") + text
    return sentence
