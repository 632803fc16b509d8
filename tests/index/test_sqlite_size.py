"""Is a file that was cut off told from one that others write, copy their log into, or compact?"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from spec_kit_memory.errors import DatabaseCorrupt
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from tests.index.material import BY_USER, entry

ROOT = Path(__file__).parents[2]
PAGE = 4096


def filled(path: Path, *, count: int = 10) -> SqliteIndex:
    store = SqliteIndex(path)
    for number in range(count):
        put(store, number)
    return store


def put(store: SqliteIndex, number: int) -> None:
    store.documents.put(entry(f"memory/{number}.md", os.urandom(30_000).hex()), BY_USER)


def settle(path: Path) -> None:
    """Another program copies the log into the file, as any of ours does now and then."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def test_a_look_at_the_size_that_is_old_when_it_is_judged_is_no_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path, count=1)
    settle(path)
    assert store.documents.count() == 1
    looked, grown = threading.Event(), threading.Event()
    look, name = os.stat, threading.current_thread().name

    def slowly(*given: object, **how: object) -> os.stat_result:
        facts: os.stat_result = look(*given, **how)  # type: ignore[arg-type]
        if threading.current_thread().name != name and not looked.is_set():
            looked.set()
            assert grown.wait(120)
        return facts

    monkeypatch.setattr(os, "stat", slowly)
    with ThreadPoolExecutor(1) as threads:
        late = threads.submit(store.documents.count)
        assert looked.wait(120)
        put(store, 2)
        settle(path)
        assert store.documents.count() == 2
        grown.set()
        assert late.result(120) in (1, 2)


def test_eight_readers_beside_a_writer_of_long_rows_are_never_alarmed(tmp_path: Path) -> None:
    store = filled(tmp_path / "index.sqlite", count=1)
    done = threading.Event()

    def read() -> int:
        calls = 0
        while not done.is_set() or calls == 0:
            assert store.documents.count() >= 1
            assert store.documents.get(1)
            calls += 1
        return calls

    with ThreadPoolExecutor(8) as threads:
        readers = [threads.submit(read) for _ in range(8)]
        try:
            for number in range(1, 150):
                put(store, number)
                assert store._database._writer
                store._database._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            done.set()
        assert all(reader.result(60) for reader in readers)
    assert store.documents.count() == 150


READER = """
    import sys
    from pathlib import Path
    from spec_kit_memory.index.sqlite.engine import SqliteIndex
    from concurrent.futures import ThreadPoolExecutor
    store = SqliteIndex(Path(sys.argv[1]))
    print("ready", flush=True)
    going = True
    def read():
        while going:
            assert store.documents.count() >= 1
    with ThreadPoolExecutor(2) as threads:
        readers = [threads.submit(read) for _ in range(2)]
        sys.stdin.read()
        going = False
        for reader in readers:
            reader.result(60)
    print(store.documents.count())
"""


def test_other_processes_that_read_meanwhile_are_not_alarmed_either(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path, count=1)
    command = [sys.executable, "-c", textwrap.dedent(READER), str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    readers = [subprocess.Popen(command, cwd=ROOT, text=True, **pipes) for _ in range(3)]  # type: ignore[call-overload]
    for reader in readers:
        assert reader.stdout.readline() == "ready\n"
    for number in range(1, 60):
        put(store, number)
        if number % 3 == 0:
            settle(path)
    for reader in readers:
        told, errors = reader.communicate(timeout=120)
        assert (reader.returncode, told) == (0, "60\n"), errors


CUTS: dict[str, Callable[[int], int]] = {
    "to nothing": lambda size: 0,
    "to its header": lambda size: PAGE,
    "to half": lambda size: size // 2 // PAGE * PAGE,
    "in the middle of a page": lambda size: size - PAGE - 100,
    "by its last page": lambda size: size - PAGE,
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("logged", [False, True], ids=["settled", "with a log"])
def test_a_file_that_is_cut_off_is_noticed_by_who_has_it_open_and_by_who_opens_it(
    tmp_path: Path, cut: str, logged: bool
) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path)
    settle(path)
    assert store.documents.count() == 10
    if logged:
        store.record.use({1: 1.0}, BY_USER.at)
    size = path.stat().st_size
    whole = path.read_bytes()
    os.truncate(path, CUTS[cut](size))
    log = Path(f"{path}-wal")
    kept = log.read_bytes()
    for _ in range(2):
        with pytest.raises(DatabaseCorrupt) as told:
            store.documents.count()
        assert "index(rebuild=True)" in told.value.hint
        with pytest.raises(DatabaseCorrupt):
            put(store, 99)
        with pytest.raises(DatabaseCorrupt):
            SqliteIndex(path)
    assert log.read_bytes() == kept, "what was acknowledged and is not in the file yet is kept"
    with path.open("r+b") as file:  # brought back by whoever cut it off
        file.write(whole)
    assert store.documents.count() == 10
    put(store, 99)
    assert store.documents.count() == 11


def test_a_file_that_was_compacted_is_no_alarm_and_grows_again(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = filled(path)
    store.documents.forget(1, BY_USER)
    settle(path)
    before = path.stat().st_size
    assert store.documents.count() == 9
    other = apsw.Connection(str(path))
    other.execute("DELETE FROM content WHERE rowid < 9")  # what we never do, so that there is something to compact
    other.execute("VACUUM")
    other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    other.close()
    assert path.stat().st_size < before
    assert store.documents.count() == 9
    for number in range(20, 23):  # into the log only: the file stays smaller than it was, and is whole
        put(store, number)
        assert store.documents.count() == number - 10
    assert SqliteIndex(path).documents.count() == 12


def test_looking_at_the_file_gives_no_lock_away(tmp_path: Path) -> None:
    """Closing any handle on a file ends all locks that a process has on it; then the last one to leave, as others
    see it, deletes the log under us."""
    path = tmp_path / "index.sqlite"
    store = filled(path, count=1)
    store._database._size += 100 * PAGE  # as if it had been larger, which makes it look twice
    assert store.documents.count() == 1
    leaving = "import apsw, sys; connection = apsw.Connection(sys.argv[1]);"
    leaving += "connection.execute('SELECT count(*) FROM memory').fetchall(); connection.close()"
    subprocess.run([sys.executable, "-c", leaving, str(path)], check=True, timeout=180)
    assert Path(f"{path}-wal").exists()
    put(store, 2)
    assert SqliteIndex(path).documents.count() == 2
