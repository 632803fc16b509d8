"""The Python API: its public names, and the page that shows it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spec_kit_memory
from spec_kit_memory import SpecKitMemoryError, Tier, Workspace, open_workspace

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_public_names_are_exactly_these() -> None:
    assert spec_kit_memory.__all__ == [
        "Actor",
        "ContextType",
        "Relation",
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
    assert len(EXAMPLES) == 2
    for example in EXAMPLES:
        exec(compile(example, "python.md", "exec"), {})  # noqa: S102 - the page is ours
    said = capsys.readouterr().out
    assert "Tokens instead of sessions" in said
    assert "Use JWT" in said
    assert "E080" in said


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
