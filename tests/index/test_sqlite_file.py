"""What happens to the file: opening, wrong files, read-only and full disks, threads, forks, replaced files?"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from spec_kit_memory.core import ledger
from spec_kit_memory.core.memory import Filter, Scope
from spec_kit_memory.errors import DatabaseBusy, DatabaseCorrupt, DatabaseUnusable
from spec_kit_memory.index import open_index
from spec_kit_memory.index.contract import Index
from spec_kit_memory.index.sqlite import schema
from spec_kit_memory.index.sqlite.engine import SqliteIndex
from tests.index.material import BY_USER, change, embed_all, entry

needs_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def made(path: Path) -> Path:
    store = open_index(path)
    store.documents.put(entry(text="some words"), BY_USER)
    store.close()
    return path


def delete(path: Path) -> None:
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()


def words(store: object) -> int:
    assert isinstance(store, SqliteIndex)
    return len(store.documents.match(["words"], Filter(), 9))


# --- opening


def test_only_the_owner_can_read_file_and_folder(tmp_path: Path) -> None:
    path = made(tmp_path / "state" / "index.sqlite")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_the_schema_and_the_lists_agree_on_what_is_recorded(tmp_path: Path) -> None:
    made(tmp_path / "index.sqlite")
    connection = apsw.Connection(str(tmp_path / "index.sqlite"))
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    own = {name for name in tables if not re.match(r"sqlite_|passage_fts_", str(name))} - {"passage_terms"}
    assert own == {*schema.RECORDED, *schema.DERIVED}
    script = "\n".join(schema._scripts())
    for names, word in ((schema.RECORDED, "RECORDED"), (schema.DERIVED, "DERIVED")):
        for name in names:
            comment = re.search(rf'-- (\w+)[^\n]*\nCREATE (?:VIRTUAL )?TABLE "?{name}"? ', script)
            assert comment, name
            assert comment[1] == word, name


def test_the_number_of_migrations_is_the_version() -> None:
    assert len(schema._scripts()) == schema.VERSION


def test_text_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    path.write_text("this is a text file, and it is longer than the header of a database would be\n" * 20)
    before = path.read_bytes()
    with pytest.raises(DatabaseCorrupt, match="not a database") as refused:
        open_index(path)
    assert "index(rebuild=True)" in refused.value.hint
    assert path.read_bytes() == before


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with apsw.Connection(str(path)) as other:
        other.execute("CREATE TABLE theirs (x)")
    with pytest.raises(DatabaseUnusable, match="another program") as refused:
        open_index(path)
    assert "indexPath" in refused.value.hint


def test_a_newer_schema_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = made(tmp_path / "index.sqlite")
    with apsw.Connection(str(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(DatabaseUnusable, match="version 99") as refused:
        open_index(path)
    assert "upgrade" in refused.value.hint


def test_a_damaged_page_is_reported_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = open_index(path)
    for number in range(40):
        store.documents.put(entry(f"memory/{number}.md", f"some words {number} " * 50), BY_USER)
    store.close()
    with path.open("r+b") as file:
        for page in range(1, 40):
            file.seek(page * 4096)
            file.write(b"\xff" * 2000)
    with pytest.raises((DatabaseCorrupt, DatabaseUnusable)) as damaged:
        open_index(path).documents.find()
    assert "index" in damaged.value.hint


def test_an_empty_file_was_cut_off_and_is_no_new_index(tmp_path: Path) -> None:
    """Answering from it would be a success that finds nothing."""
    path = made(tmp_path / "index.sqlite")
    os.truncate(path, 0)
    for _ in range(2):
        with pytest.raises(DatabaseCorrupt, match="cut off") as refused:
            open_index(path)
        assert "index(rebuild=True)" in refused.value.hint
    assert path.read_bytes() == b""


def test_an_index_whose_maker_was_killed_before_it_wrote_anything_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    path.touch()
    Path(f"{path}-making").touch()
    assert open_index(path).documents.count() == 0
    assert sorted(file.name for file in tmp_path.iterdir() if "-wal" not in file.name and "-shm" not in file.name) == [
        "index.sqlite"
    ]


def test_a_folder_in_the_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "index.sqlite").mkdir()
    with pytest.raises(DatabaseUnusable):
        open_index(tmp_path / "index.sqlite")


def test_reading_an_index_that_does_not_exist_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnusable, match="no index") as refused:
        open_index(tmp_path / "index.sqlite", read_only=True)
    assert "index()" in refused.value.hint
    assert not (tmp_path / "index.sqlite").exists()


def test_an_index_opened_for_reading_is_searched_and_never_written(tmp_path: Path) -> None:
    path = made(tmp_path / "index.sqlite")
    store = open_index(path, read_only=True)
    assert store.read_only
    assert words(store) == 1
    with pytest.raises(DatabaseUnusable, match="only be read"):
        store.documents.put(entry("memory/b.md", "more"), BY_USER)


@needs_user
def test_a_read_only_folder_is_opened_for_reading(tmp_path: Path) -> None:
    path = made(tmp_path / "state" / "index.sqlite")
    for leftover in path.parent.glob("*-*"):
        leftover.unlink()
    path.parent.chmod(0o500)
    try:
        store = open_index(path)
        assert store.read_only
        assert words(store) == 1
        store.close()
    finally:
        path.parent.chmod(0o700)


@needs_user
def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DatabaseUnusable, match="state"):
            open_index(tmp_path / "state" / "index.sqlite")
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """The limit on pages gives the error that a full disk gives."""
    path = made(tmp_path / "index.sqlite")
    store = SqliteIndex(path)
    writer = store._database._writer
    assert writer is not None
    pages = writer.execute("PRAGMA page_count").get
    writer.execute(f"PRAGMA max_page_count = {pages + 2}").fetchall()
    long = entry("memory/long.md", " ".join(f"word{number}" for number in range(9000)))
    with pytest.raises(DatabaseUnusable, match="full"):
        store.documents.put(long, BY_USER)
    kept = store.documents.count()
    writer.execute("PRAGMA max_page_count = 1000000").fetchall()
    store.documents.put(entry("memory/after.md", "space again"), BY_USER)
    assert store.documents.count() == kept + 1
    assert ledger.verify(store.record.ledger()) is None
    assert all(found == [] for found in store.care.check().values())


# --- threads and processes


def test_many_threads_read_and_write_at_once(tmp_path: Path) -> None:
    store = open_index(tmp_path / "index.sqlite")

    def work(thread: int) -> None:
        for number in range(5):
            store.documents.put(entry(f"memory/{thread}/{number}.md", f"words of {thread} {number}"), BY_USER)
            assert store.documents.match(["words"], Filter(), 100)
            assert store.documents.match([str(number)], Filter(), 100)

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(work, thread) for thread in range(6)]:
            done.result()
    assert store.documents.count() == 30
    assert len(store.documents.match(["words"], Filter(), 100)) == 30
    assert ledger.verify(store.record.ledger()) is None
    store.close()


def test_a_closed_store_says_so_in_every_thread(tmp_path: Path) -> None:
    store = open_index(made(tmp_path / "index.sqlite"))
    view = store.within(Scope())
    store.close()
    store.close()
    for call in (
        store.documents.find,
        store.generation,
        view.documents.find,
        lambda: store.documents.put(entry(), BY_USER),
    ):
        with pytest.raises(DatabaseUnusable, match="closed"):
            call()


def test_two_processes_that_open_a_new_index_at_once_both_succeed(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with ThreadPoolExecutor(8) as pool:
        stores = list(pool.map(lambda _: open_index(path), range(8)))
    for number, store in enumerate(stores):
        store.documents.put(entry(f"memory/{number}.md", f"words {number}"), BY_USER)
    assert [store.documents.count() for store in stores] == [8] * 8


@pytest.mark.parametrize("moment", [2, 3, 4])
def test_an_index_that_another_process_makes_while_it_is_looked_at_is_not_called_damaged(
    tmp_path: Path, moment: int
) -> None:
    path = tmp_path / "index.sqlite"
    with closing(apsw.Connection(str(path))) as looking, closing(apsw.Connection(str(path))) as making:
        looking.execute("PRAGMA journal_mode = wal")
        seen: list[str] = []

        def trace(_: object, statement: str, __: object) -> bool:
            seen.append(statement)
            if len(seen) == moment:
                making.execute("BEGIN IMMEDIATE")
                schema.migrate(making, str(path))
                making.execute("COMMIT")
            return True

        looking.exec_trace = trace
        schema.refuse_foreign(looking, str(path))
        assert len(seen) >= moment
        looking.exec_trace = None
        schema.refuse_foreign(looking, str(path))
        assert schema.is_current(looking)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Another connection that is in the middle of a write."""
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def test_a_writer_that_never_ends_is_named_and_readers_go_on(tmp_path: Path) -> None:
    path = made(tmp_path / "index.sqlite")
    store = SqliteIndex(path, busy_seconds=0.05)
    with held(path):
        assert words(store) == 1
        with pytest.raises(DatabaseBusy, match=r"0\.05 seconds"):
            store.documents.put(entry("memory/b.md", "more words"), BY_USER)
    store.documents.put(entry("memory/b.md", "more words"), BY_USER)
    assert words(store) == 2


def test_a_write_waits_for_another_one_to_end(tmp_path: Path) -> None:
    path = made(tmp_path / "index.sqlite")
    store = SqliteIndex(path, busy_seconds=20)
    started = threading.Event()

    def write() -> None:
        started.set()
        store.documents.put(entry("memory/b.md", "more words"), BY_USER)

    with held(path):
        thread = threading.Thread(target=write)
        thread.start()
        assert started.wait(5)
    thread.join(20)
    assert store.documents.count() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_opens_the_file_anew(tmp_path: Path) -> None:
    """In a process of its own: pytest's threads must not be forked."""
    script = """
        import os, sys
        from pathlib import Path
        from spec_kit_memory.core.memory import Filter, Scope
        from spec_kit_memory.index import open_index
        from tests.index.material import BY_USER, entry
        store = open_index(Path(sys.argv[1]))
        store.documents.put(entry("memory/a.md", "first words"), BY_USER)
        assert len(store.documents.match(["words"], Filter(), 9)) == 1
        child = os.fork()
        if child == 0:
            store.documents.put(entry("memory/b.md", "second words"), BY_USER)
            os._exit(0 if len(store.documents.match(["words"], Filter(), 9)) == 2 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        store.documents.put(entry("memory/c.md", "third words"), BY_USER)
        assert len(store.documents.match(["words"], Filter(), 9)) == 3
        assert store.care.check()["integrity"] == []
        store.close()
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "index.sqlite")],
        check=True,
        cwd=Path(__file__).parents[2],
        timeout=120,
    )


def test_a_file_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    store = open_index(made(tmp_path / "index.sqlite"))
    assert words(store) == 1
    generation = store.generation()
    other = made(tmp_path / "other.sqlite")
    second = open_index(other)
    second.documents.put(entry("memory/b.md", "more words"), BY_USER)
    second.close()
    os.replace(other, tmp_path / "index.sqlite")
    assert store.documents.count() == 2
    assert words(store) == 2
    assert store.generation() > generation
    store.documents.put(entry("memory/c.md", "still words"), BY_USER)
    assert words(store) == 3


def test_a_file_that_was_replaced_does_not_get_the_old_ones_log(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    store = open_index(path)
    for number in range(60):
        store.documents.put(entry(f"memory/{number}.md", f"some words {number} " * 200), BY_USER)
    os.replace(made(tmp_path / "other.sqlite"), path)
    assert store.documents.count() == 1
    store.documents.put(entry("memory/new.md", "new words"), BY_USER)
    store.close()
    with closing(open_index(path)) as again:
        assert [memory.path for memory in again.documents.find(order="path")] == ["memory/a.md", "memory/new.md"]
        assert not any(again.care.check().values())


def test_a_long_read_of_a_deleted_file_goes_on_and_nobody_waits_for_it(tmp_path: Path) -> None:
    path = made(tmp_path / "index.sqlite")
    store = open_index(path)
    rows = iter(store.care.snapshot())
    first = next(rows)
    delete(path)
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(store.documents.count).result(4) == 0
    assert first
    assert list(rows)


def test_a_read_that_another_thread_ends_has_ended(tmp_path: Path) -> None:
    store = open_index(made(tmp_path / "index.sqlite"))
    assert isinstance(store, SqliteIndex)
    reading = store._database.reading()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(reading.__enter__).result(120)
    assert store._database._reads._in_progress
    reading.__exit__(None, None, None)
    assert not store._database._reads._in_progress


def test_a_file_that_was_deleted_is_made_again_instead_of_writing_into_nothing(tmp_path: Path) -> None:
    path = made(tmp_path / "index.sqlite")
    store = open_index(path)
    generation = store.generation()
    delete(path)
    store.documents.put(entry("memory/b.md", "new words"), BY_USER)
    assert path.exists()
    assert open_index(path).documents.count() == 1
    assert store.generation() > generation


def test_a_deleted_workspace_is_not_brought_back_by_whoever_still_has_its_index_open(tmp_path: Path) -> None:
    workspace = tmp_path / "project"
    store = open_index(made(workspace / "state" / "index.sqlite"))
    shutil.rmtree(workspace)
    with pytest.raises(DatabaseUnusable):
        store.generation()
    assert not workspace.exists()
    workspace.mkdir()
    store.generation()
    assert (workspace / "state" / "index.sqlite").exists()


def test_a_file_that_was_deleted_in_the_middle_of_many_writes_ends_them(tmp_path: Path) -> None:
    path = made(tmp_path / "index.sqlite")
    store = open_index(path)
    with store.bulk():
        store.documents.put(entry("memory/b.md", "words of the old file"), BY_USER)
        delete(path)
        with pytest.raises(DatabaseUnusable, match="was replaced"):
            store.documents.put(entry("memory/c.md", "words by what was known of the old file"), BY_USER)
    assert store.documents.count() == 0
    with store.bulk():
        store.documents.put(entry("memory/d.md", "words of the new file"), BY_USER)
    assert open_index(path).documents.count() == 1


def test_a_read_waits_while_another_thread_makes_the_deleted_file_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(tmp_path / "index.sqlite")
    store = open_index(path)
    assert isinstance(store, SqliteIndex)
    making, go_on = threading.Event(), threading.Event()
    prepare = store._database._prepare_file

    def slowly() -> None:
        making.set()
        assert go_on.wait(120)
        prepare()

    monkeypatch.setattr(store._database, "_prepare_file", slowly)
    delete(path)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(store.documents.count)
        assert making.wait(120)
        second = threads.submit(store.documents.count)
        time.sleep(0.05)
        assert not second.done()
        go_on.set()
        assert (first.result(120), second.result(120)) == (0, 0)


def test_a_deleted_file_waits_for_the_reads_of_it_to_end(tmp_path: Path) -> None:
    path = made(tmp_path / "index.sqlite")
    store = open_index(path)
    assert isinstance(store, SqliteIndex)
    with ThreadPoolExecutor(1) as threads:
        with store._database.reading() as connection:
            delete(path)
            anew = threads.submit(store.documents.count)
            time.sleep(0.05)
            assert connection.execute("SELECT count(*) FROM memory").get == 1
            assert not anew.done()
        assert anew.result(120) == 0


@pytest.mark.parametrize("ends", [("", "-wal", "-shm"), ("", "-shm", "-wal"), ("-shm", "-wal", "")])
def test_files_that_are_deleted_one_by_one_under_busy_threads_leave_a_sound_index(
    tmp_path: Path, ends: tuple[str, ...]
) -> None:
    stop = threading.Event()

    def read(store: Index) -> None:
        while not stop.is_set():
            store.documents.count()

    for number in range(5):
        path = made(tmp_path / f"{number}.sqlite")
        store = open_index(path)
        stop.clear()
        with ThreadPoolExecutor(2) as threads:
            reading = [threads.submit(read, store) for _ in range(2)]
            try:
                for end in ends:
                    time.sleep(0.01)
                    Path(f"{path}{end}").unlink(missing_ok=True)
                time.sleep(0.02)
            finally:
                stop.set()
            for each in reading:
                each.result(120)
        store.documents.put(entry("memory/b.md", "new words"), BY_USER)
        other = open_index(path)
        assert store.documents.count() == other.documents.count() == 1
        other.close()
        store.close()
        with closing(open_index(path)) as again:
            assert again.documents.count() == 1


# --- bulk


def level(store: SqliteIndex) -> int:
    writer = store._database._writer
    assert writer is not None
    return int(writer.execute("PRAGMA synchronous").get)


def test_bulk_relaxes_its_own_thread_only_and_syncs_at_its_end(tmp_path: Path) -> None:
    store = SqliteIndex(tmp_path / "index.sqlite")
    seen: dict[str, int] = {}
    with store.bulk():
        store.documents.put(entry("memory/a.md", "first"), BY_USER)
        seen["inside"] = level(store)
        thread = threading.Thread(target=lambda: store.documents.put(entry("memory/b.md", "second"), BY_USER))
        thread.start()
        thread.join()
        seen["other thread"] = level(store)
        store.documents.put(entry("memory/c.md", "third"), BY_USER)
    seen["after"] = level(store)
    assert seen == {"inside": 1, "other thread": 2, "after": 2}
    assert store.documents.count() == 3


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    store = open_index(tmp_path / "index.sqlite")
    store.documents.put(entry("memory/a.md", "first"), BY_USER)
    before = (store.generation(), len(list(store.record.ledger())))
    bad = entry("memory/b.md", "second", attributes={"weight": object()})
    with pytest.raises(TypeError):
        store.documents.put(bad, BY_USER)
    assert (store.generation(), len(list(store.record.ledger()))) == before
    assert store.documents.put(entry("memory/b.md", "second"), change()).memory_id == 2


# --- what makes a scan fast


def test_new_documents_that_are_written_together_go_into_the_text_index_at_once(tmp_path: Path) -> None:
    """A statement that might touch several rows makes FTS5 write its words: once per document took a quarter longer."""
    store = SqliteIndex(tmp_path / "index.sqlite")
    store.documents.put(entry("memory/first.md", "some words"), BY_USER)
    writer = store._database._writer
    assert writer is not None
    with store.together():
        sizes = set()
        for number in range(5):
            store.documents.put(entry(f"memory/{number}.md", f"words {number}", triggers=[f"phrase {number}"]), BY_USER)
            sizes.add(writer.execute("SELECT count(*) FROM passage_fts_data").get)
    assert len(sizes) == 1
    assert len(store.documents.match(["words"], Filter(), 20)) == 6


def test_a_join_is_planned_once_for_all_values(tmp_path: Path) -> None:
    store = SqliteIndex(tmp_path / "index.sqlite")
    planned: list[object] = []

    def plan(*what: object) -> int:
        planned.append(what)
        return apsw.SQLITE_OK

    with store._database.reading() as reader:
        reader.authorizer = plan
    store.documents.get(path="memory/a.md")
    assert planned
    planned.clear()
    store.documents.get(path="memory/b.md")
    assert planned == []


@pytest.mark.parametrize("table", ["ledger", "history"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET actor = 'x'", "DELETE FROM {}"])
def test_the_records_cannot_be_changed(tmp_path: Path, table: str, statement: str) -> None:
    path = made(tmp_path / "index.sqlite")
    connection = apsw.Connection(str(path))
    with pytest.raises(apsw.ConstraintError, match="append-only"):
        connection.execute(statement.format(table))


# --- starting cheaply


def test_reading_and_writing_load_no_numpy(tmp_path: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from spec_kit_memory.index import open_index
        from tests.index.material import BY_USER, entry
        store = open_index(Path(sys.argv[1]))
        store.documents.put(entry(triggers=["one"]), BY_USER)
        store.documents.find(), store.documents.triggers(), store.documents.text(1)
        store.care.stats(), store.record.links()
        sys.exit("numpy" in sys.modules)
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "index.sqlite")],
        check=True,
        cwd=Path(__file__).parents[2],
        timeout=180,
    )


def test_bits_find_what_the_whole_matrix_finds(tmp_path: Path) -> None:
    """Beyond its size limit the matrix is replaced by bits and the exact vectors are read from the file."""
    from spec_kit_memory.index.arrays.matching import Arrays

    store = SqliteIndex(tmp_path / "index.sqlite")
    with store.bulk():
        for number in range(60):
            store.documents.put(entry(f"memory/{number}.md", f"words {number}"), BY_USER)
        embed_all(store, dimensions=16)
    query = [((7 * at) % 5) / 5 for at in range(16)]
    exact = store.vectors.match(query, Filter(), 10)
    store._shared.loaded = Arrays(store._shared.feed, exact_bytes=100)
    coarse = store.vectors.match(query, Filter(), 10)
    assert [(hit.passage_id, round(hit.score, 5)) for hit in coarse] == [
        (hit.passage_id, round(hit.score, 5)) for hit in exact
    ]
    store.documents.put(entry("memory/new.md", "more"), BY_USER)
    embed_all(store, dimensions=16)
    assert len(store.vectors.match(query, Filter(), 100)) == 61
