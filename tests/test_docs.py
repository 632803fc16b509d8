"""Do the pages say what is so? Links lead somewhere, commands and options exist, codes are complete."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import spec_kit_memory
from spec_kit_memory.core import jsonc
from spec_kit_memory.errors import all_errors
from spec_kit_memory.serve.cli.invocation import Invocation
from spec_kit_memory.serve.cli.program import Commands

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for path in (
        *ROOT.glob("*.md"),
        *DOCS.rglob("*.md"),
        ROOT / "benchmarks" / "README.md",
        ROOT / "tests" / "corpus" / "README.md",
        *(ROOT / "examples").glob("*/README.md"),
    )
    if path.is_file()
)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def slugs(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    text = without_code(page.read_text(encoding="utf-8"))
    for target in re.findall(r"(?<!`)\[[^\]]+\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), target
        assert not fragment or fragment in slugs(goal), target


def test_every_page_is_reached_from_the_index() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    linked = {(DOCS / target.split("#")[0]).resolve() for target in re.findall(r"\]\(([^)]+)\)", index)}
    missing = [name_of(page) for page in DOCS.rglob("*.md") if page.resolve() not in linked | {DOCS / "README.md"}]
    assert not missing, "\n".join(missing)


# --- commands ----------------------------------------------------------------------------------


def shell_lines(text: str) -> Iterator[str]:
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()
    yield from re.findall(r"`(skm [^`\n]+)`", without_code(text))


def calls(line: str) -> Iterator[list[str]]:
    """Each `skm …` in a line, as words; "…" stands for anything and ends it."""
    lexer = shlex.shlex(line.split("…", maxsplit=1)[0], posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in (*lexer, ";"):
        if set(word) <= set("|&;"):
            if "skm" in words:
                yield words[words.index("skm") + 1 :]
            words = []
        else:
            words.append(word.removeprefix(".venv/bin/"))


def documented_calls() -> list[tuple[str, list[str]]]:
    return [
        (name_of(page), words)
        for page in PAGES
        for line in shell_lines(page.read_text(encoding="utf-8"))
        for words in calls(line)
    ]


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    group: click.Command = Commands()
    ctx = click.Context(group, obj=Invocation())
    options = []
    rest = list(words)
    while isinstance(group, click.Group) and rest:
        word = rest.pop(0)
        if word.startswith("-"):
            options.append(word)
            if word in ("--workspace", "--set"):
                rest.pop(0)
            continue
        result = group.get_command(ctx, word)
        assert result is not None, f"skm {' '.join(words)}: there is no {word!r}"
        group = result
    return group, options + [word for word in rest if word.startswith("--")]


def test_the_pages_have_commands_to_check() -> None:
    assert len(documented_calls()) > 60


@pytest.mark.parametrize(
    ("page", "words"), documented_calls(), ids=[f"{page}: {' '.join(words)}"[:90] for page, words in documented_calls()]
)
def test_documented_commands_and_options_exist(page: str, words: list[str]) -> None:
    command, options = resolve(words)
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {
        "--help",
        "--version",
    }
    assert [option for option in options if option.split("=")[0] not in known] == []


# --- the rest --------------------------------------------------------------------------------------


@every_page
def test_json_on_the_page_can_be_read(page: Path) -> None:
    blocks = re.findall(r"^```(jsonc?)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for kind, block in blocks:
        assert json.loads(block) if kind == "json" else jsonc.read(block)


@every_page
def test_files_of_this_repository_that_are_named_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests|docs|src|scripts|tools|examples|benchmarks|\.ci)/[\w./-]*)`", text)
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_error_code_has_its_next_step() -> None:
    page = (DOCS / "how-to" / "troubleshoot.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (E\d+) \|", page, re.MULTILINE) == [error.code for error in all_errors()]


def test_every_benchmark_is_on_its_page() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    programs = {path.name for path in (ROOT / "benchmarks").glob("*.py") if not path.name.startswith("_")}
    named = set(re.findall(r"^\| `(\w+\.py)` \|", page, re.MULTILINE))
    assert named == programs


def test_the_registry_entry_names_this_version_and_this_package() -> None:
    entry = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    (package,) = entry["packages"]
    assert entry["version"] == package["version"] == spec_kit_memory.__version__
    assert package["identifier"] == "spec-kit-memory"
    assert len(entry["description"]) <= 100
    assert f"mcp-name: {entry['name']}" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_changelog_has_a_section_for_this_version() -> None:
    assert f"\n## {spec_kit_memory.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
