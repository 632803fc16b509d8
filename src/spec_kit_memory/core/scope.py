"""Which paths, folders and memories are within a scope? Paths are compared by whole segments."""

from __future__ import annotations

import hashlib
import json

from spec_kit_memory.core.memory import Scope


def below(path: str, prefix: str) -> bool:
    """Is `path` the prefix or under it? Whole segments: memory/a is not above memory/ab."""
    folder = prefix.rstrip("/")
    if folder in ("", "."):
        return path.startswith("/") if prefix.startswith("/") else not path.startswith("/") and "://" not in path
    return path == folder or path.startswith(f"{folder}/")


def folder_below(folder: str | None, prefix: str) -> bool:
    return folder is not None and (folder == prefix or folder.startswith(f"{prefix}/"))


def reaches(scope: Scope | None, path: str) -> bool:
    """Is the path within the scope's prefixes?"""
    return scope is None or scope.prefixes is None or any(below(path, prefix) for prefix in scope.prefixes)


def allows(scope: Scope | None, *, path: str, owner: str | None, project: str | None) -> bool:
    """May this scope see this memory? No scope means the whole workspace with all users and projects."""
    return scope is None or (owner in (None, scope.user) and project in (None, scope.project) and reaches(scope, path))


def session_namespace(scope: Scope | None) -> tuple[str, str]:
    """The values of a session's columns owner and project.

    Scopes do not share sessions, since a session reveals what its scope can see: for callers of the same user and
    project with different allowed paths, a hash of the paths is appended to the project.
    """
    if scope is None:
        return ("", "")
    project = scope.project or ""
    if scope.prefixes is not None:
        paths = json.dumps(sorted(scope.prefixes))
        project += "\n" + hashlib.sha256(paths.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return (scope.user or "", project)
