"""Do the reference pages cover everything, and is a stale one noticed?"""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_kit_memory import errors, settings
from spec_kit_memory.serve.tools import TOOLS
from tools import reference


def test_every_tool_and_parameter_is_on_the_page_with_its_meaning() -> None:
    page = reference.tools_page()
    for tool in TOOLS:
        assert f"## {tool.name}\n" in page
        for parameter in tool.parameters:
            assert reference.about_of(parameter), f"{tool.name}.{parameter.name} has no meaning"


def test_every_command_is_on_the_page() -> None:
    page = reference.commands_page()
    for tool in TOOLS:
        assert f"## skm {tool.command}\n" in page
    for words in ("init", "serve", "install", "undo", "ledger verify", "chat import", "config show"):
        assert f"## skm {words}\n" in page


def test_every_setting_and_error_is_on_its_page() -> None:
    assert all(f"| `{key.name}` |" in reference.settings_page() for key in settings.KEYS)
    assert all(f"| {error.code} |" in reference.errors_page() for error in errors.all_errors())


def test_a_page_that_does_not_say_what_the_code_says_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0
    page = tmp_path / "errors.md"
    page.write_text(page.read_text(encoding="utf-8").replace("E040", "E041"), encoding="utf-8")
    capsys.readouterr()
    assert reference.main(["--check"]) == 1
    assert "errors.md" in capsys.readouterr().err


def test_checking_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    assert reference.main(["--check"]) == 1
    assert list(tmp_path.iterdir()) == []
