"""What does a path mean, and may it be used?

Paths are stored relative to the workspace with "/", or absolute if the file is outside it. A path from a caller is
resolved first, so that `specs` may be a link to `.opencode/specs`, and its real path is checked name by name: inside
the workspace, or where the user's own `extraPaths` lead, and never in git's folder or in ours. The file system may
change after a check; `filesystem` opens a `Place` without following links, so that a link that is swapped in later
leads nowhere.

`contained` checks for a session, which may be limited to a part; `place` and `resolved` are for code that keeps the
whole workspace in step. Nothing in a repository (links, its configuration) leads out of it. The user's configuration
may, but only by naming a path outside, not one inside that a repository turned into a link.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
import unicodedata
from pathlib import Path

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.errors import AccessDenied, BadPath, OutsideScope
from spec_kit_memory.files import worktree
from spec_kit_memory.files.file_errors import disk_error, printable
from spec_kit_memory.filesystem import Place, Redirected
from spec_kit_memory.settings import STATE_FOLDER, Settings
from spec_kit_memory.settings.database_url import usable_url
from spec_kit_memory.settings.trust import INDEX_NAMES

_MAGIC = frozenset("*?[")
ANY_USER = ""  # no user's id is empty
_DEVICES = frozenset(("CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(1, 10))))
_GIT = frozenset((".git", "git~1"))
_RESERVED = _GIT | {STATE_FOLDER, "spec-k~1"}  # with the short names that Windows gives them


# --- forms ------------------------------------------------------------------------


def stored_form(settings: Settings, path: Path) -> str:
    """A canonical path as the index stores it."""
    try:
        return path.relative_to(settings.root).as_posix()
    except ValueError:
        return path.as_posix()


def canonical(path: Path) -> Path:
    """The real folder plus the path's own last name, which may be a link or missing."""
    return Path(os.path.realpath(path.parent)) / path.name


def absolute(settings: Settings, stored: str) -> Path:
    """The path of a stored path's file. It is unchecked: an index may be forged, so use `place` to open it."""
    return settings.root / stored


def scoped_name(scope: Scope, name: str) -> str:
    """The name of a state file that is separate for each scope, so that no scope's figures reveal another's."""
    if scope == Scope():
        return name
    mark = hashlib.sha256(repr(scope).encode("utf-8", "backslashreplace")).hexdigest()[:16]
    stem, dot, suffix = name.rpartition(".")
    return f"{stem}-{mark}{dot}{suffix}"


# --- reserved names ------------------------------------------------------------------


def is_reserved(name: str) -> bool:
    """Is it git's folder or ours, in any spelling that some file system treats as equal?"""
    return _plain(name) in _RESERVED


def is_in_git(settings: Settings, real: Path) -> bool:
    """Is this path below the workspace's root in git's folder?"""
    return any(_plain(name) in _GIT for name in real.relative_to(settings.root).parts)


def _plain(name: str) -> str:
    """Normalise a name: some systems ignore case, trailing dots and spaces, or invisible characters."""
    if name.isascii():
        return name.casefold().rstrip(". ").partition(":")[0]
    visible = "".join(
        character for character in unicodedata.normalize("NFKC", name) if unicodedata.category(character) != "Cf"
    )
    return visible.casefold().rstrip(". ").partition(":")[0]


# --- what the user configured -----------------------------------------------------------


def split_glob(settings: Settings, extra: str) -> tuple[Path, tuple[str, ...]]:
    """Split an extra path into its fixed folder or file and the segments from the first wildcard on."""
    parts = (settings.root / Path(extra).expanduser()).parts
    magic = next((i for i, part in enumerate(parts) if _MAGIC.intersection(part)), len(parts))
    return Path(*parts[:magic]), parts[magic:]


def extra_base(settings: Settings, extra: str) -> Path | None:
    """The real folder or file that an extra path opens; of a glob, the part before its first wildcard.

    None: a repository's configuration, or a link in it, would lead out of the workspace or into git's folder.
    """
    real = settings.real_path(split_glob(settings, extra)[0])
    ours = settings.sources.get("memory.extraPaths") != "file" and extra not in settings.repository_paths
    if real is None or ours or settings.allow.outside_paths:
        return real
    if not real.is_relative_to(settings.root) or any(map(is_reserved, real.relative_to(settings.root).parts)):
        return None
    return real


def extra_bases(settings: Settings) -> tuple[Path, ...]:
    bases = (extra_base(settings, extra) for extra in settings.extra_paths)
    return tuple(base for base in bases if base is not None)


def _allowed(settings: Settings, scope: Scope) -> tuple[Path, ...]:
    if scope.prefixes is None:
        return (settings.root, *extra_bases(settings))
    return tuple(settings.root / prefix for prefix in scope.prefixes)


# --- may it be used? -----------------------------------------------------------------------


def contained(settings: Settings, path: str | Path, *, scope: Scope) -> Path:
    """The real path of a file or folder that a caller named, if that scope allows it."""
    name = str(path)
    _check_name(name)
    real = _real(settings, name)
    inside = any(real == allowed or allowed in real.parents for allowed in _allowed(settings, scope))
    inside = inside or (scope.prefixes is None and _main_segments(settings, real, user=scope.user) is not None)
    if not inside or _belongs_to_other_user(settings, scope, real) or _is_in_reserved(settings, real):
        raise _refusal(settings, scope, name)
    _check_special(real, name)
    return real


def resolved(settings: Settings, path: Path | str) -> Place:
    """The real place of a path, if it is in the workspace or the user's extra paths."""
    return place(settings, _real(settings, str(path)))


def place(settings: Settings, real: Path | str) -> Place:
    """The place to open for a canonical path from discovery or the index."""
    path = settings.root / real
    if ".." not in path.parts:
        if path.is_relative_to(settings.root) and not _is_in_reserved(settings, path):
            return _below(settings.root, path)
        for base in extra_bases(settings):
            if path == base:
                return _below(base.parent, path)
            if base in path.parents:
                return _below(base, path)
        if segments := _main_segments(settings, path):
            return Place(path.parents[len(segments) - 1], segments)
    raise _outside(str(real))


def _main_segments(settings: Settings, path: Path, *, user: str | None = ANY_USER) -> tuple[str, ...] | None:
    """The path of a memory within a worktree's main checkout; None for every other file."""
    main = worktree.main_checkout(settings.root)
    if main is None or not path.is_relative_to(main) or path.is_relative_to(settings.root):
        return None
    segments = path.relative_to(main).parts
    if segments[:2] == ("memory", "users") and user is not ANY_USER and segments[2:3] != (user,):
        return None
    return segments if worktree.is_memory_place(segments) else None


def _below(base: Path, path: Path) -> Place:
    try:
        return Place(base, path.relative_to(base).parts)
    except ValueError as error:
        raise disk_error(error, path) from error


def _real(settings: Settings, name: str) -> Path:
    try:
        return Path(os.path.realpath(settings.root / name))
    except (OSError, ValueError) as error:
        raise disk_error(error, name) from error


def _refusal(settings: Settings, scope: Scope, name: str) -> OutsideScope:
    """The error for a path that may not be used. It names the link if the caller may see its place."""
    path = Path(os.path.normpath(settings.root / name))
    if (
        scope.prefixes is None
        and path.is_relative_to(settings.root)
        and not _belongs_to_other_user(settings, scope, path)
    ):
        for step in reversed([path, *path.parents]):
            if step != settings.root and step.is_relative_to(settings.root) and step.is_symlink():
                return leads_outside(settings, step)
    return _outside(name)


def leads_outside(settings: Settings, link: Path) -> OutsideScope:
    return OutsideScope(
        f"{printable(stored_form(settings, link))} is a link out of the workspace and is not followed",
        hint="replace the link, or add what it leads to to `memory.extraPaths` in your own configuration",
    )


def _outside(name: str) -> OutsideScope:
    return OutsideScope(
        f"{printable(name)} is outside what this session may use",
        hint="name a path inside the workspace; isolation.allowedPaths, which only the user can change, says which",
    )


def _belongs_to_other_user(settings: Settings, scope: Scope, real: Path) -> bool:
    """Is the path in the namespace of another user?"""
    users = settings.root / "memory" / "users"
    return users in real.parents and real.relative_to(users).parts[0] != scope.user


def _is_in_reserved(settings: Settings, real: Path) -> bool:
    return real.is_relative_to(settings.root) and any(map(is_reserved, real.relative_to(settings.root).parts))


def _check_name(name: str) -> None:
    if not name.strip():
        raise BadPath("the path is empty", hint="name a file")
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise BadPath(f"{printable(name)!r} is not a path", hint="remove the characters that no file name can have")
    last = re.split(r"[/\\]", name)[-1].split(".")[0].upper()
    if name.startswith(("\\\\.\\", "\\\\?\\")) or (sys.platform == "win32" and last in _DEVICES):
        raise BadPath(f"{name!r} is a device, not a file", hint="name a regular file")


def _check_special(real: Path, name: str) -> None:
    try:
        mode = os.stat(real).st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise disk_error(error, name) from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise BadPath(f"{name} is not a regular file", hint="name a regular file; devices and pipes are not read")


# --- the state folder ------------------------------------------------------------------------


def state(settings: Settings, *names: str) -> Place:
    """A file in the state folder or below. The file itself is never a link that is followed."""
    return state_folder(settings, *names[:-1]) / names[-1]


def state_text(settings: Settings, name: str) -> Place:
    """A state file that people write and we only read. It may be a link in the workspace, or out of it if allowed."""
    path = settings.state_folder / name
    real = Path(os.path.realpath(path))
    if real.is_relative_to(settings.root) and not is_in_git(settings, real):
        return Place(settings.root, real.relative_to(settings.root).parts)
    if settings.allow.outside_paths:
        return Place.of(real)
    raise disk_error(Redirected(path), path)


def index_file(settings: Settings) -> Path:
    """The real path of the index. Only the user may have put it outside the workspace."""
    real = Path(os.path.realpath(settings.index_path))
    users_own = settings.sources.get("semantic.indexPath", "flag" if settings.semantic.index_path else "default")
    if users_own not in ("default", "file") or settings.allow.outside_paths:
        return real
    if not real.is_relative_to(settings.root) or is_in_git(settings, real):
        raise AccessDenied(
            f"{settings.index_path} is a link to {real}, outside the workspace",
            hint="remove the link; the index is made again",
        )
    if not real.name.endswith(INDEX_NAMES):  # a rebuild overwrites any file that cannot be read as an index
        raise AccessDenied(f"{settings.index_path} is a link to {real}, which is no index", hint="remove the link")
    return real


def index_place(settings: Settings) -> str | Path:
    """What `open_index` opens: the file, or the address of a server. Passwords are left to PostgreSQL's own means."""
    if not settings.on_server:
        return index_file(settings)
    return usable_url(settings.index.url)


def state_folder(settings: Settings, *names: str) -> Place:
    """The state folder, or one in it.

    The state folder may be a link to another place in the workspace, or, where the user's own configuration allows
    that, out of it. Folders in it are never reached through a link: files are removed there, so a repository
    with `past` or `pending` as a link to another folder of the workspace would have that folder emptied.
    """
    own = Path(os.path.realpath(settings.state_folder))
    if own.is_relative_to(settings.root) and not is_in_git(settings, own):
        return Place(settings.root, (*own.relative_to(settings.root).parts, *names))
    if settings.allow.outside_paths and not own.is_relative_to(settings.root):
        return Place(own, names)
    raise Redirected(settings.state_folder)
