"""How does an operator run a team server? `skm team` for the projects that it serves, `skm team token` for access."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from spec_kit_memory.answers import Answer
from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import BadParameter, MissingParameter
from spec_kit_memory.serve.cli.commands import COMMANDS, argument, command, flag
from spec_kit_memory.serve.cli.invocation import Invocation

if TYPE_CHECKING:
    from spec_kit_memory.team.database import TeamDatabase
    from spec_kit_memory.team.keeper import Round
    from spec_kit_memory.team.projects import Project
    from spec_kit_memory.team.static_tokens import StaticToken

__all__ = ["COMMANDS"]


@dataclass(frozen=True, kw_only=True)
class ProjectRow:
    name: str
    repository: str
    is_git: bool
    branch: str
    save_branch: str
    synced_at: datetime | None = None
    commit: str | None = None
    accepted: int = 0  # changes that are not in git yet
    failed: int = 0
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProjectAnswer(Answer):
    """`hook_secret` is what the git host signs its calls with; it is shown this once."""

    project: ProjectRow
    hook_secret: str = ""


@dataclass(frozen=True, kw_only=True)
class ProjectListAnswer(Answer):
    projects: tuple[ProjectRow, ...]


@dataclass(frozen=True, kw_only=True)
class SyncRow:
    project: str
    summary: str
    changed: int = 0
    gone: int = 0
    delivered: int = 0
    waiting: int = 0
    failed: int = 0
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class SyncAnswer(Answer):
    rounds: tuple[SyncRow, ...]


@dataclass(frozen=True, kw_only=True)
class TokenAnswer(Answer):
    """`token` is the secret, which is shown this once."""

    id: int
    token: str = ""


@dataclass(frozen=True, kw_only=True)
class TokenListAnswer(Answer):
    tokens: tuple[StaticToken, ...]


def team_database(session: Invocation) -> TeamDatabase:
    """The team server's database, named by `--index`, the environment or the user's configuration."""
    from spec_kit_memory import settings as settings_module
    from spec_kit_memory.team.database import TeamDatabase

    own = settings_module.user_state_folder(otherwise="set XDG_STATE_HOME")
    settings = settings_module.load(own, overrides=session.flags)  # without any workspace's configuration
    if not settings.on_server:
        raise MissingParameter(
            "A team server needs PostgreSQL.", hint="Name it: --index postgresql://HOST/DATABASE, or index.url."
        )
    return TeamDatabase(settings.index.url)


def _row(project: Project, accepted: int = 0, failed: int = 0) -> ProjectRow:
    return ProjectRow(
        name=project.name,
        repository=project.repository,
        is_git=project.is_git,
        branch=project.branch,
        save_branch=project.save_branch,
        synced_at=project.synced_at,
        commit=project.branch_commit,
        accepted=accepted,
        failed=failed,
        problem=project.problem,
    )


@command(
    "team add",
    "Serve a project: a git repository, or a plain folder of this machine.",
    argument("name"),
    click.Option(["--repo"], required=True, metavar="URL|PATH", help="An https or ssh address, or a path."),
    click.Option(["--branch"], help="What is read; by default main."),
    click.Option(["--save-branch"], help="Where saves are pushed to; by default the same."),
    flag("--rotate", "It is served already: give it a new webhook secret, and keep its branches."),
)
def add_project(
    session: Invocation, name: str, repo: str, branch: str | None, save_branch: str | None, rotate: bool
) -> None:
    from spec_kit_memory.team.projects import Projects

    projects = Projects(team_database(session))
    is_known = not rotate and projects.has_index(name)
    added = projects.add(name, repository=repo, branch=branch, save_branch=save_branch, rotate=rotate)
    summary = f"{name} is served from {added.project.repository}"
    advice: tuple[str, ...] = (
        f"skm team token create --user NAME --project {name} --role writer: let somebody in",
        f"the git host may call /hooks/{name} after each push, signed with this secret, which is shown once",
    )
    row = _row(added.project, *projects.waiting().get(name, (0, 0)))
    if is_known:
        summary += f"; its index from before is there{_not_in_git(row, ', to be put into this repository')}"
        advice += (f"if this is another project, `skm team remove {name}` now and give it another name",)
    session.show(ProjectAnswer(outcome=summary, advice=advice, project=row, hook_secret=added.hook_secret))
    if not session.json:
        session.write(added.hook_secret)


@command(
    "team remove", "Serve a project no more. Its index stays, and is there again when it is added.", argument("name")
)
def remove_project(session: Invocation, name: str) -> None:
    from spec_kit_memory.team.projects import Projects

    projects = Projects(team_database(session))
    row = _row(projects.remove(name), *projects.waiting().get(name, (0, 0)))
    session.show(ProjectAnswer(outcome=f"{name} is not served any more{_not_in_git(row)}", project=row))


def _not_in_git(row: ProjectRow, also: str = "") -> str:
    count = row.accepted + row.failed
    return (
        f", with {counted(count, 'change')} that {'is' if count == 1 else 'are'} not in git yet{also}" if count else ""
    )


@command("team list", "The projects that are served, and how each is doing.")
def list_projects(session: Invocation) -> None:
    from spec_kit_memory.serve.cli.answer_view import Table
    from spec_kit_memory.team.projects import Projects

    projects = Projects(team_database(session))
    waiting = projects.waiting()
    rows_shown = tuple(_row(project, *waiting.get(project.name, (0, 0))) for project in projects.list())
    rows = tuple(
        (
            project.name,
            project.repository,
            project.branch,
            f"{project.synced_at:%Y-%m-%d %H:%M}" if project.synced_at else "not yet",
            _state(project),
        )
        for project in rows_shown
    )
    table = Table(("name", "from", "branch", "read", "state"), rows, frozenset())
    session.show(ProjectListAnswer(outcome=counted(len(rows_shown), "project"), projects=rows_shown), blocks=[table])


def _state(row: ProjectRow) -> str:
    if row.problem:
        return row.problem
    parts = [f"{row.accepted} on the way"] if row.accepted else []
    parts += [f"{row.failed} failed"] if row.failed else []
    if not parts and row.is_git and row.synced_at is None:
        return "waits for a server to read it"
    return ", ".join(parts) or "in step"


@command(
    "team sync",
    "Read the repositories now and put into git what was accepted; of all projects without a name.",
    argument("name", required=False),
    click.Option(["--data"], type=click.Path(file_okay=False), help="The server's own folder."),
    flag("--later", "Have a running server do it, soon."),
    flag("--retry", "Also what failed, as if nobody had tried."),
    flag("--discard", "Give up what failed: what git says of these files holds. History keeps the text."),
)
def sync_projects(
    session: Invocation, name: str | None, data: str | None, later: bool, retry: bool, discard: bool
) -> None:
    from spec_kit_memory import settings as settings_module
    from spec_kit_memory.team.keeper import Keeper
    from spec_kit_memory.team.projects import Projects

    if retry and discard:
        raise BadParameter("--retry and --discard exclude each other.", hint="Leave one of them out.")
    database = team_database(session)
    projects = Projects(database)
    names = [projects.get(name).name] if name else [project.name for project in projects.list()]
    for project_name in names:
        if discard:
            projects.discard(project_name)
        if retry:
            projects.retry(project_name)
        if later:
            projects.request_sync(project_name)
    if later:
        rows = tuple(SyncRow(project=project_name, summary="a server reads it soon") for project_name in names)
        session.show(SyncAnswer(outcome=f"{counted(len(names), 'project')} will be read soon", rounds=rows))
        return
    own = settings_module.user_state_folder(otherwise="name a folder with --data")
    settings = settings_module.load(Path(data).resolve() if data else own / "team", overrides=session.flags)
    keeper = Keeper(database, settings=settings)
    try:
        rounds = tuple(_round(project_name, keeper.round(project_name)) for project_name in names)
    finally:
        keeper.close()
    session.show(SyncAnswer(outcome="; ".join(f"{row.project}: {row.summary}" for row in rounds), rounds=rounds))


def _summary(done: Round) -> str:
    summary = f"{counted(done.mirrored.changed, 'file')} read, {done.mirrored.gone} gone, {done.delivered} put into git"
    summary += f", {done.waiting} tried again later" if done.waiting else ""
    summary += f", {done.failed} failed" if done.failed else ""
    return f"{summary}; {done.problem}" if done.problem else summary


def _round(name: str, done: Round | None) -> SyncRow:
    if done is None:
        return SyncRow(project=name, summary="a server is at it")
    return SyncRow(
        project=name,
        summary=_summary(done),
        changed=done.mirrored.changed,
        gone=done.mirrored.gone,
        delivered=done.delivered,
        waiting=done.waiting,
        failed=done.failed,
        problem=done.problem,
    )


@command(
    "team token create",
    "Make a token for a person. It is shown once, and kept as a hash.",
    click.Option(["--user"], required=True, help="Whose token it is."),
    click.Option(["--project"], multiple=True, help="A project that it is for; may be given several times."),
    click.Option(
        ["--role"],
        type=click.Choice(("reader", "writer", "admin", "operator")),
        default="reader",
        show_default=True,
        help="What it may do there; an operator reads /metrics, and nothing of a project.",
    ),
    click.Option(["--expires"], default="90d", show_default=True, help="e.g. 90d, 12h, 4w, or never."),
)
def create_token(session: Invocation, user: str, project: tuple[str, ...], role: str, expires: str) -> None:
    from spec_kit_memory.team.static_tokens import Tokens, read_duration

    lifetime = None if expires == "never" else read_duration(expires)
    token, secret = Tokens(team_database(session)).create(user, projects=project, role=role, expires=lifetime)
    session.say("This is shown once; keep it where only its user can read it.")
    if not session.json:
        session.write(secret)
        return
    session.show(TokenAnswer(outcome=f"a token for {user}", id=token.id, token=secret))


@command("team token list", "The tokens there are, without their secrets.")
def list_tokens(session: Invocation) -> None:
    from spec_kit_memory.serve.cli.answer_view import Table
    from spec_kit_memory.team.static_tokens import Tokens

    tokens = tuple(Tokens(team_database(session)).list())
    rows = tuple(
        (str(token.id), token.user, token.role, ", ".join(token.projects), f"{token.created_at:%Y-%m-%d}", _ends(token))
        for token in tokens
    )
    table = Table(("id", "user", "role", "projects", "made", "ends"), rows, frozenset({0}))
    session.show(TokenListAnswer(outcome=counted(len(tokens), "token"), tokens=tokens), blocks=[table])


def _ends(token: StaticToken) -> str:
    if token.revoked_at:
        return f"revoked {token.revoked_at:%Y-%m-%d}"
    return f"{token.expires_at:%Y-%m-%d}" if token.expires_at else "never"


@command(
    "team token revoke",
    "Refuse a token from now on, on every replica within seconds.",
    argument("number", type=click.IntRange(1), metavar="ID"),
)
def revoke_token(session: Invocation, number: int) -> None:
    from spec_kit_memory.team.static_tokens import Tokens

    revoked = Tokens(team_database(session)).revoke(number)
    session.show(TokenAnswer(outcome=f"token {revoked.id} of {revoked.user} is revoked", id=revoked.id))
