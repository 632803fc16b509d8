"""Which parts of a conversation are machinery?"""

from __future__ import annotations

import time

import pytest

from spec_kit_memory.core import noise


@pytest.mark.parametrize(
    "line",
    [
        "<system-reminder>\nTodos changed\n</system-reminder>",
        "PostToolUse:Edit hook succeeded: ok",
        "UserPromptSubmit hook success: loaded",
        "Tool: write",
        "Tool: sequential_thinking.run",
        "⏺ Bash(ls -la)",
        "  ⎿  12 lines",
        "[Tool result abc]",
        "[Request interrupted by user for tool use]",
        "Executed Bash (repeated 20 times)",
        "<command-name>/clear</command-name>\n<command-message>clear</command-message>",
        "<environment_context>\ncwd\n</environment_context>",
    ],
)
def test_machinery_is_cut_out(line: str) -> None:
    assert noise.cleaned(f"before\n{line}\nafter").split() == ["before", "after"]
    assert noise.cleaned(line) == ""


@pytest.mark.parametrize(
    "line",
    [
        "Tool: write the parser first",
        "The PostToolUse hook is slow",
        "Read the file (twice)",
        "a <system-reminder> tag that never closes",
        "Stop it",
    ],
)
def test_what_a_person_says_stays(line: str) -> None:
    assert noise.cleaned(line) == line


def test_own_patterns_know_only_the_star() -> None:
    patterns = ["[deploy-bot]*", "*took ? ms", "exact"]
    text = "[deploy-bot] done\nit took ? ms\nit took 5 ms\nexact\nexactly\n[x]"
    assert noise.cleaned(text, patterns=patterns) == "it took 5 ms\nexactly\n[x]"
    assert noise.cleaned("abcabc", patterns=["a*b*c*c"]) == ""
    assert noise.cleaned("ab", patterns=["ab*b"]) == "ab"
    assert noise.cleaned("anything", patterns=["", "   "]) == "anything"


def test_no_text_and_no_pattern_take_long() -> None:
    started = time.process_time()
    noise.cleaned("<system-reminder>" * 20_000)
    noise.cleaned("a" * 20_000 + "b", patterns=["*a" * 200 + "*c"])
    noise.cleaned(" " * 50_000 + "Tool: " + "x" * 50_000 + "!")
    assert time.process_time() - started < 30  # a pattern that backtracks would take hours
