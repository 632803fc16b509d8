"""Do the README's commands work as printed?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def five_commands() -> list[str]:
    match = re.search(r"<!-- run by tests/test_readme\.py -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert match is not None
    return match[1].splitlines()


def run(command: str, folder: Path) -> str:
    programs = Path(sys.executable).parent
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("SPEC_KIT_MEMORY_")},
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "SPEC_KIT_MEMORY_USER_CONFIG": str(folder / "no-config.jsonc"),
        "PYTHONWARNINGS": "",
    }
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="the README's commands are for a shell")
def test_five_commands_save_and_find(tmp_path: Path) -> None:
    commands = five_commands()
    assert len(commands) == 5
    init, fact, session, search, triggers = commands
    run(init, tmp_path)
    assert (tmp_path / ".spec-kit-memory" / "config.jsonc").is_file()
    run(fact, tmp_path)
    assert len(list((tmp_path / "memory").glob("*.md"))) == 1
    run(session, tmp_path)
    assert len(list((tmp_path / "specs" / "001-exports" / "memory").glob("*.md"))) == 1
    done = run(search, tmp_path)
    assert "02:30 UTC" in done
    assert "Retry of the export" in run(triggers, tmp_path)


def test_the_two_commands_are_there_with_and_without_make() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name in ("try", "test"):
        assert f"make {name}" in README
        assert f"sh scripts/{name}.sh" in README
        assert f"\n{name}:\n\t@sh scripts/{name}.sh\n" in makefile
        assert (ROOT / "scripts" / f"{name}.sh").is_file()
    assert "scripts/test.sh" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_readme_begins_with_what_it_is_and_a_picture() -> None:
    head = README.split("## Two commands")[0]
    assert "local-first memory" in head
    assert "```mermaid" in head
