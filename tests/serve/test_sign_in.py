"""A server with sign-in: which access tokens are taken, what each may do, and what everybody else is told.

The issuer is a small HTTP server of this test's own, so that it can sign what no real one would.
`test_sign_in_flow` goes through the whole flow with a real one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.warnings import InsecureKeyLengthWarning
from starlette.testclient import TestClient

from spec_kit_memory import settings
from spec_kit_memory.errors import BadParameter
from spec_kit_memory.serve.http import issuer as issuer_module
from spec_kit_memory.serve.http.app import application
from spec_kit_memory.serve.http.issuer import Issuer, IssuerUnavailable, checked_url, fetch_json
from spec_kit_memory.serve.http.sign_in import ADMIN, READ, SCOPES, WRITE, TokenChecker, needed_scopes
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace
from spec_kit_memory.serve.tools import TOOLS
from spec_kit_memory.team.rights import user_id
from spec_kit_memory.workspace import Workspace
from tests.serve.test_http import HEADERS, INITIALIZE

AUDIENCE = "https://memory.example.org/mcp"
METADATA = "https://memory.example.org/.well-known/oauth-protected-resource/mcp"
STATIC = "correct-horse-battery-staple"


class Authority:
    """An issuer on this machine, which signs whatever a test wants."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {"one": rsa.generate_private_key(public_exponent=65537, key_size=2048)}
        self.fetched: list[str] = []
        self.answers: dict[str, tuple[int, bytes]] = {}
        authority = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                authority.fetched.append(self.path)
                status, body = authority.answers.get(self.path) or authority.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if status in (301, 302):
                    self.send_header("Location", body.decode())
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, path: str) -> tuple[int, bytes]:
        if path == "/.well-known/oauth-authorization-server":
            return 200, json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/keys"}).encode()
        if path == "/keys":
            return 200, json.dumps({"keys": [public_jwk(name, key) for name, key in self.keys.items()]}).encode()
        return 404, b"{}"

    def token(self, *, key: Any = None, algorithm: str = "RS256", header: Any = None, **claims: Any) -> str:
        return jwt.encode(
            {name: value for name, value in (self.claims() | claims).items() if value is not None},
            key or next(iter(self.keys.values())),
            algorithm=algorithm,
            headers=header if header is not None else {"kid": next(iter(self.keys)), "typ": "at+jwt"},
        )

    def claims(self) -> dict[str, Any]:
        now = int(time.time())
        scope = " ".join(SCOPES)
        return {"iss": self.url, "aud": AUDIENCE, "sub": "ana", "exp": now + 300, "iat": now, "scope": scope}


def public_jwk(name: str, key: Any) -> dict[str, Any]:
    algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"}


def public_pem(key: Any) -> bytes:
    return bytes(
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


@pytest.fixture(scope="module")
def shared_authority() -> Iterator[Authority]:
    authority = Authority()
    yield authority
    authority.server.shutdown()
    authority.server.server_close()


@pytest.fixture
def authority(shared_authority: Authority) -> Iterator[Authority]:
    keys = dict(shared_authority.keys)
    shared_authority.fetched.clear()
    yield shared_authority
    shared_authority.keys = keys
    shared_authority.answers.clear()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveWorkspace]:
    root = tmp_path / "project"
    (root / "specs").mkdir(parents=True)
    live = LiveWorkspace(lambda: Workspace(settings.load(root, environ={})), background=False)
    yield live
    live.close()


@pytest.fixture
def client(authority: Authority, live: LiveWorkspace) -> Iterator[TestClient]:
    checker = TokenChecker(Issuer(authority.url), AUDIENCE, static_token=STATIC)
    app = application(live, host="127.0.0.1", token=STATIC, allowed_hosts=["memory.example.org"], checker=checker)
    with TestClient(app, base_url="https://memory.example.org") as client:
        yield client


def post(client: TestClient, token: str | None, message: Any = INITIALIZE, **headers: str) -> httpx2.Response:
    sent = HEADERS | headers | ({"authorization": f"Bearer {token}"} if token is not None else {})
    return client.post("/mcp", headers=sent, content=json.dumps(message))


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


def called(client: TestClient, token: str, tool: str, **arguments: Any) -> httpx2.Response:
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
    return post(client, token, call(tool, **arguments), **headers)


def data_of(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    text = answer.text
    body = json.loads(text[text.index("{") :] if not text.startswith("{") else text)
    assert not body["result"].get("isError"), body
    return dict(body["result"]["structuredContent"]["data"])


# --- who is let in ---------------------------------------------------------------------------------


def test_who_has_a_token_of_the_issuer_is_let_in(client: TestClient, authority: Authority) -> None:
    answer = post(client, authority.token())
    assert answer.status_code == 200
    assert "spec_kit_memory" in answer.text


def test_a_static_token_is_taken_beside_it(client: TestClient) -> None:
    assert post(client, STATIC).status_code == 200
    assert called(client, STATIC, "memory_stats").status_code == 200


def test_without_a_token_one_is_told_where_to_get_one(client: TestClient) -> None:
    answer = post(client, None)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == f'Bearer scope="memory:read", resource_metadata="{METADATA}"'
    response = client.get(METADATA)
    assert response.status_code == 200
    content = response.json()
    assert content["resource"] == AUDIENCE
    assert content["scopes_supported"] == list(SCOPES)
    assert content["bearer_methods_supported"] == ["header"]


def test_the_metadata_names_the_issuer_as_it_was_given(client: TestClient, authority: Authority) -> None:
    assert client.get(METADATA).json()["authorization_servers"] == [authority.url]


def segments(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims)
    )


def unsigned(authority: Authority, algorithm: str = "none") -> str:
    return segments({"alg": algorithm, "kid": "one"}, authority.claims()) + "."


def confused(authority: Authority, secret: bytes) -> str:
    """HS256 with what everybody knows of the key, by hand: libraries refuse to make it."""
    signed = segments({"alg": "HS256", "kid": "one"}, authority.claims())
    mark = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return signed + "." + base64.urlsafe_b64encode(mark).rstrip(b"=").decode()


def changed(authority: Authority) -> str:
    """The claims of another person under the signature of one's own."""
    head, _, mark = authority.token().split(".")
    return ".".join((head, segments({}, authority.claims() | {"sub": "ben"}).split(".")[1], mark))


def with_key_inside(authority: Authority) -> str:
    """Signed by a key that the token itself brings along, by value and by address."""
    own = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    header = {"kid": "mine", "jwk": public_jwk("mine", own), "jku": "http://127.0.0.1:9/keys"}
    return authority.token(key=own, header=header)


NOW = time.time()
OTHER_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
REFUSED: dict[str, Callable[[Authority], str]] = {
    "wrong audience": lambda a: a.token(aud="https://other.example.org/mcp"),
    "audience of a neighbour on the host": lambda a: a.token(aud=AUDIENCE + "/x"),
    "audience is only a prefix": lambda a: a.token(aud="https://memory.example.org"),
    "no audience": lambda a: a.token(aud=None),
    "wrong issuer": lambda a: a.token(iss="https://issuer.example.org"),
    "issuer with a slash more": lambda a: a.token(iss=a.url + "/"),
    "no issuer": lambda a: a.token(iss=None),
    "expired": lambda a: a.token(exp=int(NOW) - 3600),
    "no expiry": lambda a: a.token(exp=None),
    "expiry that never comes": lambda a: a.token(exp=float("inf")),
    "times that are no numbers": lambda a: a.token(nbf="today"),
    "not yet valid": lambda a: a.token(nbf=int(NOW) + 3600),
    "issued in the future": lambda a: a.token(iat=int(NOW) + 3600),
    "no subject": lambda a: a.token(sub=None),
    "empty subject": lambda a: a.token(sub=""),
    "subject that no database can store": lambda a: a.token(sub="ana\0"),
    "subject with half a character": lambda a: a.token(sub="ana\ud800"),
    "subject with a second line": lambda a: a.token(sub="ana\nroot"),
    "none": unsigned,
    "None, spelled otherwise": lambda a: unsigned(a, "NoNe"),
    "key confusion, public key as PEM": lambda a: confused(a, public_pem(a.keys["one"])),
    "key confusion, public key as JWK": lambda a: confused(a, json.dumps(public_jwk("one", a.keys["one"])).encode()),
    "unknown key": lambda a: a.token(key=OTHER_RSA, header={"kid": "unknown"}),
    "known name, other key": lambda a: a.token(key=OTHER_RSA),
    "key that the token brings": with_key_inside,
    "other kind of key under a known name": lambda a: a.token(
        key=ec.generate_private_key(ec.SECP256R1()), algorithm="ES256", header={"kid": "one"}
    ),
    "critical header that nobody knows": lambda a: a.token(header={"kid": "one", "crit": ["exp"], "exp": 1}),
    "another kind of token": lambda a: a.token(header={"kid": "one", "typ": "logout+jwt"}),
    "bound to a key of its client": lambda a: a.token(cnf={"jkt": "x"}),
    "another person's claims": changed,
    "signature cut off": lambda a: a.token().rpartition(".")[0] + ".",
    "not a token": lambda a: "x.y.z",
    "empty parts": lambda a: "..",
    "very long": lambda a: "a" * 100_000,
    "static token and more": lambda a: STATIC + "x",
}


@pytest.mark.parametrize("attack", sorted(REFUSED))
def test_a_token_that_does_not_hold_is_refused(attack: str, client: TestClient, authority: Authority) -> None:
    token = REFUSED[attack](authority)
    answer = post(client, token)
    assert answer.status_code == 401
    message = answer.headers["www-authenticate"]
    assert message.startswith('Bearer error="invalid_token"')
    assert f'resource_metadata="{METADATA}"' in message
    assert token not in answer.text + message
    # And nothing was kept of it: the next good one is let in.
    assert post(client, authority.token()).status_code == 200


def test_every_attack_of_the_table_in_the_docs_is_tried() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "sign-in.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| ([^|]+?) \| 40", page, flags=re.MULTILINE)) >= set(REFUSED)


@pytest.mark.parametrize("path", ["/", "/memory/1", "/mcp/", "/metrics", "/.well-known/oauth-authorization-server"])
def test_nothing_else_is_open_without_a_token(path: str, client: TestClient) -> None:
    answer = client.get(path, follow_redirects=False)
    assert answer.status_code == 401
    assert f'resource_metadata="{METADATA}"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize("scheme", ["Basic {}", "bearer", "Bearer ", "{}", "Token {}"])
def test_another_kind_of_authorization_is_no_token(scheme: str, client: TestClient, authority: Authority) -> None:
    answer = client.post(
        "/mcp",
        headers={**HEADERS, "authorization": scheme.format(authority.token())},
        content=json.dumps(INITIALIZE),
    )
    assert answer.status_code == 401
    assert "invalid_token" not in answer.headers["www-authenticate"]


def test_two_authorization_headers_are_none(client: TestClient, authority: Authority) -> None:
    headers = [*HEADERS.items(), *[("authorization", f"Bearer {authority.token()}")] * 2]
    assert client.post("/mcp", headers=headers, content=json.dumps(INITIALIZE)).status_code == 401


@pytest.mark.parametrize("name", ["access_token", "ACCESS_TOKEN", "token"])
def test_a_token_in_the_address_is_refused_whatever_else_is_sent(
    name: str, client: TestClient, authority: Authority
) -> None:
    for headers in ({}, {"authorization": f"Bearer {authority.token()}"}):
        answer = client.post(
            f"/mcp?{name}={authority.token()}", headers={**HEADERS, **headers}, content=json.dumps(INITIALIZE)
        )
        assert answer.status_code == 400
        assert 'error="invalid_request"' in answer.headers["www-authenticate"]


def test_leeway_is_small_and_lists_of_audiences_are_read(client: TestClient, authority: Authority) -> None:
    now = int(time.time())
    assert post(client, authority.token(exp=now - 5, nbf=now + 5)).status_code == 200
    assert post(client, authority.token(aud=["https://other.example.org", AUDIENCE])).status_code == 200


def test_an_address_is_taken_as_it_was_given_and_as_clients_are_told_it(authority: Authority) -> None:
    checker = TokenChecker(Issuer(authority.url), "https://Memory.example.org:443/mcp", static_token=STATIC)
    assert checker.check(authority.token(aud="https://Memory.example.org:443/mcp"))
    assert checker.check(authority.token(aud=AUDIENCE))
    assert STATIC not in repr(checker)


# --- what it may do ---------------------------------------------------------------------------------


def test_every_tool_says_what_it_needs() -> None:
    needed = {tool.name: needed_scopes(tool.name) for tool in TOOLS}
    assert all(scopes == (READ,) for name, scopes in needed.items() if tool_reads(name))
    assert needed["memory_save"] == needed["memory_delete"] == needed["checkpoint_create"] == (READ, WRITE)
    assert needed["checkpoint_restore"] == needed["checkpoint_delete"] == (READ, WRITE, ADMIN)
    assert needed_scopes("memory_health") == (READ,)
    assert needed_scopes("memory_health", {"repair": True}) == SCOPES
    assert needed_scopes("memory_index_scan") == (READ, WRITE)
    assert needed_scopes("memory_index_scan", {"force": "true"}) == SCOPES


def tool_reads(name: str) -> bool:
    return next(tool.reads for tool in TOOLS if tool.name == name)


@pytest.mark.parametrize(
    ("scope", "tool", "arguments", "named"),
    [
        ("", "memory_search", {"query": "x"}, "memory:read"),
        ("openid profile", "memory_search", {"query": "x"}, "memory:read"),
        ("memory:write", "memory_search", {"query": "x"}, "memory:read"),
        ("memory:read", "memory_save", {"context": {"sessionSummary": "x"}}, "memory:read memory:write"),
        ("memory:write", "memory_save", {"context": {"sessionSummary": "x"}}, "memory:read memory:write"),
        ("memory:read memory:write", "checkpoint_delete", {"name": "x"}, "memory:read memory:write memory:admin"),
        ("memory:read memory:write", "memory_health", {"repair": True}, "memory:read memory:write memory:admin"),
        ("memory:reader memory:readX", "memory_list", {}, "memory:read"),
    ],
)
def test_too_little_is_answered_with_all_that_is_needed(
    scope: str, tool: str, arguments: dict[str, Any], named: str, client: TestClient, authority: Authority
) -> None:
    answer = called(client, authority.token(scope=scope), tool, **arguments)
    assert answer.status_code == 403
    message = answer.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in message
    assert f'scope="{named}"' in message
    assert f'resource_metadata="{METADATA}"' in message


def test_scopes_are_read_in_the_form_of_other_issuers(client: TestClient, authority: Authority) -> None:
    for scp in (list(SCOPES), " ".join(SCOPES)):
        assert called(client, authority.token(scope=None, scp=scp), "memory_list").status_code == 200


@pytest.mark.parametrize("claims", [{"scope": 7}, {"scope": True}, {"scope": {"memory:read": 1}}, {"scp": [["x"], 5]}])
def test_scopes_of_another_kind_are_none(claims: dict[str, Any], client: TestClient, authority: Authority) -> None:
    assert called(client, authority.token(**{"scope": None, **claims}), "memory_list").status_code == 403


def test_a_body_that_two_readers_read_differently_gains_nothing(client: TestClient, authority: Authority) -> None:
    """Were the first reader to take the first of two keys, and the second the last, a writer would slip through."""
    reader = authority.token(scope="memory:read")
    message = json.dumps(call("memory_save", context={"title": "No", "sessionSummary": "No."}))
    doubled = message.replace('"name": "memory_save"', '"name": "memory_list", "name": "memory_save"')
    other = message.replace('"name": "memory_save"', '"name": "memory_save", "name": "memory_list"')
    for body in (doubled, other):
        headers = {**HEADERS, "authorization": f"Bearer {reader}", "mcp-protocol-version": "2026-07-28"}
        headers |= {"mcp-method": "tools/call", "mcp-name": "memory_save"}
        answer = client.post("/mcp", headers=headers, content=body)
        assert answer.status_code in (400, 403) or '"isError":true' in answer.text.replace(" ", "")
    assert (
        data_of(called(client, reader, "memory_list"))["total"]
        == data_of(called(client, STATIC, "memory_list"))["total"]
    )


# --- who it is ---------------------------------------------------------------------------------------


def test_each_sees_what_is_shared_and_what_is_theirs(
    client: TestClient, authority: Authority, live: LiveWorkspace
) -> None:
    with live.use() as workspace:
        root = workspace.settings.root
        for person in ("ana", "ben"):
            path = root / "memory" / "users" / user_id(authority.url, person) / "own.md"
            path.parent.mkdir(parents=True)
            path.write_text(f"# Diary of {person}\n\nThe kestrel of {person} sleeps.\n", encoding="utf-8")
        (root / "memory" / "ours.md").write_text("# For all\n\nThe kestrel of us all.\n", encoding="utf-8")
        workspace.index(embed=False)
    for person, other in (("ana", "ben"), ("ben", "ana")):
        answer = called(client, authority.token(sub=person), "memory_search", query="kestrel")
        text = json.dumps(data_of(answer))
        assert f"Diary of {person}" in text
        assert f"Diary of {other}" not in text
        assert "For all" in text


OTHERS: dict[str, dict[str, Any]] = {
    "memory_search": {"query": "kestrel", "includeArchived": True},
    "memory_context": {"prompt": "kestrel"},
    "memory_load": {"memoryId": "{id}"},
    "memory_get": {"path": "{path}", "from": 1, "count": 9},
    "memory_match_triggers": {"prompt": "what of the kestrel diary?"},
    "memory_save": {"filePath": "{path}"},
    "memory_list": {},
    "memory_update": {"id": "{id}", "title": "Taken over"},
    "memory_delete": {"id": "{id}"},
    "memory_validate": {"id": "{id}", "wasUseful": False},
    "memory_stats": {},
    "memory_health": {},
    "memory_history": {"id": "{id}"},
    "memory_causal_link": {"sourceId": "{id}", "targetId": "{shared}", "relation": "supports"},
    "memory_drift_why": {"memoryId": "{id}"},
    "checkpoint_create": {"name": "all"},
    "checkpoint_list": {},
}


def test_nothing_of_somebody_elses_is_seen_or_changed(
    client: TestClient, authority: Authority, live: LiveWorkspace
) -> None:
    with live.use() as workspace:
        root = workspace.settings.root
        name = f"memory/users/{user_id(authority.url, 'ana')}/own.md"
        (root / name).parent.mkdir(parents=True)
        text = (
            "---\ntitle: Diary of ana\ntriggers: [kestrel diary]\n---\n# Diary of ana\n\nThe kestrel of ana sleeps.\n"
        )
        (root / name).write_text(text, encoding="utf-8")
        (root / "memory" / "ours.md").write_text("# For all\n\nThe kestrel of us all.\n", encoding="utf-8")
        workspace.index(embed=False)
    listed = data_of(called(client, authority.token(sub="ana"), "memory_list"))["memories"]
    ids = {row["title"]: row["id"] for row in listed}
    values = {"{id}": ids["Diary of ana"], "{shared}": ids["For all"], "{path}": name}
    ben = authority.token(sub="ben")
    for tool, arguments in OTHERS.items():
        given = {key: values.get(value, value) if isinstance(value, str) else value for key, value in arguments.items()}
        answer = called(client, ben, tool, **given)
        assert answer.status_code == 200, (tool, answer.text)
        assert "of ana" not in answer.text, (tool, answer.text)
    uri = f"memory://{ids['Diary of ana']}"
    read = call("x") | {"method": "resources/read"}
    read["params"] = {"uri": uri, "_meta": read["params"]["_meta"]}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "resources/read", "mcp-name": uri}
    assert "kestrel of ana" in post(client, authority.token(sub="ana"), read, **headers).text
    assert "of ana" not in post(client, ben, read, **headers).text
    assert (root / name).read_text(encoding="utf-8") == text
    mine = data_of(called(client, authority.token(sub="ana"), "memory_load", memoryId=ids["Diary of ana"]))
    assert "sleeps" in json.dumps(mine)


def test_one_name_at_two_issuers_is_two_people() -> None:
    one = user_id("https://a.example", "ana")
    assert one != user_id("https://b.example", "ana")
    assert one == user_id("https://a.example", "ana")
    assert user_id("https://a.example", "Ana") != one
    for subject in ("../..", "auth0|5f/..\\x", "\0", "日本", "a" * 500, "."):
        name = user_id("https://a.example", subject)
        assert re.fullmatch(r"[a-z0-9-]{32,73}", name)


def test_a_session_is_of_whoever_began_it(client: TestClient, authority: Authority) -> None:
    begun = post(client, authority.token(sub="ana"))
    session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    assert post(client, authority.token(sub="ben"), listing, **session).status_code == 404
    assert post(client, authority.token(sub="ana"), listing, **session).status_code == 200


# --- keys --------------------------------------------------------------------------------------------


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def checked(authority: Authority, clock: Clock) -> TokenChecker:
    return TokenChecker(Issuer(authority.url, clock=clock), AUDIENCE)


def test_new_keys_are_fetched_when_a_token_needs_them_and_not_for_every_unknown_one(authority: Authority) -> None:
    clock = Clock()
    checker = checked(authority, clock)
    old = authority.token()
    assert checker.check(old)
    authority.keys = {"two": OTHER_RSA, **authority.keys}
    new = authority.token()
    clock.now += issuer_module.REFETCH_SECONDS + 1
    assert checker.check(new)
    assert checker.check(old)
    fetched = authority.fetched.count("/keys")
    for number in range(50):
        assert checker.check(authority.token(header={"kid": f"made-up-{number}"})) is None
    assert authority.fetched.count("/keys") == fetched


def test_a_key_that_was_withdrawn_is_not_trusted_for_long(authority: Authority) -> None:
    clock = Clock()
    checker = checked(authority, clock)
    old = authority.token()
    assert checker.check(old)
    authority.keys = {"two": OTHER_RSA}
    clock.now += issuer_module.KEYS_SECONDS + 1
    assert checker.check(old) is None


def test_an_issuer_that_is_away_for_a_while_is_not_felt(authority: Authority) -> None:
    clock = Clock()
    checker = checked(authority, clock)
    token = authority.token()
    assert checker.check(token)
    authority.answers["/keys"] = (503, b"")
    clock.now += issuer_module.KEYS_SECONDS + 1
    assert checker.check(token)
    clock.now += issuer_module.STALE_SECONDS
    with pytest.raises(IssuerUnavailable):
        checker.check(token)


def test_an_issuer_that_was_never_reached_is_nobodys_wrong_token(client: TestClient, authority: Authority) -> None:
    authority.answers["/keys"] = (500, b"")
    answer = post(client, authority.token())
    assert answer.status_code == 503
    assert "try again" in answer.json()["error"]["hint"]  # whoever has a good token needs no other
    assert answer.headers["retry-after"] == "30"
    # A static token needs no issuer.
    assert post(client, STATIC).status_code == 200


KEYS = "/keys"
ABOUT = "/.well-known/oauth-authorization-server"


@pytest.mark.parametrize(
    ("path", "status", "body"),
    [
        (KEYS, 302, b"http://127.0.0.1:9/elsewhere"),
        (KEYS, 200, b" " * 600_000 + b"{}"),
        (KEYS, 200, b"[" * 100_000),
        (KEYS, 200, b"not json"),
        (KEYS, 200, b'{"keys": []}'),
        (KEYS, 200, b'{"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "one"}, 7, {"kty": "RSA", "kid": "one"}]}'),
        (ABOUT, 200, b'{"issuer": "https://issuer.example.org", "jwks_uri": "http://127.0.0.1:9/keys"}'),
        (ABOUT, 200, b'{"issuer": "URL", "jwks_uri": "http://keys.example.org/"}'),
        (ABOUT, 200, b'{"issuer": "URL", "jwks_uri": "file:///etc/passwd"}'),
        (ABOUT, 200, b'{"issuer": "URL"}'),
        (ABOUT, 200, b"[]"),
    ],
)
def test_what_an_issuer_must_not_answer(path: str, status: int, body: bytes, authority: Authority) -> None:
    authority.answers[path] = (status, body.replace(b"URL", authority.url.encode()))
    with pytest.raises(IssuerUnavailable):
        checked(authority, Clock()).check(authority.token())


def test_metadata_of_openid_connect_is_read_where_there_is_no_other(authority: Authority) -> None:
    result = authority.answer(ABOUT)
    authority.answers[ABOUT] = (404, b"")
    authority.answers["/.well-known/openid-configuration"] = result
    assert checked(authority, Clock()).check(authority.token())


def test_weak_and_foreign_keys_of_the_set_are_passed_over(authority: Authority) -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    authority.keys = {"weak": weak, **authority.keys}
    with pytest.warns(InsecureKeyLengthWarning):  # of the library that signs
        token = authority.token(key=weak, header={"kid": "weak"})
    assert checked(authority, Clock()).check(token) is None
    assert checked(authority, Clock()).check(authority.token(key=authority.keys["one"], header={"kid": "one"}))


def test_keys_on_curves_are_taken(authority: Authority) -> None:
    curve = ec.generate_private_key(ec.SECP256R1())
    authority.keys = {"curve": curve}
    assert checked(authority, Clock()).check(authority.token(algorithm="ES256"))


def test_a_key_without_a_name_is_found_if_it_is_the_only_one(authority: Authority) -> None:
    assert checked(authority, Clock()).check(authority.token(header={}))
    authority.keys = {"two": OTHER_RSA, **authority.keys}
    assert checked(authority, Clock()).check(authority.token(header={})) is None


@pytest.mark.parametrize(
    "url",
    ["http://issuer.example.org", "ftp://x", "https://", "", "https://u:p@issuer.example.org", "https://x/?q=1", "https://x/#f",
     "https://[", "http://127.0.0.1.example.org"],
)  # fmt: skip
def test_addresses_that_cannot_be_trusted_are_refused_at_the_start(url: str) -> None:
    with pytest.raises(BadParameter):
        checked_url(url, option="--issuer")


def test_an_issuer_elsewhere_cannot_make_us_ask_this_machine() -> None:
    asked = []

    def fetch(url: str) -> Any:
        asked.append(url)
        return {"issuer": "https://issuer.example.org", "jwks_uri": "http://127.0.0.1:1/keys"}

    issuer = Issuer("https://issuer.example.org", fetch=fetch)
    with pytest.raises(IssuerUnavailable):
        issuer.find_key("one", "RS256")
    assert all(url.startswith("https://issuer.example.org/") for url in asked)


def test_fetching_ends_whatever_the_other_side_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(issuer_module, "FETCH_SECONDS", 0.5)
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as silent,
        pytest.raises(OSError, match="reached"),
    ):
        fetch_json(f"http://127.0.0.1:{silent.server_address[1]}/")


# --- the command -------------------------------------------------------------------------------------


def serve(root: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "spec_kit_memory", "--workspace", str(root), "serve", "--http", "--port", "0"]
    return subprocess.Popen([*command, *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--issuer", "https://issuer.example.org"], "--audience"),
        (["--audience", AUDIENCE], "--issuer"),
        (["--issuer", "http://issuer.example.org", "--audience", AUDIENCE], "trusted"),
        (["--issuer", "https://issuer.example.org", "--audience", "memory"], "trusted"),
        (["--issuer", "https://issuer.example.org", "--audience", AUDIENCE, "--no-token"], "contradicts"),
        (["--issuer", "https://issuer.example.org", "--audience", AUDIENCE, "--user-id", "ana"], "contradicts"),
    ],
)
def test_options_that_make_no_sense_end_the_command(words: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    server = serve(tmp_path, *words)
    _, error = server.communicate(timeout=120)
    assert server.returncode != 0
    assert said in error


def test_sign_in_is_for_servers_over_http(tmp_path: Path) -> None:
    words = ["--workspace", str(tmp_path), "serve", "--issuer", "https://a.example", "--audience", AUDIENCE]
    done = subprocess.run(
        [sys.executable, "-m", "spec_kit_memory", *words], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode != 0
    assert "Add --http." in done.stderr


def test_no_token_is_in_what_the_server_writes(tmp_path: Path, authority: Authority) -> None:
    (tmp_path / "specs").mkdir()
    server = serve(tmp_path, "--issuer", authority.url, "--audience", AUDIENCE)
    assert server.stderr is not None
    address = server.stderr.readline().split()[-1]
    lines = [server.stderr.readline()]
    tokens = [authority.token(), *(REFUSED[name](authority) for name in ("expired", "unknown key", "none"))]
    try:
        for token in tokens:
            for url in (address, f"{address}?access_token={token}"):
                httpx2.post(url, headers=HEADERS | {"authorization": f"Bearer {token}"}, json=INITIALIZE, timeout=60)
    finally:
        server.terminate()
        lines.append(server.communicate(timeout=120)[1])
    written = "".join(lines)
    assert authority.url in written
    for token in tokens:
        assert token not in written
        assert token.split(".")[1] not in written
    assert not any(token in str(path) for token in tokens for path in authority.fetched)


def test_what_is_logged_of_a_refused_token_is_its_kind(
    client: TestClient, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = [make(authority) for make in REFUSED.values()]
    for token in tokens:
        post(client, token)
    assert "ExpiredSignatureError" in caplog.text
    for token in tokens:
        assert len(token) < 10 or token not in caplog.text
