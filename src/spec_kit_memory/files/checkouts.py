"""Are two folders checkouts of one project? Decided by the first commit and the remote, from files or a safe git.

Used only to suggest a name that the user gave to another checkout: a repository can claim any history and any remote,
so projects are never joined automatically.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from spec_kit_memory.files import git
from spec_kit_memory.files.git_history import History

_SECTION = re.compile(r'^[ \t]*+\[remote "origin"\][ \t]*+$', re.MULTILINE)
_URL = re.compile(r"^[ \t]*+url[ \t]*+=[ \t]*+(\S(?:.*\S)?)[ \t]*$", re.MULTILINE)
_PORT = re.compile(r":[0-9]+(?=/)")


@dataclass(frozen=True, slots=True)
class Identity:
    """What the checkouts of one project have in common, and hardly any others."""

    first_commits: frozenset[str]
    remote: str  # host and path; "" if there is none

    def is_like(self, other: Identity) -> bool:
        """A common first commit and no differing remotes: a fork is another project."""
        if not self.first_commits & other.first_commits:
            return False
        return not self.remote or not other.remote or self.remote == other.remote


def identity(root: Path) -> Identity | None:
    """None if there is no repository or it has no commit."""
    history = History.of(root)
    if history is None:
        return None
    commits = history.first_commits()
    return Identity(frozenset(commits), _remote(root)) if commits else None


def same_project(root: Path, others: Iterable[Path]) -> Path | None:
    """The first of `others` that is a checkout of the same project."""
    own: Identity | None = None
    for other in others:
        if other == root or not other.is_dir():
            continue
        own = own or identity(root)
        if own is None:
            return None
        others_identity = identity(other)
        if others_identity is not None and own.is_like(others_identity):
            return other
    return None


def _remote(root: Path) -> str:
    located = git.located(root)
    text = git.read(located.common / "config") if located else ""
    section = _SECTION.search(text)
    if section is None:
        return ""
    body = text[section.end() :].split("\n[", 1)[0]
    url = _URL.search(body)
    return "" if url is None else _plain(url[1].strip('"'))


def _plain(url: str) -> str:
    """Host and path of an address in any notation, never with a password."""
    location = url.partition("://")[2] or url
    user, at, rest = location.partition("@")
    if at and "/" not in user:
        location = rest
    host = re.split("[:/]", location, maxsplit=1)[0]
    path = location[len(host) :]
    port = _PORT.match(path)
    path = path[port.end() if port else 0 :].strip(":/").removesuffix(".git")
    return f"{host.lower()}/{path}"
