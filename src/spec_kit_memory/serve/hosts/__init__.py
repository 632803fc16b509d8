"""How is an agent's host connected and disconnected?

`install` and `uninstall` first make a plan: every file that would change, with its diff.
Nothing is written unless `apply` is set, and nothing at all if one of the files is malformed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

from spec_kit_memory import filesystem
from spec_kit_memory.answers import Answer
from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import AccessDenied, BadParameter, Invalid
from spec_kit_memory.filesystem import Place, Staged
from spec_kit_memory.serve.cli.answer_view import Block, Line
from spec_kit_memory.serve.hosts import edits, install_record, team_entry
from spec_kit_memory.serve.hosts.formats import HOSTS, File, Host, HostPlace, content_of
from spec_kit_memory.serve.hosts.install_record import InstallRecord, OriginalFile

__all__ = ["HOSTS", "InstallPlan", "blocks", "install", "named", "uninstall"]


@dataclass(frozen=True, kw_only=True)
class InstallPlan(Answer):
    """What an install or uninstall would change, or has changed."""

    host: str
    scope: str
    changes: tuple[Mapping[str, str], ...]  # path, action (create, edit, delete), diff
    applied: bool = False
    backups: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()  # the user's own files at paths that ours would have, left alone


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One file's content before and after the change; None means that the file does not exist."""

    path: Path
    before: bytes | None
    after: bytes | None
    kept: OriginalFile | None = None  # recorded for uninstall
    within: Path | None = None  # links in its path may not lead out of this folder

    @property
    def action(self) -> Literal["create", "edit", "delete"]:
        return "create" if self.before is None else "delete" if self.after is None else "edit"


def install(
    host: str, *, root: Path, scope: str | None = None, apply: bool = False, url: str | None = None
) -> InstallPlan:
    """With `url`, connect the team server at that address instead; both servers can be connected at once."""
    chosen, place = _checked_place(host, root, scope)
    files = team_entry.remote_files(chosen, place, team_entry.checked_address(url)) if url else chosen.files(place)
    files = [replace(file, of_project=place.may_have_come_with_project(file.path)) for file in files]
    record = install_record.read(host, place)
    changes, untouched = [], []
    shared: dict[Path, OriginalFile] = {}
    for file, current in _read_all(files, place):
        if file.form == "text" and not _may_replace(file, current, record):
            untouched.append(str(file.path))
            continue
        change = _installed(file, current, record.files.get(file.path))
        changes += [replace(change, within=_bounds(file.path, place))] if change else []
        shared_original = (
            None if change or file.path in record.files else _original_of_another_host(file.path, host, place)
        )
        shared |= {file.path: shared_original} if shared_original else {}
    notes = team_entry.remote_notes(chosen, place) if url else chosen.notes(place)
    hints = [*notes, *(f"{path} is your own and stays as it is." for path in untouched)]
    summary = (
        f"{chosen.title} is connected for this {place.scope}"
        if place.scope == "project"
        else (f"{chosen.title} is connected for all your projects")
    )
    backups: list[Path] = []
    if apply and (changes or shared):
        made_folders = install_record.made_folders(place)
        new_record = _new_record(record, changes, shared, made_folders=made_folders)
        backups = _apply(changes, new_record, record)
        undo = f"skm uninstall {host}" + (" --scope user" if place.scope == "user" else "")
        next_step = "" if url else f", then try {chosen.commands}"
        hints.append(f"Restart {chosen.title}{next_step}. `{undo}` undoes this.")
    return _plan(chosen, place, changes, summary, applied=apply, backups=backups, untouched=untouched, hints=hints)


def uninstall(host: str, *, root: Path, scope: str | None = None, apply: bool = False) -> InstallPlan:
    chosen, place = _checked_place(host, root, scope, removing=True)
    record = install_record.read(host, place)
    files = [
        file
        for file in team_entry.with_remote(chosen.files(place))
        if _original_of_another_host(file.path, host, place) is None
    ]
    obsolete = [
        File(path, "text")
        for path in record.files
        if path not in {file.path for file in files} and _original_of_another_host(path, host, place) is None
    ]
    changes, untouched = [], []
    for file, current in _read_all([*files, *obsolete], place):
        entry = record.files.get(file.path)
        change = _uninstalled(file, current, entry, host)
        if change:
            changes.append(replace(change, within=_bounds(file.path, place)))
        elif entry and current is not None and file.form == "text":
            untouched.append(str(file.path))
    hints = [f"{path} was edited since and stays." for path in untouched]
    if apply:
        _apply(changes, None)
        install_record.forget(record)
        install_record.remove_empty(record.folders or tuple(_own_folders(changes)))
    summary = f"{chosen.title} is {'no longer' if changes else 'not'} connected"
    return _plan(chosen, place, changes, summary, applied=apply, untouched=untouched, hints=hints)


def blocks(plan: InstallPlan) -> Iterator[Block]:
    """The plan as shown to a person: each file, with its diff unless the plan was applied."""
    for change in plan.changes:
        yield Line(f"{change['action']} {change['path']}", "title")
        for line in () if plan.applied else change["diff"].splitlines():
            style = "good" if line.startswith("+") else "bad" if line.startswith("-") else "dim"
            yield Line("  " + line, style)
    yield Line(plan.summary, "good" if plan.applied else "")
    for path in plan.backups:
        yield Line(f"backup {path}", "dim")
    for hint in plan.hints:
        yield Line(hint, "hint")


# --- planning --------------------------------------------------------------------------------


def named(host: str) -> Host:
    if host not in HOSTS:
        raise BadParameter(f"There is no host {host!r}.", hint="Name one of " + ", ".join(HOSTS) + ".")
    return HOSTS[host]


def _checked_place(host: str, root: Path, scope: str | None, *, removing: bool = False) -> tuple[Host, HostPlace]:
    chosen = named(host)
    if scope not in (None, "project", "user"):
        raise BadParameter(f"There is no scope {scope!r}.", hint="Use project or user.")
    return chosen, HostPlace(root, "user" if scope == "user" else "project", os.environ, removing=removing)


def _original_of_another_host(path: Path, host: str, place: HostPlace) -> OriginalFile | None:
    """The original of this file as another host's install recorded it; the last uninstall restores it."""
    return next((record.files[path] for record in _other_records(host, place) if path in record.files), None)


def _other_records(host: str, place: HostPlace) -> list[InstallRecord]:
    return [install_record.read(other, place) for other in HOSTS if other != host]


def _read_all(files: list[File], place: HostPlace) -> Iterator[tuple[File, bytes | None]]:
    """Read each file; one error reports all malformed ones."""
    problems: list[str] = []
    contents: list[tuple[File, bytes | None]] = []
    for file in files:
        bounds = _bounds(file.path, place)
        problem = install_record.obstacle(file.path, within=bounds) or edits.problem_of(file)
        if problem:
            problems.append(f"{file.path} {problem}.")
            continue
        try:
            contents.append((file, _content(file.path, within=bounds)))
        except OSError as error:
            problems.append(f"{file.path} cannot be read: {error.strerror}.")
    _refuse(problems)
    return iter(contents)


def _content(path: Path, *, within: Path | None) -> bytes | None:
    """The file's content; None if there is no file. A link that was swapped in since the check is not followed."""
    try:
        return content_of(install_record.place_of(path, within=within))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _bounds(path: Path, place: HostPlace) -> Path | None:
    """The project that links may not lead out of, because a repository can contain hostile links; None for the user's
    own files, which may be links to anywhere, as dotfiles are."""
    return place.root if place.may_have_come_with_project(path) else None


def _refuse(problems: list[str]) -> None:
    if problems:
        raise Invalid(
            "Nothing was changed. " + " ".join(problems),
            hint="Correct the file, or add the entry by hand as docs/how-to/connect-an-agent.md shows.",
            problems=problems,
        )


def _may_replace(file: File, current: bytes | None, record: InstallRecord) -> bool:
    """May a file that is entirely ours be written? Only if it does not exist, or is as our last install wrote it."""
    if current is None or current == file.text.encode():
        return True
    entry = record.files.get(file.path)
    return entry is not None and install_record.digest(current) == entry.after


def _installed(file: File, current: bytes | None, entry: OriginalFile | None) -> FileEdit | None:
    text = None if current is None else current.decode()
    if text is not None and edits.present(text, file):
        return None
    try:
        after = edits.with_entries(text, file).encode()
        if entry is None or current is None:
            before, made_paths = current, edits.made_by(text, file)
        elif install_record.digest(current) == entry.after:
            before, made_paths = entry.before, entry.made
        else:
            # The file was changed since the last install: its text without our entries becomes the new original.
            made_paths = entry.made | edits.made_by(text, file)
            bare = edits.without_entries(
                current.decode(), file, made_paths=made_paths, existed=entry.before is not None
            )
            before = None if bare is None else bare.encode()
    except edits.Malformed as error:
        _refuse([f"{file.path}: {error}."])
        raise
    if after == current:
        return None
    return FileEdit(file.path, current, after, OriginalFile(before, install_record.digest(after), made_paths))


def _wanted_original(file: File, entry: OriginalFile, host: str) -> bytes | None:
    """The original content, without our entries for projects that were disconnected in the meantime."""
    if entry.before is None or file.form == "text":
        return entry.before
    bare = entry.before.decode()
    for root in edits.other_workspaces(bare, file):
        if not install_record.read(host, HostPlace(root, "project", os.environ)).files:
            remaining = edits.without_entries(bare, file, made_paths=None, existed=False, every=True)
            return None if remaining is None else remaining.encode()
    return entry.before


def _uninstalled(file: File, current: bytes | None, entry: OriginalFile | None, host: str) -> FileEdit | None:
    if current is None:
        return None
    wanted = _wanted_original(file, entry, host) if entry is not None else None
    if entry is not None and install_record.digest(current) == entry.after:
        return FileEdit(file.path, current, wanted)
    try:
        bare = edits.without_entries(
            current.decode(errors="replace"),
            file,
            made_paths=entry.made if entry else None,
            existed=entry is not None and entry.before is not None,
            original=(wanted or b"").decode(errors="replace"),
        )
    except edits.Malformed as error:
        _refuse([f"{file.path}: {error}."])
        raise
    after = None if bare is None else bare.encode()
    if file.form == "text" and after is not None:
        return None
    return None if after == current else FileEdit(file.path, current, after)


def _new_record(
    record: InstallRecord,
    changes: list[FileEdit],
    shared: Mapping[Path, OriginalFile],
    *,
    made_folders: Collection[Path],
) -> InstallRecord:
    """The record for uninstall. `made_folders` were created by installs of any host, for any project: the last
    uninstall removes them."""
    files = {**record.files, **shared, **{change.path: change.kept for change in changes if change.kept}}
    missing = {
        folder
        for change in changes
        for folder in (*change.path.parents, *Path(os.path.realpath(change.path)).parents)
        if not folder.exists() or folder in made_folders
    }
    # The record itself may be the first file in the user's configuration folder.
    missing |= {folder for folder in record.folder.parents if not folder.exists() or folder in made_folders}
    missing |= {folder for path in shared for folder in path.parents if folder in made_folders}
    return InstallRecord(record.folder, files, tuple(sorted({*record.folders, *missing})))


def _own_folders(changes: list[FileEdit]) -> Iterator[Path]:
    """Folders that only our install creates, for an uninstall without a record."""
    for change in changes:
        if change.action == "delete" and change.path.parent.name.split("-")[0] == "memory":
            yield change.path.parent


# --- applying ------------------------------------------------------------------------------------


def _apply(
    changes: list[FileEdit], remembered: InstallRecord | None, former: InstallRecord | None = None
) -> list[Path]:
    """Write all files or none: every new and former text is on disk before the first file is replaced. `remembered` is
    the record of these changes, `former` the one before them."""
    _check_unchanged(changes)
    begun: list[_Writing] = []
    created: list[Place] = []
    with ExitStack() as stack:
        try:
            backups = install_record.write(remembered) if remembered else []
            writings = [_prepared(change, stack, created) for change in changes]
            for writing in writings:
                begun.append(writing)
                writing.do()
            for folder in dict.fromkeys(writing.place.parent for writing in writings):
                filesystem.sync(folder)
        except BaseException as error:
            for writing in reversed(begun):
                writing.undo()
            with suppress(OSError):  # one that is not empty is needed
                for folder in reversed(created):
                    filesystem.remove_folder(folder)
            if remembered is not None:
                with suppress(OSError):
                    _take_back(remembered, former)
            if not isinstance(error, OSError):
                raise
            raise AccessDenied(
                f"{error.filename or 'A file'} cannot be written: {error.strerror}. Nothing was changed.",
                hint="Check who may write there.",
            ) from error
    return backups


def _take_back(remembered: InstallRecord, former: InstallRecord | None) -> None:
    """Undo the record of changes that were not made."""
    install_record.forget(remembered)
    if former is not None and former.files:
        install_record.write(former)
    else:
        own = remembered.folder.parents
        install_record.remove_empty(folder for folder in remembered.folders if folder in own)


@dataclass(frozen=True, slots=True)
class _Writing:
    """A file with its new and its former text next to it; None for a text that means no file."""

    place: Place
    new: Staged | None
    former: Staged | None

    def do(self) -> None:
        _put(self.place, self.new)

    def undo(self) -> None:
        _put(self.place, self.former)


def _put(place: Place, staged: Staged | None) -> None:
    if staged is None:
        filesystem.remove(place)
    else:
        staged.install()


def _prepared(change: FileEdit, stack: ExitStack, made: list[Place]) -> _Writing:
    place = install_record.place_of(change.path, within=change.within)
    made += filesystem.make_folders(place.parent)
    new, former = (
        None if text is None else stack.enter_context(filesystem.stage(place, text))
        for text in (change.after, change.before)
    )
    return _Writing(place, new, former)


def _check_unchanged(changes: list[FileEdit]) -> None:
    """Refuse if a file was changed after it was read: a running host writes to its own files."""
    for change in changes:
        try:
            current = _content(change.path, within=change.within)
            is_read_only = current is not None and not change.path.stat().st_mode & 0o222
            is_changed = current != change.before
        except OSError:
            is_read_only, is_changed = False, True
        if is_read_only:
            # Replacing the file would succeed, but read-only says that it should not be changed.
            raise AccessDenied(
                f"{change.path} is read-only. Nothing was changed.",
                hint="Make it writable, or change it where it is made from (dotfiles, a package manager).",
            )
        if is_changed:
            raise Invalid(
                f"{change.path} was changed by another program just now. Nothing was changed.",
                hint="Run it again; if it happens again, close the host first.",
            )


def _plan(
    host: Host,
    place: HostPlace,
    changes: list[FileEdit],
    action: str,
    *,
    applied: bool,
    untouched: list[str],
    hints: list[str],
    backups: list[Path] | None = None,
) -> InstallPlan:
    count = counted(len(changes), "file")
    if not changes:
        summary = f"{action}; nothing to change"
    else:
        summary = f"{action}: {count} changed" if applied else f"{count} to change"
    return InstallPlan(
        outcome=summary,
        host=host.name,
        scope=place.scope,
        changes=tuple({"path": str(c.path), "action": c.action, "diff": _diff(c)} for c in changes),
        applied=applied and bool(changes),
        backups=tuple(map(str, backups or ())),
        kept=tuple(untouched),
        advice=tuple(hints),
    )


def _diff(change: FileEdit) -> str:
    from difflib import unified_diff

    old, new = ((data or b"").decode(errors="replace").splitlines() for data in (change.before, change.after))
    # Equal lines at both ends are left out first: difflib would take minutes for a file of megabytes.
    start = _common_prefix(old, new)
    end = min(_common_prefix(old[::-1], new[::-1]), len(old) - start, len(new) - start)
    first, last = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    lines = unified_diff(old[first : len(old) - last], new[first : len(new) - last], lineterm="", n=_CONTEXT)
    # Without the two lines of file names, which repeat the title.
    return "\n".join(_shifted_hunk(line, first) for line in list(lines)[2:])


_CONTEXT = 2
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def _common_prefix(lines: list[str], other: list[str]) -> int:
    pairs = enumerate(zip(lines, other, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(lines), len(other)))


def _shifted_hunk(line: str, by: int) -> str:
    match = _HUNK.match(line) if by else None
    if match is None:
        return line
    return f"@@ -{int(match[1]) + by}{match[2] or ''} +{int(match[3]) + by}{match[4] or ''} @@"
