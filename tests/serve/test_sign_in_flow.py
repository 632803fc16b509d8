"""Sign-in with a real authorization server and the SDK's own client, through the whole flow, on both eras.

`oidc-provider` comes from npm at test time, and a Node that is new enough for it too; where npm cannot be reached the
tests are skipped and say so. Each flow finds the issuer from our 401, registers a client, signs a person in on the
issuer's pages, and is asked for more scopes by our 403.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import anyio
import httpx2
import jwt
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from tests.serve.test_http import HEADERS, INITIALIZE
from tools.packages import BUILD, Absent, install_from_npm, node

DEADLINE_SECONDS = 120
PACKAGE = "oidc-provider@9.5.2"
NODE_NEEDED = (22, 19)
REDIRECT = "http://127.0.0.1:9/callback"  # nobody listens there: the browser of this test stops before it
KNOWN_CLIENT = OAuthClientInformationFull(
    client_id="host",
    redirect_uris=[AnyUrl(REDIRECT)],
    token_endpoint_auth_method="none",
    grant_types=["authorization_code", "refresh_token"],
)
PROGRAM = Path(__file__).with_name("authorization_server.mjs")


@pytest.fixture(scope="module")
def programs() -> tuple[str, str]:
    try:
        modules = install_from_npm(BUILD / "sign-in", [PACKAGE])
        return str(node(NODE_NEEDED)), str(modules)
    except Absent as reason:
        pytest.skip(f"no authorization server: {reason}")


class Place:
    """A server with sign-in, its issuer, and what it has written so far."""

    def __init__(self, address: str, issuer: str, log: Path) -> None:
        self.address = address
        self.issuer = issuer
        self.log = log


@pytest.fixture(scope="module")
def place(programs: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("sign-in")
    root, log = folder / "project", folder / "log"
    (root / "memory").mkdir(parents=True)
    (root / "memory" / "docks.md").write_text("# Docks\n\nDocks keep an MQTT connection.\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/mcp"
    issuing = subprocess.Popen(
        [programs[0], str(PROGRAM), programs[1], address], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert issuing.stdout is not None
    issuer = issuing.stdout.readline().strip()
    words = ["serve", "--http", "--port", str(port), "--issuer", issuer, "--audience", address]
    environment = os.environ | {"SPEC_KIT_MEMORY_SEMANTIC_MODEL": "none", "SPEC_KIT_MEMORY_TOKEN": ""}
    command = [sys.executable, "-m", "spec_kit_memory", "--workspace", str(root)]
    subprocess.run([*command, "index", "--text-only"], env=environment, check=True, capture_output=True)
    with log.open("w") as file:
        serving = subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL, stderr=file, env=environment)
    try:
        until_announced(log)
        yield Place(address, issuer, log)
    finally:
        for process in (serving, issuing):
            process.terminate()
            process.wait(120)
        issuing.stdout.close()


def until_announced(log: Path) -> None:
    async def wait() -> None:
        with anyio.fail_after(DEADLINE_SECONDS):
            while "access token of" not in log.read_text(encoding="utf-8"):
                await anyio.sleep(0.05)

    anyio.run(wait)


class Person:
    """Somebody with a browser: signs in and agrees on the issuer's own pages, and brings the code back."""

    def __init__(self, name: str, client: OAuthClientInformationFull | None = None) -> None:
        self.name = name
        self.tokens: OAuthToken | None = None
        self.client = client  # None: the client registers itself
        self.asked: list[str] = []  # scopes of each authorization request
        self.visited: list[str] = []
        self._answer: dict[str, list[str]] = {}

    # --- what the SDK keeps

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    # --- the browser

    async def browse(self, url: str) -> None:
        scopes = parse_qs(urlsplit(url).query).get("scope", [""])[0].split()
        self.asked.append(" ".join(scope for scope in scopes if scope.startswith("memory:")))
        async with httpx2.AsyncClient(timeout=DEADLINE_SECONDS) as browser:
            answer = await browser.get(url)
            for _ in range(20):
                self.visited.append(str(answer.request.url))
                if answer.is_redirect:
                    target = urljoin(str(answer.request.url), answer.headers["location"])
                    if target.startswith(REDIRECT):
                        self._answer = parse_qs(urlsplit(target).query)
                        return
                    answer = await browser.get(target)
                    continue
                form = re.search(r'<form[^>]* action="([^"]+)"', answer.text)
                prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
                assert form, answer.text[:2000]
                assert prompt, answer.text[:2000]
                typed = {"prompt": prompt[1], "login": self.name, "password": "any"}
                answer = await browser.post(urljoin(str(answer.request.url), form[1]), data=typed)
        raise AssertionError("the issuer's pages do not end")

    async def come_back(self) -> AuthorizationCodeResult:
        given = {name: values[0] for name, values in self._answer.items()}
        assert "code" in given, given
        return AuthorizationCodeResult(code=given["code"], state=given.get("state"), iss=given.get("iss"))

    def provider(self, place: Place) -> OAuthClientProvider:
        metadata = OAuthClientMetadata(
            client_name="test",
            redirect_uris=[AnyUrl(REDIRECT)],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        )
        return OAuthClientProvider(
            place.address, metadata, self, redirect_handler=self.browse, callback_handler=self.come_back
        )


def data_of(answer: Any) -> dict[str, Any]:
    assert not answer.is_error, answer.content[0].text
    return dict(answer.structured_content["data"])


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_person_signs_in_reads_and_is_asked_for_more_to_write(place: Place, mode: str) -> None:
    ana = Person(f"ana-{mode}", KNOWN_CLIENT)

    async def story() -> None:
        with anyio.fail_after(DEADLINE_SECONDS):
            async with (
                httpx2.AsyncClient(auth=ana.provider(place), timeout=DEADLINE_SECONDS) as http,
                Client(streamable_http_client(place.address, http_client=http), mode=mode) as client,
            ):
                result = data_of(await client.call_tool("memory_search", {"query": "MQTT docks"}))
                assert result["results"][0]["title"] == "Docks"
                assert ana.asked == ["memory:read"]
                context = {"title": f"Kestrel of {ana.name}", "sessionSummary": "Kestrels hover."}
                saved = data_of(await client.call_tool("memory_save", {"context": context, "create": True}))
                assert saved["id"]
                assert ana.asked[1:] == ["memory:read memory:write"]

    anyio.run(story)
    assert ana.tokens is not None
    claims = jwt.decode(ana.tokens.access_token, options={"verify_signature": False})
    assert claims["aud"] == place.address
    assert claims["iss"] == place.issuer
    assert claims["sub"] == ana.name
    assert_unspoken(place, ana)


def assert_unspoken(place: Place, person: Person) -> None:
    """Neither the token nor a part of it is in what the server wrote or in any address."""
    assert person.tokens is not None
    parts = person.tokens.access_token.split(".")
    written = place.log.read_text(encoding="utf-8") + "\n".join(person.visited)
    assert not any(part in written for part in (person.tokens.access_token, *parts[1:]))


def signed_in(place: Place, name: str) -> str:
    """An access token that the real issuer made for this person."""
    person = Person(name)

    async def story() -> None:
        with anyio.fail_after(DEADLINE_SECONDS):
            async with httpx2.AsyncClient(auth=person.provider(place), timeout=DEADLINE_SECONDS) as http:
                answer = await http.post(place.address, headers=HEADERS, content=json.dumps(INITIALIZE))
                assert answer.status_code == 200

    anyio.run(story)
    assert person.tokens is not None
    return person.tokens.access_token


def sent(place: Place, token: str) -> httpx2.Response:
    headers = HEADERS | {"authorization": f"Bearer {token}"}
    return httpx2.post(place.address, headers=headers, json=INITIALIZE, timeout=DEADLINE_SECONDS)


def test_a_real_token_that_somebody_changed_is_refused(place: Place) -> None:
    token = signed_in(place, "cleo")
    head, body, mark = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False})
    other = jwt.encode(claims | {"sub": "dora"}, "x" * 40, algorithm="HS256").split(".")
    for wrong in (f"{head}.{other[1]}.{mark}", f"{head}.{body}.", ".".join(other), f"{head}.{body}.{mark[::-1]}"):
        answer = sent(place, wrong)
        assert answer.status_code == 401
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        assert body not in answer.text
    assert sent(place, token).status_code == 200


def test_a_token_of_the_issuer_for_another_server_is_refused(place: Place) -> None:
    """The issuer makes tokens for whatever resource is asked for; only those for us are taken."""
    elsewhere = "https://other.example.org/mcp"
    person = Person("emil")
    verifier = "v" * 64
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    common = {"client_id": "host", "redirect_uri": REDIRECT, "resource": elsewhere}

    async def flow() -> str:
        with anyio.fail_after(DEADLINE_SECONDS):
            async with httpx2.AsyncClient(timeout=DEADLINE_SECONDS) as http:
                about = (await http.get(f"{place.issuer}/.well-known/openid-configuration")).json()
                proof = {"code_challenge": challenge, "code_challenge_method": "S256"}
                query = {**common, **proof, "response_type": "code", "scope": "memory:read"}
                await person.browse(str(httpx2.URL(about["authorization_endpoint"], params=query)))
                code = (await person.come_back()).code
                form = {**common, "grant_type": "authorization_code", "code": code, "code_verifier": verifier}
                return str((await http.post(about["token_endpoint"], data=form)).json()["access_token"])

    token = anyio.run(flow)
    assert jwt.decode(token, options={"verify_signature": False})["aud"] == elsewhere
    assert sent(place, token).status_code == 401
