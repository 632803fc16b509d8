"""Which branch and commit is the workspace at? Read from the files of git, without running it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["head"]

LARGEST = 1_000_000


def head(root: Path) -> dict[str, str]:
    """branch and commit, each where it is known."""
    folder = _folder(root)
    if folder is None:
        return {}
    said = _read(folder / "HEAD")
    if not said.startswith("ref: "):
        return {"commit": said} if said else {}
    name = said.removeprefix("ref: ").strip()
    found = {"branch": name.removeprefix("refs/heads/")}
    commit = _commit(folder, name)
    return found | ({"commit": commit} if commit else {})


def _folder(root: Path) -> Path | None:
    for place in (root, *root.parents):
        found = place / ".git"
        if found.is_dir():
            return found
        if found.is_file():  # a worktree or submodule names its folder
            named = _read(found).removeprefix("gitdir: ").strip()
            return (place / named) if named else None
    return None


def _commit(folder: Path, name: str) -> str:
    shared = _read(folder / "commondir")
    places = [folder, folder / shared] if shared else [folder]
    for place in places:
        loose = _read(place / name)
        if loose:
            return loose
    for place in places:
        for line in _read(place / "packed-refs").splitlines():
            commit, _, ref = line.partition(" ")
            if ref == name:
                return commit
    return ""


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(LARGEST).strip()
    except OSError:
        return ""
