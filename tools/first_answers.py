"""What does the server answer before the SDK is imported? The SDK's own answers, stored in a file.

python -m tools.first_answers            writes src/spec_kit_memory/serve/mcp/first_answers.json
python -m tools.first_answers --check    exits with 1 if the file is not current
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION

from spec_kit_memory.serve.mcp.handshake import BEGINNINGS, LISTS
from spec_kit_memory.serve.mcp.resources import BEGINNING
from spec_kit_memory.serve.mcp.server import build_server
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.workspace import Workspace

FILE = Path(__file__).parents[1] / "src" / "spec_kit_memory" / "serve" / "mcp" / "first_answers.json"
CLIENT = {"name": "first answers", "version": "1"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def handshake(version: str) -> list[dict[str, Any]]:
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    return [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *({"jsonrpc": "2.0", "id": 2 + place, "method": method} for place, method in enumerate((*LISTS, "ping"))),
        *({"jsonrpc": "2.0", "id": method, "method": method, "params": {"cursor": BEGINNING}} for method in BEGINNINGS),
    ]


def modern() -> list[dict[str, Any]]:
    return [
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": ENVELOPE}},
        *(
            {"jsonrpc": "2.0", "id": 2 + place, "method": method, "params": {"_meta": ENVELOPE}}
            for place, method in enumerate(LISTS)
        ),
        *(
            {"jsonrpc": "2.0", "id": method, "method": method, "params": {"cursor": BEGINNING, "_meta": ENVELOPE}}
            for method in BEGINNINGS
        ),
    ]


async def conversation(messages: list[dict[str, Any]], *, lean: bool) -> dict[str, str]:
    """The SDK server's result for each request, as JSON text by method."""

    def never() -> Workspace:
        raise RuntimeError("the first answers open no workspace")

    server = build_server(LiveWorkspace(never, background=False), lean=lean)
    to_server, incoming = create_context_streams[SessionMessage | Exception](16)
    outgoing, from_server = create_context_streams[SessionMessage](16)
    results: dict[str, str] = {}
    async with from_server, anyio.create_task_group() as group:
        group.start_soon(server.run, incoming, outgoing, server.create_initialization_options())
        for message in messages:
            await to_server.send(SessionMessage(types.jsonrpc_message_adapter.validate_python(message, by_name=False)))
            if "id" in message:
                sent = await from_server.receive()
                answer = json.loads(sent.message.model_dump_json(by_alias=True, exclude_unset=True))
                results[message["method"]] = json.dumps(answer["result"], ensure_ascii=False, separators=(",", ":"))
        await to_server.aclose()
        group.cancel_scope.cancel()
    return results


async def collect(*, lean: bool) -> dict[str, str]:
    results: dict[str, str] = {}
    for version in HANDSHAKE_PROTOCOL_VERSIONS:
        answers = await conversation(handshake(version), lean=lean)
        results[f"initialize {version}"] = answers["initialize"]
        results |= {f"{method} {version}": answers[method] for method in (*LISTS, *BEGINNINGS)}
        results["ping"] = answers["ping"]
    answers = await conversation(modern(), lean=lean)
    results["server/discover"] = answers["server/discover"]
    results |= {f"{method} {LATEST_MODERN_VERSION}": answers[method] for method in (*LISTS, *BEGINNINGS)}
    return results


def made() -> str:
    """The content of the file. Most protocol versions have equal results, so each is stored once, and keys map to
    indexes."""
    collected = {"all": anyio.run(lambda: collect(lean=False)), "lean": anyio.run(lambda: collect(lean=True))}
    texts = list(dict.fromkeys(text for results in collected.values() for text in results.values()))
    content = {
        "handshakes": list(HANDSHAKE_PROTOCOL_VERSIONS),
        "modern": LATEST_MODERN_VERSION,
        **{name: {key: texts.index(text) for key, text in results.items()} for name, results in collected.items()},
        "results": texts,
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def is_current() -> bool:
    return FILE.exists() and FILE.read_text(encoding="utf-8") == made()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if the file is not current")
    if parser.parse_args().check:
        if not is_current():
            sys.exit(f"{FILE.name} is not current: run python -m tools.first_answers")
    else:
        FILE.write_text(made(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
