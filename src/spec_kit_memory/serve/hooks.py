"""What does a host get when it runs a hook: at a prompt, at the start of a session, before it compacts?

The host's JSON is read from standard input; output in the form that the host expects goes to standard output.
A hook must never block its host: on any error it prints nothing, writes the reason to standard error, and exits with
0. It creates nothing: without an index there is no output.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec_kit_memory.core import tokens
from spec_kit_memory.core.memory import Actor
from spec_kit_memory.errors import FileMissing

if TYPE_CHECKING:
    from spec_kit_memory.answers import TriggerAnswer, TriggeredMemory
    from spec_kit_memory.workspace import Workspace

# Claude Code's event names; Codex, Qwen Code, VS Code and Copilot CLI use the same, Gemini CLI some of them.
EVENTS: Mapping[str, str] = {
    "prompt": "UserPromptSubmit",
    "session-start": "SessionStart",
    "pre-compact": "PreCompact",
    "session-end": "SessionEnd",
}
GEMINI_NAMES: Mapping[str, str] = {"prompt": "BeforeAgent", "pre-compact": "PreCompress"}
HOOKED = ("claude-code", "codex", "cursor", "gemini", "opencode", "qwen", "vscode")
# These hosts pass a hook's output before compaction to the model that writes the summary; others show it to the person.
SUMMARISED = ("claude-code", "opencode")
# After these events the model has lost its earlier context, so memories that were sent before are sent again.
CONTEXT_LOST_SOURCES = ("clear", "compact", "resume")

# A prompt may be a pasted log; trigger phrases are matched in its beginning only, as in the tool.
PROMPT_LENGTH = 10_000
INPUT_BYTES = 8_000_000
# If our hooks are configured twice, both run for one event: at the same time, or one after the other on a slow machine.
# The second within this time is a repetition. A session does not start twice without an end or a compaction in
# between, but a prompt may be withdrawn and sent again, so its time is short.
SAME_EVENT_SECONDS, SAME_PROMPT_SECONDS = 60, 5
# Cursor passes at most 10,000 characters to the agent.
MEMORY_LENGTH, TEXT_LENGTH = 1_500, 9_000
CONTEXT_TOKENS = 1_500

SUGGESTIONS: Mapping[str, str] = {
    "save": "Saving this session is asked for or due: offer it, and use memory_save.",
    "search": "Prior work is asked for: use memory_search before answering.",
    "checkpoint": "A checkpoint is spoken of: use checkpoint_create, checkpoint_list or checkpoint_restore.",
}
BEFORE_COMPACTION = (
    "The conversation is about to be compacted. To keep what was decided, save it: "
    "ask the agent to save this session (memory_save)."
)
# For the model that writes the summary.
KEEP = (
    "Keep in the summary: every decision with its reason and what was rejected, next steps, blockers, the files that "
    "were changed, and the spec folder that is worked on. Leave out tool output that can be read again."
)


def main(arguments: Sequence[str]) -> None:
    """`skm hook EVENT [--host HOST] [--workspace DIR]`, parsed by hand: importing click would delay every prompt."""
    # The process exits before garbage collection would pay off, and creating classes triggers it often.
    gc.disable()
    words = list(arguments)
    options = {"--host": "claude-code", "--workspace": ""}
    event = ""
    while words:
        word, _, value = words.pop(0).partition("=")
        if word in options:
            options[word] = value or (words.pop(0) if words else "")
        else:
            event = event or word
    run(event, host=options["--host"], workspace=options["--workspace"] or None)


def run(event: str, *, host: str, workspace: str | None = None) -> None:
    try:
        answer = _answer(event, host, _input(), workspace)
        if answer:
            # JSON is escaped to ASCII, because the host may read another encoding.
            sys.stdout.write((answer if isinstance(answer, str) else json.dumps(answer)) + "\n")
            sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - the edge: a hook never fails its host
        _log_error(error)


def _log_error(error: Exception) -> None:
    with suppress(OSError, ValueError):  # standard error may be closed
        sys.stderr.write(f"spec-kit-memory hook: {error}\n")


def _input() -> dict[str, Any]:
    if sys.stdin is None or sys.stdin.isatty():
        return {}
    content = json.loads(sys.stdin.buffer.read(INPUT_BYTES).decode("utf-8-sig", "replace") or "{}")
    if not isinstance(content, dict):
        return {}
    return {name: _sound(value) if isinstance(value, str) else value for name, value in content.items()}


def _sound(text: str) -> str:
    """The text without halves of characters, which a host leaves where it cuts a text within an emoji."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _answer(
    event: str, host: str, event_data: Mapping[str, Any], workspace_name: str | None
) -> dict[str, Any] | str | None:
    if event not in EVENTS or host not in HOOKED:
        raise ValueError(f"there is no hook {event!r} for {host!r}")
    from spec_kit_memory import settings

    try:
        root = settings.find_root(_project_folder(event_data), workspace=workspace_name)
    except FileMissing:
        if workspace_name or os.environ.get("SPEC_KIT_MEMORY_WORKSPACE"):
            raise
        return None  # hooks of the user's own configuration also run where there is no project
    loaded = settings.load(root)
    if not loaded.may_have_index:
        return None
    if event == "pre-compact" and host not in SUMMARISED:
        return {"user_message" if host == "cursor" else "systemMessage": BEFORE_COMPACTION}

    from spec_kit_memory.workspace import Workspace

    with Workspace(loaded, actor=Actor.HOOK, personal=True) as workspace:
        text = _text(event, event_data, workspace)
        if text:
            workspace.record_sent(f"hook {event}", tokens=tokens.count(text))
    if not text or event == "pre-compact":
        return text or None
    return _hook_output(host, event, text)


def _hook_output(host: str, event: str, text: str) -> dict[str, Any] | str:
    """The output with the text where this host looks for it."""
    if host == "opencode":
        return text  # our plugin takes plain text
    if host == "cursor":
        return {"continue": True, "additional_context": text} if event == "prompt" else {"additional_context": text}
    name = GEMINI_NAMES.get(event, EVENTS[event]) if host == "gemini" else EVENTS[event]
    inner = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}
    # VS Code reads the inner text; Copilot CLI, which runs the same hooks, reads the outer one.
    return {"additionalContext": text, **inner} if host == "vscode" else inner


def _project_folder(event_data: Mapping[str, Any]) -> Path | None:
    """The project folder that the host names; the working directory may have changed, so it comes last."""
    roots = event_data.get("workspace_roots")
    places = (
        os.environ.get("CLAUDE_PROJECT_DIR"),
        os.environ.get("CURSOR_PROJECT_DIR"),
        roots[0] if isinstance(roots, list) and roots else None,
        event_data.get("cwd"),
    )
    folder = next((place for place in places if isinstance(place, str) and os.path.isdir(place)), None)
    return Path(folder) if folder else None


def _session(event_data: Mapping[str, Any]) -> str | None:
    candidates = (event_data.get(name) for name in ("session_id", "sessionId", "conversation_id"))
    return next((name[:200] for name in candidates if isinstance(name, str) and name), None)


def _text(event: str, event_data: Mapping[str, Any], workspace: Workspace) -> str:
    session, source = _session(event_data), event_data.get("source")
    context_lost = event in ("pre-compact", "session-end") or source in CONTEXT_LOST_SOURCES
    event_key = f"{event} {event_data.get('prompt') if event == 'prompt' else source}"
    # Our hooks may be configured twice, in the project and for the user: only the first run has output.
    repeat_seconds = SAME_PROMPT_SECONDS if event == "prompt" else SAME_EVENT_SECONDS
    if session and not workspace.session(session, anew=context_lost, event=event_key, apart=repeat_seconds).first:
        return ""
    if event == "session-end":
        return ""
    if event == "pre-compact":
        return _compaction_notes(workspace, session)
    if event == "session-start":
        answer = workspace.context(session_id=session, max_tokens=CONTEXT_TOKENS)
        if not answer.text.strip():
            return ""
        session_note = f'\n\nPass sessionId "{session}" to the memory tools, so that nothing is told twice.'
        return f"Remembered for this project (spec_kit_memory):\n\n{answer.text}" + (session_note if session else "")
    prompt = _typed_prompt(event_data.get("prompt"))
    if not prompt.strip():
        return ""
    return _matches_text(workspace.triggers(prompt[:PROMPT_LENGTH], session_id=_session(event_data)))


def _typed_prompt(prompt: object) -> str:
    """The prompt as the person typed it. Gemini CLI prepends the context from the session's start, which must not
    trigger memories again."""
    if not isinstance(prompt, str):
        return ""
    before, mark, rest = prompt.partition("<hook_context>")
    return before + rest.partition("</hook_context>")[2] if mark and "</hook_context>" in rest else prompt


def _compaction_notes(workspace: Workspace, session: str | None) -> str:
    """What the summary must keep, and the memories that the session worked with."""
    parts = [KEEP]
    attended = workspace.session(session).working_memory if session else ()
    if attended:
        lines = [f"- {memory.title} (id {memory.id})" for memory in attended]
        parts.append("Memories used so far (memory_load brings one back; keep title and id):\n" + "\n".join(lines))
    if session:
        parts.append(f'Keep this, too: the sessionId of the memory tools is "{session}".')
    return "\n\n".join(parts)


def _matches_text(answer: TriggerAnswer) -> str:
    """The triggered memories and suggestions, as text for an agent."""
    parts = [_memory_text(match) for match in answer.matches]
    kinds = list(dict.fromkeys(suggestion.kind for suggestion in answer.suggestions))
    notes = [SUGGESTIONS[kind] for kind in kinds if kind in SUGGESTIONS]
    if not parts and not notes:
        return ""
    lines, length = [], 0
    for part in parts:
        if length + len(part) <= TEXT_LENGTH:
            lines.append(part)
            length += len(part)
    head = ["Memories that this message brings up (spec_kit_memory):"] if lines else []
    return "\n\n".join([*head, *lines, *notes])


def _memory_text(match: TriggeredMemory) -> str:
    why = ", ".join(match.phrases) or match.via or "linked"
    text = (match.content or match.summary or "").strip()
    if len(text) > MEMORY_LENGTH:
        text = text[:MEMORY_LENGTH].rsplit("\n", 1)[0].rstrip() + f"\n… memory_load {match.id} has the rest."
    line = f"- **{match.title}** (id {match.id}, {match.path}; {why})"
    return f"{line}\n{text}" if text else line
