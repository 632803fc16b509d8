"""What did a change do? Operations as data, one type per kind, stored with each ledger entry.

All entries of one call share the `id` of its operation. Undo, diff and recovery read these values; the `reason`
of an entry is a sentence for people and is never read by the program. What a memory was before and after
stands in the history row of the same entry: an operation holds what that row lacks, above all the files.

As JSON an operation has `id`, `kind`, `version` and those fields that differ from their default. Numbers are
whole (fractions are text), so that every program spells them alike. What a newer version wrote, or what is
damaged, is read as `Unknown` and never refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from spec_kit_memory.core.lean_dataclass import dataclass

if TYPE_CHECKING:
    from spec_kit_memory.core.memory import Memory

__all__ = [
    "KINDS",
    "VERSION",
    "Alias",
    "Create",
    "Delete",
    "FileChange",
    "Import",
    "Link",
    "Merge",
    "Move",
    "Operation",
    "Outdated",
    "Reindex",
    "Repair",
    "Restore",
    "Return",
    "Trust",
    "Undo",
    "Unknown",
    "Unlink",
    "Update",
    "Validate",
    "Vanish",
    "new_id",
    "read",
    "signed",
]

VERSION = 1


def new_id() -> str:
    """A version 4 UUID in 32 hexadecimal digits; the module uuid takes longer to load than a hook has."""
    random = int.from_bytes(os.urandom(16), "big")
    return f"{random & ~(0xF << 76 | 0x3 << 62) | 0x4 << 76 | 0x2 << 62:032x}"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that an operation wrote, replaced, moved away or took away.

    `path` is a stored path. `before` and `after` are the SHA-256 of the file's bytes, None where there was or is
    no file. `trash` says where the bytes of before are, below the state folder, None where they were not kept.
    """

    path: str
    before: str | None = None
    after: str | None = None
    trash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What all kinds have: the id that its entries share, and the files of this entry's memory."""

    kind: ClassVar[str] = ""
    id: str = field(default_factory=new_id)
    files: tuple[FileChange, ...] = ()
    user: str = ""  # who did it, as `Caller.user` has it; "" where callers have no names

    def seen(self, before: Memory | None, after: Memory) -> Operation:
        """What this entry says, given its memory before and after."""
        return self

    def plain(self) -> dict[str, Any]:
        """As plain JSON values; `read` is the inverse."""
        values: dict[str, Any] = {"id": self.id, "kind": self.kind, "version": VERSION}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name != "id" and value != _default(item):
                values[item.name] = _plain_value(value)
        return values


# --- the index follows the files


@dataclass(frozen=True, slots=True, kw_only=True)
class Reindex(Operation):
    """A file was read again.

    Scans and saves carry one of these for all their files; each entry then says what became of its own: created,
    moved, vanished, back, or only read again.
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
    """A file was found in another place, and its memory went along."""

    kind: ClassVar[str] = "move"
    path: str = ""
    previous_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanish(Operation):
    """A file was gone."""

    kind: ClassVar[str] = "vanish"
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Return(Operation):
    """A memory that was gone or forgotten is there again, by its file."""

    kind: ClassVar[str] = "return"
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias(Operation):
    """The second names of a memory changed: a copy of its file appeared or went."""

    kind: ClassVar[str] = "alias"
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair(Operation):
    """Health put something right."""

    kind: ClassVar[str] = "repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import(Operation):
    """Something was taken over from another system's database: `part` is use, link or history."""

    kind: ClassVar[str] = "import"
    source: str = ""  # the beginning of the database's hash
    part: str = ""


# --- what somebody asked for, and undo takes back


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Operation):
    """Metadata was set. In a file, `previous` is what its front matter said and `values` what it says now.

    Both are text, a list of texts, or None for what is not said; `keys` are the names in `Attributes`.
    """

    kind: ClassVar[str] = "update"
    keys: tuple[str, ...] = ()
    place: str = "file"  # file | index
    previous: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Operation):
    """A memory was forgotten on request; with `spec_folder`, as one of all in that folder."""

    kind: ClassVar[str] = "delete"
    path: str = ""
    spec_folder: str | None = None
    checkpoint: str | None = None  # that was made first


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge(Operation):
    """`merged` was forgotten because `into` has taken its text in and supersedes it.

    `files` are both: the one that went to the trash, and the one that got its text.
    """

    kind: ClassVar[str] = "merge"
    merged: int = 0
    into: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(Operation):
    """A checkpoint was restored. `safety` is the checkpoint of the moment before."""

    kind: ClassVar[str] = "restore"
    checkpoint: str = ""
    safety: str = ""
    clear: bool = False
    spec_folder: str | None = None
    restore_files: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Link(Operation):
    """A link was made or changed; the history row has it as it was and is."""

    kind: ClassVar[str] = "link"
    source_id: int = 0
    target_id: int = 0
    relation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unlink(Operation):
    """A link was removed; the history row has it as it was."""

    kind: ClassVar[str] = "unlink"
    link_id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Validate(Operation):
    """Somebody said whether a memory was useful, and perhaps that it is outdated, or made it critical."""

    kind: ClassVar[str] = "validate"
    useful: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outdated(Operation):
    kind: ClassVar[str] = "outdated"
    outdated: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust(Operation):
    """A person vouched for a text, or no longer does."""

    kind: ClassVar[str] = "trust"
    trusted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo(Operation):
    """Another operation was taken back, as far as that could be done."""

    kind: ClassVar[str] = "undo"
    of: str = ""  # that one's id
    undone: str = ""  # and its kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Operation):
    """What this version cannot read: another version's kind, or damage."""

    kind: ClassVar[str] = "unknown"
    named: str = ""  # the kind that it says it is
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
    """As the ledger keeps it: with its user. What has no operation of its own is written as one all the same."""
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
    """The inverse of `Operation.plain`; fields that only a newer version knows are left out."""
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
