"""Which projects are served, from where, and what may not be named as one?"""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_kit_memory.errors import BadParameter, FileMissing, Invalid
from spec_kit_memory.serve.http.team_app import domain_of
from spec_kit_memory.settings.keys import Semantic, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.project_workspace import open_project
from spec_kit_memory.team.projects import Projects


def test_a_project_is_added_listed_and_removed(database: TeamDatabase, tmp_path: Path) -> None:
    projects = Projects(database)
    added = projects.add("shop", repository=str(tmp_path))
    assert (added.project.name, added.project.is_git) == ("shop", False)
    assert projects.list() == [added.project]
    assert projects.hook_secret("shop") == added.hook_secret
    assert projects.remove("shop").name == "shop"
    assert projects.list() == []
    with pytest.raises(FileMissing, match="no project shop"):
        projects.get("shop")
    assert projects.hook_secret("shop") is None


def test_a_project_that_is_served_is_not_added_again_but_its_secret_can_be_replaced(
    database: TeamDatabase, tmp_path: Path
) -> None:
    projects = Projects(database)
    first = projects.add("shop", repository=str(tmp_path))
    with pytest.raises(BadParameter, match="served already"):
        projects.add("shop", repository=str(tmp_path))
    again = projects.add("shop", repository=str(tmp_path), rotate=True)
    assert again.hook_secret != first.hook_secret
    assert projects.hook_secret("shop") == again.hook_secret
    with pytest.raises(BadParameter, match="is served already, from"):
        projects.add("shop", repository="https://git.example/other.git", rotate=True)
    assert projects.hook_secret("shop") == again.hook_secret


def test_a_new_secret_leaves_the_branches_as_they_are_unless_others_are_named(database: TeamDatabase) -> None:
    projects, address = Projects(database), "https://git.example/shop.git"

    def branches(name: str | None = None, save: str | None = None, *, rotate: bool = True) -> tuple[str, str]:
        added = projects.add("shop", repository=address, branch=name, save_branch=save, rotate=rotate).project
        return added.branch, added.save_branch

    assert branches("develop", "for-review", rotate=False) == ("develop", "for-review")
    assert branches() == ("develop", "for-review"), "saves are still reviewed before they are read by others"
    assert branches(save="reviewed") == ("develop", "reviewed")
    assert branches("trunk") == ("trunk", "reviewed")
    assert branches(save="trunk") == ("trunk", "trunk")
    assert branches("main") == ("main", "main")


@pytest.mark.parametrize(
    "repository",
    ["-oProxyCommand=x", "--upload-pack=x", "ext::sh -c x", "git://h/x", "http://h/x", "fd::1", "file:///x", "",
     "https://-oX/y", "/nowhere/at/all", "https://h/x\ny", "ssh://-oX/y", "host:-oX"],
)  # fmt: skip
def test_an_address_that_could_run_something_is_refused(database: TeamDatabase, repository: str) -> None:
    with pytest.raises(Invalid, match="neither"):
        Projects(database).add("shop", repository=repository)
    assert Projects(database).list() == []


@pytest.mark.parametrize(
    "repository", ["https://git.example/a/b.git", "ssh://git@git.example/a/b", "git@git.example:a/b.git"]
)
def test_https_and_ssh_addresses_are_taken_as_they_are(database: TeamDatabase, repository: str) -> None:
    assert Projects(database).add("shop", repository=repository).project.repository == repository


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "-a", "a b", "a\n", "x" * 101, "a."])
def test_a_name_that_is_no_folders_name_is_refused(database: TeamDatabase, tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match="no name for a project"):
        Projects(database).add(name, repository=str(tmp_path))


@pytest.mark.parametrize("name", ["all", "folder", "Constitutional"])
def test_a_name_that_has_a_meaning_of_its_own_is_refused(database: TeamDatabase, tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match="means something else"):
        Projects(database).add(name, repository=str(tmp_path))


@pytest.mark.parametrize("branch", ["-x", "a..b", "a b", "a~1", "/a", "a/", "a.lock", "a//b", ".a/@{b", "a:b", "a/.b"])
def test_a_branch_that_git_would_misread_is_refused(database: TeamDatabase, tmp_path: Path, branch: str) -> None:
    with pytest.raises(Invalid, match="no name of a branch"):
        Projects(database).add("shop", repository=str(tmp_path), branch=branch)


def test_a_plain_folder_is_an_ordinary_workspace(database: TeamDatabase, tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    (folder / "memory").mkdir(parents=True)
    (folder / "memory/retry.md").write_text("# Retry\n\nUse exponential backoff.\n", encoding="utf-8")
    project = Projects(database).add("shop", repository=str(folder)).project
    settings = Settings(root=tmp_path / "data", semantic=Semantic(model="hashing"))
    with open_project(database, project, settings=settings) as workspace:
        assert workspace.index().new == 1
        saved = workspace.save(text="The gate opens at nine")
        assert (folder / saved.path).is_file()
        answer = workspace.search("when does the gate open")
        assert answer.results[0].id == saved.id


def test_all_replicas_name_the_server_in_commits_as_people_reach_it() -> None:
    assert domain_of(["memory.example.org", "memory"]) == "memory.example.org"
    assert domain_of(["memory.example.org:8443"]) == "memory.example.org"
    assert domain_of([]) == "", "then each takes the name of its machine"
