"""Are checkpoints and pauses shared by all processes that share a checkout on a server? They are rows there."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.errors import CheckpointExists, CheckpointNotFound, CoolingDown, DatabaseUnusable, RestoreFailed
from spec_kit_memory.files.checkpoint_shelf import CheckpointShelf, FolderShelf, RowShelf
from spec_kit_memory.index.postgres import schema
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.settings.keys import IndexPlace, Semantic, Settings
from spec_kit_memory.workspace import Workspace
from tests.index.material import BY_USER, NOON, entry
from tests.postgres_server import Server


@pytest.fixture
def store(server: Server) -> Iterator[PostgresIndex]:
    made = PostgresIndex(server.url(), uuid4().hex)
    yield made
    made.close()


@pytest.fixture(params=["folder", "rows"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointShelf:
    if request.param == "rows":
        return RowShelf(request.getfixturevalue("store").state_files)
    folder = FolderShelf(Settings(root=tmp_path))
    folder.make()
    return folder


@pytest.mark.parametrize("size", [0, 10, 3 << 20])
def test_a_shelf_gives_back_what_was_put(shelf: CheckpointShelf, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    slot = shelf.slot("one.jsonl.gz")
    assert not slot.exists()
    with shelf.alone(), slot.writing() as raw:
        for at in range(0, size, 100_000):
            raw.write(data[at : min(size, at + 100_000)])
    with slot.reading() as (raw, told):
        assert raw.read() == data[:size]
    assert told == slot.size() == size
    assert [one.name for one in shelf.slots()] == ["one.jsonl.gz"]
    slot.remove()
    assert not slot.exists()
    assert shelf.slots() == []


def test_what_fails_in_the_middle_is_not_there(shelf: CheckpointShelf) -> None:
    slot = shelf.slot("half.jsonl.gz")
    with suppress(ZeroDivisionError), slot.writing() as raw:
        raw.write(bytes(3 << 20))
        raise ZeroDivisionError
    assert not slot.exists()


def test_what_is_written_again_is_the_new_one(shelf: CheckpointShelf) -> None:
    slot = shelf.slot("one.jsonl.gz")
    for text in (b"x" * (2 << 20), b"short"):
        with slot.writing() as raw:
            raw.write(text)
    with slot.reading() as (raw, _):
        assert io.BytesIO(raw.read()).read() == b"short"


def test_one_pause_holds_for_all_handles(store: PostgresIndex) -> None:
    files = store.state_files
    assert files.seconds_left("scan", NOON, pause_seconds=60) == 0
    assert files.seconds_left("scan", NOON + timedelta(seconds=20), pause_seconds=60) == 40
    assert files.seconds_left("other", NOON, pause_seconds=60) == 0
    assert files.seconds_left("scan", NOON + timedelta(seconds=61), pause_seconds=60) == 0
    assert files.seconds_left("scan", NOON, pause_seconds=60) == 0, "a clock that was set back stops nobody for ever"


def on_server(root: Path, server: Server, project: str, checkout: str = "served") -> Settings:
    (root / "memory").mkdir(parents=True, exist_ok=True)
    place = IndexPlace(url=server.url(), project=project, checkout=checkout)
    return Settings(root=root, index=place, semantic=Semantic(model="hashing"))


def test_a_checkpoint_of_one_machine_is_restored_on_another(server: Server, tmp_path: Path) -> None:
    project = uuid4().hex
    one, other = (on_server(tmp_path / name, server, project) for name in ("one", "other"))
    with Workspace(one, now=lambda: NOON) as here, Workspace(other, now=lambda: NOON) as there:
        here._runtime.whole.documents.put(entry("memory/gate.md", "The gate opens at nine."), BY_USER)
        assert here.checkpoint_create("before").memories == 1
        assert not list((tmp_path / "one" / ".spec-kit-memory").rglob("*.gz")), "no file beside it"
        assert [row.name for row in there.checkpoint_list().checkpoints] == ["before"]
        with pytest.raises(CheckpointExists):
            there.checkpoint_create("before")
        there._runtime.whole.documents.forget(1, BY_USER)
        assert len(there.checkpoint_diff("before").removed) == 1
        assert there.checkpoint_restore("before").restored == 1
        assert here.search("gate").results
        there.undo()
        assert not here.search("gate").results, "the undo found what the restore had kept"
        here.checkpoint_delete("before")
        with pytest.raises(CheckpointNotFound):
            there.checkpoint_diff("before")


def test_another_checkout_has_its_own_checkpoints(server: Server, tmp_path: Path) -> None:
    project = uuid4().hex
    settings = [on_server(tmp_path / name, server, project, checkout=name) for name in ("one", "other")]
    with Workspace(settings[0]) as one, Workspace(settings[1]) as other:
        one.checkpoint_create("before")
        assert other.checkpoint_list().checkpoints == ()


def test_an_altered_checkpoint_is_refused(server: Server, tmp_path: Path) -> None:
    with Workspace(on_server(tmp_path, server, uuid4().hex)) as workspace:
        workspace.checkpoint_create("before")
        store = workspace._runtime.whole
        assert isinstance(store, PostgresIndex)
        server.execute(
            f"UPDATE {schema.NAME}.state_file SET data = substr(data, 1, length(data) - 20)"
            f" WHERE project_id = {store._database.project} AND kind = 'checkpoints'"
        )
        with pytest.raises(RestoreFailed):
            workspace.checkpoint_restore("before")


def test_a_scan_by_a_tool_pauses_for_every_replica(server: Server, tmp_path: Path) -> None:
    project = uuid4().hex
    one, other = (on_server(tmp_path / name, server, project) for name in ("one", "other"))
    with Workspace(one, now=lambda: NOON) as here, Workspace(other, now=lambda: NOON) as there:
        here.index(cooldown=True)
        with pytest.raises(CoolingDown):
            there.index(cooldown=True)


def test_a_server_that_can_only_be_read_keeps_nothing(store: PostgresIndex, server: Server) -> None:
    name = server.execute(f"SELECT name FROM {schema.NAME}.project WHERE id = {store._database.project}")[0][0]
    fixed = PostgresIndex(server.url(), str(name), read_only=True)
    with pytest.raises(DatabaseUnusable), fixed.state_files.writing("checkpoints", "x"):
        pass
    fixed.close()


def test_by_sql_too_a_reader_sees_nobody_elses_own(store: PostgresIndex, server: Server) -> None:
    store.documents.put(entry("memory/all.md", "for all"), BY_USER)
    store.documents.put(entry("users/ana/memory/a.md", "of ana", owner="ana"), BY_USER)
    shown = {None: 1, "": 1, "bob": 1, "ana": 2, "*": 1}
    with psycopg.connect(server.url()) as connection:
        connection.execute(f"SET LOCAL ROLE {schema.ROLE}".encode())
        connection.execute("SELECT set_config('skm.project', %s, true)", (str(store._database.project),))
        connection.execute("SELECT set_config('skm.checkout', %s, true)", (str(store._database.checkout),))
        for user, expected in shown.items():
            if user is not None:
                connection.execute("SELECT set_config('skm.user', %s, true)", (user,))
            counted = connection.execute(f"SELECT count(*) FROM {schema.NAME}.memory".encode()).fetchone()
            assert counted == (expected,), user
    for user in ("ana", "o'hara\\ 5% %s", None):
        view = store.within(Scope(user=user))
        with view.documents._database.reading() as reading:
            counted = reading.execute("SELECT count(*) FROM memory WHERE project_id = @p").get
        assert counted == (2 if user == "ana" else 1), "the statement names no user, the server does"
