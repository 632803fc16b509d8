"""What did a change do? Operations as data, one type per kind, stored with each ledger entry.

All entries of one call share the `id` of its operation. Undo, diff and recovery read these values; the `reason`
of an entry is a sentence for people and is never parsed. The memory before and after the change is recorded in the
history row of the same entry; an operation holds what that row lacks, above all the files.

As JSON an operation has `id`, `kind`, `version` and the fields that differ from their default. Numbers are integers
(fractions are stored as text), so that every program writes them alike. Operations of a newer version, and damaged
ones, are read as `Unknown`; reading never fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from spec_kit_memory.core.lean_dataclass import dataclass

if TYPE_CHECKING:
    from spec_kit_memory.core.memory import Memory

VERSION = 1


def new_id() -> str:
    """A version 4 UUID as 32 hexadecimal digits, without the uuid module, which loads too slowly for a hook."""
    random = int.from_bytes(os.urandom(16), "big")
    return f"{random & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62:032x}"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that an operation wrote, replaced, moved or removed.

    `path` is a stored path. `before` and `after` are the SHA-256 of the file's bytes, None if there was or is no
    file. `trash` is where the previous bytes are kept, below the state folder; None if they are not kept.
    """

    path: str
    before: str | None = None
    after: str | None = None
    trash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What all kinds have: the id shared by the entries of one call, and the files of this entry's memory."""

    kind: ClassVar[str] = ""
    id: str = field(default_factory=new_id)
    files: tuple[FileChange, ...] = ()
    user: str = ""  # who did it, see `Caller.user`; "" if callers have no names

    def seen(self, before: Memory | None, after: Memory) -> Operation:
        """The operation to record for one entry, given its memory before and after."""
        return self

    def plain(self) -> dict[str, Any]:
        """The operation as plain JSON values; `read` is the inverse."""
        values: dict[str, Any] = {"id": self.id, "kind": self.kind, "version": VERSION}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name != "id" and value != _default(item):
                values[item.name] = _plain_value(value)
        return values


# --- the index is updated from the files


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindex(Operation):
    """A file was read again.

    Scans and saves pass one of these for all their files; each entry then records what happened to its own memory:
    created, moved, vanished, returned, or only read again.
    """

    kind: ClassVar[str] = "reindex"
    path: str = ""

    def seen(self, before: Memory | None, after: Memory) -> Operation:
        if before is None:
            return Create(id=self.id, path=after.path)
        if after.presence != "live":
            return Vanish(id=self.id, path=after.path)
        if before.presence != "live":
            return Return(id=self.id, path=after.path)
        if before.path != after.path:
            return Move(id=self.id, path=after.path, previous_path=before.path)
        if before.aliases != after.aliases:
            return Alias(id=self.id, path=after.path)
        return Reindex(id=self.id, path=after.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(Operation):
    """A memory was indexed for the first time."""

    kind: ClassVar[str] = "create"
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Operation):
    """A file was found at a new path, and its memory now has that path."""

    kind: ClassVar[str] = "move"
    path: str = ""
    previous_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanish(Operation):
    """A file was missing."""

    kind: ClassVar[str] = "vanish"
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Return(Operation):
    """The file of a memory that was gone or forgotten exists again."""

    kind: ClassVar[str] = "return"
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias(Operation):
    """The aliases of a memory changed: a copy of its file appeared or disappeared."""

    kind: ClassVar[str] = "alias"
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(Operation):
    """The health check repaired something."""

    kind: ClassVar[str] = "repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Operation):
    """Data was imported from another system's database: `part` is use, link or history."""

    kind: ClassVar[str] = "import"
    source: str = ""  # the beginning of the database's hash
    part: str = ""


# --- changes made on request, which can be undone


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Operation):
    """Metadata was set. For a file, `previous` holds the old front matter values and `values` the new ones.

    Each is a string, a list of strings, or None if not set; `keys` are the names in `Attributes`.
    """

    kind: ClassVar[str] = "update"
    keys: tuple[str, ...] = ()
    place: str = "file"  # file | index
    previous: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Operation):
    """A memory was forgotten on request; with `spec_folder`, together with all others in that folder."""

    kind: ClassVar[str] = "delete"
    path: str = ""
    spec_folder: str | None = None
    checkpoint: str | None = None  # made before the deletion


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Operation):
    """`merged` was forgotten after its text was merged into `into`, which supersedes it.

    `files` has both: the file moved to the trash, and the file that received the text.
    """

    kind: ClassVar[str] = "merge"
    merged: int = 0
    into: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(Operation):
    """A checkpoint was restored. `safety` is the checkpoint made just before."""

    kind: ClassVar[str] = "restore"
    checkpoint: str = ""
    safety: str = ""
    clear: bool = False
    spec_folder: str | None = None
    restore_files: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Link(Operation):
    """A link was created or changed; the history row has it before and after."""

    kind: ClassVar[str] = "link"
    source_id: int = 0
    target_id: int = 0
    relation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlink(Operation):
    """A link was removed; the history row has it before."""

    kind: ClassVar[str] = "unlink"
    link_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate(Operation):
    """A caller rated a memory as useful or not, and perhaps marked it outdated or made it critical."""

    kind: ClassVar[str] = "validate"
    useful: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated(Operation):
    kind: ClassVar[str] = "outdated"
    outdated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust(Operation):
    """A person approved a text, or withdrew the approval."""

    kind: ClassVar[str] = "trust"
    trusted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo(Operation):
    """Another operation was undone, as far as possible."""

    kind: ClassVar[str] = "undo"
    of: str = ""  # the id of the operation undone
    undone: str = ""  # its kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Operation):
    """An operation that this version cannot read: of another version, or damaged."""

    kind: ClassVar[str] = "unknown"
    named: str = ""  # its kind, as recorded
    values: Mapping[str, Any] = field(default_factory=dict)

    def plain(self) -> dict[str, Any]:
        return dict(self.values)


KINDS: dict[str, type[Operation]] = {
    kind.kind: kind
    for kind in (
        Alias, Create, Delete, Import, Link, Merge, Move, Outdated, Reindex, Repair, Restore, Return, Trust, Undo,
        Unlink, Update, Validate, Vanish,
    )
}  # fmt: skip


def signed(done: Operation | None, user: str) -> Operation | None:
    """The operation with its user, as the ledger stores it. A named user is recorded even without an operation."""
    return replace(done or Reindex(), user=user) if user else done


# --- as JSON and back


def _default(item: Field[Any]) -> Any:
    return item.default_factory() if item.default_factory is not MISSING else item.default


def _plain_value(value: Any) -> Any:
    if isinstance(value, FileChange):
        items = ((item.name, getattr(value, item.name)) for item in fields(value))
        return {name: part for name, part in items if part is not None}
    if isinstance(value, tuple | list):
        return [_plain_value(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): _plain_value(part) for name, part in value.items()}
    return str(value) if isinstance(value, float | str) else value


def read(values: Mapping[str, Any]) -> Operation:
    """The inverse of `Operation.plain`; unknown fields are ignored."""
    kind = KINDS.get(str(values.get("kind")))
    try:
        if kind is None or values["version"] != VERSION:
            raise ValueError("not of this version")
        present = [item for item in fields(kind) if item.name in values]
        return kind(**{item.name: _READERS[str(item.type)](values[item.name]) for item in present})
    except (KeyError, TypeError, ValueError):
        return Unknown(id=str(values.get("id", "")), named=str(values.get("kind", "")), values=dict(values))


def _expect(*types: type) -> Callable[[Any], Any]:
    def reader(value: Any) -> Any:
        if type(value) not in types:
            raise TypeError(f"{value!r} is not {types[0].__name__}")
        return value

    return reader


_text, _text_or_none = _expect(str), _expect(str, type(None))


def _file_change(values: Any) -> FileChange:
    return FileChange(
        _text(values["path"]),
        *(_text_or_none(values.get(name)) for name in ("before", "after", "trash")),
    )


_READERS: dict[str, Callable[[Any], Any]] = {
    "str": _text,
    "str | None": _text_or_none,
    "bool": _expect(bool),
    "bool | None": _expect(bool, type(None)),
    "int": _expect(int),
    "tuple[str, ...]": lambda values: tuple(map(_text, _expect(list)(values))),
    "tuple[FileChange, ...]": lambda values: tuple(map(_file_change, _expect(list)(values))),
    "Mapping[str, Any]": lambda values: dict(_expect(dict)(values)),
}
