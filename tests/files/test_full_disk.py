"""What happens when the disk is full or read-only, on a real small disk where one can be mounted."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from spec_kit_memory.core.memory import Actor, Change
from spec_kit_memory.errors import AccessDenied, SpecKitMemoryError
from spec_kit_memory.files import disk, write_counters
from spec_kit_memory.files.scan import Sync
from spec_kit_memory.filesystem import Place
from spec_kit_memory.index import open_index
from spec_kit_memory.settings import Settings

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CHANGE = Change(Actor.USER, NOW)
SMALL = 256 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs Linux and its root")
    yield Path(os.path.realpath(place))
    subprocess.run(["umount", str(place)], check=True)


def fill(small_disk: Path) -> None:
    with (small_disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


def everything(folder: Path) -> list[str]:
    return sorted(name for _, folders, names in os.walk(folder) for name in (*folders, *names))


def test_a_full_disk_leaves_the_old_text_and_no_half_file(small_disk: Path) -> None:
    disk.write_atomic(Place.of(small_disk / "a.md"), "old")
    fill(small_disk)
    with pytest.raises(AccessDenied) as caught:
        disk.write_atomic(Place.of(small_disk / "a.md"), "new" * 10_000)
    assert "space" in caught.value.hint
    assert (small_disk / "a.md").read_text() == "old"
    assert everything(small_disk) == ["a.md", "filler"]


def test_a_save_on_a_full_disk_fails_whole_and_works_once_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    settings = Settings(root=small_disk)
    store = open_index(tmp_path / "index.sqlite")
    sync = Sync(store, settings, now=lambda: NOW)
    sync.save(small_disk / "memory", "01-03-26_12-00__first", "# First\n\nText.\n", CHANGE)
    fill(small_disk)
    for _ in range(3):
        with pytest.raises(SpecKitMemoryError) as caught:
            sync.save(small_disk / "memory", "01-03-26_12-00__t", "# T\n\n" + "text " * 10_000, CHANGE)
        assert "space" in caught.value.hint
    assert os.listdir(small_disk / "memory") == ["01-03-26_12-00__first.md"]
    assert os.listdir(settings.state_folder / "pending") == []
    assert len(store.documents.find()) == 1
    (small_disk / "filler").unlink()
    saved = sync.save(small_disk / "memory", "01-03-26_12-00__t", "# T\n\n" + "text " * 10_000, CHANGE)
    assert saved.path.name == "01-03-26_12-00__t.md"
    assert len(store.documents.find()) == 2
    assert write_counters.read(settings, scope=settings.scope).atomic_writes == 2
    store.close()


def test_a_read_only_disk_can_be_scanned_and_says_why_it_cannot_be_written(small_disk: Path, tmp_path: Path) -> None:
    settings = Settings(root=small_disk)
    store = open_index(tmp_path / "index.sqlite")
    sync = Sync(store, settings, now=lambda: NOW)
    (small_disk / "memory").mkdir()
    (small_disk / "memory/a.md").write_text("# A\n\nText.\n")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert sync.scan().new == 1
    assert sync.recover().completed == []
    for write in (
        lambda: disk.write_atomic(Place.of(small_disk / "memory/a.md"), "new"),
        lambda: sync.save(small_disk / "memory", "01-03-26_12-00__t", "# T\n\nText.\n", CHANGE),
    ):
        with pytest.raises(AccessDenied) as caught:
            write()
        assert "read-only" in caught.value.hint
    assert (small_disk / "memory/a.md").read_text() == "# A\n\nText.\n"
    store.close()
