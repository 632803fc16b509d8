"""What may be on disk after the power failed at some moment? A model of a disk that keeps only what was synced.

A file's content and a folder's names are each durable up to their last sync. What came later may be lost, whole or in
part: of a file any sectors of any of its writes may be there, of a folder the first few of its changes, and one says
nothing about the other. Only a rename is one step. No real file system is this careless in every way at once.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.calls import Recorder

__all__ = ["POLICIES", "Disk"]

SECTOR = 512


@dataclass(frozen=True)
class _Event:
    kind: str
    node: int
    name: str = ""
    other: int = 0
    other_name: str = ""
    offset: int = 0
    data: bytes = b""


@dataclass
class _Node:
    """A file or a folder: what is durable of it, and what happened since its last sync."""

    is_folder: bool
    content: bytearray = field(default_factory=bytearray)
    names: dict[str, int] = field(default_factory=dict)
    mtime_ns: int | None = None
    waiting: list[_Event] = field(default_factory=list)


class Disk(Recorder):
    """Takes down what happens to a folder; `left_after` makes what a power cut at some event may leave of it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._events: list[_Event] = []
        self._numbers: dict[int, int] = {}  # inode numbers are used again: which object each is now
        self._next = 0
        self._start: dict[int, tuple[bool, bytes, dict[str, int], int | None]] = {}
        self._load(root)

    def __len__(self) -> int:
        return len(self._events)

    def _load(self, path: Path) -> int:
        number = self._new(path.stat().st_ino)
        if path.is_dir():
            names = {child.name: self._load(child) for child in sorted(path.iterdir()) if not child.is_symlink()}
            self._start[number] = (True, b"", names, None)
        else:
            self._start[number] = (False, path.read_bytes(), {}, path.stat().st_mtime_ns)
        return number

    def _new(self, inode: int) -> int:
        self._next += 1
        self._numbers[inode] = self._next
        return self._next

    # --- what happened

    def made(self, folder: int, name: str, inode: int, *, is_folder: bool = False) -> None:
        if folder in self._numbers:
            number = self._new(inode)
            self._add(_Event("folder" if is_folder else "file", number))
            self._add(_Event("enter", self._numbers[folder], name, number))

    def wrote(self, inode: int, offset: int, data: bytes) -> None:
        self._about(inode, "write", offset=offset, data=data)

    def cut(self, inode: int, size: int) -> None:
        self._about(inode, "cut", offset=size)

    def synced(self, inode: int) -> None:
        self._about(inode, "sync")

    def renamed(self, folder: int, name: str, to_folder: int, to: str) -> None:
        if folder in self._numbers and to_folder in self._numbers:
            self._add(_Event("rename", self._numbers[folder], name, self._numbers[to_folder], to))

    def linked(self, folder: int, name: str, inode: int) -> None:
        if folder in self._numbers and inode in self._numbers:
            self._add(_Event("enter", self._numbers[folder], name, self._numbers[inode]))

    def removed(self, folder: int, name: str) -> None:
        if folder in self._numbers:
            self._add(_Event("remove", self._numbers[folder], name))

    def _about(self, inode: int, kind: str, *, offset: int = 0, data: bytes = b"") -> None:
        if inode in self._numbers:
            self._add(_Event(kind, self._numbers[inode], offset=offset, data=data))

    def _add(self, event: _Event) -> None:
        self._events.append(event)

    # --- what is left

    def left_after(self, count: int, policy: Policy, target: Path) -> Path:
        """The folder as it may be found when the power failed after so many events."""
        nodes = {
            number: _Node(is_folder, bytearray(content), dict(names), mtime_ns)
            for number, (is_folder, content, names, mtime_ns) in self._start.items()
        }
        for event in self._events[:count]:
            _take(event, nodes)
        chance = random.Random(count)
        for node in list(nodes.values()):
            for event in policy(node, chance):
                _apply(event, nodes)
        _write(nodes, 1, target, {})
        return target


def _write(nodes: dict[int, _Node], number: int, path: Path, written: dict[int, Path]) -> None:
    node = nodes[number]
    if node.is_folder:
        path.mkdir(mode=0o755)
        for name, inner in node.names.items():
            _write(nodes, inner, path / name, written)
    elif number in written:
        os.link(written[number], path)
    else:
        path.write_bytes(node.content)
        written[number] = path
        if node.mtime_ns is not None:
            os.utime(path, ns=(node.mtime_ns, node.mtime_ns))


def _take(event: _Event, nodes: dict[int, _Node]) -> None:
    match event.kind:
        case "file" | "folder":
            nodes[event.node] = _Node(event.kind == "folder")
        case "sync":
            node = nodes[event.node]
            waiting, node.waiting = node.waiting, []
            for item in waiting:
                _apply(item, nodes)
        case "rename":
            nodes[event.node].waiting.append(event)
            if event.other != event.node:
                nodes[event.other].waiting.append(event)
        case _:
            nodes[event.node].waiting.append(event)


def _apply(event: _Event, nodes: dict[int, _Node]) -> None:
    node = nodes[event.node]
    match event.kind:
        case "write":
            node.mtime_ns = None
            if len(node.content) < event.offset:
                node.content += bytes(event.offset - len(node.content))
            node.content[event.offset : event.offset + len(event.data)] = event.data
        case "cut":
            del node.content[event.offset :]
        case "enter":
            node.names[event.name] = event.other
        case "remove":
            node.names.pop(event.name, None)
        case "rename":
            if event in nodes[event.other].waiting:
                nodes[event.other].waiting.remove(event)
            if event in node.waiting:
                node.waiting.remove(event)
            moved = node.names.pop(event.name, None)
            if moved is not None:
                nodes[event.other].names[event.other_name] = moved


# --- what of the rest survives -----------------------------------------------------------------

Policy = Callable[[_Node, random.Random], Iterator[_Event]]


def _nothing(node: _Node, chance: random.Random) -> Iterator[_Event]:
    yield from ()


def _names(node: _Node, chance: random.Random) -> Iterator[_Event]:
    yield from node.waiting[:] if node.is_folder else ()


def _content(node: _Node, chance: random.Random) -> Iterator[_Event]:
    yield from () if node.is_folder else node.waiting[:]


def _torn(node: _Node, chance: random.Random) -> Iterator[_Event]:
    waiting = node.waiting[:]
    if node.is_folder:
        yield from waiting[: chance.randrange(len(waiting) + 1)]
        return
    for event in waiting:
        for start in range(0, max(1, len(event.data)), SECTOR):
            if chance.random() < 0.5:
                piece = event.data[start : start + SECTOR]
                yield _Event(event.kind, event.node, offset=event.offset + start, data=piece)


def _all(node: _Node, chance: random.Random) -> Iterator[_Event]:
    yield from node.waiting[:]


POLICIES: dict[str, Policy] = {
    "all that was not synced is lost": _nothing,
    "names are there, content is not": _names,
    "content is there, names are not": _content,
    "torn": _torn,
}
EVERYTHING: Policy = _all
