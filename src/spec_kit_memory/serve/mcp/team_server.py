"""How does MCP serve many projects? Each call is routed to the project that it names, with the caller's rights.

`project` and `projects` are removed from a call's arguments before they are validated; the rest is handled by the
server of one workspace. A caller with access to only one project neither sees nor needs these parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.shared.exceptions import MCPError

from spec_kit_memory.caller import Caller
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.errors import BadParameter, SpecKitMemoryError
from spec_kit_memory.parameters import Request
from spec_kit_memory.requests import SearchRequest
from spec_kit_memory.serve import render
from spec_kit_memory.serve.mcp import resources
from spec_kit_memory.serve.mcp.server import Context, Served, Workers, described, failure, server_of, success
from spec_kit_memory.serve.tools import BY_NAME, TOOLS, Tool, input_schema, read_arguments
from spec_kit_memory.team.project_answers import joined_projects
from spec_kit_memory.team.rights import Access, Role

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.lowlevel.server import Server

    from spec_kit_memory.answers import SearchAnswer
    from spec_kit_memory.serve.http.open_projects import OpenProjects
    from spec_kit_memory.workspace import Workspace

# For these, admins see the whole index and others their own view. Personal vaults are not on the server.
WHOLE_VIEW = frozenset(("health", "stats"))
# Checkpoints belong to the project, so that an admin can restore one that a writer made. They contain shared memories
# only, never a person's own notes.
SHARED_VIEW = frozenset(
    ("checkpoint_create", "checkpoint_list", "checkpoint_diff", "checkpoint_restore", "checkpoint_delete")
)
DEFAULT_TOKENS = 4000
_URI = re.compile(r"memory://(?P<project>[^/]+)/(?P<rest>.+)")


def caller_for(
    access: Access, caller: Caller, *, project: str = "", verb: str | None = None, connection: str = ""
) -> Caller:
    """The workspace's own caller with this user, and with the scope that the verb has for them in the project."""
    is_whole = verb in WHOLE_VIEW and access.role(project) is Role.ADMIN
    scope = Scope() if is_whole or verb in SHARED_VIEW else replace(caller.scope, user=access.user.id)
    return replace(
        caller,
        scope=scope,
        user=str(access.user),
        connection=connection,
        personal=False,
        rules_others=access.role(project) is Role.ADMIN,
    )


def build_team_server(
    projects: OpenProjects, *, access_of: Callable[[Context], Access], lean: bool = False
) -> Server[Any]:
    """The MCP server over many projects. `access_of` returns the user of a request and their rights."""
    tools = tuple(tool for tool in TOOLS if tool.lean or not lean)
    return server_of(_TeamServed(projects, tools, access_of), schema_of=_full_schema)


def _full_schema(tool: Tool) -> dict[str, Any]:
    """A tool's schema with the additional parameters of a team server."""
    schema = input_schema(tool)
    properties: dict[str, Any] = {**schema["properties"], "project": {"type": "string"}}
    if tool.request is SearchRequest:
        properties["projects"] = {
            "type": "array",
            "items": {"type": "string"},
            "description": "Search these together, or all",
        }
    return {**schema, "properties": properties}


@dataclass
class _TeamServed:
    projects: OpenProjects
    tools: tuple[Tool, ...]
    access_of: Callable[[Context], Access]
    _workers: Workers = field(default_factory=Workers, init=False)

    async def wake_behind(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        return await call_next(ctx)

    def _served(self, project: str, access: Access) -> Served:
        """The server of one project, for one request."""

        def identify(ctx: Context, caller: Caller, request: Request | None = None) -> Caller:
            verb = None if request is None else request.verb
            connection = str(ctx.request.headers.get("mcp-session-id", "")) if ctx.request is not None else ""
            return caller_for(access, caller, project=project, verb=verb, connection=connection)

        def authorize(ctx: Context, tool: Tool, request: Request) -> None:
            access.require(project, request)

        handle: Any = self.projects.handle(project)
        return Served(handle, self.tools, identify, authorize, workers=self._workers)

    # --- tools

    async def list_tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        several = len(self.access_of(ctx).projects) != 1
        return types.ListToolsResult(
            tools=[described(tool, ctx, _full_schema(tool) if several else input_schema(tool)) for tool in self.tools]
        )

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        try:
            access = self.access_of(ctx)
            arguments, project, projects = _taken_out(params.arguments)
            if projects is not None and params.name == "memory_search":
                if project is not None:
                    raise BadParameter("'project' and 'projects' exclude each other.", hint="Leave one of them out.")
                names = access.choose_several(projects)
                if len(names) > 1:
                    return await self._search(ctx, access, names, read_arguments(BY_NAME[params.name], arguments))
                project = names[0]
            elif projects is not None:
                raise BadParameter("'projects' is for memory_search.", hint="Name one with project.")
            name = access.choose(project)
        except SpecKitMemoryError as error:
            return failure(ctx, error)
        rest = params.model_copy(update={"arguments": arguments})
        return await self._served(name, access).call_tool(ctx, rest)

    async def _search(
        self, ctx: Context, access: Access, names: Sequence[str], request: Request
    ) -> types.CallToolResult:
        """Search several projects concurrently and join their answers within one budget.

        The answer names projects that failed; if all did, it is the first one's error.
        """
        tool = BY_NAME["memory_search"]
        assert isinstance(request, SearchRequest)
        answers: dict[str, SearchAnswer] = {}
        failures: dict[str, Exception] = {}
        budget = request.max_tokens or DEFAULT_TOKENS
        share = request.replace(max_tokens=max(100, budget // len(names)))

        async def ask(name: str) -> None:
            served = self._served(name, access)
            try:
                served.authorize(ctx, tool, share)
                answers[name] = await served.in_thread(ctx, lambda workspace: _search(workspace, share), share)
            except Exception as error:  # noqa: BLE001 - the edge, as for a call to one project
                failures[name] = error

        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(ask, name)
        failed = {name: failure(ctx, failures[name]) for name in names if name in failures}
        if not answers:
            return failed[names[0]]
        joined = joined_projects({name: answers[name] for name in names if name in answers}, limit=request.limit)
        missing = tuple(f"{name}: {(result.structured_content or {})['message']}" for name, result in failed.items())
        return success(ctx, tool, request, replace(joined, unavailable=(*joined.unavailable, *missing)))

    # --- resources

    async def list_resources(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        """The folders of a single project, or else the rules of each, because a list must not open every project."""
        access = self.access_of(ctx)
        names = access.projects
        if len(names) == 1:
            listed = await self._served(names[0], access).list_resources(ctx, params)
            rows = [
                resource.model_copy(update={"uri": _in_project(str(resource.uri), names[0])})
                for resource in listed.resources
            ]
            return types.ListResourcesResult(resources=rows)
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=f"memory://{name}/constitutional",
                    name=f"{name}: constitutional",
                    description=f"The rules of {name}",
                    mime_type="text/markdown",
                )
                for name in names
            ]
        )

    async def list_templates(self, ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=_in_project(uri, "{project}"), name=name, description=about, mime_type="text/markdown"
                )
                for uri, name, about in resources.TEMPLATES
            ]
        )

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        access, uri = self.access_of(ctx), str(params.uri)
        parts = _URI.fullmatch(uri)
        named = parts["project"] if parts else None
        if parts and named in access.projects:
            project, inner = str(named), f"memory://{parts['rest']}"
        elif parts and named != "folder":
            raise _refused(access.refusal(str(named)), uri=uri)
        else:
            project, inner = _chosen(access, None, uri=uri), uri
        inner_params = params.model_copy(update={"uri": inner})
        read = await self._served(project, access).read_resource(ctx, inner_params)
        for content in read.contents:
            content.uri = _in_project(str(content.uri), project)
            if isinstance(content, types.TextResourceContents) and "/folder/" in inner:
                content.text = content.text.replace("](memory://", f"](memory://{project}/")
        return read

    # --- prompts and completion

    async def list_prompts(self, ctx: Context, params: Any) -> types.ListPromptsResult:
        access = self.access_of(ctx)
        listed = await Served.list_prompts(None, ctx, params)  # type: ignore[arg-type]
        if len(access.projects) != 1:
            for prompt in listed.prompts:
                argument = types.PromptArgument(name="project", description="Which project", required=True)
                prompt.arguments = [argument, *(prompt.arguments or [])]
        return listed

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        access = self.access_of(ctx)
        arguments = dict(params.arguments or {})
        project = _chosen(access, arguments.pop("project", None))
        prompt = await self._served(project, access).get_prompt(ctx, params.model_copy(update={"arguments": arguments}))
        if len(access.projects) > 1:
            for message in prompt.messages:
                if isinstance(message.content, types.TextContent):
                    message.content.text = f"In the project {project} (give it to every tool as project): " + (
                        message.content.text
                    )
        return prompt

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        access = self.access_of(ctx)
        if params.argument.name == "project":
            begun = params.argument.value.casefold()
            names = [name for name in access.projects if name.casefold().startswith(begun)]
            return types.CompleteResult(
                completion=types.Completion(values=names[:100], total=len(names), has_more=len(names) > 100)
            )
        values = (params.context.arguments if params.context else None) or {}
        project = values.get("project")
        if project is None and len(access.projects) != 1:
            return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))
        return await self._served(_chosen(access, project), access).complete(ctx, params)


def _search(workspace: Workspace, request: SearchRequest) -> SearchAnswer:
    answer: SearchAnswer = getattr(workspace, request.verb)(request)
    return answer


def _taken_out(given: Mapping[str, Any] | None) -> tuple[dict[str, Any], str | None, list[str] | None]:
    """The arguments without `project` and `projects`, and those two, read as leniently as other parameters."""
    arguments = dict(given or {})
    project, projects = arguments.pop("project", None), arguments.pop("projects", None)
    if project is not None and not isinstance(project, str):
        raise BadParameter(f"'project' is {project!r}, and must be a name.", hint="Name one project.")
    if isinstance(projects, str):
        projects = [name.strip() for name in projects.split(",")]
    if projects is not None and not (isinstance(projects, list) and all(isinstance(item, str) for item in projects)):
        raise BadParameter("'projects' must be a list of names, or all.", hint='E.g. ["shop", "bank"].')
    return arguments, (project or "").strip() or None, [item for item in projects or () if item] or None


def _in_project(uri: str, project: str) -> str:
    return uri.replace("memory://", f"memory://{project}/", 1)


def _chosen(access: Access, project: str | None, **about: str) -> str:
    try:
        return access.choose(project)
    except SpecKitMemoryError as error:
        raise _refused(error, **about) from error


def _refused(error: SpecKitMemoryError, **about: str) -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message=error.message, data=render.error(error) | about)
