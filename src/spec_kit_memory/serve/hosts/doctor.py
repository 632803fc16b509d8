"""What would an agent's host see of this server, and what has to be fixed? Checked from outside, as the host does.

Configuration, program, handshake, tools and hooks are tested in turn, with the settings in the host's own files.
Nothing is changed. The user's own configuration may name any program. A project's may have come with a clone, and could
name any program, or ours with any command and variables. So that one is run only if the entry sets no variables, and
either its words are those that install writes or the file is as our install left it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from spec_kit_memory import programs, settings
from spec_kit_memory.answers import Answer
from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.serve.cli.answer_view import Block, Line
from spec_kit_memory.serve.hosts import approval, edits, install_record
from spec_kit_memory.serve.hosts.formats import (
    SERVER,
    ConfigEntry,
    File,
    Host,
    HostPlace,
    argv,
    content_of,
    hooks_of_group,
    named_workspace,
    our_hooks,
    starts_us,
)

ANSWER_SECONDS = 30.0
NOT_RUN = ", which is not run: the file may have come with the project"
STOP_SECONDS = 5.0  # for a server to exit after its input was closed
PATIENCE_SECONDS = 3.0  # the shortest time that a known host waits for a server
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "skm doctor", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST_TOOLS = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
# A cheap call that writes nothing.
CALL = {
    "jsonrpc": "2.0",
    "id": 3,
    "method": "tools/call",
    "params": {"name": "memory_match_triggers", "arguments": {"prompt": "skm doctor"}},
}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check; `mend` says what to do if it failed."""

    about: str
    ok: bool
    detail: str
    mend: str = ""


@dataclass(frozen=True, kw_only=True)
class Diagnosis(Answer):
    """The findings about one host."""

    host: str
    scope: str
    ok: bool
    findings: tuple[Finding, ...]


def diagnose(host: Host, *, root: Path, scope: str | None = None) -> Diagnosis:
    """Run all checks against the host's configuration; without a `scope`, in the one where we are connected."""
    places = [HostPlace(root, candidate, os.environ) for candidate in ("project", "user") if scope in (None, candidate)]
    place = next((candidate for candidate in places if _find_entry(host, candidate)[1] is not None), places[0])
    findings = tuple(_all_findings(host, place))
    bad = [finding for finding in findings if not finding.ok]
    state = "everything is in order" if not bad else f"{len(bad)} of {len(findings)} checks failed"
    return Diagnosis(
        outcome=f"{host.title}, {place.scope}: {state}",
        advice=tuple(dict.fromkeys(finding.mend for finding in bad if finding.mend)),
        host=host.name,
        scope=place.scope,
        ok=not bad,
        findings=findings,
    )


def _all_findings(host: Host, place: HostPlace) -> Iterator[Finding]:
    again = f"skm install {host.name}" + (" --scope user" if place.scope == "user" else "")
    file, entry = _find_entry(host, place)
    configuration = _configuration(file, entry, again)
    yield configuration
    if not configuration.ok:
        return
    yield from _under_other_names(file, place)
    command = [word.replace("${workspaceFolder}", str(place.root)) for word in argv(entry)]
    if not may_start_server(command, _variables(entry), file, host, place):
        where = f"{file.path if file else ''} names `{shlex.join(command)}`"
        yield Finding("program", False, f"{where}{NOT_RUN}", f"Run `{again}`: it names the skm that you use.")
        return
    runs = _program(command, again)
    yield runs
    if runs.ok:
        yield from _server(command, entry, place)
        yield _path(command[0])
    yield _workspace(entry, place, again)
    for decision in approval.decisions(host.name, place):
        yield Finding("approval", not decision.mend, decision.detail, decision.mend)
    yield from _hooks(host, place, again)


def _configuration(file: File | None, entry: Any, again: str) -> Finding:
    """Is our server in the host's file, in a form that the host can start, and not switched off?"""
    about = "configuration"
    where = str(file.path) if file else "its configuration"
    problem = edits.problem_of(file) if file else ""
    if problem:
        return Finding(about, False, f"{where} {problem}", f"Correct the file, then run `{again}`.")
    if entry is None:
        return Finding(about, False, f"{where} has no server {SERVER}", f"Run `{again}`.")
    if not argv(entry):
        return Finding(about, False, f"{where} names no program for {SERVER}", f"Run `{again}`.")
    if entry.get("enabled") is False or entry.get("disabled") is True:
        return Finding(about, False, f"{where} has {SERVER} switched off", "Switch it on there, or in the host.")
    return Finding(about, True, f"{where} has the server {SERVER}")


def _under_other_names(file: File | None, place: HostPlace) -> Iterator[Finding]:
    """Entries beside ours that start the same server for the same project: the host has every tool twice then."""
    paths = [entry.path for entry in file.entries if entry.path[-1] == SERVER] if file else []
    for path in paths:
        servers = edits.entry_in(file, path[:-1]) if file else None
        for name, entry in servers.items() if isinstance(servers, dict) else ():
            workspace = named_workspace(entry) or str(place.root)
            is_same = "${" in workspace or Path(workspace).resolve() == place.root.resolve()
            if name != SERVER and starts_us(argv(entry)) and is_same:
                detail = f"{name} in {file.path if file else ''} starts the same server, so every tool is there twice"
                yield Finding("other entry", False, detail, f"Take {name} out of that file.")


def _workspace(entry: Any, place: HostPlace, again: str) -> Finding:
    """Does the entry name this project? An entry in a copied folder, or made elsewhere, names another one."""
    root, configured = place.root.resolve(), named_workspace(entry)
    if configured and "${" not in configured and Path(configured).resolve() != root:
        missing = "" if Path(configured).is_dir() else ", which is not there"
        return Finding("workspace", False, f"the entry names {configured}{missing}, not {root}", f"Run `{again}` here.")
    if not settings.load(root).may_have_index:
        return Finding("workspace", False, f"{root} has no index yet: hooks say nothing", "Run `skm index` there.")
    return Finding("workspace", True, str(root))


def _find_entry(host: Host, place: HostPlace) -> tuple[File | None, Any]:
    """The host's current entry for our server, with its file; the first file that could have it if none does."""
    first: tuple[File, ConfigEntry] | None = None
    for file in host.files(place):
        for entry in file.entries:
            if entry.path[-1] == SERVER:
                first = first or (file, entry)
                value = edits.entry_in(file, entry.path)
                if value is not None:
                    return file, value
    return (first[0] if first else None), None


def _program(command: Sequence[str], again: str) -> Finding:
    """Can the command before `serve` be run, and is it this program?"""
    words = list(command[: command.index("serve")]) if "serve" in command else list(command[:1])
    mend = f"Run `{again}` with the skm you use."
    try:
        environment = os.environ | SAFE_PATH
        result = subprocess.run(
            [*words, "--version"], capture_output=True, text=True, timeout=60, check=False, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        missing_interpreter = isinstance(error, FileNotFoundError) and Path(words[0]).exists()
        reason = "the interpreter that its first line names is not there" if missing_interpreter else error
        return Finding("program", False, f"{words[0]} cannot be run: {reason}", mend)
    output_lines = (result.stdout or result.stderr).strip().splitlines()
    ok = result.returncode == 0 and bool(output_lines) and output_lines[-1].startswith("spec-kit-memory")
    return Finding(
        "program", ok, f"{words[0]}: {output_lines[-1] if output_lines else 'no answer'}", "" if ok else mend
    )


def _path(program: str) -> Finding:
    """Is the `skm` that a person types the same program as the one in the entry?"""
    typed = programs.find("skm", os.environ)
    if typed is None:
        return Finding("PATH", True, "skm is not on PATH; the host does not need it there")
    same = Path(typed).resolve() == Path(program).resolve() or not Path(program).name.startswith("skm")
    mend = "" if same else "Uninstall one of the two, or run `skm install` again with the one you mean."
    return Finding("PATH", same, f"skm on PATH is {typed}", mend)


def _server(command: Sequence[str], entry: Any, place: HostPlace) -> Iterator[Finding]:
    messages: list[Mapping[str, Any]] = [INITIALIZE, INITIALIZED, LIST_TOOLS]
    if settings.load(place.root).may_have_index:  # otherwise a call would create one
        messages.append(CALL)
    try:
        answers = _answers(command, _environment(entry), messages, place)
    except OSError as error:
        yield Finding("handshake", False, f"the server cannot be started: {error}", "Run `skm health` in the project.")
        return
    first, listed = answers.get(INITIALIZE["id"]), answers.get(LIST_TOOLS["id"])
    if first is None or listed is None or "isError" in first.result:
        yield Finding(
            "handshake", False, f"the server did not answer: {answers.last_words}", "Run `skm health` in the project."
        )
        return
    quick = first.seconds <= PATIENCE_SECONDS
    version = first.result.get("serverInfo", {}).get("version", "?")
    mend = "" if quick else f"Some hosts give up after {PATIENCE_SECONDS:.0f} s: is the disk slow or full?"
    yield Finding("handshake", quick, f"version {version} answered after {first.seconds * 1000:.0f} ms", mend)
    names = {str(tool.get("name")) for tool in listed.result.get("tools", [])}
    missing = {"memory_context", "memory_search", "memory_save"} - names
    yield Finding(
        "tools",
        not missing,
        f"{len(names)} tools" + (f", without {', '.join(sorted(missing))}" if missing else ""),
        "Run `skm --version`: another program answers." if missing else "",
    )
    if CALL in messages:
        yield _call(answers, command, entry, place)


def _call(answers: Answers, command: Sequence[str], entry: Any, place: HostPlace) -> Finding:
    """The handshake is answered before anything is opened; only a tool call shows whether the server works."""
    call = answers.get(CALL["id"])
    if call is None:
        mend = "Run the configured command by hand: it says what is wrong."
        return Finding("first call", False, f"the server did not answer: {answers.last_words}", mend)
    if not call.result.get("isError"):
        return Finding("first call", True, f"answered after {call.seconds * 1000:.0f} ms")
    text = "".join(str(part.get("text", "")) for part in call.result.get("content", []))
    try:
        error = json.loads(text)
        detail = f"{error['code']}: {error['message']}"
    except (ValueError, KeyError, TypeError):
        return Finding("first call", False, text, "Run `skm health` in the project.")
    mend = _hint_of_command(command, entry, place, code=error["code"]) or str(error.get("hint") or "")
    return Finding("first call", False, detail, (mend[:1].upper() + mend[1:]) or "Run `skm health` in the project.")


def _hint_of_command(command: Sequence[str], entry: Any, place: HostPlace, *, code: str) -> str:
    """What the command that does the same says to do: the server speaks to a model, the command to a person. Empty if
    it does not fail with the same code."""
    if "serve" not in command:
        return ""
    named = named_workspace({"command": list(command)})
    words = [*command[: command.index("serve")], "triggers", "skm doctor", "--json"]
    try:
        result = subprocess.run(
            [*words, "--workspace", named] if named else words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=False,
            cwd=place.root,
            env=_environment(entry),
        )
        error = json.loads(result.stdout)["error"]
        return str(error["hint"] or "") if error["code"] == code else ""
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError):
        return ""


def _environment(entry: Any) -> dict[str, str]:
    """Our own environment, with the variables that the host's entry adds."""
    return {**os.environ, **SAFE_PATH, **_variables(entry)}


def _variables(entry: Any) -> dict[str, str]:
    added = entry.get("env") or entry.get("environment") or entry.get("transport", {}).get("env")
    pairs = added.items() if isinstance(added, dict) else ()
    return {key: value for key, value in pairs if isinstance(value, str) and "${" not in value}


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    result: dict[str, Any]
    seconds: float


@dataclasses.dataclass(slots=True)
class Answers:
    """A server's answers by request id, and the last line of its standard error if it left some unanswered."""

    by_id: dict[int, ServerAnswer]
    last_words: str = ""

    def get(self, request_id: Any) -> ServerAnswer | None:
        return self.by_id.get(request_id)


def _answers(
    command: Sequence[str], environment: Mapping[str, str], messages: Sequence[Mapping[str, Any]], place: HostPlace
) -> Answers:
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place.root,
        env=environment,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    error_lines: deque[bytes] = deque(maxlen=20)
    stderr_reader = threading.Thread(target=error_lines.extend, args=(process.stderr,), daemon=True)
    # A program that does not answer is killed, which also ends the reading below.
    deadline = threading.Timer(ANSWER_SECONDS, _kill, (process,))
    deadline.daemon = True
    answers = Answers({})
    unanswered = {message["id"] for message in messages if "id" in message}
    try:
        stderr_reader.start()
        deadline.start()
        with suppress(BrokenPipeError):  # it has exited already; its standard error is read below
            process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
            process.stdin.flush()
        for line in process.stdout:
            with suppress(ValueError, AttributeError, KeyError, TypeError):
                message = json.loads(line)
                result = message["result"] if "result" in message else _refusal(message["error"])
                unanswered.remove(message["id"])
                answers.by_id[message["id"]] = ServerAnswer(result, time.monotonic() - started)
            if not unanswered:
                break
    finally:
        deadline.cancel()
        with suppress(BrokenPipeError):
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        _kill(process)
        stderr_reader.join(STOP_SECONDS)
        process.stdout.close()
        if not stderr_reader.is_alive():
            process.stderr.close()
    if unanswered:
        error_texts = [line.decode("utf-8", "replace").strip() for line in list(error_lines) if line.strip()]
        timed_out = time.monotonic() - started >= ANSWER_SECONDS
        fallback = f"nothing within {ANSWER_SECONDS:.0f} s" if timed_out else "it ended without a word"
        answers.last_words = error_texts[-1] if error_texts and not timed_out else fallback
    return answers


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and its children, which would keep its output open."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()


def _refusal(error: Mapping[str, Any]) -> dict[str, Any]:
    return {"isError": True, "content": [{"text": str(error.get("message", error))}]}


def _hooks(host: Host, place: HostPlace, again: str) -> Iterator[Finding]:
    """Run each hook of ours in the host's files with an empty event: it must succeed, and in time."""
    for file in host.files(place):
        if file.path.suffix == ".js":
            yield _plugin(file, place, again)
        for entry in file.entries:
            if entry.mode != "item":
                continue
            event = entry.path[-1]
            ours = our_hooks(edits.entry_in(file, entry.path))
            command = next((hook["command"] for item in ours for hook in hooks_of_group(item) or [item]), None)
            if command is None:
                yield Finding(f"hook {event}", False, f"{file.path} does not run us", f"Run `{again}`.")
                continue
            try:
                words = shlex.split(command)
            except ValueError as error:
                yield Finding(f"hook {event}", False, f"{command} cannot be read: {error}", f"Run `{again}`.")
                continue
            if may_run_hook(words, file, host, place):
                yield _hook(event, words, place)
            else:
                where = f"{file.path} names `{command}`"
                mend = f"Run `{again}`: it names the skm that you use."
                yield Finding(f"hook {event}", False, f"{where}{NOT_RUN}", mend)


def _plugin(file: File, place: HostPlace, again: str) -> Finding:
    """OpenCode's hooks are a plugin: is its file as this version would write it, and does its program run?"""
    try:
        text = content_of(file.path).decode()
    except (OSError, UnicodeDecodeError):
        return Finding("hook plugin", False, f"{file.path} is not there", f"Run `{again}`.")
    if text != file.text:
        return Finding("hook plugin", False, f"{file.path} is of another version or program", f"Run `{again}`.")
    return _hook("plugin", shlex.split(place.hook("session-start", "opencode")), place)


def _hook(event: str, words: Sequence[str], place: HostPlace) -> Finding:
    started = time.monotonic()
    stdin = json.dumps({"cwd": str(place.root)}).encode()
    try:
        result = subprocess.run(
            words,
            input=stdin,
            capture_output=True,
            timeout=ANSWER_SECONDS,
            check=False,
            cwd=place.root,
            env=os.environ | SAFE_PATH,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(f"hook {event}", False, f"cannot be run: {error}", "Run `skm install` again.")
    error_lines = result.stderr.decode("utf-8", "replace").strip().splitlines()
    ok = result.returncode == 0 and not error_lines
    detail = f"ends after {(time.monotonic() - started) * 1000:.0f} ms" + (
        f": {error_lines[-1]}" if error_lines else ""
    )
    return Finding(f"hook {event}", ok, detail, "" if ok else "Run `skm health` in the project.")


def blocks(diagnosis: Diagnosis) -> Iterator[Block]:
    yield Line(diagnosis.summary, "good" if diagnosis.ok else "bad")
    for finding in diagnosis.findings:
        yield Line(f"{'ok ' if finding.ok else 'BAD'} {finding.about}: {finding.detail}", "" if finding.ok else "bad")
        if finding.mend:
            yield Line(f"    {finding.mend}", "hint")


# For an interpreter that is started in the project, so that it imports no module of the project instead of ours.
SAFE_PATH = {"PYTHONSAFEPATH": "1"}


def may_start_server(
    command: Sequence[str], variables: Mapping[str, str], file: File | None, host: Host, place: HostPlace
) -> bool:
    rest = _after_our_program(command, place)
    is_plain = rest[:1] == ["serve"] and (len(rest) == 1 or (len(rest) == 3 and rest[1] == "--workspace"))
    if file is None or not place.may_have_come_with_project(file.path):
        return True
    return not variables and (is_plain or _is_as_installed(file, host, place))


def may_run_hook(words: Sequence[str], file: File, host: Host, place: HostPlace) -> bool:
    rest = _after_our_program(words, place)
    is_plain = len(rest) == 4 and rest[0] == "hook" and rest[2] == "--host"
    is_plain = is_plain and not any(rest[at].startswith("-") for at in (1, 3))
    return is_plain or not place.may_have_come_with_project(file.path) or _is_as_installed(file, host, place)


def _after_our_program(words: Sequence[str], place: HostPlace) -> list[str]:
    """The arguments after our program; empty if another program is named."""
    program = place.command
    program_path = programs.find(words[0], place.environ) if words else None
    is_ours = program_path is not None and (program_path, *words[1 : len(program)]) == program
    return list(words[len(program) :]) if is_ours else []


def _is_as_installed(file: File, host: Host, place: HostPlace) -> bool:
    written = install_record.read(host.name, place).files.get(file.path)
    try:
        return written is not None and written.after == install_record.digest(content_of(file.path))
    except OSError:
        return False
