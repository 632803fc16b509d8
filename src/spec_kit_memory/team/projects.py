"""Which projects does the team server serve, and from where? One row each, kept for all replicas."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from spec_kit_memory.errors import BadParameter, FileMissing, Invalid
from spec_kit_memory.team.database import Row, TeamDatabase
from spec_kit_memory.team.hook_signatures import new_secret

# Safe as the name of a folder, in an address and in a log.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_TAKEN_NAMES = ("all", "constitutional", "folder")  # `projects: ["all"]`, memory://constitutional, memory://folder/X
# Close to git's own rules: no hyphen at the start, no part that ends in .lock, no character that git forbids.
_BRANCH = re.compile(r"(?![-/])(?!.*(?:\.\.|@\{|//|/\.|\.lock(?:/|$)))[^\x00-\x20\x7f~^:?*\[\\]{1,200}(?<![./])")
# Neither user nor host begins with a dash: ssh would treat it as an option.
_PART = r"[^\s\x00-\x1f/@-][^\s\x00-\x1f/@]*"
_ADDRESS = re.compile(rf"(?:https|ssh)://(?:{_PART}@)?{_PART}(?:/[^\s\x00-\x1f]*)?")
_SSH = re.compile(
    r"(?:[A-Za-z0-9._][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?![:/-])[^\s\x00-\x1f]+"
)  # git@host:path

_COLUMNS = (
    "name, repository, is_git, branch, save_branch, added_at, synced_at, branch_commit, save_commit, problem, wanted_at"
)


@dataclass(frozen=True, slots=True)
class Project:
    """`name` is the `project_id` everywhere. A plain folder has no branches: its files are the project."""

    name: str
    repository: str
    is_git: bool = True
    branch: str = "main"
    save_branch: str = "main"
    added_at: datetime | None = None
    synced_at: datetime | None = None  # when its repository was last read
    branch_commit: str | None = None
    save_commit: str | None = None
    problem: str | None = None  # why the last round was incomplete
    wanted_at: datetime | None = None  # when an early read was requested


@dataclass(frozen=True, slots=True)
class Added:
    project: Project
    hook_secret: str  # shown once; the git host signs its webhook calls with it


class Projects:
    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def add(
        self,
        name: str,
        *,
        repository: str,
        branch: str | None = None,
        save_branch: str | None = None,
        rotate: bool = False,
    ) -> Added:
        """Serve a project. `rotate` gives one that is served already a new webhook secret.

        It keeps its branches unless others are named: saves that go to a branch for review do not go elsewhere.
        """
        project = _checked(name, repository, branch or "main", save_branch or branch or "main")
        served = self.find(name)
        if served is not None:
            read = branch or served.branch
            kept = read if served.save_branch == served.branch else served.save_branch
            project = replace(project, branch=read, save_branch=save_branch or kept)
        secret = new_secret()
        with self._database.transaction() as session:
            number = session.project(name)
            added = session.row(
                "INSERT INTO served (project_id, repository, is_git, branch, save_branch, hook_secret, wanted_at)"
                " VALUES (%s, %s, %s, %s, %s, %s, now()) ON CONFLICT (project_id) DO UPDATE SET"
                " branch = excluded.branch, save_branch = excluded.save_branch, hook_secret = excluded.hook_secret,"
                " wanted_at = now() WHERE %s AND served.repository = excluded.repository RETURNING 1",
                (number, project.repository, project.is_git, project.branch, project.save_branch, secret, rotate),
            )
        if added is None:
            present = self.get(name).repository
            raise BadParameter(f"the project {name} is served already, from {present}", hint="remove it first")
        return Added(self.get(name), secret)

    def remove(self, name: str) -> Project:
        """Stop serving it. Its index is kept, and is available again when the project is added again.

        Its tokens lose their right to it, so that they do not apply to another project of this name later.
        """
        project = self.get(name)
        with self._database.transaction() as session:
            number = "(SELECT id FROM project WHERE name = %s)"
            session.execute(f"DELETE FROM lease WHERE project_id = {number}", (name,))
            session.execute(f"DELETE FROM served WHERE project_id = {number}", (name,))
            session.execute(
                "UPDATE token SET projects = array_remove(projects, %s) WHERE %s = ANY (projects)", (name, name)
            )
        return project

    def list(self) -> list[Project]:
        with self._database.transaction() as session:
            rows = session.rows(f"SELECT {_COLUMNS} FROM served JOIN project ON id = project_id ORDER BY name")
        return [_project(row) for row in rows]

    def get(self, name: str) -> Project:
        project = self.find(name)
        if project is None:
            raise FileMissing(f"there is no project {name} here", hint="look at the list of projects")
        return project

    def find(self, name: str) -> Project | None:
        with self._database.transaction() as session:
            sql = f"SELECT {_COLUMNS} FROM served JOIN project ON id = project_id WHERE name = %s"
            row = session.row(sql, (name,))
        return None if row is None else _project(row)

    def hook_secret(self, name: str) -> str | None:
        """The secret that signs webhook calls for the project; None if there is no such project."""
        if not _NAME.fullmatch(name):
            return None
        with self._database.transaction() as session:
            sql = "SELECT hook_secret FROM served JOIN project ON id = project_id WHERE name = %s"
            row = session.row(sql, (name,))
        return None if row is None else str(row[0])

    def waiting(self) -> dict[str, tuple[int, int]]:
        """For each project with entries in its outbox: the numbers of waiting and of failed changes."""
        with self._database.transaction() as session:
            rows = session.rows(
                "SELECT name, count(*) FILTER (WHERE stage = 'accepted'), count(*) FILTER (WHERE stage = 'failed')"
                " FROM outbox JOIN project ON project.id = project_id WHERE stage <> 'in git' GROUP BY name"
            )
        return {str(name): (int(accepted), int(failed)) for name, accepted, failed in rows}

    def has_index(self, name: str) -> bool:
        """Has this name an index already, perhaps from when it was served before?"""
        with self._database.transaction() as session:
            number = session.row("SELECT id FROM project WHERE name = %s", (name,))
            if number is None:
                return False
            session.row("SELECT set_config('skm.project', %s, true)", (str(number[0]),))
            row = session.row("SELECT last_memory > 0 FROM counter WHERE project_id = %s", number)
        return row is not None and bool(row[0])

    def retry(self, name: str) -> int:
        """Make failed changes, and those that wait for a retry, due now; returns how many."""
        with self._database.transaction() as session:
            return session.execute(
                "UPDATE outbox SET stage = 'accepted', due_at = now(), ended_at = NULL"
                " WHERE stage <> 'in git' AND project_id = (SELECT id FROM project WHERE name = %s)",
                (name,),
            )

    def discard(self, name: str) -> int:
        """Drop failed changes and those queued behind them, so that git's version applies; returns how many."""
        with self._database.transaction() as session:
            return session.execute(
                "DELETE FROM outbox AS this USING outbox AS failed, project WHERE project.name = %s"
                " AND this.project_id = project.id AND failed.project_id = project.id AND failed.path = this.path"
                " AND failed.stage = 'failed' AND this.sequence >= failed.sequence AND this.stage <> 'in git'",
                (name,),
            )

    def request_sync(self, name: str, *, pause_seconds: float = 0.0) -> None:
        """Request an early read of its repository by the replica that holds its lease.

        With a pause, requests that follow the last one too closely are combined into one at the end of the pause,
        for all replicas together, so that no push is missed.
        """
        with self._database.transaction() as session:
            session.execute(
                "UPDATE served SET wanted_at = CASE WHEN %s <= 0.0 THEN now() WHEN wanted_at > now() THEN wanted_at"
                " ELSE greatest(now(), wanted_at + make_interval(secs => %s)) END"
                " WHERE project_id = (SELECT id FROM project WHERE name = %s)",
                (pause_seconds, pause_seconds, name),
            )


def _project(row: Row) -> Project:
    return Project(*row)


def _checked(name: str, repository: str, branch: str, save_branch: str) -> Project:
    problems = []
    if name.lower() in _TAKEN_NAMES:
        problems.append(f"{name!r} means something else in an address or a search")
    if not _NAME.fullmatch(name):
        problems.append(f"{name!r} is no name for a project: letters, digits, dots, hyphens, up to 100")
    problems += [f"{name!r} is no name of a branch" for name in (branch, save_branch) if not _BRANCH.fullmatch(name)]
    folder = None if is_address(repository) else _folder(repository)
    if folder is None and not is_address(repository):
        problems.append(f"{repository!r} is neither an https or ssh address nor a folder on this machine")
    if problems:
        raise Invalid("; ".join(problems), hint="nothing was added", problems=problems)
    is_git = folder is None or _is_repository(folder)
    return Project(name, repository if folder is None else str(folder), is_git, branch, save_branch)


def is_address(repository: str) -> bool:
    """Is this safe to pass to git as an address? It must not be read as an option or a program to run."""
    return bool(_ADDRESS.fullmatch(repository) or _SSH.fullmatch(repository))


def _folder(repository: str) -> Path | None:
    if not repository or "\0" in repository or repository.startswith("-"):
        return None
    real = Path(os.path.realpath(Path(repository).expanduser()))
    return real if real.is_dir() else None


def _is_repository(folder: Path) -> bool:
    """Is it a bare repository or a checkout? Else it is a plain folder, whose files are the project."""
    bare = (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()
    return bare or (folder / ".git").exists()
