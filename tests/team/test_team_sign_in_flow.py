"""Sign-in on a team server with a real authorization server: the whole code flow, on both eras, projects by claims.

The server is the command itself, over PostgreSQL, with a mapping of groups to roles. What a person may do there is the
lesser of what their groups give and of the scopes that they agreed to.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from spec_kit_memory.team.database import TeamDatabase
from spec_kit_memory.team.projects import Projects
from tests.postgres_server import Server
from tests.serve.test_sign_in_flow import (
    DEADLINE_SECONDS,
    KNOWN_CLIENT,
    PROGRAM,
    Person,
    Place,
    assert_unspoken,
    data_of,
    programs,
    sent,
)

__all__ = ["programs"]  # a fixture

RIGHTS = [
    {"claim": "groups", "value": "shop-writers", "project": "shop", "role": "writer"},
    {"claim": "groups", "value": "shop-readers", "project": "shop", "role": "reader"},
    {"claim": "groups", "value": "bank-admins", "project": "bank", "role": "admin"},
]


@pytest.fixture(scope="module")
def place(programs: tuple[str, str], server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("team-sign-in")
    name = f"team_{uuid4().hex[:12]}"
    server.execute(f"CREATE DATABASE {name}")
    for project, text in (("shop", "The till takes cards."), ("bank", "The vault opens at nine.")):
        (folder / project / "memory").mkdir(parents=True)
        (folder / project / "memory" / "note.md").write_text(f"# Notes of the {project}\n\n{text}\n", encoding="utf-8")
        Projects(TeamDatabase(server.url(name))).add(project, repository=str(folder / project))
    (folder / "rights.json").write_text(json.dumps(RIGHTS), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, log = f"http://127.0.0.1:{port}/mcp", folder / "log"
    issuing = subprocess.Popen(
        [programs[0], str(PROGRAM), programs[1], address], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert issuing.stdout is not None
    issuer = issuing.stdout.readline().strip()
    words = ["serve", "--http", "--team", "--port", str(port), "--index", server.url(name), "--data", str(folder / "d")]
    words += ["--issuer", issuer, "--audience", address, "--rights", str(folder / "rights.json")]
    environment = os.environ | {"SPEC_KIT_MEMORY_SEMANTIC_MODEL": "none", "SPEC_KIT_MEMORY_TOKEN": ""}
    with log.open("w") as file:
        serving = subprocess.Popen(
            [sys.executable, "-m", "spec_kit_memory", *words], stdout=subprocess.DEVNULL, stderr=file, env=environment
        )
    try:
        until_indexed(address, log, TeamDatabase(server.url(name)))
        yield Place(address, issuer, log)
    finally:
        for process in (serving, issuing):
            process.terminate()
            process.wait(120)
        issuing.stdout.close()
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def until_indexed(address: str, log: Path, database: TeamDatabase) -> None:
    until = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < until:
        try:
            ready = httpx2.get(address.replace("/mcp", "/readyz"), timeout=10).status_code == 200
        except httpx2.TransportError:
            ready = False
        with database.transaction() as session:
            waiting = session.rows("SELECT 1 FROM served WHERE synced_at IS NULL")
        if ready and not waiting:
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text(encoding="utf-8"))


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_groups_give_projects_and_scopes_are_asked_for_as_they_are_needed(place: Place, mode: str) -> None:
    ana, ben = Person(f"ana-{mode}+shop-writers", KNOWN_CLIENT), Person(f"ben-{mode}+shop-readers", KNOWN_CLIENT)

    async def story() -> None:
        with anyio.fail_after(DEADLINE_SECONDS):
            async with (
                httpx2.AsyncClient(auth=ana.provider(place), timeout=DEADLINE_SECONDS) as http,
                Client(streamable_http_client(place.address, http_client=http), mode=mode) as client,
            ):
                result = data_of(await client.call_tool("memory_search", {"query": "till vault"}))
                titles = {row["title"] for row in result["results"]}
                assert "Notes of the shop" in titles
                assert "Notes of the bank" not in titles
                assert ana.asked == ["memory:read"]
                context = {"title": f"Kestrel of {mode}", "sessionSummary": "Kestrels hover over the till."}
                saved = data_of(await client.call_tool("memory_save", {"context": context}))
                assert ana.asked[1:] == ["memory:read memory:write"]
                for project in ("bank", "nank"):
                    refused = await client.call_tool("memory_search", {"query": "vault", "project": project})
                    assert refused.is_error
                    assert refused.structured_content["code"] == "E030"
            async with (
                httpx2.AsyncClient(auth=ben.provider(place), timeout=DEADLINE_SECONDS) as http,
                Client(streamable_http_client(place.address, http_client=http), mode=mode) as client,
            ):
                result = data_of(await client.call_tool("memory_search", {"query": f"kestrel of {mode}"}))
                assert saved["id"] in [row["id"] for row in result["results"]]
                refused = await client.call_tool("memory_delete", {"id": saved["id"]})
                assert refused.is_error
                assert refused.structured_content["code"] == "E011", "scopes are agreed to; the role is not there"

    anyio.run(story)
    for person in (ana, ben):
        assert_unspoken(place, person)


def signed_in(place: Place, name: str) -> str:
    person = Person(name, KNOWN_CLIENT)

    async def story() -> None:
        with anyio.fail_after(DEADLINE_SECONDS):
            async with (
                httpx2.AsyncClient(auth=person.provider(place), timeout=DEADLINE_SECONDS) as http,
                Client(streamable_http_client(place.address, http_client=http), mode="legacy") as client,
            ):
                await client.list_tools()

    anyio.run(story)
    assert person.tokens is not None
    return person.tokens.access_token


def test_who_is_in_no_group_may_use_nothing(place: Place) -> None:
    ask = call("memory_search", query="till")
    answer = httpx2.post(place.address, headers=headers(signed_in(place, "mallory")), json=ask, timeout=60)
    assert "E011" in answer.text
    assert not any(word in answer.text for word in ("shop", "bank"))


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def headers(token: str) -> dict[str, str]:
    return {
        "authorization": f"Bearer {token}",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "memory_search",
    }


def test_a_real_token_that_somebody_changed_is_refused(place: Place) -> None:
    token = signed_in(place, "cleo+shop-readers")
    head, body, mark = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False})
    kid = jwt.get_unverified_header(token)["kid"]
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    more = claims | {"groups": ["bank-admins"]}

    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    wrong = {
        "none": f"{part({'alg': 'none', 'kid': kid})}.{part(more)}.",
        "None, spelled otherwise": f"{part({'alg': 'nOnE', 'kid': kid})}.{part(more)}.",
        "other groups under the same signature": f"{head}.{part(more)}.{mark}",
        "another key of that name": jwt.encode(more, key, algorithm="RS256", headers={"kid": kid, "typ": "at+jwt"}),
        "a shared secret": jwt.encode(more, "x" * 40, algorithm="HS256", headers={"kid": kid, "typ": "at+jwt"}),
        "expired": jwt.encode(more | {"exp": 1}, key, algorithm="RS256", headers={"kid": kid, "typ": "at+jwt"}),
        "no signature": f"{head}.{body}.",
    }
    for attack, given in wrong.items():
        answer = sent(place, given)
        assert answer.status_code == 401, attack
        assert 'error="invalid_token"' in answer.headers["www-authenticate"], attack
        assert "resource_metadata=" in answer.headers["www-authenticate"], attack
    assert sent(place, token).status_code == 200


def test_a_session_that_somebody_overheard_is_nobody_elses(place: Place) -> None:
    cleo, dora = signed_in(place, "cleo+shop-readers"), signed_in(place, "dora+bank-admins")
    begun = sent(place, cleo)
    session = begun.headers.get("mcp-session-id")
    if session is None:
        pytest.skip("the server keeps no sessions")
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    replayed = {
        "authorization": f"Bearer {dora}",
        "accept": "application/json, text/event-stream",
        "mcp-session-id": session,
        "mcp-protocol-version": "2025-11-25",
    }
    assert httpx2.post(place.address, headers=replayed, json=listing, timeout=60).status_code in (403, 404)
