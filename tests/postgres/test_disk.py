"""The server's disk is full: writes are refused with the reason, reads go on, and nothing acknowledged is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.errors import DatabaseBusy, DatabaseUnusable
from spec_kit_memory.index.postgres.engine import PostgresIndex
from tests.faults.conftest import filled
from tests.faults.talking import Answer, Talk
from tests.faults.test_disk import fill
from tests.index.material import BY_USER, entry
from tests.postgres.command import skm
from tests.postgres_server import Server

MEGABYTE = 1024 * 1024
MOST = 300
SAVE = {"context": {"title": "Saved at last", "sessionSummary": "The disk had room again. " * 40}}


def mounted(megabytes: int) -> Path:
    place = Path(tempfile.mkdtemp(prefix="skm-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes * MEGABYTE},mode=777", "none", str(place)]
    if shutil.which("mount") is None or (done := subprocess.run(command, capture_output=True, check=False)).returncode:
        place.rmdir()
        why = done.stderr.decode().strip() if shutil.which("mount") else "there is no `mount`"
        pytest.skip(f"mounting a small disk needs Linux and its root: {why}")
    return place


def unmounted(place: Path) -> None:
    subprocess.run(["umount", "-l", str(place)], check=True)
    place.rmdir()


@pytest.fixture
def disk() -> Iterator[Path]:
    place = mounted(28)
    yield place
    unmounted(place)


def test_a_full_disk_refuses_writes_says_so_and_is_read_on(server: Server, disk: Path, tmp_path: Path) -> None:
    name = f"small_{uuid4().hex}"
    inside = disk / "tables"
    inside.mkdir()
    os.chown(inside, (server.data.stat()).st_uid, server.data.stat().st_gid)
    server.execute(f"CREATE TABLESPACE {name} LOCATION '{inside}'")
    server.execute(f"CREATE DATABASE {name} TABLESPACE {name}")
    url = server.url(name)
    root = filled(tmp_path / "work", count=4)
    try:
        with Talk(root, SPEC_KIT_MEMORY_INDEX_URL=url) as talk:
            talk.ready(memories=4)
            filler = fill(disk)
            full = _until_full(talk)
            assert full.code == "E020", full
            assert "disk" in full.message
            assert "is full" in full.message
            assert "space" in full.hint
            for number in range(4):
                assert talk.search(f"zebra{number}").titles[0] == f"Note {number}"
                assert not talk.call("memory_load", memoryId=number + 1).is_error
            message = skm(root, "update", "1", "--title", "A title " * 20, url=url, code=None)
            assert "error" not in message or "full" in message["error"]["message"]
            filler.unlink()
            saved = talk.call("memory_save", specFolder="001-core", **SAVE)
            assert not saved.is_error, saved
            assert talk.search("disk had room again").titles[0] == "Saved at last"
            talk.call("memory_index_scan")  # what was kept in files meanwhile
            assert talk.call("memory_health").data["healthy"]
    finally:
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")
        server.execute(f"DROP TABLESPACE {name}")


def _until_full(talk: Talk) -> Answer:
    """Tables have some room inside: save until there is none."""
    for number in range(300):
        words = " ".join(f"word{number}x{at}" for at in range(800))
        session = {"title": f"Fills {number}", "sessionSummary": words}
        answer = talk.call("memory_save", specFolder="001-core", force=True, context=session)
        if answer.is_error:
            assert "The text is kept in" in answer.message
            return answer
    raise AssertionError("the disk was never full")


def test_a_server_that_dies_of_a_full_disk_has_kept_what_it_acknowledged() -> None:
    """Where even its log has no room, PostgreSQL ends itself."""
    place = mounted(96)
    server = Server(place / "server", settings=("max_wal_size=4MB", "min_wal_size=2MB"))
    try:
        server.make("--wal-segsize=1")
        server.start()
        store = PostgresIndex(server.url(), "p", busy_seconds=3)
        filler = fill(place)
        done, refused = 0, None
        while refused is None and done < MOST:
            words = " ".join(f"word{done}x{at}" for at in range(2_000))
            try:
                store.documents.put(entry(f"memory/{done}.md", words), BY_USER)
                done += 1
            except (DatabaseUnusable, DatabaseBusy) as error:
                refused = error
        assert refused is not None, "the disk was never full"
        assert refused.hint
        filler.unlink()
        with suppress(Exception):
            server.stop(mode="immediate")
        server.start()
        assert store.documents.count() in (done, done + 1), "the one that was refused may have been made"
        assert {memory.path for memory in store.documents.find()} >= {f"memory/{number}.md" for number in range(done)}
        assert ledger.verify(store.record.ledger()) is None
        store.documents.put(entry("memory/after.md", "zebra"), BY_USER)
        store.close()
    finally:
        server.stop(mode="immediate")
        unmounted(place)
