"""Does a rebuild take over all that can be read, beside others, and leave the old or the new?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from spec_kit_memory.advice import finding
from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter, Link, Presence, Relation, Session, Source, Tier
from spec_kit_memory.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnusable
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index, TableReport
from spec_kit_memory.index.sqlite import rebuild, schema
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from tests.index.material import BY_USER, NOON, change, embed_all, entry

ROOT = Path(__file__).parents[2]
PAGE = 4096
OWN = {"index.sqlite", "index.sqlite-shm", "index.sqlite-wal"}


def filled(path: Path, *, count: int = 12) -> SqliteIndex:
    store = SqliteIndex(path)
    for number in range(count):
        store.documents.put(
            entry(f"memory/{number}.md", f"words zebra{number}\nmore of it", title=f"Title {number}"), BY_USER
        )
    store.documents.put(
        entry("chat://1", "user: hello there\nassistant: hi", source=Source.CHAT, triggers=["greeting"]), BY_USER
    )
    embed_all(store)
    store.record.use({1: 3.0}, NOON)
    store.record.put_link(Link(0, 1, 2, Relation.CAUSED, evidence="why"), BY_USER)
    store.record.amend(2, BY_USER, overrides={"tier": Tier.CRITICAL})
    store.documents.forget(3, change(minutes=1))
    store.documents.vanish("memory/4.md", change(minutes=1))
    store.record.change_session("s1", lambda _: Session("s1"), NOON)
    return store


def settled(path: Path) -> Path:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return path


def zero(path: Path, name: str) -> None:
    """All pages of a table or index."""
    with closing(apsw.Connection(str(path))) as connection:
        pages = [page for (page,) in connection.execute("SELECT pageno FROM dbstat WHERE name = ?", (name,))]
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(bytes(PAGE))


def titles(store: Index) -> list[str]:
    return [memory.title for memory in store.documents.find(order="path")]


# --- what is taken over


def test_of_a_sound_index_everything_recorded_is_taken_over_and_nothing_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path)
    before = (
        titles(store),
        [entry.hash for entry in store.record.ledger()],
        len(store.record.history()),
        store.record.links(),
    )
    result = store.care.rebuild(change(minutes=5))
    assert all(table == TableReport(read=table.read) for table in result.tables.values()), result.tables
    assert result.tables["memory"].read == 13
    assert (
        titles(store),
        [entry.hash for entry in store.record.ledger()],
        len(store.record.history()),
        store.record.links(),
    ) == before
    assert store.documents.get(1).access_count == 3.0
    assert store.documents.get(2).tier is Tier.CRITICAL
    assert store.documents.get(3, any_presence=True).presence is Presence.FORGOTTEN
    assert store.documents.get(5, any_presence=True).presence is Presence.GONE
    assert store.record.session("s1") is not None
    assert [hit.memory_id for hit in store.documents.match(["hello"], Filter(), 9)] == [13]
    embed_all(store)
    assert not any(store.care.check(now=NOON).values())


def test_a_lost_memory_is_made_again_from_its_history_under_its_id(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    filled(path).close()
    zero(settled(path), "memory")
    store = SqliteIndex(path)
    with pytest.raises(DatabaseCorrupt):
        store.documents.find()
    result = store.care.rebuild(change(minutes=5))
    assert result.tables["memory"] == TableReport(read=0, restored=13)
    assert titles(store) == ["chat://1", *(f"Title {number}" for number in (0, 1, 10, 11, 3, 5, 6, 7, 8, 9))]
    assert store.documents.get(2).tier is Tier.CRITICAL
    assert store.documents.get(3, any_presence=True).presence is Presence.FORGOTTEN
    assert store.documents.get(5, any_presence=True).presence is Presence.GONE
    assert [(link.source_id, link.target_id) for link in store.record.links()] == [(1, 2)]
    assert store.documents.put(entry("memory/new.md", "new words"), change(minutes=6)).memory_id == 14


@pytest.mark.parametrize(
    ("name", "report"),
    [
        ("override", TableReport(read=0, restored=1)),
        ("link", TableReport(read=0, restored=1)),
        ("usage", TableReport(read=0, lost=1)),
        ("session", TableReport(read=0, lost=1)),
        ("counter", TableReport(read=0, lost=1)),
        ("content", TableReport(read=0, lost=13)),
    ],
)
def test_what_another_table_knows_is_made_again_and_the_rest_is_counted(
    tmp_path: Path, name: str, report: TableReport
) -> None:
    path = tmp_path / "index.sqlite"
    filled(path).close()
    zero(settled(path), name)
    store = SqliteIndex(path, damaged_ok=True)
    result = store.care.rebuild(change(minutes=5))
    assert result.tables[name] == report
    assert {other: table for other, table in result.tables.items() if table.lost and other != name} == {}
    assert store.documents.get(2).tier is Tier.CRITICAL
    assert [(link.source_id, link.target_id, link.evidence) for link in store.record.links()] == [(1, 2, "why")]


def test_texts_that_are_in_files_are_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    filled(path).close()
    zero(settled(path), "content")
    store = SqliteIndex(path)

    def fill(fresh: Index) -> None:
        for number in (0, 1, 3, 5):
            text = f"words zebra{number}\nmore of it"
            fresh.documents.put(entry(f"memory/{number}.md", text, title=f"Title {number}"), change(minutes=5))

    result = store.care.rebuild(change(minutes=5), fill)
    assert result.tables["content"] == TableReport(read=0, restored=4, lost=9)
    assert [hit.memory_id for hit in store.documents.match(["zebra3"], Filter(), 9)] == [4]


def test_a_ledger_with_a_gap_keeps_it_and_goes_on_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path)
    entries = list(store.record.ledger())
    store.close()
    zero(settled(path), "ledger")
    store = SqliteIndex(path)
    result = store.care.rebuild(change(minutes=5))
    assert result.tables["ledger"] == TableReport(read=0, lost=len(entries))
    left = list(store.record.ledger())
    assert [(one.sequence, str(one.type)) for one in left] == [(len(entries) + 1, "reindex")]
    assert "could not be read" in left[0].reason
    broken = ledger.verify(store.record.ledger())
    assert broken is not None
    assert broken.reason == finding("entry-missing", sequence=1, other=len(entries) + 1)
    store.documents.put(entry("memory/new.md", "new words"), change(minutes=6))
    assert ledger.verify(list(store.record.ledger())[1:], after=left[0]) is None


def test_a_ledger_whose_end_is_lost_does_not_look_whole(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path, count=60)
    entries = list(store.record.ledger())
    store.close()
    with closing(apsw.Connection(str(settled(path)))) as connection:
        sql = "SELECT pageno FROM dbstat WHERE name = 'ledger' AND pagetype = 'leaf' ORDER BY path DESC LIMIT 1"
        page = connection.execute(sql).get
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(bytes(PAGE))
    store = SqliteIndex(path)
    lost = store.care.rebuild(change(minutes=5)).tables["ledger"].lost
    assert lost > 1
    broken = ledger.verify(store.record.ledger())
    assert broken is not None
    assert broken.sequence == len(entries) - lost + 1


def test_an_index_of_the_first_version_is_taken_over_and_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("BEGIN")
        schema.migrate(connection, str(path), upto=1)
        connection.execute(
            "INSERT INTO history (memory_id, event, actor, at, after) VALUES (1, 'ADD', 'user', 5, '{}')"
        )
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
    zero(path, "history_memory")
    store = SqliteIndex(path, damaged_ok=True)
    assert store.care.rebuild(BY_USER).tables["history"] == TableReport(read=1)
    with closing(apsw.Connection(str(path))) as connection:
        assert schema.is_current(connection)
        assert connection.execute("SELECT ledger_sequence FROM history").fetchall() == [(None,)]


def test_ids_are_not_given_away_twice_though_their_rows_are_lost(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    filled(path).close()
    for name in ("memory", "sqlite_sequence", "history"):
        zero(settled(path), name)
    store = SqliteIndex(path, damaged_ok=True)
    store.care.rebuild(change(minutes=5))
    assert store.documents.put(entry("memory/0.md", "words zebra0"), change(minutes=6)).memory_id > 13


# --- the old file


def test_the_old_file_is_kept_with_its_log_and_only_the_last_sound_one(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path)
    assert Path(f"{path}-wal").stat().st_size > 0
    kept = store.care.rebuild(change(minutes=5)).kept
    assert kept.name == "index-old-20260301-120500.sqlite"
    with closing(open_index(kept)) as old:
        assert titles(old) == titles(store)
    again = store.care.rebuild(change(minutes=6)).kept
    assert [file.name for file in tmp_path.glob("index-*.sqlite")] == [again.name]
    zero(settled(path), "claim")
    zero(path, "usage")
    damaged = store.care.rebuild(change(minutes=7)).kept
    assert damaged.name == "index-damaged-20260301-120700.sqlite"
    store.care.rebuild(change(minutes=8))
    names = sorted(file.name for file in tmp_path.glob("index-*.sqlite"))
    assert names == ["index-damaged-20260301-120700.sqlite", "index-old-20260301-120800.sqlite"]
    assert damaged.stat().st_mode & 0o077 == 0


def test_a_rebuild_that_fails_on_the_way_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path)
    before = (titles(store), [entry.hash for entry in store.record.ledger()])

    def fail(fresh: Index) -> None:
        fresh.documents.put(entry("memory/half.md", "half a scan"), BY_USER)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.care.rebuild(change(minutes=5), fail)
    assert (titles(store), [entry.hash for entry in store.record.ledger()]) == before
    assert {file.name for file in tmp_path.iterdir()} == OWN
    store.documents.put(entry("memory/after.md", "after it"), BY_USER)


def test_what_a_rebuild_that_was_killed_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path)
    for name in ("-keeping", "-keeping-wal", "-rebuilding", "-rebuilding-wal", "-rebuilding-shm"):
        Path(f"{path}{name}").write_bytes(b"half of something")
    store.care.rebuild(change(minutes=5))
    left = {file.name for file in tmp_path.iterdir()}
    assert left <= {
        "index.sqlite",
        "index.sqlite-shm",
        "index.sqlite-wal",
        *(n for n in left if n.startswith("index-old")),
    }


@pytest.mark.parametrize("make", ["CREATE TABLE theirs (x)", "PRAGMA user_version = 99"])
def test_what_is_not_ours_is_not_rebuilt(tmp_path: Path, make: str) -> None:
    path = tmp_path / "index.sqlite"
    if "version" in make:
        filled(path).close()
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(make).fetchall()
    before = path.read_bytes()
    with pytest.raises(DatabaseUnusable):
        SqliteIndex(path, damaged_ok=True).care.rebuild(BY_USER)
    assert path.read_bytes() == before


# --- beside others


def test_who_writes_waits_and_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path)
    reached, written = threading.Event(), threading.Event()
    stop = threading.Event()
    acknowledged: list[str] = []

    def write() -> None:
        other = SqliteIndex(path)
        number = 0
        while not stop.is_set():
            number += 1
            other.documents.put(entry(f"memory/w{number}.md", f"written {number}"), BY_USER)
            acknowledged.append(f"memory/w{number}.md")
            written.set()
        other.close()

    def fill(fresh: Index) -> None:
        reached.set()
        count = len(acknowledged)
        assert fresh.documents.count() == 11 + count
        assert len(acknowledged) - count <= 1

    with ThreadPoolExecutor(1) as threads:
        writing = threads.submit(write)
        assert written.wait(60)
        for minute in range(3):
            store.care.rebuild(change(minutes=minute), fill)
        stop.set()
        writing.result(60)
    assert reached.is_set()
    paths = {memory.path for memory in store.documents.find()}
    assert set(acknowledged) <= paths
    assert ledger.verify(store.record.ledger()) is None
    assert not store.care.check()["integrity"]


def test_others_read_the_old_one_meanwhile_and_the_new_one_at_once_after_it(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store, other = filled(path), SqliteIndex(path)
    assert len(other.documents.match(["zebra0"], Filter(), 9)) == 1
    assert other.vectors.match([1.0, 0.0, 0.0], Filter(), 99)

    def fill(fresh: Index) -> None:
        assert len(other.documents.match(["zebra1"], Filter(), 9)) == 1
        assert other.documents.count() == 11
        fresh.documents.put(entry("memory/quagga.md", "a quagga"), change(minutes=5))
        assert other.documents.count() == 11

    generation = other.generation()
    store.care.rebuild(change(minutes=5), fill)
    for handle in (other, store):
        assert handle.documents.count() == 12
        assert len(handle.documents.match(["quagga"], Filter(), 9)) == 1
        assert len(handle.documents.match(["zebra0"], Filter(), 9)) == 1
        assert handle.vectors.match([1.0, 0.0, 0.0], Filter(), 99) == []
    assert other.generation() > generation
    embed_all(other)
    assert store.vectors.match([1.0, 0.0, 0.0], Filter(), 99)
    assert not any(store.care.check(now=NOON).values())


def test_a_reader_in_another_process_sees_one_or_the_other(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path)
    script = """
        import sys
        from pathlib import Path
        from spec_kit_memory.core.memory import Filter
        from spec_kit_memory.index.sqlite.engine import SqliteIndex
        store = SqliteIndex(Path(sys.argv[1]))
        print("ready", flush=True)
        import threading
        done = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
        seen = set()
        while not done.is_set():
            assert store.documents.count() == 11
            assert len(store.documents.match(["zebra0"], Filter(), 9)) == 1
            assert len(store.record.history()) >= 13
            seen.add(store.generation())
        print(len(seen))
    """
    reader = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    for minute in range(4):
        store.care.rebuild(change(minutes=minute))
    told, errors = reader.communicate(timeout=120)
    assert reader.returncode == 0, errors
    assert int(told) >= 1


def test_a_writer_that_never_ends_is_named(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    filled(path).close()
    store = SqliteIndex(path, busy_seconds=0.1)
    with closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusy):
            store.care.rebuild(BY_USER)
    assert store.documents.count() == 11
    store.care.rebuild(BY_USER)


def test_a_write_in_the_last_moment_is_noticed_and_taken_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between giving the lock back and taking it for the exchange there is a moment in which another may write."""
    path = tmp_path / "index.sqlite"
    store, other = filled(path), SqliteIndex(path)
    replace = rebuild._Old.replace_by
    tries = []

    def late(old: rebuild._Old, new: Path) -> bool:
        tries.append(new)
        if len(tries) == 1:
            execute = old._holding.execute

            class Holding:
                def execute(self, sql: str) -> object:
                    done = execute(sql)
                    other.documents.put(entry("memory/late.md", "in the last moment"), BY_USER)
                    return done

            old._holding = Holding()  # type: ignore[assignment]
        return replace(old, new)

    monkeypatch.setattr(rebuild._Old, "replace_by", late)
    store.care.rebuild(change(minutes=5))
    assert len(tries) == 2
    assert other.documents.get(path="memory/late.md") is not None
    assert len(store.documents.match(["moment"], Filter(), 9)) == 1
    assert len(list(tmp_path.glob("index-*.sqlite"))) == 1


def test_a_header_that_others_still_have_in_memory_is_mended_under_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path)
    assert store._database._writer is not None
    store._database._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    before = path.stat().st_size
    overwrite = "import sys; file = open(sys.argv[1], 'r+b'); file.write(bytes(100)); file.close()"
    subprocess.run([sys.executable, "-c", overwrite, str(path)], check=True)
    store.documents.put(entry("memory/late.md", "written by one who has the header in memory"), BY_USER)
    fresh = SqliteIndex(path, damaged_ok=True)
    result = fresh.care.rebuild(change(minutes=5))
    assert {memory.path for memory in fresh.documents.find()} >= {"memory/late.md", "memory/0.md"}
    assert store.documents.get(path="memory/late.md") is not None
    assert result.kept.stat().st_size == before
    assert result.kept.read_bytes()[:100] == bytes(100)


@pytest.mark.skipif(shutil.which("mount") is None or os.geteuid() != 0, reason="a small disk needs Linux and its root")
def test_a_full_disk_keeps_the_old_one(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no small disk could be mounted")
    try:
        path = disk / "index.sqlite"
        store = filled(path)
        before = titles(store)
        (disk / "filler").write_bytes(bytes(shutil.disk_usage(disk).free - 200_000))
        with pytest.raises(DatabaseUnusable, match="full") as full:
            store.care.rebuild(change(minutes=5))
        assert "space" in full.value.hint
        assert titles(store) == before
        assert {file.name for file in disk.iterdir()} <= {
            "filler",
            "index.sqlite",
            "index.sqlite-shm",
            "index.sqlite-wal",
        }
        (disk / "filler").unlink()
        store.care.rebuild(change(minutes=6))
        assert titles(store) == before
        store.close()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
