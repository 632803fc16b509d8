"""Are the pages of a file read as SQLite reads them, and what of a damaged one can still be read?"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from spec_kit_memory.index.sqlite import companions, old_rows, schema
from spec_kit_memory.index.sqlite.old_rows import OldIndex
from spec_kit_memory.index.sqlite.pages import Pages, page_size

PAGE = 4096


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(tmp_path / "a.sqlite"))
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)")
    connection.execute("CREATE TABLE w (a TEXT, b INTEGER, c, PRIMARY KEY (a, b)) WITHOUT ROWID")
    yield connection
    connection.close()


VALUES: list[Any] = [
    None, 0, 1, -1, 127, 128, 32_767, -32_768, 8_388_607, 2**31 - 1, -(2**31), 2**47 - 1, 2**63 - 1, -(2**63),
    0.5, -1e300, "", "text", "ä漢🦓", "x" * 5_000, "y" * 20_000, b"", b"\0\xff", os.urandom(4_060), os.urandom(9_000),
]  # fmt: skip


def filled(connection: apsw.Connection) -> None:
    with connection:
        for number, value in enumerate(VALUES * 12):
            connection.execute("INSERT INTO t (id, a, b) VALUES (?, ?, ?)", (number * 7 - 30, value, number))
            connection.execute("INSERT INTO w (a, b, c) VALUES (?, ?, ?)", (str(value)[:3_000], number, value))


def rows_of(path: Path, name: str, *, of_table: bool) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(path))
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).get
    connection.close()
    with Pages.of_file(path) as pages:
        tree = pages.tree(root, of_table=of_table)
        assert not tree.damaged
        if of_table:
            return [(row.key, *row.values[1:]) for leaf in tree.leaves for row in pages.rows(leaf) if row]
        return [row.values for page in sorted(tree.pages) for row in pages.entries(page) if row]


@pytest.mark.parametrize("settled", [False, True], ids=["in the log", "in the file"])
def test_every_kind_of_value_is_read_as_sqlite_reads_it(
    connection: apsw.Connection, tmp_path: Path, settled: bool
) -> None:
    filled(connection)
    if settled:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    copy = tmp_path / "copy.sqlite"
    shutil.copy(tmp_path / "a.sqlite", copy)
    shutil.copy(tmp_path / "a.sqlite-wal", f"{copy}-wal")
    assert companions.has_log_frames(copy) is not settled
    assert sorted(rows_of(copy, "t", of_table=True)) == connection.execute("SELECT * FROM t ORDER BY id").fetchall()
    expected = connection.execute("SELECT * FROM w").fetchall()
    assert sorted(rows_of(copy, "w", of_table=False), key=repr) == sorted(expected, key=repr)


def test_a_log_counts_up_to_its_last_whole_transaction(connection: apsw.Connection, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    ends = []
    for number in range(1, 6):
        connection.execute("INSERT INTO t (id, a) VALUES (?, ?)", (number, "x" * 2_000))
        ends.append(companions.log_path(path).stat().st_size)
    content = companions.log_path(path).read_bytes()
    copy = tmp_path / "copy.sqlite"
    for cut in range(0, len(content), 700):
        shutil.copy(path, copy)
        companions.log_path(copy).write_bytes(content[:cut])
        with Pages.of_file(copy) as pages:
            rows = [row.key for leaf in pages.tree(2, of_table=True).leaves for row in pages.rows(leaf) if row]
        assert rows == list(range(1, 1 + sum(end <= cut for end in ends))), cut
    flipped = bytearray(content)
    flipped[ends[2] + 50] ^= 1
    companions.log_path(copy).write_bytes(flipped)
    assert sum(1 for _ in companions.log_frames(bytes(flipped))) == sum(
        1 for _ in companions.log_frames(content[: ends[2]])
    )


@pytest.mark.parametrize("size", [512, 1024, 4096, 8192, 65_536])
def test_the_size_of_pages_is_known_though_the_header_lies(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA page_size = {size}").fetchall()
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a)")
    with connection:
        connection.executemany("INSERT INTO t (a) VALUES (?)", [("words " * 20,) for _ in range(size // 4)])
    connection.close()
    content = bytearray(path.read_bytes())

    def read(offset: int, length: int) -> bytes:
        return bytes(content[offset : offset + length])

    assert page_size(read, len(content)) == size
    if size == PAGE:
        for lie in (512, 1024, 8192, 0x1337, 0):
            content[16:18] = lie.to_bytes(2, "big")
            assert page_size(read, len(content)) == PAGE


# --- an index that is damaged


def made(path: Path, count: int = 400) -> Path:
    connection = apsw.Connection(str(path))
    connection.execute("BEGIN")
    schema.migrate(connection, str(path))
    for number in range(1, count + 1):
        connection.execute(
            "INSERT INTO history (memory_id, event, actor, at, after) VALUES (?, 'ADD', 'user', ?, ?)",
            (number, number, "{}" + " " * 90),
        )
    connection.execute("COMMIT")
    connection.close()
    return path


def leaves(path: Path, kind: str = "leaf") -> list[int]:
    connection = apsw.Connection(str(path))
    sql = "SELECT pageno FROM dbstat WHERE name = 'history' AND pagetype = ? ORDER BY path"
    results = [int(page) for (page,) in connection.execute(sql, (kind,))]
    connection.close()
    return results


def change(path: Path, page: int, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE + at)
        file.write(content)


def read_history(path: Path) -> old_rows.Found:
    with OldIndex(path, {}) as old:
        return old.read("history")


def test_a_sound_table_is_read_as_it_is(tmp_path: Path) -> None:
    result = read_history(made(tmp_path / "a.sqlite"))
    assert (len(result.rows), result.whole, result.complete, result.lost_count) == (400, True, True, 0)


def test_rows_below_a_lost_page_are_found_by_themselves(tmp_path: Path) -> None:
    path = made(tmp_path / "a.sqlite")
    change(path, leaves(path, "internal")[0], 0, bytes(PAGE))
    result = read_history(path)
    assert (set(result.rows), result.lost_count) == (set(range(1, 401)), 0)
    assert not result.whole
    assert result.complete


def test_rows_of_a_lost_page_are_named_by_an_index(tmp_path: Path) -> None:
    path = made(tmp_path / "a.sqlite")
    change(path, leaves(path)[3], 0, bytes(PAGE))
    result = read_history(path)
    assert result.complete
    assert result.lost_count == 400 - len(result.rows) > 5
    assert result.lost == set(range(1, 401)) - set(result.rows)


def test_rows_that_a_page_forgot_are_found_in_it(tmp_path: Path) -> None:
    """SQLite reads over a count that is too low without a word."""
    path = made(tmp_path / "a.sqlite")
    for page in leaves(path)[2:5]:
        change(path, page, 3, b"\x00\x03")
    result = read_history(path)
    assert (len(result.rows), result.lost_count, result.whole) == (400, 0, False)


def test_children_that_a_page_forgot_are_found(tmp_path: Path) -> None:
    path = made(tmp_path / "a.sqlite")
    change(path, leaves(path, "internal")[0], 3, b"\x00\x02")
    result = read_history(path)
    assert (len(result.rows), result.lost_count, result.whole) == (400, 0, False)


def test_rows_that_were_deleted_do_not_come_back(tmp_path: Path) -> None:
    path = made(tmp_path / "a.sqlite")
    connection = apsw.Connection(str(path))
    connection.execute("DROP TRIGGER history_is_append_only_delete")
    connection.execute("DELETE FROM history WHERE sequence BETWEEN 50 AND 300")
    connection.close()
    change(path, leaves(path, "internal")[0], 0, bytes(PAGE))
    result = read_history(path)
    assert set(result.rows) == {*range(1, 50), *range(301, 401)}


def test_pages_that_name_each_other_end(tmp_path: Path) -> None:
    path = made(tmp_path / "a.sqlite")
    (root,) = leaves(path, "internal")
    pointer = int.from_bytes(path.read_bytes()[(root - 1) * PAGE + 12 : (root - 1) * PAGE + 14], "big")
    change(path, root, pointer, root.to_bytes(4, "big"))  # its first child is itself
    result = read_history(path)
    assert len(result.rows) == 400


def test_without_the_table_of_tables_each_table_is_where_a_new_index_has_it(tmp_path: Path) -> None:
    path = made(tmp_path / "a.sqlite")
    change(path, 1, 0, bytes(PAGE))
    result = read_history(path)
    assert (len(result.rows), result.whole) == (400, True)


def test_a_row_that_makes_no_sense_is_not_taken_over(tmp_path: Path) -> None:
    path = made(tmp_path / "a.sqlite")
    content = path.read_bytes()
    at = content.rindex(b"ADD")
    path.write_bytes(content[:at] + b"\xff\xfe\xfd" + content[at + 3 :])
    result = read_history(path)
    assert (len(result.rows), result.lost_count) == (399, 1)
