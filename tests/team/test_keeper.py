"""Does what was accepted get into git, each once, and what is in git into the index, whatever happens on the way?"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spec_kit_memory.answers import GitStatus
from spec_kit_memory.caller import Caller
from spec_kit_memory.core.delivery import Stage
from spec_kit_memory.index.postgres.outbox import Outbox
from spec_kit_memory.settings.keys import Semantic, Settings
from spec_kit_memory.team import lease
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.keeper import Keeper, Round
from spec_kit_memory.team.project_workspace import open_project
from spec_kit_memory.team.projects import Projects
from spec_kit_memory.team.repository import GitLimits, Repository
from spec_kit_memory.workspace import Workspace
from tests.team.git_remotes import Remote


class Team:
    """A remote, a project on it, and replicas that may come and go."""

    def __init__(self, database: TeamDatabase, folder: Path, *, save_branch: str | None = None) -> None:
        self.database = database
        self.remote = Remote.made(folder / "remote.git")
        self._folder = folder
        self.projects = Projects(database)
        self.project = self.projects.add("shop", repository=str(self.remote.folder), save_branch=save_branch).project
        self.opened: list[Workspace] = []
        self.keepers: list[Keeper] = []

    def settings(self) -> Settings:
        number = len(self.opened) + len(self.keepers)
        return Settings(root=self._folder / f"server-{number}", semantic=Semantic(model="hashing"))

    def replica(self) -> Workspace:
        self.opened.append(open_project(self.database, self.project, settings=self.settings()))
        return self.opened[-1]

    def keeper(self, step: Callable[[str], None] = lambda name: None) -> Keeper:
        self.keepers.append(Keeper(self.database, settings=self.settings(), step=step, domain="memory.example"))
        return self.keepers[-1]

    def round(self, keeper: Keeper | None = None) -> Round:
        done = (keeper or self.keeper()).round("shop")
        assert done is not None
        return done

    def close(self) -> None:
        for workspace in self.opened:
            workspace.close()
        for keeper in self.keepers:
            keeper.close()


@pytest.fixture
def team(database: TeamDatabase, tmp_path: Path) -> Iterator[Team]:
    made = Team(database, tmp_path)
    yield made
    made.close()


def stage(workspace: Workspace, path: str) -> tuple[Stage, str | None]:
    outbox = workspace._runtime.whole.outbox
    assert isinstance(outbox, Outbox)
    result = outbox.deliveries([path])[path]
    return result.stage, result.reason or result.commit


def has_title(text: str | None, title: str) -> bool:
    return bool(re.search(f'^title: "?{title}"?$', text or "", re.MULTILINE))


def hurry(team: Team) -> None:
    """What waits for its next try is tried now."""
    with team.database.transaction() as session:
        session.execute("UPDATE outbox SET due_at = now()")


def titles(workspace: Workspace) -> set[str]:
    return {memory.title for memory in workspace.list(limit=100).memories}


def test_what_is_in_git_is_found_and_follows_what_people_push(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    assert team.round(keeper).mirrored.changed == 1
    assert workspace.search("the first note").results[0].path == "memory/first.md"
    team.remote.commit(
        {"specs/001-x/memory/a.md": "# Alpha\n\nBeta gamma.\n", "memory/first.md": None, "src/code.py": "x = 1\n"}
    )
    done = team.round(keeper)
    assert (done.mirrored.changed, done.mirrored.gone) == (1, 1)
    assert titles(workspace) == {"Alpha"}
    team.remote.commit({"memory/other.md": "# Other\n\nForced.\n"}, force=True)
    team.round(keeper)
    assert titles(workspace) == {"Other"}
    assert team.round(keeper).mirrored.changed == 0


CONFIG = ".spec-kit-memory/config.jsonc"


def test_what_a_repositorys_configuration_excludes_is_not_read(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    files: dict[str, str | None] = {f"memory/{name}.md": f"# {name}\n\nA note.\n" for name in ("Kept", "Draft", "Old")}
    team.remote.commit({**files, "memory/first.md": None, "specs/001-x/memory/Deep.md": "# Deep\n\nA note.\n"})
    saved = workspace.save(text="The gate opens at nine")
    team.round(keeper)
    name = workspace.load(saved.id).memory.title
    everything = {"Kept", "Draft", "Old", "Deep", name}
    assert titles(workspace) == everything
    team.remote.commit({CONFIG: '{"exclude": ["specs/001-x/", "Dr*.md", /* ours */ "gate*", "memory/*gate*"]}'})
    team.round(keeper)
    assert titles(workspace) == {"Kept", "Old", name}, "what was saved here was acknowledged, and stays"
    team.remote.commit({CONFIG: '{"exclude": ["memory/Old.md"], "index.url": "postgresql://x", "nonsense": 1}'})
    team.round(keeper)
    assert titles(workspace) == everything - {"Old"}, "nothing but exclude counts"
    for wrong, said in (("{", "JSON"), ('{"exclude": 7}', "exclude"), (f'{{"exclude": {["x"] * 1001}}}', "exclude")):
        team.remote.commit({CONFIG: wrong.replace("'", '"')})
        problem = team.round(keeper).problem or ""
        assert CONFIG in problem or "exclude" in problem, problem
        assert said in problem
        assert titles(workspace) == everything - {"Old"}, "what is wrong shows nothing that was left out"
    team.remote.commit({CONFIG: None})
    assert team.round(keeper).problem is None
    assert titles(workspace) == everything


@pytest.mark.parametrize(("mode", "target"), [("120000", "/etc/passwd"), ("120000", "../../secrets.jsonc")])
def test_a_configuration_that_is_a_link_is_not_read(team: Team, mode: str, target: str) -> None:
    workspace = team.replica()
    team.remote.commit({CONFIG: target}, mode=mode)
    assert team.round().problem is None
    assert titles(workspace) == {"First"}


def test_a_save_gets_into_git_as_its_users(team: Team) -> None:
    workspace = team.replica()
    saved = workspace.for_caller(Caller(user="ana <x>\n@local")).save(text="The gate opens at nine")
    assert stage(workspace, saved.path)[0] is Stage.ACCEPTED
    assert team.round().delivered == 1
    assert stage(workspace, saved.path) == (Stage.IN_GIT, team.remote.tip())
    message = next(memory.git for memory in workspace.list().memories if memory.id == saved.id)
    assert message == GitStatus(stage="in git", branch="main", commit=team.remote.tip())
    assert workspace.stats().git == {"accepted": 0, "in git": 1, "failed": 0}
    assert "The gate opens at nine" in (team.remote.text(saved.path) or "")
    author = team.remote.git("log", "-1", "--format=%an|%ae|%cn")
    assert author == "ana=20=3Cx=3E=0A=40local|ana=20=3Cx=3E=0A=40local@memory.example|Spec Kit Memory"
    assert team.round().delivered == 0
    assert workspace.search("gate").results[0].id == saved.id, "what git has now is the same memory"


def test_of_what_is_in_git_the_outbox_keeps_the_last_of_each_path(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    saved, other = workspace.save(text="The gate opens at nine"), workspace.save(text="Ferries leave at dawn")
    assert saved.id is not None
    team.round(keeper)
    for title in ("One", "Two", "Three"):
        workspace.update(id=saved.id, title=title)
        team.round(keeper)
    workspace.update(id=saved.id, title="Four")  # on its way
    with team.database.transaction() as session:
        rows = session.rows("SELECT path, stage FROM outbox ORDER BY sequence")
    assert rows == [(other.path, "in git"), (saved.path, "in git"), (saved.path, "accepted")]
    assert workspace.stats().git == {"accepted": 1, "in git": 2, "failed": 0}
    team.round(keeper)
    assert stage(workspace, saved.path) == (Stage.IN_GIT, team.remote.tip())
    team.remote.commit({"memory/new.md": "# New\n\nForced.\n"}, force=True)
    team.round(keeper)
    assert stage(workspace, saved.path)[0] is Stage.FAILED, "the one row that is left is enough to miss it in git"
    assert workspace.load(saved.id).text


def test_updates_and_removals_follow_in_order_and_others_edits_are_kept(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.round(keeper)
    known = workspace.search("first note").results[0]
    workspace.update(id=known.id, title="Renamed")
    team.remote.commit({"memory/first.md": "# First\n\nSomebody wrote on.\n"})
    assert team.round(keeper).delivered == 1
    text = team.remote.text("memory/first.md") or ""
    assert has_title(text, "Renamed")
    assert "Somebody wrote on." in text
    assert "Somebody wrote on." in workspace.load(known.id).text
    saved = workspace.save(text="The gate opens at nine")
    assert saved.id is not None
    workspace.update(id=saved.id, title="Hours")
    workspace.delete(id=saved.id, delete_file=True)
    assert team.round(keeper).delivered == 3
    assert team.remote.text(saved.path) is None
    workspace.undo()
    assert team.round(keeper).delivered == 1
    assert has_title(team.remote.text(saved.path), "Hours")


def test_a_changed_body_is_a_conflict_that_holds_up_its_path_alone(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.round(keeper)
    known = workspace.search("first note").results[0]
    workspace.delete(id=known.id, delete_file=True)
    team.remote.commit({"memory/first.md": "# First\n\nStill needed.\n"})
    other = workspace.save(text="The gate opens at nine")
    done = team.round(keeper)
    assert (done.delivered, done.failed) == (1, 1)
    assert stage(workspace, "memory/first.md") == (Stage.FAILED, "conflict: the text was changed in git")
    assert stage(workspace, other.path)[0] is Stage.IN_GIT
    assert team.remote.text("memory/first.md") == "# First\n\nStill needed."
    health = workspace.health()
    assert [problem.message for problem in health.problems if problem.check == "saves"]
    assert not any(memory.path == "memory/first.md" for memory in workspace.list().memories), "it stays as accepted"
    assert team.projects.waiting() == {"shop": (0, 1)}
    assert team.projects.discard("shop") == 1
    team.round(keeper)
    assert "Still needed." in workspace.search("still needed").results[0].text
    assert team.projects.waiting() == {}


def test_a_name_that_git_gives_to_another_text_is_not_taken_from_it(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    saved = workspace.save(text="The gate opens at nine")
    assert saved.id is not None
    workspace.update(id=saved.id, title="Hours")
    team.remote.commit({saved.path: "# Mine\n\nA person was quicker.\n"})
    team.round(keeper)
    team.round(keeper)
    moved = workspace.load(saved.id).memory
    assert moved.path == saved.path.replace(".md", "-2.md")
    assert "The gate opens at nine" in (team.remote.text(moved.path) or "")
    assert has_title(team.remote.text(moved.path), "Hours")
    assert team.remote.text(saved.path) == "# Mine\n\nA person was quicker."
    assert titles(workspace) == {"First", "Hours", "Mine"}


@pytest.mark.parametrize("mode", ["100644", "120000"])
def test_a_file_or_link_with_the_name_of_a_folder_is_not_replaced_by_a_save(team: Team, mode: str) -> None:
    team.remote.commit({"specs/001-a/memory/a.md": "# A\n\nBeta gamma.\n"})
    team.remote.commit({"specs/002-b": "../src"}, mode=mode)
    workspace, keeper = team.replica(), team.keeper()
    team.round(keeper)
    below = workspace.save(text="The gate opens at nine", spec_folder="002-b", create=True)
    other = workspace.save(text="Winter hours begin in November", spec_folder="001-a", on_similar="distinct")
    done = team.round(keeper)
    assert (done.delivered, done.failed, done.problem) == (1, 1, None)
    assert team.remote.text("specs/002-b") == "../src"
    assert stage(workspace, below.path) == (Stage.FAILED, "conflict: specs/002-b is no folder in git")
    assert stage(workspace, other.path)[0] is Stage.IN_GIT
    assert workspace.search("when does the gate open").results[0].id == below.id
    team.remote.commit({"specs/002-b": None})
    assert team.projects.retry("shop") == 1
    assert team.round(keeper).delivered == 1
    assert "opens at nine" in (team.remote.text(below.path) or "")


def test_what_is_no_memory_in_git_by_now_holds_up_its_own_path_alone(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.round(keeper)
    known = workspace.search("first note").results[0]
    workspace.update(id=known.id, title="Renamed")
    new = workspace.save(text="The gate opens at nine")
    other = workspace.save(text="Winter hours begin in November", on_similar="distinct")
    team.remote.commit({"memory/first.md": "x" * ((1 << 20) + 1)})
    team.remote.commit({new.path: "elsewhere"}, mode="120000")
    team.round(keeper)
    done = team.round(keeper)
    assert done.problem is None
    assert stage(workspace, "memory/first.md") == (
        Stage.FAILED,
        "conflict: memory/first.md has 1,048,577 bytes in git",
    )
    assert team.remote.text(other.path)
    assert team.remote.text(new.path) == "elsewhere"
    assert new.id is not None
    moved = workspace.load(new.id).memory.path
    assert moved != new.path
    assert "opens at nine" in (team.remote.text(moved) or "")


def test_others_who_push_at_the_same_moment_lose_nothing(team: Team) -> None:
    pushes = iter(range(3))

    def push(step: str) -> None:
        if step == "committed" and (number := next(pushes, None)) is not None:
            team.remote.commit({f"memory/person-{number}.md": f"# Person {number}\n\nText {number}.\n"})

    workspace = team.replica()
    saved = workspace.save(text="The gate opens at nine")
    assert team.round(team.keeper(push)).delivered == 1
    assert team.remote.text(saved.path)
    assert all(team.remote.text(f"memory/person-{number}.md") for number in range(3))
    assert len(team.remote.operations()) == 1


def test_a_refused_push_is_tried_again_and_one_refused_file_stops_no_other(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.remote.hook(
        'while read old new ref; do if git show "$new" --name-only --format= $old..$new | grep -q forbidden;'
        " then echo no such names; exit 1; fi; done"
    )
    good = workspace.save(text="The gate opens at nine", on_similar="distinct")
    bad = workspace.save(
        context={"title": "Forbidden", "sessionSummary": "A quite different thing"}, on_similar="distinct"
    )
    assert "forbidden" in bad.path
    last = workspace.save(text="Winter hours begin in November", on_similar="distinct")
    done = team.round(keeper)
    assert (done.delivered, done.waiting) == (2, 1)
    reached, reason = stage(workspace, bad.path)
    assert reached is Stage.ACCEPTED
    assert "no such names" in (reason or "")
    assert team.remote.text(good.path)
    assert team.remote.text(last.path)
    assert workspace.search("quite different thing").results[0].id == bad.id
    assert any("no such names" in problem.message for problem in workspace.health().problems)
    team.remote.hook("exit 0")
    hurry(team)
    assert team.round(keeper).delivered == 1
    assert team.remote.text(bad.path)
    assert len(team.remote.operations()) == 3


def test_a_branch_that_accepts_nothing_is_not_asked_about_each_change(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    asked = team.remote.folder / "asked"
    team.remote.hook(f"echo asked >> {asked}; echo this branch is protected; exit 1")
    for number in range(20):
        workspace.save(text=f"The gate number {number} opens at nine", on_similar="distinct")
    for rounds in (1, 2):
        hurry(team)
        assert team.round(keeper).waiting == 20
        assert len(asked.read_text(encoding="utf-8").split()) < 20 * rounds
    assert any("this branch is protected" in problem.message for problem in workspace.health().problems)
    team.remote.hook("exit 0")
    hurry(team)
    assert team.round(keeper).delivered == 20
    assert len(set(team.remote.operations())) == 20


def test_a_push_that_hangs_is_tried_once_in_a_round_and_what_people_pushed_is_read(
    database: TeamDatabase, tmp_path: Path
) -> None:
    team = Team(database, tmp_path)
    limits = GitLimits(seconds=20)  # enough for each other command, however busy the machine is
    keeper = Keeper(database, settings=team.settings(), limits=limits, domain="memory.example")
    workspace = team.replica()
    asked = team.remote.folder / "asked"
    team.remote.hook(f"echo asked >> {asked}; sleep 600")
    for number in range(3):
        workspace.save(text=f"The gate number {number} opens at nine", on_similar="distinct")
    assert team.round(keeper).problem == "git push took more than 20 seconds"
    assert asked.read_text(encoding="utf-8").split() == ["asked"]
    assert "First" in titles(workspace)
    team.remote.hook("exit 0")
    assert team.round(keeper).delivered == 3
    keeper.close()
    team.close()


def test_a_repository_that_is_away_is_said_and_takes_nothing_away(team: Team, tmp_path: Path) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.round(keeper)
    away = tmp_path / "away"
    team.remote.folder.rename(away)
    saved = workspace.save(text="The gate opens at nine")
    done = team.round(keeper)
    assert done.problem
    assert workspace.search("gate").results[0].id == saved.id
    assert any(problem.check == "repository" for problem in workspace.health().problems)
    away.rename(team.remote.folder)
    assert team.round(keeper).delivered == 1
    assert not any(problem.check == "repository" for problem in workspace.health().problems)


class Killed(BaseException):
    """As if the process had died here."""


STEPS = ("leased", "fetched", "planned", "committed", "pushed", "delivered", "indexed")


@pytest.mark.parametrize("last", STEPS)
def test_a_worker_that_dies_at_any_step_leaves_everything_in_git_once(team: Team, last: str) -> None:
    workspace = team.replica()
    saved = [workspace.save(text=f"Note {word}", on_similar="distinct") for word in ("alpha", "beta")]
    assert saved[0].id is not None
    workspace.update(id=saved[0].id, title="Renamed")

    def die(step: str) -> None:
        if step == last:
            raise Killed

    with pytest.raises(Killed):
        team.keeper(die).round("shop")
    team.round()
    assert len(team.remote.operations()) == len(set(team.remote.operations())) == 3
    assert all(stage(workspace, one.path)[0] is Stage.IN_GIT for one in saved)
    assert has_title(team.remote.text(saved[0].path), "Renamed")
    assert workspace.ledger_verify().ok


@pytest.mark.parametrize("is_new_clone", [True, False])
def test_a_clock_that_is_years_behind_writes_nothing_twice(
    team: Team, monkeypatch: pytest.MonkeyPatch, is_new_clone: bool
) -> None:
    monkeypatch.setattr(
        Repository, "_environment", _behind(Repository._environment, GIT_COMMITTER_DATE="2001-01-01T00:00:00Z")
    )
    workspace, dies = team.replica(), iter([True])

    def die(step: str) -> None:
        if step == "pushed" and next(dies, False):
            raise Killed

    keeper = team.keeper(die)
    saved = workspace.save(text="The gate opens at nine")
    with pytest.raises(Killed):
        keeper.round("shop")
    team.remote.commit({saved.path: None, "memory/later.md": "# Later\n\nA person's.\n"})
    team.round(team.keeper() if is_new_clone else keeper)
    assert len(team.remote.operations()) == 1
    assert team.remote.text(saved.path) is None, "a person removed it after it was in git"


def _behind(environment: Callable[..., dict[str, str]], **more: str) -> Callable[..., dict[str, str]]:
    return lambda *given: {**environment(*given), **more}


def problems(workspace: Workspace, check: str = "saves") -> list[str]:
    return [str(problem.message) for problem in workspace.health().problems if problem.check == check]


def reset(team: Team, commit: str | None, branch: str = "main") -> None:
    team.remote.git("update-ref", f"refs/heads/{branch}", commit or "")


@pytest.mark.parametrize(
    ("way", "same_keeper"), [("reset", True), ("stale push", True), ("stale push", False), ("deleted branch", True)]
)
def test_a_save_whose_commit_a_force_push_drops_is_put_into_git_again(team: Team, way: str, same_keeper: bool) -> None:
    workspace, keeper = team.replica(), team.keeper()
    before = team.remote.tip()
    saved = workspace.save(text="The gate opens at nine")
    team.round(keeper)
    workspace.update(id=saved.id or 0, title="Hours")
    team.round(keeper)
    assert len(team.remote.operations()) == 2
    if way == "deleted branch":
        team.remote.git("update-ref", "-d", "refs/heads/main")
    else:
        reset(team, before)
    if way == "stale push":
        team.remote.commit({"memory/other.md": "# Other\n\nFrom an old clone.\n"})
    done = team.round(keeper if same_keeper else team.keeper())
    assert workspace.search("gate").results[0].id == saved.id
    if way == "deleted branch":  # by mistake, or renamed: an operator says that it is meant so
        assert "no branch main any more" in (done.problem or "")
        assert "First" in titles(workspace)
        team.projects.remove("shop")
        team.projects.add("shop", repository=str(team.remote.folder))
        team.round(keeper)
    if not same_keeper or way == "deleted branch":  # its commit is not in that clone, or nothing is there to compare
        assert ["retry" in told and "discard" in told for told in problems(workspace)] == [True]
        team.projects.retry("shop")
        team.round(keeper)
    assert stage(workspace, saved.path)[0] is Stage.IN_GIT
    assert has_title(team.remote.text(saved.path), "Hours")
    assert len(team.remote.operations()) == 1
    assert workspace.search("gate").results[0].id == saved.id
    assert not problems(workspace)
    assert team.round(keeper).delivered == 0


def test_what_is_dropped_twice_or_removed_by_the_new_history_waits_for_a_person(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    before = team.remote.tip()
    saved = workspace.save(text="The gate opens at nine")
    team.round(keeper)
    reset(team, before)
    assert team.round(keeper).delivered == 1
    reset(team, before)
    assert team.round(keeper).delivered == 0
    assert workspace.search("gate").results[0].id == saved.id
    assert "second time" in problems(workspace)[0]
    assert team.projects.discard("shop") == 1
    team.round(keeper)
    assert not workspace.search("gate").results
    assert not problems(workspace)
    known = workspace.search("first note").results[0]
    workspace.update(id=known.id, title="Renamed")
    team.round(keeper)
    reset(team, before)
    team.remote.commit({"memory/first.md": None, "memory/b.md": "# B\n\nNew.\n"})
    team.round(keeper)
    assert titles(workspace) == {"Renamed", "B"}
    assert "removed the file" in problems(workspace)[0]


def test_what_people_remove_after_a_rebase_or_a_squash_stays_removed(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    before = team.remote.tip() or ""
    rebased = workspace.save(text="The gate opens at nine")
    team.round(keeper)
    tree, message = team.remote.git("rev-parse", "main^{tree}"), team.remote.git("log", "-1", "--format=%B")
    reset(team, team.remote.git("commit-tree", tree, "-p", before, data=f"Reworded\n{message}\n".encode()))
    team.remote.commit({rebased.path: None})
    team.round(keeper)
    assert not workspace.search("gate").results, "its commit is there under another name, and a later one removed it"
    before = team.remote.tip() or ""
    squashed = workspace.save(text="The bridge closes at ten")
    team.round(keeper)
    tree = team.remote.git("rev-parse", "main^{tree}")
    reset(team, team.remote.git("commit-tree", tree, "-p", before, data=b"All in one\n"))
    team.round(keeper)
    assert workspace.search("bridge").results[0].id == squashed.id
    team.remote.commit({squashed.path: None})
    team.round(keeper)
    assert not workspace.search("bridge").results
    assert not problems(workspace)


def test_an_update_forgets_no_secret_that_was_left_out(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    key = "AKIA" + "Q3EGRZ7NWMK2XB5T"
    team.remote.commit({"memory/keys.md": f"# Keys\n\nThe access key of the shop is {key} today.\n"})
    team.round(keeper)
    known = workspace.search("access key of the shop").results[0]
    assert workspace._runtime.store.documents.get(known.id).redactions == 1
    for title in ("Renamed", "Renamed again"):
        workspace.update(id=known.id, title=title)
        assert workspace._runtime.store.documents.get(known.id).redactions == 1
    team.round(keeper)
    assert key in (team.remote.text("memory/keys.md") or "")
    assert has_title(team.remote.text("memory/keys.md"), "Renamed again")


def test_two_workers_that_both_believe_in_their_lease_write_once(team: Team) -> None:
    workspace = team.replica()
    workspace.save(text="The gate opens at nine")
    other = team.keeper()

    def both(step: str) -> None:
        if step == "committed":
            with team.database.transaction() as session:
                session.execute("DELETE FROM lease")
            team.round(other)

    assert team.round(team.keeper(both)).problem == "another replica looks after this project now"
    assert len(team.remote.operations()) == 1


def test_a_lease_is_one_replicas_until_it_runs_out(team: Team) -> None:
    with lease.held(team.database, "shop", "one") as one, lease.held(team.database, "shop", "two") as two:
        assert one is not None
        assert two is None
        assert team.keeper().round("shop") is None
    with team.database.transaction() as session:
        session.execute("INSERT INTO lease SELECT id, 'dead', now() - interval '1 second' FROM project")
    assert team.keeper().round("shop") is not None


def test_saves_go_to_their_own_branch_and_are_seen_over_the_other(database: TeamDatabase, tmp_path: Path) -> None:
    team = Team(database, tmp_path, save_branch="memories")
    try:
        workspace, keeper = team.replica(), team.keeper()
        saved = workspace.save(text="The gate opens at nine")
        team.round(keeper)
        assert team.remote.text(saved.path) is None
        assert team.remote.text(saved.path, branch="memories")
        team.remote.commit({"memory/first.md": "# First\n\nNewer on main.\n"})
        team.round(keeper)
        assert titles(workspace) == {"First", workspace.load(saved.id).memory.title}
        assert "Newer on main" in workspace.search("newer on main").results[0].text
    finally:
        team.close()


def test_a_path_on_its_way_is_not_touched_by_what_git_says_of_it(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.round(keeper)
    team.remote.hook("exit 1")
    known = workspace.search("first note").results[0]
    workspace.update(id=known.id, title="Accepted")
    team.remote.commit({"memory/first.md": "# First\n\nOlder than what is known.\n", "memory/b.md": "# B\n\nNew.\n"})
    team.round(keeper)
    assert titles(workspace) == {"Accepted", "B"}


def test_a_keeper_in_the_background_puts_what_is_accepted_into_git(team: Team) -> None:
    workspace, keeper, stopping = team.replica(), team.keeper(), threading.Event()
    thread = threading.Thread(target=keeper.run, args=(stopping,))
    thread.start()
    try:
        saved = workspace.save(text="The gate opens at nine")
        for _ in range(600):
            if stage(workspace, saved.path)[0] is Stage.IN_GIT:
                break
            stopping.wait(0.1)
        assert team.remote.text(saved.path)
    finally:
        stopping.set()
        thread.join(60)


def test_who_lost_the_lease_meanwhile_changes_nothing_by_what_git_was_then(team: Team) -> None:
    workspace, second = team.replica(), team.keeper()
    team.round(second)

    def stopped(step: str) -> None:
        if step != "fetched":
            return
        with team.database.transaction() as session:  # a process that slept for a minute
            session.execute("UPDATE lease SET held_until = now() - interval '1 second'")
        team.remote.commit({"memory/newer.md": "# Newer\n\nPushed meanwhile.\n"})
        assert team.round(second).mirrored.changed == 1

    first = team.keeper(step=stopped)
    assert "another replica" in (team.round(first).problem or "")
    assert titles(workspace) == {"First", "Newer"}
    project = team.projects.get("shop")
    assert (project.problem, project.branch_commit) == (None, team.remote.tip())


def test_a_trailer_in_a_commit_that_does_not_have_the_file_is_not_believed(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.round(keeper)
    saved = workspace.save(text="The gate opens at nine")
    with team.database.transaction() as session:
        row = session.row("SELECT id::text FROM outbox")
    assert row is not None
    tip = str(team.remote.tip())
    message = f"Nothing\n\nSpec-Kit-Memory-Operation: {row[0]}\n".encode()
    forged = team.remote.git("commit-tree", f"{tip}^{{tree}}", "-p", tip, data=message)
    team.remote.git("update-ref", "refs/heads/main", forged)
    assert team.round(keeper).delivered == 1
    assert "nine" in (team.remote.text(saved.path) or "")
    assert team.round(keeper).mirrored.gone == 0


def test_a_file_that_people_move_keeps_its_id(team: Team) -> None:
    workspace, keeper = team.replica(), team.keeper()
    team.round(keeper)
    before = workspace.search("the first note").results[0].id
    text = "# First\n\nThe first note of all.\n"
    team.remote.commit({"memory/first.md": None, "specs/001-x/memory/moved.md": text})
    team.round(keeper)
    result = workspace.list().memories
    assert [(memory.id, memory.path) for memory in result] == [(before, "specs/001-x/memory/moved.md")]


def test_a_project_that_fails_rests_longer_each_time_unless_it_is_called_for(team: Team) -> None:
    keeper = team.keeper()

    def failed(*, for_seconds: int, ago: int) -> list[str]:
        with team.database.transaction() as session:
            session.execute(
                "UPDATE served SET wanted_at = NULL, problem = 'away', problem_at = now() - make_interval(secs => %s),"
                " synced_at = now() - make_interval(secs => %s)",
                (ago, for_seconds + ago + 60),
            )
        return list(keeper.due())

    assert failed(for_seconds=0, ago=1) == []
    assert failed(for_seconds=0, ago=3) == ["shop"]
    assert failed(for_seconds=100, ago=90) == []
    assert failed(for_seconds=100, ago=110) == ["shop"]
    assert failed(for_seconds=86_400, ago=590) == []
    team.projects.request_sync("shop")
    assert keeper.due() == {"shop": True}
    assert failed(for_seconds=86_400, ago=610) == ["shop"]
