"""Lists as in .gitignore: what git says is right, and the time no list may take."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spec_kit_memory.core.ignore import Ignore

NAMES = ("a", "b", "ab", "a.md", "b.md", "A", "a b", "x]", "-", "a-b", "*", "_", ".a", "ba1", "!a", "#a", "\\a", "a ")
PIECES = (
    *("a", "b", "*", "?", ".md", "\\", "!", "#", " ", "\\ ", "\\*", "\\!", "_", "-", "\\a"),
    *("[ab]", "[!a]", "[^a]", "[a-c]", "[]]", "[!]x]", "[c-a]", "[", "[a-", "[[:alpha:]]", "[[:digit:]b]", "[[:x:]]"),
    *("[\\]x]", "[a\\", "[]-a]", "[--0]", "[/]", "[.-0]", "[a-b-x]"),
)
# Two stars that are no whole segment are left out: what git makes of those differs between its versions.
NAMED = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("".join)
SEGMENTS = NAMED | st.sampled_from(["**", "*", "a", ""])
LINES = st.lists(
    st.tuples(st.sampled_from(["", "", "!", "/"]), st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)).map(
        "".join
    ),
    min_size=1,
    max_size=4,
).filter(lambda lines: not any(re.search(r"\*\*(?!/|$)|(?<![/!])\*\*(?<!^\*\*)", line) for line in lines))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with every name as a folder, with files, folders and folders in those."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed, so there is nobody to compare with")
    root = tmp_path_factory.mktemp("tree")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name in NAMES:
        for inner in ("a", "b.md", "ab"):
            (root / name / inner / "deep").mkdir(parents=True)
            (root / name / inner / "a.md").touch()
        (root / name / "x.md").touch()
    return root


def ignored_by_git(root: Path, lines: list[str]) -> set[str]:
    (root / ".git" / "info" / "exclude").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run(
        ["git", "-C", str(root), "-c", "core.ignoreCase=false", "check-ignore", "--no-index", "--stdin", "-z"],
        input="\0".join(path.rstrip("/") for path in paths(root)).encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return set(done.stdout.decode().split("\0")) - {""}


def paths(root: Path) -> list[str]:
    inside = [path for path in root.rglob("*") if ".git" not in path.relative_to(root).parts]
    return [path.relative_to(root).as_posix() + ("/" if path.is_dir() else "") for path in sorted(inside)]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES)
def test_any_list_names_what_git_says_it_names(tree: Path, lines: list[str]) -> None:
    ignore = Ignore(lines)
    assert {path.rstrip("/") for path in paths(tree) if ignore(path)} == ignored_by_git(tree, lines)


@pytest.mark.parametrize(
    ("lines", "path", "named"),
    [
        (["drafts/"], "drafts/", True),
        (["drafts/"], "drafts", False),
        (["drafts/"], "specs/001/drafts/a.md", True),
        (["/drafts"], "specs/drafts/a.md", False),
        (["*.md", "!keep.md"], "memory/keep.md", False),
        (["memory/", "!memory/keep.md"], "memory/keep.md", True),
        (["specs/**/old/*.md"], "specs/a/b/old/x.md", True),
        (["specs/**/old/*.md"], "specs/old/x.md", True),
        (["specs/**/old/*.md"], "specs/old/below/x.md", False),
        (["a/**"], "a/", False),
        (["a/**"], "a/b/c.md", True),
        (["**"], "anything/at/all", True),
        (["# a comment", "", "   "], "# a comment", False),
        (["?.md", "[à-ö].txt"], "é.md", True),  # git counts bytes here
        (["?.md", "[à-ö].txt"], "é.txt", True),
    ],
)
def test_lists_are_read_as_in_gitignore(lines: list[str], path: str, named: bool) -> None:
    assert Ignore(lines)(path) is named


HOSTILE = [
    "*a*a*a*a*a*ab",
    "*a" * 100 + "b",
    "**a" * 100 + "b",
    "**/a" * 60 + "/b",
    "**/*a*" * 40 + "/b",
    "*?" * 100 + "b",
    "*[a-z]" * 80 + "1",
    "*[!b]" * 80 + "b",
    "?" * 250 + "b",
    "*" + "?" * 120 + "b",
    "a/" + "**/*/" * 60 + "b",
    "[" * 300,
    "[[:alpha:]" * 100,
    "\\" * 301,
    "*" * 400 + "b",
    "**/" * 100 + "b",
]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_no_pattern_takes_long(pattern: str) -> None:
    ignore = Ignore([pattern])
    names = ["a" * 200, "a/" * 2_000 + "a", "/".join(["a" * 250] * 16), "ab" * 120, "/" * 0 + "aaab/" * 800 + "a"]
    started = time.process_time()
    for name in names:
        ignore(name)
        ignore(name + "/")
    assert time.process_time() - started < 60, "a deadline, not a measure: the first of these never ended"
