"""The disk is full, read-only or closed to us while a server runs: what does the user see, and is anything lost?"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spec_kit_memory.index import open_index
from tests.faults.conftest import filled
from tests.faults.talking import Talk, held, skm

MEGABYTE = 1024 * 1024
SAVE = {"context": {"title": "Saved at last", "sessionSummary": "The disk had room again. " * 40}}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real small disk."""
    place = Path(os.path.realpath(tmp_path)) / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={4 * MEGABYTE}", "none", str(place)]
    if shutil.which("mount") is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs Linux and its root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65_536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return filler


def test_a_full_disk_still_answers_and_writes_once_there_is_room(disk: Path) -> None:
    root = filled(disk / "work")
    with Talk(root) as server:
        server.ready()
        filler = fill(disk)
        for _ in range(3):
            full = server.call("memory_save", specFolder="001-core", **SAVE)
            assert full.code in ("E011", "E020"), full
            assert "space" in full.hint
        # Reading goes on, with all that a read would like to write down.
        for number in range(8):
            answer = server.search(f"zebra{number}", sessionId="s", includeContent=True)
            assert answer.titles[0] == f"Note {number}"
            assert not server.call("memory_load", memoryId=number + 1).is_error
        assert not server.call("memory_match_triggers", prompt="zebra", sessionId="s").is_error
        looked = server.call("memory_health").data
        assert [problem["check"] for problem in looked["problems"] if not problem.get("notice")] == ["disk space"]
        assert "full" in looked["checks"]["disk space"]
        assert not looked["healthy"]
        validated = server.call("memory_validate", id=1, wasUseful=True)
        assert not validated.is_error or "space" in validated.hint
        filler.unlink()
        saved = server.call("memory_save", specFolder="001-core", **SAVE)
        assert not saved.is_error, saved
        assert server.search("disk had room again").titles[0] == "Saved at last"
        assert server.call("memory_stats").data["totals"]["memories"] == 21
        assert server.call("memory_health").data["healthy"]
    left = [path.name for path in root.rglob("*") if path.name.endswith(("_pending.md", ".skm.tmp"))]
    assert left == []


def test_a_checkpoint_that_fails_on_a_full_disk_leaves_nobody_waiting(disk: Path) -> None:
    """Every lock of the server is taken once while the disk is full; another process then needs none of them."""
    root = filled(disk / "work")
    with Talk(root) as server:
        server.ready()
        assert not server.call("checkpoint_create", name="before").is_error
        (root / ".spec-kit-memory" / "checkpoints" / ".lock").unlink()  # so that the full disk has to hold a new one
        filler = fill(disk)
        for number in range(3):
            refused = server.call("checkpoint_create", name=f"full-{number}")
            assert refused.code in ("E011", "E020"), refused
            assert "space" in refused.hint
        server.call("memory_validate", id=1, wasUseful=True)
        server.call("memory_save", specFolder="001-core", **SAVE)
        server.call("memory_index_scan", force=True)
        filler.unlink()
        for arguments in (["checkpoint", "create", "after"], ["validate", "2", "--was-useful"], ["index", "--force"]):
            # A lock that nobody gives back is waited for 120 seconds.
            other = skm(root, *arguments)
            assert other.returncode == 0, other.stderr
        assert not server.call("checkpoint_create", name="after that").is_error
        assert server.call("memory_health").data["healthy"]
    left = [path.name for path in root.rglob("*") if path.name.endswith(".skm.tmp")]
    assert left == []


READS: tuple[tuple[str, ...], ...] = (
    ("search", "zebra3"),
    ("search", "okapi"),
    ("list",),
    ("load", "3"),
    ("get", "specs/001-core/memory/note-3.md"),
    ("stats",),
    ("triggers", "zebra"),
    ("context",),
    ("history",),
    ("ledger", "verify"),
    ("why", "1"),
    ("checkpoint", "list"),
)
WRITES: tuple[tuple[str, ...], ...] = (
    ("validate", "1", "--was-useful"),
    ("update", "1", "--title", "New"),
    ("index", "--force"),
)


def left_by_a_server(root: Path, *, killed: bool) -> None:
    """An indexed workspace that no process has open; after a kill most of it is in the log."""
    server = Talk(root)
    server.__enter__()
    about = {"title": "Okapi", "sessionSummary": "The okapi came last."}
    saved = server.ready().call("memory_save", specFolder="001-core", context=about)
    assert not saved.is_error, saved
    if killed:
        server.process.kill()
    server.__exit__(KeyboardInterrupt if killed else None, None, None)
    log = root / ".spec-kit-memory" / "index.sqlite-wal"
    assert log.exists() is killed
    (root / ".spec-kit-memory" / "index.sqlite-shm").unlink(missing_ok=True)  # so that it needs room again


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
def test_a_full_disk_without_a_server_is_read_and_a_write_says_that_it_is_full(disk: Path, killed: bool) -> None:
    root = filled(disk / "work")
    left_by_a_server(root, killed=killed)
    filler = fill(disk)
    for command in READS:
        done = skm(root, *command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    looked = skm(root, "health")
    assert looked.returncode == 1
    assert "the disk is full (files, index)" in " ".join(looked.stdout.split())
    assert "Note 3" in skm(root, "search", "zebra3").stdout
    assert "Okapi" in skm(root, "search", "okapi").stdout
    for command in WRITES:
        refused = skm(root, *command)
        assert refused.returncode == 1, command
        assert "space" in refused.stderr, refused.stderr
        assert "permissions" not in refused.stderr
    with Talk(root) as server:
        assert server.search("zebra4").titles[0] == "Note 4"
        refused_call = server.call("memory_validate", id=1, wasUseful=True)
        assert refused_call.code == "E020"
        assert "space" in refused_call.hint
        filler.unlink()
        # No restart is needed: the next write finds that there is room.
        assert not server.call("memory_validate", id=1, wasUseful=True).is_error
        assert server.search("okapi").titles[0] == "Okapi"
        assert server.call("memory_health").data["healthy"]
        assert skm(root, "validate", "2", "--was-useful").returncode == 0  # beside the server, as always
    assert skm(root, "ledger", "verify").returncode == 0


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
def test_who_reads_on_a_full_disk_sees_what_another_process_writes_once_there_is_room(disk: Path, killed: bool) -> None:
    root = filled(disk / "work")
    left_by_a_server(root, killed=killed)
    filler = fill(disk)
    reader = open_index(root / ".spec-kit-memory" / "index.sqlite")
    assert reader.read_only
    assert reader.documents.count() == 21
    filler.unlink()
    (root / "specs" / "001-core" / "memory" / "new.md").write_text("# New\n\nA quagga, written since.\n")
    assert skm(root, "index").returncode == 0
    assert reader.documents.count() == 22
    assert [memory.title for memory in reader.documents.find(order="path") if memory.title == "New"] == ["New"]
    reader.close()


def test_a_full_disk_that_has_no_index_yet_says_what_to_do(disk: Path) -> None:
    root = filled(disk / "work")
    filler = fill(disk)
    for command in (("search", "zebra3"), ("index",)):
        refused = skm(root, *command)
        assert refused.returncode == 1
        assert "space" in refused.stderr, refused.stderr
    filler.unlink()
    assert skm(root, "index").returncode == 0
    assert "Note 3" in skm(root, "search", "zebra3").stdout


def test_a_log_on_a_read_only_disk_is_read_too(disk: Path) -> None:
    root = filled(disk / "work")
    left_by_a_server(root, killed=True)
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert "Okapi" in skm(root, "search", "okapi").stdout
    refused = skm(root, "validate", "1", "--was-useful")
    assert refused.returncode == 1
    assert "E020" in refused.stderr
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    assert skm(root, "validate", "1", "--was-useful").returncode == 0


def test_a_server_started_on_a_read_only_disk_searches(disk: Path) -> None:
    root = filled(disk / "work")
    with Talk(root) as server:
        server.ready()
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    with Talk(root) as server:
        for number in range(8):
            assert server.search(f"zebra{number}", sessionId="s").titles[0] == f"Note {number}"
            assert not server.call("memory_load", memoryId=1).is_error
        looked = server.call("memory_health").data
        assert "can only be read" in looked["checks"]["read-only disk"]
        assert looked["healthy"]
        refused = server.call("memory_save", specFolder="001-core", **SAVE)
        assert refused.code == "E011"
        assert "read-only" in refused.hint
        assert server.call("memory_validate", id=1, wasUseful=True).code == "E020"
    subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
    with Talk(root) as server:
        assert not server.call("memory_save", specFolder="001-core", **SAVE).is_error


def without_privileges() -> tuple[str, ...]:
    """Root reads and writes everything; without these capabilities it is a user like others."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("root needs setpriv to be refused anything")
    return ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all")


def test_permission_taken_away_is_named_and_given_back_is_enough(root: Path) -> None:
    before = without_privileges()
    memory = root / "specs" / "001-core" / "memory"
    with Talk(root, before=before) as server:
        server.ready()
        memory.chmod(0o500)
        try:
            refused = server.call("memory_save", specFolder="001-core", **SAVE)
            assert refused.code == "E011", refused
            assert "access" in refused.hint
            assert server.search("zebra3").titles[0] == "Note 3"
            closed = memory / "note-3.md"
            closed.chmod(0)
            result = server.call("memory_update", id=1, title="Not written")
            assert not result.is_error or result.code == "E011"
            os.utime(memory / "note-4.md")
            scanned = server.call("memory_index_scan", force=True)
            assert [bad["code"] for bad in scanned.data["bad"]] == ["E011"], scanned
        finally:
            memory.chmod(0o700)
            (memory / "note-3.md").chmod(0o600)
        assert not server.call("memory_save", specFolder="001-core", **SAVE).is_error
        assert server.search("zebra3").titles[0] == "Note 3"  # unreadable for a while is not gone


def test_a_folder_that_cannot_be_listed_loses_no_memory(root: Path) -> None:
    before = without_privileges()
    memory = root / "specs" / "001-core" / "memory"
    with Talk(root, before=before) as server:
        server.ready()
        memory.chmod(0)
        try:
            server.call("memory_index_scan")
            assert server.call("memory_stats").data["totals"]["memories"] == 20
        finally:
            memory.chmod(0o700)
        assert server.search("zebra3").titles[0] == "Note 3"


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="limits of another process need Linux")
def test_without_file_descriptors_calls_fail_with_the_reason_and_the_server_stays(root: Path) -> None:
    import resource

    with Talk(root) as server:
        server.ready()
        pid = server.process.pid
        usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (0, usual[1]))
        try:
            refused = server.call("memory_save", specFolder="001-core", **SAVE)
            assert refused.code in ("E011", "E020"), refused
            assert "open files" in refused.hint, refused
            starved = server.search("zebra5")
            assert starved.code in ("E011", "E020") if starved.is_error else starved.titles[0] == "Note 5"
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        assert not server.call("memory_save", specFolder="001-core", **SAVE).is_error
        assert server.search("zebra3").titles[0] == "Note 3"
        assert server.call("memory_health").data["healthy"]


def test_a_delete_that_is_refused_over_mcp_has_deleted_nothing(disk: Path) -> None:
    """Another process holds the index, and there is no room for what a delete notes down before it starts."""
    root = filled(disk / "work")
    note = root / "specs/001-core/memory/note-3.md"
    text = note.read_text(encoding="utf-8")
    with Talk(root) as server:
        server.ready()
        victim = server.search("zebra3").data["results"][0]["id"]
        with held(root / ".spec-kit-memory" / "index.sqlite"):
            filler = fill(disk)
            refused = server.call("memory_delete", id=victim, deleteFile=True)
            assert refused.code in ("E011", "E020", "E025"), refused
            assert note.read_text(encoding="utf-8") == text
            filler.unlink()
        assert server.search("zebra3").titles[0] == "Note 3"
        assert not list((root / ".spec-kit-memory").glob("trash/**/*.md"))
        assert server.call("memory_health").data["healthy"]
        assert not server.call("memory_delete", id=victim, deleteFile=True).is_error
        assert not note.exists()
