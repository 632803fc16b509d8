from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from spec_kit_memory.core.memory import (
    Actor,
    Change,
    Conversation,
    Presence,
    Relation,
    Source,
    Stamp,
    Tier,
    Turn,
    VectorStatus,
    file_time,
)
from spec_kit_memory.errors import BadPath, DatabaseBusy, FileMissing, OutsideScope
from spec_kit_memory.files.discover import MemoryFile
from spec_kit_memory.files.scan import Sync
from spec_kit_memory.files.scan_state import MOST_ORIGINS, ScanDecision, decide
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index, PutResult, Stored
from spec_kit_memory.settings import Isolation, Settings

Write = Callable[..., Path]
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OLD = NOW - timedelta(days=10)
CHANGE = Change(Actor.USER, NOW, reason="test")
SECOND = 1_000_000_000


def age(path: Path, at: datetime = OLD) -> None:
    os.utime(path, (at.timestamp(), at.timestamp()))


@pytest.fixture
def sync(store: Index, settings: Settings) -> Sync:
    return Sync(store, settings, now=lambda: NOW)


@pytest.fixture
def aged(write: Write) -> Write:
    """Files old enough for the fast path."""

    def make(path: str, text: str | bytes = "# Title\n\nSome text.\n") -> Path:
        file = write(path, text)
        age(file)
        return file

    return make


def live(store: Index) -> dict[str, int]:
    return {path: row.memory_id for path, row in store.documents.stored().items() if row.presence is Presence.LIVE}


# --- decisions


def _found(*, size: int = 5, mtime: int = 100 * SECOND, folder: str | None = None) -> MemoryFile:
    return MemoryFile("memory/a.md", "/w/memory/a.md", Source.MEMORY, folder, size=size, mtime_ns=mtime)


def _stored(
    *, size: int = 5, mtime: int = 100 * SECOND, seen: int = 200 * SECOND, presence: Presence = Presence.LIVE
) -> Stored:
    return Stored(1, Stamp(size, mtime, seen), "raw", "print", presence, VectorStatus.PENDING)


@pytest.mark.parametrize(
    ("found", "stored", "expected"),
    [
        (None, None, ScanDecision.SKIP),
        (None, _stored(), ScanDecision.DELETED),
        (None, _stored(presence=Presence.GONE), ScanDecision.SKIP),
        (None, _stored(presence=Presence.FORGOTTEN), ScanDecision.SKIP),
        (_found(), None, ScanDecision.NEW),
        (_found(), _stored(), ScanDecision.SKIP),
        (_found(mtime=101 * SECOND), _stored(), ScanDecision.SKIP),
        (_found(mtime=99 * SECOND), _stored(), ScanDecision.SKIP),
        (_found(mtime=101 * SECOND + 1), _stored(), ScanDecision.MODIFIED),
        (_found(size=6), _stored(), ScanDecision.MODIFIED),
        (_found(), _stored(seen=102 * SECOND), ScanDecision.SKIP),
        (_found(), _stored(seen=102 * SECOND - 1), ScanDecision.MODIFIED),
        (_found(), _stored(seen=50 * SECOND), ScanDecision.MODIFIED),
        (_found(), _stored(mtime=0), ScanDecision.REINDEX),
        (_found(folder="001-a"), _stored(), ScanDecision.REINDEX),
        (_found(), _stored(presence=Presence.GONE), ScanDecision.REINDEX),
        (_found(), _stored(presence=Presence.FORGOTTEN), ScanDecision.SKIP),
        (_found(size=6), _stored(presence=Presence.FORGOTTEN), ScanDecision.MODIFIED),
    ],
)
def test_a_file_is_decided_by_its_stamp(
    found: MemoryFile | None, stored: Stored | None, expected: ScanDecision
) -> None:
    assert decide(found, stored) is expected


def test_force_reads_again_whatever_the_stamp_says() -> None:
    assert decide(_found(), _stored(), force=True) is ScanDecision.REINDEX


# --- scanning


def test_a_second_scan_does_nothing(sync: Sync, store: Index, aged: Write) -> None:
    aged("specs/001-a/memory/a.md")
    aged("memory/b.md", "# Another\n\nOther text.\n")
    first = sync.scan()
    assert (first.new, first.unchanged) == (2, 0)
    generation = store.generation()
    second = sync.scan()
    assert (second.new, second.unchanged, second.changed) == (0, 2, False)
    assert store.generation() == generation


def test_a_touched_file_is_only_stamped_again(sync: Sync, store: Index, aged: Write) -> None:
    file = aged("memory/a.md")
    sync.scan()
    age(file, OLD + timedelta(days=1))
    generation = store.generation()
    report = sync.scan()
    assert (report.unchanged, report.modified) == (1, 0)
    assert store.generation() == generation
    assert store.documents.stored()["memory/a.md"].stamp.mtime_ns == file.stat().st_mtime_ns


def test_an_edit_in_the_same_second_and_of_the_same_size_is_seen(sync: Sync, store: Index, write: Write) -> None:
    file = write("memory/a.md", "# One\n\nfirst\n")
    age(file, NOW - timedelta(seconds=1))
    sync.scan()
    file.write_text("# One\n\nother\n")
    age(file, NOW - timedelta(seconds=1))
    assert sync.scan().modified == 1
    assert "other" in store.documents.text(live(store)["memory/a.md"])


def test_a_changed_file_keeps_its_id(sync: Sync, store: Index, aged: Write) -> None:
    aged("memory/a.md")
    sync.scan()
    before = live(store)
    aged("memory/a.md", "# Title\n\nQuite another text.\n")
    age(sync._settings.root / "memory/a.md", NOW - timedelta(days=1))
    assert sync.scan().modified == 1
    assert live(store) == before


def test_a_vanished_file_leaves_and_comes_back_with_its_id(sync: Sync, store: Index, aged: Write) -> None:
    file = aged("memory/a.md")
    sync.scan()
    memory_id = live(store)["memory/a.md"]
    store.record.use({memory_id: 3.0}, NOW)
    file.unlink()
    assert sync.scan().deleted == 1
    assert live(store) == {}
    assert sync.scan().deleted == 0
    aged("memory/a.md")
    assert sync.scan().reindexed == 1
    assert live(store) == {"memory/a.md": memory_id}
    assert store.documents.get(memory_id).access_count == 3.0


def test_a_branch_switched_away_and_back_loses_nothing(sync: Sync, store: Index, aged: Write, root: Path) -> None:
    for number in range(5):
        aged(f"specs/00{number}-x/memory/a.md", f"# T{number}\n\nText of {number}.\n")
        aged(f"specs/00{number}-x/spec.md", f"# S{number}\n\nSpec of {number}.\n")
        aged(f"specs/00{number}-x/plan.md", f"# P{number}\n\nPlan of {number}.\n")
    sync.scan()
    ids, links = live(store), store.record.links()
    assert len(links) == 5
    shutil.move(root / "specs", root.parent / "aside")
    assert sync.scan().deleted == 15
    shutil.move(root.parent / "aside", root / "specs")
    sync.scan()
    assert live(store) == ids
    assert {(link.source_id, link.target_id) for link in store.record.links()} == {
        (link.source_id, link.target_id) for link in links
    }


@pytest.mark.parametrize("target", ["memory/renamed.md", "specs/001-a/memory/a.md"])
def test_a_moved_file_keeps_its_id(sync: Sync, store: Index, aged: Write, root: Path, target: str) -> None:
    file = aged("memory/a.md")
    sync.scan()
    memory_id = live(store)["memory/a.md"]
    (root / target).parent.mkdir(parents=True, exist_ok=True)
    file.rename(root / target)
    report = sync.scan()
    assert (report.moved, report.new, report.deleted) == (1, 0, 0)
    assert live(store) == {target: memory_id}


def test_a_moved_folder_keeps_every_id(sync: Sync, store: Index, aged: Write, root: Path) -> None:
    for number in range(10):
        aged(f"specs/001-a/memory/m{number}.md", f"# M{number}\n\nText {number}.\n")
    sync.scan()
    before = live(store)
    (root / "specs/001-a").rename(root / "specs/002-b")
    assert sync.scan().moved == 10
    assert live(store) == {path.replace("001-a", "002-b"): memory_id for path, memory_id in before.items()}


def test_a_file_that_moves_while_nobody_looks_in_between_is_found_later(
    sync: Sync, store: Index, aged: Write, root: Path
) -> None:
    file = aged("memory/a.md")
    sync.scan()
    memory_id = live(store)["memory/a.md"]
    file.unlink()
    sync.scan()
    aged("specs/001-a/memory/b.md")
    sync.scan()
    assert live(store) == {"specs/001-a/memory/b.md": memory_id}


def test_a_copy_in_another_folder_is_another_memory(sync: Sync, store: Index, aged: Write) -> None:
    aged("specs/001-a/memory/a.md")
    sync.scan()
    aged("specs/002-b/memory/a.md")
    assert sync.scan().new == 1
    assert len(set(live(store).values())) == 2


def test_a_copy_in_the_same_folder_is_an_alias_and_takes_over(sync: Sync, store: Index, aged: Write) -> None:
    first = aged("specs/001-a/memory/a.md")
    sync.scan()
    memory_id = live(store)["specs/001-a/memory/a.md"]
    aged("specs/001-a/memory/b.md", "# Title\n\nSome   TEXT.\n")
    report = sync.scan()
    assert (report.aliases, report.new) == (1, 0)
    assert store.documents.get(memory_id).aliases == ("specs/001-a/memory/b.md",)
    assert sync.scan().changed is False
    first.unlink()
    sync.scan()
    assert live(store) == {"specs/001-a/memory/b.md": memory_id}
    assert "TEXT" in store.documents.text(memory_id)


@pytest.mark.parametrize("folders", [1, 300])
def test_equal_files_that_are_all_renamed_are_not_compared_each_with_each(
    sync: Sync, store: Index, aged: Write, monkeypatch: pytest.MonkeyPatch, folders: int
) -> None:
    def place(number: int, name: str) -> str:
        return f"specs/{number % folders:03d}-a/memory/{name}-{number}.md"

    files = [aged(place(number, "old")) for number in range(300)]
    sync.scan()
    ids = set(live(store).values())
    assert len(ids) == folders
    for number, file in enumerate(files):
        file.rename(file.with_name(f"new-{number}.md"))
    looks = 0
    on_disk = Sync._on_disk

    def counted(self: Sync, path: str) -> bool:
        nonlocal looks
        looks += 1
        return on_disk(self, path)

    monkeypatch.setattr(Sync, "_on_disk", counted)
    report = sync.scan()
    assert (report.moved, report.aliases, report.new) == (folders, 300 - folders, 0)
    assert set(live(store).values()) == ids
    assert looks < 10 * 300 * max(1, min(folders, MOST_ORIGINS) // 10)
    assert sync.scan().changed is False


def test_an_alias_whose_first_file_changes_stands_for_itself(sync: Sync, store: Index, aged: Write) -> None:
    aged("specs/001-a/memory/a.md")
    aged("specs/001-a/memory/b.md")
    sync.scan()
    memory_id = live(store)["specs/001-a/memory/a.md"]
    aged("specs/001-a/memory/a.md", "# Title\n\nNo longer the same.\n")
    sync.scan()
    after = live(store)
    assert after["specs/001-a/memory/a.md"] == memory_id
    assert after["specs/001-a/memory/b.md"] != memory_id
    assert "Some text" in store.documents.text(after["specs/001-a/memory/b.md"])


def test_a_forgotten_memory_stays_forgotten_until_its_text_changes(sync: Sync, store: Index, aged: Write) -> None:
    file = aged("memory/a.md")
    sync.scan()
    memory_id = live(store)["memory/a.md"]
    store.documents.forget(memory_id, CHANGE)
    sync.scan()
    age(file, NOW - timedelta(days=1))
    sync.scan(force=True)
    assert live(store) == {}
    file.write_text("# Title\n\nA new text.\n")
    sync.scan()
    (new_id,) = live(store).values()
    assert new_id != memory_id, "an id that was deleted is never given to another text"


def test_a_branch_switched_away_and_back_does_not_bring_back_what_was_forgotten(
    sync: Sync, store: Index, aged: Write
) -> None:
    file = aged("memory/a.md")
    forgotten = file.read_text()
    sync.scan()
    store.documents.forget(live(store)["memory/a.md"], CHANGE)
    file.write_text("# Title\n\nA new text.\n")
    sync.scan()
    other = live(store)["memory/a.md"]
    file.unlink()
    sync.scan()
    aged("memory/a.md", forgotten)
    report = sync.scan()
    assert (live(store), report.forgotten) == ({}, 1)
    assert sync.scan().unchanged == 1
    aged("memory/a.md", "# Title\n\nA new text.\n")
    sync.scan()
    assert live(store) == {"memory/a.md": other}


def test_a_forgotten_file_that_moves_stays_forgotten(sync: Sync, store: Index, aged: Write, root: Path) -> None:
    file = aged("memory/a.md")
    sync.scan()
    store.documents.forget(live(store)["memory/a.md"], CHANGE)
    (root / "specs/001-a/memory").mkdir(parents=True)
    file.rename(root / "specs/001-a/memory/a.md")
    report = sync.scan()
    assert (report.forgotten, report.new) == (1, 0)
    assert live(store) == {}


def test_the_same_text_in_another_folder_is_not_forgotten_with_a_deleted_file(
    sync: Sync, store: Index, aged: Write
) -> None:
    file = aged("specs/001-a/memory/a.md")
    sync.scan()
    store.documents.forget(live(store)["specs/001-a/memory/a.md"], CHANGE)
    file.unlink()
    aged("specs/002-b/memory/other.md")
    sync.scan()
    assert list(live(store)) == ["specs/002-b/memory/other.md"]


def test_a_forgotten_file_comes_back_when_it_is_named(sync: Sync, store: Index, aged: Write) -> None:
    aged("memory/a.md")
    sync.scan()
    memory_id = live(store)["memory/a.md"]
    store.documents.forget(memory_id, CHANGE)
    sync.index_file("memory/a.md", CHANGE)
    assert live(store) == {}
    assert sync.index_file("memory/a.md", CHANGE, explicit=True).memory_id == memory_id
    assert live(store) == {"memory/a.md": memory_id}


def test_a_scan_of_a_spec_folder_takes_those_whose_names_start_so(sync: Sync, store: Index, aged: Write) -> None:
    for folder in ("003-p", "003-p/004-c", "003-pq", "004-p"):
        aged(f"specs/{folder}/memory/a.md", f"# {folder}\n\nText.\n")
    sync.scan(spec_folder="003-p")
    assert sorted(live(store)) == [f"specs/{name}/memory/a.md" for name in ("003-p/004-c", "003-p", "003-pq")]


def test_a_scan_of_one_folder_leaves_the_others_rows(sync: Sync, store: Index, aged: Write, root: Path) -> None:
    aged("specs/001-a/memory/a.md")
    other = aged("specs/002-b/memory/b.md", "# B\n\nOther.\n")
    sync.scan()
    other.unlink()
    assert sync.scan(spec_folder="001-a").deleted == 0
    assert "specs/002-b/memory/b.md" in live(store)


def test_a_limited_scan_looks_only_at_its_paths(sync: Sync, store: Index, aged: Write, root: Path) -> None:
    one, two = aged("memory/a.md"), aged("memory/b.md", "# B\n\nOther.\n")
    sync.scan()
    one.unlink()
    two.unlink()
    aged("memory/c.md", "# C\n\nThird.\n")
    aged("memory/d.md", "# D\n\nFourth.\n")
    sync.scan(only=[root / "memory/a.md", root / "memory/c.md"])
    assert sorted(live(store)) == ["memory/b.md", "memory/c.md"]
    sync.scan(only=[root / "memory"])
    assert sorted(live(store)) == ["memory/c.md", "memory/d.md"]


def test_outside_extra_files_stay_when_the_workspace_is_scanned(
    store: Index, settings: Settings, aged: Write, tmp_path: Path, root: Path
) -> None:
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra/x.md").write_text("# X\n\nExtra.\n")
    extra = replace(settings, extra_paths=("../extra",))
    sync = Sync(store, extra, now=lambda: NOW)
    aged("memory/a.md")
    assert sync.scan().new == 2
    assert sync.scan(only=[root / "memory"]).deleted == 0
    assert sync.scan(count=False).deleted == 0
    assert Sync(store, settings, now=lambda: NOW).scan().deleted == 1


def test_progress_is_told_and_a_cancelled_scan_deletes_nothing(sync: Sync, store: Index, aged: Write) -> None:
    told: list[tuple[str, int, int]] = []
    gone = aged("memory/gone.md", "# Gone\n\nText.\n")
    sync.scan(progress=lambda *now: told.append(now))
    assert told == [("memory/gone.md", 0, 1), ("", 1, 1)]
    gone.unlink()
    aged("memory/a.md")
    report = sync.scan(cancel=lambda: True)
    assert report.cancelled
    assert list(live(store)) == ["memory/gone.md"]
    assert sync.scan().deleted == 1


def test_a_changed_exclusion_takes_files_out(store: Index, settings: Settings, aged: Write) -> None:
    aged("memory/a.md")
    Sync(store, settings, now=lambda: NOW).scan()
    Sync(store, replace(settings, exclude=("memory/a.md",)), now=lambda: NOW).scan()
    assert live(store) == {}


# --- files that cannot be indexed


BAD: dict[str, tuple[bytes, str]] = {
    "memory/binary.md": (b"\x89PNG\r\n\x00\x00", "E012"),
    "memory/latin.md": (b"caf\xe9", "E012"),
    "memory/large.md": (b"x" * 5_000_000, "E013"),
}


def test_one_bad_file_never_stops_the_rest(sync: Sync, store: Index, aged: Write) -> None:
    for path, (data, _) in BAD.items():
        aged(path, data)
    aged("memory/x.md/inside.md")
    aged("memory/good.md")
    report = sync.scan()
    expected = {path: code for path, (_, code) in BAD.items()} | {"memory/x.md": "E014"}
    assert {bad.path: bad.code for bad in report.bad} == expected
    assert {bad.path: bad.code for bad in store.care.bad_files()} == expected
    assert all(";" in bad.message for bad in report.bad)  # what to do about it
    # Whoever shows it names the path in front.
    assert [bad.message for bad in report.bad if bad.message.split(" ")[0].endswith(bad.path)] == []
    assert list(live(store)) == ["memory/good.md"]


def test_a_mended_file_is_no_longer_bad(sync: Sync, store: Index, aged: Write) -> None:
    file = aged("memory/latin.md", b"caf\xe9")
    aged("memory/other.md", b"\x00")
    sync.scan()
    file.write_text("café")
    (sync._settings.root / "memory/other.md").unlink()
    sync.scan()
    assert store.care.bad_files() == []
    assert list(live(store)) == ["memory/latin.md"]


def test_a_file_that_turns_bad_keeps_what_was_indexed(sync: Sync, store: Index, aged: Write) -> None:
    aged("memory/a.md")
    sync.scan()
    aged("memory/a.md", b"\xff\x00")
    report = sync.scan()
    assert (report.unknown, report.deleted) == (1, 0)
    assert "Some text" in store.documents.text(live(store)["memory/a.md"])


def test_odd_files_are_indexed_with_warnings_that_name_the_line(sync: Sync, store: Index, aged: Write) -> None:
    aged("memory/yaml.md", "---\ntitle: [unclosed\n---\n# Yaml\n\nText.\n")
    aged("memory/anchor.md", "# Anchor\n\n<!-- ANCHOR:one -->\nText without an end.\n")
    report = sync.scan()
    assert len(live(store)) == 2
    assert {warning["path"] for warning in report.warnings} == {"memory/yaml.md", "memory/anchor.md"}
    assert any(warning["line"] == 3 for warning in report.warnings)


def test_rows_below_an_unreadable_folder_stay(
    open_root: Path, without_privileges: Callable[[], AbstractContextManager[None]]
) -> None:
    settings = Settings(root=open_root)
    with without_privileges():
        store = open_index(open_root / "index.sqlite")
        sync = Sync(store, settings, now=lambda: NOW)
        (open_root / "specs/001-a/memory").mkdir(parents=True)
        (open_root / "specs/001-a/memory/a.md").write_text("# A\n\nText.\n")
        sync.scan()
        (open_root / "specs/001-a").chmod(0)
        report = sync.scan()
        rows = list(live(store))
        store.close()
    assert (report.deleted, report.unknown) == (0, 1)
    assert [bad.code for bad in report.bad] == ["E011"]
    assert rows == ["specs/001-a/memory/a.md"]


def test_a_file_behind_a_link_is_looked_at_alone(sync: Sync, store: Index, aged: Write, root: Path) -> None:
    file = aged("docs/auth/memory/a.md")
    (root / "specs").mkdir()
    (root / "specs/007-auth").symlink_to("../docs/auth")
    sync.scan()
    file.write_text("# Title\n\nA longer text behind the link.\n")
    report = sync.scan(only=[root / "specs/007-auth/memory/a.md"])
    assert (report.modified, report.deleted, report.new) == (1, 0, 0)
    assert sync.scan(only=[file]).changed is False
    aged("docs/auth/memory/b.md", "# B\n\nNew.\n")
    assert sync.scan(only=[root / "docs/auth"]).new == 1
    file.unlink()
    assert sync.scan(only=[file]).deleted == 1


def test_a_missing_workspace_is_an_error_and_no_deletion(
    settings: Settings, aged: Write, tmp_path: Path, root: Path
) -> None:
    store = open_index(tmp_path / "index.sqlite")
    sync = Sync(store, settings, now=lambda: NOW)
    aged("memory/a.md")
    sync.scan()
    shutil.rmtree(root)
    with pytest.raises(FileMissing):
        sync.scan()
    assert list(live(store)) == ["memory/a.md"]
    store.close()


def test_a_database_that_fails_ends_the_scan(
    sync: Sync, store: Index, aged: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged("memory/a.md")

    def busy(*_: object, **__: object) -> PutResult:
        raise DatabaseBusy("busy")

    monkeypatch.setattr(store.documents, "put", busy)
    with pytest.raises(DatabaseBusy):
        sync.scan()
    assert store.care.bad_files() == []


def test_a_fault_of_our_own_in_one_file_is_reported_as_that_files(
    sync: Sync, store: Index, aged: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged("memory/a.md")
    aged("memory/b.md", "# B\n\nOther.\n")
    put = store.documents.put

    def odd(entry: object, *rest: object, **more: object) -> PutResult:
        if getattr(entry, "path", "") == "memory/a.md":
            raise ZeroDivisionError("odd")
        return put(entry, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(store.documents, "put", odd)
    report = sync.scan()
    assert [(bad.path, bad.code) for bad in report.bad] == [("memory/a.md", "E000")]
    assert list(live(store)) == ["memory/b.md"]


# --- what the place and the front matter say


def test_constitutional_files_are_rules_whatever_they_say(sync: Sync, store: Index, aged: Write) -> None:
    aged("constitutional/rule.md", "---\ntier: normal\n---\n# Rule\n\nAlways test.\n")
    sync.scan()
    [memory] = store.documents.find()
    assert (memory.tier, memory.source, memory.attributes.weight) == (Tier.CONSTITUTIONAL, Source.CONSTITUTIONAL, 1.0)


def test_spec_documents_have_their_tier_unless_they_say_another(sync: Sync, store: Index, aged: Write) -> None:
    aged("specs/001-a/spec.md")
    aged("specs/001-a/tasks.md", "# Tasks\n\nTo do.\n")
    aged("specs/001-a/plan.md", "---\ntier: critical\n---\n# Plan\n\nThe plan.\n")
    sync.scan()
    tiers = {memory.path.rpartition("/")[2]: memory.tier for memory in store.documents.find()}
    assert tiers == {"spec.md": Tier.IMPORTANT, "tasks.md": Tier.NORMAL, "plan.md": Tier.CRITICAL}


def test_a_temporary_memory_expires_a_week_after_its_own_date(sync: Sync, store: Index, aged: Write) -> None:
    aged("memory/a.md", "---\ntier: temporary\ncreated: 2026-02-01\n---\n# A\n\nText.\n")
    aged("memory/b.md", "---\ntier: temporary\n---\n# B\n\nText of b.\n")
    sync.scan()
    dates = {memory.path: memory.attributes.expires_at for memory in store.documents.find()}
    assert dates["memory/b.md"] == OLD + timedelta(days=7)
    expires = dates["memory/a.md"]
    assert expires is not None
    assert expires.date().isoformat() == "2026-02-08"


def test_title_and_date_fall_back_to_the_file(sync: Sync, store: Index, aged: Write) -> None:
    aged("memory/my-note.md", "no heading here\n")
    sync.scan()
    [memory] = store.documents.find()
    assert memory.title == "my-note"
    assert memory.attributes.created_at == file_time(OLD)
    assert memory.attributes.own_date is None


def test_secrets_stay_out_of_the_index_and_the_file_is_named(sync: Sync, store: Index, aged: Write) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    file = aged("memory/a.md", f"# Keys\n\naws_access_key_id = {key}\nlast line\n")
    report = sync.scan()
    [memory] = store.documents.find()
    text = store.documents.text(memory.id)
    assert key not in text
    assert text.count("\n") == file.read_text().count("\n")
    assert memory.redactions >= 1
    assert any(warning["path"] == "memory/a.md" and "secret" in warning["message"] for warning in report.warnings)
    assert key in file.read_text()


def test_text_from_outside_makes_no_rules_and_carries_no_triggers_until_trusted(
    store: Index, settings: Settings, write: Write
) -> None:
    write("docs/a.md", "---\ntier: constitutional\ntriggers: [deploy now]\n---\n# A\n\nAlways run it.\n")
    sync = Sync(store, replace(settings, extra_paths=("docs",)), now=lambda: NOW)
    report = sync.scan()
    [memory] = store.documents.find()
    assert (memory.source, memory.tier, memory.trusted) == (Source.CUSTOM, Tier.NORMAL, False)
    assert store.documents.triggers() == []
    assert sum("vouched" in warning["message"] for warning in report.warnings) == 2
    store.record.amend(memory.id, CHANGE, vouched=True)
    sync.index_file("docs/a.md", CHANGE, explicit=True)
    memory = store.documents.get(memory.id)
    assert memory.tier is Tier.CONSTITUTIONAL
    assert store.documents.triggers() == [(memory.id, "deploy now")]


def test_a_users_own_files_have_their_owner(sync: Sync, store: Index, aged: Write) -> None:
    aged("memory/users/ann/a.md")
    sync.scan()
    for user, count in (("ann", 1), ("bob", 0), (None, 0)):
        scope = Settings(root=Path("/"), isolation=Isolation(user_id=user)).scope
        assert [memory.owner for memory in store.within(scope).documents.find()] == ["ann"] * count


# --- links of spec documents


def _linked(store: Index) -> set[tuple[str, str, Relation]]:
    names = {memory.id: memory.path for memory in store.documents.find()}
    return {(names[link.source_id], names[link.target_id], link.relation) for link in store.record.links()}


def test_documents_of_a_spec_folder_are_linked_and_relinked(sync: Sync, store: Index, aged: Write, root: Path) -> None:
    aged("specs/001-a/spec.md", "# Spec\n\nWhat.\n")
    aged("specs/001-a/plan.md", "# Plan\n\nHow.\n")
    aged("specs/002-b/spec.md", "# Spec b\n\nWhat else.\n")
    sync.scan()
    assert _linked(store) == {("specs/001-a/spec.md", "specs/001-a/plan.md", Relation.CAUSED)}
    (root / "specs/001-a/plan.md").rename(root / "specs/002-b/plan.md")
    aged("specs/002-b/checklist.md", "# Check\n\nDone?\n")
    sync.scan()
    assert _linked(store) == {
        ("specs/002-b/spec.md", "specs/002-b/plan.md", Relation.CAUSED),
        ("specs/002-b/checklist.md", "specs/002-b/spec.md", Relation.SUPPORTS),
    }


def test_one_named_document_is_linked_too(sync: Sync, store: Index, aged: Write) -> None:
    aged("specs/001-a/spec.md", "# Spec\n\nWhat.\n")
    sync.scan()
    aged("specs/001-a/plan.md", "# Plan\n\nHow.\n")
    sync.index_file("specs/001-a/plan.md", CHANGE)
    assert len(_linked(store)) == 1


# --- one file


def test_a_named_file_is_indexed_at_once(sync: Sync, store: Index, aged: Write) -> None:
    aged("memory/a.md")
    result = sync.index_file("memory/a.md", CHANGE)
    assert result.created
    assert store.documents.get(result.memory_id).path == "memory/a.md"
    with pytest.raises(FileMissing):
        sync.index_file("memory/none.md", CHANGE)
    with pytest.raises(OutsideScope):
        sync.index_file("../none.md", CHANGE)


def test_a_named_file_that_was_moved_keeps_its_id(sync: Sync, store: Index, aged: Write, root: Path) -> None:
    file = aged("memory/a.md")
    first = sync.index_file("memory/a.md", CHANGE)
    (root / "specs/001-a/memory").mkdir(parents=True)
    file.rename(root / "specs/001-a/memory/a.md")
    assert sync.index_file("specs/001-a/memory/a.md", CHANGE).memory_id == first.memory_id
    assert sync.scan().changed is False
    assert live(store) == {"specs/001-a/memory/a.md": first.memory_id}


def test_a_conversation_that_grew_is_updated(sync: Sync, store: Index) -> None:
    turns = (Turn("user", "How do we log in?"), Turn("assistant", "With a token."))
    first = sync.index_conversation(Conversation("c1", "Login", turns), CHANGE)
    grown = (*turns, Turn("user", "Which token?"))
    second = sync.index_conversation(Conversation("c1", "Login", grown), CHANGE)
    assert (first.memory_id, second.created, second.changed) == (second.memory_id, False, True)
    memory = store.documents.get(first.memory_id)
    assert (memory.path, memory.source, memory.trusted) == ("chat://c1", Source.CHAT, False)
    assert "Which token" in store.documents.text(memory.id)
    assert sync.scan().deleted == 0
    assert store.documents.get(first.memory_id).presence is Presence.LIVE


def test_secrets_of_a_conversation_stay_out(sync: Sync, store: Index) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    result = sync.index_conversation(
        Conversation("c1", f"Key {key}", (Turn("user", f"aws_access_key_id = {key}"),)), CHANGE
    )
    memory = store.documents.get(result.memory_id)
    assert key not in store.documents.text(memory.id)
    assert key not in memory.title
    assert memory.redactions == 2


# --- saving, and processes that die


def test_a_saved_file_is_indexed_and_the_next_scan_has_nothing_to_do(sync: Sync, store: Index, root: Path) -> None:
    saved = sync.save(root / "specs/001-a/memory", "01-03-26_12-00__t", "# T\n\nSaved text.\n", CHANGE)
    path = "specs/001-a/memory/01-03-26_12-00__t.md"
    assert live(store) == {path: saved.result.memory_id}
    report = sync.scan()
    assert (report.changed, report.unchanged) == (False, 1)
    assert live(store) == {path: saved.result.memory_id}


def test_a_save_into_a_linked_spec_folder_belongs_to_that_folder(sync: Sync, store: Index, root: Path) -> None:
    (root / "docs/auth").mkdir(parents=True)
    (root / "specs").mkdir()
    (root / "specs/007-auth").symlink_to("../docs/auth")
    saved = sync.save(root / "specs/007-auth/memory", "01-03-26_12-00__t", "# T\n\nSaved text.\n", CHANGE)
    memory = store.documents.get(saved.result.memory_id)
    assert (memory.path, memory.spec_folder) == ("docs/auth/memory/01-03-26_12-00__t.md", "007-auth")
    assert sync.scan().changed is False


def test_a_row_whose_file_is_still_pending_is_not_vanished(sync: Sync, store: Index, root: Path) -> None:
    def step(name: str) -> None:
        if name == "indexed":
            assert sync.scan().deleted == 0
            assert len(live(store)) == 1

    sync.save(root / "memory", "01-03-26_12-00__t", "# T\n\nSaved text.\n", CHANGE, step=step)
    assert list(live(store)) == ["memory/01-03-26_12-00__t.md"]


def test_a_save_where_no_memory_can_be_is_refused_and_the_text_stays(sync: Sync, root: Path) -> None:
    with pytest.raises((BadPath, FileMissing)) as caught:
        sync.save(root / "docs", "01-03-26_12-00__t", "# T\n\nText.\n", CHANGE)
    assert "docs/01-03-26_12-00__t.md" in caught.value.message
    assert (root / "docs/01-03-26_12-00__t.md").exists()


SAVE = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from spec_kit_memory.core.memory import Actor, Change
from spec_kit_memory.settings import Settings
from spec_kit_memory.index import open_index
from spec_kit_memory.files.scan import Sync
root, at = Path(sys.argv[1]), sys.argv[2]
settings, now = Settings(root=root), datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
sync = Sync(open_index(settings.index_path), settings, now=lambda: now)

def step(name):
    if name == at:
        os.kill(os.getpid(), signal.SIGKILL)

sync.save(root / "memory", "01-03-26_12-00__t", "# T\\n\\nSaved text.\\n", Change(Actor.USER, now), step=step)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL there")
@pytest.mark.parametrize("at", ["claimed", "recorded", "half", "written", "indexed", "renamed", "done"])
def test_after_a_killed_save_file_and_index_agree(sync: Sync, store: Index, root: Path, at: str) -> None:
    done = subprocess.run([sys.executable, "-c", SAVE, str(root), at], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    sync.recover()
    has_text = at not in ("claimed", "recorded", "half")
    expected = ["memory/01-03-26_12-00__t.md"] if has_text else []
    assert list(live(store)) == expected
    assert [path.name for path in (root / "memory").iterdir()] == [path.split("/")[1] for path in expected]
    assert sync.scan().changed is False
    assert list(live(store)) == expected


def test_leftovers_of_the_dead_are_dealt_with_by_a_scan(sync: Sync, store: Index, write: Write, root: Path) -> None:
    write("memory/01-03-26_12-00__t_pending.md", "# T\n\nLeft over.\n")
    write("memory/.a.md.12ab.skm.tmp", "half")
    report = sync.scan()
    assert report.recovered == 1
    assert [path.name for path in (root / "memory").iterdir()] == ["01-03-26_12-00__t.md"]
    assert list(live(store)) == ["memory/01-03-26_12-00__t.md"]
