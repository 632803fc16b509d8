"""How does a replica synchronise projects with git? In rounds: fetch, commit and push what was accepted, index.

Only the holder of a project's lease runs a round. Whatever fails is retried after increasing pauses and reported in
the project's health; what was accepted remains searchable.
"""

from __future__ import annotations

import json
import logging
import os
import random
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue

from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.files.scan import Sync
from spec_kit_memory.index.postgres.engine import PostgresIndex
from spec_kit_memory.index.postgres.outbox import Outbox, Waiting
from spec_kit_memory.settings import Settings
from spec_kit_memory.team import commits, lease, redelivery
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.lease import Lease
from spec_kit_memory.team.mirror import Mirror, Mirrored
from spec_kit_memory.team.project_workspace import CHECKOUT, index_place
from spec_kit_memory.team.projects import Project, Projects
from spec_kit_memory.team.repository import GitError, GitLimits, GitTimeoutError, Repository
from spec_kit_memory.team.scratch import private_folder, remove_folder
from spec_kit_memory.workspace import utc_now

logger = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0  # between two fetches without a request
LOOK_SECONDS = 1.0
WORKERS = 4  # projects processed at once, so that a slow repository delays only itself
PATIENT_WORKERS = 2  # as many more for those that failed: a host that does not answer delays only its own projects
_TRIES = 5  # pushes per round, if others keep pushing
_MOST_REFUSALS = 12  # pushes per round; 8 find the one that is refused among all that are due
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 600.0
_MOST_DOUBLINGS = 10  # more than the longest pause needs; thousands of tries would be more than a number can hold

Step = Callable[[str], None]
Tips = dict[str, str | None]  # the commit that each branch is at


@dataclass(slots=True)
class Round:
    """What one round did."""

    project: str
    delivered: int = 0
    failed: int = 0
    waiting: int = 0  # not in git yet, tried again later
    mirrored: Mirrored = field(default_factory=Mirrored)
    problem: str | None = None


@dataclass(slots=True)
class _OpenProject:
    """What this replica keeps open for a project in git."""

    index: PostgresIndex
    repository: Repository
    mirror: Mirror


class Keeper:
    """Runs the rounds of all projects. `settings` are the operator's; their root is the server's data folder."""

    def __init__(
        self,
        database: TeamDatabase,
        *,
        settings: Settings,
        now: Callable[[], datetime] = utc_now,
        interval_seconds: float = INTERVAL_SECONDS,
        limits: GitLimits | None = None,
        domain: str = "",
        step: Step = lambda name: None,
    ) -> None:
        self._database = database
        self._projects = Projects(database)
        self._settings = settings
        self._now = now
        self._interval_seconds = interval_seconds
        self._limits = limits
        self._domain = domain or socket.gethostname() or "localhost"
        self._step = step
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._opened: dict[str, _OpenProject] = {}
        self._at_work: set[str] = set()

    # --- life

    def run(self, stopping: threading.Event) -> None:
        """Run rounds of all projects that are due, until `stopping` is set."""
        sound, failing = SimpleQueue[str | None](), SimpleQueue[str | None]()
        # Daemons: a process that ends does not wait for a slow repository.
        workers = [
            (queue, threading.Thread(target=self._work, args=(queue,), name="skm-keeper", daemon=True))
            for queue, count in ((sound, WORKERS), (failing, PATIENT_WORKERS))
            for _ in range(count)
        ]
        for _, worker in workers:
            worker.start()
        while not stopping.wait(LOOK_SECONDS * random.uniform(0.7, 1.3)):
            try:
                for name, is_failing in self.due().items():
                    if name not in self._at_work:
                        self._at_work.add(name)
                        (failing if is_failing else sound).put(name)
            except SpecKitMemoryError as error:  # the database is unavailable; try again
                logger.warning("%s %s", error.code, error.message)
                stopping.wait(LOOK_SECONDS)
        for queue, _ in workers:
            queue.put(None)
        for _, worker in workers:
            worker.join()
        self.close()

    def _work(self, queue: SimpleQueue[str | None]) -> None:
        while (name := queue.get()) is not None:
            try:
                self.round(name)
            except SpecKitMemoryError as error:
                logger.warning("%s %s", error.code, error.message)
            finally:
                self._at_work.discard(name)

    def close(self) -> None:
        for opened in self._opened.values():
            opened.index.close()
            remove_folder(opened.mirror.settings.root)
        self._opened.clear()

    def due(self) -> dict[str, bool]:
        """The projects that are due: requested, not fetched for a while, or with changes to commit; did the last round
        of each fail?"""
        with self._database.transaction() as session:
            rows = session.rows(
                "SELECT name, problem_at IS NOT NULL FROM served JOIN project ON id = served.project_id"
                " LEFT JOIN lease ON lease.project_id = served.project_id"
                " WHERE (held_until IS NULL OR held_until < now())"
                # The pause grows as long as rounds fail, unless a round is requested.
                " AND (problem_at IS NULL OR (wanted_at > problem_at AND wanted_at <= now())"
                " OR problem_at < now() - make_interval(secs => least(%s, greatest(%s,"
                " extract(epoch FROM problem_at - coalesce(synced_at, added_at)) - %s))::double precision))"
                " AND (synced_at IS NULL OR synced_at < now() - make_interval(secs => %s)"
                " OR (wanted_at > synced_at AND wanted_at <= now())"
                " OR EXISTS (SELECT 1 FROM outbox WHERE outbox.project_id = served.project_id AND stage = 'accepted'"
                " AND due_at <= now()))",
                (_LONGEST_PAUSE, _FIRST_PAUSE, self._interval_seconds, self._interval_seconds),
            )
        return {str(name): bool(is_failing) for name, is_failing in rows}

    # --- one round

    def round(self, name: str) -> Round | None:
        """One round of this project; None if another replica is running one."""
        project = self._projects.get(name)
        with lease.held(self._database, name, self._holder) as held:
            if held is None:
                return None
            done = Round(name)
            self._step("leased")
            started = self._time()
            try:
                if project.is_git:
                    self._git_round(project, held, done)
                else:
                    self._folder_round(project, done)
            except SpecKitMemoryError as error:
                done.problem = error.message
            except OSError as error:  # a failure of this machine: disk or processes
                done.problem = error.strerror or type(error).__name__
            except Exception as error:  # a bug ends this round, but not the worker
                logger.exception("project %s", name)
                done.problem = f"the server failed ({type(error).__name__}); its log says where"
            if done.problem is not None:
                if name in self._opened:
                    self._opened[name].mirror.forget()
                logger.warning("project %s: %s", name, done.problem)
            if not held.lost.is_set():  # otherwise the other replica reports
                self._note(name, done, started)
            return done

    def _time(self) -> datetime:
        with self._database.transaction() as session:
            row = session.row("SELECT now()")
        assert row is not None
        moment = row[0]
        assert isinstance(moment, datetime)
        return moment

    def _note(self, name: str, done: Round, started: datetime) -> None:
        """Record the result of a round; a request made while it ran stays open."""
        with self._database.transaction() as session:
            number = "(SELECT id FROM project WHERE name = %s)"
            if done.problem is None:
                session.execute(
                    "UPDATE served SET synced_at = %s, problem = NULL, problem_at = NULL, skipped = %s"
                    f" WHERE project_id = {number}",
                    (started, json.dumps(done.mirrored.skipped), name),
                )
            else:
                sql = f"UPDATE served SET problem = %s, problem_at = now() WHERE project_id = {number}"
                session.execute(sql, (done.problem, name))

    def _folder_round(self, project: Project, done: Round) -> None:
        settings = replace(self._project_settings(project), root=Path(project.repository))
        index = PostgresIndex(self._database.url, project.name, checkout=CHECKOUT)
        try:
            report = Sync(index, settings, now=self._now).scan(count=False)
        finally:
            index.close()
        done.mirrored.changed = report.new + report.modified + report.reindexed + report.moved
        done.mirrored.gone = report.deleted

    def _git_round(self, project: Project, held: Lease, done: Round) -> None:
        opened = self._open(project, held)
        tips = opened.repository.fetch()
        _require_branch(project, tips, earlier=project.branch_commit)
        if tips[project.branch] is None and (others := opened.repository.other_branches()):
            # Only in an empty repository do saves begin a branch: here it would have nothing of what is in the others.
            raise GitError(
                f"the repository has no branch {project.branch}, but {', '.join(others[:5])}:"
                " remove the project and add it with the branch that is to be read"
            )
        if project.branch_commit is None:  # noted before anything is pushed, so that a renamed branch is noticed
            self._note_tips(project, tips)
        self._step("fetched")
        self._accept_dropped(opened, tips)
        try:
            assert opened.index.outbox is not None
            tips = _Delivery(opened, held, opened.index.outbox, done, tips, self._step).run()
        finally:
            self._accept_dropped(opened, tips)  # the branch may have been rewritten between two pushes
            done.mirrored = opened.mirror.bring(tips[project.branch], tips[project.save_branch])
        self._step("indexed")
        held.require()
        self._note_tips(project, tips)

    def _note_tips(self, project: Project, tips: Tips) -> None:
        with self._database.transaction() as session:
            session.execute(
                "UPDATE served SET branch_commit = %s, save_commit = %s"
                " WHERE project_id = (SELECT id FROM project WHERE name = %s)",
                (tips[project.branch], tips[project.save_branch], project.name),
            )

    def _accept_dropped(self, opened: _OpenProject, tips: Tips) -> None:
        project = opened.repository.project
        saved, read = tips[project.save_branch], tips[project.branch]
        redelivery.accept_dropped(opened.repository, opened.index, (saved, read))

    def _project_settings(self, project: Project) -> Settings:
        return replace(self._settings, index=index_place(self._database, project), extra_paths=())

    def _open(self, project: Project, held: Lease) -> _OpenProject:
        opened = self._opened.get(project.name)
        if opened is not None:
            opened.mirror.require_lease = held.require
        if opened is not None and _same_source(opened.repository.project, project):
            with self._database.transaction() as session:  # has another replica run a round in the meantime?
                row = session.row(
                    "SELECT branch_commit, save_commit FROM served JOIN project ON id = project_id WHERE name = %s",
                    (project.name,),
                )
            if row != self._last_seen(opened):
                opened.mirror.forget()
            return opened
        if opened is not None:
            remove_folder(opened.mirror.settings.root)
        folder = self._settings.root / "projects" / project.name
        settings = replace(self._project_settings(project), root=private_folder(folder, "mirror-"))
        index = PostgresIndex(self._database.url, project.name, checkout=CHECKOUT, accepts=True)
        repository = Repository(folder / "repository.git", project, domain=self._domain, limits=self._limits)
        opened = _OpenProject(
            index, repository, Mirror(repository, index, settings, self._now, require_lease=held.require)
        )
        self._opened[project.name] = opened
        return opened

    def _last_seen(self, opened: _OpenProject) -> tuple[str | None, str | None]:
        project = opened.repository.project
        return opened.repository.commit(project.branch), opened.repository.commit(project.save_branch)


@dataclass(slots=True)
class _Delivery:
    """Puts the accepted changes of one project into git, in as few pushes as possible."""

    opened: _OpenProject
    lease: Lease
    outbox: Outbox
    done: Round
    tips: Tips
    step: Step
    refusals: int = 0  # pushes that were refused in this round

    def run(self) -> Tips:
        for _ in range(_TRIES):
            waiting = self.outbox.due()
            if not waiting or not self._push(waiting):
                break
        return self.tips

    def _push(self, waiting: Sequence[Waiting]) -> bool:
        """Push these changes once; True if another push should follow at once."""
        repository = self.opened.repository
        project = repository.project
        expected = self.tips[project.save_branch]
        plan = commits.plan(repository, expected or self.tips[project.branch], waiting)
        for sequence, reason in plan.failed.items():
            self.outbox.failed(sequence, reason)
            self.done.failed += 1
        for change, data in plan.renamed:
            self._rename(change, data, parent=plan.parent)
        if plan.done:
            self.outbox.delivered(plan.done, branch=project.save_branch)
            self.done.delivered += len(plan.done)
        if not plan.written:
            return bool(plan.renamed or plan.failed)
        self.step("planned")
        root = self.opened.mirror.settings.root
        tip, where = commits.commit(repository, plan, root.parent / f"{root.name}.index")
        self.step("committed")
        if self.lease.lost.is_set() or tip is None:
            raise GitError("another replica looks after this project now")
        try:
            repository.push(tip, branch=project.save_branch, expected=expected)
        except GitError as error:
            return self._refused([change for change, _ in plan.written], error)
        self.step("pushed")
        self.outbox.delivered(where, branch=project.save_branch)
        self.step("delivered")
        self.done.delivered += len(where)
        self.tips = {**self.tips, project.save_branch: tip}
        return True

    def _refused(self, waiting: Sequence[Waiting], error: GitError) -> bool:
        """Handle a failed push: retry on a moved branch, else bisect to find the change that is refused.

        A branch that accepts nothing is not asked about each change: after some refusals all that is left waits.
        """
        if isinstance(error, GitTimeoutError):
            raise error  # every further push could take as long
        repository = self.opened.repository
        project, earlier = repository.project, self.tips
        self.tips = repository.fetch()
        _require_branch(project, self.tips, earlier=earlier[project.branch])
        if self.tips[project.save_branch] != earlier[project.save_branch]:
            return True
        self.refusals += 1
        if len(waiting) == 1 or self.refusals >= _MOST_REFUSALS:
            self._postpone(waiting, error.message)
            return False
        middle = len(waiting) // 2
        first_half, second_half = self._push(waiting[:middle]), self._push(waiting[middle:])
        return first_half or second_half

    def _postpone(self, waiting: Sequence[Waiting], reason: str) -> None:
        """All with the pause of the newest, so that they are tried together again."""
        pause = _FIRST_PAUSE * 2 ** min(*(change.tries for change in waiting), _MOST_DOUBLINGS)
        pause = min(pause, _LONGEST_PAUSE) * random.uniform(0.5, 1.5)
        self.outbox.postponed([change.sequence for change in waiting], reason, seconds=pause)
        self.done.waiting += len(waiting)

    def _rename(self, change: Waiting, data: bytes, *, parent: str | None) -> None:
        """Another text has this name in git: give this one a new name; its id stays."""
        mirror, old = self.opened.mirror, change.operation.path
        names = commits.free_name(self.opened.repository, parent, old, taken={old})
        new = next(name for name in names if not mirror.is_taken(name))
        mirror.move(old, new, data, also=lambda: self.outbox.renamed(change.sequence, old=old, new=new))
        self.step("renamed")


def _require_branch(project: Project, tips: Tips, *, earlier: str | None) -> None:
    """Raise if the branch that is read was there and is gone: it was renamed, or deleted by mistake.

    That does not mean that its memories were removed, and a new branch of the old name would have them twice.
    """
    if tips[project.branch] is None and earlier is not None:
        raise GitError(
            f"the repository has no branch {project.branch} any more: what was in it stays found;"
            " remove the project and add it with the branch that it has now"
        )


def _same_source(one: Project, other: Project) -> bool:
    return (one.repository, one.branch, one.save_branch) == (other.repository, other.branch, other.save_branch)
