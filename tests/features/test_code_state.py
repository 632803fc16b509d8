"""Does a memory know what became of the code that it names?"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from spec_kit_memory.answers import FlatResult, Result
from spec_kit_memory.core.citations import Code
from spec_kit_memory.files.cited_code import CodeFiles
from spec_kit_memory.files.git_history import History
from spec_kit_memory.serve.cli.cleanup import reasons
from spec_kit_memory.settings import Isolation, Settings
from spec_kit_memory.workspace import Workspace
from tests.features.conftest import Place

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
NOTE = "# Login\n\nPasskeys are checked in `src/login.py:12`; the table is in src/models.py.\n"


def git(root: Path, *arguments: str) -> str:
    """Git as its user has it, without that user's configuration."""
    who = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "commit.gpgsign=false")
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *who, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(root: Path, message: str = "more") -> str:
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)
    return git(root, "rev-parse", "HEAD")


def code_of(workspace: Workspace, query: str = "passkeys login", **how: Any) -> Code | None:
    result = workspace.search(query, **how).results[0]
    assert isinstance(result, Result)
    return result.code


@pytest.fixture
def repository(place: Place) -> Place:
    git(place.root, "init", "-q")
    place.write("src/login.py", "def login(): ...\n")
    place.write("src/models.py", "class Credential: ...\n")
    place.write("memory/login.md", NOTE)
    place.write(".gitignore", ".spec-kit-memory/\n")
    commit(place.root)
    return place


@needs_git
def test_nothing_is_said_while_the_code_is_what_it_was(repository: Place) -> None:
    workspace = repository.open()
    assert code_of(workspace) is None
    assert workspace.load(memory_id=1).code is None


@needs_git
def test_code_that_changed_after_the_note_was_committed_is_named_though_it_was_indexed_later(repository: Place) -> None:
    repository.write("src/login.py", "def login(): return 2\n")
    commit(repository.root)
    workspace = repository.open()
    assert code_of(workspace) == Code(changed=("src/login.py",))
    assert workspace.load(memory_id=1).code == Code(changed=("src/login.py",))


@needs_git
def test_code_is_known_however_the_note_names_it(place: Place) -> None:
    git(place.root, "init", "-q")
    names = ["src/remark.py", "src/tests.py", "src/windows.py", "src/absolute.py", "src/[id]/route.tsx", "src/link.py"]
    for name in names:
        place.write(name, f"# {name}\n")
    place.write(
        "memory/login.md",
        "# Passkeys login\n\nChanged src/remark.py: retries. Run src/tests.py::test_login; see `src\\windows.py:3`,"
        f" {place.root}/src/absolute.py:7, `src/[id]/route.tsx` and [this](/src/link.py).\n",
    )
    place.write(".gitignore", ".spec-kit-memory/\n")
    commit(place.root)
    workspace = place.open()
    assert code_of(workspace) is None
    for name in names:
        place.write(name, "changed\n")
    code = code_of(workspace, "passkeys")
    assert code is not None
    assert {*code.changed} == {*names[:5], "and 1 more"}
    assert {file.path for file in workspace._runtime.store.documents.get(1).cited} == {*names}


@needs_git
def test_a_note_that_is_changed_speaks_of_the_code_as_it_is_then(repository: Place) -> None:
    repository.write("src/login.py", "def login(): return 2\n")
    repository.write("memory/login.md", NOTE + "Now it returns two.\n")
    commit(repository.root)
    repository.write("src/models.py", "class Credential: pass\n")
    commit(repository.root)
    assert code_of(repository.open()) == Code(changed=("src/models.py",))


@needs_git
def test_a_note_that_is_not_committed_yet_counts_from_its_first_indexing(repository: Place) -> None:
    repository.write("src/login.py", "def login(): return 2\n")
    commit(repository.root)
    repository.write("memory/login.md", NOTE + "An edit that is not committed.\n")
    workspace = repository.open()
    assert code_of(workspace) is None
    repository.write("src/login.py", "def login(): return 3\n")
    assert code_of(workspace) == Code(changed=("src/login.py",))


def test_without_git_the_first_indexing_counts_and_a_change_is_seen_at_once_in_cached_answers(place: Place) -> None:
    place.write("src/login.py", "def login(): ...\n")
    place.write("src/models.py", "class Credential: ...\n")
    place.write("memory/login.md", NOTE)
    workspace = place.open()
    assert code_of(workspace) is None
    place.write("src/login.py", "def login(): return 1\n")
    again = workspace.search("passkeys login")
    assert again.meta.cache_hit
    assert isinstance(again.results[0], Result)
    assert again.results[0].code == Code(changed=("src/login.py",))
    place.write("src/login.py", "def login(): ...\n")
    assert code_of(workspace) is None


def test_files_that_went_and_files_that_moved_are_told_apart(place: Place) -> None:
    place.write("src/login.py", "def login(): ...\n")
    place.write("src/models.py", "class Credential: ...\n")
    place.write("memory/login.md", NOTE)
    workspace = place.open()
    (place.root / "lib").mkdir()
    (place.root / "src/login.py").rename(place.root / "lib/sign_in.py")
    (place.root / "src/models.py").unlink()
    assert code_of(workspace) == Code(gone=("src/models.py",), moved=("src/login.py -> lib/sign_in.py",))
    flat = workspace.search("passkeys login", group_by="passage").results[0]
    assert isinstance(flat, FlatResult)
    assert flat.code == Code(gone=("src/models.py",), moved=("src/login.py -> lib/sign_in.py",))


def test_fresh_leaves_out_what_is_stale_before_the_limit_and_says_so(place: Place) -> None:
    place.write("src/login.py", "def login(): ...\n")
    place.write("src/models.py", "class Credential: ...\n")
    for number in range(6):
        place.write(f"memory/note-{number}.md", f"# Login {number}\n\nLogin number {number} lives in `src/login.py`.\n")
    place.write("memory/plain.md", "# About login\n\nA login, described without naming a file.\n")
    workspace = place.open()
    place.write("src/login.py", "changed\n")
    answer = workspace.search("login", limit=2, fresh=True)
    assert [result.path for result in answer.results] == ["memory/plain.md"]
    assert answer.held_back.stale == 6
    assert {item["reason"] for item in answer.held_back.best} == {"stale"}
    assert "`fresh=True` left out 6 matches whose code has changed or is gone" in map(str, answer.advice)
    assert len(workspace.search("login", limit=10).results) == 7
    place.write("src/login.py", "def login(): ...\n")
    unchanged = workspace.search("login", limit=10, fresh=True)
    assert len(unchanged.results) == 7
    assert not any("fresh" in str(notice) for notice in unchanged.advice)


def test_health_lists_what_names_code_that_is_gone_and_nothing_is_archived(place: Place) -> None:
    place.write("src/login.py", "def login(): ...\n")
    place.write("src/models.py", "class Credential: ...\n")
    place.write("memory/login.md", NOTE)
    workspace = place.open()
    (place.root / "src/models.py").unlink()
    health = workspace.health()
    assert health.healthy
    messages = [problem for problem in health.problems if problem["check"] == "gone code"]
    assert [problem["message"] for problem in messages] == ["memory 1, memory/login.md: src/models.py"]
    card = workspace.list().memories[0]
    assert card.code == Code(gone=("src/models.py",))
    assert card.state == "WARM"
    assert reasons(card, place.clock()) == "its code is gone (src/models.py)"


def test_metadata_alone_does_not_make_a_note_new(place: Place) -> None:
    place.write("src/login.py", "def login(): ...\n")
    place.write("src/models.py", "class Credential: ...\n")
    place.write("memory/login.md", NOTE)
    workspace = place.open()
    place.write("src/login.py", "changed\n")
    workspace.update(id=1, title="Another title")
    workspace.index()
    assert code_of(workspace) == Code(changed=("src/login.py",))


def test_a_save_knows_the_code_of_its_moment(place: Place) -> None:
    place.write("src/login.py", "def login(): ...\n")
    (place.root / "specs/001-core").mkdir(parents=True)
    workspace = place.open()
    workspace.save(
        context={"sessionSummary": "Passkeys login.", "filesModified": ["src/login.py"]}, spec_folder="001-core"
    )
    assert code_of(workspace) is None
    place.write("src/login.py", "changed\n")
    assert code_of(workspace) == Code(changed=("src/login.py",))


def test_what_was_recorded_survives_a_rebuild(place: Place) -> None:
    place.write("src/login.py", "def login(): ...\n")
    place.write("src/models.py", "class Credential: ...\n")
    place.write("memory/login.md", NOTE)
    workspace = place.open()
    place.write("src/login.py", "changed\n")
    workspace.index(rebuild=True)
    assert code_of(workspace) == Code(changed=("src/login.py",))


def test_other_memories_folders_and_what_is_outside_are_no_code(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("secret\n", encoding="utf-8")
    place.write("memory/other.md", "# Other\n")
    place.write("specs/001-core/spec.md", "# Spec\n")
    place.write(".git/config", "[core]\n")
    place.write("src/real.py", "1\n")
    (place.root / "src/link.py").symlink_to(outside)
    names = "../outside.py, memory/other.md, specs/001-core/spec.md, .git/config, src/link.py, src/real.py, src/none.py"
    place.write("memory/login.md", f"# Names\n\n{names} and `{outside}`\n")
    workspace = place.open()
    memories = workspace._runtime.store.documents.find()
    assert [[file.path for file in memory.cited] for memory in memories if memory.cited] == [["src/real.py"]]


def test_line_ends_as_git_changes_them_are_no_change(place: Place) -> None:
    place.write("src/login.py", "a\nb\n")
    place.write("src/models.py", "class Credential: ...\n")
    place.write("memory/login.md", NOTE)
    workspace = place.open()
    (place.root / "src/login.py").write_bytes(b"a\r\nb\r\n")
    assert code_of(workspace) is None


def test_a_session_that_may_see_a_part_hears_nothing_of_code_elsewhere(place: Place) -> None:
    place.write("src/login.py", "def login(): ...\n")
    place.write("src/models.py", "class Credential: ...\n")
    place.write("memory/login.md", NOTE)
    place.open()
    (place.root / "src/login.py").unlink()
    part = place.open(isolation=Isolation(allowed_paths=("memory",)))
    assert code_of(part) is None


def test_the_answer_stays_within_its_budget_with_what_is_said_of_code(place: Place) -> None:
    names = [f"src/module_number_{number}/with_a_long_name.py" for number in range(30)]
    for name in names:
        place.write(name, "1\n")
    place.write("memory/login.md", "# Login\n\nPasskeys login: " + ", ".join(names) + "\n")
    workspace = place.open()
    for name in names:
        (place.root / name).unlink()
    message = code_of(workspace)
    assert message is not None
    assert message.gone[-1] == "and 25 more"
    assert code_of(workspace, max_tokens=100) in (None, Code(gone=(names[0], "and 29 more")))


# --- repositories that mean harm -------------------------------------------------------


@needs_git
def test_no_configuration_hook_filter_or_helper_of_a_repository_runs(repository: Place, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    script = tmp_path / "script.sh"
    script.write_text(f"#!/bin/sh\necho ran >> {trace}\ncat\n", encoding="utf-8")
    script.chmod(0o755)
    for key in (
        "core.fsmonitor", "core.pager", "diff.external", "core.sshCommand", "gpg.program", "diff.x.textconv",
        "filter.x.smudge", "core.alternateRefsCommand", "core.editor", "diff.x.command",
    ):  # fmt: skip
        git(repository.root, "config", key, str(script))
    git(repository.root, "config", "log.showSignature", "true")
    git(repository.root, "config", "include.path", str(tmp_path / "included"))
    (repository.root / ".gitattributes").write_text("* diff=x filter=x\n", encoding="utf-8")
    for hook in ("post-checkout", "pre-commit", "reference-transaction"):
        shutil.copy(script, repository.root / ".git/hooks" / hook)
    trace.unlink(missing_ok=True)
    repository.write("src/login.py", "def login(): return 2\n")
    assert code_of(repository.open()) == Code(changed=("src/login.py",))
    assert not trace.exists()


@needs_git
def test_objects_that_lie_elsewhere_are_not_asked_for(repository: Place, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.move(repository.root / ".git/objects", other)
    (repository.root / ".git/objects").symlink_to(other)
    assert History.of(repository.root) is None
    (repository.root / ".git/objects").unlink()
    (repository.root / ".git/objects/info").mkdir(parents=True)
    (repository.root / ".git/objects/info/alternates").write_text(f"{other}\n", encoding="utf-8")
    assert History.of(repository.root) is None
    assert code_of(repository.open()) is None


@needs_git
def test_a_damaged_or_cut_history_is_taken_as_far_as_it_goes(repository: Place, tmp_path: Path) -> None:
    repository.write("src/login.py", "def login(): return 2\n")
    commit(repository.root)
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository.root}", str(shallow))
    workspace = Workspace(Settings(root=shallow.resolve(), watch="off"))
    with workspace:
        workspace.index()
        assert code_of(workspace) is None  # what came before is not here
    for pack in (repository.root / ".git/objects").rglob("*"):
        if pack.is_file():
            pack.chmod(0o644)
            pack.write_bytes(b"damaged")
    assert code_of(repository.open()) is None


@needs_git
def test_a_git_that_came_with_the_repository_is_not_run(repository: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    own = repository.root / "bin"
    own.mkdir()
    (own / "git").write_text("#!/bin/sh\ntouch ran\n", encoding="utf-8")
    (own / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}{os.pathsep}{os.environ['PATH']}")
    assert History.of(repository.root) is None


@needs_git
def test_names_that_git_could_take_for_options_or_patterns_are_names(repository: Place) -> None:
    repository.write("memory/--output=x.md", "# Odd\n\nOdd name about `src/login.py`.\n")
    repository.write("memory/[a]*.md", "# Pattern\n\nPattern name about `src/login.py`.\n")
    last = commit(repository.root)
    history = History.of(repository.root)
    assert history is not None
    result = history.last_changes(["memory/--output=x.md", "memory/[a]*.md", "memory/none.md"])
    assert result == {"memory/--output=x.md": last, "memory/[a]*.md": last}
    assert set(
        history.blobs([(last, "src/login.py"), (last, "src"), (last, "../x"), ("nope", "a"), (last, "a\nb")])
    ) == {(last, "src/login.py")}


@needs_git
def test_time_is_bounded_and_what_did_not_come_is_not_known(repository: Place) -> None:
    history = History.of(repository.root)
    assert history is not None
    assert history.last_changes(["memory/login.md"], seconds=0.0) in ({}, {"memory/login.md": history.commit})


@needs_git
def test_a_workspace_within_a_larger_checkout_is_read_below_its_own_folder(place: Place) -> None:
    git(place.root, "init", "-q")
    place.write("part/src/login.py", "1\n")
    place.write("part/src/models.py", "1\n")
    place.write("part/memory/login.md", NOTE)
    commit(place.root)
    place.write("part/src/login.py", "another\n")
    commit(place.root)
    with Workspace(Settings(root=place.root / "part", watch="off")) as workspace:
        workspace.index()
        assert code_of(workspace) == Code(changed=("src/login.py",))


def test_a_file_that_is_written_twice_within_its_stamp_is_read_again(place: Place) -> None:
    path = place.root / "a.py"
    path.write_text("1\n", encoding="utf-8")
    files = CodeFiles(Settings(root=place.root))
    before = files.now("a.py")
    stamp = path.stat().st_mtime_ns
    path.write_text("2\n", encoding="utf-8")
    os.utime(path, ns=(stamp, stamp))
    assert before is not None
    assert not files.is_unchanged(before)
