"""A workspace that has something in every table of its index, and what must be true of it whatever happens."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw

from spec_kit_memory.errors import DatabaseCorrupt
from spec_kit_memory.settings import Semantic, Settings
from spec_kit_memory.workspace import Workspace

NOTES = 40
FORGOTTEN, RENAMED = 12, 7  # numbers of notes
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PAGE = 4096
SEARCHED = (0, 5, 21, 39)


def opened(root: Path) -> Workspace:
    return Workspace(Settings(root=root, semantic=Semantic(model="hashing")), now=lambda: NOW)


def index_of(root: Path) -> Path:
    return root / ".spec-kit-memory" / "index.sqlite"


def make(root: Path) -> Path:
    """Notes with links and triggers, a copy, a file that is no text, a conversation, and things done to them."""
    memory = root / "specs" / "001-core" / "memory"
    memory.mkdir(parents=True)
    chance = random.Random(3)
    for number in range(NOTES):
        link = f"causal_links:\n  supports: [Note {number - 1}]\n" if number % 5 == 1 else ""
        front = f"---\ntitle: Note {number}\ntrigger_phrases: [phrase number {number}]\n{link}---\n"
        words = "\n\n".join(" ".join(f"w{chance.randrange(3000)}" for _ in range(60)) for _ in range(5))
        named = "It is drawn in `src/zebra.py`.\n\n" if number % 10 == 2 else ""
        text = f"{front}# Note {number}\n\nThe zebra{number} walks alone.\n\n{named}{words}\n"
        (memory / f"note-{number:02}.md").write_text(text, encoding="utf-8")
    (root / "src").mkdir()
    (root / "src" / "zebra.py").write_text("STRIPES = 26\n", encoding="utf-8")
    (memory / "copy.md").write_text((memory / "note-03.md").read_text(), encoding="utf-8")
    (memory / "no-text.md").write_bytes(b"\x80\x81 no text")
    turns = [{"role": ("user", "assistant")[turn % 2], "content": f"The quagga{turn} ran."} for turn in range(8)]
    talk = root / "talk.jsonl"
    talk.write_text("\n".join(json.dumps(turn) for turn in turns), encoding="utf-8")
    with opened(root) as workspace:
        workspace.index()
        assert workspace.chat_import([talk]).summary
        ids = {card.title: card.id for card in workspace.list(limit=100, max_tokens=50_000).memories}
        for number in range(0, NOTES, 3):
            workspace.validate(ids[f"Note {number}"], was_useful=True)
        for number in range(0, 30, 4):
            workspace.link(ids[f"Note {number}"], ids[f"Note {number + 1}"], "caused", evidence="because")
        workspace.delete(ids[f"Note {FORGOTTEN}"])
        workspace.update(ids[f"Note {RENAMED}"], title=f"Renamed {RENAMED}")
        chat = next(card.id for card in workspace.list(source="chat").memories)
        workspace.update(chat, importance_weight=0.9)  # it has no file: this is kept in the index
        for number in range(3):
            workspace.search("zebra1", session_id=f"session {number}")
    settle(index_of(root))
    return root


def settle(path: Path) -> None:
    """Nothing is left in the log, so that what is done to the file matters."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    for beside in ("-wal", "-shm"):
        Path(f"{path}{beside}").unlink(missing_ok=True)


def copied(root: Path, target: Path) -> Path:
    shutil.copytree(root, target)
    return target


# --- what must be true


@dataclass(frozen=True)
class Recorded:
    """What no file says."""

    memories: dict[int, tuple[str, str, int]]  # id -> path, title, validations
    hand_links: frozenset[tuple[int, int, str]]
    history: int
    ledger: int
    problems: frozenset[str]  # that health had to tell already

    @classmethod
    def of(cls, workspace: Workspace) -> Recorded:
        store = workspace._runtime.whole
        return cls(
            {memory.id: (memory.path, memory.title, memory.validation_count) for memory in store.documents.find()},
            frozenset((link.source_id, link.target_id, str(link.relation)) for link in store.record.links()),
            len(store.record.history()),
            sum(1 for _ in store.record.ledger()),
            frozenset(problem["check"] for problem in workspace.health().problems),
        )


def title_of(number: int) -> str:
    return f"Renamed {number}" if number == RENAMED else f"Note {number}"


def _finds(workspace: Workspace, number: int, **how: Any) -> bool:
    results = workspace.search(f"zebra{number}", **how).results
    return bool(results) and results[0].title == title_of(number)


READS: dict[str, Callable[[Workspace], bool]] = {
    **{f"zebra{number}": lambda w, number=number: _finds(w, number, mode="text") for number in SEARCHED},  # type: ignore[misc]
    "by meaning": lambda w: _finds(w, 21),
    "chat": lambda w: bool(w.search("quagga3", mode="text").results),
    "trigger": lambda w: bool(w.triggers("a phrase number 21 here").matches),
    "list": lambda w: (
        len(w.list(limit=100, max_tokens=50_000).memories) == NOTES
    ),  # one is forgotten, and there is a chat
    "stats": lambda w: w.stats().totals["memories"] == NOTES,
    "load": lambda w: "zebra21" in w.load(w.search("zebra21", mode="text").results[0].id).text,
    "get": lambda w: "zebra21" in w.get("specs/001-core/memory/note-21.md").text,
    "context": lambda w: bool(w.context("zebra21").text),
}


def read_all(workspace: Workspace) -> dict[str, str]:
    """By what was asked: right, damaged (E024), or wrong. Every other error is one of the test."""
    verdicts = {}
    for name, read in READS.items():
        try:
            verdicts[name] = "right" if read(workspace) else "wrong"
        except DatabaseCorrupt as error:
            verdicts[name] = "damaged" if "index(rebuild=True)" in error.hint else "without advice"
    return verdicts


# --- breaking it


def pages_of(path: Path) -> dict[str, list[tuple[int, str]]]:
    """The pages of each table and index with what they are: leaf, internal or overflow; the root first."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found: dict[str, list[tuple[int, str]]] = {}
    for name, page, kind in connection.execute("SELECT name, pageno, pagetype FROM dbstat ORDER BY path"):
        found.setdefault(str(name), []).append((int(page), str(kind)))
    connection.close()
    return found


def chosen_pages(pages: list[tuple[int, str]]) -> list[int]:
    """The root, and of each kind one in the middle and the last."""
    chosen = {pages[0][0]}
    for kind in {kind for _, kind in pages}:
        numbers = [number for number, other in pages if other == kind]
        chosen |= {numbers[len(numbers) // 2], numbers[-1]}
    return sorted(chosen)


def _zero(page: bytearray, start: int, chance: random.Random) -> None:
    page[:] = bytes(len(page))


def _overwrite(page: bytearray, start: int, chance: random.Random) -> None:
    page[:] = chance.randbytes(len(page))


def _flip_head(page: bytearray, start: int, chance: random.Random) -> None:
    for at in range(start, start + 8):
        page[at] ^= chance.randrange(1, 256)


def _flip_cells(page: bytearray, start: int, chance: random.Random) -> None:
    content = min(int.from_bytes(page[start + 5 : start + 7], "big") or PAGE, PAGE - 8)
    for _ in range(8):
        page[chance.randrange(content, PAGE)] ^= chance.randrange(1, 256)


def _drop_cells(page: bytearray, start: int, chance: random.Random) -> None:
    """As if the page had two rows less: SQLite itself reads over it."""
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    page[start + 3 : start + 5] = max(0, count - 2).to_bytes(2, "big")


DAMAGE: dict[str, Callable[[bytearray, int, random.Random], None]] = {
    "zeroed": _zero,
    "overwritten": _overwrite,
    "header flipped": _flip_head,
    "rows flipped": _flip_cells,
    "rows dropped": _drop_cells,
}


def damage(path: Path, number: int, kind: str) -> None:
    start = 100 if number == 1 else 0
    with path.open("r+b") as file:
        file.seek((number - 1) * PAGE)
        page = bytearray(file.read(PAGE))
        DAMAGE[kind](page, start, random.Random(number))
        file.seek((number - 1) * PAGE)
        file.write(page)


def patch(path: Path, offset: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)
