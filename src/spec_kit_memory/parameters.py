"""How is a parameter declared, and how is what a caller gave for it read?

A `Request` is a frozen dataclass of a verb's parameters. Each field says everything about one of them, so that the
schema of the tool, the options of the command, the signature of the method and the check are made from one line.

Lenient in: other spellings of a name, numbers and JSON as text, any case of a choice; what is empty counts as left
out. Strict out: a request that exists holds only values of its parameters' own kinds. Every problem of a call is
found before any is told, in the words of the caller: a model hears of tools, a person of options, Python of
arguments (`Edge`).
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from enum import StrEnum
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self, TypeVar, dataclass_transform

from spec_kit_memory.core.close_names import close_names
from spec_kit_memory.core.memory import CONTEXT_ALIASES, ContextType, Relation
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import (
    BadParameter,
    MissingParameter,
    NothingToSearch,
    OutOfRange,
    SpecKitMemoryError,
    UnexpectedArgument,
    UnknownRelation,
)

__all__ = [
    "NAME_LENGTH",
    "Edge",
    "Kind",
    "Parameter",
    "Request",
    "also_parameter",
    "budget_parameter",
    "folder_parameter",
    "from_call",
    "id_parameter",
    "limit_parameter",
    "memory_id",
    "nearest",
    "parameter",
    "python_edge",
    "read",
    "rows_budget_parameter",
    "session_parameter",
    "signature",
    "squashed",
]

Kind = Literal["text", "path", "integer", "number", "boolean", "texts", "paths", "object", "reference", "function"]
Reach = Literal["everywhere", "command", "python"]

NAME_LENGTH = 200
# What JSON and the database can both hold.
LARGEST = 2**53
_REQUIRED: Any = dataclasses.MISSING
_LEFT_OUT: Any = object()
_SHOWN_CHARACTERS = 60
_LARGEST_BUDGET = 1_000_000
# Patterns are compiled when first used: most callers write numbers as numbers.
_WHOLE = r"[+-]?\d{1,400}(?:\.0*)?"
_ID = r"[\[(]?(?:(?:memory|link)(?:\s*id)?|id)?(?:://|[\s:]\s*)?#?(\d{1,400})[\])]?"
_DECIMAL = r"[+-]?(?:\d{1,400}(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?"

_Request = TypeVar("_Request", bound="Request")


class Parameter:
    """One parameter. A `default` of None means that leaving it out says nothing."""

    def __init__(
        self,
        kind: Kind,
        *,
        default: Any,
        kw_only: bool = True,
        choices: tuple[str, ...] = (),
        choice_type: type[StrEnum] | None = None,
        minimum: float | None = None,
        maximum: float | None = None,
        length: int = NAME_LENGTH,
        together: bool = False,
        about: str = "",
        help: str = "",
        aliases: tuple[str, ...] = (),
        same_as: str = "",
        reach: Reach = "everywhere",
        off: str = "",
        environment: str = "",
        completes: str = "",
        blank: bool = False,
        command_default: Any = None,
        identifies: bool = False,
        alone: str = "",
        plain: str = "",
        fields: Callable[[str], bool] | None = None,
        divided: bool = False,
        filters: bool = False,
        joined: str = "",
    ) -> None:
        self.kind = kind
        self.default = default
        self.kw_only = kw_only  # else also by its position, in Python and on the command line
        self.choices = choices
        self.choice_type = choice_type
        # Of a number; of a list how many. For tools and commands: Python callers may ask for more (see `_bounds`).
        self.minimum, self.maximum = minimum, maximum
        self.length = length  # characters of a text, or of an object as JSON; for tools and commands
        self.together = together  # the length is of all texts of a list, and both bounds hold in Python too
        self.about = about  # for the schema, where every word costs tokens in every conversation
        self.help = help  # for the command line and the reference pages, where `about` is not enough
        self.aliases = aliases  # other names for it, at every edge
        self.same_as = same_as  # this one is only another name, with bounds of its own, for that one
        self.reach = reach  # "command": no tool takes it; "python": no command either
        self.off = off  # another option that says no
        self.environment = environment  # the variable that gives it on the command line
        self.completes = completes  # what a shell offers for it
        self.command_default = command_default  # what leaving it out means on the command line, if not the same
        self.blank = blank  # an empty text is one, and not as if left out
        self.identifies = identifies  # a number that is a name: #18 is one, 018 is none (see `memory_id`)
        self.alone = alone  # where one plain text, too few for this list, belongs
        self.plain = plain  # the key of an object that a text which is no JSON is meant for
        self.fields = fields  # is a name that no parameter has that of a field of this object?
        self.divided = divided  # one text is a list with commas between its items
        self.joined = joined  # what a list of numbers for this text is joined with
        self.filters = filters  # "all" and "any" filter nothing
        self.argument = self.annotation = ""  # its name and type in Python, from where it stands

    def __set_name__(self, owner: type, name: str) -> None:
        self.argument, self.annotation = name, owner.__annotations__.get(name, "")

    @property
    def name(self) -> str:
        """Its name in JSON."""
        head, *rest = self.argument.rstrip("_").split("_")
        return head + "".join(part.capitalize() for part in rest)

    @property
    def flag(self) -> str:
        return "--" + self.argument.rstrip("_").replace("_", "-")

    @property
    def flags(self) -> tuple[str, ...]:
        """More names on the command line."""
        return tuple("--" + re.sub(r"(?<=[a-z])(?=[A-Z])", "-", alias).lower() for alias in self.aliases)

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def shown_default(self) -> Any:
        """The default that is worth telling; None if there is none."""
        return None if self.required or self.default == () else self.default

    @property
    def shown_help(self) -> str:
        return self.help or self.about

    @property
    def is_prose(self) -> bool:
        """A sentence, for which a command takes all the words it is given."""
        return self.kind == "text" and not self.choices and not self.kw_only and self.length > 10 * NAME_LENGTH


def parameter(
    kind: Kind,
    *,
    default: Any = _REQUIRED,
    kw_only: bool = True,
    choices: type[StrEnum] | tuple[str, ...] = (),
    also: tuple[str, ...] = (),
    least: float | None = None,
    most: float | None = None,
    **more: Any,
) -> Any:
    """Declare one parameter of a request. `also` are choices beside those of an enumeration."""
    kinds = None if isinstance(choices, tuple) else choices
    values = (*also, *choices) if isinstance(choices, tuple) else (*also, *(choice.value for choice in choices))
    return Parameter(
        kind,
        default=default,
        kw_only=kw_only,
        choices=values,
        choice_type=kinds,
        minimum=least,
        maximum=most,
        **more,
    )


def id_parameter(about: str = "Memory id", *, default: Any = _REQUIRED, kw_only: bool = False, **more: Any) -> Any:
    return parameter(
        "integer", default=default, kw_only=kw_only, about=about, least=1, most=LARGEST, identifies=True, **more
    )


def folder_parameter(about: str = "Spec folder, e.g. 007-auth", *, default: Any = None) -> Any:
    return parameter("text", default=default, about=about, aliases=("folder",), completes="spec folders")


def session_parameter(about: str = "Your session", *, default: Any = None) -> Any:
    return parameter("text", default=default, about=about, environment="SPEC_KIT_MEMORY_SESSION_ID")


def limit_parameter(*, default: int, most: int = 100) -> Any:
    return parameter("integer", default=default, least=1, most=most, help="How many at most")


def budget_parameter(about: str = "", *, default: int | None) -> Any:
    words = about or "Budget of the answer"
    return parameter("integer", default=default, least=100, most=_LARGEST_BUDGET, about=about, help=words)


def rows_budget_parameter() -> Any:
    """Of a list: on the command line as many rows are shown as were asked for, unless a budget is given."""
    return parameter(
        "integer",
        default=4000,
        least=100,
        most=_LARGEST_BUDGET,
        help="Budget of the answer",
        command_default=_LARGEST_BUDGET,
    )


def also_parameter() -> Any:
    return parameter(
        "texts",
        default=(),
        about='As the note may put it: ["likely keywords", "another phrasing", "a sentence it may contain"]',
        help="The same in other words: likely keywords, another phrasing, a sentence as the note might say it",
        most=6,
        length=10_000,
        together=True,
    )


class _MadeWhenUsed(type):
    """Making a dataclass takes a third of a millisecond and there are dozens: one is made when it is first used."""

    def __getattr__(cls, name: str) -> Any:
        if name == "__dataclass_fields__" and vars(cls).get("verb"):
            return vars(_made(cls))[name]
        raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")


_being_made = threading.RLock()  # threads of a server may use a class for the first time at the same moment


def _made(cls: type) -> type:
    with _being_made:
        if vars(cls).get("__init__") is Request.__init__:
            del cls.__init__  # type: ignore[misc]
            declared: Mapping[str, Parameter] = vars(cls)["declared"]
            cls.__annotations__ = {name: parameter_.annotation for name, parameter_ in declared.items()}
            for name, parameter_ in declared.items():
                setattr(cls, name, dataclasses.field(default=parameter_.default, kw_only=parameter_.kw_only))
            dataclasses.dataclass(frozen=True)(cls)
    return cls


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(
        parameter,
        id_parameter,
        folder_parameter,
        session_parameter,
        limit_parameter,
        budget_parameter,
    ),
)
class Request(metaclass=_MadeWhenUsed):
    """What a verb was asked. One that exists has been checked.

    A class without a verb is no request, but may have parameters for several to inherit.
    """

    verb: ClassVar[str] = ""  # the method of Workspace
    command: ClassVar[str]  # its words on the command line; "" if there is none
    needs: ClassVar[tuple[str, ...]]  # at least one of these arguments
    without: ClassVar[type[SpecKitMemoryError]]  # the error where there is none of them
    declared: ClassVar[Mapping[str, Parameter]] = {}  # by argument, inherited ones last

    def __init_subclass__(
        cls,
        *,
        verb: str = "",
        command: str | None = None,
        needs: tuple[str, ...] = (),
        without: type[SpecKitMemoryError] = MissingParameter,
    ) -> None:
        inherited = cls.declared
        cls.verb, cls.command = verb, verb.replace("_", " ") if command is None else command
        cls.needs, cls.without = needs, without
        cls.declared = {name: value for name, value in vars(cls).items() if isinstance(value, Parameter)}
        cls.declared = {**cls.declared, **{name: inherited[name] for name in inherited if name not in cls.declared}}
        cls.__init__ = Request.__init__  # type: ignore[method-assign]

    def __init__(self, *values: Any, **keywords: Any) -> None:
        _made(type(self))
        type(self).__init__(self, *values, **keywords)

    def __post_init__(self) -> None:
        for name, value in _checked(type(self), vars(self), python_edge(type(self))).items():
            object.__setattr__(self, name, value)

    def replace(self, **changes: Any) -> Self:
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


# --- edges ------------------------------------------------------------------------------


class Edge:
    """Where a request comes in: which parameters there are, and how its callers call them."""

    def __init__(
        self,
        name: str,
        spelled: Callable[[Parameter], str],
        usage: Callable[[Sequence[Parameter]], str],
        reaches: tuple[Reach, ...] = ("everywhere",),
        *,
        unknown: type[BadParameter] = BadParameter,
        bounded: bool = True,
        lists: bool = True,
    ) -> None:
        self.name = name  # of the verb
        self.spelled = spelled
        self.usage = usage
        self.lists = lists  # `usage` lists every parameter, which is long: a hint only where nothing shorter helps
        self.reaches = reaches
        self.unknown = unknown  # the error for a name that no parameter has
        self.bounded = bounded  # by what suits a conversation; a Python caller may ask for all there is

    def sees(self, kind: type[Request]) -> list[Parameter]:
        return [declared for declared in kind.declared.values() if declared.reach in self.reaches]


def python_edge(kind: type[Request]) -> Edge:
    return Edge(
        kind.verb,
        lambda declared: declared.argument,
        lambda visible: f"{kind.verb} takes {', '.join(declared.argument for declared in visible) or 'nothing'}.",
        ("everywhere", "command", "python"),
        unknown=UnexpectedArgument,
        bounded=False,
    )


def from_call(kind: type[_Request], values: Sequence[Any], keywords: Mapping[str, Any]) -> _Request:
    """The request of a Python call: the arguments of the verb, or a request that was read before."""
    if len(values) == 1 and not keywords and isinstance(values[0], kind):
        return values[0]
    places = [name for name, declared in kind.declared.items() if not declared.kw_only]
    if len(values) > len(places):
        expected = counted(len(places), "positional argument")
        raise TypeError(f"{kind.verb}() takes {expected} but {len(values)} were given")
    arguments = dict(zip(places, values, strict=False))
    if twice := arguments.keys() & keywords.keys():
        raise TypeError(f"{kind.verb}() got multiple values for argument {min(twice)!r}")
    return read(kind, arguments | dict(keywords), python_edge(kind))


def signature(kind: type[Request], returns: str) -> inspect.Signature:
    """What `help` and an interactive session show of the method that takes such a request."""
    keyword, place = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    own = [inspect.Parameter("self", place)]
    for name, declared in kind.declared.items():
        default = inspect.Parameter.empty if declared.required else declared.default
        own.append(
            inspect.Parameter(
                name, keyword if declared.kw_only else place, default=default, annotation=declared.annotation
            )
        )
    return inspect.Signature(own, return_annotation=returns)


# --- reading ------------------------------------------------------------------------------


class _Problem(Exception):  # noqa: N818 - one of several in the error that a caller gets
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
        self.step = step  # what to give instead, for whoever is not sent to a page of all options
        self.argument = declared.argument if declared else ""
        self.details = {"parameter": declared.name} | details if declared else details


# A misspelled name explains why another one is missing, so it is what the error is about.
_WORST_FIRST = (UnexpectedArgument, BadParameter, UnknownRelation, OutOfRange)


def read(kind: type[_Request], arguments: Mapping[str, Any] | None, edge: Edge) -> _Request:
    """The request that arguments by name mean at an edge."""
    values: dict[str, Any] = {}
    problems: list[_Problem] = []
    for name, value in _gathered(kind, arguments or {}, edge).items():
        declared = _meant(kind, name, edge)
        if declared is None:
            problems.append(_unknown(name, edge.sees(kind), edge))
            continue
        if declared.alone and declared.alone not in (arguments or {}) and _is_one(declared, value, edge):
            declared = kind.declared[declared.alone]
        try:
            clean = _clean(declared, value, edge)
        except _Problem as problem:
            problems.append(problem)
            continue
        if clean is _LEFT_OUT:
            continue
        target = declared.same_as or declared.argument
        if target in values and values[target] != clean:
            text = f"{edge.spelled(declared)} was given twice"
            problems.append(_Problem(BadParameter, text, declared, step="Give it once."))
        values[target] = clean
    problems += _missing(kind, {*values, *(problem.argument for problem in problems)}, edge)
    if problems:
        raise _error(problems, edge, edge.sees(kind))
    return kind(**values)


def _gathered(kind: type[Request], arguments: Mapping[str, Any], edge: Edge) -> Mapping[str, Any]:
    """Fields of an object that were given beside it, or in place of it, as what they are."""
    for holder in edge.sees(kind):
        if holder.fields is None:
            continue
        loose = {name: value for name, value in arguments.items() if _is_field(kind, holder, name, edge)}
        given_name = next((name for name in arguments if _meant(kind, name, edge) is holder), holder.name)
        held = _from_json(arguments[given_name]) if isinstance(arguments.get(given_name), str) else None
        held = held if held is not None else arguments.get(given_name)
        if loose and (held is None or isinstance(held, Mapping)) and not loose.keys() & (held or {}).keys():
            others = {name: value for name, value in arguments.items() if name not in loose and name != given_name}
            return {**others, given_name: {**(held or {}), **loose}}
    return arguments


def _is_field(kind: type[Request], holder: Parameter, name: str, edge: Edge) -> bool:
    return _meant(kind, name, edge) is None and holder.fields is not None and holder.fields(str(name))


def _meant(kind: type[Request], name: object, edge: Edge) -> Parameter | None:
    declared = kind.declared.get(str(name))
    if declared is None:
        visible, form = edge.sees(kind), squashed(str(name))
        close = (declared for declared in visible if form == squashed(declared.argument))
        other = (declared for declared in visible if form in map(squashed, declared.aliases))
        declared = next(close, None) or next(other, None)
    return declared if declared is not None and declared.reach in edge.reaches else None


def _is_one(declared: Parameter, value: Any, edge: Edge) -> bool:
    return isinstance(value, str) and not value.lstrip().startswith("[") and len(_items(declared, value, edge)) == 1


def _checked(kind: type[Request], arguments: Mapping[str, Any], edge: Edge) -> dict[str, Any]:
    """The same for a request that is being made: those of its values that shall be others."""
    changed: dict[str, Any] = {}
    present: set[str] = set()
    problems: list[_Problem] = []
    for name, value in arguments.items():
        declared = kind.declared[name]
        if value is declared.default:
            continue
        try:
            clean = _clean(declared, value, edge)
        except _Problem as problem:
            problems.append(problem)
            continue
        if clean is _LEFT_OUT or declared.same_as:
            changed[name] = None if declared.required else declared.default
        if clean is not _LEFT_OUT:
            changed[declared.same_as or name] = clean
            present.add(declared.same_as or name)
    problems += _missing(kind, {*present, *(problem.argument for problem in problems)}, edge)
    if problems:
        raise _error(problems, edge, edge.sees(kind))
    return changed


def _missing(kind: type[Request], given_names: Set[str], edge: Edge) -> Iterator[_Problem]:
    for name, declared in kind.declared.items():
        if declared.required and name not in given_names:
            text = f"{edge.spelled(declared)} is missing"
            yield _Problem(MissingParameter, text, declared, step=f"Add {edge.spelled(declared)}{_wanted(declared)}.")
    if kind.needs and not given_names & set(kind.needs):
        needed = [declared for declared in edge.sees(kind) if declared.argument in kind.needs]
        names = " or ".join(edge.spelled(declared) for declared in needed)
        yield _Problem(kind.without, f"{names} is needed", needed[0], step=f"Add {names}.")


def _wanted(declared: Parameter) -> str:
    return f", {' or '.join(declared.choices)}" if declared.choices else f", {_WORDS[declared.kind]}"


def _unknown(name: object, visible: Sequence[Parameter], edge: Edge) -> _Problem:
    names = {declared.name: declared for declared in visible} | {
        alias: declared for declared in visible for alias in declared.aliases
    }
    close = list(dict.fromkeys(edge.spelled(names[name_]) for name_ in nearest(str(name), names)))
    return _Problem(
        edge.unknown,
        f"{edge.unknown.problem} {_short(name)}",
        None,
        f"Did you mean {' or '.join(close)}?" if close else "",
        parameter=str(name)[:NAME_LENGTH],
    )


def _error(problems: Sequence[_Problem], edge: Edge, visible: Sequence[Parameter]) -> SpecKitMemoryError:
    ranks = {kind: rank for rank, kind in enumerate(_WORST_FIRST)}
    worst = min(problems, key=lambda problem: ranks.get(problem.error, len(ranks)))
    hints = dict.fromkeys(problem.hint for problem in problems if problem.hint)
    steps = dict.fromkeys(problem.step for problem in problems if problem.step and not problem.hint)
    is_missing = any(issubclass(problem.error, MissingParameter | NothingToSearch) for problem in problems)
    is_enough = edge.lists and (is_missing or all(problem.hint or problem.step for problem in problems))
    details = dict(worst.details)
    if len(problems) > 1:
        details["problems"] = [problem.text for problem in problems]
    return worst.error(
        f"{edge.name}: {'; '.join(problem.text for problem in problems)}.",
        hint=" ".join([*hints, *(steps if is_enough else [edge.usage(visible)])]),
        **details,
    )


# --- values ------------------------------------------------------------------------------


def squashed(name: str) -> str:
    """A name without what spellings differ in: case, hyphens, underscores, spaces."""
    return "".join(name.replace("_", "").replace("-", "").split()).casefold()


def nearest(name: str, names: Mapping[str, object] | Sequence[str], *, most: int = 2) -> list[str]:
    """Which of these may have been meant?"""
    by_form = {squashed(candidate): candidate for candidate in names}
    form = squashed(name)[:NAME_LENGTH]
    close = close_names(form, by_form, most=most)
    within = [
        candidate
        for candidate in by_form
        if len(form) > 2 and (candidate.startswith(form) or form.startswith(candidate)) and len(candidate) > 2
    ]
    begun = [candidate for candidate in by_form if form and candidate.startswith(form)]
    within = within or (begun if len(begun) == 1 else [])  # a letter or two tell little, unless one name begins so
    return [by_form[candidate] for candidate in dict.fromkeys([*close, *within])][:most]


def _clean(declared: Parameter, value: Any, edge: Edge) -> Any:
    """The value as the parameter has it, or `_LEFT_OUT`."""
    if value is None:
        return _LEFT_OUT
    if isinstance(value, list | tuple) and len(value) == 1 and declared.kind not in ("texts", "paths"):
        return _clean(declared, value[0], edge)  # a list of the one value that is wanted
    if isinstance(value, str) and not value.strip() and not declared.blank:
        return _LEFT_OUT
    if declared.filters and isinstance(value, str) and value.strip().casefold() in ("all", "any", "*"):
        return _LEFT_OUT
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
    except UnicodeEncodeError:  # half of a pair cannot be stored, sent or found
        raise _wrong(declared, value, edge, "a text without lone surrogates") from None
    return str(value)


def _too_long(declared: Parameter, size: int, edge: Edge, hint: str) -> _Problem:
    message = f"{edge.spelled(declared)} has {size:,} characters; at most {declared.length:,} are allowed"
    return _Problem(OutOfRange, message, declared, hint)


def _choice(declared: Parameter, value: str, edge: Edge) -> str:
    word = squashed(value.strip().strip("\"'"))
    by_form = {squashed(choice): choice for choice in declared.choices}
    if declared.choice_type is ContextType:
        by_form = CONTEXT_ALIASES | by_form
    if word not in by_form and word.endswith("s"):
        word = word[:-3] + "y" if word.endswith("ies") else word[:-1]
    if word not in by_form:
        close = nearest(value, declared.choices)
        kind = UnknownRelation if declared.choice_type is Relation else BadParameter
        if passive := _PASSIVE.get(word):
            text = f"{edge.spelled(declared)} is {_short(value)}, and links go the other way"
            raise _Problem(kind, text, declared, f"Exchange the two memories, and call it {passive}.")
        raise _Problem(
            kind,
            f"{edge.spelled(declared)} must be {' or '.join(declared.choices)}, not {_short(value)}",
            declared,
            f"Did you mean {' or '.join(close)}?" if close else f"Use {' or '.join(declared.choices)}.",
        )
    chosen = by_form[word]
    return declared.choice_type(chosen) if declared.choice_type and chosen in set(declared.choice_type) else chosen


def _path(declared: Parameter, value: Any, edge: Edge) -> str:
    """A file may have a name that is no Unicode; what looks for it says whether it is there."""
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
    """The id that a text means: 18, #18, memory://18. 018 begins a spec folder's name, and is no memory's id."""
    number = _bare_number(text)
    return int(number) if re.fullmatch(r"[1-9]\d{0,15}", number) else None


def _bare_number(value: Any) -> Any:
    """An id without what we and others write around it: #18, [18], memory 18, id: 18."""
    if not isinstance(value, str):
        return value
    marked = re.fullmatch(_ID, value.strip(), re.IGNORECASE)
    return marked[1] if marked else value.strip()


def _whole(declared: Parameter, value: Any, edge: Edge) -> int:
    number = value
    text = _bare_number(value) if declared.identifies else value
    if isinstance(text, str) and re.fullmatch(_WHOLE, text.strip()):
        if declared.identifies and text.startswith("0") and text.strip("0"):
            text = f"{edge.spelled(declared)} is {_short(value)}, and no id begins with 0"
            step = "Give the id without zeros, or the spec folder's whole name as the spec folder."
            raise _Problem(BadParameter, text, declared, step=step)
        number = int(text.strip().split(".")[0])
    is_whole = _is_whole(number) or (isinstance(number, float) and number.is_integer())
    if not is_whole or isinstance(number, bool):
        raise _wrong(declared, value, edge)
    return int(_within(declared, int(number), edge))


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
        raise _Problem(
            OutOfRange,
            f"{edge.spelled(declared)} is {_short(number)}; it must be from {shown_least} to {shown_most}",
            declared,
            step=f"Give {edge.spelled(declared)} a number from {shown_least} to {shown_most}.",
            minimum=least,
            maximum=most,
        )
    return number


def _bounds(declared: Parameter, edge: Edge) -> tuple[float, float]:
    """A share is a share everywhere; how much of something is a caller's own business in Python."""
    least = 0 if declared.minimum is None else declared.minimum
    most = LARGEST if declared.maximum is None else declared.maximum
    if declared.kind != "number" and not edge.bounded:
        return min(least, 1), LARGEST
    return least, most


def _texts(declared: Parameter, value: Any, edge: Edge) -> Any:
    items = _items(declared, value, edge)
    clean = [_path(declared, item, edge) if declared.kind == "paths" else _text(declared, item, edge) for item in items]
    if not clean:
        return _LEFT_OUT
    least = int(declared.minimum or 0)
    most = int(declared.maximum or 100) if edge.bounded or least or declared.together else LARGEST
    if not least <= len(clean) <= most:
        raise _Problem(
            OutOfRange,
            f"{edge.spelled(declared)} has {counted(len(clean), 'item')}; it takes {least} to {most}",
            declared,
            step=f"Give {edge.spelled(declared)} {least} to {most} texts.",
        )
    if declared.together and (size := sum(map(len, clean))) > declared.length:
        raise _too_long(declared, size, edge, "Shorten them.")
    return tuple(clean)


def _items(declared: Parameter, value: Any, edge: Edge) -> list[Any]:
    """What is in a list; a list may come as JSON text, and a lone text is a list of one."""
    if isinstance(value, str):
        parsed = _from_json(value) if value.lstrip().startswith("[") else None
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
    data = _from_json(value) if isinstance(value, str) else value
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
    return dict(data)


def _reference(declared: Parameter, value: Any, edge: Edge) -> int | str:
    """An id, or a path."""
    if isinstance(value, str) and (number := memory_id(value)):
        return number
    if _is_whole(value):
        return _whole(declared, value, edge)
    return _path(declared, value, edge)


def _function(declared: Parameter, value: Any, edge: Edge) -> Any:
    if not callable(value):
        raise _wrong(declared, value, edge)
    return value


def _from_json(text: str) -> Any:
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
# What reads the other way round in a link.
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
_WORDS: Mapping[Kind, str] = {
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


def _wrong(declared: Parameter, value: object, edge: Edge, expected: str = "") -> _Problem:
    words = expected or _WORDS[declared.kind]
    name = edge.spelled(declared)
    step = f"Give {name} {words}."
    return _Problem(BadParameter, f"{name} must be {words}, not {_short(value)}", declared, step=step)


def _broken_json(declared: Parameter, text: str, edge: Edge) -> _Problem:
    """Where a text that was meant to be JSON stops being it."""
    name, reason = edge.spelled(declared), "it is nested too deep"
    try:
        json.loads(text)
    except ValueError as error:
        reason = str(error)
    except RecursionError:
        pass
    step = f"Give {name} {_WORDS[declared.kind]} itself, or correct the JSON."
    return _Problem(
        BadParameter,
        f"{name} must be {_WORDS[declared.kind]}; the text given is no JSON: {reason}",
        declared,
        step=step,
    )


def _short(value: object) -> str:
    text = ascii(value) if not isinstance(value, str) or not value.isprintable() else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
