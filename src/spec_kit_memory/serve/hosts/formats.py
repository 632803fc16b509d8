"""Where does each host keep servers, slash commands and hooks, and in which form?

For each host, a function returns the files of an install: entries in JSON or TOML files that we share with other
programs, and files that are entirely ours. docs/how-to/connect-an-agent.md has the source and date of each fact.
"""

from __future__ import annotations

import errno
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from spec_kit_memory import filesystem, programs
from spec_kit_memory.core import jsonc
from spec_kit_memory.filesystem import Place
from spec_kit_memory.serve.hosts import slash_commands

SERVER = "spec_kit_memory"
# Long enough for a first run on a cold disk, short enough not to look like a hang.
HOOK_SECONDS = 10

# Event names of hosts, and our names for them. Codex, Qwen Code, VS Code and Copilot CLI use Claude Code's.
CLAUDE_EVENTS: Mapping[str, str] = {
    "UserPromptSubmit": "prompt",
    "SessionStart": "session-start",
    "PreCompact": "pre-compact",
    "SessionEnd": "session-end",
}
GEMINI_EVENTS: Mapping[str, str] = {
    "BeforeAgent": "prompt",
    "SessionStart": "session-start",
    "PreCompress": "pre-compact",
    "SessionEnd": "session-end",
}

Scope = Literal["project", "user"]


_LARGEST = 64_000_000  # Claude Code keeps a history in its own, of megabytes


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One value in a shared file. `item` is appended to an array; `default` is written only if the path is unset."""

    path: tuple[str, ...]
    value: Any
    mode: Literal["member", "item", "default"] = "member"


@dataclass(frozen=True, slots=True)
class File:
    path: Path
    form: Literal["json", "toml", "text"]
    entries: tuple[ConfigEntry, ...] = ()
    text: str = ""  # of a file that is entirely ours
    of_project: bool = False  # it may have come with a clone, so not everything in our entries is kept


@dataclass(frozen=True, slots=True)
class HostPlace:
    """The project, the scope of the configuration, and the environment of this machine."""

    root: Path
    scope: Scope
    environ: Mapping[str, str]
    platform: str = sys.platform
    removing: bool = False  # for an uninstall: cover every form that an install may have written

    @property
    def home(self) -> Path:
        home = self.environ.get("HOME") or self.environ.get("USERPROFILE")
        return Path(home) if home else Path.home()

    @property
    def base(self) -> Path:
        return self.root if self.scope == "project" else self.home

    def may_have_come_with_project(self, path: Path) -> bool:
        """True for files in the project; all others are the user's own."""
        return self.scope == "project" and path.is_relative_to(self.root)

    def folder(self, variable: str, name: str) -> Path:
        """A host's folder: in the project, or the user's own, which an environment variable may relocate."""
        moved = self.environ.get(variable)
        return Path(moved).expanduser() if moved and self.scope == "user" else self.base / name

    @property
    def config_home(self) -> Path:
        return Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")

    @property
    def command(self) -> tuple[str, ...]:
        """The command that starts us, with its full path: a host may run with another PATH, and hooks must run the
        same installation as the server."""
        for name in ("skm", "spec-kit-memory"):
            if program := programs.find(name, self.environ):
                return (program,)
        # -P: a host starts us in a project, whose own spec_kit_memory/ or click.py would be run in place of ours.
        return (sys.executable, "-P", "-m", "spec_kit_memory")

    def serve(self, *workspace: str) -> list[str]:
        more = ("--workspace", *workspace) if workspace else ()
        return [*self.command, "serve", *more]

    def hook(self, event: str, host: str) -> str:
        """A hook's command line: the same program as the server's."""
        program, *rest = self.command
        quoted = f'"{program}"' if self.platform == "win32" else shlex.quote(program)
        return " ".join((quoted, *rest, "hook", event, "--host", host))


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    title: str
    files: Callable[[HostPlace], list[File]]
    commands: str  # how a slash command is typed in this host
    notes: Callable[[HostPlace], list[str]] = lambda place: []


def content_of(file: Path | Place) -> bytes:
    """What a host's file holds. One that came with a project may be a pipe or a device, which would never end."""
    place = file if isinstance(file, Place) else Place.of(Path(os.path.realpath(file)))
    data, _ = filesystem.read(place, limit=_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(errno.EFBIG, f"it is larger than {_LARGEST:,} bytes", str(file))
    return data


def is_ours(value: Any) -> bool:
    """Is this item of a list of hooks entirely ours, written by any version of us?"""
    if not isinstance(value, dict):
        return False
    command = value.get("command")
    if isinstance(command, str) and " hook " in command and ("spec_kit_memory" in command or _named(command)):
        return True
    return bool(grouped := hooks_of_group(value)) and all(is_ours(hook) for hook in grouped)


def hooks_of_group(item: Any) -> list[Any]:
    """The hooks in a group; a host may add the user's own hooks to a group of ours."""
    hooks = item.get("hooks") if isinstance(item, dict) else None
    return hooks if isinstance(hooks, list) else []


def our_hooks(items: Any) -> list[Any]:
    """Our hooks in a list: whole items, and single hooks from groups that also have others."""
    listed = items if isinstance(items, list) else []
    return [hook for item in listed for hook in ([item] if is_ours(item) else filter(is_ours, hooks_of_group(item)))]


def argv(entry: Any) -> list[str]:
    """A server's command line, from any host's form of entry; empty if the entry has none."""
    launch = entry.get("transport", entry) if isinstance(entry, dict) else None
    if not isinstance(launch, dict):
        return []
    command, more = launch.get("command"), launch.get("args", [])
    words: list[Any] = command if isinstance(command, list) else [command]
    words = [*words, *more] if isinstance(more, list) else []
    return words if words and words[0] and all(isinstance(word, str) for word in words) else []


def named_workspace(entry: Any) -> str | None:
    """The project that a server's entry names; None if it serves the one it is started in."""
    words = [part for word in argv(entry) for part in word.split("=", word.startswith("--workspace="))]
    return next((words[at + 1] for at, word in enumerate(words[:-1]) if word == "--workspace"), None)


def starts_us(words: Sequence[str]) -> bool:
    """Does this command line start our server, however it was installed?"""
    return "serve" in words and ("spec_kit_memory" in words or any(map(_named, words[: words.index("serve")])))


def _named(command: str) -> bool:
    program = os.path.basename(command.split(" hook ", 1)[0].strip("\"' ")).removesuffix(".exe")
    return program in ("skm", "spec-kit-memory")


def _launch(argv: list[str]) -> dict[str, Any]:
    return {"command": argv[0], "args": argv[1:]}


def _nested_hooks(place: HostPlace, host: str) -> tuple[ConfigEntry, ...]:
    """Claude Code's form: an event has groups, and a group has hooks."""
    return _hooks_of(place, host, CLAUDE_EVENTS, timeout=HOOK_SECONDS)


def _hooks_of(place: HostPlace, host: str, events: Mapping[str, str], *, timeout: int) -> tuple[ConfigEntry, ...]:
    return tuple(
        ConfigEntry(
            ("hooks", name),
            {"hooks": [{"type": "command", "command": place.hook(event, host), "timeout": timeout}]},
            "item",
        )
        for name, event in events.items()
    )


def _skills(folder: Path, *, manual: bool) -> list[File]:
    return [
        File(
            folder / f"memory-{command.name}" / "SKILL.md",
            "text",
            text=slash_commands.skill_file(command, manual=manual),
        )
        for command in slash_commands.COMMANDS
    ]


# --- Claude Code ---------------------------------------------------------------------------------


def _claude_code(place: HostPlace) -> list[File]:
    folder = place.folder("CLAUDE_CONFIG_DIR", ".claude")
    if place.scope == "project":
        servers = place.root / ".mcp.json"
    else:
        relocated = place.environ.get("CLAUDE_CONFIG_DIR")
        servers = (Path(relocated).expanduser() if relocated else place.home) / ".claude.json"
    return [
        # Claude Code starts servers in the project, so the entry need not name it.
        File(servers, "json", (ConfigEntry(("mcpServers", SERVER), {"type": "stdio", **_launch(place.serve())}),)),
        File(folder / "settings.json", "json", _nested_hooks(place, "claude-code")),
        *(
            File(
                folder / "commands" / "memory" / f"{command.name}.md",
                "text",
                text=slash_commands.command_file(command, arguments="$ARGUMENTS", hint_key="argument-hint"),
            )
            for command in slash_commands.COMMANDS
        ),
    ]


def _claude_notes(place: HostPlace) -> list[str]:
    at_calls = "At the first call of a tool it asks: choose yes, and don't ask again."
    if place.scope == "user":
        return [at_calls.replace("it", "Claude Code", 1)]
    return [
        "Claude Code asks once whether to use the server of .mcp.json: choose yes for this and future servers.",
        at_calls,
        f".mcp.json names {place.command[0]}: leave it out of git where others have it elsewhere, or use --scope user.",
    ]


# --- Codex -------------------------------------------------------------------------------------


def _codex(place: HostPlace) -> list[File]:
    folder = place.folder("CODEX_HOME", ".codex")
    # The Codex app and its extensions start servers outside the project, so the entry names it.
    argv = place.serve(str(place.root)) if place.scope == "project" else place.serve()
    return [
        File(folder / "config.toml", "toml", (ConfigEntry(("mcp_servers", SERVER), _launch(argv)),)),
        File(folder / "hooks.json", "json", _nested_hooks(place, "codex")),
        # Codex has replaced its own prompt files with skills.
        *_skills(place.base / ".agents" / "skills", manual=False),
    ]


def _codex_notes(place: HostPlace) -> list[str]:
    if place.scope == "user":
        return ["Codex asks once whether to trust new hooks."]
    return [
        "Codex reads .codex/ only in projects you trust, and asks once whether to trust new hooks.",
        f".codex/config.toml names {place.root}: leave it out of git, or use --scope user.",
    ]


# --- Cursor ------------------------------------------------------------------------------------


def _cursor(place: HostPlace) -> list[File]:
    folder = place.base / ".cursor"
    events = {
        "beforeSubmitPrompt": "prompt",
        "sessionStart": "session-start",
        "preCompact": "pre-compact",
        "sessionEnd": "session-end",
    }
    hooks = tuple(
        ConfigEntry(("hooks", name), {"command": place.hook(event, "cursor"), "timeout": HOOK_SECONDS}, "item")
        for name, event in events.items()
    )
    # Cursor does not start servers in the project, but expands this variable.
    launch = _launch(place.serve("${workspaceFolder}"))
    return [
        File(folder / "mcp.json", "json", (ConfigEntry(("mcpServers", SERVER), launch),)),
        File(folder / "hooks.json", "json", (ConfigEntry(("version",), 1, "default"), *hooks)),
        *_skills(folder / "skills", manual=True),
    ]


def _cursor_notes(place: HostPlace) -> list[str]:
    return [
        "Cursor asks before it uses a new server and before a tool runs: enable spec_kit_memory, and allow its tools."
    ]


# --- OpenCode ----------------------------------------------------------------------------------


def _opencode(place: HostPlace) -> list[File]:
    project = place.scope == "project"
    folder = place.root if project else place.config_home / "opencode"
    config = next((folder / name for name in ("opencode.jsonc", "opencode.json") if (folder / name).exists()), None)
    value: dict[str, Any] = {"type": "local", "command": place.serve()}
    if config is not None and _has_nested_servers(config):
        entry = ConfigEntry(("mcp", "servers", SERVER), value)
    else:
        # Version 2 reads this older form as well; version 1 refuses the newer one.
        entry = ConfigEntry(("mcp", SERVER), {**value, "enabled": True})
    schema = ConfigEntry(("$schema",), "https://opencode.ai/config.json", "default")
    commands = (place.root / ".opencode" if project else folder) / "commands"
    entries: tuple[ConfigEntry, ...] = (entry,) if config else (schema, entry)
    if place.removing:
        entries = (schema, *(ConfigEntry((*path, SERVER), value) for path in (("mcp", "servers"), ("mcp",))))
    plugins = (place.root / ".opencode" if project else folder) / "plugins"
    return [
        File(config or folder / "opencode.json", "json", entries),
        File(plugins / "spec-kit-memory.js", "text", text=_opencode_plugin(place)),
        *(
            File(
                commands / f"memory-{command.name}.md",
                "text",
                text=slash_commands.command_file(command, arguments="$ARGUMENTS"),
            )
            for command in slash_commands.COMMANDS
        ),
    ]


def _opencode_plugin(place: HostPlace) -> str:
    """OpenCode's form of hooks, with the same program as the server's."""
    text = Path(__file__).with_name("opencode_plugin.js").read_text(encoding="utf-8")
    return text.replace('["skm"]', json.dumps(place.command, ensure_ascii=False), 1)


def _opencode_notes(place: HostPlace) -> list[str]:
    return [
        "OpenCode asks nothing: it trusts the project's configuration and runs tools as your permissions there say.",
        "OpenCode fetches its own package @opencode-ai/plugin from npm once, at the next start, as for every plugin."
        " Without a network it waits minutes for that: then delete the file plugins/spec-kit-memory.js.",
    ]


def _has_nested_servers(config: Path) -> bool:
    try:
        root = jsonc.parse(content_of(config).decode())
    except (OSError, ValueError):
        return False  # reported when the file is edited
    servers = jsonc.find(root, ("mcp", "servers"))
    # A server may itself be named "servers"; then it has a type.
    return servers is not None and servers.kind == "object" and servers.member("type") is None


# --- VS Code -----------------------------------------------------------------------------------


def _vscode_user_folder(place: HostPlace) -> Path:
    if place.platform == "darwin":
        return place.home / "Library" / "Application Support" / "Code" / "User"
    if place.platform == "win32":
        return Path(place.environ.get("APPDATA") or place.home / "AppData" / "Roaming") / "Code" / "User"
    return place.config_home / "Code" / "User"


def _vscode(place: HostPlace) -> list[File]:
    project = place.scope == "project"
    user = _vscode_user_folder(place)
    # A server of the user's also starts without an open folder, when the variable has no value.
    argv = place.serve("${workspaceFolder}") if project else place.serve()
    prompts = place.root / ".github" / "prompts" if project else user / "prompts"
    files = [
        File(
            (place.root / ".vscode" if project else user) / "mcp.json",
            "json",
            (ConfigEntry(("servers", SERVER), {"type": "stdio", **_launch(argv)}),),
        ),
        *(
            File(
                prompts / f"memory-{command.name}.prompt.md",
                "text",
                text=slash_commands.command_file(command, arguments="${input:arguments}", hint_key="argument-hint"),
            )
            for command in slash_commands.COMMANDS
        ),
    ]
    return [*files, *_github_hooks(place)]


def _github_hooks(place: HostPlace) -> list[File]:
    """One file for both VS Code and Copilot CLI: each reads the whole folder, so with two files hooks would run
    twice."""
    if _claude_hooks(place) and not place.removing:
        return []
    folder = place.root / ".github" / "hooks" if place.scope == "project" else place.home / ".copilot" / "hooks"
    hooks = tuple(
        ConfigEntry(entry.path, {**entry.value["hooks"][0]}, "item") for entry in _nested_hooks(place, "vscode")
    )
    return [File(folder / "spec-kit-memory.json", "json", (ConfigEntry(("version",), 1, "default"), *hooks))]


def _trust_notes(place: HostPlace, title: str, folder: str) -> list[str]:
    return [] if place.scope == "user" else [f"{title} reads {folder} only in folders you trust: choose to trust it."]


def _claude_hooks(place: HostPlace) -> bool:
    """Are our hooks in Claude Code's settings? VS Code and Copilot CLI run those too, and ours must not run twice."""
    settings = place.folder("CLAUDE_CONFIG_DIR", ".claude") / "settings.json"
    try:
        hooks = jsonc.find(jsonc.parse(content_of(settings).decode()), ("hooks", "UserPromptSubmit"))
    except (OSError, ValueError):
        return False
    return hooks is not None and bool(our_hooks(hooks.value))


def _vscode_notes(place: HostPlace) -> list[str]:
    asks = (
        "VS Code asks whether to trust a new server, and before a tool runs: trust spec_kit_memory and allow its tools."
    )
    shared = ["VS Code runs the hooks of .claude/settings.json, too; they are enough."] if _claude_hooks(place) else []
    return [asks, *shared]


# --- Copilot CLI -------------------------------------------------------------------------------


def _copilot(place: HostPlace) -> list[File]:
    project = place.scope == "project"
    servers = place.root / ".github" / "mcp.json" if project else place.home / ".copilot" / "mcp-config.json"
    value = {"type": "local", **_launch(place.serve()), "tools": ["*"]}
    skills = place.root / ".github" / "skills" if project else place.home / ".copilot" / "skills"
    return [
        File(servers, "json", (ConfigEntry(("mcpServers", SERVER), value),)),
        *_github_hooks(place),
        *_skills(skills, manual=False),
    ]


def _copilot_notes(place: HostPlace) -> list[str]:
    notes = _trust_notes(place, "Copilot CLI", ".github/")
    if _claude_hooks(place):
        notes.append("Copilot CLI runs the hooks of .claude/settings.json, too; they are enough.")
    return [*notes, "At the first call of a tool it asks: allow spec_kit_memory for the session, or always."]


# --- Gemini CLI and Qwen Code --------------------------------------------------------------------


def _gemini(place: HostPlace) -> list[File]:
    folder = place.base / ".gemini"
    hooks = _hooks_of(place, "gemini", GEMINI_EVENTS, timeout=HOOK_SECONDS * 1000)  # it counts milliseconds
    return [
        File(folder / "settings.json", "json", (ConfigEntry(("mcpServers", SERVER), _launch(place.serve())), *hooks)),
        *(
            File(
                folder / "commands" / "memory" / f"{command.name}.toml", "text", text=slash_commands.toml_file(command)
            )
            for command in slash_commands.COMMANDS
        ),
    ]


def _gemini_notes(place: HostPlace) -> list[str]:
    return [
        *_trust_notes(place, "Gemini CLI", ".gemini/"),
        "At the first call of a tool it asks: allow all tools of spec_kit_memory.",
    ]


def _qwen(place: HostPlace) -> list[File]:
    folder = place.base / ".qwen"
    server = ConfigEntry(("mcpServers", SERVER), _launch(place.serve()))
    return [
        File(folder / "settings.json", "json", (server, *_nested_hooks(place, "qwen"))),
        *(
            File(
                folder / "commands" / "memory" / f"{command.name}.md",
                "text",
                text=slash_commands.command_file(command, arguments="{{args}}"),
            )
            for command in slash_commands.COMMANDS
        ),
    ]


def _qwen_notes(place: HostPlace) -> list[str]:
    trust = "If you have switched folder trust on in Qwen Code, trust this folder; otherwise it does not ask."
    return [
        *([] if place.scope == "user" else [trust]),
        "At the first call of a tool it asks: always allow the tools of spec_kit_memory.",
    ]


# --- Cline -------------------------------------------------------------------------------------


def _cline(place: HostPlace) -> list[File]:
    """Cline has one list of servers per user, so an entry for a project names that project."""
    relocated = place.environ.get("CLINE_DATA_DIR")
    data = Path(relocated).expanduser() if relocated else place.home / ".cline" / "data"
    argv = place.serve(str(place.root)) if place.scope == "project" else place.serve()
    value = {"transport": {"type": "stdio", **_launch(argv)}}
    return [File(data / "settings" / "cline_mcp_settings.json", "json", (ConfigEntry(("mcpServers", SERVER), value),))]


def _cline_notes(place: HostPlace) -> list[str]:
    at_calls = "Cline asks before each call of a tool: approve it, or allow the tools of spec_kit_memory for good."
    if place.scope == "user":
        return [at_calls]
    return [
        at_calls,
        f"Cline keeps servers per user: every project would see the memories of {place.root}. With --scope user"
        " each sees its own.",
    ]


HOSTS: Mapping[str, Host] = {
    host.name: host
    for host in (
        Host("claude-code", "Claude Code", _claude_code, "/memory:save", _claude_notes),
        Host("codex", "Codex", _codex, "$memory-save", _codex_notes),
        Host("cursor", "Cursor", _cursor, "/memory-save", _cursor_notes),
        Host("opencode", "OpenCode", _opencode, "/memory-save", _opencode_notes),
        Host("vscode", "VS Code", _vscode, "/memory-save", _vscode_notes),
        Host("copilot", "Copilot CLI", _copilot, "/memory-save", _copilot_notes),
        Host("gemini", "Gemini CLI", _gemini, "/memory:save", _gemini_notes),
        Host("qwen", "Qwen Code", _qwen, "/memory:save", _qwen_notes),
        Host("cline", "Cline", _cline, '"save this session"', _cline_notes),
    )
}
