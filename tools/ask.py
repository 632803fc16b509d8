"""Does the server answer an agent? Starts it as a host does, runs one search, prints the result.

python -m tools.ask WORKSPACE QUESTION
"""

from __future__ import annotations

import sys

import anyio
from mcp import Client, StdioServerParameters


async def ask(workspace: str, question: str) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "spec_kit_memory", "serve", "--workspace", workspace]
    )
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        print(f"connected over stdio: {len(tools)} tools, {tools[0].name} first")
        answer = await client.call_tool("memory_search", {"query": question, "limit": 1})
        content = answer.structured_content or {}
        print(content.get("summary", ""))
        for result in content.get("data", {}).get("results", []):
            print(f"{result['path']}:{result['lines']}\n{result['text']}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    anyio.run(ask, sys.argv[1], sys.argv[2])
