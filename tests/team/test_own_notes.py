"""What a person keeps for themselves on a team server: in the database only, and never mixed with what is shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spec_kit_memory.caller import Caller
from spec_kit_memory.core.memory import Scope, Tier
from spec_kit_memory.errors import BadPath
from spec_kit_memory.serve.messages import for_model, for_person
from spec_kit_memory.settings.keys import Semantic, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.project_workspace import ServedFolder, open_project
from spec_kit_memory.team.projects import Projects
from spec_kit_memory.workspace import Workspace

TEXT = "The invoices of the shop are rounded to whole cents before taxes are added to them"
Replica = Callable[[], Workspace]
NEARLY = "The invoices of the shop are rounded to whole cents before the taxes are added to them"


@pytest.fixture(params=["git", "folder"])
def replica(request: pytest.FixtureRequest, database: TeamDatabase, tmp_path: Path) -> Iterator[Replica]:
    folder = tmp_path / "plain"
    folder.mkdir()
    repository = "https://git.example/shop.git" if request.param == "git" else str(folder)
    project = Projects(database).add("shop", repository=repository).project
    opened: list[Workspace] = []

    def open_one() -> Workspace:
        settings = Settings(root=tmp_path / f"server-{len(opened)}", semantic=Semantic(model="hashing"))
        opened.append(open_project(database, project, settings=settings))
        return opened[-1]

    yield open_one
    for workspace in opened:
        workspace.close()


def as_user(workspace: Workspace, name: str) -> Workspace:
    return workspace.for_caller(Caller(scope=Scope(user=name), user=f"{name}@local"))


def test_a_shared_note_with_the_text_of_ones_own_is_shared(replica: Replica) -> None:
    workspace = replica()
    ana, bob = as_user(workspace, "ana"), as_user(workspace, "bob")
    own = ana.save(text=TEXT, vault="personal")
    shared = ana.save(text=TEXT)
    assert shared.id != own.id
    assert [result.id for result in bob.search("invoices rounded cents").results] == [shared.id]


@pytest.mark.parametrize("first", ["personal", "project"])
def test_what_is_shared_and_what_is_ones_own_are_never_merged(replica: Replica, first: str) -> None:
    workspace = replica()
    ana, bob = as_user(workspace, "ana"), as_user(workspace, "bob")
    second = "project" if first == "personal" else "personal"
    one = ana.save(text=TEXT + ". Zebra one.", vault=first)
    other = ana.save(text=NEARLY + ". Zebra two.", vault=second, on_similar="merge")
    assert one.id != other.id
    texts = [result.text for result in bob.search("invoices rounded cents").results]
    own_mark = "Zebra one" if first == "personal" else "Zebra two"
    assert not any(own_mark in text for text in texts)
    assert len(texts) == 1


@pytest.mark.parametrize("vault", ["personal", "project"])
def test_a_memory_is_promoted_changed_removed_and_brought_back(replica: Replica, vault: str) -> None:
    ana = as_user(replica(), "ana")
    saved = ana.save(text=TEXT, vault=vault)
    assert saved.id is not None
    for _ in range(8):
        ana.validate(saved.id, was_useful=True)
    fresh = as_user(replica(), "ana")  # with no copies of its own yet
    assert fresh.validate(saved.id, was_useful=True, promote=True).promoted
    assert fresh.load(saved.id).memory.tier is Tier.CRITICAL
    fresh.update(saved.id, title="Rounding")
    fresh.delete(saved.id, delete_file=True)
    assert fresh.list().memories == ()
    fresh.undo()
    assert [memory.title for memory in fresh.list().memories] == ["Rounding"]
    fresh.undo()
    assert [memory.title for memory in fresh.list().memories] == [saved.title]


def test_ones_own_notes_are_no_files_and_stay_when_files_are_read(replica: Replica, tmp_path: Path) -> None:
    workspace = replica()
    ana, bob = as_user(workspace, "ana"), as_user(workspace, "bob")
    own, shared = ana.save(text="I like tabs better than spaces", vault="personal"), ana.save(text=TEXT)
    assert own.id is not None
    assert shared.id is not None
    ana.update(own.id, title="Taste")
    if isinstance(workspace, ServedFolder):
        intruder = tmp_path / "plain/memory/users/ana/planted.md"
        intruder.parent.mkdir(parents=True)
        intruder.write_text("# Planted\n\nWhoever may write the folder says what ana thinks.\n", encoding="utf-8")
        workspace.index()
        with pytest.raises(BadPath, match="not read"):
            ana.save(file_path="memory/users/ana/planted.md")
        ana.save(text="Something else to make a checkpoint of")
        written = [path.relative_to(tmp_path / "plain").as_posix() for path in (tmp_path / "plain").rglob("*.md")]
        assert {path.rpartition("/")[0] for path in written} == {"memory", "memory/users/ana"}
        assert [path for path in written if "users" in path] == ["memory/users/ana/planted.md"]
    for name in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert b"tabs better" not in name.read_bytes() or "/scratch-" in name.as_posix(), name
    assert {memory.id for memory in ana.list().memories} >= {own.id, shared.id}
    assert own.id not in {memory.id for memory in bob.list().memories}
    assert "Taste" in {memory.title for memory in ana.list().memories}
    assert not ana.health().problems
    assert "Planted" not in {memory.title for memory in ana.list().memories}


def test_nobody_is_sent_to_a_command_that_only_the_server_has(replica: Replica) -> None:
    ana = as_user(replica(), "ana")
    for vault in ("project", "personal"):
        saved = ana.save(text=f"The gate opens at nine for {vault}", vault=vault)
        assert saved.id is not None
        offered = [
            ana.update(saved.id, title=f"The gate of {vault}").advice,
            ana.delete(saved.id).advice,
            ana.list(forgotten=True).advice,
        ]
        for advice in offered:
            for say in (for_model, for_person):
                message = " ".join(map(say, advice))
                assert "under Time" in message
                assert "skm" not in message
