"""How does the page show many projects? Each at a path of its own, according to the rights of the visitor's token.

Visitors sign in with a static token, in a form. A project that they may not use is answered with 404.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from spec_kit_memory.core.memory import Scope
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.parameters import Request as VerbRequest
from spec_kit_memory.parameters import from_call
from spec_kit_memory.serve import render
from spec_kit_memory.serve.mcp.team_server import SHARED_VIEW, caller_for
from spec_kit_memory.serve.page import changes, views
from spec_kit_memory.serve.page.access import Notice, PageAccess, Visit
from spec_kit_memory.serve.page.routes import Page, app_of
from spec_kit_memory.team.rights import NEEDED, Access, Role, role_for
from spec_kit_memory.team.visits import Visits, csrf_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from spec_kit_memory.serve.http.team_app import Team
    from spec_kit_memory.workspace import Workspace

_VERBS = {kind.verb: kind for kind in VerbRequest.__subclasses__()}


@dataclass(slots=True)
class TeamVisit(Visit):
    access: Access | None = None
    cookie: str = field(default="", repr=False)
    visits: Visits | None = None

    @property
    def rights(self) -> Access:
        assert self.access is not None
        return self.access

    def note(self, notice: Notice) -> None:
        assert self.visits is not None
        self.visits.note(self.cookie, asdict(notice))

    def take_notices(self) -> list[Notice]:
        assert self.visits is not None
        rows = self.visits.take_notices(self.cookie)
        return [Notice(**{**row, "hints": tuple(row["hints"])}) for row in rows]


class TeamPageAccess(PageAccess):
    """Sessions are rows in the database, so that all replicas share them. Each depends on the static token that opened
    it, and ends when that expires or is revoked."""

    def __init__(self, team: Team, **how: Any) -> None:
        super().__init__(**how)
        self._team = team
        self._rows = Visits(team.database)

    @property
    def takes_token(self) -> bool:
        return True

    def sign_in(self, token: str) -> str | None:
        checked = self._team.checker.token(token)
        return None if checked is None or not self._team.checker.access(checked).projects else self._rows.begin(checked)

    def exchange(self, token: str) -> str | None:
        """A team server prints no address with a token."""
        return None

    def visit(self, request: Request) -> Visit | None:
        cookie = request.cookies.get(self.cookie, "")
        token = self._rows.token(cookie) if cookie else None
        if token is None:
            return None
        access = self._team.checker.access(token)
        return TeamVisit(csrf_of(cookie), 0.0, access=access, cookie=cookie, visits=self._rows)

    def leave(self, request: Request) -> None:
        self._rows.end(request.cookies.get(self.cookie, ""))

    def outgoing(self, project: str) -> Any:
        return self._rows.outgoing(project)


class _AuthorizedWorkspace:
    """A workspace whose verbs check the visitor's role first."""

    def __init__(self, workspace: Workspace, access: Access, project: str) -> None:
        self._workspace = workspace
        self._access = access
        self._project = project

    def __getattr__(self, name: str) -> Any:
        if name not in NEEDED:
            return getattr(self._workspace, name)

        def call(*values: Any, **named: Any) -> Any:
            request = from_call(_VERBS[name], values, named)
            self._access.require(self._project, request)
            workspace = self._workspace
            if name in SHARED_VIEW:
                workspace = workspace.for_caller(replace(workspace.caller, scope=Scope()))
            return getattr(workspace, name)(request)

        return call


class TeamPage(Page):
    team = True
    not_accepted = "This token opens no project here: it is mistyped, has expired, or was revoked."

    def __init__(self, team: Team, access: TeamPageAccess) -> None:
        super().__init__(team.projects, access)  # type: ignore[arg-type]
        self._team = team
        self._sessions = access

    # --- which project

    def _base(self, request: Request) -> str:
        project = request.path_params.get("project")
        return f"/p/{quote(str(project), safe='')}" if project else ""

    @contextmanager
    def _workspace(self, request: Request, visit: Visit, *, observer: bool = False) -> Iterator[Workspace]:
        assert isinstance(visit, TeamVisit)
        project = str(request.path_params["project"])
        with self._team.projects.use(project) as workspace:
            is_health = request.url.path.removesuffix(".json").endswith("/numbers/health")
            own = caller_for(visit.rights, workspace.caller, project=project, verb="health" if is_health else None)
            caller = replace(own, observer=observer)
            fenced: Any = _AuthorizedWorkspace(workspace.for_caller(caller), visit.rights, project)
            yield fenced

    def _workspace_values(self, request: Request, visit: Visit) -> dict[str, Any]:
        assert isinstance(visit, TeamVisit)
        project = str(request.path_params.get("project", ""))
        return {
            "workspace": project or "Projects",
            "workspace_path": f"{visit.rights.user.subject}, {_role(visit.rights, project)}" if project else "",
            "project": project,
            "projects": visit.rights.projects,
            "base": self._base(request),
        }

    def _offers(self, request: Request, visit: Visit) -> dict[str, Any]:
        assert isinstance(visit, TeamVisit)
        project = str(request.path_params.get("project", ""))
        is_admin = visit.rights.role(project) is Role.ADMIN
        return {"may": partial(_may, visit.rights, project), "may_rule": is_admin}

    def _is_theirs(self, request: Request, visit: Visit) -> bool:
        assert isinstance(visit, TeamVisit)
        return request.path_params.get("project") in visit.rights.projects

    # --- pages

    async def front(self, request: Request) -> Response:
        visit = await self._visit(request)
        if visit is None:
            return self._sign_in_page(request, to="/")
        assert isinstance(visit, TeamVisit)
        names = visit.rights.projects
        to = f"/p/{quote(names[0], safe='')}/search" if len(names) == 1 else "/projects"
        return RedirectResponse(to, status_code=303)

    def _sign_in_page(self, request: Request, problem: str = "", *, to: str = "/") -> Response:
        return super()._sign_in_page(request, problem, to="/" if to == "/search" else to)

    async def show(self, view: Callable[..., views.PageView], as_json: bool, request: Request) -> Response:
        visit = await self._visit(request)
        if visit is not None and not self._is_theirs(request, visit):
            if as_json:
                return JSONResponse({"error": {"code": "404", "message": "There is no such page."}}, status_code=404)
            request.scope["path_params"] = {}
            return await self.missing(request, LookupError())
        return await super().show(view, as_json, request)

    def _view(self, view: Callable[..., views.PageView], request: Request, visit: Visit) -> views.PageView:
        page_view = super()._view(view, request, visit)
        if view is views.care:
            rows = self._sessions.outgoing(str(request.path_params["project"]))
            page_view = replace(page_view, values={**page_view.values, "outgoing": rows})
        return page_view

    async def change(self, act: Callable[..., changes.ChangeDone], request: Request) -> Response:
        visit = await self._visit(request)
        if visit is not None and not self._is_theirs(request, visit):
            request.scope["path_params"] = {}
            return await self.missing(request, LookupError())
        return await super().change(act, request)

    async def projects(self, as_json: bool, request: Request) -> Response:
        """The projects that the visitor may use, with their members."""
        visit = await self._visit(request)
        if visit is None:
            if as_json:
                return JSONResponse({"error": {"code": "E011", "message": "Open the page first."}}, status_code=401)
            return self._sign_in_page(request, to="/projects")
        assert isinstance(visit, TeamVisit)
        try:
            rows = await anyio.to_thread.run_sync(self._projects, visit.rights)
        except SpecKitMemoryError as error:
            return JSONResponse({"error": render.error(error)}, status_code=503)
        if as_json:
            return Response(render.compact({"projects": rows}), media_type="application/json")
        page_view = views.PageView("projects.html", title="Projects", section="projects", values={"rows": rows})
        return await anyio.to_thread.run_sync(partial(self._html, request, visit, page_view.template, page_view))

    def _projects(self, access: Access) -> list[Mapping[str, Any]]:
        """A row for each project. Admins see all members; others see only themselves."""
        people = self._team.tokens.people(access.projects)
        rows: list[Mapping[str, Any]] = []
        for name in access.projects:
            roles = people.get(name, {})
            is_admin = access.role(name) is Role.ADMIN
            shown = roles if is_admin else {user: role for user, role in roles.items() if user == access.user.subject}
            waiting = sum(1 for _ in self._sessions.outgoing(name))
            rows.append({"name": name, "role": _role(access, name), "people": shown, "waiting": waiting})
        return rows


def _may(access: Access, project: str, address: str) -> bool:
    """Is the form of this address shown? Only if the visitor's role allows it, and none that has files read: a team
    server does that by itself."""
    role, (verb, argument) = access.role(project), changes.asked_by(address)
    return role is not None and verb != "index" and role >= role_for(verb, argument)


def _role(access: Access, project: str) -> str:
    role = access.role(project)
    return role.label if role is not None else ""


def team_page(team: Team, access: TeamPageAccess) -> ASGIApp:
    page = TeamPage(team, access)
    more = [
        Route("/projects.json", partial(page.projects, True), methods=["GET"]),
        Route("/projects", partial(page.projects, False), methods=["GET"]),
        Route("/search", page.front, methods=["GET"]),
    ]
    return app_of(page, access, below="/p/{project}", more=more)
