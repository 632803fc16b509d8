"""The table of tools: what it says, what it costs, and that arguments are read as it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.parameters import Parameter, Request
from spec_kit_memory.requests import GetRequest, SearchRequest
from spec_kit_memory.serve.tools import BY_COMMAND, BY_NAME, TOOLS, Tool, behaviour, input_schema, read_arguments

NAMES = [
    "memory_search",
    "memory_context",
    "memory_load",
    "memory_get",
    "memory_match_triggers",
    "memory_save",
    "memory_list",
    "memory_update",
    "memory_delete",
    "memory_validate",
    "memory_stats",
    "memory_health",
    "memory_index_scan",
    "memory_history",
    "memory_causal_link",
    "memory_causal_unlink",
    "memory_drift_why",
    "checkpoint_create",
    "checkpoint_list",
    "checkpoint_restore",
    "checkpoint_delete",
]

DEFAULTS: dict[str, dict[str, Any]] = {
    "memory_search": {
        "source": "all",
        "includeArchived": False,
        "limit": 10,
        "minScore": 0.0,
        "groupBy": "memory",
        "includeContent": False,
        "includeConstitutional": True,
        "includeContiguity": False,
        "useDecay": True,
        "dedup": True,
        "explain": False,
    },
    "memory_context": {"maxTokens": 1500},
    "memory_load": {"maxTokens": 10_000},
    "memory_match_triggers": {"limit": 3, "includeCognitive": True},
    "memory_list": {"limit": 20, "sortBy": "created_at"},
    "memory_delete": {"deleteFile": False},
    "memory_health": {"repair": False},
    "memory_drift_why": {"maxDepth": 3, "direction": "both"},
}


def example(parameter: Parameter) -> Any:
    if parameter.choices:
        return [parameter.choices[0]] if parameter.kind == "texts" else parameter.choices[0]
    least = int(parameter.minimum or 1)
    return {
        "text": "x",
        "path": "x",
        "integer": least,
        "number": 0.5,
        "boolean": True,
        "texts": ["x"] * max(1, least),
        "object": {"sessionSummary": "x"},
    }[parameter.kind]


def enough(tool: Tool) -> dict[str, Any]:
    """The least that the tool takes."""
    first = [p for p in tool.parameters if p.argument in tool.request.needs][:1]
    return {p.name: example(p) for p in [*(p for p in tool.parameters if p.required), *first]}


def named(tool: Tool, name: str) -> Parameter:
    return next(p for p in tool.parameters if p.name == name)


def value_of(request: Request, parameter: Parameter) -> Any:
    result = getattr(request, parameter.same_as or parameter.argument)
    return list(result) if isinstance(result, tuple) else result


def refused(tool: Tool, arguments: Any) -> SpecKitMemoryError:
    with pytest.raises(SpecKitMemoryError) as caught:
        read_arguments(tool, arguments)
    return caught.value


PARAMETERS = [pytest.param(tool, p, id=f"{tool.name}.{p.name}") for tool in TOOLS for p in tool.parameters]


def test_the_tools_are_those_promised_in_a_stable_order() -> None:
    assert [tool.name for tool in TOOLS] == NAMES
    assert len(BY_COMMAND) == len(BY_NAME) == len(TOOLS)


def test_the_lean_set_is_what_an_agent_needs_daily() -> None:
    lean = {tool.name for tool in TOOLS if tool.lean}
    assert lean == {
        "memory_context",
        "memory_search",
        "memory_load",
        "memory_save",
        "memory_match_triggers",
        "memory_validate",
    }


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_those_promised(name: str) -> None:
    messages = {p.name: p.shown_default for p in BY_NAME[name].parameters if p.shown_default is not None}
    assert DEFAULTS[name].items() <= messages.items()


def test_what_destroys_says_so_and_what_reads_says_so() -> None:
    assert {t.name for t in TOOLS if behaviour(t)["destructiveHint"]} == {
        "memory_delete",
        "memory_causal_unlink",
        "checkpoint_restore",
        "checkpoint_delete",
    }
    assert not any(behaviour(t)["openWorldHint"] for t in TOOLS)
    assert all(not (t.reads and t.destroys) for t in TOOLS)
    assert behaviour(BY_NAME["memory_search"])["readOnlyHint"]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_schema_is_flat_and_valid(tool: Tool) -> None:
    import jsonschema  # type: ignore[import-untyped]

    schema = input_schema(tool)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema) <= {"type", "properties", "required"}
    assert not {"anyOf", "oneOf", "$ref", "$defs"} & set(json.dumps(schema).split('"'))
    for p in tool.parameters:
        if p.shown_default is not None:
            jsonschema.validate(p.shown_default, schema["properties"][p.name])


def test_recall_before_answering_is_what_search_tells_an_agent() -> None:
    about = BY_NAME["memory_search"].about
    for word in ("before answering", "prior work", "dates", "people", "decisions"):
        assert word in about


# --- reading


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_least_is_enough_and_defaults_are_filled_in(tool: Tool) -> None:
    read = read_arguments(tool, enough(tool))
    for p in tool.parameters:
        if p.shown_default is not None:
            assert value_of(read, p) == enough(tool).get(p.name, p.shown_default)


@pytest.mark.parametrize(("tool", "parameter"), PARAMETERS)
def test_every_spelling_of_a_name_is_accepted(tool: Tool, parameter: Parameter) -> None:
    others = {k: v for k, v in enough(tool).items() if k != parameter.name}
    value, name = example(parameter), parameter.name
    spellings = [name, parameter.argument, name.upper(), parameter.flag[2:], name[0].upper() + name[1:]]
    for spelling in [*spellings, *parameter.aliases]:
        assert value_of(read_arguments(tool, {**others, spelling: value}), parameter) == value, spelling


@pytest.mark.parametrize(("tool", "parameter"), PARAMETERS)
def test_an_ill_typed_value_names_its_parameter(tool: Tool, parameter: Parameter) -> None:
    wrong: Any = {"path": 7, "boolean": "maybe", "object": 7}.get(parameter.kind, {"a": 1})
    error = refused(tool, {**enough(tool), parameter.name: wrong})
    assert error.code == "E030"
    assert repr(parameter.name) in error.message


@pytest.mark.parametrize(("tool", "parameter"), [p for p in PARAMETERS if p.values[1].minimum is not None])  # type: ignore[union-attr]
def test_a_value_out_of_range_names_the_range(tool: Tool, parameter: Parameter) -> None:
    low: Any = ["x"] * (int(parameter.minimum or 0) - 1) if parameter.kind == "texts" else (parameter.minimum or 0) - 1
    high: Any = ["x"] * (int(parameter.maximum or 0) + 1) if parameter.kind == "texts" else (parameter.maximum or 0) + 1
    for value in (low, high):
        error = refused(tool, {**enough(tool), parameter.name: value})
        assert (error.code, repr(parameter.name) in error.message) == ("E032", True)


@pytest.mark.parametrize(("tool", "parameter"), [p for p in PARAMETERS if p.values[1].kind == "text"])  # type: ignore[union-attr]
def test_a_text_over_its_limit_is_refused(tool: Tool, parameter: Parameter) -> None:
    error = refused(tool, {**enough(tool), parameter.name: "x" * (parameter.length + 1)})
    assert error.code == ("E102" if parameter.name == "relation" else "E030" if parameter.choices else "E032")


@pytest.mark.parametrize(
    ("tool", "name", "length"),
    [
        ("memory_search", "query", 10_000),
        ("memory_match_triggers", "prompt", 10_000),
        ("memory_context", "prompt", 10_000),
        ("memory_get", "path", 500),
        ("memory_save", "filePath", 500),
        ("memory_update", "title", 500),
        ("memory_search", "specFolder", 200),
        ("checkpoint_create", "name", 200),
    ],
)
def test_the_promised_input_limits_hold(tool: str, name: str, length: int) -> None:
    assert named(BY_NAME[tool], name).length == length
    read_arguments(BY_NAME[tool], {**enough(BY_NAME[tool]), name: "x" * length})


@pytest.mark.parametrize("tool", [t for t in TOOLS if enough(t)], ids=lambda tool: tool.name)
def test_nothing_at_all_says_what_is_missing(tool: Tool) -> None:
    error = refused(tool, None)
    assert error.code == ("E040" if tool.name == "memory_search" else "E031")
    assert all(repr(name) in error.message for name in enough(tool))
    assert error.hint


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_an_unknown_parameter_is_named_with_close_ones(tool: Tool) -> None:
    error = refused(tool, {**enough(tool), "colour": 1})
    assert (error.code, "'colour'" in error.message) == ("E030", True)
    if tool.parameters:
        typo = tool.parameters[0].name + "s"
        if typo not in [p.name for p in tool.parameters]:
            assert tool.parameters[0].name in refused(tool, {typo: "x"}).hint


def test_max_results_is_limit_with_its_own_range() -> None:
    search = BY_NAME["memory_search"]
    assert read_arguments(search, {"query": "x", "maxResults": 5}) == SearchRequest("x", limit=5)
    assert read_arguments(search, {"query": "x", "maxResults": 5, "limit": 5}) == SearchRequest("x", limit=5)
    assert refused(search, {"query": "x", "maxResults": 21}).code == "E032"
    assert refused(search, {"query": "x", "maxResults": 5, "limit": 6}).code == "E030"


def test_an_unknown_relation_has_its_own_code() -> None:
    error = refused(BY_NAME["memory_causal_link"], {"sourceId": 1, "targetId": 2, "relation": "likes"})
    assert (error.code, "supersedes" in error.hint) == ("E102", True)


def test_half_a_character_is_refused() -> None:
    assert refused(BY_NAME["memory_search"], {"query": "a\ud800"}).code == "E030"


def test_from_is_passed_under_a_name_that_python_allows() -> None:
    assert read_arguments(BY_NAME["memory_get"], {"path": "x", "from": 3, "count": 2}) == GetRequest(
        "x", from_=3, count=2
    )


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_what_only_python_or_a_person_may_say_no_tool_takes(tool: Tool) -> None:
    hidden = [p for p in tool.request.declared.values() if p not in tool.parameters]
    for p in hidden:
        for spelling in (p.name, p.argument, *p.aliases):
            assert refused(tool, {**enough(tool), spelling: True}).code == "E030"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_any_arguments_are_read_or_refused_with_a_code_and_a_hint(data: st.DataObject) -> None:
    tool = data.draw(st.sampled_from(TOOLS))
    names = st.sampled_from([p.name for p in tool.parameters] or ["x"]) | st.text(max_size=10)
    arguments = data.draw(st.dictionaries(names, JSON, max_size=6))
    try:
        read = read_arguments(tool, arguments)
    except SpecKitMemoryError as error:
        assert error.code in ("E030", "E031", "E032", "E040", "E102")  # noqa: PT017 - either outcome is fine
        assert error.hint  # noqa: PT017
    else:
        assert isinstance(read, tool.request)


@given(st.data())
def test_whatever_the_schema_allows_is_accepted(data: st.DataObject) -> None:
    tool = data.draw(st.sampled_from(TOOLS))
    chosen = [p for p in tool.parameters if not p.same_as and data.draw(st.booleans())]
    arguments = enough(tool) | {p.name: data.draw(_valid(p)) for p in chosen}
    read = read_arguments(tool, arguments)
    for name, value in arguments.items():
        if value != []:
            assert value_of(read, named(tool, name)) == value


def _valid(p: Parameter) -> st.SearchStrategy[Any]:
    if p.kind == "boolean":
        return st.booleans()
    if p.kind == "integer":
        return st.integers(int(p.minimum or 0), int(p.maximum or 0))
    if p.kind == "number":
        return st.floats(p.minimum, p.maximum)
    if p.kind == "object":
        return st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
    # What is empty is as if left out, which other tests look at.
    text = st.text(st.characters(codec="utf-8"), max_size=min(p.length, 50)).filter(str.strip)
    one = st.sampled_from(p.choices) if p.choices else text
    listed = st.lists(one, min_size=int(p.minimum or 0), max_size=int(p.maximum or 5))
    return listed if p.kind == "texts" else one
