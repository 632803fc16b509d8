"""How is a workspace served over HTTP? To whoever carries the token, on this machine only unless told otherwise.

Host and Origin are checked on every request, so that a web page cannot reach a server on loopback through a name of
its own. What a client may keep the server waiting for stands in `limits`, who is let in, in `auth`.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spec_kit_memory import settings
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.errors import BadParameter, SpecKitMemoryError
from spec_kit_memory.serve.http.auth import BearerToken, Token, is_loopback, read_token
from spec_kit_memory.serve.mcp.workspace_handle import STOPPING, TOLD_SECONDS, LiveWorkspace, must_exist, open_at

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["application", "serve_http"]

PATH = "/mcp"
# A session that nobody used for so long is forgotten; its client starts another.
SESSION_IDLE_SECONDS = 1800.0
MOST_SESSIONS = 1000
LARGEST_BODY_BYTES = 4 * 1024 * 1024
GRACE_SECONDS = 1  # for answers under way when the server is told to stop


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
        streamable_http_path=PATH,
        transport_security=security,
        host=host,
        session_idle_timeout=SESSION_IDLE_SECONDS,
        max_sessions=MOST_SESSIONS,
        max_request_body_size=LARGEST_BODY_BYTES,
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
    no_token: bool = False,
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serve until told to stop."""
    root = _place(workspace)
    token = read_token(
        host,
        workspace=root,
        scope=_scope(root, flags),
        token_file=token_file,
        no_token=no_token,
        environ=os.environ,
    )
    listening = _listen(host, port)
    import uvicorn

    from spec_kit_memory.serve.http.limits import BACKLOG, Limits, calm_log, guarded, most_connections

    live = LiveWorkspace(partial(open_at, workspace, flags), check=must_exist)
    app = application(live, host=host, token=token.value if token else None, lean=lean, allowed_hosts=allowed_hosts)
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
    _announce(host, listening.getsockname()[1], token)
    live.wake_soon()
    server.capture_signals = partial(_ends_when_told, server)  # type: ignore[method-assign]
    try:
        server.run(sockets=[listening])
    finally:
        listening.close()
        if not live.close(seconds=TOLD_SECONDS):
            sys.stderr.flush()
            os._exit(0)  # a thread that does not end cannot be waited for


def _place(workspace: str | None) -> Path:
    """Whose token is meant. A workspace that cannot be opened yet has its name already."""
    try:
        return settings.find_root(workspace=workspace)
    except SpecKitMemoryError:
        return Path(workspace or os.curdir).absolute()


def _scope(root: Path, flags: Mapping[str, object]) -> Scope:
    try:
        return settings.load(root, overrides=flags).scope
    except SpecKitMemoryError:
        return Scope()  # every call will say what is wrong with the settings


def _announce(host: str, port: int, token: Token | None) -> None:
    shown = f"[{host}]" if ":" in host else host
    lines = [f"Serving MCP at http://{shown}:{port}{PATH}"]
    if token is None:
        lines.append("Without a token (--no-token): every user and program of this machine can use it.")
    elif token.kept_in is None:
        lines.append("Requests need the header `Authorization: Bearer TOKEN` with the token that you gave.")
    else:
        lines += [
            f"Requests need the header `Authorization: Bearer {token.value}`",
            f"The token is kept in {token.kept_in}, which only you can read, and is used again at the next start.",
        ]
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


@contextmanager
def _ends_when_told(server: Any) -> Iterator[None]:
    """SIGTERM and Ctrl-C end the server soon, whatever its threads are doing; told twice, at once."""

    def told(*_: object) -> None:
        if server.should_exit:
            os._exit(0)
        server.should_exit = True
        last = threading.Timer(GRACE_SECONDS + TOLD_SECONDS + 1, os._exit, (0,))
        last.daemon = True
        last.start()

    before = {name: signal.signal(getattr(signal, name), told) for name in STOPPING}
    try:
        yield
    finally:
        # Ctrl-C again while the workspace is being closed ends the process as well.
        for name in STOPPING:
            if not server.should_exit:
                signal.signal(getattr(signal, name), before[name])


def _listen(host: str, port: int) -> socket.socket:
    family: Any = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise BadParameter(
            f"Cannot listen on {host}:{port}: {error.strerror or error}.", hint="Choose another --host or --port."
        ) from error
