"""Whose access token is this, and what does it allow? We are an OAuth 2.1 resource server and nothing more.

Tokens are JWTs that the issuer signed for us. A request without a valid token is told where to get one (RFC 9728); a
request whose token lacks a scope is told all the scopes it needs. The token of each request identifies the caller and
thereby what they see. A static token is accepted as well if the operator gave one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl

import anyio.to_thread
import jwt
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl, TypeAdapter

from spec_kit_memory.caller import Caller
from spec_kit_memory.core.memory import Tier
from spec_kit_memory.errors import AccessDenied, DatabaseBusy, DatabaseUnusable
from spec_kit_memory.parameters import Request
from spec_kit_memory.serve.http.issuer import ALGORITHMS, Issuer, IssuerUnavailable, checked_url
from spec_kit_memory.serve.tools import BY_NAME, Tool
from spec_kit_memory.team.rights import User

if TYPE_CHECKING:
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

READ, WRITE, ADMIN = "memory:read", "memory:write", "memory:admin"
_UNAVAILABLE = 503
SCOPES = (READ, WRITE, ADMIN)
# Tools that change everyone's memories at once, or cannot be undone.
ADMIN_TOOLS = frozenset(("checkpoint_restore", "checkpoint_delete"))
# Arguments that need the admin scope. `memory_update` needs it only to make a rule, which affects everyone's answers.
ADMIN_ARGUMENTS: Mapping[str, str] = {
    "memory_health": "repair",
    "memory_index_scan": "force",
    "memory_update": "importance_tier",
}

# The type of RFC 9068, and that of issuers that do not follow it. Other types are for logouts, proofs and the like.
TOKEN_TYPES = frozenset(("at+jwt", "jwt"))
LONGEST_TOKEN = 16 * 1024
LONGEST_SUBJECT = 500
LEEWAY_SECONDS = 30.0  # clocks differ
STATIC_ISSUER = "local"
PATH_OF_METADATA = "/.well-known/oauth-protected-resource"


# --- scopes ----------------------------------------------------------------------------------------


def needed_scopes(tool: str, arguments: object = None) -> tuple[str, ...]:
    """All scopes that a call needs. Tools that write also return existing memories, so they need READ as well."""
    tool_row = BY_NAME.get(tool)
    values = arguments if isinstance(arguments, Mapping) else {}
    if tool_row is None or tool_row.reads:
        return (READ,)
    if tool in ADMIN_TOOLS or any(_is_for_admins(tool, str(name), value) for name, value in values.items()):
        return SCOPES
    return (READ,) if tool == "memory_health" else (READ, WRITE)


def _is_for_admins(tool: str, name: str, value: object) -> bool:
    if name.replace("_", "").casefold() != ADMIN_ARGUMENTS.get(tool, "").replace("_", ""):
        return False
    if tool == "memory_update":
        return str(value).strip().casefold() == Tier.CONSTITUTIONAL
    return value not in (None, False, "", "false")


def authorize(ctx: Any, tool: Tool, request: Request) -> None:
    """Check the scopes again on the parsed request, because `SignIn` and the SDK may parse one body differently."""
    admin_arguments = ADMIN_ARGUMENTS.get(tool.name)
    arguments = {admin_arguments: getattr(request, admin_arguments)} if admin_arguments else {}
    missing = set(needed_scopes(tool.name, arguments)) - set(_access(ctx).scopes)
    if missing:
        raise AccessDenied(
            f"{tool.name} needs the scope {' '.join(sorted(missing))}, which this access token does not have.",
            hint="Sign in again and allow it.",
        )


def _access(ctx: Any) -> AccessToken:
    user = ctx.request.scope.get("user") if ctx.request is not None else None
    if not isinstance(user, AuthenticatedUser):
        raise AccessDenied("Nobody is signed in.", hint="Send an access token.")
    return user.access_token


# --- callers ---------------------------------------------------------------------------------------


def caller_of(ctx: Any, caller: Caller) -> Caller:
    """The process's caller with the user who signed in; unchanged for a static token, except for the connection."""
    access = _access(ctx)
    connection = str(ctx.request.headers.get("mcp-session-id", ""))
    if access.subject is None:
        return replace(caller, connection=connection)
    issuer = str((access.claims or {})["iss"])
    user = User(issuer, access.subject)
    return replace(
        caller,
        scope=replace(caller.scope, user=user.id),
        user=str(user),
        connection=connection,
        rules_others=ADMIN in access.scopes,
    )


# --- tokens ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TokenChecker:
    """The SDK's `TokenVerifier`: the claims of a valid access token, or None. The result does not contain the token."""

    issuer: Issuer
    audience: str
    static_token: str | None = field(default=None, repr=False)
    now: Callable[[], float] = time.time
    kept_claims: frozenset[str] = frozenset()  # claims that rights are derived from

    async def verify_token(self, token: str) -> AccessToken | None:
        if self.static_token is not None and _equal_secrets(token, self.static_token):
            return AccessToken(token="", client_id=STATIC_ISSUER, scopes=list(SCOPES), claims={"iss": STATIC_ISSUER})
        if len(token) > LONGEST_TOKEN:
            return None
        # Keys may have to be fetched, which must not block other requests.
        return await anyio.to_thread.run_sync(self.check, token)

    def check(self, token: str) -> AccessToken | None:
        try:
            claims = self._claims(token)
            expires_at = int(claims["exp"])
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            # Only the exception's type: its message may contain parts of the token.
            logger.info("an access token was refused: %s", type(error).__name__)
            return None
        subject = claims["sub"]
        client = claims.get("client_id") or claims.get("azp") or subject
        return AccessToken(
            token="",
            client_id=str(client)[:LONGEST_SUBJECT],
            scopes=[scope for scope in _scopes(claims) if scope in SCOPES],
            expires_at=expires_at,
            resource=self.audience,
            subject=subject,
            claims={name: claims[name] for name in ("iss", *self.kept_claims) if name in claims},
        )

    def _claims(self, token: str) -> dict[str, Any]:
        header = jwt.get_unverified_header(token)
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS or "crit" in header:
            raise jwt.InvalidAlgorithmError
        if str(header.get("typ") or "JWT").lower().removeprefix("application/") not in TOKEN_TYPES:
            raise jwt.InvalidTokenError
        key = self.issuer.find_key(key_id if isinstance(key_id, str) else None, str(algorithm))
        if key is None:
            raise jwt.InvalidKeyError
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[str(algorithm)],
            options={
                "require": ["exp", "iss", "aud", "sub"],
                # Times are checked below against `self.now`, which tests can replace.
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
            # As the operator wrote it, and as our metadata has it, which clients request tokens for.
            audience=[self.audience, str(_url(self.audience))],
            issuer=self.issuer.url,
        )
        self._check_times(claims)
        subject = claims["sub"]
        # A token that is bound to its client's key (`cnf`) needs a proof that we cannot check.
        if not isinstance(subject, str) or not _is_name(subject) or "cnf" in claims:
            raise jwt.InvalidTokenError
        return claims

    def _check_times(self, claims: Mapping[str, Any]) -> None:
        now = self.now()
        times = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
        if any(isinstance(value, bool) or not isinstance(value, int | float) for value in times.values()):
            raise jwt.DecodeError
        if not now - LEEWAY_SECONDS < times["exp"]:
            raise jwt.ExpiredSignatureError
        if any(times.get(name, now) > now + LEEWAY_SECONDS for name in ("nbf", "iat")):
            raise jwt.ImmatureSignatureError


def _equal_secrets(given: str, wanted: str) -> bool:
    given_digest, wanted_digest = (
        hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in (given, wanted)
    )
    return hmac.compare_digest(given_digest, wanted_digest)


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    """The token's scopes: `scope` as in RFC 9068 (a string), or `scp` as of some issuers (a string or a list)."""
    value = claims.get("scope", claims.get("scp", ""))
    if isinstance(value, str):
        return value.split()
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _is_name(subject: str) -> bool:
    """Can this subject be stored, logged and shown? Control characters and halves of characters cannot."""
    unfit = any(unicodedata.category(character) in ("Cc", "Cs") for character in subject[:LONGEST_SUBJECT])
    return 0 < len(subject) <= LONGEST_SUBJECT and not unfit


class Checker(Protocol):
    async def verify_token(self, token: str) -> AccessToken | None: ...


# --- requests --------------------------------------------------------------------------------------


class SignIn:
    """Middleware that passes on requests whose token has the scopes they need, and tells all others what is missing."""

    def __init__(self, app: ASGIApp, checker: Checker, *, audience: str | None, largest_body_bytes: int) -> None:
        """`audience` None: there is no issuer, and only static tokens are accepted."""
        self._app = app
        self._checker = checker
        self._largest = largest_body_bytes
        self._metadata_url = str(build_resource_metadata_url(_url(audience))) if audience else ""

    @staticmethod
    def routes(issuer: Issuer, audience: str) -> list[Route]:
        """The metadata that names the issuer (RFC 9728); readable without a token."""
        return create_protected_resource_routes(
            resource_url=_url(checked_url(audience, option="--audience")),
            authorization_servers=[_url(issuer.url)],
            scopes_supported=list(SCOPES),
            resource_name="Spec Kit Memory",
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _has_token_in_query(scope):
            # Addresses end up in logs and browser histories, so such a token may have leaked.
            text = "An access token belongs into the Authorization header."
            await self._refuse(send, 400, error="invalid_request", text=text)
            return
        if scope["path"].startswith(PATH_OF_METADATA):
            await self._app(scope, receive, send)
            return
        values = [value for name, value in scope.get("headers", ()) if name.lower() == b"authorization"]
        scheme, _, token = values[0].partition(b" ") if len(values) == 1 else (b"", b"", b"")
        if scheme.lower() != b"bearer" or not token.strip():
            await self._refuse(send, 401, scopes=(READ,), text="Sign in first: an access token is needed.")
            return
        try:
            access = await self._checker.verify_token(token.strip().decode("latin-1"))
        except (IssuerUnavailable, DatabaseUnusable, DatabaseBusy) as error:
            is_issuer = isinstance(error, IssuerUnavailable)
            where = "The issuer's keys cannot be fetched" if is_issuer else "The database does not answer"
            text = f"{where}, so that no token can be checked now."
            await self._refuse(send, _UNAVAILABLE, text=text)
            return
        if access is None:
            text = "The access token is not valid, or not for this server."
            await self._refuse(send, 401, error="invalid_token", scopes=(READ,), text=text)
            return
        body = b""
        if scope["method"] == "POST":
            body, receive = await _read_body(receive, self._largest)
        needed = _needed_by(body)
        if set(needed) - set(access.scopes):
            text = "The access token does not allow this."
            await self._refuse(send, 403, error="insufficient_scope", scopes=needed, text=text)
            return
        await self._app({**scope, "user": AuthenticatedUser(access)}, receive, send)

    async def _refuse(
        self, send: Send, status: int, *, text: str, error: str | None = None, scopes: Sequence[str] = ()
    ) -> None:
        """Refuse a request as in RFC 6750 and RFC 9728; the answer repeats nothing from the request."""
        parts = [f'error="{error}", error_description="{text}"'] if error else []
        parts += [f'scope="{" ".join(scopes)}"'] if scopes else []
        parts += [f'resource_metadata="{self._metadata_url}"'] if self._metadata_url else []
        hint = f"{self._metadata_url} names the issuer." if self._metadata_url else "Ask the operator for a token."
        if status == _UNAVAILABLE:
            hint = "The token may be good: try again in a moment."
        content: dict[str, str] = {"code": "E011", "message": text, "hint": hint}
        body = json.dumps({"error": content}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        headers += [(b"retry-after", b"30")] if status == _UNAVAILABLE else []
        if status in (400, 401, 403):
            headers.append((b"www-authenticate", f"Bearer {', '.join(parts)}".strip().encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _url(text: str) -> AnyHttpUrl:
    return TypeAdapter(AnyHttpUrl, config={"url_preserve_empty_path": True}).validate_python(text)


def _has_token_in_query(scope: Scope) -> bool:
    query = scope.get("query_string", b"").decode("latin-1")
    return any(name.lower() in ("access_token", "token") for name, _ in parse_qsl(query, keep_blank_values=True))


def _needed_by(body: bytes) -> tuple[str, ...]:
    """All scopes that the messages in a request body need; invalid bodies are left to the SDK."""
    try:
        content = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        return (READ,)
    needed = {READ}
    for message in content if isinstance(content, list) else [content]:
        params = message.get("params") if isinstance(message, dict) else None
        if isinstance(params, dict) and message.get("method") == "tools/call":
            needed |= set(needed_scopes(str(params.get("name")), params.get("arguments")))
    return tuple(scope for scope in SCOPES if scope in needed)


async def _read_body(receive: Receive, largest: int) -> tuple[bytes, Receive]:
    """The body, and a `receive` that replays it. A body that is too large counts as empty, and the SDK refuses it."""
    messages: list[Message] = []
    size = 0
    while size <= largest:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            break
    buffered = iter(messages)

    async def replay() -> Message:
        return next(buffered, None) or await receive()

    whole = b"".join(message.get("body", b"") for message in messages)
    return (whole if size <= largest else b""), replay
