"""How does a host connect to a team server? Through a second entry next to the local server's.

A token is never written to a file: hosts that expand variables get the name of one, the others sign in by OAuth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from spec_kit_memory.core.loopback import is_loopback
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.serve.hosts.formats import SERVER, ConfigEntry, File, Host, HostPlace

REMOTE = f"{SERVER}_team"
VARIABLE = "SPEC_KIT_MEMORY_TOKEN"


def _plain(url: str, reference: str) -> dict[str, Any]:
    return {"url": url, **_header(reference)}


def _header(reference: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {reference}"}} if reference else {}


# For each host, its syntax for an environment variable (None: it expands none, and signs in by OAuth), and its form of
# an entry for a server over HTTP.
_FORMS: Mapping[str, tuple[str | None, Callable[[str, str], dict[str, Any]]]] = {
    "claude-code": (f"${{{VARIABLE}}}", lambda url, reference: {"type": "http", **_plain(url, reference)}),
    "codex": (VARIABLE, lambda url, name: {"url": url, **({"bearer_token_env_var": name} if name else {})}),
    "cursor": (f"${{env:{VARIABLE}}}", _plain),
    "opencode": (
        f"{{env:{VARIABLE}}}",
        lambda url, reference: {"type": "remote", **_plain(url, reference), "enabled": True},
    ),
    "vscode": (None, lambda url, reference: {"type": "http", "url": url}),
    "copilot": (None, lambda url, reference: {"type": "http", "url": url, "tools": ["*"]}),
    "gemini": (f"${VARIABLE}", lambda url, reference: {"httpUrl": url, **_header(reference)}),
    "qwen": (f"${VARIABLE}", lambda url, reference: {"httpUrl": url, **_header(reference)}),
    "cline": (None, lambda url, reference: {"transport": {"type": "streamableHttp", "url": url}}),
}


def checked_address(url: str) -> str:
    """Refuse an address that is neither https nor http on this machine, or that contains credentials."""
    parts = urlsplit(url)
    local = is_loopback(parts.hostname or "")
    if parts.scheme not in ("https", "http") or not parts.hostname or (parts.scheme == "http" and not local):
        raise BadParameter(
            f"{url!r} is no address of a team server.", hint="Name it as https://memory.example.org/mcp."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadParameter("An address with a secret in it ends up in files.", hint=f"Put the token into {VARIABLE}.")
    return url


def remote_files(host: Host, place: HostPlace, url: str) -> list[File]:
    """The host's file of servers with the team server's entry; hooks and commands belong to the local server."""
    reference, form = _FORMS[host.name]
    wanted = reference or "" if place.environ.get(VARIABLE) else ""
    file, entry = _server_entry(host, place)
    defaults = tuple(entry for entry in file.entries if entry.mode == "default")
    value = form(url, wanted)
    if host.name == "opencode" and "servers" in entry.path:
        del value["enabled"]  # the nested form has no such key
    return [replace(file, entries=(*defaults, ConfigEntry((*entry.path[:-1], REMOTE), value)))]


def with_remote(files: list[File]) -> list[File]:
    """For an uninstall: with an entry of the team server next to every possible entry of the local one."""
    return [
        replace(
            file,
            entries=(
                *file.entries,
                *(ConfigEntry((*entry.path[:-1], REMOTE), {}) for entry in file.entries if _is_server(entry)),
            ),
        )
        for file in files
    ]


def remote_notes(host: Host, place: HostPlace) -> list[str]:
    reference = _FORMS[host.name][0]
    if reference and place.environ.get(VARIABLE):
        return [f"{host.title} reads the token from {VARIABLE} when it starts: set it in the shell that starts it."]
    how = f"set {VARIABLE} and install again" if reference else "add the header Authorization in its own settings"
    return [f"{host.title} signs in by OAuth at its first use. Where the server has no sign-in, {how}."]


def _server_entry(host: Host, place: HostPlace) -> tuple[File, ConfigEntry]:
    entries = ((file, entry) for file in host.files(place) for entry in file.entries if _is_server(entry))
    return next(entries)


def _is_server(entry: ConfigEntry) -> bool:
    return entry.mode == "member" and entry.path[-1] == SERVER
