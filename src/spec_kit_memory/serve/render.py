"""How does an answer or an error look to a caller?

One form for MCP, HTTP and `skm --json`: {summary, data, hints, meta} in camelCase.
The only place where errors are turned into what a caller sees.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from spec_kit_memory.answers import OF_ATTRIBUTES, RENAMED, Answer
from spec_kit_memory.core.bounded import fitted, short
from spec_kit_memory.core.wording import camel, json_name
from spec_kit_memory.errors import AccessDenied, SecretScanFailed, SpecKitMemoryError
from spec_kit_memory.serve.messages import Say, for_model

__all__ = ["camel", "compact", "envelope", "error", "value"]

# What the system may lack anywhere, also while a module is read: nothing that a room of ours could foresee.
_OPEN_FILES = "Close other programs or raise the limit of open files, then try again."
_SYSTEM = {
    errno.EMFILE: _OPEN_FILES,
    errno.ENFILE: _OPEN_FILES,
    errno.ENOSPC: "Free some disk space, then try again.",
    errno.EROFS: "The disk is read-only: mount it for writing.",
    errno.EIO: "The disk failed: look at the system's log, and copy what you can.",
}
SMALLEST_PLAIN = 1e-4
# What a hostile workspace can make long, and nobody asked for.
_LONGEST_MESSAGE = 4_000
_LONGEST_HINT = 2_000
_MOST_HINTS = 30
_LONGEST_DETAILS = 20_000
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_UNSAID = frozenset(("unsaid",))
_OUTSIDE_DATA = frozenset(field.name for field in dataclasses.fields(Answer))


def envelope(answer: Answer, *, tool: str = "", characters: int | None = None, say: Say = for_model) -> dict[str, Any]:
    """What a caller gets, of at most about so many characters, in its own words. `tokens` counts the data as sent."""
    from spec_kit_memory.core.tokens import count

    data = _advised(_fields(answer, without=_OUTSIDE_DATA), say)
    meta = answer.meta
    summary, hints = answer.summary, [say(hint) for hint in answer.hints]
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
            "latencyMs": _number(round(meta.latency_ms, 3)),
            "tokens": count(sent),
            "cacheHit": meta.cache_hit,
            "indexGeneration": meta.index_generation,
        },
    }


def _advised(data: dict[str, Any], say: Say) -> dict[str, Any]:
    """Advice inside the data is said to whom it is for, too."""
    for name in ("problems", "unavailable", "warnings", "bad"):
        if isinstance(found := data.get(name), list):
            data[name] = [_advice(part, say) for part in found]
    return data


def _said(part: Any, say: Say) -> Any:
    if isinstance(part, dict):
        return {name: say(value) if name == "message" else value for name, value in part.items()}
    return say(part) if isinstance(part, str) else part


def _advice(part: Any, say: Say) -> Any:
    if isinstance(part, dict):
        return {name: say(text) if name in ("hint", "message") else text for name, text in part.items()}
    return say(part) if isinstance(part, str) else part


def error(failure: BaseException, *, say: Say = for_model) -> dict[str, Any]:
    """{code, message, hint, ...details}. What nobody foresaw is E000 and never a traceback.

    An error repeats what it was about, and that may have been a secret.
    """
    told = _error(failure, say)
    if isinstance(failure, OSError):
        return told  # the system's own words; and where no file can be opened, no module can be loaded either
    from spec_kit_memory.core import redact

    try:
        clean: dict[str, Any] = redact.redact_data(told, Counter())
    except SecretScanFailed as failed:
        return {"code": failed.code, "message": failed.message, "hint": failed.hint}
    return clean


def _error(failure: BaseException, say: Say) -> dict[str, Any]:
    if isinstance(failure, SpecKitMemoryError):
        details = {camel(name): value(each) for name, each in failure.details.items() if each is not None}
        advice = str(details.pop("advice", ""))
        details, _ = fitted(details, characters=_LONGEST_DETAILS)
        message = short(say(failure.message), _LONGEST_MESSAGE)
        hint = short(say(failure.hint, advice=advice), _LONGEST_MESSAGE)
        return {"code": failure.code, "message": message, "hint": hint, **(details or {})}
    if isinstance(failure, OSError) and failure.errno in _SYSTEM:
        message, hint = f"{failure.strerror}: {failure.filename or 'the system'}", _SYSTEM[failure.errno]
        return {"code": AccessDenied.code, "message": message, "hint": hint}
    kind = type(failure).__name__
    return {
        "code": SpecKitMemoryError.code,
        "message": short(f"Unexpected {kind}: {failure}", _LONGEST_MESSAGE),
        "hint": say("Run `health()`; if that finds nothing, report this with what you did."),
    }


def value(thing: Any) -> Any:
    """Any value of the answers as JSON has it."""
    if isinstance(thing, Enum):
        return thing.value
    if thing is None or isinstance(thing, str | bool | int):
        return thing
    if isinstance(thing, float | Decimal):
        return _number(float(thing))
    if isinstance(thing, datetime):
        return thing.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(thing, date):
        return thing.isoformat()
    if isinstance(thing, Path):
        return thing.as_posix()
    if dataclasses.is_dataclass(thing):
        return _fields(thing)
    if isinstance(thing, Mapping):
        return _ordered({_key(name): value(each) for name, each in thing.items()})
    if isinstance(thing, Set):
        return sorted((value(each) for each in thing), key=str)
    if isinstance(thing, bytes | bytearray):
        return thing.hex()
    if isinstance(thing, Sequence):
        return [value(each) for each in thing]
    return str(thing)


def _number(number: float) -> float | int | None:
    """A number whose JSON is the same when JavaScript reads it and writes it again.

    Hosts compare the text of an answer with its structured content and pay for one of them only where they are equal.
    """
    if number != number or abs(number) == float("inf"):
        return None
    rounded = round(number, 6)
    if abs(rounded) < SMALLEST_PLAIN:
        rounded = round(number, 4)  # below it the two languages write exponents differently
    return int(rounded) if rounded == int(rounded) else rounded


def _ordered(mapping: dict[str, Any]) -> dict[str, Any]:
    """Keys that are whole numbers first, rising, as JavaScript keeps them."""
    numbers = sorted((name for name in mapping if _ARRAY_INDEX.fullmatch(name)), key=int)
    return {name: mapping[name] for name in (*numbers, *mapping)} if numbers else mapping


def compact(data: Any) -> str:
    """JSON as it is sent: short, readable in any script, and valid UTF-8 whatever a file held."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode("utf-8")


def _fields(thing: Any, *, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A dataclass's fields; an optional field at None or its own empty default is left out, and what goes unsaid."""
    without = without | getattr(thing, "unsaid", frozenset()) | _UNSAID
    shown = {}
    for field in dataclasses.fields(thing):
        content = getattr(thing, field.name)
        if field.name in without or content is None or (_is_optional(field) and _is_empty(content)):
            continue
        names, content = field.metadata.get("names"), value(content)
        if names == RENAMED["names"]:
            shown[json_name(field.name)] = content
        shown[camel(field.name)] = _named(content) if names == OF_ATTRIBUTES["names"] else content
    return shown


def _named(shown: Any) -> Any:
    """Names of a memory's attributes, as keys at any depth or as a list of them, as a caller gives them."""
    if isinstance(shown, dict):
        return {json_name(name): _named(part) if isinstance(part, dict) else part for name, part in shown.items()}
    return [_named(part) if isinstance(part, dict) else json_name(part) for part in shown]


def _is_optional(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _is_empty(content: Any) -> bool:
    if isinstance(content, bool | int | float | Decimal):
        return False
    if dataclasses.is_dataclass(content) and not isinstance(content, type):
        # A part that says nothing, such as "nothing was held back", is left out as a whole.
        return bool(content == type(content)())
    return isinstance(content, str | Sequence | Mapping | Set) and not content


def _key(name: Any) -> str:
    """Keys of mappings stay as they are: many are users' own words (anchors, concepts, folders)."""
    return str(name.value if isinstance(name, Enum) else name)
