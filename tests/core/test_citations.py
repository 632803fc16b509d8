"""Which files does a text name?"""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory.core.citations import MOST_NAMES, named_files


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Look at src/auth/login.py.", ["src/auth/login.py"]),
        ("It is in `src/auth/login.py:42`, and in src/b.ts:10-20", ["src/auth/login.py", "src/b.ts"]),
        ("- `auth/passkeys.py`: new", ["auth/passkeys.py"]),
        ("`Makefile.am` and `setup.py`", ["Makefile.am", "setup.py"]),
        ("see [the code](../../src/app.py#L12-L20) and [b](<lib/b.rs>)", ["../../src/app.py", "lib/b.rs"]),
        ("(src/a.py) 'docs/b.md' \"c/d.go\"", ["src/a.py", "docs/b.md", "c/d.go"]),
        ("`src/with space/file.py`", ["src/with space/file.py"]),
        ("```\nsrc/in/fence.py\n```", ["src/in/fence.py"]),
        ("./scripts/run.sh and ../x.py", ["./scripts/run.sh", "../x.py"]),
        ("src/a.py src/a.py:7 `src/a.py`", ["src/a.py"]),
        ("Changed src/app.py: retries. **File:** src/b.py:\n", ["src/app.py", "src/b.py"]),
        (
            "tests/test_a.py::test_b, `src/a.py:handler`, `pytest tests/c.py::D`",
            ["tests/test_a.py", "src/a.py", "tests/c.py"],
        ),
        ("`src\\app\\main.py:12` and src\\b.py, not C:\\c\\d.py", ["src/app/main.py", "src/b.py"]),
        ("`app/(shop)/[id]/page.tsx:3` and `routes/$id.tsx`", ["app/(shop)/[id]/page.tsx", "routes/$id.tsx"]),
        ("[a](/src/a.py) [b](<src/my b.py>)", ["src/a.py", "src/my b.py"]),
        ("read @src/a.py first", ["@src/a.py", "src/a.py"]),
        ("`Makefile`, `Dockerfile`, `.gitignore`", ["Makefile", "Dockerfile", ".gitignore"]),
    ],
)
def test_paths_are_found_wherever_they_stand(text: str, named: list[str]) -> None:
    assert list(named_files(text)) == named


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/src/a.py",
        "see example.org:8080/a/b.py",
        "/etc/passwd and ~/notes/a.md and $HOME/x/y.py and C:/x/y.py",
        "on 2026/01/31 it was 1/2 or 24/7",
        "`print(1)` `a b` `--option` `name` `.`",
        "a folder src/auth/: empty",
        "folder src/auth/ only",
        "user@host:dir/file.py",
    ],
)
def test_what_only_looks_a_little_like_a_path_is_none(text: str) -> None:
    assert named_files(text) == ()


@given(st.text(alphabet="ab/.`:1\n ()[]-@", max_size=400))
def test_any_text_is_read_and_every_name_stands_in_it(text: str) -> None:
    assert all(name in text or name.rstrip(".") in text for name in named_files(text))


@pytest.mark.parametrize(
    "piece",
    ["a/", "a", "../", "`", "`a/b", "](", "a.b:1", ":1", "a/b.c ", "(<", "/.", "a\\", "\\", "`a/[b", "](/a", "a/b:"],
)
def test_texts_made_to_be_slow_are_read_in_time_that_grows_with_their_length(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        started = time.process_time()
        named_files(text)
        return time.process_time() - started

    assert seconds(400_000) < 5  # a quadratic one takes minutes
    assert len(named_files("".join(f"a/f{n}.py " for n in range(MOST_NAMES * 2)))) == MOST_NAMES
