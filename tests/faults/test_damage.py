"""Any part of the index is damaged: is it said, does the advice work, and is nothing lost that can be read?

`python -m benchmarks.damage` tries every kind of damage on several pages of every object; here each is hit once.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from spec_kit_memory.errors import DatabaseCorrupt
from spec_kit_memory.workspace import Workspace
from tests.faults import rich
from tests.faults.rich import PAGE, Recorded, index_of, patch
from tests.faults.talking import Talk, skm

RECORDED = ("counter", "content", "memory", "usage", "override", "citation", "link", "history", "ledger", "session")


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rich.make(Path(os.path.realpath(tmp_path_factory.mktemp("damage"))) / "work")


@pytest.fixture(scope="session")
def recorded(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    root = rich.copied(whole, tmp_path_factory.mktemp("recorded") / "work")
    with rich.opened(root) as workspace:
        assert set(rich.read_all(workspace).values()) == {"right"}
        return Recorded.of(workspace)


@pytest.fixture
def root(whole: Path, tmp_path: Path) -> Path:
    return rich.copied(whole, Path(os.path.realpath(tmp_path)) / "work")


def objects() -> list[str]:
    """All tables and indexes of a new index, and the table of tables."""
    from spec_kit_memory.index.sqlite import old_rows, schema

    names = ["sqlite_schema"]
    for table in old_rows.layouts(schema.VERSION).values():
        names += [name for name, root in {table.name: table.root, **table.indexes}.items() if root]
    return names


def rebuilt(root: Path) -> tuple[Workspace, dict[str, dict[str, int]]]:
    """Follow the advice, then open what came of it."""
    with rich.opened(root) as workspace:
        answer = workspace.index(rebuild=True, embed=False)
    tables = {row["table"]: row for row in answer.rebuilt["tables"]}
    assert set(tables) == set(RECORDED)
    assert (root / answer.rebuilt["kept"]).exists()
    lost = [name for name, row in tables.items() if row["lost"] or not row["complete"]]
    assert bool(lost) == any(hint.startswith("could not be read") for hint in answer.hints)
    return rich.opened(root), tables


def as_good_as_before(workspace: Workspace, tables: dict[str, dict[str, int]], before: Recorded) -> None:
    """Everything is found, and what is recorded is there but for what the report names."""
    assert set(rich.read_all(workspace).values()) == {"right"}, rich.read_all(workspace)
    after = Recorded.of(workspace)
    differing = {id_ for id_, memory in before.memories.items() if after.memories.get(id_) != memory}
    unnamed = tables["memory"]["lost"] + tables["usage"]["lost"]
    assert len(differing) <= unnamed or not tables["memory"]["complete"], differing
    missing = before.hand_links - after.hand_links
    assert len(missing) <= tables["link"]["lost"] or not tables["link"]["complete"], missing
    again = len(after.memories)  # each was read again, and that is history too
    assert after.history >= before.history + again - 1 - tables["history"]["lost"]
    verdict = workspace.ledger_verify()
    assert verdict.ok == (not tables["ledger"]["lost"] and bool(tables["ledger"]["complete"])), verdict.summary
    assert after.ledger >= before.ledger + again - 1 - tables["ledger"]["lost"]
    messages = {"general triggers", "pending vectors", *(() if verdict.ok else ("ledger",))}
    assert after.problems <= before.problems | messages, after.problems


def goes_on(workspace: Workspace) -> None:
    """New things are kept, found and on the record."""
    entries = workspace.ledger_head().entries
    saved = workspace.save(text="An aardvark was seen after the damage", spec_folder="001-core")
    assert workspace.search("aardvark").results[0].id == saved.id
    assert workspace.ledger_head().entries > entries


FLIPPED = ("memory", "memory_live_path", "history", "ledger", "content", "passage", "passage_fts_data", "vector")
CASES = [(name, "zeroed") for name in objects()] + [(name, "rows flipped") for name in FLIPPED]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_damage_to_any_object_is_said_and_mended_by_the_advice(
    root: Path, recorded: Recorded, name: str, kind: str
) -> None:
    pages = rich.pages_of(index_of(root))[name]
    chosen = rich.chosen_pages(pages)
    rich.damage(index_of(root), pages[0][0] if kind == "zeroed" else chosen[len(chosen) // 2], kind)
    with rich.opened(root) as workspace:
        verdicts = rich.read_all(workspace)
        assert set(verdicts.values()) <= {"right", "damaged"}, verdicts
    workspace, tables = rebuilt(root)
    with workspace:
        as_good_as_before(workspace, tables, recorded)
        if name not in RECORDED:
            assert not any(row["lost"] for row in tables.values()), "what is derived is made again"
        goes_on(workspace)


# --- the file as a whole


Damage = Callable[[Path], object]


def _cut(length: Callable[[int], int]) -> Damage:
    return lambda path: os.truncate(path, length(path.stat().st_size))


def _every_second_page(path: Path) -> None:
    for page in range(2, path.stat().st_size // PAGE, 2):
        patch(path, page * PAGE, b"\xa5" * PAGE)


def _log(content: bytes) -> Damage:
    return lambda path: Path(f"{path}-wal").write_bytes(content)


def _replace(content: bytes) -> Damage:
    return lambda path: path.write_bytes(content)


NOISE = random.Random(1).randbytes(200_000)
OF_THE_FILE: dict[str, Damage] = {
    "first page zeroed": lambda path: patch(path, 0, bytes(PAGE)),
    "header zeroed": lambda path: patch(path, 0, bytes(100)),
    "header overwritten": lambda path: patch(path, 0, NOISE[:100]),
    "another size of pages": lambda path: patch(path, 16, b"\x20\x00"),
    "an impossible size of pages": lambda path: patch(path, 16, b"\x13\x37"),
    "another version of the format": lambda path: patch(path, 18, b"\x09\x09"),
    "reserved bytes": lambda path: patch(path, 20, b"\x20"),
    "too many pages": lambda path: patch(path, 28, b"\x7f\xff\xff\xff"),
    "too few pages": lambda path: patch(path, 28, b"\x00\x00\x00\x20"),
    "list of free pages": lambda path: patch(path, 32, b"\x00\x00\x00\x05\x00\x00\x00\x09"),
    "free pages outside": lambda path: patch(path, 32, b"\x7f\x00\x00\x05\x00\x00\x00\x09"),
    "another encoding": lambda path: patch(path, 56, b"\x00\x00\x00\x02"),
    "version of the schema": lambda path: patch(path, 60, b"\x7f\x00\x00\x00"),
    "older version of the schema": lambda path: patch(path, 60, b"\x00\x00\x00\x01"),
    "name of the program": lambda path: patch(path, 68, b"\x00\x01\x02\x03"),
    "cut inside a page": _cut(lambda size: size - 1000),
    "cut by a page": _cut(lambda size: size - PAGE),
    "noise for a log": _log(NOISE),
    "text for a log": _log(b"hello " * 10_000),
    "noise behind its end": lambda path: patch(path, path.stat().st_size, NOISE[:9_999]),
}


@pytest.mark.parametrize("what", OF_THE_FILE)
def test_damage_to_the_file_is_said_and_mended_by_the_advice(root: Path, recorded: Recorded, what: str) -> None:
    OF_THE_FILE[what](index_of(root))
    with rich.opened(root) as workspace:
        verdicts = rich.read_all(workspace)
        assert set(verdicts.values()) <= {"right", "damaged"}, verdicts
    workspace, tables = rebuilt(root)
    with workspace:
        as_good_as_before(workspace, tables, recorded)
        goes_on(workspace)


LARGE_PARTS: dict[str, Damage] = {
    "the second half": _cut(lambda size: size // 2 // PAGE * PAGE),
    "every second page": _every_second_page,
    "all but the first": lambda path: patch(path, PAGE, bytes(path.stat().st_size - PAGE)),
}


@pytest.mark.parametrize("what", LARGE_PARTS)
def test_where_large_parts_are_lost_the_files_are_found_and_the_losses_named(
    root: Path, recorded: Recorded, what: str
) -> None:
    LARGE_PARTS[what](index_of(root))
    with rich.opened(root) as workspace:
        assert set(rich.read_all(workspace).values()) <= {"right", "damaged"}
    workspace, tables = rebuilt(root)
    with workspace:
        for number in rich.SEARCHED:
            assert workspace.search(f"zebra{number}").results[0].title == rich.title_of(number)
        after = Recorded.of(workspace)
        differing = [id_ for id_, memory in recorded.memories.items() if after.memories.get(id_) != memory]
        # A conversation has no file: where its text is lost, that is what is named, and it is gone with it.
        telling = [tables[name] for name in ("memory", "usage", "content")]
        named = sum(table["lost"] for table in telling)
        assert len(differing) <= named or not all(table["complete"] for table in telling)
        assert not workspace.ledger_verify().ok
        goes_on(workspace)


UNREADABLE: dict[str, Damage] = {
    "empty": _cut(lambda size: 0),
    "of one byte": _replace(b"x"),
    "half a header": _cut(lambda size: 50),
    "half a page": _cut(lambda size: 3000),
    "one page": _cut(lambda size: PAGE),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "noise": _replace(NOISE),
    "a text": _replace(b"This is no database.\n" * 1000),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_file_of_which_nothing_can_be_read_is_made_again_from_the_markdown(root: Path, what: str) -> None:
    UNREADABLE[what](index_of(root))
    before = index_of(root).read_bytes()
    with rich.opened(root) as workspace:
        assert set(rich.read_all(workspace).values()) == {"damaged"}
    assert index_of(root).read_bytes() == before, "looking at it changes nothing"
    workspace, tables = rebuilt(root)
    with workspace:
        for number in rich.SEARCHED:
            assert workspace.search(f"zebra{number}").results[0].title == rich.title_of(number)
        assert not any(row["complete"] for name, row in tables.items() if name != "counter")
        assert not workspace.ledger_verify().ok, "the record before it is missing, and that is said"
        goes_on(workspace)
    listed = list(index_of(root).parent.glob("index-damaged-*.sqlite"))
    assert [file.read_bytes() for file in listed] == [before]


# --- beside others


@pytest.mark.parametrize("name", ["memory", "passage_fts_data", "claim"])
def test_a_running_server_says_the_damage_and_goes_on_with_the_new_index(root: Path, name: str) -> None:
    with Talk(root) as server:
        server.ready(memories=rich.NOTES)
        connection = apsw.Connection(str(index_of(root)))
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()
        for page, _ in rich.pages_of(index_of(root))[name]:
            rich.damage(index_of(root), page, "zeroed")
        for number in rich.SEARCHED:
            answer = server.search(f"zebra{number}", includeArchived=True)
            assert answer.code == "E024" or answer.titles[0] == rich.title_of(number)
        done = skm(root, "index", "--rebuild")
        assert done.returncode == 0, done.stderr
        assert "is kept as .spec-kit-memory/index-" in done.stdout
        for number in rich.SEARCHED:
            assert server.search(f"zebra{number} again", includeArchived=True).titles[0] == rich.title_of(number)
        saved = server.call("memory_save", specFolder="001-core", context={"sessionSummary": "An aardvark came."})
        assert not saved.is_error, saved
        assert "aardvark" in skm(root, "search", "aardvark").stdout.lower()
        problems = server.call("memory_health").data["problems"]
        # What is not UTF-8 was so before.
        assert {problem["check"] for problem in problems if not problem["notice"]} <= {"bad files"}


def test_the_command_says_what_could_not_be_read(root: Path) -> None:
    for page, kind in rich.pages_of(index_of(root))["history"]:
        if kind == "leaf":
            rich.damage(index_of(root), page, "zeroed")
    message = skm(root, "history")
    assert message.returncode == 1
    assert "E024" in message.stderr
    assert "skm index --rebuild" in message.stderr
    done = skm(root, "index", "--rebuild")
    assert done.returncode == 0, done.stderr
    assert "not everything could be read" in done.stdout
    assert "rows of history" in done.stdout


def test_a_checkpoint_brings_back_what_damage_took(root: Path) -> None:
    with rich.opened(root) as workspace:
        workspace.checkpoint_create("before")
        id_ = workspace.search("quagga3", mode="text").results[0].id
    rich.settle(index_of(root))
    index_of(root).write_bytes(NOISE)
    workspace, _ = rebuilt(root)
    with workspace:
        assert not workspace.search("quagga3", mode="text").results
        workspace.checkpoint_restore("before")
        assert workspace.search("quagga3", mode="text").results
        assert workspace.load(workspace.search("zebra0").results[0].id).memory.validation_count == 1
        assert id_


@pytest.fixture(autouse=True)
def _room(tmp_path: Path) -> Iterator[None]:
    """Copies of a workspace for some hundred tests would fill a small disk."""
    yield
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_a_damaged_index_is_not_put_into_a_checkpoint_as_if_it_were_whole(root: Path) -> None:
    pages = rich.pages_of(index_of(root))["memory"]
    rich.damage(index_of(root), pages[0][0], "rows dropped")
    with rich.opened(root) as workspace, pytest.raises(DatabaseCorrupt):
        workspace.checkpoint_create("half")
