"""How is a team served? One address for many people and projects: MCP, the page, calls of git hosts, and its own state.

Everything but `/healthz`, `/readyz` and signed calls of git hosts needs a token. Any number of replicas share the
database, and no replica keeps state that another one needs.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from spec_kit_memory import settings as settings_module
from spec_kit_memory.core import jsonc
from spec_kit_memory.core.loopback import is_loopback
from spec_kit_memory.errors import BadParameter, DatabaseBusy, DatabaseUnusable, FileMissing, MissingParameter
from spec_kit_memory.serve.http.app import LARGEST_BODY_BYTES, PATH, checker_of, listen, mcp_app, own_names, run
from spec_kit_memory.serve.http.metrics import JsonLines, Measured, Metrics
from spec_kit_memory.serve.http.open_projects import OpenProjects
from spec_kit_memory.serve.http.team_sign_in import ServedNames, TeamChecker, access_of
from spec_kit_memory.serve.mcp.workspace_handle import SIGNAL_GRACE_SECONDS
from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.hook_signatures import is_signed
from spec_kit_memory.team.keeper import Keeper
from spec_kit_memory.team.project_workspace import open_project
from spec_kit_memory.team.projects import Projects
from spec_kit_memory.team.rights import Grant, read_grants
from spec_kit_memory.team.static_tokens import TokenCache, Tokens

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from spec_kit_memory.serve.http.sign_in import TokenChecker
    from spec_kit_memory.workspace import Workspace

LARGEST_CALL_BYTES = 1_000_000
PAUSE_SECONDS = 10.0  # between two fetches that calls of a git host bring about
METADATA = "/.well-known/"


class Team:
    """The state that all replicas share, in the database, and the projects that this replica has open."""

    def __init__(
        self,
        database: TeamDatabase,
        settings: settings_module.Settings,
        *,
        jwt: TokenChecker | None = None,
        grants: Sequence[Grant] = (),
        background: bool = True,
        opener: Callable[[str], Workspace] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.database = database
        self.registry = Projects(database)
        self.tokens = Tokens(database)
        self.checker = TeamChecker(
            TokenCache(self.tokens, clock=clock), ServedNames(self.registry, clock=clock), jwt, grants
        )
        self.projects = OpenProjects(
            opener or (lambda name: open_project(database, self.registry.get(name), settings=settings)),
            most_bytes=settings.index.memory_mb * 1_000_000,
            background=background,
            where=database.where,
        )
        self.metrics = Metrics()

    def is_ready(self) -> bool:
        try:
            with self.database.transaction() as session:
                session.row("SELECT 1")
        except (DatabaseBusy, DatabaseUnusable):
            return False
        return True

    def call(self, name: str, headers: Mapping[str, str], body: bytes) -> bool:
        """Handle a git host's call after a push. Unknown names and wrong signatures are refused alike."""
        if not is_signed(self.registry.hook_secret(name), headers, body):
            return False
        self.registry.request_sync(name, pause_seconds=PAUSE_SECONDS)
        return True


def team_application(
    team: Team,
    *,
    host: str,
    allowed_hosts: Sequence[str] = (),
    lean: bool = False,
    jwt: TokenChecker | None = None,
    page: ASGIApp | None = None,
) -> ASGIApp:
    from spec_kit_memory.serve.http.sign_in import SignIn
    from spec_kit_memory.serve.mcp.team_server import build_team_server

    server = build_team_server(team.projects, access_of=access_of, lean=lean)
    routes = SignIn.routes(jwt.issuer, jwt.audience) if jwt else []
    mcp = mcp_app(server, host, allowed_hosts, routes)
    audience = jwt.audience if jwt else None
    signed_in = SignIn(mcp, team.checker, audience=audience, largest_body_bytes=LARGEST_BODY_BYTES)
    return Measured(_TeamRouter(signed_in, _service_routes(team), page), team.metrics, kind_of=_kind)


def _kind(path: str) -> str:
    first = path.strip("/").partition("/")[0]
    kinds = {"mcp": "mcp", "hooks": "hook", "healthz": "health", "readyz": "health", "metrics": "metrics"}
    return kinds.get(first, "metadata" if path.startswith(METADATA) else "page")


class _TeamRouter:
    def __init__(self, mcp: ASGIApp, own: ASGIApp, page: ASGIApp | None) -> None:
        self._mcp = mcp
        self._own = own
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _kind(scope["path"]) in ("mcp", "metadata"):
            await self._mcp(scope, receive, send)
        elif _kind(scope["path"]) != "page" or self._page is None:
            await self._own(scope, receive, send)
        else:
            await self._page(scope, receive, send)


# --- health, metrics and calls of git hosts --------------------------------------------------------


def _service_routes(team: Team) -> ASGIApp:
    async def health(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        if await anyio.to_thread.run_sync(team.is_ready):
            return PlainTextResponse("ok\n")
        return PlainTextResponse("the database does not answer\n", status_code=503)

    async def metrics(request: Request) -> Response:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        bearer = secret.strip() if scheme.lower() == "bearer" else ""
        token = await anyio.to_thread.run_sync(team.checker.token, bearer)
        if token is None or not token.access.operator:
            return PlainTextResponse(
                "An operator's token is needed.\n", status_code=401, headers={"WWW-Authenticate": "Bearer"}
            )
        gauges = {"open_projects": len(team.projects.names), "projects": len(team.checker.names())}
        return PlainTextResponse(team.metrics.text(gauges), media_type="text/plain; version=0.0.4")

    async def hook(request: Request) -> Response:
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > LARGEST_CALL_BYTES:
                return PlainTextResponse("At most 1 MB.\n", status_code=413)
        accepted = await anyio.to_thread.run_sync(team.call, request.path_params["name"], request.headers, body)
        if not accepted:
            return PlainTextResponse("The signature does not fit.\n", status_code=403)
        return PlainTextResponse("It is read soon.\n", status_code=202)

    async def unavailable(request: Request, error: Exception) -> Response:
        return PlainTextResponse("The database does not answer.\n", status_code=503, headers={"Retry-After": "10"})

    handlers: Mapping[Any, Any] = {DatabaseUnusable: unavailable, DatabaseBusy: unavailable}
    return Starlette(
        routes=[
            Route("/healthz", health, methods=["GET"]),
            Route("/readyz", ready, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
            Route("/hooks/{name}", hook, methods=["POST"]),
        ],
        exception_handlers=handlers,
    )


# --- the command -----------------------------------------------------------------------------------


def serve_team(
    *,
    flags: Mapping[str, object],
    host: str,
    port: int,
    data: str | None = None,
    lean: bool = False,
    allowed_hosts: Sequence[str] = (),
    issuer: str | None = None,
    audience: str | None = None,
    rights: str | None = None,
) -> None:
    """Serve until stopped."""
    folder = _data_folder(data)
    settings = settings_module.load(folder, overrides=flags)
    if not settings.on_server:
        raise MissingParameter(
            "A team server needs PostgreSQL.", hint="Name it: --index postgresql://HOST/DATABASE, or index.url."
        )
    grants = _grants(rights)
    jwt = checker_of(issuer, audience, kept_claims=frozenset(grant.claim for grant in grants))
    if rights and jwt is None:
        raise BadParameter("--rights maps claims, and no issuer gives any.", hint="Add --issuer and --audience.")
    team = Team(TeamDatabase(settings.index.url), settings, jwt=jwt, grants=grants)
    if jwt:
        allowed_hosts = [urlsplit(jwt.audience).hostname or "", *allowed_hosts]
    listening = listen(host, port)
    bound = listening.getsockname()[1]
    _log_json()
    page = _page(team, host, bound, allowed_hosts)
    app = team_application(team, host=host, allowed_hosts=allowed_hosts, lean=lean, jwt=jwt, page=page)
    shown_host = f"[{host}]" if ":" in host else host
    sys.stderr.write(f"Serving a team at http://{shown_host}:{bound}{PATH}, the page at http://{shown_host}:{bound}/\n")
    sys.stderr.flush()
    stopping = threading.Event()
    keeper = Keeper(team.database, settings=settings, domain=domain_of(allowed_hosts))
    worker = threading.Thread(target=keeper.run, args=(stopping,), name="keeper", daemon=True)
    worker.start()
    try:
        run(app, listening, team.projects)
    finally:
        stopping.set()
        # A round that takes longer is repeated by another replica, or after the next start.
        worker.join(SIGNAL_GRACE_SECONDS)


def domain_of(allowed_hosts: Sequence[str]) -> str:
    """The domain that all replicas write into commits: the name that people reach the server by, or empty. Not the host
    name of a replica, which may change whenever its container starts."""
    return urlsplit(f"//{allowed_hosts[0]}").hostname or "" if allowed_hosts else ""


def _data_folder(data: str | None) -> Path:
    """The server's own folder, created if necessary; it contains no repository's settings."""
    folder = Path(data).expanduser() if data else None
    if folder is None:
        folder = settings_module.user_state_folder(otherwise="name one with --data") / "team"
    try:
        settings_module.make_private_folder(folder)
    except OSError as error:
        problem = f"The folder {str(folder)!r} cannot be used: {error}."
        raise FileMissing(problem, hint="Name another with --data.") from error
    return folder.resolve()


def _grants(path: str | None) -> tuple[Grant, ...]:
    if path is None:
        return ()
    try:
        return read_grants(jsonc.read(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise FileMissing(f"The rights in {path!r} cannot be read: {error}.", hint="Name a JSON file.") from error


def _page(team: Team, host: str, port: int, allowed_hosts: Sequence[str]) -> ASGIApp | None:
    from spec_kit_memory.serve.page.team_page import TeamPageAccess, team_page

    # Behind a TLS proxy, the server listens on loopback and is reached by another name.
    secure = not is_loopback(host) or bool(allowed_hosts)
    access = TeamPageAccess(team, names=own_names(host, allowed_hosts), port=port, secure=secure)
    return team_page(team, access)


def _log_json() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    for noisy in ("mcp", "httpx", "httpcore", "psycopg", "uvicorn", "anyio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
