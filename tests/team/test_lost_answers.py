"""Is every accepted change in git exactly once although the remote's answer is lost, and whatever happens meanwhile?"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spec_kit_memory.team.database import TeamDatabase
from tests.team.git_remotes import Remote
from tests.team.test_keeper import Team, hurry, stage

# The remote takes what is pushed, and dies before it answers.
LOSE_THE_ANSWER = "#!/bin/sh\nkill -9 $PPID\n"


@pytest.fixture
def team(database: TeamDatabase, tmp_path: Path) -> Iterator[Team]:
    made = Team(database, tmp_path)
    yield made
    made.close()


def lose_answers(remote: Remote, also: str = "") -> Callable[[], None]:
    """From now on no push is answered; returns what ends it. `also` runs at the remote after it took a push."""
    hook = remote.folder / "hooks" / "post-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(LOSE_THE_ANSWER.replace("kill", f"{also}\nkill"), encoding="utf-8")
    hook.chmod(0o755)
    return hook.unlink


def operations(remote: Remote) -> list[str]:
    """Of all branches."""
    form = "--format=%(trailers:key=Spec-Kit-Memory-Operation,valueonly=true)"
    return [line for line in remote.git("log", form, "--all").splitlines() if line]


def test_a_push_whose_answer_is_lost_is_not_made_again(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.round(keeper)
    end = lose_answers(team.remote)
    saved = [workspace.save(text=f"Note {word}", on_similar="distinct") for word in ("alpha", "beta")]
    team.round(keeper)
    end()
    hurry(team)
    team.round(keeper)
    assert len(operations(team.remote)) == len(set(operations(team.remote))) == 2
    assert all(team.remote.text(one.path) for one in saved)


RENAME = "git update-ref refs/heads/trunk refs/heads/main && git update-ref -d refs/heads/main"


@pytest.mark.parametrize("when", ["before the push", "after the push, whose answer is lost"])
def test_a_branch_that_is_renamed_during_a_round_is_not_made_again(team: Team, when: str) -> None:
    workspace = team.replica()
    team.round()

    def rename(step: str) -> None:
        if step == "committed" and when == "before the push":
            team.remote.git("update-ref", "refs/heads/trunk", "refs/heads/main")
            team.remote.git("update-ref", "-d", "refs/heads/main")

    keeper = team.keeper(rename)
    if when != "before the push":
        lose_answers(team.remote, also=RENAME)
    saved = workspace.save(text="The office is closed on mondays")
    problem = team.round(keeper).problem
    assert problem is not None
    assert "main" in problem
    assert team.remote.tip("main") is None
    team.projects.remove("shop")
    (team.remote.folder / "hooks" / "post-receive").unlink(missing_ok=True)
    team.projects.add("shop", repository=str(team.remote.folder), branch="trunk")
    hurry(team)
    team.round()
    assert len(operations(team.remote)) == 1
    assert team.remote.text(saved.path, branch="trunk") is not None


def test_a_branch_that_is_renamed_after_a_first_round_that_died_is_not_made_again(team: Team) -> None:
    workspace = team.replica()
    saved = workspace.save(text="The office is closed on mondays")

    def die(step: str) -> None:
        if step == "pushed":
            raise SystemExit

    with pytest.raises(SystemExit):
        team.keeper(die).round("shop")
    team.remote.git("update-ref", "refs/heads/trunk", "refs/heads/main")
    team.remote.git("update-ref", "-d", "refs/heads/main")
    assert "main" in (team.round().problem or "")
    assert team.remote.tip("main") is None
    assert len(operations(team.remote)) == 1
    assert workspace.load(saved.id).memory.path == saved.path


@pytest.mark.parametrize(
    "name",
    ["refs/heads/main.lock", "packed-refs.lock", "shallow.lock", "HEAD.lock", "config.lock", "objects/pack/tmp_pack_x"],
)
def test_what_a_machine_that_lost_its_power_left_in_the_clone_stops_nothing(team: Team, name: str) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.round(keeper)
    clone = next(team.remote.folder.parent.glob("server-*/projects/shop/repository.git"))
    (clone / name).write_bytes(b"")
    os.utime(clone / name, (1, 1))
    team.remote.commit({"memory/second.md": "# Second\n\nThe second note.\n"})
    saved = workspace.save(text="The office is closed on mondays")
    for _ in range(3):
        done = team.round(keeper)
        hurry(team)
    assert done.problem is None
    assert team.remote.text(saved.path) is not None
    assert {memory.title for memory in workspace.list().memories} >= {"Second"}


def test_a_lock_of_a_command_that_still_runs_is_left_alone(team: Team) -> None:
    keeper = team.keeper()
    team.round(keeper)
    clone = next(team.remote.folder.parent.glob("server-*/projects/shop/repository.git"))
    lock = clone / "refs" / "heads" / "main.lock"
    lock.write_bytes(b"")
    team.remote.commit({"memory/second.md": "# Second\n\nThe second note.\n"})
    problem = team.round(keeper).problem or ""
    assert "main.lock" in problem
    assert str(clone) not in problem
    assert lock.exists()


def test_a_clone_that_was_hardly_begun_is_made_again(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    clone = keeper._settings.root / "projects" / "shop" / "repository.git"
    clone.mkdir(parents=True)
    (clone / "HEAD").write_text("ref: refs/heads/main\n")
    saved = workspace.save(text="The office is closed on mondays")
    assert team.round(keeper).problem is None
    assert team.remote.text(saved.path) is not None


def test_a_clone_with_a_broken_object_is_made_again(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.round(keeper)
    clone = next(team.remote.folder.parent.glob("server-*/projects/shop/repository.git"))
    for path in clone.glob("objects/*/*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(b"")
    team.remote.commit({"memory/second.md": "# Second\n\nThe second note.\n"})
    saved = workspace.save(text="The office is closed on mondays")
    problems = []
    for _ in range(3):
        problems.append(team.round(keeper).problem)
        hurry(team)
    assert problems[-1] is None, problems
    assert team.remote.text(saved.path) is not None


def test_a_push_that_is_refused_for_weeks_is_still_tried(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.remote.hook("printf 'no \\033[2Jmore\\033]0;title\\007 of this\\r\\n' >&2; exit 1")
    saved = workspace.save(text="The office is closed on mondays")
    with team.database.transaction() as session:
        session.execute("UPDATE outbox SET tries = 5000, due_at = now()")
    done = team.round(keeper)
    assert (done.problem, done.waiting) == (None, 1)
    _, reason = stage(workspace, saved.path)
    assert "more" in (reason or "")
    assert (reason or "").isprintable(), "what the remote says may not steer a terminal"
    team.remote.hook("exit 0")
    hurry(team)
    assert team.round(keeper).delivered == 1
    assert team.remote.text(saved.path) is not None
