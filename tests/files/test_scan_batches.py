"""Several files in one transaction: the same as one by one, only faster, whatever goes wrong in between."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Actor, Change, Entry, Presence
from spec_kit_memory.core.operation import Reindex
from spec_kit_memory.errors import DatabaseUnusable
from spec_kit_memory.files import disk, index_entry, scan_state, spec_links
from spec_kit_memory.files.scan import Sync
from spec_kit_memory.files.scan_state import ScanReport
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index
from spec_kit_memory.index.sqlite import schema
from spec_kit_memory.settings import Settings
from tests.files.conftest import Write

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BY_USER = Change(Actor.USER, NOW, reason="test")
PROJECT = Path(__file__).parents[2]
Many = Callable[[int], list[str]]


@pytest.fixture
def sync(store: Index, settings: Settings) -> Sync:
    return Sync(store, settings, now=lambda: NOW)


@pytest.fixture
def many(write: Write) -> Many:
    """That many different files, old enough not to be read twice."""

    def make(count: int) -> list[str]:
        paths = [f"memory/m{number:03}.md" for number in range(count)]
        for number, path in enumerate(paths):
            aged(write(path, f"# M{number}\n\nText number {number}.\n"))
        return paths

    return make


def aged(path: Path, *, days: float = 10) -> Path:
    at = (NOW - timedelta(days=days)).timestamp()
    os.utime(path, (at, at))
    return path


def live(store: Index) -> list[str]:
    return sorted(path for path, row in store.documents.stored().items() if row.presence is Presence.LIVE)


def is_sound(store: Index) -> bool:
    return ledger.verify(store.record.ledger()) is None and not any(store.care.check(now=NOW).values())


# --- one bad file


def spoil(monkeypatch: pytest.MonkeyPatch, path: str, weight: Any) -> None:
    """That file cannot be stored, which comes out when a part of it has been written."""
    make = index_entry.make_entry

    def odd(*given: Any, **named: Any) -> Entry:
        entry = make(*given, **named)
        if entry.path != path:
            return entry
        return replace(entry, attributes=replace(entry.attributes, weight=weight))

    monkeypatch.setattr(index_entry, "make_entry", odd)


@pytest.mark.parametrize("place", [0, 4, 9])
def test_a_file_that_fails_in_a_batch_is_named_and_the_others_are_indexed(
    sync: Sync, store: Index, many: Many, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    paths = many(10)
    bad = paths.pop(place)
    with monkeypatch.context() as patch:
        spoil(patch, bad, object())
        report = sync.scan()
    assert [(item.path, item.code) for item in report.bad] == [(bad, "E000")]
    assert "TypeError" in report.bad[0].message
    assert (report.new, report.unknown) == (9, 1)
    assert live(store) == paths
    assert [entry.memory_ids for entry in store.record.ledger()] == [(number,) for number in range(1, 10)]
    assert is_sound(store)
    assert sync.scan().new == 1
    assert store.care.bad_files() == []


def test_what_the_database_refuses_ends_the_scan_and_leaves_what_came_before(
    sync: Sync, store: Index, many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = many(6)
    spoil(monkeypatch, paths[3], float("nan"))  # as NULL, which the column does not take
    with pytest.raises(DatabaseUnusable):
        sync.scan()
    assert live(store) == paths[:3]
    assert is_sound(store)


def test_spec_documents_that_a_dead_scan_wrote_are_linked_by_the_next_whole_one(
    sync: Sync, store: Index, settings: Settings, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("spec.md", "plan.md"):
        aged(write(f"specs/001-a/{name}", f"# {name}\n\nAbout {name}.\n"))
    other = aged(write("specs/002-b/spec.md", "# Other\n\nAbout another thing.\n"))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(spec_links, "rebuild", die)
        with pytest.raises(KeyboardInterrupt):
            sync.scan()
    assert not store.record.links()
    later = Sync(store, settings, now=lambda: NOW)  # of another process, which remembers nothing
    later.scan(only=[other])
    assert later.scan().unchanged == 3
    assert len(store.record.links()) == 1
    before = store.generation()
    later.scan()
    assert store.generation() == before


def test_a_database_that_cannot_be_written_ends_the_scan(store: Index, settings: Settings, many: Many) -> None:
    many(3)
    reader = open_index(settings.index_path, read_only=True)
    with pytest.raises(DatabaseUnusable, match="only be read"):
        Sync(reader, settings, now=lambda: NOW).scan()
    reader.close()
    assert live(store) == []


def test_a_move_that_was_undone_with_its_batch_is_found_again(
    sync: Sync, store: Index, many: Many, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = many(4)
    sync.scan()
    ids = {path: row.memory_id for path, row in store.documents.stored().items()}
    for path in paths[:3]:
        (root / path).rename(root / path.replace("/m", "/moved"))
    spoil(monkeypatch, "memory/moved002.md", object())
    report = sync.scan()
    assert (report.moved, report.unknown, report.deleted) == (2, 1, 1)
    stored = store.documents.stored()
    assert [stored[f"memory/moved{number:03}.md"].memory_id for number in (0, 1)] == [ids[path] for path in paths[:2]]
    assert stored[paths[2]].presence is Presence.GONE
    assert is_sound(store)


def test_unreadable_files_are_no_part_of_a_batch(sync: Sync, store: Index, many: Many, write: Write) -> None:
    paths = many(5)
    write(paths[2], b"\xff\xfe\xff")
    report = sync.scan()
    assert [(item.path, item.code) for item in report.bad] == [(paths[2], "E012")]
    assert live(store) == [path for path in paths if path != paths[2]]


# --- the same results


def dump(settings: Settings) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the index but its name."""
    expected = {table: f'SELECT * FROM "{table}" ORDER BY 1, 2' for table in (*schema.RECORDED, *schema.DERIVED)}
    expected["counter"] = "SELECT generation, used, epoch, synced FROM counter"
    # Links follow before the commit, which gives those of one batch another order.
    expected["link"] = (
        "SELECT source_id, target_id, relation, strength, evidence, origin, claimant FROM link ORDER BY 1, 2, 3"
    )
    expected["passage_fts"] = "SELECT * FROM passage_terms ORDER BY term, doc, col, offset"
    with closing(apsw.Connection(str(settings.index_path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        return {table: connection.execute(sql).fetchall() for table, sql in expected.items()}


def told(report: ScanReport) -> tuple[Any, ...]:
    numbers = [getattr(report, name) for name in ScanReport.__slots__ if name not in ("seconds", "bad", "warnings")]
    # Of a batch everything is read before anything is written, so that the two may come in another order.
    return (*numbers, sorted(map(repr, report.bad)), sorted(map(repr, report.warnings)))


class Twins:
    """Two workspaces that live through the same: one scans in batches, the other file by file."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self._now = NOW
        self.settings = [Settings(root=Path(os.path.realpath(folder)) / name) for name in ("batches", "alone")]
        for settings in self.settings:
            settings.root.mkdir()
            disk.ensure_state_folder(settings)
        self.stores = [open_index(settings.index_path) for settings in self.settings]
        self._syncs = [
            Sync(store, settings, now=lambda: self._now)
            for store, settings in zip(self.stores, self.settings, strict=True)
        ]

    def each(self, act: Callable[[Path], None]) -> None:
        for settings in self.settings:
            act(settings.root)

    def forget(self, path: str) -> None:
        for store in self.stores:
            memory = store.documents.get(path=path)
            if memory:
                store.documents.forget(memory.id, BY_USER)

    def scan(self, **options: Any) -> ScanReport:
        self._now += timedelta(hours=1)
        # One id for both: else every entry of the ledger would differ.
        change = Change(Actor.SYSTEM, self._now, reason="scan", operation=Reindex())
        reports = []
        for sync, (most, seconds) in zip(self._syncs, ((7, 1000.0), (1, 0.0)), strict=True):
            self._patch.setattr(scan_state, "BATCH_FILES", most)
            self._patch.setattr(scan_state, "HOLD_SECONDS", seconds)
            reports.append(sync.scan(change=change, **options))
        assert told(reports[0]) == told(reports[1])
        one, other = (dump(settings) for settings in self.settings)
        for table, found in one.items():
            assert found == other[table], table
        assert is_sound(self.stores[0])
        return reports[0]

    def close(self) -> None:
        for store in self.stores:
            store.close()


@pytest.fixture
def make_twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Twins]]:
    made: list[Twins] = []

    def make() -> Twins:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Twins(folder, monkeypatch))
        return made[-1]

    yield make
    for twins in made:
        twins.close()


@pytest.fixture
def twins(make_twins: Callable[[], Twins]) -> Twins:
    return make_twins()


PLACES = ("memory", "specs/001-a/memory", "specs/001-a", "specs/002-b/memory", "specs/002-b", "constitutional")
NAMES = ("spec.md", "plan.md", "tasks.md", "decision-record.md", "one.md", "two.md", "three.md")


class Life:
    """What people do to files, by chance but the same in both workspaces."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._made = 0

    def act(self, twins: Twins) -> None:
        kind = self._chance.choice(("write", "write", "write", "copy", "move", "remove", "forget", "touch", "spoil"))
        path, other, days = self._path(), self._path(), self._chance.randrange(1, 200)
        text = self._text(other)
        if kind == "forget":
            twins.forget(path)
        else:
            twins.each(lambda root: self._do(kind, root / path, root / other, text, days))

    def _path(self) -> str:
        return f"{self._chance.choice(PLACES)}/{self._chance.choice(NAMES)}"

    def _text(self, other: str) -> str:
        self._made += 1
        number = self._chance.choice((self._made, self._chance.randrange(1, 6)))  # some texts are there twice
        links = f"causal_links:\n  caused_by: [{other}, Title {number + 1}]\n" if number % 3 == 0 else ""
        front = f"---\ntitle: Title {number}\ntriggers: [phrase {number}]\n{links}---\n" if number % 2 else ""
        return f"{front}# Heading {number}\n\nText of number {number}.\n\n## More\n\nAnd more about {number}.\n"

    @staticmethod
    def _do(kind: str, path: Path, other: Path, text: str, days: float) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        other.parent.mkdir(parents=True, exist_ok=True)
        if kind in ("write", "spoil"):
            path.write_bytes(text.encode() if kind == "write" else b"\xff" + text.encode())
        elif path.exists() and path != other:
            if kind == "copy":
                shutil.copyfile(path, other)
                aged(other, days=days + 1)
            elif kind == "move":
                path.replace(other)
            elif kind == "remove":
                path.unlink()
        if path.exists():
            aged(path, days=days)


def test_batches_leave_exactly_what_file_by_file_leaves(make_twins: Callable[[], Twins]) -> None:
    kinds = ("new", "modified", "reindexed", "moved", "aliases", "deleted", "unknown", "forgotten")
    seen = dict.fromkeys(kinds, 0)
    for seed in range(8):
        life, twins = Life(seed), make_twins()
        for round_ in range(5):
            for _ in range(25):
                life.act(twins)
            report = twins.scan(force=round_ == 3)
            seen = {kind: seen[kind] + getattr(report, kind) for kind in kinds}
    assert all(seen.values()), seen


def test_copies_that_come_apart_are_indexed_in_their_turn(twins: Twins) -> None:
    def begin(root: Path) -> None:
        (root / "memory").mkdir()
        for name in "abcdefgh":
            aged(root / _written(root, name, "same text" if name in "adg" else f"text of {name}"))

    def edit(root: Path) -> None:
        for name in "abh":
            aged(root / _written(root, name, f"edited {name}"), days=5)

    twins.each(begin)
    assert twins.scan().aliases == 2
    twins.each(edit)
    report = twins.scan()
    # One of the copies is a memory of its own now, the other still a copy: of it.
    assert (report.modified, report.new, report.aliases) == (3, 1, 1)


def test_a_copy_takes_over_when_many_files_go(twins: Twins) -> None:
    def begin(root: Path) -> None:
        (root / "memory").mkdir()
        for name in "abcdefgh":
            aged(root / _written(root, name, "same text" if name in "cg" else f"text of {name}"))

    def leave(root: Path) -> None:
        for name in "abcdef":
            (root / f"memory/{name}.md").unlink()

    twins.each(begin)
    twins.scan()
    twins.each(leave)
    assert twins.scan().deleted == 6
    assert live(twins.stores[0]) == ["memory/g.md", "memory/h.md"]


def _written(root: Path, name: str, text: str) -> str:
    (root / f"memory/{name}.md").write_text(f"# Title\n\nThis is the {text}.\n")
    return f"memory/{name}.md"


# --- others who write meanwhile


def test_a_batch_is_left_when_its_moment_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = deque(range(5))
    monkeypatch.setattr(scan_state, "HOLD_SECONDS", 1000.0)
    assert list(scan_state.for_a_moment(queue)) == [0, 1, 2, 3, 4]
    queue = deque(range(3))
    monkeypatch.setattr(scan_state, "HOLD_SECONDS", 0.0)
    assert list(scan_state.for_a_moment(queue)) == [0]
    assert list(queue) == [1, 2]


class Watched:
    """Counts the memories that each transaction adds, as another handle sees them when it has ended."""

    def __init__(self, store: Index, other: Index, monkeypatch: pytest.MonkeyPatch) -> None:
        self.added: list[int] = []
        self._together = store.together
        self._other = other
        monkeypatch.setattr(store, "together", self.together)

    @contextmanager
    def together(self) -> Iterator[None]:
        before = self._other.documents.count()
        with self._together():
            yield
            assert self._other.documents.count() == before
        self.added.append(self._other.documents.count() - before)


@pytest.fixture
def other(store: Index, settings: Settings) -> Iterator[Index]:
    other = open_index(settings.index_path)
    yield other
    other.close()


@pytest.mark.parametrize(
    ("files_", "bytes_", "seconds", "expected"),
    [
        (4, 10**6, 1000.0, [4, 4, 2]),
        (100, 60, 1000.0, [3, 3, 3, 1]),  # they have 24 bytes each
        (100, 10**6, 1000.0, [10]),
        (5, 10**6, 0.0, [1] * 10),
    ],
)
def test_the_write_lock_is_given_back_after_some_files_some_text_or_a_moment(
    sync: Sync,
    store: Index,
    other: Index,
    many: Many,
    monkeypatch: pytest.MonkeyPatch,
    files_: int,
    bytes_: int,
    seconds: float,
    expected: list[int],
) -> None:
    many(10)
    monkeypatch.setattr(scan_state, "BATCH_FILES", files_)
    monkeypatch.setattr(scan_state, "BATCH_BYTES", bytes_)
    monkeypatch.setattr(scan_state, "HOLD_SECONDS", seconds)
    watched = Watched(store, other, monkeypatch)
    sync.scan()
    assert watched.added == expected


def test_files_that_go_and_links_that_come_give_the_lock_back_too(
    sync: Sync, store: Index, other: Index, write: Write, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("spec", "plan", "tasks"):
        aged(write(f"specs/001-a/{name}.md", f"# {name}\n\nText of {name}.\n"))
    monkeypatch.setattr(scan_state, "HOLD_SECONDS", 0.0)
    watched = Watched(store, other, monkeypatch)
    sync.scan()
    links = len(store.record.links())
    assert links > 1
    assert watched.added == [1, 1, 1] + [0] * links
    shutil.rmtree(root / "specs")
    watched.added.clear()
    assert sync.scan().deleted == 3
    assert watched.added == [-1, -1, -1]


def test_while_files_are_read_and_parsed_others_may_write(
    sync: Sync, store: Index, other: Index, many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hurried writer gives up after a moment: it comes through only if the scan does not hold the lock."""
    many(9)
    monkeypatch.setattr(scan_state, "BATCH_FILES", 3)

    def write_too(path: str, done: int, total: int) -> None:
        with other.hurried():
            other.record.use({}, NOW)
            other.documents.scanned(bad=[], cleared=[path])

    report = sync.scan(progress=write_too)
    assert report.new == 9


def test_what_was_saved_while_a_batch_waited_is_not_overwritten_by_what_was_read_before(
    sync: Sync, store: Index, settings: Settings, other: Index, many: Many, root: Path
) -> None:
    paths = many(5)
    second = Sync(other, settings, now=lambda: NOW)

    def save_the_first(path: str, done: int, total: int) -> None:
        if path == paths[3]:  # the first has been read, and nothing is written yet
            file = root / paths[0]
            file.write_text("# Newer\n\nWords of the newer text.\n")
            aged(file, days=1)
            second.index_file(file, BY_USER, explicit=True)
        if path == paths[4]:
            (root / paths[1]).unlink()

    report = sync.scan(progress=save_the_first)
    saved = store.documents.get(path=paths[0])
    assert saved is not None
    assert "newer text" in store.documents.text(saved.id)
    assert [(item.path, item.code) for item in report.bad] == [(paths[1], "E010")]
    assert live(store) == [paths[0], *paths[2:]]
    assert sync.scan().changed is False


# --- real processes


SCAN = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from spec_kit_memory.settings import Settings
from spec_kit_memory.index import open_index
from spec_kit_memory.files import scan, scan_state
root, size, die_at, wait = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
settings, now = Settings(root=root), datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
scan_state.BATCH_FILES, scan_state.HOLD_SECONDS, scan.LOCK_SECONDS = size, 1000.0, wait
store = open_index(settings.index_path)
put = store.documents.put

def counted(*given, **named):
    global die_at
    result = put(*given, **named)
    die_at -= 1
    if die_at == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return result

store.documents.put = counted
print("ready", flush=True)
sys.stdin.readline()
report = scan.Sync(store, settings, now=lambda: now).scan()
print(report.new, report.unchanged, flush=True)
"""


def scanner(root: Path, *, size: int, die_at: int = 0, wait: float = 60.0) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", SCAN, str(root), str(size), str(die_at), str(wait)]
    process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL there")
def test_a_scan_killed_in_a_batch_leaves_whole_batches_and_the_next_one_goes_on(
    sync: Sync, store: Index, many: Many, root: Path
) -> None:
    many(20)
    left = 0
    for die_at in (7, 1, 9):  # in the second batch of five, in the first, in the second
        process = scanner(root, size=5, die_at=die_at)
        process.communicate("go\n", timeout=60)
        assert process.returncode == -signal.SIGKILL
        left += (die_at - 1) // 5 * 5
        assert len(live(store)) == left
        assert len(list(store.record.ledger())) == left
        assert is_sound(store)
    report = sync.scan()
    assert (report.new, report.unchanged) == (20 - left, left)
    assert len(list(store.record.ledger())) == 20
    assert is_sound(store)
    assert sync.scan().changed is False


@pytest.mark.parametrize("wait", [60.0, 0.0])
def test_two_scans_at_once_index_every_file_once(
    store: Index, many: Many, write: Write, root: Path, wait: float
) -> None:
    """With turns taken, and where nobody waits for the other."""
    paths = many(60)
    aged(write("memory/copy.md", (root / paths[0]).read_text()))
    processes = [scanner(root, size=size, wait=wait) for size in (4, 7)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    messages = [process.communicate(timeout=120)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert live(store) == sorted([*paths, "memory/copy.md"])
    assert store.documents.count() == 60
    created = [entry for entry in store.record.ledger() if entry.type == "create"]
    assert len(created) == len({entry.memory_ids for entry in created}) == 60
    assert is_sound(store)
    if wait:
        assert sorted(messages) == sorted([["0", "61"], ["60", "0"]])
