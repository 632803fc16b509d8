"""How is a workspace served over HTTP? To requests that carry the token, by default only from this machine.

Host and Origin are checked on every request, so that a web page cannot reach a server on loopback through a name of
its own. `limits` bounds how long a client may keep the server waiting; `auth` decides who is let in.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from spec_kit_memory import settings
from spec_kit_memory.caller import process_caller
from spec_kit_memory.core.loopback import is_loopback
from spec_kit_memory.core.memory import Scope as MemoryScope
from spec_kit_memory.errors import BadParameter, MissingParameter, SpecKitMemoryError
from spec_kit_memory.serve.http.auth import BearerToken, Token, read_token
from spec_kit_memory.serve.http.session_room import SessionRoom
from spec_kit_memory.serve.mcp.workspace_handle import (
    SIGNAL_GRACE_SECONDS,
    STOPPING,
    LiveWorkspace,
    must_exist,
    open_at,
)
from spec_kit_memory.serve.page.access import PageAccess
from spec_kit_memory.settings.own_folders import personal_vault

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from starlette.routing import Route
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spec_kit_memory.serve.http.sign_in import TokenChecker

PATH = "/mcp"
# Idle sessions are dropped after this time; the client starts a new one.
SESSION_IDLE_SECONDS = 1800.0
MOST_SESSIONS = 1000
_OPENED_AT_ONCE = 64  # more sessions, until those beyond the limit are ended
LARGEST_BODY_BYTES = 4 * 1024 * 1024
GRACE_SECONDS = 1  # for requests still running when the server is asked to stop


def application(
    live: LiveWorkspace,
    *,
    host: str,
    token: str | None,
    lean: bool = False,
    allowed_hosts: Sequence[str] = (),
    checker: TokenChecker | None = None,
    page: PageAccess | None = None,
) -> ASGIApp:
    """MCP at its own path and, if the server has one, the page at all others.

    With a `checker`, callers sign in. Otherwise they send `token`; None asks for none.
    """
    from spec_kit_memory.serve.mcp.server import build_server

    if checker:
        from spec_kit_memory.serve.http import sign_in

        server = build_server(live, lean=lean, identify=sign_in.caller_of, authorize=sign_in.authorize)
        routes = sign_in.SignIn.routes(checker.issuer, checker.audience)
    else:
        server, routes = build_server(live, lean=lean), []
    app = mcp_app(server, host, allowed_hosts, routes)
    guarded: ASGIApp = BearerToken(app, token) if token else app
    if checker:
        guarded = sign_in.SignIn(app, checker, audience=checker.audience, largest_body_bytes=LARGEST_BODY_BYTES)
    return _PathRouter(guarded, live, page) if page else guarded


def mcp_app(server: Server[Any], host: str, allowed_hosts: Sequence[str], routes: list[Route]) -> ASGIApp:
    """MCP over HTTP. The SDK checks the Host and Origin headers: these host names are allowed, on any port."""
    from mcp.server.transport_security import TransportSecuritySettings

    names = own_names(host, allowed_hosts)
    origins = [f"{scheme}://{name}{end}" for scheme in ("http", "https") for name in names for end in ("", ":*")]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=TransportSecuritySettings(
            allowed_hosts=[form for name in names for form in (name, f"{name}:*")], allowed_origins=origins
        ),
        host=host,
        session_idle_timeout=SESSION_IDLE_SECONDS,
        max_sessions=MOST_SESSIONS + _OPENED_AT_ONCE,
        max_request_body_size=LARGEST_BODY_BYTES,
        custom_starlette_routes=routes,
    )
    return SessionRoom(app, most=MOST_SESSIONS)


class Closing(Protocol):
    """What `run` opens soon after the start and closes at the end: a workspace or several."""

    def wake_soon(self) -> None: ...
    def close(self, *, seconds: float) -> bool: ...


class _PathRouter:
    """Routes requests to MCP or to the page, which is loaded at its first request."""

    def __init__(self, mcp: ASGIApp, live: LiveWorkspace, access: PageAccess) -> None:
        self._mcp = mcp
        self._live = live
        self._access = access
        self._page: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].rstrip("/") == PATH:
            await self._mcp(scope, receive, send)
            return
        if self._page is None:
            from spec_kit_memory.serve.page.routes import page_app

            self._page = page_app(self._live, self._access)
        await self._page(scope, receive, send)


def own_names(host: str, allowed: Sequence[str]) -> list[str]:
    """The host names by which clients may address this server."""
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
    no_token: bool = False,
    allowed_hosts: Sequence[str] = (),
    issuer: str | None = None,
    audience: str | None = None,
) -> None:
    """Serve until stopped."""
    root = _workspace_folder(workspace)
    _refuse_personal(root)
    scope = _scope(root, flags)
    token = read_token(
        host,
        workspace=root,
        scope=scope,
        token_file=token_file,
        no_token=no_token,
        otherwise_signed_in=bool(issuer),
        environ=os.environ,
    )
    if issuer and audience and (no_token or scope.user is not None):
        other = "--no-token" if no_token else "isolation.userId"
        raise BadParameter(
            f"{other} contradicts --issuer: who asks is said by each access token.", hint="Leave one of them out."
        )
    checker = checker_of(issuer, audience, static_token=token.value if token else None)
    if checker:
        allowed_hosts = [*allowed_hosts, urlsplit(checker.audience).hostname or ""]
    listening = listen(host, port)
    live = LiveWorkspace(partial(open_at, workspace, flags), check=must_exist)
    value, bound = token.value if token else None, listening.getsockname()[1]
    page = None  # this page cannot tell signed-in users apart
    if checker is None:
        page = PageAccess(
            names=own_names(host, allowed_hosts),
            token=value,
            open_to_all=token is None,
            port=bound,
            secure=not is_loopback(host),
        )
    app = application(live, host=host, token=value, lean=lean, allowed_hosts=allowed_hosts, checker=checker, page=page)
    _announce(host, bound, token, page, checker)
    run(app, listening, live)


def _refuse_personal(root: Path) -> None:
    if root == personal_vault():
        raise BadParameter("Personal memory is not served over HTTP.", hint="Use it from a terminal, or over stdio.")


def serve_page(*, workspace: str | None, flags: Mapping[str, object], port: int, browser: bool) -> None:
    """Serve only the page, for the person at this machine, until stopped."""
    from spec_kit_memory.serve.page.browser import opening_in_browser
    from spec_kit_memory.serve.page.routes import page_app

    root = settings.find_root(workspace=workspace)
    _refuse_personal(root)
    settings.load(root, overrides=flags)  # report invalid settings here, because the page could not open
    host = "127.0.0.1"
    listening = listen(host, port)
    bound = listening.getsockname()[1]
    live = LiveWorkspace(partial(open_at, workspace, flags), check=must_exist)
    access = PageAccess(names=own_names(host, ()), port=bound)
    address = f"http://{host}:{bound}/?token={access.invite()}"
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    sys.stderr.write(f"The page of {root}. The address works once; Ctrl-C stops.\n")
    sys.stderr.flush()
    with opening_in_browser(address, port=bound) if browser else nullcontext():
        run(_PageOnly(page_app(live, access)), listening, live)


class _PageOnly:
    """Answers ASGI's lifespan messages, which the page's application lacks; `run` closes the workspace."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
        else:
            await self._app(scope, receive, send)


def run(app: ASGIApp, listening: socket.socket, live: Closing) -> None:
    import uvicorn

    from spec_kit_memory.serve.http.limits import BACKLOG, Limits, calm_log, guarded, most_connections

    if not logging.getLogger().handlers:
        logging.basicConfig(handlers=[calm_log()], level=logging.WARNING)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            http=guarded(Limits(connections=most_connections())),
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="warning",
            access_log=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    )
    live.wake_soon()
    server.capture_signals = partial(_stops_on_signal, server)  # type: ignore[method-assign]
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()
        if not live.close(seconds=SIGNAL_GRACE_SECONDS):
            sys.stderr.flush()
            os._exit(0)  # a thread is still running


def _workspace_folder(workspace: str | None) -> Path:
    """The workspace's folder, which its token is stored under, even if the workspace cannot be opened yet."""
    try:
        return settings.find_root(workspace=workspace)
    except SpecKitMemoryError:
        return Path(workspace or os.curdir).absolute()


def _scope(root: Path, flags: Mapping[str, object]) -> MemoryScope:
    try:
        return process_caller(settings.load(root, overrides=flags)).scope
    except SpecKitMemoryError:
        return MemoryScope()  # every call reports the invalid settings


def checker_of(issuer: str | None, audience: str | None, **more: Any) -> TokenChecker | None:
    """The checker of access tokens; None for a server without sign-in."""
    if not issuer and not audience:
        return None
    if not issuer or not audience:
        raise MissingParameter(
            "Sign-in needs both --issuer and --audience.",
            hint="Name the authorization server, and this server's own address as clients use it (…/mcp).",
        )
    from spec_kit_memory.serve.http.issuer import Issuer, checked_url
    from spec_kit_memory.serve.http.sign_in import TokenChecker

    return TokenChecker(Issuer(issuer), checked_url(audience, option="--audience"), **more)


def _announce(
    host: str, port: int, token: Token | None, page: PageAccess | None, checker: TokenChecker | None = None
) -> None:
    shown_host = f"[{host}]" if ":" in host else host
    lines = [f"Serving MCP at http://{shown_host}:{port}{PATH}"]
    if checker is not None:
        lines.append(f"Requests need an access token of {checker.issuer.url} for {checker.audience}.")
        lines += ["The token that you gave is taken as well."] if token else []
    elif token is None:
        lines.append("Without a token (--no-token): every user and program of this machine can use it.")
    elif token.kept_in is None:
        lines.append("Requests need the header `Authorization: Bearer TOKEN` with the token that you gave.")
    else:
        lines += [
            f"Requests need the header `Authorization: Bearer {token.value}`",
            f"The token is kept in {token.kept_in}, which only you can read, and is used again at the next start.",
        ]
    if page is not None:
        invited = f"?token={page.invite()}" if token is not None and is_loopback(host) else ""
        explanation = " (this address works once; after that the token signs in)" if invited else ""
        lines.append(f"The page for people is at http://{shown_host}:{port}/{invited}{explanation}")
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


@contextmanager
def _stops_on_signal(server: Any) -> Iterator[None]:
    """Stop soon on SIGTERM or Ctrl-C, even if threads are running; exit immediately on a second signal."""

    def stop(*_: object) -> None:
        if server.should_exit:
            os._exit(0)
        server.should_exit = True
        watchdog = threading.Timer(GRACE_SECONDS + SIGNAL_GRACE_SECONDS + 1, os._exit, (0,))
        watchdog.daemon = True
        watchdog.start()

    previous_handlers = {name: signal.signal(getattr(signal, name), stop) for name in STOPPING}
    try:
        yield
    finally:
        # Once stopping, the handler stays: a second Ctrl-C while the workspace is closing exits immediately too.
        for name in STOPPING:
            if not server.should_exit:
                signal.signal(getattr(signal, name), previous_handlers[name])


def listen(host: str, port: int) -> socket.socket:
    family: Any = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
        # Accepted connections inherit this option. asyncio sets it only on sockets created with IPPROTO_TCP, and
        # without it the body of every answer waits 40 ms for the client's delayed ACK of the head.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        raise BadParameter(
            f"Cannot listen on {host}:{port}: {error.strerror or error}.", hint="Choose another --host or --port."
        ) from error
