"""Does an open session keep a right that its user has lost? Each request is judged by the token that it carries."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx2
import pytest

from spec_kit_memory.errors import SpecKitMemoryError
from spec_kit_memory.serve.mcp.team_server import caller_for
from spec_kit_memory.team.rights import Access, Role
from spec_kit_memory.team.static_tokens import BELIEVED_SECONDS
from tests.serve.test_http import HEADERS
from tests.team.test_crossing import KINDS, Served, authority, served

__all__ = ["authority", "served"]  # fixtures

OLDER = "2025-11-25"
NOTE = {"context": {"title": "Kestrel", "sessionSummary": "Kestrels hover."}, "specFolder": "001-shop-vault"}


class Session:
    """A session of the older protocol, which is continued with any token."""

    def __init__(self, served: Served, token: str) -> None:
        self._served = served
        client = {"protocolVersion": OLDER, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        begun = self.post(token, "initialize", client, session="")
        assert begun.status_code == 200, begun.text
        self.id = begun.headers["mcp-session-id"]
        self.post(token, "notifications/initialized", None)

    def post(
        self, token: str, method: str, params: dict[str, Any] | None, session: str | None = None
    ) -> httpx2.Response:
        body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        body |= {} if params is None else {"params": params, "id": 7}
        headers = {**HEADERS, "authorization": f"Bearer {token}", "mcp-protocol-version": OLDER}
        if given := self.id if session is None else session:
            headers["mcp-session-id"] = given
        return self._served.client.post("/mcp", headers=headers, content=json.dumps(body))

    def call(self, token: str, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self.post(token, "tools/call", {"name": tool, "arguments": arguments})
        assert answer.status_code == 200, answer.text
        return self._served.result(answer)


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_gives_no_right_that_the_token_of_the_request_has_not(served: Served, kind: str) -> None:
    writer, reader = served.token(kind, "ana", "writer", "shop"), served.token(kind, "ana", "reader", "shop")
    elsewhere = served.token(kind, "ana", "admin", "bank")
    session = Session(served, writer)
    assert "data" in session.call(writer, "memory_save", **NOTE)
    assert session.call(reader, "memory_save", **NOTE)["code"] == "E011"
    assert "data" in session.call(reader, "memory_search", query="kestrel")
    refused = session.call(elsewhere, "memory_search", query="till", project="shop")
    assert refused["code"] == "E030"
    assert "Kestrel" not in json.dumps(session.call(elsewhere, "memory_list", limit=100))
    others = served.token(kind, "ben", "admin", "shop")
    stolen = session.post(others, "tools/list", {})
    assert stolen.status_code in (403, 404)


def test_a_session_ends_with_its_token(served: Served) -> None:
    token = served.token("static", "ana", "writer", "shop")
    session = Session(served, token)
    served.team.tokens.revoke(max(one.id for one in served.team.tokens.list()))
    until = time.monotonic() + 2 * BELIEVED_SECONDS + 60
    while (answer := session.post(token, "tools/list", {})).status_code == 200:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert answer.status_code == 401
    assert token not in answer.text


@pytest.mark.parametrize("kind", KINDS)
def test_an_undo_takes_back_nothing_that_its_caller_may_not_see(served: Served, kind: str) -> None:
    ana, ben = served.token(kind, "ana", "writer", "shop"), served.token(kind, "ben", "writer", "shop")
    shared = served.call(ben, "memory_save", **NOTE)["data"]["id"]
    served.call(ben, "memory_update", id=shared, title="Falcon")
    own = served.keep_own(ana, "Journal", "My own kestrel.")
    served.call(ana, "memory_update", id=own, title="Diary")
    access = Access(served.user(kind, "ben"), {"shop": Role.WRITER})
    with served.team.projects.use("shop") as workspace:
        hers = caller_for(Access(served.user(kind, "ana"), access.roles), workspace.caller, project="shop")
        newest = workspace.for_caller(hers).changes(limit=1).changes[0]
        assert newest.memory_ids == (own,)
        view = workspace.for_caller(caller_for(access, workspace.caller, project="shop", verb="undo"))
        assert newest.operation not in [row.operation for row in view.changes(limit=100).changes]
        with pytest.raises(SpecKitMemoryError) as refused:
            view.undo(operation=newest.operation)
        assert "diary" not in f"{refused.value.message} {refused.value.details}".lower()
        assert view.undo().memory_ids == (shared,)
    assert 'title: "Diary"' in served.call(ana, "memory_load", memoryId=own)["data"]["text"]
    assert 'title: "Kestrel"' in served.call(ben, "memory_load", memoryId=shared)["data"]["text"]
