"""Are checkouts of one project recognised on this machine, and is none ever joined to a shared one by that?"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from spec_kit_memory.errors import BadParameter
from spec_kit_memory.files import git_history
from spec_kit_memory.serve.cli.program import run
from spec_kit_memory.settings import load
from tests.files.test_worktree import feature, git, main, write

__all__ = ["feature", "main"]  # fixtures

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own configuration, not there yet."""
    for name in [name for name in os.environ if name.startswith("SPEC_KIT_MEMORY_")]:
        monkeypatch.delenv(name)
    file = tmp_path / "settings" / "config.jsonc"
    monkeypatch.setenv("SPEC_KIT_MEMORY_USER_CONFIG", str(file))
    return file


def clone(main: Path, name: str = "clone") -> Path:
    git(main.parent, "clone", "-q", str(main), name)
    return main.parent / name


def project(root: Path) -> str | None:
    return load(root).index.project


# --- recognising


def test_a_clone_and_a_worktree_are_checkouts_of_one_project(main: Path, feature: Path) -> None:
    other = clone(main)
    assert git_history.same_project(other, [main]) == main
    assert git_history.same_project(feature, [main]) == main
    assert git_history.same_project(main, [main]) is None, "itself"


def test_a_fork_and_an_unrelated_repository_are_not(main: Path, tmp_path: Path) -> None:
    fork, other = clone(main, "fork"), tmp_path / "other"
    git(main, "remote", "add", "origin", "git@example.org:ana/shop.git")
    git(fork, "remote", "set-url", "origin", "https://example.org/ben/shop.git")
    assert git_history.same_project(fork, [main]) is None
    other.mkdir()
    git(other, "init", "-q")
    write(other, "MEMORY.md", "# Other\n")
    git(other, "add", "-A")
    git(other, "commit", "-qm", "other")
    git(other, "remote", "add", "origin", "git@example.org:ana/shop.git")
    assert git_history.same_project(other, [main]) is None, "the same remote, and no common past"
    git(fork, "remote", "set-url", "origin", "https://ana:secret@EXAMPLE.org:443/ana/shop")
    assert git_history.same_project(fork, [main]) == main, "one remote, written in two ways"
    result = git_history.identity(fork)
    assert result is not None
    assert "secret" not in result.remote


@pytest.mark.parametrize("broken", ["no folder", "no repository", "no commit", "a git file that leads nowhere"])
def test_what_is_no_checkout_is_like_nothing(main: Path, tmp_path: Path, broken: str) -> None:
    other = tmp_path / "other"
    if broken != "no folder":
        other.mkdir()
    if broken == "no commit":
        git(other, "init", "-q")
    if broken == "a git file that leads nowhere":
        write(other, ".git", f"gitdir: {main / '.git'}\n")
    assert git_history.same_project(main, [other]) is None
    assert git_history.same_project(other, [main]) is None


# --- joining


def test_init_joins_a_project_in_the_users_own_configuration_only(
    main: Path, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = git(main, "status", "--porcelain")
    assert run(["init", str(main), "--project", "shop"]) == 0
    assert "project shop" in capsys.readouterr().out
    assert project(main) == load(main).index_project == "shop"
    assert load(main).sources["index.project"] == "user"
    assert git(main, "status", "--porcelain") == before, "nothing about it is in the repository"
    assert "shop" not in "".join(p.read_text() for p in (main / ".spec-kit-memory").iterdir() if p.is_file())
    assert run(["init", str(main), "--project", "market"]) == 0
    assert project(main) == "market", "the last word holds"


def test_another_checkout_is_offered_the_name_and_not_joined(
    main: Path, feature: Path, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", str(main), "--project", "shop"]) == 0
    other = clone(main)
    for checkout in (other, feature):
        capsys.readouterr()
        assert run(["init", str(checkout)]) == 0
        assert "skm init --project shop" in capsys.readouterr().out
        assert project(checkout) is None
        assert load(checkout).index_project != "shop"
    assert run(["init", str(other), "--project", "shop"]) == 0
    assert load(other).index_project == "shop"
    capsys.readouterr()
    assert run(["init", str(other)]) == 0
    assert "--project" not in capsys.readouterr().out, "it is joined already"


def test_a_repository_joins_nothing(main: Path, own: Path) -> None:
    for content in ({"index.projects": {str(main): "shop"}}, {"index": {"project": "shop"}}):
        write(main, ".spec-kit-memory/config.jsonc", json.dumps(content))
        with pytest.raises(BadParameter, match="may not be set"):
            load(main)


def test_what_the_user_wrote_stays_as_it_is(main: Path, own: Path) -> None:
    own.parent.mkdir()
    own.write_text('{\n  // mine\n  "watch": "poll",\n  "index": {"url": "sqlite"}\n}\n')
    assert run(["init", str(main), "--project", "shop"]) == 0
    text = own.read_text()
    assert "// mine" in text
    assert '"watch": "poll"' in text
    assert load(main).watch == "poll"
    assert project(main) == "shop"
    own.write_text(json.dumps({"index.projects": {"/elsewhere": "market"}, "index.project": "everywhere"}))
    assert run(["init", str(main), "--project", "shop"]) == 0
    assert project(main) == "shop", "what is said of this folder goes before what is said of all"
    assert load(main).index.projects == {"/elsewhere": "market", str(main): "shop"}


@pytest.mark.parametrize("name", ["../shop", "a b", "-x", "x" * 101, "shop/1", "ä"])
def test_a_name_that_a_team_could_not_have_is_refused_and_changes_nothing(main: Path, own: Path, name: str) -> None:
    assert run(["init", str(main), "--project", name]) != 0
    assert not own.exists()
    assert not (main / ".spec-kit-memory").exists()


def test_a_configuration_that_cannot_be_read_is_left_alone(main: Path, own: Path) -> None:
    own.parent.mkdir()
    own.write_text("{ not json")
    assert run(["init", str(main), "--project", "shop"]) != 0
    assert own.read_text() == "{ not json"


def test_flags_and_environment_go_before_what_was_joined(
    main: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["init", str(main), "--project", "shop"]) == 0
    monkeypatch.setenv("SPEC_KIT_MEMORY_INDEX_PROJECT", "market")
    assert project(main) == "market"
    assert load(main, overrides={"index.project": "fair"}).index.project == "fair"


def test_the_project_of_a_session_is_the_one_on_the_server(main: Path, own: Path) -> None:
    assert load(main, overrides={"isolation.projectId": "shop"}).index_project == "shop"


def test_personal_memory_joins_no_project(own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path / "data"))
    assert run(["init", "--personal", "--project", "shop"]) != 0
    assert not own.exists()
