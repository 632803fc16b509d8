"""How is a workspace served over HTTP? On this machine only, unless there is a token.

Host and Origin are checked on every request, so that a web page cannot reach a server on
loopback through a name of its own. Beyond loopback every request carries a bearer token.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec_kit_memory.errors import BadParameter, FileMissing, MissingParameter
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace, must_exist, open_at

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["BearerToken", "application", "is_loopback", "read_token", "serve_http"]

VARIABLE = "SPEC_KIT_MEMORY_TOKEN"
# Shorter ones can be guessed over a fast network.
TOKEN_LENGTH = 16
PATH = "/mcp"


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def read_token(host: str, *, token_file: str | None, environ: Mapping[str, str]) -> str | None:
    """The token to ask for, or None on loopback without one."""
    if token_file:
        try:
            token = Path(token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FileMissing(
                f"The token file {token_file!r} cannot be read: {error}.", hint="Name a text file with one line."
            ) from error
    else:
        token = environ.get(VARIABLE, "").strip()
    if not token and not token_file and is_loopback(host):
        return None
    if not token:
        raise MissingParameter(
            f"Serving on {host!r}, which others can reach, needs a bearer token.",
            hint=f"Put one into {VARIABLE} or a file named with --token-file.",
        )
    if len(token) < TOKEN_LENGTH or not token.isascii() or any(sign.isspace() for sign in token):
        raise BadParameter(
            f"The bearer token must have at least {TOKEN_LENGTH} ASCII characters and no space.",
            hint='Make one with `python -c "import secrets; print(secrets.token_urlsafe(32))"`.',
        )
    return token


class BearerToken:
    """Lets only those requests through that carry the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._digest = hashlib.sha256(token.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._carried(scope["headers"]):
            from starlette.responses import JSONResponse

            body = {"error": {"code": "E011", "message": "A bearer token is needed.", "hint": f"See {VARIABLE}."}}
            await JSONResponse(body, status_code=401, headers={"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _carried(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        given = [value for name, value in headers if name.lower() == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        # Over digests of one length, so that the time taken says nothing about the token.
        same = hmac.compare_digest(hashlib.sha256(token.strip()).digest(), self._digest)
        return scheme.lower() == b"bearer" and same


def application(
    live: LiveWorkspace, *, host: str, token: str | None, lean: bool = False, allowed_hosts: Sequence[str] = ()
) -> ASGIApp:
    from mcp.server.transport_security import TransportSecuritySettings

    from spec_kit_memory.serve.mcp.server import build_server

    names = _names(host, allowed_hosts)
    security = TransportSecuritySettings(
        allowed_hosts=[form for name in names for form in (name, f"{name}:*")],
        allowed_origins=[
            f"{scheme}://{name}{end}" for scheme in ("http", "https") for name in names for end in ("", ":*")
        ],
    )
    app: ASGIApp = build_server(live, lean=lean).streamable_http_app(
        streamable_http_path=PATH, transport_security=security, host=host
    )
    return BearerToken(app, token) if token else app


def _names(host: str, allowed: Sequence[str]) -> list[str]:
    """What a client may call this server."""
    names = ["127.0.0.1", "localhost", "[::1]", *allowed]
    if not is_loopback(host):
        everywhere = host in ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not bound to
        names += [socket.gethostname(), socket.getfqdn()] if everywhere else [f"[{host}]" if ":" in host else host]
    return list(dict.fromkeys(names))


def serve_http(
    *,
    workspace: str | None,
    flags: Mapping[str, object],
    host: str,
    port: int,
    lean: bool = False,
    token_file: str | None = None,
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serve until told to stop."""
    token = read_token(host, token_file=token_file, environ=os.environ)
    listening = _listen(host, port)
    import uvicorn

    live = LiveWorkspace(partial(open_at, workspace, flags), check=must_exist)
    app = application(live, host=host, token=token, lean=lean, allowed_hosts=allowed_hosts)
    config = uvicorn.Config(app, log_level="warning", lifespan="on", timeout_graceful_shutdown=3)
    shown = f"[{host}]" if ":" in host else host
    sys.stderr.write(f"Serving MCP at http://{shown}:{listening.getsockname()[1]}{PATH}\n")
    sys.stderr.flush()
    live.wake_soon()
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
        live.close()


def _listen(host: str, port: int) -> socket.socket:
    family: Any = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise BadParameter(
            f"Cannot listen on {host}:{port}: {error.strerror or error}.", hint="Choose another --host or --port."
        ) from error
