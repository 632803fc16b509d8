"""What does git say to whom, on a real host over https, and where may that host send it?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spec_kit_memory.settings.keys import Semantic, Settings
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.keeper import Keeper, Round
from spec_kit_memory.team.project_workspace import open_project
from spec_kit_memory.team.projects import Projects
from tests.team.git_over_https import GitHost, git_host
from tests.team.git_remotes import Remote

SECRET = "Bearer the-operators-own"


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote.made(tmp_path / "repositories" / "shop.git")
    made.git("config", "http.receivepack", "true")
    return made


@pytest.fixture
def hosts(remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[GitHost, GitHost]]:
    """Two hosts that both have the repository; the operator trusts both, and gave git a secret for the first."""
    folder = remote.folder.parent
    with (
        git_host(folder, certificate_in=tmp_path / "one") as one,
        git_host(folder, certificate_in=tmp_path / "other") as other,
    ):
        trusted = tmp_path / "trusted.pem"
        trusted.write_bytes(one.certificate.read_bytes() + other.certificate.read_bytes())
        config = tmp_path / "gitconfig"
        config.write_text(f'[http]\n\tsslCAInfo = {trusted}\n\textraHeader = "Authorization: {SECRET}"\n')
        monkeypatch.setenv("SPEC_KIT_MEMORY_GIT_CONFIG", str(config))
        yield one, other


@pytest.fixture
def keeper(database: TeamDatabase, tmp_path: Path) -> Iterator[Keeper]:
    made = Keeper(database, settings=_settings(tmp_path), domain="memory.example")
    yield made
    made.close()


def _settings(folder: Path) -> Settings:
    return Settings(root=folder / "server", semantic=Semantic(model="hashing"))


def _round(keeper: Keeper) -> Round:
    done = keeper.round("shop")
    assert done is not None
    return done


def test_a_repository_over_https_is_read_and_written(
    database: TeamDatabase, hosts: tuple[GitHost, GitHost], keeper: Keeper, remote: Remote, tmp_path: Path
) -> None:
    project = Projects(database).add("shop", repository=f"{hosts[0].address}/shop.git").project
    assert _round(keeper).problem is None
    with open_project(database, project, settings=_settings(tmp_path / "replica")) as workspace:
        assert [memory.path for memory in workspace.list().memories] == ["memory/first.md"]
        saved = workspace.save(text="The gate opens at nine")
        assert _round(keeper).delivered == 1
    assert "The gate opens at nine" in (remote.text(saved.path) or "")
    assert {secret for _, secret in hosts[0].asked} == {SECRET}


@pytest.mark.parametrize("when", ["reading", "writing"])
def test_a_redirect_is_not_followed_and_no_secret_goes_there(
    database: TeamDatabase, hosts: tuple[GitHost, GitHost], keeper: Keeper, remote: Remote, tmp_path: Path, when: str
) -> None:
    one, other = hosts
    project = Projects(database).add("shop", repository=f"{one.address}/shop.git").project
    tip = remote.tip()
    if when == "writing":
        assert _round(keeper).problem is None
        with open_project(database, project, settings=_settings(tmp_path / "replica")) as workspace:
            workspace.save(text="The gate opens at nine")
    one.redirects_to = other.address
    problem = _round(keeper).problem
    assert problem is not None
    assert "redirect" in problem
    assert SECRET not in problem
    assert other.asked == []
    assert remote.tip() == tip
    one.redirects_to = None
    done = _round(keeper)
    assert done.problem is None
    assert done.delivered == (1 if when == "writing" else 0)


def test_a_redirect_to_a_file_or_to_plain_http_is_not_followed(
    database: TeamDatabase, hosts: tuple[GitHost, GitHost], keeper: Keeper, remote: Remote
) -> None:
    Projects(database).add("shop", repository=f"{hosts[0].address}/shop.git")
    for elsewhere in (f"file://{remote.folder.parent}", hosts[1].address.replace("https", "http")):
        hosts[0].redirects_to = elsewhere
        assert _round(keeper).problem
        assert Projects(database).get("shop").branch_commit is None
    assert hosts[1].asked == []
