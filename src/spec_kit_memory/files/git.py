"""Which branch and commit is the workspace at? Read from the files of git, without running it.

They are treated as hostile: an archive can contain a `.git` of its own. Refs are read only if their names are valid,
commits only if they are hashes, and no link is followed. A `.git` file leads to another folder only if that folder
names this one as its worktree and belongs to the same user, so a repository cannot make us read other files.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from spec_kit_memory import filesystem
from spec_kit_memory.filesystem import Place

LARGEST = 1_000_000
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# Git's own rules: no part begins with a dot or ends in .lock, and none of the characters that git forbids.
_REF = re.compile(r"refs(?:/(?![.])[^\x00-\x20\x7f~^:?*\[\\/]+(?<![.])(?<![.]lock)){2,}")
_WORKTREE = re.compile(r"^[ \t]*+worktree[ \t]*+=[ \t]*+(\S(?:.*\S)?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Located:
    """A checkout and its git folders."""

    top: Path  # the root of the checkout
    folder: Place  # of this checkout alone: HEAD, for example
    common: Place  # shared by all worktrees of the repository: objects, branches


def located(root: Path) -> Located | None:
    """The checkout that this folder is, or is in."""
    for top in (root, *root.parents):
        place = Place(top, (".git",))
        try:
            facts = filesystem.look(place)
        except OSError:
            continue
        folder = place if stat.S_ISDIR(facts.st_mode) else None
        if stat.S_ISREG(facts.st_mode):
            folder = _pointed_to(place)
        return None if folder is None else Located(top, folder, next(iter(_shared(folder)), folder))
    return None


def head(root: Path) -> dict[str, str]:
    """`branch` and `commit`, as far as they are known."""
    git_folder = located(root)
    if git_folder is None:
        return {}
    folder = git_folder.folder
    text = read(folder / "HEAD")
    if _HASH.fullmatch(text):
        return {"commit": text}
    ref = text.removeprefix("ref: ").strip()
    if ref == text or not _is_ref(ref):
        return {}
    commit = _commit(folder, ref)
    return {"branch": ref.removeprefix("refs/heads/")} | ({"commit": commit} if commit else {})


def _is_ref(name: str) -> bool:
    return len(name) <= 1000 and ".." not in name and "@{" not in name and bool(_REF.fullmatch(name))


def _pointed_to(file: Place) -> Place | None:
    """The git folder that the `.git` file of a worktree or submodule names, if it may be believed."""
    target = read(file).removeprefix("gitdir: ").strip()
    if not target or "\0" in target:
        return None
    real = Path(os.path.realpath(file.base / target))
    folder = Place(real)
    try:
        same_user = filesystem.look(folder).st_uid == filesystem.look(file).st_uid
    except OSError:
        return None
    return folder if same_user and _points_back(folder, file) else None


def _points_back(folder: Place, file: Place) -> bool:
    back = read(folder / "gitdir")  # of a worktree
    if back:
        return Path(os.path.realpath(folder.base / back)) == file.path
    worktree = _WORKTREE.search(read(folder / "config"))  # of a submodule
    return worktree is not None and Path(os.path.realpath(folder.base / worktree[1].strip('"'))) == file.base


def _commit(folder: Place, ref: str) -> str:
    places = [folder, *_shared(folder)]
    for place in places:
        loose = read(place.joined(*ref.split("/")))
        if _HASH.fullmatch(loose):
            return loose
    for place in places:
        for line in read(place / "packed-refs").splitlines():
            commit, _, name = line.partition(" ")
            if name == ref and _HASH.fullmatch(commit):
                return commit
    return ""


def _shared(folder: Place) -> list[Place]:
    """The folder shared by all worktrees, which may only be two levels above a worktree's own."""
    target = read(folder / "commondir")
    if not target or "\0" in target:
        return []
    common = Path(os.path.realpath(folder.path / target))
    return [Place(common)] if common == folder.path.parent.parent else []


def read(place: Place) -> str:
    """The text of one of git's files; "" if it cannot be read."""
    try:
        data, _ = filesystem.read(place, limit=LARGEST)
    except OSError:
        return ""
    return data.decode("utf-8", "replace").strip()
