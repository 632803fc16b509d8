"""What does a team server accept, and is it found from every replica at once?"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.caller import Caller
from spec_kit_memory.core.delivery import OperationKind, Stage
from spec_kit_memory.core.memory import Memory, Scope, VectorStatus
from spec_kit_memory.errors import AccessDenied, MemoryNotFound, SpecKitMemoryError, TooLarge
from spec_kit_memory.features import amend
from spec_kit_memory.features.runtime import Runtime
from spec_kit_memory.files import vector_queue
from spec_kit_memory.index.postgres import writer_turns
from spec_kit_memory.index.postgres.outbox import Outbox, Waiting
from spec_kit_memory.serve.messages import for_model, for_person
from spec_kit_memory.settings.keys import Semantic, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.project_workspace import open_project
from spec_kit_memory.team.projects import Projects
from spec_kit_memory.team.scratch import Turns, private_folder, remove_folder
from spec_kit_memory.workspace import Workspace
from tests.team.git_remotes import Remote

Replica = Callable[[], Workspace]


@pytest.fixture
def replica(database: TeamDatabase, tmp_path: Path) -> Iterator[Replica]:
    """Opens the project as one more server would; nobody reads or writes its repository here."""
    project = Projects(database).add("shop", repository="https://git.example/shop.git").project
    opened: list[Workspace] = []

    def open_one() -> Workspace:
        root = tmp_path / f"server-{len(opened)}"
        settings = Settings(root=root, semantic=Semantic(model="hashing"))
        opened.append(open_project(database, project, settings=settings))
        return opened[-1]

    yield open_one
    for workspace in opened:
        workspace.close()


def outbox(workspace: Workspace) -> Outbox:
    result = workspace._runtime.whole.outbox
    assert isinstance(result, Outbox)
    return result


def waiting(workspace: Workspace) -> list[Waiting]:
    return outbox(workspace).due()


def test_a_save_is_accepted_and_found_from_every_replica(replica: Replica) -> None:
    one, other = replica(), replica()
    saved = one.for_caller(Caller(user="ana@local")).save(text="The gate opens at nine")
    assert other.search("when does the gate open").results[0].id == saved.id
    (accepted,) = waiting(other)
    assert (accepted.operation.kind, accepted.operation.path) == (OperationKind.WRITE, saved.path)
    assert accepted.operation.data == other.load(saved.id).text.encode()
    assert accepted.author == "ana@local"
    assert outbox(one).deliveries([saved.path])[saved.path].stage is Stage.ACCEPTED
    assert other.ledger_verify().ok


def test_a_save_and_its_vectors_are_one_write(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other writers of the project wait once for a save and not twice."""
    one = replica()
    one.save(text="The gate opens at nine")
    take, turns = writer_turns.turn_to_write, []

    def counted(url: str, project: int, seconds: float) -> AbstractContextManager[float | None]:
        turns.append(project)
        return take(url, project, seconds)

    monkeypatch.setattr(writer_turns, "turn_to_write", counted)
    saved = one.save(text="The barrier in the yard closes at six in winter")
    assert saved.vector_status is VectorStatus.SUCCESS
    assert len(turns) == 1
    assert one.search("yard barrier", explain=True).method == "hybrid"


def test_a_save_is_accepted_though_another_process_has_changed_the_model(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = replica(), replica()
    embed = vector_queue.embed_ahead

    def changed_meanwhile(*given: Any) -> Mapping[str, tuple[bytes, bytes | None]]:
        vectors = embed(*given)
        other._runtime.whole.vectors.use_model("another", 8, "weights")
        return vectors

    monkeypatch.setattr(vector_queue, "embed_ahead", changed_meanwhile)
    saved = one.save(text="The gate opens at nine")
    assert other.load(saved.id).memory.path == saved.path


def test_saves_of_the_same_minute_on_two_replicas_get_names_of_their_own(replica: Replica) -> None:
    workspaces = [replica(), replica()]
    saved: list[str] = []

    def save(number: int) -> None:
        workspace = workspaces[number % 2]
        saved.append(workspace.save(text=f"The gate opens at nine {'x' * number}", on_similar="distinct").path)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(set(saved)) == 8
    assert {one.operation.path for one in waiting(workspaces[0])} == set(saved)


def test_an_update_is_an_edit_that_names_its_keys(replica: Replica) -> None:
    one, other = replica(), replica()
    saved = one.save(text="The gate opens at nine")
    assert saved.id is not None
    other.update(id=saved.id, title="Opening hours", importance_tier="critical")
    assert one.load(saved.id).memory.title == "Opening hours"
    edit = waiting(one)[1].operation
    assert (edit.kind, edit.path) == (OperationKind.EDIT, saved.path)
    assert edit.keys == {"title": "Opening hours", "tier": "critical"}


def test_a_deleted_file_a_merge_and_their_undo_are_accepted_in_order(replica: Replica) -> None:
    one, other = replica(), replica()
    first = one.save(text="The gate opens at nine", on_similar="distinct")
    second = other.save(text="The barrier in the yard closes at six in winter", on_similar="distinct")
    assert first.id is not None
    assert second.id is not None
    one.merge(id=first.id, into=second.id)
    kinds = [(each.operation.kind, each.operation.path) for each in waiting(other)[2:]]
    assert sorted(kinds) == [(OperationKind.REMOVE, first.path), (OperationKind.WRITE, second.path)]
    one.undo()
    assert one.search("gate opens").results[0].id == first.id
    back = [each.operation for each in waiting(other)[4:]]
    assert {(each.kind, each.path) for each in back} == {
        (OperationKind.WRITE, first.path),
        (OperationKind.WRITE, second.path),
    }
    one.delete(id=first.id, delete_file=True)
    assert waiting(one)[-1].operation.kind is OperationKind.REMOVE


def test_what_one_replica_deleted_another_one_brings_back(replica: Replica) -> None:
    one, other = replica(), replica()
    saved = one.save(text="The gate opens at nine")
    assert saved.id is not None
    text = one.load(saved.id).text
    one.delete(id=saved.id, delete_file=True)
    other.undo()
    assert one.load(saved.id).text == text
    kinds = [each.operation.kind for each in waiting(one)]
    assert kinds == [OperationKind.WRITE, OperationKind.REMOVE, OperationKind.WRITE]
    assert waiting(one)[-1].operation.data == text.encode()


def test_a_removed_file_is_named_by_its_path_in_the_project_and_by_none_of_the_server(replica: Replica) -> None:
    workspace = replica()
    saved = workspace.save(text="The gate opens at nine")
    deleted = workspace.delete(id=saved.id, delete_file=True)
    assert deleted.files == (saved.path,)
    assert deleted.summary.endswith("its file is removed, too")
    workspace.undo()
    kept = workspace.delete(id=saved.id)
    assert kept.files == ()
    assert "its file stays" in kept.summary


def test_a_text_that_could_not_be_read_from_git_again_is_not_accepted(replica: Replica) -> None:
    workspace = replica()
    ana = workspace.for_caller(Caller(scope=Scope(user="ana")))
    for vault in ("project", "personal"):
        with pytest.raises(TooLarge, match="at most 1,048,576"):
            ana.save(context={"sessionSummary": "决定记录\n" * 90_000}, vault=vault)
    halves = [workspace.save(text=f"{word} " * 60_000, on_similar="distinct") for word in ("gate-opens", "till-closes")]
    assert halves[0].id is not None
    assert halves[1].id is not None
    with pytest.raises(TooLarge, match="at most 1,048,576"):
        workspace.merge(halves[0].id, into=halves[1].id)
    assert {memory.id for memory in workspace.list().memories} == {half.id for half in halves}
    assert len(waiting(workspace)) == 2


def test_a_restore_with_files_is_accepted(replica: Replica) -> None:
    one, other = replica(), replica()
    saved = one.save(text="The gate opens at nine")
    assert saved.id is not None
    one.checkpoint_create("before")
    one.delete(id=saved.id, delete_file=True)
    other.checkpoint_restore("before", restore_files=True)
    assert one.load(saved.id).memory.path == saved.path
    assert waiting(one)[-1].operation.kind is OperationKind.WRITE


def test_two_updates_at_once_are_both_kept(replica: Replica) -> None:
    one, other = replica(), replica()
    saved = one.save(text="The gate opens at nine")
    assert saved.id is not None
    failures: list[SpecKitMemoryError] = []

    def update(workspace: Workspace, phrase: str) -> None:
        try:
            workspace.update(id=saved.id or 0, add_trigger_phrases=[phrase])
        except SpecKitMemoryError as error:
            failures.append(error)

    phrases = [f"opening hours {word}" for word in ("monday", "tuesday", "friday", "sunday")]
    pairs = zip((one, other, one, other), phrases, strict=True)
    threads = [threading.Thread(target=update, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert set(phrases) <= set(one.list().memories[0].triggers)


class _Paused:
    """The writing of one memory's update stops until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, memory_id: int) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        write = amend.apply

        def paused(runtime: Runtime, memory: Memory, changes: Mapping[str, Any], *, operation_id: str) -> str:
            if memory.id == memory_id:
                self.reached.set()
                assert self.go_on.wait(60)
            return write(runtime, memory, changes, operation_id=operation_id)

        monkeypatch.setattr(amend, "apply", paused)


def test_verbs_on_different_files_do_not_wait_for_each_other(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = replica()
    slow, quick, gone = (workspace.save(text=text).id for text in ("A gate opens at nine", "Bees hum", "Cats sleep"))
    assert slow is not None
    assert quick is not None
    paused = _Paused(monkeypatch, slow)
    done: list[str] = []

    def others() -> None:
        workspace.update(quick, title="Bees")
        workspace.delete(gone, delete_file=True)
        done.append("others")

    threads = [threading.Thread(target=workspace.update, args=(slow,), kwargs={"title": "The gate"})]
    threads.append(threading.Thread(target=others))
    threads[0].start()
    assert paused.reached.wait(60)
    threads[1].start()
    threads[1].join(60)
    assert done == ["others"]
    paused.go_on.set()
    threads[0].join(60)
    assert {memory.title for memory in workspace.list().memories} == {"The gate", "Bees"}


def test_an_undo_waits_for_every_verb_that_works_on_files(replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = replica()
    slow, gone = (workspace.save(text=text) for text in ("A gate opens at nine", "Cats sleep"))
    assert slow.id is not None
    workspace.delete(gone.id, delete_file=True)
    paused = _Paused(monkeypatch, slow.id)
    updating = threading.Thread(target=workspace.update, args=(slow.id,), kwargs={"title": "The gate"})
    updating.start()
    assert paused.reached.wait(60)
    undoing = threading.Thread(target=workspace.undo)
    undoing.start()
    undoing.join(0.5)
    assert undoing.is_alive()
    paused.go_on.set()
    updating.join(60)
    undoing.join(60)
    assert [memory.id for memory in workspace.list().memories] == [slow.id]
    assert workspace.list().memories[0].title != "The gate"  # the last change was the update


def test_turns_are_served_in_the_order_of_coming_where_they_meet() -> None:
    turns, order = Turns(), list[str]()

    def take(name: str, paths: frozenset[str] | None) -> threading.Thread:
        def work() -> None:
            with turns.taken(paths):
                order.append(name)

        thread = threading.Thread(target=work)
        before = len(turns._queue)
        thread.start()
        while len(turns._queue) == before and thread.is_alive():
            time.sleep(0.001)
        return thread

    with turns.taken(frozenset({"a"})):
        waiting = [take("all", None), take("b", frozenset({"b"})), take("a", frozenset({"a"}))]
        assert order == []
    for thread in waiting:
        thread.join(60)
    assert order[0] == "all"
    assert set(order) == {"all", "a", "b"}
    with turns.taken(frozenset({"a"})):
        take("c", frozenset({"c"})).join(60)
        assert order[-1] == "c"


def test_what_is_personal_is_in_the_database_only_and_nobody_elses(replica: Replica) -> None:
    workspace = replica()
    ana = workspace.for_caller(Caller(scope=Scope(user="ana"), user="ana@local"))
    bob = workspace.for_caller(Caller(scope=Scope(user="bob"), user="bob@local"))
    own = ana.save(text="I prefer tabs to spaces", vault="personal")
    shared = ana.save(text="The gate opens at nine")
    assert own.path.startswith("memory/users/ana/")
    assert not shared.path.startswith("memory/users/")
    assert [one.operation.path for one in waiting(workspace)] == [shared.path]
    assert own.id is not None
    with pytest.raises(MemoryNotFound):
        bob.load(own.id)
    ana.update(id=own.id, title="Taste")
    ana.delete(id=own.id, delete_file=True)
    assert len(waiting(workspace)) == 1


def test_a_file_of_the_server_is_not_saved(replica: Replica, tmp_path: Path) -> None:
    workspace = replica()
    (workspace.settings.root / "memory").mkdir()
    (workspace.settings.root / "memory/x.md").write_text("# X\n", encoding="utf-8")
    with pytest.raises(AccessDenied, match="no files of yours"):
        workspace.save(file_path="memory/x.md")


def test_an_error_of_the_servers_disk_names_no_folder_of_the_server(replica: Replica, tmp_path: Path) -> None:
    workspace = replica()
    saved = workspace.save(text="The gate opens at nine")
    root = workspace.settings.root
    shutil.rmtree(root)
    root.write_text("no folder any more", encoding="utf-8")
    try:
        for call in (
            lambda: workspace.update(int(saved.id or 0), title="The gate"),
            lambda: workspace.delete(int(saved.id or 0), delete_file=True),
            lambda: workspace.undo(),
        ):
            with pytest.raises(SpecKitMemoryError) as caught:
                call()
            messages = [caught.value.message, caught.value.hint, *map(str, caught.value.details.values())]
            assert not any(str(tmp_path) in one for one in messages), messages
    finally:
        root.unlink()
    assert workspace.load(saved.id).text


def test_a_project_that_the_servers_disk_does_not_let_open_names_no_folder_of_the_server(
    database: TeamDatabase, tmp_path: Path
) -> None:
    remote = Remote.made(tmp_path / "remote.git")
    project = Projects(database).add("shop", repository=str(remote.folder)).project
    data = tmp_path / "data"
    (data / "projects").mkdir(parents=True)
    (data / "projects" / "shop").write_text("no folder")
    with pytest.raises(SpecKitMemoryError) as caught:
        open_project(database, project, settings=Settings(root=data))
    messages = [caught.value.message, caught.value.hint, *map(str, caught.value.details.values())]
    assert not any(str(tmp_path) in one for one in messages), messages


def test_a_write_that_fails_has_accepted_nothing(replica: Replica) -> None:
    workspace = replica()
    saved = workspace.save(text="The gate opens at nine")
    before = workspace.ledger_head()
    store = workspace._runtime.whole
    again = replace(waiting(workspace)[0].operation, path="memory/other.md")  # an id is there once
    with pytest.raises(SpecKitMemoryError), store.together():
        outbox(workspace).add([again], author=None)
    assert [one.operation.path for one in waiting(workspace)] == [saved.path]
    assert workspace.ledger_head().head == before.head


def test_private_folders_of_processes_that_are_gone_are_removed_and_others_stay(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from spec_kit_memory.team.scratch import private_folder;"
        "made = private_folder(Path(sys.argv[1]), 'mirror-'); (made / 'note.md').write_text('mine');"
        "made.with_name(made.name + '.index').write_text(''); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert [path.read_text() for path in tmp_path.glob("mirror-*/note.md")] == ["mine"]
    own = private_folder(tmp_path, "scratch-")
    (own / "note.md").write_text("still used")
    other = private_folder(tmp_path, "mirror-")
    assert {path for path in tmp_path.iterdir() if path.is_dir()} == {own, other}
    assert (own / "note.md").read_text() == "still used"
    remove_folder(own)
    remove_folder(other)
    assert list(tmp_path.iterdir()) == []


def test_nobody_is_sent_to_a_command_that_only_the_server_has(replica: Replica) -> None:
    workspace = replica().for_caller(Caller(user="ana@local"))
    saved = workspace.save(text="The gate opens at nine")
    assert saved.id is not None
    offered = [
        workspace.update(saved.id, title="The gate").advice,
        workspace.delete(saved.id).advice,
        workspace.list(forgotten=True).advice,
    ]
    for advice in offered:
        for say in (for_model, for_person):
            message = " ".join(map(say, advice))
            assert "under Time" in message
            assert "skm" not in message
