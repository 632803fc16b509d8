"""What did an install find and change? Recorded in the user's own folder, so that it can be undone exactly.

Backups contain the user's other settings in those files, so only the user can read them, and they are never stored in
a project.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spec_kit_memory import filesystem, settings
from spec_kit_memory.filesystem import Place, Redirected
from spec_kit_memory.serve.hosts.edits import Containers
from spec_kit_memory.serve.hosts.formats import HostPlace

FORMAT = 1


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """One file: its content before (None: it did not exist), the hash of its content after, and the paths of the
    containers that were created for our entries."""

    before: bytes | None
    after: str
    made: Containers = frozenset()


@dataclass(frozen=True, slots=True)
class InstallRecord:
    folder: Path
    files: Mapping[Path, OriginalFile] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()  # created by the install


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _folder(host: str, place: HostPlace) -> Path:
    suffix = digest(str(place.root).encode())[:12] if place.scope == "project" else "user"
    return settings.user_folder(place.environ) / "hosts" / f"{host}-{suffix}"


def read(host: str, place: HostPlace) -> InstallRecord:
    """The record of the last install; an empty one if there is none or it cannot be used."""
    return _read(_folder(host, place))


def made_folders(place: HostPlace) -> frozenset[Path]:
    """The folders that the installs of all hosts created, for the user and for every project."""
    records = settings.user_folder(place.environ) / "hosts"
    return frozenset(folder for path in records.glob("*/record.json") for folder in _read(path.parent).folders)


def _read(folder: Path) -> InstallRecord:
    try:
        content = json.loads((folder / "record.json").read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            return InstallRecord(folder)
        files = {
            Path(path): OriginalFile(
                (folder / entry["backup"]).read_bytes() if entry["backup"] else None,
                entry["after"],
                frozenset(tuple(keys) for keys in entry["made"]),
            )
            for path, entry in content["files"].items()
        }
        return InstallRecord(folder, files, tuple(Path(path) for path in content["folders"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # Without a record, uninstall still removes our entries from the files.
        return InstallRecord(folder)


def write(record: InstallRecord) -> list[Path]:
    """Write the record and the backups; returns the paths of the backups."""
    settings.make_private_folder(record.folder)
    backups, files = [], {}
    for number, (path, original) in enumerate(record.files.items()):
        name = f"{number:02d}-{path.name}.backup" if original.before is not None else None
        if name is not None and original.before is not None:
            _write_private(record.folder / name, original.before)
            backups.append(record.folder / name)
        files[str(path)] = {"backup": name, "after": original.after, "made": sorted(map(list, original.made))}
    content = {"format": FORMAT, "files": files, "folders": [str(path) for path in record.folders]}
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    _write_private(record.folder / "record.json", text.encode())
    return backups


def forget(record: InstallRecord) -> None:
    for path in record.folder.glob("*"):
        path.unlink(missing_ok=True)
    remove_empty((record.folder, record.folder.parent, record.folder.parent.parent))


def remove_empty(folders: Iterable[Path]) -> None:
    """Remove the folders that are empty, innermost first."""
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        try:
            folder.rmdir()
        except OSError:
            continue  # not empty, or gone already


def obstacle(path: Path, *, within: Path | None) -> str:
    """Why a file can be neither read nor written; empty if it can."""
    if within is not None and (problem := _leads_elsewhere(path, Path(os.path.realpath(path)), within.resolve())):
        return problem
    if path.exists() and not path.is_file():
        return "is not a regular file"
    return ""


def _leads_elsewhere(path: Path, real: Path, root: Path) -> str:
    """Why a path is refused: a repository can contain links, which may lead to files of the user's. Empty if not."""
    if real.is_symlink():
        return "is a link that leads to itself: replace it by a file"
    if not real.is_relative_to(root):
        what = "is" if path.is_symlink() else "is reached through"
        return f"{what} a link that leads out of the project: replace it, or install with --scope user"
    if ".git" in real.relative_to(root).parts:
        return "leads into git's own folder: replace the link"
    return ""


def place_of(path: Path, *, within: Path | None) -> Place:
    """The file, with links resolved: a link stays a link, and its target is replaced. A link that is swapped in after
    this check is not followed."""
    real = Path(os.path.realpath(path))
    if within is None:
        base = next(folder for folder in real.parents if folder.is_dir())
    else:
        base = within.resolve()
        if _leads_elsewhere(path, real, base):
            raise Redirected(path)
    return Place(base, real.relative_to(base).parts)


def _write_private(path: Path, data: bytes) -> None:
    filesystem.replace(Place.of(path.resolve()), data, mode=0o600)
