"""Does the code that memories name still look as it did when they were written?

This is never cached with an answer, because files change without notifying the index. The result fits the budget.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from spec_kit_memory.advice import finding
from spec_kit_memory.answers import SearchAnswer
from spec_kit_memory.core import tokens
from spec_kit_memory.core.citations import Code
from spec_kit_memory.core.memory import Memory

if TYPE_CHECKING:
    from spec_kit_memory.features.runtime import Runtime

# So many files of each kind are named; the rest are counted.
MOST_NAMED = 5


def of(runtime: Runtime, memories: Iterable[Memory]) -> dict[int, Code]:
    """For each of these memories whose cited files differ now: how they differ."""
    naming = [memory for memory in memories if memory.cited]
    if not naming or runtime.accepts:
        return {}
    files = runtime.shared.code_files(runtime.settings)
    code_by_id = {memory.id: files.code(memory.cited, prefixes=runtime.scope.prefixes) for memory in naming}
    return {id_: code for id_, code in code_by_id.items() if code}


def is_fresh(code: Code | None) -> bool:
    """Is all cited code unchanged? A file that only moved still says the same."""
    return code is None or not (code.changed or code.gone)


def shortened(code: Code, most: int = MOST_NAMED) -> Code:
    return Code(*(_few(names, most) for names in (code.changed, code.gone, code.moved)))


def _few(names: tuple[str, ...], most: int) -> tuple[str, ...]:
    more = len(names) - most
    return names if more <= 0 else (*names[:most], str(finding("more-problems", count=more)))


def with_code(runtime: Runtime, answer: SearchAnswer, *, max_tokens: int) -> SearchAnswer:
    """The answer with the state of the code that each result cites, as far as it fits."""
    code_by_id = of(runtime, runtime.store.documents.many(sorted({result.id for result in answer.results})))
    if not code_by_id:
        return answer
    room = max_tokens * tokens.BYTES_PER_TOKEN - _size(answer)
    results = []
    for result in answer.results:
        code = code_by_id.get(result.id)
        if code is not None:
            for most in (MOST_NAMED, 1):
                code_row = shortened(code, most)
                size = _size(code_row) + len('"code":,')
                if size <= room:
                    room -= size
                    result = replace(result, code=code_row)
                    break
        results.append(result)
    return replace(answer, results=tuple(results))


def _size(thing: object) -> int:
    """Its size as JSON in bytes, including fields that the answer may leave out."""
    return len(json.dumps(thing, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass"))


def _plain(thing: Any) -> object:
    if is_dataclass(thing):
        return {field.name: getattr(thing, field.name) for field in fields(thing)}
    if isinstance(thing, Mapping):
        return dict(thing)
    return str(thing)
