"""How does an answer or an error look to a caller?

MCP, HTTP and `skm --json` use one envelope: {summary, data, hints, meta} in camelCase.
This is the only place where exceptions become errors that a caller sees.
"""

from __future__ import annotations

import dataclasses
import errno
from collections import Counter
from collections.abc import Mapping
from typing import Any

from spec_kit_memory.advice import advise, joined
from spec_kit_memory.answer_json import compact, fields, plain_number, value
from spec_kit_memory.answers import Answer
from spec_kit_memory.core.tokens import count
from spec_kit_memory.core.wording import camel, fitted, short
from spec_kit_memory.errors import AccessDenied, SecretScanFailed, SpecKitMemoryError
from spec_kit_memory.serve.messages import Say, for_model

__all__ = ["camel", "compact", "envelope", "error", "value"]

# System errors that can occur anywhere, even while a module is imported, so no other module handles them.
_OPEN_FILES = "Close other programs or raise the limit of open files, then try again."
_ACCESS = "Give yourself access to it, or set HOME to your own folder if it is another user's, then try again."
_SYSTEM = {
    errno.EMFILE: _OPEN_FILES,
    errno.ENFILE: _OPEN_FILES,
    errno.EACCES: _ACCESS,
    errno.EPERM: _ACCESS,
    errno.ENOSPC: "Free some disk space, then try again.",
    errno.EROFS: "The disk is read-only: mount it for writing.",
    errno.EIO: "The disk failed: look at the system's log, and copy what you can.",
}
# Limits on texts that a hostile workspace could make very long.
_LONGEST_MESSAGE = 4_000
_LONGEST_HINT = 2_000
_MOST_HINTS = 30
_LONGEST_DETAILS = 20_000
_OUTSIDE_DATA = frozenset(field.name for field in dataclasses.fields(Answer))


def envelope(answer: Answer, *, tool: str = "", characters: int | None = None, say: Say = for_model) -> dict[str, Any]:
    """The answer as sent to a caller. `characters` limits its length approximately; `say` words it for the reader.

    The field `tokens` counts the data as sent.
    """
    data = fields(answer, say, without=_OUTSIDE_DATA)
    meta = answer.meta
    summary, hints = say(answer.outcome), [say(hint) for hint in answer.advice]
    sent = compact(data)
    if characters is not None:
        left_out: Mapping[str, int] = {}
        if len(sent) > characters:
            data, left_out = fitted(data, characters=characters)
            sent = compact(data)
        summary = short(summary, _LONGEST_MESSAGE)
        hints = [short(hint, _LONGEST_HINT) for hint in hints[:_MOST_HINTS]]
        if left_out:
            what = ", ".join(f"{number:,} {name}" for name, number in list(left_out.items())[:5])
            hints.append(f"the answer was too long; left out: {what}. Ask for less, or use the command line")
    return {
        "summary": summary,
        "data": data or {},
        "hints": hints,
        "meta": {
            "tool": tool or meta.tool,
            "latencyMs": plain_number(round(meta.latency_ms, 3)),
            "tokens": count(sent),
            "cacheHit": meta.cache_hit,
            "indexGeneration": meta.index_generation,
        },
    }


def error(failure: BaseException, *, say: Say = for_model) -> dict[str, Any]:
    """{code, message, hint, ...details}; an unexpected error is E000 and never a traceback.

    Secrets are redacted, because an error repeats parts of the input.
    """
    rendered = _error(failure, say)
    if isinstance(failure, OSError):
        return rendered  # the system's own words; and if no file can be opened, `redact` cannot be imported either
    from spec_kit_memory.core import redact

    try:
        clean: dict[str, Any] = redact.redact_data(rendered, Counter())
    except SecretScanFailed as failed:
        return {"code": failed.code, "message": failed.message, "hint": joined(map(say, failed.advice))}
    return clean


def _error(failure: BaseException, say: Say) -> dict[str, Any]:
    if isinstance(failure, SpecKitMemoryError):
        details = {camel(name): value(detail, say) for name, detail in failure.details.items() if detail is not None}
        details, _ = fitted(details, characters=_LONGEST_DETAILS)
        message = short(failure.message, _LONGEST_MESSAGE)
        hint = short(joined(map(say, failure.advice)), _LONGEST_MESSAGE)
        return {"code": failure.code, "message": message, "hint": hint, **(details or {})}
    if isinstance(failure, OSError) and failure.errno in _SYSTEM:
        message, hint = f"{failure.strerror}: {failure.filename or 'the system'}", _SYSTEM[failure.errno]
        return {"code": AccessDenied.code, "message": message, "hint": hint}
    kind = type(failure).__name__
    return {
        "code": SpecKitMemoryError.code,
        "message": short(f"Unexpected {kind}: {failure}", _LONGEST_MESSAGE),
        "hint": say(advise("report-fault")),
    }
