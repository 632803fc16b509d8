"""Are repositories read and written that are not like most: empty ones, other names, other hashes?"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.settings.keys import Semantic, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.keeper import Keeper, Round
from spec_kit_memory.team.project_workspace import open_project
from spec_kit_memory.team.projects import Projects
from spec_kit_memory.workspace import Workspace
from tests.team.git_remotes import Remote

NOTE = "# Opening hours\n\nThe gate opens at nine.\n"


class Served:
    """A repository of the server, one replica and its keeper."""

    def __init__(self, database: TeamDatabase, folder: Path, remote: Remote, **branches: Any) -> None:
        self.remote = remote
        self.projects = Projects(database)
        project = self.projects.add("shop", repository=str(remote.folder), **branches).project
        settings = Settings(root=folder / "server", semantic=Semantic(model="hashing"))
        self.keeper = Keeper(database, settings=settings, domain="memory.example")
        self.workspace: Workspace = open_project(database, project, settings=settings)

    def round(self) -> Round:
        done = self.keeper.round("shop")
        assert done is not None
        return done

    def paths(self) -> set[str]:
        return {memory.path for memory in self.workspace.list(limit=100).memories}

    def close(self) -> None:
        self.keeper.close()
        self.workspace.close()


Serve = Callable[..., Served]


@pytest.fixture
def serve(database: TeamDatabase, tmp_path: Path) -> Iterator[Serve]:
    opened: list[Served] = []

    def one(remote: Remote, **branches: str) -> Served:
        opened.append(Served(database, tmp_path, remote, **branches))
        return opened[-1]

    yield one
    for served in opened:
        served.close()


def repository(folder: Path, *options: str) -> Remote:
    folder.mkdir()
    remote = Remote(folder)
    remote.git("init", "--bare", "--quiet", *options, ".")
    return remote


def test_the_first_commit_of_a_repository_is_a_save(serve: Serve, tmp_path: Path) -> None:
    served = serve(repository(tmp_path / "empty.git", "--initial-branch=main"))
    assert served.round().problem is None
    saved = served.workspace.save(text="The gate opens at nine")
    assert served.round().delivered == 1
    assert served.remote.text(saved.path)
    assert served.paths() == {saved.path}
    served.remote.commit({"memory/other.md": NOTE})
    served.round()
    assert served.paths() == {saved.path, "memory/other.md"}


def test_the_branch_that_is_named_is_read_whatever_the_default_is(serve: Serve, tmp_path: Path) -> None:
    remote = repository(tmp_path / "trunk.git", "--initial-branch=trunk")
    remote.commit({"memory/trunk.md": NOTE}, branch="trunk")
    remote.commit({"memory/release.md": NOTE}, branch="release/2.0")
    served = serve(remote, branch="release/2.0")
    assert served.round().problem is None
    assert served.paths() == {"memory/release.md"}
    saved = served.workspace.save(text="The office is closed on mondays")
    assert served.round().delivered == 1
    assert remote.text(saved.path, branch="release/2.0")
    assert remote.tip("main") is None


def test_a_branch_that_is_not_there_is_begun_in_an_empty_repository_only(serve: Serve, tmp_path: Path) -> None:
    remote = repository(tmp_path / "other.git", "--initial-branch=master")
    remote.commit({"memory/first.md": NOTE}, branch="master")
    served = serve(remote)
    served.workspace.save(text="The office is closed on mondays")
    done = served.round()
    assert done.problem is not None
    assert "no branch main, but master" in done.problem
    assert remote.tip("main") is None
    remote.git("update-ref", "refs/heads/main", "refs/heads/master")
    assert served.round().delivered == 1


def test_a_branch_that_is_renamed_takes_nothing_away_until_somebody_says_so(serve: Serve, tmp_path: Path) -> None:
    remote = repository(tmp_path / "renamed.git", "--initial-branch=main")
    remote.commit({"memory/first.md": NOTE})
    served = serve(remote)
    saved = served.workspace.save(text="The office is closed on mondays")
    assert served.round().delivered == 1
    remote.git("update-ref", "refs/heads/trunk", "refs/heads/main")
    remote.git("update-ref", "-d", "refs/heads/main")
    done = served.round()
    assert served.paths() == {"memory/first.md", saved.path}
    assert done.problem is not None
    assert "main" in done.problem
    other = served.workspace.save(text="Bees hum in the garden behind the shop")
    assert served.round().delivered == 0
    assert remote.tip("main") is None
    remote.git("update-ref", "refs/heads/main", "refs/heads/trunk")
    assert served.round().delivered == 1
    assert served.paths() == {"memory/first.md", saved.path, other.path}


NAMES = (
    "memory/ü and ß.md",
    "memory/日本語 メモ.md",
    "memory/e\u0301 decomposed.md",
    "memory/ends with dots...md",
    "memory/hash # & 'quotes' $(x) `y`.md",
    "memory/-dash.md",
    "specs/001-ünter ordner/memory/note.md",
    "memory/emoji 🎉.md",
    "memory/Mixed Case.Md",
    "specs/002-plain/memory/plain.tXt",
)


def test_unusual_names_are_read_changed_and_removed_as_they_are(serve: Serve, tmp_path: Path) -> None:
    remote = repository(tmp_path / "names.git", "--initial-branch=main")
    remote.commit({name: f"# Note {number}\n\nText number {number}.\n" for number, name in enumerate(NAMES)})
    served = serve(remote)
    assert served.round().problem is None
    assert served.paths() == set(NAMES)
    for memory in served.workspace.list(limit=100).memories:
        served.workspace.update(memory.id, title=f"Changed {memory.id}")
    assert served.round().delivered == len(NAMES)
    assert all("Changed" in (remote.text(name) or "") for name in NAMES)
    for memory in served.workspace.list(limit=100).memories:
        served.workspace.delete(memory.id, delete_file=True)
    assert served.round().delivered == len(NAMES)
    assert remote.git("ls-tree", "-r", "--name-only", "main") == ""


def test_names_with_a_new_line_are_left_out_and_said(serve: Serve, tmp_path: Path) -> None:
    remote = repository(tmp_path / "lines.git", "--initial-branch=main")
    blob = remote.blob(NOTE.encode())
    inner = remote.git(
        "mktree", "-z", data=f"100644 blob {blob}\tnew\nline.md\x00100644 blob {blob}\tplain.md\x00".encode()
    )
    remote.push_tree(remote.git("mktree", data=f"040000 tree {inner}\tmemory\n".encode()))
    served = serve(remote)
    done = served.round()
    assert done.problem is None
    assert served.paths() == {"memory/plain.md"}
    assert done.mirrored.skipped == {"odd names": 1}


def test_a_repository_with_sha_256_is_read_and_written(serve: Serve, tmp_path: Path) -> None:
    remote = repository(tmp_path / "sha256.git", "--initial-branch=main", "--object-format=sha256")
    blob = remote.blob(NOTE.encode())
    inner = remote.git("mktree", data=f"100644 blob {blob}\tfirst.md\n".encode())
    remote.push_tree(remote.git("mktree", data=f"040000 tree {inner}\tmemory\n".encode()))
    served = serve(remote)
    assert served.round().problem is None
    assert served.paths() == {"memory/first.md"}
    saved = served.workspace.save(text="The office is closed on mondays")
    assert served.round().delivered == 1
    assert remote.text(saved.path)
    served.workspace.delete(saved.id, delete_file=True)
    assert served.round().delivered == 1
    assert remote.text(saved.path) is None
    assert len(set(remote.operations())) == len(remote.operations()) == 2


def test_a_shallow_clone_as_the_remote_is_read_and_written(serve: Serve, tmp_path: Path) -> None:
    whole = Remote.made(tmp_path / "whole.git", {"memory/first.md": NOTE})
    whole.commit({"memory/second.md": NOTE.replace("nine", "ten")})
    shallow = tmp_path / "shallow.git"
    source = f"file://{whole.folder}"
    subprocess.run(["git", "clone", "--quiet", "--bare", "--depth=1", source, str(shallow)], check=True)
    served = serve(Remote(shallow))
    done = served.round()
    assert done.problem is None
    assert served.paths() == {"memory/first.md", "memory/second.md"}
    saved = served.workspace.save(text="The office is closed on mondays")
    assert served.round().delivered == 1
    assert served.remote.text(saved.path)
