"""What does the summarising model get from our hook when a host compacts a conversation?

Claude Code compacts only on a terminal, so it runs on a pseudo-terminal; OpenCode is driven through its server.
Both use the scripted model, whose requests show what the summariser received, and whether the session got its rules
again afterwards.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.scripted_model import Request, ScriptedModel

__all__ = ["claude_code", "opencode"]

STEP_SECONDS = 60.0
# Parts of our text for the summariser: its beginning, and what it must say about the session.
KEEP = "Keep in the summary: every decision with its reason"
USED = "Memories used so far"
SESSION = "the sessionId of the memory tools is"
REMEMBERED = "Remembered for this project"


def claude_code(
    program: Sequence[str], *, environment: Mapping[str, str], project: Path, model: ScriptedModel, prompt: str
) -> list[str]:
    """Type a prompt, `/compact` and another prompt into Claude Code; returns the faults."""
    _settle_claude(Path(environment["HOME"]), project)
    with _terminal(
        [*program, "--allowedTools", "mcp__spec_kit_memory"], environment=environment, project=project
    ) as type_line:
        begun = len(model.requests)
        if not _until(lambda: _typed(model, begun, prompt, type_line)):
            return ["Claude Code did not take a prompt on its terminal"]
        type_line("/compact")
        if not _until(lambda: any(KEEP in request.text for request in model.requests[begun:])):
            return ["no request to a summariser had our text"]
        faults = _missing(model.requests[begun:])
        after = len(model.requests)
        if not _until(lambda: _typed(model, after, prompt, type_line)):
            return [*faults, "Claude Code did not go on after the compaction"]
        return faults + _rules_missing(model.requests[after:])


def opencode(
    program: Sequence[str], *, environment: Mapping[str, str], project: Path, model: ScriptedModel, prompt: str
) -> list[str]:
    """Make OpenCode's server answer a prompt, summarise the session, and answer again; returns the faults."""
    words = [*program, "serve", "--port", "0", "--print-logs"]
    server = subprocess.Popen(
        words, env=dict(environment), cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert server.stdout
        url = next((word for line in server.stdout for word in line.split() if word.startswith("http://127.")), "")
        threading.Thread(target=server.stdout.read, daemon=True).start()
        session = _post(f"{url}/session", {})["id"]
        chosen = {"providerID": "scripted", "modelID": "scripted"}
        message = {"model": chosen, "parts": [{"type": "text", "text": prompt}]}
        _post(f"{url}/session/{session}/message", message)
        begun = len(model.requests)
        _post(f"{url}/session/{session}/summarize", chosen)
        faults = _missing(model.requests[begun:])
        after = len(model.requests)
        _post(f"{url}/session/{session}/message", message)
        return faults + _rules_missing(model.requests[after:])
    finally:
        server.terminate()
        server.wait(30)


def _missing(requests: Sequence[Request]) -> list[str]:
    text = next((request.text for request in requests if KEEP in request.text), "")
    if not text:
        return ["no request to a summariser had our text"]
    faults = [f"the summariser was not told {part!r}" for part in (USED, SESSION) if part not in text]
    return faults + ([f"the summariser got our text {text.count(KEEP)} times"] if text.count(KEEP) != 1 else [])


def _rules_missing(requests: Sequence[Request]) -> list[str]:
    """A fault if the next message does not bring the rules again, which a summary loses."""
    has_rules = any(REMEMBERED in request.text and request.tools for request in requests)
    return [] if has_rules else ["the session was not told its rules again after the compaction"]


def _post(url: str, body: object) -> dict[str, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=STEP_SECONDS) as answer:
        content = json.loads(answer.read() or b"{}")
    return content if isinstance(content, dict) else {}


# --- a terminal ------------------------------------------------------------------------------


def _settle_claude(home: Path, project: Path) -> None:
    """Store the answers of a first start: theme, API key, trust, and approval of the project's server."""
    path = home / ".claude.json"
    state = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    answers = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    state |= {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
        "projects": {str(project): {**answers, "enabledMcpjsonServers": ["spec_kit_memory"]}},
    }
    path.write_text(json.dumps(state), encoding="utf-8")


def _until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + STEP_SECONDS
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.25)
    return False


def _typed(model: ScriptedModel, since: int, prompt: str, type_line: Callable[[str], None]) -> bool:
    """Type the prompt; True if it reached the model. The caller retries: a terminal that is not ready drops input."""
    if any(prompt in request.text and request.tools for request in model.requests[since:]):
        return True
    type_line(prompt)
    deadline = time.monotonic() + 8
    while time.monotonic() < deadline:
        if any(prompt in request.text and request.tools for request in model.requests[since:]):
            return True
        time.sleep(0.2)
    return False


@contextmanager
def _terminal(
    words: Sequence[str], *, environment: Mapping[str, str], project: Path
) -> Iterator[Callable[[str], None]]:
    """Run a program on a pseudo-terminal; yields a function that types a line there."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    process = subprocess.Popen(
        words,
        env={**environment, "TERM": "xterm-256color"},
        cwd=project,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    threading.Thread(target=_drain, args=(controller,), daemon=True).start()

    def type_line(text: str) -> None:
        os.write(controller, text.encode())
        time.sleep(0.5)  # without a pause, the line would be taken for pasted text
        os.write(controller, b"\r")

    try:
        yield type_line
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        os.close(controller)


def _drain(descriptor: int) -> None:
    """Read and discard the output, because a program blocks when the terminal's buffer is full."""
    try:
        while os.read(descriptor, 65_536):
            pass
    except OSError:
        return
