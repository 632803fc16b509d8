"""Is everything that was acknowledged still there, and do all parts agree? Asked after a soak.

The checks read the file and the folders themselves; of the product only parsing and redaction are
used, to know what a file ought to look like in the index.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from spec_kit_memory.core import ledger, markdown, redact
from spec_kit_memory.files import disk
from spec_kit_memory.filesystem import Place
from spec_kit_memory.index import open_index, rows
from spec_kit_memory.index.contract import Index

__all__ = [
    "Journal",
    "Kept",
    "agree",
    "check",
    "differences",
    "files_kept",
    "health_faults",
    "leftovers",
    "read_only",
]


@dataclass
class Kept:
    """One acknowledged memory. Sets hold what is possible: two values while a killed call may have done it or not."""

    id: int
    path: str
    sign: str
    text: str
    owner: str
    titles: set[str]
    present: set[bool] = field(default_factory=lambda: {True})
    file_gone: set[bool] = field(default_factory=lambda: {False})
    validations: int = 0
    validations_unknown: int = 0


@dataclass
class Journal:
    """What was acknowledged, kept outside the workspace."""

    kept: list[Kept] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)  # the editor's, as they must be at the end
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def saved(self, owner: str, done: Mapping[str, Any], *, sign: str, text: str, title: str) -> None:
        with self._guard:
            self.kept.append(Kept(done["id"], done["path"], sign, text, owner, {title}))

    def of(self, owner: str) -> list[Kept]:
        return [kept for kept in self.kept if kept.owner == owner]

    def summary(self) -> dict[str, int]:
        certain = Counter("unknown" if len(kept.present) > 1 else str(kept.present == {True}) for kept in self.kept)
        return {
            "saved": len(self.kept),
            "deleted": certain["False"],
            "deleted or not (killed)": certain["unknown"],
            "validations": sum(kept.validations for kept in self.kept),
            "links": len(self.links),
            "files of the editor": len(self.files),
        }


def check(root: Path, journal: Journal, health: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong, in words."""
    with contextlib.closing(read_only(root)) as connection:
        found = [
            *health_faults(health),
            *leftovers(root),
            *_sound(connection),
            *_in_step(connection),
            *_chain(connection),
            *_acknowledged(root, connection, journal),
            *_twice(connection),
        ]
    store = open_index(root / ".spec-kit-memory" / "index.sqlite", read_only=True)
    try:
        return [*found, *agree(root, store), *files_kept(root, journal)]
    finally:
        store.close()


def read_only(root: Path) -> apsw.Connection:
    return apsw.Connection(str(root / ".spec-kit-memory" / "index.sqlite"), flags=apsw.SQLITE_OPEN_READONLY)


def health_faults(health: Mapping[str, Any]) -> Iterator[str]:
    data = health.get("data", health)
    if not data.get("healthy"):
        yield f"health without repair: {data.get('problems', data)}"
    elif data["problems"]:
        yield f"health has notices: {data['problems']}"


def leftovers(root: Path) -> Iterator[str]:
    for path in root.rglob("*"):
        if path.name.endswith(("_pending.md", ".skm.tmp")):
            yield f"left over after a start: {path.relative_to(root)}"
    records = root / ".spec-kit-memory" / "pending"
    yield from (f"left over after a start: {path.name}" for path in records.glob("*"))


def _sound(connection: apsw.Connection) -> Iterator[str]:
    for pragma in ("integrity_check", "foreign_key_check"):
        rows = connection.execute(f"PRAGMA {pragma}").fetchall()
        if rows not in ([("ok",)], []):
            yield f"{pragma}: {rows[:5]}"


def _in_step(connection: apsw.Connection) -> Iterator[str]:
    """Passages of live memories, entries of the text index and vectors: one of each."""

    def ids(sql: str) -> set[Any]:
        return {row[0] for row in connection.execute(sql)}

    passages = ids("SELECT p.id FROM passage p JOIN memory m ON m.id = p.memory_id WHERE m.presence = 'live'")
    words = ids("SELECT rowid FROM passage_fts")
    if passages != words:
        yield f"text index: {len(passages - words)} passages missing, {len(words - passages)} too many"
    bare = ids(
        "SELECT p.id FROM passage p JOIN memory m ON m.id = p.memory_id WHERE m.presence = 'live'"
        " AND (p.vector_id IS NULL OR p.vector_id NOT IN (SELECT id FROM vector))"
    )
    if bare:
        yield f"vectors: {len(bare)} of {len(passages)} passages have none"


def _chain(connection: apsw.Connection) -> Iterator[str]:
    numbers = [row[0] for row in connection.execute("SELECT sequence FROM ledger ORDER BY sequence")]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"ledger: {len(numbers)} entries numbered {numbers[:1]} to {numbers[-1:]}"
    store = open_index(Path(connection.filename), read_only=True)
    try:
        broken = ledger.verify(store.record.ledger())
    finally:
        store.close()
    if broken:
        yield f"ledger: {broken.reason}"


def _acknowledged(root: Path, connection: apsw.Connection, journal: Journal) -> Iterator[str]:
    sql = (
        "SELECT id, path, presence, title, ifnull(validation_count, 0), content_hash"
        " FROM memory LEFT JOIN usage ON memory_id = id"
    )
    found = {row[0]: row[1:] for row in connection.execute(sql)}
    for kept in journal.kept:
        row = found.get(kept.id)
        if row is None:
            yield f"lost: memory {kept.id} {kept.path}"
            continue
        path, presence, title, validations, content = row
        yield from differences(root, kept, path=path, presence=presence, title=title, validations=validations)
        blob: list[Any] = connection.execute("SELECT text FROM content WHERE hash = ?", (content,)).fetchall()
        if not blob or kept.text not in rows.unpack(blob[0][0]):
            yield f"memory {kept.id} ({kept.sign}) has lost its text"
    links = set(connection.execute("SELECT source_id, target_id FROM link").fetchall())
    standing = {kept.id for kept in journal.kept if kept.present == {True}}
    for link in journal.links:
        if link not in links and set(link) <= standing:
            yield f"lost: link {link}"


def _twice(connection: apsw.Connection) -> Iterator[str]:
    """A save that was cut off is there once or not at all; nothing is there twice."""
    rows_ = connection.execute("SELECT path FROM memory WHERE presence = 'live' GROUP BY path HAVING count(*) > 1")
    yield from (f"{path} is in the index twice" for (path,) in rows_)
    texts: Counter[str] = Counter()
    for (content,) in connection.execute(
        "SELECT c.text FROM memory m JOIN content c ON c.hash = m.content_hash WHERE m.presence = 'live'"
    ):
        texts.update(set(re.findall(r"Decided (\w+x\d+) about", rows.unpack(content))))
    yield from (f"{sign} is in {count} memories" for sign, count in texts.items() if count > 1)


def differences(root: Path, kept: Kept, *, path: str, presence: str, title: str, validations: int) -> Iterator[str]:
    """What is not as it was acknowledged."""
    what = f"memory {kept.id} ({kept.sign})"
    if path != kept.path:
        yield f"{what} was saved at {kept.path} and is at {path}"
    if (presence == "live") not in kept.present:
        yield f"{what} is {presence}, acknowledged was {kept.present}"
    if (not (root / path).exists()) not in kept.file_gone:
        yield f"{what}: its file is {'there' if (root / path).exists() else 'gone'}"
    if title not in kept.titles:
        yield f"{what} is titled {title!r}, acknowledged was {kept.titles}"
    if not kept.validations <= validations <= kept.validations + kept.validations_unknown:
        yield f"{what} has {validations} validations, acknowledged were {kept.validations}"


def agree(root: Path, store: Index) -> Iterator[str]:
    """Each live row says what its file says, and each file has its row or was forgotten."""
    stored = store.documents.stored()
    live = {path: row for path, row in stored.items() if row.presence == "live"}
    on_disk = {path.relative_to(root).as_posix(): path for path in (root / "specs").rglob("*.md")}
    yield from (f"indexed, but no file: {path}" for path in sorted(live.keys() - on_disk.keys()))
    yield from (f"a file, but not indexed: {path}" for path in sorted(on_disk.keys() - stored.keys()))
    for path, row in live.items():
        if path not in on_disk or row.alias:
            continue
        text = markdown.normalise(redact.redact(disk.read(Place(root, tuple(path.split("/")))).text).text)
        if store.documents.text(row.memory_id).rstrip("\n") != text.rstrip("\n"):
            yield f"file and index disagree: {path}"


def files_kept(root: Path, journal: Journal) -> Iterator[str]:
    for path, text in journal.files.items():
        try:
            if (root / path).read_text(encoding="utf-8") != text:
                yield f"a file of the editor was changed: {path}"
        except FileNotFoundError:
            yield f"a file of the editor is gone: {path}"
