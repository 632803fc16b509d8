"""Does a server that is called for long grow? A bounded run says."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.serve.test_stdio import embedded, environment

WARM_UP, ROUNDS = 60, 150
# Twice this would be seen by a person; a leak of one answer per call would be ten times as much.
GROWTH_BYTES = 16_000_000


def resident(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def children() -> set[int]:
    tasks = Path("/proc/self/task")
    return {int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_number_of_calls(tmp_path: Path) -> None:
    memory = tmp_path / "specs" / "007-auth" / "memory"
    memory.mkdir(parents=True)
    for number in range(30):
        text = f"# Decision {number}\n\n" + f"Token {number} lives for {number} minutes.\n" * 40
        (memory / f"{number}.md").write_text(text, encoding="utf-8")
    before = children()
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "spec_kit_memory", "serve"], env=environment(tmp_path), cwd=tmp_path
    )

    async def story() -> None:
        async with Client(parameters) as client:
            (server,) = children() - before
            with anyio.fail_after(280):
                while not await embedded(client):
                    await anyio.sleep(0.05)
                for number in range(WARM_UP):
                    await one_round(client, number)
                warm = resident(server)
                for number in range(WARM_UP, WARM_UP + ROUNDS):
                    await one_round(client, number)
                assert resident(server) - warm < GROWTH_BYTES

    anyio.run(story)
    assert children() == before


async def one_round(client: Client, number: int) -> None:
    """Different every time, so that no cache answers, and with an error among it."""
    session = f"session-{number % 7}"
    query = {"query": f"token {number} minutes", "sessionId": session, "includeContent": True}
    result = await client.call_tool("memory_search", query)
    assert not result.is_error, result
    await client.call_tool("memory_match_triggers", {"prompt": f"decision {number}", "sessionId": session})
    assert (await client.call_tool("memory_load", {"memoryId": 10_000 + number})).is_error
