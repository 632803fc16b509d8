"""Which parts of a conversation are noise from the host rather than somebody's words?

System reminders, hook notices and bare tool lines are removed from messages before they are saved.
Every rule takes linear time, as do the user's own patterns, whose only special character is `*`
(anything), so that no pattern can make a save hang.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# Blocks that hosts insert into messages; they are removed with their content.
_BLOCKS = (
    "system-reminder",
    "system_reminder",
    "local-command-stdout",
    "local-command-stderr",
    "local-command-caveat",
    "command-name",
    "command-message",
    "command-contents",
    "bash-input",
    "bash-stdout",
    "bash-stderr",
    "user-prompt-submit-hook",
    "session-start-hook",
    "environment_context",
    "environment_details",
    "user_instructions",
    "permissions instructions",
    "ide_opened_file",
    "ide_selection",
    "task-notification",
    "turn_aborted",
)
_HOOKS = "PreToolUse|PostToolUse|UserPromptSubmit|SessionStart|SessionEnd|SubagentStop|PreCompact|Notification|Stop"
_TOOLS = (
    "Read|Edit|MultiEdit|Write|Bash|BashOutput|Grep|Glob|LS|Task|TodoWrite|TodoRead|WebFetch|WebSearch|"
    "NotebookEdit|apply_patch|shell|update_plan|exec_command|write_stdin"
)
_LINES = re.compile(
    rf"""\s*(?:
        (?:{_HOOKS})(?::\w+)?\ (?:hook\b|\[).*            # a hook's notice
      | [<\[]?(?:{_HOOKS})\ hook\ (?:success|error|blocked|feedback|additional\ context)\b.*
      | (?:[⏺●•*-]\ )?Tool(?:\ (?:use|call|result))?:\ [\w.:-]+\s*  # a bare tool line
      | [⏺●]\ (?:{_TOOLS})\(.*
      | \[Tool\ (?:use|call|result)[^\]]*\]\s*
      | ⎿.*
      | (?:Executed|Called)\ (?:{_TOOLS})\s*+(?:\(.{{0,40}}\)\s*+)?
      | \[Request\ interrupted\ by\ user[^\]]*\]\s*
      | \(no\ content\)\s*
      | Called\ the\ \w+\ tool\ with\ the\ following\ input:.*
      | Caveat:\ The\ messages\ below\ were\ generated\ by\ the\ user\ while\ running\ local\ commands\..*
      | \[?Image\ \#\d+\]?\s*
    )""",
    re.VERBOSE,
)


def cleaned(text: str, *, patterns: Sequence[str] = ()) -> str:
    """The text without noise; "" if nothing else is left."""
    for tag in _BLOCKS:
        text = _without_block(text, tag)
    rules = [pattern.split("*") for pattern in patterns if pattern.strip()]
    lines = [line for line in text.split("\n") if not _LINES.fullmatch(line) and not _fits_any(line, rules)]
    return "\n".join(lines).strip()


def _without_block(text: str, tag: str) -> str:
    opening, closing = f"<{tag}>", f"</{tag.split(maxsplit=1)[0]}"
    start = text.find(opening)
    if start < 0:
        return text
    lines: list[str] = []
    at = 0
    while start >= 0:
        end = text.find(closing, start)
        end = text.find(">", end) if end >= 0 else -1
        if end < 0:
            break
        lines.append(text[at:start])
        at = end + 1
        start = text.find(opening, at)
    return "".join(lines) + text[at:]


def _fits_any(line: str, rules: Sequence[list[str]]) -> bool:
    stripped = line.strip()
    return bool(stripped) and any(_fits(stripped, pieces) for pieces in rules)


def _fits(line: str, pieces: list[str]) -> bool:
    """Does the line consist of these pieces, in order, with anything between them?"""
    first, *middle = pieces
    if not middle:
        return line == first
    last = middle.pop()
    if not line.startswith(first) or not line.endswith(last) or len(line) < len(first) + len(last):
        return False
    at, end = len(first), len(line) - len(last)
    for piece in middle:
        position = line.find(piece, at, end)
        if position < 0:
            return False
        at = position + len(piece)
    return True
