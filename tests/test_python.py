"""The Python API: its public names, and the page that shows it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import spec_kit_memory
from spec_kit_memory import Settings, SpecKitMemoryError, Tier, Workspace, open_workspace
from spec_kit_memory.requests import SearchRequest
from spec_kit_memory.settings import Semantic

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_public_names_are_exactly_these() -> None:
    assert spec_kit_memory.__all__ == [
        "Actor",
        "Caller",
        "ContextType",
        "Relation",
        "Scope",
        "Settings",
        "Source",
        "SpecKitMemoryError",
        "State",
        "Tier",
        "Workspace",
        "__version__",
        "open_workspace",
    ]
    for name in spec_kit_memory.__all__:
        assert getattr(spec_kit_memory, name) is not None
        assert name in dir(spec_kit_memory)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        spec_kit_memory.nothing  # noqa: B018


def test_importing_the_package_loads_none_of_its_parts() -> None:
    code = "import sys, spec_kit_memory; print([m for m in sys.modules if m.startswith('spec_kit_memory.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_names_every_method_and_every_public_name() -> None:
    methods = [name for name, _ in inspect.getmembers(Workspace, inspect.isfunction) if not name.startswith("_")]
    named = set(re.findall(r"`(\w+)`", PAGE))
    assert set(methods) - named == set()
    assert set(spec_kit_memory.__all__) - named - {"__version__"} == set()


def test_the_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my-project" / "specs").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPEC_KIT_MEMORY_SEMANTIC_MODEL", "none")
    assert len(EXAMPLES) == 3
    for example in EXAMPLES:
        exec(compile(example, "python.md", "exec"), {})  # noqa: S102 - the page is ours
    printed = capsys.readouterr().out
    assert "Tokens instead of sessions" in printed
    assert "Use JWT" in printed
    assert "E080" in printed
    assert "1 of 1 memory" in printed  # what ana sees


def test_a_caller_without_anything_else_can_use_it(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "a.md").write_text("# Cats\n\nCats sleep a lot.\n", encoding="utf-8")
    with open_workspace(tmp_path) as workspace:
        assert workspace.index(embed=False).new == 1
        card = workspace.list().memories[0]
        assert card.tier is Tier.NORMAL
        assert workspace.search("sleep", mode="text").results[0].id == card.id
        with pytest.raises(SpecKitMemoryError, match="404"):
            workspace.load(404)
    workspace.close()


def test_a_root_that_is_named_counts_more_than_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("SPEC_KIT_MEMORY_WORKSPACE", str(other))
    with open_workspace(tmp_path) as workspace:
        assert workspace.settings.root == tmp_path.resolve()
    with open_workspace() as workspace:
        assert workspace.settings.root == other.resolve()


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    (tmp_path / "memory").mkdir()
    for name in ("Cats", "Dogs"):
        (tmp_path / "memory" / f"{name}.md").write_text(f"# {name}\n\n{name} sleep a lot.\n", encoding="utf-8")
    with Workspace(Settings(root=tmp_path, semantic=Semantic(model="none"))) as opened:
        opened.index()
        yield opened


@pytest.mark.parametrize(
    ("verb", "arguments", "code", "said"),
    [
        ("search", {"query": {"words": 5}}, "E030", "query must be a text"),
        ("search", {"query": "cats", "limit": "x"}, "E030", "limit must be an integer, not 'x'"),
        ("search", {"query": "cats", "limit": True}, "E030", "limit must be an integer, not True"),
        ("search", {"query": "cats", "limit": 0}, "E032", "limit is 0"),
        ("search", {"query": "cats", "tier": "nonsense"}, "E030", "'nonsense'"),
        ("search", {"query": "cats", "tier": 7}, "E030", "tier must be a text, not 7"),
        ("search", {"concepts": ["abc"]}, "E032", "concepts has 1 item; it takes 2 to"),
        ("search", {"concepts": ["a", {"b": 1}]}, "E030", "concepts"),
        ("search", {"query": "cats", "min_score": float("nan")}, "E030", "min_score must be a number, not nan"),
        ("search", {"query": "\ud800"}, "E030", "query must be a text"),
        ("load", {"memory_id": 10**30}, "E032", "memory_id"),
        ("load", {"memory_id": "one"}, "E030", "memory_id must be an integer, not 'one'"),
        ("list", {"offset": -1}, "E032", "offset is -1"),
        ("triggers", {"prompt": None}, "E031", "triggers: prompt is missing"),
        ("trust", {"target": 1.5}, "E030", "target must be an id or a path"),
        ("save", {"context": 5}, "E030", "context must be an object"),
        ("index", {"progress": 3}, "E030", "progress must be a function"),
        ("chat_import", {"paths": 7}, "E030", "paths must be a list of paths, not 7"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_by_name(
    workspace: Workspace, verb: str, arguments: dict[str, Any], code: str, said: str
) -> None:
    with pytest.raises(SpecKitMemoryError) as caught:
        getattr(workspace, verb)(**arguments)
    assert caught.value.code == code
    assert said in caught.value.message
    assert caught.value.hint


def test_python_is_read_as_leniently_as_any_other_caller(workspace: Workspace) -> None:
    card = workspace.list().memories[0]
    assert workspace.load(str(card.id)).memory.id == card.id  # type: ignore[arg-type]
    assert workspace.load(id=card.id).memory.id == card.id  # type: ignore[call-arg]
    assert workspace.list(tier="NORMAL", limit=None).total == 2  # type: ignore[arg-type]
    assert len(workspace.search("sleep", maxResults=1, specFolder="").results) == 1  # type: ignore[call-arg]


def test_a_request_that_was_made_before_is_taken_as_it_is(workspace: Workspace) -> None:
    assert workspace.search(SearchRequest("sleep", limit=1)).query == "sleep"  # type: ignore[arg-type]


def test_every_problem_of_a_call_is_told_at_once(workspace: Workspace) -> None:
    with pytest.raises(SpecKitMemoryError) as caught:
        workspace.search(limit="x", tier="vital", colour=1)  # type: ignore[call-arg,arg-type]
    for problem in ("limit must be", "tier must be", "'colour'", "query or concepts is needed"):
        assert problem in caught.value.message
    assert len(caught.value.details["problems"]) == 4  # type: ignore[arg-type]


def test_a_value_of_the_wrong_kind_is_also_refused_by_position(workspace: Workspace) -> None:
    with pytest.raises(SpecKitMemoryError, match="search: query must be a text"):
        workspace.search({"words": 5})  # type: ignore[arg-type]
    with pytest.raises(SpecKitMemoryError, match="open_workspace: root must be a text or a path, not 5"):
        open_workspace(5)  # type: ignore[arg-type]


def test_numbers_of_numpy_and_sets_are_what_they_look_like(workspace: Workspace) -> None:
    assert workspace.search("tokens", limit=np.int64(1), min_score=np.float32(0.0)).query == "tokens"  # type: ignore[arg-type]
    assert workspace.search(concepts={"access", "tokens"}).query  # type: ignore[arg-type]


def test_names_that_no_method_has_are_refused_by_python(workspace: Workspace) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'querry'") as caught:
        workspace.search(querry="cats")  # type: ignore[call-arg]
    assert isinstance(caught.value, SpecKitMemoryError)
    assert "Did you mean query?" in caught.value.hint
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        workspace.search("cats", "dogs")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="multiple values for argument 'query'"):
        workspace.search("cats", query="dogs")  # type: ignore[misc]


ODD: list[Any] = [
    *(5, -1, 10**30, 2.5, float("nan"), True, None, "", "x", "\0", "\ud800", "x" * 5000),
    *(b"x", [], ["a"], [1], {}, {"a": 1}, {1}, object(), Path("x")),
]
ENOUGH: dict[str, dict[str, Any]] = {
    "search": {"query": "cats"},
    "get": {"path": "memory/Cats.md"},
    "triggers": {"prompt": "cats"},
    "save": {"text": "Cows sleep, too", "dry_run": True},
    "link": {"source_id": 1, "target_id": 2, "relation": "supports"},
    "chat_import": {"paths": []},
    "chat_forget": {"conversation": "none"},
    "import_original": {"path": "none.sqlite"},
}
VERBS = [
    (verb, parameter)
    for verb, method in inspect.getmembers(Workspace, inspect.isfunction)
    if not verb.startswith("_")
    for parameter in list(inspect.signature(method).parameters)[1:]
]


@pytest.mark.parametrize(("verb", "parameter"), VERBS)
def test_whatever_is_given_only_errors_of_ours_come_back(workspace: Workspace, verb: str, parameter: str) -> None:
    method = getattr(workspace, verb)
    for value in ODD:
        needed = {
            name: 1 if "id" in name or name == "target" else "x"
            for name, each in inspect.signature(method).parameters.items()
            if each.default is each.empty
        }
        try:
            method(**{**needed, **ENOUGH.get(verb, {}), parameter: value})
        except SpecKitMemoryError as error:
            assert error.hint, (value, error.message)  # noqa: PT017 - most values are refused, some are not
