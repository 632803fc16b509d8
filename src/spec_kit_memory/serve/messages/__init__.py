"""How is advice worded for each reader? Elsewhere advice is a code with values; `table` has the text of each code.

A template in the table contains calls in Python syntax, `` `load({id})` ``. `spelling` rewrites them for the reader:
"memory_load with memoryId 5" for a model, "`skm load 5`" for a person. Where a model and a person need different
advice, the table has a template for each.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import cache
from string import Formatter
from typing import Any

from spec_kit_memory.advice import Advice, Text
from spec_kit_memory.core.wording import counted
from spec_kit_memory.serve.messages import spelling
from spec_kit_memory.serve.messages.findings import FINDINGS
from spec_kit_memory.serve.messages.outcomes import OUTCOMES
from spec_kit_memory.serve.messages.table import TABLE, Words

Say = Callable[[Text], str]


def for_model(text: Text) -> str:
    return text if isinstance(text, str) else _MODEL.worded(text)


def for_person(text: Text) -> str:
    return text if isinstance(text, str) else _PERSON.worded(text)


def for_page(text: Text) -> str:
    return text if isinstance(text, str) else _PAGE.worded(text)


def advice_for_python(text: Text) -> str:
    return text if isinstance(text, str) else _PYTHON.worded(text)


class _Reader(Formatter):
    """Fills in templates for one kind of reader.

    `{count:file}` counts ("3 files"), `{count:file is|files are}` if more than the noun changes; `{names!p}` are names
    of parameters, spelled for this reader; `{count!o}` is "it" or "them"; `{reasons!j}` joins clauses with
    semicolons; `{value!q}` is quoted for a shell.
    """

    def __init__(self, edge: spelling.Edge, words: Callable[[Words], str]) -> None:
        self._edge = edge
        self._words = words

    def worded(self, advice: Advice) -> str:
        template = _template(self._edge, self._words, advice.code, personal=advice.personal)
        return self.vformat(template, (), dict(advice.fields))

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion == "p":
            return ", ".join(spelling.parameter(name, edge=self._edge) for name in value)
        if conversion == "q":
            return shlex.quote(str(value))
        if conversion == "j":
            return "; ".join(self.format_field(part, "") for part in value)
        if conversion == "o":
            return "it" if value == 1 else "them"
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec:
            singular, _, many = format_spec.partition("|")
            return counted(int(value), singular, many) if many else counted(int(value), singular)
        if isinstance(value, Advice):
            return self.worded(value)
        if isinstance(value, Sequence) and not isinstance(value, str):
            return ", ".join(self.format_field(part, "") for part in value)
        return str(value)


@cache
def _template(edge: spelling.Edge, words: Callable[[Words], str], code: str, *, personal: bool) -> str:
    if code in OUTCOMES or code in FINDINGS:
        return OUTCOMES.get(code) or FINDINGS[code]  # these contain no calls to rewrite
    return spelling.spelled(words(TABLE[code]), edge=edge, personal=personal)


_MODEL = _Reader("model", lambda words: words.model)
_PERSON = _Reader("person", lambda words: words.person)
_PAGE = _Reader("person", lambda words: words.page)
_PYTHON = _Reader("python", lambda words: words.python)
