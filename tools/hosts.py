"""Does the product work in the agents that people use? Real hosts, each driven through one whole turn.

    python -m tools.hosts                      Claude Code, Codex and Copilot CLI, as CI does
    python -m tools.hosts --all                OpenCode, Gemini CLI, Qwen Code and Cline as well
    python -m tools.hosts codex --keep DIR     one of them; its requests and files stay in DIR
    python -m tools.hosts cline --busy 16      on a machine under load
    python -m tools.hosts codex --slow 2       with a server that starts two seconds late
    python -m tools.hosts --all --page         writes docs/reference/compatibility.md from the results

Each host is installed from npm, pinned, into build/hosts. It runs with a clean environment and a temporary home, and
a scripted model replaces its own: no account, no network. An unreachable npm is reported, and fails the run only with
`--needed`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tools import compaction
from tools.packages import BUILD, Absent, install_from_npm, node
from tools.scripted_model import Call, Request, ScriptedModel
from tools.turns import excerpt, transcript

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "harbour-bikes"
TURN_SECONDS = 240
NODE_NEEDED = (20, 0)

# The prompt contains a trigger phrase of the example, so the hook has output for it.
PROMPT = "Before I touch it: why did we leave polling? The unlock timeout bites again."
# The hook asks the model to pass on the session's id; the search then does not repeat what the hook has sent.
SESSION = re.compile(r'Pass sessionId \\*"([^"\\]+)')
QUERY = {"query": "why did we leave polling", "sessionId": SESSION}
# The query in the words of the note, as the tool's description asks for; `explain` shows that the texts arrived.
ALSO = ("docks MQTT polling decision", "docks keep a connection instead of asking every five seconds")
HELPED = {**QUERY, "also": ALSO, "limit": 3, "explain": True}
RULE = "Nothing is deployed between Friday 12:00"
ANSWER = "Docks keep an MQTT connection"


# In an explained result, in JSON or in JSON within JSON: the relevance by the query and by each further text.
TEXTS = re.compile(r'\\*"texts\\*":\s*\[([^\]]+)\]')

# How the texts of our two hooks begin: at a session's start, and at the prompt.
HOOK_TEXTS = ("Remembered for this project (spec_kit_memory)", "Memories that this message brings up (spec_kit_memory)")


@dataclass(frozen=True)
class Stage:
    """The environment of one host: a temporary home and project, and the model that it uses."""

    home: Path
    project: Path
    model: str  # its address

    @property
    def environment(self) -> dict[str, str]:
        places = (Path(sys.executable).parent, node(NODE_NEEDED).parent, "/usr/local/bin", "/usr/bin", "/bin")
        return {
            "HOME": str(self.home),
            "PATH": ":".join(map(str, places)),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
        }

    def write(self, name: str, content: object) -> None:
        """Write a file of the host's own in its home."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


@dataclass(frozen=True)
class Host:
    name: str  # as `skm install` knows it
    title: str
    package: str
    program: str  # below node_modules
    command: Callable[[Stage], list[str]]
    environment: Callable[[Stage], Mapping[str, str]]
    prepare: Callable[[Stage], None] = lambda stage: None
    extra: tuple[str, ...] = ()  # packages that it would itself fetch from npm at its first start
    tools: int = 21  # how many of our tools it offers to its model at once
    channel: str = "text"
    hook: bool = True  # does the output of our prompt hook reach the model?
    copies: int = 1  # how often a text of ours is in a request: more than once if a host sends both channels
    plan: tuple[Call, ...] = (Call("memory_search", QUERY), Call("memory_search", HELPED))
    compaction: Callable[..., list[str]] | None = None  # for hosts that pass our hook's output to the summariser
    ci: bool = False


def _machine() -> str:
    return {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def _claude(stage: Stage) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": stage.model,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _codex(stage: Stage) -> None:
    stage.write(
        ".codex/config.toml",
        f'model = "scripted"\nmodel_provider = "scripted"\n\n[model_providers.scripted]\nname = "scripted"\n'
        f'base_url = "{stage.model}/v1"\nwire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n\n'
        f'[projects."{stage.project}"]\ntrust_level = "trusted"\n',
    )


def _trusted_by_copilot(stage: Stage) -> None:
    stage.write(".copilot/config.json", {"trusted_folders": [str(stage.project)]})


def _copilot(stage: Stage) -> dict[str, str]:
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{stage.model}/v1",
        "COPILOT_PROVIDER_API_KEY": "dummy",
        "COPILOT_MODEL": "scripted",
        "COPILOT_PROVIDER_WIRE_API": "completions",
    }


def _opencode(stage: Stage) -> None:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{stage.model}/v1", "apiKey": "dummy"},
        "models": {"scripted": {"name": "scripted"}},
    }
    stage.write(".config/opencode/opencode.json", {"provider": {"scripted": provider}, "model": "scripted/scripted"})
    # Before it loads a plugin, OpenCode installs this package from npm into each of its folders, and without a network
    # it waits minutes for that. This is the state after a first start.
    modules = BUILD / "hosts" / "opencode" / "node_modules"
    expected = {"dependencies": {"@opencode-ai/plugin": "1.18.33"}}
    for folder in (stage.home / ".config" / "opencode", stage.project / ".opencode"):
        package = folder / "node_modules" / "@opencode-ai" / "plugin"
        shutil.copytree(modules / "@opencode-ai" / "plugin", package)
        (folder / "package.json").write_text(json.dumps(expected), encoding="utf-8")
        (folder / "package-lock.json").write_text(json.dumps({"packages": {"": expected}}), encoding="utf-8")


def _gemini_settings(stage: Stage) -> None:
    stage.write(".gemini/settings.json", {"security": {"auth": {"selectedType": "gemini-api-key"}}})


def _gemini(stage: Stage) -> dict[str, str]:
    return {"GOOGLE_GEMINI_BASE_URL": stage.model, "GEMINI_API_KEY": "dummy", "GEMINI_CLI_TRUST_WORKSPACE": "true"}


def _qwen(stage: Stage) -> dict[str, str]:
    return {"OPENAI_BASE_URL": f"{stage.model}/v1", "OPENAI_API_KEY": "dummy", "OPENAI_MODEL": "scripted"}


def _cline(stage: Stage) -> None:
    program = install(next(host for host in HOSTS if host.name == "cline"))
    words = ["auth", "-p", "openai-compatible", "-k", "dummy", "-m", "scripted", "-b", f"{stage.model}/v1"]
    subprocess.run([*program, *words], env=stage.environment, capture_output=True, timeout=60, check=True)


HOSTS: tuple[Host, ...] = (
    Host(
        "claude-code",
        "Claude Code",
        "@anthropic-ai/claude-code@2.1.325",
        f"@anthropic-ai/claude-code-linux-{_machine()}/claude",
        lambda stage: ["-p", PROMPT, "--output-format", "stream-json", "--verbose", "--allowedTools",
                       "mcp__spec_kit_memory"],
        _claude,
        tools=3,
        channel="structured",
        compaction=compaction.claude_code,
        ci=True,
    ),
    Host(
        "codex",
        "Codex",
        "@openai/codex@0.166.0",
        ".bin/codex",
        lambda stage: ["exec", "--json", "--dangerously-bypass-approvals-and-sandbox",
                       "--dangerously-bypass-hook-trust", PROMPT],
        lambda stage: {"SCRIPTED_KEY": "dummy"},
        _codex,
        channel="structured",
        ci=True,
    ),
    Host(
        "copilot",
        "Copilot CLI",
        "@github/copilot@1.0.102",
        ".bin/copilot",
        lambda stage: ["-p", PROMPT, "--allow-all-tools"],
        _copilot,
        _trusted_by_copilot,
        channel="both, once where they are equal",
        ci=True,
    ),
    Host(
        "opencode",
        "OpenCode",
        "opencode-ai@1.18.33",
        f"opencode-linux-{_machine()}/bin/opencode",
        lambda stage: ["run", PROMPT],
        lambda stage: {},
        _opencode,
        extra=("@opencode-ai/plugin@1.18.33",),
        compaction=compaction.opencode,
    ),
    Host(
        "gemini",
        "Gemini CLI",
        "@google/gemini-cli@0.61.0",
        ".bin/gemini",
        lambda stage: ["-p", PROMPT, "--yolo"],
        _gemini,
        _gemini_settings,
    ),
    Host(
        "qwen",
        "Qwen Code",
        "@qwen-code/qwen-code@0.24.4",
        ".bin/qwen",
        lambda stage: ["-p", PROMPT, "--yolo"],
        _qwen,
        channel="both, once where they are equal",
        tools=0,
        # It offers tools only through its own tool search, which must find ours by an agent's likely query.
        plan=(
            Call("tool_search", {"query": "memory decisions"}),
            Call("tool_call", {"name": "mcp__spec_kit_memory__memory_search", "arguments": QUERY}),
            Call("tool_call", {"name": "mcp__spec_kit_memory__memory_search", "arguments": HELPED}),
        ),
    ),
    Host(
        "cline",
        "Cline",
        "cline@3.0.65",
        ".bin/cline",
        lambda stage: ["--auto-approve", "true", "-t", "120", PROMPT],
        lambda stage: {},
        _cline,
        channel="both",
        hook=False,
    ),
)  # fmt: skip


# --- installing -----------------------------------------------------------------------------


def install(host: Host) -> list[str]:
    """Install the host if necessary; returns its command."""
    modules = install_from_npm(BUILD / "hosts" / host.name, [host.package, *host.extra])
    if not (modules / host.program).exists():
        raise Absent(f"{host.package} has no {host.program} for this machine")
    return [str(modules / host.program)]


# --- one turn ---------------------------------------------------------------------------------


@dataclass
class Outcome:
    host: Host
    version: str = ""
    seconds: float = 0.0
    tools: int = 0
    tool_tokens: int = 0
    result: str = ""  # the tool's result as the model got it
    turn: str = ""  # how it went, as a short transcript
    texts: int = 0  # texts of `also` that the server searched with
    hooks: tuple[str, ...] = ()  # those of HOOK_TEXTS that reached the model
    hook_text: str = ""  # the output of the prompt's hook as the model got it
    summarised: str = ""  # the output of the compaction hook as the summariser got it
    faults: list[str] = field(default_factory=list)


@contextmanager
def staged(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(dir=keep))
        return
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Put the machine under load, to see that the server still starts within its host's timeout."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def delay_server(stage: Stage, folder: Path, seconds: float) -> None:
    """Replace our program in the host's configuration by one that does the same, but starts the server late."""
    ours, late = str(Path(sys.executable).parent / "skm"), folder / "late-skm"
    late.write_text(f'#!/bin/sh\ncase " $* " in *" serve "*) sleep {seconds};; esac\nexec "{ours}" "$@"\n')
    late.chmod(0o755)
    for name in [name for name, data in tree(folder).items() if f'"{ours}"'.encode() in data]:
        path = folder / name
        path.write_bytes(path.read_bytes().replace(f'"{ours}"'.encode(), f'"{late}"'.encode()))


def play(host: Host, *, keep: Path | None = None, slow: float = 0.0) -> Outcome:
    program = install(host)
    outcome = Outcome(host, version=host.package.rpartition("@")[2])
    with staged(keep) as folder, ScriptedModel(host.plan) as model:
        stage = Stage(folder / "home", folder / "project", model.url)
        stage.home.mkdir()
        shutil.copytree(EXAMPLE, stage.project, ignore=shutil.ignore_patterns("index.sqlite*"))
        subprocess.run(["git", "init", "-q"], cwd=stage.project, check=True)
        host.prepare(stage)
        skm(stage, "index")
        before = tree(folder)
        skm(stage, "install", host.name, "--yes")
        our_files = {name for name, data in tree(folder).items() if before.get(name) != data}
        if slow:
            delay_server(stage, folder, slow)
        started = time.monotonic()
        run(host, program, stage, outcome)
        outcome.seconds = time.monotonic() - started
        if keep is not None:
            (folder / "requests.json").write_text(
                json.dumps([request.body for request in model.requests]), encoding="utf-8"
            )
        outcome.faults += judge(host, model, outcome)
        if host.compaction and not outcome.faults and not slow:
            environment = stage.environment | dict(host.environment(stage))
            outcome.faults += host.compaction(
                program, environment=environment, project=stage.project, model=model, prompt=PROMPT
            )
            excerpts = (excerpt(request.body, compaction.KEEP) for request in model.requests)
            outcome.summarised = next(filter(None, excerpts), "")
        if slow:
            return outcome
        skm(stage, "uninstall", host.name, "--yes")
        after = tree(folder)
        outcome.faults += [f"uninstall left {name}" for name in sorted(our_files) if _is_left(name, before, after)]
    return outcome


def _is_left(name: str, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> bool:
    """Does a changed file still contain our entries? Other changes are a host's own, made while it ran."""
    return after.get(name) != before.get(name) and b"spec_kit_memory" in after.get(name, b"")


def skm(stage: Stage, *words: str) -> None:
    command = [sys.executable, "-m", "spec_kit_memory", "--workspace", str(stage.project), *words]
    done = subprocess.run(
        command, env=stage.environment, cwd=stage.project, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise RuntimeError(f"skm {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")


def run(host: Host, program: Sequence[str], stage: Stage, outcome: Outcome) -> None:
    environment = stage.environment | dict(host.environment(stage))
    try:
        done = subprocess.run(
            [*program, *host.command(stage)],
            env=environment,
            cwd=stage.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TURN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        outcome.faults.append(f"no end within {TURN_SECONDS} s")
        return
    if done.returncode:
        outcome.faults.append(f"exit {done.returncode}: {(done.stderr or done.stdout).strip()[-500:]}")


def judge(host: Host, model: ScriptedModel, outcome: Outcome) -> Iterator[str]:
    """Check the requests that reached the model; yields the faults."""
    turns = model.turns
    if not turns:
        offered = sorted({tool for request in model.requests for tool in request.tools})
        yield f"the planned tool was never offered; {len(model.requests)} requests offered {', '.join(offered)[:300]}"
        return
    our_tools = [tool for tool in turns[0].tools if "memory_" in tool or "checkpoint_" in tool]
    outcome.tools, outcome.tool_tokens = len(our_tools), _tokens_of_tools(turns[0])
    if len(our_tools) != host.tools:
        yield f"{len(our_tools)} tools of ours were offered, not {host.tools}"
    results = turns[-1].results
    if host.plan[0].tool == "tool_search" and not any("memory_search" in result for result in results[:1]):
        yield "the host's own search for tools did not find memory_search"
    explained_results = [result for result in results if TEXTS.search(result)]
    plain_results = [result for result in results if ANSWER in result and result not in explained_results]
    outcome.result = next(iter(plain_results), "")
    if len(plain_results) != 1:
        yield f"{ANSWER!r} is in {len(plain_results)} tool results, not in one"
    outcome.texts = max(
        (match[1].count(",") for result in explained_results for match in TEXTS.finditer(result)), default=0
    )
    if outcome.texts != len(ALSO):
        yield f"{outcome.texts} of {len(ALSO)} texts of `also` reached the server"
    received = [text for text in HOOK_TEXTS if text in without_tools(turns[0])]
    outcome.hooks = tuple(received)
    outcome.hook_text = excerpt(turns[0].body, HOOK_TEXTS[1])
    outcome.turn = transcript(turns, host.plan, prompt=PROMPT, hooks=HOOK_TEXTS, tools=outcome.tools)
    if host.hook and len(received) != len(HOOK_TEXTS):
        yield f"of what the hooks say only {received} reached the model"
    yield from (
        f"{text!r} reached the model {count} times"
        for text in (*(HOOK_TEXTS if host.hook else ()), RULE)
        if (count := without_tools(turns[-1]).count(text)) != host.copies
    )


def without_tools(request: Request) -> str:
    return json.dumps({key: value for key, value in request.body.items() if key != "tools"}, ensure_ascii=False)


def _tokens_of_tools(request: Request) -> int:
    declared = json.dumps(request.body.get("tools", []), ensure_ascii=False)
    parts = [part for part in declared.split('"name"') if "memory_" in part[:80] or "checkpoint_" in part[:80]]
    return sum(len(part.encode()) for part in parts) // 4


def tree(folder: Path) -> dict[str, bytes]:
    """The content of every file in home and project, except the index and caches."""
    skipped = {".git", ".spec-kit-memory", "node_modules", ".cache", ".npm", ".local"}
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and not skipped & set(path.relative_to(folder).parts)
    }


def played(host: Host, *, tries: int, keep: Path | None, burners: int, slow: float) -> Outcome:
    """Run a whole turn and print the result. It may be tried again, because hosts do not wait for a server on a busy
    machine."""
    for number in range(1, tries + 1):
        with busy(burners):
            outcome = play(host, keep=keep, slow=slow)
        verdict = "FAULT" if outcome.faults else "ok"
        print(
            f"{host.title:12} {outcome.version:10} {outcome.seconds:5.1f} s  {outcome.tools} tools, "
            f"{outcome.tool_tokens} tokens  {verdict}{f' at try {number}' if number > 1 else ''}",
            flush=True,
        )
        for fault in outcome.faults:
            print(f"    {fault}", flush=True)
        if not outcome.faults:
            break
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    # The empty list is a choice because argparse validates the default of `nargs="*"` too.
    parser.add_argument("names", nargs="*", choices=[*(host.name for host in HOSTS), []], metavar="HOST")
    parser.add_argument("--all", action="store_true", help="also the hosts that CI leaves out")
    parser.add_argument("--needed", action="store_true", help="fail where npm or a host is missing")
    parser.add_argument("--keep", type=Path, help="keep what was sent and written there")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="N processes compute all the while")
    parser.add_argument("--slow", type=float, default=0.0, metavar="SECONDS", help="the server starts this much later")
    parser.add_argument("--tries", type=int, default=1, metavar="N", help="a fault is believed when N turns have one")
    parser.add_argument("--page", action="store_true", help="write docs/reference/compatibility.md")
    arguments = parser.parse_args()
    chosen = [
        host for host in HOSTS if host.name in arguments.names or (not arguments.names and (arguments.all or host.ci))
    ]
    passed = failed = skipped = 0
    outcomes: list[Outcome] = []
    for host in chosen:
        try:
            outcome = played(
                host, tries=arguments.tries, keep=arguments.keep, burners=arguments.busy, slow=arguments.slow
            )
        except Absent as error:
            print(f"{host.title:12} not run: {error}", flush=True)
            skipped += 1
            failed += bool(arguments.needed)
            continue
        outcomes.append(outcome)
        passed, failed = passed + (not outcome.faults), failed + bool(outcome.faults)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    if arguments.page and outcomes and not failed:
        PAGE.write_text(page(outcomes, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 1 if failed else 0


PAGE = ROOT / "docs" / "reference" / "compatibility.md"
PAGE_HEAD = """\
# Hosts that were tried

<!-- Made by `python -m tools.hosts --all --page` from what was seen. -->

Each host was installed from npm, connected by `skm install`, and driven through one turn with a scripted model in \
place of its own: a prompt, a call of `memory_search`, one with two texts that say the same in other words (`also`), \
a final text, `skm uninstall`. What the model was sent was kept and looked at. *Tools* are those of ours that the \
host offers to its model at once, *tokens* what their declarations cost in each request (a quarter of their bytes), \
*answer* the tokens of the first search's result as the model got it, *also* how many of those two \
texts the server searched with.

| host | version | tools | tokens | answer | also | what reaches the model | hooks |
|---|---|---|---|---|---|---|---|
"""
PAGE_TAIL = """
Known limits:

- Claude Code puts all tools but `memory_context`, `memory_search` and `memory_save` behind a search of its own; Qwen \
Code does it with all of them. Its search finds `memory_search` by "memory decisions".
- Claude Code offers our tools only after it has heard of tools, prompts and resources, and `-p` does not wait long \
for that: all three are among the answers that are sent before anything heavy is imported.
- Codex, Copilot CLI and Gemini CLI read a project's configuration only in folders that are trusted (Qwen Code if its \
folder trust is switched on), and Codex asks before it runs new hooks.
- Cline gives a server three seconds and has no hooks that could add to a prompt.
- OpenCode has plugins instead of hooks. Before it loads the first one it fetches its own package \
`@opencode-ai/plugin` from npm into its folders, once; without a network it waits minutes for that.
- What *compaction* says reaches whoever writes the summary in Claude Code (driven on a terminal, `/compact`) and in \
OpenCode (asked through its server); after it both were told the rules again. The other hosts show it to the person.
- Cursor and VS Code cannot be run without their windows: their files are written as documented, and were not tried.

Client libraries, each with the same story (list, context, save, search, an error) on standard input and output and \
over HTTP, by `python -m tools.clients`: fastmcp 4.1.2, pydantic-ai 2.66.0, openai-agents 0.24.0, \
langchain-mcp-adapters 0.3.2, mcp-use 1.7.1.

## One turn of each host

What the host sent to the model (*host*: what our hooks added, the prompt, the results of the calls) and what the \
scripted model answered (*model*), in order, with long texts cut:

"""

PAGE_HOOKS = """## What a prompt's hook adds

The beginning of it, as it stood in the request that carried the prompt:

"""
PAGE_SUMMARY = """## What whoever writes the summary gets

"""


def _hooks(outcome: Outcome) -> str:
    if not outcome.hooks:
        return "none"
    return "session start, prompt" + (", compaction" if outcome.host.compaction else "")


def page(outcomes: Sequence[Outcome], before: str) -> str:
    """The page with the new results; hosts that were not run keep their row and texts."""
    by_title = {outcome.host.title: outcome for outcome in outcomes}
    titles = [host.title for host in HOSTS]
    rows = "".join(_row(by_title[title]) if title in by_title else _kept_row(title, before) for title in titles)

    def quotes(heading: str, text: Callable[[Outcome], str], length: int = 240) -> str:
        section = before.partition(heading.splitlines()[0])[2].partition("\n## ")[0]
        kept = {title: re.search(rf"\*\*{title}\*\*\n\n````text\n.*?\n````\n", section, re.DOTALL) for title in titles}
        return "".join(
            (_quoted(title, text(by_title[title]), length) if text(by_title[title]) else "")
            if title in by_title
            else (f"{quoted[0]}\n" if (quoted := kept[title]) else "")
            for title in titles
        )

    turns = quotes("## One turn of each host", lambda outcome: outcome.turn, 9_000)
    hooks = quotes(PAGE_HOOKS, lambda outcome: outcome.hook_text)
    summaries = quotes(PAGE_SUMMARY, lambda outcome: outcome.summarised, 900)
    return (PAGE_HEAD + rows + PAGE_TAIL + turns + PAGE_HOOKS + hooks + PAGE_SUMMARY + summaries).rstrip() + "\n"


def _row(outcome: Outcome) -> str:
    return (
        f"| {outcome.host.title} | {outcome.version} | {outcome.tools} | {outcome.tool_tokens:,} "
        f"| {len(outcome.result.encode()) // 4:,} | {outcome.texts} | {outcome.host.channel} "
        f"| {_hooks(outcome)} |\n"
    )


def _kept_row(title: str, before: str) -> str:
    row = next((line for line in before.splitlines() if line.startswith(f"| {title} |")), "")
    cells = row.strip("| ").split(" | ")
    if len(cells) == PAGE_HEAD.splitlines()[-1].count("---") - 1:  # from before the page had the column `also`
        cells.insert(5, "not tried")
    return f"| {' | '.join(cells)} |\n" if row else ""


def _quoted(title: str, text: str, length: int = 240) -> str:
    end = "…" if len(text) > length else ""
    # A fence of four backticks, because the text may contain one of three.
    return f"**{title}**\n\n````text\n{text[:length].rstrip()}{end}\n````\n\n"


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    sys.exit(main())
