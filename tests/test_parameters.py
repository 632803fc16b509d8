"""One list of parameters: what a line of a request gives, and how what callers write is read."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from spec_kit_memory import Workspace, requests
from spec_kit_memory.core.memory import ContextType, Relation, Source, State, Tier
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.parameters import Edge, Parameter, Request, from_call, parameter, python_edge, read, signature
from spec_kit_memory.requests import (
    CheckpointCreateRequest,
    GetRequest,
    LinkRequest,
    ListRequest,
    LoadRequest,
    SaveRequest,
    SearchRequest,
    TriggersRequest,
    UpdateRequest,
    ValidateRequest,
    WhyRequest,
)
from spec_kit_memory.serve.cli.invocation import Invocation, command_edge
from spec_kit_memory.serve.cli.program import request_command
from spec_kit_memory.serve.tools import BY_NAME, TOOLS, Tool, input_schema, read_arguments
from tools import reference

ROOT = Path(__file__).parents[1]
EVERY = [
    value for value in vars(requests).values() if isinstance(value, type) and issubclass(value, Request) and value.verb
]


def tool_edge(kind: type[Request]) -> Edge:
    return Tool("a_tool", kind, "").edge


def edges(kind: type[Request]) -> Iterator[Edge]:
    yield from (python_edge(kind), command_edge(kind), tool_edge(kind))


def refused(kind: type[Request], given: Mapping[str, Any], edge: Edge | None = None) -> SpecKitMemoryError:
    with pytest.raises(SpecKitMemoryError) as caught:
        read(kind, given, edge or tool_edge(kind))
    return caught.value


# --- one line is enough ----------------------------------------------------------------------------------------


class PaintRequest(Request, verb="paint", needs=("colour", "pattern")):
    """Paint a memory. It dries."""

    colour: str | None = parameter("text", default=None, kw_only=False, about="e.g. blue", aliases=("hue",))
    pattern: str | None = parameter("text", default=None, choices=("dots", "stripes"), help="Instead of one colour")
    coats: int = parameter("integer", default=2, least=1, most=9, help="How often")
    drying_hours: float = parameter("number", default=0.5, least=0, most=1, reach="command")
    on_dry: object = parameter("function", default=None, reach="python")


def test_a_line_is_in_the_schema_of_the_tool() -> None:
    schema = input_schema(Tool("memory_paint", PaintRequest, "Paint."))
    assert schema["properties"]["coats"] == {"type": "integer", "default": 2, "maximum": 9}
    assert schema["properties"]["colour"] == {"type": "string", "description": "e.g. blue"}
    assert schema["properties"]["pattern"]["enum"] == ["dots", "stripes"]
    assert "dryingHours" not in schema["properties"]  # only commands take it
    assert "onDry" not in schema["properties"]


def test_a_line_is_an_option_of_the_command() -> None:
    command = request_command(PaintRequest)
    flags = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)}
    assert {"--colour", "--hue", "--pattern", "--coats", "--drying-hours"} <= flags
    assert "--on-dry" not in flags
    with click.Context(command, obj=Invocation()) as context:
        message = command.get_help(context)
    for words in ("Paint a memory. It dries.", "How often (default 2)", "[dots|stripes]", "[COLOUR]"):
        assert words in message


def test_a_line_is_checked_at_every_edge_in_its_own_words() -> None:
    for edge, name in zip(edges(PaintRequest), ("coats", "--coats", "'coats'"), strict=True):
        error = refused(PaintRequest, {"colour": "blue", "coats": "many"}, edge)
        assert (error.code, f"{name} must be an integer, not 'many'" in error.message) == ("E030", True)
    assert read(PaintRequest, {"hue": "blue", "coats": "3"}, tool_edge(PaintRequest)) == PaintRequest("blue", coats=3)


def test_a_line_is_an_argument_of_the_method() -> None:
    assert str(signature(PaintRequest, "Paint")) == (
        "(self, colour: 'str | None' = None, *, pattern: 'str | None' = None, coats: 'int' = 2, "
        "drying_hours: 'float' = 0.5, on_dry: 'object' = None) -> 'Paint'"
    )
    assert from_call(PaintRequest, ("blue",), {"coats": 3}) == PaintRequest("blue", coats=3)


def test_a_line_is_a_row_of_the_reference() -> None:
    page = "\n".join(reference.tool_section(Tool("memory_paint", PaintRequest, "Paint.")))
    assert "| `coats` | integer | `2` | 1 to 9 | How often. |" in page
    assert "Needs at least one of `colour`, `pattern`." in page
    assert "Also `hue`." in page


# What a process finds that has one more line in `requests.py`; it prints one line of JSON.
LOOK_FOR_SHINE = """
import inspect, json
import click
from spec_kit_memory import Workspace, requests
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.serve.cli.invocation import Invocation, command_edge
from spec_kit_memory.serve.cli.program import request_command
from spec_kit_memory.serve.tools import BY_NAME, input_schema, read_arguments
from spec_kit_memory.parameters import python_edge, read
from tools import reference

kind = requests.SearchRequest
tool = BY_NAME["memory_search"]

def refusal(check):
    try:
        check()
    except SpecKitMemoryError as error:
        return error.message

def help_of(command):
    with click.Context(command, obj=Invocation()) as context:
        return command.get_help(context)

print(json.dumps({
    "schema": input_schema(tool)["properties"].get("shineLevel"),
    "signature": str(inspect.signature(Workspace.search).parameters.get("shine_level")),
    "command": [line.strip() for line in help_of(request_command(kind)).splitlines() if "--shine-level" in line],
    "page": [line for line in reference.tools_page().splitlines() if "shineLevel" in line],
    "value": read_arguments(tool, {"query": "a", "shineLevel": "3"}).shine_level,
    "default": kind("a").shine_level,
    "refused": [
        refusal(lambda: read_arguments(tool, {"query": "a", "shineLevel": 99})),
        refusal(lambda: read(kind, {"query": "a", "shine_level": 99}, command_edge(kind))),
        refusal(lambda: read(kind, {"query": "a", "shine_level": "much"}, python_edge(kind))),
    ],
}))
"""


def test_adding_a_parameter_is_one_line(tmp_path: Path) -> None:
    """In a copy of the package, one line is written into `requests.py` and nothing else is touched."""
    package = tmp_path / "spec_kit_memory"
    shutil.copytree(
        ROOT / "src" / "spec_kit_memory", package, ignore=shutil.ignore_patterns("__pycache__", "*.onnx", "static")
    )
    requests_file = package / "requests.py"
    before = requests_file.read_text(encoding="utf-8")
    neighbour = "    limit: int = limit_parameter(default=10)\n    max_results"
    assert before.count(neighbour) == 1
    line = '    shine_level: int = parameter("integer", default=2, least=1, most=9, help="How brightly")\n'
    requests_file.write_text(before.replace(neighbour, line + neighbour), encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-c", LOOK_FOR_SHINE],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["schema"] == {"type": "integer", "default": 2, "maximum": 9}
    assert seen["signature"] == "shine_level: 'int' = 2"
    assert len(seen["command"]) == 1
    assert seen["page"] == ["| `shineLevel` | integer | `2` | 1 to 9 | How brightly. |"]
    assert (seen["value"], seen["default"]) == (3, 2)
    for name, message in zip(("shineLevel", "--shine-level", "shine_level"), seen["refused"], strict=True):
        assert name in message


def test_a_request_is_a_frozen_dataclass() -> None:
    assert [field.name for field in dataclasses.fields(PaintRequest)] == list(PaintRequest.declared)
    made = PaintRequest("blue")
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.coats = 3  # type: ignore[misc]
    assert made.replace(coats="3") == PaintRequest("blue", coats=3)
    assert hash(made) == hash(PaintRequest(colour="blue"))


def test_threads_may_use_a_request_for_the_first_time_at_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class is made when it is first used; who comes while it is made waits for it."""

    class FirstUsed(Request, verb="first_used"):
        size: int = parameter("integer", default=1)

    sizes: list[int] = []
    late = threading.Thread(target=lambda: sizes.append(FirstUsed(size=2).size))
    make = dataclasses.dataclass

    def slow(**options: Any) -> Any:
        def made(cls: type) -> type:
            late.start()
            late.join(0.3)  # long enough to fail, if it would
            return make(**options)(cls)

        return made

    with monkeypatch.context() as patched:
        patched.setattr(dataclasses, "dataclass", slow)
        sizes.append(FirstUsed(size=1).size)
    late.join(60)
    assert sizes == [1, 2]


def test_a_request_that_is_wrong_cannot_be_made() -> None:
    with pytest.raises(SpecKitMemoryError, match="coats is 0"):
        PaintRequest("blue", coats=0)
    with pytest.raises(SpecKitMemoryError, match="colour or pattern is needed"):
        PaintRequest()
    with pytest.raises(SpecKitMemoryError, match="coats must be an integer"):
        PaintRequest("blue").replace(coats="many")


def test_what_one_request_has_the_next_may_inherit() -> None:
    class Shared(Request):
        shine: bool = parameter("boolean", default=False)

    class First(Shared, verb="first"):
        coats: int = parameter("integer", default=1)

    class Second(Shared, verb="second"):
        layers: int = parameter("integer", default=1)

    for kind, own in ((First, "coats"), (Second, "layers")):
        assert list(kind.declared) == [own, "shine"]
        assert {field.name for field in dataclasses.fields(kind)} == {own, "shine"}
        assert kind(**{own: "2", "shine": "true"}) == kind(**{own: 2, "shine": True})  # type: ignore[arg-type]


# --- and there is no second one -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_request_has_a_method_and_a_command(kind: type[Request]) -> None:
    method = inspect.signature(getattr(Workspace, kind.verb))
    assert list(method.parameters)[1:] == list(kind.declared)
    assert kind.__doc__
    for value in kind.declared.values():
        assert value.about or value.help or value.reach == "python", (
            f"{kind.__name__}.{value.argument} explains nothing"
        )


def test_every_public_verb_of_a_workspace_has_a_request() -> None:
    verbs = {kind.verb for kind in EVERY}
    life = {"close", "for_caller", "start_background"}
    methods = {name for name, _ in inspect.getmembers(Workspace, inspect.isfunction) if not name.startswith("_")}
    assert methods - life == verbs


def names_of(kind: type[Request]) -> set[str]:
    results: set[str] = set()
    for value in kind.declared.values():
        results |= {value.argument, value.name, value.flag}
    return results


def tables(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """Where several names stand together: literals of names, and signatures and calls that repeat them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            yield node.lineno, {str(elt.value) for elt in node.elts if isinstance(elt, ast.Constant)}
        elif isinstance(node, ast.Dict):
            yield node.lineno, {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
        elif isinstance(node, ast.FunctionDef):
            yield node.lineno, {item.arg for item in (*node.args.args, *node.args.kwonlyargs)}
        elif isinstance(node, ast.Call):
            same = {keyword.arg for keyword in node.keywords if _says(keyword.value) == keyword.arg}
            yield node.lineno, {name for name in same if name}


def _says(value: ast.expr) -> str:
    return value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""


def test_no_parameters_stand_in_a_second_table() -> None:
    """A few names together are a use; most of a request's are a list that somebody has to keep in step."""
    wide = [kind for kind in EVERY if len(kind.declared) >= 5]
    folders = ("src/spec_kit_memory/serve", "src/spec_kit_memory/features", "tools")
    places = [ROOT / "src" / "spec_kit_memory" / "workspace.py"]
    places += [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    second = [
        f"{path.relative_to(ROOT)}:{line} repeats {kind.__name__}"
        for path in places
        for line, names in tables(ast.parse(path.read_text(encoding="utf-8")))
        for kind in wide
        if len(names & names_of(kind)) > max(3, len(kind.declared) // 2)
    ]
    assert not second, "\n".join(second)


# --- lenient in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "given", "meant"),
    [
        (LoadRequest, {"id": 18}, LoadRequest(18)),
        (LoadRequest, {"memoryId": "18"}, LoadRequest(18)),
        (LoadRequest, {"memory_id": " 18 "}, LoadRequest(18)),
        (LoadRequest, {"memory-id": "18.0"}, LoadRequest(18)),
        (LoadRequest, {"MemoryID": 18.0}, LoadRequest(18)),
        (LoadRequest, {"id": 18, "memoryId": "18"}, LoadRequest(18)),
        (LoadRequest, {"id": 18, "specFolder": "", "anchorId": None, "maxTokens": ""}, LoadRequest(18)),
        (LoadRequest, {"id": "#18"}, LoadRequest(18)),
        (LoadRequest, {"id": " memory://18 "}, LoadRequest(18)),
        (LoadRequest, {"id": [18]}, LoadRequest(18)),
        (LoadRequest, {"specFolder": 18}, LoadRequest(spec_folder="18")),
        (UpdateRequest, {"memoryId": 1, "tier": "Important"}, UpdateRequest(1, importance_tier=Tier.IMPORTANT)),
        (UpdateRequest, {"id": 1, "title": "T", "triggerPhrases": []}, UpdateRequest(1, title="T")),
        (UpdateRequest, {"id": 1, "triggers": "one phrase"}, UpdateRequest(1, trigger_phrases=["one phrase"])),
        (UpdateRequest, {"id": 1, "importanceWeight": "0.5"}, UpdateRequest(1, importance_weight=0.5)),
        (SearchRequest, {"query": "x", "tier": ""}, SearchRequest("x")),
        (SearchRequest, {"query": "x", "tier": " CRITICAL "}, SearchRequest("x", tier=Tier.CRITICAL)),
        (SearchRequest, {"query": "x", "contextType": "bug"}, SearchRequest("x", context_type=ContextType.DISCOVERY)),
        (SearchRequest, {"query": "x", "context_type": "Planning"}, SearchRequest("x", context_type="decision")),
        (SearchRequest, {"query": "x", "stateFilter": "archived"}, SearchRequest("x", state_filter=State.ARCHIVED)),
        (SearchRequest, {"query": "x", "source": "Chat"}, SearchRequest("x", source=Source.CHAT)),
        (SearchRequest, {"query": "x", "source": "ALL"}, SearchRequest("x")),
        (SearchRequest, {"query": "x", "concepts": []}, SearchRequest("x")),
        (SearchRequest, {"query": "x", "concepts": [""], "anchors": "[]"}, SearchRequest("x")),
        (SearchRequest, {"query": "", "concepts": '["a", "b"]'}, SearchRequest(concepts=("a", "b"))),
        (SearchRequest, {"concepts": "oauth, errors"}, SearchRequest(concepts=("oauth", "errors"))),
        (SearchRequest, {"concepts": "oauth"}, SearchRequest("oauth")),
        (SearchRequest, {"query": "", "concepts": "oauth"}, SearchRequest("oauth")),
        (SearchRequest, {"query": ["x"]}, SearchRequest("x")),
        (SearchRequest, {"query": ["dock", "battery"]}, SearchRequest("dock battery")),
        (SearchRequest, {"query": 404}, SearchRequest("404")),
        (SearchRequest, {"query": "x", "limit": "05"}, SearchRequest("x", limit=5)),
        (SearchRequest, {"query": "x", "concepts": ["a", 1]}, SearchRequest("x", concepts=("a", "1"))),
        (SearchRequest, {"query": "x", "contextType": "Bug Fix"}, SearchRequest("x", context_type="implementation")),
        (SearchRequest, {"query": "x", "contextType": "bugfix"}, SearchRequest("x", context_type="implementation")),
        (SearchRequest, {"query": "x", "includeArchived": "yes"}, SearchRequest("x", include_archived=True)),
        (SearchRequest, {"query": "x", "useDecay": 0}, SearchRequest("x", use_decay=False)),
        (SearchRequest, {"query": "x", "anchors": "decisions"}, SearchRequest("x", anchors=("decisions",))),
        (SearchRequest, {"query": "x", "includeArchived": "True"}, SearchRequest("x", include_archived=True)),
        (SearchRequest, {"query": "x", "useDecay": "false"}, SearchRequest("x", use_decay=False)),
        (SearchRequest, {"query": "x", "limit": "5", "minScore": "0.3"}, SearchRequest("x", limit=5, min_score=0.3)),
        (SearchRequest, {"query": "x", "limit": None}, SearchRequest("x")),
        (SearchRequest, {"query": "[1, 2]"}, SearchRequest("[1, 2]")),
        (SaveRequest, {"context": '{"sessionSummary": "S"}'}, SaveRequest(context={"sessionSummary": "S"})),
        (SaveRequest, {"context": "just words"}, SaveRequest(context={"sessionSummary": "just words"})),
        (SaveRequest, {"context": [{"a": 1}]}, SaveRequest(context={"a": 1})),
        (SaveRequest, {"context": {"a": 1}, "filePath": ""}, SaveRequest(context={"a": 1})),
        (SaveRequest, {"path": "a.md", "onSimilar": "Merge"}, SaveRequest(file_path="a.md", on_similar="merge")),
        (ListRequest, {"sortBy": "createdAt"}, ListRequest()),
        (ListRequest, {"sortBy": "Importance Weight"}, ListRequest(sort_by="importance_weight")),
        (LinkRequest, {"from": 1, "to": "2", "relation": "Derived-From"}, LinkRequest(1, 2, Relation.DERIVED_FROM)),
        (LinkRequest, {"from": "[1]", "to": "memory 2", "relation": "caused"}, LinkRequest(1, 2, Relation.CAUSED)),
        (LoadRequest, {"id": "ID: 18"}, LoadRequest(18)),
        (LoadRequest, {"id": "(#18)"}, LoadRequest(18)),
        (SearchRequest, {"prompt": "x", "tier": "all", "stateFilter": "any"}, SearchRequest("x")),
        (SearchRequest, {"query": "x", "contextType": "Decisions"}, SearchRequest("x", context_type="decision")),
        (SearchRequest, {"query": "x", "source": "memories"}, SearchRequest("x", source="memory")),
        (
            SearchRequest,
            {"query": "x", "anchors": "state, decisions"},
            SearchRequest("x", anchors=("state", "decisions")),
        ),
        (UpdateRequest, {"id": 1, "triggers": "a b, c d"}, UpdateRequest(1, trigger_phrases=("a b", "c d"))),
        (UpdateRequest, {"id": 1, "triggers": ["a, b"]}, UpdateRequest(1, trigger_phrases=("a, b",))),
        (
            SaveRequest,
            {"sessionSummary": "x", "next_steps": ["y"]},
            SaveRequest(context={"sessionSummary": "x", "next_steps": ["y"]}),
        ),
        (
            SaveRequest,
            {"context": '{"title": "T"}', "summary": "x"},
            SaveRequest(context={"title": "T", "summary": "x"}),
        ),
        (
            CheckpointCreateRequest,
            {"name": "a", "metadata": "why"},
            CheckpointCreateRequest("a", metadata={"note": "why"}),
        ),
        (GetRequest, {"path": "a.md", "lines": [3, 9]}, GetRequest("a.md", "3-9")),
        (WhyRequest, {"id": "3", "relations": "caused, SUPPORTS"}, WhyRequest(3, relations=["caused", "supports"])),
        (ValidateRequest, {"memory_id": "3", "useful": "FALSE"}, ValidateRequest(3, was_useful=False)),
        (CheckpointCreateRequest, {"name": "a", "metadata": "{}"}, CheckpointCreateRequest("a", metadata={})),
        (TriggersRequest, {"prompt": ""}, TriggersRequest("")),
    ],
)
def test_what_is_meant_is_understood_at_every_edge(
    kind: type[Request], given: Mapping[str, Any], meant: Request
) -> None:
    for edge in edges(kind):
        assert read(kind, given, edge) == meant


def test_values_are_of_their_own_kinds_whatever_was_given() -> None:
    request = SearchRequest("x", tier="Important", concepts=["a", "b"], limit="5")  # type: ignore[arg-type]
    assert request.tier is Tier.IMPORTANT
    assert request.concepts == ("a", "b")
    assert request.limit == 5
    assert isinstance(request.limit, int)


@pytest.mark.parametrize(
    ("kind", "given", "code", "words"),
    [
        (LoadRequest, {"id": "eighteen"}, "E030", ["'memoryId' must be an integer, not 'eighteen'"]),
        (LoadRequest, {"id": True}, "E030", ["'memoryId' must be an integer"]),
        (LoadRequest, {"id": 1.5}, "E030", ["'memoryId' must be an integer"]),
        (LoadRequest, {"id": "9" * 5000}, "E030", ["'memoryId' must be an integer"]),
        (LoadRequest, {"id": "003"}, "E030", ["'memoryId' is '003', and no id begins with 0"]),
        (LoadRequest, {"id": "0"}, "E032", ["'memoryId' is 0"]),
        (LoadRequest, {"id": 5, "memoryId": 6}, "E030", ["given twice"]),
        (LoadRequest, {"id": ""}, "E031", ["'memoryId' or 'specFolder' is needed"]),
        (LoadRequest, {"memoryID5": 5}, "E030", ["'memoryID5'", "Did you mean 'memoryId'?"]),
        (SearchRequest, {"query": "x", "tier": "importent"}, "E030", ["'importent'", "Did you mean important?"]),
        (SearchRequest, {"query": "x", "stateFilter": "hott"}, "E030", ["Did you mean HOT?"]),
        (SearchRequest, {"query": "x", "folders": "y"}, "E030", ["'folders'", "Did you mean 'specFolder'?"]),
        (SearchRequest, {"query": "x", "limit": "0"}, "E032", ["'limit' is 0; it must be from 1 to 100"]),
        (SearchRequest, {"query": "x", "minScore": "1e999"}, "E030", ["'minScore' must be a number"]),
        (SearchRequest, {"query": "x", "minScore": "inf"}, "E030", ["'minScore' must be a number"]),
        (SearchRequest, {"query": "x", "concepts": '["a", {}]'}, "E030", ["'concepts' must be a list of texts"]),
        (SearchRequest, {"concepts": ["one"]}, "E032", ["'concepts' has 1 item; it takes 2 to 5"]),
        (SearchRequest, {"query": " "}, "E040", ["'query' or 'concepts' is needed; 'query' is empty"]),
        (GetRequest, {"path": ""}, "E031", ["'path' is empty"]),
        (GetRequest, {}, "E031", ["'path' is missing"]),
        (SearchRequest, {"query": "x", "concepts": "one"}, "E032", ["'concepts' has 1 item; it takes 2 to 5"]),
        (
            SaveRequest,
            {"context": '{"sessionSummary": '},
            "E030",
            ["'context' must be an object; the text given is no JSON"],
        ),
        (SaveRequest, {"context": "[1]"}, "E030", ["'context' must be an object"]),
        (LinkRequest, {"sourceId": 1, "targetId": 2, "relation": "cause"}, "E102", ["Did you mean caused?"]),
        (LinkRequest, {"sourceId": 1, "targetId": 2, "relation": "caused_by"}, "E102", ["Exchange the two memories"]),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_nearest(
    kind: type[Request], given: Mapping[str, Any], code: str, words: Sequence[str]
) -> None:
    error = refused(kind, given)
    assert error.code == code
    for word in words:
        assert word in f"{error.message} {error.hint}"


def test_every_problem_is_told_at_once_and_the_worst_gives_the_code() -> None:
    given = {"limit": "many", "tier": "vital", "minScore": 7, "useDecay": "perhaps", "colour": 1}
    error = refused(SearchRequest, given)
    assert error.code == "E030"
    problems = error.details["problems"]
    assert isinstance(problems, list)
    assert len(problems) == 6
    for name in ("limit", "tier", "minScore", "useDecay", "colour", "query"):
        assert any(repr(name) in problem for problem in problems)
        assert repr(name) in error.message
    assert "memory_search takes query" in _of_tool({"query": "x", **given}).hint


def _of_tool(given: Mapping[str, Any]) -> SpecKitMemoryError:
    with pytest.raises(SpecKitMemoryError) as caught:
        read_arguments(BY_NAME["memory_search"], given)
    return caught.value


@pytest.mark.parametrize(
    ("tool", "given", "code", "hint"),
    [
        ("memory_search", {}, "E040", "Add 'query', a text, or 'concepts', a list of texts."),
        ("memory_search", {"query": "x", "limit": 0}, "E032", "Give 'limit' a number from 1 to 100."),
        ("memory_search", {"concepts": ["one"]}, "E032", "Give 'concepts' 2 to 5 texts."),
        ("memory_search", {"query": "x", "limit": "many"}, "E030", "Give 'limit' an integer."),
        (
            "memory_load",
            {"memoryId": "Token life"},
            "E030",
            "Give 'memoryId' an integer: memory_search with query 'Token life' shows it.",
        ),
        (
            "memory_delete",
            {"id": "memory/a.md"},
            "E030",
            "Give 'id' an integer: memory_get with path 'memory/a.md' shows it.",
        ),
        ("memory_load", {"memoryId": "1.5"}, "E030", "Give 'memoryId' an integer."),
        (
            "memory_load",
            {"path": "memory/a.md"},
            "E030",
            "'path' is for memory_get. Add 'memoryId', an integer, or 'specFolder', a text.",
        ),
        (
            "memory_load",
            {"query": "tokens"},
            "E030",
            "'query' is for memory_search or memory_match_triggers."
            " Add 'memoryId', an integer, or 'specFolder', a text.",
        ),
        (
            "memory_get",
            {"memoryId": 4},
            "E030",
            "'memoryId' is for memory_load or memory_drift_why. Add 'path', a path.",
        ),
        ("memory_search", {"query": "x", "specFoldr": "y"}, "E030", "Did you mean 'specFolder'?"),
        (
            "memory_search",
            {"q": "x"},
            "E030",
            "Did you mean 'query'? Add 'query', a text, or 'concepts', a list of texts.",
        ),
        ("memory_search", {"sentence": "x"}, "E030", "Add 'query', a text, or 'concepts', a list of texts."),
        ("memory_get", {"path": " "}, "E031", "Add 'path', a path."),
        ("memory_get", {}, "E031", "Add 'path', a path."),
        ("memory_validate", {"id": 1}, "E031", "Add 'wasUseful' or 'outdated' or 'promote'."),
    ],
)
def test_a_hint_for_a_model_is_what_to_give_and_not_every_parameter(
    tool: str, given: dict[str, Any], code: str, hint: str
) -> None:
    with pytest.raises(SpecKitMemoryError) as caught:
        read_arguments(BY_NAME[tool], given)
    assert (caught.value.code, caught.value.hint) == (code, hint)


@pytest.mark.parametrize("name", ["project", "topK", "threshold"])
def test_a_name_that_is_like_none_is_answered_with_all_and_not_with_a_wrong_one(name: str) -> None:
    hint = _of_tool({"query": "x", name: 1}).hint
    assert hint is not None
    assert "Did you mean" not in hint
    assert "memory_search takes query" in hint


def test_a_wrong_value_is_not_missed_as_well() -> None:
    assert "needed" not in refused(SearchRequest, {"query": {}}).message
    assert "missing" not in refused(LinkRequest, {"sourceId": "a", "targetId": 2, "relation": "caused"}).message


def test_each_edge_is_spoken_to_in_its_own_words() -> None:
    given = {"query": "x", "specFoldr": "y", "maxTokens": "lots"}
    python, command, tool = (refused(SearchRequest, given, edge) for edge in edges(SearchRequest))
    assert "search: " in python.message
    assert "max_tokens must be" in python.message
    assert "Did you mean spec_folder?" in python.hint
    assert "skm search: " in command.message
    assert "--max-tokens must be" in command.message
    assert "Did you mean --spec-folder?" in command.hint
    assert "skm search --help" in command.hint
    assert "a_tool: " in tool.message
    assert "'maxTokens' must be" in tool.message
    assert "skm" not in tool.hint


def test_a_conversation_has_bounds_that_a_program_has_not() -> None:
    assert refused(ListRequest, {"limit": 101}).code == "E032"
    assert refused(SearchRequest, {"query": "x" * 10_001}).code == "E032"
    assert ListRequest(limit=5000).limit == 5000
    assert len(SearchRequest("x" * 20_000).text) == 20_000
    with pytest.raises(SpecKitMemoryError, match="limit is 0"):
        ListRequest(limit=0)
    with pytest.raises(SpecKitMemoryError, match="min_score is 2"):
        SearchRequest("x", min_score=2)


def test_no_two_parameters_of_a_request_share_a_spelling() -> None:
    for kind in EVERY:
        taken: dict[str, Parameter] = {}
        for value in kind.declared.values():
            for spelling in {value.flag, *value.flags}:
                assert spelling not in taken, f"{kind.__name__}: {spelling}"
                taken[spelling] = value


def test_tools_are_a_part_of_the_requests() -> None:
    assert {tool.request for tool in TOOLS} <= set(EVERY)
