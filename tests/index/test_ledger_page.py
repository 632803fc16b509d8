"""Does the program in the documentation verify what is exported?"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.index import open_index
from tests.index.material import BY_USER, change, entry

PAGE = Path(__file__).parents[2] / "docs" / "explain" / "ledger.md"


def verify(lines: list[str]) -> subprocess.CompletedProcess[str]:
    match = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert match
    assert len(match[1].strip().splitlines()) <= 20
    return subprocess.run(
        [sys.executable, "-X", "utf8", "-c", match[1]],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
        timeout=180,
        check=False,
    )


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    store = open_index(tmp_path / "index.sqlite")
    for number in range(5):
        store.documents.put(
            entry(f"memory/{number}.md", f"größer 数 {number}"), change(minutes=number, reason="für „alle“")
        )
    store.documents.forget(3, BY_USER)
    exported = [ledger.canonical(ledger.fields_of(one)) for one in store.record.ledger()]
    store.close()
    return exported


def test_a_whole_ledger_is_found_whole(lines: list[str]) -> None:
    done = verify(lines)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("6 entries, every link holds")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda lines: lines.pop(2), "entry 3 is missing"),
        (lambda lines: lines.__setitem__(3, lines[3].replace("alle", "alte")), "entry 4 was altered"),
        (lambda lines: lines.pop(0), "entry 1 is missing"),
    ],
)
def test_a_damaged_ledger_is_found_where_it_is(lines: list[str], damage: object, said: str) -> None:
    assert callable(damage)
    damage(lines)
    done = verify(lines)
    assert done.returncode == 1
    assert said in done.stderr
