"""Does the page for people who come from the original name everything, and is what it promises there?

`compatibility_names.txt` holds what the five documents name, by kind. The page has a section for each kind.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from spec_kit_memory import answers, errors, settings
from spec_kit_memory.core import triggers
from spec_kit_memory.core.memory import Actor, ContextType, Event, Relation, Source, State, Tier, VectorStatus
from spec_kit_memory.files import pending
from spec_kit_memory.files.scan_state import ScanDecision
from spec_kit_memory.serve import tools
from spec_kit_memory.serve.cli import program
from spec_kit_memory.serve.render import camel

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "from-the-original.md"
NAMES = Path(__file__).with_name("compatibility_names.txt")
SCHEMA = "\n".join(
    path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "src/spec_kit_memory/index/sqlite/migrations").glob("*.sql"))
)


@dataclass(frozen=True)
class Row:
    section: str
    original: str
    here: tuple[str, ...]  # empty: there is no such thing here
    differs: str
    line: int


def spans(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


@cache
def rows() -> tuple[Row, ...]:
    found, section = [], ""
    for number, line in enumerate(PAGE.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ") and not line.startswith("| original"):
            original, here, differs = (cell.strip() for cell in line.strip("| ").split(" | "))
            name = spans(original)[0] if original.startswith("`") else original
            found.append(Row(section, name, spans(here), differs, number))
    return tuple(found)


def wanted() -> Iterator[tuple[str, str]]:
    kind = ""
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            kind = line[2:]
        elif line.strip():
            yield kind, line


def test_everything_the_documents_name_stands_on_the_page() -> None:
    there = {(row.section, row.original) for row in rows()}
    assert not [pair for pair in wanted() if pair not in there]


def test_the_page_names_nothing_that_the_list_does_not_hold() -> None:
    assert {(row.section, row.original) for row in rows()} <= set(wanted())


def test_every_name_stands_once_in_its_section() -> None:
    names = [(row.section, row.original) for row in rows()]
    assert len(names) == len(set(names))


def test_what_is_missing_here_has_a_reason() -> None:
    for row in rows():
        assert row.here or len(row.differs) > 10, (
            f"line {row.line}: {row.original} has neither a name here nor a reason"
        )


# --- what the page promises exists -----------------------------------------------------------------


def is_tool(name: str) -> bool:
    return name in tools.BY_NAME


def is_parameter(name: str) -> bool:
    tool, _, parameter = name.partition(".")
    return is_tool(tool) and any(item.name == parameter for item in tools.BY_NAME[tool].parameters)


def is_command(words: str) -> bool:
    name, *path = words.split()
    options = [word for word in path if word.startswith("-")]
    group: program.Commands = program.Commands()
    command = None
    for word in path[: len(path) - len(options)]:
        command = group.get_command(None, word)  # type: ignore[arg-type]
        if isinstance(command, program.Commands):
            group = command
    known = (
        {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        if command
        else set()
    )
    return name == "skm" and command is not None and set(options) <= known


def is_error(code: str) -> bool:
    return code in {error.code for error in errors.all_errors()}


def is_stored(name: str) -> bool:
    table, _, column = name.partition(".")
    match = re.search(rf'CREATE (?:VIRTUAL )?TABLE "?{table}"? (?:USING fts5 )?\((.*?)\);', SCHEMA, re.DOTALL)
    return match is not None and (not column or re.search(rf"(?<![\w'])({column})(?:,| [A-Z])", match[1]) is not None)


def is_setting(name: str) -> bool:
    return name in settings.BY_NAME


def is_code(name: str) -> bool:
    """A module, or something in one, below our package."""
    parts = name.split(".")
    for depth in range(len(parts), 0, -1):
        try:
            thing: object = importlib.import_module(".".join(["spec_kit_memory", *parts[:depth]]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[depth:]:
            if not hasattr(thing, attribute):
                return False
            thing = getattr(thing, attribute)
        return True
    return False


def is_value(name: str) -> bool:
    kinds = (Tier, ContextType, State, Relation, Source, VectorStatus, Event, Actor, ScanDecision)
    return name in {item.value for kind in kinds for item in kind}


def is_answered(name: str) -> bool:
    kinds = (
        *(answers.SearchAnswer, answers.FlatResult, answers.TriggerAnswer, answers.CheckpointAnswer),
        *(answers.IndexAnswer, answers.StatsAnswer, answers.WhyAnswer),
    )
    fields = {camel(field) for kind in kinds for field in kind.__dataclass_fields__}
    # Inside a field: of a search's stats, of a trigger's matches.
    return name in fields | {"totalFiles", "totalChunks", "phrases", "confidence"}


def is_phrase(name: str) -> bool:
    """Do we act on it? The choices in brackets are what a folder's memories are offered with."""
    if name.startswith("["):
        offered = (ROOT / "src/spec_kit_memory/features/context.py").read_text(encoding="utf-8")
        return name in offered or (name[1:-1].isdecimal() and 'f"[{' in offered)
    return bool(triggers.suggestions(f"now {name} please")) or triggers.loading(f"now {name} please") is not None


def is_file(name: str) -> bool:
    if name == "_pending":
        return pending.pending_of(Path("a.md")).stem.endswith(name)
    pages = ("reference/file-format.md", "reference/session-data.md", "how-to/connect-an-agent.md")
    return is_documented(*pages)(name)


def is_documented(*pages: str) -> Callable[[str], bool]:
    text = "\n".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in pages)
    return lambda name: name in text


CHECKS: dict[str, Callable[[str], bool]] = {
    "Tools": is_tool,
    "Parameters": is_parameter,
    "Answers": is_answered,
    "Commands": is_command,
    "Errors": is_error,
    "Tables and columns": is_stored,
    "Settings": is_setting,
    "Files": is_file,
    "Anchors": is_documented("reference/session-data.md"),
    "Saved sessions": is_documented("reference/session-data.md"),
    "Phrases": is_phrase,
    "Functions": is_code,
    "Types and constants": is_code,
    "Formulas": is_code,
    "Pages": lambda name: (ROOT / "docs" / name).is_file(),
    "Values": is_value,
    "Parts": is_code,
}


def test_every_section_is_checked() -> None:
    assert list(dict.fromkeys(row.section for row in rows())) == list(CHECKS)


@pytest.mark.parametrize("section", CHECKS)
def test_what_the_page_promises_is_there(section: str) -> None:
    check = CHECKS[section]
    missing = [
        f"line {row.line}: {name}" for row in rows() if row.section == section for name in row.here if not check(name)
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("Tools", "memory_guess"),
        ("Parameters", "memory_search.colour"),
        ("Commands", "skm fly"),
        ("Commands", "skm search --colour"),
        ("Errors", "E999"),
        ("Tables and columns", "memory_fts"),
        ("Tables and columns", "memory.colour"),
        ("Settings", "semantic.colour"),
        ("Functions", "core.links.fly"),
        ("Functions", "core.fly"),
        ("Values", "lukewarm"),
        ("Answers", "colour"),
        ("Files", "colour.sqlite"),
        ("Phrases", "fly away"),
    ],
)
def test_the_checks_know_what_is_not_there(section: str, name: str) -> None:
    assert not CHECKS[section](name)
