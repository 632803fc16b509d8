"""Who may see the page? A browser that opened the printed address, or whose user entered the server's token.

The token in the printed address is exchanged once for a cookie. Host and Origin are checked, so that another site can
neither reach the page through a name of its own nor post a form to it; every change also carries the CSRF token of its
session. The Content-Security-Policy lets the browser load only our own files.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

SESSION_SECONDS = 12 * 3600
MOST_SESSIONS = 200

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HOST = re.compile(r"(?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d{1,5})?", re.ASCII)  # a name with an optional port
LONGEST_ADDRESS = 4096  # an id in the path must have fewer than 4,300 digits, or int() raises
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer", which makes browsers send the Origin "null" with a form.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class Notice:
    """The result of a change, shown once on the next page, with the means to undo it."""

    text: str
    hints: tuple[str, ...] = ()
    operation: str = ""  # of the ledger, for undo
    failed: bool = False
    # The form that undoes a change that is not an operation of the ledger: its address and its fields.
    back_to: str = ""
    back_form: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Visit:
    """The session of one browser."""

    csrf: str
    until: float
    notices: list[Notice] = field(default_factory=list)

    def note(self, notice: Notice) -> None:
        self.notices.append(notice)

    def take_notices(self) -> list[Notice]:
        notices, self.notices = self.notices, []
        return notices


class PageAccess:
    """The sessions of one server. `token` can be entered in a form to open one; with `open_to_all`, none is needed."""

    def __init__(
        self,
        *,
        names: Sequence[str],
        token: str | None = None,
        open_to_all: bool = False,
        port: int = 0,
        secure: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.names = tuple(name.lower() for name in names)
        self.port = port
        self.secure = secure
        self.open_to_all = open_to_all
        self._token = None if token is None else _digest(token)
        self._clock = clock
        self._lock = threading.Lock()
        self._invitations: set[bytes] = set()
        self._visits: dict[bytes, Visit] = {}

    @property
    def cookie(self) -> str:
        """The cookie's name. It contains the port, because browsers send a host's cookies to servers on all ports."""
        return f"skm_{self.port}"

    @property
    def takes_token(self) -> bool:
        """Can a visitor sign in by entering a token?"""
        return self._token is not None

    def invite(self) -> str:
        """A token for the printed address; it works once."""
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._invitations.add(_digest(token))
        return token

    def exchange(self, token: str) -> str | None:
        """The cookie for an invitation; None if it is unknown or was used already."""
        digest = _digest(token)
        with self._lock:
            if digest not in self._invitations:
                return None
            self._invitations.remove(digest)
        return self.admit()

    def sign_in(self, token: str) -> str | None:
        """The cookie for the server's own token; None for any other token."""
        return self.admit() if self._token and hmac.compare_digest(_digest(token), self._token) else None

    def admit(self) -> str:
        value, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            self._visits = {key: visit for key, visit in self._visits.items() if visit.until > now}
            while len(self._visits) >= MOST_SESSIONS:
                del self._visits[next(iter(self._visits))]
            self._visits[_digest(value)] = Visit(csrf=secrets.token_urlsafe(32), until=now + SESSION_SECONDS)
        return value

    def visit(self, request: Request) -> Visit | None:
        value = request.cookies.get(self.cookie, "")
        with self._lock:
            visit = self._visits.get(_digest(value)) if value else None
        return visit if visit is not None and visit.until > self._clock() else None

    def leave(self, request: Request) -> None:
        with self._lock:
            self._visits.pop(_digest(request.cookies.get(self.cookie, "")), None)

    # --- origin of a request

    def is_named(self, host: str) -> bool:
        """Is this one of the server's own names, and not one that an attacker points at this machine?"""
        return _HOST.fullmatch(host) is not None and _name_of(f"//{host}") in self.names

    def is_from_here(self, headers: Mapping[str, str]) -> bool:
        """Does a change come from our own page? Browsers send these headers; a client without them has no cookie that
        another site could abuse."""
        origin = headers.get("origin")
        if origin is not None:
            scheme, _, place = origin.lower().partition("://")
            if scheme not in ("http", "https") or place != headers.get("host", "").lower() or not self.is_named(place):
                return False
        return headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")

    def is_meant(self, visit: Visit, token: str) -> bool:
        return hmac.compare_digest(_digest(token), _digest(visit.csrf))


def _name_of(address: str) -> str:
    try:
        name = (urlsplit(address).hostname or "").lower()
    except ValueError:
        return ""
    return f"[{name}]" if ":" in name else name


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


class GuardedPage:
    """Middleware that refuses requests for other host names, and adds the security headers to every answer."""

    def __init__(self, app: ASGIApp, access: PageAccess) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # only HTTP is served
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message["headers"]}
                added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                if b"cache-control" not in there:
                    added.append((b"cache-control", b"no-store"))
                message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in there)]
            await send(message)

        if len(hosts) != 1 or not self._access.is_named(hosts[0]):
            from starlette.responses import PlainTextResponse

            refusal = PlainTextResponse("This server is not reached by that name.\n", status_code=421)
            await refusal(scope, receive, send_with_headers)
            return
        if len(scope["path"]) > LONGEST_ADDRESS:
            from starlette.responses import PlainTextResponse

            refusal = PlainTextResponse("There is no such page.\n", status_code=414)
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)
