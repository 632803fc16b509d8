"""The server over HTTP: who is let in, and that it speaks the same protocol."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.testclient import TestClient

from spec_kit_memory.core.loopback import is_loopback
from spec_kit_memory.core.memory import Scope
from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.serve.http import app as app_module
from spec_kit_memory.serve.http.app import application, own_names
from spec_kit_memory.serve.http.auth import BearerToken, Token, kept_token, read_token
from spec_kit_memory.serve.http.limits import Limits, _RateLimit, calm_log, guarded, most_connections
from spec_kit_memory.serve.mcp.server import build_server
from spec_kit_memory.serve.mcp.workspace_handle import LiveWorkspace

SECONDS = 120.0  # a deadline, never a measure
TOKEN = "correct-horse-battery-staple"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def posted(live: LiveWorkspace, *, token: str | None = None, name: str = "127.0.0.1:8765", **headers: str) -> Any:
    app = application(live, host="127.0.0.1", token=token)
    with TestClient(app) as client:
        sent = {**HEADERS, "host": name, **headers}
        return client.post("/mcp", headers=sent, content=json.dumps(INITIALIZE))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own state folder, which does not exist yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home" / "state"))
    return tmp_path / "home" / "state" / "spec-kit-memory"


def token_for(host: str = "127.0.0.1", *, workspace: Path = Path("work"), **more: Any) -> Token | None:
    return read_token(host, workspace=workspace, **{"environ": {}, **more})


def test_loopback_without_a_token_is_served_to_who_wants_it(live: LiveWorkspace) -> None:
    answer = posted(live)
    assert answer.status_code == 200
    assert "spec_kit_memory" in answer.text


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1.evil.example:8765", "localhost.evil.example", "evil.example:127.0.0.1"),
        *("127.0.0.1@evil.example", "evil.example@127.0.0.1", "localhost, evil.example", "localhost#.evil.example"),
        *("[::]", "2130706433", "0x7f.1", "127.1", "localhost..", "", "[::1].evil.example"),
    ],
)
def test_another_host_name_is_refused(live: LiveWorkspace, host: str) -> None:
    assert posted(live, name=host).status_code == 421


@pytest.mark.parametrize(
    "origin",
    [
        *("https://evil.example", "http://localhost.evil.example", "null", "file://", "http://evil@localhost.x"),
        *("http://evil.example#localhost", "http://localhost@evil.example", "http://127.0.0.1.nip.io", "localhost"),
        *("http://localhost, http://evil.example", "chrome-extension://localhost", "http://[::1].evil.example"),
    ],
)
def test_another_origin_is_refused(live: LiveWorkspace, origin: str) -> None:
    assert posted(live, origin=origin).status_code == 403


def test_a_page_of_this_machine_is_let_in(live: LiveWorkspace) -> None:
    assert posted(live, origin="http://localhost:3000").status_code == 200


@pytest.mark.parametrize(
    "authorization", [None, "Bearer wrong", "Bearer ", "Basic " + TOKEN, TOKEN, f"Bearer {TOKEN}x"]
)
def test_without_the_token_nobody_is_let_in(live: LiveWorkspace, authorization: str | None) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    answer = posted(live, token=TOKEN, **headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text


def test_with_the_token_one_is_let_in(live: LiveWorkspace) -> None:
    assert posted(live, token=TOKEN, authorization=f"Bearer {TOKEN}").status_code == 200


@pytest.mark.parametrize("kind", ["websocket", "http", "anything"])
def test_nothing_but_the_start_gets_past_without_the_token(kind: str) -> None:
    reached = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["type"])

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    sent: list[Any] = []
    guard = BearerToken(app, TOKEN)
    anyio.run(guard, {"type": kind, "headers": [(b"authorization", b"Bearer x")]}, receive, send)
    anyio.run(guard, {"type": "lifespan"}, receive, send)
    assert reached == ["lifespan"]


def test_two_headers_are_no_token(live: LiveWorkspace) -> None:
    with TestClient(application(live, host="127.0.0.1", token=TOKEN)) as client:
        both = [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer other")]
        answer = client.post("/mcp", headers=[*HEADERS.items(), *both], content=json.dumps(INITIALIZE))
    assert answer.status_code == 401


def test_a_token_in_the_address_is_none(live: LiveWorkspace) -> None:
    with TestClient(application(live, host="127.0.0.1", token=TOKEN)) as client:
        for query in (f"token={TOKEN}", f"access_token={TOKEN}"):
            assert client.post(f"/mcp?{query}", headers=HEADERS, content=json.dumps(INITIALIZE)).status_code == 401


# --- the token that is kept


def test_beyond_loopback_a_token_of_one_s_own_is_needed(tmp_path: Path) -> None:
    with pytest.raises(SpecKitMemoryError, match="bearer token") as caught:
        token_for("0.0.0.0")  # noqa: S104
    assert caught.value.code == "E031"
    assert token_for("::1", environ={"SPEC_KIT_MEMORY_TOKEN": TOKEN}) == Token(TOKEN)
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    assert token_for("10.0.0.1", token_file=str(file)) == Token(TOKEN)


def test_loopback_has_a_token_too_which_is_made_once_and_kept_for_its_user(tmp_path: Path, state: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    mask = os.umask(0)
    try:
        token = token_for(workspace=work)
    finally:
        os.umask(mask)
    assert token is not None
    assert token.kept_in is not None
    assert len(token.value) >= 32
    assert token.kept_in.parent == state / "tokens"
    assert stat.S_IMODE(token.kept_in.stat().st_mode) == 0o600
    for folder in (state / "tokens", state, state.parent, state.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    assert token_for("localhost", workspace=work) == token, "it is used again"
    (tmp_path / "link").symlink_to(work)
    assert token_for(workspace=tmp_path / "link") == token, "a workspace has one, however it is named"
    assert list(work.rglob("*")) == [], "nothing of it is in the workspace"
    assert token.value not in repr(token)


def test_each_workspace_has_its_own_token(tmp_path: Path) -> None:
    assert kept_token(tmp_path / "a").value != kept_token(tmp_path / "b").value


def test_a_server_for_one_person_has_its_own_token(tmp_path: Path) -> None:
    scopes = [Scope(), Scope(user="ada"), Scope(user="ben"), Scope(prefixes=()), Scope(project="ada")]
    assert len({kept_token(tmp_path, scope).value for scope in scopes}) == len(scopes)
    assert kept_token(tmp_path, Scope(user="ada")) == kept_token(tmp_path, Scope(user="ada"))


@pytest.mark.parametrize("spoilt", ["readable by others", "a link", "empty", "short", "a pipe", "binary"])
def test_a_token_that_is_not_this_user_s_alone_is_replaced(tmp_path: Path, spoilt: str) -> None:
    first = kept_token(tmp_path)
    path = first.kept_in
    assert path is not None
    if spoilt == "readable by others":
        path.chmod(0o644)
    elif spoilt == "a link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to(tmp_path / "elsewhere")
    else:
        path.unlink()
        if spoilt == "a pipe":
            os.mkfifo(path)
        else:
            path.touch(mode=0o600)
            path.write_bytes({"empty": b"", "short": b"short", "binary": b"\xff" * 40}[spoilt])
    second = kept_token(tmp_path)
    assert second.value != first.value
    assert second.value.isascii()
    assert stat.S_ISREG(path.lstat().st_mode)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    assert kept_token(tmp_path) == second


def test_a_folder_in_the_token_s_place_is_named(tmp_path: Path) -> None:
    path = kept_token(tmp_path).kept_in
    assert path is not None
    path.unlink()
    path.mkdir()
    with pytest.raises(SpecKitMemoryError, match="token cannot be kept"):
        kept_token(tmp_path)


def test_servers_that_start_at_once_agree_on_the_token(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = {token.value for token in pool.map(lambda _: kept_token(tmp_path), range(40))}
    assert len(tokens) == 1


def test_without_a_home_the_error_says_what_to_do(tmp_path: Path) -> None:
    code = (
        "import pwd\n"
        "def nobody(_): raise KeyError\n"
        "pwd.getpwuid = nobody\n"  # as for a user id that the system does not know
        "from spec_kit_memory.serve.cli.main import main\nmain()\n"
    )
    (tmp_path / "memory").mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HOME", "XDG_", "SPEC_KIT"))}
    words = [sys.executable, "-c", code, "serve", "--http", "--port", "0", "--workspace", str(tmp_path)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    for said in ("E010", "HOME", "SPEC_KIT_MEMORY_TOKEN", "--token-file", "--no-token"):
        assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_state_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file" / "state"))
    with pytest.raises(SpecKitMemoryError) as caught:
        kept_token(tmp_path)
    assert caught.value.code == "E011"
    assert "--no-token" in caught.value.hint


def test_no_token_is_for_loopback_only() -> None:
    assert token_for(no_token=True, environ={"SPEC_KIT_MEMORY_TOKEN": TOKEN}) is None
    for host, file in (("0.0.0.0", None), ("192.0.2.7", None), ("127.0.0.1", "token.txt")):  # noqa: S104
        with pytest.raises(SpecKitMemoryError) as caught:
            token_for(host, no_token=True, token_file=file)
        assert caught.value.code == "E030"


@pytest.mark.parametrize("token", ["short", "with space in the middle", "ümlaut-ümlaut-ümlaut"])
def test_a_weak_token_is_refused(token: str) -> None:
    with pytest.raises(SpecKitMemoryError) as caught:
        token_for(environ={"SPEC_KIT_MEMORY_TOKEN": token})
    assert caught.value.code == "E030"


def test_an_empty_or_missing_token_file_is_refused_even_on_loopback(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name, code in (("empty", "E031"), ("missing", "E010")):
        with pytest.raises(SpecKitMemoryError) as caught:
            token_for(token_file=str(tmp_path / name))
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],  # noqa: S104
)
def test_what_loopback_is(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
    assert is_loopback("localhost.example") is False


def test_a_server_that_others_reach_answers_to_its_own_names() -> None:
    assert "192.0.2.7" in own_names("192.0.2.7", [])
    assert "[2001:db8::1]" in own_names("2001:db8::1", [])
    assert "memory.example" in own_names("0.0.0.0", ["memory.example"])  # noqa: S104


# --- a real server


@contextmanager
def serving(root: Path, *more: str) -> Iterator[tuple[str, str, subprocess.Popen[bytes]]]:
    """Its address, what it said when it started, and the process."""
    (root / "memory").mkdir(exist_ok=True)
    (root / "memory" / "habits.md").write_text("# Habits\n\nWe deploy on Tuesdays.\n")
    words = [sys.executable, "-m", "spec_kit_memory", "serve", "--http", "--port", "0", "--workspace", str(root)]
    environ = {**os.environ, "SPEC_KIT_MEMORY_SEMANTIC_MODEL": "hashing"}
    with subprocess.Popen([*words, *more], stderr=subprocess.PIPE, env=environ) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline().decode()
            match = re.search(r"http://\S+", first)
            assert match, first
            yield match.group(), first + process.stderr.readline().decode(), process
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_story_over_http_with_two_clients_and_a_clean_end(tmp_path: Path, mode: str) -> None:
    with serving(tmp_path) as (address, said, process):
        shown = re.search(r"Authorization: Bearer (\S+)`", said)
        assert shown, "the token is shown with the header to send it in"

        headers = {"Authorization": f"Bearer {shown[1]}"}

        async def story() -> None:
            with anyio.fail_after(60):
                async with (
                    httpx2.AsyncClient(headers=headers) as http,
                    Client(streamable_http_client(address, http_client=http), mode=mode) as one,
                    Client(streamable_http_client(address, http_client=http), mode=mode) as two,
                ):
                    await one.call_tool("memory_index_scan", {})
                    result = await two.call_tool("memory_search", {"query": "deploy Tuesdays"})
                    assert result.structured_content["data"]["results"][0]["title"] == "Habits"

        anyio.run(story)
        assert httpx2.post(address, headers=HEADERS, content=json.dumps(INITIALIZE)).status_code == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_a_token_that_was_given_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    with serving(tmp_path, "--token-file", str(tmp_path / "token")) as (address, said, _):
        assert TOKEN not in said
        headers = {**HEADERS, "authorization": f"Bearer {TOKEN}"}
        assert httpx2.post(address, headers=headers, content=json.dumps(INITIALIZE)).status_code == 200


def test_who_wants_no_token_is_told_what_that_means(tmp_path: Path, state: Path) -> None:
    with serving(tmp_path, "--no-token") as (address, said, _):
        assert "every user" in said
        assert httpx2.post(address, headers=HEADERS, content=json.dumps(INITIALIZE)).status_code == 200
    assert not state.exists()


# --- clients that keep it waiting


@pytest.fixture
def small(live: LiveWorkspace) -> Iterator[tuple[int, uvicorn.Server]]:
    """The port of a server with few places and short deadlines."""
    with served(live, Limits(connections=20, head_seconds=0.5, body_seconds=0.5, write_seconds=0.5)) as running:
        yield running


@contextmanager
def served(live: LiveWorkspace, limits: Limits) -> Iterator[tuple[int, uvicorn.Server]]:
    listening = socket.create_server(("127.0.0.1", 0))
    app = application(live, host="127.0.0.1", token=None)
    server = uvicorn.Server(
        uvicorn.Config(
            app, http=guarded(limits), ws="none", lifespan="on", log_config=None, timeout_graceful_shutdown=1
        )
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1], server
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        assert not thread.is_alive()


def ends(sock: socket.socket) -> bool:
    """Does the other side close, in the end?"""
    sock.settimeout(SECONDS)
    try:
        while sock.recv(65536):
            pass
    except ConnectionError:
        pass
    return True


def is_served(port: int) -> bool:
    """In the end: on a busy machine this client, too, may be too slow for the deadlines here."""
    url, deadline = f"http://127.0.0.1:{port}/mcp", time.monotonic() + SECONDS
    while True:
        try:
            return httpx2.post(url, headers=HEADERS, content=json.dumps(INITIALIZE), timeout=SECONDS).is_success
        except httpx2.TransportError:
            assert time.monotonic() < deadline


HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: */*\r\n"


HALVES = {
    "nothing": b"",
    "a letter": b"P",
    "half a head": HEAD,
    "half a header": HEAD + b"X-Long: ",
    "half a body": HEAD + b"Content-Length: 100\r\n\r\n{",
    "half a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
}


@pytest.mark.parametrize("half", HALVES)
def test_a_client_that_does_not_finish_its_request_is_let_go(small: tuple[int, uvicorn.Server], half: str) -> None:
    with socket.create_connection(("127.0.0.1", small[0])) as slow:
        slow.sendall(HALVES[half])
        assert ends(slow)
    assert is_served(small[0])


@pytest.mark.parametrize("start", [HEAD + b"X-Long: ", HEAD + b"Content-Length: 10000\r\n\r\n"], ids=["head", "body"])
def test_a_client_that_drips_is_let_go(small: tuple[int, uvicorn.Server], start: bytes) -> None:
    with socket.create_connection(("127.0.0.1", small[0])) as slow:
        slow.sendall(start)
        assert is_let_go_while_it_drips(slow)


def test_a_client_that_drips_its_second_request_is_let_go(small: tuple[int, uvicorn.Server]) -> None:
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", small[0])) as slow:
            slow.settimeout(SECONDS)
            slow.sendall(b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            if b"404" in slow.recv(65536):  # else it was too slow on a busy machine
                assert is_let_go_while_it_drips(slow)
                return
    pytest.fail("no request was answered")


def is_let_go_while_it_drips(slow: socket.socket) -> bool:
    deadline = time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline:
            slow.sendall(b"a")
            time.sleep(0.05)
    except ConnectionError:
        return True
    return False


def test_a_client_that_does_not_read_is_let_go(small: tuple[int, uvicorn.Server]) -> None:
    port, server = small
    with socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        deaf.connect(("127.0.0.1", port))
        request = b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 4000 + b"\r\n\r\n"
        deaf.settimeout(1)
        with contextlib.suppress(OSError):
            for _ in range(20_000):  # answers pile up, then nothing is taken any more
                deaf.sendall(request)
        until(lambda: not server.server_state.connections)


def opened_stream(port: int) -> bytes:
    """The request for what the server sends of its own accord, in a session of its own: it has no end."""
    with httpx2.Client() as client:
        url = f"http://127.0.0.1:{port}/mcp"
        begun = client.post(url, headers=HEADERS, content=json.dumps(INITIALIZE), timeout=SECONDS)
    session = begun.headers["mcp-session-id"].encode()
    return b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n" % session


PHASES: dict[str, Callable[[int], bytes]] = {
    **{name: lambda _, half=half: half for name, half in HALVES.items()},  # type: ignore[misc]
    "a request that was answered": lambda _: b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a stream": opened_stream,
}


@pytest.mark.parametrize("phase", PHASES)
def test_half_open_connections_keep_nobody_out(small: tuple[int, uvicorn.Server], phase: str) -> None:
    port, server = small
    with contextlib.ExitStack() as kept:
        for number in range(50 if phase == "a stream" else 300):  # each stream has a session of its own
            begun = PHASES[phase](port)
            slow = kept.enter_context(socket.create_connection(("127.0.0.1", port)))
            with contextlib.suppress(OSError):  # it may have made room already
                slow.sendall(begun)
            if number % 50 in (24, 49):
                assert is_served(port)
                until(lambda: len(server.server_state.connections) <= 21)


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """What a server writes to standard error."""
    handler, root = calm_log(), logging.getLogger()
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(written := io.StringIO())
    root.addHandler(handler)
    try:
        yield written
    finally:
        root.removeHandler(handler)


def test_300_half_open_connections_at_once_are_served_beside_and_let_go(
    live: LiveWorkspace, logged: io.StringIO
) -> None:
    """With places for all of them, none has to make room: only their deadlines end them."""
    patient = Limits(connections=400, head_seconds=5.0, body_seconds=5.0, write_seconds=5.0)
    with served(live, patient) as (port, server), contextlib.ExitStack() as kept:
        halves = [*HALVES.values(), PHASES["a request that was answered"](port)]
        for half in halves * (300 // len(halves) + 1):
            slow = kept.enter_context(socket.create_connection(("127.0.0.1", port)))
            slow.sendall(half)
        assert is_served(port)
        until(lambda: not server.server_state.connections)
        assert is_served(port)
    assert len(logged.getvalue()) < 50_000
    assert logged.getvalue().count("Traceback") <= 10


def test_as_many_connections_as_descriptors_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    def most(allowed: int) -> int:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))
        return most_connections()

    assert [most(allowed) for allowed in (64, 256, 1024, 1_000_000, resource.RLIM_INFINITY)] == [8, 96, 512, 512, 512]


def test_a_session_that_nobody_uses_is_forgotten(live: LiveWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app_module, "SESSION_IDLE_SECONDS", 0.05)
    ping = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"})
    with TestClient(application(live, host="127.0.0.1", token=None)) as client:
        sent = {**HEADERS, "host": "127.0.0.1"}
        session = client.post("/mcp", headers=sent, content=json.dumps(INITIALIZE)).headers["mcp-session-id"]

        def gone() -> bool:
            time.sleep(0.2)
            return client.post("/mcp", headers={**sent, "mcp-session-id": session}, content=ping).status_code == 404

        until(gone)


def test_a_long_body_is_refused(live: LiveWorkspace) -> None:
    with TestClient(application(live, host="127.0.0.1", token=None)) as client:
        long = json.dumps({**INITIALIZE, "more": "a" * (app_module.LARGEST_BODY_BYTES + 1)})
        assert client.post("/mcp", headers={**HEADERS, "host": "127.0.0.1"}, content=long).status_code == 413


def opened_by(client: TestClient, user: str = "") -> str:
    """The id of a new session."""
    answer = client.post(
        "/mcp", headers={**HEADERS, "host": "127.0.0.1", "x-user": user}, content=json.dumps(INITIALIZE)
    )
    assert answer.status_code == 200
    return answer.headers["mcp-session-id"]


def is_open(client: TestClient, session: str, user: str = "") -> bool:
    sent = {**HEADERS, "host": "127.0.0.1", "x-user": user, "mcp-session-id": session}
    return client.post("/mcp", headers=sent, content='{"jsonrpc": "2.0", "id": 2, "method": "ping"}').status_code == 200


def test_of_too_many_sessions_the_least_recently_used_ends(
    live: LiveWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "MOST_SESSIONS", 3)
    with TestClient(application(live, host="127.0.0.1", token=None)) as client:
        first, second, third = (opened_by(client) for _ in range(3))
        assert is_open(client, first)
        fourth = opened_by(client)
        assert [is_open(client, session) for session in (first, second, third, fourth)] == [True, False, True, True]
        sent = {**HEADERS, "host": "127.0.0.1", "mcp-session-id": third}
        assert client.delete("/mcp", headers=sent).status_code == 200
        fifth = opened_by(client)
        assert [is_open(client, session) for session in (first, third, fourth, fifth)] == [True, False, True, True]


def test_a_user_who_keeps_opening_sessions_ends_only_their_own(
    live: LiveWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app_module, "MOST_SESSIONS", 3)
    app = app_module.mcp_app(build_server(live), "127.0.0.1", (), [])

    async def signed_in(scope: Any, receive: Any, send: Any) -> None:
        user = dict(scope.get("headers", ())).get(b"x-user", b"").decode()
        access = AccessToken(token="x", client_id=user, scopes=[])
        await app({**scope, "user": AuthenticatedUser(access)}, receive, send)

    with TestClient(signed_in) as client:
        ann = opened_by(client, "ann")
        bens = [opened_by(client, "ben") for _ in range(70)]
        assert is_open(client, ann, "ann")
        assert [is_open(client, session, "ben") for session in bens[-3:]] == [False, True, True]
        assert not is_open(client, ann, "ben")


def test_a_flood_of_messages_is_told_a_few_times_with_a_count(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    handler = calm_log()
    handler.filters = [_RateLimit(lambda: now[0])]
    log = logging.getLogger("a flood")
    log.propagate = False
    log.addHandler(handler)

    def flood(count: int) -> str:
        for number in range(count):
            log.warning("it happened %s times%s", number, "!" * 100_000)
        return capsys.readouterr().err

    try:
        first = flood(500)
        assert first.count("it happened") == 10
        assert len(first) < 50_000, "a message has an end too"
        now[0] = 61.0
        handler.setFormatter(None)
        assert "(490 more like it before)" in flood(1)
    finally:
        log.removeHandler(handler)


def test_an_answer_does_not_wait_for_the_acknowledgement_of_its_head() -> None:
    with app_module.listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
