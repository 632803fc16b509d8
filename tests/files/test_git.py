from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from spec_kit_memory.files import git

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"


def repository(root: Path, head: str = "ref: refs/heads/main\n") -> Path:
    folder = root / ".git"
    (folder / "refs/heads").mkdir(parents=True)
    (folder / "HEAD").write_text(head, encoding="utf-8")
    (folder / "refs/heads/main").write_text(f"{COMMIT}\n", encoding="utf-8")
    return folder


def test_branch_and_commit_are_read(root: Path) -> None:
    repository(root)
    assert git.head(root) == {"branch": "main", "commit": COMMIT}


def test_a_workspace_in_a_checkout_has_the_checkouts(root: Path) -> None:
    repository(root)
    (root / "packages/one").mkdir(parents=True)
    assert git.head(root / "packages/one") == {"branch": "main", "commit": COMMIT}


def test_packed_refs_and_detached_heads_are_read(root: Path) -> None:
    folder = repository(root, "ref: refs/heads/feature/x-1\n")
    assert git.head(root) == {"branch": "feature/x-1"}
    (folder / "packed-refs").write_text(f"# pack-refs\n{OTHER} refs/heads/feature/x-1\n", encoding="utf-8")
    assert git.head(root) == {"branch": "feature/x-1", "commit": OTHER}
    (folder / "HEAD").write_text(f"{OTHER}\n", encoding="utf-8")
    assert git.head(root) == {"commit": OTHER}


def test_without_git_nothing_is_known(root: Path) -> None:
    assert git.head(root) == {}


@pytest.mark.parametrize(
    "head",
    [
        "ref: ../../outside/file",
        "ref: /etc/passwd",
        "ref: refs/heads/../../../../outside/file",
        "ref: refs/heads/./x",
        "ref: refs/../HEAD",
        "ref: refs",
        "ref: refs/heads/",
        "ref: refs/heads/a b",
        "ref: refs/heads/a\x00b",
        "ref: refs/heads/a\nb",
        "ref: refs/heads/.hidden",
        "ref: refs/heads/x.lock",
        "ref: refs/heads/a~1",
        "ref: refs/heads/" + "a" * 5000,
        "a secret that is no hash",
        "",
        "ref: ",
    ],
)
def test_a_head_that_names_no_ref_says_nothing(root: Path, head: str) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("quokka\n", encoding="utf-8")
    repository(root, head)
    assert git.head(root) == {}


def test_a_ref_that_holds_no_hash_is_not_repeated(root: Path) -> None:
    folder = repository(root)
    (folder / "refs/heads/main").write_text("a private text\n", encoding="utf-8")
    (folder / "packed-refs").write_text("a-private-text refs/heads/main\n", encoding="utf-8")
    assert git.head(root) == {"branch": "main"}


@pytest.mark.skipif(os.name == "nt", reason="making links needs a privilege there")
@pytest.mark.parametrize("name", ["HEAD", "refs", "refs/heads", "refs/heads/main", "packed-refs"])
def test_links_in_gits_folder_are_not_followed(root: Path, name: str) -> None:
    folder, outside = repository(root), root.parent / "outside"
    (outside / "heads").mkdir(parents=True)
    for place in (outside, outside / "heads"):
        (place / "main").write_text(f"{OTHER}\n", encoding="utf-8")
    (folder / "refs/heads/main").unlink()
    target = folder / name
    shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    target.symlink_to({"refs": outside, "refs/heads": outside / "heads"}.get(name, outside / "main"))
    (outside / "main").write_text(f"{OTHER} refs/heads/main\n" if name == "packed-refs" else f"{OTHER}\n")
    assert OTHER not in git.head(root).values()


@pytest.mark.skipif(os.name == "nt", reason="making links needs a privilege there")
def test_a_folder_of_git_that_is_a_link_is_not_followed(root: Path) -> None:
    folder = repository(root)
    folder.rename(root.parent / "elsewhere")
    folder.symlink_to(root.parent / "elsewhere", target_is_directory=True)
    assert git.head(root) == {}


@pytest.mark.skipif(os.name == "nt", reason="this system has no named pipes")
@pytest.mark.parametrize("name", ["HEAD", "refs/heads/main", "packed-refs", "commondir"])
def test_a_pipe_blocks_nobody(root: Path, name: str) -> None:
    folder = repository(root)
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    assert set(git.head(root)) <= {"branch", "commit"}
    shutil.rmtree(folder)
    os.mkfifo(root / ".git")
    assert git.head(root) == {}


def worktree(root: Path, *, back: str | None = None) -> Path:
    """A linked worktree as git makes it; `back` is what the main checkout says it belongs to."""
    main, linked = root / "main", root / "linked"
    folder = repository(main) / "worktrees/linked"
    folder.mkdir(parents=True)
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {folder}\n", encoding="utf-8")
    (folder / "gitdir").write_text(f"{linked / '.git' if back is None else back}\n", encoding="utf-8")
    (folder / "commondir").write_text("../..\n", encoding="utf-8")
    (folder / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return linked


def test_a_worktree_is_followed_to_the_checkout_that_points_back(root: Path) -> None:
    assert git.head(worktree(root)) == {"branch": "main", "commit": COMMIT}


@pytest.mark.parametrize("back", ["", "elsewhere/.git", "/nowhere/.git"])
def test_a_git_file_is_not_followed_to_a_folder_that_does_not_point_back(root: Path, back: str) -> None:
    assert git.head(worktree(root, back=back)) == {}


def test_a_common_folder_is_the_one_above_and_no_other(root: Path) -> None:
    linked = worktree(root)
    elsewhere = repository(root / "elsewhere")
    (elsewhere / "refs/heads/main").write_text(f"{OTHER}\n", encoding="utf-8")
    (root / "main/.git/worktrees/linked/commondir").write_text(f"{elsewhere}\n", encoding="utf-8")
    assert git.head(linked) == {"branch": "main"}


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_what_git_itself_makes_is_read(root: Path) -> None:
    def run(*arguments: str, at: Path) -> str:
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always"]
        return subprocess.run([*command, *arguments], cwd=at, check=True, capture_output=True, text=True).stdout.strip()

    main, inner = root / "main", root / "inner"
    for folder in (main, inner):
        folder.mkdir()
        run("init", "-q", "-b", "trunk", at=folder)
        run("commit", "-q", "--allow-empty", "-m", "first", at=folder)
    run("worktree", "add", "-q", "-b", "side", "../linked", at=main)
    run("submodule", "add", "-q", str(inner), "sub", at=main)
    for folder, branch in ((main, "trunk"), (root / "linked", "side"), (main / "sub", "trunk")):
        assert git.head(folder) == {"branch": branch, "commit": run("rev-parse", "HEAD", at=folder)}
    run("pack-refs", "--all", at=main)
    assert git.head(root / "linked")["commit"] == run("rev-parse", "HEAD", at=root / "linked")
