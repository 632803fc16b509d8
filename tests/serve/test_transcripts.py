"""Whole conversations with the command line, word for word.

Each file in `transcripts/` has commands after "$ " and what they print. Times, sizes and
hashes are normalised. UPDATE_TRANSCRIPTS=1 writes what is printed now; read the diff.
"""

from __future__ import annotations

import io
import os
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from spec_kit_memory.serve.cli.program import run

TRANSCRIPTS = Path(__file__).parent / "transcripts"

FILES = {
    "specs/007-auth/spec.md": "# Auth\n\nUsers sign in with a password and stay signed in for a day.\n",
    "specs/007-auth/plan.md": "# Plan for auth\n\nFirst sessions, then refresh tokens.\n",
    "specs/007-auth/memory/jwt.md": (
        "---\ntitle: JWT instead of sessions\ntriggers: [refresh token, jwt]\nimportance_tier: important\n"
        "context_type: decision\ncreated: 2025-01-10\n---\n# JWT instead of sessions\n\n"
        "<!-- ANCHOR:decisions -->\nAccess tokens live 15 minutes, refresh tokens 30 days.\n"
        "<!-- /ANCHOR:decisions -->\n\n"
        "<!-- ANCHOR:next-steps -->\nRotate the signing key every quarter.\n<!-- /ANCHOR:next-steps -->\n"
    ),
    "specs/007-auth/memory/sessions.md": (
        "---\ntitle: Sessions in Redis\ncreated: 2024-11-02\n---\n# Sessions in Redis\n\nSessions are kept in Redis.\n"
    ),
    "constitutional/secrets.md": "# No secrets in logs\n\nNever write tokens or passwords to a log.\n",
    "MEMORY.md": "# The project in one page\n\nA small shop. Python, PostgreSQL.\n",
    "session.json": (
        '{"specFolder": "007-auth", "sessionSummary": "Rotated the signing key.", "title": "Key rotation", '
        '"keyDecisions": [{"decision": "Rotate by hand", "rationale": "Four times a year is rare"}], '
        '"triggerPhrases": ["key rotation"]}'
    ),
    "bad.json": '{"specFolder": 7}',
}

NORMAL = (
    (re.compile(r"\b\d+ (?:minute|hour|day|month|year)s? ago\b|\byesterday\b|\bjust now\b"), "AGO"),
    (re.compile(r"\b\d\d-\d\d-\d\d_\d\d-\d\d__"), "DATE__"),
    (re.compile(r"\b\d{4}-?\d\d-?\d\d[T-]?\d\d[:-]?\d\d[:-]?\d\d(?:[-.]\d+)?(?:Z|\+00:00)?"), "TIME"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "HASH"),
    (re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|B|kB|MB)\b"), "MUCH"),
    (re.compile(r"(?<=\S) {2,}"), "  "),
    (re.compile(r"(?m)^ +(?=\d+  )"), ""),
    (re.compile(r"\b\d+/100\b|(?<=\d  )0\.\d\d$", re.MULTILINE), "SCORE"),
    (re.compile(r'"(latencyMs|indexGeneration)":[\d.]+'), r'"\1":0'),
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("SPEC_KIT_MEMORY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SPEC_KIT_MEMORY_USER_CONFIG", str(tmp_path / "nobody"))
    monkeypatch.setenv("SPEC_KIT_MEMORY_SEMANTIC_MODEL", "hashing")
    root = tmp_path / "project"
    for number, (name, text) in enumerate(FILES.items()):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        # Newest last, also on disks that count time in seconds.
        os.utime(file, (1_760_000_000 + 60 * number,) * 2)
    monkeypatch.chdir(root)
    return root


def said(line: str, root: Path) -> str:
    """What a command prints, errors included, and its exit code if it is not 0."""
    out = io.StringIO()
    words = shlex.split(line)
    assert words.pop(0) == "skm", line
    with redirect_stdout(out), redirect_stderr(out):
        code = run(words)
    text = out.getvalue().replace(str(root.resolve()), "ROOT")
    for pattern, name in NORMAL:
        text = pattern.sub(name, text)
    lines = [each.rstrip() for each in text.splitlines()]
    return "\n".join([*lines, *([f"exit {code}"] if code else [])])


@pytest.mark.parametrize("file", sorted(TRANSCRIPTS.glob("*.txt")), ids=lambda file: file.stem)
def test_the_command_line_says_what_the_transcript_says(file: Path, project: Path) -> None:
    expected = file.read_text(encoding="utf-8")
    lines = [line[2:] for line in expected.splitlines() if line.startswith("$ ")]
    actual = "".join(f"$ {line}\n{said(line, project)}\n\n" for line in lines)
    if os.environ.get("UPDATE_TRANSCRIPTS"):
        file.write_text(actual, encoding="utf-8")
    assert actual == file.read_text(encoding="utf-8")


def test_there_are_transcripts() -> None:
    assert len(list(TRANSCRIPTS.glob("*.txt"))) >= 7
