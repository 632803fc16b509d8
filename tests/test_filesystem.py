from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from spec_kit_memory import filesystem
from spec_kit_memory.filesystem import NotAFile, Place, Redirected, System

links = pytest.mark.skipif(os.name == "nt", reason="making links needs a privilege there")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    (folder / "inner/deep").mkdir(parents=True)
    (folder / "inner/deep/a.md").write_bytes(b"inside")
    outside = tmp_path / "outside"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep/a.md").write_bytes(b"outside")
    return folder


def a(base: Path) -> Place:
    return Place(base, ("inner", "deep", "a.md"))


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a\0b", "/"])
def test_a_place_cannot_say_anything_but_down(base: Path, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        Place(base, ("inner", name))


def test_a_file_is_read_written_moved_and_removed(base: Path) -> None:
    place = a(base)
    assert filesystem.read(place, limit=3)[0] == b"ins"
    filesystem.replace(place, b"new")
    filesystem.append(place, b"er")
    assert filesystem.read(place, limit=100)[0] == b"newer"
    assert filesystem.names(place.parent) == ["a.md"]
    assert filesystem.make_folders(base_place(base, "x", "y")) == (base_place(base, "x"), base_place(base, "x", "y"))
    filesystem.move_new(place, base_place(base, "x", "y", "b.md"))
    assert not filesystem.exists(place)
    filesystem.remove(base_place(base, "x", "y", "b.md"))
    filesystem.remove(base_place(base, "x", "y", "b.md"))
    filesystem.remove_folder(base_place(base, "x", "y"))
    assert filesystem.names(base_place(base, "x")) == []


def base_place(base: Path, *names: str) -> Place:
    return Place(base, names)


def test_a_file_is_never_moved_onto_another(base: Path) -> None:
    other = base_place(base, "b.md")
    filesystem.replace(other, b"other")
    with pytest.raises(FileExistsError):
        filesystem.move_new(a(base), other)
    assert filesystem.read(other, limit=9)[0] == b"other"
    assert filesystem.read(a(base), limit=9)[0] == b"inside"


def test_a_move_that_fails_half_way_leaves_the_file_where_it_was(base: Path) -> None:
    class Failing(System):
        failed = False

        def before(self, call: str, path: str) -> None:
            if call == "unlink" and not self.failed:
                self.failed = True
                raise OSError(errno.EIO, "broken")

    with filesystem.using(Failing()), pytest.raises(OSError, match="broken"):
        filesystem.move_new(a(base), base_place(base, "b.md"))
    assert sorted(os.listdir(base)) == ["inner"]
    assert filesystem.exists(a(base))


@pytest.mark.parametrize("synced", [True, False])
def test_a_copy_that_nobody_needs_after_a_power_cut_is_replaced_without_syncing(base: Path, synced: bool) -> None:
    class Recording(System):
        def before(self, call: str, path: str) -> None:
            calls.append(call)

    calls: list[str] = []
    with filesystem.using(Recording()):
        facts = filesystem.replace(a(base), b"new content", synced=synced)
    assert ("fsync" in calls) is synced
    assert filesystem.read(a(base), limit=99)[0] == b"new content"
    assert facts.st_size == len(b"new content")


CHANGES: dict[str, Callable[[Place], object]] = {
    "read": lambda place: filesystem.read(place, limit=9),
    "replace": lambda place: filesystem.replace(place, b"x"),
    "append": lambda place: filesystem.append(place, b"x"),
    "rewrite": lambda place: filesystem.rewrite(place, b"x"),
    "create": lambda place: os.close(filesystem.create(place)),
    "lock": lambda place: os.close(filesystem.open_lock(place)),
    "look inside": lambda place: filesystem.names(place),
    "make folders": lambda place: filesystem.make_folders(place),
    "move away": lambda place: filesystem.move(place, Place(place.base, ("moved",))),
    "move away new": lambda place: filesystem.move_new(place, Place(place.base, ("moved",))),
    "move onto": lambda place: filesystem.move(Place(place.base, ("mine",)), place),
    "set time": lambda place: filesystem.set_time(place, 1),
    "close": lambda place: filesystem.private(place),
    "sync": lambda place: filesystem.sync(place),
}


@links
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_link_is_followed_at_any_depth(base: Path, change: str, depth: int) -> None:
    """In place of a folder on the way, or of the file itself."""
    (base / "mine").write_bytes(b"mine")
    outside = base.parent / "outside"
    before = (outside / "deep/a.md").stat(), sorted(os.listdir(outside / "deep")), stat.S_IMODE(outside.stat().st_mode)
    target = Path(base, *("inner", "deep", "a.md")[:depth])
    target.rename(base / "aside")
    target.symlink_to(Path(outside, *("deep", "a.md")[: depth - 1]))
    with pytest.raises((Redirected, FileExistsError)):
        CHANGES[change](a(base))
    after = (outside / "deep/a.md").stat(), sorted(os.listdir(outside / "deep")), stat.S_IMODE(outside.stat().st_mode)
    assert after == before
    assert (outside / "deep/a.md").read_bytes() == b"outside"
    assert (base / "mine").read_bytes() == b"mine"


@links
def test_removing_a_link_removes_the_link(base: Path) -> None:
    (base / "link").symlink_to(base.parent / "outside/deep/a.md")
    filesystem.remove(base_place(base, "link"))
    assert not os.path.lexists(base / "link")
    assert (base.parent / "outside/deep/a.md").exists()


@links
def test_the_base_may_be_reached_through_links(base: Path) -> None:
    (base.parent / "way").symlink_to(base, target_is_directory=True)
    assert filesystem.read(a(base.parent / "way"), limit=9)[0] == b"inside"


@pytest.mark.skipif(os.name == "nt", reason="this system has no named pipes")
@pytest.mark.parametrize("change", ["read", "append", "rewrite", "lock", "replace", "set time"])
def test_what_is_no_regular_file_is_refused_at_once(base: Path, change: str) -> None:
    os.mkfifo(base / "pipe")
    with pytest.raises((NotAFile, OSError)):
        CHANGES[change](base_place(base, "pipe"))
    assert stat.S_ISFIFO((base / "pipe").stat().st_mode)
    with pytest.raises((NotAFile, OSError)):
        CHANGES[change](base_place(base, "inner"))


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="without it a folder on the way must be readable")
def test_folders_that_may_only_be_passed_through_are(base: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read every folder")
    (base / "inner").chmod(0o111)
    try:
        assert filesystem.read(a(base), limit=9)[0] == b"inside"
    finally:
        (base / "inner").chmod(0o755)


def test_content_that_is_staged_appears_when_it_is_installed_or_not_at_all(base: Path) -> None:
    with filesystem.stage(a(base), b"new"):
        assert filesystem.read(a(base), limit=9)[0] == b"inside"
    assert os.listdir(base / "inner/deep") == ["a.md"]
    with filesystem.stage(a(base), b"new") as staged:
        staged.install()
        facts = filesystem.look(a(base))
        assert (facts.st_size, facts.st_mtime_ns) == (staged.facts.st_size, staged.facts.st_mtime_ns)
    assert filesystem.read(a(base), limit=9)[0] == b"new"
    assert os.listdir(base / "inner/deep") == ["a.md"]


def test_short_writes_are_continued(base: Path) -> None:
    class Short(System):
        def write(self, descriptor: int, data: memoryview) -> int:
            return super().write(descriptor, data[: max(1, len(data) // 3)])

    with filesystem.using(Short()):
        filesystem.replace(a(base), b"0123456789" * 100)
    assert filesystem.read(a(base), limit=9999)[0] == b"0123456789" * 100


class Interrupted(System):
    """Ctrl-C that is noticed just after a name was removed."""

    def unlink(self, name: str, handle: int | None) -> None:
        super().unlink(name, handle)
        raise KeyboardInterrupt


def test_an_interrupt_when_the_old_name_is_gone_keeps_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("the only copy")
    with filesystem.using(Interrupted()), pytest.raises(KeyboardInterrupt):
        filesystem.move_new(Place(tmp_path, ("old",)), Place(tmp_path, ("new",)))
    assert (tmp_path / "new").read_text() == "the only copy"


@pytest.mark.parametrize("change", ["append", "rewrite", "lock"])
def test_a_file_with_a_second_name_is_not_written_where_it_stands(base: Path, change: str) -> None:
    (base / "other").write_bytes(b"precious")
    os.link(base / "other", base / "inner/second")
    with pytest.raises(filesystem.Redirected):
        CHANGES[change](base_place(base, "inner", "second"))
    assert (base / "other").read_bytes() == b"precious"


def test_a_disk_that_cannot_be_read_is_not_an_empty_one(base: Path) -> None:
    class Broken(filesystem.System):
        def before_reading(self, call: str, path: str) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    with filesystem.using(Broken()), pytest.raises(OSError, match="Input/output error"):
        filesystem.exists(base_place(base, "nothing"))
    assert not filesystem.exists(base_place(base, "nothing"))
