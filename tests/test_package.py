"""Is the installed distribution complete? In CI this is the built wheel in a clean environment."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata, resources
from pathlib import Path

import pytest

import spec_kit_memory

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def installed() -> metadata.Distribution:
    return metadata.distribution("spec-kit-memory")


def test_the_version_stands_in_one_place(installed: metadata.Distribution) -> None:
    assert installed.version == spec_kit_memory.__version__


def test_the_metadata_names_licence_python_and_readme(installed: metadata.Distribution) -> None:
    message = installed.metadata
    assert message["License-Expression"] == "MIT AND Apache-2.0 AND ISC AND 0BSD"
    assert message["Requires-Python"] == ">=3.11"
    assert message["Description-Content-Type"] == "text/markdown"
    assert {Path(name).name for name in message.get_all("License-File", [])} >= {"LICENSE", "NOTICE", "LICENSES.txt"}


@pytest.mark.parametrize("command", ["skm", "spec-kit-memory"])
def test_both_commands_lead_to_one_function(installed: metadata.Distribution, command: str) -> None:
    (found,) = installed.entry_points.select(group="console_scripts", name=command)
    assert found.value == "spec_kit_memory.serve.cli.main:main"
    assert callable(found.load())


def test_generate_context_is_another_name_for_saving(installed: metadata.Distribution) -> None:
    (found,) = installed.entry_points.select(group="console_scripts", name="generate-context")
    assert found.value == "spec_kit_memory.serve.cli.main:generate_context"
    assert callable(found.load())


@pytest.mark.parametrize(
    ("name", "least_bytes"),
    [
        ("py.typed", 0),
        ("embed/model/model.onnx", 1_000_000),
        ("embed/model/tokenizer.json", 100_000),
        ("embed/model/NOTICE", 100),
        ("embed/model/LICENSE", 10_000),
    ],
)
def test_package_data_is_installed(name: str, least_bytes: int) -> None:
    file = resources.files("spec_kit_memory").joinpath(name)
    assert file.is_file(), name
    assert len(file.read_bytes()) >= least_bytes


def test_migrations_are_installed_with_nothing_missing() -> None:
    folder = resources.files("spec_kit_memory").joinpath("index/sqlite/migrations")
    there = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    in_source = sorted(file.name for file in (ROOT / "src/spec_kit_memory/index/sqlite/migrations").glob("*.sql"))
    assert there == in_source != []


def test_the_templates_and_files_of_the_page_are_installed() -> None:
    there = Path(str(resources.files("spec_kit_memory"))) / "serve" / "page"
    source = ROOT / "src" / "spec_kit_memory" / "serve" / "page"
    for folder in ("templates", "static"):
        names = sorted(file.relative_to(source).as_posix() for file in (source / folder).rglob("*") if file.is_file())
        assert names
        assert [name for name in names if (there / name).read_bytes() != (source / name).read_bytes()] == []


def test_the_model_comes_with_its_notice() -> None:
    notice = resources.files("spec_kit_memory").joinpath("embed/model/NOTICE").read_text(encoding="utf-8")
    assert "Apache" in notice


def test_every_module_in_the_source_is_installed() -> None:
    there = Path(str(resources.files("spec_kit_memory")))
    source = ROOT / "src" / "spec_kit_memory"
    modules = sorted(file.relative_to(source).as_posix() for file in source.rglob("*.py"))
    assert [name for name in modules if not (there / name).is_file()] == []


def test_tests_and_benchmarks_are_not_installed(installed: metadata.Distribution) -> None:
    tops = {Path(str(file)).parts[0] for file in installed.files or ()}
    assert not tops & {"tests", "benchmarks", "tools", "examples", "docs"}


def test_each_dependency_has_a_floor_and_its_reason_in_the_docs() -> None:
    reasons = (ROOT / "docs/explain/dependencies.md").read_text(encoding="utf-8")
    for requirement in PROJECT["dependencies"]:
        name, floor = re.fullmatch(r"([\w-]+)(>=[\d.]+)", requirement).groups()  # type: ignore[union-attr]
        assert floor
        assert re.search(rf"^\| `{re.escape(name)}` \|", reasons, re.MULTILINE), name


def test_each_explained_dependency_is_one() -> None:
    reasons = (ROOT / "docs/explain/dependencies.md").read_text(encoding="utf-8")
    section = reasons.split("## At run time", 1)[1].split("\n## ", 1)[0]
    explained = set(re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE))
    assert explained == {re.split(r"[>=<]", requirement)[0] for requirement in PROJECT["dependencies"]}


@pytest.mark.skipif(sys.platform == "win32", reason="the file mode says nothing there")
@pytest.mark.parametrize("script", [".ci/run", "scripts/try.sh", "scripts/test.sh"])
def test_scripts_can_be_run(script: str) -> None:
    assert (ROOT / script).stat().st_mode & 0o111
