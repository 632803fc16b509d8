"""What does a scope reach? Its rule for one path, folder or memory, in whole segments."""

from __future__ import annotations

import hashlib
import json

from spec_kit_memory.core.memory import Scope

__all__ = ["allows", "below", "folder_below", "reaches", "session_namespace"]


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
    """A scope's whole rule for one memory. No scope is the whole workspace with all users and projects."""
    return scope is None or (owner in (None, scope.user) and project in (None, scope.project) and reaches(scope, path))


def session_namespace(scope: Scope | None) -> tuple[str, str]:
    """Whose a session is, as its columns owner and project have it.

    Sessions of one scope are not another's, and a session's turns tell of what its scope sees: callers of one user
    and project with other allowed paths have their own, by a mark after the project.
    """
    if scope is None:
        return ("", "")
    project = scope.project or ""
    if scope.prefixes is not None:
        paths = json.dumps(sorted(scope.prefixes))
        project += "\n" + hashlib.sha256(paths.encode("utf-8", "backslashreplace")).hexdigest()[:16]
    return (scope.user or "", project)
