"""What is said of programs that others wrote: the page and the program that runs them agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spec_kit_memory.serve.tools import BY_NAME, TOOLS
from tools import conformance

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "reference" / "conformance.md").read_text(encoding="utf-8")


def test_the_page_lists_exactly_the_checks_that_do_not_apply() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)
    assert listed == list(conformance.NOT_APPLICABLE)


def test_the_page_names_the_versions_that_are_run() -> None:
    for package in conformance.PACKAGES:
        assert package.rsplit("@", 1)[1] in PAGE


def test_every_tool_is_called_with_parameters_it_has() -> None:
    assert {tool for tool, _, _ in conformance.CALLS} == {tool.name for tool in TOOLS}
    for tool, arguments, _ in conformance.CALLS:
        assert set(arguments) <= {parameter.name for parameter in BY_NAME[tool].parameters}


@pytest.mark.parametrize(
    ("check", "said", "a_fault"),
    [
        ("tools-call-audio", "Unknown tool: test_audio_content", False),
        ("tools-call-audio", "the connection was closed", True),
        ("tools-list", "no tools", True),
    ],
)
def test_a_failure_counts_unless_its_words_say_that_it_cannot_apply(check: str, said: str, a_fault: bool) -> None:
    assert bool(conformance._fault({"id": check, "errorMessage": said})) is a_fault


def test_where_npm_is_missing_it_says_so_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.argv", ["conformance"])
    assert conformance.main() == 0
    assert "npm is not installed" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["conformance", "--needed"])
    assert conformance.main() == 1
