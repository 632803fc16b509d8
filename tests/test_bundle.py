"""Can a host install what we publish? The registry's entry and the one-click bundle, against their rules."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory import __version__
from spec_kit_memory.serve.cli.program import Commands
from spec_kit_memory.serve.tools import TOOLS
from tools import bundle

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def entry() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    with zipfile.ZipFile(bundle.build(folder / "dist")) as archive:
        assert archive.testzip() is None
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


@pytest.fixture(scope="module")
def manifest(unpacked: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((unpacked / "manifest.json").read_text(encoding="utf-8"))
    return content


# --- the registry ----------------------------------------------------------------------------


def test_the_registry_entry_has_what_the_schema_requires(entry: dict[str, Any]) -> None:
    assert re.fullmatch(
        r"https://static\.modelcontextprotocol\.io/schemas/[\d-]+/server\.schema\.json", entry["$schema"]
    )
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 3 <= len(entry["name"]) <= 200
    assert 1 <= len(entry["description"]) <= 100
    assert 1 <= len(entry["title"]) <= 100


def test_the_registry_entry_is_of_this_version_and_package(entry: dict[str, Any]) -> None:
    assert entry["version"] == __version__
    (package,) = entry["packages"]
    assert package["registryType"] == "pypi"
    assert package["identifier"] == PROJECT["name"]
    assert package["version"] == __version__
    assert package["transport"] == {"type": "stdio"}


def test_the_readme_proves_who_owns_the_package(entry: dict[str, Any]) -> None:
    assert f"mcp-name: {entry['name']}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_registry_entry_names_arguments_that_the_command_takes(entry: dict[str, Any]) -> None:
    (package,) = entry["packages"]
    first, *named = package["packageArguments"]
    assert (first["type"], first["value"]) == ("positional", "serve")
    serve = Commands().get_command(None, "serve")  # type: ignore[arg-type]
    assert serve is not None
    options = {flag for parameter in serve.params for flag in parameter.opts}
    variables = {getattr(parameter, "envvar", None) for parameter in serve.params}
    assert {argument["name"] for argument in named} <= options
    assert {variable["name"] for variable in package["environmentVariables"]} <= variables
    # uvx runs the command that is called like the package.
    assert package["runtimeHint"] == "uvx"
    assert package["identifier"] in PROJECT["scripts"]


# --- the bundle ------------------------------------------------------------------------------

# Keys of the manifest, version 0.4; anything else is refused by hosts.
MANIFEST_KEYS = {
    *("$schema", "manifest_version", "name", "display_name", "version", "description", "long_description", "author"),
    *("repository", "homepage", "documentation", "support", "icon", "icons", "screenshots", "localization", "server"),
    *("tools", "tools_generated", "prompts", "prompts_generated", "keywords", "license", "privacy_policies"),
    *("compatibility", "user_config", "_meta"),
}


def test_the_manifest_has_what_its_schema_requires(manifest: dict[str, Any]) -> None:
    assert manifest["manifest_version"] == "0.4"
    assert {"name", "version", "description", "author", "server"} <= set(manifest) <= MANIFEST_KEYS
    assert set(manifest["author"]) <= {"name", "email", "url"}
    assert set(manifest["server"]) == {"type", "entry_point", "mcp_config"}
    assert set(manifest["server"]["mcp_config"]) <= {"command", "args", "env", "platform_overrides"}
    for setting in manifest["user_config"].values():
        assert {"type", "title", "description"} <= set(setting)
        assert setting["type"] in {"string", "number", "boolean", "directory", "file"}


def test_the_manifest_is_of_this_version(manifest: dict[str, Any]) -> None:
    assert manifest["name"] == PROJECT["name"]
    assert manifest["version"] == __version__
    assert manifest["compatibility"]["runtimes"]["python"] == PROJECT["requires-python"]


def test_the_manifest_lists_the_tools_that_are_served(manifest: dict[str, Any]) -> None:
    assert [tool["name"] for tool in manifest["tools"]] == [tool.name for tool in TOOLS]
    assert all(set(tool) == {"name", "description"} and tool["description"] for tool in manifest["tools"])


def test_every_file_and_variable_that_the_manifest_names_exists(manifest: dict[str, Any], unpacked: Path) -> None:
    server = manifest["server"]
    assert (unpacked / server["entry_point"]).is_file()
    assert server["entry_point"] in server["mcp_config"]["args"]
    used = re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(server))
    assert sorted(used) == sorted(manifest["user_config"])


def test_the_bundle_holds_the_whole_package_and_what_builds_it(unpacked: Path) -> None:
    source = ROOT / "src" / "spec_kit_memory"
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    there = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert expected <= there
    assert there - expected == {"manifest.json", bundle.ENTRY_POINT, "pyproject.toml", "README.md", "LICENSE"}
    # Everything that building the package needs is in it.
    needed = {PROJECT["readme"], *PROJECT["license-files"]}
    assert needed <= there


def test_the_bundle_starts_from_its_own_files(manifest: dict[str, Any], unpacked: Path) -> None:
    code = "import spec_kit_memory, sys; sys.stdout.write(spec_kit_memory.__file__)"
    environ = {**os.environ, "PYTHONPATH": str(unpacked / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    where = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    assert Path(where.stdout).is_relative_to(unpacked)
    done = subprocess.run(
        [sys.executable, str(unpacked / manifest["server"]["entry_point"]), "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=environ,
    )
    assert done.stdout.strip() == f"spec-kit-memory {__version__}"


def test_equal_inputs_make_equal_bundles(unpacked: Path) -> None:
    with zipfile.ZipFile(next((unpacked.parent / "dist").glob("*.mcpb"))) as archive:
        # Neither the time of building nor the builder's modes are in it.
        assert {item.date_time for item in archive.infolist()} == {bundle.LONG_AGO}
        assert {item.external_attr for item in archive.infolist()} == {0o644 << 16}
