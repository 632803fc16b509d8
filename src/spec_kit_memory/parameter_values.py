"""How is the value that a caller passed for a parameter parsed and checked?

Input is lenient: numbers and JSON may be text, choices may have any case, and empty values count as left out. Output
is strict: a value of the parameter's own kind, else `ArgumentProblem` is raised, worded for the caller.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence, Set
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from spec_kit_memory.core.memory import CONTEXT_ALIASES, TIERS_MEANT, ContextType, Relation, Tier
from spec_kit_memory.core.text_encoding import without_lone_surrogates
from spec_kit_memory.core.wording import close_names, counted
from spec_kit_memory.errors import BadParameter, OutOfRange, SpecKitMemoryError, UnknownRelation

if TYPE_CHECKING:
    from spec_kit_memory.parameters import Edge, Kind, Parameter

# The largest integer that both JSON and the database can hold.
LARGEST = 2**53
NAME_LENGTH = 200  # characters
LARGEST_BUDGET = 1_000_000  # tokens
LEFT_OUT: Any = object()  # returned for a value that counts as not given
_SHOWN_CHARACTERS = 60
# A name is suggested for another from this similarity on; below it, "project" would mean "prompt".
_LEAST_LIKENESS = 0.7
# Patterns are compiled at first use: most callers pass numbers as numbers.
_WHOLE = r"[+-]?\d{1,400}(?:\.0*)?"
_ID = r"[\[(]?(?:(?:memory|link)(?:\s*id)?|id)?(?:://|[\s:]\s*)?#?(\d{1,400})[\])]?"
_DECIMAL = r"[+-]?(?:\d{1,400}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?"


class ArgumentProblem(Exception):  # noqa: N818 - one of several in the error that a caller gets
    def __init__(
        self,
        error: type[SpecKitMemoryError],
        text: str,
        declared: Parameter | None,
        hint: str = "",
        *,
        step: str = "",
        **details: Any,
    ) -> None:
        self.error, self.text, self.hint = error, text, hint
        self.step = step  # what to pass instead, shown unless the hint lists all parameters
        self.argument = declared.argument if declared else ""
        self.details = {"parameter": declared.name} | details if declared else details


def squashed(name: str) -> str:
    """A name without case, hyphens, underscores and spaces, in which spellings may differ."""
    return "".join(name.replace("_", "").replace("-", "").split()).casefold()


def nearest(name: str, names: Mapping[str, object] | Sequence[str], *, most: int = 2) -> list[str]:
    """The names that may have been meant, by similarity or by a common beginning."""
    by_form = {squashed(candidate): candidate for candidate in names}
    form = squashed(name)[:NAME_LENGTH]
    close = close_names(form, by_form, most=most, cutoff=_LEAST_LIKENESS)
    within = [
        candidate
        for candidate in by_form
        if len(form) > 2 and (candidate.startswith(form) or form.startswith(candidate)) and len(candidate) > 2
    ]
    begun = [candidate for candidate in by_form if form and candidate.startswith(form)]
    within = within or (begun if len(begun) == 1 else [])  # one or two letters suffice if only one name begins so
    return [by_form[candidate] for candidate in dict.fromkeys([*close, *within])][:most]


def clean_value(declared: Parameter, value: Any, edge: Edge) -> Any:
    """The value converted to the parameter's kind, or `LEFT_OUT`."""
    if value is None:
        return LEFT_OUT
    if isinstance(value, list | tuple) and len(value) == 1 and declared.kind not in ("texts", "paths"):
        return clean_value(declared, value[0], edge)  # a list with the single value
    if isinstance(value, str) and not value.strip() and not declared.blank:
        return LEFT_OUT
    if declared.filters and isinstance(value, str) and value.strip().casefold() in ("all", "any", "*"):
        return LEFT_OUT
    return _CLEANERS[declared.kind](declared, value, edge)


def _text(declared: Parameter, value: Any, edge: Edge) -> str:
    if type(value) in (int, float) and not declared.choices:
        value = str(value)
    if declared.joined and isinstance(value, list | tuple) and all(map(_is_whole, value)):
        value = declared.joined.join(map(str, value))
    if declared.is_prose and isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        value = " ".join(value)
    if not isinstance(value, str):
        raise _wrong(declared, value, edge)
    if declared.choices:
        return _choice(declared, value, edge)
    if edge.bounded and len(value) > declared.length:
        raise _too_long(declared, len(value), edge, "Shorten it.")
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate cannot be stored, sent or searched
        raise _wrong(declared, value, edge, "a text without lone surrogates") from None
    return str(value)


def _too_long(declared: Parameter, size: int, edge: Edge, hint: str) -> ArgumentProblem:
    message = f"{edge.spelled(declared)} has {size:,} characters; at most {declared.length:,} are allowed"
    return ArgumentProblem(OutOfRange, message, declared, hint)


def _choice(declared: Parameter, value: str, edge: Edge) -> str:
    word = squashed(value.strip().strip("\"'"))
    by_form = {squashed(choice): choice for choice in declared.choices}
    if declared.choice_type is ContextType:
        by_form = CONTEXT_ALIASES | by_form
    if word not in by_form and word.endswith("s"):
        word = word[:-3] + "y" if word.endswith("ies") else word[:-1]
    if word not in by_form:
        meant = TIERS_MEANT.get(word, value) if declared.choice_type is Tier else value
        close = nearest(meant, declared.choices)
        kind = UnknownRelation if declared.choice_type is Relation else BadParameter
        if passive := _PASSIVE.get(word):
            text = f"{edge.spelled(declared)} is {shortened(value)}, and links go the other way"
            raise ArgumentProblem(kind, text, declared, f"Exchange the two memories, and call it {passive}.")
        raise ArgumentProblem(
            kind,
            f"{edge.spelled(declared)} must be {' or '.join(declared.choices)}, not {shortened(value)}",
            declared,
            f"Did you mean {' or '.join(close)}?" if close else f"Use {' or '.join(declared.choices)}.",
        )
    chosen = by_form[word]
    return declared.choice_type(chosen) if declared.choice_type and chosen in set(declared.choice_type) else chosen


def _path(declared: Parameter, value: Any, edge: Edge) -> str:
    """A path as a string. It may be invalid Unicode, as file names may be; whether it exists is checked elsewhere."""
    if not isinstance(value, str | os.PathLike) or not isinstance(plain := os.fspath(value), str):
        raise _wrong(declared, value, edge)
    if edge.bounded and len(plain) > declared.length:
        return _text(declared, plain, edge)
    return plain


def _boolean(declared: Parameter, value: Any, edge: Edge) -> bool:
    word = str(value).strip().casefold()
    if not isinstance(value, str | int) or word not in _TRUTHS:
        raise _wrong(declared, value, edge)
    return _TRUTHS[word]


def memory_id(text: str) -> int | None:
    """The id in a text: 18, #18, memory://18. Not 018, which is the beginning of a spec folder's name."""
    number = _bare_number(text)
    return int(number) if re.fullmatch(r"[1-9]\d{0,15}", number) else None


def _bare_number(value: Any) -> Any:
    """The number in a decorated id: #18, [18], memory 18, id: 18. Other values are returned unchanged."""
    if not isinstance(value, str):
        return value
    marked = re.fullmatch(_ID, value.strip(), re.IGNORECASE)
    return marked[1] if marked else value.strip()


def _whole(declared: Parameter, value: Any, edge: Edge) -> int:
    number = value
    text = _bare_number(value) if declared.identifies else value
    if isinstance(text, str) and re.fullmatch(_WHOLE, text.strip()):
        if declared.identifies and text.startswith("0") and text.strip("0"):
            text = f"{edge.spelled(declared)} is {shortened(value)}, and no id begins with 0"
            step = "Give the id without zeros, or the spec folder's whole name as the spec folder."
            raise ArgumentProblem(BadParameter, text, declared, step=step)
        number = int(text.strip().split(".")[0])
    is_whole = _is_whole(number) or (isinstance(number, float) and number.is_integer())
    if not is_whole or isinstance(number, bool):
        raise _named(declared, value, edge) if declared.identifies else _wrong(declared, value, edge)
    return int(_within(declared, int(number), edge))


def _named(declared: Parameter, value: Any, edge: Edge) -> ArgumentProblem:
    """The problem with a title or a path in place of an id, and how to get the id."""
    problem = _wrong(declared, value, edge)
    if isinstance(value, str) and re.search(r"[^\W\d_]", value):
        lookup = edge.read_path if re.search(r"[/\\]|\.\w+$", value.strip()) else edge.find
        problem.hint = f"{problem.step[:-1]}: {lookup.format(shortened(value))} shows it."
    return problem


def _number(declared: Parameter, value: Any, edge: Edge) -> float:
    number = float(value) if isinstance(value, str) and re.fullmatch(_DECIMAL, value.strip()) else value
    if not _is_real(number) or not float("-inf") < float(number) < float("inf"):
        raise _wrong(declared, value, edge)
    return float(_within(declared, number, edge))


def _is_whole(value: object) -> bool:
    if type(value) is int:
        return True
    return isinstance(value, Integral)


def _is_real(value: object) -> bool:
    if type(value) in (int, float):
        return True
    return isinstance(value, Real) and not isinstance(value, bool)


def _within(declared: Parameter, number: Any, edge: Edge) -> Any:
    least, most = _bounds(declared, edge)
    if not least <= number <= most:
        shown_least, shown_most = (f"{int(end):,}" if end == int(end) else f"{end:,}" for end in (least, most))
        raise ArgumentProblem(
            OutOfRange,
            f"{edge.spelled(declared)} is {shortened(number)}; it must be from {shown_least} to {shown_most}",
            declared,
            step=f"Give {edge.spelled(declared)} a number from {shown_least} to {shown_most}.",
            minimum=least,
            maximum=most,
        )
    return number


def _bounds(declared: Parameter, edge: Edge) -> tuple[float, float]:
    """The allowed range. For Python callers, only the range of fractions ("number") is enforced in full."""
    least = 0 if declared.minimum is None else declared.minimum
    most = LARGEST if declared.maximum is None else declared.maximum
    if declared.kind != "number" and not edge.bounded:
        return min(least, 1), LARGEST
    return least, most


def _texts(declared: Parameter, value: Any, edge: Edge) -> Any:
    items = texts_in(declared, value, edge)
    clean = [_path(declared, item, edge) if declared.kind == "paths" else _text(declared, item, edge) for item in items]
    if not clean:
        return LEFT_OUT
    least = int(declared.minimum or 0)
    most = int(declared.maximum or 100) if edge.bounded or least or declared.together else LARGEST
    if not least <= len(clean) <= most:
        raise ArgumentProblem(
            OutOfRange,
            f"{edge.spelled(declared)} has {counted(len(clean), 'item')}; it takes {least} to {most}",
            declared,
            step=f"Give {edge.spelled(declared)} {least} to {most} texts.",
        )
    if declared.together and (size := sum(map(len, clean))) > declared.length:
        raise _too_long(declared, size, edge, "Shorten them.")
    return tuple(clean)


def texts_in(declared: Parameter, value: Any, edge: Edge) -> list[Any]:
    """The items of a list, which may also be given as JSON text, as separated text or as a single item."""
    if isinstance(value, str):
        parsed = from_json(value) if value.lstrip().startswith("[") else None
        if isinstance(parsed, list):
            value = parsed
        elif declared.divided or declared.choices or (declared.minimum or 0) > 1:
            value = [part.strip() for part in re.split(r"[,;\n]", value)]
        else:
            value = [value]
    elif type(value) in (int, float) or (isinstance(value, os.PathLike) and declared.kind == "paths"):
        value = [value]
    if not isinstance(value, Sequence | Set) or isinstance(value, bytes | bytearray):
        raise _wrong(declared, value, edge)
    return [item for item in value if item is not None and not (isinstance(item, str) and not item.strip())]


def _object(declared: Parameter, value: Any, edge: Edge) -> Any:
    data = from_json(value) if isinstance(value, str) else value
    if data is None and declared.plain and not value.lstrip().startswith(("{", "[")):
        data = {declared.plain: value}
    if isinstance(value, str) and data is None:
        raise _broken_json(declared, value, edge)
    if not isinstance(data, Mapping):
        raise _wrong(declared, value, edge)
    if edge.bounded:
        size = len(json.dumps(data, ensure_ascii=False, default=str))
        if size > declared.length:
            raise _too_long(declared, size, edge, "Save it in parts.")
    return without_lone_surrogates(dict(data))


def _reference(declared: Parameter, value: Any, edge: Edge) -> int | str:
    """An id or a path."""
    if isinstance(value, str) and (number := memory_id(value)):
        return number
    if _is_whole(value):
        return _whole(declared, value, edge)
    return _path(declared, value, edge)


def _function(declared: Parameter, value: Any, edge: Edge) -> Any:
    if not callable(value):
        raise _wrong(declared, value, edge)
    return value


def from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_CLEANERS: Mapping[Kind, Callable[[Parameter, Any, Edge], Any]] = {
    "text": _text,
    "path": _path,
    "integer": _whole,
    "number": _number,
    "boolean": _boolean,
    "texts": _texts,
    "paths": _texts,
    "object": _object,
    "reference": _reference,
    "function": _function,
}
# Passive names of relations, for which the two memories have to be exchanged.
_PASSIVE: Mapping[str, str] = {
    "causedby": "caused",
    "enabledby": "enabled",
    "supersededby": "supersedes",
    "replacedby": "supersedes",
    "contradictedby": "contradicts",
    "supportedby": "supports",
}
_TRUTHS: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "no", "n", "off", "0"), False),
}
KIND_WORDS: Mapping[Kind, str] = {
    "text": "a text",
    "path": "a path",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "texts": "a list of texts",
    "paths": "a list of paths",
    "object": "an object",
    "reference": "an id or a path",
    "function": "a function",
}


def _wrong(declared: Parameter, value: object, edge: Edge, expected: str = "") -> ArgumentProblem:
    words = expected or KIND_WORDS[declared.kind]
    name = edge.spelled(declared)
    step = f"Give {name} {words}."
    return ArgumentProblem(BadParameter, f"{name} must be {words}, not {shortened(value)}", declared, step=step)


def _broken_json(declared: Parameter, text: str, edge: Edge) -> ArgumentProblem:
    """The problem with a text that should be JSON, including the position of the error."""
    name, reason = edge.spelled(declared), "it is nested too deep"
    try:
        json.loads(text)
    except ValueError as error:
        reason = str(error)
    except RecursionError:
        pass
    step = f"Give {name} {KIND_WORDS[declared.kind]} itself, or correct the JSON."
    return ArgumentProblem(
        BadParameter,
        f"{name} must be {KIND_WORDS[declared.kind]}; the text given is no JSON: {reason}",
        declared,
        step=step,
    )


def shortened(value: object) -> str:
    text = ascii(value) if not isinstance(value, str) or not value.isprintable() else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
