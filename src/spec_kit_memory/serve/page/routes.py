"""Which addresses does the page have, and how does an answer of the workspace become a response?

The data of every page is also available as JSON, at the same address with `.json`. Pages are rendered in worker
threads, with the workspace in observer mode: viewing a memory does not count as use.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from spec_kit_memory.errors import CheckpointNotFound, MemoryNotFound, SpecKitMemoryError
from spec_kit_memory.serve import render
from spec_kit_memory.serve.messages import for_page
from spec_kit_memory.serve.page import changes, views
from spec_kit_memory.serve.page.access import GuardedPage, Notice, PageAccess, Visit
from spec_kit_memory.serve.page.jinja import html, sentence
from spec_kit_memory.serve.page.static_files import serve_static

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
    from spec_kit_memory.workspace import Workspace

logger = logging.getLogger(__name__)

MOST_FIELDS = 200  # of a form
LARGEST_FORM_BYTES = 200_000
THEMES = ("light", "dark", "system")
THEME_SECONDS = 365 * 86_400
# What to do where something is not there, by the page that lists what is.
INSTEAD = {
    "/search": "Search for it by its words.",
    "/time": "Time lists the checkpoints that there are.",
    "/folders": "Folders lists those that there are.",
}


def page_app(live: LiveWorkspace, access: PageAccess) -> ASGIApp:
    return app_of(Page(live, access), access)


def app_of(page: Page, access: PageAccess, *, below: str = "", more: Sequence[Route] = ()) -> ASGIApp:
    """The application of a page. With several workspaces, the addresses of each are `below` a path of its own."""
    routes = [
        *more,
        Route("/", page.front, methods=["GET"]),
        Route("/sign-in", page.sign_in, methods=["GET", "POST"]),
        Route("/sign-out", page.sign_out, methods=["POST"]),
        Route("/theme", page.theme, methods=["GET"]),
        Route("/static/{name:path}", serve_static, methods=["GET"]),
    ]
    for path, view in views.PAGES.items():
        # The address with .json first, because the pattern of a folder's name would match it too.
        routes.append(Route(f"{below}{path}.json", partial(page.show, view, True), methods=["GET"]))
        routes.append(Route(f"{below}{path}", partial(page.show, view, False), methods=["GET"]))
    routes += [
        Route(f"{below}{path}", partial(page.change, act), methods=["POST"]) for path, act in changes.CHANGES.items()
    ]
    handlers: Mapping[Any, Any] = {404: page.missing, 405: page.missing}
    return GuardedPage(Starlette(routes=routes, exception_handlers=handlers), access)


class Page:
    """The page of one workspace, equal for all visitors. `TeamPage` has several, and knows its visitors."""

    team = False
    not_accepted = "That is not the token of this server."

    def __init__(self, live: LiveWorkspace, access: PageAccess) -> None:
        self._live = live
        self._access = access

    async def _visit(self, request: Request) -> Visit | None:
        return await anyio.to_thread.run_sync(self._access.visit, request)

    @contextmanager
    def _workspace(self, request: Request, visit: Visit, *, observer: bool = False) -> Iterator[Workspace]:
        """The workspace that a request is about, as this visitor sees it."""
        with self._live.use() as workspace:
            yield workspace.for_caller(replace(workspace.caller, observer=True)) if observer else workspace

    def _workspace_values(self, request: Request, visit: Visit) -> dict[str, Any]:
        """Template values about the workspace, for every page."""
        with self._live.use() as workspace:
            root = workspace.settings.root
        return {"workspace": root.name, "workspace_path": str(root), "project": "", "projects": (), "base": ""}

    def _offers(self, request: Request, visit: Visit) -> dict[str, Any]:
        """Template values about what this visitor may do; the defaults in `jinja` allow everything."""
        return {}

    # --- sign-in

    async def front(self, request: Request) -> Response:
        """The printed address, with its token; visitors with a session are redirected to search."""
        token = request.query_params.get("token")
        # Link previews send HEAD requests, which must not use up the token.
        if token is not None and request.method == "GET":
            value = self._access.exchange(token)
            if value is not None:
                return self._start_session(value)
            if await self._visit(request) is None:
                return self._sign_in_page(request, "That address was used already, or the server was started again.")
        return RedirectResponse("/search", status_code=303)

    def _start_session(self, value: str, *, to: str = "/search") -> Response:
        answer = RedirectResponse(to, status_code=303)
        answer.set_cookie(
            self._access.cookie, value, httponly=True, samesite="lax", secure=self._access.secure, path="/"
        )
        return answer

    def _sign_in_page(self, request: Request, problem: str = "", *, to: str = "/search") -> Response:
        response = html(
            "sign_in.html",
            problem=problem,
            to=to,
            theme=_theme(request),
            by_form=self._access.takes_token,
            team=self.team,
        )
        return Response(response, status_code=401, media_type="text/html")

    async def sign_in(self, request: Request) -> Response:
        if request.method == "GET":
            return self._sign_in_page(request)
        if not self._access.is_from_here(request.headers):
            return PlainTextResponse("This form was sent from another site.\n", status_code=403)
        form = await read_form(request)
        value = await anyio.to_thread.run_sync(self._access.sign_in, form.get("token", "").strip())
        if value is None:
            return self._sign_in_page(request, self.not_accepted, to=_local_address(form.get("to", "")))
        return self._start_session(value, to=_local_address(form.get("to", "")))

    async def sign_out(self, request: Request) -> Response:
        visit = await self._visit(request)
        form = await read_form(request)
        if visit is None or not self._may_change(request, visit, form):
            return PlainTextResponse("Nothing was changed.\n", status_code=403)
        await anyio.to_thread.run_sync(self._access.leave, request)
        answer = RedirectResponse("/sign-in", status_code=303)
        answer.delete_cookie(self._access.cookie, path="/")
        return answer

    async def theme(self, request: Request) -> Response:
        """Set the theme in a cookie; needs no session and changes nothing else."""
        theme = request.query_params.get("to", "")
        answer = RedirectResponse(_local_address(request.query_params.get("next", "")), status_code=303)
        if theme in THEMES:
            answer.set_cookie(
                "skm_theme",
                theme,
                max_age=THEME_SECONDS,
                samesite="lax",
                httponly=True,
                secure=self._access.secure,
                path="/",
            )
        return answer

    # --- pages

    async def show(self, view: Callable[..., views.PageView], as_json: bool, request: Request) -> Response:
        visit = await self._visit(request)
        if visit is None:
            if self._access.open_to_all:
                return self._start_session(self._access.admit(), to=_current_address(request))
            if as_json:
                return JSONResponse({"error": {"code": "E011", "message": "Open the page first."}}, status_code=401)
            return self._sign_in_page(request, to=_current_address(request))
        return await anyio.to_thread.run_sync(partial(self._respond, view, as_json, request, visit))

    def _respond(self, view: Callable[..., views.PageView], as_json: bool, request: Request, visit: Visit) -> Response:
        try:
            page_view = self._view(view, request, visit)
            if as_json:
                data = {name: render.envelope(answer, say=for_page) for name, answer in page_view.answers.items()}
                return Response(render.compact(data), media_type="application/json")
            wants_part = request.headers.get("hx-request") == "true" and page_view.part
            return self._html(request, visit, page_view.part if wants_part else page_view.template, page_view)
        except Exception as error:  # noqa: BLE001 - the edge: every failure becomes a page that explains it
            return self._failure(request, visit, error, as_json=as_json)

    def _view(self, view: Callable[..., views.PageView], request: Request, visit: Visit) -> views.PageView:
        with self._workspace(request, visit, observer=True) as workspace:
            return view(workspace, views.PageRequest(request.path_params, request.query_params))

    def _html(
        self, request: Request, visit: Visit, template: str, page_view: views.PageView, *, status: int = 200
    ) -> Response:
        about = self._workspace_values(request, visit)
        response = html(
            template,
            **page_view.values,
            title=page_view.title,
            section=page_view.section,
            answers=page_view.answers,
            csrf=visit.csrf,
            notices=[] if template == page_view.part else visit.take_notices(),
            here=_current_address(request),
            theme=_theme(request),
            **about,
            **self._offers(request, visit),
        )
        return Response(
            below(response, about["base"]), status_code=status, media_type="text/html", headers={"Vary": "HX-Request"}
        )

    def _failure(self, request: Request, visit: Visit, error: Exception, *, as_json: bool) -> Response:
        if not isinstance(error, SpecKitMemoryError):
            logger.error("a page failed in a way nobody foresaw", exc_info=error)
        rendered = render.error(error, say=for_page)
        not_there = isinstance(error, (MemoryNotFound, CheckpointNotFound))
        status = 404 if not_there else 400 if isinstance(error, SpecKitMemoryError) else 500
        if as_json:
            return JSONResponse({"error": rendered}, status_code=status)
        named = "/time" if isinstance(error, CheckpointNotFound) else "/folders"
        to = named if not_there and "name" in request.path_params else "/search"
        if not_there:  # instead of naming a command
            rendered = {**rendered, "hint": INSTEAD[to]}
        page_view = views.PageView(
            "error.html", title="Not shown", section=to[1:], values={"error": rendered, "status": status, "to": to}
        )
        try:
            return self._html(request, visit, page_view.template, page_view, status=status)
        except Exception:  # noqa: BLE001 - the workspace itself cannot be opened
            return PlainTextResponse(
                f"{rendered['code']} {rendered['message']}\n{rendered['hint']}\n", status_code=status
            )

    async def missing(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 404)
        visit = await self._visit(request)
        allowed = getattr(error, "headers", None) or {}
        if visit is None or request.url.path.endswith(".json"):
            return PlainTextResponse("There is no such page.\n", status_code=status, headers=allowed)
        rendered = {"code": str(status), "message": "There is no such page.", "hint": "Search, or choose a page above."}
        page_view = views.PageView(
            "error.html", title="No such page", values={"error": rendered, "status": status, "to": "/search"}
        )
        answer = await anyio.to_thread.run_sync(
            partial(self._html, request, visit, page_view.template, page_view, status=status)
        )
        answer.headers.update(allowed)
        return answer

    # --- changes

    def _may_change(self, request: Request, visit: Visit, form: Mapping[str, str]) -> bool:
        token = form.get("csrf") or request.headers.get("x-csrf-token", "")
        return self._access.is_from_here(request.headers) and self._access.is_meant(visit, token)

    async def change(self, act: Callable[..., changes.ChangeDone], request: Request) -> Response:
        visit = await self._visit(request)
        form = await read_form(request)
        if visit is None or not self._may_change(request, visit, form):
            return self._not_sent(request, visit, form)
        done = await anyio.to_thread.run_sync(partial(self._perform, act, request, visit, form))
        if request.headers.get("hx-request") == "true":
            here = _local_address(form.get("next", ""))
            response = html("done.html", notice=done.notice, csrf=visit.csrf, here=here, **self._offers(request, visit))
            return Response(below(response, self._base(request)), media_type="text/html")
        await anyio.to_thread.run_sync(visit.note, done.notice)
        to = f"{self._base(request)}{_local_address(done.to)}" if done.to else _local_address(form.get("next", ""))
        return RedirectResponse(to, status_code=303)

    def _not_sent(self, request: Request, visit: Visit | None, form: Mapping[str, str]) -> Response:
        """The answer to a form that changed nothing: if it is ours, with what was typed and a way to send it again."""
        by_script = request.headers.get("hx-request") == "true"
        if by_script or not form or not self._access.is_from_here(request.headers):
            return PlainTextResponse("Nothing was changed: open the page again, and try once more.\n", status_code=403)
        fields = {name: value for name, value in form.items() if name != "csrf"}
        response = html(
            "not_sent.html",
            theme=_theme(request),
            address=quote(request.url.path),
            fields=fields,
            typed={name: value for name, value in fields.items() if name != "next" and value.strip()},
            csrf=visit.csrf if visit else "",
            by_form=self._access.takes_token,
        )
        return Response(response, status_code=403, media_type="text/html")

    def _base(self, request: Request) -> str:
        """The path prefix of this request's workspace."""
        return ""

    def _perform(
        self, act: Callable[..., changes.ChangeDone], request: Request, visit: Visit, form: Mapping[str, str]
    ) -> changes.ChangeDone:
        try:
            with self._workspace(request, visit) as workspace:
                return act(workspace, changes.Sent(request.path_params, form))
        except Exception as error:
            if not isinstance(error, SpecKitMemoryError):
                logger.error("a change failed in a way nobody foresaw", exc_info=error)
            rendered = render.error(error, say=for_page)
            message, hint = (sentence(rendered[part]) for part in ("message", "hint"))
            return changes.ChangeDone(Notice(message, hints=(hint,), failed=True))


# Addresses in our own templates; text of memories is escaped or sanitised and cannot match.
_ADDRESS = re.compile(r'(\s(?:href|action|formaction|hx-get|hx-post)=")(/(?!/|static/|theme|sign-|projects|p/)[^"]*")')


def below(page: str, base: str) -> str:
    """The page with the prefix `base` added to its addresses."""
    return _ADDRESS.sub(rf"\g<1>{base}\g<2>", page) if base else page


def _current_address(request: Request) -> str:
    path = quote(request.url.path.removesuffix(".json"))
    return f"{path}?{request.url.query}" if request.url.query else path


def _local_address(address: str) -> str:
    """The given address if it is one of this site, else that of search: never redirect to another site."""
    local = address.startswith("/") and not address.startswith(("//", "/\\")) and "\\" not in address
    return address if local and address.isprintable() else "/search"


def _theme(request: Request) -> str:
    theme = request.cookies.get("skm_theme", "system")
    return theme if theme in THEMES else "system"


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; empty if the body is not a form, too long, or has too many fields."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_FORM_BYTES:
            return {}
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:  # more than MOST_FIELDS
        return {}
