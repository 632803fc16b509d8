"""Which static tokens are there? Rows with a hash each: a token is shown once, when it is created.

Replicas cache a token's row for a moment only, so a revoked token does not work for longer than that anywhere.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from spec_kit_memory.errors import BadParameter, FileMissing, MissingParameter
from spec_kit_memory.team.database import Row, TeamDatabase
from spec_kit_memory.team.rights import LOCAL, Access, Role, User

PREFIX = "skmt_"  # so that secret scanners recognise tokens
OPERATOR = "operator"
BELIEVED_SECONDS = 2.0  # a revoked token must be refused within 5
_MOST_BELIEVED = 10_000
_LONGEST = 200  # characters of a token
_COLUMNS = "id, subject, projects, role, created_at, expires_at, revoked_at"
_SUBJECT = re.compile(r"[^\s@\x00-\x1f][^@\x00-\x1f]{0,199}")
_DURATION = re.compile(r"([1-9]\d{0,4})\s*([hdw])")
_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A token without its secret."""

    id: int
    user: str
    projects: tuple[str, ...]
    role: str  # reader, writer, admin, or operator
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def access(self) -> Access:
        user = User(LOCAL, self.user)
        if self.role == OPERATOR:
            return Access(user, operator=True)
        return Access(user, dict.fromkeys(self.projects, Role.named(self.role)))


def read_duration(text: str) -> timedelta:
    """90d, 12h or 4w."""
    parts = _DURATION.fullmatch(text.strip().lower())
    if parts is None:
        raise BadParameter(f"{text!r} is no length of time.", hint="Use e.g. 90d, 12h or 4w.")
    return int(parts[1]) * _UNITS[parts[2]]


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class Tokens:
    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def create(
        self, user: str, *, projects: Sequence[str], role: str, expires: timedelta | None = None
    ) -> tuple[StaticToken, str]:
        """Create a token; returns it with its secret, which is not stored."""
        if not _SUBJECT.fullmatch(user):
            raise BadParameter(f"{user!r} is no name for a user.", hint="Up to 200 characters, without @.")
        names = list(dict.fromkeys(projects))
        if role != OPERATOR:
            role = Role.named(role).label
            if not names:
                raise MissingParameter("A token needs a project.", hint="Name one.")
        elif names:
            raise BadParameter("An operator's token is for no project.", hint="Leave it out.")
        secret = PREFIX + secrets.token_urlsafe(32)
        with self._database.transaction() as session:
            sql = "SELECT name FROM served JOIN project ON id = project_id WHERE name = ANY(%s)"
            missing = sorted(set(names) - {str(row[0]) for row in session.rows(sql, (names,))})
            if missing:
                raise FileMissing(
                    f"There is no project {', '.join(missing)} here.",
                    hint="Add it first.",
                )
            row = session.row(
                "INSERT INTO token (digest, subject, projects, role, expires_at)"
                f" VALUES (%s, %s, %s, %s, now() + %s) RETURNING {_COLUMNS}",
                (_digest(secret), user, names, role, expires),
            )
        assert row is not None
        return token_from(row), secret

    def list(self) -> list[StaticToken]:
        with self._database.transaction() as session:
            return [token_from(row) for row in session.rows(f"SELECT {_COLUMNS} FROM token ORDER BY id")]

    def revoke(self, number: int) -> StaticToken:
        with self._database.transaction() as session:
            sql = f"UPDATE token SET revoked_at = coalesce(revoked_at, now()) WHERE id = %s RETURNING {_COLUMNS}"
            row = session.row(sql, (number,))
        if row is None:
            raise FileMissing(f"There is no token {number}.", hint="Look at the list of tokens.")
        return token_from(row)

    def check(self, secret: str) -> StaticToken | None:
        """The token with this secret, if it is valid now."""
        with self._database.transaction() as session:
            sql = f"SELECT {_COLUMNS} FROM token WHERE digest = %s AND revoked_at IS NULL"
            row = session.row(f"{sql} AND (expires_at IS NULL OR expires_at > now())", (_digest(secret),))
        return None if row is None else token_from(row)

    def people(self, projects: Sequence[str]) -> dict[str, dict[str, str]]:
        """The users with static tokens for these projects: roles by user, by project."""
        people_by_project: dict[str, dict[str, str]] = {name: {} for name in projects}
        with self._database.transaction() as session:
            rows = session.rows(
                f"SELECT {_COLUMNS} FROM token WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())"
                " AND projects && %s",
                (list(projects),),
            )
        for token in map(token_from, rows):
            for name in set(token.projects) & set(people_by_project):
                role = people_by_project[name].get(token.user)
                if role is None or Role.named(role) < Role.named(token.role):
                    people_by_project[name][token.user] = token.role
        return people_by_project


def token_from(row: Row) -> StaticToken:
    number, subject, projects, role, created_at, expires_at, revoked_at = row
    return StaticToken(number, subject, tuple(projects), role, created_at, expires_at, revoked_at)


class TokenCache:
    """Recently read tokens, so that not every request waits for the database."""

    def __init__(self, tokens: Tokens, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokens = tokens
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, StaticToken | None]] = {}

    def check(self, secret: str) -> StaticToken | None:
        now, cached = self._clock(), self.cached(secret)
        if cached is not None or not _is_plausible(secret):
            return cached[0] if cached else None
        token = self._tokens.check(secret)
        with self._lock:
            if len(self._seen) >= _MOST_BELIEVED:
                self._seen.clear()
            self._seen[_digest(secret)] = now, token
        return token

    def cached(self, secret: str) -> tuple[StaticToken | None] | None:
        """What `check` returns, in a tuple; None if it would have to ask the database."""
        seen = self._seen.get(_digest(secret)) if _is_plausible(secret) else None
        return (seen[1],) if seen and 0 <= self._clock() - seen[0] < BELIEVED_SECONDS else None


def _is_plausible(secret: str) -> bool:
    return secret.startswith(PREFIX) and len(secret) <= _LONGEST
