"""What did an entry of the ledger do? Its operation, for entries of every version.

Version 0.1 recorded no operations, only reasons in words. Only this module parses those words, and only for
entries of 0.1: where they are specific enough, they are converted to the operations that 0.2 would have recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from spec_kit_memory.core import operation
from spec_kit_memory.core.memory import LedgerEntry, Mutation
from spec_kit_memory.core.operation import FileChange, Operation


def operation_of(entry: LedgerEntry, before: Mapping[str, Any] | None = None) -> Operation | None:
    """The operation, or None if the entry records none. `before` comes from the history row: 0.1 kept paths there."""
    if entry.version > 1:
        return None if entry.operation is None else operation.read(entry.operation)
    for pattern, make in _REASONS:
        if words := pattern.fullmatch(entry.reason):
            return make(entry, words, before or {})
    return None


def undone_by(entry: LedgerEntry) -> range:
    """The sequence numbers of the entries that this undo by version 0.1 reverted."""
    words = _UNDONE.fullmatch(entry.reason) if entry.version == 1 else None
    return range(int(words[1]), int(words[2] or words[1]) + 1) if words else range(0)


def _own(entry: LedgerEntry) -> str:
    return f"entry-{entry.sequence}"


def _delete(entry: LedgerEntry, words: re.Match[str], before: Mapping[str, Any]) -> Operation:
    path = str(before.get("path", ""))
    trash = _trash(words["rest"] or "", path)
    # Only deletions of a whole folder name the checkpoint made before them; it identifies entries of one call.
    folder = _FOLDER.match(words["rest"] or "")
    return operation.Delete(
        id=f"delete-{folder['checkpoint']}" if folder else _own(entry),
        path=path,
        spec_folder=folder["folder"] if folder else None,
        checkpoint=folder["checkpoint"] if folder else None,
        files=(FileChange(path, trash=trash),) if trash else (),
    )


def _trash(words: str, path: str) -> str | None:
    """Where the file was moved to, below trash/. Matched with the memory's path, as folder names are arbitrary text."""
    cleaned = "/".join(part.replace(":", "") for part in path.split("/") if part)
    match = re.search(rf"; file in (trash/{_DRAWER}/{re.escape(cleaned) if cleaned else '.+'})\Z", words, re.DOTALL)
    return match[1] if match else None


def _update(entry: LedgerEntry, words: re.Match[str], before: Mapping[str, Any]) -> Operation | None:
    if len(entry.memory_ids) > 1 or entry.type not in (Mutation.UPDATE, Mutation.REINDEX):
        return None  # a link or alias derived from the file
    keys = tuple(sorted(key.strip() for key in words["keys"].split(",")))
    return operation.Update(id=_own(entry), keys=keys, place="index" if "overrides" in before else "file")


def _merge(entry: LedgerEntry, words: re.Match[str], before: Mapping[str, Any]) -> Operation:
    path = str(before.get("path", ""))
    trash = _trash(words["rest"] or "", path)
    return operation.Merge(
        id=_own(entry),
        merged=entry.memory_ids[0],
        into=int(words["into"]),
        files=(FileChange(path, trash=trash),) if trash else (),
    )


def _restore(entry: LedgerEntry, words: re.Match[str], before: Mapping[str, Any]) -> Operation:
    return operation.Restore(
        id=f"restore-{words['safety']}", checkpoint=words["name"], safety=words["safety"], clear=True
    )


def _restored_file(entry: LedgerEntry, words: re.Match[str], before: Mapping[str, Any]) -> Operation:
    """Without an id: the entry names the checkpoint, but not the restore that it belongs to."""
    path = str(before.get("path", ""))
    return operation.Restore(id="", checkpoint=words["name"], restore_files=True, files=(FileChange(path),))


def _link(entry: LedgerEntry, words: re.Match[str], before: Mapping[str, Any]) -> Operation:
    if words[0] == "unlink":
        return operation.Unlink(id=_own(entry))
    source, target = (*entry.memory_ids, 0)[:2]
    return operation.Link(id=_own(entry), source_id=source, target_id=target)


_DRAWER = r"\d{8}T\d{6}-[0-9a-f]{6}"
_FOLDER = re.compile(
    r" specFolder (?P<folder>.+); checkpoint (?P<checkpoint>before-delete-\d{8}-\d{6}(?:-\d+)?)"
    rf"(?:; file in trash/{_DRAWER}/.+)?\Z",
    re.DOTALL,
)
_UNDONE = re.compile(r"undo of (\d+)(?:-(\d+))?")
_Make = Callable[[LedgerEntry, "re.Match[str]", Mapping[str, Any]], Operation | None]
_REASONS: tuple[tuple[re.Pattern[str], _Make], ...] = tuple(
    (re.compile(pattern, re.DOTALL), make)
    for pattern, make in (
        (r"delete(?P<rest>(?: specFolder |; file in ).+)?", _delete),
        (r"update (?P<keys>[a-z_]+(?:, [a-z_]+)*)", _update),
        (r"merge into (?P<into>\d+)(?P<rest>; file in .+)?", _merge),
        (
            r"restore checkpoint (?P<name>.+); before it (?P<safety>before-restore-\d{8}-\d{6}(?:-\d+)?)",
            _restore,
        ),
        (r"file of checkpoint (?P<name>.+)", _restored_file),
        (
            r"validated as (not )?useful",
            lambda entry, words, before: operation.Validate(id=_own(entry), useful=not words[1]),
        ),
        (
            r"(not )?outdated",
            lambda entry, words, before: operation.Outdated(id=_own(entry), outdated=not words[1]),
        ),
        (r"trust( revoked)?", lambda entry, words, before: operation.Trust(id=_own(entry), trusted=not words[1])),
        (r"(?:un)?link", _link),
        (
            r"import of (?P<source>[0-9a-f]{16}); (?P<part>use|link|history)",
            lambda entry, words, before: operation.Import(id=_own(entry), source=words["source"], part=words["part"]),
        ),
    )
)
