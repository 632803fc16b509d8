"""How does an operator give people access to a team server? `skm team token`: create, list and revoke static tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from spec_kit_memory.answers import Answer
from spec_kit_memory.core.lean_dataclass import dataclass
from spec_kit_memory.core.wording import counted
from spec_kit_memory.errors import MissingParameter
from spec_kit_memory.serve.cli.commands import COMMANDS, argument, command
from spec_kit_memory.serve.cli.invocation import Invocation

if TYPE_CHECKING:
    from spec_kit_memory.team.database import TeamDatabase
    from spec_kit_memory.team.static_tokens import StaticToken

__all__ = ["COMMANDS", "team_database"]


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
def create(session: Invocation, user: str, project: tuple[str, ...], role: str, expires: str) -> None:
    from spec_kit_memory.team.static_tokens import Tokens, read_duration

    lifetime = None if expires == "never" else read_duration(expires)
    token, secret = Tokens(team_database(session)).create(user, projects=project, role=role, expires=lifetime)
    session.say("This is shown once; keep it where only its user can read it.")
    if not session.json:
        session.write(secret)
        return
    session.show(TokenAnswer(outcome=f"a token for {user}", id=token.id, token=secret))


@command("team token list", "The tokens there are, without their secrets.")
def list_(session: Invocation) -> None:
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
def revoke(session: Invocation, number: int) -> None:
    from spec_kit_memory.team.static_tokens import Tokens

    revoked = Tokens(team_database(session)).revoke(number)
    session.show(TokenAnswer(outcome=f"token {revoked.id} of {revoked.user} is revoked", id=revoked.id))
