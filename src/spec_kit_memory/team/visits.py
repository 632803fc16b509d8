"""Who is signed in to the page, and which changes are not in git yet? Rows that every replica sees."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.static_tokens import StaticToken, token_from

LASTING = timedelta(hours=12)
MOST_NOTICES = 10
_COLUMNS = "token.id, subject, projects, role, created_at, expires_at, revoked_at"


def csrf_of(cookie: str) -> str:
    """The CSRF token that every change in a session sends, derived from its cookie, which other sites cannot read."""
    return hmac.new(cookie.encode("utf-8", "replace"), b"csrf", hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A change that was accepted and is not in git."""

    path: str
    kind: str
    stage: str
    reason: str | None
    author: str | None
    accepted_at: datetime


class Visits:
    def __init__(self, database: TeamDatabase) -> None:
        self._database = database

    def begin(self, token: StaticToken) -> str:
        """Begin a session; returns its cookie, always a new one, so that none can be prepared for another user."""
        cookie = secrets.token_urlsafe(32)
        with self._database.transaction() as session:
            session.execute("DELETE FROM visit WHERE until < now()")
            session.execute(
                "INSERT INTO visit (digest, token_id, until) VALUES (%s, %s, now() + %s)",
                (_digest(cookie), token.id, LASTING),
            )
        return cookie

    def token(self, cookie: str) -> StaticToken | None:
        """The token that this session began with, if both are still valid."""
        with self._database.transaction() as session:
            row = session.row(
                f"SELECT {_COLUMNS} FROM visit JOIN token ON token.id = token_id WHERE visit.digest = %s"
                " AND until > now() AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())",
                (_digest(cookie),),
            )
        return None if row is None else token_from(row)

    def end(self, cookie: str) -> None:
        with self._database.transaction() as session:
            session.execute("DELETE FROM visit WHERE digest = %s", (_digest(cookie),))

    def note(self, cookie: str, notice: Mapping[str, Any]) -> None:
        with self._database.transaction() as session:
            row = session.row("SELECT notices FROM visit WHERE digest = %s FOR UPDATE", (_digest(cookie),))
            notices = [*json.loads(row[0] if row else "[]"), dict(notice)][-MOST_NOTICES:]
            sql = "UPDATE visit SET notices = %s WHERE digest = %s"
            session.execute(sql, (json.dumps(notices).replace("\\u0000", "\\ufffd"), _digest(cookie)))

    def take_notices(self, cookie: str) -> list[dict[str, Any]]:
        with self._database.transaction() as session:
            row = session.row("SELECT notices FROM visit WHERE digest = %s FOR UPDATE", (_digest(cookie),))
            if row is None or row[0] == "[]":
                return []
            session.execute("UPDATE visit SET notices = '[]' WHERE digest = %s", (_digest(cookie),))
        return list(json.loads(row[0]))

    def outgoing(self, project: str, *, limit: int = 100) -> Sequence[Outgoing]:
        """The changes of a project that are not in git yet, oldest first."""
        with self._database.transaction() as session:
            session.row(
                "SELECT set_config('skm.project', (SELECT id FROM project WHERE name = %s)::text, true)", (project,)
            )
            rows = session.rows(
                "SELECT path, kind, stage, reason, author, accepted_at FROM outbox"
                " WHERE project_id = (SELECT id FROM project WHERE name = %s) AND stage <> 'in git'"
                " ORDER BY sequence LIMIT %s",
                (project, limit),
            )
        return [Outgoing(*row) for row in rows]


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()
