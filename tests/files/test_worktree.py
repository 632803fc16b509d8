"""Are the memories of the main checkout found in a linked worktree, and only there and only so?"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from spec_kit_memory.answers import Result
from spec_kit_memory.errors import OutsideScope
from spec_kit_memory.files import paths, worktree
from spec_kit_memory.settings import Isolation, Semantic, Settings
from spec_kit_memory.workspace import Workspace

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "commit.gpgsign=false")
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *who, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def write(root: Path, path: str, text: str) -> Path:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


@pytest.fixture
def main(tmp_path: Path) -> Path:
    root = Path(os.path.realpath(tmp_path)) / "main"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    write(root, "specs/001-core/memory/shared.md", "# Shared\n\nThe harbour bell is in both checkouts.\n")
    write(root, "src/private.md", "# Private\n\nThe harbour cellar is no memory.\n")
    write(root, ".gitignore", ".spec-kit-memory/\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    return root


@pytest.fixture
def feature(main: Path) -> Path:
    git(main, "worktree", "add", "-q", "-b", "feature", str(main.parent / "feature"))
    write(main, "specs/001-core/memory/uncommitted.md", "# Uncommitted\n\nThe harbour crane is in main only.\n")
    return main.parent / "feature"


@pytest.fixture
def opened() -> Iterator[list[Workspace]]:
    found: list[Workspace] = []
    yield found
    for workspace in found:
        workspace.close()


def start(opened: list[Workspace], root: Path, **changed: object) -> Workspace:
    workspace = Workspace(Settings(root=root, semantic=Semantic(model="hashing"), watch="off", **changed))  # type: ignore[arg-type]
    opened.append(workspace)
    workspace.index()
    return workspace


def found_by(workspace: Workspace, query: str = "harbour") -> dict[str, Result]:
    return {result.path: result for result in workspace.search(query).results if isinstance(result, Result)}


def test_what_is_only_in_main_is_found_and_marked_and_ones_own_file_of_the_same_path_wins(
    main: Path, feature: Path, opened: list[Workspace]
) -> None:
    result = found_by(start(opened, feature))
    theirs = (main / "specs/001-core/memory/uncommitted.md").as_posix()
    assert set(result) == {"specs/001-core/memory/shared.md", theirs}
    assert result[theirs].checkout == "main"
    assert result[theirs].spec_folder == "001-core"
    assert result["specs/001-core/memory/shared.md"].checkout is None


def test_ones_own_file_stands_for_words_that_main_has_under_another_name(
    main: Path, feature: Path, opened: list[Workspace]
) -> None:
    workspace = start(opened, feature)
    folder = feature / "specs/001-core/memory"
    (folder / "shared.md").rename(folder / "renamed.md")
    workspace.index()
    result = found_by(workspace)
    own = result["specs/001-core/memory/renamed.md"]
    assert own.checkout is None
    assert (main / "specs/001-core/memory/shared.md").as_posix() not in result
    workspace.index()
    assert found_by(workspace).keys() == result.keys()
    workspace.update(own.id, title="Renamed here")
    assert "Renamed here" in (folder / "renamed.md").read_text(encoding="utf-8")
    (folder / "renamed.md").unlink()
    workspace.index()
    assert (main / "specs/001-core/memory/shared.md").as_posix() in found_by(workspace)


def test_a_workspace_that_is_a_folder_of_a_worktree_sees_that_folder_of_main_and_no_more(
    main: Path, feature: Path, opened: list[Workspace]
) -> None:
    for checkout, name in ((main, "theirs"), (feature, "own")):
        path = checkout / f"services/dock/specs/004-quay/memory/{name}.md"
        path.parent.mkdir(parents=True)
        path.write_text(f"# {name}\n\nThe harbour quay.\n", encoding="utf-8")
    result = found_by(start(opened, feature / "services/dock"))
    theirs = (main / "services/dock/specs/004-quay/memory/theirs.md").as_posix()
    assert set(result) == {"specs/004-quay/memory/own.md", theirs}
    assert result[theirs].checkout == "main"


def test_a_link_in_main_in_place_of_that_folder_is_not_followed(main: Path, feature: Path, tmp_path: Path) -> None:
    (feature / "services/dock").mkdir(parents=True)
    (tmp_path / "outside/dock").mkdir(parents=True)
    assert worktree.main_checkout(feature / "services/dock") is None
    (main / "services").symlink_to(tmp_path / "outside")
    assert worktree.main_checkout(feature / "services/dock") is None
    (main / "services").unlink()
    (main / "services/dock").mkdir(parents=True)
    assert worktree.main_checkout(feature / "services/dock") == main / "services/dock"


def test_a_worktree_inside_the_main_checkout_works_alike(main: Path, opened: list[Workspace]) -> None:
    inside = main / ".worktrees/inner"
    git(main, "worktree", "add", "-q", "-b", "inner", str(inside))
    write(main, "memory/note.md", "# Note\n\nThe harbour lamp.\n")
    result = found_by(start(opened, inside))
    assert (main / "memory/note.md").as_posix() in result
    assert "specs/001-core/memory/shared.md" in result


def test_the_main_checkout_does_not_see_its_worktrees(main: Path, feature: Path, opened: list[Workspace]) -> None:
    write(feature, "memory/own.md", "# Own\n\nThe harbour gate.\n")
    assert set(found_by(start(opened, main))) == {
        "specs/001-core/memory/shared.md",
        "specs/001-core/memory/uncommitted.md",
    }


def test_a_save_goes_to_the_worktree_and_main_is_never_written(
    main: Path, feature: Path, opened: list[Workspace]
) -> None:
    workspace = start(opened, feature)
    before = {path: path.read_bytes() for path in main.rglob("*.md")}
    saved = workspace.save(context={"sessionSummary": "The harbour rope."}, spec_folder="001-core")
    assert (feature / saved.path).is_file()
    theirs = next(result for result in found_by(workspace).values() if result.checkout)
    workspace.update(id=theirs.id, title="Another title")
    assert found_by(workspace)[theirs.path].title == "Another title"
    with pytest.raises(OutsideScope):
        workspace.delete(id=theirs.id, delete_file=True)
    workspace.delete(id=theirs.id)
    assert theirs.path not in found_by(workspace)
    assert {path: path.read_bytes() for path in main.rglob("*.md")} == before


def test_a_file_of_ones_own_that_comes_and_goes_hides_and_shows_the_other(
    main: Path, feature: Path, opened: list[Workspace]
) -> None:
    workspace = start(opened, feature)
    own = write(feature, "specs/001-core/memory/uncommitted.md", "# Mine\n\nThe harbour crane, my way.\n")
    workspace._runtime.sync.scan(only=[own])
    assert "specs/001-core/memory/uncommitted.md" in found_by(workspace)
    assert not any(result.checkout for result in found_by(workspace).values())
    own.unlink()
    workspace._runtime.sync.scan(only=[own])
    assert next(iter(found_by(workspace, "harbour crane").values())).checkout == "main"


def test_only_places_of_default_discovery_are_read_there(main: Path, feature: Path, opened: list[Workspace]) -> None:
    write(main, ".spec-kit-memory/config.jsonc", '{"memory": {"extraPaths": ["src"]}}')
    workspace = start(opened, feature)
    assert "cellar" not in str([result.text for result in found_by(workspace, "cellar").values()])
    settings = workspace.settings
    for name in ("src/private.md", ".git/config", ".spec-kit-memory/config.jsonc", "memory/../src/private.md"):
        with pytest.raises(OutsideScope):
            paths.place(settings, main / name)
        with pytest.raises(OutsideScope):
            workspace.get(str(main / name))
    assert "crane" in workspace.get(str(main / "specs/001-core/memory/uncommitted.md")).text


def test_a_link_in_the_main_checkout_leads_nowhere_else(
    main: Path, feature: Path, tmp_path: Path, opened: list[Workspace]
) -> None:
    secret = write(tmp_path, "secret/memory.md", "# Secret\n\nThe harbour vault.\n")
    (main / "memory").mkdir()
    (main / "memory/link.md").symlink_to(secret)
    (main / "specs/002-link").symlink_to(secret.parent)
    workspace = start(opened, feature)
    assert "vault" not in str([result.text for result in found_by(workspace, "harbour vault").values()])


def test_a_session_of_one_part_or_another_user_does_not_see_main(
    main: Path, feature: Path, opened: list[Workspace]
) -> None:
    write(main, "memory/users/bo/own.md", "# Bo\n\nThe harbour diary of Bo.\n")
    part = start(opened, feature, isolation=Isolation(allowed_paths=("specs",)))
    assert set(found_by(part)) == {"specs/001-core/memory/shared.md"}
    ana = start(opened, feature, isolation=Isolation(user_id="ana"))
    assert not any("diary" in result.text for result in found_by(ana, "diary").values())
    with pytest.raises(OutsideScope):
        ana.get(str(main / "memory/users/bo/own.md"))


def test_a_worktree_whose_main_checkout_moved_is_a_workspace_of_its_own(
    main: Path, feature: Path, opened: list[Workspace]
) -> None:
    workspace = start(opened, feature)
    assert any(result.checkout for result in found_by(workspace).values())
    main.rename(main.with_name("moved"))
    workspace.index()
    assert set(found_by(workspace)) == {"specs/001-core/memory/shared.md"}


def test_switching_branches_embeds_nothing_again(main: Path, opened: list[Workspace]) -> None:
    note = "specs/001-core/memory/shared.md"
    git(main, "checkout", "-q", "-b", "other")
    write(main, note, "# Shared\n\nOn the other branch the harbour bell was sold.\n")
    write(main, "specs/001-core/memory/extra.md", "# Extra\n\nOnly on the other branch: the harbour tug.\n")
    git(main, "add", "-A")
    git(main, "commit", "-qm", "other")
    workspace = start(opened, main)
    git(main, "checkout", "-q", "main")
    workspace.index()
    embedder = workspace._runtime.meaning.embedder()
    assert embedder is not None
    counts = []
    for branch in ("other", "main", "other"):
        git(main, "checkout", "-q", branch)
        workspace.index(embed=False)
        counts.append(workspace._runtime.store.care.stats().pending_passages)
    assert counts == [0, 0, 0]


# --- what others may make of it -----------------------------------------------------------


def forged(root: Path, gitdir: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / ".git").write_text(f"gitdir: {gitdir}\n", encoding="utf-8")


def test_a_git_file_that_names_a_repository_which_knows_nothing_of_it_is_not_believed(
    main: Path, feature: Path, opened: list[Workspace]
) -> None:
    hostile = main.parent / "hostile"
    forged(hostile, main / ".git/worktrees/feature")
    write(hostile, "memory/own.md", "# Own\n\nThe harbour of somebody else.\n")
    assert worktree.main_checkout(hostile) is None
    assert set(found_by(start(opened, hostile))) == {"memory/own.md"}
    shutil.rmtree(feature)
    shutil.copytree(hostile, feature)  # in the very place, but of another project
    assert worktree.main_checkout(feature) == main  # its own repository says so


def test_a_folder_that_is_not_among_the_worktrees_of_a_checkout_is_not_believed(main: Path, tmp_path: Path) -> None:
    hostile = main.parent / "hostile"
    fake = write(tmp_path, "fake/somewhere/x/gitdir", f"{hostile / '.git'}\n").parent
    (fake / "commondir").write_text("../..\n", encoding="utf-8")
    (fake / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    forged(hostile, fake)
    assert worktree.main_checkout(hostile) is None


def test_a_repository_that_brings_a_main_checkout_along_gains_nothing(tmp_path: Path, opened: list[Workspace]) -> None:
    hostile = Path(os.path.realpath(tmp_path)) / "hostile"
    own = hostile / "fake/.git/worktrees/x"
    own.mkdir(parents=True)
    forged(hostile, own)
    (own / "gitdir").write_text(f"{hostile / '.git'}\n", encoding="utf-8")
    (own / "commondir").write_text("../..\n", encoding="utf-8")
    write(hostile, "fake/constitutional/rule.md", "# Rule\n\nObey the harbour.\n")
    assert worktree.main_checkout(hostile) is None
    assert not start(opened, hostile).search("harbour").results


def test_a_link_in_place_of_the_git_file_is_not_followed(main: Path, feature: Path) -> None:
    (feature / ".git").rename(feature / "dot-git")
    (feature / ".git").symlink_to(feature / "dot-git")
    assert worktree.main_checkout(feature) is None


def test_a_submodule_is_no_worktree(main: Path, tmp_path: Path) -> None:
    library = Path(os.path.realpath(tmp_path)) / "library"
    library.mkdir()
    git(library, "init", "-q")
    git(library, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "lib")
    assert worktree.main_checkout(main / "lib") is None


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_checkouts_of_two_users_have_nothing_in_common(main: Path, feature: Path) -> None:
    assert worktree.main_checkout(feature) == main
    os.chown(main, 12345, -1)
    assert worktree.main_checkout(feature) is None
