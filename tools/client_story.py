"""Does one client library work with our server? Run in an environment that has that library and not our package.

    python client_story.py LIBRARY stdio|http TARGET...

TARGET is the command line of the server, or its address. The steps: list the tools, call memory_context, save, search
for the saved text, and cause an error. It prints the results of all steps as one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

# A connection: the names of the tools, and a function that calls one and returns its text or raises.
Connection = tuple[list[str], Callable[[str, dict[str, Any]], Awaitable[str]]]
FACT = "The harbour gate opens at six because the ferry comes at half past."


def _texts(content: Any) -> str:
    parts = content if isinstance(content, list) else [content]
    return "\n".join(str(getattr(part, "text", part)) for part in parts)


@asynccontextmanager
async def fastmcp(kind: str, target: list[str]) -> AsyncIterator[Connection]:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

    transport = StdioTransport(target[0], target[1:]) if kind == "stdio" else StreamableHttpTransport(target[0])
    async with Client(transport) as client:

        async def call(name: str, arguments: dict[str, Any]) -> str:
            return _texts((await client.call_tool(name, arguments)).content)

        yield [tool.name for tool in await client.list_tools()], call


@asynccontextmanager
async def pydantic_ai(kind: str, target: list[str]) -> AsyncIterator[Connection]:
    from fastmcp.client.transports import StdioTransport
    from pydantic_ai.mcp import MCPToolset

    toolset: Any = MCPToolset(StdioTransport(target[0], target[1:]) if kind == "stdio" else target[0])
    async with toolset:

        async def call(name: str, arguments: dict[str, Any]) -> str:
            result = await toolset.direct_call_tool(name, arguments)
            return result if isinstance(result, str) else json.dumps(result, default=str)

        yield [tool.name for tool in await toolset.list_tools()], call


@asynccontextmanager
async def openai_agents(kind: str, target: list[str]) -> AsyncIterator[Connection]:
    from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

    server: Any
    if kind == "stdio":
        server = MCPServerStdio({"command": target[0], "args": target[1:]}, client_session_timeout_seconds=60)
    else:
        server = MCPServerStreamableHttp({"url": target[0]}, client_session_timeout_seconds=60)
    async with server:

        async def call(name: str, arguments: dict[str, Any]) -> str:
            result = await server.call_tool(name, arguments)
            text = _texts(result.content)
            if getattr(result, "is_error", getattr(result, "isError", False)):
                raise RuntimeError(text)
            return text

        yield [tool.name for tool in await server.list_tools()], call


@asynccontextmanager
async def langchain(kind: str, target: list[str]) -> AsyncIterator[Connection]:
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    place: Any = (
        {"transport": "stdio", "command": target[0], "args": target[1:]}
        if kind == "stdio"
        else {"transport": "streamable_http", "url": target[0]}
    )
    async with MultiServerMCPClient({"memory": place}).session("memory") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def call(name: str, arguments: dict[str, Any]) -> str:
            return json.dumps(await tools[name].ainvoke(arguments), default=str, ensure_ascii=False)

        yield list(tools), call


@asynccontextmanager
async def mcp_use(kind: str, target: list[str]) -> AsyncIterator[Connection]:
    from mcp_use import MCPClient

    place = {"command": target[0], "args": target[1:]} if kind == "stdio" else {"url": target[0]}
    client = MCPClient.from_dict({"mcpServers": {"memory": place}})
    try:
        session: Any = await client.create_session("memory")

        async def call(name: str, arguments: dict[str, Any]) -> str:
            result = await session.call_tool(name, arguments)
            text = _texts(result.content)
            if getattr(result, "isError", False):
                raise RuntimeError(text)
            return text

        yield [tool.name for tool in await session.list_tools()], call
    finally:
        await client.close_all_sessions()


LIBRARIES: dict[str, Callable[[str, list[str]], AbstractAsyncContextManager[Connection]]] = {
    "fastmcp": fastmcp,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
    "langchain-mcp-adapters": langchain,
    "mcp-use": mcp_use,
}


async def story(library: str, kind: str, target: list[str]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    async with LIBRARIES[library](kind, target) as (names, call):
        results["tools"] = names
        results["context"] = await call("memory_context", {"prompt": "why did we leave polling"})
        context = {"title": "Harbour gate", "sessionSummary": FACT}
        results["save"] = await call("memory_save", {"context": context, "specFolder": "002-dock-link"})
        results["search"] = await call("memory_search", {"query": "when does the harbour gate open"})
        try:
            results["error"] = await call("memory_load", {"memoryId": 999_999})
        except Exception as error:  # noqa: BLE001 - each library has its own exceptions
            results["error"] = str(error)
    return results


if __name__ == "__main__":
    print(json.dumps(asyncio.run(story(sys.argv[1], sys.argv[2], sys.argv[3:]))))
