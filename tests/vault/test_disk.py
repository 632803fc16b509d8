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
from spec_kit_memory.settings import Settings
from spec_kit_memory.store import open_store
from spec_kit_memory.vault import counters, files
from spec_kit_memory.vault.sync import Sync

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CHANGE = Change(Actor.USER, NOW)
SMALL = 256 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs Linux and its root")
    yield Path(os.path.realpath(place))
    subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


def everything(folder: Path) -> list[str]:
    return sorted(name for _, folders, names in os.walk(folder) for name in (*folders, *names))


def test_a_full_disk_leaves_the_old_text_and_no_half_file(disk: Path) -> None:
    files.write_atomic(disk / "a.md", "old")
    fill(disk)
    with pytest.raises(AccessDenied) as caught:
        files.write_atomic(disk / "a.md", "new" * 10_000)
    assert "space" in caught.value.hint
    assert (disk / "a.md").read_text() == "old"
    assert everything(disk) == ["a.md", "filler"]


def test_a_save_on_a_full_disk_fails_whole_and_works_once_there_is_room(disk: Path, tmp_path: Path) -> None:
    settings = Settings(root=disk)
    store = open_store(tmp_path / "index.sqlite")
    sync = Sync(store, settings, now=lambda: NOW)
    sync.save(disk / "memory", "01-03-26_12-00__first", "# First\n\nText.\n", CHANGE)
    fill(disk)
    for _ in range(3):
        with pytest.raises(SpecKitMemoryError) as caught:
            sync.save(disk / "memory", "01-03-26_12-00__t", "# T\n\n" + "text " * 10_000, CHANGE)
        assert "space" in caught.value.hint
    assert os.listdir(disk / "memory") == ["01-03-26_12-00__first.md"]
    assert os.listdir(settings.state_folder / "pending") == []
    assert len(store.find()) == 1
    (disk / "filler").unlink()
    saved = sync.save(disk / "memory", "01-03-26_12-00__t", "# T\n\n" + "text " * 10_000, CHANGE)
    assert saved.path.name == "01-03-26_12-00__t.md"
    assert len(store.find()) == 2
    assert counters.read(settings).atomic_writes == 2
    store.close()


def test_a_read_only_disk_can_be_scanned_and_says_why_it_cannot_be_written(disk: Path, tmp_path: Path) -> None:
    settings = Settings(root=disk)
    store = open_store(tmp_path / "index.sqlite")
    sync = Sync(store, settings, now=lambda: NOW)
    (disk / "memory").mkdir()
    (disk / "memory/a.md").write_text("# A\n\nText.\n")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert sync.scan().new == 1
    assert sync.recover().completed == []
    for write in (
        lambda: files.write_atomic(disk / "memory/a.md", "new"),
        lambda: sync.save(disk / "memory", "01-03-26_12-00__t", "# T\n\nText.\n", CHANGE),
    ):
        with pytest.raises(AccessDenied) as caught:
            write()
        assert "read-only" in caught.value.hint
    assert (disk / "memory/a.md").read_text() == "# A\n\nText.\n"
    store.close()
