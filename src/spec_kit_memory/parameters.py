"""How is a parameter declared, and how does a call become a request?

A `Request` is a frozen dataclass of a verb's parameters. Each field declares everything about one parameter, so that
the tool's schema, the command's options, the method's signature and the validation are made from one line.

Calls are read leniently (names in other spellings; for values see `parameter_values`), but every request contains only
values of its parameters' own kinds. All problems of a call are reported together, in the terms of the caller: tools
for a model, options for a person, arguments for Python (`Edge`).
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from enum import StrEnum
from typing import Any, ClassVar, Literal, Self, TypeVar, dataclass_transform

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
from spec_kit_memory.parameter_values import (
    KIND_WORDS,
    LARGEST,
    LARGEST_BUDGET,
    LEFT_OUT,
    NAME_LENGTH,
    ArgumentProblem,
    clean_value,
    from_json,
    nearest,
    shortened,
    squashed,
    texts_in,
)

Kind = Literal["text", "path", "integer", "number", "boolean", "texts", "paths", "object", "reference", "function"]
Reach = Literal["everywhere", "command", "python"]

_REQUIRED: Any = dataclasses.MISSING

_Request = TypeVar("_Request", bound="Request")


class Parameter:
    """One parameter of a request. A `default` of None means "not specified"."""

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
        self.kw_only = kw_only  # if false, it can also be passed by position, in Python and on the command line
        self.choices = choices
        self.choice_type = choice_type
        # Bounds of a number, or of the length of a list, for tools and commands; for Python callers see `_bounds`.
        self.minimum, self.maximum = minimum, maximum
        self.length = length  # most characters of a text, or of an object as JSON; for tools and commands
        self.together = together  # `length` applies to all texts of a list together, and both bounds also to Python
        self.about = about  # description in the schema, where every word costs tokens in every conversation
        self.help = help  # description for the command line and the reference pages, if `about` is not sufficient
        self.aliases = aliases  # other accepted names
        self.same_as = same_as  # the parameter for which this is an alternative name with its own bounds
        self.reach = reach  # "command": not available to tools; "python": not to commands either
        self.off = off  # the option that sets it to false
        self.environment = environment  # the environment variable that sets it on the command line
        self.completes = completes  # the kind of completions that a shell offers
        self.command_default = command_default  # the default on the command line, if different
        self.blank = blank  # an empty text is a valid value and does not count as left out
        self.identifies = identifies  # the number is an id: #18 is accepted, 018 is refused (see `memory_id`)
        self.alone = alone  # the parameter that gets the value if a single text was passed for this list
        self.plain = plain  # the key of this object under which a text that is not JSON is stored
        self.fields = fields  # tells whether an unknown parameter name is a field of this object
        self.divided = divided  # a single text is split into a list, at commas, semicolons and line ends
        self.joined = joined  # the separator with which a list of numbers is joined to this text
        self.filters = filters  # a filter, for which "all" and "any" count as left out
        self.argument = self.annotation = ""  # its name and type in Python, set by `__set_name__`

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
        """Additional option names on the command line."""
        return tuple("--" + re.sub(r"(?<=[a-z])(?=[A-Z])", "-", alias).lower() for alias in self.aliases)

    @property
    def required(self) -> bool:
        return self.default is _REQUIRED

    @property
    def shown_default(self) -> Any:
        """The default to show in documentation; None if there is none."""
        return None if self.required or self.default == () else self.default

    @property
    def shown_help(self) -> str:
        return self.help or self.about

    @property
    def is_prose(self) -> bool:
        """Is it free text, for which a command joins all its positional arguments?"""
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
    """Declare one parameter of a request. `also` are choices in addition to those of an enumeration."""
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
    return parameter("integer", default=default, least=100, most=LARGEST_BUDGET, about=about, help=words)


def rows_budget_parameter() -> Any:
    """The budget of a list. On the command line, all requested rows are shown unless a budget is given."""
    return parameter(
        "integer",
        default=4000,
        least=100,
        most=LARGEST_BUDGET,
        help="Budget of the answer",
        command_default=LARGEST_BUDGET,
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


class _LazyDataclass(type):
    """Makes each request class a dataclass at its first use: that takes 0.3 ms, and there are dozens of classes."""

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
class Request(metaclass=_LazyDataclass):
    """The parameters of one call of a verb, validated when it is created.

    A subclass without a verb is only a base from which others inherit parameters.
    """

    verb: ClassVar[str] = ""  # the method of Workspace
    command: ClassVar[str]  # its words on the command line; "" if there is none
    needs: ClassVar[tuple[str, ...]]  # at least one of these arguments is required
    without: ClassVar[type[SpecKitMemoryError]]  # the error if none of them is given
    declared: ClassVar[Mapping[str, Parameter]] = {}  # by argument name, inherited ones last

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
    """An interface through which requests arrive: which parameters it has, and what its callers call them."""

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
        lookups: tuple[str, str] = ("search({})", "get({})"),
        elsewhere: Callable[[str], Sequence[str]] = lambda name: (),
    ) -> None:
        self.name = name  # of the verb
        self.spelled = spelled
        self.usage = usage
        self.lists = lists  # `usage` lists every parameter; since that is long, it is used only if no hint is shorter
        self.reaches = reaches
        self.unknown = unknown  # the error for an unknown parameter name
        self.find, self.read_path = lookups  # calls that find a memory by its words, and by its path
        self.elsewhere = elsewhere  # what else takes a parameter of that name
        self.bounded = bounded  # are bounds enforced that suit a conversation? Not for Python callers

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
    """The request of a Python call, from the arguments of the verb or from an existing request."""
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
    """The signature, for `help` and interactive sessions, of the method that takes this request."""
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


_FEW = 2  # of so many alternatives, a hint says what kind of value each takes
# Of several problems, the first of these types determines the error: a misspelled name explains a missing one.
_WORST_FIRST = (UnexpectedArgument, BadParameter, UnknownRelation, OutOfRange)


def read(kind: type[_Request], arguments: Mapping[str, Any] | None, edge: Edge) -> _Request:
    """Make a request from the named arguments of a call at an edge."""
    values: dict[str, Any] = {}
    empty_names: set[str] = set()
    problems: list[ArgumentProblem] = []
    for name, value in _gathered(kind, arguments or {}, edge).items():
        declared = _meant(kind, name, edge)
        if declared is None:
            problems.append(_unknown(name, edge.sees(kind), edge))
            continue
        if declared.alone and not (arguments or {}).get(declared.alone) and _is_one(declared, value, edge):
            declared = kind.declared[declared.alone]
        try:
            clean = clean_value(declared, value, edge)
        except ArgumentProblem as problem:
            problems.append(problem)
            continue
        if clean is LEFT_OUT:
            if value is not None:
                empty_names.add(declared.argument)
            continue
        target = declared.same_as or declared.argument
        if target in values and values[target] != clean:
            text = f"{edge.spelled(declared)} was given twice"
            problems.append(ArgumentProblem(BadParameter, text, declared, step="Give it once."))
        values[target] = clean
    problems += _missing(kind, {*values, *(problem.argument for problem in problems)}, edge, empty_names)
    if problems:
        raise _error(problems, edge, edge.sees(kind))
    return kind(**values)


def _gathered(kind: type[Request], arguments: Mapping[str, Any], edge: Edge) -> Mapping[str, Any]:
    """The arguments, with fields of an object that were passed as separate arguments moved into the object."""
    for holder in edge.sees(kind):
        if holder.fields is None:
            continue
        loose = {name: value for name, value in arguments.items() if _is_field(kind, holder, name, edge)}
        given_name = next((name for name in arguments if _meant(kind, name, edge) is holder), holder.name)
        held = from_json(arguments[given_name]) if isinstance(arguments.get(given_name), str) else None
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
    return isinstance(value, str) and not value.lstrip().startswith("[") and len(texts_in(declared, value, edge)) == 1


def _checked(kind: type[Request], arguments: Mapping[str, Any], edge: Edge) -> dict[str, Any]:
    """Validate the values of a request that is being created; returns those that have to be replaced."""
    changed: dict[str, Any] = {}
    present: set[str] = set()
    problems: list[ArgumentProblem] = []
    for name, value in arguments.items():
        declared = kind.declared[name]
        if value is declared.default:
            continue
        try:
            clean = clean_value(declared, value, edge)
        except ArgumentProblem as problem:
            problems.append(problem)
            continue
        if clean is LEFT_OUT or declared.same_as:
            changed[name] = None if declared.required else declared.default
        if clean is not LEFT_OUT:
            changed[declared.same_as or name] = clean
            present.add(declared.same_as or name)
    problems += _missing(kind, {*present, *(problem.argument for problem in problems)}, edge)
    if problems:
        raise _error(problems, edge, edge.sees(kind))
    return changed


def _missing(
    kind: type[Request], given_names: Set[str], edge: Edge, empty_names: Set[str] = frozenset()
) -> Iterator[ArgumentProblem]:
    for name, declared in kind.declared.items():
        if declared.required and name not in given_names:
            text = f"{edge.spelled(declared)} is {'empty' if name in empty_names else 'missing'}"
            yield ArgumentProblem(
                MissingParameter, text, declared, step=f"Add {edge.spelled(declared)}{_wanted(declared)}."
            )
    if kind.needs and not given_names & set(kind.needs):
        needed = [declared for declared in edge.sees(kind) if declared.argument in kind.needs]
        names = " or ".join(edge.spelled(declared) for declared in needed)
        empty = [f"; {edge.spelled(declared)} is empty" for declared in needed if declared.argument in empty_names]
        few = len(needed) <= _FEW
        step = ", or ".join(f"{edge.spelled(declared)}{_wanted(declared)}" for declared in needed) if few else names
        yield ArgumentProblem(kind.without, f"{names} is needed{''.join(empty)}", needed[0], step=f"Add {step}.")


def _wanted(declared: Parameter) -> str:
    return f", {' or '.join(declared.choices)}" if declared.choices else f", {KIND_WORDS[declared.kind]}"


def _unknown(name: object, visible: Sequence[Parameter], edge: Edge) -> ArgumentProblem:
    names = {declared.name: declared for declared in visible} | {
        alias: declared for declared in visible for alias in declared.aliases
    }
    close = list(dict.fromkeys(edge.spelled(names[name_]) for name_ in nearest(str(name), names)))
    others = [other for other in edge.elsewhere(str(name)[:NAME_LENGTH]) if other != edge.name]
    hint = f"Did you mean {' or '.join(close)}?" if close else ""
    if others and not close:
        hint = f"{shortened(name)} is for {' or '.join(others)}."
    return ArgumentProblem(
        edge.unknown,
        f"{edge.unknown.problem} {shortened(name)}",
        None,
        hint,
        parameter=str(name)[:NAME_LENGTH],
    )


def _error(problems: Sequence[ArgumentProblem], edge: Edge, visible: Sequence[Parameter]) -> SpecKitMemoryError:
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
