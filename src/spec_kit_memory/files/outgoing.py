"""Which file operations does a verb's change amount to on a team server, which accepts them instead of writing files?

A change of front matter alone is an edit: it is applied key by key to the file as it is in git by then.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from spec_kit_memory.core import front_edit, markdown
from spec_kit_memory.core.delivery import FileOperation, OperationKind
from spec_kit_memory.core.memory import owner_of
from spec_kit_memory.errors import BadPath, TooLarge
from spec_kit_memory.files import discover, disk, paths, pending
from spec_kit_memory.files.discover import MemoryFile
from spec_kit_memory.files.disk import FileText
from spec_kit_memory.files.pending import Saved
from spec_kit_memory.index.contract import Index, PutResult
from spec_kit_memory.settings import Settings

_KEYS = ("title", "triggers", "tier", "context_type", "weight", "created_at", "expires_at", "questions")


def unwritten(name: str, text: str, *, seen_ns: int) -> FileText:
    """A file with this text as if it had been written to disk."""
    data = text.encode("utf-8")
    _require_readable(name, data)
    return disk.text_of(data, unwritten_facts(size=len(data), mtime_ns=seen_ns), name=name, seen_ns=seen_ns)


def save(
    index: Index,
    settings: Settings,
    folder: Path,
    stem: str,
    text: str,
    *,
    put: Callable[[MemoryFile], PutResult],
    seen_ns: int,
    author: str | None,
) -> Saved[PutResult]:
    """Save a new memory under the first free name: its row and its file operation are one transaction.

    Other writers of the project wait for it, so whatever does not depend on the name is done before.
    """
    data = text.encode("utf-8")
    facts = unwritten_facts(size=len(data), mtime_ns=seen_ns)
    for final in pending.names(folder, stem):
        stored = paths.stored_form(settings, final)
        with index.together():  # so that no other save takes the name
            if index.outbox is None or index.documents.stored(stored):
                continue
            location = discover.place(settings, final, real=final, facts=facts)
            if location is None:
                raise BadPath(f"{stored} is no place for a memory", hint="choose another spec folder")
            result = put(location)
            if is_delivered(stored):
                index.outbox.add([operation(stored, before=None, after=data, base=None)], author=author)
        return Saved(final, result)
    raise pending.too_many(folder / f"{stem}.md")


def unwritten_facts(*, size: int, mtime_ns: int) -> os.stat_result:
    """The stat result of a file as if it had been written to disk."""
    seconds = mtime_ns // 1_000_000_000
    facts = (stat.S_IFREG | 0o644, 0, 0, 1, 0, 0, size, seconds, seconds, seconds)
    return os.stat_result(facts, {"st_mtime_ns": mtime_ns})  # type: ignore[call-arg, unused-ignore]


def is_delivered(path: str) -> bool:
    """Does a change of this path go into git? Users' private namespaces stay in the database."""
    return owner_of(path) is None


def operation(path: str, *, before: str | None, after: bytes | None, base: str | None) -> FileOperation:
    """`before` is the index's former text, with content hash `base`; `after` are the new bytes, None for no file."""
    if after is None:
        return FileOperation(OperationKind.REMOVE, path, base=base)
    _require_readable(path, after)
    if before is not None and (keys := _edited(before, disk.decode(after, name=path))) is not None:
        return FileOperation(OperationKind.EDIT, path, keys=keys, base=base)
    return FileOperation(OperationKind.WRITE, path, data=after, base=base)


def _require_readable(path: str, data: bytes) -> None:
    """Refuse larger files: git would accept them, but they are not read back, so the index would lose them."""
    if len(data) > disk.MAX_BYTES:
        problem = f"{path} would have {len(data):,} bytes; at most {disk.MAX_BYTES:,} are read"
        raise TooLarge(problem, hint="save it in parts; nothing was changed")


def _edited(before: str, after: str) -> dict[str, Any] | None:
    """The front matter keys that turn one text into the other; None if other text differs too."""
    old, new = markdown.parse(before).front, markdown.parse(after).front
    changed = {key: _plain(getattr(new, key)) for key in _KEYS if getattr(old, key) != getattr(new, key)}
    return changed if changed and front_edit.edit_front_matter(before, changed) == after else None


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value) or None
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value.value if isinstance(value, Enum) else value
