from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spec_kit_memory.core.memory import Presence
from spec_kit_memory.errors import DatabaseBusy
from spec_kit_memory.files.scan import Sync
from spec_kit_memory.files.scan_state import ScanReport
from spec_kit_memory.files.watch import Watcher
from spec_kit_memory.index.contract import Index
from spec_kit_memory.settings import Settings

Write = Callable[..., Path]
SECONDS = 120.0  # a deadline, never a measure


def now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def watching(
    store: Index,
    settings: Settings,
    *,
    polling: bool = False,
    ready: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Watcher]:
    watcher = Watcher(
        Sync(store, settings, now=now),
        settings,
        debounce_seconds=0.05,
        poll_seconds=0.05,
        take_over_seconds=0.05,
        retry_seconds=0.05,
        polling=polling,
        clock=clock,
    )
    stop = threading.Event()
    thread = threading.Thread(target=watcher.run, args=(stop,))
    thread.start()
    try:
        assert not ready or watcher.ready.wait(SECONDS)
        yield watcher
    finally:
        stop.set()
        thread.join(SECONDS)
        assert not thread.is_alive()


def live(store: Index) -> dict[str, int]:
    return {path: row.memory_id for path, row in store.documents.stored().items() if row.presence is Presence.LIVE}


def becomes(watcher: Watcher, store: Index, paths: set[str]) -> None:
    assert watcher.wait_for(lambda: set(live(store)) == paths, seconds=SECONDS), live(store)


@pytest.mark.parametrize("polling", [False, True])
def test_files_that_come_change_move_and_go_are_followed(
    store: Index, settings: Settings, write: Write, root: Path, polling: bool
) -> None:
    write("memory/before.md", "# Before\n\nWas there.\n")
    with watching(store, settings, polling=polling) as watcher:
        becomes(watcher, store, {"memory/before.md"})
        write("memory/a.md", "# A\n\nFirst text.\n")
        becomes(watcher, store, {"memory/before.md", "memory/a.md"})
        memory_id = live(store)["memory/a.md"]
        write("memory/a.md", "# A\n\nSecond text, longer.\n")
        assert watcher.wait_for(lambda: "Second" in store.documents.text(memory_id), seconds=SECONDS)
        (root / "memory/a.md").rename(root / "memory/b.md")
        becomes(watcher, store, {"memory/before.md", "memory/b.md"})
        assert live(store)["memory/b.md"] == memory_id
        (root / "memory/before.md").unlink()
        becomes(watcher, store, {"memory/b.md"})
        assert watcher.settle(seconds=SECONDS)
        assert watcher.problem == ""


@pytest.mark.parametrize("polling", [False, True])
def test_a_watcher_is_ready_on_a_machine_that_was_just_started(
    store: Index, settings: Settings, write: Write, polling: bool
) -> None:
    started = time.monotonic()
    write("memory/before.md", "# Before\n\nWas there.\n")
    with watching(store, settings, polling=polling, clock=lambda: time.monotonic() - started) as watcher:
        becomes(watcher, store, {"memory/before.md"})


def test_an_editor_that_replaces_the_file_is_followed(
    store: Index, settings: Settings, write: Write, root: Path
) -> None:
    write("memory/a.md", "# A\n\nFirst text.\n")
    with watching(store, settings) as watcher:
        becomes(watcher, store, {"memory/a.md"})
        memory_id = live(store)["memory/a.md"]
        write("memory/.a.md.swp", "swap")
        write("memory/a.md.tmp", "# A\n\nReplaced text.\n")
        os.replace(root / "memory/a.md.tmp", root / "memory/a.md")
        assert watcher.wait_for(lambda: "Replaced" in store.documents.text(memory_id), seconds=SECONDS)
        assert list(live(store)) == ["memory/a.md"]


def test_folders_that_are_made_moved_and_removed_are_followed(
    store: Index, settings: Settings, write: Write, root: Path
) -> None:
    with watching(store, settings) as watcher:
        write("specs/001-a/memory/a.md", "# A\n\nText of a.\n")
        write("specs/001-a/spec.md", "# Spec\n\nText of spec.\n")
        becomes(watcher, store, {"specs/001-a/memory/a.md", "specs/001-a/spec.md"})
        ids = live(store)
        (root / "specs/001-a").rename(root / "specs/002-b")
        becomes(watcher, store, {"specs/002-b/memory/a.md", "specs/002-b/spec.md"})
        assert set(live(store).values()) == set(ids.values())
        shutil.rmtree(root / "specs/002-b")
        becomes(watcher, store, set())
        write("memory/late.md", "# Late\n\nA new place.\n")
        becomes(watcher, store, {"memory/late.md"})


def test_a_checkout_that_touches_a_thousand_files_is_followed(store: Index, settings: Settings, root: Path) -> None:
    aside = root.parent / "branch"
    for folder in range(20):
        place = aside / f"{folder:03}-f/memory"
        place.mkdir(parents=True)
        for number in range(50):
            (place / f"m{number}.md").write_text(f"# M {folder} {number}\n\nText {folder} {number}.\n")
    (root / "specs").mkdir()
    with watching(store, settings) as watcher:
        shutil.copytree(aside, root / "specs", dirs_exist_ok=True)
        assert watcher.wait_for(lambda: len(live(store)) == 1000, seconds=SECONDS)
        before = live(store)
        for path in (root / "specs").iterdir():
            shutil.rmtree(path)
        becomes(watcher, store, set())
        shutil.copytree(aside, root / "specs", dirs_exist_ok=True)
        assert watcher.wait_for(lambda: live(store) == before, seconds=SECONDS)


def test_single_files_outside_the_folders_are_followed(
    store: Index, settings: Settings, write: Write, root: Path
) -> None:
    extra = root.parent / "notes.md"
    with watching(store, replace(settings, extra_paths=("../notes.md",))) as watcher:
        write("MEMORY.md", "# Index\n\nAt the root.\n")
        extra.write_text("# Notes\n\nOutside.\n")
        becomes(watcher, store, {"MEMORY.md", extra.as_posix()})
        (root / "MEMORY.md").unlink()
        becomes(watcher, store, {extra.as_posix()})


def test_a_folder_behind_a_link_is_followed(store: Index, settings: Settings, write: Write, root: Path) -> None:
    write("docs/auth/memory/a.md", "# A\n\nText.\n")
    (root / "specs").mkdir()
    (root / "specs/007-auth").symlink_to("../docs/auth")
    with watching(store, settings) as watcher:
        becomes(watcher, store, {"docs/auth/memory/a.md"})
        write("docs/auth/memory/b.md", "# B\n\nOther text.\n")
        becomes(watcher, store, {"docs/auth/memory/a.md", "docs/auth/memory/b.md"})


def test_others_are_told_when_something_was_indexed(store: Index, settings: Settings, write: Write) -> None:
    message = threading.Event()
    watcher = Watcher(Sync(store, settings, now=now), settings, on_indexed=message.set, debounce_seconds=0.05)
    stop = threading.Event()
    thread = threading.Thread(target=watcher.run, args=(stop,))
    thread.start()
    try:
        assert watcher.ready.wait(SECONDS)
        assert not message.is_set()
        write("memory/a.md")
        assert message.wait(SECONDS)
    finally:
        stop.set()
        thread.join(SECONDS)


class Failing(Sync):
    """A sync whose first scans fail."""

    failures = 2

    def scan(self, **options: object) -> ScanReport:
        if self.failures:
            self.failures -= 1
            raise DatabaseBusy("the index was busy")
        return super().scan(**options)  # type: ignore[arg-type]


def test_a_failure_is_kept_and_tried_again(store: Index, settings: Settings, write: Write) -> None:
    write("memory/a.md")
    watcher = Watcher(Failing(store, settings, now=now), settings, debounce_seconds=0.05, retry_seconds=0.05)
    stop = threading.Event()
    thread = threading.Thread(target=watcher.run, args=(stop,))
    thread.start()
    try:
        assert watcher.wait_for(lambda: watcher.problem != "" or bool(live(store)), seconds=SECONDS)
        becomes(watcher, store, {"memory/a.md"})
        assert watcher.ready.wait(SECONDS)
        assert watcher.problem == ""
    finally:
        stop.set()
        thread.join(SECONDS)


def test_without_events_the_watcher_looks_instead(
    store: Index, settings: Settings, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    import watchfiles

    def none_left(*_: object, **__: object) -> Iterator[set[tuple[object, str]]]:
        raise OSError(28, "OS file watch limit reached")

    monkeypatch.setattr(watchfiles, "watch", none_left)
    write("memory/a.md")
    with watching(store, settings) as watcher:
        write("memory/b.md", "# B\n\nOther.\n")
        becomes(watcher, store, {"memory/a.md", "memory/b.md"})


def test_a_watcher_that_is_switched_off_ends_at_once(store: Index, settings: Settings) -> None:
    off = replace(settings, watch="off")
    Watcher(Sync(store, off, now=now), off).run(threading.Event())


def test_one_of_two_watches_and_the_other_takes_over_when_it_dies(
    store: Index, settings: Settings, write: Write, root: Path
) -> None:
    code = (
        "import sys, threading\nfrom datetime import UTC, datetime\nfrom pathlib import Path\n"
        "from spec_kit_memory.settings import Settings\nfrom spec_kit_memory.index import open_index\n"
        "from spec_kit_memory.files.scan import Sync\nfrom spec_kit_memory.files.watch import Watcher\n"
        "settings = Settings(root=Path(sys.argv[1]))\n"
        "sync = Sync(open_index(settings.index_path), settings, now=lambda: datetime.now(UTC))\n"
        "watcher = Watcher(sync, settings, debounce_seconds=0.05)\n"
        "threading.Thread(target=watcher.run, args=(threading.Event(),), daemon=True).start()\n"
        "watcher.ready.wait()\nprint('watching', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "watching"
        with watching(store, settings, ready=False) as mine:
            write("memory/a.md")
            becomes(mine, store, {"memory/a.md"})
            assert not mine.ready.is_set()
            other.kill()
            other.wait()
            write("memory/b.md", "# B\n\nWhile nobody watched.\n")
            assert mine.ready.wait(SECONDS)
            becomes(mine, store, {"memory/a.md", "memory/b.md"})
