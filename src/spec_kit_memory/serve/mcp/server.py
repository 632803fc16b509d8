"""How does an agent's host talk to a workspace? Over MCP, on the official SDK's low-level server.

Our own schemas are sent unchanged, calls run in worker threads, and the first answer needs no module of ours but the
table of tools. One server object serves both protocol eras.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS, is_version_at_least

from spec_kit_memory import __version__
from spec_kit_memory.caller import Caller
from spec_kit_memory.errors import Invalid, SpecKitMemoryError, UndecidedSpecFolder
from spec_kit_memory.parameters import Request
from spec_kit_memory.requests import IndexRequest, UpdateRequest
from spec_kit_memory.serve import render
from spec_kit_memory.serve.mcp import handshake, resources
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace, exit_on_signal, must_exist, open_at
from spec_kit_memory.serve.tools import (
    BY_NAME,
    OUTPUT_SCHEMA,
    TOOLS,
    Tool,
    behaviour,
    commands_meant,
    input_schema,
    meant,
    read_arguments,
)

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

    from spec_kit_memory.answers import Answer
    from spec_kit_memory.workspace import Workspace

logger = logging.getLogger(__name__)

NAME = "spec_kit_memory"
INSTRUCTIONS = (
    "Memory of this project across sessions. Start or resume with memory_context. Before answering about prior "
    "work, decisions, dates, people or preferences, call memory_search. Save with memory_save when work ends or "
    "decisions were made. After using a memory, say with memory_validate whether it helped."
)
WORKERS = 8  # threads for calls that read, enough to keep two cores busy, and as many for those that write
_READING = frozenset(tool.request.verb for tool in TOOLS if tool.reads)
PROGRESS_SECONDS = 0.1
SESSION_HEADER = "mcp-session-id"
# The longest answer without a budget of its own: longer lists and texts are truncated, and the answer says so.
MOST_CHARACTERS = 100_000
STRUCTURED_SINCE = "2025-06-18"
# Claude Code loads these tools at once, and the others through its own tool search.
ALWAYS_LOADED = frozenset(("memory_context", "memory_search", "memory_save"))

Context = Any  # ServerRequestContext[Any, Any]
T = TypeVar("T")


def build_server(
    live: LiveWorkspace,
    *,
    lean: bool = False,
    identify: Callable[[Context, Caller], Caller] | None = None,
    authorize: Callable[[Context, Tool, Request], None] = lambda ctx, tool, request: None,
) -> Server[Any]:
    """The MCP server over a workspace, for any transport.

    `identify` returns the caller of a request, given its context and the process's own caller; by default the latter,
    with the request's connection. `authorize` raises if that caller may not make the request.
    """
    tools = tuple(tool for tool in TOOLS if tool.lean or not lean)
    identify_caller = identify or _connected_caller
    return server_of(Served(live, tools, lambda ctx, caller, request: identify_caller(ctx, caller), authorize))


def server_of(served: Any, *, schema_of: Callable[[Tool], dict[str, Any]] = input_schema) -> Server[Any]:
    """The SDK's server for `served`: one workspace, or a router for several."""
    server: Server[Any] = Server(
        NAME,
        version=__version__,
        title="Spec Kit Memory",
        instructions=INSTRUCTIONS,
        lifespan=_connected,
        get_tool_input_schema=lambda name: schema_of(BY_NAME[name]) if name in BY_NAME else None,
        on_list_tools=served.list_tools,
        on_call_tool=served.call_tool,
        on_list_resources=served.list_resources,
        on_list_resource_templates=served.list_templates,
        on_read_resource=served.read_resource,
        on_list_prompts=served.list_prompts,
        on_get_prompt=served.get_prompt,
        on_completion=served.complete,
    )
    server.middleware.append(served.wake_behind)
    return server


class Workers:
    """The threads that answer calls. Writers take turns, so they have threads of their own: however many of them wait,
    a search does not."""

    def __init__(self) -> None:
        self._limiters: dict[bool, anyio.CapacityLimiter] = {}  # by whether the call reads; made by the event loop

    def limiter(self, request: Request | None) -> anyio.CapacityLimiter:
        reads = request is None or request.verb in _READING
        if reads not in self._limiters:
            self._limiters[reads] = anyio.CapacityLimiter(WORKERS)
        return self._limiters[reads]


@dataclass
class Served:
    """Answers protocol requests for one workspace. `identify` also gets the verb's request if there is one."""

    live: LiveWorkspace
    tools: tuple[Tool, ...]
    identify: Callable[[Context, Caller, Request | None], Caller]
    authorize: Callable[[Context, Tool, Request], None]
    workers: Workers = field(default_factory=Workers, kw_only=True)

    async def wake_behind(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        self.live.wake_soon()
        return result

    async def in_thread(self, ctx: Context, work: Callable[[Workspace], T], request: Request | None = None) -> T:
        """Run `work` in a thread, on the workspace as the sender of this request sees it."""

        def run() -> T:
            with self.live.use() as workspace:
                return work(workspace.for_caller(self.identify(ctx, workspace.caller, request)))

        # If the client cancels, the thread is abandoned: it cannot be stopped, but its answer can be dropped.
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=self.workers.limiter(request))

    # --- tools

    async def list_tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[described(tool, ctx, input_schema(tool)) for tool in self.tools])

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        tool = next((candidate for candidate in self.tools if candidate.name == params.name), None)
        if tool is None:
            raise MCPError(code=types.INVALID_PARAMS, message=_no_such_tool(params.name, self.tools))
        try:
            request = read_arguments(tool, params.arguments)
            self.authorize(ctx, tool, request)
            result = await self._called(ctx, params, tool, request)
        except Exception as error:  # noqa: BLE001 - the edge: the client gets a code and a hint, never a traceback
            return failure(ctx, error)
        return _for_protocol(ctx, result) if isinstance(result, types.CallToolResult) else result

    async def _called(
        self, ctx: Context, params: types.CallToolRequestParams, tool: Tool, request: Request
    ) -> types.CallToolResult | types.InputRequiredResult:
        question = _must_confirm(request)
        if question is None:
            try:
                return await self._answer(ctx, tool, request)
            except UndecidedSpecFolder as error:
                question = _which_folder(error)
                if question is None or not _supports_elicitation(ctx):
                    raise
        elif not _supports_elicitation(ctx):
            return await self._answer(ctx, tool, request)
        reply = await _elicit(ctx, params, question)
        if isinstance(reply, types.InputRequiredResult):
            return reply
        if reply is None:
            raise question.declined
        return await self._answer(ctx, tool, request.replace(**{question.argument: reply}))

    async def _answer(self, ctx: Context, tool: Tool, request: Request) -> types.CallToolResult:
        if isinstance(request, IndexRequest):
            return _success(tool, request, await self._scan(ctx, request))

        def work(workspace: Workspace) -> types.CallToolResult:
            answer: Answer = getattr(workspace, request.verb)(request)
            sent = _success(tool, request, answer)
            workspace.record_sent(request.verb, tokens=(sent.structured_content or {})["meta"]["tokens"])
            return sent

        return await self.in_thread(ctx, work, request)

    async def _scan(self, ctx: Context, request: IndexRequest) -> Answer:
        """Run a scan that reports its progress and stops when the client cancels."""
        stopped = threading.Event()
        progress = _Progress(ctx, stopped)
        whole = request.replace(cooldown=True, embed=False, progress=progress.step, cancelled=stopped.is_set)
        try:
            return await self.in_thread(ctx, lambda workspace: getattr(workspace, request.verb)(whole), request)
        finally:
            stopped.set()

    # --- resources

    async def list_resources(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        is_beginning = params is not None and params.cursor == resources.BEGINNING
        rows = resources.ALWAYS_LISTED if is_beginning else await self._in_thread_or_error(ctx, resources.listed)
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=uri, name=name, description=about, mime_type="text/markdown")
                for uri, name, about in rows
            ]
        )

    async def list_templates(self, ctx: Context, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(uri_template=uri, name=name, description=about, mime_type="text/markdown")
                for uri, name, about in resources.TEMPLATES
            ]
        )

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        parts = await self._in_thread_or_error(ctx, partial(resources.read, str(params.uri)), uri=str(params.uri))
        return types.ReadResourceResult(
            contents=[
                types.TextResourceContents(uri=uri, mime_type="text/markdown", text=_sendable(text))
                for uri, text in parts
            ]
        )

    # --- prompts and completion

    async def list_prompts(self, ctx: Context, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=prompt.name,
                    description=prompt.about,
                    arguments=[
                        types.PromptArgument(name=name, description=about, required=required)
                        for name, about, required in prompt.arguments
                    ],
                )
                for prompt in resources.PROMPTS
            ]
        )

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        text = await self._in_thread_or_error(ctx, partial(resources.prompt_text, params.name, params.arguments or {}))
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=_sendable(text)))
        about = next(prompt.about for prompt in resources.PROMPTS if prompt.name == params.name)
        return types.GetPromptResult(description=about, messages=[message])

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
        of_template = isinstance(params.ref, types.ResourceTemplateReference)
        find = partial(resources.complete, params.argument.name, params.argument.value, of_template=of_template)
        names = await self._in_thread_or_error(ctx, find)
        # The protocol allows a hundred values.
        completion = types.Completion(values=names[:100], total=len(names), has_more=len(names) > 100)
        return types.CompleteResult(completion=completion)

    async def _in_thread_or_error(self, ctx: Context, work: Callable[[Workspace], T], **about: str) -> T:
        """Like `in_thread`, but failures become protocol errors, because there is no tool result for them."""
        try:
            return await self.in_thread(ctx, work)
        except SpecKitMemoryError as error:
            rendered = render.error(error) | about
            raise MCPError(code=types.INVALID_PARAMS, message=error.message, data=rendered) from error
        except Exception as error:
            rendered = render.error(error) | about
            raise MCPError(code=types.INTERNAL_ERROR, message=rendered["message"], data=rendered) from error


@asynccontextmanager
async def _connected(server: Server[Any]) -> AsyncIterator[str]:
    """An id for each run of the server; over standard input and output, a run is one client."""
    yield uuid4().hex


def _connected_caller(ctx: Context, caller: Caller) -> Caller:
    """The process's own caller with this request's connection, which is "" over HTTP without a session."""
    if ctx.request is None:
        return replace(caller, connection=str(ctx.lifespan_context))
    return replace(caller, connection=str(ctx.request.headers.get(SESSION_HEADER, "")))


# --- results ------------------------------------------------------------------------------------


def _is_structured(ctx: Context) -> bool:
    """Does the client's protocol version have structured content? Some hosts would pass it on in any case, in addition
    to the text."""
    return is_version_at_least(ctx.protocol_version, STRUCTURED_SINCE)


def _no_such_tool(name: str, tools: Sequence[Tool]) -> str:
    close, commands = meant(name, tools), commands_meant(name)
    suggestion = f" Did you mean {' or '.join(close)}?" if close else ""
    if commands:
        suggestion = f" The user can run `skm {commands[0]}`."
    return f"Unknown tool: {name[:200]}.{suggestion} There are {', '.join(tool.name for tool in tools)}."


def _for_protocol(ctx: Context, result: types.CallToolResult) -> types.CallToolResult:
    if not _is_structured(ctx):
        result.structured_content = None
    return result


def described(tool: Tool, ctx: Context, schema: dict[str, Any]) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.about,
        input_schema=schema,
        output_schema=dict(OUTPUT_SCHEMA) if _is_structured(ctx) else None,
        annotations=types.ToolAnnotations.model_validate(behaviour(tool)),
        _meta={"anthropic/alwaysLoad": True} if tool.name in ALWAYS_LOADED else None,
    )


def _success(tool: Tool, request: Request, answer: Answer) -> types.CallToolResult:
    # Budgets are in tokens of about four characters; escapes in JSON take more.
    room = MOST_CHARACTERS + 8 * int(getattr(request, "max_tokens", None) or 0)
    return _result(render.envelope(answer, tool=tool.name, characters=room), is_error=False)


def success(ctx: Context, tool: Tool, request: Request, answer: Answer) -> types.CallToolResult:
    return _for_protocol(ctx, _success(tool, request, answer))


def failure(ctx: Context, error: Exception) -> types.CallToolResult:
    if not isinstance(error, SpecKitMemoryError):
        logger.error("a call failed in a way nobody foresaw", exc_info=error)
    return _for_protocol(ctx, _result(render.error(error), is_error=True))


def _result(content: dict[str, Any], *, is_error: bool) -> types.CallToolResult:
    text = render.compact(content)
    # Parsed from the text, so that both are always equal and valid Unicode.
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=json.loads(text), is_error=is_error
    )


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


class _Progress:
    """Reports the progress of a worker thread: increasing over all stages, at most ten times a second."""

    def __init__(self, ctx: Context, stopped: threading.Event) -> None:
        self._ctx = ctx
        self._stopped = stopped
        self._stage = ""
        self._before = self._done = 0
        self._next = 0.0

    def step(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._before += self._done
            self._stage = stage
        self._done = done
        now = time.monotonic()
        if self._stopped.is_set() or (now < self._next and done < total):
            return
        self._next = now + PROGRESS_SECONDS
        try:
            anyio.from_thread.run(
                self._ctx.session.report_progress, float(self._before + done), float(self._before + total), stage
            )
        except RuntimeError:
            # The event loop has ended: the client has gone.
            self._stopped.set()


# --- questions to a person ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Question:
    argument: str  # of the verb, which the answer sets
    message: str
    property: Mapping[str, Any]  # JSON Schema of the answer
    declined: SpecKitMemoryError


def _which_folder(error: UndecidedSpecFolder) -> _Question | None:
    alternatives = error.details.get("alternatives")
    rows = alternatives if isinstance(alternatives, list | tuple) else ()
    names = [str(row.get("name") or row.get("specFolder")) if isinstance(row, Mapping) else str(row) for row in rows]
    if not names:
        return None
    choice = {"type": "string", "title": "Spec folder", "enum": names}
    return _Question("spec_folder", error.message, choice, error)


def _must_confirm(request: Request) -> _Question | None:
    """The question for a request that makes a memory constitutional; None for other requests."""
    if not isinstance(request, UpdateRequest) or request.importance_tier != "constitutional" or request.confirm:
        return None
    message = f"Make memory {request.id} constitutional? It will stand above the results of every search."
    refused = Invalid("Nobody confirmed that the memory becomes constitutional.", hint="Ask the user first.")
    return _Question("confirm", message, {"type": "boolean", "title": "Make it a rule"}, refused)


def _supports_elicitation(ctx: Context) -> bool:
    capabilities = ctx.session.client_capabilities
    offered = capabilities.elicitation if capabilities else None
    # An empty capability means forms, as in versions before modes existed.
    return offered is not None and (offered.form is not None or offered.url is None)


async def _elicit(ctx: Context, params: types.CallToolRequestParams, question: _Question) -> Any:
    """The person's answer, or None if declined. In the newer era, the first call returns a result that requests it."""
    schema = {
        "type": "object",
        "properties": {question.argument: dict(question.property)},
        "required": [question.argument],
    }
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        reply = (params.input_responses or {}).get(question.argument)
        if reply is None:
            form = types.ElicitRequestFormParams(message=question.message, requested_schema=schema)
            return types.InputRequiredResult(input_requests={question.argument: types.ElicitRequest(params=form)})
    else:
        reply = await ctx.session.elicit_form(question.message, schema, related_request_id=ctx.request_id)
    if not isinstance(reply, types.ElicitResult) or reply.action != "accept":
        return None
    value = (reply.content or {}).get(question.argument)
    allowed = question.property.get("enum")
    return None if value is False or (allowed and value not in allowed) else value


# --- standard input and output --------------------------------------------------------------------


def serve_stdio(*, workspace: str | None, flags: Mapping[str, object], lean: bool = False) -> None:
    """Serve until the client closes the connection; then end the process."""
    live = LiveWorkspace(partial(open_at, workspace, flags, personal=True), check=must_exist)
    front = handshake.running()
    shut_down = exit_on_signal(live, parent=front.parent if front else None)
    try:
        anyio.run(_stdio, build_server(live, lean=lean))
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        shut_down()


async def _stdio(server: Server[Any]) -> None:
    # The SDK, or the front before it, reserves standard output for the protocol: `print` goes to standard error.
    from mcp.server.stdio import stdio_server

    from spec_kit_memory.serve.mcp.stdio import Answered

    front: Any = handshake.running()
    if front is not None:
        front.hand_over()
        front = anyio.wrap_file(front)
    async with stdio_server(front, front) as (incoming, outgoing):
        await server.run(Answered(incoming, outgoing), outgoing, server.create_initialization_options())
