from __future__ import annotations

import codecs
import errno
import hashlib
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spec_kit_memory import filesystem
from spec_kit_memory.errors import (
    AccessDenied,
    BadEncoding,
    BadPath,
    FileMissing,
    OutsideScope,
    SpecKitMemoryError,
    TooLarge,
)
from spec_kit_memory.files import disk, paths
from spec_kit_memory.files.file_errors import disk_error
from spec_kit_memory.filesystem import Place, System
from spec_kit_memory.settings import Isolation, Settings

Write = Callable[..., Path]
Unprivileged = Callable[[], AbstractContextManager[None]]

# --- reading


@pytest.mark.parametrize(
    "data",
    [
        "héllo\n".encode(),
        codecs.BOM_UTF8 + "héllo\n".encode(),
        codecs.BOM_UTF16_LE + "héllo\n".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "héllo\n".encode("utf-16-be"),
    ],
)
def test_text_is_read_in_every_encoding_that_says_what_it_is(write: Write, data: bytes) -> None:
    file = write("a.md", data)
    read = disk.read(Place.of(file), seen_ns=9)
    assert read.text == "héllo\n"
    assert read.raw_hash == hashlib.sha256(data).hexdigest()
    assert (read.stamp.size, read.stamp.mtime_ns, read.stamp.seen_ns) == (len(data), file.stat().st_mtime_ns, 9)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\xff\xfe\xfa", BadEncoding),
        (b"caf\xe9", BadEncoding),
        (b"\x89PNG\r\n\x1a\n\x00\x00", BadEncoding),
        (b"text\x00more", BadEncoding),
        ("text".encode("utf-16-le"), BadEncoding),
        (codecs.BOM_UTF32_LE + "text".encode("utf-32-le"), BadEncoding),
        (codecs.BOM_UTF16_LE + b"\x00\xd8a\x00", BadEncoding),
        (b"x" * (disk.MAX_BYTES + 1), TooLarge),
        (b"x" * 5_000_000, TooLarge),
    ],
)
def test_what_is_not_text_is_refused_with_its_path_and_a_next_step(
    write: Write, data: bytes, error: type[SpecKitMemoryError]
) -> None:
    file = write("a.md", data)
    with pytest.raises(error) as caught:
        disk.read(Place.of(file))
    assert file.as_posix() in caught.value.message
    assert caught.value.hint


def test_a_file_of_exactly_the_limit_is_read(write: Write) -> None:
    assert len(disk.read(Place.of(write("a.md", b"x" * disk.MAX_BYTES))).text) == disk.MAX_BYTES


def test_what_is_not_a_file_is_refused(write: Write, root: Path) -> None:
    write("x.md/inside.md")
    with pytest.raises(BadPath, match="folder"):
        disk.read(Place.of(root / "x.md"))
    with pytest.raises(FileMissing):
        disk.read(Place.of(root / "none.md"))
    with pytest.raises(BadPath):
        disk.read(Place.of(root / ("n" * 300 + ".md")))
    if os.name == "posix":
        os.mkfifo(root / "pipe.md")
        with pytest.raises(BadPath, match="regular"):
            disk.read(Place.of(root / "pipe.md"))
        with pytest.raises(BadPath, match="regular"):
            disk.read(Place.of(Path("/dev/null")))


def test_a_file_without_permission_is_refused(open_root: Path, without_privileges: Unprivileged) -> None:
    file = open_root / "a.md"
    file.write_text("text")
    file.chmod(0)
    with without_privileges(), pytest.raises(AccessDenied) as caught:
        disk.read(Place.of(file))
    assert file.as_posix() in caught.value.message
    assert "access" in caught.value.hint


@given(st.binary(max_size=200))
def test_any_bytes_are_text_or_refused(data: bytes) -> None:
    try:
        text = disk.decode(data, name="a.md")
    except BadEncoding:
        return
    assert "\0" not in text
    text.encode("utf-8")


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (errno.ENOSPC, "space"),
        (errno.EROFS, "read-only"),
        (errno.EMFILE, "open files"),
        (errno.EFBIG, "limit of file sizes"),
        (errno.EIO, "does not work"),
        (errno.EACCES, "access"),
    ],
)
def test_what_the_disk_refuses_comes_with_its_next_step(number: int, word: str) -> None:
    error = disk_error(OSError(number, os.strerror(number)), "memory/a.md")
    assert error.code == "E011"
    assert "memory/a.md" in error.message
    assert word in error.hint


# --- writing


def test_a_file_is_written_whole_and_nothing_else_is_left(root: Path) -> None:
    stamp = disk.write_atomic(Place.of(root / "a.md"), "héllo\r\n")
    assert (root / "a.md").read_bytes() == "héllo\r\n".encode()
    assert stamp.size == len("héllo\r\n".encode())
    disk.write_atomic(Place.of(root / "a.md"), b"\x00\x01")
    assert (root / "a.md").read_bytes() == b"\x00\x01"
    assert os.listdir(root) == ["a.md"]


@pytest.mark.skipif(os.name == "nt", reason="this system has no file modes")
def test_the_mode_of_a_file_is_kept_and_a_new_one_follows_the_umask(root: Path) -> None:
    old = os.umask(0o027)
    try:
        disk.write_atomic(Place.of(root / "a.md"), "one")
    finally:
        os.umask(old)
    assert stat.S_IMODE((root / "a.md").stat().st_mode) == 0o640
    (root / "a.md").chmod(0o604)
    disk.write_atomic(Place.of(root / "a.md"), "two")
    assert stat.S_IMODE((root / "a.md").stat().st_mode) == 0o604


def test_a_link_is_not_written_through(root: Path, write: Write) -> None:
    target = write("docs/a.md", "old")
    (root / "link.md").symlink_to(target)
    with pytest.raises(OutsideScope, match="link"):
        disk.write_atomic(Place.of(root / "link.md"), "new")
    assert (root / "link.md").is_symlink()
    assert target.read_text() == "old"
    assert sorted(os.listdir(root)) == ["docs", "link.md"]


def test_a_long_name_can_be_written(root: Path) -> None:
    name = "n" * 240 + ".md"
    disk.write_atomic(Place.of(root / name), "text")
    assert (root / name).read_text() == "text"


def test_nobody_takes_a_file_that_is_about_to_get_its_name_for_a_dead_writers(root: Path) -> None:
    removed = []

    class LookingFirst(System):
        def before(self, call: str, path: str) -> None:
            if call == "rename":
                removed.append(disk.remove_if_dead(Place.of(root / path)))

    with filesystem.using(LookingFirst()):
        disk.write_atomic(Place.of(root / "a.md"), "text")
    assert removed == [os.name == "nt"]  # there a file cannot be renamed while it is open
    assert (root / "a.md").read_text() == "text"


def test_a_temporary_file_that_was_taken_away_is_written_again(root: Path) -> None:
    """Between its first moment and its lock, another process may take it for a dead writer's."""
    taken: list[Path] = []

    class TakingAway(System):
        def before(self, call: str, path: str) -> None:
            if call == "write" and not taken:
                [temporary] = root.glob(".a.md.*")
                temporary.unlink()
                taken.append(temporary)

    with filesystem.using(TakingAway()):
        disk.write_atomic(Place.of(root / "a.md"), "text")
    assert taken
    assert os.listdir(root) == ["a.md"]
    assert (root / "a.md").read_text() == "text"


def test_a_failed_write_leaves_the_old_text_and_no_temporary_file(root: Path, write: Write) -> None:
    write("x.md/inside.md", "old")
    with pytest.raises(SpecKitMemoryError):
        disk.write_atomic(Place.of(root / "x.md"), "new")
    assert os.listdir(root) == ["x.md"]
    with pytest.raises(FileMissing):
        disk.write_atomic(Place.of(root / "none/a.md"), "new")


def test_a_folder_without_permission_is_named(open_root: Path, without_privileges: Unprivileged) -> None:
    open_root.chmod(0o555)
    with without_privileges(), pytest.raises(AccessDenied) as caught:
        disk.write_atomic(Place.of(open_root / "a.md"), "new")
    assert "a.md" in caught.value.message


def test_a_temporary_file_goes_when_its_writer_is_dead_and_stays_while_it_lives(root: Path) -> None:
    code = (
        "import os, sys\n"
        "from spec_kit_memory import filesystem\n"
        "fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)\n"
        "assert filesystem.try_lock(fd)\n"
        "print('locked', flush=True)\n"
        "sys.stdin.read()\n"
    )
    temporary = root / ".a.md.12ab.skm.tmp"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(temporary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline().strip() == b"locked"
        assert not disk.remove_if_dead(Place.of(temporary))
        writer.kill()
        writer.wait()
    assert disk.remove_if_dead(Place.of(temporary))
    assert not temporary.exists()


def test_the_state_folder_is_its_owners_and_keeps_the_index_out_of_git(settings: Settings) -> None:
    folder = disk.ensure_state_folder(settings)
    disk.ensure_state_folder(settings)
    ignored = (folder / ".gitignore").read_text().split("\n")
    assert "*" in ignored
    assert "!config.jsonc" in ignored
    assert "!context_template.md" in ignored
    if os.name == "posix":
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


# --- containment


def test_paths_inside_the_workspace_are_canonical(settings: Settings, write: Write, root: Path) -> None:
    file = write("memory/a.md")
    for name in ("memory/a.md", "memory/../memory/a.md", "./memory//a.md", str(file)):
        assert paths.contained(settings, name, scope=settings.scope) == file
    assert (
        paths.contained(settings, "memory/not-there-yet.md", scope=settings.scope) == root / "memory/not-there-yet.md"
    )


@pytest.mark.parametrize(
    "name", ["../other.md", "memory/../../other.md", "/etc/passwd", "memory/../../work-too/a.md", "../work2/a.md"]
)
def test_paths_out_of_the_workspace_are_refused(settings: Settings, root: Path, name: str) -> None:
    (root.parent / "work2").mkdir()
    (root.parent / "work2/a.md").write_text("other")
    with pytest.raises(OutsideScope) as caught:
        paths.contained(settings, name, scope=settings.scope)
    assert name in caught.value.message


def test_links_out_of_the_workspace_are_refused(settings: Settings, root: Path, write: Write) -> None:
    write("memory/a.md")
    (root.parent / "secret.md").write_text("secret")
    (root / "memory/link.md").symlink_to("../../secret.md")
    (root / "memory/folder").symlink_to("../..")
    for name in ("memory/link.md", "memory/folder/secret.md", "memory/folder/not-there.md"):
        with pytest.raises(OutsideScope):
            paths.contained(settings, name, scope=settings.scope)


@pytest.mark.parametrize("name", ["", "  ", "a\0b.md", "memory/\ud800.md", "\\\\.\\PhysicalDrive0"])
def test_names_that_are_no_paths_are_refused(settings: Settings, name: str) -> None:
    with pytest.raises(BadPath):
        paths.contained(settings, name, scope=settings.scope)


@pytest.mark.skipif(os.name == "nt", reason="this system has no named pipes")
def test_pipes_and_devices_are_refused(settings: Settings, root: Path) -> None:
    os.mkfifo(root / "pipe.md")
    with pytest.raises(BadPath):
        paths.contained(settings, "pipe.md", scope=settings.scope)
    with pytest.raises(OutsideScope):
        paths.contained(settings, "/dev/null", scope=settings.scope)


def test_allowed_paths_are_compared_segment_by_segment(settings: Settings, write: Write) -> None:
    write("memory/a/x.md")
    write("memory/ab/x.md")
    limited = replace(settings, isolation=Isolation(allowed_paths=("memory/a",)))
    assert paths.contained(limited, "memory/a/x.md", scope=limited.scope).name == "x.md"
    for name in ("memory/ab/x.md", "memory/a/../ab/x.md", "memory", "."):
        with pytest.raises(OutsideScope):
            paths.contained(limited, name, scope=limited.scope)


@pytest.mark.parametrize("user", [None, "bob", "an"])
def test_another_users_namespace_is_outside(settings: Settings, write: Write, user: str | None) -> None:
    write("memory/users/ann/a.md")
    session = replace(settings, isolation=Isolation(user_id=user))
    for name in ("memory/users/ann/a.md", "memory/users/x/../ann/none.md", "memory/users/ann"):
        with pytest.raises(OutsideScope):
            paths.contained(session, name, scope=session.scope)
    ann = replace(settings, isolation=Isolation(user_id="ann"))
    assert paths.contained(ann, "memory/users/ann/a.md", scope=ann.scope).name == "a.md"


def test_an_empty_list_of_allowed_paths_allows_nothing(settings: Settings, write: Write) -> None:
    write("memory/a.md")
    nothing = replace(settings, isolation=Isolation(allowed_paths=()))
    for name in ("memory/a.md", "."):
        with pytest.raises(OutsideScope):
            paths.contained(nothing, name, scope=nothing.scope)


def test_extra_paths_may_be_named_and_nothing_beside_them(settings: Settings, root: Path) -> None:
    (root.parent / "extra").mkdir()
    extra = replace(settings, extra_paths=("../extra/*.md",))
    assert paths.contained(extra, "../extra/a.md", scope=extra.scope) == root.parent / "extra/a.md"
    with pytest.raises(OutsideScope):
        paths.contained(extra, "../extra2/a.md", scope=extra.scope)


def test_stored_paths_lead_back_to_their_files(settings: Settings, root: Path) -> None:
    for path in (root / "memory/a.md", root.parent / "extra/a.md"):
        assert paths.absolute(settings, paths.stored_form(settings, path)) == path
    assert paths.stored_form(settings, root / "memory/a.md") == "memory/a.md"
