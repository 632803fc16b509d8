"""Whose token is it, and what may its user do in which project? Both static and access tokens yield an `Access`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from spec_kit_memory.errors import AccessDenied
from spec_kit_memory.team.rights import LOCAL, Access, Grant, Role, User, role_of_scopes, roles_by_claims, scopes_of
from spec_kit_memory.team.static_tokens import PREFIX, StaticToken, TokenCache

if TYPE_CHECKING:
    from spec_kit_memory.serve.http.sign_in import TokenChecker
    from spec_kit_memory.team.projects import Projects

BELIEVED_SECONDS = 2.0
_ROLES = "spec-kit-memory/roles"  # among the claims of a checked token; no issuer's claim is kept under this name
_OPERATOR = "spec-kit-memory/operator"


class ServedNames:
    """The names of the served projects, cached briefly: a removed one disappears for all callers within seconds."""

    def __init__(self, projects: Projects, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._projects = projects
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: tuple[float, tuple[str, ...]] | None = None

    def __call__(self) -> tuple[str, ...]:
        with self._lock:
            now, names = self._clock(), self.cached()
            if names is None:
                names = tuple(project.name for project in self._projects.list())
                self._seen = now, names
            return names

    def cached(self) -> tuple[str, ...] | None:
        """The names, or None if the database would have to be asked."""
        seen = self._seen
        return seen[1] if seen and 0 <= self._clock() - seen[0] < BELIEVED_SECONDS else None


@dataclass(frozen=True)
class TeamChecker:
    """The SDK's `TokenVerifier` for a team server. Rights are looked up with each request."""

    tokens: TokenCache
    names: ServedNames
    jwt: TokenChecker | None = None
    grants: Sequence[Grant] = field(default=())

    async def verify_token(self, token: str) -> AccessToken | None:
        if token.startswith(PREFIX):
            cached, names = self.tokens.cached(token), self.names.cached()
            if cached is not None and names is not None:  # a thread would cost more than the check
                return _access_of_static(cached[0], names)
            return await anyio.to_thread.run_sync(self._static, token)
        access = await self.jwt.verify_token(token) if self.jwt else None
        if access is None or access.subject is None:
            return None
        return await anyio.to_thread.run_sync(self._signed_in, access)

    def token(self, secret: str) -> StaticToken | None:
        return self.tokens.check(secret)

    def access(self, token: StaticToken) -> Access:
        """The access of a static token, in the projects that exist now."""
        return _limited(token.access, self.names())

    def _static(self, secret: str) -> AccessToken | None:
        return _access_of_static(self.token(secret), self.names())

    def _signed_in(self, access: AccessToken) -> AccessToken:
        claims = access.claims or {}
        roles = roles_by_claims(self.grants, {**claims, "sub": access.subject}, self.names())
        user = User(str(claims["iss"]), str(access.subject))
        return _access_token(Access(user, roles), scopes=access.scopes, expires_at=access.expires_at)


def _limited(access: Access, names: Sequence[str]) -> Access:
    roles = {name: role for name, role in access.roles.items() if name in names}
    return Access(access.user, roles, operator=access.operator)


def _access_of_static(token: StaticToken | None, names: Sequence[str]) -> AccessToken | None:
    # Scopes limit nothing here: a static token, unlike a sign-in, cannot obtain more of them. Its role decides.
    return None if token is None else _access_token(_limited(token.access, names), scopes=scopes_of(Role.ADMIN))


def _access_token(access: Access, *, scopes: Sequence[str], expires_at: int | None = None) -> AccessToken:
    roles = {name: role.label for name, role in access.roles.items()}
    return AccessToken(
        token="",
        client_id=str(access.user),
        scopes=list(scopes),
        expires_at=expires_at,
        subject=access.user.subject,
        claims={"iss": access.user.issuer, _ROLES: roles, _OPERATOR: access.operator},
    )


def access_of(ctx: Any) -> Access:
    """The access of a request's sender, limited by the scopes of its token."""
    user = ctx.request.scope.get("user") if ctx.request is not None else None
    if not isinstance(user, AuthenticatedUser):
        raise AccessDenied("Nobody is signed in.", hint="Send a token.")
    return read_access(user.access_token)


def read_access(token: AccessToken) -> Access:
    claims: Mapping[str, Any] = token.claims or {}
    roles = {str(name): Role.named(str(role)) for name, role in dict(claims.get(_ROLES) or {}).items()}
    user = User(str(claims.get("iss", LOCAL)), str(token.subject))
    return Access(user, roles, ceiling=role_of_scopes(token.scopes), operator=bool(claims.get(_OPERATOR)))
