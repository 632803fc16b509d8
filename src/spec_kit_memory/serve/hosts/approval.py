"""What has a person decided about us in a host, or still has to decide? Read from the host's own files.

A declined server, an untrusted folder and disabled hooks look fine from outside, but the host uses none of them.
Decisions that a host keeps elsewhere, as Cursor and VS Code do, cannot be read.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spec_kit_memory.core import jsonc
from spec_kit_memory.serve.hosts.formats import SERVER, HostPlace, content_of


@dataclass(frozen=True, slots=True)
class Verdict:
    """`mend` is empty if the person has not decided against us."""

    detail: str
    mend: str = ""


def decisions(host: str, place: HostPlace) -> Iterator[Verdict]:
    check = _CHECKS.get(host)
    yield from check(place) if check else ()


def _read(path: Path) -> Mapping[str, Any]:
    """A host's file, parsed; empty if it is missing or malformed."""
    try:
        text = content_of(path).decode("utf-8-sig")
        tree = tomllib.loads(text) if path.suffix == ".toml" else jsonc.read(text)
    except (OSError, ValueError, RecursionError):
        return {}
    return tree if isinstance(tree, dict) else {}


def _value_at(tree: Any, *keys: str) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def _names_us(value: Any) -> bool:
    return isinstance(value, list) and SERVER in value


def _claude_code(place: HostPlace) -> Iterator[Verdict]:
    relocated = place.environ.get("CLAUDE_CONFIG_DIR")
    user_folder = Path(relocated).expanduser() if relocated else place.home / ".claude"
    state = (user_folder if relocated else place.home) / ".claude.json"
    settings = [place.root / ".claude" / "settings.local.json", place.root / ".claude" / "settings.json"]
    trees = {path: _read(path) for path in (*settings, user_folder / "settings.json")}
    trees[state] = _value_at(_read(state), "projects", str(place.root)) or {}
    for path, tree in trees.items():
        if any(_names_us(_value_at(tree, key)) for key in ("disabledMcpjsonServers", "disabledMcpServers")):
            yield Verdict(f"{path} has {SERVER} declined", "Take it off that list, or switch it on with /mcp.")
        if _value_at(tree, "disableAllHooks") is True:
            yield Verdict(f"{path} switches all hooks off", "Take disableAllHooks out of it.")
    approved = any(
        _value_at(tree, "enableAllProjectMcpServers") is True or _names_us(_value_at(tree, "enabledMcpjsonServers"))
        for tree in trees.values()
    )
    if place.scope == "project" and not approved:
        yield Verdict("Claude Code asks about the server of .mcp.json at its next start: choose yes")


def _codex(place: HostPlace) -> Iterator[Verdict]:
    if place.scope == "user":
        return
    relocated = place.environ.get("CODEX_HOME")
    path = (Path(relocated).expanduser() if relocated else place.home / ".codex") / "config.toml"
    level = _value_at(_read(path), "projects", str(place.root), "trust_level")
    if level == "untrusted":
        yield Verdict(f"{path} has {place.root} as untrusted", "Set its trust_level to trusted there.")
    elif level != "trusted":
        yield Verdict("Codex asks at its next start whether you trust the folder: choose to trust it")


def _copilot(place: HostPlace) -> Iterator[Verdict]:
    if place.scope == "user":
        return
    tree = _read(place.home / ".copilot" / "config.json")
    trusted = [_value_at(tree, key) for key in ("trusted_folders", "trustedFolders")]
    folders = {folder for listed in trusted if isinstance(listed, list) for folder in listed if isinstance(folder, str)}
    if not any(str(folder) in folders for folder in (place.root, *place.root.parents)):
        yield Verdict(
            "Copilot CLI asks at its next start whether you trust the folder: choose to, and remember it;"
            " until then `copilot -p` goes without us"
        )


def _gemini(place: HostPlace) -> Iterator[Verdict]:
    yield from _excluded(place, ".gemini")
    yield from _folder_trust(place, "Gemini CLI", ".gemini", by_default=True)


def _qwen(place: HostPlace) -> Iterator[Verdict]:
    yield from _excluded(place, ".qwen")
    yield from _folder_trust(place, "Qwen Code", ".qwen", by_default=False)


def _excluded(place: HostPlace, name: str) -> Iterator[Verdict]:
    for path in (place.root / name / "settings.json", place.home / name / "settings.json"):
        if _names_us(_value_at(_read(path), "mcp", "excluded")):
            yield Verdict(f"{path} excludes {SERVER}", "Take it out of mcp.excluded there.")


def _folder_trust(place: HostPlace, title: str, name: str, *, by_default: bool) -> Iterator[Verdict]:
    enabled = _value_at(_read(place.home / name / "settings.json"), "security", "folderTrust", "enabled")
    if place.scope == "user" or not (by_default if enabled is None else enabled):
        return
    path = place.home / name / "trustedFolders.json"
    levels = _read(path)
    level = next((levels[str(at)] for at in (place.root, *place.root.parents) if str(at) in levels), None)
    if level == "DO_NOT_TRUST":
        yield Verdict(f"{path} does not trust {place.root}", f"Trust it in {title} with /permissions, or in that file.")
    elif level is None:
        yield Verdict(f"{title} asks at its next start whether you trust the folder: choose to trust it")


_CHECKS: Mapping[str, Callable[[HostPlace], Iterator[Verdict]]] = {
    "claude-code": _claude_code,
    "codex": _codex,
    "copilot": _copilot,
    "gemini": _gemini,
    "qwen": _qwen,
}
